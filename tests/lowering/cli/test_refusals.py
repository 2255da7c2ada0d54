"""Bad input of every command: one line on stderr, nothing on stdout, status 2; and what the options of errors show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lowering.cli import main
from lowering.cli.tables import _table_lines, _wrapped
from tests import ROOT

SCRIPT = """
from bound import te
n = te.size_var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
"""
OUTSIDE = SCRIPT.replace("A[i]", "A[i + n]")
SPACE = "from intset import Space\nspace = Space({'t': [1, 2]}, where=['t > 1'])\n"
ROW = {"op": "f", "kind": "load", "vars": [["i", "0", "8"]], "params": [], "conds": [], "exprs": ["i"], "truth": [None]}
FILES = {
    "good.py": SCRIPT,
    "outside.py": OUTSIDE,
    "space.py": SPACE,
    "empty.py": "",
    "broken.py": "s = (",
    "raises.py": "1 / 0",
    "exits.py": "raise SystemExit(3)",
    "cases.py": "CASES = 3",
    "entry.py": "CASES = [3]",
    "bytes.py": b"\xff\xfe",
    "nul.py": b"a\0b",
    "noimport.py": "import no_such_module_anywhere",
    "text.json": "hello",
    "object.json": "{}",
    "number.json": "[3]",
    "missing.json": json.dumps([{"op": "f"}]),
    "kind.json": json.dumps([ROW | {"kind": "other"}]),
    "truth.json": json.dumps([ROW | {"truth": []}]),
    "syntax.json": json.dumps([ROW | {"exprs": ["i +"]}]),
    "unknown.json": json.dumps([ROW | {"exprs": ["k"]}]),
    "twice.json": json.dumps([ROW | {"vars": [["i", "0", "8"], ["i", "0", "8"]]}]),
    "extent.json": json.dumps([ROW | {"vars": [["i", "0"]]}]),
    "condition.json": json.dumps([ROW | {"conds": ["i + 1"]}]),
    "good.json": json.dumps([ROW]),
    "notes.txt": "",
}
BAD = [
    "bounds",
    "bounds nowhere.py",
    "bounds .",
    "bounds notes.txt",
    "bounds --no-such-option good.py",
    "bounds --domain nothing good.py",
    "bounds --domain",
    "bounds --at n good.py",
    "bounds --at n=x good.py",
    "bounds --at =3 good.py",
    "bounds --at n=3 --at n=4 good.py",
    "bounds --at n=3 --at n=3 good.py",
    "bounds --at m=3 good.py",
    "bounds --at n=-3 good.py",
    "bounds empty.py",
    "bounds broken.py",
    "bounds raises.py",
    "bounds exits.py",
    "bounds cases.py",
    "bounds entry.py",
    "bounds bytes.py",
    "bounds nul.py",
    "bounds noimport.py",
    "bounds text.json",
    "bounds object.json",
    "bounds number.json",
    "bounds missing.json",
    "bounds kind.json",
    "bounds truth.json",
    "bounds syntax.json",
    "explain unknown.json",
    "explain twice.json",
    "lower extent.json",
    "lower condition.json",
    "lower outside.py",
    "lower --emit rust good.py",
    "lower --nests some good.py",
    "lower --main good.py",
    "compare --domain auto,nothing good.py",
    "plot good.py --stage Z",
    "plot good.py --at n=8 --axes q",
    "plot good.json",
    "plot nowhere",
    "plot good.py --at n=8 -o nowhere/picture.png",
    "space good.py",
    "space --by q space.py",
    "space --sample -1 space.py",
    "explore space.py --out results",
    "explore good.py",
    "domains --domain auto",
    "nothing",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", BAD)
def test_bad_input_is_one_line_and_status_2(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(line.split())
    captured = capsys.readouterr()
    assert status == 2 and captured.out == ""
    assert captured.err.startswith("intset: error: ") and captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


def test_there_are_forty_bad_inputs() -> None:
    assert len(set(BAD)) >= 40


def test_messages_name_options_as_they_are_spelled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", "outside.py"]) == 2
    message = capsys.readouterr().err
    assert "--unsafe" in message and "unsafe=True" not in message
    assert main(["bounds", "--at", "n=3", "--at", "n=4", "good.py"]) == 2
    assert "--at n is given twice: 3 and 4" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--traceback", "bounds", "raises.py"], ["bounds", "--traceback", "raises.py"]])
def test_a_traceback_is_shown_on_demand(words: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    message = capsys.readouterr().err
    assert "Traceback" in message and "ZeroDivisionError" in message
    assert message.splitlines()[-1].startswith("intset: error: ")


def test_the_nest_and_the_explanation_have_fields(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", "--json", "good.py"]) == 0
    (nest,) = json.loads(capsys.readouterr().out)["files"][0]["schedules"]
    assert [p["tensor"] for p in nest["parameters"]] == ["A", "B"] and nest["parameters"][1]["output"]
    assert nest["sizes"] == ["n"] and nest["loops"][0]["extent"] == "n" and nest["index_bits"] in (32, 64)
    assert main(["explain", "--json", "good.py"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["files"][0]["schedules"]
    by_name = {entry["tensor"]: entry for entry in found["tensors"]}
    assert by_name["A"]["required"]["box"] == [{"min": 0, "extent": "n"}] and by_name["B"]["kind"] == "root"


def test_domains_are_listed_and_a_broken_plugin_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from importlib.metadata import EntryPoint

    from intset import names
    from intset.domains import registry
    from lowering.cli import reports

    points = (EntryPoint("brittle", "no_such_module_anywhere:Domain", names.ENTRY_POINTS),)
    for module in (names, registry, reports):
        monkeypatch.setattr(module, "entry_points", lambda: points)
    assert main(["domains", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["domains"]}
    assert set(names.BUILT_IN) < set(listed) and all(listed[name]["exact_on"] for name in names.BUILT_IN)
    assert "no_such_module_anywhere" in listed["brittle"]["failure"]
    assert main(["domains"]) == 0
    text = capsys.readouterr().out
    assert "skipped" in text and "brittle" in text


# -- width ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", ["bounds", "compare", "explain"])
def test_output_has_the_width_that_columns_says(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = str(ROOT / "examples" / "resnet_conv3x3.py")
    assert main([command, script]) == 0
    free = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([command, script]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert set(" ".join(lines).split()) >= {word for word in free.split() if "[" not in word and "]" not in word}


def test_no_word_is_broken_at_any_width() -> None:
    columns, rows = ("name", "text"), [("a.long.name", "some words [with; brackets] and-hyphens"), ("b", "")]
    words = {"a.long.name", "some", "words", "[with; brackets]", "and-hyphens", "b"}
    for width in range(1, 70):
        lines = list(_table_lines(columns, rows, (), width))
        assert all(any(word in line for line in lines) for word in words), width
        assert width < 30 or max(map(len, lines)) <= width
    assert _wrapped("  a bc d", 5, "    ") == ["  a", "    bc", "    d"]


def test_a_module_and_an_interrupt_while_it_is_imported(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "intset", "--version"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0 and done.stdout.startswith("intset ")
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    environment["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "intset", "domains"], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (130, "intset: error: interrupted\n")


def test_equal_panels_are_one() -> None:
    from lowering.cli.inputs import load_script
    from lowering.cli.plot_data import picture_of

    (entry,) = load_script(ROOT / "examples" / "matmul_cached.py")
    picture = picture_of(entry, {}, ("interval", "stride", "isl", "auto"))
    assert len({(p.required, p.computed, p.box) for p in picture.panels}) == len(picture.panels)
    assert ", ".join(panel.domain for panel in picture.panels).count(",") == 3


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_print_something(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip()

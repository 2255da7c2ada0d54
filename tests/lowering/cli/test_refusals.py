"""Bad input of every command: one line on stderr, nothing on stdout, status 2; and what the options of errors show."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from lowering.cli import main
from lowering.cli.app import app
from lowering.cli.reports import _table_lines, _wrapped
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
    "raises.py": "1 / 0",
    "bytes.py": b"\xff\xfe",
    "nul.py": b"a\0b",
    "odd.py": "class Odd(BaseException): pass\nraise Odd('x')",
    "good.json": json.dumps([ROW]),
    "notes.txt": "",
}
BAD = [
    "bounds --no-such-option good.py", "bounds --domain nothing good.py", "bounds --domain", "bounds --at =3 good.py",
    "bounds --at n=3 --at n=4 good.py", "bounds --at n=3 --at n=3 good.py", "bounds --at m=3 good.py",
    "bounds --at n=-3 good.py", "bounds empty.py", "bounds raises.py", "bounds bytes.py", "bounds nul.py",
    "lower outside.py", "lower --nests some good.py", "lower --main good.py", "compare --domain auto,nothing good.py",
    "plot good.py --stage Z", "plot good.py --at n=8 --axes q", "plot good.json", "plot nowhere",
    "plot good.py --at n=8 -o nowhere/picture.png", "space good.py", "space --by q space.py",
    "space --sample -1 space.py", "explore space.py --out results", "explore good.py", "domains --domain auto",
    "bounds odd.py", "bounds --domain isl --domain auto good.py", "lower --emit c --emit nest good.py",
    "compare --domain , good.py", "plot good.py --at n=8 --by cost", "plot . --stage B", "space --best 3 space.py",
    "space --sample x space.py", "space good.json", f"bounds {'x' * 300}.py", "nothing",
]  # fmt: skip


SPELLED = {
    "bounds --at n=-3 good.py": "good.py: s: --at: the size n cannot be -3",
    "plot --at n=-3 good.py": "--at: the size n cannot be -3",
    "lower --nests auto --nests auto good.py": "--nests is given twice",
    "bounds -d isl -d isl -d isl good.py": "--domain is given 3 times",
    "space --by q space.py": "--by: unknown name 'q' (known: t), in the text 'q'",
    "space --best 3 space.py": "--best counts the members least in an expression: it goes with --by",
    "plot --pareto a,b good.py": "--pareto is of a folder of results, and FILE is a script",
    "plot --compute box .": "--compute is of a script, and FILE is a folder",
    f"bounds {'x' * 300}.py": f"{'x' * 300}.py: File name too long",
    "space good.json": "good.json: a Python script that defines a space is expected",
}
TOLD = {  # a part of the message
    "bounds nowhere.py": "nowhere.py: no such file", "compare nowhere.json": "nowhere.json: no such file",
    "bounds .": "not a file", "bounds notes.txt": ".py", "frobnicate": "frobnicate", "bounds": "FILE",
    "bounds --colour good.py": "--colour", "bounds --at n good.py": "NAME=VALUE",
    "bounds --at n=x good.py": "NAME=VALUE", "lower --emit rust good.py": "'rust'",
    **{
        f"{line} --domain octagon": "'octagon'"
        for line in ("bounds good.json", "compare good.json", "lower good.py", "explain good.json")
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", [*BAD, *TOLD])
def test_bad_input_is_one_line_and_status_2(line: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(line.split())
    captured = capsys.readouterr()
    assert status == 2 and captured.out == "" and TOLD.get(line, "") in captured.err
    assert "octagon" not in line or "interval, stride, modular" in captured.err
    assert captured.err.startswith("intset: error: ") and captured.err.count("\n") == 1
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("name", ["a\nb.py", "a\rb.json", "a\x1b[31mb.py"])
def test_a_name_that_breaks_the_line_is_whole(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bounds", name]) == 2
    shown = name.encode("unicode_escape").decode("ascii")
    assert capsys.readouterr().err == f"intset: error: {shown}: no such file\n"
    (folder / name).write_text("def f(:")
    assert main(["bounds", name]) == 2
    assert capsys.readouterr().err.startswith(f"intset: error: {shown}:")


def test_messages_name_options_as_they_are_spelled(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lower", "outside.py"]) == 2
    message = capsys.readouterr().err
    assert "--unsafe" in message and "unsafe=True" not in message
    assert main(["bounds", "--at", "n=3", "--at", "n=4", "good.py"]) == 2
    assert "--at n is given twice: 3 and 4" in capsys.readouterr().err


@pytest.mark.parametrize("line", SPELLED)
def test_a_refusal_is_spelled_as_the_command_line_is(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if line.startswith("plot --at"):
        pytest.importorskip("matplotlib", reason="the command imports it before it looks at sizes")
    assert main(line.split()) == 2
    assert capsys.readouterr().err == f"intset: error: {SPELLED[line]}\n"


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

    from intset import config
    from intset.config import BUILT_IN, ENTRY_POINTS
    from intset.domains import registry
    from lowering.cli import reports

    points = (EntryPoint("brittle", "no_such_module_anywhere:Domain", ENTRY_POINTS),)
    for module in (config, registry, reports):
        monkeypatch.setattr(module, "entry_points", lambda: points)
    assert main(["domains", "--json"]) == 0
    listed = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)["domains"]}
    assert set(BUILT_IN) < set(listed) and all(listed[name]["exact_on"] for name in BUILT_IN)
    assert "no_such_module_anywhere" in listed["brittle"]["failure"]
    assert main(["domains"]) == 0
    text = capsys.readouterr().out
    assert "skipped" in text and "brittle" in text


# -- width ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize(
    "words", [[], *([name] for name in app.commands)], ids=lambda words: " ".join(words) or "intset"
)
def test_the_manual_has_the_width_that_columns_says(
    words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    assert main([*words, "--help"]) == 0
    free = capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= min(columns, 100)
    assert text.split() == free.split()  # nothing is broken, or left out as "..."


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


@pytest.mark.parametrize("module", ["config", "errors", "facts"])
def test_an_interrupt_in_the_first_moments_is_one_line(module: str, tmp_path: Path) -> None:
    text = (
        "import sys\n"
        "class Finder:\n"
        f"    def find_spec(self, name, *rest):\n        if name == 'intset.{module}': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    (tmp_path / "sitecustomize.py").write_text(text, encoding="utf-8")
    (tmp_path / "intset").write_text("from intset.__main__ import main\nmain()\n", encoding="utf-8")
    (tmp_path / "other").write_text("import intset\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    ways = ((["-m", "intset"], True), ([str(tmp_path / "intset")], True), (["other"], False))
    for words, is_ours in ways if module == "errors" else ways[:1]:
        done = subprocess.run(
            [sys.executable, *words], capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
        )
        assert done.returncode != 0
        assert (done.stderr == "intset: error: interrupted\n") is is_ours, done.stderr


def test_equal_panels_are_one() -> None:
    from lowering.cli.inputs import load_script
    from lowering.cli.plot import picture_of

    (entry,) = load_script(ROOT / "examples" / "matmul_cached.py")
    picture = picture_of(entry, {}, ("interval", "stride", "isl", "auto"))
    assert len({(p.required, p.computed, p.box) for p in picture.panels}) == len(picture.panels)
    assert ", ".join(panel.domain for panel in picture.panels).count(",") == 3


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_print_something(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.strip()

"""The command line: each command on scripts and corpora, its JSON, and one line for bad input."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lowering.cli import main
from tests import ROOT
from tests.sweeps import daily

EXAMPLES = ROOT / "examples"
CORPUS = ROOT / "benchmarks" / "data" / "index_expressions.json"

ROW: dict[str, Any] = {
    "op": "conv",
    "kind": "load",
    "vars": [["i", "0", "8"], ["j", "0", "3"]],
    "params": [],
    "conds": ["i + j < 9"],
    "exprs": ["i * 2 + j"],
    "truth": [[0, 15, None]],
}
SIZED = ROW | {"vars": [["i", "0", "n"], ["j", "0", "m"]], "params": ["n", "m"], "conds": [], "exprs": ["i * m + j"]}
SIZED |= {"truth": [None]}
PREDICATE = ROW | {"kind": "pred", "exprs": ["i * 2 + j < 4"], "truth": ["both"]}

SCRIPT = """
from bound import te
A = te.placeholder((20,), name="A")
B = te.compute((20,), lambda i: A[i] + 1, name="B")
C = te.compute((18,), lambda i: B[i] + B[i + 2], name="C")
s = te.create_schedule(C.op)
xo, xi = s[C].split(C.op.axis[0], 4)
s[B].compute_at(s[C], xo)
"""


SLIDING = """
from bound import te
A = te.placeholder((12, 8), name="A")
B = te.compute((12, 8), lambda y, x: A[y, x] * 2, name="B")
C = te.compute((10, 8), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
s = te.create_schedule(C.op)
s[B].compute_at(s[C], C.op.axis[0])
s[B].store_root()
"""


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    return write(tmp_path / "corpus.json", json.dumps([ROW, SIZED, PREDICATE]))


@pytest.fixture
def script(tmp_path: Path) -> str:
    return write(tmp_path / "blur.py", SCRIPT)


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def output(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    found = main(list(arguments))
    captured = capsys.readouterr()
    assert found == status, captured.err
    assert captured.err == ""
    return captured.out


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    data = json.loads(output(capsys, *arguments, "--json"))
    assert data["version"] == 1 and len(data["files"]) == 1
    return data["files"][0]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr; nothing is on stdout, and the status is 2."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("intset: error: ") and captured.err.count("\n") == 1
    return captured.err


# -- answers ------------------------------------------------------------------------------------------------------


def test_bounds_of_a_corpus(capsys: pytest.CaptureFixture[str], corpus: str) -> None:
    text = output(capsys, "bounds", corpus)
    assert "[0, 15]" in text and "n * m - 1" in text.replace("m * n", "n * m") and "true: both" in text
    assert "\x1b" not in text and "│" not in text  # plain when piped
    rows = report(capsys, "bounds", corpus)["rows"]
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert (rows[0]["min"], rows[0]["max"], rows[0]["tight"]) == (0, 15, True)
    assert rows[2]["holds"] == "both" and rows[2]["fails_at"]["i"] * 2 + rows[2]["fails_at"]["j"] >= 4


def test_what_is_kept_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "sliding.py", SLIDING)
    out = output(capsys, "bounds", path)
    assert "at C.y, kept over C.y" in out and "[0; 3] x [0; 8]" in out
    stages = {stage["stage"]: stage for stage in report(capsys, "bounds", path)["schedules"][0]["stages"]}
    assert stages["B"]["slid"] == ["C.y"] and stages["C"]["slid"] == []
    assert "3 in turn from 0 x 8 from 0, kept while C.y runs" in output(capsys, "explain", path)


def test_bounds_by_another_domain(capsys: pytest.CaptureFixture[str], corpus: str) -> None:
    found = report(capsys, "bounds", "--domain", "interval", corpus)
    assert found["domain"] == "interval" and found["rows"][0]["by"] == "interval"


def test_compare_on_a_corpus(capsys: pytest.CaptureFixture[str], corpus: str) -> None:
    text = output(capsys, "compare", corpus)
    assert all(word in text for word in ("exact", "mean ratio", "sets exact", "wrong", "auto", "interval*modular"))
    found = report(capsys, "compare", "--domain", "interval,auto", corpus)
    assert [row["domain"] for row in found["domains"]] == ["interval", "auto"]
    assert found["domains"][1]["exact"] == 1 and found["violations"] == []
    assert found["predicates"]["decided"] == 1


def test_compare_reports_a_truth_that_is_excluded(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "wrong.json", json.dumps([ROW | {"truth": [[0, 16, None]]}]))
    assert main(["compare", "--domain", "auto", path]) == 1
    assert "WRONG: auto: row 0 (conv)" in capsys.readouterr().out


def test_lower_and_explain_a_corpus(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    row = ROW | {"exprs": ["(i * 2 + j) // 3"], "truth": [[0, 5, None]]}
    path = write(tmp_path / "divisions.json", json.dumps([row]))
    lowered = report(capsys, "lower", path)["rows"][0]
    assert "truncdiv" in lowered["lowered"] and lowered["rules"]
    assert "truncdiv" in output(capsys, "lower", path)
    explained = report(capsys, "explain", path)["rows"][0]
    assert explained["text"] and "row 0 (conv)" in output(capsys, "explain", path)


def test_bounds_of_a_schedule(capsys: pytest.CaptureFixture[str], script: str) -> None:
    assert "i.outer * 4" in output(capsys, "bounds", script)
    schedule = report(capsys, "bounds", script)["schedules"][0]
    assert schedule["name"] == "s"
    stages = {stage["stage"]: stage for stage in schedule["stages"]}
    assert stages["A"]["kind"] == "placeholder" and stages["B"]["attach"] == ["C.i.outer"]
    tensor = stages["B"]["tensors"][0]
    assert tensor["allocated"] == [{"min": "i.outer * 4", "extent": 6}] and tensor["allocated_elements"] == 6
    assert (tensor["required"]["count_max"], tensor["required"]["count_total"]) == (6, 28)
    assert [axis["name"] for axis in stages["C"]["axes"] if axis["leaf"]] == ["i.outer", "i.inner"]


def test_lower_explain_and_compare_a_schedule(capsys: pytest.CaptureFixture[str], script: str) -> None:
    assert "for i.outer in" in output(capsys, "lower", script)
    assert "int32_t" in output(capsys, "lower", "--emit", "c", script)
    assert report(capsys, "lower", script)["schedules"][0]["text"].startswith("def ")
    text = output(capsys, "explain", script)
    assert "C reads B" in text and "  chosen: box, " in text
    rows = report(capsys, "compare", script)["schedules"][0]["tensors"]
    assert [row["tensor"] for row in rows] == ["B", "C"]
    assert rows[0]["domains"]["auto"]["allocated"] == 6


DIVIDES = """
from bound import te
from intset import ShapeVar, Var
n = {size}
A = te.placeholder((9,), name="A")
B = te.compute((100,), lambda i: A[i // n % 9], name="B")
C = te.compute((100,), lambda i: B[i] + 1, name="C")
s = te.create_schedule(C.op)
s[B].compute_inline()
"""


def test_explain_names_the_fact_that_a_division_lacks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "plain.py", DIVIDES.format(size='Var("n")'))
    text = output(capsys, "explain", path)
    assert "For floordiv truncated of i // n, n >= 0 is missing. To state it:" in text and "ShapeVar('n')" in text
    assert text.count("assume=[n >= 0]") == 1 and "n >= 0 is missing, as above" in text
    (entry,) = report(capsys, "explain", path)["schedules"][0]["divisions"]
    assert entry["expr"] == "i // n % 9" and set(entry["missing"]) == {"n >= 0"}
    declared = write(tmp_path / "declared.py", DIVIDES.format(size='ShapeVar("n")'))
    (entry,) = report(capsys, "explain", declared)["schedules"][0]["divisions"]
    assert entry["lowered"] == "truncmod(truncdiv(i, n), 9)" and entry["missing"] == []


def test_nothing_is_missing_that_the_loops_rule_out(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "loop.py", DIVIDES.format(size="5").replace("i // n", "(i - 50) // n"))
    (entry,) = report(capsys, "explain", path)["schedules"][0]["divisions"]
    assert "i >= 50" not in entry["text"] and entry["missing"] == []


def test_lower_carries_divisions_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "flatten_symbolic.py")
    assert "truncmod(i, n)" in output(capsys, "lower", path)
    carried = output(capsys, "lower", "--strength", path)
    assert "truncmod" not in carried and "with q = 0" in carried
    assert "%" not in output(capsys, "lower", "--strength", "--emit", "c", path)


@pytest.mark.parametrize("example", ["resnet_conv3x3", "flatten_symbolic", "softmax_dynamic", "matmul_cached"])
@pytest.mark.parametrize("command", ["bounds", "lower", "explain", "compare"])
def test_the_examples(capsys: pytest.CaptureFixture[str], command: str, example: str) -> None:
    found = report(capsys, command, str(EXAMPLES / f"{example}.py"))
    assert len(found["schedules"]) == 1 and "refused" not in found["schedules"][0]


def test_the_convolution_stores_one_tile_of_its_padded_input(capsys: pytest.CaptureFixture[str]) -> None:
    stages = report(capsys, "bounds", str(EXAMPLES / "resnet_conv3x3.py"))["schedules"][0]["stages"]
    pad = next(stage for stage in stages if stage["stage"] == "pad")
    assert [side["extent"] for side in pad["tensors"][0]["allocated"]] == [1, 8, 16, 16]


def test_sizes_can_be_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(EXAMPLES / "softmax_dynamic.py")
    found = report(capsys, "bounds", "--at", "n=1000", "--at", "rows=32", path)["schedules"][0]
    power = next(stage for stage in found["stages"] if stage["stage"] == "power")
    assert found["at"] == {"n": 1000, "rows": 32} and power["tensors"][0]["allocated_elements"] == 1000


def test_several_schedules_in_one_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = SCRIPT + (
        "t = te.create_schedule(C.op)\n"
        "def schedule():\n    return te.create_schedule(B.op)\n"
        "def refused():\n    x = te.create_schedule([B.op, C.op]); x[C].compute_at(x[B], B.op.axis[0]); return x\n"
        "CASES = [{'name': 'first', 'fn': schedule}, {'name': 'second', 'fn': refused}]\n"
    )
    path = write(tmp_path / "several.py", text)
    found = report(capsys, "bounds", path)["schedules"]
    assert [schedule["name"] for schedule in found] == ["first", "second", "s", "t", "schedule"]
    assert "several.py:13" in found[1]["refused"] and "stages" in found[0]


def test_what_a_script_prints_does_not_reach_stdout(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path / "loud.py", "print('hello')\n" + SCRIPT)
    assert main(["bounds", "--json", path]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out) and captured.err == "hello\n"


def test_json_is_stable(capsys: pytest.CaptureFixture[str], corpus: str, script: str) -> None:
    for command in ("bounds", "lower", "explain"):
        first = output(capsys, command, "--json", script, corpus)
        assert first == output(capsys, command, "--json", script, corpus)


@pytest.mark.parametrize("part", daily(range(5), 5))
def test_the_recorded_schedules(capsys: pytest.CaptureFixture[str], tmp_path: Path, part: int) -> None:
    text = (ROOT / "benchmarks" / "data" / "schedules.py").read_text(encoding="utf-8")
    path = write(tmp_path / "schedules.py", f"{text}\nCASES = CASES[{part}::5]\n")
    found = report(capsys, "bounds", path)["schedules"]
    refused = [schedule["name"] for schedule in found if "refused" in schedule]
    assert len(found) == len(range(part, 109, 5)) and all(name.startswith("reject_") for name in refused)


# -- help and version ---------------------------------------------------------------------------------------------


def test_help_reads_like_a_manual(capsys: pytest.CaptureFixture[str]) -> None:
    text = output(capsys, "--help")
    assert all(word in text for word in ("Examples:", "Domains:", "Exit status:", "corpus.json", "INTSET_DOMAIN"))
    for command in ("bounds", "compare", "lower", "explain"):
        text = output(capsys, command, "--help")
        assert "--domain" in text and "--json" in text and "Example" in text
    text = output(capsys, "lower", "--help")
    assert all(option in text for option in ("--emit", "--compact", "--nests", "--strength", "--at"))


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert output(capsys, "--version").startswith("intset ")


def test_progress_stays_off_stdout_and_piped_stderr(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert report(capsys, "compare", "--domain", "interval", write(tmp_path / "many.json", json.dumps([ROW] * 40)))


def test_compare_without_the_benchmarks_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("benchmarks", "benchmarks.compare"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "checkout" in refusal(capsys, "compare", write(tmp_path / "one.json", json.dumps([ROW])))


# -- bad input ----------------------------------------------------------------------------------------------------


def test_an_error_after_a_good_file_prints_no_json(capsys: pytest.CaptureFixture[str], corpus: str) -> None:
    bad = write(Path(corpus).parent / "bad.json", "[")
    refusal(capsys, "bounds", "--json", corpus, bad)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ not json", "not JSON"),
        ("", "not JSON"),
        ('{"rows": []}', "a list of rows is expected"),
        ("[1]", "row 0: an object is expected"),
        (json.dumps([ROW, {k: v for k, v in ROW.items() if k != "vars"}]), "row 1 (conv): the field 'vars' is missing"),
        (json.dumps([{k: v for k, v in ROW.items() if k != "truth"}]), "row 0 (conv): the field 'truth' is missing"),
        (json.dumps([ROW | {"exprs": "i"}]), "'exprs' must be a list"),
        (json.dumps([ROW | {"exprs": [7]}]), "exprs[0] must be a string"),
        (json.dumps([ROW | {"truth": []}]), "1 exprs but 0 entries"),
        (json.dumps([ROW | {"truth": ["both"]}]), "truth[0]"),
        (json.dumps([ROW | {"kind": "stroe"}]), "unknown kind 'stroe'"),
        (json.dumps([ROW | {"vars": [["i", "0"]]}]), "vars[0]"),
        (json.dumps([ROW | {"vars": [["i", "0", "8"], ["i", "0", "8"]]}]), "the name 'i' is taken"),
        (json.dumps([ROW | {"vars": [["i", "0", "-8"], ["j", "0", "8"]]}]), "must not be negative"),
        (json.dumps([ROW, ROW | {"exprs": ["i +* 2"]}]), "row 1 (conv), exprs[0], position 3"),
        (json.dumps([ROW | {"conds": ["i + q < 2"]}]), "row 0 (conv), conds[0], position 4: unknown name 'q'"),
        (json.dumps([ROW | {"exprs": ["i // 0"]}]), "division by the constant 0"),
        (json.dumps([ROW | {"exprs": ["i < 2"]}]), "an integer expression is expected"),
        (json.dumps([ROW | {"conds": ["i + 2"]}]), "a condition is expected"),
        (json.dumps([ROW | {"exprs": ["i * 1.5"]}]), "1.5 is not an integer"),
    ],
)
@pytest.mark.parametrize("command", ["bounds", "compare"])
def test_a_bad_corpus(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str, message: str
) -> None:
    line = refusal(capsys, command, write(tmp_path / "corpus.json", text))
    assert "corpus.json" in line and message in line


def test_a_corpus_that_is_no_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "corpus.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert "not JSON" in refusal(capsys, "bounds", str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", "script.py:2: the script raised ZeroDivisionError: division by zero"),
        ("def f():\n    raise KeyError('k')\n\nf()\n", "script.py:2: the script raised KeyError"),
        ("import sys\nsys.exit(3)\n", "script.py:2: the script raised SystemExit"),
        ("import nowhere_to_be_found\n", "script.py:1: the script raised ModuleNotFoundError"),
        ("def f(:\n", "script.py:1: not a Python script"),
        ("x = 1\n", "script.py: no schedule found"),
        ("CASES = 3\n", "CASES must be a list"),
        ("CASES = [3]\n", "CASES[0]"),
        ("def schedule():\n    return 3\n", "schedule() must return a Schedule, not int"),
        ("def schedule():\n    return [][0]\n", "script.py:2: the script raised IndexError"),
        ("from bound import te\nte.placeholder((-1,), name='A')\n", "script.py:2"),
    ],
)
def test_a_bad_script(capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(capsys, "bounds", write(tmp_path / "script.py", text))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_that_is_timed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = str(EXAMPLES / "flatten_symbolic.py")
    source = tmp_path / "main.c"
    source.write_text(output(capsys, "lower", "--emit", "c", "--main", "--at", "n=30", script))
    target = str(tmp_path / "program")
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, str(source), "-o", target, "-lm"], check=True)
    first, second = (subprocess.run([target], capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert "seconds a call, checksum" in first and "returned 0" in first
    assert first.split("checksum")[1] == second.split("checksum")[1]
    assert "--main is a program in C" in refusal(capsys, "lower", "--main", script)

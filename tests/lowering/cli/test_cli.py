"""The command line: each command on scripts, corpora and spaces, its JSON, and one line for bad input."""

import itertools
import json
import os
import random
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lowering.cli import main
from lowering.cli.app import app
from lowering.cli.plot import least_by_cell, pareto_front
from lowering.cli.reports import _table_lines, _wrapped
from tests import ROOT
from tests.lowering.cli.conftest import ROW, CommandLine
from tests.sweeps import daily

EXAMPLES = ROOT / "examples"
SIZED = ROW | {"vars": [["i", "0", "n"], ["j", "0", "m"]], "params": ["n", "m"], "conds": [], "exprs": ["i * m + j"]}
SIZED |= {"truth": [None]}
PREDICATE = ROW | {"kind": "pred", "exprs": ["i * 2 + j < 4"], "truth": ["both"]}

BLUR = """
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
ANY_SIZE = """
from bound import te
n = te.size_var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
"""
FILES = {
    "corpus.json": json.dumps([ROW, SIZED, PREDICATE]),
    "one.json": json.dumps([ROW]),
    "blur.py": BLUR,
    "sliding.py": SLIDING,
    "good.py": ANY_SIZE,
    "outside.py": ANY_SIZE.replace("A[i]", "A[i + n]"),
    "space.py": "from intset import Space\nspace = Space({'t': [1, 2]}, where=['t > 1'])\n",
    "empty.py": "",
    "raises.py": "1 / 0",
    "bytes.py": b"\xff\xfe",
    "nul.py": b"a\0b",
    "odd.py": "class Odd(BaseException): pass\nraise Odd('x')",
    "notes.txt": "",
}


@pytest.fixture(autouse=True)
def files(cli: CommandLine) -> None:
    for name, text in FILES.items():
        cli.write(name, text)


# -- answers ------------------------------------------------------------------------------------------------------


def test_bounds_of_a_corpus_and_their_comparison(cli: CommandLine) -> None:
    text = cli("bounds", "corpus.json")
    assert "[0, 15]" in text and "n * m - 1" in text.replace("m * n", "n * m") and "true: both" in text
    assert "\x1b" not in text and "│" not in text  # plain when piped
    rows = cli.report("bounds", "corpus.json")["rows"]
    assert [row["row"] for row in rows] == [0, 1, 2]
    assert (rows[0]["min"], rows[0]["max"], rows[0]["tight"]) == (0, 15, True)
    assert rows[2]["holds"] == "both" and rows[2]["fails_at"]["i"] * 2 + rows[2]["fails_at"]["j"] >= 4
    found = cli.report("bounds", "--domain", "interval", "corpus.json")
    assert found["domain"] == "interval" and found["rows"][0]["by"] == "interval"
    text = cli("compare", "corpus.json")
    assert all(word in text for word in ("exact", "mean ratio", "sets exact", "wrong", "auto", "interval*modular"))
    found = cli.report("compare", "--domain", "interval,auto", "corpus.json")
    assert [row["domain"] for row in found["domains"]] == ["interval", "auto"]
    assert found["domains"][1]["exact"] == 1 and found["violations"] == []
    assert found["predicates"]["decided"] == 1
    wrong = cli.write("wrong.json", json.dumps([ROW | {"truth": [[0, 16, None]]}]))
    assert "WRONG: auto: row 0 (conv)" in cli("compare", "--domain", "auto", wrong, status=1)
    assert cli.report("compare", "--domain", "interval", cli.write("many.json", json.dumps([ROW] * 40)))


def test_bounds_of_a_schedule(cli: CommandLine) -> None:
    assert "i.outer * 4" in cli("bounds", "blur.py")
    schedule = cli.report("bounds", "blur.py")["schedules"][0]
    assert schedule["name"] == "s"
    stages = {stage["stage"]: stage for stage in schedule["stages"]}
    assert stages["A"]["kind"] == "placeholder" and stages["B"]["attach"] == ["C.i.outer"]
    tensor = stages["B"]["tensors"][0]
    assert tensor["allocated"] == [{"min": "i.outer * 4", "extent": 6}] and tensor["allocated_elements"] == 6
    assert (tensor["required"]["count_max"], tensor["required"]["count_total"]) == (6, 28)
    assert [axis["name"] for axis in stages["C"]["axes"] if axis["leaf"]] == ["i.outer", "i.inner"]
    out = cli("bounds", "sliding.py")
    assert "at C.y, kept over C.y" in out and "[0; 3] x [0; 8]" in out
    stages = {stage["stage"]: stage for stage in cli.report("bounds", "sliding.py")["schedules"][0]["stages"]}
    assert stages["B"]["slid"] == ["C.y"] and stages["C"]["slid"] == []
    assert "3 in turn from 0 x 8 from 0, kept while C.y runs" in cli("explain", "sliding.py")
    stages = cli.report("bounds", EXAMPLES / "resnet_conv3x3.py")["schedules"][0]["stages"]
    pad = next(stage for stage in stages if stage["stage"] == "pad")
    assert [side["extent"] for side in pad["tensors"][0]["allocated"]] == [1, 8, 16, 16]
    found = cli.report("bounds", "--at", "n=1000", "--at", "rows=32", EXAMPLES / "softmax_dynamic.py")["schedules"][0]
    power = next(stage for stage in found["stages"] if stage["stage"] == "power")
    assert found["at"] == {"n": 1000, "rows": 32} and power["tensors"][0]["allocated_elements"] == 1000


def test_lower_explain_and_compare(cli: CommandLine) -> None:
    assert "for i.outer in" in cli("lower", "blur.py") and "int32_t" in cli("lower", "--emit", "c", "blur.py")
    assert cli.report("lower", "blur.py")["schedules"][0]["text"].startswith("def ")
    text = cli("explain", "blur.py")
    assert "C reads B" in text and "  chosen: box, " in text
    rows = cli.report("compare", "blur.py")["schedules"][0]["tensors"]
    assert [row["tensor"] for row in rows] == ["B", "C"] and rows[0]["domains"]["auto"]["allocated"] == 6
    (nest,) = cli.report("lower", "good.py")["schedules"]
    assert [p["tensor"] for p in nest["parameters"]] == ["A", "B"] and nest["parameters"][1]["output"]
    assert nest["sizes"] == ["n"] and nest["loops"][0]["extent"] == "n" and nest["index_bits"] in (32, 64)
    (found,) = cli.report("explain", "good.py")["schedules"]
    by_name = {entry["tensor"]: entry for entry in found["tensors"]}
    assert by_name["A"]["required"]["box"] == [{"min": 0, "extent": "n"}] and by_name["B"]["kind"] == "root"
    row = ROW | {"exprs": ["(i * 2 + j) // 3"], "truth": [[0, 5, None]]}
    path = cli.write("divisions.json", json.dumps([row]))
    lowered = cli.report("lower", path)["rows"][0]
    assert "truncdiv" in lowered["lowered"] and lowered["rules"] and "truncdiv" in cli("lower", path)
    assert cli.report("explain", path)["rows"][0]["text"] and "row 0 (conv)" in cli("explain", path)
    path = EXAMPLES / "flatten_symbolic.py"
    assert "truncmod(i, n)" in cli("lower", path)
    carried = cli("lower", "--strength", path)
    assert "truncmod" not in carried and "with q = 0" in carried
    assert "%" not in cli("lower", "--strength", "--emit", "c", path)


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


def test_explain_names_the_fact_that_a_division_lacks(cli: CommandLine) -> None:
    path = cli.write("plain.py", DIVIDES.format(size='Var("n")'))
    text = cli("explain", path)
    assert "For floordiv truncated of i // n, n >= 0 is missing. To state it:" in text and "ShapeVar('n')" in text
    assert text.count("assume=[n >= 0]") == 1 and "n >= 0 is missing, as above" in text
    (entry,) = cli.report("explain", path)["schedules"][0]["divisions"]
    assert entry["expr"] == "i // n % 9" and set(entry["missing"]) == {"n >= 0"}
    declared = cli.write("declared.py", DIVIDES.format(size='ShapeVar("n")'))
    (entry,) = cli.report("explain", declared)["schedules"][0]["divisions"]
    assert entry["lowered"] == "truncmod(truncdiv(i, n), 9)" and entry["missing"] == []
    shifted = cli.write("loop.py", DIVIDES.format(size="5").replace("i // n", "(i - 50) // n"))
    (entry,) = cli.report("explain", shifted)["schedules"][0]["divisions"]
    assert "i >= 50" not in entry["text"] and entry["missing"] == []  # the loops rule it out


@pytest.mark.parametrize("example", ["resnet_conv3x3", "flatten_symbolic", "softmax_dynamic", "matmul_cached"])
@pytest.mark.parametrize("command", ["bounds", "lower", "explain", "compare"])
def test_the_examples(cli: CommandLine, command: str, example: str) -> None:
    found = cli.report(command, EXAMPLES / f"{example}.py")
    assert len(found["schedules"]) == 1 and "refused" not in found["schedules"][0]


def test_several_schedules_in_one_script_whose_prints_do_not_reach_stdout(cli: CommandLine) -> None:
    text = BLUR + (
        "t = te.create_schedule(C.op)\n"
        "def schedule():\n    return te.create_schedule(B.op)\n"
        "def refused():\n    x = te.create_schedule([B.op, C.op]); x[C].compute_at(x[B], B.op.axis[0]); return x\n"
        "CASES = [{'name': 'first', 'fn': schedule}, {'name': 'second', 'fn': refused}]\n"
    )
    found = cli.report("bounds", cli.write("several.py", text))["schedules"]
    assert [schedule["name"] for schedule in found] == ["first", "second", "s", "t", "schedule"]
    assert "several.py:13" in found[1]["refused"] and "stages" in found[0]
    assert main(["bounds", "--json", cli.write("loud.py", "print('hello')\n" + BLUR)]) == 0
    captured = cli.capsys.readouterr()
    assert json.loads(captured.out) and captured.err == "hello\n"
    # What the script prints goes to stderr; numbers that JSON lacks are null.
    pytest.importorskip("pyarrow")
    chatty = (
        "space = [{'a': k} for k in range(3)]\n"
        "def make(config):\n    print('here')\n    return {'x': config['a'], 'far': float('inf'), 'no': float('nan')}\n"
    )
    words = ["explore", cli.write("chatty.py", chatty), "--out", "out", "--json", "--best", "1"]
    assert main(words) == 0
    report = json.loads(cli.capsys.readouterr().out)
    assert report["best"] == [{"a": 0, "x": 0, "far": None, "no": None}]


@pytest.mark.parametrize("command", ["bounds", "lower", "explain"])
def test_json_is_stable(cli: CommandLine, command: str) -> None:
    first = cli(command, "--json", "blur.py", "corpus.json")
    assert first == cli(command, "--json", "blur.py", "corpus.json")


@pytest.mark.parametrize("part", daily(range(5), 5))
def test_the_recorded_schedules(cli: CommandLine, part: int) -> None:
    text = (ROOT / "benchmarks" / "data" / "schedules.py").read_text(encoding="utf-8")
    found = cli.report("bounds", cli.write("schedules.py", f"{text}\nCASES = CASES[{part}::5]\n"))["schedules"]
    refused = [schedule["name"] for schedule in found if "refused" in schedule]
    assert len(found) == len(range(part, 109, 5)) and all(name.startswith("reject_") for name in refused)


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_program_that_is_timed(cli: CommandLine) -> None:
    script = EXAMPLES / "flatten_symbolic.py"
    cli.write("main.c", cli("lower", "--emit", "c", "--main", "--at", "n=30", script))
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "main.c", "-o", "program", "-lm"], check=True)
    first, second = (subprocess.run(["./program"], capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert "seconds a call, checksum" in first and "returned 0" in first
    assert first.split("checksum")[1] == second.split("checksum")[1]
    assert "--main is a program in C" in cli.refusal("lower", "--main", script)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_print_something(path: Path, cli: CommandLine) -> None:
    runpy.run_path(str(path), run_name="__main__")
    assert cli.capsys.readouterr().out.strip()


# -- help, version, domains, width --------------------------------------------------------------------------------


def test_help_reads_like_a_manual_and_no_word_is_broken(cli: CommandLine) -> None:
    text = cli("--help")
    assert all(word in text for word in ("Examples:", "Domains:", "Exit status:", "corpus.json", "INTSET_DOMAIN"))
    for command in ("bounds", "compare", "lower", "explain"):
        text = cli(command, "--help")
        assert "--domain" in text and "--json" in text and "Example" in text
    text = cli("lower", "--help")
    assert all(option in text for option in ("--emit", "--compact", "--nests", "--strength", "--at"))
    assert cli("--version").startswith("intset ")
    columns, rows = ("name", "text"), [("a.long.name", "some words [with; brackets] and-hyphens"), ("b", "")]
    words = {"a.long.name", "some", "words", "[with; brackets]", "and-hyphens", "b"}
    for width in range(1, 70):
        lines = list(_table_lines(columns, rows, (), width))
        assert all(any(word in line for line in lines) for word in words), width
        assert width < 30 or max(map(len, lines)) <= width
    assert _wrapped("  a bc d", 5, "    ") == ["  a", "    bc", "    d"]


def test_domains_are_listed_and_a_broken_plugin_is_named(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from intset import config
    from intset.config import BUILT_IN, ENTRY_POINTS
    from intset.domains import registry
    from lowering.cli import reports

    points = (EntryPoint("brittle", "no_such_module_anywhere:Domain", ENTRY_POINTS),)
    for module in (config, registry, reports):
        monkeypatch.setattr(module, "entry_points", lambda: points)
    listed = {entry["name"]: entry for entry in cli.json("domains")["domains"]}
    assert set(BUILT_IN) < set(listed) and all(listed[name]["exact_on"] for name in BUILT_IN)
    assert "no_such_module_anywhere" in listed["brittle"]["failure"]
    text = cli("domains")
    assert "skipped" in text and "brittle" in text


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("words", [[], *([name] for name in app.commands)], ids=" ".join)
def test_the_manual_has_the_width_that_columns_says(
    words: list[str], columns: int, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    free = cli(*words, "--help")
    monkeypatch.setenv("COLUMNS", str(columns))
    text = cli(*words, "--help")
    assert max(map(len, text.splitlines())) <= min(columns, 100)
    assert text.split() == free.split()  # nothing is broken, or left out as "..."


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", ["bounds", "compare", "explain"])
def test_output_has_the_width_that_columns_says(
    command: str, columns: int, monkeypatch: pytest.MonkeyPatch, cli: CommandLine
) -> None:
    free = cli(command, EXAMPLES / "resnet_conv3x3.py")
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = cli(command, EXAMPLES / "resnet_conv3x3.py").splitlines()
    assert max(map(len, lines)) <= columns
    assert set(" ".join(lines).split()) >= {word for word in free.split() if "[" not in word and "]" not in word}


# -- bad input ----------------------------------------------------------------------------------------------------


def test_compare_without_the_benchmarks_is_one_line(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("benchmarks", "benchmarks.compare"):
        monkeypatch.setitem(sys.modules, name, None)
    assert "checkout" in cli.refusal("compare", "one.json")


def without(field: str) -> dict[str, Any]:
    return {key: value for key, value in ROW.items() if key != field}


CORPORA: list[tuple[Any, str]] = [  # a text or rows, and a part of the message
    ("{ not json", "not JSON"),
    ("", "not JSON"),
    (b"\xff\xfe\x00", "not JSON"),
    ('{"rows": []}', "a list of rows is expected"),
    ("[1]", "row 0: an object is expected"),
    ([ROW, without("vars")], "row 1 (conv): the field 'vars' is missing"),
    ([without("truth")], "row 0 (conv): the field 'truth' is missing"),
    ([ROW | {"exprs": "i"}], "'exprs' must be a list"),
    ([ROW | {"exprs": [7]}], "exprs[0] must be a string"),
    ([ROW | {"truth": []}], "1 exprs but 0 entries"),
    ([ROW | {"truth": ["both"]}], "truth[0]"),
    ([ROW | {"kind": "stroe"}], "unknown kind 'stroe'"),
    ([ROW | {"vars": [["i", "0"]]}], "vars[0]"),
    ([ROW | {"vars": [["i", "0", "8"], ["i", "0", "8"]]}], "the name 'i' is taken"),
    ([ROW | {"vars": [["i", "0", "-8"], ["j", "0", "8"]]}], "must not be negative"),
    ([ROW, ROW | {"exprs": ["i +* 2"]}], "row 1 (conv), exprs[0], position 3"),
    ([ROW | {"conds": ["i + q < 2"]}], "row 0 (conv), conds[0], position 4: unknown name 'q'"),
    ([ROW | {"exprs": ["i // 0"]}], "division by the constant 0"),
    ([ROW | {"exprs": ["i < 2"]}], "an integer expression is expected"),
    ([ROW | {"conds": ["i + 2"]}], "a condition is expected"),
    ([ROW | {"exprs": ["i * 1.5"]}], "1.5 is not an integer"),
]


@pytest.mark.parametrize(("rows", "message"), CORPORA)
@pytest.mark.parametrize("command", ["bounds", "compare"])
def test_a_bad_corpus(cli: CommandLine, command: str, rows: Any, message: str) -> None:
    bad = cli.write("bad.json", json.dumps(rows) if isinstance(rows, list) else rows)
    line = cli.refusal(command, "--json", "corpus.json", bad)  # the answers of the good file are not printed
    assert "bad.json" in line and message in line


SCRIPTS = [  # the command, a script, and a part of the message
    ("bounds", "x = 1\ny = x / 0\n", "script.py:2: the script raised ZeroDivisionError: division by zero"),
    ("bounds", "def f():\n    raise KeyError('k')\n\nf()\n", "script.py:2: the script raised KeyError"),
    ("bounds", "import sys\nsys.exit(3)\n", "script.py:2: the script raised SystemExit"),
    ("bounds", "import nowhere_to_be_found\n", "script.py:1: the script raised ModuleNotFoundError"),
    ("bounds", "def f(:\n", "script.py:1: not a Python script"),
    ("bounds", "x = 1\n", "script.py: no schedule found"),
    ("bounds", "CASES = 3\n", "CASES must be a list"),
    ("bounds", "CASES = [3]\n", "CASES[0]"),
    ("bounds", "def schedule():\n    return 3\n", "schedule() must return a Schedule, not int"),
    ("bounds", "def schedule():\n    return [][0]\n", "script.py:2: the script raised IndexError"),
    ("bounds", "from bound import te\nte.placeholder((-1,), name='A')\n", "script.py:2"),
    ("space", "x = 3", "define space = Space"),
    ("space", "space = 3", "space must be a Space, not 3"),
    ("space", "space = 1 +", "not a Python script"),
    ("space", "space = 1 // 0", "ZeroDivisionError"),
]


@pytest.mark.parametrize(("command", "text", "message"), SCRIPTS)
def test_a_bad_script(cli: CommandLine, command: str, text: str, message: str) -> None:
    assert message in cli.refusal(command, cli.write("script.py", text))


BAD = [
    "bounds --no-such-option good.py", "bounds --domain nothing good.py", "bounds --domain", "bounds --at =3 good.py",
    "bounds --at n=3 --at n=3 good.py", "bounds --at m=3 good.py", "bounds empty.py", "bounds raises.py",
    "bounds bytes.py", "bounds nul.py", "lower --nests some good.py", "lower --main good.py",
    "compare --domain auto,nothing good.py", "plot good.py --stage Z", "plot good.py --at n=8 --axes q",
    "plot one.json", "plot nowhere", "plot good.py --at n=8 -o nowhere/picture.png", "space good.py",
    "space --sample -1 space.py", "explore space.py --out results", "explore good.py", "domains --domain auto",
    "bounds odd.py", "bounds --domain isl --domain auto good.py", "lower --emit c --emit nest good.py",
    "compare --domain , good.py", "plot good.py --at n=8 --by cost", "plot . --stage B", "space --sample x space.py",
    "nothing",
]  # fmt: skip
SPELLED = {
    "bounds --at n=-3 good.py": "good.py: s: --at: the size n cannot be -3",
    "plot --at n=-3 good.py": "--at: the size n cannot be -3",
    "lower --nests auto --nests auto good.py": "--nests is given twice",
    "bounds -d isl -d isl -d isl good.py": "--domain is given 3 times",
    "compare -d interval,interval one.json": "--domain names 'interval' twice",
    "plot -d isl -d auto,isl,isl good.py": "--domain names 'isl' 3 times",
    "space --by q space.py": "--by: unknown name 'q' (known: t), in the text 'q'",
    "space --best 3 space.py": "--best counts the members least in an expression: it goes with --by",
    "plot --pareto a,b good.py": "--pareto is of a folder of results, and FILE is a script",
    "plot --compute box .": "--compute is of a script, and FILE is a folder",
    f"bounds {'x' * 300}.py": f"{'x' * 300}.py: File name too long",
    "space one.json": "one.json: a Python script that defines a space is expected",
}
TOLD = {  # a part of the message
    "bounds nowhere.py": "nowhere.py: no such file", "compare nowhere.json": "nowhere.json: no such file",
    "bounds .": "not a file", "bounds notes.txt": ".py", "frobnicate": "frobnicate", "bounds": "FILE",
    "bounds --colour good.py": "--colour", "bounds --at n good.py": "NAME=VALUE",
    "bounds --at n=x good.py": "NAME=VALUE", "lower --emit rust good.py": "'rust'", "lower outside.py": "--unsafe",
    "bounds --at n=3 --at n=4 good.py": "--at n is given twice: 3 and 4",
    **{
        f"{line} --domain octagon": "'octagon'"
        for line in ("bounds one.json", "compare one.json", "lower good.py", "explain one.json")
    },
}  # fmt: skip


@pytest.mark.parametrize("line", [*BAD, *TOLD])
def test_bad_input_is_one_line_and_status_2(line: str, cli: CommandLine) -> None:
    message = cli.refusal(*line.split())
    assert TOLD.get(line, "") in message and "unsafe=True" not in message
    assert "octagon" not in line or "interval, stride, modular" in message


@pytest.mark.parametrize("line", SPELLED)
def test_a_refusal_is_spelled_as_the_command_line_is(line: str, cli: CommandLine) -> None:
    if line.startswith("plot --at"):
        pytest.importorskip("matplotlib", reason="the command imports it before it looks at sizes")
    assert cli.refusal(*line.split()) == f"intset: error: {SPELLED[line]}\n"


@pytest.mark.parametrize("name", ["a\nb.py", "a\rb.json", "a\x1b[31mb.py"])
def test_a_name_that_breaks_the_line_is_whole(name: str, cli: CommandLine) -> None:
    shown = name.encode("unicode_escape").decode("ascii")
    assert cli.refusal("bounds", name) == f"intset: error: {shown}: no such file\n"
    assert cli.refusal("bounds", cli.write(name, "def f(:")).startswith(f"intset: error: {shown}:")


@pytest.mark.parametrize("words", [["--traceback", "bounds", "raises.py"], ["bounds", "--traceback", "raises.py"]])
def test_a_traceback_is_shown_on_demand(words: list[str], cli: CommandLine) -> None:
    assert main(words) == 2
    message = cli.capsys.readouterr().err
    assert "Traceback" in message and "ZeroDivisionError" in message
    assert message.splitlines()[-1].startswith("intset: error: ")


def in_a_process(words: list[str], folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, env=environment, cwd=folder, check=False
    )


def test_a_module_and_an_interrupt_while_it_is_imported(tmp_path: Path) -> None:
    done = in_a_process(["-m", "intset", "--version"], tmp_path, str(ROOT))
    assert done.returncode == 0 and done.stdout.startswith("intset ")
    (tmp_path / "click.py").write_text("raise KeyboardInterrupt\n", encoding="utf-8")
    done = in_a_process(["-m", "intset", "domains"], tmp_path, f"{tmp_path}{os.pathsep}{ROOT}")
    assert (done.returncode, done.stderr) == (130, "intset: error: interrupted\n")


@pytest.mark.parametrize("module", ["config", "installation", "facts"])
def test_an_interrupt_in_the_first_moments_is_one_line(module: str, cli: CommandLine) -> None:
    text = (
        "import sys\n"
        "class Finder:\n"
        f"    def find_spec(self, name, *rest):\n        if name == 'intset.{module}': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    cli.write("sitecustomize.py", text)
    cli.write("intset", "from intset.__main__ import main\nmain()\n")
    cli.write("other", "import intset\n")
    ways = ((["-m", "intset"], True), ([str(cli.folder / "intset")], True), (["other"], False))
    for words, is_ours in ways if module == "installation" else ways[:1]:
        done = in_a_process(words, cli.folder, f"{cli.folder}{os.pathsep}{ROOT}")
        assert done.returncode != 0
        assert (done.stderr == "intset: error: interrupted\n") is is_ours, done.stderr


# -- spaces and explorations --------------------------------------------------------------------------------------


COSTS = """
from intset import Space
space = Space({"a": range(1, 7), "b": [1, 2, 4], "wide": [False, True]}, where=["a * b <= 12", "a % b == 0 or wide"])
BASE = 100

def make(config):
    if config["a"] == 5:
        raise ValueError("five")
    return config

def measure(config):
    return {"cost": BASE - config["a"] * config["b"], "size": config["a"] + config["b"]}
"""
MEMBERS = [
    (a, b, wide)
    for a, b, wide in itertools.product(range(1, 7), (1, 2, 4), (False, True))
    if a * b <= 12 and (a % b == 0 or wide)
]


def test_a_space_is_counted_and_its_best_listed(cli: CommandLine) -> None:
    script = cli.write("costs.py", COSTS)
    report = cli.json("space", script, "--by", "a * b - wide", "--best", 4)
    assert report["count"] == len(MEMBERS) and report["names"]["b"] == [1, 2, 4]
    values = [row["a"] * row["b"] - row["wide"] for row in report["best"]]
    assert values == sorted(a * b - wide for a, b, wide in MEMBERS)[:4]
    assert all((row["a"], row["b"], row["wide"]) in MEMBERS for row in report["sample"]) and len(report["sample"]) == 5
    assert f"{len(MEMBERS)} configurations" in cli("space", script)
    assert cli.json("space", EXAMPLES / "conv_tilings.py")["count"] == 60
    none = cli.write("none.py", "from intset import Space\nspace = Space({'a': [1, 2]}, where=['a > 5'])\n")
    report = cli.json("space", none, "--by", "a")
    assert report["count"] == 0 and report["contradiction"] and report["best"] == report["sample"] == []


@pytest.mark.parametrize("jobs", [[], ["--jobs", "2"]])
def test_an_exploration_ends_with_its_best(jobs: list[str], cli: CommandLine) -> None:
    pytest.importorskip("pyarrow")
    words = ["explore", cli.write("costs.py", COSTS), "--out", "out", "--best", 3, *jobs]
    report = cli.json(*words)
    good = [(a, b, wide) for a, b, wide in MEMBERS if a != 5]
    assert (report["configurations"], report["failed"]) == (len(MEMBERS), len(MEMBERS) - len(good))
    assert [row["cost"] for row in report["best"]] == sorted(100 - a * b for a, b, _ in good)[:3]
    assert report["failures"][0]["error"] == "ValueError: five"
    assert cli.json(*words)["added"] == 0
    assert cli.json(*words, "--strict", status=1)["failed"] == report["failed"]
    assert [r["size"] for r in cli.json(*words, "--by", "size", "--largest")["best"]] == [8, 8, 7]
    cli.write("costs.py", COSTS.replace("range(1, 7)", "range(1, 8)"))  # another space, the same functions
    assert cli.json(*words)["added"] > 0
    cli.write("costs.py", COSTS.replace("BASE = 100", "BASE = 200"))
    assert "has results of another measure" in cli.refusal(*words)
    assert cli.json(*words, "--fresh")["best"][0]["cost"] == min(200 - a * b for a, b, _ in good)
    assert "the best by cost" in cli(*words)


def test_results_are_drawn(cli: CommandLine) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("matplotlib")
    cli.json("explore", cli.write("costs.py", COSTS), "--out", "out")
    for words, name in ((["--axes", "a,b", "--by", "size"], "heat.svg"), (["--pareto", "cost,size"], "front.png")):
        cli("plot", "out", *words, "-o", name)
        assert (cli.folder / name).stat().st_size > 2000
    assert "least size" in (cli.folder / "heat.svg").read_text()
    for folder, words, message in (
        ("out", ["--axes", "a"], "--axes takes two of the names a, b, wide"),
        ("out", ["--by", "nothing"], "unknown column"),
        ("out", ["--pareto", "cost"], "--pareto takes two values"),
        (".", [], "no exploration is there"),
    ):
        assert message in cli.refusal("plot", folder, *words, "-o", "x.png")


def test_the_pareto_front_equals_pairwise_comparison() -> None:
    rng = random.Random(7)
    for _ in range(200):
        rows = [{"x": rng.randrange(8), "y": rng.randrange(8), "k": k} for k in range(rng.randrange(1, 30))]

        def beaten(row: dict[str, int], rows: list[dict[str, int]] = rows) -> bool:
            others = ((other["x"] - row["x"], other["y"] - row["y"]) for other in rows)
            return any(dx <= 0 and dy <= 0 and (dx, dy) != (0, 0) for dx, dy in others)

        wanted = {row["k"] for row in rows if not beaten(row)}
        assert {row["k"] for row in pareto_front(rows, "x", "y")} == wanted
        ys, xs, cells = least_by_cell(rows, "y", "x", "k")
        for y, x in itertools.product(range(len(ys)), range(len(xs))):
            inside = [row["k"] for row in rows if (row["y"], row["x"]) == (ys[y], xs[x])]
            assert cells[y][x] == min(inside) if inside else cells[y][x] != cells[y][x]

"""Outputs of the command line: pipes that no one reads, closed streams, encodings, terminals."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pytest

from intset.expr.printer import visible
from lowering.cli.app import run
from tests import ROOT
from tests.lowering.cli.conftest import ROW
from tests.sweeps import daily

Stream = Literal["open", "unread", "closed"]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_DRIVER = """
import gc, json, os, sys
from lowering.cli import app, main

def unread():
    reader, writer = os.pipe()
    os.close(reader)
    return writer

def directed(number, name, how, file):
    if how == "closed":
        os.close(number)
        setattr(sys, name, None)  # as the interpreter starts with it
    else:
        os.dup2(unread() if how == "unread" else os.open(file, os.O_WRONLY | os.O_CREAT), number)

asked = json.loads(sys.argv[1])
directed(1, "stdout", "open", f"{sys.argv[2]}/stdout")
directed(2, "stderr", "open", f"{sys.argv[2]}/stderr")
for words in {tuple(words) for words, _, _ in asked if "explore" not in words}:  # its threads survive no fork
    main(words)  # what a command imports is imported once, for all processes
sys.stdout.flush()
gc.freeze()  # else every process that ends looks at all that was imported
statuses = []
for k, (words, out, err) in enumerate(asked):
    child = os.fork()
    if not child:
        directed(1, "stdout", out, f"{sys.argv[2]}/{k}.out")
        directed(2, "stderr", err, f"{sys.argv[2]}/{k}.err")
        sys.exit(main(words))
    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
open(f"{sys.argv[2]}/statuses", "w").write(json.dumps(statuses))
"""


@dataclass(frozen=True)
class Line:
    """A command line and its streams: each stream is a file, a pipe without reader, or closed."""

    words: tuple[str, ...]
    out: Stream = "open"
    err: Stream = "open"


@dataclass(frozen=True)
class Done:
    status: int
    out: bytes
    err: bytes


def done(lines: Sequence[Line], folder: Path, logs: Path, **environment: str) -> list[Done]:
    """Run the lines one after another in `folder`; their output is kept in the folder `logs`."""
    logs.mkdir()
    asked: list[Any] = [(line.words, line.out, line.err) for line in lines]
    driver = subprocess.run(
        [sys.executable, "-c", _DRIVER, json.dumps(asked), str(logs)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert driver.returncode == 0, driver.stderr or (logs / "stderr").read_text(encoding="utf-8")
    statuses: list[int] = json.loads((logs / "statuses").read_text(encoding="utf-8"))

    def printed(k: int, name: str) -> bytes:
        path = logs / f"{k}.{name}"
        return path.read_bytes() if path.exists() else b""

    return [Done(status, printed(k, "out"), printed(k, "err")) for k, status in enumerate(statuses)]


SCRIPT = """
from bound import te
print("the script says something")
n = te.size_var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] + 1, name="B")
s = te.create_schedule(B.op)
"""
SPACE = """
from intset import Space
print("the space says something")
space = Space({'t': [1, 2]}, where=['t > 0'])
def make(configuration):
    print("a measure says something")
    return {"cost": configuration["t"]}
"""
FILES = {
    "good.py": SCRIPT,
    "space.py": SPACE,
    "empty.py": "",
    "warns.py": f"import warnings\nwarnings.warn('careful')\n{SCRIPT}",
    "good.json": json.dumps([ROW]),
}
DAILY = ["", "nothing", "bounds warns.py"]
AT_NIGHT = [
    "--help", "--traceback bounds empty.py", "bounds --json good.py good.json", "lower good.py",
    "lower --emit c --json good.py", "explain good.json", "compare --domain interval good.py", "space space.py",
    "domains --json",
    *["explore space.py --out results --fresh"] * bool(find_spec("pyarrow")),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def timeless(answer: Done) -> Done:
    return Done(answer.status, re.sub(rb"[0-9.]+ s\b", b"", answer.out), answer.err)


@needs_fork
@pytest.mark.parametrize("lines", daily([DAILY, AT_NIGHT], 2), ids=len)
def test_no_command_minds_an_output_that_is_not_read(folder: Path, lines: list[str]) -> None:
    """Without a reader of stderr, answers and status are the same; without stdout, the message on stderr."""
    streams: list[tuple[Stream, Stream]] = [("open",) * 2, ("unread", "open"), ("open", "unread"), ("closed",) * 2]
    asked = [Line(tuple(line.split()), out, err) for line in lines for out, err in streams]
    answers = iter(done(asked, folder, folder / "logs"))
    for line in lines:
        plain, headless, mute, closed = (next(answers) for _ in streams)
        assert plain.out or plain.err, line
        mute, plain = timeless(mute), timeless(plain)
        assert mute == Done(plain.status, plain.out, b""), line
        assert headless.err == plain.err, line
        assert headless.status == (0 if plain.out else plain.status), line
        assert closed.status == plain.status, line


@needs_fork
def test_names_that_the_output_cannot_encode_are_escaped(folder: Path) -> None:
    (folder / "größe.py").write_text(SCRIPT, encoding="utf-8")
    (answer,) = done([Line(("bounds", "größe.py"))], folder, folder / "logs", PYTHONIOENCODING="ascii")
    assert answer.status == 0 and answer.out.startswith(b"gr\\xf6\\xdfe.py: s\n")


@pytest.mark.skipif(os.name == "nt", reason="no such shell")
def test_a_reader_that_leaves(folder: Path) -> None:
    """In a shell's own words, once: `head` reads a line of a long output, and the streams are closed from the start."""
    for line in (f"'{sys.executable}' -m intset | head -1", f"'{sys.executable}' -m intset domains 2>&- >&-"):
        ran = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder
        )
        assert (ran.returncode, ran.stderr) == (0, "") and ran.stdout.count("\n") <= 1, line


ESCAPE = "\x1b[31mred\x1b]0;title\x07\x9b2J\r\x08"


def script(name):
    return (
        "from bound import te\n"
        f"A = te.placeholder((20,), name={name!r})\n"
        f"B = te.compute((18,), lambda i: A[i] + A[i + 2], name='B' + {name!r})\n"
        f"s = te.create_schedule(B.op)\n"
    )


@pytest.mark.parametrize("command", ["bounds", "lower", "explain", "compare"])
@pytest.mark.parametrize("kind", ["names", "text", "broken", "file name", "script"])
def test_no_character_of_a_file_reaches_the_terminal_raw(command, kind, tmp_path, capsys):
    row = {"op": f"op{ESCAPE}", "vars": {"i": [0, 8]}, "exprs": ["i * 2"], "facts": []}
    name = "corpus.json"
    if kind == "text":
        row["exprs"] = [f"i * {ESCAPE}"]
    elif kind == "broken":
        row = {f"key{ESCAPE}": ESCAPE}
    elif kind == "file name":
        name = "cor\x1b[31mpus.json"
    path = tmp_path / name
    path.write_text(json.dumps([row]))
    if kind == "script":
        path = tmp_path / "schedule.py"
        path.write_text(script(ESCAPE))
    status = run([command, str(path)])
    written = capsys.readouterr()
    assert status in (0, 1, 2) and written.out + written.err
    assert [c for c in written.out + written.err if not c.isprintable() and c not in "\n\t"] == []


def test_text_is_made_visible_and_lines_stay():
    assert visible("plain é ∑") == "plain é ∑"
    assert visible("a\nb\tc", keep="\n\t") == "a\nb\tc" and visible("a\nb") == "a\\nb"
    assert visible("\x1b[31m\x9b\u202e\x7f") == "\\x1b[31m\\x9b\\u202e\\x7f"

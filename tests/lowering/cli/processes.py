"""Command lines in processes of their own: one interpreter imports the command line, and forks for each of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from tests import ROOT

Stream = Literal["open", "unread", "closed"]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

_DRIVER = """
import json, os, sys
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
    """A command line and its streams: each goes to a file, to a pipe without reader, or is closed."""

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

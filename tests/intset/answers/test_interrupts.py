"""An interrupt at any line, also while islpy or z3 is imported for the first time, changes no later answer."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests import ROOT


def run(seed: int, tries: int) -> None:
    command = [sys.executable, "-m", "tests.intset.answers.interrupted", str(seed), str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] or done.stderr[-2000:]


def test_the_same_question_gets_the_same_answer_after_interrupts() -> None:
    run(0, 15)


IN_AN_IMPORT = """
import signal, sys
from intset import Context, Range, Var

def interrupt(*_):
    raise KeyboardInterrupt

i, j = Var("i"), Var("j")
signal.signal(signal.SIGALRM, interrupt)
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
try:
    while True:
        Context({i: Range(0, 2000), j: Range(0, i)}, assume=[i * 3 + j < 40]).image((i + j, i - j)).count()
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
found = Context({i: Range(0, 2000), j: Range(0, i)}, assume=[i * 3 + j < 40]).image((i + j, i - j)).count()
print(found)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
def test_a_signal_while_islpy_is_imported_for_the_first_time() -> None:
    for delay in (0.005, 0.03, 0.06):
        command = [sys.executable, "-c", IN_AN_IMPORT, str(delay)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.stdout == "67\n" and done.returncode == 0, (delay, done)


@pytest.mark.nightly
def test_the_same_question_gets_the_same_answer_after_many_interrupts() -> None:
    run(1000, 1500)

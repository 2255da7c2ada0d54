"""An interrupt at any line, also while islpy or z3 is imported for the first time, changes no later answer."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests import ROOT
from tests.sweeps import daily


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
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]), 1.0)  # again: Python itself loses one in an import
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


COUNTED = """
import random, signal, sys, time
from intset import Context, Range, ShapeVar, Var

sent = caught = 0
lost = []
sys.unraisablehook = lambda given: lost.append(repr(given.object)) if given.exc_type is KeyboardInterrupt else None

def interrupt(*_):
    global sent
    sent += 1
    raise KeyboardInterrupt

def ask():
    i, j, n, m = Var("i"), Var("j"), ShapeVar("n"), ShapeVar("m")
    ctx = Context({i: Range(0, n), j: Range(0, m)})
    ctx.prove(i * m + j < n * m), ctx.bounds(i * m + j), ctx.prove((i * i).ne(j + 5))
    ctx.prove(i * i < n * n).certificate(), ctx.prove((n * (n + 1) % 2).eq(0)).certificate()
    ctx = Context({i: Range(0, 20), j: Range(0, i)}, assume=[i * 3 + j < 40])
    ctx.image((i + j, i - j)).count(), ctx.bounds((i * 7 + j) % 5)

ask()  # loads what it needs
signal.signal(signal.SIGALRM, interrupt)
rng, end = random.Random(0), time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    before = sent
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(0.0005, 0.02))
        while sent == before:
            ask()
    except KeyboardInterrupt:
        caught += 1
print(caught > 5, sent == caught, lost)
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer")
@pytest.mark.parametrize("seconds", daily([0.5, 60.0], 2))
def test_no_interrupt_is_lost(seconds: float) -> None:
    """Interrupts during questions propagate; none is lost in a destructor, where Python prints and drops it."""
    command = [sys.executable, "-c", COUNTED, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "True True []\n" and done.returncode == 0, done


@pytest.mark.nightly
def test_the_same_question_gets_the_same_answer_after_many_interrupts() -> None:
    run(1000, 1500)

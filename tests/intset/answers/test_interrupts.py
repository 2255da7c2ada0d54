"""An interrupt at any line, also while islpy or z3 is imported for the first time, changes no later answer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT


def run(seed: int, tries: int) -> None:
    command = [sys.executable, "-m", "tests.intset.answers.interrupted", str(seed), str(tries)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout[-2000:] or done.stderr[-2000:]


def test_the_same_question_gets_the_same_answer_after_interrupts() -> None:
    run(0, 30)


@pytest.mark.nightly
def test_the_same_question_gets_the_same_answer_after_many_interrupts() -> None:
    run(1000, 1500)

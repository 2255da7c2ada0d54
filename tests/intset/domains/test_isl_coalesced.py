"""Programs on which isl ended the process when it coalesced: each runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests import ROOT
from tests.sweeps import daily

PROGRAM = """
import sys
sys.path.insert(0, {root!r})
from tests.bound.infer.test_random import {way}
{way}({seed})
"""


@pytest.mark.parametrize(("way", "seed"), daily([("constant", 7100241), ("symbolic", 7100439)], 2))
def test_the_process_survives(way: str, seed: int) -> None:
    text = PROGRAM.format(root=str(ROOT), way=way, seed=seed)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

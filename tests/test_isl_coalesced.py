"""Programs on which isl ended the process when it coalesced: each runs in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sweeps import daily

TESTS = Path(__file__).parent
PROGRAM = """
import sys
sys.path[:0] = {paths!r}
from test_bound_infer_random import {way}
{way}({seed})
"""


@pytest.mark.parametrize(("way", "seed"), daily([("constant", 7100241), ("symbolic", 7100439)], 2))
def test_the_process_survives(way: str, seed: int) -> None:
    text = PROGRAM.format(paths=[str(TESTS.parent), str(TESTS)], way=way, seed=seed)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]

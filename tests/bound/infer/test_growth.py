"""The cost of InferBound is linear in the number of stages: counted in function calls, which no machine changes."""

from __future__ import annotations

import cProfile

import pytest

from benchmarks.growth import FAMILIES
from bound import infer_bound


def calls(name: str, n: int) -> int:
    schedule = FAMILIES[name](n)
    profile = cProfile.Profile()
    profile.enable()
    infer_bound(schedule)
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("name", FAMILIES)
def test_four_times_the_stages_cost_four_times_as_much(name: str) -> None:
    calls(name, 5)  # what is loaded once
    assert calls(name, 40) <= 1.1 * 4 * calls(name, 10)

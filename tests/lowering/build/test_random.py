"""Random programs with random schedules against the reference, every access checked; some of them as C."""

from __future__ import annotations

import pytest

from tests.bound.random_schedules import legal
from tests.lowering.lowered import check, check_c
from tests.sweeps import daily


def run_seeds(seeds: range, symbolic: bool) -> int:
    """Check the legal ones; gives how many those were."""
    checked = 0
    for seed in seeds:
        program = legal(seed, symbolic)
        if program is not None:
            check(program.schedule, program.sizes, bounds=program.bounds)
            checked += 1
    return checked


@pytest.mark.parametrize("start", daily(range(0, 300, 6), 50))
def test_random_schedules(start: int) -> None:
    assert run_seeds(range(start, start + 6), symbolic=False) >= 1


@pytest.mark.parametrize("start", daily(range(0, 150, 6), 25))
def test_random_schedules_with_symbolic_sizes(start: int) -> None:
    assert run_seeds(range(start, start + 6), symbolic=True) >= 1


@pytest.mark.parametrize("seed", daily(range(1000, 1040), 10))
def test_random_schedules_in_c(seed: int) -> None:
    program = legal(seed, symbolic=seed % 2 == 1)
    if program is None:
        pytest.skip("the schedule is refused")
    f = check(program.schedule, program.sizes, bounds=program.bounds)
    check_c(f, program.schedule, program.sizes)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(2000, 22000, 500))
def test_many_random_schedules(start: int) -> None:
    assert run_seeds(range(start, start + 500), symbolic=start % 1000 == 0) >= 200

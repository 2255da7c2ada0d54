"""Random programs with random schedules against the reference, every access checked; some of them as C."""

from __future__ import annotations

from tests.lowering.lowered import check, check_c
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled


def runs(program: Program, c: bool = False) -> bool:
    """Check a program against the reference; gives whether its schedule is accepted."""
    b = program.inferred()
    if b is None:
        return False
    f = check(program.schedule, program.sizes, bounds=b)
    if c:
        check_c(f, program.schedule, program.sizes)
    return True


@sampled(10, 12_000, programs(also="others", most=3), shows={True})
def test_random_schedules(program: Program) -> bool:
    return runs(program)


@sampled(4, 6000, programs(symbolic=True, most=3), shows={True})
def test_random_schedules_with_symbolic_sizes(program: Program) -> bool:
    return runs(program)


@sampled(2, 40, programs(most=3), shows={True})
def test_random_schedules_in_c(program: Program) -> bool:
    return runs(program, c=True)


@sampled(1, 40, programs(symbolic=True, most=4), shows={True})
def test_random_schedules_with_symbolic_sizes_in_c(program: Program) -> bool:
    return runs(program, c=True)

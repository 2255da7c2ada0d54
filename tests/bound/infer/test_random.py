"""Random programs and schedules: `infer_bound` against execution of the nests."""

from __future__ import annotations

import pytest

from bound import BoundsMap, infer_bound
from tests.bound.oracle import check
from tests.bound.random_programs import Program
from tests.sweeps import daily

NEAR = 10  # seeds of each kind that CI tries
FAR = 4000  # and the long sweep


def gives_up(b: BoundsMap) -> bool:
    """Whether some tensor has a note about lost precision."""
    return any(b.required(t).notes for stage in b.schedule.stages if stage in b._stages for t in stage.op.outputs)


def constant(seed: int, threads: bool = False) -> None:
    schedule = Program(seed, stages=1 + seed % 6, threads=threads).schedule()
    b = infer_bound(schedule)
    check(b, exact=not gives_up(b))


def threaded(seed: int) -> None:
    constant(seed, threads=True)


def others(seed: int) -> None:
    schedule = Program(seed, stages=1 + seed % 6).schedule()
    check(infer_bound(schedule, compute="box"), exact=False)
    for domain in ("interval", "stride"):
        check(infer_bound(schedule, domain=domain), exact=False)


def symbolic(seed: int) -> None:
    program = Program(seed, stages=1 + seed % 5, symbolic=True)
    schedule = program.schedule()
    b = infer_bound(schedule)
    ((n, values),) = program.sizes.items()
    for value in values:
        check(b, {n: value}, exact=False)
        with_value = infer_bound(schedule, at={n: value})
        check(with_value, exact=not gives_up(with_value))


@pytest.mark.parametrize("start", daily(range(0, 3 * NEAR, 5), 6))
def test_constant_sizes(start: int) -> None:
    for seed in range(start, start + 5):
        constant(seed)


@pytest.mark.parametrize("start", daily(range(0, NEAR, 5), 2))
def test_blocks_of_threads(start: int) -> None:
    for seed in range(start, start + 5):
        threaded(seed)


@pytest.mark.parametrize("start", daily(range(0, NEAR, 5), 2))
def test_boxes_and_other_domains(start: int) -> None:
    for seed in range(start, start + 5):
        others(seed)


@pytest.mark.parametrize("start", daily(range(0, NEAR, 2), 5))
def test_symbolic_sizes(start: int) -> None:
    for seed in range(start, start + 2):
        symbolic(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(10_000, 10_000 + FAR, 100))
def test_long_sweep(start: int) -> None:
    for seed in range(start, start + 100):
        constant(seed)
        threaded(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(20_000, 20_000 + FAR // 4, 100))
def test_long_sweep_of_other_ways(start: int) -> None:
    for seed in range(start, start + 100):
        others(seed)
        symbolic(seed)

"""Nests of shared loops whose tiles do not fit: every tail, no guard that can be removed, and their C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bound import infer_bound, replay
from intset.expr.evaluate import evaluate as evaluate_index
from lowering import lower, to_c
from tests.bound.replay.programs import Dag
from tests.lowering.lowered import compile_c
from tests.strategies.written import Written
from tests.sweeps import daily

SIZES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 7) for m in (1, 2, 3, 6)]
MOST = 30_000  # iterations that are looked at


def iterations(loops: list[Any], point: dict[Any, int]) -> Iterator[dict[Any, int]]:
    """The values of loops, one inside another."""
    if not loops:
        yield point
        return
    iv, limits = loops[0]
    low = int(evaluate_index(limits.min, point))
    for value in range(low, low + int(evaluate_index(limits.extent, point))):
        point[iv] = value
        yield from iterations(loops[1:], point)
    point.pop(iv, None)


def guards_that_are_needed(seed: int, calls: int = 2) -> int:
    """Count guards; check that each of them alone excludes some iteration."""
    d = Dag(seed, 8, symbolic=seed % 3 == 0)
    s = d.schedule()
    d.transform(s, 5)
    for _ in range(calls):
        d.call(s)
    b = infer_bound(s)
    names = sorted({v for e in d.tensors[0].extents for v in e.free_vars()}, key=lambda v: v.name)
    sizes = [dict(zip(names, pair, strict=False)) for pair in SIZES] if names else [{}]
    seen = 0
    for stage in b.schedule.stages:
        guards = b.nest(stage).guards if b.is_computed(stage) else ()
        around = [(iv, b[iv]) for _, iv in reversed(b.attach_path(stage))]
        loops = around + [(loop.iv, loop.range) for loop in b.nest(stage).loops] if guards else []
        needed: set[int] = set()
        looked = 0
        for at in sizes:
            for point in iterations(loops, dict(at)) if len(needed) < len(guards) and looked < MOST else ():
                fails = [k for k, guard in enumerate(guards) if not evaluate_index(guard, point)]
                needed |= set(fails) if len(fails) == 1 else set()
                looked += 1
        assert len(needed) == len(guards) or looked >= MOST, (seed, stage, guards)
        seen += len(guards)
    return seen


@pytest.mark.parametrize(
    ("seeds", "least"),
    daily([((*range(8), 5298, 6186, 7074), 5), *((range(k, k + 500), 151) for k in range(5000, 8000, 500))], 9),
)
def test_no_guard_can_be_removed(seeds, least):
    assert sum(guards_that_are_needed(seed) for seed in seeds) >= least


def test_a_place_that_only_an_allocation_depends_on_is_no_parameter():
    """M is allocated at [i, j], but its computation does not use i; C compilers warn of unused parameters."""
    p = Written("""
        n = var(); A = given(n, 2, n); T = pointwise(A); M = reduced(T, 1, te.max); C = pointwise(M)
        U[i:n, q:2, j:n] = T[i, q, j] - C[i, j]""")
    replay.compute_at(p.s, p.T, p.U, 1)
    replay.inline_at(p.s, p.M, 2)
    compile_c(to_c(lower(p.s)))

"""Peak storage, arena and stack together: the best placement up to six buffers, near the lower bound beyond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import prod

import pytest

from bound import te
from intset.errors import IntSetError
from intset.expr.evaluate import evaluate
from intset.expr.node import Var
from lowering import Function, lower
from lowering.allocation import (
    ALIGNMENT,
    Arena,
    Size,
    StorageBlock,
    StoragePlan,
    lifetimes_of,
    lower_bound,
    parallel_plan,
)
from lowering.nest.ir import Allocate, For
from lowering.nest.walk import range_ends, statements
from tests.bound.corpus import CASES
from tests.bound.oracle import value
from tests.lowering.lowered import check_c
from tests.sweeps import daily

LARGE = 1 << 40


def aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def sizes_of(f: Function) -> dict[Var, int]:
    return {v: 100 + 7 * k for k, v in enumerate(f.sizes)}


def bytes_of(stmt: Allocate, env: Mapping[Var, int]) -> int:
    extents = [max(0, int(value(range_ends(r)[1], dict(env)))) for r in stmt.ranges]
    width = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "int16": 2}.get(stmt.tensor.dtype, 1)
    return prod(extents) * width


def used(plan: StoragePlan, env: Mapping[Var, int]) -> int:
    """Evaluate the bytes of a plan at given sizes, for one thread."""

    def size(s: Size) -> int:
        return s.width * prod(max(0, evaluate(e, {v: env[v] for v in e.free_vars()})) for e in s.extents)

    def arena(a: Arena) -> int:
        return a.fixed + sum(aligned(max(map(size, slot.sizes))) for slot in a.slots)

    return arena(plan.arena) + max(map(arena, plan.private.values()), default=0) + plan.stack_peak


def blocks_of(f: Function) -> list[StorageBlock]:
    """All allocations that are used, of aligned sizes, however they are kept."""
    env = sizes_of(f)
    lives = [life for life in lifetimes_of(f.body, frozenset[For]()).all if life.last >= 0]
    return [StorageBlock(aligned(bytes_of(life.allocate, env)), life.first, life.last) for life in lives]


def smallest(blocks: Sequence[StorageBlock]) -> int:
    """The end of the best placement: every order, each block at the lowest place that is free."""
    best = LARGE
    for order in permutations(blocks):
        done: list[tuple[StorageBlock, int]] = []
        for block in order:
            at = 0
            for other, start in sorted(done, key=lambda pair: pair[1]):
                if block.meets(other) and at < start + other.size and start < at + block.size:
                    at = start + other.size
            done.append((block, at))
        best = min(best, max((at + b.size for b, at in done), default=0))
    return 0 if best == LARGE else best


@pytest.mark.parametrize("name", daily(CASES, 10))
def test_the_corpus_needs_no_more_than_the_best_placement(name: str) -> None:
    try:
        f = lower(CASES[name]["fn"](), compute="exact")
    except IntSetError:
        pytest.skip("not lowered")
    plan = parallel_plan(f)[1]
    assert not plan.in_place
    blocks, env = blocks_of(f), sizes_of(f)
    mine = used(plan, env)
    if len(blocks) <= 6:
        assert aligned(mine) <= smallest(blocks)
    else:
        assert mine <= 1.1 * lower_bound(blocks)
    alone = sum(bytes_of(s, env) + ALIGNMENT for s in statements(f.body) if isinstance(s, Allocate))
    assert mine <= alone, "an allocation at every place, as it was before there was an arena"


def chain(extents: Sequence[int]) -> te.Schedule:
    """A chain of stages of different sizes, each of which reads its whole producer."""
    t = te.placeholder((max(extents),), name="A")
    for n, extent in enumerate((*extents, 4)):
        last = t.shape[0].data
        k = te.reduce_axis((0, -(-last // extent)), "k")
        t = te.compute(
            (extent,), lambda i, t=t, k=k, e=extent, n=last: te.sum(t[te.min(i + k * e, n - 1)], axis=k), name=f"T{n}"
        )
    return te.create_schedule(t.op)


SHAPES = [
    (3000, 3000, 5000, 100),
    (100, 6000, 100, 6000, 100),
    (4000, 1000, 4000),
    (2000, 9000, 2000, 4),
    (64,),
    (3999,) * 5,
    (3000, 3000, 6000, 6000),
    (6000, 6000, 300, 300, 4000, 4000),
]


@pytest.mark.parametrize("extents", SHAPES)
def test_small_arrays_and_large_ones_share(extents: tuple[int, ...]) -> None:
    """A small array joins the arena where the stack would raise the peak of memory."""
    f = lower(chain(extents))
    assert aligned(used(parallel_plan(f)[1], {})) <= smallest(blocks_of(f))


def test_ten_stages_come_close_to_the_bound() -> None:
    for step in (1, 700, -300):
        s = chain([(4000 + step * k) * width for k, width in enumerate([1, 2, 1, 3, 1, 1, 2, 5, 1, 1])])
        f = lower(s)
        blocks = blocks_of(f)
        assert len(blocks) > 6 and used(parallel_plan(f)[1], {}) <= 1.1 * lower_bound(blocks)
    check_c(f, s)

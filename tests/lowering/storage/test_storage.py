"""Placement of allocations and peak storage: live ranges that overlap have disjoint bytes."""

import random
from collections.abc import Mapping, Sequence
from itertools import permutations
from math import prod

import pytest

from bound import te
from intset.errors import IntSetError
from intset.expr.evaluate import evaluate
from intset.expr.node import Var
from lowering import Function, allocation, lower, parse_nest, run
from lowering.nest.ir import Allocate, For
from lowering.nest.walk import range_ends, statements
from tests.bound.corpus import CASES
from tests.bound.oracle import value
from tests.compilers import needs_compiler
from tests.lowering.lowered import check_c, close, problem
from tests.strategies.written import Written
from tests.sweeps import daily


def blocks_of(rng: random.Random, count: int) -> list[allocation.StorageBlock]:
    blocks = []
    for _ in range(count):
        first = rng.randint(0, 12)
        blocks.append(
            allocation.StorageBlock(rng.choice([1, 63, 64, 100, 640, 4096]), first, first + rng.randint(0, 6))
        )
    return blocks


def check_placement(blocks: list[allocation.StorageBlock]) -> int:
    offsets, end = allocation.placed(blocks)
    for j, (a, x) in enumerate(zip(blocks, offsets, strict=True)):
        assert x % allocation.ALIGNMENT == 0 and x + a.size <= end
        for b, y in zip(blocks[:j], offsets[:j], strict=True):
            assert not a.meets(b) or x + a.size <= y or y + b.size <= x
    return end


def test_blocks_are_placed_well() -> None:
    # Against all placements in multiples of the alignment.
    rng = random.Random(1)
    for _ in range(150):
        blocks = blocks_of(rng, rng.randint(0, 5))
        assert allocation.lower_bound(blocks) <= check_placement(blocks) <= smallest(blocks)
    rng = random.Random(2)
    for _ in range(40):
        blocks = [
            allocation.StorageBlock(-(-b.size // allocation.ALIGNMENT) * allocation.ALIGNMENT, b.first, b.last)
            for b in blocks_of(rng, rng.randint(7, 30))
        ]
        assert check_placement(blocks) <= 1.1 * allocation.lower_bound(blocks)


def test_slots_hold_one_life_at_a_time_and_chains_need_few() -> None:
    rng = random.Random(3)
    for _ in range(200):
        blocks = blocks_of(rng, rng.randint(1, 12))
        slots = allocation.slotted(blocks, [b.size for b in blocks])
        for inside in slots:
            assert not any(blocks[a].meets(blocks[b]) for a in inside for b in inside if a != b)
        most = max(sum(b.first <= at <= b.last for b in blocks) for at in range(20))
        assert len(slots) == most
    f = lower(chain(9, 100))
    assert allocation.plan_storage(f).peak == 2 * 100 * 64 * 4
    symbolic = allocation.plan_storage(lower(chain(9, te.var("n"))))
    assert len(symbolic.arena.slots) == 2 and symbolic.peak is None and not symbolic.in_place
    for step in (1, 700, -300):
        s = chain_of_sizes([(4000 + step * k) * width for k, width in enumerate([1, 2, 1, 3, 1, 1, 2, 5, 1, 1])])
        f = lower(s)
        blocks = blocks_in(f)
        assert len(blocks) > 6 and used(allocation.parallel_plan(f)[1], {}) <= 1.1 * allocation.lower_bound(blocks)
    check_c(f, s)


def chain(length: int, extent: object) -> te.Schedule:
    t = te.placeholder((extent, 64), name="A")
    for k in range(length):
        t = te.compute((extent, 64), lambda i, j, t=t: t[i, j] + 1.0, name=f"T{k}")
    return te.create_schedule(t.op)


@needs_compiler
@pytest.mark.parametrize("extent", [100, te.var("n")])
def test_shared_storage_keeps_what_is_needed(extent: object) -> None:
    s = chain(6, extent)
    given, expected = problem(s, {"n": 37})
    close(run(lower(s), given, {"n": 37}, backend="c"), expected)


def test_what_is_read_in_a_later_iteration_lives_for_the_loop() -> None:
    # Storage outside of a loop lives through the whole loop, storage inside of it for one iteration.
    s = Written("""
        A = given(8, 4096); B = pointwise(A); C = pointwise(B)
        D[i:8, j:4096] = C[i, j] + B[7 - i, j]
        C compute_at D i""").s
    plan = allocation.plan_storage(lower(s))
    assert plan.peak == 8 * 4096 * 4 + 4096 * 4
    given, expected = problem(s, {})
    close(run(lower(s), given, backend="c"), expected)
    head = "def F(A: float32[8]):\n"
    outside = "    allocate P: float32[8]\n    allocate Q: float32[8]\n    for i in [0, 8):\n"
    fill = "        for k in [0, 2):\n            P[k] = A[i]\n        for k in [0, 2):\n            Q[k] = P[k]\n"
    p, q = allocation.lifetimes_of(parse_nest(head + outside + fill + "        A[i] = Q[0]\n").body, frozenset())
    assert (p.first, p.last) == (q.first, q.last)  # the next iteration of the outer loop uses both
    inside = "    for i in [0, 8):\n        allocate P: float32[8]\n        allocate Q: float32[8]\n"
    use = "        P[0] = A[i]\n        A[i] = P[0]\n        Q[0] = A[i]\n        A[i] = Q[0]\n"
    p, q = allocation.lifetimes_of(parse_nest(head + inside + use).body, frozenset())
    assert p.last < q.first  # both begin anew


LARGE = 1 << 40


def aligned(size: int) -> int:
    return -(-size // allocation.ALIGNMENT) * allocation.ALIGNMENT


def sizes_of(f: Function) -> dict[Var, int]:
    return {v: 100 + 7 * k for k, v in enumerate(f.sizes)}


def bytes_of(stmt: Allocate, env: Mapping[Var, int]) -> int:
    extents = [max(0, int(value(range_ends(r)[1], dict(env)))) for r in stmt.ranges]
    width = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "int16": 2}.get(stmt.tensor.dtype, 1)
    return prod(extents) * width


def used(plan: allocation.StoragePlan, env: Mapping[Var, int]) -> int:
    """Evaluate the bytes of a plan at given sizes, for one thread."""

    def size(s: allocation.Size) -> int:
        return s.width * prod(max(0, evaluate(e, {v: env[v] for v in e.free_vars()})) for e in s.extents)

    def arena(a: allocation.Arena) -> int:
        return a.fixed + sum(aligned(max(map(size, sizes))) for sizes in a.slots)

    return arena(plan.arena) + max(map(arena, plan.private.values()), default=0) + plan.stack_peak


def blocks_in(f: Function) -> list[allocation.StorageBlock]:
    """All allocations that are used, of aligned sizes, however they are kept."""
    env = sizes_of(f)
    lives = [life for life in allocation.lifetimes_of(f.body, frozenset[For]()) if life.last >= 0]
    return [allocation.StorageBlock(aligned(bytes_of(life.allocate, env)), life.first, life.last) for life in lives]


def smallest(blocks: Sequence[allocation.StorageBlock]) -> int:
    """The end of the best placement: every order, each block at the lowest place that is free."""
    best = LARGE
    for order in permutations(blocks):
        done: list[tuple[allocation.StorageBlock, int]] = []
        for block in order:
            at = 0
            for other, start in sorted(done, key=lambda pair: pair[1]):
                if block.meets(other) and at < start + other.size and start < at + block.size:
                    at = aligned(start + other.size)
            done.append((block, at))
        best = min(best, max((at + b.size for b, at in done), default=0))
    return best


@pytest.mark.parametrize("name", daily(CASES, 10))
def test_the_corpus_needs_no_more_than_the_best_placement(name: str) -> None:
    try:
        f = lower(CASES[name]["fn"](), compute="exact")
    except IntSetError:
        pytest.skip("not lowered")
    plan = allocation.parallel_plan(f)[1]
    assert not plan.in_place
    blocks, env = blocks_in(f), sizes_of(f)
    mine = used(plan, env)
    if len(blocks) <= 6:
        assert aligned(mine) <= smallest(blocks)
    else:
        assert mine <= 1.1 * allocation.lower_bound(blocks)
    alone = sum(bytes_of(s, env) + allocation.ALIGNMENT for s in statements(f.body) if isinstance(s, Allocate))
    assert mine <= alone, "an allocation at every place, as it was before there was an arena"


def chain_of_sizes(extents: Sequence[int]) -> te.Schedule:
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
    f = lower(chain_of_sizes(extents))
    assert aligned(used(allocation.parallel_plan(f)[1], {})) <= smallest(blocks_in(f))

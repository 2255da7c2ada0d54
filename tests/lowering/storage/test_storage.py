"""Placement of allocations: live ranges that overlap in time have disjoint bytes, and the arena is minimal."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from bound import te
from lowering import lower, parse_nest, run
from lowering.allocation import ALIGNMENT, StorageBlock, lifetimes_of, lower_bound, placed, plan_storage, slotted
from tests.compilers import needs_compiler
from tests.lowering.lowered import close, problem


def blocks_of(rng: random.Random, count: int) -> list[StorageBlock]:
    blocks = []
    for _ in range(count):
        first = rng.randint(0, 12)
        blocks.append(StorageBlock(rng.choice([1, 63, 64, 100, 640, 4096]), first, first + rng.randint(0, 6)))
    return blocks


def check_placement(blocks: list[StorageBlock]) -> int:
    offsets, end = placed(blocks)
    for j, (a, x) in enumerate(zip(blocks, offsets, strict=True)):
        assert x % ALIGNMENT == 0 and x + a.size <= end
        for b, y in zip(blocks[:j], offsets[:j], strict=True):
            assert not a.meets(b) or x + a.size <= y or y + b.size <= x
    return end


def test_few_blocks_are_placed_best() -> None:
    """Against all placements in multiples of the alignment, found by trying every offset for every order."""
    rng = random.Random(1)
    for _ in range(150):
        blocks = blocks_of(rng, rng.randint(0, 5))
        end = check_placement(blocks)
        assert end >= lower_bound(blocks)
        for order in permutations(range(len(blocks))):
            offsets: dict[int, int] = {}
            for k in order:
                met = [(offsets[j], offsets[j] + blocks[j].size) for j in offsets if blocks[j].meets(blocks[k])]
                at = 0
                while any(at < stop and start < at + blocks[k].size for start, stop in met):
                    at += ALIGNMENT
                offsets[k] = at
            assert end <= max((offsets[k] + blocks[k].size for k in order), default=0)


def test_many_blocks_come_close_to_the_bound() -> None:
    rng = random.Random(2)
    for _ in range(40):
        blocks = [
            StorageBlock(-(-b.size // ALIGNMENT) * ALIGNMENT, b.first, b.last)
            for b in blocks_of(rng, rng.randint(7, 30))
        ]
        assert check_placement(blocks) <= 1.1 * lower_bound(blocks)


def test_slots_hold_one_life_at_a_time() -> None:
    rng = random.Random(3)
    for _ in range(200):
        blocks = blocks_of(rng, rng.randint(1, 12))
        slots = slotted(blocks, [b.size for b in blocks])
        for inside in slots.members:
            assert not any(blocks[a].meets(blocks[b]) for a in inside for b in inside if a != b)
        most = max(sum(b.first <= at <= b.last for b in blocks) for at in range(20))
        assert len(slots.members) == most


def chain(length: int, extent: object) -> te.Schedule:
    t = te.placeholder((extent, 64), name="A")
    for k in range(length):
        t = te.compute((extent, 64), lambda i, j, t=t: t[i, j] + 1.0, name=f"T{k}")
    return te.create_schedule(t.op)


def test_a_chain_needs_two_buffers() -> None:
    f = lower(chain(9, 100))
    assert plan_storage(f).peak == 2 * 100 * 64 * 4
    symbolic = plan_storage(lower(chain(9, te.var("n"))))
    assert len(symbolic.arena.slots) == 2 and symbolic.peak is None and not symbolic.in_place


@needs_compiler
@pytest.mark.parametrize("extent", [100, te.var("n")])
def test_shared_storage_keeps_what_is_needed(extent: object) -> None:
    s = chain(6, extent)
    given, expected = problem(s, {"n": 37})
    close(run(lower(s), given, {"n": 37}, backend="c"), expected)


def test_what_a_later_iteration_reads_stays() -> None:
    """Storage outside of a loop lives through the whole loop, storage inside of it for one iteration."""
    a = te.placeholder((8, 4096), name="A")
    b = te.compute((8, 4096), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((8, 4096), lambda i, j: b[i, j] + 1.0, name="C")
    d = te.compute((8, 4096), lambda i, j: c[i, j] + b[7 - i, j], name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    plan = plan_storage(lower(s))
    assert plan.peak == 8 * 4096 * 4 + 4096 * 4
    given, expected = problem(s, {})
    close(run(lower(s), given, backend="c"), expected)


def test_what_a_loop_may_read_again_lives_for_all_of_it() -> None:
    head = "def F(A: float32[8]):\n"
    outside = "    allocate P: float32[8]\n    allocate Q: float32[8]\n    for i in [0, 8):\n"
    fill = "        for k in [0, 2):\n            P[k] = A[i]\n        for k in [0, 2):\n            Q[k] = P[k]\n"
    p, q = lifetimes_of(parse_nest(head + outside + fill + "        A[i] = Q[0]\n").body, frozenset()).all
    assert (p.first, p.last) == (q.first, q.last)  # the next iteration of the outer loop uses both
    inside = "    for i in [0, 8):\n        allocate P: float32[8]\n        allocate Q: float32[8]\n"
    use = "        P[0] = A[i]\n        A[i] = P[0]\n        Q[0] = A[i]\n        A[i] = Q[0]\n"
    p, q = lifetimes_of(parse_nest(head + inside + use).body, frozenset()).all
    assert p.last < q.first  # both begin anew

"""Coalesced sums: the guard of a split is the end of one variable, whatever is split and in which order."""

from __future__ import annotations

import random

import pytest

from benchmarks.calls import counted
from intset import Context, Expr, Range, ShapeVar, Var, ceildiv
from intset.frame import coalesced
from tests.intset.oracle import Claims
from tests.strategies.contexts import world
from tests.sweeps import daily

n, m, t = (ShapeVar(name, lower=1) for name in "nmt")  # each is tried from 1 to 7
io, ii, im, jo, k = (Var(name) for name in ("io", "ii", "im", "jo", "k"))


@pytest.mark.parametrize("e", [k * 4 + jo, ii * 2 + k, io * 4 + ii], ids=str)
def test_ends_that_a_point_attains_cost_no_coalescing(e: Expr) -> None:
    ranges = {io: Range(0, 8), ii: Range(0, 4), jo: Range(0, 16), k: Range(0, 2)}
    ctx = Context(ranges, assume=[io * 4 + ii < 17, jo * 4 + k < 19])
    calls = counted(lambda: ctx.bounds(e))
    assert not any(code.co_filename.endswith("coalescing.py") for code in calls)
    assert Claims(world(ranges, ctx.frame.conditions)).bounds(e, None).is_tight


class SplitLoops:
    """Random loops that were split, some with guards, over sizes; and an index over the split axes."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.ranges: dict[Var, Range] = {}
        self.facts = []
        axes: list[Expr] = []
        for name in "ij"[: rng.choice((1, 2))]:
            size = rng.choice((n, m, n + 1, rng.randrange(2, 9)))
            axes.append(self._axis(rng, name, size, rng.choice((1, 1, 2))))
        e = axes[0]
        for axis in axes[1:]:
            e = e * rng.choice((m, n, 5)) + axis
        self.e = rng.choice((e, e, e * m + rng.choice((0, 2)), e // 3, e % 4, axes[0] - axes[-1] * 2, -e))

    def _axis(self, rng: random.Random, name: str, size, depth: int) -> Expr:
        factor = rng.choice((2, 3, 4, t))
        inner: Expr = Var(f"{name}{depth}")
        if depth > 1 and isinstance(factor, int) and rng.random() < 0.6:
            inner = self._axis(rng, name, factor, 1)
        else:
            self.ranges[inner] = Range(0, factor)
        outer = Var(f"{name}{depth}o")
        self.ranges[outer] = Range(0, ceildiv(size, factor))
        total = outer * factor + inner
        if rng.random() < 0.8:
            self.facts.append(total < size if rng.random() < 0.9 else total < size - 1)
        if rng.random() < 0.15:
            self.facts.append(rng.choice((outer >= 1, total >= 1, total + outer <= size + 3)))
        return total


@pytest.mark.parametrize("first", daily(range(0, 600, 15), 20))
def test_random_splits_against_enumeration(first: int) -> None:
    tight = 0
    for seed in range(first, first + 15):
        loops = SplitLoops(seed)
        claims = Claims(world(loops.ranges, loops.facts, [n, m, t]), places=12)
        claims.values(loops.e, None)
        tight += claims.bounds(loops.e, None).is_tight
    assert tight >= 8


@pytest.mark.parametrize("seed", daily(range(40), 20))
def test_one_variable_takes_the_values_of_the_sum_and_no_others(seed: int) -> None:
    """Strides around the runs below them: of the run's length, shorter, and one and two more, which leave a gap."""
    rng, replaced, left = random.Random(seed), 0, 0
    for _ in range(30):
        inner, outer = rng.choice((2, 3, t, t + 1)), rng.randint(1, 3)
        stride, sign = inner + rng.choice((-1, 0, 0, 1, 2)), rng.choice((1, -1))
        ranges = {ii: Range(rng.choice((0, 1, -2)), inner), io: Range(rng.choice((0, -1)), outer)}
        total: Expr = io * stride * sign + ii
        if rng.random() < 0.4:
            ranges[im] = Range(0, 2)
            total = total + im * (stride * outer + rng.choice((-1, 0, 0, 1)))
        frame = Context(ranges, assume=[rng.choice((total < n, total >= -n, total <= 4))]).frame
        roots = (rng.choice((total, total * 2 + 1, -total, total * m, total // 2)),)
        found = coalesced(frame, roots, ())
        if found is None:
            left += 1
            continue
        replaced += 1
        before = world(frame.ranges, frame.conditions, [n, m, t]).values(*roots)
        after = world(found[0].ranges, found[0].conditions, [n, m, t]).values(*found[1])
        assert before == after, (ranges, frame.conditions, roots, found)
    assert replaced >= 6 and left >= 4

"""Boxes with linear ends: unions, hulls and intervals against their elements at all sizes and iterations."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest

from bound import te
from bound.infer.footprints.box import (
    Box,
    SymbolicInterval,
    contains,
    hull,
    interval,
    is_empty,
    union_boxes,
    with_conditions,
    with_where,
)
from bound.infer.footprints.environment import LoopEnvironment, create_account
from bound.infer.footprints.extents import max_extent
from bound.infer.footprints.footprint import Footprint
from bound.infer.phases.gather import _is_nothing
from intset import Context, Range, Var, evaluate
from intset.linear.form import Linear
from tests.sweeps import daily

SIZES, OUTER = range(5), range(4)
Elements = set[tuple[int, ...]]


class Drawn:
    """Random boxes over a size `n`, a loop `i` of extent 4, and a loop `j` up to `i`."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.has_sizes = seed % 2 == 0
        self.n, self.i, self.j = te.var("n"), Var("i"), Var("j")
        self.env = LoopEnvironment(Context(), (self.n,), "isl", create_account(1))
        self.env.add(self.i, Range(0, len(OUTER)))
        self.env.add(self.j, Range(0, self.i + 1))
        self.points = [{self.n: n, self.i: i, self.j: j} for n in SIZES for i in OUTER for j in range(i + 1)]

    def form(self) -> Linear:
        r = self.r
        terms: dict[Any, int] = {v: k for v in (self.n, self.i, self.j) if (k := r.choice((0, 0, 0, 0, 1, 1, 2, -1)))}
        if not self.has_sizes:
            terms.pop(self.n, None)
        found = Linear(r.randint(-2, 5), terms)
        return found if r.random() < 0.85 else found.scale(2).shift(1)

    def side(self) -> SymbolicInterval:
        lows = [self.form() for _ in range(self.r.choice((1, 1, 1, 2)))]
        if self.r.random() < 0.6:  # as long in every instance, or nearly so
            highs = [lows[0].shift(self.r.randint(-1, 4)), *([self.form()] if self.r.random() < 0.2 else [])]
        else:
            highs = [self.form() for _ in range(self.r.choice((1, 1, 2)))]
        return SymbolicInterval(tuple(lows), tuple(highs))

    def boxes(self) -> list[Box]:
        """Boxes with small differences, some guarded."""
        r, sides = self.r, (self.side(), self.side())
        where = (self.form(),) if r.random() < 0.4 else ()
        also = ((self.n % 2).eq(0),) if r.random() < 0.3 else ()
        found = [Box(sides, where, also)]
        for _ in range(r.randint(1, 2)):
            k, shift = r.randrange(2), self.form() if r.random() < 0.2 else Linear(r.randint(-3, 3), {})
            moved = SymbolicInterval(*(tuple(f.plus(shift) for f in side) for side in (sides[k].lows, sides[k].highs)))
            if r.random() < 0.3:
                moved = self.side()
            own = (self.form(),) if r.random() < 0.4 else where
            found.append(Box((moved, sides[1]) if k == 0 else (sides[0], moved), own, also if r.random() < 0.7 else ()))
        return found


def value(form: Linear, at: Any) -> int:
    return form.const + sum(k * (at[e] if e in at else evaluate(e, at)) for e, k in form.terms.items())


def span(side: SymbolicInterval, at: Any) -> range:
    return range(max(value(f, at) for f in side.lows), min(value(f, at) for f in side.highs) + 1)


def elements(box: Box, at: Any) -> Elements:
    if any(value(f, at) < 0 for f in box.where) or not all(evaluate(cond, at) for cond in box.also):
        return set()
    return set(product(*(span(side, at) for side in box.sides)))


def check(seed: int) -> int:
    """Whether boxes were joined."""
    case = Drawn(seed)
    env, boxes = case.env, case.boxes()
    joined = union_boxes(env, boxes)
    around, is_tight = hull(env, boxes)
    for at in case.points:
        wanted: Elements = set().union(*(elements(box, at) for box in boxes))
        assert set().union(*(elements(box, at) for box in joined)) == wanted, (seed, boxes, joined, at)
        assert wanted <= elements(around, at), (seed, boxes, around, at)
        if is_tight and all(elements(box, at) for box in boxes):
            ends = [(min(axis), max(axis)) for axis in zip(*wanted, strict=True)]
            assert [(s[0], s[-1]) for s in (span(side, at) for side in around.sides)] == ends, (seed, boxes, around, at)
    one, form = boxes[0], case.form()
    assert not is_empty(env, one) or not any(elements(one, at) for at in case.points)
    first, second = one.sides[0], boxes[1].sides[0]
    both = interval(env, (*first.lows, *second.lows), (*first.highs, *second.highs))
    conditional = with_conditions(env, with_where(env, one, (form,)), (case.i >= 1, case.j.eq(case.n)))
    for at in case.points:
        if both is not None:
            assert set(span(both, at)) == set(span(first, at)) & set(span(second, at))
        inside = value(form, at) >= 0 and at[case.i] >= 1 and at[case.j] == at[case.n]
        assert elements(conditional, at) == (elements(one, at) if inside else set())
    for outer, inner in product((*boxes, conditional), repeat=2):
        if contains(env, outer, inner):
            assert all(elements(inner, at) <= elements(outer, at) for at in case.points), (seed, outer, inner)
    plain = Box(one.sides, one.where)
    for k in (0, 1):
        most = max_extent(env, Footprint(2, plain), k, (case.i, case.j), case.n + 40)
        assert not {case.i, case.j} & set(most.free_vars())
        for n in SIZES:
            lengths = [len(span(plain.sides[k], at)) for at in case.points if at[case.n] == n and elements(plain, at)]
            assert not lengths or evaluate(most, {case.n: n}) >= max(lengths), (seed, plain, k, n)
    return len(joined) < len(boxes)


@pytest.mark.parametrize("start", daily(range(0, 24_000, 150), 160))
def test_drawn_boxes(start: int) -> None:
    assert sum(map(check, range(start, start + 150))) > 10


def test_a_box_contains_those_with_more_conditions_and_closer_ends() -> None:
    case = Drawn(0)
    ends = [(0, 4), (0, 3), (1, 4), (1, 3)]
    sides = [SymbolicInterval((Linear(low, {case.i: 1}),), (Linear(high, {case.i: 1}),)) for low, high in ends]
    for (a, outer), (b, inner) in product(zip(ends, sides, strict=True), repeat=2):
        assert contains(case.env, Box((outer,)), Box((inner,))) is (a[0] <= b[0] and a[1] >= b[1])
    where, also = (Linear(-1, {case.n: 1}),), (case.i.eq(case.n),)
    for some, more in (((), where), (where, where)):
        for few, many in (((), also), (also, also)):
            assert contains(case.env, Box((sides[0],), some, few), Box((sides[3],), more, many))
    assert not contains(case.env, Box((sides[0],), where), Box((sides[3],)))
    assert not contains(case.env, Box((sides[0],), (), also), Box((sides[3],)))
    length = (Linear(-2, {case.n: 1}),)  # implied where the inner box has an element
    guarded = SymbolicInterval((Linear(2, {}),), (Linear(0, {case.n: 1}),))
    assert contains(case.env, Box((SymbolicInterval((Linear(0, {}),), guarded.highs),), length), Box((guarded,)))


def test_a_guard_that_is_a_constant_is_empty_below_0_only() -> None:
    case = Drawn(1)
    side = SymbolicInterval((Linear(0, {}),), (Linear(3, {}),))
    for constant in (-1, 0, 1):
        guarded = Footprint(1, Box((side,), (Linear(constant, {}),)))
        assert _is_nothing(guarded) is (constant < 0)
        assert bool(with_where(case.env, Box((side,)), (Linear(constant, {}),)).where) is (constant < 0)

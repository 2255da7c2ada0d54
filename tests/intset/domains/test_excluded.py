"""Counts and `.at` speak of the sizes that declared bounds and facts allow: one rule, held against enumeration.

At a size that is allowed a count evaluates to the number of elements there, 0 where nothing runs. At one that is
excluded the answer is empty, and a note names the fact.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest

from bound import infer_bound, te
from intset import Context, Range, ShapeVar, Var, const, minimum, select
from intset.domains.sets.base import IntSet
from intset.domains.sets.region import Region
from intset.errors import CountError, IntSetError
from intset.expr.node import Cond, Expr, as_cond, as_expr
from tests.intset.partial import value
from tests.sweeps import daily

i, j, n = Var("i"), Var("j"), Var("n")
Point = dict[Var, int]
SIZES = (-1, 0, 1, 2, 3, 5)


class Case:
    """A context of `i` and of `j`, whose range may depend on `i`, under facts; `i` may be kept."""

    def __init__(self, seed: int) -> None:
        r = self.r = random.Random(seed)
        self.sizes = self.n, self.m = self.size("n"), self.size("m")
        self.ranges = {i: (r.choice((0, 0, 1, -1)), self.end()), j: (0, self.end(i))}
        self.facts = [self.fact() for _ in range(r.randint(0, 3))]
        self.ctx = Context({v: Range(*side) for v, side in self.ranges.items()}, assume=self.facts)
        self.keep = r.choice(((), (), (i,)))
        self.e = r.choice((i, j, i + j, i // 2, i * 2 + j % 2, const(3), self.n + i))
        stated = [v.declared() for v in self.sizes]
        self.what = (stated, self.ranges, self.facts, self.keep, self.e)

    def size(self, name: str) -> Var:
        r = self.r
        return Var(name) if r.random() < 0.5 else ShapeVar(name, lower=r.randint(0, 2), upper=r.choice((None, 5)))

    def end(self, *outer: Var) -> Expr:
        r = self.r
        v, k = r.choice((*self.sizes, *outer)), r.randint(-2, 3)
        return r.choice(
            (const(k + 2), v, v + k, minimum(v, k), select(v >= k, 3, k), v // 2, v // r.choice(self.sizes))
        )

    def fact(self) -> Cond:
        n, m = self.sizes
        a = self.r.choice((n, m, n, m, n + m, n - m, n % 2, n // m, 6 // n, i, i + j, j - n))
        b = self.r.choice((const(self.r.randint(0, 4)), m))
        return as_cond(self.r.choice((a <= b, a >= b, a.eq(b), a.ne(b), (a >= b) | (m >= 3))))

    def points(self, sizes: Point) -> list[Point]:
        found = [sizes]
        for v, (low, extent) in self.ranges.items():
            ends = [(point, value(as_expr(extent), point)) for point in found]
            found = [{**point, v: k} for point, end in ends if end is not None for k in range(low, low + end)]
        return [point for point in found if all(value(fact, point) is True for fact in self.facts)]

    def is_allowed(self, place: Point) -> bool:
        """Whether the facts about sizes and kept variables hold."""
        for v in self.sizes:
            low, high, _ = v.declared()
            if (low is not None and place[v] < low) or (high is not None and place[v] > high):
                return False
        if self.keep:
            low, extent = (value(as_expr(end), place) for end in self.ranges[i])
            if low is None or extent is None or not low <= place[i] < low + extent:
                return False
        return all(value(fact, place) is True for fact in self.facts if set(fact.free_vars()) <= place.keys())


def number_of(found: IntSet | Region) -> object:
    try:
        return found.count() if found.is_exact else None
    except CountError:
        return None


def check(case: Case, found: IntSet | Region, exprs: Sequence[Expr]) -> int:
    """How many places were looked at."""
    number, looked = number_of(found), 0
    for a, b in itertools.product(SIZES, repeat=2):
        points = case.points({case.n: a, case.m: b})
        for k in range(-1, 4) if case.keep else (0,):
            place = {case.n: a, case.m: b, **dict.fromkeys(case.keep, k)}
            there = found.at(place)
            if not case.is_allowed(place):
                assert there.is_empty and there.count() == 0, (case.what, place)
                assert any(" is excluded by " in text for text in there.notes), (case.what, place)
                continue
            looked += 1
            mine = [point for point in points if place.items() <= point.items()]
            true = {tuple(value(e, point) for e in exprs) for point in mine}
            for point in true:
                assert (point if isinstance(there, Region) else point[0]) in there, (case.what, place)
            if found.is_exact:
                assert there.count() == len(true), (case.what, place, there)
            if number is not None:
                counted = value(number, place) if isinstance(number, Expr) else number
                assert counted == len(true), (case.what, place, number)
    return looked


@pytest.mark.parametrize("seed", daily(range(4_000), 250))
@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_against_enumeration(seed: int) -> None:
    case = Case(seed)
    try:
        asked = [(case.ctx.value_set(case.e, keep=case.keep), [case.e])]
        asked.append((case.ctx.image((case.e, i), keep=case.keep), [case.e, i]))
    except IntSetError:
        return
    for found, exprs in asked:
        check(case, found, exprs)


KINDS = {
    27: "a fact of sizes alone that has no value at some",
    31: "sizes that a fact of sizes alone excludes where the range is empty anyhow",
    270: "a range of width 0 at values of a kept variable that are allowed",
    277: "a range whose end has no value at a size that is allowed",
    302: "an end that divides by a size, under a kept variable",
}


@pytest.mark.parametrize("seed", KINDS, ids=str)
def test_kinds_that_few_cases_are_of(seed: int) -> None:
    test_against_enumeration(seed)


def test_the_cases_are_of_all_kinds() -> None:
    """Most cases have excluded and allowed sizes."""
    cases = [Case(seed) for seed in range(40)]
    places = [[{case.n: a, case.m: b, i: 0} for a in SIZES for b in SIZES] for case in cases]
    allowed = [sum(map(case.is_allowed, some)) for case, some in zip(cases, places, strict=True)]
    assert sum(0 < k < len(SIZES) ** 2 for k in allowed) >= 20


def test_one_rule_for_three_forms() -> None:
    stated = Context({i: Range(0, 4)}, assume=[n >= 2])
    assert stated.value_set(i).count() == 4 and stated.image((i, i)).count() == 4
    for found in (stated.value_set(i), stated.image((i, i)), stated.relation((i,), (i + 1,))):
        assert found.at({n: 1}).is_empty and found.at({n: 1}).notes == ("n = 1 is excluded by n >= 2",)
        assert not found.at({n: 2}).is_empty and not found.at({n: 2}).notes
        assert found.at({"n": 1}).is_empty
    assert stated.image((i, i)).at({n: 1}).box == (Range(0, 0),) * 2 or stated.image((i, i)).at({n: 1}).count() == 0
    ranged = Context({i: Range(0, n), j: Range(0, 4)})  # n = 0 is allowed, and leaves nothing
    number = ranged.value_set(j).count()
    assert [value(as_expr(number), {n: k}) for k in (-1, 0, 1)] == [0, 0, 4]  # type: ignore[arg-type]
    assert ranged.value_set(j).at({n: 0}).count() == 0 and not ranged.value_set(j).at({n: 0}).notes
    chosen = Context({i: Range(0, select(n >= 1, 4, 0))}).value_set(i)
    assert [chosen.at({n: k}).count() for k in (0, 1)] == [value(as_expr(chosen.count()), {n: k}) for k in (0, 1)]  # type: ignore[arg-type]


def test_what_is_declared_excludes_too() -> None:
    size = ShapeVar("n", lower=1, upper=64)
    ctx = Context({i: Range(0, size), j: Range(0, 4)})
    assert ctx.value_set(j).count() == 4
    for found in (ctx.value_set(i), ctx.value_set(j), ctx.image((i, j)), ctx.image((j, j))):
        assert found.at({size: 0}).is_empty and found.at({size: 0}).notes == ("n = 0 is excluded by n >= 1",)
        assert found.at({size: 65}).is_empty and "n <= 64" in found.at({size: 65}).notes[-1]


def test_regions_of_bounds() -> None:
    size = te.size_var("n")
    a = te.placeholder((size,), name="A")
    b = te.compute((size,), lambda x: a[x] + 1, name="B")
    c = te.compute((size,), lambda x: b[x] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].op.axis[0])
    bounds = infer_bound(s, ctx=Context(assume=[size >= 3]))
    for tensor in (a, b, c):
        for region in (bounds.required(tensor), bounds.computed(tensor)):
            assert region.at({size: 2}).is_empty and "n >= 3" in region.at({size: 2}).notes[-1]
            assert not region.at({size: 3}).is_empty and not region.at({size: 3}).notes

"""Claims of regions and region operations, against all points of small worlds.

Counts over instances, samples, ends, hulls, differences, projections: per value of sizes and kept variables, and under
an insufficient budget, which permits refusals but no wrong answers.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NoReturn, TypeVar

import pytest

from intset import Context, Range, Region, ShapeVar, Var, evaluate, using
from intset.domains.sets import region as domains_region
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.evaluate import compiled
from intset.expr.node import Expr
from intset.infinity import NEG_INF, POS_INF, Infinity
from tests.intset.answers.test_claims_points import WORLDS, World, i, j, n

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
Point = tuple[int, ...]
Truth = dict[Point, set[Point]]  # parameter values: points
T = TypeVar("T")

few = ShapeVar("few", lower=-2, upper=3)
wide = ShapeVar("wide", lower=3, upper=8, multiple_of=2)
REGIONS = {
    **WORLDS,
    "a size that may leave nothing": World({i: Range(0, few), j: Range(0, 2)}, sizes=(few,)),
    "one that leaves nothing where the other is large": World({i: Range(0, 4 - n), j: Range(0, n)}, sizes=(n,)),
    "facts of sizes alone": World({i: Range(0, 3), j: Range(0, n)}, (n.ne(2), n + few <= 4), (n, few)),
    "a range that starts at a quotient of a size": World({i: Range(4 // few, 2), j: Range(0, 2)}, sizes=(few,)),
    "a size far from 0": World({i: Range(wide, 2), j: Range(0, 2)}, sizes=(wide,)),
}


def answered(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except (BudgetError, UndecidedError, CountError):
        return None


def number_of(ask: Callable[[], T]) -> T | None:
    """As above; no number is `None`."""
    found = answered(lambda: (ask(),))
    assert found is None or found[0] is not None
    return None if found is None else found[0]


def pairs(world: World) -> list[tuple[Expr, Expr]]:
    x, y = list(world.ranges)[:2]
    size = world.sizes[0] if world.sizes else x
    return [(x + 0, y + 0), (x + y * 2, y - x), (x + size, y % 2), (y * 0 + 3, x * 2), (x, x * size)]


def truth_of(world: World, exprs: tuple[Expr, ...], keep: tuple[Var, ...]) -> Truth:
    found: Truth = {}
    functions = [compiled(e, world.variables) for e in exprs]
    places = [world.variables.index(v) for v in (*world.sizes, *keep)]
    for point in world.points:
        found.setdefault(tuple(point[k] for k in places), set()).add(tuple(f(*point) for f in functions))
    return found


class Asked:
    """A region under test with its true points."""

    def __init__(self, region: Region, truth: Truth, fixed: tuple[Var, ...], tally: Counter[str]) -> None:
        self.region, self.truth, self.fixed, self.tally = region, truth, fixed, tally

    def of(self, region: Region, points: Callable[[set[Point]], set[Point]]) -> Asked:
        """The result of an operation on the region, with the transformed points."""
        return Asked(region, {at: points(own) for at, own in self.truth.items()}, self.fixed, self.tally)

    def per_instance(self) -> dict[Point, set[Point]]:
        """The points at each value of those parameters that the region depends on."""
        places = [k for k, v in enumerate(self.fixed) if v in self.region.params]
        found: dict[Point, set[Point]] = {}
        for at, own in self.truth.items():
            found.setdefault(tuple(at[k] for k in places), set()).update(own)
        return found

    def counts(self) -> None:
        region, numbers = self.region, [len(own) for own in self.per_instance().values()]
        most, total, number = (number_of(ask) for ask in (region.count_max, region.count_total, region.count))
        sample = answered(region.sample) if region.is_exact else None
        assert sample is None or any(sample in own for own in self.truth.values()), (region, sample)
        self.tally["counted"] += number is not None
        self.tally["instances"] += total is not None
        assert not region.is_empty or not any(numbers), region
        if not region.is_exact:
            assert {most, total, number} <= {None} or region.is_empty and {most, total, number} == {0}, region
            return
        assert most is None or most == max(numbers, default=0), (region, most, numbers)
        assert total is None or total == sum(numbers), (region, total, numbers)
        for at, own in self.truth.items() if number is not None else ():
            there = evaluate(number, self.at(at)) if isinstance(number, Expr) else number
            assert there == len(own), (region, number, at, own)

    def at(self, values: Point) -> Mapping[Var, int]:
        return dict(zip(self.fixed, values, strict=True))

    def placed(self) -> None:
        """Substituted parameters lose no points, even under insufficient budgets."""
        parts = answered(self.region.pieces) or ()
        for values, own in list(self.truth.items())[:1]:
            at = self.at(values)
            for there in (self.region.at(at), *(part.at(at) for part in parts)):
                assert not there.is_empty or not own or len(parts) > 1, (there, at)
            for k, side in enumerate(self.region.at(at).box) if own else ():
                column = [point[k] for point in own]
                low, high = (end if isinstance(end, Infinity) else int(end) for end in (side.min, side.max))
                assert low is NEG_INF or low <= min(column), (self.region, at)
                assert high is POS_INF or high >= max(column), (self.region, at)

    def points(self) -> None:
        """At some of the values: the elements, the pieces, the ends."""
        region = self.region
        least, most = (answered(ask) for ask in (region.lexmin, region.lexmax))
        parts = answered(region.pieces)
        for values, own in list(self.truth.items())[:: max(1, len(self.truth) // 2)]:
            at = self.at(values)
            there = region.at(at)
            if not own:
                assert there.is_empty or not there.is_exact, (region, at)
                continue
            spans = [range(min(c) - 1, max(c) + 2) for c in zip(*own, strict=True)]
            inside = {point for point in itertools.product(*spans) if point in there}
            assert own <= inside and (inside == own or not region.is_exact), (region, at, own)
            if parts is not None:
                placed = [part.at(at) for part in parts]
                held = {point: sum(point in part for part in placed) for point in itertools.product(*spans)}
                assert all(times == (point in inside) for point, times in held.items()), (region, at, parts)
            for k, side in enumerate(region.box):
                low, high = (evaluate(e, at) if isinstance(e, Expr) else None for e in (side.min, side.max))
                column = [point[k] for point in own]
                assert low is None or low <= min(column), (region, k, at)
                assert high is None or high >= max(column), (region, k, at)
                assert not region.is_tight or (low, high) == (min(column), max(column)), (region, k, at)
            if region.is_exact:
                assert least is None or tuple(evaluate(e, at) for e in least) == min(own), (region, at)
                assert most is None or tuple(evaluate(e, at) for e in most) == max(own), (region, at)


def box(points: set[Point]) -> set[Point]:
    return set(itertools.product(*(range(min(c), max(c) + 1) for c in zip(*points, strict=True)))) if points else set()


@pytest.mark.parametrize("name", REGIONS)
def test_regions(name: str) -> None:
    world, tally = REGIONS[name], Counter[str]()
    variables = list(world.ranges)
    corner = Context({i: Range(0, 2), j: Range(0, 3)}).image((i, j))
    taken = set(itertools.product(range(2), range(3)))
    nothing = Context({i: Range(0, 2), j: Range(i + 2, -i)}).image((i, j), domain="stride")
    for number, (keep, domain) in enumerate((((), "auto"), ((variables[0],), "auto"), ((), "stride"))):
        exprs = pairs(world)[(len(name) + number) % 5]
        fixed = (*world.sizes, *keep)
        asked = Asked(
            world.context().image(exprs, keep=keep, domain=domain), truth_of(world, exprs, keep), fixed, tally
        )
        asked.points()
        made = [asked]
        if domain == "auto":
            region = asked.region
            operations: list[tuple[Callable[[], Region], Callable[[set[Point]], set[Point]]]] = [
                (region.hull, box),
                (lambda: region - corner, lambda points: points - taken),  # noqa: B023
                (lambda: region & corner, lambda points: points & taken),  # noqa: B023
                (lambda: region.project((1,)), lambda points: {(y,) for _, y in points}),  # noqa: B023
            ]
            turn = len(name) // 3 + number
            made += [asked.of(make(), points) for make, points in (operations[turn % 4], operations[(turn + 2) % 4])]
            made[-1].points()
            with using(isl_operations=1):
                make, points = operations[(turn + 1) % 4]
                poor = asked.of(make(), points)
            poor.points()
        for one in made:
            one.counts()
            with using(isl_operations=1):
                one.counts()
                one.placed()
                union, same = asked.region | corner, (asked.region | nothing, nothing | asked.region)
        asked.of(union, lambda points: points | taken).points()
        for one in same:
            asked.of(one, lambda points: points).points()
    assert tally["counted"] or not world.points


def test_extreme_targets_are_counted_themselves() -> None:
    pairs = Context({i: Range(0, 6), j: Range(0, i + 1)}).relation((i,), (j,))
    for extreme in (pairs.lexmin(), pairs.lexmax()):
        with using(isl_operations=1):
            assert answered(extreme.pairs.count) in (None, 6)
        assert extreme.pairs.count() == 6


def test_a_sample_is_at_values_that_sizes_have() -> None:
    """Samples respect declarations, also for substituted parameters and nonlinear terms of sizes."""
    v, m = Var("v"), ShapeVar("m", lower=2, upper=3)
    moved = Context({i: Range(0, 1)}).image((i + v,))
    assert moved.at({v: wide}).sample() in {(4,), (6,), (8,)}
    for e, truth in ((n * m + i, {a * b for a in range(1, 6) for b in (2, 3)}), (n * n + i, {1, 4, 9, 16, 25})):
        for first in range(0, 30, 3):
            region = Context({i: Range(0, 1)}, assume=[e - i >= first]).image((e,))
            sample = answered(region.sample)
            assert sample is None or sample[0] in truth and sample[0] >= first, (e, first, sample)


@pytest.mark.parametrize("size", [1, 3])
def test_where_values_can_only_be_put_into_the_box_it_holds_every_point(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> NoReturn:
        raise BudgetError("too many operations")

    region = Context({i: Range(0, n), j: Range(i, 3)}).image((i + n, j - i * 2))
    truth = {(x + size, y - x * 2) for x in range(size) for y in range(x, x + 3)}
    monkeypatch.setattr(domains_region, "shape_at", refused)
    for found in (region.at({n: size}), (region | region.project([1, 0])).at({n: size})):
        sides = [(evaluate(r.min), evaluate(r.max)) for r in found.box]
        assert all(low <= x <= high for point in truth for x, (low, high) in zip(point, sides, strict=True))
        assert not found.is_exact and any("box alone" in note for note in found.notes)
    assert [(evaluate(r.min), evaluate(r.max)) for r in region.at({n: size}).box] == [
        (min(side), max(side)) for side in zip(*truth, strict=True)
    ]

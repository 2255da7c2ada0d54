"""Exhaustive claims about small questions, to kill every mutant that falsifies a structural claim.

All expressions of a few shapes over all small boxes, for every domain with structural claims, against enumeration.
Shapes: sums whose coefficients leave gaps, overlap or fit exactly; quotients, remainders and minima of such sums; sums
of terms with and without shared variables. Facts, dependent ranges and sizes vary.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from intset import Context, Opaque, Range, ShapeVar, Var, evaluate, maximum, minimum, select, using
from intset.domains.sets.base import empty_set
from intset.errors import BudgetError, CountError, EvaluationError
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr
from intset.infinity import NEG_INF, POS_INF

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
i, j, k = Var("i"), Var("j"), Var("k")
n, m = ShapeVar("n", lower=1, upper=9), ShapeVar("m", lower=1, upper=9)

BOXES = [
    (Range(0, 2), Range(0, 2)),
    (Range(0, 2), Range(-2, 4)),
    (Range(-1, 3), Range(0, 3)),
    (Range(0, 3), Range(-2, 3)),
    (Range(2, 1), Range(1, 4)),
]


def affine() -> Iterator[Expr]:
    for p, q, c in itertools.product((1, 2, -3), (1, -2, 3, 4), (0, 2)):
        yield i * p + j * q + c


def shapes() -> Iterator[Expr]:
    """Every shape of a sum, over one or two variables."""
    for e in affine():
        yield e
        for c in (2, 3, 5, 6):
            yield e // c
            yield e % c
        yield e % 3 + i
        yield e // 2 - j
        yield e % 4 + e // 4
        yield minimum(e, j + 1)
        yield maximum(e, i * 2)
        yield (e // 2) % 3
        yield (e % 6) // 2
        yield minimum(e % 3, i) * 2 + j
    for c, d in itertools.product((2, 3, 4, 5), (1, 2, 3)):
        yield (i * d) % c + (j * 3 + 1) % c
        yield (i * c) // d + j // c
        yield (i % c) * d + j % d
        yield (i * c + j) // c * d
        yield (i // c) * c + i % c + j * d
        yield minimum(i * c, 4) - maximum(j, d)
        yield minimum(i, d) * c + j
        yield maximum(minimum(i + j, c), d - i)
        yield (i * j) % c + d
        yield i * j * c - d
        yield (i * i + j) % c
        yield (i * i * d + i) % c
        yield (j * j * d + j) % c
        yield (i * j * d + j) % c
        yield (i + 9) % (j + c + d)
        yield abs(i * c - d) + j
        yield i % (j + c + 2) * d
        yield (i * c + 1) // (j * j + d)
        yield select(i < 1, j * c, i + d)
        yield select(j < d, i * c, j) + i
        yield (i + j * c) % -d
        yield (i + j) // -c
        yield (i + j * d) % c + j % 2


SHAPES = tuple(shapes())


@cache
def function(e: Expr | Cond, variables: tuple[Var, ...]) -> Callable[..., Any]:
    return compiled(e, variables)


def values(e: Expr | Cond, variables: Iterable[Var], points: Sequence[tuple[int, ...]]) -> list[Any]:
    return values_of(function(e, tuple(variables)), points)


def values_of(value: Callable[..., Any], points: Sequence[tuple[int, ...]]) -> list[Any]:
    found = []
    for point in points:
        try:
            found.append(value(*point))
        except (ZeroDivisionError, EvaluationError):
            continue
    return found


def number(end: Any, at: dict[Var, int]) -> Any:
    return end if end is NEG_INF or end is POS_INF else evaluate(end, at)


def hold_ends(what: tuple, ends: Sequence[Any], tight: bool, truth: set[int], at: dict[Var, int]) -> None:
    low, high = (number(end, at) for end in ends)
    if not truth:
        return
    assert low is NEG_INF or (low is not POS_INF and low <= min(truth)), (*what, ends, truth, at)
    assert high is POS_INF or (high is not NEG_INF and high >= max(truth)), (*what, ends, truth, at)
    assert not tight or (low, high) == (min(truth), max(truth)), (*what, ends, truth, at)


def hold_set(what: tuple, found: Any, truth: set[int], tally: Counter[str]) -> None:
    """An answer without parameters."""
    hold_ends(what, found.ends(), found.is_tight, truth, {})
    assert all(value in found for value in truth), (*what, found, truth)
    tally["tight"] += found.is_tight
    assert empty_set("") <= found
    if not found.is_exact:
        return
    tally["exact"] += 1
    assert found.is_empty is (not truth), (*what, found, truth)
    around = range(min(truth) - 3, max(truth) + 4) if truth else range(-3, 4)
    assert {v for v in around if v in found} == truth, (*what, found, truth)
    try:
        assert found.count() == len(truth), (*what, found, found.count(), truth)
    except CountError:
        tally["not counted"] += 1


def ask(ctx: Context, e: Expr, truth: set[int], domain: str, tally: Counter[str]) -> None:
    what = (domain, e, ctx)
    bounds = ctx.bounds(e, domain=domain)
    tally["asked"] += 1
    tally["tight bounds"] += bounds.is_tight
    if not truth:
        assert bounds.is_empty or not bounds.is_tight, (*what, bounds)
    hold_ends(what, bounds, bounds.is_tight, truth, {})
    hold_set(what, ctx.value_set(e, domain=domain), truth, tally)


@cache
def truths(box: tuple[Range, Range]) -> list[set[int]]:
    """The values of each shape."""
    points = list(itertools.product(*(range(r.ends[0], r.ends[1] + 1) for r in box)))
    return [set(values(e, (i, j), points)) for e in SHAPES]


@pytest.mark.parametrize("domain", ["interval", "stride"])
def test_boxes(domain: str) -> None:
    """By the domains that claim by structure alone."""
    tally: Counter[str] = Counter()
    for box in BOXES:
        ctx = Context(dict(zip((i, j), box, strict=True)))
        for e, truth in zip(SHAPES, truths(box), strict=True):
            ask(ctx, e, truth, domain, tally)
    assert tally["asked"] >= 3_000 and tally["tight"] > 1_000, tally
    assert domain == "interval" or tally["exact"] > 1_000, tally


FACTS: dict[str, Callable[[], list[Cond]]] = {
    "a sum": lambda: [i + j <= 2],
    "a hole": lambda: [i.ne(1)],
    "a stride": lambda: [((i + j) % 2).eq(0)],
    "a choice": lambda: [(i < 1) | (j > 0)],
    "a tie": lambda: [(j - i * 2).eq(0)],
    "a division": lambda: [6 // i > 1],
    "a division without a value at a corner": lambda: [6 // (i * i + j * j - 2) >= -4],
    "ends that are not reached": lambda: [i * 2 + j * 2 <= 3, i + j >= -1],
    "one of another variable": lambda: [k <= 2, k >= i],
}
QUESTIONS = (
    i, j, i + j, i - j, i * 2 + j, j - i * 3, i * j, (i + j) % 3, (i * 3 + j) // 2, minimum(i, j), maximum(i * 2, j),
    abs(j), abs(i - j), (i + 3 * j + 2) % 5, i % 2 + j, select(i < 1, j, i * 4), (i + j) // 2 - j % 2, j * j, i * 4 + 1,
    minimum(i + j, 2) * 2 - j, (i * 2 + j * 3) % 4, i // 2 + j // 2, maximum(i, 1) - minimum(j, 1), (i - 1) * (j + 1),
)  # fmt: skip


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
@pytest.mark.parametrize("name", FACTS)
def test_facts(name: str, domain: str) -> None:
    """Under facts, attained ends need a witness that satisfies the facts."""
    tally: Counter[str] = Counter()
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        ranges = {i: first, j: second, k: Range(0, 3)}
        facts = FACTS[name]()
        ctx = Context(ranges, assume=facts)
        box = itertools.product(*(range(r.ends[0], r.ends[1] + 1) for r in ranges.values()))
        points = [point for point in box if all(values(fact, ranges, [point]) == [True] for fact in facts)]
        for e in QUESTIONS:
            ask(ctx, e, set(values(e, ranges, points)), domain, tally)
    assert tally["asked"] == 3 * len(QUESTIONS)
    assert domain not in ("auto", "points") or tally["exact"] == tally["asked"]


DEPENDENT: tuple[tuple[Range, Callable[[], Range]], ...] = (
    (Range(0, 4), lambda: Range(0, i)),
    (Range(0, 4), lambda: Range(i, 3)),
    (Range(-1, 4), lambda: Range(0, i - 1)),
    (Range(0, 3), lambda: Range(i * 2, 2 - i)),
)


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
def test_dependent_ranges(domain: str) -> None:
    """Dependent ranges that are empty for some values of the outer variable."""
    tally: Counter[str] = Counter()
    for outer, inner in DEPENDENT:
        limits = inner()
        ctx = Context({i: outer, j: limits})
        points = [
            (a, b)
            for a in range(outer.ends[0], outer.ends[1] + 1)
            for b in range(-9, 12)
            if evaluate((limits.min <= j) & (j <= limits.max), {i: a, j: b})
        ]
        for e in QUESTIONS:
            ask(ctx, e, set(values(e, (i, j), points)), domain, tally)
    assert tally["asked"] == 4 * len(QUESTIONS)


SYMBOLIC = (
    i * m + j, i + j * n, i * m * 2 + j, i * 2 * m + j * 2, i * n + j * n, i * m - j, i * (m + 1) + j, i + j, i - j,
    i * 2 + j, i * m + j + n, (i * m + j) // m, (i * m + j) % m, minimum(i, j), maximum(i, j) + 1, i * m, n - i, i * i,
    i * 3 + j * 2, i * (m - 1) + j, -i * m - j, i * m + j * 2, i + j + m,
)  # fmt: skip
Truths = dict[tuple[int, int], set[int]]
SIZED: tuple[Callable[[], dict[Var, Range]], ...] = (
    lambda: {i: Range(0, n), j: Range(0, m)},
    lambda: {i: Range(1, n), j: Range(-1, m)},
    lambda: {i: Range(0, n - 1), j: Range(0, m + 1)},
    lambda: {i: Range(n, 3), j: Range(0, m * 2)},
    lambda: {i: Range(0, n), j: Range(0, 3)},
)


@cache
def sized(make: Callable[[], dict[Var, Range]], facts: tuple[Cond, ...]) -> tuple[dict[Var, Range], dict[Expr, Truths]]:
    """Ranges, and at each of several sizes the values of each expression."""
    ranges, points = make(), {}
    held = [compiled(fact, (n, m, i, j)) for fact in facts]
    for a, b in itertools.product((1, 2, 4), (1, 2, 3)):
        spans = [range(evaluate(r.min, {n: a, m: b}), evaluate(r.max, {n: a, m: b}) + 1) for r in ranges.values()]
        points[a, b] = [p for p in itertools.product((a,), (b,), *spans) if all(fact(*p) for fact in held)]
    found = {}
    for e in SYMBOLIC:
        value = compiled(e, (n, m, i, j))
        found[e] = {sizes: set(values_of(value, there)) for sizes, there in points.items()}
    return ranges, found


@pytest.mark.parametrize("domain", ["auto", "interval", "stride"])
@pytest.mark.parametrize("facts", [(), (i + 1 < n,), (j <= 2,), (m.eq(2),)], ids=str)
def test_sizes(domain: str, facts: tuple[Cond, ...]) -> None:
    """Ends, tightness and exactness at each of several sizes."""
    tally: Counter[str] = Counter()
    for make in SIZED:
        ranges, truths = sized(make, facts)
        ctx = Context(ranges, assume=facts)
        for e in SYMBOLIC:
            bounds, found = ctx.bounds(e, domain=domain), ctx.value_set(e, domain=domain)
            tally["asked"] += 1
            tally["tight"] += bounds.is_tight
            tally["exact"] += found.is_exact
            is_element = compiled(found.condition(k), (k, n, m))
            for (a, b), truth in truths[e].items():
                at = {n: a, m: b}
                hold_ends((domain, e, ranges, facts), bounds, bounds.is_tight, truth, at)
                hold_ends((domain, e, ranges, facts), found.ends(), found.is_tight, truth, at)
                around = range(min(truth) - 2, max(truth) + 3) if truth else ()
                inside = {v for v in around if is_element(v, a, b)}
                assert truth <= inside and (not found.is_exact or inside == truth), (domain, e, ranges, at, found)
    assert tally["asked"] == len(SIZED) * len(SYMBOLIC)
    assert domain == "stride" or facts or tally["tight"] > 10, tally


PAIRS = [
    (i, j), (i + j, j), (i, i), (i * 2, j + 1), (i + j, i - j), (i % 2, j), (i // 2, i % 2), (i * 3 + j, j % 2), (j, i),
    (minimum(i, j), i), (i * j, j),
]  # fmt: skip


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points"])
@pytest.mark.parametrize("facts", [(), (i + j <= 2,), (k <= 1,), (i.eq(j),)], ids=str)
def test_regions(domain: str, facts: tuple[Cond, ...]) -> None:
    """A product of sets is exact only where the coordinates are independent."""
    exact = 0
    for first, second in (BOXES[0], BOXES[3], BOXES[4]):
        ranges = {i: first, j: second, k: Range(0, 3)}
        ctx = Context(ranges, assume=facts)
        box = itertools.product(*(range(r.ends[0], r.ends[1] + 1) for r in ranges.values()))
        points = [point for point in box if all(values(fact, ranges, [point])[0] for fact in facts)]
        for pair in PAIRS:
            truth = set(zip(*(values(e, ranges, points) for e in pair), strict=True))
            region = ctx.image(pair, domain=domain)
            exact += region.is_exact
            sides = [sorted({point[d] for point in truth}) for d in range(2)]
            box_of = [(number(r.min, {}), number(r.max, {})) for r in region.box]
            for (low, high), side in zip(box_of, sides, strict=True):
                assert not side or (low <= side[0] and high >= side[-1]), (domain, pair, facts, region)
                assert not side or not region.is_exact or (low, high) == (side[0], side[-1]), (pair, facts, region)
            around = [range(side[0] - 2, side[-1] + 3) if side else range(-4, 9) for side in sides]
            inside = {p for p in itertools.product(*around) if p in region}
            assert truth <= inside, (domain, pair, facts, region)
            assert not region.is_exact or inside <= truth, (domain, pair, facts, region)
            assert region.is_empty is False or not truth
            with contextlib.suppress(CountError, BudgetError):
                assert not region.is_exact or region.count() == len(truth), (domain, pair, facts, region)
    assert exact > 0 or facts or domain == "interval"


A = Opaque("A", 1, 0, 1)
LOADS = (A[i] + A[j], A[i] - A[i], A[i] + i, A[i] * 2 - A[j], A[A[i]], minimum(A[i], A[0]), A[i] % 2 - A[j] % 2)


def test_loads() -> None:
    """Loads of one symbol at equal indices are equal: two ends are not taken apart there."""
    tight = 0
    for extent, facts in itertools.product((1, 2), ((), (A[i].eq(j),), (A[0] < 1,), (i + j < 2,))):
        ctx = Context({i: Range(0, extent), j: Range(0, 2)}, assume=facts)
        points = [
            {i: a, j: b, A: both.__getitem__}
            for both in itertools.product((0, 1), repeat=2)
            for a, b in itertools.product(range(extent), range(2))
        ]
        points = [point for point in points if all(evaluate(fact, point) for fact in facts)]
        for e in LOADS:
            truth = {evaluate(e, point) for point in points}
            bounds = ctx.bounds(e)
            tight += bounds.is_tight
            hold_ends(("loads", e, facts), bounds, bounds.is_tight, truth, {})
    assert tight > 20


GOALS: tuple[Callable[[int], Cond], ...] = (
    lambda c: i + j < c,
    lambda c: i * 2 - j >= c,
    lambda c: (i * 3 + j) % 4 <= c,
    lambda c: minimum(i, j) < c,
    lambda c: select(i < 1, j, i * 2) <= c,
    lambda c: maximum(i, j) - minimum(i, j) < c,
    lambda c: (i * j).ne(c),
    lambda c: (i < c) | (j < c),
    lambda c: select(i < j, select(j < c, i, j), i + c) >= c - 1,
    lambda c: abs(i - j) < c,
)


@pytest.mark.parametrize("tiers", [("linear",), ("linear", "points"), ("linear", "isl")], ids=str)
def test_proofs(tiers: tuple[str, ...]) -> None:
    """Proved is true at every point; refuted fails at the counterexample; what is certified passes its check."""
    status: Counter[str] = Counter()
    with using(tiers=tiers):
        for (first, second), facts in itertools.product((BOXES[0], BOXES[3], BOXES[4]), ((), (i + j <= 2,), (i <= j,))):
            ranges = {i: first, j: second}
            ctx = Context(ranges, assume=facts)
            points = list(itertools.product(*(range(r.ends[0], r.ends[1] + 1) for r in ranges.values())))
            points = [point for point in points if all(values(fact, ranges, [point])[0] for fact in facts)]
            for goal, c in itertools.product(GOALS, range(-3, 6)):
                proof = ctx.prove(goal(c))
                status[proof.status] += 1
                truth = values(goal(c), ranges, points)
                assert proof.status != "proved" or all(truth), (goal(c), ranges, facts)
                assert proof.status != "refuted" or not all(truth), (goal(c), ranges, facts)
                if proof.status == "refuted":
                    at = tuple(proof.counterexample[v] for v in ranges)
                    assert at in points and not values(goal(c), ranges, [at])[0], (goal(c), ranges, facts, at)
    assert status.total() == 9 * len(GOALS) * 9 and min(status["proved"], status["refuted"]) > 60


CHOOSING: tuple[Callable[[int], Cond], ...] = (
    lambda c: select(i >= c, -1, i - c + 1) < 0,
    lambda c: select(i.eq(c), 5, j) < 5,
    lambda c: select(j.ne(c), j, 7) <= 4,
    lambda c: minimum(i, j).eq(c),
    lambda c: maximum(i, c).eq(select(i < c, c, i)),
    lambda c: abs(i - c).eq(select(i >= c, i - c, c - i)),
    lambda c: minimum(i, j).ne(c),
    lambda c: select(i < c, j, -4).ne(j),
    lambda c: abs(j - c) > 0,
    lambda c: select((i < c) & (j > 0), 1, 0) + select((i >= c) | (j <= 0), 1, 0) <= 1,
    lambda c: select((i < c) | (j.eq(c)), i, c).eq(minimum(i, c)),
    lambda c: (maximum(i, j) >= c) | (minimum(i, j) < c - 1),
    lambda c: maximum(minimum(i, c), j - c) <= select(i + j > c, 2, 1),
)


def test_proofs_by_cases() -> None:
    """Goals that fail at few points: skipping or confusing a case would prove one of them."""
    status: Counter[str] = Counter()
    with using(tiers=("linear",)):
        for (first, second), facts in itertools.product(
            (BOXES[3], BOXES[4], (Range(-2, 4), Range(0, 2))), ((), (i <= j,))
        ):
            points = [
                (a, b)
                for a, b in itertools.product(*(range(r.ends[0], r.ends[1] + 1) for r in (first, second)))
                if not facts or a <= b
            ]
            ctx = Context({i: first, j: second}, assume=facts)
            for make, c in itertools.product(CHOOSING, range(-2, 4)):
                goal = make(c)
                proof = ctx.prove(goal)
                status[proof.status] += 1
                truth = values(goal, (i, j), points)
                assert proof.status != "proved" or all(truth), (goal, ctx, facts)
                assert proof.status != "refuted" or not all(truth), (goal, ctx, facts)
    assert status["proved"] > 60, status

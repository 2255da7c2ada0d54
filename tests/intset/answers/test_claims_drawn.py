"""Thousands of random expressions for the cheap analyses: bounds and proofs by structure, against enumeration.

A wrong side condition in the linear form, derived signs or variable elimination shows on few expressions, hence the
number: over sizes, over boxes with every operation, and with partial operations.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest

from intset import (
    Context,
    Range,
    ShapeVar,
    Var,
    bounded,
    cast,
    ceildiv,
    const,
    evaluate,
    logical_and,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
    truncmod,
    using,
)
from intset.errors import EvaluationError
from intset.expr.definedness import embedded_claims
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr
from intset.infinity import NEG_INF, POS_INF, Infinity

pytestmark = [
    pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning"),
    pytest.mark.usefixtures("asked_anew"),
]
i, j = Var("i"), Var("j")
n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=0, upper=6)
s, u = ShapeVar("s", lower=None, upper=3), ShapeVar("u", lower=1, upper=3)  # of either sign, narrow
SIZES = ((1, 1, -2, 2), (2, 3, 1, 1), (4, 2, -1, 3), (3, 0, 2, 2), (5, 4, 0, 1), (2, 6, 3, 3))

WORLDS: tuple[Callable[[], dict[Var, Range]], ...] = (
    lambda: {i: Range(0, n), j: Range(0, m)},
    lambda: {i: Range(1, n), j: Range(-m, m + 2)},
    lambda: {i: Range(0, n), j: Range(0, i + 1)},
    lambda: {j: Range(-1, m), i: Range(j, n)},
    lambda: {i: Range(m, n + 1), j: Range(0, 3)},
    lambda: {i: Range(0, n), j: Range(-1, 3)},
    lambda: {j: Range(0, n), i: Range(j, n - j)},
    lambda: {i: Range(0, u), j: Range(n, 2)},
    lambda: {i: Range(-3, 3), j: Range(s, u)},
    lambda: {i: Range(0, n * 2), j: Range(i, 2)},
)

FACTS: dict[int, tuple[Cond, ...]] = {0: (i + j <= n,), 5: (i * m <= j + n, i <= u * 2)}
"""Of some worlds, for half of what is drawn."""


class Drawing:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def affine(self) -> Expr:
        pick = self.rng.choice
        found = pick((i, j)) * pick((1, 1, 2, -1, -2)) + pick((0, 0, 1, -1, 2, n, m, m, s))
        return found + pick((i, j)) * pick((0, 0, 1, -1, 3)) if self.rng.random() < 0.5 else found

    def coefficient(self) -> Expr:
        return self.rng.choice((*map(const, (1, 1, -1, 2, -3)), n, m, -n, m + 1, n - 1, s, n - m, 2 - m))

    def term(self) -> Expr:
        pick, e = self.rng.choice, self.affine()
        shapes = (
            lambda: pick((i, j)) * self.coefficient(),
            lambda: pick((i, j)) * self.coefficient(),
            lambda: e % pick((n, n, n + 1, m + 1, m, s, u, u)),
            lambda: (i + j * 2) % pick((n, n + 1, u, m + 1)),
            lambda: (i + self.term()) % pick((n, m + 1, u)),
            lambda: e // pick((n, n, m + 1, m, s)),
            lambda: pick((e.__mod__, e.__floordiv__))(pick((i, j)) + pick((1, 2, n))),
            lambda: e // pick((2, 3, -2)),
            lambda: e % pick((2, 3)),
            lambda: minimum(e, self.term()),
            lambda: maximum(self.term(), e),
            lambda: minimum(e, self.affine()) // n,
            lambda: (e // 2 + j) % pick((n, 3)),
            lambda: i * j,
            lambda: i * e,
        )
        return pick(shapes)()

    def sum(self) -> Expr:
        found = self.term()
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            found += self.term() * self.rng.choice((1, 1, -1, 2, n))
        return found


@pytest.mark.parametrize("which", range(len(WORLDS)))
def test_drawn_sums(which: int) -> None:
    drawn, tally = Drawing(random.Random(which)), Counter[str]()
    ranges = WORLDS[which]()
    variables = (n, m, s, u, *ranges)
    told: list[tuple[Context, dict[tuple[int, ...], list[tuple[int, ...]]]]] = []
    for facts in dict.fromkeys(((), FACTS.get(which, ()))):
        within = compiled(_within(ranges, facts), variables)
        window = {sizes: itertools.product(*([v] for v in sizes), range(-6, 12), range(-6, 12)) for sizes in SIZES}
        there = {sizes: [at for at in points if within(*at)] for sizes, points in window.items()}
        told.append((Context(ranges, assume=facts), there))
    with using(tiers=("linear",)):
        for number in range(160):
            e, (ctx, points) = drawn.sum(), told[number % len(told)]
            bounds, value = ctx.bounds(e, domain="interval"), compiled(e, variables)
            tally["tight"] += bounds.is_tight
            tally["ends"] += sum(isinstance(end, Expr) for end in bounds)
            guess = drawn.rng.choice((*(end for end in bounds if isinstance(end, Expr)), drawn.affine() - i - j))
            guess += drawn.rng.choice((-1, 0, 0, 1))
            proofs = [(goal, ctx.prove(goal)) for goal in (e >= guess, e <= guess)]
            holds = [compiled(goal, variables) for goal, proof in proofs if proof]
            tally["proved"] += len(holds)
            for sizes, there in points.items():
                truth, at = set(), dict(zip((n, m, s, u), sizes, strict=True))
                for point in there:
                    try:
                        truth.add(value(*point))
                        assert all(hold(*point) for hold in holds), (e, guess, point)
                    except (ZeroDivisionError, EvaluationError):
                        continue
                if not truth:
                    continue
                low, high = (evaluate(end, at) if isinstance(end, Expr) else end for end in bounds)
                assert low is NEG_INF or low <= min(truth), (e, ranges, at, bounds)
                assert high is POS_INF or high >= max(truth), (e, ranges, at, bounds)
                assert not bounds.is_tight or (low, high) == (min(truth), max(truth)), (e, ranges, at, bounds)
    assert tally["tight"] > 5 and tally["ends"] > 150 and tally["proved"] > 20, tally


def _within(ranges: dict[Var, Range], facts: tuple[Cond, ...]) -> Cond:
    return logical_and(*(cond for v, r in ranges.items() for cond in (v >= r.min, v <= r.max)), *facts)


class Operations:
    """Terms of every operation over `i` and `j`, most of which share variables, none nested deeply."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def leaf(self) -> Expr:
        pick = self.rng.choice
        found = pick((i, j)) * pick((1, 1, 2, -1, -3, 4)) + pick((0, 0, 1, -2, 5))
        return found + pick((i, j)) * pick((1, -1, 2, 3)) if self.rng.random() < 0.5 else found

    def nested(self) -> Expr:
        return self.term() if self.rng.random() < 0.35 else self.leaf()

    def condition(self) -> Cond:
        a, b = self.nested(), self.rng.choice((const(self.rng.randint(-2, 4)), self.leaf()))
        cond = self.rng.choice((a < b, a <= b, a >= b, a.eq(b), a.ne(b), (a % 3).eq(1)))
        return self.rng.choice((cond, cond, cond & (i >= 1), cond | (j.eq(0))))

    def term(self) -> Expr:
        pick, e, f = self.rng.choice, self.nested(), self.leaf()
        c, d = pick((2, 3, 4, 5, 6)), pick((2, 3, -2, -3, 5))
        shapes = (
            lambda: e // c, lambda: e % c, lambda: e // c * c, lambda: e % (c * 2) // c, lambda: e - e // c * c,
            lambda: e % (c * d) % c, lambda: e // d, lambda: e % d, lambda: (e * c + f) // c, lambda: (e * c + f) % d,
            lambda: pick((truncdiv, truncmod, ceildiv))(e, d), lambda: pick((truncdiv, truncmod, ceildiv))(e, f),
            lambda: e // f, lambda: e % f, lambda: minimum(e, f), lambda: maximum(e, f), lambda: abs(e), lambda: e * f,
            lambda: select(self.condition(), e, f), lambda: e & f, lambda: e | f, lambda: e ^ f, lambda: ~e,
            lambda: e & pick((1, 3, 6, -2, -4)), lambda: e | pick((1, 4, -3)), lambda: e ^ pick((1, -1, 6)),
            lambda: e << pick((0, 1, 2)), lambda: e >> pick((1, 2)), lambda: e << maximum(f, 0), lambda: e >> abs(f),
            lambda: cast(e, pick((2, 3, 8)), pick((True, False))), lambda: minimum(e, f) - maximum(e, f),
            lambda: i * (e // c) + j * (e % c), lambda: e % (f * f + c), lambda: e // (abs(f) + c),
        )  # fmt: skip
        return pick(shapes)()

    def sum(self) -> Expr:
        found = self.term() * self.rng.choice((1, 1, 2, -1, -3))
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            found += self.rng.choice((self.leaf(), self.term(), self.term())) * self.rng.choice((1, -1, 2))
        return found

    def range(self) -> Range:
        low = self.rng.choice((0, 0, 0, -1, -2, -4, 1, 3, 6))
        return self.rng.choice((Range(low, self.rng.choice((1, 2, 3, 4, 6))),) * 6 + (Range(low, POS_INF),))


def _spans(*ranges: Range) -> list[range]:
    """The values of ranges, of those without end the first."""
    ends = [(int(r.min), 5 if r.extent is POS_INF else int(r.extent)) for r in ranges]
    return [range(low, low + extent) for low, extent in ends]


@pytest.mark.parametrize("part", range(8))
def test_drawn_operations(part: int) -> None:
    """Linear forms preserve values; structural bounds, sets and congruences are sound."""
    drawn, tally = Operations(random.Random(100 + part)), Counter[str]()
    for number in range(40):
        first, second = drawn.range(), drawn.range()
        facts = (drawn.condition(),) if number % 4 == 0 else ()
        ctx = Context({i: first, j: second}, assume=facts)
        holds = compiled(logical_and(*facts, i.eq(i)), (i, j))
        points = [at for at in itertools.product(*_spans(first, second)) if _value(holds, at) is True]
        is_whole = POS_INF not in (first.extent, second.extent)
        for _ in range(4):
            e = drawn.sum()
            same, value = compiled(ctx.frame.canonical(e), (i, j)), compiled(e, (i, j))
            taken = {at: v for at in points if (v := _value(value, at)) is not None}
            assert all(_value(same, at) == v for at, v in taken.items()), (ctx, e, ctx.frame.canonical(e))
            truth = set(taken.values())
            bounds = ctx.bounds(e, domain="interval")
            tally["tight"] += bounds.is_tight and bool(truth)
            for ends, tight in ((bounds, bounds.is_tight and is_whole),):
                low, high = (end if isinstance(end, Infinity) else int(end) for end in ends)
                assert not truth or low is NEG_INF or low <= min(truth), (ctx, e, bounds, truth)
                assert not truth or high is POS_INF or high >= max(truth), (ctx, e, bounds, truth)
                assert not truth or not tight or (low, high) == (min(truth), max(truth)), (ctx, e, bounds, truth)
            for domain in ("stride", "modular"):
                found = ctx.value_set(e, domain=domain)
                tally[domain] += found.is_exact
                assert all(v in found for v in truth), (domain, ctx, e, found, truth)
                if found.is_exact and is_whole:
                    around = range(min(truth, default=0) - 2, max(truth, default=0) + 3)
                    assert {v for v in around if v in found} == truth, (domain, ctx, e, found, truth)
    assert tally["tight"] > 15 and tally["stride"] > 5, tally


def _value(function: Callable[..., int], at: tuple[int, ...]) -> int | None:
    try:
        return function(*at)
    except (ZeroDivisionError, EvaluationError):
        return None


def test_remainders_of_what_is_far_from_0() -> None:
    """Contiguity of a sum depends on range lengths, not on range positions."""
    tight = 0
    for first, second in itertools.product((Range(3, 2), Range(4, 3), Range(-9, 2)), (Range(5, 2), Range(7, 4))):
        ctx, points = Context({i: first, j: second}), list(itertools.product(*_spans(first, second)))
        for p, q, c in itertools.product((1, 2, -3), (1, -2, 3, 4), (4, 5, 7, 9)):
            e = (i * p + j * q) % c
            taken = {value for a, b in points for value in [(a * p + b * q) % c]}
            bounds = ctx.bounds(e, domain="interval")
            low, high = map(int, bounds)
            tight += bounds.is_tight
            assert low <= min(taken) and high >= max(taken), (ctx, e, bounds, taken)
            assert not bounds.is_tight or (low, high) == (min(taken), max(taken)), (ctx, e, bounds, taken)
    assert tight > 40


def _partial(rng: random.Random) -> Expr:
    """What has no value at some points: divisors that are 0 at an end of their range or inside, assertions, in arms."""
    pick = rng.choice
    a = pick((i, j, i - j, i + 1, i * j, const(3), j * 2 - i))
    b = pick((i, j, i - j, i * j, i + 1, j - 2, i * i + j, j - j))
    found = pick(
        (a // b, a % b, truncdiv(a, b), truncmod(a, b), ceildiv(a, b), nonneg(a) + j, a // b * 0, bounded(a, -1, 2))
    )
    cond = pick((i < 0, j >= 1, i.eq(j), i.ne(0), (i < 1) & (j > 0), b.ne(0)))
    found = pick((found, found, select(cond, found, a), select(cond, a, found), found + pick((i, j, 7 // b))))
    return pick((found, found, abs(found) - i, minimum(found, j), found * 2 + i, found % 3))


@pytest.mark.parametrize("part", range(4))
def test_what_has_no_value_at_some_points(part: int) -> None:
    """Undefined points contribute no values, proofs or refutations; `requires` excludes all of them."""
    rng, tally = random.Random(200 + part), Counter[str]()
    spans = (Range(-3, 4), Range(0, 3), Range(-1, 3), Range(0, 1), Range(1, 2), Range(-2, 2))
    for number in range(24):
        first, second = rng.choice(spans), rng.choice(spans)
        facts = (_partial(rng) >= rng.randint(-2, 1),) if number % 3 == 0 else ()
        ctx = Context({i: first, j: second}, assume=facts)
        holds = compiled(logical_and(*facts, i.eq(i)), (i, j))
        points = [at for at in itertools.product(*_spans(first, second)) if _value(holds, at) is True]
        for _ in range(3):
            e = _partial(rng)
            value = compiled(e, (i, j))
            truth = {v for at in points if (v := _value(value, at)) is not None}
            for domain in ("interval", "auto"):
                bounds, found = ctx.bounds(e, domain=domain), ctx.value_set(e, domain=domain)
                tally["tight"] += bounds.is_tight and bool(truth)
                low, high = (end if isinstance(end, Infinity) else int(end) for end in bounds)
                what = (domain, ctx, facts, e, bounds, found, truth)
                assert not truth or (low is not POS_INF and high is not NEG_INF), what
                assert not truth or low is NEG_INF or low <= min(truth), what
                assert not truth or high is POS_INF or high >= max(truth), what
                assert not bounds.is_tight or bounds.is_empty or (low, high) == (min(truth), max(truth)), what
                inside = {v for v in range(min(truth, default=0) - 2, max(truth, default=0) + 3) if v in found}
                assert truth <= inside and (inside == truth or not found.is_exact), what
            goal = rng.choice((e <= rng.randint(-1, 3), e >= rng.randint(-3, 1), e.ne(rng.randint(-2, 2)), e.eq(e)))
            at_points = [(at, _value(compiled(goal, (i, j)), at)) for at in points]
            for tiers in (("linear",), ("linear", "isl", "points")):
                with using(tiers=tiers):
                    proof = ctx.prove(goal)
                tally[proof.status] += 1
                needs = compiled(logical_and(*proof.requires, i.eq(i)), (i, j))
                is_required = proof and not proof.vacuous and not embedded_claims((goal,))  # asserted, it is a fact
                for at, true in at_points:
                    assert not proof or true is not False, (goal, ctx, facts, at)
                    assert not proof or true is None or not proof.vacuous, (goal, ctx, facts, at)
                    assert not is_required or true is not None or _value(needs, at) is not True, (
                        goal,
                        ctx,
                        proof.requires,
                        at,
                    )
                if proof.status == "refuted":
                    at = tuple(proof.counterexample[v] for v in (i, j))
                    assert dict(at_points).get(at) is False, (goal, ctx, facts, at)
    assert min(tally["tight"], tally["proved"], tally["refuted"]) > 10, tally

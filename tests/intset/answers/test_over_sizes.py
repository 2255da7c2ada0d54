"""`over=`: bounds over all allowed sizes, beside enumeration of the sizes."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import (
    NEG_INF,
    POS_INF,
    Context,
    InputError,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    evaluate,
    maximum,
    minimum,
    select,
)
from intset.errors import EvaluationError

DRAWN = 60
FAR = 12  # of an unbounded size, the values that are tried
i, j = Var("i"), Var("j")


class Drawn:
    """A drawn question over sizes, with its points."""

    def __init__(self, seed: int, is_bounded: bool) -> None:
        self.rng = rng = random.Random(seed)
        self.sizes = []
        for name in ("n", "m")[: rng.randint(1, 2)]:
            low = rng.choice((0, 0, 1, 1, 2, -3))
            high = low + rng.randint(0, 7) if is_bounded or rng.random() < 0.3 else None
            step = 1 if not is_bounded else rng.choice((1, 1, 1, 2, 4))
            high = high if high is None or step == 1 else high + 4
            self.sizes.append(ShapeVar(name, lower=low, upper=high, multiple_of=step))
        n = rng.choice(self.sizes)
        self.ranges = {i: Range(rng.choice((0, 1)), n)} if rng.random() < 0.5 else {}
        self.facts = [self.fact() for _ in range(rng.choice((0, 0, 1, 2)))]
        self.expr = self.drawn(2)

    def leaf(self):
        names = [*self.sizes, *self.ranges]
        return self.rng.choice(names) * self.rng.choice((1, 1, 2, 3)) + self.rng.choice((0, 0, 1, -1, 5))

    def drawn(self, depth: int):
        if not depth:
            return self.leaf()
        a, b = self.drawn(depth - 1), self.drawn(depth - 1)
        d = self.rng.choice((2, 3, 4, maximum(self.rng.choice(self.sizes), 1), self.rng.choice(self.sizes) + 1))
        return self.rng.choice(
            (
                a + b, a - b, a * b, a // d, a % d, ceildiv(a, d), minimum(a, b), maximum(a, b) - b, a - b % d,
                a // d * d, select(a <= b, a, b),
            )
        )  # fmt: skip

    def fact(self):
        a, b = self.rng.choice(self.sizes), self.rng.choice(self.sizes)
        return self.rng.choice((a * b <= 36, a <= b + 3, a.eq(b * 2), (a % 2).eq(0), a + b >= 2, a >= 1))

    def points(self):
        spans = []
        for size in self.sizes:
            low, high, step = size.declared()
            spans.append([v for v in range(low, (FAR if high is None else high) + 1) if v % step == 0])
        for values in itertools.product(*spans):
            sizes = dict(zip(self.sizes, values, strict=True))
            inner = [range(r.min.data, r.min.data + evaluate(r.extent, sizes)) for r in self.ranges.values()]
            for at in itertools.product(*inner):
                point = {**sizes, **dict(zip(self.ranges, at, strict=True))}
                if all(evaluate(fact, point) for fact in self.facts):
                    yield point

    def values(self):
        for point in self.points():
            try:
                yield evaluate(self.expr, point)
            except EvaluationError:
                continue


def question(seed: int, is_bounded: bool):
    drawn = Drawn(seed, is_bounded)
    ctx = Context(drawn.ranges, assume=drawn.facts)
    return drawn, ctx.bounds(drawn.expr, over="sizes")


@pytest.mark.parametrize("seed", range(DRAWN))
@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_ends_over_small_sizes_are_those_of_the_values(seed):
    drawn, (low, high) = question(seed, True)
    bounds = Context(drawn.ranges, assume=drawn.facts).bounds(drawn.expr, over=drawn.sizes)
    assert tuple(bounds) == (low, high)
    values = list(drawn.values())
    if not values:
        return
    assert not bounds.is_empty
    assert low is NEG_INF or int(low) <= min(values)
    assert high is POS_INF or max(values) <= int(high)
    assert not bounds.is_tight or bounds.ints() == (min(values), max(values))


@pytest.mark.parametrize("seed", range(DRAWN))
@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_infinite_ends_are_those_of_growing_values(seed):
    drawn, bounds = question(1000 + seed, False)
    values = list(drawn.values())
    if not values:
        return
    low, high = bounds
    assert low is NEG_INF or int(low) <= min(values)
    assert high is POS_INF or max(values) <= int(high)
    if bounds.is_tight and drawn.expr.free_vars():
        assert low is not NEG_INF or min(values) < -1
        assert high is not POS_INF or max(values) > 1


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_most_of_them_are_tight():
    bounded = [question(seed, True)[1].is_tight for seed in range(60)]
    unbounded = [question(1000 + seed, False)[1].is_tight for seed in range(60)]
    assert sum(bounded) >= 57 and sum(unbounded) >= 45


n, m, u = ShapeVar("n"), ShapeVar("m"), ShapeVar("u", lower=2, upper=128)
a, b = ShapeVar("a", lower=1), ShapeVar("b", lower=1)


@pytest.mark.parametrize(
    ("e", "facts", "ends"),
    [
        (n // (m + 1), [], (0, POS_INF)),
        (a - m % a, [], (1, POS_INF)),
        (u * 4 + 3, [], (11, 515)),
        (n * n - n, [], (0, POS_INF)),
        (n * (n - 1) // 2, [], (0, POS_INF)),
        (n * n - n * 4, [], (-4, POS_INF)),
        (minimum(n, u) - u, [], (-128, 0)),
        (n * m, [n * m <= 4096], (0, 4096)),
        (a * b - a - b, [], (-1, POS_INF)),
        (n // a - n, [], (NEG_INF, 0)),
        (n - n // a * a, [], (0, POS_INF)),
        (ceildiv(n, a) * a - n, [], (0, POS_INF)),
        (n - m, [n.eq(m * 3)], (0, POS_INF)),
        (n % 3, [n.eq(m * 3)], (0, 0)),
        (ShapeVar("q", lower=1, upper=100, multiple_of=8) * 3, [], (24, 288)),
        (n * m - m * n, [], (0, 0)),
    ],
)
def test_ends_of_what_sizes_make(e, facts, ends):
    bounds = Context(assume=facts).bounds(e, over="sizes")
    assert tuple(map(str, bounds)) == tuple(map(str, ends)) and bounds.is_tight
    assert bounds.certificate().check()


def test_dependent_ranges():
    k = ShapeVar("k", upper=64)
    ctx = Context({i: Range(0, m), j: Range(0, k)})
    assert ctx.bounds(i * k + j, over="sizes").is_tight
    assert tuple(Context({j: Range(0, k)}).bounds(k - j, over=[k])) == (1, 64)
    assert str(ctx.bounds(i * 2 + j, over=[k])) == "(0, m * 2 + 61)"
    assert [int(end) for end in Context({j: Range(0, k)}).value_set(j % 4, over="sizes").ends()] == [0, 3]


def test_kept_variables_stay():
    ctx = Context({i: Range(0, 8)})
    assert str(ctx.bounds(i + u, keep=[i], over="sizes")) == "(i + 2, i + 128)"


@pytest.mark.parametrize(
    ("over", "keep", "message"),
    [
        ([i], (), "over takes sizes, variables without a range, not i"),
        ([n, i], [i], "over and keep both list i"),
        ([n], [n], "over and keep both list n"),
        ("size", (), 'over must be a list of sizes or "sizes", not "size"'),
        ([n + 1], (), None),
        (["n"], (), None),
        (3, (), None),
        ({n}, (), None),
    ],
)
def test_what_over_is_not(over, keep, message):
    with pytest.raises(InputError) as caught:
        Context({i: Range(0, n)}).bounds(i + n, keep=keep, over=over)
    assert "\n" not in str(caught.value)
    assert message is None or str(caught.value).replace("'", '"') == message

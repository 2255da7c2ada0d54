"""What the linear tier proves of sizes: products, quotients, equal sizes, and chains of facts."""

from __future__ import annotations

import itertools
import random

import pytest

from intset import Context, Range, ShapeVar, Var, ceildiv, evaluate, maximum, using
from intset.errors import EvaluationError
from intset.expr.node import Cond, Expr
from tests.sweeps import daily

a, b, c, d, s, t = (ShapeVar(name, lower=1) for name in "abcdst")
z = ShapeVar("z")
out = (s + 2 - 3) // 2 + 1


@pytest.mark.parametrize(
    ("facts", "goal"),
    [
        ([], s * t >= s),
        ([], s * t // t <= s),
        ([], (s * 64 % 64).eq(0)),
        ([], (s - 1) // 2 + 1 <= s),
        ([], ((s - 1) // 2 + 1).eq(ceildiv(s, 2))),
        ([], ceildiv(z, 8).eq((z + 7) // 8)),
        ([], z // 3 <= ceildiv(z, 3)),
        ([], z // 16 + ceildiv(z, 16) <= z),
        ([], z // 2 + ceildiv(z, 2) >= z),
        ([], ceildiv(s, 8) * 8 * t >= s * t),
        ([], ceildiv(s, t) * t < s + t),
        ([], ceildiv(s, t) * t >= s),
        ([], s // t <= s),
        ([], z >= z % 3),
        ([s <= 4096, t <= 128], s % t < t),
        ([s <= 4096, t <= 128], s - s % t >= 0),
        ([s >= 2], out >= 1),
        ([], maximum(out, 0) * a <= (s + 2) * a),
        ([a < b], a * s <= b * s),
        ([a < b, b < c, c <= d], a + 2 <= d),
        ([a < b, b < c, c <= d], a * s <= d * s),
        ([s.ne(1)], s >= 2),
        ([a * b >= 1], b * s >= s),
        ([a.eq(b)], (a * s).eq(b * s)),
        ([a.eq(b)], (a * s // b).eq(s)),
        ([a.eq(b * 4)], (a * s // b).eq(s * 4)),
        ([a.eq(b * 4)], (a * s % 4).eq(0)),
        ([a.eq(b * 4)], a > b),
        ([a.eq(b * c)], (a * s % c).eq(0)),
        ([a.eq(b * c)], a >= c),
        ([a.eq(b + c)], a * s >= c * s),
        ([a.eq((s - 1) // 2 + 1)], a <= s),
        ([(a * b).eq(c * d)], (a * b * s).eq(c * d * s)),
        ([(s % t).eq(0)], s >= t),
        ([(s % 8).eq(0)], s >= 8),
        ([(s % 8).eq(0)], (s * 16 * t // 16).eq(s * t)),
        ([(s % t).eq(0)], (s * a * b // a // b).eq(s)),
    ],
    ids=str,
)
def test_what_shape_compilers_ask_is_proved_by_the_linear_tier(facts: list[Cond], goal: Cond) -> None:
    ctx = Context(assume=facts)
    with using(tiers=("linear",)):
        proof = ctx.prove(goal)
        assert proof.status == "proved", proof
        assert ctx.prove(~goal).status != "proved"
    assert proof.certificate().check()


def random_term(rng: random.Random) -> Expr:
    e = rng.choice((a, b, c, z, a * b, b * c, a * z, a + z, c - 1, a * 2 - z))
    n = rng.choice((2, 3, 4))
    return rng.choice((e, e, e * n, e // n, ceildiv(e, n), e % n, e // b, ceildiv(e, a), e % c, maximum(e, n) * c))


def random_claim(rng: random.Random) -> Cond:
    x, y = random_term(rng), random_term(rng) + rng.choice((0, 0, 0, 1, -1))
    if rng.random() < 0.5:
        y = y + rng.choice((x, x * 2, x - a))
    return rng.choice((x <= y, x < y, x.eq(y), x.ne(y)))


def random_fact(rng: random.Random) -> Cond:
    v, w, u = rng.sample((a, b, c, z), 3)
    k = rng.choice((1, 2, 3))
    return rng.choice(
        (v.eq(w), v.eq(w * k), v.eq(w + u), v.eq(w * u), (v * w).eq(u * k), v < w, v * k <= w + 1, v.ne(k), v <= k + 2,
         (v % k).eq(0), v.eq((w - 1) // 2 + 1), w * u <= 6, (v % maximum(w, 1)).eq(0), v.eq(w) | v.eq(k),
         ((v + w) % 2).eq(0))
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("first", daily(range(0, 2_000, 20), 25))
def test_verdicts_hold_at_every_point(first: int) -> None:
    decided = 0
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        facts = [random_fact(rng) for _ in range(rng.choice((0, 1, 2, 2, 3)))]
        ranges = {z: Range(0, 5)} if rng.random() < 0.3 else {}
        points = []
        for values in itertools.product(range(1, 6), range(1, 6), range(1, 6), range(5)):
            point: dict[Var, int] = dict(zip((a, b, c, z), values, strict=True))
            try:
                if all(evaluate(fact, point) for fact in facts):
                    points.append(point)
            except EvaluationError:
                continue
        ctx = Context(ranges, assume=facts)
        for _ in range(6):
            goal = random_claim(rng)
            with using(tiers=("linear", "points")):
                proof = ctx.prove(goal)
            if proof.status == "refuted":
                decided += 1
                whole = proof.counterexample
                assert whole is not None and evaluate(goal, whole) is False, (seed, facts, goal)
                assert all(evaluate(fact, whole) for fact in facts), (seed, facts, goal)
            elif proof.status == "proved":
                decided += 1
                for point in points:
                    assert evaluate(goal, point), (seed, facts, goal, point)
    assert decided >= 10


def test_a_size_equated_with_a_variable_that_it_bounds_is_kept() -> None:
    n, i, j = ShapeVar("n", lower=1), Var("i"), Var("j")
    ctx = Context({j: Range(1, n - 1), i: Range(j, j + n)}, assume=[(n + j).eq(i)])
    assert ctx.prove(i * -2 + j < 0)
    assert ctx.prove(i < j * 2).status == "refuted"

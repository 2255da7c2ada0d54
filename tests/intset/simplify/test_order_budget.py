"""The budget of comparisons that the parts of one simplification share."""

from __future__ import annotations

import random
from itertools import product

import pytest

from intset import Context, Range, Var, evaluate, maximum, minimum, select
from intset.expr.node import Cond, Expr
from intset.simplify import choices
from intset.simplify.engine import Pricing, simplified
from tests.sweeps import daily

x, y, z = Var("x"), Var("y"), Var("z")
RANGES = {x: Range(0, 5), y: Range(0, 4), z: Range(-2, 5)}


def drawn(rng: random.Random) -> Cond:
    def term() -> Expr:
        a, b = rng.choice((x, y, z)), rng.choice((x, y, z))
        kind = rng.randrange(6)
        if kind < 2:
            return a * rng.choice((1, 2, 3)) + b
        if kind < 4:
            return (a + rng.randint(0, 3)) // 2 if kind == 2 else minimum(a, maximum(b, 1))
        return select(a < b, a, b - 1) if kind == 4 else a + b % 3

    cond = term() <= term() + rng.randint(-1, 3)
    for _ in range(rng.randint(2, 5)):
        other = term() < term() + rng.randint(-1, 3)
        cond = cond & other if rng.random() < 0.6 else cond | other
    return cond


@pytest.mark.parametrize("seed", daily(range(60), 4))
def test_a_simplification_keeps_to_its_comparisons(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few they are, the result is equal and no dearer; with enough, it is that without a limit."""
    cond = drawn(random.Random(seed))
    known = Context(RANGES).frame.known
    examined = [0]
    sign = choices.OrderDecider._is_nonneg

    def counted(self: choices.OrderDecider, form: object, left: list[int], depth: int) -> bool:
        examined[0] += left[0] > 0
        return sign(self, form, left, depth)  # type: ignore[arg-type]

    monkeypatch.setattr(choices.OrderDecider, "_is_nonneg", counted)
    results = {}
    for most in (0, 4, 40, 100_000, None):
        examined[0] = 0
        results[most] = new = simplified(cond, known, compared=most)
        assert most is None or examined[0] <= most
        assert Pricing().price(new) <= Pricing().price(cond)
        for point in product(range(5), range(4), range(-2, 3)):
            values = dict(zip((x, y, z), point, strict=True))
            assert evaluate(new, values) == evaluate(cond, values), (cond, new, values)
    assert results[100_000] is results[None] and examined[0] > 0

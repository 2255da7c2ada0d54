"""`simplify`: what a reader expects of each kind, never dearer, left alone the second time, equal by enumeration."""

from __future__ import annotations

import itertools
import random
from itertools import product
from typing import Any

import pytest

import intset
from intset import (
    COST,
    Context,
    InputError,
    Range,
    ShapeVar,
    Var,
    cost,
    evaluate,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)
from intset.expr.node import Cond, Expr
from intset.linear.form import constant
from intset.linear.signs import is_refuted
from intset.simplify import Pricing, choices, engine
from intset.simplify.engine import SIMPLIFY_STEPS, Simplifier, run
from tests.intset.oracle import simplified
from tests.strategies.contexts import EVERY, Drawn
from tests.sweeps import daily

x, y, z, o = (Var(name) for name in "xyzo")
n = ShapeVar("n", lower=1)
i = Var("i")
FREE = Context({i: Range(0, n * n)})

PAIRS: list[tuple[Any, Any]] = [
    (minimum(maximum(x, y), x), x),
    (minimum(minimum(13 - o * 5, 5), 13 - o * 5), minimum(13 - o * 5, 5)),
    (minimum(x, y - z) + z, minimum(x + z, y)),
    (minimum(x * 4, y * 4), minimum(x, y) * 4),
    (maximum(x, y) + minimum(x, y), x + y),
    (minimum(maximum(minimum(x + 1, z), y), maximum(minimum(x - 1, z), y)), maximum(minimum(x - 1, z), y)),
    ((x < y) & (y <= x), intset.expr.node.truth(False)),
    ((x < y) | (x >= y), intset.expr.node.truth(True)),
    ((x < 10) & (x < 20), x < 10),
    ((x // 8).eq(3) & (x % 8).eq(4), x.eq(28)),
    (x // 4 < 3, x < 12),
    (o * 32 <= y + o * 32 - 10, y >= 10),
    (x < y, x < y),
    (x * 32 * x % (x * y), x * 32 % y * x),
    (x * 2 * x * y // (4 * x * x * x), y // (x * 2)),
    (truncdiv(x * 2 * y * 3, 3 * y), x * 2),
    (truncdiv(truncdiv(x, 2), 3), truncdiv(x, 6)),
    (truncdiv(x, x), intset.const(1)),
    (x - truncdiv(x, 3) * 3, truncmod(x, 3)),
    (x % 2 + (x + 1) % 2, intset.const(1)),
    (truncmod(x, 8) * (y + 10), truncmod(x, 8) * (y + 10)),
    (i % (n * n), i),
    (minimum(x, 11) < 10, x < 10),
    (x + 1 < maximum(8, x), x < 7),
    (select(x < 0, y, 0) + select(x < 0, 1, z), select(x < 0, y + 1, z)),
    (minimum(x, y).eq(y), y <= x),
    (minimum(x, y) < y, x < y),
    ((x <= y) & x.ne(y), x < y),
    ((x < y) | x.eq(y), x <= y),
    (~((x < y) & (y < z)), (x >= y) | (y >= z)),
    (maximum(0, 1 - x * 4) + x * 4, maximum(x * 4, 1)),
]


@pytest.mark.parametrize(("e", "expected"), PAIRS, ids=[str(e) for e, _ in PAIRS])
def test_by_kind(e: Any, expected: Any) -> None:
    assert FREE.simplify(e) is expected


def test_what_the_branch_guards_stays_there() -> None:
    table = intset.Opaque("t", rank=1)
    e = select(x < 8, table[x] + 1, table[0] + 1)
    assert Context().simplify(e) is select(x < 8, table[x], table[0]) + 1
    guarded = select(y.ne(0), x // y, 0)
    assert Context().simplify(guarded) is guarded


def test_what_guards_a_division_stays_before_it() -> None:
    """Guards of divisions keep their position, even if a later part implies them."""
    simplify = Context().simplify
    assert simplify((y > 0) & (x // y > 3) & (y > 2)) is (y > 2) & (x // y > 3)
    assert simplify((y <= 0) | (x // y > 3) | (y <= 2)) is (y <= 2) | (x // y > 3)
    assert simplify((y > 0) & (x // y > 3) & (y >= 0)) is (y > 0) & (x // y > 3)
    guarded = select(y > 2, x // y, z) > 3
    assert simplify(guarded & (y > 2)) is guarded & (y > 2) and simplify(guarded | (y <= 2)) is guarded | (y <= 2)
    assert simplify((y > 2) & guarded & (x < 40)) is (y > 2) & (x // y > 3) & (x < 40)
    assert simplify((x // y + minimum(z, 5) > 3) & (z < 3)) is (x // y + z > 3) & (z < 3)
    lazily = (x // 4).eq(2) & (x % 4).eq(abs(z // y) % 4)
    assert evaluate(simplify(lazily), {x: 0, y: 0, z: 0}) is False


def test_no_wider_type_where_it_is_asked_for() -> None:
    word = Range(-(1 << 31), 1 << 32)
    ctx = Context(dict.fromkeys((x, y, z), word))
    e = minimum(x, y - z) + z
    assert ctx.simplify(e) is minimum(x + z, y)
    assert ctx.simplify(e, bits=32) is e
    small = Context({v: Range(0, 100) for v in (x, y, z)})
    assert small.simplify(e, bits=32) is minimum(x + z, y)


def test_cost_is_of_the_tree() -> None:
    e = x // 2 + y
    assert cost(e) == COST["floordiv"] + COST["add"]
    assert cost(e * e, {"floordiv": 1}) == 5
    assert cost(7) == cost(x) == 0
    tower: Any = x
    for _ in range(200):
        tower = tower + tower
    assert cost(tower) == 2**200 - 1


def test_weights_choose() -> None:
    e = x * y + x * z
    assert Context().simplify(e) is (y + z) * x
    assert Context().simplify(x // 4 < y, cost={"mul": 100}) is (x // 4 < y)


@pytest.mark.parametrize("table", [{"division": 2}, {"add": 0}, {"add": 1.5}, {"add": True}, ["add"]])
def test_bad_weights_are_refused(table: Any) -> None:
    with pytest.raises(InputError):
        Context().simplify(x + x, cost=table)
    with pytest.raises(InputError):
        cost(x, table)


def test_weights_are_read_only() -> None:
    with pytest.raises(TypeError):
        COST["add"] = 2


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(20_000), 200))
def test_random(seed: int) -> None:
    drawn = Drawn(seed, f"{EVERY} loads", variables=3, depth=3, facts=25, shared=15)
    for e in (drawn.exprs[0], drawn.goals[-1]):
        new = simplified(e, drawn.ctx, itertools.islice(drawn.points(), 60))
        assert drawn.ctx.simplify(new) is new


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(3_000), 40))
def test_members_refute_nothing_that_is_known(seed: int) -> None:
    drawn = Drawn(seed, f"{EVERY} loads", variables=3, facts=25)
    known = drawn.ctx.frame.known
    for _ in range(8):
        form = known.form(drawn.expressions.integer(2))
        low, _ = known.bounds(form)
        if low is not None:
            assert known.empty or not is_refuted(known, form.minus(constant(low)))


def test_a_deep_chain() -> None:
    e: Any = x
    for k in range(1_000):
        e = (e + k) * y
    new = Context().simplify(e)
    assert Pricing().price(new) <= Pricing().price(e)


def test_forms_that_outgrow_a_comparison_are_not_searched() -> None:
    """The guard of a tiled convolution: its comparisons written as linear forms are twice as long."""
    a, b, c, d, f = (Var(name) for name in "abcdf")
    ranges = {a: Range(0, 27), b: Range(0, 16), c: Range(0, 8), d: Range(0, 9), f: Range(0, 4)}
    row, column = a * 32 + b * 2 + c // 4, d * 16 + (c * 4 + f) % 16
    high = row // 29 + column % 9 // 3
    guard = (row < 841) & (high >= 1) & (high < 30) & (row % 29 + column % 3 >= 1)
    simplifier = Simplifier()
    assert cost(run(simplifier, guard, Context(ranges).frame.known)) < cost(guard)
    assert SIMPLIFY_STEPS - simplifier.steps_left < 300


# -- the budget of comparisons that the parts of one simplification share ----------------------------------------------

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
        results[most] = new = engine.simplified(cond, known, compared=most)
        assert most is None or examined[0] <= most
        assert Pricing().price(new) <= Pricing().price(cond)
        for point in product(range(5), range(4), range(-2, 3)):
            values = dict(zip((x, y, z), point, strict=True))
            assert evaluate(new, values) == evaluate(cond, values), (cond, new, values)
    assert results[100_000] is results[None] and examined[0] > 0

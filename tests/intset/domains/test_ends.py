"""Ends of sets, and where nothing is: open operands, guards, declared bounds, sizes without points or excluded."""

import json
import random
import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest

from intset import (
    NEG_INF,
    POS_INF,
    Cond,
    Context,
    Expr,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    const,
    evaluate,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
    using,
)
from intset.config import current
from intset.domains.attained import attained_ends
from intset.domains.sets.base import IntervalSet
from intset.domains.sets.ends import as_end
from intset.errors import InputError
from intset.expr.dag import substitute
from intset.expr.node import as_cond, as_expr
from intset.simplify.engine import cost
from intset.testing.contexts import Setting, setting
from tests.intset.oracle import Claims
from tests.strategies import contexts
from tests.strategies.contexts import Drawn, value, world
from tests.sweeps import daily, turned

x, tile, a, b = Var("x"), Var("tile"), Var("a"), Var("b")
y = ShapeVar("y")
OPEN = Context({x: None})


def test_a_remainder_is_bounded_by_its_divisor() -> None:
    ends = OPEN.bounds(x % tile)
    assert tuple(ends) == (minimum(tile + 1, 0), maximum(tile - 1, 0)) and ends.is_tight
    ends = OPEN.bounds(truncmod(x, tile))
    assert tuple(ends) == (1 - abs(tile), abs(tile) - 1) and ends.is_tight


HALF_OPEN = [
    *(Range(low, POS_INF) for low in (-2, -1, 0, 1)), *(Range.up_to(const(high)) for high in (-1, 0, 1, 2)),
    Range.everything(), Range(-2, 5), Range(-5, 4), Range(0, 3), Range(2, 2),
]  # fmt: skip
DIVISORS = (
    tile, ShapeVar("p", lower=1), ShapeVar("q", lower=None, upper=-1), ShapeVar("m", lower=0), ShapeVar("e", lower=3),
)  # fmt: skip
MULTIPLE = ShapeVar("x", lower=None, multiple_of=2)


@pytest.mark.parametrize("limits", daily(HALF_OPEN, 2), ids=str)
def test_ends_over_a_divisor_contain_every_value(limits: Range) -> None:
    """Claimed ends are attained at every value of the divisor, by an operand of any range."""
    tight = 0
    for d, v in product(DIVISORS, (x, MULTIPLE)):
        ctx, points = Context({v: limits}), world({v: limits}, window=range(-40, 41)).points
        inside = [k for (k,) in points.get((), ())]
        asked = [v % d, truncmod(v, d), (v * 2) % d, truncmod(v + 1, d), -v % d]
        asked += [v << d, (v * v - v) << d, v * d, (v % 3 - 1) * d]
        for e in asked:
            bounds = ctx.bounds(e, domain="interval")
            tight += bounds.is_tight
            low, high, _ = d.declared()
            for at in range(-5 if low is None else low, 6 if high is None else high + 1):
                values = [value(e, {v: k, d: at}) for k in inside]
                if not values or None in values:
                    continue
                first, last = (evaluate(end, {d: at}) if isinstance(end, Expr) else end for end in bounds)
                assert not first > min(values) and not last < max(values), (e, limits, at, bounds)
                if bounds.is_tight:
                    assert first in (min(values), NEG_INF) and last in (max(values), POS_INF), (e, limits, at, bounds)
    assert tight


# -- search ------------------------------------------------------------------------------------------------------------


def test_ends_are_those_of_enumeration() -> None:
    attained = dependent = 0
    for seed in range(60):
        kinds, ranges = "multiples sums quotients", "box dependent" if seed % 2 else "box"
        drawn = Drawn(f"ends {seed}", kinds, ranges, variables=3, depth=4, facts=50)
        values = drawn.setting.values(*drawn.exprs).get((), ())
        if values:
            query = drawn.ctx.frame.query(drawn.exprs, (), current())
            ends = min(values)[0], max(values)[0]
            assert attained_ends(query, ends[0], ends[1] + 1) in (None, ends)
            assert attained_ends(query, ends[0] - 1, ends[1]) in (None, ends)
            certified = attained_ends(query, *ends) == ends
            attained += certified
            dependent += certified and seed % 2
    assert attained > 15 and dependent > 5


A, B = Var("a"), Var("b")


@pytest.mark.parametrize(
    ("e", "spans", "ends"),
    [
        (minimum(truncmod(A * B, 48), truncmod(A * B, 20)), ((0, 4095), (-100, -1)), (-47, 0)),
        (truncdiv(truncdiv(A ^ B, 9), 48), ((-100_000, -1), (0, 5)), (-231, 0)),
        (ceildiv(truncdiv(A ^ B, -2), 3), ((0, 25_087), (0, 1)), (-4181, 0)),
    ],
)
def test_a_climb_finds_what_branch_and_bound_does_not(
    e: Expr, spans: Sequence[tuple[int, int]], ends: tuple[int, int]
) -> None:
    ranges = {v: Range(low, high - low + 1) for v, (low, high) in zip((A, B), spans, strict=True)}
    answer = Context(ranges).bounds(e)
    assert (answer, answer.is_tight) == (ends, True)


def test_long_chains() -> None:
    rnd = random.Random(1)
    names = [Var(f"v{k}") for k in range(6)]
    ctx = Context({v: Range(0, 16) for v in names})
    tight, start = 0, time.process_time()
    for _ in range(20):
        e: Expr = names[rnd.randrange(6)]
        for _ in range(16):
            a = names[rnd.randrange(6)]
            is_remainder = rnd.random() < 0.3
            e = (e * rnd.randrange(2, 9) + a) % rnd.randrange(2, 99) if is_remainder else e * 3 + a
        tight += ctx.bounds(e).is_tight
    assert tight == 20
    assert time.process_time() - start < 30  # not a measurement: without a budget it would not end


@pytest.mark.parametrize("number", range(30))
def test_quadratics_end_beside_their_vertex(number: int) -> None:
    r = random.Random(number)
    a, b, c = r.choice((-3, -2, -1, 1, 2, 5)), r.randint(-90, 90), r.randint(-9, 9)
    size = ShapeVar("size", lower=0, upper=r.choice((None, 60)))
    ends = Context().bounds(size * size * a + size * b + c, over=[size])
    values = [x * x * a + x * b + c for x in range(61)]
    low = NEG_INF if a < 0 and size.declared()[1] is None else min(values)
    high = POS_INF if a > 0 and size.declared()[1] is None else max(values)
    assert ends.is_tight and tuple(ends) == (as_end(low), as_end(high))


NUMBERS = (const(7), const(7) - 1, -const(7), const(4) * 3 - 15, minimum(const(5), 8) - 2)


def closed(end: Any) -> bool:
    """Whether an end is infinite, a number, or symbolic."""
    return not isinstance(end, Expr) or end.is_const or bool(end.free_vars())


@pytest.mark.parametrize(("d", "operations"), turned(NUMBERS, [1, 20, 100_000], 2))
def test_ends_without_variables_are_numbers(d: Expr, operations: int) -> None:
    m, n = ShapeVar("m"), ShapeVar("n")
    ctx = Context({a: Range(0, n), b: Range(const(3) - 2, const(2) + 2)})
    with using(isl_operations=operations):
        for e in (a * m % d, truncmod(a * m, d), a * m % d + b * (const(2) + 1), (a * m % d) // 2 + 0 * n, b % d):
            ends = [*ctx.bounds(e), *ctx.value_set(e).ends(), *ctx.value_set(e).at({n: 3, m: 2}).ends()]
            for side in (*ctx.image((e, b)).box, *ctx.image((b, e, a)).box, *ctx.ranges.values()):
                ends += [side.min, side.extent, side.max]
            assert all(map(closed, ends)), (e, ends)
            if not any(end.free_vars() for end in ctx.bounds(e) if isinstance(end, Expr)):
                assert (
                    ctx.bounds(e) == ctx.bounds(e).ints() == tuple(json.loads(json.dumps(ctx.bounds(e), default=int)))
                )
        for answer in (ctx.value_set(b), ctx.image((b, b + 1)), ctx.value_set(b, keep=[a]), ctx.image((b,), keep=[a])):
            number = answer.at({n: 3}).count()
            assert type(number) is int and number == 4


@pytest.mark.parametrize("value", [0, 7, -12, 10**30])
def test_ends_take_a_format(value: int) -> None:
    for spec in (">5", "<40", "d", "06d", "", "x"):
        assert f"{const(value):{spec}}" == f"{value:{spec}}"
    assert f"{tile * 2:>9}" == f"{'tile * 2':>9}" and f"{tile < 2:>9}" == " tile < 2" and f"{POS_INF:>8}" == " POS_INF"
    lo, hi = Context({x: Range(0, 8)}).bounds(x)
    assert f"{lo:>3} to {hi:<3}|" == "  0 to 7  |"


i, j, k, n, m = Var("i"), Var("j"), Var("k"), ShapeVar("n"), ShapeVar("m")
RANGES = {i: Range(0, n), j: Range(0, 16), k: Range(0, m)}
GUARDED: tuple[tuple[tuple[Cond, ...], Expr], ...] = (
    ((i < n,), i * 4 + j),  # follows from the range
    ((i < n, n >= 3), i * 4 - j),
    ((i + j < n,), i * 4 + j),  # the guard is 0 at the end
    ((i + k >= 3,), i + k),
    ((i <= k,), k - i),
    ((i * 2 < n + 5,), i * 4 + j),  # the guard bounds one variable
    ((j < m, i < n - 3), i * 2 - j),
    ((i * 16 + j < n,), i),  # the guard bounds i by j's least value
    ((j + 2 < m, k.eq(1)), j - i * 2 + k),
)


@pytest.mark.parametrize(("facts", "e"), GUARDED, ids=str)
def test_ends_beside_guards(facts: tuple[Cond, ...], e: Expr) -> None:
    b = Claims(world(RANGES, facts, (n, m))).bounds(e, None)
    assert b.is_tight and b.by != "isl" and b.certificate().check()


LIMITS = [(0, 4096), (0, 7), (1, 64), (1, 4096), (1, 100), (2, 128)]


def bounded(drawn: Setting, limits: tuple[int, int]) -> dict[Var, Var] | None:
    """The sizes of a setting with tighter declared bounds; `None` where a size has no such value."""
    table = {}
    for size in drawn.sizes:
        low, high, step = size.declared()
        first = limits[0] if low is None else max(low, limits[0])
        last = limits[1] if high is None else min(high, limits[1])
        if first > last:
            return None
        table[size] = ShapeVar(size.name, lower=first, upper=last, multiple_of=step)
    return table


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("numbers", daily([range(0, 400, 2), range(400)], 2))
def test_drawn_ends_are_not_longer_with_declared_bounds(numbers: range) -> None:
    asked, longer = 0, []
    for number in numbers:
        drawn = setting(number)
        limits = random.Random(number).choice(LIMITS)
        if drawn is None or not drawn.sizes or (table := bounded(drawn, limits)) is None:
            continue
        ranges = {v: Range(substitute(r.min, table), substitute(r.extent, table)) for v, r in drawn.ranges.items()}
        facts = [as_cond(substitute(fact, table)) for fact in drawn.facts]
        plain, within = Context(drawn.ranges, assume=drawn.facts), Context(ranges, assume=facts)
        for e in drawn.exprs:
            ends = plain.bounds(e, keep=drawn.keep)
            closer = within.bounds(substitute(e, table), keep=drawn.keep)
            pairs = [(a, b) for a, b in zip(ends, closer, strict=True) if isinstance(a, Expr) and isinstance(b, Expr)]
            asked += 1
            if sum(cost(b) for _, b in pairs) > sum(cost(a) for a, _ in pairs):
                longer.append((drawn.text(), ends, closer))
            if not (ends.is_tight and closer.is_tight):
                continue
            back = {new: old for old, new in table.items()}
            for params in drawn.values(e):
                env = drawn.env(params)
                inside = {new: env[old] for new, old in back.items()}
                if any(
                    not low <= env[size] <= high
                    for size, (low, high, _) in ((o, n.declared()) for o, n in table.items())
                ):
                    continue
                for a, b in pairs:
                    assert evaluate(a, env) == evaluate(b, env | inside), (drawn.text(), a, b)
    assert asked > len(numbers) // 2
    assert len(longer) * 100 <= asked, longer


@pytest.mark.parametrize("d", [2, 3, 4, 8, 16])
def test_boxes_are_written_with_ceilings(d: int) -> None:
    """Also those that isl answers with: no `(n + 3) // 4 * 4 - 3` where `ceildiv(n, 4) * 4 - 3` is meant."""
    n = ShapeVar("n")
    tiles = Context({i: Range(0, ceildiv(n, d)), j: Range(0, d)})
    for region in (tiles.image((i * d + 1, i)), tiles.image((i * d + j, i, j)), tiles.image((i, i * d))):
        for side in region.box:
            assert f"(n + {d - 1}) //" not in str(side)
    for size in range(1, 40):
        first, second = (evaluate(side.extent, {n: size}) for side in tiles.image((i * d + 1, i)).box)
        assert (first, second) == (-(-size // d) * d - d + 1, -(-size // d))


DOMAINS = ("auto", "isl", "interval", "stride", "modular", "interval*modular", "points")
free = Var("n")


@pytest.mark.parametrize("domain", DOMAINS)
def test_parameters_may_be_named(domain: str) -> None:
    ctx = Context({i: Range(0, free), x: Range(0, 4)}, assume=[m >= 2])
    for s in (ctx.value_set(x + free, domain=domain), ctx.image((x, i), domain=domain), IntervalSet(free, free + 3)):
        by_name, by_variable = s.at({"n": 3}), s.at({free: 3})
        assert repr(by_name) == repr(by_variable) and free not in by_name.params
        for wrong in ({"q": 3}, {3: 3}, {"n": "x"}, {free: None}, {"n": 3, free: 3}, None, [(free, 3)], 5):
            with pytest.raises(InputError) as caught:
                s.at(wrong)  # type: ignore[arg-type]
            assert "\n" not in str(caught.value)
    other = Var("n")
    two = Context({x: Range(0, 4)}).value_set(x + free * other, domain=domain)
    if len(two.params) == 2:
        with pytest.raises(InputError, match="which parameter"):
            two.at({"n": 1})


# -- sizes that facts exclude ------------------------------------------------------------------------------------------


def test_one_rule_for_three_forms() -> None:
    stated = Context({i: Range(0, 4)}, assume=[free >= 2])
    assert stated.value_set(i).count() == 4 and stated.image((i, i)).count() == 4
    for found in (stated.value_set(i), stated.image((i, i)), stated.relation((i,), (i + 1,))):
        assert found.at({free: 1}).is_empty and found.at({free: 1}).notes == ("n = 1 is excluded by n >= 2",)
        assert not found.at({free: 2}).is_empty and not found.at({free: 2}).notes
        assert found.at({"n": 1}).is_empty
    assert (
        stated.image((i, i)).at({free: 1}).box == (Range(0, 0),) * 2 or stated.image((i, i)).at({free: 1}).count() == 0
    )
    ranged = Context({i: Range(0, free), j: Range(0, 4)})  # n = 0 is allowed, and leaves nothing
    number = ranged.value_set(j).count()
    assert [contexts.value(as_expr(number), {free: k}) for k in (-1, 0, 1)] == [0, 0, 4]  # type: ignore[arg-type]
    assert ranged.value_set(j).at({free: 0}).count() == 0 and not ranged.value_set(j).at({free: 0}).notes
    chosen = Context({i: Range(0, select(free >= 1, 4, 0))}).value_set(i)
    assert [chosen.at({free: k}).count() for k in (0, 1)] == [
        contexts.value(as_expr(chosen.count()), {free: k}) for k in (0, 1)
    ]  # type: ignore[arg-type]

"""`lower_division`: lowered expressions keep the mathematical value at every width; loops carry quotients."""

import time
import warnings
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intset
from bound.itervar import IterVar
from intset import (
    Context,
    Expr,
    Range,
    ShapeVar,
    Var,
    asserting,
    bounded,
    ceildiv,
    const,
    evaluate,
    floordiv,
    floormod,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
    truncmod,
)
from intset.errors import ContradictionWarning, EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Cond, Node, make
from intset.simplify.engine import machine_cost, operation_cost
from intset.testing.strategies import conditions, expressions
from lowering import lower_division
from lowering.division import missing_facts
from lowering.passes.values.divisions import CarriedDivision, induction
from tests.lowering.division.test_rules import Machine, mathematical
from tests.sweeps import daily, sampled

i, j, x, n, m = (Var(name) for name in "ijxnm")
N = ShapeVar("N")
FLOORED = (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV)


def is_lowered(e: Node) -> bool:
    return not any(node.op in FLOORED or node.op is ops.ASSERTING for node in postorder((e,)))


def representable(e: Node, point: dict[Any, int], bits: int) -> bool:
    """Whether the width represents every subterm evaluated at `point`."""
    if isinstance(e, Expr) and not -(1 << (bits - 1)) <= evaluate(e, point) < 1 << (bits - 1):
        return False
    args = e.args
    if e.op is ops.SELECT:
        args = (args[0], args[1] if evaluate(args[0], point) else args[2])
    elif e.op in (ops.AND, ops.OR) and evaluate(args[0], point) is (e.op is ops.OR):
        args = args[:1]
    elif e.op in (ops.SHL, ops.SHR, ops.TRUNCMOD):  # kept as written, traps included
        left, right = (evaluate(arg, point) for arg in args)
        if right >= bits if e.op is not ops.TRUNCMOD else (left, right) == (-(1 << (bits - 1)), -1):
            return False
    return all(representable(arg, point, bits) for arg in args)


def test_without_the_fact_the_form_is_corrected_and_missing_facts_are_named() -> None:
    flat = IterVar(Range(0, n * n), "i")
    lowered = lower_division(flat % n)
    assert lowered.expr != truncmod(flat, n)
    assert [step.rule for step in lowered.steps] == ["floormod corrected, dividend >= 0"]
    (missing,) = missing_facts(flat % n)
    assert missing.fact is (n >= 0) and missing.rule == "floormod truncated" and missing.saves > 0
    assert str(missing) == "n >= 0: declare ShapeVar('n') or assume it"
    assert missing_facts(flat % n, Context(assume=[n >= 0])) == ()
    assert [str(f) for f in missing_facts((x * 3 + i) // 7)] == [
        "x >= 0: declare ShapeVar('x') or assume it", "i >= 0: declare ShapeVar('i') or assume it"
    ]  # fmt: skip
    assert [f.fact for f in missing_facts(x // 5, Context(assume=[x <= -1]), bits=8)] == [x + 124 >= 0]
    assert missing_facts(i // N, Context({i: Range(0, N)})) == ()
    for e in (x // n, x % n, x % 5, ceildiv(x, N), (x - 1) % 7, x // -5):
        facts = missing_facts(e)
        assert facts
        better = lower_division(e, Context(assume=[f.fact for f in facts]))
        assert better.cost <= lower_division(e).cost - facts[0].saves, (e, facts)


def test_steps_carry_rule_proof_and_what_it_requires() -> None:
    (step,) = lower_division(i % N, Context({i: Range(0, N * N)})).steps
    assert step.rule == "floormod truncated" and step.before is i % N and step.after is truncmod(i, N)
    assert step.proof and {fact.condition for fact in step.proof.used} == {N >= 0}
    assert repr(step) == "floormod truncated: i % N -> truncmod(i, N)  because (i >= 0) & (N >= 0)"
    lowered = lower_division(i % n, Context({i: Range(0, n * n)}, assume=[n >= 0, j >= 5]))
    assert lowered.expr is truncmod(i, n)
    assert set(lowered.requires) == {n >= 0}  # that i has a value shows that n is not 0
    assert lower_division(x // 8).requires == ()
    assert lower_division(i // N, Context({i: Range(0, 9)}, assume=[N >= 3])).requires == (N >= 3,)
    guarded = lower_division(select(i >= 0, i // N, 0))
    assert guarded.requires == (~(i >= 0) | N.ne(0),)
    assert lower_division(select(N > 0, i // N, 0)).requires == ()
    carried = induction(i // n, i, Range(0, 10), Context(assume=[n >= 0, x > 3]))
    assert carried is not None and carried.proof.requires == (n >= 0,)


WITHIN = Context({i: Range(0, N * N)})
FIFTHS, EIGHT = Context(assume=[(x % 5).eq(0)]), Context(assume=[n.eq(8)])
FORMS: list[tuple[Any, ...]] = [
    (x // 8, "x >> 3"),
    (x % 8, "x & 7"),
    (ceildiv(x, -8), "-(x >> 3)"),
    (x % -8, "-(-(x & 7) & 7)"),
    (x // 1 + x % 1 + x % -1, "x"),
    (x // -1, "-x"),
    (x // 5, "truncdiv(x - (x >> 31), 5) + (x >> 31)"),
    (x % 5, "truncmod(x, 5) + (5 & truncmod(x, 5) >> 31)"),
    (nonneg(x) // 5 * 5 + x % 5, "x"),
    (x // n * n + x % n, "x"),
    (x * 6 // 3, "x * 2"),
    (N * 65 % N, "0"),
    (bounded(x, -10, 100) // 5, "truncdiv(x + 10, 5) - 2"),
    (bounded(x, -10, 100) % 5, "truncmod(x + 10, 5)"),
    (ceildiv(bounded(x, -10, 100), 5), "truncdiv(x + 14, 5) - 2"),
    (ceildiv(bounded(x, 0, 100), 5), "truncdiv(x + 4, 5)"),
    (bounded(x, None, 0) // -5, "truncdiv(x, -5)"),
    (ceildiv(bounded(x, None, 0), 5), "truncdiv(x, 5)"),
    (maximum(x // 5, 0), "maximum(truncdiv(x, 5), 0)"),
    (maximum(x // n, 3), "maximum(truncdiv(x, n), 3)"),
    (minimum(0, ceildiv(x, n)), "minimum(0, truncdiv(x, n))"),
    (maximum(x // 8, 0), "maximum(x >> 3, 0)"),
    ((x % N).eq(0), "truncmod(x, N) == 0"),
    ((x % -5).ne(0), "truncmod(x, -5) != 0"),
    ((x % 8).eq(0), "x & 7 == 0"),
    ((x % n).eq(0), "truncmod(x, select(n == -1, 1, n)) == 0"),
    (truncdiv(nonneg(x), 8) + truncmod(x, 8), "(x >> 3) + (x & 7)"),
    (truncmod(x, n), "truncmod(x, n)"),
    (select((x >= 0) & (n > 0), x // n, 5), "select((x >= 0) & (n > 0), truncdiv(x, n), 5)"),
    (((x >= 0) & (n > 0)) & (x % n).eq(3), "(x >= 0) & (n > 0) & truncmod(x, n) == 3"),
    ((x < 0) | (n <= 0) | (x % n).eq(3), "x < 0 | n <= 0 | truncmod(x, n) == 3"),
    # facts of a context, and facts inside the expression
    (i % N, "truncmod(i, N)", WITHIN),
    (i // N, "truncdiv(i, N)", WITHIN),
    (IterVar(Range(0, N * N), "i") % N, "truncmod(i, N)"),  # a loop variable knows its range
    (IterVar(Range(0, nonneg(n) * nonneg(n)), "i") % nonneg(n), "truncmod(i, n)"),
    (IterVar(Range(0, n * n), "i") % nonneg(n), "truncmod(i, n)"),
    (bounded(i, 0, 99) // bounded(n, 1), "truncdiv(i, n)"),
    (nonneg(i) % 5 + i // 7, "truncmod(i, 5) + truncdiv(i, 7)"),  # the claim holds wherever e is defined
    (x // 5, "truncdiv(x, 5)", FIFTHS),
    (ceildiv(x, 5), "truncdiv(x, 5)", FIFTHS),
    (x % 5, "0", FIFTHS),
    (ShapeVar("K", multiple_of=6) % 3, "0"),
    (x // n, "x >> 3", EIGHT),
    (select(n.eq(16), x // n, x % 4), "select(n == 16, x >> 4, x & 3)"),
    (select(n > 0, nonneg(x) // n, x // 5), "select(n > 0, truncdiv(x, n), truncdiv(x - (x >> 31), 5) + (x >> 31))"),
    (asserting(x > 7, x // 5) + x % 3, "truncdiv(x, 5) + truncmod(x, 3)"),
]


@pytest.mark.parametrize(("e", "expected", "ctx"), [(*row, None)[:3] for row in FORMS])
def test_form(e: Any, expected: str, ctx: Context | None) -> None:
    found = lower_division(e, ctx)
    assert found.expr is lower_division(e, ctx).expr and is_lowered(found.expr)
    spaced = str(found.expr).replace("(x < 0)", "x < 0").replace("(n <= 0)", "n <= 0")
    assert spaced.replace("(truncmod(x, n) == 3)", "truncmod(x, n) == 3") == expected


def test_the_cheapest_proved_rule_wins_and_quotient_and_remainder_share_one_division() -> None:
    for e in (x // N * 7 + x % N, x // n * 7 + x % n, x // 7 * 3 + x % 7, i % N * N + i // N):
        found = lower_division(e, Context({i: Range(0, N * N)}))
        divisions = [node for node in postorder((found.expr,)) if node.op in ops.DIVISIONS]
        assert [node.op for node in divisions] == [ops.TRUNCDIV], found.expr
    lazy = lower_division(select(j > 0, x // N, 1) * 7 + select(m > 0, x % N, 1)).expr
    assert {node.op for node in postorder((lazy,)) if node.op in ops.DIVISIONS} == {ops.TRUNCDIV, ops.TRUNCMOD}
    outside = lower_division(x // N * 7 + select(m > 0, x % N, 1)).expr
    assert [node.op for node in postorder((outside,)) if node.op in ops.DIVISIONS] == [ops.TRUNCDIV]
    known = [Context(), Context(assume=[x >= -10, x <= 99]), Context(assume=[x >= 0])]
    for e in (x // 5, x % 5, x // N, x % N, x // n, x % n):
        costs = [lower_division(e, ctx).cost for ctx in known]
        assert costs == sorted(costs, reverse=True) and costs[0] > costs[2], (e, costs)
    assert machine_cost(x // n) == 25 and machine_cost(x // 5) == 5 and operation_cost(x % 5) == 9
    assert lower_division(x // 8).cost < lower_division(x // 7).cost < lower_division(x // N).cost


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_min_dividends(bits: int) -> None:
    least = -(1 << (bits - 1))
    found = lower_division(ceildiv(x, 10), bits=bits).expr  # of a dividend without bounds
    for value in (24, -24, 0, 1, -1, least, least + 1, -least - 2, -least - 1):
        assert evaluate(found, {x: value}, bits=bits) == -(-value // 10)
    for c in (3, 10, -3, -10, 2, -2, 64, -64, least, least + 1, -least - 1):
        for divide in (floordiv, floormod, ceildiv):
            for e in (divide(x, c), divide(x, n), divide(const(least), n), divide(const(least), c)):
                value = evaluate(e, {x: least, n: c})
                assert evaluate(lower_division(e, bits=bits).expr, {x: least, n: c}, bits=bits) == value
    some: tuple[Node, ...] = (x % n, n + x % n, (x % n).eq(0), select((x % n).ne(0), 1, 0), x % n + (x + 1) % n)
    for whole in some:
        found = lower_division(whole, bits=bits).expr
        assert evaluate(found, {x: least, n: -1}, bits=bits) == evaluate(whole, {x: least, n: -1})


SPANS = [*((-128, k) for k in (127, 100, 0, -1)), (0, 127), (1, 127), (-10, 100), (-10, 127), (-127, 126), (-3, 3)]


@pytest.mark.parametrize("divide", [floordiv, floormod, ceildiv])
def test_every_dividend_in_a_range_at_8_bits_for_constant_divisors(divide: Any) -> None:
    tried = 0
    for (low, high), c in product(SPANS, (1, -1, 2, -2, 3, -3, 5, -5, 7, 8, -8, 10, 50, 64, -64, 100, 127, -127, -128)):
        e = divide(x, c)
        found = lower_division(e, Context({x: Range(low, high - low + 1)}), bits=8)
        tried += _same_at_8_bits(e, found.expr, {x: np.arange(low, high + 1)})
    quotients_too_large = sum(low == -128 for low, _ in SPANS) if divide is not floormod else 0  # MIN // -1
    assert tried == 19 * sum(high - low + 1 for low, high in SPANS) - quotients_too_large


@pytest.mark.parametrize(("divide", "step"), daily(product([floordiv, floormod, ceildiv], [3, 1]), 2))
def test_every_pair_in_ranges_at_8_bits(divide: Any, step: int) -> None:
    tried = 0
    for (a1, a2), (b1, b2) in list(product(SPANS, SPANS))[::step]:
        e = divide(x, n)
        ctx = Context({x: Range(a1, a2 - a1 + 1), n: Range(b1, b2 - b1 + 1)})
        xs, ns = (grid.ravel() for grid in np.meshgrid(np.arange(a1, a2 + 1), np.arange(b1, b2 + 1)))
        tried += _same_at_8_bits(e, lower_division(e, ctx, bits=8).expr, {x: xs[ns != 0], n: ns[ns != 0]})
    assert tried > 2_000_000 // step


@pytest.mark.parametrize("e", [
    x // n * 7 + x % n, (x - 1) % n, (x + n - 1) // n, x // n * n, ceildiv(x, n) * n - x, x // n % n,
    x % n // 3 + x // 3, maximum(x // n, 0), minimum(ceildiv(x, n), 0), (x % n).eq(0),
    select(n > 0, x % n, x // n), (x * 2 + 1) // 2,
    (x - n) // 2 + (x - n) % 2, (x + n) // 8 * 8 + (x + n) % 8, x % 7 * 7 + x // 7, (x // 3 + n // 3) % 5, -x // n,
])  # fmt: skip
@pytest.mark.parametrize("facts", [(), (n > 0,), (x >= 0,), (x >= 0, x < n), (n < 0, x < 0), (x + n > 0, x < 20)])
def test_compound_expressions_at_8_bits(e: Node, facts: tuple[Cond, ...]) -> None:
    found = lower_division(e, Context(assume=facts), bits=8).expr
    xs, ns = (grid.ravel() for grid in np.meshgrid(np.arange(-128, 128), np.arange(-128, 128)))
    env: dict[Expr, Any] = {x: xs, n: ns}
    inside = (ns != 0) & np.logical_and.reduce([mathematical(fact, env) for fact in facts] or [xs == xs])
    assert _same_at_8_bits(e, found, {x: xs[inside], n: ns[inside]}) > 90


def _same_at_8_bits(e: Node, found: Node, env: dict[Expr, Any]) -> int:
    """Assert equality at all points with representable subterms; returns their number."""
    assert is_lowered(found)
    original = Machine(env, 8)
    everywhere = np.ones(original.shape, bool)
    truth = original.value(_without_traps(e), everywhere)
    lowered = Machine(env, 8)
    value = lowered.value(found, ~original.hazard)
    assert not (lowered.hazard & ~original.hazard).any(), found
    assert (value == truth)[~original.hazard].all(), found
    return int((~original.hazard).sum())


def _without_traps(e: Node) -> Any:
    """Rewrite remainders so that the divisor -1 does not trap; the value is unchanged."""
    new: dict[Node, Any] = {}
    for node in postorder((e,)):
        args = [new[arg] for arg in node.args]
        if node.op is ops.FLOORMOD:
            args[1] = select(args[1].eq(-1), 1, args[1])
        new[node] = make(node.op, tuple(args), node.data) if args else node
    return new[e]


A, B, S = Var("A"), Var("B"), ShapeVar("S", lower=1, upper=100)


@st.composite
def contexts(draw: st.DrawFn, bits: int) -> tuple[Context, dict[Var, tuple[int, int]]]:
    ends = {}
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    for var in (A, B):
        edge = st.one_of(st.integers(-20, 40), st.sampled_from([least, least + 1, -1, 0, 1, most - 1, most]))
        low, high = sorted((draw(edge), draw(edge)))
        ends[var] = (low, high)
    ranges = {var: Range(low, high - low + 1) for var, (low, high) in ends.items() if draw(st.booleans())}
    facts = [draw(conditions([A, B, S], depth=1, total=True)) for _ in range(draw(st.integers(0, 1)))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        ctx = Context(ranges, assume=facts)
    return ctx, {var: ends[var] if var in ranges else (least, most) for var in (A, B)}


@sampled(12, 40, st.data())
def test_generated_expressions_have_their_value_at_the_width(data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from([8, 8, 16, 32]))
    ctx, ends = data.draw(contexts(bits))
    e = data.draw(st.one_of(expressions([A, B, S], depth=4), conditions([A, B, S], depth=3)))
    with intset.using(z3_rlimit=20_000, points=2_000):
        found = lower_division(e, ctx, bits)
    assert is_lowered(found.expr)
    for _ in range(12):
        point: dict[Any, int] = {S: data.draw(st.integers(1, 100))}
        for var, (low, high) in ends.items():
            near = [v for v in (low, low + 1, high - 1, high, -1, 0, 1) if low <= v <= high]
            point[var] = data.draw(st.one_of(st.sampled_from(near), st.integers(low, high)))
        try:
            if not all(evaluate(fact.condition, point) for fact in ctx.facts) or not representable(e, point, bits):
                continue
            truth = evaluate(e, point)
        except EvaluationError:
            continue
        assert evaluate(found.expr, point, bits=bits) == truth, (found.expr, point)


def test_a_branch_condition_holds_in_its_branch_alone() -> None:
    division = x // n
    e = select((x >= 0) & (n > 0), division, 0) + division
    found = lower_division(e).expr
    for a, b in product((-7, -1, 0, 3, 9), (-4, -1, 2, 5)):
        assert evaluate(found, {x: a, n: b}, bits=32) == evaluate(e, {x: a, n: b})
    assert truncdiv(x, n) in set(postorder((found,)))
    either = lower_division(((x < 0) | (x % 5).eq(0)) & (x % 5).eq(-5)).expr
    assert evaluate(either, {x: -3}, bits=32) is False
    (step,) = lower_division((x > 0) & ((x < 0) & (x // n).eq(5))).steps
    assert step.proof.vacuous


@pytest.mark.parametrize("levels", daily([50, 200], 2))
def test_large_shared_graphs_take_linear_time(levels: int) -> None:
    e: Expr = x
    for k in range(levels):
        e = select(e > k, e // 3 + k, e % 5 - k)
    started = time.process_time()
    found = lower_division(e, bits=32)
    assert time.process_time() - started < levels  # quadratic work would take hours
    assert is_lowered(found.expr)
    for value in (-3, 0, 1, 5):
        assert evaluate(found.expr, {x: value}, bits=32) == evaluate(e, {x: value})
    deep: Expr = x
    for _ in range(11_000):
        deep = deep + 1
    assert is_lowered(lower_division(deep // 3).expr)


def test_arguments_are_checked_and_what_cannot_be_carried_is_told() -> None:
    with pytest.raises(InputError, match="bits must be at least 2"):
        lower_division(x // 3, bits=1)
    with pytest.raises(InputError):
        lower_division("x // 3")
    assert lower_division(7).expr is const(7) and lower_division(x > 3).expr is (x > 3)
    limits = Range(0, 10)
    assert induction(i * i // 3, i, limits) is None
    assert induction(i // n, i, limits) is None  # n may be negative
    assert induction(i // n, i, limits, Context(assume=[n > 0])) is not None
    assert induction(x // i, i, limits) is None
    assert induction(i // 3, i, Range.everything()) is None
    assert induction(i // -3, i, limits) is None
    with pytest.raises(InputError):
        induction(i + 3, i, limits)


def test_ends_of_words_and_the_smallest_widths() -> None:
    # A box of 2**64 values and more: too many to count with `len`.
    word = Range(-(2**63), 2**64)
    found = lower_division(x // n, Context({x: word, n: word}), bits=64).expr
    for a, b in product((-(2**63), -7, 0, 5, 2**63 - 1), (-(2**63), -3, 2, 2**63 - 1)):
        assert evaluate(found, {x: a, n: b}, bits=64) == a // b
    assert Context({x: word, n: word}).prove((x ^ n) >= -(2**200)).status in ("proved", "unknown")
    for bits in (2, 3, 4):
        least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        values = range(least, most + 1)
        for divide, c in product((floordiv, floormod, ceildiv), (*map(const, values), n)):
            if c is n or c != const(0):
                e = divide(x, c)
                found = lower_division(e, bits=bits).expr
                for a, b in product(values, values):
                    if b and least <= (truth := evaluate(e, {x: a, n: b})) <= most:
                        assert evaluate(found, {x: a, n: b}, bits=bits) == truth, (e, bits, a, b)


# -- carried quotients and remainders ------------------------------------------------------------------------------


s, P = Var("s"), ShapeVar("P", lower=1)


@cache
def lowered(e: Expr, bits: int) -> Expr:
    expr: Expr = lower_division(e, bits=bits).expr
    return expr


def run(carried: CarriedDivision, var: Var, limits: Range, point: dict[Any, int], bits: int = 32) -> int:
    """Run a loop with carried values at a width, compare with the divisions, and return the iteration count."""
    before = dict(point)
    for fresh, value in carried.invariants.items():
        before[fresh] = evaluate(lowered(value, bits), point, bits=bits)
    q = evaluate(lowered(carried.quotient.first, bits), point, bits=bits)
    r = evaluate(lowered(carried.remainder.first, bits), point, bits=bits)
    first, extent = evaluate(limits.min, point), evaluate(limits.extent, point)
    for k in range(first, first + extent):
        here = {**point, var: k}
        dividend, divisor = evaluate(carried.dividend, here), evaluate(carried.divisor, here)
        if divisor:
            assert (q, r) == divmod(dividend, divisor), (k, carried.quotient.following)
        if k + 1 < first + extent:
            state = {**before, carried.quotient.var: q, carried.remainder.var: r}
            q = evaluate(carried.quotient.following, state, bits=bits)
            r = evaluate(carried.remainder.following, state, bits=bits)
    return int(max(extent, 0))


def divides(e: Expr) -> bool:
    return any(node.op in ops.DIVISIONS for node in postorder((e,)))


def test_carried_values_are_those_of_the_divisions() -> None:
    limits = Range(0, N * N)
    for e in (i // N, i % N):
        carried = induction(e, i, limits)
        assert carried is not None
        pieces = [piece for carry in (carried.quotient, carried.remainder) for piece in (carry.first, carry.following)]
        assert not any(divides(piece) for piece in pieces) and not carried.invariants
        iterations = [run(carried, i, limits, {N: size}, bits=8) for size in range(12)]
        assert iterations == [size * size for size in range(12)]
        assert carried.quotient.after_last and carried.proof.requires == ()
    limits = Range(0, N)
    carried = induction((i * s + x) % nonneg(n), i, limits)
    assert carried is not None and set(carried.invariants) and not divides(carried.remainder.following)
    for step, start, size, count in product((-5, -1, 0, 1, 4), (-3, 0, 8), (0, 1, 2, 7), (0, 1, 9)):
        run(carried, i, limits, {s: step, x: start, n: size, N: count})
    for start, step, size in product((-128, -127, -3, 0), (1, 2, 5, 100), (1, 2, 3, 64, 126, 127)):
        count = (127 - start) // step + 1
        limits = Range(0, count)
        carried = induction((i * step + start) // size, i, limits, bits=8)
        assert carried is not None
        assert run(carried, i, limits, {}, bits=8) == count
        last = start + step * count
        assert not carried.quotient.after_last or last <= 127


@settings(max_examples=35, deadline=None)
@given(st.data())
def test_generated_loops(data: st.DataObject) -> None:
    small = st.integers(-12, 12)
    coefficient = data.draw(st.one_of(small, st.just(s)))
    divisor = data.draw(st.one_of(st.integers(1, 9), st.just(N)))
    limits = Range(data.draw(st.one_of(small, st.just(x))), data.draw(st.one_of(st.integers(0, 12), st.just(P))))
    e = (i * coefficient + x * data.draw(small) + data.draw(small)) // divisor
    carried = induction(e, i, limits)
    assert carried is not None
    for _ in range(3):
        run(carried, i, limits, {x: data.draw(small), s: data.draw(small), N: data.draw(st.integers(0, 9)), P: 7})

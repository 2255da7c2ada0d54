"""Interval arithmetic, breakpoints and divisibility of the linear tier, by enumeration."""

import gc
import itertools
import random
import weakref
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
from hypothesis import strategies as st

from intset import (
    POS_INF,
    Cond,
    Context,
    Expr,
    Opaque,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    evaluate,
    maximum,
    minimum,
    parse,
    select,
    using,
)
from intset.arithmetic.strided import TRANSFER
from intset.expr import ops
from intset.expr.evaluate import compiled
from intset.linear import bounds as iv
from intset.linear.bounds import Interval, of_operation
from intset.linear.canonical import KEPT_FORMS, Normalizer, form_of
from intset.linear.form import order_key, reads_positive
from intset.linear.multiples import step_of_sum
from intset.linear.symbolic import greatest_of_pieces, minimum_pieces, sum_of_pieces, value_at
from tests.intset.oracle import Claims
from tests.strategies.contexts import Expressions, world
from tests.sweeps import daily, sampled

ENDS = (None, -9, -2, -1, 0, 1, 3, 8)
INTERVALS = [(low, high) for low in ENDS for high in ENDS if low is None or high is None or low <= high]
FAR = 20  # enumeration bound of infinite intervals


def elements(interval: Interval) -> list[int]:
    low, high = (end if end is not None else far for end, far in zip(interval, (-FAR, FAR), strict=True))
    return sorted({*range(max(low, -4), min(high, 5) + 1), low, high, (low + high) // 2})


def holds(interval: Interval, value: int) -> bool:
    low, high = interval
    return (low is None or low <= value) and (high is None or value <= high)


def contain(bound: Callable[..., Interval], meaning: Callable[..., int], rank: int) -> None:
    for operands in itertools.product(INTERVALS[:: 1 if rank == 1 else 2], INTERVALS[: None if rank == 2 else 1]):
        found = bound(*operands[:rank])
        for values in itertools.product(*map(elements, operands[:rank])):
            try:
                value = meaning(*values)
            except (ZeroDivisionError, ValueError):
                continue
            assert holds(found, value), (operands[:rank], found, values)


@pytest.mark.parametrize("op", TRANSFER, ids=lambda op: op.name)
def test_operations(op: ops.Op) -> None:
    meaning, rank = (lambda a, b: a, 2) if op is ops.SELECT else (op.meaning, op.arity)
    contain(partial(of_operation, op), meaning, rank)


def test_hulls_meets_and_products_of_signs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A low limit of bits reduces products to their signs."""
    contain(iv.hull, lambda a, b: a, 2)
    contain(iv.hull, lambda a, b: b, 2)
    monkeypatch.setattr(iv, "LONGEST_VALUE", 3)
    contain(partial(of_operation, ops.MUL), lambda a, b: a * b, 2)
    contain(partial(of_operation, ops.SHL), lambda a, b: a << b, 2)
    for factor in (-2, 1, 3):
        contain(lambda a: iv.scaled(a, factor), lambda a: a * factor, 1)  # noqa: B023  # called at once
    for a, b in itertools.product(INTERVALS, repeat=2):
        met = iv.meet(a, b)
        assert all(holds(met, value) is (holds(a, value) and holds(b, value)) for value in range(-FAR, FAR))


def test_ends_are_moved_to_a_residue_class() -> None:
    checked = 0
    for low, high, m in itertools.product(range(-7, 8), range(-7, 8), range(1, 6)):
        for r in range(m):
            members = [x for x in range(low, high + 1) if x % m == r]
            if members:
                assert iv.stepped((low, high), m, r) == (members[0], members[-1])
                assert iv.stepped((None, high), m, r) == (None, members[-1])
                assert iv.stepped((low, None), m, r) == (members[0], None)
                checked += 1
    assert checked > 800
    assert iv.stepped((2**70 + 1, 2**71), 8, 5) == (2**70 + 5, 2**71 - 3)


@pytest.mark.parametrize(
    ("text", "facts", "ends"),
    [
        ("b * ((a + b - 1) // b)", "a >= 7", (7, None)),
        ("b * ((a + b - 1) // b)", "a >= 2 * b + 1", (3, None)),
        ("b * ((a + b) // b)", "a >= 1", (2, None)),
        ("b * (a // b)", "a <= 7", (0, 7)),
        ("b * (a // b) + b", "a >= 5", (6, None)),
        ("3 * b * (a // b) - a", "a <= 7", (-7, 14)),
        ("2 * a - b * c * ((a - 1) // (b * c))", "a >= 4", (5, None)),
        ("c * b * (a // b)", "a * c <= 8", (0, 8)),
        ("(a % 3) * (b % 3) * (c % 5)", "a >= 1", (0, 16)),
        ("(a % b) * (b % c) * (a % c)", "a >= 1", (0, None)),
        ("(a % c) * (b % c) * (7 % c) - 1", "b <= 6", (-1, None)),
        ("(a % 4) * (b % 4) * (c % 4) * 2 + c % 4", "a >= 1", (0, 57)),
    ],
)
def test_products_of_quotients_and_remainders(text: str, facts: str, ends: tuple[int, int | None]) -> None:
    sizes = {name: ShapeVar(name, 1) for name in "abc"}
    e, fact = parse(text, sizes, kind=Expr), parse(facts, sizes, kind=Cond)
    low, high = Context({}, assume=[fact]).bounds(e, over="sizes")
    points = [dict(zip(sizes.values(), at, strict=True)) for at in itertools.product(range(1, 9), repeat=3)]
    values = [evaluate(e, at) for at in points if evaluate(fact, at)]
    assert values and low <= min(values) and max(values) <= high
    assert (low, None if high == POS_INF else high) == ends


def test_signs_of_shared_products_and_sums_in_a_circle_end() -> None:
    e: Expr = Var("i")
    for _ in range(40):
        e = e * e
    assert reads_positive(e, 3)
    assert not reads_positive(e, -1)
    ctx = Context({a: None, b: None}, assume=[((a + b) % k).eq(0), ((b + a + k) % k).eq(0), ((b * 3 + a) % k).eq(0)])
    assert ctx.prove(((a + b) % k).eq(0)) and ctx.simplify((a + b * 2) // k) is not None


@pytest.mark.parametrize("last", [0, 3])
def test_terms_of_two_tables_are_ordered_by_the_age_of_the_tables(last: int) -> None:
    """The digests of a key are those of structure alone, in every process."""
    i, older, newer = Var("i"), Opaque("older", 2), Opaque("newer", 2)
    first, second = (order_key(table(i, last)) for table in (older, newer))
    assert first[1:3] == second[1:3] and first < second
    assert str(Context().canonical(newer(i, last) * 2 + older(i, last))).startswith("older")


T, U = ShapeVar("t", lower=1), ShapeVar("u", lower=1)
O = Var("o")


@st.composite
def sums(draw: st.DrawFn) -> tuple[object, list[object]]:
    total, more = draw(st.integers(1, 20)), draw(st.integers(0, 4))
    forms = [T + more, total + more - T * O, draw(st.integers(-3, 12)) + 0 * T, draw(st.integers(-6, 6)) + U * O]
    forms += [draw(st.integers(-4, 20)) - U * O, T * O + T - draw(st.integers(0, 9)), U + draw(st.integers(-3, 3))]
    chosen = draw(st.lists(st.sampled_from(forms), min_size=1, max_size=3, unique_by=str))
    return draw(st.sampled_from([ceildiv(total, T), total + 0 * T, U + 1])), chosen


@sampled(60, 800, sums(), shows={"closed"})
def test_the_sum_and_the_maximum_are_those_of_all_iterations(case: tuple[object, list[object]]) -> str:
    number, exprs = case
    known = Context({O: Range(0, number)}).frame.known  # type: ignore[arg-type]
    forms = [known.form(e) for e in exprs]  # type: ignore[arg-type]
    pieces = minimum_pieces(known, forms, O, known.form(O * 0), known.form(number))  # type: ignore[arg-type]
    if pieces is None:
        return "open"
    total = sum_of_pieces(known, pieces)
    for t, u in product(range(1, 8), range(1, 5)):
        at = {T: t, U: u}
        count = evaluate(known.form(number).expr(), at)  # type: ignore[arg-type]
        values = [max(0, min(evaluate(f.expr(), {**at, O: o}) for f in forms)) for o in range(count)]
        assert evaluate(total, at) == sum(values)
        tops = [
            evaluate(value_at(known, line, place).expr(), at)
            for length, line, place in greatest_of_pieces(pieces)
            if evaluate(length.expr(), at) > 0
        ]
        assert max([0, *tops]) == max([0, *values])
    return "closed"


@sampled(
    80, 1500, st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 7)), min_size=1, max_size=3), st.integers(-9, 9)
)
def test_signs_of_quotients_and_products_are_true(terms: list[tuple[int, int]], rest: int) -> None:
    n = ShapeVar("n", upper=9)
    atoms = [T * O, T * (n // T), n // T, (n + 3) // T, ceildiv(n, T), n % T, T, U * (O // U)]
    e = sum((k * atoms[which] for k, which in terms), n * 0 + rest)
    known = Context({O: Range(0, ceildiv(n, T))}).frame.known
    if known.is_nonneg(known.form(e)):
        for t, u, size in product(range(1, 7), range(1, 4), range(10)):
            for o in range(-(-size // t)):
                assert evaluate(e, {T: t, U: u, n: size, O: o}) >= 0


a, b = Var("a"), Var("b")
k, m, s, t, c = (ShapeVar(name, lower=1) for name in "kmstc")
q = ShapeVar("q", multiple_of=8)


def random_fact(rng: random.Random) -> Cond:
    d = rng.choice((2, 3, 4, 6, 8, k, m, k * 2, k + 1))
    e = rng.choice((a, b, m, a, b, a * b + k, b * m * 3 - a, a * 2 - b))
    kind = rng.randrange(8)
    if kind == 0:
        return a.eq(rng.choice((2, 3, 4)) * rng.choice((b, b // 2, m)) + rng.choice((0, 0, 1, -2)))
    if kind == 1:
        return rng.choice((a // 2 <= b, a + b <= m * 4, a >= 3, b // 3 >= 1))
    return ((e + rng.choice((0, 0, 0, 1, -3, 5))) % d).eq(rng.choice((0, 0, 0, 1, 2)))


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize("first", daily(range(0, 300, 25), 12))
def test_forms_bounds_and_simplified_expressions_hold_at_every_point(first: int) -> None:
    used = 0
    for seed in range(first, first + 25):
        rng = random.Random(seed)
        facts = [random_fact(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
        questions = Expressions(
            rng, (a, b, k, m), "multiples quotients divisors divisors", (k, m), divisors=(2, 3, 4, 8, 12)
        )
        asked = [questions.integer(2) for _ in range(4)]
        claims = Claims(world({a: Range(0, 13), b: Range(-5, 11), k: Range(1, 4), m: Range(1, 6)}, facts))
        known: Normalizer = claims.ctx.frame.known
        if not claims.rows or known.empty:
            assert not claims.rows or not known.empty, (seed, facts)
            continue
        used += bool(known.assumptions.multiples)
        for e in asked:
            claims.is_refined(e, claims.ctx.simplify(e))
            claims.is_refined(e, known.regroup(known.form(e)).expr())
            low, high = known.bounds(known.form(e))
            values = [x for x in claims.at_points(e) if x is not None]
            assert low is None or low <= min(values, default=low), (seed, facts, e, low)
            assert high is None or high >= max(values, default=high), (seed, facts, e, high)
            with using(tiers=("linear",)):
                claims.goal(e.eq(rng.choice((0, 1))))
    assert used >= 12


@pytest.mark.parametrize("seed", range(4))
def test_a_step_that_is_claimed_is_one_of_every_value(seed: int) -> None:
    """Cases whose remainders differ among themselves, not only by what they share."""
    r, steps = random.Random(seed), 0
    known = Context({a: None, b: None}).frame.known
    for _ in range(60):
        e = drawn_cases(r, r.choice((1, 1, 2)))
        step, rest = step_of_sum(known, known.form(e))
        steps += step > 1
        value = compiled(e, [a, b])
        values = [value(x, y) for x in range(-5, 6) for y in range(-5, 6)]
        assert all((v - rest) % step == 0 if step else v == rest for v in values), (e, step, rest)
        if step > 1:
            assert Context({a: None, b: None}).prove((e % step).eq(rest % step)) and value(0, 0) % step == rest % step
    assert steps >= 10


def drawn_cases(r: random.Random, depth: int) -> Expr:
    """Choices among multiples with remainders, as they come."""
    if depth == 0:
        return r.choice((a, b)) * r.choice((2, 4, 6, -4, 8)) + r.choice((0, 0, 1, 2, 3, 4, -2))
    e, f = drawn_cases(r, depth - 1), drawn_cases(r, depth - 1)
    g, h, p, q = (r.randint(0, 6) for _ in "ghpq")
    factors = minimum(a * 2 * g + p, b * 3 * g + p) * maximum(a * 2 * h + q, b * 3 * h + q)
    joined = (minimum(e, f), maximum(e, f), select(a < b, e, f), abs(e), e * f, e + f, e - f * 3, factors)
    return r.choice(joined)


def test_forms_without_assumptions_are_kept_in_a_bounded_number() -> None:
    """Modules ask for them with the variables of each program."""
    met = [weakref.ref(v) for v in map(Var, map(str, range(KEPT_FORMS))) if form_of(v * 3 + 1)]
    gc.collect()
    assert sum(v() is not None for v in met) < KEPT_FORMS

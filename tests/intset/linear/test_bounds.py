"""Interval arithmetic: sound on all small intervals, by enumeration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from intset import (
    POS_INF,
    Cond,
    Context,
    EvaluationError,
    Expr,
    InputError,
    Opaque,
    ShapeVar,
    Var,
    evaluate,
    parse,
)
from intset.arithmetic.strided import TRANSFER
from intset.expr import ops
from intset.linear import bounds as iv
from intset.linear.bounds import Interval, of_operation
from intset.linear.form import order_key, reads_positive
from tests.sweeps import daily

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
    ("text", "ends"),
    [
        ("2 % b", (0, 2)), ("7 % (b + 1) - 3", (-3, 4)), ("a % b * b", (0, 64)), ("2 % b * b", (0, 16)),
        ("4 // (2 % b + 1)", (1, 4)), ("a * (7 % b)", (0, 56)), ("b * (a % (b + 1))", (0, 64)),
        ("abs(2 % b - 1)", (0, 1)), ("3 * b * (a % b) + 1", (1, 193)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("most", [8, None])
def test_remainders_by_sizes(text: str, ends: tuple[int, int], most: int | None) -> None:
    a, b = ShapeVar("a", 1, most), ShapeVar("b", 1, most)
    e = parse(text, {"a": a, "b": b}, kind=Expr)
    low, high = Context({}).bounds(e, over="sizes")
    values = [evaluate(e, {a: x, b: y}) for x, y in itertools.product(range(1, 9), repeat=2)]
    assert ends[0] <= low <= min(values) and (high == POS_INF or high >= max(values))
    if most is not None or ends[1] < 8:
        assert high <= ends[1]


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


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(400), 16))
def test_drawn_products_with_quotients_by_sizes_keep_their_values(seed: int) -> None:
    rng = random.Random(seed)
    low = {name: rng.choice((1, 1, 2, 3, -2)) for name in "abcd"}
    sizes = {name: ShapeVar(name, low[name], rng.choice((None, low[name] + 4))) for name in "abcd"}

    def linear() -> str:
        return (
            " + ".join(f"{rng.choice((1, 1, 2, 3, -1))} * {rng.choice('abcd')}" for _ in range(2))
            + f" - {rng.randint(0, 3)}"
        )

    def part() -> str:
        divisor = rng.choice(("b", "c", "b * c", "(b + c)", "(c - a)"))
        quotient = rng.choice((f"(({linear()}) // {divisor})", f"(({linear()}) % {divisor})"))
        return f"{rng.choice((1, 2, -1, -3))} * {rng.choice((divisor, 'd', f'{divisor} * a'))} * {quotient}"

    e = parse(" + ".join(part() for _ in range(rng.randint(1, 3))) + f" + {linear()}", sizes, kind=Expr)
    fact = parse(f"{linear()} >= {rng.randint(0, 4)}", sizes, kind=Cond)
    first, last = Context({}, assume=[fact]).bounds(e, over="sizes")
    for values in itertools.product(*(range(low[name], low[name] + 5) for name in "abcd")):
        at = dict(zip(sizes.values(), values, strict=True))
        try:
            value = evaluate(e, at) if evaluate(fact, at) else None
        except EvaluationError:
            continue
        assert value is None or first <= value <= last, (e, fact, at)


@pytest.mark.parametrize(
    ("text", "low"),
    [
        ("(a - 1) // 2 * ((b - 1) // 2)", 1), ("(a - 1) // 2 * ((a - 1) // 2) * 3 - 2", 1),
        ("(a - 1) * (b - 2) - 7", -5),
        ("a * a - a", 6),
        ("a * ((b - 1) // 2) + ((a - 1) // 2 + 1) % 8", 3),
        ("(a // 2 - 1) * (b // 3) * a", 0), ("5 - (a - 3) * (b - 3)", None),
    ],
)  # fmt: skip
def test_products_of_sizes_away_from_their_ends(text: str, low: int | None) -> None:
    a, b = ShapeVar("a", 3), ShapeVar("b", 3)
    e = parse(text, {"a": a, "b": b}, kind=Expr)
    ends = Context({}).bounds(e, over="sizes")
    values = [evaluate(e, {a: x, b: y}) for x, y in itertools.product(range(3, 15), repeat=2)]
    if low is None:
        assert ends[1] == max(values) == 5
    else:
        assert low <= ends[0] <= min(values)


def test_a_multiple_over_its_own_quotient() -> None:
    s, n = ShapeVar("s", 2), ShapeVar("n", 1)
    ctx = Context({}, assume=[(s % 12).eq(0)])
    for e, expected in ((s // (s // 12), 12), (s // (s // 4), 4), (s * 3 // (s // 4), 12), (s * n // (s // 3 * n), 3)):
        assert str(ctx.simplify(e)) == str(expected)
        assert ctx.prove(e.eq(expected))
    assert ctx.prove((s % (s // 6)).eq(0)) and ctx.prove((s // (s // 5)).eq(5)).status != "proved"


def test_the_sign_of_a_shared_product_is_read_once_a_node() -> None:
    e: Expr = Var("i")
    for _ in range(40):
        e = e * e
    assert reads_positive(e, 3)
    assert not reads_positive(e, -1)


@pytest.mark.parametrize("last", [0, 3])
def test_terms_of_two_tables_are_ordered_by_the_age_of_the_tables(last: int) -> None:
    """The digests of a key are those of structure alone, in every process."""
    i, older, newer = Var("i"), Opaque("older", 2), Opaque("newer", 2)
    first, second = (order_key(table(i, last)) for table in (older, newer))
    assert first[1:3] == second[1:3] and first < second
    assert str(Context().canonical(newer(i, last) * 2 + older(i, last))).startswith("older")


@pytest.mark.parametrize("wrong", [np.int64(3), np.array([1, 2])])
def test_a_number_of_numpy_is_no_list_of_variables(wrong: object) -> None:
    i, ctx = Var("i"), Context()
    for named in ({"keep": wrong}, {"over": wrong}):
        with pytest.raises(InputError):
            ctx.bounds(i, **named)
    with pytest.raises(InputError):
        Context({}, assume=wrong)

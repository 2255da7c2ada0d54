"""Expressions as functions of arrays: numeric functions, terms of one variable, widths of the arithmetic."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from intset import Space, Var, ceildiv, logical_or, maximum, minimum, select
from intset.errors import InputError, UndefinedError
from intset.expr.build import NumericFunction, Opaque
from intset.expr.evaluate import evaluate
from intset.spaces.vectors import ends_of, to_numpy

X, Y = Var("x"), Var("y")


def values_of(e: Any, columns: dict[Var, Any]) -> list[int]:
    return [int(v) for v in to_numpy(e, ends_of(columns)).checked(columns)]


def expected(e: Any, columns: dict[Var, Any]) -> list[int]:
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [int(evaluate(e, dict(zip(columns, row, strict=True)))) for row in rows]


def drawn(rng: random.Random, depth: int) -> Any:
    if depth == 0:
        return rng.choice((X, Y, X, Y, rng.randint(-9, 9)))
    a, b = drawn(rng, depth - 1), drawn(rng, depth - 1)
    kind = rng.randrange(7)
    if kind < 3:
        return (a + b, a - b, a * b)[kind]
    if kind == 3:
        return a // rng.choice((-7, -2, 3, 5)) if not isinstance(a, int) else a
    if kind == 4:
        return minimum(a, b)
    return maximum(a, b) if kind == 5 else select(X < Y, a, b)


def test_tables_of_one_variable_are_spread_over_long_columns() -> None:
    rng = random.Random(4)
    columns = {
        X: np.array([rng.randint(-3, 9) for _ in range(400)]),
        Y: np.array([rng.randint(5, 8) for _ in range(400)]),
    }
    compared = 0
    for _ in range(200):
        e = drawn(rng, 4)
        if isinstance(e, int) or len(e.free_vars()) < 2:
            continue
        compared += 1
        assert values_of(e, columns) == expected(e, columns), e
    assert compared > 100


def test_a_product_that_fits_is_no_object() -> None:
    factor = 56 // X * (X + 2) + (ceildiv(56, X) - 56 // X) * (58 - 56 // X * X)
    ends = {X: (1, 100), Y: (1, 100)}
    assert to_numpy(factor * factor * (Y * Y) * 64, ends).dtype == np.int64
    columns = {X: np.arange(1, 101), Y: np.full(100, 100)}
    assert values_of(factor * factor * (Y * Y) * 64, columns) == expected(factor * factor * (Y * Y) * 64, columns)
    assert to_numpy(X * Y * (1 << 50), ends).dtype == object


def test_large_values_do_not_overflow() -> None:
    rng = random.Random(9)
    seen = set()
    for _ in range(150):
        e = drawn(rng, 5)
        if isinstance(e, int):
            continue
        shift = rng.choice((1 << 8, 1 << 16, 1 << 29, 1 << 45))
        columns = {X: np.array([shift + rng.randint(0, 20) for _ in range(60)]), Y: np.arange(-30, 30)}
        columns = {v: columns[v] for v in e.free_vars()}
        seen.add(to_numpy(e, ends_of(columns)).dtype.name)
        assert values_of(e, columns) == expected(e, columns), e
    assert seen == {"int32", "int64", "object"}


def root(n: int) -> int:
    """The square root of a square; undefined elsewhere."""
    found = [k for k in range(n + 1) if k * k == n]
    if not found:
        raise ZeroDivisionError(f"{n} is no square")
    return found[0]


def test_numeric_functions_are_called_once_a_point() -> None:
    calls: list[tuple[int, int]] = []

    def area(x: int, y: int) -> int:
        calls.append((x, y))
        return x * y

    term = NumericFunction("area", 2, area)(X, Y)
    space = Space({X: range(1, 9), Y: range(1, 9), "z": range(10)}, where=[term <= 12])
    assert sorted({(row["x"], row["y"]) for row in space}) == [
        (x, y) for x in range(1, 9) for y in range(1, 9) if x * y <= 12
    ]
    assert (3, 4, 0) in space and (4, 4, 0) not in space
    table = space.table({"area": term, "twice": term * 2 + X})
    assert table["area"].tolist() == (table["x"] * table["y"]).tolist()
    assert table["twice"].tolist() == (2 * table["area"] + table["x"]).tolist()
    assert len(calls) == len(set(calls))


def test_points_without_a_value_are_no_members_unless_it_is_not_needed() -> None:
    square_root = NumericFunction("root", 1, root)(X)
    assert [row["x"] for row in Space({X: range(20)}, where=[square_root <= 3])] == [0, 1, 4, 9]
    lazy = Space({X: range(8)}, where=[logical_or((X % 2).eq(1), square_root >= 1)])
    assert [row["x"] for row in lazy] == [1, 3, 4, 5, 7]
    columns = {X: np.arange(8)}
    assert values_of(select((X % 2).eq(1), 0, select(X < 5, X, 9)), columns) == [0, 0, 2, 0, 4, 0, 9, 0]
    with pytest.raises(UndefinedError, match="2 is no square"):
        Space({X: range(8)}).table({"root": square_root})
    assert Space({X: [0, 1, 4]}).table({"root": square_root})["root"].tolist() == [0, 1, 2]


def test_an_unknown_term_is_refused() -> None:
    with pytest.raises(InputError, match="has the unknown"):
        Space({X: range(8)}, where=[Opaque("table", 1)(X) > 0])

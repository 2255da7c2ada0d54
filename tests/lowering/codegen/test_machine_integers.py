"""Every operation on integers of every type over its whole range: `run`, C and the reference agree."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from intset import ceildiv, floordiv, floormod, select, truncdiv, truncmod
from intset.errors import UndefinedError
from lowering import lower, run, to_c
from tests.bound.reference import evaluate
from tests.lowering.lowered import close, run_c
from tests.sweeps import daily

TYPES = [f"{u}int{b}" for u in ("", "u") for b in (8, 16, 32, 64)]
UNARY: dict[str, Any] = {
    "popcount": tir.popcount,
    "popcount of a sum": lambda x: tir.popcount(x + 1),
    "popcount of a product": lambda x: tir.popcount(x * -3),
    "neg": lambda x: -x,
    "not": lambda x: ~x,
    "abs": lambda x: abs(x),
    "shifted": lambda x: (x >> 3) + ((x & 7) << 2),
    "low bits": lambda x: (x & 15) | ((x ^ 5) & 240),
    "widened": lambda x: x.astype("int64") - 1,
    "narrowed": lambda x: x.astype("int8") + x.astype("uint8"),
    "as a float": lambda x: (x % 1000).astype("float32").astype("int32"),
    "compared": lambda x: select(x > 5, 1, 0) + select(x <= -1, 2, 0),
    "divided": lambda x: floordiv(x, 7) + floormod(x, 5) + truncdiv(x, -3) + truncmod(x, -9) + ceildiv(x, 11),
}
BINARY: dict[str, Any] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "min": lambda x, y: te.min(x, y),
    "max": lambda x, y: te.max(x, y),
    "&|^": lambda x, y: (x & y) + ((x | y) & 3) + ((x ^ y) & 12),
    "floordiv": lambda x, y: floordiv(x, select(y.eq(0), 3, y)),
    "floormod": lambda x, y: floormod(x, select(y.eq(0), 3, y)),
    "truncdiv": lambda x, y: truncdiv(x, select(y.eq(0), 3, y)),
    "truncmod": lambda x, y: truncmod(x, select(y.eq(0), 3, y)),
    "ceildiv": lambda x, y: ceildiv(x, select(y.eq(0), 3, y)),
    "<": lambda x, y: select(x < y, x, y) + select(x.eq(y), 1, 0),
}


def values_of(dtype: str) -> list[int]:
    """A type's extreme values and their neighbours, values around 0, and a sample between."""
    low, high = dtypes.int_range(dtype)
    if dtypes.bits(dtype) == 8:
        return list(range(low, high + 1))
    steps = [low + (high - low) * k // 23 for k in range(24)]
    return sorted(
        {x for x in (*steps, *range(low, low + 4), *range(high - 3, high + 1), *range(-9, 10)) if low <= x <= high}
    )


def agree(formulas: list[Any], columns: list[Any], dtype: str) -> int:
    """Compare `run`, C and the reference on columns of data; returns the number of points."""
    inputs = [te.placeholder((len(column),), dtype, name=f"X{k}") for k, column in enumerate(columns)]
    outs = te.compute((len(columns[0]),), lambda i: tuple(f(*(x[i] for x in inputs)) for f in formulas), name="out")
    f = lower(te.create_schedule(outs[0].op), [*inputs, *outs])
    given = {x.name: np.array(column, dtype) for x, column in zip(inputs, columns, strict=True)}
    expected = dict(zip((out.name for out in outs), evaluate(list(outs), given), strict=True))
    close(run(f, given), expected)
    close(run_c(f, to_c(f), given, expected, {}), expected)
    return len(columns[0]) * len(formulas)


@pytest.mark.parametrize("dtype", daily(TYPES, 5))
def test_functions_of_one_integer(dtype: str) -> None:
    assert agree(list(UNARY.values()), [values_of(dtype)], dtype) > 300


@pytest.mark.parametrize("dtype", daily(reversed(TYPES), 5))
def test_functions_of_two_integers(dtype: str) -> None:
    some = values_of(dtype)
    some = sorted({*some[:: len(some) // 20], *some[-2:]})
    pairs = [(x, y) for x, y in itertools.product(some, some) if y != -1 or x != dtypes.int_range(dtype)[0]]
    columns = [list(column) for column in zip(*pairs, strict=True)]
    assert agree(list(BINARY.values()), columns, dtype) > 4000


@pytest.mark.parametrize("dtype", TYPES)
def test_popcount_is_within_the_range_it_claims(dtype: str) -> None:
    low, high = dtypes.int_range(dtype)
    x = te.placeholder((3,), dtype, name="X")
    out = te.compute((3,), lambda i: tir.popcount(x[i]), name="out")
    given = {"X": np.array([low, 0, min(high, 2**63 - 1)], dtype)}
    ones = run(lower(te.create_schedule(out.op)), given)["out"]
    assert list(ones) == [int(low < 0), 0, min(high, 2**63 - 1).bit_length()]
    minus = te.compute((3,), lambda i: tir.popcount(x[i] * 0 - 1), name="minus")
    assert list(run(lower(te.create_schedule(minus.op)), given)["minus"]) == [dtypes.bits(dtype)] * 3


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("dtype", TYPES)
def test_a_float_becomes_an_integer_that_its_type_holds(source: str, dtype: str) -> None:
    low, high = dtypes.int_range(dtype)
    x = te.placeholder((1,), source, name="X")
    out = te.compute((1,), lambda i: x[i].astype(dtype), name="out")
    f = lower(te.create_schedule(out.op))
    for exact in (
        low - 1, low - 0.5, low, -1, -0.75, 0.75, high / 2, high, high + 0.5, high + 1, np.nan, np.inf, -np.inf,
    ):  # fmt: skip
        value = np.dtype(source).type(exact)
        is_held = bool(np.isfinite(value)) and low <= int(value) <= high
        for backend in ("python", "c"):
            if is_held:
                assert int(run(f, {"X": np.array([value])}, backend=backend)["out"][0]) == int(value)
            else:
                with pytest.raises(UndefinedError):
                    run(f, {"X": np.array([value])}, backend=backend)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_the_least_integer_by_minus_one(dtype: str) -> None:
    """C traps or leaves the quotient undefined, and may trap at the remainder, which is 0."""
    least = dtypes.int_range(dtype)[0]
    a, b = (te.placeholder((1,), name=name, dtype=dtype) for name in "AB")
    for of in (lambda i: b[i], lambda _: -1):
        for op in (tir.floordiv, tir.truncdiv, te.ceildiv, tir.floormod, tir.truncmod):
            c = te.compute((1,), lambda i, op=op, of=of: op(a[i], of(i)), name="C")
            f = lower(te.create_schedule(c.op), [a, b, c])
            for backend in ("python", "c"):
                given = {"A": np.array([least], dtype), "B": np.array([-1], dtype)}
                if op in (tir.floormod, tir.truncmod):
                    assert run(f, given, backend=backend)["C"].tolist() == [0]
                else:
                    with pytest.raises(UndefinedError):
                        run(f, given, backend=backend)

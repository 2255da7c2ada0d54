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
# The smallest integer of 64 bits has no negative there.
LEAVING_64_BITS = ("neg", "abs", "popcount of a product", "divided")


def values_of(dtype: str) -> list[int]:
    """The ends of a type, their neighbours, the neighbours of 0, and a sample between.

    The sample of uint64 stays one step inside int64, the type of all computed data.
    """
    low, high = dtypes.int_range(dtype)
    high = min(high, dtypes.int_range("int64")[1] - (low == 0))
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
    smallest = dtypes.int_range("int64")[0]
    some = [x for x in values_of(dtype) if x != smallest]
    compared = agree([UNARY[name] for name in LEAVING_64_BITS], [some], dtype)
    compared += agree([f for name, f in UNARY.items() if name not in LEAVING_64_BITS], [values_of(dtype)], dtype)
    assert compared > 300


@pytest.mark.parametrize("dtype", daily(reversed(TYPES), 5))
def test_functions_of_two_integers(dtype: str) -> None:
    some = values_of(dtype)
    some = [x for x in {*some[:: len(some) // 20], *some[-2:]} if x != dtypes.int_range("int64")[0]]
    pairs = list(itertools.product(some, some))
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


@pytest.mark.parametrize(
    ("dtype", "value", "kept"), [("int8", 300.7, 44), ("uint8", -1.5, 255), ("int16", 1e5, -31072)]
)
def test_a_float_that_its_integer_type_does_not_hold_wraps(dtype: str, value: float, kept: int) -> None:
    x = te.placeholder((1,), "float32", name="X")
    out = te.compute((1,), lambda i: x[i].astype(dtype).astype("int32") * 2, name="out")
    f = lower(te.create_schedule(out.op))
    given, expected = {"X": np.array([value], "float32")}, {"out": np.array([kept * 2], "int32")}
    assert evaluate([out], given)[0] == expected["out"]
    close(run(f, given), expected)
    close(run_c(f, to_c(f), given, expected, {}), expected)


def test_what_is_no_number_has_no_integer_part() -> None:
    x = te.placeholder((1,), "float32", name="X")
    out = te.compute((1,), lambda i: x[i].astype("int32"), name="out")
    for value in (np.nan, np.inf, -np.inf):
        with pytest.raises(UndefinedError, match="has no integer part"):
            run(lower(te.create_schedule(out.op)), {"X": np.array([value], "float32")})


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_the_least_integer_by_minus_one(dtype):
    """C traps or leaves the result undefined; both backends follow numpy, in divisions and `abs`."""
    A, D = (te.placeholder((6,), name=name, dtype=dtype) for name in "AD")
    ops = (tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod)
    found = te.compute((6,), lambda i: tuple(op(A[i], d) for op in ops for d in (D[i], -1)), name="B")
    f = lower(te.create_schedule(found[0].op), [A, D, *found])
    least = np.iinfo(dtype).min
    given = {"A": np.array([least, least, least + 1, 5, -7, 0], dtype), "D": np.array([-1, 1, -1, -1, -2, -1], dtype)}
    results = []
    for backend in ("numpy", "c"):
        arrays = {**given, **{B.name: np.zeros(6, dtype) for B in found}}
        with np.errstate(over="ignore"):
            run(f, arrays, **({"backend": "c"} if backend == "c" else {}))
        results.append([arrays[B.name].tolist() for B in found])
    assert results[0] == results[1]
    assert results[0][2][0] == 0 and results[0][6][0] == 0  # the remainder is 0

"""Names of scripts beside the operators: bits of numbers, intervals and solved conditions, passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from intset import InputError
from lowering import run
from lowering.tvm import arith, te, tir
from tests.compilers import need_compiler

WIDTHS = [
    *(("float32", other) for other in ("int32", "uint32")),
    *(("float64", other) for other in ("int64", "uint64")),
    ("int8", "uint8"),
    ("uint64", "int64"),
]
A, B, C = (tir.Var(name) for name in "abc")


@pytest.mark.parametrize("backend", ["python", "c"])
@pytest.mark.parametrize(("source", "dtype"), [*WIDTHS, *(pair[::-1] for pair in WIDTHS)])
def test_bits_of_a_number_are_those_of_numpy(source: str, dtype: str, backend: Any) -> None:
    if backend == "c":
        need_compiler()
    bits = np.random.default_rng(3).integers(0, 255, 64 * np.dtype(source).itemsize, dtype="uint8")
    if "float" in source or "float" in dtype:
        bits &= 0x3F  # no NaN
    given = bits.view(source)
    X = te.placeholder((64,), source, "X")
    Y = te.compute((64,), lambda i: tir.reinterpret(dtype, X[i]), name="Y")
    found = run(tvm.lower(te.create_schedule(Y.op), [X, Y]), {"X": given}, backend=backend)["Y"]
    np.testing.assert_array_equal(found, given.view(dtype))


def test_bits_of_another_width_are_refused() -> None:
    X = te.placeholder((4,), name="X")
    for dtype in ("int64", "float16", "bool"):
        with pytest.raises(InputError, match="reinterpret takes numbers of one width"):
            tir.reinterpret(dtype, X[0])
    assert tir.reinterpret("float32", X[0]) is X[0]


def test_the_remainder_of_an_expression() -> None:
    analyzer = arith.Analyzer()
    assert analyzer.modular_set(A * 4 + 1) == arith.ModularSet(4, 1)
    assert analyzer.modular_set(7) == arith.ModularSet(0, 7)
    assert analyzer.modular_set(A // 2) == arith.ModularSet(1, 0)
    analyzer.update(A, arith.ModularSet(4, 1))
    assert analyzer.modular_set(A * 2 + 1) == arith.ModularSet(8, 3)


def test_the_interval_of_an_expression() -> None:
    analyzer = arith.Analyzer()
    found = analyzer.int_set(A + B * 2, {A: arith.IntervalSet(0, 10)})
    assert (found.min_value, found.max_value) == (B * 2, B * 2 + 10)
    found = analyzer.int_set(A * 2 + B, {A: arith.IntervalSet(0, arith.pos_inf())})
    assert found.min_value is B and found.max_value is arith.pos_inf()
    assert analyzer.int_set(A, {A: arith.IntervalSet(3, 2)}).is_nothing()
    assert arith.IntervalSet(arith.neg_inf(), arith.pos_inf()).is_everything()
    assert arith.IntSet.single_point(A) == arith.IntervalSet(A, A)


def test_an_interval_in_which_a_condition_holds() -> None:
    relaxed = {C: arith.IntervalSet(0, 3)}
    found = arith.deduce_bound(A, A * 2 + C < 10, {}, relaxed)
    assert (found.min_value, int(found.max_value)) == (arith.neg_inf(), 3)
    assert arith.deduce_bound(A, (A % 2).eq(0), {}, {}).is_nothing()  # no interval


def test_the_coefficients_of_a_sum() -> None:
    assert arith.detect_linear_equation(A * 4 + B * 6 + 7, [A]) == [4, B * 6 + 7]
    assert arith.detect_linear_equation(A * B, [A]) == [B, 0]
    assert arith.detect_linear_equation(A * B, [A, B]) == []
    assert arith.detect_linear_equation(A // 2, [A]) == []


def test_the_ends_of_variables_in_a_conjunction() -> None:
    assert arith.detect_clip_bound(tir.all(A < B * 6, A - 1 > 0), [A]) == [2, B * 6 - 1]
    assert arith.detect_clip_bound(tir.all(A < B * 6, A - 1 > 0), [A, B]) == []
    assert arith.detect_clip_bound(tir.all(A + C * 10 <= 20, B - 1 > 0), [A, B]) == [None, 20 - C * 10, 2, None]

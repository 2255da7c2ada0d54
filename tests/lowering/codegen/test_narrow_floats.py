"""Floats of 8 and 16 bits round each operation to their type, in both backends, as numpy and ml_dtypes do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import dtypes, te, tir
from intset import InputError
from lowering import lower, parse_nest, run, to_c
from tests.compilers import compilers
from tests.lowering.lowered import compile_c

pytest.importorskip("ml_dtypes", reason="the package ml_dtypes gives numpy bfloat16 and 8-bit floats")
WARNINGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-c")
HALVES = ("float16", "bfloat16")
OPERATIONS: dict[str, tuple[Any, Any]] = {
    "+": (lambda a, b: a + b, np.add),
    "-": (lambda a, b: a - b, np.subtract),
    "*": (lambda a, b: a * b, np.multiply),
    "/": (lambda a, b: a / b, np.divide),
    "fma": (lambda a, b: a * b + a, lambda a, b: a * b + a),
    "max": (te.max, np.maximum),
    "min": (te.min, np.minimum),
    "sqrt": (lambda a, b: te.sqrt(a), lambda a, b: np.sqrt(a)),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "exp": (lambda a, b: te.exp(a), None),
    "sigmoid": (lambda a, b: tir.sigmoid(a), None),
    "floordiv": (te.floordiv, None),
    "floormod": (te.floormod, None),
    "truncdiv": (te.truncdiv, None),
    "truncmod": (te.truncmod, None),
    "nextafter": (tir.nextafter, np.nextafter),
}


def equal(a: Any, b: Any) -> bool:
    """Whether arrays have the same bits, all NaNs being equal; and 0.0 and -0.0, of which numpy takes either."""
    with np.errstate(invalid="ignore"):
        same = (a.astype(float) == b.astype(float)) | ((a != a) & (b != b))
    return bool(same.all() and a.dtype == b.dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_each_operation_rounds(dtype: str) -> None:
    n = 3000
    rng = np.random.default_rng(3)
    a = rng.integers(0, 1 << 16, n).astype("uint16").view(dtype)
    b = np.roll(a, 7)
    A, B = (te.placeholder((n,), dtype, name=name) for name in "AB")
    outs = te.compute((n,), lambda i: tuple(of(A[i], B[i]) for of, _ in OPERATIONS.values()), name="out")
    f = lower(te.create_schedule(outs[0].op), [A, B, *outs])
    python, c = (run(f, {"A": a, "B": b}, backend=backend) for backend in ("python", "c"))
    for (name, (_, reference)), out in zip(OPERATIONS.items(), outs, strict=True):
        assert equal(python[out.name], c[out.name]), name
        if reference is not None:
            with np.errstate(all="ignore"):
                assert equal(python[out.name], reference(a, b)), name


@pytest.mark.parametrize("target", dtypes.NARROW)
def test_a_number_is_converted_by_one_rounding(target: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.standard_normal(2000) * 2.0 ** rng.integers(-140, 130, 2000), [0.0, -0.0, np.inf, np.nan]])
    k = rng.integers(-(2**63), 2**63 - 1, len(x)) >> rng.integers(0, 60, len(x))
    X, K = te.placeholder((len(x),), "float64", name="X"), te.placeholder((len(x),), "int64", name="K")
    outs = te.compute(X.shape, lambda i: (X[i].astype(target), K[i].astype(target)), name="out")
    f = lower(te.create_schedule(outs[0].op), [X, K, *outs])
    python, c = (run(f, {"X": x, "K": k}, backend=backend) for backend in ("python", "c"))
    for out, given in zip(outs, (x, k), strict=True):
        expected = np.array([dtypes.rounded(v, target) for v in given.tolist()]).astype(target)
        assert equal(python[out.name], expected) and equal(c[out.name], expected)


@pytest.mark.parametrize("target", dtypes.NARROW)
def test_every_bit_pattern_is_read_and_written(target: str) -> None:
    bits = dtypes.bits(target)
    a = np.arange(1 << bits, dtype=f"uint{bits}").view(target)
    text = f"""
def f(A: {target}[{len(a)}], B: float32[{len(a)}], C: {target}[{len(a)}]):
    for i in [0, {len(a)}):
        B[i] = float32(A[i])
        C[i] = {target}(float32(A[i]))
"""
    for backend in ("python", "c"):
        found = run(parse_nest(text), {"A": a}, backend=backend)
        assert equal(found["B"], a.astype("float32")) and equal(found["C"], a)


def test_nothing_is_computed_in_types_of_storage() -> None:
    A = te.placeholder((3,), "float8_e5m2", name="A")
    with pytest.raises(InputError, match="nothing is computed in float8_e5m2"):
        te.compute((3,), lambda i: A[i] + A[i])
    B = te.compute((3,), lambda i: (A[i].astype("float16") * 2.0).astype("float8_e5m2"), name="B")
    f = lower(te.create_schedule(B.op), [A, B])
    given = np.array([1.5, -3.0, 1e-5]).astype("float8_e5m2")
    for backend in ("python", "c"):
        assert equal(run(f, {"A": given}, backend=backend)["B"], (given.astype("float16") * 2).astype("float8_e5m2"))


@pytest.mark.parametrize("dtype", HALVES)
def test_a_softmax_is_that_of_its_type(dtype: str) -> None:
    n = 64
    X = te.placeholder((n,), dtype, name="X")
    k, m = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "m")
    top = te.compute((1,), lambda _: te.max(X[m], axis=m), name="top")
    grown = te.compute((n,), lambda i: te.exp(X[i] - top[0]), name="grown")
    total = te.compute((1,), lambda _: te.sum(grown[k], axis=k), name="total")
    S = te.compute((n,), lambda i: grown[i] / total[0], name="S")
    f = lower(te.create_schedule(S.op), [X, S])
    x = (np.random.default_rng(6).standard_normal(n) * 3).astype(dtype)
    exps = np.exp(x - x.max())
    sum_of = x.dtype.type(0)
    for e in exps:
        sum_of = x.dtype.type(sum_of + e)
    for backend in ("python", "c"):
        assert equal(run(f, {"X": x}, backend=backend)["S"], exps / sum_of)
    for compiler in compilers():
        compile_c(to_c(f), compiler, WARNINGS)

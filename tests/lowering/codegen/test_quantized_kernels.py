"""Kernels on narrow integers equal numpy's typed arithmetic exactly, in the interpreter and in C under sanitizers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bound import te, tir
from lowering import lower, run, to_c
from tests.lowering.lowered import run_sanitized


def check(outputs: list[Any], inputs: list[Any], given: dict[str, Any], expected: dict[str, Any]) -> None:
    f = lower(te.create_schedule([t.op for t in outputs]), [*inputs, *outputs])
    found = run(f, dict(given))
    compiled = run_sanitized(f, to_c(f), dict(given), expected, {}, "gcc")
    for name, wanted in expected.items():
        assert found[name].dtype == wanted.dtype
        assert (found[name] == wanted).all() and (compiled[name] == wanted).all(), name


def test_a_convolution_with_requantization() -> None:
    """Accumulators of int32; multiply and shift in int64 with rounding, saturate to int8."""
    rng = np.random.default_rng(1)
    n, k, scale, shift, zero = 12, 3, 1518500250, 36, -3
    x, w = rng.integers(-128, 128, (4, n), "int8"), rng.integers(-128, 128, (5, 4, k), "int8")
    X, W = te.placeholder((4, n), "int8", name="X"), te.placeholder((5, 4, k), "int8", name="W")
    c, r = te.reduce_axis((0, 4), "c"), te.reduce_axis((0, k), "r")
    wide = "int32"
    acc = te.compute(
        (5, n - k + 1), lambda o, i: te.sum(X[c, i + r].astype(wide) * W[o, c, r].astype(wide), axis=[c, r]), name="acc"
    )

    def requantized(o: Any, i: Any) -> Any:
        scaled = (acc[o, i].astype("int64") * scale + (1 << (shift - 1))) >> shift
        return te.max(te.min(scaled + zero, 127), -128).astype("int8")

    Q = te.compute((5, n - k + 1), requantized, name="Q")
    windows = np.lib.stride_tricks.sliding_window_view(x, k, axis=1).astype("int32")
    sums = np.einsum("cik,ock->oi", windows, w.astype("int32"), dtype="int32")
    scaled = (sums.astype("int64") * scale + (1 << (shift - 1))) >> shift
    check([Q], [X, W], {"X": x, "W": w}, {"Q": np.clip(scaled + zero, -128, 127).astype("int8")})


def test_average_pooling_of_bytes() -> None:
    x = np.random.default_rng(2).integers(0, 256, (8, 8), "uint8")
    X = te.placeholder((8, 8), "uint8", name="X")
    dy, dx = te.reduce_axis((0, 2), "dy"), te.reduce_axis((0, 2), "dx")
    total = te.compute(
        (4, 4), lambda i, j: te.sum(X[2 * i + dy, 2 * j + dx].astype("uint16"), axis=[dy, dx]), name="total"
    )
    P = te.compute((4, 4), lambda i, j: ((total[i, j] + 2) >> 2).astype("uint8"), name="P")
    halved = te.compute((8, 4), lambda i, j: (X[i, 2 * j] + X[i, 2 * j + 1]) >> 1, name="halved")  # it wraps
    sums = x.reshape(4, 2, 4, 2).sum(axis=(1, 3), dtype="uint16")
    expected = {"P": ((sums + 2) >> 2).astype("uint8"), "halved": (x[:, ::2] + x[:, 1::2]) >> np.uint8(1)}
    check([P, halved], [X], {"X": x}, expected)


def test_a_linear_congruential_generator() -> None:
    s = np.random.default_rng(3).integers(0, 1 << 32, 50, "uint32")
    S = te.placeholder((50,), "uint32", name="S")
    a, c = tir.const(1664525, "uint32"), tir.const(1013904223, "uint32")
    N = te.compute((50,), lambda i: S[i] * a + c, name="N")
    high = te.compute((50,), lambda i: (N[i] * a + c) >> 16, name="high")
    digit = te.compute((50,), lambda i: (S[i] * a) % 10, name="digit")
    a_, c_ = np.uint32(1664525), np.uint32(1013904223)
    state = s * a_ + c_
    expected = {"N": state, "high": (state * a_ + c_) >> np.uint32(16), "digit": (s * a_) % np.uint32(10)}
    check([N, high, digit], [S], {"S": s}, expected)


def test_an_accumulator_keeps_its_type() -> None:
    a = np.array([2, 174, 9, 250], "uint8")
    A = te.placeholder((4,), "uint8", name="A")
    outs, expected = [], {}
    for name, combine, reference in (("least", te.min, np.min), ("most", te.max, np.max)):
        for k, (of, typed) in enumerate(
            ((lambda x: 0 - x, -a), (lambda x: x << 1, a << 1), (lambda x: (0 - x) >> 1, -a >> 1))
        ):
            axis = te.reduce_axis((0, 4), "k")
            outs.append(te.compute((1,), lambda _, f=combine, g=of, r=axis: f(g(A[r]), axis=r), name=f"{name}{k}"))
            expected[f"{name}{k}"] = np.array([reference(typed)], "uint8")
    check(outs, [A], {"A": a}, expected)

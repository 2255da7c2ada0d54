"""Annotations and constants in C: unrolled loops, simd pragmas, constant tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from bound import te, tir
from lowering import lower, run, to_c
from tests.compilers import needs_compiler
from tests.lowering.lowered import close, problem

pytestmark = needs_compiler


def check_native(s: Any) -> str:
    given, expected = problem(s, {})
    f = lower(s)
    close(run(f, given, backend="c"), expected)
    return to_c(f)


def matrix(rows: list[list[float]]) -> Any:
    """A constant matrix as schedules write it: nested selections."""

    def at(i: Any, j: Any) -> Any:
        now: Any = tir.const(0.0, "float32")
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                now = tir.Select(tir.all(i == r, j == c), tir.const(value, "float32"), now)
        return now

    return te.compute((len(rows), len(rows[0])), at, name="M")


def transformed(unroll: bool) -> Any:
    rows = [[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [0.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, -1.0]]
    m = matrix(rows)
    a = te.placeholder((4, 64), name="A")
    k = te.reduce_axis((0, 4), "k")
    b = te.compute((4, 64), lambda i, j: te.sum(m[i, k] * a[k, j], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[m].compute_inline()
    if unroll:
        s[b].reorder(b.op.axis[0], k, b.op.axis[1])
        s[b].unroll(b.op.axis[0])
        s[b].unroll(k)
    return s


def test_selections_between_constants_are_a_table_in_rolled_loops() -> None:
    text = check_native(transformed(unroll=False))
    assert "static const float table[16]" in text and "?" not in text and "==" not in text


def test_selections_between_constants_are_decided_in_unrolled_loops() -> None:
    text = check_native(transformed(unroll=True))
    assert "table" not in text and "==" not in text and text.count("for (") == 4 + 16


def test_long_loops_stay_loops() -> None:
    a = te.placeholder((1000,), name="A")
    b = te.compute((1000,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    s[b].unroll(b.op.axis[0])
    text = check_native(s)
    assert text.count("B[") == 1


def test_simd_only_where_iterations_are_apart() -> None:
    a = te.placeholder((32, 40), name="A")
    b = te.compute((32, 40), lambda i, j: a[i, j] * 2.0, name="B")
    s = te.create_schedule(b.op)
    s[b].vectorize(b.op.axis[1])
    assert "#pragma omp simd" in check_native(s)
    fused = te.create_schedule(b.op)
    both = fused[b].fuse(*b.op.axis)
    fused[b].vectorize(both)
    assert check_native(fused)


def test_a_ragged_vector_loop_has_no_guard_inside() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    s = te.create_schedule(b.op)
    _, inner = s[b].split(b.op.axis[0], 8)
    s[b].vectorize(inner)
    text = to_c(lower(s))
    assert "if (i" not in text and "#pragma omp simd" in text
    given = {"A": np.arange(13, dtype="float32")}
    assert (run(lower(s), given, backend="c")["B"] == given["A"] + 1).all()


def summed(n: Any, m: Any) -> Any:
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1.0, name="B")
    c = te.compute((n, m), lambda i, j: b[n - 1 - i, j] * 2.0, name="C")
    return te.create_schedule(c.op)


def test_sizes_that_fit_go_to_the_version_of_32_bits() -> None:
    n, m = te.var("n"), te.var("m")
    s = summed(n, m)
    f = lower(s)
    text = to_c(f)
    assert "int32 where n <= 32768" in text and "static int C_32(" in text and "return C_32(" in text
    for sizes in ({"n": 3, "m": 5}, {"n": 0, "m": 4}):
        given, expected = problem(s, sizes)
        close(run(f, given, sizes, backend="c"), expected)


def test_sizes_that_do_not_fit_are_not_refused() -> None:
    """A size beyond the 32-bit test selects the 64-bit version, which works."""
    n = te.var("n")
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + tir.Select(n > 5, tir.const(1.0, "float32"), tir.const(2.0, "float32")), "B")
    f = lower(te.create_schedule(b.op), [a, b, n])
    given = np.arange(8, dtype="float32")
    for size in (3, 6, (1 << 40), -(1 << 40)):
        assert (run(f, {"A": given}, {"n": size}, backend="c")["B"] == given + (1 if size > 5 else 2)).all()


def test_an_unrolled_loop_with_names_in_it_is_written_out() -> None:
    a = te.placeholder((11, 30), name="A")
    b = te.compute(
        (11, 75), lambda y, x: a[y, x * 2 // 5] + a[tir.min(y + 1, 10), tir.min(x * 2 // 5 + 1, 29)], name="B"
    )
    s = te.create_schedule(b.op)
    xo, xi = s[b].split(b.op.axis[1], 5)
    s[b].unroll(xi)
    s[b].vectorize(xo)
    text = check_native(s)
    assert "x_inner" not in text and "#pragma omp simd" in text and "min_" not in text


def test_copies_of_a_body_that_allocates_share_its_storage() -> None:
    a = te.placeholder((24,), name="A")
    b = te.compute((24,), lambda i: a[i] + 2, name="B")
    c = te.compute((24,), lambda i: b[i] * 3, name="C")
    s = te.create_schedule(c.op)
    _, inner = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], inner)
    s[c].unroll(inner)
    assert check_native(s).count("float B") == 1


def test_least_and_greatest_keep_nan_and_signs_of_zero() -> None:
    a, b = te.placeholder((64,), name="A"), te.placeholder((64,), name="B")
    zero = tir.const(0.0, "float32")
    made = [
        te.compute((64,), lambda i: tir.max(tir.min(a[i], 1.0), -1.0), name="C"),
        te.compute((64,), lambda i: tir.max(a[i], b[i]), name="D"),
        te.compute((64,), lambda i: tir.min(a[i], b[i]), name="E"),
        te.compute((64,), lambda i: tir.max(a[i], zero), name="F"),
        te.compute((64,), lambda i: tir.min(zero, a[i]), name="G"),
    ]
    f = lower(te.create_schedule([t.op for t in made]), [a, b, *made])
    values = np.array([np.nan, -0.0, 0.0, -1.0, 1.0, np.inf, -np.inf, 3.0], "float32")
    given = {"A": np.repeat(values, 8), "B": np.tile(values, 8)}
    expected, found = run(f, given), run(f, given, backend="c")
    assert all(expected[name].tobytes() == found[name].tobytes() for name in "CDEFG")

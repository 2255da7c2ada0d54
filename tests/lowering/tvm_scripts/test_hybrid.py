"""Hybrid scripts equal the Python functions that they are, in both backends; what has another meaning is refused."""

# ruff: noqa: F821  # names such as `output_tensor` belong to the language of hybrid scripts

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from intset import InputError
from lowering.tvm import te
from tests.compilers import need_compiler

ON = True
TABLE = [[1, 2], [3, 4]]
X: Any = np.array([3, -1, 4, 1, -5, 9, 2, -6], "float32")


@te.hybrid.script
def both(x):  # type: ignore[no-untyped-def]
    p = output_tensor((8,), "float32")  # type: ignore[name-defined]
    q = output_tensor((8,), "float32")  # type: ignore[name-defined]
    for i in range(8):
        p[i] = x[i] + 1.0
        q[i] = x[i] * 3.0
    return p, q


def two_results(a):  # type: ignore[no-untyped-def]
    b = output_tensor((8,), "float32")  # type: ignore[name-defined]
    u, v = both(a)
    for i in range(8):
        b[i] = u[i] * v[i]
    return b


def steps(a):  # type: ignore[no-untyped-def]
    b = output_tensor((8,), "float32")  # type: ignore[name-defined]
    for i in range(8):
        b[i] = 0.0
    for i in range(1, 8, 3):
        for j in range(i, 8, 2):
            b[j] += a[i]
    return b


def nested_indices(a):  # type: ignore[no-untyped-def]
    b = output_tensor((2, 2), "float32")  # type: ignore[name-defined]
    for i in const_range(2):  # type: ignore[name-defined]
        for j in const_range(2):  # type: ignore[name-defined]
            b[i][j] = a[i * 2 + j] * TABLE[i][j]
    return b


def bits(a):  # type: ignore[no-untyped-def]
    b = output_tensor((8,), "int32")  # type: ignore[name-defined]
    for i in range(8):
        b[i] = (i << 2) ^ (i & 5) | (i >> 1)
    return b


def flags(a):  # type: ignore[no-untyped-def]
    b = output_tensor((8,), "float32")  # type: ignore[name-defined]
    for i in range(8):
        b[i] = 1.0 if ON else a[i]
        if i > 2 or not ON:
            b[i] = a[i]
        if (ON and a[i] > 0.0) and i < 6:
            b[i] += 2.0
        if not ON or a[i] < 0.0 and ON:
            b[i] += 3.0
    return b


@pytest.mark.parametrize("func", [two_results, steps, nested_indices, bits, flags])
def test_a_script_equals_its_function(func: Any) -> None:
    need_compiler()
    A = te.placeholder((8,), name="A")
    script = te.hybrid.script(func)
    B, expected = script(A), script(X)
    f = tvm.build(te.create_schedule(B.op), [A, B])
    for f.backend in ("c", "python"):
        out = tvm.nd.empty(expected.shape, B.dtype)
        f(tvm.nd.array(X), out)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-6)


def whole_sum(a):  # type: ignore[no-untyped-def]
    b = output_tensor((1,), "float32")  # type: ignore[name-defined]
    total = 0
    for i in range(8):
        total += a[i]
    b[0] = total
    return b


def inner_name(a):  # type: ignore[no-untyped-def]
    b = output_tensor((1,), "float32")  # type: ignore[name-defined]
    for i in range(8):
        last = a[i]
    b[0] = last
    return b


def one_index(a):  # type: ignore[no-untyped-def]
    b = output_tensor((2, 4), "float32")  # type: ignore[name-defined]
    for i in range(2):
        b[i] = a[i]
    return b


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (whole_sum, "total begins as int32, which holds no float: write total = 0.0"),
        (inner_name, "the name last is not known outside of its block: assign it before the block"),
        (one_index, r"b\[i\] has 1 indices, b has 2 dimensions"),
    ],
)
def test_another_meaning_is_refused(func: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        te.hybrid.script(func)(te.placeholder((8,), name="A"))

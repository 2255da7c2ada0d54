"""Failed allocations return an error code, and every return frees all storage."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.schedule import Schedule
from lowering import lower, to_c
from tests.compilers import needs_compiler
from tests.lowering.lowered import c_name, compile_c, inputs_of, random_array, shape_at

pytestmark = needs_compiler

COUNTED = """
int taken, given, left = 1 << 30;
static void *counted(size_t n) { if (left-- <= 0) return NULL; taken++; return malloc(n); }
static void released(void *p) { given += p != NULL; free(p); }
#define malloc counted
#define free released
"""
WIDE = 5000  # floats in a row: more than an array on the stack has


def sliding() -> Schedule:
    A = te.placeholder((12, WIDE), name="A")
    B = te.compute((12, WIDE), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((10, WIDE), lambda y, x: B[y, x] + B[y + 2, x], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].store_root()
    return s


def buffered() -> Schedule:
    A = te.placeholder((12, WIDE), name="A")
    B = te.compute((12, WIDE), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((12, WIDE), lambda y, x: B[y, x] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].double_buffer()
    return s


def symbolic() -> Schedule:
    n = te.size_var("n")
    A = te.placeholder((n, WIDE), name="A")
    B = te.compute((n, WIDE), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((n, WIDE), lambda y, x: B[n - 1 - y, x] + 1.0, name="C")
    return te.create_schedule(C.op)


def checked() -> Schedule:
    """A program with a data-dependent access, checked after allocations."""
    A = te.placeholder((12, WIDE), name="A")
    K = te.placeholder((12,), name="K", dtype="int32")
    B = te.compute((12, WIDE), lambda y, x: A[y, x] * 2.0, name="B")
    C = te.compute((12, WIDE), lambda y, x: B[K[y], x] + tir.const(1.0), name="C")
    return te.create_schedule(C.op)


def called(s: Schedule, left: int | None = None, **arrays: Any) -> tuple[int, int, int]:
    """Run with `left` successful allocations; returns the code and the counts of mallocs and frees."""
    f = lower(s)
    text = to_c(f)
    place = text.rindex("#include")
    place = text.index("\n", place) + 1
    library = ctypes.CDLL(str(compile_c(text[:place] + COUNTED + text[place:])))
    sizes = {v.name: 9 for v in f.sizes}
    given = {t.name: random_array(t, sizes) for t in inputs_of(s)} | arrays
    outputs = {t.name: np.zeros(shape_at(t, sizes), t.dtype) for op in s.outputs for t in op.outputs}
    if left is not None:
        ctypes.c_int.in_dll(library, "left").value = left
    held = [np.ascontiguousarray({**given, **outputs}[t.name], t.dtype) for t in f.params]
    index = ctypes.c_int32 if "int32_t n" in text else ctypes.c_int64
    code = getattr(library, c_name(text))(
        *(a.ctypes.data_as(ctypes.c_void_p) for a in held), *(index(sizes[v.name]) for v in f.sizes)
    )
    return code, *(ctypes.c_int.in_dll(library, name).value for name in ("taken", "given"))


@pytest.mark.parametrize("make", [sliding, buffered, symbolic])
def test_what_is_taken_is_given_back(make: Any) -> None:
    assert called(make()) == (0, 1, 1)


@pytest.mark.parametrize("make", [sliding, buffered, symbolic])
def test_storage_that_is_not_found_is_an_error(make: Any) -> None:
    assert called(make(), left=0) == (-1, 0, 0)


def test_a_check_that_fails_gives_back_what_was_taken() -> None:
    inside = np.arange(12, dtype="int32")
    assert called(checked(), K=inside) == (0, 1, 1)
    outside = np.where(inside == 7, 12, inside)
    code, taken, given = called(checked(), K=outside)
    assert code > 0 and taken == given == 1

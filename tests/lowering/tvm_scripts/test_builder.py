"""Nests of `ir_builder`: views, vectors, and what runs only with checks or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from intset import InputError
from lowering.errors import AccessError, CheckError, CompilerError
from lowering.tvm import te, tir
from tests.compilers import need_compiler

Kernel = Callable[[Any, Any, Any, Any], None]  # of the builder and three buffers: floats, integers, the output


def built(kernel: Kernel) -> Any:
    A, P = te.placeholder((6,), name="A"), te.placeholder((6,), "int32", "P")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        kernel(ib, *ins, outs[0])
        return ib.get()

    B = te.extern((6,), [A, P], body, dtype="float32", name="B")
    return tvm.build(te.create_schedule(B.op), [A, P, B])


def backends_of(f: Any) -> list[str]:
    return ["python"] if f.backend == "python" else ["c", "python"]


def reshaped(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A, shape=(2, 3)), ib.buffer_ptr(B, shape=(3, 2))
    with ib.for_range(0, 2) as i, ib.for_range(0, 3.0) as j:
        b[j, i] = a[i, j]


def ramps(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 2) as i:
        b[tir.Ramp(i, 2, 3)] = a[tir.Ramp(i * 3, 1, 3)] * 1.0


def gathered(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, p, b = ib.buffer_ptr(A), ib.buffer_ptr(P), ib.buffer_ptr(B)
    with ib.for_range(0, 6) as i, ib.if_scope(a[i] >= 0.0):
        b[p[i]] = tir.if_then_else(a[i] < 9.0, a[p[p[i]]], 0.0)


def repeated(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, p, b = ib.buffer_ptr(A), ib.buffer_ptr(P), ib.buffer_ptr(B)
    k = ib.allocate("int32", (1,), "k")
    k[0] = 0
    with ib.while_loop(k[0] < 6):
        b[p[k[0]]] = a[p[p[k[0]]]]
        k[0] += 1


def nested(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 6) as i:
        half = ib.let("half", a[i] * 0.5)
        b[i] = 0.0
        k = ib.allocate("int32", (1,), "k")
        k[0] = 0
        with ib.while_loop(k[0] < 2), ib.new_scope():
            m = ib.allocate("int32", (1,), "m")
            m[0] = 0
            with ib.while_loop(m[0] < 3):
                b[i] += half
                m[0] += 1
            k[0] += 1


X, TURNED = np.arange(6, dtype="float32"), np.array([3, 4, 5, 0, 1, 2], "int32")
MATRIX = X.reshape(2, 3)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (reshaped, MATRIX.T.ravel()),
        (ramps, MATRIX.T.ravel()),
        (gathered, X[TURNED]),
        (repeated, X[TURNED]),
        (nested, X * 3),
    ],
)
def test_a_kernel(kernel: Kernel, expected: Any) -> None:
    need_compiler()
    f = built(kernel)
    for backend in backends_of(f):
        f.backend = backend
        out = tvm.nd.empty((6,))
        f(tvm.nd.array(X), tvm.nd.array(TURNED), out)
        np.testing.assert_array_equal(out.numpy(), expected)


def test_a_function_in_a_while_loop_is_given_arrays_of_the_script() -> None:
    seen = []

    @tvm.register_func("test.seen", override=True)
    def note(array: Any, round_: int) -> None:
        seen.append((round_, array.numpy().tolist()))

    def kernel(ib: Any, A: Any, P: Any, B: Any) -> None:
        k, b = ib.allocate("int32", (1,), "k"), ib.buffer_ptr(B)
        k[0] = 0
        with ib.for_range(0, 6) as i:
            b[i] = 1.0
        with ib.while_loop(k[0] < 2):
            ib.emit(tir.call_packed("test.seen", B, k[0]))
            k[0] += 1

    built(kernel)(tvm.nd.array(X), tvm.nd.array(TURNED), tvm.nd.empty((6,)))
    assert seen == [(0, [1.0] * 6), (1, [1.0] * 6)]


@pytest.mark.parametrize("kernel", [gathered, repeated])
@pytest.mark.parametrize("wrong", [6, -1])
def test_an_access_that_data_leads_outside_is_reported(kernel: Kernel, wrong: int) -> None:
    need_compiler()
    f, places = built(kernel), TURNED.copy()
    places[2] = wrong
    for backend in backends_of(f):
        f.backend = backend
        with pytest.raises(CheckError, match="inside"):
            f(tvm.nd.array(X), tvm.nd.array(places), tvm.nd.empty((6,)))


def outside(ib: Any, A: Any, P: Any, B: Any) -> None:
    with ib.for_range(0, 7) as i:
        ib.buffer_ptr(B)[i] = 0.0


def _threads(ib: Any) -> Any:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 6)
    return tx


def exchanged(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx, shared = _threads(ib), ib.allocate("float32", (6,), "s", scope="shared")
    shared[tx] = ib.buffer_ptr(A)[tx]
    ib.buffer_ptr(B)[tx] = shared[5 - tx]


def synchronized(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx = _threads(ib)
    ib.buffer_ptr(B)[tx] = 0.0
    ib.emit(tir.Call(None, "tir.tvm_storage_sync", ["shared"]))


def of_a_tensor(ib: Any, A: Any, P: Any, B: Any) -> None:
    ib.buffer_ptr(te.placeholder((6,)))


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (outside, AccessError, "stores B.i. outside of its tensor at i = 6"),
        (exchanged, CompilerError, "threads exchange values in shared memory"),
        (synchronized, CompilerError, "threads exchange values in shared memory"),
        (of_a_tensor, InputError, "buffer_ptr takes a buffer"),
    ],
)
def test_what_does_not_run(kernel: Kernel, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        built(kernel)


def own_elements(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx, shared = _threads(ib), ib.allocate("float32", (6,), "s", scope="shared")
    shared[tx] = ib.buffer_ptr(A)[tx]
    ib.buffer_ptr(B)[tx] = shared[tx]


def test_a_thread_reads_what_it_stored() -> None:
    out = tvm.nd.empty((6,))
    built(own_elements)(tvm.nd.array(X), tvm.nd.array(TURNED), out)
    np.testing.assert_array_equal(out.numpy(), X)


def test_an_unknown_function_of_c_has_a_name() -> None:
    def kernel(ib: Any, A: Any, P: Any, B: Any) -> None:
        ib.buffer_ptr(B)[0] = tir.call_pure_extern("float32", "fabsf", ib.buffer_ptr(A)[0])

    f = built(kernel)
    f.backend = "python"
    with pytest.raises(InputError, match="calls fabsf, which is not known"):
        f(tvm.nd.array(X), tvm.nd.array(TURNED), tvm.nd.empty((6,)))


def test_saved_modules(tmp_path: Path) -> None:
    path = str(tmp_path / "saved.so")
    with pytest.raises(InputError, match="a nest with a while loop is not saved"):
        built(repeated).export_library(path)
    A = te.placeholder((6,), name="A")
    s = te.create_schedule(te.compute((6,), lambda i: A[i] + 1.0, name="B").op)
    nests = [tvm.lower(s, [A, s.outputs[0].output(0)], name=name) for name in ("first", "second")]
    tvm.build(nests, target="llvm").export_library(path)
    for name in ("first", "second"):
        out = tvm.nd.empty((6,))
        tvm.runtime.load_module(path)[name](tvm.nd.array(X), out)
        np.testing.assert_array_equal(out.numpy(), X + 1)
    for other in (b"\x7fELF\x00\xff", b'{"pickle": ""}'):
        Path(path).write_bytes(other)
        with pytest.raises(InputError, match="not saved here"):
            tvm.runtime.load_module(path)


def test_values_of_a_nest_have_the_arithmetic_of_their_types() -> None:
    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b, c = (ib.buffer_ptr(buffer) for buffer in (*ins, outs[0]))
        with ib.for_range(0, 4) as i:
            total = ib.let("total", a[i] + b[i])
            with ib.if_scope(a[i] + b[i] < 50):
                c[i] = total - 128
            with ib.else_scope():
                c[i] = ((a[i] + b[i]) >> tir.const(1, "uint8")) * 1000 + tir.max(a[i] + b[i], 200)
        return ib.get()

    A, B = (te.placeholder((4,), "uint8", name) for name in "AB")
    C = te.extern((4,), [A, B], body, dtype="int32", name="C")
    x, y = np.array([1, 200, 255, 3], "uint8"), np.array([255, 100, 255, 4], "uint8")
    total = (x + y).astype("int32")
    expected = np.where(total < 50, total - 128, (total >> 1) * 1000 + np.maximum(total, 200))
    f = tvm.build(te.create_schedule(C.op), [A, B, C])
    for backend in backends_of(f):
        f.backend = backend
        found = tvm.nd.array(np.zeros(4, "int32"))
        f(tvm.nd.array(x), tvm.nd.array(y), found)
        np.testing.assert_array_equal(found.numpy(), expected)


def test_a_function_of_c_that_is_not_there_is_named() -> None:
    need_compiler()
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: tir.call_pure_extern("float32", "no_such_function", A[i]), name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    with pytest.raises(CompilerError, match="no_such_function"):
        f(tvm.nd.empty((4,)), tvm.nd.empty((4,)))

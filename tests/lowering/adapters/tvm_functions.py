"""Functions of TVM of many kinds, each with inputs and what numpy gives. TVM reads their source, so it is a file."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tvm
import tvm.s_tir
from tvm import te
from tvm.script import tirx as T  # noqa: N812


class Case(NamedTuple):
    """A function, its inputs by name, and its outputs; `compiled` is false of what needs a GPU."""

    func: Any
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    scalars: dict[str, Any]
    compiled: bool = True


CASES: dict[str, Callable[[Any], Case]] = {}


def case(make: Callable[[Any], Case]) -> Callable[[Any], Case]:
    """Register a case by the name of its function; it is given a generator of random numbers."""
    CASES[make.__name__] = make
    return make


def floats(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


def called(func: Any, *arrays: Any) -> list[Any]:
    """The arrays after a call of TVM's code for a function."""
    held = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(func, target="llvm")(*held)
    return [array.numpy() for array in held]


@T.prim_func(s_tir=True)
def matmul_func(A: T.Buffer((12, 16), "float32"), B: T.Buffer((16, 8), "float32"), C: T.Buffer((12, 8), "float32")):
    for i, j, k in T.grid(12, 8, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]


def _matmul(rng: Any, func: Any, compiled: bool = True) -> Case:
    a, b = floats(rng, 12, 16), floats(rng, 16, 8)
    return Case(func, {"A": a, "B": b}, {"C": a @ b}, {}, compiled)


def _scheduled() -> tuple[Any, Any]:
    sch = tvm.s_tir.Schedule(matmul_func)
    return sch, sch.get_sblock("C")


@case
def matmul(rng: Any) -> Case:
    return _matmul(rng, matmul_func)


@case
def matmul_split_with_predicate(rng: Any) -> Case:
    sch, block = _scheduled()
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 5])
    j0, j1 = sch.split(j, [3, None])
    sch.reorder(i0, j0, k, i1, j1)
    return _matmul(rng, sch.mod["main"])


@case
def matmul_on_threads(rng: Any) -> Case:
    sch, block = _scheduled()
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 4])
    k0, k1 = sch.split(k, [None, 8])
    sch.reorder(i0, i1, j, k0, k1)
    sch.bind(i0, "blockIdx.x")
    sch.bind(i1, "threadIdx.y")
    sch.bind(j, "threadIdx.x")
    shared = sch.cache_read(block, 1, "shared")
    sch.compute_at(shared, k0)
    fused = sch.fuse(*sch.get_loops(shared)[-2:])
    sch.bind(sch.split(fused, [None, 8])[1], "threadIdx.x")
    local = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(local, j)
    return _matmul(rng, sch.mod["main"], compiled=False)


@case
def softmax(rng: Any) -> Case:
    n = te.var("n")
    A = te.placeholder((n, 9), name="A")
    k, l = te.reduce_axis((0, 9), "k"), te.reduce_axis((0, 9), "l")
    M = te.compute((n,), lambda i: te.max(A[i, k], axis=k), name="M")
    E = te.compute((n, 9), lambda i, j: te.exp(A[i, j] - M[i]), name="E")
    S = te.compute((n,), lambda i: te.sum(E[i, l], axis=l), name="S")
    B = te.compute((n, 9), lambda i, j: E[i, j] / S[i], name="B")
    a = floats(rng, 6, 9)
    e = np.exp(a - a.max(1, keepdims=True))
    return Case(te.create_prim_func([A, B]), {"A": a}, {"B": e / e.sum(1, keepdims=True)}, {})


@T.prim_func
def transpose_func(A: T.Buffer((7, 5), "int8"), B: T.Buffer((5, 7), "int8")):
    for i in T.parallel(5):
        for j in T.unroll(7):
            B[i, j] = A[j, i] + A[j, i]


@case
def transpose_that_wraps(rng: Any) -> Case:
    a = rng.integers(-128, 128, (7, 5)).astype("int8")
    return Case(transpose_func, {"A": a}, {"B": (a + a).T}, {})


@T.prim_func
def unsigned_func(A: T.Buffer((40,), "uint8"), B: T.Buffer((40,), "uint8"), C: T.Buffer((40,), "int32")):
    for i in range(40):
        B[i] = (A[i] + T.uint8(200)) // T.uint8(3)
        C[i] = T.Cast("int32", A[i] * A[i]) - T.Cast("int32", A[i] >> T.uint8(1)) + T.Cast("int32", ~A[i])


@case
def unsigned_arithmetic(rng: Any) -> Case:
    a = rng.integers(0, 256, 40).astype("uint8")
    c = (a * a).astype("int32") - (a >> 1).astype("int32") + (~a).astype("int32")
    return Case(unsigned_func, {"A": a}, {"B": (a + np.uint8(200)) // np.uint8(3), "C": c}, {})


@T.prim_func
def divisions_func(A: T.Buffer((24,), "int32"), B: T.Buffer((24, 4), "int32"), d: T.int32):
    for i in range(24):
        B[i, 0] = T.truncdiv(A[i], d)
        B[i, 1] = T.truncmod(A[i], d)
        B[i, 2] = T.floordiv(A[i], d)
        B[i, 3] = T.floormod(A[i], d)


@case
def four_divisions(rng: Any) -> Case:
    a = rng.integers(-50, 50, 24).astype("int32")
    d = int(rng.choice([-7, -3, -1, 2, 5]))
    q = np.trunc(a / d).astype("int32")
    return Case(divisions_func, {"A": a}, {"B": np.stack([q, a - q * d, a // d, a % d], 1)}, {"d": d})


@T.prim_func
def gather_func(A: T.Buffer((20, 6), "float32"), I: T.Buffer((9,), "int64"), B: T.Buffer((9, 6), "float32")):
    for i, j in T.grid(9, 6):
        B[i, j] = A[I[i], j]


@case
def gather(rng: Any) -> Case:
    a, index = floats(rng, 20, 6), rng.integers(0, 20, 9)
    return Case(gather_func, {"A": a, "I": index}, {"B": a[index]}, {})


@T.prim_func(s_tir=True)
def scatter_func(A: T.Buffer((9,), "float32"), I: T.Buffer((9,), "int32"), B: T.Buffer((12,), "float32")):
    for i in range(12):
        with T.sblock("zero"):
            vi = T.axis.spatial(12, i)
            B[vi] = T.float32(0)
    for i in range(9):
        with T.sblock("scatter"):
            vi = T.axis.opaque(9, i)
            T.reads(A[vi], I[vi], B[0:12])
            T.writes(B[0:12])
            if I[vi] >= 0 and I[vi] < 12:
                B[I[vi]] = B[I[vi]] + A[vi]


@case
def scatter(rng: Any) -> Case:
    a, index = floats(rng, 9), rng.integers(-3, 15, 9).astype("int32")
    b = np.zeros(12, "float32")
    for k, value in zip(index, a, strict=True):
        if 0 <= k < 12:
            b[k] += value
    return Case(scatter_func, {"A": a, "I": index}, {"B": b}, {})


@T.prim_func
def sparse_func(
    indptr: T.Buffer((6,), "int32"),
    cols: T.Buffer((T.int32(11),), "int32"),
    X: T.Buffer((11,), "float32"),
    V: T.Buffer((8,), "float32"),
    Y: T.Buffer((5,), "float32"),
):
    for i in range(5):
        Y[i] = T.float32(0)
        for k in range(indptr[i + 1] - indptr[i]):
            Y[i] = Y[i] + X[indptr[i] + k] * V[cols[indptr[i] + k]]


@case
def sparse_product(rng: Any) -> Case:
    indptr = np.array([0, 3, 3, 6, 10, 11], "int32")
    cols, x, v = rng.integers(0, 8, 11).astype("int32"), floats(rng, 11), floats(rng, 8)
    y = np.array([np.dot(x[p:q], v[cols[p:q]]) for p, q in itertools.pairwise(indptr)], "float32")
    return Case(sparse_func, {"indptr": indptr, "cols": cols, "X": x, "V": v}, {"Y": y}, {})


@T.prim_func
def vectors_func(A: T.Buffer((32,), "float32"), B: T.Buffer((16,), "float32"), C: T.Buffer((8,), "float32")):
    for i in range(4):
        B[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 8, 2, 4)] * T.Broadcast(T.float32(2), 4)
    C[T.Ramp(0, 1, 8)] = B[T.Ramp(15, -1, 8)]
    B[T.Ramp(1, 1, 8)] = B[T.Ramp(0, 1, 8)]


@case
def ramps_and_broadcasts(rng: Any) -> Case:
    a = floats(rng, 32)
    b = a[::2] * np.float32(2)
    moved = b.copy()
    moved[1:9] = b[:8]
    return Case(vectors_func, {"A": a}, {"B": moved, "C": b[15:7:-1]}, {})


@T.prim_func
def branches_func(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32"), low: T.float32):
    for i in T.vectorized(16):
        if A[i] > low:
            B[i] = T.Select(i % 3 == 0, A[i], T.float32(0) - A[i])
        else:
            B[i] = T.if_then_else(i > 0, A[T.max(i - 1, 0)], T.float32(1))


@case
def branches_and_selections(rng: Any) -> Case:
    a, i, low = floats(rng, 16), np.arange(16), 0.25
    before = np.where(i > 0, a[np.maximum(i - 1, 0)], np.float32(1))
    expected = np.where(a > np.float32(low), np.where(i % 3 == 0, a, -a), before)
    return Case(branches_func, {"A": a}, {"B": expected}, {"low": low})


@T.prim_func
def assumption_func(A: T.Buffer((16,), "float32"), B: T.Buffer((4,), "float32")):
    for i in range(16):
        T.evaluate(T.assume(i < 14 or A[i] == T.float32(0)))
    for i in range(4):
        B[i] = T.float32(0)
        for j in range(4):
            B[i] = B[i] + A[i * 4 + j]


@case
def assumption(rng: Any) -> Case:
    a = floats(rng, 16)
    a[14:] = 0
    return Case(assumption_func, {"A": a}, {"B": a.reshape(4, 4).sum(1)}, {})


@T.prim_func(s_tir=True)
def strided_func(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, 6), "float32", strides=(8, 1), elem_offset=0)
    B = T.match_buffer(b, (n, 6), "float32")
    for i, j in T.grid(n, 6):
        with T.sblock("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, 5 - vj] + T.float32(1)


@case
def strided_buffer(rng: Any) -> Case:
    a = floats(rng, 5, 6)
    return Case(strided_func, {"A": a}, {"B": a[:, ::-1] + np.float32(1)}, {})


@T.prim_func(s_tir=True)
def parts_func(A: T.Buffer((8, 12), "float32"), B: T.Buffer((8, 12), "float32")):
    for i, j in T.grid(2, 3):
        with T.sblock("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
            T.writes(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
            X = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), strides=(12, 1), offset_factor=1)
            Y = T.match_buffer(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), strides=(12, 1), offset_factor=1)
            for y, x in T.grid(4, 4):
                Y[y, x] = X[x, y]


@case
def parts_of_buffers(rng: Any) -> Case:
    a = floats(rng, 8, 12)
    return Case(parts_func, {"A": a}, {"B": a.reshape(2, 4, 3, 4).transpose(0, 3, 2, 1).reshape(8, 12)}, {})


@T.prim_func
def names_func(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32"), C: T.Buffer((10,), "int32")):
    for i in range(10):
        x = T.bind(A[i] * T.float32(3))
        k = T.bind(i // 2 * 3)
        held = T.alloc_buffer((2,), "float32", scope="local")
        held[0] = x
        held[1] = x * x
        B[i] = held[k % 2] + T.exp(x)
        C[i] = T.Cast("int32", x) + k


@case
def names_and_local_storage(rng: Any) -> Case:
    a, i = floats(rng, 10), np.arange(10)
    x, k = a * np.float32(3), i // 2 * 3
    return Case(
        names_func,
        {"A": a},
        {"B": np.where(k % 2 == 1, x * x, x) + np.exp(x), "C": x.astype("int32") + k.astype("int32")},
        {},
    )


@T.prim_func
def steps_func(A: T.Buffer((20,), "float32"), B: T.Buffer((20,), "float32")):
    for i in range(20):
        B[i] = T.float32(0)
    for i in T.serial(1, 18, step=4):
        B[i] = A[i]


@case
def loop_with_steps(rng: Any) -> Case:
    a, b = floats(rng, 20), np.zeros(20, "float32")
    b[1:18:4] = a[1:18:4]
    return Case(steps_func, {"A": a}, {"B": b}, {})


@T.prim_func
def view_func(A: T.Buffer((4, 6), "float32"), B: T.Buffer((24,), "float32")):
    V = T.decl_buffer((24,), "float32", data=A.data)
    W = T.decl_buffer((3, 8), "float32", data=B.data)
    for i, j in T.grid(3, 8):
        W[i, j] = V[i * 8 + j] * T.float32(2)


@case
def views_of_buffers(rng: Any) -> Case:
    a = floats(rng, 4, 6)
    return Case(view_func, {"A": a}, {"B": a.ravel() * np.float32(2)}, {})


@T.prim_func
def float_functions_func(A: T.Buffer((12,), "float32"), B: T.Buffer((12, 6), "float32")):
    for i in range(12):
        B[i, 0] = T.tanh(A[i])
        B[i, 1] = T.sigmoid(A[i])
        B[i, 2] = T.floor(A[i]) + T.ceil(A[i]) - T.trunc(A[i])
        B[i, 3] = T.pow(T.abs(A[i]), T.float32(1.5))
        B[i, 4] = T.max(T.min(A[i], T.float32(0.5)), T.float32(-0.5))
        B[i, 5] = T.log(T.abs(A[i]) + T.float32(1)) + T.sin(A[i]) * T.cos(A[i])


@case
def float_functions(rng: Any) -> Case:
    a = floats(rng, 12)
    columns = [
        np.tanh(a), 1 / (1 + np.exp(-a)), np.floor(a) + np.ceil(a) - np.trunc(a), np.abs(a) ** 1.5,
        np.clip(a, -0.5, 0.5), np.log(np.abs(a) + 1) + np.sin(a) * np.cos(a),
    ]  # fmt: skip
    return Case(float_functions_func, {"A": a}, {"B": np.stack(columns, 1).astype("float32")}, {})


@T.prim_func
def halves_func(A: T.Buffer((8,), "float16"), B: T.Buffer((8,), "float64"), C: T.Buffer((8,), "bool")):
    for i in range(8):
        B[i] = T.Cast("float64", A[i]) * T.float64(3) + T.Cast("float64", i)
        C[i] = A[i] > T.float16(0) and i % 2 == 0


@case
def casts_and_truth_values(rng: Any) -> Case:
    a, i = rng.standard_normal(8).astype("float16"), np.arange(8)
    return Case(halves_func, {"A": a}, {"B": a.astype("float64") * 3 + i, "C": (a > 0) & (i % 2 == 0)}, {})


@T.prim_func
def lazy_func(A: T.Buffer((8,), "int32"), I: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.int32(0)
        if T.if_then_else(I[i] < 8, A[T.min(I[i], 7)] > 3, T.bool(False)):
            B[i] = T.if_then_else(I[i] != 0, A[i] // T.max(I[i], 1), -1)


@case
def lazy_conditions(rng: Any) -> Case:
    a, index = rng.integers(-20, 20, 8).astype("int32"), rng.integers(0, 12, 8).astype("int32")
    b = [
        (a[k] // max(index[k], 1) if index[k] else -1) if index[k] < 8 and a[min(index[k], 7)] > 3 else 0
        for k in range(8)
    ]
    return Case(lazy_func, {"A": a, "I": index}, {"B": np.array(b, "int32")}, {})


@case
def int64_indices(rng: Any) -> Case:
    n = te.var("n", "int64")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[n - 1 - i] * tvm.tirx.const(math.pi, "float32"), name="B")
    a = floats(rng, 11)
    return Case(te.create_prim_func([A, B]), {"A": a}, {"B": a[::-1] * np.float32(math.pi)}, {})


@T.prim_func
def ragged_func(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32"), m: T.int32, n: T.int32):
    for i in range(m):
        for j in range(i + 1):
            if i * n + j < 100:
                B[i * n + j] = A[i * n + j] * T.Cast("float32", i - j)


@case
def triangular_loops(rng: Any) -> Case:
    a, b = floats(rng, 100), np.zeros(100, "float32")
    for i in range(8):
        for j in range(i + 1):
            if i * 14 + j < 100:
                b[i * 14 + j] = a[i * 14 + j] * np.float32(i - j)
    return Case(ragged_func, {"A": a}, {"B": b}, {"m": 8, "n": 14})


@T.prim_func(s_tir=True)
def typed_func(
    A: T.Buffer((64,), "int8"),
    B: T.Buffer((64,), "int8"),
    S: T.Buffer((64,), "uint32"),
    C: T.Buffer((64,), "int8"),
    D: T.Buffer((64,), "int32"),
    E: T.Buffer((64,), "uint32"),
    F: T.Buffer((64,), "float32"),
):
    for i in range(64):
        with T.sblock("types"):
            v = T.axis.spatial(64, i)
            C[v] = T.max(A[v] + B[v], T.int8(0))
            D[v] = T.Cast("int32", A[v] * B[v]) + T.if_then_else(A[v] - B[v] < A[v], 1, 2)
            E[v] = T.shift_right(S[v] * T.uint32(1664525) + T.uint32(1013904223), T.uint32(16)) % T.uint32(10)
            F[v] = T.Cast("float32", A[v] - B[v])


@case
def typed_arithmetic(rng: Any) -> Case:
    """Operations on narrow integers wrap at each step."""
    a, b = (rng.integers(-128, 128, 64, "int8") for _ in range(2))
    s = rng.integers(0, 1 << 32, 64, "uint32")
    outputs = {
        "C": np.maximum(a + b, np.int8(0)),
        "D": (a * b).astype("int32") + np.where(a - b < a, 1, 2).astype("int32"),
        "E": (s * np.uint32(1664525) + np.uint32(1013904223) >> np.uint32(16)) % np.uint32(10),
        "F": (a - b).astype("float32"),
    }
    return Case(typed_func, {"A": a, "B": b, "S": s}, outputs, {}, True)

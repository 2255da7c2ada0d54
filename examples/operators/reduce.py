"""Reductions: sums and largest elements with their places, softmax, layer_norm, pooling.

On a GPU the threads of a block share a reduction: it is split by 32, also where fewer than 32 elements are reduced, and
`rfactor` gives each thread a part.
"""

from typing import Any

import numpy as np

from examples.operators.common import INJECTIVE, Operator, Tensors, generic, pad, thread_blocks
from lowering.tvm import te, tir

THREADS = 32


def total(data: te.Tensor) -> te.Tensor:
    """Sums of rows."""
    k = te.reduce_axis((0, data.shape[1]), "k")
    return te.compute((data.shape[0],), lambda i: te.sum(data[i, k], axis=k), name="total")


def total_of_planes(data: te.Tensor) -> te.Tensor:
    """Sums over the first and the last dimension."""
    i, k = te.reduce_axis((0, data.shape[0]), "i"), te.reduce_axis((0, data.shape[2]), "k")
    return te.compute((data.shape[1],), lambda j: te.sum(data[i, j, k], axis=[i, k]), name="total")


def _larger(x: Any, y: Any) -> Any:
    first = tir.any(x[1] > y[1], tir.all(x[1].equal(y[1]), x[0] < y[0]))
    return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])


_argmax = te.comm_reducer(_larger, lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)), name="argmax")


def argmax(data: te.Tensor) -> te.Tensor:
    """The place of the first largest element of each row."""
    k = te.reduce_axis((0, data.shape[1]), "k")
    places, _ = te.compute((data.shape[0],), lambda i: _argmax((k.var, data[i, k]), axis=k), name="pair")
    return te.compute((data.shape[0],), lambda i: places[i], name="place")


def rows_x86(outs: Tensors) -> te.Schedule:
    """Rows in parallel; eight partial results a row, by `rfactor`."""
    s = generic(outs)
    out = outs[0]
    reduced = _reduced(out)
    fused = s[reduced].fuse(*s[reduced].op.reduce_axis)
    _, lanes = s[reduced].split(fused, factor=8)
    partial = s.rfactor(reduced, lanes)
    first = partial[0] if isinstance(partial, (list, tuple)) else partial
    s[first].compute_at(s[reduced], s[reduced].op.axis[0])
    if reduced is not out:
        s[reduced].compute_at(s[out], out.op.axis[0])
    s[out].parallel(s[out].op.axis[0])
    return s


def rows_cuda(outs: Tensors) -> te.Schedule:
    """A block for 4 rows; 32 threads share a row."""
    s = generic(outs)
    out = outs[0]
    reduced = _reduced(out)
    fused = s[reduced].fuse(*s[reduced].op.reduce_axis)
    _, inner = s[reduced].split(fused, factor=THREADS)
    partial = s.rfactor(reduced, inner)
    first = partial[0] if isinstance(partial, (list, tuple)) else partial
    thread_x, thread_y = te.thread_axis((0, THREADS), "threadIdx.x"), te.thread_axis((0, 4), "threadIdx.y")
    (shared,) = s[reduced].op.reduce_axis
    s[reduced].bind(shared, thread_x)
    s[first].compute_at(s[reduced], shared)
    block, row = s[out].split(s[out].op.axis[0], factor=4)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].bind(row, thread_y)
    if reduced is not out:
        s[reduced].compute_at(s[out], row)
    s[out].set_store_predicate(thread_x.var.equal(0))
    return s


def _reduced(out: te.Tensor) -> te.Tensor:
    return out if out.op.reduce_axis else out.op.input_tensors[0]


def softmax(data: te.Tensor) -> te.Tensor:
    """Of each row."""
    m, n = data.shape
    k, q = te.reduce_axis((0, n), "k"), te.reduce_axis((0, n), "q")
    largest = te.compute((m,), lambda i: te.max(data[i, k], axis=k), name="largest")
    powers = te.compute((m, n), lambda i, j: te.exp(data[i, j] - largest[i]), name="powers")
    sums = te.compute((m,), lambda i: te.sum(powers[i, q], axis=q), name="sums")
    return te.compute((m, n), lambda i, j: powers[i, j] / sums[i], name="softmax")


def softmax_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    powers, sums = outs[0].op.input_tensors
    largest = powers.op.input_tensors[1]
    row, column = outs[0].op.axis
    for t in (largest, powers, sums):
        s[t].compute_at(s[outs[0]], row)
    s[outs[0]].vectorize(s[outs[0]].split(column, factor=8)[1])
    s[outs[0]].parallel(row)
    return s


def softmax_cuda(outs: Tensors) -> te.Schedule:
    """A block a row; the threads share the largest element, the sum and the row itself."""
    s = generic(outs)
    out = outs[0]
    powers, sums = out.op.input_tensors
    largest = powers.op.input_tensors[1]
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis((0, THREADS), "threadIdx.x")
    s[powers].bind(powers.op.axis[0], block)
    s[largest].bind(largest.op.axis[0], block)
    _, inner = s[sums].split(sums.op.reduce_axis[0], factor=THREADS)
    partial = s.rfactor(sums, inner)
    s[sums].bind(s[sums].op.axis[0], block)
    s[sums].bind(s[sums].op.reduce_axis[0], thread)
    s[partial].compute_at(s[sums], s[sums].op.reduce_axis[0])
    s[sums].set_store_predicate(thread.var.equal(0))
    row, column = out.op.axis
    tx, rest = s[out].split(column, nparts=THREADS)
    s[out].bind(row, block)
    s[out].bind(tx, thread)
    s[out].reorder(row, tx, rest)
    return s


def layer_norm(data: te.Tensor, scale: te.Tensor, shift: te.Tensor) -> te.Tensor:
    """Rows with mean 0 and variance 1, scaled and shifted; both moments in one pass over a row."""
    m, n = data.shape
    k = te.reduce_axis((0, n), "k")
    pair = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda t0, t1: (tir.const(0, t0), tir.const(0, t1)), name="pair"
    )
    first, second = te.compute((m,), lambda i: pair((data[i, k], data[i, k] * data[i, k]), axis=k), name="moments")

    def element(i: Any, j: Any) -> Any:
        mean = first[i] / n
        variance = second[i] / n - mean * mean
        return (data[i, j] - mean) * te.rsqrt(variance + tir.const(1e-5, "float32")) * scale[j] + shift[j]

    return te.compute((m, n), element, name="norm")


def _moments(out: te.Tensor) -> te.Tensor:
    return next(t for t in out.op.input_tensors if t.op.input_tensors)


def layer_norm_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    row, column = outs[0].op.axis
    s[_moments(outs[0])].compute_at(s[outs[0]], row)
    s[outs[0]].vectorize(s[outs[0]].split(column, factor=8)[1])
    s[outs[0]].parallel(row)
    return s


def layer_norm_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    moments = _moments(outs[0])
    row, column = outs[0].op.axis
    thread = te.thread_axis((0, THREADS), "threadIdx.x")
    _, inner = s[moments].split(moments.op.reduce_axis[0], factor=THREADS)
    partial, _ = s.rfactor(moments, inner)
    (shared,) = s[moments].op.reduce_axis
    s[moments].bind(shared, thread)
    s[partial].compute_at(s[moments], shared)
    s[moments].compute_at(s[outs[0]], row)
    s[outs[0]].bind(row, te.thread_axis("blockIdx.x"))
    _, tx = s[outs[0]].split(column, factor=THREADS)
    s[outs[0]].bind(tx, thread)
    return s


def max_pool(data: te.Tensor) -> te.Tensor:
    """The largest element of windows of 3 x 3, stride 2, padding 1."""
    n, c, h, w = data.shape
    low = float(np.finfo("float32").min)
    padded = pad(data, (0, 0, 1, 1), (0, 0, 1, 1), low)
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    return te.compute(
        (n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1),
        lambda b, f, i, j: te.max(padded[b, f, i * 2 + y, j * 2 + x], axis=[y, x]),
        name="pool",
    )


def avg_pool(data: te.Tensor) -> te.Tensor:
    """The mean of windows of 3 x 3, stride 2, padding 1; elements outside are not counted."""
    n, c, h, w = data.shape
    padded = pad(data, (0, 0, 1, 1), (0, 0, 1, 1))
    y, x = te.reduce_axis((0, 3), "y"), te.reduce_axis((0, 3), "x")
    sums = te.compute(
        (n, c, (h - 1) // 2 + 1, (w - 1) // 2 + 1),
        lambda b, f, i, j: te.sum(padded[b, f, i * 2 + y, j * 2 + x], axis=[y, x]),
        name="pool",
    )

    def mean(b: Any, f: Any, i: Any, j: Any) -> Any:
        rows = te.min(i * 2 + 2, h) - te.max(i * 2 - 1, 0)
        columns = te.min(j * 2 + 2, w) - te.max(j * 2 - 1, 0)
        return sums[b, f, i, j] / tir.Cast("float32", rows * columns)

    return te.compute(sums.shape, mean, name="mean", tag="elemwise")


def pool_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    pool = _reduced(outs[0])
    s[pool.op.input_tensors[0]].compute_inline()
    if pool is not outs[0]:
        s[pool].compute_at(s[outs[0]], outs[0].op.axis[2])
    s[outs[0]].parallel(s[outs[0]].fuse(*outs[0].op.axis[:2]))
    return s


def pool_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    pool = _reduced(out)
    s[pool.op.input_tensors[0]].compute_inline()
    if pool.op in s.outputs:
        held = s.cache_write(pool, "local")
    else:
        held = pool
        s[held].set_scope("local")
    s[held].compute_at(s[out], thread_blocks(s, out, 16))
    return s


def _windows(a: Any, value: float) -> Any:
    padded = np.pad(a, ((0, 0), (0, 0), (1, 2), (1, 2)), constant_values=value)
    h, w = (a.shape[2] - 1) // 2 + 1, (a.shape[3] - 1) // 2 + 1
    return np.stack([padded[:, :, y : y + 2 * h : 2, x : x + 2 * w : 2] for y in range(3) for x in range(3)])


def _softmax(a: Any) -> Any:
    powers = np.exp(a - a.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _layer_norm(a: Any, scale: Any, shift: Any) -> Any:
    centred = a - a.mean(axis=1, keepdims=True)
    return centred / np.sqrt(a.var(axis=1, keepdims=True) + 1e-5) * scale + shift


F = "float32"
ROWS = {"generic": generic, "x86": rows_x86, "cuda": rows_cuda}
POOL = {"generic": generic, "x86": pool_x86, "cuda": pool_cuda}
OPERATORS = {
    "sum": Operator(total, (((6, 70), F),), ((512, 512),), lambda a: a.sum(axis=1), ROWS),
    "sum_of_few": Operator(total, (((5, 7), F),), ((512, 7),), lambda a: a.sum(axis=1), ROWS),
    "sum_of_planes": Operator(total_of_planes, (((3, 5, 11), F),), ((16, 64, 64),), lambda a: a.sum(axis=(0, 2)), ROWS),
    "argmax": Operator(argmax, (((6, 21), F),), ((256, 256),), lambda a: a.argmax(axis=1), ROWS),
    "argmax_of_many": Operator(argmax, (((3, 75), F),), ((64, 1000),), lambda a: a.argmax(axis=1), ROWS),
    "softmax": Operator(
        softmax,
        (((4, 21), F),),
        ((128, 1000),),
        _softmax,
        {"generic": generic, "x86": softmax_x86, "cuda": softmax_cuda},
    ),
    "layer_norm": Operator(
        layer_norm,
        (((4, 21), F), ((21,), F), ((21,), F)),
        ((128, 512), (512,), (512,)),
        _layer_norm,
        {"generic": generic, "x86": layer_norm_x86, "cuda": layer_norm_cuda},
    ),
    "max_pool": Operator(
        max_pool, (((1, 3, 8, 7), F),), ((1, 64, 56, 56),), lambda a: _windows(a, -np.inf).max(axis=0), POOL
    ),
    "avg_pool": Operator(
        avg_pool,
        (((1, 3, 8, 7), F),),
        ((1, 64, 56, 56),),
        lambda a: _windows(a, 0).sum(axis=0) / _windows(np.ones_like(a), 0).sum(axis=0),
        POOL,
    ),
    "relu": Operator(
        lambda a: te.compute(a.shape, lambda *i: te.max(a(*i), tir.const(0, a.dtype)), name="relu"),
        (((3, 5, 9), F),),
        ((64, 56, 56),),
        lambda a: np.maximum(a, 0),
        INJECTIVE,
    ),
}

"""Dense layers and batches of matrix products."""

import numpy as np

from examples.operators.common import Operator, Tensors, generic
from lowering.tvm import te


def dense(data: te.Tensor, weight: te.Tensor, bias: te.Tensor) -> te.Tensor:
    """`data @ weight.T + bias`, over packed weights."""
    m, depth = data.shape
    n = weight.shape[0]
    packed = te.compute((n // 4, depth, 4), lambda x, y, v: weight[x * 4 + v, y], name="packed")
    k = te.reduce_axis((0, depth), "k")
    product = te.compute((m, n), lambda i, j: te.sum(data[i, k] * packed[j // 4, k, j % 4], axis=k), name="product")
    return te.compute((m, n), lambda i, j: product[i, j] + bias[j], name="out", tag="broadcast")


def dense_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    product = out.op.input_tensors[0]
    packed = product.op.input_tensors[1]
    yo, xo, _, xi = s[out].tile(*out.op.axis, 4, 4)
    s[out].parallel(s[out].fuse(yo, xo))
    s[out].vectorize(xi)
    s[product].compute_at(s[out], s[out].leaf_iter_vars[0])
    y, x = s[product].op.axis
    ko, ki = s[product].split(s[product].op.reduce_axis[0], factor=4)
    s[product].reorder(ko, ki, y, x)
    s[product].unroll(y)
    s[product].vectorize(x)
    s[packed].parallel(s[packed].op.axis[0])
    return s


def dense_cuda(outs: Tensors) -> te.Schedule:
    """A block an element; its threads share the reduction."""
    s = generic(outs)
    out = outs[0]
    product = out.op.input_tensors[0]
    s[product.op.input_tensors[1]].compute_inline()
    _, inner = s[product].split(s[product].op.reduce_axis[0], factor=32)
    partial = s.rfactor(product, inner)
    s[out].bind(out.op.axis[0], te.thread_axis("blockIdx.y"))
    s[out].bind(out.op.axis[1], te.thread_axis("blockIdx.x"))
    thread = te.thread_axis((0, 32), "threadIdx.x")
    s[product].bind(s[product].op.reduce_axis[0], thread)
    s[partial].compute_at(s[product], s[product].op.reduce_axis[0])
    s[product].compute_at(s[out], out.op.axis[1])
    s[product].set_store_predicate(thread.var.equal(0))
    s[out].set_store_predicate(thread.var.equal(0))
    return s


def batch_matmul(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """`a @ b.T` for each pair of a batch."""
    count, m, depth = a.shape
    k = te.reduce_axis((0, depth), "k")
    return te.compute((count, m, b.shape[1]), lambda n, i, j: te.sum(a[n, i, k] * b[n, j, k], axis=k), name="product")


def batch_matmul_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    held = s.cache_write(out, "global")
    n, y, x = s[out].op.axis
    yo, xo, yi, xi = s[out].tile(y, x, 4, 8)
    s[out].reorder(n, yo, xo, yi, xi)
    s[out].parallel(s[out].fuse(n, yo))
    s[out].vectorize(xi)
    s[held].compute_at(s[out], xo)
    _, y, x = s[held].op.axis
    ko, ki = s[held].split(s[held].op.reduce_axis[0], factor=4)
    s[held].reorder(ko, y, ki, x)
    s[held].vectorize(x)
    return s


def batch_matmul_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    a, b = out.op.input_tensors
    shared = [s.cache_read(t, "shared", [out]) for t in (a, b)]
    local = [s.cache_read(t, "local", [out]) for t in shared]
    held = s.cache_write(out, "local")
    n, y, x = s[out].op.axis
    by, yi = s[out].split(y, factor=8)
    bx, xi = s[out].split(x, factor=8)
    ty, yi = s[out].split(yi, nparts=4)
    tx, xi = s[out].split(xi, nparts=4)
    s[out].reorder(n, by, bx, ty, tx, yi, xi)
    threads = te.thread_axis((0, 4), "threadIdx.y"), te.thread_axis((0, 4), "threadIdx.x")
    for loop, tag in ((n, "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x")):
        s[out].bind(loop, te.thread_axis(tag))
    for loop, thread in zip((ty, tx), threads, strict=True):
        s[out].bind(loop, thread)
    s[held].compute_at(s[out], tx)
    _, yi, xi = s[held].op.axis
    ko, ki = s[held].split(s[held].op.reduce_axis[0], factor=8)
    s[held].reorder(ko, ki, yi, xi)
    for t in shared:
        s[t].compute_at(s[held], ko)
        _, y, k = s[t].op.axis
        ty, _ = s[t].split(y, nparts=4)
        tx, _ = s[t].split(k, nparts=4)
        s[t].reorder(ty, tx)
        s[t].bind(ty, threads[0])
        s[t].bind(tx, threads[1])
    for t in local:
        s[t].compute_at(s[held], ki)
    return s


F = "float32"
OPERATORS = {
    "dense": Operator(
        dense,
        (((5, 19), F), ((8, 19), F), ((8,), F)),
        ((64, 512), (512, 512), (512,)),
        lambda a, w, b: a @ w.T + b,
        {"generic": generic, "x86": dense_x86, "cuda": dense_cuda},
    ),
    "batch_matmul": Operator(
        batch_matmul,
        (((2, 9, 12), F), ((2, 10, 12), F)),
        ((8, 64, 64), (8, 64, 64)),
        lambda a, b: np.einsum("nik,njk->nij", a, b),
        {"generic": generic, "x86": batch_matmul_x86, "cuda": batch_matmul_cuda},
    ),
}

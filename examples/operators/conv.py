"""Convolutions: direct, grouped, depthwise, transposed, spatial pack, NCHWc, winograd."""

from typing import Any

import numpy as np

from examples.operators.common import Operator, Tensors, generic, pad, thread_blocks
from lowering.tvm import te, tir


def conv2d(data: te.Tensor, kernel: te.Tensor, stride: int = 1, padding: int = 1, groups: int = 1) -> te.Tensor:
    """A convolution of NCHW by OIHW, in groups of channels."""
    n, _, h, w = data.shape
    co, ci, kh, kw = kernel.shape
    around = (0, 0, padding, padding)
    padded = pad(data, around, around)
    rc, ry, rx = (te.reduce_axis((0, extent), name) for extent, name in ((ci, "rc"), (kh, "ry"), (kw, "rx")))
    each = co // groups  # output channels of a group

    def element(b: Any, f: Any, y: Any, x: Any) -> Any:
        channel = rc if groups == 1 else f // each * ci + rc
        read = padded[b, channel, y * stride + ry, x * stride + rx]
        return te.sum(read * kernel[f, rc, ry, rx], axis=[rc, ry, rx])

    shape = (n, co, (h + 2 * padding - kh) // stride + 1, (w + 2 * padding - kw) // stride + 1)
    return te.compute(shape, element, name="conv", tag="conv2d")


def depthwise(data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
    """A convolution of each channel with its own filters, stride 2."""
    n, c, h, w = data.shape
    _, multiplier, kh, kw = kernel.shape
    padded = pad(data, (0, 0, 1, 1), (0, 0, 1, 1))
    ry, rx = te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    return te.compute(
        (n, c * multiplier, (h + 2 - kh) // 2 + 1, (w + 2 - kw) // 2 + 1),
        lambda b, f, y, x: te.sum(
            padded[b, tir.indexdiv(f, multiplier), y * 2 + ry, x * 2 + rx]
            * kernel[tir.indexdiv(f, multiplier), tir.indexmod(f, multiplier), ry, rx],
            axis=[ry, rx],
        ),
        name="conv",
    )


def transposed(data: te.Tensor, kernel: te.Tensor, stride: int = 2, padding: int = 1) -> te.Tensor:
    """The transposed convolution of NCHW by IOHW: the input is spread out, and the kernel turned."""
    n, ci, h, w = data.shape
    _, co, kh, kw = kernel.shape
    by, bx = int(kh) - 1 - padding, int(kw) - 1 - padding
    spread = te.compute(
        (n, ci, (h - 1) * stride + 1 + 2 * by, (w - 1) * stride + 1 + 2 * bx),
        lambda b, c, y, x: tir.if_then_else(
            tir.all(
                y >= by,
                y < (h - 1) * stride + 1 + by,
                x >= bx,
                x < (w - 1) * stride + 1 + bx,
                tir.indexmod(y - by, stride).equal(0),
                tir.indexmod(x - bx, stride).equal(0),
            ),
            data[b, c, tir.indexdiv(y - by, stride), tir.indexdiv(x - bx, stride)],
            tir.const(0.0, data.dtype),
        ),
        name="pad",
        tag="injective",
    )
    turned = te.compute(
        (co, ci, kh, kw), lambda o, i, y, x: kernel[i, o, kh - 1 - y, kw - 1 - x], name="turned", tag="injective"
    )
    rc, ry, rx = te.reduce_axis((0, ci), "rc"), te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    return te.compute(
        (n, co, (h - 1) * stride + kh - 2 * padding, (w - 1) * stride + kw - 2 * padding),
        lambda b, f, y, x: te.sum(spread[b, rc, y + ry, x + rx] * turned[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="conv",
    )


def conv_x86(outs: Tensors) -> te.Schedule:
    """Rows in parallel; the innermost loop runs along a row."""
    s = generic(outs)
    conv = outs[0]
    padded, kernel = conv.op.input_tensors
    n, f, y, x = s[conv].op.axis
    xo, xi = s[conv].split(x, factor=8)
    s[conv].reorder(n, f, y, xo, *s[conv].op.reduce_axis, xi)
    s[conv].vectorize(xi)
    s[conv].parallel(s[conv].fuse(n, f))
    s[padded].compute_at(s[conv], y)
    if kernel.op.input_tensors:
        s[kernel].compute_inline()
    return s


def conv_cuda(outs: Tensors) -> te.Schedule:
    """Tiles by blocks, with virtual threads; the threads of a block fetch tiles of both inputs into shared memory."""
    s = generic(outs)
    conv = outs[0]
    padded, kernel = conv.op.input_tensors
    s[padded].compute_inline()
    if kernel.op.input_tensors:
        s[kernel].compute_inline()
    local = s.cache_write(conv, "local")
    caches = [s.cache_read(padded, "shared", [local]), s.cache_read(kernel, "shared", [local])]

    n, f, y, x = s[conv].op.axis
    bf, vf, tf = _tiled(s, conv, f, 2, 2)
    by, vy, ty = _tiled(s, conv, y, 1, 2)
    bx, vx, tx = _tiled(s, conv, x, 1, 4)
    s[conv].reorder(n, bf, by, bx, vf, vy, vx, tf, ty, tx)
    for loop, tag in ((s[conv].fuse(n, bf), "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x")):
        s[conv].bind(loop, te.thread_axis(tag))
    for loop in (vf, vy, vx):
        s[conv].bind(loop, te.thread_axis("vthread"))
    for loop, tag in ((tf, "threadIdx.z"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s[conv].bind(loop, te.thread_axis(tag))

    s[local].compute_at(s[conv], tx)
    first, *rest = s[local].op.reduce_axis
    outer, inner = s[local].split(first, factor=2)
    s[local].reorder(outer, inner, *rest, *s[local].op.axis)
    for cache in caches:
        s[cache].compute_at(s[local], outer)
        fused = s[cache].fuse(*s[cache].op.axis)
        for tag, count in (("threadIdx.x", 4), ("threadIdx.y", 2), ("threadIdx.z", 2)):
            fused, thread = s[cache].split(fused, factor=count)
            s[cache].bind(thread, te.thread_axis(tag))
    return s


def _tiled(s: te.Schedule, t: te.Tensor, axis: te.IterVar, virtual: int, threads: int) -> tuple[te.IterVar, ...]:
    block, rest = s[t].split(axis, factor=virtual * threads)
    return (block, *s[t].split(rest, factor=threads))


TILE = (2, 2, 4)  # rows, columns and channels of a packed tile


def spatial_pack(data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
    """A convolution by tiles of the output, over inputs that are packed for them."""
    n, ci, h, w = data.shape
    co, _, kh, kw = kernel.shape
    vh, vw, vc = TILE
    padded = pad(data, (0, 0, 1, 1), (0, 0, 1, 1))
    tiles = te.compute(
        (n, h // vh, w // vw, ci, vh + kh - 1, vw + kw - 1),
        lambda b, y, x, c, r, q: padded[b, c, y * vh + r, x * vw + q],
        name="data_vec",
    )
    packed = te.compute(
        (co // vc, ci, kh, kw, vc), lambda o, c, y, x, v: kernel[o * vc + v, c, y, x], name="kernel_vec"
    )
    rc, ry, rx = te.reduce_axis((0, ci), "rc"), te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    conv = te.compute(
        (n, co // vc, h // vh, w // vw, vh, vw, vc),
        lambda b, o, y, x, r, q, v: te.sum(
            tiles[b, y, x, rc, r + ry, q + rx] * packed[o, rc, ry, rx, v], axis=[rc, ry, rx]
        ),
        name="conv",
    )
    return te.compute(
        (n, co, h, w), lambda b, f, y, x: conv[b, f // vc, y // vh, x // vw, y % vh, x % vw, f % vc], name="unpacked"
    )


def spatial_pack_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    (conv,) = out.op.input_tensors
    tiles, packed = conv.op.input_tensors
    (padded,) = tiles.op.input_tensors
    s[padded].compute_inline()
    n, f, y, x = s[out].op.axis
    yo, xo, yi, xi = s[out].tile(y, x, TILE[0], TILE[1])
    fo, fi = s[out].split(f, factor=TILE[2])
    s[out].reorder(n, fo, yo, xo, yi, xi, fi)
    s[out].parallel(fo)
    s[conv].compute_at(s[out], xo)
    *_, r, q, v = s[conv].op.axis
    rc, ry, rx = s[conv].op.reduce_axis
    s[conv].reorder(rc, ry, rx, r, q, v)
    s[conv].unroll(q)
    s[conv].vectorize(v)
    s[tiles].parallel(s[tiles].op.axis[1])
    s[packed].parallel(s[packed].op.axis[0])
    return s


def spatial_pack_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    out = outs[0]
    (conv,) = out.op.input_tensors
    tiles, packed = conv.op.input_tensors
    s[tiles.op.input_tensors[0]].compute_inline()
    s[tiles].compute_inline()
    s[packed].compute_inline()
    thread_blocks(s, conv, 32)
    thread_blocks(s, out)
    return s


BLOCK = 4  # channels of a block


def conv2d_nchwc(data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
    """A convolution of NCHWc by OIHWio: the innermost dimension is a block of channels."""
    n, chunks, h, w, block = data.shape
    co, _, kh, kw, _, lanes = kernel.shape
    around = (0, 0, 1, 1, 0)
    padded = pad(data, around, around)
    rc = te.reduce_axis((0, chunks * block), "rc")
    ry, rx = te.reduce_axis((0, kh), "ry"), te.reduce_axis((0, kw), "rx")
    return te.compute(
        (n, co, h, w, lanes),
        lambda b, o, y, x, v: te.sum(
            padded[b, tir.indexdiv(rc, BLOCK), y + ry, x + rx, tir.indexmod(rc, BLOCK)]
            * kernel[o, tir.indexdiv(rc, BLOCK), ry, rx, tir.indexmod(rc, BLOCK), v],
            axis=[rc, ry, rx],
        ),
        name="conv",
    )


def nchwc_x86(outs: Tensors) -> te.Schedule:
    """Registers hold a row of blocks while the reduction runs."""
    s = generic(outs)
    conv = outs[0]
    padded = conv.op.input_tensors[0]
    s[padded].parallel(s[padded].fuse(*s[padded].op.axis[:3]))
    held = s.cache_write(conv, "global")
    n, o, y, x, v = s[conv].op.axis
    xo, xi = s[conv].split(x, factor=4)
    s[conv].reorder(n, o, y, xo, xi, v)
    s[conv].vectorize(v)
    s[conv].parallel(s[conv].fuse(n, o, y))
    s[held].compute_at(s[conv], xo)
    _, _, _, x, v = s[held].op.axis
    rc, ry, rx = s[held].op.reduce_axis
    ro, ri = s[held].split(rc, factor=BLOCK)
    s[held].reorder(ro, ry, rx, ri, x, v)
    s[held].unroll(x)
    s[held].vectorize(v)
    return s


def nchwc_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    s[outs[0].op.input_tensors[0]].compute_inline()
    local = s.cache_write(outs[0], "local")
    s[local].compute_at(s[outs[0]], thread_blocks(s, outs[0], 32))
    return s


# F(2x2, 3x3): outputs of 2 x 2 from tiles of 4 x 4
_A = np.array([[1, 0], [1, 1], [1, -1], [0, -1]], "float32")
_B = np.array([[1, 0, 0, 0], [0, 1, -1, 1], [-1, 1, 1, 0], [0, 0, 0, -1]], "float32")
_G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], "float32")


def constant_matrix(values: Any, name: str) -> te.Tensor:
    """A matrix of numbers, as selections."""

    def element(i: Any, j: Any) -> Any:
        chosen: Any = tir.const(0.0, "float32")
        for (r, c), value in np.ndenumerate(values):
            chosen = tir.Select(tir.all(i.equal(r), j.equal(c)), tir.const(float(value), "float32"), chosen)
        return chosen

    return te.compute(values.shape, element, name=name)


def winograd(data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
    """A convolution by 3 x 3 in the transformed domain."""
    n, ci, h, w = data.shape
    co = kernel.shape[0]
    rows, columns = h // 2, w // 2
    count = n * rows * columns
    padded = pad(data, (0, 0, 1, 1), (0, 0, 1, 1))
    a, b, g = constant_matrix(_A, "A"), constant_matrix(_B, "B"), constant_matrix(_G, "G")
    p, q = te.reduce_axis((0, 3), "p"), te.reduce_axis((0, 3), "q")
    filters = te.compute(
        (4, 4, ci, co), lambda e, f, c, o: te.sum(kernel[o, c, p, q] * g[e, p] * g[f, q], axis=[p, q]), name="filters"
    )
    tiles = te.compute(
        (ci, count, 4, 4),
        lambda c, t, e, f: padded[t // (rows * columns), c, t // columns % rows * 2 + e, t % columns * 2 + f],
        name="tiles",
    )
    u, v = te.reduce_axis((0, 4), "u"), te.reduce_axis((0, 4), "v")
    inputs = te.compute(
        (4, 4, ci, count), lambda e, f, c, t: te.sum(tiles[c, t, u, v] * b[u, e] * b[v, f], axis=[u, v]), name="inputs"
    )
    rc = te.reduce_axis((0, ci), "rc")
    product = te.compute(
        (4, 4, co, count),
        lambda e, f, o, t: te.sum(filters[e, f, rc, o] * inputs[e, f, rc, t], axis=rc),
        name="product",
    )
    i, j = te.reduce_axis((0, 4), "i"), te.reduce_axis((0, 4), "j")
    inverse = te.compute(
        (co, count, 2, 2),
        lambda o, t, y, x: te.sum(product[i, j, o, t] * a[i, y] * a[j, x], axis=[i, j]),
        name="inverse",
    )
    return te.compute(
        (n, co, h, w),
        lambda m, o, y, x: inverse[o, m * rows * columns + y // 2 * columns + x // 2, y % 2, x % 2],
        name="output",
    )


def _winograd_stages(out: te.Tensor) -> tuple[te.Tensor, ...]:
    (inverse,) = out.op.input_tensors
    product, a = inverse.op.input_tensors
    filters, inputs = product.op.input_tensors
    tiles, b = inputs.op.input_tensors
    return inverse, product, filters, inputs, tiles, a, b, filters.op.input_tensors[1], tiles.op.input_tensors[0]


def winograd_x86(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    inverse, product, filters, inputs, tiles, a, b, g, padded = _winograd_stages(outs[0])
    for t in (a, b, g, padded, tiles):
        s[t].compute_inline()
    for t in (filters, inputs):
        e, f, c, o = s[t].op.axis
        s[t].reorder(c, o, e, f, *s[t].op.reduce_axis)
        s[t].parallel(c)
    e, f, o, t = s[product].op.axis
    to, ti = s[product].split(t, factor=8)
    s[product].reorder(e, f, o, to, s[product].op.reduce_axis[0], ti)
    s[product].vectorize(ti)
    s[product].parallel(s[product].fuse(e, f))
    n, o, y, x = s[outs[0]].op.axis
    _, xo, _, _ = s[outs[0]].tile(y, x, 2, 2)
    s[inverse].compute_at(s[outs[0]], xo)
    s[outs[0]].parallel(s[outs[0]].fuse(n, o))
    return s


def winograd_cuda(outs: Tensors) -> te.Schedule:
    s = generic(outs)
    inverse, product, filters, inputs, tiles, a, b, g, padded = _winograd_stages(outs[0])
    for t in (a, b, g, padded):
        s[t].compute_inline()
    local = s.cache_write(inputs, "local")
    e, f, c, t = s[inputs].op.axis
    block, thread = s[inputs].split(s[inputs].fuse(c, t), factor=32)
    s[inputs].reorder(block, thread, e, f)
    s[inputs].bind(block, te.thread_axis("blockIdx.x"))
    s[inputs].bind(thread, te.thread_axis("threadIdx.x"))
    s[local].compute_at(s[inputs], thread)
    s[tiles].compute_at(s[inputs], thread)
    thread_blocks(s, filters, 32)
    held = s.cache_write(product, "local")
    caches = [s.cache_read(x, "shared", [held]) for x in (filters, inputs)]
    e, f, o, t = s[product].op.axis
    oo, to, oi, ti = s[product].tile(o, t, 4, 8)
    loops = ((s[product].fuse(e, f), "blockIdx.z"), (oo, "blockIdx.y"), (to, "blockIdx.x"))
    for loop, tag in (*loops, (oi, "threadIdx.y"), (ti, "threadIdx.x")):
        s[product].bind(loop, te.thread_axis(tag))
    s[held].compute_at(s[product], ti)
    ko, _ = s[held].split(s[held].op.reduce_axis[0], factor=2)
    for cache in caches:
        s[cache].compute_at(s[held], ko)
        fused, tx = s[cache].split(s[cache].fuse(*s[cache].op.axis), factor=8)
        _, ty = s[cache].split(fused, factor=4)
        s[cache].bind(ty, te.thread_axis("threadIdx.y"))
        s[cache].bind(tx, te.thread_axis("threadIdx.x"))
    n, o, y, x = s[outs[0]].op.axis
    yo, xo, *_ = s[outs[0]].tile(y, x, 2, 2)
    block, thread = s[outs[0]].split(s[outs[0]].fuse(n, o, yo, xo), factor=16)
    s[outs[0]].bind(block, te.thread_axis("blockIdx.x"))
    s[outs[0]].bind(thread, te.thread_axis("threadIdx.x"))
    s[inverse].compute_at(s[outs[0]], thread)
    return s


def reference(a: Any, w: Any, stride: int = 1, padding: int = 1, groups: int = 1) -> Any:
    """The convolution by numpy."""
    a = np.pad(a, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    (n, _, h, v), (co, each, kh, kw) = a.shape, w.shape
    oh, ow = (h - kh) // stride + 1, (v - kw) // stride + 1
    out = np.zeros((n, co, oh, ow), a.dtype)
    for f in range(co):
        first = f // (co // groups) * each
        for y in range(kh):
            for x in range(kw):
                part = a[:, first : first + each, y : y + oh * stride : stride, x : x + ow * stride : stride]
                out[:, f] += np.einsum("bchw,c->bhw", part, w[f, :, y, x])
    return out


def transposed_reference(a: Any, w: Any) -> Any:
    """Each input pixel adds a kernel to the output."""
    (n, _, h, v), (_, co, kh, kw) = a.shape, w.shape
    out = np.zeros((n, co, (h - 1) * 2 + kh, (v - 1) * 2 + kw), a.dtype)
    for y in range(h):
        for x in range(v):
            out[:, :, y * 2 : y * 2 + kh, x * 2 : x * 2 + kw] += np.einsum("bc,cokl->bokl", a[:, :, y, x], w)
    return out[:, :, 1:-1, 1:-1]


def nchwc_reference(a: Any, w: Any) -> Any:
    n, chunks, h, v, block = a.shape
    co, _, kh, kw, _, lanes = w.shape
    plain = a.transpose(0, 1, 4, 2, 3).reshape(n, chunks * block, h, v)
    kernel = w.transpose(0, 5, 1, 4, 2, 3).reshape(co * lanes, chunks * block, kh, kw)
    return reference(plain, kernel).reshape(n, co, lanes, h, v).transpose(0, 1, 3, 4, 2)


F = "float32"
CONV = {"generic": generic, "x86": conv_x86, "cuda": conv_cuda}
OPERATORS = {
    "conv2d": Operator(
        conv2d, (((1, 4, 7, 8), F), ((6, 4, 3, 3), F)), ((1, 64, 56, 56), (64, 64, 3, 3)), reference, CONV
    ),
    "conv2d_strided": Operator(
        lambda a, w: conv2d(a, w, stride=2, padding=2),
        (((2, 3, 9, 8), F), ((4, 3, 5, 5), F)),
        ((1, 3, 224, 224), (64, 3, 5, 5)),
        lambda a, w: reference(a, w, stride=2, padding=2),
        CONV,
    ),
    "conv2d_grouped": Operator(
        lambda a, w: conv2d(a, w, groups=2),
        (((1, 4, 6, 6), F), ((6, 2, 3, 3), F)),
        ((1, 64, 28, 28), (64, 32, 3, 3)),
        lambda a, w: reference(a, w, groups=2),
        CONV,
    ),
    "depthwise_conv2d": Operator(
        depthwise,
        (((1, 4, 8, 8), F), ((4, 2, 3, 3), F)),
        ((1, 64, 56, 56), (64, 1, 3, 3)),
        lambda a, w: reference(a, w.reshape(-1, 1, *w.shape[2:]), stride=2, groups=a.shape[1]),
        CONV,
    ),
    "conv2d_transposed": Operator(
        transposed,
        (((1, 3, 5, 4), F), ((3, 4, 4, 4), F)),
        ((1, 32, 14, 14), (32, 32, 4, 4)),
        transposed_reference,
        CONV,
    ),
    "conv2d_spatial_pack": Operator(
        spatial_pack,
        (((1, 3, 6, 8), F), ((8, 3, 3, 3), F)),
        ((1, 64, 28, 28), (64, 64, 3, 3)),
        reference,
        {"generic": generic, "x86": spatial_pack_x86, "cuda": spatial_pack_cuda},
    ),
    "conv2d_nchwc": Operator(
        conv2d_nchwc,
        (((1, 2, 5, 6, 4), F), ((2, 2, 3, 3, 4, 4), F)),
        ((1, 16, 28, 28, 4), (16, 16, 3, 3, 4, 4)),
        nchwc_reference,
        {"generic": generic, "x86": nchwc_x86, "cuda": nchwc_cuda},
    ),
    "conv2d_winograd": Operator(
        winograd,
        (((1, 4, 6, 8), F), ((5, 4, 3, 3), F)),
        ((1, 32, 28, 28), (32, 32, 3, 3)),
        reference,
        {"generic": generic, "x86": winograd_x86, "cuda": winograd_cuda},
    ),
}

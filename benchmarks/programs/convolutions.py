"""Convolutions 3 x 3 with a border of zeros: direct, Winograd F(2, 3), depthwise, and a residual block."""

from collections.abc import Sequence
from typing import Any

from benchmarks.programs.program import Built, Program, threaded
from bound import te, tir

CHANNELS, SIDE = 32, 56


def padded(data: Any, name: str = "padded") -> Any:
    """The channels of an image with a border of one zero."""
    channels, height, width = data.extents

    def at(c: Any, y: Any, x: Any) -> Any:
        is_inside = tir.all(y >= 1, y < height + 1, x >= 1, x < width + 1)
        return tir.if_then_else(is_inside, data[c, y - 1, x - 1], tir.const(0.0, "float32"))

    return te.compute((channels, height + 2, width + 2), at, name=name)


def convolved(pad: Any, weights: Any, name: str = "conv") -> Any:
    count, channels = weights.extents[:2]
    height, width = pad.extents[1] - 2, pad.extents[2] - 2
    c, ry, rx = (te.reduce_axis((0, n), axis) for n, axis in ((channels, "c"), (3, "ry"), (3, "rx")))
    return te.compute(
        (count, height, width),
        lambda k, y, x: te.sum(pad[c, y + ry, x + rx] * weights[k, c, ry, rx], axis=[c, ry, rx]),
        name=name,
    )


def conv2d(where: str, parallel: bool) -> Built:
    """Direct: what is padded is stored as a whole ("root"), for four rows ("rows"), or read in place ("inline")."""
    data = te.placeholder((CHANNELS, SIDE, SIDE), name="data")
    weights = te.placeholder((CHANNELS, CHANNELS, 3, 3), name="weights")
    pad = padded(data)
    conv = convolved(pad, weights)
    s = te.create_schedule(conv.op)
    k, y, x = conv.op.axis
    c, ry, rx = conv.op.reduce_axis
    if where == "rows":
        yo, yi = s[conv].split(y, 4)
        s[conv].reorder(yo, k, yi, c, ry, rx, x)
        s[pad].compute_at(s[conv], yo)
        threaded(s[conv], yo, parallel)
    else:
        s[conv].reorder(k, y, c, ry, rx, x)
        threaded(s[conv], k, parallel)
        if where == "inline":
            s[pad].compute_inline()
    s[conv].unroll(rx)
    s[conv].vectorize(x)
    return Built(s, (data, weights, conv))


def depthwise(where: str, parallel: bool) -> Built:
    """Each channel with a filter of its own; what is padded is stored channel by channel, or read in place."""
    channels, side = 128, 112
    data = te.placeholder((channels, side, side), name="data")
    weights = te.placeholder((channels, 3, 3), name="weights")
    pad = padded(data)
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    conv = te.compute(
        (channels, side, side),
        lambda c, y, x: te.sum(pad[c, y + ry, x + rx] * weights[c, ry, rx], axis=[ry, rx]),
        name="conv",
    )
    s = te.create_schedule(conv.op)
    c, y, x = conv.op.axis
    s[conv].reorder(c, y, ry, rx, x)
    s[conv].unroll(ry)
    s[conv].unroll(rx)
    s[conv].vectorize(x)
    if where == "inline":
        s[pad].compute_inline()
    else:
        s[pad].compute_at(s[conv], c)
    threaded(s[conv], c, parallel)
    return Built(s, (data, weights, conv))


def residual(parallel: bool) -> Built:
    """relu(x + conv(relu(conv(x) + b1)) + b2), the first convolution for seven rows of the second at a time."""
    data = te.placeholder((CHANNELS, SIDE, SIDE), name="data")
    first, second = (te.placeholder((CHANNELS, CHANNELS, 3, 3), name=name) for name in ("w1", "w2"))
    b1, b2 = (te.placeholder((CHANNELS,), name=name) for name in ("b1", "b2"))
    zero = tir.const(0.0, "float32")
    conv1 = convolved(padded(data, "pad1"), first, "conv1")
    relu1 = te.compute(conv1.extents, lambda k, y, x: tir.max(conv1[k, y, x] + b1[k], zero), name="relu1")
    pad2 = padded(relu1, "pad2")
    conv2 = convolved(pad2, second, "conv2")
    out = te.compute(conv2.extents, lambda k, y, x: tir.max(conv2[k, y, x] + b2[k] + data[k, y, x], zero), name="out")
    s = te.create_schedule(out.op)
    k, y, x = out.op.axis
    yo, yi = s[out].split(y, 7)
    s[out].reorder(yo, k, yi, x)
    s[out].vectorize(x)
    threaded(s[out], yo, parallel)
    for conv in (conv1, conv2):
        s[conv].compute_at(s[out], yo)
        k, y, x = conv.op.axis
        c, ry, rx = conv.op.reduce_axis
        s[conv].reorder(k, y, c, ry, rx, x)
        s[conv].unroll(rx)
        s[conv].vectorize(x)
    s[pad2].compute_at(s[out], yo)
    s[relu1].compute_inline()
    s[conv1.op.input_tensors[0]].compute_at(s[out], yo)
    return Built(s, (data, first, b1, second, b2, out))


B = ((1, 0, 0, 0), (0, 1, -1, 1), (-1, 1, 1, 0), (0, 0, 0, -1))  # of the data, [from][to]
G = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))  # of the filters, [to][from]
A = ((1, 0), (1, 1), (1, -1), (0, -1))  # of the products, [from][to]


def matrix(rows: Sequence[Sequence[float]], name: str) -> Any:
    """A constant matrix as schedules write it: selections inside one another."""

    def at(i: Any, j: Any) -> Any:
        now: Any = tir.const(0.0, "float32")
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                now = tir.Select(tir.all(i % len(rows) == r, j % len(row) == c), tir.const(value, "float32"), now)
        return now

    return te.compute((len(rows), len(rows[0])), at, name=name)


def winograd(unrolled: bool, parallel: bool) -> Built:
    """F(2, 3): filters, tiles of the data, their products and what comes out of them, each a stage by itself."""
    across = SIDE // 2
    data = te.placeholder((CHANNELS, SIDE, SIDE), name="data")
    weights = te.placeholder((CHANNELS, CHANNELS, 3, 3), name="weights")
    pad = padded(data)
    b, g, a = matrix(B, "B"), matrix(G, "G"), matrix(A, "A")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    u = te.compute(
        (4, 4, CHANNELS, CHANNELS),
        lambda i, j, k, c: te.sum(weights[k, c, ry, rx] * g[i, ry] * g[j, rx], axis=[ry, rx]),
        name="U",
    )
    m, n = te.reduce_axis((0, 4), "m"), te.reduce_axis((0, 4), "n")
    v = te.compute(
        (4, 4, CHANNELS, across, across),
        lambda i, j, c, p, q: te.sum(pad[c, p * 2 + m, q * 2 + n] * b[m, i] * b[n, j], axis=[m, n]),
        name="V",
    )
    c = te.reduce_axis((0, CHANNELS), "c")
    product = te.compute(
        (4, 4, CHANNELS, across, across),
        lambda i, j, k, p, q: te.sum(u[i, j, k, c] * v[i, j, c, p, q], axis=c),
        name="M",
    )
    o, r = te.reduce_axis((0, 4), "o"), te.reduce_axis((0, 4), "r")
    back = te.compute(
        (CHANNELS, across, across, 2, 2),
        lambda k, p, q, y, x: te.sum(product[o, r, k, p, q] * a[o, y] * a[r, x], axis=[o, r]),
        name="Y",
    )
    out = te.compute((CHANNELS, SIDE, SIDE), lambda k, y, x: back[k, y // 2, x // 2, y % 2, x % 2], name="out")
    s = te.create_schedule(out.op)
    for table in (b, g, a):
        s[table].compute_inline()
    i, j, k, ch = u.op.axis
    s[u].reorder(k, ch, i, j, ry, rx)
    i, j, ch, p, q = v.op.axis
    s[v].reorder(ch, p, q, i, j, m, n)
    threaded(s[v], ch, parallel)
    i, j, k, p, q = product.op.axis
    pq = s[product].fuse(p, q)
    s[product].reorder(i, j, k, c, pq)
    s[product].vectorize(pq)
    threaded(s[product], i, parallel)
    k, y, x = out.op.axis
    yo, yi = s[out].split(y, 2)
    xo, xi = s[out].split(x, 2)
    s[out].reorder(k, yo, xo, yi, xi)
    s[back].compute_at(s[out], xo)
    _, _, _, by, bx = back.op.axis
    threaded(s[out], k, parallel)
    if unrolled:
        i, j = u.op.axis[:2]
        for stage, axes in ((u, (i, j, ry, rx)), (v, (*v.op.axis[:2], m, n)), (back, (by, bx, o, r)), (out, (yi, xi))):
            for axis in axes:
                s[stage].unroll(axis)
    return Built(s, (data, weights, out))


PROGRAMS = {
    "conv2d": Program(lambda p: conv2d("root", p), "conv2d", scales=True),
    "conv2d-rows": Program(lambda p: conv2d("rows", p), "conv2d", ("-DROWS",)),
    "conv2d-inline": Program(lambda p: conv2d("inline", p), "conv2d", ("-DINLINE",)),
    "depthwise": Program(lambda p: depthwise("channel", p), "depthwise"),
    "depthwise-inline": Program(lambda p: depthwise("inline", p), "depthwise", ("-DINLINE",)),
    "residual": Program(residual, "residual"),
    "winograd": Program(lambda p: winograd(True, p), "winograd"),
    "winograd-rolled": Program(lambda p: winograd(False, p), "winograd"),
}

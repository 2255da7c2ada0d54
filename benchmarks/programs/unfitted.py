"""Programs of other shapes than those whose times the weights of `lowering.forms` were fitted to: what is read has gaps
or corners, comes from data, is padded, turned or wrapped, and tiles do not divide what they tile.
"""

from collections.abc import Callable
from typing import Any, Final

from bound import te, tir
from bound.schedule import Schedule


def _tiled(s: Schedule, t: Any, height: int, width: int) -> Any:
    """The loop over the tiles of the last two axes."""
    y, x = t.op.axis[-2:]
    _, xo, _, _ = s[t].tile(y, x, height, width)
    return xo


def strided_convolution() -> Schedule:
    """Stride 4, kernel 2: half of the padded rows and columns are not read."""
    a = te.placeholder((8, 1030, 1030), name="A")
    w = te.placeholder((8, 8, 2, 2), name="W")
    p = te.compute(
        (8, 1032, 1032),
        lambda c, y, x: tir.if_then_else(
            tir.all(y >= 1, y < 1031, x >= 1, x < 1031), a[c, y - 1, x - 1] * 0.5 + 1.0, 0.0
        ),
        name="P",
    )
    rc, ry, rx = (te.reduce_axis((0, n), name) for n, name in ((8, "rc"), (2, "ry"), (2, "rx")))
    c = te.compute(
        (8, 258, 258),
        lambda f, y, x: te.sum(p[rc, 4 * y + ry, 4 * x + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]),
        name="C",
    )
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], _tiled(s, c, 16, 64))
    return s


def dilated_convolution() -> Schedule:
    """Taps 3 apart, in tiles that do not divide the image."""
    a = te.placeholder((1006, 1006), name="A")
    w = te.placeholder((3, 3), name="W")
    p = te.compute((1006, 1006), lambda y, x: a[y, x] * a[y, x] + 0.5, name="P")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    c = te.compute((1000, 1000), lambda y, x: te.sum(p[y + 3 * ry, x + 3 * rx] * w[ry, rx], axis=[ry, rx]), name="C")
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], _tiled(s, c, 24, 56))
    return s


def padded_pooling() -> Schedule:
    """The largest of 3x3 with stride 2 and padding, in ragged tiles."""
    a = te.placeholder((16, 511, 511), name="A")
    p = te.compute(
        (16, 513, 513),
        lambda c, y, x: tir.if_then_else(tir.all(y >= 1, y < 512, x >= 1, x < 512), a[c, y - 1, x - 1], -1e30),
        name="P",
    )
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    c = te.compute((16, 256, 256), lambda c, y, x: te.max(p[c, 2 * y + ry, 2 * x + rx], axis=[ry, rx]), name="C")
    s = te.create_schedule(c.op)
    s[p].compute_at(s[c], _tiled(s, c, 20, 48))
    return s


def gathered_rows() -> Schedule:
    """Rows of a table, by numbers of which a range is known, with what is computed of the table."""
    table = te.placeholder((4000, 64), name="A")
    rows = te.placeholder((20000,), "int32", name="I", value_range=(100, 3899))
    t = te.compute((4000, 64), lambda i, j: te.exp(table[i, j]), name="T")
    c = te.compute((20000, 64), lambda i, j: t[rows[i], j] * 2.0, name="C")
    return te.create_schedule(c.op)


def rolled() -> Schedule:
    """Rows that wrap around, in blocks that do not divide them."""
    a = te.placeholder((1500, 1500), name="A")
    t = te.compute((1500, 1500), lambda i, j: a[i, j] * 3.0 + 1.0, name="T")
    c = te.compute((1500, 1500), lambda i, j: t[i, (j + 700) % 1500] + t[i, j], name="C")
    s = te.create_schedule(c.op)
    io, _ = s[c].split(c.op.axis[0], 32)
    s[t].compute_at(s[c], io)
    return s


def counted() -> Schedule:
    """How often each of 64 values occurs in a row, of every third row."""
    a = te.placeholder((900, 1024), "int32", name="A", value_range=(0, 63))
    t = te.compute((900, 1024), lambda i, j: (a[i, j] * 5 + 3) % 64, name="T")
    r = te.reduce_axis((0, 1024), "r")
    c = te.compute(
        (300, 64), lambda i, b: te.sum(tir.Select(t[3 * i, r] == b, tir.const(1), tir.const(0)), axis=r), name="C"
    )
    s = te.create_schedule(c.op)
    s[t].compute_at(s[c], c.op.axis[0])
    return s


def transposed_convolution() -> Schedule:
    """A signal between zeros, as it is when a convolution of stride 2 is turned round."""
    a = te.placeholder((64, 4000), name="A")
    w = te.placeholder((64, 5), name="W")
    t = te.compute(
        (64, 8004),
        lambda c, x: tir.if_then_else(
            tir.all(x >= 2, x < 8001, te.floormod(x, 2) == 0), a[c, te.floordiv(x - 2, 2)], 0.0
        ),
        name="T",
    )
    k = te.reduce_axis((0, 5), "k")
    c = te.compute((64, 8000), lambda c, x: te.sum(t[c, x + k] * w[c, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    xo, _ = s[c].split(c.op.axis[1], 300)
    s[t].compute_at(s[c], xo)
    return s


def enlarged_and_blurred() -> Schedule:
    """Each pixel four times, then a cross of five."""
    a = te.placeholder((601, 601), name="A")
    t = te.compute((1202, 1202), lambda y, x: te.sqrt(a[te.floordiv(y, 2), te.floordiv(x, 2)] + 4.0), name="T")
    c = te.compute(
        (1200, 1200),
        lambda y, x: t[y + 1, x] + t[y, x + 1] + t[y + 1, x + 1] + t[y + 1, x + 2] + t[y + 2, x + 1],
        name="C",
    )
    s = te.create_schedule(c.op)
    s[t].compute_at(s[c], _tiled(s, c, 32, 128))
    return s


def batched_matmul() -> Schedule:
    """Tiles that divide neither side, a cache of the product."""
    a, b = te.placeholder((6, 150, 170), name="A"), te.placeholder((6, 170, 130), name="B")
    k = te.reduce_axis((0, 170), "k")
    m = te.compute((6, 150, 130), lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k), name="M")
    c = te.compute((6, 150, 130), lambda n, i, j: te.max(m[n, i, j], 0.0) + 1.0, name="C")
    s = te.create_schedule(c.op)
    s[m].compute_at(s[c], _tiled(s, c, 32, 48))
    n, i, j = m.op.axis
    ko, ki = s[m].split(k, 24)
    s[m].reorder(n, ko, i, ki, j)
    return s


def sums_so_far() -> Schedule:
    """A sum of everything before: rows of a triangle."""
    a = te.placeholder((40, 1200), name="A")
    t = te.compute((40, 1200), lambda i, j: a[i, j] * a[i, j], name="T")
    r = te.reduce_axis((0, 1200), "r")
    c = te.compute((40, 1200), lambda i, j: te.sum(t[i, r], axis=r, where=r <= j), name="C")
    s = te.create_schedule(c.op)
    s[t].compute_at(s[c], c.op.axis[0])
    return s


def corners() -> Schedule:
    """What is far apart of a tensor, and what is between them not at all."""
    a = te.placeholder((3000, 3000), name="A")
    t = te.compute((3000, 3000), lambda i, j: a[i, j] * 2.0 + 1.0, name="T")
    c = te.compute((900, 900), lambda i, j: t[i, j] + t[i + 2100, j + 2100] + t[i + 2100, j], name="C")
    return te.create_schedule(c.op)


def every_third() -> Schedule:
    """Of a tensor that takes long to compute only every third element in both directions, beside its neighbour."""
    a = te.placeholder((1800, 1801), name="A")
    t = te.compute((1800, 1801), lambda i, j: te.exp(a[i, j]), name="T")
    c = te.compute((600, 600), lambda i, j: t[3 * i, 3 * j] + t[3 * i, 3 * j + 1], name="C")
    s = te.create_schedule(c.op)
    io, _ = s[c].split(c.op.axis[0], 25)
    s[t].compute_at(s[c], io)
    return s


def even_columns() -> Schedule:
    """Every second column of what costs little to compute, from one loop nest to the next."""
    a = te.placeholder((1500, 3000), name="A")
    t = te.compute((1500, 3000), lambda i, j: a[i, j] + 1.0, name="T")
    r = te.reduce_axis((0, 4), "r")
    c = te.compute((1500, 1000), lambda i, j: te.sum(t[i, 2 * j + 2 * r] * 0.25, axis=r), name="C")
    return te.create_schedule(c.op)


def along_a_diagonal() -> Schedule:
    """A band around a diagonal."""
    a = te.placeholder((3000, 3000), name="A")
    t = te.compute((3000, 3000), lambda i, j: a[i, j] * a[j, i], name="T")
    c = te.compute((2900, 24), lambda i, d: t[i, i + d] + t[i + 1, i + d], name="C")
    return te.create_schedule(c.op)


UNFITTED: Final[dict[str, Callable[[], Schedule]]] = {
    build.__name__: build
    for build in (
        strided_convolution,
        dilated_convolution,
        padded_pooling,
        gathered_rows,
        rolled,
        counted,
        transposed_convolution,
        enlarged_and_blurred,
        batched_matmul,
        sums_so_far,
        corners,
        every_third,
        even_columns,
        along_a_diagonal,
    )
}

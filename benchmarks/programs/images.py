"""Pipelines on images: unsharp masking, and from the raw values of a sensor to colours."""

from typing import Any

from benchmarks.programs.program import Built, Program, threaded
from bound import te, tir

HEIGHT, WIDTH = 768, 1280
KERNEL = (0.0625, 0.25, 0.375, 0.25, 0.0625)


def unsharp(height: Any, width: Any, parallel: bool) -> Built:
    """Three channels sharpened by what a blur of their grey leaves out, in strips of 32 rows."""
    a = te.placeholder((3, height + 4, width + 4), name="A")
    grey = te.compute(
        (height + 4, width + 4), lambda y, x: a[0, y, x] * 0.299 + a[1, y, x] * 0.587 + a[2, y, x] * 0.114, name="grey"
    )

    def weighted(at: Any) -> Any:
        total = at(0) * KERNEL[0]
        for k in range(1, 5):
            total = total + at(k) * KERNEL[k]
        return total

    down = te.compute((height, width + 4), lambda y, x: weighted(lambda k: grey[y + k, x]), name="down")
    blurred = te.compute((height, width), lambda y, x: weighted(lambda k: down[y, x + k]), name="blurred")
    ratio = te.compute(
        (height, width), lambda y, x: (grey[y + 2, x + 2] * 2.0 - blurred[y, x]) / grey[y + 2, x + 2], name="ratio"
    )
    out = te.compute((3, height, width), lambda c, y, x: ratio[y, x] * a[c, y + 2, x + 2], name="out")
    s = te.create_schedule(out.op)
    c, y, x = out.op.axis
    yo, yi = s[out].split(y, 32)
    s[out].reorder(yo, c, yi, x)
    s[out].vectorize(x)
    s[blurred].compute_inline()
    for stage in (grey, down, ratio):
        s[stage].compute_at(s[out], yo)
        s[stage].vectorize(stage.op.axis[1])
    threaded(s[out], yo, parallel)
    return Built(s, (a, out))


def camera(height: Any, width: Any, parallel: bool) -> Built:
    """Raw values (green and red, blue and green alternate) cleaned, taken apart to half the size, filled in, put
    together again, and corrected: in strips of 32 rows, both sides of each pair of columns at once."""
    half_h, half_w = height // 2 + 2, width // 2 + 2
    raw = te.placeholder((2 * half_h + 4, 2 * half_w + 4), name="raw")

    def quiet(y: Any, x: Any) -> Any:
        around = [raw[y, x + 2], raw[y + 4, x + 2], raw[y + 2, x], raw[y + 2, x + 4]]
        low = high = around[0]
        for value in around[1:]:
            low, high = tir.min(low, value), tir.max(high, value)
        return tir.max(tir.min(raw[y + 2, x + 2], high), low)

    clean = te.compute((2 * half_h, 2 * half_w), quiet, name="clean")
    planes = {
        name: te.compute((half_h, half_w), lambda y, x, dy=dy, dx=dx: clean[2 * y + dy, 2 * x + dx], name=name)
        for name, dy, dx in (("gr", 0, 0), ("r", 0, 1), ("b", 1, 0), ("gb", 1, 1))
    }
    gr, r, b, gb = (planes[name] for name in ("gr", "r", "b", "gb"))
    half = 0.5
    g_r = te.compute((half_h - 1, half_w - 1), lambda y, x: (gr[y, x] + gr[y, x + 1]) * half, name="g_r")
    g_b = te.compute((half_h - 1, half_w - 1), lambda y, x: (gb[y, x] + gb[y + 1, x]) * half, name="g_b")
    shape = (height, width)

    def together(name: str, at: Any) -> Any:
        """The full image of values at (row, column) parity."""
        return te.compute(
            shape,
            lambda y, x: tir.Select(
                y % 2 == 0,
                tir.Select(x % 2 == 0, at(0, 0, y // 2, x // 2), at(0, 1, y // 2, x // 2)),
                tir.Select(x % 2 == 0, at(1, 0, y // 2, x // 2), at(1, 1, y // 2, x // 2)),
            ),
            name=name,
        )

    green = together(
        "green", lambda py, px, y, x: {(0, 0): gr[y, x], (0, 1): g_r[y, x], (1, 0): g_b[y, x], (1, 1): gb[y, x]}[py, px]
    )
    red = together(
        "red",
        lambda py, px, y, x: {
            (0, 0): (r[y, x] + r[y, x + 1]) * half,
            (0, 1): r[y, x],
            (1, 0): (r[y, x] + r[y + 1, x]) * half,
            (1, 1): (r[y, x] + r[y + 1, x + 1]) * half,
        }[py, px],
    )
    blue = together(
        "blue",
        lambda py, px, y, x: {
            (0, 0): (b[y, x] + b[y + 1, x]) * half,
            (0, 1): (b[y, x] + b[y + 1, x + 1]) * half,
            (1, 0): b[y, x],
            (1, 1): (b[y, x] + b[y, x + 1]) * half,
        }[py, px],
    )
    colours = ((1.6, -0.4, -0.2), (-0.3, 1.5, -0.2), (-0.1, -0.5, 1.6))

    def corrected(c: Any, y: Any, x: Any) -> Any:
        sums = [red[y, x] * m[0] + green[y, x] * m[1] + blue[y, x] * m[2] for m in colours]
        return tir.Select(c == 0, sums[0], tir.Select(c == 1, sums[1], sums[2]))

    out = te.compute((3, *shape), lambda c, y, x: tir.max(tir.min(corrected(c, y, x), 1.0), 0.0), name="out")
    s = te.create_schedule(out.op)
    c, y, x = out.op.axis
    yo, yi = s[out].split(y, 32)
    s[out].reorder(yo, c, yi, x)
    s[out].unroll(c)
    s[out].vectorize(x)
    for stage in (clean, gr, r, b, gb, g_r, g_b):
        s[stage].compute_at(s[out], yo)
        s[stage].vectorize(stage.op.axis[1])
    for stage in (red, green, blue):
        s[stage].compute_at(s[out], yo)
        sy, sx = stage.op.axis
        syo, syi = s[stage].split(sy, 2)
        sxo, sxi = s[stage].split(sx, 2)
        s[stage].reorder(syo, syi, sxo, sxi)
        s[stage].unroll(syi)
        s[stage].unroll(sxi)
        s[stage].vectorize(sxo)
    threaded(s[out], yo, parallel)
    return Built(s, (raw, out))


def _symbolic(build: Any, source: str, symbolic: bool) -> Program:
    height, width = (te.var("H"), te.var("W")) if symbolic else (HEIGHT, WIDTH)
    sizes = {"H": HEIGHT, "W": WIDTH} if symbolic else {}
    return Program(lambda p: build(height, width, p), source, (), sizes, (HEIGHT, WIDTH))


PROGRAMS = {
    "unsharp": _symbolic(unsharp, "unsharp", False),
    "unsharp-symbolic": _symbolic(unsharp, "unsharp", True),
    "camera": _symbolic(camera, "camera", False),
}

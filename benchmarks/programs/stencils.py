"""Chains of stencils on images: ten stages in tiles, a blur in strips."""

from typing import Any

from benchmarks.programs.program import Built, Program, threaded
from bound import te

STAGES, HEIGHT, WIDTH = 10, 1080, 1920
POINTS: dict[str, tuple[tuple[int, int], ...]] = {
    "cross": ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1)),
    "square": tuple((y, x) for y in range(3) for x in range(3)),
}


def stencil(shape: str, height: Any, width: Any, parallel: bool) -> Built:
    """Ten stages, each of the neighbours in `POINTS`, computed where a tile of 32 x 256 of the last one needs them."""
    points, factor = POINTS[shape], 1 / len(POINTS[shape])
    a = t = te.placeholder((height, width), name="A")
    made = []
    for k in range(STAGES):
        height, width = height - 2, width - 2

        def formula(y: Any, x: Any, p: Any = t) -> Any:
            total = p[y + points[0][0], x + points[0][1]]
            for dy, dx in points[1:]:
                total = total + p[y + dy, x + dx]
            return total * factor

        t = te.compute((height, width), formula, name=f"S{k}")
        made.append(t)
    s = te.create_schedule(t.op)
    yo, yi = s[t].split(t.op.axis[0], 32)
    xo, xi = s[t].split(t.op.axis[1], 256)
    s[t].reorder(yo, xo, yi, xi)
    s[t].vectorize(xi)
    threaded(s[t], yo, parallel)
    for stage in made[:-1]:
        s[stage].compute_at(s[t], xo)
        s[stage].vectorize(stage.op.axis[1])
    return Built(s, (a, t))


def blur(height: Any, width: Any, parallel: bool) -> Built:
    a = te.placeholder((height, width), name="A")
    third = 1 / 3
    b = te.compute((height, width - 2), lambda y, x: (a[y, x] + a[y, x + 1] + a[y, x + 2]) * third, name="B")
    c = te.compute((height - 2, width - 2), lambda y, x: (b[y, x] + b[y + 1, x] + b[y + 2, x]) * third, name="C")
    s = te.create_schedule(c.op)
    yo, _ = s[c].split(c.op.axis[0], 32)
    s[b].compute_at(s[c], yo)
    s[b].vectorize(b.op.axis[1])
    s[c].vectorize(c.op.axis[1])
    threaded(s[c], yo, parallel)
    return Built(s, (a, c))


def _stencil(shape: str, symbolic: bool) -> Program:
    height, width = (te.var("H"), te.var("W")) if symbolic else (HEIGHT, WIDTH)
    macros = ("-DCROSS",) if shape == "cross" else ()
    sizes = {"H": HEIGHT, "W": WIDTH} if symbolic else {}
    return Program(lambda p: stencil(shape, height, width, p), "stencil", macros, sizes, (HEIGHT, WIDTH), True)


def _blur(symbolic: bool) -> Program:
    height, width = (te.var("H"), te.var("W")) if symbolic else (HEIGHT, WIDTH)
    sizes = {"H": HEIGHT, "W": WIDTH} if symbolic else {}
    return Program(lambda p: blur(height, width, p), "blur", (), sizes, (HEIGHT, WIDTH))


PROGRAMS = {
    "stencil-cross": _stencil("cross", False),
    "stencil-square": _stencil("square", False),
    "stencil-cross-symbolic": _stencil("cross", True),
    "stencil-square-symbolic": _stencil("square", True),
    "blur": _blur(False),
    "blur-symbolic": _blur(True),
}

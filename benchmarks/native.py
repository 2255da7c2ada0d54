"""Generated C beside hand-written C of the same schedule.

    python -m benchmarks.native [program ...] [--repeat N] [--json]

Both are built by the same compiler with the same flags (those of `run(..., backend="c")`), loaded into this process
and called in turn on the same arrays; results are compared. Printed are medians of the processor time of a call, which
other processes on the machine disturb less than the time on the clock, their ratio, the bytes of C, and what the model
of `lowering.forms` chose.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from bound import te
from lowering import Function, lower, narrow, to_c
from lowering.native import FLAGS, compiled_library

SOURCES = Path(__file__).parent / "data" / "native"
STAGES, HEIGHT, WIDTH, N = 10, 1080, 1920, 512
POINTS: dict[str, tuple[tuple[int, int], ...]] = {
    "cross": ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1)),
    "square": tuple((y, x) for y in range(3) for x in range(3)),
}


@dataclass(frozen=True)
class Program:
    """A schedule, its hand-written counterpart with the macros it is built with, and the arrays of a call."""

    schedule: Callable[[], Any]
    source: str
    macros: tuple[str, ...]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    sizes: dict[str, int]
    hand_sizes: tuple[int, ...]


def stencil(shape: str, height: Any, width: Any) -> Any:
    """Ten stages, each of the neighbours in `POINTS`, computed where a tile of 32 x 256 of the last one needs them."""
    points, factor = POINTS[shape], 1 / len(POINTS[shape])
    t = te.placeholder((height, width), name="A")
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
    for stage in made[:-1]:
        s[stage].compute_at(s[t], xo)
        s[stage].vectorize(stage.op.axis[1])
    return s


def blur(height: Any, width: Any) -> Any:
    a = te.placeholder((height, width), name="A")
    third = 1 / 3
    b = te.compute((height, width - 2), lambda y, x: (a[y, x] + a[y, x + 1] + a[y, x + 2]) * third, name="B")
    c = te.compute((height - 2, width - 2), lambda y, x: (b[y, x] + b[y + 1, x] + b[y + 2, x]) * third, name="C")
    s = te.create_schedule(c.op)
    yo, _ = s[c].split(c.op.axis[0], 32)
    s[b].compute_at(s[c], yo)
    s[b].vectorize(b.op.axis[1])
    s[c].vectorize(c.op.axis[1])
    return s


def matmul(n: Any) -> Any:
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    yo, yi = s[c].split(c.op.axis[0], 32)
    xo, xi = s[c].split(c.op.axis[1], 64)
    ko, ki = s[c].split(k, 16)
    s[c].reorder(yo, xo, ko, yi, ki, xi)
    s[c].vectorize(xi)
    return s


def _stencil(shape: str, symbolic: bool) -> Program:
    height, width = (te.var("H"), te.var("W")) if symbolic else (HEIGHT, WIDTH)
    return Program(
        lambda: stencil(shape, height, width),
        "stencil",
        ("-DCROSS",) if shape == "cross" else (),
        ((HEIGHT, WIDTH),),
        (HEIGHT - 2 * STAGES, WIDTH - 2 * STAGES),
        {"H": HEIGHT, "W": WIDTH} if symbolic else {},
        (HEIGHT, WIDTH),
    )


def _blur(symbolic: bool) -> Program:
    height, width = (te.var("H"), te.var("W")) if symbolic else (HEIGHT, WIDTH)
    sizes = {"H": HEIGHT, "W": WIDTH} if symbolic else {}
    schedule = lambda: blur(height, width)  # noqa: E731
    return Program(schedule, "blur", (), ((HEIGHT, WIDTH),), (HEIGHT - 2, WIDTH - 2), sizes, (HEIGHT, WIDTH))


PROGRAMS: dict[str, Program] = {
    "stencil-cross": _stencil("cross", False),
    "stencil-square": _stencil("square", False),
    "stencil-cross-symbolic": _stencil("cross", True),
    "stencil-square-symbolic": _stencil("square", True),
    "blur": _blur(False),
    "blur-symbolic": _blur(True),
    "matmul": Program(lambda: matmul(N), "matmul", (), ((N, N), (N, N)), (N, N), {}, (N,)),
}


def measure(program: Program, repeat: int) -> dict[str, Any]:
    """Medians of both, and what was compiled."""
    f = lower(program.schedule())
    text = to_c(f)
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape, "float32") for shape in program.inputs]
    ours, theirs = (np.zeros(program.output, "float32") for _ in range(2))
    calls = {
        "generated": _call(f, text, [*given, ours], program.sizes),
        "hand": _hand(program, [*given, theirs]),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            begin = process_time()
            if call():
                raise RuntimeError(f"{name} failed")
            times[name].append(process_time() - begin)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)
    seconds = {name: median(values) for name, values in times.items()}
    computed = next((forms[0].compute for forms in f.forms.values()), "exact")
    return {**seconds, "ratio": seconds["generated"] / seconds["hand"], "bytes": len(text), "compute": computed}


def _call(f: Function, text: str, arrays: Sequence[Any], sizes: dict[str, int]) -> Callable[[], int]:
    function = getattr(ctypes.CDLL(str(compiled_library(text))), f.name)
    wide = ctypes.c_int32 if narrow(f).bits == 32 else ctypes.c_int64
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays] + [wide(sizes[v.name]) for v in f.sizes]
    return lambda: int(function(*args))


def _hand(program: Program, arrays: Sequence[Any]) -> Callable[[], int]:
    text = (SOURCES / f"{program.source}.c").read_text()
    function = ctypes.CDLL(str(compiled_library(text, (*FLAGS, *program.macros)))).hand
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays] + [ctypes.c_int(size) for size in program.hand_sizes]
    return lambda: int(function(*args))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.native", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], help="the programs; default: all")
    parser.add_argument("--repeat", type=int, default=15, help="calls of each")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(argv)
    results = {}
    for name in options.programs or PROGRAMS:
        results[name] = r = measure(PROGRAMS[name], options.repeat)
        if not options.json:
            print(
                f"{name:24} generated {r['generated'] * 1e3:8.2f} ms  hand {r['hand'] * 1e3:8.2f} ms  "
                f"ratio {r['ratio']:.2f}  {r['bytes']:6} bytes  {r['compute']}",
                flush=True,
            )
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

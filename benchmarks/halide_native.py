"""Generated C beside Halide's own code for the same schedule, where its package is installed (`pip install halide`).

    python -m benchmarks.halide_native [program ...] [--repeat N] [--threads N] [--json]

Both run in this process, called in turn on the same arrays; results are compared. Halide compiles for the host as it
does by itself, without bounds checks or assertions (`no_asserts`, `no_bounds_query`); vectors have the width that it
recommends for float. A ratio is the median time of a call of the generated code over Halide's. Halide's tails shift
inwards, as its default is, where ours are cut.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.native import generated, medians
from benchmarks.programs import PROGRAMS
from benchmarks.programs.images import KERNEL
from benchmarks.programs.stencils import POINTS, STAGES
from lowering import lower
from lowering.codegen.c import c_file
from lowering.interpreter import FLAGS, OPENMP

STRIP, TILE = 32, 256


def _stencil(hl: Any, a: Any, shape: str, parallel: bool) -> Any:
    """Ten stages of the neighbours in `POINTS`, in tiles of 32 x 256 of the last one."""
    x, y, xo, yo, xi, yi = (hl.Var(name) for name in ("x", "y", "xo", "yo", "xi", "yi"))
    points, factor, stages = POINTS[shape], 1 / len(POINTS[shape]), []
    last = a
    for k in range(STAGES):
        total = last[x + points[0][1], y + points[0][0]]
        for dy, dx in points[1:]:
            total = total + last[x + dx, y + dy]
        stage = hl.Func(f"S{k}")
        stage[x, y] = total * hl.f32(factor)
        stages.append(stage)
        last = stage
    width = hl.get_host_target().natural_vector_size(hl.Float(32))
    last.tile(x, y, xo, yo, xi, yi, TILE, STRIP).vectorize(xi, width)
    if parallel:
        last.parallel(yo)
    for stage in stages[:-1]:
        stage.compute_at(last, xo).vectorize(x, width)
    return last


def _blur(hl: Any, a: Any, parallel: bool) -> Any:
    """Rows, then columns, in strips of 32 rows."""
    x, y, yo, yi = (hl.Var(name) for name in ("x", "y", "yo", "yi"))
    rows, out, third = hl.Func("B"), hl.Func("C"), hl.f32(1 / 3)
    rows[x, y] = (a[x, y] + a[x + 1, y] + a[x + 2, y]) * third
    out[x, y] = (rows[x, y] + rows[x, y + 1] + rows[x, y + 2]) * third
    width = hl.get_host_target().natural_vector_size(hl.Float(32))
    out.split(y, yo, yi, STRIP).vectorize(x, width)
    if parallel:
        out.parallel(yo)
    rows.compute_at(out, yo).vectorize(x, width)
    return out


def _unsharp(hl: Any, a: Any, parallel: bool) -> Any:
    """Three channels sharpened by what a blur of their grey leaves out, in strips of 32 rows."""
    x, y, c, yo, yi = (hl.Var(name) for name in ("x", "y", "c", "yo", "yi"))
    grey, down, blurred, ratio, out = (hl.Func(n) for n in ("grey", "down", "blurred", "ratio", "out"))

    def weighted(at: Callable[[int], Any]) -> Any:
        total = at(0) * hl.f32(KERNEL[0])
        for k in range(1, 5):
            total = total + at(k) * hl.f32(KERNEL[k])
        return total

    grey[x, y] = a[x, y, 0] * hl.f32(0.299) + a[x, y, 1] * hl.f32(0.587) + a[x, y, 2] * hl.f32(0.114)
    down[x, y] = weighted(lambda k: grey[x, y + k])
    blurred[x, y] = weighted(lambda k: down[x + k, y])
    ratio[x, y] = (grey[x + 2, y + 2] * hl.f32(2.0) - blurred[x, y]) / grey[x + 2, y + 2]
    out[x, y, c] = ratio[x, y] * a[x + 2, y + 2, c]
    width = hl.get_host_target().natural_vector_size(hl.Float(32))
    out.split(y, yo, yi, STRIP).reorder(x, yi, c, yo).vectorize(x, width)
    if parallel:
        out.parallel(yo)
    for stage in (grey, down, ratio):
        stage.compute_at(out, yo).vectorize(x, width)
    return out


PIPELINES: Mapping[str, Callable[[Any, Any, bool], Any]] = {
    "stencil-cross": lambda hl, a, parallel: _stencil(hl, a, "cross", parallel),
    "stencil-square": lambda hl, a, parallel: _stencil(hl, a, "square", parallel),
    "blur": _blur,
    "unsharp": _unsharp,
}


def halide_call(hl: Any, name: str, given: Any, made: Any, parallel: bool) -> Callable[[], int]:
    """A call of Halide's code of a program, from `given` into `made`."""
    param = hl.ImageParam(hl.Float(32), given.ndim)
    out = PIPELINES[name](hl, param, parallel)
    for k, extent in enumerate(reversed(given.shape)):
        param.dim(k).set_min(0).set_extent(extent)
    buffer = out.output_buffer()
    for k, extent in enumerate(reversed(made.shape)):
        buffer.dim(k).set_min(0).set_extent(extent)
    features = (hl.TargetFeature.NoAsserts, hl.TargetFeature.NoBoundsQuery)
    target = hl.get_host_target()
    for feature in features:
        target = target.with_feature(feature)
    compiled = out.compile_to_callable([param], target)
    arrays = hl.Buffer(given), hl.Buffer(made)
    return lambda: int(compiled(*arrays) or 0)


def measure(hl: Any, name: str, repeat: int, threads: int) -> dict[str, float]:
    """Medians of both and their ratio."""
    program, parallel = PROGRAMS[name], threads > 1
    built = program.build(parallel)
    f = lower(built.schedule, built.args)
    rng = np.random.default_rng(0)
    given = {t: rng.random(program.shape(t), "float32") + 0.5 for t in f.inputs}  # a divisor is never near 0
    ours, theirs = ({t: np.zeros(program.shape(t), "float32") for t in f.outputs} for _ in range(2))
    calls = {
        "generated": generated(f, c_file(f), [{**given, **ours}[t] for t in f.params], program, (*FLAGS, OPENMP)),
        "halide": halide_call(hl, name, *given.values(), *theirs.values(), parallel),
    }
    seconds = medians(calls, repeat, perf_counter)
    for tensor, array in ours.items():
        np.testing.assert_allclose(array, theirs[tensor], rtol=1e-3, atol=1e-3)
    return {**seconds, "ratio": seconds["generated"] / seconds["halide"]}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.halide_native", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("programs", nargs="*", choices=[*PIPELINES, []], help="the programs; default: all")
    parser.add_argument("--repeat", type=int, default=31, help="calls of each")
    parser.add_argument("--threads", type=int, default=1, help="outer loops are parallel, on so many threads")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = os.environ["HL_NUM_THREADS"] = str(options.threads)
    try:
        import halide as hl
    except ImportError:
        print("the halide package is not installed: pip install halide", file=sys.stderr)
        return 2
    results = {}
    for name in options.programs or PIPELINES:
        results[name] = r = measure(hl, name, options.repeat, options.threads)
        if not options.json:
            print(
                f"{name:16} generated {r['generated'] * 1e3:8.2f} ms  halide {r['halide'] * 1e3:8.2f} ms  "
                f"ratio {r['ratio']:.2f}",
                flush=True,
            )
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

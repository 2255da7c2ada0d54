"""Generated C beside hand-written C of the same schedule.

    python -m benchmarks.native [program ...] [--threads N] [--repeat N] [--json]

Both are built by the same compiler with the same flags (those of `run(..., backend="c")`), loaded into this process
and called in turn on the same arrays; results are compared. Printed are medians of the time of a call, their ratio, the
bytes of C, the seconds that `lower` and `to_c` took together, `lower` alone and how many times that of `infer_bound`
with boxes it is (both in turn, on schedules made anew), and what the model of `lowering.forms` chose. On one thread the
time is that of the processor, which other processes on the machine disturb less than the time on the clock; with
`--threads` outer loops are parallel in both, the time is on the clock, and the generated code on one thread is timed,
too: its time divided by that on all threads says how it scales, where as many cores are free.
"""

import argparse
import ctypes
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.programs import PROGRAMS, Program
from benchmarks.programs.program import Built
from bound import infer_bound
from lowering import Function, lower
from lowering.codegen.c import CFile, c_file
from lowering.interpreter import FLAGS, OPENMP, compiled_library

LOWERED = 5  # times that a program is lowered to see how long it takes
SOURCES = Path(__file__).parent / "data" / "native"


def measure(program: Program, repeat: int, threads: int = 1) -> dict[str, Any]:
    """Medians of both, and what was compiled."""
    parallel = threads > 1
    clock = perf_counter if parallel else process_time
    flags = (*FLAGS, OPENMP)
    built = program.build(parallel)
    begin = process_time()
    f = lower(built.schedule, built.args)
    file = c_file(f)
    lowered = process_time() - begin
    rng = np.random.default_rng(0)
    given = {t: rng.standard_normal(program.shape(t), "float32") for t in f.inputs}
    # Both store to the same arrays: where these lie makes up to twice the time of a matrix product.
    outputs = {t: np.zeros(program.shape(t), "float32") for t in f.outputs}
    arrays = [{**given, **outputs}[t] for t in f.params]
    calls = {"generated": generated(f, file, arrays, program, flags), "hand": _hand(program, arrays, flags, parallel)}
    if parallel:
        alone = c_file(lower((serial := program.build(False)).schedule, serial.args))
        calls["serial"] = generated(f, alone, arrays, program, flags)
    results = [_result(call, outputs.values()) for call in calls.values()]
    for result in results[1:]:
        np.testing.assert_allclose(results[0], result, rtol=1e-3, atol=1e-3)
    seconds = medians(calls, repeat, clock)
    return {
        **seconds,
        "ratio": seconds["generated"] / seconds["hand"],
        "faster": seconds["serial"] / seconds["generated"] if parallel else None,
        "bytes": len(file.text),
        "lowered": lowered,
        **_lowering(program, parallel),
        "compute": next((forms[0].compute for forms in f.forms.values()), "exact"),
    }


def _result(call: Callable[[], int], outputs: Iterable[Any]) -> Any:
    """What a call stores, all of it in one array."""
    for array in outputs:
        array.fill(np.nan)
    call()
    return np.concatenate([array.ravel() for array in outputs])


def _lowering(program: Program, parallel: bool) -> dict[str, float]:
    """The time of `lower` and of what it cannot do without: the bounds of boxes."""

    def timed(work: Callable[[Built], object]) -> float:
        built = program.build(parallel)
        begin = process_time()
        work(built)
        return process_time() - begin

    pairs = [
        (timed(lambda b: lower(b.schedule, b.args)), timed(lambda b: infer_bound(b.schedule, compute="box")))
        for _ in range(LOWERED)
    ]
    return {"lower": median(a for a, _ in pairs), "inferred": median(b for _, b in pairs)}


def medians(calls: Mapping[str, Callable[[], int]], repeat: int, clock: Callable[[], float]) -> dict[str, float]:
    """The median time of each call; they take turns, so that a busy machine slows all alike."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            begin = clock()
            if call():
                raise RuntimeError(f"{name} failed")
            times[name].append(clock() - begin)
    return {name: median(values) for name, values in times.items()}


def generated(
    f: Function, file: CFile, arrays: Sequence[Any], program: Program, flags: tuple[str, ...]
) -> Callable[[], int]:
    """A call of the compiled function on arrays, at the sizes of a program."""
    function = getattr(ctypes.CDLL(str(compiled_library(file.text, flags))), file.entry)
    wide = ctypes.c_int32 if file.bits == 32 else ctypes.c_int64
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays] + [wide(program.sizes[v.name]) for v in f.sizes]
    return lambda: int(function(*args))


def _hand(program: Program, arrays: Sequence[Any], flags: tuple[str, ...], parallel: bool) -> Callable[[], int]:
    text = (SOURCES / f"{program.source}.c").read_text()
    macros = (*program.macros, *(("-DPARALLEL",) if parallel else ()))
    function = ctypes.CDLL(str(compiled_library(text, (*flags, *macros)))).hand
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays] + [ctypes.c_int(k) for k in program.numbers]
    return lambda: int(function(*args))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.native", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], help="the programs; default: all")
    parser.add_argument("--repeat", type=int, default=15, help="calls of each")
    parser.add_argument("--threads", type=int, default=1, help="outer loops are parallel, on so many threads")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(argv)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    results = {}
    for name in options.programs or PROGRAMS:
        results[name] = r = measure(PROGRAMS[name], options.repeat, options.threads)
        if not options.json:
            scaled = "" if r["faster"] is None else f"  {r['faster']:.2f} times as fast as on one thread"
            print(
                f"{name:24} generated {r['generated'] * 1e3:8.2f} ms  hand {r['hand'] * 1e3:8.2f} ms  "
                f"ratio {r['ratio']:.2f}  {r['bytes']:6} bytes in {r['lowered']:.1f} s  "
                f"lower {r['lower']:.2f} s, {r['lower'] / r['inferred']:.1f} x infer_bound  {r['compute']}{scaled}",
                flush=True,
            )
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

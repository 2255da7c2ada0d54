"""Whether the form that `lower` chooses is ever slower than another one.

    python -m benchmarks.forms [case ...] [--least MS] [--repeat N] [--json]

Each case is a schedule of a benchmark program. It is lowered by default and with every `compute` and `nests`, compiled,
and all distinct texts are called in turn. Printed are the medians of processor time, that of the default relative to
the fastest other form; what is called too briefly (`--least`, in milliseconds) is called several times.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from statistics import median
from time import process_time
from typing import Any

import numpy as np

from benchmarks.native import generated
from benchmarks.programs import PROGRAMS, Program
from lowering import lower
from lowering.build.pieces import NESTS
from lowering.codegen.c import c_file
from lowering.native import FLAGS


def measure(program: Program, repeat: int, least: float) -> dict[str, float]:
    """The median of each form, in seconds; forms with one text are one, named after the first."""
    forms: dict[str, Any] = {"default": {}}
    forms |= {f"{c}/{n}": {"compute": c, "nests": n} for c, n in product(("box", "exact"), NESTS)}
    rng = np.random.default_rng(0)
    calls, texts, arrays = {}, {}, {}
    for name, options in forms.items():
        built = program.build(False)
        f = lower(built.schedule, built.args, **options)
        file = c_file(f)
        if file.text in texts:
            continue
        texts[file.text] = name
        for t in f.params:
            if t.name not in arrays:
                arrays[t.name] = rng.standard_normal(program.shape(t)).astype(t.dtype)
        calls[name] = generated(f, file, [arrays[t.name] for t in f.params], program, FLAGS)
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = process_time()
    calls["default"]()
    often = max(1, int(least / max(process_time() - begin, 1e-6)))
    for _ in range(repeat):
        for name, call in calls.items():
            begin = process_time()
            for _ in range(often):
                call()
            times[name].append((process_time() - begin) / often)
    return {name: median(values) for name, values in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.forms", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[*PROGRAMS, []], help="the programs; default: all")
    parser.add_argument("--least", type=float, default=10.0, help="milliseconds of a measurement")
    parser.add_argument("--repeat", type=int, default=11, help="measurements of each")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    options = parser.parse_args(argv)
    results = {}
    for name in options.cases or PROGRAMS:
        results[name] = r = measure(PROGRAMS[name], options.repeat, options.least / 1e3)
        if not options.json:
            others = {form: seconds for form, seconds in r.items() if form != "default"}
            fastest = min(others, key=lambda form: others[form], default="default")
            ratio = r["default"] / r[fastest]
            forms = ", ".join(f"{form} {seconds * 1e3:.2f} ms" for form, seconds in r.items())
            print(f"{name:24} {ratio:.2f} of {fastest}; {forms}", flush=True)
    if options.json:
        print(json.dumps(results, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

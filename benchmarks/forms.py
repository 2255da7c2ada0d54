"""Whether the form that `lower` chooses is ever slower than another one.

    python -m benchmarks.forms [case ...] [--corpus] [--kept FILE] [--again RATIO] [--limit S] [--repeat N]

A case is a benchmark program, one of `benchmarks.programs.unfitted`, or, with `--corpus`, one of the schedule corpus at
sizes that take 10 ms at least (`benchmarks.scaled`). It is lowered by default and with every `compute` and `nests`,
compiled, and all distinct texts are called in turn. Printed is the median of processor time by default relative to that
of the fastest other form; where that is above 1.05 it is measured again, and the least of three counts. A case that is
no program, or takes longer than `--limit` to lower in one form, is listed with the reason.

With `--kept` results are kept in a file, and cases that are there are not measured again, unless their ratio was above
`--again`.
"""

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

from benchmarks.cases import Case, arrays, called, corpus, fixed, within
from bound.errors import ScheduleError
from intset.errors import IntSetError
from lowering.codegen.c import c_file
from lowering.errors import AccessError
from lowering.forms import NESTS

LEAST: Final = 0.012  # seconds of a call
LONGEST: Final = 5  # seconds of a call of another form
NOISE: Final = 1.05
TRIES: Final = 3  # of a ratio above that
FAR: Final = 2.0  # times as slow as the fastest: what is so at first is not timed again
FORMS: Final[Mapping[str, dict[str, str]]] = {
    "default": {},
    **{f"{c}/{n}": {"compute": c, "nests": n} for c, n in product(("exact", "box"), NESTS)},
}

Row = dict[str, Any]


def measure(case: Case, repeat: int, limit: float) -> Row:
    """The median of each form in seconds, forms with one text being one; the chosen forms, and seconds of `lower`."""
    texts: dict[str, str] = {}  # by text, the first form with it
    calls: dict[str, Callable[[], float]] = {}
    same: dict[str, str] = {}
    took: dict[str, float] = {}
    late: list[str] = []  # forms that take too long to lower or to run
    forms: dict[str, list[str]] = {}
    given: list[Any] = []
    for name, options in FORMS.items():
        begin = process_time()
        try:
            with within(limit):
                f, sizes = case.lowered(**options)
                file = c_file(f)
        except TimeoutError:
            late.append(name)
            continue
        took[name] = round(process_time() - begin, 2)
        if name == "default":
            given, forms = arrays(f, sizes), {t: [str(form) for form in found] for t, found in f.forms.items()}
        if not given:
            break
        same[name] = texts.setdefault(file.text, name)
        if same[name] == name:
            calls[name] = called(f, file, given, sizes)
    if "default" not in calls:
        return {"left out": f"lower: longer than {limit:g} s"}
    late += [name for name, call in calls.items() if name != "default" and not ends(call)]
    first = {name: min(call(), call()) for name, call in calls.items() if name not in late}
    often = {name: max(1, round(LEAST / max(s, 1e-6))) for name, s in first.items()}
    near = {name: call for name, call in calls.items() if name in first and first[name] < FAR * min(first.values())}
    ratio, kept = float("inf"), first
    for _ in range(TRIES):
        times: dict[str, list[float]] = {name: [] for name in near}
        for _ in range(repeat):
            for name, call in near.items():
                times[name].append(sum(call() for _ in range(often[name])) / often[name])
        found = first | {name: median(values) for name, values in times.items()}
        new = found["default"] / min((s for name, s in found.items() if name != "default"), default=found["default"])
        if new < ratio:
            ratio, kept = new, found
        if ratio <= NOISE or "default" not in near:
            break
    return {
        "ratio": ratio,
        "factor": case.factor,
        "seconds": kept,
        "same": same,
        "lowered": took,
        "late": late,
        "forms": forms,
    }


def ends(call: Callable[[], float]) -> bool:
    """Whether a call ends in time; asked of another process, as compiled code is not interrupted."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LONGEST)
        call()
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def row(made: Callable[[float], Case], repeat: int, limit: float) -> Row:
    """As `measure`; the reason where that is not possible."""
    try:
        with within(8 * limit):
            case = made(LEAST)
        return measure(case, repeat, limit)
    except TimeoutError:
        return {"left out": f"lower: longer than {limit:g} s"}
    except MemoryError:
        return {"left out": "arrays that are too large before it takes time"}
    except (AccessError, ScheduleError, IntSetError) as error:
        return {"left out": f"{type(error).__name__}: {str(error).splitlines()[0][:80]}"}


def line(name: str, r: Row) -> str:
    """A row of the table."""
    if "left out" in r:
        return f"{name:36} --   {r['left out']}"
    shown = ", ".join(f"{form} {s * 1e3:.3g}" for form, s in sorted(r["seconds"].items(), key=lambda pair: pair[1]))
    slowest = max(r["lowered"].values())
    late = f"; late: {', '.join(r['late'])}" if r["late"] else ""
    return f"{name:36} {r['ratio']:.2f} ms: {shown}; lower {slowest:.1f} s{late}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.forms", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", help="names, or what they begin with; default: all")
    parser.add_argument("--corpus", action="store_true", help="the schedule corpus")
    parser.add_argument("--kept", type=Path, help="a file that keeps the results")
    parser.add_argument("--again", type=float, default=float("inf"), help="measure again what is above this ratio")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds that lowering one form may take")
    parser.add_argument("--repeat", type=int, default=9, help="calls of each")
    options = parser.parse_args(argv)
    kept: dict[str, Row] = json.loads(options.kept.read_text()) if options.kept and options.kept.exists() else {}
    found: dict[str, Row] = {}
    for name, made in corpus() if options.corpus else fixed():
        if options.cases and not any(name.startswith(asked) for asked in options.cases):
            continue
        if name not in kept or kept[name].get("ratio", 0.0) > options.again:
            kept[name] = row(made, options.repeat, options.limit)
            if options.kept:
                options.kept.write_text(json.dumps(kept, indent=1))
            print(line(name, kept[name]), flush=True)
        found[name] = kept[name]
    timed = {name: r["ratio"] for name, r in found.items() if "ratio" in r}
    over = {name: ratio for name, ratio in timed.items() if ratio > NOISE}
    shown = ", ".join(f"{name} {ratio:.2f}" for name, ratio in over.items()) or "none"
    print(f"{len(timed)} timed, {len(found) - len(timed)} left out; above {NOISE}: {shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What kinds of work cost: the weights of `lowering.forms`, fitted to compiled nests, and how well they choose.

    python -m benchmarks.fit [case ...] [--times FILE] [--repeat N]

The cases are those of the schedule corpus at sizes that take time (`benchmarks.scaled`). Each is lowered with every
`compute` and `nests`; distinct nests are compiled and called in turn, and of each the least processor time counts. With
`--times` these are kept in a file, and read from it where they are there already.

Fitted is the sum of weighted work to the times: least squares of relative errors, of differences between the forms of
one case above all, with weights not below 0 and drawn a little to what they are now. Printed are the weights fitted to
all cases, and how much slower the form with the least cost is than the fastest one: with the weights as they are, and
of each half of the cases with weights fitted to the other half.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.scaled import LEAST, Scaled, names
from bound.errors import ScheduleError
from intset.errors import IntSetError
from intset.expr.evaluate import evaluate
from lowering import Function, lower
from lowering.codegen.c import CFile, c_file
from lowering.errors import AccessError
from lowering.forms.model import KINDS, work
from lowering.forms.weights import WEIGHTS
from lowering.native import FLAGS, compiled_library
from lowering.passes.partition import partition_loops

FORMS = tuple(product(("box", "exact"), ("ends", "guard", "split")))
ENOUGH = 0.008  # seconds that a call should take
MOST_BYTES = 1 << 28  # of one array
PAIRS = 3.0  # how much more a difference between two forms counts than the time of one
PRIOR = 0.1  # how much the weights are drawn to what they are

Timed = dict[str, tuple[dict[str, float], float]]  # by form: its work, and the seconds of a call


def timed(case: Scaled, repeat: int) -> Timed:
    """The forms of a case that are not the same nest; empty where there is one alone."""
    made: dict[str, tuple[Function, CFile]] = {}
    sizes: Mapping[str, int] = {}
    for compute, nests in FORMS:
        schedule, sizes = case.schedule()
        f = lower(schedule, compute=compute, nests=nests)
        file = c_file(f)
        if all(other.text != file.text for _, other in made.values()):
            made[f"{compute}/{nests}"] = f, file
    if len(made) < 2:
        return {}
    arrays = _arrays(next(iter(made.values()))[0], sizes)
    calls = {name: _call(f, file, arrays, sizes) for name, (f, file) in made.items()}
    best = dict.fromkeys(calls, float("inf"))
    for turn in range(repeat + 1):  # the first warms up
        for name, call in calls.items():
            seconds = call()
            best[name] = min(best[name], seconds) if turn else best[name]
    return {name: (_work(f, sizes), best[name]) for name, (f, _) in made.items()}


def enough(name: str, least: int) -> Scaled:
    """A case of the corpus at a factor at which it takes long enough, as far as its arrays allow that."""
    factor = 16
    while True:
        case = Scaled(name, least, factor)
        schedule, sizes = case.schedule()
        f = lower(schedule, compute="box")
        try:
            call = _call(f, c_file(f), _arrays(f, sizes), sizes)
        except MemoryError:
            return Scaled(name, least, factor // 2)
        call()
        seconds = min(call() for _ in range(3))
        if seconds >= ENOUGH or factor >= 1 << 22:
            return case
        factor *= 2 if seconds > ENOUGH / 5 else 4 if seconds > ENOUGH / 30 else 16


def _work(f: Function, sizes: Mapping[str, int]) -> dict[str, float]:
    total = dict.fromkeys(KINDS, 0.0)
    for done in work(partition_loops(f), {v: sizes[v.name] for v in f.sizes}).values():
        for kind, count in done.items():
            total[kind] += count
    return total


def _arrays(f: Function, sizes: Mapping[str, int]) -> list[Any]:
    rng = np.random.default_rng(0)
    found = []
    for t in f.params:
        shape = tuple(int(evaluate(e, {v: sizes[getattr(v, "name", "")] for v in e.free_vars()})) for e in t.extents)
        if 4 * np.prod(shape, dtype=float) > MOST_BYTES:
            raise MemoryError
        low, high = t.value_range or (0, 7)
        is_float = t.dtype.startswith("float")
        made = rng.standard_normal(shape, "float32") if is_float else rng.integers(int(low), int(high) + 1, shape)
        found.append(np.ascontiguousarray(made, t.dtype))
    return found


def _call(f: Function, file: CFile, arrays: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[], float]:
    function = getattr(ctypes.CDLL(str(compiled_library(file.text, FLAGS))), file.entry)
    wide = ctypes.c_int32 if file.bits == 32 else ctypes.c_int64
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in arrays] + [wide(sizes[v.name]) for v in f.sizes]

    def seconds() -> float:
        begin = process_time()
        if function(*args):
            raise RuntimeError(f"{f.name} failed")
        return process_time() - begin

    return seconds


def rows(asked: Sequence[str], file: Path | None, repeat: int) -> Iterator[tuple[str, Timed]]:
    """The cases with their forms; what has one form alone, or is no program at these sizes, is left out."""
    kept = json.loads(file.read_text()) if file is not None and file.exists() else {}
    for name, least in product(names(), LEAST):
        key = f"{name}@{least}"
        if asked and name not in asked and key not in asked:
            continue
        if key not in kept:
            try:
                found = timed(Scaled(name, least, 16), 0) and timed(enough(name, least), repeat)
            except (AccessError, ScheduleError, IntSetError, MemoryError) as error:
                print(f"{key}: {type(error).__name__}", file=sys.stderr)
                found = {}
            kept[key] = found
            if file is not None:
                file.write_text(json.dumps(kept))
            print(key, {form: f"{seconds * 1e3:.1f} ms" for form, (_, seconds) in found.items()}, flush=True)
        if kept[key] and min(seconds for _, seconds in kept[key].values()) > ENOUGH / 8:
            yield key, kept[key]


def fitted(cases: Sequence[tuple[str, Timed]]) -> dict[str, float]:
    """The weights that explain the times best, an operation being 1."""
    kinds = list(KINDS)
    a, b = [], []
    for _, forms in cases:
        lines = [np.array([done[k] for k in kinds]) / seconds * 1e-9 for done, seconds in forms.values()]
        first = min(range(len(lines)), key=lambda k: list(forms.values())[k][1])
        a += [*lines, *(PAIRS * (line - lines[first]) for k, line in enumerate(lines) if k != first)]
        b += [*(1.0 for _ in lines), *(0.0 for _ in lines[1:])]
    prior = np.array([WEIGHTS[k] for k in kinds])
    matrix, target = np.array(a), np.array(b)
    scale = max((matrix @ prior) @ target / ((matrix @ prior) @ (matrix @ prior)), 1e-9)
    pull = PRIOR * len(b) ** 0.5
    matrix = np.vstack([matrix, pull * np.diag(1 / (prior * scale))])
    target = np.concatenate([target, pull * np.ones(len(kinds))])
    gram, right = matrix.T @ matrix, matrix.T @ target
    weights = prior * scale
    for _ in range(2000):  # coordinate descent
        for j in range(len(kinds)):
            weights[j] = max(0.0, weights[j] + (right[j] - gram[j] @ weights) / gram[j, j])
    return {kind: float(w / weights[0]) for kind, w in zip(kinds, weights, strict=True)}


def ratios(cases: Sequence[tuple[str, Timed]], weights: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """Of each case, the time of the form with the least cost as a multiple of the shortest, and that form."""
    found = {}
    for name, forms in cases:
        cost = {form: sum(weights[k] * n for k, n in done.items()) for form, (done, _) in forms.items()}
        form = min(cost, key=lambda form: cost[form])
        found[name] = forms[form][1] / min(seconds for _, seconds in forms.values()), form
    return found


def _report(title: str, found: Mapping[str, tuple[float, str]]) -> None:
    values = [ratio for ratio, _ in found.values()]
    over = ", ".join(f"{name} {ratio:.2f} ({form})" for name, (ratio, form) in found.items() if ratio > 1.1)
    mean = float(np.exp(np.mean(np.log(values)))) if values else 1.0
    print(f"{title}: {len(values)} cases, mean {mean:.3f}, beyond 1.1: {over or 'none'}")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.fit", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("cases", nargs="*", help="of the corpus; default: all")
    parser.add_argument("--times", type=Path, help="a file that keeps the times")
    parser.add_argument("--repeat", type=int, default=9, help="calls of each form")
    options = parser.parse_args(argv)
    cases = list(rows(options.cases, options.times, options.repeat))
    if not cases:
        print("no case has more than one form", file=sys.stderr)
        return 2
    print("fitted:", json.dumps({kind: round(weight, 3) for kind, weight in fitted(cases).items()}, indent=1))
    _report("as they are", ratios(cases, WEIGHTS))
    for k in (0, 1):
        _report(f"half {k}, fitted to the other", ratios(cases[k::2], fitted(cases[1 - k :: 2] or cases)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

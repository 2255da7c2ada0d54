"""What kinds of work cost: the weights of `lowering.forms`, fitted to compiled nests, and how well they choose.

    python -m benchmarks.forms --corpus --kept FILE
    python -m benchmarks.fit FILE [case ...]

The times are those that `benchmarks.forms` keeps in a file; the work of each form is counted anew, so a change of the
model needs no new times. Fitted is the sum of weighted work to the times: least squares of relative errors, of
differences between the forms of one case above all, with weights not below 0 and drawn a little to what they are now.
Printed are the weights fitted to all cases, and how much slower the form with the least cost is than the fastest one:
with the weights as they are, and of each half of the cases with weights fitted to the other half.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cases import Case, fixed, scaled
from benchmarks.forms import FORMS, Row
from lowering.forms.model import KINDS, WEIGHTS, work
from lowering.passes.loops.index_set_splitting import partition_loops

PAIRS = 3.0  # how much more a difference between two forms counts than the time of one
PRIOR = 0.1  # how much the weights are drawn to what they are
LEAST = 0.002  # seconds of a call that say something

Timed = dict[str, tuple[dict[str, float], float]]  # by form: its work, and the seconds of a call


def rows(kept: Mapping[str, Row], asked: Sequence[str]) -> Iterator[tuple[str, Timed]]:
    """The cases with their forms; what has one form alone, or takes no time, is left out."""
    others = dict(fixed())
    for name, row in kept.items():
        seconds = row.get("seconds", {})
        if len(seconds) < 2 or min(seconds.values()) < LEAST or (asked and name not in asked):
            continue
        program, _, least = name.partition("@")
        case = scaled(program, int(least), row["factor"]) if least else others[program](0.0)
        yield name, {form: (_work(case, form, row), taken) for form, taken in seconds.items()}


def _work(case: Case, form: str, row: Row) -> dict[str, float]:
    """The work of a form; of what was chosen by default then, that of the form that it was."""
    same = (other for other, first in row["same"].items() if first == form and other != "default")
    f, sizes = case.lowered(**FORMS[next(same, form)])
    total = dict.fromkeys(KINDS, 0.0)
    for done in work(partition_loops(f), {v: sizes[v.name] for v in f.sizes}).values():
        for kind, count in done.items():
            total[kind] += count
    return total


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
    parser.add_argument("times", type=Path, help="what benchmarks.forms kept")
    parser.add_argument("cases", nargs="*", help="of these; default: all")
    options = parser.parse_args(argv)
    cases = list(rows(json.loads(options.times.read_text()), options.cases))
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

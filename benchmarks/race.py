"""Plain questions beside TVM, in one process and in turn: `python -m benchmarks.race [--seed N] [--json]`.

A question is cold: its variables, ranges, context and expression are built anew, then both ends are asked for. TVM's is
`tvm.sym`: simplify, then the constant bounds. Three families of expressions:

index-like   splits, fusions and strides of two to four loops, as schedules make them
random       trees of depth four over one to three small variables, with minima and maxima
operators    index expressions of whole operators, with constant bounds and without conditions

Times are processor times, the fastest of several repetitions. Per family: the median and the mean of our times over
TVM's, the ratio at percentiles of the two sorted lists, and the share of answers with both ends attained.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from statistics import mean, median
from time import process_time_ns
from typing import Any, NamedTuple

import intset
from benchmarks.cost import CORPUS, python_code
from intset import Context, Range, Var
from lowering.cli.inputs import Problem, read_rows


class Question(NamedTuple):
    """An expression as Python text over variables with ranges of numbers."""

    text: str
    ranges: dict[str, tuple[int, int]]  # min and extent


def index_like(count: int, seed: int = 0) -> list[Question]:
    """Index expressions as tiling, fusing and striding make them."""
    rng, rows = random.Random(seed), []
    for _ in range(count):
        names = ["i", "j", "k", "l"][: rng.randint(2, 4)]
        extents = {name: rng.choice([2, 3, 4, 7, 8, 14, 16, 28, 32, 64]) for name in names}
        text, size = names[0], extents[names[0]]
        for name in names[1:]:
            text, size = f"({text})*{extents[name]} + {name}", size * extents[name]
        for _ in range(rng.randint(0, 3)):
            c = rng.choice([2, 3, 4, 7, 8, 14, 16, 28])
            form = rng.choice(
                ["({0})//{1}", "({0})%{1}", "({0})*{1} + {2}", "({0})//{1}*{3} + ({0})%{1}", "({0}) + {2}*{1}"]
            )
            text = form.format(text, c, rng.choice(names), rng.choice([c, c + 2, 2 * c]))
        rows.append(Question(text, {name: (0, extents[name]) for name in names}))
    return rows


def random_trees(count: int, seed: int = 0) -> list[Question]:
    """Random trees over small boxes."""
    rng = random.Random(seed)

    def tree(names: Sequence[str], depth: int) -> str:
        if not depth or rng.random() < 0.15:
            return rng.choice(names) if rng.random() < 0.8 else str(rng.randint(-6, 20))
        kind, a = rng.random(), tree(names, depth - 1)
        if kind < 0.3:
            return f"({a} + {tree(names, depth - 1)})"
        if kind < 0.42:
            return f"({a} - {tree(names, depth - 1)})"
        if kind < 0.6:
            return f"({a})*{rng.choice([2, 3, 4, 8])}"
        if kind < 0.75:
            return f"({a})//{rng.choice([2, 3, 4, 8])}"
        if kind < 0.9:
            return f"({a})%{rng.choice([2, 3, 4, 8])}"
        return f"{rng.choice(['minimum', 'maximum'])}({a}, {tree(names, depth - 1)})"

    rows = []
    while len(rows) < count:
        names = ["i", "j", "k"][: rng.randint(1, 3)]
        text = tree(names, 4)
        if any(name in text.replace("minimum", "").replace("maximum", "") for name in names):
            rows.append(
                Question(text, {name: (rng.choice([0, 0, -3, 5]), rng.choice([4, 8, 10, 16])) for name in names})
            )
    return rows


def operators(count: int, seed: int = 0) -> list[Question]:
    """Index expressions of whole operators from the corpus."""
    rows = []
    for problem in map(Problem, read_rows(CORPUS)):
        if (
            problem.row.is_predicate
            or problem.conditions
            or any(limits.ends is None for limits in problem.ranges.values())
        ):
            continue
        ranges = {var.name: (int(limits.min), int(limits.extent)) for var, limits in problem.ranges.items()}
        rows += [Question(text, ranges) for text in problem.row.exprs]
    random.Random(seed).shuffle(rows)
    return rows[:count]


FUNCTIONS = ("minimum", "maximum", "truncdiv", "truncmod", "select", "logical_and", "logical_or", "logical_not")
Asked = Callable[[], tuple[int | None, int | None]]


def ours(question: Question) -> Asked:
    code = python_code(question.text)
    names = {name: getattr(intset, name) for name in FUNCTIONS}

    def ask() -> tuple[int | None, int | None]:
        table = {name: Var(name) for name in question.ranges}
        ctx = Context({table[name]: Range(low, extent) for name, (low, extent) in question.ranges.items()})
        return ctx.bounds(eval(code, names, table))

    return ask


def tvm(question: Question) -> Asked:
    sym, tirx, ir = import_module("tvm.sym"), import_module("tvm.tirx"), import_module("tvm.ir")
    code = python_code(question.text)
    names = {
        "minimum": tirx.min,
        "maximum": tirx.max,
        "truncdiv": tirx.truncdiv,
        "truncmod": tirx.truncmod,
        "select": tirx.if_then_else,
        "logical_and": tirx.And,
        "logical_or": tirx.Or,
        "logical_not": tirx.Not,
    }

    def ask() -> tuple[int | None, int | None]:
        table = {name: tirx.Var(name, "int32") for name in question.ranges}
        analyzer = sym.Analyzer()
        for name, (low, extent) in question.ranges.items():
            analyzer.bind(table[name], ir.Range.from_min_extent(low, extent))
        ends = analyzer.const_int_bound(analyzer.simplify(eval(code, names, table)))
        return ends.min_value, ends.max_value

    return ask


FAMILIES: dict[str, Callable[[int, int], list[Question]]] = {
    "index-like": index_like,
    "random": random_trees,
    "operators": operators,
}
PERCENTILES = (90, 95, 99)


def raced(questions: Sequence[Question], repeat: int) -> dict[str, float]:
    """The figures of one family."""
    runners = [ours, tvm] if find_spec("tvm") else [ours]
    times: list[list[float]] = [[] for _ in runners]
    tight = 0
    for question in questions:
        asks = [runner(question) for runner in runners]
        best = [float("inf")] * len(asks)
        gc.disable()
        for turn in range(repeat):
            for k in range(len(asks)) if turn % 2 else reversed(range(len(asks))):
                start = process_time_ns()
                answer: Any = asks[k]()
                best[k] = min(best[k], (process_time_ns() - start) / 1000)
                tight += not k and not turn and answer.is_tight
        gc.enable()
        for own_times, fastest in zip(times, best, strict=True):
            own_times.append(fastest)
    own = sorted(times[0])
    figures: dict[str, float] = {"questions": len(own), "exact": tight / len(own), "microseconds": median(own)}
    if len(times) > 1:
        peer = sorted(times[1])
        figures |= {"of TVM's": median(peer), "median": median(own) / median(peer), "mean": mean(own) / mean(peer)}
        for percent in PERCENTILES:
            at = min(len(own) - 1, len(own) * percent // 100)
            figures[f"{percent} %"] = own[at] / peer[at]
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="questions of each family")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions, of which the fastest counts")
    parser.add_argument("--seed", type=int, default=0, help="another draw of each family")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    found = {name: raced(draw(chosen.count, chosen.seed), chosen.repeat) for name, draw in FAMILIES.items()}
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(f"{name:<12}" + "".join(f"{key} {value:.3g}   " for key, value in figures.items()))


if __name__ == "__main__":
    main()

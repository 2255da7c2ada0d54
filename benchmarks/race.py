"""Plain questions beside TVM, islpy and sympy, in one process and in turn: `python -m benchmarks.race [--seed N]`.

A question is cold: its variables, ranges, context and expression are built anew, then both ends are asked for. A peer
that is not installed is left out.

tvm     `tvm.sym`: simplify, then the constant bounds
islpy   a piecewise affine function over the box, then its least and greatest value
sympy   the expression over accumulation bounds: interval arithmetic

Three families of expressions:

index-like   splits, fusions and strides of two to four loops, as schedules make them
random       trees of depth four over one to three small variables, with minima and maxima
operators    index expressions of whole operators, with constant bounds and without conditions

Times are processor times, the second fastest of several repetitions, so that one wrong reading of the clock does not
count. Per family: the share of our answers with both ends attained; and per peer the share of questions it has an
answer for, our median and mean over the peer's, the ratio at percentiles of the two sorted lists ("90 %"), and
percentiles of the ratios of single questions ("ratio 90 %").
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


class _Affine:
    """A piecewise affine function of isl under Python's operators."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def of(self, other: Any) -> Any:
        if isinstance(other, _Affine):
            return other.function
        isl, domain = import_module("islpy"), self.function.domain()
        return isl.PwAff.val_on_domain(domain, isl.Val.int_from_si(domain.get_ctx(), other))

    def __add__(self, other: Any) -> _Affine:
        return _Affine(self.function.add(self.of(other)))

    def __sub__(self, other: Any) -> _Affine:
        return _Affine(self.function.sub(self.of(other)))

    def __rsub__(self, other: Any) -> _Affine:
        return _Affine(self.of(other).sub(self.function))

    def __mul__(self, other: Any) -> _Affine:
        return _Affine(self.function.mul(self.of(other)))

    def __neg__(self) -> _Affine:
        return _Affine(self.function.neg())

    def __floordiv__(self, other: Any) -> _Affine:
        return _Affine(self.function.div(self.of(other)).floor())

    def __mod__(self, other: int) -> _Affine:
        isl = import_module("islpy")
        return _Affine(self.function.mod_val(isl.Val.int_from_si(self.function.get_ctx(), other)))

    __radd__, __rmul__ = __add__, __mul__


def _affine_choice(method: str) -> Callable[[Any, Any], _Affine]:
    def chosen(a: Any, b: Any) -> _Affine:
        a, b = (a, b) if isinstance(a, _Affine) else (b, a)
        return _Affine(getattr(a.function, method)(a.of(b)))

    return chosen


def islpy(question: Question) -> Asked:
    isl = import_module("islpy")
    code, ctx = python_code(question.text), isl.Context()
    names = {"minimum": _affine_choice("min"), "maximum": _affine_choice("max")}
    limits = " and ".join(f"{low} <= {v} < {low + extent}" for v, (low, extent) in question.ranges.items())

    def ask() -> tuple[int | None, int | None]:
        box = isl.Set.read_from_str(ctx, f"{{ [{', '.join(question.ranges)}] : {limits} }}")
        space = isl.LocalSpace.from_space(box.get_space())
        table = {
            name: _Affine(isl.PwAff.from_aff(isl.Aff.var_on_domain(space, isl.dim_type.set, k)).intersect_domain(box))
            for k, name in enumerate(question.ranges)
        }
        function = eval(code, names, table).function
        return function.min_val().to_python(), function.max_val().to_python()

    return ask


def sympy(question: Question) -> Asked:
    library, bounds = import_module("sympy"), import_module("sympy.calculus.accumulationbounds").AccumBounds
    code, names = python_code(question.text), {"minimum": library.Min, "maximum": library.Max}

    def ask() -> tuple[int | None, int | None]:
        import_module("sympy.core.cache").clear_cache()
        table = {name: library.Symbol(name, integer=True) for name in question.ranges}
        found = eval(code, names, table)
        found = found.subs(
            {table[name]: bounds(low, low + extent - 1) for name, (low, extent) in question.ranges.items()}
        )
        return (int(found.min), int(found.max)) if isinstance(found, bounds) else (int(found), int(found))

    return ask


PEERS = {"tvm": tvm, "islpy": islpy, "sympy": sympy}
FAMILIES: dict[str, Callable[[int, int], list[Question]]] = {
    "index-like": index_like,
    "random": random_trees,
    "operators": operators,
}
PERCENTILES = (50, 90, 95, 99)


def raced(questions: Sequence[Question], repeat: int, peers: Sequence[str]) -> dict[str, float]:
    """The figures of one family."""
    runners = [ours, *[PEERS[name] for name in peers]]
    times: list[list[float]] = [[] for _ in runners]
    tight = 0
    for question in questions:
        asks = [runner(question) for runner in runners]
        spent: list[list[float]] = [[] for _ in asks]
        gc.disable()
        for turn in range(repeat):
            for k in range(len(asks)) if turn % 2 else reversed(range(len(asks))):
                start = process_time_ns()
                try:
                    answer: Any = asks[k]()
                except Exception:
                    if not k:
                        raise
                    continue  # a peer without an answer
                spent[k].append((process_time_ns() - start) / 1000)
                tight += not k and not turn and answer.is_tight
        gc.enable()
        for own_times, runs in zip(times, spent, strict=True):
            own_times.append(sorted(runs)[1] if len(runs) > 1 else float("inf"))
    own = times[0]
    figures: dict[str, float] = {"questions": len(own), "exact": tight / len(own), "microseconds": median(own)}
    for name, theirs in zip(peers, times[1:], strict=True):
        figures |= {f"{name} {key}": value for key, value in compared(own, theirs).items()}
    return figures


def compared(own: Sequence[float], theirs: Sequence[float]) -> dict[str, float]:
    """Our times beside a peer's, over the questions that both answer."""
    both = [(a, b) for a, b in zip(own, theirs, strict=True) if b < float("inf")]
    figures = {"answered": len(both) / len(own)}
    if both:
        mine, peer, ratios = sorted(a for a, _ in both), sorted(b for _, b in both), sorted(a / b for a, b in both)
        figures |= {
            "microseconds": median(peer),
            "median": median(mine) / median(peer),
            "mean": mean(mine) / mean(peer),
        }
        places = {percent: min(len(both) - 1, len(both) * percent // 100) for percent in PERCENTILES}
        figures |= {f"{percent} %": mine[k] / peer[k] for percent, k in places.items()}
        figures |= {f"ratio {percent} %": ratios[k] for percent, k in places.items()}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200, help="questions of each family")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions, at least 2")
    parser.add_argument("--seed", type=int, default=0, help="another draw of each family")
    installed = [name for name in PEERS if find_spec(name)]
    parser.add_argument("--peers", nargs="*", choices=installed, default=installed, help="of those installed")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args()
    if chosen.repeat < 2:
        parser.error("--repeat must be at least 2")
    found = {
        name: raced(draw(chosen.count, chosen.seed), chosen.repeat, chosen.peers) for name, draw in FAMILIES.items()
    }
    if chosen.json:
        print(json.dumps(found, indent=2))
        return
    for name, figures in found.items():
        print(name)
        for group in ("", *chosen.peers):
            shown = {key: value for key, value in figures.items() if (key.split()[0] if " " in key else "") == group}
            print("    " + "".join(f"{key} {value:.3g}   " for key, value in shown.items()))


if __name__ == "__main__":
    main()

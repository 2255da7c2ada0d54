"""What proofs cost, as ratios in one run: `python -m benchmarks.prover [--repeat N] [--json]`.

cheap        questions that the linear form or a domain answers, against the z3 tier asked the same alone, and against
             z3 asked by hand (terms built with its Python interface, a new solver): at most 1/20
z3           questions that climb to z3, against z3 asked by hand: at most 1.5
repeated     the second time a question that climbs to z3 is asked, in the same context and in a new one, against the
             first: at most 1/100 (a new context is made outside of the clock)

The sides of a ratio take turns on each question, so that a busy machine slows both alike; of each the fastest
repetition counts. Every question is about variables that were not asked about before. The ratio of each question is
shown, their median is held against the target.
"""

from __future__ import annotations

import argparse
import gc
import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import z3

import intset
from intset import Context, Fact, Range, ShapeVar, Var, maximum, minimum, select
from intset.expr import ops
from intset.expr.dag import free_vars, postorder
from intset.expr.node import Expr

TARGETS = {
    "cheap / z3 tier": 1 / 20,
    "cheap / raw z3": 1 / 20,
    "z3-tier / raw z3": 1.5,
    "repeated / first": 1 / 100,
    "repeated, new context / first": 1 / 100,
}

i, j, k, x, y = (Var(name) for name in "ijkxy")
n, m, p = ShapeVar("n"), ShapeVar("m"), ShapeVar("p")


@dataclass(frozen=True)
class Question:
    """A goal in a context."""

    ranges: dict[Var, Range | None]
    goal: Any
    facts: tuple[Any, ...] = ()

    def context(self) -> Context:
        return Context(self.ranges, assume=self.facts)

    def decided_by(self) -> str:
        return self.context().prove(self.goal).by

    def anew(self) -> Question:
        """The same about new variables: nothing of it is known to any cache."""
        old = {*free_vars(self.goal, *(as_fact(f).condition for f in self.facts)), *self.ranges}
        old |= {var for limits in self.ranges.values() if limits is not None for var in limits.free_vars()}
        new: dict[Any, Any] = {v: ShapeVar(v.name) if isinstance(v, ShapeVar) else Var(v.name) for v in old}
        facts = tuple(as_fact(f).substitute(new) for f in self.facts)
        ranges = {new[v]: None if r is None else moved(r, new) for v, r in self.ranges.items()}
        return Question(ranges, self.goal.substitute(new), facts)


def as_fact(given: Any) -> Fact:
    return given if isinstance(given, Fact) else Fact(given)


def moved(limits: Range, new: dict[Any, Any]) -> Range:
    return Range(*(e.substitute(new) if isinstance(e, Expr) else e for e in (limits.min, limits.extent)))


CHEAP = [
    Question({i: Range(0, 8), j: Range(0, 4)}, i * 4 + j < 32),
    Question({i: Range(0, 64)}, (i // 8 * 8 + i % 8).eq(i)),
    Question({i: Range(0, 16), j: Range(0, 10)}, ((i * 10 + j) // 10).eq(i)),
    Question({i: Range(0, 100), j: Range(0, 10)}, ((i * 40 + j * 4) % 4).eq(0)),
    Question({x: None}, ((x % 16) % 4).eq(x % 4)),
    Question({x: None}, ((x // 4) % 4).eq((x % 16) // 4)),
    Question({i: Range(0, n), j: Range(0, m)}, i * m + j < n * m),
    Question({i: Range(0, n), j: Range(0, m)}, ((i * m + j) // m).eq(i)),
    Question({i: Range(0, n), j: Range(0, m), k: Range(0, p)}, (i * m + j) * p + k < n * m * p),
    Question({}, ((n * 65) % n).eq(0)),
    Question({i: Range(0, n)}, (i % n).eq(i)),
    Question({i: Range(0, n), j: Range(0, m)}, i * j <= (n - 1) * (m - 1)),
    Question({i: Range(0, n)}, minimum(i, n - 1).eq(i)),
    Question({i: Range(0, 32), j: Range(0, 4)}, minimum(i * 4 + j, 127) - i * 4 >= 0),
    Question({i: Range(0, 100)}, i * 3 + j < 100, (i * 4 + j < 14, j >= 0, j < 50)),
    Question({i: Range(0, n), j: Range(0, m)}, (i * m + j) // m * m + (i * m + j) % m < n * m),
    Question({x: None, y: Range(1, 100)}, (x // y) * y <= x),
    Question({i: Range(0, 56), j: Range(0, 3)}, select((i + j >= 1) & (i + j < 57), i + j - 1, 0) < 56),
]


def _div(a: Any, b: Any) -> Any:
    return z3.If(b > 0, a / b, -a / -b)


def _mod(a: Any, b: Any) -> Any:
    return z3.If(b > 0, a % b, -(-a % -b))


_TERMS: dict[Any, Callable[..., Any]] = {
    ops.ADD: operator.add,
    ops.SUB: operator.sub,
    ops.MUL: operator.mul,
    ops.FLOORDIV: _div,
    ops.FLOORMOD: _mod,
    ops.MIN: lambda a, b: z3.If(a <= b, a, b),
    ops.MAX: lambda a, b: z3.If(a >= b, a, b),
    ops.ABS: lambda a: z3.If(a >= 0, a, -a),
    ops.SELECT: z3.If,
    ops.AND: z3.And,
    ops.OR: z3.Or,
    **{op: op.meaning for op in ops.COMPARISONS},
}


class ByHand:
    """A question as a list of assertions for z3: the code that a person writes, without the search for it."""

    def __init__(self, q: Question) -> None:
        self.steps: list[tuple[Any, ...]] = []  # what to call, with the numbers of its arguments
        self._number: dict[Any, int] = {}
        facts = [as_fact(f).condition for f in q.facts]
        for var, limits in q.ranges.items():
            if limits is not None:
                facts += [var >= limits.min] if isinstance(limits.min, Expr) else []
                facts += [var <= limits.max] if isinstance(limits.max, Expr) else []
        facts += [var >= 0 for var in free_vars(q.goal, *facts) if isinstance(var, ShapeVar)]
        facts += [e.args[1].ne(0) for e in postorder((q.goal,)) if e.op in ops.DIVISIONS and not e.args[1].is_const]
        self.facts = [self._enter(fact) for fact in facts]
        self.goal = self._enter(q.goal)

    def _enter(self, root: Any) -> int:
        for node in postorder((root,)):
            if node in self._number:
                continue
            if node.op is ops.CONST:
                self.steps.append((None, node.data))
            elif node.op is ops.VAR:
                self.steps.append((z3.Int, node.name))
            elif node.op in (ops.FLOORDIV, ops.FLOORMOD) and node.args[1].is_const:
                machine = operator.truediv if node.op is ops.FLOORDIV else operator.mod
                self.steps.append((machine, *(self._number[arg] for arg in node.args)))
            else:
                self.steps.append((_TERMS[node.op], *(self._number[arg] for arg in node.args)))
            self._number[node] = len(self.steps) - 1
        return self._number[root]

    def __call__(self) -> None:
        """Make the terms and ask: the time that is measured."""
        values: list[Any] = []
        for function, *args in self.steps:
            leaf = function is None or function is z3.Int
            values.append(
                args[0] if function is None else function(*args) if leaf else function(*[values[a] for a in args])
            )
        solver = z3.Solver()
        for fact in self.facts:
            solver.add(values[fact])
        solver.add(z3.Not(values[self.goal]))
        if solver.check() != z3.unsat:
            raise AssertionError("z3 did not prove it")


HARD = [
    Question({i: Range(0, n * n)}, i * i < n * n * n * n),
    Question({}, (n * (n + 1) % 2).eq(0)),
    Question({x: None, y: None}, x * x + y * y >= 2 * x * y),
    Question({}, ((n * m) // maximum(m, 1)).eq(n) | m.eq(0)),
    Question({}, (n * m * 4) // (2 * m + 2) <= 2 * n),
    Question({x: None, y: Range(1, intset.POS_INF)}, abs(x % y) < y),
    Question({i: Range(0, n)}, i * i < n * n),
    Question({i: Range(0, n)}, i < 4, (Fact(n * n < 10, "asserted"),)),
]


def clocked(call: Callable[[], Any]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def asked(question: Question, tiers: str = "linear,isl,points,z3") -> float:
    """Seconds for a question about new variables, in a new context."""
    question = question.anew()
    with intset.using(tiers=tiers):
        ctx = question.context()
        return clocked(lambda: _proved(ctx, question.goal))


def _proved(ctx: Context, goal: Any) -> None:
    if not ctx.prove(goal):
        raise AssertionError(f"not proved: {goal}")


def repeated(question: Question, new: bool) -> tuple[float, float]:
    """Seconds for the first time and for the second."""
    question = question.anew()
    ctx = question.context()
    first = clocked(lambda: _proved(ctx, question.goal))
    again = question.context() if new else ctx
    return first, clocked(lambda: _proved(again, question.goal))


def turns(repeat: int, *calls: Callable[[], float]) -> list[float]:
    """The fastest of some repetitions of each, taken in turns."""
    found = [float("inf")] * len(calls)
    for _ in range(repeat):
        found = [min(best, call()) for best, call in zip(found, calls, strict=True)]
    return found


def measure(repeat: int) -> dict[str, list[tuple[str, float, float]]]:
    """For each comparison the questions with both times, in seconds."""
    table: dict[str, list[tuple[str, float, float]]] = {name: [] for name in TARGETS}
    gc.disable()
    try:
        for q in CHEAP:
            own, tier, raw = turns(repeat, partial(asked, q), partial(asked, q, "z3"), partial(clocked, ByHand(q)))
            table["cheap / z3 tier"].append((str(q.goal), own, tier))
            table["cheap / raw z3"].append((str(q.goal), own, raw))
        for q in HARD:
            if q.anew().decided_by() != "z3":
                raise AssertionError(f"not a question for z3: {q.goal}")
            row = turns(repeat, partial(asked, q), partial(clocked, ByHand(q)))
            table["z3-tier / raw z3"].append((str(q.goal), *row))
            for new, name in ((False, "repeated / first"), (True, "repeated, new context / first")):
                pairs = [repeated(q, new) for _ in range(repeat)]
                table[name].append((str(q.goal), min(b for _, b in pairs), min(a for a, _ in pairs)))
            gc.collect()
    finally:
        gc.enable()
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measure(1)  # everything is loaded and warm
    table = measure(options.repeat)
    medians = {name: median(a / b for _, a, b in rows) for name, rows in table.items()}
    if options.json:
        print(json.dumps({"targets": TARGETS, "medians": medians, "rows": table}, indent=1))
        return
    for name, rows in table.items():
        missed = "" if medians[name] <= TARGETS[name] else "  MISSED"
        print(f"{name}: median {medians[name]:.4f}, target {TARGETS[name]:.4f}{missed}")
        for goal, a, b in rows:
            print(f"    {a / b:8.4f}  {a * 1e6:9.1f} us  {b * 1e6:9.1f} us  {goal[:70]}")


if __name__ == "__main__":
    main()

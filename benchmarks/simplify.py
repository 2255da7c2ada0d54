"""What `simplify` costs beside `tvm.sym`'s: `python -m benchmarks.simplify [--repeat N]`, where TVM is installed.

Every expression and condition of the index corpus, built before; each repetition makes a fresh `Context`, or a fresh
analyzer with the same ranges bound and conditions entered, and simplifies. The two take turns on each row, so that a
busy machine slows both alike; of each row the fastest repetition counts. Target: at most 1.5 times, at the median.
"""

import argparse
import gc
import importlib
from collections.abc import Callable
from contextlib import nullcontext
from functools import reduce
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from intset import Context
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Node, as_expr
from lowering.cli.inputs import Problem, read_rows

CORPUS = Path(__file__).parent / "data" / "index_expressions.json"
TARGET = 1.5
_NAMES = {
    ops.ADD: "Add", ops.SUB: "Sub", ops.MUL: "Mul", ops.FLOORDIV: "FloorDiv", ops.FLOORMOD: "FloorMod", ops.MIN: "Min",
    ops.MAX: "Max", ops.LT: "LT", ops.LE: "LE", ops.GT: "GT", ops.GE: "GE", ops.EQ: "EQ", ops.NE: "NE", ops.AND: "And",
    ops.OR: "Or", ops.NOT: "Not", ops.SELECT: "Select", ops.TRUNCDIV: "truncdiv", ops.TRUNCMOD: "truncmod",
}  # fmt: skip
Ask = Callable[[], Any]


class Theirs:
    """Expressions of ours as TVM's, and the question to its analyzer."""

    def __init__(self) -> None:
        self.sym, self.tirx = importlib.import_module("tvm.sym"), importlib.import_module("tvm.tirx")
        self.ir = importlib.import_module("tvm.ir")
        self.made: dict[Node, Any] = {}

    def of(self, root: Node) -> Any:
        for e in postorder((root,)):
            if e in self.made:
                continue
            if e.op is ops.CONST:
                self.made[e] = self.tirx.IntImm("int64", e.data)
            elif e.op is ops.VAR:
                self.made[e] = self.tirx.Var(str(e), "int64")
            elif e.op is ops.BOOL:
                self.made[e] = self.tirx.const(e.data, "bool")
            else:
                self.made[e] = getattr(self.tirx, _NAMES[e.op])(*[self.made[arg] for arg in e.args])
        return self.made[root]

    def entered(self, problem: Problem, e: Node) -> tuple[Any, Callable[[], Any], Any]:
        """An analyzer with the ranges bound, what enters the conditions, and the expression."""
        analyzer = self.sym.Analyzer()
        for var, r in problem.ranges.items():
            span = self.ir.Range.from_min_extent(self.of(as_expr(r.min)), self.of(as_expr(r.extent)))
            analyzer.bind(self.of(var), span)
        conditions = [self.of(cond) for cond in problem.conditions]
        if not conditions:
            return analyzer, nullcontext, self.of(e)
        both = reduce(self.tirx.And, conditions)
        return analyzer, lambda: analyzer.constraint_scope(both), self.of(e)

    def asking(self, problem: Problem, e: Node) -> Ask:
        ranges = [
            (self.of(var), self.ir.Range.from_min_extent(self.of(as_expr(r.min)), self.of(as_expr(r.extent))))
            for var, r in problem.ranges.items()
        ]
        conditions = [self.of(cond) for cond in problem.conditions]
        asked = self.of(e)

        def ask() -> Any:
            analyzer = self.sym.Analyzer()
            for var, span in ranges:
                analyzer.bind(var, span)
            if not conditions:
                return analyzer.simplify(asked)
            both = conditions[0]
            for cond in conditions[1:]:
                both = self.tirx.And(both, cond)
            with analyzer.constraint_scope(both):
                return analyzer.simplify(asked)

        return ask


def ours(problem: Problem, e: Node) -> Ask:
    return lambda: Context(problem.ranges, assume=problem.conditions).simplify(e)


def measure(repeat: int) -> tuple[list[float], list[float]]:
    """Seconds of ours and of theirs for every row: the fastest of the repetitions."""
    theirs = Theirs()
    asks = [
        (ours(problem, e), theirs.asking(problem, e))
        for problem in map(Problem, read_rows(CORPUS))
        for e in problem.exprs
    ]
    best = [[float("inf"), float("inf")] for _ in asks]
    gc.disable()
    for turn in range(repeat):
        for row, pair in enumerate(asks):
            for side in (0, 1) if turn % 2 else (1, 0):
                start = perf_counter()
                pair[side]()
                best[row][side] = min(best[row][side], perf_counter() - start)
        gc.collect()
    gc.enable()
    return [a for a, _ in best], [b for _, b in best]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simplify", description="simplify beside tvm.sym's.")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions; the fastest of each row counts")
    mine, other = measure(parser.parse_args().repeat)
    ratios = sorted(a / b for a, b in zip(mine, other, strict=True))
    print(f"{len(mine)} rows; microseconds at the median: {median(mine) * 1e6:.0f}, tvm.sym {median(other) * 1e6:.0f}")
    print(
        f"ratio of medians {median(mine) / median(other):.2f}, median of ratios {median(ratios):.2f} (target {TARGET}),"
    )
    print(f"nine tenths of the rows below {ratios[len(ratios) * 9 // 10]:.1f}")

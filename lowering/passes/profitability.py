"""Profitability: operation counts that tell whether naming a value or splitting a loop pays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.expr import ops
from intset.expr.dag import chain, postorder
from intset.expr.node import Cond, Expr, Var, constant_value
from lowering.nest.ir import Allocate, Assume, For, If, Stmt, Store
from lowering.nest.walk import children, operands, range_ends, statements
from lowering.passes.values.integers import LAZY

ITERATIONS: Final = 24  # assumed iterations of a loop of symbolic extent
UNENDING: Final = 1 << 62  # iterations that no longer make a difference; floats hold what is made of them
RARE: Final = 0.5  # how often a branch is taken
MAX_NODES: Final = 500  # larger operands are left as they are
_DIVISIONS: Final = (*ops.DIVISIONS, ops.SHR, ops.BITAND)

Times: TypeAlias = "Mapping[Expr, float]"


class Counts:
    """Operation counts of expressions, shared by all loops of a nest."""

    def __init__(self) -> None:
        self._times: dict[Operand, Times] = {}
        self._work: dict[Operand, int] = {}

    def times(self, root: Operand) -> Times:
        """Evaluation counts of the integers below an operand, per evaluation of it; branches count half."""
        counts = self._times.get(root)
        if counts is None:
            counts = self._times[root] = _times(root)
        return counts

    def work(self, e: Operand) -> int:
        """The operations of an expression; a division counts twice."""
        for node in walk.nodes(e) if e not in self._work else ():
            if node not in self._work:
                self._work[node] = _own(node) + sum(self._work[arg] for arg in node.args)
        return self._work[e]

    def work_inside(self, e: Expr, here: Collection[Parameter], fewest: int) -> int:
        """The operations of an expression that are not named further outside: variables in `here` decide the rest."""
        works: dict[Operand, int] = {}
        for node in walk.nodes(e):
            if isinstance(node, (Expr, Cond)) and not any(v in here for v in node.free_vars()):
                work = self.work(node)
                works[node] = work if work < fewest else 0
            else:
                works[node] = _own(node) + sum(works[arg] for arg in node.args)
        return works[e]


class Uses:
    """How often expressions are evaluated in statements, once each is executed; names are taken into account."""

    def __init__(self, counts: Counts, stmts: Iterable[Stmt]) -> None:
        self.counts = counts
        self.of: dict[Expr, float] = {}
        waiting = [(stmt, 1.0) for stmt in reversed(tuple(stmts))]
        while waiting:
            stmt, times = waiting.pop()
            if isinstance(stmt, For):
                waiting.append((stmt.body, times * _iterations(range_ends(stmt.range)[1])))
                continue
            for e in () if isinstance(stmt, (Allocate, Assume)) else operands(stmt):
                for node, k in counts.times(e).items():
                    self.of[node] = self.of.get(node, 0.0) + k * times
            share = RARE * times if isinstance(stmt, If) else times
            waiting.extend((inner, share) for inner in reversed(children(stmt)))

    def name(self, e: Expr) -> None:
        """From now on `e` is evaluated once."""
        saved = self.of[e] - 1.0
        for node, k in self.counts.times(e).items():
            self.of[node] -= k * saved


def _own(e: Operand) -> int:
    return 2 if e.op in _DIVISIONS and isinstance(e, Expr) else 1 if e.args else 0


def _times(root: Operand) -> Times:
    times: dict[Operand, float] = {root: 1.0}
    below = list(islice(postorder((root,)), MAX_NODES + 1))
    if len(below) > MAX_NODES:
        return {}
    for node in reversed(below):
        for k, arg in enumerate(node.args):
            share = RARE * times[node] if k and node.op in LAZY else times[node]
            times[arg] = times.get(arg, 0.0) + share
    return {node: k for node, k in times.items() if isinstance(node, Expr) and node.args}


def _iterations(extent: Expr) -> float:
    """About how many iterations a loop has."""
    numbers = [k for part in chain(ops.MIN, extent) if (k := constant_value(part)) is not None]
    return float(max(0, min(*numbers, UNENDING) if numbers else ITERATIONS))


SHORT: Final = 128  # simple operations of a loop beside which a number of iterations that is not constant costs
WORTH: Final = 150  # simple operations beside which finding the ends of pieces costs nothing
ENTER: Final = 300  # simple operations that entering a loop in pieces costs whose ends are found each time
SMALL: Final = 0.1  # the largest share of a loop's work that entering pieces may cost
TRIPS: Final = 64  # assumed iterations of a loop of symbolic extent
VECTOR: Final = 6  # iterations of an innermost loop that run at a time

LoopWork: TypeAlias = "Mapping[Var, float]"  # work of each enclosing loop, per iteration of the innermost one


class Worth:
    """Operation counts of the statements of a nest, each computed once."""

    def __init__(self) -> None:
        self._work: dict[Stmt, float] = {}

    def work(self, stmt: Stmt) -> float:
        """The operations of a statement, about."""
        operations = self._work.get(stmt)
        if operations is None:
            operations = self._work[stmt] = self._counted(stmt)
        return operations

    def _counted(self, stmt: Stmt) -> float:
        if isinstance(stmt, For):
            is_innermost = not any(isinstance(s, (For, If)) for s in statements(stmt.body))
            return _trips(stmt) * self.work(stmt.body) / (VECTOR if is_innermost else 1)
        if isinstance(stmt, Store):
            return 1.0 + sum(1 for node in walk.nodes(stmt.value) if node.args and isinstance(node, Value))
        return sum(self.work(inner) for inner in children(stmt))

    def is_short(self, loop: For) -> bool:
        """Whether a loop gains much from a constant number of iterations."""
        return self.work(loop) <= SHORT

    def decides(self, loop: For, free: set[Var], around: LoopWork) -> bool:
        """Whether splitting this loop for a condition on the variables `free` pays, unless an inner loop decides it.

        It pays if the breakpoint is a constant, or if computing it costs little beside the loop, or beside the work of
        the next enclosing loop that mentions a variable of `free`.
        """
        if loop.var not in free:
            return False
        if free == {loop.var} or self.work(loop) >= WORTH:
            return True
        nearest = next((work for var, work in reversed(list(around.items())) if var in free), 0.0)
        return SMALL * nearest >= ENTER

    def inside(self, around: LoopWork, loop: For) -> LoopWork:
        """The loops around the body of a loop."""
        count = max(_trips(loop), 1)
        return {**{var: work / count for var, work in around.items()}, loop.var: self.work(loop) / count}

    def entered(self, path: Sequence[For], around: LoopWork) -> Iterator[tuple[For, LoopWork]]:
        """Nested loops, each with the loops around it."""
        for loop in path:
            yield loop, around
            around = self.inside(around, loop)


def _trips(loop: For) -> int:
    """The iterations of a loop, about."""
    count = _most(range_ends(loop.range)[1])
    return TRIPS if count is None else max(0, min(count, UNENDING))


def _most(extent: Expr) -> int | None:
    """A syntactic upper bound of an extent."""
    numbers = [n for part in chain(ops.MIN, extent) if (n := constant_value(part)) is not None]
    return min(numbers, default=None)

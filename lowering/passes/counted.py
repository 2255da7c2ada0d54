"""How often the parts of operands are evaluated: what naming one of them saves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final, TypeAlias

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, ValueOp
from intset.expr import ops
from intset.expr.node import Cond, Expr, constant_value
from intset.expr.walk import chain, postorder
from lowering.nest.ir import Allocate, Assume, For, If, Stmt
from lowering.nest.walk import children, operands, range_ends

SIZE: Final = 24  # stands for a number of iterations that is not constant
UNENDING: Final = 1 << 62  # iterations that no longer make a difference; floats hold what is made of them
RARE: Final = 0.5  # how often a branch is taken
MAX_NODES: Final = 500  # larger operands are left as they are
_DIVISIONS: Final = (*ops.DIVISIONS, ops.SHR, ops.BITAND)
_LAZY: Final = (ops.SELECT, ops.AND, ops.OR, ValueOp.SELECT, ValueOp.AND, ValueOp.OR)

Times: TypeAlias = "Mapping[Expr, float]"


class Counts:
    """What is known of expressions alone, for all loops of a nest."""

    def __init__(self) -> None:
        self._times: dict[Operand, Times] = {}
        self._work: dict[Operand, int] = {}

    def times(self, root: Operand) -> Times:
        """The integers below an operand, with how often each is evaluated when it is; a branch counts half."""
        found = self._times.get(root)
        if found is None:
            found = self._times[root] = _times(root)
        return found

    def work(self, e: Operand) -> int:
        """The operations of an expression; a division counts twice."""
        for node in walk.nodes(e) if e not in self._work else ():
            if node not in self._work:
                self._work[node] = _own(node) + sum(self._work[arg] for arg in node.args)
        return self._work[e]

    def work_inside(self, e: Expr, here: Collection[Parameter], fewest: int) -> int:
        """The operations of an expression that are not named further outside: variables in `here` decide the rest."""
        found: dict[Operand, int] = {}
        for node in walk.nodes(e):
            if isinstance(node, (Expr, Cond)) and not any(v in here for v in node.free_vars()):
                work = self.work(node)
                found[node] = work if work < fewest else 0
            else:
                found[node] = _own(node) + sum(found[arg] for arg in node.args)
        return found[e]


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
    return 2 if e.op in _DIVISIONS else 1 if e.args else 0


def _times(root: Operand) -> Times:
    found: dict[Operand, float] = {root: 1.0}
    below = list(islice(postorder((root,)), MAX_NODES + 1))
    if len(below) > MAX_NODES:
        return {}
    for node in reversed(below):
        for k, arg in enumerate(node.args):
            share = RARE * found[node] if k and node.op in _LAZY else found[node]
            found[arg] = found.get(arg, 0.0) + share
    return {node: k for node, k in found.items() if isinstance(node, Expr) and node.args}


def _iterations(extent: Expr) -> float:
    """About how many iterations a loop has."""
    numbers = [k for part in chain(ops.MIN, extent) if (k := constant_value(part)) is not None]
    return float(max(0, min(*numbers, UNENDING) if numbers else SIZE))

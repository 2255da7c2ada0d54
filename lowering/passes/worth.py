"""What loops do, about, and whether a condition is worth deciding in one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from bound.tir import walk
from bound.tir.value import Value
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from intset.expr.walk import chain
from lowering.nest.ir import For, If, Stmt, Store
from lowering.nest.walk import children, range_ends, statements
from lowering.passes.counted import UNENDING

SHORT: Final = 128  # simple operations of a loop beside which a number of iterations that is not constant costs
WORTH: Final = 150  # simple operations beside which finding the ends of pieces costs nothing
ENTER: Final = 300  # simple operations that entering a loop in pieces costs whose ends are found each time
SMALL: Final = 0.1  # of the work of a loop: what that may cost, so that the rest has no copies for it
SIZE: Final = 64  # stands for a number of iterations that is not constant
VECTOR: Final = 6  # iterations of an innermost loop that run at a time

Around: TypeAlias = "Mapping[Var, float]"  # loops, with their work in the time of one iteration of the innermost one


class Worth:
    """The work of the statements of one nest, each counted once."""

    def __init__(self) -> None:
        self._work: dict[Stmt, float] = {}

    def work(self, stmt: Stmt) -> float:
        """The operations of a statement, about."""
        found = self._work.get(stmt)
        if found is None:
            found = self._work[stmt] = self._counted(stmt)
        return found

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

    def decides(self, loop: For, free: set[Var], around: Around) -> bool:
        """Whether a condition on `free` is decided in this loop, if not further inside: where it changes is a number,
        or finding out is little beside what the loop does, or beside what the next one that could decide it does
        meanwhile."""
        if loop.var not in free:
            return False
        if free == {loop.var} or self.work(loop) >= WORTH:
            return True
        nearest = next((work for var, work in reversed(list(around.items())) if var in free), 0.0)
        return SMALL * nearest >= ENTER

    def inside(self, around: Around, loop: For) -> Around:
        """The loops around the body of a loop."""
        count = max(_trips(loop), 1)
        return {**{var: work / count for var, work in around.items()}, loop.var: self.work(loop) / count}

    def entered(self, path: Sequence[For], around: Around) -> Iterator[tuple[For, Around]]:
        """Loops inside one another, each with those around it."""
        for loop in path:
            yield loop, around
            around = self.inside(around, loop)


def _trips(loop: For) -> int:
    """The iterations of a loop, about."""
    count = _most(range_ends(loop.range)[1])
    return SIZE if count is None else max(0, min(count, UNENDING))


def _most(extent: Expr) -> int | None:
    """A number that an extent is not above, as it is written."""
    numbers = [n for part in chain(ops.MIN, extent) if (n := constant_value(part)) is not None]
    return min(numbers, default=None)

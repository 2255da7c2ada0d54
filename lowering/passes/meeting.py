"""Where two accesses of a statement touch one element, as sets: what passes ask that change the order of iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from bound.tensor import Tensor
from bound.tir.walk import loaded_tensor, nodes
from intset.errors import BudgetError
from intset.expr.build import logical_and, logical_or
from intset.expr.node import Cond, Expr, PlainVar, Var
from lowering.dataflow.points import Points
from lowering.dataflow.program import Access, Program, Write
from lowering.errors import LayoutError
from lowering.nest.ir import Allocate, Evaluate, Function, Stmt, Store
from lowering.nest.scope import Scope
from lowering.nest.walk import operands, statements

MAX_OPERATIONS = 1_000_000  # of isl, for two accesses


class StaysError(Exception):
    """Why a place stays as it is."""


class Meeting:
    """The accesses of one statement of a function.

    Parameters
    ----------
    scope: what is known where the statement stands.
    """

    def __init__(self, f: Function, stmt: Stmt, scope: Scope) -> None:
        used: dict[Tensor, None] = {}
        own = {inner.tensor for inner in statements(stmt) if isinstance(inner, Allocate)}
        for inner in statements(stmt):
            if isinstance(inner, Store):
                used[inner.tensor] = None
            if isinstance(inner, Evaluate):
                used.update(dict.fromkeys((*inner.reads, *inner.writes)))
            found = (loaded_tensor(node) for node in nodes(*operands(inner)))
            used.update((t, None) for t in found if t is not None)
        self.points = Points(
            Program(replace(f, params=tuple(t for t in used if t not in own), outputs=(), body=stmt, ctx=scope.ctx))
        )

    def conflicts(self) -> Iterator[tuple[Access, Access]]:
        """Pairs of accesses of the same storage of which one at least writes.

        What is allocated inside is left out: each iteration has its own.
        """
        program = self.points.program
        for storage in (s for s in program.storages if s.is_param):
            writes = [w for w in program.writes[storage] if w.kind != "assume"]
            every: list[Access] = [*program.reads[storage], *writes]
            for k, a in enumerate(every):
                for b in every[k:]:
                    if (isinstance(a, Write) or isinstance(b, Write)) and not self.points.are_apart(a, b):
                        yield a, b

    def met(
        self, a: Access, b: Access, order: Callable[[Sequence[Var], Sequence[Var]], Cond]
    ) -> tuple[int, ...] | None:
        """Values of the loops around both accesses at which they touch one element, or may, and `order(x, y)` holds.

        Raises
        ------
        LayoutError: the order is no condition that sets can have.
        StaysError: the answer is out of the budget.
        """
        x = [PlainVar(v.name) for v in a.loop.vars]
        y = [PlainVar(v.name) for v in b.loop.vars]
        try:
            met = self.points.kind.everything(len(x) + len(y)).restricted([*x, *y], order(x, y))
        except BudgetError as error:
            raise LayoutError(f"whether the order of accesses matters is not known: {error}") from error
        try:
            first, second = self.points.graph(a), self.points.graph(b)
            own, other = range(first.depth), first.instances + first.dims
            with first.points.budget(MAX_OPERATIONS):
                both = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
                met = both.project([*own, *range(other, other + second.depth)]).intersect(met)
                return None if met.is_empty() else met.sample()
        except BudgetError as error:
            raise StaysError(f"whether the order of accesses matters is out of the budget: {error}") from error


def earlier(x: Sequence[Expr], y: Sequence[Expr]) -> Cond:
    """That one point comes before another in lexicographic order."""
    less = [logical_and(*(a.eq(b) for a, b in zip(x[:k], y[:k], strict=True)), x[k] < y[k]) for k in range(len(x))]
    return logical_or(*less)

"""Dependences of one statement: access pairs sharing an element, with at least one write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from bound.tensor import Tensor
from intset.budgets import DEPENDENCE
from intset.errors import BudgetError
from intset.expr.node import Cond, PlainVar, Var
from intset.regions.shape import Shape
from lowering.dataflow.access_relations import InstanceSets
from lowering.dataflow.program import Access, Program, WriteAccess
from lowering.errors import LayoutError
from lowering.nest.ir import Allocate, Evaluate, Function, Stmt
from lowering.nest.scope import Scope
from lowering.nest.tensors import element_accesses
from lowering.nest.walk import statements

ExecutionOrder: TypeAlias = "Callable[[Sequence[Var], Sequence[Var]], Cond]"
"""A condition on the loops around two accesses, outermost first."""


class Dependences:
    """The dependences of a statement of a function.

    Storage that is allocated inside is left out.

    Parameters
    ----------
    scope: the scope in front of the statement.
    """

    def __init__(self, f: Function, stmt: Stmt, scope: Scope) -> None:
        used: dict[Tensor, None] = {}
        own = {inner.tensor for inner in statements(stmt) if isinstance(inner, Allocate)}
        for inner in statements(stmt):
            if isinstance(inner, Evaluate):
                used.update(dict.fromkeys((*inner.reads, *inner.writes)))
            used.update((access.tensor, None) for access in element_accesses(inner))
        params = tuple(t for t in used if t not in own)
        self.program = Program(replace(f, params=params, outputs=(), body=stmt, ctx=scope.ctx))
        self._sets = InstanceSets(self.program)

    def pairs(self) -> Iterator[tuple[Access, Access]]:
        """Access pairs with possibly overlapping elements and at least one write."""
        for storage in (s for s in self.program.storages if s.is_param):
            writes = [w for w in self.program.writes[storage] if w.kind != "assume"]
            every: list[Access] = [*self.program.reads[storage], *writes]
            for k, a in enumerate(every):
                for b in every[k:]:
                    is_write = isinstance(a, WriteAccess) or isinstance(b, WriteAccess)
                    if is_write and not self._sets.are_apart(a, b):
                        yield a, b

    def text(self, access: Access) -> str:
        """The printed line of the statement of an access."""
        return self.program.lines[access.site.path].text.strip()

    def is_exact(self, access: Access) -> bool:
        """Whether an access certainly happens, to known elements."""
        return self._sets.relation(access).is_exact

    def meetings(self, a: Access, b: Access, order: ExecutionOrder, with_element: bool = False) -> Shape | None:
        """The values `(*x, *y)` of the loops around two accesses to one element, in some order; `None` for none.

        Guarantee: a superset; equal if both accesses are exact.

        Parameters
        ----------
        with_element: whether the indices of the element follow.

        Raises
        ------
        LayoutError: sets cannot express the order.
        BudgetError: the answer is out of the budget.
        """
        x = [PlainVar(v.name) for v in a.loop.vars]
        y = [PlainVar(v.name) for v in b.loop.vars]
        element = [PlainVar(f"e{k}") for k in range(len(a.indices) if with_element else 0)]
        try:
            ordered = self._sets.kind.where([*x, *y, *element], order(x, y))
        except BudgetError as error:
            raise LayoutError(f"whether the order of accesses matters is not known: {error}") from error
        try:
            first, second = self._sets.relation(a), self._sets.relation(b)
            other = first.instances + first.dims
            key = range(first.instances, first.instances + len(element))
            with first.points.budget(DEPENDENCE):
                joined = first.keyed(0, False).product_with(second.keyed(0, True), first.dims)
                loops = [*range(first.depth), *range(other, other + second.depth)]
                shape = joined.project([*loops, *key]).intersect(ordered)
                return None if shape.is_empty() else shape
        except BudgetError as error:
            raise _undecided(error) from error

    def witness(self, a: Access, b: Access, order: ExecutionOrder) -> tuple[int, ...] | None:
        """A point of `meetings`; `None` if two accesses never meet in this order.

        Raises
        ------
        LayoutError, BudgetError: as `meetings`.
        """
        shape = self.meetings(a, b, order)
        try:
            return None if shape is None else shape.sample()
        except BudgetError as error:
            raise _undecided(error) from error


def _undecided(error: BudgetError) -> BudgetError:
    return BudgetError(f"whether the order of accesses matters is out of the budget: {error}")

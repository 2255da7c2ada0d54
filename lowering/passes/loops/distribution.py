"""Loop distribution: statements of a loop, or groups that belong together, get loops of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import NamedTuple

from bound.tensor import Tensor
from bound.tir.build import negation, together
from bound.tir.value import Operand, Truth
from intset.expr.dag import opaque_terms
from intset.expr.node import Cond, Expr, Var
from intset.expr.printer import shown
from lowering.dataflow.program import Access
from lowering.dataflow.reaching import Dependences, precedes
from lowering.errors import LayoutError
from lowering.nest.ir import MOVABLE, Allocate, Evaluate, For, Function, If, Let, Seq, Stmt, Store, flat, seq
from lowering.nest.scope import Scope, written_in
from lowering.nest.tensors import element_accesses
from lowering.nest.undef import has_undef
from lowering.nest.walk import statements, tensors_read
from lowering.passes.values.cse import with_inlined_names


class StaysError(Exception):
    """The reason why a loop stays unchanged."""


class Nest(NamedTuple):
    """Loops around a statement, the outermost first, and the guards between them, which depend on integers alone."""

    loops: tuple[For, ...]
    guards: tuple[Cond, ...]
    body: Stmt

    def stmt(self) -> Stmt:
        """The nest as a statement, its guards inside of all loops."""
        inner = If(together(*self.guards), self.body) if self.guards else self.body
        for loop in reversed(self.loops):
            inner = replace(loop, body=inner)
        return inner


class _Component(NamedTuple):
    """A statement inside of loops and guards, and the tests of data that nothing in the nest changes."""

    stmt: Stmt
    loops: tuple[For, ...] = ()
    guards: tuple[Cond, ...] = ()
    tests: tuple[Truth, ...] = ()

    def nest(self) -> Nest:
        body = If(together(*self.tests), self.stmt) if self.tests else self.stmt
        return Nest(self.loops, self.guards, body)

    def under(self, stmt: Stmt, cond: Truth) -> _Component:
        """A statement under one more condition."""
        if isinstance(cond, Cond) and not opaque_terms(cond):
            return self._replace(stmt=stmt, guards=(*self.guards, cond))
        return self._replace(stmt=stmt, tests=(*self.tests, cond))


def touches(stmt: Stmt, tensor: Tensor) -> bool:
    """Whether a statement reads or writes elements of a tensor."""
    for inner in statements(stmt):
        if isinstance(inner, Evaluate) and tensor in (*inner.reads, *inner.writes):
            return True
        if any(access.tensor is tensor for access in element_accesses(inner)):
            return True
    return False


def stored_indices(stmt: Stmt, tensor: Tensor) -> dict[tuple[Expr, ...], None]:
    """The indices with which a statement stores to a tensor."""
    stores = (s for s in statements(stmt) if isinstance(s, Store) and s.tensor is tensor)
    return dict.fromkeys(s.indices for s in stores)


def nests_of(root: For, tensor: Tensor) -> list[Nest]:
    """Distribute a loop into nests, in order.

    Each nest has loops around a statement without a loop over the tensor, whose stores to the tensor have equal
    indices.

    Raises
    ------
    StaysError: a loop is immovable.
    LayoutError: the statements of a loop are inseparable.
    """
    nests: list[Nest] = []
    stack = [_Component(with_inlined_names(root, _is_plain))]
    written = written_in(root)
    while stack:
        part = stack.pop()
        inner = _inside(part, tensor, written)
        if inner is None:
            nests.append(part.nest())
        else:
            stack.extend(reversed(inner))
    if sum(any(isinstance(s, Evaluate) for s in statements(nest.body)) for nest in nests) > 1:
        raise LayoutError("host calls would be made in another order")
    return nests


def _inside(part: _Component, tensor: Tensor, written: Set[Tensor]) -> list[_Component] | None:
    """Distribute a statement into components; `None` if it stays whole."""
    stmt = part.stmt
    if isinstance(stmt, For):
        if not touches(stmt, tensor):
            return None
        if stmt.kind not in MOVABLE or stmt.carried:
            what = "carries values" if stmt.carried else f"is {stmt.kind}"
            raise StaysError(f"the loop {stmt.var} {what}, and stays as it is")
        return [part._replace(stmt=stmt.body, loops=(*part.loops, stmt))]
    if not _is_to_split(stmt, tensor):
        return None
    if isinstance(stmt, Seq):
        return _sequence(part, tensor)
    if isinstance(stmt, If) and not any(t in written for t in tensors_read(stmt.cond)):
        other = [] if stmt.orelse is None else [part.under(stmt.orelse, negation(stmt.cond))]
        return [part.under(stmt.then, stmt.cond), *other]
    raise LayoutError(f"what {tensor.name} is touched by in one loop cannot be told apart: it depends on data")


def _is_to_split(stmt: Stmt, tensor: Tensor) -> bool:
    """Whether a statement has inner loops over the tensor or accesses it with different indices."""
    inner = list(statements(stmt))
    if any(isinstance(s, For) and touches(s, tensor) for s in inner) or len(stored_indices(stmt, tensor)) > 1:
        return len(inner) > 1
    return isinstance(stmt, Seq) and touches(stmt, tensor) and any(isinstance(s, Evaluate) for s in inner)


def _sequence(part: _Component, tensor: Tensor) -> list[_Component]:
    """Distribute a sequence. Statements in the scope of storage or of a name stay together."""
    stmts = flat(part.stmt)
    components: list[_Component] = []
    others: list[Stmt] = []

    def note() -> None:
        if others:
            components.append(part._replace(stmt=seq(*others)))
            others.clear()

    for k, stmt in enumerate(stmts):
        if isinstance(stmt, (Let, Allocate)):
            note()
            rest = seq(*stmts[k:])
            if k == 0 or _is_to_split(rest, tensor):
                what = stmt.tensor.name if isinstance(stmt, Allocate) else stmt.var
                raise LayoutError(f"what stands behind {what} in a loop cannot get loops of its own")
            return [*components, part._replace(stmt=rest)]
        if touches(stmt, tensor):
            note()
            components.append(part._replace(stmt=stmt))
        else:
            others.append(stmt)
    note()
    return components


def _is_plain(value: Operand) -> bool:
    """Whether a value is an integer that depends on loops and sizes alone."""
    return isinstance(value, Expr) and not opaque_terms(value) and not has_undef(value)


def _second_first(shared: int) -> Callable[[Sequence[Var], Sequence[Var]], Cond]:
    """That of two instances the second one was run in an earlier iteration of the shared loops."""
    return lambda x, y: precedes(y[:shared], x[:shared])


def check_split(f: Function, item: For, scope: Scope, nests: Sequence[Nest]) -> None:
    """Refuse nests whose distribution would change a result.

    Raises
    ------
    LayoutError: accesses to an element would change their order, or a range reads elements that the loop writes.
    BudgetError: that is out of the budget.
    """
    of: dict[int, int] = {}
    for k, nest in enumerate(nests):
        of.update((id(stmt), k) for stmt in statements(nest.body))
    dependences = Dependences(f, seq(*(nest.stmt() for nest in nests)), scope)

    def number(access: Access) -> int:
        return of.get(id(access.site.stmt), -1)

    for one, two in dependences.pairs():
        early, late = (one, two) if number(one) <= number(two) else (two, one)
        if number(early) == number(late):
            continue
        if number(early) < 0:
            raise LayoutError(f"the range of a loop reads {one.storage.tensor.name}, which the loop writes")
        a, b = nests[number(early)], nests[number(late)]
        shared = len([1 for x, y in zip(a.loops, b.loops, strict=False) if x.var is y.var])
        point = dependences.witness(early, late, _second_first(shared))
        if point is not None:
            line = dependences.text(early)
            raise LayoutError(f"{shown(line)} cannot be split off: it depends on what the loop does before", (point,))

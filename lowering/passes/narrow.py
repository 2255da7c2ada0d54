"""`narrow`: the width of index arithmetic, 32 bits where that is proved to be enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import intset
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir.walk import loaded_tensor, read_indices
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var, const
from intset.expr.walk import opaque_terms, postorder
from intset.prover.proof import Proof
from lowering.nest.ir import Allocate, Assume, For, Function, If, Let, Seq, Stmt, Store, checked_function
from lowering.nest.scope import Scope, scope_of
from lowering.nest.text import end_of
from lowering.nest.walk import Visit, drive, operands, range_ends, statements
from lowering.passes.integers import parts_of
from lowering.passes.intervals import Spans, fits_by_intervals

BITS: Final = 32  # of the narrow type


@dataclass(frozen=True, eq=False)
class Width:
    """The answer of `narrow`.

    Attributes
    ----------
    bits: 32 or 64.
    forced_by: the expression that does not fit into 32 bits, as far as that is known; `None` when all do.
    proof: why it is not known to fit: refuted with values of the variables, or unknown.
    """

    bits: int
    forced_by: Expr | None = None
    proof: Proof | None = None

    def __str__(self) -> str:
        if self.forced_by is None:
            return "int32: every index expression fits"
        assert self.proof is not None
        if self.proof.counterexample:
            values = ", ".join(f"{getattr(v, 'name', v)} = {k}" for v, k in self.proof.counterexample.items())
            return f"int64: {self.forced_by} does not fit into 32 bits at {values}"
        return f"int64: {self.forced_by} is not proved to fit into 32 bits"

    __repr__ = __str__


def narrow(f: Function) -> Width:
    """int32 where every index expression of the nest is proved to fit in all its steps, else int64.

    Index expressions are the ends of loops, the conditions, the indices, and the number of an element in its storage.
    Elements of tensors are computed in 64 bits whatever the answer, and so is everything that depends on one.
    """
    checked_function(f, "narrow")
    with intset.using(tiers=tiers_within(Effort.SETS)):
        place = _Place(scope_of(f), None, _named_data(f.body))
        return drive(_visit(f.body, place, {t: t.extents for t in f.params})) or Width(32)


def _named_data(root: Stmt) -> frozenset[Var]:
    """The names of what depends on data, and is computed in 64 bits."""
    named = (s for s in statements(root) if isinstance(s, Let) and isinstance(s.value, Expr) and opaque_terms(s.value))
    return frozenset(s.var for s in named if isinstance(s.var, Var))


Shapes: TypeAlias = "dict[Tensor, tuple[Expr, ...]]"


class _Place:
    """What is known at a place: at a glance, in intervals, and all of it; and the names of what depends on data."""

    def __init__(self, scope: Scope, spans: Spans | None, data: frozenset[Var]) -> None:
        self.scope = scope
        self.spans = Spans(scope.ctx, BITS) if spans is None else spans
        self.data = data

    def after(self, stmt: Stmt) -> _Place:
        scope = self.scope.after(stmt)
        return self if scope is self.scope else _Place(scope, None, self.data)

    def inside(self, loop: For) -> _Place:
        low, extent = range_ends(loop.range)
        return _Place(self.scope.inside(loop), self.spans.inside(loop.var, low, end_of(low, extent) - 1), self.data)

    def refused(self, e: Expr, conditions: tuple[Cond, ...]) -> Width | None:
        """Why an expression forces a wider type; `None` where it fits under the conditions."""
        if self.spans.fit(e):
            return None
        ctx = self.scope.where(*conditions).ctx
        proof = None if fits_by_intervals(ctx, e, BITS) else ctx.fits(e, BITS)
        return None if proof is None or proof else Width(64, e, proof)


def _visit(stmt: Stmt, place: _Place, shapes: Shapes) -> Visit[Width | None]:
    found: Width | None
    if isinstance(stmt, Seq):
        shapes = dict(shapes)
        for inner in stmt.stmts:
            if isinstance(inner, Allocate):
                shapes[inner.tensor] = tuple(range_ends(r)[1] for r in inner.ranges)
            found = yield _visit(inner, place, shapes)
            if found is not None:
                return found
            place = place.after(inner)
        return None
    for e, conditions in _index_expressions(stmt, shapes):
        if e in place.data and isinstance(stmt, Store):
            continue  # it is stored as it is
        found = place.refused(e, conditions)
        if found is not None:
            return found
    if isinstance(stmt, For):
        for carry in stmt.carried:
            found = _Place(_between(stmt, place.scope), None, place.data).refused(carry.following, ())
            if found is not None:
                return found
        found = yield _visit(stmt.body, place.inside(stmt), shapes)
        return found
    if isinstance(stmt, If):
        found = yield _visit(stmt.then, _Place(place.scope.then(stmt), place.spans, place.data), shapes)
        if found is None and stmt.orelse is not None:
            found = yield _visit(stmt.orelse, _Place(place.scope.otherwise(stmt), place.spans, place.data), shapes)
        return found
    return None


def _between(loop: For, scope: Scope) -> Scope:
    """Where a loop computes what it carries: at the end of an iteration; where that matters, of one with a next."""
    inside = scope.inside(loop)
    low, extent = range_ends(loop.range)
    return inside if all(c.after_last for c in loop.carried) else inside.where(loop.var + 1 < low + extent)


def _index_expressions(stmt: Stmt, shapes: Shapes) -> list[tuple[Expr, tuple[Cond, ...]]]:
    """What the statement itself computes at the width of indices, each with what holds where it stands."""
    if isinstance(stmt, Assume):  # nothing computes it
        return []
    if isinstance(stmt, Allocate):
        stmt = replace(stmt, padding=None)
    found: dict[tuple[Expr, tuple[Cond, ...]], None] = {}

    def add(e: Expr, conditions: tuple[Cond, ...]) -> None:
        found.update(((part, conditions), None) for part in narrow_parts(e))

    firsts = [c.first for c in stmt.carried] if isinstance(stmt, For) else []
    found.update(((first, ()), None) for first in firsts if opaque_terms(first))
    for operand in (*range_ends(stmt.range), *firsts) if isinstance(stmt, For) else operands(stmt):
        for part, conditions in parts_of(operand):
            for node in postorder((part,)) if isinstance(part, Node) else (part,):
                tensor = loaded_tensor(node)
                if tensor is not None and tensor in shapes:
                    add(offset(read_indices(node), shapes[tensor]), conditions)
                for arg in node.args if isinstance(node, Cond) else ():
                    if isinstance(arg, Expr):
                        add(arg, conditions)
            if isinstance(part, Expr):
                add(part, conditions)
    if isinstance(stmt, Store) and stmt.tensor in shapes:
        add(offset(stmt.indices, shapes[stmt.tensor]), ())
    elif isinstance(stmt, For):
        low, extent = range_ends(stmt.range)
        add(low + extent, ())
    elif isinstance(stmt, Allocate):
        add(product(range_ends(r)[1] for r in stmt.ranges), ())
    return list(found)


def narrow_parts(e: Expr) -> list[Expr]:
    """The largest parts of `e` that depend on no data: they are computed at the width of indices."""
    wide = wide_nodes(e)
    if e not in wide:
        return [e]
    return [arg for node in wide for arg in node.args if isinstance(arg, Expr) and arg not in wide]


def wide_nodes(*roots: Expr) -> set[Expr]:
    """The integer nodes that depend on data; they are computed in 64 bits."""
    wide: set[Expr] = set()
    for node in postorder(roots):
        if isinstance(node, Expr) and (node.op in (ops.LOAD, ops.CAST) or any(arg in wide for arg in node.args)):
            wide.add(node)
    return wide


def offset(indices: Iterable[Expr], shape: Iterable[Expr]) -> Expr:
    """The number of an element in storage of this shape, by rows."""
    total: Expr | None = None
    for index, extent in zip(indices, shape, strict=True):
        total = index if total is None else simple.add(simple.mul(total, extent), index)
    return const(0) if total is None else total


def product(extents: Iterable[Expr]) -> Expr:
    """The extents multiplied."""
    total: Expr | None = None
    for extent in extents:
        total = extent if total is None else simple.mul(total, extent)
    return const(1) if total is None else total

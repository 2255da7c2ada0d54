"""`narrow`: the width of index arithmetic, 32 bits where that is proved to be enough."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import intset
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir.walk import loaded_tensor, read_indices
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, const
from intset.expr.walk import opaque_terms, postorder
from intset.prover.proof import Proof
from lowering.nest.ir import Allocate, Assume, For, Function, If, Seq, Stmt, Store
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Visit, drive, operands, range_ends
from lowering.passes.integers import parts_of
from lowering.passes.intervals import fits_by_intervals


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
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return drive(_visit(f.body, scope_of(f), {t: t.extents for t in f.params})) or Width(32)


Shapes: TypeAlias = "dict[Tensor, tuple[Expr, ...]]"


def _visit(stmt: Stmt, scope: Scope, shapes: Shapes) -> Visit[Width | None]:
    found: Width | None
    if isinstance(stmt, Seq):
        shapes = dict(shapes)
        for inner in stmt.stmts:
            if isinstance(inner, Allocate):
                shapes[inner.tensor] = tuple(range_ends(r)[1] for r in inner.ranges)
            found = yield _visit(inner, scope, shapes)
            if found is not None:
                return found
            scope = scope.after(inner)
        return None
    for e, where in _index_expressions(stmt, scope, shapes):
        if fits_by_intervals(where.ctx, e, 32):
            continue
        proof = where.ctx.fits(e, 32)
        if not proof:
            return Width(64, e, proof)
    if isinstance(stmt, For):
        inside = _between(stmt, scope)
        for carry in stmt.carried:
            if fits_by_intervals(inside.ctx, carry.following, 32):
                continue
            proof = inside.ctx.fits(carry.following, 32)
            if not proof:
                return Width(64, carry.following, proof)
        found = yield _visit(stmt.body, scope.inside(stmt), shapes)
        return found
    if isinstance(stmt, If):
        found = yield _visit(stmt.then, scope.then(stmt), shapes)
        if found is None and stmt.orelse is not None:
            found = yield _visit(stmt.orelse, scope.otherwise(stmt), shapes)
        return found
    return None


def _between(loop: For, scope: Scope) -> Scope:
    """Where a loop computes what it carries: at the end of an iteration; where that matters, of one with a next."""
    inside = scope.inside(loop)
    low, extent = range_ends(loop.range)
    return inside if all(c.after_last for c in loop.carried) else inside.where(loop.var + 1 < low + extent)


def _index_expressions(stmt: Stmt, scope: Scope, shapes: Shapes) -> list[tuple[Expr, Scope]]:
    """What the statement itself computes at the width of indices, each with what is known there."""
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
    return [(e, scope.where(*conditions)) for e, conditions in found]


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

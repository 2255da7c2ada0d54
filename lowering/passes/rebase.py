"""Storage that counts from 0: the indices of an allocated tensor become places in its storage."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import intset
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.value import Operand
from intset.config import Effort, tiers_within
from intset.expr.node import Expr, const, constant_value
from intset.expr.range import Range
from lowering.nest.ir import Allocate, For, Function, If, Padding, Seq, Stmt, Store, checked_function
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Visit, drive, map_operands, range_ends
from lowering.passes.simplify import difference, shorter

S = TypeVar("S", bound=Stmt)
Origins = dict[Tensor, tuple[Expr | None, ...]]  # `None` along what has one place: it is place 0


def rebase(f: Function) -> Function:
    """The function with every allocation from 0; what was the minimum of its range becomes its `origin`."""
    checked_function(f, "rebase")
    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return f.with_body(drive(_visit(f.body, scope_of(f), {})))


def _visit(stmt: Stmt, scope: Scope, origins: Origins) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts = []
        origins = dict(origins)
        for inner in stmt.stmts:
            part = yield _visit(inner, scope, origins)
            if isinstance(inner, Allocate):
                ends = [range_ends(r) for r in inner.ranges]
                origins[inner.tensor] = tuple(None if constant_value(e) == 1 else low for low, e in ends)
            scope = scope.after(part)
            parts.append(part)
        return Seq(tuple(parts))
    if isinstance(stmt, For):
        loop = _changed(stmt, scope, origins)
        return replace(loop, body=(yield _visit(stmt.body, scope.inside(loop), origins)))
    if isinstance(stmt, If):
        branch = _changed(stmt, scope, origins)
        then = yield _visit(stmt.then, scope.then(branch), origins)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, scope.otherwise(branch), origins))
        return If(branch.cond, then, orelse)
    if isinstance(stmt, Allocate):
        ends = [range_ends(r) for r in stmt.ranges]
        ranges = tuple(Range(0, e) for _, e in ends)
        return replace(stmt, ranges=ranges, origin=_origin(stmt, scope), padding=_padding(stmt))
    return _changed(stmt, scope, origins)


def _padding(stmt: Allocate) -> Padding | None:
    """What may not be touched, in indices that count from 0."""
    if stmt.padding is None:
        return None
    lows = (range_ends(r)[0] for r in stmt.ranges)
    moved = [v if constant_value(low) == 0 else v + low for v, low in zip(stmt.padding.indices, lows, strict=True)]
    return replace(stmt.padding, cond=stmt.padding.at(moved))


def _origin(stmt: Allocate, scope: Scope) -> tuple[Expr, ...]:
    """Where place 0 of the storage lies in the tensor, once it counts from 0."""
    lows = tuple(range_ends(r)[0] for r in stmt.ranges)
    if stmt.steps is None:
        return lows
    found = []
    for start, row in zip(stmt.origin or (), stmt.steps, strict=True):
        total = start
        for step, low in zip(row, lows, strict=True):
            total = total + low * step if step else total
        found.append(shorter(total, scope.ctx))
    return tuple(found)


def _changed(stmt: S, scope: Scope, origins: Origins) -> S:
    def place(tensor: Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        lows = origins.get(tensor)
        if lows is None or all(low is not None and constant_value(low) == 0 for low in lows):
            return indices
        return tuple(
            const(0) if low is None else difference(i, low, scope) for i, low in zip(indices, lows, strict=True)
        )

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        new = place(tensor, indices)
        return None if new is indices else element(tensor, new)

    def change(operand: Operand) -> Operand:
        return walk.rewrite(operand, on_load=on_load)

    new = map_operands(stmt, change)
    if isinstance(new, Store):
        return replace(new, indices=place(new.tensor, new.indices))
    return new

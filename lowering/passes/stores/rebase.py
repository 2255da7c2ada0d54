"""Rebasing: indices of allocated tensors count from the start of their storage."""

from __future__ import annotations

import intset
from bound.tensor import Tensor
from intset.config import Effort, tiers_within
from intset.expr.node import Expr, const, constant_value
from intset.expr.range import Range
from lowering.nest.driver import Cursor, StmtRules, rewritten
from lowering.nest.ir import Allocate, Function, Padding, Stmt, checked_function, with_fields
from lowering.nest.scope import Scope
from lowering.nest.tensors import Indices, redirected
from lowering.nest.walk import range_ends
from lowering.passes.simplify import difference, shorter

Origins = dict[Tensor, tuple[Expr | None, ...]]  # `None` for an axis of extent 1, whose only index is 0


def rebase(f: Function) -> Function:
    """Let every allocation begin at 0. The minimum of its range becomes its `origin`.

    Guarantee: each access reads or stores the same element.
    """
    checked_function(f, "rebase")
    with intset.using(tiers=tiers_within(Effort.FAST)):
        rules: StmtRules[_Rebasing] = {Stmt: (_use_storage_indices,), Allocate: (_from_zero,)}
        return f.with_body(rewritten(f.body, _Rebasing.root(f).moved(origins={}), enter=rules))


class _Rebasing(Cursor):
    """A cursor with the origins of the storage in sight."""

    __slots__ = ("origins",)
    origins: Origins

    def after(self, old: Stmt, new: Stmt) -> _Rebasing:
        here = super().after(old, new)
        if not isinstance(old, Allocate):
            return here
        ends = [range_ends(r) for r in old.ranges]
        lows = tuple(None if constant_value(extent) == 1 else low for low, extent in ends)
        if old.tensor not in self.origins and all(low is not None and constant_value(low) == 0 for low in lows):
            return here
        return here.moved(origins={**self.origins, old.tensor: lows})


def _from_zero(stmt: Allocate, cursor: _Rebasing) -> Allocate:
    ranges = tuple(Range(0, range_ends(r)[1]) for r in stmt.ranges)
    return with_fields(stmt, ranges=ranges, origin=_origin(stmt, cursor.scope), padding=_padding(stmt))


def _padding(stmt: Allocate) -> Padding | None:
    """The untouchable elements of an allocation, in indices that count from 0."""
    if stmt.padding is None:
        return None
    lows = (range_ends(r)[0] for r in stmt.ranges)
    moved = [v if constant_value(low) == 0 else v + low for v, low in zip(stmt.padding.indices, lows, strict=True)]
    return with_fields(stmt.padding, cond=stmt.padding.at(moved))


def _origin(stmt: Allocate, scope: Scope) -> tuple[Expr, ...]:
    """The tensor indices of the first element of the storage."""
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


def _use_storage_indices(stmt: Stmt, cursor: _Rebasing) -> Stmt:
    """Count the indices of allocated tensors from the start of their storage."""
    if not cursor.origins:
        return stmt

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        lows = cursor.origins.get(tensor)
        if lows is None or all(low is not None and constant_value(low) == 0 for low in lows):
            return None
        pairs = zip(indices, lows, strict=True)
        return tensor, tuple(const(0) if low is None else difference(i, low, cursor.scope) for i, low in pairs)

    return redirected(stmt, move)

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
from lowering.nest.driver import Cursor, StmtRules, rewritten
from lowering.nest.ir import Allocate, Function, Padding, Stmt, Store, checked_function
from lowering.nest.scope import Scope
from lowering.nest.walk import map_operands, range_ends
from lowering.passes.simplify import difference, shorter

S = TypeVar("S", bound=Stmt)
Origins = dict[Tensor, tuple[Expr | None, ...]]  # `None` along what has one place: it is place 0


def rebase(f: Function) -> Function:
    """The function with every allocation from 0; what was the minimum of its range becomes its `origin`."""
    checked_function(f, "rebase")
    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        rules: StmtRules[_Rebasing] = {Stmt: (_in_storage,), Allocate: (_from_zero,)}
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
        return here.moved(origins={**self.origins, old.tensor: lows})


def _from_zero(stmt: Allocate, cursor: _Rebasing) -> Allocate:
    ranges = tuple(Range(0, range_ends(r)[1]) for r in stmt.ranges)
    return replace(stmt, ranges=ranges, origin=_origin(stmt, cursor.scope), padding=_padding(stmt))


def _padding(stmt: Allocate) -> Padding | None:
    """The untouchable elements of an allocation, in indices that count from 0."""
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


def _in_storage(stmt: S, cursor: _Rebasing) -> S:
    """A statement with every index of an allocated tensor as a place in its storage."""

    def place(tensor: Tensor, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        lows = cursor.origins.get(tensor)
        if lows is None or all(low is not None and constant_value(low) == 0 for low in lows):
            return indices
        return tuple(
            const(0) if low is None else difference(i, low, cursor.scope) for i, low in zip(indices, lows, strict=True)
        )

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        new = place(tensor, indices)
        return None if new is indices else element(tensor, new)

    new = map_operands(stmt, lambda operand: walk.rewrite(operand, on_load=on_load))
    return replace(new, indices=place(new.tensor, new.indices)) if isinstance(new, Store) else new

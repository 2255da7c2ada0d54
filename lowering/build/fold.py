"""Compact and circular storage: the accesses of tensors of which elements have other places than their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bound.infer import Storage
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.value import Operand
from intset.expr.node import Expr
from lowering.nest.ir import Allocate, Stmt, Store
from lowering.nest.walk import map_operands, rebuilt


def fold(root: Stmt, storages: Mapping[Tensor, Storage]) -> Stmt:
    """The nest with every element of these tensors at its place in the storage, counted as in `Storage.numbers`."""
    if not storages:
        return root

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        storage = storages.get(tensor)
        return None if storage is None else element(tensor, storage.numbers(indices))

    def change(stmt: Stmt) -> Stmt:
        new = map_operands(stmt, lambda e: walk.rewrite(e, on_load=on_load))
        storage = storages.get(new.tensor) if isinstance(new, (Allocate, Store)) else None
        if storage is None:
            return new
        if isinstance(new, Store):
            return replace(new, indices=storage.numbers(new.indices))
        assert isinstance(new, Allocate)
        if storage.is_circular:  # a place holds one element after another
            return replace(new, ranges=storage.ranges)
        return replace(new, ranges=storage.ranges, origin=storage.offset, steps=storage.steps)

    return rebuilt(root, change)

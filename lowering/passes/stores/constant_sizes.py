"""Constant sizes of the memories of threads: a device has no other."""

from __future__ import annotations

from typing import Final

from intset.expr import ops
from intset.expr.dag import chain
from intset.expr.node import Expr
from intset.expr.range import Range
from lowering.nest.ir import Allocate, Function, Stmt, with_fields
from lowering.nest.walk import rebuilt

_OF_THREADS: Final = ("shared", "warp", "local", "wmma")


def with_constant_sizes(f: Function) -> Function:
    """Give storage of threads the constant of an extent `minimum(constant, size)`."""
    return f.with_body(rebuilt(f.body, _with_constant_size))


def _with_constant_size(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Allocate) or stmt.scope.partition(".")[0] not in _OF_THREADS or stmt.padding is not None:
        return stmt
    return with_fields(stmt, ranges=tuple(map(_constant, stmt.ranges)))


def _constant(r: Range) -> Range:
    numbers = [e for e in chain(ops.MIN, r.extent) if e.is_const] if isinstance(r.extent, Expr) else []
    return Range(r.min, numbers[0]) if numbers else r

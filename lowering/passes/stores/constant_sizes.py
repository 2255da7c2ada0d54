"""Constant sizes of the memories of threads: a device has no other."""

from __future__ import annotations

from typing import Final

from intset.expr.node import as_expr
from intset.expr.range import Range
from lowering.nest.ir import Allocate, Function, Stmt, with_fields
from lowering.nest.walk import constant_limit, rebuilt

_OF_THREADS: Final = ("shared", "warp", "local", "wmma")


def with_constant_sizes(f: Function) -> Function:
    """Give storage of threads the constant of an extent `minimum(constant, size)`."""
    return f.with_body(rebuilt(f.body, _with_constant_size))


def _with_constant_size(stmt: Stmt) -> Stmt:
    if not isinstance(stmt, Allocate) or stmt.scope.partition(".")[0] not in _OF_THREADS or stmt.padding is not None:
        return stmt
    limits = [constant_limit(as_expr(r.extent)) for r in stmt.ranges]
    ranges = [r if limit is None else Range(r.min, limit) for r, limit in zip(stmt.ranges, limits, strict=True)]
    return with_fields(stmt, ranges=tuple(ranges))

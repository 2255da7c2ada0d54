"""`tvm.ir`: structural comparison, ranges and maps."""

from __future__ import annotations

from typing import Any

from bound.tir.value import Value
from intset.expr.node import Node
from intset.expr.range import Range
from lowering.nest.ir import Function, Stmt
from lowering.passes import unique_names

Array, Map = list, dict


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, nests or containers are the same up to the names of loops.

    Guarantee: nests count as equal only if their texts are, after loops got unique names in order.
    """
    if isinstance(lhs, (list, tuple)) and isinstance(rhs, (list, tuple)):
        return len(lhs) == len(rhs) and all(
            structural_equal(a, b, map_free_vars) for a, b in zip(lhs, rhs, strict=True)
        )
    if isinstance(lhs, (Node, Value)) or isinstance(rhs, (Node, Value)):
        return lhs is rhs or (not isinstance(lhs, Node) or not isinstance(rhs, Node)) and bool(lhs == rhs)
    if isinstance(lhs, Function) and isinstance(rhs, Function):
        return _text(lhs) == _text(rhs)
    if isinstance(lhs, Stmt) and isinstance(rhs, Stmt):
        return str(lhs) == str(rhs)
    return bool(lhs == rhs)


def _text(f: Function) -> str:
    return str(unique_names(f)).partition("\n")[2]


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` unless `structural_equal` holds."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"structurally different:\n{lhs}\nand\n{rhs}")


__all__ = ["Array", "Map", "Range", "assert_structural_equal", "structural_equal"]

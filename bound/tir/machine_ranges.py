"""Ranges of integer expressions with machine semantics: unknown as soon as a step may wrap.

Steps that depend on data are computed in 64 bits. Indices are mathematical integers, so steps on indices alone never
wrap. Intervals of single steps use transfer functions of `intset.linear.bounds`; the range of the whole uses its linear
form.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Final, TypeVar

from bound import dtypes
from bound.tir.value import Value, ValueOp
from intset.expr import ops
from intset.expr.node import Expr, Node, Var
from intset.expr.walk import postorder
from intset.linear import bounds as iv
from intset.linear.bounds import ATOM_BOUNDS, Interval
from intset.linear.canonical import Normalizer

Ends = tuple[int, int]
Known = TypeVar("Known", bound="Node | Value")
_WIDEST: Final[Ends] = dtypes.int_range("int64")


_STEPS: Final[dict[ops.Op, Callable[..., Interval]]] = {
    **ATOM_BOUNDS,
    ops.ADD: iv.plus,
    ops.SUB: lambda a, b: iv.plus(a, iv.negated(b)),
    ops.NEG: iv.negated,
    ops.MUL: iv.times,
    ops.CEILDIV: lambda a, b: iv.negated(iv.floordiv(iv.negated(a), b)),
    ops.BITNOT: lambda a: iv.plus((-1, -1), iv.negated(a)),
    ops.SELECT: iv.hull,
    ops.ASSERTING: lambda a: a,
}


def range_of(e: Expr, ranges: Mapping[Known, Interval], data: Container[object] = ()) -> Ends | None:
    """Return the smallest and the largest value of `e`; `None` if one is unknown, or a step may wrap.

    Parameters
    ----------
    ranges: intervals of variables and of parameters.
    data: variables that stand for elements of tensors.
    """
    if not fits_int64(e, ranges, data):
        return None
    normalizer = Normalizer({v: span for v, span in ranges.items() if isinstance(v, Var)})
    low, high = normalizer.bounds(normalizer.form(e))
    return None if low is None or high is None or low > high else (low, high)


def fits_int64(root: Node, ranges: Mapping[Known, Interval] | None = None, data: Container[object] = ()) -> bool:
    """Return whether every step that depends on data provably fits 64 bits; parameters as for `range_of`."""
    spans: dict[Node, Interval] = {}
    limits: dict[object, Interval] = dict((ranges or {}).items())
    dependent: set[Node] = set()
    for node in postorder((root,)):
        if any(arg in dependent for arg in node.args) or node.op is ops.LOAD or node in data:
            dependent.add(node)
        if not isinstance(node, Expr):
            continue
        span = spans[node] = _span(node, [spans[arg] for arg in node.args if isinstance(arg, Expr)], limits)
        if node in dependent and (span[0] is None or span[1] is None or span[0] < _WIDEST[0] or span[1] > _WIDEST[1]):
            return False
    return True


def _span(node: Expr, args: list[Interval], ranges: Mapping[object, Interval]) -> Interval:
    if node.op is ops.CONST:
        return (node.data, node.data)
    if node.op is ops.VAR:
        return ranges[node] if node in ranges or not isinstance(node, Var) else node.declared()[:2]
    if node.op is ops.LOAD:
        declared: Interval = (node.data.lower, node.data.upper)
        return iv.meet(declared, dtypes.int_range(getattr(node.data, "dtype", "int64")))
    if node.op is ops.CAST:
        bits, signed = node.data
        return dtypes.int_range(f"{'' if signed else 'u'}int{bits}")
    rule = _STEPS.get(node.op)
    return iv.EVERYTHING if rule is None else rule(*args)


def function_range(body: Value) -> tuple[int | None, int | None]:
    """Return the known ends of an integer computed from data: the hull of a selection's branches, or the range of its
    type.
    """
    if body.op is ValueOp.CALL and body.data == "popcount":
        return (0, dtypes.bits(body.dtype))
    if body.op is not ValueOp.SELECT:
        return dtypes.int_range(body.dtype) if dtypes.bits(body.dtype) <= 16 else iv.EVERYTHING
    choices = [range_of(choice, {}) if isinstance(choice, Expr) else None for choice in body.args[1:]]
    first, second = choices
    return iv.EVERYTHING if first is None or second is None else iv.hull(first, second)

"""Reductions whose range depends on the axes around them: `te.sum(A[k], axis=reduce_axis((0, i + 1)))` in row `i`.

The axis takes the range that all rows together need; which of it a row runs over becomes part of the condition of the
reduction. From there on it is a reduction like any other: it can be split, cached, factored and narrowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from bound.itervar import IterVar
from bound.tir import build
from bound.tir.reduce import condition, reduction_of
from bound.tir.value import Operand, Truth, Value, ValueOp, make
from intset.context import Context
from intset.errors import InputError
from intset.expr.node import Expr, Var
from intset.expr.range import Range
from intset.linear.canonical import Normalizer


def with_independent_ranges(name: str, axis: Sequence[IterVar], body: Sequence[Operand]) -> tuple[Operand, ...]:
    """The formulas over `axis`, with the range of every reduction free of other axes.

    Raises
    ------
    InputError: such a range has no ends when all values of the other axes are taken together.
    """
    top = body[0]
    if not isinstance(top, Value) or top.op is not ValueOp.REDUCE:
        return tuple(body)
    around: list[IterVar] = list(axis)
    conditions: list[Truth] = []
    for iv in reduction_of(top).axis:
        if iv.dom is not None and any(v in around for v in iv.dom.free_vars()):
            low, extent = iv.dom.min, iv.dom.extent
            assert isinstance(low, Expr) and isinstance(extent, Expr)
            conditions += [iv >= low, iv < low + extent]
            iv.remember("dom", _over(name, iv, around))
        around.append(iv)
    if not conditions:
        return tuple(body)
    return tuple(_under(value, conditions) for value in body)


def _over(name: str, iv: IterVar, around: Sequence[IterVar]) -> Range:
    """The range of a reduction axis that holds those of all values of the axes around it."""
    assert iv.dom is not None
    ranges: dict[Var, Range | None] = {v: v.dom for v in around if v.dom is not None}
    context = Context(ranges)
    first, last = iv.dom.min, iv.dom.max
    assert isinstance(first, Expr) and isinstance(last, Expr)
    low, high = context.value_set(first).min, context.value_set(last).max
    if not isinstance(low, Expr) or not isinstance(high, Expr):
        raise InputError(f"the range of {iv.name}, over which {name} reduces, has no end")
    return Range(low, Normalizer({}).form(high - low + 1).expr())


def _under(value: Operand, conditions: Sequence[Truth]) -> Operand:
    assert isinstance(value, Value) and value.op is ValueOp.REDUCE
    arity = reduction_of(value).arity
    where = build.together(condition(value), *conditions)
    return make(ValueOp.REDUCE, (*value.args[:arity], where, *value.args[arity + 1 :]), value.dtype, value.data)

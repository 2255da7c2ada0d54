"""Shapes of tensors: conversion, and the variables in them that count as sizes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from bound.tir import walk
from bound.tir.value import Value
from intset.context import Context
from intset.errors import InputError, ShapeWarning
from intset.expr import annotate, ops
from intset.expr.arguments import a_name
from intset.expr.intern import WeakTable
from intset.expr.node import Expr, Node, PlainVar, Var, as_expr
from intset.expr.text import shown
from intset.expr.walk import free_vars, postorder

_ARGUMENTS: WeakTable[tuple[int, int], Var] = WeakTable()  # made by te.var: in TVM these are the sizes of shapes
_TOLD: WeakTable[tuple[int, int], Var] = WeakTable()


def argument(name: str) -> Var:
    """Create a variable for `te.var`: TVM scripts use these as sizes, so no warning is given."""
    var = Var(name)
    _ARGUMENTS.put(var.uid, var)
    return var


def as_shape(shape: object, name: str) -> tuple[Expr, ...]:
    """Convert an extent, or a tuple of extents, to simplified expressions.

    A plain `Var` counts as a size, with one warning per variable; `nonneg(n)` and extents of other tensors' shapes give
    none.

    Raises
    ------
    InputError: an extent is not an integer, or a negative constant.
    """
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    a_name(name, "the name of an operation")
    given = [annotate.without_sizes(as_expr(extent, f"extent {k} of {name}")) for k, extent in enumerate(extents)]
    checked = tuple(_simple(extent) for extent, _ in given)
    said = {var for _, sizes in given for var in sizes}
    for k, extent in enumerate(checked):
        if extent.is_const and extent.data < 0:
            raise InputError(f"extent {k} of {name} must not be negative: {extent.data}")
    for size in plain_sizes(checked):
        if size not in said and size.uid not in _ARGUMENTS and size.uid not in _TOLD:
            _TOLD.put(size.uid, size)
            _tell(size, name)
    return checked


def _simple(extent: Expr) -> Expr:
    """Simplify an extent without facts, unless it asserts something, which must not be lost."""
    is_bare = not any(node.op is ops.ASSERTING for node in postorder((extent,)))
    return Context().simplify(extent) if extent.args and is_bare else extent


def _tell(size: Var, name: str) -> None:
    warnings.warn(
        f"the plain variable {size.name} is used in the shape of {name}: it is taken to be at least 0. "
        f"Say so with te.size_var({size.name!r}) or ShapeVar({size.name!r}); to silence this, "
        "warnings.simplefilter('ignore', intset.ShapeWarning)",
        ShapeWarning,
        stacklevel=4,
    )


def plain_sizes(extents: Iterable[Expr]) -> tuple[Var, ...]:
    """Return the plain variables in extents: those not declared as sizes."""
    return tuple(var for var in free_vars(*extents) if type(var) is PlainVar)


def annotate_shapes(x: Any, shapes: Any) -> Any:
    """Extend `intset.annotate_shapes` to values and computed tensors.

    Parameters
    ----------
    x: an expression, a condition, a value, a computed tensor (meaning its formula), or a tuple or list of them.
    shapes: as for `intset.annotate_shapes`; a tensor means its shape.
    """
    if isinstance(x, (tuple, list)):
        return type(x)(annotate_shapes(part, shapes) for part in x)
    body = getattr(getattr(x, "op", None), "body", None)
    if hasattr(x, "value_index") and body is not None:
        return annotate_shapes(body[x.value_index], shapes)
    if isinstance(x, Node):
        return annotate.annotate_shapes(x, shapes)
    if isinstance(x, Value):
        claims = annotate.size_claims(shapes)
        return walk.rewrite(x, {**{form: form for form in claims.values()}, **claims})
    raise InputError(f"annotate_shapes takes expressions, values and computed tensors, not {shown(x)}")

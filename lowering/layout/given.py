"""What a user gives for a map of indices: checked, with a sentence where it cannot be used."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from intset.context import Context
from intset.expr.node import Expr, IntLike, PlainVar, Var, as_expr
from intset.expr.text import shown
from lowering.errors import LayoutError


def checked_shape(shape: Any, ctx: Context) -> tuple[Expr, ...]:
    """The extents of the old indices."""
    if not isinstance(shape, tuple):
        raise LayoutError(f"the shape of a map must be a tuple of extents, not {shown(shape)}")
    if not shape:
        raise LayoutError("the shape of a map must have at least one extent")
    found = tuple(_extent(k, e) for k, e in enumerate(shape))
    for k, e in enumerate(found):
        if (e.data < 0) if e.is_const else bool(ctx.prove(e < 0)):
            raise LayoutError(f"extent {k} of the shape of a map must not be negative, as {e} is")
    return found


def _extent(k: int, given: IntLike) -> Expr:
    return as_index(given, f"extent {k} of the shape of a map")


def as_index(given: Any, what: str) -> Expr:
    """An integer as an expression."""
    if isinstance(given, Expr):
        return given
    if isinstance(given, (bool, type)) or not hasattr(given, "__index__"):
        raise LayoutError(f"{what} must be an integer, not {shown(given)}")
    return as_expr(operator.index(given))


def checked_fn(fn: Any, dims: int) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """The variables of the old indices, named as the function names them, and the new indices."""
    if not callable(fn):
        raise LayoutError(f"a map is a function of the old indices, not {shown(fn)}")
    variables = tuple(PlainVar(name) for name in parameter_names(fn, dims, "a map of {} old indices"))
    try:
        new = fn(*variables)
    except ArithmeticError as error:
        raise LayoutError(f"the map fails as a function of ({', '.join(map(str, variables))}): {error}") from None
    if isinstance(new, Expr):
        new = (new,)
    if isinstance(new, (str, bytes)) or not isinstance(new, Sequence):
        raise LayoutError(f"a map gives a list of new indices, not {shown(new)}")
    if not len(new):
        raise LayoutError("a map must give at least one new index")
    return variables, tuple(as_index(e, f"new index {k}") for k, e in enumerate(new))


def parameter_names(fn: Callable[..., object], dims: int, what: str) -> list[str]:
    """What a function of so many indices calls them; `what` it is stands in the error that it is none."""
    plain = [f"i{k}" for k in range(dims)]
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):
        return plain
    try:
        given = signature.bind(*plain).arguments
    except TypeError:
        raise LayoutError(f"{what.format(dims)} must be a function of as many, not of {signature}") from None
    kinds = signature.parameters
    if any(kinds[name].kind is inspect.Parameter.VAR_POSITIONAL for name in given):
        return plain
    return list(given)


def checked_place(place: Sequence[IntLike], dims: int, what: str) -> list[Expr]:
    """As many indices as there are."""
    if len(place) != dims:
        raise LayoutError(f"the map has {dims} {what} indices, not {len(place)}")
    return [as_index(e, f"{what} index {k}") for k, e in enumerate(place)]

"""Values whose type is that of what they meet: fractions as they are written, and `undef()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tir import build
from bound.tir.value import constant
from intset.errors import InputError
from intset.expr.node import Expr
from lowering.nest.undef import undef

UNDEF: Final = "undef"


class Untyped(NamedTuple):
    """An operation on values of which no type is known.

    Attributes
    ----------
    make: builds the operation from its arguments, which then have a type; a leaf has none.
    args: each an `Untyped`, or an integer, which becomes a value of the type of the others.
    data: the number that a leaf is, or `None` of `undef()`.
    has_fraction: whether it cannot be an integer.
    """

    make: Callable[..., Any] | None
    args: tuple[Any, ...]
    data: float | None
    has_fraction: bool


def fraction(number: float) -> Untyped:
    return Untyped(None, (), number, True)


def unknown() -> Untyped:
    return Untyped(None, (), None, False)


def operation(make: Callable[..., Any], *args: Any, fractional: bool = False) -> Untyped:
    """The operation on these, of which one at least is untyped."""
    return Untyped(make, args, None, fractional or any(isinstance(a, Untyped) and a.has_fraction for a in args))


def typed(root: Any, dtype: str | None = None) -> Any:
    """`root` as a value of this type; without one, as a `float32` where there are fractions in it, else an integer.

    Raises
    ------
    InputError: a fraction would be an integer.
    """
    if not isinstance(root, Untyped):
        return root
    wanted = (dtypes.DEFAULT if root.has_fraction else dtypes.INDEX) if dtype is None else dtype
    if root.has_fraction and not dtypes.is_float(wanted):
        raise InputError(f"a number with a fraction is no {wanted}")
    done: dict[int, Any] = {}
    stack: list[Untyped] = [root]
    while stack:
        node = stack[-1]
        waiting = [a for a in node.args if isinstance(a, Untyped) and id(a) not in done]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        args = [done[id(a)] if isinstance(a, Untyped) else _converted(a, wanted) for a in node.args]
        if node.make is not None:
            done[id(node)] = node.make(*args)
        else:
            done[id(node)] = undef(wanted) if node.data is None else constant(node.data, wanted)
    return done[id(root)]


def _converted(arg: Any, dtype: str) -> Any:
    if isinstance(arg, Expr) and dtypes.is_float(dtype):
        return build.cast(dtype, arg)
    return arg

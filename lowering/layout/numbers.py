"""Numbers in the place of variables for indices: a function of indices takes either."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intset.expr.node import Cond, as_expr, truth


class Number(int):
    """An integer with the methods of an expression; its comparisons are constant conditions.

    So it decides a branch in Python as an integer does, where that of a variable is not known or, of `==`, means that
    two expressions are written alike.
    """

    __slots__ = ()
    __hash__ = int.__hash__

    def eq(self, other: Any) -> Cond:
        """That both are equal."""
        return truth(int(self) == int(other)) if isinstance(other, int) else as_expr(int(self)).eq(other)

    def ne(self, other: Any) -> Cond:
        """That both differ."""
        return truth(int(self) != int(other)) if isinstance(other, int) else as_expr(int(self)).ne(other)


def _wrapped(name: str, kind: Callable[[Any], Any]) -> None:
    plain: Callable[..., Any] = getattr(int, name)

    def method(self: Number, *others: Any) -> Any:
        found = plain(self, *others)
        return found if found is NotImplemented else kind(found)

    setattr(Number, name, method)


for _name in "add sub mul floordiv mod and or xor lshift rshift".split():
    _wrapped(f"__{_name}__", Number)
    _wrapped(f"__r{_name}__", Number)
for _name in ("__neg__", "__pos__", "__abs__", "__invert__"):
    _wrapped(_name, Number)
for _name in "lt le gt ge eq ne".split():
    _wrapped(f"__{_name}__", truth)

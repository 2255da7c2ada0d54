"""The axes of a space: names with their values, coded as integers for numpy."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import isqrt
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from intset.errors import InputError
from intset.expr import Var, arguments, shown

SPACE_BLOCK: Final = 1 << 17  # candidates that one step of a join looks at together

SPACE_VALUES: Final = 1 << 22  # values of one name

SpaceValue: TypeAlias = "int | bool | str"
VarKey = TypeVar("VarKey", bound=Var | str)  # mappings are invariant in their keys


class ValueKind(StrEnum):
    """The type of the values of a name; members of an enumeration stay identical under pickling."""

    INTEGERS = "integers"
    TRUTHS = "truth values"
    LABELS = "strings"


INTEGERS, TRUTHS, LABELS = ValueKind.INTEGERS, ValueKind.TRUTHS, ValueKind.LABELS
KINDS: Final = {int: INTEGERS, bool: TRUTHS, str: LABELS}


class SpaceAxis(NamedTuple):
    """One name of a space.

    Attributes
    ----------
    name: what users call it.
    var: what conditions call it.
    kind: what its values are: `INTEGERS`, `TRUTHS` or `LABELS`.
    values: the distinct values in input order.

    Invariant: all values have one type.
    """

    name: str
    var: Var
    kind: ValueKind
    values: tuple[SpaceValue, ...]

    def number(self, value: object) -> int | None:
        """A value's number in columns: an integer for itself, a truth value as 0 or 1, a string by
        its position. `None` for what this axis does not have."""
        plain = as_value(value)
        if plain is None or KINDS[type(plain)] is not self.kind:
            return None
        if self.kind is LABELS:
            return self.values.index(plain) if plain in self.values else None
        return int(plain)

    def numbers(self) -> tuple[int, ...]:
        """The numbers of all values, in order."""
        return tuple(range(len(self.values))) if self.kind is LABELS else tuple(map(int, self.values))

    def value(self, number: int) -> SpaceValue:
        """The value that a number stands for."""
        if self.kind is LABELS:
            return self.values[number]
        return bool(number) if self.kind is TRUTHS else int(number)

    def holding(self, values: Iterable[SpaceValue]) -> SpaceAxis:
        """This axis with only these of its values."""
        kept = set(values)
        return self._replace(values=tuple(value for value in self.values if value in kept))


def divisors(number: int) -> list[int]:
    """The positive divisors of a positive number, in order.

    >>> divisors(56)
    [1, 2, 4, 7, 8, 14, 28, 56]
    """
    n = arguments.as_int(number, "the number to divide")
    if n < 1:
        raise InputError(f"the number to divide is positive, not {shown(n)}")
    low = [k for k in range(1, isqrt(n) + 1) if n % k == 0]
    return [*low, *(n // k for k in reversed(low) if k * k != n)]


def as_value(value: Any) -> SpaceValue | None:
    """An integer, truth value or string as Python's own; `None` for anything else."""
    if isinstance(value, (str, bool)):
        return str(value) if isinstance(value, str) else value
    if type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    try:
        return operator.index(value)
    except TypeError:
        return None


def read_axes(given: Mapping[Any, Iterable[Any]]) -> tuple[SpaceAxis, ...]:
    """The axes that a mapping from variables or names to values states.

    Raises
    ------
    InputError: a key is neither a variable nor a name, two keys share a name, or the values of a name are missing, of
        mixed types, or outside its `ShapeVar`.
    """
    axes: dict[str, SpaceAxis] = {}
    for key, values in arguments.mapped(given, "the names of a space", "a mapping {variable or name: values}").items():
        var = key if isinstance(key, Var) else Var(arguments.a_name(key, "a name of a space"))
        if var.name in axes:
            raise InputError(f"a space has one name {var.name!r} only, not two")
        axes[var.name] = _axis(var, values)
    if not axes:
        raise InputError("a space has at least one name")
    return tuple(axes.values())


def _axis(var: Var, given: object) -> SpaceAxis:
    what = f"the values of {var.name}"
    distinct: dict[SpaceValue, None] = {}
    kind = None
    for item in arguments.listed(given, what, "a list of integers, of truth values or of strings", SPACE_VALUES):
        value = as_value(item)
        if value is None:
            raise InputError(f"{what} are integers, truth values or strings, not {shown(item)}")
        if kind is None:
            kind = KINDS[type(value)]
        elif KINDS[type(value)] is not kind:
            raise InputError(f"{what} are of one type, not {kind} and {KINDS[type(value)]}")
        distinct[value] = None
    if kind is None:
        raise InputError(f"{what} are none: a name takes at least one value")
    _respect(var, kind, tuple(distinct))
    return SpaceAxis(var.name, var, kind, tuple(distinct))


def _respect(var: Var, kind: ValueKind, values: tuple[SpaceValue, ...]) -> None:
    """Refuse values that the declaration of a variable excludes."""
    low, high, step = var.declared()
    if (low, high, step) == (None, None, 1):
        return
    if kind is not INTEGERS:
        raise InputError(f"the values of {var.name} are integers, for it is a size; they are {kind}")
    for value in map(int, values):
        if (low is not None and value < low) or (high is not None and value > high):
            raise InputError(f"the value {shown(value)} of {var.name} is outside its bounds [{low}, {high}]")
        if value % step:
            raise InputError(f"the value {shown(value)} of {var.name} is no multiple of {step}, as it declares")

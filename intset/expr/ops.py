"""The table of operations, each with its mathematical meaning.

`meaning` maps argument values to the result, or raises `ZeroDivisionError` if undefined. Leaves and lazy operations
(`CONST`, `VAR`, `LOAD`, `SELECT`, `ASSERTING`, `AND`, `OR`) have `meaning = None`; `expr.evaluate` implements them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final


class Op:
    """One operation. `boolean` tells whether it makes a condition. Identity is equality; pickled by name."""

    __slots__ = ("boolean", "meaning", "name")

    def __init__(self, name: str, meaning: Callable[..., Any] | None, boolean: bool = False) -> None:
        self.name: Final = name
        self.meaning: Final = meaning
        self.boolean: Final = boolean
        OPS[name] = self

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return (op_named, (self.name,))


OPS: Final[dict[str, Op]] = {}


def op_named(name: str) -> Op:
    return OPS[name]


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def trunc_mod(a: int, b: int) -> int:
    r = abs(a) % abs(b)
    return -r if a < 0 else r


def wrap(value: int, bits: int, signed: bool) -> int:
    """The value a two's complement register of `bits` bits holds after storing `value`."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if signed and low >> (bits - 1) else low


def shift_left(a: int, b: int) -> int:
    if b < 0:
        raise ZeroDivisionError("negative shift")
    return a << b


def shift_right(a: int, b: int) -> int:
    if b < 0:
        raise ZeroDivisionError("negative shift")
    return a >> b


# leaves
CONST: Final = Op("const", None)
VAR: Final = Op("var", None)
LOAD: Final = Op("load", None)  # an opaque term: data is its Opaque symbol, the arguments are its indices
# integer operations
ADD: Final = Op("add", operator.add)
SUB: Final = Op("sub", operator.sub)
MUL: Final = Op("mul", operator.mul)
NEG: Final = Op("neg", operator.neg)
FLOORDIV: Final = Op("floordiv", operator.floordiv)
FLOORMOD: Final = Op("floormod", operator.mod)
CEILDIV: Final = Op("ceildiv", lambda a, b: -(-a // b))
TRUNCDIV: Final = Op("truncdiv", trunc_div)
TRUNCMOD: Final = Op("truncmod", trunc_mod)
MIN: Final = Op("minimum", min)
MAX: Final = Op("maximum", max)
ABS: Final = Op("abs", abs)
BITAND: Final = Op("bitand", operator.and_)
BITOR: Final = Op("bitor", operator.or_)
BITXOR: Final = Op("bitxor", operator.xor)
BITNOT: Final = Op("bitnot", operator.inv)
SHL: Final = Op("shl", shift_left)
SHR: Final = Op("shr", shift_right)
CAST: Final = Op("cast", None)  # data is (bits, signed)
SELECT: Final = Op("select", None)  # (condition, value if true, value if false), lazy
ASSERTING: Final = Op("asserting", None)  # (condition, value): the value, where the condition holds; else undefined
SIZE: Final = "size"  # payload of an assertion `n >= 0` that the shape of a tensor put on its variable
# conditions
BOOL: Final = Op("bool", None, boolean=True)  # data is True or False
LT: Final = Op("lt", operator.lt, boolean=True)
LE: Final = Op("le", operator.le, boolean=True)
GT: Final = Op("gt", operator.gt, boolean=True)
GE: Final = Op("ge", operator.ge, boolean=True)
EQ: Final = Op("eq", operator.eq, boolean=True)
NE: Final = Op("ne", operator.ne, boolean=True)
AND: Final = Op("and", None, boolean=True)  # lazy, left to right
OR: Final = Op("or", None, boolean=True)  # lazy, left to right
NOT: Final = Op("not", operator.not_, boolean=True)

DIVISIONS: Final = (FLOORDIV, FLOORMOD, CEILDIV, TRUNCDIV, TRUNCMOD)
COMPARISONS: Final = (LT, LE, GT, GE, EQ, NE)
NEGATED: Final = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}

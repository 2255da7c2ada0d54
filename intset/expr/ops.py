"""The table of operations, each with its operands and its mathematical meaning. Public as `intset.ops`.

A node of an expression has an operation `node.op`, operand nodes `node.args` and a payload `node.data`. Names, operands
and payloads are stable: converters to and from other libraries are tables keyed by operation (`intset.fold`,
`intset.Converter`).

`meaning` maps argument values to the result, or raises `ZeroDivisionError` if undefined. Leaves and lazy operations
(`CONST`, `VAR`, `LOAD`, `SELECT`, `ASSERTING`, `AND`, `OR`) have `meaning = None`; `expr.evaluate` implements them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final


class Op:
    """One operation. Identity is equality; pickled by name.

    Attributes
    ----------
    name: its stable name, that of `to_json` as well.
    operands: one letter an operand, "i" for an integer and "c" for a condition; `None`: any number of integers.
    doc: what it denotes, of operands a, b, c and the payload `data`.
    boolean: whether it makes a condition.
    meaning: the result as a function of operand values; `None` for leaves and lazy operations.

    A row with its own `table` is an operation of a higher layer: expressions do not have it.
    """

    __slots__ = ("boolean", "doc", "meaning", "name", "operands")

    def __init__(
        self,
        name: str,
        operands: str | None,
        doc: str,
        meaning: Callable[..., int] | None = None,
        boolean: bool = False,
        table: dict[str, Op] | None = None,
    ) -> None:
        self.name: Final = name
        self.operands: Final = operands
        self.doc: Final = doc
        self.meaning: Final = meaning
        self.boolean: Final = boolean
        (OPS if table is None else table)[name] = self

    @property
    def arity(self) -> int | None:
        """The number of operands; `None` for an opaque term, which has one for each index."""
        return None if self.operands is None else len(self.operands)

    def __repr__(self) -> str:
        return self.name.upper()

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return (op_named, (self.name,))


OPS: Final[dict[str, Op]] = {}
REGISTERED: Final[dict[str, Op]] = {}  # rows of other layers, which no expression has


def op_named(name: str) -> Op:
    return OPS.get(name) or REGISTERED[name]


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
CONST: Final = Op("const", "", "the integer data")
VAR: Final = Op("var", "", "a variable: a Var or a ShapeVar")
LOAD: Final = Op("load", None, "an unknown integer: terms are equal when symbol (data, an Opaque) and indices are")
# integer operations
ADD: Final = Op("add", "ii", "a + b", operator.add)
SUB: Final = Op("sub", "ii", "a - b", operator.sub)
MUL: Final = Op("mul", "ii", "a * b", operator.mul)
NEG: Final = Op("neg", "i", "-a", operator.neg)
FLOORDIV: Final = Op("floordiv", "ii", "the quotient rounded to minus infinity, Python's a // b", operator.floordiv)
FLOORMOD: Final = Op("floormod", "ii", "a - b * floordiv(a, b), Python's a % b", operator.mod)
CEILDIV: Final = Op("ceildiv", "ii", "the quotient rounded to plus infinity", lambda a, b: -(-a // b))
TRUNCDIV: Final = Op("truncdiv", "ii", "the quotient rounded to 0, C's a / b", trunc_div)
TRUNCMOD: Final = Op("truncmod", "ii", "a - b * truncdiv(a, b), C's a % b", trunc_mod)
MIN: Final = Op("minimum", "ii", "the smaller of a and b", min)
MAX: Final = Op("maximum", "ii", "the larger of a and b", max)
ABS: Final = Op("abs", "i", "the absolute value", abs)
BITAND: Final = Op("bitand", "ii", "a & b, of infinitely many sign bits", operator.and_)
BITOR: Final = Op("bitor", "ii", "a | b, of infinitely many sign bits", operator.or_)
BITXOR: Final = Op("bitxor", "ii", "a ^ b, of infinitely many sign bits", operator.xor)
BITNOT: Final = Op("bitnot", "i", "-a - 1", operator.inv)
SHL: Final = Op("shl", "ii", "a * 2**b; undefined where b < 0", shift_left)
SHR: Final = Op("shr", "ii", "a // 2**b; undefined where b < 0", shift_right)
CAST: Final = Op("cast", "i", "a in a two's complement register; data is (bits, signed)")
SELECT: Final = Op("select", "cii", "b where a holds, else c; lazy")
ASSERTING: Final = Op("asserting", "ci", "b where a holds, else undefined; data is SIZE or None")
SIZE: Final = "size"  # payload of an assertion `n >= 0` that the shape of a tensor put on its variable
# conditions
BOOL: Final = Op("bool", "", "the truth value data", boolean=True)
LT: Final = Op("lt", "ii", "a < b", operator.lt, boolean=True)
LE: Final = Op("le", "ii", "a <= b", operator.le, boolean=True)
GT: Final = Op("gt", "ii", "a > b", operator.gt, boolean=True)
GE: Final = Op("ge", "ii", "a >= b", operator.ge, boolean=True)
EQ: Final = Op("eq", "ii", "a == b", operator.eq, boolean=True)
NE: Final = Op("ne", "ii", "a != b", operator.ne, boolean=True)
AND: Final = Op("and", "cc", "a and b; lazy, from left to right", boolean=True)
OR: Final = Op("or", "cc", "a or b; lazy, from left to right", boolean=True)
NOT: Final = Op("not", "c", "not a", operator.not_, boolean=True)

DIVISIONS: Final = (FLOORDIV, FLOORMOD, CEILDIV, TRUNCDIV, TRUNCMOD)
COMPARISONS: Final = (LT, LE, GT, GE, EQ, NE)
LAZY: Final = (SELECT, AND, OR)  # the first operand alone is always evaluated
NEGATED: Final = {LT: GE, GE: LT, GT: LE, LE: GT, EQ: NE, NE: EQ}
MIRRORED: Final = {LT: GT, LE: GE, GT: LT, GE: LE, EQ: EQ, NE: NE}  # of the swapped operands

"""Hash-consed expression nodes: equal structure is the same object.

An `Expr` denotes a mathematical integer, a `Cond` a truth value. Construction never simplifies: it interns
exactly what was written. `POS_INF` and `NEG_INF` are the ends of unbounded sets.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Final, Never, NoReturn, Self, SupportsIndex, TypeAlias, TypeVar

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import as_count, mapped
from intset.expr.arguments import as_int as as_int
from intset.expr.dag import LOCK, ORIGIN, Flat, Interned, WeakTable, flatten, intern, no_quotient, rewrite
from intset.expr.dag import Guest as Guest  # the names that other layers know from here
from intset.expr.evaluate import settled
from intset.expr.ops import Op
from intset.expr.printer import Typeset, shown, to_text
from intset.expr.storage import OPERATIONS, Arithmetic, bind, fresh

IntLike: TypeAlias = "Expr | SupportsIndex"
Kind = TypeVar("Kind", "Expr", "Cond", "Node")  # Expr to Expr, Cond to Cond
Kind_co = TypeVar("Kind_co", bound="Node", covariant=True)  # the same, of what holds one
Old = TypeVar("Old", bound="Expr")  # what is replaced: mappings are invariant in their keys

NO_FIELDS: Final[Mapping[str, object]] = {}
VARIABLES: WeakTable[tuple[int, int], Any] = WeakTable(patience=100)  # whose keys keep no node alive
SERIAL = itertools.count()


def make(op: Op, args: tuple[Any, ...], data: Any = None) -> Any:
    """The node with this operation, these argument *nodes* and this payload; nothing is checked."""
    if op is ops.EQ or op is ops.NE:
        return intern(Equation, op, args, data)
    return intern(Cond if op.boolean else Term, op, args, data)


def folded_chain(op: Op, operands: Iterable[Kind]) -> Kind:
    """One or more operands, folded from the left by a binary operation; nothing is checked."""
    return reduce(lambda a, b: make(op, (a, b)), operands)


class ElementTypes:
    """What element types mean. Expressions have none of their own: a layer above sets both functions."""

    __slots__ = ("cast", "of")
    of: Callable[[Any], str]
    cast: Callable[[str, Any], Node | Guest]


ELEMENT_TYPES: Final = ElementTypes()


class Node(Typeset, Interned):
    """Base of expressions and conditions: text, pickling, substitution."""

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        return (rebuild, (flatten(self),))

    def substitute(self, replacements: Mapping[Old, IntLike]) -> Node:
        """This node with every occurrence of a key replaced by its value, simultaneously."""
        return substituted(self, replacements)

    @property
    def dtype(self) -> str:
        """The element type of a tensor that stores it, where a layer above has such types."""
        return ELEMENT_TYPES.of(self)

    def astype(self, dtype: str) -> Node | Guest:
        """It as a number of an element type."""
        return ELEMENT_TYPES.cast(dtype, self)

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return to_text(self, limit=2000)


def substituted(root: Kind, replacements: Mapping[Old, IntLike]) -> Kind:
    """`root` with every occurrence of a key of `replacements` replaced by its value, simultaneously."""
    new: dict[Node, Node] = {}
    for key, value in mapped(replacements, "the replacements").items():
        if not isinstance(key, Expr):
            raise InputError(f"only expressions can be replaced, not {shown(key)}")
        new[key] = value if isinstance(value, Expr) else as_expr(value, f"the replacement of {key!r}")
    return rewrite(root, new)


def rebuild(rows: Flat) -> Node:
    """The node whose table `flatten` made."""
    nodes: list[Any] = []
    for row in rows:
        if isinstance(row[0], type):
            cls, name, uid, fields = row
            nodes.append(cls.created(name, uid, fields))
        else:
            op, args, data = row
            nodes.append(make(op, tuple(nodes[arg] for arg in args), data))
    answer: Node = nodes[-1]
    return answer


def _operators(op: Op) -> tuple[Callable[[Any, IntLike], Expr], Callable[[Any, IntLike], Expr]]:
    """The operator of an operation, and the one of swapped operands."""
    return lambda self, other: _binary(op, self, other), lambda self, other: _binary(op, other, self)


def _comparison(op: Op) -> Callable[[Any, IntLike | Infinity], Cond]:
    return lambda self, other: compare(op, self, other)


class Expr(Node, Arithmetic):
    """An integer-valued expression.

    `==` builds an `Equation`, whose `bool()` is structural identity, so expressions serve as dictionary keys; `<`,
    `<=`, `>`, `>=` build conditions. `//` and `%` are floor division and its remainder.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    __and__, __rand__ = _operators(ops.BITAND)
    __or__, __ror__ = _operators(ops.BITOR)
    __xor__, __rxor__ = _operators(ops.BITXOR)
    __lshift__, __rlshift__ = _operators(ops.SHL)
    __rshift__, __rrshift__ = _operators(ops.SHR)
    __lt__, __le__, __gt__, __ge__ = map(_comparison, (ops.LT, ops.LE, ops.GT, ops.GE))

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return intern(Term, ops.BITNOT, (self,), None)

    def __abs__(self) -> Expr:
        return intern(Term, ops.ABS, (self,), None)

    def __truediv__(self, other: Never) -> object:
        if isinstance(other, float) and FLOATS.binary is not None:
            return FLOATS.binary("truediv", self, other)
        return no_quotient(self, other)

    def __rtruediv__(self, other: Never) -> object:
        if isinstance(other, float) and FLOATS.binary is not None:
            return FLOATS.binary("truediv", other, self)
        return no_quotient(self, other)

    def __eq__(self, other: object) -> Any:
        return self._equation(ops.EQ, other)

    def __ne__(self, other: object) -> Any:
        return self._equation(ops.NE, other)

    def _equation(self, op: Op, other: object) -> Any:
        if isinstance(other, Expr):
            return make(op, (self, other))
        if isinstance(other, float) and FLOATS.binary is not None:
            return FLOATS.binary(op.name, self, other)
        if isinstance(other, (bool, float, str, type)) or not hasattr(other, "__index__"):
            return NotImplemented
        return make(op, (self, as_expr(other)))

    def eq(self, other: IntLike) -> Cond:
        """The condition that both are equal."""
        return self == other if isinstance(other, Guest) else compare(ops.EQ, self, other)

    equal = eq  # TVM's name

    def ne(self, other: IntLike) -> Cond:
        """The condition that both differ."""
        return self != other if isinstance(other, Guest) else compare(ops.NE, self, other)

    def __pow__(self, exponent: SupportsIndex) -> Expr:
        """The product of `exponent` factors, from left to right; the exponent is a number."""
        if isinstance(exponent, Expr) and not exponent.is_const:
            raise InputError(
                f"the exponent of ** must be a number, not {shown(exponent)}: 1 << e is 2 to the power of e"
            )
        count = as_count(exponent, "the exponent of **")
        return reduce(operator.mul, itertools.repeat(self, count - 1), self) if count else const(1)

    def __rpow__(self, base: IntLike) -> Expr:
        return as_expr(base) ** self

    def __divmod__(self, other: IntLike) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: IntLike) -> tuple[Expr, Expr]:
        return other // self, other % self

    def substitute(self, replacements: Mapping[Old, IntLike]) -> Expr:
        """This expression with every occurrence of a key replaced by its value, simultaneously."""
        return substituted(self, replacements)

    def same_as(self, other: object) -> bool:
        """Whether both are one expression, up to operations that change nothing, which TVM's constructors fold."""
        return self is other or (isinstance(other, Expr) and folded(self) is folded(other))

    @property
    def is_const(self) -> bool:
        return self.op is ops.CONST

    @property
    def value(self) -> int:
        """The number of an expression of constants alone: TVM's `IntImm.value`. No other expression has it."""
        value = settled(folded(self))
        if value is None:
            raise AttributeError(f"{self!r} is no constant and has no value")
        return int(value)

    def __int__(self) -> int:
        value = settled(self)
        if value is None:
            raise InputError(f"{shown(self)} is not a constant")
        return int(value)

    def __index__(self) -> int:
        return int(self)

    def __bool__(self) -> bool:
        raise InputError(f"the truth value of the integer {shown(self)} is not known: compare it, as in e.ne(0)")

    def __iter__(self) -> NoReturn:
        raise TypeError("an expression is not iterable")


NEUTRAL: Final = {
    ops.ADD: (0, 0),
    ops.SUB: (None, 0),
    ops.MUL: (1, 1),
    ops.FLOORDIV: (None, 1),
    ops.TRUNCDIV: (None, 1),
}
"""The operand, left and right, with which an operation gives the other one."""


def folded(e: Expr) -> Expr:
    """`e` without operations at its root that change nothing; 0 for a remainder by 1 and a product with 0."""
    while len(e.args) == 2 and isinstance(e.args[0], Expr):
        left, right = e.args
        ends = tuple(arg.data if arg.op is ops.CONST else ... for arg in e.args)
        first, second = NEUTRAL.get(e.op, (None, None))
        if (e.op in (ops.FLOORMOD, ops.TRUNCMOD) and ends[1] == 1) or (e.op is ops.MUL and 0 in ends):
            return const(0)
        if ends[1] == second:
            e = left
        elif ends[0] == first:
            e = right
        else:
            break
    return e


class Term(Expr):
    """An expression other than a variable.

    Invariant: `Term`, `PlainVar` and `ShapeVar` are siblings. Python tries the reflected comparison first if the class
    of the right operand derives from the left one's, which would turn `i + 1 < j` into `j > i + 1`.
    """

    __slots__ = ()


class Cond(Node):
    """A condition. Combine with `&`, `|`, `~`.

    `bool()` of a condition over constants is its truth value; of any other condition it raises.
    """

    __slots__ = ()
    __hash__ = object.__hash__

    @property
    def value(self) -> int:
        """1 or 0 for a condition over constants, as TVM's `IntImm.value`. No other condition has it."""
        value = self.data if self.op is ops.BOOL else settled(self)
        if value is None:
            raise AttributeError(f"{self!r} is no constant and has no value")
        return int(value)

    def __and__(self, other: Cond) -> Cond:
        if isinstance(other, Guest):
            return NotImplemented
        return intern(Cond, ops.AND, (self, as_cond(other)), None)

    def __rand__(self, other: Cond) -> Cond:
        return intern(Cond, ops.AND, (as_cond(other), self), None)

    def __or__(self, other: Cond) -> Cond:
        if isinstance(other, Guest):
            return NotImplemented
        return intern(Cond, ops.OR, (self, as_cond(other)), None)

    def __ror__(self, other: Cond) -> Cond:
        return intern(Cond, ops.OR, (as_cond(other), self), None)

    def __invert__(self) -> Cond:
        return intern(Cond, ops.NOT, (self,), None)

    def __mul__(self, other: IntLike) -> Expr:
        return _binary(ops.MUL, self, other)

    def __rmul__(self, other: IntLike) -> Expr:
        return _binary(ops.MUL, other, self)

    def substitute(self, replacements: Mapping[Old, IntLike]) -> Cond:
        """This condition with every occurrence of a key replaced by its value, simultaneously."""
        return substituted(self, replacements)

    def __bool__(self) -> bool:
        if self.op is ops.BOOL:
            return bool(self.data)
        value = settled(self)
        if value is not None:
            return bool(value)
        raise InputError(
            f"the truth value of the condition {shown(self)} is not known: combine conditions with & | ~ "
            "(not 'and', 'or', 'not', nor a chain such as a < b < c), decide them with Context.prove; "
            "minimum and maximum stand for Python's min and max"
        )


class Equation(Cond):
    """`a == b` or `a != b`.

    Its `bool()` tells whether both sides are the *same expression*, or, over constants alone, whether they are equal.
    """

    __slots__ = ()

    def __bool__(self) -> bool:
        left, right = self.args
        same = left is right
        if not same and (left.op is ops.CONST or right.op is ops.CONST) and left.op is not right.op:
            try:
                same = settled(left) == settled(right)
            except ArithmeticError:  # a side without a value, such as 1 // 0
                same = False
        return same if self.op is ops.EQ else not same


class Var(Expr):
    """A variable. It is itself: two variables of one name are two variables; the name is a label.

    Parameters
    ----------
    name: the label used in print.
    """

    __slots__ = ("name", "serial")
    name: str
    serial: int

    def __new__(cls, name: str) -> Var:
        return (PlainVar if cls is Var else cls).new(name, (ORIGIN.token, next(ORIGIN.count)), NO_FIELDS)

    @classmethod
    def created(cls, name: str, uid: tuple[int, int], fields: Mapping[str, object]) -> Self:
        """The variable with this uid, created if none is alive."""
        with LOCK:
            known: Self | None = VARIABLES.get(uid)
            return cls.new(name, uid, fields) if known is None else known

    @classmethod
    def new(cls, name: str, uid: tuple[int, int], fields: Mapping[str, object]) -> Self:
        """A new variable. Precondition: `uid` is fresh."""
        if not isinstance(name, str) or not name:
            raise InputError(f"a variable's name is a non-empty text, not {shown(name)}")
        self = fresh(cls, ops.VAR, (), uid)
        _set_name(self, name)  # unrolled: hot
        _set_serial(self, next(SERIAL))
        for slot in fields:
            self.remember(slot, fields[slot])
        VARIABLES.put(uid, self)
        return self

    @property
    def uid(self) -> tuple[int, int]:
        """The identity that pickling keeps."""
        uid: tuple[int, int] = self.data
        return uid

    def free_vars(self) -> tuple[Var, ...]:
        return (self,)  # not cached: a self reference would keep it alive

    def fields(self) -> Mapping[str, object]:
        """The slots that pickling stores besides name and uid."""
        return {}

    def declared(self) -> tuple[int | None, int | None, int]:
        """(lower bound, upper bound, divisor) that the variable itself carries; `None` where unbounded."""
        return (None, None, 1)


def is_declared(e: Expr, value: int) -> bool:
    """Whether a value respects the declared bounds and divisor of a variable or load."""
    low, high, step = e.declared() if isinstance(e, Var) else (e.data.lower, e.data.upper, 1)
    return (low is None or low <= value) and (high is None or value <= high) and value % step == 0


_SLOTS = Var.__dict__  # descriptors: quicker than `object.__setattr__`
_set_name, _set_serial = (_SLOTS[slot].__set__ for slot in ("name", "serial"))


class PlainVar(Var):
    """The class of `Var(name)`; a sibling of `Term`, see there."""

    __slots__ = ()


class ShapeVar(Var):
    """A size: a variable that carries its own bounds, both ends included.

    Parameters
    ----------
    name: the label used in print.
    lower: smallest value, or `None`.
    upper: largest value, or `None`.
    multiple_of: a positive number that divides every value.
    """

    __slots__ = ("lower", "multiple_of", "upper")
    lower: int | None
    upper: int | None
    multiple_of: int

    def __new__(cls, name: str, lower: int | None = 0, upper: int | None = None, multiple_of: int = 1) -> ShapeVar:
        what = f"ShapeVar({shown(name)})"
        low = None if lower is None else as_int(lower, f"lower of {what}")
        high = None if upper is None else as_int(upper, f"upper of {what}")
        step = as_int(multiple_of, f"multiple_of of {what}")
        if step < 1:
            raise InputError(f"multiple_of of {what} must be at least 1, not {shown(step)}")
        if low is not None and high is not None and -(-low // step) > high // step:
            raise InputError(f"{what} has no value: [{shown(low)}, {shown(high)}], step {shown(step)}")
        return cls.new(name, ORIGIN.next_uid(), {"lower": low, "upper": high, "multiple_of": step})

    def fields(self) -> Mapping[str, object]:
        return {"lower": self.lower, "upper": self.upper, "multiple_of": self.multiple_of}

    def declared(self) -> tuple[int | None, int | None, int]:
        return (self.lower, self.upper, self.multiple_of)


def const(value: SupportsIndex) -> Expr:
    """The constant `value`, of any size."""
    if type(value) is not int:
        value = as_int(value, "a constant")
    if -SMALL <= value <= SMALL:
        return _SMALL_CONSTANTS[value + SMALL]
    return intern(Term, ops.CONST, (), value)


def as_expr(value: object, what: str = "an operand") -> Expr:
    """`value` as an expression: an `Expr` is itself, an integer a constant; all else is refused, naming `what`."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, Cond):
        raise InputError(f"{what} must be an integer expression, not the condition {shown(value)}")
    if isinstance(value, str):
        raise InputError(f"{what} must be an expression, not the text {shown(value)}: intset.parse reads expressions")
    return const(value if type(value) is int else as_int(value, what))


def as_cond(value: object, what: str = "an operand") -> Cond:
    """`value` as a condition; integers and Python's own truth values are refused, naming `what`."""
    if isinstance(value, Cond):
        return value
    if isinstance(value, bool):
        raise InputError(f"{what} must be a condition, not Python's {value}: was it compared with 'is', 'in' or 'and'?")
    if isinstance(value, str):
        raise InputError(f"{what} must be a condition, not the text {shown(value)}: intset.parse reads conditions")
    raise InputError(f"{what} must be a condition, not {shown(value)} of type {type(value).__name__}")


def constant_value(e: Expr) -> int | None:
    """The value of a constant or of a negated constant, else `None`."""
    if e.op is ops.CONST:
        value: int = e.data
        return value
    return -int(e.args[0].data) if e.op is ops.NEG and e.args[0].op is ops.CONST else None


def _operand(value: object) -> Expr | None:
    """A non-expression operand as an expression; `None` for a guest, which has its own reflected operator."""
    if isinstance(value, Guest):
        return None
    if isinstance(value, Cond):
        raise InputError(f"a condition is not a number: {shown(value)} (use select(condition, 1, 0))")
    return const(value if type(value) is int else as_int(value, "an operand"))


_NOT_MINE: Expr = NotImplemented  # defers to the reflected operator of a guest
_NEITHER_MINE: Cond = NotImplemented


class FloatOperators:
    """What an operation of an integer and a Python float is, and a product with a condition, which counts 1 or 0.

    Refused unless a layer with float values sets `binary`.

    `binary` takes the name of the operation, "add" or "lt" and the like, "truediv" for `/`, and the operands.
    """

    __slots__ = ("binary",)
    binary: Callable[[str, object, object], Any] | None

    def __init__(self) -> None:
        self.binary = None


FLOATS = FloatOperators()
_COUNTED: Final = (float, Cond)


def _binary(op: Op, a: object, b: object) -> Expr:
    if isinstance(a, Expr):
        if isinstance(b, Expr):
            return intern(Term, op, (a, b), None)
        if type(b) is int:
            return intern(Term, op, (a, const(b)), None)
    if FLOATS.binary is not None:
        foreign = _COUNTED if op is ops.MUL else float
        if isinstance(b, foreign) or isinstance(a, foreign):
            promoted: Expr = FLOATS.binary(op.name, a, b)
            return promoted
    left = a if isinstance(a, Expr) else _operand(a)
    right = b if isinstance(b, Expr) else _operand(b)
    if left is None or right is None:
        return _NOT_MINE
    return intern(Term, op, (left, right), None)


def divide(op: Op, a: object, b: object) -> Expr:
    """One of the five divisions; a divisor that is the constant 0 is refused."""
    if type(b) is int and b and isinstance(a, Expr):
        return intern(Term, op, (a, const(b)), None)
    if isinstance(b, Guest):
        return _NOT_MINE
    dividend, divisor = as_expr(a, "a dividend"), as_expr(b, "a divisor")
    if divisor.op is ops.CONST and divisor.data == 0:
        raise InputError(f"division by the constant 0: {op.name}({shown(dividend)}, 0)")
    return intern(Term, op, (dividend, divisor), None)


def compare(op: Op, a: object, b: object) -> Cond:
    """A comparison of two integer expressions; against an infinity it is decided here."""
    if isinstance(b, Guest):
        return _NEITHER_MINE
    if isinstance(b, float) and FLOATS.binary is not None:
        promoted: Cond = FLOATS.binary(op.name, a, b)
        return promoted
    if isinstance(b, Infinity):
        return truth(
            bool({ops.LT: b.sign > 0, ops.LE: b.sign > 0, ops.NE: True}.get(op, b.sign < 0 and op is not ops.EQ))
        )
    return intern(Equation if op in (ops.EQ, ops.NE) else Cond, op, (as_expr(a), as_expr(b)), None)


def truth(value: bool) -> Cond:
    """The constant condition."""
    return intern(Cond, ops.BOOL, (), bool(value))


SMALL = 256  # absolute value of the constants kept alive
_SMALL_CONSTANTS: tuple[Expr, ...] = tuple(intern(Term, ops.CONST, (), k) for k in range(-SMALL, SMALL + 1))
bind(Term, ShapeVar, _SMALL_CONSTANTS, _binary, divide, OPERATIONS)


# -- the ends of unbounded sets ---------------------------------------------------------------------------------------


class Infinity:
    """`POS_INF` or `NEG_INF`: comparable with numbers and expressions, with negation as its only operation.

    >>> NEG_INF < -10**100 < POS_INF
    True
    >>> -POS_INF is NEG_INF
    True
    """

    __slots__ = ("sign",)
    sign: int

    def __new__(cls, sign: int) -> Infinity:
        known = _KNOWN.get(sign)
        if known is None:
            known = object.__new__(cls)
            object.__setattr__(known, "sign", sign)
            _KNOWN[sign] = known
        return known

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("an infinity is immutable")

    def __neg__(self) -> Infinity:
        return Infinity(-self.sign)

    def __lt__(self, other: object) -> bool:
        return self.sign < 0 and other is not self if _is_number(other) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return self.sign > 0 and other is not self if _is_number(other) else NotImplemented

    def __le__(self, other: object) -> bool:
        return self.sign < 0 or other is self if _is_number(other) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return self.sign > 0 or other is self if _is_number(other) else NotImplemented

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __float__(self) -> float:
        return self.sign * float("inf")

    def __int__(self) -> int:
        raise OverflowError(f"{self!r} is not an integer")

    def __reduce__(self) -> tuple[type[Infinity], tuple[int]]:
        return (Infinity, (self.sign,))

    def __repr__(self) -> str:
        return "POS_INF" if self.sign > 0 else "NEG_INF"


def _is_number(other: object) -> bool:
    return isinstance(other, (Infinity, float)) or hasattr(other, "__index__")


_KNOWN: dict[int, Infinity] = {}
POS_INF: Final = Infinity(1)
NEG_INF: Final = Infinity(-1)

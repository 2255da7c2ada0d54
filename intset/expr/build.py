"""Constructors of operations without a Python operator; `Opaque`, symbols for integers without structure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import lru_cache, reduce
from typing import Final, NoReturn

from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.arguments import a_flag, a_name, as_count, as_int, listed
from intset.expr.dag import LOCK, ORIGIN, intern
from intset.expr.evaluate import as_width, settled
from intset.expr.node import SERIAL, VARIABLES, Cond, Expr, IntLike, Term, as_cond, as_expr, const, divide, make, truth
from intset.expr.printer import shown

KEPT_VALUES: Final = 4_096  # values of a function that its symbol keeps
TRUE: Final = truth(True)
FALSE: Final = truth(False)


def floordiv(a: IntLike, b: IntLike) -> Expr:
    """`a // b`, rounded to minus infinity."""
    return divide(ops.FLOORDIV, a, b)


def floormod(a: IntLike, b: IntLike) -> Expr:
    """`a % b`, with the sign of `b`."""
    return divide(ops.FLOORMOD, a, b)


def ceildiv(a: IntLike, b: IntLike) -> Expr:
    """The quotient rounded to plus infinity."""
    return divide(ops.CEILDIV, a, b)


def truncdiv(a: IntLike, b: IntLike) -> Expr:
    """C's `a / b`: the quotient rounded to 0."""
    return divide(ops.TRUNCDIV, a, b)


def truncmod(a: IntLike, b: IntLike) -> Expr:
    """C's `a % b`, with the sign of `a`."""
    return divide(ops.TRUNCMOD, a, b)


def evaluated(e: Expr) -> Expr:
    """The constant that `e` equals where it has no variables, no opaque terms and a value; else `e` itself.

    >>> evaluated(const(7) - 1)
    6
    """
    if e.op is ops.CONST or e.op is ops.VAR:
        return e
    try:
        value = settled(e)
    except EvaluationError:
        return e
    return e if value is None else const(value)


def minimum(*values: IntLike) -> Expr:
    """The smallest of at least one value."""
    return _fold(ops.MIN, values)


def maximum(*values: IntLike) -> Expr:
    """The largest of at least one value."""
    return _fold(ops.MAX, values)


def _fold(op: ops.Op, values: tuple[IntLike, ...]) -> Expr:
    if not values:
        raise InputError(f"{op.name} needs at least one value")
    return reduce(lambda a, b: make(op, (a, b)), [as_expr(v) for v in values])


def sum_of(terms: Iterable[IntLike]) -> Expr:
    """The terms added from left to right; 0 for none."""
    first, *others = listed(terms, "what sum_of adds") or (0,)
    return reduce(operator.add, others, as_expr(first))


def select(condition: Cond, if_true: IntLike, if_false: IntLike) -> Expr:
    """`if_true` if the condition holds, else `if_false`; lazy: the other branch is not evaluated."""
    cond = as_cond(condition, "the condition of select")
    answer: Expr = make(ops.SELECT, (cond, as_expr(if_true), as_expr(if_false)))
    return answer


def cast(value: IntLike, bits: int, signed: bool = True) -> Expr:
    """The value wrapped to a two's complement register of `bits` bits."""
    width = as_width(bits, "bits of cast")
    answer: Expr = make(ops.CAST, (as_expr(value),), (width, a_flag(signed, "signed of cast")))
    return answer


def opaque(name: str, lower: int | None = None, upper: int | None = None) -> Expr:
    """A fresh unknown integer, optionally with bounds (both ends included)."""
    return Opaque(name, 0, lower, upper)()


def asserting(condition: Cond, value: IntLike) -> Expr:
    """`value` under the assertion of `condition`; undefined where the condition fails."""
    answer: Expr = make(ops.ASSERTING, (as_cond(condition, "the condition of asserting"), as_expr(value)))
    return answer


def nonneg(value: IntLike) -> Expr:
    """`value` under the assertion `value >= 0`."""
    e = as_expr(value)
    return asserting(e >= 0, e)


def bounded(value: IntLike, lower: IntLike | None = None, upper: IntLike | None = None) -> Expr:
    """`value` under the assertion `lower <= value <= upper`."""
    e = as_expr(value)
    claims = ([] if lower is None else [e >= lower]) + ([] if upper is None else [e <= upper])
    return asserting(logical_and(*claims), e) if claims else e


def logical_and(*conditions: Cond) -> Cond:
    """The lazy conjunction, from left to right; true without operands."""
    return _join(ops.AND, conditions, True)


def logical_or(*conditions: Cond) -> Cond:
    """The lazy disjunction, from left to right; false without operands."""
    return _join(ops.OR, conditions, False)


def logical_not(condition: Cond) -> Cond:
    """The negation."""
    return ~as_cond(condition)


def _join(op: ops.Op, conditions: tuple[object, ...], empty: bool) -> Cond:
    conds = [as_cond(c, f"an operand of logical_{op.name}") for c in conditions]
    return reduce(lambda a, b: make(op, (a, b)), conds) if conds else truth(empty)


class Opaque:
    """A symbol for unknown integers, such as the elements of an index tensor.

    `table[i, j]` (or `table()` for a single unknown) is an opaque term: two terms are equal when symbol and indices
    are.

    Parameters
    ----------
    name: the label used in print.
    lower, upper: bounds of every element, both ends included; `None` where unknown.
    rank: number of indices.
    """

    __slots__ = ("__weakref__", "lower", "name", "rank", "serial", "uid", "upper")
    value_at: Callable[..., int] | None = None

    def __init__(self, name: str, rank: int = 0, lower: int | None = None, upper: int | None = None) -> None:
        self._fill(
            a_name(name, "the name of an opaque symbol"),
            as_count(rank, f"rank of Opaque({name!r})"),
            None if lower is None else as_int(lower, f"lower of Opaque({name!r})"),
            None if upper is None else as_int(upper, f"upper of Opaque({name!r})"),
            ORIGIN.next_uid(),
        )
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise InputError(f"Opaque({name!r}) has no value: lower={shown(self.lower)}, upper={shown(self.upper)}")

    def _fill(self, name: str, rank: int, lower: int | None, upper: int | None, uid: tuple[int, int]) -> None:
        self.name, self.rank, self.lower, self.upper, self.uid = name, rank, lower, upper, uid
        self.serial = next(SERIAL)
        VARIABLES.put(uid, self)

    @staticmethod
    def restored(name: str, rank: int, lower: int | None, upper: int | None, uid: tuple[int, int]) -> Opaque:
        with LOCK:
            known = VARIABLES.get(uid)
            if known is None:
                known = object.__new__(Opaque)
                known._fill(name, rank, lower, upper, uid)
            return known

    def __reduce__(self) -> tuple[object, ...]:
        return (Opaque.restored, (self.name, self.rank, self.lower, self.upper, self.uid))

    def __copy__(self) -> Opaque:
        return self

    def __deepcopy__(self, memo: object) -> Opaque:
        return self

    def __call__(self, *indices: IntLike) -> Expr:
        if len(indices) != self.rank:
            raise InputError(f"{self.name} takes {self.rank} indices, not {len(indices)}")
        return intern(Term, ops.LOAD, tuple(as_expr(index) for index in indices), self)

    def __getitem__(self, indices: IntLike | tuple[IntLike, ...]) -> Expr:
        return self(*(indices if isinstance(indices, tuple) else (indices,)))

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the opaque symbol {self.name} is not iterable")

    def __repr__(self) -> str:
        return self.name


class NumericFunction(Opaque):
    """The symbol of integers that a function computes: `evaluate` of a term calls it with the values of the indices.

    Proofs and sets know its bounds alone; a counterexample states the value that it assumes.

    Attributes
    ----------
    function: maps `rank` ints to an int; pure. It raises `ZeroDivisionError` where it is undefined.
    """

    __slots__ = ("function", "value_at")
    function: Callable[..., int]

    def __init__(
        self, name: str, rank: int, function: Callable[..., int], lower: int | None = None, upper: int | None = None
    ) -> None:
        super().__init__(name, rank, lower, upper)
        self.function = function
        self.value_at = lru_cache(maxsize=KEPT_VALUES)(function)

    @staticmethod
    def _restored(
        name: str, rank: int, function: Callable[..., int], limits: tuple[int | None, int | None], uid: tuple[int, int]
    ) -> NumericFunction:
        with LOCK:
            known = VARIABLES.get(uid)
            if known is None:
                known = NumericFunction(name, rank, function, limits[0], limits[1])
                known._fill(name, rank, limits[0], limits[1], uid)
            symbol: NumericFunction = known
            return symbol

    def __reduce__(self) -> tuple[object, ...]:
        limits = (self.lower, self.upper)
        return (NumericFunction._restored, (self.name, self.rank, self.function, limits, self.uid))

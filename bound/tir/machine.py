"""Machine arithmetic of integer values, in terms of the integers.

A formula of te is written with Python's operators, and means what its types say: operands are converted to their common
type, and each result wraps to it. `in_types` puts a cast wherever a result may have left its type and more than its low
bits matter. Elsewhere results stay exact: sums, differences, products, shifts to the left and bit operations commute
with wrapping, and a store wraps what it is given. So every rule about integers holds for values, too, and a cast is
dropped where its argument is proved to fit.

Operations undefined at their type (shifts by the width or more, the least number divided by -1) become calls of
`Trapping` functions: opaque to analysis, checked on execution.

Indices are mathematical integers: the brackets of a load contain no machine type, and nothing in them wraps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import reduce
from typing import Any, Final

from bound import dtypes
from bound.tir import build
from bound.tir.value import CALL, OF_LOW_BITS, REDUCE, IntFunction, Operand, ScriptVar, Value, integer, make, span_of
from bound.tir.walk import loaded_tensor, substitute
from intset.expr import Cond, Expr, as_expr, dag, ops
from intset.expr import build as ints
from intset.linear.bounds import Interval

_QUOTIENTS: Final = (ops.FLOORDIV, ops.TRUNCDIV, ops.CEILDIV)
_SHIFTS: Final = (ops.SHL, ops.SHR)
_TYPED: Final = frozenset((ops.LOAD, ops.CAST))


def in_types(root: Operand, known: Mapping[Any, str] | None = None) -> Any:
    """The formula with the arithmetic of its types. Its result may exceed its type, since stores wrap.

    Parameters
    ----------
    known: types of variables that stand for values.
    """
    return root if not known and _has_indices_alone(root) else _Typing(known or {}).exact(root)


def as_value(root: Operand) -> Any:
    """The formula with the arithmetic of its types, its result wrapped to its own type."""
    if _has_indices_alone(root):
        return root
    typing = _Typing({})
    typing.exact(root)
    return typing.value(root) if isinstance(root, Expr) else typing.exact_of[root]


def _has_indices_alone(root: Operand) -> bool:
    return _TYPED.isdisjoint(dag.operations(root)) and not any(map(_is_value, dag.postorder((root,))))


def _is_value(node: object) -> bool:
    """Whether a variable is a value: its type is unsigned, or narrower than `int32`."""
    if not isinstance(node, ScriptVar):
        return False
    return not dtypes.signed(node.type_name) or dtypes.bits(node.type_name) < dtypes.bits(dtypes.INDEX)


def within(e: Expr, dtype: str, span: Interval | None = None) -> Expr:
    """The number wrapped to the type, unchanged if its interval fits. `span`: that interval, computed by default."""
    low, high = span_of(e, {}, {}) if span is None else span
    if low is not None and high is not None and dtypes.holds(dtype, low) and dtypes.holds(dtype, high):
        return e
    return ints.cast(e, dtypes.bits(dtype), dtypes.signed(dtype))


class Trapping(StrEnum):
    """Functions of two integers of a type that have no value for some operands because of the type."""

    SHIFT_LEFT = "shift_left"
    SHIFT_RIGHT = "shift_right"
    FLOORDIV = "floordiv"
    TRUNCDIV = "truncdiv"
    CEILDIV = "ceildiv"

    @property
    def op(self) -> ops.Op:
        """The operation that the function computes on its defined operands."""
        return _OPERATIONS[self]

    @staticmethod
    def of(op: ops.Op) -> Trapping:
        return next(function for function, own in _OPERATIONS.items() if own is op)


_OPERATIONS: Final = {
    Trapping.SHIFT_LEFT: ops.SHL,
    Trapping.SHIFT_RIGHT: ops.SHR,
    Trapping.FLOORDIV: ops.FLOORDIV,
    Trapping.TRUNCDIV: ops.TRUNCDIV,
    Trapping.CEILDIV: ops.CEILDIV,
}
TRAPPING: Final = frozenset(map(str, Trapping))


def trapping(function: Trapping, a: Expr, b: Expr, dtype: str) -> Expr:
    """A call of a partial function on two integers of a type."""
    return integer(make(CALL, (a, b), dtype, str(function)))


class _Typing:
    """The typed form of each node of a formula.

    Attributes
    ----------
    types: the type of each integer.
    data: the integers that are values; all others are indices.
    exact_of: nodes in typed form, results exact.
    """

    def __init__(self, known: Mapping[Any, str]) -> None:
        self.types: dict[Any, str] = {}
        self.data: set[Any] = set()
        self.exact_of: dict[Any, Any] = {}
        self.spans: dict[Any, Interval] = {}
        self.known = known
        self.ranges: dict[Any, Interval] = {v: dtypes.int_range(t) for v, t in known.items() if dtypes.is_int(t)}

    def exact(self, root: Operand) -> Any:
        known = self.exact_of
        for node in dag.postorder_by((root,), lambda node: () if node in known else self._parts(node)):
            if node not in known:
                self._type(node)
                known[node] = self._made(node)
        return known[root]

    def _parts(self, node: Any) -> tuple[Any, ...]:
        """What a node computes with; indices are no part of it."""
        if loaded_tensor(node) is not None:
            return ()
        if node.op is ops.LOAD:
            return () if not isinstance(node.data, IntFunction) else (self._body(node),)
        args: tuple[Any, ...] = node.args
        return args

    @staticmethod
    def _body(node: Any) -> Operand:
        mapping: dict[Operand, Operand] = dict(zip(node.data.params, node.args, strict=True))
        body: Operand = node.data.body
        return substitute(body, mapping)

    def _type(self, node: Any) -> None:
        if not isinstance(node, Expr):
            return
        self.types[node] = self.known[node] if node in self.known else build.integer_type(node, self.types)
        if node in self.known or any(arg in self.data for arg in node.args) or self._is_typed(node):
            self.data.add(node)

    def _is_typed(self, node: Expr) -> bool:
        if node.op is ops.LOAD:
            return hasattr(node.data, "dtype")
        return _is_value(node) if node.op is not ops.CAST else not self._is_wide_index(node)

    def _is_wide_index(self, cast: Expr) -> bool:
        """Whether a cast takes an index to a signed type at least as wide as `int32`: the number stays."""
        width, is_signed = cast.data
        return is_signed and width >= dtypes.bits(dtypes.INDEX) and cast.args[0] not in self.data

    # -- operations -------------------------------------------------------------------------------------------------

    def _made(self, node: Any) -> Any:
        if loaded_tensor(node) is not None:
            return node
        if isinstance(node, Value):
            return self._value(node)
        if node.op is ops.LOAD:
            if not isinstance(node.data, IntFunction):
                return node
            body = self._body(node)
            return node if self.exact_of[body] is body else integer(self.exact_of[body])
        if not node.args:
            return node
        if node.op is ops.CAST:
            return self._cast(node)
        if node.op in ops.COMPARISONS:
            return node.with_args(tuple(self._converted(node.args)))
        if isinstance(node, Cond) or node.op is ops.ASSERTING or node not in self.data:
            return node.with_args(tuple([self.exact_of[arg] for arg in node.args]))
        if node.op in _SHIFTS:
            return self._shift(node)
        if node.op in OF_LOW_BITS:
            dtype = self.types[node]
            return node.with_args(tuple([self._widened(arg, dtype) for arg in node.args]))
        args = self._converted(node.args)
        made = node.with_args(tuple(args))
        return self._untrapped(made, self.types[node]) if node.op in _QUOTIENTS else made

    def _widened(self, arg: Any, dtype: str) -> Any:
        """An operand of which a type takes the low bits."""
        is_narrow = isinstance(arg, Expr) and dtypes.bits(self.types[arg]) < dtypes.bits(dtype)
        return self.value(arg) if is_narrow else self.exact_of[arg]

    def _converted(self, args: Iterable[Any]) -> list[Any]:
        """Operands in their common type."""
        numbers = [arg for arg in args if isinstance(arg, Expr)]
        if not any(arg in self.data for arg in numbers):
            return [self.exact_of[arg] for arg in args]
        dtype = reduce(dtypes.promote, [self.types[arg] for arg in numbers])
        return [self.value(arg, dtype) if isinstance(arg, Expr) else self.exact_of[arg] for arg in args]

    def _cast(self, node: Any) -> Any:
        (arg,) = node.args
        inner = self.exact_of[arg]
        if arg.is_const:
            return as_expr(ops.wrap(arg.data, *node.data))
        if self._is_wide_index(node):
            return inner
        if arg in self.data and not (self._low_bits(inner) and node.data[0] <= dtypes.bits(self.types[arg])):
            inner = self.value(arg)
        return node.with_args((inner,))

    @staticmethod
    def _low_bits(e: Any) -> bool:
        return e.op in OF_LOW_BITS or e.op is ops.SHL

    def _shift(self, node: Any) -> Any:
        dtype = self.types[node]
        width = dtypes.bits(dtype)
        a = self._widened(node.args[0], dtype) if node.op is ops.SHL else self.value(node.args[0], dtype)
        by: Expr = self.value(node.args[1])
        made = node.with_args((a, by))
        low, high = self.span(by)
        if low is not None and high is not None and low >= 0 and high < width:
            return made
        return trapping(Trapping.of(node.op), self.value(node.args[0], dtype), by, dtype)

    def _untrapped(self, quotient: Any, dtype: str) -> Any:
        """A quotient, as a trapping call if it may divide the least number by -1."""
        a, b = quotient.args
        least = dtypes.int_range(dtype)[0]
        (low, _), (first, last) = self.span(a), self.span(b)
        is_minus_one = (first is None or first <= -1) and (last is None or last >= -1)
        if not dtypes.signed(dtype) or not is_minus_one or (low is not None and low > least):
            return quotient
        return trapping(Trapping.of(quotient.op), a, b, dtype)

    def _value(self, node: Value) -> Any:
        dtype = node.dtype if node.op is ops.SELECT and dtypes.is_int(node.dtype) else None
        args: list[Any] = [self.value(arg, dtype) if isinstance(arg, Expr) else self.exact_of[arg] for arg in node.args]
        if node.op is REDUCE:
            combiner = node.data.combiner
            if all(_takes_low_bits(result) for result in combiner.results):
                args[: node.data.arity] = [self.exact_of[arg] for arg in node.args[: node.data.arity]]
        return node.with_args(tuple(args))

    # -- types ------------------------------------------------------------------------------------------------------

    def value(self, arg: Any, dtype: str | None = None) -> Any:
        """An operand wrapped to its own type, then to `dtype`."""
        e, own = self.exact_of[arg], self.types[arg]
        if e.is_const and dtype is not None:
            return as_expr(ops.wrap(e.data, *dtypes.register(dtype)))
        if arg not in self.data:
            return e if dtype is None or dtypes.signed(dtype) else self.within(e, dtype)
        is_whole = dtype is None or dtype == own or not self._low_bits(e) or dtypes.bits(dtype) > dtypes.bits(own)
        return self.within(self.within(e, own) if is_whole else e, dtype or own)

    def within(self, e: Expr, dtype: str) -> Expr:
        return within(e, dtype, self.span(e))

    def span(self, e: Expr) -> Interval:
        return span_of(e, self.ranges, self.spans)


def _takes_low_bits(result: Operand) -> bool:
    """Whether the low bits of a result of integers depend on those of what it combines alone."""
    return isinstance(result, Expr) and all(
        node.op is not ops.SELECT and (node.op in OF_LOW_BITS or not node.args) for node in dag.postorder((result,))
    )

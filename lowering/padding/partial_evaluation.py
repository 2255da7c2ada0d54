"""Partial evaluation of operands: constants fold, padding elements stay symbolic, data is unknown.

A content is a number, an operand over padding elements, or `UNKNOWN`. Folding executes the Python text of `run`, so
results agree: integers are unbounded, floats round to their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias, TypeGuard

from bound import dtypes
from bound.dtypes import Numeric as Numeric
from bound.tensor import Tensor, element
from bound.tir.build import dtype_of
from bound.tir.value import CONVERT, DIV, NUMBER, READ, IntFunction, Operand, Value, constant, make
from bound.tir.walk import loaded_tensor, rewrite, substitute
from intset.expr import ops
from intset.expr.build import cast
from intset.expr.dag import postorder_by
from intset.expr.node import Cond, Expr, as_expr, const, truth
from intset.expr.ops import Op
from lowering.codegen.emitter import Identifiers
from lowering.codegen.python import PythonSyntax
from lowering.codegen.python_runtime import environment
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import is_undef

MAX_NODES: Final = 256  # of a symbolic content; larger ones become `UNKNOWN`


class Data:
    """The type of `UNKNOWN`, a value that data decides."""


Content: TypeAlias = "Numeric | Expr | Cond | Value | Data"
OnLoad: TypeAlias = "Callable[[Tensor, Sequence[Content]], Content]"
UNKNOWN: Final = Data()

# -- numbers ------------------------------------------------------------------------------------------------------


def is_number(content: object) -> TypeGuard[Numeric]:
    return isinstance(content, (bool, int, float))


def as_operand(number: Numeric, dtype: str) -> Operand:
    """Build a constant of the type."""
    if dtypes.is_int(dtype):
        return const(int(number))
    return truth(bool(number)) if dtype == "bool" else constant(float(number), dtype)


def as_number(node: Operand) -> Numeric | None:
    """Return the value of a constant node, else `None`."""
    if isinstance(node, Expr):
        return int(node.data) if node.is_const else None
    if isinstance(node, Cond):
        return bool(node.data) if node.op is ops.BOOL else None
    if isinstance(node, Value) and node.op is NUMBER:
        number: Numeric = node.data
        return number
    return None


_environment = cache(environment)
_FUNCTIONS: Final[dict[tuple[object, ...], Callable[..., Any]]] = {}  # by operation and types of its operands


def _result(node: Operand, args: Sequence[Any]) -> Any:
    """Apply a node's operation to numbers; `None` if that raises."""
    import numpy as np

    kinds = tuple(arg.dtype if isinstance(arg, Value) else "" for arg in node.args)
    key = (node.op, node.data, getattr(node, "dtype", ""), kinds)
    if key not in _FUNCTIONS:
        names = [f"a{k}" for k in range(len(kinds))]
        text = PythonSyntax(Identifiers(), False, str).operation(node, names)
        _FUNCTIONS[key] = eval(f"lambda {', '.join(names)}: {text}", _environment())
    try:
        with np.errstate(all="ignore"):
            return _FUNCTIONS[key](*args)
    except (ArithmeticError, ValueError, TypeError, NameError):  # division by 0, NaN conversion, host function
        return None


# -- contents -----------------------------------------------------------------------------------------------------


def evaluated(value: Operand) -> Operand:
    """Fold the constants of a value."""
    content = PartialEvaluator(loaded)(value, {})
    if isinstance(content, Data):
        return value
    return as_operand(content, dtype_of(value)) if isinstance(content, (bool, int, float)) else content


def loaded(tensor: Tensor, indices: Sequence[Content]) -> Content:
    """The symbolic content of an element: the element itself."""
    at: list[Expr] = []
    for index in indices:
        if isinstance(index, Data):
            return UNKNOWN
        at.append(const(index) if isinstance(index, int) else as_expr(index))
    content: Content = element(tensor, tuple(at))
    return content


def of_type(content: Operand, dtype: str, held_as_is: Container[object] = ()) -> Operand:
    """Convert a symbolic operand to a tensor's element type: integers wrap, floats round.

    Parameters
    ----------
    held_as_is: operands returned unchanged.
    """
    if content in held_as_is or as_number(content) is not None or loaded_tensor(content) is not None:
        return content
    if isinstance(content, Expr) and dtypes.is_int(dtype):
        wrapped: Expr = cast(content, dtypes.bits(dtype), dtypes.signed(dtype))
        return wrapped
    if isinstance(content, Value) and content.op not in _EXACT and dtypes.is_float(dtype):
        return make(CONVERT, (make(CONVERT, (content,), "float64"),), dtype)
    return content


_EXACT: Final = (READ, CONVERT, ops.MIN, ops.MAX, ops.NEG, ops.ABS, ops.SELECT)


class PartialEvaluator:
    """Evaluator that folds operands up to their dependence on data.

    Guarantee: a number equals the operand's value; a symbolic content equals it for all values of padding elements.

    Parameters
    ----------
    load: callback returning an element's content, given index contents; branches that are not taken load, too.
    """

    def __init__(self, load: OnLoad) -> None:
        self._load = load
        self._sizes: dict[Content, int] = {}

    def __call__(self, root: Operand, env: Mapping[Any, Content]) -> Content:
        """Evaluate an operand; nodes missing from `env` stay symbolic."""
        contents: dict[object, Content] = dict(env)
        for node in postorder_by((root,), lambda node: () if node in env else _parts(node)):
            if node not in contents:
                contents[node] = self._content(node, [contents[part] for part in _parts(node)])
        return contents[root]

    def _content(self, node: Operand, args: list[Content]) -> Content:
        """The content of a node, by those of its parts."""
        op, tensor = node.op, loaded_tensor(node)
        if tensor is not None:
            return self._load(tensor, tuple(args))
        if op is ops.LOAD:
            return _opaque(node, args)
        if not args:
            number = as_number(node)
            itself: Content = UNKNOWN if is_undef(node) else node
            return itself if number is None else number
        if op is ops.ASSERTING:
            return args[1]
        if op is ops.SELECT:
            cond, then, orelse = args
            if is_number(cond):
                return then if cond else orelse
            return then if then is orelse else self._symbolic(node, args)
        if op in (ops.AND, ops.OR):
            deciding = op is ops.OR
            undecided = [arg for arg in args if not is_number(arg)]
            if any(is_number(arg) and bool(arg) is deciding for arg in args):
                return deciding
            if len(undecided) > 1:
                return self._symbolic(node, args)
            return undecided[0] if undecided else not deciding
        if all(map(is_number, args)):
            result: Numeric | None = _result(node, args)
            return UNKNOWN if result is None else result
        short = _identity(node, args)
        return self._symbolic(node, args) if short is None else short

    def _symbolic(self, node: Operand, args: list[Content]) -> Content:
        """Apply an operation to contents with at least one symbolic or unknown operand."""
        if any(isinstance(arg, Data) for arg in args):
            return UNKNOWN
        weight = 1 + sum(self._sizes.get(arg, 1) for arg in args if not is_number(arg))
        if weight > MAX_NODES:
            return UNKNOWN
        new = [
            as_operand(arg, dtype_of(old)) if isinstance(arg, (int, float)) else arg
            for old, arg in zip(node.args, args, strict=True)
            if not isinstance(arg, Data)
        ]
        operation: Content = rewrite(node, dict(zip(node.args, new, strict=True)))
        self._sizes[operation] = weight
        return operation


def _parts(node: Operand) -> tuple[Operand, ...]:
    """The operands whose contents make that of a node: of a function of integers its body."""
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return (substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))),)
    return node.args


def _opaque(node: Operand, args: Sequence[Content]) -> Content:
    """The content of an integer that is no element."""
    if isinstance(node.data, IntFunction):
        return args[0]
    if isinstance(node.data, ShapeOf) and isinstance(args[0], int):
        extent = node.data.tensor.extents[args[0]]
        return int(extent.data) if extent.is_const else extent
    return UNKNOWN


# -- identities ---------------------------------------------------------------------------------------------------


def _identity(node: Operand, args: list[Content]) -> Content | None:
    """Simplify `0 * x`, `x + 0`, `max(x, -inf)` and similar identities; return `None` if none applies."""
    if len(args) != 2:
        return None
    op = node.op
    pairs = [(args[0], args[1])] + ([(args[1], args[0])] if op in _COMMUTATIVE else [])
    is_float = isinstance(node, Value)
    for x, y in pairs:
        if not is_number(y):
            continue
        if op in _NEUTRAL and y == _NEUTRAL[op] and not (is_float and op is ops.FLOORDIV):  # which rounds
            return x
        if not is_float and op in _ZERO and y == _ZERO[op]:
            return 0
        if op in (ops.MAX, ops.MIN) and y == (-math.inf if op is ops.MAX else math.inf):
            return x
        if op in (ops.MAX, ops.MIN) and isinstance(x, Expr):
            low, high = dtypes.int_range(dtype_of(x))
            if y <= low if op is ops.MAX else y >= high:
                return x
    if op is ops.SUB and args[0] is args[1] and isinstance(args[0], Expr):
        return 0
    if op in (ops.MAX, ops.MIN) and args[0] is args[1]:
        return args[0]
    return None


_COMMUTATIVE: Final = frozenset((ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.BITAND, ops.BITOR))
_NEUTRAL: Final[dict[Op, int]] = {
    ops.ADD: 0, ops.SUB: 0, ops.MUL: 1, DIV: 1, ops.FLOORDIV: 1, ops.BITOR: 0
}  # fmt: skip
_ZERO: Final[dict[Op, int]] = {ops.MUL: 0, ops.FLOORMOD: 1, ops.BITAND: 0}

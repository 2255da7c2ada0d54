"""`to_numpy`: an expression as a function of numpy arrays, with the values that `evaluate` gives.

The operations are those of `intset.expr.ops`, by their meaning; numpy has its own word for few of them. Each operation
is computed for every element, so what has no value gets a number of no importance: definedness is a condition, and the
condition of a `select`, and what stands before an `and`, discard it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from intset.context import Context
from intset.errors import UndefinedError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.dag import postorder
from intset.expr.definedness import definedness, is_partial, where_it_holds
from intset.expr.evaluate import evaluate, some_may_be_long
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.ops import Op
from intset.expr.range import Range
from intset.prover.proof import fit_conditions

Array = npt.NDArray[Any]
Ends = tuple[int, int]
Step = tuple[Callable[..., Any], tuple[int, ...]]

WIDTHS: Final[tuple[tuple[int, Any], ...]] = (
    (31, np.int32),
    (63, np.int64),
)  # one bit less: of every value the negative too


class ArrayFunction:
    """An expression or condition on arrays.

    Attributes
    ----------
    node: what it computes.
    variables: those that occur, in the order of their first occurrence.
    dtype: the type of the arithmetic: `int32`, `int64`, or `object` where a step may be longer.

    Guarantee: a condition is true exactly where `node` has a value and is true. An integer equals `evaluate` of `node`
    wherever that is defined and the variables lie within the ends that were stated.
    """

    def __init__(self, node: Node, ends: Mapping[Var, Ends]) -> None:
        self.node = node
        total = where_it_holds(node) if isinstance(node, Cond) else node
        order = postorder((total,))
        self.variables = node.free_vars()
        self.dtype = np.dtype(_width(order, {var: ends[var] for var in self.variables}))
        slots: dict[Node, int] = {var: k for k, var in enumerate(self.variables)}
        self.constants: list[Any] = []
        steps: list[tuple[Node, Step]] = []
        table = _LONG if self.dtype == object else _SHORT
        for below in order:
            if below.op is ops.CONST or below.op is ops.BOOL:
                slots[below] = len(slots)
                self.constants.append(self._constant(below))
        for below in order:
            if below not in slots:
                args = tuple(slots[arg] for arg in below.args)
                slots[below] = len(slots)
                meaning = table.get(below.op) or below.op.meaning
                if below.op is ops.CAST:
                    meaning = _wrapping(*below.data)
                assert meaning is not None
                steps.append((below, (meaning, args)))
        self.steps = [step for _, step in steps]
        self.result = slots[total]
        needs = definedness((node,)) if isinstance(node, Expr) and is_partial(node) else ()
        self.defined = ArrayFunction(logical_and(*needs), ends) if needs else None

    def _constant(self, node: Node) -> Any:
        if node.op is ops.BOOL:
            return np.bool_(node.data)
        return np.array(node.data, object) if self.dtype == object else self.dtype.type(node.data)

    def __call__(self, columns: Mapping[Var, Array]) -> Array:
        """The values at arrays of the variables, which are broadcast together."""
        args = [np.asarray(columns[var]).astype(self.dtype, copy=False) for var in self.variables]
        values: list[Any] = [*args, *self.constants]
        with np.errstate(all="ignore"):
            for function, where in self.steps:
                values.append(function(*[values[k] for k in where]))  # later steps read it
        answer: Array = np.asarray(values[self.result])
        return answer.astype(bool, copy=False) if isinstance(self.node, Cond) else answer

    def checked(self, columns: Mapping[Var, Array]) -> Array:
        """The values, where all are defined.

        Raises
        ------
        UndefinedError: the expression has no value at one of the points, which the message names.
        """
        if self.defined is not None and self.variables:
            missing = ~self.defined(columns)
            if missing.any():
                first = np.unravel_index(int(np.argmax(missing)), missing.shape)
                arrays = {var: np.broadcast_to(columns[var], missing.shape) for var in self.variables}
                point = ", ".join(f"{var.name}={int(array[first])}" for var, array in arrays.items())
                raise UndefinedError(f"the expression {self.node!r} has no value at {point}")
        if not self.variables:
            evaluate(self.node)
        return self(columns)


def to_numpy(node: Node, ends: Mapping[Var, Ends]) -> ArrayFunction:
    """The function of numpy arrays that an expression or condition denotes.

    Parameters
    ----------
    node: the expression or condition.
    ends: the least and the greatest value of each variable; arithmetic is as narrow as they allow.
    """
    return ArrayFunction(node, ends)


def ends_of(columns: Mapping[Var, Array]) -> dict[Var, Ends]:
    """The least and the greatest number of each column; 0 for an empty one."""
    return {var: (int(column.min()), int(column.max())) if len(column) else (0, 0) for var, column in columns.items()}


def _width(order: list[Node], ends: Mapping[Var, Ends]) -> Any:
    """The narrowest type in which every step has room."""
    leaves = {var: max(abs(low), abs(high)).bit_length() for var, (low, high) in ends.items()}
    longest = max([node.data.bit_length() for node in order if node.op is ops.CONST], default=0)
    for bits, dtype in WIDTHS:
        if longest < bits and not some_may_be_long(order, leaves, bits - 1):
            return dtype
    bits, dtype = WIDTHS[-1]
    if longest >= bits or any(node.op is ops.CAST and node.data[0] >= bits for node in order):
        return object
    ctx = Context({var: Range(low, high - low + 1) for var, (low, high) in ends.items()})
    tops = [arg for node in order if node.op in ops.COMPARISONS for arg in node.args]
    tops += [order[-1]] if isinstance(order[-1], Expr) else []
    return object if any(fit_conditions(ctx, top, bits) for top in tops) else dtype


# -- numpy's words for operations whose meaning is that of one number --------------------------------------------------


def _trunc_div(a: Any, b: Any) -> Any:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


def _trunc_mod(a: Any, b: Any) -> Any:
    rest = np.abs(a) % np.abs(b)
    return np.where(a < 0, -rest, rest)


def _wrapping(bits: int, signed: bool) -> Callable[[Any], Any]:
    """A cast, where the type holds every value of the register; `_width` sees to it."""
    mask = (1 << bits) - 1
    half = 1 << (bits - 1)
    return (lambda a: ((a + half) & mask) - half) if signed else (lambda a: a & mask)


def _on_objects(op: Op) -> Callable[..., Any]:
    """An operation on arrays of Python's integers; 0 where it has no value."""
    meaning = op.meaning
    assert meaning is not None

    def safe(*args: Any) -> Any:
        try:
            return meaning(*args)
        except (ZeroDivisionError, MemoryError, OverflowError):
            return 0

    function: Callable[..., Any] = np.frompyfunc(safe, 2, 1)
    return function


_LOGIC: Final[dict[Op, Callable[..., Any]]] = {
    ops.SELECT: lambda cond, a, b: np.where(np.asarray(cond, bool), a, b),
    ops.ASSERTING: lambda _, value: value,
    ops.AND: np.logical_and,
    ops.OR: np.logical_or,
    ops.NOT: np.logical_not,
    ops.MIN: np.minimum,
    ops.MAX: np.maximum,
    ops.ABS: np.abs,
}
_SHORT: Final[dict[Op, Callable[..., Any]]] = {
    **_LOGIC,
    ops.TRUNCDIV: _trunc_div,
    ops.TRUNCMOD: _trunc_mod,
    ops.SHL: np.left_shift,
    ops.SHR: np.right_shift,
}
_LONG: Final[dict[Op, Callable[..., Any]]] = {
    **_LOGIC,
    **{op: _on_objects(op) for op in (*ops.DIVISIONS, ops.SHL, ops.SHR)},
}

"""Integers that depend on data, as opaque terms of `intset`; ranges of integers with machine semantics.

An element of an integer tensor is an opaque term; its symbol is the tensor. Any other integer computed from data (a
float cast to an integer, a selection by floats) is an opaque *function* of the integer variables in it; its symbol
knows the body, its arguments are the variables. Substitution of loop variables thus reaches both.

Invariant: two terms are equal exactly if their symbols and arguments are.

Ranges are unknown where a step may wrap: steps that depend on data are computed in 64 bits. Indices are
mathematical integers, so steps on indices alone never wrap. Intervals of single steps use transfer functions of
`intset.linear.bounds`; the range of the whole uses its linear form.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bound import dtypes
from bound.tir.value import CALL, Value
from intset.expr import ops
from intset.expr.build import Opaque
from intset.expr.dag import LOCK, WeakTable, leaf_vars, postorder, postorder_beside
from intset.expr.node import Expr, Node, Var
from intset.linear import bounds as iv
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer

if TYPE_CHECKING:
    from bound.tensor import Tensor


Ends = tuple[int, int]
Known = TypeVar("Known", bound="Node | Value")
WORDS: Final = (dtypes.int_range("int64"), dtypes.int_range("uint64"))
_INDEX: Final = dtypes.int_range("int48")  # of indices: no loop that runs goes further
OF_LOW_BITS: Final = frozenset(  # the low bits of a result depend on those of the operands alone
    (ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.BITNOT, ops.BITAND, ops.BITOR, ops.BITXOR, ops.SELECT)
)


def range_of(e: Expr, ranges: Mapping[Known, Interval], data: Container[object] = ()) -> Ends | None:
    """Return the smallest and the largest value of `e`; `None` if one is unknown, or a step may wrap.

    Parameters
    ----------
    ranges: intervals of variables and of parameters.
    data: variables that stand for elements of tensors.
    """
    if not fits_words(e, ranges, data):
        return None
    normalizer = Normalizer({v: span for v, span in ranges.items() if isinstance(v, Var)})
    low, high = normalizer.bounds(normalizer.form(e))
    return None if low is None or high is None or low > high else (low, high)


def fits_words(root: Node, ranges: Mapping[Known, Interval] | None = None, data: Container[object] = ()) -> bool:
    """Return whether machine words hold every integer of data of which more than the low bits matter.

    Parameters
    ----------
    ranges, data: as for `range_of`.
    """
    spans: dict[Node, Interval] = {}
    limits: dict[object, Interval] = dict((ranges or {}).items())
    dependent: set[Node] = set()
    for node in postorder((root,)):
        if any(arg in dependent for arg in node.args) or node.op is ops.LOAD or node in data:
            dependent.add(node)
        if isinstance(node, Expr):
            span = _span(node, [spans[arg] for arg in node.args if isinstance(arg, Expr)], limits)
            spans[node] = iv.meet(span, _INDEX) if node.op is ops.VAR and node not in dependent else span
        if node.op not in OF_LOW_BITS and node.op is not ops.CAST:
            for arg in node.args:
                if arg in dependent and arg in spans and not is_word(spans[arg]):
                    return False
    return True


def is_word(span: Interval) -> bool:
    """Return whether an interval fits into a signed or an unsigned 64-bit word."""
    low, high = span
    return low is not None and high is not None and any(a <= low and high <= b for a, b in WORDS)


def span_of(root: Expr, ranges: Mapping[Any, Interval], known: dict[Node, Interval]) -> Interval:
    """Return an interval of the exact value of `root`, by intervals of its steps.

    Parameters
    ----------
    ranges: intervals of variables.
    known: intervals of nodes; those of new nodes are added.
    """
    for node in postorder_beside(root, known):
        if isinstance(node, Expr):
            known[node] = _span(node, [known[arg] for arg in node.args if isinstance(arg, Expr)], ranges)
    return known[root]


def _span(node: Expr, args: list[Interval], ranges: Mapping[object, Interval]) -> Interval:
    if node.op is ops.CONST:
        return (node.data, node.data)
    if node.op is ops.VAR:
        return ranges[node] if node in ranges or not isinstance(node, Var) else node.declared()[:2]
    if node.op is ops.LOAD:
        declared: Interval = (node.data.lower, node.data.upper)
        return iv.meet(declared, dtypes.int_range(getattr(node.data, "dtype", "int64")))
    if node.op is ops.CAST:
        return dtypes.int_range(dtypes.int_named(*node.data))
    return iv.of_operation(node.op, *args)


def function_range(body: Value) -> tuple[int | None, int | None]:
    """Return the known ends of an integer computed from data: the hull of a selection's branches, or the range of its
    type.
    """
    if body.op is CALL and body.data == "popcount":
        return (0, dtypes.bits(body.dtype))
    if body.op is not ops.SELECT:
        return dtypes.int_range(body.dtype) if dtypes.bits(body.dtype) <= 16 else iv.EVERYTHING
    choices = [range_of(choice, {}) if isinstance(choice, Expr) else None for choice in body.args[1:]]
    first, second = choices
    return iv.EVERYTHING if first is None or second is None else iv.hull(first, second)


class TensorElement(Opaque):
    """Symbol of the elements of an integer tensor; `term.data.tensor` is the tensor.

    Invariant: `lower` and `upper` hold for finished elements only, if `is_finished`; otherwise also for partial results
    of a
    reduction.
    """

    __slots__ = ("is_finished", "tensor")
    tensor: Tensor
    is_finished: bool

    def __init__(self, tensor: Tensor, is_finished: bool = True) -> None:
        super().__init__(tensor.name, tensor.ndim, *_known_of(tensor, is_finished))
        self.tensor, self.is_finished = tensor, is_finished

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def __reduce__(self) -> tuple[object, ...]:
        return _element_of, (self.tensor, self.is_finished)


class IntFunction(Opaque):
    """Symbol of an integer that `body` computes from data, as a function of the integer variables `params`."""

    __slots__ = ("body", "params")
    params: tuple[Var, ...]
    body: Value

    def __init__(self, body: Value) -> None:
        params = leaf_vars((body,))
        super().__init__(f"{body.dtype}_of_data", len(params), *function_range(body))
        self.params, self.body = params, body

    @property
    def dtype(self) -> str:
        return self.body.dtype

    def __reduce__(self) -> tuple[object, ...]:
        return _function_of, (self.body,)


_FUNCTIONS: WeakTable[Value, IntFunction] = WeakTable()


def integer(value: Value) -> Expr:
    """Return the expression of an integer value."""
    symbol = _function_of(value)
    return symbol(*symbol.params)


def _function_of(value: Value) -> IntFunction:
    with LOCK:
        symbol = _FUNCTIONS.get(value)
        if symbol is None:
            symbol = IntFunction(value)
            _FUNCTIONS.put(value, symbol)
        return symbol


def _element_of(tensor: Tensor, is_finished: bool = True) -> TensorElement:
    return tensor.element if is_finished else tensor.unfinished


def unfinished_element(tensor: Tensor, finished: TensorElement) -> TensorElement:
    """Return the symbol of unfinished elements; `finished`, if both ranges are equal."""
    known = _known_of(tensor, is_finished=False)
    return finished if known == (finished.lower, finished.upper) else TensorElement(tensor, is_finished=False)


def _known_of(tensor: Tensor, is_finished: bool) -> tuple[int | None, int | None]:
    known = tensor.value_range or _at_least_two(tensor.op.range_of(tensor.value_index, is_finished))
    return element_range(tensor.dtype, known)


def _at_least_two(known: tuple[int, int] | None) -> tuple[int, int] | None:
    """Widen a range of one value by one.

    A term with one value would be replaced by the value, and computed elements are to stay computed and read.
    """
    return known if known is None or known[0] < known[1] else (known[0], known[0] + 1)


def element_range(dtype: str, known: tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return the known range of an element: declared, computed, or implied by an unsigned or narrow type (16 bits).

    Elements of int32 and int64 are unbounded: such ranges tell nothing about an index.
    """
    if known is not None:
        return known
    return dtypes.int_range(dtype) if dtypes.bits(dtype) <= 16 or not dtypes.signed(dtype) else (None, None)

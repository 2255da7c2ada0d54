"""Padding states: requirements on inputs and promises about outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.value import NUMBER, Operand, Value, parameter
from bound.tir.walk import input_tensors, loaded_tensor, nodes, rewrite
from intset.expr import ops
from intset.expr.arguments import mapped, refusal
from intset.expr.dag import postorder_by
from intset.expr.node import Cond, Expr, IntLike, PlainVar, Var, as_expr, constant_value
from intset.expr.printer import shown
from lowering.errors import LayoutError
from lowering.interpreter import as_element
from lowering.layout import IndexMap
from lowering.nest.ir import Function
from lowering.nest.printer import text
from lowering.padding.partial_evaluation import UNKNOWN, Content, Data, Numeric, PartialEvaluator, as_operand, loaded

Place = tuple[int, ...]


class Grid:
    """The storage grid of an index map with constant shape.

    Attributes
    ----------
    shape: extents of the new indices.
    first: smallest new indices; storage index = new index - `first`.
    """

    def __init__(self, layout: IndexMap) -> None:
        self.layout = layout
        sizes = [e for e in (*layout.shape, *layout.new_shape) if not isinstance(e, int)]
        if sizes:
            raise LayoutError(f"the layout {shown(layout)} depends on the size {sizes[0]}: here sizes must be numbers")
        self.shape: Place = tuple(int(e) for e in layout.new_shape)
        self.first: Place = tuple(constant_value(as_expr(r.min)) or 0 for r in layout.ranges)

    @cached_property
    def mask(self) -> Any:
        """Boolean array over the storage; true marks padding."""
        import numpy as np

        return self.layout.pack(np.zeros(self.layout.shape, np.bool_), True)

    @cached_property
    def padding(self) -> tuple[Place, ...]:
        """Padding positions as new indices, in lexicographic order."""
        import numpy as np

        return tuple(tuple(int(x) + m for x, m in zip(p, self.first, strict=True)) for p in np.argwhere(self.mask))

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """Hashable key; equal keys mean that both grids store every element at equal positions."""
        import numpy as np

        old = tuple(int(e) for e in self.layout.shape)
        numbers = np.arange(int(np.prod(old)), dtype=np.int64).reshape(old)
        return old, self.shape, self.first, self.layout.pack(numbers, -1).tobytes()

    @property
    def elements(self) -> int:
        """The number of storage elements, padding included."""
        return math.prod(self.shape)

    def __reduce__(self) -> tuple[object, ...]:
        return Grid, (self.layout,)

    def storage(self, place: Place) -> Place:
        """Convert new indices to storage indices."""
        return tuple(i - m for i, m in zip(place, self.first, strict=True))

    def filled(self, array: Any, value: PadState | None, dtype: str, draw: Callable[[str], Any] | None) -> Any:
        """Write a value into the padding of a packed array, in place; `None` writes nothing.

        Parameters
        ----------
        draw: makes the values of `UNDEF`, by default 0.
        """
        if value is None or not self.padding:
            return array
        if isinstance(value, PadValue) and value.number is not None:
            array[self.mask] = value.number
            return array
        numbers: list[Any]
        if isinstance(value, PadValue):
            evaluate = PartialEvaluator(lambda tensor, at: self.held(array, at))
            numbers = [evaluate(value.expr, dict(zip(PLACE, place, strict=False))) for place in self.padding]
        else:
            numbers = [0 if draw is None else draw(dtype) for _ in self.padding]
        for place, number in zip(self.padding, numbers, strict=True):
            array[self.storage(place)] = as_element(number, dtype)
        return array

    def held(self, array: Any, at: Sequence[Content]) -> Content:
        """The element at new indices of a packed array; unknown outside of its storage."""
        place: list[int] = []
        for index, low, extent in zip(at, self.first, self.shape, strict=True):
            if not isinstance(index, int) or not 0 <= index - low < extent:
                return UNKNOWN
            place.append(index - low)
        content: Content = array[tuple(place)].item()
        return content


def check_layouts(f: Function, layouts: Mapping[str, IndexMap]) -> None:
    """Check that layouts fit the parameters of a function.

    Raises
    ------
    LayoutError: a name is not a parameter, a layout is not an `IndexMap`, or shapes differ.
    """
    by_name = {t.name: t for t in f.params}
    for name, layout in layouts.items():
        tensor = by_name.get(name)
        if tensor is None:
            raise LayoutError(f"{shown(name)} is no parameter of {f.name}: the parameters are {', '.join(by_name)}")
        if not isinstance(layout, IndexMap):
            raise LayoutError(f"the layout of {name} in {f.name} must be an IndexMap, not {shown(layout)}")
        shape = Grid(layout).shape
        if tuple(constant_value(e) for e in tensor.extents) != shape:
            own = ", ".join(map(str, tensor.extents))
            raise LayoutError(f"{name} of {f.name} has the shape ({own}), its layout the new shape {shape}")


PLACE: Final = tuple(PlainVar(f"i{k}") for k in range(32))  # new indices in padding values
PLACES: Final = frozenset(PLACE)


class State:
    """A padding state without a value; `str` returns its name.

    NOTHING (input): padding is never read and may be uninitialized.
    READABLE (input): padding is read and must be initialized; its values affect only padding.
    UNTOUCHED (output): some padding element keeps its previous content and may be uninitialized.
    UNDEF (output, pad, copy or fill): padding is initialized with unknown values.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> str:
        return self.name


NOTHING: Final = State("NOTHING")
READABLE: Final = State("READABLE")
UNTOUCHED: Final = State("UNTOUCHED")
UNDEF: Final = State("UNDEF")


class PadValue:
    """A padding value as a function of the new indices, converted to the element type.

    Attributes
    ----------
    expr: the value over `PLACE`, the new indices; `A[i0, i1]` loads padding of input `A` at equal indices.

    `str` abbreviates such loads to `A`. Equality is structural; a constant value also equals its number.
    """

    __slots__ = ("expr",)
    expr: Operand

    def __init__(self, expr: Operand) -> None:
        if not isinstance(expr, (Expr, Cond, Value)):
            raise refusal("the value of a padding", "an operand", expr)
        self.expr = expr

    @property
    def number(self) -> int | float | bool | None:
        """The number of a constant value, else `None`."""
        op = self.expr.op
        answer = self.expr.data if op in (ops.CONST, ops.BOOL, NUMBER) else None
        return answer if answer is None or isinstance(answer, (bool, float)) else int(answer)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Input tensors loaded by the value."""
        return input_tensors([self.expr])

    def at(self, *place: IntLike) -> Operand:
        """Substitute new indices, integers or expressions, into the value."""
        given = {PLACE[k]: as_expr(e) for k, e in enumerate(place)}
        answer: Operand = rewrite(self.expr, given)
        return answer

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PadValue):
            return self.expr is other.expr
        if isinstance(other, (bool, int, float)):
            return self.number is not None and self.number == other
        return NotImplemented

    def __hash__(self) -> int:
        number = self.number
        return hash(self.expr) if number is None else hash(number)

    def text(self, names: Mapping[Tensor, str] | None = None) -> str:
        """Print the value; `names` overrides tensor names."""
        called = {} if names is None else mapped(names, "names")
        short: dict[Operand, Operand] = {}
        for node in nodes(self.expr):
            tensor = loaded_tensor(node)
            if tensor is not None and all(a is p for a, p in zip(node.args, PLACE, strict=False)):
                label = called.get(tensor, tensor.name)
                short[node] = parameter(label, node.dtype) if isinstance(node, Value) else PlainVar(label)
        return text(rewrite(self.expr, short), called)

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def __reduce__(self) -> tuple[object, ...]:
        used = tuple(node for node in nodes(self.expr) if node.op is ops.VAR)
        return _restored, (self.expr, tuple((v, PLACE.index(v)) for v in used if v in PLACE))


def _restored(expr: Operand, places: tuple[tuple[Var, int], ...]) -> PadValue:
    return PadValue(rewrite(expr, {v: PLACE[k] for v, k in places}))


PadState = State | PadValue
"""A padding state."""
Planned: TypeAlias = "State | Operand"
"""A padding state during planning; values may contain unknowns."""


_RING: Final = (ops.ADD, ops.SUB, ops.MUL, ops.NEG)


def without_registers(root: Expr, bits: int) -> Expr:
    """Drop casts to at least `bits` bits below ring operations.

    Guarantee: the result is equal modulo `2**bits`.
    """
    dropped: dict[Expr, Expr] = {}

    def is_dropped(node: Expr) -> bool:
        return node.op is ops.CAST and node.data[0] >= bits

    for node in postorder_by((root,), lambda node: node.args if is_dropped(node) or node.op in _RING else ()):
        if is_dropped(node):
            dropped[node] = dropped[node.args[0]]
        else:
            dropped[node] = rewrite(node, {arg: dropped[arg] for arg in node.args}) if node.op in _RING else node
    return dropped[root]


def applied(state: PadState, given: Mapping[Tensor, PadState], dtype: str) -> PadState:
    """Substitute known input padding states into a state of type `dtype`.

    The result is `UNDEF` if a substituted state has no value. Tensors missing from `given` stay symbolic.
    """
    if not isinstance(state, PadValue):
        return state
    known = [given[t] for t in state.inputs if t in given]
    values = {t: s for t, s in given.items() if isinstance(s, PadValue)}
    if any(not isinstance(s, PadValue) for s in known):
        return UNDEF
    expr = rewrite(state.expr, on_load=lambda t, at: values[t].at(*at) if t in values else None)
    return folded(expr, dtype)


def folded(expr: Operand, dtype: str) -> PadState:
    """Fold a padding value's constants; values that depend on data become `UNDEF`."""
    content = PartialEvaluator(loaded)(expr, {})
    if isinstance(content, Data):
        return UNDEF
    if isinstance(content, (bool, int, float)):
        number = number_of(expr, {}, dtype)
        return UNDEF if number is None else PadValue(as_operand(number, dtype))
    return PadValue(
        without_registers(content, dtypes.bits(dtype))
        if dtypes.is_int(dtype) and isinstance(content, Expr)
        else content
    )


def number_of(expr: Operand, given: Mapping[Operand, Any], dtype: str) -> Numeric | None:
    """Evaluate an expression and convert it to the element type; return `None` if it is not constant."""
    content = PartialEvaluator(loaded)(expr, given)
    return as_element(content, dtype) if isinstance(content, (bool, int, float)) else None


def numbers_at(expr: Operand, places: Sequence[Sequence[int]], dtype: str) -> list[Numeric | None]:
    """Evaluate an expression at each position; unknown numbers are `None`."""
    if not any(v in PLACES for v in nodes(expr)):
        return [number_of(expr, {}, dtype)] * len(places)
    return [number_of(expr, dict(zip(PLACE, place, strict=False)), dtype) for place in places]

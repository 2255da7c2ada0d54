"""Padding states: requirements on inputs and promises about outputs; values, as far as no data decides them.

Values are evaluated in part: constants fold, padding elements stay symbolic, data is unknown. A content is a number, an
operand over padding elements, or `UNKNOWN`. Folding executes the Python text of `run`, so results agree: integers are
unbounded, floats round to their type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, Final, TypeAlias, TypeGuard

from bound import dtypes
from bound.dtypes import Numeric as Numeric
from bound.tensor import Tensor, element
from bound.tir.build import dtype_of
from bound.tir.value import CONVERT, DIV, NUMBER, READ, IntFunction, Operand, Value, constant, make, parameter
from bound.tir.walk import input_tensors, loaded_tensor, nodes, rewrite, substitute
from intset.expr import Cond, Expr, IntLike, Var, arguments, as_expr, const, constant_value, dag, ops, shown
from intset.expr.build import cast
from intset.expr.node import PlainVar, truth
from intset.expr.ops import Op
from lowering.codegen.emitter import Identifiers
from lowering.codegen.python import PythonSyntax
from lowering.codegen.python_runtime import environment
from lowering.errors import LayoutError
from lowering.interpreter import as_element
from lowering.layout import IndexMap
from lowering.nest import ir
from lowering.nest.printer import text

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


_FUNCTIONS: Final[dict[tuple[object, ...], Callable[..., Any]]] = {}  # by operation and types of its operands


def _result(node: Operand, args: Sequence[Any]) -> Any:
    """Apply a node's operation to numbers; `None` if that raises."""
    import numpy as np

    kinds = tuple(arg.dtype if isinstance(arg, Value) else "" for arg in node.args)
    key = (node.op, node.data, getattr(node, "dtype", ""), kinds)
    if key not in _FUNCTIONS:
        names = [f"a{k}" for k in range(len(kinds))]
        text = PythonSyntax(Identifiers(), False, str).operation(node, names)
        _FUNCTIONS[key] = eval(f"lambda {', '.join(names)}: {text}", environment())
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
    return element(tensor, tuple(at))


def of_type(content: Operand, dtype: str, held_as_is: Container[object] = ()) -> Operand:
    """Convert a symbolic operand to a tensor's element type: integers wrap, floats round.

    Parameters
    ----------
    held_as_is: operands returned unchanged.
    """
    if content in held_as_is or as_number(content) is not None or loaded_tensor(content) is not None:
        return content
    if isinstance(content, Expr) and dtypes.is_int(dtype):
        return cast(content, dtypes.bits(dtype), dtypes.signed(dtype))
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
        for node in dag.postorder_by((root,), lambda node: () if node in env else _parts(node)):
            if node not in contents:
                contents[node] = self._content(node, [contents[part] for part in _parts(node)])
        return contents[root]

    def _content(self, node: Operand, args: list[Content]) -> Content:
        """Apply an operation to the contents of its operands."""
        op, tensor = node.op, loaded_tensor(node)
        if tensor is not None:
            return self._load(tensor, tuple(args))
        if op is ops.LOAD:
            return _opaque(node, args)
        if not args:
            number = as_number(node)
            itself: Content = UNKNOWN if ir.is_undef(node) else node
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
    """What a node is evaluated from: its operands, or the body of a function of integers."""
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return (substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))),)
    return node.args


def _opaque(node: Operand, args: Sequence[Content]) -> Content:
    """Evaluate a load that reads no tensor: a function of integers, or an extent."""
    if isinstance(node.data, IntFunction):
        return args[0]
    if isinstance(node.data, ir.ShapeOf) and isinstance(args[0], int):
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
_NEUTRAL: Final[dict[Op, int]] = {ops.ADD: 0, ops.SUB: 0, ops.MUL: 1, DIV: 1, ops.FLOORDIV: 1, ops.BITOR: 0}
_ZERO: Final[dict[Op, int]] = {ops.MUL: 0, ops.FLOORMOD: 1, ops.BITAND: 0}


# -- states ---------------------------------------------------------------------------------------------------------

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


def check_layouts(f: ir.Function, layouts: Mapping[str, IndexMap]) -> None:
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


class State(Enum):
    """A padding state without a value; `str` returns its name.

    NOTHING (input): padding is never read and may be uninitialized.
    READABLE (input): padding is read and must be initialized; its values affect only padding.
    UNTOUCHED (output): some padding element keeps its previous content and may be uninitialized.
    UNDEF (output, pad, copy or fill): padding is initialized with unknown values.
    """

    NOTHING = "NOTHING"
    READABLE = "READABLE"
    UNTOUCHED = "UNTOUCHED"
    UNDEF = "UNDEF"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


NOTHING: Final = State.NOTHING
READABLE: Final = State.READABLE
UNTOUCHED: Final = State.UNTOUCHED
UNDEF: Final = State.UNDEF


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
            raise arguments.refusal("the value of a padding", "an operand", expr)
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
        return rewrite(self.expr, given)

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
        called = {} if names is None else arguments.mapped(names, "names")
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

    for node in dag.postorder_by((root,), lambda node: node.args if is_dropped(node) or node.op in _RING else ()):
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
        return PadValue(as_operand(as_element(content, dtype), dtype))
    if dtypes.is_int(dtype) and isinstance(content, Expr):
        content = without_registers(content, dtypes.bits(dtype))
    return PadValue(content)


def number_of(expr: Operand, given: Mapping[Operand, Any], dtype: str) -> Numeric | None:
    """Evaluate an expression and convert it to the element type; return `None` if it is not constant."""
    content = PartialEvaluator(loaded)(expr, given)
    return as_element(content, dtype) if isinstance(content, (bool, int, float)) else None


def numbers_at(expr: Operand, places: Sequence[Sequence[int]], dtype: str) -> list[Numeric | None]:
    """Evaluate an expression at each position; unknown numbers are `None`."""
    if not any(v in PLACES for v in nodes(expr)):
        return [number_of(expr, {}, dtype)] * len(places)
    return [number_of(expr, dict(zip(PLACE, place, strict=False)), dtype) for place in places]

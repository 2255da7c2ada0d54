"""Operands of tensor programs: `Value`, data that is not an integer, and integers that depend on data.

Values are hash-consed: equal structure is the same object.

A tensor program has three disjoint classes of operands:

- `intset.Expr`: integers, loop indices and elements of integer tensors alike;
- `intset.Cond`: conditions on integers;
- `Value`: floats, truth values that depend on floats, and reductions.

A Value is `(op, args, data, dtype)`. `args` contains Values, Exprs and Conds, so `intset.expr.dag.postorder` visits
the whole DAG, indices included.

===========  ======================================  ==================================
op           args                                    data
===========  ======================================  ==================================
NUMBER                                               `float` of the type, or `bool`
PARAM                                                `(name, number, annotation)`, a scalar argument
UNDEF                                                identity of an undefined value
READ         the indices, each an Expr               the `Tensor`
ADD ... ABS  the operands, Values of one dtype
LT ... NE    two operands
AND OR NOT   truth values: Values of `bool`, Conds
CALL         the arguments                           the name of the function
CONVERT      one Value, Expr or Cond
SELECT       condition, value if true, if false; the branch that is not taken is not evaluated
REDUCE       sources, condition (then initial values) the `Reduction`
===========  ======================================  ==================================

An integer that depends on data is an opaque term of `intset`. An element of an integer tensor is an opaque term; its
symbol is the tensor. Any other integer computed from data (a float cast to an integer, a selection by floats) is an
opaque *function* of the integer variables in it; its symbol knows the body, its arguments are the variables.
Substitution of loop variables thus reaches both.

Invariant: two terms are equal exactly if their symbols and arguments are.

Ranges of integers that depend on data have machine semantics: they are unknown where a step may wrap: steps that depend
on data are computed in 64 bits. Indices are mathematical integers, so steps on indices alone never wrap. Intervals of
single steps use transfer functions of `intset.linear.bounds`; the range of the whole uses its linear form.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, SupportsFloat, SupportsIndex, TypeAlias, TypeVar

from bound import dtypes
from intset.errors import InputError
from intset.expr import Cond, Expr, Node, ShapeVar, Var, dag, ops, shown
from intset.expr.build import Opaque
from intset.expr.node import Guest, truth
from intset.expr.ops import REGISTERED, Op
from intset.expr.printer import INFIX as WHOLE_INFIX
from intset.expr.printer import Placed, Precedence, TextPiece, abbreviated, layout_of, listed
from intset.linear import bounds as iv
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer

if TYPE_CHECKING:
    from bound.tensor import Tensor


Operand: TypeAlias = "Value | Expr | Cond"
Number: TypeAlias = "Value | Expr"
Truth: TypeAlias = "Value | Cond"
ValueLike: TypeAlias = "Value | Expr | Cond | SupportsIndex | SupportsFloat"


class OperatorTable:
    """Functions of modules above, which operators of values and of tensors call.

    `tir.build` sets those of values, `tensor` the tensor of a buffer, `declare` those of tensors.
    """

    __slots__ = ("binary", "buffer_tensor", "cast", "combined", "converted", "logical", "negation", "unary")
    binary: Callable[[Op, object, object], Operand]
    buffer_tensor: Callable[[Any], Any]
    cast: Callable[[str, ValueLike], Operand]
    combined: Callable[[Callable[[Any, Any], Any], object, object], Any]
    converted: Callable[[Tensor, str], Tensor]
    logical: Callable[[Op, Operand, Operand], Operand]
    negation: Callable[[Operand], Operand]
    unary: Callable[[Op, ValueLike], Operand]


OPERATORS = OperatorTable()


class Elementwise:
    """Operators of what is combined element by element, with numbers too."""

    __slots__ = ()

    @abstractmethod
    def _combined(self, function: Callable[[Any, Any], Any], left: object, right: object) -> Self:
        """`function` of each pair of elements; one of both sides is this one."""

    def __add__(self, other: object) -> Self:
        return self._combined(operator.add, self, other)

    def __radd__(self, other: object) -> Self:
        return self._combined(operator.add, other, self)

    def __sub__(self, other: object) -> Self:
        return self._combined(operator.sub, self, other)

    def __rsub__(self, other: object) -> Self:
        return self._combined(operator.sub, other, self)

    def __mul__(self, other: object) -> Self:
        return self._combined(operator.mul, self, other)

    def __rmul__(self, other: object) -> Self:
        return self._combined(operator.mul, other, self)

    def __truediv__(self, other: object) -> Self:
        return self._combined(operator.truediv, self, other)

    def __rtruediv__(self, other: object) -> Self:
        return self._combined(operator.truediv, other, self)


def _row(name: str, operands: str | None, doc: str) -> Op:
    return Op(name, operands, doc, table=REGISTERED)


# what only values have; their other operations are those of integers
NUMBER: Final = _row("number", "", "the float or truth value data")
PARAM: Final = _row("param", "", "a scalar argument; data is (name, number, annotation)")
UNDEF: Final = _row("undef", "", "an undefined value; data is its identity")
READ: Final = _row("read", None, "the element of the tensor data at the indices")
DIV: Final = _row("div", "vv", "the quotient of floats")
CALL: Final = _row("call", None, "the result of the function named data")
CONVERT: Final = _row("convert", "v", "a as a number of the type of the node")
REDUCE: Final = _row("reduce", None, "the combination of the sources; data is the Reduction")

INFIX = frozenset((ops.ADD, ops.SUB, ops.MUL, DIV))

_TABLE: dag.WeakTable[tuple[object, ...], Value] = dag.WeakTable()


def _operators(op: Op) -> tuple[Callable[[Value, ValueLike], Value], Callable[[Value, ValueLike], Value]]:
    """The methods of an operation whose first or second operand is the value; a tensor combines its elements itself."""

    def first(self: Value, other: ValueLike) -> Value:
        return NotImplemented if op in INFIX and _is_tensor(other) else _binary(op, self, other)

    def second(self: Value, other: ValueLike) -> Value:
        return _binary(op, other, self)

    return first, second


class Value(dag.OperandNames, Guest):
    """A float, a truth value that depends on data, or a reduction; the module describes its fields.

    Arithmetic with integers promotes: `A[i] * i` casts `i` to the type of `A`. `==` builds a comparison whose `bool()`
    is structural identity, as for `intset` expressions; `&`, `|` and `~` combine truth values.

    Invariant: immutable and interned.
    """

    __slots__ = ("__weakref__", "_below", "_operations", "_tensors", "args", "data", "dtype", "op")
    op: Op
    args: tuple[Operand, ...]
    data: Any
    dtype: str
    _tensors: tuple[Any, ...]  # remembered by `walk.input_tensors`

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError("values are immutable")

    remember = object.__setattr__  # as of `intset` nodes: a slot for what follows from the structure alone
    __hash__ = object.__hash__

    def with_args(self, args: tuple[Operand, ...]) -> Value:
        """The value of this operation, type and payload with other operands; itself, if they are its own."""
        same = all(map(operator.is_, args, self.args))
        return self if same else make(self.op, args, self.dtype, self.data)

    __add__, __radd__ = _operators(ops.ADD)
    __sub__, __rsub__ = _operators(ops.SUB)
    __mul__, __rmul__ = _operators(ops.MUL)
    __truediv__, __rtruediv__ = _operators(DIV)
    __floordiv__, __rfloordiv__ = _operators(ops.FLOORDIV)
    __mod__, __rmod__ = _operators(ops.FLOORMOD)
    __lt__, __le__, __gt__, __ge__ = (_operators(op)[0] for op in (ops.LT, ops.LE, ops.GT, ops.GE))

    def __neg__(self) -> Value:
        return _own(OPERATORS.unary(ops.NEG, self))

    def __abs__(self) -> Value:
        return _own(OPERATORS.unary(ops.ABS, self))

    def __eq__(self, other: object) -> Any:
        return _binary(ops.EQ, self, other) if _is_operand(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return _binary(ops.NE, self, other) if _is_operand(other) else NotImplemented

    def equal(self, other: ValueLike) -> Value:
        """Return the truth value of equality."""
        return _binary(ops.EQ, self, other)

    def __and__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.AND, self, other))

    def __rand__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.AND, other, self))

    def __or__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.OR, self, other))

    def __ror__(self, other: Operand) -> Value:
        return _own(OPERATORS.logical(ops.OR, other, self))

    def __invert__(self) -> Value:
        return _own(OPERATORS.negation(self))

    @property
    def value(self) -> object:
        """The number of a constant, the operand of a conversion; other values have none."""
        if self.op is CONVERT:
            return self.args[0]
        if self.op is not NUMBER:
            raise AttributeError(f"{self!r} is no constant and has no value")
        return self.data

    @property
    def name(self) -> str:
        """The name of a parameter; other values have none."""
        if self.op is not PARAM:
            raise AttributeError(f"{self!r} is no parameter and has no name")
        return str(self.data[0])

    def astype(self, dtype: str) -> Operand:
        """Convert to another type; an integer type yields an `Expr`."""
        return OPERATORS.cast(dtype, self)

    def _no_bits(self, other: object) -> NoReturn:
        raise InputError(f"{self!r} is a {self.dtype}, which has no bits to shift or combine")

    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __xor__ = __rxor__ = _no_bits

    def __bool__(self) -> bool:
        if self.op is ops.EQ or self.op is ops.NE:
            return (self.args[0] is self.args[1]) is (self.op is ops.EQ)
        if self.op is NUMBER and self.dtype == "bool":
            return bool(self.data)
        raise InputError(f"the truth value of {self!r} is not known here: use tir.Select, tir.all, tir.any, or & | ~")

    def __iter__(self) -> NoReturn:
        raise TypeError("a value is not iterable")

    def __copy__(self) -> Value:
        return self

    def __deepcopy__(self, memo: object) -> Value:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return make, (self.op, self.args, self.dtype, self.data)

    def __repr__(self) -> str:
        return abbreviated(self, 2000, layout)


def make(op: Op, args: tuple[Operand, ...], dtype: str, data: Any = None) -> Value:
    """Return the interned value with these fields, unchecked."""
    key = (op, args, float(data).hex() if op is NUMBER else data, dtype)
    with dag.LOCK:
        value = _TABLE.get(key)
        if value is None:
            value = object.__new__(Value)
            fill: Callable[[object, str, object], None] = object.__setattr__
            for slot, part in (("op", op), ("args", args), ("data", data), ("dtype", dtype)):
                fill(value, slot, part)
            _TABLE.put(key, value)
        return value


def constant(value: float | bool, dtype: str) -> Value:
    """Return a float or truth constant, rounded to its type."""
    return make(NUMBER, (), dtype, bool(value) if dtype == "bool" else dtypes.rounded(value, dtype))


SPELLED: Final[dict[Op, str]] = {  # between operands
    **{op: WHOLE_INFIX[op][0] for op in (ops.ADD, ops.SUB, ops.MUL, *ops.COMPARISONS)},
    DIV: "/",
    ops.AND: "and",
    ops.OR: "or",
}
SHORT: Final = {ops.MIN: "min", ops.MAX: "max"}


def layout(node: Operand) -> Placed:
    """The pieces of the text of an operand, in Python's syntax; every operation between operands has parentheses."""
    if not isinstance(node, Value):
        return layout_of(node)
    op, args, data = node.op, node.args, node.data
    if op in SPELLED:
        return Precedence.ATOM, ["(", (args[0], 0), f" {SPELLED[op]} ", (args[1], 0), ")"]
    if op is NUMBER:
        return Precedence.ATOM, [str(data) if node.dtype == "bool" else dtypes.decimal(data, node.dtype)]
    if op is PARAM:
        return Precedence.ATOM, [str(data[0])]
    if op is ops.NEG:
        return Precedence.ATOM, ["-", (args[0], 0)]
    if op is ops.SELECT:
        return Precedence.ATOM, ["(", (args[1], 0), " if ", (args[0], 0), " else ", (args[2], 0), ")"]
    if op is READ:
        return Precedence.ATOM, listed(f"{data.name}[", args, "]")
    if op is REDUCE:
        count = data.arity
        axes = ", ".join(axis.name for axis in data.axis)
        where: list[TextPiece] = [] if args[count] is truth(True) else [", where=", (args[count], 0)]
        chosen = f")[{data.index}]" if count > 1 else ")"
        return Precedence.ATOM, [*listed(f"{data.combiner.name}(", args[:count], f", axis=[{axes}]"), *where, chosen]
    name = data if op is CALL else node.dtype if op is CONVERT else SHORT.get(op, op.name)
    return Precedence.ATOM, listed(f"{name}(", args, ")")


_serial = iter(range(1 << 62))


def parameter(name: str, dtype: str, annotation: object = None) -> Value:
    """Return a fresh scalar parameter that is not an integer; `annotation` is its type in a script."""
    if not isinstance(name, str) or not name:
        raise InputError(f"a parameter's name is a non-empty text, not {shown(name)}")
    if dtypes.is_int(dtype):
        raise InputError(f"the parameter {name} of type {dtype} is an integer: use a variable")
    return make(PARAM, (), dtype, (name, next(_serial), annotation))


class ScriptVar(ShapeVar):
    """A variable of a script, with the type that the script gave it. A call checks its bounds.

    Attributes
    ----------
    type_name: its element type.
    """

    __slots__ = ("type_name",)
    type_name: str

    @classmethod
    def of(cls, name: str, dtype: str, is_size: bool) -> ScriptVar:
        """A new variable. A variable of up to 16 bits ranges over its type."""
        is_narrow = dtypes.bits(dtype) < dtypes.bits(dtypes.INDEX)
        low, high = dtypes.int_range(dtype) if is_narrow else (None, None)
        fields = {"lower": 0 if is_size else low, "upper": high, "multiple_of": 1}
        return cls.new(name, dag.ORIGIN.next_uid(), {**fields, "type_name": dtype})

    def fields(self) -> Mapping[str, object]:
        return {**super().fields(), "type_name": self.type_name}


def _is_tensor(x: object) -> bool:
    """Whether the other operand is a tensor, which combines element by element."""
    return isinstance(x, Guest) and hasattr(x, "value_index")


def _binary(op: Op, a: object, b: object) -> Value:
    answer: Any = OPERATORS.binary(op, a, b)
    number: Value = answer  # an integer where a truth value counts 1 or 0
    return number


def _own(result: Operand) -> Value:
    assert isinstance(result, Value), "what is computed with a value is one"
    return result


def _is_operand(other: object) -> bool:
    return isinstance(other, (Value, Expr, Cond, int, float)) and not isinstance(other, bool)


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
    if not data and ops.LOAD not in dag.operations(root):
        return True
    spans: dict[Node, Interval] = {}
    limits: dict[object, Interval] = dict((ranges or {}).items())
    dependent: set[Node] = set()
    for node in dag.postorder((root,)):
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
    for node in dag.postorder_beside(root, known):
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
    of a reduction.
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
        params = dag.leaf_vars((body,))
        super().__init__(f"{body.dtype}_of_data", len(params), *function_range(body))
        self.params, self.body = params, body

    @property
    def dtype(self) -> str:
        return self.body.dtype

    def __reduce__(self) -> tuple[object, ...]:
        return _function_of, (self.body,)


_FUNCTIONS: dag.WeakTable[Value, IntFunction] = dag.WeakTable()


def integer(value: Value) -> Expr:
    """Return the expression of an integer value."""
    symbol = _function_of(value)
    return symbol(*symbol.params)


def _function_of(value: Value) -> IntFunction:
    with dag.LOCK:
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

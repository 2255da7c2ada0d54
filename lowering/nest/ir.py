"""Statements of loop nests, and `undef()`, an operand that nobody knows. All are immutable; a pass makes new ones.

Integers are `intset` expressions, everything else is a `bound.tir` value; an element that is read names its `Tensor`. A
tensor that the function allocates is indexed relative to the *allocated range*: the storage of `T[i]` under
`Allocate(T, (Range(m, e),))` is number `i - m`. The pass `rebase` makes every such `m` zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from bound import dtypes
from bound.tensor import Tensor, storage
from bound.tir.build import Buffer, ExternCall, dtype_of, together
from bound.tir.value import UNDEF, Operand, TensorElement, Truth, Value, make, parameter
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, dag, ops, shown
from intset.expr.build import Opaque
from intset.expr.node import truth
from intset.expr.printer import Displayed

if TYPE_CHECKING:
    from lowering.layout.index_map import IndexMap


N = TypeVar("N")


class LoopKind(StrEnum):
    """What a loop is meant to run on, in the order of TVM's numbers; every kind means the same values."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZED = "vectorized"
    UNROLLED = "unrolled"
    THREAD = "thread"
    VTHREAD = "vthread"


class Above:
    """Functions of higher modules that statements call; `nest.methods` fills it with the package."""

    __slots__ = ("function_text", "stmt_text", "with_checked_claims")
    function_text: Callable[[Function], str]
    stmt_text: Callable[[Stmt], str]
    with_checked_claims: Callable[[Function], Function]


ABOVE = Above()
MOVABLE: Final = (LoopKind.SERIAL, LoopKind.PARALLEL)  # loops whose iterations other loops may be merged with


@dataclass(frozen=True, eq=False)
class Stmt(Displayed):
    """A statement. Its fields have TVM's names beside their own: `SCRIPT_FIELDS`."""

    def __getattr__(self, name: str) -> Any:
        """A field under TVM's name."""
        field = SCRIPT_FIELDS.get((type(self).__name__, name))
        if field is None:
            raise AttributeError(f"{type(self).__name__} has no field {name}")
        return field(self)

    def __repr__(self) -> str:
        return ABOVE.stmt_text(self)


@dataclass(frozen=True, eq=False, repr=False)
class Seq(Stmt):
    """One after another. `Allocate`, `Assert` and `Let` reach to the end of the sequence they stand in."""

    stmts: tuple[Stmt, ...] = ()

    def __getitem__(self, index: int) -> Stmt:
        return self.stmts[index]

    def __len__(self) -> int:
        return len(self.stmts)

    def __getattr__(self, name: str) -> Any:
        """A field of the declaration at the start; the body is what follows it, which TVM nests in it."""
        stmts = self.__dict__.get("stmts", ())
        if name.startswith("__") or not (stmts and isinstance(stmts[0], (Allocate, Let))):
            raise AttributeError(f"a sequence of statements has no {name}")
        return seq(*stmts[1:]) if name == "body" else getattr(stmts[0], name)


@dataclass(frozen=True, eq=False, repr=False)
class Carry:
    """A variable that a loop carries: `first` before the first iteration, `following` before each later one.

    All `following` of a loop are computed from the old values, then assigned at once.

    Attributes
    ----------
    after_last: whether `following` may be computed after the last iteration as well, where nobody needs it: no step of
        it overflows there.
    fact: what holds of the variable in every iteration.
    """

    var: Var
    first: Expr
    following: Expr
    after_last: bool = True
    fact: Cond | None = None


@dataclass(frozen=True, eq=False, repr=False)
class For(Stmt):
    """`body` for each value of `var` in `range`, upwards; an extent below 0 counts as 0.

    `thread` is the tag of the thread axis a loop runs on, else empty. `annotations` of another compiler,
    by key, stay with the loop; its text shows them as a comment.
    """

    var: Var
    range: Range
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    thread: str = ""
    carried: tuple[Carry, ...] = ()
    annotations: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class If(Stmt):
    """`then` where the condition holds, else `orelse`."""

    cond: Cond | Value
    then: Stmt
    orelse: Stmt | None = None


@dataclass(frozen=True, eq=False)
class BlockLabel:
    """Name and annotations of a statement's block in another compiler."""

    name: str
    annotations: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Store(Stmt):
    """`tensor[indices] = value`, converted to the type of the tensor: integers wrap."""

    tensor: Tensor
    indices: tuple[Expr, ...]
    value: Operand
    block: BlockLabel | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Evaluate(Stmt):
    """A call of an opaque host function. Tensors among the arguments are passed whole."""

    call: ExternCall
    reads: tuple[Tensor, ...] = ()
    writes: tuple[Tensor, ...] = ()
    block: BlockLabel | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Assert(Stmt):
    """A check at run time; its condition is a fact behind it."""

    cond: Cond
    message: str


@dataclass(frozen=True, eq=False, repr=False)
class Assume(Stmt):
    """An unchecked fact, valid until an element that it reads is stored.

    `proved` claims that the nest implies it. Claims count only if the dataflow proves them
    (`passes.stores.reaching_values.with_checked_claims`); other assumptions are the user's word, and passes keep them.
    """

    cond: Cond | Value
    proved: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Let(Stmt):
    """A name for a value: `var` is a variable for an integer, a parameter for anything else."""

    var: Var | Value
    value: Operand


@dataclass(frozen=True, eq=False)
class Padding:
    """Untouchable elements of a storage: those whose `indices` satisfy `cond`, a condition on them and on sizes."""

    indices: tuple[Var, ...]
    cond: Cond

    def at(self, place: Sequence[Expr]) -> Cond:
        """That an element is one of these."""
        found: Cond = dag.substitute(self.cond, dict(zip(self.indices, place, strict=True)))
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Allocate(Stmt):
    """Storage for the elements of `tensor` in `ranges`; their contents are undefined.

    The element at place `y` of the storage (before it was rebased: at the numbers `y` in `ranges`) lies in the tensor
    at `origin[k] + sum(steps[k][j] * y[j])`. Without `origin` that is 0; without `steps` axes are those of the tensor.
    `padding` describes untouchable elements, by storage index.
    """

    tensor: Tensor
    ranges: tuple[Range, ...]
    scope: str = ""
    origin: tuple[Expr, ...] | None = None
    steps: tuple[tuple[int, ...], ...] | None = None
    padding: Padding | None = None


def _flat_index(store: Store) -> object:
    buffer = storage(store.tensor)
    if isinstance(buffer, Buffer):
        return buffer.offset_of(store.indices)[0]
    if len(store.indices) != 1:
        raise AttributeError(f"a store to {len(store.indices)} dimensions has indices, no index")
    return store.indices[0]


_STORAGE: Final[dict[str, Callable[[Any], object]]] = {
    "buffer": lambda stmt: storage(stmt.tensor),
    "producer": lambda stmt: stmt.tensor,
    "buffer_var": lambda stmt: stmt.tensor,
}
SCRIPT_FIELDS: Final[dict[tuple[str, str], Callable[[Any], object]]] = {
    (kind, name): field
    for kind, fields in {
        "For": {
            "loop_var": lambda loop: loop.var,
            "min": lambda loop: loop.range.min,
            "extent": lambda loop: loop.range.extent,
        },
        "If": {
            "condition": lambda branch: branch.cond,
            "then_case": lambda branch: branch.then,
            "else_case": lambda branch: branch.orelse,
        },
        "Store": {**_STORAGE, "index": _flat_index},
        "Evaluate": {"value": lambda stmt: stmt.call},
        "Assert": {"condition": lambda check: check.cond},
        "Allocate": {
            **_STORAGE,
            "bounds": lambda stmt: stmt.ranges,
            "extents": lambda stmt: tuple(r.extent for r in stmt.ranges),
            "dtype": lambda stmt: stmt.tensor.dtype,
            "condition": lambda stmt: truth(True),
        },
    }.items()
    for name, field in fields.items()
}


@dataclass(frozen=True, eq=False)
class Requirement:
    """A removed assumption that a nest relies on.

    Attributes
    ----------
    cond: the condition, in the variables of the loops around it.
    nest: the assumption inside its former loops and branches.
    """

    cond: Cond | Value
    nest: Stmt

    def __str__(self) -> str:
        return str(self.nest)

    __repr__ = __str__


class ShapeOf(Opaque):
    """The extents of the array passed for a tensor: `ShapeOf(A)[k]` prints as `A.shape[k]`."""

    __slots__ = ("tensor",)
    tensor: Tensor

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(f"{tensor.name}.shape", 1, 0)
        self.tensor = tensor

    def __reduce__(self) -> tuple[object, ...]:
        return ShapeOf, (self.tensor,)


def shapes_in(cond: Cond) -> list[Expr]:
    """The extents of passed arrays that a condition mentions."""
    return [term for term in dag.opaque_terms(cond) if isinstance(term.data, ShapeOf)]


@dataclass(frozen=True, eq=False)
class Function(Displayed):
    """A loop nest with its parameters.

    Attributes
    ----------
    name: its name in C.
    params: the tensors that are passed, in this order.
    outputs: those of `params` that it writes.
    sizes: the integer variables it depends on, in the order of their first use in a shape.
    scalars: scalar parameters that are not integers.
    body: what it does.
    ctx: further facts, from the caller of `lower`; analyses of the nest start from here.
    labels: other keys for parameters when arrays are passed: tensors of the schedule script, and their names.
    requires: the assumptions that `remove_assume` took out of the body.
    forms: of `lower` with `compute="auto"`: for each stage, by the name of its tensor, the forms that were considered
        (`lowering.forms.Form`), the chosen one first.
    layouts: for each tensor with a changed layout, by name: the map from original to present indices. Its storage
    counts from 0, `m.from_zero()`, where a range of the map begins below that. padding: untouchable elements of
    parameters. reassociate: whether sums of floats may be reordered.
    """

    name: str
    params: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    sizes: tuple[Var, ...]
    scalars: tuple[Value, ...]
    body: Stmt
    ctx: Context = field(default_factory=Context)
    labels: Mapping[Tensor | str, Tensor] = field(default_factory=dict)
    requires: tuple[Requirement, ...] = ()
    forms: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    layouts: Mapping[str, IndexMap] = field(default_factory=dict)
    padding: Mapping[Tensor, Padding] = field(default_factory=dict)
    reassociate: bool = False

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(t for t in self.params if t not in self.outputs)

    def with_body(self, body: Stmt) -> Function:
        """The same function with another body."""
        return self if body is self.body else with_fields(self, body=body)

    def __str__(self) -> str:
        return ABOVE.function_text(self)

    __repr__ = __str__


def with_fields(node: N, **fields: Any) -> N:
    """A copy with other values of some fields: `dataclasses.replace` without a call of `__init__`."""
    copy: N = object.__new__(type(node))
    copy.__dict__.update(node.__dict__, **fields)
    return copy


def checked_function(f: object, call: str) -> None:
    """Refuse an argument that is no `Function`, in the name of the public call."""
    if not isinstance(f, Function):
        raise InputError(f"{call} takes a Function, as lower and parse_nest make it, not {shown(f)}")


def seq(*stmts: Stmt) -> Stmt:
    """The statements one after another, without sequences inside sequences; a single one is itself."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat += stmt.stmts
        else:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def let(label: str, value: Operand) -> Let:
    """A name with this label for a value."""
    return Let(Var(label) if isinstance(value, Expr) else parameter(label, dtype_of(value)), value)


def guarded(stmt: Stmt, *conditions: Cond | Value) -> Stmt:
    """A statement under a branch on all conditions; without conditions, the statement itself."""
    cond = together(*conditions)
    return stmt if cond is truth(True) else If(cond, stmt)


def flat(stmt: Stmt) -> list[Stmt]:
    """The statements of a sequence; a single statement for any other kind."""
    return list(stmt.stmts) if isinstance(stmt, Seq) else [stmt]


def is_empty(stmt: Stmt) -> bool:
    """Whether a statement does nothing at all."""
    return isinstance(stmt, Seq) and not stmt.stmts


def tensor_of(symbol: object) -> Tensor | None:
    """The tensor whose elements an opaque symbol stands for, or `None`."""
    return symbol.tensor if isinstance(symbol, TensorElement) else None


# -- unknown values ---------------------------------------------------------------------------------------------------


class Undef(Opaque):
    """The symbol of one `undef()` that is an integer of the type `dtype`."""

    __slots__ = ("dtype",)
    dtype: str

    def __init__(self, dtype: str) -> None:
        super().__init__("undef()")
        self.dtype = dtype

    @staticmethod
    def _restored(dtype: str, uid: tuple[int, int]) -> Undef:
        self = Undef(dtype)
        self._fill("undef()", 0, None, None, uid)
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return Undef._restored, (self.dtype, self.uid)


def undef(dtype: str = dtypes.INDEX) -> Operand:
    """A value of the type that nobody knows; every call gives another one.

    Raises
    ------
    InputError: `dtype` names no type.

    >>> undef("float32")
    undef()
    """
    if dtypes.is_int(dtypes.check(dtype)):
        return Undef(dtype)()
    return make(UNDEF, (), dtype, dag.ORIGIN.next_uid())


def is_undef(node: Operand) -> bool:
    """Whether a node is an `undef()`."""
    return node.op is UNDEF or (node.op is ops.LOAD and isinstance(node.data, Undef))


def undefs(*roots: Operand) -> Iterator[Operand]:
    """The `undef()`s below operands, each once."""
    return (node for node in nodes(*roots) if is_undef(node))


def permission(cond: Truth) -> tuple[tuple[Truth, ...], Tensor, tuple[Expr, ...]] | None:
    """What `c or T[i] == undef()` permits to read where c is false: (the parts of c, T, i); `None` of another form."""
    parts = dag.chain(ops.OR, cond)
    unknown = [part for part in parts if has_undef(part)]
    if len(unknown) != 1 or unknown[0].op is not ops.EQ:
        return None
    sides = unknown[0].args
    held = sides[0] if is_undef(sides[1]) else sides[1] if is_undef(sides[0]) else None
    tensor = None if held is None else loaded_tensor(held)
    if held is None or tensor is None or has_undef(held):
        return None
    return tuple(part for part in parts if part is not unknown[0]), tensor, read_indices(held)


def has_undef(*roots: Operand) -> bool:
    """Whether a value is made of an `undef()`."""
    return next(undefs(*roots), None) is not None

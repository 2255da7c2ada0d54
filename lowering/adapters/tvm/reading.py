"""A `PrimFunc` as a nest: its statements by a table of their classes, views of buffers, initializations of reductions.

A reduction is initialized in front of its loops, or under a guard in their first iteration:

    for k in [0, 8):                           B[i] = 0.0
        if k == 0:                             for k in [0, 8):
            B[i] = 0.0           <->               B[i] = B[i] + A[i, k]
        B[i] = B[i] + A[i, k]

The right form is easier to analyse; a block of TVM has the left one, since `T.init` runs in the first iteration.

A statement without a counterpart, such as an intrinsic, an external call or an annotated block, passes through a nest
untouched, as an opaque call. Passes see the tensors that it reads and writes and replace the variables it mentions;
`to_tvm` writes it back.

A view of a buffer, a slice or a reshaped buffer, is an index map to its tensor.

Expressions become operands by a table of classes and one of calls by name. Integers of 32 and 64 bits with a sign are
mathematical: their overflow is undefined in the code that TVM writes. Other integers wrap at each step. Quotients keep
their rounding: `Div` and `Mod` are C's, `FloorDiv` and `FloorMod` floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, methodcaller
from typing import Any, Final, NamedTuple, TypeAlias, overload

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.ir import Var as TirVar
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm.tirx import stmt as tir

from bound import dtypes
from bound.tensor import PlaceholderOp, Tensor, element, unflattened
from bound.tir import build
from bound.tir.build import FUNCTIONS, ExternCall, popcount, power
from bound.tir.machine import within
from bound.tir.value import DIV, Operand, Value, constant, parameter
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, ShapeVar, Var, as_expr, const, dag, ops, shown
from intset.expr import build as ints
from intset.expr.build import ceildiv, logical_and
from intset.expr.convert import Converter, OperandsByClass
from intset.expr.node import PlainVar, truth
from intset.expr.ops import Op
from lowering.nest import driver, ir
from lowering.nest.ir import undef
from lowering.nest.names import untaken
from lowering.nest.scope import Indices, proves
from lowering.nest.walk import operands, range_ends, rebuilt, statements, tensors_read, variables, written_by

_MATHEMATICAL: Final = ("int32", "int64", "bool")
Row = Callable[..., Operand]


def dtype_of(term: Any) -> str:
    """The element type of a term or a buffer; for vectors, the lane type.

    Raises
    ------
    InputError: a type that tensors do not hold here.
    """
    found = getattr(term.ty, "dtype", None)
    dtype = _counterpart(str(found))
    if not dtype:
        raise InputError(f"TVM's type {term.ty if found is None else str(found).partition('x')[0]} has no counterpart")
    return dtype


@cache
def _counterpart(name: str) -> str:
    """The element type for a type of TVM by its name; empty where tensors hold none."""
    try:
        dtype = dtypes.check(name.partition("x")[0])
    except InputError:
        return ""
    return "" if dtype in _REFUSED else dtype


def element_type(buffer: Any) -> str:
    """The element type of a buffer by its name, also of a type whose values have no counterpart."""
    try:
        return dtype_of(buffer)
    except InputError:
        name = str(getattr(buffer.ty, "dtype", ""))
        if not name or lanes_of(buffer) != 1:
            raise
        return name


_REFUSED: Final = ("uint64", "bfloat16", *dtypes.OF_STORAGE)


def lanes_of(term: Any) -> int:
    """The lanes of a vector; 1 of a scalar."""
    found = getattr(getattr(term.ty, "dtype", None), "lanes", 1)
    return int(found)


def in_type(term: Any, value: Operand) -> Operand:
    """The result of an operation in its term's type: integers other than indices wrap."""
    if not isinstance(value, Expr):
        return value
    dtype = dtype_of(term)
    return value if dtype in _MATHEMATICAL else in_register(value, dtype)


def in_register(value: Any, dtype: str) -> Expr:
    """An integer wrapped to a type."""
    return ints.cast(value, dtypes.bits(dtype), dtypes.signed(dtype))


def as_value(term: Any, value: Operand) -> Operand:
    """The value of a term wrapped to its type, for uses of more than the low bits."""
    return within(value, dtype_of(term)) if isinstance(value, Expr) and is_data(value) else value


def is_data(value: Expr) -> bool:
    """Whether an integer depends on data."""
    named = any(isinstance(var, DataVar) for var in value.free_vars())
    return named or not _DATA.isdisjoint(dag.operations(value))


class DataVar(PlainVar):
    """A name for an integer that depends on data."""

    __slots__ = ()


_DATA: Final = frozenset((ops.LOAD, ops.CAST))


def converter(rows: dict[object, Row]) -> Converter[Any, Operand]:
    """The converter of terms; `rows` are those of variables, elements, vectors and names, which depend on the place."""
    return Converter(
        {**_ROWS, **rows}, opaque=_refused, kind=type, operands=operands_of, identity=methodcaller("__chandle__")
    )


def _refused(term: Any, *_: Operand) -> Operand:
    raise InputError(f"TVM's {type(term).__name__} has no counterpart: {str(term).splitlines()[-1][:80]}")


CLASSES: Final[dict[Op, type]] = {  # of binary operations; a quotient of floats is `Div`, too
    ops.ADD: tirx.Add, ops.SUB: tirx.Sub, ops.MUL: tirx.Mul, ops.MIN: tirx.Min, ops.MAX: tirx.Max,
    ops.TRUNCDIV: tirx.Div, ops.TRUNCMOD: tirx.Mod, ops.FLOORDIV: tirx.FloorDiv, ops.FLOORMOD: tirx.FloorMod,
    ops.LT: tirx.LT, ops.LE: tirx.LE, ops.GT: tirx.GT, ops.GE: tirx.GE, ops.EQ: tirx.EQ, ops.NE: tirx.NE,
}  # fmt: skip


def _binary(op: Op) -> Row:
    """The row of a binary operation; sums and products need the low bits of their operands alone."""
    if op in (ops.ADD, ops.SUB, ops.MUL):
        return lambda term, a, b: in_type(term, build.arithmetic(op, a, b))
    if op in ops.COMPARISONS:
        return lambda term, a, b: build.binary(op, as_value(term.a, a), as_value(term.b, b))
    return lambda term, a, b: in_type(term, build.arithmetic(op, as_value(term.a, a), as_value(term.b, b)))


def _function(f: Callable[..., Operand]) -> Row:
    return lambda term, *args: f(*map(as_value, term.args, args))


def _bitwise(op: Callable[[Any, Any], Any], logical: Op | None = None) -> Row:
    def row(term: Any, a: Operand, b: Operand) -> Operand:
        if logical is not None and build.is_truth(a) and build.is_truth(b):
            return build.logical(logical, a, b)
        return in_type(term, op(a, b))

    return row


def _cast(term: Any, value: Operand) -> Operand:
    dtype, own = dtype_of(term), dtype_of(term.value)
    if not isinstance(value, Expr):
        return build.cast(dtype, value)
    if not dtypes.is_int(dtype) or dtypes.bits(dtype) > dtypes.bits(own):
        value = as_value(term.value, value)
    return in_type(term, value) if dtypes.is_int(dtype) else build.cast(dtype, value)


def _selected(term: Any, cond: Operand, a: Operand, b: Operand) -> Operand:
    """A selection; of truth values as `and` and `or`, lazy as they are."""
    if b is truth(False) and build.is_truth(a):
        return build.logical(ops.AND, cond, a)
    if a is truth(True) and build.is_truth(b):
        return build.logical(ops.OR, cond, b)
    return build.select(cond, a, b)


def _exclusive(term: Any, a: Any, b: Any) -> Operand:
    if not (build.is_truth(a) and build.is_truth(b)):
        return in_type(term, a ^ b)
    either, both = (build.logical(op, a, b) for op in (ops.OR, ops.AND))
    return build.logical(ops.AND, either, build.negation(both))


_CALLS: Final[dict[str, Row]] = {
    **{name: _function(f) for name, f in FUNCTIONS.items() if name != "ldexp"},
    "pow": _function(power),
    "abs": lambda term, a: in_type(term, build.unary(ops.ABS, as_value(term.args[0], a))),
    "fabs": lambda term, a: build.unary(ops.ABS, a),
    "if_then_else": _selected,
    "likely": lambda term, a: a,
    "popcount": lambda term, a: popcount(in_register(a, dtype_of(term.args[0]))),
    "undef": lambda term: undef(dtype_of(term)),
    "bitwise_and": _bitwise(lambda a, b: a & b, ops.AND),
    "bitwise_or": _bitwise(lambda a, b: a | b, ops.OR),
    "bitwise_xor": _exclusive,
    "bitwise_not": lambda term, a: build.negation(a) if build.is_truth(a) else in_type(term, ~a),
    "shift_left": _bitwise(lambda a, b: a << b),
    "shift_right": lambda term, a, b: in_type(term, as_value(term.args[0], a) >> b),
}


def call_name(term: Any) -> str:
    """The name of what a call calls, without TVM's dialect in front."""
    return str(getattr(term.op, "name", term.op)).rpartition(".")[2]


def _call(term: Any, *args: Operand) -> Operand:
    row = _CALLS.get(call_name(term))
    if row is None:
        raise InputError(f"TVM's call of {call_name(term)} has no counterpart")
    return row(term, *args)


_BINARY: Final[dict[object, Row]] = {
    **{kind: _binary(op) for op, kind in CLASSES.items()},
    tirx.Div: lambda term, a, b: _binary(ops.TRUNCDIV if isinstance(a, Expr) else DIV)(term, a, b),
    tirx.And: lambda term, a, b: build.logical(ops.AND, a, b),
    tirx.Or: lambda term, a, b: build.logical(ops.OR, a, b),
    tirx.BitwiseAnd: _CALLS["bitwise_and"],
    tirx.BitwiseOr: _CALLS["bitwise_or"],
    tirx.BitwiseXor: _CALLS["bitwise_xor"],
    tirx.LShift: _CALLS["shift_left"],
    tirx.RShift: lambda term, a, b: in_type(term, as_value(term.a, a) >> b),
}

_ROWS: Final[dict[object, Row]] = {
    **_BINARY,
    tirx.IntImm: lambda term: truth(bool(term.value)) if dtype_of(term) == "bool" else const(int(term.value)),
    tirx.FloatImm: lambda term: constant(float(term.value), dtype_of(term)),
    tirx.BitwiseNot: _CALLS["bitwise_not"],
    tirx.Not: lambda term, a: build.negation(a),
    tirx.Select: _selected,
    tirx.Cast: _cast,
    Call: _call,
}


def is_supported(call: Any) -> bool:
    """Whether a call has a counterpart: it computes a value and does nothing else."""
    return call_name(call) in _CALLS


# Operands in constructor order; a `Let` contributes only its value. The row of an unsupported call refuses it by name.
operands_of: Final = OperandsByClass(
    {
        **dict.fromkeys(_BINARY, attrgetter("a", "b")),
        **dict.fromkeys((tirx.BitwiseNot, tirx.Not), lambda term: (term.a,)),
        **dict.fromkeys((tirx.Cast, tirx.Broadcast, tirx.Let), lambda term: (term.value,)),
        tirx.Select: attrgetter("condition", "true_value", "false_value"),
        tirx.Ramp: attrgetter("base", "stride"),
        TensorLoad: lambda term: tuple(term.indices),
        Call: lambda call: tuple(call.args) if is_supported(call) else (),
    }
)


def term_of(term: Any, known: dict[Any, Operand]) -> Operand:
    """An expression; new variables are added to the known ones."""

    def variable(var: Any) -> Operand:
        if var not in known:
            dtype = dtype_of(var)
            known[var] = Var(var.name) if dtypes.is_int(dtype) else parameter(var.name, dtype)
        return known[var]

    return converter({TirVar: variable})(term)


SEQUENTIAL: Final = (ir.LoopKind.SERIAL, ir.LoopKind.UNROLLED)


class GuardedStmts(NamedTuple):
    """Statements under a condition on integers that reads no element; `truth(True)` without one."""

    cond: Cond
    stmts: list[ir.Stmt]


def guarded(stmt: ir.Stmt) -> GuardedStmts | None:
    """Return condition and statements of a branch; `None` if it has an `else` or depends on data."""
    if not isinstance(stmt, ir.If):
        return GuardedStmts(truth(True), ir.flat(stmt))
    if stmt.orelse is not None or not isinstance(stmt.cond, Cond) or dag.opaque_terms(stmt.cond):
        return None
    return GuardedStmts(stmt.cond, ir.flat(stmt.then))


def is_initialization(stmts: Sequence[ir.Stmt]) -> bool:
    """Whether statements only store, and read none of the tensors that they store."""
    written = {stmt.tensor for stmt in stmts if isinstance(stmt, ir.Store)}
    every = all(isinstance(stmt, ir.Store) for stmt in stmts) and bool(stmts)
    return every and written.isdisjoint(tensors_read(*(e for stmt in stmts for e in operands(stmt))))


def with_hoisted_initializations(f: ir.Function) -> ir.Function:
    """Move what only the first iteration of a loop stores in front of the loop.

    Guarantee: equal stores in equal order. Loops that may be empty or run in parallel keep theirs.
    """
    return driver.rewritten_function(f, leave={ir.For: (_hoist,)})


def _hoist(loop: ir.For, here: driver.Cursor) -> ir.Stmt:
    whole = guarded(loop.body)
    if whole is None or not whole.stmts or loop.kind not in SEQUENTIAL or loop.carried:
        return loop
    first = whole.stmts[0]
    start = guarded(first)
    if start is None or not isinstance(first, ir.If) or not is_initialization(start.stmts):
        return loop
    low, extent = range_ends(loop.range)
    cond = logical_and(*dag.conjuncts(whole.cond), *dag.conjuncts(start.cond))
    if loop.var in variables(*(e for stmt in start.stmts for e in operands(stmt))) or dag.opaque_terms(low, extent):
        return loop
    inside = here.scope.inside(loop)
    if not proves(inside.where(cond), loop.var.eq(low)) or not proves(here.scope, extent >= 1):
        return loop
    left = [dag.substitute(part, {loop.var: low}) for part in dag.conjuncts(cond)]
    simple = [here.ctx.simplify(part) for part in left if not proves(here.scope, part)]
    init = ir.guarded(ir.seq(*start.stmts), *simple)
    return ir.seq(init, ir.with_fields(loop, body=ir.guarded(ir.seq(*whole.stmts[1:]), whole.cond)))


def with_guarded_initializations(f: ir.Function) -> ir.Function:
    """Move stores in front of a reduction into its first iteration, if its loops hold nothing but updates of them.

    Guarantee: equal stores in equal order, since the loops are proved to have an iteration.
    """
    return driver.rewritten_function(f, enter={ir.Seq: (_sink,)})


def _sink(stmt: ir.Seq, here: driver.Cursor) -> ir.Stmt:
    parts: list[ir.Stmt] = []
    waiting = list(stmt.stmts)
    while waiting:
        count, part = _joined(waiting, here) or (1, waiting[0])
        parts.append(part)
        del waiting[:count]
    return stmt if len(parts) == len(stmt.stmts) else ir.seq(*parts)


def _joined(stmts: Sequence[ir.Stmt], here: driver.Cursor) -> tuple[int, ir.Stmt] | None:
    """The initialization and the loops at the front as one nest, and the number of statements replaced."""
    count = next((k for k, stmt in enumerate(stmts) if isinstance(stmt, ir.For)), 0)
    start = guarded(stmts[0]) if count == 1 else GuardedStmts(truth(True), list(stmts[:count]))
    if not count or start is None or not is_initialization(start.stmts):
        return None
    loops: list[ir.For] = []
    inner = stmts[count]
    while isinstance(inner, ir.For):
        loops.append(inner)
        inner = inner.body
    whole = guarded(inner)
    scope = here.scope
    for loop in loops:
        low, extent = range_ends(loop.range)
        is_kept = loop.carried or loop.kind not in SEQUENTIAL or dag.opaque_terms(low, extent)
        if is_kept or not proves(scope, extent >= 1):
            return None
        scope = scope.inside(loop)
    own = {loop.var for loop in loops}
    places = [e for stmt in start.stmts if isinstance(stmt, ir.Store) for e in stmt.indices]
    if whole is None or not _updates(start.stmts, whole.stmts) or own & set(variables(*places)):
        return None
    first = logical_and(*(loop.var.eq(range_ends(loop.range)[0]) for loop in loops))
    if not proves(scope.where(first, start.cond), whole.cond):
        return None
    then = scope.where(first, whole.cond)
    left = [part for part in dag.conjuncts(start.cond) if not proves(then, part)]
    init = ir.If(logical_and(first, *left), ir.seq(*start.stmts))
    body = ir.guarded(ir.seq(init, *whole.stmts), whole.cond)
    for loop in reversed(loops):
        body = ir.with_fields(loop, body=body)
    return count + 1, body


def _updates(start: Sequence[ir.Stmt], body: Sequence[ir.Stmt]) -> bool:
    """Whether the body stores the initialized elements, reading each tensor it stores, and nothing else."""
    stores = [stmt for part in body for stmt in statements(part) if isinstance(stmt, ir.Store)]
    if any(isinstance(stmt, ir.For) for part in body for stmt in statements(part)):
        return False
    initialized = {(stmt.tensor, stmt.indices) for stmt in start if isinstance(stmt, ir.Store)}
    read = {loaded_tensor(n) for part in body for stmt in statements(part) for n in nodes(*operands(stmt))}
    return {(s.tensor, s.indices) for s in stores} == initialized and {t for t, _ in initialized} <= read


# -- statements without a counterpart ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ForeignCall(ExternCall):
    """A statement of TVM. `args`: the operands for its free variables, then the tensors for its buffers.

    Attributes
    ----------
    term: the statement.
    variables, buffers: the variables of TVM that `args` stand for.
    is_barrier: whether the call orders accesses to unnamed tensors.
    is_plain: whether it accesses elements alone, and passes no pointers on.
    """

    term: Any
    variables: tuple[Any, ...]
    buffers: tuple[Any, ...]
    is_barrier: bool
    is_plain: bool


class ForeignAccesses(NamedTuple):
    """The buffers that a statement of TVM reads and writes, and those whose pointers it passes on."""

    reads: set[Any]
    writes: set[Any]
    pointers: set[Any]
    is_barrier: bool


def accesses_of(term: Any) -> ForeignAccesses:
    """What a statement reads and writes.

    A call may read and write arrays passed by pointer. A call without pointers, such as a barrier of threads, may
    order all accesses.
    """
    reads = {load.source for load in _parts(term, TensorLoad)}
    writes = {store.buffer for store in _parts(term, tirx.BufferStore)}
    passed: set[Any] = set()
    is_barrier = False
    for node in _parts(term, tirx.BufferStore, tirx.Evaluate):
        calls = _parts(node.value, Call)
        args = [arg for call in calls for arg in call.args]
        pointers = {arg for arg in args if isinstance(arg, tvm.ir.Var) and tirx.is_buffer_var(arg)}
        passed |= pointers
        is_barrier |= not pointers and not all(map(is_supported, calls))
    return ForeignAccesses(reads | passed, writes | passed, passed, is_barrier)


def _parts(term: Any, *classes: type) -> list[Any]:
    """The nodes of some classes below a term of TVM."""
    found: list[Any] = []
    tvm_ffi.structural_walk(term, [(classes, found.append)])
    return found


_LEAVING: Final = ("ret", "thread_return", "break_loop", "continue_loop")


def foreign(term: Any, known: Mapping[Any, Operand], tensor_of: Callable[[Any], Tensor]) -> ir.Evaluate:
    """A statement as an opaque call.

    Parameters
    ----------
    known: the operands of variables in sight.
    tensor_of: the tensor of a buffer.

    Raises
    ------
    KeyError: the statement mentions an unknown variable or buffer, or leaves a loop or the function.
    """
    leaves = _parts(term, tir.Break, tir.Continue, tir.Return, Call)
    if any(not isinstance(node, Call) or call_name(node) in _LEAVING for node in leaves):
        raise KeyError(term)
    inside: set[Any] = set()  # what blocks declare, which TVM's analysis takes for free
    for block in _parts(term, SBlock):
        inside.update(axis.var for axis in block.iter_vars)
        inside.update((*block.alloc_buffers, *(match.buffer for match in block.match_buffers)))
    free = [var for var in tirx.analysis.undefined_vars(term) if var not in inside]
    buffers = tuple(var for var in free if tirx.is_buffer_var(var))
    variables = tuple(var for var in free if not tirx.is_buffer_var(var))
    tensors = {buffer: tensor_of(buffer) for buffer in buffers}
    found = accesses_of(term)
    label = call_name(term.value) if isinstance(getattr(term, "value", None), Call) else type(term).__name__.lower()
    is_plain = not (found.pointers or found.is_barrier)
    args = (*(known[var] for var in variables), *tensors.values())
    call = ForeignCall("foreign", label, args, term, variables, buffers, found.is_barrier, is_plain)
    reads, writes = (tuple(t for b, t in tensors.items() if b in part) for part in (found.reads, found.writes))
    return ir.Evaluate(call, reads, writes)


def with_ordered_barriers(body: ir.Stmt) -> ir.Stmt:
    """The nest whose barriers read and write every tensor that the nest writes."""
    written = written_tensors(body)

    def ordered(part: ir.Stmt) -> ir.Stmt:
        if not isinstance(part, ir.Evaluate) or not isinstance(part.call, ForeignCall) or not part.call.is_barrier:
            return part
        touched = tuple(dict.fromkeys((*part.writes, *written)))
        return ir.with_fields(part, reads=tuple(dict.fromkeys((*part.reads, *touched))), writes=touched)

    return rebuilt(body, ordered) if written else body


def written_tensors(body: ir.Stmt) -> list[Tensor]:
    """The stored tensors of a nest, without repetition."""
    return list(dict.fromkeys(tensor for part in statements(body) for tensor in written_by(part)))


def restored(call: ForeignCall, terms: Iterable[Any], buffers: Iterable[Any]) -> Any:
    """The statement of TVM with its variables and buffers replaced."""
    new = dict(zip((*call.variables, *call.buffers), (*terms, *buffers), strict=True))
    return tvm_ffi.structural_map(call.term, [(tvm.ir.Var, lambda var: new.get(var, var))], order="pre")


# -- buffers and functions -----------------------------------------------------------------------------------------


class BufferView(NamedTuple):
    """What a buffer of TVM stands for: elements of a tensor, by a function of the buffer's indices.

    `buffer`: the buffer that is the whole tensor.
    """

    tensor: Tensor
    place: Callable[[Indices], Indices]
    buffer: Any


def row_major(shape: list[Expr]) -> list[Expr]:
    """The strides of a storage without gaps."""
    strides = [const(1)]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent if strides[-1] is not const(1) else extent)
    return strides[::-1] if shape else []


def flattened(indices: Indices, strides: list[Expr], offset: Expr) -> Expr:
    """The number of an element in its storage."""
    number = offset
    for index, stride in zip(indices, strides, strict=True):
        step = index if stride is const(1) else index * stride
        number = step if number is const(0) else number + step
    return number


PrimFunc: TypeAlias = "tirx.PrimFunc"

DETECTED: Final = "tirx.script_parsing_detect_access"  # TVM's mark of a block whose regions its completion infers
KINDS: Final = tuple(ir.LoopKind)  # by TVM's numbers


@overload
def from_tvm(func: PrimFunc, variables: None = None) -> ir.Function: ...
@overload
def from_tvm(func: Any, variables: dict[Any, Operand] | None = None) -> Any: ...
def from_tvm(func: Any, variables: dict[Any, Operand] | None = None) -> Any:
    """A function of TVM as a nest; an expression as an operand; a range as a `Range`.

    Iteration variables of blocks become their bindings and predicates become branches. The initialization of a
    reduction stands in front of its loops where these are serial, innermost and never empty, else in their first
    iteration. Loops on threads run one after another, as TensorIR defines them before threads are launched. A buffer is
    the array of its elements: strides, offsets and alignment are the caller's, and `to_tvm(..., like=func)` gives them
    back. Parallel, vectorized, unrolled and thread-bound loops keep their kinds, buffers their storage scopes; a store
    of vectors becomes a vectorized loop. Loops keep their annotations and pragmas, stores the name and annotations of
    their block; a pragma around several statements is dropped.

    A statement without a counterpart stays as it is, as a call that `to_tvm` writes back: external calls, barriers,
    stores of unknown element types. Passes know the tensors that it reads and writes; a call that is given no pointer
    may order accesses to every tensor that the function writes. Such nests are not run or printed as C.

    Parameters
    ----------
    variables: for expressions and ranges: variables of TVM with their operands. The call adds a new variable for each
        one without an entry, so later expressions share it.

    Raises
    ------
    InputError: `func` has an unsupported type, an expression lacks a counterpart, or an unconverted statement uses a
        view of a buffer; named in the message.
    """
    if isinstance(func, tirx.PrimFunc):
        return PrimFuncReader(func).function()
    known = {} if variables is None else variables
    if isinstance(func, tvm.ir.Range):
        low, extent = (as_expr(term_of(end, known), "the end of a range") for end in (func.min, func.extent))
        return _range(low, extent)
    if isinstance(func, tvm.ir.Expr) and isinstance(func.ty, tvm.ir.PrimType):
        return term_of(func, known)
    raise InputError(f"from_tvm takes a PrimFunc, an expression or a Range of TVM, not {shown(func)}")


class PrimFuncReader:
    """The conversion of one function.

    Attributes
    ----------
    tensors: the parameters that are buffers, by TVM's variables; scalars: the other parameters. names: their names
        here, each once.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.tensors: dict[Any, Tensor] = {}
        self.scalars: dict[Any, Operand] = {}
        self.names: dict[Any, str] = {}
        self._known: dict[Any, Operand] = {}
        self._views: dict[Any, BufferView] = {}
        self._lane: tuple[Var, int] | None = None
        self._terms = self._converter()
        self.sizes: dict[Any, Var] = {}
        self._parameters()

    def function(self) -> ir.Function:
        """The nest."""
        body = self._stmt(self.func.body)
        tensors = tuple(self.tensors.values())
        written = written_tensors(body)
        body = with_ordered_barriers(body)
        attrs = self.func.attrs
        name = str(attrs["global_symbol"]) if attrs and "global_symbol" in attrs else "main"
        floats = tuple(value for value in self.scalars.values() if isinstance(value, Value))
        outputs = tuple(t for t in tensors if t in written)
        f = ir.Function(name, tensors, outputs, tuple(self.sizes.values()), floats, body)
        return with_hoisted_initializations(f)

    def _parameters(self) -> None:
        buffers = [p for p in self.func.params if tirx.is_buffer_var(p)]
        extents = [extent for buffer in buffers for extent in buffer.ty.shape]
        for extent in extents:
            if isinstance(extent, tvm.ir.Var) and extent not in self._known:
                self._known[extent] = self.sizes[extent] = ShapeVar(self._name(extent))
        for p in (p for p in self.func.params if not tirx.is_buffer_var(p)):
            if not isinstance(p.ty, tvm.ir.PrimType):
                raise InputError(f"the parameter {p.name} is a {type(p.ty).__name__}, neither a buffer nor a number")
            dtype = dtype_of(p)
            if p not in self._known and dtypes.is_int(dtype):
                self._known[p] = self.sizes[p] = Var(self._name(p))
            elif p not in self._known:
                self._known[p] = parameter(self._name(p), dtype)
            self.scalars[p] = self._known[p]
        for buffer in buffers:
            self.tensors[buffer] = self._tensor(buffer, self._name(buffer))

    def _name(self, var: Any) -> str:
        """The unique name of a parameter; a numeric suffix resolves clashes."""
        return self.names.setdefault(var, untaken(str(var.name) or "v", set(self.names.values())))

    def _tensor(self, buffer: Any, name: str = "") -> Tensor:
        """Declare the tensor of a buffer that is no view."""
        if lanes_of(buffer) != 1:
            raise InputError(f"TVM's type {buffer.ty.dtype} of {buffer.name} has no counterpart: elements are scalars")
        extents = tuple(self._integer(e) for e in buffer.ty.shape)
        tensor = PlaceholderOp(name or buffer.name or "buffer", extents, element_type(buffer)).output(0)
        self._views[buffer] = BufferView(tensor, lambda indices: indices, buffer)
        return tensor

    # -- terms ------------------------------------------------------------------------------------------------------

    def _converter(self) -> Any:
        rows: dict[object, Row] = {
            tvm.ir.Var: self._variable,
            TensorLoad: self._load,
            tirx.Ramp: self._ramp,
            tirx.Broadcast: self._broadcast,
            tirx.Let: self._named,
        }
        return converter(rows)

    def _bind(self, var: Any, value: Operand) -> None:
        """Bind a variable to an operand in the statements that follow."""
        if self._known.get(var, value) is not value:
            self._terms = self._converter()  # what was converted mentions the former operand
        self._known[var] = value

    def _integer(self, term: Any) -> Expr:
        found = self._terms(term)
        if isinstance(found, Expr):
            return found
        return as_expr(found, f"what TVM writes as {str(term).splitlines()[-1][:60]}")

    def _truth(self, term: Any) -> Any:
        return build.truth_value(self._terms(term), "a condition of TVM")

    def _variable(self, term: Any) -> Operand:
        if term not in self._known:
            raise InputError(
                f"the variable {term.name} of TVM is bound neither by a loop nor by a shape or a parameter"
            )
        return self._known[term]

    def _load(self, term: Any, *indices: Operand) -> Operand:
        view = self._view(term.source)
        dtype_of(term.source)
        return element(view.tensor, view.place(tuple(as_expr(i, "an index") for i in indices)))

    def _view(self, buffer: Any) -> BufferView:
        if buffer not in self._views:
            raise InputError(
                f"the buffer {getattr(buffer, 'name', buffer)} of TVM is neither a parameter nor allocated"
            )
        return self._views[buffer]

    def _ramp(self, term: Any, base: Operand, stride: Operand) -> Operand:
        lane, start, step = self._lane_of(term, term.base), as_expr(base), as_expr(stride)
        offset = lane if step is const(1) else lane * step
        return offset if start is const(0) else start + offset

    def _broadcast(self, term: Any, value: Operand) -> Operand:
        self._lane_of(term, term.value)
        return value

    def _lane_of(self, term: Any, inner: Any) -> Var:
        if self._lane is None or lanes_of(inner) != 1 or lanes_of(term) != self._lane[1]:
            raise InputError(
                f"TVM's vector {term} has no counterpart here: one vector of the lanes that are stored has"
            )
        return self._lane[0]

    def _named(self, term: Any, value: Operand) -> Operand:
        self._bind(term.var, value)
        answer: Operand = self._terms(term.body)
        return answer

    # -- statements -------------------------------------------------------------------------------------------------

    def _stmt(self, stmt: Any) -> ir.Stmt:
        """Convert a statement by the rule of its class, else keep it as an opaque call."""
        try:
            rule = _STATEMENTS.get(type(stmt))
            if rule is None:
                raise InputError(f"TVM's statement {type(stmt).__name__} has no counterpart")
            return rule(self, stmt)
        except InputError as error:
            return self._foreign(stmt, error)

    def _foreign(self, stmt: Any, error: InputError) -> ir.Stmt:
        """Keep a statement as an opaque call; raise `error` for an unknown variable or a view."""
        try:
            return foreign(stmt, self._known, self._whole)
        except KeyError:
            raise error from None

    def _whole(self, buffer: Any) -> Tensor:
        """The tensor of a buffer; raises `KeyError` for a view."""
        view = self._views[buffer]
        if not view.buffer.same_as(buffer):
            raise KeyError(buffer)
        return view.tensor

    def sequence(self, stmt: Any) -> ir.Stmt:
        parts: list[ir.Stmt] = []
        for k, part in enumerate(stmt.seq):
            if type(part) not in _DECLARING:
                parts.append(self._stmt(part))
                continue
            try:
                parts.append(_STATEMENTS[type(part)](self, part))
            except InputError as error:  # the rest may use its name
                parts.append(self._foreign(tir.SeqStmt(stmt.seq[k:]), error))
                break
        return ir.seq(*parts)

    def loop(self, stmt: Any) -> ir.Stmt:
        low, extent = self._integer(stmt.min), self._integer(stmt.extent)
        var = Var(stmt.loop_var.name)
        step = const(1) if stmt.step is None else self._integer(stmt.step)
        if step is const(1):
            self._bind(stmt.loop_var, var)
        else:
            extent, low, first = ceildiv(extent, step), const(0), low
            self._bind(stmt.loop_var, first + var * step)
        tag = "" if stmt.thread_binding is None else str(stmt.thread_binding.thread_tag)
        kind = ir.LoopKind.VTHREAD if tag.startswith("vthread") else KINDS[int(stmt.kind)]
        loop = ir.For(var, _range(low, extent), self._stmt(stmt.body), kind, tag)
        return loop if not stmt.annotations else ir.with_fields(loop, annotations=annotations_of(stmt))

    def attribute(self, stmt: Any) -> ir.Stmt:
        key = str(stmt.attr_key)
        if key in ("thread_extent", "virtual_thread"):
            axis = stmt.node
            var = Var(axis.var.name)
            self._bind(axis.var, var)
            tag = str(axis.thread_tag)
            kind = ir.LoopKind.VTHREAD if key == "virtual_thread" else ir.LoopKind.THREAD
            return ir.For(var, _range(const(0), self._integer(stmt.value)), self._stmt(stmt.body), kind, tag)
        if not key.startswith("pragma_"):
            raise InputError(f"TVM's attribute {key} has no counterpart")
        inner = self._stmt(stmt.body)
        if isinstance(inner, ir.For):
            return ir.with_fields(inner, annotations=((key, stmt.value), *inner.annotations))
        return inner  # a hint around several statements has no place in a nest

    def branch(self, stmt: Any) -> ir.Stmt:
        cond = self._truth(stmt.condition)
        then = self._stmt(stmt.then_case)
        return ir.If(cond, then, None if stmt.else_case is None else self._stmt(stmt.else_case))

    def store(self, stmt: Any) -> ir.Stmt:
        lanes = max(lanes_of(term) for term in (stmt.value, *stmt.indices))
        if lanes == 1:
            return self._store(stmt)
        lane = Var("lane")
        outside = self._terms
        self._terms, self._lane = self._converter(), (lane, lanes)  # terms of vectors are converted for this lane
        try:
            one = self._store(stmt)
        finally:
            self._terms, self._lane = outside, None
        each = _range(const(0), const(lanes))
        if not any(loaded_tensor(n) is one.tensor and read_indices(n) != one.indices for n in nodes(one.value)):
            return ir.For(lane, each, one, ir.LoopKind.VECTORIZED)
        held = PlaceholderOp(f"{one.tensor.name}_lanes", (const(lanes),), one.tensor.dtype).output(0)
        first = ir.For(lane, each, ir.Store(held, (lane,), one.value), ir.LoopKind.VECTORIZED)
        again = Var("lane")
        indices = tuple(dag.substitute(index, {lane: again}) for index in one.indices)
        after = ir.For(again, each, ir.Store(one.tensor, indices, element(held, (again,))), ir.LoopKind.VECTORIZED)
        return ir.seq(ir.Allocate(held, (each,)), first, after)

    def _store(self, stmt: Any) -> ir.Store:
        view = self._view(stmt.buffer)
        indices = tuple(self._integer(index) for index in stmt.indices)
        return ir.Store(view.tensor, view.place(indices), self._terms(stmt.value))

    def _allocate(self, buffer: Any) -> ir.Stmt:
        tensor = self._tensor(buffer)
        scope = str(buffer.ty.storage_scope)
        ranges = tuple(_range(const(0), e) for e in tensor.extents)
        return ir.Allocate(tensor, ranges, "" if scope == "global" else scope)

    def declaration(self, stmt: Any) -> ir.Stmt:
        """Declare a view: another shape for a buffer, by flat element number."""
        data, buffer = stmt.data, stmt.buffer
        base = data.args[0] if isinstance(data, Call) and data.args else None
        if base is None or base not in self._views or dtype_of(buffer) != dtype_of(base):
            raise InputError(f"the view {buffer.name} of TVM is not that of one known buffer of its type")
        first = base.ty.elem_offset
        if base.ty.strides or not isinstance(first, tirx.IntImm) or int(first):
            raise InputError(f"the view {buffer.name} of TVM is one of {base.name}, which has strides or an offset")
        known = self._views[base]
        shape, whole = ([self._integer(e) for e in b.ty.shape] for b in (buffer, base))
        strides = [self._integer(e) for e in buffer.ty.strides] or row_major(shape)
        offset = self._integer(buffer.ty.elem_offset)

        def place(indices: Indices) -> Indices:
            if (shape, strides, offset) == (whole, row_major(whole), const(0)):
                return known.place(indices)
            return known.place(unflattened(flattened(indices, strides, offset), whole))

        self._views[buffer] = BufferView(known.tensor, place, known.buffer)
        return ir.seq()

    def _let(self, var: Any, value: Operand) -> ir.Stmt:
        if isinstance(value, Expr):
            own: Any = (DataVar if is_data(value) else Var)(var.name)
            value = as_value(var, value)
        else:
            own = parameter(var.name, dtype_of(var))
        self._bind(var, own)
        return ir.Let(own, value)

    def check(self, stmt: Any) -> ir.Stmt:
        cond = self._truth(stmt.condition)
        if not isinstance(cond, Cond):
            raise InputError(f"TVM asserts {stmt.condition}, which is no condition on integers")
        return ir.Assert(cond, "".join(str(part.value) for part in stmt.message_parts))

    def evaluation(self, stmt: Any) -> ir.Stmt:
        value = stmt.value
        if isinstance(value, tirx.IntImm):
            return ir.seq()
        if isinstance(value, Call) and call_name(value) == "assume":
            return ir.Assume(self._truth(value.args[0]))
        if isinstance(value, TensorLoad):
            self._terms(value)  # an unsupported load raises; a supported one has no effect
            return ir.seq()
        what = f"call of {call_name(value)}" if isinstance(value, Call) else type(value).__name__
        raise InputError(f"TVM's statement that evaluates a {what} has no counterpart")

    def block(self, stmt: Any) -> ir.Stmt:
        block = stmt.block
        label = ir.BlockLabel(str(block.name_hint), annotations_of(block))
        is_root = stmt.same_as(self.func.body)  # `like` keeps what stands there
        if label.annotations and not is_root and _parts(block.body, tir.For, SBlockRealize):
            raise InputError(f"TVM's block {label.name} is annotated around loops: it has no counterpart")
        names: list[ir.Stmt] = []
        for axis, term in zip(block.iter_vars, stmt.iter_values, strict=True):
            value = self._integer(term)
            if dag.opaque_terms(value):  # read once, before the block stores
                names.append(self._let(axis.var, value))
            else:
                self._bind(axis.var, value)
        predicate = self._truth(stmt.predicate)
        for match in block.match_buffers:
            self._match(match)
        inside: list[ir.Stmt] = [self._allocate(buffer) for buffer in block.alloc_buffers]
        if block.init is not None:
            inside.append(_labelled(self._initialization(block), ir.BlockLabel(f"{label.name}_init")))
        inside.append(_labelled(self._stmt(block.body), label))
        return ir.seq(*names, ir.guarded(ir.seq(*inside), predicate))

    def _initialization(self, block: Any) -> ir.Stmt:
        """What runs in the first iteration of a reduction."""
        axes = [axis for axis in block.iter_vars if int(axis.iter_type) == tirx.IterVar.CommReduce]
        first = [self._integer(axis.var).eq(self._integer(axis.dom.min)) for axis in axes]
        return ir.guarded(self._stmt(block.init), *first)

    def _match(self, match: Any) -> None:
        """Bind a buffer to a region of another; also bind variables in its shape, strides and offset."""
        source, ty = match.source.source, match.buffer.ty
        whole = self._view(source)
        lows, extents = (
            [self._integer(end) for end in ends]
            for ends in zip(*((r.min, r.extent) for r in match.source.region), strict=True)
        )
        added = len(lows) - len(ty.shape)  # leading axes of one index
        if dtype_of(match.buffer) != whole.tensor.dtype or added < 0 or any(e is not const(1) for e in extents[:added]):
            raise InputError(f"the buffer {match.buffer.name} of TVM is no part of {whole.tensor.name} of its type")
        self._know(ty.shape, extents[added:])
        if all(isinstance(e, tirx.IntImm) or e in self._known for e in (*source.ty.strides, source.ty.elem_offset)):
            strides = [self._integer(e) for e in source.ty.strides]
            strides = strides or row_major([self._integer(e) for e in source.ty.shape])
            self._know(ty.strides, strides[added:])
            self._know([ty.elem_offset], [flattened(tuple(lows), strides, self._integer(source.ty.elem_offset))])

        def place(indices: Indices) -> Indices:
            offsets = (const(0),) * added + indices
            return whole.place(tuple(low + offset for low, offset in zip(lows, offsets, strict=True)))

        self._views[match.buffer] = BufferView(whole.tensor, place, whole.buffer)

    def _know(self, terms: Any, values: list[Expr]) -> None:
        for term, value in zip(terms, values, strict=False):
            if isinstance(term, tvm.ir.Var):
                self._bind(term, value)


def annotations_of(node: Any) -> tuple[tuple[str, object], ...]:
    """The annotations of a loop or block, without the mark of TVM's own parser."""
    return tuple((str(key), value) for key, value in node.annotations.items() if str(key) != DETECTED)


def _labelled(root: ir.Stmt, label: ir.BlockLabel) -> ir.Stmt:
    """The statements of a block with its label; those of inner blocks have their own."""

    def own(stmt: ir.Stmt) -> ir.Stmt:
        is_open = isinstance(stmt, (ir.Store, ir.Evaluate)) and stmt.block is None
        return ir.with_fields(stmt, block=label) if is_open else stmt

    return rebuilt(root, own)


def _range(low: Expr, extent: Expr) -> Range:
    return Range(low, const(0) if extent.is_const and extent.data < 0 else extent)


_DECLARING: Final = (tir.AllocBuffer, tir.DeclBuffer, tir.Bind)  # their names reach to the end of the sequence
_STATEMENTS: Final[dict[type, Callable[[PrimFuncReader, Any], ir.Stmt]]] = {
    tir.SeqStmt: PrimFuncReader.sequence,
    tir.For: PrimFuncReader.loop,
    tir.AttrStmt: PrimFuncReader.attribute,
    tir.IfThenElse: PrimFuncReader.branch,
    tir.BufferStore: PrimFuncReader.store,
    tir.AllocBuffer: lambda reader, stmt: reader._allocate(stmt.buffer),
    tir.DeclBuffer: PrimFuncReader.declaration,
    tir.Bind: lambda reader, stmt: reader._let(stmt.var, reader._terms(stmt.value)),
    tir.AssertStmt: PrimFuncReader.check,
    tir.Evaluate: PrimFuncReader.evaluation,
    SBlockRealize: PrimFuncReader.block,
}

"""`tvm.ir`: functions and modules, ranges, comparison; TVM's classes of nodes as types; walks over nests.

Calls and `Let` have views with the names of TVM's fields; operators of a view compute with its value.

One class of nodes serves here for every operation, so each type is a test, which `isinstance` asks, and a constructor.
Fields are those of the nodes: `a`, `b`, `value`, `condition`, `extent`, `body`.
"""

from __future__ import annotations

import base64
import json
import operator
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from bound import dtypes
from bound.declare import size_var, var
from bound.itervar import as_domain, plain_index
from bound.tensor import ScriptText, Tensor, buffer_of, buffer_tensor
from bound.tir import build, div, walk
from bound.tir.machine import as_value, in_types
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, REDUCE, IntFunction, ScriptVar, Value, make, parameter
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, IntLike, Node, ShapeVar, Var, arguments, as_expr, ops, shown
from intset.expr import range as ranges
from intset.expr.node import Guest, truth
from lowering.build.function import shape_asserts, sizes_of
from lowering.nest import ir
from lowering.nest.scope import written_in
from lowering.nest.walk import folded, map_operands, operands, rebuilt, statements
from lowering.nest.walk import substitute as substituted
from lowering.passes import name_minima, rebase, unique_names
from lowering.tvm.target import Target

# -- views --------------------------------------------------------------------------------------------------------

_EXTERN: Final = {"extern": "tir.call_extern", "packed": "tir.tvm_call_packed"}  # their first argument is the name


@dataclass(frozen=True)
class CalledOp:
    """TVM's `Op`, which a call names: `tvm.ir.Op.get("tir.exp")`."""

    name: str

    @staticmethod
    @lru_cache(None)
    def get(op_name: str) -> CalledOp:
        """The operation of a name; always the same."""
        return CalledOp(op_name)

    def same_as(self, other: object) -> bool:
        return self == other

    def __str__(self) -> str:
        return self.name


class ScriptView(Guest):
    """A value under fields of TVM.

    Attributes
    ----------
    node: the value, or the call that a statement makes.
    kind: the name of TVM's class.
    fields: by name.
    """

    def __init__(self, node: Any, kind: str, **fields: Any) -> None:
        self.node, self.kind, self.fields = node, kind, fields

    def as_operand(self) -> Any:
        return self.node

    def __getattr__(self, name: str) -> Any:
        fields: dict[str, Any] = self.__dict__.get("fields", {})
        if name in fields:
            return fields[name]
        if name.startswith("__") or "node" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.node, name)

    def __hash__(self) -> int:
        return hash(self.node)

    def __repr__(self) -> str:
        return repr(self.node)


def _applied(function: Callable[..., Any], is_reflected: bool) -> Callable[..., Any]:
    def apply(self: ScriptView, *others: Any) -> Any:
        plain = [unviewed(other) for other in others]
        return function(*plain, self.node) if is_reflected else function(self.node, *plain)

    return apply


for _name in "add sub mul truediv floordiv mod and or xor lshift rshift".split():
    for _prefix in ("", "r"):
        _called = getattr(operator, f"__{_name}__")
        setattr(ScriptView, f"__{_prefix}{_name}__", _applied(_called, bool(_prefix)))
for _name in "lt le gt ge eq ne neg abs invert".split():
    setattr(ScriptView, f"__{_name}__", _applied(getattr(operator, f"__{_name}__"), False))


def unviewed(x: Any) -> Any:
    """The value for which a view stands; other objects are themselves."""
    return x.node if isinstance(x, ScriptView) else x


def viewed(x: Any) -> Any:
    """The view of a call; other objects are themselves."""
    if isinstance(x, ScriptView):
        return x
    node = x.data.body if isinstance(x, Expr) and isinstance(x.data, IntFunction) else x
    if isinstance(node, build.ExternCall):
        return _call_view(x, "int32", node.kind, node.name, node.args)
    if isinstance(node, Value) and node.op is CALL:
        is_known = node.data in build.FUNCTIONS or node.data.startswith("tir.")
        return _call_view(x, node.dtype, "" if is_known else "extern", node.data, node.args)
    return x


def _call_view(node: Any, dtype: str, kind: str, name: str, args: tuple[Any, ...]) -> ScriptView:
    called = (_EXTERN[kind], (ScriptText(name),)) if kind in _EXTERN else (f"tir.{name.removeprefix('tir.')}", ())
    return ScriptView(node, "Call", dtype=dtype, op=CalledOp.get(called[0]), args=(*called[1], *map(viewed, args)))


def is_call(x: object) -> bool:
    """Whether an object views a call."""
    return isinstance(x, ScriptView) and x.kind == "Call"


def has_effect(x: Any) -> bool:
    """Whether a statement of this value does something: it calls no known function."""
    return is_call(viewed(x)) and viewed(x).op.name.removeprefix("tir.") not in build.FUNCTIONS


def is_inner(x: object) -> bool:
    """Whether a value has an integer type; walks visit the integer expression around it instead."""
    return isinstance(x, Value) and dtypes.is_int(x.dtype)


def let(var: Any, value: Any, body: Any, span: object = None) -> ScriptView:
    """`Let`: the body with the variable's value."""
    bound, inside = build.operand(value), build.operand(body)
    return ScriptView(walk.substitute(inside, {var: bound}), "Let", var=var, value=bound, body=inside)


ir.SCRIPT_FIELDS["Evaluate", "value"] = lambda stmt: viewed(stmt.call)


# -- calls ----------------------------------------------------------------------------------------------------------

BARRIER: Final = "tir.tvm_storage_sync"


@dataclass(frozen=True, eq=False)
class AtomicAdd:
    """The call `atomic_add(address, value)`, which adds to an element and returns the element before."""

    address: build.BufferPointer
    value: Any


def call_intrin(dtype: str, name: Any, *args: Any, span: object = None) -> Any:
    """A call of an intrinsic; `address_of` an element of a buffer, and `atomic_add` to one, are for a builder."""
    plain = str(name).removeprefix("tir.")
    if plain == "address_of" and len(args) == 1:
        buffer = getattr(args[0], "buffer", None)
        if not isinstance(buffer, build.Buffer):
            raise InputError(f"address_of takes an element of a buffer, not {args[0]!r}")
        return build.BufferPointer(buffer, args[0].index)
    if plain == "atomic_add" and len(args) == 2 and isinstance(args[0], build.BufferPointer):
        return AtomicAdd(*args)
    return build.call_intrin(dtype, str(name), *args)


def _passed(arg: object) -> object:
    """An argument of a call, with a tensor in the place of its buffer or of the address of its first element."""
    if isinstance(arg, build.BufferPointer):
        if not (arg.offset.is_const and int(arg.offset) == 0):
            raise InputError(f"a call is given whole tensors, not {arg.buffer.name} from element {arg.offset}")
        arg = arg.buffer
    return buffer_tensor(arg) if isinstance(arg, build.Buffer) else getattr(arg, "as_tensor", arg)


def as_statement(stmt: Any) -> ir.Stmt:
    """A statement itself, stores of a vector, or the call of a function as a statement; its value is dropped."""
    if isinstance(stmt, build.BufferStores):
        tensor = buffer_tensor(stmt.buffer)
        return ir.seq(*(ir.Store(tensor, place, in_types(value)) for place, value in stmt.stores))
    call = unviewed(stmt)
    if isinstance(call, Expr) and isinstance(call.data, IntFunction):
        call = call.data.body
    if isinstance(call, Value) and call.op is CALL:
        call = build.ExternCall("extern", str(call.data), call.args)
    if isinstance(call, build.ExternCall):
        args = tuple(map(_passed, call.args))
        tensors = tuple(a for a in args if isinstance(a, Tensor))
        return ir.Evaluate(build.ExternCall(call.kind, call.name, args), tensors, tensors)
    if not isinstance(call, ir.Stmt):
        raise InputError(f"a nest consists of statements and calls of functions, not of {stmt!r}")
    return call


# -- functions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ModuleFunction(ir.Function):
    """A function that serves as its own module: `lower(...)["main"]` is the function itself.

    Attributes
    ----------
    attributes: what `with_attr` added.
    order: the arguments of calls, in order; empty for tensors, then scalars.
    is_checked: whether every access is proved or asserted.
    """

    attributes: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[Any, ...] = ()
    is_checked: bool = False

    def __getitem__(self, name: object) -> ModuleFunction:
        if str(name) not in (self.name, "main", "default_function"):
            raise InputError(f"the module has the function {self.name}, not {shown(name)}")
        return self

    @property
    def functions(self) -> dict[str, ModuleFunction]:
        """The functions of the module, by name."""
        return {self.name: self}

    @property
    def buffer_map(self) -> dict[Tensor, Tensor]:
        """Each tensor among the parameters."""
        return {tensor: tensor for tensor in self.params}

    @property
    def attrs(self) -> Mapping[str, Any] | None:
        """The attributes; `None` without any."""
        return self.attributes or None

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> ModuleFunction:
        """The function with more attributes."""
        more = {key: value} if isinstance(key, str) else dict(key)
        return ir.with_fields(self, attributes={**self.attributes, **more})


class _ModuleType:
    """`IRModule({name: function})`: a function is its own module; `isinstance` knows every function."""

    def __call__(self, functions: Mapping[Any, ir.Function]) -> ModuleFunction:
        if len(arguments.mapped(functions, "the functions of a module")) != 1:
            raise InputError(f"a module has one function here, not {len(functions)}: build takes a list")
        return as_prim_func(*functions.values())

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, ir.Function)

    def from_expr(self, function: ir.Function) -> ModuleFunction:
        """The module of a function."""
        return as_prim_func(function)


IRModule = _ModuleType()


def as_prim_func(f: ir.Function) -> ModuleFunction:
    """A function with TVM's fields."""
    ir.checked_function(f, "a module")
    if isinstance(f, ModuleFunction):
        return f
    made: ModuleFunction = object.__new__(ModuleFunction)
    stored = written_in(f.body)
    outputs = (*f.outputs, *(t for t in f.params if t in stored and t not in f.outputs))  # scripts overwrite inputs
    made.__dict__.update({**f.__dict__, "outputs": outputs, "attributes": {}, "order": (), "is_checked": False})
    return made


def prim_func(
    params: Sequence[Any], body: ir.Stmt, ret_type: object = None, *_: object, **more: object
) -> ModuleFunction:
    """A function of its parameters and its body.

    Parameters
    ----------
    params: tensors, buffers and variables, in the order of calls.
    body: the nest; it starts at the shapes' checks that the answer has in front of it.
    """
    found = [buffer_tensor(p) if isinstance(p, build.Buffer) else p for p in arguments.listed(params, "params")]
    arguments.of_kind(ir.Stmt, body, "the body of a function", "a nest")
    for k, param in enumerate(found):
        if not isinstance(param, (Tensor, Var, Value)):
            raise InputError(f"parameter {k} of a function must be a tensor, buffer or variable, not {shown(param)}")
    tensors = tuple(p for p in found if isinstance(p, Tensor))
    stored = written_in(body)
    sizes, scalars = sizes_of(tensors, body)
    asked = tuple(p for p in found if isinstance(p, Var))
    values = tuple(p for p in found if isinstance(p, Value))
    f = ir.Function(
        "main",
        tensors,
        tuple(t for t in tensors if t in stored),
        tuple(dict.fromkeys((*asked, *sizes))),
        tuple(dict.fromkeys((*values, *scalars))),
        body,
        labels={p.name: p for p in tensors},
    )
    known = {stmt.message for stmt in ir.flat(body) if hasattr(stmt, "message")}
    checks = [check for check in shape_asserts(f, {}) if check.message not in known]
    return ir.with_fields(as_prim_func(rebase(name_minima(f.with_body(ir.seq(*checks, body))))), order=tuple(found))


Array, Map, Op = Sequence, Mapping, CalledOp
container = SimpleNamespace(Array=Array, Map=Map)


class _RangeType:
    """`Range(begin, end)`, half-open, or `Range(extent)`; `isinstance` knows every range."""

    def __call__(self, begin: IntLike, end: IntLike | None = None, span: object = None) -> ranges.Range:
        return as_domain((0, begin) if end is None else (begin, end), "a range")

    def __instancecheck__(self, x: object) -> bool:
        return isinstance(x, ranges.Range)

    def from_min_extent(self, min_value: IntLike, extent: IntLike, span: object = None) -> ranges.Range:
        """The range of `extent` numbers from `min_value` on."""
        return ranges.Range(min_value, extent)

    make_by_min_extent = from_min_extent


Range = _RangeType()


@dataclass(frozen=True)
class PrimType:
    """The type of a number."""

    dtype: str


@dataclass(frozen=True)
class PointerType:
    """The type of an address."""

    element_type: PrimType
    storage_scope: str = ""


def variable(
    name: str = "tindex", dtype: Any = "int32", span: object = None, is_size: bool = False, **more: Any
) -> Any:
    """A variable of a script: an integer, a value, or an address, which only buffers and calls take.

    Parameters
    ----------
    is_size: whether unbounded integers are nonnegative.
    """
    if isinstance(dtype, PointerType):
        return parameter(name, "handle", dtype)
    checked = dtypes.check(dtype)
    is_script = dtypes.is_int(checked) and not more and (is_size or dtypes.bits(checked) < 32)
    return ScriptVar.of(name, checked, is_size) if is_script else var(name, checked, **more)


def save_json(node: object) -> str:
    """Text from which `load_json` restores the object; it holds a pickle."""
    return json.dumps({"pickle": base64.b64encode(pickle.dumps(node)).decode("ascii")})


def load_json(json_str: str) -> Any:
    """The object of a text of `save_json`, with the trust that unpickling asks for.

    Raises
    ------
    InputError: another text.
    """
    try:
        return pickle.loads(base64.b64decode(json.loads(json_str)["pickle"]))  # the caller's own text
    except (ValueError, KeyError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise InputError("a text or file that was not saved here: libraries and JSON of TVM are not read") from error


def register_op_attr(op_name: str, attr_key: str, value: Any = None, level: int = 10) -> Any:
    """Do nothing: attributes of operations, such as effects, have no meaning here; a decorator without `value`."""
    return (lambda function: function) if value is None else value


def register_intrin_lowering(op_name: str, target: str, f: Any = None, level: int = 10) -> Any:
    """Ignore the rule for a target that does not run here; a decorator without `f`.

    Raises
    ------
    InputError: the target runs here.
    """
    if target == "default" or Target(target).runs_here:
        raise InputError(f"rules for {target} are not applied to {op_name}: tir.call_extern names a function of C")
    return (lambda function: function) if f is None else f


def structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, nests or containers are the same up to the names of loops.

    Guarantee: nests count as equal only if their texts are, after loops got unique names in order.
    """
    if isinstance(lhs, (list, tuple)) and isinstance(rhs, (list, tuple)):
        return len(lhs) == len(rhs) and all(map(structural_equal, lhs, rhs))
    if isinstance(lhs, (Node, Value)) or isinstance(rhs, (Node, Value)):
        are_nodes = isinstance(lhs, Node) and isinstance(rhs, Node)
        return lhs is rhs or _same_place(lhs, rhs) or (not are_nodes and bool(lhs == rhs))
    if isinstance(lhs, ir.Function) and isinstance(rhs, ir.Function):
        return _text(lhs) == _text(rhs)
    if isinstance(lhs, ir.Stmt) and isinstance(rhs, ir.Stmt):
        return str(lhs) == str(rhs)
    return bool(lhs == rhs)


def _same_place(lhs: Any, rhs: Any) -> bool:
    """Whether two elements of one buffer have the same flat index."""
    if not isinstance(lhs, (Node, Value)) or not isinstance(rhs, (Node, Value)):
        return False
    tensor = walk.loaded_tensor(lhs)
    if tensor is None or tensor is not walk.loaded_tensor(rhs) or buffer_of(tensor) is None:
        return False
    return bool(Context().prove(lhs.index.eq(rhs.index)))


def _text(f: ir.Function) -> str:
    return str(unique_names(f)).partition("\n")[2]


def assert_structural_equal(lhs: Any, rhs: Any, map_free_vars: bool = False) -> None:
    """Raise `ValueError` unless `structural_equal` holds."""
    if not structural_equal(lhs, rhs, map_free_vars):
        raise ValueError(f"structurally different:\n{lhs}\nand\n{rhs}")


@dataclass(frozen=True, eq=False)
class NodeType:
    """A class of TVM: `isinstance(x, T)` asks `holds`, `T(...)` calls `make`."""

    name: str
    holds: Callable[[Any], bool]
    make: Callable[..., Any]

    def __instancecheck__(self, x: object) -> bool:
        return self.holds(x)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.make(*args, **kwargs)
        except (TypeError, AttributeError, ValueError) as error:
            raise InputError(f"tir.{self.name} is not made of {shown(args)}: {error}") from error

    def __or__(self, other: Any) -> NodeType:
        """The union of two types, as annotations and `isinstance` take it."""
        if not isinstance(other, (NodeType, type)):
            return NotImplemented
        kind: Any = other  # with a test of instances of its own
        name = f"{self.name} | {getattr(other, '__name__', getattr(other, 'name', other))}"
        return NodeType(name, lambda x: self.holds(x) or isinstance(x, kind), _refused(name))

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<type {self.name}>"


def with_truths(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with conditions in the place of Python's truth values among its arguments."""

    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return function(*(truth(a) if isinstance(a, bool) else a for a in args), **named)

    return call


def _of_ops(*known: Any) -> Callable[[Any], bool]:
    return lambda x: isinstance(x, (Expr, Cond, Value)) and x.op in known


_NUMBERS: Final = {"Add": ops.ADD, "Sub": ops.SUB, "Mul": ops.MUL, "Min": ops.MIN, "Max": ops.MAX}
_REMAINDERS: Final = {"FloorDiv": ops.FLOORDIV, "FloorMod": ops.FLOORMOD, "Mod": ops.TRUNCMOD}
_COMPARED: Final = {op.name.upper(): op for op in ops.COMPARISONS}
_BINARY: Final = {**_NUMBERS, **_REMAINDERS, **_COMPARED}


def _is_cast(x: Any) -> bool:
    if isinstance(x, Expr) and x.op is ops.LOAD and isinstance(x.data, IntFunction):
        return _is_cast(x.data.body)
    return isinstance(x, (Expr, Cond, Value)) and x.op in (ops.CAST, CONVERT)


def _is_integer_constant(x: Any) -> bool:
    is_typed = isinstance(x, Expr) and x.op is ops.CAST and x.args[0].is_const
    return is_typed or (isinstance(x, (Expr, Cond)) and hasattr(x, "value"))


def _call(dtype: str, op: Any, args: Any = (), span: object = None) -> Any:
    name, given = str(op).removeprefix("tir."), [unviewed(arg) for arg in args]
    if name in ("call_extern", "call_pure_extern"):
        return viewed(build.call_extern(dtype, *given))
    is_packed = name in ("call_packed", "tvm_call_packed")
    return viewed(build.call_packed(*given) if is_packed else call_intrin(dtype, str(op), *given))


def _float(dtype: str, value: float, span: object = None) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"value of FloatImm must be a number, not {value!r}")
    if not dtypes.is_float(dtype):
        raise InputError(f"the type of FloatImm is a float, not {dtype!r}")
    return build.const(build.as_float(value), dtype)


def _converted(dtype: str, value: Any, span: object = None) -> Any:
    """The conversion as it was written, also of a constant integer to a float."""
    e = build.operand(value)
    return make(CONVERT, (e,), dtype) if isinstance(e, Expr) and dtypes.is_float(dtype) else build.cast(dtype, e)


def _selected(condition: Any, true_value: Any, false_value: Any, span: object = None) -> Any:
    if build.is_truth(true_value) and build.is_truth(false_value):  # as it was written
        return make(ops.SELECT, (build.truth_value(condition), true_value, false_value), "bool")
    return build.select(condition, true_value, false_value)


def _for(
    loop_var: Any, min: Any, extent: Any, kind: Any = 0, body: Any = None, thread: Any = None, annotations: Any = None
) -> ir.For:
    chosen = tuple(ir.LoopKind)[kind] if isinstance(kind, int) else ir.LoopKind(kind)
    tag = "" if thread is None else str(thread.thread_tag)
    if (chosen in (ir.LoopKind.THREAD, ir.LoopKind.VTHREAD)) != bool(tag):
        raise InputError(f"a loop on threads, and no other, has a te.thread_axis: {loop_var}")
    if tag.startswith(("vthread", "cthread")):
        chosen = ir.LoopKind.VTHREAD
    run = ranges.Range(*(as_value(as_expr(x)) for x in (min, extent)))
    return ir.For(loop_var, run, body, chosen, tag, annotations=tuple((annotations or {}).items()))


def _store(target: Any, value: Any, indices: Any, *_: object, **__: object) -> ir.Store:
    tensor = target if isinstance(target, Tensor) else buffer_tensor(target)
    places = indices if isinstance(indices, (list, tuple)) else (indices,)
    if len(places) != tensor.ndim:
        raise InputError(f"{tensor.name} has {tensor.ndim} dimensions, a store to it names {len(places)} indices")
    return ir.Store(tensor, tuple([plain_index(as_expr(place)) for place in places]), in_types(build.operand(value)))


def _refused(name: str) -> Callable[..., Any]:
    def make(*_: object, **__: object) -> Any:
        raise InputError(f"tir.{name} is not constructed here: lower a schedule, or write the nest with tir.ir_builder")

    return make


def declared(x: object) -> ir.Stmt | None:
    """The storage or the name that a statement declares, or a sequence at its start: TVM nests the rest in it."""
    first = x.stmts[0] if isinstance(x, ir.Seq) and x.stmts else x
    return first if isinstance(first, (ir.Allocate, ir.Let)) else None


_DESCRIBED: Final = {"AttrStmt": "node attr_key value body", "Prefetch": "buffer bounds", "Evaluate": "value"}
_OF_OTHER_NESTS: Final = (  # classes without a counterpart among statements and expressions
    *("AllocateConst", "Block", "BlockRealize", "CommReducer", "DeclBuffer", "Shuffle", "While"),
)


def _is_described(kind: str, x: object) -> bool:
    return isinstance(x, ir.Seq) and vars(x).get("kind") == kind


def _described(kind: str, *values: Any, span: object = None) -> ir.Stmt:
    """A statement of TVM: the sequence of its body, which alone has an effect, and TVM's fields."""
    fields = dict(zip(_DESCRIBED[kind].split(), values, strict=True))
    if kind == "Evaluate" and has_effect(values[0]):
        return as_statement(values[0])
    if fields.get("attr_key") in ("thread_extent", "virtual_thread"):
        raise InputError("threads are loops here: write them with ib.scope_attr of tir.ir_builder")
    value = {"value": build.operand(fields["value"])} if "value" in fields else {}
    stmt = ir.Seq(tuple(ir.flat(fields["body"])) if "body" in fields else ())
    stmt.__dict__.update(fields | value, kind=kind)
    return stmt


def _realized(target: Any, bounds: Any, condition: Any, body: ir.Stmt, *_: object, **__: object) -> ir.Stmt:
    if condition is not True and condition is not truth(True):
        raise InputError(f"storage is allocated under no condition, not {shown(condition)}")
    tensor = target if isinstance(target, Tensor) else buffer_tensor(target)
    return ir.Seq((ir.Allocate(tensor, tuple(bounds)), *ir.flat(body)))


def _ramp(base: Any, stride: Any, lanes: int, span: object = None) -> build.Vector:
    first, step = as_expr(base), as_expr(stride)
    return build.Vector(tuple(first + step * k if k else first for k in range(lanes)), build.dtype_of(first))


def _broadcast(value: Any, lanes: int, span: object = None) -> build.Vector:
    one = build.operand(value)
    return build.Vector((one,) * lanes, build.dtype_of(one))


def _sequence(*stmts: Any, **__: object) -> ir.Stmt:
    return ir.seq(*(part for s in stmts for part in (s if isinstance(s, (list, tuple)) else (s,))))


_ROWS: Final[dict[str, tuple[Callable[[Any], bool], Callable[..., Any]]]] = {
    **{name: (_of_ops(op), lambda a, b, span=None, op=op: build.binary(op, a, b)) for name, op in _BINARY.items()},
    "Div": (_of_ops(ops.TRUNCDIV, DIV), lambda a, b, span=None: div(a, b)),
    "And": (_of_ops(ops.AND), lambda a, b, span=None: build.logical(ops.AND, a, b)),
    "Or": (_of_ops(ops.OR), lambda a, b, span=None: build.logical(ops.OR, a, b)),
    "Not": (_of_ops(ops.NOT), lambda a, span=None: build.negation(a)),
    "Select": (_of_ops(ops.SELECT), with_truths(_selected)),
    "Cast": (_is_cast, _converted),
    "IntImm": (_is_integer_constant, lambda dtype, value, span=None: build.const(as_expr(value).value, dtype)),
    "FloatImm": (lambda x: isinstance(x, Value) and x.op is NUMBER and dtypes.is_float(x.dtype), _float),
    "StringImm": (lambda x: isinstance(x, str), lambda value, span=None: ScriptText(value)),
    "Call": (lambda x: is_call(viewed(x)), _call),
    "Reduce": (_of_ops(REDUCE), _refused("Reduce")),
    **dict.fromkeys(
        ("ProducerLoad", "BufferLoad", "Load"),
        (
            lambda x: isinstance(x, (Expr, Value)) and walk.loaded_tensor(x) is not None,
            lambda producer, indices, span=None: producer[tuple(indices)],
        ),
    ),
    "Var": (lambda x: isinstance(x, Var) or (isinstance(x, Value) and x.op is PARAM), variable),
    "SizeVar": (
        lambda x: isinstance(x, ShapeVar) and not isinstance(x, ScriptVar),
        lambda name, dtype="int32", span=None: size_var(name, dtype),
    ),
    "Let": (lambda x: isinstance(x, ScriptView) and x.kind == "Let", let),
    "PrimExpr": (lambda x: isinstance(x, (Expr, Cond, Value, ScriptView)), build.operand),
    "PrimFunc": (lambda x: isinstance(x, ir.Function), prim_func),
    "Stmt": (lambda x: isinstance(x, ir.Stmt), _refused("Stmt")),
    "For": (lambda x: isinstance(x, ir.For), _for),
    "IfThenElse": (
        lambda x: isinstance(x, ir.If),
        lambda condition, then_case, else_case=None, span=None: ir.If(in_types(condition), then_case, else_case),
    ),
    **dict.fromkeys(("BufferStore", "Store", "ProducerStore"), (lambda x: isinstance(x, ir.Store), _store)),
    "SeqStmt": (lambda x: isinstance(x, ir.Seq) and len(x) > 1 and declared(x) is None, _sequence),
    "Allocate": (lambda x: isinstance(declared(x), ir.Allocate), _refused("Allocate")),
    "LetStmt": (
        lambda x: isinstance(declared(x), ir.Let),
        lambda var, value, body, span=None: ir.Seq((ir.Let(var, as_value(build.operand(value))), *ir.flat(body))),
    ),
    "AssertStmt": (lambda x: isinstance(x, ir.Assert), _refused("AssertStmt")),
    **dict.fromkeys(("ProducerRealize", "BufferRealize"), (lambda x: isinstance(declared(x), ir.Allocate), _realized)),
    **{name: (lambda x: False, _refused(name)) for name in _OF_OTHER_NESTS},
    **{kind: (partial(_is_described, kind), partial(_described, kind)) for kind in _DESCRIBED},
    "Evaluate": (
        lambda x: isinstance(x, ir.Evaluate) or (ir.is_empty(x) and vars(x).get("kind", "Evaluate") == "Evaluate"),
        partial(_described, "Evaluate"),
    ),
    "Ramp": (lambda x: False, _ramp),
    "Broadcast": (lambda x: isinstance(x, build.Vector) and len({*x.lanes}) == 1, _broadcast),
    "Any": (lambda x: False, lambda span=None: var("any_dim")),
}
TYPES: Final = {name: NodeType(name, holds, make) for name, (holds, make) in _ROWS.items()}


def post_order_visit(stmt: Any, fvisit: Callable[[Any], object]) -> None:
    """Call `fvisit` on every part of a nest or an expression, parts before wholes."""
    arguments.a_function(fvisit, "fvisit")
    if isinstance(stmt, (Expr, Cond, Value)):
        for node in walk.nodes(stmt):
            if not is_inner(node):
                fvisit(viewed(node))
        return

    root = stmt.body if isinstance(stmt, ir.Function) else stmt
    begun = (part for part in statements(root) if isinstance(part, ir.Seq))
    leading = {first for first in map(declared, begun) if first is not None}  # visited with their sequences

    def visit(part: ir.Stmt, _: Sequence[None]) -> None:
        for value in operands(part):
            post_order_visit(value, fvisit)
        if isinstance(part, ir.Evaluate):
            fvisit(viewed(part.call))
        if part not in leading:
            fvisit(part)

    folded(root, visit)


OnNode: TypeAlias = "Callable[[Any], Any] | None"


def ir_transform(
    stmt: ir.Stmt, preorder: OnNode, postorder: OnNode, only_enable: Sequence[str] | None = None
) -> ir.Stmt:
    """Rewrite statements and calls from the leaves up: each function returns the new node, or `None` to keep it.

    Parameters
    ----------
    only_enable: names of classes such as "tir.For"; by default all.
    """
    for function in (preorder, postorder):
        if function is not None:
            arguments.a_function(function, "what rewrites a nest")
    wanted = None if only_enable is None else tuple(TYPES[name.rpartition(".")[2]] for name in only_enable)

    def change(part: Any) -> Any:
        if wanted is not None and not any(kind.holds(part) for kind in wanted):
            return part
        for function in (preorder, postorder):
            new = None if function is None else function(part)
            if new is not None:
                return new if function is preorder else unviewed(new)
        return part

    def of_value(value: Any) -> Any:
        new: dict[Any, Any] = {}
        for node in walk.nodes(value):
            view = node if is_inner(node) else viewed(walk.rewrite(node, new))
            if isinstance(view, ScriptView) and (answer := unviewed(change(view))) is not view.node:
                new[node] = build.operand(answer)
        return walk.rewrite(value, new)

    def of_statement(part: ir.Stmt) -> Any:
        inner = map_operands(part, of_value)
        if isinstance(inner, ir.Evaluate) and (answer := unviewed(change(viewed(inner.call)))) is not inner.call:
            return ir.Seq((_described("Evaluate", viewed(answer)),))  # a number stays, though it does nothing
        return change(inner)

    return rebuilt(stmt, of_statement)


def substitute(node: Any, vmap: Mapping[Any, Any]) -> Any:
    """Replace variables in a nest or an expression."""
    values = {unviewed(var): build.operand(value) for var, value in arguments.mapped(vmap, "vmap").items()}
    if isinstance(node, ir.Stmt):
        return substituted(node, values)
    return walk.substitute(build.operand(node), values)

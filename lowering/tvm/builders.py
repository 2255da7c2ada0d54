"""Nests in Python: `tvm.tir.ir_builder`, statement by statement; `tvm.te.hybrid`, Python functions read as nests.

ib = tir.ir_builder.create()
A = ib.buffer_ptr(ins[0])
with ib.for_range(0, n, "i") as i:
    with ib.if_scope(i < 8):
        A[i] = A[i] + 1.0
body = ib.get()

@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((100, 99), "float32")
    for i in range(100):
        for j in range(99):
            c[i, j] = a[i] * b[j]
    return c

A script is the subset of loops, stores, local names and conditions; a builder gets its statements.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType, SimpleNamespace
from typing import Any, Final, NoReturn
from weakref import finalize

from bound.declare import extern
from bound.itervar import IterVar, as_domain, plain_index, thread_axis
from bound.schedule import Schedule
from bound.schedule.attach import check_thread_tag
from bound.tensor import ComputeOp, PlaceholderOp, ScriptText, Tensor, buffer_tensor, element, unflattened
from bound.tir import build as terms
from bound.tir import div, walk
from bound.tir.build import FUNCTIONS, Buffer, absolute, decl_buffer, popcount, power
from bound.tir.machine import as_value, in_types
from bound.tir.value import Operand, ScriptVar, Value, parameter
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, arguments, as_expr, const, dag, ops
from intset.expr.build import ceildiv
from intset.expr.node import truth
from lowering.interpreter import run
from lowering.lower import lower
from lowering.nest import ir
from lowering.nest.names import with_tensors
from lowering.nest.scope import element_accesses
from lowering.nest.walk import free_variables, rebuilt, statements, substitute, touched, written_by
from lowering.passes.stores.reaching_values import with_bounds_checks
from lowering.tvm.ir import BARRIER, AtomicAdd, ModuleFunction, as_prim_func, as_statement, load_json, save_json
from lowering.tvm.runtime import PACKED, NDArray, on_arrays
from lowering.tvm.target import Target

_KINDS: Final = {
    **{name: ir.LoopKind[name.upper()] for name in ("serial", "parallel", "vectorized", "unrolled")},
    "vectorize": ir.LoopKind.VECTORIZED,
    "unroll": ir.LoopKind.UNROLLED,
}


class BufferVar:
    """A buffer of a builder: `A[i]` reads, `A[i] = e` emits a store; a single index counts elements row-major."""

    def __init__(self, builder: IRBuilder, tensor: Tensor, shape: Any = None) -> None:
        self.builder = builder
        self.tensor = self.as_tensor = tensor
        self.dtype = tensor.dtype
        self.shape = tensor.extents if shape is None else terms.decl_buffer(shape, tensor.dtype, tensor.name).shape

    def _place(self, indices: Any) -> tuple[Expr, ...]:
        given = tuple(plain_index(as_expr(e)) for e in (indices if isinstance(indices, (tuple, list)) else (indices,)))
        extents = self.tensor.extents
        if len(given) == len(self.shape) and self.shape == extents:
            return given
        if len(given) not in (1, len(self.shape)):
            raise InputError(f"{self.tensor.name} has {len(self.shape)} dimensions, not {len(given)}")
        rest = given[0]
        for index, extent in zip(given[1:], self.shape[1:], strict=False):
            rest = rest * extent + index
        return unflattened(rest, extents)

    def __getitem__(self, indices: Any) -> Operand | terms.Vector:
        if isinstance(indices, terms.Vector):
            return terms.Vector(tuple(element(self.tensor, self._place(k)) for k in indices.lanes), self.dtype)
        return element(self.tensor, self._place(indices))

    def __setitem__(self, indices: Any, value: Any) -> None:
        if isinstance(indices, terms.Vector):
            lanes = value.lanes if isinstance(value, terms.Vector) else (value,) * len(indices.lanes)
            for index, lane in zip(indices.lanes, lanes, strict=True):
                self[index] = lane
            return
        if isinstance(value, AtomicAdd):
            value = self.builder.added(value)
        value = truth(value) if isinstance(value, bool) else value
        self.builder.emit(ir.Store(self.tensor, self._place(indices), in_types(terms.operand(value))))

    def asobject(self) -> BufferVar:
        return self


def _condition(x: object) -> Any:
    """A condition with the arithmetic of its types."""
    return in_types(terms.truth_value(truth(x) if isinstance(x, bool) else x))


class IRBuilder:
    """Builds a nest; see the module."""

    def __init__(self) -> None:
        self._open: list[list[ir.Stmt]] = [[]]
        self._atomics = 0
        self._shared: list[Tensor] = []
        # Block, first statement inside, axis, extent.
        self._threads: list[tuple[list[ir.Stmt], int, IterVar, Expr]] = []

    def added(self, call: AtomicAdd) -> Any:
        """Append the addition, and return what the element was before."""
        self._atomics += 1
        target = BufferVar(self, buffer_tensor(call.address.buffer))
        place = target._place(call.address.offset)
        before = self.let("before", target[place])
        target[place] = before + call.value
        return before

    def emit(self, stmt: Any) -> None:
        """Append a statement, stores of a vector, or a call of a Python function; the value of a call is dropped."""
        if isinstance(stmt, AtomicAdd):
            self.added(stmt)
        else:
            self._open[-1].append(as_statement(stmt))

    @contextmanager
    def _block(self) -> Iterator[list[ir.Stmt]]:
        block: list[ir.Stmt] = []
        self._open.append(block)
        try:
            yield block
            self._close_threads(block)
        finally:
            self._open.pop()

    def _close_threads(self, block: list[ir.Stmt]) -> None:
        """Put what follows a thread's `scope_attr` in the block into the thread's loop."""
        while self._threads and self._threads[-1][0] is block:
            _, start, axis, extent = self._threads.pop()
            if axis.thread_tag.startswith("threadIdx") and self._is_exchanged(block[start:], axis):
                block.insert(start, ir.Evaluate(terms.ExternCall("packed", BARRIER, ())))
            kind = ir.LoopKind.VTHREAD if axis.thread_tag.startswith(("vthread", "cthread")) else ir.LoopKind.THREAD
            block[start:] = [ir.For(axis, Range(0, extent), ir.seq(*block[start:]), kind, axis.thread_tag)]

    def _is_exchanged(self, block: list[ir.Stmt], axis: IterVar) -> bool:
        """Whether a thread may read what another one stored in memory that they share, as far as indices tell."""
        accesses = [access for part in statements(ir.seq(*block)) for access in element_accesses(part)]
        stored = {access.tensor for access in accesses if access.is_store}
        shared = [{access.indices for access in accesses if access.tensor is t} for t in self._shared if t in stored]
        return any(len(found) > 1 or axis not in dag.free_vars(*found.pop()) for found in shared)

    @contextmanager
    def for_range(
        self, begin: Any, end: Any, name: str = "i", dtype: str | None = None, kind: str = "serial", for_type: str = ""
    ) -> Iterator[Var]:
        """A loop over `[begin, end)`."""
        if (for_type or kind) not in _KINDS:
            raise InputError(f"kind of a loop is one of {', '.join(_KINDS)}, not {for_type or kind!r}")
        var, domain = Var(name), as_domain((begin, end), f"the range of the loop {name}")
        run = Range(*(as_value(as_expr(e)) for e in (domain.min, domain.extent)))
        atomics = self._atomics
        with self._block() as block:
            yield var
        chosen = ir.LoopKind.SERIAL if self._atomics > atomics else _KINDS[for_type or kind]  # one after another
        self.emit(ir.For(var, run, block[0] if len(block) == 1 else ir.seq(*block), chosen))

    @contextmanager
    def if_scope(self, cond: Any) -> Iterator[None]:
        """A branch."""
        with self._block() as block:
            yield
        self.emit(ir.If(_condition(cond), ir.seq(*block)))

    @contextmanager
    def else_scope(self) -> Iterator[None]:
        """The other branch of the `if_scope` before."""
        last = self._open[-1][-1] if self._open[-1] else None
        if not isinstance(last, ir.If) or last.orelse is not None:
            raise InputError("else_scope follows an if_scope")
        with self._block() as block:
            yield
        self._open[-1][-1] = ir.If(last.cond, last.then, ir.seq(*block))

    def let(self, var_name: str, value: Any) -> Any:
        """A name for a value."""
        e = terms.operand(value)
        dtype = terms.dtype_of(e)
        var: Any = ScriptVar.of(var_name, dtype, is_size=False) if isinstance(e, Expr) else parameter(var_name, dtype)
        self.emit(ir.Let(var, as_value(e)))
        return var

    def allocate(self, dtype: str, shape: Any, name: str = "buf", scope: str = "", **more: object) -> BufferVar:
        """Storage of the block it stands in."""
        tensor = buffer_tensor(terms.decl_buffer(shape, dtype, name))
        if scope.startswith(("shared", "warp")):
            self._shared.append(tensor)
        self.emit(ir.Allocate(tensor, tuple(Range(0, extent) for extent in tensor.extents), scope or ""))
        return BufferVar(self, tensor)

    def buffer_ptr(self, buffer: terms.Buffer, shape: Any = None) -> BufferVar:
        """Access to a buffer, by the indices of a shape, row-major."""
        if not isinstance(buffer, terms.Buffer):
            raise InputError(f"buffer_ptr takes a buffer, as te.extern passes them, not {buffer!r}")
        return BufferVar(self, buffer_tensor(buffer), shape)

    def likely(self, expr: Any) -> Any:
        """The condition itself; the hint is for code generation."""
        return expr

    @contextmanager
    def new_scope(self) -> Iterator[None]:
        """A separate block, whose end closes the threads of its `scope_attr` end."""
        with self._block() as block:
            yield
        self.emit(ir.seq(*block))

    @contextmanager
    def while_loop(self, condition: Any) -> Iterator[None]:
        """Repeat a block while a condition holds. It runs in Python: the nest calls a `While`."""
        with self._block() as block:
            yield
        loop = While(_condition(condition), ir.seq(*block))
        name = LoopName("while.{:x}.{}".format(*dag.ORIGIN.next_uid()))  # of this process alone
        PACKED[str(name)] = loop
        finalize(name, PACKED.pop, str(name), None)
        call = terms.ExternCall("packed", name, (*loop.tensors, *loop.variables))
        self.emit(ir.Evaluate(call, loop.tensors, loop.writes))

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """Access to a buffer of unknown size."""
        return BufferVar(self, buffer_tensor(terms.decl_buffer((Var(f"{name}.size"),), content_type, name)))

    def scope_attr(self, node: Any, attr_key: str, value: Any) -> None:
        """The rest of the block runs on the threads of an axis; hints without a meaning here are dropped.

        Raises
        ------
        InputError: threads of something else than a thread axis.
        """
        if attr_key in ("thread_extent", "virtual_thread"):
            if not isinstance(node, IterVar) or not node.thread_tag:
                raise InputError(f"scope_attr {attr_key} takes a te.thread_axis, not {node!r}")
            check_thread_tag(node.thread_tag)
            self._threads.append((self._open[-1], len(self._open[-1]), node, as_expr(value)))

    def get(self) -> ir.Stmt:
        """The nest.

        Raises
        ------
        InputError: a block is still open.
        """
        if len(self._open) != 1:
            raise InputError("a block of the builder is still open")
        self._close_threads(self._open[0])
        return ir.seq(*self._open[0])


create = IRBuilder


# -- loops of the host ---------------------------------------------------------------------------------------


class While:
    """Runs `body` as often as `cond` holds before it: a loop without a known number of iterations.

    Guarantee: an access of a round that leaves its tensor is refused or asserted.

    Attributes
    ----------
    function: one round; it stores in `flag` whether there was one.
    """

    def __init__(self, cond: Cond | Value, body: ir.Stmt) -> None:
        self.flag = PlaceholderOp("repeats", (const(1),), "int32").output(0)
        own = {s.tensor for s in statements(body) if isinstance(s, ir.Allocate)}
        round_ = ir.If(cond, ir.seq(ir.Store(self.flag, (const(0),), const(1)), body))
        self.tensors = tuple(t for t in touched(round_) if t not in own and t is not self.flag)
        free = free_variables(round_)
        sizes = tuple(v for v in free if isinstance(v, Var))
        scalars = tuple(v for v in free if not isinstance(v, Var))
        self.variables = (*sizes, *scalars)
        written = {t for s in statements(body) for t in written_by(s)}
        self.writes = tuple(t for t in self.tensors if t in written)
        outputs = (*self.writes, self.flag)
        whole = ir.Function("round", (*self.tensors, self.flag), outputs, sizes, scalars, round_)
        self.function = with_bounds_checks(whole)

    def __call__(self, *args: Any) -> None:
        import numpy as np

        given = {k: a.data if isinstance(a, NDArray) else a for k, a in zip(self.tensors, args, strict=False)}
        numbers: dict[Any, Any] = dict(zip(self.variables, args[len(self.tensors) :], strict=True))
        functions, flag = on_arrays(), np.ones(1, "int32")
        while flag[0]:
            flag[0] = 0
            run(self.function, {**given, self.flag: flag}, numbers, functions)


class LoopName(str):
    """The name of a loop; the loop is forgotten with the last nest that calls it. It is not saved with a nest."""

    def __reduce__(self) -> NoReturn:
        raise InputError("a nest with a while loop is not saved: build it again where it runs")


_NUMBERS: Final = {"Add": "add", "Sub": "sub", "Mult": "mul", "FloorDiv": "floordiv", "Mod": "mod"}
_COMPARED: Final = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge"}
_OF_BITS: Final = {"BitAnd": "and_", "BitOr": "or_", "BitXor": "xor", "LShift": "lshift", "RShift": "rshift"}
_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    **{getattr(ast, kind): getattr(operator, f) for kind, f in (_NUMBERS | _COMPARED | _OF_BITS).items()},
    ast.Div: div,
    ast.Eq: lambda a, b: terms.binary(ops.EQ, a, b),
    ast.NotEq: lambda a, b: terms.binary(ops.NE, a, b),
}
_LOOPS: Final = {
    **{name: name for name in ("serial", "parallel", "vectorize", "unroll", "bind")},
    "range": "serial",
    "const_range": "unroll",
}
_TYPES: Final = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split()


def _max_num_threads(*_: object) -> int:
    target = Target.current()
    return 1 if target is None or target.runs_here else int(target.max_num_threads)


_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    **FUNCTIONS,
    "abs": absolute,
    "ceil_div": ceildiv,
    "len": lambda array: array.tensor.extents[0] if isinstance(array, BufferVar) else len(array),
    "likely": lambda c: c,
    "max": lambda *v: terms.fold(ops.MAX, "max", v),
    "max_num_threads": _max_num_threads,
    "min": lambda *v: terms.fold(ops.MIN, "min", v),
    "popcount": popcount,
    "power": power,
    **{dtype: partial(terms.cast, dtype) for dtype in _TYPES},
}


def _array(shape: Any, dtype: str = "float32", scope: str = "") -> Any:
    import numpy as np

    return np.zeros(tuple(map(int, shape)), dtype)


def _typed(dtype: str, x: Any) -> Any:
    import numpy as np

    return np.dtype(dtype).type(x)


HYBRID_GLOBALS: Final[dict[str, Any]] = {
    **{name: getattr(math, name) for name in ("ceil", "exp", "floor", "log", "sqrt", "tanh")},
    **{dtype: partial(_typed, dtype) for dtype in _TYPES},
    **dict.fromkeys(("const_range", "parallel", "serial", "unroll", "vectorize"), range),
    "allocate": _array,
    "bind": lambda tag, extent: range(extent),
    "ceil_div": lambda a, b: -(-a // b),
    "likely": lambda cond: cond,
    "max_num_threads": lambda allow_none=True: 1,
    "output_tensor": _array,
    "popcount": lambda x: int(x).bit_count(),
    "power": math.pow,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}


def emulated(func: Any) -> Callable[..., Any]:
    """The function with these names beside its own."""
    names = {**func.__globals__, **HYBRID_GLOBALS}
    return FunctionType(func.__code__, names, func.__name__, func.__defaults__, func.__closure__)


runtime = SimpleNamespace(HYBRID_GLOBALS=HYBRID_GLOBALS, emulated=emulated)


def _joined(is_and: bool, parts: list[Any]) -> Any:
    """Conditions joined by `and` or `or`; those that Python decides are folded."""
    rest = [part for part in parts if part is not is_and]
    if any(isinstance(part, bool) for part in rest):
        return not is_and
    return (terms.all_of if is_and else terms.any_of)(*rest) if rest else is_and


def _element(array: Any, index: tuple[Any, ...]) -> Any:
    """The element at an index, of lists in lists too."""
    if isinstance(array, (list, tuple)) and index:
        return _element(array[int(index[0])], index[1:])
    return array[index] if index else array


class HybridReader:
    """Reads the body of a function into a builder; each method reads one kind of syntax.

    Attributes
    ----------
    names: what names mean: parameters, loops, local values; then globals of the function.
    constants: the names that are assigned once; an integer outside of tensors binds the name to the value itself.
    outputs: the tensors of `output_tensor`, in the order of `return`.
    inner: names of blocks that ended.
    """

    def __init__(
        self, tree: ast.FunctionDef, names: dict[str, Any], outer: Mapping[str, Any], ib: IRBuilder | None = None
    ) -> None:
        self.name, self.names, self.outer = tree.name, names, outer
        assigned = [t for node in ast.walk(tree) if isinstance(node, ast.Assign) for t in node.targets]
        assigned += [node.target for node in ast.walk(tree) if isinstance(node, ast.AugAssign)]
        times = Counter(target.id for target in assigned if isinstance(target, ast.Name))
        self.constants = {name for name, number in times.items() if number == 1}
        self.ib = IRBuilder() if ib is None else ib
        self.is_inlined = ib is not None
        self.buffers: dict[BufferVar, Buffer] = {}
        self.outputs: list[BufferVar] = []
        self.inner: set[str] = set()

    def refuse(self, node: ast.AST) -> InputError:
        line = ast.unparse(node).partition("\n")[0]
        return InputError(f"hybrid script {self.name}: {line} is outside the subset of loops, stores and conditions")

    def body(self, stmts: list[ast.stmt]) -> None:
        for stmt in stmts:
            method = getattr(self, f"_{type(stmt).__name__.lower()}", None)
            if method is None:
                raise self.refuse(stmt)
            method(stmt)

    def _pass(self, stmt: ast.Pass) -> None:
        """Read nothing."""

    def _expr(self, stmt: ast.Expr) -> None:
        if not isinstance(stmt.value, ast.Constant):
            raise self.refuse(stmt)

    def _for(self, stmt: ast.For) -> None:
        match stmt:
            case ast.For(ast.Name(name), ast.Call(ast.Name(called), args), orelse=[]) if called in _LOOPS:
                kind, ends = _LOOPS[called], [self.value(arg) for arg in args]
            case _:
                raise self.refuse(stmt)
        if kind == "bind":
            tag, extent = ends
            axis = thread_axis((0, extent), tag)
            with self.ib.new_scope():
                self.ib.scope_attr(axis, "thread_extent", extent)
                self._scoped(stmt.body, {name: axis})
            return
        if called == "const_range":
            for k in range(*(int(end) for end in ends)):
                self._scoped(stmt.body, {name: k})
            return
        first, step = (ends[0] if len(ends) > 1 else 0), (int(ends[2]) if len(ends) == 3 else 1)
        if not 1 <= len(ends) <= 3 or step < 1:
            raise self.refuse(stmt)
        names = [node for part in stmt.body for node in ast.walk(part) if isinstance(node, ast.Name)]
        stored = (self.names.get(node.id) for node in names if isinstance(node.ctx, ast.Store))
        if any(isinstance(variable, BufferVar) for variable in stored):
            kind = "serial"  # iterations share a variable
        begin, end = (first, ends[:2][-1]) if step == 1 else (0, ceildiv(ends[1] - first, step))
        with self.ib.for_range(begin, end, name, kind=kind) as i:
            self._scoped(stmt.body, {name: i if step == 1 else first + i * step})

    def _scoped(self, stmts: list[ast.stmt], more: Mapping[str, Any]) -> None:
        before = dict(self.names)
        self.names.update(more)
        self.body(stmts)
        self.inner |= self.names.keys() - before.keys()
        self.names = before

    def _if(self, stmt: ast.If) -> None:
        cond = self.value(stmt.test)
        if isinstance(cond, bool):
            self.body(stmt.body if cond else stmt.orelse)
            return
        with self.ib.if_scope(cond):
            self._scoped(stmt.body, {})
        if stmt.orelse:
            with self.ib.else_scope():
                self._scoped(stmt.orelse, {})

    def _assign(self, stmt: ast.Assign) -> None:
        match stmt.targets:
            case [ast.Subscript() as target]:
                array, index = self._access(target)
                array[index] = self.value(stmt.value)
            case [ast.Name(id=name)]:
                self._name(name, stmt.value)
            case [ast.Tuple(elts=parts)] if isinstance(stmt.value, ast.Call):
                found, names = self._called(stmt.value), [part.id for part in parts if isinstance(part, ast.Name)]
                if not found or not len(found) == len(names) == len(parts):
                    raise self.refuse(stmt)
                self.names.update(zip(names, found, strict=True))
            case _:
                raise self.refuse(stmt)

    def _called(self, call: ast.Call) -> list[BufferVar]:
        """The storages of another script's outputs; none for other calls."""
        callee = self.outer.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if not isinstance(callee, HybridScript):
            return []
        return callee.inlined(self.ib, [self.value(arg) for arg in call.args])

    def _access(self, node: ast.Subscript) -> tuple[Any, tuple[Any, ...]]:
        """An array and the index of an element, also as `a[i][j]`."""
        index: tuple[Any, ...] = ()
        base: ast.expr = node
        while isinstance(base, ast.Subscript):
            part = self.value(base.slice)
            index = (*(part if isinstance(part, tuple) else (part,)), *index)
            base = base.value
        array = self.value(base)
        if isinstance(array, BufferVar) and array.tensor.ndim != len(index):
            raise InputError(
                f"hybrid script {self.name}: {ast.unparse(node)} has {len(index)} indices, "
                f"{array.tensor.name} has {array.tensor.ndim} dimensions"
            )
        return array, index

    def _overwrite(self, name: str, storage: BufferVar, value: Any) -> None:
        """Store a value in a name, which keeps the type of its first value."""
        if terms.dtype_of(terms.operand(value)).startswith("float") and not storage.dtype.startswith("float"):
            what = f"hybrid script {self.name}: {name} begins as {storage.dtype}"
            raise InputError(f"{what}, which holds no float: write {name} = 0.0")
        storage[()] = value

    def _name(self, name: str, value: ast.expr) -> None:
        """Declare a tensor, or a scalar in a storage of one element, which later assignments overwrite."""
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        known = self.names.get(name)
        made = self._called(value) if isinstance(value, ast.Call) else []
        if len(made) == 1:
            self.names[name] = made[0]
        elif made:
            raise InputError(f"hybrid script {self.name}: {called} returns {len(made)} tensors, not one")
        elif called in ("output_tensor", "allocate") and isinstance(value, ast.Call):
            given = [self.value(arg) for arg in value.args]
            args = dict(zip(("shape", "dtype", "scope"), given, strict=False))
            args |= {str(word.arg): self.value(word.value) for word in value.keywords}
            shape, dtype = args["shape"], args.get("dtype", "float32")
            if called == "allocate" or self.is_inlined:
                self.names[name] = self.ib.allocate(dtype, shape, name, str(args.get("scope", "")))
                return
            buffer = decl_buffer(shape, dtype, name)
            output = self.names[name] = self.ib.buffer_ptr(buffer)
            self.buffers[output] = buffer
        elif isinstance(known, BufferVar) and known.tensor.ndim == 0:
            self._overwrite(name, known, self.value(value))
        else:
            plain = self.value(value)
            is_fixed = isinstance(plain, int) or (isinstance(plain, Expr) and not walk.input_tensors((plain,)))
            if isinstance(plain, (list, tuple)) or (is_fixed and name in self.constants):
                self.names[name] = plain
                return
            e = terms.operand(plain, f"the value of {name}")
            storage = self.names[name] = self.ib.allocate(terms.dtype_of(e), (), name)
            storage[()] = e

    def _augassign(self, stmt: ast.AugAssign) -> None:
        target = stmt.target
        is_new = isinstance(target, ast.Name) and not isinstance(self.names.get(target.id), BufferVar)
        if type(stmt.op) not in _BINARY or is_new:
            raise self.refuse(stmt)
        self._assign(ast.Assign([target], ast.BinOp(target, stmt.op, stmt.value)))

    def _assert(self, stmt: ast.Assert) -> None:
        cond = self.value(stmt.test)
        message = self.value(stmt.msg) if stmt.msg is not None else ast.unparse(stmt.test)
        if isinstance(cond, Cond):
            self.ib.emit(ir.Assert(cond, ScriptText(message)))
        elif cond is not True:
            raise self.refuse(stmt)

    def _return(self, stmt: ast.Return) -> None:
        parts = stmt.value.elts if isinstance(stmt.value, ast.Tuple) else [stmt.value]
        found: list[Any] = [self.names.get(getattr(part, "id", "")) for part in parts]
        if not all(isinstance(v, BufferVar) and (self.is_inlined or v in self.buffers) for v in found):
            raise self.refuse(stmt)
        self.outputs = found

    def value(self, node: ast.expr) -> Any:
        """The meaning of an expression."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                if name in self.names:
                    found = self.names[name]
                    return found[()] if isinstance(found, BufferVar) and found.tensor.ndim == 0 else found
                if name in self.outer:
                    return self.outer[name]
                where = "outside of its block: assign it before the block" if name in self.inner else "here"
                raise InputError(f"hybrid script {self.name}: the name {name} is not known {where}")
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Subscript():
                return _element(*self._access(node))
            case ast.Attribute(value=array, attr="shape"):
                base = self.value(array)
                return base.tensor.extents if isinstance(base, BufferVar) else base.shape
            case ast.Attribute(value=array, attr="dtype"):
                return self.value(array).dtype
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=parts):
                return _joined(isinstance(op, ast.And), [self.value(part) for part in parts])
            case ast.Compare(left=left, ops=kinds, comparators=others) if all(type(k) in _BINARY for k in kinds):
                values = [self.value(left), *map(self.value, others)]
                conds = [_BINARY[type(k)](a, b) for k, a, b in zip(kinds, values, values[1:], strict=False)]
                return conds[0] if len(conds) == 1 else terms.all_of(*conds)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.value(inner)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                cond = self.value(inner)
                return not cond if isinstance(cond, bool) else terms.negation(cond)
            case ast.IfExp(test=test, body=yes, orelse=no):
                cond = self.value(test)
                if isinstance(cond, bool):
                    return self.value(yes if cond else no)
                return terms.select(cond, self.value(yes), self.value(no))
            case ast.Call(func=ast.Attribute(value=inner, attr="astype"), args=[dtype]):
                return terms.cast(self.value(dtype), self.value(inner))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in _CALLS:
                return _CALLS[name](*map(self.value, args))
        raise self.refuse(node)


class HybridScript:
    """A Python function read as an operation.

    A call with tensors and numbers gives the tensors of its `return`; one with numpy arrays runs the function itself.

    Attributes
    ----------
    func: the function.
    tree: its syntax.
    outer: what its free names mean.
    """

    def __init__(self, func: Callable[..., Any]) -> None:
        arguments.of_kind(FunctionType, func, "a hybrid script", "a function")
        tree = ast.parse(textwrap.dedent(inspect.getsource(func))).body[0]
        assert isinstance(tree, ast.FunctionDef)
        self.func, self.tree = func, tree
        self.outer = {**func.__globals__, **inspect.getclosurevars(func).nonlocals}
        self.__globals__ = func.__globals__
        self.__name__ = self.__qualname__ = func.__name__
        self.__doc__ = func.__doc__

    def _named(self, *args: Any, **more: Any) -> dict[str, Any]:
        try:
            return dict(inspect.signature(self.func).bind(*args, **more).arguments)
        except TypeError as error:
            raise InputError(f"hybrid script {self.tree.name}: {error}") from error

    def inlined(self, ib: IRBuilder, args: Sequence[Any]) -> list[BufferVar]:
        """Write the body into another nest; the answer are the storages of its outputs."""
        return self._read(HybridReader(self.tree, self._named(*args), self.outer, ib))

    def _read(self, reader: HybridReader) -> list[BufferVar]:
        """Read the body; the answer are the storages of its outputs."""
        reader.body(self.tree.body)
        if not reader.outputs:
            raise InputError(f"hybrid script {self.tree.name} returns no tensor of output_tensor")
        return reader.outputs

    def __call__(self, *args: Any, **more: Any) -> Any:
        if any(type(arg).__name__ == "ndarray" for arg in args):
            return emulated(self.func)(*args, **more)
        given: dict[Tensor, Buffer] = {}
        reader = HybridReader(self.tree, {}, self.outer)

        def known(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return [known(part) for part in arg]
            if not isinstance(arg, Tensor):
                return arg
            if arg not in given:
                given[arg] = decl_buffer(arg.extents, arg.dtype, arg.name)
            return reader.ib.buffer_ptr(given[arg])

        reader.names = {name: known(arg) for name, arg in self._named(*args, **more).items()}
        outs = [reader.buffers[v] for v in self._read(reader)]
        body = reader.ib.get()
        computed = _computed(self.tree.name, body, outs, given)
        if computed is not None:
            return computed
        return _operation(self.tree.name, body, list(given), list(given.values()), outs)


def _operation(name: str, body: ir.Stmt, tensors: list[Tensor], ins: list[Buffer], outs: list[Buffer]) -> Any:
    """The tensors of a nest on buffers that stand for `tensors`, and on new ones."""
    shapes, types = [buffer.shape for buffer in outs], [buffer.dtype for buffer in outs]
    made = extern(shapes, tensors, lambda *_: body, name, types, in_buffers=ins, out_buffers=outs)
    return list(made) if isinstance(made, tuple) else made


def _computed(name: str, body: ir.Stmt, outs: Sequence[Buffer], given: Mapping[Tensor, Buffer]) -> Tensor | None:
    """The tensor of a nest that stores each element of its only output once, in loops over its dimensions.

    It is an operation like `te.compute`, so its loops can be scheduled.
    """
    loops: list[ir.For] = []
    while isinstance(body, ir.For) and body.kind is ir.LoopKind.SERIAL:
        loops.append(body)
        body = body.body
    if len(outs) != 1 or not loops or not isinstance(body, ir.Store) or body.tensor is not buffer_tensor(outs[0]):
        return None
    whole = [(loop.range.min, loop.range.extent) for loop in loops] == [(const(0), e) for e in outs[0].shape]
    in_order = [loop.var for loop in loops] == list(body.indices)
    if not whole or not in_order or body.tensor in walk.input_tensors((body.value,)):
        return None
    axes = [IterVar(loop.range, loop.var.name) for loop in loops]
    tensors = {buffer_tensor(buffer): tensor for tensor, buffer in given.items()}
    value = walk.substitute(body.value, {loop.var: axis for loop, axis in zip(loops, axes, strict=True)})
    read = walk.rewrite(value, on_load=lambda t, i: element(tensors[t], i) if t in tensors else None)
    stored = read if terms.dtype_of(read) == outs[0].dtype else terms.cast(outs[0].dtype, read)
    return ComputeOp(name, tuple(axes), (stored,)).output(0)


script = HybridScript


class HybridModule:
    """The nest of a schedule as a function of tensors, arrays and numbers, which is saved to and loaded from a file.

    Attributes
    ----------
    name: the name of the nest.
    """

    def __init__(self, function: ModuleFunction | None = None, order: Sequence[Any] = ()) -> None:
        self.function, self.order = function, tuple(order)

    @property
    def name(self) -> str:
        return self._loaded.name

    @property
    def _loaded(self) -> ModuleFunction:
        if self.function is None:
            raise InputError("the module is empty: load(path) reads what save(path) wrote")
        return self.function

    def save(self, path: str) -> None:
        """Write the nest to a file."""
        Path(path).write_text(save_json((self._loaded, self.order)), encoding="utf-8")

    def load(self, path: str) -> None:
        """Read what `save` wrote."""
        self.function, self.order = load_json(Path(path).read_text(encoding="utf-8"))

    def get_source(self) -> str:
        """The text of the nest."""
        return str(self._loaded)

    def __call__(self, *args: Any) -> Any:
        """The outputs: tensors for tensors, numpy arrays for numpy arrays."""
        f = self._loaded
        if len(args) != len(self.order):
            raise InputError(f"{f.name} takes {len(self.order)} arguments, not {len(args)}")
        given = dict(zip(self.order, args, strict=True))
        if not any(isinstance(arg, Tensor) for arg in args):
            arrays = {p: a for p, a in given.items() if isinstance(p, Tensor)}
            numbers = {p: a for p, a in given.items() if not isinstance(p, Tensor)}
            answer = run(with_bounds_checks(f), arrays, numbers, PACKED, checked=False)
            outputs = [answer[t.name] for t in f.outputs if t not in arrays]
            return outputs[0] if len(outputs) == 1 else outputs
        inputs = {f.labels.get(p, p): a for p, a in given.items() if isinstance(p, Tensor)}
        scalars = {p: terms.operand(a) for p, a in given.items() if not isinstance(p, Tensor)}
        extents = {p: tuple(walk.substitute(e, scalars) for e in p.extents) for p in (*inputs, *f.outputs)}
        buffers = {p: decl_buffer(shape, p.dtype, p.name) for p, shape in extents.items()}
        body = ir.seq(*(part for part in ir.flat(f.body) if not isinstance(part, ir.Assert)))
        stand_ins = {p: buffer_tensor(b) for p, b in buffers.items()}
        nest = substitute(rebuilt(body, lambda stmt: with_tensors(stmt, stand_ins)), scalars)
        ins, outs = ([buffers[p] for p in tensors] for tensors in (inputs, f.outputs))
        return _operation(f.name, nest, list(inputs.values()), ins, outs)


def build(sch: Schedule, inputs: Sequence[Any], outputs: Sequence[Tensor], name: str = "hybrid_func") -> HybridModule:
    """The nest of a schedule as a function of its inputs that returns its outputs."""
    args = [*arguments.listed(inputs, "inputs"), *arguments.listed(outputs, "outputs")]
    return HybridModule(as_prim_func(lower(sch, args, name=name)), inputs)

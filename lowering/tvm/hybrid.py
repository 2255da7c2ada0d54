"""`tvm.te.hybrid`: nests read from Python functions, the subset of loops, stores, local names and conditions.

@te.hybrid.script
def outer_product(a, b):
    c = output_tensor((100, 99), "float32")
    for i in range(100):
        for j in range(99):
            c[i, j] = a[i] * b[j]
    return c
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Final

from bound.declare import extern
from bound.tensor import Tensor
from bound.tir import build
from bound.tir.calls import FUNCTIONS, Buffer, absolute, decl_buffer, popcount, power
from bound.tir.value import DIV
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Expr
from lowering.nest.ir import Stmt
from lowering.tvm.ir_builder import BufferVar, IRBuilder

_BINARY: Final[Mapping[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda a, b: build.binary(ops.TRUNCDIV if _are_integers(a, b) else DIV, a, b),
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: lambda a, b: build.binary(ops.EQ, a, b),
    ast.NotEq: lambda a, b: build.binary(ops.NE, a, b),
    ast.And: lambda a, b: build.all_of(a, b),
    ast.Or: lambda a, b: build.any_of(a, b),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
}
_LOOPS: Final = {
    "range": "serial",
    "serial": "serial",
    "parallel": "parallel",
    "vectorize": "vectorize",
    "unroll": "unroll",
    "const_range": "unroll",
}
_CALLS: Final[Mapping[str, Callable[..., Any]]] = {
    **FUNCTIONS,
    "abs": absolute,
    "likely": lambda c: c,
    "max": lambda *v: build.fold(ops.MAX, "max", v),
    "min": lambda *v: build.fold(ops.MIN, "min", v),
    "popcount": popcount,
    "power": power,
    **{name: (lambda x, name=name: build.cast(name, x)) for name in ("float16", "float32", "float64")},
    **{f"{u}int{b}": (lambda x, name=f"{u}int{b}": build.cast(name, x)) for u in ("", "u") for b in (8, 16, 32, 64)},
}


def _are_integers(*values: object) -> bool:
    return all(build.is_integer(v) for v in values)


class HybridReader:
    """Reads the body of a function into a builder; each method reads one kind of syntax.

    Attributes
    ----------
    names: what names mean: parameters, loops, local values; then globals of the function.
    outputs: the tensors of `output_tensor`, in the order of `return`.
    """

    def __init__(self, name: str, names: dict[str, Any], outer: Mapping[str, Any]) -> None:
        self.name, self.names, self.outer = name, names, outer
        self.ib = IRBuilder()
        self.declared: dict[str, BufferVar] = {}
        self.buffers: dict[BufferVar, Buffer] = {}
        self.outputs: list[BufferVar] = []

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
        call = stmt.iter
        kind = _LOOPS.get(call.func.id) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None
        if kind is None or not isinstance(call, ast.Call) or not isinstance(stmt.target, ast.Name) or stmt.orelse:
            raise self.refuse(stmt)
        ends = [self.value(arg) for arg in call.args]
        if len(ends) > 2:
            raise self.refuse(stmt)
        with self.ib.for_range(ends[0] if len(ends) == 2 else 0, ends[-1], stmt.target.id, kind=kind) as i:
            self._scoped(stmt.body, {stmt.target.id: i})

    def _scoped(self, stmts: list[ast.stmt], more: Mapping[str, Any]) -> None:
        before = dict(self.names)
        self.names.update(more)
        self.body(stmts)
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
        target = stmt.targets[0]
        if len(stmt.targets) != 1:
            raise self.refuse(stmt)
        if isinstance(target, ast.Subscript):
            self.value(target.value)[self.value(target.slice)] = self.value(stmt.value)
        elif isinstance(target, ast.Name):
            self._name(target.id, stmt.value)
        else:
            raise self.refuse(stmt)

    def _name(self, name: str, value: ast.expr) -> None:
        """Declare a tensor, or a scalar in a storage of one element, which later assignments overwrite."""
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        known = self.names.get(name)
        if called in ("output_tensor", "allocate") and isinstance(value, ast.Call):
            args = [self.value(arg) for arg in value.args]
            dtype = args[1] if len(args) > 1 else "float32"
            if called == "allocate":
                self.names[name] = self.ib.allocate(dtype, args[0], name)
                return
            buffer = decl_buffer(args[0], dtype, name)
            made = self.names[name] = self.ib.buffer_ptr(buffer)
            self.buffers[made] = buffer
        elif isinstance(known, BufferVar) and known.tensor.ndim == 0:
            known[()] = self.value(value)
        else:
            e = build.operand(self.value(value), f"the value of {name}")
            storage = self.names[name] = self.ib.allocate(build.dtype_of(e), (), name)
            storage[()] = e

    def _augassign(self, stmt: ast.AugAssign) -> None:
        combine = _BINARY.get(type(stmt.op))
        if combine is None or not isinstance(stmt.target, (ast.Subscript, ast.Name)):
            raise self.refuse(stmt)
        read = ast.parse(ast.unparse(stmt.target), mode="eval").body
        new = combine(self.value(read), self.value(stmt.value))
        if isinstance(stmt.target, ast.Subscript):
            self.value(stmt.target.value)[self.value(stmt.target.slice)] = new
        else:
            storage = self.names.get(stmt.target.id)
            if not isinstance(storage, BufferVar):
                raise self.refuse(stmt)
            storage[()] = new

    def _assert(self, stmt: ast.Assert) -> None:
        if self.value(stmt.test) is not True:
            raise self.refuse(stmt)

    def _return(self, stmt: ast.Return) -> None:
        parts = stmt.value.elts if isinstance(stmt.value, ast.Tuple) else [stmt.value]
        found = [self.names.get(part.id) for part in parts if isinstance(part, ast.Name)]
        if len(found) != len(parts) or not all(isinstance(v, BufferVar) and v in self.buffers for v in found):
            raise self.refuse(stmt)
        self.outputs = [v for v in found if isinstance(v, BufferVar)]

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
                raise InputError(f"hybrid script {self.name}: the name {name} is not known")
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Subscript(value=array, slice=index):
                return self.value(array)[self.value(index)]
            case ast.Attribute(value=array, attr="shape"):
                base = self.value(array)
                return base.tensor.extents if isinstance(base, BufferVar) else base.shape
            case ast.Attribute(value=array, attr="dtype"):
                return self.value(array).dtype
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=parts):
                first, *others = [self.value(part) for part in parts]
                for other in others:
                    first = _BINARY[type(op)](first, other)
                return first
            case ast.Compare(left=left, ops=kinds, comparators=others) if all(type(k) in _BINARY for k in kinds):
                values = [self.value(left), *map(self.value, others)]
                conds = [_BINARY[type(k)](a, b) for k, a, b in zip(kinds, values, values[1:], strict=False)]
                return conds[0] if len(conds) == 1 else build.all_of(*conds)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self.value(inner)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return build.negation(self.value(inner))
            case ast.IfExp(test=test, body=yes, orelse=no):
                return build.select(self.value(test), self.value(yes), self.value(no))
            case ast.Call(func=ast.Attribute(value=inner, attr="astype"), args=[dtype]):
                return build.cast(self.value(dtype), self.value(inner))
            case ast.Call(func=ast.Name(id="len"), args=[inner]):
                return len(self.value(inner))
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in _CALLS:
                return _CALLS[name](*map(self.value, args))
        raise self.refuse(node)


def script(func: Callable[..., Any]) -> Callable[..., Any]:
    """Read a Python function as an operation: calls take tensors and numbers, and give the tensors of its `return`.

    Raises
    ------
    InputError: the function leaves the subset; names the line's text.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(func))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    outer = {**func.__globals__, **inspect.getclosurevars(func).nonlocals}
    parameters = [arg.arg for arg in tree.args.args]

    def read(args: tuple[Any, ...], buffers: Mapping[str, Buffer]) -> tuple[HybridReader, Stmt]:
        reader = HybridReader(tree.name, {}, outer)
        for name, arg in zip(parameters, args, strict=True):
            reader.names[name] = reader.ib.buffer_ptr(buffers[name]) if name in buffers else arg
        reader.body(tree.body)
        if not reader.outputs:
            raise InputError(f"hybrid script {tree.name} returns no tensor of output_tensor")
        return reader, reader.ib.get()

    def call(*args: Any) -> Any:
        if len(args) != len(parameters):
            raise InputError(f"hybrid script {tree.name} takes {len(parameters)} arguments, not {len(args)}")
        given = {name: arg for name, arg in zip(parameters, args, strict=True) if isinstance(arg, Tensor)}
        buffers = {name: decl_buffer(t.extents, t.dtype, t.name) for name, t in given.items()}
        reader, body = read(args, buffers)
        outs = [reader.buffers[v] for v in reader.outputs]
        shapes: list[tuple[Expr, ...]] = [buffer.shape for buffer in outs]
        return extern(
            shapes,
            list(given.values()),
            lambda *_: body,
            name=tree.name,
            dtype=[buffer.dtype for buffer in outs],
            in_buffers=list(buffers.values()),
            out_buffers=outs,
        )

    call.__name__ = call.__qualname__ = func.__name__
    call.__doc__ = func.__doc__
    return call


__all__ = ["HybridReader", "script"]

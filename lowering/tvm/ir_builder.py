"""`tvm.tir.ir_builder`: nests written statement by statement.

ib = tir.ir_builder.create()
A = ib.buffer_ptr(ins[0])
with ib.for_range(0, n, "i") as i:
    with ib.if_scope(i < 8):
        A[i] = A[i] + 1.0
body = ib.get()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn
from weakref import finalize

from bound.itervar import IterVar, as_domain, plain_index
from bound.schedule.attach import check_thread_tag
from bound.tensor import PlaceholderOp, Tensor, buffer_tensor, element, unflattened
from bound.tir import build as terms
from bound.tir.machine import as_value, in_types
from bound.tir.value import Operand, ScriptVar, Value, parameter
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, as_expr, const, dag
from intset.expr.node import truth
from lowering.interpreter import run
from lowering.nest import ir
from lowering.nest.scope import element_accesses
from lowering.nest.walk import free_variables, statements, touched, written_by
from lowering.passes.stores.reaching_values import with_bounds_checks
from lowering.tvm.ir import BARRIER, AtomicAdd, as_statement
from lowering.tvm.runtime import PACKED, NDArray, on_arrays

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

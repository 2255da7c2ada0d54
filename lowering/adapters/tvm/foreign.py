"""Opaque calls that keep TVM statements without a counterpart, with the tensors they read and write.

Intrinsics, external calls, unknown element types, attributes and annotated blocks pass through a nest untouched. Passes
see the tensors that a statement reads and writes and replace the variables it mentions; `to_tvm` writes it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, TensorLoad, Var
from tvm.s_tir.stmt import SBlock
from tvm.tirx import stmt

from bound.tensor import Tensor
from bound.tir.build import ExternCall
from bound.tir.value import Operand
from lowering.adapters.tvm.terms import call_name, is_supported
from lowering.nest.ir import Evaluate, Stmt, Store, with_fields
from lowering.nest.walk import rebuilt, statements


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
    reads: set[Any] = set()
    writes: set[Any] = set()
    passed: set[Any] = set()
    barriers: list[bool] = []

    def visit(node: Any) -> None:
        if isinstance(node, TensorLoad):
            reads.add(node.source)
        elif isinstance(node, tirx.BufferStore):
            writes.add(node.buffer)
        if isinstance(node, (tirx.BufferStore, tirx.Evaluate)):
            pointers: set[Any] = set()
            calls: list[Any] = []
            tvm_ffi.structural_walk(node.value, [(Call, lambda call: calls.append(call))])
            for call in calls:
                pointers.update(arg for arg in call.args if isinstance(arg, Var) and tirx.is_buffer_var(arg))
            passed.update(pointers)
            barriers.append(not pointers and not all(map(is_supported, calls)))

    tvm_ffi.structural_walk(term, [((TensorLoad, tirx.BufferStore, tirx.Evaluate), visit)])
    return ForeignAccesses(reads | passed, writes | passed, passed, any(barriers))


_LEAVING: Final = ("ret", "thread_return", "break_loop", "continue_loop")


def foreign(term: Any, known: Mapping[Any, Operand], tensor_of: Callable[[Any], Tensor]) -> Evaluate:
    """A statement as an opaque call.

    Parameters
    ----------
    known: the operands of variables in sight.
    tensor_of: the tensor of a buffer.

    Raises
    ------
    KeyError: the statement mentions an unknown variable or buffer, or leaves a loop or the function.
    """
    leaves: list[Any] = []
    tvm_ffi.structural_walk(term, [((stmt.Break, stmt.Continue, stmt.Return, Call), leaves.append)])
    if any(not isinstance(node, Call) or call_name(node) in _LEAVING for node in leaves):
        raise KeyError(term)
    inside: set[Any] = set()  # what blocks declare, which TVM's analysis takes for free

    def declared(block: Any) -> None:
        inside.update(axis.var for axis in block.iter_vars)
        inside.update((*block.alloc_buffers, *(match.buffer for match in block.match_buffers)))

    tvm_ffi.structural_walk(term, [(SBlock, declared)])
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
    return Evaluate(call, reads, writes)


def with_ordered_barriers(body: Stmt) -> Stmt:
    """The nest whose barriers read and write every tensor that the nest writes."""
    written = written_tensors(body)

    def ordered(part: Stmt) -> Stmt:
        if not isinstance(part, Evaluate) or not isinstance(part.call, ForeignCall) or not part.call.is_barrier:
            return part
        touched = tuple(dict.fromkeys((*part.writes, *written)))
        return with_fields(part, reads=tuple(dict.fromkeys((*part.reads, *touched))), writes=touched)

    return rebuilt(body, ordered) if written else body


def written_tensors(body: Stmt) -> list[Tensor]:
    """The stored tensors of a nest, without repetition."""
    found: dict[Tensor, None] = {}
    for part in statements(body):
        if isinstance(part, Store):
            found[part.tensor] = None
        elif isinstance(part, Evaluate):
            found.update(dict.fromkeys(part.writes))
    return list(found)


def restored(call: ForeignCall, terms: Iterable[Any], buffers: Iterable[Any]) -> Any:
    """The statement of TVM with its variables and buffers replaced."""
    new = dict(zip((*call.variables, *call.buffers), (*terms, *buffers), strict=True))
    return tvm_ffi.structural_map(call.term, [(Var, lambda var: new.get(var, var))], order="pre")

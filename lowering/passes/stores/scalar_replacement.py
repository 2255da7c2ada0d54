"""Scalar replacement: an element that loops update repeatedly lives in a variable meanwhile.

    C[i] = 0.0                                     acc[0] = 0.0
    for k in [0, n):                   becomes     for k in [0, n): acc[0] = acc[0] + A[i, k]
        C[i] = C[i] + A[i, k]                      C[i] = acc[0]

C compilers keep the element in memory unless they can exclude aliases; a chain of sums then waits for memory each time.
Runs of adjacent statements qualify that access a tensor at one loop-invariant index only. The first of them stores
unconditionally, so the element exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bound.declare import placeholder
from bound.tensor import Tensor, element
from intset.expr.dag import free_vars, opaque_terms
from intset.expr.node import const, constant_value
from intset.expr.range import Range
from lowering.nest.driver import Descent, StmtRules, rewritten
from lowering.nest.ir import Allocate, Assert, Evaluate, For, Function, If, Let, LoopKind, Seq, Stmt, Store, seq
from lowering.nest.tensors import Indices, element_accesses, redirected
from lowering.nest.walk import bound_in, operands, range_ends, rebuilt, statements, tensors_read
from lowering.passes.affine import is_same
from lowering.passes.stores.dead_code import without_unused

FEWEST: Final = 3  # accesses in straight code from which on it is worth a variable
_SPREAD: Final = (LoopKind.PARALLEL, LoopKind.THREAD, LoopKind.VTHREAD)


def accumulate(f: Function) -> Function:
    """Keep elements that loops update in variables.

    Guarantee: each element undergoes the same operations, in order.
    """
    single = {s.tensor for s in statements(f.body) if isinstance(s, Allocate) and _is_single(s)}
    enter: StmtRules[_Variables] = {Seq: (_keep_run,), For: (_keep_around_loop,)}
    return f.with_body(rewritten(f.body, _Variables(single), enter, {Seq: (_drop_unused_storage,)}))


class _Variables(Descent):
    """The tensors that are variables already: of one element. Rules add those that they make."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: set[Tensor]) -> None:
        self.tensors = tensors


def _is_single(stmt: Allocate) -> bool:
    return all(constant_value(range_ends(r)[1]) == 1 for r in stmt.ranges)


def _keep_run(block: Seq, variables: _Variables) -> Stmt:
    """Keep the elements that runs of statements in a sequence combine into in variables."""
    stmts = list(block.stmts)
    for tensor in dict.fromkeys(s.tensor for s in stmts if isinstance(s, Store)):
        if tensor not in variables.tensors:
            stmts = _kept(stmts, tensor, variables.tensors)
    return seq(*stmts)


def _keep_around_loop(loop: For, variables: _Variables) -> Stmt:
    """Keep an element that a loop certainly stores to in a variable around the loop."""
    return _alone(loop, variables.tensors) or loop


def _drop_unused_storage(block: Seq, _: Descent) -> Stmt:
    return without_unused(block)


def _kept(stmts: list[Stmt], tensor: Tensor, variables: set[Tensor]) -> list[Stmt]:
    """Statements in sequence, with a variable for each place that runs of them store to in a tensor."""
    replaced: list[Stmt] = []
    is_own = any(isinstance(stmt, Allocate) and stmt.tensor is tensor for stmt in stmts)
    while stmts:
        first = stmts[0]
        count = 1
        if isinstance(first, Store) and first.tensor is tensor and not opaque_terms(*first.indices):
            run = _run(stmts, tensor, first.indices)
            if run and _is_worth(stmts[:run], tensor):
                kept = _in_variable(stmts[:run], tensor, first.indices, variables)
                stmts = stmts[run:]
                is_read = not is_own or any(_accesses(stmt, tensor) for stmt in stmts)
                replaced += kept if is_read else kept[:-1]
                continue
            count = max(run, 1)
        replaced += stmts[:count]
        stmts = stmts[count:]
    return replaced


def _run(stmts: Sequence[Stmt], tensor: Tensor, indices: Indices) -> int:
    """The number of leading statements that access a tensor at one index only, up to the last access.

    Zero if the first statement, which stores there, reads the tensor elsewhere.
    """
    count = 0
    named = set(free_vars(*indices))
    for k, stmt in enumerate(stmts):
        count_here = _accesses(stmt, tensor)
        if isinstance(stmt, Allocate) and stmt.tensor is tensor:
            break
        if count_here == 0:
            continue
        if not isinstance(stmt, (Store, For, If)) or not _only_at(stmt, tensor, indices, named):
            break
        count = k + 1
    return count


def _alone(loop: For, variables: set[Tensor]) -> Stmt | None:
    """A variable around a loop that certainly stores to one element of a tensor, else `None`."""
    inner: Stmt = loop
    most = 0
    while isinstance(inner, For):
        count = constant_value(range_ends(inner.range)[1]) or 0
        if count < 1:
            return None
        most, inner = max(most, count), inner.body
    if most == 1:
        return None
    inside = bound_in(loop)
    for store in inner.stmts if isinstance(inner, Seq) else (inner,):
        if not isinstance(store, Store) or store.tensor in variables or opaque_terms(*store.indices):
            continue
        named = set(free_vars(*store.indices))
        if not named & inside and _only_at(loop, store.tensor, store.indices, named):
            return seq(*_in_variable([loop], store.tensor, store.indices, variables))
    return None


def _only_at(stmt: Stmt, tensor: Tensor, indices: Indices, named: set[Any]) -> bool:
    """Whether a statement accesses a tensor at one index only, in loops that permit a variable."""
    for inner in statements(stmt):
        if isinstance(inner, (Assert, Evaluate)) or (isinstance(inner, Allocate) and inner.tensor is tensor):
            return False
        if isinstance(inner, For) and (inner.kind in _SPREAD or named & {inner.var, *(c.var for c in inner.carried)}):
            return False
        if isinstance(inner, Let) and inner.var in named:
            return False
        if any(a.tensor is tensor and not is_same(a.indices, indices) for a in element_accesses(inner)):
            return False
    return True


def _accesses(stmt: Stmt, tensor: Tensor) -> int:
    """How often the text of a statement touches a tensor."""
    total = 0
    for inner in statements(stmt):
        total += isinstance(inner, Allocate) and inner.tensor is tensor
        total += sum(access.tensor is tensor for access in element_accesses(inner))
        if isinstance(inner, Evaluate):
            total += tensor in inner.reads or tensor in inner.writes
    return total


def _is_worth(stmts: Sequence[Stmt], tensor: Tensor) -> bool:
    touching = [stmt for stmt in stmts if _accesses(stmt, tensor)]
    if any(isinstance(inner, For) for stmt in touching for inner in statements(stmt)):
        return True
    return sum(_accesses(stmt, tensor) for stmt in touching) >= FEWEST


def _in_variable(stmts: Sequence[Stmt], tensor: Tensor, indices: Indices, variables: set[Tensor]) -> list[Stmt]:
    """Statements that update a variable instead of an element, and store it at the end."""
    acc = placeholder((1,), tensor.dtype, name=f"{tensor.name}_at")
    variables.add(acc)
    start = (const(0),)

    def move(accessed: Tensor, _: Indices) -> tuple[Tensor, Indices] | None:
        return (acc, start) if accessed is tensor else None

    changed = [rebuilt(stmt, lambda s: redirected(s, move)) for stmt in stmts]
    first = stmts[0]
    is_read = not isinstance(first, Store) or tensor in tensors_read(*operands(first))
    begin = [Store(acc, start, element(tensor, indices))] if is_read else []
    return [Allocate(acc, (Range(0, 1),)), *begin, *changed, Store(tensor, indices, element(acc, start))]

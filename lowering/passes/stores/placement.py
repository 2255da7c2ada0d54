"""Where elements are kept: at the destination of a copy, in a variable while loops update them, from index 0 on.

    allocate row: float32[n]                               for i in [0, n):
    for i in [0, n):                                           S[t + 1, i] = S[t, i] + X[t, i]
        row[i] = S[t, i] + X[t, i]          becomes
    for i in [0, n):
        S[t + 1, i] = row[i]

A copied tensor is computed at its destination. Conditions: the copy covers the whole allocation, nothing else reads the
tensor afterwards, and statements in between do not access the destination: in one dimension their indices differ by a
constant.

    C[i] = 0.0                                     acc[0] = 0.0
    for k in [0, n):                   becomes     for k in [0, n): acc[0] = acc[0] + A[i, k]
        C[i] = C[i] + A[i, k]                      C[i] = acc[0]

Scalar replacement keeps an element in a variable. C compilers keep the element in memory unless they can exclude
aliases; a chain of sums then waits for memory each time. Runs of adjacent statements qualify that access a tensor at
one loop-invariant index only. The first of them stores unconditionally, so the element exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from bound.declare import placeholder
from bound.tensor import Tensor, element
from bound.tir.walk import loaded_tensor, read_indices, substitute
from intset.expr import Expr, Range, Var, const, constant_value, dag
from lowering.nest import driver, ir, walk
from lowering.nest.scope import Indices, Scope, element_accesses, redirected
from lowering.passes.estimates import difference, is_same
from lowering.passes.simplify import ENTER, LEAVE, shorter
from lowering.passes.stores.dead_code import drop_unused_storage

Rules: TypeAlias = "driver.StmtRules[Any]"
Origins = dict[Tensor, tuple[Expr | None, ...]]  # `None` for an axis of extent 1, whose only index is 0
FEWEST: Final = 3  # accesses in straight code from which on it is worth a variable
_SPREAD: Final = (ir.LoopKind.PARALLEL, ir.LoopKind.THREAD, ir.LoopKind.VTHREAD)


class _CopyNest(NamedTuple):
    """`target[indices] = source[loops]`, for all of the source."""

    source: Tensor
    target: Tensor
    loops: tuple[Var | None, ...]
    indices: tuple[Expr, ...]

    def move(self, tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        """The destination of an element of the source; `None` for other tensors."""
        if tensor is not self.source:
            return None
        new: dict[Var, Expr] = {v: e for v, e in zip(self.loops, indices, strict=True) if v is not None}
        return self.target, tuple(substitute(e, new) for e in self.indices)


def forward_copies(f: ir.Function) -> ir.Function:
    """Eliminate copies of allocated tensors.

    Guarantee: the destination receives the same values.
    """
    if ir.Allocate not in walk.occurring(f.body).kinds:
        return f
    return f.with_body(
        walk.rebuilt(f.body, lambda stmt: _forwarded(stmt, f.body) if isinstance(stmt, ir.Seq) else stmt)
    )


def _forwarded(body: ir.Seq, root: ir.Stmt) -> ir.Stmt:
    parts = list(body.stmts)
    for stmt in body.stmts:
        if not isinstance(stmt, ir.Allocate) or stmt not in parts:
            continue
        for end in range(parts.index(stmt) + 1, len(parts)):
            copy = _copy_of(parts[end], stmt)
            if copy is None:
                continue
            between = parts[parts.index(stmt) + 1 : end]
            copy = _before_names(copy, between)
            if copy is None:
                break
            inside = sum(_uses(part, stmt.tensor) for part in between)
            if inside + 1 == _uses(root, stmt.tensor) and all(_is_away(part, copy) for part in between):
                parts[end : end + 1] = []
                parts = [walk.rebuilt(part, partial(redirected, move=copy.move)) for part in parts if part is not stmt]
            break
    return ir.seq(*parts) if len(parts) < len(body.stmts) else body


def _uses(root: ir.Stmt, tensor: Tensor) -> int:
    """The number of statements that read or write elements of a tensor."""
    return sum(tensor in (*walk.read_by(stmt), *walk.written_by(stmt)) for stmt in walk.statements(root))


def _before_names(copy: _CopyNest, between: Sequence[ir.Stmt]) -> _CopyNest | None:
    """The copy without the names that statements in front of it define; `None` if its place is read from a tensor."""
    indices = copy.indices
    if dag.opaque_terms(*indices):
        return None
    for stmt in reversed(between):
        if isinstance(stmt, ir.Let) and any(stmt.var in e.free_vars() for e in indices):
            if not isinstance(stmt.value, Expr) or not isinstance(stmt.var, Var) or dag.opaque_terms(stmt.value):
                return None
            new: dict[Var, Expr] = {stmt.var: stmt.value}
            indices = tuple(substitute(e, new) for e in indices)
    return copy._replace(indices=indices)


def _copy_of(stmt: ir.Stmt, allocation: ir.Allocate) -> _CopyNest | None:
    """The whole-tensor copy that a statement consists of, if any."""
    ranges: dict[Var, tuple[Expr, Expr]] = {}
    while isinstance(stmt, ir.For) and not stmt.carried:
        ranges[stmt.var] = walk.range_ends(stmt.range)
        stmt = stmt.body
    if not isinstance(stmt, ir.Store) or loaded_tensor(stmt.value) is not allocation.tensor:
        return None
    if stmt.tensor is allocation.tensor or stmt.tensor.dtype != allocation.tensor.dtype:
        return None
    loops: list[Var | None] = []
    for index, r in zip(read_indices(stmt.value), allocation.ranges, strict=True):
        low, extent = walk.range_ends(r)
        if isinstance(index, Var) and index in ranges and index not in loops:
            first, count = ranges[index]
            if not (constant_value(first) == constant_value(low) == 0 and is_same((count,), (extent,))):
                return None
            loops.append(index)
        elif constant_value(index) == 0 and constant_value(low) == 0 and constant_value(extent) == 1:
            loops.append(None)
        else:
            return None
    return _CopyNest(allocation.tensor, stmt.tensor, tuple(loops), stmt.indices) if set(ranges) <= set(loops) else None


def _is_away(root: ir.Stmt, copy: _CopyNest) -> bool:
    """Whether a statement neither accesses the destination nor defines names for it."""
    moving = {v for v in copy.loops if v is not None}
    for stmt in walk.statements(root):
        if isinstance(stmt, ir.Evaluate) or (isinstance(stmt, (ir.Store, ir.Allocate)) and stmt.tensor is copy.target):
            return False
        for access in element_accesses(stmt):
            if access.tensor is copy.target:
                pairs = zip(access.indices, copy.indices, strict=True)
                if not any(moving.isdisjoint(b.free_vars()) and difference(a, b) not in (None, 0) for a, b in pairs):
                    return False
    return True


def rebase(f: ir.Function) -> ir.Function:
    """Let every allocation begin at 0. The minimum of its range becomes its `origin`.

    Guarantee: each access reads or stores the same element.
    """
    ir.checked_function(f, "rebase")
    return _rebased(f, {}, {})


def rebase_plain(f: ir.Function) -> ir.Function:
    """Apply the rules of `plain` and those of `rebase` to each statement, in one walk."""
    return _rebased(f, ENTER, LEAVE)


def _rebased(f: ir.Function, first: Rules, leave: Rules) -> ir.Function:
    own: Rules = {ir.Stmt: (_use_storage_indices,), ir.Allocate: (_from_zero,)}
    every: Rules = {ir.Stmt: (), **first}
    rules = {kind: (*every.get(kind, every[ir.Stmt]), *own.get(kind, own[ir.Stmt])) for kind in {**own, **every}}
    return f.with_body(driver.rewritten(f.body, _Rebasing.root(f).moved(origins={}, lows={}), rules, leave))


class _Rebasing(driver.Cursor):
    """A cursor with the origins of the storage in sight.

    Attributes
    ----------
    lows: the first indices of each new allocation, over the whole walk.
    """

    origins: Origins
    lows: dict[ir.Stmt, tuple[Expr | None, ...]]

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _Rebasing:
        here = super().after(old, new)
        if not isinstance(new, ir.Allocate):
            return here
        lows = self.lows[new]
        if new.tensor not in self.origins and all(low is not None and constant_value(low) == 0 for low in lows):
            return here
        return here.moved(origins={**self.origins, new.tensor: lows})


def _from_zero(stmt: ir.Allocate, cursor: _Rebasing) -> ir.Allocate:
    ends = [walk.range_ends(r) for r in stmt.ranges]
    ranges = tuple(Range(0, extent) for _, extent in ends)
    new = ir.with_fields(stmt, ranges=ranges, origin=_origin(stmt, cursor.scope), padding=_padding(stmt))
    cursor.lows[new] = tuple(None if constant_value(extent) == 1 else low for low, extent in ends)
    return new


def _padding(stmt: ir.Allocate) -> ir.Padding | None:
    """The untouchable elements of an allocation, in indices that count from 0."""
    if stmt.padding is None:
        return None
    lows = (walk.range_ends(r)[0] for r in stmt.ranges)
    moved = [v if constant_value(low) == 0 else v + low for v, low in zip(stmt.padding.indices, lows, strict=True)]
    return ir.with_fields(stmt.padding, cond=stmt.padding.at(moved))


def _origin(stmt: ir.Allocate, scope: Scope) -> tuple[Expr, ...]:
    """The tensor indices of the first element of the storage."""
    lows = tuple(walk.range_ends(r)[0] for r in stmt.ranges)
    if stmt.steps is None:
        return lows
    found = []
    for start, row in zip(stmt.origin or (), stmt.steps, strict=True):
        total = start
        for step, low in zip(row, lows, strict=True):
            total = total + low * step if step else total
        found.append(shorter(total, scope.ctx))
    return tuple(found)


def _use_storage_indices(stmt: ir.Stmt, cursor: _Rebasing) -> ir.Stmt:
    """Count the indices of allocated tensors from the start of their storage."""
    if not cursor.origins:
        return stmt

    def counted(index: Expr, low: Expr | None) -> Expr:
        if low is None:
            return const(0)
        return index if constant_value(low) == 0 else shorter(index - low, cursor.scope.ctx)

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        lows = cursor.origins.get(tensor)
        if lows is None or all(low is not None and constant_value(low) == 0 for low in lows):
            return None
        return tensor, tuple(map(counted, indices, lows))

    return redirected(stmt, move)


def accumulate(f: ir.Function) -> ir.Function:
    """Keep elements that loops update in variables.

    Guarantee: each element undergoes the same operations, in order.
    """
    single = {s.tensor for s in walk.statements(f.body) if isinstance(s, ir.Allocate) and walk.is_scalar(s)}
    enter: driver.StmtRules[_Variables] = {ir.Seq: (_keep_run,), ir.For: (_keep_around_loop,)}
    return f.with_body(driver.rewritten(f.body, _Variables(single), enter))


class _Variables(driver.Descent):
    """The tensors that are variables already: of one element. Rules add those that they make."""

    __slots__ = ("tensors",)

    def __init__(self, tensors: set[Tensor]) -> None:
        self.tensors = tensors


def _keep_run(block: ir.Seq, variables: _Variables) -> ir.Stmt:
    """Keep the elements that runs of statements in a sequence combine into in variables."""
    stmts = list(block.stmts)
    for tensor in dict.fromkeys(s.tensor for s in stmts if isinstance(s, ir.Store)):
        if tensor not in variables.tensors:
            stmts = _kept(stmts, tensor, variables.tensors)
    return block if stmts == list(block.stmts) else drop_unused_storage(ir.Seq(tuple(stmts)), variables)


def _kept(stmts: list[ir.Stmt], tensor: Tensor, variables: set[Tensor]) -> list[ir.Stmt]:
    """Statements in sequence, with a variable for each place that runs of them store to in a tensor."""
    replaced: list[ir.Stmt] = []
    is_own = any(isinstance(stmt, ir.Allocate) and stmt.tensor is tensor for stmt in stmts)
    while stmts:
        first = stmts[0]
        count = 1
        if isinstance(first, ir.Store) and first.tensor is tensor and not dag.opaque_terms(*first.indices):
            run = _run(stmts, tensor, first.indices)
            if run and _is_worth(stmts[:run], tensor):
                kept = _in_variable(stmts[:run], tensor, first.indices, variables)
                stmts = stmts[run:]
                is_read = not is_own or any(_is_accessed(stmt, tensor) for stmt in stmts)
                replaced += kept if is_read else kept[:-1]
                continue
            count = max(run, 1)
        replaced += stmts[:count]
        stmts = stmts[count:]
    return replaced


def _run(stmts: Sequence[ir.Stmt], tensor: Tensor, indices: Indices) -> int:
    """The number of leading statements that access a tensor at one index only, up to the last access.

    Zero if the first statement, which stores there, reads the tensor elsewhere.
    """
    count = 0
    named = set(dag.free_vars(*indices))
    for k, stmt in enumerate(stmts):
        if isinstance(stmt, ir.Allocate) and stmt.tensor is tensor:
            break
        if not _is_accessed(stmt, tensor):
            continue
        if not isinstance(stmt, (ir.Store, ir.For, ir.If)) or not _only_at(stmt, tensor, indices, named):
            break
        count = k + 1
    return count


def _keep_around_loop(loop: ir.For, variables: _Variables) -> ir.Stmt:
    """Keep an element that a loop certainly stores to in a variable around the loop."""
    inner: ir.Stmt = loop
    most = 0
    around: set[Var] = set()
    while isinstance(inner, ir.For):
        count = constant_value(walk.range_ends(inner.range)[1]) or 0
        if count < 1:
            return loop
        around.add(inner.var)
        most, inner = max(most, count), inner.body
    if most == 1:
        return loop
    for store in inner.stmts if isinstance(inner, ir.Seq) else (inner,):
        if not isinstance(store, ir.Store) or store.tensor in variables.tensors or dag.opaque_terms(*store.indices):
            continue
        named = set(dag.free_vars(*store.indices))
        if named & around or named & walk.bound_in(loop):
            continue
        if _only_at(loop, store.tensor, store.indices, named):
            return ir.seq(*_in_variable([loop], store.tensor, store.indices, variables.tensors))
    return loop


def _only_at(stmt: ir.Stmt, tensor: Tensor, indices: Indices, named: set[Any]) -> bool:
    """Whether a statement accesses a tensor at one index only, in loops that permit a variable."""
    for inner in walk.statements(stmt):
        if isinstance(inner, (ir.Assert, ir.Evaluate)) or (isinstance(inner, ir.Allocate) and inner.tensor is tensor):
            return False
        if isinstance(inner, ir.For) and (
            inner.kind in _SPREAD or named & {inner.var, *(c.var for c in inner.carried)}
        ):
            return False
        if isinstance(inner, ir.Let) and inner.var in named:
            return False
        if any(a.tensor is tensor and not is_same(a.indices, indices) for a in element_accesses(inner)):
            return False
    return True


def _accesses(stmt: ir.Stmt, tensor: Tensor) -> int:
    """How often the text of a statement touches a tensor."""
    total = 0
    for inner in walk.statements(stmt):
        total += isinstance(inner, ir.Allocate) and inner.tensor is tensor
        total += sum(access.tensor is tensor for access in element_accesses(inner))
        total += isinstance(inner, ir.Evaluate) and tensor in (*inner.reads, *inner.writes)
    return total


def _is_accessed(stmt: ir.Stmt, tensor: Tensor) -> bool:
    """Whether the text of a statement touches a tensor."""
    made = (inner.tensor for inner in walk.statements(stmt) if isinstance(inner, ir.Allocate))
    return _uses(stmt, tensor) > 0 or tensor in made


def _is_worth(stmts: Sequence[ir.Stmt], tensor: Tensor) -> bool:
    touching = [stmt for stmt in stmts if _is_accessed(stmt, tensor)]
    if any(isinstance(inner, ir.For) for stmt in touching for inner in walk.statements(stmt)):
        return True
    return sum(_accesses(stmt, tensor) for stmt in touching) >= FEWEST


def _in_variable(stmts: Sequence[ir.Stmt], tensor: Tensor, indices: Indices, variables: set[Tensor]) -> list[ir.Stmt]:
    """Statements that update a variable instead of an element, and store it at the end."""
    acc = placeholder((1,), tensor.dtype, name=f"{tensor.name}_at")
    variables.add(acc)
    start = (const(0),)

    def move(accessed: Tensor, _: Indices) -> tuple[Tensor, Indices] | None:
        return (acc, start) if accessed is tensor else None

    changed = [walk.rebuilt(stmt, lambda s: redirected(s, move)) for stmt in stmts]
    first = stmts[0]
    is_read = not isinstance(first, ir.Store) or tensor in walk.tensors_read(*walk.operands(first))
    begin = [ir.Store(acc, start, element(tensor, indices))] if is_read else []
    return [ir.Allocate(acc, (Range(0, 1),)), *begin, *changed, ir.Store(tensor, indices, element(acc, start))]

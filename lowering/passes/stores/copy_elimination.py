"""Copy elimination: compute a copied tensor directly at its destination.

    allocate row: float32[n]                               for i in [0, n):
    for i in [0, n):                                           S[t + 1, i] = S[t, i] + X[t, i]
        row[i] = S[t, i] + X[t, i]          becomes
    for i in [0, n):
        S[t + 1, i] = row[i]

Conditions: the copy covers the whole allocation, nothing else reads the tensor afterwards, and statements in between do
not access the destination: in one dimension their indices differ by a constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from bound.tensor import Tensor
from bound.tir import walk
from intset.expr.dag import opaque_terms
from intset.expr.node import Expr, Var, constant_value
from lowering.nest.ir import Allocate, Evaluate, For, Function, Let, Seq, Stmt, Store, seq
from lowering.nest.tensors import Indices, element_accesses, redirected
from lowering.nest.walk import range_ends, rebuilt, statements
from lowering.passes.affine import difference, is_same


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
        return self.target, tuple(walk.substitute(e, new) for e in self.indices)


def forward_copies(f: Function) -> Function:
    """Eliminate copies of allocated tensors.

    Guarantee: the destination receives the same values.
    """
    uses: dict[Tensor, int] = {}
    for stmt in statements(f.body):
        for tensor in dict.fromkeys(_touched(stmt)):
            uses[tensor] = uses.get(tensor, 0) + 1
    return f.with_body(rebuilt(f.body, lambda stmt: _forwarded(stmt, uses) if isinstance(stmt, Seq) else stmt))


def _forwarded(body: Seq, uses: Mapping[Tensor, int]) -> Stmt:
    parts = list(body.stmts)
    for stmt in body.stmts:
        if not isinstance(stmt, Allocate) or stmt not in parts:
            continue
        for end in range(parts.index(stmt) + 1, len(parts)):
            copy = _copy_of(parts[end], stmt)
            if copy is None:
                continue
            between = parts[parts.index(stmt) + 1 : end]
            copy = _before_names(copy, between)
            if copy is None:
                break
            inside = sum(stmt.tensor in _touched(s) for part in between for s in statements(part))
            if inside + 2 == uses[stmt.tensor] and all(_is_away(part, copy) for part in between):
                parts[end : end + 1] = []
                parts = [rebuilt(part, partial(redirected, move=copy.move)) for part in parts if part is not stmt]
            break
    return seq(*parts) if len(parts) < len(body.stmts) else body


def _before_names(copy: _CopyNest, between: Sequence[Stmt]) -> _CopyNest | None:
    """The copy without the names that statements in front of it define; `None` if its place is read from a tensor."""
    indices = copy.indices
    if opaque_terms(*indices):
        return None
    for stmt in reversed(between):
        if isinstance(stmt, Let) and any(stmt.var in e.free_vars() for e in indices):
            if not isinstance(stmt.value, Expr) or not isinstance(stmt.var, Var) or opaque_terms(stmt.value):
                return None
            new: dict[Var, Expr] = {stmt.var: stmt.value}
            indices = tuple(walk.substitute(e, new) for e in indices)
    return copy._replace(indices=indices)


def _touched(stmt: Stmt) -> list[Tensor]:
    """The tensors that a statement itself reads, stores to or allocates."""
    tensors = [access.tensor for access in element_accesses(stmt)]
    tensors += [stmt.tensor] if isinstance(stmt, Allocate) else []
    return tensors + ([*stmt.reads, *stmt.writes] if isinstance(stmt, Evaluate) else [])


def _copy_of(stmt: Stmt, allocation: Allocate) -> _CopyNest | None:
    """The whole-tensor copy that a statement consists of, if any."""
    ranges: dict[Var, tuple[Expr, Expr]] = {}
    while isinstance(stmt, For) and not stmt.carried:
        ranges[stmt.var] = range_ends(stmt.range)
        stmt = stmt.body
    if not isinstance(stmt, Store) or walk.loaded_tensor(stmt.value) is not allocation.tensor:
        return None
    if stmt.tensor is allocation.tensor or stmt.tensor.dtype != allocation.tensor.dtype:
        return None
    loops: list[Var | None] = []
    for index, r in zip(walk.read_indices(stmt.value), allocation.ranges, strict=True):
        low, extent = range_ends(r)
        if isinstance(index, Var) and index in ranges and index not in loops:
            if (
                constant_value(ranges[index][0]) != 0
                or constant_value(low) != 0
                or not is_same((ranges[index][1],), (extent,))
            ):
                return None
            loops.append(index)
        elif constant_value(index) == 0 and constant_value(low) == 0 and constant_value(extent) == 1:
            loops.append(None)
        else:
            return None
    return _CopyNest(allocation.tensor, stmt.tensor, tuple(loops), stmt.indices) if set(ranges) <= set(loops) else None


def _is_away(root: Stmt, copy: _CopyNest) -> bool:
    """Whether a statement neither accesses the destination nor defines names for it."""
    moving = {v for v in copy.loops if v is not None}
    for stmt in statements(root):
        if isinstance(stmt, Evaluate) or (isinstance(stmt, (Store, Allocate)) and stmt.tensor is copy.target):
            return False
        for access in element_accesses(stmt):
            if access.tensor is copy.target:
                pairs = zip(access.indices, copy.indices, strict=True)
                if not any(moving.isdisjoint(b.free_vars()) and _is_apart(a, b) for a, b in pairs):
                    return False
    return True


def _is_apart(a: Expr, b: Expr) -> bool:
    return difference(a, b) not in (None, 0)

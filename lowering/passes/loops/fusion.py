"""`merge_adjacent_loops`: loop fusion, of adjacent loops over the same range.

Iteration j of the second loop then runs before iterations i > j of the first. Results are equal if no element is
accessed by two such iterations, one of which stores it.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from intset.budgets import FUSED_PAIRS
from intset.expr.build import logical_and
from lowering.nest.driver import Cursor, inside, rewritten, walked
from lowering.nest.ir import (
    MOVABLE,
    Allocate,
    Assert,
    Evaluate,
    For,
    Function,
    Let,
    LoopKind,
    Seq,
    Stmt,
    checked_function,
    flat,
    seq,
)
from lowering.nest.scope import proof_of, proves, written_in
from lowering.nest.walk import bound_in, operands, range_ends, statements, substitute, tensors_read
from lowering.passes.alpha_renaming import with_fresh_names
from lowering.passes.loops.races import nested_accesses
from lowering.passes.report import Entry, PassReport
from lowering.passes.stores.assumptions import check_assumptions


def merge_adjacent_loops(f: Function, report: list[Entry] | None = None) -> Function:
    """Fuse adjacent loops over the same range where no result changes.

    Storage and data-independent names between two loops move in front of both.

    Guarantee: dependent accesses keep their order.

    Parameters
    ----------
    report: receives one `Entry` per pair of loops, at the line of the second.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "merge_adjacent_loops")
    check_assumptions(f)
    fusion = _Fusion(f)
    body = rewritten(f.body, Cursor.root(f), enter={Seq: (fusion.fuse_adjacent,)})
    fusion.report.give(report)
    return f.with_body(body)


class _Fusion:
    """The rule of `merge_adjacent_loops`, with the original path of every statement for reports."""

    def __init__(self, f: Function) -> None:
        self.report = PassReport(f)
        self._paths = {id(stmt): cursor.path for stmt, cursor in walked(f.body, Cursor.root(f))}
        self._alive: list[Stmt] = []  # statements whose ids are keys

    def fuse_adjacent(self, block: Seq, cursor: Cursor) -> Stmt:
        """Fuse each loop of a sequence with the loop before it, over storage and names between the two."""
        done: list[tuple[Stmt, Cursor]] = []
        for stmt, here in inside(block, cursor):
            last = next((k for k in reversed(range(len(done))) if not isinstance(done[k][0], (Allocate, Let))), None)
            first = None if last is None else done[last][0]
            if last is None or not isinstance(first, For) or not isinstance(stmt, For):
                done.append((stmt, here))
                continue
            path, between = self._paths[id(stmt)], done[last + 1 :]
            refused = _why_not(first, stmt, done[last][1], [part for part, _ in between])
            if refused is not None:
                self.report.say(path, False, *refused)
                done.append((stmt, here))
                continue
            self.report.say(path, True, f"it runs in the loop at line {self.report.line(self._paths[id(first)])}")
            done[last:] = [*between, (self._fused(first, stmt), done[last][1])]
        return block if len(done) == len(block.stmts) else seq(*(stmt for stmt, _ in done))

    def _fused(self, first: For, second: For) -> For:
        # A loop inside the second may have the first one's variable, which it would capture.
        moved = with_fresh_names(second) if first.var in bound_in(second.body) else second
        assert isinstance(moved, For)
        later = substitute(moved.body, {moved.var: first.var})
        for old, new in zip(statements(second.body), statements(later), strict=True):
            self._paths[id(new)] = self._paths[id(old)]
        kind = first.kind if first.kind is second.kind else LoopKind.SERIAL
        fused = replace(first, body=seq(*flat(first.body), *flat(later)), kind=kind)
        self._paths[id(fused)] = self._paths[id(first)]
        self._alive += [later, fused]
        return fused


def _why_not(first: For, second: For, cursor: Cursor, between: list[Stmt]) -> tuple[str, tuple[int, ...] | None] | None:
    """Why two loops cannot be fused, and values of the loops at which it fails; `cursor` is that of the first."""
    for loop in (first, second):
        if loop.kind not in MOVABLE:
            return f"a loop that is {loop.kind} stays as it is", None
        if loop.annotations:
            return "an annotated loop stays as it is", None
        if loop.carried:
            return "a loop carries values from one iteration to the next", None
        if any(isinstance(stmt, (Assert, Evaluate)) for stmt in statements(loop.body)):
            return "a host call or a check would run in another order", None
    ends = [e for stmt in (first, second, *between) for e in operands(stmt)]
    if tensors_read(*ends):
        return "a range of the loops, or what stands between them, depends on data", None
    low, extent = range_ends(first.range)
    other, count = range_ends(second.range)
    if not proves(cursor.scope, low.eq(other) & extent.eq(count)):
        return "the loops do not run over the same range", None
    return conflict(first, second, cursor)


def conflict(first: For, second: For, cursor: Cursor) -> tuple[str, tuple[int, ...] | None] | None:
    """Why the iterations of two loops over one range cannot be interleaved, and values of the loops at which it fails.

    Two parallel loops must not conflict in either order.

    Parameters
    ----------
    cursor: the position of the first loop.
    """
    own = bound_in(first.body) | bound_in(second.body)
    later = with_fresh_names(second)  # the loops may share variables
    assert isinstance(later, For)
    late = later.var
    own |= bound_in(later.body)
    is_parallel = first.kind is second.kind and first.kind is LoopKind.PARALLEL
    order = first.var.ne(late) if is_parallel else first.var > late
    every_pair = itertools.product(nested_accesses(first, own), nested_accesses(later, own))
    pairs = [(a, b) for a, b in every_pair if a.access.tensor is b.access.tensor]
    pairs = [(a, b) for a, b in pairs if a.access.is_store or b.access.is_store]
    if len(pairs) > FUSED_PAIRS:
        return f"the loops have more than {FUSED_PAIRS} pairs of accesses: the budget is spent", None
    changed = written_in(first.body) | written_in(second.body)
    both = cursor.scope.inside(first).inside(later)
    for a, b in pairs:
        x, y = a.access, b.access
        if any(t in changed for t in tensors_read(*x.indices, *y.indices)):
            return f"which elements of {x.tensor.name} are touched depends on data that the loops write", None
        here = both
        for step in (*a.steps, *b.steps):
            here = here.inside(step) if isinstance(step, For) else here.where(step)
        meet = logical_and(order, *(i.eq(j) for i, j in zip(x.indices, y.indices, strict=True)))
        proof = proof_of(here, ~meet)
        if not proof:
            what = (
                f"an iteration of the second loop touches an element of {x.tensor.name} that a later one of the first"
                " does"
            )
            values: Any = proof.counterexample or {}
            point = [values.get(var) for var in (*(loop.var for loop in cursor.loops), late)]
            if any(v is None for v in point):
                return f"it is not known whether {what}", None
            return what, tuple(point)
    return None

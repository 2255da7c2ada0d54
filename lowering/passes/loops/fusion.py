"""`merge_adjacent_loops`: loops that stand one after another and run over the same range become one.

The iteration j of the second loop then runs before the iterations i > j of the first. That changes nothing where no
element is touched by both such iterations, one of which writes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from bound.tensor import Tensor
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Var
from lowering.nest.ir import (
    Allocate,
    Assert,
    Evaluate,
    For,
    Function,
    If,
    Let,
    LoopKind,
    Seq,
    Stmt,
    Store,
    checked_function,
    seq,
)
from lowering.nest.scope import written_in
from lowering.nest.walk import (
    Visit,
    drive,
    operands,
    range_ends,
    statements,
    substitute,
    tensors_read,
    with_children,
)
from lowering.passes.alpha_renaming import with_fresh_names
from lowering.passes.places import (
    MOVABLE,
    Entry,
    Place,
    Report,
    bound_in,
    flat,
    proof_of,
    proves,
    root_of,
)
from lowering.passes.stores.assumptions import check_assumptions

MAX_PAIRS = 400  # of accesses that two loops are compared by


def merge_adjacent_loops(f: Function, report: list[Entry] | None = None) -> Function:
    """The function in which loops one after another over the same range are one, where no result changes.

    Storage that is allocated between two loops is allocated before both; so is a name for what depends on no data.

    Parameters
    ----------
    report: gets an `Entry` for each pair of loops, at the line of the second.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "merge_adjacent_loops")
    check_assumptions(f)
    said = Report(f)
    body = drive(_visit(root_of(f), said))
    said.give(report)
    return f.with_body(body)


def _visit(place: Place, said: Report) -> Visit[Stmt]:
    stmt = place.stmt
    if isinstance(stmt, Seq):
        stmts = _merged(list(place.inside()), said)
        parts: list[Stmt] = []
        for inner in stmts:
            parts.append((yield _visit(inner, said)))  # noqa: PERF401  # a comprehension cannot yield
        return seq(*parts)
    inner_parts: list[Stmt] = []
    for inner in place.inside():
        inner_parts.append((yield _visit(inner, said)))  # noqa: PERF401
    return with_children(stmt, tuple(inner_parts)) if inner_parts else stmt


def _merged(stmts: list[Place], said: Report) -> list[Place]:
    done: list[Place] = []
    for place in stmts:
        last = next((k for k in range(len(done) - 1, -1, -1) if not isinstance(done[k].stmt, (Allocate, Let))), None)
        before = None if last is None else done[last]
        if before is None or not isinstance(before.stmt, For) or not isinstance(place.stmt, For):
            done.append(place)
            continue
        assert last is not None
        between = done[last + 1 :]
        refused = _why_not(before, place, between)
        if refused is not None:
            said.say(place.path, False, *refused)
            done.append(place)
            continue
        said.say(place.path, True, f"it runs in the loop at line {said.line(before.path)}")
        done[last:] = [*between, _joined(before, place)]
    return done


def _joined(a: Place, b: Place) -> Place:
    first, second = a.stmt, b.stmt
    assert isinstance(first, For) and isinstance(second, For)
    body = seq(*flat(first.body), *flat(substitute(second.body, {second.var: first.var})))
    kind = first.kind if first.kind is second.kind else LoopKind.SERIAL
    # the parts keep their paths only in the first loop: what is inside the second is told by its own line
    return _Joined(replace(first, body=body, kind=kind), a, b)


class _Joined(Place):
    """Two loops that became one; what is inside has the paths it had."""

    __slots__ = ("first", "second")

    def __init__(self, stmt: For, first: Place, second: Place) -> None:
        super().__init__(stmt, first.path, first.scope, first.loops, first.guards)
        self.first, self.second = first, second

    def inside(self) -> Iterator[Place]:
        assert isinstance(self.stmt, For)
        (body,) = super().inside()
        if not isinstance(body.stmt, Seq):
            yield body
            return
        own = [inner.path for part in (self.first, self.second) for inner in _children_of(part)]
        yield _Sequence(body, own)


class _Sequence(Place):
    __slots__ = ("paths",)

    def __init__(self, body: Place, paths: list[tuple[int, ...]]) -> None:
        super().__init__(body.stmt, body.path, body.scope, body.loops, body.guards)
        self.paths = paths

    def inside(self) -> Iterator[Place]:
        for inner, path in zip(super().inside(), self.paths, strict=True):
            yield Place(inner.stmt, path, inner.scope, inner.loops, inner.guards)


def _children_of(part: Place) -> list[Place]:
    (body,) = part.inside()
    return list(body.inside()) if isinstance(body.stmt, Seq) else [body]


def _why_not(a: Place, b: Place, between: list[Place]) -> tuple[str, tuple[int, ...] | None] | None:
    """Why two loops cannot be merged, and values of the loops at which it fails."""
    first, second = a.stmt, b.stmt
    assert isinstance(first, For) and isinstance(second, For)
    for loop in (first, second):
        if loop.kind not in MOVABLE:
            return f"a loop that is {loop.kind} stays as it is", None
        if loop.carried:
            return "a loop carries values from one iteration to the next", None
        if any(isinstance(stmt, (Assert, Evaluate)) for stmt in statements(loop.body)):
            return "a host call or a check would run in another order", None
    ends = [e for stmt in (first, second, *(place.stmt for place in between)) for e in operands(stmt)]
    if any(loaded_tensor(node) is not None for node in nodes(*ends)):
        return "a range of the loops, or what stands between them, depends on data", None
    low, extent = range_ends(first.range)
    other, count = range_ends(second.range)
    if not proves(a.scope, low.eq(other) & extent.eq(count)):
        return "the loops do not run over the same range", None
    return conflict(a, b)


class _Access(NamedTuple):
    tensor: Tensor
    indices: tuple[Expr, ...]
    is_write: bool
    steps: tuple[Stmt | Cond, ...]  # the loops around it inside the merged one, and the conditions there


def conflict(a: Place, b: Place) -> tuple[str, tuple[int, ...] | None] | None:
    """Why the iterations of two loops over one range cannot run by turns instead of one loop after the other (nor the
    other way round), and values of the loops at which it fails."""
    first, second = a.stmt, b.stmt
    assert isinstance(first, For) and isinstance(second, For)
    own = bound_in(first.body) | bound_in(second.body)
    later = with_fresh_names(second)  # loops of both may be over the same variables
    assert isinstance(later, For)
    late = later.var
    own |= bound_in(later.body)
    is_parallel = first.kind is second.kind and first.kind is LoopKind.PARALLEL
    order = first.var.ne(late) if is_parallel else first.var > late
    found = itertools.product(_accesses(first, own), _accesses(later, own))
    pairs = [(x, y) for x, y in found if x.tensor is y.tensor and (x.is_write or y.is_write)]
    if len(pairs) > MAX_PAIRS:
        return f"the loops have more than {MAX_PAIRS} pairs of accesses: the budget is spent", None
    changed = written_in(first.body) | written_in(second.body)
    both = a.scope.inside(first).inside(later)
    for x, y in pairs:
        if any(t in changed for t in tensors_read(*x.indices, *y.indices)):
            return f"which elements of {x.tensor.name} are touched depends on data that the loops write", None
        here = both
        for step in (*x.steps, *y.steps):
            here = here.inside(step) if isinstance(step, For) else here.where(step)
        meet = logical_and(order, *(i.eq(j) for i, j in zip(x.indices, y.indices, strict=True)))
        proof = proof_of(here, ~meet)
        if not proof:
            what = (
                f"an iteration of the second loop touches an element of {x.tensor.name} that a later one of the first"
            )
            what += " does"
            values: Any = proof.counterexample or {}
            point = [values.get(var) for var in (*(loop.var for loop in a.loops), late)]
            if any(v is None for v in point):
                return f"it is not known whether {what}", None
            return what, tuple(point)
    return None


def _accesses(loop: For, own: set[Tensor]) -> list[_Access]:
    found: list[_Access] = []
    stack: list[tuple[Stmt, tuple[Stmt | Cond, ...]]] = [(loop.body, ())]
    while stack:
        stmt, steps = stack.pop()
        if isinstance(stmt, Seq):
            for inner in stmt.stmts:
                stack.append((inner, steps))
                if isinstance(inner, Let) and isinstance(inner.var, Var) and isinstance(inner.value, Expr):
                    steps = (*steps, inner.var.eq(inner.value))
            continue
        if isinstance(stmt, For):
            stack.append((stmt.body, (*steps, stmt)))
        elif isinstance(stmt, If):
            cond = stmt.cond
            stack.append((stmt.then, (*steps, cond) if isinstance(cond, Cond) else steps))
            if stmt.orelse is not None:
                stack.append((stmt.orelse, (*steps, ~cond) if isinstance(cond, Cond) else steps))
        for operand in operands(stmt):
            for node in nodes(operand):
                tensor = loaded_tensor(node)
                if tensor is not None and tensor not in own:
                    found.append(_Access(tensor, read_indices(node), False, steps))
        if isinstance(stmt, Store) and stmt.tensor not in own:
            found.append(_Access(stmt.tensor, stmt.indices, True, steps))
    return found

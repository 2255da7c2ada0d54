"""Dead code: storage that nothing reads, the loops that fill it, names that nothing uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import intset
from bound.tensor import Tensor
from bound.tir import build
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.config import Effort, tiers_within
from intset.expr.node import Cond, Expr, truth
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import (
    Allocate,
    Assume,
    Carry,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    checked_function,
    is_empty,
    seq,
)
from lowering.nest.scope import Scope
from lowering.nest.undef import has_undef
from lowering.nest.walk import (
    Visit,
    calls,
    children,
    drive,
    operands,
    range_ends,
    replaced,
    statements,
    tensors_read,
    touched,
    variables,
)
from lowering.passes.places import Entry, Place, Report, places, proof_of, proves, root_of
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.reaching_values import Case, Known, same


def drop_dead(f: Function) -> Function:
    """The function without the computation of tensors that no output depends on, and of names that nothing uses.

    A tensor that only its own elements are computed from counts as not read.
    """
    checked_function(f, "drop_dead")
    live = _live_tensors(f)
    while True:  # a name may be used by a name that nothing uses
        used = {v for stmt in statements(f.body) if _is_live(stmt, live) for v in variables(*operands(stmt))}
        new = f.with_body(drive(_visit(f.body, live, used)))
        if _names(new) == _names(f):
            return new
        f = new


def _names(f: Function) -> int:
    return sum(len(s.carried) if isinstance(s, For) else isinstance(s, Let) for s in statements(f.body))


def _is_live(stmt: Stmt, live: set[Tensor]) -> bool:
    return not isinstance(stmt, (Store, Allocate)) or stmt.tensor in live


def _live_tensors(f: Function) -> set[Tensor]:
    live = set(f.params)
    feeds: dict[Tensor, set[Tensor]] = {}
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate):
            live.update((*stmt.reads, *stmt.writes))
        read = tensors_read(*operands(stmt))
        if isinstance(stmt, Store):
            feeds.setdefault(stmt.tensor, set()).update(read)
        else:
            live.update(read)
    waiting = list(live)
    while waiting:
        new = feeds.get(waiting.pop(), set()) - live
        live |= new
        waiting += new
    return live


def _needed(loop: For, body: Stmt) -> tuple[Carry, ...]:
    """The variables that the loop carries for its body, or for others that it carries for it."""
    used = {v for stmt in statements(body) for v in variables(*operands(stmt))}
    waiting = [c for c in loop.carried if c.var in used]
    needed = set(waiting)
    while waiting:
        read = variables(waiting.pop().following)
        more = [c for c in loop.carried if c.var in read and c not in needed]
        needed.update(more)
        waiting += more
    return tuple(c for c in loop.carried if c in needed)


def _visit(stmt: Stmt, live: set[Tensor], used: set[Parameter]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, live, used)))  # noqa: PERF401  # a comprehension cannot yield
        return seq(*parts)
    if isinstance(stmt, For):
        body = yield _visit(stmt.body, live, used)
        return Seq() if is_empty(body) else replace(stmt, body=body, carried=_needed(stmt, body))
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, live, used)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, live, used))
        nothing_else = orelse is None or is_empty(orelse)
        return Seq() if is_empty(then) and nothing_else else If(stmt.cond, then, None if nothing_else else orelse)
    is_dead = not _is_live(stmt, live) or (isinstance(stmt, Let) and stmt.var not in used)
    return Seq() if is_dead else stmt


def without_unused(stmt: Stmt) -> Stmt:
    """A sequence without the storage that nothing in it uses."""
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    if not any(isinstance(part, Allocate) for part in parts):
        return stmt
    used = set(touched(stmt)).union(*((*call.reads, *call.writes) for call in calls(stmt)))
    return seq(*(part for part in parts if not isinstance(part, Allocate) or part.tensor in used))


MAX_ROUNDS: Final = 6  # of removing what what was removed made dead


def remove_no_op(f: Function, report: list[Entry] | None = None) -> Function:
    """The function without statements that do nothing.

    Gone are stores whose value nobody reads, stores of what the element holds already, branches and loops with nothing
    in them, storage and names that nothing uses.

    Parameters
    ----------
    report: gets an `Entry` for each store that is considered.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_no_op")
    checked = check_assumptions(f)
    said = Report(f)
    origin = {id(place.stmt): place.path for place in places(f)}
    keep: list[Function | Stmt] = [f]  # the statements whose ids are keys
    for _ in range(MAX_ROUNDS):
        before = f
        known, checked = checked or Known(f), None
        gone = _dead(known, said, origin) or _kept(known, said, origin)
        f = _without(f, gone, origin)
        if f is before:
            break
        keep.append(f)
    else:
        said.say(
            root_of(f).path, False, f"after {MAX_ROUNDS} rounds more may be left: the budget is spent", what="rounds"
        )
    said.give(report)
    return _tidy(f)


def _path(place: Place, origin: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
    return origin.get(id(place.stmt), ())


def _dead(known: Known, said: Report, origin: dict[int, tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The stores of which every instance is dead or changes nothing by what its own operands hold."""
    found: set[tuple[int, ...]] = set()
    for place in places(known.f):
        if not isinstance(place.stmt, Store):
            continue
        dead = known.dead(place)
        unread = proof_of(place.scope, dead)
        if unread:
            said.say(_path(place, origin), True, "nobody reads its value")
            found.add(place.path)
            continue
        if known.changes_nothing(place, place.scope.where(~dead)):
            said.say(_path(place, origin), True, "the element holds that value already")
            found.add(place.path)
            continue
        said.say(_path(place, origin), False, "its value is read, or kept at the end", place.point(unread))
    return found


def _kept(known: Known, said: Report, origin: dict[int, tuple[int, ...]]) -> set[tuple[int, ...]]:
    """The stores of a value that is known to be there, by what was stored before."""
    f = known.f
    writers = Counter(t for stmt in statements(f.body) for t in _written_or_assumed(stmt))
    found: set[tuple[int, ...]] = set()
    for place in places(f):
        stmt = place.stmt
        if isinstance(stmt, Store) and writers[stmt.tensor] > 1 and _holds_already(place, known):
            said.say(_path(place, origin), True, "the element holds that value already")
            found.add(place.path)
    return found


def _written_or_assumed(stmt: Stmt) -> tuple[Tensor, ...]:
    """The arrays of which a statement says what an element holds."""
    if isinstance(stmt, Store):
        return (stmt.tensor,)
    return tensors_read(stmt.cond) if isinstance(stmt, Assume) else ()


def _holds_already(place: Place, known: Known) -> bool:
    """Whether the element of a store holds its value before it."""
    stmt = place.stmt
    assert isinstance(stmt, Store)
    if has_undef(stmt.value):
        return False
    if any(not proves(place.scope, ~cond) for cond in known.not_told(place)):
        return False
    cases: list[Case] | None = None
    sources = known.held(place)
    for source in sources:
        here = place.scope.where(source.where)
        if proves(here, truth(False)):
            continue
        if source.value is None:
            return False
        value = source.value
        cases = list(known.cases(place, stmt.value)) if cases is None else cases
        if not all(_equal(case.values, case.where, stmt, value, here) for case in cases):
            return False
    return bool(sources)


def _equal(values: Mapping[Operand, Operand], where: Sequence[Cond], stmt: Store, held: Operand, scope: Scope) -> bool:
    here = scope.where(*where)
    value = replaced(stmt.value, values)
    if proves(here, truth(False)) or value is held:
        return True
    if isinstance(value, Expr) and isinstance(held, Expr):
        return proves(here, value.eq(held))
    return same(stmt, value, here) if isinstance(value, Value) else False


def _without(f: Function, gone: set[tuple[int, ...]], origin: dict[int, tuple[int, ...]]) -> Function:
    """The function without the statements at these paths."""
    if not gone:
        return f

    def visit(place: Place) -> Visit[Stmt]:
        stmt = place.stmt
        if place.path in gone:
            return Seq()
        inner: list[Stmt] = []
        for child in place.inside():
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        made = rebuilt(stmt, inner)
        if made is not stmt and id(stmt) in origin:
            origin[id(made)] = origin[id(stmt)]
        return made

    return f.with_body(drive(visit(root_of(f))))


def rebuilt(stmt: Stmt, inner: list[Stmt]) -> Stmt:
    """A statement with other statements inside; what then does nothing is empty."""
    if isinstance(stmt, Seq):
        return seq(*inner)
    if isinstance(stmt, For):
        return Seq() if is_empty(inner[0]) else replace(stmt, body=inner[0])
    if isinstance(stmt, If):
        orelse = inner[1] if len(inner) > 1 and not is_empty(inner[1]) else None
        if not is_empty(inner[0]):
            return If(stmt.cond, inner[0], orelse)
        return Seq() if orelse is None else If(build.negation(stmt.cond), orelse)
    return stmt


def _tidy(f: Function) -> Function:
    """The function without empty loops and branches, and without storage and names that nothing uses."""
    while True:
        used: set[Tensor] = set()
        names: set[Parameter] = set()
        for stmt in statements(f.body):
            used.update(tensors_read(*operands(stmt)))
            names.update(variables(*operands(stmt)))
            if isinstance(stmt, Store):
                used.add(stmt.tensor)
            elif isinstance(stmt, Evaluate):
                used.update((*stmt.reads, *stmt.writes))

        def visit(stmt: Stmt, used: set[Tensor] = used, names: set[Parameter] = names) -> Visit[Stmt]:
            if isinstance(stmt, Allocate) and stmt.tensor not in used:
                return Seq()
            if isinstance(stmt, Let) and stmt.var not in names:
                return Seq()
            inner: list[Stmt] = []
            for child in children(stmt):
                inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
            return rebuilt(stmt, inner) if inner or isinstance(stmt, Seq) else stmt

        new = f.with_body(drive(visit(f.body)))
        if sum(1 for _ in statements(new.body)) == sum(1 for _ in statements(f.body)):
            return new
        f = new


def drop_empty(f: Function) -> Function:
    """The function without the loops that are proved to have no iteration, and without what was computed for them.

    What a loop knows is what stands around it. The proof is by linear forms: it is asked of each loop.
    """

    def leave_out(loop: For, cursor: Cursor) -> Stmt:
        _, extent = range_ends(loop.range)
        return Seq() if cursor.scope.ctx.prove(extent <= 0) else loop

    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return drop_dead(f.with_body(rewritten(f.body, Cursor.root(f), leave={For: (leave_out,)})))

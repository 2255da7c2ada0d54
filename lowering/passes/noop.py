"""Statements that do nothing: dead stores, stores of what is there, and what is left around them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from bound.tensor import Tensor
from bound.tir import build
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.expr.node import Cond, Expr, truth
from lowering.nest.ir import (
    Allocate,
    Assume,
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
    children,
    drive,
    operands,
    replaced,
    statements,
    tensors_read,
    variables,
)
from lowering.passes.known import Case, Known, same
from lowering.passes.places import Entry, Place, Report, places, proof_of, proves, root_of
from lowering.passes.refuted import check_assumptions

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

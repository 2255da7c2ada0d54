"""`remove_assume`: assumptions leave the nest; what the user said is kept beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from bound.tensor import element
from bound.tir.build import negation, together
from bound.tir.reduce import Parameter
from bound.tir.value import parameter
from intset.errors import InputError
from intset.expr.node import Cond, Expr, Var
from intset.expr.text import shown
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import Allocate, Assume, For, Function, If, Let, Requirement, Seq, Stmt, checked_function, seq
from lowering.nest.scope import written_in
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import Visit, drive, statements, tensors_read
from lowering.passes.places import Entry, Place, Report, places, proof_of, proves, root_of
from lowering.passes.stores.reaching_values import Known


def remove_assume(f: Function, report: list[Entry] | None = None) -> Function:
    """Remove the assumptions: those that the dataflow proves are gone, each other one is in `requires`.

    It comes last: passes after it no longer know what was assumed. An assumption that lets storage be read which
    nothing writes stays.

    Parameters
    ----------
    report: gets an `Entry` for each assumption.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_assume")
    check_assumptions(f)
    f = with_checked_claims(f)
    said = Report(f)
    local = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)}
    required: list[Requirement] = []

    def visit(place: Place, names: tuple[Let, ...]) -> Visit[Stmt]:
        stmt = place.stmt
        if isinstance(stmt, Assume):
            lets = permission(stmt.cond)
            if lets is not None and lets[1] in local and not stmt.proved:
                said.say(place.path, False, f"it lets {lets[1].name} be read before it is written")
                return stmt
            if stmt.proved:
                said.say(place.path, True, "it is proved")
            else:
                said.say(place.path, True, "it moves to the requirements")
                required.append(Requirement(stmt.cond, _within(place, names)))
            return Seq()
        inner: list[Stmt] = []
        for child in place.inside():
            inner.append((yield visit(child, names)))
            if isinstance(child.stmt, Let):
                names = (*names, child.stmt)
        if isinstance(stmt, Seq):
            return seq(*inner)
        if isinstance(stmt, For):
            return replace(stmt, body=inner[0])
        if isinstance(stmt, If):
            return If(stmt.cond, inner[0], inner[1] if len(inner) > 1 else None)
        return stmt

    body = drive(visit(root_of(f), ()))
    said.give(report)
    return replace(f, body=body, requires=(*f.requires, *required))


def _within(place: Place, names: tuple[Let, ...]) -> Stmt:
    """The assumption inside the loops and branches around it."""
    made: Stmt = place.stmt
    for branch, holds in reversed(place.guards):
        made = If(branch.cond, made) if holds else If(branch.cond, Seq(), made)
    made = seq(*names, made)
    for loop in reversed(place.loops):
        made = replace(loop, body=made)
    return made


_CHECKED: Final[WeakKeyDictionary[Function, Function]] = WeakKeyDictionary()


def with_checked_claims(f: Function) -> Function:
    """The function in which an assumption is marked as proved only where the dataflow proves it.

    Guarantee: what stays marked follows from the stores of the nest and from assumptions before it in time, each of
    which is proved or the user's word. No assumption is marked that was not.
    """
    if not any(isinstance(stmt, Assume) and stmt.proved for stmt in statements(f.body)):
        return f
    if f not in _CHECKED:
        checked = _checked(f)
        _CHECKED[f] = _CHECKED[checked] = checked
    return _CHECKED[f]


def _checked(f: Function) -> Function:
    known = Known(f)
    refused = {
        place.path
        for place in places(f)
        if isinstance(place.stmt, Assume) and place.stmt.proved and not _follows(f, place, known)
    }
    if not refused:
        return f

    def demote(stmt: Assume, cursor: Cursor) -> Assume:
        return replace(stmt, proved=False) if cursor.path in refused else stmt

    return f.with_body(rewritten(f.body, Cursor.root(f), leave={Assume: (demote,)}))


def _follows(f: Function, place: Place, known: Known) -> bool:
    """Whether an assumption is proved by what the nest does before it."""
    assert isinstance(place.stmt, Assume)
    if has_undef(place.stmt.cond):
        return _is_readable(f, place)
    return known.decides(place, place.stmt.cond) is True


def _is_readable(f: Function, place: Place) -> bool:
    """Whether the element that `c or T[i] == undef()` permits to read holds something wherever c is false."""
    assert isinstance(place.stmt, Assume)
    permitted = permission(place.stmt.cond)
    if permitted is None:
        return False
    unless, tensor, indices = permitted
    held = element(tensor, indices)
    name: Parameter = Var("held") if isinstance(held, Expr) else parameter("held", tensor.dtype)
    probe = Let(name, held)
    body: Stmt = If(together(*(negation(cond) for cond in unless)), probe) if unless else probe

    def put_probe(stmt: Assume, cursor: Cursor) -> Stmt:
        return body if cursor.path == place.path else stmt

    g = f.with_body(rewritten(f.body, Cursor.root(f), leave={Assume: (put_probe,)}))
    at = next(one for one in places(g) if one.stmt is probe)
    sources = Known(g).sources(at).get(held, ())
    return bool(sources) and all(s.kind in ("store", "assume") or proves(at.scope, ~s.where) for s in sources)


def check_assumptions(f: Function) -> Known | None:
    """Refuse an assumption that cannot hold where it stands; the dataflow of the function, if that was asked.

    Raises
    ------
    InputError: one is proved to be false.
    """
    if not any(isinstance(stmt, Assume) for stmt in statements(f.body)):
        return None
    written = written_in(f.body)
    known: Known | None = None
    for place in places(f):
        stmt = place.stmt
        if not isinstance(stmt, Assume) or has_undef(stmt.cond):
            continue
        is_false = False
        if any(t in written for t in tensors_read(stmt.cond)):
            known = known or Known(f)
            is_false = known.refutes(place, stmt.cond)
        elif isinstance(stmt.cond, Cond):
            proof = proof_of(place.scope, ~stmt.cond)
            is_false = bool(proof) and not proof.vacuous
        if is_false:
            raise InputError(f"the assumption {shown(stmt.cond)} is false wherever it is reached")
    return known

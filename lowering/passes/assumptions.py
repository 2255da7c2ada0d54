"""`remove_assume`: assumptions leave the nest; what the user said is kept beside it."""

from __future__ import annotations

from dataclasses import replace

from lowering.nest.ir import Allocate, Assume, For, Function, If, Let, Requirement, Seq, Stmt, checked_function, seq
from lowering.nest.undef import permission
from lowering.nest.walk import Visit, drive, statements
from lowering.passes.claims import with_checked_claims
from lowering.passes.places import Entry, Place, Report, root_of
from lowering.passes.refuted import check_assumptions


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

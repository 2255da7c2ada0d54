"""Assumptions: removal, refutation, and verification of the mark "proved".

Anybody can write that mark. It is verified when a nest is parsed or printed, and before `remove_assume` drops a marked
assumption without a requirement.
"""

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
from intset.expr.printer import shown
from intset.regions.shape import Account
from lowering.nest.driver import Cursor, cursor_of, cursors, rewritten, with_statements
from lowering.nest.ir import Allocate, Assume, Function, If, Let, Requirement, Seq, Stmt, checked_function, seq
from lowering.nest.scope import proof_of, proves, written_in
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import statements, tensors_read
from lowering.passes.reports import Entry, PassReport
from lowering.passes.stores.reaching_values import ReachingValues


def remove_assume(f: Function, report: list[Entry] | None = None) -> Function:
    """Remove assumptions: proved ones disappear, each other one moves to `requires`.

    Run it last: later passes lose these facts. An assumption that permits to read allocated storage
    that nothing writes stays.

    Guarantee: `requires` lists every unproved assumption that was removed.

    Parameters
    ----------
    report: receives one `Entry` per assumption.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_assume")
    check_assumptions(f)
    f = with_checked_claims(f)
    decisions = PassReport(f)
    local = {stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)}
    required: list[Requirement] = []

    def remove(stmt: Assume, cursor: _WithNames) -> Stmt:
        permitted = permission(stmt.cond)
        if permitted is not None and permitted[1] in local and not stmt.proved:
            decisions.say(cursor.path, False, f"it lets {permitted[1].name} be read before it is written")
            return stmt
        decisions.say(cursor.path, True, "it is proved" if stmt.proved else "it moves to the requirements")
        if not stmt.proved:
            required.append(Requirement(stmt.cond, _within(stmt, cursor)))
        return Seq()

    body = rewritten(f.body, _WithNames.root(f).moved(names=()), leave={Assume: (remove,)})
    decisions.give(report)
    return replace(f, body=body, requires=(*f.requires, *required))


class _WithNames(Cursor):
    """A cursor with the names in sight."""

    __slots__ = ("names",)
    names: tuple[Let, ...]

    def after(self, old: Stmt, new: Stmt) -> _WithNames:
        here = super().after(old, new)
        return here.moved(names=(*self.names, old)) if isinstance(old, Let) else here


def _within(assumption: Stmt, cursor: _WithNames) -> Stmt:
    """An assumption inside the loops, names and branches around it."""
    nest = assumption
    for branch, holds in reversed(cursor.branches):
        nest = If(branch.cond, nest) if holds else If(branch.cond, Seq(), nest)
    nest = seq(*cursor.names, nest)
    for loop in reversed(cursor.loops):
        nest = replace(loop, body=nest)
    return nest


# -- claims --------------------------------------------------------------------------------------------------------


_CHECKED: Final[WeakKeyDictionary[Function, Function]] = WeakKeyDictionary()


def with_checked_claims(f: Function) -> Function:
    """Remove the mark "proved" of assumptions that the dataflow does not prove.

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
    reaching = ReachingValues(f)
    demoted = {
        cursor.path: replace(cursor.stmt, proved=False)
        for cursor in cursors(f)
        if isinstance(cursor.stmt, Assume) and cursor.stmt.proved and not _follows(f, cursor.stmt, cursor, reaching)
    }
    return with_statements(f, demoted)


def _follows(f: Function, claim: Assume, cursor: Cursor, reaching: ReachingValues) -> bool:
    """Whether preceding statements prove an assumption."""
    if has_undef(claim.cond):
        return _is_readable(f, claim, cursor)
    return reaching.decides(cursor, claim.cond) is True


def _is_readable(f: Function, claim: Assume, cursor: Cursor) -> bool:
    """Whether the element that `c or T[i] == undef()` permits to read holds something wherever c is false."""
    permitted = permission(claim.cond)
    if permitted is None:
        return False
    unless, tensor, indices = permitted
    contents = element(tensor, indices)
    name: Parameter = Var("held") if isinstance(contents, Expr) else parameter("held", tensor.dtype)
    probe = Let(name, contents)
    body: Stmt = If(together(*(negation(cond) for cond in unless)), probe) if unless else probe
    g = with_statements(f, {cursor.path: body})
    at = cursor_of(g, probe)
    sources = ReachingValues(g).flow.by_element(at).get(contents, ())
    return bool(sources) and all(s.kind in ("store", "assume") or proves(at.scope, ~s.where) for s in sources)


# -- refuted assumptions ---------------------------------------------------------------------------------------------


def check_assumptions(f: Function, account: Account | None = None) -> ReachingValues | None:
    """Refuse a nest with an assumption that is proved false where it stands.

    Returns
    -------
    The reaching values of the function, if they were asked.

    Raises
    ------
    InputError: an assumption is proved false.
    """
    if not any(isinstance(stmt, Assume) for stmt in statements(f.body)):
        return None
    written = written_in(f.body)
    reaching: ReachingValues | None = None
    for cursor in cursors(f):
        stmt = cursor.stmt
        if not isinstance(stmt, Assume) or has_undef(stmt.cond):
            continue
        is_false = False
        if any(t in written for t in tensors_read(stmt.cond)):
            reaching = reaching or ReachingValues(f, account)
            is_false = reaching.refutes(cursor, stmt.cond)
        elif isinstance(stmt.cond, Cond):
            proof = proof_of(cursor.scope, ~stmt.cond)
            is_false = bool(proof) and not proof.vacuous
        if is_false:
            raise InputError(f"the assumption {shown(stmt.cond)} is false wherever it is reached")
    return reaching

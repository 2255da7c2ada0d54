"""Assumptions marked "proved": which of them the dataflow proves.

A mark is a claim like any other, which anybody can type. It is checked where a nest is read from text, where it is
printed, and where an assumption would leave the nest without a requirement.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from weakref import WeakKeyDictionary

from bound.tensor import element
from bound.tir.build import negation, together
from bound.tir.reduce import Parameter
from bound.tir.value import parameter
from intset.expr.node import Expr, Var
from lowering.nest.driver import Cursor, rewritten
from lowering.nest.ir import Assume, Function, If, Let, Stmt
from lowering.nest.undef import has_undef, permission
from lowering.nest.walk import statements
from lowering.passes.known import Known
from lowering.passes.places import Place, places, proves

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

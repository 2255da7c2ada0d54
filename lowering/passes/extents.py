"""`reduce_loop_extents`: loops from the first to the last iteration that does something."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import intset
from bound.tir.build import together
from bound.tir.value import Truth
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import opaque_terms, size
from intset.linear.canonical import Normalizer
from lowering.nest.ir import Allocate, For, Function, If, Let, Seq, Stmt, checked_function, is_empty, seq
from lowering.nest.ranges import range_between
from lowering.nest.scope import Scope
from lowering.nest.text import range_text
from lowering.nest.walk import Visit, drive, range_ends, replaced
from lowering.passes.places import (
    MOVABLE,
    Entry,
    Place,
    Report,
    bound_in,
    parts_of_condition,
    proves,
    root_of,
)
from lowering.passes.refuted import check_assumptions

Names = dict[Any, Any]  # what stands for what
MAX_SIZE = 24  # operations in an end of a loop
MAX_LEAVES = 64  # statements in a loop that are looked at


def reduce_loop_extents(f: Function, report: list[Entry] | None = None) -> Function:
    """The function whose loops run over the hull of the iterations that do something; what that implies is not tested.

    A branch does nothing where its condition on integers is false. The ends of a loop may use the loops around it.

    Parameters
    ----------
    report: gets an `Entry` for each loop that is considered.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "reduce_loop_extents")
    check_assumptions(f)
    said = Report(f)
    body = drive(_visit(root_of(f), root_of(f).scope, False, said))
    said.give(report)
    return f.with_body(body)


def _visit(place: Place, scope: Scope, is_smaller: bool, said: Report) -> Visit[Stmt]:
    """The statement, where its loops may have less to do than they had (`scope` knows that)."""
    stmt = place.stmt
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in place.inside():
            parts.append((yield _visit(inner, scope, is_smaller, said)))
            scope = scope.after(inner.stmt)
        return seq(*parts)
    inside = list(place.inside())
    if isinstance(stmt, For):
        loop = _reduced(place, scope, said)
        if loop is None:
            return Seq()
        body = yield _visit(inside[0], scope.inside(loop), is_smaller or loop is not stmt, said)
        return Seq() if is_empty(body) else replace(loop, body=body)
    if isinstance(stmt, If):
        then: Stmt = yield _visit(inside[0], scope.then(stmt), is_smaller, said)
        if stmt.orelse is not None:
            orelse: Stmt = yield _visit(inside[1], scope.otherwise(stmt), is_smaller, said)
            if is_smaller and isinstance(stmt.cond, Cond):
                if proves(scope, stmt.cond):
                    return then
                if proves(scope, ~stmt.cond):
                    return orelse
            return If(stmt.cond, then, orelse)
        if not is_smaller:
            return replace(stmt, then=then)
        kept = _needed(parts_of_condition(stmt.cond), scope)
        return If(together(*kept), then) if kept else then
    return stmt


def _needed(parts: list[Truth], scope: Scope) -> list[Truth]:
    kept = []
    for part in parts:
        if not proves(scope, part):
            kept.append(part)
            scope = scope.where(part)
    return kept


def _reduced(place: Place, scope: Scope, said: Report) -> For | None:
    """The loop with less to do, `None` where that is nothing."""
    loop = place.stmt
    assert isinstance(loop, For)
    if loop.kind not in MOVABLE:
        said.say(place.path, False, f"a loop that is {loop.kind} stays as it is")
        return loop
    if loop.carried:
        said.say(place.path, False, "the loop carries values from one iteration to the next")
        return loop
    hull = _hull(loop, scope, [around.var for around in place.loops])
    if isinstance(hull, str):
        said.say(place.path, False, hull)
        return loop
    if hull is None:
        said.say(place.path, True, "no iteration does anything")
        return None
    low, extent = range_ends(loop.range)
    first, end = hull
    is_first, is_last = proves(scope, first.eq(low)), proves(scope, end.eq(low + extent))
    if is_first and is_last:
        said.say(place.path, False, "the first and the last iteration do something")
        return loop
    # the ends of what does something say nothing where nothing does: the loop runs nowhere it did not
    first = low if is_first else first if proves(scope, first >= low) else maximum(first, low)
    end = low + extent if is_last else end if proves(scope, end <= low + extent) else minimum(end, low + extent)
    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        shorter = range_between(scope.ctx.simplify(first), scope.ctx.simplify(end))
    said.say(place.path, True, f"only iterations in {range_text(shorter)} do something")
    return replace(loop, range=shorter)


def _hull(loop: For, scope: Scope, around: list[Var]) -> tuple[Expr, Expr] | str | None:
    """The first iteration that does something and the one after the last; a reason why there is none to be found."""
    found: list[tuple[Expr, Expr]] = []
    stack: list[tuple[Stmt, Scope, Names]] = [(loop.body, scope.inside(loop), {})]
    own = bound_in(loop.body)
    leaves = 0
    while stack:
        stmt, here, names = stack.pop()
        if isinstance(stmt, Seq):
            for inner in stmt.stmts:
                stack.append((inner, here, names))
                if isinstance(inner, Let):
                    names = {**names, inner.var: replaced(inner.value, names)}
        elif isinstance(stmt, For):
            low, extent = (replaced(e, names) for e in range_ends(stmt.range))
            stack.append((stmt.body, here.inside(replace(stmt, range=Range(low, extent), carried=())), names))
        elif isinstance(stmt, If):
            cond = replaced(stmt.cond, names)
            stack.append((stmt.then, here.where(*_on_integers(cond)), names))
            if stmt.orelse is not None:
                stack.append((stmt.orelse, here.otherwise(replace(stmt, cond=cond)), names))
        elif not isinstance(stmt, (Let, Allocate)):
            leaves += 1
            ends = _ends(loop.var, here, around, own)
            if isinstance(ends, str):
                return ends
            if ends is not None and not any(ends[0] is a and ends[1] is b for a, b in found):
                found.append(ends)
            if leaves > MAX_LEAVES:
                return f"the loop has more than {MAX_LEAVES} statements to look at: the budget is spent"
    if not found:
        return None
    first, end = found[0]
    for low, stop in found[1:]:
        first = _least(first, low, scope)
        end = _greatest(end, stop, scope)
    return first, end


def _on_integers(cond: Truth) -> list[Cond]:
    return [part for part in parts_of_condition(cond) if isinstance(part, Cond) and not opaque_terms(part)]


def _ends(var: Var, here: Scope, around: list[Var], own: set[Var]) -> tuple[Expr, Expr] | str | None:
    """The first value of a variable at a place and the one after the last; `None` where the place is not reached."""
    found = here.ctx.value_set(var, keep=tuple(around))
    if found.is_empty:
        return None
    low, high = found.min, found.max
    for end in (low, high):
        if not isinstance(end, Expr) or size(end) > MAX_SIZE or opaque_terms(end) or own.intersection(end.free_vars()):
            return "the first and the last iteration that does something are not known as short expressions"
    assert isinstance(low, Expr) and isinstance(high, Expr)
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return here.ctx.simplify(low), _after(high)


def _after(high: Expr) -> Expr:
    """`high + 1`, into the operands of a minimum or maximum."""
    if high.op is ops.MIN:
        return minimum(_after(high.args[0]), _after(high.args[1]))
    if high.op is ops.MAX:
        return maximum(_after(high.args[0]), _after(high.args[1]))
    return _plus(high)


def _plus(e: Expr) -> Expr:
    return Normalizer({}).form(e + 1).expr()


def _least(a: Expr, b: Expr, scope: Scope) -> Expr:
    return a if proves(scope, a <= b) else b if proves(scope, b <= a) else minimum(a, b)


def _greatest(a: Expr, b: Expr, scope: Scope) -> Expr:
    return a if proves(scope, a >= b) else b if proves(scope, b >= a) else maximum(a, b)

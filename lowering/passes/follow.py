"""Loop ends that follow a guard: what every iteration would test is decided once, before the loop begins.

    for x in [0, 8):                              for x in [0, minimum(8, 20 - x0)):
        if x0 + x < 20 and y < x:       becomes       ...          (and [y + 1, ...) for the second part)
            ...

A part of the guard moves into the ends if it is linear in the loop variable and reads no data; what does not mention
the variable moves in front of the loop. The rest stays. Loops on threads and unrolled ones keep their ends.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

import intset
from bound.schedule import simple
from bound.tir.build import all_of
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.node import Cond, Expr, Var, constant_value
from intset.expr.range import Range
from intset.expr.walk import chain, conjuncts, opaque_terms
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from lowering.nest.ir import Allocate, For, Function, If, Let, LoopKind, Seq, Stmt, seq
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Visit, drive, range_ends
from lowering.passes.simplify import shortened

FREE: Final = (LoopKind.SERIAL, LoopKind.PARALLEL, LoopKind.VECTORIZED)
MOST: Final = 12  # ends that meet in one loop: more are tested inside
# What each comparison of `left - right` with 0 says, as pairs (sign, offset): sign * (left - right) + offset >= 0.
_SAYS: Final[dict[ops.Op, tuple[tuple[int, int], ...]]] = {
    ops.GE: ((1, 0),),
    ops.GT: ((1, -1),),
    ops.LE: ((-1, 0),),
    ops.LT: ((-1, -1),),
    ops.EQ: ((1, 0), (-1, 0)),
}


@dataclass
class Parts:
    """The parts of a guard: in front of the loop, ends of the loop (the last one included), inside."""

    before: list[Cond] = field(default_factory=list)
    lows: list[Expr] = field(default_factory=list)
    highs: list[Expr] = field(default_factory=list)
    inside: list[Cond] = field(default_factory=list)


def follow_guards(f: Function, kept: Collection[Var] = ()) -> Function:
    """The same function with guards in the ends of loops where they can stand there.

    Parameters
    ----------
    kept: loops that keep their ends.
    """
    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return f.with_body(drive(_visit(f.body, scope_of(f), kept)))


def _visit(stmt: Stmt, scope: Scope, kept: Collection[Var]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, scope, kept)))
            scope = scope.after(inner)
        return seq(*parts)
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, scope.then(stmt), kept)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, scope.otherwise(stmt), kept))
        return If(stmt.cond, then, orelse)
    if not isinstance(stmt, For):
        return stmt
    body = _under_one_guard((yield _visit(stmt.body, scope.inside(stmt), kept)))
    loop = _until_vacant(replace(stmt, body=body))
    if not isinstance(body, If) or body.orelse is not None or not isinstance(body.cond, Cond):
        return loop
    if loop.kind not in FREE or loop.carried or loop.var in kept:
        return loop
    return _followed(loop, body.cond, body.then, scope)


def _under_one_guard(body: Stmt) -> Stmt:
    """A body of which all parts stand under the same guard, under that."""
    parts = body.stmts if isinstance(body, Seq) else ()
    guarded = [part for part in parts if isinstance(part, If) and part.orelse is None]
    rest = [part for part in parts if isinstance(part, (Let, Allocate))]
    if len(guarded) < 2 or len(guarded) + len(rest) < len(parts):
        return body
    cond = guarded[0].cond
    if not isinstance(cond, Cond) or opaque_terms(cond) or any(part.cond is not cond for part in guarded):
        return body
    if any(isinstance(part, Let) and part.var in cond.free_vars() for part in rest):
        return body
    return If(cond, seq(*(part.then if isinstance(part, If) else part for part in parts)))


def _until_vacant(loop: For) -> For:
    """A loop without its last iterations, where all loops in them are empty: whole tiles beyond the end of an axis."""
    low, extent = range_ends(loop.range)
    first, count = constant_value(low), constant_value(extent)
    inner = loop.body.stmts if isinstance(loop.body, Seq) else (loop.body,)
    loops = [part for part in inner if isinstance(part, For)]
    if first is None or count is None or loop.carried or loop.kind not in FREE or not loops:
        return loop
    if any(not isinstance(part, (For, Let, Allocate)) for part in inner):
        return loop
    ends = [_last_in(part, loop.var) for part in loops]
    last = None if None in ends else max(end for end in ends if end is not None)
    if last is None or last >= first + count - 1:
        return loop
    return replace(loop, range=Range(low, max(last - first + 1, 0)))


def _last_in(loop: For, var: Var) -> int | None:
    """A value of `var` beyond which a loop is empty."""
    known = Normalizer({})
    found: list[int] = []
    for part in chain(ops.MIN, range_ends(loop.range)[1]):
        form = known.form(part)
        step = form.terms.get(var, 0)
        if step < 0 and len(form.terms) == 1:  # const + step * var >= 1
            found.append((form.const - 1) // -step)
    return min(found, default=None)


def _followed(loop: For, guard: Cond, body: Stmt, scope: Scope) -> Stmt:
    parts = _parts(guard, loop.var)
    if not (parts.before or parts.lows or parts.highs):
        return loop
    low, extent = range_ends(loop.range)
    first, end = maximum(low, *parts.lows), minimum(simple.add(low, extent), *(high + 1 for high in parts.highs))
    new_low, new_end = shortened(first, scope), shortened(end, scope)
    new_extent = new_end if constant_value(new_low) == 0 else simple.sub(new_end, new_low)
    inner = If(all_of(*parts.inside), body) if parts.inside else body
    made: Stmt = replace(loop, range=Range(new_low, _positive(new_extent)), body=inner)
    return If(all_of(*parts.before), made) if parts.before else made


def _positive(extent: Expr) -> Expr:
    """A constant extent below 0 is 0."""
    return extent if not extent.is_const or extent.data >= 0 else extent - extent.data


def _parts(guard: Cond, var: Var) -> Parts:
    found = Parts()
    for cond in conjuncts(guard):
        if opaque_terms(cond):
            found.inside.append(cond)
        elif var not in cond.free_vars():
            found.before.append(cond)
        else:
            ends = _ends(cond, var)
            if ends is None or len(found.lows) + len(found.highs) + len(ends) > MOST:
                found.inside.append(cond)
                continue
            for is_low, end in ends:
                (found.lows if is_low else found.highs).append(end)
    return found


def _ends(cond: Cond, var: Var) -> list[tuple[bool, Expr]] | None:
    """The ends that a condition on `var` is, each with whether it is the lower one; `None` where it is none."""
    if cond.op not in _SAYS:
        return None
    left, right = cond.args
    assert isinstance(left, Expr) and isinstance(right, Expr)
    known = Normalizer({})
    form = known.form(left).minus(known.form(right))
    step = form.terms.get(var, 0)
    rest = Linear(form.const, {e: k for e, k in form.terms.items() if e is not var})
    if step == 0 or any(var in e.free_vars() for e in rest.terms):
        return None
    ends = []
    for sign, offset in _SAYS[cond.op]:
        k, r = sign * step, rest.scale(sign).shift(offset)  # k * var + r >= 0
        if k > 0:
            low = r.scale(-1).expr() if k == 1 else (r.scale(-1).shift(k - 1).expr() // k)
            ends.append((True, low))
        else:
            ends.append((False, r.expr() if k == -1 else r.expr() // -k))
    return ends

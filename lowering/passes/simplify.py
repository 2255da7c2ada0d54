"""Simplification rules from ranges, conditions and assertions: loops, branches, claims and index expressions.

Other passes compose single rules; `plain` applies all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import intset
from bound.tir import walk
from bound.tir.build import negation, together
from bound.tir.machine_ranges import fits_int64
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import Part
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Node, constant_value, make, truth
from intset.expr.range import Range
from intset.expr.walk import conjuncts, is_small, opaque_terms, postorder, rewrite, size
from intset.simplify import Pricing, simplified
from intset.simplify.irreducible import settled
from intset.simplify.width import no_wider
from lowering.nest.driver import Cursor, Descent, StmtRules, each_operand, rewritten
from lowering.nest.ir import Assert, Assume, For, Function, If, Seq, Stmt, is_empty, tensor_of
from lowering.nest.scope import Scope, written_in
from lowering.nest.text import end_of, range_between
from lowering.nest.walk import range_ends, substitute, tensors_read
from lowering.passes.values.integers import Whole, map_integers

MAX_NODES: Final = 200  # larger expressions are left as they are
INDEX_BITS: Final = 32  # simplification keeps indices within this width
_MIRRORED: Final = {ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE, ops.EQ: ops.EQ, ops.NE: ops.NE}


def plain(f: Function) -> Function:
    """Apply the rules of this module: what ranges, conditions and assertions alone tell.

    Guarantee: parameters end with the same elements; no statement runs that did not.
    """
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return f.with_body(rewritten(f.body, Cursor.root(f), ENTER, LEAVE))


# -- loops -----------------------------------------------------------------------------------------------------------


def shorten_ends(loop: For, cursor: Cursor) -> For:
    """Write the ends of a loop with fewer operations."""
    low, extent = (shortened(e, cursor.scope) for e in range_ends(loop.range))
    return replace(loop, range=_short_range(low, extent, cursor.scope))


def drop_empty_loop(loop: For, cursor: Cursor) -> Stmt:
    """Drop a loop of nonpositive constant extent."""
    count = constant_value(range_ends(loop.range)[1])
    return Seq() if count is not None and count <= 0 else loop


def inline_single_iteration(loop: For, cursor: Cursor) -> Stmt:
    """Replace a loop of one iteration by its body.

    The loop stays if it carries variables, or if its body stores to elements that its start reads.
    """
    low, extent = range_ends(loop.range)
    if constant_value(extent) != 1 or loop.carried or set(tensors_read(low)) & written_in(loop.body):
        return loop
    return Seq((substitute(loop.body, {loop.var: low}),))


def drop_idle_loop(loop: For, cursor: Descent) -> Stmt:
    """Drop a loop with nothing in it."""
    return Seq() if is_empty(loop.body) else loop


def _short_range(low: Expr, extent: Expr, scope: Scope) -> Range:
    """The range, with the extent from its end where that end is shorter than what the extent tells."""
    count = constant_value(extent)
    if count is not None or constant_value(low) == 0:
        return Range(low, extent if count is None or count >= 0 else 0)
    end = shortened(low + extent, scope)
    return range_between(low, end) if size(end) < size(end_of(low, extent)) else Range(low, extent)


# -- branches and claims ---------------------------------------------------------------------------------------------


def decide_branch(branch: If, cursor: Cursor) -> Stmt:
    """Replace a branch by the side that is always taken; else shorten its condition and drop what always holds."""
    if not isinstance(branch.cond, Cond):
        return branch
    undecided: list[Cond] = []
    here = cursor.scope
    for part in conjuncts(branch.cond):
        short = shortened(part, here)
        if here.ctx.prove(short):
            continue
        if here.ctx.prove(~short):
            return Seq() if branch.orelse is None else Seq((branch.orelse,))
        undecided.append(short)
        here = here.where(short)
    return replace(branch, cond=together(*undecided)) if undecided else Seq((branch.then,))


def join_nested_branches(branch: If, cursor: Cursor) -> If:
    """Join a branch with the only statement inside, a branch too, where both conditions are on integers."""
    inner = branch.then
    if branch.orelse is not None or not isinstance(inner, If) or inner.orelse is not None:
        return branch
    if not isinstance(branch.cond, Cond) or not isinstance(inner.cond, Cond):
        return branch
    return If(together(branch.cond, inner.cond), inner.then)


def drop_idle_branch(branch: If, cursor: Descent) -> Stmt:
    """Drop empty sides of a branch."""
    orelse = None if branch.orelse is None or is_empty(branch.orelse) else branch.orelse
    if not is_empty(branch.then):
        return branch if orelse is branch.orelse else If(branch.cond, branch.then)
    return Seq() if orelse is None else If(negation(branch.cond), orelse)


def drop_proved_parts(stmt: Assert, cursor: Cursor) -> Stmt:
    """Drop proved parts of an assertion on data. Assertions on sizes stay: they check declarations."""
    if not any(tensor_of(term.data) is not None for term in opaque_terms(stmt.cond)):
        return stmt
    parts = [part for part in conjuncts(stmt.cond) if not cursor.ctx.prove(part)]
    return replace(stmt, cond=logical_and(*parts)) if parts else Seq()


def drop_implied_assumption(stmt: Assume, cursor: Cursor) -> Stmt:
    """Drop an implied assumption."""
    return Seq() if isinstance(stmt.cond, Cond) and cursor.ctx.prove(stmt.cond) else stmt


def _shorten_operand(operand: Part, cursor: Cursor) -> Part:
    return shortened(operand, cursor.scope)


ENTER: Final[StmtRules[Cursor]] = {
    Stmt: (each_operand(_shorten_operand),),
    For: (shorten_ends, drop_empty_loop, inline_single_iteration),
    If: (decide_branch,),
    Assert: (drop_proved_parts,),
    Assume: (drop_implied_assumption,),
}
LEAVE: Final[StmtRules[Cursor]] = {For: (drop_idle_loop,), If: (join_nested_branches, drop_idle_branch)}


# -- operands --------------------------------------------------------------------------------------------------------


def shortened(operand: Part, scope: Scope) -> Part:
    """An operand whose integer parts are written with fewer operations where the linear form knows how."""

    def change(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        if not part.args or not is_small(MAX_NODES, (part,)):
            return part
        ctx = scope.where(*conditions).ctx
        if isinstance(part, Cond):
            seen: Cond | None = settled(part, ctx.frame.known)
            if seen is not None:
                return seen
            with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
                if ctx.prove(part):
                    return truth(True)
                if ctx.prove(~part):
                    return truth(False)
        new = shorter(part, ctx)
        return new if new is part or fits_int64(new) or not fits_int64(part) else part

    return _without_choice(map_integers(operand, change))


def _without_choice(operand: Part) -> Part:
    """A value without selections whose condition is decided."""
    decided: dict[Operand, Operand] = {}
    below: Iterable[Operand] = walk.nodes(operand) if isinstance(operand, Value) else ()
    for node in below:
        if node.op is ValueOp.SELECT and node.args[0].op is ops.BOOL:
            decided[node] = walk.rewrite(node.args[1 if node.args[0].data else 2], dict(decided))
    return walk.rewrite(operand, decided) if decided else operand


def shorter(e: Whole, ctx: Context) -> Whole:
    """`e` simplified; of equally cheap integers the one in the canonical order of terms, which is easier to read.

    No step of the result needs a wider type than those of `e`.
    """
    if isinstance(e, Cond):
        return mirrored(_walked(e, ctx))
    ordered = ctx.canonical(e)
    known, prices = ctx.frame.known, Pricing()
    is_cheapest = settled(ordered, known) is ordered and prices.price(ordered) <= prices.price(e)
    if is_cheapest and no_wider(ordered, e, known, INDEX_BITS):
        return ordered
    new = _walked(e, ctx)
    return ordered if prices.price(ordered) == prices.price(new) else new


def _walked(e: Whole, ctx: Context) -> Any:
    """Simplify in one walk.

    `ctx.simplify` repeats the walk until nothing changes, which doubles the cost and hardly ever finds more.
    """
    frame = ctx.frame.where_defined((e,))
    seen = settled(e, frame.known)
    if seen is not None:
        return seen
    key = ("walked", e, INDEX_BITS)
    found = frame.answers.get(key)
    return frame.remember(key, simplified(e, frame.known, bits=INDEX_BITS)) if found is None else found


def mirrored(cond: Cond) -> Cond:
    """The condition with constants on the right of its comparisons."""
    new: dict[Node, Node] = {}
    for node in postorder((cond,)):
        if node.op in _MIRRORED and constant_value(node.args[0]) is not None and constant_value(node.args[1]) is None:
            new[node] = make(_MIRRORED[node.op], (node.args[1], node.args[0]))
    return rewrite(cond, new) if new else cond


def difference(index: Expr, low: Expr, scope: Scope) -> Expr:
    """`index - low`, simplified."""
    return index if constant_value(low) == 0 else shorter(index - low, scope.ctx)

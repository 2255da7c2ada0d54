"""Simplification: loops of one iteration, conditions that always or never hold, shorter indices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import intset
from bound.tir import walk
from bound.tir.build import together, truth_value
from bound.tir.machine_ranges import fits_int64
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Truth, Value, ValueOp
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
from lowering.nest.ir import Assert, Assume, For, Function, If, Seq, Stmt, is_empty, seq, tensor_of
from lowering.nest.scope import Scope, scope_of, written_in
from lowering.nest.text import end_of, range_between
from lowering.nest.walk import Visit, drive, map_operands, range_ends, tensors_read
from lowering.passes.values.integers import Whole, map_integers

MAX_NODES: Final = 200  # larger expressions are left as they are
INDEX_BITS: Final = 32  # the width that indices are to fit where they do
_MIRRORED: Final = {ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE, ops.EQ: ops.EQ, ops.NE: ops.NE}


def plain(f: Function) -> Function:
    """What ranges, conditions and assertions alone tell; see `simplify`."""
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return f.with_body(drive(_visit(f.body, scope_of(f), {})))


def _visit(stmt: Stmt, scope: Scope, known: Mapping[Parameter, Operand]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts = []
        for inner in stmt.stmts:
            part = yield _visit(inner, scope, known)
            scope = scope.after(part)
            parts.append(part)
        return seq(*parts)
    if isinstance(stmt, For):
        made: Stmt = yield _loop(stmt, scope, known)
        return made
    if isinstance(stmt, If):
        made = yield _branch(stmt, scope, known)
        return made
    if isinstance(stmt, Assert):
        return _check(stmt, scope, known)
    if isinstance(stmt, Assume):
        return _assumed(stmt, scope, known)
    return map_operands(stmt, lambda e: shortened(walk.substitute(e, known), scope))


def _check(stmt: Assert, scope: Scope, known: Mapping[Parameter, Operand]) -> Stmt:
    """An assertion: on data, left out where it is known to hold; on sizes, what these declare is what it checks."""
    cond = walk.substitute(stmt.cond, known)
    if not any(tensor_of(term.data) is not None for term in opaque_terms(cond)):
        return stmt if cond is stmt.cond else replace(stmt, cond=cond)
    parts = [part for part in conjuncts(cond) if not scope.ctx.prove(part)]
    return replace(stmt, cond=logical_and(*parts)) if parts else Seq()


def _assumed(stmt: Assume, scope: Scope, known: Mapping[Parameter, Operand]) -> Stmt:
    """An assumption, left out where it follows from what is known."""
    new = map_operands(stmt, lambda e: walk.substitute(e, known))
    return Seq() if isinstance(new.cond, Cond) and scope.ctx.prove(new.cond) else new


def _loop(loop: For, scope: Scope, known: Mapping[Parameter, Operand]) -> Visit[Stmt]:
    body: Stmt
    low, extent = (shortened(walk.substitute(e, known), scope) for e in range_ends(loop.range))
    count = constant_value(extent)
    if count is not None and count <= 0:
        return Seq()
    changed = written_in(loop.body)
    if count == 1 and not loop.carried and not any(t in changed for t in tensors_read(low)):
        body = yield _visit(loop.body, scope, {**known, loop.var: low})
        return body
    new = replace(loop, range=_short_range(low, extent, scope))
    body = yield _visit(loop.body, scope.inside(new), known)
    return Seq() if is_empty(body) else replace(new, body=body)


def _short_range(low: Expr, extent: Expr, scope: Scope) -> Range:
    """The range, with the extent from its end where that end is shorter than what the extent tells."""
    if constant_value(low) == 0 or extent.is_const:
        return Range(low, extent)
    end = shortened(low + extent, scope)
    return range_between(low, end) if size(end) < size(end_of(low, extent)) else Range(low, extent)


def _branch(stmt: If, scope: Scope, known: Mapping[Parameter, Operand]) -> Visit[Stmt]:
    cond = truth_value(walk.substitute(stmt.cond, known))
    if isinstance(cond, Cond):
        parts: list[Cond] = []
        here = scope
        for part in conjuncts(cond):
            short = shortened(part, here)
            if here.ctx.prove(short):
                continue
            if here.ctx.prove(~short):
                other: Stmt = Seq() if stmt.orelse is None else (yield _visit(stmt.orelse, scope, known))
                return other
            parts.append(short)
            here = here.where(short)
        if not parts:
            only: Stmt = yield _visit(stmt.then, scope, known)
            return only
        cond = together(*parts)
    new = If(cond, stmt.then, stmt.orelse)
    then = yield _visit(stmt.then, scope.then(new), known)
    orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, scope.otherwise(new), known))
    if orelse is None and isinstance(then, If) and then.orelse is None and _integer_conditions(cond, then.cond):
        return If(together(cond, then.cond), then.then)
    return Seq() if is_empty(then) and orelse is None else If(cond, then, orelse)


def _integer_conditions(*conditions: Truth) -> bool:
    return all(isinstance(cond, Cond) for cond in conditions)


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
    """`e` as `ctx.simplify` has it after one walk. That repeats it until nothing changes, which costs as much again and
    finds hardly ever anything."""
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

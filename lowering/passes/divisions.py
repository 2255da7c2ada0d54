"""`lower_divisions`: every floor division of a nest as a machine operation, under what is known where it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from bound.tir import walk
from bound.tir.walk import Part
from intset.context import Context
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.walk import postorder
from lowering.division import Lowered, lower_division
from lowering.nest.ir import Allocate, Assert, For, Function, If, Seq, Stmt, checked_function
from lowering.nest.scope import Scope, scope_of
from lowering.nest.walk import Visit, drive, map_operands
from lowering.passes.integers import map_integers

Note: TypeAlias = Callable[[Lowered], object]  # told of every expression that is lowered


def lower_divisions(f: Function, bits: int = 64) -> Function:
    """The function with the divisions of all indices, conditions and integer values lowered.

    Parameters
    ----------
    f: the nest. What a place knows is: the ranges of the loops around it, the conditions around it, the assertions
        above it, the facts of `f.ctx`, and what the variables carry.
    bits: the width in which indices are computed; each must be representable in it. What depends on data is computed
        in 64 bits.
    """
    checked_function(f, "lower_divisions")
    return f.with_body(drive(_visit(f.body, scope_of(f), bits, lambda _: None)))


def lowered_parts(f: Function, bits: int = 64) -> tuple[Lowered, ...]:
    """What `lower_divisions` does to each expression with a division, each once.

    It says why and, where a form has to be corrected, what is missing where the expression stands. The conditions of
    assertions are not among them: they are lowered without the facts that they check.
    """
    found: list[Lowered] = []
    drive(_visit(f.body, scope_of(f), bits, found.append))
    return tuple({(one.asked[0], one.expr): one for one in found if one.steps}.values())


def _visit(stmt: Stmt, scope: Scope, bits: int, note: Note) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts = []
        for inner in stmt.stmts:
            parts.append((yield _visit(inner, scope, bits, note)))
            scope = scope.after(inner)
        return Seq(tuple(parts))
    if isinstance(stmt, For):
        body = yield _visit(stmt.body, scope.inside(stmt), bits, note)
        return replace(map_operands(stmt, lambda e: lowered(e, scope, bits, note)), body=body)
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, scope.then(stmt), bits, note)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, scope.otherwise(stmt), bits, note))
        return If(lowered(stmt.cond, scope, bits, note), then, orelse)
    if isinstance(stmt, Assert):
        return Assert(_unaided(stmt.cond, bits), stmt.message)
    if isinstance(stmt, Allocate):  # nothing computes what its padding says
        new = map_operands(replace(stmt, padding=None), lambda e: lowered(e, scope, bits, note))
        return replace(new, padding=stmt.padding)
    return map_operands(stmt, lambda e: lowered(e, scope, bits, note))


def _unaided(cond: Cond, bits: int) -> Cond:
    """The condition of an assertion lowered without what its variables declare: that is what it checks."""
    plain = {var: Var(var.name) for var in cond.free_vars()}
    inside = lower_division(walk.substitute(cond, plain), Context(), bits).expr
    answer: Cond = walk.substitute(inside, {new: old for old, new in plain.items()})
    return answer


def lowered(operand: Part, scope: Scope, bits: int, note: Note) -> Part:
    """An operand with its divisions lowered."""

    def change(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        if not any(node.op in ops.DIVISIONS or node.op is ops.ASSERTING for node in postorder((part,))):
            return part
        is_data = any(node.op is ops.LOAD or node.op is ops.CAST for node in postorder((part,)))
        found = lower_division(part, scope.where(*conditions).ctx, 64 if is_data else bits)
        note(found)
        changed: Expr | Cond = found.expr
        return changed

    return map_integers(operand, change)

"""`lower_divisions`: floor divisions become machine operations, by the facts at their position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from bound.tir import walk
from bound.tir.value import fits_words
from bound.tir.walk import Part
from intset.context import Context
from intset.expr import ops
from intset.expr.dag import operations
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from lowering.division import Lowered, lower_division
from lowering.nest.driver import Cursor, StmtRules, each_operand, rewritten
from lowering.nest.ir import Allocate, Assert, For, Function, Stmt, checked_function, with_fields
from lowering.nest.scope import Scope
from lowering.nest.walk import map_operands, operands, range_ends, statements
from lowering.passes.simplify import drop_empty_loop
from lowering.passes.values.integers import map_integers

Note: TypeAlias = Callable[[Lowered[Node]], object]  # told of every expression that is lowered
_LOWERED: Final = frozenset((*ops.DIVISIONS, ops.ASSERTING))
_CHANGING: Final = _LOWERED | {ops.LOAD}  # a load may be a function of data


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
    if not any(_may_change(stmt) for stmt in statements(f.body)):
        return f
    return f.with_body(rewritten(f.body, Cursor.root(f), leave=_rules(bits, lambda _: None)))


def _may_change(stmt: Stmt) -> bool:
    """Whether a rule may change a statement: it divides, maybe inside a function of data, or is an empty loop."""
    if isinstance(stmt, For):
        count = constant_value(range_ends(stmt.range)[1])
        if count is not None and count <= 0:
            return True
    return any(not _CHANGING.isdisjoint(walk.operations(operand)) for operand in operands(stmt))


def lowered_parts(f: Function, bits: int = 64) -> tuple[Lowered[Node], ...]:
    """The lowering of each distinct expression with a division, as `lower_divisions` performs it.

    Each entry gives the reason for its form and, for a corrected form, the missing fact. Conditions of assertions are
    left out: their lowering must not use the facts that they check.
    """
    lowerings: list[Lowered[Node]] = []
    rewritten(f.body, Cursor.root(f), leave=_rules(bits, lowerings.append))
    return tuple({(one.asked[0], one.expr): one for one in lowerings if one.steps}.values())


def _rules(bits: int, note: Note) -> StmtRules[Cursor]:
    """Lower the divisions of every operand under the scope of its statement."""

    def lower_operand(operand: Part, cursor: Cursor) -> Part:
        return lowered(operand, cursor.scope, bits, note)

    def lower_storage(stmt: Allocate, cursor: Cursor) -> Allocate:
        """An allocation, but for its padding: no code computes that."""
        new = map_operands(with_fields(stmt, padding=None), lambda e: lower_operand(e, cursor))
        return with_fields(new, padding=stmt.padding)

    def lower_assertion(stmt: Assert, cursor: Cursor) -> Assert:
        is_lowered = _LOWERED.isdisjoint(operations(stmt.cond))
        return stmt if is_lowered else Assert(_unaided(stmt.cond, bits), stmt.message)

    on_operands = each_operand(lower_operand)
    return {
        Stmt: (on_operands,),
        For: (on_operands, drop_empty_loop),
        Allocate: (lower_storage,),
        Assert: (lower_assertion,),
    }


def _unaided(cond: Cond, bits: int) -> Cond:
    """The condition of an assertion lowered without what its variables declare: that is what it checks."""
    plain = {var: Var(var.name) for var in cond.free_vars()}
    inside = lower_division(walk.substitute(cond, plain), Context(), bits).expr
    answer: Cond = walk.substitute(inside, {new: old for old, new in plain.items()})
    return answer


def lowered(operand: Part, scope: Scope, bits: int, note: Note) -> Part:
    """An operand with its divisions lowered."""

    def change(part: Expr | Cond, conditions: tuple[Cond, ...]) -> Expr | Cond:
        present = operations(part)
        if _LOWERED.isdisjoint(present):
            return part
        is_data = ops.LOAD in present or ops.CAST in present
        lowering = lower_division(part, scope.where(*conditions).ctx, 64 if is_data else bits)
        note(lowering)
        changed: Expr | Cond = lowering.expr
        return changed if not is_data or fits_words(changed) or not fits_words(part) else part

    return map_integers(operand, change)

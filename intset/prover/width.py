"""Machine width: whether every step of an expression fits in a word, under the conditions of its branches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.errors import EvaluationError, InputError, MachineOverflowError
from intset.expr import ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.definedness import guarded_steps
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, truth
from intset.prover.proof import REFUTED, UNKNOWN, Proof

if TYPE_CHECKING:
    from intset.context import Context


def fits(ctx: Context, e: Expr, bits: int) -> Proof:
    """Prove that every step of `e` fits in `bits` signed bits and none traps, wherever `e` is defined."""
    goal = logical_and(*fit_conditions(ctx, e, bits))
    proof = ctx.prove(goal)
    if proof.status != REFUTED or proof.counterexample is None:
        return proof
    try:
        evaluate(e, proof.counterexample, bits=bits)
    except MachineOverflowError:
        return proof
    except (EvaluationError, InputError):
        pass
    return Proof(goal, UNKNOWN, proof.by, reason="a step may overflow only where the expression has no value")


def fit_conditions(ctx: Context, e: Expr, bits: int) -> list[Cond]:
    """No-overflow conditions of the steps not obviously within the width."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    by_node: list[list[Cond]] = []
    for node, guard in reversed(guarded_steps((e,))):  # leaves first, so that sums reuse normalized operands
        needs: list[Cond] = []
        if isinstance(node, Expr):
            needs += [node >= low, node <= high]
        if node.op in (ops.SHL, ops.SHR):
            needs += [node.args[1] >= 0, node.args[1] < bits]
        if node.op in (ops.FLOORMOD, ops.TRUNCMOD):
            needs.append(node.args[0].ne(low) | node.args[1].ne(-1))
        open_needs = [need for need in needs if ctx.canonical(need) is not truth(True)]
        by_node.append([need if guard.op is ops.BOOL else logical_or(logical_not(guard), need) for need in open_needs])
    return [need for of_node in reversed(by_node) for need in of_node]

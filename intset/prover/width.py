"""Does an expression fit a machine word? Every step is asked, under the conditions of the branches it lies on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.errors import EvaluationError, InputError, MachineOverflowError
from intset.expr import ops
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, truth
from intset.prover.proof import REFUTED, UNKNOWN, Proof

if TYPE_CHECKING:
    from intset.context import Context


def fits(ctx: Context, e: Expr, bits: int) -> Proof:
    """Whether every step of `e` is representable in `bits` signed bits and none traps, wherever `e` is defined."""
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
    """The conditions, one for each step that is not obviously within the width, under which nothing overflows."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    found: list[Cond] = []
    for node, guard in guarded_steps(e):
        needs: list[Cond] = []
        if isinstance(node, Expr):
            needs += [node >= low, node <= high]
        if node.op in (ops.SHL, ops.SHR):
            needs += [node.args[1] >= 0, node.args[1] < bits]
        if node.op in (ops.FLOORMOD, ops.TRUNCMOD):
            needs.append(node.args[0].ne(low) | node.args[1].ne(-1))
        for need in needs:
            if ctx.simplify(need).op is ops.BOOL and ctx.simplify(need).data:
                continue
            found.append(need if guard.op is ops.BOOL else logical_or(logical_not(guard), need))
    return found


def guarded_steps(root: Node) -> list[tuple[Node, Cond]]:
    """Each node with the condition under which it is evaluated (the weakest, where it is reached in several ways)."""
    order: list[tuple[Node, Cond]] = []
    guards: dict[Node, Cond] = {root: truth(True)}
    pending = _parents_first(root)
    for node in pending:
        guard = guards[node]
        order.append((node, guard))
        for child, extra in _children(node):
            own = _joined(guard, extra)
            known = guards.get(child)
            guards[child] = own if known is None else _either(known, own)
    return order


def _parents_first(root: Node) -> list[Node]:
    from intset.expr.walk import postorder

    return list(postorder((root,)))[::-1]


def _children(node: Node) -> list[tuple[Node, Cond | None]]:
    args = node.args
    if node.op is ops.SELECT:
        return [(args[0], None), (args[1], args[0]), (args[2], ~args[0])]
    if node.op is ops.AND or node.op is ops.ASSERTING:
        return [(args[0], None), (args[1], args[0])]
    if node.op is ops.OR:
        return [(args[0], None), (args[1], ~args[0])]
    return [(arg, None) for arg in args]


def _joined(guard: Cond, extra: Cond | None) -> Cond:
    if extra is None:
        return guard
    return extra if guard.op is ops.BOOL else guard & extra


def _either(a: Cond, b: Cond) -> Cond:
    if a.op is ops.BOOL or a is b:
        return a
    return b if b.op is ops.BOOL else a | b

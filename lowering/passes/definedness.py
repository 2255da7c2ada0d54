"""Definedness of operands at a position of a nest, and guards for partial operands.

The end of a loop over a flattened tensor divides by sizes: `ceildiv(x, n2 * n3)`. At a size of 0 nothing is computed;
the end is evaluated nevertheless.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Self

from bound.tensor import Tensor
from bound.tir.build import all_of
from bound.tir.value import CALL, CONVERT, IntFunction, Operand, Value
from bound.tir.walk import loaded_tensor, nodes, read_indices, rewrite
from intset.expr import ops
from intset.expr.build import logical_and, maximum, select
from intset.expr.definedness import definedness, is_partial
from intset.expr.node import Cond, Expr, as_expr, make
from intset.expr.range import Range
from lowering.nest.driver import Cursor, StmtRules, rewritten
from lowering.nest.ir import Allocate, For, Function, If, Let, Padding, Stmt
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import is_outside
from lowering.nest.walk import operands, range_ends, statements

_TOTAL: Final = frozenset(
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid erf sin cos tan sinh cosh tanh asin acos atan asinh acosh "
    "atanh floor ceil trunc round nearbyint fmod atan2 hypot copysign nextafter ldexp pow isnan isfinite isinf "
    "popcount reinterpret".split()
)


def why_not_total(operand: Operand, scope: Scope, readable: Mapping[Tensor, Padding | None] | None) -> str | None:
    """The reason why an operand may be undefined: a trap, an out-of-bounds access, or uninitialized storage; else
    `None`.

    Parameters
    ----------
    readable: initialized tensors, each with its untouchable padding; `None` skips checks of elements.
    """
    for node in nodes(operand):
        tensor = loaded_tensor(node)
        if tensor is not None and readable is None:
            continue
        if tensor is not None and readable is not None:
            if tensor not in readable:
                return f"{node!r} may be read before it is written"
            if not proves(scope, is_outside(readable[tensor], read_indices(node))):
                return f"{node!r} may be in the padding of {tensor.name}"
            for index, extent in zip(node.args, tensor.extents, strict=True):
                if not proves(scope, (index >= 0) & (index < extent)):
                    return f"{node!r} may be outside {tensor.name}"
        elif node.op in ops.DIVISIONS and isinstance(node, Expr):
            if not _holds(scope, node.args[1].ne(0)):
                return f"{node!r} may divide by 0"
        elif node.op in (ops.SHL, ops.SHR) and isinstance(node, Expr):
            if not proves(scope, node.args[1] >= 0):
                return f"{node!r} may shift by a negative amount"
        elif node.op is ops.ASSERTING:
            if not proves(scope, node.args[0]):
                return f"{node!r} may not hold what it claims"
        elif node.op is CONVERT and isinstance(node.args[0], Value) and "int" in node.dtype:
            return f"{node.dtype}({node.args[0]!r}) has no value where that is no number"
        elif node.op is CALL and node.data not in _TOTAL:
            return f"{node.data} is a function that is not known here"
        elif node.op is ops.LOAD and not isinstance(node.data, IntFunction) and node.args:
            return f"{node!r} is not known to have a value"
    return None


def with_total_ends(f: Function) -> Function:
    """Guard partial operands that every run evaluates, so that a nest does nothing at sizes of 0.

        for i in [0, x // n):     becomes     if n != 0:
            S                                     for i in [0, x // n):
                                                      S

    Loop ends and conditions get guards; extents of allocations and names get a default value instead.

    Guarantee: the same stores wherever the nest it was given is defined.
    """
    if not any(isinstance(e, (Expr, Cond)) and is_partial(e) for stmt in statements(f.body) for e in _evaluated(stmt)):
        return f
    rules: StmtRules[Cursor] = {
        For: (_guarded_loop,),
        If: (_guarded_branch,),
        Allocate: (_total_allocation,),
        Let: (_total_name,),
    }
    return f.with_body(rewritten(f.body, _TotalNames.root(f), leave=rules))


class _TotalNames(Cursor):
    """A position behind total names: a name whose value was partial no longer implies the needs of that value."""

    __slots__ = ()

    def after(self, old: Stmt, new: Stmt) -> Self:
        return super().after(new if isinstance(new, Let) else old, new)


def _evaluated(stmt: Stmt) -> tuple[Operand, ...]:
    """What a statement evaluates before anything is stored."""
    if isinstance(stmt, Allocate):
        return tuple(end for r in stmt.ranges for end in range_ends(r))
    return operands(stmt) if isinstance(stmt, (For, If, Let)) else ()


def _needs(roots: Sequence[Operand], scope: Scope) -> list[Cond]:
    """The conditions of definedness that are not proved in a scope, in evaluation order."""
    integers = [root for root in roots if isinstance(root, (Expr, Cond)) and is_partial(root)]
    return [need for need in definedness(integers) if not _holds(scope, need)] if integers else []


def _holds(scope: Scope, need: Cond) -> bool:
    """Whether a condition of definedness is proved, by any tier: a loop over `n*m` elements runs for `m != 0` alone."""
    return proves(scope, need) or bool(scope.ctx.prove(need))


def _guarded_loop(loop: For, here: Cursor) -> Stmt:
    needs = _needs(range_ends(loop.range), here.scope)
    return If(all_of(*needs), loop) if needs else loop


def _guarded_branch(branch: If, here: Cursor) -> Stmt:
    needs = _needs((branch.cond,), here.scope)
    return replace(branch, cond=all_of(*needs, branch.cond)) if needs else branch


def _total_allocation(stmt: Allocate, here: Cursor) -> Stmt:
    if not _needs(_evaluated(stmt), here.scope):
        return stmt
    ranges = [Range(*(_with_divisors(end, here.scope) for end in range_ends(r))) for r in stmt.ranges]
    return replace(stmt, ranges=tuple(ranges))


def _with_divisors(e: Expr, scope: Scope) -> Expr:
    """The expression with 1 for each divisor that is 0."""
    new: dict[Operand, Operand] = {}
    for node in nodes(e):
        if node.op in ops.DIVISIONS and isinstance(node, Expr):
            a, d = (rewrite(as_expr(arg), dict(new)) for arg in node.args)
            if not _holds(scope, node.args[1].ne(0)):
                d = maximum(d, 1) if proves(scope, node.args[1] >= 0) else select(d.ne(0), d, 1)
            new[node] = make(node.op, (a, d))
    return rewrite(e, new)


def _total_name(stmt: Let, here: Cursor) -> Stmt:
    value = stmt.value
    needs = _needs((value,), here.scope)
    return replace(stmt, value=select(logical_and(*needs), value, 0)) if isinstance(value, Expr) and needs else stmt


def given_inputs(f: Function) -> dict[Tensor, Padding | None]:
    """Read-only parameters, which are initialized, each with its untouchable padding."""
    return {t: f.padding.get(t) for t in f.inputs}

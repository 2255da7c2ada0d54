"""Loop-invariant code motion: of divisions (`hoist`) and of selects in indices (`name_choices`).

Compilers do not vectorize a loop with a select in its indices, and repeat divisions that they cannot prove safe.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import intset
from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import IntFunction, Operand
from intset.config import Effort, tiers_within
from intset.expr import ops
from intset.expr.build import select
from intset.expr.dag import free_vars, opaque_terms, operations, postorder
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Node, Var, as_expr, constant_value
from lowering.nest.driver import Descent, StmtRules, rewritten
from lowering.nest.ir import Assert, Assume, For, Function, Let, Seq, Stmt, flat, seq, with_fields
from lowering.nest.scope import Scope
from lowering.nest.walk import bound_in, operands, range_ends, statements, transform
from lowering.passes.affine import difference
from lowering.passes.values.integers import LAZY


def hoist(loop: For, scope: Scope) -> tuple[list[Let], For]:
    """Move loop-invariant divisions in front of a loop; returns their names, and the loop that uses them.

    Only divisions by nonconstant divisors that every iteration reaches are moved.

    Guarantee: a moved division is computed only if the loop runs, so its divisor is nonzero there.
    """
    inside = bound_in(loop)
    lets: list[Let] = []
    kept: list[Stmt] = []
    for stmt in flat(loop.body):
        if isinstance(stmt, Let) and _is_movable(stmt, inside):
            lets.append(Let(stmt.var, _where_it_runs(as_expr(stmt.value), loop, scope)))
            inside.discard(stmt.var)
        else:
            kept.append(stmt)
    names: dict[Expr, Var] = {}
    for e in always_evaluated(seq(*kept)):
        if _is_division(e) and not inside & set(free_vars(e)) and not opaque_terms(e):
            names[e] = Var("hoisted")
    outer = {e: var for e, var in names.items() if not any(e in postorder(o.args) for o in names if o is not e)}
    lets += [Let(var, _where_it_runs(e, loop, scope)) for e, var in outer.items()]
    if not lets:
        return [], loop
    body = transform(seq(*kept), lambda operand: walk.rewrite(operand, dict(outer)))
    return lets, with_fields(loop, body=body)


def _is_movable(let: Let, inside: set[Parameter]) -> bool:
    """Whether a `Let` defines a loop-invariant division."""
    if not isinstance(let.var, Var) or not isinstance(let.value, Expr) or opaque_terms(let.value):
        return False
    divides = any(_is_division(node) for node in postorder((let.value,)))
    return divides and not inside & set(free_vars(let.value))


def _is_division(node: Node) -> bool:
    return node.op in ops.DIVISIONS and constant_value(node.args[1]) is None


def _where_it_runs(e: Expr, loop: For, scope: Scope) -> Expr:
    runs = range_ends(loop.range)[1] >= 1
    with intset.using(tiers=tiers_within(Effort.FAST)):
        return e if scope.ctx.prove(runs) else select(runs, e, 0)


def always_evaluated(body: Stmt) -> dict[Expr, None]:
    """The integer expressions that are evaluated whenever the statement is executed, users before what they use."""
    evaluated: dict[Expr, None] = {}
    stack: list[Stmt] = [body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            reached = next((k for k, inner in enumerate(stmt.stmts) if isinstance(inner, Assert)), len(stmt.stmts))
            stack.extend(reversed(stmt.stmts[: reached + 1]))  # behind an assertion, only where it holds
        elif isinstance(stmt, For):
            firsts = [c.first for c in stmt.carried]
            evaluated |= dict.fromkeys(node for e in (*range_ends(stmt.range), *firsts) for node in _strict(e))
            count = constant_value(range_ends(stmt.range)[1])
            if count is not None and count >= 1:
                stack.append(stmt.body)
        elif not isinstance(stmt, Assume):  # which nothing computes
            evaluated |= dict.fromkeys(node for e in operands(stmt) for node in _strict(e))
    return evaluated


def _strict(operand: Operand) -> Iterator[Expr]:
    """The integer nodes below an operand, itself included, that its evaluation always reaches."""
    seen: set[Operand] = set()
    stack: list[Operand] = [operand]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, Expr):
            yield node
        if node.op is ops.LOAD and isinstance(node.data, IntFunction):
            continue  # its arguments are evaluated where its formula uses them
        args = node.args[:1] if node.op in LAZY else node.args
        stack.extend(reversed(args))


def name_choices(f: Function) -> Function:
    """Name loop-invariant selects in indices of innermost loops, in front of the loop."""
    rules: StmtRules[Descent] = {For: (_name_choices_of_ends,)}
    return f.with_body(rewritten(f.body, Descent(), enter=rules, leave={For: (_name_choices_of_body,)}))


def _name_choices_of_ends(loop: For, _: Descent) -> Stmt:
    """Name selects in the ends of a loop that recur in its body."""
    lets, named = _with_named_ends(loop)
    return seq(*lets, named)


def _name_choices_of_body(loop: For, _: Descent) -> Stmt:
    """Name loop-invariant selects in the body of an innermost loop."""
    if any(isinstance(inner, For) for inner in statements(loop.body)):
        return loop
    lets, names = _named(loop.var, _choices_in(loop.body), bound_in(loop))
    if not names:
        return loop
    body = transform(loop.body, lambda e: walk.rewrite(e, dict(names)))
    return seq(*lets, with_fields(loop, body=body))


def _with_named_ends(loop: For) -> tuple[list[Let], For]:
    """Name selects in the ends of a loop that recur in its body, so that ends and body compare equal."""
    ends = list(_choices(range_ends(loop.range)))
    used = list(_choices_in(loop.body)) if ends else []
    if not any(choice is known or _beyond(known, choice) is not None for known in ends for choice in used):
        return [], loop
    inside = {v for choice in used for v in choice.free_vars()} - set(loop.range.free_vars())
    lets, names = _named(loop.var, [*ends, *used], inside)
    named = transform(loop, lambda e: walk.rewrite(e, dict(names)))
    assert isinstance(named, For)
    return lets, named


def _named(var: Var, choices: Iterable[Expr], inside: Collection[Parameter]) -> tuple[list[Let], dict[Expr, Expr]]:
    """Name selects that depend on nothing `inside`; returns the names and the replacement of each select."""
    defined: dict[Expr, Var] = {}
    names: dict[Expr, Expr] = {}
    for choice in choices:
        if choice in names or not set(choice.free_vars()).isdisjoint(inside):
            continue
        if definedness((choice,)) or opaque_terms(choice):  # undefined selects must not precede an empty loop
            continue
        near = ((name, k) for known, name in defined.items() if (k := _beyond(known, choice)) is not None)
        name, k = next(near, (None, 0))
        if name is None:
            names[choice] = defined[choice] = Var(f"{var.name}.choice")
        else:
            names[choice] = name + k if k > 0 else name - -k
    return [Let(name, choice) for choice, name in defined.items()], names


def _beyond(known: Expr, choice: Expr) -> int | None:
    """The constant difference between selects with equal conditions, else `None`."""
    if known.args[0] is not choice.args[0]:
        return None
    first, second = (difference(as_expr(a), as_expr(b)) for a, b in zip(known.args[1:], choice.args[1:], strict=True))
    return first if first == second else None


def _choices_in(body: Stmt) -> Iterator[Expr]:
    return _choices(e for stmt in statements(body) for e in operands(stmt))


def _choices(roots: Iterable[Operand]) -> Iterator[Expr]:
    """The outermost integer selects."""
    stack: list[Any] = [root for root in roots if ops.SELECT in operations(root)]
    seen = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.op is ops.SELECT and isinstance(node, Expr):
            yield node
        else:
            stack.extend(node.args)

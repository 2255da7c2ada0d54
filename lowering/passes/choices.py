"""Choices that an innermost loop makes alike in every iteration, made once before it: compilers do not vectorize a loop
in whose indices something is chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any

from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.node import Expr, Var
from intset.expr.walk import opaque_terms
from intset.linear.canonical import Normalizer
from lowering.nest.driver import Descent, StmtRules, rewritten
from lowering.nest.ir import For, Function, Let, Stmt, seq
from lowering.nest.walk import operands, range_ends, statements, transform


def name_choices(f: Function) -> Function:
    """The function with a `Let` before each innermost loop for every select of indices that does not depend on it."""
    rules: StmtRules[Descent] = {For: (_name_choices_of_ends,)}
    return f.with_body(rewritten(f.body, Descent(), enter=rules, leave={For: (_name_choices_of_body,)}))


def _name_choices_of_ends(loop: For, _: Descent) -> Stmt:
    """A loop with names, before it, for the choices in its ends that its body makes as well."""
    lets, named = _with_named_ends(loop)
    return seq(*lets, named)


def _name_choices_of_body(loop: For, _: Descent) -> Stmt:
    """An innermost loop with names, before it, for the choices in its body that it does not change."""
    if any(isinstance(inner, For) for inner in statements(loop.body)):
        return loop
    inside = {inner.var for inner in statements(loop) if isinstance(inner, (For, Let))}
    inside.update(c.var for c in loop.carried)
    lets, names = _named(loop.var, _choices_in(loop.body), inside)
    body = transform(loop.body, lambda e: walk.rewrite(e, dict(names)))
    return seq(*lets, replace(loop, body=body))


def _with_named_ends(loop: For) -> tuple[list[Let], For]:
    """A loop with names for the choices in its ends that its body makes, too; so it is seen what the body makes of
    these ends."""
    ends = list(_choices(range_ends(loop.range)))
    used = list(_choices_in(loop.body)) if ends else []
    if not any(choice is known or _beyond(known, choice) is not None for known in ends for choice in used):
        return [], loop
    inside = {v for choice in used for v in choice.free_vars()} - set(loop.range.free_vars())
    made, names = _named(loop.var, [*ends, *used], inside)
    named = transform(loop, lambda e: walk.rewrite(e, dict(names)))
    assert isinstance(named, For)
    return made, named


def _named(var: Var, choices: Iterable[Expr], inside: Collection[Parameter]) -> tuple[list[Let], dict[Expr, Expr]]:
    """Names for choices that depend on nothing `inside`, and what stands for each choice."""
    made: dict[Expr, Var] = {}
    names: dict[Expr, Expr] = {}
    for choice in choices:
        if choice in names or not set(choice.free_vars()).isdisjoint(inside):
            continue
        if definedness((choice,)) or opaque_terms(choice):  # it must not be asked where the loop does not run
            continue
        near = ((name, k) for known, name in made.items() if (k := _beyond(known, choice)) is not None)
        name, k = next(near, (None, 0))
        if name is None:
            names[choice] = made[choice] = Var(f"{var.name}.choice")
        else:
            names[choice] = name + k if k > 0 else name - -k
    return [Let(name, choice) for choice, name in made.items()], names


def _beyond(known: Expr, choice: Expr) -> int | None:
    """The constant by which a choice is more than a known one of the same condition."""
    if known.args[0] is not choice.args[0]:
        return None
    forms = Normalizer({})
    first, second = (forms.form(b - a) for a, b in zip(known.args[1:], choice.args[1:], strict=True))
    return first.const if first.is_const and first.same(second) else None


def _choices_in(body: Stmt) -> Iterator[Expr]:
    return _choices(e for stmt in statements(body) for e in operands(stmt))


def _choices(roots: Iterable[Operand]) -> Iterator[Expr]:
    """The selects of integers that stand in no other."""
    stack: list[Any] = list(roots)
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

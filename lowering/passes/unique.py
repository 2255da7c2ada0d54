"""Names: in a printed nest, no variable in sight has the name of another."""

from __future__ import annotations

from dataclasses import replace

from bound.tir.reduce import Parameter
from bound.tir.value import Value, parameter
from intset.expr.node import Var
from lowering.nest.ir import Carry, For, Function, If, Let, Seq, Stmt, checked_function
from lowering.nest.walk import Visit, drive, map_operands, replaced


def unique_names(f: Function) -> Function:
    """The function with fresh variables for its loops; a name that is in sight already gets a number."""
    checked_function(f, "unique_names")
    taken = frozenset((*(v.name for v in f.sizes), *(p.data[0] for p in f.scalars), *(t.name for t in f.params)))
    return f.with_body(drive(_visit(f.body, taken, {})))


def with_fresh_names(root: Stmt) -> Stmt:
    """The statement with variables of its own for its loops and names."""
    return drive(_visit(root, frozenset(), {}))


def _visit(stmt: Stmt, taken: frozenset[str], new: dict[Parameter, Parameter]) -> Visit[Stmt]:
    if isinstance(stmt, Seq):
        parts = []
        for inner in stmt.stmts:
            if isinstance(inner, Let):
                value = replaced(inner.value, new)
                var = _named(inner.var, taken)
                parts.append(Let(var, value))
                new, taken = {**new, inner.var: var}, taken | {_label(var)}
            else:
                parts.append((yield _visit(inner, taken, new)))
        return Seq(tuple(parts))
    if isinstance(stmt, For):
        loop: Stmt = yield _loop(stmt, taken, new)
        return loop
    if isinstance(stmt, If):
        then = yield _visit(stmt.then, taken, new)
        orelse = None if stmt.orelse is None else (yield _visit(stmt.orelse, taken, new))
        return If(replaced(stmt.cond, new), then, orelse)
    return map_operands(stmt, lambda e: replaced(e, new))


def _loop(loop: For, taken: frozenset[str], new: dict[Parameter, Parameter]) -> Visit[Stmt]:
    inner = dict(new)
    fresh: list[Var] = []
    for var in (loop.var, *(c.var for c in loop.carried)):
        named = _named(var, taken)
        assert isinstance(named, Var)
        inner[var] = named
        taken |= {named.name}
        fresh.append(named)
    changed = map_operands(replace(loop, carried=()), lambda e: replaced(e, new))
    carried = tuple(
        Carry(
            var,
            replaced(c.first, new),
            replaced(c.following, inner),
            c.after_last,
            None if c.fact is None else replaced(c.fact, inner),
        )
        for var, c in zip(fresh[1:], loop.carried, strict=True)
    )
    body = yield _visit(loop.body, taken, inner)
    return replace(changed, var=fresh[0], body=body, carried=carried)


def _label(var: Var | Value) -> str:
    return var.name if isinstance(var, Var) else str(var.data[0])


def _named(var: Var | Value, taken: frozenset[str]) -> Var | Value:
    label, k = _label(var), 0
    while label in taken:
        k += 1
        label = f"{_label(var)}_{k}"
    return Var(label) if isinstance(var, Var) else parameter(label, var.dtype)

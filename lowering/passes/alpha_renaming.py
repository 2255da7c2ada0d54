"""Names of a nest: each loop, name and allocation has an object of its own, also in copies of a statement.

A pass that writes a statement twice makes the second with `with_fresh_names`. Then statements may move out of their
block, as the only iteration of a loop or the taken side of a branch does, and no name meets another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value, parameter
from intset.expr.node import Expr, Var
from lowering.nest.ir import Allocate, Carry, Evaluate, For, Function, If, Let, Seq, Stmt, Store, checked_function
from lowering.nest.walk import Visit, children, drive, map_operands, replaced, statements, with_children


def unique_names(f: Function) -> Function:
    """The function with fresh variables for its loops; a name that is in sight already gets a number.

    A tensor that is allocated at several places is another one at each but the first.
    """
    checked_function(f, "unique_names")
    taken = frozenset((*(v.name for v in f.sizes), *(p.data[0] for p in f.scalars), *(t.name for t in f.params)))
    return f.with_body(drive(_visit(with_own_storage(f.body, f.params), taken, {})))


def with_fresh_names(root: Stmt) -> Stmt:
    """The statement with variables of its own for its loops and names, and tensors of its own for its storage."""
    allocated = [stmt.tensor for stmt in statements(root) if isinstance(stmt, Allocate)]
    return drive(_visit(with_own_storage(root, allocated), frozenset(), {}))


def with_own_storage(root: Stmt, taken: Iterable[Tensor] = ()) -> Stmt:
    """The statement in which no two allocations are of one tensor; the first in the text keeps its tensor.

    Parameters
    ----------
    taken: the tensors that every allocation of the statement replaces.
    """
    seen = set(taken)
    count = Counter(stmt.tensor for stmt in statements(root) if isinstance(stmt, Allocate))
    if all(times == 1 and tensor not in seen for tensor, times in count.items()):
        return root
    return drive(_storage(root, seen, {}))


def _storage(stmt: Stmt, seen: set[Tensor], new: Mapping[Tensor, Tensor]) -> Visit[Stmt]:
    """The statement with other tensors; `new` maps those in scope, `seen` collects what is allocated so far."""
    if isinstance(stmt, Seq):
        parts: list[Stmt] = []
        for inner in stmt.stmts:
            if isinstance(inner, Allocate):
                tensor = inner.tensor
                new = {**new, tensor: _another(tensor) if tensor in seen else tensor}
                seen.add(tensor)
            parts.append((yield _storage(inner, seen, new)))
        return Seq(tuple(parts))
    inside: list[Stmt] = []
    for child in children(stmt):
        inside.append((yield _storage(child, seen, new)))  # noqa: PERF401  # a comprehension cannot yield
    return _of_tensors(with_children(stmt, tuple(inside)) if inside else stmt, new)


def _another(tensor: Tensor) -> Tensor:
    """Another tensor with the name, type and known values of this one."""
    return Tensor(tensor.op, tensor.value_index, tensor.extents, tensor.dtype, tensor.value_range)


def _of_tensors(stmt: Stmt, new: Mapping[Tensor, Tensor]) -> Stmt:
    """The statement with its own tensors replaced; statements inside are kept."""

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        return element(new[tensor], indices) if new.get(tensor, tensor) is not tensor else None

    def one(tensor: Tensor) -> Tensor:
        return new.get(tensor, tensor)

    stmt = map_operands(stmt, lambda e: walk.rewrite(e, on_load=on_load))
    if isinstance(stmt, (Store, Allocate)):
        return replace(stmt, tensor=one(stmt.tensor))
    if isinstance(stmt, Evaluate):
        args = tuple(one(a) if isinstance(a, Tensor) else a for a in stmt.call.args)
        call = replace(stmt.call, args=args)
        return Evaluate(call, tuple(map(one, stmt.reads)), tuple(map(one, stmt.writes)))
    return stmt


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

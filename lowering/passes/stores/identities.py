"""Identity stores: `C[i] = C[i] + 0.0`, or a maximum with the least value.

They remain of reductions over part of their range, such as `sum(select(k <= i, A[k], 0.0))` once the condition is
decided. For floats `x + 0.0` differs from `x` at -0.0 alone, and no sum that starts from another number yields -0.0; a
maximum never falls below its start. The pass therefore checks that every other store to the tensor is a constant start
or the same combination. Uninitialized elements of allocated storage have no meaning; for elements of a parameter the
start must precede the store in the same iteration of all common loops and cover its elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import copysign, inf
from typing import Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr.node import Expr, Node, Var, constant_value
from lowering.nest.combine import is_combining
from lowering.nest.ir import Evaluate, For, Function, Seq, Stmt, Store
from lowering.nest.text import end_of
from lowering.nest.walk import children, range_ends, rebuilt, statements
from lowering.passes.affine import Loops, is_in_order
from lowering.passes.stores.dead_code import drop_dead

_LEAST: Final = {ValueOp.MAX: -inf, ValueOp.MIN: inf, ValueOp.MUL: 1.0}  # what changes no number whatsoever


def drop_identities(f: Function) -> Function:
    """Drop stores that change no element, and loops left empty.

    Guarantee: every element keeps its value, the sign of zero included.
    """
    found = [s for s in statements(f.body) if isinstance(s, Store) and _may_change_nothing(s)]
    dropped = {s for s in found if _changes_nothing(f, s)}
    if not dropped:
        return f
    return drop_dead(f.with_body(rebuilt(f.body, lambda stmt: Seq() if stmt in dropped else stmt)))


def _may_change_nothing(store: Store) -> bool:
    value = store.value
    if isinstance(value, Expr):
        return walk.loaded_tensor(value) is store.tensor and walk.read_indices(value) == store.indices
    return is_combining(store) and _number(value.args[1]) is not None


def _changes_nothing(f: Function, store: Store) -> bool:
    if not isinstance(store.value, Value):
        return True
    op, number = store.value.op, _number(store.value.args[1])
    assert number is not None
    if op in _LEAST and number == _LEAST[op]:
        return True
    if number == 0 and (op, copysign(1, number)) in ((ValueOp.ADD, -1), (ValueOp.SUB, 1)):
        return True
    if not all(_keeps(stmt, store.tensor, op, number) for stmt in statements(f.body)):
        return False
    return _is_begun(f, store) if store.tensor in f.params else _has_start(f, store.tensor)


def _keeps(stmt: Stmt, tensor: Tensor, op: ValueOp, number: float) -> bool:
    """Whether `op` with `number` keeps every element after a statement."""
    if isinstance(stmt, Evaluate):
        return tensor not in stmt.writes
    if not isinstance(stmt, Store) or stmt.tensor is not tensor:
        return True
    start = _number(stmt.value)
    if op is ValueOp.ADD:
        begins = start is not None and (start != 0 or copysign(1, start) == 1)
        return number == 0 and (begins or (is_combining(stmt) and stmt.value.op is ValueOp.ADD))
    if op is ValueOp.MAX:
        return (start is not None and start >= number) or (is_combining(stmt) and stmt.value.op is op)
    if op is ValueOp.MIN:
        return (start is not None and start <= number) or (is_combining(stmt) and stmt.value.op is op)
    return False


def _has_start(f: Function, tensor: Tensor) -> bool:
    return any(isinstance(s, Store) and s.tensor is tensor and _number(s.value) is not None for s in statements(f.body))


# -- what begins an element that was given -----------------------------------------------------------------------------


def _is_begun(f: Function, store: Store) -> bool:
    """Whether a constant start precedes a store for each of its elements, in the same common iteration."""
    around = _around(f.body, store)
    known = Loops()
    for loop in (stmt for stmt in around if isinstance(stmt, For)):
        low, extent = range_ends(loop.range)
        known = known.inside(loop.var, (low,), (end_of(low, extent) - 1,))
    for stmt, inner in zip(around, [*around[1:], store], strict=True):
        for before in stmt.stmts[: stmt.stmts.index(inner)] if isinstance(stmt, Seq) else ():
            if any(_covers(start, loops, store, known) for start, loops in _starts(before, store.tensor)):
                return True
    return False


def _around(root: Stmt, inner: Stmt) -> list[Stmt]:
    """The statements around one, outermost first."""
    stack: list[tuple[Stmt, list[Stmt]]] = [(root, [])]
    while stack:
        stmt, around = stack.pop()
        if stmt is inner:
            return around
        stack.extend((child, [*around, stmt]) for child in children(stmt))
    return []


def _starts(root: Stmt, tensor: Tensor) -> Iterator[tuple[Store, tuple[For, ...]]]:
    """The constants that a statement stores in a tensor whenever it is reached, with the loops around them."""
    stack: list[tuple[Stmt, tuple[For, ...]]] = [(root, ())]
    while stack:
        stmt, loops = stack.pop()
        if isinstance(stmt, Store) and stmt.tensor is tensor and _number(stmt.value) is not None:
            yield stmt, loops
        elif isinstance(stmt, Seq):
            stack.extend((inner, loops) for inner in stmt.stmts)
        elif isinstance(stmt, For):
            stack.append((stmt.body, (*loops, stmt)))


def _covers(start: Store, loops: Sequence[For], store: Store, known: Loops) -> bool:
    """Whether one store covers all elements of another."""
    values: dict[Var, Expr] = {}
    own = {loop.var for loop in loops}
    if not all(_matches(a, b, own, values) for a, b in zip(start.indices, store.indices, strict=True)):
        return False
    for loop in loops:
        low, extent = (walk.substitute(e, dict(values)) for e in range_ends(loop.range))
        at = values.get(loop.var)
        if at is None:
            if (constant_value(extent) or 0) < 1:
                return False
        elif not (is_in_order(low, at, known) and is_in_order(at + 1, end_of(low, extent), known)):
            return False
    return True


def _matches(a: Node, b: Node, own: set[Var], values: dict[Var, Expr]) -> bool:
    """Whether one index equals another for some values of the variables `own`; these are recorded."""
    if isinstance(a, Var) and a in own and isinstance(b, Expr):
        return values.setdefault(a, b) is b
    if a.op is not b.op or a.data != b.data or len(a.args) != len(b.args) or not a.args:
        return a is b
    return all(_matches(x, y, own, values) for x, y in zip(a.args, b.args, strict=True))


def _number(value: Operand) -> float | None:
    if not isinstance(value, Value) or value.op is not ValueOp.CONST or not dtypes.is_float(value.dtype):
        return None
    return float(value.data)

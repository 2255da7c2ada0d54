"""Stores that combine an element with what changes nothing: `C[i] = C[i] + 0.0`, the maximum with the least there is.

They are what is left of a reduction over a part of its range, as of `sum(select(k <= i, A[k], 0.0))`, where the
condition is decided. `x + 0.0` is another number than `x` for one `x`, -0.0, and no sum is that which began with
another number; what a maximum began with it is never below. So all stores to the tensor are looked at: constants that
it begins with, and the same combination. What an element is combined with before it has a value has no meaning.
"""

from __future__ import annotations

from math import copysign, inf
from typing import Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr.node import Expr
from lowering.nest.combine import is_combining
from lowering.nest.ir import Evaluate, Function, Seq, Stmt, Store
from lowering.nest.walk import rebuilt, statements
from lowering.passes.dead import drop_dead

_LEAST: Final = {ValueOp.MAX: -inf, ValueOp.MIN: inf, ValueOp.MUL: 1.0}  # what changes no number whatsoever


def drop_identities(f: Function) -> Function:
    """The same function without stores that change no element, and without loops that do nothing else."""
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
    return all(_keeps(stmt, store.tensor, op, number) for stmt in statements(f.body)) and _has_start(f, store.tensor)


def _keeps(stmt: Stmt, tensor: Tensor, op: ValueOp, number: float) -> bool:
    """Whether a statement leaves the tensor's elements such that `op` with `number` does not change them."""
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


def _number(value: Operand) -> float | None:
    if not isinstance(value, Value) or value.op is not ValueOp.CONST or not dtypes.is_float(value.dtype):
        return None
    return float(value.data)

"""Values that no condition allows are dropped before anything is joined: propagation to a fixed point.

A condition over few candidates is evaluated at all of them, so each value that is left has a support. Of a larger one
the linear tier refutes values from both ends of a list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from intset.budgets import SPACE_BLOCK
from intset.context import Context
from intset.expr.node import Cond, Var, truth
from intset.expr.range import Range
from intset.spaces.join import Columns
from intset.spaces.vectors import Array, ends_of, to_numpy

_ROUNDS = 8  # of all conditions; a superset is left where more would be needed


def narrowed(columns: Mapping[Var, Array], conditions: Sequence[Cond]) -> Columns:
    """The columns without values that a condition excludes; all are empty where one is.

    Guarantee: every member of the space has its values in the answer.
    """
    left = dict(columns)
    waiting = list(conditions)
    for _ in range(_ROUNDS):
        changed: set[Var] = set()
        for cond in waiting:
            for var, column in _by(cond, left).items():
                if len(column) < len(left[var]):
                    left[var] = column
                    changed.add(var)
            if not all(map(len, left.values())):
                return {var: column[:0] for var, column in left.items()}
        waiting = [cond for cond in conditions if not changed.isdisjoint(cond.free_vars())]
        if not waiting:
            break
    return left


def _by(cond: Cond, columns: Columns) -> Columns:
    """The columns of one condition's variables without values that it excludes."""
    variables = cond.free_vars()
    own = {var: columns[var] for var in variables}
    if not variables:
        kept = bool(to_numpy(cond, {})({}))
        return {} if kept else {var: column[:0] for var, column in columns.items()}
    if prod(map(len, own.values())) <= SPACE_BLOCK:
        grid = np.meshgrid(*own.values(), indexing="ij", sparse=True)
        holds = to_numpy(cond, ends_of(own))(dict(zip(variables, grid, strict=True)))
        holds = np.broadcast_to(holds, tuple(map(len, own.values())))
        axes = range(len(variables))
        return {
            var: own[var][holds.any(axis=tuple(other for other in axes if other != k))]
            for k, var in enumerate(variables)
        }
    for var in variables:
        own[var] = _shaved(cond, own, var)
    return own


def _shaved(cond: Cond, columns: Columns, var: Var) -> Array:
    """The column of one variable without values at its ends that the linear tier refutes."""
    values = np.unique(columns[var])
    low = _refuted_head(cond, columns, var, values)
    high = len(values) - _refuted_head(cond, columns, var, values[::-1])
    if low >= high:
        return columns[var][:0]
    column: Array = columns[var]
    kept: Array = column[(column >= values[low]) & (column <= values[high - 1])]
    return kept


def _refuted_head(cond: Cond, columns: Columns, var: Var, values: Array) -> int:
    """How many of the values at the head of a list are refuted together."""
    if not _refuted(cond, columns, var, values[:1]):
        return 0
    least, most = 1, len(values)
    while least < most:
        middle = (least + most + 1) // 2
        if _refuted(cond, columns, var, values[:middle]):
            least = middle
        else:
            most = middle - 1
    return least


def _refuted(cond: Cond, columns: Columns, var: Var, values: Array) -> bool:
    ends = ends_of({**columns, var: values})
    ctx = Context({v: Range(low, high - low + 1) for v, (low, high) in ends.items()})
    return ctx.canonical(cond) is truth(False)


def contradicting(columns: Mapping[Var, Array], conditions: Sequence[Cond]) -> tuple[Cond, ...]:
    """Conditions that together leave some name no value, none of them without need; empty if that is not found."""
    if all(map(len, narrowed(columns, conditions).values())):
        return ()
    needed = list(conditions)
    for cond in conditions:
        fewer = [other for other in needed if other is not cond]
        if not all(map(len, narrowed(columns, fewer).values())):
            needed = fewer
    return tuple(needed)

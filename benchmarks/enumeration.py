"""The oracle for value sets: every point of the box is tried, on numpy arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.arrays import ArrayEvaluator
from intset import Cond, Expr, InputError, IntSet, Range, Var
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import Node

MAX_POINTS = 1 << 23  # points of a box, or of a hull, that are enumerated
_CHUNK = 1 << 18

Array = np.ndarray[Any, np.dtype[Any]]


def evaluate_many(node: Node, env: Mapping[Var, Array]) -> Any:
    """The values of an expression or condition at many points; operations whose value is always defined only."""
    cells = ArrayEvaluator(env, {}, {})(node)
    if cells.bad is not None:
        raise InputError(f"cannot enumerate {node}")
    return cells.value


def true_values(expr: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> Array | None:
    """The sorted values of `expr` over constant ranges; `None` where that cannot be enumerated.

    Conditions that share no variable with the expression, directly or through others, are taken to hold somewhere.
    """
    variables, touching = _closed(expr, [part for c in conditions for part in conjuncts(c)])
    sides = [ranges[var].constant() for var in variables]
    if any(side is None for side in sides):
        return None
    spans = [(side[0], side[1] - side[0] + 1) for side in sides if side is not None]
    total = 1
    for _, extent in spans:
        total *= extent
    if total > MAX_POINTS:
        return None
    found: list[Array] = []
    for start in range(0, total, _CHUNK):
        numbers = np.arange(start, min(start + _CHUNK, total), dtype=np.int64)
        env: dict[Var, Array] = {}
        for var, (low, extent) in zip(variables, spans, strict=True):
            numbers, digit = np.divmod(numbers, extent)
            env[var] = digit + low
        size = min(_CHUNK, total - start)
        inside = np.ones(size, dtype=bool)
        try:
            for condition in touching:
                inside &= evaluate_many(condition, env)
            values = np.broadcast_to(evaluate_many(expr, env), (size,))[inside]
        except InputError:
            return None  # an operation that is not always defined
        found.append(_distinct(values))
    return _distinct(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)


def _distinct(values: Array) -> Array:
    """Each value once, sorted; those of a narrow range are marked, others sorted: numpy's own way hashes them."""
    if not len(values):
        return values
    low, high = int(values.min()), int(values.max())
    if high - low >= 4 * len(values):
        values = np.sort(values)
        return values[np.concatenate(([True], values[1:] != values[:-1]))]
    marked = np.zeros(high - low + 1, dtype=bool)
    marked[values - low] = True
    return np.flatnonzero(marked) + low


def _closed(expr: Expr, conditions: Sequence[Cond]) -> tuple[list[Var], list[Cond]]:
    """The variables that matter to `expr`, and the conditions that touch them."""
    variables = dict.fromkeys(free_vars(expr))
    left, touching = list(conditions), []
    grown = True
    while grown:
        grown = False
        for condition in tuple(left):
            if any(var in variables for var in free_vars(condition)):
                variables.update(dict.fromkeys(free_vars(condition)))
                touching.append(condition)
                left.remove(condition)
                grown = True
    return list(variables), touching


def represented(values: IntSet, low: int, high: int) -> Array | None:
    """For each integer from `low` to `high` whether `values` has it; `None` when that cannot be told cheaply."""
    if high - low >= MAX_POINTS:
        return None
    element = Var("element")
    try:
        condition = values.condition(element)
        window = np.arange(low, high + 1, dtype=np.int64)
        return np.broadcast_to(evaluate_many(condition, {element: window}), window.shape)
    except (InputError, MemoryError):
        return None

"""Index expressions on whole numpy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from intset.context import Context
from intset.expr import ops
from intset.expr.evaluate import compiled
from intset.expr.node import Expr, Var
from intset.expr.range import Range
from intset.expr.walk import postorder

_BITS = 63  # of what numpy computes with, with one to spare


def steps() -> dict[ops.Op, Callable[..., Any]]:
    """numpy's functions for the operations whose operands are all evaluated."""
    import numpy as np

    return {
        ops.ADD: np.add,
        ops.SUB: np.subtract,
        ops.MUL: np.multiply,
        ops.NEG: np.negative,
        ops.ABS: np.abs,
        ops.FLOORDIV: np.floor_divide,
        ops.FLOORMOD: np.mod,
        ops.CEILDIV: lambda a, b: -np.floor_divide(-a, b),
        ops.MIN: np.minimum,
        ops.MAX: np.maximum,
        ops.LT: np.less,
        ops.LE: np.less_equal,
        ops.GT: np.greater,
        ops.GE: np.greater_equal,
        ops.EQ: np.equal,
        ops.NE: np.not_equal,
        ops.AND: np.logical_and,
        ops.OR: np.logical_or,
        ops.NOT: np.logical_not,
    }


def on_grid(e: Expr, variables: tuple[Var, ...], shape: tuple[int, ...]) -> Any:
    """The values of an expression at all points `0 <= v < extent`, as an array of `int64` of that shape.

    numpy computes them all at once where no step can overflow or divide by 0 on a branch that is not taken; else they
    are computed one by one.
    """
    import numpy as np

    total: dict[Any, Any] = dict(zip(variables, np.indices(shape, np.int64, sparse=True), strict=True))
    if not _all_at_once(e, variables, shape):
        function = compiled(e, variables)
        values = (function(*map(int, point)) for point in np.ndindex(*shape))
        return np.fromiter(values, np.int64, int(np.prod(shape))).reshape(shape)
    known_steps = steps()
    for node in postorder((e,)):
        if node not in total:
            args = [total[arg] for arg in node.args]
            total[node] = np.int64(node.data) if node.op is ops.CONST else known_steps[node.op](*args)
    return np.broadcast_to(total[e], shape)


def _all_at_once(e: Expr, variables: tuple[Var, ...], shape: tuple[int, ...]) -> bool:
    nodes = postorder((e,))
    known = steps().keys() | {ops.CONST, ops.VAR}
    if any(node.op not in known or (node.op is ops.VAR and node not in variables) for node in nodes):
        return False
    grid: dict[Var, Range | None] = {v: Range(0, n) for v, n in zip(variables, shape, strict=True)}
    return bool(Context(grid).fits(e, _BITS))

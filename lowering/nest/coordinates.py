"""Coordinates of the elements that a storage with steps holds, as `start + sum(steps[k] * places[k])`."""

from __future__ import annotations

from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Expr, Var, const, constant_value


def start_and_steps(coordinate: Expr, places: list[Var]) -> tuple[Expr, tuple[int, ...]] | None:
    """The start and the steps of a coordinate, one for each place; `None` if it is no such sum as written."""
    steps = [0] * len(places)
    numbers = {place: k for k, place in enumerate(places)}

    def term(e: Expr) -> tuple[int, int] | None:
        if e.op is ops.MUL and e.args[0] in numbers and (factor := constant_value(e.args[1])) is not None:
            return numbers[e.args[0]], factor
        return (numbers[e], 1) if isinstance(e, Var) and e in numbers else None

    while True:
        if (whole := term(coordinate)) is not None:
            steps[whole[0]] += whole[1]
            coordinate = const(0)
            break
        if coordinate.op not in (ops.ADD, ops.SUB) or (last := term(coordinate.args[1])) is None:
            break
        steps[last[0]] += last[1] if coordinate.op is ops.ADD else -last[1]
        coordinate = coordinate.args[0]
    if any(node in numbers for node in postorder((coordinate,))):
        return None
    return coordinate, tuple(steps)

"""Sets given by the list of their points."""

from __future__ import annotations

from collections.abc import Sequence

from intset.domains.enumeration import runs
from intset.domains.isl.presburger import Presburger
from intset.domains.isl.session import MAX_BITS, budget, context, isl
from intset.domains.isl.translate import param_name
from intset.errors import BudgetError
from intset.expr.node import Expr

_OPERATIONS = 2_000_000


def listed_shape(
    points: Sequence[tuple[int, ...]], params: Sequence[Expr], max_operations: int = _OPERATIONS
) -> Presburger:
    """The set of the points whose first coordinates are the values of `params`, which must come sorted.

    Runs along the last coordinate are written as one constraint.

    Raises
    ------
    BudgetError: isl needs too many operations to bring them together, or a coordinate is too long for it.
    """
    if any(v.bit_length() > MAX_BITS for point in points for v in point):
        raise BudgetError(f"a coordinate of more than {MAX_BITS} bits")
    m = isl()
    names = [param_name(p) for p in params]
    head = f"[{', '.join(names)}] -> " if names else ""
    dims = len(points[0]) - len(params) if points else 0
    coordinates = [f"x{k}" for k in range(dims)]
    parts = []
    for prefix, steps in _runs(points):
        equal = [f"{name} = {v}" for name, v in zip((*names, *coordinates), prefix, strict=False)]
        for first, last, step in steps:
            inside = [f"{first} <= {coordinates[-1]} <= {last}"] if dims else []
            if step > 1:
                inside.append(f"({coordinates[-1]} - {first}) mod {step} = 0")
            parts.append(" and ".join((*equal, *inside)))
    body = " or ".join(f"({part})" for part in parts) if parts else "1 = 0"
    with budget(max_operations):
        result = m.Set.read_from_str(context(), f"{head}{{ [{', '.join(coordinates)}] : {body} }}").coalesce()
    return Presburger(result, tuple(params))


def _runs(points: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], list[tuple[int, int, int]]]]:
    """Points by all but the last coordinate, with the arithmetic runs of the last."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for point in points:
        groups.setdefault(point[:-1], []).append(point[-1])
    return [(prefix, list(runs(values))) for prefix, values in groups.items()]

"""Guards without those that others imply.

A guard that holds wherever the loops around the body run and the other guards let it is left out; so none of what is
left is implied by the rest. What starts a reduction stands in other loops and has guards of its own (`start`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from bound.infer.needs.instances import closed
from bound.infer.needs.known import Known
from bound.infer.phases.implied import finite, is_implied
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, constant_value
from intset.expr.range import Range
from intset.expr.walk import conjuncts, is_small, postorder
from intset.linear.canonical import Normalizer

_MAX_GUARDS: Final = 32  # more are left as they are
_MAX_NODES: Final = 400  # longer guards are left as they are
_SLOW: Final = (*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT)
_FORMS: Final = Normalizer({})
_SIZES: Final = (7, 13, 101)  # values of open sizes at which a point is looked for where a guard is needed


def minimal(known: Known, loops: Sequence[Var], guards: Sequence[Cond]) -> tuple[Cond, ...]:
    """The guards, in their order, without those that are implied; of equal ones the cheapest stays.

    Parameters
    ----------
    loops: all around the body.
    """
    parts = list(dict.fromkeys(part for guard in guards for part in conjuncts(guard)))
    if len(parts) > _MAX_GUARDS or not is_small(_MAX_NODES, parts):
        return tuple(guards)
    alike: dict[Cond, list[Cond]] = {}
    for part in parts:
        alike.setdefault(_FORMS.cond(part), []).append(part)
    kept = [min(same, key=_cost) for same in alike.values()]
    telling = [v for v in loops if v in known.ranges and not _runs(known.ranges[v])]
    removed = len(kept) < len(parts)
    for guard in sorted(kept, key=_cost, reverse=True):
        others = [other for other in kept if other is not guard]
        ranges = closed(known, [*(v for cond in (guard, *others) for v in cond.free_vars()), *telling])
        if not _has_witness(known, ranges, guard, others) and is_implied(known, ranges, guard, others):
            kept.remove(guard)
            removed = True
    return tuple(kept) if removed else tuple(guards)


def _runs(r: Range) -> bool:
    """Whether a loop is seen to have iterations, so that it tells nothing of what its ends mention."""
    extent = constant_value(finite(r.extent))
    return extent is not None and extent > 0


def _cost(guard: Cond) -> tuple[int, int]:
    """The divisions in a guard, and its size."""
    nodes = list(postorder((guard,)))
    return sum(1 for node in nodes if node.op in _SLOW), len(nodes)


def _has_witness(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether the guard is seen to keep an iteration from running that nothing else does.

    Looked at are a few points: the loops of the guard at their ends, all others at their beginnings.
    """
    own = set(guard.free_vars())
    sizes = [v for v in _mentioned((guard, *others), ranges) if v not in ranges]
    facts = known.context.frame.conditions
    place = {v: k for k, v in enumerate(known.ranges)}
    for value in _SIZES if sizes else _SIZES[:1]:
        point: dict[Expr, int] = {v: _declared_near(v, value) for v in sizes}
        try:
            for v in sorted(ranges, key=place.__getitem__):
                r = ranges[v]
                low = int(evaluate(finite(r.min), point))
                extent = int(evaluate(finite(r.extent), point))
                if extent < 1:
                    raise EvaluationError("a loop that does not run")
                point[v] = low + extent - 1 if v in own else low
            inside = all(_within(known.context.ranges.get(v), point, point[v]) for v in sizes)
            if inside and all(evaluate(cond, point) for cond in (*facts, *others)) and not evaluate(guard, point):
                return True
        except (EvaluationError, InputError):
            continue
    return False


def _declared_near(v: Var, value: int) -> int:
    """A value of a size near to `value` that the variable allows."""
    low, high, step = v.declared()
    value = value if low is None else max(value, low)
    value = value if high is None else min(value, high)
    return value - value % step


def _within(r: Range | None, point: Mapping[Expr, int], value: int) -> bool:
    if r is None:
        return True
    low = evaluate(r.min, point) if isinstance(r.min, Expr) else value
    high = evaluate(r.max, point) if isinstance(r.max, Expr) else value
    return bool(low <= value <= high)


def _mentioned(conditions: Iterable[Cond], ranges: Mapping[Var, Range]) -> list[Var]:
    found = [v for cond in conditions for v in cond.free_vars()]
    found += [v for r in ranges.values() for v in r.free_vars()]
    return list(dict.fromkeys(found))

"""The sizes for which conditions hold at every point of a nest: exactly, as one condition on sizes alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bound.infer.needs.instances import size_limits
from bound.infer.needs.known import Known
from intset.context import Context
from intset.domains.instanced import image_in_instances
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_and, logical_or
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr, Var, as_cond
from intset.expr.walk import conjuncts, free_vars, is_small
from intset.regions.shape import Shape

ALWAYS: Final = "always"
SIZES: Final = "sizes"
DATA: Final = "data"
_MAX_NODES: Final = 120  # a condition of more nodes tells a reader nothing
_MAX_PARTS: Final = 4
_OPERATIONS: Final = 200_000  # of the domain, for one condition


class Requirement(NamedTuple):
    """What has to be so that conditions hold.

    Attributes
    ----------
    depends: "sizes": they hold exactly where `condition` does; "always": there is no point at which they hold and the
        nest is not empty; "data": this is not known.
    condition: on sizes; `None` unless `depends` is "sizes".
    """

    depends: str
    condition: Cond | None = None


def requirement(known: Known, inside: Context, goals: Sequence[Cond], is_refuted: bool) -> Requirement:
    """The weakest condition on sizes under which all `goals` hold at every point of `inside`.

    Parameters
    ----------
    inside: the points: loops with their ranges, guards as facts.
    is_refuted: whether some goal is known to fail at some point.
    """
    loops = set(inside.ranges) - set(known.size_ranges)
    if is_refuted and not any(v not in loops for v in mentioned(inside, goals)):
        return Requirement(ALWAYS)  # no size is involved: this point is one of every run
    try:
        found = _by_projection(known, inside, goals, loops)
    except BudgetError:
        found = None
    if found is None:
        found = _by_ends(known, inside, goals, loops)
    return Requirement(DATA) if found is None else found


def mentioned(inside: Context, goals: Sequence[Cond]) -> tuple[Var, ...]:
    """Everything that the points and the goals mention."""
    ends = [end for r in inside.ranges.values() for end in (r.min, r.extent) if isinstance(end, Expr)]
    in_facts = [v for fact in inside.facts for v in fact.condition.free_vars()]
    return tuple(dict.fromkeys((*free_vars(*ends, *goals), *in_facts)))


# -- affine conditions: the points where a goal fails, projected onto the sizes ----------------------------------------


def _by_projection(known: Known, inside: Context, goals: Sequence[Cond], loops: set[Var]) -> Requirement | None:
    bad = _sizes_of(known, inside.extended(facts=[~logical_and(*goals)]), loops)
    alive = _sizes_of(known, inside, loops)
    if bad is None or alive is None:
        return None
    with known.budget(_OPERATIONS):
        if bad.includes(alive):
            return Requirement(ALWAYS)
        condition = _outside_of(bad, size_limits(known, bad.atoms()))
    if condition is None or not is_small(_MAX_NODES, (condition,)):
        return None
    return Requirement(SIZES, condition)


def _outside_of(bad: Shape, legal: Shape) -> Cond | None:
    """The condition on legal sizes that they are not among the bad ones; each alternative says what others do not."""
    parts = legal.subtract(bad).pieces(_MAX_PARTS)
    if parts is None:
        return None
    alternatives = []
    for k, part in enumerate(parts):
        around = legal
        for other in (*parts[:k], *parts[k + 1 :]):
            around = around.subtract(other)
        alternatives.append(part.simplified(around).condition(()))
    return logical_or(*sorted(alternatives, key=lambda cond: len(list(conjuncts(cond)))))


def _sizes_of(known: Known, points: Context, loops: set[Var]) -> Shape | None:
    """The sizes for which there is a point, as a set of parameters; `None` where it is not known exactly."""
    found = image_in_instances(points, tuple(loops), tuple(known.size_ranges), known.regions)
    return None if found.notes else found.shape.project(())


# -- products of sizes: the ends of an index as expressions of sizes ---------------------------------------------------


def _by_ends(known: Known, inside: Context, goals: Sequence[Cond], loops: set[Var]) -> Requirement | None:
    """By the largest value of what a goal compares, where that is attained whenever there is a point at all."""
    if any(set(fact.condition.free_vars()) & loops for fact in inside.facts):
        return None  # where the guards leave no point is not known
    empty = [as_cond(inside.ranges[v].extent < 1) for v in loops]
    if any(set(cond.free_vars()) & loops for cond in empty):
        return None
    running = [~cond for cond in empty]
    ends = [_at_the_end(inside.extended(facts=running), goal, loops) for goal in goals]
    if any(end is None for end in ends):
        return None
    condition = logical_and(*(end for end in ends if end is not None))
    if definedness((condition,)):
        return None  # an assertion has to have a value for all sizes
    sizes = known.context
    if sizes.extended(facts=running).prove(~condition):
        return Requirement(ALWAYS)
    needed = [cond for cond in empty if not sizes.prove(~cond) and not sizes.extended(facts=[cond]).prove(condition)]
    whole = logical_or(*needed, sizes.simplify(condition))
    return Requirement(SIZES, whole) if is_small(_MAX_NODES, (whole,)) else None


def _at_the_end(inside: Context, goal: Cond, loops: set[Var]) -> Cond | None:
    """`left >= right` or `left < right` at the point where it is hardest to meet."""
    left, right = goal.args
    assert isinstance(left, Expr) and isinstance(right, Expr)
    ends = inside.bounds(left, keep=[v for v in inside.ranges if v not in loops])
    at = ends[0] if goal.op is ops.GE else ends[1]
    if not ends.is_tight or not isinstance(at, Expr) or set(free_vars(at, right)) & loops:
        return None
    return at >= right if goal.op is ops.GE else at < right


__all__ = ["ALWAYS", "DATA", "SIZES", "Requirement", "mentioned", "requirement"]

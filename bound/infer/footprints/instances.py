"""Instances of a stage: the joint values of the loop variables around it, as a set, enumerated, or sampled.

A loop that other ranges depend on but that does not distinguish instances (a thread sharing storage) is projected out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from bound.infer.footprints.environment import LoopEnvironment
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr.build import logical_and
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import opaque_terms
from intset.linear.form import Linear
from intset.regions.shape import Shape

MAX_INSTANCES: Final = 20_000  # enumerated one by one
MAX_LISTED: Final = 3_000  # points of an explicit set


def instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    """The joint values of loop variables, as a set without coordinates over these variables and sizes.

    Guarantee: a superset of the instances, exact unless the budget ends.
    """
    key = tuple(v for v in dict.fromkeys(variables) if v in env.ranges)
    shape = env.instances.get(key)
    if shape is None:
        shape = env.instances[key] = _instances(env, key)
    return shape


def _instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    ranges = transitive_ranges(env, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [env.form(v - as_expr(r.min)), env.form(as_expr(r.max) - v)]
    if all(isinstance(e, Var) for form in forms for e in form.terms):
        return _parameters(env, forms, [v for v in ranges if v not in variables])
    try:
        return _ask_domain(env, ranges, variables)
    except BudgetError:
        points = _listed(env, variables)
        if points is not None:
            return points
    forms = []  # fallback: numeric bounds of each loop
    for v in variables:
        low, high = env.bounds(env.form(v))
        forms += [] if low is None else [env.form(v - low)]
        forms += [] if high is None else [env.form(high - v)]
    return _parameters(env, forms)


def size_bounds(env: LoopEnvironment, params: Sequence[Expr]) -> Shape:
    """The parameters within their numeric bounds, as a set without coordinates."""
    forms: list[Linear] = []
    for param in params:
        form = env.form(param)
        low, high = env.bounds(form)
        forms += [] if low is None else [form.shift(-low)]
        forms += [] if high is None else [form.scale(-1).shift(high)]
    return _parameters(env, forms)


def _parameters(env: LoopEnvironment, forms: Sequence[Linear], running: Sequence[Var] = ()) -> Shape:
    """The parameters at which all forms are nonnegative for some values of `running`."""
    return env.shapes.box([], forms).without(running)


def _ask_domain(env: LoopEnvironment, ranges: Mapping[Var, Range], variables: Sequence[Var]) -> Shape:
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    # Conditions, not ranges: emptiness of a range with at most one point would go unnoticed.
    context = env.context.extended(dict.fromkeys(ranges), inside)
    image = image_in_instances(context, list(variables), list(env.size_ranges), env.regions)
    if image.notes:
        raise BudgetError(image.notes[0])
    return image.shape.dims_to_params(variables)


def _listed(env: LoopEnvironment, variables: Sequence[Var]) -> Shape | None:
    """The instances as a set of points; `None` for symbolic sizes or too many instances."""
    visited = enumerate_instances(env, variables)
    points = None if visited is None else sorted(visited)
    if points is None or len(points) > MAX_LISTED:
        return None
    try:
        return env.shapes.listing(points, (), len(variables)).dims_to_params(variables)
    except BudgetError:
        return None


def enumerate_instances(env: LoopEnvironment, variables: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """Enumerate the instances as tuples of values; `None` for symbolic sizes or too many instances."""
    ranges = transitive_ranges(env, variables)
    spans = []
    for v in ranges:
        low, high = env.bounds(env.form(v))
        if low is None or high is None:
            return None
        spans.append(range(low, high + 1))
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    if prod(map(len, spans)) > MAX_INSTANCES or any(w not in ranges for cond in inside for w in cond.free_vars()):
        return None
    order = list(ranges)
    places = [order.index(v) for v in variables]
    points = _satisfying(compiled(logical_and(*inside), order), product(*spans))
    projected = (tuple(point[k] for k in places) for point in points)
    return projected if len(order) == len(variables) else iter(dict.fromkeys(projected))


def _satisfying(test: Any, points: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for point in points:
        try:
            if test(*point):
                yield point
        except ArithmeticError:  # division by 0: no instance
            continue


def transitive_ranges(env: LoopEnvironment, variables: Iterable[Expr]) -> dict[Var, Range]:
    """The ranges of loop variables and of all loops that those ranges mention, transitively."""
    ranges: dict[Var, Range] = {}
    waiting = list(variables)
    while waiting:
        v = waiting.pop()
        if isinstance(v, Var) and v not in ranges and v in env.ranges:
            ranges[v] = env.ranges[v]
            waiting.extend(env.ranges[v].free_vars())
    return ranges


# -- sampling ---------------------------------------------------------------------------------------------------------

_SIZES: Final = (1009, 7, 13, 101)  # distances of a sampled size from its lower end; not multiples of common tiles


def takes_two_values(env: LoopEnvironment, e: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether two sampled instances give `e` different values."""
    seen: set[int] = set()
    for point in sample_instances(env, ranges, conditions, (e,)):
        try:
            seen.add(evaluate(e, point))
        except EvaluationError:
            continue
        if len(seen) > 1:
            return True
    return False


def has_instance(env: LoopEnvironment, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether some sampled instance satisfies the conditions."""
    return any(True for _ in sample_instances(env, ranges, conditions))


def sample_instances(
    env: LoopEnvironment,
    ranges: Mapping[Var, Range],
    conditions: Sequence[Cond],
    roots: Sequence[Expr | Cond] = (),
    last: Collection[Var] | None = None,
) -> Iterator[dict[Expr, int]]:
    """A few instances that satisfy `conditions` and the user's facts: values of all variables, sizes included.

    Guarantee: every point yielded is an instance. Finding none proves nothing.

    Parameters
    ----------
    ranges: the loops, closed under `transitive_ranges`.
    roots: further expressions whose variables get values.
    last: loops at their last iteration, all others at the first; by default, points with all loops first and all
        loops last.
    """
    facts = (*env.context.frame.conditions, *conditions)
    if opaque_terms(*facts):
        return  # they depend on data
    position = {v: k for k, v in enumerate(env.ranges)}
    loops = sorted(ranges, key=position.__getitem__)
    used = dict.fromkeys(v for root in (*roots, *facts, *ranges.values()) for v in root.free_vars())
    sizes = [v for v in used if v not in ranges]
    for magnitude in _SIZES if sizes else _SIZES[:1]:
        for at_end in ((), loops) if last is None else (last,):
            point: dict[Expr, int] = {v: _sampled_size(env, v, magnitude) for v in sizes}
            try:
                for v in loops:
                    point[v] = _sampled_iteration(ranges[v], point, v in at_end)
                inside = all(_contains(env.context.ranges.get(v), point, point[v]) for v in sizes)
                if inside and all(evaluate(fact, point) for fact in facts):
                    yield point
            except (EvaluationError, InputError):
                continue


def _sampled_size(env: LoopEnvironment, v: Var, magnitude: int) -> int:
    """A value `magnitude` above the lower end of a size, within its upper end and a multiple of its declared step."""
    low, high = env.bounds(env.form(v))
    value = magnitude if low is None else low + magnitude
    value = value if high is None else min(value, high)
    return value - value % v.declared()[2]


def _sampled_iteration(r: Range, point: Mapping[Expr, int], at_end: bool) -> int:
    """The first or last iteration of a loop.

    Raises
    ------
    EvaluationError: the loop has no iterations.
    """
    first, last = int(evaluate(as_expr(r.min), point)), int(evaluate(as_expr(r.max), point))
    if first > last:
        raise EvaluationError("a loop without iterations")
    return last if at_end else first


def _contains(r: Range | None, point: Mapping[Expr, int], value: int) -> bool:
    if r is None:
        return True
    low = evaluate(r.min, point) if isinstance(r.min, Expr) else value
    high = evaluate(r.max, point) if isinstance(r.max, Expr) else value
    return bool(low <= value <= high)

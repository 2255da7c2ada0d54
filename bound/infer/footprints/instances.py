"""The instances of a stage: the values that the loop variables around it take together.

A few instances to try: what differs between two of them need not be asked to be the same in all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from bound.infer.footprints.environment import LoopEnvironment
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, EvaluationError
from intset.expr.build import logical_and
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import opaque_terms
from intset.linear.form import Linear
from intset.regions.shape import Shape

MAX_INSTANCES: Final = 20_000  # that are visited one by one
_MAX_LISTED: Final = 3_000


def instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    """The values that the loop variables take together, as a set without coordinates: its parameters are these,
    and sizes.

    Loops that the ranges depend on beyond these run: threads that share the storage of a stage, for instance.
    """
    key = tuple(v for v in dict.fromkeys(variables) if v in env.ranges)
    found = env.instances.get(key)
    if found is None:
        found = env.instances[key] = _instances(env, key)
    return found


def _instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    ranges = transitive_ranges(env, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [env.form(v - as_expr(r.min)), env.form(as_expr(r.max) - v)]
    if all(isinstance(e, Var) for form in forms for e in form.terms):
        return _parameters(env, forms, [v for v in ranges if v not in variables])
    try:
        return _asked_instances(env, ranges, variables)
    except BudgetError:
        points = _listed(env, variables)
        if points is not None:
            return points
    forms = []  # a superset: each loop within its numeric ends
    for v in variables:
        low, high = env.bounds(env.form(v))
        forms += [] if low is None else [env.form(v - low)]
        forms += [] if high is None else [env.form(high - v)]
    return _parameters(env, forms)


def size_bounds(env: LoopEnvironment, params: Sequence[Expr]) -> Shape:
    """The parameters within what is known of each by itself."""
    forms: list[Linear] = []
    for param in params:
        form = env.form(param)
        low, high = env.bounds(form)
        forms += [] if low is None else [form.shift(-low)]
        forms += [] if high is None else [form.scale(-1).shift(high)]
    return _parameters(env, forms)


def _parameters(env: LoopEnvironment, forms: Sequence[Linear], running: Sequence[Var] = ()) -> Shape:
    """The set of parameters where all forms are at least 0, for some values of those that run."""
    return env.shapes.box([], forms).without(running)


def _asked_instances(env: LoopEnvironment, ranges: Mapping[Var, Range], variables: Sequence[Var]) -> Shape:
    inside = [v >= r.min for v, r in ranges.items()] + [v <= r.max for v, r in ranges.items()]
    # As conditions: of a range that is at most one point long, an empty one would not be told apart.
    context = env.context.extended(dict.fromkeys(ranges), inside)
    found = image_in_instances(context, list(variables), list(env.size_ranges), env.regions)
    if found.notes:
        raise BudgetError(found.notes[0])
    return found.shape.fibred(variables)


def _listed(env: LoopEnvironment, variables: Sequence[Var]) -> Shape | None:
    """The instances as a list of points; `None` for open sizes, or where there are too many."""
    visited = enumerate_instances(env, variables)
    points = None if visited is None else sorted(visited)
    if points is None or len(points) > _MAX_LISTED:
        return None
    try:
        return env.shapes.listing(points, (), len(variables)).fibred(variables)
    except BudgetError:
        return None


def enumerate_instances(env: LoopEnvironment, variables: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """The instances one by one, as values of the variables; `None` for open sizes, or too many."""
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
    found = (tuple(point[k] for k in places) for point in points)
    return found if len(order) == len(variables) else iter(dict.fromkeys(found))


def _satisfying(test: Any, points: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for point in points:
        try:
            if test(*point):
                yield point
        except ArithmeticError:  # a division by 0: no such instance
            continue


def transitive_ranges(env: LoopEnvironment, variables: Iterable[Expr]) -> dict[Var, Range]:
    """The ranges of loop variables, with those of the loops that their ranges depend on."""
    found: dict[Var, Range] = {}
    waiting = list(variables)
    while waiting:
        v = waiting.pop()
        if isinstance(v, Var) and v not in found and v in env.ranges:
            found[v] = env.ranges[v]
            waiting.extend(env.ranges[v].free_vars())
    return found


_SIZES: Final = (1000, 5)  # a size is tried that far above its lower end


def takes_two_values(env: LoopEnvironment, e: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether `e` is seen to take two values in instances in which the conditions hold."""
    seen: set[int] = set()
    for point in _sample_instances(env, (e,), ranges, conditions):
        try:
            seen.add(evaluate(e, point))
        except EvaluationError:
            continue
        if len(seen) > 1:
            return True
    return False


def has_instance(env: LoopEnvironment, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether an instance is seen in which the conditions hold."""
    return any(True for _ in _sample_instances(env, (), ranges, conditions))


def _sample_instances(
    env: LoopEnvironment, roots: Sequence[Expr], ranges: Mapping[Var, Range], conditions: Sequence[Cond]
) -> Iterator[dict[Var, int]]:
    facts = (*env.context.frame.conditions, *conditions)
    if opaque_terms(*facts):
        return  # whether they hold depends on data: no instance is known
    for point in _points(env, [*roots, *facts], ranges):
        try:
            if all(evaluate(fact, point) for fact in facts):
                yield point
        except EvaluationError:
            continue


def _points(
    env: LoopEnvironment, roots: Sequence[Expr | Cond], ranges: Mapping[Var, Range]
) -> Iterator[dict[Var, int]]:
    """Values of all variables: sizes of two magnitudes, loops all at their first and all at their last iteration.

    A point at which a loop does not run is no instance.
    """
    loops = _ordered(ranges)
    used = dict.fromkeys(v for root in (*roots, *ranges.values()) for v in root.free_vars())
    for size in _SIZES:
        sizes: dict[Var, int] = {}
        for v in used:
            if v not in ranges:
                low, high = env.bounds(env.form(v))
                number = size if low is None else low + size
                sizes[v] = number if high is None else min(number, high)
        for at_end in (False, True):
            point = dict(sizes)
            try:
                for v in loops:
                    first, last = ranges[v].min, ranges[v].max
                    assert isinstance(first, Expr) and isinstance(last, Expr)
                    low, high = evaluate(first, point), evaluate(last, point)
                    if low > high:
                        break
                    point[v] = high if at_end else low
                else:
                    yield point
            except (EvaluationError, KeyError):
                continue


def _ordered(ranges: Mapping[Var, Range]) -> list[Var]:
    """The loops, each after those that its range depends on."""
    order: dict[Var, None] = {}
    waiting = list(ranges)
    while waiting:
        v = waiting[-1]
        missing = [w for w in ranges[v].free_vars() if w in ranges and w not in order]
        if missing and v not in order:
            waiting.extend(missing)
            continue
        order[waiting.pop()] = None
    return list(order)

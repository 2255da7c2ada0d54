"""Enumeration of small boxes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from math import prod
from typing import Final

from intset.domains.certified.witness import Point
from intset.domains.query import Query
from intset.errors import EvaluationError
from intset.expr.build import select, sum_of
from intset.expr.dag import free_vars, opaque_terms, postorder
from intset.expr.evaluate import compiled, length, some_may_be_long
from intset.expr.node import Cond, Expr, Var

ENUMERATED_NODES: Final = 64  # nodes of a question; of longer ones fewer points are tried

LISTED: Final = "points"  # name of the domain in answers by enumeration


def runs(values: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Split sorted values into maximal arithmetic progressions `(first, last, step)`."""
    k = 0
    while k < len(values):
        end = k + 1
        step = values[end] - values[k] if end < len(values) else 0
        while end < len(values) and values[end] - values[end - 1] == step:
            end += 1
        if end - k == 2 and step > 1:
            end, step = k + 1, 0
        yield values[k], values[end - 1], step if end - k > 1 else 0
        k = end


def box_of(query: Query, limit: int | None = None) -> tuple[list[Var], list[range]] | None:
    """The relevant variables and their numeric ranges; `None` for a box that is unbounded or exceeds `limit` points."""
    relaxed, params, _, _ = query.split_relevant(query.exprs)
    roots = (*query.exprs, *query.facts)
    if params or opaque_terms(*roots):
        return None
    spans = []
    for var in relaxed:
        low, high = query.known.atom_bounds(var)
        if low is None or high is None:
            return None
        spans.append(range(low, high + 1))
    most = query.config.points if limit is None else min(limit, query.config.points)
    if prod(map(length, spans)) > most:
        return None
    nodes = postorder(roots)
    most = _affordable(len(nodes), most)
    if prod(map(len, spans)) > most:
        return None
    bits = {var: max(abs(span.start), abs(span.stop)).bit_length() for var, span in zip(relaxed, spans, strict=True)}
    return None if some_may_be_long(nodes, bits) else (relaxed, spans)


def _affordable(nodes: int, points: int) -> int:
    """The budget of points, reduced for long expressions."""
    if nodes <= ENUMERATED_NODES:
        return points
    return points * ENUMERATED_NODES**2 // nodes**2  # long expressions are not compiled, so each node costs more


def tuples_of(query: Query, limit: int | None = None) -> list[tuple[int, ...]] | None:
    """The image by enumeration, for satisfiable irrelevant facts; `None` for a large or symbolic box."""
    box = box_of(query, limit)
    if box is None:
        return None
    variables, spans = box
    _, _, touching, _ = query.split_relevant(query.exprs)
    checks = [*touching, *symbolic_limits(query, variables)]
    functions = [compiled(e, variables) for e in query.exprs]
    guards = [compiled(check, variables) for check in checks]
    try:
        return _values_at(itertools.product(*spans), functions, guards)
    except (ZeroDivisionError, EvaluationError):
        image: dict[tuple[int, ...], None] = {}
        for point in itertools.product(*spans):
            with suppress(ZeroDivisionError, EvaluationError):
                image.update(dict.fromkeys(_values_at([point], functions, guards)))
        return list(image)


def _values_at(
    points: Iterable[tuple[int, ...]], functions: Sequence[Callable[..., int]], guards: Sequence[Callable[..., bool]]
) -> list[tuple[int, ...]]:
    """The distinct tuples of values at the points where all guards hold; raises for undefined values."""
    if guards:
        points = [point for point in points if all(guard(*point) for guard in guards)]
    if not functions:
        return [()] if any(True for _ in points) else []
    each = itertools.tee(points, len(functions))
    values = [itertools.starmap(function, own) for function, own in zip(functions, each, strict=True)]
    return list(dict.fromkeys(zip(*values, strict=True)))


def facts_hold(query: Query, facts: Sequence[Cond]) -> str:
    """Satisfiability of facts by enumeration: "holds", "empty" or "unknown" for a large box."""
    variables = free_vars(*facts)
    if not variables:
        return "unknown"
    alone = Query([sum_of(variables)], query.ranges, facts, (), query.base, query.known, query.config)
    values = tuples_of(alone)
    return "unknown" if values is None else "holds" if values else "empty"


def false_point(query: Query, goal: Cond) -> tuple[str, Point | None] | None:
    """Evaluate `goal` at every point of the box.

    Returns ("always", None) for a true goal, ("never", None) for an empty box, ("fails", point) for the first
    counterexample; `None` for a symbolic, unbounded or large box.
    """
    roots = Query([_as_value(goal)], query.ranges, query.facts, (), query.base, query.known, query.config)
    box = box_of(roots)
    if box is None:
        return None
    variables, spans = box
    _, _, touching, leftover = roots.split_relevant(roots.exprs)
    if leftover:
        return None
    checks = [compiled(check, variables) for check in (*touching, *symbolic_limits(query, variables))]
    test = compiled(goal, variables)
    seen = False
    for point in itertools.product(*spans):
        try:
            if not all(check(*point) for check in checks):
                continue
            seen = True
            if not test(*point):
                return "fails", dict(zip(variables, point, strict=True))
        except (ZeroDivisionError, EvaluationError):
            continue
    return ("always" if seen else "never"), None


def symbolic_limits(query: Query, variables: Sequence[Var]) -> list[Cond]:
    """The symbolic ranges of variables as conditions."""
    found: list[Cond] = []
    for var in variables:
        limits = query.ranges[var]
        if limits.constant() is None:
            found += [var >= limits.min, var <= limits.max]
    return found


def _as_value(goal: Cond) -> Expr:
    return select(goal, 1, 0)

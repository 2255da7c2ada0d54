"""Witnesses: points of the domain at which an expression attains a bound.

Guarantee: the expression and all facts were evaluated at a returned point. The search itself may guess.

Small boxes are enumerated. Conditions over many sizes are repaired: each step changes one size such that fewer of them
are violated. Conditions that stay violated gain weight, so that the search leaves a point at which every step makes
matters worse (Morris, *The Breakout Method for Escaping From Local Minima*, AAAI 1993). Nothing is drawn: the same
conditions give the same point.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any, Final

from intset.domains.query import Query, TierVerdict
from intset.errors import EvaluationError, InputError
from intset.expr import Cond, Expr, Node, Var, dag, ops
from intset.expr.build import logical_and, select, sum_of
from intset.expr.evaluate import compiled, evaluate, length, point_value, repeatable, some_may_be_long, value_or_none
from intset.expr.node import is_declared
from intset.expr.range import range_conditions
from intset.linear.bounds import Interval, first_of
from intset.linear.canonical import Normalizer
from intset.linear.division import as_quotient
from intset.linear.form import Linear, factors, is_affine

WITNESS_AIMS: Final = 200  # subterms that one guess looks at

Point = dict[Expr, int]


def is_attained(query: Query, value: int, side: int) -> bool:
    """Whether a point is found at which the expression has `value`, its largest (`side` +1) or smallest (-1) value.

    The question has no parameters.
    """
    return any(is_witness(query, point, value) for point in _guesses(query, value, side))


def is_witness(query: Query, point: Point, value: int) -> bool:
    """Complete a point and check that it lies in the domain and that the expression is `value` there."""
    roots = (*query.exprs, *query.facts)
    there: int | None = value_there(query, dag.postorder(roots), query.exprs[0], point)
    return there == value


def value_there(query: Query, nodes: Sequence[Node], root: Node, point: Point) -> Any:
    """The value of `root` at a point, which is completed first; `None` outside the domain and where it has no value.

    Parameters
    ----------
    nodes: all nodes below the root and the facts, operands first.
    """
    try:
        complete(query, point)
        agree_on_loads(nodes, point)
        if some_may_be_long(nodes, {leaf: value.bit_length() for leaf, value in point.items()}):
            return None
        return evaluate(root, point) if in_domain(query, point) else None
    except (EvaluationError, InputError):
        return None


def agree_on_loads(nodes: Iterable[Node], point: Point) -> None:
    """Make loads of one symbol with equal indices at `point` agree on the first value.

    Loads with undefined indices are skipped: lazy evaluation does not reach them, or the point lies outside the domain.
    """
    seen: dict[tuple[object, ...], int] = {}
    for term in nodes:
        if isinstance(term, Expr) and term.op is ops.LOAD:
            indices = tuple(point_value(index, point) for index in term.args)
            if None not in indices:
                point[term] = seen.setdefault((term.data, *indices), point[term])


def in_domain(query: Query, point: Point) -> bool:
    """Whether a complete point lies in the ranges of its variables and satisfies the facts."""
    for v in [v for v in point if isinstance(v, Var)]:
        if not is_declared(v, point[v]):
            return False
        limits = query.ranges.get(v)
        if limits is None:
            continue
        if limits.ends is not None:
            if not limits.ends[0] <= point[v] <= limits.ends[1]:
                return False
        elif not all(evaluate(cond, point) for cond in range_conditions(v, limits)):
            return False
    return all(evaluate(fact, point) for fact in query.facts)


def complete(query: Query, point: Point) -> None:
    """Complete a point: each missing variable or opaque term gets a value from its range.

    A value outside a dependent range moves to the nearest end. Facts `e == value` then set unranged variables and loads
    without a given value.
    """
    roots = (*query.exprs, *query.facts)
    given = set(point)
    for var in outer_first(query, dag.free_vars(*roots)):
        limits = query.ranges.get(var)
        if var not in point:
            point[var] = _first_of(query, var, point)
        elif limits is not None and limits.ends is None:
            low, high = (evaluate(e, point) if isinstance(e, Expr) else None for e in (limits.min, limits.max))
            value = point[var] if high is None else min(point[var], high)
            point[var] = value if low is None else max(value, low)
    for term in dag.opaque_terms(*roots):
        if term not in point:
            canonical = query.known.form(term)
            known = point.get(next(iter(canonical.terms), term))
            low, high = (canonical.const, canonical.const) if canonical.is_const else (term.data.lower, term.data.upper)
            point[term] = known if known is not None else low if low is not None else min(0, high or 0)
    for fact in query.facts:
        if fact.op is ops.EQ:
            for e, value in (fact.args, fact.args[::-1]):
                if (e.op is ops.VAR and e not in query.ranges) or e.op is ops.LOAD:
                    if e not in given:
                        point[e] = evaluate(value, point)
                    break


def outer_first(query: Query, roots: Sequence[Var]) -> list[Var]:
    """The variables and those of their ranges, in topological order: outer variables first."""
    ranges = query.ranges
    return dag.postorder_by(roots, lambda v: ranges[v].free_vars() if v in ranges else ())


def _first_of(query: Query, var: Var, point: Point) -> int:
    """The smallest value of a variable in its range, at the values of outer variables in `point`."""
    low, high = query.known.atom_bounds(var)
    limits = query.ranges.get(var)
    if limits is not None and limits.ends is None:
        if isinstance(limits.min, Expr) and not dag.opaque_terms(limits.min):
            first = evaluate(limits.min, point)
            low = first if low is None else max(low, first)
        if isinstance(limits.max, Expr) and low is None and not dag.opaque_terms(limits.max):
            last = evaluate(limits.max, point)
            high = last if high is None else min(high, last)
    return first_of((low, high))


def _guesses(query: Query, value: int, side: int) -> Iterator[Point]:
    known, form = query.known, query.forms[0]
    solved: Point = {}
    if query.facts and side > 0 and _solve(known, form, value, value, solved):
        yield solved  # facts limit upper ends more often than lower ones
    regrouped = known.regroup(form)
    yield aim(known, regrouped, side)
    if regrouped is not form:
        yield aim(known, form, side)
    if query.facts and side < 0 and _solve(known, form, value, value, solved):
        yield solved


def aim(known: Normalizer, form: Linear, side: int) -> Point:
    """Guess values for the variables of `form` that drive it to its largest (`side` +1) or smallest (-1) value."""
    point: Point = {}
    if is_affine(form):
        for e, k in form.terms.items():
            _take(known, e, side if k > 0 else -side, point)
        return point
    seen: set[tuple[Expr, int]] = set()
    waiting = _toward(form, side)
    while waiting and len(seen) < WITNESS_AIMS:
        e, end = waiting.pop()
        if (e, end) not in seen:
            seen.add((e, end))
            waiting.extend(_aim(known, e, end, point))
    return point


def _take(known: Normalizer, e: Expr, side: int, point: Point) -> None:
    """Assign `e` its end on `side`, unless it has a value."""
    end = known.atom_bounds(e)[side > 0]
    if end is not None:
        point.setdefault(e, end)


def _toward(form: Linear, side: int) -> list[tuple[Expr, int]]:
    """The terms of `form` with the side of each, in ascending order of coefficients."""
    ordered = sorted(form.terms.items(), key=lambda term: abs(term[1]))
    return [(e, side if k > 0 else -side) for e, k in ordered]


def _aim(known: Normalizer, e: Expr, side: int, point: Point) -> list[tuple[Expr, int]]:
    """Assign the variables of a term to drive it to `side`; returns subterms to drive."""
    if e.op is ops.VAR or e.op is ops.LOAD:
        _take(known, e, side, point)
    elif e.op is ops.FLOORDIV and e.args[1].op is ops.CONST:
        c = e.args[1].data
        end = known.atom_bounds(e)[side > 0]
        base = known.form(e.args[0])
        if end is not None and not _solve(known, base, end * c, end * c + c - 1, point):
            return _toward(base, side)
    elif e.op is ops.FLOORMOD and e.args[1].op is ops.CONST:
        c = e.args[1].data
        base = known.form(e.args[0])
        end, start = known.atom_bounds(e)[side > 0], known.bounds(base)[0]
        if end is not None and start is not None:
            first = start + (end - start) % c
            _solve(known, base, first, first, point)
    elif e.op in (ops.MIN, ops.MAX, ops.SELECT):
        return [step for arg in e.args[-2:] for step in _toward(known.form(arg), side)]
    elif e.op is ops.MUL:
        return [(part, side) for part in factors(e)]
    elif e.op is ops.ABS:
        inner = known.form(e.args[0])
        low, high = known.bounds(inner)
        if low is not None and high is not None:
            return _toward(inner, 1 if high >= -low else -1)
    return []


def _solve(known: Normalizer, form: Linear, low: int, high: int, point: Point) -> bool:
    """Assign variables such that `low <= form <= high`, greedily from the largest coefficient down.

    A quotient, also one written as `i + (i + j)//3`, is solved for its dividend.
    """
    if not is_affine(form) and (quotient := as_quotient(known, form)) is not None and quotient[1].is_const:
        dividend, c = quotient[0], quotient[1].const
        return c > 0 and _solve(known, dividend, low * c, high * c + c - 1, point)
    base = form.const
    free: list[tuple[int, Expr, int, int]] = []
    for e, k in form.terms.items():
        if e in point:
            base += k * point[e]
            continue
        first, last = known.atom_bounds(e)
        if first is None or last is None or e.op not in (ops.VAR, ops.LOAD):
            return False
        start = first if k > 0 else last
        base += k * start
        free.append((abs(k), e, start, last - first))
    need = low - base
    chosen: Point = {}
    free.sort(key=lambda term: -term[0])
    for position, (size, e, start, extent) in enumerate(free):
        steps = min(extent, max(need, 0) // size)
        if position == len(free) - 1 and need > steps * size and steps < extent:
            steps += 1
        need -= steps * size
        chosen[e] = start + steps if form.terms[e] > 0 else start - steps
    if not low <= low - need <= high or need > 0:
        return False
    point.update(chosen)
    return True


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
    box = spans_of(query)
    most = query.config.points if limit is None else min(limit, query.config.points)
    if box is None or prod(map(length, box.values())) > most:
        return None
    nodes = dag.postorder((*query.exprs, *query.facts))
    if len(nodes) > ENUMERATED_NODES:  # long expressions are not compiled, so each node costs more
        most = most * ENUMERATED_NODES**2 // len(nodes) ** 2
    if prod(map(len, box.values())) > most or is_long_on(nodes, box):
        return None
    return list(box), list(box.values())


def spans_of(query: Query) -> dict[Var, range] | None:
    """The numeric range of each relevant variable; `None` for an open range, a parameter or a load."""
    relaxed, params, _, _ = query.split_relevant(query.exprs)
    if params or dag.opaque_terms(*query.exprs, *query.facts):
        return None
    spans: dict[Var, range] = {}
    for var in relaxed:
        low, high = query.known.atom_bounds(var)
        if low is None or high is None:
            return None
        spans[var] = range(low, high + 1)
    return spans


def is_long_on(nodes: Sequence[Node], box: Mapping[Var, range]) -> bool:
    """Whether the value of a node may exceed the length limit of evaluation somewhere in a box."""
    bits = {var: max(abs(span.start), abs(span.stop)).bit_length() for var, span in box.items()}
    return some_may_be_long(nodes, bits)


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
    variables = dag.free_vars(*facts)
    if not variables:
        return "unknown"
    alone = Query([sum_of(variables)], query.ranges, facts, (), query.base, query.known, query.config)
    values = tuples_of(alone)
    return "unknown" if values is None else "holds" if values else "empty"


def verdict_of_points(query: Query, goal: Cond) -> TierVerdict | None:
    """The verdict of every point of the box, or of the first counterexample; `None` where `box_of` has no box."""
    roots = Query([select(goal, 1, 0)], query.ranges, query.facts, (), query.base, query.known, query.config)
    box = box_of(roots)
    if box is None:
        return None
    variables, spans = box
    _, _, touching, leftover = roots.split_relevant(roots.exprs)
    if leftover:
        return None
    inside = compiled(logical_and(*touching, *symbolic_limits(query, variables)), variables)
    test = compiled(goal, variables)
    seen = False
    for point in itertools.product(*spans):
        if not value_or_none(inside, *point):
            continue
        seen = True
        if value_or_none(test, *point) is False:
            return TierVerdict("refuted", dict(zip(variables, point, strict=True)))
    return TierVerdict("proved", vacuous=not seen)


def symbolic_limits(query: Query, variables: Sequence[Var]) -> list[Cond]:
    """The symbolic ranges of variables as conditions."""
    limits = [(var, query.ranges[var]) for var in variables if query.ranges[var].constant() is None]
    return [cond for var, symbolic in limits for cond in range_conditions(var, symbolic)]


REPAIR_EVALUATIONS: Final = 3_000  # conditions evaluated in one search for a point
REPAIR_REACH: Final = 65  # steps from the value of a size to the last one that is tried
REPAIR_SIZES: Final = 64  # sizes of one search

_FAR = 64  # bits of a size without an end
FEW = 4  # values of one size, among those that satisfy the violated condition, that are weighed


class _OutOfEvaluationsError(Exception):
    """The search is out of evaluations."""


class _LocalSearch:
    """A point, the conditions that it violates, and their weights."""

    def __init__(self, conditions: Sequence[Cond], spans: Mapping[Var, Interval]) -> None:
        self.conditions, self.spans = conditions, spans
        self.mentioned = [dag.free_vars(cond) for cond in conditions]
        self.tests = [repeatable(cond, own) for cond, own in zip(conditions, self.mentioned, strict=True)]
        self.touching: dict[Var, list[int]] = {v: [] for v in spans}
        for number, own in enumerate(self.mentioned):
            for v in own:
                self.touching[v].append(number)
        self.weights = [1] * len(conditions)
        self.left = REPAIR_EVALUATIONS
        self.point: Point = {v: first_of(span) for v, span in spans.items()}

    def holds(self, number: int) -> bool:
        """Whether a condition holds at the point; one without a value there does not."""
        self.left -= 1
        if self.left < 0:
            raise _OutOfEvaluationsError
        return bool(value_or_none(self.tests[number], *[self.point[v] for v in self.mentioned[number]]))

    def search(self) -> Point | None:
        """A point that satisfies all conditions; `None` if no size of a violated one can move."""
        violated = {number for number in range(len(self.conditions)) if not self.holds(number)}
        while violated:
            number = min(violated)
            best: tuple[int, int, Var, int, set[int]] | None = None
            for v in self.mentioned[number]:
                old = self.point[v]
                for value in self.values(number, v):
                    self.point[v] = value
                    broken = {other for other in self.touching[v] if not self.holds(other)}
                    cost = sum(self.weights[other] for other in broken)
                    cost -= sum(self.weights[other] for other in violated if other in self.touching[v])
                    if best is None or (cost, abs(value - old)) < best[:2]:
                        best = (cost, abs(value - old), v, value, broken)
                self.point[v] = old
            for other in violated:
                self.weights[other] += 1
            if best is None:
                return None
            _, _, v, value, broken = best
            self.point[v] = value
            violated = {other for other in violated if v not in self.mentioned[other]} | broken
        return self.point

    def values(self, number: int, v: Var) -> list[int]:
        """The nearest values of a size at which the condition holds; else some toward it."""
        old = self.point[v]
        found: list[int] = []
        toward = list(self._toward(number, v))
        near = (old + side * step for step in range(1, REPAIR_REACH) for side in (1, -1))
        for value in (*toward, *near):
            if value not in found and self.is_within(v, value):
                self.point[v] = value
                if self.holds(number):
                    found.append(value)
                self.point[v] = old
                if len(found) == FEW:
                    break
        return found or [value for value in (*toward, old + 1, old - 1) if self.is_within(v, value)]

    def is_within(self, v: Var, value: int) -> bool:
        low, high = self.spans[v]
        return value != self.point[v] and (low is None or low <= value) and (high is None or value <= high)

    def _toward(self, number: int, v: Var) -> Iterator[int]:
        """Where the line through two values of the difference of the sides is zero."""
        parts = dag.reachable((self.conditions[number],), lambda c: [a for a in c.args[::-1] if isinstance(a, Cond)])
        for part in parts:
            if part.op not in ops.COMPARISONS:
                continue
            a, b = part.args
            old = self.point[v]
            try:
                here = evaluate(a, self.point) - evaluate(b, self.point)
                self.point[v] = old + 1
                slope = evaluate(a, self.point) - evaluate(b, self.point) - here
            except EvaluationError:
                continue
            finally:
                self.point[v] = old
            if slope:
                zero = old - here // slope
                yield from (zero, zero + 1, zero - 1)


def repaired(conditions: Sequence[Cond], spans: Mapping[Var, Interval]) -> Point | None:
    """A point of the spans that satisfies all conditions, or `None` if the search finds none.

    Parameters
    ----------
    spans: an interval for each variable of the conditions.
    """
    if len(spans) > REPAIR_SIZES or dag.opaque_terms(*conditions):
        return None
    if some_may_be_long(
        dag.postorder(conditions),
        {v: max([_FAR if k is None else abs(k).bit_length() for k in spans[v]]) for v in spans},
    ):
        return None
    try:
        return _LocalSearch(conditions, spans).search()
    except (_OutOfEvaluationsError, InputError):
        return None

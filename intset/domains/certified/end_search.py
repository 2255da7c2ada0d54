"""Ends where structure proves too little: of chains of remainders, and of nonlinear expressions without bounds.

What structure proves of the ends of a chain of remainders is mostly attained and hard to certify: a witness by aiming
meets one remainder at a time, and integer programming over many divisions takes long. Points are cheap: the chain is
compiled once and evaluated.

- Branch and bound visits points in descending order of an upper bound: the linear part of the canonical form at the
  point, plus the largest value of the other terms anywhere. Once no bound left exceeds the best value, that value is
  the end. (Land and Doig, *An automatic method of solving discrete programming problems*, 1960.)
- Where its budget ends, a climb looks for a point at the end that structure proves: it moves one coordinate, then two
  at a time, uphill, from several starts.

A nonlinear expression over unbounded variables is tried on lines and at corners. A *line* assigns each variable a
function of one variable t >= `FAR`. An end is infinite if the whole line is proved to lie in the domain and the
expression is proved to exceed t / `STEEP` on it: with `a = t`, `b = 0`, `a // (b + 1)` has no upper end. A finite end
is attained by a witness: a corner of the domain, with one coordinate solved for.

Guarantee: every end is proved, of a chain by the linear form, of other expressions by evaluation.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from intset.config import CHEAPEST
from intset.domains.certified.structure import symbolic_bounds
from intset.domains.certified.witness import Point, is_witness, outer_first, symbolic_limits
from intset.domains.query import Query
from intset.domains.ranked import are_apart
from intset.domains.sets.ends import Bounds, numeric_ends
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.dag import free_vars, is_nonlinear, opaque_terms, postorder, substitute
from intset.expr.evaluate import all_hold, compiled, point_value, some_may_be_long, value_or_none
from intset.expr.node import Cond, Expr, Var, as_cond, as_expr, const, constant_value
from intset.expr.range import declared_conditions, range_conditions
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, monomial_of
from intset.linear.signs import is_known

CLIMBED_POINTS: Final = 4_000  # points that a climb visits in search of one end of a chain of remainders
CLIMBED_VALUES: Final = 16  # values of one coordinate that a climb tries
BRANCHED_POINTS: Final = 6_000  # points that branch and bound visits for one end of a chain of remainders

_FEWEST_DIVISIONS = 2  # with fewer, aiming or the strongest domain answers sooner
_SPREAD = 2654435761  # of the starts of climbs, Knuth's multiplicative hash

_ValueAt: TypeAlias = "Callable[[tuple[int, ...]], int | None]"  # `None` outside and where the value is undefined


def attained_ends(query: Query, low: int, high: int, is_brief: bool = False) -> tuple[int, int] | None:
    """The smallest and largest value of the query's expression; `None` if the search does not prove both in its budget.

    Guarantee: expression and facts were evaluated, as written, at points where both ends are attained.

    Parameters
    ----------
    low, high: ends of a superset, usually attained.
    is_brief: whether the budget is twice the cube of the number of divisions: with few, the exact domain is cheap.
    """
    (e,) = query.exprs
    nodes = list(postorder((e, *query.facts)))
    divisions = sum(node.op in ops.DIVISIONS for node in nodes)
    if divisions < _FEWEST_DIVISIONS:
        return None
    variables, params, touching, leftover = query.split_relevant(query.exprs)
    if params or leftover or opaque_terms(e, *query.facts):
        return None
    box: dict[Var, range] = {}
    for var in variables:
        first, last = query.known.atom_bounds(var)
        if first is None or last is None:
            return None
        box[var] = range(first, last + 1)
    bits = {v: max(abs(span.start), abs(span.stop)).bit_length() for v, span in box.items()}
    if not all(box.values()) or some_may_be_long(nodes, bits):
        return None
    inside = compiled(logical_and(*touching, *symbolic_limits(query, variables)), variables)
    value = compiled(e, variables)
    most = 2 * divisions**3 if is_brief else max(BRANCHED_POINTS, CLIMBED_POINTS)

    def value_at(point: tuple[int, ...]) -> int | None:
        return value_or_none(value, *point) if value_or_none(inside, *point) else None

    def end(side: int, claimed: int) -> int | None:
        found = _branched_end(query, box, value_at, side, min(most, BRANCHED_POINTS))
        if found is None and _is_climbed(list(box.values()), value_at, side, claimed, min(most, CLIMBED_POINTS)):
            return claimed
        return found

    last = end(1, high)
    first = None if last is None else end(-1, low)
    return None if first is None or last is None else (first, last)


def _branched_end(query: Query, box: Mapping[Var, range], value_at: _ValueAt, side: int, points: int) -> int | None:
    """The largest (`side` +1) or smallest (-1) value; `None` beyond a budget of points, or for an unbounded term.

    A point is the best corner of the box, moved by some steps along each axis. Each step costs the coefficient of its
    axis. Each point is generated once: its predecessor has one step less along the last axis moved.
    """
    form = query.known.regroup(query.forms[0])
    top = side * form.const  # times the side, the value at the best corner is at most this
    for e, k in form.terms.items():
        low, high = query.known.atom_bounds(e)
        if low is None or high is None:
            return None
        top += max(side * k * low, side * k * high)
    slopes, spans = [side * form.terms.get(var, 0) for var in box], list(box.values())
    corner = [span[-1] if k > 0 else span[0] for k, span in zip(slopes, spans, strict=True)]
    axes = sorted(range(len(slopes)), key=lambda axis: abs(slopes[axis]))
    numbers = itertools.count()  # of the points, which order those of equal costs
    queue = [(0, next(numbers), 0, tuple(corner))]
    best: int | None = None
    for _ in range(points):
        if not queue or (best is not None and top - queue[0][0] <= side * best):
            return best
        cost, _, last, point = heapq.heappop(queue)
        value = value_at(point)
        if value is not None and (best is None or side * value > side * best):
            best = value
        for position in range(last, len(axes)):
            axis = axes[position]
            x = point[axis] + (-1 if slopes[axis] > 0 else 1)
            if x in spans[axis]:
                moved = (*point[:axis], x, *point[axis + 1 :])
                heapq.heappush(queue, (cost + abs(slopes[axis]), next(numbers), position, moved))
    return None


def _is_climbed(spans: Sequence[range], value_at: _ValueAt, side: int, claimed: int, points: int) -> bool:
    """Whether a climb arrives at the value `claimed`, an end on the side +1 (largest) or -1, within a budget of points.

    The starts are the corner on that side, the opposite corner, then points spread over the box.
    """
    for start in itertools.count():
        if start < 2:
            point = tuple([span[-1] if (side > 0) is (start == 0) else span[0] for span in spans])
        else:
            spread = [start * _SPREAD * (2 * k + 1) >> 7 for k in range(len(spans))]
            point = tuple([span[s % (span.stop - span.start)] for s, span in zip(spread, spans, strict=True)])
        peak, is_rising = value_at(point), True
        while is_rising:
            is_rising = False
            for moved in _moves(point, spans):
                value = value_at(moved)
                points -= 1
                if value is not None and (peak is None or side * value > side * peak):
                    point, peak, is_rising = moved, value, True
                if peak == claimed or points <= 0:
                    return peak == claimed
                if is_rising:
                    break
    return False


def _moves(point: tuple[int, ...], spans: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """The points with another value of one coordinate, then of two."""
    axes = range(len(spans))
    for several in ((k,) for k in axes), itertools.combinations(axes, 2):
        for chosen in several:
            for values in itertools.product(*[_sample(spans[k]) for k in chosen]):
                moved = list(point)
                for k, x in zip(chosen, values, strict=True):
                    moved[k] = x
                yield tuple(moved)


def _sample(span: range) -> Sequence[int]:
    """All values of a short range, some of a long one, the last among them."""
    number = span.stop - span.start  # which `len` refuses from 2**63 on
    if number <= CLIMBED_VALUES:
        return span
    step = number // CLIMBED_VALUES
    return [*span[:: step + 1 - step % 2], span[-1]]


LINES: Final = 256  # lines, and points on them, that are tried for one end
LINE_VARIABLES: Final = 8  # variables of a question with lines

FAR: Final = 1 << 12  # the smallest t of a line, large enough for a condition that holds for large t
STEEP: Final = 1 << 16  # the inverse of the smallest slope that counts as growth


def nonlinear_bounds(query: Query) -> Bounds | None:
    """The ends of a nonlinear expression of a question without parameters; `None` for other questions."""
    if not is_nonlinear((*query.exprs, *query.facts)) or opaque_terms(*query.exprs, *query.facts):
        return None
    variables, params, touching, _ = query.split_relevant(query.exprs)
    if params or len(variables) > LINE_VARIABLES or not are_apart(query, query.exprs):
        return None
    form = query.forms[0]
    numeric = query.known.bounds(form)
    symbolic = [constant_value(e) if isinstance(e, Expr) else None for e in symbolic_bounds(query, form)]
    lows, highs = ([end for end in pair if end is not None] for pair in zip(numeric, symbolic, strict=True))
    low, high = max(lows, default=None), min(highs, default=None)
    search = _LineSearch(query, variables, touching)
    tight = search.is_attained(-1, low) and search.is_attained(1, high)
    return Bounds(*numeric_ends(low, high), tight, CHEAPEST)


class _LineSearch:
    """The search for lines and corners of one question.

    Attributes
    ----------
    options: each variable's values on a line or at a corner, as functions of t.
    is_long: whether some value on a line may exceed the length limit of evaluation.
    """

    def __init__(self, query: Query, variables: Sequence[Var], touching: Sequence[Cond]) -> None:
        self.query = query
        self.t = Var("t")
        own = set(variables)
        self.variables = [v for v in outer_first(query, variables) if v in own]
        self.conditions = (*touching, *self._within_ranges())
        self.known = Normalizer({self.t: (FAR, None)})
        divisors = [e.args[1] for e in postorder((*query.exprs, *touching)) if e.op in ops.DIVISIONS]
        constants = [e.data for e in divisors if e.op is ops.CONST]
        self.step = math.lcm(*(abs(c) or 1 for c in constants), *(v.declared()[2] for v in variables))
        nodes, bits = postorder((*query.exprs, *self.conditions)), (16 * FAR * self.step).bit_length() + 1
        self.is_long = some_may_be_long(nodes, dict.fromkeys(free_vars(*query.exprs, *self.conditions), bits))
        self.equated = dict(_definitions(query, touching))
        self.options = [list(dict.fromkeys(self._options(var))) for var in self.variables]

    def _options(self, var: Var) -> Iterator[Expr]:
        low, high = self.query.known.atom_bounds(var)
        limits, t, step = self.query.ranges[var], self.t * self.step, var.declared()[2]
        if var in self.equated:
            yield self.equated[var]
        first = low if low is not None else high if high is not None and high < 0 else 0
        first += -first % step if low is not None or high is None else -(first % step)
        yield const(first)
        if high is None:
            yield t
            yield t + step
        if low is None:
            yield -t
        if limits.ends is None:
            yield from (end for end in (limits.min, limits.max) if isinstance(end, Expr))
        if high is not None and high > first:
            yield const(high - high % step)
        for value in (0, first + step, first + 2 * step):
            if (low is None or value >= low) and (high is None or value <= high):
                yield const(value)

    def _choices(self) -> Iterator[tuple[Expr, ...]]:
        """Combinations of options, those with fewer departures from the first options first."""
        dims = range(len(self.options))
        for departures in range(len(self.options) + 1):
            for axes in itertools.combinations(dims, departures):
                rows = [self.options[k][1:] if k in axes else self.options[k][:1] for k in dims]
                yield from itertools.product(*rows)

    def _lines(self) -> Iterator[dict[Expr, Expr]]:
        """Values of all variables as functions of t."""
        for chosen in itertools.islice(self._choices(), LINES):
            values: dict[Expr, Expr] = dict(zip(self.variables, chosen, strict=True))
            for _ in self.variables:  # range ends and equations mention other variables
                values = {v: as_expr(substitute(e, values)) for v, e in values.items()}
            if all(free_vars(e) in ((), (self.t,)) for e in values.values()):
                yield values

    def is_attained(self, side: int, end: int | None) -> bool:
        """Whether an end is proved to be attained; `None` stands for the infinite end."""
        if self.is_long or not all(self.options):
            return False
        if end is None:
            return any(self._grows(line, side) for line in self._lines())
        return any(self._reaches(line, end) for line in self._lines())

    # -- infinite ends -----------------------------------------------------------------------------------------------

    def _grows(self, line: Mapping[Expr, Expr], side: int) -> bool:
        """Whether the line lies in the domain and the expression is beyond every limit on it."""
        near, far = (self._value_at(line, t) for t in (FAR, 16 * FAR))
        if near is None or far is None or side * (far - near) <= 0:
            return False
        try:
            growth = self.known.form(as_expr(substitute(self.query.exprs[0], line))).scale(side * STEEP)
            if not self.known.is_nonneg(growth.plus(atom(self.t), -1)):
                return False
            return all(is_known(self.known, as_cond(substitute(cond, line))) for cond in self.conditions)
        except (EvaluationError, InputError):
            return False

    def _within_ranges(self) -> Iterator[Cond]:
        for var in self.variables:
            yield from declared_conditions(var)
            yield from range_conditions(var, self.query.ranges[var])

    def _value_at(self, line: Mapping[Expr, Expr], t: int) -> int | None:
        """The value of the expression at one point of a line; `None` outside the domain."""
        point = self._point(line, t)
        if point is None or not all_hold(self.conditions, point):
            return None
        value: int | None = point_value(self.query.exprs[0], point)
        return value

    def _point(self, line: Mapping[Expr, Expr], t: int) -> Point | None:
        values = {v: point_value(e, {self.t: t}) for v, e in line.items()}
        return None if None in values.values() else values

    # -- finite ends -------------------------------------------------------------------------------------------------

    def _reaches(self, line: Mapping[Expr, Expr], end: int) -> bool:
        """Whether a corner attains the value, or a point one coordinate away from a corner."""
        point = self._point(line, 1)
        if point is None:
            return False
        form = self.query.forms[0]
        if self._is_there(dict(point), end):
            return True
        for var in self.variables:
            others = {v: const(x) for v, x in point.items() if v is not var}
            alone = self.query.known.form(as_expr(substitute(form.expr(), others)))
            if any(self._is_there({**point, var: x}, end) for x in _solutions(alone, var, end)):
                return True
        return False

    def _is_there(self, point: Point, end: int) -> bool:
        return all_hold(self.conditions, point) and is_witness(self.query, self.query.forms[0], dict(point), end)


def _solutions(form: Linear, var: Var, end: int) -> Iterator[int]:
    """Where a form linear in `var` alone has the value `end`; beside the vertex of a quadratic one."""
    square = monomial_of([var, var])
    if any(e is not var and e is not square for e in form.terms):
        return
    a, b = form.terms.get(square, 0), form.terms.get(var, 0)
    if a:
        vertex = -b // (2 * a)
        yield from (vertex, vertex + 1)
    elif b and (end - form.const) % b == 0:
        yield (end - form.const) // b


def _definitions(query: Query, facts: Sequence[Cond]) -> Iterator[tuple[Var, Expr]]:
    """Variables that facts equate with an expression of the others."""
    for fact in facts:
        for clause in query.base.clauses(fact):
            if not isinstance(clause, tuple) or clause[0] is not ops.EQ:
                continue
            for var, k in clause[1].terms.items():
                rest = clause[1].plus(atom(var), -k)
                if isinstance(var, Var) and abs(k) == 1 and not any(var in e.free_vars() for e in rest.terms):
                    yield var, rest.scale(-k).expr()
                    break

"""Ends of nonlinear expressions over unbounded variables: lines on which they grow beyond every limit, and corners.

A *line* assigns each variable a function of one variable t >= `FAR`. An end is infinite if the whole line is proved to
lie in the domain and the expression is proved to exceed t / `STEEP` on it: with `a = t`, `b = 0`, `a // (b + 1)` has no
upper end. A finite end is attained by a witness: a corner of the domain, with one coordinate solved for.

Guarantee: both kinds of ends are proved, the first by the linear form, the second by evaluation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from intset.domains.certified.consistency import are_apart
from intset.domains.certified.structure import symbolic_bounds
from intset.domains.certified.witness import Point, is_witness, outer_first
from intset.domains.query import Query
from intset.domains.sets.ends import Bounds
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import free_vars, opaque_terms, postorder, substitute
from intset.expr.evaluate import evaluate, some_may_be_long
from intset.expr.node import Cond, Expr, Var, as_cond, as_expr, const, constant_value
from intset.infinity import NEG_INF, POS_INF
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, monomial_of
from intset.names import CHEAPEST
from intset.ranges import is_known

LINES: Final = 256  # lines, and points on them, that are tried for one end
LINE_VARIABLES: Final = 8  # variables of a question with lines

FAR: Final = 1 << 12  # the smallest t of a line, large enough for a condition that holds for large t
STEEP: Final = 1 << 16  # the inverse of the smallest slope that counts as growth


def is_nonlinear(query: Query) -> bool:
    """Whether expressions or facts multiply variables or divide by one."""
    for e in postorder((*query.exprs, *query.facts)):
        if e.op is ops.MUL and e.args[-1].op is not ops.CONST and e.args[0].op is not ops.CONST:
            return True
        if e.op in ops.DIVISIONS and e.args[1].op is not ops.CONST:
            return True
    return False


def nonlinear_bounds(query: Query) -> Bounds | None:
    """The ends of a nonlinear expression of a question without parameters; `None` for other questions."""
    if not is_nonlinear(query) or opaque_terms(*query.exprs, *query.facts):
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
    return Bounds(NEG_INF if low is None else low, POS_INF if high is None else high, tight, CHEAPEST)


class _LineSearch:
    """The search for lines and corners of one question.

    Attributes
    ----------
    options: for each variable the values it may take on a line or at a corner, as functions of t.
    is_long: whether some value on a line may be too long to be evaluated.
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
            low, high, step = var.declared()
            limits = self.query.ranges[var]
            yield from (var >= least for least in (low, limits.min) if isinstance(least, (int, Expr)))
            yield from (var <= most for most in (high, limits.max) if isinstance(most, (int, Expr)))
            if step > 1:
                yield (var % step).eq(0)

    def _value_at(self, line: Mapping[Expr, Expr], t: int) -> int | None:
        """The value of the expression at one point of a line; `None` outside the domain."""
        point = self._point(line, t)
        try:
            if point is None or not all(evaluate(cond, point) for cond in self.conditions):
                return None
            value: int = evaluate(self.query.exprs[0], point)
            return value
        except (EvaluationError, InputError):
            return None

    def _point(self, line: Mapping[Expr, Expr], t: int) -> Point | None:
        try:
            return {v: evaluate(e, {self.t: t}) for v, e in line.items()}
        except (EvaluationError, InputError):
            return None

    # -- finite ends -------------------------------------------------------------------------------------------------

    def _reaches(self, line: Mapping[Expr, Expr], end: int) -> bool:
        """Whether the value is taken at a corner, or at a point that differs from it in one coordinate."""
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
        try:
            inside = all(evaluate(cond, point) for cond in self.conditions)
        except (EvaluationError, InputError):
            return False
        return inside and is_witness(self.query, self.query.forms[0], dict(point), end)


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

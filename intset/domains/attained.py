"""Ends certified by structure, and by search where structure proves too little.

Structure: independent terms, multi-stride terms, symbolic ends, open operands. What it proves of the ends of a chain of
remainders is mostly attained and hard to certify: a witness by aiming meets one remainder at a time, and integer
programming over many divisions takes long. Points are cheap: the chain is compiled once and evaluated.

- Branch and bound visits points in descending order of an upper bound: the linear part of the canonical form at the
  point, plus the largest value of the other terms anywhere. Once no bound left exceeds the best value, that value is
  the end. (Land and Doig, *An automatic method of solving discrete programming problems*, 1960.)
- Where its budget ends, a climb looks for a point at the end that structure proves: it moves one coordinate, then two
  at a time, uphill, from several starts.

A nonlinear expression over unbounded variables is tried on lines and at corners. A *line* assigns each variable a
function of one variable t >= `FAR`. An end is infinite if the whole line is proved to lie in the domain and the
expression is proved to exceed t / `STEEP` on it: with `a = t`, `b = 0`, `a // (b + 1)` has no upper end. A finite end
is attained by a witness: a corner of the domain, with one coordinate solved for.

Guarantee: ends contain every value; an end is called attained only if the linear form or an evaluated point proves it.
"""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from intset.arithmetic import multistride
from intset.config import CHEAPEST
from intset.domains.query import Query
from intset.domains.ranked import are_apart
from intset.domains.sets.ends import Bounds, End, numeric_ends
from intset.domains.witness import Point, is_long_on, is_witness, outer_first, spans_of, symbolic_limits
from intset.errors import EvaluationError, InputError
from intset.expr import Cond, Expr, Range, Term, Var, as_cond, as_expr, const, constant_value, dag, ops
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.evaluate import all_hold, compiled, point_value, some_may_be_long, value_or_none
from intset.expr.node import NEG_INF, POS_INF
from intset.expr.range import conditions_between, declared_conditions, range_conditions
from intset.linear import division, symbolic
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear, atom, constant, monomial_of
from intset.linear.signs import has_member, is_known
from intset.plain import ends


def has_parameters(query: Query, form: Linear) -> bool:
    """Whether the answer may depend on parameters or kept variables."""
    if not form.terms:
        return False
    limits, ranges, keep = query.known.assumptions.limits, query.ranges, query.keep
    for e in form.terms:
        for var in e.free_vars():
            if var not in ranges or var in keep or var in limits:
                return True
    if not query.facts and not query.kept_ties:
        return False
    spoken = bool(query.keep or limits) or any(v not in query.ranges for c in query.facts for v in c.free_vars())
    return spoken and bool(query.split_relevant(tuple(form.terms))[1])


def attained_on_box(query: Query, form: Linear) -> tuple[int, int, bool] | None:
    """The ends by one pass over the canonical form (`intset.plain`); `None` where facts restrict more than ranges do.

    For questions without parameters.
    """
    known = query.known
    if query.facts and not known.is_box:
        return None
    form = known.regroup(form)
    box = {}
    for v in dag.free_vars(*form.terms):
        low, high = known.atom_bounds(v)
        if low is None or high is None or v not in query.ranges or query.ranges[v].ends is None:
            return None
        box[v] = Range(low, high - low + 1)
    return ends(form.expr(), box, 0)


def independent_parts(query: Query, form: Linear) -> list[Linear]:
    """The sum as parts without a common quantified variable, not even through facts.

    A sum that reads data is one part: two reads may be of one element.
    """
    regrouped = query.known.regroup(form)
    running: dict[Expr, list[Var]] = {}
    for e in regrouped.terms:
        running[e], _, facts, _ = query.split_relevant((e,))
        if dag.opaque_terms(e, *facts):
            return [form]
    classes = dag.connected(running.values())
    if len(classes) < 2:
        return [form]
    rest = Linear(regrouped.const, {e: k for e, k in regrouped.terms.items() if not running[e]})
    parts = [Linear(0, {e: k for e, k in regrouped.terms.items() if not own.isdisjoint(running[e])}) for own in classes]
    return [parts[0].plus(rest), *parts[1:]]


class _EndPoint(NamedTuple):
    """A valid end, and values of the variables that have no place there; `None` where these are unknown."""

    end: symbolic.SymbolicEnd
    values: Mapping[Var, Linear] | None


def symbolic_bounds(query: Query, form: Linear) -> Bounds:
    """Ends as expressions over parameters and kept variables; quantified variables are eliminated one by one."""
    found = query.ends.get(form)
    if found is None:
        found = query.ends[form] = _symbolic_bounds(query, form)
    return found


def _symbolic_bounds(query: Query, form: Linear) -> Bounds:
    known = query.known
    touched = bool(query.facts or query.kept_ties) and _is_touched(query, form)
    others = {side: [*_ends_beside_facts(query, form, side)] if touched else [] for side in (-1, 1)}
    ends: dict[int, End] = {}
    tight = True
    for side in sorted(others, key=lambda side: not others[side]):  # last a side whose end is not chosen among several
        end = (symbolic.lowest if side < 0 else symbolic.highest)(known, form, query.is_quantified)
        if not end.attained and (joined := _end_of_quotient(query, form, side)) is not None:
            end = joined if joined.attained else end
            candidates = [e.form for e in ((end,) if joined.attained else (end, joined)) if e.form is not None]
        else:
            candidates = [] if end.form is None else [end.form]
        attained = end.attained
        if touched:
            attained = False
            is_asked = tight or len(candidates) + len(others[side]) > 1  # whether it is reached makes a difference
            for candidate in (_EndPoint(end, {}), *others[side]) if is_asked else ():
                if candidate.end.form is None:
                    continue
                candidates.append(candidate.end.form)
                if _is_reached(query, candidate):
                    candidates, attained = candidates[-1:], True
                    break
        numeric = known.bounds(form)[0 if side < 0 else 1]
        if not candidates:
            ends[side] = (NEG_INF if side < 0 else POS_INF) if numeric is None else Linear(numeric, {}).expr()
            tight = False
            continue
        ends[side] = _best(query, candidates, side)
        tight = tight and attained
    if not tight and len(query.exprs) == 1:
        low, high, attained = open_ends(query, query.exprs[0])
        if low is not None or high is not None:
            chosen: list[End] = []
            for found, own, side in zip((ends[-1], ends[1]), (low, high), (-1, 1), strict=True):
                if own is not None and isinstance(found, Expr):
                    beyond = known.form(found).minus(known.form(own)).scale(side)
                    chosen.append(own if known.is_nonneg(beyond) else found)
                else:
                    chosen.append(found if own is None else own)
            same = chosen[0] is low and chosen[1] is high
            return Bounds(chosen[0], chosen[1], attained and same and not touched, CHEAPEST)
    return Bounds(ends[-1], ends[1], tight, CHEAPEST)


def _end_of_quotient(query: Query, form: Linear, side: int) -> symbolic.SymbolicEnd | None:
    """An end of `x // d + y`, read as `(x + d*y) // d`, in which terms may cancel; `None` for other forms."""
    known = query.known
    joined = division.as_quotient(known, form)
    if joined is None or not known.is_positive(joined[1]) or joined[1].is_const:
        return None
    dividend, divisor = joined
    if any(map(query.is_quantified, dag.free_vars(*divisor.terms))):
        return None
    end = (symbolic.lowest if side < 0 else symbolic.highest)(known, dividend, query.is_quantified)
    return None if end.form is None else symbolic.SymbolicEnd(division.floordiv(known, end.form, divisor), end.place)


def _is_touched(query: Query, form: Linear) -> bool:
    """Whether a fact or the range of a kept variable restricts quantified variables of `form`, also through ranges."""
    links = [
        {var, *limits.free_vars()} & query.quantified for var, limits in query.ranges.items() if limits.ends is None
    ]
    own = query.quantified.intersection(dag.free_vars(*form.terms))
    tied = dag.reachable(own, lambda v: [other for link in links if v in link for other in link]).keys()
    spoken = [*map(dag.free_vars, query.facts), *(own for _, own in query.kept_ties)]
    return any(not tied.isdisjoint(own) for own in spoken)


def _ends_beside_facts(query: Query, form: Linear, side: int) -> Iterator[_EndPoint]:
    """Ends of `form` where a fact `f >= 0` bounds it more tightly than ranges do.

    A multiple of the fact cancels a common term: `4*i + j + 4*(n - 1 - i - j)`. Or the fact bounds a variable by the
    maximum of its other terms: `16*i + j < n` gives `i <= (n - 1)//16`.
    """
    known, relaxed = query.known, query.is_quantified
    toward = symbolic.highest if side > 0 else symbolic.lowest
    for fact in known.assumptions.nonneg:
        for monomial, k in fact.terms.items():
            have = form.terms.get(monomial)
            if have is None or ((have < 0) is (k < 0)) is (side > 0):
                continue
            if have % k == 0:
                end = toward(known, form.plus(fact, -(have // k)), relaxed)
                free = [v for v in fact.terms if isinstance(v, Var) and relaxed(v) and v not in (end.place or ())]
                tied = next((v for v in free if abs(fact.terms[v]) == 1), None)  # the others have their first value
                unit = 0 if tied is None else fact.terms[tied]
                yield _EndPoint(end, None if tied is None else {tied: fact.plus(atom(tied), -unit).scale(-unit)})
            others = (other for other in form.terms if other is not monomial)
            if isinstance(monomial, Var) and relaxed(monomial) and not any(monomial in e.free_vars() for e in others):
                rest = symbolic.highest(known, fact.plus(atom(monomial), -k), relaxed)
                if rest.form is not None:
                    limit = division.floordiv(known, rest.form, constant(abs(k))).scale(-1 if k > 0 else 1)
                    end = toward(known, form.plus(atom(monomial), -have).plus(limit, have), relaxed)
                    place = None if end.place is None else {**(rest.place or {}), **end.place}
                    yield _EndPoint(symbolic.SymbolicEnd(end.form, place), {monomial: limit})


def _is_reached(query: Query, candidate: _EndPoint) -> bool:
    """Whether the candidate's point lies in the domain, for all sizes at which the domain has a point.

    `False` without a known point of the domain: the engines tell whether it is empty.
    """
    end, values = candidate
    if end.place is None or values is None or query.kept_ties or not has_member(query.known):
        return False
    relaxed, _, facts, _ = query.split_relevant(query.exprs)
    point: dict[Expr, Expr] = {}
    needs: list[Cond] = []
    for var in relaxed:
        limits = query.ranges[var]
        ends = symbolic.ends_of(query.known, var)
        side = end.place.get(var, -1)
        value = values[var] if var in values else ends[0] if side == -1 else ends[1] if side == 1 else None
        if value is None or not (isinstance(limits.min, Expr) and isinstance(limits.max, Expr)):
            return False
        point[var] = value.expr()
        if var in values or var not in end.place:  # a place lies within ends that depend on sizes alone
            low, high, _ = var.declared()  # steps are facts
            needs += (*range_conditions(var, limits), *conditions_between(var, low, high))
    for _ in relaxed:
        if not any(map(query.is_quantified, dag.free_vars(*point.values()))):
            return all(is_known(query.known, need.substitute(point)) for need in (*facts, *needs))
        point = {var: value.substitute(point) for var, value in point.items()}  # values over other variables
    return False


def _best(query: Query, candidates: list[Linear], side: int) -> Expr:
    """The tightest of several valid ends; their minimum or maximum if parameters decide."""
    kept: list[Linear] = []
    for form in candidates:
        if any(query.known.is_nonneg(form.minus(other).scale(side)) for other in kept):
            continue
        kept = [other for other in kept if not query.known.is_nonneg(other.minus(form).scale(side))]
        kept.append(form)
    expressions = [_settled(query, query.known.regroup(form)).expr() for form in kept[:4]]
    return minimum(*expressions) if side > 0 else maximum(*expressions)


def _settled(query: Query, form: Linear) -> Linear:
    """Replace terms of a single known value by this value."""
    total, open_terms = form.const, dict(form.terms)
    for e, k in form.terms.items():
        low, high = query.known.atom_bounds(e)
        if low is not None and low == high:
            total += k * low
            del open_terms[e]
    return form if len(open_terms) == len(form.terms) else Linear(total, open_terms)


OpenEnds: TypeAlias = tuple[Expr | None, Expr | None, bool]  # low, high, whether both are attained
UNKNOWN: Final[OpenEnds] = (None, None, False)


def open_ends(query: Query, e: Expr) -> OpenEnds:
    """Ends of an operation with an open operand, over its kept operand; `None` for an unknown end.

        x % d          in [min(d + 1, 0), max(d - 1, 0)]           x in any range
        x rem d        in [1 - abs(d), abs(d) - 1]                 C's; one-sided for a dividend of known sign
        x << y         in [low << y, high << y]                    x in [low, high]
        q * t          in [low * t, high * t]                      q in [low, high], t >= 0; swapped for t <= 0

    The kept operand (d, y, t) has no quantified variable. The first two ends are attained for a dividend that takes
    every integer.
    """
    if len(e.args) != 2:
        return UNKNOWN
    a, b = e.args
    if e.op is ops.MUL:
        for q, t in ((a, b), (b, a)):
            ends = _product_ends(query, q, t) if _is_kept(query, t) else UNKNOWN
            if ends is not UNKNOWN:
                return ends
        return UNKNOWN
    if e.op not in (ops.FLOORMOD, ops.TRUNCMOD, ops.SHL) or not _is_kept(query, b):
        return UNKNOWN
    known = query.known
    low, high = known.bounds(known.form(a))
    if e.op is ops.SHL:
        first, last = (None if end is None else const(0) if end == 0 else const(end) << b for end in (low, high))
        return (first, last, _runs(query, a))
    everywhere = (low, high) == (None, None) and _runs(query, a)
    sign = known.sign(known.form(b))
    if e.op is ops.FLOORMOD:
        if sign > 0:
            return (const(0), b - 1, everywhere)
        first, last = (dag.intern(Term, op, (e, const(0)), None) for op, e in ((ops.MIN, b + 1), (ops.MAX, b - 1)))
        return (first, last, everywhere)
    size = b if sign > 0 else -b if sign < 0 else abs(b)
    first = const(0) if low is not None and low >= 0 else 1 - size
    last = const(0) if high is not None and high <= 0 else size - 1
    return (first, last, everywhere)


def _is_kept(query: Query, e: Expr) -> bool:
    return not any(query.is_quantified(v) for v in dag.free_vars(e)) and all(e.op is not ops.LOAD for e in (e, *e.args))


def _product_ends(query: Query, q: Expr, t: Expr) -> OpenEnds:
    known = query.known
    sign = known.sign(known.form(t))
    if not sign or not t.args and t.op is ops.CONST:
        return UNKNOWN
    form = known.form(q)
    forms = [toward(known, form, query.is_quantified).form for toward in (symbolic.lowest, symbolic.highest)]
    low, high = (None if end is None or not end.is_const else end.const for end in forms)
    if sign < 0:
        low, high = high, low
    first, last = (None if end is None else const(0) if end == 0 else t if end == 1 else t * end for end in (low, high))
    return (first, last, False)


def _runs(query: Query, x: Expr) -> bool:
    """Whether `x` is a quantified variable that takes every value between its numeric ends, for all parameters."""
    if not isinstance(x, Var) or not query.is_quantified(x):
        return False
    limits = query.known.assumptions.limits.get(x, (None, None))
    return limits == (None, None) and x.declared()[2] == 1


def steps_of(query: Query, form: Linear) -> tuple[Linear, multistride.MultiStride] | None:
    """Split a form: (terms without quantified variables, the multi-stride set of the others).

    Where the terms share a variable, as in `i + (i + j)//3`, they are read as one quotient, `(4*i + j)//3`.
    """
    fixed: dict[Expr, int] = {}
    base = form.const
    terms: list[multistride.StrideTerm] = []
    seen: set[Var] = set()
    for e, k in form.terms.items():
        own = query.quantified.intersection(e.free_vars())
        if not own and (e.op is ops.VAR or not dag.opaque_terms(e)):
            fixed[e] = k
            continue
        if not seen.isdisjoint(own):
            joined = division.as_quotient(query.known, form)
            if joined is None or joined[1].terms:
                return None
            steps = _steps_of_division(query, ops.FLOORDIV, joined[0], joined[1].const)
            return None if steps is None else (ZERO, steps)
        seen.update(own)
        steps = steps_of_atom(query, e)
        if steps is None:
            return None
        base += k * steps[0]
        for s, extent in steps[1]:
            terms.append((k * s, extent))  # hot
    return Linear(0, fixed), multistride.make(base, terms)


def steps_of_atom(query: Query, e: Any) -> multistride.MultiStride | None:
    """The values of an atom as a multi-stride set; `None` for other atoms."""
    if e.op is ops.VAR:
        if query.ranges[e].ends is None or e.declared()[2] != 1:
            return None
        low, high = query.known.atom_bounds(e)
        if low is None or high is None:
            return None
        return multistride.make(low, ((1, high - low + 1),))
    if (e.op is ops.FLOORDIV or e.op is ops.FLOORMOD) and e.args[1].op is ops.CONST:
        return _steps_of_division(query, e.op, query.known.form(e.args[0]), e.args[1].data)
    return None


def _steps_of_division(query: Query, op: ops.Op, dividend: Linear, c: int) -> multistride.MultiStride | None:
    inner = steps_of(query, dividend) if c > 0 else None
    if inner is None or inner[0].terms:
        return None
    return multistride.floordiv(inner[1], c) if op is ops.FLOORDIV else multistride.floormod(inner[1], c)


# -- chains of remainders, lines and corners --------------------------------------------------------------------------


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
    nodes = list(dag.postorder((e, *query.facts)))
    divisions = sum(node.op in ops.DIVISIONS for node in nodes)
    if divisions < _FEWEST_DIVISIONS:
        return None
    box, (variables, _, touching, leftover) = spans_of(query), query.split_relevant(query.exprs)
    if box is None or leftover or not all(box.values()) or is_long_on(nodes, box):
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

    if (last := end(1, high)) is None or (first := end(-1, low)) is None:
        return None
    return first, last


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
    """All values of a short range; samples of a long range, its last value included."""
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
    if not dag.is_nonlinear((*query.exprs, *query.facts)) or dag.opaque_terms(*query.exprs, *query.facts):
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
        divisors = [e.args[1] for e in dag.postorder((*query.exprs, *touching)) if e.op in ops.DIVISIONS]
        constants = [e.data for e in divisors if e.op is ops.CONST]
        self.step = math.lcm(*(abs(c) or 1 for c in constants), *(v.declared()[2] for v in variables))
        nodes, bits = dag.postorder((*query.exprs, *self.conditions)), (16 * FAR * self.step).bit_length() + 1
        self.is_long = some_may_be_long(nodes, dict.fromkeys(dag.free_vars(*query.exprs, *self.conditions), bits))
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
                values = {v: as_expr(dag.substitute(e, values)) for v, e in values.items()}
            if all(dag.free_vars(e) in ((), (self.t,)) for e in values.values()):
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
            growth = self.known.form(as_expr(dag.substitute(self.query.exprs[0], line))).scale(side * STEEP)
            if not self.known.is_nonneg(growth.plus(atom(self.t), -1)):
                return False
            return all(is_known(self.known, as_cond(dag.substitute(cond, line))) for cond in self.conditions)
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
        """The point of a line at t; `None` where it has no value."""
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
            alone = self.query.known.form(as_expr(dag.substitute(form.expr(), others)))
            if any(self._is_there({**point, var: x}, end) for x in _solutions(alone, var, end)):
                return True
        return False

    def _is_there(self, point: Point, end: int) -> bool:
        return all_hold(self.conditions, point) and is_witness(self.query, dict(point), end)


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
            for var in clause[1].terms:
                if isinstance(var, Var) and (value := clause[1].solved_for(var)) is not None:
                    yield var, value.expr()
                    break

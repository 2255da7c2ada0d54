"""Ends certified by structure: independent terms, multi-stride terms, symbolic ends, open operands.

Guarantee: ends contain every value; `is_tight` is claimed only if the linear form proves both ends attained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from intset.arithmetic import multistride
from intset.config import CHEAPEST
from intset.domains.query import Query
from intset.domains.sets.ends import Bounds, End
from intset.expr import ops
from intset.expr.build import maximum, minimum
from intset.expr.dag import free_vars, intern, opaque_terms
from intset.expr.node import Cond, Expr, Term, Var, const
from intset.expr.range import Range, conditions_between, range_conditions
from intset.infinity import NEG_INF, POS_INF
from intset.linear import division, symbolic
from intset.linear.form import ZERO, Linear, atom, constant
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
    for v in free_vars(*form.terms):
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
    rest = constant(regrouped.const)  # terms without quantified variables
    parts: list[tuple[set[Var], Linear]] = []
    for e, k in regrouped.terms.items():
        variables, _, facts, _ = query.split_relevant((e,))
        if opaque_terms(e, *facts):
            return [form]
        if not variables:
            rest = rest.plus(atom(e), k)
            continue
        own, part = set(variables), Linear(0, {e: k})
        for other in [one for one in parts if not own.isdisjoint(one[0])]:
            parts.remove(other)
            own, part = own | other[0], part.plus(other[1])
        parts.append((own, part))
    if len(parts) < 2:
        return [form]
    return [part if n else part.plus(rest) for n, (_, part) in enumerate(parts)]


def _occurs_once(form: Linear, var: Expr) -> bool:
    return not any(var in other.free_vars() for other in form.terms if other is not var)


class _EndPoint(NamedTuple):
    """A valid end, and values of the variables that have no place there; `None` where these are unknown."""

    end: symbolic.SymbolicEnd
    values: Mapping[Var, Linear] | None


def symbolic_bounds(query: Query, form: Linear) -> Bounds:
    """Ends as expressions over parameters and kept variables; quantified variables are eliminated one by one."""
    known = query.known
    relaxed = query.is_quantified
    touched = bool(query.facts or query.kept_ties) and _is_touched(query, form)
    ends: list[End] = []
    tight = True
    for side, toward in ((-1, symbolic.lowest), (1, symbolic.highest)):
        end = toward(known, form, relaxed)
        if not end.attained and (joined := _end_of_quotient(query, form, side)) is not None:
            end = joined if joined.attained else end
            candidates = [e.form for e in ((end,) if joined.attained else (end, joined)) if e.form is not None]
        else:
            candidates = [] if end.form is None else [end.form]
        attained = end.attained
        if touched:
            attained = False
            for candidate in chain((_EndPoint(end, {}),), _ends_beside_facts(query, form, side)):
                if candidate.end.form is None:
                    continue
                candidates.append(candidate.end.form)
                if _is_reached(query, candidate):
                    candidates, attained = candidates[-1:], True
                    break
        numeric = known.bounds(form)[0 if side < 0 else 1]
        if not candidates:
            ends.append((NEG_INF if side < 0 else POS_INF) if numeric is None else Linear(numeric, {}).expr())
            tight = False
            continue
        ends.append(_best(query, candidates, side))
        tight = tight and attained
    if not tight and len(query.exprs) == 1:
        low, high, attained = open_ends(query, query.exprs[0])
        if low is not None or high is not None:
            chosen = [
                end if own is None or isinstance(end, Expr) and not _is_beyond(query, end, own, side) else own
                for end, own, side in zip(ends, (low, high), (-1, 1), strict=True)
            ]
            same = chosen[0] is low and chosen[1] is high
            return Bounds(chosen[0], chosen[1], attained and same and not touched, CHEAPEST)
    return Bounds(ends[0], ends[1], tight, CHEAPEST)


def _end_of_quotient(query: Query, form: Linear, side: int) -> symbolic.SymbolicEnd | None:
    """An end of `x // d + y`, read as `(x + d*y) // d`, in which terms may cancel; `None` for other forms."""
    known = query.known
    joined = division.as_quotient(known, form)
    if joined is None or not known.is_positive(joined[1]) or joined[1].is_const:
        return None
    dividend, divisor = joined
    if any(map(query.is_quantified, free_vars(*divisor.terms))):
        return None
    end = (symbolic.lowest if side < 0 else symbolic.highest)(known, dividend, query.is_quantified)
    return None if end.form is None else symbolic.SymbolicEnd(division.floordiv(known, end.form, divisor), end.place)


def _is_touched(query: Query, form: Linear) -> bool:
    """Whether a fact or the range of a kept variable restricts quantified variables of `form`, also through ranges."""
    tied = {v for v in free_vars(*form.terms) if query.is_quantified(v)}
    links = [{var, *limits.free_vars()} for var, limits in query.ranges.items() if limits.ends is None]
    links = [{v for v in link if query.is_quantified(v)} for link in links]
    grown = True
    while grown:
        grown = False
        for link in links:
            if not tied.isdisjoint(link) and not link <= tied:
                tied |= link
                grown = True
    spoken = [*map(free_vars, query.facts), *(own for _, own in query.kept_ties)]
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
                yield _EndPoint(end, None if tied is None else {tied: _solved(fact, tied)})
            if isinstance(monomial, Var) and relaxed(monomial) and _occurs_once(form, monomial):
                rest = symbolic.highest(known, fact.plus(atom(monomial), -k), relaxed)
                if rest.form is not None:
                    limit = division.floordiv(known, rest.form, constant(abs(k))).scale(-1 if k > 0 else 1)
                    end = toward(known, form.plus(atom(monomial), -have).plus(limit, have), relaxed)
                    place = None if end.place is None else {**(rest.place or {}), **end.place}
                    yield _EndPoint(symbolic.SymbolicEnd(end.form, place), {monomial: limit})


def _solved(fact: Linear, v: Var) -> Linear:
    """The value of a variable with unit coefficient that makes the fact 0."""
    k = fact.terms[v]
    return fact.plus(atom(v), -k).scale(-k)


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
        if not any(map(query.is_quantified, free_vars(*point.values()))):
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


def _is_beyond(query: Query, end: Expr, other: Expr, side: int) -> bool:
    """Whether `end` is proved no tighter than `other`, an end on the same side."""
    known = query.known
    return known.is_nonneg(known.form(end).minus(known.form(other)).scale(side))


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
        return (_choice(ops.MIN, b + 1), _choice(ops.MAX, b - 1), everywhere)
    size = b if sign > 0 else -b if sign < 0 else abs(b)
    first = const(0) if low is not None and low >= 0 else 1 - size
    last = const(0) if high is not None and high <= 0 else size - 1
    return (first, last, everywhere)


def _choice(op: ops.Op, e: Expr) -> Expr:
    return intern(Term, op, (e, const(0)), None)


def _is_kept(query: Query, e: Expr) -> bool:
    return not any(query.is_quantified(v) for v in free_vars(e)) and all(e.op is not ops.LOAD for e in (e, *e.args))


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
        if not own and (e.op is ops.VAR or not opaque_terms(e)):
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

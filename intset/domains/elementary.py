"""Elementary domains: an interval with symbolic ends (`interval`), listed `points`, spaces over F2 (`bits`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import gcd
from operator import xor
from typing import Any, ClassVar

from intset.domains.certified.attained import attained_on_box, has_parameters, symbolic_bounds
from intset.domains.certified.witness import runs
from intset.domains.query import Query
from intset.domains.ranked import are_apart, is_touched, values_of
from intset.domains.sets.base import End, IntervalSet, IntSet, StrideSum, as_end, bounds_of, empty_set
from intset.domains.sets.bounds import check_countable
from intset.domains.sets.ends import Bounds, numeric_ends
from intset.expr import Cond, Expr, IntLike, Var, as_expr, dag, ops
from intset.expr.build import logical_and, logical_or
from intset.expr.node import as_int, truth
from intset.expr.printer import number_text
from intset.infinity import NEG_INF, POS_INF
from intset.linear.bitforms import CarryError, Columns, RowBasis, extreme
from intset.linear.form import ONE, Linear, atom, constant, factors, monomial_of
from intset.linear.symbolic import covers, ends_of


class IntervalDomain:
    """One interval.

    Guarantee: the ends contain every value; they are tight for independent variables.
    """

    name: ClassVar[str] = "interval"
    exact_on: ClassVar[str] = "single points; ends are attained for independent variables"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        bounds = self.bounds(query)
        single = bounds[0] is bounds[1] and bounds.is_tight and are_apart(query, tuple(query.forms[0].terms))
        return IntervalSet(bounds[0], bounds[1], self.name, is_tight=bounds.is_tight, is_exact=single)

    def bounds(self, query: Query) -> Bounds:
        if query.is_empty:
            return Bounds(POS_INF, NEG_INF, True, self.name)
        form = query.forms[0]
        if not has_parameters(query, form):
            attained = attained_on_box(query, form)
            ends = numeric_ends(*query.known.bounds(form)) if attained is None else attained[:2]
            return Bounds(*ends, attained is not None, self.name)
        return symbolic_bounds(query, form)


def contiguous_image(query: Query) -> IntervalSet | None:
    """The image as an exact interval with symbolic ends, if its terms prove it contiguous; else `None`.

    For example `i*m + j` with `i` in `[0, n)`, `j` in `[0, m)` takes every value up to `n*m - 1`. The proof adds terms
    in order of their coefficients: a coefficient of at most the length of the current run extends the run.
    """
    form = query.forms[0]
    if is_touched(query, tuple(form.terms)) or not _is_contiguous(query, form):
        return None
    bounds = symbolic_bounds(query, form)
    if not bounds.is_tight:  # dependent ranges or coefficients may leave gaps
        return None
    return IntervalSet(bounds[0], bounds[1], "interval", is_exact=True)


def _is_contiguous(query: Query, form: Linear) -> bool:
    """Whether `form` takes every value between its ends, provided that both are attained."""
    known, run = query.known, ONE
    form = known.regroup(form)
    running = [e for e in form.terms if any(map(query.is_quantified, e.free_vars()))]
    if len(running) == 1 and abs(form.terms[running[0]]) == 1:
        (e,) = running
        if e.op is ops.FLOORDIV or e.op is ops.FLOORMOD:
            dividend, divisor = (known.form(arg) for arg in e.args)
            if not known.is_positive(divisor) or any(map(query.is_quantified, dag.free_vars(*divisor.terms))):
                return False
            if e.op is ops.FLOORDIV:
                inner = query.of(dividend.expr())
                return _is_contiguous(inner, dividend) and symbolic_bounds(inner, dividend).is_tight
            return covers(known, dividend, divisor, query.is_quantified)
    terms = _terms(query, form)
    while terms:
        fitting = next((t for t in terms if known.is_nonneg(run.minus(t[0]))), None)
        if fitting is None:
            return False
        terms.remove(fitting)
        coefficient, extent = fitting
        run = run.plus(known.product(coefficient, extent.shift(-1)))
    return terms is not None


def _terms(query: Query, form: Linear) -> list[tuple[Linear, Linear]] | None:
    """(absolute coefficient, extent) of each quantified variable; `None` for products of them and unknown signs."""
    coefficients: dict[Var, Linear] = {}
    for monomial, k in form.terms.items():
        own = [v for v in monomial.free_vars() if query.is_quantified(v)]
        if not own:
            continue
        parts = factors(monomial)
        if len(own) > 1 or parts.count(own[0]) != 1:
            return None
        parts.remove(own[0])
        rest = atom(monomial_of(parts)) if parts else constant(1)
        coefficients[own[0]] = coefficients.get(own[0], Linear(0, {})).plus(rest, k)
    found = []
    for var, coefficient in coefficients.items():
        first, last = ends_of(query.known, var)
        if first is None or last is None:
            return None
        if query.known.is_nonneg(coefficient.scale(-1)):
            coefficient = coefficient.scale(-1)
        elif not query.known.is_nonneg(coefficient):
            return None
        found.append((coefficient, last.minus(first).shift(1)))
    return found


# -- points -----------------------------------------------------------------------------------------------------------


class PointSet(IntSet):
    """Finitely many integers, listed."""

    def __init__(self, values: Sequence[int], by: str = "points", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.values = tuple(sorted(set(values)))

    def ends(self) -> tuple[End, End]:
        return (as_end(self.values[0]), as_end(self.values[-1])) if self.values else (POS_INF, NEG_INF)

    def _structure(self) -> StrideSum | None:
        steps = [(last - first, step) for first, last, step in runs(self.values)]
        if len(steps) != 1:
            return None
        ((reach, step),) = steps
        return StrideSum(as_expr(self.values[0]), (step,) if reach else (), (reach // step + 1,) if reach else ())

    def _congruence(self) -> tuple[int, int] | None:
        if not self.values:
            return None
        modulus, first = gcd(*(value - self.values[0] for value in self.values)), self.values[0]
        return modulus, first % modulus if modulus else first

    def condition(self, e: IntLike) -> Cond:
        point = as_expr(e)
        parts: list[Cond] = []
        for first, last, step in runs(self.values):
            inside = point.eq(first) if first == last else (point >= first) & (point <= last)
            parts.append(inside if step <= 1 else inside & ((point - first) % step).eq(0))
        return logical_or(*parts) if parts else truth(False)

    def count(self) -> int:
        return len(self.values)

    def __contains__(self, value: object) -> bool:
        return as_int(value, "an element") in self.values

    def describe(self) -> str:
        shown = ", ".join(map(number_text, self.values[:12]))
        return f"{{{shown}{', ...' if len(self.values) > 12 else ''}}}"


def points_image(query: Query, limit: int | None = None) -> PointSet | None:
    """The image by enumeration; `None` for a symbolic or unbounded box, or one of more than `limit` points."""
    values = values_of(query, limit)
    return None if values is None else PointSet([value for (value,) in values], is_exact=True)


def points_bounds(query: Query, limit: int | None = None) -> Bounds | None:
    """The ends of `points_image`."""
    values = values_of(query, limit)
    if values is None:
        return None
    if not values:
        return Bounds(POS_INF, NEG_INF, True, "points")
    return Bounds(min(values)[0], max(values)[0], True, "points")


class PointsDomain:
    """Images by enumeration.

    Guarantee: exact for bounded variables and a box of at most `Config.points` points; otherwise the interval of the
    linear form, with a note.
    """

    name: ClassVar[str] = "points"
    exact_on: ClassVar[str] = "every operation on small boxes without symbolic sizes"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        listed = points_image(query)
        if listed is not None:
            return listed
        note = "the box is symbolic, unbounded or larger than the budget of points"
        return IntervalSet(*numeric_ends(*query.known.bounds(query.forms[0])), self.name, notes=(note,))

    def bounds(self, query: Query) -> Bounds:
        return bounds_of(self.image(query))


# -- bits -------------------------------------------------------------------------------------------------------------


class BitSet(IntSet):
    """The numbers `start ^ (sum of some of the directions)`, where sums are `^`."""

    def __init__(self, rows: Sequence[int], by: str, **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.rows = tuple(rows)

    @property
    def start(self) -> int:
        """An element: the one of all columns 0."""
        return sum((row & 1) << p for p, row in enumerate(self.rows))

    def directions(self) -> RowBasis:
        """The differences of elements, as rows over the bits of the number, from column 1 on."""
        columns = max((row.bit_length() for row in self.rows), default=0)
        return RowBasis(
            sum((row >> column & 1) << p + 1 for p, row in enumerate(self.rows)) for column in range(1, columns)
        )

    def ends(self) -> tuple[End, End]:
        return as_end(extreme(self.rows, -1)), as_end(extreme(self.rows, 1))

    def condition(self, e: IntLike) -> Cond:
        x, start = as_expr(e), self.start
        parts = [x >= 0, x < 1 << len(self.rows)]
        fixed = 0
        basis = self.directions()
        for p in range(len(self.rows)):
            if p + 1 in basis.rows:
                continue
            others = [pivot - 1 for pivot, (row, _) in basis.rows.items() if row >> p + 1 & 1]
            if not others:
                fixed |= 1 << p
                continue
            parity = reduce(xor, (x >> q if q else x for q in (p, *others)))
            parts.append((parity & 1).eq(sum(start >> q & 1 for q in (p, *others)) % 2))
        if fixed:
            parts.append((x & fixed).eq(start & fixed))
        return logical_and(*parts)

    def count(self) -> int:
        check_countable(self)
        return 1 << self.directions().rank

    def _congruence(self) -> tuple[int, int]:
        low = next((p for p, row in enumerate(self.rows) if row > 1), None)
        return (0, self.start) if low is None else (1 << low, self.start % (1 << low))

    def describe(self) -> str:
        basis = self.directions()
        steps = ", ".join(str(row >> 1) for _, (row, _) in sorted(basis.rows.items()))
        return f"{{{self.start} ^ any of {steps}}}" if steps else f"{{{self.start}}}"


class BitDomain:
    """Affine spaces over F2.

    Guarantee: exact on `^`, shifts, masks and products, quotients and remainders by powers of two of variables whose
    extents are powers of two, on sums without carries, and on one-to-one images of whole bits; else a superset.
    """

    name: ClassVar[str] = "bits"
    exact_on: ClassVar[str] = "bit operations and divisions by powers of two, over extents that are powers of two"

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        e = query.exprs[0]
        columns = Columns(lambda term: query.known.bounds(query.known.form(term)))
        try:
            form = columns.form(e)
        except CarryError as error:
            return self._interval(query, f"no bits: {error}")
        if form.high:
            return self._interval(query, "a term without a constant end")
        reasons = tuple(f"{term} is known by its width alone: {why}" for term, why in columns.fresh.items())
        if not reasons and not _is_whole(query, e, columns):
            reasons = ("an extent is no power of two, or a fact or another variable limits a variable",)
        return BitSet(form.rows, self.name, is_exact=not reasons, notes=reasons)

    def bounds(self, query: Query) -> Bounds:
        return bounds_of(self.image(query))

    def _interval(self, query: Query, reason: str) -> IntSet:
        return IntervalSet(*numeric_ends(*query.known.bounds(query.forms[0])), by=self.name, notes=(reason,))


def _is_whole(query: Query, e: Expr, columns: Columns) -> bool:
    """Whether the variables cover the product of their columns' values."""
    if not columns.is_whole or query.keep:
        return False
    relaxed, params, facts, _ = query.split_relevant((e,))
    return not params and not facts and all(query.ranges[v].ends is not None for v in (*relaxed, *dag.free_vars(e)))

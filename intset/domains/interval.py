"""The `interval` domain: ends by linear forms, symbolic over parameters; contiguous images with symbolic ends."""

from typing import ClassVar

from intset.domains.attained import attained_on_box, has_parameters, symbolic_bounds
from intset.domains.query import Query
from intset.domains.ranked import are_apart, is_touched
from intset.domains.sets.base import IntervalSet, IntSet, empty_set
from intset.domains.sets.ends import Bounds, numeric_ends
from intset.expr import NEG_INF, POS_INF, dag, ops
from intset.linear.form import Linear
from intset.linear.symbolic import coefficients_of, covers, run_of


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
    """The image as an exact interval with symbolic ends, if its terms prove it contiguous; else `None`."""
    form = query.forms[0]
    if is_touched(query, tuple(form.terms)) or not _is_contiguous(query, form):
        return None
    bounds = symbolic_bounds(query, form)
    if not bounds.is_tight:  # dependent ranges or coefficients may leave gaps
        return None
    return IntervalSet(bounds[0], bounds[1], "interval", is_exact=True)


def _is_contiguous(query: Query, form: Linear) -> bool:
    """Whether `form` takes every value between its ends, provided that both are attained."""
    known = query.known
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
    coefficients = coefficients_of(form, query.quantified)
    run = None if coefficients is None else run_of(known, coefficients)
    return run is not None and run.reach is not None

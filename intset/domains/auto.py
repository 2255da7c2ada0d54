"""The `auto` domain: ask ranked domains, cheapest first, until an answer is certified.

Bounds are certified by structure (independent variables) or by witnesses; a set by structure (a multi-stride set of
independent variables). Without a cheap certificate, a sum whose parts share no variable is asked part by part. The
order then is: a small box by enumeration, the strongest domain with regions under its budget, a large box by
enumeration. Domains registered with a cost are asked in order of costs.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeVar

from intset.config import Effort
from intset.domains.attained import (
    attained_ends,
    attained_on_box,
    has_parameters,
    independent_parts,
    nonlinear_bounds,
    symbolic_bounds,
)
from intset.domains.bits import BitDomain
from intset.domains.interval import contiguous_image
from intset.domains.points import PointsDomain, points_bounds, points_image
from intset.domains.query import Query, Regions
from intset.domains.ranked import registered, strongest
from intset.domains.sets import answers
from intset.domains.sets.answers import Costed, Domain
from intset.domains.sets.base import IntervalSet, IntSet, coordinate_bounds, empty_set
from intset.domains.sets.ends import Bounds, End, numeric_ends
from intset.domains.sets.region import Region
from intset.domains.stride import StridedDomain, StrideSet, structural_image
from intset.domains.witness import is_attained
from intset.expr import NEG_INF, POS_INF, Expr, constant_value
from intset.expr.build import sum_of
from intset.linear.bitforms import speaks_of_bits
from intset.linear.form import Linear
from intset.linear.signs import has_member
from intset.plain import ends, progression
from intset.trace import tried

FEW_POINTS = 400  # a box this small is enumerated in the time isl takes to set up

_POINTS, _STRIDED, _BITS = PointsDomain(), StridedDomain(), BitDomain()
FAST_NOTE = "neither sets nor points were asked: effort is fast"


COST_OF_BITS, COST_OF_FEW, COST_OF_LINES, COST_OF_SETS, COST_OF_POINTS = 5, 10, 50, 100, 1000  # ranks of the steps

T = TypeVar("T")
Step = tuple[int, str, Callable[[], T | None], str]  # rank, tier ("": the strongest domain), question, budget


def _first_certified(own: list[Step[T]], ask_of: Callable[[Domain], T], certified: Callable[[T], bool]) -> T | None:
    """The first certified answer of the built-in steps and of the registered domains, cheapest first."""
    theirs: list[Step[T]] = [
        (domain.cost, domain.name, partial(ask_of, domain), "")
        for domain in registered.values()
        if isinstance(domain, Costed)
    ]
    for _, tier, ask, budget in sorted([*own, *theirs], key=lambda step: step[0]) if theirs else own:
        answer = tried(tier or strongest().name, ask, budget=budget)
        if answer is not None and certified(answer):
            return answer
    return None


def _plain_image(query: Query) -> IntSet | None:
    """The image of a box where one pass proves an arithmetic progression."""
    found = progression(query.exprs[0], query.ranges, query.config.points)
    if found is None:
        return None
    first, step, number = found
    return StrideSet(Linear(first, {}), (0, ((step, number),) if number > 1 else ()), is_exact=True)


def _added(query: Query, parts: Sequence[Bounds]) -> Bounds:
    """The bounds of a sum, from the bounds of its independent parts."""
    if any(part.is_empty for part in parts):
        return Bounds(POS_INF, NEG_INF, all(part.is_tight for part in parts), parts[0].by)
    ends: list[End] = []
    for side in zip(*parts, strict=True):
        infinite = [end for end in side if not isinstance(end, Expr)]
        ends.append(infinite[0] if infinite else query.base.form(sum_of(side)).expr())
    by = next((part.by for part in reversed(parts) if part.by != "linear"), "linear")
    notes = tuple(dict.fromkeys(note for part in parts for note in part.notes))
    return Bounds(ends[0], ends[1], all(part.is_tight for part in parts), by, notes)


class AutoDomain:
    """The first certified answer of the ranked domains.

    Guarantee: an uncertified answer is the tightest of the sound ones, with notes on the loss of precision.
    """

    name: ClassVar[str] = "auto"
    exact_on: ClassVar[str] = "whatever one of the ranked domains is exact on"

    def strongest(self) -> Regions:
        return strongest()

    def bounds(self, query: Query) -> Bounds:
        if query.known.empty:
            return Bounds(POS_INF, NEG_INF, True, self.name)
        if not query.facts and not query.keep:
            attained = ends(query.exprs[0], query.ranges, query.config.points)
            if attained is not None:
                plain = Bounds(attained[0], attained[1], True, "linear" if attained[2] else "points")
                return tried(plain.by, lambda: plain)
        form = query.forms[0]
        cheap = tried("linear", self._cheap_bounds, query, form)
        if cheap.is_tight:
            return cheap
        if query.config.effort == Effort.FAST:
            return Bounds(*cheap, False, cheap.by, (FAST_NOTE,))
        parts = independent_parts(query, form)
        if len(parts) > 1:
            added = _added(query, [self.bounds(query.of(query.known.regroup(part).expr())) for part in parts])
            return added if added.is_tight else self._best_of(query, cheap, added)
        best: list[Bounds] = []

        def searched(is_brief: bool) -> Bounds | None:
            low, high = (constant_value(end) if isinstance(end, Expr) else None for end in cheap)
            ends = None if low is None or high is None else attained_ends(query, low, high, is_brief)
            return None if ends is None else Bounds(*ends, True, "linear" if ends == (low, high) else "points")

        def strongest_bounds() -> Bounds:
            best.append(answers.bounds_of_points(query, self.strongest()))
            return best[0]

        def nonlinear() -> Bounds | None:
            nonlocal cheap
            answer = nonlinear_bounds(query)
            cheap = cheap if answer is None else answer
            return answer

        steps: list[Step[Bounds]] = [
            *(
                [(COST_OF_BITS, _BITS.name, lambda: answers.bounds_by(query, _BITS), "")]
                if speaks_of_bits(query.exprs)
                else []
            ),
            (COST_OF_FEW, "few points", lambda: points_bounds(query, FEW_POINTS), "FEW_POINTS"),
            (COST_OF_FEW, "brief search", partial(searched, is_brief=True), "points"),
            (COST_OF_LINES, "lines", nonlinear, "LINES"),
            (COST_OF_SETS, "", strongest_bounds, ""),
            (COST_OF_POINTS, "search", partial(searched, is_brief=False), "points"),
            (COST_OF_POINTS, _POINTS.name, lambda: answers.bounds_by(query, _POINTS), "points"),
        ]
        found = _first_certified(steps, lambda domain: answers.bounds_by(query, domain), lambda answer: answer.is_tight)
        return self._best_of(query, cheap, best[0]) if found is None else found

    def bounds_at_once(self, query: Query) -> Bounds | None:
        """Ends certified by structure or by witnesses, else `None`; symbolic ends need a known point of the domain."""
        form = query.forms[0]
        if query.known.empty or has_parameters(query, form) and not has_member(query.known):
            return None
        cheap = self._cheap_bounds(query, form)
        return cheap if cheap.is_tight else None

    def _cheap_bounds(self, query: Query, form: Linear) -> Bounds:
        if has_parameters(query, form):
            return symbolic_bounds(query, form)
        if (attained := attained_on_box(query, form)) is not None:
            return Bounds(attained[0], attained[1], True, "linear" if attained[2] else "points")
        low, high = query.known.bounds(form)
        if low is None or high is None:
            return Bounds(*numeric_ends(low, high), False, "linear")
        tight = is_attained(query, low, -1) and is_attained(query, high, 1)
        return Bounds(low, high, tight, "linear")

    def _best_of(self, query: Query, cheap: Bounds, exact: Bounds) -> Bounds:
        """The tighter of two sound answers, end by end; tight if a witness attains each end."""
        ends: list[End] = []
        certified = not has_parameters(query, query.forms[0])  # a witness proves nothing for all parameters
        for k, side in ((0, -1), (1, 1)):
            a, b = cheap[k], exact[k]
            numbers = [end.data for end in (a, b) if isinstance(end, Expr) and end.is_const]
            if not numbers:
                if isinstance(a, Expr) and isinstance(b, Expr):
                    inwards = query.base.form(b).minus(query.base.form(a)).scale(-side)
                    ends.append(b if query.base.is_nonneg(inwards) else a)
                else:
                    ends.append(a if isinstance(a, Expr) else b)
                certified = False
                continue
            best = max(numbers) if side < 0 else min(numbers)
            ends.append(Linear(best, {}).expr())
            certified = certified and is_attained(query, best, side)
        return Bounds(ends[0], ends[1], certified, exact.by, () if certified else exact.notes)

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        certified = self._cheap_image(query)
        if certified is not None:
            return certified
        if query.config.effort == Effort.FAST:
            strided = _STRIDED.image(query)
            strided.notes = (*strided.notes, FAST_NOTE)
            return strided
        best: list[IntSet] = []

        def strongest_set() -> IntSet:
            best.append(answers.set_of_points(query, self.strongest()))
            return best[0]

        steps: list[Step[IntSet]] = [
            *([(COST_OF_BITS, _BITS.name, lambda: _BITS.image(query), "")] if speaks_of_bits(query.exprs) else []),
            (COST_OF_FEW, "few points", lambda: points_image(query, FEW_POINTS), "FEW_POINTS"),
            (COST_OF_SETS, "", strongest_set, ""),
            (COST_OF_POINTS, _POINTS.name, lambda: _POINTS.image(query), "points"),
        ]
        found = _first_certified(steps, lambda domain: domain.image(query), lambda answer: answer.is_exact)
        if found is not None:
            return found
        exact = best[0]
        cheap = self._cheap_bounds(query, query.forms[0])
        bounds = cheap if cheap.is_tight else self._best_of(query, cheap, Bounds(*exact.ends(), False, exact.by))
        same = all(a is b for a, b in zip(bounds, exact.ends(), strict=True))
        if isinstance(exact, IntervalSet) or exact.params or not same:
            return IntervalSet(*bounds, by=bounds.by, is_tight=bounds.is_tight, notes=exact.notes)
        exact.is_tight = bounds.is_tight
        return exact

    def _cheap_image(self, query: Query) -> IntSet | None:
        """The exact image by structure; `None` without such a certificate."""
        certified: IntSet | None = tried("stride", structural_image, query)
        if certified is None and has_parameters(query, query.forms[0]):
            certified = tried("interval", contiguous_image, query)
        if certified is None and not query.facts and not query.keep:
            certified = tried("stride", _plain_image, query)
        return certified

    def region(self, query: Query) -> Region:
        if query.config.effort == Effort.FAST:
            return answers.region_of_sets(query, self)
        best: list[Region] = []

        def strongest_region() -> Region:
            best.append(answers.region_of_points(query, self.strongest()))
            best[0].coordinate_bounds = coordinate_bounds(query, self.bounds)
            return best[0]

        def product() -> Region | None:
            return answers.product_of_sets(query, self._cheap_image)

        steps: list[Step[Region]] = [(COST_OF_SETS, "", strongest_region, ""), (COST_OF_SETS, "product", product, "")]
        found = _first_certified(steps, lambda domain: answers.region_by(query, domain), lambda answer: answer.is_exact)
        return best[0] if found is None else found

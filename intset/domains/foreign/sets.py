"""Checks of the sets, bounds and regions that a domain from outside answers with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from intset.domains.foreign.regions import GuardedRegions, error_in_one_line, in_one_line, is_foreign
from intset.domains.query import Query
from intset.domains.sets.base import IntervalSet, IntSet, empty_set
from intset.domains.sets.ends import Bounds, End
from intset.domains.sets.region import ProductRegion, Region, product_of
from intset.errors import BudgetError, DomainError, UndecidedError
from intset.expr.node import Cond, Expr, Var, truth
from intset.expr.range import Range
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer
from intset.prover.proof import PROVED, Proof, prove_once
from intset.regions.derived import coordinates


class Guarded(GuardedRegions):
    """A domain from outside, with those of the optional methods that it has.

    Guarantee: as for `GuardedRegions`. Ends that cross stand for the empty set only where no point of the question is
    left. Of sets and regions of foreign classes a condition, and the box, are asked for and checked once.
    """

    methods: ClassVar[dict[str, str]] = {**GuardedRegions.methods, "bounds": "_bounds", "region": "_region"}

    def image(self, query: Query) -> IntSet:
        try:
            answer = self._call("image", query)
        except BudgetError as error:
            return IntervalSet(NEG_INF, POS_INF, self.name, notes=(self._gave_up(error),))
        if not isinstance(answer, IntSet):
            self._refuse("image", answer, "an IntSet")
        if self._check_set("image", answer, query):
            return self._crossed_set(query)
        return answer

    def _bounds(self, query: Query) -> Bounds:
        try:
            answer = self._call("bounds", query)
        except BudgetError as error:
            return Bounds(NEG_INF, POS_INF, False, self.name, (self._gave_up(error),))
        if not isinstance(answer, Bounds):
            self._refuse("bounds", answer, "a Bounds")
        self._check_claims("bounds", answer, ("is_tight",))
        if self._check_ends("bounds", answer, answer, query):
            instead = self._crossed_set(query)
            return Bounds(*instead.ends(), instead.is_tight, self.name, instead.notes)
        return answer

    def _region(self, query: Query) -> Region:
        try:
            answer = self._call("region", query)
        except BudgetError as error:
            return product_of([(NEG_INF, POS_INF)] * len(query.exprs), self.name, (self._gave_up(error),))
        if not isinstance(answer, Region):
            self._refuse("region", answer, "a Region")
        self._check_claims("region", answer, ("is_exact",))
        dims = self._read("region", answer, lambda: answer.dims)
        if dims != len(query.exprs):
            self._refuse("region", answer, f"a Region of {len(query.exprs)} dimensions", f", which has {dims!r}")
        self._check_variables("region", answer, self._read("region", answer, lambda: tuple(answer.params)), query)
        sides = answer.sets if isinstance(answer, ProductRegion) else ()
        crossed = [self._check_set("region", side, query) for side in sides]
        if any(crossed):
            instead = self._crossed_set(query)
            return ProductRegion([instead] * len(sides), self.name, instead.is_exact, instead.notes)
        if is_foreign(answer):
            self._check_condition("region", answer, answer.condition, coordinates(dims))
            box = self._read("region", answer, lambda: answer.box)
            if not isinstance(box, tuple) or len(box) != dims or not all(isinstance(side, Range) for side in box):
                self._refuse("region", answer, "a box of Ranges", f", whose box is {in_one_line(box)}")
        return answer

    def _gave_up(self, error: BudgetError) -> str:
        return f"{self.name} gave up: {error}"

    def _crossed_set(self, query: Query) -> IntSet:
        """The set returned for crossed ends: empty if the question has no point, else all integers, with a note."""
        if _emptiness(query).status == PROVED:
            return empty_set(self.name)
        note = f"the ends that {self.name} gave cross, and whether there is a point at all is not known"
        return IntervalSet(NEG_INF, POS_INF, self.name, notes=(note,))

    def _check_set(self, method: str, answer: IntSet, query: Query) -> bool:
        """Refuse a malformed set; returns whether its ends cross."""
        self._check_claims(method, answer)
        ends = self._read(method, answer, answer.ends)
        if not isinstance(ends, tuple) or len(ends) != 2:
            self._refuse(method, answer, "an IntSet with two ends", f", whose ends are {in_one_line(ends)}")
        crossed = self._check_ends(method, answer, ends, query)
        if isinstance(answer, IntervalSet):
            crossed |= self._check_ends(method, answer, (answer.low, answer.high), query)
        self._check_variables(method, answer, self._read(method, answer, lambda: tuple(answer.params)), query)
        if is_foreign(answer):
            self._check_condition(method, answer, answer.condition, Var("element"))
        return crossed

    def _check_condition(self, method: str, answer: Any, condition: Callable[[Any], Cond], element: object) -> None:
        """Refuse a set whose condition of membership is not a condition; one that gives up passes."""
        try:
            inside = condition(element)
        except (BudgetError, UndecidedError):
            return
        except Exception as error:
            what = f"{method} returned {type(answer).__name__}, which raised {error_in_one_line(error)}"
            raise DomainError(f"the domain {self.name!r}: {what}") from error
        else:
            if not isinstance(inside, Cond):
                self._refuse(method, answer, "a condition of membership", f", which gave {in_one_line(inside)}")

    def _check_claims(self, method: str, answer: Any, claims: Sequence[str] = ("is_tight", "is_exact")) -> None:
        for claim in claims:
            value = self._read(method, answer, partial(getattr, answer, claim))
            if not isinstance(value, bool):
                self._refuse(method, answer, f"{claim} to be True or False", f", whose {claim} is {in_one_line(value)}")
        self._read(method, answer, lambda: (answer.by, tuple(answer.notes)))

    def _check_ends(self, method: str, answer: Any, ends: Sequence[End], query: Query) -> bool:
        """Refuse malformed ends; returns whether they cross.

        Crossed ends describe the empty set, which is right for an empty domain (ends computed from an empty range
        cross). They are refused only if a point of the domain is known; the message names it.
        """
        for end in ends:
            if not isinstance(end, (Expr, Infinity)):
                self._refuse(method, answer, "ends that are expressions or infinities", f", one is {in_one_line(end)}")
            if isinstance(end, Expr):
                self._check_variables(method, answer, end.free_vars(), query)
        if not _cross(*ends) or tuple(ends) == (POS_INF, NEG_INF):
            return False
        point = _emptiness(query).counterexample
        if point is not None:
            where = f" at {in_one_line(point)}" if point else ""
            self._refuse(
                method,
                answer,
                "a lower and an upper end",
                f", {in_one_line(ends[0])} and {in_one_line(ends[1])}{where}",
            )
        return True


def _emptiness(query: Query) -> Proof:
    """The proof that the domain of a question is empty; a counterexample is a point of it."""
    frame = Frame(query.ranges, tuple(Fact(cond, DERIVED) for cond in query.facts))
    return prove_once(frame, truth(False), query.config)


def _cross(low: End, high: End) -> bool:
    if low is POS_INF or high is NEG_INF:
        return True
    if isinstance(low, Infinity) or isinstance(high, Infinity):
        return False
    plain = Normalizer({})
    widest = plain.bounds(plain.form(high - low))[1]
    return widest is not None and widest < 0

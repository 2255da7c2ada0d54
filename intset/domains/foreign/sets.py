"""The border to domains from outside: their sets, regions and bounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from intset.domains.foreign import watched
from intset.domains.foreign.regions import GuardedRegions
from intset.domains.foreign.watched import (
    CONDITION,
    COUNT,
    SHAPE,
    TEXT,
    TRUTH,
    VARIABLES,
    Methods,
    Wanted,
    Watch,
    of_kind,
)
from intset.domains.foreign.watched import shown_in_a_line as _shown
from intset.domains.query import Query
from intset.domains.sets.base import IntervalSet, IntSet, ShapeSet, empty_set
from intset.domains.sets.ends import Bounds, End, by_parameter
from intset.domains.sets.region import ProductRegion, Region, ShapeRegion, product_of
from intset.errors import BudgetError
from intset.expr.node import Cond, Expr, as_expr, truth
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer
from intset.prover.cache import prove_once
from intset.prover.proof import PROVED, Proof
from intset.regions.shape import Shape

_BOTH: Final[Methods] = {
    **dict.fromkeys(("is_tight", "is_exact", "is_empty", "__le__", "__lt__", "__ge__", "__gt__"), TRUTH),
    "__contains__": TRUTH._replace(is_asked=True),
    "params": VARIABLES,
    "count": COUNT,
    "conditions": Wanted("conditions", lambda found, _: all(isinstance(part, Cond) for part in found)),
    "shape": SHAPE,
    "__repr__": TEXT,
}
_SET: Final = of_kind("an IntSet", IntSet)
_REGION: Final = of_kind("a Region", Region)
_MAYBE_POINT: Final = watched.maybe(
    Wanted("an expression for each coordinate", lambda found, of: _are(found, of.dims, lambda e: isinstance(e, Expr)))
)
_SETS: Final[Methods] = {
    **_BOTH,
    **dict.fromkeys(("__or__", "__and__", "substituted", "mentioned", "in_instances"), _SET),
    **dict.fromkeys(("is_everything", "is_single_point"), TRUTH),
    **dict.fromkeys(("min", "max"), Wanted("an expression or an infinity", lambda found, _: watched.is_end(found))),
    "ends": Wanted("two ends, expressions or infinities", lambda found, _: _are(found, 2, watched.is_end)),
    "condition": CONDITION._replace(given=lambda s, e: as_expr(e)),
    "at": _SET._replace(given=lambda s, values: by_parameter(values, (*s.params, *free_vars(*s.where)))),
    "contains": of_kind("a Proof", Proof)._replace(given=lambda s, e: as_expr(e)),
    "describe": TEXT,
}
_REGIONS: Final[Methods] = {
    **_BOTH,
    **dict.fromkeys(("__or__", "__and__", "__sub__", "hull", "mentioned", "in_instances"), _REGION),
    **dict.fromkeys(("count_max", "count_total"), COUNT),
    **dict.fromkeys(("lexmin", "lexmax"), _MAYBE_POINT),
    "box": Wanted("a Range for each dimension", lambda found, of: _are(found, of.dims, lambda r: isinstance(r, Range))),
    "condition": CONDITION._replace(given=lambda r, point: r.place_of(point, as_expr)),
    "at": _REGION._replace(given=lambda r, values: by_parameter(values, r.params)),
    "project": _REGION._replace(is_asked=True),
    "pieces": Wanted("Regions", lambda found, _: all(isinstance(part, Region) for part in found), is_asked=True),
    "sample": watched.maybe(
        Wanted("an int for each coordinate", lambda found, of: _are(found, of.dims, lambda x: type(x) is int))
    ),
}


def _are(found: Any, number: int, fits: Callable[[Any], bool]) -> bool:
    return isinstance(found, tuple) and len(found) == number and all(map(fits, found))


def _parts(answer: Any) -> Sequence[Any]:
    """What an answer of a class of this package asks."""
    if isinstance(answer, ProductRegion):
        return answer.sets
    return [answer.shape] if isinstance(answer, (ShapeSet, ShapeRegion)) else ()


_WATCH: Final = Watch({IntSet: _SETS, Region: _REGIONS, Shape: watched.SHAPE_METHODS}, _parts)


class Guarded(GuardedRegions):
    """A domain from outside, with those of the optional methods that it has."""

    methods: ClassVar[dict[str, str]] = {**GuardedRegions.methods, "bounds": "_bounds", "region": "_region"}
    watch: ClassVar[Watch] = _WATCH

    def image(self, query: Query) -> IntSet:
        try:
            answer = self._asked("image", query)
        except BudgetError as error:
            return IntervalSet(NEG_INF, POS_INF, self.name, notes=(self._gave_up(error),))
        if not isinstance(answer, IntSet):
            self._refuse("image", answer, "an IntSet")
        if self._check_set("image", answer, query):
            return self._crossed_set(query)
        self.watch.over(answer, self.name)
        return answer

    def _bounds(self, query: Query) -> Bounds:
        try:
            answer = self._asked("bounds", query)
        except BudgetError as error:
            return Bounds(NEG_INF, POS_INF, False, self.name, (self._gave_up(error),))
        if not isinstance(answer, Bounds):
            self._refuse("bounds", answer, "a Bounds")
        self._check_claims("bounds", answer, ("is_tight",))
        if self._check_ends("bounds", answer, answer, query):
            nothing = self._crossed_set(query)
            return Bounds(*nothing.ends(), nothing.is_tight, self.name, nothing.notes)
        return answer

    def _region(self, query: Query) -> Region:
        try:
            answer = self._asked("region", query)
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
            nothing = self._crossed_set(query)
            return ProductRegion([nothing] * len(sides), self.name, nothing.is_exact, nothing.notes)
        self.watch.over(answer, self.name)
        return answer

    def _gave_up(self, error: BudgetError) -> str:
        return f"{self.name} gave up: {error}"

    def _crossed_set(self, query: Query) -> IntSet:
        """The set for an answer whose ends cross: empty where no point of the question is left, else everything."""
        if _emptiness(query).status == PROVED:
            return empty_set(self.name)
        note = f"the ends that {self.name} gave cross, and whether there is a point at all is not known"
        return IntervalSet(NEG_INF, POS_INF, self.name, notes=(note,))

    def _check_set(self, method: str, answer: IntSet, query: Query) -> bool:
        """Refuse a set that is not well formed; returns whether its ends cross."""
        self._check_claims(method, answer)
        ends = self._read(method, answer, answer.ends)
        if not isinstance(ends, tuple) or len(ends) != 2:
            self._refuse(method, answer, "an IntSet with two ends", f", whose ends are {_shown(ends)}")
        crossed = self._check_ends(method, answer, ends, query)
        if isinstance(answer, IntervalSet):
            crossed |= self._check_ends(method, answer, (answer.low, answer.high), query)
        self._check_variables(method, answer, self._read(method, answer, lambda: tuple(answer.params)), query)
        return crossed

    def _check_claims(self, method: str, answer: Any, claims: Sequence[str] = ("is_tight", "is_exact")) -> None:
        for claim in claims:
            value = self._read(method, answer, partial(getattr, answer, claim))
            if not isinstance(value, bool):
                self._refuse(method, answer, f"{claim} to be True or False", f", whose {claim} is {_shown(value)}")
        self._read(method, answer, lambda: (answer.by, tuple(answer.notes)))

    def _check_ends(self, method: str, answer: Any, ends: Sequence[End], query: Query) -> bool:
        """Refuse what are no ends of the question; returns whether they cross.

        Ends that cross describe no element. That is right where no point of the question is left, as ends computed from
        an empty range show; it is refused only where a point is known, which the message names.
        """
        for end in ends:
            if not isinstance(end, (Expr, Infinity)):
                self._refuse(method, answer, "ends that are expressions or infinities", f", one is {_shown(end)}")
            if isinstance(end, Expr):
                self._check_variables(method, answer, end.free_vars(), query)
        if not _cross(*ends) or tuple(ends) == (POS_INF, NEG_INF):
            return False
        point = _emptiness(query).counterexample
        if point is not None:
            where = f" at {_shown(point)}" if point else ""
            self._refuse(
                method, answer, "a lower and an upper end", f", {_shown(ends[0])} and {_shown(ends[1])}{where}"
            )
        return True


def _emptiness(query: Query) -> Proof:
    """The proof that no point of a question is left, or a point as its counterexample."""
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

"""Domains by name: built in, registered by `register(domain)`, or from the entry-point group `intset.domains`.

A product of domains intersects the answers of its parts; `interval*modular` is a domain of its own (`value.py`),
which reduces after every operation.

Guarantee: an answer of a registered domain has the form that its protocol requires, or a `DomainError` names the domain
and the method (`Guarded`).
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import is_
from typing import Any, ClassVar, Final

from intset.config import CHEAPEST as CHEAPEST
from intset.config import announce, check_name, entry_points, withdraw
from intset.domains import ranked
from intset.domains.auto import AutoDomain
from intset.domains.bits import BitDomain
from intset.domains.interval import IntervalDomain
from intset.domains.isl.presburger import Isl
from intset.domains.points import PointsDomain
from intset.domains.query import Query, Regions
from intset.domains.ranked import GuardedRegions, in_one_line, instantiated, is_foreign
from intset.domains.ranked import strongest as strongest
from intset.domains.regional import AnswersByPoints
from intset.domains.sets.answers import Domain, RankedDomain, region_of_points
from intset.domains.sets.base import IntervalSet, IntSet, coordinate_bounds, empty_set
from intset.domains.sets.ends import Bounds, End
from intset.domains.sets.region import ProductRegion, Region, product_of
from intset.domains.stride import ModularDomain, StridedDomain, StrideDomain
from intset.errors import BudgetError, DomainError, InputError, PluginWarning, UndecidedError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, Range, Var, arguments, shown
from intset.expr.node import truth
from intset.facts import DERIVED, Fact
from intset.frame import Frame
from intset.linear.canonical import bounds_of
from intset.prover.proof import PROVED, Proof, prove_once
from intset.regions.shape import coordinates
from intset.trace import skipped


class IslDomain(AnswersByPoints, Isl):
    """The `isl` domain: images as Presburger sets.

    Guarantee: exact unless a term is not affine (a fresh bounded variable replaces it) or the budget ends.
    """

    exact_on: ClassVar[str] = "affine expressions and conditions, with divisions by constants"


_BUILT_IN: Final[Mapping[str, Callable[[], Domain]]] = {
    "auto": AutoDomain,
    "interval": IntervalDomain,
    "stride": StrideDomain,
    "modular": ModularDomain,
    "interval*modular": StridedDomain,
    "bits": BitDomain,
    "isl": IslDomain,
    "points": PointsDomain,
}
_loaded: dict[str, Domain] = {}
_products: dict[str, Domain] = {}  # built on demand
_answering: dict[str, Regions | None] = {}  # cache of `regions_of`, cleared by every registration


def register(domain: Domain, name: str | None = None) -> Domain:
    """Register `domain` under `name` (default: its own). Returns the domain, so it serves as a decorator."""
    given = "" if name is None else arguments.a_name(name, "the name of a domain")
    instance = instantiated(domain, given or getattr(domain, "name", "") or "?")
    chosen = given or getattr(instance, "name", None)
    if not isinstance(chosen, str) or not chosen:
        raise InputError(f"a domain needs a name: {shown(domain)}")
    if not callable(getattr(instance, "image", None)):
        raise InputError(f"the domain {shown(chosen)} has no method image(query)")
    _loaded[chosen] = guarded = Guarded(instance, chosen)
    ranked.enlist(chosen, guarded)
    _forget_what_is_built()
    announce(chosen)  # last: it invalidates cached answers
    return domain


def unregister(name: str) -> None:
    """Remove a domain that was registered by call."""
    _loaded.pop(name, None)
    ranked.enlist(name, None)
    _forget_what_is_built()
    withdraw(name)


def _forget_what_is_built() -> None:
    """Drop the products, which are built from registered domains."""
    _products.clear()
    _answering.clear()


def domain_names() -> tuple[str, ...]:
    """The names of all domains; a plugin that fails to load is omitted with a warning."""
    names = dict.fromkeys((*_BUILT_IN, *_loaded))
    for point in entry_points():
        if point.name in names:
            continue
        try:
            domain_named(point.name)
        except DomainError as error:
            skipped(point.name, str(error))
            warnings.warn(str(error), PluginWarning, stacklevel=2)
        else:
            names[point.name] = None
    return tuple(names)


def domain_named(name: str) -> Domain:
    """The domain registered as `name`; products such as `interval*modular` are built on demand."""
    domain = _loaded.get(name) or _products.get(name)
    if domain is not None:
        return domain
    if name in _BUILT_IN:
        return _loaded.setdefault(name, _BUILT_IN[name]())
    check_name(name, "domain")
    point = next((p for p in entry_points() if p.name == name), None)
    if point is not None:
        loaded = ranked.load(point)
        if not callable(getattr(loaded, "image", None)):
            raise DomainError(f"the domain {shown(name)}: its plugin {point.value} has no method image(query)")
        return _loaded.setdefault(name, Guarded(loaded, name))
    parts = [domain_named(part.strip()) for part in name.split("*")]
    tops = [part.strongest() if isinstance(part, RankedDomain) else part for part in parts]
    engines = [top for top in tops if isinstance(top, Regions)]
    product = ProductWithRegions(parts, name, engines) if engines else ProductDomain(parts, name)
    return _products.setdefault(name, product)


def regions_of(name: str) -> Regions | None:
    """The domain with regions behind a name: itself or the strongest of its ranked domains; `None` without regions."""
    if name not in _answering:
        domain = domain_named(name)
        top = domain.strongest() if isinstance(domain, RankedDomain) else domain
        _answering[name] = top if isinstance(top, Regions) else None
    return _answering[name]


# -- domains from outside ---------------------------------------------------------------------------------------------


class Guarded(GuardedRegions):
    """Checks of a domain from outside, with its optional methods.

    Guarantee: as for `GuardedRegions`. Crossed ends mean the empty set only if the query is proved empty. The condition
    and the box of a foreign set or region are evaluated once, to check their form.
    """

    methods: ClassVar[dict[str, str]] = {**GuardedRegions.methods, "bounds": "_bounds", "region": "_region"}

    def image(self, query: Query) -> IntSet:
        try:
            answer = self._call("image", query)
        except BudgetError as error:
            return IntervalSet(NEG_INF, POS_INF, self.name, notes=(f"{self.name} gave up: {error}",))
        if not isinstance(answer, IntSet):
            self._refuse("image", answer, "an IntSet")
        return self._crossed_set(query) if self._check_set("image", answer, query) else answer

    def _bounds(self, query: Query) -> Bounds:
        try:
            answer = self._call("bounds", query)
        except BudgetError as error:
            return Bounds(NEG_INF, POS_INF, False, self.name, (f"{self.name} gave up: {error}",))
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
            ends = [(NEG_INF, POS_INF)] * len(query.exprs)
            return product_of(ends, self.name, (f"{self.name} gave up: {error}",))
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

        def inside() -> object:
            with suppress(BudgetError, UndecidedError):
                return condition(element)
            return truth(True)

        found = self._read(method, answer, inside)
        if not isinstance(found, Cond):
            self._refuse(method, answer, "a condition of membership", f", which gave {in_one_line(found)}")

    def _check_claims(self, method: str, answer: Any, claims: Sequence[str] = ("is_tight", "is_exact")) -> None:
        for claim in claims:
            value = self._read(method, answer, partial(getattr, answer, claim))
            if not isinstance(value, bool):
                self._refuse(method, answer, f"{claim} to be True or False", f", whose {claim} is {in_one_line(value)}")
        self._read(method, answer, lambda: (answer.by, tuple(answer.notes)))

    def _check_ends(self, method: str, answer: Any, ends: Sequence[End], query: Query) -> bool:
        """Refuse malformed ends; returns whether they cross.

        Ends computed from an empty range cross, and rightly describe the empty set. Crossed ends are refused only if a
        point of the domain is known; the message names it.
        """
        for end in ends:
            if not isinstance(end, (Expr, Infinity)):
                self._refuse(method, answer, WRITTEN_ENDS, f", one of whose ends is {in_one_line(end)}")
            if isinstance(end, Expr):
                self._check_variables(method, answer, end.free_vars(), query)
        if not _cross(*ends) or tuple(ends) == (POS_INF, NEG_INF):
            return False
        point = _emptiness(query).counterexample
        if point is not None:
            where = f" at {in_one_line(point)}" if point else ""
            got = f", {in_one_line(ends[0])} and {in_one_line(ends[1])}{where}"
            self._refuse(method, answer, "a lower and an upper end", got)
        return True


WRITTEN_ENDS: Final = "ends that are expressions, such as const(3), or infinities"


def _emptiness(query: Query) -> Proof:
    """The proof that the domain of a question is empty; a counterexample is a point of it."""
    frame = Frame(query.ranges, tuple(Fact(cond, DERIVED) for cond in query.facts))
    return prove_once(frame, truth(False), query.config)


def _cross(low: End, high: End) -> bool:
    if low is POS_INF or high is NEG_INF:
        return True
    if isinstance(low, Infinity) or isinstance(high, Infinity):
        return False
    widest = bounds_of(high - low)[1]
    return widest is not None and widest < 0


class ProductDomain:
    """The intersection of the answers of several domains."""

    name: str

    def __init__(self, parts: Sequence[Domain], name: str) -> None:
        self.parts, self.name = tuple(parts), name

    def image(self, query: Query) -> IntSet:
        answers = [part.image(query) for part in self.parts]
        for answer in answers:
            if answer.is_exact:
                return answer
        result = answers[0]
        for answer in answers[1:]:
            result = result & answer
        result.by = self.name
        # Ends that are attained in one answer are attained in every set with the same ends.
        if any(answer.is_tight and all(map(is_, answer.ends(), result.ends())) for answer in answers):
            result.is_tight = True
        return result

    def bounds(self, query: Query) -> Bounds:
        answers = [part.image(query) for part in self.parts]
        for answer in answers:
            if answer.is_tight:
                return Bounds(*answer.ends(), True, self.name)
        result = self.image(query)
        return Bounds(*result.ends(), result.is_tight, self.name, result.notes)


class ProductWithRegions(ProductDomain):
    """A product with regions, by the strongest of its parts that have regions."""

    def __init__(self, parts: Sequence[Domain], name: str, engines: Sequence[Regions]) -> None:
        super().__init__(parts, name)
        self._top = max(engines, key=lambda engine: engine.strength)

    def strongest(self) -> Regions:
        return self._top

    def region(self, query: Query) -> Region:
        region = region_of_points(query, self._top)
        region.coordinate_bounds = coordinate_bounds(query, self.bounds)
        return region

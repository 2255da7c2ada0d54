"""Protocols of domains, one for each capability, and the answers derived from one method of a domain: sets, bounds and
regions from its shapes; regions from its sets."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from intset import config as configuration
from intset.config import CHEAPEST
from intset.domains.query import Points, Query, Regions
from intset.domains.ranked import values_of
from intset.domains.sets.base import (
    IntervalSet,
    IntSet,
    ShapeSet,
    bounds_of,
    coordinate_bounds,
    empty_set,
    outer_box_of,
    outer_ends,
)
from intset.domains.sets.ends import Bounds, by_parameter
from intset.domains.sets.region import ProductRegion, Region, ShapeRegion, product_of
from intset.domains.witness import LISTED
from intset.errors import BudgetError
from intset.expr import Expr, IntLike, Var, dag
from intset.frame import Frame
from intset.ranges import renamed
from intset.regions.shape import ListedPoints, Shape

LISTED_SHAPE_POINTS: Final = 1000  # points of a shape by enumeration, after the domain gave up on the formula


@runtime_checkable
class Domain(Protocol):
    """A description of sets of integers.

    Guarantee: `image` contains every value of the expression, and raises nothing. Optional methods: `bounds(query)`,
    where ends are cheaper than the set, `bounds_at_once(query)` for certified ends without a search, and
    `region(query)` for several expressions.

    The smallest domain:

    >>> class Everything:
    ...     name = "everything"
    ...     def image(self, query):
    ...         return IntervalSet(NEG_INF, POS_INF, self.name)
    """

    @property
    def name(self) -> str:
        """The name of the registration."""

    def image(self, query: Query) -> IntSet:
        """The set of values of the query's only expression."""
        ...


@runtime_checkable
class Costed(Domain, Protocol):
    """A domain with a stated cost, by which `auto` ranks it.

    Attributes
    ----------
    cost: 10 is a box of a few points, 100 the strongest domain with regions, 1000 a large box.
    """

    cost: ClassVar[int]


@runtime_checkable
class RegionDomain(Domain, Regions, Protocol):
    """A domain that has regions."""


@runtime_checkable
class RankedDomain(Domain, Protocol):
    """A domain that asks ranked domains, the strongest one with regions last."""

    def strongest(self) -> Regions:
        """The strongest domain with regions."""
        ...


OPEN_END = ("no end was found that is there for all parameters",)


def set_of_points(query: Query, domain: Regions) -> IntSet:
    """The image of one expression as a set; an interval with a note beyond the domain's budget."""
    if query.is_empty:
        return empty_set(domain.name)
    try:
        shape, notes = _points(query, domain)
    except BudgetError as error:
        return IntervalSet(*outer_ends(query, 0), CHEAPEST, notes=(f"{domain.name} gave up: {error}",))
    if shape is None:
        return empty_set(domain.name)
    return ShapeSet(shape, domain.name, outer_box_of(query, not notes), is_exact=not notes, notes=notes)


def bounds_of_points(query: Query, domain: Regions) -> Bounds:
    """The ends of `set_of_points`."""
    answer = set_of_points(query, domain)
    found = answer.bounds(query.config.isl_operations) if isinstance(answer, ShapeSet) else bounds_of(answer)
    open_end = answer.is_exact and not found.is_tight and not found.notes
    return Bounds(*found, found.is_tight, domain.name, OPEN_END if open_end else found.notes)


def region_of_points(query: Query, domain: Regions) -> Region:
    """The image of several expressions as a region; enumerated, or a box with a note, beyond the domain's budget."""
    dims = len(query.exprs)
    try:
        found = (None, ()) if query.is_empty else _points(query, domain)
    except BudgetError as error:
        return _listed(query, domain) or product_of(
            [outer_ends(query, k) for k in range(dims)], CHEAPEST, (f"{domain.name} gave up: {error}",)
        )
    shape, notes = found
    if shape is None:
        return ProductRegion([empty_set(domain.name)] * dims, domain.name, True)
    if notes and (values := values_of(query)) is not None:
        return ShapeRegion(ListedPoints(dims, values), LISTED, True)
    region = ShapeRegion(shape, domain.name, not notes, notes, outer_box_of(query, not notes))
    region.coordinate_bounds = coordinate_bounds(query, lambda alone: bounds_of_points(alone, domain))
    return region


def _points(query: Query, domain: Regions) -> tuple[Shape | None, tuple[str, ...]]:
    """The coalesced points of a query, `None` for the empty image, with the notes of a superset."""
    with domain.everything(0).budget(query.config.isl_operations):
        found = domain.points(query)
        shape = found.shape.coalesced()
        return (None if shape.is_empty() else shape), found.notes


def _listed(query: Query, domain: Regions) -> Region | None:
    """The image by enumeration, up to `LISTED_SHAPE_POINTS` points as a shape of the domain; `None` for a large box."""
    values = values_of(query)
    if values is None:
        return None
    if len(values) > LISTED_SHAPE_POINTS:
        return ShapeRegion(ListedPoints(len(query.exprs), values), LISTED, True)
    try:
        kind = domain.everything(0)
        with kind.budget(max(1, query.config.isl_operations)):
            shape = kind.listing(sorted(values), (), len(query.exprs))
    except BudgetError:
        return ShapeRegion(ListedPoints(len(query.exprs), values), LISTED, True)
    return ShapeRegion(shape, LISTED, True, (), outer_box_of(query, True))


def region_of_sets(query: Query, domain: Domain) -> Region:
    """The product of the images of single expressions; exact for exact images without shared variables."""
    sets = [domain.image(query.of(e)) for e in query.exprs]
    exact = _independent(query) and all(s.is_exact for s in sets)
    notes = tuple(dict.fromkeys(note for s in sets for note in s.notes))
    notes = notes if exact else (*notes, "each coordinate was bounded alone")
    alone = coordinate_bounds(query, lambda one: bounds_by(one, domain))
    return ProductRegion(sets, domain.name, exact, notes, alone)


def product_of_sets(query: Query, image: Callable[[Query], IntSet | None]) -> Region | None:
    """The exact product of exact images of independent expressions; `None` for others."""
    if len(query.exprs) > 1 and not _independent(query):
        return None
    sets = [image(query.of(e)) for e in query.exprs]
    exact = [s for s in sets if s is not None and s.is_exact]
    return ProductRegion(exact, CHEAPEST, True) if len(exact) == len(sets) else None


def _independent(query: Query) -> bool:
    """Whether the expressions share no quantified variable, also through ranges, and no fact relates them.

    Two expressions with loads count as related: loads of one symbol at equal indices have equal values.
    """
    if query.facts or query.kept_ties or sum(bool(dag.opaque_terms(*form.terms)) for form in query.forms) > 1:
        return False
    seen: set[Var] = set()
    for form in query.forms:
        mentioned = [v for v in dag.free_vars(*form.terms) if query.is_quantified(v)]
        own = {v for var in mentioned for v in (var, *query.ties.get(var, ()))}
        if own & seen:
            return False
        seen |= own
    return True


def bounds_by(query: Query, domain: Domain) -> Bounds:
    """The bounds of a query by the domain's `bounds`, else the ends of its `image`."""
    method = getattr(domain, "bounds", None)
    return method(query) if callable(method) else bounds_of(domain.image(query))


def bounds_at_once(query: Query, domain: Domain) -> Bounds | None:
    """The certified ends that a domain knows before any search, by its `bounds_at_once`; `None` without any."""
    method = getattr(domain, "bounds_at_once", None)
    return method(query) if callable(method) else None


def region_by(query: Query, domain: Domain) -> Region:
    """The region of a query by the domain's `region`, else by its points, else by its images."""
    method = getattr(domain, "region", None)
    if callable(method):
        found: Region = method(query)
        return found
    return region_of_points(query, domain) if isinstance(domain, Regions) else region_of_sets(query, domain)


ASKED: Final[dict[str, Callable[[Query, Domain], Any]]] = {
    "bounds": bounds_by,
    "image": lambda query, domain: domain.image(query),
    "region": region_by,
}
CALLED: Final = {"bounds": "bounds", "image": "value_set", "region": "image"}  # as methods of a context


def is_certified(answer: Any) -> bool:
    """Whether bounds are tight, or a set or region exact."""
    return bool(answer.is_tight if isinstance(answer, Bounds) else answer.is_exact)


def better(answer: Any, other: Any) -> Any:
    """The answer with the stronger certificate; regions combine the boxes of both."""
    if is_certified(other) or (isinstance(other, IntSet) and other.is_tight and not answer.is_tight):
        return other
    if isinstance(answer, Region) and other.coordinate_bounds is not None:
        answer = copy(answer)
        own, more = answer.coordinate_bounds, other.coordinate_bounds
        answer.coordinate_bounds = more if own is None else own.intersection(more)
    return answer


def at_sizes(
    frame: Frame, exprs: tuple[Expr, ...], keep: Sequence[Var], values: Mapping[Var, IntLike]
) -> tuple[Frame, tuple[Expr, ...]]:
    """The frame and the expressions at values of sizes; without a point at values that a fact or a bound excludes."""
    new = by_parameter(values, frame.sizes(exprs, keep))
    frame.check_sizes(new, keep)
    key = ("at", *new.items())
    placed = frame.answers.get(key) or frame.remember(key, Frame.of(*renamed(frame.ranges, frame.facts, new, {})))
    return placed, tuple([e.substitute(new) for e in exprs])


class HasFrame(Protocol):
    """What has a scope: a `Context`."""

    @property
    def frame(self) -> Frame: ...


def image_in_instances(context: HasFrame, exprs: Sequence[Expr], keep: Sequence[Var], domain: Regions) -> Points:
    """The image of `exprs` for each value of the variables `keep`.

    Guarantee: an instance is empty if the facts exclude all its points, also by conditions on variables that `exprs` do
    not mention. (`Context.image` describes nonempty instances only.)

    Raises
    ------
    BudgetError: the domain exceeds the budget of one query.
    """
    frame = context.frame.where_defined(exprs)
    config = configuration.current()
    kept = frozenset(keep)
    # Normalized under the ranges alone, so that facts stay visible conditions of each instance.
    query = Query(exprs, frame.ranges, frame.conditions, tuple(kept), frame.base, frame.base, config)
    query.also = tuple(v for v in dag.free_vars(*frame.conditions) if v in kept or v in frame.ranges)
    kind = domain.everything(0)
    with kind.budget(max(1, config.isl_operations)):
        if frame.known.empty:
            return Points(kind.listing((), (), len(exprs)), ())
        return domain.points(query)

"""`Relation`: a set of pairs of tuples, represented as a region over the coordinates of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from intset.config import Configured, all_as_configured
from intset.domains.sets.bounds import DimensionBounds, combined
from intset.domains.sets.region import Region, product_of, region_of_shape
from intset.errors import BudgetError, InputError
from intset.expr.arguments import listed, of_kind
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int
from intset.expr.printer import shown
from intset.regions.derived import collected, coordinates
from intset.regions.shape import Shape


@all_as_configured
class Relation(Configured):
    """A set of pairs (source, target) of integer tuples, possibly depending on parameters.

    Guarantee: an operation that has no exact answer returns a superset with a note; an extremum is refused instead.

    Attributes
    ----------
    sources, targets: the number of coordinates of each.
    pairs: the region of the points `(*source, *target)`.
    params, is_exact, notes, by, is_empty: those of `pairs`.

    Raises
    ------
    InputError: tuples of the wrong length.
    UndecidedError: an extremum of an unbounded relation, or beyond the budget.

    Example: which iteration stored what iteration `(i, j)` reads from `A[i*4 + j - 1]`?

    >>> from intset import Context, Range, Var
    >>> i, j = Var("i"), Var("j")
    >>> loops = Context({i: Range(0, 4), j: Range(0, 4)})
    >>> stores, loads = loops.relation((i, j), (i * 4 + j,)), loops.relation((i, j), (i * 4 + j - 1,))
    >>> source = loads.then(stores.inverse())
    >>> source.contains((2, 0), (1, 3)), source.domain().count()
    (True, 15)
    """

    def __init__(self, pairs: Region, sources: int) -> None:
        of_kind(Region, pairs, "the pairs of a relation")
        if not 0 <= as_int(sources, "the number of sources") <= pairs.dims:
            raise InputError(f"a relation over {pairs.dims} coordinates has no source of {shown(sources)}")
        self.pairs, self.sources, self.targets = pairs, sources, pairs.dims - sources

    # -- claims -------------------------------------------------------------------------------------------------

    @property
    def params(self) -> tuple[Var, ...]:
        return self.pairs.params

    @property
    def is_exact(self) -> bool:
        return self.pairs.is_exact

    @property
    def notes(self) -> tuple[str, ...]:
        return self.pairs.notes

    @property
    def by(self) -> str:
        return self.pairs.by

    @property
    def is_empty(self) -> bool:
        return self.pairs.is_empty

    # -- the two sides ------------------------------------------------------------------------------------------

    def domain(self) -> Region:
        """The sources of all pairs."""
        return self.pairs.project(range(self.sources))

    def range(self) -> Region:
        """The targets of all pairs."""
        return self.pairs.project(range(self.sources, self.pairs.dims))

    def inverse(self) -> Relation:
        """The relation with sources and targets exchanged."""
        order = [*range(self.sources, self.pairs.dims), *range(self.sources)]
        return Relation(self.pairs.project(order), self.targets)

    def then(self, other: Relation) -> Relation:
        """The composition: pairs `(a, c)` with `(a, b)` in this relation and `(b, c)` in `other`, for some `b`."""
        if not isinstance(other, Relation) or other.sources != self.targets:
            raise InputError(f"a relation to {self.targets} coordinates cannot be followed by {shown(other)}")
        return Relation(_composed(self.pairs, other.pairs, self.targets), self.sources)

    def apply(self, region: Region) -> Region:
        """The image of a region under the relation."""
        if of_kind(Region, region, "what a relation is applied to").dims != self.sources:
            raise InputError(f"a region of {region.dims} dimensions is no set of sources of {self.sources}")
        return _composed(region, self.pairs, self.sources)

    # -- extrema ------------------------------------------------------------------------------------------------

    def lexmin(self) -> Relation:
        """Pair each source with its lexicographically smallest target."""
        return Relation(_extreme_targets(self.pairs, self.sources, -1), self.sources)

    def lexmax(self) -> Relation:
        """Pair each source with its lexicographically largest target."""
        return Relation(_extreme_targets(self.pairs, self.sources, 1), self.sources)

    # -- the rest -----------------------------------------------------------------------------------------------

    def at(self, values: Mapping[Var, IntLike]) -> Relation:
        """Substitute parameters, as `Region.at` does."""
        return Relation(self.pairs.at(values), self.sources)

    def condition(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> Cond:
        """The condition of membership of a pair."""
        return self.pairs.condition(self._pair(source, target))

    def contains(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> bool:
        """Membership of a pair of constants, for a relation without parameters."""
        return [int(x) for x in self._pair(source, target)] in self.pairs

    def _pair(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> list[Expr]:
        source, target = listed(source, "the source", "a point"), listed(target, "the target", "a point")
        if len(source) != self.sources or len(target) != self.targets:
            raise InputError(
                f"a pair has {self.sources} and {self.targets} coordinates, not {len(source)}, {len(target)}"
            )
        return [as_expr(x) for x in (*source, *target)]

    def __or__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__or__)

    def __and__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__and__)

    def __sub__(self, other: Relation) -> Relation:
        return self._combined(other, self.pairs.__sub__)

    def _combined(self, other: Relation, operation: Callable[[Region], Region]) -> Relation:
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return Relation(operation(other.pairs), self.sources)

    def _comparable(self, other: Relation) -> None:
        if (other.sources, other.targets) != (self.sources, self.targets):
            raise InputError(f"{shown(self)} and {shown(other)} have pairs of different lengths")

    def __le__(self, other: Relation) -> bool:
        """Whether this relation is a proved subset of `other`."""
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return self.pairs <= other.pairs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation) and self.sources == other.sources and self.pairs == other.pairs

    def __repr__(self) -> str:
        kind = "exact" if self.is_exact else "superset"
        return f"<Relation of {self.sources} to {self.targets} coordinates, {kind} by {self.by}>"


def _extreme_targets(region: Region, sources: int, side: int) -> Region:
    """Pair each source with the lexicographically smallest (`side` -1) or largest (+1) of its targets."""

    def targets(shape: Shape) -> Region:
        names = coordinates(sources, "s")
        fibres = shape.dims_to_params(names)
        with collected() as remarks:
            ends = (fibres.lexmin() if side < 0 else fibres.lexmax()).params_to_dims(names)
        return region_of_shape(ends, True, (*region.notes, *remarks), region.outer_box(), region.by)

    return region.decided(f"the {'smallest' if side < 0 else 'largest'} targets", targets)


def _composed(a: Region, b: Region, shared: int) -> Region:
    """The points `(x, z)` with `(x, y)` in `a` and `(y, z)` in `b`, for some `y` of `shared` coordinates."""
    first, last = a.dims - shared, b.dims - shared
    notes, exact = (*a.notes, *b.notes), a.is_exact and b.is_exact
    left_box, right_box = a.outer_box(), b.outer_box()
    outer = DimensionBounds(first + last, lambda k: left_box[k] if k < first else right_box[k - first + shared])
    kept = [*range(first), *range(first + shared, first + shared + last)]
    try:
        shape = combined(a, b, lambda left, right: left.product_with(right, shared).project(kept))
    except BudgetError as error:
        return product_of(outer.pairs, a.by, (*notes, f"composed as boxes: {error}"))
    return region_of_shape(shape, exact, notes, outer)

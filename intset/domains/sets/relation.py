"""`Relation`: which points belong to which, as a region over two tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from intset.config import Configured, all_as_configured
from intset.domains.sets.bounds import Enclosure, joined
from intset.domains.sets.region import Region, extreme_targets, made, product_of
from intset.errors import BudgetError, InputError
from intset.expr.arguments import listed, of_kind
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, as_int
from intset.expr.text import shown


@all_as_configured
class Relation(Configured):
    """Pairs of a source and a target, each a tuple of integers, possibly depending on parameters.

    Attributes
    ----------
    sources, targets: the number of coordinates of each.
    pairs: the region of the points `(*source, *target)`; what it claims, the relation claims.
    params, is_exact, notes, by, is_empty: those of `pairs`.

    What cannot be answered exactly is answered by more pairs, with a note; an extremum, which more pairs would make
    wrong, is refused.

    Raises
    ------
    InputError: tuples that do not fit.
    UndecidedError: an extremum that does not exist, or is out of the budget.

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

    # -- what it claims -----------------------------------------------------------------------------------------

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
        """The sources that have a target."""
        return self.pairs.project(range(self.sources))

    def range(self) -> Region:
        """The targets that have a source."""
        return self.pairs.project(range(self.sources, self.pairs.dims))

    def inverse(self) -> Relation:
        """Each pair the other way round."""
        order = [*range(self.sources, self.pairs.dims), *range(self.sources)]
        return Relation(self.pairs.project(order), self.targets)

    def then(self, other: Relation) -> Relation:
        """The pairs `(a, c)` with some `b` such that `(a, b)` is in this relation and `(b, c)` in the other."""
        if not isinstance(other, Relation) or other.sources != self.targets:
            raise InputError(f"a relation to {self.targets} coordinates cannot be followed by {shown(other)}")
        return Relation(_composed(self.pairs, other.pairs, self.targets), self.sources)

    def apply(self, region: Region) -> Region:
        """The targets of the points of a region."""
        if of_kind(Region, region, "what a relation is applied to").dims != self.sources:
            raise InputError(f"a region of {region.dims} dimensions is no set of sources of {self.sources}")
        return _composed(region, self.pairs, self.sources)

    # -- extrema ------------------------------------------------------------------------------------------------

    def lexmin(self) -> Relation:
        """Each source with the lexicographically smallest of its targets."""
        return Relation(extreme_targets(self.pairs, self.sources, -1), self.sources)

    def lexmax(self) -> Relation:
        """Each source with the lexicographically largest of its targets."""
        return Relation(extreme_targets(self.pairs, self.sources, 1), self.sources)

    # -- the rest -----------------------------------------------------------------------------------------------

    def at(self, values: Mapping[Var, IntLike]) -> Relation:
        """The relation at values of parameters."""
        return Relation(self.pairs.at(values), self.sources)

    def condition(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> Cond:
        """The condition that a pair belongs to the relation represented."""
        return self.pairs.condition(self._pair(source, target))

    def contains(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> bool:
        """Whether a pair of constants belongs to the relation represented; it must not depend on parameters."""
        return [int(x) for x in self._pair(source, target)] in self.pairs

    def _pair(self, source: Sequence[IntLike], target: Sequence[IntLike]) -> list[Expr]:
        source, target = listed(source, "the source", "a point"), listed(target, "the target", "a point")
        if len(source) != self.sources or len(target) != self.targets:
            raise InputError(
                f"a pair has {self.sources} and {self.targets} coordinates, not {len(source)}, {len(target)}"
            )
        return [as_expr(x) for x in (*source, *target)]

    def __or__(self, other: Relation) -> Relation:
        return self._joined(other, self.pairs.__or__)

    def __and__(self, other: Relation) -> Relation:
        return self._joined(other, self.pairs.__and__)

    def __sub__(self, other: Relation) -> Relation:
        return self._joined(other, self.pairs.__sub__)

    def _joined(self, other: Relation, operation: Callable[[Region], Region]) -> Relation:
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return Relation(operation(other.pairs), self.sources)

    def _comparable(self, other: Relation) -> None:
        if (other.sources, other.targets) != (self.sources, self.targets):
            raise InputError(f"{shown(self)} and {shown(other)} have pairs of different lengths")

    def __le__(self, other: Relation) -> bool:
        """Whether every pair of this relation is known to be one of `other`."""
        if not isinstance(other, Relation):
            return NotImplemented
        self._comparable(other)
        return self.pairs <= other.pairs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Relation) and self.sources == other.sources and self.pairs == other.pairs

    def __repr__(self) -> str:
        kind = "exact" if self.is_exact else "superset"
        return f"<Relation of {self.sources} to {self.targets} coordinates, {kind} by {self.by}>"


def _composed(a: Region, b: Region, shared: int) -> Region:
    """The points `(x, z)` for which some `y` of `shared` coordinates has `(x, y)` in `a` and `(y, z)` in `b`."""
    first, last = a.dims - shared, b.dims - shared
    notes, exact = (*a.notes, *b.notes), a.is_exact and b.is_exact
    enclosure = Enclosure(lambda: [*a.enclosure().sides[:first], *b.enclosure().sides[shared:]])
    kept = [*range(first), *range(first + shared, first + shared + last)]
    try:
        found = joined(a, b, lambda left, right: left.product_with(right, shared).project(kept))
    except BudgetError as error:
        return product_of(enclosure.sides, a.by, (*notes, f"composed as boxes: {error}"))
    return made(found, exact, notes, enclosure)

"""Regions that are products of independent one-dimensional sets: the light domains' answer for several expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from intset.domains.base import Domain, End, IntervalSet, IntSet
from intset.domains.outline import Side
from intset.domains.query import Query
from intset.domains.region import Region
from intset.domains.sides import Sides
from intset.errors import CountError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, IntLike, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars, opaque_terms
from intset.infinity import POS_INF, Infinity


class ProductRegion(Region):
    """The points whose k-th coordinate lies in the k-th of several sets, independently."""

    def __init__(
        self, sets: Sequence[IntSet], by: str, is_exact: bool, notes: Sequence[str] = (), sides: Sides | None = None
    ) -> None:
        self.sets, self.by, self.is_exact, self.notes = tuple(sets), by, is_exact, tuple(notes)
        self.sides = sides
        self.dims = len(self.sets)

    @property
    def params(self) -> tuple[Var, ...]:
        return tuple(dict.fromkeys(v for s in self.sets for v in s.params))

    @property
    def is_empty(self) -> bool:
        return any(s.is_empty for s in self.sets)

    @property
    def is_tight(self) -> bool:
        return all(s.is_tight for s in self.sets)

    @property
    def box(self) -> tuple[Range, ...]:
        from intset.domains.isl.sets import range_between

        return tuple(range_between(*self._side(k, s)) for k, s in enumerate(self.sets))

    def _side(self, k: int, s: IntSet) -> tuple[End, End]:
        return s.ends() if s.is_tight or self.sides is None else self.sides.within(k, s.ends())

    def count(self) -> int | Infinity | Expr:
        counts = [s.count() for s in self.sets]
        if any(c == 0 for c in counts if isinstance(c, int)):
            return 0
        if any(isinstance(c, Infinity) for c in counts):
            return POS_INF
        return prod(counts)  # type: ignore[arg-type]

    def at(self, values: Mapping[Var, IntLike]) -> ProductRegion:
        sides = None if self.sides is None else self.sides.at(values)
        return ProductRegion([s.at(values) for s in self.sets], self.by, self.is_exact, self.notes, sides)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return logical_and(*(s.condition(v) for s, v in zip(self.sets, point, strict=True)))

    def count_max(self) -> int | Infinity:
        number = self.count()
        if isinstance(number, Expr):
            raise CountError("the instances of this region are not known")
        return number

    def count_total(self) -> int | Infinity:
        return self.count_max()


def product_of(sides: Sequence[Side], by: str, notes: Sequence[str]) -> ProductRegion:
    """The box with these ends, as a superset of what was asked for; `notes` say why."""
    return ProductRegion([IntervalSet(low, high, by, notes=notes) for low, high in sides], by, False, notes)


def region_of_sets(query: Query, domain: Domain) -> Region:
    """The product of the images of the single expressions: exact when they share no variable and each is exact."""
    sets = [domain.image(query.of(e)) for e in query.exprs]
    exact = _independent(query) and all(s.is_exact for s in sets)
    notes = tuple(dict.fromkeys(note for s in sets for note in s.notes))
    notes = notes if exact else (*notes, "each coordinate was bounded alone")
    return ProductRegion(sets, domain.name, exact, notes, Sides(query, domain))


def _independent(query: Query) -> bool:
    """Whether what one coordinate takes says nothing of the others: they share no variable that runs, also through
    ranges, and no fact joins them. Loads are joined: those of one symbol are equal where their indices are."""
    if query.facts or query.kept_ties or sum(bool(opaque_terms(*form.terms)) for form in query.forms) > 1:
        return False
    seen: set[Var] = set()
    for form in query.forms:
        mentioned = [v for v in free_vars(*form.terms) if query.is_relaxed(v)]
        own = {v for var in mentioned for v in (var, *query.ties.get(var, ()))}
        if own & seen:
            return False
        seen |= own
    return True

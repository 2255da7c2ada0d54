"""Regions that are products of independent one-dimensional sets: the light domains' answer for several expressions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from intset.domains.base import Domain, IntervalSet, IntSet, Region
from intset.domains.outline import Side
from intset.domains.query import Query
from intset.errors import CountError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, IntLike, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.infinity import POS_INF, Infinity


class ProductRegion(Region):
    """The points whose k-th coordinate lies in the k-th of several sets, independently."""

    def __init__(self, sets: Sequence[IntSet], by: str, is_exact: bool, notes: Sequence[str] = ()) -> None:
        self.sets, self.by, self.is_exact, self.notes = tuple(sets), by, is_exact, tuple(notes)
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

        return tuple(range_between(*s.ends()) for s in self.sets)

    def count(self) -> int | Infinity | Expr:
        counts = [s.count() for s in self.sets]
        if any(c == 0 for c in counts if isinstance(c, int)):
            return 0
        if any(isinstance(c, Infinity) for c in counts):
            return POS_INF
        return prod(counts)  # type: ignore[arg-type]

    def at(self, values: Mapping[Var, IntLike]) -> ProductRegion:
        return ProductRegion([s.at(values) for s in self.sets], self.by, self.is_exact, self.notes)

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
    sets = []
    for e in query.exprs:
        one = Query([e], query.ranges, query.facts, tuple(query.keep), query.base, query.known, query.config)
        one.verdicts = query.verdicts
        sets.append(domain.image(one))
    seen: set[Var] = set()
    independent = not query.facts
    for form in query.forms:
        own = {v for v in free_vars(*form.terms) if query.is_relaxed(v)}
        independent = independent and not own & seen
        seen |= own
    exact = independent and all(s.is_exact for s in sets)
    notes = tuple(dict.fromkeys(note for s in sets for note in s.notes))
    return ProductRegion(sets, domain.name, exact, notes if exact else (*notes, "each coordinate was bounded alone"))

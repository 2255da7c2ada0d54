"""Regions that are empty where a range is that they do not mention.

A domain may forget a variable that nothing mentions, and with it that its range is empty at some values of sizes or of
kept variables. The ends and counts of a region speak of the other values; its algebra speaks of all: what is taken away
from another region, compared with it, or asked about at such a value is empty there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from intset.domains.base import empty_set
from intset.domains.budgeted import own_budget
from intset.domains.outline import Outline
from intset.domains.region import ProductRegion, Region
from intset.expr.build import logical_and
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import substitute
from intset.infinity import Infinity
from intset.linear.canonical import Normalizer
from intset.ranges import is_known, is_occupied
from intset.regions.derived import coordinates
from intset.regions.shape import Shape


class OccupiedRegion(Region):
    """The points of `inner` where conditions on parameters hold, and none elsewhere."""

    def __init__(self, inner: Region, conditions: Sequence[Cond]) -> None:
        self.inner, self.occupied = inner, tuple(conditions)
        self.dims, self.by = inner.dims, inner.by
        self.is_exact, self.notes = inner.is_exact, inner.notes
        self._shape: Shape | None = None

    @property
    def mentioned(self) -> Region:
        return self.inner

    @property
    def is_tight(self) -> bool:
        return self.inner.is_tight

    @property
    def params(self) -> tuple[Var, ...]:
        return tuple(dict.fromkeys((*self.inner.params, *(v for cond in self.occupied for v in cond.free_vars()))))

    @property
    def is_empty(self) -> bool:
        return self.inner.is_empty

    @property
    def box(self) -> tuple[Range, ...]:
        return self.inner.box

    def count(self) -> int | Infinity | Expr:
        return self.inner.count()

    def count_max(self) -> int | Infinity:
        return self.inner.count_max()

    def count_total(self) -> int | Infinity:
        return self.inner.count_total()

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        inner = self.inner.at(values)
        given = {v: as_expr(value) for v, value in values.items()}
        open_still = []
        for cond in (substitute(cond, given) for cond in self.occupied):
            if cond.free_vars():
                open_still.append(cond)
            elif not evaluate(cond, {}):
                return ProductRegion([empty_set(self.by)] * self.dims, self.by, True)
        return OccupiedRegion(inner, open_still) if open_still else inner

    def condition(self, point: Sequence[IntLike]) -> Cond:
        return logical_and(*self.occupied, self.inner.condition(point))

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            shape = self.inner.shape
            with own_budget(shape):
                self._shape = shape.restricted(coordinates(self.dims), logical_and(*self.occupied))
        return self._shape

    def outlined(self) -> Outline:
        return self.inner.outlined()

    def __repr__(self) -> str:
        return f"{self.inner!r} where {' and '.join(map(str, self.occupied))}"


def where_occupied(region: Region, ranges: Mapping[Var, Range], exprs: Sequence[Expr], kept: Sequence[Var]) -> Region:
    """The region of `exprs`, empty where a range over parameters alone is empty that it does not mention."""
    plain = Normalizer({})
    mentioned = {v for e in exprs for term in plain.form(e).terms for v in term.free_vars()}
    waiting = [v for v in mentioned if v in ranges and v not in kept]
    while waiting:
        for v in ranges[waiting.pop()].free_vars():
            if v not in mentioned:
                mentioned.add(v)
                waiting += [v] if v in ranges and v not in kept else []
    conditions: dict[Cond, None] = {}
    for var, limits in ranges.items():
        if var in kept or var in mentioned or limits.ends is not None:
            continue
        if all(v in kept or v not in ranges for v in limits.free_vars()):
            conditions.update((cond, None) for cond in is_occupied(var, limits) if not is_known(plain, cond))
    return OccupiedRegion(region, tuple(conditions)) if conditions else region

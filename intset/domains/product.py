"""Products of domains.

A product of value domains reduces after every operation; `interval*modular` is the reduced product of P. Granger. Other
products intersect the answers of their parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from intset.domains.arithmetic import congruence, strided
from intset.domains.modular import TRANSFER, ModularDomain
from intset.domains.protocols import RankedDomain, Regions
from intset.domains.query import Query
from intset.domains.sets.answers import region_of_points
from intset.domains.sets.base import Bounds, Domain, End, IntSet, as_end, empty_set
from intset.domains.sets.bounds import check_countable, coordinate_bounds
from intset.domains.sets.region import Region
from intset.domains.value import ValueDomain
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.node import Cond, IntLike, as_expr
from intset.expr.text import number_text
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear import bounds as iv
from intset.linear.bounds import ATOM_BOUNDS, Interval

Pair = tuple[Interval | None, congruence.Congruence]


class Reduction(Protocol):
    """Shrink each component of a product by the others.

    Guarantee: the result keeps every integer that all components describe, and no component grows.

    Example: the interval [1, 7] and the congruence 4*Z + 2 become [2, 6] and 4*Z + 2; [3, 5] and 4*Z + 2 become empty.
    """

    def __call__(self, values: Pair) -> Pair: ...


def granger(values: Pair) -> Pair:
    """Interval ends move to the next element of the congruence; a single element makes both constant."""
    interval, residue = values
    if interval is None or residue is None:
        return (None, None)
    reduced = strided.make(*interval, *residue)
    if reduced is None:
        return (None, None)
    return (reduced[:2], reduced[2:])


class StridedSet(IntSet):
    """The integers from `low` to `high` that are congruent to `r` modulo `m`."""

    def __init__(self, value: strided.StridedInterval, by: str, **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.value = value

    def ends(self) -> tuple[End, End]:
        low, high = self.value[:2]
        return (NEG_INF if low is None else as_end(low), POS_INF if high is None else as_end(high))

    def condition(self, e: IntLike) -> Cond:
        low, high, m, r = self.value
        x = as_expr(e)
        parts = [] if low is None else [x >= low]
        parts += [] if high is None else [x <= high]
        parts += [(x % m).eq(r)] if m > 1 else []
        return logical_and(*parts)

    def count(self) -> int | Infinity:
        check_countable(self)
        number = strided.count(self.value)
        return POS_INF if number is None else number

    def describe(self) -> str:
        low, high, m, r = self.value
        first = "NEG_INF" if low is None else number_text(low)
        shown = f"{first}, {'POS_INF' if high is None else number_text(high)}"
        return f"[{shown}] and {number_text(m)}*Z + {number_text(r)}" if m > 1 else f"[{shown}]"


class IntervalTimesModular(ValueDomain[Pair]):
    """`interval*modular`: each operation works on both components, then the reduction makes them agree."""

    name: ClassVar[str] = "interval*modular"
    reduction: Reduction = staticmethod(granger)

    def __init__(self) -> None:
        self._residues = ModularDomain()
        known = (*ATOM_BOUNDS, ops.ADD, ops.MUL)
        self.transfer: Mapping[ops.Op, Callable[..., Pair]] = {op: self._both(op) for op in known}

    def _both(self, op: ops.Op) -> Callable[..., Pair]:
        interval, residue = _INTERVAL[op], TRANSFER.get(op)

        def transfer(*values: Pair) -> Pair:
            intervals = [value[0] for value in values]
            if any(one is None for one in intervals):
                return (None, None)
            left = interval(*intervals)
            right = residue(*(value[1] for value in values)) if residue is not None else congruence.TOP
            return type(self).reduction((left, right))

        return transfer

    def constant(self, x: int) -> Pair:
        return ((x, x), congruence.make(0, x))

    def between(self, low: int | None, high: int | None) -> Pair:
        return granger(((low, high), congruence.TOP))

    def congruent(self, m: int, r: int) -> Pair:
        return granger(((None, None), congruence.make(m, r)))

    def join(self, a: Pair, b: Pair) -> Pair:
        if a[0] is None or b[0] is None:
            return b if a[0] is None else a
        return granger((iv.hull(a[0], b[0]), congruence.join(a[1], b[1])))

    def meet(self, a: Pair, b: Pair) -> Pair:
        if a[0] is None or b[0] is None:
            return (None, None)
        return granger((iv.meet(a[0], b[0]), congruence.meet(a[1], b[1])))

    def represent(self, value: Pair) -> IntSet:
        interval, residue = value
        if interval is None or residue is None:
            return empty_set(self.name)
        reduced = strided.make(*interval, *residue)
        return empty_set(self.name) if reduced is None else StridedSet(reduced, self.name)


_INTERVAL: dict[ops.Op, Callable[..., Interval]] = {**ATOM_BOUNDS, ops.ADD: iv.plus, ops.MUL: iv.times}


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


def product_domain(parts: Sequence[Domain], name: str) -> ProductDomain:
    """Build the product of several domains, with regions if a part has regions."""
    tops = [part.strongest() if isinstance(part, RankedDomain) else part for part in parts]
    engines = [top for top in tops if isinstance(top, Regions)]
    return ProductWithRegions(parts, name, engines) if engines else ProductDomain(parts, name)

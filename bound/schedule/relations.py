"""Relations between the axes of a stage, and messages over them: ranges from roots to leaves, index expressions back.

Example: for `split(i, factor=4)` with `i` in `[0, 10)`, `pass_down_domain` gives `i.outer` in `[0, 3)` and `i.inner` in
`[0, 4)`; `pass_up_index` gives `i = i.outer*4 + i.inner`; `split_guards` gives `i.outer*4 + i.inner < 10`.

Each kind of relation is one class with its rules. The functions are pure, do not know attachments, and decide only
conditions on constants. Names: TVM, *InferBound Pass*.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

from bound.itervar import IterVar
from bound.schedule import simple
from bound.schedule.simple import extent, low
from intset.expr import Cond, Expr, Range, as_expr
from intset.expr.build import maximum

Ranges: TypeAlias = Mapping[IterVar, Range]
Values: TypeAlias = Mapping[IterVar, Expr]


class Tail(StrEnum):
    """Treatment of the last tile if the factor of a split does not divide the extent.

    - `guard`: the last tile has full size; a condition skips iterations beyond the end.
    - `shrink`: the last tile is cut: its extent is `min(factor, extent - outer * factor)`.
    - `round_up`: the last tile has full size and is computed; the extent is rounded up to a multiple.
    - `shift_inwards`: the last tile starts earlier and ends at the end; some elements are computed twice.
    """

    GUARD = "guard"
    SHRINK = "shrink"
    ROUND_UP = "round_up"
    SHIFT_INWARDS = "shift_inwards"


class IterVarRelation:
    """An edge of the IterVar hyper-graph: the axes `parents`, towards the roots, become the axes `children`.

    Guarantee: where the loops of the children stay inside the parents, `parent_values` inverts `child_values`.
    Relations are compared by identity.
    """

    _consumed: ClassVar[tuple[str, ...]]  # the fields of the parents
    _created: ClassVar[tuple[str, ...]]

    @cached_property
    def parents(self) -> tuple[IterVar, ...]:
        """The axes that the relation consumes."""
        return tuple([getattr(self, name) for name in self._consumed])

    @cached_property
    def children(self) -> tuple[IterVar, ...]:
        """The axes that the relation creates."""
        return tuple([getattr(self, name) for name in self._created])

    @abstractmethod
    def child_ranges(self, ranges: Ranges, kept: Collection[IterVar]) -> tuple[Range, ...]:
        """Derive the ranges of the children; axes in `kept` keep the extent given in the schedule."""

    @abstractmethod
    def parent_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        """Express the parents in terms of the values of the children."""

    @abstractmethod
    def child_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        """Express the children in terms of the values of the parents."""

    def renamed(self, axes: Mapping[IterVar, IterVar]) -> Self:
        """Return the same relation over other axes; axes without an entry stay."""
        untyped: Any = self
        own = {field.name: getattr(self, field.name) for field in fields(untyped)}
        new = {name: axes[iv] for name, iv in own.items() if isinstance(iv, IterVar) and iv in axes}
        changed: Self = replace(untyped, **new)
        return changed

    def is_like(self, other: IterVarRelation) -> bool:
        """Return whether both are the same transform, of whatever axes."""
        return type(self) is type(other)


@dataclass(frozen=True, eq=False)
class Split(IterVarRelation):
    """`parent = outer * factor + inner + min(parent)`. Invariant: exactly one of `factor` and `nparts` is `None`."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    tail: Tail = Tail.GUARD

    _consumed, _created = ("parent",), ("outer", "inner")

    def child_ranges(self, ranges: Ranges, kept: Collection[IterVar]) -> tuple[Range, ...]:
        total = extent(ranges[self.parent])
        if self.factor is not None:
            inner = self.factor if self.inner in kept else _capped(self.factor, total)
            return Range(0, simple.ceildiv(total, self.factor)), Range(0, inner)
        assert self.nparts is not None
        outer = self.nparts if self.outer in kept else _capped(self.nparts, total)
        return Range(0, outer), Range(0, simple.ceildiv(total, self.nparts))

    def parent_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        start = self._start(ranges, values[self.outer])
        return (simple.add(simple.add(start, values[self.inner]), low(ranges[self.parent])),)

    def child_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        width = extent(ranges[self.inner])
        value = simple.sub(values[self.parent], low(ranges[self.parent]))
        if simple.number(width) == 0:  # the loop never runs
            return as_expr(0), value
        outer = simple.floordiv(value, width)
        if self.tail is Tail.SHIFT_INWARDS and not self._fills(ranges):
            return outer, simple.sub(value, self._start(ranges, outer))
        return outer, simple.floormod(value, width)

    def _start(self, ranges: Ranges, outer: Expr) -> Expr:
        """Return the distance of a tile's first iteration from that of the parent."""
        width = extent(ranges[self.inner])
        start = simple.mul(outer, width)
        if self.tail is not Tail.SHIFT_INWARDS or self._fills(ranges):
            return start
        last = simple.sub(extent(ranges[self.parent]), width)
        known = simple.number(last)
        return simple.minimum(start, maximum(last, 0) if known is None else max(known, 0))

    def is_like(self, other: IterVarRelation) -> bool:
        if not isinstance(other, Split):
            return False
        return self.factor is other.factor and self.nparts is other.nparts and self.tail is other.tail

    def _fills(self, ranges: Ranges) -> bool:
        """Return whether the tiles provably end where the parent ends."""
        total, inner = extent(ranges[self.parent]), extent(ranges[self.inner])
        covered = self.covered(ranges)
        if covered is not None and covered == simple.number(total):
            return True
        return self.factor is not None and inner is self.factor and simple.divides(self.factor, total)

    def covered(self, ranges: Ranges) -> int | None:
        """Return the number of iterations of both loops together; `None` if it is not constant."""
        outer, inner = extent(ranges[self.outer]), extent(ranges[self.inner])
        tiles, size = simple.number(outer), simple.number(inner)
        return simple.number(simple.mul(outer, inner)) if tiles is None or size is None else tiles * size

    def overruns(self, ranges: Ranges) -> bool:
        """Return whether the loops may run beyond the end of the parent, where nothing is to be computed."""
        if self.tail is Tail.ROUND_UP:
            return False
        if self.tail is Tail.SHIFT_INWARDS:
            known, width = (simple.number(extent(ranges[iv])) for iv in (self.parent, self.inner))
            return known is None or width is None or width > known or self.covered(ranges) is None
        return not self._fills(ranges)

    def __str__(self) -> str:
        size = f"factor={self.factor}" if self.nparts is None else f"nparts={self.nparts}"
        tail = "" if self.tail is Tail.GUARD else f", {self.tail}"
        return f"split({self.parent.name}, {size}{tail})"


def _capped(size: Expr, total: Expr) -> Expr:
    """Return `min(size, total)`, at least 1, if both are constant; otherwise `size`."""
    limit, requested = simple.number(total), simple.number(size)
    return size if limit is None or requested is None or limit >= requested else as_expr(max(limit, 1))


@dataclass(frozen=True, eq=False)
class Fuse(IterVarRelation):
    """`fused = (outer - min(outer)) * extent(inner) + (inner - min(inner))`."""

    outer: IterVar
    inner: IterVar
    fused: IterVar

    _consumed, _created = ("outer", "inner"), ("fused",)

    def child_ranges(self, ranges: Ranges, kept: Collection[IterVar]) -> tuple[Range, ...]:
        return (Range(0, simple.mul(extent(ranges[self.outer]), extent(ranges[self.inner]))),)

    def parent_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        width, fused = extent(ranges[self.inner]), values[self.fused]
        if simple.number(width) == 0:  # the loop never runs
            outer = inner = as_expr(0)
        elif simple.number(extent(ranges[self.outer])) == 1:
            outer, inner = as_expr(0), fused
        else:
            outer, inner = simple.floordiv(fused, width), simple.floormod(fused, width)
        return simple.add(outer, low(ranges[self.outer])), simple.add(inner, low(ranges[self.inner]))

    def child_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        outer, inner = (simple.sub(values[iv], low(ranges[iv])) for iv in self.parents)
        return (simple.add(simple.mul(outer, extent(ranges[self.inner])), inner),)

    def __str__(self) -> str:
        return f"fuse({self.outer.name}, {self.inner.name})"


@dataclass(frozen=True, eq=False)
class Rebase(IterVarRelation):
    """`parent = rebased + min(parent)`: a loop that starts at 0."""

    parent: IterVar
    rebased: IterVar

    _consumed, _created = ("parent",), ("rebased",)

    def child_ranges(self, ranges: Ranges, kept: Collection[IterVar]) -> tuple[Range, ...]:
        return (Range(0, extent(ranges[self.parent])),)

    def parent_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        return (simple.add(values[self.rebased], low(ranges[self.parent])),)

    def child_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        return (simple.sub(values[self.parent], low(ranges[self.parent])),)

    def __str__(self) -> str:
        return f"from 0 {self.parent.name}"


@dataclass(frozen=True, eq=False)
class Singleton(IterVarRelation):
    """An axis of extent 1 without parents, made by fusing no axes."""

    iter: IterVar

    _consumed, _created = (), ("iter",)

    def child_ranges(self, ranges: Ranges, kept: Collection[IterVar]) -> tuple[Range, ...]:
        return (Range(0, 1),)

    def parent_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        return ()

    def child_values(self, ranges: Ranges, values: Values) -> tuple[Expr, ...]:
        return (as_expr(0),)

    def __str__(self) -> str:
        return "fuse()"


def pass_down_domain(
    relations: Sequence[IterVarRelation], roots: Ranges, fixed: Iterable[IterVar] = ()
) -> dict[IterVar, Range]:
    """PassDownDomain: derive ranges of axes from ranges of the roots.

    Axes whose parents have no range get none.

    Parameters
    ----------
    relations: oldest first.
    roots: the ranges to start from.
    fixed: axes that count threads; they keep the schedule's extent even if the parent is shorter. Other
        inner loops of a split are capped by the parent.
    """
    ranges = dict(roots)
    kept = with_ancestors(relations, fixed)
    for relation in relations:
        if ranges.keys() >= set(relation.parents):
            ranges.update(zip(relation.children, relation.child_ranges(ranges, kept), strict=True))
    return ranges


def pass_up_index(relations: Sequence[IterVarRelation], ranges: Ranges, leaves: Values) -> dict[IterVar, Expr]:
    """PassUpIndex: express axes in terms of leaves.

    Parameters
    ----------
    relations: oldest first.
    ranges: of every axis, from `pass_down_domain`.
    leaves: the values to start from. Axes derived into other leaves get no value.
    """
    values = dict(leaves)
    for relation in reversed(relations):
        if relation.parents and values.keys() >= set(relation.children):
            values.update(zip(relation.parents, relation.parent_values(ranges, values), strict=True))
    return values


def pass_down_index(relations: Sequence[IterVarRelation], ranges: Ranges, roots: Values) -> dict[IterVar, Expr]:
    """PassDownIndex: express axes in terms of roots, where roots determine them."""
    values = dict(roots)
    for relation in relations:
        if all(iv in values for iv in relation.parents):
            values.update(zip(relation.children, relation.child_values(ranges, values), strict=True))
    return values


def with_ancestors(relations: Sequence[IterVarRelation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes and all axes from which they derive."""
    kept = set(axes)
    for relation in reversed(relations):
        if not kept.isdisjoint(relation.children):
            kept.update(relation.parents)
    return kept


def with_descendants(relations: Sequence[IterVarRelation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes and every axis derived from them."""
    kept = set(axes)
    for relation in relations:
        if not kept.isdisjoint(relation.parents):
            kept.update(relation.children)
    return kept


def split_guards(relations: Sequence[IterVarRelation], ranges: Ranges, values: Values) -> list[Cond]:
    """Return the conditions that exclude iterations of the leaves beyond the end of a split axis.

    One per split whose loops overrun the parent, oldest first; none for `round_up`, which computes the overrun as well.
    """
    guards: dict[Cond, None] = {}
    for relation in relations:
        if isinstance(relation, Split) and relation.parent in values and relation.overruns(ranges):
            parent = ranges[relation.parent]
            guards[values[relation.parent] < simple.add(low(parent), extent(parent))] = None
    return list(guards)

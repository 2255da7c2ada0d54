"""`Storage`: an affine map from tensor elements to places of an array.

With `t_j` the coordinate of an element along axis `j` of the storage,

    x_k = offset_k + sum(steps[k][j] * t_j).

Guarantee: injective on the kept elements. Plain storage, the bounding box of the computed elements, has unit steps;
compact storage (`compact.py`) omits what strides and equations exclude; circular storage (`circular.py`) counts `t`
modulo a number of places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Final

from bound.schedule.simple import low
from intset.errors import InputError
from intset.expr.arguments import listed
from intset.expr.node import Expr, IntLike, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import substitute
from intset.linear.canonical import Normalizer
from intset.linear.form import constant
from intset.linear.lattice import inverse, unit


@dataclass(frozen=True)
class StorageAxis:
    """An axis of a storage.

    Attributes
    ----------
    base: the tensor coordinate at place 0 of every axis; an expression over loops around the storage.
    stride: the distance, in tensor elements, of neighbours along this axis; 0 for a coordinate determined by others.
    extent: the number of places, equal in all instances.
    """

    base: Expr
    stride: int
    extent: Expr


@dataclass(frozen=True, repr=False)
class Storage:
    """The map of one tensor's storage in one instance of its stage.

    Attributes
    ----------
    offset: the tensor coordinates at `t = 0`.
    steps: coordinate `k` is `offset[k] + sum(steps[k][j] * t[j])`; columns are independent, or 0 for an unused axis.
    ranges: the ranges of `t`: mins over loop variables, extents equal in all instances.
    folds: the modulus of each circular axis (`circular.py`), `None` for other axes; empty without circular axes.
    """

    offset: tuple[Expr, ...]
    steps: tuple[tuple[int, ...], ...]
    ranges: tuple[Range, ...]
    folds: tuple[Expr | None, ...] = ()

    def at(self, values: Mapping[Var, Expr]) -> Storage:
        """The storage after a substitution of loop variables."""
        if not values:
            return self
        changed = dict(values)
        ranges = tuple(Range(substitute(low(r), changed), r.extent) for r in self.ranges)
        return Storage(tuple(substitute(e, changed) for e in self.offset), self.steps, ranges, self.folds)

    @property
    def axes(self) -> tuple[StorageAxis, ...]:
        origin = self.coordinates([0] * len(self.offset))
        extents = [as_expr(r.extent) for r in self.ranges]
        return tuple(StorageAxis(origin[k], self.steps[k][k], extent) for k, extent in enumerate(extents))

    @property
    def is_compact(self) -> bool:
        """Whether the map differs from that of the bounding box."""
        return any(row[j] != int(j == k) for k, row in enumerate(self.steps) for j in range(len(row)))

    @property
    def is_circular(self) -> bool:
        """Whether elements with disjoint lifetimes share places."""
        return any(fold is not None for fold in self.folds)

    @property
    def is_identity(self) -> bool:
        """Whether lattice coordinates equal tensor coordinates."""
        return not self.is_compact and all(constant_value(e) == 0 for e in self.offset)

    @property
    def is_separable(self) -> bool:
        """Whether each tensor coordinate depends on at most one storage axis."""
        return all(sum(1 for step in row if step) <= 1 for row in self.steps)

    @property
    def allocated(self) -> tuple[Range, ...]:
        """For each axis, the tensor coordinate at place 0 and the number of places."""
        if not self.is_compact:
            return self.ranges
        return tuple(Range(axis.base, axis.extent) for axis in self.axes)

    def numbers(self, point: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The lattice coordinates `t` of an element, reduced into the range along circular axes.

        Meaningless for a point outside the region.
        """
        element = given_point(point, len(self.offset))
        rest = [FORMS.form(x).minus(FORMS.form(e)) for x, e in zip(element, self.offset, strict=True)]
        coordinates = []
        for row in inverse(self.steps):
            divisor = lcm(*(f.denominator for f in row))
            form = constant(0)
            for f, x in zip(row, rest, strict=True):
                form = form.plus(x, int(f * divisor)) if f else form
            coordinates.append(FORMS.form(form.expr() // divisor).expr())
        for k, fold in enumerate(self.folds):
            if fold is not None:
                start = FORMS.form(low(self.ranges[k]))
                coordinates[k] = start.plus(FORMS.form(FORMS.form(coordinates[k]).minus(start).expr() % fold)).expr()
        return tuple(coordinates)

    def index(self, point: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The place of an element: nonnegative coordinates below the extents of the axes."""
        numbers = self.numbers(point)
        return tuple(FORMS.form(t - low(r)).expr() for t, r in zip(numbers, self.ranges, strict=True))

    def coordinates(self, place: Sequence[IntLike]) -> tuple[Expr, ...]:
        """The element at a place: the affine inverse of `index` on the region.

        Along a circular axis, the element within the range.
        """
        places = given_point(place, len(self.ranges))
        return self.at_numbers([y + low(r) for y, r in zip(places, self.ranges, strict=True)])

    def at_numbers(self, numbers: Sequence[Expr]) -> tuple[Expr, ...]:
        """The element with the lattice coordinates `numbers`."""
        forms = [FORMS.form(t) for t in numbers]
        coordinates = []
        for start, row in zip(self.offset, self.steps, strict=True):
            form = FORMS.form(start)
            for step, t in zip(row, forms, strict=True):
                form = form.plus(t, step) if step else form
            coordinates.append(form.expr())
        return tuple(coordinates)

    def __repr__(self) -> str:
        place = [Var(f"y{k}") for k in range(len(self.offset))]
        element = ", ".join(map(str, self.coordinates(place)))
        extents = " x ".join(str(r.extent) for r in self.ranges)
        turns = ", ".join(f"axis {k} modulo {fold}" for k, fold in enumerate(self.folds) if fold is not None)
        around = f", {turns}" if turns else ""
        return f"<Storage {extents}: place [{', '.join(y.name for y in place)}] holds element [{element}]{around}>"


FORMS: Final = Normalizer({})


def given_point(point: Sequence[IntLike], dims: int) -> list[Expr]:
    """Validated indices of a user.

    Raises
    ------
    InputError: `point` does not have `dims` integer expressions.
    """
    place = listed(point, "a point", f"a tuple of {dims} indices")
    if len(place) != dims:
        raise InputError(f"a point has {dims} indices here, not {len(place)}")
    return [as_expr(x, "an index") for x in place]


def plain(ranges: Sequence[Range]) -> Storage:
    """The storage of a box: unit steps."""
    dims = len(ranges)
    return Storage((as_expr(0),) * dims, tuple(unit(dims, k) for k in range(dims)), tuple(ranges))

"""`Footprint`: the elements that an access reaches in one instance of the producer, as a set over fixed variables.

Two representations, the cheaper where it is exact: a `Box` with symbolic ends, or a `Shape` of the domain's regions
under a guard (a box without sides). Both provide membership conditions, a hull and their variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import Any, Final, cast

from bound.infer.footprints.box import (
    Box,
    SymbolicInterval,
    empty_box,
    guarded,
    interval,
    interval_of_ends,
    with_conditions,
    with_where,
)
from bound.infer.footprints.environment import LoopEnvironment, instances, size_bounds
from intset import config
from intset.context import Context
from intset.domains.sets.answers import image_in_instances
from intset.domains.sets.base import IntervalSet, IntSet
from intset.domains.sets.bounds import own_budget
from intset.domains.sets.region import ProductRegion, Region, ShapeRegion
from intset.errors import BudgetError, CountError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag
from intset.infinity import Infinity
from intset.linear.form import constant
from intset.regions.shape import Shape

FOOTPRINT: Final = 1_000_000  # operations of the domain, for one question
FOOTPRINT_ENDS: Final = 2_000_000  # operations of the domain for the ends of one region
FOOTPRINT_SHAPE: Final = 300_000  # operations of the domain for a box whose ends are not affine
CONDITION_SHARE: Final = 16  # share of a query's operations, for one membership condition

NO_GUARD = Box(())


class Outline:
    """A box around a footprint in every instance, computed on first use.

    The exact set and its outline are propagated side by side: where the set's own ends cannot be written, or its
    largest extent is not found, the outline bounds it. No answer is then larger than with `compute="box"`.

    Parameters
    ----------
    find: the function that computes the box, of a module: a footprint pickles.
    given: its arguments.
    """

    def __init__(self, find: Callable[..., Box], *given: Any) -> None:
        self._find, self._given = find, given

    @cached_property
    def box(self) -> Box:
        return self._find(*self._given)


class Footprint:
    """A set of elements over fixed variables: loops of the attach path, and sizes.

    Guarantee: contains every element reached; equal to that set if `exact`. Invariant: a box or a shape is
    present; if both, they denote one set.

    Attributes
    ----------
    dims: the number of dimensions.
    box: the footprint as a box, if its shape is proved.
    exact: whether it is proved to contain nothing else.
    notes: where precision was given up.
    guard: of a footprint without a box: a box without sides. Where its conditions fail the footprint is empty.
    has_ends: whether the hull is tight in each instance; else it is a superset over all instances.
    outline: a box around it from arithmetic on boxes, if known; the fallback for the hull.
    """

    def __init__(
        self,
        dims: int,
        box: Box | None,
        shape: Shape | None = None,
        exact: bool = True,
        notes: Iterable[str] = (),
        guard: Box = NO_GUARD,
    ) -> None:
        assert box is not None or shape is not None
        self.dims, self.box, self.exact, self.notes = dims, box, exact, tuple(dict.fromkeys(notes))
        self.guard = guard if box is None else NO_GUARD
        self._unguarded = shape
        self._shape = None if self.guard.is_conditional() else shape
        self._hull: Box | None = box
        self.has_ends = True
        self.outline: Outline | None = None

    def shape(self, env: LoopEnvironment) -> Shape:
        """The footprint as a shape, guard included."""
        if self._shape is None:
            if self.box is not None:
                self._shape = shape_of(env, self.box)
            else:
                self._shape = self.unguarded.intersect_params(shape_of(env, self.guard)).coalesced()
        return self._shape

    @property
    def unguarded(self) -> Shape:
        """The shape of a footprint without a box, guard excluded."""
        assert self._unguarded is not None
        return self._unguarded

    def hull(self, env: LoopEnvironment) -> Box:
        """The bounding box of each nonempty instance.

        Raises
        ------
        BudgetError: neither ends nor numbers nor an outline are known.
        """
        if self._hull is None:
            try:
                hull = _hull_of(env, self.unguarded)
            except BudgetError:
                hull, self.has_ends = _loose_hull(env, self.unguarded, self.outline), False
                self.notes = (*self.notes, "the ends in each instance could not be written: those around were used")
            self._hull = guarded(env, hull, self.guard)
        return self._hull

    def set_hull(self, box: Box, is_tight: bool) -> None:
        """Use `box` as the hull of an unguarded footprint, if tight."""
        if self.box is None and is_tight and not self.guard.is_conditional():
            self._hull = box

    def write_hull_within(self, env: LoopEnvironment, operations: int, most: int, outline: Box) -> None:
        """Compute the hull within `operations` and `most` nodes; beyond either, use `outline`, a superset."""
        if self._hull is not None:
            return
        with suppress(BudgetError), env.budget(operations):
            hull = _hull_of(env, self.unguarded)
            ends = [form.expr() for side in hull.sides for form in side.ends]
            if dag.is_small(most, ends):
                self._hull = guarded(env, hull, self.guard)
                return
        self._hull, self.has_ends = outline, False

    def conditions(self, point: Sequence[Expr]) -> list[Cond]:
        """The membership conditions of `point`.

        Raises
        ------
        BudgetError: the domain cannot write them within its budget.
        """
        if self.box is not None:
            return self.box.conditions(point)
        with own_budget(self.unguarded, CONDITION_SHARE):
            inside = self.unguarded.condition(point)
        return [*self.guard.conditions(()), *dag.conjuncts(inside)]

    def variables(self) -> tuple[Var, ...]:
        """The variables that the footprint depends on."""
        if self.box is not None:
            return self.box.variables()
        return tuple(dict.fromkeys((*self.unguarded.variables(), *self.guard.variables())))

    def with_box(self, box: Box, *notes: str) -> Footprint:
        """A superset given by a box. Exact if this footprint is exact and `notes` is empty."""
        return Footprint(self.dims, box, None, self.exact and not notes, (*self.notes, *notes))

    def with_notes(self, *notes: str) -> Footprint:
        """The same elements with further notes, no longer claimed to be exact."""
        return self.with_shape(self._unguarded, False, (*self.notes, *notes))

    def with_shape(self, unguarded: Shape | None, exact: bool, notes: Iterable[str]) -> Footprint:
        """The footprint with another shape and an unchanged guard."""
        footprint = Footprint(self.dims, self.box, unguarded, exact, notes, self.guard)
        footprint.outline = self.outline
        return footprint


def shape_of(env: LoopEnvironment, box: Box) -> Shape:
    """A box as a shape."""
    if box.is_affine():
        return env.shapes.box([(side.lows, side.highs) for side in box.sides], box.where)
    point = [Var(f"x{k}") for k in range(len(box.sides))]
    context = Context().extended(dict.fromkeys(point), box.conditions(point))
    with config.using(isl_operations=FOOTPRINT_SHAPE):
        return image_in_instances(context, point, box.variables(), env.regions).shape


def box_around(env: LoopEnvironment, footprint: Footprint) -> Footprint:
    """The bounding box of each instance, as a footprint."""
    if footprint.box is not None:
        return footprint
    try:
        with env.budget(FOOTPRINT):
            shape: Shape | None = footprint.shape(env).hull()
    except BudgetError:
        shape = None
    return Footprint(footprint.dims, footprint.hull(env), shape, footprint.exact, footprint.notes)


def footprint_of_shape(
    env: LoopEnvironment, dims: int, shape: Shape, exact: bool, notes: Iterable[str] = (), may_be_box: bool = True
) -> Footprint:
    """A shape as a footprint; a product of intervals becomes a box, unless a gap is known."""
    try:
        with env.budget(FOOTPRINT):
            inside = _within_loop_ranges(env, shape)
        shape = inside
    except BudgetError:
        pass
    if shape.is_empty():
        return Footprint(dims, empty_box(dims), None, exact, notes)
    box = None
    try:
        with env.budget(FOOTPRINT):
            product = shape.product() if may_be_box else None
        if product is not None:
            sides = [interval(env, lows, highs) for lows, highs in product.sides]
            if all(side is not None for side in sides):
                kept = tuple(side for side in sides if side is not None)
                box = with_conditions(env, with_where(env, Box(kept), product.where), product.also)
    except BudgetError:
        pass
    return Footprint(dims, box, shape, exact, notes)


def _within_loop_ranges(env: LoopEnvironment, shape: Shape) -> Shape:
    """The shape restricted to the ranges of its loops and, where it has nonlinear terms, to the ends of all terms."""
    loops = [v for v in shape.variables() if v in env.ranges]
    if any(not isinstance(e, Var) for e in shape.atoms()):
        shape = shape.intersect_params(size_bounds(env, shape.atoms()))
    return shape.intersect_params(instances(env, loops)).coalesced() if loops else shape


def footprint_of_region(env: LoopEnvironment, region: Region, shape: Sequence[Expr]) -> Footprint:
    """The answer of a domain as a footprint; infinite ends become those of the tensor.

    Parameters
    ----------
    shape: the extents of the tensor.
    """
    region = cast(Region, region.mentioned)  # an instance without iterations reads nothing
    if isinstance(region, ShapeRegion):
        return footprint_of_shape(env, region.dims, region.shape, region.is_exact, region.notes)
    box = region.box
    sides = [_within(r, extent) for r, extent in zip(box, shape, strict=True)]
    is_box = all(a is b for a, b in zip(sides, box, strict=True)) and _equals_its_box(env, region)
    exact = region.is_exact and is_box
    notes = region.notes if exact or not region.is_exact else (*region.notes, "the box around a region that is none")
    return Footprint(region.dims, box_of_ranges(env, sides), None, exact, notes)


def _equals_its_box(env: LoopEnvironment, region: Region) -> bool:
    """Whether a region is proved to equal its bounding box: both have the same number of points."""
    if isinstance(region, ProductRegion):
        pairs = zip(region.sets, region.box, strict=True)
        return all(isinstance(s, IntervalSet) or _same_number(env, s, [r]) for s, r in pairs)
    return _same_number(env, region, region.box)


def _same_number(env: LoopEnvironment, elements: IntSet | Region, box: Sequence[Range]) -> bool:
    try:
        count = elements.count()
    except CountError:
        return False
    extents = [r.extent for r in box if isinstance(r.extent, Expr)]
    if isinstance(count, Infinity) or len(extents) < len(box):
        return False
    return env.form(count).same(env.form(prod(extents, start=as_expr(1))))


def _within(r: Range, extent: Expr) -> Range:
    if isinstance(r.min, Expr) and isinstance(r.extent, Expr):
        return r
    return Range(r.min, extent - r.min) if isinstance(r.min, Expr) else Range(0, extent)


def box_of_ranges(env: LoopEnvironment, ranges: Iterable[Range]) -> Box:
    """The box with these ranges as sides; minima and maxima become several forms.

    Raises
    ------
    BudgetError: an end is infinite.
    """
    sides = []
    for r in ranges:
        if not isinstance(r.min, Expr) or not isinstance(r.extent, Expr):
            raise BudgetError("a region without end")
        sides.append(interval_of_ends(env, r.min, as_expr(r.max)))
    return Box(tuple(sides))


def _loose_hull(env: LoopEnvironment, shape: Shape, outline: Outline | None) -> Box:
    """The box around all instances of a shape, intersected with its outline."""
    try:
        ends = shape.without(shape.atoms()).dim_bounds()
    except BudgetError:
        if outline is None:
            raise
        return outline.box
    sides = []
    for k, (low, high) in enumerate(ends):
        side = None if outline is None else outline.box.sides[k]
        lows = () if isinstance(low, Infinity) else (constant(int(low)),)
        highs = () if isinstance(high, Infinity) else (constant(int(high)),)
        if side is not None:
            side = interval(env, (*side.lows, *lows), (*side.highs, *highs)) or side
        elif lows and highs:
            side = SymbolicInterval(lows, highs)
        else:
            raise BudgetError("a region whose ends cannot be written")
        sides.append(side)
    return Box(tuple(sides)) if outline is None else Box(tuple(sides), outline.box.where, outline.box.also)


def _hull_of(env: LoopEnvironment, shape: Shape) -> Box:
    """The bounding box of each nonempty instance, guarded by the condition that it is nonempty."""
    where: Cond | None = None
    with env.budget(FOOTPRINT_ENDS):
        ends = shape.dim_bounds()
        with suppress(BudgetError):
            where = shape.project(()).condition(())
    sides = []
    for low, high in ends:
        if isinstance(low, Infinity) or isinstance(high, Infinity):
            raise BudgetError("a region without end")
        sides.append(interval_of_ends(env, low, high))
    box = Box(tuple(sides))
    return box if where is None else with_conditions(env, box, dag.conjuncts(where))

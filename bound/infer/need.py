"""`Need`: a region while the pass works on it, as a `Box` where it is one, else as a Presburger set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING

from bound.infer.box import Box, Interval, gaps_unknown, hull, interval, narrowed, nothing, union, with_where
from bound.infer.instances import instances
from bound.infer.known import Known
from intset import config
from intset.context import Context
from intset.domains.base import IntervalSet, IntSet
from intset.domains.box import ProductRegion
from intset.domains.region import Region
from intset.errors import BudgetError, CountError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from intset.infinity import Infinity
from intset.linear.form import Linear, constant

if TYPE_CHECKING:
    from intset.domains.isl.sets import IslRegion, Presburger

_OPERATIONS = 1_000_000  # isl's, for one union or one test
_END_OPERATIONS = 2_000_000  # for the ends of one region
_SHAPE_OPERATIONS = 300_000  # for a box whose ends are not affine
_CONDITION_SHARE = 16  # of the operations of a query, for the condition of one region
NO_GUARD = Box(())
MAX_PARTS = 160  # a region in more pieces is replaced by its box


class Need:
    """A set of elements, over what is fixed.

    Attributes
    ----------
    dims: the number of dimensions.
    box: the box that the region is; `None` where it is none.
    exact: whether it is known to be what was asked for, not more.
    notes: where precision was given up.
    guard: for what is no box: a box without sides; the region is the set where its conditions hold, else empty.
    has_ends: whether the ends of the bounding box could be written, so that it is tight in each instance.
    """

    def __init__(
        self,
        dims: int,
        box: Box | None,
        shape: Presburger | None = None,
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
        self.limits: Box | None = None  # the whole tensor, where that is known

    @property
    def shape(self) -> Presburger:
        """The region as a Presburger set."""
        if self._shape is None:
            if self.box is not None:
                self._shape = shape_of(self.box)
            else:
                self._shape = _guarded(self.unguarded, self.guard)
        return self._shape

    @property
    def unguarded(self) -> Presburger:
        """The set that the region is where the conditions of `guard` hold."""
        if self._unguarded is None:
            self._unguarded = self.shape
        return self._unguarded

    @property
    def region(self) -> IslRegion:
        """The region as one of the `isl` domain."""
        from intset.domains.isl.sets import IslRegion

        return IslRegion(self.shape, "isl", self.exact, self.notes, dims=self.dims)

    def hull(self, known: Known) -> Box:
        """The bounding box in each instance that is not empty."""
        if self._hull is None:
            try:
                hull = _hull_of(known, self.unguarded)
            except BudgetError:
                hull, self.has_ends = _numeric_hull(self.unguarded, self.limits), False
                self.notes = (*self.notes, "the ends in each instance could not be written: those of all were used")
            self._hull = narrowed(known, with_where(known, hull, self.guard.where), self.guard.also)
        return self._hull

    def set_hull(self, box: Box, is_tight: bool) -> None:
        """Write the bounding box in this way, if it is the bounding box."""
        if self.box is None and is_tight and not self.guard.is_conditional():
            self._hull = box

    def conditions(self, point: Sequence[Expr]) -> list[Cond]:
        """The conditions that `point` lies in the region.

        Raises
        ------
        BudgetError: they cannot be written.
        """
        if self.box is not None:
            return self.box.conditions(point)
        from intset.domains.isl.sets import condition_of

        inside = condition_of(self.unguarded, point, _CONDITION_SHARE)
        return [*self.guard.conditions(()), *conjuncts(inside)]

    def variables(self) -> tuple[Var, ...]:
        """The variables that the region depends on."""
        if self.box is not None:
            return self.box.variables()
        return tuple(dict.fromkeys((*self.unguarded.free_params(), *self.guard.variables())))

    def noted(self, *notes: str) -> Need:
        """The same elements, as a superset of what was asked for."""
        return self.replaced(self._unguarded, False, (*self.notes, *notes))

    def replaced(self, unguarded: Presburger | None, exact: bool, notes: Iterable[str]) -> Need:
        """The region with another set of elements under the same conditions."""
        need = Need(self.dims, self.box, unguarded, exact, notes, self.guard)
        need.limits = self.limits
        return need


def _guarded(shape: Presburger, guard: Box) -> Presburger:
    from intset.domains.isl.coalesced import coalesced
    from intset.domains.isl.sets import Presburger

    where = shape_of(guard)
    params = tuple(dict.fromkeys((*shape.params, *where.params)))
    return Presburger(coalesced(shape.get().intersect_params(where.get().params())), params)


def shape_of(box: Box) -> Presburger:
    """A box as a Presburger set."""
    from intset.domains.isl.boxes import box_shape

    if box.is_affine():
        return box_shape([(side.lows, side.highs) for side in box.sides], box.where)
    point = [Var(f"x{k}") for k in range(len(box.sides))]
    from intset.domains.isl.instanced import image_in_instances

    context = Context().extended(dict.fromkeys(point), box.conditions(point))
    with config.using(isl_operations=_SHAPE_OPERATIONS):
        return image_in_instances(context, point, box.variables()).shape


def boxed(known: Known, need: Need) -> Need:
    """The box around a region in each instance, as a region."""
    from intset.domains.isl.boxes import hull_shape

    if need.box is not None:
        return need
    try:
        with known.account.budget(_OPERATIONS):
            shape = hull_shape(need.shape)
    except BudgetError:
        shape = None
    return Need(need.dims, need.hull(known), shape, need.exact, need.notes)


def from_shape(known: Known, dims: int, shape: Presburger, exact: bool, notes: Iterable[str] = ()) -> Need:
    """A region of the `isl` domain, as a box where it is one."""
    from intset.domains.isl.boxes import as_product

    try:
        with known.account.budget(_OPERATIONS):
            inside = _in_instances(known, shape)
        shape = inside
    except BudgetError:
        pass
    if shape.get().is_empty():
        return Need(dims, nothing(dims), None, exact, notes)
    box = None
    try:
        with known.account.budget(_OPERATIONS):
            product = as_product(shape)
        if product is not None:
            sides = [interval(known, lows, highs) for lows, highs in product.sides]
            if all(side is not None for side in sides):
                kept = tuple(side for side in sides if side is not None)
                box = narrowed(known, with_where(known, Box(kept), product.where), product.also)
    except BudgetError:
        pass
    return Need(dims, box, shape, exact, notes)


def _in_instances(known: Known, shape: Presburger) -> Presburger:
    """The set without what lies outside of the ranges of the loops."""
    from intset.domains.isl.coalesced import coalesced
    from intset.domains.isl.sets import Presburger

    loops = [v for v in shape.free_params() if v in known.ranges]
    if not loops:
        return shape
    around = instances(known, loops)
    return Presburger(
        coalesced(shape.get().intersect_params(around.get())), tuple(dict.fromkeys((*shape.params, *around.params)))
    )


def from_region(known: Known, region: Region, shape: Sequence[Expr]) -> Need:
    """What a domain answered about a tensor of this shape; an infinite end is that of the tensor."""
    from intset.domains.isl.sets import IslRegion

    if isinstance(region, IslRegion):
        return from_shape(known, region.dims, region.shape, region.is_exact, region.notes)
    sides = [_within(r, extent) for r, extent in zip(region.box, shape, strict=True)]
    is_box = all(a is b for a, b in zip(sides, region.box, strict=True)) and _is_its_box(known, region)
    exact = region.is_exact and is_box
    notes = region.notes if exact or not region.is_exact else (*region.notes, "the box around a region that is none")
    return Need(region.dims, box_of_ranges(known, sides), None, exact, notes)


def _is_its_box(known: Known, region: Region) -> bool:
    """Whether a region is known to be its bounding box: it has as many points, and none outside."""
    if isinstance(region, ProductRegion):
        pairs = zip(region.sets, region.box, strict=True)
        return all(isinstance(s, IntervalSet) or _same_number(known, s, [r]) for s, r in pairs)
    return _same_number(known, region, region.box)


def _same_number(known: Known, elements: IntSet | Region, box: Sequence[Range]) -> bool:
    try:
        count = elements.count()
    except CountError:
        return False
    extents = [r.extent for r in box if isinstance(r.extent, Expr)]
    if isinstance(count, Infinity) or len(extents) < len(box):
        return False
    return known.form(count).same(known.form(prod(extents, start=as_expr(1))))


def _within(r: Range, extent: Expr) -> Range:
    if isinstance(r.min, Expr) and isinstance(r.extent, Expr):
        return r
    return Range(r.min, extent - r.min) if isinstance(r.min, Expr) else Range(0, extent)


def box_of_ranges(known: Known, ranges: Iterable[Range]) -> Box:
    """The box with these sides; ends that are minima or maxima are taken apart."""
    sides = []
    for r in ranges:
        if not isinstance(r.min, Expr) or not isinstance(r.extent, Expr):
            raise BudgetError("a region without end")
        lows, highs = end_forms(known, r.min, ops.MAX), end_forms(known, r.max, ops.MIN)
        last = r.min + r.extent - 1
        sides.append(interval(known, lows, highs) or Interval((known.form(r.min),), (known.form(last),)))
    return Box(tuple(sides))


def end_forms(known: Known, end: object, op: ops.Op) -> list[Linear]:
    """The forms whose maximum (minimum) an end is."""
    assert isinstance(end, Expr)
    found, stack = [], [end]
    while stack:
        top = stack.pop()
        if top.op is op:
            stack.extend(reversed(top.args))
        else:
            found.append(known.form(top))
    return found


def joined(known: Known, dims: int, needs: Sequence[Need], with_unions: bool = True) -> Need:
    """The union of what several consumers need; the box around them for a domain without unions."""
    if len(needs) == 1 and needs[0].box is None:
        return needs[0]
    need = _joined(known, dims, needs, with_unions)
    need.limits = next((other.limits for other in needs if other.limits is not None), None)
    return need


def _joined(known: Known, dims: int, needs: Sequence[Need], with_unions: bool) -> Need:
    notes = [note for need in needs for note in need.notes]
    exact = all(need.exact for need in needs)
    alone = union(known, [need.box for need in needs if need.box is not None])
    others = [need for need in needs if need.box is None]
    if not others and len(alone) < 2:
        return Need(dims, alone[0] if alone else nothing(dims), None, exact, notes)
    if not with_unions:
        boxes = [*alone, *(need.hull(known) for need in others)]
        return Need(dims, hull(known, boxes)[0], None, False, (*notes, "the box around several needs"))
    return _united(known, dims, alone, others, exact, notes)


def _united(
    known: Known, dims: int, alone: Sequence[Box], others: Sequence[Need], exact: bool, notes: Sequence[str]
) -> Need:
    from intset.domains.isl.coalesced import coalesced
    from intset.domains.isl.sets import Presburger

    guard = _common_guard(alone) if not others else NO_GUARD
    if guard.is_conditional():
        return _united_below(known, dims, [Box(box.sides) for box in alone], guard, exact, notes)
    try:
        with known.account.budget(_OPERATIONS):
            shapes = [*(shape_of(box) for box in alone), *(need.shape for need in others)]
            total = shapes[0].get()
            for shape in shapes[1:]:
                total = total.union(shape.get())
            total = coalesced(total)
            if total.n_basic_set() > MAX_PARTS:
                total = coalesced(total.make_disjoint()) if total.n_basic_set() <= 2 * MAX_PARTS else total
            params = tuple(dict.fromkeys(p for shape in shapes for p in shape.params))
        if total.n_basic_set() <= MAX_PARTS:
            need = from_shape(known, dims, Presburger(total, params), exact, notes)
            if not others and all(_is_alive(known, box) for box in alone):
                need.set_hull(*hull(known, alone))
            return need
        note = f"the region has {total.n_basic_set()} parts: its box was used"
    except BudgetError as error:
        counted = _listed(known, dims, [*(Need(dims, box) for box in alone), *others], exact, notes)
        if counted is not None:
            return counted
        note = f"{error}: the box around several needs was used"
    boxes = [*alone, *(need.hull(known) for need in others)]
    return Need(dims, hull(known, boxes)[0], None, False, (*notes, note))


def _listed(known: Known, dims: int, needs: Sequence[Need], exact: bool, notes: Sequence[str]) -> Need | None:
    """A union that isl cannot form, element by element; `None` where they are too many."""
    from bound.infer.visited import listed
    from intset.domains.isl.listed import listed_shape

    try:
        found = listed(known, needs)
        return None if found is None else from_shape(known, dims, listed_shape(found[1], found[0]), exact, notes)
    except BudgetError:
        return None


def _common_guard(boxes: Sequence[Box]) -> Box:
    """The conditions that all boxes share, when they have no others."""
    first = boxes[0]
    keys = {(frozenset(form.key() for form in box.where), box.also) for box in boxes}
    return Box((), first.where, first.also) if len(keys) == 1 else NO_GUARD


def _united_below(known: Known, dims: int, bare: Sequence[Box], guard: Box, exact: bool, notes: Sequence[str]) -> Need:
    """The union of boxes under one guard: the guard is kept apart, however long it is."""
    need = joined(known, dims, [Need(dims, box) for box in bare])
    notes, exact = (*notes, *need.notes), exact and need.exact
    if need.box is not None:
        box = narrowed(known, with_where(known, need.box, guard.where), guard.also)
        return Need(dims, box, None, exact, notes)
    return Need(dims, None, need.shape, exact, notes, guard)


def _numeric_hull(shape: Presburger, limits: Box | None) -> Box:
    """The box around all instances, for what has no ends that can be written; at the worst the whole tensor."""
    from intset.domains.isl.session import isl, number

    m = isl()
    current = shape.get()
    current = current.project_out(m.dim_type.param, 0, current.dim(m.dim_type.param))
    sides = []
    for k in range(current.dim(m.dim_type.set)):
        low, high = current.dim_min_val(k), current.dim_max_val(k)
        if not (low.is_int() and high.is_int()):
            if limits is None:
                raise BudgetError("a region whose ends cannot be written")
            return limits
        sides.append(Interval((constant(number(low)),), (constant(number(high)),)))
    return Box(tuple(sides))


def _is_alive(known: Known, box: Box) -> bool:
    """Whether a box is known to have an element in every instance."""
    return not (box.where or box.also or any(gaps_unknown(known, side) for side in box.sides))


def _hull_of(known: Known, shape: Presburger) -> Box:
    """The bounding box of a region, where that is not empty."""
    from intset.domains.isl.boxes import ends_of
    from intset.domains.isl.to_expr import set_to_cond

    with known.account.budget(_END_OPERATIONS):
        ends = ends_of(shape)
        alive = shape.get().params()
        where = set_to_cond(alive, (), shape.ordered_params(alive))
    sides = []
    for low, high in ends:
        lows, highs = end_forms(known, low, ops.MAX), end_forms(known, high, ops.MIN)
        sides.append(interval(known, lows, highs) or Interval((known.form(low),), (known.form(high),)))
    box = Box(tuple(sides))
    return box if where is None else narrowed(known, box, conjuncts(where))

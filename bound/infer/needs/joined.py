"""What several consumers need together: the union of their needs, the box around them where none can be formed."""

from __future__ import annotations

from collections.abc import Sequence

from bound.infer.needs.box import Box, gaps_unknown, hull, narrowed, nothing, union, with_where
from bound.infer.needs.known import Known
from bound.infer.needs.need import NO_GUARD, Need, from_shape, shape_of
from bound.infer.needs.visited import listed
from intset.errors import BudgetError

_OPERATIONS = 1_000_000  # of the domain, for one union
MAX_PARTS = 160  # a region in more pieces is replaced by its box


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
    guard = _common_guard(alone) if not others else NO_GUARD
    if guard.is_conditional():
        return _united_below(known, dims, [Box(box.sides) for box in alone], guard, exact, notes)
    try:
        with known.budget(_OPERATIONS):
            shapes = [*(shape_of(known, box) for box in alone), *(need.shape(known) for need in others)]
            total = shapes[0].united(shapes[1:])
            if MAX_PARTS < total.parts() <= 2 * MAX_PARTS:
                total = total.disjoint()
        if total.parts() <= MAX_PARTS:
            need = from_shape(known, dims, total, exact, notes)
            if not others and all(_is_alive(known, box) for box in alone):
                need.set_hull(*hull(known, alone))
            return need
        note = f"the region has {total.parts()} parts: its box was used"
    except BudgetError as error:
        counted = _listed(known, dims, [*(Need(dims, box) for box in alone), *others], exact, notes)
        if counted is not None:
            return counted
        note = f"{error}: the box around several needs was used"
    boxes = [*alone, *(need.hull(known) for need in others)]
    return Need(dims, hull(known, boxes)[0], None, False, (*notes, note))


def _listed(known: Known, dims: int, needs: Sequence[Need], exact: bool, notes: Sequence[str]) -> Need | None:
    """A union that cannot be formed, element by element; `None` where they are too many."""
    try:
        found = listed(known, needs)
        if found is None:
            return None
        order, points = found
        return from_shape(known, dims, known.shapes.listing(points, order, dims), exact, notes)
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
    return Need(dims, None, need.shape(known), exact, notes, guard)


def _is_alive(known: Known, box: Box) -> bool:
    """Whether a box is known to have an element in every instance."""
    return not (box.where or box.also or any(gaps_unknown(known, side) for side in box.sides))

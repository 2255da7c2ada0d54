"""`Box`: a region that is a product of intervals in every instance, its ends minima and maxima of linear forms.

Most regions of most programs are of this kind. They are joined and carried along by comparing linear forms, and the
loops over them need no guard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from bound.infer.footprints.environment import LoopEnvironment
from intset.expr.build import maximum, minimum
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from intset.expr.walk import free_vars
from intset.linear.form import Linear, constant

EndForms = tuple[Linear, ...]
_MAX_FORMS = 6  # forms an end may have


@dataclass(frozen=True)
class SymbolicInterval:
    """From the largest of `lows` to the smallest of `highs`, both included; empty where they cross."""

    lows: EndForms
    highs: EndForms

    def gaps(self) -> Iterator[Linear]:
        """The forms that are all at least 0 where the interval is not empty."""
        for low, high in product(self.lows, self.highs):
            yield high.minus(low)

    def extents(self) -> EndForms:
        """The extent is the smallest of these, where the interval is not empty."""
        return tuple(gap.shift(1) for gap in self.gaps())

    def range(self) -> Range:
        """The interval as a `Range`."""
        low = maximum(*(form.expr() for form in self.lows))
        if len(self.lows) == 1 and all(isinstance(e, Var) for e in self.lows[0].terms):
            extent = minimum(*(form.expr() for form in self.extents()))
        else:
            extent = minimum(*(form.shift(1).expr() for form in self.highs)) - low
        if extent.is_const and extent.data < 0:
            return Range(low, 0)
        return Range(low, extent)

    def same(self, other: SymbolicInterval) -> bool:
        return _same_side(self.lows, other.lows) and _same_side(self.highs, other.highs)


@dataclass(frozen=True)
class Box:
    """The product of intervals, in the instances where all of `where` are at least 0 and all of `also` hold.

    All forms and conditions are over what is fixed: loop variables of the attach path, and sizes. `where` need not
    repeat that the intervals are not empty.
    """

    sides: tuple[SymbolicInterval, ...]
    where: tuple[Linear, ...] = ()
    also: tuple[Cond, ...] = ()

    def variables(self) -> tuple[Var, ...]:
        """The variables that the box depends on."""
        forms = [form for side in self.sides for form in (*side.lows, *side.highs)]
        return free_vars(*(e for form in (*forms, *self.where) for e in form.terms), *self.also)

    def is_conditional(self) -> bool:
        """Whether there are conditions beyond the intervals."""
        return bool(self.where or self.also)

    def is_affine(self) -> bool:
        """Whether every form is over variables alone."""
        forms = [form for side in self.sides for form in (*side.lows, *side.highs)]
        return not self.also and all(isinstance(e, Var) for form in (*forms, *self.where) for e in form.terms)

    def key(self) -> object:
        """Equal for boxes that are written alike."""
        sides = tuple((frozenset(f.key() for f in s.lows), frozenset(f.key() for f in s.highs)) for s in self.sides)
        return sides, frozenset(form.key() for form in self.where), self.also

    def conditions(self, point: Sequence[Expr]) -> list[Cond]:
        """The conditions that `point` lies in the box."""
        found = [form.expr() >= 0 for form in self.where] + list(self.also)
        for x, side in zip(point, self.sides, strict=True):
            found += [x >= low.expr() for low in side.lows]
            found += [x <= high.expr() for high in side.highs]
        return found


def whole_tensor(env: LoopEnvironment, shape: Iterable[Expr]) -> Box:
    """All elements of a tensor."""
    return Box(tuple(SymbolicInterval((constant(0),), (env.form(e).shift(-1),)) for e in shape))


def empty_box(dims: int) -> Box:
    """The empty box."""
    return Box(tuple(SymbolicInterval((constant(0),), (constant(-1),)) for _ in range(dims)), (constant(-1),))


def span(env: LoopEnvironment, limits: Range) -> SymbolicInterval:
    """The interval that a range is."""
    return SymbolicInterval((env.form(as_expr(limits.min)),), (env.form(as_expr(limits.max)),))


def interval(env: LoopEnvironment, lows: Iterable[Linear], highs: Iterable[Linear]) -> SymbolicInterval | None:
    """An interval without ends that others make superfluous; `None` when it still has too many."""
    first, last = _largest(env, lows), _largest(env, [form.scale(-1) for form in highs])
    if len(first) > _MAX_FORMS or len(last) > _MAX_FORMS:
        return None
    return SymbolicInterval(first, tuple(form.scale(-1) for form in last))


def with_where(env: LoopEnvironment, box: Box, added: Iterable[Linear]) -> Box:
    """The box where further forms are at least 0, too; what is known is left out."""
    where = list(box.where)
    for form in added:
        tight = divided_by_content(form)
        if not env.is_nonneg(tight, where):
            where.append(tight)
    return box if len(where) == len(box.where) else Box(box.sides, tuple(where), box.also)


def with_conditions(env: LoopEnvironment, box: Box, conditions: Iterable[Cond]) -> Box:
    """The box where conditions on what is fixed hold, too."""
    for cond in conditions:
        forms = env.forms_of(cond)
        if forms is None:
            if cond not in box.also:
                box = Box(box.sides, box.where, (*box.also, cond))
            continue
        for kind, form in forms:
            box = with_where(env, box, (form,) if kind == "ge" else (form, form.scale(-1)))
    return box


def divided_by_content(form: Linear) -> Linear:
    """`form >= 0` divided by what divides all its coefficients."""
    g = form.content()
    return form if g < 2 else Linear(form.const // g, {e: k // g for e, k in form.terms.items()})


def unproved_gaps(env: LoopEnvironment, side: SymbolicInterval, given: Sequence[Linear] = ()) -> list[Linear]:
    """The conditions that the interval is not empty, without those that are known."""
    return [gap for gap in side.gaps() if not env.is_nonneg(gap, given)]


def is_empty(env: LoopEnvironment, box: Box) -> bool:
    """Whether the box is known to be empty in every instance."""
    gaps = (*box.where, *(gap for side in box.sides for gap in side.gaps()))
    return any((high := env.bounds(form)[1]) is not None and high < 0 for form in gaps)


# -- union ------------------------------------------------------------------------------------------------------------


def union_boxes(env: LoopEnvironment, boxes: Iterable[Box]) -> list[Box]:
    """Boxes with the same union, as few as are found."""
    found: list[Box] = []
    seen: set[object] = set()
    for box in boxes:
        key = box.key()
        if key in seen or is_empty(env, box):
            continue
        seen.add(key)
        joined = box
        progress = True
        while progress:
            progress = False
            for k, other in enumerate(found):
                both = join_boxes(env, other, joined)
                if both is not None:
                    del found[k]
                    joined, progress = both, True
                    break
        found.append(joined)
    return found


def join_boxes(env: LoopEnvironment, a: Box, b: Box) -> Box | None:
    """The union of two boxes where it is known to be a box."""
    if a.also != b.also:
        return None
    if _includes(env, a, b):
        return a
    if _includes(env, b, a):
        return b
    if not _same_side(a.where, b.where):
        return None
    differing = [k for k, (x, y) in enumerate(zip(a.sides, b.sides, strict=True)) if not x.same(y)]
    if len(differing) != 1:
        return None
    k = differing[0]
    x, y = a.sides[k], b.sides[k]
    given = list(a.where)
    if unproved_gaps(env, x, given) or unproved_gaps(env, y, given):
        if not _is_translation(x, y):
            return None
        given += [divided_by_content(gap) for gap in unproved_gaps(env, x, given)]
    if not (_reaches(env, x, y, given) and _reaches(env, y, x, given)):
        return None
    lows = _lower(env, x.lows, y.lows)
    highs = _lower(env, tuple(f.scale(-1) for f in x.highs), tuple(f.scale(-1) for f in y.highs))
    if lows is None or highs is None:
        return None
    joined = SymbolicInterval(lows, tuple(form.scale(-1) for form in highs))
    return Box((*a.sides[:k], joined, *a.sides[k + 1 :]), tuple(given), a.also)


def _includes(env: LoopEnvironment, outer: Box, inner: Box) -> bool:
    """Whether `inner` is known to be a subset of `outer` in every instance."""
    given = inner.where
    if not all(env.is_nonneg(form, given) for form in outer.where):
        return False
    for big, small in zip(outer.sides, inner.sides, strict=True):
        if not _at_most(env, big.lows, small.lows):
            return False
        if not _at_most(env, tuple(f.scale(-1) for f in big.highs), tuple(f.scale(-1) for f in small.highs)):
            return False
    return True


def _at_most(env: LoopEnvironment, a: EndForms, b: EndForms) -> bool:
    """Whether the largest of `a` is known to be at most the largest of `b`."""
    return all(any(env.is_nonneg(y.minus(x)) for y in b) for x in a)


def _lower(env: LoopEnvironment, a: EndForms, b: EndForms) -> EndForms | None:
    """The side that is the smaller of two, where that is known."""
    return a if _at_most(env, a, b) else b if _at_most(env, b, a) else None


def _reaches(env: LoopEnvironment, a: SymbolicInterval, b: SymbolicInterval, given: Sequence[Linear]) -> bool:
    """Whether `b` starts at or before the element after `a`."""
    return all(env.is_nonneg(high.shift(1).minus(low), given) for low, high in product(b.lows, a.highs))


def _is_translation(a: SymbolicInterval, b: SymbolicInterval) -> bool:
    shift = b.lows[0].minus(a.lows[0])
    if not shift.is_const:
        return False
    moved = SymbolicInterval(tuple(f.plus(shift) for f in a.lows), tuple(f.plus(shift) for f in a.highs))
    return moved.same(b)


def _same_side(a: EndForms, b: EndForms) -> bool:
    if len(a) != len(b):
        return False
    if len(a) == 1:
        return a[0].same(b[0])
    return {f.key() for f in a} == {f.key() for f in b}


def _largest(env: LoopEnvironment, forms: Iterable[Linear]) -> EndForms:
    """The forms of which the largest is the largest of all."""
    kept: list[Linear] = []
    for form in forms:
        if any(env.is_nonneg(other.minus(form)) for other in kept):
            continue
        kept = [other for other in kept if not env.is_nonneg(form.minus(other))]
        kept.append(form)
    return tuple(kept)


def hull(env: LoopEnvironment, boxes: Sequence[Box]) -> tuple[Box, bool]:
    """A box around several, and whether its ends are exactly those of the smallest where no box is empty."""
    sides, tight = [], True
    for intervals in zip(*(box.sides for box in boxes), strict=True):
        lows, first = _hull_side(env, [side.lows for side in intervals])
        highs, last = _hull_side(env, [tuple(f.scale(-1) for f in side.highs) for side in intervals])
        sides.append(SymbolicInterval(lows, tuple(form.scale(-1) for form in highs)))
        tight = tight and first and last
    same = all(_same_side(box.where, boxes[0].where) and box.also == boxes[0].also for box in boxes)
    return Box(tuple(sides), boxes[0].where if same else (), boxes[0].also if same else ()), tight


def _hull_side(env: LoopEnvironment, choices: Sequence[EndForms]) -> tuple[EndForms, bool]:
    """The smallest of several sides, each the largest of its forms, and whether it is exactly that."""
    kept: list[EndForms] = []
    for side in choices:
        if any(_at_most(env, other, side) for other in kept):
            continue
        kept = [other for other in kept if not _at_most(env, side, other)]
        kept.append(side)
    if len(kept) == 1:
        return kept[0], True
    numbers = [env.bounds(form)[0] for side in kept for form in side]
    if len(kept) > _MAX_FORMS and all(n is not None for n in numbers):
        lows = [max(env.bounds(form)[0] or 0 for form in side) for side in kept]
        return (constant(min(lows)),), False
    return (env.form(minimum(*(maximum(*(form.expr() for form in side)) for side in kept))),), True

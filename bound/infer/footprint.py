"""`Footprint`: the elements that an access reaches in one instance of the producer, as a set over fixed variables.

Two representations, the cheaper where it is exact: a `Box`, a product of intervals in every instance with maxima and
minima of linear forms as ends, or a `Shape` of the domain's regions under a guard (a box without sides). Both provide
membership conditions, a hull and their variables.

Most footprints of most programs are boxes. Comparing linear forms is enough to join them, and a nest over a box needs
no guard.

Ends of quotients and remainders: tiles of a flattened tensor read rows `e // c` and columns `e % c` of the elements `e`
of an interval. With `e` from `max(l)` to `min(h)`, both over forms, and without gaps:

    e // c    from max(l // c)                to min(h // c)
    e % c     from max(0, l - c * (h // c))   to min(c - 1, h - c * (l // c))    over all pairs l, h

The ends of remainders: if all values of `e` share one block of `c`, `l - c * (h // c)` is the first remainder, and `h -
c * (l // c)` the last. Otherwise the former is negative and the latter at least `c`; both 0 and `c - 1` occur.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import Any, Final, TypeVar, cast

from bound.infer.environment import LoopEnvironment, instances, size_bounds
from intset.domains.sets.base import IntervalSet, IntSet, own_budget
from intset.domains.sets.region import ProductRegion, Region, ShapeRegion
from intset.errors import BudgetError, CountError
from intset.expr import Cond, Expr, Infinity, Range, Var, as_expr, constant_value, dag, ops
from intset.expr.build import logical_and, maximum, minimum
from intset.linear.form import ZERO, Linear, atom, constant, is_affine
from intset.regions.shape import Shape, coordinates
from intset.simplify.engine import cost

T = TypeVar("T")
EndForms = tuple[Linear, ...]
_MAX_FORMS = 6  # linear forms of one end
_MAX_SUM_FORMS = 4  # forms of one end of a sum

point_of = cache(coordinates)  # always the same variables: the forms of conditions on them are kept


@dataclass(frozen=True)
class SymbolicInterval:
    """The integers from `max(lows)` to `min(highs)`, both included; empty where the ends cross."""

    lows: EndForms
    highs: EndForms

    @cached_property
    def gaps(self) -> EndForms:
        """All `high - low`. The interval is nonempty exactly where all are nonnegative."""
        return tuple([high.minus(low) for low in self.lows for high in self.highs])

    def extents(self) -> EndForms:
        """The forms whose minimum is the extent of a nonempty interval."""
        return tuple([gap.shift(1) for gap in self.gaps])

    @property
    def ends(self) -> EndForms:
        """The forms of both ends."""
        return *self.lows, *self.highs

    def low(self) -> Expr:
        """The first integer of a nonempty interval."""
        return self.lows[0].expr() if len(self.lows) == 1 else maximum(*(form.expr() for form in self.lows))

    def high(self) -> Expr:
        """The last integer of a nonempty interval."""
        return minimum(*(form.expr() for form in self.highs))

    def range(self) -> Range:
        """The interval as a `Range`."""
        low = self.low()
        if len(self.gaps) == 1 and self.gaps[0].is_const:
            return Range(low, max(self.gaps[0].const + 1, 0))
        extents = [form.expr() for form in self.extents()] if len(self.lows) == 1 else []
        if extents and is_affine(self.lows[0]):
            extent = extents[0] if len(extents) == 1 else minimum(*extents)
        else:
            extent = minimum(*(form.shift(1).expr() for form in self.highs)) - low
            if extents and cost(minimum(*extents)) <= cost(extent):
                extent = minimum(*extents)
        return Range.of_extent(low, extent)

    def maxima(self) -> tuple[EndForms, EndForms]:
        """Both ends as maxima of forms: the lower end, and the negated upper end."""
        return self.lows, tuple(form.scale(-1) for form in self.highs)

    def same(self, other: SymbolicInterval) -> bool:
        return _same_side(self.lows, other.lows) and _same_side(self.highs, other.highs)

    def moved(self, offset: int) -> SymbolicInterval:
        """The interval with `offset` added to each element."""
        lows = [form.shift(offset) for form in self.lows]
        return SymbolicInterval(tuple(lows), tuple([form.shift(offset) for form in self.highs]))


@dataclass(frozen=True)
class Box:
    """A product of intervals, restricted to the instances that satisfy a guard.

    Invariant: forms and conditions are over fixed variables alone: loops of the attach path, and sizes.

    Attributes
    ----------
    sides: one interval a dimension.
    where: forms that are nonnegative in every instance of the guard; `gaps` of the sides are implied.
    also: the nonlinear conditions of the guard.
    """

    sides: tuple[SymbolicInterval, ...]
    where: tuple[Linear, ...] = ()
    also: tuple[Cond, ...] = ()

    def variables(self) -> tuple[Var, ...]:
        """The variables in the ends and the guard."""
        return dag.free_vars(*(e for form in self._forms() for e in form.terms), *self.also)

    def _forms(self) -> list[Linear]:
        return [*(form for side in self.sides for form in side.ends), *self.where]

    def is_conditional(self) -> bool:
        """Whether the box has a guard."""
        return bool(self.where or self.also)

    def is_affine(self) -> bool:
        """Whether all ends and conditions are affine in variables."""
        return not self.also and all(map(is_affine, self._forms()))

    def key(self) -> object:
        """A structural key: equal keys, equal boxes."""
        sides = tuple((frozenset(f.key() for f in s.lows), frozenset(f.key() for f in s.highs)) for s in self.sides)
        return sides, frozenset(form.key() for form in self.where), self.also

    def nonempty_forms(self) -> list[Linear]:
        """The forms that are nonnegative wherever the box is nonempty: guard and gaps."""
        return [*self.where, *[gap for side in self.sides for gap in side.gaps]]

    def nonempty_conditions(self) -> list[Cond]:
        """The conditions that the box is nonempty."""
        return [*(form.expr() >= 0 for form in self.nonempty_forms() if not form.is_const), *self.also]

    def guard(self) -> list[Cond]:
        """The conditions of the guard."""
        return [*(form.expr() >= 0 for form in self.where), *self.also]

    def conditions(self, point: Sequence[Expr]) -> list[Cond]:
        """The membership conditions of `point`, guard included."""
        conditions = self.guard()
        for x, side in zip(point, self.sides, strict=True):
            conditions += [x >= low.expr() for low in side.lows]
            conditions += [x <= high.expr() for high in side.highs]
        return conditions


def whole_tensor(env: LoopEnvironment, shape: Iterable[Expr]) -> Box:
    """All elements of a tensor."""
    return Box(tuple([SymbolicInterval((ZERO,), (env.form(e).shift(-1),)) for e in shape]))


def empty_box(dims: int) -> Box:
    """The empty box of `dims` dimensions."""
    return Box(tuple(SymbolicInterval((constant(0),), (constant(-1),)) for _ in range(dims)), (constant(-1),))


def span(env: LoopEnvironment, limits: Range) -> SymbolicInterval:
    """A range as an interval."""
    return SymbolicInterval((env.form(as_expr(limits.min)),), (env.form(as_expr(limits.max)),))


def interval_of_maxima(lows: EndForms, negated_highs: EndForms) -> SymbolicInterval:
    """The inverse of `SymbolicInterval.maxima`."""
    return SymbolicInterval(lows, tuple(form.scale(-1) for form in negated_highs))


def interval(env: LoopEnvironment, lows: Iterable[Linear], highs: Iterable[Linear]) -> SymbolicInterval | None:
    """An interval without redundant ends; `None` if an end still has more than `_MAX_FORMS` forms."""
    lows, highs = tuple(lows), tuple(highs)
    if len(lows) == len(highs) == 1:
        return SymbolicInterval(lows, highs)

    def exceeds(a: Linear, b: Linear) -> bool:
        return env.is_nonneg(a.minus(b))

    first, last = (undominated(forms, exceeds) for forms in (lows, [form.scale(-1) for form in highs]))
    if len(first) > _MAX_FORMS or len(last) > _MAX_FORMS:
        return None
    return interval_of_maxima(tuple(first), tuple(last))


def with_where(env: LoopEnvironment, box: Box, added: Iterable[Linear]) -> Box:
    """The box with further nonnegative forms in its guard, without those that are proved."""
    where = list(box.where)
    for form in added:
        tight = divided_by_content(form)
        if not env.is_nonneg(tight, where):
            where.append(tight)
    return box if len(where) == len(box.where) else Box(box.sides, tuple(where), box.also)


def with_conditions(env: LoopEnvironment, box: Box, conditions: Iterable[Cond]) -> Box:
    """The box with further conditions on fixed variables in its guard."""
    for cond in conditions:
        forms = env.forms_of(cond)
        if forms is not None:
            box = with_where(env, box, forms)
        elif cond not in box.also:
            box = Box(box.sides, box.where, (*box.also, cond))
    return box


def guarded(env: LoopEnvironment, box: Box, guard: Box) -> Box:
    """Restrict a box by the guard of another box, too."""
    return with_conditions(env, with_where(env, box, guard.where), guard.also)


def interval_of_ends(env: LoopEnvironment, low: Expr, high: Expr) -> SymbolicInterval:
    """The interval from `low` to `high`; a maximum or minimum becomes several forms.

    Ends by cases are simplified in the ranges of their loops: a domain writes cases of products that it cannot compare.
    """
    low, high = (env.simplified(end) if ops.SELECT in dag.operations(end) else end for end in (low, high))
    return interval(env, end_forms(env, low, ops.MAX), end_forms(env, high, ops.MIN)) or SymbolicInterval(
        (env.form(low),), (env.form(high),)
    )


def end_forms(env: LoopEnvironment, end: Expr, op: ops.Op) -> list[Linear]:
    """The operands of an end that is a maximum (minimum), as forms."""
    return [env.form(part) for part in dag.chain(op, end)]


def divided_by_content(form: Linear) -> Linear:
    """An equivalent of `form >= 0` with coprime coefficients."""
    g = form.content()
    return form if g < 2 else form.divided(g)


def unproved_gaps(env: LoopEnvironment, side: SymbolicInterval, assumed: Sequence[Linear] = ()) -> list[Linear]:
    """The gaps of an interval without a proof of nonnegativity."""
    return [gap for gap in side.gaps if not env.is_nonneg(gap, assumed)]


def is_empty(env: LoopEnvironment, box: Box) -> bool:
    """Whether the box is provably empty in every instance."""
    for form in box.nonempty_forms():
        high = env.bounds(form)[1] if form.terms else form.const
        if high is not None and high < 0:
            return True
    return False


# -- union ------------------------------------------------------------------------------------------------------------


def union_boxes(env: LoopEnvironment, boxes: Iterable[Box]) -> list[Box]:
    """Boxes with the same union, joined pairwise until no join applies."""
    boxes = list(boxes)
    if len(boxes) > 1 and (both := _union_of_translates(env, boxes)) is not None:
        boxes = [both]
    if len(boxes) == 1:
        return [] if is_empty(env, boxes[0]) else boxes
    disjoint: list[Box] = []
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
            for k, other in enumerate(disjoint):
                both = join_boxes(env, other, joined)
                if both is not None:
                    del disjoint[k]
                    joined, progress = both, True
                    break
        disjoint.append(joined)
    return disjoint


def _union_of_translates(env: LoopEnvironment, boxes: Sequence[Box]) -> Box | None:
    """The union of boxes under one guard whose ends differ by numbers, as those of a stencil; `None` if it is no box.

    It is a box if the intervals of each dimension join without a gap and every combination of them occurs. With an
    interval of the first box from `l` to `h`, the others from `l + a` to `h + b`, this asks `h - l` for a least length.
    """
    first = boxes[0]
    if any(box.where != first.where or box.also != first.also for box in boxes):
        return None
    sides, where = [], list(first.where)
    combinations, offsets = 1, []
    for column in zip(*[box.sides for box in boxes], strict=True):
        moved = _offsets(column)
        if moved is None:
            return None
        side, spans = column[0], sorted(set(moved))
        combinations *= len(spans)
        offsets.append(moved)
        if len(spans) > 1:
            (begin, end), least = spans[0], 0
            for a, b in spans:
                least = max(least, a - b, a - end - 1)
                end = max(end, b)
            open_gaps = [gap for gap in side.gaps if not env.is_nonneg(gap.shift(-least), where)]
            if open_gaps and (least or any(a != b for a, b in spans)):
                return None
            where += [divided_by_content(gap) for gap in open_gaps]  # all are empty together
            lows, highs = [form.shift(begin) for form in side.lows], [form.shift(end) for form in side.highs]
            side = SymbolicInterval(tuple(lows), tuple(highs))
        sides.append(side)
    if len(set(zip(*offsets, strict=True))) < combinations:
        return None
    return Box(tuple(sides), tuple(where), first.also)


def _offsets(sides: Sequence[SymbolicInterval]) -> list[tuple[int, int]] | None:
    """For each interval, the distances of its ends from the first interval's ends; `None` if they are no numbers."""
    first = sides[0]
    offsets = []
    for side in sides:
        low, high = side.lows[0].const - first.lows[0].const, side.highs[0].const - first.highs[0].const
        if not (_is_moved(first.lows, side.lows, low) and _is_moved(first.highs, side.highs, high)):
            return None
        offsets.append((low, high))
    return offsets


def _is_moved(a: EndForms, b: EndForms, offset: int) -> bool:
    return len(a) == len(b) and all(
        x.const + offset == y.const and x.terms == y.terms for x, y in zip(a, b, strict=True)
    )


def join_boxes(env: LoopEnvironment, a: Box, b: Box) -> Box | None:
    """The union of two boxes if it is proved to be a box, else `None`.

    One box contains the other, or they differ in one dimension in which their intervals overlap or touch.
    """
    if a.also != b.also:
        return None
    if contains(env, a, b):
        return a
    if contains(env, b, a):
        return b
    if not _same_side(a.where, b.where):
        return None
    differing = [k for k, (x, y) in enumerate(zip(a.sides, b.sides, strict=True)) if not x.same(y)]
    if len(differing) != 1:
        return None
    k = differing[0]
    x, y = a.sides[k], b.sides[k]
    assumed = list(a.where)
    if unproved_gaps(env, x, assumed) or unproved_gaps(env, y, assumed):
        shift = y.lows[0].minus(x.lows[0])
        if not (shift.is_const and x.moved(shift.const).same(y)):
            return None
        assumed += [divided_by_content(gap) for gap in unproved_gaps(env, x, assumed)]
    if not (_reaches(env, x, y, assumed) and _reaches(env, y, x, assumed)):
        return None
    lows, highs = (_lower(env, one, other) for one, other in zip(x.maxima(), y.maxima(), strict=True))
    if lows is None or highs is None:
        return None
    return Box((*a.sides[:k], interval_of_maxima(lows, highs), *a.sides[k + 1 :]), tuple(assumed), a.also)


def contains(env: LoopEnvironment, outer: Box, inner: Box) -> bool:
    """Whether `inner` is proved to be a subset of `outer` in every instance."""
    assumed = inner.nonempty_forms()
    if any(cond not in inner.also for cond in outer.also):
        return False
    if not all(env.is_nonneg(form, assumed) for form in outer.where):
        return False
    pairs = zip(outer.sides, inner.sides, strict=True)
    return all(_at_most(env, a, b) for big, small in pairs for a, b in zip(big.maxima(), small.maxima(), strict=True))


def _at_most(env: LoopEnvironment, a: EndForms, b: EndForms) -> bool:
    """Whether `max(a) <= max(b)` is proved."""
    return all(any(env.is_nonneg(y.minus(x)) for y in b) for x in a)


def _lower(env: LoopEnvironment, a: EndForms, b: EndForms) -> EndForms | None:
    """`a` or `b`, whichever is proved to have the smaller maximum; `None` if neither is."""
    return a if _at_most(env, a, b) else b if _at_most(env, b, a) else None


def _reaches(env: LoopEnvironment, a: SymbolicInterval, b: SymbolicInterval, assumed: Sequence[Linear]) -> bool:
    """Whether `b` is proved to start at or before the element after `a`."""
    return all(env.is_nonneg(high.shift(1).minus(low), assumed) for low, high in product(b.lows, a.highs))


def _same_side(a: EndForms, b: EndForms) -> bool:
    if len(a) != len(b):
        return False
    if len(a) == 1:
        return a[0].same(b[0])
    return {f.key() for f in a} == {f.key() for f in b}


def undominated(items: Iterable[T], dominates: Callable[[T, T], bool]) -> list[T]:
    """The items without those that another one dominates."""
    kept: list[T] = []
    for item in items:
        if not any(dominates(other, item) for other in kept):
            kept = [*(other for other in kept if not dominates(item, other)), item]
    return kept


def hull(env: LoopEnvironment, boxes: Sequence[Box]) -> tuple[Box, bool]:
    """A box around several boxes, and whether it is the smallest one wherever no box is empty."""
    sides, tight = [], True
    for intervals in zip(*(box.sides for box in boxes), strict=True):
        ends = [_hull_side(env, choices) for choices in zip(*(side.maxima() for side in intervals), strict=True)]
        sides.append(interval_of_maxima(*(end for end, _ in ends)))
        tight = tight and all(is_tight for _, is_tight in ends)
    same = all(_same_side(box.where, boxes[0].where) and box.also == boxes[0].also for box in boxes)
    return Box(tuple(sides), boxes[0].where if same else (), boxes[0].also if same else ()), tight


def _hull_side(env: LoopEnvironment, choices: Sequence[EndForms]) -> tuple[EndForms, bool]:
    """The minimum of several ends, each a maximum of forms, and its exactness."""
    kept = undominated(choices, lambda a, b: _at_most(env, a, b))
    if len(kept) == 1:
        return kept[0], True
    numbers = [env.bounds(form)[0] for side in kept for form in side]
    if len(kept) > _MAX_FORMS and all(n is not None for n in numbers):
        lows = [max(env.bounds(form)[0] or 0 for form in side) for side in kept]
        return (constant(min(lows)),), False
    return (env.form(minimum(*(maximum(*(form.expr() for form in side)) for side in kept))),), True


@dataclass(frozen=True)
class RunningTerm:
    """A multiple of an expression with the values of an interval; gaps are possible unless it is contiguous.

    Attributes
    ----------
    variables: the running variables of the expression.
    """

    side: SymbolicInterval
    factor: int
    variables: tuple[Var, ...]
    is_contiguous: bool = True


def number_divisor(e: Expr) -> int | None:
    """The divisor of a quotient by a positive number, else `None`."""
    divisor = constant_value(e.args[1]) if e.op is ops.FLOORDIV else None
    return divisor if divisor is not None and divisor > 0 else None


def independent_terms(
    env: LoopEnvironment, row: Linear, sides: Mapping[Var, SymbolicInterval]
) -> tuple[Linear, list[RunningTerm]] | None:
    """A form as a sum of a form without running variables and of terms over disjoint running variables.

    `None` if quotients and variables do not combine to quotients and remainders of independent sums.

    Parameters
    ----------
    sides: the interval of each running variable, independent of the others.
    """
    terms: list[RunningTerm] = []
    left = row
    while (outermost := _outermost(left, sides)) is not None:
        divisor = number_divisor(outermost)
        if divisor is None:
            return None
        dividend = env.form(outermost.args[0])
        whole = _term_of(env, dividend, sides)
        if whole is None:
            return None
        factor = left.terms[outermost]
        if factor > 0:
            side, is_contiguous = quotient_interval(env, whole.side, divisor), whole.is_contiguous
        else:
            inner = _remaindered(env, left, dividend, whole.variables, divisor, -factor)
            if inner is None or not whole.is_contiguous:
                return None
            by, width, of = inner
            side = quotient_interval(env, whole.side, by) if by > 1 else whole.side
            side, is_contiguous = (None if side is None else remainder_interval(env, side, width)), False
            factor = -factor // width
            left = left.plus(of, -factor)
            left = left.plus(atom(outermost), factor * width)
        if side is None:
            return None
        if outermost in left.terms:
            left = Linear(left.const, {e: k for e, k in left.terms.items() if e is not outermost})
        terms.append(RunningTerm(side, factor, whole.variables, is_contiguous))
    terms += [RunningTerm(sides[e], k, (e,)) for e, k in left.terms.items() if isinstance(e, Var) and e in sides]
    running = [v for term in terms for v in term.variables]
    if len(set(running)) < len(running):
        return None
    return Linear(left.const, {e: k for e, k in left.terms.items() if e not in sides}), terms


def _outermost(form: Linear, sides: Mapping[Var, SymbolicInterval]) -> Expr | None:
    """The quotient of running variables with the largest divisor; `None` without one."""
    quotients = [e for e in form.terms if not isinstance(e, Var) and any(v in sides for v in e.free_vars())]
    return max(quotients, key=lambda e: number_divisor(e) or 0, default=None)


def _term_of(env: LoopEnvironment, form: Linear, sides: Mapping[Var, SymbolicInterval]) -> RunningTerm | None:
    """A dividend as one term; `None` if it is not affine in running variables."""
    own = [(e, k) for e, k in form.terms.items() if isinstance(e, Var) and e in sides]
    rest = Linear(form.const, {e: k for e, k in form.terms.items() if e not in sides})
    if any(v in sides for e in rest.terms for v in e.free_vars()):
        return None
    parts = sorted(((sides[e], k) for e, k in own), key=lambda part: abs(part[1]))
    side = sum_of_intervals(env, rest, parts)
    if side is None:
        return None
    return RunningTerm(side, 1, tuple(e for e, _ in own), is_contiguous(env, [(side, abs(k)) for side, k in parts]))


def _remaindered(
    env: LoopEnvironment, form: Linear, dividend: Linear, running: Sequence[Var], divisor: int, factor: int
) -> tuple[int, int, Linear] | None:
    """The form `q = dividend // by` that stands in a form beside `-factor * (dividend // divisor)`, as its remainder.

    Returns `by`, the width of the remainder `q % width` and `q`; `None` if there is none.
    """
    for e, k in form.terms.items():
        by = number_divisor(e)
        if by is None or not 0 < factor == k * (divisor // by) or divisor % by or by == divisor:
            continue
        if env.form(e.args[0]).same(dividend):
            return by, divisor // by, atom(e)
    if all(form.terms.get(v, 0) * divisor == factor * dividend.terms[v] for v in running):
        return (1, divisor, dividend) if factor % divisor == 0 else None
    return None


def quotient_interval(env: LoopEnvironment, side: SymbolicInterval, divisor: int) -> SymbolicInterval | None:
    """The quotients of an interval by a positive number."""
    lows, highs = ([env.form(form.expr() // divisor) for form in forms] for forms in (side.lows, side.highs))
    return interval(env, lows, highs)


def remainder_interval(env: LoopEnvironment, side: SymbolicInterval, divisor: int) -> SymbolicInterval | None:
    """The minimum and maximum remainder of an interval's integers by a positive number."""
    lows, highs = [constant(0)], [constant(divisor - 1)]
    for low, high in product(side.lows, side.highs):
        lows.append(low.plus(env.form(high.expr() // divisor), -divisor))
        highs.append(high.plus(env.form(low.expr() // divisor), -divisor))
    return interval(env, lows, highs)


def is_contiguous(env: LoopEnvironment, terms: Sequence[tuple[SymbolicInterval, int]]) -> bool:
    """Whether a sum of independent intervals with these factors, smallest first, has no gaps."""
    reach = 0
    for side, k in terms:
        if k > reach + 1:
            return False
        steps = [env.bounds(gap)[0] for gap in side.gaps]
        least = 0 if any(n is None for n in steps) else min(n for n in steps if n is not None)
        reach += k * max(least, 0)
    return True


def sum_of_intervals(
    env: LoopEnvironment, rest: Linear, terms: Sequence[tuple[SymbolicInterval, int]]
) -> SymbolicInterval | None:
    """The least and the greatest sum of a form and multiples of independent intervals; `None` with too many ends."""
    lows = _sum(rest, [(side.lows if k > 0 else side.highs, k) for side, k in terms])
    highs = _sum(rest, [(side.highs if k > 0 else side.lows, k) for side, k in terms])
    return None if lows is None or highs is None else interval(env, lows, highs)


def _sum(rest: Linear, terms: Sequence[tuple[EndForms, int]]) -> list[Linear] | None:
    """The operands of the maximum (minimum) that equals `rest` plus multiples of maxima (minima).

    `None` beyond `_MAX_SUM_FORMS`.
    """
    if prod([len(side) for side, _ in terms]) > _MAX_SUM_FORMS:
        return None
    factors = [k for _, k in terms]
    return [added(rest, zip(choice, factors, strict=True)) for choice in product(*[side for side, _ in terms])]


def added(form: Linear, terms: Iterable[tuple[Linear, int]]) -> Linear:
    """A form plus multiples of others."""
    for other, factor in terms:
        form = form.plus(other, factor) if factor else form
    return form


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
        BudgetError: ends, numbers and outline are unknown.
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

    def moved(self, offsets: Sequence[int]) -> Footprint:
        """A footprint with a box, with these numbers added to each element."""
        assert self.box is not None
        sides = [side.moved(k) if k else side for side, k in zip(self.box.sides, offsets, strict=True)]
        return Footprint(self.dims, replace(self.box, sides=tuple(sides)), None, self.exact, self.notes)

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
    point = point_of(len(box.sides))
    with env.shapes.budget(FOOTPRINT_SHAPE):
        return env.shapes.where(point, logical_and(*box.conditions(point))).coalesced()


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
    return Footprint(region.dims, _box_of_ends(env, [(r.min, r.max) for r in sides]), None, exact, notes)


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


def _box_of_ends(env: LoopEnvironment, ends: Iterable[tuple[Expr | Infinity, Expr | Infinity]]) -> Box:
    """The box with sides from first to last elements; minima and maxima become several forms.

    Raises
    ------
    BudgetError: an end is infinite.
    """
    sides = []
    for low, high in ends:
        if isinstance(low, Infinity) or isinstance(high, Infinity):
            raise BudgetError("a region without end")
        sides.append(interval_of_ends(env, low, high))
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
    box = _box_of_ends(env, ends)
    return box if where is None else with_conditions(env, box, dag.conjuncts(where))

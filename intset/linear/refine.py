"""What conditions say about ranges: an affine predicate tightens every variable and atom in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.linear import bounds as iv
from intset.linear.bounds import EVERYTHING, Interval
from intset.linear.form import Linear

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

ROUNDS = 4  # tightening stops here at the latest; every intermediate result is sound


def narrow(base: Normalizer, conditions: Iterable[Cond]) -> Normalizer:
    """A normalizer for the points of `base` where all `conditions` hold; its `empty` tells that there is none."""
    from intset.linear.canonical import Knowledge, Normalizer

    ranges: dict[Var, Interval] = dict(base.ranges)
    nonneg: list[Linear] = list(base.knowledge.nonneg)
    atoms: dict[Expr, Interval] = dict(base.knowledge.atoms)
    limits = base.knowledge.limits
    current = base
    forms: list[tuple[ops.Op, Linear]] = []
    choices: list[Cond] = []
    for condition in conditions:
        for part in _parts(base.cond(condition)):
            if part.op is ops.BOOL:
                if not part.data:
                    return Normalizer(ranges, Knowledge(tuple(nonneg), atoms, limits), base.depth + 1, empty=True)
            elif part.op is ops.OR:
                choices.append(part)
            else:
                forms.append(base.compared[part])
    for kind, form in forms:
        if kind is not ops.NE:
            nonneg.append(form)
        if kind is ops.EQ:
            nonneg.append(form.scale(-1))
    for round_ in range(ROUNDS):
        changed = False
        for kind, form in forms:
            changed |= _tighten(current, kind, form, ranges, atoms)
        if round_ == 0 and base.depth < 2:
            for choice in choices:
                changed |= _tighten_choice(base, choice, ranges)
        if any(_crossed(interval) for interval in (*ranges.values(), *atoms.values())):
            return Normalizer(ranges, Knowledge(tuple(nonneg), atoms, limits), base.depth + 1, empty=True)
        if not changed or (len(forms) == 1 and forms[0][0] is ops.GE and not choices):
            break  # one inequality tells nothing new a second time: it moves each term away from the end it is read at
        current = Normalizer(dict(ranges), Knowledge(base.knowledge.nonneg, dict(atoms), limits), base.depth + 1)
    return Normalizer(ranges, Knowledge(tuple(nonneg), atoms, limits), base.depth + 1)


def _parts(cond: Cond) -> Iterable[Cond]:
    stack = [cond]
    while stack:
        part = stack.pop()
        if part.op is ops.AND:
            stack.extend((part.args[1], part.args[0]))
        else:
            yield part


def _crossed(interval: Interval) -> bool:
    return interval[0] is not None and interval[1] is not None and interval[0] > interval[1]


def _tighten(
    current: Normalizer, kind: ops.Op, form: Linear, ranges: dict[Var, Interval], atoms: dict[Expr, Interval]
) -> bool:
    if kind is ops.NE:
        return _tighten_unequal(current, form, ranges)
    changed = False
    for monomial, k in form.terms.items():
        others = Linear(form.const, {t: c for t, c in form.terms.items() if t is not monomial})
        low, high = current.bounds(others)
        found: Interval = EVERYTHING
        if high is not None:  # k*t >= -others >= -high
            found = (-(high // k), None) if k > 0 else (None, high // -k)
        if kind is ops.EQ and low is not None:  # k*t <= -low
            found = iv.meet(found, (None, -low // k) if k > 0 else (-(-low // -k), None))
        changed |= _learn(current, monomial, found, ranges, atoms)
    return changed


def _learn(
    current: Normalizer, e: Expr, found: Interval, ranges: dict[Var, Interval], atoms: dict[Expr, Interval]
) -> bool:
    """Record that `e` lies in `found`; a quotient tells about its dividend as well."""
    if found == EVERYTHING:
        return False
    before = current.atom_bounds(e)
    after = iv.meet(before, found)
    if after == before:
        return False
    if isinstance(e, Var):
        ranges[e] = iv.meet(ranges.get(e, before), after)
        return True
    atoms[e] = iv.meet(atoms.get(e, before), after)
    if e.op is ops.FLOORDIV and e.args[1].op is ops.CONST:
        c = e.args[1].data
        inner = current.form(e.args[0])
        if c > 0 and len(inner.terms) == 1:
            ((monomial, k),) = inner.terms.items()
            low = None if after[0] is None else after[0] * c - inner.const
            high = None if after[1] is None else after[1] * c + c - 1 - inner.const
            if k < 0:
                low, high = (None if high is None else -high), (None if low is None else -low)
            k = abs(k)
            tight = (None if low is None else -(-low // k), None if high is None else high // k)
            _learn(current, monomial, tight, ranges, atoms)
    return True


def _tighten_unequal(current: Normalizer, form: Linear, ranges: dict[Var, Interval]) -> bool:
    if len(form.terms) != 1:
        return False
    ((e, k),) = form.terms.items()
    if not isinstance(e, Var) or form.const % k:
        return False
    hole = -form.const // k
    low, high = ranges.get(e, current.atom_bounds(e))
    if hole not in (low, high):
        return False
    ranges[e] = (low + 1 if low == hole else low, high - 1 if high == hole else high)  # type: ignore[operator]
    return True


def _tighten_choice(base: Normalizer, choice: Cond, ranges: dict[Var, Interval]) -> bool:
    """A disjunction tells that a variable lies in the hull of what its sides say."""
    sides = [side for side in (narrow(base, (arm,)) for arm in choice.args) if not side.empty]
    if not sides:
        first = next(iter(ranges), None)
        if first is not None:
            ranges[first] = (1, 0)
        return True
    changed = False
    for var in {v: None for side in sides for v in side.ranges}:
        merged = sides[0].atom_bounds(var)
        for side in sides[1:]:
            merged = iv.hull(merged, side.atom_bounds(var))
        after = iv.meet(base.atom_bounds(var), merged)
        if after != base.atom_bounds(var):
            ranges[var] = iv.meet(ranges.get(var, after), after)
            changed = True
    return changed

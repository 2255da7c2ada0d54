"""Systems of several variables left out, lists of systems made shorter, points gathered into boxes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from typing import Any

from intset import BudgetError, Var
from intset.domains.points import runs
from intset.linear.form import Linear

from .elimination import System, also, cost, holds, minus, replaced, substituted, tidy, without

MAX_SYSTEMS = 400  # of one answer
MAX_JOINED = 24  # parts of which every two are tried to be one
MAX_DIFFERENT = 8  # conditions in which two parts that are tried may differ
MAX_LISTED = 64  # values of a coordinate that are taken one by one
Progression = tuple[int, int, int]  # first, last, step


def eliminated(systems: Iterable[System], out: Collection[Var]) -> list[System]:
    """The systems without these variables: where these have some values, by cases."""
    found, waiting = [], list(systems)
    while waiting:
        system = waiting.pop()
        inside = [v for v in system.variables() if v in out]
        if inside:
            waiting += without(system, min(inside, key=lambda v: cost(system, v)))
        else:
            found.append(system)
        refuse_more_than(MAX_SYSTEMS, len(found) + len(waiting))
    return found


def refuse_more_than(most: int, number: int) -> None:
    if number > most:
        raise BudgetError(f"unions of boxes gave up: more than {most} boxes")


def boxed(systems: Iterable[System], names: Collection[Var]) -> list[System]:
    """The same points in systems of which no condition mentions two of `names`: one of the two is listed.

    Raises
    ------
    BudgetError: neither has few values.
    """
    found, waiting = [], list(systems)
    while waiting:
        system = waiting.pop()
        forms = [*system.least, *(f for _, f in system.steps)]
        coupled = [x for f in forms if sum(t in names for t in f.terms) > 1 for x in f.terms if x in names]
        if not coupled:
            found.append(system)
            continue
        spans = [span for x in dict.fromkeys(coupled) for span in _spans(system, x, names)]
        number, x, low = min(spans, key=lambda span: span[0], default=(MAX_LISTED + 1, None, None))
        refuse_more_than(MAX_LISTED, number)
        for value in (low.shift(k) for k in range(number)):
            point = Linear(0, {x: 1}).minus(value)
            listed = also(replaced(system, x, value), [point, point.scale(-1)])
            waiting += [] if listed is None else [listed]
        refuse_more_than(MAX_SYSTEMS, len(found) + len(waiting))
    return found


def _spans(system: System, x: Var, names: Collection[Var]) -> list[tuple[int, Var, Linear]]:
    """How many values a coordinate has, and from where, by two conditions on it alone."""
    own = [f for f in system.least if abs(f.terms.get(x, 0)) == 1 and sum(t in names for t in f.terms) == 1]
    lows = [Linear(0, {x: 1}).minus(f) for f in own if f.terms[x] > 0]
    highs = [f.plus(Linear(0, {x: 1})) for f in own if f.terms[x] < 0]
    gaps = [(high.minus(low).shift(1), low) for low in lows for high in highs]
    return [(max(gap.const, 0), x, low) for gap, low in gaps if gap.is_const]


def joined(systems: Sequence[System], names: Sequence[Var]) -> list[System]:
    """The same points in fewer systems, where that is found."""
    parts = _without_residues(list(systems))
    tried: set[tuple[System, System]] = set()
    while len(parts) <= MAX_JOINED:
        pair = next((pair for pair in combinations(parts, 2) if pair not in tried), None)
        if pair is None:
            break
        tried.add(pair)
        both = _join(*pair, names)
        if both is not None:
            parts = [both, *(p for p in parts if p is not pair[0] and p is not pair[1])]
    return parts


def _without_residues(parts: list[System]) -> list[System]:
    """Systems that differ in a residue alone, all of whose values occur, as one."""
    groups: dict[object, dict[int, System]] = {}
    for system in parts:
        for m, f in system.steps if len(parts) > 1 else ():
            rest = System(system.least, tuple(s for s in system.steps if s[1] is not f))
            group = groups.setdefault((rest.key(), m, frozenset(f.terms.items())), {})
            group[f.const] = system
            if len(group) == m:
                gone = list(group.values())
                return _without_residues([*(p for p in parts if not any(p is g for g in gone)), rest])
    return parts


def _join(a: System, b: System, names: Sequence[Var]) -> System | None:
    """Two systems as one, if some system has the points of both alone: that of all conditions which hold in both."""
    different = {f.key() for f in a.least} ^ {f.key() for f in b.least}
    if len(different) > MAX_DIFFERENT or any(
        m == n and f.terms == g.terms and f.const != g.const for m, f in a.steps for n, g in b.steps
    ):
        return None
    on = [[{f.key() for f in s.least if x in f.terms} for x in names] for s in (a, b)]
    if sum(one != other for one, other in zip(*on, strict=True)) > 1 and not _is_inside(a, b) and not _is_inside(b, a):
        return None
    least = [f for one, other in ((a, b), (b, a)) for f in one.least if holds(other, f)]
    steps = [s for one, other in ((a, b), (b, a)) for s in one.steps if _is_step(other, *s)]
    for x in names:
        for _, _, low in _spans(a, x, names):
            for _, _, other in _spans(b, x, names):
                gap = other.minus(low)
                step = (abs(gap.const), Linear(0, {x: 1}).minus(low))
                if gap.is_const and abs(gap.const) > 1 and _is_step(a, *step) and _is_step(b, *step):
                    steps.append(step)
    both = tidy(least, steps)
    exact = both is not None and not any(minus(piece, b) for piece in minus(both, a))
    return both if exact else None


def _is_inside(a: System, b: System) -> bool:
    """Whether one system is seen to say more than another."""
    ends = {frozenset(f.terms.items()): f.const for f in a.least}
    return all(ends.get(frozenset(f.terms.items()), f.const + 1) <= f.const for f in b.least)


def _is_step(system: System, m: int, form: Linear) -> bool:
    """Whether a congruence is seen to hold: it is written, or the coordinate that it is about is a number there."""
    if any(m == n and form.same(f) for n, f in system.steps):
        return True
    for x in form.terms:
        for number, _, low in _spans(system, x, (x,)):
            value = substituted(form, x, low)
            if number == 1 and value.is_const and value.const % m == 0:
                return True
    return False


def covered(points: Iterable[tuple[int, ...]], dims: int) -> list[tuple[Progression, ...]]:
    """Disjoint boxes with strides whose points these are."""
    boxes: list[tuple[Progression, ...]] = [tuple((x, x, 0) for x in point) for point in points]
    for k in reversed(range(dims)):
        groups: dict[Any, list[int]] = {}
        for box in boxes:
            groups.setdefault((box[:k], box[k + 1 :]), []).append(box[k][0])
        boxes = [(*left, run, *right) for (left, right), xs in groups.items() for run in runs(sorted(xs))]
    return boxes

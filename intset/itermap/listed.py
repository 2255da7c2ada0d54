"""A map that is small enough to be listed: everything is known of it, and written with cases where no formula is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product as points_of
from math import prod
from typing import NamedTuple

from intset.errors import EvaluationError, InputError
from intset.expr.build import logical_and, logical_or, select
from intset.expr.evaluate import compiled
from intset.expr.length import length
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.prover.proof import PROVED, REFUTED, UNKNOWN

Point = tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """Proved, refuted or unknown. `bool(verdict)` is true only when proved.

    Attributes
    ----------
    status: "proved", for all sizes; "refuted", for `sizes`; "unknown".
    points: when refuted, two old points that arrive at one place, or the one place that no point arrives at.
    sizes: the values of the sizes for which that is so.
    reason: why it is unknown, in words.
    """

    status: str
    points: tuple[Point, ...] = ()
    sizes: Mapping[Var, int] = field(default_factory=dict)
    reason: str = ""

    def __bool__(self) -> bool:
        return self.status == PROVED

    def __repr__(self) -> str:
        at = ", ".join(f"{v} = {k}" for v, k in self.sizes.items())
        where = " and ".join(map(str, self.points)) + (f" for {at}" if at else "")
        return f"<{self.status}{': ' if where or self.reason else ''}{where or self.reason}>"


YES = Verdict(PROVED)


def no(points: tuple[Point, ...], sizes: Mapping[Var, int]) -> Verdict:
    return Verdict(REFUTED, points, dict(sizes))


def open_(reason: str) -> Verdict:
    return Verdict(UNKNOWN, reason=reason)


def both(first: Verdict, second: Verdict) -> Verdict:
    """Whether a map has two properties."""
    for status in (REFUTED, UNKNOWN):
        for verdict in (first, second):
            if verdict.status == status:
                return verdict
    return YES


MAX_LISTED = 4_096  # points of a box that are looked at one by one

Sides = Sequence[tuple[int, int]]  # first and last of each coordinate


class Run(NamedTuple):
    """Places that differ in the last coordinate alone, from `first` to `last`, and the old points at the first of them
    and what is added to them from one to the next."""

    first: Point
    last: int
    old: Point
    steps: Point


class Listed:
    """The points of a map: `olds` in lexicographic order, each with the place it arrives at.

    Attributes
    ----------
    at: for each place an old point that arrives there, the first of them.
    injective: two points that collide are the first in the order of the second of them.
    """

    def __init__(self, pairs: Iterator[tuple[Point, Point]]) -> None:
        self.at: dict[Point, Point] = {}
        self.injective: Verdict = YES
        for old, new in pairs:
            first = self.at.setdefault(new, old)
            if first is not old and self.injective:
                self.injective = no((first, old), {})

    def ends(self, k: int) -> tuple[int, int] | None:
        """The smallest and the largest value of a coordinate; `None` where there is no point."""
        values = [new[k] for new in self.at]
        return (min(values), max(values)) if values else None

    def surjective(self, sides: Sides) -> Verdict:
        """Whether every place of a box is reached."""
        for place in points_of(*(range(low, high + 1) for low, high in sides)):
            if place not in self.at:
                return no((place,), {})
        return YES

    def inverse(self, place: Sequence[Expr]) -> list[Expr]:
        """The old point that arrives at a place, as expressions that are right where there is one."""
        runs = self._runs()
        if not runs:
            return []
        return [_cases(runs, place, k) for k in range(len(runs[0].old))]

    def condition(self, place: Sequence[Expr]) -> Cond:
        """That some point arrives at a place."""
        return logical_or(*(_within(run, place) for run in self._runs())) if self.at else truth(False)

    def _runs(self) -> list[Run]:
        runs: list[Run] = []
        for new in sorted(self.at):
            old = self.at[new]
            if runs:
                first, last, start, steps = runs[-1]
                length = last - first[-1] + 1
                if first[:-1] == new[:-1] and new[-1] == last + 1:
                    moved = tuple(a - b for a, b in zip(old, start, strict=True))
                    if length == 1 or moved == tuple(s * length for s in steps):
                        runs[-1] = Run(first, new[-1], start, moved if length == 1 else steps)
                        continue
            runs.append(Run(new, new[-1], old, (0,) * len(old)))
        return runs


def _within(run: Run, place: Sequence[Expr]) -> Cond:
    fixed = [y.eq(v) for y, v in zip(place[:-1], run.first, strict=False)]
    low, high = run.first[-1], run.last
    y = place[-1]
    return logical_and(*fixed, *([y.eq(low)] if low == high else [y >= low, y <= high]))


def _value(run: Run, place: Sequence[Expr], k: int) -> Expr:
    step, start = run.steps[k], run.old[k]
    if not step:
        return as_expr(start)
    start -= step * run.first[-1]
    y = place[-1] if step == 1 else place[-1] * step
    return y if not start else y + start if start > 0 else y - -start


def _cases(runs: Sequence[Run], place: Sequence[Expr], k: int) -> Expr:
    """A tree of cases: at each node, whether a place comes before a run in lexicographic order."""
    values = [_value(run, place, k) for run in runs]
    level = [(run.first, value) for run, value in zip(runs, values, strict=True)]
    while len(level) > 1:
        above: list[tuple[Point, Expr]] = []
        for a, b in zip(level[::2], level[1::2], strict=False):
            same = a[1] is b[1]
            above.append((a[0], a[1] if same else select(_before(place, b[0]), a[1], b[1])))
        if len(level) % 2:
            above.append(level[-1])
        level = above
    return level[0][1]


def _before(place: Sequence[Expr], point: Point) -> Cond:
    """That a place comes before a point in lexicographic order."""
    found = place[-1] < point[-1]
    for y, v in zip(reversed(place[:-1]), reversed(point[:-1]), strict=True):
        found = (y < v) | (y.eq(v) & found)
    return found


def listed(
    exprs: Sequence[Expr], box: Mapping[Var, tuple[int, int]], conditions: Sequence[Cond], most: int = MAX_LISTED
) -> Listed | None:
    """The map of the points of a box (first and last of each variable) at which conditions hold; `None` where they are
    more than `most`, or some value is none.

    The conditions and the expressions depend on nothing but the variables.
    """
    spans = [range(low, high + 1) for low, high in box.values()]
    if prod(map(length, spans)) > most:
        return None
    variables = list(box)
    asked = None if not conditions else compiled(logical_and(*conditions), variables)
    functions = [compiled(e, variables) for e in exprs]

    def pairs() -> Iterator[tuple[Point, Point]]:
        for old in points_of(*spans):
            if asked is None or asked(*old):
                yield old, tuple(int(function(*old)) for function in functions)

    try:
        return Listed(pairs())
    except (EvaluationError, ZeroDivisionError, InputError):
        return None

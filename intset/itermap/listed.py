"""`Verdict` on a property of a map; small maps as a table of all points, with inverses by case distinction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product as points_of
from math import prod
from typing import NamedTuple

from intset.budgets import LISTED_MAP_POINTS
from intset.errors import EvaluationError, InputError
from intset.expr.build import logical_and, logical_or, select
from intset.expr.evaluate import compiled, length
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.prover.proof import PROVED, REFUTED, UNKNOWN

Point = tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """Proved, refuted or unknown. `bool(verdict)` is true only when proved.

    Attributes
    ----------
    status: "proved" (for all sizes), "refuted" (for `sizes`) or "unknown".
    points: of a refutation, two old points with one image, or a single new point without a preimage.
    sizes: the values of sizes in the refutation.
    reason: the reason of "unknown" in words.
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
    """The conjunction of two verdicts."""
    for status in (REFUTED, UNKNOWN):
        for verdict in (first, second):
            if verdict.status == status:
                return verdict
    return YES


Sides = Sequence[tuple[int, int]]  # first and last of each coordinate


class ImageRun(NamedTuple):
    """Consecutive places along the last coordinate whose old points form an arithmetic progression.

    `first` is the first place, `last` the last coordinate of the last place, `old` the old point of `first`, and
    `steps` the difference of successive old points.
    """

    first: Point
    last: int
    old: Point
    steps: Point


class Listed:
    """A map as a table from images (places) to old points, filled in lexicographic order.

    Attributes
    ----------
    at: for each place the first old point with that image.
    injective: the verdict; a refutation has the first collision.
    """

    def __init__(self, pairs: Iterator[tuple[Point, Point]]) -> None:
        self.at: dict[Point, Point] = {}
        self.injective: Verdict = YES
        for old, new in pairs:
            first = self.at.setdefault(new, old)
            if first is not old and self.injective:
                self.injective = no((first, old), {})

    def ends(self, k: int) -> tuple[int, int] | None:
        """Minimum and maximum of a coordinate; `None` for an empty map."""
        values = [new[k] for new in self.at]
        return (min(values), max(values)) if values else None

    def surjective(self, sides: Sides) -> Verdict:
        """Decide surjectivity onto a box, place by place."""
        for place in points_of(*(range(low, high + 1) for low, high in sides)):
            if place not in self.at:
                return no((place,), {})
        return YES

    def inverse(self, place: Sequence[Expr]) -> list[Expr]:
        """The preimage of a place as expressions, unspecified for places without one."""
        runs = self._runs()
        if not runs:
            return []
        return [_cases(runs, place, k) for k in range(len(runs[0].old))]

    def condition(self, place: Sequence[Expr]) -> Cond:
        """The condition that a place has a preimage."""
        return logical_or(*(_within(run, place) for run in self._runs())) if self.at else truth(False)

    def _runs(self) -> list[ImageRun]:
        runs: list[ImageRun] = []
        for new in sorted(self.at):
            old = self.at[new]
            if runs:
                first, last, start, steps = runs[-1]
                length = last - first[-1] + 1
                if first[:-1] == new[:-1] and new[-1] == last + 1:
                    moved = tuple(a - b for a, b in zip(old, start, strict=True))
                    if length == 1 or moved == tuple(s * length for s in steps):
                        runs[-1] = ImageRun(first, new[-1], start, moved if length == 1 else steps)
                        continue
            runs.append(ImageRun(new, new[-1], old, (0,) * len(old)))
        return runs


def _within(run: ImageRun, place: Sequence[Expr]) -> Cond:
    fixed = [y.eq(v) for y, v in zip(place[:-1], run.first, strict=False)]
    low, high = run.first[-1], run.last
    y = place[-1]
    return logical_and(*fixed, *([y.eq(low)] if low == high else [y >= low, y <= high]))


def _value(run: ImageRun, place: Sequence[Expr], k: int) -> Expr:
    step, start = run.steps[k], run.old[k]
    if not step:
        return as_expr(start)
    start -= step * run.first[-1]
    y = place[-1] if step == 1 else place[-1] * step
    return y if not start else y + start if start > 0 else y - -start


def _cases(runs: Sequence[ImageRun], place: Sequence[Expr], k: int) -> Expr:
    """A binary decision tree by lexicographic comparison with the first places of runs."""
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
    """The condition that a place precedes a point lexicographically."""
    precedes = place[-1] < point[-1]
    for y, v in zip(reversed(place[:-1]), reversed(point[:-1]), strict=True):
        precedes = (y < v) | (y.eq(v) & precedes)
    return precedes


def listed(
    exprs: Sequence[Expr], box: Mapping[Var, tuple[int, int]], conditions: Sequence[Cond], most: int = LISTED_MAP_POINTS
) -> Listed | None:
    """The table of a map on the points of a box that satisfy conditions; `None` if undefined or too large.

    Parameters
    ----------
    exprs, conditions: over the variables of `box` alone.
    box: first and last value of each variable, at most `most` points.
    """
    spans = [range(low, high + 1) for low, high in box.values()]
    if prod(map(length, spans)) > most:
        return None
    variables = list(box)
    satisfied = None if not conditions else compiled(logical_and(*conditions), variables)
    functions = [compiled(e, variables) for e in exprs]

    def pairs() -> Iterator[tuple[Point, Point]]:
        for old in points_of(*spans):
            if satisfied is None or satisfied(*old):
                yield old, tuple(int(function(*old)) for function in functions)

    try:
        return Listed(pairs())
    except (EvaluationError, ZeroDivisionError, InputError):
        return None

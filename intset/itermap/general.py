"""`Verdict` on a property of any map of indices, by the table of its points, by the prover and by relations.

A small map is listed as a table of all points, which also gives its inverse by case distinction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from itertools import product as points_of
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.domains.ranked import strongest
from intset.domains.sets.region import Region
from intset.errors import BudgetError, EvaluationError, InputError, UndecidedError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag
from intset.expr.build import logical_and, logical_not, logical_or, select
from intset.expr.evaluate import all_hold, compiled, length
from intset.expr.node import PlainVar, truth
from intset.prover.proof import PROVED, REFUTED, UNKNOWN
from intset.ranges import renamed

if TYPE_CHECKING:
    from intset.context import Context

LISTED_MAP_POINTS: Final = 4_096  # points of a box that is enumerated
MAP_SIZES_TRIED: Final = 200  # values of sizes for which a map is listed

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


_TRIED = (2, 1, 3, 5, 4, 6, 8, 7)  # of each size


def injective(ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr]) -> Verdict:
    """Prove that distinct points of a context have distinct images."""
    twins = {v: PlainVar(f"{v.name}_") for v in variables}
    own = set(variables)
    ranges: dict[Var, Range | None] = {twin: ctx.ranges[v].substitute(twins) for v, twin in twins.items()}
    facts = [dag.substitute(f.condition, twins) for f in ctx.facts if any(v in own for v in f.condition.free_vars())]
    equal = [e.eq(dag.substitute(e, twins)) for e in exprs]
    both = ctx.extended(ranges=ranges, facts=[*facts, *equal])
    goal = logical_and(*(v.eq(twin) for v, twin in twins.items()))
    proof = both.prove(goal)
    if proof.status == PROVED:
        return YES
    if proof.status == REFUTED and proof.counterexample is not None:
        values = dict(proof.counterexample)
        if all(v in values and twin in values for v, twin in twins.items()):
            points = tuple(tuple(values[v] for v in row) for row in (twins, twins.values()))
            if not proof.basis.requires:
                sizes = {v: k for v, k in values.items() if isinstance(v, Var) and v not in own}
                for twin in twins.values():
                    sizes.pop(twin, None)
                return no(points, sizes)
    return open_(proof.reason or "neither a proof nor two points that collide were found")


def gap(
    ctx: Context, sizes: Sequence[Var], exprs: Sequence[Expr], around: Context, places: Sequence[Var]
) -> tuple[Region, Region]:
    """(places without a preimage, all places), each tuple preceded by the sizes.

    Raises
    ------
    UndecidedError: the image is not known exactly.
    """
    free: dict[Var, Range | None] = {v: None for v in sizes if v not in ctx.ranges}
    reached = ctx.extended(ranges=free).image((*sizes, *exprs), domain=strongest().name)
    whole = around.extended(ranges=free).image((*sizes, *places), domain=strongest().name)
    if not reached.is_exact or not whole.is_exact:
        raise UndecidedError("; ".join((*reached.notes, *whole.notes)) or "what is reached is not known exactly")
    missed = whole - reached
    if not missed.is_exact:
        raise UndecidedError("; ".join(missed.notes) or "what is missed is not known exactly")
    return missed, whole


def surjective(
    ctx: Context, sizes: Sequence[Var], exprs: Sequence[Expr], around: Context, places: Sequence[Var]
) -> Verdict:
    """Prove that every place in the ranges of `around` has a preimage in `ctx`."""
    try:
        missed, _ = gap(ctx, sizes, exprs, around, places)
        if missed.is_empty:
            return YES
        point = missed.sample()
    except (UndecidedError, BudgetError) as error:
        return open_(str(error))
    if point is None:
        return YES
    return no((tuple(point[len(sizes) :]),), dict(zip(sizes, point, strict=False)))


def padding(ctx: Context, exprs: Sequence[Expr], around: Context, places: Sequence[Var]) -> Cond:
    """The condition that a place in the ranges of `around` has no preimage in `ctx`.

    Raises
    ------
    UndecidedError: the image is not known exactly.
    """
    kept = [v for v in around.ranges if v not in set(places)]
    reached = ctx.image(exprs, keep=kept, domain=strongest().name)
    whole = around.image(tuple(places), keep=kept, domain=strongest().name)
    missed = whole - reached
    if not reached.is_exact or not whole.is_exact or not missed.is_exact:
        raise UndecidedError("; ".join(dict.fromkeys((*reached.notes, *whole.notes, *missed.notes))))
    if missed.is_empty:
        return truth(False)
    inside = reached.condition(places)
    outside = missed.condition(places)
    shorter = logical_not(around.canonical(inside))
    return outside if len(repr(outside)) <= len(repr(shorter)) else shorter


def inverse(ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr], places: Sequence[Var]) -> tuple[Expr, ...]:
    """The preimage of a place, unspecified for places without one.

    Raises
    ------
    UndecidedError: the preimage has no known expressions.
    """
    kept = [v for v in ctx.ranges if v not in set(variables)]
    there = ctx.extended(facts=[e.eq(y) for e, y in zip(exprs, places, strict=True)])
    preimage = there.image(tuple(variables), keep=kept, domain=strongest().name).lexmin()
    if preimage is None:
        raise UndecidedError("there is no point at all")
    return preimage


def at_sizes(
    ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr], sizes: Sequence[Var]
) -> Iterator[tuple[dict[Var, int], Listed]]:
    """Tables of the map at small sizes."""
    for row in islice(points_of(_TRIED, repeat=len(sizes)), MAP_SIZES_TRIED):
        values = dict(zip(sizes, row, strict=True))
        table = _listed_at(ctx, variables, exprs, values)
        if table is not None:
            yield values, table


def _listed_at(
    ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr], values: Mapping[Var, int]
) -> Listed | None:
    ranges, facts = renamed(ctx.ranges, ctx.facts, values, {})
    box = {v: limits.ends for v, limits in ranges.items() if limits is not None and limits.ends is not None}
    conditions = [fact.condition for fact in facts]
    open_facts = [cond for cond in conditions if cond.free_vars()]
    if not set(variables) == box.keys() == ranges.keys() or not box.keys() >= set(dag.free_vars(*open_facts)):
        return None
    if not all_hold([cond for cond in conditions if not cond.free_vars()], {}):
        return None
    return listed([dag.substitute(e, values) for e in exprs], {v: box[v] for v in variables}, open_facts, 512)


__all__ = ["at_sizes", "gap", "injective", "inverse", "padding", "surjective"]

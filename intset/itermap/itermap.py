"""`IterMap`: a map of indices with its structure, inverse and padding; `Verdict` on a property of it.

Maps whose indices are affine forms over F2, such as swizzles: injectivity by rank, inverses by elimination. A small map
is listed as a table of all points, which also gives its inverse by case distinction. The
prover and relations decide all other maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from itertools import product as points_of
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.config import Configured, all_as_configured
from intset.domains.ranked import strongest
from intset.domains.sets.region import Region, product_of
from intset.errors import BudgetError, EvaluationError, InputError, UndecidedError
from intset.expr import Cond, Expr, IntLike, Range, Var, arguments, as_expr, constant_value, dag, ops, shown
from intset.expr.build import ceildiv, logical_and, logical_not, logical_or, maximum, minimum, select
from intset.expr.definedness import definedness
from intset.expr.evaluate import all_hold, compiled, length
from intset.expr.node import POS_INF, Infinity, PlainVar, make, truth
from intset.expr.range import range_conditions
from intset.itermap.structure import Interval, NoStructureError, Scalars, Structure, structure_of
from intset.linear.bitforms import BITWISE, BitForm, CarryError, Columns, Diagonal, RowBasis, combined, kernel_vector
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


_TRIED: Final = (2, 1, 3, 5, 4, 6, 8, 7)  # values of each size for which a map is listed


class BitMap:
    """The rows of a map: those of its indices, one below the other.

    Attributes
    ----------
    variables: of the map, in order.
    forms: of the indices, over `columns`.
    """

    def __init__(self, variables: Sequence[Var], forms: Sequence[BitForm], columns: Columns) -> None:
        self.variables, self.forms, self.columns = tuple(variables), tuple(forms), columns

    @classmethod
    def of(cls, ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr]) -> BitMap | None:
        """The rows of a map with bit operations; `None` if a term is known by its width alone."""
        if not any(node.op in BITWISE for node in dag.postorder(exprs)):
            return None
        known = ctx.frame.known
        columns = Columns(lambda term: known.bounds(known.form(term)))
        try:
            forms = [columns.form(e) for e in exprs]
            for v in variables:
                columns.form(v)
        except CarryError:
            return None
        if columns.fresh or set(columns.places) != set(variables):
            return None
        return cls(variables, forms, columns)

    @cached_property
    def _rows(self) -> list[tuple[int, int, int]]:
        """Each row with its index and bit."""
        return [(row, k, p) for k, form in enumerate(self.forms) for p, row in enumerate(form.rows)]

    @cached_property
    def _basis(self) -> RowBasis:
        return RowBasis(row for row, _, _ in self._rows)

    @cached_property
    def _tails(self) -> dict[Expr, tuple[int, int]] | None:
        """The index and the factor of each tail; `None` unless each tail stands alone in some index."""
        found: dict[Expr, tuple[int, int]] = {}
        for k, form in enumerate(self.forms):
            if len(form.high) == 1:
                ((v, factor),) = form.high.items()
                found.setdefault(v, (k, factor))
        return found if found.keys() == self.columns.tails.keys() else None

    def injective(self, ctx: Context) -> Verdict | None:
        """By rank: proved, or refuted by a point of the kernel; `None` if tails or other conditions decide."""
        if self._basis.rank == self.columns.count:
            return None if self._tails is None else YES
        kernel = kernel_vector([row for row, _, _ in self._rows], self.columns.count)
        if kernel is None or self.columns.tails:
            return None
        change = self.columns.values(kernel)
        one, two = {}, {}
        for v in self.variables:
            start = self.columns.offsets.get(v, 0)
            moved = change[v] - start
            top = 1 << moved.bit_length() - 1 if moved else 0
            one[v], two[v] = start + (top ^ moved), start + top
        points = tuple(sorted(tuple(int(point[v]) for v in self.variables) for point in (one, two)))
        inside = _inside(ctx, self.variables)
        return no(points, {}) if all(all_hold(inside, point) for point in (one, two)) else None

    def inverse(self, places: Sequence[Expr]) -> dict[Var, Expr] | None:
        """The variables as `^` of shifted and masked places; `None` unless the rank and the tails determine them."""
        if self._basis.rank < self.columns.count or self._tails is None:
            return None
        values = {}
        for v in self.variables:
            masks: dict[tuple[int, int], int] = {}
            flip = self.columns.offsets.get(v, 0)
            for b, column in enumerate(self.columns.places[v]):
                row, made_of = self._basis.rows[column]
                flip |= (row & 1) << b
                for given, (_, k, p) in enumerate(self._rows):
                    if made_of >> given & 1:
                        masks[k, p - b] = masks.get((k, p - b), 0) | 1 << p
            if v in self._tails:
                k, factor = self._tails[v]
                if factor <= 0 or factor & (factor - 1):
                    return None
                p = factor.bit_length() - 1
                key = k, p - self.columns.tails[v]
                masks[key] = masks.get(key, 0) | -1 << p
            parts = [Diagonal(places[k], shift, mask, self.forms[k].width) for (k, shift), mask in masks.items()]
            values[v] = combined(parts, flip)
        return values

    def is_onto(self, ctx: Context, there: Context, places: Sequence[Var], exprs: Sequence[Expr]) -> bool:
        """Whether the inverse is proved to lead from each place to a point of `ctx`, and back."""
        values = self.inverse(places)
        if values is None:
            return False
        inside = _inside(ctx, self.variables)
        arriving = [dag.substitute(e, values).eq(y) for e, y in zip(exprs, places, strict=True)]
        return all(there.prove(cond) for cond in (*(dag.substitute(cond, values) for cond in inside), *arriving))


def _inside(ctx: Context, variables: Sequence[Var]) -> list[Cond]:
    """The facts of a context and the ranges of variables as conditions."""
    return [*(f.condition for f in ctx.facts), *(c for v in variables for c in range_conditions(v, ctx.ranges[v]))]


@all_as_configured
class IterMap(Configured):
    """The map from the points of a context to tuples of index expressions.

    The codomain is the box `ranges`: each index from 0 or its minimum, whichever is smaller, to its maximum; an index
    `e % c` has the range `[0, c)`. In a context without points all ranges are empty.

    Attributes
    ----------
    found: whether the expressions have split-and-fuse structure: sums of digits of variables or fused variables, each
        digit used once; offsets, gaps and reversed digits are allowed. The structure implies injectivity and yields
        inverse and padding; other maps are enumerated or solved as relations.
    reason: why there is no structure.
    ranges: ranges of the new indices.
    injective, surjective, bijective: a `Verdict` each, surjective onto `ranges`; vacuously proved without points.
    places: variables for the new indices in `padding`.
    padding: the condition on `places` within `ranges` to have no preimage.

    Raises
    ------
    UndecidedError: from `padding` and `inverse` without a known condition or expression.

    Example
    -------
    >>> from intset import Context, Range, Var
    >>> i = Var("i")
    >>> tiles = Context({i: Range(0, 14)}).as_iter_map([i // 8, i % 8])
    >>> tiles.found, tiles.injective.status, tiles.surjective.points
    (True, 'proved', ((1, 6),))
    >>> io, ii = Var("io"), Var("ii")
    >>> tiles.padding_at((io, ii)), tiles.inverse((io, ii))
    (io * 8 + ii >= 14, {i: io * 8 + ii})
    """

    def __init__(
        self, ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr], within: Sequence[Range] | None = None
    ) -> None:
        self._within = None if within is None else tuple(within)
        self._ctx = ctx = ctx.extended()  # private: later blocks cannot change it
        self.variables, self.exprs = tuple(variables), tuple(exprs)
        self.places = tuple(PlainVar(f"y{k}") for k in range(len(self.exprs)))
        own = set(self.variables)
        self._own = own
        self._held = {v: r for v, r in ctx.ranges.items() if v not in own}
        self._conditions = [f.condition for f in ctx.facts if any(v in own for v in dag.free_vars(f.condition))]
        ends = [e for v in self.variables for e in _ends(ctx.ranges[v])]
        used = dag.free_vars(*self.exprs, *ends, *self._conditions)
        self._sizes = tuple(v for v in used if v not in own)
        self._opaque = bool(dag.opaque_terms(*self.exprs, *ends, *self._conditions))
        extents = [r.extent for r in self._limits() if isinstance(r.extent, Expr) and not r.extent.is_const]
        self._size_extents = [e for e in extents if own.isdisjoint(e.free_vars())]  # over sizes alone
        self._empty = logical_or(*(e <= 0 for e in self._size_extents))

    @property
    def ctx(self) -> Context:
        """A new context with the ranges and facts of the map; its blocks do not affect the map."""
        return self._ctx.extended()

    def _limits(self) -> list[Range]:
        ranges = self._ctx.ranges
        return [ranges[v] for v in self.variables]

    # -- representations ----------------------------------------------------------------------------------------------

    @cached_property
    def _around(self) -> Context:
        """The context of the sizes."""
        facts = [f for f in self._ctx.facts if not any(v in self._own for v in dag.free_vars(f.condition))]
        return type(self._ctx)(self._held, domain=self._ctx.domain).extended(facts=facts)

    @cached_property
    def _there(self) -> Context:
        """The context of the places within their ranges."""
        return self._around.extended(ranges=dict(zip(self.places, self.ranges, strict=True)))

    @cached_property
    def _box(self) -> dict[Var, tuple[int, int]] | None:
        box = {v: r.ends for v, r in zip(self.variables, self._limits(), strict=True)}
        constant = {v: ends for v, ends in box.items() if ends is not None}
        return constant if len(constant) == len(box) else None

    @cached_property
    def _listed(self) -> Listed | None:
        if self._sizes or self._opaque or self._box is None:
            return None
        return listed(self.exprs, self._box, self._conditions)

    @cached_property
    def _read(self) -> Structure | str:
        box: dict[Var, Interval] = {}
        extents: list[Expr] = []
        for v, limits in zip(self.variables, self._limits(), strict=True):
            low, extent = limits.min, limits.extent
            if not isinstance(low, Expr) or not isinstance(extent, Expr):
                return f"{v} has no end"
            if any(u in self._own for u in (*low.free_vars(), *extent.free_vars())):
                return f"the range of {v} depends on another variable"
            extents.append(extent)
            box[v] = (low, extent)
        if any((constant_value(e) or 1) <= 0 or constant_value(e) == 0 for e in extents):
            return "there is no point"
        alive = [e >= 1 for e in extents if not e.is_const]
        scalars = Scalars(self._around.extended(facts=alive) if alive else self._around)
        try:
            short = {v: (scalars.short(low), scalars.short(extent)) for v, (low, extent) in box.items()}
            return structure_of(self.exprs, short, scalars)
        except NoStructureError as error:
            return str(error)

    @property
    def found(self) -> bool:
        return isinstance(self._read, Structure)

    @property
    def reason(self) -> str:
        return self._read if isinstance(self._read, str) else ""

    # -- ranges -------------------------------------------------------------------------------------------------

    @cached_property
    def ranges(self) -> tuple[Range, ...]:
        if self._within is not None:
            return self._within
        return tuple(self._range(k, e) for k, e in enumerate(self.exprs))

    def _range(self, k: int, e: Expr) -> Range:
        if e.op is ops.FLOORMOD and isinstance(e.args[1], Expr) and not self._own.intersection(e.args[1].free_vars()):
            c = self._around.canonical(e.args[1])
            if self._around.prove(c > 0):
                return Range.of_extent(0, c)
            if self._around.prove(c < 0):
                return Range.of_extent(self._around.canonical(c + 1), self._around.canonical(-c))
        if self._listed is not None:
            ends = self._listed.ends(k)
            if ends is None:
                return Range(0, 0)
            start = min(0, ends[0])
            return Range.of_extent(start, ends[1] + 1 - start)
        low, high = self._ctx.bounds(e, keep=tuple(self._held))
        if low is POS_INF:
            return Range(0, 0)
        if not isinstance(low, Expr) or not isinstance(high, Expr):
            return Range.everything()
        known = self._around.extended(facts=[logical_not(self._empty)])
        first = as_expr(0) if known.prove(low >= 0) else low if known.prove(low <= 0) else minimum(0, low)
        return Range.of_extent(first, self._extent(self._around.canonical(high - first + 1)))

    def _extent(self, extent: Expr) -> Expr:
        """An extent that is correct for a nonempty context, extended by 0 for an empty one."""
        extent = _rounded_up(extent)
        if not self._sizes or self._around.prove(logical_not(self._empty)):
            return extent
        nowhere = self._around.extended(facts=[self._empty])
        if nowhere.prove(extent.eq(0)):
            return extent
        if nowhere.prove(extent <= 0):
            return maximum(extent, 0)
        return select(self._empty, 0, extent)

    # -- properties ---------------------------------------------------------------------------------------------

    @cached_property
    def injective(self) -> Verdict:
        return self._unless_vacuous(self._decided_injective())

    def _unless_vacuous(self, verdict: Verdict) -> Verdict:
        """The verdict, proved vacuously for an empty context; a refutation requires a point of the context.

        A table covers the map's own variables; facts about other variables may still exclude every point.
        """
        if verdict:
            return verdict
        nowhere = self._ctx.prove(truth(False))
        if nowhere:
            return YES
        if verdict.status == REFUTED and nowhere.status != REFUTED:
            return open_(f"whether the context has a point is not known: {nowhere.reason}")
        return verdict

    @cached_property
    def _bits(self) -> BitMap | None:
        return BitMap.of(self._ctx, self.variables, self.exprs)

    def _decided_injective(self) -> Verdict:
        if self._bits is not None and (by_rank := self._bits.injective(self._ctx)) is not None:
            return by_rank
        if self._listed is not None:
            return self._listed.injective
        if self.found:
            return YES
        try:
            verdict = self._injective_by_proof()
        except BudgetError as error:
            verdict = open_(str(error))
        if verdict.status == "unknown" and self._sizes:
            for sizes, small in self._small():
                if small.injective.status == "refuted":
                    return no(small.injective.points, sizes)
        return verdict

    def _injective_by_proof(self) -> Verdict:
        """Prove that distinct points of the context have distinct images."""
        ctx, own = self._ctx, self._own
        twins = {v: PlainVar(f"{v.name}_") for v in self.variables}
        ranges: dict[Var, Range | None] = {twin: ctx.ranges[v].substitute(twins) for v, twin in twins.items()}
        facts = [dag.substitute(cond, twins) for cond in self._conditions]
        equal = [e.eq(dag.substitute(e, twins)) for e in self.exprs]
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

    @cached_property
    def surjective(self) -> Verdict:
        return self._unless_vacuous(self._decided_surjective())

    def _decided_surjective(self) -> Verdict:
        if any(not isinstance(e, Expr) for r in self.ranges for e in (r.min, r.extent)):
            return open_("the ranges of the new indices are not known")
        if self._listed is not None:
            return self._listed.surjective([r.ends for r in self.ranges if r.ends is not None])
        if isinstance(self._read, Structure) and not self._conditions:
            return self._by_conditions(self._arriving)
        if self._is_onto:
            return YES
        verdict = self._surjective_by_regions()
        if verdict.status == "unknown" and self._sizes:
            for sizes, small in self._small():
                ends = self._sides_at(sizes)
                missed = small.surjective(ends) if ends is not None else YES
                if not missed:
                    return no(missed.points, sizes)
        return verdict

    def _surjective_by_regions(self) -> Verdict:
        """Prove that every place has a preimage; regions have the sizes as first coordinates."""
        sizes = self._sizes
        free: dict[Var, Range | None] = {v: None for v in sizes if v not in self._ctx.ranges}
        try:
            reached = self._ctx.extended(ranges=free).image((*sizes, *self.exprs), domain=strongest().name)
            whole = self._there.extended(ranges=free).image((*sizes, *self.places), domain=strongest().name)
            if not reached.is_exact or not whole.is_exact:
                return open_("; ".join((*reached.notes, *whole.notes)) or "what is reached is not known exactly")
            missed = whole - reached
            if not missed.is_exact:
                return open_("; ".join(missed.notes) or "what is missed is not known exactly")
            point = None if missed.is_empty else missed.sample()
        except (UndecidedError, BudgetError) as error:
            return open_(str(error))
        if point is None:
            return YES
        return no((tuple(point[len(sizes) :]),), dict(zip(sizes, point, strict=False)))

    @cached_property
    def _is_onto(self) -> bool:
        """Whether an inverse by bits proves that every place has a preimage."""
        return self._bits is not None and self._bits.is_onto(self._ctx, self._there, self.places, self.exprs)

    def _by_conditions(self, arriving: Sequence[Cond]) -> Verdict:
        if not arriving:
            return YES
        proof = self._there.prove(logical_and(*arriving))
        if proof.status == "refuted" and proof.counterexample is not None:
            values = dict(proof.counterexample)
            point = tuple(values.pop(y, 0) for y in self.places)
            return no((point,), {v: k for v, k in values.items() if isinstance(v, Var)})
        return YES if proof else open_(proof.reason or "neither a proof nor a place that is missed was found")

    @property
    def bijective(self) -> Verdict:
        return both(self.injective, self.surjective)

    def _small(self) -> Iterator[tuple[dict[Var, int], Listed]]:
        """Tables of the map at small sizes."""
        for row in islice(points_of(_TRIED, repeat=len(self._sizes)), MAP_SIZES_TRIED):
            sizes = dict(zip(self._sizes, row, strict=True))
            table = self._listed_at(sizes)
            if table is not None:
                yield sizes, table

    def _listed_at(self, sizes: Mapping[Var, int]) -> Listed | None:
        ranges, facts = renamed(self._ctx.ranges, self._ctx.facts, sizes, {})
        box = {v: limits.ends for v, limits in ranges.items() if limits is not None and limits.ends is not None}
        conditions = [fact.condition for fact in facts]
        open_facts = [cond for cond in conditions if cond.free_vars()]
        if not self._own == box.keys() == ranges.keys() or not box.keys() >= set(dag.free_vars(*open_facts)):
            return None
        if not all_hold([cond for cond in conditions if not cond.free_vars()], {}):
            return None
        exprs = [dag.substitute(e, sizes) for e in self.exprs]
        return listed(exprs, {v: box[v] for v in self.variables}, open_facts, 512)

    def _sides_at(self, sizes: dict[Var, int]) -> list[tuple[int, int]] | None:
        sides = []
        for limits in self.ranges:
            ends = [constant_value(self._ctx.canonical(dag.substitute(e, sizes))) for e in _ends(limits)]
            if any(end is None for end in ends) or len(ends) < 2:
                return None
            low, extent = (int(end) for end in ends if end is not None)
            sides.append((low, low + extent - 1))
        return sides

    # -- inverse and padding ------------------------------------------------------------------------------------------

    @cached_property
    def _decoded(self) -> tuple[dict[Var, Expr], list[Cond]]:
        """The inverse by structure, over `places`, and its conditions."""
        assert isinstance(self._read, Structure)
        return self._read.decoded(self.places)

    @cached_property
    def _arriving(self) -> list[Cond]:
        """The conditions for a place to have a preimage, except those that `ranges` imply."""
        values, conditions = self._decoded
        parts = [*conditions, *(dag.substitute(cond, values) for cond in self._conditions)]
        kept: dict[Cond, None] = {}
        for cond in (self._short(part) for whole in parts for part in dag.conjuncts(whole)):
            if cond not in kept and not self._there.prove(cond):
                kept[cond] = None
        # The structure may be that of nonempty loops: with i in [0, n) and n < 2 it reads i as 0, also at n = 0.
        inside = self._there.extended(facts=kept)
        return [*kept, *(e > 0 for e in self._size_extents if not inside.prove(e > 0))]

    def _short(self, cond: Cond) -> Cond:
        """A comparison with each side in canonical form, to read like the inverse."""
        if cond.op not in ops.NEGATED:
            return cond
        left, right = (self._there.canonical(side) for side in cond.args)
        offset = constant_value(left.args[1]) if left.op in (ops.ADD, ops.SUB) else None
        if offset is not None and right.is_const:  # x - 5 < 0 is x < 5
            left, right = left.args[0], as_expr(right.data + (offset if left.op is ops.SUB else -offset))
        short: Cond = make(cond.op, (left, right))
        return short

    @cached_property
    def padding(self) -> Cond:
        if isinstance(self._read, Structure):
            return logical_or(*map(_opposite, self._arriving)) if self._arriving else truth(False)
        if self._is_onto:
            return truth(False)
        try:
            return self._padding_by_regions()
        except (UndecidedError, BudgetError):
            if self._listed is None:
                raise
        return logical_not(self._listed.condition(self.places))

    def _padding_by_regions(self) -> Cond:
        """The padding as the difference of two regions; `UndecidedError` if the image is not known exactly."""
        there = self._there
        kept = tuple(self._held)
        reached = self._ctx.image(self.exprs, keep=kept, domain=strongest().name)
        whole = there.image(self.places, keep=kept, domain=strongest().name)
        missed = whole - reached
        if not reached.is_exact or not whole.is_exact or not missed.is_exact:
            raise UndecidedError("; ".join(dict.fromkeys((*reached.notes, *whole.notes, *missed.notes))))
        if missed.is_empty:
            return truth(False)
        inside = reached.condition(self.places)
        outside = missed.condition(self.places)
        shorter = logical_not(there.canonical(inside))
        return outside if len(repr(outside)) <= len(repr(shorter)) else shorter

    def padding_at(self, place: Sequence[IntLike]) -> Cond:
        """The padding condition at a place within `ranges`: it has no preimage."""
        condition: Cond = dag.substitute(self.padding, self._as_places(place))
        return condition

    def arriving_at(self, place: Sequence[IntLike]) -> Cond:
        """The negation of `padding_at`: a place within `ranges` has a preimage."""
        if not isinstance(self._read, Structure):
            return logical_not(self.padding_at(place))
        condition: Cond = dag.substitute(logical_and(*self._arriving), self._as_places(place))
        return condition

    def inverse(self, place: Sequence[IntLike]) -> dict[Var, Expr]:
        """The preimage of a place as values of the variables, unspecified for places without one.

        Raises
        ------
        InputError: the map is not proved injective, or the number of indices is wrong.
        """
        values = self._as_places(place)
        return {v: dag.substitute(e, values) for v, e in self._inverse.items()}

    @cached_property
    def _inverse(self) -> dict[Var, Expr]:
        if not self.injective:
            raise InputError(self.why_no_inverse())
        if isinstance(self._read, Structure):
            values, _ = self._decoded
            return {v: self._there.canonical(values[v]) for v in self.variables}
        if self._bits is not None and (by_rank := self._bits.inverse(self.places)) is not None:
            return by_rank
        try:
            values_of: Sequence[Expr] = self._inverse_by_regions()
        except (UndecidedError, BudgetError):
            if self._listed is None:
                raise
            values_of = self._listed.inverse(self.places) or [as_expr(0)] * len(self.variables)
        return dict(zip(self.variables, values_of, strict=True))

    def _inverse_by_regions(self) -> tuple[Expr, ...]:
        """The least preimage of each place; `UndecidedError` if it has no known expressions."""
        there = self._ctx.extended(facts=[e.eq(y) for e, y in zip(self.exprs, self.places, strict=True)])
        preimage = there.image(self.variables, keep=tuple(self._held), domain=strongest().name).lexmin()
        if preimage is None:
            raise UndecidedError("there is no point at all")
        return preimage

    def why_no_inverse(self) -> str:
        """Explain why the map has no known inverse."""
        verdict = self.injective
        if verdict.points:
            a, b = verdict.points
            at = ", ".join(f"{v} = {k}" for v, k in verdict.sizes.items())
            return f"the map has no inverse: {a} and {b} arrive at one place{f' for {at}' if at else ''}"
        return f"the map is not known to have an inverse: {verdict.reason}"

    def _as_places(self, place: Sequence[IntLike]) -> dict[Var, Expr]:
        indices = arguments.listed(place, "a place", "a tuple of indices")
        if len(indices) != len(self.places):
            raise InputError(f"the map has {len(self.places)} new indices, not those of {shown(place)}")
        return dict(zip(self.places, map(as_expr, indices), strict=True))

    def image(self) -> Region:
        """The image of the map."""
        region = self._ctx.image(self.exprs, keep=tuple(self._held))
        if region.is_exact or self._listed is None:
            return region
        reached = self._listed.condition(self.places)
        return self._there.extended(facts=[reached]).image(self.places, domain=strongest().name)

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.variables))
        how = "split and fuse" if self.found else self.reason
        return f"<IterMap ({names}) -> ({', '.join(map(repr, self.exprs))}): {how}>"


def iter_map(
    ctx: Context, variables: Sequence[Var], exprs: Sequence[IntLike], within: Sequence[Range] | None = None
) -> IterMap:
    """The map from `variables`, which have ranges in the context, to `exprs`; other variables are sizes.

    Parameters
    ----------
    within: the codomain box, if not the one that `IterMap` derives. Precondition: it contains the image.

    Raises
    ------
    InputError: `exprs` is empty or has an item other than an integer expression, or a variable has no range.
    """
    if isinstance(exprs, (str, Expr)) or not isinstance(exprs, Sequence) or not exprs:
        raise InputError(f"the indices must be a sequence of one or more expressions, not {shown(exprs)}")
    missing = [v for v in variables if v not in ctx.ranges]
    if missing:
        raise InputError(f"{missing[0]} has no range")
    return IterMap(ctx, variables, [as_expr(e, "an index") for e in exprs], within)


def whole_box(ctx: Context, image: Region, exprs: Sequence[Expr]) -> Region:
    """The box of an image as the exact image, if a map with split-and-fuse structure reaches all of it; else the image.

    Parameters
    ----------
    image: a superset of the image of `exprs` over the context.
    """
    frame, variables = ctx.frame, tuple([v for v in dag.free_vars(*exprs) if v in ctx.ranges])
    if frame.defined or any(v in ctx.ranges for fact in frame.facts for v in fact.condition.free_vars()):
        return image  # where a fact may leave no point, a surjection proves nothing
    box = image.box
    shifted = [e - r.min for e, r in zip(exprs, box, strict=True) if isinstance(r.min, Expr)]
    if not variables or len(shifted) < image.dims or any(isinstance(r.extent, Infinity) for r in box):
        return image
    index = iter_map(ctx, variables, shifted, [Range.of_extent(0, r.extent) for r in box])
    if not index.found or index.surjective.status != "proved":
        return image
    return product_of([(r.min, r.max) for r in box], image.by, (), is_exact=True)


def _ends(limits: Range) -> list[Expr]:
    return [e for e in (limits.min, limits.extent) if isinstance(e, Expr)]


def _rounded_up(extent: Expr) -> Expr:
    """`(x - 1) // c + 1` and `(x + c - 1) // c` as `ceildiv(x, c)`."""
    plus, divided = (1, extent.args[0]) if extent.op is ops.ADD and constant_value(extent.args[1]) == 1 else (0, extent)
    if not isinstance(divided, Expr) or divided.op is not ops.FLOORDIV:
        return extent
    x, c = divided.args
    if not isinstance(x, Expr) or not isinstance(c, Expr) or x.op not in (ops.ADD, ops.SUB):
        return extent
    offset, by = constant_value(x.args[1]), constant_value(c)
    if plus and x.op is ops.SUB and offset == 1:
        return ceildiv(x.args[0], c)
    if not plus and x.op is ops.ADD and by is not None and by > 1 and offset == by - 1:
        return ceildiv(x.args[0], c)
    return extent


def _opposite(cond: Cond) -> Cond:
    """The negation; a comparison stays a comparison."""
    if cond.op not in ops.NEGATED:
        return logical_not(cond)
    negated: Cond = make(ops.NEGATED[cond.op], cond.args)
    return negated


__all__ = ["IterMap", "iter_map"]


@dataclass(frozen=True)
class PreimageCount:
    """The number of points of a context: the count of its image under an injective map."""

    ctx: Context
    exprs: tuple[Expr, ...]
    keep: tuple[Var, ...]

    def __call__(self) -> int | Infinity | Expr | None:
        """The count of the points with an image; `None` where the map is not proved injective."""
        ctx = self.ctx.extended(facts=definedness(self.exprs))
        ranges = ctx.ranges
        connected = [{v, *limits.free_vars()} for v, limits in ranges.items() if v not in self.keep]
        connected += [set(f.condition.free_vars()) for f in ctx.facts]
        reached = {v for e in self.exprs for v in e.free_vars()}
        while more := {v for group in connected if (group & reached).intersection(ranges) for v in group} - reached:
            reached |= more
        sources = tuple(v for v in ranges if v in reached and v not in self.keep)
        if self.exprs == sources or not sources or not iter_map(ctx, sources, self.exprs).injective:
            return None
        return ctx.image(sources, self.keep).count()

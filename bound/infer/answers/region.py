"""`StageRegion`: a region of a tensor with the instances of its stage; counts of its elements over all of them.

Sides that share no loop are independent: the total is a product of sums, and the maximum a product of maxima. The sum
over one loop is found by breakpoints (`intset.linear.symbolic`); where sides share loops, or a side depends on
several, the sum is a numeric function of the sizes. Example: tiles of size `t` over 56 elements
that read two more each: the sum of `minimum(t + 2, 58 - t*o)` over `o` in `[0, ceildiv(56, t))`.

An `InstanceCount` visits the instances of a product of intervals at given sizes. A count is an expression, a
symbol with a `NumericFunction`: `evaluate` computes it, and arithmetic and conditions accept it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import groupby
from math import prod
from operator import mul
from typing import Final, NamedTuple

from bound.infer.environment import LoopEnvironment, instances, transitive_ranges
from bound.infer.extents import ends_of, largest, least
from bound.infer.footprint import Box, Footprint
from bound.schedule.simple import extent, low
from intset.config import all_as_configured, as_configured
from intset.domains.sets.base import own_budget
from intset.domains.sets.region import Region, product_of, region_of_shape
from intset.errors import BudgetError, CountError, InputError, UndecidedError
from intset.expr import Cond, Expr, Infinity, IntLike, Range, Var, arguments, as_expr, dag, ops
from intset.expr.build import NumericFunction, logical_and, maximum, minimum, select
from intset.expr.evaluate import compiled
from intset.expr.range import range_conditions
from intset.linear.division import extremum
from intset.linear.form import ZERO, Linear
from intset.linear.symbolic import minimum_pieces, sum_of_pieces
from intset.regions.shape import Shape

REGION_POINTS: Final = 400_000  # visited by one count; also instances of tiles at one value of their sizes

MAX, TOTAL = "count_max", "count_total"
TOTAL_NODES: Final = 2_000  # nodes of a closed total; a longer one is a numeric function


@dataclass(frozen=True)
class InstanceCount:
    """The largest (`MAX`) or the total (`TOTAL`) number of points of boxes over all values of loops.

    Attributes
    ----------
    word: `MAX` or `TOTAL`.
    sizes: the arguments of the function.
    loops: each with its lower end and length, over sizes and the loops before it.
    sides: for each dimension the expressions whose minimum is the length, if positive.
    where: the conditions of an instance.
    axes: the number of last loops that run over the elements of an instance.
    """

    word: str
    sizes: tuple[Var, ...]
    loops: tuple[tuple[Var, Expr, Expr], ...]
    sides: tuple[tuple[Expr, ...], ...]
    where: tuple[Cond, ...]
    axes: int = 0

    def __reduce__(self) -> tuple[object, ...]:
        return InstanceCount, (self.word, self.sizes, self.loops, self.sides, self.where, self.axes)

    @cached_property
    def _program(self) -> tuple[list[tuple[Callable[..., int], Callable[..., int]]], Callable[..., int]]:
        """The ends of each loop and the number of points of an instance, as functions of sizes and loops."""
        known, ends = list(self.sizes), []
        for v, start, length in self.loops:
            ends.append((compiled(start, known), compiled(length, known)))
            known.append(v)
        number = as_expr(1)
        for extents in self.sides:
            number = number * maximum(minimum(*extents), 0)
        return ends, compiled(select(logical_and(*self.where), number, 0) if self.where else number, known)

    def __call__(self, *sizes: int) -> int:
        """The count at these sizes.

        Raises
        ------
        ZeroDivisionError: an end is undefined.
        BudgetError: there are more than `REGION_POINTS` instances.
        """
        ends, number = self._program
        instances = [sizes]
        for start, length in ends:
            spans = [range(first := start(*point), first + length(*point)) for point in instances]
            if sum(map(len, spans)) > REGION_POINTS:
                raise BudgetError(f"more than {REGION_POINTS} instances are to be counted", "REGION_POINTS")
            instances = [(*point, x) for point, span in zip(instances, spans, strict=True) for x in span]
        outer = len(sizes) + len(self.loops) - self.axes  # points of one instance follow one another
        counts = (sum(number(*point) for point in points) for _, points in groupby(instances, lambda p: p[:outer]))
        return sum(counts) if self.word == TOTAL else max(counts, default=0)


def count_term(function: InstanceCount | CountAtSizes) -> Expr:
    """A count as a term over its sizes."""
    symbol = NumericFunction(function.word, len(function.sizes), function, lower=0)
    return symbol(*function.sizes)


class CountGroup(NamedTuple):
    """Sides and conditions of a box that depend on the same loops, and these loops, in order of dependence."""

    sides: list[list[Linear]]
    where: list[Cond]
    loops: list[Var]

    def joined(self, other: CountGroup) -> CountGroup:
        """Both groups as one."""
        loops = list(dict.fromkeys((*self.loops, *other.loops)))
        return CountGroup([*self.sides, *other.sides], [*self.where, *other.where], loops)


def count_of_box(env: LoopEnvironment, box: Box, loops: Sequence[Var], word: str) -> Expr | None:
    """The largest (`MAX`) or the total (`TOTAL`) number of elements of the instances of a box, over sizes.

    `None` if a loop around is none of `loops`.
    """
    known, groups = env.normalizer, _groups(env, box, loops)
    if groups is None:
        return None
    factors: list[Expr] = []
    needed: list[Linear] = []  # numbers of iterations that an instance needs
    for group in groups:
        number = _iterations(env, group)
        if number is None:
            closed = _closed(env, group, word) if _is_simple(env, group) else None
            factors.append(_numeric(env, group, word) if closed is None else env.total(closed))
        elif word == TOTAL:
            factors.append(env.total(extremum(known, ops.MAX, number, ZERO).expr()))
        elif not known.is_positive(number):
            needed.append(number)
    return reduce(lambda total, number: select(env.total(number.expr()) >= 1, total, 0), needed, _product(factors))


def _closed(env: LoopEnvironment, group: CountGroup, word: str) -> Expr | None:
    """The largest extent of the side of a group, or the sum of its extents over at most one loop.

    `None` without a closed form.
    """
    forms, own = group.sides[0], group.loops
    if word == MAX:
        most = largest(env, forms, own)
        return None if most is None else most.expr()
    if not own:
        return least(env.normalizer, forms).expr()
    pieces = minimum_pieces(env.normalizer, forms, own[0], *ends_of(env, own[0])) if len(own) == 1 else None
    return None if pieces is None else sum_of_pieces(env.normalizer, pieces)


def _product(factors: Sequence[Expr]) -> Expr:
    number = prod(e.data for e in factors if e.is_const)
    varying = [e for e in factors if not e.is_const]
    if not varying or number == 0:
        return as_expr(number)
    total = reduce(mul, varying)
    return total if number == 1 else total * number


def _groups(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> list[CountGroup] | None:
    """The sides and conditions of a box in groups that share no loop; every loop is in one of them.

    `None`: a side, condition or range depends on another loop than `loops`.
    """
    conditions = box.guard()
    extents = [list(side.extents()) for side in box.sides]
    parts = [CountGroup([forms], [], _loops_of(env, [e for form in forms for e in form.terms])) for forms in extents]
    parts += [CountGroup([], [cond], _loops_of(env, [cond])) for cond in conditions]
    parts += [CountGroup([], [], _loops_of(env, [v])) for v in loops]
    groups: list[CountGroup] = []
    for part in parts:
        if any(v not in loops for v in part.loops):
            return None
        apart = [group for group in groups if not set(group.loops).intersection(part.loops)]
        sharing = [group for group in groups if set(group.loops).intersection(part.loops)]
        groups = [*apart, reduce(CountGroup.joined, (*sharing, part))]
    order = {v: k for k, v in enumerate(env.ranges)}
    return [group._replace(loops=sorted(group.loops, key=order.__getitem__)) for group in groups]


def _loops_of(env: LoopEnvironment, terms: Iterable[Expr | Cond]) -> list[Var]:
    """The loops in terms, and all loops that their ranges mention."""
    return list(transitive_ranges(env, dag.free_vars(*terms)))


def _is_simple(env: LoopEnvironment, group: CountGroup) -> bool:
    """Whether a group is one side over loops whose ranges mention no loop."""
    is_nested = any(v in env.ranges for loop in group.loops for v in env.ranges[loop].free_vars())
    return len(group.sides) == 1 and not group.where and not is_nested


def _iterations(env: LoopEnvironment, group: CountGroup) -> Linear | None:
    """The number of iterations of a loop that no side, condition or other range depends on; `None` for other groups."""
    if group.sides or group.where or len(group.loops) > 1:
        return None
    return env.form(extent(env.ranges[group.loops[0]]))


def _numeric(env: LoopEnvironment, group: CountGroup, word: str) -> Expr:
    """Count a group by a numeric function of its sizes."""
    loops = tuple((v, *ends_over_sizes(env, v)) for v in group.loops)
    sides = tuple(number_of(env, (form.expr() for form in forms)) for forms in group.sides)
    where = tuple(part for cond in group.where for part in (*env.unmet(cond), cond))
    around = dag.free_vars(*(e for _, *ends in loops for e in ends), *(e for side in sides for e in side), *where)
    sizes = tuple(v for v in around if v not in env.ranges)
    function = InstanceCount(word, sizes, loops, sides, where)
    return env.count_of(function, lambda: count_term(function))


def ends_over_sizes(env: LoopEnvironment, v: Var) -> tuple[Expr, Expr]:
    """The lower end and extent of a loop, and 0 where one has no value: the loop never runs."""
    return env.total(low(env.ranges[v])), env.total(extent(env.ranges[v]))


def number_of(env: LoopEnvironment, extents: Iterable[Expr]) -> tuple[Expr, ...]:
    """The extents of a side; an extent without value becomes 0, an empty side."""
    forms = tuple(extents)
    needs = env.unmet(*forms)
    return (select(logical_and(*needs), minimum(*forms), 0),) if needs else forms


@all_as_configured
class StageRegion(Region):
    """Elements of a tensor, as a region over sizes and the loops that distinguish instances of its stage.

    Guarantee: as for every region; counts and emptiness speak of instances within the ranges of the loops.

    Attributes
    ----------
    fixed: these loop variables, outermost first; the region may depend on fewer.
    aliases: further keys of `at`: a root axis, with its rebased loop and start.
    """

    def __init__(
        self,
        env: LoopEnvironment,
        footprint: Footprint,
        fixed: Sequence[Var],
        aliases: Mapping[Var, tuple[Var, Expr]] | None = None,
    ) -> None:
        self._env, self._footprint = env, footprint
        self.fixed = tuple(fixed)
        self.aliases = dict(aliases or {})
        self.dims = footprint.dims
        self.by = "box" if footprint.box is not None else env.regions.name
        self.is_exact, self.notes = footprint.exact, footprint.notes

    @property
    def params(self) -> tuple[Var, ...]:
        return self._footprint.variables()

    @property
    def is_box(self) -> bool:
        """Whether the region equals its box in every instance."""
        return self._footprint.box is not None

    @property
    def is_tight(self) -> bool:
        hull = self._footprint.hull(self._env)
        return self.is_exact and (hull is self._footprint.box or self._footprint.has_ends)

    @property
    def is_empty(self) -> bool:
        box = self._footprint.box
        if box is not None and not box.is_conditional() and not box.variables():
            return any(gap.const < 0 for side in box.sides for gap in side.gaps)
        try:
            alive = self._alive()
            with own_budget(alive):
                return alive.is_empty()
        except BudgetError:
            return False

    @cached_property
    def box(self) -> tuple[Range, ...]:
        return tuple(side.range() for side in self._footprint.hull(self._env).sides)

    @property
    def shape(self) -> Shape:
        """The region as a shape; loop ranges do not bound its parameters."""
        return self._footprint.shape(self._env)

    def _loops(self) -> list[Var]:
        """The loop variables that distinguish instances."""
        return [v for v in dict.fromkeys((*self.params, *self.fixed)) if v in self._env.ranges]

    def _alive(self, loops: Sequence[Var] | None = None) -> Shape:
        """The shape restricted to instances: of `loops`, or of all loops around."""
        shape = self.shape
        if loops is None:
            return shape.intersect_params(instances(self._env, self._loops()))
        rest = [v for v in shape.atoms() if isinstance(v, Var) and v in self._env.ranges and v not in loops]
        return shape.intersect_params(instances(self._env, [*loops, *rest])).without(rest)

    def count(self) -> int | Infinity | Expr:
        box = self._footprint.box
        if box is not None and not box.is_conditional():
            extents = [side.range().extent for side in box.sides]
            numbers = [self._env.number(e) if isinstance(e, Expr) else None for e in extents]
            if all(n is not None for n in numbers):
                return prod(max(n, 0) for n in numbers if n is not None)
        try:
            return self._formed(lambda: self.shape).count()
        except UndecidedError as error:
            raise CountError(f"counting is out of budget: {error}") from error

    def count_max(self) -> int | Infinity | Expr:
        """The largest number of elements of an instance: an int, or an expression over sizes.

        Raises
        ------
        CountError: as for `count_total`.
        """
        return self._count_over_sizes(MAX)

    def count_total(self) -> int | Infinity | Expr:
        """The number of elements of all instances together: an int, or an expression over sizes.

        The expression is a closed form, or has terms of numeric functions: `evaluate` counts the instances of a box at
        the sizes, or the elements of the region there.

        Raises
        ------
        CountError: counting is out of budget.
        """
        return self._count_over_sizes(TOTAL)

    def _count_over_sizes(self, word: str) -> int | Infinity | Expr:
        closed, sizes = self._count_of_box(word), tuple(self._sizes())
        if isinstance(closed, int) or (closed is not None and not dag.opaque_terms(closed)):
            return closed
        if sizes and word == TOTAL and (form := self._total_form()) is not None:
            return form
        if sizes and closed is not None:
            return closed
        try:
            return self._count_at_known_sizes(word)
        except CountError:
            if not sizes:
                raise
            key = (word, self._footprint, self.fixed)
            return self._env.count_of(key, lambda: count_term(CountAtSizes(word, sizes, self)))

    def _total_form(self) -> Expr | None:
        """The total as a closed form over sizes: the points of the region and its loops, where both are affine.

        `None` with tiles of unknown length, or beyond a budget.
        """
        env, loops = self._env, self._loops()
        if not self.is_exact:
            return None
        ranges = transitive_ranges(env, loops)
        inside = [cond for v, r in ranges.items() for cond in range_conditions(v, r)]
        try:
            run = env.shapes.where((), logical_and(*inside)).without([v for v in ranges if v not in loops])
            total = self.shape.intersect_params(run).params_to_dims(loops).count()
        except (BudgetError, CountError, UndecidedError):
            return None
        if isinstance(total, Infinity):
            return None
        form = env.total(as_expr(total))
        return form if dag.is_small(TOTAL_NODES, (form,)) and not dag.opaque_terms(form) else None

    @as_configured
    def _count_at(self, word: str, sizes: Mapping[Var, int]) -> int:
        """The largest or the total number of elements of the instances, at values of all sizes.

        Guarantee: the count of this region; beyond the budget, of a superset, that of the box around each instance.

        Raises
        ------
        ZeroDivisionError: a fact excludes these sizes.
        BudgetError: there are more than `REGION_POINTS` instances, or more such points around an exact region.
        """
        env, loops = self._env, self._loops()
        if excluding := self._excluding({v: as_expr(number) for v, number in sizes.items()}):
            raise ZeroDivisionError(f"{excluding[0]} excludes these sizes")
        ranges = [
            (v, *(dag.substitute(e, sizes) for e in ends_over_sizes(env, v))) for v in transitive_ranges(env, loops)
        ]
        try:
            inside = [cond for v, first, number in ranges for cond in (v >= first, v < first + number)]
            run = env.shapes.where((), logical_and(*inside)).without([v for v, *_ in ranges if v not in loops])
            counts = self.shape.at(sizes).intersect_params(run).counts(loops, REGION_POINTS)
        except (BudgetError, CountError):
            return self._visited_count(word, sizes)
        number = counts[word != MAX]
        return number if isinstance(number, int) else self._visited_count(word, sizes)  # without a bound at these sizes

    def _visited_count(self, word: str, sizes: Mapping[Var, int]) -> int:
        """The count by a visit to every point of the box around each instance.

        With too many points, or without a condition of membership: at values of symbolic sizes the count of these
        boxes, of a superset.
        """
        env, hull = self._env, self._footprint.hull(self._env)
        around = transitive_ranges(env, (*self._loops(), *hull.variables()))
        loops = tuple((v, *ends_over_sizes(env, v)) for v in env.ranges if v in around)
        conditions = hull.guard()
        where = (*env.unmet(*conditions), *conditions)
        point = [Var(f"x{k}") for k in range(self.dims)]
        sides = [number_of(env, (form.expr() for form in side.extents())) for side in hull.sides]
        lows = (env.total(side.low()) for side in hull.sides)
        axes = tuple((x, first, minimum(*side)) for x, first, side in zip(point, lows, sides, strict=True))
        try:
            members = (*where, *self._members(point))
            return InstanceCount(word, tuple(sizes), (*loops, *axes), (), members, self.dims)(*sizes.values())
        except BudgetError:
            if self.is_exact or not sizes:
                raise
        return InstanceCount(word, tuple(sizes), loops, tuple(sides), where)(*sizes.values())

    def _count_of_box(self, word: str) -> int | Expr | None:
        """A count of a box over sizes; `None` for other regions."""
        box = self._footprint.box
        if box is None:
            return None
        closed = count_of_box(self._env, box, self._loops(), word)
        number = None if closed is None else self._env.number(closed)
        return closed if number is None else number

    def _sizes(self) -> list[Var]:
        """Sizes that the footprint or a loop range mentions."""
        footprint, ranges = self._footprint, transitive_ranges(self._env, self._loops())
        around = [v for r in ranges.values() for v in r.free_vars()]
        return [v for v in dict.fromkeys((*footprint.variables(), *around)) if v not in self._env.ranges]

    def _count_at_known_sizes(self, word: str) -> int | Infinity:
        """The domain's count, or a count of visited points; the visit comes first where ends are not affine."""
        loops, box = self._loops(), self._footprint.box
        is_listed = not self._sizes() and all(v in loops for v in transitive_ranges(self._env, loops))
        if is_listed and box is not None and not box.is_affine():
            with suppress(BudgetError, InputError):  # data decides what is in the region
                return self._visited_count(word, {})
        try:
            return self._counted()[word != MAX]
        except BudgetError as error:
            if is_listed:
                with suppress(BudgetError, InputError):
                    return self._visited_count(word, {})
            raise CountError(f"counting is out of budget: {error}") from error

    def _counted(self) -> tuple[int | Infinity, int | Infinity]:
        """The counts by the domain, over all instances, including those of loops absent from the region."""
        alive, loops = self._alive(), self._loops()
        for size in alive.atoms():
            if size in loops:
                continue
            if any(v in self._env.ranges for v in size.free_vars()):
                raise BudgetError(f"{size} is not affine")
            raise CountError(
                f"the count depends on {size} and has no closed form: "
                "fix the sizes with bounds.at({...}) or infer_bound(..., at={...})"
            )
        return alive.counts(loops, REGION_POINTS)

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        """The region at values of loop variables or sizes; a root axis names its loop.

        The region is empty outside the ranges of its loops and of the loops given. It is also empty at sizes excluded
        by a fact or a declared bound; then a note names the fact.
        """
        named: dict[object, Var] = {v.name: v for v in self.fixed if v not in self.params}
        table: dict[Var, IntLike] = {}
        for key, value in arguments.mapped(values, "values", "a mapping {Var: value}").items():
            var = named.get(key, key)
            alias = self.aliases.get(var)
            if alias is None or var in self.params:
                table[var] = value
            else:
                table[alias[0]] = as_expr(value) - dag.substitute(alias[1], dict(values))
        return super().at(table)

    def _relied_on(self) -> tuple[Cond, ...]:
        """The user's facts about sizes."""
        return tuple(fact.condition for fact in self._env.context.facts)

    def substituted(self, values: Mapping[Var, Expr]) -> Region:
        loops = [v for v in self._loops() if v in self.params or v in values]
        try:
            return self._formed(lambda: self._alive(loops)).at(values)
        except UndecidedError as error:
            return product_of(self.outer_box().pairs, "box", (*self.notes, f"its box was used: {error}")).at(values)

    def condition(self, point: Sequence[IntLike]) -> Cond:
        try:
            return logical_and(*self._members([as_expr(x) for x in point]))
        except BudgetError as error:
            raise UndecidedError(f"the region has no condition that could be written: {error}") from error

    def _members(self, point: Sequence[Expr]) -> list[Cond]:
        """Membership conditions; each is defined where its predecessors hold. Raises `BudgetError`."""
        conditions = self._footprint.conditions(point)
        return [*self._env.unmet(*conditions), *conditions]

    def in_instances(self) -> Region:
        """The region restricted to its instances.

        Raises
        ------
        UndecidedError: the budget ends before the region is formed.
        """
        return self._formed(self._alive)

    def _formed(self, form: Callable[[], Shape]) -> Region:
        try:
            shape = form()
        except BudgetError as error:
            raise UndecidedError(f"the region cannot be formed: {error}") from error
        return region_of_shape(shape, self.is_exact, self.notes, self.outer_box(), self._env.regions.name)


@dataclass(frozen=True)
class CountAtSizes:
    """A count of a region over its instances, at values of its sizes.

    The nest over sizes moves the points of this region, also where an inference at the values finds fewer.

    Attributes
    ----------
    word: `MAX` or `TOTAL`.
    sizes: the arguments of the function.
    region: what is counted.
    """

    word: str
    sizes: tuple[Var, ...]
    region: StageRegion

    def __call__(self, *sizes: int) -> int:
        """The count at these sizes.

        Raises
        ------
        ZeroDivisionError: a fact excludes these sizes, such as a tile of size 0.
        BudgetError: there are more than `REGION_POINTS` instances.
        """
        return self.region._count_at(self.word, dict(zip(self.sizes, sizes, strict=True)))

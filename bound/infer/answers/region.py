"""`StageRegion`: a tensor region with the instances of its stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from bound.infer.answers.numeric_counts import MAX, TOTAL, InstanceCount, count_term
from bound.infer.answers.tile_counts import ends_over_sizes, largest_count, number_of, total_count
from bound.infer.footprints.box import Box
from bound.infer.footprints.environment import LoopEnvironment, instances, transitive_ranges
from bound.infer.footprints.extents import enumerate_counts, enumerate_extents
from bound.infer.footprints.footprint import Footprint
from bound.schedule.simple import extent, low
from intset.budgets import REGION_POINTS
from intset.config import all_as_configured, as_configured
from intset.domains.sets.bounds import own_budget
from intset.domains.sets.region import Region, product_of, region_of_shape
from intset.errors import BudgetError, CountError, UndecidedError
from intset.expr.arguments import mapped
from intset.expr.build import logical_and, maximum, minimum
from intset.expr.dag import is_small, opaque_terms, substitute
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.range import Range
from intset.infinity import Infinity
from intset.regions.shape import Shape

TOTAL_NODES: Final = 2_000  # nodes of a closed total; a longer one is a numeric function


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

    def _is_written_as(self, other: object) -> bool:
        """Whether both are structurally equal boxes."""
        its = other._footprint.box if isinstance(other, StageRegion) else None
        return its is not None and self._footprint.box is not None and self._footprint.box.key() == its.key()

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
        if box is not None and not box.where and not box.also and not box.variables():
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

    def _last_of(self, side: Range) -> Expr | Infinity:
        return self._env.simplified(side.max) if isinstance(side.max, Expr) else side.max

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
        if box is not None and not box.where and not box.also:
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
        return self._count_over_sizes(MAX, largest_count, 0)

    def count_total(self) -> int | Infinity | Expr:
        """The number of elements of all instances together: an int, or an expression over sizes.

        The expression is a closed form, or has terms of numeric functions: `evaluate` counts the instances of a box at
        the sizes, or the elements of the region there.

        Raises
        ------
        CountError: counting is out of budget.
        """
        return self._count_over_sizes(TOTAL, total_count, 1)

    def _count_over_sizes(
        self, word: str, count: Callable[[LoopEnvironment, Box, Sequence[Var]], Expr | None], k: int
    ) -> int | Infinity | Expr:
        closed = self._count_of_box(count)
        if isinstance(closed, int) or (closed is not None and not opaque_terms(closed)):
            return closed
        if word == TOTAL and (form := self._total_form()) is not None:
            return form
        if closed is not None:
            return closed
        try:
            return self._counts()[k]
        except CountError:
            sizes = tuple(self._sizes())
            if not sizes:
                raise
            key = (word, self._footprint, self.fixed)
            return self._env.count_of(key, lambda: count_term(CountAtSizes(word, sizes, self)))

    def _total_form(self) -> Expr | None:
        """The total as a closed form over sizes: the points of the region and its loops, where both are affine.

        `None` with tiles of unknown length, or beyond a budget.
        """
        env, loops = self._env, self._loops()
        if not self._sizes() or not self.is_exact:
            return None
        ranges = transitive_ranges(env, loops)
        inside = [cond for v, r in ranges.items() for cond in (v >= low(r), v < low(r) + extent(r))]
        try:
            run = env.shapes.where((), logical_and(*inside)).without([v for v in ranges if v not in loops])
            total = self.shape.intersect_params(run).params_to_dims(loops).count()
        except (BudgetError, CountError, UndecidedError):
            return None
        if isinstance(total, Infinity):
            return None
        form = env.total(as_expr(total))
        return form if is_small(TOTAL_NODES, (form,)) and not opaque_terms(form) else None

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
        ranges = [(v, *(substitute(e, sizes) for e in ends_over_sizes(env, v))) for v in transitive_ranges(env, loops)]
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

        With too many points, or without a condition of membership: the count of these boxes, of a superset.
        """
        env, hull = self._env, self._footprint.hull(self._env)
        around = transitive_ranges(env, (*self._loops(), *hull.variables()))
        loops = tuple((v, *ends_over_sizes(env, v)) for v in env.ranges if v in around)
        conditions = [*(form.expr() >= 0 for form in hull.where), *hull.also]
        where = (*env.unmet(*conditions), *conditions)
        point = [Var(f"x{k}") for k in range(self.dims)]
        sides = [number_of(env, (form.expr() for form in side.extents())) for side in hull.sides]
        lows = (env.total(maximum(*(form.expr() for form in side.lows))) for side in hull.sides)
        axes = tuple((x, first, minimum(*side)) for x, first, side in zip(point, lows, sides, strict=True))
        try:
            members = (*where, *self._members(point))
            return InstanceCount(word, tuple(sizes), (*loops, *axes), (), members, self.dims)(*sizes.values())
        except BudgetError:
            if self.is_exact:
                raise
        return InstanceCount(word, tuple(sizes), loops, tuple(sides), where)(*sizes.values())

    def _count_of_box(self, count: Callable[[LoopEnvironment, Box, Sequence[Var]], Expr | None]) -> int | Expr | None:
        """A count of a box over sizes; `None` for other regions."""
        box = self._footprint.box
        if box is None or self._simple_counts() is not None or not self._sizes():
            return None
        closed = count(self._env, box, self._loops())
        number = None if closed is None else self._env.number(closed)
        return closed if number is None else number

    def _sizes(self) -> list[Var]:
        """Sizes that the footprint or a loop range mentions."""
        footprint, ranges = self._footprint, transitive_ranges(self._env, self._loops())
        around = [v for r in ranges.values() for v in r.free_vars()]
        return [v for v in dict.fromkeys((*footprint.variables(), *around)) if v not in self._env.ranges]

    def _counts(self) -> tuple[int | Infinity, int | Infinity]:
        simple = self._simple_counts() or self._visited_counts()
        if simple is not None:
            return simple
        try:
            return self._counted()
        except BudgetError as error:
            with suppress(BudgetError):
                listed = enumerate_counts(self._env, self._footprint, self.fixed)
                if listed is not None:
                    return listed
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

    def _simple_counts(self) -> tuple[int, int] | None:
        """The counts of a box of constant extents over a box of instances, else `None`."""
        box = self._footprint.box
        if box is None or box.where or box.also:
            return None
        size = 1
        for side in box.sides:
            extents = side.extents()
            if len(extents) != 1 or not extents[0].is_const:
                return None
            size *= max(extents[0].const, 0)
        number = 1
        for v in self._loops():
            ends = self._env.ranges[v].constant()
            if ends is None:
                return None
            number *= max(ends[1] - ends[0] + 1, 0)
        return (size if number else 0), size * number

    def _visited_counts(self) -> tuple[int, int] | None:
        """The counts of a box with nonlinear ends by enumeration, else `None`."""
        box = self._footprint.box
        visited = None if box is None or box.is_affine() else enumerate_extents(self._env, box, self.fixed)
        if visited is None:
            return None
        most = total = 0
        for extents in visited:
            number = prod(extents)
            most, total = max(most, number), total + number
        return most, total

    def at(self, values: Mapping[Var, IntLike]) -> Region:
        """The region at values of loop variables or sizes; a root axis names its loop.

        The region is empty outside the ranges of its loops and of the loops given. It is also empty at sizes excluded
        by a fact or a declared bound; then a note names the fact.
        """
        named: dict[object, Var] = {v.name: v for v in self.fixed if v not in self.params}
        table: dict[Var, IntLike] = {}
        for key, value in mapped(values, "values", "a mapping {Var: value}").items():
            var = named.get(key, key)
            alias = self.aliases.get(var)
            if alias is None or var in self.params:
                table[var] = value
            else:
                table[alias[0]] = as_expr(value) - substitute(alias[1], dict(values))
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
        """The conditions of membership, each with a value where those before it hold; `BudgetError`."""
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


__all__ = ["Box", "StageRegion"]

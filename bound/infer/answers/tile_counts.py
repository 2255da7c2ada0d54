"""Counts of a box over all instances, for tiles of unknown size.

Sides that share no loop are independent: the total is a product of sums, and the maximum a product of maxima. The sum
over one loop is found by breakpoints (`intset.linear.symbolic`); where sides share loops, or a side depends on
several, the sum is a numeric function of the sizes (`numeric_counts.py`). Example: tiles of size `t` over 56 elements
that read two more each: the sum of `minimum(t + 2, 58 - t*o)` over `o` in `[0, ceildiv(56, t))`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from operator import mul
from typing import NamedTuple

from bound.infer.answers.numeric_counts import MAX, TOTAL, InstanceCount, count_term
from bound.infer.footprints.box import Box
from bound.infer.footprints.environment import LoopEnvironment, transitive_ranges
from bound.infer.footprints.largest import ends_of, largest, least
from bound.schedule.simple import extent, low
from intset.expr import ops
from intset.expr.build import logical_and, minimum, select
from intset.expr.dag import free_vars
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.linear.division import extremum
from intset.linear.form import ZERO, Linear
from intset.linear.symbolic import minimum_pieces, sum_of_pieces


class CountGroup(NamedTuple):
    """Sides and conditions of a box that depend on the same loops, and these loops, in order of dependence."""

    sides: list[list[Linear]]
    where: list[Cond]
    loops: list[Var]

    def joined(self, other: CountGroup) -> CountGroup:
        """Both groups as one."""
        loops = list(dict.fromkeys((*self.loops, *other.loops)))
        return CountGroup([*self.sides, *other.sides], [*self.where, *other.where], loops)


def largest_count(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> Expr | None:
    """The largest number of elements of an instance, over sizes; `None` if a loop around is none of `loops`."""
    known, groups = env.normalizer, _groups(env, box, loops)
    if groups is None:
        return None
    factors: list[Expr] = []
    numbers: list[Linear] = []
    for group in groups:
        number = _iterations(env, group)
        if number is not None:
            numbers += [] if known.is_positive(number) else [number]
            continue
        most = largest(env, group.sides[0], group.loops) if _is_simple(env, group) else None
        factors.append(_numeric(env, group, MAX) if most is None else env.total(most.expr()))
    return reduce(lambda total, number: select(env.total(number.expr()) >= 1, total, 0), numbers, _product(factors))


def total_count(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> Expr | None:
    """The number of elements of all instances together, over sizes; `None` if a loop around is none of `loops`."""
    groups = _groups(env, box, loops)
    if groups is None:
        return None
    factors: list[Expr] = []
    for group in groups:
        number = _iterations(env, group)
        if number is not None:
            factors.append(env.total(extremum(env.normalizer, ops.MAX, number, ZERO).expr()))
            continue
        total = _total(env, group.sides[0], group.loops) if _is_simple(env, group) else None
        factors.append(_numeric(env, group, TOTAL) if total is None else env.total(total))
    return _product(factors)


def _total(env: LoopEnvironment, forms: list[Linear], own: Sequence[Var]) -> Expr | None:
    """Sum the extents of a side over at most one loop; `None` without a closed form."""
    if not own:
        return least(env.normalizer, forms).expr()
    if len(own) > 1:
        return None
    pieces = minimum_pieces(env.normalizer, forms, own[0], *ends_of(env, own[0]))
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
    conditions = [*(form.expr() >= 0 for form in box.where), *box.also]
    parts = [CountGroup([forms], [], _loops_of(env, _atoms(forms))) for forms in (list(s.extents()) for s in box.sides)]
    parts += [CountGroup([], [cond], _loops_of(env, cond.free_vars())) for cond in conditions]
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


def _atoms(forms: Sequence[Linear]) -> Iterable[Var]:
    return (v for form in forms for e in form.terms for v in e.free_vars())


def _loops_of(env: LoopEnvironment, variables: Iterable[Var]) -> list[Var]:
    """The loops among variables, and all loops that their ranges mention."""
    return list(transitive_ranges(env, variables))


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
    around = free_vars(*(e for _, *ends in loops for e in ends), *(e for side in sides for e in side), *where)
    sizes = tuple(v for v in around if v not in env.ranges)
    function = InstanceCount(word, sizes, loops, sides, where)
    return env.count_of(function, lambda: count_term(function))


def ends_over_sizes(env: LoopEnvironment, v: Var) -> tuple[Expr, Expr]:
    """The lower end and extent of a loop, and 0 where one has no value: the loop never runs."""
    return env.total(low(env.ranges[v])), env.total(extent(env.ranges[v]))


def number_of(env: LoopEnvironment, extents: Iterable[Expr]) -> tuple[Expr, ...]:
    """The extents of a side, and 0 where one of them has no value: no element is there."""
    forms = tuple(extents)
    needs = env.unmet(*forms)
    return (select(logical_and(*needs), minimum(*forms), 0),) if needs else forms

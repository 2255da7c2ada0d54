"""Counts of a box over all instances in closed form, for tiles of unknown size.

Where each side depends on loops of its own, the total is a product of sums and the maximum a product of maxima. A sum
over one loop is found by breakpoints (`intset.linear.breakpoints`). Example: tiles of size `t` over 56 elements that
read two more each: the sum of `minimum(t + 2, 58 - t*o)` over `o` in `[0, ceildiv(56, t))`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from operator import mul

from bound.infer.footprints.box import Box
from bound.infer.footprints.environment import LoopEnvironment
from bound.schedule.simple import extent, low
from intset.expr import ops
from intset.expr.build import maximum, select
from intset.expr.node import Expr, Var, as_expr
from intset.linear.breakpoints import affine_in, greatest_of_pieces, minimum_pieces, sum_of_pieces, value_at
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear, atom, constant
from intset.linear.operations import extremum


def largest_count(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> Expr | None:
    """The largest number of elements of an instance, over sizes; `None` without a closed form."""
    known, groups = env.normalizer, _groups(env, box, loops)
    if groups is None:
        return None
    sides: list[Expr] = []
    for forms, own in groups:
        most = _largest(env, forms, own)
        if most is None:
            return None
        sides.append(most.expr())
    total = _product(sides)
    used = [v for _, own in groups for v in own]
    for v in loops:
        number = env.form(extent(env.ranges[v]))
        if v not in used and not known.is_positive(number):
            total = select(number.expr() >= 1, total, 0)
    return total


def total_count(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> Expr | None:
    """The number of elements of all instances together, over sizes; `None` without a closed form."""
    known, groups = env.normalizer, _groups(env, box, loops)
    if groups is None or any(len(own) > 1 for _, own in groups):
        return None
    sides: list[Expr] = []
    for forms, own in groups:
        if own:
            first, end = _ends(env, own[0])
            pieces = minimum_pieces(known, forms, own[0], first, end)
            if pieces is None:
                return None
            sides.append(sum_of_pieces(pieces))
        else:
            sides.append(_least(known, forms).expr())
    used = [v for _, own in groups for v in own]
    for v in loops:
        if v not in used:
            number = env.form(extent(env.ranges[v]))
            sides.append(extremum(known, ops.MAX, number, ZERO).expr())
    return _product(sides)


def _product(factors: Sequence[Expr]) -> Expr:
    number = prod(e.data for e in factors if e.is_const)
    varying = [e for e in factors if not e.is_const]
    if not varying or number == 0:
        return as_expr(number)
    total = reduce(mul, varying)
    return total if number == 1 else total * number


def _groups(env: LoopEnvironment, box: Box, loops: Sequence[Var]) -> list[tuple[list[Linear], list[Var]]] | None:
    """For each side the forms whose minimum is its extent, and its loops.

    `None`: sides share a loop, a loop depends on another one, or the box is conditional.
    """
    if box.is_conditional() or any(_loops_in(env, [env.form(e) for e in _range(env, v)]) for v in loops):
        return None
    seen: set[Var] = set()
    groups = []
    for side in box.sides:
        forms = list(side.extents())
        own = _loops_in(env, forms)
        if seen.intersection(own) or any(v not in loops for v in own):
            return None
        seen.update(own)
        groups.append((forms, own))
    return groups


def _range(env: LoopEnvironment, v: Var) -> tuple[Expr, Expr]:
    return low(env.ranges[v]), extent(env.ranges[v])


def _loops_in(env: LoopEnvironment, forms: Sequence[Linear]) -> list[Var]:
    return list(dict.fromkeys(v for form in forms for e in form.terms for v in e.free_vars() if v in env.ranges))


def _ends(env: LoopEnvironment, v: Var) -> tuple[Linear, Linear]:
    first, number = (env.form(e) for e in _range(env, v))
    return first, first.plus(number)


def _least(known: Normalizer, forms: Sequence[Linear]) -> Linear:
    """The extent of a side: the least form, at least 0."""
    least = reduce(lambda a, b: extremum(known, ops.MIN, a, b), forms)
    return extremum(known, ops.MAX, least, ZERO)


def _largest(env: LoopEnvironment, forms: Sequence[Linear], own: Sequence[Var]) -> Linear | None:
    """The largest extent of a side over its loops; `None` if no loop end is proved to attain it."""
    known, runs, left = env.normalizer, constant(1), []
    for v in own:
        first, end = _ends(env, v)
        lines = [affine_in(known, form, v) for form in forms]
        kept = [line for line in lines if line is not None]
        if len(kept) < len(lines):
            return None
        flat = [line.slope.is_const and not line.slope.const for line in kept]
        signs = {line.sign for line, is_flat in zip(kept, flat, strict=True) if not is_flat}
        if len(signs) > 1:
            left.append(v)
            continue
        place = end.shift(-1) if signs == {1} else first
        forms = [value_at(known, line, place) for line in kept]
        number = end.minus(first)
        if not known.is_positive(number):
            runs = known.product(runs, atom(select(number.expr() >= 1, 1, 0)))
    if len(left) > 1:
        return None
    if not left:
        return known.product(runs, _least(known, forms))
    first, end = _ends(env, left[0])
    pieces = minimum_pieces(known, forms, left[0], first, end)
    if pieces is None:
        return None
    values: list[Expr] = []
    for number, line, place in greatest_of_pieces(pieces):
        value = value_at(known, line, place).expr()
        values.append(value if known.is_positive(number) else select(number.expr() >= 1, value, 0))
    return known.product(runs, env.form(maximum(0, *values)))

"""The largest value, over loops, of a minimum of forms: extents and counts of tiles of unknown size.

A quotient by a number is affine on each residue class of its loop: `(t*o + 1) // 2` is `t*j + 1 // 2` for `o = 2*j` and
`t*j + (t + 1) // 2` for `o = 2*j + 1`. On a class, forms that fall are largest at its first iteration, and forms that
rise at its last; where some fall and some rise, the largest minimum stands where they cross
(`intset.linear.symbolic`).

Example: the rows of a tensor of 8 that tiles of `t` of 16 read, each row twice, are at most
`maximum(ceildiv(t, 2), t - t // 2)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import lcm
from typing import Final

from bound.infer.footprints.environment import LoopEnvironment, transitive_ranges
from bound.schedule.simple import extent, low
from intset.expr import ops
from intset.expr.build import maximum, minimum, select
from intset.expr.dag import operations, postorder, substitute
from intset.expr.node import Expr, Var
from intset.linear.canonical import Normalizer
from intset.linear.division import extremum
from intset.linear.form import ZERO, Linear, atom, constant
from intset.linear.symbolic import Affine, affine_in, greatest_of_pieces, minimum_pieces, value_at

RESIDUE_CLASSES: Final = 16  # residue classes of loops over which one extent is largest

_NUMBER = Var("number")  # of an iteration within its residue class


def ends_of(env: LoopEnvironment, v: Var) -> tuple[Linear, Linear]:
    """The first iteration of a loop, and the one after the last."""
    first, number = env.form(low(env.ranges[v])), env.form(extent(env.ranges[v]))
    return first, first.plus(number)


def least(known: Normalizer, forms: Sequence[Linear]) -> Linear:
    """The extent of a side: the least form, at least 0."""
    smallest = reduce(lambda a, b: extremum(known, ops.MIN, a, b), forms)
    return extremum(known, ops.MAX, smallest, ZERO)


def largest(env: LoopEnvironment, forms: Sequence[Linear], own: Sequence[Var]) -> Linear | None:
    """The largest extent of a side over its loops; `None` if no loop end is proved to attain it."""
    known, runs, left = env.normalizer, constant(1), []
    for v in own:
        first, end = ends_of(env, v)
        lines = [affine_in(known, form, v) for form in forms]
        kept = [line for line in lines if line is not None]
        if len(kept) < len(lines):
            return None
        signs = {line.sign for line in kept if not _is_flat(line)}
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
        return known.product(runs, least(known, forms))
    first, end = ends_of(env, left[0])
    pieces = minimum_pieces(known, forms, left[0], first, end)
    if pieces is None:
        return None
    values: list[Expr] = []
    for number, line, place in greatest_of_pieces(pieces):
        value = value_at(known, line, place).expr()
        values.append(value if known.is_positive(number) else select(number.expr() >= 1, value, 0))
    return known.product(runs, env.form(maximum(0, *values)))


def bound_by_classes(env: LoopEnvironment, forms: Sequence[Linear]) -> Expr | None:
    """An upper bound, over all loops, of the least of forms with quotients of loops; `None` for others, or if unknown.

    It is attained where on each residue class all forms fall, or all rise.
    """
    if not any(_is_quotient_of_loop(env, e) for form in forms for e in form.terms):
        return None
    cases: list[tuple[Linear, ...]] = [tuple(forms)]
    for v in reversed(env.ranges):
        following: dict[object, tuple[Linear, ...]] = {}
        for case in cases:
            parts = _over_classes(env, case, v)
            if parts is None:
                return None
            for part in parts:
                few = _without_larger(env, part)
                following[frozenset(form.key() for form in few)] = few
        cases = _without_smaller(env, list(following.values()))
        if len(cases) > RESIDUE_CLASSES:
            return None
    return maximum(*(minimum(*(form.expr() for form in case)) for case in cases))


def _is_quotient_of_loop(env: LoopEnvironment, e: Expr) -> bool:
    """Whether a term with a quotient depends on both a loop (directly or through its range) and a size."""
    loops = transitive_ranges(env, e.free_vars())
    around = (*e.free_vars(), *(v for r in loops.values() for v in r.free_vars()))
    return bool(loops) and ops.FLOORDIV in operations(e) and any(v not in env.ranges for v in around)


def _without_larger(env: LoopEnvironment, forms: Sequence[Linear]) -> tuple[Linear, ...]:
    """Drop forms that another form never exceeds."""
    kept: list[Linear] = []
    for form in forms:
        if not any(env.is_nonneg(form.minus(other)) for other in kept):
            kept = [*(other for other in kept if not env.is_nonneg(other.minus(form))), form]
    return tuple(kept)


def _without_smaller(env: LoopEnvironment, cases: Sequence[tuple[Linear, ...]]) -> list[tuple[Linear, ...]]:
    """The minima of forms, without the ones that never exceed another minimum."""
    kept: list[tuple[Linear, ...]] = []
    for case in cases:
        if not any(_is_at_most(env, case, other) for other in kept):
            kept = [*(other for other in kept if not _is_at_most(env, other, case)), case]
    return kept


def _is_at_most(env: LoopEnvironment, a: Sequence[Linear], b: Sequence[Linear]) -> bool:
    """Whether the minimum of `a` provably never exceeds the minimum of `b`."""
    return all(any(env.is_nonneg(y.minus(x)) for x in a) for y in b)


def _over_classes(env: LoopEnvironment, case: Sequence[Linear], v: Var) -> list[tuple[Linear, ...]] | None:
    """For each residue class of a loop, forms with a minimum of at least `case`'s; `None` if unknown."""
    depends = [any(v in e.free_vars() for e in form.terms) for form in case]
    if not any(depends):
        return [tuple(case)]
    divisors = _divisors(case, v)
    period = 0 if divisors is None else lcm(*divisors)
    if not 1 <= period <= RESIDUE_CLASSES:
        return None
    known, (first, end) = env.normalizer, ends_of(env, v)
    parts = []
    for q in range(period):
        place = first.shift(q).plus(atom(_NUMBER), period).expr()
        kept = []
        for form, changes in zip(case, depends, strict=True):
            line = affine_in(known, env.form(substitute(form.expr(), {v: place})), _NUMBER) if changes else None
            if not changes:
                kept.append(form)
            elif line is not None and (_is_flat(line) or line.sign < 0):
                kept.append(line.rest)
            elif line is not None:
                last = env.form(end.shift(-1 - q).minus(first).expr() // period)
                kept.append(value_at(known, line, last))
        if not kept:
            return None
        parts.append(tuple(kept))
    return parts


def _divisors(case: Sequence[Linear], v: Var) -> list[int] | None:
    """The divisors of quotients of a loop; `None` where it stands in another operation, or under a symbolic divisor."""
    divisors = [1]
    for node in postorder([e for form in case for e in form.terms]):
        if node is v or v not in node.free_vars() or node.op in (ops.ADD, ops.SUB, ops.MUL, ops.NEG):
            continue
        if node.op is not ops.FLOORDIV or not node.args[1].is_const or node.args[1].data < 1:
            return None
        divisors.append(node.args[1].data)
    return divisors


def _is_flat(line: Affine) -> bool:
    return line.slope.is_const and not line.slope.const

"""Properties of arbitrary maps of indices, by the prover and by relations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product as points_of
from typing import TYPE_CHECKING

from intset.budgets import MAP_SIZES_TRIED
from intset.domains.ranked import strongest
from intset.domains.sets.region import Region
from intset.errors import BudgetError, UndecidedError
from intset.expr.build import logical_and, logical_not
from intset.expr.dag import substitute
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, PlainVar, Var, truth
from intset.expr.range import Range
from intset.itermap.listed import YES, Listed, Verdict, listed, no, open_
from intset.prover.proof import PROVED, REFUTED

if TYPE_CHECKING:
    from intset.context import Context

_TRIED = (2, 1, 3, 5, 4, 6, 8, 7)  # of each size


def injective(ctx: Context, variables: Sequence[Var], exprs: Sequence[Expr]) -> Verdict:
    """Prove that distinct points of a context have distinct images."""
    twins = {v: PlainVar(f"{v.name}_") for v in variables}
    own = set(variables)
    ranges: dict[Var, Range | None] = {}
    for v, twin in twins.items():
        limits = ctx.ranges[v]
        ranges[twin] = _replaced(limits, twins)
    facts = [substitute(f.condition, twins) for f in ctx.facts if any(v in own for v in f.condition.free_vars())]
    equal = [e.eq(substitute(e, twins)) for e in exprs]
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


def _replaced(limits: Range, twins: Mapping[Var, Expr]) -> Range:
    if not any(v in twins for v in limits.free_vars()):
        return limits
    low, extent = limits.min, limits.extent
    if not isinstance(low, Expr) or not isinstance(extent, Expr):
        raise BudgetError("a range without an end that depends on another variable")
    return Range(substitute(low, twins), substitute(extent, twins))


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
    own = set(variables)
    for tried, row in enumerate(points_of(_TRIED, repeat=len(sizes))):
        if tried >= MAP_SIZES_TRIED:
            return
        values = dict(zip(sizes, row, strict=True))
        table = _listed_at(ctx, own, variables, exprs, values)
        if table is not None:
            yield values, table


def _listed_at(
    ctx: Context, own: set[Var], variables: Sequence[Var], exprs: Sequence[Expr], values: Mapping[Var, int]
) -> Listed | None:
    facts = [substitute(fact.condition, values) for fact in ctx.facts]
    open_facts = []
    for fact in facts:
        names = fact.free_vars()
        if not names:
            try:
                if not evaluate(fact, {}):
                    return None
            except ArithmeticError:
                return None
        elif own.issuperset(names):
            open_facts.append(fact)
        else:
            return None
    box: dict[Var, tuple[int, int]] = {}
    for v, limits in ctx.ranges.items():
        low, high = limits.min, limits.max
        if not isinstance(low, Expr) or not isinstance(high, Expr):
            return None
        ends = [substitute(e, values) for e in (low, high)]
        if any(e.free_vars() for e in ends):
            return None
        first, last = (int(evaluate(e, {})) for e in ends)
        if v in own:
            box[v] = (first, last)
        elif v not in values or not first <= values[v] <= last:
            return None
    for v, k in values.items():
        low_, high_, step = v.declared()
        if (low_ is not None and k < low_) or (high_ is not None and k > high_) or k % step:
            return None
    return listed([substitute(e, values) for e in exprs], {v: box[v] for v in variables}, open_facts, 512)


__all__ = ["at_sizes", "gap", "injective", "inverse", "padding", "surjective"]

"""Sums over the points of regions, and upper bounds of counts.

A weight is one more coordinate: the sum of `f` over points where it is not negative is the number of pairs of a point
and a number `0 <= w < f`. A product has one coordinate per factor. Where a factor is negative, its opposite is
counted and subtracted. So every sum is a count of Presburger sets, a closed form of the sizes.

>>> from intset import Context, Range, ShapeVar, Var, sum_over, upper_bound
>>> n, i, j = ShapeVar("n"), Var("i"), Var("j")
>>> triangle = Context({i: Range(0, n), j: Range(0, i + 1)}).image([i, j])
>>> total = sum_over(i * j, triangle)
>>> int(total.substitute({n: 4}))
25
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple, TypeAlias

from intset.context import Context
from intset.domains.ranked import strongest
from intset.domains.sets.base import check_countable, count_of, own_budget, refusing
from intset.domains.sets.ends import as_number, sum_of_counts
from intset.domains.sets.region import Region
from intset.errors import CountError, InputError, IntSetError
from intset.expr import Expr, Infinity, IntLike, ShapeVar, Var, arguments, as_expr, constant_value, dag, shown
from intset.expr.build import logical_and, maximum, select
from intset.expr.definedness import is_partial
from intset.linear.canonical import form_of
from intset.linear.form import factors
from intset.regions.shape import Ceiling, Shape, coordinates

COMPARED_BOUNDS: Final = 8  # bounds that are compared with one another

Weight: TypeAlias = "IntLike | Callable[..., IntLike]"


def sum_over(weight: Weight, region: Region, point: Sequence[Var] | None = None) -> int | Expr:
    """The sum of a weight over all points of a region: an `int`, or a closed form over `region.params`.

    Parameters
    ----------
    weight: an integer expression over the coordinates and sizes, or a function of the coordinates that returns one.
    point: the coordinate variables of `weight`. By default those whose image the region is, as in
        `ctx.image([i, j])`; else variables called `d0`, `d1` and so on, as in `Region.constraints`.

    Raises
    ------
    CountError: the region is infinite or a superset, the weight is no polynomial of Presburger terms or may be
        undefined, or the closed form is out of budget.
    InputError: a variable of the weight is neither a coordinate nor a size of the region.
    """
    points = arguments.of_kind(Region, region, "the second argument of sum_over", "a region")
    fresh = coordinates(points.dims)
    e = _over(weight, points, point, fresh)
    check_countable(points)
    if points.is_empty:
        return 0
    if is_partial(e):
        raise CountError(f"the weight {shown(e)} may be undefined")
    with refusing(CountError, "the sum has no closed form here"):
        inside = strongest().everything(points.dims).intersect(points.shape)
        form = form_of(e)
        terms = [_times(form.const, _sum_of((), inside, fresh))] if form.const else []
        for monomial, coefficient in form.terms.items():
            every = factors(monomial)
            varying = [f for f in every if any(v in fresh for v in dag.free_vars(f))]
            outside = [f for f in every if not any(f is v for v in varying)]
            terms.append(prod(outside, start=_times(coefficient, _sum_of(varying, inside, fresh))))
    return sum_of_counts(terms)


def _times(factor: int, total: int | Expr) -> int | Expr:
    value = constant_value(as_expr(total))
    if value is not None:
        return factor * value
    return total if factor == 1 else total * factor


def _over(weight: Weight, region: Region, point: Sequence[Var] | None, fresh: Sequence[Var]) -> Expr:
    """The weight over fresh coordinates.

    Raises
    ------
    InputError: a variable of the weight is neither a coordinate nor a size of the region.
    """
    if callable(weight):
        return as_expr(weight(*fresh), "the value of the weight")
    e = as_expr(weight, "the weight")
    own = region.point if point is None else region.point_of(point, as_expr)
    names = [e.name if isinstance(e, Var) else "" for e in own] or [f"d{k}" for k in range(region.dims)]
    known = {v: x for v, x in zip(own, fresh, strict=bool(own)) if isinstance(v, Var)}
    others = [v for v in dag.free_vars(e) if v not in known and v not in region.params]
    known |= {v: fresh[names.index(v.name)] for v in others if v.name in names}
    if unknown := [v for v in others if v not in known and not isinstance(v, ShapeVar)]:
        raise InputError(
            f"{unknown[0]} is no coordinate of the region: state the coordinates, as in sum_over(i * j, region, [i, j])"
        )
    return e.substitute(known)


def _sum_of(weights: Sequence[Expr], inside: Shape, point: Sequence[Var]) -> int | Expr:
    """The sum of the product of the weights."""
    extra = coordinates(len(weights), "w")
    total: list[int | Expr] = []
    for signs in product((1, -1), repeat=len(weights)):
        parts = [part for w, f, sign in zip(extra, weights, signs, strict=True) for part in (w >= 0, w < f * sign)]
        shape = inside
        if weights:
            with own_budget(inside):
                shape = inside.product_with(inside.everything(len(weights)), 0)
                shape = shape.filter([*point, *extra], logical_and(*parts))
            if shape.is_empty():
                continue
        found = count_of(shape)
        if isinstance(found, Infinity):
            raise CountError("the region is infinite, and so is its sum")
        total.append(_times(prod(signs), found))
    return sum_of_counts(total)


# -- upper bounds ------------------------------------------------------------------------------------------------------


class UpperBound(NamedTuple):
    """A number that a count does not exceed.

    Attributes
    ----------
    value: an `int`, an expression over the sizes, or `POS_INF` where no bound is known.
    is_tight: whether the count reaches it, for all sizes with a point in the context.
    """

    value: int | Expr | Infinity
    is_tight: bool


def upper_bound(count: IntLike | Infinity, ctx: Context) -> UpperBound:
    """An upper bound of a count over all values of the variables that have a range in `ctx`.

    Guarantee: the count never exceeds `value` at any point of the context. Variables without a range are sizes.

    Parameters
    ----------
    count: a polynomial of quotients and remainders with choices, such as `Region.count` returns, or any expression.

    >>> n, t = ShapeVar("n"), Var("t")
    >>> upper_bound(t * (n - t), Context({t: Range(0, 8)}, [n >= 16]))
    UpperBound(value=n * 7 - 49, is_tight=True)
    """
    arguments.of_kind(Context, ctx, "the second argument of upper_bound", "a Context")
    if isinstance(count, Infinity):
        return UpperBound(count, True)
    e = as_expr(count, "the count")
    value = constant_value(e)
    if value is not None:
        return UpperBound(value, True)
    try:
        found = _bernstein(e, ctx)
    except IntSetError:
        found = None
    if found is not None and found.is_tight:
        return found
    bounds = ctx.bounds(e)
    plain = UpperBound(as_number(bounds[1]), bounds.is_tight)
    return plain if found is None or plain.is_tight else found


def _bernstein(e: Expr, ctx: Context) -> UpperBound | None:
    """The bound by Bernstein coefficients; `None` if the context has no point."""
    varying = [v for v in dag.free_vars(e) if v in ctx.ranges]
    points = ctx.image(varying)
    with own_budget(points.shape):
        inside = strongest().everything(points.dims).intersect(points.shape)
        found = inside.ceilings(e, varying)
    if not found:
        return None
    needed = [_needed(piece, ctx) for piece in found]
    value = maximum(*needed[-1])
    for piece, values in zip(reversed(found[:-1]), reversed(needed[:-1]), strict=True):
        value = select(piece.where, maximum(*values), value)
    is_tight = points.is_exact and all(all(values.values()) for values in needed)
    return UpperBound(as_number(ctx.simplify(value)), is_tight)


def _needed(piece: Ceiling, ctx: Context) -> dict[Expr, bool]:
    """The values that no other attained value is proved to reach or exceed."""
    values = dict(piece.values)
    attained = [value for value, is_attained in values.items() if is_attained]
    if len(values) == 1 or not attained or len(values) > COMPARED_BOUNDS:
        return values
    with ctx.assuming(piece.where) as inside:
        for value in [*(v for v in piece.values if v not in attained), *attained]:
            others = [e for e in attained if e is not value and e in values]
            if any(inside.prove(value <= e) for e in others):
                del values[value]
    return values


__all__ = ["UpperBound", "sum_over", "upper_bound"]

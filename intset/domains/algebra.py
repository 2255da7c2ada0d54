"""The algebra of regions: what a region answers, and what it claims, where its shape refuses.

A `Shape` is exact or refuses (`intset.regions`); a region is a sound superset of what was asked for. So an operation on
regions is exact when it is on the shapes and the regions are; where a shape refuses, or a region is a superset that
would make the answer wrong, the answer is a superset with a note, or where that would be unsound a typed refusal:

=====================  ==================================================================================
union, projection      the box
intersection           the left side
difference             the left side, also when the right one is a superset: it may hold points that are to stay
emptiness, inclusion   not known to be
extremum, sample,      `UndecidedError`
pieces
=====================  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from intset.domains.box import product_of
from intset.domains.combine import outline_of, region_shape
from intset.domains.isl.sets import IslRegion, Presburger
from intset.domains.isl.shape import IslShape, of
from intset.domains.outline import Outline
from intset.domains.region import Region
from intset.domains.shaped import ShapeRegion, own_budget
from intset.errors import BudgetError, InputError, UndecidedError
from intset.expr.node import Expr, as_int
from intset.infinity import Infinity
from intset.regions.derived import coordinates
from intset.regions.shape import Shape

T = TypeVar("T")

MAX_PIECES = 64


def shape_of(region: Region) -> Shape:
    """The points of a region.

    Raises
    ------
    BudgetError: they are not known as such, only a box around them is.
    """
    own = own_shape(region)
    if own is not None:
        return own
    found = region_shape(region)
    if found is None:
        raise BudgetError("the region is no Presburger set")
    return of(found)


def own_shape(region: Region) -> Shape | None:
    """The shape that a region is kept as; `None` where it is kept in another way."""
    if isinstance(region, ShapeRegion):
        return region.shape
    return of(region.shape) if isinstance(region, IslRegion) else None


def made(
    shape: Shape, dims: int, exact: bool, notes: Sequence[str] = (), outline: Outline | None = None, by: str = "isl"
) -> Region:
    """A region of a shape."""
    once = tuple(dict.fromkeys(notes))
    if isinstance(shape, IslShape):
        return IslRegion(Presburger(shape.get(), shape.params), by, exact, once, dims, outline)
    return ShapeRegion(shape, by, exact, once, outline)


def difference(a: Region, b: Region) -> Region:
    """The points of `a` that are not in `b`."""
    if a.dims != b.dims:
        raise InputError(f"a region of {b.dims} dimensions cannot be taken from one of {a.dims}")
    if not b.is_exact:
        return superset(a, "what was to be taken away is not known exactly, so nothing was")
    try:
        left, right = shape_of(a), shape_of(b)
        with own_budget(left):
            found = left.subtract(right.like(left))
    except BudgetError as error:
        return superset(a, f"nothing was taken away: {error}")
    return made(found, a.dims, a.is_exact, a.notes, outline_of(a))


def superset(region: Region, note: str) -> Region:
    """The same points, as more than what was asked for."""
    notes = (*region.notes, note)
    try:
        return made(shape_of(region), region.dims, False, notes, outline_of(region))
    except BudgetError:
        return product_of(outline_of(region).sides, region.by, notes)


def project(region: Region, dims: Sequence[int]) -> Region:
    """The region in some of its coordinates, in the order given."""
    chosen = [as_int(k, "a dimension") for k in dims]
    if any(not 0 <= k < region.dims for k in chosen) or len(set(chosen)) < len(chosen):
        raise InputError(f"dimensions of a region of {region.dims} are different numbers from 0, not {tuple(chosen)}")
    outline = Outline(lambda: [outline_of(region).sides[k] for k in chosen])
    try:
        shape = shape_of(region)
        with own_budget(shape):
            found = shape.project(chosen)
    except BudgetError as error:
        return product_of(outline.sides, region.by, (*region.notes, f"projected as a box: {error}"))
    return made(found, len(chosen), region.is_exact, region.notes, outline)


def composed(a: Region, b: Region, shared: int) -> Region:
    """The points `(x, z)` for which some `y` of `shared` coordinates has `(x, y)` in `a` and `(y, z)` in `b`."""
    first, last = a.dims - shared, b.dims - shared
    notes, exact = (*a.notes, *b.notes), a.is_exact and b.is_exact

    def sides() -> list[tuple[Expr | Infinity, Expr | Infinity]]:
        return [*outline_of(a).sides[:first], *outline_of(b).sides[shared:]]

    try:
        left, right = shape_of(a), shape_of(b)
        with own_budget(left):
            both = left.product_with(right.like(left), shared)
            found = both.project([*range(first), *range(first + shared, first + shared + last)])
    except BudgetError as error:
        return product_of(sides(), a.by, (*notes, f"composed as boxes: {error}"))
    return made(found, first + last, exact, notes, Outline(sides))


def extremum(region: Region, side: int) -> tuple[Expr, ...] | None:
    """The lexicographically smallest (`side` -1) or largest (+1) point, over the parameters; `None` for none at all."""
    which = "smallest" if side < 0 else "largest"
    if not region.is_exact:
        raise UndecidedError(f"the {which} point of a region that is not exact is not known")

    def found(shape: Shape) -> tuple[Expr, ...] | None:
        if shape.is_empty():
            return None
        point = shape.lexmin() if side < 0 else shape.lexmax()
        ends = [point.end(k, side) for k in range(region.dims)]
        if any(isinstance(e, Infinity) for e in ends):
            raise BudgetError("there is no end to it")
        return tuple(e for e in ends if isinstance(e, Expr))

    return _decided(region, f"the {which} point", found)


def sample(region: Region) -> tuple[int, ...] | None:
    """A point of the region, for some values of its parameters; `None` for none at all."""
    if not region.is_exact:
        raise UndecidedError("a point of a region that is not exact need not be one of what was asked for")
    return _decided(region, "a point", lambda shape: shape.sample())


def pieces(region: Region, order: Sequence[int] | None = None) -> tuple[Region, ...]:
    """Disjoint convex regions that are this one together, over its coordinates in the order given."""
    turned = region if order is None else project(region, order)
    if turned.dims != region.dims:
        raise InputError(f"the order of a region of {region.dims} dimensions names all of them")

    def found(shape: Shape) -> tuple[Region, ...]:
        parts = shape.pieces(MAX_PIECES)
        if parts is None:
            raise BudgetError(f"no {MAX_PIECES} disjoint pieces were found")
        return tuple(made(part, region.dims, region.is_exact, region.notes) for part in parts)

    return _decided(turned, "disjoint pieces", found)


def hull(region: Region) -> Region:
    """The box around the region, in each instance."""
    try:
        shape = shape_of(region)
        with own_budget(shape):
            found = shape.hull()
    except BudgetError as error:
        notes = (*region.notes, f"the box of all instances: {error}")
        return product_of(outline_of(region).sides, region.by, notes)
    return made(found, region.dims, region.is_exact, region.notes, outline_of(region))


def extreme_targets(region: Region, sources: int, side: int) -> Region:
    """Of pairs (source, target) each source with the smallest (`side` -1) or largest (+1) of its targets."""
    which = "smallest" if side < 0 else "largest"
    if not region.is_exact:
        raise UndecidedError(f"the {which} targets of a relation that is not exact are not known")

    def found(shape: Shape) -> Region:
        names = coordinates(sources, "s")
        fibres = shape.fibred(names)
        ends = (fibres.lexmin() if side < 0 else fibres.lexmax()).lifted(names)
        return made(ends, region.dims, True, region.notes, outline_of(region))

    return _decided(region, f"the {which} targets", found)


def _decided(region: Region, what: str, answer: Callable[[Shape], T]) -> T:
    try:
        shape = shape_of(region)
        with own_budget(shape):
            return answer(shape)
    except BudgetError as error:
        raise UndecidedError(f"{what} of the region is not known: {error}") from error

"""The largest and the total number of points of the instances of an isl set."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.budgets import COUNT_OPERATIONS, COUNTED_PARTS, COUNTED_POINTS, OPERATIONS_PER_POINT, SCANNED_POINTS
from intset.domains.isl.checked import lexicographic_extremum
from intset.domains.isl.count import (
    added,
    constant_part,
    count,
    count_part,
    disjoint_parts,
    extent_of,
    is_endless,
    multiplied,
    split_off,
    unparametric,
    without_params,
)
from intset.domains.isl.session import budget, isl, named, number, val, whole
from intset.domains.isl.session import context as isl_context
from intset.domains.isl.to_expr import Piece
from intset.errors import BudgetError
from intset.infinity import POS_INF, Infinity
from intset.regions.derived import PerInstance

if TYPE_CHECKING:
    from islpy import BasicSet, Point, PwAff, Set

FEW_INSTANCES: Final = 16  # sooner counted one by one than in closed form
POINTS_PER_INSTANCE: Final = 100  # counting one instance costs about as much as visiting so many points
INSTANCE_VECTORS: Final = 10_000  # different numbers of points that are compared


def max_over(isl_set: Set, instances: int, max_points: int = COUNTED_POINTS) -> PerInstance:
    """The largest and the total number of points of the instances of an isl `Set` over (instance, point).

    Parameters
    ----------
    instances: the number of leading dimensions that identify the instance.

    Translated instances and closed forms need no visit of instances; otherwise each instance is counted.

    Raises
    ------
    BudgetError: the scan exceeds about `max_points` points, or a corresponding number of instances.
    InputError: the set depends on a parameter.
    """
    kinds = isl().dim_type
    with budget(COUNT_OPERATIONS + OPERATIONS_PER_POINT * max_points):
        points = without_params(isl_set)
        for k in range(instances):
            points = points.set_dim_name(kinds.set, k, named(f"_q{k}"))
        fibres = points.move_dims(kinds.param, 0, kinds.set, 0, instances)
        domain = fibres.params()
        if domain.is_empty():
            return PerInstance(0, 0)
        found = None if _few(domain) else _largest(fibres, domain)
        most = _largest_visited(fibres, domain, max_points) if found is None else found.most
        if isinstance(most, Infinity):
            return PerInstance(POS_INF, POS_INF)
        if found is not None and found.everywhere:
            return PerInstance(most, multiplied([count(_as_set(domain), max_points), most]))
        return PerInstance(most, count(points, max_points))


def _few(domain: Set) -> bool:
    """Whether the number of instances is small enough to visit each."""
    try:
        with budget(COUNT_OPERATIONS):
            return count(_as_set(domain), SCANNED_POINTS) <= FEW_INSTANCES
    except BudgetError:
        return False


def _part_counts(part: BasicSet, domain: Set) -> list[PwAff] | Infinity | None:
    """PwAffs over the parameters in `domain` whose product is the number of points of the basic set."""
    condition, factors = split_off(part)
    counts: list[PwAff] = []
    if not domain.is_subset(condition):
        counts.append(_padded([Piece(condition, constant_part(1, domain))], domain))
    endless = False
    for factor in factors:
        if factor.is_empty():
            return [_padded([], domain)]
        if is_endless(factor):
            endless = True
            continue
        pieces = extent_of(factor) if factor.dim(isl().dim_type.set) == 1 else _translated(factor)
        if pieces is None:
            return None
        counts.append(_padded(pieces, domain))
    return POS_INF if endless and not part.is_empty() else counts


def _padded(pieces: Sequence[Piece], domain: Set) -> PwAff:
    """The PwAff on `domain` that is 0 outside the pieces."""
    total, rest = isl().PwAff.empty(isl().PwAff.from_aff(constant_part(0, domain)).get_space()), domain
    for piece in pieces:
        total = total.union_add(isl().PwAff.alloc(piece.domain.intersect(domain), piece.function))
        rest = rest.subtract(piece.domain)
    whole: PwAff = total.union_add(isl().PwAff.alloc(rest, constant_part(0, domain)))
    return whole


def _translated(factor: Set) -> list[Piece] | None:
    """The constant number of points of a bounded set that its parameters only translate; `None` for other sets."""
    kinds = isl().dim_type
    dims = factor.dim(kinds.set)
    corner, point = [f"c{k}" for k in range(dims)], [f"p{k}" for k in range(dims)]
    offsets = ", ".join(f"{p} - {c}" for c, p in zip(corner, point, strict=True))
    offset = isl().Map.read_from_str(isl_context(), f"{{ [{', '.join(corner + point)}] -> [{offsets}] }}")
    moved = lexicographic_extremum(factor, -1).flat_product(factor).apply(offset)
    shape = unparametric(moved)
    if not shape.intersect_params(factor.params()).is_subset(moved):
        return None
    size = added(count_part(part) for part in disjoint_parts(shape))
    return [Piece(factor.params(), constant_part(size, factor.params()))] if isinstance(size, int) else None


class _Largest(NamedTuple):
    """The largest number of points of an instance, and whether all instances have this number."""

    most: int | Infinity
    everywhere: bool


def _largest(fibres: Set, domain: Set) -> _Largest | None:
    """The answer by closed forms; `None` without them, or beyond `COUNTED_PARTS`."""
    try:
        with budget(COUNT_OPERATIONS):
            parts = []
            for part in disjoint_parts(fibres):
                counts = _part_counts(part, domain)
                if counts is None:
                    return None
                if isinstance(counts, Infinity):
                    return _Largest(POS_INF, False)
                parts.append(counts)
            return _largest_product(parts, domain) if sum(map(len, parts)) <= COUNTED_PARTS else None
    except BudgetError:
        return None


def _largest_product(parts: Sequence[Sequence[Any]], domain: Set) -> _Largest | None:
    """The largest sum, over the instances in `domain`, of the products of the PwAffs in each of `parts`.

    The joint values of the PwAffs form a set of nonnegative vectors; a componentwise largest vector is the answer.
    """
    kinds = isl().dim_type
    vectors = isl().Set.universe(domain.get_space().set_from_params()).intersect_params(domain)
    for factor in (pw for factors in parts for pw in factors):
        vectors = vectors.flat_product(isl().Set.from_pw_aff(factor))
    vectors = unparametric(vectors)

    def points_of(vector: Sequence[int]) -> int:
        left = iter(vector)
        return sum(prod(next(left) for _ in factors) for factors in parts)

    span = range(vectors.dim(kinds.set))
    highest = [end for k in span if (end := whole(vectors.dim_max_val(k))) is not None]
    if len(highest) < len(span):
        return _Largest(POS_INF, False) if all(len(factors) == 1 for factors in parts) else None
    together = vectors
    for k in span:
        together = together.fix_val(kinds.set, k, val(highest[k]))
    if not together.is_empty():
        return _Largest(points_of(highest), together.is_equal(vectors))
    return _Largest(max(points_of(_coordinates(vector)) for vector in _visited(vectors, INSTANCE_VECTORS)), False)


def _largest_visited(fibres: Set, domain: Set, max_points: int) -> int | Infinity:
    """The most points of one instance, each counted."""
    most: int | Infinity = 0
    kinds = isl().dim_type
    for instance in _visited(_as_set(domain), max_points // POINTS_PER_INSTANCE):
        fibre = fibres
        for k, value in enumerate(_coordinates(instance)):
            fibre = fibre.fix_val(kinds.param, k, val(value))
        here = added(count_part(part) for part in disjoint_parts(unparametric(fibre)))
        most = max(most, here)
    return most


def _as_set(domain: Set) -> Set:
    """Turn the parameters of a set of parameters into dimensions."""
    kinds = isl().dim_type
    return domain.from_params().move_dims(kinds.set, 0, kinds.param, 0, domain.dim(kinds.param))


def _visited(isl_set: Set, max_points: int) -> list[Point]:
    """All points of a set, as isl Points."""
    size = count(isl_set, max_points)
    if size > max_points:
        raise BudgetError(f"{size} points are more than the {max_points} that may be visited")
    found: list[Any] = []
    isl_set.foreach_point(found.append)
    return found


def _coordinates(point: Point) -> list[int]:
    """The coordinates of an isl Point without parameters."""
    kinds = isl().dim_type
    space = point.get_space()
    return [number(point.get_coordinate_val(kinds.set, k)) for k in range(space.dim(kinds.set))]

"""Derived methods of `Shape`, by its core methods.

Guarantee: exact, or refused as a core method is. isl overrides most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import product as points_of
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from intset.errors import BudgetError, CountError, EvaluationError
from intset.expr import ops
from intset.expr.build import logical_and, logical_or, maximum
from intset.expr.evaluate import compiled, evaluate
from intset.expr.length import length
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr, constant_value
from intset.expr.walk import chain, postorder, substitute
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.assumptions import narrow
from intset.linear.bounds import meet
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.lattice import Lattice, Vector
from intset.linear.lattice import everything as whole_lattice

if TYPE_CHECKING:
    from intset.regions.shape import End, Shape


MAX_POINTS = 40_000  # budget for the enumeration of a box


class PerInstance(NamedTuple):
    """The largest and the total number of points of the instances of a set."""

    max: int | Infinity
    total: int | Infinity


def coordinates(dims: int, letter: str = "x") -> list[Var]:
    """Fresh variables for the coordinates."""
    return [Var(f"{letter}{k}") for k in range(dims)]


# -- parameters ---------------------------------------------------------------------------------------------------


def variables(shape: Shape) -> tuple[Var, ...]:
    point = coordinates(shape.dims)
    inside = set(point)
    return tuple(v for v in shape.condition(point).free_vars() if v not in inside)


def like(shape: Shape, other: Shape) -> Shape:
    if type(shape) is type(other):
        return shape
    return from_condition(other, shape.dims, shape.condition)


def from_condition(kind: Shape, dims: int, condition_of: object) -> Shape:
    """The universe of the class of `kind`, filtered by a condition."""
    assert callable(condition_of)
    point = coordinates(dims)
    return kind.everything(dims).filter(point, condition_of(point))


def at(shape: Shape, values: Mapping[Var, IntLike]) -> Shape:
    table = {var: as_expr(value) for var, value in values.items()}
    return from_condition(shape, shape.dims, lambda point: substitute(shape.condition(point), table))


def intersect_params(shape: Shape, instances: Shape) -> Shape:
    point = coordinates(shape.dims)
    return shape.filter(point, instances.condition(()))


def params_to_dims(shape: Shape, names: Sequence[Var]) -> Shape:
    first = len(names)

    def inside(point: Sequence[Var]) -> Cond:
        found: Cond = substitute(shape.condition(point[first:]), dict(zip(names, point, strict=False)))
        return found

    return from_condition(shape, first + shape.dims, inside)


def dims_to_params(shape: Shape, names: Sequence[Var]) -> Shape:
    return from_condition(shape, shape.dims - len(names), lambda point: shape.condition([*names, *point]))


def without(shape: Shape, names: Collection[Expr]) -> Shape:
    own = [v for v in shape.variables() if v in names]
    if any(not isinstance(e, Var) for e in names):
        raise BudgetError("a parameter that is a term of variables cannot be left out")
    return shape.params_to_dims(own).project(range(len(own), len(own) + shape.dims)) if own else shape


# -- maps ---------------------------------------------------------------------------------------------------------


def image(shape: Shape, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
    first = len(exprs)

    def inside(both: Sequence[Var]) -> Cond:
        table = dict(zip(point, both[first:], strict=True))
        values = [y.eq(substitute(e, table)) for y, e in zip(both, exprs, strict=False)]
        return logical_and(shape.condition(both[first:]), *values)

    return from_condition(shape, first + shape.dims, inside).project(range(first))


def preimage(shape: Shape, point: Sequence[Var], exprs: Sequence[Expr]) -> Shape:
    return shape.everything(len(point)).filter(point, shape.condition(exprs))


def product_with(shape: Shape, other: Shape, shared: int) -> Shape:
    first = shape.dims - shared
    return from_condition(
        shape,
        first + other.dims,
        lambda point: logical_and(shape.condition(point[: shape.dims]), other.condition(point[first:])),
    )


def change_basis(shape: Shape, origin: Vector, vectors: Sequence[tuple[int | None, Vector]]) -> Shape:
    names = shape.lattice()
    first = 0 if names is None else len(names[1])
    if first or any(place is None for place, _ in vectors):
        raise BudgetError("a lattice that moves with parameters")
    dims = shape.dims
    times = coordinates(dims, "t")
    counting = {place for place, _ in vectors}
    exprs: list[Expr] = []
    for k in range(dims):
        total = as_expr(origin[k])
        for place, vector in vectors:
            if vector[k] and place is not None:
                total = total + times[place] * vector[k]
        exprs.append(total)
    unused = [times[k].eq(0) for k in range(dims) if k not in counting]
    return shape.preimage(times, exprs).filter(times, logical_and(*unused))


# -- boxes --------------------------------------------------------------------------------------------------------


def _finite_sides(shape: Shape) -> list[tuple[Expr, Expr]]:
    found = []
    for low, high in shape.dim_bounds():
        if not isinstance(low, Expr) or not isinstance(high, Expr):
            raise BudgetError("a region without end")
        found.append((low, high))
    return found


def hull(shape: Shape) -> Shape:
    sides = shape.dim_bounds()

    def inside(point: Sequence[Var]) -> Cond:
        lows = [x >= low for x, (low, _) in zip(point, sides, strict=True) if isinstance(low, Expr)]
        highs = [x <= high for x, (_, high) in zip(point, sides, strict=True) if isinstance(high, Expr)]
        return logical_and(shape.project(()).condition(()), *lows, *highs)

    return from_condition(shape, shape.dims, inside)


def product(shape: Shape) -> Product | None:
    try:
        ends = _finite_sides(shape)
    except BudgetError:
        return None
    if any(has_select(e) for pair in ends for e in pair) or not shape.includes(shape.hull()):
        return None
    alive = shape.project(()).condition(())
    also = [] if alive.op is ops.BOOL and alive.data else [alive]
    return Product([(parts_of(low, ops.MAX), parts_of(high, ops.MIN)) for low, high in ends], [], also)


def loops(shape: Shape, names: Sequence[Var]) -> list[Product] | None:
    found = []
    for k in range(shape.dims):
        side = shape.project(range(k + 1)).dims_to_params(names[:k]).product()
        if side is None:
            return None
        found.append(side)
    return found


def widest(shape: Shape, k: int, instances: Collection[Expr]) -> Expr | None:
    line = shape.project((k,))
    if line.is_empty():
        return as_expr(0)
    ((low, high),) = line.dim_bounds()
    if not isinstance(low, Expr) or not isinstance(high, Expr):
        return None
    extent = Normalizer({}).form(high - low + 1).expr()
    if not any(v in instances for v in extent.free_vars()):
        return extent
    d = Var("d")
    extents = line.everything(1).filter((d,), logical_and(line.project(()).condition(()), d.eq(extent)))
    ((_, most),) = extents.without([v for v in extents.variables() if v in instances]).dim_bounds()
    return most if isinstance(most, Expr) else None


def lattice(shape: Shape) -> tuple[Lattice, tuple[Expr, ...]] | None:
    if shape.is_empty():
        return None
    names = shape.variables()
    return whole_lattice(len(names) + shape.dims), names


# -- points -------------------------------------------------------------------------------------------------------


def lexicographic(shape: Shape, side: int) -> Shape:
    point = coordinates(shape.dims)
    for k, x in enumerate(point):
        end = shape.dim_bounds()[k][0 if side < 0 else 1]
        if not isinstance(end, Expr):
            if shape.is_empty():
                return shape
            raise BudgetError("a region without end has no lexicographic extremum")
        shape = shape.filter(point, x.eq(end))
    return shape


def functions(shape: Shape, names: Sequence[Var]) -> list[tuple[Shape, tuple[Expr, ...]]]:
    fibres = shape.dims_to_params(names)
    if fibres.is_empty():
        return []
    ends = fibres.dim_bounds()
    values = tuple(low for low, _ in ends if isinstance(low, Expr))
    point = coordinates(fibres.dims)
    single = fibres.filter(point, logical_and(*(x.eq(e) for x, e in zip(point, values, strict=False))))
    if len(values) < fibres.dims or not single.includes(fibres):
        raise BudgetError("a relation that is no function")
    return [(shape.project(range(len(names))), values)]


def sample(shape: Shape) -> tuple[int, ...] | None:
    if shape.is_empty():
        return None
    point = coordinates(shape.dims)
    found = []
    for k, x in enumerate(point):
        low, high = shape.dim_bounds()[k]
        end = low if isinstance(low, Expr) else high
        value = constant_value(end) if isinstance(end, Expr) else _somewhere(shape, k)
        if value is None:
            raise BudgetError("the set depends on parameters")
        found.append(value)
        shape = shape.filter(point, x.eq(value))
    return tuple(found)


def _somewhere(shape: Shape, k: int) -> int:
    """A value of an unbounded coordinate near 0."""
    point = coordinates(shape.dims)
    for reach in (1, 64, 1 << 12, 1 << 24, 1 << 48):
        near = shape.filter(point, (point[k] >= -reach) & (point[k] <= reach))
        if not near.is_empty():
            low = near.dim_bounds()[k][0]
            assert isinstance(low, Expr)
            return int(low)
    raise BudgetError("no point was found near 0")


def listed(shape: Shape, most: int = MAX_POINTS) -> list[tuple[int, ...]]:
    """The points of a set without parameters, by enumeration of its bounding box.

    Raises
    ------
    BudgetError: the box is unbounded or larger than `most` points.
    """
    point = coordinates(shape.dims)
    if shape.is_empty():
        return []
    spans = [range(int(low), int(high) + 1) for low, high in _finite_sides(shape)]
    if prod(map(length, spans)) > most:
        raise BudgetError(f"more than {most} points would have to be looked at")
    inside = compiled(shape.condition(point), point)
    return [x for x in points_of(*spans) if inside(*x)]


def count(shape: Shape) -> int | Infinity | Expr:
    if shape.is_empty():
        return 0
    ends: Sequence[tuple[End, End]] = shape.dim_bounds()
    if not shape.variables():
        if any(low is NEG_INF or high is POS_INF for low, high in ends):
            return POS_INF
        return len(listed(shape))
    found = shape.product()
    if found is None or found.where or found.also:
        raise CountError("the number of points has no closed form here: use at(...) to fix sizes")
    extents: Iterable[Expr] = [as_expr(high) - as_expr(low) + 1 for low, high in ends]
    total = as_expr(1)
    for extent in extents:
        total = total * maximum(extent, 0)
    return total


def has(shape: Shape, point: Sequence[int]) -> bool:
    try:
        return bool(evaluate(shape.condition([as_expr(x) for x in point])))
    except EvaluationError:
        return False


def counts(shape: Shape, varying: Sequence[Var], most: int) -> PerInstance:
    others = [v for v in shape.variables() if v not in varying]
    if others:
        raise CountError(f"the count depends on {others[0]}: fix the sizes with at={{...}}")
    if shape.is_empty():
        return PerInstance(0, 0)
    alive = shape.project(()).condition(())
    known = narrow(Normalizer(dict.fromkeys(varying, (None, None))), (alive,))
    spans = []
    for v in varying:
        *declared, step = v.declared()
        low, high = meet(known.atom_bounds(v), (declared[0], declared[1]))
        if low is None or high is None:
            raise CountError(f"the instances of the region are not bounded: {v} is not")
        spans.append(range(low + -low % step, high + 1, step))
    if prod(map(length, spans)) > most:
        raise CountError(f"the region has more than {most} instances")
    number_at = _number_of(shape, varying)
    largest = total = 0
    for values in points_of(*spans):
        number = number_at(*values)
        if not isinstance(number, int):
            return PerInstance(POS_INF, POS_INF)
        largest, total = max(largest, number), total + number
    return PerInstance(largest, total)


def _number_of(shape: Shape, varying: Sequence[Var]) -> Callable[..., object]:
    """The number of points as a function of the parameters: compiled from a closed form, else instance by instance."""
    try:
        number = shape.count()
    except BudgetError:
        number = POS_INF
    except CountError:
        number = POS_INF
    if isinstance(number, Infinity):
        return lambda *values: shape.at(dict(zip(varying, values, strict=True))).count()
    return compiled(number, varying) if isinstance(number, Expr) else lambda *values: number


# -- making -------------------------------------------------------------------------------------------------------


def box(kind: Shape, sides: Sequence[tuple[Iterable[Linear], Iterable[Linear]]], where: Iterable[Linear]) -> Shape:
    def inside(point: Sequence[Var]) -> Cond:
        parts = [form.expr() >= 0 for form in where]
        for x, (lows, highs) in zip(point, sides, strict=True):
            parts += [x >= form.expr() for form in lows] + [x <= form.expr() for form in highs]
        return logical_and(*parts)

    return from_condition(kind, len(sides), inside)


def listing(kind: Shape, points: Sequence[tuple[int, ...]], names: Sequence[Var], dims: int) -> Shape:
    def inside(point: Sequence[Var]) -> Cond:
        place = [*names, *point]
        return logical_or(*(logical_and(*(x.eq(v) for x, v in zip(place, row, strict=True))) for row in points))

    return from_condition(kind, dims, inside)


Sides = tuple[list[Linear], list[Linear]]


class Product(NamedTuple):
    """A product of intervals, each from the maximum of its lower forms to the minimum of its upper forms.

    Empty unless all forms `where` are at least 0 and all conditions `also` hold.
    """

    sides: list[Sides]
    where: list[Linear]
    also: list[Cond]


def has_select(e: Expr) -> bool:
    """Whether an expression contains a `select`."""
    return any(node.op is ops.SELECT for node in postorder((e,)))


def parts_of(e: Expr, op: ops.Op) -> list[Linear]:
    """The linear forms of a chain of maxima or minima."""
    plain = Normalizer({})
    return [plain.form(part) for part in chain(op, e)]

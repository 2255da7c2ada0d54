"""Exact numbers of points of isl sets, constant or parametric.

Guarantee: an answer is exact, or `BudgetError` is raised. isl's `count_val` silently returns 0 for unbounded and for
parametric sets, and too small a number when the operations run out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any, NamedTuple

from intset.budgets import COUNT_OPERATIONS, COUNTED_PARTS, COUNTED_POINTS, OPERATIONS_PER_POINT, SCANNED_POINTS
from intset.domains.isl.checked import coalesced
from intset.domains.isl.session import budget, isl, number, val, whole
from intset.domains.isl.summation import SummedTerm, interval_of, sum_points, vanishes
from intset.domains.isl.to_expr import Piece, pieces_of, pieces_to_expr, set_to_cond, simplified
from intset.errors import BudgetError, InputError
from intset.expr.build import select, sum_of
from intset.expr.node import Expr, const, constant_value
from intset.infinity import POS_INF, Infinity

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, Point, Set


# -- a number ---------------------------------------------------------------------------------------------------------


def count(isl_set: Set, max_points: int = COUNTED_POINTS) -> int | Infinity:
    """The number of points of an isl `Set` without parameters; `POS_INF` for infinitely many.

    Boxes, products, one-dimensional sets and closed-form sums are counted without a scan.

    Raises
    ------
    BudgetError: the scan exceeds about `max_points` points.
    InputError: the set depends on a parameter.
    """
    if isl_set.dim(isl().dim_type.set) == 1:
        run = _run_length(isl_set)
        if run is not None:
            return run
    with budget(COUNT_OPERATIONS + OPERATIONS_PER_POINT * max_points):
        return added(count_part(part) for part in disjoint_parts(without_params(isl_set)))


def _run_length(isl_set: Set) -> int | None:
    """The number of elements of an arithmetic progression; `None` for other sets, or beyond a small budget."""
    m = isl()
    try:
        with budget(COUNT_OPERATIONS):
            low, high = whole(isl_set.dim_min_val(0)), whole(isl_set.dim_max_val(0))
            if low is None or high is None:
                return None
            step = number(isl_set.get_stride(0))
            universe = m.Set.universe(isl_set.get_space())
            run = universe.lower_bound_val(m.dim_type.set, 0, val(low)).upper_bound_val(m.dim_type.set, 0, val(high))
            if step > 1:
                position = m.Aff.var_on_domain(m.LocalSpace.from_space(run.get_space()), m.dim_type.set, 0)
                offset = position.add_constant_val(val(-low)).mod_val(val(step))
                run = run.intersect(offset.eq_set(m.Aff.zero_on_domain(m.LocalSpace.from_space(run.get_space()))))
            if run.is_equal(isl_set):
                return (high - low) // max(step, 1) + 1
    except BudgetError:
        pass
    return None


def count_part(part: BasicSet) -> int | Infinity:
    condition, factors = split_off(part)
    counts: list[int | Infinity] = [0 if condition.is_empty() else 1]
    for factor in factors:
        counts.append(_count_factor(factor))
        if counts[-1] == 0:
            return 0
    return multiplied(counts)


def _count_factor(factor: Set) -> int | Infinity:
    dims = factor.dim(isl().dim_type.set)
    extents = []
    for k in range(dims):
        low, high = whole(factor.dim_min_val(k)), whole(factor.dim_max_val(k))
        if low is None or high is None:
            return 0 if factor.is_empty() else POS_INF
        extents.append(high - low + 1)
    if dims == 1 and not factor.involves_locals():
        return extents[0]
    if dims > 1 and prod(extents) > SCANNED_POINTS * max(extents):
        terms = sum_points(factor, ())
        if terms is not None:
            return sum(t.numerator.const // t.denominator for t in terms if not t.domain.is_empty())
    visited = number(factor.count_val())
    if (visited == 0) != factor.is_empty() or visited > prod(extents):
        raise BudgetError("isl counted another number of points than fit between the ends of a set")
    return visited


def added(counts: Iterable[int | Infinity]) -> int | Infinity:
    known = list(counts)
    finite = [n for n in known if isinstance(n, int)]
    return sum(finite) if len(finite) == len(known) else POS_INF


def multiplied(counts: Sequence[int | Infinity]) -> int | Infinity:
    finite = [n for n in counts if isinstance(n, int)]
    return prod(finite) if 0 in finite or len(finite) == len(counts) else POS_INF


def without_params(isl_set: Set) -> Set:
    left = isl_set.drop_unused_params()
    if left.dim(isl().dim_type.param):
        raise InputError(f"the set depends on parameters: {isl_set}")
    return left


# -- parts and factors ------------------------------------------------------------------------------------------------


def disjoint_parts(isl_set: Set) -> list[BasicSet]:
    """Disjoint basic sets with explicit divisions whose union is the set."""
    explicit = coalesced(isl_set).compute_divs()
    if explicit.n_basic_set() > 1:
        explicit = explicit.make_disjoint().compute_divs()
    return list(explicit.get_basic_sets())


class _Factorization(NamedTuple):
    """A basic set as the product of the isl Sets `factors`, for parameters in `condition`."""

    condition: Set
    factors: list[Set]


def split_off(part: BasicSet) -> _Factorization:
    """The finest factorization: a chain of constraints puts two dimensions into one factor."""
    kinds = isl().dim_type
    dims = range(part.dim(kinds.set))
    groups: list[tuple[int, list[Any]]] = [(1 << k, []) for k in dims]
    free: list[Any] = []
    for constraint in part.get_constraints():
        if constraint.is_div_constraint():
            continue
        mask = sum(1 << k for k in dims if constraint.involves_dims(kinds.set, k, 1))  # also dims inside divisions
        if not mask:
            free.append(constraint)
            continue
        met = [group for group in groups if group[0] & mask]
        groups = [group for group in groups if not group[0] & mask]
        groups.append((sum(m for m, _ in met), [c for _, cs in met for c in cs] + [constraint]))
    universe = isl().BasicSet.universe(part.get_space())
    factors = []
    for mask, constraints in sorted(groups, key=lambda group: group[0] & -group[0]):
        factor = _all(universe, constraints).to_set()
        for k in reversed(dims):
            if not mask >> k & 1:
                factor = factor.project_out(kinds.set, k, 1)
        factors.append(factor)
    return _Factorization(_all(universe, free).to_set().params(), factors)


def _all(universe: BasicSet, constraints: Iterable[Any]) -> BasicSet:
    return reduce(lambda part, constraint: part.add_constraint(constraint), constraints, universe)


# -- an expression ----------------------------------------------------------------------------------------------------


def count_symbolic(isl_set: Set, params: Sequence[Expr], context: Set | None = None) -> Expr | Infinity | None:
    """The number of points of an isl `Set` as an expression over its parameters: 0 for empty instances.

    `POS_INF` if every nonempty instance is infinite; `None` without a closed form within the budget.

    Parameters
    ----------
    params: the expressions for the parameters of the set, in order.
    context: an isl Set of parameters; the expression is valid inside it.
    """
    try:
        with budget(COUNT_OPERATIONS):
            return _Symbolic(isl_set, params, context).count()
    except BudgetError:
        return None


class _Symbolic:
    """The state of one `count_symbolic`."""

    def __init__(self, isl_set: Set, params: Sequence[Expr], context: Set | None) -> None:
        self.points = isl_set if context is None else simplified(isl_set, context)
        self.params = params
        self.context: Set = isl().Set.universe(isl_set.get_space().params()) if context is None else context

    def count(self) -> Expr | Infinity | None:
        parts = disjoint_parts(self.points)
        if len(parts) > COUNTED_PARTS:
            return None
        counts: list[Expr] = []
        endless = isl().Set.empty(self.context.get_space())
        for part in parts:
            found = self._part(part)
            if found is None:
                return None
            if isinstance(found, Infinity):
                endless = endless.union(part.to_set().params())
            else:
                counts.append(found)
        if endless.is_empty():
            return _folded_sum(counts)
        return POS_INF if self.points.params().intersect(self.context).is_subset(endless) else None

    def _part(self, part: BasicSet) -> Expr | Infinity | None:
        condition, factors = split_off(part)
        counts: list[Expr] = []
        endless = False
        for factor in factors:
            found = self._factor(factor)
            if found is None:
                return None
            if isinstance(found, Infinity):
                endless = True
            else:
                counts.append(found)
        if endless:
            return POS_INF
        value = _folded_product(counts)
        alive = self.context
        for factor in factors:
            alive = alive.intersect(factor.params())
        return self._where(condition, value, alive)

    def _where(self, condition: Set, value: Expr, context: Set) -> Expr | None:
        """`value` for parameters in `condition`, else 0; valid for parameters in `context`."""
        if context.is_subset(condition):
            return value
        cond = set_to_cond(condition, (), self.params, context)
        return None if cond is None else select(cond, value, 0)

    def _factor(self, factor: Set) -> Expr | Infinity | None:
        if factor.is_empty():
            return const(0)
        if is_endless(factor):
            return POS_INF
        if factor.dim(isl().dim_type.set) > 1:
            terms = sum_points(factor, self.params)
            values = None if terms is None else [self._term(term) for term in terms]
            if values is None or any(e is None for e in values):
                return None
            return _folded_sum([e for e in values if e is not None])
        pieces = extent_of(factor)
        if pieces is None:
            return None
        outside = self.context.subtract(factor.params())
        pieces.append(Piece(outside, constant_part(0, outside)))
        found = pieces_to_expr(pieces, (), self.params, self.context)
        return const(0) if found is None else found

    def _term(self, term: SummedTerm) -> Expr | None:
        value = term.numerator.expr() if term.denominator == 1 else term.numerator.expr() // term.denominator
        if vanishes(term, self.context.subtract(term.domain), self.params):
            return value
        return self._where(term.domain, value, self.context)


def extent_of(line: Set) -> list[Piece] | None:
    """The number of points of nonempty instances of a bounded strided interval; `None` for other sets."""
    interval = interval_of(line)
    if interval is None:
        return None
    steps = interval.high.sub(interval.low)
    if interval.stride > 1:
        steps = steps.scale_down_val(val(interval.stride)).floor()
    return pieces_of(steps.add_constant_val(val(1)).coalesce())


def is_endless(factor: Set) -> bool:
    """Whether every nonempty instance of a basic set is infinite.

    With explicit divisions, an unbounded direction is unbounded for all parameters.
    """
    kinds = isl().dim_type
    if factor.is_bounded() or all(factor.dim_is_bounded(kinds.set, k) for k in range(factor.dim(kinds.set))):
        return False
    sample = factor.params().sample_point()
    return not sample.is_void() and _count_factor(_at(factor, sample)) is POS_INF


def _at(isl_set: Set, params: Point) -> Set:
    """The instance at one parameter value, an isl Point."""
    return unparametric(isl_set.intersect_params(isl().Set.from_point(params)))


def unparametric(isl_set: Set) -> Set:
    """The union of all instances, without parameters."""
    return isl_set.project_out(isl().dim_type.param, 0, isl_set.dim(isl().dim_type.param))


def _folded_sum(terms: Sequence[Expr]) -> Expr:
    known = sum(constant_value(e) or 0 for e in terms)
    rest = [e for e in terms if constant_value(e) is None]
    return sum_of([*rest, known] if known or not rest else rest)


def _folded_product(terms: Sequence[Expr]) -> Expr:
    known = prod(1 if (value := constant_value(e)) is None else value for e in terms)
    rest = [e for e in terms if constant_value(e) is None]
    if known == 0 or not rest:
        return const(known)
    return reduce(mul, rest if known == 1 else [*rest, const(known)])


def constant_part(value: int, domain: Set) -> Aff:
    found: Aff = isl().Aff.val_on_domain(isl().LocalSpace.from_space(domain.get_space()), val(value))
    return found

"""Exact numbers of points of isl sets, constant or parametric; the largest and the total number over instances.

Guarantee: an answer is exact, or `BudgetError` is raised. isl's `count_val` silently returns 0 for unbounded and for
parametric sets, and too small a number when the operations run out.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from operator import mul
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.domains.isl import session
from intset.domains.isl.bindings import PARAM, SET
from intset.domains.isl.cones import COUNTED_CONES, Chamber, chambers, rows_of
from intset.domains.isl.translate import Piece, pieces_of, pieces_to_expr, set_to_cond, simplified
from intset.domains.sets.ends import sum_of_counts
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import POS_INF, Expr, Infinity, Var, as_expr, const, constant_value, dag, ops
from intset.expr.build import NumericFunction, select
from intset.expr.evaluate import compiled, evaluate
from intset.linear.form import ZERO, Linear, atom, factors
from intset.regions.shape import COUNTED_POINTS, PerInstance

if TYPE_CHECKING:
    from islpy import Aff, BasicSet, Point, PwAff, Set

OPERATIONS_PER_POINT: Final = 16  # operations of isl for one visited point; measured: 1 to 14
COUNT_OPERATIONS: Final = 100_000  # operations of the analysis before the visits
SCANNED_POINTS: Final = 500  # visiting so few points is faster than a closed form
COUNTED_PARTS: Final = 16  # disjoint parts in a sum of counts

OVERLAPPING_PARTS: Final = 3  # parts of a union that are counted by inclusion and exclusion
FORM_OPERATIONS: Final = 200_000  # operations of isl for one closed count
NUMBER_CONES: Final = 200  # cones of one counted number; a scan follows beyond
COUNTED_NODES: Final = 20_000  # nodes of a closed count by cones
CHECKED_VALUES: Final = 16  # values of the parameters at which a closed count is compared with a number
CHECKED_GRID: Final = 300  # drawn values of the parameters among which values in a chamber are looked for
CHECKED_POINTS: Final = 2_000  # points that one such number may visit


# -- a number ---------------------------------------------------------------------------------------------------------


def count(isl_set: Set, max_points: int = COUNTED_POINTS) -> int | Infinity:
    """The number of points of an isl `Set` without parameters; `POS_INF` for infinitely many.

    Boxes, products, one-dimensional sets and closed-form sums are counted without a scan.

    Raises
    ------
    BudgetError: the scan exceeds about `max_points` points.
    InputError: the set depends on a parameter.
    """
    with session.budget(COUNT_OPERATIONS + OPERATIONS_PER_POINT * max_points):
        return added(count_part(part) for part in session.disjoint_parts(without_params(isl_set)))


def count_part(part: BasicSet) -> int | Infinity:
    condition, factors = split_off(part)
    counts: list[int | Infinity] = [0 if condition.is_empty() else 1]
    for factor in factors:
        counts.append(_count_factor(factor))
        if counts[-1] == 0:
            return 0
    return multiplied(counts)


def _count_factor(factor: Set) -> int | Infinity:
    dims = factor.dim(SET)
    extents = []
    for k in range(dims):
        low, high = session.whole(factor.dim_min_val(k)), session.whole(factor.dim_max_val(k))
        if low is None or high is None:
            return 0 if factor.is_empty() else POS_INF
        extents.append(high - low + 1)
    if dims == 1 and not factor.involves_locals():
        return extents[0]
    if prod(extents) > SCANNED_POINTS * (max(extents) if dims > 1 else 1):
        with suppress(BudgetError):
            explicit = factor.compute_divs()
            parts = explicit.get_basic_sets() if explicit.n_basic_set() == 1 else session.disjoint_parts(factor)
            found = [one for part in parts for one in chambers(*rows_of(part), (), NUMBER_CONES)[:1]]
            return sum(int(one.count()) for one in found if one.holds(()))
    visited = session.number(factor.count_val())
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
    if left.dim(PARAM):
        raise InputError(f"the set depends on parameters: {isl_set}")
    return left


# -- parts and factors ------------------------------------------------------------------------------------------------


def signed_parts(isl_set: Set) -> list[tuple[int, BasicSet]]:
    """Basic sets with explicit divisions and signs, whose counts add up to that of the set.

    Disjoint parts, or by inclusion and exclusion the overlapping parts and their intersections, whichever are fewer.
    """
    apart = session.disjoint_parts(isl_set)
    overlapping = session.coalesced(isl_set).compute_divs()
    own = list(overlapping.get_basic_sets())
    if not 2 <= len(own) <= OVERLAPPING_PARTS or len(own) >= len(apart):
        return [(1, part) for part in apart]
    found: list[tuple[int, BasicSet]] = []
    for size in range(1, len(own) + 1):
        for chosen in itertools.combinations(own, size):
            both = reduce(lambda a, b: a.intersect(b), (part.to_set() for part in chosen)).compute_divs()
            found += [((-1) ** (size - 1), part) for part in both.get_basic_sets() if not part.to_set().is_empty()]
    return found if len(found) < len(apart) else [(1, part) for part in apart]


def split_off(part: BasicSet) -> tuple[Set, list[Set]]:
    """A basic set as the product of factors, for parameters in a condition: (condition, factors).

    The factorization is the finest: a chain of constraints puts two dimensions into one factor.
    """
    dims = range(part.dim(SET))
    groups: list[tuple[int, list[Any]]] = [(1 << k, []) for k in dims]
    free: list[Any] = []
    for constraint in part.get_constraints():
        if constraint.is_div_constraint():
            continue
        mask = sum(1 << k for k in dims if constraint.involves_dims(SET, k, 1))  # also dims inside divisions
        if not mask:
            free.append(constraint)
            continue
        met = [group for group in groups if group[0] & mask]
        groups = [group for group in groups if not group[0] & mask]
        groups.append((sum(m for m, _ in met), [c for _, cs in met for c in cs] + [constraint]))
    universe = session.isl().BasicSet.universe(part.get_space())
    factors = []
    for mask, constraints in sorted(groups, key=lambda group: group[0] & -group[0]):
        factor = _all(universe, constraints).to_set()
        for k in reversed(dims):
            if not mask >> k & 1:
                factor = factor.project_out(SET, k, 1)
        factors.append(factor)
    return _all(universe, free).to_set().params(), factors


def _all(universe: BasicSet, constraints: Iterable[Any]) -> BasicSet:
    return reduce(lambda part, constraint: part.add_constraint(constraint), constraints, universe)


# -- an expression ----------------------------------------------------------------------------------------------------


def count_symbolic(isl_set: Set, params: Sequence[Expr], context: Set | None = None) -> Expr | Infinity | None:
    """The number of points of an isl `Set` as an expression over its parameters: 0 for empty instances.

    `POS_INF` if every nonempty instance is infinite; `None` without a closed form.

    Raises
    ------
    BudgetError: the closed form takes more operations, cones or nodes than its budgets; the message names it.

    Parameters
    ----------
    params: the expressions for the parameters of the set, in order.
    context: an isl Set of parameters; the expression is valid inside it.
    """
    with session.budget(FORM_OPERATIONS):
        return _Symbolic(isl_set, params, context).count()


class _Symbolic:
    """The state of one `count_symbolic`."""

    def __init__(self, isl_set: Set, params: Sequence[Expr], context: Set | None) -> None:
        self.points = isl_set if context is None else simplified(isl_set, context)
        self.params = params
        self.cones = COUNTED_CONES  # that may still be made
        self.context: Set = session.isl().Set.universe(isl_set.get_space().params()) if context is None else context

    def count(self) -> Expr | Infinity | None:
        parts = signed_parts(self.points)
        if len(parts) > COUNTED_PARTS:
            raise BudgetError(f"it falls into more than {COUNTED_PARTS} parts", "COUNTED_PARTS")
        counts: list[Expr] = []
        endless = session.isl().Set.empty(self.context.get_space())
        for sign, part in parts:
            found = self._part(part)
            if found is None:
                return None
            if isinstance(found, Infinity):
                endless = endless.union(part.to_set().params())
            else:
                counts.append(found if sign > 0 else -found)
        if endless.is_empty():
            return as_expr(sum_of_counts(counts))
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
        alive = reduce(lambda within, factor: within.intersect(factor.params()), factors, self.context)
        if alive.is_subset(condition):
            return value
        cond = set_to_cond(condition, (), self.params, alive)
        return None if cond is None else select(cond, value, 0)

    def _factor(self, factor: Set) -> Expr | Infinity | None:
        if factor.is_empty():
            return const(0)
        if is_endless(factor):
            return POS_INF
        pieces = extent_of(factor) if factor.dim(SET) == 1 else None
        if pieces is None:
            return self._by_cones(factor)
        outside = self.context.subtract(factor.params())
        pieces.append(Piece(outside, constant_part(0, outside)))
        found = pieces_to_expr(pieces, (), self.params, self.context)
        return const(0) if found is None else found

    def _by_cones(self, factor: Set) -> Expr | None:
        counts = []
        explicit = factor.compute_divs()
        names = [str(factor.get_dim_name(PARAM, k)) for k in range(len(self.params))]
        for part in explicit.get_basic_sets() if explicit.n_basic_set() == 1 else session.disjoint_parts(factor):
            found = chambers(*rows_of(part), self.params, self.cones)
            self.cones -= sum(chamber.cones for chamber in found)
            pieces, left = self._pieces(found, names)
            value: Expr | None = None
            if sum(len(piece.chamber.numerator.terms) for piece in pieces) <= COUNTED_NODES:
                value = self._of_pieces(pieces, left)
                if value is None:
                    return None
            if value is None or not dag.is_small(COUNTED_NODES, (value,)):
                value = self._as_function(pieces)
            self._check(part.to_set(), pieces, value)
            counts.append(value)
        return as_expr(sum_of_counts(counts))

    def _pieces(self, found: Sequence[Chamber], names: Sequence[str]) -> tuple[list[_ContextChamber], Set]:
        """The chambers inside the context, and the part of the context outside of all."""
        left, pieces = self.context, []
        for chamber in found:
            domain = session.isl().Set.read_from_str(session.context(), chamber.text(names))
            if not left.is_disjoint(domain):
                pieces.append(_ContextChamber(chamber, domain, left))
                left = left.subtract(domain)
        return pieces, left

    def _of_pieces(self, pieces: Sequence[_ContextChamber], left: Set) -> Expr | None:
        """The quasi-polynomial of the first chamber that holds the parameters, 0 outside of all."""
        value: Expr | None = const(0)
        if pieces and (left.is_empty() or vanishes(pieces[-1].chamber.numerator, left, self.params)):
            value = None
        for chamber, domain, around in reversed(pieces):
            own = chamber.count()
            if value is None:
                value = own
                continue
            cond = set_to_cond(domain, (), self.params, around)
            if cond is None:
                return None
            value = select(cond, own, value)
        return value

    def _as_function(self, pieces: Sequence[_ContextChamber]) -> Expr:
        """The count as a term of a numeric function, where its closed form would be too long."""
        sizes = [e for e in self.params if isinstance(e, Var)]
        if len(sizes) < len(self.params):
            raise BudgetError(f"its closed form has more than {COUNTED_NODES:,} nodes", "COUNTED_NODES")
        function = CountByChamber(tuple(piece.chamber for piece in pieces), tuple(sizes))
        return NumericFunction("count", len(sizes), function, lower=0)(*sizes)

    def _together(self, at: Sequence[int]) -> tuple[dict[Expr, int], tuple[int, ...]]:
        """Values of the variables of the parameters, and the parameters there: a product has that of its factors."""
        is_product = [e.op is ops.MUL and not dag.opaque_terms(e) for e in self.params]
        where = {e: x for e, x, product in zip(self.params, at, is_product, strict=True) if not product}
        for e, x, product in zip(self.params, at, is_product, strict=True):
            unknown = [v for v in e.free_vars() if v not in where] if product else []
            where.update(zip(unknown, itertools.chain((x,), itertools.repeat(1)), strict=False))
        return where, tuple(where[e] if e in where else evaluate(e.substitute(where)) for e in self.params)

    def _check(self, points: Set, pieces: Sequence[_ContextChamber], value: Expr) -> None:
        """Compare the count with isl's own at values of the parameters in each chamber and around them.

        Raises
        ------
        AssertionError: a difference, which is an error of this module.
        BudgetError: nothing could be compared.
        """
        compared, are_sizes = False, all(isinstance(e, Var) for e in self.params)
        for drawn in tried_values(pieces, len(self.params)):
            try:
                where, at = self._together(drawn)
                with session.budget_aside(COUNT_OPERATIONS):
                    one, allowed = points, self.context
                    for k, x in enumerate(at):
                        one, allowed = (
                            one.fix_val(PARAM, k, session.val(x)),
                            allowed.fix_val(PARAM, k, session.val(x)),
                        )
                    if allowed.is_empty():
                        continue
                    true = count(session.unparametric(one), CHECKED_POINTS)
            except (BudgetError, EvaluationError):
                continue
            closed = evaluate(value, where) if are_sizes else evaluate(value.substitute(where))
            if closed != true:
                raise AssertionError(f"a closed count is {closed}, not {true}, where {self.params} are {at}")
            compared = True
        if pieces and not compared:
            raise BudgetError("its closed form could be compared with no number", "CHECKED_POINTS")


@dataclass(frozen=True)
class CountByChamber:
    """The number of points at given sizes: the quasi-polynomial of the first chamber that holds them, else 0."""

    chambers: tuple[Chamber, ...]
    sizes: tuple[Var, ...]

    @cached_property
    def _values(self) -> list[Callable[..., int]]:
        return [compiled(chamber.count(), self.sizes) for chamber in self.chambers]

    def __call__(self, *at: int) -> int:
        return next((self._values[k](*at) for k, one in enumerate(self.chambers) if one.holds(at)), 0)

    def __reduce__(self) -> tuple[object, ...]:
        return CountByChamber, (self.chambers, self.sizes)


class _ContextChamber(NamedTuple):
    """A chamber, its parameters as an isl Set, and the parameters that earlier chambers leave."""

    chamber: Chamber
    domain: Set
    around: Set


def vanishes(numerator: Linear, domain: Set, params: Sequence[Expr]) -> bool:
    """Whether a polynomial is 0 on `domain`: parameters that are fixed there are substituted."""
    return all(_at_fixed(numerator, part.to_set(), params).same(ZERO) for part in domain.get_basic_sets())


def _at_fixed(form: Linear, part: Set, params: Sequence[Expr]) -> Linear:
    fixed: dict[Expr, Linear] = {}
    for k, e in enumerate(params):
        only = session.whole(part.plain_get_val_if_fixed(PARAM, k))
        if only is not None:
            fixed[e] = Linear(only, {})
    total = Linear(form.const, {})
    for monomial, coefficient in form.terms.items():
        value = Linear(coefficient, {})
        for e in factors(monomial):
            value = value.times(fixed.get(e, atom(e)))
        total = total.plus(value)
    return total


def tried_values(pieces: Sequence[_ContextChamber], params: int) -> Iterator[tuple[int, ...]]:
    """Values of the parameters at which a count is compared: a sample of each chamber first, then small values inside
    of it, and their neighbours on both sides of its borders."""
    rng = random.Random(params)
    small = (0, 1, 2, 3, 4, 5, 7, 8, 11, 13, 18, -1, -3)
    grid = [tuple(rng.choice(small) for _ in range(params)) for _ in range(CHECKED_GRID)]
    grid = sorted({(0,) * params, (1,) * params, *grid}, key=lambda at: (sum(map(abs, at)), at))
    rounds: list[list[tuple[int, ...]]] = []
    for piece in pieces:
        inside = [at for at in grid if piece.chamber.holds(at)]
        own = [*inside[:3], *inside[len(inside) // 2 :][:2]]
        own += [(*at[:k], at[k] + step, *at[k + 1 :]) for at in own for k in range(params) for step in (-1, 1)]
        sample = piece.around.intersect(piece.domain).sample_point()
        if not sample.is_void():
            own.insert(0, session.coordinates(sample, PARAM))
        rounds.append(own)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*rounds))
    tried = dict.fromkeys(at for at in turns if at is not None)
    yield from itertools.islice(tried, max(CHECKED_VALUES, 2 * len(pieces)))


def extent_of(line: Set) -> list[Piece] | None:
    """The number of points of nonempty instances of a bounded interval of constant stride; `None` for other sets."""
    low, high = session.end_of_dim(line, 0, -1), session.end_of_dim(line, 0, 1)
    if low is None or high is None:
        return None
    steps = high.sub(low)
    if line.involves_locals() or line.n_basic_set() > 1:
        stride, space = line.get_stride(0), line.get_space()
        here = session.isl().PwAff.from_aff(
            session.isl().Aff.var_on_domain(session.isl().LocalSpace.from_space(space), SET, 0)
        )
        first, last = low.insert_domain(space), high.insert_domain(space)
        every = here.ge_set(first).intersect(here.le_set(last))
        if not every.intersect(here.sub(first).mod_val(stride).zero_set()).is_equal(line):
            return None
        steps = steps.scale_down_val(stride).floor() if session.number(stride) > 1 else steps
    return pieces_of(steps.add_constant_val(session.val(1)).coalesce())


def is_endless(factor: Set) -> bool:
    """Whether every nonempty instance of a basic set is infinite.

    With explicit divisions, an unbounded direction is unbounded for all parameters.
    """
    if factor.is_bounded() or all(factor.dim_is_bounded(SET, k) for k in range(factor.dim(SET))):
        return False
    sample = factor.params().sample_point()
    if sample.is_void():
        return False
    return _count_factor(session.unparametric(factor.intersect_params(session.isl().Set.from_point(sample)))) is POS_INF


def _folded_product(terms: Sequence[Expr]) -> Expr:
    known = prod(1 if (value := constant_value(e)) is None else value for e in terms)
    rest = [e for e in terms if constant_value(e) is None]
    if known == 0 or not rest:
        return const(known)
    return reduce(mul, rest if known == 1 else [*rest, const(known)])


def constant_part(value: int, domain: Set) -> Aff:
    found: Aff = session.isl().Aff.val_on_domain(
        session.isl().LocalSpace.from_space(domain.get_space()), session.val(value)
    )
    return found


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
    with session.budget(COUNT_OPERATIONS + OPERATIONS_PER_POINT * max_points):
        points = without_params(isl_set)
        for k in range(instances):
            points = points.set_dim_name(SET, k, session.named(f"_q{k}"))
        fibres = points.move_dims(PARAM, 0, SET, 0, instances)
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
        with session.budget(COUNT_OPERATIONS):
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
        pieces = extent_of(factor) if factor.dim(SET) == 1 else _translated(factor)
        if pieces is None:
            return None
        counts.append(_padded(pieces, domain))
    return POS_INF if endless and not part.is_empty() else counts


def _padded(pieces: Sequence[Piece], domain: Set) -> PwAff:
    """The PwAff on `domain` that is 0 outside the pieces."""
    total, rest = session.isl().PwAff.empty(session.isl().PwAff.from_aff(constant_part(0, domain)).get_space()), domain
    for piece in pieces:
        total = total.union_add(session.isl().PwAff.alloc(piece.domain.intersect(domain), piece.function))
        rest = rest.subtract(piece.domain)
    whole: PwAff = total.union_add(session.isl().PwAff.alloc(rest, constant_part(0, domain)))
    return whole


def _translated(factor: Set) -> list[Piece] | None:
    """The constant number of points of a bounded set that its parameters only translate; `None` for other sets."""
    dims = factor.dim(SET)
    corner, point = [f"c{k}" for k in range(dims)], [f"p{k}" for k in range(dims)]
    offsets = ", ".join(f"{p} - {c}" for c, p in zip(corner, point, strict=True))
    offset = session.isl().Map.read_from_str(session.context(), f"{{ [{', '.join(corner + point)}] -> [{offsets}] }}")
    moved = session.lexicographic_extremum(factor, -1).flat_product(factor).apply(offset)
    shape = session.unparametric(moved)
    if not shape.intersect_params(factor.params()).is_subset(moved):
        return None
    size = added(count_part(part) for part in session.disjoint_parts(shape))
    return [Piece(factor.params(), constant_part(size, factor.params()))] if isinstance(size, int) else None


class _Largest(NamedTuple):
    """The largest number of points of an instance, and whether all instances have this number."""

    most: int | Infinity
    everywhere: bool


def _largest(fibres: Set, domain: Set) -> _Largest | None:
    """The answer by closed forms; `None` without them, or beyond `COUNTED_PARTS`."""
    try:
        with session.budget(COUNT_OPERATIONS):
            parts = []
            for part in session.disjoint_parts(fibres):
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
    vectors = session.isl().Set.universe(domain.get_space().set_from_params()).intersect_params(domain)
    for factor in (pw for some in parts for pw in some):
        vectors = vectors.flat_product(session.isl().Set.from_pw_aff(factor))
    vectors = session.unparametric(vectors)

    def points_of(vector: Sequence[int]) -> int:
        left = iter(vector)
        return sum(prod(next(left) for _ in factors) for factors in parts)

    span = range(vectors.dim(SET))
    highest = [end for k in span if (end := session.whole(vectors.dim_max_val(k))) is not None]
    if len(highest) < len(span):
        return _Largest(POS_INF, False) if all(len(factors) == 1 for factors in parts) else None
    together = vectors
    for k in span:
        together = together.fix_val(SET, k, session.val(highest[k]))
    if not together.is_empty():
        return _Largest(points_of(highest), together.is_equal(vectors))
    return _Largest(
        max(points_of(session.coordinates(vector)) for vector in _visited(vectors, INSTANCE_VECTORS)), False
    )


def _largest_visited(fibres: Set, domain: Set, max_points: int) -> int | Infinity:
    """The most points of one instance, each counted."""
    most: int | Infinity = 0
    for instance in _visited(_as_set(domain), max_points // POINTS_PER_INSTANCE):
        fibre = fibres
        for k, value in enumerate(session.coordinates(instance)):
            fibre = fibre.fix_val(PARAM, k, session.val(value))
        here = added(count_part(part) for part in session.disjoint_parts(session.unparametric(fibre)))
        most = max(most, here)
    return most


def _as_set(domain: Set) -> Set:
    """Turn the parameters of a set of parameters into dimensions."""
    return domain.from_params().move_dims(SET, 0, PARAM, 0, domain.dim(PARAM))


def _visited(isl_set: Set, max_points: int) -> list[Point]:
    """All points of a set, as isl Points."""
    size = count(isl_set, max_points)
    if size > max_points:
        raise BudgetError(f"{size} points are more than the {max_points} that may be visited")
    found: list[Any] = []
    isl_set.foreach_point(found.append)
    return found

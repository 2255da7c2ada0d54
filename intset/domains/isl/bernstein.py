"""Upper bounds of quasi-polynomials over Presburger sets, by Bernstein coefficients at parametric vertices.

A count is a polynomial of variables, quotients and remainders, with choices between conditions. Each choice is a
*case* with its own conditions; a quotient `q` of an affine form `a` by `c` becomes a coordinate with
`c*q <= a < c*q + c`. So a case is a polynomial over a polytope.

Each point of a polytope is a sum of its vertices with weights that are not negative and add up to 1. In these weights
the polynomial is homogeneous of its degree; its coefficients, each divided by the number of ways to order its weights,
are the *Bernstein coefficients*. The polynomial is an average of them: none of its values exceeds the largest one. The
coefficient of one vertex alone is the value there.

Source: Clauss, Fernandez, Garbervetsky and Verdoolaege, Symbolic polynomial maximization over convex sets and its
application to memory requirement estimation, 2009.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from itertools import product
from math import comb, factorial, lcm, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.domains.isl import session
from intset.domains.isl.bindings import PARAM, SET
from intset.domains.isl.cones import Chamber, ParametricVertex, cells, polyhedron, rows_of
from intset.domains.isl.count import disjoint_parts
from intset.domains.isl.translate import param_name, set_to_cond
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Var, dag, ops, shown
from intset.expr.evaluate import compiled
from intset.linear.form import ZERO, Linear, atom, constant, factors
from intset.regions.shape import Ceiling

if TYPE_CHECKING:
    from islpy import Set

BERNSTEIN_CASES: Final = 64  # cases of one count
BERNSTEIN_PIECES: Final = 64  # sets of sizes with a bound of their own
BERNSTEIN_COEFFICIENTS: Final = 3_000  # coefficients of one polynomial over one polytope
DIVISIBILITY_POINTS: Final = 4_096  # points of one period at which a division is tried to be exact

Polynomial = dict[tuple[int, ...], Fraction]  # exponents of the variables, and coefficients


# -- cases of a polynomial ---------------------------------------------------------------------------------------------


class WeightCase(NamedTuple):
    """A polynomial with rational coefficients where conditions hold.

    Attributes
    ----------
    conditions: over the variables and `extra`.
    extra: coordinates that stand for quotients and remainders.
    numerator, denominator: the polynomial.
    is_exact: whether each value of the variables determines those of `extra`.
    """

    conditions: tuple[Cond, ...]
    extra: tuple[Var, ...]
    numerator: Linear
    denominator: int = 1
    is_exact: bool = True

    def among(self, other: WeightCase, numerator: Linear, denominator: int) -> WeightCase:
        """A polynomial where the conditions of both cases hold."""
        return WeightCase(
            tuple(dict.fromkeys((*self.conditions, *other.conditions))),
            tuple(dict.fromkeys((*self.extra, *other.extra))),
            numerator,
            denominator,
            self.is_exact and other.is_exact,
        )

    def where(self, *conditions: Cond) -> WeightCase:
        return self._replace(conditions=tuple(dict.fromkeys((*self.conditions, *conditions))))


Cases = list[WeightCase]


def _sum(a: WeightCase, b: WeightCase, sign: int = 1) -> WeightCase:
    scale = lcm(a.denominator, b.denominator)
    total = a.numerator.scale(scale // a.denominator).plus(b.numerator, sign * (scale // b.denominator))
    return a.among(b, total, scale)


def _quotient(dividend: Expr, divisor: int, case: WeightCase, is_remainder: bool) -> WeightCase:
    """`dividend // divisor`, or the remainder, where `case` is the dividend."""
    form = case.numerator
    if case.denominator == 1 and all(e.op is ops.VAR for e in form.terms):
        q, a = Var("q"), form.expr()
        inside = case.where(q * divisor <= a, a < q * divisor + divisor)._replace(extra=(*case.extra, q))
        return inside._replace(numerator=form.plus(atom(q), -divisor) if is_remainder else atom(q))
    if _always_divides(divisor, dividend):
        return case._replace(numerator=ZERO) if is_remainder else case._replace(denominator=case.denominator * divisor)
    r = Var("r")
    inside = case.where(r >= 0, r < divisor)._replace(extra=(*case.extra, r), is_exact=False)
    if is_remainder:
        return inside._replace(numerator=atom(r), denominator=1)
    return inside._replace(numerator=form.plus(atom(r), -case.denominator), denominator=case.denominator * divisor)


def _chosen(cond: Cond, yes: Cases, no: Cases) -> Cases:
    return [*(case.where(cond) for case in yes), *(case.where(~cond) for case in no)]


def _pairwise(combined: Callable[[WeightCase, WeightCase], WeightCase]) -> Callable[..., Cases]:
    return lambda node, a, b: [combined(x, y) for x, y in product(a, b)]


def _divided(is_remainder: bool) -> Callable[..., Cases]:
    def row(node: Expr, dividend: Cases, divisor: Cases) -> Cases:
        if not node.args[1].is_const or node.args[1].value <= 0:
            raise BudgetError(f"a divisor that is no positive number: {shown(node)}")
        return [_quotient(node.args[0], node.args[1].value, case, is_remainder) for case in dividend]

    return row


_ROWS: Final[Mapping[ops.Op, Callable[..., Cases]]] = {
    ops.CONST: lambda node: [WeightCase((), (), constant(node.data))],
    ops.VAR: lambda node: [WeightCase((), (), atom(node))],
    ops.ADD: _pairwise(_sum),
    ops.SUB: _pairwise(lambda a, b: _sum(a, b, -1)),
    ops.NEG: lambda node, a: [case._replace(numerator=case.numerator.scale(-1)) for case in a],
    ops.MUL: _pairwise(lambda a, b: a.among(b, a.numerator.times(b.numerator), a.denominator * b.denominator)),
    ops.FLOORDIV: _divided(is_remainder=False),
    ops.FLOORMOD: _divided(is_remainder=True),
    ops.MIN: lambda node, a, b: _chosen(node.args[0] <= node.args[1], a, b),
    ops.MAX: lambda node, a, b: _chosen(node.args[0] >= node.args[1], a, b),
    ops.SELECT: lambda node, a, b: _chosen(node.args[0], a, b),
}


def cases(root: Expr) -> Cases:
    """The polynomials of `root`, whose conditions exclude one another and cover everything."""
    known: dict[Expr, Cases] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        operands = [arg for arg in node.args if isinstance(arg, Expr)]
        if waiting := [arg for arg in operands if arg not in known]:
            stack += waiting
            continue
        stack.pop()
        row = _ROWS.get(node.op)
        if row is None:
            raise BudgetError(f"{node.op.name} is not polynomial: {shown(node)}")
        known[node] = row(node, *(known[arg] for arg in operands))
        if len(known[node]) > BERNSTEIN_CASES:
            raise BudgetError(f"more than {BERNSTEIN_CASES} cases", "BERNSTEIN_CASES")
    return known[root]


def _always_divides(divisor: int, dividend: Expr) -> bool:
    """Whether a number divides an expression of polynomials, quotients and remainders everywhere.

    Modulo `divisor` the expression repeats with the period `divisor` times all numbers that it divides by; one period
    is tried.
    """
    nodes = dag.postorder((dividend,))
    divisions = [node for node in nodes if node.op in (ops.FLOORDIV, ops.FLOORMOD)]
    if any(node.op not in _PERIODIC for node in nodes) or not all(node.args[1].is_const for node in divisions):
        return False
    variables = dag.free_vars(dividend)
    period = divisor * prod(abs(node.args[1].value) for node in divisions)
    if not period or period ** len(variables) > DIVISIBILITY_POINTS:
        return False
    value = compiled(dividend, variables)
    return all(value(*at) % divisor == 0 for at in product(range(period), repeat=len(variables)))


_PERIODIC: Final = frozenset((ops.CONST, ops.VAR, ops.ADD, ops.SUB, ops.NEG, ops.MUL, ops.FLOORDIV, ops.FLOORMOD))


# -- coefficients ------------------------------------------------------------------------------------------------------


class _Bound(NamedTuple):
    """A Bernstein coefficient, and whether the polynomial has this value."""

    value: Linear
    denominator: int
    is_attained: bool

    def expr(self) -> Expr:
        return self.value.expr() if self.denominator == 1 else self.value.expr() // self.denominator


class Maximum:
    """The maximum of bounds of polytopes, for each set of a partition of the sizes."""

    def __init__(self) -> None:
        self.pieces: list[tuple[Set, list[_Bound]]] = []
        self.names: dict[str, Expr] = {}  # of the parameters

    def add(self, case: WeightCase, points: Set, known: Sequence[Expr], coordinates: Sequence[Var]) -> None:
        """Take a case into account.

        Parameters
        ----------
        points: the isl set of the case, over `coordinates`; `known` are its parameters.

        Raises
        ------
        BudgetError: a set without end, or too many coefficients or pieces.
        """
        params = list(known)
        atoms = {f for monomial in case.numerator.terms for f in factors(monomial)}
        params += [e for e in dag.free_vars(*atoms) if e not in coordinates and e not in params]
        for part in disjoint_parts(points):
            around = part.to_set()
            if not (around.is_bounded() or all(around.dim_is_bounded(SET, k) for k in range(len(coordinates)))):
                raise BudgetError("a set without end")
            more = [0] * (len(params) - len(known))
            widened = ([row._replace(params=(*row.params, *more)) for row in rows] for rows in rows_of(part))
            equal, nonneg = widened
            dims = len([*equal, *nonneg][0].dims) if equal or nonneg else 0
            whole = polyhedron(dims, equal, nonneg, len(params)).detect_equalities().remove_redundancies()
            atoms_in_order = [*coordinates, *[None] * (dims - len(coordinates)), *params]
            polynomial = _polynomial(case, atoms_in_order)
            for zero, sides, vertices in cells(whole, len(params)):
                bounds = list(_coefficients(polynomial, dims, vertices, params, case))
                chamber = Chamber(zero, sides, (), ZERO, 1)
                domain = session.isl().Set.read_from_str(
                    session.context(), chamber.text([param_name(e) for e in params])
                )
                self.names.update((param_name(e), e) for e in params)
                self._put(domain, bounds)

    def _put(self, domain: Set, bounds: list[_Bound]) -> None:
        """Take the maximum with `bounds` on a set of sizes."""
        pieces: list[tuple[Set, list[_Bound]]] = []
        for own, known in self.pieces:
            both = own.intersect(domain)
            if both.is_empty():
                pieces.append((own, known))
                continue
            pieces.append((both, _largest([*known, *bounds])))
            left = own.subtract(domain)
            if not left.is_empty():
                pieces.append((left, known))
            domain = domain.subtract(own)
        if not domain.is_empty():
            pieces.append((domain, _largest(bounds)))
        if len(pieces) > BERNSTEIN_PIECES:
            raise BudgetError(f"more than {BERNSTEIN_PIECES} pieces", "BERNSTEIN_PIECES")
        self.pieces = pieces

    def ceilings(self) -> list[Ceiling]:
        found = []
        for domain, bounds in self.pieces:
            kind = PARAM
            params = [self.names[str(domain.get_dim_name(kind, k))] for k in range(domain.dim(kind))]
            where = set_to_cond(domain, (), params)
            if where is None:
                raise BudgetError("sizes without a condition")
            values: dict[Expr, bool] = {}
            for bound in bounds:
                value = bound.expr()
                values[value] = bound.is_attained or values.get(value, False)
            found.append(Ceiling(where, values))
        return found


def _largest(bounds: Iterable[_Bound]) -> list[_Bound]:
    """Drop each bound that another one exceeds by a constant; of equal ones keep the attained one."""
    kept: list[_Bound] = []
    for one in bounds:
        rest = []
        for other in kept:
            gap = one.value.scale(other.denominator).minus(other.value.scale(one.denominator))
            if gap.is_const and (gap.const < 0 or (gap.const == 0 and (other.is_attained or not one.is_attained))):
                break
            if not gap.is_const:
                rest.append(other)
        else:
            kept = [*rest, one]
    return kept


def _polynomial(case: WeightCase, atoms: Sequence[Expr | None]) -> Polynomial:
    """The polynomial of a case by exponents of coordinates and parameters."""
    place = {e: k for k, e in enumerate(atoms) if e is not None}
    found: Polynomial = {(0,) * len(atoms): Fraction(case.numerator.const, case.denominator)}
    for monomial, coefficient in case.numerator.terms.items():
        exponents = [0] * len(atoms)
        for e in factors(monomial):
            exponents[place[e]] += 1
        found[tuple(exponents)] = Fraction(coefficient, case.denominator)
    return found


def _coefficients(
    polynomial: Polynomial,
    dims: int,
    vertices: Sequence[ParametricVertex],
    params: Sequence[Expr],
    case: WeightCase,
) -> Iterable[_Bound]:
    """The Bernstein coefficients of a polynomial over the polytope of some vertices."""
    degree = max(sum(exponents[:dims]) for exponents in polynomial)
    number = len(vertices)
    if comb(number + degree - 1, degree) > BERNSTEIN_COEFFICIENTS:
        raise BudgetError(f"more than {BERNSTEIN_COEFFICIENTS} coefficients", "BERNSTEIN_COEFFICIENTS")
    units = [tuple(int(i == k) for i in range(number)) for k in range(number)]
    nothing = (0,) * len(params)
    whole: Polynomial = {(*unit, *nothing): Fraction(1) for unit in units}
    places: list[Polynomial] = []
    for k in range(dims):
        weighted: Polynomial = {}
        for unit, vertex in zip(units, vertices, strict=True):
            slope, start = vertex[k]
            weighted[(*unit, *nothing)] = start
            for i, factor in enumerate(slope):
                weighted[(*unit, *(int(i == j) for j in range(len(params))))] = factor
        places.append({exponents: c for exponents, c in weighted.items() if c})
    total: Polynomial = {}
    for exponents, coefficient in polynomial.items():
        chosen = [places[k] for k in range(dims) for _ in range(exponents[k])]
        own: Polynomial = {(*[0] * number, *exponents[dims:]): coefficient}
        for mixed, c in reduce(_times, [*chosen, *[whole] * (degree - len(chosen))], own).items():
            total[mixed] = total.get(mixed, Fraction(0)) + c
    by_weights: dict[tuple[int, ...], Polynomial] = {}
    for weights in _weights(number, degree):
        by_weights[weights] = {}
    for mixed, c in total.items():
        weights = mixed[:number]
        ways = factorial(degree) // prod(map(factorial, weights))
        by_weights[weights][mixed[number:]] = c / ways
    for weights, share in by_weights.items():
        scale = lcm(*(c.denominator for c in share.values()))
        value = Linear(0, {})
        for exponents, c in share.items():
            powers = [atom(e) for e, power in zip(params, exponents, strict=True) for _ in range(power)]
            value = value.plus(reduce(Linear.times, powers, constant(1)), int(c * scale))
        corners = [vertex for vertex, weight in zip(vertices, weights, strict=True) if weight == degree]
        yield _Bound(value, scale, case.is_exact and any(map(_is_integral, corners)))


def _weights(number: int, degree: int) -> Iterable[tuple[int, ...]]:
    """All tuples of `number` counts that add up to `degree`."""
    if number == 1:
        yield (degree,)
        return
    for first in range(degree + 1):
        for rest in _weights(number - 1, degree - first):
            yield (first, *rest)


def _is_integral(vertex: ParametricVertex) -> bool:
    return all(start.denominator == 1 and all(x.denominator == 1 for x in slope) for slope, start in vertex)


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    found: Polynomial = {}
    for (one, x), (other, y) in product(a.items(), b.items()):
        exponents = tuple(i + j for i, j in zip(one, other, strict=True))
        found[exponents] = found.get(exponents, Fraction(0)) + x * y
    return found

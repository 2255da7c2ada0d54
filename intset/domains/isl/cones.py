"""Closed counts of parametric polyhedra, and upper bounds of quasi-polynomials, at the parametric vertices.

    {i, j : 0 <= i, 0 <= j, 3*i + 2*j <= n}         vertices for n >= 0: (0, 0), (n/3, 0), (0, n/2)

A *chamber* is a polyhedron of parameters over which the same vertices exist. By Brion's theorem, the number of points
of a polytope is the sum, over its vertices, of the points of the *tangent cones*: rational generating functions at 1.
The cone at a vertex is `{z : d . (z - vertex) >= 0 for d in rows}`; its rows are triangulated and cut into signed
*unimodular* sets of rows (Barvinok), of determinant 1 or -1. Pieces of lower dimension belong to cones that contain a
line, and count nothing.

A unimodular cone at `vertex` has the points `d . z >= ceil(d . vertex)` and thus the generating function
`x**z0 / prod(1 - x**u)`, where `z0` satisfies all rows with equality and the `u` are the columns of the inverse. Along
a *generic direction*, in which no `u` is constant, its share of the count is the constant term in t of

    exp(t * m) / prod(1 - exp(t * c)),    c = direction . u,    m = sum of c * ceil(d . vertex).

`ceil(d . vertex)` is affine in the parameters and one remainder, so the count is a polynomial of parameters and
remainders with constant divisors: a *quasi-polynomial*.

Upper bounds over Presburger sets are Bernstein coefficients at the same vertices. A count is a polynomial of variables,
quotients and remainders, with choices between conditions. Each choice of arms is a *case* with separate conditions; a
quotient `q` of an affine form `a` by `c` becomes a coordinate with `c*q <= a < c*q + c`. A case is therefore a
polynomial over a polytope.

Each point of a polytope is a sum of its vertices with weights that are not negative and add up to 1. In these weights
the polynomial is homogeneous of its degree; its coefficients, each divided by the number of ways to order its weights,
are the *Bernstein coefficients*. The polynomial is an average of them: none of its values exceeds the largest one. The
coefficient of one vertex alone is the value there.

Sources: Brion, Points entiers dans les polyedres convexes, 1988; Barvinok, A polynomial time algorithm for counting
integral points in polyhedra when the dimension is fixed, 1994; Verdoolaege, Seghir, Beyls, Loechner and Bruynooghe,
Counting integer points in parametric polytopes using Barvinok's rational functions, 2007; Clauss,
Fernandez, Garbervetsky and Verdoolaege, Symbolic polynomial maximization over convex sets and its application to memory
requirement estimation, 2009.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from math import comb, factorial, gcd, lcm, perm, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.domains.isl import session
from intset.domains.isl.bindings import DIV, IN, PARAM, SET
from intset.domains.isl.translate import param_name, set_to_cond
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Var, dag, ops, shown
from intset.expr.evaluate import compiled
from intset.installation import load
from intset.linear.form import ZERO, Linear, atom, factors, monomial_of
from intset.linear.lattice import Vector, echelon, integer_inverse, reduced_basis
from intset.regions.shape import Ceiling

if TYPE_CHECKING:
    from islpy import BasicSet, Set

COUNTED_CONES: Final = 6_000  # cones of one closed count

COUNTED_VERTICES: Final = 20_000  # choices of as many inequalities as there are dimensions
COUNTED_DIMENSIONS: Final = 8  # dimensions of one polyhedron, divisions included, without equalities

Affine = tuple[tuple[Fraction, ...], Fraction]  # coefficients of the parameters, and a constant


class AffineRow(NamedTuple):
    """`dims . x + params . p + constant`, which is 0 or at least 0."""

    dims: Vector
    params: Vector
    constant: int


class Congruence(NamedTuple):
    """`params . p + constant` is a multiple of `modulus`."""

    params: Vector
    constant: int
    modulus: int


@dataclass(frozen=True)
class Chamber:
    """A polyhedron of parameters and the number of points there.

    Attributes
    ----------
    zero, nonneg, congruences: constraints on the parameters.
    numerator, denominator: their quotient is the number of points, an integer throughout the chamber.
    cones: the number of unimodular cones that were summed.
    """

    zero: tuple[AffineRow, ...]
    nonneg: tuple[AffineRow, ...]
    congruences: tuple[Congruence, ...]
    numerator: Linear
    denominator: int
    cones: int = 0

    def count(self) -> Expr:
        return self.numerator.expr() if self.denominator == 1 else self.numerator.expr() // self.denominator

    def holds(self, at: Sequence[int]) -> bool:
        """Whether these values of the parameters lie in the chamber."""

        def value(params: Sequence[int], constant: int) -> int:
            return sum(k * x for k, x in zip(params, at, strict=True)) + constant

        return (
            all(value(row.params, row.constant) == 0 for row in self.zero)
            and all(value(row.params, row.constant) >= 0 for row in self.nonneg)
            and all(value(c.params, c.constant) % c.modulus == 0 for c in self.congruences)
        )

    def text(self, names: Sequence[str]) -> str:
        """The parameters as an isl set."""
        rows = [f"{_sum(row.params, row.constant, names)} = 0" for row in self.zero]
        rows += [f"{_sum(row.params, row.constant, names)} >= 0" for row in self.nonneg]
        rows += [f"({_sum(c.params, c.constant, names)}) mod {c.modulus} = 0" for c in self.congruences]
        return f"[{', '.join(names)}] -> {{ : {' and '.join(rows) or 'true'} }}"


def chambers(
    equalities: Sequence[AffineRow],
    inequalities: Sequence[AffineRow],
    params: Sequence[Expr],
    most: int = COUNTED_CONES,
) -> list[Chamber]:
    """The number of integer points of a polyhedron, one quasi-polynomial a chamber; 0 outside of all.

    Precondition: the polyhedron is not empty, and bounded at all parameters. Chambers may share borders, where their
    quasi-polynomials agree.

    Raises
    ------
    BudgetError: more than `most` cones or `COUNTED_DIMENSIONS` dimensions.
    """
    every = [*equalities, *inequalities]
    dims = len(every[0].dims) if every else 0
    explicit = polyhedron(dims, equalities, inequalities, len(params)).detect_equalities().remove_redundancies()
    system = _without_equalities(*rows_of(explicit))
    zero = tuple(row for row in system.equalities if not any(row.dims))
    if not system.dims:
        return [Chamber(zero, tuple(system.inequalities), tuple(system.congruences), Linear(1, {}), 1)]
    if system.dims > COUNTED_DIMENSIONS:
        raise BudgetError(f"a set of {system.dims} dimensions has no closed count", "COUNTED_DIMENSIONS")
    found, cutting = [], ConeCutter(most)
    equalities = [AffineRow((0,) * system.dims, row.params, row.constant) for row in system.equalities]
    whole = polyhedron(system.dims, equalities, system.inequalities, len(params)).remove_redundancies()
    _, nonneg = rows_of(whole)
    if comb(len(nonneg), system.dims) > COUNTED_VERTICES:
        raise BudgetError(f"more than {COUNTED_VERTICES} possible vertices", "COUNTED_VERTICES")
    for domain_zero, domain_nonneg, vertices in cells(whole, len(params)):
        shares = [cone for vertex in vertices for cone in cutting.unimodular(nonneg, vertex)]
        total = _points_of(shares, params)
        found.append(Chamber((*zero, *domain_zero), domain_nonneg, tuple(system.congruences), *total, len(shares)))
    return found


def rows_of(part: BasicSet) -> tuple[list[AffineRow], list[AffineRow]]:
    """All equalities and inequalities of an isl basic set; its divisions become further dimensions.

    Raises
    ------
    BudgetError: a division has no explicit form.
    """
    dims, divs, params = (part.dim(kind) for kind in (SET, DIV, PARAM))

    def row(function: Any, of: Any, scale: int = 1) -> AffineRow:
        def read(kind: Any, size: int) -> list[int]:
            return [int(_number(function.get_coefficient_val(kind, k)) * scale) for k in range(size)]

        constant = int(_number(function.get_constant_val()) * scale)
        return AffineRow((*read(of, dims), *read(DIV, divs)), tuple(read(PARAM, params)), constant)

    constraints = part.get_constraints()
    equal = [row(c, SET) for c in constraints if c.is_equality()]
    nonneg = [row(c, SET) for c in constraints if not c.is_equality()]
    for k in range(divs):  # isl leaves out what defines a division, where no other constraint needs it
        division = part.get_div(k)
        if division.is_nan():
            raise BudgetError("a division has no explicit form", "isl_operations")
        divisor = int(_number(division.get_denominator_val()))
        above = row(division, IN, divisor)
        slopes = tuple(x - divisor * (j == dims + k) for j, x in enumerate(above.dims))
        nonneg += [
            AffineRow(slopes, above.params, above.constant),
            AffineRow(tuple(-x for x in slopes), tuple(-x for x in above.params), divisor - 1 - above.constant),
        ]
    return equal, nonneg


def _number(value: Any) -> Fraction:
    """A number of isl: an `int`, or a value of the bindings or of islpy."""
    return Fraction(value if isinstance(value, int) else value.to_str())


def _sum(coefficients: Sequence[int], constant: int, names: Sequence[str]) -> str:
    terms = [f"{k}{name}" for k, name in zip(coefficients, names, strict=True) if k]
    return " + ".join([*terms, str(constant)])


# -- equalities --------------------------------------------------------------------------------------------------------


class EliminatedRows(NamedTuple):
    dims: int
    equalities: list[AffineRow]  # of parameters alone
    inequalities: list[AffineRow]
    congruences: list[Congruence]


def _without_equalities(equalities: list[AffineRow], inequalities: list[AffineRow]) -> EliminatedRows:
    """The same number of points in fewer dimensions, by a unimodular change of coordinates `x = change @ z`.

    In the new coordinates the equalities are in echelon form: each fixes one coordinate as a quotient of an affine form
    of the parameters, which is an integer under a congruence.
    """
    dims = len((equalities or inequalities)[0].dims) if equalities or inequalities else 0
    change = echelon([row.dims for row in equalities], dims)
    solved: list[Affine] = []  # the first coordinates
    left: list[AffineRow] = []
    congruences: list[Congruence] = []
    for row in equalities:
        image = _transformed(row.dims, change)
        rest = _rest(image, row, solved)
        if len(solved) < dims and image[len(solved)]:
            pivot = image[len(solved)]
            at = tuple(-x / pivot for x in rest[0]), -rest[1] / pivot
            solved.append(at)
            modulus = lcm(at[1].denominator, *(x.denominator for x in at[0]))
            if modulus > 1:
                scaled = [int(x * modulus) for x in (*at[0], at[1])]
                congruences.append(Congruence(tuple(scaled[:-1]), scaled[-1], modulus))
        else:
            left.append(_integral((), rest))
    known = len(solved)
    kept = []
    for row in inequalities:
        image = _transformed(row.dims, change)
        kept.append(_integral(image[known:], _rest(image, row, solved)))
    trivial = {row for row in kept if not any(row.dims) and not any(row.params) and row.constant >= 0}
    return EliminatedRows(dims - known, left, [row for row in dict.fromkeys(kept) if row not in trivial], congruences)


def _transformed(row: Vector, change: Sequence[Vector]) -> Vector:
    return tuple(
        sum(x * column for x, column in zip(row, columns, strict=True)) for columns in zip(*change, strict=True)
    )


def _rest(image: Vector, row: AffineRow, solved: Sequence[Affine]) -> Affine:
    """The parameters and constant of a row after substitution of the solved coordinates."""
    coefficients, constant = [Fraction(x) for x in row.params], Fraction(row.constant)
    for k, (slope, start) in zip(image, solved, strict=False):
        coefficients = [a + k * b for a, b in zip(coefficients, slope, strict=True)]
        constant += k * start
    return tuple(coefficients), constant


def _integral(dims: Vector, rest: Affine) -> AffineRow:
    """A positive multiple of the row with integers, without common factor."""
    scale = lcm(rest[1].denominator, *(x.denominator for x in rest[0]))
    whole = [*(x * scale for x in dims), *(int(x * scale) for x in (*rest[0], rest[1]))]
    shared = gcd(*whole) or 1
    whole = [x // shared for x in whole]
    return AffineRow(tuple(whole[: len(dims)]), tuple(whole[len(dims) : -1]), whole[-1])


# -- vertices ----------------------------------------------------------------------------------------------------------

ParametricVertex = tuple[Affine, ...]
_Cell = tuple[tuple[AffineRow, ...], tuple[AffineRow, ...], list[ParametricVertex]]


def cells(whole: BasicSet, params: int) -> list[_Cell]:
    """The chambers, each by its equalities, its inequalities and its vertices, from isl's parametric vertices."""
    dims = whole.dim(SET)
    every: list[Any] = []
    found: list[_Cell] = []
    known: dict[int, ParametricVertex] = {}  # chambers share vertices
    whole.compute_vertices().foreach_cell(every.append)
    for cell in every:
        own: list[Any] = []
        cell.foreach_vertex(own.append)
        equal, nonneg = rows_of(cell.get_domain())
        vertices = []
        for vertex in own:
            number = vertex.get_id()
            if number not in known:
                at = vertex.get_expr()
                known[number] = tuple(_affine(at.get_at(k), params) for k in range(dims))
            vertices.append(known[number])
        found.append((tuple(equal), tuple(nonneg), vertices))
    return found


def polyhedron(dims: int, equalities: Iterable[AffineRow], inequalities: Iterable[AffineRow], params: int) -> BasicSet:
    """The rows as a basic set of islpy, in a context of its own: vertices are computed without a limit."""
    names = [*(f"z{k}" for k in range(dims)), *(f"p{k}" for k in range(params))]
    rows = [f"{_sum((*row.dims, *row.params), row.constant, names)} = 0" for row in equalities]
    rows += [f"{_sum((*row.dims, *row.params), row.constant, names)} >= 0" for row in inequalities]
    inside = f"[{', '.join(names[:dims])}] : {' and '.join(rows) or 'true'}"
    m = _islpy()
    found: BasicSet = m.BasicSet(f"[{', '.join(names[dims:])}] -> {{ {inside} }}", context=m.Context())
    return found


def _islpy() -> Any:
    load("islpy")
    import islpy

    return islpy


def _affine(function: Any, params: int) -> Affine:
    slope = tuple(_number(function.get_coefficient_val(PARAM, k)) for k in range(params))
    return slope, _number(function.get_constant_val())


# -- cones -------------------------------------------------------------------------------------------------------------

Rows = tuple[Vector, ...]


class SignedCone(NamedTuple):
    """Unimodular rows at a vertex, counted with a sign, and the edges of their cone, the columns of the inverse."""

    sign: int
    rows: Rows
    edges: Rows
    vertex: ParametricVertex


class ConeCutter:
    """Cuts cones into unimodular ones, at most `most` of them, cut and whole ones counted alike."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._known: dict[Rows, list[tuple[int, Rows, Rows]]] = {}

    def unimodular(self, inequalities: Sequence[AffineRow], vertex: ParametricVertex) -> list[SignedCone]:
        """The tangent cone at a vertex as signed unimodular cones."""
        active = [_primitive(row.dims) for row in inequalities if any(row.dims) and _is_active(row, vertex)]
        found = []
        for simplex in _triangulated(sorted(set(active)), len(vertex)):
            if simplex not in self._known:
                self._known[simplex] = self._cut(simplex)
            self._spend(len(self._known[simplex]))
            found += [SignedCone(*cone, vertex) for cone in self._known[simplex]]
        return found

    def _cut(self, rows: Rows) -> list[tuple[int, Rows, Rows]]:
        """Signed unimodular cones, with their edges, whose sum is the cone of `rows`, up to cones of lower dimension.

        A short vector of the lattice of a cone replaces each of its rows in turn; the determinants shrink.
        """
        waiting, signs, edges = {rows: 1}, dict[Rows, int](), dict[Rows, Rows]()
        while waiting:
            cone, sign = waiting.popitem()
            if not sign:
                continue
            inverse, determinant = integer_inverse(cone)
            if determinant == 1:
                signs[cone] = signs.get(cone, 0) + sign
                edges[cone] = tuple(zip(*inverse, strict=True))
                continue
            self._spend(1)
            weights = _short_vector(inverse)
            sums = (sum(x * row[k] for x, row in zip(weights, cone, strict=True)) for k in range(len(cone)))
            pivot = _primitive(tuple(total // determinant for total in sums))
            for k, weight in enumerate(weights):
                if weight:
                    part = tuple(sorted((*cone[:k], pivot, *cone[k + 1 :])))
                    waiting[part] = waiting.get(part, 0) + (sign if weight > 0 else -sign)
        return [(sign, cone, edges[cone]) for cone, sign in signs.items() if sign]

    def _spend(self, cones: int) -> None:
        self._left -= cones
        if self._left < 0:
            raise BudgetError(f"more than {self._most:,} cones", "COUNTED_CONES")


def _is_active(row: AffineRow, vertex: ParametricVertex) -> bool:
    """Whether the vertex lies on the border of an inequality, for all parameters."""
    slopes, constant = _rest(row.dims, row, vertex)
    return not constant and not any(slopes)


def _primitive(row: Vector) -> Vector:
    shared = gcd(*row)
    return tuple(x // shared for x in row)


def _triangulated(rows: Sequence[Vector], dims: int) -> list[Rows]:
    """Simplicial cones that together are the cone of `rows`: the lower faces after lifting rows to drawn heights."""
    if len(rows) < dims:
        raise BudgetError("isl gives a vertex with too few constraints", "COUNTED_CONES")
    if len(rows) == dims:
        return [tuple(rows)]
    if comb(len(rows), dims) > COUNTED_CONES:
        raise BudgetError(f"more than {COUNTED_CONES} cones", "COUNTED_CONES")
    for seed in range(20):
        heights = [random.Random(f"{seed} {k}").randrange(1, 10**6) for k in range(len(rows))]
        faces = _lower_faces(rows, heights, dims)
        if faces is not None:
            return faces
    raise BudgetError("no triangulation in general position", "COUNTED_CONES")


def _lower_faces(rows: Sequence[Vector], heights: Sequence[int], dims: int) -> list[Rows] | None:
    """The faces below all other lifted rows; `None` where a further row lies on one."""
    faces = []
    for chosen in itertools.combinations(range(len(rows)), dims):
        inverse, determinant = integer_inverse([rows[k] for k in chosen])
        if not determinant:
            continue
        plane = [sum(inverse[r][t] * heights[k] for t, k in enumerate(chosen)) for r in range(dims)]
        above = [
            heights[k] * determinant - sum(x * y for x, y in zip(plane, rows[k], strict=True))
            for k in range(len(rows))
            if k not in chosen
        ]
        if 0 in above:
            return None
        if min(above) > 0:
            faces.append(tuple(rows[k] for k in chosen))
    return faces


def _short_vector(inverse: Sequence[Vector]) -> Vector:
    """A short vector of the lattice spanned by the rows of `inverse`, with a positive entry."""
    basis = reduced_basis(inverse)
    size = len(basis)
    span = (-1, 0, 1) if size <= 4 else (0,)
    sums = [
        tuple(sum(k * v[t] for k, v in zip(ks, basis, strict=True)) for t in range(size))
        for ks in itertools.product(span, repeat=size)
        if any(ks)
    ]
    best = min((*basis, *sums), key=lambda v: (max(map(abs, v)), sum(map(abs, v))))
    return best if max(best) > 0 else tuple(-x for x in best)


# -- quasi-polynomials -------------------------------------------------------------------------------------------------

Monomial = int  # the exponents of the atoms, `_EXPONENT_BITS` bits each: a product of monomials is their sum
Polynomial = dict[Monomial, int]
_EXPONENT_BITS = COUNTED_DIMENSIONS.bit_length()
_EXPONENT_MASK = (1 << _EXPONENT_BITS) - 1


class _RowCeiling(NamedTuple):
    """`numerator / divisor`, an integer at all parameters."""

    numerator: Polynomial
    divisor: int


class _Atoms:
    """The atoms of one count: parameters, then remainders in one normal form."""

    def __init__(self, params: Sequence[Expr], dims: int) -> None:
        self.params = params
        self.dims = dims
        self.remainders: dict[tuple[Vector, int, int], int] = {}
        self.short: list[tuple[int, int]] = []  # places and moduli of remainders whose powers need reduction
        self._ceilings: dict[tuple[Vector, int], _RowCeiling] = {}

    def ceiling(self, row: Vector, vertex: ParametricVertex) -> _RowCeiling:
        """The least integer that is at least `row . vertex`."""
        known = self._ceilings.get((row, id(vertex)))
        if known is None:
            known = self._ceilings[row, id(vertex)] = self._ceiling(row, vertex)
        return known

    def _ceiling(self, row: Vector, vertex: ParametricVertex) -> _RowCeiling:
        used = [(k, at) for k, at in zip(row, vertex, strict=True) if k]
        modulus = lcm(*(x.denominator for _, (slopes, start) in used for x in (*slopes, start)))
        constant = sum(k * start.numerator * (modulus // start.denominator) for k, (_, start) in used)
        scaled = [
            sum(k * slopes[p].numerator * (modulus // slopes[p].denominator) for k, (slopes, _) in used)
            for p in range(len(self.params))
        ]
        shared = gcd(modulus, constant, *scaled)
        modulus, constant, scaled = modulus // shared, constant // shared, [x // shared for x in scaled]
        factor, number, shift = self._remainder([-x for x in scaled], -constant, modulus)
        found = {1 << _EXPONENT_BITS * k: x for k, x in enumerate(scaled) if x}
        if constant + shift:
            found[0] = constant + shift
        if number is not None:
            found[1 << _EXPONENT_BITS * number] = factor
        return _RowCeiling(found, modulus)

    def _remainder(self, slopes: Sequence[int], constant: int, modulus: int) -> tuple[int, int | None, int]:
        """`(slopes . p + constant) % modulus` as `factor * atom + shift`; no atom where it is constant.

        Coefficients are reduced, common factors taken out, and of `x % q` and `(-x - 1) % q` one is an atom.
        """
        reduced, start = [x % modulus for x in slopes], constant % modulus
        factor = gcd(modulus, *reduced)
        shift, start, modulus = start % factor, start // factor, modulus // factor
        if modulus == 1:
            return 0, None, shift
        own = tuple(x // factor for x in reduced), start
        mirrored = tuple(-x % modulus for x in own[0]), (-start - 1) % modulus
        if mirrored < own:
            own, shift, factor = mirrored, shift + factor * (modulus - 1), -factor
        key = (*own, modulus)
        number = self.remainders.get(key)
        if number is None:
            number = self.remainders[key] = len(self.params) + len(self.remainders)
            if modulus <= self.dims:
                self.short.append((_EXPONENT_BITS * number, modulus))
        return factor, number, shift

    def times(self, a: Polynomial, linear: Polynomial) -> Polynomial:
        """The product with a linear form, with powers of each remainder below its modulus."""
        found: Polynomial = {}
        for n, y in linear.items():
            for m, x in a.items():
                found[m + n] = found.get(m + n, 0) + x * y
        for place, modulus in self.short:
            if not any(n >> place & _EXPONENT_MASK for n in linear):
                continue
            for m in [m for m in found if m >> place & _EXPONENT_MASK == modulus]:
                x = found.pop(m)
                for k, y in enumerate(_power_below(modulus)):
                    low = m - (modulus - k << place)
                    found[low] = found.get(low, 0) + x * y
        return found

    def form(self, total: Polynomial, denominator: int) -> tuple[Linear, int]:
        """The polynomial as a numerator in the atoms' expressions and a denominator."""
        shared = gcd(denominator, *total.values())
        leaves: list[Expr] = list(self.params)
        for slopes, constant, modulus in self.remainders:
            inside = Linear(constant, {})
            for param, k in zip(self.params, slopes, strict=True):
                inside = inside.plus(atom(param), k)
            leaves.append(inside.expr() % modulus)
        # a parameter may be a product of parameters, so two monomials may have one expression
        terms: dict[Expr, int] = {}
        for monomial, x in sorted(total.items()):
            if x and monomial:
                own = monomial_of([leaf for k, leaf in enumerate(leaves) for _ in range(_exponent(monomial, k))])
                terms[own] = terms.get(own, 0) + x // shared
        kept = {own: x for own, x in terms.items() if x}
        return Linear(total.get(0, 0) // shared, kept), denominator // shared


def _exponent(monomial: Monomial, number: int) -> int:
    return monomial >> _EXPONENT_BITS * number & _EXPONENT_MASK


@cache
def _power_below(modulus: int) -> tuple[int, ...]:
    """The coefficients of the polynomial of degree below `modulus` that equals `r**modulus` at r = 0, ..., modulus - 1.

    `r * (r - 1) * ... * (r - modulus + 1)` is 0 there, and its first coefficient is 1.
    """
    zero = [1]
    for node in range(modulus):
        zero = [a - node * b for a, b in zip([0, *zero], [*zero, 0], strict=True)]
    return tuple(-x for x in zero[:modulus])


def _points_of(cones: Sequence[SignedCone], params: Sequence[Expr]) -> tuple[Linear, int]:
    """Sum the shares of all cones: the number of points of the polytope, as numerator and denominator."""
    dims = len(cones[0].rows)
    atoms = _Atoms(params, dims)
    direction = _generic((cone.edges for cone in cones), dims)
    shares: dict[int, Polynomial] = {}  # numerators, by denominator
    for cone in cones:
        speeds = [sum(a * b for a, b in zip(direction, edge, strict=True)) for edge in cone.edges]
        ceilings = [atoms.ceiling(row, cone.vertex) for row in cone.rows]
        divisor = lcm(*(one.divisor for one in ceilings))
        start: Polynomial = {}  # `divisor` times the exponent m
        for (numerator, own_divisor), speed in zip(ceilings, speeds, strict=True):
            for monomial, x in numerator.items():
                start[monomial] = start.get(monomial, 0) + x * speed * (divisor // own_divisor)
        series, scale = _todd(speeds)
        # sum over j of m**j / j! * series[dims - j], times `divisor**dims * dims! * scale`, by Horner's scheme
        share: Polynomial = {0: series[0]}
        for j in reversed(range(dims)):
            share = atoms.times(share, start)
            share[0] = share.get(0, 0) + perm(dims, dims - j) * divisor ** (dims - j) * series[dims - j]
        denominator = divisor**dims * factorial(dims) * scale * prod(speeds)
        sign = cone.sign * (-1) ** dims * (1 if denominator > 0 else -1)
        sum_ = shares.setdefault(abs(denominator), {})
        for monomial, x in share.items():
            sum_[monomial] = sum_.get(monomial, 0) + sign * x
    common = lcm(*shares)
    total: Polynomial = {}
    for denominator, share in shares.items():
        for monomial, x in share.items():
            total[monomial] = total.get(monomial, 0) + x * (common // denominator)
    return atoms.form(total, common)


def _generic(edges: Iterable[Sequence[Vector]], dims: int) -> Vector:
    """A direction of small numbers that is constant along no edge."""
    every = list(dict.fromkeys(edge for own in edges for edge in own))
    for attempt in range(400):
        rng, size = random.Random(attempt), 2 + attempt // 4
        direction = tuple(rng.randint(-size, size) for _ in range(dims))
        if all(sum(a * b for a, b in zip(direction, edge, strict=True)) for edge in every):
            return direction
    raise BudgetError("no generic direction of small numbers", "COUNTED_CONES")


def _todd(speeds: Sequence[int]) -> tuple[list[int], int]:
    """The coefficients of t**0, ..., t**k of the product of `c*t / (exp(c*t) - 1)` over all k speeds c, and their
    denominator."""
    size = len(speeds) + 1
    terms, denominator = _todd_terms(size)
    found = [1, *[0] * (size - 1)]
    for c in speeds:
        factor = [x * c**j for j, x in enumerate(terms)]
        found = [sum(found[i] * factor[j - i] for i in range(j + 1)) for j in range(size)]
    return found, denominator ** len(speeds)


@cache
def _todd_terms(size: int) -> tuple[list[int], int]:
    """The first coefficients of `t / (exp(t) - 1)`, and their denominator."""
    terms = [_bernoulli(j) / factorial(j) for j in range(size)]
    denominator = lcm(*(x.denominator for x in terms))
    return [int(x * denominator) for x in terms], denominator


@cache
def _bernoulli(n: int) -> Fraction:
    """The Bernoulli number of `t / (exp(t) - 1)`."""
    if not n:
        return Fraction(1)
    return -sum((comb(n + 1, j) * _bernoulli(j) for j in range(n)), Fraction(0)) / (n + 1)


BERNSTEIN_CASES: Final = 64  # cases of one count
BERNSTEIN_PIECES: Final = 64  # sets of sizes, each with its own bound
BERNSTEIN_COEFFICIENTS: Final = 3_000  # coefficients of one polynomial over one polytope
DIVISIBILITY_POINTS: Final = 4_096  # points of one period at which a division is tried to be exact

# -- upper bounds: cases of a polynomial -------------------------------------------------------------------------------


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
        """The polynomial `numerator / denominator` under the conditions of both cases."""
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


def _added(a: WeightCase, b: WeightCase, sign: int = 1) -> WeightCase:
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
    return lambda node, a, b: [combined(x, y) for x, y in itertools.product(a, b)]


def _divided(is_remainder: bool) -> Callable[..., Cases]:
    def row(node: Expr, dividend: Cases, divisor: Cases) -> Cases:
        if not node.args[1].is_const or node.args[1].value <= 0:
            raise BudgetError(f"a divisor that is no positive number: {shown(node)}")
        return [_quotient(node.args[0], node.args[1].value, case, is_remainder) for case in dividend]

    return row


_ROWS: Final[Mapping[ops.Op, Callable[..., Cases]]] = {
    ops.CONST: lambda node: [WeightCase((), (), Linear(node.data, {}))],
    ops.VAR: lambda node: [WeightCase((), (), atom(node))],
    ops.ADD: _pairwise(_added),
    ops.SUB: _pairwise(lambda a, b: _added(a, b, -1)),
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
    for node in dag.postorder_by((root,), _operands):
        row = _ROWS.get(node.op)
        if row is None:
            raise BudgetError(f"{node.op.name} is not polynomial: {shown(node)}")
        known[node] = row(node, *(known[arg] for arg in _operands(node)))
        if len(known[node]) > BERNSTEIN_CASES:
            raise BudgetError(f"more than {BERNSTEIN_CASES} cases", "BERNSTEIN_CASES")
    return known[root]


def _operands(node: Expr) -> list[Expr]:
    return [arg for arg in node.args if isinstance(arg, Expr)]


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
    return all(value(*at) % divisor == 0 for at in itertools.product(range(period), repeat=len(variables)))


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
        self.names.update((param_name(e), e) for e in known)
        for part in session.disjoint_parts(points):
            around = part.to_set()
            if not (around.is_bounded() or all(around.dim_is_bounded(SET, k) for k in range(len(coordinates)))):
                raise BudgetError("a set without end")
            equal, nonneg = rows_of(part)
            dims = len([*equal, *nonneg][0].dims) if equal or nonneg else 0
            whole = polyhedron(dims, equal, nonneg, len(known)).detect_equalities().remove_redundancies()
            for zero, sides, vertices in cells(whole, len(known)):
                bounds = list(_coefficients(case, coordinates, vertices, known))
                text = Chamber(zero, sides, (), ZERO, 1).text([param_name(e) for e in known])
                self._put(session.isl().Set.read_from_str(session.context(), text), bounds)

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


def _coefficients(
    case: WeightCase, coordinates: Sequence[Var], vertices: Sequence[ParametricVertex], params: Sequence[Expr]
) -> Iterable[_Bound]:
    """The Bernstein coefficients of the polynomial of a case over the polytope of some vertices."""
    terms = [(factors(monomial), k) for monomial, k in case.numerator.terms.items()]
    terms += [([], case.numerator.const)]
    degree = max(sum(e in coordinates for e in own) for own, _ in terms)
    if comb(len(vertices) + degree - 1, degree) > BERNSTEIN_COEFFICIENTS:
        raise BudgetError(f"more than {BERNSTEIN_COEFFICIENTS} coefficients", "BERNSTEIN_COEFFICIENTS")
    weights: list[Expr] = [Var(f"w{k}") for k in range(len(vertices))]
    scale = lcm(*(x.denominator for vertex in vertices for slope, start in vertex for x in (*slope, start)))
    places: dict[Expr, Linear] = {}  # `scale` times each coordinate, over the weights
    for k, x in enumerate(coordinates):
        places[x] = ZERO
        for w, vertex in zip(weights, vertices, strict=True):
            slope, start = vertex[k]
            at = Linear(int(start * scale), {e: int(y * scale) for e, y in zip(params, slope, strict=True) if y})
            places[x] = places[x].plus(at.times(atom(w)))
    whole = Linear(0, dict.fromkeys(weights, scale))
    total = ZERO  # the polynomial times `case.denominator * scale**degree`, homogeneous in the weights
    for own, k in terms:
        mixed = [places[e] for e in own if e in places]
        parts = [*mixed, *[whole] * (degree - len(mixed)), *(atom(e) for e in own if e not in places)]
        total = total.plus(reduce(Linear.times, parts, Linear(1, {})), k)
    shares: dict[tuple[int, ...], Linear] = {(): Linear(total.const, {})}
    for monomial, k in total.terms.items():
        own = factors(monomial)
        chosen = tuple(sorted(weights.index(e) for e in own if e in weights))
        rest = reduce(Linear.times, [atom(e) for e in own if e not in weights], Linear(1, {}))
        shares[chosen] = shares.get(chosen, ZERO).plus(rest, k)
    for chosen in reversed([*itertools.combinations_with_replacement(range(len(vertices)), degree)]):
        value, numbers = shares.get(chosen, ZERO), Counter(chosen).values()
        ways = factorial(degree) // prod(map(factorial, numbers))
        denominator = case.denominator * scale**degree * ways
        shared = gcd(denominator, value.const, *value.terms.values())
        value = Linear(value.const // shared, {e: k // shared for e, k in value.terms.items()})
        corners = [vertex for k, vertex in enumerate(vertices) if chosen.count(k) == degree]
        yield _Bound(value, denominator // shared, case.is_exact and any(map(_is_integral, corners)))


def _is_integral(vertex: ParametricVertex) -> bool:
    return all(start.denominator == 1 and all(x.denominator == 1 for x in slope) for slope, start in vertex)

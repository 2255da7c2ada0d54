"""Closed counts of parametric polyhedra: the points of cones at parametric vertices.

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

Sources: Brion, Points entiers dans les polyedres convexes, 1988; Barvinok, A polynomial time algorithm for counting
integral points in polyhedra when the dimension is fixed, 1994; Verdoolaege, Seghir, Beyls, Loechner and Bruynooghe,
Counting integer points in parametric polytopes using Barvinok's rational functions, 2007.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, factorial, gcd, lcm
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.budgets import COUNTED_CONES
from intset.errors import BudgetError
from intset.expr.node import Expr
from intset.installation import load
from intset.linear.form import ZERO, Linear, atom, monomial_of
from intset.linear.lattice import Vector, echelon, integer_inverse, reduced_basis

if TYPE_CHECKING:
    from islpy import BasicSet

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
    system = _without_equalities(*rows_of(explicit, _islpy().dim_type), len(params))
    zero = tuple(row for row in system.equalities if not any(row.dims))
    if not system.dims:
        return [Chamber(zero, tuple(system.inequalities), tuple(system.congruences), Linear(1, {}), 1)]
    if system.dims > COUNTED_DIMENSIONS:
        raise BudgetError(f"a set of {system.dims} dimensions has no closed count", "COUNTED_DIMENSIONS")
    found, cutting = [], ConeCutter(most)
    equalities = [AffineRow((0,) * system.dims, row.params, row.constant) for row in system.equalities]
    whole = polyhedron(system.dims, equalities, system.inequalities, len(params)).remove_redundancies()
    _, nonneg = rows_of(whole, _islpy().dim_type)
    if comb(len(nonneg), system.dims) > COUNTED_VERTICES:
        raise BudgetError(f"more than {COUNTED_VERTICES} possible vertices", "COUNTED_VERTICES")
    for domain_zero, domain_nonneg, vertices in cells(whole, len(params)):
        shares = [cone for vertex in vertices for cone in cutting.unimodular(nonneg, vertex)]
        total = _points_of(shares, params)
        found.append(Chamber((*zero, *domain_zero), domain_nonneg, tuple(system.congruences), *total, len(shares)))
    return found


def rows_of(part: BasicSet, kinds: Any) -> tuple[list[AffineRow], list[AffineRow]]:
    """All equalities and inequalities of an isl basic set; its divisions become further dimensions.

    Raises
    ------
    BudgetError: a division has no explicit form.
    """
    dims, divs, params = (part.dim(kind) for kind in (kinds.set, kinds.div, kinds.param))

    def row(function: Any, of: Any, scale: int = 1) -> AffineRow:
        def read(kind: Any, size: int) -> list[int]:
            return [int(_number(function.get_coefficient_val(kind, k)) * scale) for k in range(size)]

        constant = int(_number(function.get_constant_val()) * scale)
        return AffineRow((*read(of, dims), *read(kinds.div, divs)), tuple(read(kinds.param, params)), constant)

    constraints = part.get_constraints()
    equal = [row(c, kinds.set) for c in constraints if c.is_equality()]
    nonneg = [row(c, kinds.set) for c in constraints if not c.is_equality()]
    for k in range(divs):  # isl leaves out what defines a division, where no other constraint needs it
        division = part.get_div(k)
        if division.is_nan():
            raise BudgetError("a division has no explicit form", "isl_operations")
        divisor = int(_number(division.get_denominator_val()))
        above = row(division, kinds.in_, divisor)
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


def _without_equalities(equalities: list[AffineRow], inequalities: list[AffineRow], params: int) -> EliminatedRows:
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
    """The parameters and the constant of a row, with the solved coordinates in it."""
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
    kinds = _islpy().dim_type
    dims = whole.dim(kinds.set)
    every: list[Any] = []
    found: list[_Cell] = []
    whole.compute_vertices().foreach_cell(every.append)
    for cell in every:
        own: list[Any] = []
        cell.foreach_vertex(own.append)
        equal, nonneg = rows_of(cell.get_domain(), kinds)
        vertices = []
        for vertex in own:
            at = vertex.get_expr()
            vertices.append(tuple(_affine(at.get_at(k), params, kinds) for k in range(dims)))
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


def _affine(function: Any, params: int, kinds: Any) -> Affine:
    slope = tuple(_number(function.get_coefficient_val(kinds.param, k)) for k in range(params))
    return slope, _number(function.get_constant_val())


# -- cones -------------------------------------------------------------------------------------------------------------

Rows = tuple[Vector, ...]


class SignedCone(NamedTuple):
    """Unimodular rows at a vertex, counted with a sign."""

    sign: int
    rows: Rows
    vertex: ParametricVertex


class ConeCutter:
    """Cuts cones into unimodular ones, at most `most` of them, cut and whole ones counted alike."""

    def __init__(self, most: int) -> None:
        self._most = self._left = most
        self._known: dict[Rows, list[tuple[int, Rows]]] = {}

    def unimodular(self, inequalities: Sequence[AffineRow], vertex: ParametricVertex) -> list[SignedCone]:
        """The tangent cone at a vertex as signed unimodular cones."""
        active = [_primitive(row.dims) for row in inequalities if any(row.dims) and _is_active(row, vertex)]
        found = []
        for simplex in _triangulated(sorted(set(active)), len(vertex)):
            if simplex not in self._known:
                self._known[simplex] = self._cut(simplex)
            self._spend(len(self._known[simplex]))
            found += [SignedCone(sign, cone, vertex) for sign, cone in self._known[simplex]]
        return found

    def _cut(self, rows: Rows) -> list[tuple[int, Rows]]:
        """Signed unimodular cones whose sum is the cone of `rows`, up to cones of lower dimension.

        A short vector of the lattice of a cone replaces each of its rows in turn; the determinants shrink.
        """
        waiting, whole = {rows: 1}, dict[Rows, int]()
        while waiting:
            cone, sign = waiting.popitem()
            if not sign:
                continue
            inverse, determinant = integer_inverse(cone)
            if determinant == 1:
                whole[cone] = whole.get(cone, 0) + sign
                continue
            self._spend(1)
            weights = _short_vector(inverse)
            sums = (sum(x * row[k] for x, row in zip(weights, cone, strict=True)) for k in range(len(cone)))
            pivot = _primitive(tuple(total // determinant for total in sums))
            for k, weight in enumerate(weights):
                if weight:
                    part = tuple(sorted((*cone[:k], pivot, *cone[k + 1 :])))
                    waiting[part] = waiting.get(part, 0) + (sign if weight > 0 else -sign)
        return [(sign, cone) for cone, sign in whole.items() if sign]

    def _spend(self, cones: int) -> None:
        self._left -= cones
        if self._left < 0:
            raise BudgetError(f"more than {self._most:,} cones", "COUNTED_CONES")


def _is_active(row: AffineRow, vertex: ParametricVertex) -> bool:
    """Whether the vertex lies on the border of an inequality, for all parameters."""
    slopes = [Fraction(x) for x in row.params]
    constant = Fraction(row.constant)
    for k, (slope, start) in zip(row.dims, vertex, strict=True):
        slopes = [a + k * b for a, b in zip(slopes, slope, strict=True)]
        constant += k * start
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

Monomial = tuple[int, ...]  # numbers of atoms, ascending
Polynomial = dict[Monomial, Fraction]


class _Atoms:
    """The atoms of one count: parameters, then remainders in one normal form."""

    def __init__(self, params: Sequence[Expr]) -> None:
        self.params = params
        self.remainders: dict[tuple[Vector, int, int], int] = {}
        self.moduli: dict[int, int] = {}  # of remainders, by number

    def ceiling(self, slopes: Sequence[Fraction], start: Fraction) -> Polynomial:
        """The least integer that is at least `slopes . p + start`."""
        modulus = lcm(start.denominator, *(x.denominator for x in slopes))
        scaled, constant = [int(x * modulus) for x in slopes], int(start * modulus)
        factor, number, shift = self._remainder([-x for x in scaled], -constant, modulus)
        found: Polynomial = {(k,): Fraction(x, modulus) for k, x in enumerate(scaled) if x}
        if constant + shift:
            found[()] = Fraction(constant + shift, modulus)
        if number is not None:
            found[(number,)] = Fraction(factor, modulus)
        return found

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
        number = self.remainders.setdefault(key, len(self.params) + len(self.remainders))
        self.moduli[number] = modulus
        return factor, number, shift

    def product(self, a: Polynomial, b: Polynomial) -> Polynomial:
        """The product, with powers of each remainder below its modulus."""
        found: Polynomial = {}
        for m, x in a.items():
            for n, y in b.items():
                _add(found, self._low_powers(tuple(sorted((*m, *n)))), x * y)
        return found

    def _low_powers(self, monomial: Monomial) -> Polynomial:
        for number in dict.fromkeys(monomial):
            modulus, power = self.moduli.get(number), monomial.count(number)
            if modulus is not None and power >= modulus:
                rest = tuple(other for other in monomial if other != number)
                found: Polynomial = {}
                for low, x in enumerate(_power_below(modulus, power)):
                    if x:
                        _add(found, self._low_powers(tuple(sorted((*rest, *(number,) * low)))), x)
                return found
        return {monomial: Fraction(1)}

    def form(self, total: Polynomial) -> tuple[Linear, int]:
        """The polynomial as a numerator over the expressions of the atoms, and a denominator."""
        denominator = lcm(*(x.denominator for x in total.values())) if total else 1
        leaves: dict[int, Expr] = dict(enumerate(self.params))
        for (slopes, constant, modulus), number in self.remainders.items():
            inside = Linear(constant, {})
            for param, k in zip(self.params, slopes, strict=True):
                inside = inside.plus(atom(param), k)
            leaves[number] = inside.expr() % modulus
        numerator = ZERO
        for monomial, x in total.items():
            whole = int(x * denominator)
            term = Linear(0, {monomial_of([leaves[k] for k in monomial]): whole}) if monomial else Linear(whole, {})
            numerator = numerator.plus(term)
        return numerator, denominator


def _add(total: Polynomial, more: Mapping[Monomial, Fraction], factor: Fraction) -> None:
    for monomial, x in more.items():
        x = total.get(monomial, Fraction(0)) + x * factor
        if x:
            total[monomial] = x
        else:
            total.pop(monomial, None)


@cache
def _power_below(modulus: int, power: int) -> tuple[Fraction, ...]:
    """The polynomial of degree below `modulus` that equals `r**power` at r = 0, ..., modulus - 1, by Lagrange."""
    found = [Fraction(0)] * modulus
    for node in range(modulus):
        basis = [Fraction(1)]
        for other in range(modulus):
            if other != node:
                shifted = [Fraction(0), *basis]
                basis = [
                    (a - other * b) / (node - other)
                    for a, b in itertools.zip_longest(shifted, basis, fillvalue=Fraction(0))
                ]
        found = [x + node**power * y for x, y in zip(found, basis, strict=True)]
    return tuple(found)


def _points_of(cones: Sequence[SignedCone], params: Sequence[Expr]) -> tuple[Linear, int]:
    """Sum the shares of all cones: the number of points of the polytope, as numerator and denominator."""
    atoms = _Atoms(params)
    dims = len(cones[0].rows)
    edges = [[tuple(column) for column in zip(*_signed_inverse(cone.rows), strict=True)] for cone in cones]
    direction = _generic(edges, dims)
    total: Polynomial = {}
    for cone, own in zip(cones, edges, strict=True):
        speeds = [sum(a * b for a, b in zip(direction, edge, strict=True)) for edge in own]
        start: Polynomial = {}
        for row, speed in zip(cone.rows, speeds, strict=True):
            slopes = [
                sum((k * at[0][p] for k, at in zip(row, cone.vertex, strict=True)), Fraction(0))
                for p in range(len(params))
            ]
            constant = sum((k * at[1] for k, at in zip(row, cone.vertex, strict=True)), Fraction(0))
            _add(start, atoms.ceiling(slopes, constant), Fraction(speed))
        series = _todd(speeds)
        share: Polynomial = {(): Fraction(1, factorial(dims))}
        for j in reversed(range(dims)):  # sum of start**j / j! * series[dims - j], by Horner's scheme
            share = atoms.product(share, start)
            if series[dims - j]:
                _add(share, {(): series[dims - j]}, Fraction(1, factorial(j)))
        scale = Fraction(cone.sign * (-1) ** dims)
        for speed in speeds:
            scale /= speed
        _add(total, share, scale)
    return atoms.form(total)


def _signed_inverse(rows: Rows) -> list[Vector]:
    """The inverse of a unimodular matrix."""
    inverse, _ = integer_inverse(rows)
    return inverse


def _generic(edges: Iterable[Sequence[Vector]], dims: int) -> Vector:
    """A direction of small numbers that is constant along no edge."""
    every = list(dict.fromkeys(edge for own in edges for edge in own))
    for attempt in range(400):
        rng, size = random.Random(attempt), 2 + attempt // 4
        direction = tuple(rng.randint(-size, size) for _ in range(dims))
        if all(sum(a * b for a, b in zip(direction, edge, strict=True)) for edge in every):
            return direction
    raise BudgetError("no generic direction of small numbers", "COUNTED_CONES")


def _todd(speeds: Sequence[int]) -> list[Fraction]:
    """The coefficients of t**0, ..., t**k of the product of `c*t / (exp(c*t) - 1)` over all k speeds c."""
    size = len(speeds) + 1
    found = [Fraction(1), *[Fraction(0)] * (size - 1)]
    for c in speeds:
        factor = [_bernoulli(j) * c**j / factorial(j) for j in range(size)]
        found = [sum((found[i] * factor[j - i] for i in range(j + 1)), Fraction(0)) for j in range(size)]
    return found


@cache
def _bernoulli(n: int) -> Fraction:
    """The Bernoulli number of `t / (exp(t) - 1)`."""
    if not n:
        return Fraction(1)
    return -sum((comb(n + 1, j) * _bernoulli(j) for j in range(n)), Fraction(0)) / (n + 1)

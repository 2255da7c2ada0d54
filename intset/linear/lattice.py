"""Affine lattices of integer points: a point and the integer combinations of a few vectors.

The basis is kept in Hermite normal form (Cohen, A Course in Computational Algebraic Number Theory, 2.4.2): each vector
starts with zeros up to its positive *pivot*, pivots move right from vector to vector, and earlier vectors are reduced
modulo each pivot. Equal lattices have equal bases.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

Vector = tuple[int, ...]


@dataclass(frozen=True)
class Lattice:
    """The points `origin + sum(k_j * basis[j])` over all integers `k_j`."""

    origin: Vector
    basis: tuple[Vector, ...]

    @property
    def pivots(self) -> tuple[int, ...]:
        """The coordinate at which each vector starts."""
        return tuple(next(k for k, x in enumerate(v) if x) for v in self.basis)

    def filter(self, coefficients: Sequence[int], constant: int) -> Lattice | None:
        """The sublattice with `coefficients . x + constant == 0`; `None` if it is empty."""
        origin = (_dot(coefficients, self.origin) + constant, *self.origin)
        beside = lattice(origin, [(_dot(coefficients, v), *v) for v in self.basis])  # the value is one more coordinate
        if beside.origin[0]:
            return None
        return Lattice(beside.origin[1:], tuple(v[1:] for v in beside.basis if not v[0]))

    def projected(self, count: int) -> Lattice:
        """The first `count` coordinates of the points."""
        return lattice(self.origin[:count], [v[:count] for v in self.basis])

    def joined(self, other: Lattice) -> Lattice:
        """The smallest lattice around both."""
        return self.extended([*other.basis, _plus(other.origin, self.origin, -1)])

    def extended(self, vectors: Iterable[Vector]) -> Lattice:
        """The lattice with further directions."""
        return lattice(self.origin, [*self.basis, *vectors])


def everything(dims: int) -> Lattice:
    """All integer points."""
    return Lattice((0,) * dims, tuple(unit(dims, k) for k in range(dims)))


def unit(dims: int, k: int) -> Vector:
    """The direction of one coordinate."""
    return tuple(int(j == k) for j in range(dims))


def lattice(origin: Vector, vectors: Iterable[Vector]) -> Lattice:
    """The lattice of these directions in normal form, with `origin` reduced modulo the basis."""
    left = [v for v in vectors if any(v)]
    basis: list[Vector] = []
    for k in range(len(origin)):
        moving = [v for v in left if v[k]]
        left = [v for v in left if not v[k]]
        while len(moving) > 1:
            moving.sort(key=lambda v: abs(v[k]))
            first = moving[0]
            reduced = [_plus(v, first, -(v[k] // first[k])) for v in moving[1:]]
            left += [v for v in reduced if not v[k] and any(v)]
            moving = [first, *(v for v in reduced if v[k])]
        if moving:
            vector = moving[0] if moving[0][k] > 0 else tuple(-x for x in moving[0])
            basis = [_plus(v, vector, -(v[k] // vector[k])) for v in basis]
            origin = _plus(origin, vector, -(origin[k] // vector[k]))
            basis.append(vector)
    return Lattice(origin, tuple(basis))


def inverse(steps: Sequence[Sequence[int]]) -> tuple[tuple[Fraction, ...], ...]:
    """The matrix that maps `steps @ t` back to `t`, by Gaussian elimination.

    `steps` is square, its columns independent or zero; the component of `t` for a zero column is 0.
    """
    count = len(steps)
    rows = [[Fraction(x) for x in (*row, *unit(count, k))] for k, row in enumerate(steps)]
    solved: dict[int, list[Fraction]] = {}
    for k in range(count):
        index = next((j for j, row in enumerate(rows) if row[k]), None)
        if index is None:
            continue
        pivot = rows.pop(index)
        pivot = [x / pivot[k] for x in pivot]
        rows = [_eliminated(row, pivot, k) for row in rows]
        solved = {j: _eliminated(row, pivot, k) for j, row in solved.items()} | {k: pivot}
    nothing = [Fraction(0)] * (2 * count)
    return tuple(tuple(solved.get(k, nothing)[count:]) for k in range(count))


def integer_inverse(rows: Sequence[Sequence[int]]) -> tuple[list[Vector], int]:
    """`abs(det) * inverse` of a square matrix, and `abs(det)`; an empty matrix and 0 if it is singular.

    By Bareiss' elimination without fractions: all divisions are exact.
    """
    size = len(rows)
    table = [[*row, *unit(size, k)] for k, row in enumerate(rows)]
    last, sign = 1, 1
    for k in range(size):
        index = next((j for j in range(k, size) if table[j][k]), None)
        if index is None:
            return [], 0
        if index != k:
            table[k], table[index], sign = table[index], table[k], -sign
        pivot = table[k]
        for j, row in enumerate(table):
            if j != k:
                table[j] = [(pivot[k] * x - row[k] * y) // last for x, y in zip(row, pivot, strict=True)]
        last = pivot[k]
    factor = 1 if last > 0 else -1
    return [tuple(factor * x for x in row[size:]) for row in table], abs(last)


def echelon(rows: Sequence[Sequence[int]], dims: int) -> list[Vector]:
    """A unimodular matrix `U` such that the nonzero columns of `rows @ U` come first, in echelon form."""
    left = [list(row) for row in rows]
    change = [list(unit(dims, k)) for k in range(dims)]
    first = 0
    for row in left:
        while len(live := [k for k in range(first, dims) if row[k]]) > 1:
            least = min(live, key=lambda k: abs(row[k]))
            for k in live:
                if k != least:
                    times = row[k] // row[least]
                    for other in (*left, *change):
                        other[k] -= times * other[least]
        if live:
            for other in (*left, *change):
                other[first], other[live[0]] = other[live[0]], other[first]
            first += 1
    return [tuple(row) for row in change]


def reduced_basis(vectors: Sequence[Sequence[int]]) -> list[Vector]:
    """A basis of short vectors of the lattice of independent vectors (Lenstra, Lenstra and Lovasz, 1982).

    In integers (Cohen, A Course in Computational Algebraic Number Theory, 2.6.7): `grams[k]` is the Gram determinant of
    the first k vectors, and `weights[k][j] / grams[j + 1]` the weight of the j-th orthogonal vector in the k-th vector.
    """
    basis = [tuple(v) for v in vectors]
    size = len(basis)
    grams, weights = [1], [[0] * size for _ in basis]
    for k, vector in enumerate(basis):
        for j in range(k + 1):
            weight = _dot(vector, basis[j])
            for i in range(j):
                weight = (grams[i + 1] * weight - weights[k][i] * weights[j][i]) // grams[i]
            weights[k][j] = weight
        grams.append(weights[k][k])

    def shorten(k: int, j: int) -> None:
        times = (2 * weights[k][j] + grams[j + 1]) // (2 * grams[j + 1])
        if times:
            basis[k] = _plus(basis[k], basis[j], -times)
            for i in range(j):
                weights[k][i] -= times * weights[j][i]
            weights[k][j] -= times * grams[j + 1]

    def swap(k: int) -> None:
        basis[k], basis[k - 1] = basis[k - 1], basis[k]
        weights[k][: k - 1], weights[k - 1][: k - 1] = weights[k - 1][: k - 1], weights[k][: k - 1]
        weight = weights[k][k - 1]
        gram = (grams[k - 1] * grams[k + 1] + weight * weight) // grams[k]
        for row in weights[k + 1 :]:
            old = row[k]
            row[k] = (grams[k + 1] * row[k - 1] - weight * old) // grams[k]
            row[k - 1] = (gram * old + weight * row[k]) // grams[k + 1]
        grams[k] = gram

    k = 1
    while k < size:
        shorten(k, k - 1)
        if 4 * grams[k + 1] * grams[k - 1] < 3 * grams[k] ** 2 - 4 * weights[k][k - 1] ** 2:
            swap(k)
            k = max(k - 1, 1)
        else:
            for j in reversed(range(k - 1)):
                shorten(k, j)
            k += 1
    return basis


def _eliminated(row: Sequence[Fraction], pivot: Sequence[Fraction], k: int) -> list[Fraction]:
    return [x - row[k] * y for x, y in zip(row, pivot, strict=True)]


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _plus(a: Sequence[int], b: Sequence[int], factor: int) -> Vector:
    return tuple(x + factor * y for x, y in zip(a, b, strict=True))

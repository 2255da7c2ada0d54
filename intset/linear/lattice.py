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
        values = [(_dot(coefficients, v), v) for v in self.basis]
        rest = _dot(coefficients, self.origin) + constant
        kept = [v for value, v in values if not value]
        moving = [pair for pair in values if pair[0]]
        while len(moving) > 1:  # Euclid's algorithm: the combinations stay a basis
            moving.sort(key=lambda pair: abs(pair[0]))
            step, smallest = moving[0]
            reduced = [(value - value // step * step, _plus(v, smallest, -(value // step))) for value, v in moving[1:]]
            kept += [v for value, v in reduced if not value]
            moving = [moving[0], *(pair for pair in reduced if pair[0])]
        if not moving:
            return None if rest else self
        step, vector = moving[0]
        if rest % step:
            return None
        return lattice(_plus(self.origin, vector, -(rest // step)), kept)

    def projected(self, count: int) -> Lattice:
        """The first `count` coordinates of the points."""
        return lattice(self.origin[:count], [v[:count] for v in self.basis])

    def joined(self, other: Lattice) -> Lattice:
        """The smallest lattice around both."""
        return self.extended([*other.basis, _plus(other.origin, self.origin, -1)])

    def extended(self, vectors: Iterable[Vector]) -> Lattice:
        """The lattice with further directions."""
        return lattice(self.origin, [*self.basis, *vectors])

    def __contains__(self, point: object) -> bool:
        if not isinstance(point, tuple) or len(point) != len(self.origin):
            return False
        rest = _plus(point, self.origin, -1)
        for pivot, vector in zip(self.pivots, self.basis, strict=True):
            times, left = divmod(rest[pivot], vector[pivot])
            if left:
                return False
            rest = _plus(rest, vector, -times)
        return not any(rest)


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
    """A basis of short vectors of the lattice of independent vectors (Lenstra, Lenstra and Lovasz, 1982)."""
    basis = [tuple(v) for v in vectors]
    weights, norms = _orthogonalized(basis)
    k = 1
    while k < len(basis):
        for j in reversed(range(k)):
            times = round(weights[k][j])
            if times:
                basis[k] = _plus(basis[k], basis[j], -times)
                weights[k] = [x - times * (weights[j][t] if t < j else int(t == j)) for t, x in enumerate(weights[k])]
        if norms[k] >= (Fraction(3, 4) - weights[k][k - 1] ** 2) * norms[k - 1]:
            k += 1
        else:
            basis[k], basis[k - 1] = basis[k - 1], basis[k]
            weights, norms = _orthogonalized(basis)
            k = max(k - 1, 1)
    return basis


def _orthogonalized(basis: Sequence[Vector]) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Gram-Schmidt: the weights of earlier orthogonal vectors in each vector, and the squared lengths."""
    orthogonal: list[list[Fraction]] = []
    weights: list[list[Fraction]] = []
    norms: list[Fraction] = []
    for vector in basis:
        own = [
            sum((x * y for x, y in zip(vector, v, strict=True)), Fraction(0)) / n
            for v, n in zip(orthogonal, norms, strict=True)
        ]
        rest = [Fraction(x) for x in vector]
        for weight, v in zip(own, orthogonal, strict=True):
            rest = [x - weight * y for x, y in zip(rest, v, strict=True)]
        orthogonal.append(rest)
        weights.append(own)
        norms.append(sum((x * x for x in rest), Fraction(0)))
    return weights, norms


def _eliminated(row: Sequence[Fraction], pivot: Sequence[Fraction], k: int) -> list[Fraction]:
    return [x - row[k] * y for x, y in zip(row, pivot, strict=True)]


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _plus(a: Sequence[int], b: Sequence[int], factor: int) -> Vector:
    return tuple(x + factor * y for x, y in zip(a, b, strict=True))

"""What inequalities say together: sums of them in which a term cancels.

(x < y) & (y < z) & (x < z) = (x < y) & (y < z)          (x < y) & (y < z) & (z < x) = False
(x <= y) & (y <= z) & (z <= x) = (x == y) & (y == z)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from intset.expr import ops
from intset.linear.conditions import Clause
from intset.linear.form import Linear

MAX_SUMS: Final = 64
MAX_ADDED: Final = 4  # inequalities in one sum


class Sum(NamedTuple):
    """`form >= 0` follows from the clauses at these places."""

    form: Linear
    places: frozenset[int]


def sums(clauses: Sequence[Clause | None]) -> list[Sum]:
    """The inequalities, each alone, and sums of them that have no more terms than what is added."""
    single: list[Sum] = []
    for place, clause in enumerate(clauses):
        if clause is not None and clause[0] is not ops.NE:
            single.append(Sum(clause[1], frozenset((place,))))
            if clause[0] is ops.EQ:
                single.append(Sum(clause[1].scale(-1), frozenset((place,))))
    found = list(single)
    seen = {(one.form.key(), one.places) for one in found}
    for a in found:  # grows while it is walked
        if len(a.places) >= MAX_ADDED:
            continue
        for b in single:
            if b.places <= a.places:
                continue
            form = a.form.plus(b.form)
            if len(form.terms) > max(len(a.form.terms), len(b.form.terms)) or not _cancels(a.form, b.form):
                continue
            one = Sum(form, a.places | b.places)
            if (form.key(), one.places) not in seen:
                seen.add((form.key(), one.places))
                found.append(one)
                if len(found) >= MAX_SUMS:
                    return found
    return found


def _cancels(a: Linear, b: Linear) -> bool:
    return any(b.terms.get(t) == -k for t, k in a.terms.items())

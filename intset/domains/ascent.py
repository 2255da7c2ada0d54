"""A local search for points at which chains of remainders take their ends.

What structure proves of the ends of such a chain is mostly right and hard to certify: a witness by aiming meets one
remainder at a time, and integer programming over many divisions takes long. Points are cheap: the chain is compiled
once, and moved over one coordinate, then over two at a time, uphill, from several starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from intset.budgets import ASCENT_EVALUATIONS, ASCENT_VALUES
from intset.domains.certified.enumeration import symbolic_limits
from intset.domains.query import Query
from intset.errors import EvaluationError
from intset.expr import ops
from intset.expr.evaluate import compiled
from intset.expr.length import some_may_be_long
from intset.expr.walk import opaque_terms, postorder

_FEWEST_DIVISIONS = 3  # with fewer, aiming or the strongest domain answers sooner
_STEP = 2654435761  # of the starts, Knuth's multiplicative hash


def attains(query: Query, low: int, high: int) -> bool:
    """Whether points are found at which the expression of the query takes both ends; `False` where none is.

    The query must be free of parameters. Expression and facts are evaluated at the points as they were written.
    """
    search = _search_of(query)
    return search is not None and search.reaches(high, 1) and search.reaches(low, -1)


def _search_of(query: Query) -> _AscentSearch | None:
    """The search, where the expression is a chain over bounded variables."""
    (e,) = query.exprs
    nodes = list(postorder((e, *query.facts)))
    if sum(node.op in ops.DIVISIONS for node in nodes) < _FEWEST_DIVISIONS:
        return None
    relaxed, params, touching, leftover = query.split_relevant(query.exprs)
    if params or leftover or opaque_terms(e, *query.facts):
        return None
    spans: list[range] = []
    for var in relaxed:
        first, last = query.known.atom_bounds(var)
        if first is None or last is None:
            return None
        spans.append(range(first, last + 1))
    bits = {v: max(abs(s.start), abs(s.stop)).bit_length() for v, s in zip(relaxed, spans, strict=True)}
    if not all(spans) or some_may_be_long(nodes, bits):
        return None
    checks = [*touching, *symbolic_limits(query, relaxed)]
    return _AscentSearch(compiled(e, relaxed), [compiled(check, relaxed) for check in checks], spans)


class _AscentSearch:
    """The search over a box, for one expression."""

    def __init__(
        self, value: Callable[..., int], guards: Sequence[Callable[..., bool]], spans: Sequence[range]
    ) -> None:
        self._value, self._guards, self._spans = value, guards, spans

    def reaches(self, wanted: int, side: int) -> bool:
        """Whether a point is found at which the value is `wanted`, the largest (`side` +1) or smallest (-1) of all."""
        left = ASCENT_EVALUATIONS
        for start in itertools.count():
            point = self._start(start, side)
            best = self._at(point, side)
            is_rising = True
            while is_rising:
                is_rising = False
                for moved in self._moves(point):
                    found = self._at(moved, side)
                    left -= 1
                    if found is not None and (best is None or found > best):
                        point, best, is_rising = list(moved), found, True
                    if best == side * wanted:
                        return True
                    if left <= 0:
                        return False
        return False

    def _at(self, point: Sequence[int], side: int) -> int | None:
        """The value upwards; `None` where the point is outside, or has no value."""
        try:
            if all(guard(*point) for guard in self._guards):
                return side * self._value(*point)
        except (ArithmeticError, EvaluationError):
            pass
        return None

    def _start(self, number: int, side: int) -> list[int]:
        """The corner of the box on one side, the other one, then points all over it."""
        if number < 2:
            return [span[-1] if (side > 0) is (number == 0) else span[0] for span in self._spans]
        return [span[(number * _STEP * (2 * k + 1) >> 7) % len(span)] for k, span in enumerate(self._spans)]

    def _moves(self, point: list[int]) -> Iterator[list[int]]:
        """`point` with one coordinate moved, then with two. It may be moved meanwhile; the moves go on from there."""
        dims = range(len(self._spans))
        for several in ((k,) for k in dims), itertools.combinations(dims, 2):
            for axes in several:
                for values in itertools.product(*(self._values(k) for k in axes)):
                    moved = list(point)
                    for k, x in zip(axes, values, strict=True):
                        moved[k] = x
                    yield moved

    def _values(self, axis: int) -> Sequence[int]:
        """Values of one coordinate: all, or where they are many some all over the range."""
        span = self._spans[axis]
        if len(span) <= ASCENT_VALUES:
            return span
        step = len(span) // ASCENT_VALUES
        return [*span[:: step + 1 - step % 2], span[-1]]

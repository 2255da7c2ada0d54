"""Ends of chains of remainders, by branch and bound and by a local search.

What structure proves of the ends of such a chain is mostly attained and hard to certify: a witness by aiming meets one
remainder at a time, and integer programming over many divisions takes long. Points are cheap: the chain is compiled
once and evaluated.

- Branch and bound visits points in descending order of an upper bound: the linear part of the canonical form at the
  point, plus the largest value of the other terms anywhere. Once no bound left exceeds the best value, that value is
  the end. (Land and Doig, *An automatic method of solving discrete programming problems*, 1960.)
- The local search climbs: it moves one coordinate, then two at a time, uphill, from several starts.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from intset.domains.certified.enumeration import symbolic_limits
from intset.domains.query import Query
from intset.errors import EvaluationError
from intset.expr import ops
from intset.expr.dag import opaque_terms, postorder
from intset.expr.evaluate import compiled, some_may_be_long
from intset.expr.node import Var

ASCENT_EVALUATIONS: Final = 4_000  # points at which a chain of remainders is evaluated in search of one of its ends
ASCENT_VALUES: Final = 16  # values of one coordinate that such a search tries
BRANCHED_POINTS: Final = 6_000  # points that branch and bound visits for one end of a chain of remainders

_FEWEST_DIVISIONS = 2  # with fewer, aiming or the strongest domain answers sooner
_STEP = 2654435761  # of the starts, Knuth's multiplicative hash


def attained_ends(query: Query, low: int, high: int, is_brief: bool = False) -> tuple[int, int] | None:
    """The smallest and largest value of the query's expression; `None` if the search proves neither within its budget.

    Guarantee: expression and facts were evaluated, as written, at points where both ends are attained.

    Parameters
    ----------
    low, high: ends of a superset, usually attained.
    is_brief: whether the budget is twice the cube of the number of divisions: with few, the exact domain is cheap.
    """
    search = _search_of(query, is_brief)
    if search is None:
        return None
    last = search.largest(1, high)
    first = None if last is None else search.largest(-1, -low)
    return None if first is None or last is None else (-first, last)


def _search_of(query: Query, is_brief: bool) -> _EndSearch | None:
    """The search; `None` for few divisions, parameters, loads, or an unbounded variable."""
    (e,) = query.exprs
    nodes = list(postorder((e, *query.facts)))
    divisions = sum(node.op in ops.DIVISIONS for node in nodes)
    if divisions < _FEWEST_DIVISIONS:
        return None
    variables, params, touching, leftover = query.split_relevant(query.exprs)
    if params or leftover or opaque_terms(e, *query.facts):
        return None
    spans: list[range] = []
    for var in variables:
        first, last = query.known.atom_bounds(var)
        if first is None or last is None:
            return None
        spans.append(range(first, last + 1))
    bits = {v: max(abs(s.start), abs(s.stop)).bit_length() for v, s in zip(variables, spans, strict=True)}
    if not all(spans) or some_may_be_long(nodes, bits):
        return None
    checks = [*touching, *symbolic_limits(query, variables)]
    guards = [compiled(check, variables) for check in checks]
    search = _EndSearch(query, variables, spans, compiled(e, variables), guards)
    if is_brief:
        search.points = min(search.points, 2 * divisions**3)
        search.evaluations = min(search.evaluations, 2 * divisions**3)
    return search


class _EndSearch:
    """Search for the ends of one expression over a box.

    A *side* is +1 for the largest value, -1 for the smallest. Values times the side turn both ends into maxima.

    Attributes
    ----------
    points: the most that branch and bound visits for an end.
    evaluations: the most of the local search for an end.
    """

    def __init__(
        self,
        query: Query,
        variables: Sequence[Var],
        spans: Sequence[range],
        value: Callable[..., int],
        guards: Sequence[Callable[..., bool]],
    ) -> None:
        self._query, self._variables, self._spans = query, variables, spans
        self._value, self._guards = value, guards
        self.points, self.evaluations = BRANCHED_POINTS, ASCENT_EVALUATIONS

    def largest(self, side: int, claimed: int) -> int | None:
        """The largest value, times `side`; `None` beyond the budget. `claimed`: an upper bound of it."""
        best = self._branched(side)
        return self._climbed(side, claimed) if best is None else best

    def _at(self, point: Sequence[int], side: int) -> int | None:
        """The value times `side`; `None` where the point violates a guard or the value is undefined."""
        try:
            if all(guard(*point) for guard in self._guards):
                return side * self._value(*point)
        except (ArithmeticError, EvaluationError):
            pass
        return None

    # -- local search ------------------------------------------------------------------------------------------------

    def _climbed(self, side: int, claimed: int) -> int | None:
        """`claimed`, if a climb reaches it; `None` beyond the budget."""
        left = self.evaluations
        for start in itertools.count():
            point = self._start(start, side)
            peak = self._at(point, side)
            is_rising = True
            while is_rising:
                is_rising = False
                for moved in self._moves(point):
                    value = self._at(moved, side)
                    left -= 1
                    if value is not None and (peak is None or value > peak):
                        point, peak, is_rising = list(moved), value, True
                    if peak == claimed:
                        return claimed
                    if left <= 0:
                        return None
        return None

    def _start(self, number: int, side: int) -> list[int]:
        """Start points: the corner on one side, the opposite corner, then points spread over the box."""
        if number < 2:
            return [span[-1] if (side > 0) is (number == 0) else span[0] for span in self._spans]
        return [
            span[(number * _STEP * (2 * k + 1) >> 7) % (span.stop - span.start)] for k, span in enumerate(self._spans)
        ]

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
        """Values of one coordinate: all, or a sample of a long range."""
        span = self._spans[axis]
        number = span.stop - span.start  # which `len` refuses from 2**63 on
        if number <= ASCENT_VALUES:
            return span
        step = number // ASCENT_VALUES
        return [*span[:: step + 1 - step % 2], span[-1]]

    # -- branch and bound --------------------------------------------------------------------------------------------

    def _branched(self, side: int) -> int | None:
        """The largest value times `side`; `None` beyond the budget.

        A point is the best corner of the box, moved by some steps along each axis. Each step costs the coefficient of
        its axis. Each point is generated once: its predecessor has one step less along the last axis moved.
        """
        linear = self._linear_part(side)
        if linear is None:
            return None
        top, slopes = linear
        corner = [span[-1] if k > 0 else span[0] for k, span in zip(slopes, self._spans, strict=True)]
        axes = sorted(range(len(slopes)), key=lambda axis: abs(slopes[axis]))
        numbers = itertools.count()  # of the points, which order those of equal costs
        queue = [(0, next(numbers), 0, tuple(corner))]
        best: int | None = None
        for _ in range(self.points):
            if not queue or (best is not None and top - queue[0][0] <= best):
                return best
            cost, _, last, point = heapq.heappop(queue)
            value = self._at(point, side)
            if value is not None and (best is None or value > best):
                best = value
            for position in range(last, len(axes)):
                axis = axes[position]
                x = point[axis] + (-1 if slopes[axis] > 0 else 1)
                if x in self._spans[axis]:
                    moved = (*point[:axis], x, *point[axis + 1 :])
                    heapq.heappush(queue, (cost + abs(slopes[axis]), next(numbers), position, moved))
        return None

    def _linear_part(self, side: int) -> tuple[int, list[int]] | None:
        """The upper bound at the best corner, and the coefficient of each variable; `None` for an unbounded term."""
        known = self._query.known
        form = known.regroup(self._query.forms[0])
        top = side * form.const
        for e, k in form.terms.items():
            low, high = known.atom_bounds(e)
            if low is None or high is None:
                return None
            top += max(side * k * low, side * k * high)
        return top, [side * form.terms.get(var, 0) for var in self._variables]

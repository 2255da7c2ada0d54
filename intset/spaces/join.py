"""The order of a join: which source comes next, and the conditions that it closes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from intset.budgets import SPACE_BLOCK
from intset.expr.node import Var
from intset.spaces.early import BoundPart, EarlyConditions, shortened
from intset.spaces.vectors import Array, ArrayFunction, ends_of

Columns = dict[Var, Array]
_LARGE = SPACE_BLOCK << 5  # expected candidates from which on states are worth more thought
_SAMPLE = SPACE_BLOCK >> 9  # random rows that tell how often a condition holds


class ValueTable(NamedTuple):
    """Columns of equal length whose rows are chosen together: the values of one name, or the rows of a listed set."""

    columns: Columns
    size: int

    def rows(self, chosen: Array) -> ValueTable:
        """The source with some of its rows."""
        columns = {var: column[chosen] for var, column in self.columns.items()}
        return ValueTable(columns, len(next(iter(columns.values()))))


class JoinStep(NamedTuple):
    """One step of a join.

    Attributes
    ----------
    source: whose rows are tried.
    conditions: those that mention its columns and columns of steps before; the most selective for its cost is first.
    shared: its columns that a step before has too.
    live: the columns that a later step reads, in a fixed order.
    early: what the conditions of later steps demand of the columns so far.
    terms: the live columns that are computed from those so far.
    """

    source: ValueTable
    conditions: tuple[ArrayFunction, ...]
    shared: tuple[Var, ...]
    live: tuple[Var, ...]
    early: EarlyConditions
    terms: Mapping[Var, BoundPart]


def ordered(sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction]) -> tuple[JoinStep, ...]:
    """The sources in an order in which few rows are expected.

    Each source in turn is tried as the first; the next one is always that after which the fewest rows are expected, by
    the share of random rows at which each condition holds. The order with the fewest rows tried is taken, between
    equals the one nearest to the given order. The same input gives the same order.
    """
    if len(sources) == 1:
        return (JoinStep(sources[0], tuple(conditions), (), (), EarlyConditions((), (), {}), {}),)
    shares = dict(zip(conditions, _shares(sources, conditions), strict=True))
    bits = _OrderBits(sources, conditions, [shares[cond] for cond in conditions])
    orders = [bits.order(first) for first in range(len(sources))]
    tried, order = min(orders, key=lambda found: found[0])
    return _steps([sources[k] for k in order], conditions, shares, tried > _LARGE)


def _shares(sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction]) -> list[float]:
    """The share of random rows at which each condition holds, never 0."""
    random = np.random.default_rng(0)
    drawn: Columns = {}
    for source in sources:
        rows = random.integers(0, source.size, _SAMPLE)
        drawn.update({var: column[rows] for var, column in source.columns.items()})
    return [(0.5 + np.count_nonzero(cond(drawn))) / (_SAMPLE + 1) for cond in conditions]


class _OrderBits:
    """Sources and conditions as bits of numbers, for quick comparison of orders."""

    def __init__(
        self, sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction], shares: Sequence[float]
    ) -> None:
        number: dict[Var, int] = {}
        for source in sources:
            for var in source.columns:
                number.setdefault(var, len(number))
        self.sizes = [float(source.size) for source in sources]
        self.own = [sum(1 << number[var] for var in source.columns) for source in sources]
        self.conditions = [
            (sum(1 << number[var] for var in cond.variables), share)
            for cond, share in zip(conditions, shares, strict=True)
        ]
        self.distinct = {
            1 << number[var]: max(1, len(np.unique(column)))
            for k, source in enumerate(sources)
            for var, column in source.columns.items()
            if any(self.own[j] >> number[var] & 1 for j in range(k))
        }

    def order(self, first: int) -> tuple[float, list[int]]:
        """The rows that are tried, and the order, when a source is the first."""
        bound, rows, tried = self.own[first], self.sizes[first], self.sizes[first]
        order = [first]
        open_ = [(mask, share) for mask, share in self.conditions if mask & ~bound]
        waiting = [k for k in range(len(self.sizes)) if k != first]
        while waiting:
            best, least = waiting[0], float("inf")
            for k in waiting:
                inside = bound | self.own[k]
                factor = self.sizes[k]
                near = False
                for mask, share in open_:
                    if not mask & ~inside:
                        factor *= share
                    near = near or bool(mask & bound and mask & self.own[k])
                if self.distinct and (common := bound & self.own[k]):
                    near = True
                    for bit, number in self.distinct.items():
                        factor /= number if common & bit else 1
                if not near:
                    factor *= self.sizes[k]
                if factor < least:
                    best, least = k, factor
            waiting.remove(best)
            order.append(best)
            inside = bound | self.own[best]
            tried += rows * self.sizes[best]
            rows *= self.sizes[best]
            for bit, number in self.distinct.items():
                rows /= number if bound & self.own[best] & bit else 1
            for mask, share in open_:
                rows *= 1 if mask & ~inside else share
            open_ = [(mask, share) for mask, share in open_ if mask & ~inside]
            bound = inside
        return tried, order


def _steps(
    order: Sequence[ValueTable], conditions: Iterable[ArrayFunction], shares: dict[ArrayFunction, float], is_large: bool
) -> tuple[JoinStep, ...]:
    """The steps of an order; those of a large join carry what open conditions read, instead of names."""
    ends = {var: span for source in order for var, span in ends_of(source.columns).items()}
    joined = [set[Var]().union(*(source.columns for source in order[k + 1 :])) for k in range(len(order))]
    bound: set[Var] = set()
    carried: dict[Var, None] = {}
    open_ = list(conditions)
    found: list[JoinStep] = []
    for source, later in zip(order, joined, strict=True):
        shared = tuple(var for var in source.columns if var in bound)
        bound |= source.columns.keys()
        here = dict.fromkeys((*carried, *source.columns))
        closed = [cond for cond in open_ if here.keys() >= set(cond.variables)]
        open_ = [cond for cond in open_ if cond not in closed]
        closed.sort(key=lambda cond: len(cond.steps) / (1.01 - shares[cond]))
        near = [cond for cond in open_ if not source.columns.keys().isdisjoint(cond.variables)]
        early = EarlyConditions(near, here, ends)
        read = dict.fromkeys(var for cond in open_ for var in cond.variables if var in here)
        terms: dict[Var, BoundPart] = {}
        if is_large and (short := shortened(open_, here, ends, len(read))) is not None:
            terms = short.terms
            shares |= {new: shares[old] for old, new in zip(open_, short.conditions, strict=True)}
            open_ = list(short.conditions)
            read = dict.fromkeys(v for cond in open_ for v in cond.variables if v in here or v in terms)
        kept = (var for var in here if var in later or var in read)
        live = tuple(dict.fromkeys((*kept, *terms)))
        found.append(JoinStep(source, tuple(closed), shared, live, early, terms))
        carried = dict.fromkeys(live)
    return tuple(found)

"""The members of one factor of names that constraints connect, as a decision diagram built by a join.

A layer keeps the columns that later conditions still read, and equal rows of these become one state: a multi-valued
decision diagram (Kam, Villa, Brayton, Sangiovanni-Vincentelli 1998). Members are counted from the last layer to the
first, and listed, or found by their number, from the first to the last.

The order of the join says which source comes next, and which conditions it closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from intset.errors import CountError
from intset.expr import Var
from intset.spaces.axes import SPACE_BLOCK
from intset.spaces.vectors import Array, ArrayFunction, BoundPart, EarlyConditions, ends_of, shortened, term_values

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
        """The tried rows and their order when a source comes first."""
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


SPACE_CANDIDATES: Final = 1 << 31  # candidates that one question tries, some 10 ns each

_NUMBER: Any = np.int64
_FEW = 1 << 10  # rows that are not worth merging
_MANY = 1 << 20  # rows that are worth sorting


class Trials:
    """How many candidates a question may still try.

    Guarantee: a question's cost is counted in candidates instead of seconds, so it is equal on every machine.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = self.left = SPACE_CANDIDATES if most is None else most

    def spend(self, number: int) -> None:
        """Try some candidates.

        Raises
        ------
        CountError: the question has tried too many.
        """
        self.left -= number
        if self.left < 0:
            raise CountError(f"more than {self.most:,} candidates would be tried: restrict the space first")


class Layer(NamedTuple):
    """The choices of one step, one row per state.

    Attributes
    ----------
    start: of each state before the step, where its choices begin; then the end of the last.
    row: of each choice, the row of the source.
    state: of each choice, the state after it.
    upto: how many members the choices before one have together; then how many all have.

    Invariant: every choice leads to a member.
    """

    start: Array
    row: Array
    state: Array
    upto: Array


class Diagram:
    """The members produced by the steps of a join.

    Attributes
    ----------
    count: how many members there are.
    """

    def __init__(self, sources: Sequence[ValueTable], layers: Sequence[Layer]) -> None:
        self.sources = sources
        self.layers = layers
        self.count = int(layers[0].upto[-1]) if layers else 0

    def blocks(self, limit: int) -> Iterator[tuple[int, Columns]]:
        """The members in order, as columns of about `limit` rows, each with its number of rows."""
        if not self.count:
            return
        stack: list[tuple[int, Array, tuple[Any, ...]]] = [(0, np.zeros(1, _NUMBER), ())]
        while stack:
            depth, states, path = stack.pop()
            if depth == len(self.layers):
                yield len(states), self._columns(path)
                continue
            layer = self.layers[depth]
            begin = layer.start[states]
            degree = layer.start[states + 1] - begin
            ends = np.cumsum(degree)
            if ends[-1] > limit and len(states) > 1:
                cuts = np.unique(np.searchsorted(ends, np.arange(limit, int(ends[-1]), limit)))
                cuts = cuts[(cuts > 0) & (cuts < len(states))]
                cuts = cuts if len(cuts) else np.array([len(states) // 2])
                edges = [0, *cuts.tolist(), len(states)]
                for a, b in reversed(list(pairwise(edges))):
                    stack.append((depth, states[a:b], (path, np.arange(a, b), None)))
                continue
            choice = np.arange(int(ends[-1])) - np.repeat(ends - degree - begin, degree)
            prefix = np.repeat(np.arange(len(states)), degree)
            stack.append((depth + 1, layer.state[choice], (path, prefix, layer.row[choice])))

    def _columns(self, path: tuple[Any, ...]) -> Columns:
        """The columns of the rows at the end of a path."""
        columns: Columns = {}
        depth, index = len(self.layers), None
        while path:
            path, prefix, rows = path
            if rows is not None:
                depth -= 1
                columns.update(self._of(depth, rows if index is None else rows[index]))
            index = prefix if index is None else prefix[index]
        return columns

    def _of(self, depth: int, rows: Array) -> Columns:
        return {var: column[rows] for var, column in self.sources[depth].columns.items()}

    def at(self, numbers: Array) -> Columns:
        """The members with these numbers in the order of `blocks`."""
        columns: Columns = {}
        states: Array = np.zeros(len(numbers), _NUMBER)
        for depth, layer in enumerate(self.layers):
            wanted = layer.upto[layer.start[states]] + numbers
            choice = np.searchsorted(layer.upto, wanted, side="right") - 1
            numbers = wanted - layer.upto[choice]
            columns.update(self._of(depth, layer.row[choice]))
            states = layer.state[choice]
        return columns


def built(steps: Sequence[JoinStep], memory: int, trials: Trials) -> Diagram | None:
    """The diagram of some steps; `None` if it takes more than `memory` bytes."""
    choices: list[tuple[Array, Array, Array]] = []  # of each layer: the state before, the row, the state after
    sizes: list[int] = [1]
    states: Columns = {}
    held, is_dirty = 0, False
    for step in steps:
        before, row = _chosen(step, states, sizes[-1], (memory - held) // 48, trials)
        if before is None or row is None:
            return None
        known = dict.fromkeys((*states, *step.source.columns))
        is_dirty = is_dirty or bool(step.terms) or len(step.live) < len(known)
        new = _carried(step, states, before, row, step.live)
        after, number, states = _merged(new, len(row), is_dirty)
        if number < len(row):
            is_dirty = False
        choices.append((before, row, after))
        sizes.append(number)
        held += sum(part.nbytes for part in (before, row, after)) + 16 * len(row)
        if held > memory:
            return None
        if not len(row):
            return Diagram([], [])
    return Diagram([step.source for step in steps], _counted(choices, sizes))


def gathered(
    steps: Sequence[JoinStep], kept: Sequence[Var], memory: int, trials: Trials
) -> tuple[Columns, Array] | None:
    """The distinct rows of some columns that the members have, and how many members have each.

    States are merged during construction, so memory is bounded by the states of one step, not by all choices; `None`
    if these take more than `memory` bytes.
    """
    states: Columns = {}
    weights: Array = np.ones(1, _NUMBER)
    for k, step in enumerate(steps):
        known = dict.fromkeys((*states, *step.source.columns))
        live = dict.fromkeys((*(var for var in known if var in kept), *step.live)) if k + 1 < len(steps) else kept
        waiting: list[tuple[Columns, Array]] = []
        rows, merged = 0, 0
        for before, row in _pairs(step, states, len(weights), trials):
            if not len(row):
                continue
            waiting.append((_carried(step, states, before, row, live), weights[before]))
            rows += len(row)
            if rows > max(_GATHERED, 2 * merged):
                waiting = [_summed(waiting)]
                rows = merged = len(waiting[0][1])
                if 8 * merged * (len(waiting[0][0]) + 1) * _MERGING > memory:
                    return None
        if not waiting:
            return {var: np.zeros(0, _NUMBER) for var in kept}, np.zeros(0, _NUMBER)
        states, weights = _summed(waiting)
    return states, weights


_GATHERED = SPACE_BLOCK << 2  # rows that are merged at once, at least
_MERGING = 16  # how often the bytes of merged rows are held while more are merged with them


def _summed(parts: Sequence[tuple[Columns, Array]]) -> tuple[Columns, Array]:
    """Equal rows as one, in the order of keys, with the sums of their weights."""
    columns = {var: np.concatenate([part[var] for part, _ in parts]) for var in parts[0][0]}
    weights = np.concatenate([own for _, own in parts])
    if weights.dtype != object and float(weights.sum(dtype=float)) > 2.0**62:
        weights = weights.astype(object)
    if not columns:
        return {}, weights.sum(keepdims=True)
    key, _ = _keys(columns)
    order = np.argsort(key)
    key = key[order]
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    return {var: column[order[first]] for var, column in columns.items()}, np.add.reduceat(weights[order], first)


def _keys(columns: Columns) -> tuple[Array, int]:
    """A number for each row, equal for equal rows alone, and an upper limit of these."""
    key: Any = np.zeros(1, _NUMBER)
    room = 1
    for column in columns.values():
        low, high = int(column.min()), int(column.max())
        if high - low >= 1 << 31 and room > 1 or high - low >= 1 << 62:
            values, column = np.unique(column, return_inverse=True)
            low, high = 0, len(values) - 1
        span = high - low + 1
        if room * span >= 1 << 62:
            values, key = np.unique(key, return_inverse=True)
            room = len(values)
        key = key * span + (column - low).astype(_NUMBER)
        room *= span
    return key, room


def _carried(step: JoinStep, states: Columns, before: Array, row: Array, live: Iterable[Var]) -> Columns:
    """The columns after a step, of the pairs of a state and a row that it chose."""
    source = step.source.columns

    def chosen(var: Var) -> Array:
        return states[var][before] if var in states else source[var][row]

    carried: Columns = {}
    for var in live:
        if (term := step.terms.get(var)) is None:
            carried[var] = chosen(var)
        else:  # a part whose value no variable changes is one number
            carried[var] = np.broadcast_to(term_values(term, {v: chosen(v) for v in term.variables}), row.shape)
    return carried


def _chosen(
    step: JoinStep, states: Columns, number: int, most: int, trials: Trials
) -> tuple[Array | None, Array | None]:
    """The pairs of a state and a row of the source that fulfil the conditions, states first; `None` beyond `most`."""
    befores: list[Array] = []
    rows: list[Array] = []
    total = 0
    for before, row in _pairs(step, states, number, trials):
        befores.append(before)
        rows.append(row)
        total += len(row)
        if total > most:
            return None, None
    if len(rows) == 1:
        return befores[0], rows[0]
    return np.concatenate(befores), np.concatenate(rows)


def _pairs(step: JoinStep, states: Columns, number: int, trials: Trials) -> Iterator[tuple[Array, Array]]:
    """The pairs of a state and a row of the source that fulfil the conditions, block by block, states first."""
    source = step.source
    is_large = number * source.size > SPACE_BLOCK  # else what completions allow is found out by trying them
    conditions = (*step.early.functions, *step.conditions) if is_large else step.conditions
    width = min(source.size, SPACE_BLOCK)
    height = max(1, SPACE_BLOCK // width)
    for a in range(0, number, height):
        part = {var: column[a : a + height, None] for var, column in states.items()}
        tall = min(height, number - a)
        trials.spend(tall * source.size)
        for b in range(0, source.size, width):
            across = {var: column[None, b : b + width] for var, column in source.columns.items()}
            before, row = _fulfilling(step.shared, conditions, part, across, (tall, min(width, source.size - b)))
            yield before + a, row + b


def _fulfilling(
    shared: Sequence[Var], conditions: Sequence[ArrayFunction], part: Columns, across: Columns, shape: tuple[int, int]
) -> tuple[Array, Array]:
    """The pairs of one block; once few are left, further conditions see only these."""
    mask: Any = None
    for var in shared:
        same = part[var] == across[var]
        mask = same if mask is None else mask & same
    before: Any = None
    row: Any = None
    columns = {**across, **part}
    for cond in conditions:
        if before is None and mask is not None and 4 * np.count_nonzero(mask) < mask.size:
            before, row = np.nonzero(np.broadcast_to(mask, shape))
            columns = {var: column[0][row] for var, column in across.items()}
            columns |= {var: column[:, 0][before] for var, column in part.items()}
        holds = cond(columns)
        if before is not None:
            holds = np.broadcast_to(holds, before.shape)  # one value, where a bound does not depend on these columns
            before, row = before[holds], row[holds]
            columns = {var: column[holds] for var, column in columns.items()}
        else:
            mask = holds if mask is None else mask & holds
    if before is None:
        before, row = np.nonzero(np.broadcast_to(np.True_ if mask is None else mask, shape))
    return before, row


def _merged(columns: Columns, size: int, is_dirty: bool) -> tuple[Array, int, Columns]:
    """Of each row, its state, the number of states, and their columns; merging pays or is left out."""
    if not columns:
        return np.zeros(size, np.int32), min(size, 1), {}
    if not is_dirty or size < _FEW:
        return np.arange(size, dtype=np.int32), size, columns
    room = prod(int(column.max()) - int(column.min()) + 1 for column in columns.values())
    if room >= 1 << 62 or (room > 2 * size and size < _MANY):
        return np.arange(size, dtype=np.int32), size, columns
    key, room = _keys(columns)
    if room <= 2 * size:  # a table of all keys costs no more than one walk
        first = np.full(room, -1, np.int32)
        first[key[::-1]] = np.arange(size - 1, -1, -1, dtype=np.int32)
        present = np.flatnonzero(first >= 0)
        number = np.zeros(room, np.int32)
        number[present] = np.arange(len(present), dtype=np.int32)
        state: Array = number[key]
        chosen: Array = first[present]
    else:
        _, chosen, inverse = np.unique(key, return_index=True, return_inverse=True)
        state = inverse.astype(np.int32)
    return state, len(chosen), {var: column[chosen] for var, column in columns.items()}


def _counted(choices: Sequence[tuple[Array, Array, Array]], sizes: Sequence[int]) -> list[Layer]:
    """The layers without choices that lead nowhere, with the numbers of members below each."""
    layers: list[Layer] = []
    below: Array = np.ones(sizes[-1], _NUMBER)
    for k in range(len(choices) - 1, -1, -1):
        before, row, state = choices[k]
        members = below[state]
        alive = members != 0
        if not alive.all():
            before, row, state, members = before[alive], row[alive], state[alive], members[alive]
        if members.dtype != object and float(members.sum(dtype=float)) > 2.0**62:
            members = members.astype(object)
        upto = np.zeros(len(row) + 1, members.dtype)
        np.cumsum(members, out=upto[1:])
        start = np.zeros(sizes[k] + 1, _NUMBER)
        np.cumsum(np.bincount(before, minlength=sizes[k]), out=start[1:])
        below = upto[start[1:]] - upto[start[:-1]]
        layers.append(Layer(start, row, state, upto))
    layers.reverse()
    return layers

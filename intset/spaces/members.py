"""The members of a space: independent factors of names, each with its diagram; counted, listed and found by number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from intset.budgets import SPACE_BLOCK
from intset.expr.node import Cond, Var
from intset.spaces.axes import SpaceAxis
from intset.spaces.diagram import Diagram, built
from intset.spaces.join import Columns, JoinStep, ValueTable, ordered
from intset.spaces.narrowing import contradicting, narrowed
from intset.spaces.vectors import Array, ArrayFunction, ends_of, to_numpy

_PARTS: Final = 16  # into how many the rows of a source are divided whose diagram is too large
_ROW_BYTES: Final = 16  # that one member of a listed factor takes in a column, at most


class ListedRows:
    """Names whose values occur together: the rows of a projection.

    Attributes
    ----------
    variables: the names, as variables.
    columns: the numbers of each, all of one length; no row twice.
    """

    def __init__(self, columns: Mapping[Var, Array]) -> None:
        self.columns = dict(columns)

    @cached_property
    def rows(self) -> frozenset[tuple[int, ...]]:
        """The rows, in the order of the names."""
        return frozenset(zip(*(column.tolist() for column in self.columns.values()), strict=True))

    def has(self, point: Mapping[Var, int]) -> bool:
        """Whether the values of a point occur together."""
        return tuple(point[var] for var in self.columns) in self.rows

    def contain(self, columns: Columns) -> Array:
        """Which rows of columns are rows of this set."""
        asked = zip(*(columns[var].tolist() for var in self.columns), strict=True)
        return np.fromiter((row in self.rows for row in asked), bool, len(next(iter(columns.values()))))

    def recoded(self, codes: Mapping[Var, Sequence[int]], variables: Mapping[Var, Var]) -> ListedRows:
        """The set with other numbers for the values of some names, by their old numbers, and other variables; rows
        with a new number of -1 are left out."""
        new = {var: np.array(codes[var])[column] if var in codes else column for var, column in self.columns.items()}
        kept = np.ones(len(next(iter(new.values()))), bool)
        for var in codes.keys() & new.keys():
            kept &= new[var] >= 0
        return ListedRows({variables[var]: column[kept] for var, column in new.items()})


class Factor:
    """Names that constraints connect.

    Attributes
    ----------
    sources, conditions: what its members are made of; every condition mentions at least two sources.
    memory: bytes that its diagrams and its listing may take.
    """

    def __init__(self, sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction], memory: int) -> None:
        self.sources, self.conditions, self.memory = tuple(sources), tuple(conditions), memory
        self._counts: list[tuple[tuple[JoinStep, ...], int]] = []
        self._is_counted = False

    @cached_property
    def steps(self) -> tuple[JoinStep, ...]:
        return ordered(self.sources, self.conditions)

    @property
    def variables(self) -> tuple[Var, ...]:
        """The names, as variables."""
        return tuple(dict.fromkeys(var for source in self.sources for var in source.columns))

    @cached_property
    def whole(self) -> Diagram | None:
        """The diagram of all members; `None` if it is larger than the memory allows."""
        return built(self.steps, self.memory)

    @cached_property
    def parts(self) -> list[tuple[tuple[JoinStep, ...], int]]:
        """Parts of the rows, in order, whose diagrams the memory holds one at a time, with the numbers of members."""
        if self.whole is not None:
            return [(self.steps, self.whole.count)]
        found: list[tuple[tuple[JoinStep, ...], int]] = []
        waiting = _divided(self.steps)
        while waiting:
            steps = waiting.pop()
            part = built(steps, self.memory)
            smaller = _divided(steps) if part is None else []
            if len(smaller) > 1:
                waiting += smaller
            else:
                found.append((steps, (part or _built_at_all(steps)).count))
        return [part for part in found if part[1]]

    def diagram(self, steps: tuple[JoinStep, ...]) -> Diagram:
        """The diagram of one of the parts."""
        return self.whole if self.whole is not None else _built_at_all(steps)

    @cached_property
    def count(self) -> int:
        return sum(count for _, count in self.parts)

    @cached_property
    def listing(self) -> Columns | None:
        """The columns of all members; `None` if these take more than the memory."""
        whole = self.whole
        width = sum(len(source.columns) for source in self.sources)
        if whole is None or whole.count * width * _ROW_BYTES > self.memory:
            return None
        blocks = [columns for _, columns in whole.blocks(max(1, whole.count))]
        if not blocks:
            return {var: column[:0] for source in self.sources for var, column in source.columns.items()}
        if len(blocks) == 1:
            return blocks[0]
        return {var: np.concatenate([columns[var] for columns in blocks]) for var in blocks[0]}

    def blocks(self, limit: int) -> Iterator[tuple[int, Columns]]:
        """All members in order, in blocks."""
        if self.listing is not None:
            for a in range(0, self.count, limit):
                columns = {var: column[a : a + limit] for var, column in self.listing.items()}
                yield min(limit, self.count - a), columns
            return
        for steps, _ in self.parts:
            yield from self.diagram(steps).blocks(limit)

    def at(self, numbers: Array) -> Columns:
        """The members with these numbers, in the order of `blocks`."""
        if self.listing is not None:
            index = numbers.astype(np.int64)
            return {var: column[index] for var, column in self.listing.items()}
        columns: Columns = {
            var: np.empty(len(numbers), column.dtype)
            for source in self.sources
            for var, column in source.columns.items()
        }
        before = 0
        for steps, count in self.parts:
            inside = (numbers >= before) & (numbers < before + count)
            if inside.any():
                for var, column in self.diagram(steps).at(numbers[inside] - before).items():
                    columns[var][inside] = column
            before += count
        return columns


def _built_at_all(steps: Sequence[JoinStep]) -> Diagram:
    part = built(steps, 1 << 62)
    assert part is not None
    return part


def _divided(steps: tuple[JoinStep, ...]) -> list[tuple[JoinStep, ...]]:
    """The steps for parts of the rows of the first source that has several; the first part is the last of the list."""
    for k, step in enumerate(steps):
        size = step.source.size
        if size > 1:
            cuts = np.linspace(0, size, min(size, _PARTS) + 1).astype(int)
            parts = [step.source.rows(np.arange(a, b)) for a, b in pairwise(cuts.tolist())]
            return [(*steps[:k], step._replace(source=part), *steps[k + 1 :]) for part in reversed(parts)]
    return [steps]


class Members:
    """All members of a space.

    Attributes
    ----------
    axes: the names, with the values that the conditions of one name leave.
    factors: independent; a member is one of each factor, and the first factor varies slowest.

    Invariant: the order of members depends on the space alone.
    """

    def __init__(
        self, axes: Sequence[SpaceAxis], conditions: Sequence[Cond], listed: Sequence[ListedRows], memory: int
    ) -> None:
        self.axes, self.conditions, self.listed = tuple(axes), tuple(conditions), tuple(listed)
        self.memory = memory
        columns = {axis.var: column_of(axis) for axis in axes}
        several: list[Cond] = []
        for cond in conditions:
            variables = cond.free_vars()
            if len(variables) > 1:
                several.append(cond)
                continue
            holds = to_numpy(cond, ends_of(columns))(columns)
            if not variables:
                if not holds:
                    columns = {var: column[:0] for var, column in columns.items()}
                continue
            columns[variables[0]] = columns[variables[0]][holds]
        self.columns = columns
        if not all(map(len, columns.values())):
            self.factors: tuple[Factor, ...] = ()
            return
        sources = _sources(columns, listed)
        if not all(source.size for source in sources):
            self.factors = ()
            return
        ends = ends_of(columns)
        self.factors = tuple(_factored(sources, [to_numpy(cond, ends) for cond in several], memory))

    @cached_property
    def count(self) -> int:
        return prod(factor.count for factor in self.factors) if self.factors else 0

    @property
    def is_empty(self) -> bool:
        return not self.factors or not all(factor.count for factor in self.factors)

    def contain(self, columns: Columns) -> Array:
        """Which rows of columns of values that the names take are members."""
        inside = np.ones(len(next(iter(columns.values()))), bool)
        ends = ends_of({axis.var: column_of(axis) for axis in self.axes})
        for cond in self.conditions:
            inside &= to_numpy(cond, ends)(columns)
        for one in self.listed:
            inside &= one.contain(columns)
        return inside

    def left(self) -> list[list[int]]:
        """The numbers that each name still takes after propagation, in the order of the axes."""
        columns = {axis.var: column_of(axis) for axis in self.axes}
        for one in self.listed:
            columns |= {var: columns[var][np.isin(columns[var], column)] for var, column in one.columns.items()}
        kept = narrowed(columns, self.conditions)
        return [kept[axis.var].tolist() for axis in self.axes]

    def contradiction(self) -> tuple[Cond, ...]:
        """The conditions of which propagation finds that they exclude one another."""
        return contradicting({axis.var: column_of(axis) for axis in self.axes}, self.conditions)

    def blocks(self, limit: int = SPACE_BLOCK) -> Iterator[tuple[int, Columns]]:
        """All members in order, as columns of at most about `limit` rows, with their numbers of rows."""
        if not self.is_empty:
            yield from product(self.factors, limit)

    def at(self, numbers: Sequence[int]) -> Columns:
        """The members with these numbers, in the order of `blocks`."""
        columns: Columns = {}
        rest: Array = np.array(numbers, np.int64 if self.count < 1 << 62 else object)
        for factor in reversed(self.factors):
            columns.update(factor.at(rest % factor.count))
            rest = rest // factor.count
        return columns


def product(factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
    """The product of factors; the last ones that are short are combined at once."""
    cut, width = len(factors), 1
    while cut and factors[cut - 1].listing is not None and width * factors[cut - 1].count <= limit:
        cut -= 1
        width *= factors[cut].count
    tail = _listed_product(factors[cut:])
    if not cut:
        yield width, tail
        return
    if not tail:
        last = factors[cut - 1]
        for _, outer in _rows(factors[: cut - 1], limit):
            for size, inner in last.blocks(limit):
                yield size, {**{var: np.broadcast_to(value, size) for var, value in outer.items()}, **inner}
        return
    for size, outer in product(factors[:cut], max(1, limit // width)):
        columns = {var: np.repeat(column, width) for var, column in outer.items()}
        yield size * width, columns | {var: np.tile(column, size) for var, column in tail.items()}


def _rows(factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
    """The members of a product one by one; one empty row for no factors."""
    if not factors:
        yield 1, {}
        return
    for size, block in product(factors, limit):
        for k in range(size):
            yield 1, {var: column[k : k + 1] for var, column in block.items()}  # arrays keep the type of long integers


def _listed_product(factors: Sequence[Factor]) -> Columns:
    columns: Columns = {}
    size = 1
    for factor in factors:
        own = factor.listing
        assert own is not None
        columns = {var: np.repeat(column, factor.count) for var, column in columns.items()}
        columns |= {var: np.tile(column, size) for var, column in own.items()} if size > 1 else own
        size *= factor.count
    return columns


def column_of(axis: SpaceAxis) -> Array:
    """The numbers of an axis's values."""
    return whole_numbers(axis.numbers())


def whole_numbers(numbers: Sequence[int]) -> Array:
    """Integers as an array: of 64 bits, or of Python's where one is longer than 62."""
    return np.array(numbers, np.int64 if max(map(abs, numbers), default=0) < 1 << 62 else object)


def _sources(columns: Mapping[Var, Array], listed: Iterable[ListedRows]) -> list[ValueTable]:
    """Listed sets without the rows that have a value no name takes, and the columns of other names."""
    sources: list[ValueTable] = []
    covered: set[Var] = set()
    for one in listed:
        size = len(next(iter(one.columns.values())))
        kept = np.ones(size, bool)
        for var, column in one.columns.items():
            kept &= np.isin(column, columns[var])
        covered |= one.columns.keys()
        sources.append(ValueTable(one.columns, size).rows(np.flatnonzero(kept)))
    sources += [ValueTable({var: column}, len(column)) for var, column in columns.items() if var not in covered]
    place = {var: k for k, var in enumerate(columns)}
    return sorted(sources, key=lambda source: min(place[var] for var in source.columns))


def _factored(sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction], memory: int) -> Iterator[Factor]:
    """The factors that conditions and common names connect, in the order of their first source."""
    parent = list(range(len(sources)))

    def root(k: int) -> int:
        while parent[k] != k:
            parent[k] = parent[parent[k]]
            k = parent[k]
        return k

    owner: dict[Var, int] = {}
    for k, source in enumerate(sources):
        for var in source.columns:
            parent[root(k)] = root(owner.setdefault(var, k))
    for cond in conditions:
        first = root(owner[cond.variables[0]])
        for var in cond.variables[1:]:
            parent[root(owner[var])] = first
    members: dict[int, list[int]] = {}
    for k in range(len(sources)):
        members.setdefault(root(k), []).append(k)
    share = memory // max(1, sum(len(own) > 1 for own in members.values()))
    for own in members.values():
        inside = [cond for cond in conditions if root(owner[cond.variables[0]]) == root(own[0])]
        yield Factor([sources[k] for k in own], inside, share)

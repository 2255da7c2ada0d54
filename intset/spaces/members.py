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
from intset.spaces.join import Columns, JoinStep, ValueTable, staged
from intset.spaces.vectors import Array, ArrayFunction, Ends, to_numpy

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

    def has(self, point: Mapping[Var, int]) -> bool:
        """Whether the values of a point occur together."""
        same = [column == point[var] for var, column in self.columns.items()]
        return bool(np.logical_and.reduce(same).any())


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
    def stages(self) -> tuple[JoinStep, ...]:
        return staged(self.sources, self.conditions)

    @cached_property
    def whole(self) -> Diagram | None:
        """The diagram of all members; `None` if it is larger than the memory allows."""
        return built(self.stages, self.memory)

    def diagrams(self) -> Iterator[Diagram]:
        """The diagrams of parts that have all members together, one after another."""
        if self.whole is not None:
            yield self.whole
            return
        if self._is_counted:
            for stages, count in self._counts:
                if count:
                    yield _built_at_all(stages)
            return
        counts: list[tuple[tuple[JoinStep, ...], int]] = []
        waiting = _divided(self.stages)
        while waiting:
            stages = waiting.pop()
            part = built(stages, self.memory)
            if part is None:
                smaller = _divided(stages)
                if len(smaller) > 1:
                    waiting += smaller
                    continue
                part = _built_at_all(stages)
            counts.append((stages, part.count))
            yield part
        self._counts, self._is_counted = counts, True

    @cached_property
    def count(self) -> int:
        return sum(part.count for part in self.diagrams())

    @property
    def is_empty(self) -> bool:
        return not any(part.count for part in self.diagrams())

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
        for part in self.diagrams():
            yield from part.blocks(limit)

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
        for part in self.diagrams():
            inside = (numbers >= before) & (numbers < before + part.count)
            if inside.any():
                for var, column in part.at(numbers[inside] - before).items():
                    columns[var][inside] = column
            before += part.count
        return columns


def _built_at_all(stages: Sequence[JoinStep]) -> Diagram:
    part = built(stages, 1 << 62)
    assert part is not None
    return part


def _divided(stages: tuple[JoinStep, ...]) -> list[tuple[JoinStep, ...]]:
    """The stages for parts of the rows of the first source that has several; the first part is the last of the list."""
    for k, stage in enumerate(stages):
        size = stage.source.size
        if size > 1:
            cuts = np.linspace(0, size, min(size, _PARTS) + 1).astype(int)
            parts = [stage.source.rows(np.arange(a, b)) for a, b in pairwise(cuts.tolist())]
            return [(*stages[:k], stage._replace(source=part), *stages[k + 1 :]) for part in reversed(parts)]
    return [stages]


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
        self.axes = tuple(axes)
        columns = {axis.var: column_of(axis) for axis in axes}
        several: list[Cond] = []
        self.refuted: Cond | None = None
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
        return not self.factors or any(factor.is_empty for factor in self.factors)

    def blocks(self, limit: int = SPACE_BLOCK) -> Iterator[tuple[int, Columns]]:
        """All members in order, as columns of at most about `limit` rows, with their numbers of rows."""
        if not self.is_empty:
            yield from _product(self.factors, limit)

    def at(self, numbers: Sequence[int]) -> Columns:
        """The members with these numbers, in the order of `blocks`."""
        columns: Columns = {}
        rest: Array = np.array(numbers, np.int64 if self.count < 1 << 62 else object)
        for factor in reversed(self.factors):
            columns.update(factor.at(rest % factor.count))
            rest = rest // factor.count
        return columns


def _product(factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
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
    for size, outer in _product(factors[:cut], max(1, limit // width)):
        columns = {var: np.repeat(column, width) for var, column in outer.items()}
        yield size * width, columns | {var: np.tile(column, size) for var, column in tail.items()}


def _rows(factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
    """The members of a product one by one; one empty row for no factors."""
    if not factors:
        yield 1, {}
        return
    for size, block in _product(factors, limit):
        for k in range(size):
            yield 1, {var: column[k] for var, column in block.items()}


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
    numbers = axis.numbers()
    if max(map(abs, numbers)) >= 1 << 62:
        return np.array(numbers, object)
    return np.array(numbers, np.int64)


def ends_of(columns: Mapping[Var, Array]) -> dict[Var, Ends]:
    """The least and the greatest number of each column; 0 for an empty one."""
    return {var: (int(column.min()), int(column.max())) if len(column) else (0, 0) for var, column in columns.items()}


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

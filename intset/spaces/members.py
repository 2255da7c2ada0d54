"""The members of a space: independent factors of names, each with its diagram; counted, listed and found by number;
best members, the nearest member, random members.

Propagation to a fixed point drops values that no condition allows before anything is joined. A condition with few
candidates is evaluated on all of them, so every remaining value has a support. Of a larger one the linear tier refutes
values from both ends of a list.

Members in the order of the names: as nested loops over the values list them, the first name outermost.
"""

from __future__ import annotations

import itertools
import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from intset.context import Context
from intset.errors import CountError, InputError
from intset.expr import Cond, Expr, Range, Var, dag, ops
from intset.expr.node import truth
from intset.spaces.axes import LABELS, SPACE_BLOCK, TRUTHS, SpaceAxis, SpaceValue
from intset.spaces.diagram import Columns, Diagram, JoinStep, Trials, ValueTable, built, gathered, ordered
from intset.spaces.vectors import Array, ArrayFunction, ends_of, to_numpy

_KEY_BITS = 62
_TABLE = 1 << 16  # numbers between the least and the greatest value, so that places are looked up in a table
_VALUE_PARTS = 16  # into how many the values of a name are divided where the members are too many


class NameOrder:
    """The order of names, and of the values of each name.

    Parameters
    ----------
    columns: each name's values in the order of the input; the first name varies slowest.
    """

    def __init__(self, columns: Mapping[Var, Array]) -> None:
        self.values = dict(columns)
        self.number = {var: k for k, var in enumerate(columns)}
        self._tables: dict[Var, tuple[int, Array]] = {}
        self._sorted: dict[Var, tuple[Array, Array]] = {}

    def places(self, var: Var, column: Array) -> Array:
        """The position of each number of a column among a name's values."""
        values = self.values[var]
        if var not in self._tables and var not in self._sorted:
            low, high = int(values.min()), int(values.max())
            if high - low < _TABLE:
                table = np.zeros(high - low + 1, np.int64)
                table[(values - low).astype(np.int64)] = np.arange(len(values))
                self._tables[var] = low, table
            else:
                ranked = np.argsort(values, kind="stable")
                self._sorted[var] = values[ranked], ranked
        if var in self._tables:
            low, table = self._tables[var]
            found: Array = table[(column - low).astype(np.int64, copy=False)]
        else:
            ascending, ranked = self._sorted[var]
            found = ranked[np.searchsorted(ascending, column)]
        return found

    def sorted(self, columns: Columns) -> Columns:
        """Distinct rows in order."""
        size = len(next(iter(columns.values())))
        ranked = sorted((var for var in columns if len(self.values[var]) > 1), key=self.number.__getitem__)
        if size < 2 or not ranked:
            return columns
        bits = [(len(self.values[var]) - 1).bit_length() for var in ranked]
        if sum(bits) > _KEY_BITS:
            rows = np.lexsort([self.places(var, columns[var]) for var in reversed(ranked)])
            return {var: column[rows] for var, column in columns.items()}
        key = np.zeros(size, np.int64)
        for var, width in zip(ranked, bits, strict=True):
            key <<= width
            key |= self.places(var, columns[var])
        if (key[1:] > key[:-1]).all():
            return columns
        key.sort()
        found = {var: column for var, column in columns.items() if len(self.values[var]) < 2}
        for var, width in zip(reversed(ranked), reversed(bits), strict=True):
            found[var] = self.values[var][key & ((1 << width) - 1)]
            key >>= width
        return found

    def listed(self, factors: Sequence[Factor]) -> Columns:
        """All rows of a product of factors in order."""
        columns: Columns = {}
        size = 1
        for together in self._interleaved(factors):
            own: Columns = {}
            number = 1
            for factor in together:
                own = _times(own, number, factor.rows(), factor.count)
                number *= factor.count
            columns = _times(columns, size, self.sorted(own), number)
            size *= number
        return columns

    def _interleaved(self, factors: Sequence[Factor]) -> list[list[Factor]]:
        """Factors in groups whose names follow one another, each group as small as possible."""
        spans = []
        for k, factor in enumerate(factors):
            numbers = [self.number[var] for var in factor.variables]
            spans.append((min(numbers), max(numbers), k))
        groups: list[list[Factor]] = []
        end = -1
        for low, high, k in sorted(spans):
            if low > end:
                groups.append([])
            groups[-1].append(factors[k])
            end = max(end, high)
        return groups

    def blocks(self, factors: Sequence[Factor], limit: int) -> Iterator[tuple[int, Columns]]:
        """All rows of a product of factors in order, in blocks of at most about `limit` rows with their numbers.

        Where these are too many, or too many to count soon, the values of the first names are divided.
        """
        waiting = [(tuple(factors), 0)]
        while waiting:
            parts, first = waiting.pop()
            counts = [factor.count_soon for factor in parts]
            if 0 in counts:
                continue
            total = None if None in counts else prod(count for count in counts if count is not None)
            if total is not None and total <= limit:
                yield total, self.listed(parts)
                continue
            var, k, source = self._open(parts, first)
            if var is None:
                if total := prod(factor.count for factor in parts):
                    yield total, self.listed(parts)
                continue
            places = self.places(var, source)
            taken = np.unique(places)
            for some in reversed(np.array_split(taken, min(_VALUE_PARTS, len(taken)))):
                part = parts[k].holding(var, self.values[var][some])
                waiting.append(((*parts[:k], part, *parts[k + 1 :]), self.number[var]))

    def _open(self, factors: Sequence[Factor], first: int) -> tuple[Var | None, int, Array]:
        """The first name with several values, from a number on, with the place of its factor and its values there."""
        owner = {var: k for k, factor in enumerate(factors) for var in factor.variables}
        for var in list(self.number)[first:]:
            if var in owner:
                column = factors[owner[var]].column(var)
                if len(column) > 1 and not (column == column[0]).all():
                    return var, owner[var], column
        return None, 0, np.zeros(0, np.int64)


def _times(columns: Columns, size: int, more: Columns, number: int) -> Columns:
    """The product of rows, the first ones varying slowest."""
    if size == 1 and not columns:
        return more
    slow = {var: np.repeat(column, number) for var, column in columns.items()} if number > 1 else columns
    return slow | ({var: np.tile(column, size) for var, column in more.items()} if size > 1 else more)


_ROUNDS = 8  # rounds over all conditions; after the last one a superset stays


def narrowed(columns: Mapping[Var, Array], conditions: Sequence[Cond]) -> Columns:
    """The columns without values that a condition excludes; all are empty where one is.

    Guarantee: every member of the space has its values in the answer.
    """
    left = dict(columns)
    waiting = list(conditions)
    for _ in range(_ROUNDS):
        changed: set[Var] = set()
        for cond in waiting:
            for var, column in _by(cond, left).items():
                if len(column) < len(left[var]):
                    left[var] = column
                    changed.add(var)
            if not all(map(len, left.values())):
                return {var: column[:0] for var, column in left.items()}
        waiting = [cond for cond in conditions if not changed.isdisjoint(cond.free_vars())]
        if not waiting:
            break
    return left


def _by(cond: Cond, columns: Columns) -> Columns:
    """The columns of one condition's variables without values that it excludes."""
    variables = cond.free_vars()
    own = {var: columns[var] for var in variables}
    if not variables:
        kept = bool(to_numpy(cond, {})({}))
        return {} if kept else {var: column[:0] for var, column in columns.items()}
    if prod(map(len, own.values())) <= SPACE_BLOCK:
        grid = np.meshgrid(*own.values(), indexing="ij", sparse=True)
        holds = to_numpy(cond, ends_of(own))(dict(zip(variables, grid, strict=True)))
        holds = np.broadcast_to(holds, tuple(map(len, own.values())))
        axes = range(len(variables))
        return {
            var: own[var][holds.any(axis=tuple(other for other in axes if other != k))]
            for k, var in enumerate(variables)
        }
    for var in variables:
        own[var] = _shaved(cond, own, var)
    return own


def _shaved(cond: Cond, columns: Columns, var: Var) -> Array:
    """The column of one variable without values at its ends that the linear tier refutes."""
    values = np.unique(columns[var])
    low = _refuted_head(cond, columns, var, values)
    high = len(values) - _refuted_head(cond, columns, var, values[::-1])
    if low >= high:
        return columns[var][:0]
    column: Array = columns[var]
    kept: Array = column[(column >= values[low]) & (column <= values[high - 1])]
    return kept


def _refuted_head(cond: Cond, columns: Columns, var: Var, values: Array) -> int:
    """How many of the values at the head of a list are refuted together."""
    if not _refuted(cond, columns, var, values[:1]):
        return 0
    least, most = 1, len(values)
    while least < most:
        middle = (least + most + 1) // 2
        if _refuted(cond, columns, var, values[:middle]):
            least = middle
        else:
            most = middle - 1
    return least


def _refuted(cond: Cond, columns: Columns, var: Var, values: Array) -> bool:
    ends = ends_of({**columns, var: values})
    ctx = Context({v: Range(low, high - low + 1) for v, (low, high) in ends.items()})
    return ctx.canonical(cond) is truth(False)


def irredundant(conditions: Sequence[Cond], is_empty: Callable[[Sequence[Cond]], bool]) -> tuple[Cond, ...]:
    """A minimal set of conditions that no member fulfils together."""
    needed = list(conditions)
    for cond in conditions:
        fewer = [other for other in needed if other is not cond]
        if is_empty(fewer):
            needed = fewer
    return tuple(needed)


SPACE_SOON: Final = 1 << 24  # candidates that are tried to list some members; beyond, the values of a name are divided

_PARTS: Final = 16  # into how many the rows of a source are divided whose diagram is too large
_ROW_BYTES: Final = 16  # the bytes one member of a listed factor needs in a column, at most


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
    memory: the byte limit for its diagrams and its listing.
    """

    def __init__(self, sources: Sequence[ValueTable], conditions: Sequence[ArrayFunction], memory: int) -> None:
        self.sources, self.conditions, self.memory = tuple(sources), tuple(conditions), memory

    @cached_property
    def steps(self) -> tuple[JoinStep, ...]:
        return ordered(self.sources, self.conditions)

    @cached_property
    def variables(self) -> tuple[Var, ...]:
        """The names, as variables."""
        return tuple(dict.fromkeys(var for source in self.sources for var in source.columns))

    def column(self, var: Var) -> Array:
        """The values of a name, possibly repeated."""
        return next(source.columns[var] for source in self.sources if var in source.columns)

    def holding(self, var: Var, values: Array) -> Factor:
        """The members whose value of a name lies in a list."""
        sources = [
            source.rows(np.flatnonzero(np.isin(source.columns[var], values))) if var in source.columns else source
            for source in self.sources
        ]
        return Factor(sources, self.conditions if all(source.size for source in sources) else (), self.memory)

    # -- how many ------------------------------------------------------------------------------------------------------

    @cached_property
    def soon(self) -> Diagram | None:
        """The diagram of all members; `None` if it takes long or is larger than the memory allows."""
        if not all(source.size for source in self.sources):
            return Diagram([], [])
        try:
            return built(self.steps, self.memory, Trials(SPACE_SOON))
        except CountError:
            return None

    @cached_property
    def whole(self) -> Diagram | None:
        """The diagram of all members; `None` if it is larger than the memory allows."""
        return self.soon or built(self.steps, self.memory, Trials())

    @property
    def count_soon(self) -> int | None:
        """The number of members; `None` if finding it takes long."""
        if "count" in self.__dict__:
            return self.count
        if len(self.sources) == 1 and not self.conditions:
            return self.sources[0].size
        return None if self.soon is None else self.soon.count

    @cached_property
    def count(self) -> int:
        """The number of members.

        Raises
        ------
        CountError: too many candidates have to be tried.
        """
        if self.whole is not None:
            return self.whole.count
        found = gathered(self.steps, (), self.memory, Trials())
        return sum(count for _, count in self.parts) if found is None else int(found[1].sum())

    @cached_property
    def is_empty(self) -> bool:
        """Whether there are no members.

        Raises
        ------
        CountError: too many candidates have to be tried.
        """
        if self.count_soon is not None:
            return not self.count_soon
        try:
            return next(self._each_part(Trials(SPACE_SOON << 3)), None) is None
        except CountError:
            return not self.count

    # -- which ---------------------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[tuple[tuple[JoinStep, ...], int]]:
        """Parts of the rows, in order, whose diagrams the memory holds one at a time, with the numbers of members."""
        if self.whole is not None:
            return [(self.steps, self.whole.count)]
        return list(self._each_part(Trials()))

    def _each_part(self, trials: Trials) -> Iterator[tuple[tuple[JoinStep, ...], int]]:
        waiting = _divided(self.steps)
        while waiting:
            steps = waiting.pop()
            part = built(steps, self.memory, trials)
            smaller = _divided(steps) if part is None else []
            if len(smaller) > 1:
                waiting += smaller
                continue
            count = (part or _built_at_all(steps)).count
            if count:
                yield steps, count

    def diagram(self, steps: tuple[JoinStep, ...]) -> Diagram:
        """The diagram of one of the parts."""
        return self.whole if self.whole is not None else _built_at_all(steps)

    @cached_property
    def listing(self) -> Columns | None:
        """The columns of all members; `None` if these take more than the memory."""
        width = sum(len(source.columns) for source in self.sources)
        return None if self.whole is None or self.whole.count * width * _ROW_BYTES > self.memory else self.rows()

    def rows(self) -> Columns:
        """The columns of all members, in the order of `at`."""
        if len(self.sources) == 1 and not self.conditions:
            return dict(self.sources[0].columns)
        blocks = [columns for steps, count in self.parts for _, columns in self.diagram(steps).blocks(max(1, count))]
        if not blocks:
            return {var: column[:0] for source in self.sources for var, column in source.columns.items()}
        if len(blocks) == 1:
            return blocks[0]
        return {var: np.concatenate([columns[var] for columns in blocks]) for var in blocks[0]}

    def distinct(self, kept: Sequence[Var]) -> Columns | None:
        """The distinct rows of some names that the members have; `None` if they take more than the memory.

        Raises
        ------
        CountError: too many candidates have to be tried.
        """
        found = gathered(self.steps, kept, self.memory, Trials())
        return None if found is None else {var: found[0][var] for var in kept}

    def at(self, numbers: Array) -> Columns:
        """The members with these numbers, in an order that depends on the space and its memory alone."""
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
    part = built(steps, 1 << 62, Trials())
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
    axes: the names, with the values that single-name conditions allow.
    factors: independent; a member is one of each factor.

    Invariant: members are listed as nested loops over the values list them, the first name outermost.
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
        return not self.factors or any(factor.is_empty for factor in self.factors)

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
        """Each name's remaining numbers after propagation, in the order of the axes."""
        columns = {axis.var: column_of(axis) for axis in self.axes}
        for one in self.listed:
            columns |= {var: columns[var][np.isin(columns[var], column)] for var, column in one.columns.items()}
        kept = narrowed(columns, self.conditions)
        return [kept[axis.var].tolist() for axis in self.axes]

    def contradiction(self) -> tuple[Cond, ...]:
        """Conditions that propagation proves mutually exclusive, none of them without need; empty if it finds none."""
        columns = {axis.var: column_of(axis) for axis in self.axes}

        def is_empty(conditions: Sequence[Cond]) -> bool:
            return not all(map(len, narrowed(columns, conditions).values()))

        return irredundant(self.conditions, is_empty) if is_empty(self.conditions) else ()

    @cached_property
    def order(self) -> NameOrder:
        """The order of the names and of their values, as far as single names keep them."""
        return NameOrder(self.columns)

    def blocks(self, limit: int = SPACE_BLOCK) -> Iterator[tuple[int, Columns]]:
        """All members in the order of the names, as columns of at most `limit` rows, with their numbers of rows."""
        if self.is_empty:
            return
        most = max(limit, self.memory // (4 * _ROW_BYTES * len(self.axes)))
        for size, columns in self.order.blocks(self.factors, most):
            for a in range(0, size, limit):
                part = {var: column[a : a + limit] for var, column in columns.items()} if size > limit else columns
                yield min(limit, size - a), part

    def at(self, numbers: Sequence[int]) -> Columns:
        """The members with these numbers, in an order that depends on the space and its memory alone."""
        columns: Columns = {}
        rest: Array = np.array(numbers, np.int64 if self.count < 1 << 62 else object)
        for factor in reversed(self.factors):
            columns.update(factor.at(rest % factor.count))
            rest = rest // factor.count
        return columns


def column_of(axis: SpaceAxis) -> Array:
    """The numbers of an axis's values."""
    return whole_numbers(axis.numbers())


def whole_numbers(numbers: Sequence[int]) -> Array:
    """Integers as an array: as 64-bit integers, or as Python's if a number exceeds 62 bits."""
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
    classes = dag.connected([*(source.columns for source in sources), *(cond.variables for cond in conditions)])
    number = {var: k for k, together in enumerate(classes) for var in together}
    members: dict[int, list[ValueTable]] = {}
    for source in sources:
        members.setdefault(number[next(iter(source.columns))], []).append(source)
    share = memory // max(1, sum(len(own) > 1 for own in members.values()))
    for k, own in members.items():
        yield Factor(own, [cond for cond in conditions if number[cond.variables[0]] == k], share)


# -- questions that look at many members at once ----------------------------------------------------------------------

_MOST_CANDIDATES = 16 * SPACE_BLOCK  # neighbours that are tried, or members that are compared instead
_MOST_OPERANDS = 256  # of a sum or product that is minimized operand by operand


def plain_column(axis: SpaceAxis, numbers: Array) -> Array:
    """The values that a column's numbers encode: `int64` (`object` beyond), `bool`, or strings."""
    if axis.kind is LABELS:
        return np.array(axis.values)[numbers.astype(np.int64)] if axis.values else np.array([], str)
    if axis.kind is TRUTHS:
        return numbers.astype(bool)
    return numbers if numbers.dtype == object else numbers.astype(np.int64, copy=False)


def configurations(members: Members, columns: Columns) -> list[dict[str, SpaceValue]]:
    """The rows of columns as dicts in the order of the names."""
    lists = [plain_column(axis, columns[axis.var]).tolist() for axis in members.axes]
    names = [axis.name for axis in members.axes]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def all_columns(members: Members) -> Columns:
    """The columns of all members."""
    blocks = [block for _, block in members.blocks(max(SPACE_BLOCK, members.count))]
    if len(blocks) == 1:
        return blocks[0]
    if not blocks:
        return {axis.var: column_of(axis)[:0] for axis in members.axes}
    return {axis.var: np.concatenate([block[axis.var] for block in blocks]) for axis in members.axes}


def values_at(members: Members, e: Expr, columns: Columns) -> Array:
    """The values of an expression at the rows of columns.

    Raises
    ------
    UndefinedError: it has none at one of them.
    """
    size = len(next(iter(columns.values())))
    values = to_numpy(e, ends_of(members.columns)).checked(columns) if size else np.zeros(0, np.int64)
    values = values if values.dtype == object else values.astype(np.int64, copy=False)
    return np.broadcast_to(values, size).copy() if values.shape != (size,) else values


def sampled(members: Members, k: int, seed: int | None) -> list[dict[str, SpaceValue]]:
    """`k` distinct members, each choice of `k` equally likely, in random order."""
    count = members.count
    if k > count:
        raise InputError(f"the space has {count} members: {k} cannot be drawn without replacement")
    if not k:
        return []
    draw = random.Random(seed)
    if 4 * k > count:
        numbers = draw.sample(range(count), k)
    else:
        chosen: dict[int, None] = {}
        while len(chosen) < k:
            chosen[draw.randrange(count)] = None
        numbers = list(chosen)
    return configurations(members, members.at(numbers))


def best(members: Members, e: Expr, k: int) -> list[dict[str, SpaceValue]]:
    """The `k` members with the least values, those of equal value in the order of the names."""
    if members.is_empty or not k:
        return []
    read = set(e.free_vars())
    asked = [factor for factor in members.factors if not read.isdisjoint(factor.variables)]
    others = [factor for factor in members.factors if read.isdisjoint(factor.variables)]
    columns, values = _least(members, asked, e, k)
    found: list[dict[str, SpaceValue]] = []
    for value in np.unique(values):
        rows = np.flatnonzero(values == value)
        equal = [Factor([ValueTable(_rows_of(columns, rows), len(rows))], (), members.memory)] if asked else []
        for _, block in members.order.blocks([*equal, *others], k - len(found)):
            found += configurations(members, {var: column[: k - len(found)] for var, column in block.items()})
            if len(found) == k:
                return found
    return found


def _least(members: Members, factors: Sequence[Factor], e: Expr, k: int) -> tuple[Columns, Array]:
    """`_least_rows` of an expression, operand by operand for operands over disjoint factors.

    A sum is strictly monotone in its operands, and so is a product of positive ones. Then a row beyond the `k` first
    of an operand is in none of the `k` first members: substituting any of these rows yields a smaller member.
    """
    operands, combined = _operands(e)
    parts: list[tuple[list[Factor], Expr]] = []
    for names in dag.connected([*(factor.variables for factor in factors), *(part.free_vars() for part in operands)]):
        own = [factor for factor in factors if not names.isdisjoint(factor.variables)]
        together = [part for part in operands if not names.isdisjoint(part.free_vars())]
        if own and together:
            parts.append((own, combined(together)))
    numbers = [operand for operand in operands if not operand.free_vars()]
    positive = [*(part for _, part in parts), *numbers] if e.op is ops.MUL else []
    if len(parts) < 2 or not all(_is_positive(members, part) for part in positive):
        return _least_rows(members, factors, e, k)
    known: tuple[Factor, Expr] | None = None
    for own, part in parts:
        columns, _ = _least(members, own, part, k)
        if known is not None:
            part = combined([known[1], part])
            columns, _ = _least_rows(members, [known[0], _listed(members, columns)], part, k)
        known = _listed(members, columns), part
    assert known is not None, "there are several parts"
    return _least_rows(members, [known[0]], e, k)


def _listed(members: Members, columns: Columns) -> Factor:
    return Factor([ValueTable(columns, len(next(iter(columns.values()))))], (), members.memory)


def _operands(e: Expr) -> tuple[list[Expr], Callable[[Sequence[Expr]], Expr]]:
    """Expressions whose sum or product is `e`, and that operation."""
    found: list[Expr] = []
    if e.op is ops.MUL and not any(arg.is_const for arg in e.args):
        factors = [e]
        while factors and len(found) + len(factors) < _MOST_OPERANDS:
            part = factors.pop()
            (factors.extend if part.op is ops.MUL else found.extend)(part.args if part.op is ops.MUL else (part,))
        return found + factors, lambda parts: reduce(operator.mul, parts)
    signed = [(e, 1)]
    while signed and len(found) + len(signed) < _MOST_OPERANDS:
        part, k = signed.pop()
        a, b = (*part.args, part, part)[:2]
        if part.op is ops.ADD or part.op is ops.SUB:
            signed += [(a, k), (b, k if part.op is ops.ADD else -k)]
        elif part.op is ops.NEG:
            signed.append((a, -k))
        elif part.op is ops.MUL and b.is_const:
            signed.append((a, k * int(b)))
        elif part.op is ops.MUL and a.is_const:
            signed.append((b, k * int(a)))
        else:
            found.append(part * k)
    return found + [part * k for part, k in signed], lambda parts: reduce(operator.add, parts)


def _is_positive(members: Members, e: Expr) -> bool:
    ranges = {var: Range(low, high - low + 1) for var, (low, high) in ends_of(members.columns).items()}
    return bool(Context(ranges).prove(e > 0))


def _least_rows(members: Members, factors: Sequence[Factor], e: Expr, k: int) -> tuple[Columns, Array]:
    """The first `k` rows of a product of factors with the least values of an expression, and these."""
    if not factors:
        return {}, values_at(members, e, {axis.var: column_of(axis)[:1] for axis in members.axes})
    kept: tuple[Columns, Array] | None = None
    for _, block in members.order.blocks(factors, SPACE_BLOCK):
        values = values_at(members, e, block)
        if kept is not None:  # earlier ones are first
            block = {var: np.concatenate([kept[0][var], column]) for var, column in block.items()}
            values = np.concatenate([kept[1], values])
        if len(values) > k:
            limit = np.partition(values, k - 1)[k - 1]
            less = np.flatnonzero(values < limit)
            rows = np.sort(np.concatenate([less, np.flatnonzero(values == limit)[: k - len(less)]]))
            block, values = _rows_of(block, rows), values[rows]
        kept = block, values
    assert kept is not None, "the space has members"
    return kept


def neighbours(members: Members, point: Sequence[int | None], distance: int) -> list[dict[str, SpaceValue]]:
    """The members that differ from a point in 1 to `distance` names: the fewest names first, then by the places of the
    values in their lists."""
    axes = members.axes
    lists = {axis.var: column_of(axis) for axis in axes}
    own = dict(zip((axis.var for axis in axes), point, strict=True))
    others = {var: [int(n) for n in column if int(n) != own[var]] for var, column in lists.items()}
    distance = min(distance, len(axes))
    subsets = [some for d in range(1, distance + 1) for some in itertools.combinations(lists, d)]
    parts: list[Columns] = []
    candidates = sum(prod(len(others[var]) for var in some) for some in subsets)
    if candidates > _MOST_CANDIDATES < members.count:
        raise CountError(f"a distance of {distance} has {candidates:,} candidates: restrict the space first")
    if candidates <= _MOST_CANDIDATES:
        for some in subsets:
            if any(own[var] not in lists[var] for var in lists if var not in some):
                continue
            grid = np.meshgrid(*(whole_numbers(others[var]) for var in some), indexing="ij")
            if not grid[0].size:
                continue
            columns = {var: np.full(grid[0].size, own[var], lists[var].dtype) for var in lists if var not in some}
            columns |= {var: values.ravel() for var, values in zip(some, grid, strict=True)}
            parts.append(_rows_of(columns, members.contain(columns)))
    else:
        for _, block in members.blocks():
            apart = _apart(block, own)
            parts.append(_rows_of(block, (apart >= 1) & (apart <= distance)))
    if not parts:
        return []
    columns = {var: np.concatenate([part[var] for part in parts]) for var in lists}
    order = NameOrder(lists)
    places = [order.places(axis.var, columns[axis.var]) for axis in axes]
    rows = np.lexsort([*reversed(places), _apart(columns, own)])
    return configurations(members, _rows_of(columns, rows))


def _rows_of(columns: Columns, rows: Array) -> Columns:
    return {var: column[rows] for var, column in columns.items()}


def _apart(columns: Columns, point: Mapping[Var, int | None]) -> Array:
    """In how many names each row differs from a point."""
    apart: Array = np.zeros(len(next(iter(columns.values()))), np.int64)
    for var, column in columns.items():
        number = point[var]
        apart += 1 if number is None else column != number
    return apart


def nearest(members: Members, point: Sequence[int | None]) -> dict[str, SpaceValue] | None:
    """The member that differs from a point in the fewest names; between equals that with the fewest steps along the
    sorted values, then the first in the order of the members. `None` of an empty space."""
    if members.is_empty:
        return None
    own = dict(zip((axis.var for axis in members.axes), point, strict=True))
    found: Columns = {}
    kinds = {axis.var: axis.kind for axis in members.axes}
    for factor in members.factors:
        least: tuple[int, int] | None = None
        for _, block in members.order.blocks([factor], SPACE_BLOCK):
            apart, steps = _apart(block, own), np.zeros(len(next(iter(block.values()))), np.int64)
            for var, column in block.items():
                number = own[var]
                if number is not None and kinds[var] is not LABELS:
                    values = np.sort(members.columns[var])
                    steps += np.abs(_half_steps(values, column) - _half_steps(values, whole_numbers([number])))
            row = int(np.lexsort([steps, apart])[0])
            rank = (int(apart[row]), int(steps[row]))
            if least is None or rank < least:
                least = rank
                found |= _rows_of(block, np.array([row]))
    return configurations(members, found)[0]


def _half_steps(values: Array, numbers: Array) -> Array:
    """Twice the places of numbers in sorted values; a missing value sits half a step between its two neighbours."""
    places: Array = np.searchsorted(values, numbers) + np.searchsorted(values, numbers, side="right")
    return places


def projected(members: Members, kept: Sequence[SpaceAxis]) -> list[ListedRows] | None:
    """For each factor with kept and dropped names, the rows of the kept names; `None` of an empty space.

    Raises
    ------
    CountError: the rows exceed the memory of the space.
    """
    if members.is_empty:
        return None
    own = {axis.var for axis in kept}
    found: list[ListedRows] = []
    for factor in members.factors:
        inside = own.intersection(factor.variables)
        if inside and len(inside) < len(factor.variables):
            rows = factor.distinct([axis.var for axis in kept if axis.var in inside])
            if rows is None:
                raise CountError(f"the projection takes more than memory={members.memory} bytes: restrict it first")
            found.append(ListedRows(rows))
        elif inside:
            found += [one for one in members.listed if set(factor.variables).issuperset(one.columns)]
    return found


def contradiction(members: Members) -> tuple[Cond, ...]:
    """Conditions without a member in common, none of them without need; `()` for a space with members.

    Propagation is asked first; else conditions are left out one after another as long as no member appears.
    """
    if not members.is_empty:
        return ()
    found = members.contradiction()
    return found or irredundant(
        members.conditions, lambda fewer: Members(members.axes, fewer, members.listed, members.memory).is_empty
    )

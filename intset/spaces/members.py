"""The members of a space: independent factors of names, each with its diagram; counted, listed and found by number.

Propagation to a fixed point drops values that no condition allows before anything is joined. A condition with few
candidates is evaluated on all of them, so every remaining value has a support. Of a larger one the linear tier refutes
values from both ends of a list.

Members in the order of the names: as nested loops over the values list them, the first name outermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from intset.context import Context
from intset.errors import CountError
from intset.expr import Cond, Range, Var, dag
from intset.expr.node import truth
from intset.spaces.axes import SPACE_BLOCK, SpaceAxis
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
        """Of each number of a column, its place among the values of a name."""
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
    """Conditions that are empty together, without those that are not needed for it."""
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

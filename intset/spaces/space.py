"""`Space`: finitely many configurations, the choices of values for names that fulfil conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from intset.budgets import SPACE_BLOCK, SPACE_MEMORY
from intset.errors import CountError, InputError
from intset.expr.arguments import as_count, refusal
from intset.expr.node import Cond
from intset.expr.printer import shown
from intset.spaces.axes import SpaceAxis, SpaceValue, read_axes
from intset.spaces.conditions import contains, read_conditions

if TYPE_CHECKING:
    from intset.spaces.members import ListedRows, Members

_LONGEST_LEN = (1 << 63) - 1
_SHOWN = 6  # names and conditions in a representation


class Space:
    """Finitely many configurations, as a set.

    Parameters
    ----------
    values: `{Var, ShapeVar or name: values}`, the values of a name all integers, all truth values or all strings.
    where: conditions, or one: expressions over the variables, or texts in Python's syntax over the names. A
        configuration at which a condition has no value is no member; `and`, `or` and `select` are lazy. Names of
        strings occur in no condition.
    memory: bytes that the members may take while they are listed; a larger space is streamed.

    Raises
    ------
    InputError: two variables of one name, no values, values of mixed types or outside what a `ShapeVar` declares, a
        condition that is none or mentions an unknown name or a name of strings.

    Guarantee: the members are exactly the configurations at which every condition has a value and is true, by
    arithmetic of integers without overflow. Their order is fixed: equal spaces list them alike.

    >>> tile, threads = Var("tile"), Var("threads")
    >>> space = Space({tile: [8, 16, 32], threads: [32, 64], "pad": [False, True]}, where=[tile * threads <= 1024])
    >>> space.count(), (16, 64, True) in space, (32, 64, True) in space
    (8, True, False)
    """

    def __init__(
        self,
        values: Mapping[Any, Iterable[Any]],
        where: Cond | str | Iterable[Cond | str] = (),
        memory: int = SPACE_MEMORY,
    ) -> None:
        axes = read_axes(values)
        self._fill(axes, read_conditions(axes, where), (), as_count(memory, "memory"))

    def _fill(
        self, axes: tuple[SpaceAxis, ...], conditions: tuple[Cond, ...], listed: tuple[ListedRows, ...], memory: int
    ) -> None:
        self._axes, self._conditions, self._listed, self._memory = axes, conditions, listed, memory

    def _like(self, axes: tuple[SpaceAxis, ...], conditions: Sequence[Cond], listed: tuple[ListedRows, ...]) -> Space:
        new = object.__new__(Space)
        new._fill(axes, tuple(dict.fromkeys(conditions)), listed, self._memory)
        return new

    def __reduce__(self) -> tuple[object, ...]:
        return (_restored, (self._axes, self._conditions, self._listed, self._memory))

    # -- what is stated ------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order in which they were given."""
        return tuple(axis.name for axis in self._axes)

    @property
    def where(self) -> tuple[Cond, ...]:
        """The conditions, conjunctions taken apart."""
        return self._conditions

    def __repr__(self) -> str:
        parts = [f"{axis.name}: {_values_text(axis.values)}" for axis in self._axes[:_SHOWN]]
        parts += ["…"] * (len(self._axes) > _SHOWN)
        conditions = [shown(cond) for cond in self._conditions[:_SHOWN]]
        conditions += ["…"] * (len(self._conditions) > _SHOWN)
        return f"<Space {', '.join(parts)}{' | ' if conditions else ''}{', '.join(conditions)}>"

    # -- membership and counting ---------------------------------------------------------------------------------------

    @cached_property
    def _members(self) -> Members:
        from intset.spaces.members import Members  # numpy, when a question needs it

        return Members(self._axes, self._conditions, self._listed, self._memory)

    def count(self) -> int:
        """The number of members, found without listing them where names are independent or can be forgotten."""
        return self._members.count

    def __len__(self) -> int:
        number = self.count()
        if number > _LONGEST_LEN:
            raise OverflowError(f"the space has {number} members, more than len() may say: use count()")
        return number

    def __bool__(self) -> bool:
        return not self._members.is_empty

    def __contains__(self, point: object) -> bool:
        numbers = self._numbers(self._point(point))
        if None in numbers:
            return False
        at = {axis.var: int(number or 0) for axis, number in zip(self._axes, numbers, strict=True)}
        if not all(axis.value(at[axis.var]) in axis.values for axis in self._axes):
            return False
        return contains(self._conditions, at) and all(one.has(at) for one in self._listed)

    def _point(self, point: object) -> tuple[Any, ...]:
        """The values of a configuration, in the order of the names."""
        if isinstance(point, Mapping):
            unknown = [name for name in point if name not in self.names and name not in {a.var for a in self._axes}]
            if unknown:
                raise InputError(f"{shown(unknown[0])} is no name of the space ({', '.join(self.names)})")
            row = []
            for axis in self._axes:
                if axis.name not in point and axis.var not in point:
                    raise InputError(f"the configuration gives no value for {axis.name}")
                row.append(point[axis.name] if axis.name in point else point[axis.var])
            return tuple(row)
        if isinstance(point, (str, bytes)) or not isinstance(point, Sequence):
            raise refusal("a configuration", "a tuple in the order of the names, or a dict by name", point)
        if len(point) != len(self._axes):
            raise InputError(
                f"a configuration has {len(self._axes)} values ({', '.join(self.names)}), not {len(point)}"
            )
        return tuple(point)

    def _numbers(self, point: Sequence[Any]) -> list[int | None]:
        return [axis.number(value) for axis, value in zip(self._axes, point, strict=True)]

    # -- listing -------------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[dict[str, SpaceValue]]:
        for size, block in self._members.blocks(SPACE_BLOCK >> 4):
            columns = [self._plain(axis, block[axis.var]).tolist() for axis in self._axes]
            assert all(len(column) == size for column in columns)
            names = self.names
            for row in zip(*columns, strict=True):
                yield dict(zip(names, row, strict=True))

    def columns(self) -> dict[str, Any]:
        """All members as numpy arrays, one a name: `int64` (`object` beyond), `bool`, or strings.

        Raises
        ------
        CountError: the arrays take more than `memory`.
        """
        import numpy as np

        self._refuse_too_many("columns()")
        blocks = [block for _, block in self._members.blocks(max(SPACE_BLOCK, self.count()))]
        found = {}
        for axis in self._axes:
            parts = [self._plain(axis, block[axis.var]) for block in blocks]
            found[axis.name] = (
                parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else self._plain(axis, np.zeros(0, int))
            )
        return found

    def _refuse_too_many(self, what: str) -> None:
        number = self.count()
        if number * 8 * len(self._axes) > max(self._memory, 1 << 20):
            raise CountError(
                f"{what} of {number} members takes more than memory={self._memory} bytes: restrict or sample the space"
            )

    def _plain(self, axis: SpaceAxis, numbers: Any) -> Any:
        """The values that the numbers of a column stand for, as an array."""
        import numpy as np

        if axis.kind == "strings":
            return np.array(axis.values)[numbers]
        if axis.kind == "truth values":
            return numbers.astype(bool)
        return numbers.astype(np.int64, copy=False) if numbers.dtype != object else numbers


def _restored(axes: tuple[SpaceAxis, ...], conditions: tuple[Cond, ...], listed: tuple[Any, ...], memory: int) -> Space:
    new = object.__new__(Space)
    new._fill(axes, conditions, listed, memory)
    return new


def _values_text(values: Sequence[SpaceValue]) -> str:
    if len(values) <= _SHOWN:
        return f"[{', '.join(map(repr, values))}]"
    return f"[{values[0]!r}, {values[1]!r}, …, {values[-1]!r}] ({len(values)})"

"""Questions about the members of a space that look at many at once: the best, the nearest, random ones, values."""

import itertools
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import prod

import numpy as np

from intset.context import Context
from intset.errors import CountError, InputError
from intset.expr import Cond, Expr, Range, Var, dag, ops
from intset.spaces.axes import LABELS, SPACE_BLOCK, TRUTHS, SpaceAxis, SpaceValue
from intset.spaces.diagram import Columns, ValueTable
from intset.spaces.members import Factor, ListedRows, Members, NameOrder, column_of, irredundant, whole_numbers
from intset.spaces.vectors import Array, ends_of, to_numpy

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
    """The rows of the kept names in each factor that also holds dropped names; `None` of an empty space.

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

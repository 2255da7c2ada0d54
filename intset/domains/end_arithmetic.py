"""Ends of sets: which of two is tighter, what is left of them and of conditions at given values, the sides of a box."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from intset.domains.ends import End, as_end
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.build import maximum, minimum
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_cond, as_expr
from intset.expr.text import shown
from intset.expr.walk import opaque_terms, substitute
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer

Pair = tuple[End, End]


class Sides:
    """The ends of each coordinate of an image alone, as `bounds` gives them: found when they are asked for.

    A region's box asks where the region itself has no better end.
    """

    def __init__(self, query: Query, bounds: Callable[[Query], Pair]) -> None:
        self._query, self._bounds = query, bounds
        self._found: dict[int, Pair] = {}

    def ends(self, k: int) -> Pair:
        """The ends of coordinate `k`."""
        found = self._found.get(k)
        if found is None:
            found = self._found[k] = self._ends(k)
        return found

    def _ends(self, k: int) -> Pair:
        low, high = self._bounds(self._query.of(self._query.exprs[k]))
        if self._query.alone:
            low2, high2 = self._bounds(self._query.alone[k])
            return larger(low, low2), smaller(high, high2)
        return low, high

    def within(self, k: int, ends: Pair) -> Pair:
        """The tighter of `ends` and those of coordinate `k` alone, on each side."""
        low, high = self.ends(k)
        return larger(ends[0], low), smaller(ends[1], high)

    def at(self, values: Mapping[Var, IntLike]) -> Sides:
        """The sides with parameters replaced."""
        return _Placed(self, values)

    @property
    def dims(self) -> int:
        return len(self._query.exprs)

    def __reduce__(self) -> tuple[object, ...]:
        return (_Fixed, ([self.ends(k) for k in range(self.dims)],))


class MetSides(Sides):
    """The tighter of what two say of each coordinate."""

    def __init__(self, first: Sides, second: Sides) -> None:
        self._both = first, second
        self._found = {}

    def _ends(self, k: int) -> Pair:
        return self._both[0].within(k, self._both[1].ends(k))

    @property
    def dims(self) -> int:
        return self._both[0].dims


class _Fixed(Sides):
    """Sides that are known already."""

    def __init__(self, pairs: list[Pair]) -> None:
        self._found = dict(enumerate(pairs))

    @property
    def dims(self) -> int:
        return len(self._found)


class _Placed(Sides):
    """Sides at given values of parameters."""

    def __init__(self, sides: Sides, values: Mapping[Var, IntLike]) -> None:
        self._sides, self._values = sides, dict(values)
        self._found = {}

    def _ends(self, k: int) -> Pair:
        low, high = (end_at(end, self._values) for end in self._sides.ends(k))
        return (POS_INF, NEG_INF) if low is None or high is None else (low, high)

    @property
    def dims(self) -> int:
        return self._sides.dims


def end_at(end: End, table: Mapping[Var, IntLike]) -> End | None:
    """An end with parameters replaced; `None` where it has no value: the set is empty there."""
    if isinstance(end, Infinity):
        return end
    found = substitute(end, table)
    if found.free_vars() or opaque_terms(found):
        plain = Normalizer({})
        return plain.regroup(plain.form(found)).expr()
    try:
        return as_end(evaluate(found))
    except EvaluationError:
        return None


def by_parameter(values: Mapping[Var, IntLike], params: Sequence[Var]) -> dict[Var, Expr]:
    """Values of parameters, which may be named where that says which one is meant.

    A variable that is no parameter is taken as it is: nothing depends on it.

    Raises
    ------
    InputError: a name that no parameter has, or several; a key that is no variable; no mapping, or no integer.
    """
    if not isinstance(values, Mapping):
        raise InputError(f"values are given as a mapping {{Var: value}}, not as {shown(values)}")
    table: dict[Var, Expr] = {}
    for key, value in values.items():
        named = [key] if isinstance(key, Var) else [v for v in params if v.name == key]
        if len(named) != 1:
            known = ", ".join(dict.fromkeys(v.name for v in params)) or "none"
            raise InputError(f"{shown(key)} does not say which parameter is meant; there are: {known}")
        if named[0] in table:
            raise InputError(f"{named[0].name} has two values")
        table[named[0]] = as_expr(value, f"the value of {named[0].name}")
    return table


def placed_conditions(conditions: Iterable[Cond], values: Mapping[Var, IntLike]) -> tuple[Cond, ...] | None:
    """Conditions at values of variables, without those that hold; `None` where one does not, or has no value."""
    left: dict[Cond, None] = {}
    for cond in conditions:
        moved = as_cond(substitute(cond, values))
        if moved.free_vars():
            left[moved] = None
            continue
        try:
            if not evaluate(moved):
                return None
        except EvaluationError:
            return None
        except InputError:  # it reads an element
            left[moved] = None
    return tuple(left)


def smaller(a: End, b: End) -> End:
    """The smaller of two ends."""
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is NEG_INF or b is POS_INF else b
    sign = _order(a, b)
    return minimum(a, b) if sign is None else a if sign <= 0 else b


def larger(a: End, b: End) -> End:
    """The larger of two ends."""
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is POS_INF or b is NEG_INF else b
    sign = _order(a, b)
    return maximum(a, b) if sign is None else a if sign >= 0 else b


def _order(a: Expr, b: Expr) -> int | None:
    """The sign of `a - b`, where one is known for all sizes: 0 may be given for either sign that includes it."""
    if a is b:
        return 0
    plain = Normalizer({})
    low, high = plain.bounds(plain.form(a - b))
    if low is not None and low >= 0:
        return 1
    return -1 if high is not None and high <= 0 else None

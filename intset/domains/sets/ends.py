"""The two ends of a set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from intset.check.bounds_certificate import BoundsCertificate
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.arguments import listed
from intset.expr.build import maximum, minimum
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, IntLike, Var, as_cond, as_expr, const
from intset.expr.text import shown
from intset.expr.walk import opaque_terms, substitute
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.linear.canonical import Normalizer

End = Expr | Infinity


class Asked(Protocol):
    """A question about bounds, of which nothing but what it needs is kept; it finds the certificate of its answer."""

    def certificate(self, answer: Bounds) -> BoundsCertificate: ...


class Bounds(tuple[End, End]):
    """The two ends of a set, `(low, high)`.

    `is_tight`: both are attained (for every value of the parameters at which the set is not empty). `notes`: what was
    given up, in words, when they are not known to be attained. `by`: the domain that answered. An empty set has the
    ends `(POS_INF, NEG_INF)`.
    """

    is_tight: bool
    notes: tuple[str, ...]
    by: str
    asked: Asked | None = None  # what they answer, when a context was asked

    def __new__(
        cls, low: End | int, high: End | int, is_tight: bool, by: str = "", notes: Sequence[str] = ()
    ) -> Bounds:
        self = super().__new__(cls, (as_end(low), as_end(high)))
        self.is_tight, self.by = is_tight, by
        self.notes = notes if type(notes) is tuple else listed(notes, "notes")
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (Bounds, (self[0], self[1], self.is_tight, self.by, self.notes), {"asked": self.asked})

    def answering(self, asked: Asked) -> Bounds:
        """These bounds as the answer to a question."""
        answer = self if self.asked is None else Bounds(self[0], self[1], self.is_tight, self.by, self.notes)
        answer.asked = asked
        return answer

    def certificate(self) -> BoundsCertificate:
        """Why the ends are the ends: certificates of both, and points at which they are attained.

        Raises
        ------
        InputError: no certificate was found within the budgets, or the bounds are not the answer of a context.
        """
        if self.asked is None:
            raise InputError("only bounds that a context answers with have a certificate")
        return self.asked.certificate(self)

    @property
    def is_empty(self) -> bool:
        return self[0] is POS_INF and self[1] is NEG_INF

    def ints(self) -> tuple[int, int]:
        """Both ends as Python integers.

        Raises
        ------
        InputError: an end is infinite or depends on a size, or the set is empty; the message names the end.
        """
        if self.is_empty:
            raise InputError("an empty set has no ends: its bounds are (POS_INF, NEG_INF)")
        low, high = (_number(end, side) for end, side in zip(self, ("lower", "upper"), strict=True))
        return low, high

    def __repr__(self) -> str:
        return f"({self[0]}, {self[1]})" + ("" if self.is_tight else " not known to be tight")


def _number(end: End, side: str) -> int:
    if isinstance(end, Infinity):
        raise InputError(f"the {side} end is {end}, not an integer")
    if free := end.free_vars():
        raise InputError(f"the {side} end {shown(end)} depends on {', '.join(v.name for v in free)}")
    return int(end)


def as_end(value: End | int) -> End:
    return value if isinstance(value, (Expr, Infinity)) else const(value)


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

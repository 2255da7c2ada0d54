"""Ends of sets: `Bounds`, substitution of parameters in ends and conditions, the tighter of two ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from intset.errors import EvaluationError, InputError
from intset.expr import Cond, Expr, IntLike, Var, arguments, as_cond, as_expr, const, constant_value, dag, shown
from intset.expr.build import evaluated, maximum, minimum, sum_of
from intset.expr.evaluate import evaluate
from intset.expr.node import NEG_INF, POS_INF, Infinity
from intset.expr.printer import Displayed
from intset.facts import shown_notes
from intset.installation import load_later

if TYPE_CHECKING:
    from intset.check.certificate import BoundsCertificate
    from intset.linear.canonical import bounds_of, unranged
else:
    load_later(globals(), {"intset.linear.canonical": ("bounds_of", "unranged")})

End = Expr | Infinity


class CertifiableQuestion(Protocol):
    """A question about bounds that can certify its answer."""

    def certificate(self, answer: Bounds) -> BoundsCertificate: ...


class Bounds(Displayed, tuple[End, End]):
    """The two ends of a set, `(low, high)`.

    Invariant: the ends of an empty set are `(POS_INF, NEG_INF)`.

    Attributes
    ----------
    is_tight: every nonempty instance of the set attains both ends.
    notes: the reasons for loose ends.
    by: the domain that answered.
    """

    is_tight: bool
    notes: tuple[str, ...]
    by: str
    asked: CertifiableQuestion | None = None  # set by the context that answered

    def __new__(
        cls, low: End | int, high: End | int, is_tight: bool, by: str = "", notes: Sequence[str] = ()
    ) -> Bounds:
        first = const(low) if type(low) is int else as_end(low)
        last = const(high) if type(high) is int else as_end(high)
        self = tuple.__new__(cls, (first, last))
        self.is_tight, self.by = is_tight, by
        self.notes = notes if type(notes) is tuple else arguments.listed(notes, "notes")
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return (Bounds, (self[0], self[1], self.is_tight, self.by, self.notes), {"asked": self.asked})

    def answering(self, asked: CertifiableQuestion, notes: tuple[str, ...] = ()) -> Bounds:
        """These bounds with the question attached, and further notes."""
        answer = self
        if notes or self.asked is not None:
            answer = Bounds(self[0], self[1], self.is_tight, self.by, (*self.notes, *notes))
        answer.asked = asked
        return answer

    def certificate(self) -> BoundsCertificate:
        """Certify both ends: a proof and an attaining witness for each.

        Raises
        ------
        InputError: no certificate within the budgets, or bounds that no context answered with.
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
        return (
            f"({self[0]}, {self[1]})"
            + ("" if self.is_tight is True else " not known to be tight")
            + shown_notes(self.notes)
        )


def _number(end: End, side: str) -> int:
    if isinstance(end, Infinity):
        raise InputError(f"the {side} end is {end}, not an integer")
    if free := end.free_vars():
        raise InputError(f"the {side} end {shown(end)} depends on {', '.join(v.name for v in free)}")
    return int(end)


def numeric_ends(low: int | None, high: int | None) -> tuple[int | Infinity, int | Infinity]:
    """The ends of a numeric interval; `None` is an infinite end."""
    return (NEG_INF if low is None else low, POS_INF if high is None else high)


def as_end(value: End | int) -> End:
    """An end as an expression or an infinity; one without variables is a constant."""
    return evaluated(value) if isinstance(value, Expr) else value if isinstance(value, Infinity) else const(value)


def as_number(count: int | Infinity | Expr) -> int | Infinity | Expr:
    """A count, as an `int` if it is constant."""
    number = constant_value(evaluated(count)) if isinstance(count, Expr) else None
    return count if number is None else number


def product_of_counts(counts: Iterable[int | Infinity | Expr]) -> int | Infinity | Expr:
    """The product of element counts; a factor 0 makes it 0."""
    total: int | Expr = 1
    is_finite = True
    for count in counts:
        if isinstance(count, int) and count == 0:
            return 0
        if isinstance(count, Infinity):
            is_finite = False
        else:
            total = count if isinstance(total, int) and total == 1 else total if count == 1 else total * count
    return as_number(total) if is_finite else POS_INF


def sum_of_counts(counts: Iterable[int | Expr]) -> int | Expr:
    """The sum of finite counts, in which the constants are one number."""
    terms = [as_expr(count) for count in counts]
    known = sum(constant_value(e) or 0 for e in terms)
    rest = [e for e in terms if constant_value(e) is None]
    return sum_of([*rest, known] if known else rest) if rest else known


def end_at(end: End, table: Mapping[Var, IntLike]) -> End | None:
    """Substitute parameters in an end; `None` if undefined, which means an empty set."""
    if isinstance(end, Infinity):
        return end
    found = dag.substitute(end, table)
    if found.free_vars() or dag.opaque_terms(found):
        plain = unranged()
        return plain.regroup(plain.form(found)).expr()
    try:
        return as_end(evaluate(found))
    except EvaluationError:
        return None


def by_parameter(values: Mapping[Var, IntLike], params: Sequence[Var]) -> dict[Var, Expr]:
    """Resolve the keys of a substitution, variables or names of parameters, to variables.

    Variables that are not parameters pass; nothing depends on them.

    Raises
    ------
    InputError: an unknown or ambiguous name, a key of another type, a value that is not an integer.
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
    """Substitute variables in conditions and drop the true ones; `None` if one is false or undefined."""
    left: dict[Cond, None] = {}
    for cond in conditions:
        moved = as_cond(dag.substitute(cond, values))
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
    """The smaller of two ends, a `min` expression if their order is unknown."""
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is NEG_INF or b is POS_INF else b
    sign = _order(a, b)
    return minimum(a, b) if sign is None else a if sign <= 0 else b


def larger(a: End, b: End) -> End:
    """The larger of two ends, a `max` expression if their order is unknown."""
    if isinstance(a, Infinity) or isinstance(b, Infinity):
        return a if a is POS_INF or b is NEG_INF else b
    sign = _order(a, b)
    return maximum(a, b) if sign is None else a if sign >= 0 else b


def _order(a: Expr, b: Expr) -> int | None:
    """-1 for a proved `a <= b`, 1 for a proved `a >= b`, 0 for identical ends, else `None`."""
    if a is b:
        return 0
    low, high = bounds_of(a - b)
    if low is not None and low >= 0:
        return 1
    return -1 if high is not None and high <= 0 else None

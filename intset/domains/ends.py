"""The two ends of a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from intset.check.bounds import BoundsCertificate
from intset.errors import InputError
from intset.expr.arguments import listed
from intset.expr.node import Expr, const
from intset.expr.text import shown
from intset.infinity import NEG_INF, POS_INF, Infinity

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

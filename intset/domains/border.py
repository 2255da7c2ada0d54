"""The border to domains from outside: what they return is looked at, what they raise is named.

Only the form of an answer can be checked here, not whether it contains the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

from intset.domains.base import Bounds, End, IntSet, Points
from intset.domains.query import Query
from intset.domains.region import Region
from intset.errors import BudgetError, DomainError
from intset.expr.node import Expr, constant_value
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.regions.shape import Shape

METHODS = ("bounds", "region", "everything", "points")  # what a domain may have besides `image`


class Guarded:
    """A domain from outside; it has those of the optional methods that the domain has.

    Every method answers as the domain does, or raises `DomainError`, which names the domain, the method and what came
    back; what the domain raised is the cause.
    """

    name: ClassVar[str] = ""

    def __init__(self, domain: Any, name: str) -> None:
        self.domain, self.name = domain, name  # type: ignore[misc]
        for method in METHODS:
            if getattr(domain, method, None) is not None:
                setattr(self, method, _METHODS[method].__get__(self))
        if hasattr(self, "points"):
            self.strength = getattr(domain, "strength", 0)

    def image(self, query: Query) -> IntSet:
        answer = self._asked("image", query)
        if not isinstance(answer, IntSet):
            self._refuse("image", answer, "an IntSet")
        self._check_claims("image", answer)
        ends = self._read("image", answer, answer.ends)
        if not isinstance(ends, tuple) or len(ends) != 2:
            self._refuse("image", answer, "an IntSet with two ends", f", whose ends are {_shown(ends)}")
        self._check_ends("image", answer, ends, query)
        return answer

    def _bounds(self, query: Query) -> Bounds:
        answer = self._asked("bounds", query)
        if not isinstance(answer, Bounds):
            self._refuse("bounds", answer, "a Bounds")
        self._check_claims("bounds", answer, ("is_tight",))
        self._check_ends("bounds", answer, answer, query)
        return answer

    def _region(self, query: Query) -> Region:
        answer = self._asked("region", query)
        if not isinstance(answer, Region):
            self._refuse("region", answer, "a Region")
        self._check_claims("region", answer, ("is_exact",))
        dims = self._read("region", answer, lambda: answer.dims)
        if dims != len(query.exprs):
            self._refuse("region", answer, f"a Region of {len(query.exprs)} dimensions", f", which has {dims!r}")
        return answer

    def _everything(self, dims: int) -> Shape:
        answer = self._asked("everything", dims)
        if not isinstance(answer, Shape):
            self._refuse("everything", answer, "a Shape")
        return answer

    def _points(self, query: Query) -> Points:
        answer = self._asked("points", query)
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Shape):
            self._refuse("points", answer, "a Shape with notes")
        if answer[0].dims != len(query.exprs):
            self._refuse("points", answer, f"a Shape of {len(query.exprs)} coordinates", f", with {answer[0].dims}")
        return Points(answer[0], tuple(answer[1]))

    def _asked(self, method: str, query: Any) -> Any:
        try:
            return getattr(self.domain, method)(query)
        except BudgetError:
            raise  # a refusal is an answer
        except Exception as error:
            raise DomainError(f"the domain {self.name!r}: {method} raised {_raised(error)}") from error

    def _read(self, method: str, answer: Any, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            found = (
                f"the domain {self.name!r}: {method} returned {type(answer).__name__}, which raised {_raised(error)}"
            )
            raise DomainError(found) from error

    def _check_claims(self, method: str, answer: Any, claims: Sequence[str] = ("is_tight", "is_exact")) -> None:
        for claim in claims:
            value = self._read(method, answer, lambda claim=claim: getattr(answer, claim))  # type: ignore[misc]
            if not isinstance(value, bool):
                self._refuse(method, answer, f"{claim} to be True or False", f", whose {claim} is {_shown(value)}")
        self._read(method, answer, lambda: (answer.by, tuple(answer.notes)))

    def _check_ends(self, method: str, answer: Any, ends: Sequence[End], query: Query) -> None:
        for end in ends:
            if not isinstance(end, (Expr, Infinity)):
                self._refuse(method, answer, "ends that are expressions or infinities", f", one is {_shown(end)}")
            if isinstance(end, Expr) and any(query.is_relaxed(v) for v in end.free_vars()):
                self._refuse(method, answer, "ends free of the variables that run", f", one is {_shown(end)}")
        if _cross(*ends) and tuple(ends) != (POS_INF, NEG_INF):
            self._refuse(method, answer, "a lower and an upper end", f", {_shown(ends[0])} and {_shown(ends[1])}")

    def _refuse(self, method: str, answer: Any, wanted: str, detail: str = "") -> NoReturn:
        found = type(answer).__name__ if detail else f"{_shown(answer)} of type {type(answer).__name__}"
        raise DomainError(f"the domain {self.name!r}: {method} must return {wanted}, not {found}{detail}")


_METHODS: dict[str, Callable[..., Any]] = {
    "bounds": Guarded._bounds,
    "region": Guarded._region,
    "everything": Guarded._everything,
    "points": Guarded._points,
}


def _cross(low: End, high: End) -> bool:
    if low is POS_INF or high is NEG_INF:
        return True
    first, last = (constant_value(end) if isinstance(end, Expr) else None for end in (low, high))
    return first is not None and last is not None and first > last


def _raised(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"


def _shown(value: Any) -> str:
    """One line about a foreign value, whose own `repr` may fail."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return " ".join(text.split())[:80]

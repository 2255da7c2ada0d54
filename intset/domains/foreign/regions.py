"""The border to domains from outside: what they return is looked at, what they raise is named.

Only the form of an answer can be checked here, not whether it contains the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NoReturn

from intset.domains.foreign.watched import SHAPES, Watch, error_in_a_line, raised, refused, shown_in_a_line
from intset.domains.protocols import Points
from intset.domains.query import Query
from intset.errors import BudgetError, DomainError
from intset.expr.node import Var
from intset.regions.shape import Shape


def made(domain: Any, name: object) -> Any:
    """The domain, where its class may be given."""
    if not isinstance(domain, type):
        return domain
    try:
        return domain()
    except Exception as error:
        raise raised(str(name), f"{domain.__name__}()", error) from error


class GuardedRegions:
    """The regions of a domain from outside; it has those of the methods that the domain has.

    Every method answers as the domain does, or raises `DomainError`, which names the domain, the method and what came
    back; what the domain raised is the cause.
    """

    name: str
    methods: ClassVar[dict[str, str]] = {"everything": "_everything", "points": "_points"}  # what a domain may have
    watch: ClassVar[Watch] = SHAPES  # over what it answers with

    def __init__(self, domain: Any, name: str) -> None:
        self.domain, self.name = domain, name  # a guard has the name of its domain
        for method, guarded in self.methods.items():
            if getattr(domain, method, None) is not None:
                setattr(self, method, getattr(self, guarded))
        if hasattr(self, "points"):
            self.strength = getattr(domain, "strength", 0)
        if isinstance(cost := getattr(domain, "cost", None), int):
            self.cost = cost

    def _everything(self, dims: int) -> Shape:
        answer = self._asked("everything", dims)
        if not isinstance(answer, Shape):
            self._refuse("everything", answer, "a Shape")
        self.watch.over(answer, self.name)
        return answer

    def _points(self, query: Query) -> Points:
        answer = self._asked("points", query)
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Shape):
            self._refuse("points", answer, "a Shape with notes")
        if answer[0].dims != len(query.exprs):
            self._refuse("points", answer, f"a Shape of {len(query.exprs)} coordinates", f", with {answer[0].dims}")
        self.watch.over(answer[0], self.name)
        self._check_variables("points", answer[0], answer[0].variables(), query)
        return Points(answer[0], tuple(answer[1]))

    def _asked(self, method: str, query: Any) -> Any:
        try:
            return getattr(self.domain, method)(query)
        except BudgetError:
            raise  # a refusal is an answer
        except Exception as error:
            raise raised(self.name, method, error) from error

    def _check_variables(self, method: str, answer: Any, found: Iterable[object], query: Query) -> None:
        """An answer speaks of what the question leaves open, and of nothing that it does not mention."""
        for v in found:
            if not isinstance(v, Var) or query.is_relaxed(v):
                self._refuse(method, answer, "an answer free of the variables that run", f", with {shown_in_a_line(v)}")
            if not query.mentions(v):
                self._refuse(method, answer, "an answer to the question", f", with {v.name}, which is not in it")

    def _read(self, method: str, answer: Any, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            what = f"{method} returned {type(answer).__name__}, which raised {error_in_a_line(error)}"
            raise DomainError(f"the domain {self.name!r}: {what}") from error

    def _refuse(self, method: str, answer: Any, wanted: str, detail: str = "") -> NoReturn:
        raise refused(self.name, method, answer, wanted, detail)

"""What a domain from outside answered with goes on being looked at: what methods of its shapes give, and raise.

An object keeps its identity and its class, with the methods that were written outside of this package replaced by ones
that look at their answers, and watch these in turn. Only their form can be checked, not whether they are right.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from intset.errors import BudgetError, CountError, DomainError, InputError, UndecidedError
from intset.expr.node import Cond, Expr, Var, constant_value
from intset.infinity import POS_INF, Infinity
from intset.regions.derived import PerInstance, Product
from intset.regions.shape import Shape

_PACKAGE: Final = __name__.partition(".")[0]
_REFUSALS: Final = (BudgetError, CountError, UndecidedError)  # answers, too


class Wanted(NamedTuple):
    """What a method must return: in words, and whether an answer of an object is that."""

    words: str
    fits: Callable[[Any, Any], bool]
    given: Callable[..., object] | None = None  # looks at what a user gave: what is raised here is the user's
    is_asked: bool = False  # an `InputError` of the method is the user's


Methods = Mapping[str, Wanted]


class Watch:
    """Watches over objects of some kinds.

    Parameters
    ----------
    kinds: for each kind of object its methods, with what they must return.
    parts: the objects in one of this package that may be from outside.
    """

    def __init__(self, kinds: Mapping[type, Methods], parts: Callable[[Any], Sequence[Any]] = lambda _: ()) -> None:
        self._kinds, self._parts = kinds, parts
        self._class: Callable[..., type] = cache(self._made)

    def over(self, answer: Any, name: str) -> None:
        """Look at what is asked of an answer, or of what it is made of, from now on, for the domain called `name`."""
        if isinstance(answer, (list, tuple)):
            for part in answer:
                self.over(part, name)
            return
        kind = next((kind for kind in self._kinds if isinstance(answer, kind)), None)
        of = type(answer)
        if kind is None or of.__dict__.get("_watched_for") == name:
            return
        for part in self._parts(answer):
            self.over(part, name)
        if "_watched_for" in of.__dict__:
            of = of.__mro__[1]
        if not _is_own(of):
            object.__setattr__(answer, "__class__", self._class(of, name, kind))

    def _made(self, of: Any, name: str, kind: type) -> type:
        """The class `of` with its own methods watched over."""
        body: dict[str, Any] = {"__slots__": (), "__module__": of.__module__, "__qualname__": of.__qualname__}
        body["_watched_for"] = name
        made: Any = type(of)(of.__name__, (of,), body)
        for method, wanted in self._kinds[kind].items():
            defined = next(base for base in of.__mro__ if method in base.__dict__ or base is object)
            if defined is object or _is_own(defined):
                continue
            kept = defined.__dict__[method]
            if isinstance(kept, property):
                asked = self._asked(made, name, method, wanted, True)
                setattr(made, method, property(asked, kept.fset, kept.fdel))
            elif callable(getattr(kind, method, None)):  # else it is a value, which was looked at on the way in
                setattr(made, method, self._asked(made, name, method, wanted, False))
        made.__reduce_ex__ = lambda self, protocol: _as_it_was(super(made, self).__reduce_ex__(protocol), made, of)
        return made  # type: ignore[no-any-return]  # a class

    def _asked(self, made: Any, name: str, method: str, wanted: Wanted, is_read: bool) -> Callable[..., Any]:
        def asked(self_: Any, *given: Any, **named: Any) -> Any:
            if wanted.given is not None:
                wanted.given(self_, *given, **named)
            try:
                found = getattr(super(made, self_), method)
                answer = found if is_read else found(*given, **named)
            except Exception as error:
                if isinstance(error, _REFUSALS) or (wanted.is_asked and isinstance(error, InputError)):
                    raise
                if isinstance(error, DomainError) and str(error).startswith(_of(name)):
                    raise  # named where it happened
                raise raised(name, f"{made.__name__}.{method}", error) from error
            if answer is not NotImplemented:
                try:
                    fits = wanted.fits(answer, self_)
                except Exception as error:
                    raise raised(name, f"{made.__name__}.{method}", error) from error
                if not fits:
                    raise refused(name, f"{made.__name__}.{method}", answer, wanted.words)
                self.over(answer, name)
            return answer

        return asked


def _of(name: str) -> str:
    return f"the domain {name!r}: "


def refused(name: str, method: str, answer: Any, wanted: str, detail: str = "") -> DomainError:
    """That an answer is none."""
    found = type(answer).__name__ if detail else f"{shown_in_a_line(answer)} of type {type(answer).__name__}"
    return DomainError(f"{_of(name)}{method} must return {wanted}, not {found}{detail}")


def raised(name: str, method: str, error: Exception) -> DomainError:
    """That there was no answer."""
    return DomainError(f"{_of(name)}{method} raised {error_in_a_line(error)}")


def error_in_a_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"


def shown_in_a_line(value: Any) -> str:
    """One line about a foreign value, whose own `repr` may fail."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return " ".join(text.split())[:80]


def _is_own(of: type) -> bool:
    return of.__module__.partition(".")[0] == _PACKAGE


def _as_it_was(reduced: Any, made: type, of: type) -> Any:
    """How an object is pickled: as one of its own class."""
    if not isinstance(reduced, tuple):
        return reduced
    make, given, *state = reduced
    make = {made: of, copyreg.__newobj__: _anew}.get(make, make)  # type: ignore[attr-defined]  # it is there
    return (make, tuple(of if part is made else part for part in given), *state)


def _anew(of: type, *given: Any) -> object:
    """What pickle does for objects whose class is the one named."""
    return of.__new__(of, *given)


# -- what methods return ----------------------------------------------------------------------------------------------


def is_end(answer: Any) -> bool:
    return isinstance(answer, (Expr, Infinity))


def is_number(answer: Any) -> bool:
    """Of elements."""
    if isinstance(answer, Expr):
        value = constant_value(answer)
        return value is None or value >= 0
    return answer is POS_INF or (type(answer) is int and answer >= 0)


def _is_point(answer: Any, shape: Any) -> bool:
    return isinstance(answer, tuple) and len(answer) == shape.dims and all(type(x) is int for x in answer)


def _all(kind: type) -> Callable[[Any, Any], bool]:
    return lambda answer, _: isinstance(answer, (list, tuple)) and all(isinstance(part, kind) for part in answer)


def of_kind(words: str, kind: type) -> Wanted:
    return Wanted(words, lambda answer, _: isinstance(answer, kind))


def maybe(wanted: Wanted) -> Wanted:
    return wanted._replace(
        words=f"{wanted.words} or None", fits=lambda answer, of: answer is None or wanted.fits(answer, of)
    )


TRUTH: Final = of_kind("True or False", bool)
TEXT: Final = of_kind("a text", str)
CONDITION: Final = of_kind("a condition", Cond)
VARIABLES: Final = Wanted("a tuple of variables", _all(Var))
COUNT: Final = Wanted("a number of elements: an int from 0, POS_INF or an Expr", lambda answer, _: is_number(answer))
COUNTS: Final = Wanted(
    "the counts per instance",
    lambda answer, _: isinstance(answer, PerInstance) and all(is_number(number) for number in answer),
)
SHAPE: Final = Wanted("a Shape", lambda answer, _: isinstance(answer, Shape) and type(answer.dims) is int)
SAME: Final = Wanted(
    "a Shape of as many coordinates", lambda answer, of: isinstance(answer, Shape) and answer.dims == of.dims
)
SHAPE_METHODS: Final[Methods] = {
    **dict.fromkeys(("union", "intersect", "subtract", "restricted", "united", "at", "within", "without"), SAME),
    **dict.fromkeys(("hull", "counted", "coalesced", "disjoint", "simplified", "lexmin", "lexmax"), SAME),
    **dict.fromkeys(("project", "everything", "where", "product_with", "box", "listing", "like"), SHAPE),
    **dict.fromkeys(("lifted", "fibred", "image", "preimage"), SHAPE),
    **dict.fromkeys(("is_empty", "attains", "is_limited", "includes", "has"), TRUTH),
    "condition": CONDITION,
    "end": Wanted("an expression or an infinity", lambda answer, _: is_end(answer)),
    "sides": Wanted(
        "two ends of each coordinate",
        lambda answer, of: len(answer) == of.dims and all(is_end(end) for low, high in answer for end in (low, high)),
    ),
    "describe": TEXT,
    "variables": VARIABLES,
    "atoms": Wanted("a tuple of expressions", _all(Expr)),
    "product": maybe(of_kind("a Product", Product)),
    "loops": maybe(Wanted("a list of Products", _all(Product))),
    "widest": maybe(of_kind("an expression", Expr)),
    "pieces": maybe(Wanted("a list of Shapes", _all(Shape))),
    "parts": Wanted("an int", lambda answer, _: type(answer) is int),
    "functions": Wanted(
        "a list of Shapes, each with its values", lambda answer, _: all(isinstance(on, Shape) for on, _ in answer)
    ),
    "sample": maybe(Wanted("a tuple of an int for each coordinate", _is_point)),
    "listed": Wanted(
        "a list of such points", lambda answer, of: isinstance(answer, list) and all(_is_point(x, of) for x in answer)
    ),
    "count": COUNT,
    "counts": COUNTS,
}
SHAPES: Final = Watch({Shape: SHAPE_METHODS})

"""Domains with regions, ranked by strength, and checks of the regions that a domain from outside answers with.

This half of the registry lies below sets and the prover, which ask the strongest domain with regions. A check concerns
the form of an answer; `intset.testing` checks whether the answer contains the truth.

The strongest domain decides the consistency of facts that share no variable with a question: contradictory facts empty
every image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar, Final, NoReturn

from intset.config import BUILT_IN, entry_points
from intset.domains.isl.presburger import Isl
from intset.domains.query import Deciding, Installable, Points, Query, Regions
from intset.domains.witness import box_of, facts_hold, tuples_of
from intset.errors import BudgetError, DomainError
from intset.expr import Cond, Node, Var
from intset.regions.shape import Shape
from intset.trace import skipped

_BUILT_IN: Final[Mapping[str, Regions]] = {engine.name: engine for engine in (Isl(),)}
registered: dict[str, GuardedRegions] = {}  # the domains registered by call
_chosen: list[Regions] = []  # cache of `strongest`, cleared by every registration


def enlist(name: str, domain: GuardedRegions | None) -> None:
    """Rank a domain registered by call; `None` removes the domain of this name."""
    registered.pop(name, None)
    if domain is not None:
        registered[name] = domain
    _chosen.clear()


def strongest() -> Regions:
    """The strongest domain with regions; registered domains win ties against built-in ones."""
    if not _chosen:
        outside = [plugin for point in entry_points() if (plugin := _plugin(point)) is not None]
        engines = [*outside, *(domain for domain in registered.values() if isinstance(domain, Regions))]
        engines += _BUILT_IN.values()
        if len(engines) > 1:  # the strength may load a library
            engines = [max(engines, key=lambda e: (not isinstance(e, Installable) or e.is_installed(), e.strength))]
        _chosen[:] = engines
    return _chosen[0]


def _plugin(point: metadata.EntryPoint) -> Regions | None:
    if point.name in BUILT_IN:
        return None
    try:
        plugin = GuardedRegions(load(point), point.name)
    except DomainError as error:  # a plugin that cannot be loaded
        skipped(point.name, str(error))
        return None
    return plugin if isinstance(plugin, Regions) else None


def load(point: metadata.EntryPoint) -> object:
    """Load the domain of an entry point; raises `DomainError`, which names the plugin."""
    try:
        return instantiated(point.load(), point.name)
    except DomainError:
        raise
    except (Exception, SystemExit) as error:
        shown = f"{type(error).__name__}: {error}".splitlines()[0]
        raise DomainError(f"the domain {point.name!r}: its plugin {point.value} cannot be loaded: {shown}") from error


def instantiated(domain: Any, name: object) -> Any:
    """Returns the domain; a class is instantiated without arguments.

    Raises
    ------
    DomainError: the constructor raised.
    """
    if not isinstance(domain, type):
        return domain
    try:
        return domain()
    except Exception as error:
        raise _raised(str(name), f"{domain.__name__}()", error) from error


# -- domains from outside ---------------------------------------------------------------------------------------------


def is_foreign(answer: object) -> bool:
    """Whether the class of an object is defined outside this package."""
    return type(answer).__module__.partition(".")[0] != __name__.partition(".")[0]


def in_one_line(value: object) -> str:
    """The first 80 characters of a foreign value, whose own `repr` may fail."""
    try:
        text = repr(value)
    except Exception:
        return f"a {type(value).__name__}"
    return " ".join(text.split())[:80]


def error_in_one_line(error: Exception) -> str:
    """The type of an error and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}{f': {lines[0]}' if lines else ''}"


class GuardedRegions:
    """A domain from outside, restricted to `everything` and `points`; it has those methods that the domain has.

    Guarantee: a method returns the domain's answer in the form its protocol asks for, or raises `DomainError`, which
    names the domain, the method and the answer; an exception of the domain is the cause. `BudgetError` passes.
    """

    name: str
    methods: ClassVar[dict[str, str]] = {"everything": "_everything", "points": "_points"}  # optional method: its check

    def __init__(self, domain: Any, name: str) -> None:
        self.domain, self.name = domain, name
        for method, check in self.methods.items():
            if getattr(domain, method, None) is not None:
                setattr(self, method, getattr(self, check))
        if hasattr(self, "points"):
            self.strength = getattr(domain, "strength", 0)
        if isinstance(cost := getattr(domain, "cost", None), int):
            self.cost = cost
        if isinstance(exact_on := getattr(domain, "exact_on", None), str):
            self.exact_on = exact_on

    def _everything(self, dims: int) -> Shape:
        answer = self._call("everything", dims)
        if not isinstance(answer, Shape):
            self._refuse("everything", answer, "a Shape")
        return answer

    def _points(self, query: Query) -> Points:
        answer = self._call("points", query)
        if not isinstance(answer, tuple) or len(answer) != 2 or not isinstance(answer[0], Shape):
            self._refuse("points", answer, "a Shape with notes")
        shape, notes = answer
        if shape.dims != len(query.exprs):
            self._refuse("points", answer, f"a Shape of {len(query.exprs)} coordinates", f", with {shape.dims}")
        self._check_variables("points", shape, self._read("points", shape, shape.variables), query)
        return Points(shape, tuple(notes))

    def _call(self, method: str, argument: Any) -> Any:
        try:
            return getattr(self.domain, method)(argument)
        except BudgetError:
            raise  # a refusal is an answer
        except Exception as error:
            raise _raised(self.name, method, error) from error

    def _check_variables(self, method: str, answer: Any, variables: Iterable[object], query: Query) -> None:
        """Refuse an answer over quantified variables, or over variables that the question does not mention."""
        for v in variables:
            if not isinstance(v, Var) or query.is_quantified(v):
                self._refuse(method, answer, "an answer free of quantified variables", f", with {in_one_line(v)}")
            if not query.mentions(v):
                self._refuse(method, answer, "an answer to the question", f", with {v.name}, which is not in it")

    def _read(self, method: str, answer: Any, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Exception as error:
            what = f"{method} returned {type(answer).__name__}, which raised {error_in_one_line(error)}"
            raise DomainError(f"the domain {self.name!r}: {what}") from error

    def _refuse(self, method: str, answer: Any, expected: str, detail: str = "") -> NoReturn:
        kind = type(answer).__name__
        got = kind if detail else f"{in_one_line(answer)} of type {kind}"
        raise DomainError(f"the domain {self.name!r}: {method} must return {expected}, not {got}{detail}")


def _raised(name: str, method: str, error: Exception) -> DomainError:
    return DomainError(f"the domain {name!r}: {method} raised {error_in_one_line(error)}")


def consistency(query: Query, facts: Sequence[Cond]) -> str:
    """Decide whether facts are satisfiable: "holds", "empty" or "unknown"; cached for the context."""
    if not facts:
        return "holds"
    engine = strongest()
    if isinstance(engine, Deciding):
        return engine.judge(query, facts)
    key = (engine.name, tuple(facts), query.keep, query.config.isl_operations, query.config.points)
    verdict = query.verdicts.get(key)
    if verdict is None:
        verdict = query.verdicts[key] = facts_hold(query, facts)
    return verdict


def is_touched(query: Query, roots: Iterable[Node]) -> bool:
    """Whether facts may restrict the variables of `roots`, or may be contradictory.

    Facts reach variables through ranges and other facts; the range of a kept variable counts as a fact.
    """
    if not query.facts and not query.kept_ties:
        return False
    relaxed, _, touching, leftover = query.split_relevant(tuple(roots))
    if touching or any(not own.isdisjoint(relaxed) for _, own in query.kept_ties):
        return True
    return consistency(query, leftover) != "holds"


def are_apart(query: Query, roots: Sequence[Node]) -> bool:
    """Whether the facts irrelevant to `roots` are proved satisfiable."""
    return not query.facts or consistency(query, query.split_relevant(roots)[3]) == "holds"


def values_of(query: Query, limit: int | None = None) -> list[tuple[int, ...]] | None:
    """The image by enumeration; `None` for a large or symbolic box, or undecided consistency of irrelevant facts."""
    leftover = query.split_relevant(query.exprs)[3] if query.facts else []
    if leftover and box_of(query, limit) is not None:
        state = consistency(query, leftover)
        if state != "holds":
            return [] if state == "empty" else None
    return tuples_of(query, limit)

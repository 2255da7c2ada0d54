"""A prover question, the basis it is asked under, and the answer as data.

`Basis`: ranges, facts, definedness conditions and budgets. `Decided`: status, tier and counterexample of an answer.
`ProofQuestion`: a goal in a scope, with the test that every tier applies to a proposed counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from intset.config import Config
from intset.domains.certified.witness import Point, complete, in_domain
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.dag import free_vars, opaque_terms, postorder
from intset.expr.evaluate import evaluate, some_may_be_long
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.range import Range
from intset.facts import Fact
from intset.frame import Frame

Status: TypeAlias = Literal["proved", "refuted", "unknown"]
PROVED: Final = "proved"
REFUTED: Final = "refuted"
UNKNOWN: Final = "unknown"


class Basis(NamedTuple):
    """The assumptions and budgets of a question.

    Attributes
    ----------
    ranges, facts: the context's.
    defined: definedness conditions of the goal beyond the facts.
    requires: the unproved definedness conditions, reported as side conditions.
    config: tiers and budgets.
    """

    ranges: Mapping[Var, Range] = {}
    facts: tuple[Fact, ...] = ()
    defined: tuple[Cond, ...] = ()
    requires: tuple[Cond, ...] = ()
    config: Config = Config()


NOTHING = Basis()


class Decided(NamedTuple):
    """An answer as data, with the fields of `Proof`.

    vacuous: the tier found the domain empty; tiers need not look.
    """

    status: Status
    by: str
    vacuous: bool = False
    counterexample: Mapping[Expr, int] | None = None
    reason: str = ""
    basis: Basis = NOTHING


class ProofQuestion:
    """A goal in a frame, in the forms that the tiers use: canonical condition, query, counterexample test."""

    def __init__(self, frame: Frame, goal: Cond, config: Config) -> None:
        self.frame, self.goal, self.config = frame, goal, config
        self.canonical = frame.known.cond(goal)
        self.query = Query((), frame.ranges, frame.conditions, (), frame.base, frame.known, config)
        self.query.verdicts = frame.verdicts
        self._probe: tuple[Query, list[Node]] | None = None

    @property
    def symbolic_ranges(self) -> list[Var]:
        """Variables with symbolic ranges, possibly empty; counterexamples assign them too."""
        return [var for var, limits in self.frame.ranges.items() if limits.ends is None]

    def refutes(self, point: Point) -> bool:
        """Whether the completed `point` lies in the domain and evaluates the goal to False."""
        if self._probe is None:
            self._probe = self._everything()
        probe, nodes = self._probe
        try:
            complete(probe, point)
            agree_on_loads((self.goal, *probe.facts), point)
            if some_may_be_long(nodes, {leaf: value.bit_length() for leaf, value in point.items()}):
                return False
            return in_domain(probe, point) and evaluate(self.goal, point) is False
        except (EvaluationError, InputError):
            return False

    def _everything(self) -> tuple[Query, list[Node]]:
        """The query over all variables of a counterexample, and the nodes to evaluate in postorder."""
        view = self.query
        everyone = (*_value_roots(self.goal), *view.ranges, *free_vars(*(fact.condition for fact in self.frame.facts)))
        probe = Query(everyone, view.ranges, view.facts, (), view.base, view.known, self.config)
        return probe, postorder((self.goal, *view.facts))


def agree_on_loads(roots: Sequence[Node], point: Point) -> None:
    """Make loads of one symbol with equal indices at `point` agree on the first value.

    Loads with undefined indices are skipped: lazy evaluation does not reach them, or the point lies outside the domain.
    """
    seen: dict[tuple[object, ...], int] = {}
    for term in opaque_terms(*roots):
        try:
            key = (term.data, *(evaluate(index, point) for index in term.args))
        except EvaluationError:
            continue
        point[term] = seen.setdefault(key, point[term])


def _value_roots(goal: Cond) -> tuple[Expr, ...]:
    """Integer operands of the goal's comparisons."""
    roots: dict[Expr, None] = {}
    stack = [goal]
    while stack:
        node = stack.pop()
        for arg in node.args:
            if isinstance(arg, Expr):
                roots[arg] = None
            else:
                stack.append(arg)
    return tuple(roots)

"""A prover question, the basis it is asked under, and the answer as data.

`Basis`: ranges, facts, definedness conditions and budgets. `Decided`: status, tier and counterexample of an answer.
`ProofQuestion`: a goal in a scope, with the test that every tier applies to a proposed counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from intset.config import Config
from intset.domains.certified.witness import Point, complete, in_domain
from intset.domains.query import Query
from intset.errors import EvaluationError, InputError
from intset.expr.evaluate import evaluate
from intset.expr.length import some_may_be_long
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.range import Range
from intset.expr.walk import free_vars, opaque_terms, postorder
from intset.facts import Fact
from intset.frame import Frame

PROVED, REFUTED, UNKNOWN = "proved", "refuted", "unknown"


class Basis(NamedTuple):
    """What a question was asked under.

    Attributes
    ----------
    ranges, facts: those of the context.
    defined: conditions under which the goal has a value, and that are not facts.
    requires: those of them that are side conditions of the answer.
    config: the budgets.
    """

    ranges: Mapping[Var, Range] = {}
    facts: tuple[Fact, ...] = ()
    defined: tuple[Cond, ...] = ()
    requires: tuple[Cond, ...] = ()
    config: Config = Config()


NOTHING = Basis()


class Decided(NamedTuple):
    """The answer to a question; the fields are those of `Proof`. A tier that proves a goal need not look for a point:
    `vacuous` says that none is known to exist."""

    status: str
    by: str
    vacuous: bool = False
    counterexample: Mapping[Expr, int] | None = None
    reason: str = ""
    basis: Basis = NOTHING


class ProofQuestion:
    """A goal in a frame: what the tiers work on."""

    def __init__(self, frame: Frame, goal: Cond, config: Config) -> None:
        self.frame, self.goal, self.config = frame, goal, config
        self.canonical = frame.known.cond(goal)
        self.query = Query((), frame.ranges, frame.conditions, (), frame.base, frame.known, config)
        self.query.verdicts = frame.verdicts
        self._probe: tuple[Query, list[Node]] | None = None

    @property
    def symbolic_ranges(self) -> list[Var]:
        """The variables whose ranges may be empty for some sizes: a counterexample has values for them, too."""
        return [var for var, limits in self.frame.ranges.items() if limits.ends is None]

    def refutes(self, point: Point) -> bool:
        """Whether `point`, completed, is a point of the domain at which the goal is defined and false."""
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
        """The question for all that a counterexample gives values, and what is evaluated there, in postorder."""
        view = self.query
        everyone = (*_value_roots(self.goal), *view.ranges, *free_vars(*(fact.condition for fact in self.frame.facts)))
        probe = Query(everyone, view.ranges, view.facts, (), view.base, view.known, self.config)
        return probe, postorder((self.goal, *view.facts))


def agree_on_loads(roots: Sequence[Node], point: Point) -> None:
    """Make loads of one symbol with equal indices at `point` have one value: the one that was chosen first.

    A load whose indices have no value is not reached, or the point is none of the domain.
    """
    seen: dict[tuple[object, ...], int] = {}
    for term in opaque_terms(*roots):
        try:
            key = (term.data, *(evaluate(index, point) for index in term.args))
        except EvaluationError:
            continue
        point[term] = seen.setdefault(key, point[term])


def _value_roots(goal: Cond) -> tuple[Expr, ...]:
    """The integer expressions that the goal compares."""
    found: dict[Expr, None] = {}
    stack = [goal]
    while stack:
        node = stack.pop()
        for arg in node.args:
            if isinstance(arg, Expr):
                found[arg] = None
            else:
                stack.append(arg)
    return tuple(found)

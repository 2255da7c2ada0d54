"""`Certificate`: a proof as data for the independent checker, and as sentences for readers; `check_certificate`.

linear  a Farkas combination for each way in which the goal could fail: multiples of premises whose sum is a negative
        constant although each premise is nonnegative (Schrijver, *Theory of Linear and Integer Programming*, section
        7.3; with products of premises, the Positivstellensatz of Krivine and Stengle), split by branch and bound if
        needed
bits    sums of rows over F2, the bits of equations among the facts, for each bit of what the goal compares
isl     the violating points as a set in isl's language, claimed to be empty
points  a box, all of whose points were evaluated
z3      the negated goal and the premises as SMT-LIB 2 text, claimed to be unsatisfiable
point   a point that refutes the goal
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from intset.check.bit_rows import check_bits
from intset.check.evidence import (
    Combination,
    Premise,
    WeightedProduct,
    check_linear,
    clip,
    combination_words,
    is_well_formed,
)
from intset.check.isl_text import check_isl
from intset.check.premises import CheckBudget, check_point, check_points
from intset.check.smt_text import check_z3
from intset.check.text import fields_of, text_of
from intset.errors import BudgetError, ParseError
from intset.expr.arguments import refusal
from intset.expr.definedness import asserted_parts
from intset.expr.node import Cond, Expr, Var
from intset.expr.printer import Displayed, number_text, to_text
from intset.expr.range import Range
from intset.facts import ASSERTED, Fact

if TYPE_CHECKING:
    from intset.check.premises import CheckBudget

__all__ = ["Certificate", "Combination", "Premise", "WeightedProduct"]


class StatedAssumptions(Protocol):
    """Ranges and facts that a certificate may use: a `Context`, or the part of one that a larger certificate states."""

    @property
    def ranges(self) -> Mapping[Var, Range]: ...

    @property
    def facts(self) -> tuple[Fact, ...]: ...


@dataclass(frozen=True, eq=False)
class Certificate(Displayed):
    """Evidence that `goal` is always true; for kind "point", that it fails; for vacuous claims, that no point exists.

    Guarantee: if `check()` accepts, the claim is true, whatever produced the certificate.

    Attributes
    ----------
    kind: "linear", "bits", "isl", "points", "z3", or "point" for a refuted goal.
    goal: the condition in question.
    vacuous: claim that facts and ranges exclude every point; the goal is ignored.
    facts, ranges: available premises.
    combinations: for kind "linear", one per failing case of the goal.
    text: for kinds "bits", "isl" and "z3".
    count: for kind "points", the number of points evaluated.
    point: for kind "point".
    """

    kind: str
    goal: Cond
    vacuous: bool = False
    facts: tuple[Fact, ...] = ()
    ranges: tuple[tuple[Var, Range], ...] = ()
    combinations: tuple[Combination, ...] = ()
    text: str = ""
    count: int = 0
    point: Mapping[Expr, int] = field(default_factory=dict)

    @property
    def terms(self) -> tuple[tuple[int, tuple[Premise, ...]], ...]:
        """For kind "linear": (multiplier, premises) of all cases in order."""
        leaves = (leaf for one in self.combinations for leaf in one.leaves())
        return tuple((term.factor, term.premises) for leaf in leaves for term in leaf.terms)

    def check(self, ctx: StatedAssumptions | None = None, budget: CheckBudget | None = None) -> bool:
        """Whether the checker accepts; with `ctx`, also whether the context states the ranges and facts.

        `budget` limits the steps; `budget.is_spent` tells exhaustion from rejection.
        """
        return check_certificate(self, ctx, budget)

    def to_text(self) -> str:
        """The certificate as one line of text, which `from_text` reads."""
        return text_of(self)

    @classmethod
    def from_text(cls, text: str) -> Certificate:
        """Parse a certificate.

        Raises
        ------
        ParseError: malformed text, or a variable whose uid belongs to a different variable here.
        """
        cert = cls(**fields_of(text))
        if not is_well_formed(cert):
            raise ParseError("the fields of the certificate do not fit its kind")
        return cert

    def __repr__(self) -> str:
        what = "nothing satisfies what is given" if self.vacuous else to_text(self.goal, limit=200)
        return f"<Certificate {'not always: ' if self.kind == 'point' else ''}{what} by {self.kind}>"

    def words(self) -> tuple[str, ...]:
        """The certificate in sentences."""
        if self.kind == "linear":
            if not self.combinations:
                return ("Nothing has to be shown: the condition is true as it stands.",)
            return tuple(line for one in self.combinations for line in combination_words(one))
        if self.kind == "bits":
            return ("Rows over F2, one for each bit, sum to what the goal compares:", f"  {clip(self.text)}")
        if self.kind == "isl":
            return ("isl finds that this set, the points where it would fail, is empty:", f"  {clip(self.text)}")
        if self.kind == "points":
            return (f"All {number_text(self.count)} points of the box were tried.",)
        if self.kind == "z3":
            size = self.text.count("(assert")
            return (f"z3 finds the negated condition and its facts unsatisfiable ({size} assertions in SMT-LIB 2).",)
        where = ", ".join(f"{e} = {number_text(k)}" for e, k in self.point.items())
        return (f"It fails at {where or 'the only point'}.",)

    def __str__(self) -> str:
        return "\n".join(self.words())


# -- checking ----------------------------------------------------------------------------------------------------------


_CHECKS: Mapping[str, Callable[[Certificate, CheckBudget], bool]] = {
    "linear": check_linear,
    "bits": check_bits,
    "isl": check_isl,
    "points": check_points,
    "z3": check_z3,
    "point": check_point,
}


def check_certificate(
    cert: Certificate, ctx: StatedAssumptions | None = None, budget: CheckBudget | None = None
) -> bool:
    """Check form, evidence and, with `ctx`, provenance of a certificate.

    A proof may use a subset of the context's facts and ranges. A refutation must state all of them: a point outside an
    omitted range refutes nothing. Checks that exceed the budget reject, with `budget.is_spent` set.
    """
    if not hasattr(cert, "combinations"):
        raise refusal("what is checked", "a Certificate", cert)
    checked_context(ctx)
    if not is_well_formed(cert):
        return False
    budget = CheckBudget() if budget is None else budget
    try:
        return (ctx is None or belongs(cert, ctx)) and _CHECKS[cert.kind](cert, budget)
    except BudgetError:
        budget.is_spent = True
        return False


def checked_context(ctx: object) -> None:
    """Raise InputError unless `ctx` is None or has ranges and facts."""
    if ctx is not None and not (hasattr(ctx, "ranges") and hasattr(ctx, "facts")):
        raise refusal("ctx", "a Context", ctx)


def belongs(cert: Certificate, ctx: StatedAssumptions) -> bool:
    """Whether the context states the certificate's ranges and facts, or the goal asserts the facts."""
    ranges, facts = ctx.ranges, set(ctx.facts)
    stated = tuple(fact.condition for fact in facts)
    evaluated = stated if cert.vacuous else (cert.goal, *stated)
    asserted = asserted_parts(evaluated)
    if not all(fact in facts or (fact.provenance == ASSERTED and fact.condition in asserted) for fact in cert.facts):
        return False
    if not all(ranges.get(var) == limits for var, limits in cert.ranges):
        return False
    return cert.kind != "point" or (facts <= set(cert.facts) and len(cert.ranges) == len(ranges))

"""`Certificate`: a proof as data that a small program can check, and as sentences that a reader can follow.

linear  for each way in which the goal could fail, numbers by which to multiply facts so that they add up to a negative
        constant that would have to be at least 0 (Farkas; with products of facts, Krivine and Stengle's theorem); where
        that needs it, for each side of a condition by itself (branch and bound)
isl     the violating points as a set in isl's language; the claim is that it is empty
points  a box all of whose points were tried
z3      the negated goal with its facts as SMT-LIB 2 text; the claim is that it is unsatisfiable
point   for a refuted goal: where it fails
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from intset.check.checker import check_certificate
from intset.check.evidence import Combination, Premise, Term, clip, combination_words
from intset.check.text import fields_of, text_of
from intset.check.wellformed import is_well_formed
from intset.errors import ParseError
from intset.expr.node import Cond, Expr, Var
from intset.expr.printer import to_text
from intset.expr.range import Range
from intset.expr.text import number_text
from intset.facts import Fact

if TYPE_CHECKING:
    from intset.check.budget import CheckBudget
    from intset.check.ends import Stated
    from intset.context import Context

__all__ = ["Certificate", "Combination", "Premise", "Term"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Why `goal` is always true (or, for a vacuous proof, why no point exists).

    `check()` verifies it by means that share nothing with how it was found; see `intset.check.checker`.

    Attributes
    ----------
    kind: "linear", "isl", "points", "z3", or "point" for a refuted goal.
    goal: what was asked.
    vacuous: the claim is that facts and ranges exclude every point; then the goal plays no part.
    facts: the facts that may be used.
    ranges: the ranges that may be used.
    combinations: of kind "linear": one for each way in which the goal could fail.
    text: of kinds "isl" and "z3".
    count: of kind "points": the number of points tried.
    point: of kind "point".
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
        """Of kind "linear": the (multiplier, premises) of all cases, one after another."""
        leaves = (leaf for one in self.combinations for leaf in one.leaves())
        return tuple((term.factor, term.premises) for leaf in leaves for term in leaf.terms)

    def check(self, ctx: Context | Stated | None = None, budget: CheckBudget | None = None) -> bool:
        """Whether the certificate is right; with `ctx`, also whether its ranges and facts are stated there.

        `budget` has the steps that may be spent on it, and says afterwards whether they were enough.
        """
        return check_certificate(self, ctx, budget)

    def to_text(self) -> str:
        """The certificate as one line of text, which `from_text` reads."""
        return text_of(self)

    @classmethod
    def from_text(cls, text: str) -> Certificate:
        """The certificate that a line of text is.

        Raises
        ------
        ParseError: it is none, or speaks of a variable that is another in this process.
        """
        found = cls(**fields_of(text))
        if not is_well_formed(found):
            raise ParseError("the fields of the certificate do not fit its kind")
        return found

    def __repr__(self) -> str:
        what = "nothing satisfies what is given" if self.vacuous else to_text(self.goal, limit=200)
        return f"<Certificate {'not always: ' if self.kind == 'point' else ''}{what} by {self.kind}>"

    def words(self) -> tuple[str, ...]:
        """The certificate in sentences."""
        if self.kind == "linear":
            if not self.combinations:
                return ("Nothing has to be shown: the condition is true as it stands.",)
            return tuple(line for one in self.combinations for line in combination_words(one))
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

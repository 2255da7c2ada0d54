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
from typing import NamedTuple

from intset.expr.node import Cond, Expr, Var
from intset.expr.printer import to_text
from intset.expr.range import Range
from intset.facts import Fact

GOAL, FACT, DEFINED, RANGE, DECLARED, MEANING, DIVISOR, SQUARE = (
    "the goal negated",
    "a fact",
    "where it has a value",
    "a range",
    "declared",
    "the meaning of the operation",
    "a divisor is positive",
    "a square",
)
_WHY = {MEANING: "by the meaning of the operation", SQUARE: "a square", DIVISOR: "a divisor that is not negative"}


class Premise(NamedTuple):
    """A comparison that holds, and why; `why` is one of the names above, and says how the checker verifies it."""

    why: str
    cond: Cond


class Term(NamedTuple):
    """`factor` times the product of the premises, each read as `something >= 0` (or `== 0`)."""

    factor: int
    premises: tuple[Premise, ...]


class Combination(NamedTuple):
    """Terms whose sum is a negative constant although each is at least 0: so the comparisons in `case` cannot hold.

    All monomials are integers, so a comparison whose coefficients have a common factor is divided by it, and its
    constant rounded.

    Attributes
    ----------
    case: one way in which the goal could fail, as comparisons that hold together.
    terms: what is added up.
    divisors: divisors that are shown not to be negative (so, where the goal has a value, positive), and how.
    on: in place of terms, a condition that holds or does not.
    branches: a combination for each way in which `on` holds or does not, whose case is this one and that way.
    """

    case: tuple[Cond, ...]
    terms: tuple[Term, ...]
    divisors: tuple[tuple[Expr, Combination], ...] = ()
    on: Cond | None = None
    branches: tuple[Combination, ...] = ()

    def leaves(self) -> tuple[Combination, ...]:
        """The combinations that have terms: itself, or those of the branches."""
        if self.on is None:
            return (self,)
        return tuple(leaf for branch in self.branches for leaf in branch.leaves())


@dataclass(frozen=True, eq=False)
class Certificate:
    """Why `goal` is always true (or, for a vacuous proof, why no point exists).

    `check()` verifies it by means that share nothing with how it was found; see `intset.prover.check`.

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

    def check(self) -> bool:
        """Whether the certificate is right."""
        from intset.prover.check import check_certificate

        return check_certificate(self)

    def words(self) -> tuple[str, ...]:
        """The certificate in sentences."""
        if self.kind == "linear":
            if not self.combinations:
                return ("Nothing has to be shown: the condition is true as it stands.",)
            return tuple(line for one in self.combinations for line in _combination_words(one))
        if self.kind == "isl":
            return ("isl finds that this set, the points where it would fail, is empty:", f"  {_clip(self.text)}")
        if self.kind == "points":
            return (f"All {self.count} points of the box were tried.",)
        if self.kind == "z3":
            size = self.text.count("(assert")
            return (f"z3 finds the negated condition and its facts unsatisfiable ({size} assertions in SMT-LIB 2).",)
        where = ", ".join(f"{e.name if isinstance(e, Var) else e} = {k}" for e, k in self.point.items())
        return (f"It fails at {where or 'the only point'}.",)

    def __str__(self) -> str:
        return "\n".join(self.words())


def _combination_words(one: Combination) -> list[str]:
    lines = []
    for divisor, shown in one.divisors:
        lines.append(f"The divisor {_clip(divisor)} is not negative:")
        lines += [f"  {line}" for line in _combination_words(shown)]
    if one.case:
        lines.append(f"Suppose that {' and '.join(_clip(cond) for cond in one.case)}.")
    if one.on is not None:
        lines.append(f"Either {_clip(one.on)} or not.")
        return [*lines, *(f"  {line}" for branch in one.branches for line in _combination_words(branch))]
    lines.append("Multiply and add, reading each comparison as a difference that is not negative:")
    for factor, premises in one.terms:
        product = " * ".join(f"[{_clip(premise.cond)}]" for premise in premises)
        why = ", ".join(dict.fromkeys(_WHY.get(premise.why, premise.why) for premise in premises))
        lines.append(f"  {factor} * {product}  ({why})")
    lines.append("The sum is a negative number: a contradiction.")
    return lines


def _clip(node: object) -> str:
    text = node if isinstance(node, str) else to_text(node, limit=300)  # type: ignore[arg-type]
    return text if len(text) <= 600 else text[:600] + " ..."

"""What a certificate of kind "linear" is made of: premises, products of them, and their combination."""

from __future__ import annotations

from typing import NamedTuple

from intset.expr.node import Cond, Expr, Node
from intset.expr.printer import to_text
from intset.expr.text import number_text

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
REASONS = (GOAL, FACT, DEFINED, RANGE, DECLARED, MEANING, DIVISOR, SQUARE)
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


def combination_words(one: Combination) -> list[str]:
    lines = []
    for divisor, shown in one.divisors:
        lines.append(f"The divisor {clip(divisor)} is not negative:")
        lines += [f"  {line}" for line in combination_words(shown)]
    if one.case:
        lines.append(f"Suppose that {' and '.join(clip(cond) for cond in one.case)}.")
    if one.on is not None:
        lines.append(f"Either {clip(one.on)} or not.")
        return [*lines, *(f"  {line}" for branch in one.branches for line in combination_words(branch))]
    lines.append("Multiply and add, reading each comparison as a difference that is not negative:")
    for factor, premises in one.terms:
        product = " * ".join(f"[{clip(premise.cond)}]" for premise in premises)
        why = ", ".join(dict.fromkeys(_WHY.get(premise.why, premise.why) for premise in premises))
        lines.append(f"  {number_text(factor)} * {product}  ({why})")
    lines.append("The sum is a negative number: a contradiction.")
    return lines


def clip(node: Node | str) -> str:
    text = node if isinstance(node, str) else to_text(node, limit=300)
    return text if len(text) <= 600 else text[:600] + " ..."

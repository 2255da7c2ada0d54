"""Facts: conditions with provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from intset.expr.node import Cond, Expr, IntLike

DECLARED = "declared"  # carried by a variable (ShapeVar, a range)
ASSERTED = "asserted"  # a runtime check stands behind it
ASSUMED = "assumed"  # the user's word
DERIVED = "derived"  # follows from loops, guards, other facts
PROVENANCES = (DECLARED, ASSERTED, ASSUMED, DERIVED)


@dataclass(frozen=True, slots=True)
class Fact:
    """An assumed condition and its provenance, one of `PROVENANCES`."""

    condition: Cond
    provenance: str = ASSUMED

    def substitute(self, replacements: Mapping[Expr, IntLike]) -> Fact:
        """The fact under a substitution; keeps its provenance."""
        condition: Cond = self.condition.substitute(replacements)
        return self if condition is self.condition else Fact(condition, self.provenance)

    def __repr__(self) -> str:
        return f"{self.provenance}: {self.condition}"

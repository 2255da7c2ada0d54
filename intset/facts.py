"""Facts: conditions with provenance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from intset.errors import InputError
from intset.expr.arguments import listed
from intset.expr.dag import conjuncts
from intset.expr.node import Cond, Expr, IntLike, as_cond
from intset.expr.printer import shown

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


def listed_conditions(conditions: Any) -> tuple[Any, ...]:
    """The conditions or facts of a list; a single one counts as a list of one."""
    return (conditions,) if isinstance(conditions, (Cond, Fact)) else listed(conditions, "conditions", "a list of them")


def facts_of(fact: Any, provenance: str) -> Iterator[Fact]:
    """The conjuncts of a condition as facts; a `Fact` keeps its own provenance."""
    if isinstance(fact, Fact):
        fact, provenance = fact.condition, fact.provenance
    if provenance not in PROVENANCES:
        raise InputError(f"provenance must be one of {', '.join(PROVENANCES)}, not {shown(provenance)}")
    for part in conjuncts(as_cond(fact, "a fact")):
        yield Fact(part, provenance)

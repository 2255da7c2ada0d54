"""Facts: conditions with provenance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intset.errors import InputError
from intset.expr.arguments import listed
from intset.expr.dag import conjuncts
from intset.expr.node import Cond, Expr, IntLike, Node, Var, as_cond
from intset.expr.printer import shown


class NamesakeNote(str):
    """A note on two variables of one name; texts of answers show it."""

    __slots__ = ()


def namesakes(roots: Sequence[Node], ranges: Collection[Var], facts: Sequence[Fact]) -> tuple[NamesakeNote, ...]:
    """Notes on free variables of `roots` whose names belong to other variables of the context."""
    free = [v for root in roots for v in root.free_vars() if v not in ranges]
    if not free:
        return ()
    stated = {*ranges, *(v for limits in facts for v in limits.condition.free_vars())}
    names = {v.name for v in stated}
    others = dict.fromkeys(v.name for v in free if v.name in names and v not in stated)
    return tuple([NamesakeNote(f"{x} is not the {x} of the context but another variable, free here") for x in others])


def shown_notes(notes: Iterable[str]) -> str:
    """The notes that the text of an answer shows."""
    return "".join([f", {note}" for note in notes if isinstance(note, NamesakeNote)])


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

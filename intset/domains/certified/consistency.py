"""Consistency of facts that share no variable with a question: contradictory facts empty every image."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from intset.domains.certified.enumeration import box_of, facts_hold, tuples_of
from intset.domains.query import Deciding, Query
from intset.domains.ranked import strongest
from intset.expr.node import Cond, Node


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

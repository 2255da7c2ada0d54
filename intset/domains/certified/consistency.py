"""Facts that share no variable with a question: whether they hold together, so that there is a point at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from intset.domains.certified.enumeration import box_of, facts_hold, tuples_of
from intset.domains.protocols import Deciding
from intset.domains.query import Query
from intset.domains.ranked import strongest
from intset.expr.node import Cond, Node


def consistency(query: Query, facts: Sequence[Cond]) -> str:
    """Whether facts hold together: "holds", "empty" or "unknown"; kept for other questions of the same context."""
    if not facts:
        return "holds"
    engine = strongest()
    if isinstance(engine, Deciding):
        return engine.judge(query, facts)
    key = (engine.name, tuple(facts), query.keep, query.config.isl_operations, query.config.points)
    found = query.verdicts.get(key)
    if found is None:
        found = query.verdicts[key] = facts_hold(query, facts)
    return found


def is_touched(query: Query, roots: Iterable[Node]) -> bool:
    """Whether a fact speaks of a variable of `roots`, directly or through ranges and other facts; or may, unseen,
    exclude every point. The range of a variable that is kept counts as a fact about those that it depends on."""
    if not query.facts and not query.kept_ties:
        return False
    relaxed, _, touching, leftover = query.split_relevant(tuple(roots))
    if touching or any(not own.isdisjoint(relaxed) for _, own in query.kept_ties):
        return True
    return consistency(query, leftover) != "holds"


def are_apart(query: Query, roots: Sequence[Node]) -> bool:
    """Whether the facts that share no variable with `roots`, to which a question comes down, leave it its points."""
    return not query.facts or consistency(query, query.split_relevant(roots)[3]) == "holds"


def values_of(query: Query, limit: int | None = None) -> list[tuple[int, ...]] | None:
    """All tuples of values that the expressions take, or `None` when the box is too large or symbolic."""
    leftover = query.split_relevant(query.exprs)[3] if query.facts else []
    if leftover and box_of(query, limit) is not None:
        state = consistency(query, leftover)
        if state != "holds":
            return [] if state == "empty" else None
    return tuples_of(query, limit)

"""The soundness suite: what every domain must pass, one made outside the package included."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator

from intset.context import Context
from intset.domains.sets.base import Bounds, IntSet, empty_set
from intset.errors import BudgetError, ContradictionWarning, CountError
from intset.expr.node import Expr, as_int
from intset.infinity import NEG_INF, POS_INF
from intset.names import check_name
from intset.testing.claims import claims
from intset.testing.questions import Question, question
from intset.testing.report import Report


def soundness(domain: str, count: int = 120, seed: int = 0) -> Report:
    """Put `count` random questions to a domain, by name, and hold each answer against enumeration; then put every kind
    of question to it about a quarter as many contexts whose ranges depend on one another (`intset.testing.claims`).

    An answer is wrong where it lacks a value, where an end called tight is not attained, where a set called exact has
    another element or another number of elements, where claims contradict one another (an empty set with a tight end,
    ends that differ between `bounds` and an exact set), and where it is not compared rightly with the empty set. The
    questions of a seed are the same on every machine.

    >>> soundness("interval", count=20).wrong
    []
    """
    report = Report(check_name(domain, "domain"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        for number in range(as_int(seed, "seed"), seed + as_int(count, "count")):
            q = question(number)
            report.tally["asked"] += 1
            ctx = Context(q.ranges, assume=q.conds, domain=domain)
            for fault in _faults(q, ctx.bounds(q.expr), ctx.value_set(q.expr), report.tally):
                report.wrong.append(f"question {number}, {fault}: {q.expr} where {q.conds}")
    held = claims(count // 4, seed, (domain,))
    report.wrong += held.wrong
    report.tally += held.tally
    return report


def _faults(q: Question, bounds: Bounds, found: IntSet, tally: Counter[str]) -> Iterator[str]:
    hull = (min(q.values), max(q.values)) if q.values else None
    yield from _faults_of_ends(hull, bounds, "bounds", tally)
    yield from _faults_of_ends(hull, Bounds(*found.ends(), found.is_tight), "ends of the set", Counter())
    try:
        missing = [value for value in q.values if value not in found]
        if missing:
            yield f"the set lacks {missing[0]}"
        if found.is_exact:
            tally["exact set"] += 1
            yield from _faults_of_exactness(q, found)
        nothing = empty_set(found.by)
        if not nothing <= found or (q.values and (found <= nothing or found == nothing)):
            yield "the set is ordered wrongly beside the empty set"
    except (BudgetError, CountError):
        tally["out of budget"] += 1


def _faults_of_ends(hull: tuple[int, int] | None, bounds: Bounds, name: str, tally: Counter[str]) -> Iterator[str]:
    low, high = (int(end) if isinstance(end, Expr) else end for end in bounds)
    if hull is None:
        tally["exact hull"] += bounds.is_empty
        if bounds.is_tight and not bounds.is_empty:
            yield f"{name} {bounds} are called tight, and there is no value"
        return
    tally["exact hull"] += (low, high) == hull
    if bounds.is_empty or (low is not NEG_INF and low > hull[0]) or (high is not POS_INF and high < hull[1]):
        yield f"{name} {bounds} lack a part of {hull}"
    elif bounds.is_tight and (low, high) != hull:
        yield f"{name} {bounds} are called tight, and the truth is {hull}"


def _faults_of_exactness(q: Question, found: IntSet) -> Iterator[str]:
    if found.is_empty is bool(q.values):
        yield "a set called exact is empty where the truth is not, or the other way round"
    number = found.count()
    if number != len(q.values):
        yield f"a set called exact has {number} elements instead of {len(q.values)}"
    extra = [v for v in {w + side for w in q.values for side in (-1, 1)} - q.values if v in found]
    if extra:
        yield f"a set called exact has {extra[0]}"

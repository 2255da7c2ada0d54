"""Scores of domains on a corpus: every answer is held against the truth, which is computed without the engine.

For an index with constant bounds the truth is the row's own `[min, max]`, and the value set found by enumeration
(`enumeration.py`). With sizes, the row is put to islpy directly (`reference.py`) at several concrete sizes. For a
condition the truth is the row's; every counterexample is evaluated. An answer is a *violation* when it excludes a true
value, or when it claims to be tight, exact, proved or refuted and is not.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from benchmarks.reference import Reference
from intset import Cond, Context, Expr, InputError, IntSet, IntSetError, Range, Var, evaluate
from intset.domains.sets.base import Bounds, ShapeSet
from intset.errors import EvaluationError
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import as_expr
from intset.expr.printer import shown
from lowering.cli.inputs import CorpusRow, Problem

if TYPE_CHECKING:
    from benchmarks.enumeration import Array
    from benchmarks.peers import Peer

T = TypeVar("T")

PROBES = 200  # integers tried for membership in a set that has no simple condition
SIZES = (1, 2, 3, 5, 8, 64, 97)  # a size takes these values in turn, each size of a row starting elsewhere

Track = Callable[[Iterable[T], int, str], Iterable[T]]


def untracked(items: Iterable[T], total: int, label: str) -> Iterable[T]:
    """No progress bar."""
    return items


@dataclass(slots=True)
class IndexScore:
    """One index expression, asked of one domain, at constant bounds."""

    row: int
    op: str
    expr: str
    low: str
    high: str
    truth: tuple[int, int] | None
    tight: bool
    ratio: (
        float | None
    )  # size of the answer's hull over that of the true one; None when unbounded or the truth is empty
    seconds: float
    set_exact: bool | None  # None: not found out
    set_seconds: float
    by: str
    notes: tuple[str, ...]
    violations: tuple[str, ...]

    @property
    def exact(self) -> bool:
        return self.ratio == 1 or (self.truth is None and self.low == "POS_INF")


@dataclass(slots=True)
class SizeScore:
    """One index expression over sizes, asked of one domain, and held against the truth at several sizes."""

    row: int
    op: str
    expr: str
    low: str
    high: str
    tight: bool  # claimed
    finite: bool
    samples: int
    attained: int  # samples at which both ends are the true ones
    seconds: float
    by: str
    violations: tuple[str, ...]


@dataclass(slots=True)
class PredicateScore:
    """One condition: what was found out about it and about its negation."""

    row: int
    op: str
    text: str
    truth: str | None
    found: str  # "true", "false", "both" or "unknown"
    by: tuple[str, str]
    seconds: float
    violations: tuple[str, ...]

    @property
    def decided(self) -> bool:
        return self.found != "unknown"


@dataclass(slots=True)
class DomainScore:
    """The sums for one domain."""

    domain: str
    index: list[IndexScore] = field(default_factory=list)
    sized: list[SizeScore] = field(default_factory=list)

    def _all(self) -> list[IndexScore | SizeScore]:
        return [*self.index, *self.sized]

    def violations(self) -> list[str]:
        return [f"row {s.row} ({s.op}), {s.expr}: {text}" for s in self._all() for text in s.violations]

    def summary(self) -> dict[str, object]:
        """The aggregates, as they are printed and written to JSON. Shares are fractions of 1; times are seconds."""
        ratios = [s.ratio for s in self.index if s.ratio is not None]
        times = [s.seconds for s in self._all()]
        return {
            "domain": self.domain,
            "expressions": len(self.index),
            "exact": _share(s.exact for s in self.index),
            "mean_ratio": fmean(ratios) if ratios else None,
            "unbounded": sum(s.ratio is None and not s.exact for s in self.index),
            "sets_exact": _share(s.set_exact for s in self.index if s.set_exact is not None),
            "sized_expressions": len(self.sized),
            "sized_finite": _share(s.finite for s in self.sized),
            "sized_tight": _share(s.finite and s.attained == s.samples for s in self.sized),
            "violations": len(self.violations()),
            "median_seconds": median(times) if times else None,
            "total_seconds": sum(times),
            "sets_median_seconds": median(s.set_seconds for s in self.index) if self.index else None,
        }

    def as_json(self) -> dict[str, object]:
        return self.summary() | {"index": [_plain(s) for s in self.index], "sized": [_plain(s) for s in self.sized]}


@dataclass(slots=True)
class Comparison:
    """A corpus under several domains, and its conditions under the prover."""

    domains: list[DomainScore]
    predicates: list[PredicateScore]
    bound_predicates: list[PredicateScore]
    peers: list[DomainScore] = field(default_factory=list)  # other analyzers; their wrong answers are theirs

    def violations(self) -> list[str]:
        found = [f"{d.domain}: {text}" for d in self.domains for text in d.violations()]
        for score in (*self.predicates, *self.bound_predicates):
            found += [f"prover: row {score.row} ({score.op}), {score.text}: {text}" for text in score.violations]
        return found

    def as_json(self) -> dict[str, object]:
        return {
            "domains": [d.as_json() for d in self.domains],
            **({"peers": [d.as_json() for d in self.peers]} if self.peers else {}),
            "predicates": predicate_summary(self.predicates) | {"rows": [_plain(s) for s in self.predicates]},
            "bound_predicates": predicate_summary(self.bound_predicates)
            | {"rows": [_plain(s) for s in self.bound_predicates]},
            "violations": self.violations(),
        }


def predicate_summary(scores: Sequence[PredicateScore]) -> dict[str, object]:
    """The aggregates of conditions."""
    return {
        "conditions": len(scores),
        "decided": _share(s.decided for s in scores),
        "violations": sum(len(s.violations) for s in scores),
        "median_seconds": median(s.seconds for s in scores) if scores else None,
        "total_seconds": sum(s.seconds for s in scores),
    }


def compare_rows(
    rows: Sequence[CorpusRow], domains: Sequence[str], track: Track[Problem] = untracked, peers: Iterable[Peer] = ()
) -> Comparison:
    """Ask every domain and peer about every index expression, and the prover about every condition."""
    from benchmarks.peers import peer_scores

    problems = [Problem(row) for row in rows]
    scores = []
    for domain in domains:
        score = DomainScore(domain)
        _warm_up(domain)
        for problem in track(problems, len(problems), f"domain {domain}"):
            if not problem.row.is_predicate:
                score_row(problem, score)
        scores.append(score)
    predicates: list[PredicateScore] = []
    bound_predicates: list[PredicateScore] = []
    for problem in track(problems, len(problems), "conditions"):
        if problem.row.is_predicate:
            predicates += score_predicates(problem)
        elif not problem.sizes:
            bound_predicates += score_bound_predicates(problem)
    by_peers = [DomainScore(peer.name, peer_scores(peer, track(problems, len(problems), peer.name))) for peer in peers]
    return Comparison(scores, predicates, bound_predicates, by_peers)


def ratio_of(low: int | None, high: int | None, truth: tuple[int, int] | None) -> float | None:
    if truth is None or low is None or high is None:
        return None
    return (high - low + 1) / (truth[1] - truth[0] + 1)


def score_row(problem: Problem, score: DomainScore) -> None:
    """Add the answers of `score.domain` on one row."""
    for k in range(len(problem.exprs)):
        if problem.sizes:
            score.sized.append(_score_sized(problem, k, score.domain))
        else:
            score.index.append(_score_index(problem, k, score.domain))


# -- index expressions --------------------------------------------------------------------------------------------


def elements_of(problem: Problem, k: int) -> Array | None:
    """The true values of expression `k`, sorted, by enumeration; `None` where the box is too large."""
    return _elements(problem.exprs[k], tuple(problem.ranges.items()), tuple(problem.conditions))


@functools.lru_cache(maxsize=64)  # each domain asks for the same elements
def _elements(expr: Expr, ranges: tuple[tuple[Var, Range], ...], conditions: tuple[Cond, ...]) -> Array | None:
    from benchmarks.enumeration import true_values

    return true_values(expr, dict(ranges), conditions)


def _score_index(problem: Problem, k: int, domain: str) -> IndexScore:
    row, expr = problem.row, problem.exprs[k]
    bounds, seconds = _timed(lambda: problem.context(domain).bounds(expr))
    values, set_seconds = _timed(lambda: problem.context(domain).value_set(expr))
    elements = elements_of(problem, k)
    truth = true_ends(problem, k, elements)
    low, high = numbers(bounds)
    found = list(_end_violations(low, high, truth, bounds))
    represented, contains = _against(values, truth, elements)
    if not contains:
        found.append("the value set lacks a true value")
    if values.is_exact and represented is False:
        found.append("the value set claims to be exact and is not")
    return IndexScore(
        row=row.number,
        op=row.op,
        expr=row.exprs[k],
        low=str(bounds[0]),
        high=str(bounds[1]),
        truth=truth,
        tight=bounds.is_tight,
        ratio=ratio_of(low, high, truth),
        seconds=seconds,
        set_exact=represented,
        set_seconds=set_seconds,
        by=bounds.by,
        notes=tuple(bounds.notes),
        violations=tuple(found),
    )


def true_ends(problem: Problem, k: int, elements: Array | None) -> tuple[int, int] | None:
    """The row's recorded ends, else what enumeration or islpy says; `None` when the set is empty."""
    row = problem.row
    recorded = _recorded(row.truth[k])
    if recorded is not None:
        return recorded
    if elements is not None:
        return (int(elements[0]), int(elements[-1])) if len(elements) else None
    return Reference.ends(Reference(row.variables, row.conditions).image(row.exprs[k]))


def _recorded(truth: object) -> tuple[int, int] | None:
    return (truth[0], truth[1]) if isinstance(truth, list) and all(type(t) is int for t in truth[:2]) else None


def numbers(bounds: Bounds) -> tuple[int | None, int | None]:
    """The two ends as integers; `None` for an end that is none."""
    low, high = (int(end) if isinstance(end, Expr) and end.is_const else None for end in bounds)
    return low, high


def _end_violations(low: int | None, high: int | None, truth: tuple[int, int] | None, bounds: Bounds) -> Iterator[str]:
    if truth is None:
        return
    if bounds.is_empty:
        yield f"claimed to be empty, but it is [{truth[0]}, {truth[1]}]"
        return
    if (low is not None and low > truth[0]) or (high is not None and high < truth[1]):
        yield f"[{bounds[0]}, {bounds[1]}] lacks a part of [{truth[0]}, {truth[1]}]"
    if bounds.is_tight and (low, high) != truth:
        yield f"[{bounds[0]}, {bounds[1]}] claims to be tight, but the truth is [{truth[0]}, {truth[1]}]"


def _against(values: IntSet, truth: tuple[int, int] | None, elements: Array | None) -> tuple[bool | None, bool]:
    """(represents exactly the true elements, has all of them); the former is `None` where that was not found out."""
    if truth is None or values.is_empty:
        return values.is_empty and truth is None, truth is None
    low, high = (int(end) if isinstance(end, Expr) and end.is_const else None for end in values.ends())
    if (low is not None and low > truth[0]) or (high is not None and high < truth[1]):
        return False, False
    same_ends = (low, high) == truth
    if elements is None:
        return (None if same_ends else False), True
    try:
        return _members_agree(values, truth, elements, same_ends)
    except IntSetError:
        return (None if same_ends else False), True


def _members_agree(
    values: IntSet, truth: tuple[int, int], elements: Array, same_ends: bool
) -> tuple[bool | None, bool]:
    from benchmarks.enumeration import represented

    if isinstance(values, ShapeSet):  # its conditions may be long, or have no form without quantifiers
        return _probed(values, truth, set(elements.tolist()), same_ends)
    members = represented(values, *truth)
    if members is None:
        return None, True
    return bool(same_ends and members.sum() == len(elements)), bool(members[elements - truth[0]].all())


def _probed(values: IntSet, truth: tuple[int, int], elements: set[int], same_ends: bool) -> tuple[bool, bool]:
    """As `_members_agree`, trying each integer of the hull, or `PROBES` of them drawn at random where it is larger."""
    window = range(truth[0], truth[1] + 1)
    probes = window if len(window) <= PROBES else random.Random(0).sample(window, PROBES)
    same, contains = same_ends, True
    for probe in probes:
        has = probe in values
        same &= has == (probe in elements)
        contains &= has or probe not in elements
    return same, contains


def _score_sized(problem: Problem, k: int, domain: str) -> SizeScore:
    row, expr = problem.row, problem.exprs[k]
    bounds, seconds = _timed(lambda: problem.context(domain).bounds(expr))
    low, high = bounds
    finite = isinstance(low, Expr) and isinstance(high, Expr)
    samples = attained = 0
    violations: list[str] = []
    for sizes in sample_sizes(row.params):
        truth = _truth_at(row, k, sizes)
        if truth is None:
            continue
        samples += 1
        at = {problem.env[name]: value for name, value in sizes.items()}
        first, last = (evaluate(end, at) if isinstance(end, Expr) else None for end in bounds)
        where = ", ".join(f"{name}={value}" for name, value in sizes.items())
        if bounds.is_empty or (first is not None and first > truth[0]) or (last is not None and last < truth[1]):
            violations.append(f"[{low}, {high}] lacks a part of [{truth[0]}, {truth[1]}] at {where}")
        elif (first, last) == truth:
            attained += 1
        elif bounds.is_tight:
            violations.append(f"[{low}, {high}] claims to be tight, but the truth is {truth} at {where}")
    return SizeScore(
        row=row.number,
        op=row.op,
        expr=row.exprs[k],
        low=str(low),
        high=str(high),
        tight=bounds.is_tight,
        finite=finite,
        samples=samples,
        attained=attained,
        seconds=seconds,
        by=bounds.by,
        violations=tuple(violations),
    )


def sample_sizes(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Concrete sizes to try: all equal once, then each size on its own walk through `SIZES`."""
    for k in range(len(SIZES)):
        yield {name: SIZES[(k + 3 * position) % len(SIZES)] for position, name in enumerate(names)}


def _truth_at(row: CorpusRow, k: int, sizes: Mapping[str, int]) -> tuple[int, int] | None:
    try:
        return Reference.ends(Reference(row.variables, row.conditions, sizes).image(row.exprs[k]))
    except InputError:
        return None  # beyond the oracle


# -- conditions ---------------------------------------------------------------------------------------------------


def score_predicates(problem: Problem) -> list[PredicateScore]:
    """The conditions of a row: proved, refuted, or both it and its negation refuted."""
    row = problem.row
    return [_score_condition(problem, row.exprs[k], goal, row.truth[k]) for k, goal in enumerate(problem.exprs)]


def score_bound_predicates(problem: Problem) -> list[PredicateScore]:
    """The recorded bounds as conditions: at least the minimum always, more than it not always; so at the maximum."""
    scores = []
    for k, expr in enumerate(problem.exprs):
        ends = _recorded(problem.row.truth[k])
        if ends is None:
            continue
        text = problem.row.exprs[k]
        low, high = ends
        always: list[tuple[str, Cond]] = [(f"{text} >= {low}", expr >= low), (f"{text} <= {high}", expr <= high)]
        scores += [_score_condition(problem, label, goal, "true", negated=False) for label, goal in always]
        beyond = [(f"{text} >= {low + 1}", expr >= low + 1), (f"{text} <= {high - 1}", expr <= high - 1)]
        scores += [_score_condition(problem, label, goal, "refuted", negated=False) for label, goal in beyond]
    return scores


def _score_condition(
    problem: Problem, text: str, goal: Cond, truth: str | None, negated: bool = True
) -> PredicateScore:
    """Ask for `goal`, and for its negation when that may matter; every counterexample is checked."""
    violations: list[str] = []
    start = perf_counter()
    ctx = problem.context()
    direct = ctx.prove(goal)
    opposite = ctx.prove(~goal) if negated and direct.status != "proved" else None
    seconds = perf_counter() - start
    for proof, asked in ((direct, goal), (opposite, ~goal)):
        if proof is None or proof.status != "refuted":
            continue
        point = proof.counterexample
        if point is None or not admits(problem, point) or evaluate(asked, point) is not False:
            violations.append(f"the counterexample {point} of {asked} is none")
    found = _verdict(direct.status, opposite.status if opposite is not None else None, negated)
    if found != "unknown" and truth is not None and found != truth:
        violations.append(f"found {found}, but the truth is {truth}")
    by = (direct.by, opposite.by if opposite is not None else "")
    return PredicateScore(problem.row.number, problem.row.op, text, truth, found, by, seconds, tuple(violations))


def admits(problem: Problem, point: Mapping[Any, int]) -> bool:
    """Whether `point` is a point of the row: variables in their ranges, sizes at least 1, conditions true.

    Variables that `point` leaves out, and conditions on such variables alone, play no role.
    """
    values: dict[Var, int] = {var: point[var] for var in problem.env.values() if var in point}
    values |= {size: 1 for size in problem.sizes if size not in values}
    if any(values[size] < 1 for size in problem.sizes):
        return False
    try:
        for var, limits in problem.ranges.items():
            low, extent = (evaluate(as_expr(end), values) for end in (limits.min, limits.extent))
            if extent < 1 or not low <= values.get(var, low) < low + extent:
                return False
        parts = [part for condition in problem.conditions for part in conjuncts(condition)]
        return all(evaluate(part, values) for part in parts if any(var in point for var in free_vars(part)))
    except (InputError, EvaluationError):
        return False


def _verdict(direct: str, opposite: str | None, negated: bool) -> str:
    if direct == "proved":
        return "true"
    if not negated:
        return direct
    if opposite == "proved":
        return "false"
    return "both" if direct == opposite == "refuted" else "unknown"


# -- helpers ------------------------------------------------------------------------------------------------------


def _timed(ask: Callable[[], T]) -> tuple[T, float]:
    start = perf_counter()
    answer = ask()
    return answer, perf_counter() - start


def _warm_up(domain: str) -> None:
    """Load what the domain imports, so that it is not counted as the cost of the first row."""
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 8), j: Range(0, 8)}, domain=domain)
    try:
        ctx.bounds((i * 4 + j) // 3 % 5)
        ctx.value_set((i * 4 + j) // 3 % 5)
    except IntSetError as error:
        raise InputError(f"the domain {shown(domain)} cannot answer: {error}") from error


def _share(flags: Iterable[bool]) -> float | None:
    listed = list(flags)
    return sum(listed) / len(listed) if listed else None


def _plain(score: IndexScore | SizeScore | PredicateScore) -> dict[str, object]:
    return asdict(score)

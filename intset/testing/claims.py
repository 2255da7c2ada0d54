"""Suites over random contexts: `claims` checks every kind of answer, `soundness` everything one domain must satisfy.

Besides the checks of single answers (`intset.testing.oracle`):

- order: sets compare correctly with empty sets of other domains and with themselves; joins and meets contain their
parts;
- consistency: bounds, set, proofs and counts of one expression agree, also for sizes beyond the enumerated window;
- scoping: facts of `assuming` blocks hold exactly while their block is open, in any order of exits;
- determinism: answers do not depend on earlier questions or their order.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from intset.config import using
from intset.context import Context
from intset.domains.sets.base import Bounds, IntSet, empty_set
from intset.errors import BudgetError, ContradictionWarning, CountError
from intset.expr.arguments import listed
from intset.expr.build import truncmod
from intset.expr.node import Cond, Expr, Var, as_int
from intset.expr.range import Range
from intset.infinity import NEG_INF, POS_INF
from intset.names import check_name
from intset.testing.contexts import Setting, setting
from intset.testing.oracle import FalseClaimError, Oracle, Report
from intset.testing.questions import Question, question

DOMAINS = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "points", "isl", "interval*isl")
HARD_RLIMIT = 60_000  # what z3 may spend on a question that is hard


def claims(count: int = 100, seed: int = 0, domains: Sequence[str] = (), thorough: bool = False) -> Report:
    """Put every kind of question to `count` random contexts, and hold each claim against enumeration.

    Parameters
    ----------
    count, seed: the contexts with the numbers `seed` to `seed + count - 1`, the same on every machine.
    domains: the domains to ask; by default each context asks one of `DOMAINS`, every second time `auto`.
    thorough: run all checks per domain, instead of bounds, set and one random check.

    The report's `wrong` names each false claim with its context.

    >>> claims(20, domains=["interval"]).wrong
    []
    """
    names = [check_name(name, "domains") for name in listed(domains, "domains", "a list of names")]
    report = Report(", ".join(names) or "any")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        for number in range(as_int(seed, "seed"), seed + as_int(count, "count")):
            drawn = setting(number)
            if drawn is None:
                report.tally["too large"] += 1
                continue
            report.tally["contexts"] += 1
            report.tally["with points"] += bool(drawn.points)
            try:
                _ask(drawn, names, thorough, report.tally)
            except FalseClaimError as false:
                report.wrong.append(str(false))
            except Exception as error:  # domains must never raise
                report.wrong.append(f"raises {type(error).__name__}: {error} in {drawn.text()}")
    return report


def _ask(drawn: Setting, domains: Sequence[str], thorough: bool, tally: Counter[str]) -> None:
    rng = random.Random(-1 - drawn.number)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ContradictionWarning)
        oracle = Oracle(drawn, Context(drawn.ranges, assume=drawn.facts), tally, rng)
    oracle.require(not (warned and drawn.points), "a contradiction where there is none")
    for domain in domains or (rng.choice(("auto", rng.choice(DOMAINS))),):
        bounds, answer = oracle.bounds(drawn.exprs[0], domain), oracle.values(drawn.exprs[0], domain)
        parts: tuple[Callable[[], None], ...] = (
            lambda: oracle.region(domain),  # noqa: B023  # called before the loop goes on
            oracle.goals,
            lambda: ordered(oracle, answer, domain),  # noqa: B023
            lambda: together(oracle, bounds, answer),  # noqa: B023
            lambda: blocks(oracle, domain),  # noqa: B023
            lambda: again(oracle, bounds, answer, domain),  # noqa: B023
        )
        for part in parts if thorough else rng.choices(parts, (4, 4, 3, 3, 3, 1)):
            part()


# -- claims about claims -----------------------------------------------------------------------------------------------


def ordered(oracle: Oracle, found: IntSet, domain: str) -> None:
    """The set beside empty sets, itself, and the set that another domain gives."""
    setting, e = oracle.setting, oracle.setting.exprs[0]
    truth = oracle.truth(e)
    other = oracle.ctx.value_set(e, keep=setting.keep, domain=oracle.rng.choice(DOMAINS))
    nowhere = Var("nowhere")
    try:
        for nothing in (empty_set(domain), Context({nowhere: Range(0, 0)}, domain=other.by).value_set(nowhere)):
            oracle.require(nothing <= found and nothing.is_empty, "lacks the empty set", found)
            oracle.require(not truth or not (found <= nothing or found == nothing), "is called empty", found)
            oracle.require(not found.is_empty or (found <= nothing and found == nothing), "is not empty", found)
        oracle.require(found <= found and found == found and not found < found, "is not itself", found)
        if truth and found.is_exact and not setting.params:
            oracle.require(not other < found, "is smaller than what is exact", other, found)
        joined, met = found | other, found & other
    except BudgetError:
        oracle.tally["out of budget"] += 1
        return
    for params, taken in oracle.some(truth):
        env = setting.env(params)
        for s in (joined, met):
            is_exact = found.is_exact and other.is_exact
            oracle.members(s.at(env), taken, ("of", found, "and", other, s, env), claims=is_exact)
    oracle.tally["ordered"] += 1


def together(oracle: Oracle, bounds: Bounds, found: IntSet) -> None:
    """Bounds, set and proofs about one expression."""
    e, ctx, what = oracle.setting.exprs[0], oracle.ctx, (bounds, found)
    for end, inside, strictly in ((bounds[0], e.__ge__, e.__gt__), (bounds[1], e.__le__, e.__lt__)):
        if not isinstance(end, Expr):
            continue
        oracle.require(ctx.prove(inside(end)).status != "refuted", "refuted:", inside(end), *what)
        beyond = ctx.prove(strictly(end))
        is_nowhere = beyond.vacuous or bool(ctx.prove(e.ne(e)))
        oracle.require(not (beyond and bounds.is_tight) or is_nowhere, "proved:", strictly(end), *what)
    if bounds.is_empty or found.is_empty:
        oracle.require(ctx.prove(e.ne(e)).status != "refuted", "refuted, and there is no value", *what)
    if found.is_exact and not oracle.setting.params and not found.params and not found.is_empty:
        _elements_and_proofs(oracle, found)
    oracle.tally["together"] += 1


def _elements_and_proofs(oracle: Oracle, found: IntSet) -> None:
    e = oracle.setting.exprs[0]
    low, high = found.ends()
    for value in {oracle.rng.randint(int(low) - 1, int(high) + 1) for _ in range(3)} if isinstance(low, Expr) else ():
        proof = oracle.ctx.prove(e.ne(value))
        oracle.require(proof.status != ("proved" if value in found else "refuted"), proof, found)


def blocks(oracle: Oracle, domain: str) -> None:
    """Two blocks of facts that overlap, ended in either order."""
    setting, ctx, e = oracle.setting, oracle.ctx, oracle.setting.exprs[0]
    conditions = [setting.goals[0], setting.goals[1] | setting.goals[0]]
    in_force: list[Cond] = []
    entered = [(cond, ctx.assuming(cond)) for cond in conditions]
    for cond, block in entered:
        block.__enter__()
        in_force.append(cond)
        _under(oracle, in_force, e, domain)
    oracle.rng.shuffle(entered)
    for cond, block in entered:
        block.__exit__(None, None, None)
        in_force.remove(cond)
        _under(oracle, in_force, e, domain)
    oracle.require([fact.condition for fact in ctx.facts] == [f.condition for f in Context(assume=setting.facts).facts])
    oracle.tally["blocks"] += 1


def _under(oracle: Oracle, conditions: Sequence[Cond], e: Expr, domain: str) -> None:
    narrowed = Oracle(oracle.setting.under(*conditions), oracle.ctx, oracle.tally, oracle.rng)
    bounds = narrowed.bounds(e, domain)
    facts = [*oracle.setting.facts, *conditions]
    alone = Context(oracle.setting.ranges, assume=facts).bounds(e, keep=oracle.setting.keep, domain=domain)
    narrowed.require(str(bounds) == str(alone), "another answer than", alone, bounds)
    narrowed.goal(oracle.setting.goals[-1])


def again(oracle: Oracle, bounds: Bounds, found: IntSet, domain: str) -> None:
    """Repeat the questions in a copy of the context, in reverse order, after a hard question; answers must agree."""
    new = setting(oracle.setting.number)
    assert new is not None
    ctx, e = Context(new.ranges, assume=new.facts), new.exprs[0]
    with using(z3_rlimit=HARD_RLIMIT):
        x, y = Var("x"), Var("y")
        ctx.prove(truncmod(y * x * 32 * x * (y + e), x * y).eq(0))
    for first, second in zip(reversed(oracle.setting.goals), reversed(new.goals), strict=True):
        before, after = oracle.ctx.prove(first), ctx.prove(second)
        oracle.require(repr(before) == repr(after), "asked again", before, after)
    found_again = ctx.value_set(e, keep=new.keep, domain=domain)
    oracle.require(_claimed(found) == _claimed(found_again), "asked again", found, found_again)
    bounds_again = ctx.bounds(e, keep=new.keep, domain=domain)
    oracle.require((repr(bounds), bounds.notes) == (repr(bounds_again), bounds_again.notes), bounds, bounds_again)
    oracle.tally["again"] += 1


def _claimed(s: IntSet) -> tuple[object, ...]:
    """What a set says, without its variables; isl may write the same elements in another way."""
    return str(s.ends()), s.is_exact, s.is_tight, s.is_empty, s.by, s.notes


# -- soundness of one domain -------------------------------------------------------------------------------------------


def soundness(domain: str, count: int = 120, seed: int = 0) -> Report:
    """Check one domain, by name: `count` random questions over boxes, and a quarter as many contexts (`claims`).

    An answer is wrong if it lacks a true value; if an end called tight is not attained; if a set called exact differs
    from the truth in an element or in its count; if claims contradict one another (an empty set with a tight end,
    bounds other than the ends of an exact set); or if it compares wrongly with the empty set. Equal seeds give equal
    questions on every machine.

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
    oracle = claims(count // 4, seed, (domain,))
    report.wrong += oracle.wrong
    report.tally += oracle.tally
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

"""Suites over random questions: `claims` checks every kind of answer, `soundness` everything one domain must satisfy.

`sweep` puts the same questions to several domains, and lists hulls of `auto` that are not exact.

Besides the checks of single answers:

- order: sets compare correctly with empty sets of other domains and with themselves; joins and meets contain their
parts;
- consistency: bounds, set, proofs and counts of one expression agree, also for sizes beyond the enumerated window;
- scoping: facts of `assuming` blocks hold exactly while their block is open, in any order of exits;
- determinism: answers do not depend on earlier questions or their order.

Answers about a random setting are held against its enumerated points:

- An answer contains every true value. An exact answer contains nothing else, wherever a true value exists.
- Tight ends are attained; an empty set is empty; a count equals the number of elements; box sides are no wider than
  coordinate bounds.
- All of this survives `at`, in whatever order parameters are substituted; sizes without points leave an empty answer.
- A proved condition holds at every point and is vacuous only without points. A refuted condition fails at its
  counterexample, a point of all ranges and facts.
"""

import functools
import itertools
import random
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from intset.config import Config, check_name, current, using
from intset.context import Context
from intset.domains.sets.base import Bounds, End, IntSet, as_end, empty_set
from intset.domains.sets.region import Region
from intset.errors import BudgetError, ContradictionWarning, CountError, EvaluationError, UndecidedError
from intset.expr import NEG_INF, POS_INF, Cond, Expr, Infinity, Range, Var, arguments, dag
from intset.expr.build import truncmod
from intset.expr.evaluate import compiled, evaluate, value_or_none
from intset.expr.node import as_int
from intset.testing.contexts import Point, Setting, cases, question, setting

MEMBERS = 40  # points of a region that are tried
PLACES = 3  # values of the parameters at which a set is tried
WIDE = 60  # beyond this width only the elements themselves are tried, not what lies between

Truth = Mapping[Point, set[int]]
What = tuple[object, ...]


ELEMENT = Var("element")


@functools.lru_cache(512)
def _function(inside: Cond) -> Callable[[int], bool]:
    """A condition of `ELEMENT` as a function of its value: sets of few kinds are held against many settings."""
    return compiled(inside, [ELEMENT])


class FalseClaimError(AssertionError):
    """A claim that the points of a setting contradict."""


class Oracle:
    """Questions about one setting to one context; a false answer raises `FalseClaimError`, which names it."""

    def __init__(self, setting: Setting, ctx: Context, tally: Counter[str], rng: random.Random) -> None:
        self.setting, self.ctx, self.tally, self.rng = setting, ctx, tally, rng

    def require(self, holds: object, *what: object) -> None:
        if not holds:
            raise FalseClaimError(" ".join(map(str, (*what, "in", self.setting.text()))))

    def truth(self, e: Expr) -> dict[Point, set[int]]:
        """The values of `e` at each value of the parameters."""
        return {params: {value for (value,) in taken} for params, taken in self.setting.values(e).items()}

    # -- ends and sets ------------------------------------------------------------------------------------------------

    def bounds(self, e: Expr, domain: str | None) -> Bounds:
        """The bounds of `e`, which hold."""
        answer = self.ctx.bounds(e, keep=self.setting.keep, domain=domain)
        self.ends(answer, answer.is_tight, answer.is_empty, self.truth(e), (domain, "bounds", answer))
        return answer

    def ends(self, ends: tuple[End, End], is_tight: bool, is_empty: bool, truth: Truth, what: What) -> None:
        self.require(not (is_empty and truth), "not empty", *what)
        self.tally["tight"] += is_tight and bool(truth)
        for params, taken in truth.items():
            env = self.setting.env(params)
            low, high = (self.at(end, env) for end in ends)
            self._around((low, high), is_tight, taken, (*what, env))

    def _around(self, ends: tuple[Any, Any], is_tight: bool, taken: set[int], what: What) -> None:
        (low, high), least, most = ends, min(taken), max(taken)
        self.require(low is NEG_INF or low <= least, "too high", *what, sorted(taken))
        self.require(high is POS_INF or high >= most, "too low", *what, sorted(taken))
        self.require(not is_tight or (low, high) == (least, most), "not tight", *what, sorted(taken))

    def at(self, end: End, env: Mapping[Any, int]) -> int | Infinity:
        """The value of an end; an end has one wherever there is a true value."""
        try:
            return end if isinstance(end, Infinity) else evaluate(end, env)
        except EvaluationError as error:
            raise FalseClaimError(f"no value: {end} {env} ({error}) in {self.setting.text()}") from None

    def values(self, e: Expr, domain: str | None) -> IntSet:
        """The set of values of `e`, which holds."""
        answer, truth = self.ctx.value_set(e, keep=self.setting.keep, domain=domain), self.truth(e)
        what = (domain, "set", answer)
        self.require(set(answer.params) <= set(self.setting.params), "other parameters", answer.params, *what)
        self.ends(answer.ends(), answer.is_tight, answer.is_empty, truth, what)
        self.tally["exact"] += answer.is_exact and bool(truth)
        if answer.is_exact:
            self._counted(answer, truth, what)
        for params, taken in self.some(truth):
            env = self.setting.env(params)
            placed = self.placed(answer, env)
            self.require(not placed.params, "still depends on", placed.params, placed, *what, env)
            self.members(placed, taken, (*what, env, "at", placed))
            self.require(placed.is_exact or not answer.is_exact, "exactness was lost", placed, *what)
        for env in self.nowhere(truth):
            placed = self.placed(answer, env)
            self.tally["nowhere"] += placed.is_empty
            self.require(placed.is_empty or not placed.is_exact, "is not empty", placed, *what, env)
        return answer

    def nowhere(self, truth: Truth) -> list[dict[Var, int]]:
        """A sample of sizes without points."""
        setting = self.setting
        if setting.keep or not setting.sizes:
            return []
        left = [params for params in itertools.product(*setting.sizes.values()) if params not in truth]
        return [setting.env(params) for params in self.rng.sample(left, min(PLACES, len(left)))]

    def _counted(self, found: IntSet, truth: Truth, what: What) -> None:
        number = self.count(found)
        if not found.params and not self.setting.params:
            self.require(found.is_empty is not bool(truth), "emptiness", *what)
        if number is None:
            return
        for params, taken in truth.items():
            env = self.setting.env(params)
            self.require(self.at(as_end(number), env) == len(taken), "count", number, *what, env, sorted(taken))

    def some(self, truth: Mapping[Point, Any]) -> list[tuple[Point, Any]]:
        """A few of the values of the parameters."""
        return self.rng.sample([*truth.items()], min(PLACES, len(truth)))

    def placed(self, s: Any, env: dict[Var, int]) -> Any:
        """The set or region at given values, reached in one of several ways."""
        roll = self.rng.random()
        if roll < 0.5 or not env:
            return s.at(env)
        names = list(env)
        self.rng.shuffle(names)
        if roll < 0.7:  # one after another
            for var in names:
                s = s.at({var: env[var]})
            return s
        fresh = {var: Var(var.name + "'") for var in names}
        shift = {var: self.rng.randint(-2, 2) for var in names}
        if roll < 0.85:  # an expression of a new variable first
            moved = s.at({var: new + shift[var] for var, new in fresh.items()})
            return moved.at({new: env[var] - shift[var] for var, new in fresh.items()})
        mirrored = {fresh[a]: fresh[b] for a, b in zip(names, names[1:] + names[:1], strict=True)}  # all at once
        return s.at(fresh).at(mirrored).at({mirrored[new]: env[var] for var, new in fresh.items()})

    def members(self, s: IntSet, taken: set[int], what: What, claims: bool = True) -> None:
        """Require that a parameter-free set contains `taken`; with `claims`, an exact set must equal it."""
        around = range(min(taken) - 2, max(taken) + 3) if max(taken) - min(taken) < WIDE else sorted(taken)
        try:
            inside_at = _function(s.condition(ELEMENT))
            self.require(min(taken) in s, "lacks", min(taken), *what, sorted(taken))
        except (BudgetError, UndecidedError):
            return  # membership has no formula within the budget
        inside = {value for value in around if inside_at(value)}
        self.require(taken <= inside, "lacks", *sorted(taken - inside)[:1], *what, sorted(taken))
        others = sorted(inside - taken)
        self.require(not others or not (s.is_exact and claims), "has", *others[:1], *what, sorted(taken))
        low, high = (end if isinstance(end, Infinity) else int(end) for end in s.ends())
        self._around((low, high), s.is_tight and claims, taken, what)
        number = self.count(s) if s.is_exact and claims else None
        self.require(number is None or number == len(taken), "count", number, *what, sorted(taken))

    def count(self, s: IntSet | Region) -> int | Infinity | Expr | None:
        """The number of elements; `None` where the answer is a refusal."""
        try:
            return s.count()
        except (CountError, BudgetError):
            return None

    # -- regions ------------------------------------------------------------------------------------------------------

    def region(self, domain: str | None) -> None:
        """The image of all expressions, its box and its points."""
        setting = self.setting
        truth = setting.values(*setting.exprs)
        try:
            region = self.ctx.image(setting.exprs, keep=setting.keep, domain=domain)
            self._boxes(region, truth, domain)
            self._points_of(region, truth, domain)
        except (BudgetError, UndecidedError):
            self.tally["out of budget"] += 1

    def _boxes(self, region: Region, truth: Mapping[Point, set[Point]], domain: str | None) -> None:
        self.require(not (region.is_empty and truth), "not empty", domain, region)
        if region.is_empty:
            return
        for k, side in enumerate(region.box):
            alone = self.ctx.bounds(self.setting.exprs[k], keep=self.setting.keep, domain=domain)
            what = (domain, "box", region.box, k)
            projected = {params: {point[k] for point in taken} for params, taken in truth.items()}
            self.ends((side.min, side.max), getattr(region, "is_tight", False), False, projected, what)
            for params in projected:
                self.no_looser((side.min, side.max), alone, self.setting.env(params), what)

    def no_looser(self, ends: tuple[End, End], bounds: Bounds, env: Mapping[Var, int], what: What) -> None:
        """Require that box sides are at most as wide as coordinate bounds."""
        (low, high), (first, last) = ([self.at(end, env) for end in pair] for pair in (ends, bounds))
        self.require(first is NEG_INF or (low is not NEG_INF and low >= first), "looser than", bounds, *what, env)
        self.require(last is POS_INF or (high is not POS_INF and high <= last), "looser than", bounds, *what, env)

    def _points_of(self, region: Region, truth: Mapping[Point, set[Point]], domain: str | None) -> None:
        self.tally["exact region"] += region.is_exact and bool(truth)
        for params, taken in self.some(truth):
            env = self.setting.env(params)
            placed = self.placed(region, env)
            what = (domain, "region", region, env, placed, sorted(taken))
            self.require(not placed.params, "still depends on", placed.params, *what)
            hulls = [range(min(column) - 1, max(column) + 2) for column in zip(*taken, strict=True)]
            tried = list(taken)[:MEMBERS]
            tried += [tuple(self.rng.choice(hull) for hull in hulls) for _ in range(MEMBERS)]
            coordinates = [Var(f"x{k}") for k in range(len(hulls))]
            inside_at = compiled(placed.condition(coordinates), coordinates)
            self.require(tried[0] in placed, "lacks", tried[0], *what)
            for point in tried:
                inside = inside_at(*point)
                self.require(inside or point not in taken, "lacks", point, *what)
                self.require(not inside or point in taken or not placed.is_exact, "has", point, *what)
            number = self.count(placed) if placed.is_exact else None
            self.require(number is None or number == len(taken), "count", number, *what)

    # -- proofs -------------------------------------------------------------------------------------------------------

    def goals(self) -> None:
        """What is proved or refuted."""
        for goal in self.setting.goals:
            self.goal(goal)

    def goal(self, goal: Cond) -> None:
        proof = self.ctx.prove(goal)
        self.tally[proof.status] += 1
        what = (goal, proof)
        holds = compiled(goal, self.setting.everything)
        is_vacuous, points = proof.vacuous, 0
        for point in itertools.chain(*self.setting.points.values()):
            true = value_or_none(holds, *point)
            if true is None:
                continue
            points += 1
            self.require(not is_vacuous, "there is a point", point, *what)
            self.require(true or proof.status != "proved", "it fails at", point, *what)
        if proof.status == "refuted":
            self.counterexample(proof.counterexample or {}, goal)
        elif proof and not points and not self.setting.sizes and current().tiers == Config().tiers:  # there is no point
            self.require(is_vacuous, "there is no point, and nothing says so", *what)

    def counterexample(self, found: Mapping[Expr, int], goal: Cond) -> None:
        """It lies in all ranges, declarations and facts, and the goal fails there."""
        setting = self.setting
        mentioned = dag.free_vars(goal, *setting.facts, *(v for r in setting.ranges.values() for v in r.free_vars()))
        for var in dict.fromkeys((*setting.ranges, *mentioned)):
            low, high, step = var.declared()
            value = found[var]
            self.require((low is None or low <= value) and (high is None or value <= high) and value % step == 0, found)
        for var, limits in setting.ranges.items():
            first, last = (self.at(end, found) for end in (limits.min, limits.max))
            self.require(first <= found[var] <= last, "outside", var, found, goal)
        self.require(all(evaluate(fact, found) for fact in setting.facts), "no point of the context", found, goal)
        self.require(not evaluate(goal, found), "the goal holds at", found, goal)


# -- report ------------------------------------------------------------------------------------------------------------


@dataclass
class Report:
    """What a domain answered: `wrong` says every answer that lacks a value and every claim that is false.

    `tally` counts the questions asked (`asked`, `contexts`) and what was claimed: `exact hull`, `exact set`.
    """

    domain: str
    tally: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


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
    names = [check_name(name, "domains") for name in arguments.listed(domains, "domains", "a list of names")]
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


# -- soundness of single answers ---------------------------------------------------------------------------------------


def soundness(domain: str, count: int = 120, seed: int = 0) -> Report:
    """Check one domain, by name: `count` random questions over boxes, and a quarter as many contexts (`claims`).

    An answer is wrong if it lacks a true value; if an end called tight is not attained; if a set called exact differs
    from the truth in an element or in its count; if a superset has a count; if claims contradict
    one another (an empty set with a tight end, bounds other than the ends of an exact set); or if it compares wrongly
    with the empty set. Equal seeds give equal questions on every machine.

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
            bounds, found = ctx.bounds(q.expr), ctx.value_set(q.expr)
            nothing = empty_set(found.by)
            faults = [*_faults(q.values, bounds, found, report.tally)]
            if not nothing <= found or (q.values and (found <= nothing or found == nothing)):
                faults.append("the set is ordered wrongly beside the empty set")
            report.wrong += [f"question {number}, {fault}: {q.expr} where {q.conds}" for fault in faults]
    oracle = claims(count // 4, seed, (domain,))
    report.wrong += oracle.wrong
    report.tally += oracle.tally
    return report


@dataclass(slots=True)
class Finding:
    """A wrong or inexact answer in one case."""

    number: int
    domain: str
    case: str
    what: str
    notes: list[str] = field(default_factory=list)


def sweep(
    count: int, seed: int, domains: Sequence[str], track: Callable[..., Any] = lambda items, total, label: items
) -> dict[str, Any]:
    """Check `count` cases with each of the domains; the findings as JSON-able data.

    Returns a dictionary: `cases`, `seed`, `domains`, `not_empty` (cases that have a value), `wrong` (every answer that
    was unsound, and every false claim) and `inexact` (hulls by `auto` that are larger than the truth). `track` wraps
    the iteration, for a progress bar.
    """
    wrong: list[Finding] = []
    inexact: list[Finding] = []
    with_values = 0
    names = arguments.listed(domains, "domains", "a list of names")
    for case in track(cases(count, seed), count, "random expressions"):
        with_values += bool(case.values)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ContradictionWarning)
            ctx = Context(case.ranges, assume=case.conditions)
        if warned and case.values:
            wrong.append(Finding(case.number, "", case.text(), "a contradiction is reported where there is none"))
        for domain in names:
            bounds, tally = ctx.bounds(case.expr, domain=domain), Counter[str]()
            answers = bounds, ctx.value_set(case.expr, domain=domain)
            faults = [*_faults(case.values, *answers, tally)]
            if domain == Config().domain and not tally["exact hull"]:
                truth = f"[{min(case.values)}, {max(case.values)}]" if case.values else "empty"
                inexact.append(Finding(case.number, domain, case.text(), f"{bounds}, truth {truth}", [*bounds.notes]))
            wrong += [Finding(case.number, domain, case.text(), fault, [*bounds.notes]) for fault in faults]
    return {
        "cases": count,
        "seed": seed,
        "not_empty": with_values,
        "domains": list(names),
        "wrong": [asdict(finding) for finding in wrong],
        "inexact": [asdict(finding) for finding in inexact],
    }


def _faults(values: Collection[int], bounds: Bounds, found: IntSet, tally: Counter[str]) -> Iterator[str]:
    """Yield the false claims of bounds and a set about an expression that takes these values."""
    hull = (min(values), max(values)) if values else None
    yield from _faults_of_ends(hull, bounds, "bounds", tally)
    yield from _faults_of_ends(hull, Bounds(*found.ends(), found.is_tight), "ends of the set", Counter())
    try:
        missing = [value for value in values if value not in found]
        if missing:
            yield f"the set lacks {missing[0]}"
        if found.is_exact:
            tally["exact set"] += 1
            yield from _faults_of_exactness(values, found)
        elif not found.is_empty:
            yield f"a set that may hold too much is counted: {found.count()}"
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


def _faults_of_exactness(values: Collection[int], found: IntSet) -> Iterator[str]:
    if found.is_empty is bool(values):
        yield "a set called exact is empty where the truth is not, or the other way round"
    number = found.count()
    if number != len(values):
        yield f"a set called exact has {number} elements instead of {len(values)}"
    extra = [v for v in {w + side for w in values for side in (-1, 1)} - set(values) if v in found]
    if extra:
        yield f"a set called exact has {extra[0]}"

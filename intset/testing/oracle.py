"""The oracle: answers about a random setting, checked against the enumerated points of the setting.

- An answer contains every true value. An exact answer contains nothing else, wherever a true value exists.
- Tight ends are attained; an empty set is empty; a count equals the number of elements; box sides are no wider than
  coordinate bounds.
- All of this survives `at`, in whatever order parameters are substituted; sizes without points leave an empty answer.
- A proved condition holds at every point and is vacuous only without points. A refuted condition fails at its
  counterexample, a point of all ranges and facts.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from intset.config import Config, current
from intset.context import Context
from intset.domains.sets.base import Bounds, End, IntSet, as_end
from intset.domains.sets.region import Region
from intset.errors import BudgetError, CountError, EvaluationError, UndecidedError
from intset.expr.dag import free_vars
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Cond, Expr, Var
from intset.infinity import NEG_INF, POS_INF, Infinity
from intset.testing.contexts import Point, Setting

MEMBERS = 40  # points of a region that are tried
PLACES = 3  # values of the parameters at which a set is tried
WIDE = 60  # beyond this width only the elements themselves are tried, not what lies between

Truth = Mapping[Point, set[int]]
What = tuple[object, ...]


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
        low, high = ends
        self.require(low is NEG_INF or low <= min(taken), "too high", *what, sorted(taken))
        self.require(high is POS_INF or high >= max(taken), "too low", *what, sorted(taken))
        self.require(not is_tight or (low, high) == (min(taken), max(taken)), "not tight", *what, sorted(taken))

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
        element = Var("element")
        try:
            inside_at = compiled(s.condition(element), [element])
            self.require(min(taken) in s, "lacks", min(taken), *what, sorted(taken))
        except (BudgetError, UndecidedError):
            return  # membership has no formula within the budget
        for value in around:
            inside = inside_at(value)
            self.require(inside or value not in taken, "lacks", value, *what, sorted(taken))
            self.require(
                not inside or value in taken or not (s.is_exact and claims), "has", value, *what, sorted(taken)
            )
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
        points = 0
        for point in itertools.chain(*self.setting.points.values()):
            try:
                true = holds(*point)
            except (ZeroDivisionError, EvaluationError):
                continue
            points += 1
            self.require(not proof.vacuous, "there is a point", point, *what)
            self.require(proof.status != "proved" or true, "it fails at", point, *what)
        if proof.status == "refuted":
            self.counterexample(proof.counterexample or {}, goal)
        elif proof and not points and not self.setting.sizes and current().tiers == Config().tiers:  # there is no point
            self.require(proof.vacuous, "there is no point, and nothing says so", *what)

    def counterexample(self, found: Mapping[Expr, int], goal: Cond) -> None:
        """It lies in all ranges, declarations and facts, and the goal fails there."""
        setting = self.setting
        mentioned = free_vars(goal, *setting.facts, *(v for r in setting.ranges.values() for v in r.free_vars()))
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

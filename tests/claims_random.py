"""Random contexts whose ranges depend on one another and on sizes, with the truth by enumeration.

Each case has a few variables whose ranges may be empty, start below 0, and mention sizes and other variables; facts;
variables that are kept; expressions over some of the variables only. `check` puts every kind of question to a domain
and holds the claims in the answers against the truth and against one another:

- an answer contains every true value; one that is exact has no other, wherever there is a true value at all;
- tight ends are attained; an empty set is empty; a count is the number of elements; a side of a box is no looser than
  the bounds of its coordinate;
- `at` replaces parameters in all of that;
- a proved condition holds at every point; a refuted one fails at its counterexample, a point of all ranges and facts.

Sizes are enumerated over a few small values, so a false claim about larger ones is not seen here.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from intset import (
    Context,
    CountError,
    Range,
    ShapeVar,
    Var,
    ceildiv,
    evaluate,
    maximum,
    minimum,
    select,
    truncdiv,
    truncmod,
)
from intset.domains.base import Bounds, IntSet
from intset.domains.region import Region
from intset.errors import BudgetError, ContradictionWarning, EvaluationError
from intset.expr.compiled import compiled
from intset.expr.node import Cond, Expr
from intset.expr.walk import free_vars
from intset.infinity import NEG_INF, POS_INF, Infinity

DOMAINS = ("auto", "interval", "stride", "modular", "interval*modular", "points", "isl", "interval*isl")
WIDEST = 9  # a range is enumerated up to so many values
MAX_POINTS = 6_000

Point = tuple[int, ...]


@dataclass
class Case:
    """A context, expressions over it, and its points: for each value of the parameters those of the other variables."""

    number: int
    sizes: dict[Var, range]
    ranges: dict[Var, Range]
    facts: list[Cond]
    keep: tuple[Var, ...]
    exprs: tuple[Expr, ...]
    goals: list[Cond]
    points: dict[Point, list[Point]] = field(default_factory=dict)  # sizes and kept variables -> everything

    @property
    def params(self) -> list[Var]:
        return [*self.sizes, *self.keep]

    @property
    def everything(self) -> list[Var]:
        return [*self.sizes, *self.ranges]

    def env(self, params: Point) -> dict[Var, int]:
        return dict(zip(self.params, params, strict=True))

    def text(self) -> str:
        ranges = ", ".join(f"{v.name} in [{r.min}, {r.max}]" for v, r in self.ranges.items())
        sizes = ", ".join(f"{v.name} {v.declared()}" for v in self.sizes)
        kept = ", ".join(v.name for v in self.keep)
        return f"#{self.number}: {self.exprs} for {ranges} where {self.facts} keep {kept}; {sizes}"


class Drawing:
    """Draws the parts of a case."""

    def __init__(self, number: int) -> None:
        self.rng = random.Random(number)
        self.number = number

    def case(self) -> Case:
        rng = self.rng
        sizes = {self.size(name): range(0) for name in "nm"[: rng.choice((0, 1, 1, 1, 2))]}
        for var in sizes:
            low, high, step = var.declared()
            first = -2 if low is None else low
            sizes[var] = range(first, min(first + 5 * step, first + 9 if high is None else high + 1), step)
        ranges: dict[Var, Range] = {}
        for name in "ijkl"[: rng.choice((1, 2, 2, 3, 3, 4))]:
            ranges[Var(name)] = self.range([*ranges], [*sizes])
        if rng.random() < 0.05:
            ranges[ShapeVar("s", lower=1, upper=6)] = self.range([*ranges], [*sizes])
        shuffled = list(ranges.items())
        rng.shuffle(shuffled)
        variables = [*ranges]
        keep = tuple(v for v in variables if rng.random() < 0.3) if rng.random() < 0.4 else ()
        spoken = [*variables, *sizes] if rng.random() < 0.6 else [rng.choice(variables)]
        facts = [self.condition([*variables, *sizes]) for _ in range(rng.choice((0, 0, 0, 1, 1, 2)))]
        exprs = tuple(self.expression(spoken, rng.choice((0, 1, 1, 2, 2, 3))) for _ in range(rng.choice((1, 1, 2))))
        goals = [self.condition([*variables, *sizes]), self.goal(exprs[0])]
        return Case(self.number, sizes, dict(shuffled), facts, keep, exprs, goals)

    def size(self, name: str) -> Var:
        rng = self.rng
        if rng.random() < 0.1:
            return Var(name)
        lower = rng.choice((0, 0, 0, 1, 1, 2))
        upper = lower + rng.randint(0, 6) if rng.random() < 0.2 else None
        return ShapeVar(name, lower=lower, upper=upper)

    def range(self, outer: list[Var], sizes: list[Var]) -> Range:
        rng = self.rng
        roll = rng.random()
        if not outer or roll < 0.25:
            if sizes and rng.random() < 0.5:
                n = rng.choice(sizes)
                return Range(rng.randint(-2, 2), rng.choice((n, n, n + rng.randint(-3, 2), n - rng.choice(sizes))))
            return Range(
                rng.randint(-4, 3), rng.choice((0, 1, 2, 3, 4, 4, 5, 6)) if rng.random() < 0.3 else rng.randint(1, 6)
            )
        other = rng.choice(outer)
        more = rng.choice([*outer, *sizes])
        ends = (
            lambda: other + rng.randint(-3, 3),
            lambda: rng.randint(-2, 4) - other,
            lambda: minimum(other, rng.randint(-1, 4)),
            lambda: maximum(other, rng.randint(-1, 4)) - 1,
            lambda: other + more,
            lambda: more - other,
            lambda: other * 2 - rng.randint(0, 4),
            lambda: other // 2,
            lambda: other % 3,
            lambda: abs(other) - 1,
        )
        low = rng.choice((0, 0, rng.randint(-3, 3), other, -other, rng.choice(ends)()))
        if rng.random() < 0.25:
            return Range(low, rng.choice((1, 2, 3, 4)))
        end = rng.choice(ends)()
        return Range(low, end if rng.random() < 0.6 else end - low)

    def expression(self, leaves: list[Var], depth: int) -> Expr:
        rng = self.rng
        if depth == 0:
            return rng.choice(leaves) + (rng.randint(-3, 3) if rng.random() < 0.3 else 0)
        a = self.expression(leaves, depth - 1)
        c = rng.choice((-3, -2, 2, 2, 3, 4, 5))

        def other() -> Expr:
            return self.expression(leaves, rng.randint(0, depth - 1))

        makers = (
            lambda: a + other(),
            lambda: a + other(),
            lambda: a - other(),
            lambda: a * c + other(),
            lambda: a * c + other(),
            lambda: a * c,
            lambda: a // c,
            lambda: a % c,
            lambda: rng.choice((truncdiv, truncmod, ceildiv))(a, c),
            lambda: minimum(a, other()),
            lambda: maximum(a, rng.randint(-3, 4)),
            lambda: abs(a),
            lambda: select(self.condition(leaves), a, other()),
            lambda: a * rng.choice(leaves),
            lambda: rng.choice((lambda x, y: x // y, lambda x, y: x % y))(a, rng.choice(leaves)),
        )
        return rng.choice(makers)()

    def condition(self, leaves: list[Var]) -> Cond:
        rng = self.rng
        a = self.expression(leaves, rng.choice((0, 0, 1, 1)))
        b = self.expression(leaves, 0) if rng.random() < 0.4 else rng.randint(-2, 5)
        cond = rng.choice((a < b, a <= b, a > b, a >= b, a <= b, a >= b, a.eq(b), a.ne(b), (a % 3).eq(1)))
        return cond | self.condition(leaves) if rng.random() < 0.1 else cond

    def goal(self, e: Expr) -> Cond:
        c = self.rng.randint(-3, 8)
        return self.rng.choice((e <= c, e >= -c, e.ne(c)))


def draw(number: int) -> Case:
    """The case with this number, the same on every machine, with its points."""
    case = Drawing(number).case()
    for params, point in _points(case):
        case.points.setdefault(params, []).append(point)
    return case


def _points(case: Case) -> Iterator[tuple[Point, Point]]:
    order = _outer_first(case.ranges)
    variables = [*case.sizes, *order]
    place = {var: k for k, var in enumerate(variables)}
    limits = {
        v: (compiled(r.min, variables[: place[v]]), compiled(r.extent, variables[: place[v]]))
        for v, r in case.ranges.items()
    }
    guards = [compiled(fact, variables) for fact in case.facts]
    kept, shown = [place[v] for v in case.params], [place[v] for v in case.everything]
    seen = 0
    pending: list[Point] = [tuple(sizes) for sizes in itertools.product(*case.sizes.values())][::-1]
    while pending:
        point = pending.pop()
        if len(point) == len(variables):
            if _holds(guards, point):
                yield tuple(point[k] for k in kept), tuple(point[k] for k in shown)
            continue
        var = variables[len(point)]
        first, extent = (end(*point) for end in limits[var])
        low, high, _ = var.declared()
        span = range(
            first if low is None else max(first, low), first + extent if high is None else min(first + extent, high + 1)
        )
        seen += len(span)
        if len(span) > 4 * WIDEST or seen > MAX_POINTS:
            raise TooLargeError
        pending.extend((*point, value) for value in reversed(span))


class TooLargeError(Exception):
    """A case has more points than are enumerated."""


def _outer_first(ranges: Mapping[Var, Range]) -> list[Var]:
    order: list[Var] = []
    pending = dict(ranges)
    while pending:
        ready = [v for v, r in pending.items() if not any(w in pending for w in r.free_vars())]
        order += ready
        for var in ready:
            del pending[var]
    return order


def _holds(guards: list, point: Point) -> bool:
    try:
        return all(guard(*point) for guard in guards)
    except (ZeroDivisionError, EvaluationError):
        return False


def values(case: Case, exprs: tuple[Expr, ...]) -> dict[Point, set[Point]]:
    """For each value of the parameters the tuples that the expressions take where all are defined."""
    functions = [compiled(e, case.everything) for e in exprs]
    found: dict[Point, set[Point]] = {}
    for params, points in case.points.items():
        for point in points:
            try:
                found.setdefault(params, set()).add(tuple(function(*point) for function in functions))
            except (ZeroDivisionError, EvaluationError):
                continue
    return {params: taken for params, taken in found.items() if taken}


# -- checks -----------------------------------------------------------------------------------------------------------


class Checker:
    """Questions about one case; every fault is an `AssertionError` that names the case."""

    def __init__(self, case: Case, tally: Counter[str]) -> None:
        self.case, self.tally = case, tally
        self.rng = random.Random(-1 - case.number)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", ContradictionWarning)
            self.ctx = Context(case.ranges, assume=case.facts)
        self.require(not (warned and case.points), "a contradiction where there is none")

    def require(self, holds: object, *what: object) -> None:
        if not holds:
            raise AssertionError(" ".join(map(str, (*what, "in", self.case.text()))))

    def sets(self, domain: str) -> None:
        case, ctx = self.case, self.ctx
        for e in case.exprs[:1]:
            truth = {params: {value for (value,) in taken} for params, taken in values(case, (e,)).items()}
            bounds = ctx.bounds(e, keep=case.keep, domain=domain)
            self.ends(bounds, bounds.is_tight, bounds.is_empty, truth, (domain, "bounds", bounds))
            self.set(ctx.value_set(e, keep=case.keep, domain=domain), truth, domain)
        self.tally["asked"] += 1

    def ends(self, ends: tuple, is_tight: bool, is_empty: bool, truth: Mapping, what: tuple) -> None:
        self.require(not (is_empty and truth), "not empty", *what)
        self.tally["tight"] += is_tight and bool(truth)
        for params, taken in truth.items():
            env = self.case.env(params)
            low, high = (self.at(end, env) for end in ends)
            self.require(low is NEG_INF or low <= min(taken), "too high", *what, env, sorted(taken))
            self.require(high is POS_INF or high >= max(taken), "too low", *what, env, sorted(taken))
            self.require(
                not is_tight or (low, high) == (min(taken), max(taken)), "not tight", *what, env, sorted(taken)
            )

    def at(self, end: Expr | Infinity, env: Mapping) -> int | Infinity:
        try:
            return end if isinstance(end, Infinity) else evaluate(end, env)
        except EvaluationError as error:
            self.require(False, "no value", end, env, error)
            raise

    def set(self, s: IntSet, truth: Mapping[Point, set[int]], domain: str) -> None:
        what = (domain, "set", s)
        self.require(set(s.params) <= set(self.case.params), "other parameters", *what, s.params)
        try:
            ends = s.ends()
        except BudgetError:
            return
        self.ends(ends, s.is_tight, s.is_empty, truth, what)
        self.tally["exact"] += s.is_exact and bool(truth)
        number = self.count(s) if s.is_exact else None
        if s.is_exact and not s.params and not self.case.sizes and not self.case.keep:
            self.require(s.is_empty is not bool(truth), "emptiness", *what)
        for params, taken in truth.items():
            env = self.case.env(params)
            if number is not None:
                counted = number if isinstance(number, int | Infinity) else evaluate(number, env)
                self.require(counted == len(taken), "count", number, *what, env, sorted(taken))
        for params, taken in self.some(truth):
            env = self.case.env(params)
            placed = self.placed(s, env)
            self.require(not placed.params, "still depends on", placed.params, placed, *what, env)
            self.members(placed, taken, (*what, env, "at", placed))
            if s.is_exact:
                self.require(placed.is_exact, "exactness was lost", placed, *what)

    def some(self, truth: Mapping) -> list:
        """A few of the values of the parameters."""
        return self.rng.sample([*truth.items()], min(3, len(truth)))

    def placed(self, s, env: dict):
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
        turned = {fresh[a]: fresh[b] for a, b in zip(names, names[1:] + names[:1], strict=True)}  # all at once
        return s.at(fresh).at(turned).at({turned[new]: env[var] for var, new in fresh.items()})

    def members(self, s: IntSet, taken: set[int], what: tuple) -> None:
        around = range(min(taken) - 2, max(taken) + 3) if max(taken) - min(taken) < 60 else sorted(taken)
        element = Var("element")
        try:
            inside_at = compiled(s.condition(element), [element])
            self.require(min(taken) in s, "lacks", min(taken), *what, sorted(taken))
        except BudgetError:
            return
        for value in around:
            inside = inside_at(value)
            if value in taken:
                self.require(inside, "lacks", value, *what, sorted(taken))
            else:
                self.require(not inside or not s.is_exact, "has", value, *what, sorted(taken))
        low, high = s.ends()
        self.require(low is NEG_INF or int(low) <= min(taken), "too high", *what, sorted(taken))
        self.require(high is POS_INF or int(high) >= max(taken), "too low", *what, sorted(taken))
        if s.is_tight:
            self.require(
                (low, high) == (min(taken), max(taken)) or (int(low), int(high)) == (min(taken), max(taken)),
                "not tight",
                *what,
            )
        if s.is_exact:
            number = self.count(s)
            self.require(number is None or number == len(taken), "count", number, *what, sorted(taken))

    def count(self, s) -> object:
        try:
            return s.count()
        except (CountError, BudgetError):
            return None

    def region(self, domain: str) -> None:
        case = self.case
        truth = values(case, case.exprs)
        try:
            region = self.ctx.image(case.exprs, keep=case.keep, domain=domain)
            self.boxes(region, truth, domain)
            self.points_of(region, truth, domain)
        except BudgetError:
            self.tally["out of budget"] += 1

    def boxes(self, region: Region, truth: Mapping[Point, set[Point]], domain: str) -> None:
        self.require(not (region.is_empty and truth), "not empty", domain, region)
        if region.is_empty:
            return
        alone = [self.ctx.bounds(e, keep=self.case.keep, domain=domain) for e in self.case.exprs]
        for k, side in enumerate(region.box):
            what = (domain, "box", region.box, k)
            projected = {params: {point[k] for point in taken} for params, taken in truth.items()}
            ends = (side.min, side.max if side.extent is not POS_INF else POS_INF)
            self.ends(ends, region.is_exact, False, projected, what)
            for params in projected:
                self.no_looser(ends, alone[k], self.case.env(params), what)

    def no_looser(self, ends: tuple, bounds: Bounds, env: dict, what: tuple) -> None:
        (low, high), (first, last) = ([self.at(end, env) for end in pair] for pair in (ends, bounds))
        self.require(first is NEG_INF or (low is not NEG_INF and low >= first), "looser than", bounds, *what, env)
        if low is not NEG_INF:  # a Range without a first element has no last one
            self.require(last is POS_INF or (high is not POS_INF and high <= last), "looser than", bounds, *what, env)

    def points_of(self, region: Region, truth: Mapping[Point, set[Point]], domain: str) -> None:
        self.tally["exact region"] += region.is_exact and bool(truth)
        for params, taken in self.some(truth):
            env = self.case.env(params)
            placed = self.placed(region, env)
            what = (domain, "region", region, env, placed, sorted(taken))
            self.require(not placed.params, "still depends on", placed.params, *what)
            hulls = [range(min(column) - 1, max(column) + 2) for column in zip(*taken, strict=True)]
            tried = list(taken)[:40] + [tuple(self.rng.choice(hull) for hull in hulls) for _ in range(40)]
            coordinates = [Var(f"x{k}") for k in range(len(hulls))]
            inside_at = compiled(placed.condition(coordinates), coordinates)
            self.require(tried[0] in placed, "lacks", tried[0], *what)
            for point in tried:
                inside = inside_at(*point)
                self.require(inside or point not in taken, "lacks", point, *what)
                self.require(not inside or point in taken or not placed.is_exact, "has", point, *what)
            number = self.count(placed) if placed.is_exact else None
            self.require(number is None or number == len(taken), "count", number, *what)

    def goals(self) -> None:
        """What is proved or refuted, against the points."""
        case = self.case
        for goal in case.goals:
            proof = self.ctx.prove(goal)
            self.tally[proof.status] += 1
            what = (goal, proof)
            holds = compiled(goal, case.everything)
            for point in itertools.chain(*case.points.values()):
                try:
                    true = holds(*point)
                except (ZeroDivisionError, EvaluationError):
                    continue
                self.require(not proof.vacuous, "there is a point", point, *what)
                self.require(proof.status != "proved" or true, "it fails at", point, *what)
            if proof.status == "refuted":
                self.counterexample(proof.counterexample or {}, goal)

    def counterexample(self, found: Mapping, goal: Cond) -> None:
        case = self.case
        mentioned = free_vars(goal, *case.facts, *(e for r in case.ranges.values() for e in r.free_vars()))
        for var in dict.fromkeys((*case.ranges, *mentioned)):
            low, high, step = var.declared()
            value = found[var]
            self.require((low is None or low <= value) and (high is None or value <= high) and value % step == 0, found)
        for var, limits in case.ranges.items():
            first = evaluate(limits.min, found)
            self.require(first <= found[var] < first + evaluate(limits.extent, found), "outside", var, found, goal)
        self.require(all(evaluate(fact, found) for fact in case.facts), "no point of the context", found, goal)
        self.require(not evaluate(goal, found), "the goal holds at", found, goal)


def check(numbers: range, domains: tuple[str, ...] = ()) -> Counter[str]:
    """Check the cases with these numbers by all `domains`, or each by one (every second by `auto`), which is also asked
    for a region or a proof; how many claims of each kind there were."""
    tally: Counter[str] = Counter()
    for number in numbers:
        try:
            case = draw(number)
        except TooLargeError:
            tally["too large"] += 1
            continue
        tally["cases"] += 1
        tally["with points"] += bool(case.points)
        checker = Checker(case, tally)
        for domain in domains or (DOMAINS[checker.rng.choice((0, checker.rng.randrange(len(DOMAINS))))],):
            part = checker.rng.randrange(4)
            checker.sets(domain)
            if domains or part == 0:
                checker.region(domain)
            if domains or part == 1:
                checker.goals()
    return tally

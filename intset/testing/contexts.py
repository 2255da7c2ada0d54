"""Random contexts and random questions with their truth by enumeration.

A setting has a few variables, facts, kept variables, and expressions over some of the variables. Ranges may be empty,
start below 0, and mention sizes and other variables. Sizes are enumerated over small windows, so false claims about
larger sizes escape.

`setting(number)` draws by seed; `intset.testing.strategies.contexts` lets Hypothesis choose, and shrink.

Questions over small boxes:

`question(seed)`: an expression with constant and variable divisors of either sign, conditions, a goal and true values.
`cases(count, seed)`: expressions nested at most `DEPTH` operations over 2 or 3 variables, half with a condition.

Guarantee: equal seeds draw equal questions on every machine.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from intset.expr import Cond, Expr, Range, ShapeVar, Var, const
from intset.expr.build import cast, ceildiv, maximum, minimum, select, truncdiv, truncmod
from intset.expr.evaluate import compiled, value_or_none
from intset.expr.node import as_int

WIDEST = 9  # a range is enumerated up to so many values
MAX_POINTS = 6_000

Point = tuple[int, ...]


@dataclass
class Setting:
    """A context, expressions over it, and its enumerated points, grouped by parameter values."""

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

    def under(self, *conditions: Cond) -> Setting:
        """The setting restricted by further conditions."""
        guards = [compiled(cond, self.everything) for cond in conditions]
        left = {params: [p for p in points if _holds(guards, p)] for params, points in self.points.items()}
        facts = [*self.facts, *conditions]
        return replace(self, facts=facts, points={params: points for params, points in left.items() if points})

    def values(self, *exprs: Expr) -> dict[Point, set[Point]]:
        """{parameter values: tuples of expression values}, over points that define all expressions."""
        functions = [compiled(e, self.everything) for e in exprs]
        found: dict[Point, set[Point]] = {}
        for params, points in self.points.items():
            for point in points:
                values: tuple[Any, ...] = tuple(value_or_none(function, *point) for function in functions)
                if None not in values:
                    found.setdefault(params, set()).add(values)
        return {params: taken for params, taken in found.items() if taken}

    def env(self, params: Point) -> dict[Var, int]:
        return dict(zip(self.params, params, strict=True))

    def text(self) -> str:
        ranges = ", ".join(f"{v.name} in [{r.min}, {r.max}]" for v, r in self.ranges.items())
        sizes = ", ".join(f"{v.name} {v.declared()}" for v in self.sizes)
        kept = ", ".join(v.name for v in self.keep)
        return f"#{self.number}: {self.exprs} for {ranges} where {self.facts} keep {kept}; {sizes}"


class ContextDrawing:
    """Draws the parts of a setting by the choices of `rng`."""

    def __init__(self, rng: random.Random, number: int) -> None:
        self.rng, self.number = rng, number

    def setting(self) -> Setting:
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
        return Setting(self.number, sizes, dict(shuffled), facts, keep, exprs, goals)

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


def setting(number: int) -> Setting | None:
    """The setting with this number and its points; None beyond `MAX_POINTS`. Equal numbers give equal settings."""
    return drawn_setting(random.Random(as_int(number, "number")), number)


def drawn_setting(rng: random.Random, number: int = 0) -> Setting | None:
    """A setting drawn by the choices of `rng`, with its points; None beyond `MAX_POINTS`."""
    drawn = ContextDrawing(rng, number).setting()
    try:
        for params, point in _points(drawn):
            drawn.points.setdefault(params, []).append(point)
    except _TooLargeError:
        return None
    return drawn


def _points(drawn: Setting) -> Iterator[tuple[Point, Point]]:
    order = _outer_first(drawn.ranges)
    variables = [*drawn.sizes, *order]
    position = {var: k for k, var in enumerate(variables)}
    limits = {
        v: tuple(compiled(end, variables[: position[v]]) for end in (r.min, r.extent) if isinstance(end, Expr))
        for v, r in drawn.ranges.items()
    }
    guards = [compiled(fact, variables) for fact in drawn.facts]
    kept, shown = [position[v] for v in drawn.params], [position[v] for v in drawn.everything]
    seen = 0
    pending: list[Point] = [tuple(sizes) for sizes in itertools.product(*drawn.sizes.values())][::-1]
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
            raise _TooLargeError
        pending.extend((*point, value) for value in reversed(span))


class _TooLargeError(Exception):
    """A setting has more points than are enumerated."""


def _outer_first(ranges: Mapping[Var, Range]) -> list[Var]:
    order: list[Var] = []
    pending = dict(ranges)
    while pending:
        ready = [v for v, r in pending.items() if not any(w in pending for w in r.free_vars())]
        order += ready
        for var in ready:
            del pending[var]
    return order


def _holds(guards: Sequence[Callable[..., bool]], point: Point) -> bool:
    return all(value_or_none(guard, *point) for guard in guards)


DIVISORS = (-7, -5, -4, -3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16)


@dataclass
class Question:
    """An expression over a box with conditions, a goal, and the expression's true values."""

    ranges: dict[Var, Range]
    conds: list[Cond]
    expr: Expr
    goal: Cond
    values: set[int]
    goal_holds: bool  # at every point where it is defined
    goal_points: int = 0  # points where it is defined

    @property
    def variables(self) -> list[Var]:
        return list(self.ranges)

    def points(self) -> Iterator[tuple[int, ...]]:
        """Points of the box that satisfy all conditions."""
        return _points_of(self.ranges, self.conds)


def _points_of(ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> Iterator[Point]:
    spans = [range(first, last + 1) for first, last in map(_ends, ranges.values())]
    guards = [compiled(cond, list(ranges)) for cond in conditions]
    return (point for point in itertools.product(*spans) if _holds(guards, point))


def _ends(limits: Range) -> tuple[int, int]:
    ends = limits.constant()
    assert ends is not None
    return ends


def expression(rng: random.Random, variables: list[Var], depth: int) -> Expr:
    """All operations, constant and other divisors of either sign, nesting to `depth`."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.7 else const(rng.randint(-9, 12))

    def again() -> Expr:
        return expression(rng, variables, depth - 1)

    def nonzero() -> Expr:
        e = again()
        return const(3) if e.is_const and int(e) == 0 else e

    a, c = again(), rng.choice(DIVISORS)
    makers = (
        lambda: a + again(),
        lambda: a + again(),
        lambda: a - again(),
        lambda: -a,
        lambda: a * rng.randint(-6, 8),
        lambda: a * again(),
        lambda: a // c,
        lambda: a % c,
        lambda: a // c,
        lambda: a % c,
        lambda: rng.choice((ceildiv, truncdiv, truncmod))(a, c),
        lambda: rng.choice((ceildiv, truncdiv, truncmod, lambda x, y: x // y, lambda x, y: x % y))(a, nonzero()),
        lambda: minimum(a, again()),
        lambda: maximum(a, again()),
        lambda: select(condition(rng, variables, depth - 1), a, again()),
        lambda: abs(a),
        lambda: a & rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a | rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a ^ rng.choice((again(), const(rng.randint(-4, 15)))),
        lambda: a << rng.randint(0, 3),
        lambda: a >> rng.randint(0, 3),
        lambda: ~a,
        lambda: cast(a, rng.choice((3, 4, 8)), rng.random() < 0.5),
    )
    return rng.choice(makers)()


def condition(rng: random.Random, variables: list[Var], depth: int) -> Cond:
    """Comparisons, negations, conjunctions and disjunctions."""
    a = expression(rng, variables, max(depth - 1, 0))
    b = expression(rng, variables, max(depth - 1, 0)) if rng.random() < 0.4 else const(rng.randint(-5, 9))
    cond = rng.choice((a < b, a <= b, a > b, a >= b, a.eq(b), a.ne(b)))
    roll = rng.random()
    if roll < 0.15 and depth > 0:
        return cond & condition(rng, variables, depth - 1)
    if roll < 0.25 and depth > 0:
        return cond | condition(rng, variables, depth - 1)
    return ~cond if roll < 0.3 else cond


def question(seed: int) -> Question:
    """The question with this number: the same on every machine."""
    rng = random.Random(as_int(seed, "seed"))
    variables = [Var(name) for name in "xyz"[: rng.choice((2, 3))]]
    ranges = {v: Range(rng.randint(-8, 5), rng.randint(1, 12 if len(variables) == 2 else 8)) for v in variables}
    expr = expression(rng, variables, 4)
    conds = [condition(rng, variables, 2)] if rng.random() < 0.5 else []
    if seed % 4 == 3:  # domains read a congruence of a variable apart from other facts
        step = rng.randint(2, 5)
        conds.append((variables[0] % step).eq(rng.randrange(step)))
    drawn = Question(ranges, conds, expr, condition(rng, variables, 2), set(), True)
    value, goal = compiled(expr, variables), compiled(drawn.goal, variables)
    for point in drawn.points():
        number, is_met = value_or_none(value, *point), value_or_none(goal, *point)
        drawn.values.update(() if number is None else (number,))
        drawn.goal_holds = drawn.goal_holds and is_met is not False
        drawn.goal_points += is_met is not None
    return drawn


# -- cases -------------------------------------------------------------------------------------------------------------


DEPTH = 4
MAX_BOX = 240


@dataclass(slots=True)
class Case:
    """A random question with its true values (`None` when the condition contradicts the ranges)."""

    number: int
    ranges: dict[Var, Range]
    conditions: list[Cond]
    expr: Expr
    values: list[int]

    def text(self) -> str:
        ranges = ", ".join(f"{v.name} in [{r.min}, {r.max}]" for v, r in self.ranges.items())
        return f"{self.expr} for {ranges}" + "".join(f" where {c}" for c in self.conditions)


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """`count` random cases; case `k` of a seed is the same whatever the count."""
    start = as_int(seed, "seed") * 1_000_003
    for number in range(as_int(count, "count")):
        rng = random.Random(start + number)
        variables = [Var(name) for name in "ijk"[: rng.choice((2, 2, 3))]]
        room = MAX_BOX
        ranges: dict[Var, Range] = {}
        for var in variables:
            extent = rng.randint(1, min(24, room))
            room //= extent
            ranges[var] = Range(rng.choice((0, 0, rng.randint(-12, 12))), extent)
        expr = expression(rng, variables, DEPTH)
        conditions = [condition(rng, variables, 2)] if rng.random() < 0.5 else []
        value = compiled(expr, variables)
        values = {value_or_none(value, *point) for point in _points_of(ranges, conditions)}
        yield Case(number, ranges, conditions, expr, sorted(v for v in values if v is not None))

"""Random questions over small boxes with their truth by enumeration, and the sweep that checks domains on them.

`question(seed)`: an expression with constant and variable divisors of either sign, conditions, a goal and true values.
`cases(count, seed)`: expressions nested at most `DEPTH` operations over 2 or 3 variables, half with a condition.
`sweep(count, seed, domains)`: every domain must be sound on every case; hulls of `auto` that are not exact are listed.

Guarantee: equal seeds draw equal questions on every machine.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from intset import Context, Range, Var, ceildiv, const, evaluate, maximum, minimum, truncdiv, truncmod
from intset.config import Config
from intset.errors import BudgetError, ContradictionWarning, EvaluationError, InputError
from intset.expr import ops
from intset.expr.arguments import listed
from intset.expr.build import cast, select
from intset.expr.evaluate import compiled
from intset.expr.node import Cond, Expr, as_int, make

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
        spans = [range(first, last + 1) for first, last in map(_ends, self.ranges.values())]
        guards = [compiled(cond, self.variables) for cond in self.conds]
        for point in itertools.product(*spans):
            try:
                if all(guard(*point) for guard in guards):
                    yield point
            except (ZeroDivisionError, EvaluationError):
                continue


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
    drawn = Question(ranges, conds, expr, condition(rng, variables, 2), set(), True)
    value, goal = compiled(expr, variables), compiled(drawn.goal, variables)
    for point in drawn.points():
        with contextlib.suppress(ZeroDivisionError, EvaluationError):
            drawn.values.add(value(*point))
        try:
            drawn.goal_holds = bool(goal(*point)) and drawn.goal_holds
            drawn.goal_points += 1
        except (ZeroDivisionError, EvaluationError):
            pass
    return drawn


# -- cases and sweeps --------------------------------------------------------------------------------------------------


DEPTH = 4
MAX_POINTS = 240
PROBES = 6

_UNARY = (ops.NEG, ops.BITNOT, ops.ABS)
_BINARY = (ops.ADD, ops.SUB, ops.ADD, ops.SUB, ops.MIN, ops.MAX, ops.MUL, ops.BITAND, ops.BITOR, ops.BITXOR)
_SHIFTS = (ops.SHL, ops.SHR)


class CaseDrawing:
    """Draws expressions and conditions over given variables."""

    def __init__(self, rng: random.Random, variables: Sequence[Var]) -> None:
        self.rng, self.variables = rng, variables

    def constant(self) -> int:
        return self.rng.choice((self.rng.randint(-9, 9), self.rng.randint(-9, 9), self.rng.randint(-130, 130)))

    def divisor(self, depth: int) -> Expr:
        if self.rng.random() < 0.1:
            drawn = self.integer(depth)
            if not drawn.is_const:
                return drawn
        return const(self.constant() or 3)

    def integer(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0 or rng.random() < 0.1:
            return const(self.constant()) if rng.random() < 0.3 else rng.choice(self.variables)
        kind = rng.random()
        a = self.integer(depth - 1)
        if kind < 0.08:
            return self._made(rng.choice(_UNARY), a)
        if kind < 0.36:
            return self._made(rng.choice(ops.DIVISIONS), a, self.divisor(depth - 1))
        if kind < 0.5:
            return self._made(ops.MUL, a, const(self.constant()))
        if kind < 0.56:
            return self._made(rng.choice(_SHIFTS), a, const(rng.randint(0, 5)))
        if kind < 0.6:
            return cast(a, rng.choice((3, 8, 32)), rng.random() < 0.5)
        if kind < 0.7:
            return select(self.condition(depth - 1), a, self.integer(depth - 1))
        return self._made(rng.choice(_BINARY), a, self.integer(depth - 1))

    def condition(self, depth: int) -> Cond:
        rng = self.rng
        if depth <= 1 or rng.random() < 0.6:
            op = rng.choice(ops.COMPARISONS)
            return self._held(op, self.integer(min(depth - 1, 2)), self.integer(rng.choice((0, 0, 1))))
        op = rng.choice((ops.AND, ops.OR, ops.NOT))
        parts = [self.condition(depth - 1) for _ in range(1 if op is ops.NOT else 2)]
        return self._held(op, *parts)

    def _made(self, op: ops.Op, *args: Any) -> Expr:
        node: Expr = make(op, args)
        return node

    def _held(self, op: ops.Op, *args: Any) -> Cond:
        node: Cond = make(op, args)
        return node


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


@dataclass(slots=True)
class Finding:
    """A wrong or inexact answer in one case."""

    number: int
    domain: str
    case: str
    what: str
    notes: list[str] = field(default_factory=list)


def cases(count: int, seed: int = 0) -> Iterator[Case]:
    """`count` random cases; case `k` of a seed is the same whatever the count."""
    number, start = 0, as_int(seed, "seed") * 1_000_003
    for attempt in itertools.count():
        if number >= as_int(count, "count"):
            return
        case = draw(number, random.Random(start + attempt))
        if case is not None:
            number += 1
            yield case


def draw(number: int, rng: random.Random) -> Case | None:
    """One case; None for a degenerate draw, such as a division by the constant 0."""
    variables = [Var(name) for name in "ijk"[: rng.choice((2, 2, 3))]]
    room = MAX_POINTS
    ranges: dict[Var, Range] = {}
    for var in variables:
        extent = rng.randint(1, min(24, room))
        room //= extent
        ranges[var] = Range(rng.choice((0, 0, rng.randint(-12, 12))), extent)
    drawing = CaseDrawing(rng, variables)
    try:
        expr = drawing.integer(DEPTH)
        conditions = [drawing.condition(2)] if rng.random() < 0.5 else []
    except InputError:  # a division by the constant 0 came up
        return None
    return Case(number, ranges, conditions, expr, _values(expr, ranges, conditions))


def _values(expr: Expr, ranges: dict[Var, Range], conditions: Sequence[Cond]) -> list[int]:
    values = set()
    spans = []
    for limits in ranges.values():
        ends = limits.constant()
        assert ends is not None
        spans.append(range(ends[0], ends[1] + 1))
    for point in itertools.product(*spans):
        env = dict(zip(ranges, point, strict=True))
        try:
            if all(evaluate(condition, env) for condition in conditions):
                values.add(evaluate(expr, env))
        except EvaluationError:
            continue  # not a point of the domain
    return sorted(values)


def check(case: Case, domains: Sequence[str]) -> tuple[list[Finding], list[Finding]]:
    """(wrong answers of any domain, inexact hulls of `auto`) on one case."""
    wrong: list[Finding] = []
    inexact: list[Finding] = []
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ContradictionWarning)
        ctx = Context(case.ranges, assume=case.conditions)
    if warned and case.values:
        wrong.append(Finding(case.number, "", case.text(), "a contradiction is reported where there is none"))
    for domain in domains:
        bounds = ctx.bounds(case.expr, domain=domain)
        low, high = (int(end) if isinstance(end, Expr) and end.is_const else None for end in bounds)
        what = _bounds_fault(case.values, low, high, bounds)
        what = what or _set_fault(case.values, ctx.value_set(case.expr, domain=domain))
        if what:
            wrong.append(Finding(case.number, domain, case.text(), what, list(bounds.notes)))
        if domain == Config().domain and not _is_hull(case.values, low, high, bounds):
            truth = f"[{case.values[0]}, {case.values[-1]}]" if case.values else "empty"
            inexact.append(Finding(case.number, domain, case.text(), f"{bounds}, truth {truth}", list(bounds.notes)))
    return wrong, inexact


def _bounds_fault(values: list[int], low: int | None, high: int | None, bounds: Any) -> str:
    if not values:
        return ""
    if bounds.is_empty or (low is not None and low > values[0]) or (high is not None and high < values[-1]):
        return f"bounds {bounds} lack a part of [{values[0]}, {values[-1]}]"
    if bounds.is_tight and (low, high) != (values[0], values[-1]):
        return f"bounds {bounds} claim to be tight; the truth is [{values[0]}, {values[-1]}]"
    return ""


def _is_hull(values: list[int], low: int | None, high: int | None, bounds: Any) -> bool:
    return (low, high) == (values[0], values[-1]) if values else bool(bounds.is_empty)


def _set_fault(values: list[int], found: Any) -> str:
    if not values:
        return "claims to be exact and is not empty" if found.is_exact and not found.is_empty else ""
    step = max(1, len(values) // PROBES)
    try:
        missing = [v for v in (*values[::step], values[-1]) if v not in found]
        if missing:
            return f"the set {found} lacks {missing[0]}"
        if not found.is_exact:
            return ""
        holes = sorted({v + side for v in values for side in (-1, 1)} - set(values))
        extra = [v for v in holes[:: max(1, len(holes) // PROBES)] if v in found]
        return f"the set {found} claims to be exact and has {extra[0]}" if extra else ""
    except BudgetError:
        return ""  # membership has no formula within the budget


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
    names = listed(domains, "domains", "a list of names")
    for case in track(cases(count, seed), count, "random expressions"):
        with_values += bool(case.values)
        for total, findings in zip((wrong, inexact), check(case, names), strict=True):
            total += findings
    return {
        "cases": count,
        "seed": seed,
        "not_empty": with_values,
        "domains": list(names),
        "wrong": [asdict(finding) for finding in wrong],
        "inexact": [asdict(finding) for finding in inexact],
    }

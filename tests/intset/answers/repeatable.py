"""Scenes: seeded contexts with questions, and their answers as comparable text.

`python -m tests.intset.answers.repeatable FIRST LAST` prints the answers of a fresh process, after creating many
variables, as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import intset
from intset import Cond, Context, Expr, Range, ShapeVar, Var, const, truncdiv, truncmod
from intset.errors import ContradictionWarning, IntSetError
from intset.testing.contexts import condition, expression

# Small budgets expose leftover state of earlier questions; the default budgets do not.
BUDGETS: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"isl_operations": 1500, "z3_rlimit": 30_000},
    {"isl_operations": 400, "points": 60},
    {"tiers": ("z3",), "z3_rlimit": 60_000},
    {"tiers": ("isl", "z3"), "z3_rlimit": 5_000},
    {"domain": "isl"},
    {"domain": "stride"},
)
PER_SCENE = 10


@dataclass
class Scene:
    """A recipe for equal contexts over the same variables, with questions."""

    ranges: dict[Var, Range]
    facts: list[Cond]
    beside: dict[Var, Range]  # what another context may know besides
    questions: list[Asked] = field(default_factory=list)

    def context(self) -> Context:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictionWarning)
            return Context(self.ranges, assume=self.facts)

    def wider_context(self) -> Context:
        """The context with additional, irrelevant variables and facts."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ContradictionWarning)
            others = [3 * var <= 40 for var in self.beside]
            return Context({**self.beside, **dict(reversed(self.ranges.items()))}, assume=[*others, *self.facts])


def scene(seed: int) -> Scene:
    """The scene with this number; its variables are new ones every time."""
    rng = random.Random(seed)
    i, j, k = (Var(name) for name in "ijk")
    n, m = ShapeVar("n", lower=rng.choice((0, 1))), ShapeVar("m", lower=1)
    ranges = {
        i: Range(rng.randint(-3, 3), rng.randint(1, 12)),
        j: rng.choice((Range(0, rng.randint(1, 9)), Range(0, i + 2), Range(i, 3))),
        k: rng.choice((Range(0, n), Range(0, rng.randint(1, 6)), Range(n, m))),
    }
    beside = {Var("u"): Range(0, 5), Var("v"): Range(2, 3)}
    facts = [condition(rng, [i, j, k], 2) for _ in range(rng.choice((0, 1, 1, 2)))]
    found = Scene(ranges, facts, beside)
    found.questions = [question(rng, [i, j, k, n, m]) for _ in range(PER_SCENE)]
    return found


def question(rng: random.Random, variables: list[Var]) -> Asked:
    if rng.random() < 0.2:
        return Asked(_Proof(hard(rng, *rng.sample(variables, 2))), rng.choice(BUDGETS))
    make = rng.choice((_Bounds, _Set, _Image, _Proof, _Proof, _Simple))
    if make is _Proof:
        return Asked(_Proof(condition(rng, variables, 3)), rng.choice(BUDGETS))
    parts = [expression(rng, variables, 3) for _ in range(2 if make is _Image else 1)]
    return Asked(make(*parts), rng.choice(BUDGETS))


def hard(rng: random.Random, x: Var, y: Var) -> Cond:
    """Goals that no tier but z3's has a chance to decide."""
    c, d = const(rng.randint(2, 32)), const(rng.randint(2, 9))
    goals = (
        truncmod(y * x * c * x * y, x * y).eq(0),
        (x * c * x % (x * y)).eq(x * c % y * x),
        (y * x * c * (x * y) % (d * x * y)).eq(x * y * (c // 2) % (d // 2 + 1) * (x * y * 2)),
        x * x + y * y >= 2 * x * y,
        (x * x + d * y * y).ne(c * d + 3),
        ((x * y + c) // d) * d <= x * y + c,
        truncdiv(x * y * c, d * y).eq(truncdiv(x * c, d)),
        (x & y) <= x + abs(y) * d,
        (x | y) * (x & y) <= x * y + c,
    )
    return rng.choice(goals)


class _Bounds:
    def __init__(self, e: Expr) -> None:
        self.e = e

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.e})"

    def __call__(self, ctx: Context) -> str:
        found = ctx.bounds(self.e)
        return f"{found} {found.is_tight} {found.notes} {found.by}"


class _Set(_Bounds):
    def __call__(self, ctx: Context) -> str:
        found = ctx.value_set(self.e)
        return f"{found.describe()} {found.is_tight} {found.is_exact} {found.is_empty} {found.notes}"


class _Simple(_Bounds):
    def __call__(self, ctx: Context) -> str:
        return str(ctx.simplify(self.e))


class _Image:
    def __init__(self, *exprs: Expr) -> None:
        self.exprs = exprs

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.exprs})"

    def __call__(self, ctx: Context) -> str:
        found = ctx.image(self.exprs)
        return f"{found.box} {found.is_exact} {found.is_empty} {found.count()}"


class _Proof:
    def __init__(self, goal: Cond) -> None:
        self.goal = goal

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.goal})"

    def __call__(self, ctx: Context) -> str:
        found = ctx.prove(self.goal)
        point = found.counterexample and [(str(var), value) for var, value in found.counterexample.items()]
        return f"{found.status} {found.by} {found.vacuous} {found.reason} {point} {found.requires}"


@dataclass(frozen=True)
class Asked:
    """A question under some budgets; its answer, or refusal, as text."""

    ask: Callable[[Context], str]
    budgets: dict[str, Any]

    def __call__(self, ctx: Context) -> str:
        with intset.using(**self.budgets):
            try:
                return self.ask(ctx)
            except IntSetError as refusal:
                return f"{type(refusal).__name__}: {refusal}"


def alone(seed: int) -> list[str]:
    """Answers to all questions of a scene, each in a fresh scene."""
    found = []
    for number in range(PER_SCENE):
        fresh = scene(seed)
        found.append(fresh.questions[number](fresh.context()))
    return found


def answers(of: Scene, ctx: Context, order: Iterable[int] = range(PER_SCENE)) -> list[str]:
    """Answers listed by question number, computed in the given order."""
    found = {number: of.questions[number](ctx) for number in order}
    return [found[number] for number in range(PER_SCENE)]


def main() -> None:
    first, last = map(int, sys.argv[1:])
    kept = [Var("other") for _ in range(5_000)]
    found = []
    for seed in range(first, last + 1):
        fresh = scene(seed)
        found.append(answers(fresh, fresh.context(), reversed(range(PER_SCENE))))
    print(json.dumps(found))
    del kept


if __name__ == "__main__":
    main()

"""Scenes: seeded contexts with questions, and their answers as comparable text.

`python -m tests.intset.answers.repeatable answers FIRST LAST` prints the answers of a fresh process, after creating
many variables, as JSON. `... interrupted SEED TRIES` interrupts questions at random lines of the program or its
libraries, then repeats each, and asks another; it prints answers that changed. Each try forks a process before any
import, so that interrupts may hit the first import of islpy or z3.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import intset
from intset import Cond, Context, Expr, Range, ShapeVar, Var, const, truncdiv, truncmod
from intset.errors import ContradictionWarning, IntSetError
from intset.testing.contexts import condition, expression
from tests import ROOT
from tests.intset.elsewhere import forked

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
        return quietly(self.ranges, self.facts)

    def wider_context(self) -> Context:
        """The context with additional, irrelevant variables and facts."""
        others = [3 * var <= 40 for var in self.beside]
        return quietly({**self.beside, **dict(reversed(self.ranges.items()))}, [*others, *self.facts])


def quietly(ranges: dict[Var, Range], facts: list[Cond]) -> Context:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)
        return Context(ranges, assume=facts)


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
        return Asked(proof, (hard(rng, *rng.sample(variables, 2)),), rng.choice(BUDGETS))
    ask = rng.choice((bounds, value_set, image, proof, proof, simple))
    if ask is proof:
        return Asked(proof, (condition(rng, variables, 3),), rng.choice(BUDGETS))
    parts = tuple(expression(rng, variables, 3) for _ in range(2 if ask is image else 1))
    return Asked(ask, parts, rng.choice(BUDGETS))


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


def bounds(ctx: Context, e: Expr) -> str:
    found = ctx.bounds(e)
    return f"{found} {found.is_tight} {found.notes} {found.by}"


def value_set(ctx: Context, e: Expr) -> str:
    found = ctx.value_set(e)
    return f"{found.describe()} {found.is_tight} {found.is_exact} {found.is_empty} {found.notes}"


def simple(ctx: Context, e: Expr) -> str:
    return str(ctx.simplify(e))


def image(ctx: Context, *exprs: Expr) -> str:
    found = ctx.image(exprs)
    return f"{found.box} {found.is_exact} {found.is_empty} {found.count()}"


def proof(ctx: Context, goal: Cond) -> str:
    found = ctx.prove(goal)
    point = found.counterexample and [(str(var), value) for var, value in found.counterexample.items()]
    return f"{found.status} {found.by} {found.vacuous} {found.reason} {point} {found.requires}"


@dataclass(frozen=True)
class Asked:
    """A question under some budgets; its answer, or refusal, as text."""

    ask: Callable[..., str]
    about: tuple[Any, ...]
    budgets: dict[str, Any]

    def __call__(self, ctx: Context) -> str:
        with intset.using(**self.budgets):
            try:
                return self.ask(ctx, *self.about)
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


def print_answers(first: int, last: int) -> int:
    kept = [Var("other") for _ in range(5_000)]
    found = []
    for seed in range(first, last + 1):
        fresh = scene(seed)
        found.append(answers(fresh, fresh.context(), reversed(range(PER_SCENE))))
    print(json.dumps(found))
    del kept
    return 0


FOLDERS = (str(ROOT / "intset"), f"{os.sep}islpy{os.sep}", f"{os.sep}z3{os.sep}")
FIRST_LINES = 9_000  # of what a question runs, the imports of libraries included


def every_question() -> list[Callable[[], str]]:
    found: list[Callable[[], str]] = []
    for fresh in map(scene, range(2)):
        found += [partial(one, fresh.context()) for one in fresh.questions]
    return found


def interrupted(ask: Callable[[], str], at: int) -> None:
    """Run `ask` with an interrupt at line number `at`, if execution reaches it."""
    lines = 0

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        if lines == at and event == "line":
            raise KeyboardInterrupt
        return within

    def entered(frame: FrameType, _: str, __: Any) -> Any:
        return within if any(folder in frame.f_code.co_filename for folder in FOLDERS) else None

    sys.settrace(entered)
    try:
        ask()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)


def print_changed(seed: int, tries: int) -> int:
    warnings.simplefilter("ignore")
    truth = forked(lambda: [ask() for ask in every_question()])
    wrong = 0
    for number in range(seed, seed + tries):
        rng = random.Random(number)
        k, other = rng.randrange(len(truth)), rng.randrange(len(truth))
        places = [rng.randrange(1, rng.choice((FIRST_LINES, 90))) for _ in range(rng.choice((1, 1, 2)))]

        def again(k: int = k, other: int = other, places: list[int] = places) -> list[str]:
            asked = every_question()
            for place in places:
                interrupted(asked[k], place)
            return [asked[k](), asked[other]()]

        found = forked(again)
        if found != [truth[k], truth[other]]:
            wrong += 1
            print(f"{number}: {k} interrupted at {places}, then {other}: {found}, not {truth[k], truth[other]}")
    return wrong


if __name__ == "__main__":
    mode, *numbers = sys.argv[1:]
    sys.exit({"answers": print_answers, "interrupted": print_changed}[mode](*map(int, numbers)) > 0)

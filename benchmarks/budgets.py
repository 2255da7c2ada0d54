"""What questions take that exhaust their budgets: `python -m benchmarks.budgets [SEED] [QUESTIONS]`.

Hostile questions are drawn at random (ranges that depend on others, chains of remainders and quotients, nested choices
and casts, products of sizes) and asked in every way a context answers. Those over a second of processor time are
listed, and the command fails. The defaults in `intset.budgets` are chosen so that there are none.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from intset import Context, Expr, Range, ShapeVar, Var, cast, maximum, minimum, select
from intset.errors import IntSetError
from lowering import lower_division

LIMIT = 1.0  # seconds of processor time

Asked = Callable[[], object]


def hostile_context(rnd: random.Random) -> tuple[Context, list[Var]]:
    """A context over 2 to 6 variables, and its variables with a size."""
    n, m = ShapeVar("n"), ShapeVar("m", lower=1, upper=64)
    ranges: dict[Var, Range] = {}
    for k in range(rnd.choice((2, 3, 4, 6))):
        outer = rnd.choice(list(ranges)) * rnd.randrange(1, 4) + rnd.randrange(3) if ranges else n + 1
        ranges[Var(f"v{k}")] = rnd.choice(
            (Range(0, 4), Range(0, 16), Range(0, 100), Range(0, n), Range(0, n * m), Range(outer, 7), Range(outer, 5))
        )
    return Context(ranges), [*ranges, n]


def hostile_expression(rnd: random.Random, variables: list[Var], depth: int) -> Expr:
    """An expression nested `depth` deep."""
    if not depth:
        return rnd.choice(variables) * rnd.randrange(1, 4)
    inner = hostile_expression(rnd, variables, depth - 1)
    divisor = rnd.randrange(2, 60)

    def other() -> Expr:
        return hostile_expression(rnd, variables, depth - 1)

    kinds: tuple[Callable[[], Expr], ...] = (
        lambda: inner % divisor,
        lambda: inner % divisor,
        lambda: (inner * rnd.randrange(1, 5) + rnd.choice(variables)) // divisor,
        lambda: (inner * rnd.randrange(1, 5) + rnd.choice(variables)) // divisor,
        lambda: minimum(inner, other()),
        lambda: maximum(inner, other() + 1),
        lambda: select(inner % 3 < 2, inner, other()),
        lambda: inner + other(),
        lambda: cast(inner, rnd.choice((8, 16, 32))),
    )
    return rnd.choice(kinds)()


def questions(ctx: Context, variables: list[Var], rnd: random.Random) -> Iterator[tuple[str, Asked]]:
    """The ways to ask about three hostile expressions."""
    e, f, g = (hostile_expression(rnd, variables, depth) for depth in (rnd.choice((2, 3, 4)), 2, 1))
    yield f"bounds of {e}", lambda: ctx.bounds(e)
    yield f"count of {e}", lambda: ctx.value_set(e).count()
    yield f"lexmin of {e}, {f}", lambda: ctx.image((e, f)).lexmin()
    yield f"lexmax of {f}, {e}", lambda: ctx.image((f, e)).lexmax()
    yield f"proof of {e} < {f} + 3", lambda: ctx.prove(e < f + 3)
    yield f"proof of a junction of {e}, {f}, {g}", lambda: ctx.prove((e < f) | (g > 2) & f.ne(3))
    yield f"simplified {e} + {f}", lambda: ctx.simplify(e + f)
    yield f"narrowed {e} > {f} | {g} == 1", lambda: ctx.narrow((e > f) | g.eq(1), [variables[0]])
    yield f"explained {e} < {f} + 3", lambda: ctx.explain(e < f + 3)
    yield f"lowered divisions of {e}", lambda: lower_division(e, ctx, bits=32)


def seconds(ask: Asked) -> float:
    """Processor seconds of a question; a refusal is an answer."""
    start = time.process_time()
    with suppress(IntSetError):
        ask()
    return time.process_time() - start


def main(seed: int, count: int) -> int:
    rnd = random.Random(seed)
    slowest, slow, asked = 0.0, 0, 0
    for _ in range(count):
        ctx, variables = hostile_context(rnd)
        for text, ask in questions(ctx, variables, rnd):
            spent = seconds(ask)
            slowest, asked = max(slowest, spent), asked + 1
            if spent > LIMIT:
                slow += 1
                print(f"{spent:.2f} s: {text} in {ctx}", flush=True)
    print(f"{asked} questions, {slow} over {LIMIT} s, the slowest {slowest:.2f} s")
    return 1 if slow else 0


if __name__ == "__main__":
    seed, count = [*map(int, sys.argv[1:3]), 0, 100][:1] + [*map(int, sys.argv[2:3]), 100][:1]
    sys.exit(main(seed, count))

"""The time of questions that exhaust their budgets: `python -m benchmarks.budgets [SEED] [QUESTIONS]`.

Hostile questions are drawn at random (ranges that depend on others, chains of remainders and quotients, nested choices
and casts, products of sizes) and asked in every way a context answers. The same expressions become indices and guards
of schedules and loop nests, which are bounded, lowered, passed through every pass and given other layouts. Questions
over a second of processor time are listed, and the command fails.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import lowering
from benchmarks.passes import PASSES
from bound import infer_bound, te
from intset import Context, Expr, Range, ShapeVar, Var, cast, maximum, minimum, select
from intset.errors import IntSetError
from lowering import IndexMap, lower, lower_division, pad_options, parse_nest, to_c

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


def schedules(rnd: random.Random) -> Iterator[tuple[str, Asked]]:
    """Bounds, nest and C of two stages, the first computed inside a loop of the second."""
    rows: Expr | int = rnd.choice((te.size_var("n"), 64, 100))
    source = te.placeholder((rows, 64), name="A")
    divisor, factor, offset = rnd.randrange(2, 9), rnd.choice((3, 4, 8)), rnd.randrange(3)
    first = te.compute((rows, 64), lambda i, j: source[i, (j * 3 + offset) % 64], name="B")
    reads: tuple[Callable[[Expr, Expr], tuple[Expr, Expr]], ...] = (
        lambda i, j: (i, (i * 5 + j) % divisor),
        lambda i, j: (minimum(i + offset, rows - 1), j // divisor * 2),
        lambda i, j: ((i * 3 + j) // divisor % 8, minimum(j + offset, 63)),
        lambda i, j: (select(i % divisor < 2, i, i // 2), j),
    )
    read = rnd.choice(reads)
    second = te.compute((rows, 64), lambda i, j: first[read(i, j)] + first[i, j], name="C")

    def scheduled() -> te.Schedule:
        s = te.create_schedule(second.op)
        outer, inner = s[second].split(second.op.axis[0], factor=factor)
        flat = s[second].fuse(inner, second.op.axis[1]) if rnd_fuses else second.op.axis[1]
        s[first].compute_at(s[second], flat if rnd_inner else outer)
        return s

    rnd_fuses, rnd_inner = rnd.random() < 0.5, rnd.random() < 0.5
    text = f"stages of {rows} rows, read {first[read(Var('i'), Var('j'))]}, split by {factor}, {rnd_fuses}, {rnd_inner}"
    yield f"bounds of {text}", lambda: infer_bound(scheduled())
    yield f"nest of {text}", lambda: lower(scheduled(), [source, second])
    yield f"C of {text}", lambda: to_c(lower(scheduled(), [source, second]))


def nests(rnd: random.Random) -> Iterator[tuple[str, Asked]]:
    """Every pass over a nest with guards, and its versions in another layout."""
    i, j = Var("i"), Var("j")
    e, f = (hostile_expression(rnd, [i, j], depth) for depth in (2, 1))
    end = rnd.choice(("n", "12"))
    text = f"""def f(A: int32[16, 16], B: int32[16, 16], n):
    for i in [0, {end}):
        for j in [0, 12):
            if ({e}) % {rnd.randrange(3, 9)} < 2:
                A[({f}) % 16, j] = B[j, ({e}) % 16] + 1
            if i < {rnd.choice(("n - 2", "j", "9"))}:
                B[j, ({f}) % 16] = A[({e}) % 16, j]
"""
    for name in PASSES:
        yield f"{name} of\n{text}", lambda name=name: getattr(lowering, name)(parse_nest(text))
    size, block = rnd.choice((6, 10, 20)), rnd.choice((4, 8, 16))
    product = parse_nest(f"""def f(A: float32[{size}, 7], B: float32[{size}, 7]):
    for y in [0, {size}):
        for x in [0, 7):
            B[y, x] = 0.0
            for r in [0, {size}):
                B[y, x] = B[y, x] + A[r, x]
""")
    layout = IndexMap(lambda y, x: [y // block, x, y % block], (size, 7))
    yield (
        f"options of a product of {size} rows in blocks of {block}",
        lambda: pad_options(product, {"A": layout, "B": layout}),
    )


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
        asked_of = [(f"{text} in {ctx}", ask) for text, ask in questions(ctx, variables, rnd)]
        for text, ask in (*asked_of, *schedules(rnd), *nests(rnd)):
            spent = seconds(ask)
            slowest, asked = max(slowest, spent), asked + 1
            if spent > LIMIT:
                slow += 1
                print(f"{spent:.2f} s: {text}", flush=True)
    print(f"{asked} questions, {slow} over {LIMIT} s, the slowest {slowest:.2f} s")
    return 1 if slow else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.budgets", description="questions that spend budgets")
    parser.add_argument("seed", type=int, nargs="?", default=0, help="of the first context; 0 if it is missing")
    parser.add_argument("questions", type=int, nargs="?", default=100, help="number of contexts; 100 if it is missing")
    options = parser.parse_args()
    sys.exit(main(options.seed, options.questions))

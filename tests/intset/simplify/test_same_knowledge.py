"""`simplify` and `lower_division` know what the linear tier and the domains' tables decide, on random contexts."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

import intset
from intset import Context, Expr, Range, ShapeVar, Var, ceildiv, const, maximum, minimum
from lowering import lower_division

SEEDS = range(240)
STRUCTURAL = ("interval", "stride", "modular")


def question(seed: int):
    """A drawn context, conditions, and expressions."""
    rng = random.Random(seed)
    low, high, step = rng.choice((0, 1)), rng.choice((None, 100)), rng.choice((1, 1, 4))
    n, k = ShapeVar("n", lower=low, upper=high, multiple_of=step), ShapeVar("k", lower=1)
    x, i, j = Var("x"), Var("i"), Var("j")
    ranges = {
        i: rng.choice((Range(0, n), Range(0, 8), Range(1, n))),
        j: rng.choice((Range(0, 4), Range(0, k), Range(0, ceildiv(n, 4)))),
    }
    stated = ((x % 8).eq(0), (n % 4).eq(0), i * 4 + j < n, i <= j, n >= 8, x >= 0, (x % 8).eq(3), n.eq(k * 4), x < n)
    facts = rng.sample(stated, rng.choice((0, 1, 2, 3)))

    def leaf():
        e = rng.choice((i, j, n, k, x, i * 4 + j, i + j, x + 3, n - i, i - j, x - i))
        return e * rng.choice((1, 1, 2, 4, -1)) + rng.choice((0, 0, 1, -1, 3, 8))

    def drawn(depth: int):
        if not depth:
            return leaf()
        a, b, c = drawn(depth - 1), drawn(depth - 1), rng.choice((2, 4, 8))
        return rng.choice((a + b, a - b, a // c, a % c, minimum(a, b), maximum(a, b), a // 4 * 4))

    def compared():
        a, b = drawn(rng.choice((0, 0, 1))), drawn(0)
        return rng.choice((a < b, a <= b, a.eq(b), a.ne(b), a >= 0, (a % 4).eq(0)))

    conditions = [compared() for _ in range(4)]
    quotients = [rng.choice((e // 4, e % 4, e // 8, e % 2)) for e in (drawn(1), drawn(0), drawn(1))]
    return Context(ranges, assume=facts), conditions, quotients


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_what_the_linear_tier_decides_simplify_writes():
    decided, missed = 0, []
    for seed in SEEDS:
        ctx, conditions, _ = question(seed)
        if ctx.contradiction or ctx.frame.known.empty:
            continue
        for cond in conditions:
            with intset.using(tiers=("linear",)):
                value = "True" if ctx.prove(cond) else "False" if ctx.prove(~cond) else None
            if value is not None:
                decided += 1
                if str(ctx.simplify(cond)) != value:
                    missed.append((seed, cond, value))
    assert decided > 200
    assert len(missed) <= decided // 100, missed


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_what_the_tables_give_as_one_value_is_that_number():
    decided, missed = 0, []
    for seed in SEEDS:
        ctx, _, quotients = question(seed)
        if ctx.contradiction or ctx.frame.known.empty:
            continue
        for e in quotients:
            values = set()
            for domain in STRUCTURAL:
                low, high = ctx.bounds(e, domain=domain)
                if isinstance(low, Expr) and low is high and low.is_const:
                    values.add(int(low))
            if values:
                (value,) = values
                decided += 1
                found = ctx.simplify(e), lower_division(e, ctx).expr
                if any(answer is not const(value) for answer in found):
                    missed.append((seed, e, value, *found))
    assert decided > 30
    assert len(missed) <= decided // 20, missed


def test_no_library_answers_for_them():
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from tests.intset.simplify.test_same_knowledge import question, lower_division\n"
        "for seed in range(40):\n"
        "    ctx, conditions, quotients = question(seed)\n"
        "    for e in (*conditions, *quotients): ctx.simplify(e)\n"
        "    for e in quotients: lower_division(e, ctx)\n"
        "print([name for name in ('islpy', 'z3') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

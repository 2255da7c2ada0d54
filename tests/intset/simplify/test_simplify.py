"""`simplify`: what a reader expects of each kind, never dearer, left alone the second time, equal by enumeration.

Conditions narrowed to kept variables, and equations solved.
"""

import itertools
import random
from functools import reduce
from itertools import product
from typing import Any

import pytest

import intset
from intset import (
    COST,
    Context,
    Expr,
    Range,
    ShapeVar,
    Var,
    cast,
    const,
    cost,
    evaluate,
    maximum,
    minimum,
    parse,
    select,
    truncdiv,
    truncmod,
)
from intset.expr.build import opaque
from intset.expr.node import Cond, truth
from intset.linear.form import constant
from intset.linear.signs import is_refuted
from intset.simplify import Pricing, choices, engine
from intset.simplify.engine import SIMPLIFY_STEPS, Simplifier, run
from tests import ROOT
from tests.intset.elsewhere import ran
from tests.intset.oracle import simplified
from tests.strategies.contexts import EVERY, Drawn, Expressions
from tests.strategies.refusals import refused
from tests.sweeps import daily

w, x, y, z, o = (Var(name) for name in "wxyzo")
n = ShapeVar("n", lower=1)
i = Var("i")
FREE = Context({i: Range(0, n * n)})

PAIRS: list[tuple[Any, Any]] = [
    (minimum(maximum(x, y), x), x),
    (minimum(minimum(13 - o * 5, 5), 13 - o * 5), minimum(13 - o * 5, 5)),
    (minimum(x, y - z) + z, minimum(x + z, y)),
    (minimum(x * 4, y * 4), minimum(x, y) * 4),
    (maximum(x, y) + minimum(x, y), x + y),
    (minimum(maximum(minimum(x + 1, z), y), maximum(minimum(x - 1, z), y)), maximum(minimum(x - 1, z), y)),
    ((x < y) & (y <= x), intset.expr.node.truth(False)),
    ((x < y) | (x >= y), intset.expr.node.truth(True)),
    ((x < 10) & (x < 20), x < 10),
    ((x // 8).eq(3) & (x % 8).eq(4), x.eq(28)),
    (x // 4 < 3, x < 12),
    (o * 32 <= y + o * 32 - 10, y >= 10),
    (x < y, x < y),
    (x * 32 * x % (x * y), x * 32 % y * x),
    (x * 2 * x * y // (4 * x * x * x), y // (x * 2)),
    (truncdiv(x * 2 * y * 3, 3 * y), x * 2),
    (truncdiv(truncdiv(x, 2), 3), truncdiv(x, 6)),
    (truncdiv(x, x), intset.const(1)),
    (x - truncdiv(x, 3) * 3, truncmod(x, 3)),
    (x % 2 + (x + 1) % 2, intset.const(1)),
    (truncmod(x, 8) * (y + 10), truncmod(x, 8) * (y + 10)),
    (i % (n * n), i),
    (minimum(x, 11) < 10, x < 10),
    (x + 1 < maximum(8, x), x < 7),
    (select(x < 0, y, 0) + select(x < 0, 1, z), select(x < 0, y + 1, z)),
    (minimum(x, y).eq(y), y <= x),
    (minimum(x, y) < y, x < y),
    ((x <= y) & x.ne(y), x < y),
    ((x < y) | x.eq(y), x <= y),
    (~((x < y) & (y < z)), (x >= y) | (y >= z)),
    (maximum(0, 1 - x * 4) + x * 4, maximum(x * 4, 1)),
]


@pytest.mark.parametrize(("e", "expected"), PAIRS, ids=[str(e) for e, _ in PAIRS])
def test_by_kind(e: Any, expected: Any) -> None:
    assert FREE.simplify(e) is expected


def test_no_type_is_wider_and_no_condition_false_without_need() -> None:
    word = Range(-(1 << 31), 1 << 32)
    ctx = Context(dict.fromkeys((x, y, z), word))
    e = minimum(x, y - z) + z
    assert ctx.simplify(e) is minimum(x + z, y)
    assert ctx.simplify(e, bits=32) is e
    small = Context({v: Range(0, 100) for v in (x, y, z)})
    assert small.simplify(e, bits=32) is minimum(x + z, y)
    i, k = Var("i"), Var("k")
    held = opaque("buf[i]")
    answer = Context({k: Range(0, 8)}).narrow((held > 0) | (i <= k), [i])
    for value in range(-3, 10):
        found = evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), value))
        assert found <= (value <= 0)  # whatever is in the buffer
    answer = Context({y: Range(0, n)}).narrow(x + y < 10, [x])
    assert answer.cond.data is False and not answer.is_exact and answer.notes


def test_cost_is_of_the_tree_by_weights_that_choose() -> None:
    e = x // 2 + y
    assert cost(e) == COST["floordiv"] + COST["add"]
    assert cost(e * e, {"floordiv": 1}) == 5
    assert cost(7) == cost(x) == 0
    tower: Any = x
    for _ in range(200):
        tower = tower + tower
    assert cost(tower) == 2**200 - 1
    e = x * y + x * z
    assert Context().simplify(e) is (y + z) * x
    assert Context().simplify(x // 4 < y, cost={"mul": 100}) is (x // 4 < y)
    with pytest.raises(TypeError):
        COST["add"] = 2


REFUSED: dict[str, Any] = {
    **{
        f"the weights {table} of {f.__name__}": lambda f=f, e=e, table=table: f(e, table)
        for f, e in ((Context().simplify, x + x), (cost, x))
        for table in ({"division": 2}, {"add": 0}, {"add": 1.5}, {"add": True}, ["add"])
    },
    **{f"{keep} as variables": lambda keep=keep: Context().narrow(x < 3, keep) for keep in ("x", {x}, [3], 7)},
    **{
        f"{cond} as an equation": lambda cond=cond: Context().solve_equations([cond], [x, y])
        for cond in (x < 3, (x * y).eq(3), (x // 2).eq(3))
    },
}
test_what_is_none_is_refused = refused(REFUSED)


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(20_000), 350))
def test_random(seed: int) -> None:
    drawn = Drawn(
        seed, f"{EVERY} loads", "box box sized", variables=3, sizes=1, depth=3, facts=25, shared=seed % 3 * 20
    )
    for e in (drawn.exprs[0], drawn.goals[-1]):
        new = simplified(e, drawn.ctx, itertools.islice(drawn.points(), 60))
        assert drawn.ctx.simplify(new) is new


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("seed", daily(range(3_000), 40))
def test_members_refute_nothing_that_is_known(seed: int) -> None:
    drawn = Drawn(seed, f"{EVERY} loads", variables=3, facts=25)
    known = drawn.ctx.frame.known
    for _ in range(8):
        form = known.form(drawn.expressions.integer(2))
        low, _ = known.bounds(form)
        if low is not None:
            assert known.empty or not is_refuted(known, form.minus(constant(low)))


def test_deep_chains_and_forms_that_outgrow_a_comparison() -> None:
    variables = [Var(f"x{k}") for k in range(1500)]
    ctx = Context({v: Range(-k, 9) for k, v in enumerate(variables)})
    chain = reduce(minimum, variables)
    assert ctx.canonical(chain + 1) is ctx.simplify(chain + 1) is chain + 1
    assert tuple(ctx.bounds(chain + 1)) == (const(-1498), const(-1490))
    turns = reduce(lambda e, v: maximum(minimum(e, v) + 1, v - 9), variables)
    assert str(ctx.canonical(turns - 1)).count("minimum") == len(variables) - 1
    e: Any = x
    for k in range(1_000):
        e = (e + k) * y
    new = Context().simplify(e)
    assert Pricing().price(new) <= Pricing().price(e)
    # The guard of a tiled convolution: its comparisons written as linear forms are twice as long.
    a, b, c, d, f = (Var(name) for name in "abcdf")
    ranges = {a: Range(0, 27), b: Range(0, 16), c: Range(0, 8), d: Range(0, 9), f: Range(0, 4)}
    row, column = a * 32 + b * 2 + c // 4, d * 16 + (c * 4 + f) % 16
    high = row // 29 + column % 9 // 3
    guard = (row < 841) & (high >= 1) & (high < 30) & (row % 29 + column % 3 >= 1)
    simplifier = Simplifier()
    assert cost(run(simplifier, guard, Context(ranges).frame.known)) < cost(guard)
    assert SIMPLIFY_STEPS - simplifier.steps_left < 300


# -- the budget of comparisons that the parts of one simplification share ----------------------------------------------

RANGES = {x: Range(0, 5), y: Range(0, 4), z: Range(-2, 5)}


@pytest.mark.parametrize("seed", daily(range(60), 4))
def test_a_simplification_keeps_to_its_comparisons(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However few they are, the result is equal and no dearer; with enough, it is that without a limit."""
    parts = Expressions(random.Random(seed), (x, y, z), "sums quotients choices")
    cond = parts.integer(2) <= parts.integer(2)
    for _ in range(4):
        other = parts.integer(2) < parts.integer(2)
        cond = parts.rng.choice((cond & other, cond | other))
    known = Context(RANGES).frame.known
    examined = [0]
    sign = choices.OrderDecider._is_nonneg

    def counted(self: choices.OrderDecider, form: object, left: list[int], depth: int) -> bool:
        examined[0] += left[0] > 0
        return sign(self, form, left, depth)  # type: ignore[arg-type]

    monkeypatch.setattr(choices.OrderDecider, "_is_nonneg", counted)
    results = {}
    for most in (0, 4, 40, 100_000, None):
        examined[0] = 0
        results[most] = new = engine.simplified(cond, known, compared=most)
        assert most is None or examined[0] <= most
        assert Pricing().price(new) <= Pricing().price(cond)
        for point in product(range(5), range(4), range(-2, 3)):
            values = dict(zip((x, y, z), point, strict=True))
            assert evaluate(new, values) == evaluate(cond, values), (cond, new, values)
    assert results[100_000] is results[None] and examined[0] > 0


WINDOWS = {1: range(-13, 14), 2: range(-7, 8), 3: range(-3, 4), 4: (-2, 0, 1, 2)}

JUNCTIONS: list[Any] = [
    # dropped or reordered parts may guard the parts between
    (x < z) & (x < y) & (x // y > -9) & (y < z), (x < z) & (x // y > -9) & (x < y) & (y < z),
    (x < 3) & (x // y > -9) & (x < 2), (x >= 3) | (x // y > 9) | (x >= 2),
    ((x < y) | (x < z)) & (y > 0) & ((x < y) | (z // y > 2)), (x >= 0) & (x < 3) & (6 // x > 2),
    # digits
    (x // 4).eq(y) & (z < 2) & (x % 4).eq(w), (x // 3).eq(y) & (x % 3).eq(z), (x // 4).ne(y // 4) & ((x - y) % 4).ne(0),
    (x // 4).eq(y // 4) & ((x - y) % 4).eq(0), (x // 4).eq(y // 4) & ((x - y) % 4).eq(1),
    (x // 4).eq(y // 4) & ((x + y) % 4).eq(0), (x // 4).eq(y // 4) & ((x - y) % 3).eq(0),
    # remainders
    (x % 6).eq(1) | (x % 6).eq(2), (x % 6).eq(1) | (x % 6).eq(4), (x % 4).eq(1) & (x % 6).eq(2),
    (x % 4).eq(1) & (x % 6).eq(3), (x % 4).ne(1) | (x % 6).ne(5), ((x * 3 + 5) % 2) < 1, ((x * 3 + 4) % 2) < 1,
    ((x * 3 + y + 4) % 2) >= 1, *(((x + k) % 3).eq(r) for k in (1, 2) for r in (0, 2)), ((x * 2 + y + 1) % 5).ne(3),
    # choices that are compared
    *(
        cond
        for choice in (minimum(x, 3), maximum(x, 3), select(x < 0, 9, y), select(x < 0, y, 9), select(x < 0, -9, y))
        for k in (2, 5)
        for cond in (choice < k, choice >= k, k < choice, k >= choice)
    ),
]  # fmt: skip
CHOICES: list[Any] = [
    select(x.eq(0), 0, x * (y // z)), select((x * 2).eq(y), x * 3, z), select(x.eq(x // 2 + y), x, z),
    select(x.ne(y + 1), x * 2, y * 2),
    *(
        select(cond, x * k + d, y * k)
        for a in (0, 1)
        for cond in (x < y + a, x <= y + a, x > y + a, x >= y + a)
        for k in (1, -2)
        for d in (-1, 0, 1, 2)
    ),
]  # fmt: skip
INTEGERS: list[Any] = [
    # quotients and remainders
    x % 6 - x % 6 // 4 * 4, x % 6 - x % 6 // 3 * 3, x % -6 - x % -6 // 3 * 3, -4 - x % -3,
    *(k - x % 4 for k in (2, 3, 4)), *(x % 4 - k for k in (2, 3)), truncdiv(x, 3) - x // 3, x - truncdiv(x, 3) * 3,
    truncmod(x, 3) + x // 3 * 3, x % 2 + (x + 2) % 2, x % 2 + (x + y + 1) % 2, x % 2 + (x * 3 + 1) % 2,
    (x + 1) // 3 - x // 4, (x + 5) // 3 - x // 3, x // 3 + (x + 4) // 3 + (x + 2) // 3,
    x // 3 + (x + 3) // 3 + (x + 2) // 3, x - (x + 2) // 2, x - (x + 1) // 2, x // 3 * y + x % 3, 4 - (x + 1) // 3,
    # bounds
    minimum(x * -2, y * 2), minimum(x * -2, y * -2), maximum(x, 1 - x), minimum(x, -x), maximum(x - y, y - x),
    minimum(x * 2 + 1, y * 2), minimum(minimum(x + 1, z), y + 1), minimum(minimum(x, z) + 1, x),
    maximum(minimum(x, z) * -1, -x),
    # sums of choices
    minimum(x, y) * 2 + maximum(x, y), minimum(x, y) + maximum(x, z), maximum(x, y) - minimum(x, y),
    minimum(x, y) - maximum(x, y), minimum(x, y) + maximum(3 - x, 3 - y), minimum(x, y) + maximum(3 - x, 4 - y),
    minimum(x, y) + minimum(-x, -y), minimum(minimum(x, y), z) + maximum(-x, -y), abs(x - y) + minimum(x, z),
    abs(x - y) + minimum(x, y), abs(x - y) - maximum(x, y) * 2, minimum(minimum(x + z, y), 3) - z,
    minimum(minimum(x - z, y), 3) - z, z - minimum(x + z, y) * 2, select(x < y, z, 1) + select(x >= y, 2, z),
    select(x < y, z, 1) + select(x <= y, 2, z), select(x < 0, y + 1, z) * -2 + y * 2,
    # factors
    minimum(x, y) // -2, minimum(x, y) // 2, (x * 4 + 3) // 6, (x * 2 - 3) // 4, (x * 7 + y * 5 + 9) % 4,
    (x * z) // (y * z), (x * z) % (y * z), (x * 6) // -4, (x * 6) % -4, x * z // -z, x * z % z,
    # bits
    (x * 4 + y) & 3, (x * 4 + y) & 4, (x * 4 + y) & -2, (x * 4 + 6) & 2, cast(cast(x, 4), 3), cast(cast(x, 3), 4),
    cast(x, 3) + cast(x, 5),
]  # fmt: skip
IN_RANGES: list[tuple[Any, dict[Any, Range]]] = [
    ((x * y + x * z).eq(1), {x: Range(1, 4)}), (x * y + x * z > 0, {x: Range(1, 4)}),
    (x * y + x * z > 0, {x: Range(0, 4)}), (x * y + x * z >= 0, {x: Range(-4, 4)}), (x * 5 + y < z, {y: Range(0, 5)}),
    (x * 5 + y < 15, {y: Range(0, 6)}), ((x * 5 + y).eq(z * 5 + 3), {y: Range(0, 5)}),
    ((x * 5 + y).eq(z * 5 + 3), {y: Range(0, 9)}), (x + y > 0, {x: Range(-2, 3), y: Range(-1, 2)}),
    (x.ne(y), {x: Range(0, 4), y: Range(3, 4)}), (x - x // y * y, {y: Range(1, 5)}),
    (minimum(x // y * y, x), {y: Range(1, 5)}), (minimum(x // y * y, x), {y: Range(-5, 5)}),
    (maximum(x // y, 0), {x: Range(0, 9), y: Range(-3, 9)}),
]  # fmt: skip


@pytest.mark.parametrize("cases", [JUNCTIONS, CHOICES, INTEGERS, IN_RANGES])
def test_what_a_rule_almost_fits_keeps_its_values(cases: list[Any]) -> None:
    for case in cases:
        e, ranges = case if isinstance(case, tuple) else (case, {})
        names = e.free_vars()
        spans = [range(r.ends[0], r.ends[1] + 1) if (r := ranges.get(v)) else WINDOWS[len(names)] for v in names]
        simplified(e, Context(ranges), (dict(zip(names, row, strict=True)) for row in product(*spans)))


ROWS = [
    row
    for row in (ROOT / "benchmarks" / "data" / "simplifier_pairs.txt").read_text(encoding="utf-8").splitlines()
    if row and not row.startswith("#")
]


def pair(row: str) -> tuple[Any, Any, list[Any]]:
    """(expression, a form that a reader would write, facts)."""
    names: dict[str, Any] = {name: getattr(intset, name) for name in intset.__all__}
    names |= {v: Var(v) for v in "xyzwumn"} | {"true": truth(True), "false": truth(False)}
    e, expected, *facts = (eval(part, names) for part in row.split(";"))
    given = facts[0] if facts else ()
    wanted = const(expected) if isinstance(expected, int) else expected
    return e, wanted, list(given) if isinstance(given, tuple) else [given]


def operations(e: Any) -> int:
    return Pricing().price(e)[1]


def test_there_are_hundreds() -> None:
    assert len(ROWS) > 2_000


@pytest.mark.parametrize("row", daily(ROWS, 6))
def test_no_longer_than_a_reader_would_write(row: str) -> None:
    e, expected, facts = pair(row)
    ctx = Context(assume=facts)
    new = ctx.simplify(e)
    assert operations(new) <= min(operations(e), operations(expected))
    assert ctx.simplify(new) is new


@pytest.mark.parametrize("row", daily(ROWS, 40))
def test_every_step_is_proved(row: str) -> None:
    e, _, facts = pair(row)
    ctx = Context(assume=facts)
    why = ctx.simplify(e, steps=True)
    assert why.expr is ctx.simplify(e)
    assert bool(why.steps) is (why.expr is not e)
    for step in why.steps:
        assert step.proof and step.proof.certificate().check()
        assert step.before is not step.after


def test_steps_name_their_divisors_and_ranges_the_fresh_variables() -> None:
    x, y = Var("x"), Var("y")
    why = Context().simplify((x * y) // y, steps=True)
    assert why.expr is x
    assert why.requires == (y.ne(0),)
    ctx = Context({x: Range(0, 8), y: Range(0, 8)})
    answer = ctx.solve_equations([(x * 4 + y).eq(13)], [x, y])
    values = {v: answer.context.value_set(e) for v, e in answer.values.items()}
    assert sorted(p for p in range(-20, 20) if p in values[x]) == [2, 3]
    assert sorted(p for p in range(-20, 20) if p in values[y]) == [1, 5]


SEEDS = range(240)


def known(seed: int) -> tuple[Context, list[Cond], list[Expr]]:
    """A drawn context, conditions, and quotients and remainders."""
    drawn = Drawn(f"known {seed}", "sums multiples quotients choices", "box sized", sizes=2, facts=60, exprs=3, depth=1)
    conditions = [*drawn.goals[:-1], *(drawn.expressions.condition(0) for _ in range(2))]
    return drawn.ctx, conditions, [drawn.rng.choice((e // 4, e % 4, e // 8, e % 2)) for e in drawn.exprs]


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
def test_what_the_linear_tier_decides_simplify_writes():
    decided, missed = 0, []
    for seed in SEEDS:
        ctx, conditions, _ = known(seed)
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


def test_no_library_answers_for_them() -> None:
    code = (
        "import sys, warnings; warnings.simplefilter('ignore')\n"
        "from lowering import lower_division\n"
        "from tests.strategies.contexts import Drawn\n"
        "for seed in range(20):\n"
        "    drawn = Drawn(seed, 'sums multiples quotients choices', 'box sized', sizes=2, facts=60, exprs=3)\n"
        "    ctx = drawn.ctx\n"
        "    for e in (*drawn.exprs, *drawn.goals): ctx.simplify(e)\n"
        "    for e in drawn.exprs: lower_division(e // 4, ctx)\n"
        "print([name for name in ('islpy', 'z3') if name in sys.modules])\n"
    )
    assert ran("-c", code) == "[]\n"


# -- conditions narrowed to kept variables, equations solved: drawn ones are in test_claims_drawn ----------------------

NARROWED = {
    "i < 14": "i < 14",
    "i > n": "i > 7",
    "i >= n": "i >= 7",
    "i < n": "i < 0",
    "i <= n": "i <= 0",
    "n > i": "i < 0",
    "n >= i": "i <= 0",
    "n < i": "i > 7",
    "n <= i": "i >= 7",
    "i == n": "False",
    "n == i": "False",
    "i != n": "i < 0 or i > 7",
    "n != i": "i < 0 or i > 7",
    "i // 4 > n": "i // 4 > 7",
    "n < i // 4": "i // 4 > 7",
    "(i + n) // 4 > 0": "i // 4 > 0",
    "(i + n) // 4 == 0": "(i + 7) // 4 <= 0 and 0 <= i // 4",
    "(i + n) // 4 != 1": "(i + 7) // 4 < 1 or i // 4 > 1",
    "i + n < 10": "i + 7 < 10",
    "i - n < 10": "i < 10",
    "i + n * (-2) <= 5": "i <= 5",  # not i - 14 <= 5
    "not (i < n)": "i >= 7",
    "not (i <= n)": "i > 7",
    "not (i > n)": "i <= 0",
    "not (i == n)": "i < 0 or i > 7",
    "not (i > n and i < n + 4)": "i <= 0 or i > 10",
    "i % 8 == n": "False",
    "i // 8 == n": "False",
    "i > n and i < 12": "i > 7 and i < 12",
    "i > n or i < 3": "i > 7 or i < 3",
    "i > n or n > 4": "i > 4",
    "i < n or i > n": "i < 0 or i > 7",
    "minimum(i, n) < 4": "i < 4",
    "maximum(i, n) < 9": "i < 9",
}
BEYOND = ("i // (n + 1) <= 2", "i // (n + 1) == 0", "i % (n + 1) == 0", "n * i < 20")  # no sets: what is said is enough


@pytest.mark.parametrize("text", [*NARROWED, *BEYOND])
def test_what_holds_for_all_values(text: str) -> None:
    i, n = Var("i"), Var("n")
    cond = parse(text, {"i": i, "n": n})
    answer = Context({n: Range(0, 8)}).narrow(cond, [i])
    assert answer.is_exact or text in BEYOND
    assert not any(v is n for v in answer.cond.free_vars())
    for x in range(-40, 60):
        always = all(evaluate(cond, {i: x, n: k}) for k in range(8))
        found = bool(evaluate(answer.cond, dict.fromkeys(answer.cond.free_vars(), x)))
        assert found is always if answer.is_exact else not found or always
        if text in NARROWED:
            assert found is bool(evaluate(parse(NARROWED[text], {"i": i}), {i: x} if "i" in NARROWED[text] else {}))


# -- equations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", daily(range(800), 100))
def test_equations_against_enumeration(seed: int) -> None:
    r = random.Random(seed)
    unknowns = [x, y, z]
    forms = [(r.randint(-4, 4), r.randint(-4, 4), r.randint(-4, 4), r.randint(-5, 5)) for _ in range(r.choice((1, 2)))]
    conds = [(x * a + y * b + z * c).eq(n + d) for a, b, c, d in forms]
    answer = Context().solve_equations(conds, unknowns)
    fresh = list(dict.fromkeys(v for e in answer.values.values() for v in e.free_vars() if v is not n))
    box = range(-4, 5)
    for size in (1, 2, 5, 6):
        exists = evaluate(answer.cond, {n: size})
        true = {
            p
            for p in product(box, box, box)
            if all(evaluate(c, {**dict(zip(unknowns, p, strict=True)), n: size}) for c in conds)
        }
        assert exists or not true
        if not exists:
            continue
        reach = range(-12, 13) if len(fresh) < 3 else range(-5, 6)
        found = set()
        for values in product(reach, repeat=len(fresh)):
            point = {**dict(zip(fresh, values, strict=True)), n: size}
            solution = {v: evaluate(e, point) for v, e in answer.values.items()}
            assert all(evaluate(c, {**solution, n: size}) for c in conds)
            found.add(tuple(solution.values()))
        assert len(found) == len(reach) ** len(fresh)  # each choice is a solution of its own

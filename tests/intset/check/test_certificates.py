"""Certificates of proofs and bounds as data, and the independent check of them, with its arithmetic."""

import itertools
import pickle
import random
import warnings
from contextlib import suppress
from dataclasses import replace
from itertools import product
from math import prod

import pytest

import intset
from intset import (
    Cond,
    Context,
    EvaluationError,
    Expr,
    Fact,
    InputError,
    Opaque,
    ParseError,
    Range,
    ShapeVar,
    Var,
    cast,
    ceildiv,
    const,
    evaluate,
    floormod,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
    truncmod,
)
from intset.check import BoundsCertificate, Certificate
from intset.check.__main__ import main
from intset.check.certificate import attained_goal, check_certificate
from intset.check.evidence import Combination, Expander, Premise, WeightedProduct, in_other_words, meaning
from intset.check.solvers import _is_unsat, emptiness_text, is_empty_text, unsat_text
from intset.domains.sets.base import Bounds
from intset.expr import NEG_INF, POS_INF, Infinity, ops
from intset.expr.node import make, truth
from intset.facts import ASSUMED
from intset.testing.contexts import question
from tests.strategies.contexts import EVERY, Expressions, world
from tests.sweeps import daily

i, j, k, x, y, a, z, h, d, t = (Var(name) for name in "ijkxyazhdt")
n, m, p = ShapeVar("n"), ShapeVar("m"), ShapeVar("p")


QUESTIONS = [
    ({i: Range(0, n), j: Range(0, m)}, i * m + j < n * m, (), "linear"),
    ({i: Range(0, n), j: Range(0, m)}, ((i * m + j) // m).eq(i), (), "linear"),
    ({i: Range(0, n)}, minimum(i, n - 1).eq(i), (), "linear"),
    ({x: None}, x * x >= 0, (), "linear"),
    ({}, x - y >= 1, (Fact(x >= 3, "asserted"), y <= 2, x <= 100), "linear"),
    ({x: None, y: Range(1, 99)}, (x // y) * y <= x, (), "linear"),
    ({i: Range(0, 64)}, floormod(i, nonneg(x)) >= 0, (), "linear"),
    ({i: Range(0, 100)}, (i * 4 + j < 200) & (i < 4), (i * 4 + j < 14, j >= 0), "linear"),
    ({}, (x + i * 2).ne(x + i * 2 + 1), (), "linear"),
    ({}, n.eq(1000), (n >= 5, n <= 3), "linear"),  # vacuous
    ({i: Range(0, 0)}, i > 5, (), "linear"),  # vacuous
    ({i: Range(0, 9)}, i.eq(77), ((i % 2).eq(0), (i % 4).eq(1)), "linear"),  # vacuous
    ({x: None}, ((x % 16) % 4).eq(x % 4), (), "linear"),
    ({i: Range(0, 64)}, (i < 3) | (i >= 3), (), "linear"),
    ({i: Range(0, n)}, select(i < n, i, 0).eq(i), (), "linear"),
    ({i: Range(0, 128)}, select(i < 64, i, i - 64) // 4 < 16, (), "isl"),
    ({i: Range(0, ceildiv(n, 4))}, minimum(i * 4 + 4, n) - i * 4 >= 1, (), "linear"),
    ({i: Range(0, 16), j: Range(0, 16)}, (i * 6 + j * 4).ne(7), ((i + j * 2) % 3 <= 1, i >= j), "linear"),
    ({i: Range(0, 50), j: Range(0, 50)}, (i * 3 + j * 5).ne(7), (), "isl"),
    ({x: Range(-20, 41)}, (truncdiv(x, -3) * -3 + truncmod(x, -3)).eq(x), (), "linear"),
    ({x: Range(0, 100)}, cast(x, 8).eq(x), (), "linear"),
    ({x: Range(0, 8), y: Range(0, 8)}, (x ^ y) < 8, (), "points"),
    ({x: Range(-20, 41), y: Range(-6, 13)}, (truncdiv(x, y) * y + truncmod(x, y)).eq(x), (), "linear"),
    ({i: Range(0, n * n)}, i // n < n, (), "linear"),
    ({i: Range(0, n * m)}, i // m < n, (), "linear"),
    ({}, (n * (n + 1) % 2).eq(0), (), "z3"),
    ({}, ((n * m) // maximum(m, 1)).eq(n) | m.eq(0), (), "z3"),
]


# what the linear form proves is a combination of facts and identities of division
LINEAR = [
    ({x: None}, ((x // 4) % 4).eq(x % 16 // 4)),
    ({x: None}, (x // 4 // 8).eq(x // 32)),
    ({x: None}, (x % 10 % 5).eq(x % 5)),
    ({x: None}, (-(x // 4)).eq(ceildiv(-x, 4))),
    ({x: None}, ((x * 12 + 6) % 6).eq(0)),
    ({x: None}, ((x + 8) % 8).eq(x % 8)),
    ({x: None, y: None}, ((x * 8 + y % 8) % 8).eq(y % 8)),
    ({i: Range(0, 100), j: Range(0, 10)}, ((i * 40 + j * 4) % 4).eq(0)),
    ({i: Range(0, n), j: Range(0, m)}, ((i * m + j) % m).eq(j)),
    ({i: Range(0, n), j: Range(0, m), k: Range(0, p)}, (((i * m + j) * p + k) // (m * p)).eq(i)),
    ({i: Range(0, n), j: Range(0, m), k: Range(0, p)}, (((i * m + j) * p + k) // p % m).eq(j)),
    ({i: Range(0, n), j: Range(0, m), k: Range(0, p)}, (i * m + j) * p + k < n * m * p),
    ({}, ((n * 65) % n).eq(0)),
    ({i: Range(0, n)}, (i % n).eq(i)),
    ({x: None}, ((x % n) % n).eq(x % n)),
    ({x: None}, ((x + n) // n).eq(x // n + 1)),
    ({i: Range(0, 56), j: Range(0, 3)}, select((i + j >= 1) & (i + j < 57), i + j - 1, 0) < 56),
    ({i: Range(0, 100)}, abs(i).eq(i)),
    ({i: Range(0, 64)}, (i & 7).eq(i % 8)),
    ({i: Range(0, 64)}, (i >> 3).eq(i // 8)),
    ({x: None}, truncdiv(x * 4, 4).eq(x)),
    ({i: Range(0, 9)}, truncmod(i, 4).eq(i % 4)),
    ({x: Range(-128, 256)}, cast(x, 8).eq(x)),
    ({i: Range(-9, 19)}, maximum(minimum(i, 20), -20).eq(i)),
]
COMMON_FACTORS = [
    truncmod(y * x * 32 * x * y, x * y).eq(0),
    (y * x * 32 * (x * y) % (6 * x * y)).eq(x * y * 16 % 3 * (x * y * 2)),
    (x * 32 * x % (x * y)).eq(x * 32 % y * x),
    (t * 8 * t % t).eq(0),
    truncdiv(x * h * 6, x * d * 4).eq(truncdiv(h * 3, d * 2)),
    ceildiv(x * h + x * d, x * y).eq(-((-h - d) // y)),
    (-(x * h) // (x * x * d)).eq(-h // (x * d)),
    ((x * h + x) % (x * d) - x * ((h + 1) % d)).eq(0),
]
IDENTITIES_OF_BITS = [
    (x & (x | y)).eq(x), ((x ^ y) ^ y).eq(x), ((x & y) | (x & z)).eq(x & (y | z)), (~(x & y)).eq(~x | ~y),
    ((x | y) + (x & y)).eq(x + y), (x ^ y).eq((x | y) - (x & y)), ((x + 1) & ~(x + 1)).eq(0),
]  # fmt: skip
ASKED = [
    *QUESTIONS,
    *((ranges, goal, (), "linear form") for ranges, goal in LINEAR),
    *(({}, goal, (), "linear form") for goal in COMMON_FACTORS),
    *(({}, goal, (), "") for goal in IDENTITIES_OF_BITS),
]


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize(("ranges", "goal", "facts", "kind"), ASKED)
def test_every_proof_has_a_certificate(ranges, goal, facts, kind):
    ctx = Context(ranges, assume=facts)
    proof = ctx.prove(goal)
    cert = proof.certificate()
    assert proof and cert.kind.startswith(kind.partition(" ")[0]), cert
    if kind == "linear form":
        assert proof.by == "linear" and any("contradiction" in line for line in cert.words())
    assert cert.check() and check_certificate(cert, ctx)
    assert cert.vacuous is proof.vacuous
    assert "".join(cert.words()) in "".join(str(ctx.explain(goal)).split("\n"))
    assert pickle.loads(pickle.dumps(proof)).certificate().check() and Certificate.from_text(cert.to_text()).check()
    false = replace(cert, goal=~goal, vacuous=False)
    assert not check_certificate(false)
    assert not check_certificate(cert, Context({})) or not (cert.ranges or cert.facts)


def test_the_checker_accepts_numbers_and_facts_and_nothing_wrong():
    good = Context({}, assume=[x >= 3, y <= 2]).prove(2 * x - y >= 4).certificate()
    shown = sorted((factor, str(premises[0].cond)) for factor, premises in good.terms)
    assert shown == [(1, "2 * x - y < 4"), (1, "y <= 2"), (2, "x >= 3")]
    assert "2 * [x >= 3]  (a fact)" in str(good)
    (one,) = good.combinations
    tampered = [
        one._replace(terms=one.terms[1:]),
        one._replace(terms=tuple(term._replace(factor=-term.factor) for term in one.terms)),
        one._replace(terms=tuple(term._replace(factor=0) for term in one.terms)),
        one._replace(
            terms=(WeightedProduct(1, (Premise("a fact", x <= -1),)), WeightedProduct(1, (Premise("a fact", x >= 3),)))
        ),
        one._replace(terms=(WeightedProduct(1, ()),)),
        one._replace(terms=(WeightedProduct(-1, (Premise("a square", x * x >= 0),)),)),
        one._replace(case=()),
    ]
    for bad in tampered:
        assert not replace(good, combinations=(bad,)).check(), bad
    assert not replace(good, combinations=()).check()
    assert not replace(good, goal=2 * x - y >= 5).check()
    assert not replace(good, facts=good.facts[:1]).check()


def test_splits_need_both_sides_and_divisors_are_not_0() -> None:
    # `1 // x >= 1` is undefined at x = 0, so a split on it is incomplete.
    cert = Context({}).prove(truth(True)).certificate()
    case = (x * 0 + 1 < 1,)
    on = 1 // x >= 1
    branches = tuple(
        Combination((*case, way), (WeightedProduct(1, (Premise("the goal negated", case[0]),)),)) for way in (on,)
    )
    other = Combination((*case, 1 // x < 1), (WeightedProduct(1, (Premise("the goal negated", case[0]),)),))
    one = Combination(case, (), (), on, (*branches, other))
    assert not replace(cert, kind="linear", goal=x * 0 + 1 >= 1, combinations=(one,)).check()
    plain = Combination(case, (WeightedProduct(1, (Premise("the goal negated", case[0]),)),))
    assert replace(cert, kind="linear", goal=x * 0 + 1 >= 1, combinations=(plain,)).check()
    quotient, simple = (x * h) // (x * d), h // d
    for nonzero, same in (((), False), ((x,), False), ((x * d,), True)):
        expander = Expander(nonzero)
        assert (expander.poly(quotient) == expander.poly(simple)) is same
    goal = select(x.ne(0), quotient, simple).eq(simple)  # lazily skipped at x == 0
    proof = Context().prove(goal)
    assert proof.status != "refuted" and (not proof or proof.certificate().check())
    false = select(d.ne(0), quotient, 0).eq(select(d.ne(0), simple + 1, 0))
    assert not Context().prove(false)


def test_what_operations_mean_holds_at_every_small_point():
    # Each comparison that the checker takes for granted, wherever the operation has a value and its case holds.
    fixed = [make(op, (x, const(c))) for op in (ops.FLOORDIV, ops.TRUNCDIV) for c in (-4, -1, 1, 3, 8)]
    free = [make(op, (x, y)) for op in (ops.FLOORDIV, ops.TRUNCDIV, ops.MIN, ops.MAX)]
    free += [abs(x), select(x < y, x, y * 2), select((x < 3) | (y > 2), x, 7)]
    ways = [(), (x < y,), (x >= y,), (x <= y,), (x > y,), (x < 3,), (y > 2,), (x >= 3, y <= 2)]
    points = [{x: a, y: b} for a in range(-6, 7) for b in range(-4, 5)]
    tried = 0
    for node, case, positive in product((*fixed, *free), ways, ((), (y,))):
        inside = [at for at in points if all(evaluate(c, at) for c in case) and (not positive or at[y] >= 1)]
        for cond in meaning(node, positive, case):
            for at in inside:
                if at[y] or y not in node.free_vars():
                    tried += 1
                    assert evaluate(cond, at), (node, cond, at)
    assert tried > 10_000
    made = [make(ops.TRUNCMOD, (x, y)), ~x, x << 3, x >> 2, x & 7, x & 0]
    made += [cast(x, bits, signed) for bits in (1, 3, 8) for signed in (True, False)]
    for node in made:
        same = in_other_words(node)
        assert same is not None and same is not node
        for a, b in product(range(-300, 301, 7), (-3, 2)):
            assert evaluate(node, {x: a, y: b}) == evaluate(same, {x: a, y: b})
    assert in_other_words(x & 6) is None and in_other_words(x << y) is None


A = Opaque("A", 1, 0, 9)

CONSTANT = [
    ({i: Range(0, 8), j: Range(0, 4)}, i * 4 + j, ()),
    ({i: Range(0, 8), j: Range(0, 4)}, (i * 4 + j) // 7 % 3, (i * 4 + j < 14,)),
    ({i: Range(0, 8), j: Range(0, i - 4)}, i + j, ()),  # the range of j is empty for i <= 4
    ({i: Range(2, 7), j: Range(i, 3), k: Range(i, j - i)}, j - i + k, ()),
    ({i: Range(0, 8)}, A[i] + A[7 - i], ()),
    ({i: None}, i % 7, ()),
    ({i: Range(-4, 9)}, nonneg(i) * 3, ()),
    ({}, const(5), ()),
]
SYMBOLIC = [
    ({i: Range(0, n), j: Range(0, m)}, i * m + j, (), ()),
    ({i: Range(0, n), j: Range(0, m)}, i * m + j, (), (i,)),
    ({i: Range(0, n)}, (i * 4 + 3) // 4, (), ()),
    ({i: Range(0, n), j: Range(i, 4)}, j - 2 * i, (), ()),
    ({i: Range(0, n)}, minimum(i, 5), (), ()),
    ({i: Range(0, n * 4)}, i // n, (), ()),
    ({i: Range(0, n)}, i, (n > 3, i >= 2), ()),
    ({i: Range(0, 8)}, nonneg(i - 3) + n, (), ()),
    ({}, n + 1, (), ()),
]


@pytest.mark.parametrize(("ranges", "e", "facts"), CONSTANT)
@pytest.mark.parametrize("domain", ["auto", "interval", "isl", "points"])
def test_constant_ends_are_shown_and_attained(ranges, e, facts, domain):
    ctx = Context(ranges, assume=facts)
    bounds = ctx.bounds(e, domain=domain)
    cert = bounds.certificate()
    assert cert.check() and cert.check(ctx) and cert.words()
    for end, shown, at in zip(bounds, (cert.lower, cert.upper), (cert.at_lower, cert.at_upper), strict=True):
        assert (shown is None) == isinstance(end, Infinity)
        assert (at is not None) == (bounds.is_tight and not isinstance(end, Infinity))
        if at is not None:
            assert evaluate(e, at) == int(end) and evaluate(shown.goal, at)


@pytest.mark.parametrize(("ranges", "e", "facts", "keep"), SYMBOLIC)
def test_symbolic_ends_are_attained_for_all_sizes_at_which_there_are_points(ranges, e, facts, keep):
    ctx = Context(ranges, assume=facts)
    bounds = ctx.bounds(e, keep=keep)
    cert = bounds.certificate()
    assert cert.check() and cert.check(ctx) and bounds.is_tight
    setting = world(ranges, facts, [n, m], keep)
    for end, at in zip(bounds, (cert.at_lower, cert.at_upper), strict=True):
        assert at is not None and set(at) == set(ranges) - set(keep)
        for params, rows in setting.points.items():
            point = setting.env(params)
            point |= {var: evaluate(value, point) if isinstance(value, Expr) else value for var, value in at.items()}
            assert tuple(point[v] for v in setting.everything) in rows and evaluate(e, point) == evaluate(end, point)


def test_bounds_remember_their_question_and_show_it_shortly() -> None:
    ctx = Context({i: Range(0, 8)}, assume=[i < 6])
    bounds = ctx.bounds(i * 2)
    again = pickle.loads(pickle.dumps(bounds))
    assert again == bounds == (const(0), const(10)) and hash(again) == hash(bounds)
    assert again.certificate().check(ctx)
    del ctx
    assert bounds.certificate().check()
    with pytest.raises(InputError, match="context"):
        Bounds(0, 1, True).certificate()
    short = Context({i: Range(0, 8), j: Range(0, 4)}).bounds(i * 4 + j).certificate()
    assert repr(short).startswith("<BoundsCertificate 0 <= i * 4 + j <= 31; lower end by linear, upper end by linear")
    long = i
    for _ in range(12):
        long = long * long + j
    assert len(repr(Context({i: Range(0, 2), j: Range(0, 2)}).bounds(long).certificate())) < 600


@pytest.mark.parametrize(("seeds", "least"), daily([((4, 5, 6, 8, 9, 11, 15, 16, 17, 18), 10), (range(200), 190)], 2))
def test_bounds_of_random_expressions_have_certificates(seeds, least):
    shown = 0
    for seed in seeds:
        q = question(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", intset.ContradictionWarning)
            ctx = Context(q.ranges, assume=q.conds)
        bounds = ctx.bounds(q.expr)
        try:
            cert = bounds.certificate()
        except InputError:
            continue  # none was found; no claim
        assert cert.check(ctx), seed
        shown += 1
        for end, at in ((min(q.values, default=0), cert.at_lower), (max(q.values, default=0), cert.at_upper)):
            assert at is None or evaluate(q.expr, at) == end, seed
    assert shown >= least


@pytest.fixture(scope="module")
def lines() -> list[tuple[Context, str]]:
    found = []
    for ranges, e, facts, *keep in (*CONSTANT, *SYMBOLIC, ({i: Range(0, 0)}, i, ()), ({i: None}, i * 3, ())):
        ctx = Context(ranges, assume=facts)
        found.append((ctx, ctx.bounds(e, keep=keep[0] if keep else ()).certificate().to_text()))
    return found


def test_bounds_as_text_and_back_also_in_a_file_of_both_kinds(lines, tmp_path, capsys):
    for ctx, line in lines:
        cert = BoundsCertificate.from_text(line)
        assert "\n" not in line and cert.check() and cert.check(ctx) and cert.to_text() == line
        with pytest.raises(ParseError):
            Certificate.from_text(line)
        part = cert.lower or cert.upper or cert.empty
        if part is not None:
            with pytest.raises(ParseError):
                BoundsCertificate.from_text(part.to_text())
    ctx = Context({i: Range(0, n), j: Range(0, m)})
    cert = ctx.bounds(i * m + j).certificate()
    proof = ctx.prove(i * m + j < n * m).certificate()
    path = tmp_path / "certificates"
    path.write_text("\n".join([proof.to_text(), cert.to_text(), *(line for _, line in lines)]), encoding="utf-8")
    assert main([str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(lines) + 2 and all(line.startswith("accepted: ") for line in shown)
    assert "0 <= i * m + j <= n * m - 1 given" in shown[1] and "the upper end at i = n - 1, j = m - 1" in shown[1]
    assert sum("nowhere a value" in line for line in shown) == 1
    path.write_text(replace(cert, high=cert.high - 1).to_text(), encoding="utf-8")
    assert main([str(path)]) == 1 and capsys.readouterr().out.startswith("REJECTED: ")
    path.write_text(cert.to_text()[:-3], encoding="utf-8")
    assert main([str(path)]) == 2


def test_parts_that_are_right_and_show_something_else_are_not_accepted() -> None:
    """Valid parts with wrong statements do not make a false claim acceptable."""
    ctx, n = Context({i: Range(0, 9)}), ShapeVar("n", lower=1)
    whole = ctx.bounds(i).certificate()
    there = ctx.prove(i.ne(4)).certificate()  # a point
    below = ctx.prove(i >= -5).certificate()
    assert whole.check(ctx) and there.check(ctx) and below.check(ctx) and there.kind == "point"
    sized = Context({i: Range(0, n)})
    of_sizes = sized.bounds(i).certificate()
    assert of_sizes.check(sized) and of_sizes.at_lower == {i: 0}
    bare = replace(whole, lower=None, upper=None, at_lower=None, at_upper=None, attained=(None, None))
    nothing = replace(bare, low=POS_INF, high=NEG_INF)
    first = whole.attained[0]
    forged = {
        "empty, as another condition always holds": replace(nothing, empty=below),
        "empty, as there is a point": replace(nothing, empty=ctx.prove(i.ne(i)).certificate()),
        "an end that is refuted": replace(
            whole,
            low=const(5),
            lower=ctx.prove(i >= 5).certificate(),
            at_lower=None,
            attained=(None, whole.attained[1]),
        ),
        "an end that is the variable": replace(
            whole, low=i, lower=ctx.prove(i >= i).certificate(), at_lower=None, attained=(None, whole.attained[1])
        ),
        "no end, and a proof of one": replace(whole, low=NEG_INF, at_lower=None, attained=(None, whole.attained[1])),
        "attained where it is another value": replace(
            whole, low=const(-5), lower=below, at_lower=dict(there.point), attained=(there, whole.attained[1])
        ),
        "another point": replace(whole, at_lower={i: 3}, attained=(first, whole.attained[1])),
        "a point, and nothing that says so": replace(whole, at_lower={i: 3}, attained=(None, whole.attained[1])),
    }
    for name, cert in forged.items():
        assert not cert.check() and not cert.check(ctx), name
    for var, facts in ((i, (i >= 2,)), (ShapeVar("declared", lower=2, multiple_of=2), ())):
        narrow = Context({var: Range(0, n)}, assume=facts)
        right = narrow.bounds(var).certificate()
        goal = attained_goal(
            i, const(0), {i: 0}, [(i, Range(0, n))], ()
        )  # what facts and declarations deny is left out
        shown = narrow.prove(goal).certificate()
        lower = narrow.prove(var >= 0).certificate()
        false = replace(right, low=const(0), lower=lower, at_lower={var: 0}, attained=(shown, right.attained[1]))
        assert right.check(narrow) and shown.check(narrow) and lower.check(narrow) and not false.check(), (var, facts)


def test_polynomials_have_the_values_of_what_they_are_written_for() -> None:
    """Random expressions over all operations, with atoms evaluated directly."""
    drawn, compared = Expressions(random.Random(5), [i, j], EVERY), 0
    for _ in range(250):
        e = drawn.rng.choice(
            (drawn.integer(2), drawn.sum(2), (a + 1) | 3, (a * 2) & 5, a ^ 4, a >> 1, minimum(a, 3) & 6)
        )
        expander = Expander()
        poly = expander.poly(e)
        variables = e.free_vars()
        for _ in range(4):
            at = {v: drawn.rng.randint(-9, 9) for v in variables}
            try:
                expected = evaluate(e, at)
                found = sum(
                    k * prod(evaluate(expander.nodes[atom], at) ** power for atom, power in monomial)
                    for monomial, k in poly.items()
                )
            except EvaluationError:
                continue
            compared += 1
            assert found == expected, (e, at)
    assert compared > 600


OPERATIONS: tuple[Expr, ...] = (
    i // 3, i // -3, i % 4, i % -4, ceildiv(i, 3), ceildiv(i, -3), truncdiv(i, 3), truncdiv(i, -3), truncmod(i, 3),
    truncmod(i, -3), abs(i), minimum(i, j), maximum(i, j), select(i < j, i, j + 1), cast(i, 3, False), cast(i, 3, True),
    i << 2, i >> 1, i & 5, i & -3, i | 4, i ^ 6, ~i, -i, i * 3 - j, i & j, i | j, i ^ j, i % (j * j + 2),
    i // (j * j + 2), (i + 9) << (j & 3), i >> (j & 3), i * j,
)  # fmt: skip


def test_texts_hold_at_every_point_where_the_conditions_do() -> None:
    """What isl finds empty, or z3 unsatisfiable, has no such point."""
    drawn = Expressions(random.Random(50), [i, j], EVERY)
    for number in range(28):
        ends = (-9, 9) if number % 6 else (128, 250)  # two that are signed, or not, in eight bits
        at = {i: drawn.rng.randint(*ends), j: drawn.rng.randint(*ends)}
        chosen = [drawn.integer(2) for _ in range(6)] if number % 2 else OPERATIONS[number // 2 % 2 :: 2]
        conds: list[Cond] = []
        for e in chosen:
            with suppress(EvaluationError):
                value = evaluate(e, at)
                says = (e.eq(value), e <= value, e.ne(value + 1), ~(e < value), (e > value) | e.eq(value))
                conds.append(says[0] if number % 2 == 0 else drawn.rng.choice(says))
        there = [v.eq(value) for v, value in at.items()]
        for holds, fails in (([*there, *conds], None), ([*there, *conds[:-1]], ~conds[-1])):
            text = emptiness_text(holds, fails)
            assert text is not None and not is_empty_text(text, 1_000_000), (at, conds)
        if number % 2 == 0:
            facts = tuple(Fact(cond, ASSUMED) for cond in (*there, *conds))
            formula = unsat_text(Certificate("z3", conds[0], vacuous=True, facts=facts))
            assert formula is not None and _is_unsat(formula, 10_000_000) is False, (at, conds)


# -- bits --------------------------------------------------------------------------------------------------------------

WINDOW = [
    dict(zip((x, y, z), values, strict=True))
    for values in itertools.product((-7, -1, 0, 5, 6), (-4, 3, 9), (-3, 0, 11))
]


@pytest.mark.parametrize("seed", daily(range(3_000), 100))
def test_what_is_equal_is_equal_everywhere(seed: int) -> None:
    rnd = random.Random(seed)
    drawn = Expressions(rnd, [x, y, z, x + 1], "bits", constants=(5, 0, -1))
    a = drawn.integer(3)
    b = rnd.choice([drawn.integer(3), (a & x) | (a & ~x), (a ^ y) ^ y, ~(~a | (z & 0))])
    goal = a.eq(b)
    if goal.op is not ops.EQ:
        return
    difference, is_zero = Expander().sides(goal)
    if is_zero and not difference:
        assert all(evaluate(goal, point) for point in WINDOW)

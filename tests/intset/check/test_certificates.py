"""Certificates: proofs as data, and the independent check of them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product

import pytest

import intset
from intset import (
    Context,
    Fact,
    InputError,
    Range,
    ShapeVar,
    Var,
    cast,
    ceildiv,
    evaluate,
    floormod,
    maximum,
    minimum,
    nonneg,
    select,
    truncdiv,
    truncmod,
)
from intset.check.certificate import Certificate, check_certificate
from intset.check.evidence import Combination, Premise, WeightedProduct, in_other_words, meaning
from intset.expr import ops
from intset.expr.node import const, make, truth
from intset.prover.combination import SearchBudget, combinations

i, j, k, x, y = (Var(name) for name in "ijkxy")
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


@pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
@pytest.mark.parametrize(("ranges", "goal", "facts", "kind"), QUESTIONS)
def test_every_proof_has_a_certificate(ranges, goal, facts, kind):
    ctx = Context(ranges, assume=facts)
    proof = ctx.prove(goal)
    cert = proof.certificate()
    assert proof and cert.kind == kind, cert
    assert cert.check() and check_certificate(cert, ctx)
    assert cert.vacuous is proof.vacuous
    assert "".join(cert.words()) in "".join(str(ctx.explain(goal)).split("\n"))
    assert pickle.loads(pickle.dumps(proof)).certificate().check()
    false = replace(cert, goal=~goal, vacuous=False)
    assert not check_certificate(false)
    assert not check_certificate(cert, Context({})) or not (cert.ranges or cert.facts)


def test_a_linear_certificate_is_numbers_and_facts():
    proof = Context({}, assume=[x >= 3, y <= 2]).prove(2 * x - y >= 4)
    cert = proof.certificate()
    assert sorted((factor, str(premises[0].cond)) for factor, premises in cert.terms) == [
        (1, "2 * x - y < 4"),
        (1, "y <= 2"),
        (2, "x >= 3"),
    ]
    assert "2 * [x >= 3]  (a fact)" in str(cert)


def test_the_checker_accepts_nothing_wrong():
    ctx = Context({}, assume=[x >= 3, y <= 2])
    good = ctx.prove(2 * x - y >= 4).certificate()
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


def test_a_refutation_certifies_its_point_and_an_unknown_nothing():
    ctx = Context({i: Range(0, n)}, assume=[n > 2])
    cert = ctx.prove(i < 7).certificate()
    assert cert.kind == "point" and cert.check() and evaluate(i < 7, cert.point) is False
    assert not replace(cert, point={i: 9, n: 3}).check()
    with intset.using(tiers="linear"), pytest.raises(InputError, match="unknown"):
        Context({}).prove((x * x + n) % 3 < 2 + (x * n) % 5).certificate()


# -- what the linear form proves is a combination of facts and identities of division ---------------------------------

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
    ({x: None}, ((x // 4) % 4).eq((x % 16) // 4)),
]


@pytest.mark.parametrize(("ranges", "goal"), LINEAR)
def test_identities_of_division_have_linear_certificates(ranges, goal):
    ctx = Context(ranges)
    proof = ctx.prove(goal)
    assert proof.by == "linear"
    cert = proof.certificate()
    assert cert.kind == "linear" and cert.check() and check_certificate(cert, ctx)
    assert pickle.loads(pickle.dumps(proof)).certificate().check()
    assert any("contradiction" in line for line in cert.words())


def test_divisibility_is_rounded_and_split():
    for facts, goal in ((((n % 16).eq(0),), (n % 8).eq(0)), ((), x % -4 <= 0), ((3 * x <= 8,), x <= 2)):
        claim = Certificate("linear", goal, facts=tuple(Fact(fact) for fact in facts))
        cert = replace(claim, combinations=combinations(claim, SearchBudget(10**6)))
        assert cert.check() and (not facts or not replace(cert, facts=()).check())
    words = str(Context({x: None}).prove((x // 4 % 4).eq(x % 16 // 4)).certificate())
    assert "Either " in words and "or not." in words


def test_a_split_needs_both_sides_and_a_value():
    """`1 // x >= 1` is undefined at x = 0, so a split on it is incomplete."""
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


def test_what_operations_mean_holds_at_every_small_point():
    """Each comparison that the checker takes for granted, wherever the operation has a value and its case holds."""
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


def test_operations_in_other_words_are_the_same():
    made = [make(ops.TRUNCMOD, (x, y)), ~x, x << 3, x >> 2, x & 7, x & 0]
    made += [cast(x, bits, signed) for bits in (1, 3, 8) for signed in (True, False)]
    for node in made:
        same = in_other_words(node)
        assert same is not None and same is not node
        for a, b in product(range(-300, 301, 7), (-3, 2)):
            assert evaluate(node, {x: a, y: b}) == evaluate(same, {x: a, y: b})
    assert in_other_words(x & 6) is None and in_other_words(x << y) is None

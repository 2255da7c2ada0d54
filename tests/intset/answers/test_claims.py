"""Claims (`is_exact`, `is_tight`, counts, proofs, boxes) where ranges may be empty and depend on others."""

from __future__ import annotations

import itertools
import pickle

import pytest

from intset import (
    Context,
    Range,
    ShapeVar,
    Var,
    const,
    evaluate,
    minimum,
)
from intset.testing.claims import DOMAINS, claims
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
i, j, k = Var("i"), Var("j"), Var("k")


def test_what_a_range_says_of_others_is_certified():
    ctx = Context({i: Range(0, 4), j: Range(0, i - 2)})
    proof = ctx.prove(i >= 3)
    assert proof and proof.certificate().check()
    assert not Context({i: Range(0, 4)}).prove(i >= 3)


# -- boxes --------------------------------------------------------------------------------------------------------


def test_a_box_is_as_narrow_as_the_bounds_of_each_coordinate():
    c, c1, c2 = ShapeVar("c", lower=1), ShapeVar("c1", lower=1), ShapeVar("c2", lower=1)
    flat = Context({i: Range(0, 4), j: Range(0, c)})
    (side,) = flat.image((i * c + j,)).box
    assert str(side) == "Range(min=0, extent=c * 4)"
    split = Context({i: Range(0, c1 * c2)})
    region = split.image((i // c1, i % c1))
    assert list(map(str, region.box)) == ["Range(min=0, extent=c2)", "Range(min=0, extent=c1)"]
    assert [(int(s.min), int(s.extent)) for s in region.at({c1: 3, c2: 5}).box] == [(0, 5), (0, 3)]
    assert str(split.bounds(i // c1)) == "(0, c2 - 1)"


def test_a_division_of_a_little_below_zero_is_a_number():
    c = ShapeVar("c", lower=4)
    ctx = Context({i: Range(0, 4)})
    assert int(ctx.simplify(const(-1) // c)) == int(ctx.simplify((i - 4) // c)) == -1
    assert str(ctx.simplify((i - 5) // c)) != "-1"
    assert str(Context().simplify(const(-1) // Var("d"))) != "-1"
    assert str(ctx.simplify((minimum(i, 2) - c) // c)) == "-1"


# -- random -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "seed"), daily([(90, 0), (20_000, 1000)], 2))
def test_no_claim_is_false(count, seed):
    found = claims(count, seed)
    assert found.wrong == [] and found.tally["contexts"] > 0.9 * count
    tally = found.tally
    assert tally["with points"] > 25 and tally["exact"] > 12 and tally["tight"] > 30 and tally["exact region"] > 1
    assert tally["proved"] > 5 and tally["refuted"] > 5
    assert min(tally[part] for part in ("ordered", "together", "blocks", "again")) > 2


@pytest.mark.nightly
def test_no_domain_makes_a_false_claim():
    found = claims(600, domains=DOMAINS, thorough=True)
    assert found.wrong == [] and found.tally["contexts"] > 500


# -- what random contexts found -----------------------------------------------------------------------------------


def test_a_proof_over_no_point_says_so():
    ctx = Context({i: Range(0, 4), j: Range(1, 3), k: Range(0, i - j - 5)})
    proof = ctx.prove((j - 2) % 2 <= 2)  # the linear form proves it without looking at a point
    assert proof and proof.vacuous and ctx.prove(k > 100).vacuous
    assert proof.certificate().vacuous and proof.certificate().check(ctx)
    assert "vacuous" in repr(proof) and pickle.loads(pickle.dumps(proof)).vacuous
    assert not Context({i: Range(0, 4), j: Range(1, 3)}).prove((j - 2) % 2 <= 2).vacuous


def test_vacuous_is_what_enumeration_says():
    asked = 0
    for low, extent, fact in itertools.product(range(-2, 3), range(4), (i % 4 >= 3, i * i >= 2, i // 2 > 0, i.ne(0))):
        ctx = Context({i: Range(low, extent), j: Range(0, 3)}, assume=[fact])
        points = [a for a in range(low, low + extent) if evaluate(fact, {i: a})]
        for goal in (j >= 0, i % 4 < 4, i * i + j >= 0, i <= 9):
            proof = ctx.prove(goal)
            assert proof and proof.vacuous is not bool(points)
            asked += 1
    assert asked == 5 * 4 * 4 * 4

"""Claims (`is_exact`, `is_tight`, counts, proofs, boxes) where ranges may be empty and depend on others."""

from __future__ import annotations

import itertools
import pickle

import pytest

from intset import (
    NEG_INF,
    Context,
    InputError,
    Range,
    ShapeVar,
    Var,
    bounded,
    const,
    evaluate,
    maximum,
    minimum,
    nonneg,
    select,
)
from intset.domains.sets.base import IntSet
from intset.expr.node import Cond, as_expr
from intset.testing.claims import DOMAINS, claims
from tests.intset.oracle import Claims
from tests.strategies.contexts import world
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
i, j, k = Var("i"), Var("j"), Var("k")


def elements(s: IntSet, low: int = -5, high: int = 12) -> set[int]:
    return {value for value in range(low, high) if value in s}


def test_what_a_range_says_of_others_is_certified():
    ctx = Context({i: Range(0, 4), j: Range(0, i - 2)})
    proof = ctx.prove(i >= 3)
    assert proof and proof.certificate().check()
    assert not Context({i: Range(0, 4)}).prove(i >= 3)


def test_a_remainder_whose_terms_share_a_variable_may_miss_residues():
    n = ShapeVar("n", upper=3)
    Claims(world({i: Range(1, n)}, sizes=[n])).bounds((i + (i + 1) // 3 * 2 + 1) % n, None)


def test_a_range_of_sizes_alone_is_forgotten():
    n = ShapeVar("n")
    ctx = Context({i: Range(0, n), j: Range(0, 4), k: Range(i, n - i)})
    found = ctx.value_set(j + n)
    assert found.by == "stride" and found.is_exact and ctx.bounds(j + n).is_tight  # no need of isl
    assert str(ctx.bounds(i)) == "(0, n - 1)" and ctx.value_set(i).is_exact


# -- at -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["auto", "interval", "isl"])
@pytest.mark.parametrize("e", [i + 0, i * 3, i + j * 2])
def test_at_replaces_parameters_in_every_kind_of_set(domain, e):
    n, m, x = ShapeVar("n"), ShapeVar("m"), Var("x")
    s = Context({i: Range(0, 4), j: Range(0, m)}, domain=domain).value_set(e + n)
    two = s.at({n: 5, m: 2})
    truth = {int(e.substitute({i: a, j: b})) + 5 for a in range(4) for b in range(2)}
    assert two.params == () and truth <= elements(two, 0, 40) and (elements(two, 0, 40) == truth or not s.is_exact)
    assert s.is_exact == two.is_exact and s.is_tight == two.is_tight
    shifted = s.at({n: x * 2 + 1})
    assert n not in shifted.params and elements(shifted.at({x: 2, m: 2}), 0, 40) == elements(two, 0, 40)
    assert elements(s.at({n: m, m: n}).at({n: 2, m: 5}), 0, 40) == elements(two, 0, 40)


def test_at_where_nothing_is_left():
    n, m = ShapeVar("n"), ShapeVar("m")
    for domain in ("auto", "interval", "isl"):
        ctx = Context({i: Range(0, n)}, domain=domain)
        assert ctx.value_set(i * 2 + m).at({n: 0, m: 3}).is_empty
        assert ctx.value_set(i).at({n: 0}).count() == 0
        assert ctx.image((i, i + m)).at({n: 0, m: 3}).is_empty
        assert Context({i: Range(0, 4)}, domain=domain).value_set(i + m // n).at({n: 0, m: 3}).is_empty


def test_a_set_of_another_kind_keeps_its_elements():
    n = ShapeVar("n")

    class Threes(IntSet):
        """Every third integer from `n` to `n + 6`."""

        def __init__(self):
            super().__init__("threes", True, True)

        def ends(self):
            return n + 0, n + 6

        def condition(self, e) -> Cond:
            return (as_expr(e) >= n) & (as_expr(e) <= n + 6) & ((as_expr(e) - n) % 3).eq(0)

        def count(self):
            return 3

    placed = Threes().at({n: 2})
    assert placed.is_exact and elements(placed) == {2, 5, 8} and placed.params == () and placed.count() == 3


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


def test_an_assertion_that_never_holds_leaves_no_value():
    for e in (nonneg(i - 9), nonneg(i - 9) + j, nonneg(i - 9) // 3 * j, bounded(i + 20, 0, 10)):
        for domain in DOMAINS:
            ctx = Context({i: Range(0, 4), j: Range(0, 3)}, domain=domain)
            assert ctx.bounds(e).is_empty and ctx.value_set(e).is_empty and ctx.image((e, j)).is_empty
            assert ctx.prove(e > 100).vacuous and ctx.value_set(e).count() == 0
    lazy = select(i < 2, i, nonneg(i - 9) + 50)  # lazily defined for i < 2
    assert tuple(map(int, Context({i: Range(0, 4)}).bounds(lazy))) == (0, 1)


def test_a_side_of_a_box_may_have_an_upper_end_alone():
    x, y = Var("x"), ShapeVar("y", 0, 3)
    for domain in ("auto", "interval", "isl"):
        ctx = Context({x: None, j: Range(0, 3)}, assume=[x <= 9], domain=domain)
        side, other = ctx.image((x + y, j)).box
        assert side.min is NEG_INF and evaluate(side.max, {y: 2}) == 11 and str(other.max) == "2"
        again = Context({x: side})
        assert again.bounds(x) == (NEG_INF, side.max) and again.ranges[x] == Range.everything()
        assert (
            pickle.loads(pickle.dumps(side)) == side != Range.everything() and str(side) == f"Range.up_to({side.max})"
        )
    with pytest.raises(InputError, match="no such range"):
        Range.up_to(NEG_INF)


def test_a_union_whose_divisions_isl_would_remove_for_ever():
    n = ShapeVar("n", lower=2)
    ctx = Context({j: Range(-2, i - i + 2), i: Range(-1, n)}, assume=[i + n < 5], domain="isl")
    e = select((n % 3).eq(1), j - 2, n - 3) - i % 5 + abs(i * 4 + j)
    assert not ctx.bounds(e).is_empty


@pytest.mark.parametrize("domain", ["stride", "interval", "auto", "isl"])
def test_a_coordinate_that_has_a_value_nowhere_loosens_no_other_side(domain: str) -> None:
    size = Var("size")
    ctx = Context({i: Range(1, 5)}, assume=[i >= size - 2], domain=domain)
    pair = (maximum(i, -3) * 2, size // size - i)
    for keep in ((i,), ()):
        for side, e in zip(ctx.image(pair, keep=keep).box, pair, strict=True):
            low, high = ctx.bounds(e, keep=keep)
            for point in ({size: -2, i: 1}, {size: 3, i: 1}, {size: 5, i: 4}):
                assert evaluate(side.min, point) >= evaluate(low, point), (e, point)
                assert evaluate(side.max, point) <= evaluate(high, point), (e, point)

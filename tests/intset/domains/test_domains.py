"""One soundness suite for all domains, one made outside the package included; and what each of them promises."""

from __future__ import annotations

import pytest

import intset
from intset import NEG_INF, POS_INF, Context, CountError, InputError, Range, ShapeVar, Var, minimum, select
from intset.config import Config
from intset.domains.interval import IntervalDomain
from intset.domains.registry import domain_names, register, unregister
from intset.domains.sets.base import Bounds, IntervalSet
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr
from intset.testing import soundness
from tests.intset.domains.known_bits import KnownBits
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
BUILT_IN = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "isl", "points", "interval*isl")


@pytest.fixture
def known_bits():
    register(KnownBits)
    yield "known_bits"
    unregister("known_bits")


@pytest.mark.parametrize("count", daily([60, 10_000], 2))
@pytest.mark.parametrize("domain", BUILT_IN)
def test_every_domain_is_sound(domain, count):
    report = soundness(domain, count)
    assert report.wrong == []
    assert report.tally["asked"] == count
    if domain == "auto" and count == 60:
        assert report.tally["exact hull"] == report.tally["exact set"] == 60


def test_a_domain_from_outside_passes_the_same_suite(known_bits):
    assert soundness(known_bits, 120).wrong == []
    i = Var("i")
    found = Context({i: Range(0, 100)}).value_set(i * 8 + 5, domain=known_bits)
    assert 13 in found and 12 not in found  # the low three bits are 101


LIES = {
    "lacks": lambda s: IntervalSet(s.max, s.max, s.by) if s.min is not NEG_INF else s,
    "are called tight": lambda s: IntervalSet(s.min - 1, s.max, s.by, is_tight=True) if s.min is not NEG_INF else s,
    "elements instead of": lambda s: IntervalSet(s.min, s.max, s.by, is_exact=True),
    "is empty where": lambda s: IntervalSet(POS_INF, NEG_INF, s.by, is_exact=True),
}


@pytest.mark.parametrize("found", LIES)
def test_the_suite_finds_what_is_false(found):
    class Liar(IntervalDomain):
        name = "liar"

        def image(self, query):
            answer = IntervalDomain().image(query)
            return answer if answer.is_empty else LIES[found](answer)

        def bounds(self, query):
            answer = self.image(query)
            return Bounds(*answer.ends(), answer.is_tight)

    register(Liar)
    try:
        assert any(found in line for line in soundness("liar", 60).wrong)
    finally:
        unregister("liar")


def test_a_domain_from_outside_joins_a_product(known_bits):
    i = Var("i")
    found = Context({i: Range(0, 10)}).value_set((i * 8) | 5, domain=f"interval*{known_bits}")
    assert 5 in found and 6 not in found and 800 not in found


def test_a_registration_without_image_is_refused():
    class Nothing:
        name = "nothing"

    with pytest.raises(InputError, match="no method image"):
        register(Nothing)
    assert "nothing" not in domain_names()


# -- what each domain is exact on --------------------------------------------------------------------------------------

i, j, k = Var("i"), Var("j"), Var("k")
BOX = {i: Range(0, 6), j: Range(-2, 5), k: Range(3, 4)}


@pytest.mark.parametrize("e", [i * 4 + j, j * 7 - i * 2 + k, -i, i * 100 + k * 3 - 1, i + i - k * 12])
def test_stride_is_exact_on_affine_images_of_boxes(e):
    found = Context(BOX).value_set(e, domain="stride")
    listed = Context(BOX).value_set(e, domain="points")
    assert found.is_exact and found.count() == listed.count()
    assert all((v in found) == (v in listed) for v in range(int(listed.min) - 2, int(listed.max) + 3))


def test_conditions_refine_the_light_domains():
    ctx = Context({i: Range(0, 100), j: Range(0, 100)}, assume=[i + j * 4 < 14, (i % 4).eq(1)])
    assert tuple(map(int, ctx.bounds(i, domain="interval*modular"))) == (1, 13)
    assert tuple(map(int, ctx.bounds(j, domain="interval"))) == (0, 3)
    assert tuple(map(int, ctx.bounds(j))) == (0, 3)
    summed = Context({i: Range(0, 10), j: Range(0, 10)}, assume=[((i + j) % 8).eq(0)])
    assert 8 in summed.value_set(i + j, domain="stride") and 9 not in summed.value_set(i + j, domain="stride")


# -- sets --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operations", daily([2_000, Config().isl_operations], 2))
def test_a_region_that_is_hard_to_count_is_refused(operations):
    n = ShapeVar("n")
    with intset.using(isl_operations=operations):
        hard = Context({i: Range(0, n), j: Range(0, n)}).image(((i * 7 + j) % 13, (i + j * 5) % 11))
        with pytest.raises(CountError):
            hard.count()


def test_an_end_says_a_number_where_its_term_has_none():
    i, n, m = Var("i"), ShapeVar("n"), ShapeVar("m")
    found = Context({i: Range(0, n + 1)}, domain="isl").value_set(minimum(i * 2, select(n.ne(0), m // n, m)))
    assert [found.at({n: 0, m: 4}).ends(), found.at({n: 3, m: 5}).ends()] == [(0, 0), (0, 1)]
    _, plain = Context({i: Range(0, n)}, domain="isl").bounds(i + m // n)  # it is asked where n is not 0
    assert str(plain) == "m // n + n - 1"


# -- products ----------------------------------------------------------------------------------------------------------

i, j = Var("i"), Var("j")
n = ShapeVar("n", 1)


@pytest.mark.parametrize("domain", ["interval*isl", "isl*interval", "auto"])
@pytest.mark.parametrize("e", [(n // 2) * i, (n // 3) * (i - 1), i * n - i])
def test_a_side_is_no_looser_than_the_bounds_of_its_coordinate(domain: str, e: Expr) -> None:
    ctx = Context({i: Range(0, n), j: Range(2, 5)}, domain=domain)
    low, high = ctx.bounds(e)
    assert high is not POS_INF
    side = ctx.image((e, j)).box[0]
    assert isinstance(side.extent, Expr) and isinstance(low, Expr) and isinstance(high, Expr)
    last = side.min + side.extent - 1
    for size in range(1, 9):
        values = {n: size}
        assert evaluate(low, values) <= evaluate(side.min, values) and evaluate(last, values) <= evaluate(high, values)

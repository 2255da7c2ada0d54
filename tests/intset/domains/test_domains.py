"""One soundness suite for all domains, also from outside; a sound one is never blamed; what each of them promises."""

import random
from typing import Any

import pytest

import intset
from intset import (
    NEG_INF,
    POS_INF,
    Bounds,
    Context,
    CountError,
    DomainError,
    Expr,
    IntervalSet,
    IntSet,
    Range,
    Region,
    ShapeVar,
    Var,
)
from intset.config import Config
from intset.domains.interval import IntervalDomain
from intset.domains.query import Query
from intset.domains.registry import domain_named
from intset.domains.sets.region import ProductRegion
from intset.testing import soundness
from tests.intset.domains.outside import KnownBits, registered
from tests.intset.oracle import Claims, answered
from tests.strategies.contexts import Drawn, value
from tests.sweeps import daily

pytestmark = pytest.mark.filterwarnings("ignore::intset.errors.ContradictionWarning")
BUILT_IN = ("auto", "interval", "stride", "modular", "interval*modular", "bits", "isl", "points", "interval*isl")


@pytest.fixture
def known_bits():
    with registered(KnownBits) as name:
        yield name


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

    with registered(Liar):
        assert any(found in line for line in soundness("liar", 60).wrong)


i, j = Var("i"), Var("j")


@pytest.mark.parametrize("operations", daily([2_000, Config().isl_operations], 2))
def test_a_region_that_is_hard_to_count_is_refused(operations):
    n = ShapeVar("n")
    with intset.using(isl_operations=operations):
        hard = Context({i: Range(0, n), j: Range(0, n)}).image(((i * 7 + j) % 13, (i + j * 5) % 11))
        with pytest.raises(CountError):
            hard.count()


# -- drawn domains -----------------------------------------------------------------------------------------------------

NAME = "thirdparty"
INNER = ("interval", "stride", "isl", "auto", "points", "modular")


def moved(end: Any, by: int) -> Any:
    return end + by if isinstance(end, Expr) else end


class Slack:
    """A sound domain: widened ends of another domain, with chosen optional methods."""

    name = NAME

    def __init__(self, inner: str, slack: int) -> None:
        self.inner, self.slack = domain_named(inner), slack

    def image(self, query: Query) -> IntSet:
        low, high = self.inner.image(query).ends()
        return IntervalSet(moved(low, -self.slack), moved(high, self.slack), NAME)


def bounds(self: Slack, query: Query) -> Bounds:
    return Bounds(*self.image(query).ends(), False, NAME)


def region(self: Slack, query: Query) -> Region:
    return ProductRegion([self.image(query.of(e)) for e in query.exprs], NAME, False)


def sound_domain(rng: random.Random) -> Slack:
    methods: dict[str, Any] = {"bounds": bounds} if rng.random() < 0.5 else {}
    if rng.random() < 0.5:
        methods["region"] = region
    if rng.random() < 0.3:
        isl: Any = domain_named("isl")  # it has regions
        methods |= {"points": lambda _, query: isl.points(query), "everything": lambda _, dims: isl.everything(dims)}
    return type("Drawn", (Slack,), methods)(rng.choice(INNER), rng.choice([0, 0, 1, 5]))


def drawn_context(rng: random.Random, **options: Any) -> Drawn:
    """A context with ranges that some or all sizes make empty."""
    return Drawn(rng, ranges="empty sized sized dependent", sizes=2, exprs=2, **options)


def put(claims: Claims, exprs: tuple[Expr, ...], domain: str) -> None:
    """Questions to a sound domain: it answers them truly, or a refusal comes instead."""
    for name in ("about", "joined"):
        answered(lambda name=name: getattr(claims, name)(exprs[0], domain))
    answered(lambda: claims.algebra(exprs, ["itself", "union"], domain))


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 1600, 10), 160))
def test_a_sound_domain_is_never_blamed(start: int) -> None:
    for seed in [*range(start, start + 10), *([299] if not start else [])]:
        rng = random.Random(seed)
        with registered(sound_domain(rng)):
            drawn = drawn_context(rng, variables=3, kept=15)
            put(Claims(drawn.setting), drawn.exprs, rng.choice([NAME, NAME, NAME, f"{NAME}*modular", "auto"]))


class Crossing(Slack):
    """A domain whose ends cross by `gap`, whatever the question is."""

    gap = 1
    how = "image"

    def _ends(self, query: Query) -> tuple[Any, Any]:
        low, high = self.inner.image(query).ends()
        return (low, high) if low is POS_INF else (moved(high, self.gap), moved(low, 0))

    def image(self, query: Query) -> IntSet:
        low, high = self._ends(query) if self.how == "image" else (NEG_INF, POS_INF)
        return IntervalSet(low, high, NAME)

    def bounds(self, query: Query) -> Bounds:
        low, high = self._ends(query) if self.how == "bounds" else (NEG_INF, POS_INF)
        return Bounds(low, high, False, NAME)


@pytest.mark.parametrize("start", daily(range(0, 1600, 20), 80))
def test_ends_that_cross_are_blamed_exactly_where_there_is_a_point(start: int) -> None:
    blamed = 0
    for seed in range(start, start + 20):
        rng = random.Random(seed)
        how = rng.choice(["image", "bounds"])
        drawn = drawn_context(rng, facts=15, depth=1)
        ctx, e = drawn.ctx, drawn.exprs[0]
        is_constant = all(isinstance(end, Expr) and end.is_const for end in ctx.bounds(e, domain="interval"))
        error = None
        with registered(type("Wrong", (Crossing,), {"how": how, "gap": rng.choice([1, 4])})("interval", 0)):
            try:
                (ctx.bounds if how == "bounds" else ctx.value_set)(e, domain=NAME)
            except DomainError as caught:
                error = caught
        has_point = any(value(e, at) is not None for at in drawn.points())
        assert error is None or (has_point and "a lower and an upper end" in str(error)), (seed, error)
        assert error is not None or not (has_point and is_constant), seed
        blamed += error is not None
    assert blamed > 3

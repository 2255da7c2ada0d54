"""Third parties' domains at random: a sound one is never blamed, one whose ends exclude a true element is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from intset import (
    NEG_INF,
    POS_INF,
    Bounds,
    Context,
    CountError,
    DomainError,
    Expr,
    InputError,
    IntervalSet,
    IntSet,
    Range,
    Region,
    ShapeVar,
    UndecidedError,
    Var,
    maximum,
    register,
)
from intset.domains.query import Query
from intset.domains.registry import domain_named, unregister
from intset.domains.sets.region import ProductRegion
from tests.strategies.contexts import Drawn, value
from tests.sweeps import daily

I, J, K = Var("i"), Var("j"), Var("k")
N, M = ShapeVar("n"), ShapeVar("m", lower=1)
NAME = "thirdparty"
INNER = ("interval", "stride", "isl", "auto", "points", "modular")
REFUSALS = (CountError, UndecidedError, InputError)


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


def points(self: Slack, query: Query) -> Any:
    return domain_named("isl").points(query)  # type: ignore[attr-defined]  # it has regions


def everything(self: Slack, dims: int) -> Any:
    return domain_named("isl").everything(dims)  # type: ignore[attr-defined]


def sound_domain(rng: random.Random) -> Slack:
    methods: dict[str, Any] = {"bounds": bounds} if rng.random() < 0.5 else {}
    if rng.random() < 0.5:
        methods["region"] = region
    if rng.random() < 0.3:
        methods |= {"points": points, "everything": everything}
    return type("Drawn", (Slack,), methods)(rng.choice(INNER), rng.choice([0, 0, 1, 5]))


def drawn_context(rng: random.Random, **options: Any) -> Drawn:
    """A context with ranges that some or all sizes make empty."""
    return Drawn(rng, ranges="empty sized sized dependent", sizes=2, exprs=2, **options)


@contextmanager
def registered(domain: Any) -> Iterator[None]:
    register(domain, NAME)
    try:
        yield
    finally:
        unregister(NAME)


def ask(found: IntSet | Region | None) -> None:
    """Everything that a set or region tells; only a refusal may come instead."""
    if found is None:
        return
    for name in ("count", "count_max", "lexmin", "lexmax", "sample", "hull", "pieces", "box", "ends", "is_tight"):
        answered(lambda name=name: _called(getattr(found, name, None)))
    for name in ("is_empty", "params", "notes", "shape", "__repr__"):
        answered(lambda name=name: _called(getattr(found, name)))


def _called(found: Any) -> Any:
    return found() if callable(found) else found


def answered(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except REFUSALS:
        return None


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("start", daily(range(0, 1600, 10), 160))
def test_a_sound_domain_is_never_blamed(start: int) -> None:
    for seed in [*range(start, start + 10), *([299] if not start else [])]:
        rng = random.Random(seed)
        with registered(sound_domain(rng)):
            drawn = drawn_context(rng, variables=3)
            ctx, running, (e, f) = drawn.ctx, list(drawn.ranges), drawn.exprs
            keep = rng.sample(running, rng.randint(0, 2)) if rng.random() < 0.4 else []
            asked = rng.choice([NAME, NAME, NAME, f"{NAME}*modular", "auto"])
            answered(lambda ctx=ctx, e=e, keep=keep, asked=asked: ctx.bounds(e, keep, asked))
            one = answered(lambda ctx=ctx, e=e, keep=keep, asked=asked: ctx.value_set(e, keep, asked))
            two = answered(lambda ctx=ctx, f=f, asked=asked: ctx.value_set(f, domain=asked))
            many = answered(lambda ctx=ctx, e=e, f=f, keep=keep, asked=asked: ctx.image((e, f), keep, asked))
            for found in (one, two, many):
                ask(found)
                if found is not None:
                    sizes = {v: rng.randint(0, 5) for v in found.params if v in drawn.sizes}
                    there = answered(lambda found=found, sizes=sizes: found.at(sizes))
                    ask(there)
                    if there is not None:
                        ask(answered(lambda found=found, there=there: found | there))
                        ask(answered(lambda found=found, there=there: found & there))


def test_ends_that_cross_are_no_fault_where_there_is_no_point() -> None:
    """The ends of `[n, -n)` cross for all sizes at which it has elements: for none."""
    for slack in (0, 1):
        for inner in ("interval", "auto"):
            with registered(type("Whole", (Slack,), {"bounds": bounds, "region": region})(inner, slack)):
                for empty in (Range(N + 1, -N), Range(0, -M - 3), Range(5, 0), Range(M, M - M - 4)):
                    ctx = Context({I: empty, J: Range(0, 4)})
                    for e in (I * 2 + J, I // 3, maximum(I, J)):
                        ends = ctx.bounds(e, domain=NAME)
                        assert ends.is_empty or not ends.is_tight
                        ask(ctx.value_set(e, domain=NAME))
                        ask(ctx.image((e, J), domain=NAME))


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

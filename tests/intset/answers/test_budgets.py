"""Every public operation on sets and regions under tiny budgets: typed answers only, and sound ones."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import intset
from intset import (
    Context,
    CountError,
    Expr,
    InputError,
    IntSet,
    Range,
    Region,
    ShapeVar,
    UndecidedError,
    Var,
    evaluate,
    using,
)
from intset.domains.points import PointSet
from intset.domains.sets.base import ShapeSet
from intset.domains.sets.region import region_of_shape
from intset.expr.node import as_expr
from intset.infinity import NEG_INF, POS_INF
from intset.testing.contexts import Question, expression, question
from tests.sweeps import daily

BUDGETS: list[dict[str, Any]] = [
    {"isl_operations": 1, "points": 0},
    {"isl_operations": 1},
    {"isl_operations": 10, "points": 1},
    {"isl_operations": 100, "points": 0},
    {"isl_operations": 400, "points": 1},
    {"isl_operations": 1000, "points": 0},
    {"isl_operations": 4000, "points": 0},
    {},
]
NOT_KNOWN = object()
# What may be refused, and how; everything else must answer.
REFUSALS: dict[str, Any] = {
    "count": CountError,
    "count_max": CountError,
    "count_total": CountError,
    "condition": UndecidedError,
    "conditions": UndecidedError,
    "constraints": UndecidedError,
    "to_text": (UndecidedError, InputError),  # InputError: a size in a product
    "in_instances": UndecidedError,
    **dict.fromkeys(("lexmin", "lexmax", "sample", "pieces"), UndecidedError),
    "__contains__": (UndecidedError, InputError),  # of what depends on sizes
}
# attributes, not operations
DATA = {
    "by", "dims", "where", "shape", "sets", "value", "values", "low", "high", "offset", "steps", "decided",
}  # attributes, not operations  # fmt: skip


def operations(s: IntSet | Region) -> set[str]:
    """Public operations and attributes of a set; the suite must cover new ones."""
    own = {"__contains__", "__or__", "__and__", "__le__", "__ge__", "__eq__", "__repr__", "__reduce__"}
    return {name for name in dir(s) if not name.startswith("_") or name in own and hasattr(s, name)} - DATA


def answer(name: str, ask: Callable[[], Any]) -> Any:
    """The result of an operation, or `NOT_KNOWN` for its documented refusals."""
    try:
        return ask()
    except REFUSALS.get(name, ()):
        return NOT_KNOWN


def asked(s: IntSet | Region, other: Any, point: Any, values: dict[Var, int]) -> dict[str, Any]:
    """The answers of all operations that `s` has."""
    asks: dict[str, Callable[[], Any]] = {
        "__contains__": lambda: point in s,
        "__or__": lambda: s | other,
        "__and__": lambda: s & other,
        "__sub__": lambda: s - other,
        "project": lambda: s.project((0,)),
        "__le__": lambda: s <= other,
        "__ge__": lambda: s >= other,
        "__eq__": lambda: s == other,
        "__repr__": lambda: repr(s),
        "__reduce__": lambda: pickle.loads(pickle.dumps(s)),
        "at": lambda: s.at(values),
        "substituted": lambda: s.substituted({v: as_expr(x) for v, x in values.items()}),
        "contains": lambda: s.contains(point),
        "condition": lambda: s.condition(point),
        "constraints": lambda: s.constraints(point),
        "to_text": lambda: s.to_text("isl"),
        "point_of": lambda: s.point_of(point, lambda x, what: x),
        "in_instances": lambda: s.in_instances(),
        "conditions": lambda: s.conditions(point if isinstance(s, Region) else (as_expr(point),)),
        "outer_box": lambda: s.outer_box().pairs,
    }
    methods = ("count", "count_max", "count_total", "describe", "ends", "bounds", "knows_where_empty")
    for name in (*methods, "hull", "lexmin", "lexmax", "sample", "pieces"):
        asks[name] = lambda name=name: getattr(s, name)()
    for name in (
        "min", "max", "params", "is_empty", "is_everything", "is_single_point", "is_tight", "is_exact", "box", "notes",
        "coordinate_bounds", "point", "mentioned", "base", "strides", "extents", "modulus", "remainder",
    ):  # fmt: skip
        asks[name] = lambda name=name: getattr(s, name)
    known = operations(s)
    assert known <= set(asks), f"not tried here: {known - set(asks)}"
    return {name: answer(name, asks[name]) for name in sorted(known)}


def elements_of(end: Any, point: dict[Var, int], infinity: Any) -> Any:
    return end if end is infinity else evaluate(end, point) if isinstance(end, Expr) else None


def holds(verdict: Any, truth: bool, is_exact: bool) -> bool:
    """Whether a membership verdict is correct for a superset, or for the exact set."""
    return verdict is NOT_KNOWN or (truth <= verdict if not is_exact else verdict is truth)


def check(s: IntSet | Region, truth: set[Any], other: Any, more: set[Any], probe: Any) -> dict[str, Any]:
    """What every set and every region must answer, or refuse; all its answers."""
    found = asked(s, other, probe, {})
    assert holds(found["__contains__"], probe in truth, s.is_exact)
    assert not (found["is_empty"] and truth)
    assert found["count"] is NOT_KNOWN or (
        found["count"] == len(truth) if s.is_exact else found["count"] is POS_INF or found["count"] >= len(truth)
    )
    for operation, both in (("__or__", truth | more), ("__and__", truth & more)):
        for member in sorted(both)[:3]:
            asks = lambda joined=found[operation], member=member: member in joined  # noqa: E731
            assert answer("__contains__", asks) in (True, NOT_KNOWN)
    if s.is_exact and other.is_exact:
        assert not found["__le__"] or truth <= more
        assert not found["__eq__"] or truth == more
    return found


def check_set(s: IntSet, truth: set[int], other: IntSet, more: set[int]) -> None:
    probe = random.Random(len(truth)).choice([*truth, -1000, 3])
    found = check(s, truth, other, more, probe)
    wrong = "refuted" if probe in truth else "proved" if s.is_exact else None
    assert found["contains"].status != wrong
    low, high = found["ends"]
    if truth:
        assert low is NEG_INF or int(low) <= min(truth)
        assert high is POS_INF or int(high) >= max(truth)
        if found["is_tight"]:
            assert (int(low), int(high)) == (min(truth), max(truth))
        elif s.is_exact:
            assert found["notes"] or s.notes
    assert found["__reduce__"].is_exact == s.is_exact
    for joined, both in ((found["__or__"], truth | more), (found["__and__"], truth & more)):
        if both and isinstance(joined.min, Expr):
            assert int(joined.min) <= min(both)
        if joined.is_exact and both and joined.is_tight:
            assert (int(joined.min), int(joined.max)) == (min(both), max(both))


def check_region(r: Region, truth: set[tuple[int, ...]], other: Region, more: set[tuple[int, ...]]) -> None:
    probe = random.Random(len(truth)).choice([*sorted(truth)[:5], (-1000, 3)])
    for k, side in enumerate(check(r, truth, other, more, probe)["box"]):
        values = [point[k] for point in truth]
        if values:
            assert side.min is NEG_INF or int(side.min) <= min(values)
            assert side.max is POS_INF or int(side.max) >= max(values)
            if r.is_exact and not r.notes and r.is_tight:
                assert (int(side.min), int(side.max)) == (min(values), max(values))
            if r.is_exact:
                assert isinstance(side.min, Expr) and isinstance(side.max, Expr), "bounded, so its box is"


def contexts(q: Question) -> Context:
    return Context(q.ranges, assume=q.conds)


def truth_of(q: Question, exprs: Iterable[Expr]) -> set[tuple[int, ...]]:
    found = set()
    for point in q.points():
        try:
            found.add(tuple(evaluate(e, dict(zip(q.variables, point, strict=True))) for e in exprs))
        except intset.EvaluationError:
            continue
    return found


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("domain", ["auto", "isl", "stride"])
@pytest.mark.parametrize("start", daily(range(20), 20))
def test_sets_and_regions_answer_under_any_budget(budget: dict[str, Any], domain: str, start: int) -> None:
    for seed in range(start, 40, 20):
        q, rng = question(seed), random.Random(seed)
        second, third = expression(rng, q.variables, 3), expression(rng, q.variables, 2)
        truth, more = ({value for (value,) in truth_of(q, (e,))} for e in (q.expr, second))
        exprs, others = (q.expr, third), (third, q.expr)
        points, more_points = truth_of(q, exprs), truth_of(q, others)
        with using(domain=domain, **budget):
            ctx = contexts(q)
            check_set(ctx.value_set(q.expr), truth, ctx.value_set(second), more)
            check_region(ctx.image(exprs), points, ctx.image(others), more_points)
        found = contexts(q).value_set(q.expr, domain=domain)  # made under the usual budget, used under another
        region = contexts(q).image(exprs, domain=domain)
        with using(**budget):
            check_set(found, truth, contexts(q).value_set(second, domain=domain), more)
            check_region(region, points, contexts(q).image(others, domain=domain), more_points)


@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=str)
def test_symbolic_regions_answer_under_any_budget(budget: dict[str, Any]) -> None:
    i, j, n, q = Var("i"), Var("j"), ShapeVar("n", lower=1, upper=40), ShapeVar("q", lower=1)
    ctx = Context({i: Range(1, 7), j: Range(0, n)})
    images = [((q | -8) + i % q, (i - q) | 10), ((i * j) // 3, j % 5 + i), (i // n + j, j // 4 - i % 3)]
    for exprs, sizes in zip(images, ((1, 7), (7,), (1,)), strict=True):
        with using(**budget):
            region = ctx.image(exprs)
            for size in sizes:
                truth = {
                    tuple(evaluate(e, {i: a, j: b, n: size, q: size}) for e in exprs)
                    for a in range(1, 8)
                    for b in range(size)
                }
                there = region.at({n: size, q: size})
                assert not there.is_exact or there.is_tight or there.notes
                for k, side in enumerate(region.box):
                    values, at = [p[k] for p in truth], {n: size, q: size}
                    low, high = elements_of(side.min, at, NEG_INF), elements_of(side.max, at, POS_INF)
                    assert low is NEG_INF or low <= min(values)
                    assert high is POS_INF or high >= max(values)
                check_region(there, truth, there, truth)
            asked(region, region, (i, j), {n: 3})
            for e in exprs:
                s = ctx.value_set(e)
                assert (s | s).is_exact <= s.is_exact
                assert s <= s
                assert repr(s.at({n: 3}))


def test_an_operation_that_gives_up_says_so() -> None:
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 100), j: Range(0, 100)})
    region = ctx.image((i // 3 + j % 7, i % 11 - j // 2))
    with using(isl_operations=1):
        small = region_of_shape(region.shape, True, (), region.outer_box())
        assert region.is_exact and region.is_tight and not region.notes, "budgets are those that it was made under"
        assert (0, 0) in region
    assert small.is_exact and not small.is_tight and "given up" in small.notes[0]
    assert [(int(r.min), int(r.max)) for r in small.box] == [(0, 39), (-49, 10)]
    with pytest.raises(UndecidedError):
        (0, 0) in small  # noqa: B015
    assert region.is_tight and not region.notes


def test_an_exact_image_of_ten_thousand_points_is_counted() -> None:
    i, j, k = Var("i"), Var("j"), Var("k")
    ctx = Context({i: Range(0, 100), j: Range(0, 100)}, assume=[(i * 3 + j) % 7 > 0])
    points = [(a, b) for a in range(100) for b in range(100) if (a * 3 + b) % 7 > 0]
    images: list[tuple[tuple[Expr, ...], int]] = [
        (exprs, len({tuple(evaluate(e, {i: a, j: b}) for e in exprs) for a, b in points}))
        for exprs in [
            (i, j),
            (i * 5 + j % 3, j * 7 - i // 4),
            (i * 101 + j, i - j),
            (i // 3 + j * 50, i % 3, (i + j) // 2),
            (intset.maximum(i, j) * 3 + i % 5, intset.minimum(i, j), i % 7),
        ]
    ]
    for exprs, number in images:
        region = ctx.image(exprs)
        assert not region.is_exact or region.count() == number
        assert region.is_exact
    cube = Context({i: Range(0, 22), j: Range(0, 22), k: Range(0, 21)}).image((i * 3 + j // 2, j + k % 5, k * 2 - i))
    assert cube.is_exact and cube.count() == len(
        {(a * 3 + b // 2, b + c % 5, c * 2 - a) for a in range(22) for b in range(22) for c in range(21)}
    )


def test_copies_keep_what_was_known() -> None:
    i = Var("i")
    s = Context({i: Range(0, 300)}).value_set(i // 7 + i % 5, domain="isl")
    for again in (copy.copy(s), pickle.loads(pickle.dumps(s))):
        with using(isl_operations=1):
            assert (int(again.min), int(again.max)) == (0, 46)
            assert pickle.loads(pickle.dumps(s)).count() == s.count(), "a copy keeps its budgets"
            with pytest.raises(CountError):
                ShapeSet(s.shape, s.by, is_exact=True).count()
        assert again == s and again.count() == s.count()


def test_a_set_with_parameters_is_refused_as_before() -> None:
    i, n = Var("i"), ShapeVar("n")
    with pytest.raises(InputError):
        3 in Context({i: Range(0, n)}).value_set(i * 2)  # noqa: B015
    assert isinstance(Context({i: Range(0, 3)}).value_set(i * i), PointSet | IntSet)

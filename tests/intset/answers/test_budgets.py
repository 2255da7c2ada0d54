"""Every public operation on sets and regions under tiny budgets: typed answers only, and sound ones."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from intset import Context, CountError, InputError, IntSet, Range, Region, ShapeVar, UndecidedError, Var, using
from intset.domains.sets.base import ShapeSet
from intset.domains.sets.region import region_of_shape
from intset.expr.node import as_expr
from tests.intset.oracle import ALGEBRA, Claims, answered
from tests.strategies.contexts import EVERY, Drawn, world
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
    **dict.fromkeys(("count", "count_max", "count_total"), CountError),
    **dict.fromkeys(("condition", "conditions", "constraints", "in_instances"), UndecidedError),
    **dict.fromkeys(("lexmin", "lexmax", "sample", "pieces"), UndecidedError),
    "to_text": (UndecidedError, InputError),  # InputError: a size in a product
    "__contains__": (UndecidedError, InputError),  # of what depends on sizes
}
DATA = {
    "by", "dims", "where", "shape", "sets", "value", "values", "low", "high", "offset", "steps", "decided",
}  # attributes, not operations  # fmt: skip


def answer(name: str, ask: Callable[[], Any]) -> Any:
    """The result of an operation, or `NOT_KNOWN` for its documented refusals."""
    try:
        return ask()
    except REFUSALS.get(name, ()):
        return NOT_KNOWN


def asked(s: IntSet | Region, other: Any, point: Any, values: dict[Var, int]) -> dict[str, Any]:
    """The answers of all operations that `s` has; a new one has no row here, and fails."""
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
    own = {"__contains__", "__or__", "__and__", "__le__", "__ge__", "__eq__", "__repr__", "__reduce__"}
    known = {name for name in dir(s) if not name.startswith("_") or name in own and hasattr(s, name)} - DATA
    assert known <= set(asks), f"not tried here: {known - set(asks)}"
    return {name: answer(name, asks[name]) for name in sorted(known)}


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("domain", ["auto", "isl", "stride"])
@pytest.mark.parametrize("seed", daily(range(40), 40))
def test_sets_and_regions_answer_under_any_budget(budget: dict[str, Any], domain: str, seed: int) -> None:
    """What is made under the usual budget and used under another, and what is made under that one."""
    drawn = Drawn(f"{seed} {domain} {budget}", EVERY, "box sized", sizes=1, exprs=2, facts=40)
    claims, (e, f) = Claims(drawn.setting, seed=seed), drawn.exprs
    truth, sizes = claims.setting.values(e, f), dict.fromkeys(drawn.sizes, 3)
    early = [claims.ctx.value_set(one, domain=domain) for one in (e, f)], claims.ctx.image((e, f), domain=domain)
    with using(**budget):
        claims.about(e, domain)
        answered(lambda: claims.joined(f, domain))
        for name in ("itself", [*ALGEBRA][1 + len(f"{domain} {budget}") % 9]):
            answered(lambda name=name: claims.algebra((e, f), [name], domain))
        late = [claims.ctx.value_set(one, domain=domain) for one in (e, f)], claims.ctx.image((e, f), domain=domain)
        for (first, second), region in (early, late):
            found = asked(first, second, claims.rng.randint(-3, 9), sizes)
            if not drawn.sizes and first.is_exact and second.is_exact:
                assert not found["__le__"] or set(*claims.truth(e).values()) <= set(*claims.truth(f).values())
            assert drawn.sizes or not truth or not first.is_exact or first.is_tight or found["notes"] or first.notes
            assert not region.is_exact or region.is_tight or region.notes or not truth
            point = next(iter(next(iter(truth.values()), {(-1000, 3)})))
            verdict = asked(region, region, point, sizes)["__contains__"]
            assert verdict in (True, NOT_KNOWN) or point not in truth.get((), ())


@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=str)
def test_symbolic_regions_answer_under_any_budget(budget: dict[str, Any]) -> None:
    i, j, n, q = Var("i"), Var("j"), ShapeVar("n", lower=1, upper=40), ShapeVar("q", lower=1)
    claims = Claims(world({i: Range(1, 7), j: Range(0, n)}, sizes=[n, q]))
    for exprs in (((q | -8) + i % q, (i - q) | 10), ((i * j) // 3, j % 5 + i), (i // n + j, j // 4 - i % 3)):
        with using(**budget):
            answered(lambda exprs=exprs: claims.algebra(exprs, ["itself"]))
            region = claims.ctx.image(exprs)
            for there in [region.at({n: size, q: size}) for size in (1, 7)]:
                found = asked(there, region, (3, 3), {})
                assert not there.is_exact or there.is_tight or there.notes
                assert found["pieces"] is NOT_KNOWN or all(piece.outer_box().pairs for piece in found["pieces"])
            assert asked(region, region, (i, j), {n: 3})
            for s in map(claims.ctx.value_set, exprs):
                assert (s | s).is_exact <= s.is_exact and s <= s and repr(s.at({n: 3}))


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

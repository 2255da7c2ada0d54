"""Printed answers are independent of earlier queries; lexicographic extrema, images that are no Presburger set."""

from __future__ import annotations

import ast
import ctypes
import pickle
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import intset
from intset import Context, Range, Region, ShapeVar, Var, ceildiv
from intset.domains.isl import bindings
from intset.domains.isl.session import context, isl
from intset.errors import IntSetError
from intset.expr.dag import substitute
from intset.expr.node import Expr
from intset.testing.contexts import Setting, setting
from tests import ROOT
from tests.intset.oracle import Claims
from tests.strategies.contexts import world
from tests.sweeps import daily

FOUND = (336272, 341296, 441997)  # an end was written in two ways
FOLDER = ROOT / "intset" / "domains" / "isl"
QUESTIONS: dict[str, Callable[[Any, Any], object]] = {
    "shown": lambda s, n: repr(s),
    "ends": lambda s, n: s.ends(),
    "empty": lambda s, n: s.is_empty,
    "count": lambda s, n: s.count(),
    "contains": lambda s, n: s.contains(1).status,
    "at": lambda s, n: s.at({n: 3}).ends() if n else None,
    "joined": lambda s, n: (s | s).ends(),
    "met": lambda s, n: (s & s).ends(),
    "part": lambda s, n: s <= s,
    "claims": lambda s, n: (s.is_exact, s.is_tight, s.is_everything),
    "conditions": lambda s, n: s.conditions((Var("x"),)),
}


def anew(drawn: Setting, order: list[int], between: int = 0) -> tuple[dict[Var, Range], list[Any], Any, list[Var]]:
    """The same setting over fresh variables, created in another order and interleaved with others."""
    old = list(dict.fromkeys((*drawn.ranges, *drawn.sizes)))
    new: dict[Var, Any] = {}
    for k in order:
        for _ in range(between):
            Var("z")
        v = old[k]
        if isinstance(v, ShapeVar):
            low, high, step = v.declared()
            new[v] = ShapeVar(v.name, lower=low, upper=high, multiple_of=step)
        else:
            new[v] = Var(v.name)

    def renamed(e: Any) -> Any:
        return substitute(e, new) if hasattr(e, "op") else e

    ranges = {new[v]: Range(renamed(r.min), renamed(r.extent)) for v, r in drawn.ranges.items()}
    return ranges, [renamed(f) for f in drawn.facts], renamed(drawn.exprs[0]), [new[v] for v in drawn.keep]


def told(question: Callable[[], object]) -> str:
    try:
        return str(question())
    except IntSetError as error:
        return type(error).__name__


def answers(drawn: Setting, asked: list[str], order: list[int], between: int = 0) -> dict[str, str]:
    ranges, facts, e, keep = anew(drawn, order, between)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        s = Context(ranges, assume=facts).value_set(e, keep=keep, domain="isl")
    size = next((p for p in s.free_params() if isinstance(p, ShapeVar)), None) if hasattr(s, "free_params") else None
    return {name: told(lambda: QUESTIONS[name](s, size)) for name in asked}  # noqa: B023


@pytest.mark.parametrize("number", [*FOUND, *daily(range(40), 12)])
def test_whatever_was_asked_before_and_whenever_variables_were_made(number: int) -> None:
    drawn, rng = setting(number), random.Random(number)
    if drawn is None:
        return
    count = len({*drawn.ranges, *drawn.sizes})
    first = {name: answers(drawn, [name], list(range(count)))[name] for name in QUESTIONS}
    for between in (0, 3):
        asked = rng.sample(list(QUESTIONS), len(QUESTIONS))
        assert answers(drawn, asked, list(range(count)), between) == first, asked
    # Creation order decides the order of terms in a sum, and nothing else.
    other = answers(drawn, list(QUESTIONS), rng.sample(range(count), count))
    words = {name: sorted(re.findall(r"\w+|\S", text)) for name, text in first.items() if name != "shown"}
    assert {name: sorted(re.findall(r"\w+|\S", other[name])) for name in words} == words


# -- what leaves a set as it is ---------------------------------------------------------------------------------------

SETS = (
    "[n] -> { [i] -> [i - 2] } | [n] -> { [i] : -1 <= i <= n - 2 and i <= 0 }",
    "[n] -> { [i, j] -> [3i + j] } | [n] -> { [i, j] : 0 <= i < n and 0 <= j < 3 and i <= 2 and j <= n }",
    "[n] -> { [i] -> [floor(i/3)] } | [n] -> { [i] : 0 <= i < n and i mod 2 = 0 and n <= 5 }",
)
HARMLESS: dict[str, Callable[[Any], object]] = {
    "dim": lambda s: s.dim(isl().dim_type.param),
    "dim_has_lower_bound": lambda s: s.dim_has_lower_bound(isl().dim_type.set, 0),
    "dim_has_upper_bound": lambda s: s.dim_has_upper_bound(isl().dim_type.set, 0),
    "dim_max_val": lambda s: s.dim_max_val(0),
    "dim_min_val": lambda s: s.dim_min_val(0),
    "find_dim_by_name": lambda s: s.find_dim_by_name(isl().dim_type.param, "n"),
    "fix_val": lambda s: s.fix_val(isl().dim_type.set, 0, 3).is_empty(),
    "get_basic_sets": lambda s: [part.to_set().is_empty() for part in s.get_basic_sets()],
    "get_space": lambda s: s.get_space(),
    "intersect_params": lambda s: s.intersect_params(isl().Set.read_from_str(context(), "[n] -> { : n >= 0 }")),
    "involves_dims": lambda s: s.involves_dims(isl().dim_type.param, 0, 1),
    "is_empty": lambda s: s.is_empty(),
    "is_subset": lambda s: (s.is_subset(s), s.is_subset(made(0)), made(1).is_subset(s)),
    "n_basic_set": lambda s: s.n_basic_set(),
}


def made(k: int) -> Any:
    function, domain = SETS[k].split(" | ")
    m = isl()
    return m.Map.read_from_str(context(), function).intersect_domain(m.Set.read_from_str(context(), domain)).range()


def written(points: Any) -> list[Any]:
    """The internal constraints of each disjunct, which no text shows."""
    library = bindings.shared_object()

    def function(name: str, result: Any, *arguments: Any) -> Any:
        found = library[name]
        found.restype, found.argtypes = result, arguments
        return found

    pointer, number = ctypes.c_void_p, ctypes.c_int
    entry = function("isl_mat_get_element_val", isl().Val, pointer, number, number)
    rows, columns = (function(f"isl_mat_{name}", number, pointer) for name in ("rows", "cols"))
    found = []
    for part in points.get_basic_sets():
        for kind in ("equalities", "inequalities"):
            matrix = function(f"isl_basic_set_{kind}_matrix", pointer, pointer, *[number] * 4)(part, 3, 1, 4, 0)
            found.append([[str(entry(matrix, i, j)) for j in range(columns(matrix))] for i in range(rows(matrix))])
            function("isl_mat_free", None, pointer)(matrix)
    return found


def test_a_set_is_left_as_it_was_by_what_shares_it() -> None:
    changed = set()
    for k in range(len(SETS)):
        for name, ask in HARMLESS.items():
            points = made(k)
            before = written(points)
            ask(points)
            assert written(points) == before, name
        points = made(k)
        before = written(points)
        own = isl().duplicate(points)
        assert written(own) == before and own.is_equal(points)
        before, points = written(made(k)), made(k)
        own = isl().duplicate(points)
        own.dim_max(0), own.union(made(1)), own.complement()
        assert written(points) == before
        changed.add(written(own) != before)
    assert changed == {True}  # the test can fail


def is_shared(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "shared"


def pairs(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def test_no_other_method_is_asked_of_a_set_that_is_shared() -> None:
    """Method calls on results of `shared()`, direct or through a local name."""
    asked: set[str] = set()
    for path in FOLDER.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            names = {
                target.id
                for node in ast.walk(function)
                if isinstance(node, ast.Assign)
                for target, value in pairs(node)
                if isinstance(target, ast.Name) and is_shared(value)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute):
                    of = node.value
                    if is_shared(of) or (isinstance(of, ast.Name) and of.id in names):
                        asked.add(node.attr)
    assert {"is_empty", "dim", "involves_dims"} <= asked <= {*HARMLESS, "duplicate"}, asked - {*HARMLESS}


b = Var("b")


def image(extent: Expr | int, scale: int, e: Expr) -> Region:
    return Context({b: Range(0, extent)}).image((b * scale, e))


@pytest.mark.parametrize("scale", [2, 3, 4, 8])
def test_both_ends_of_images_and_of_relations_of_any_size(scale: int) -> None:
    n = ShapeVar("n", lower=2, upper=8)
    for extent, d in ((7, 2), (7, 3), (7, 8), (n, 4)):
        claims = Claims(world({b: Range(0, extent)}, sizes=[n] if extent is n else []), places=7)
        for e in (ceildiv(b, d), b // d, b % d, -b // d):
            claims.algebra((b * scale, e), ["itself"])
            claims.relation((b * scale, e), 0, ["lexmin", "lexmax"])
            assert image(extent, scale, e).lexmin() and image(extent, scale, e).lexmax()
        assert claims.tally["exact relation"] == 8


def test_constraints_are_ordered_before_isl_is_asked() -> None:
    """No way but the first is needed: else every extremum of such a set is computed twice."""
    from intset.domains.isl.presburger import of

    points = of(image(8, 4, ceildiv(b, 4)).shape)
    assert str(isl().ordered(points.shared()).lexmax()) == "{ [28, 2] }"


# -- listed images -----------------------------------------------------------------------------------------------------

i, j = Var("i"), Var("j")
EXPRS: list[tuple[Any, Any]] = [
    (i * i, j * j),
    (i * i, i * j),
    (i * i + j, j),
    (i * j % 7, i // (j + 1)),
    (i // (j - 2), i * j),
    ((i - j) * (i - j), i),
]


def _claims(height: int, width: int) -> Claims:
    return Claims(world({i: Range(-1, height), j: Range(0, width)}, [i + j < height]))


def _truth(claims: Claims, exprs: tuple[Any, Any]) -> set[tuple[int, ...]]:
    return claims.setting.values(*exprs)[()]


@pytest.mark.parametrize("domain", ["auto", "isl"])
@pytest.mark.parametrize("exprs", EXPRS, ids=str)
def test_a_nonlinear_image_is_its_points(exprs: tuple[Any, Any], domain: str) -> None:
    for height, width in ((6, 5), (9, 4), (40, 40)):
        claims = _claims(height, width)
        region, truth = claims.ctx.image(exprs, domain=domain), _truth(claims, exprs)
        assert region.is_exact and region.is_tight and not region.params and region.count() == len(truth)
        if len(truth) < 100:
            claims.region_of(region, {(): truth}, (exprs, domain))
        assert (region.lexmin(), region.lexmax()) == (min(truth), max(truth)) and region.sample() in truth
        assert all(point in region for point in truth) and (-99, -99) not in region
        copy = pickle.loads(pickle.dumps(region))
        assert copy.count() == len(truth) and copy.at({Var("n"): 3}).count() == len(truth)


def test_the_budget_of_points_is_the_limit() -> None:
    ctx = Context({i: Range(0, 100), j: Range(0, 100)})
    assert ctx.image((i * i, j * j)).count() == 10_000
    assert ctx.image((i * i, j * j)).is_exact
    with intset.using(points=9_999):
        beyond = Context({i: Range(0, 100), j: Range(0, 100)}).image((i * i, j * j))
        assert not beyond.is_exact and beyond.notes
        assert (99 * 99, 98 * 98) in beyond
    n = intset.ShapeVar("n", lower=1)
    assert not Context({i: Range(0, n), j: Range(0, 4)}).image((i * i, j)).is_exact


def test_long_lists_refuse_what_would_be_written_out() -> None:
    region = Context({i: Range(0, 60), j: Range(0, 60)}).image((i * i, j * j))
    box = Context({i: Range(0, 10), j: Range(0, 10)}).image((i, j))
    both = region & box
    assert not both.is_exact or both.count() == 16  # a superset where it cannot be written out
    assert (4, 9) in both
    with pytest.raises(intset.UndecidedError):
        region.condition((i, j))
    assert repr(region)

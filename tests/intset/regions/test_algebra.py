"""The algebra of regions against enumeration; printed answers do not depend on earlier questions; listed images."""

import ast
import ctypes
import pickle
import random
import re
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import product
from typing import Any

import pytest

import intset
from examples.boxes.intset_boxes import Boxes
from intset import (
    Cond,
    Context,
    InputError,
    Range,
    Region,
    ShapeVar,
    UndecidedError,
    Var,
    ceildiv,
    evaluate,
    logical_and,
    truncdiv,
)
from intset.domains.isl import bindings
from intset.domains.isl.presburger import of, translated, universe
from intset.domains.isl.session import context, isl
from intset.errors import BudgetError, CountError, IntSetError
from intset.expr.build import logical_or
from intset.expr.dag import substitute
from intset.expr.evaluate import compiled
from intset.expr.node import NEG_INF, POS_INF, Expr, truth
from intset.regions.shape import Product, Shape
from intset.testing.contexts import Setting, setting
from tests import ROOT
from tests.intset.domains.outside import CoreShape
from tests.intset.oracle import Claims
from tests.intset.oracle import box as hull_of
from tests.strategies.contexts import world
from tests.sweeps import daily, turned

N = ShapeVar("n", lower=0, upper=3)
X, Y = Var("x"), Var("y")
WINDOW, SIZES = range(-6, 10), range(4)
Points = set[tuple[int, ...]]


def box(rng: random.Random, diagonals: bool = True) -> Cond:
    """A random box with strides; some ends are symbolic or missing, and some boxes have a diagonal or are empty."""
    parts: list[Cond] = []
    for v in (X, Y):
        low: Expr | int = rng.choice([rng.randint(-3, 3), N - rng.randint(0, 3)])
        high: Expr | int = rng.choice([rng.randint(-1, 6), N + rng.randint(-1, 3)])
        parts += [v >= low, v <= high]
        if rng.random() < 0.4:
            step = rng.randint(2, 3)
            parts.append((v % step).eq(rng.randrange(step)))
    if diagonals and rng.random() < 0.3:
        parts.append(rng.choice([X + Y <= 4, X <= Y + N, (X + 2 * Y) % 3 <= 1, N >= 1]))
    return logical_and(*parts)


def union_of_boxes(rng: random.Random, diagonals: bool = True) -> Cond:
    number = rng.choice([0, 1, 1, 2, 3])
    return logical_or(*(box(rng, diagonals) for _ in range(number))) if number else truth(False)


KINDS: dict[str, Callable[[Cond], Shape]] = {
    "isl": lambda cond: translated((X, Y), cond),
    "core": lambda cond: CoreShape(translated((X, Y), cond)),
    "boxes": lambda cond: Boxes().everything(2).filter((X, Y), cond),
}


def points(cond: Cond) -> list[Points]:
    """The points inside the window, a set for each size."""
    return _listed(compiled(cond, (X, Y, N)), 2)


def elements(shape: Shape) -> list[Points]:
    """The elements inside the window, a set for each size."""
    names = [Var(f"e{k}") for k in range(shape.dims)]
    return _listed(compiled(shape.condition(names), (*names, N)), shape.dims)


def _listed(inside: Callable[..., object], dims: int) -> list[Points]:
    window = list(product(WINDOW, repeat=dims))
    return [{x for x in window if inside(*x, n)} for n in SIZES]


def counted(shape: Shape) -> Any:
    """The number of points over the size; `None` where that is refused."""
    try:
        return shape.count()
    except CountError:
        return None


def check(a: Cond, b: Cond, kind: str) -> int:
    """Check every operation on two shapes at every size; returns the number of checked answers."""
    first, second = KINDS[kind](a), KINDS[kind](b)
    union, meet, rest = first.union(second), first.intersect(second), first.subtract(second)
    turned, line, alive = first.project((1, 0)), first.project((1,)), first.project(())
    least, most, hull = first.lexmin(), first.lexmax(), first.hull()
    sides, pieces, product_, loops = first.dim_bounds(), first.pieces(8), first.product(), first.loops((X, Y))
    composed = first.product_with(second, 1)
    lifted = first.params_to_dims((N,))
    columns = first.dims_to_params((X,))
    forms = (Y, X // 2) if kind == "boxes" else (X + Y, X - Y)
    image = first.image((X, Y), forms)
    maps = [compiled(e, (X, Y)) for e in forms]
    preimage = first.preimage((X,), (X, X + 1))
    narrow = first.simplified(second)
    wide, count = first.widest(0, (N,)), counted(first)
    at = [first.at({N: n}) for n in SIZES]
    in_a, in_b = points(a), points(b)
    listed = {
        op: elements(shape)
        for op, shape in {
            "union": union, "intersect": meet, "subtract": rest, "turned": turned, "line": line, "lexmin": least,
            "lexmax": most, "hull": hull, "image": image, "preimage": preimage, "composed": composed, "narrow": narrow,
            "lifted": lifted, "columns": columns.at({X: 1}),
        }.items()
    }  # fmt: skip
    wanted: dict[str, Callable[[Points, Points], Points]] = {
        "union": lambda p, q: p | q,
        "intersect": lambda p, q: p & q,
        "subtract": lambda p, q: p - q,
        "turned": lambda p, q: {(y, x) for x, y in p},
        "line": lambda p, q: {(y,) for _, y in p},
        "lexmin": lambda p, q: {min(p)} if p else set(),
        "lexmax": lambda p, q: {max(p)} if p else set(),
        "hull": lambda p, q: hull_of(p),
        "image": lambda p, q: {z for z in (tuple(f(*x) for f in maps) for x in p) if all(v in WINDOW for v in z)},
        "preimage": lambda p, q: {(x,) for x in WINDOW if (x, x + 1) in p},
        "composed": lambda p, q: {(x, y, z) for x, y in p for w, z in q if w == y},
        "columns": lambda p, q: {(y,) for x, y in p if x == 1},
    }
    parts = None if pieces is None else [elements(part) for part in pieces]
    in_product = None if product_ is None else points(inside_product(product_))
    in_loops = None if loops is None else points(inside_loops(loops))
    for n, (p, q) in enumerate(zip(in_a, in_b, strict=True)):
        for op, expected in wanted.items():
            assert listed[op][n] == expected(p, q), op
        assert evaluate(alive.condition(()), {N: n}) is bool(p)
        assert listed["narrow"][n] & q == p & q
        assert {x[1:] for x in listed["lifted"][n] if x[0] == n} == p
        assert elements(at[n])[n] == p and at[n].count() == len(p)
        assert count is None or (count if isinstance(count, int) else evaluate(count, {N: n})) == len(p)
        if p:
            for k, (low, high) in enumerate(sides):
                assert evaluate(low, {N: n}) == min(x[k] for x in p), "sides"
                assert evaluate(high, {N: n}) == max(x[k] for x in p), "sides"
        if parts is not None:
            found = [part[n] for part in parts]
            assert sum(map(len, found)) == len(p) and set().union(*found) == p, "disjoint pieces"
        assert in_product is None or in_product[n] == p, "product"
        assert in_loops is None or in_loops[n] == p, "loops"
    assert first.is_empty() is not any(in_a)
    assert second.includes(first) is all(p <= q for p, q in zip(in_a, in_b, strict=True))
    numbers = [len(p) for p in in_a]
    assert first.intersect_params(translated((), N <= 3)).counts((N,)) == (max(numbers), sum(numbers))
    assert wide is None or not any(in_a) or evaluate(wide) == max(extent(p) for p in in_a)
    sample = at[2].sample()
    assert sample in in_a[2] or (sample is None and not in_a[2])
    return 26 * len(SIZES)


def extent(p: Points) -> int:
    return max(x for x, _ in p) - min(x for x, _ in p) + 1 if p else 0


def inside_product(found: Product) -> Cond:
    inside = [form.expr() >= 0 for form in found.where] + found.also
    for v, (lows, highs) in zip((X, Y), found.sides, strict=True):
        inside += [v >= f.expr() for f in lows] + [v <= f.expr() for f in highs]
    return logical_and(*inside)


def inside_loops(nests: Sequence[Product]) -> Cond:
    inside = [form.expr() >= 0 for form in nests[0].where] + nests[0].also
    for v, nest in zip((X, Y), nests, strict=True):
        inside += [v >= f.expr() for f in nest.sides[0][0]] + [v <= f.expr() for f in nest.sides[0][1]]
    return logical_and(*inside)


def pairs(seed: int, number: int, kind: str) -> int:
    """The answers looked at, of all operations on so many pairs of operands."""
    rng, diagonals, found = random.Random(seed), kind != "boxes", 0
    for _ in range(number):
        with suppress(BudgetError) if kind == "boxes" else nullcontext():  # where the result is no union of boxes
            found += check(union_of_boxes(rng, diagonals), union_of_boxes(rng, diagonals), kind)
    return found


@pytest.mark.parametrize("seed", daily(range(7, 307), 300))
@pytest.mark.parametrize(("kind", "number"), [("isl", 10), ("core", 4), ("boxes", 4)])
def test_operations(kind: str, number: int, seed: int) -> None:
    """More than 1,800 answers, of every operation."""
    found = pairs(seed, number, kind)
    assert found == 104 * number or kind == "boxes" and seed != 7 and found > 50 * number


@pytest.mark.parametrize("kind", ["isl", "boxes"])
def test_operations_in_threads(kind: str) -> None:
    """Eight threads put the same questions, at once."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: pairs(11 + k % 4, 1, kind), range(8)))
    assert found[:4] == found[4:] and sum(found) > 0


def test_unbounded() -> None:
    ray = translated((X, Y), (X >= 0) & Y.eq(2 * X))
    for shape in (ray, CoreShape(ray)):
        assert shape.end(0, 1) is POS_INF and evaluate(shape.end(1, -1)) == 0
        assert shape.count() is POS_INF
        assert elements(shape.lexmin())[0] == {(0, 0)}
        point = shape.sample()
        assert point is not None and shape.has(point)
    for endless in ((X >= 0) & (X < 4) & (Y >= X), (Y >= 0) & (Y <= N) & (X <= Y), (X >= 0) & (Y <= X * 2) & (Y > X)):
        assert translated((X, Y), endless).count() is POS_INF, endless
    with pytest.raises(UndecidedError, match="largest point"):
        region(X >= 0).lexmax()
    line = region(truth(True))
    assert line.sample() is not None and not line.is_empty
    with pytest.raises(UndecidedError):
        line.lexmin()


def region(cond: Cond, *dims: Var) -> Region:
    return Context.from_constraints(dims or (X, Y), [cond]).image(dims or (X, Y))


def test_relations() -> None:
    i, j = Var("i"), Var("j")
    loops = Context({i: Range(0, 4), j: Range(0, 4)})
    stores, loads = loops.relation((i, j), (i * 4 + j,)), loops.relation((i, j), (i * 4 + j - 1,))
    sources = loads.then(stores.inverse())
    assert sources.is_exact and sources.domain().count() == 15 and sources.range().count() == 15
    for a, b, c, d in product(range(4), repeat=4):
        assert sources.contains((a, b), (c, d)) == (a * 4 + b - 1 == c * 4 + d)
    assert sources.lexmax() == sources == sources.lexmin() and sources <= sources
    assert pickle.loads(pickle.dumps(sources)) == sources
    many = loops.relation((i,), (j,))
    assert many.lexmax().range().box == (Range(3, 1),) and many.lexmin().range().box == (Range(0, 1),)
    assert (many - many.lexmax()).pairs.count() == 12 and (many & many.lexmin()).pairs.count() == 4
    assert many.apply(Context({i: Range(1, 2)}).image((i,))).count() == 4
    with pytest.raises(InputError, match="cannot be followed"):
        loads.then(loads)
    with pytest.raises(InputError, match="two tuples"):
        loops.relation(i, (j,))
    coarse = loops.relation((i,), (i * i * j,))
    if not coarse.is_exact:
        with pytest.raises(UndecidedError, match="not exact"):
            coarse.lexmax()


def test_bad_input() -> None:
    r = region((X >= 0) & (X < 3) & Y.eq(X))
    for dims in ((2,), (0, 0), (-1,), (0, 2), (-1, 1)):
        with pytest.raises(InputError, match="dimensions"):
            r.project(dims)
    with pytest.raises(InputError):
        r - region(X >= 0, X)
    with pytest.raises(InputError):
        r | region(X >= 0, X)
    with pytest.raises(TypeError):
        r - 3
    with pytest.raises(InputError, match="names all of them"):
        r.pieces((0,))
    assert [p.count() for p in r.pieces((1, 0))] == [3]
    assert r.lexmin() == (0, 0) and r.lexmax() == (2, 2)
    assert (r - r).is_empty and (r - r).lexmin() is None and (r - r).sample() is None
    assert of(r.shape).includes(universe(2)) is False
    assert r.hull().count() == 9 and r.box[0].min is not NEG_INF


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_set_without_a_size_is_held_against_one_with_it_where_the_size_has_a_value(kind: str) -> None:
    m = ShapeVar("m", lower=0, upper=6, multiple_of=3)
    plain = KINDS[kind]((X >= 0) & (X <= 2) & Y.eq(0))
    at_least = KINDS[kind]((m - 6 <= X) & (2 + m >= X) & (Y >= 0) & (m % 3 >= Y))
    assert at_least.includes(plain) and plain.subtract(at_least).is_empty() and not plain.includes(at_least)
    assert plain.counts((m,)) == (3, 9)


@pytest.mark.parametrize("point", [3, "ab", None])
def test_a_point_is_a_tuple(point: Any) -> None:
    a, b = Var("a"), Var("b")
    region = Context({a: Range(0, 3), b: Range(0, 4)}).image((a, b))
    with pytest.raises(InputError, match=r"^a point must be a tuple of length 2, not "):
        point in region  # noqa: B015
    assert (2, 3) in region and (2, 4) not in region


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


def assigned(node: ast.Assign) -> list[tuple[ast.expr, ast.expr]]:
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
                for target, value in assigned(node)
                if isinstance(target, ast.Name) and is_shared(value)
            }
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute):
                    of = node.value
                    if is_shared(of) or (isinstance(of, ast.Name) and of.id in names):
                        asked.add(node.attr)
    assert {"is_empty", "dim", "involves_dims"} <= asked <= {*HARMLESS, "duplicate"}, asked - {*HARMLESS}


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


@pytest.mark.parametrize(("exprs", "domain"), turned(EXPRS, ["auto", "isl"], 2))
def test_a_nonlinear_image_is_its_points(exprs: tuple[Any, Any], domain: str) -> None:
    for height, width in ((6, 5), (9, 4), (40, 40)):
        claims = Claims(world({i: Range(-1, height), j: Range(0, width)}, [i + j < height]))
        region, truth = claims.ctx.image(exprs, domain=domain), claims.setting.values(*exprs)[()]
        assert region.is_exact and region.is_tight and not region.params and region.count() == len(truth)
        if len(truth) < 100:
            claims.region_of(region, {(): truth}, (exprs, domain))
        assert (region.lexmin(), region.lexmax()) == (min(truth), max(truth)) and region.sample() in truth
        assert all(point in region for point in truth) and (-99, -99) not in region
        copy = pickle.loads(pickle.dumps(region))
        assert copy.count() == len(truth) and copy.at({Var("n"): 3}).count() == len(truth)


def test_listed_images_end_at_the_budget_of_points() -> None:
    ctx = Context({i: Range(0, 100), j: Range(0, 100)})
    assert ctx.image((i * i, j * j)).count() == 10_000
    assert ctx.image((i * i, j * j)).is_exact
    with intset.using(points=9_999):
        beyond = Context({i: Range(0, 100), j: Range(0, 100)}).image((i * i, j * j))
        assert not beyond.is_exact and beyond.notes
        assert (99 * 99, 98 * 98) in beyond
    n = intset.ShapeVar("n", lower=1)
    assert not Context({i: Range(0, n), j: Range(0, 4)}).image((i * i, j)).is_exact
    region = Context({i: Range(0, 60), j: Range(0, 60)}).image((i * i, j * j))
    box = Context({i: Range(0, 10), j: Range(0, 10)}).image((i, j))
    both = region & box
    assert not both.is_exact or both.count() == 16  # a superset where it cannot be written out
    assert (4, 9) in both
    with pytest.raises(intset.UndecidedError):
        region.condition((i, j))
    assert repr(region)


def test_regions_whose_constraints_take_too_long_are_compared_by_their_points() -> None:
    i, j = Var("i"), Var("j")
    region = Context({i: Range(0, 8), j: Range(1, 12)}).image((j - i % 3, j % 8 + i))
    again = pickle.loads(pickle.dumps(region))
    points = {(y - x % 3, y % 8 + x) for x in range(8) for y in range(1, 13)}
    one = Context({i: Range(0, 7), j: Range(1, 12)}).image((j - i % 3, j % 8 + i))
    assert again == region and set(region.shape.listed()) == points
    assert one <= region and one != region


@pytest.mark.parametrize("quotient", [lambda n: 16 // n, lambda n: truncdiv(16, n), lambda n: ceildiv(n + 5, n) + 1])
def test_where_a_quotient_has_no_value_the_other_operand_is_left(quotient: Callable[[Any], Any]) -> None:
    i, n = Var("i"), ShapeVar("n")
    whole, part = (Context({i: Range(0, 3)}).image((e,)) for e in (i, quotient(n)))
    for size in range(4):
        own = {(0,), (1,), (2,)}
        other = {(evaluate(quotient(n), {n: size}),)} if size else set()
        for found, expected in (
            (whole | part, own | other),
            (whole - part, own - other),
            (part - whole, other - own),
            (whole & part, own & other),
        ):
            assert set(found.at({n: size}).shape.listed()) == expected, (size, found)

"""The algebra of regions against enumeration: unions with strides and sizes, empty and unbounded ones."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

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
    evaluate,
    logical_and,
)
from intset.domains.isl.presburger import of, translated, universe
from intset.errors import BudgetError, CountError
from intset.expr.build import logical_or
from intset.expr.evaluate import compiled
from intset.expr.node import Expr, truth
from intset.infinity import NEG_INF, POS_INF
from intset.regions.shape import Product, Shape
from tests.intset.regions.core_shape import CoreShape
from tests.sweeps import daily

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
        "hull": lambda p, q: box_of(p),
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


def box_of(p: Points) -> Points:
    return set(product(*(range(min(side), max(side) + 1) for side in zip(*p, strict=True)))) if p else set()


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
    rng, diagonals = random.Random(seed), kind != "boxes"
    return sum(_answers(union_of_boxes(rng, diagonals), union_of_boxes(rng, diagonals), kind) for _ in range(number))


def _answers(a: Cond, b: Cond, kind: str) -> int:
    try:
        return check(a, b, kind)
    except BudgetError:
        assert kind == "boxes"  # refused: the result is no union of boxes
        return 0


@pytest.mark.parametrize("seed", daily(range(7, 307), 300))
@pytest.mark.parametrize(("kind", "number"), [("isl", 16), ("core", 4), ("boxes", 6)])
def test_operations(kind: str, number: int, seed: int) -> None:
    """More than 2,500 answers, of every operation."""
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


def test_regions_are_compared_where_sizes_have_values() -> None:
    m, i = ShapeVar("m", lower=0, upper=3), Var("i")
    three = Context({i: Range(0, 3)}).image((i,))
    around = region((m - 3 <= X) & (X <= 2), X)
    assert three <= around and three < around and (three - around).is_empty and not around <= three


@pytest.mark.parametrize("point", [3, "ab", None])
def test_a_point_is_a_tuple(point: Any) -> None:
    a, b = Var("a"), Var("b")
    region = Context({a: Range(0, 3), b: Range(0, 4)}).image((a, b))
    with pytest.raises(InputError, match=r"^a point must be a tuple of length 2, not "):
        point in region  # noqa: B015
    assert (2, 3) in region and (2, 4) not in region

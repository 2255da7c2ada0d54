"""The algebra of regions against enumeration: unions with strides and sizes, empty and unbounded ones."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest

from examples.boxes.intset_boxes import Boxes
from intset import Cond, Context, InputError, Range, Region, ShapeVar, UndecidedError, Var, evaluate, logical_and
from intset.domains.isl.shape import of, translated, universe
from intset.errors import BudgetError, CountError
from intset.expr.build import logical_or
from intset.expr.compiled import compiled
from intset.expr.node import Expr, truth
from intset.infinity import NEG_INF, POS_INF
from intset.regions.shape import Shape
from tests.intset.regions.core_shape import CoreShape

N = ShapeVar("n", lower=0, upper=3)
X, Y = Var("x"), Var("y")
WINDOW = range(-6, 10)
Points = set[tuple[int, ...]]


def box(rng: random.Random, diagonals: bool = True) -> Cond:
    """A box with strides, some of its ends sizes, some not there; now and then a diagonal or nothing at all."""
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
    "boxes": lambda cond: Boxes().everything(2).restricted((X, Y), cond),
}


def points(cond: Cond, n: int) -> Points:
    inside = compiled(cond, (X, Y, N))
    return {(x, y) for x, y in product(WINDOW, WINDOW) if inside(x, y, n)}


def elements(shape: Shape, n: int) -> Points:
    """The elements inside the window."""
    names = [Var(f"e{k}") for k in range(shape.dims)]
    inside = compiled(shape.condition(names), (*names, N))
    return {x for x in product(WINDOW, repeat=shape.dims) if inside(*x, n)}


def sizes() -> Iterator[int]:
    yield from range(4)


def counted(shape: Shape) -> Any:
    """The number of points over the size; `None` where that is refused."""
    try:
        return shape.count()
    except CountError:
        return None


def check(a: Cond, b: Cond, kind: str) -> int:
    """Every operation on two shapes, at every size; gives the number of answers that were looked at."""
    first, second = KINDS[kind](a), KINDS[kind](b)
    union, meet, rest = first.union(second), first.intersect(second), first.subtract(second)
    turned, line, alive = first.project((1, 0)), first.project((1,)), first.project(())
    least, most, hull = first.lexmin(), first.lexmax(), first.hull()
    sides, pieces, product_, loops = first.sides(), first.pieces(8), first.product(), first.loops((X, Y))
    composed = first.product_with(second, 1)
    lifted = first.lifted((N,))
    fibred = first.fibred((X,))
    forms = (Y, X // 2) if kind == "boxes" else (X + Y, X - Y)
    image = first.image((X, Y), forms)
    maps = [compiled(e, (X, Y)) for e in forms]
    preimage = first.preimage((X,), (X, X + 1))
    narrow = first.simplified(second)
    wide, count = first.widest(0, (N,)), counted(first)
    largest = most_points = total = extent = 0
    empty, included = True, True
    for n in sizes():
        p, q = points(a, n), points(b, n)
        empty, included = empty and not p, included and p <= q
        assert elements(union, n) == p | q
        assert elements(meet, n) == p & q
        assert elements(rest, n) == p - q
        assert elements(turned, n) == {(y, x) for x, y in p}
        assert elements(line, n) == {(y,) for _, y in p}
        assert evaluate(alive.condition(()), {N: n}) is bool(p)
        assert elements(least, n) == ({min(p)} if p else set())
        assert elements(most, n) == ({max(p)} if p else set())
        assert elements(first.at({N: n}), n) == p
        assert elements(fibred.at({X: 1}), n) == {(y,) for x, y in p if x == 1}
        mapped = {tuple(f(*x) for f in maps) for x in p}
        assert elements(image, n) == {z for z in mapped if all(v in WINDOW for v in z)}
        assert elements(preimage, n) == {(x,) for x in WINDOW if (x, x + 1) in p}
        assert elements(composed, n) == {(x, y, z) for x, y in p for w, z in q if w == y}
        assert elements(narrow, n) & q == p & q
        assert {x[1:] for x in elements(lifted, n) if x[0] == n} == p
        assert first.at({N: n}).count() == len(p)
        assert count is None or (count if isinstance(count, int) else evaluate(count, {N: n})) == len(p)
        if p:
            for k, (low, high) in enumerate(sides):
                assert evaluate(low, {N: n}) == min(x[k] for x in p), "sides"
                assert evaluate(high, {N: n}) == max(x[k] for x in p), "sides"
            box_ = product(*(range(min(x[k] for x in p), max(x[k] for x in p) + 1) for k in (0, 1)))
            assert elements(hull, n) == set(box_)
            extent = max(extent, max(x for x, _ in p) - min(x for x, _ in p) + 1)
        else:
            assert not elements(hull, n)
        if pieces is not None:
            found = [elements(part, n) for part in pieces]
            assert sum(map(len, found)) == len(p) and set().union(*found) == p, "disjoint pieces"
        if product_ is not None:
            inside = [form.expr() >= 0 for form in product_.where] + product_.also
            for v, (lows, highs) in zip((X, Y), product_.sides, strict=True):
                inside += [v >= f.expr() for f in lows] + [v <= f.expr() for f in highs]
            assert points(logical_and(*inside), n) == p, "product"
        if loops is not None:
            inside = [form.expr() >= 0 for form in loops[0].where] + loops[0].also
            for v, nest in zip((X, Y), loops, strict=True):
                inside += [v >= f.expr() for f in nest.sides[0][0]] + [v <= f.expr() for f in nest.sides[0][1]]
            assert points(logical_and(*inside), n) == p, "loops"
        largest, total = max(largest, len(p)), total + len(p)
        most_points += 1
    assert first.is_empty() is empty
    assert second.includes(first) is included
    assert first.within(translated((), N <= 3)).counts((N,)) == (largest, total)
    assert wide is None or empty or evaluate(wide) == extent
    sample = first.at({N: 2}).sample()
    assert sample in points(a, 2) or (sample is None and not points(a, 2))
    return 26 * most_points


def pairs(seed: int, number: int, kind: str) -> int:
    """The answers looked at, of all operations on so many pairs of operands."""
    rng, diagonals = random.Random(seed), kind != "boxes"
    return sum(_answers(union_of_boxes(rng, diagonals), union_of_boxes(rng, diagonals), kind) for _ in range(number))


def _answers(a: Cond, b: Cond, kind: str) -> int:
    try:
        return check(a, b, kind)
    except BudgetError:
        assert kind == "boxes"  # what is no union of boxes, such as coordinates that move with a size, is refused
        return 0


@pytest.mark.parametrize(("kind", "number"), [("isl", 20), ("core", 8), ("boxes", 16)])
def test_operations(kind: str, number: int) -> None:
    assert pairs(7, number, kind) > 50 * number


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "number"), [("isl", 500), ("core", 300), ("boxes", 300)])
def test_operations_long(kind: str, number: int) -> None:
    assert pairs(8, number, kind) > 10_000


@pytest.mark.parametrize("kind", ["isl", "boxes"])
def test_operations_in_threads(kind: str) -> None:
    """Eight threads put the same questions, at once."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda k: pairs(11 + k % 4, 1, kind), range(8)))
    assert found[:4] == found[4:] and sum(found) > 0


def test_threads() -> None:
    """Shapes made in one thread are asked in others."""
    rng = random.Random(9)
    made = [(cond := union_of_boxes(rng), translated((X, Y), cond)) for _ in range(16)]

    def answers(k: int) -> list[Points]:
        order = [made[(k + step) % len(made)] for step in range(len(made))]
        return [elements(shape.subtract(order[0][1]), 2) for _, shape in order]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(answers, range(8)))
    for k, answer in enumerate(found):
        taken = points(made[k][0], 2)
        for step, got in enumerate(answer):
            assert got == points(made[(k + step) % len(made)][0], 2) - taken


def test_unbounded() -> None:
    ray = translated((X, Y), (X >= 0) & Y.eq(2 * X))
    for shape in (ray, CoreShape(ray)):
        assert shape.end(0, 1) is POS_INF and evaluate(shape.end(1, -1)) == 0
        assert shape.count() is POS_INF
        assert elements(shape.lexmin(), 0) == {(0, 0)}
        point = shape.sample()
        assert point is not None and shape.has(point)
    with pytest.raises(UndecidedError, match="largest point"):
        region(X >= 0).lexmax()
    line = region(truth(True))
    assert line.sample() is not None and not line.is_empty
    with pytest.raises(UndecidedError):
        line.lexmin()


def region(cond: Cond, *dims: Var) -> Region:
    return Context.from_constraints(dims or (X, Y), [cond]).image(dims or (X, Y))


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "points", "isl", "interval*modular"])
def test_claims(domain: str) -> None:
    """Of regions by every domain: what is exact is the truth, all else contains it."""
    rng = random.Random(3)
    i, j = Var("i"), Var("j")
    exact = 0
    for _ in range(12):
        ctx = Context({i: Range(rng.randint(-2, 1), rng.randint(0, 4)), j: Range(0, rng.randint(1, 3))}, domain=domain)
        forms = [i * rng.randint(1, 2) + rng.randint(0, 1), j + rng.choice([0, 0, i]), i + j]
        (a0, a1), (b0, b1) = (r.constant() for r in ctx.ranges.values())
        points_ = list(product(range(a0, a1 + 1), range(b0, b1 + 1)))

        def truth_of(exprs: list[Expr]) -> Points:
            return {tuple(evaluate(e, {i: a, j: b}) for e in exprs) for a, b in points_}  # noqa: B023

        first, second = rng.sample(forms, 2), rng.sample(forms, 2)
        a, b = ctx.image(first), ctx.image(second)
        p, q = truth_of(first), truth_of(second)
        for found, wanted in ((a | b, p | q), (a & b, p & q), (a - b, p - q), (a.project((1,)), {(y,) for _, y in p})):
            names = [Var(f"e{k}") for k in range(found.dims)]
            inside = compiled(found.condition(names), names)
            got = {x for x in product(range(-9, 16), repeat=found.dims) if inside(*x)}
            assert all(x in found for x in list(wanted)[:2]) and (-9,) * found.dims not in found
            assert wanted <= got
            if found.is_exact:
                exact += 1
                assert got == wanted, (domain, found)
        assert not a.is_empty or not p
        assert not (a <= b) or not (a.is_exact and b.is_exact) or p <= q
    assert exact or domain not in ("auto", "isl", "stride")


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
        loops.relation(i, (j,))  # type: ignore[arg-type]
    coarse = loops.relation((i,), (i * i * j,))
    if not coarse.is_exact:
        with pytest.raises(UndecidedError, match="not exact"):
            coarse.lexmax()


def test_bad_input() -> None:
    r = region((X >= 0) & (X < 3) & Y.eq(X))
    for dims in ((2,), (0, 0), (-1,)):
        with pytest.raises(InputError, match="dimensions"):
            r.project(dims)
    with pytest.raises(InputError):
        r - region(X >= 0, X)
    with pytest.raises(TypeError):
        r - 3  # type: ignore[operator]
    with pytest.raises(InputError, match="names all of them"):
        r.pieces((0,))
    assert [p.count() for p in r.pieces((1, 0))] == [3]
    assert r.lexmin() == (0, 0) and r.lexmax() == (2, 2)
    assert (r - r).is_empty and (r - r).lexmin() is None and (r - r).sample() is None
    assert of(r.shape).includes(universe(2)) is False
    assert r.hull().count() == 9 and r.box[0].min is not NEG_INF

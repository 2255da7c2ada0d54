"""Index maps against enumeration: named ones, random ones, symbolic shapes, errors."""

import itertools
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from intset import Context, Expr, IntSetError, Range, ShapeVar, Var, evaluate, maximum, minimum, select
from intset.expr import ops
from intset.expr.evaluate import compiled
from lowering import IndexMap, LayoutError
from tests.sweeps import daily

Point = tuple[int, ...]


def sides(m: IndexMap, sizes: dict[Var, int]) -> list[range]:
    ends = [(int(evaluate(r.min, sizes)), int(evaluate(r.extent, sizes))) for r in m.ranges]
    return [range(low, low + extent) for low, extent in ends]


def check(m: IndexMap, fn: Callable[..., Any], shape: Point, sizes: dict[Var, int] | None = None) -> None:
    """Check all answers of a map against enumeration of its points; `fn` takes numbers."""
    values = sizes or {}
    olds = list(itertools.product(*map(range, shape)))
    reached: dict[Point, Point] = {}
    is_injective = True
    for old in olds:
        new = tuple(map(int, fn(*old)))
        if not values:
            assert m(*old) == new
        is_injective &= new not in reached
        reached.setdefault(new, old)
    box = sides(m, values)
    for k, e in enumerate(m.exprs):
        seen = [new[k] for new in reached]
        if e.op is not ops.FLOORMOD:
            low = min(0, *seen) if seen else 0
            expected = range(low, max(seen) + 1) if seen else range(0)
            assert box[k] == expected or len(box[k]) == len(expected) == 0, (m, k, values)
    places = list(itertools.islice(itertools.product(*box), 20_000))
    reached_places = set(reached).intersection(places)
    variables = [Var(f"p{k}") for k in range(len(box))]
    condition = m.padding(*variables)
    image = m.image().at(values) if values else m.image()
    is_padding = compiled(condition, [*variables, *values])
    missed = {p for p in places if is_padding(*p, *values.values())}
    assert missed == set(places) - reached_places, (m, values)
    for p in places[:: max(1, len(places) // 50)]:
        assert p in image if p in reached else p not in image or not image.is_exact
    assert image.is_exact or sizes
    if not values:
        assert m.injective.status == ("proved" if is_injective else "refuted")
        assert m.surjective.status == ("refuted" if missed else "proved")
        assert m.bijective.status == ("proved" if is_injective and not missed else "refuted")
        some = places[:: max(1, len(places) // 50)]
        assert {p for p in some if evaluate(m.padding(*p), {})} == missed.intersection(some)
    if m.injective:
        assert is_injective
        inverse = m.inverse()
        for new, old in reached.items():
            back = [evaluate(e, values) if isinstance(e, Expr) else e for e in inverse(*new)]
            assert tuple(back) == old, (m, inverse)
    if m.surjective:
        assert not missed
    for verdict, is_right in ((m.injective, collide), (m.surjective, is_missed)):
        if verdict.status == "refuted":
            assert is_right(m, verdict.points, dict(verdict.sizes))


def at(e: Any, sizes: dict[Var, int]) -> int:
    return int(evaluate(e, sizes)) if isinstance(e, Expr) else int(e)


def collide(m: IndexMap, points: tuple[Point, ...], sizes: dict[Var, int]) -> bool:
    a, b = points
    inside = all(0 <= x < at(e, sizes) for p in points for x, e in zip(p, m.shape, strict=True))
    return inside and a != b and [at(e, sizes) for e in m(*a)] == [at(e, sizes) for e in m(*b)]


def is_missed(m: IndexMap, points: tuple[Point, ...], sizes: dict[Var, int]) -> bool:
    (place,) = points
    olds = itertools.product(*(range(at(e, sizes)) for e in m.shape))
    inside = all(x in side for x, side in zip(place, sides(m, sizes), strict=True))
    return inside and all([at(e, sizes) for e in m(*old)] != list(place) for old in olds)


NAMED: list[tuple[Callable[..., Any], Point, Point, int]] = [
    (lambda i: [i // 8, i % 8], (16,), (2, 8), 0),
    (lambda i: [i // 8, i % 8], (14,), (2, 8), 2),
    (lambda i: [(i + 2) // 8, (i + 2) % 8], (14,), (2, 8), 2),
    (lambda i: [(i + 2) // 8, (i + 2) % 8], (16,), (3, 8), 8),
    (lambda i: [i // 4, i % 4], (14,), (4, 4), 2),
    (lambda i: [i // 4, i % 4], (3,), (1, 4), 1),
    (lambda i, j: [(i + 1) // 4, (j + 5) // 8, (i + 1) % 4, (j + 5) % 8], (14, 31), (4, 5, 4, 8), 206),
    (lambda i: [2 * i], (16,), (31,), 15),
    (lambda i, j: [4 * i + j], (4, 3), (15,), 3),
    (lambda i: [i - 3], (16,), (16,), 0),
    (lambda i: [i - 20], (16,), (16,), 0),
    (lambda i: [i + 5], (16,), (21,), 5),
    (lambda i: [15 - i], (16,), (16,), 0),
    (lambda i, j: [i, (i + j) % 4], (4, 4), (4, 4), 0),
    (lambda i, j: [i + j, j], (4, 4), (7, 4), 12),
    (lambda i: [i % 3, i % 4], (12,), (3, 4), 0),
    (lambda i: [i // 32, i // 4 % 8, i % 4], (116,), (4, 8, 4), 12),
    (lambda i, j: [(i * 6 + j) // 4, (i * 6 + j) % 4], (5, 6), (8, 4), 2),
    (lambda i, j: [j // 2, i, 1 - j % 2], (4, 6), (3, 4, 2), 0),
    (lambda i: [i * i], (16,), (226,), 210),
    (lambda i: [i // 4, i % 4], (0,), (0, 4), 0),
]


@pytest.mark.parametrize(("fn", "shape", "new_shape", "padding"), NAMED)
def test_named_maps(fn: Callable[..., Any], shape: Point, new_shape: Point, padding: int) -> None:
    m = IndexMap(fn, shape)
    assert m.injective and m.new_shape == new_shape
    check(m, fn, shape)
    array = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    packed = m.pack(array, -1)
    assert packed.shape == new_shape and packed.dtype == np.int32 and (packed == -1).sum() == padding
    assert (m.unpack(packed) == array).all()


def test_ranges_below_0_colliding_points_and_bad_calls() -> None:
    assert IndexMap(lambda i: [i - 3], (16,)).ranges == (Range(-3, 16),)
    assert IndexMap(lambda i: [i % -4], (16,)).ranges == (Range(-3, 4),)
    assert IndexMap(lambda i: [i % 3, i % 4], (13,)).injective.points == ((0,), (12,))
    m = IndexMap(lambda i: [i // 4, i % 4], (16,))
    for call in (
        lambda: m(1, 2), lambda: m(1.5), lambda: m.padding(1), lambda: m.inverse()(1), lambda: m.pack(np.zeros(15), 0),
        lambda: m.pack(np.zeros((16, 1)), 0), lambda: m.pack(np.zeros(16, np.int32), 0.5),
        lambda: m.pack(np.zeros(16, np.int8), 300), lambda: m.unpack(np.zeros(16)),
    ):  # fmt: skip
        with pytest.raises(LayoutError):
            call()


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda i: [i // 4, i % 2], (16,)),
        (lambda i: [i % 4], (16,)),
        (lambda i: [i // 4], (16,)),
        (lambda i, j: [i // 4, j], (16, 3)),
        (lambda i: [i % 3, i % 4], (13,)),
        (lambda i: [0], (2,)),
    ],
)
def test_maps_without_an_inverse(fn: Callable[..., Any], shape: Point) -> None:
    m = IndexMap(fn, shape)
    check(m, fn, shape)
    assert m.injective.status == m.bijective.status == "refuted"
    with pytest.raises(LayoutError) as error:
        m.inverse()
    assert error.value.points == m.injective.points and str(m.injective.points[1]) in str(error.value)
    with pytest.raises(LayoutError):
        m.pack(np.zeros(shape), 0)


def test_inverses_and_chains_are_maps() -> None:
    m = IndexMap(lambda i: [(i + 2) // 8, (i + 2) % 8], (16,))
    back = m.inverse()
    assert back.new_shape == (16,) and back.shape == (3, 8) and back.bijective and back.inverse() is m
    assert [evaluate(back.padding(i), {}) for i in (-1, 0, 15, 16)] == [True, False, False, True]
    assert m.then(back)(11) == (11,) and m.then(back).new_shape == (16,)
    tile = IndexMap(lambda i: [i // 8, i % 8], (64,))
    swap = IndexMap(lambda o, n: [n, o // 2, o % 2], (8, 8))
    both = tile.then(swap)
    check(both, lambda i: [i % 8, i // 8 // 2, i // 8 % 2], (64,))
    with pytest.raises(LayoutError, match=r"\(64,\)|\(\d+,\)"):
        tile.then(IndexMap(lambda o, n: [o, n], (8, 7)))
    with pytest.raises(LayoutError):
        tile.then(tile)
    with pytest.raises(LayoutError):
        tile.then(lambda o, n: [o])


N = ShapeVar("N")


@pytest.mark.parametrize(
    "fn",
    [
        lambda i: [i // 4, i % 4],
        lambda i: [(i + 2) // 8, (i + 2) % 8],
        lambda i: [i + 3],
        lambda i: [2 * i],
        lambda i: [N - 1 - i],
        lambda i: [i % 3, i // 3 % 2, i // 6],
        lambda i: [i % 4],
        lambda i: [i // 4],
        lambda i: [i, -i],
    ],
)
def test_symbolic_shapes(fn: Callable[..., Any]) -> None:
    m = IndexMap(fn, (N,))
    for n in range(41):
        new = {N: n}
        check(m, lambda i, new=new: [evaluate(e, new) if isinstance(e, Expr) else e for e in fn(i)], (n,), new)


def test_tiles_and_strides_of_symbolic_shapes() -> None:
    m = IndexMap(lambda i: [i // 4, i % 4], (N,))
    assert str(m.new_shape) == "(ceildiv(N, 4), 4)"
    assert m.injective and m.surjective.status == "refuted" and m.surjective.sizes
    o, n = Var("o"), Var("n")
    assert str(m.padding(o, n)) == "o * 4 + n >= N"
    whole = IndexMap(lambda i: [i // 4, i % 4], (N,), Context(assume=[(N % 4).eq(0)]))
    assert whole.bijective
    assert m.pack(np.arange(6), -1).tolist() == [[0, 1, 2, 3], [4, 5, -1, -1]]
    assert m.unpack(np.arange(8).reshape(2, 4), sizes={N: 6}).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(LayoutError, match="size N"):
        m.unpack(np.arange(8).reshape(2, 4))
    w = ShapeVar("W", lower=1)
    flat, rows = IndexMap(lambda i, j: [i * w + j], (N, w)), IndexMap(lambda k: [k // w, k % w], (N * w,))
    tiles = IndexMap(lambda i: [i // w, i % w], (N,))
    assert flat.bijective and rows.bijective and tiles.injective and not tiles.surjective
    for n, k in itertools.product(range(5), range(1, 5)):
        check(flat, lambda i, j, k=k: [i * k + j], (n, k), {N: n, w: k})
        check(rows, lambda x, k=k: [x // k, x % k], (n * k,), {N: n, w: k})
        check(tiles, lambda x, k=k: [x // k, x % k], (n,), {N: n, w: k})


def random_index(rng: random.Random, variables: list[Any], depth: int) -> str:
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(variables) if rng.random() < 0.9 else str(rng.randint(-3, 5))
    a = random_index(rng, variables, depth - 1)
    kind = rng.random()
    if kind < 0.25:
        return f"({a}) // {rng.choice([2, 3, 4, 5, 8, -3])}"
    if kind < 0.5:
        return f"({a}) % {rng.choice([2, 3, 4, 5, 7, 8, -4])}"
    b = random_index(rng, variables, depth - 1)
    if kind < 0.75:
        return f"({a}) * {rng.choice([1, 2, 3, 4, 8, -1])} + ({b}) * {rng.choice([1, 1, 1, 2, -1])}"
    if kind < 0.9:
        return f"({a}) + {rng.randint(-4, 6)}"
    if kind < 0.95:
        return f"{rng.choice(['minimum', 'maximum'])}({a}, {b})"
    return f"({a}) * ({b})"


def random_map(rng: random.Random) -> tuple[Callable[..., Any], Callable[..., Any], Point, str]:
    dims = rng.choice([1, 1, 2, 2, 3])
    shape = tuple(rng.randint(1, {1: 40, 2: 9, 3: 5}[dims]) for _ in range(dims))
    names = ["i", "j", "k"][:dims]
    if rng.random() < 0.5:  # tiles, in some order
        text = []
        for v in names:
            tile, offset = rng.choice([2, 3, 4, 8]), rng.choice([0, 0, 0, 1, 2, 5])
            text += [f"({v} + {offset}) // {tile}", f"({v} + {offset}) % {tile}"]
        rng.shuffle(text)
        if rng.random() < 0.3:
            text.pop()
    else:
        text = [random_index(rng, names, rng.randint(0, 3)) for _ in range(rng.randint(1, 3))]
    source = f"lambda {', '.join(names)}: [{', '.join(text)}]"
    symbols = {"minimum": minimum, "maximum": maximum, "select": select}
    return eval(source, symbols), eval(source, {"minimum": min, "maximum": max}), shape, source  # as Expr, as numbers


def check_random(seed: int) -> bool:
    symbolic, numeric, shape, source = random_map(random.Random(seed))
    m = IndexMap(symbolic, shape)
    try:
        check(m, numeric, shape)
        again = pickle.loads(pickle.dumps(m))
        assert again.new_shape == m.new_shape and repr(again) == repr(m)
    except (AssertionError, IntSetError) as error:
        raise AssertionError(f"seed {seed}: {source} on {shape}: {error}") from error
    return bool(m.injective)


@pytest.mark.parametrize(("seeds", "least", "most"), daily([(range(30), 7, 26), (range(30, 3000), 900, 2400)], 2))
def test_random_maps(seeds: range, least: int, most: int) -> None:
    assert least < sum(map(check_random, seeds)) < most


@pytest.mark.parametrize(
    ("fn", "shape"),
    [
        (lambda i, j: [i, j], (4,)),
        (lambda *, k: [k], (4,)),
        (lambda i: [], (4,)),
        (lambda i: [1.5], (4,)),
        (lambda i: [i > 2], (4,)),
        (lambda i: [True], (4,)),
        (lambda i: None, (4,)),
        (lambda i: "i", (4,)),
        (lambda i: [i], ()),
        (lambda i: [i], (-1,)),
        (lambda i: [i], (N * 0 - 1,)),
        (lambda i: [i], [4]),
        (lambda i: [i], 4),
        (lambda i: [i], (2.5,)),
        (lambda i: [i], (True,)),
        ("i", (4,)),
    ],
)
def test_bad_maps(fn: Any, shape: Any) -> None:
    with pytest.raises(LayoutError) as error:
        IndexMap(fn, shape)
    assert "\n" not in str(error.value) and str(error.value)

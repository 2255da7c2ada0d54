"""Layouts of shapes and strides: the algebra against its definitions, point by point, and the adapters."""

import pickle
import random
from itertools import product

import pytest

from intset import Context, InputError, ShapeVar, Var, evaluate
from intset.expr.node import as_expr
from lowering import IndexMap, Layout, LayoutError
from lowering.adapters.cute import from_cute, to_cute
from lowering.adapters.triton import from_bases, to_bases
from tests.strategies.refusals import refused_with_words
from tests.sweeps import daily

n, m = ShapeVar("n", lower=1), ShapeVar("m", lower=1)


def offsets(layout: Layout) -> list[int]:
    return [int(layout(k)) for k in range(int(layout.size))]


def drawn(rng: random.Random) -> Layout:
    def tree(depth: int):
        if depth and rng.random() < 0.8:
            return tuple(tree(depth - 1) for _ in range(rng.randint(1, 3)))
        return rng.choice([1, 2, 2, 3, 4, 4, 6, 8])

    def strides(shape):
        return tuple(map(strides, shape)) if isinstance(shape, tuple) else rng.choice([0, 1, 1, 2, 3, 4, 6, 8, 12, 16])

    shape = tree(rng.choice([0, 1, 2]))
    return Layout(shape) if rng.random() < 0.4 else Layout(shape, strides(shape))


@pytest.mark.parametrize("first", daily(range(0, 10_000, 100), 50))
def test_drawn_layouts_against_their_definitions(first):
    composed = refused = 0
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        a, b = drawn(rng), drawn(rng)
        if int(a.size) > 1500 or int(b.size) > 1500:
            continue
        ours = offsets(a)
        assert offsets(a.coalesce()) == ours and a.cosize == max(ours) + 1
        try:
            both = a.then(b)
            composed += 1
            assert [both(k) for k in range(len(ours))] == [b(k) for k in ours], (a, b, both)
        except LayoutError:
            refused += a.cosize <= b.size
        size = rng.choice([1, a.size, 24, 64])
        try:
            rest = offsets(a.complement(size))
            assert rest == sorted(set(rest))
            reached = {x + y for x in ours for y in rest}
            assert len(reached) == len(set(ours)) * len(rest), (a, size)
            assert set(range(int(size))) <= reached or not strides_divide(a), (a, size)
        except LayoutError:
            pass
        right = a.right_inverse()
        assert [a(k) for k in offsets(right)] == list(range(int(right.size)))
        try:
            left = a.left_inverse()
            assert [left(k) for k in ours] == list(range(len(ours))), (a, left)
        except LayoutError:
            pass
        try:
            tiles, rest = a.divide(b), b.complement(a.size)
            assert offsets(tiles) == [a(b(k % b.size) + rest(k // b.size)) for k in range(int(tiles.size))]
        except LayoutError:
            pass
        assert offsets(a.index_map().layout()) == ours
    assert composed >= 10 and refused <= composed


def strides_divide(a: Layout) -> bool:
    """Whether the span of the lower modes divides each stride."""
    filled = 1
    for d, extent in sorted((int(d), int(extent)) for extent, d in a.modes if extent != 1 and d != 0):
        if d % filled:
            return False
        filled = extent * d
    return True


@pytest.mark.parametrize(("shape", "stride"), [((4, 6), (1, 6)), ((4, 10), (1, 10)), ((2, 2), (2, 6))])
def test_offsets_below_a_stride_that_is_no_multiple_stay_unfilled(shape, stride):
    a = Layout(shape, stride)
    ours, rest = offsets(a), offsets(a.complement(a.cosize))
    assert len({x + y for x in ours for y in rest}) == len(ours) * len(rest)


def test_what_is_proved_of_layouts_and_by_which_facts():
    copies = Layout((2, 2), (4, 1)).product(Layout(6, 1))
    assert str(copies) == "((2,2),(2,3)):((4,1),(2,8))" and len(set(offsets(copies))) == 24
    assert offsets(copies[0]) == [0, 4, 1, 5]
    with pytest.raises(LayoutError, match="may carry: their sum reaches 7"):
        Layout((3, 2), (2, 3)).then(Layout((6, 2), (1, 7)))  # 2*2 + 3 is beyond the digit of 6
    with pytest.raises(LayoutError, match=r"not proved to divide|straddles"):
        Layout((n, 4), (4, 1)).then(Layout((8, n), (n, 1)))
    multiple = Context({}, [(n % 8).eq(0)])
    tiled = Layout(n, 1, multiple).divide(8)
    assert str(tiled) in ("(8,{n // 8}):(1,8)", "(8,n//8):(1,8)")
    with pytest.raises(LayoutError, match="not ordered"):
        Layout((2, 2), (n, m)).complement()
    even, fourfold = Context({}, [(n % 2).eq(0)]), Context({}, [(n % 4).eq(0)])
    copies, tiles = Layout(4, 2).product(Layout(2, n, even)), Layout(n).divide(Layout(4, 1, fourfold))
    for made, fact in ((copies, "n % 2 == 0"), (tiles, "n % 4 == 0")):
        assert any(str(one.condition) == fact for one in made.ctx.facts), made.ctx.facts


@pytest.mark.parametrize(
    "made",
    [
        lambda a, b: Layout((a, b)).coalesce(),
        lambda a, b: Layout((a, b), (b, 1)).then(Layout((a * b, 2), (1, a * b))),
        lambda a, b: Layout((a, b), (b * 4, 1)).complement(a * b * 4),
        lambda a, b: Layout((a, b), (b, 1)).right_inverse(),
        lambda a, b: Layout((a, b), (b, 1)).left_inverse(),
        lambda a, b: Layout((8, a), (a, 1)).divide(Layout(4, 2)),
        lambda a, b: Layout((a, 4)).product(Layout(b)),
        lambda a, b: Layout((a, (b, 4))).index_map().layout(),
    ],
)
def test_symbolic_sizes_are_numbers_at_numbers(made):
    symbolic = made(n, m)
    for a, b in product((1, 2, 3, 8), (1, 2, 5)):
        numeric = made(a, b)
        at = {n: a, m: b}
        assert int(evaluate(as_expr(symbolic.size), at)) == numeric.size
        k = Var("k")
        offset = as_expr(symbolic(k))
        assert [int(evaluate(offset, {**at, k: x})) for x in range(numeric.size)] == offsets(numeric), (a, b)


test_bad_input_is_named = refused_with_words(
    [
        ("different structures", lambda: Layout((4, 8), (1, 2, 3))),
        ("different structures", lambda: Layout((4, 8), 1)),
        ("at least 1, not 0", lambda: Layout(0)),
        ("at least 1", lambda: Layout(-n)),
        ("negative", lambda: Layout(4, -1)),
        ("may be negative", lambda: Layout(4, n - 5)),
        ("at least one mode", lambda: Layout(())),
        ("3 indices for 2 modes", lambda: Layout((4, 8))(1, 2, 3)),
        ("no mode 2", lambda: Layout((4, 8))[2]),
        ("a stride is 0", lambda: Layout(4, 0).left_inverse()),
        ("overlaps itself", lambda: Layout((4, 4), (1, 2)).complement()),
        ("overlaps itself", lambda: Layout((2, 2), (2, 3)).complement()),
        ("not proved to divide", lambda: Layout(24).divide(Layout((2, 2), (2, 6)))),
        ("no digit", lambda: IndexMap(lambda i: [i * i], (4,)).layout()),
        ("maps 0 to 0", lambda: IndexMap(lambda i: [i + 1], (4,)).layout()),
        ("an extent", lambda: Layout("4")),
        ("a Layout", lambda: Layout(4).then(4)),
        ("lacks a bracket", lambda: from_cute("(4,8")),
        ("goes on with", lambda: from_cute("4:1:2")),
        ("goes on with", lambda: from_cute("(4,)):1")),
        ("nest at most 200 deep", lambda: from_cute("(" * 2_000 + "4" + ")" * 2_000)),
        ("nest at most 200 deep", lambda: from_cute("(" * 2_000)),
        ("nest at most 200 deep", lambda: Layout(nested(201))),
        ("power of two", lambda: from_bases({"x": [[1]]}, {"a": 3})),
        ("2 numbers for 1 outputs", lambda: from_bases({"x": [[1, 2]]}, {"a": 4})),
        ("not below the size", lambda: from_bases({"x": [[4]]}, {"a": 4})),
        ("no power of two", lambda: to_bases(IndexMap(lambda i: [i], (6,)))),
        ("may carry", lambda: to_bases(IndexMap(lambda i: [i * 3], (4,)))),
        ("image of 0", lambda: to_bases(IndexMap(lambda i: [i ^ 1], (4,)))),
    ]
)


def test_structure_is_equality_and_texts_of_cute_are_read_back():
    a = Layout((4, (2, n)), (1, (4, 8)))
    assert a == Layout((4, (2, n)), (1, (4, 8))) and hash(a) == hash(Layout((4, (2, n)), (1, (4, 8))))
    assert a != Layout((4, 2, n), (1, 4, 8)) and a != "text"
    copy = pickle.loads(pickle.dumps(a))
    assert copy == a and str(copy) == "(4,(2,n)):(1,(4,8))" and repr(copy) == "<Layout (4,(2,n)):(1,(4,8))>"
    assert (len(a), str(a[1]), [str(mode) for mode in a]) == (2, "(2,n):(4,8)", ["4:1", "(2,n):(4,8)"])
    assert a(3, (1, 2)) == 3 + 4 + 16 and a.bijective
    for seed in range(200):
        layout = drawn(random.Random(seed))
        assert from_cute(to_cute(layout)) == layout
    deep = Layout((nested(199), 2))
    assert from_cute(to_cute(deep)) == deep and hash(deep) and deep.size == 8 and deep(5) == 5
    with pytest.raises(InputError, match="n"):
        from_cute("(n,4)")
    assert from_cute("((_2, _2), _8)") == Layout(((2, 2), 8))
    assert from_cute("(n,{n * 2}):(1,n)", {"n": n}) == Layout((n, n * 2), (1, n))


def nested(depth, size=4):
    """A tree of one size, so many levels deep."""
    for _ in range(depth):
        size = (size,)
    return size


@pytest.mark.parametrize("first", daily(range(0, 200, 20), 10))
def test_bases_both_ways_against_their_definition(first):
    for seed in range(first, first + 20):
        rng = random.Random(seed)
        sizes = {f"out{k}": 1 << rng.randint(1, 4) for k in range(rng.randint(1, 3))}
        bases = {
            f"in{k}": [[rng.randrange(size) for size in sizes.values()] for _ in range(rng.randint(0, 4))]
            for k in range(rng.randint(1, 3))
        }
        made = from_bases(bases, sizes)
        for point in product(*(range(1 << len(images)) for images in bases.values())):
            image = [0] * len(sizes)
            for x, images in zip(point, bases.values(), strict=True):
                for b, basis in enumerate(images):
                    if x >> b & 1:
                        image = [a ^ c for a, c in zip(image, basis, strict=True)]
            assert made(*point) == tuple(image), (bases, point)
        assert to_bases(made, list(sizes)) == (bases, sizes)


def test_a_blocked_layout_of_triton_and_names_of_outputs():
    bases = {"register": [[0, 1], [0, 2]], "lane": [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], "warp": [[8, 0], [16, 0]]}
    blocked = from_bases(bases, {"row": 32, "col": 16})
    assert blocked.bijective and blocked(3, 5, 2) == (17, 7)
    row, col = Var("row"), Var("col")
    assert [str(e) for e in blocked.inverse()(row, col)] == ["col & 3", "col >> 2 ^ (row & 7) << 2", "row >> 3"]
    with pytest.raises(LayoutError, match="one name"):
        to_bases(from_bases({"a": [[1, 2]]}, {"o": 4, "p": 4}), ["o", "o"])

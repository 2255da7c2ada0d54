"""`Function.layouts`: composed maps and declared layouts; `padding A[i, j] where ...` and random functions."""

import pickle
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st

from bound import dtypes
from intset import InputError, IntSetError, ParseError, Var, const, evaluate, select
from intset.expr.dag import substitute
from lowering import (
    AccessError,
    Function,
    IndexMap,
    LayoutError,
    cache_read,
    cache_write,
    element,
    hoist_expression,
    hoist_layouts,
    merge_adjacent_loops,
    parse_nest,
    remove_no_op,
    run,
    sequential_buffer_access,
    simplify,
    transform_layout,
    undef,
    with_layouts,
)
from lowering.layout.index_map import IndexNumber
from lowering.nest.ir import Seq
from lowering.nest.scope import padding_of, tensor_named, tensors_of
from tests.lowering.equivalence import NumpyRuns, numpy_runs
from tests.lowering.passes.test_passes_random import OLD, PASSES
from tests.strategies.nests import EVERYTHING, Nest
from tests.sweeps import sampled

Place = tuple[int, ...]
ODD = 77  # in padding without a stated value
KINDS = ("none", "number", "undef", "indices", "element", "places", "pairs")
PACKED = EVERYTHING - {"sized", "host"}  # kinds of statements that see no array as a whole

# for each kind, the new indices without a stated value
UNTOLD: dict[str, Callable[[Place], bool]] = {
    **dict.fromkeys(("number", "undef", "indices", "element"), lambda place: False),
    "none": lambda place: True,
    "places": lambda place: place[0] % 2 != 0,
    "pairs": lambda place: place[-1] % 3 < 1 or 0 < place[0] <= 1,
}


class Layer(NamedTuple):
    """One change of a tensor's layout.

    Attributes
    ----------
    map: the map from its previous indices.
    kind: the kind of `pad_value`, one of `KINDS`.
    held: the stated value at new indices, given the packed array; `None` without one.
    """

    map: IndexMap
    kind: str
    held: Callable[[Place, Any], Any]


def random_map(rng: random.Random, shape: Place) -> IndexMap:
    """Draw an injective map; few have an obvious padding."""
    c, o = rng.randint(2, 5), rng.randint(-4, 5)
    one: list[Callable[..., Any]] = [
        lambda i: [i // c, i % c], lambda i: [(i + abs(o)) // c, (i + abs(o)) % c], lambda i: [i % c, i // c],
        lambda i: i * c + o, lambda i: o - i, lambda i: [i % 3, i % 4], lambda i: [i // 4, (i % 4 + i // 4) % 4],
        lambda i: [i // (2 * c), i // 2 % c, i % 2], lambda i: [select(i < 5, i, i + 3)],
    ]  # fmt: skip
    two: list[Callable[..., Any]] = [
        lambda i, j: [j, i], lambda i, j: [i // 3, i % 3, j], lambda i, j: [i * (shape[1] + abs(o)) + j],
        lambda i, j: [i, (i + j) % shape[1]], lambda i, j: [i + j, j], lambda i, j: [j // c, i - 2, j % c],
    ]  # fmt: skip
    fns = {1: one, 2: two}.get(len(shape))
    if fns is None or rng.random() < 0.1:
        return IndexMap(lambda *place: [*place[::-1]], shape)
    found = IndexMap(rng.choice(fns), shape)
    return found if found.injective else random_map(rng, shape)


def random_layer(f: Function, name: str, rng: random.Random) -> tuple[Function, Layer | None]:
    """Change the layout of one tensor, or return the function unchanged after a refusal. Only padding that reads
    elements may be refused."""
    tensor = tensor_named(f, name)
    shape = tuple(int(e.data) for e in tensor.extents)
    m = random_map(rng, shape)
    kind = rng.choice(KINDS)
    lowest = -np.inf if dtypes.is_float(tensor.dtype) else dtypes.int_range(tensor.dtype)[0]
    number = rng.choice([0, 0, 1, 5, lowest])
    first = m(*(0 for _ in shape))
    low = [int(r.min.data) for r in m.ranges]  # type: ignore[union-attr]

    def storage(place: Any) -> Place:
        return tuple(int(k) - start for k, start in zip(place, low, strict=True))

    values: dict[str, tuple[Any, Callable[[Place, Any], Any]]] = {
        "none": (None, lambda place, array: None),
        "number": (number, lambda place, array: number),
        "undef": (undef(tensor.dtype), lambda place, array: None),
        "indices": (lambda *place: sum(place, start=1), lambda place, array: sum(place) + 1),
        "element": (lambda *place: element(name, first), lambda place, array: array[storage(first)]),
        "places": (
            lambda *place: number if (place[0] % 2).eq(0) else None,
            lambda place, array: number if place[0] % 2 == 0 else None,
        ),
        "pairs": (
            lambda *place: [(place[-1] % 3 < 1, None), (place[0] > 1, number), (place[0] <= 0, undef(tensor.dtype))],
            lambda place, array: number if place[-1] % 3 >= 1 and place[0] > 1 else None,
        ),
    }
    given, held = values[kind]
    try:
        g = transform_layout(f, name, m, given)
    except LayoutError as error:
        if kind == "element" and "may hold nothing yet" in str(error):
            return f, None
        raise
    padding = padding_of(g, tensor_named(g, name))
    for at, place in places_of(m):
        is_untouched = padding is not None and bool(evaluate(padding.at([const(k) for k in at]), {}))
        # where contradictory guards leave no iteration, any condition describes the padding
        assert is_untouched is UNTOLD[kind](place) or not is_reached(f, name), f"{name}{place} of {g}"
    return g, Layer(m, kind, held)


def is_reached(f: Function, name: str) -> bool:
    """Whether a tensor is a parameter, or local storage that simplification keeps."""
    return any(t.name == name for g in (f.with_body(Seq(())), simplify(f)) for t in tensors_of(g))


def places_of(m: IndexMap) -> list[tuple[Place, Place]]:
    """The points of the padding, as indices into storage and as new indices."""
    mask = m.pack(np.zeros(m.shape, np.bool_), True)
    low = [int(r.min.data) for r in m.ranges]  # type: ignore[union-attr]
    return [
        (tuple(map(int, at)), tuple(int(k) + start for k, start in zip(at, low, strict=True)))
        for at in np.argwhere(mask)
    ]


class Laid(NumpyRuns):
    """A nest whose tensors are brought into layouts.

    Attributes
    ----------
    g: the function with layouts.
    layers: of each parameter, from the first on.
    """

    def __init__(self, nest: Nest) -> None:
        self.layers: dict[str, list[Layer]] = {}
        super().__init__(nest)
        self.g, self.rng = self.f, nest.rng

    def transform(self, times: int) -> None:
        """Change the layout of some tensors."""
        for _ in range(times):
            names = [t.name for t in tensors_of(self.g)]
            name = self.rng.choice([n for n in names if names.count(n) == 1])
            self.g, layer = random_layer(self.g, name, self.rng)
            if layer is not None and any(t.name == name for t in self.g.params):
                self.layers.setdefault(name, []).append(layer)

    def packed(self, name: str, array: Any, is_input: bool) -> Any:
        """Pack an array as the function expects it, with odd values in unconstrained padding."""
        for layer in self.layers.get(name, ()):
            array = layer.map.pack(array, ODD)
            for at, place in places_of(layer.map) if is_input else ():
                value = layer.held(place, array)
                array[at] = array[at] if value is None else value
        return array

    def unpacked(self, name: str, array: Any, is_input: bool) -> Any:
        """Check the padding of an array against its stated values, then unpack it."""
        for layer in reversed(self.layers.get(name, ())):
            for at, place in places_of(layer.map):
                value = layer.held(place, array)
                if layer.kind == "none" or (layer.kind == "places" and value is None):
                    assert array[at] == ODD, f"{name}{place} is touched"
                elif value is not None:
                    assert array[at] == value or is_input, f"{name}{place} holds {array[at]}, not {value}"
            array = layer.map.unpack(array)
        return array

    def after(self, step: Callable[[dict[str, Any], Any], object], f: Function, draw: int) -> dict[str, Any]:
        if f is self.f or not self.layers:
            return super().after(step, f, draw)
        first = self.arrays
        inputs = {t.name for t in f.params if t not in f.outputs}
        self.arrays = {name: self.packed(name, array, name in inputs) for name, array in first.items()}
        try:
            found = super().after(step, f, draw)
        finally:
            self.arrays = first
        return {name: self.unpacked(name, array, name in inputs) for name, array in found.items()}


TOTAL = """
def total(A: int32[4, 4], B: int32[1]):
    B[0] = 0
    for i in [0, 14):
        B[0] = B[0] + A[i // 4, i % 4]
"""
TILES = IndexMap(lambda i: [i // 4, i % 4], (14,))


def test_layouts_are_kept_by_passes_pickled_not_printed_and_count_from_zero() -> None:
    f = parse_nest(TOTAL)
    g = with_layouts(f, {"A": TILES})
    assert str(g) == str(f) and f.layouts == {} and list(g.layouts) == ["A"]
    for change in (simplify, remove_no_op, hoist_expression, merge_adjacent_loops):
        assert change(g).layouts["A"](5) == (1, 1)
    assert sequential_buffer_access(g, "A").layouts["A"].padding(3, 2)
    again = pickle.loads(pickle.dumps(g))
    assert again.layouts["A"](13) == (3, 1) and again.layouts["A"].new_shape == (4, 4)
    a = np.arange(16, dtype="int32").reshape(4, 4)
    assert run(again, {"A": a})["B"] == [91]
    f = parse_nest("def f(A: int32[16], B: int32[16]):\n    for i in [0, 16):\n        B[i] = A[i]")
    m = with_layouts(f, {"A": IndexMap(lambda i: i - 3, (16,))}).layouts["A"]
    assert m(0) == (-3,) and m.new_shape == (16,) and m.inverse()(12) == (15,)
    assert m.from_zero()(0) == (0,) and m.from_zero().new_shape == (16,) and m.from_zero().inverse()(15) == (15,)
    m = IndexMap(lambda i: [i // 4, i % 4], (14,))
    flat = m.then(IndexMap(lambda a, b: a * 4 + b, (4, 4)))
    assert flat.new_shape == (14,) and not flat.padding(13)
    whole = flat.onto([*IndexMap(lambda a, b: a * 4 + b, (4, 4)).ranges])
    assert whole.new_shape == (16,) and whole.padding(14) and not whole.padding(13) and whole.inverse()(9) == (9,)
    assert pickle.loads(pickle.dumps(whole)).new_shape == (16,)
    with pytest.raises(LayoutError, match="new index 0, i // 4, is not known to be within"):
        m.onto(IndexMap(lambda a, b: [a, b], (3, 4)).ranges)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"X": TILES}, "'X' must be one array of total: the arrays are A, B"),
        ({"A": None}, "the layout of A in total is an IndexMap, not None"),
        ({"B": TILES}, "B of total has 1 dimensions, its layout has 2"),
        ({"A": IndexMap(lambda i: [i // 4, i % 4], (17,))}, "extent 0 of A in total is 4, that of its layout is 5"),
        (
            {"A": IndexMap(lambda i: [i // 8, i % 4], (14,))},
            "the layout of A in total cannot be used: the map has no inverse: (0,) and (4,) arrive at one place",
        ),
        (None, "with_layouts takes maps by the names of tensors, not None"),
    ],
)
def test_what_is_no_layout_is_refused(layouts: object, message: str) -> None:
    f = parse_nest(TOTAL)
    with pytest.raises(IntSetError) as error:
        with_layouts(f, layouts)  # type: ignore[arg-type]
    assert str(error.value) == message and isinstance(error.value, InputError) and f.layouts == {}


SUM = """def f(A: int32[4, 4], B: int32[1]):
    padding A[i, j] where i * 4 + j >= 14
    B[0] = 0
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j < {limit}:
                B[0] = B[0] + A[i, j]"""


def test_names_that_are_taken_are_changed_and_what_may_not_be_touched_is_refused() -> None:
    a = np.ones((4, 4), "int32")
    assert run(parse_nest(SUM.format(limit=14)), {"A": a})["B"] == [14]
    with pytest.raises(AccessError) as error:
        run(parse_nest(SUM.format(limit=15)), {"A": a})
    assert str(error.value) == "A[3, 2] is read, and lies in the padding of A, which may not be touched"
    assert run(parse_nest(SUM.format(limit=15)), {"A": a}, checked=False)["B"] == [15]
    f = parse_nest("def f(A: int32[i], i):\n    padding A[j] where j > i - 3\n    pass")
    assert str(f) == "def f(A: int32[i], i):\n    padding A[j] where j > i - 3\n    pass"


def test_a_condition_is_not_tested_before_a_loop_where_it_would_touch_it() -> None:
    text = """def f(A: int32[8], B: int32[8]):
    padding A[i] where i >= 6
    for i in [0, 8):
        for j in [0, 6 - i):
            if A[i] > 0:
                B[j] = 1"""
    f = parse_nest(text)
    assert str(hoist_expression(f)) == text
    assert "if A[i] > 0:\n            for j" in str(hoist_expression(parse_nest(text.replace("i >= 6", "i > 8"))))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("padding C[i] where i > 2", "unknown name 'C'"),
        ("padding A[i] where i > 2", "A has 2 dimensions, its padding has 1"),
        ("padding A[A, i] where i > 2", "the name A is taken"),
        ("padding A[i, j] where i + 2", "a condition is expected"),
        ("padding A[i, j] where B[0] > 2", "one on indices and sizes"),
        ("padding A[i, j] were i > 2", "'where' is expected"),
        ("padding A[i, j] where i > 2\n    padding A[i, j] where i > 2", "told once"),
        ("B[0] = 1\n    padding A[i, j] where i > 2", "told once"),
    ],
)
def test_bad_lines(line: str, message: str) -> None:
    with pytest.raises(ParseError, match=message) as error:
        parse_nest(f"def f(A: int32[4, 4], B: int32[1]):\n    {line}\n    B[0] = A[0, 0]")
    assert error.value.line >= 2


RANDOM = st.randoms(use_true_random=False)
LAID = numpy_runs(kinds=PACKED, kind=Laid)


def in_order(f: Function, rng: random.Random) -> Function:
    """Try `sequential_buffer_access` on a random array."""
    names = [t.name for t in tensors_of(f)]
    name = rng.choice([n for n in names if names.count(n) == 1])
    try:
        return sequential_buffer_access(f, name)
    except LayoutError:
        return f


@sampled(6, 3000, LAID, RANDOM)
def test_layouts_keep_the_results(laid: Laid, rng: random.Random) -> None:
    """Passes over random layouts keep all elements, the promised padding, and which tensors have padding."""
    laid.transform(rng.randint(1, 2))
    done: list[str] = []
    f = laid.g
    try:
        laid.agrees(f)
        for _ in range(rng.randint(1, 2)):
            name = rng.choice(["in order", "remove_branching_through_overcompute", *PASSES, *OLD])
            done.append(name)
            if name == "in order":
                f = in_order(f, rng)
            else:
                f = PASSES[name](f, report=[]) if name in PASSES else OLD[name](f)
            laid.agrees(f)
            assert {t.name for t in f.padding} == {t.name for t in laid.g.padding}
    except Exception as error:
        layers = {name: [(layer.map, layer.kind) for layer in some] for name, some in laid.layers.items()}
        raise AssertionError(f"{layers}, {done}: {error}\n{laid.text}\n{laid.g}\n{f}") from error


@sampled(3, 500, LAID, RANDOM)
def test_copies_at_the_border_keep_the_results(laid: Laid, rng: random.Random) -> None:
    """Random layouts of cached copies, and hoisted layouts, keep all results."""
    f = laid.f
    for t in laid.f.params:
        try:
            f = (cache_write if t in f.outputs else cache_read)(f, t.name)
        except LayoutError:  # which elements are stored to depends on data
            continue
        if rng.random() < 0.8:
            f, _ = random_layer(f, f"{t.name}C", rng)
    laid.agrees(f)
    h = hoist_layouts(f)
    for draw in range(2):
        laid.compare(laid.after(lambda given, undef: h.run(given, {"n": laid.n}, undef=undef), laid.f, draw), h)


SYMBOLIC = (
    "for i in [0, N):\n        B[i] = A[i] + 1",
    "for i in [0, N):\n        B[N - 1 - i] = A[i]\n    for i in [0, N):\n        B[i] = B[i] * 2",
    "for i in [0, N):\n        B[i] = A[0] + i\n        if i > 0:\n            B[i] = B[i - 1] + A[i]",
    "allocate T: int32[N]\n    for i in [0, N):\n        T[i] = A[i]\n    for j in [0, N):\n        B[j] = T[N-1-j]",
)


@sampled(4, 250, RANDOM)
def test_layouts_of_any_size_keep_the_results(rng: random.Random) -> None:
    f = parse_nest(f"def f(A: int32[N], B: int32[N], N):\n    {rng.choice(SYMBOLIC)}")
    n = f.sizes[0]
    c, o = rng.randint(2, 4), rng.randint(0, 3)
    maps: list[Any] = [
        lambda i: [i // c, i % c], lambda i: [(i + o) // c, (i + o) % c], lambda i: [n - 1 - i], lambda i: [i * c + o],
        lambda i: [i - o], lambda i: [i // (2 * c), i // c % 2, i % c],
    ]  # fmt: skip
    g, layers = f, {}
    for name in rng.sample([t.name for t in tensors_of(f)], 2):
        m = rng.choice(maps)
        value = rng.choice([None, 0, undef(), lambda *place: place[0] + n, lambda *place: [(place[0] > 1, 4)]])
        layers[name] = (m, value)
        g = transform_layout(g, name, m, value)
    for _ in range(2):
        name = rng.choice(["remove_branching_through_overcompute", *PASSES])
        g = in_order(g, rng) if name == "sequential_buffer_access" else PASSES[name](g, report=[])
    for size in (0, 1, 2, 5, 8):
        a = np.arange(3, 3 + size, dtype="int32")
        b = run(f, {"A": a})["B"]
        given = _packed(layers["A"], a, n, size) if "A" in layers else a
        result = run(g, {"A": given}, {"N": size}, undef=lambda dtype: 999)["B"]
        if "B" in layers:
            m, value = layers["B"]
            layout = at_size(m, n, size)
            found = _packed(layers["B"], b, n, size)
            if isinstance(value, int) or callable(value):
                told = layout.pack(np.zeros(size, "bool"), True) & (found != 777)
                assert (result == found)[told].all(), (size, str(g))
            result = layout.unpack(result)
        assert (result == b).all(), (size, str(g))


def _packed(layer: tuple[Any, Any], array: Any, n: Var, size: int) -> Any:
    """Pack an array at one size; padding without a stated value is 777."""
    m, value = layer
    layout = at_size(m, n, size)
    found = layout.pack(array, value if isinstance(value, int) else 777)
    if callable(value):
        for at in np.argwhere(layout.pack(np.zeros(size, "bool"), True)):
            told = value(*map(IndexNumber, map(int, at)))
            if isinstance(told, list):
                found[tuple(at)] = 4 if at[0] > 1 else 777
            else:
                found[tuple(at)] = int(at[0]) + size
    return found


def at_size(m: Any, n: Var, size: int) -> IndexMap:
    """Substitute one size in a map."""
    return IndexMap(lambda i: [substitute(e, {n: size}) for e in m(i)], (size,))

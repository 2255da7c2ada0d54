"""`Function.layouts`: composed maps and declared layouts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from intset import InputError, IntSetError, Var
from lowering import (
    IndexMap,
    LayoutError,
    hoist_expression,
    merge_adjacent_loops,
    parse_nest,
    remove_no_op,
    run,
    sequential_buffer_access,
    simplify,
    with_layouts,
)

TOTAL = """
def total(A: int32[4, 4], B: int32[1]):
    B[0] = 0
    for i in [0, 14):
        B[0] = B[0] + A[i // 4, i % 4]
"""
TILES = IndexMap(lambda i: [i // 4, i % 4], (14,))


def test_layouts_are_kept_by_passes_and_pickled_and_not_printed() -> None:
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


def test_layouts_of_local_storage_and_later_ones() -> None:
    f = parse_nest(
        """
def f(A: int32[14], B: int32[14]):
    allocate C: int32[4, 4]
    for i in [0, 14):
        C[i // 4, i % 4] = A[i]
    for i in [0, 14):
        B[i] = C[i // 4, i % 4]
"""
    )
    g = with_layouts(with_layouts(f, {"C": TILES}), {"A": IndexMap(lambda i: i, (14,))})
    assert list(g.layouts) == ["C", "A"] and g.layouts["A"].bijective


def test_sizes_are_those_of_the_function_by_their_names() -> None:
    f = parse_nest(
        """
def f(A: int32[(n + 3) // 4, 4], B: int32[n], n):
    for i in [0, n):
        B[i] = A[i // 4, i % 4]
"""
    )
    n = Var("n")
    m = with_layouts(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (n,))}).layouts["A"]
    assert m.sizes == f.sizes
    with pytest.raises(LayoutError, match="k in the layout of A is no size of f: the sizes are n"):
        with_layouts(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (Var("k"),))})


def test_a_storage_counts_from_zero() -> None:
    f = parse_nest("def f(A: int32[16], B: int32[16]):\n    for i in [0, 16):\n        B[i] = A[i]")
    m = with_layouts(f, {"A": IndexMap(lambda i: i - 3, (16,))}).layouts["A"]
    assert m(0) == (-3,) and m.new_shape == (16,) and m.inverse()(12) == (15,)
    assert m.from_zero()(0) == (0,) and m.from_zero().new_shape == (16,) and m.from_zero().inverse()(15) == (15,)


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


def test_a_map_into_a_larger_storage() -> None:
    m = IndexMap(lambda i: [i // 4, i % 4], (14,))
    flat = m.then(IndexMap(lambda a, b: a * 4 + b, (4, 4)))
    assert flat.new_shape == (14,) and not flat.padding(13)
    whole = flat.onto([*IndexMap(lambda a, b: a * 4 + b, (4, 4)).ranges])
    assert whole.new_shape == (16,) and whole.padding(14) and not whole.padding(13) and whole.inverse()(9) == (9,)
    assert pickle.loads(pickle.dumps(whole)).new_shape == (16,)
    with pytest.raises(LayoutError, match="new index 0, i // 4, is not known to be within"):
        m.onto(IndexMap(lambda a, b: [a, b], (3, 4)).ranges)

"""`sequential_buffer_access`: printed nests, refusals, unchanged results."""

from __future__ import annotations

import numpy as np
import pytest

from intset import InputError, evaluate
from lowering import LayoutError, parse_nest, run, sequential_buffer_access


def in_order(text: str, name: str) -> tuple[str, list[object]]:
    """Run the pass, compare results on random arrays, and return the new text and report."""
    f = parse_nest(text)
    report: list[object] = []
    g = sequential_buffer_access(f, name, report=report)
    for size in (0, 1, 3, 5, 8):
        rng = np.random.default_rng(size)
        values = dict.fromkeys(f.sizes, size)
        shapes = {t.name: [max(0, int(evaluate(e, values))) for e in t.extents] for t in f.params}
        given = {n: rng.integers(-9, 9, shape).astype(np.int32) for n, shape in shapes.items()}
        first, second = ({n: a.copy() for n, a in given.items()} for _ in range(2))
        run(f, first, sizes={v.name: k for v, k in values.items()})
        run(g, second, sizes={v.name: k for v, k in values.items()})
        assert all((first[n] == second[n]).all() for n in given)
    return str(g), report


def test_tiles_are_walked_in_the_order_of_the_flat_tensor() -> None:
    text, report = in_order(
        """
def f(A: int32[16], B: int32[16]):
    for i in [0, 4):
        for j in [0, 4):
            B[j * 4 + i] = A[j * 4 + i] + 1
""",
        "A",
    )
    assert "for a0 in [0, 16):\n        B[a0] = A[a0] + 1" in text and report[0].done


def test_a_guard_where_the_tensor_is_not_reached() -> None:
    text, _ = in_order(
        """
def f(A: int32[4, 4], B: int32[n], n):
    for i in [0, minimum(n, 14)):
        B[i] = A[i // 4, i % 4]
""",
        "A",
    )
    assert "for a0 in [0, 4):\n        for a1 in [0, 4):\n            if" in text


def test_a_start_of_a_reduction_is_split_off() -> None:
    text, _ = in_order(
        """
def rows(A: int32[6, 8], B: int32[6]):
    for i in [0, 6):
        B[i] = 0
        for k in [0, 2):
            for j in [0, 4):
                B[i] = B[i] + A[i, k * 4 + j]
""",
        "A",
    )
    assert text.splitlines()[1:] == [
        "    for i in [0, 6):",
        "        B[i] = 0",
        "    for a0 in [0, 6):",
        "        for a1 in [0, 8):",
        "            B[a0] = B[a0] + A[a0, a1]",
    ]


def test_loops_that_the_indices_do_not_mention_stay_inside() -> None:
    text, _ = in_order(
        """
def f(A: int32[4], B: int32[4, 3]):
    for j in [0, 3):
        for i in [0, 4):
            B[3 - i, j] = A[3 - i] * j
""",
        "A",
    )
    assert "for a0 in [0, 4):\n        for j in [0, 3):\n            B[a0, j] = j * A[a0]" in text


def test_sums_of_integers_may_be_added_up_in_any_order() -> None:
    text, _ = in_order("def f(A: int32[8], B: int32[1]):\n    for i in [0, 8):\n        B[0] = B[0] + A[7 - i]\n", "A")
    assert "B[0] = B[0] + A[a0]" in text
    floats = "def f(A: float32[8], B: float32[1]):\n    for i in [0, 8):\n        B[0] = B[0] + A[7 - i]\n"
    with pytest.raises(LayoutError, match="order"):
        sequential_buffer_access(parse_nest(floats), "A")


def test_what_is_in_order_stays() -> None:
    nest = "def f(A: int32[n], B: int32[n], n):\n    for i in [0, n):\n        B[i] = A[i]"
    f = parse_nest(nest)
    report: list[object] = []
    assert str(sequential_buffer_access(f, "A", report=report)) == nest
    assert [entry.done for entry in report] == [False]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ("    for i in [0, 7):\n        A[7 - i] = A[6 - i] + 1", "A"),  # from behind on purpose
        ("    for i in [0, 8):\n        B[0] = B[0] * 2 + A[7 - i]", "A"),
        ("    for i in [0, 8):\n        B[i] = A[i // 2]", "A"),
        ("    for i in [0, 7):\n        B[i] = A[i] + A[i + 1]", "A"),
        ("    for i in [0, 8):\n        B[i] = A[B[i] % 8]", "A"),
        ("    for i in [0, 8):\n        B[0] = i\n        for j in [0, 2):\n            A[i] = B[j] + A[i]", "A"),
    ],
)
def test_refusals(body: str, name: str) -> None:
    f = parse_nest(f"def f(A: int32[8], B: int32[8]):\n{body}\n")
    with pytest.raises(LayoutError) as error:
        sequential_buffer_access(f, name)
    assert "\n" not in str(error.value)


def test_no_such_tensor() -> None:
    f = parse_nest("def f(A: int32[8]):\n    for i in [0, 8):\n        allocate T: int32[1]\n        T[0] = A[i]\n")
    with pytest.raises(InputError, match="the arrays are A, T"):
        sequential_buffer_access(f, "B")
    assert str(sequential_buffer_access(f, "T")) == str(f)


def test_storage_of_an_iteration_is_walked_in_that_iteration() -> None:
    text, _ = in_order(
        """
def f(A: int32[8, 4], B: int32[8, 4]):
    for i in [0, 8):
        allocate T: int32[2 : + 4]
        for j in [0, 4):
            T[5 - j] = A[i, j]
        for j in [0, 4):
            B[i, j] = T[j + 2]
""",
        "T",
    )
    assert "for t0 in [2, 6):\n            T[t0] = A[i, 5 - t0]" in text
    assert "for t0 in [2, 6):\n            B[i, t0 - 2] = T[t0]" in text

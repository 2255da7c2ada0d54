"""Accesses proved or refuted to lie in their tensors, beside the enumeration of loops."""

from __future__ import annotations

import itertools
from random import Random

import pytest

from lowering import dataflow, parse_nest


def drawn(rng: Random) -> tuple[str, str, str, list[int]]:
    """An index and a guard over two loops, and the text of a nest with them."""
    i, j = rng.randint(1, 5), rng.randint(1, 4)
    a, b, c = rng.choice([-2, -1, 1, 2, 3]), rng.choice([-1, 0, 1, 2]), rng.randint(-2, 3)
    index = f"i * {a} + j * {b} + {c}"
    if rng.random() < 0.3:
        index = f"({index}) {rng.choice(['// 2', '% 5'])}"
    guard = rng.choice(["i >= 0", f"i + j < {rng.randint(1, 6)}", f"{index} >= 0", f"i % 2 == {rng.randint(0, 1)}"])
    text = f"def f(A: int32[9], B: int32[40]):\n    for i in [0, {i}):\n        for j in [0, {j}):\n"
    text += f"            if {guard}:\n                A[{index}] = B[i * 8 + j]\n"
    return text, index, guard, [i, j]


@pytest.mark.parametrize("seed", range(150))
def test_drawn_accesses_are_what_enumeration_says(seed: int) -> None:
    text, index, guard, ends = drawn(Random(seed))
    read, store = dataflow(parse_nest(text)).accesses()
    assert (read.access, read.status, read.is_store, store.is_store) == ("B[i * 8 + j]", "proved", False, True)
    points = [{"i": i, "j": j} for i, j in itertools.product(*map(range, ends))]
    outside = [p for p in points if eval(guard, {}, p) and not 0 <= eval(index, {}, p) < 9]
    assert (store.status, store.point is not None) == ("refuted" if outside else "proved", bool(outside))
    assert store.line == 5 and (not outside or store.point in outside)


def test_contents_of_tensors_leave_an_access_open() -> None:
    f = parse_nest(
        """
        def f(A: int32[8], I: int32[8], X: float32[8]):
            for i in [0, 8):
                if X[i] > 0.0:
                    A[i + 3] = I[I[i]]
            for i in [0, 8):
                k = I[i]
                if (k >= 0) & (k < 8):
                    A[k] = select(i > 0, I[i - 1], 0)
                A[k] = I[i - 2]
        """
    )
    found = {(a.line, a.access): a for a in dataflow(f).accesses()}
    assert {key: a.status for key, a in found.items()} == {
        (3, "X[i]"): "proved", (4, "I[I[i]]"): "unknown", (4, "I[i]"): "proved", (4, "A[i + 3]"): "unknown",
        (6, "I[i]"): "proved", (8, "I[i - 1]"): "proved", (8, "A[k]"): "proved", (9, "I[i - 2]"): "refuted",
        (9, "A[k]"): "unknown",
    }  # fmt: skip
    assert found[9, "I[i - 2]"].point in ({"i": 0}, {"i": 1})
    assert found[9, "A[k]"].reason == "it depends on the contents of tensors"


def test_sizes_and_local_storage() -> None:
    f = parse_nest(
        """
        def f(A: int32[n], B: int32[n], n):
            for i in [0, n):
                allocate T: int32[2] at [i]
                T[i % 2] = A[i]
                B[i] = T[1] + A[i + 1]
        """
    )
    found = {a.access: (a.status, a.point) for a in dataflow(f).accesses()}
    assert found["A[i]"] == found["T[i % 2]"] == found["T[1]"] == found["B[i]"] == ("proved", None)
    status, point = found["A[i + 1]"]
    assert status == "refuted" and point is not None and point["i"] + 1 == point["n"]

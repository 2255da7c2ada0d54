"""`cache_read`, `cache_write` and `add_constraint`: printed nests, results, refusals."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import lowering.layout.index_map
import lowering.layout.transform
from intset import InputError, IntSetError
from lowering import (
    CheckError,
    LayoutError,
    add_constraint,
    cache_read,
    cache_write,
    element,
    parse_nest,
    remove_branching_through_overcompute,
    run,
    simplify,
    transform_layout,
    undef,
)

COPY = """
def f(A: int32[14], B: int32[14]):
    for i in [0, 14):
        B[i] = A[i] + 1
"""


@pytest.mark.parametrize("name", ["index_map", "transform"])
def test_examples_in_docstrings(name: str) -> None:
    found = doctest.testmod(getattr(lowering.layout, name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert found.attempted and not found.failed


def tiles(i: Any) -> list[Any]:
    return [i // 4, i % 4]


def test_the_layout_of_a_copy_changes_without_the_interface() -> None:
    f = parse_nest(COPY)
    g = cache_write(cache_read(f, "A"), "B")
    for name, value in (("AC", 0), ("BC", undef())):
        g = transform_layout(g, name, tiles, value)
    assert list(g.layouts) == ["AC", "BC"] and [t.name for t in g.params] == ["A", "B"]
    a = np.arange(14, dtype="int32")
    assert (run(g, {"A": a})["B"] == run(f, {"A": a})["B"]).all()
    assert "AC[a0 // 4, a0 % 4] = A[a0]" in str(g) and "B[b0] = BC[b0 // 4, b0 % 4]" in str(g)


def test_names_of_copies() -> None:
    f = parse_nest("def f(A: int32[4], AC: int32[4]):\n    for i in [0, 4):\n        AC[i] = A[i]")
    assert "allocate AC_1: int32[4]" in str(cache_read(f, "A")) and "allocate T: int32[4]" in str(
        cache_write(f, "AC", "T")
    )
    for bad in ("A", 3, "no name"):
        with pytest.raises(LayoutError, match="the name"):
            cache_read(f, "A", bad)  # type: ignore[arg-type]


def test_only_what_is_stored_is_copied_back() -> None:
    text = """
def f(A: int32[n], B: int32[10], n):
    assert n <= 10, "fits"
    for i in [0, n):
        B[i] = A[i]
"""
    f = parse_nest(text)
    g = cache_write(f, "B")
    assert "if b0 < n" in str(g) and str(g).index("assert") < str(g).index("allocate")
    b = np.full(10, 7, "int32")
    assert run(g, {"A": np.arange(3, dtype="int32"), "B": b})["B"].tolist() == [0, 1, 2] + [7] * 7
    again = cache_write(parse_nest(text.replace("B[i] = A[i]", "B[i] = B[i] + A[i]")), "B")
    assert "BC[b0] = B[b0]" in str(again)
    assert run(again, {"A": np.arange(3, dtype="int32"), "B": b})["B"].tolist() == [0, 2, 4] + [7] * 7
    with pytest.raises(LayoutError, match="which elements of B are stored to in f depends on data"):
        cache_write(parse_nest("def f(A: int32[4], B: int32[9]):\n    for i in [0, 4):\n        B[A[i]] = i"), "B")


def test_padding_is_not_copied() -> None:
    f = transform_layout(transform_layout(parse_nest(COPY), "A", tiles), "B", tiles)
    g = cache_write(cache_read(f, "A"), "B")
    assert str(g).count("padding") == 4 and list(g.layouts) == ["A", "B", "AC", "BC"]
    a = np.arange(16, dtype="int32").reshape(4, 4)
    b = np.full((4, 4), 5, "int32")
    assert run(g, {"A": a, "B": b})["B"].reshape(-1).tolist() == [*range(1, 15), 5, 5]
    assert str(parse_nest(str(g))) == str(g)


@pytest.mark.parametrize(
    ("change", "name", "message"),
    [
        (cache_read, "B", "f stores to B: cache_write"),
        (cache_write, "A", "f does not store to A: cache_read"),
        (cache_read, "X", "'X' must be one array of f"),
        (cache_read, "T", "T is no parameter of f"),
    ],
)
def test_refusals(change: Any, name: str, message: str) -> None:
    f = parse_nest(COPY + "    allocate T: int32[1]\n    T[0] = 0\n    B[0] = T[0]")
    with pytest.raises(IntSetError, match=message):
        change(f, name)


TOTAL = """
def total(A: int32[4, 4], B: int32[1]):
    B[0] = 0
    for i in [0, 4):
        for j in [0, 4):
            if i * 4 + j < 14:
                B[0] = B[0] + A[i, j]
"""


def test_of_an_input_it_is_an_assumption() -> None:
    f = parse_nest(TOTAL)
    g = add_constraint(f, "A", lambda i, j: i * 4 + j >= 14, 0)
    assert "if" not in str(remove_branching_through_overcompute(g))
    a = np.ones((4, 4), "int32")
    with pytest.raises(CheckError):
        run(g, {"A": a})
    a[3, 2:] = 0
    assert run(g, {"A": a})["B"] == [14]
    assert "A[a0, a1] == undef()" in str(add_constraint(f, "A", lambda i, j: i > 2, undef()))
    assert "== a1 + 2" in str(add_constraint(f, "A", lambda i, j: i > 2, lambda i, j: j + 2))


def test_it_speaks_of_the_indices_of_the_layout() -> None:
    f = parse_nest("def f(A: int32[16], B: int32[16]):\n    for i in [0, 16):\n        B[i] = A[i]")
    g = add_constraint(transform_layout(f, "A", lambda i: i - 3), "A", lambda k: k < 0, 9)
    a = np.arange(16, dtype="int32")
    a[:3] = 9
    assert run(g, {"A": a})["B"].tolist() == a.tolist() and "(a0 >= 3) | (A[a0] == 9)" in str(g)


def test_of_what_is_stored_it_follows() -> None:
    f = transform_layout(parse_nest(COPY), "B", tiles, 3)
    g = add_constraint(f, "B", lambda i, j: i * 4 + j >= 14, 3)
    assert '(B[b0, b1] == 3), "proved"' in str(g)
    assert run(g, {"A": np.zeros(14, "int32")})["B"].sum() == 20
    for cond, value in ((lambda i, j: i * 4 + j >= 13, 3), (lambda i, j: i * 4 + j >= 14, 4)):
        with pytest.raises(
            LayoutError, match=r"the constraint on B in f does not follow: B.b0, b1. is not known to be"
        ):
            add_constraint(f, "B", cond, value)
    local = parse_nest(
        """
def f(A: int32[8], B: int32[8]):
    for k in [0, 2):
        allocate T: int32[8]
        for i in [0, 8):
            T[i] = i * 2
        for i in [0, 8):
            if T[i] == i * 2:
                B[i] = A[i]
"""
    )
    h = add_constraint(local, "T", lambda i: i >= 0, lambda i: i * 2)
    assert 'assume T[t0] == t0 * 2, "proved"' in str(h) and "if" not in str(simplify(h))


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (3, 0, "function of indices"),
        (lambda i: i > 2, 0, "has 2 indices"),
        (lambda i, j: i + j, 0, "a condition on indices"),
        (lambda i, j: i > 2 and j > 2, 0, "fails for symbolic indices: the truth value"),
        (lambda i, j: i > 2, None, "says nothing"),
        (lambda i, j: i > 2, 0.5, "cannot be 0.5"),
        (lambda i, j: i > 2, lambda i, j: element("B", (0,)), "may only read A itself"),
        (lambda i, j: i > 2, lambda i, j: element("A", (i + 1, j)), "would read padding"),
    ],
)
def test_bad_constraints(where: Any, value: Any, message: str) -> None:
    with pytest.raises(IntSetError, match=message) as error:
        add_constraint(parse_nest(TOTAL), "A", where, value)
    assert isinstance(error.value, InputError)


def test_what_may_not_be_touched_is_not_spoken_of() -> None:
    f = transform_layout(parse_nest(COPY), "A", tiles)
    with pytest.raises(LayoutError, match=r"is about \(3, [23]\), which may not be touched"):
        add_constraint(f, "A", lambda i, j: i * 4 + j >= 13, 0)
    assert "assume" in str(add_constraint(f, "A", lambda i, j: (i.eq(3)) & (j < 2), 0))

"""Ranges of computed integer tensors contain all elements that `run` stores."""

from __future__ import annotations

from typing import Any

import pytest

from bound import infer_bound, te, tir
from lowering import lower
from tests.bound.reference import evaluate
from tests.lowering.lowered import check, random_array

INDEX = te.placeholder((40,), "int32", name="INDEX", value_range=(3, 9))
RAW = te.placeholder((40,), "int32", name="RAW")
SMALL = te.placeholder((40,), "int8", name="SMALL")
WIDE = te.placeholder((40,), "int64", name="WIDE")
REAL = te.placeholder((40,), name="REAL")
K = te.reduce_axis((1, 5), "k")
NONE = te.reduce_axis((2, 2), "none")
FORMULAS: dict[str, tuple[Any, tuple[int, int] | None]] = {
    "clamped": (lambda x: te.max(te.min(x, 20), 10), (10, 20)),
    "a given range": (lambda x: INDEX[x] * 2 - 1, (5, 17)),
    "clamped data": (lambda x: te.max(te.min(RAW[x] + 1, 20), 10), (10, 20)),
    "a remainder": (lambda x: RAW[x] % 5, (0, 4)),
    "a narrow type": (lambda x: SMALL[x].astype("int32") + 1, (-127, 128)),
    "a cast that wraps": (lambda x: INDEX[x].astype("int8") * 100, None),
    "a cast that holds": (lambda x: te.max(te.min(RAW[x], 9), 2).astype("uint8"), (2, 9)),
    "a sum of narrow ones": (lambda x: (SMALL[x] + SMALL[x]) // 2, None),
    "a float": (lambda x: REAL[x].astype("int8").astype("int32") + 200, (72, 327)),
    "a choice by a float": (lambda x: tir.Select(REAL[x] > 0.0, INDEX[x], 1), (1, 9)),
    "a choice of wide ones": (lambda x: tir.Select(REAL[x] > 0.0, SMALL[x] * 100, 1).astype("int32"), None),
    "too wide on the way": (lambda x: (WIDE[x] * 4 + 1) % 5, None),
    "of popcounts": (lambda x: tir.popcount(SMALL[x]) + 1, (1, 9)),
    "a largest": (lambda x: te.max(INDEX[x] * K, axis=K), (3, 36)),
    "a largest of some": (lambda x: te.max(INDEX[x] * K, axis=K, where=K > 2), (-(1 << 31), 36)),
    "a largest of nothing": (lambda x: te.max(INDEX[x] + NONE, axis=NONE), None),
    "a sum": (lambda x: te.sum(INDEX[x] - 4 + K - K, axis=K), (-4, 20)),
    "a sum that wraps": (lambda x: te.sum(INDEX[x].astype("int8") * 9 + (K - K), axis=K), None),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_elements_lie_in_the_range_of_their_formula(name: str) -> None:
    formula, expected = FORMULAS[name]
    tensor = te.compute((40,), formula, name="T")
    known = tensor.op.range_of(0)
    if expected is not None:
        assert known == expected
    low, high = tensor.element.lower, tensor.element.upper
    for seed in range(5):
        given = {t.name: random_array(t, {}, seed) for t in tensor.op.input_tensors}
        ends = {"int8": (-128, 127), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
        for t in tensor.op.input_tensors:
            if t.dtype in ends and t.value_range is None:
                given[t.name][:4] = [*ends[t.dtype], 0, -1]
            elif t.dtype == "float32":
                given[t.name][:4] = [100.5, -128.0, 127.0, 0.0]  # beyond int8 they have no value
        elements = evaluate(tensor, given)
        assert low is None or low <= elements.min()
        assert high is None or elements.max() <= high


def test_an_index_that_is_clamped_needs_the_elements_between() -> None:
    image = te.placeholder((2000,), name="image")
    before = te.compute((2000,), lambda i: image[i] * 2.0, name="before")
    index = te.compute((100,), lambda x: te.max(te.min(x, 20), 10), name="index")
    out = te.compute((100,), lambda x: before[index[x]], name="out")
    s = te.create_schedule(out.op)
    b = infer_bound(s)
    ((low, extent),) = [(r.min, r.extent) for r in b.allocated(before)]
    assert (low.data, extent.data) == (10, 11)
    assert not b.required(before).is_exact and "index" in b.required(before).notes[-1]
    check(s)


def test_a_position_of_the_largest_lies_among_the_positions() -> None:
    values = te.placeholder((6, 9), name="values")
    k = te.reduce_axis((2, 9), "k")
    reducer = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), tir.Select(x[1] > y[1], x[1], y[1])),
        lambda a, b: (tir.const(-1, a), te.min_value(b)),
    )
    place, _ = te.compute((6,), lambda i: reducer((k, values[i, k]), axis=k), name="place")
    assert place.op.range_of(0) == (-1, 8)
    table = te.placeholder((50,), name="table")
    before = te.compute((50,), lambda i: table[i] + 1.0, name="before")
    out = te.compute((6,), lambda i: before[te.max(place[i], 0)], name="out")
    s = te.create_schedule(out.op)
    assert [r.extent.data for r in infer_bound(s).allocated(before)] == [9]
    assert lower(s) is not None
    check(s)


def test_given_data_is_exact_and_computed_data_is_not() -> None:
    given = te.placeholder((8,), "int32", name="given", value_range=(0, 30))
    image = te.placeholder((40,), name="image")
    for index, exact in ((given, True), (te.compute((8,), lambda x: x * 2, name="even"), False)):
        before = te.compute((40,), lambda i: image[i] + 1.0, name="before")
        out = te.compute((8,), lambda x: before[index[x]], name="out")  # noqa: B023
        assert infer_bound(te.create_schedule(out.op)).required(before).is_exact is exact

"""Accesses of operations with their conditions; fixed and relaxed loops of a producer."""

from typing import Any

from bound import te, tir
from bound.infer.accesses import accesses
from intset.expr.dag import opaque_terms
from tests.bound.infer.test_corpus import TENSORIZED
from tests.strategies.written import Written

A = te.placeholder((20,), name="A")
IDX = te.placeholder((20,), "int32", name="IDX", value_range=(-3, 30))


def of(formula: Any, n: int = 16) -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    op = te.compute((n,), formula, name="C").op
    return [(a.tensor.name, tuple(map(str, a.indices)), tuple(map(str, a.conditions))) for a in accesses(op)]


def test_plain_and_guarded_reads() -> None:
    assert of(lambda i: A[i] + A[i + 1] + A[i]) == [("A", ("i",), ()), ("A", ("i + 1",), ())]
    assert of(lambda i: tir.if_then_else(tir.all(i >= 1, i < 9), A[i - 1], A[i + 2])) == [
        ("A", ("i - 1",), ("i >= 1", "i < 9")),
        ("A", ("i + 2",), ("~((i >= 1) & (i < 9))",)),
    ]
    nested = of(lambda i: tir.Select(i < 8, tir.Select(i > 2, A[i], 0.0), A[i + 4]))
    assert nested == [("A", ("i",), ("i < 8", "i > 2")), ("A", ("i + 4",), ("~(i < 8)",))]


def test_a_read_reached_in_two_ways() -> None:
    both = of(lambda i: tir.Select(i < 3, A[i], 0.0) + tir.Select(i > 9, A[i], 0.0))
    assert sorted(both) == [("A", ("i",), ("i < 3",)), ("A", ("i",), ("i > 9",))]
    always = of(lambda i: tir.Select(i < 3, A[i], 0.0) + A[i])
    assert always == [("A", ("i",), ())]
    many = of(lambda i: sum((tir.Select(tir.all(i < 15, i >= k), A[i], 0.0) for k in range(9)), A[0]))
    assert many == [("A", ("0",), ()), ("A", ("i",), ("i < 15",))]


def test_conditions_on_data_say_nothing_but_read() -> None:
    mixed = of(lambda i: tir.Select(tir.all(i < 3, A[i] > 0), A[i + 1], A[i + 2]))
    assert mixed == [("A", ("i",), ("i < 3",)), ("A", ("i + 1",), ("i < 3",)), ("A", ("i + 2",), ())]
    by_index = of(lambda i: tir.if_then_else(IDX[i] < 4, A[IDX[i]], 0.0))
    assert by_index == [("IDX", ("i",), ()), ("A", ("IDX[i]",), ("IDX[i] < 4",))]


def test_reductions_and_data_dependent_indices() -> None:
    k = te.reduce_axis((0, 12), "k")
    assert of(lambda i: te.sum(A[k], axis=k, where=k <= i)) == [("A", ("k",), ("k <= i",))]
    op = te.compute((16,), lambda i: A[i + tir.indexmod(IDX[i], 4)], name="C").op
    last = accesses(op)[-1]
    assert opaque_terms(*last.indices)
    assert [str(c) for c in last.inside()] == ["i + IDX[i] % 4 >= 0", "i + IDX[i] % 4 < 20"]
    through = te.compute((16,), lambda i: A[(A[i] * 3).astype("int32")], name="C").op
    assert len(accesses(through)) == 2 and str(accesses(through)[0].indices[0]) == "i"


def test_externs_tensorized_bodies_and_scans_read_regions() -> None:
    e = te.extern((20,), [A], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    (whole,) = accesses(e.op)
    assert whole.tensor is A and whole.indices == (whole.extra[0][0],) and int(whole.extra[0][1].extent) == 20
    (region,) = accesses(Written(f"{TENSORIZED}\nschedule C").C.op)
    assert str(region.indices[0]) == "i + B.d0" and [int(r.extent) for _, r in region.extra] == [3, 20]

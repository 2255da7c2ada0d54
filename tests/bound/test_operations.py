"""Regions of what is no plain formula: scans, externs, tensorized tiles, elements that choose other elements."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.infer import BoundsMap
from bound.schedule import ScheduleError
from intset import InputError
from lowering import lower, run
from tests.lowering.lowered import check as check_lowered


def stored(b: BoundsMap, tensor: Any) -> list[tuple[str, str]]:
    return [(str(r.min), str(r.extent)) for r in b.allocated(tensor)]


# -- scans ------------------------------------------------------------------------------------------------------------


class Scan:
    """Rows that add to the row before; `mid` is a part of the update."""

    def __init__(self, m: Any = 6, n: Any = 10) -> None:
        x = te.placeholder((m, n), name="X")
        self.y: Any = te.compute((m, n), lambda t, i: x[t, i] * 2, name="Y")
        state = te.placeholder((m, n), name="S")
        self.init: Any = te.compute((1, n), lambda _, i: self.y[0, i], name="init")
        self.mid: Any = te.compute((m, n), lambda t, i: state[t - 1, i] + self.y[t, i], name="mid")
        self.update: Any = te.compute((m, n), lambda t, i: self.mid[t, i] + state[t - 1, n - 1 - i], name="update")
        self.scan: Any = te.scan(self.init, self.update, state, inputs=[self.y], name="scan")
        self.last: Any = te.compute((n,), lambda i: self.scan[m - 1, i], name="last")


def test_a_body_attached_inside_the_update_of_a_scan() -> None:
    p = Scan()
    s = te.create_schedule(p.last.op)
    outer, _ = s[p.update].split(p.update.op.axis[1], 4)
    s[p.mid].compute_at(s[p.update], outer)
    b = infer_bound(s)
    assert stored(b, p.mid) == [("scan.idx + 1", "1"), ("i.outer * 4", "4")]
    assert stored(b, p.update) == [("scan.idx + 1", "1"), ("0", "10")]
    counts = [b.required(t).count_total() for t in (p.mid, p.update, p.init, p.y)]
    assert counts == [50, 50, 10, 60] and b.required(p.scan).count() == 10 and b.computed(p.scan).count() == 60
    assert (int(b[p.scan.op.scan_axis].min), int(b[p.scan.op.scan_axis].extent)) == (1, 5)
    check_lowered(s)


def test_a_scan_of_symbolic_size() -> None:
    m, n = te.var("m"), te.var("n")
    p = Scan(m, n)
    s = te.create_schedule(p.last.op)
    s[p.mid].compute_at(s[p.update], p.update.op.axis[0])
    b = infer_bound(s)
    assert stored(b, p.mid) == [("scan.idx + 1", "1"), ("0", "n")]
    check_lowered(s, {"m": 4, "n": 3})
    check_lowered(s, {"m": 1, "n": 2})


def test_a_scan_that_starts_from_two_rows_and_of_which_little_is_read() -> None:
    x = te.placeholder((7, 5), name="X")
    state = te.placeholder((7, 5), name="S")
    init = te.compute((2, 5), lambda t, i: x[t, i], name="init")
    update = te.compute((7, 5), lambda t, i: state[t - 1, i] + state[t - 2, i] * x[t, i], name="update")
    scan: Any = te.scan(init, update, state, inputs=[x])
    picked = te.compute((2,), lambda i: scan[6, 2 * i], name="picked")
    s = te.create_schedule(picked.op)
    b = infer_bound(s)
    assert b.required(scan).count() == 2 and b.computed(scan).count() == 35
    assert (b.required(init).count(), b.required(update).count_total(), b.required(x).count()) == (10, 25, 35)
    check_lowered(s)


def test_threads_around_a_scan_say_how_many_they_are() -> None:
    def program(block: Any, thread: Any) -> Any:
        p = Scan(6, 8)
        s = te.create_schedule(p.scan.op)
        s[p.scan].env_threads([block, thread])
        for stage in (p.init, p.update):
            outer, inner = s[stage].split(stage.op.axis[1], 4)
            s[stage].bind(outer, block)
            s[stage].bind(inner, thread)
        return s

    threads = te.thread_axis((0, 2), "blockIdx.x"), te.thread_axis((0, 4), "threadIdx.x")
    infer_bound(program(*threads))
    with pytest.raises(ScheduleError, match=r"stage scan: the thread axis blockIdx.x of env_threads has no extent"):
        infer_bound(program(te.thread_axis("blockIdx.x"), threads[1]))
    with pytest.raises(ScheduleError, match=r"stage (update|scan): .* blockIdx.x .* extent"):
        infer_bound(program(te.thread_axis((0, 1), "blockIdx.x"), threads[1]))


# -- externs and tiles ------------------------------------------------------------------------------------------------


def test_an_extern_of_two_outputs_inside_a_loop() -> None:
    a = te.placeholder((10,), name="A")
    b_ = te.compute((10,), lambda i: a[i] + 1, name="B")
    first, second = te.extern(
        [(10,), (5,)], [b_], lambda ins, outs: tir.call_packed("f", ins[0], *outs), name="E", dtype="float32"
    )
    c: Any = te.compute((3,), lambda i: second[i], name="C")
    s = te.create_schedule(c.op)
    s[second].compute_at(s[c], c.op.axis[0])
    s[b_].compute_at(s[c], c.op.axis[0])
    b = infer_bound(s)
    assert b.required(first).is_empty and b.required(second).count_total() == 3
    assert stored(b, first) == [("0", "10")] and stored(b, second) == [("0", "5")]
    assert b.required(b_).count_total() == 30
    s[second].compute_root()
    with pytest.raises(ScheduleError, match="stage B: it is computed at i of C, but E, which reads it, is outside"):
        infer_bound(s)


def test_a_loop_that_an_intrinsic_replaces_runs_whole_tiles() -> None:
    part = te.placeholder((4,), name="part")
    twice = te.compute((4,), lambda i: part[i] * 2, name="twice")
    intrin = te.decl_tensor_intrin(twice.op, lambda ins, outs: None, name="twice4")
    a = te.placeholder((12, 8), name="A")
    b_ = te.compute((12, 8), lambda i, j: a[i, j] + 1, name="B")
    c: Any = te.compute((12, 8), lambda i, j: b_[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[1], 4)
    s[c].tensorize(inner, intrin)
    s[b_].compute_at(s[c], outer)
    b = infer_bound(s)
    assert stored(b, b_) == [("i", "1"), ("j.outer * 4", "4")] and b.guard(c) == ()


def test_a_tile_reads_the_region_that_it_declares() -> None:
    tile = te.placeholder((3, 4), name="tile")
    k = te.reduce_axis((0, 3), "k")
    column = te.compute((4,), lambda j: te.sum(tile[k, j], axis=k), name="column")
    intrin = te.decl_tensor_intrin(column.op, lambda ins, outs: None, name="sum3")
    a = te.placeholder((20, 16), name="A")
    b_ = te.compute((20, 16), lambda i, j: a[i, j] + 1, name="B")
    c: Any = te.compute((9, 4, 4), lambda i, j: intrin(b_[2 * i : 2 * i + 3, 4 * j : 4 * j + 4]), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 2)
    s[b_].compute_at(s[c], outer)
    b = infer_bound(s)
    assert stored(b, b_) == [("i.outer * 4", "5"), ("0", "16")]
    assert b.required(b_).count_max() == 80 and b.required(b_).count_total() == (4 * 5 + 3) * 16


# -- data in indices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value_range", "first", "number"),
    [(None, 0, 20), ((2, 9), 3, 8), ((-5, 100), 0, 20), ((3, 3), 4, 1), ((-9, 2), 0, 4)],
)
@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "isl"])
def test_elements_chosen_by_elements(value_range: Any, first: int, number: int, domain: str) -> None:
    """Any value of the declared range may occur, as far as it keeps the access inside of the tensor."""
    index = te.placeholder((6,), "int32", name="I", value_range=value_range)
    a = te.placeholder((20,), name="A")
    b_ = te.compute((20,), lambda i: a[i] + 1, name="B")
    c: Any = te.compute((6,), lambda i: b_[index[i] + 1], name="C")
    s = te.create_schedule(c.op)
    s[b_].compute_at(s[c], c.op.axis[0])
    b = infer_bound(s, domain=domain)
    assert stored(b, b_) == [(str(first), str(number))] and b.required(b_).count_max() == number
    assert b.required(index).count() == 6


def test_what_is_done_with_an_element_narrows_what_it_chooses() -> None:
    index = te.placeholder((6,), "int32", name="I")
    a = te.placeholder((20, 4), name="A")
    b_ = te.compute((20, 4), lambda i, j: a[i, j] + 1, name="B")
    reads: list[tuple[Any, int, list[int]]] = [
        (lambda i: b_[te.max(te.min(index[i], 7), 2) * 2, i % 4], 24, [11, 4]),
        (lambda i: b_[index[i] % 5, 3], 5, [5, 1]),
        (lambda i: tir.if_then_else(tir.all(index[i] >= 4, index[i] < 9), b_[index[i], 0], 0.0), 5, [5, 1]),
        (lambda i: b_[tir.indexdiv(index[i] % 16, 4), 1] + b_[index[i] % 2 + 10, 1], 6, [12, 1]),
    ]
    for read, count, box in reads:
        c: Any = te.compute((6,), lambda i, read=read: read(i), name="C")
        b = infer_bound(te.create_schedule(c.op))
        assert b.required(b_).count() == count
        assert [int(r.extent) for r in b.allocated(b_)] == box


def test_operations_on_float_constants_are_folded_in_their_type() -> None:
    third = tir.const(1.0, "float32") / 3.0
    assert third.value == np.float32(1) / np.float32(3)
    assert (tir.const(1e38, "float32") * 10.0).op.name == "mul"  # not finite
    assert (tir.const(1.0, "float32") / 0.0).op.name == "div"
    assert bool(tir.const(1.0, "float32") < 2.0) and not bool(tir.const(1.0, "float64") >= 2.0)
    values = [-2.5, -0.0, 0.1, 3.0, 65504.0]
    for dtype in ("float16", "float32", "float64"):
        kind = np.dtype(dtype).type
        for a, b in itertools.product(values, repeat=2):
            for name in ("add", "sub", "mul", "truediv"):
                function = getattr(operator, name)
                folded = function(tir.const(a, dtype), tir.const(b, dtype))
                with np.errstate(all="ignore"):
                    expected = function(kind(a), kind(b))
                assert not hasattr(folded, "value") or folded.value == expected
    A = te.placeholder((3,), name="A")
    with pytest.raises(AttributeError, match="no constant"):
        _ = (A[0] + 1.0).value


def test_shapes_add_to_lists() -> None:
    shape = te.placeholder((3, 4, 5), name="A").shape
    assert shape == (3, 4, 5) and shape[:2] == (3, 4)
    one, longer = [1], (6,)
    before, after = shape[:1] + one, one + shape[2:]
    assert isinstance(before, list) and isinstance(after, list) and isinstance(shape + longer, tuple)
    assert [int(e) for e in before] == [3, 1] and [int(e) for e in after] == [1, 5]
    assert shape[0] % 3 == 0 and shape[1] % 3 != 0 and shape[0] * 2 == 6
    assert shape[0] // (shape[0] - 3) != 1  # the left side has no value


def test_a_tensor_of_another_type() -> None:
    A = te.placeholder((3,), name="A")
    B = A.astype("int32")
    assert (B.dtype, B.op.tag, A.astype("float32")) == ("int32", "elemwise", A)


def test_outputs_of_a_schedule_know_replaced_operations() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    cached = s.cache_write(C, "local")
    s.cache_read(A, "shared", [B])
    s[B].compute_inline()
    assert C.op in s.outputs and s[C].op in s.outputs
    assert B.op not in s.outputs and cached.op not in s.outputs and A.op not in s.outputs
    assert C.op in s.copy().outputs and C.op in s.normalize().outputs and "C" not in s.outputs


def test_a_tensor_without_dimensions_is_its_element() -> None:
    x, kind, scale = te.placeholder((4,), "int32", "X"), te.placeholder((), "int32", "K"), te.placeholder((), name="S")
    y = te.compute((4,), lambda i: tir.if_then_else(kind.equal(1), tir.max(x[i], kind), 0), name="Y")
    z = te.compute((4,), lambda _: scale, name="Z")
    s = te.create_schedule([y.op, z.op])
    given = {"X": np.array([-3, 5, 0, 1], "int32"), "K": np.array(1, "int32"), "S": np.array(2.5, "float32")}
    found = run(lower(s, [x, kind, scale, y, z]), given)
    assert found["Y"].tolist() == [1, 5, 1, 1]
    assert found["Z"].tolist() == [2.5] * 4
    with pytest.raises(InputError, match="X has 1 dimensions: compare its elements"):
        x.equal(1)

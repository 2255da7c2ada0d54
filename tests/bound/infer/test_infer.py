"""`infer_bound`: examples of the InferBound document, tails of splits, sizes, errors, explanations."""

from __future__ import annotations

from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.schedule.stage import ScheduleError
from bound.tensor import Tensor
from intset import Context, InputError, Range, ShapeVar, evaluate
from intset.errors import BudgetError
from intset.expr.node import Expr
from tests.bound.oracle import check
from tests.strategies.schedules import Program


def two(shape: tuple[int, ...] = (5, 16)) -> tuple[Tensor, Tensor, Schedule]:
    """Stages C and D of the document."""
    c = te.compute(shape, lambda i, j: tir.const(5, "int32"), name="C")
    d = te.compute(shape, lambda i, j: c[i, j] * 2, name="D")
    return c, d, te.create_schedule(d.op)


def texts(b: BoundsMap, tensor: Tensor) -> list[tuple[str, str]]:
    """Root ranges of a stage as text, in the document's (min, extent) notation."""
    return [(str(b[iv].min), str(b[iv].extent)) for iv in tensor.op.axis]


# -- the document -----------------------------------------------------------------------------------------------------


def test_examples_1_to_3() -> None:
    c, d, s = two()
    b = infer_bound(s)
    assert texts(b, c) == texts(b, d) == [("0", "5"), ("0", "16")] and b.roots() == tuple(b.schedule.stages)
    s[c].compute_at(s[d], d.op.axis[1])
    b = infer_bound(s)
    assert texts(b, c) == [("i", "1"), ("j", "1")] and b.required(c).count_total() == 80
    assert b.required(c).at({d.op.axis[0]: 2, d.op.axis[1]: 7}).box == (Range(2, 1), Range(7, 1))
    s[c].compute_at(s[d], d.op.axis[0])
    b = infer_bound(s)
    assert texts(b, c) == [("i", "1"), ("0", "16")] and b.required(c).count_max() == 16
    inner = b.nest(d).loops[0].iv
    assert [stage.name for stage in b.attached(d, inner)] == ["C"] and [x.name for x in b.roots()] == ["D"]
    assert [(stage.name, iv.name) for stage, iv in b.attach_path(c)] == [("D", "i")]


def test_example_4_has_an_unused_axis_in_its_path() -> None:
    c = te.compute((5, 16), lambda i, j: tir.const(5, "int32"), name="C")
    d = te.compute((4, 5, 16), lambda di, dj, dk: c[dj, dk] * 2, name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[2])
    b = infer_bound(s)
    assert texts(b, c) == [("dj", "1"), ("dk", "1")]
    assert [iv.name for _, iv in b.attach_path(c)] == ["dk", "dj", "di"]
    assert b.required(c).count_total() == 4 * 5 * 16 and [v.name for v in b.required(c).params] == ["dj", "dk"]


def test_example_5_split() -> None:
    c, d, s = two()
    _, inner = s[d].split(d.op.axis[1], factor=8)
    s[c].compute_at(s[d], inner)
    b = infer_bound(s)
    assert texts(b, c) == [("i", "1"), ("j.outer * 8 + j.inner", "1")]
    assert [iv.name for _, iv in b.attach_path(c)] == ["j.inner", "j.outer", "i"]


def test_example_6_fuse_then_split_is_one_row() -> None:
    a = te.placeholder((4, 4), name="A")
    b_ = te.compute((4, 4), lambda i, j: a[i, j] + 2, name="B")
    c = te.compute((4, 4), lambda i, j: b_[i, j] * 3, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), 4)
    s[b_].compute_at(s[c], outer)
    b = infer_bound(s)
    assert texts(b, b_) == [("i.j.fused.outer", "1"), ("0", "4")]
    check(b)


def test_nested_attachments_and_the_relax_set() -> None:
    c, d, _ = two()
    e = te.compute((5, 16), lambda i, j: d[i, j] * 4, name="E")
    s = te.create_schedule(e.op)
    s[d].compute_at(s[e], e.op.axis[1])
    assert texts(infer_bound(s), c) == [("0", "5"), ("0", "16")]
    s[c].compute_at(s[d], d.op.axis[1])
    b = infer_bound(s)
    assert texts(b, c) == texts(b, d) == [("i", "1"), ("j", "1")]
    assert [iv.name for _, iv in b.attach_path(c)] == ["j", "i", "j", "i"]


def test_disjoint_requests_are_a_union() -> None:
    a = te.placeholder((4, 4), name="A")
    t = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="T")
    x = te.compute((2, 2), lambda i, j: t[i, j] * 2, name="X")
    y = te.compute((2, 2), lambda i, j: t[i + 2, j + 2] * 3, name="Y")
    s = te.create_schedule([x.op, y.op])
    b = infer_bound(s)
    assert b.required(t).count() == b.computed(t).count() == 8 and texts(b, t) == [("0", "4"), ("0", "4")]
    assert b.guard(t) and (0, 0) in b.required(t) and (0, 2) not in b.required(t)
    assert infer_bound(s, compute="box").computed(t).count() == 16 and infer_bound(s, compute="box").guard(t) == ()
    assert infer_bound(s, domain="interval").required(t).count() == 16
    assert not infer_bound(s, domain="interval").required(t).is_exact
    check(b)


def test_the_split_that_the_document_wishes_for() -> None:
    """20 elements, split by 16: the second iteration of the outer loop has an inner loop of 4."""
    for tail, extent in (("guard", "16"), ("shrink", "minimum(16, 20 - i.outer * 16)")):
        a = te.placeholder((20,), name="A")
        c = te.compute((20,), lambda i, a=a: a[i] + 1, name="C")
        s = te.create_schedule(c.op)
        outer, inner = s[c].split(c.op.axis[0], 16, tail=tail)
        b = infer_bound(s)
        assert (str(b[outer].extent), str(b[inner].extent)) == ("2", extent)
        assert len(b.guard(c)) == (tail == "guard")
        check(b)


# -- tails ------------------------------------------------------------------------------------------------------------


def tail_case(tail: str, producer: int = 16, at_inner: bool = False) -> tuple[Tensor, Tensor, Tensor, Schedule]:
    a = te.placeholder((producer,), name="A")
    b = te.compute((producer,), lambda i: a[i] + 1, name="B")
    c = te.compute((producer,), lambda i: b[i] * 2, name="C")
    d = te.compute((10,), lambda i: c[i] + 3, name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[c].split(c.op.axis[0], 4, tail=tail)
    s[b].compute_at(s[c], inner if at_inner else outer)
    return b, c, d, s


@pytest.mark.parametrize(
    ("tail", "computed", "total", "stored"),
    [("guard", 10, 10, 4), ("shrink", 10, 10, 4), ("round_up", 12, 12, 4), ("shift_inwards", 10, 12, 4)],
)
def test_the_tail_of_a_consumer_and_what_its_producer_must_give(
    tail: str, computed: int, total: int, stored: int
) -> None:
    b_, c, _, s = tail_case(tail)
    b = infer_bound(s)
    assert b.required(c).count() == 10 and b.computed(c).count() == computed
    assert b.required(b_).count_total() == total and int(b.allocated(b_)[0].extent) == stored
    check(b, exact=tail != "round_up")


def test_whole_tiles_end_with_the_tensor() -> None:
    b_, c, _, s = tail_case("round_up", producer=11)
    b = infer_bound(s)
    assert b.computed(c).count() == 11 and b.required(b_).count_total() == 11 and len(b.guard(c)) == 1
    check(b, exact=False)


@pytest.mark.parametrize("tail", ["guard", "shrink", "round_up", "shift_inwards"])
@pytest.mark.parametrize("at_inner", [False, True])
def test_tails_inside(tail: str, at_inner: bool) -> None:
    _, _, _, s = tail_case(tail, at_inner=at_inner)
    check(infer_bound(s), exact=tail != "round_up")
    check(infer_bound(s, compute="box"), exact=False)
    check(infer_bound(s, domain="interval"), exact=False)


def test_a_reduction_is_not_counted_twice() -> None:
    a = te.placeholder((10,), name="A")
    k = te.reduce_axis((0, 10), "k")
    c = te.compute((4,), lambda i: te.sum(a[k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[c].split(k, 4, tail="shift_inwards")
    with pytest.raises(ScheduleError, match=r"stage C: the split of k cannot shift .* twice"):
        infer_bound(s)
    s = te.create_schedule(c.op)
    s[c].split(k, 4, tail="round_up")
    nest = infer_bound(s).nest(c)
    reducing = {loop.iv for loop in nest.loops if loop.iv.is_reduce}
    assert [bool(reducing & set(guard.free_vars())) for guard in nest.guards] == [True]
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 3, tail="shift_inwards")
    s[c].reorder(k, outer, inner)
    with pytest.raises(ScheduleError, match=r"stage C: the split of i cannot shift .* reduction loop k"):
        infer_bound(s)


# -- sizes and facts --------------------------------------------------------------------------------------------------


def symbolic() -> tuple[Any, Tensor, Tensor, Schedule]:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], outer)
    return n, b, c, s


def test_sizes_stay_symbolic_or_are_fixed_or_known() -> None:
    n, b_, c, s = symbolic()
    b = infer_bound(s)
    assert str(b.allocated(b_)[0].extent) == "minimum(4, n)" and str(b[c.op.axis[0]].extent) == "n"
    for size in (1, 5, 8):
        assert evaluate(b.required(b_).count_total(), {n: size}) == size
        assert evaluate(b.required(b_).count_max(), {n: size}) == min(size, 4)
        check(b, {n: size}, exact=False)
        check(infer_bound(s, at={n: size}))
    assert b.required(b_).at({n: 13}).count_total() == 13 and b.required(b_).at({n: 13}).count_max() == 4
    fixed = infer_bound(s, at={"n": 1024})
    assert fixed.sizes == {n: 1024} and fixed.required(b_).count_total() == 1024 and fixed.guard(c) == ()
    facts = infer_bound(s, ctx=Context({n: Range(64, 1000)}))
    assert int(facts.allocated(b_)[0].extent) == 4
    assumed = infer_bound(s, ctx=Context(assume=[n >= 100]))
    assert int(assumed.allocated(b_)[0].extent) == 4


def test_declared_sizes_are_used() -> None:
    n = ShapeVar("n", lower=8, upper=100)
    a = te.placeholder((n,), name="A")
    b_ = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((n,), lambda i: b_[i] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[b_].compute_at(s[c], outer)
    assert int(infer_bound(s).allocated(b_)[0].extent) == 4


def test_bad_arguments_get_one_clear_sentence() -> None:
    _, _, _, s = symbolic()
    cases: list[tuple[dict[str, Any], str]] = [
        ({"at": {"m": 3}}, "no size of this schedule is named 'm'; the sizes are: n"),
        ({"at": {"n": 2.5}}, "n"),
        ({"at": {"n": -1}}, "the size n cannot be -1"),
        ({"at": {3: 3}}, "variables or their names"),
        ({"compute": "all"}, "compute must be one of exact, box"),
        ({"ctx": {}}, "ctx must be a Context"),
        ({"domain": "octagon"}, "octagon"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            infer_bound(s, **options)
    with pytest.raises(InputError, match="create_schedule"):
        infer_bound(3)
    b = infer_bound(s)
    with pytest.raises(InputError, match="k is no axis"):
        b[te.reduce_axis((0, 3), "k")]
    with pytest.raises(InputError, match="a tensor is needed"):
        b.required(s)


def test_an_inlined_stage_stores_nothing_and_a_placeholder_has_no_loops() -> None:
    c, d, s = two()
    s[c].compute_inline()
    b = infer_bound(s)
    with pytest.raises(ScheduleError, match="stage C is inlined"):
        b.required(c)
    with pytest.raises(InputError, match="stage C has no loops"):
        b.nest(c)
    assert b.required(d).count() == 80


def test_an_extent_with_one_value_is_a_number() -> None:
    """TVM leaves an expression here: the tile of a reversed, clamped and divided index."""
    reads = {
        "reversed": lambda b, i: b[19 - i],
        "halved": lambda b, i: b[i // 2],
        "turned": lambda b, i: b[(i + 4) % 20],
    }
    for name, read in reads.items():
        a = te.placeholder((20,), name="A")
        b_ = te.compute((20,), lambda i, a=a: a[i] + 1, name="B")
        c = te.compute((20,), lambda i, b_=b_, read=read: read(b_, i), name="C")
        s = te.create_schedule(c.op)
        outer, _ = s[c].split(c.op.axis[0], 4)
        s[b_].compute_at(s[c], outer)
        assert isinstance(infer_bound(s)[b_.op.axis[0]].extent, Expr), name
        assert infer_bound(s)[b_.op.axis[0]].extent.is_const, name
        check(infer_bound(s))


# -- other operations -------------------------------------------------------------------------------------------------


def test_an_extern_needs_its_inputs_whole() -> None:
    a = te.placeholder((10,), name="A")
    b_ = te.compute((10,), lambda i: a[i] + 1, name="B")
    e = te.extern((10,), [b_], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E", dtype="float32")
    d = te.compute((4,), lambda i: e[i + 2], name="D")
    b = infer_bound(te.create_schedule(d.op))
    assert b.required(b_).count() == 10 and b.required(e).count() == 4 and b.computed(e).count() == 10
    assert int(b.allocated(e)[0].extent) == 10


def test_a_scan_needs_the_range_of_its_state() -> None:
    m, n = 6, 8
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="S")
    init = te.compute((1, n), lambda _, i: x[0, i], name="init")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    scan = te.scan(init, update, state, inputs=[x], name="scan")
    last = te.compute((n,), lambda i: scan[m - 1, i], name="last")
    b = infer_bound(te.create_schedule(last.op))
    assert b.required(scan).count() == n and b.computed(scan).count() == m * n
    assert b.required(init).count() == n and b.required(update).count_max() == n
    assert b.required(update).count_total() == (m - 1) * n and b.required(x).count() == m * n


def test_storage_shared_by_threads_serves_them_all() -> None:
    a = te.placeholder((64,), name="A")
    b_ = te.compute((64,), lambda i: a[i] + 1, name="B")
    c = te.compute((64,), lambda i: b_[i] * 2, name="C")
    for scope, extent, instances in (("shared", 16, 4), ("local", 1, 64)):
        s = te.create_schedule(c.op)
        outer, inner = s[c].split(c.op.axis[0], 16)
        s[c].bind(outer, te.thread_axis("blockIdx.x"))
        s[c].bind(inner, te.thread_axis("threadIdx.x"))
        s[b_].set_scope(scope)
        s[b_].compute_at(s[c], inner)
        b = infer_bound(s)
        assert int(b.allocated(b_)[0].extent) == extent
        assert b.required(b_).count_total() == extent * instances


def test_storage_of_a_thread_filled_outside_of_its_loop_serves_every_thread() -> None:
    """A producer outside the thread loop serves the union over all threads."""
    a = te.placeholder((64,), name="A")
    b_ = te.compute((64,), lambda i: a[i] + 1, name="B")
    c = te.compute((64,), lambda i: b_[i] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[c].bind(outer, te.thread_axis("blockIdx.x"))
    thread = te.thread_axis("threadIdx.x")
    s[c].bind(inner, thread)
    s[b_].set_scope("local")
    s[b_].compute_at(s[c], outer)
    b = infer_bound(s)
    assert int(b.allocated(b_)[0].extent) == 16 and thread not in b.required(b_).params
    check(b)


def test_a_declared_thread_extent_is_checked() -> None:
    c, d, s = two()
    s[d].bind(d.op.axis[1], te.thread_axis((0, 8), "threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"stage D: j runs on threadIdx.x with extent 16, .* 8 .* declared"):
        infer_bound(s)
    assert c is not d


def test_more_threads_than_work_set_the_range() -> None:
    """Of an axis, of a reduction, and of a stage in a loop; threads without work do nothing."""
    a = te.placeholder((6, 28), name="A")
    b_ = te.compute((6, 28), lambda i, j: a[i, j] + 1, name="B")
    k = te.reduce_axis((0, 28), "k")
    c = te.compute((6,), lambda i: te.sum(b_[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    thread = te.thread_axis((0, 32), "threadIdx.x")
    s[b_].set_scope("shared")
    s[b_].compute_at(s[c], c.op.axis[0])
    s[b_].bind(b_.op.axis[1], thread)
    s[c].bind(k, thread)
    b = infer_bound(s)
    assert int(b[b_.op.axis[1]].extent) == int(b[k].extent) == 32
    assert b.computed(b_).count_total() == 6 * 28
    check(b)


def test_private_storage_of_another_stage_is_filled_by_its_thread() -> None:
    """A stage in local memory beside its reader, whose loop is on threads: each thread keeps its own element."""
    a = te.placeholder((64,), name="A")
    b_ = te.compute((64,), lambda i: a[i] + 1, name="B")
    c = te.compute((64,), lambda i: b_[i] * 2, name="C")
    d = te.compute((64,), lambda i: c[i] + c[63 - i], name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(d.op.axis[0], 16)
    thread = te.thread_axis("threadIdx.x")
    s[d].bind(inner, thread)
    s[c].set_scope("shared")
    s[c].compute_at(s[d], outer)
    far, near = s[c].split(c.op.axis[0], 16)
    s[c].bind(near, thread)
    s[b_].set_scope("local")
    s[b_].compute_at(s[d], outer)
    b = infer_bound(s)
    assert int(b.allocated(b_)[0].extent) == 1
    check(b)
    assert far is not near


def test_conditions_narrow_what_is_needed() -> None:
    a = te.placeholder((12, 12), name="A")
    b_ = te.compute((12, 12), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((12, 12), lambda i, j: tir.if_then_else(j <= i, b_[i, j], 0.0), name="C")
    s = te.create_schedule(c.op)
    s[b_].compute_at(s[c], c.op.axis[0])
    b = infer_bound(s)
    assert texts(b, b_) == [("i", "1"), ("0", "i + 1")] and b.guard(b_) == () and b.required(b_).count_total() == 78
    assert [int(r.extent) for r in b.allocated(b_)] == [1, 12]


# -- what it tells ----------------------------------------------------------------------------------------------------


def test_explain_says_who_asked_for_what() -> None:
    _, c, d, s = tail_case("guard")
    text = infer_bound(s).explain(c)
    assert "C: computed at the root" in text and "D reads C[i]" in text and "asks for [0, 9]" in text
    assert "required: [0, 9]: 10 elements" in text and "computed: what is required" in text
    b_ = tail_case("guard")
    text = infer_bound(b_[3]).explain(b_[0])
    assert "B: computed inside C.i.outer" in text
    assert "loops fixed: C.i.outer; relaxed: C.i.inner" in text
    assert "at most 4 elements at a time, 10 in all" in text
    assert "stored in 4 from C.i.outer * 4, anew in every iteration of C.i.outer" in text and "given up" not in text
    assert "it is an output" in infer_bound(s).explain(d)


def test_explain_tells_loops_of_one_name_apart() -> None:
    a = te.placeholder((64,), name="A")
    b_ = te.compute((64,), lambda i: a[i] + 1, name="B")
    c = te.compute((64,), lambda i: tir.if_then_else(i >= 8, b_[i - 8], 0.0), name="C")
    d = te.compute((64,), lambda i: c[i] + b_[0], name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    text = infer_bound(s).explain(b_)
    assert "C, inside D.i, reads B[i - 8] where i >= 8" in text and "loops fixed: none; relaxed: D.i, C.i" in text
    s[b_].compute_at(s[d], d.op.axis[0])
    text = infer_bound(s).explain(b_)
    assert "C, inside D.i, reads B[i - 8]" in text and "loops fixed: D.i; relaxed: C.i" in text
    assert "asks for [D.i - 8, D.i - 8] where D.i - 8 >= 0" in text
    assert "the body" not in text and "B.i" in text  # the guard of B names its own loop


def test_explain_writes_regions_as_slices_and_long_ends_in_short() -> None:
    a = te.placeholder((64,), name="A")
    b_ = te.compute((64,), lambda i: a[i] + 1, name="B")
    e = te.extern((4,), [b_], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E", dtype="float32")
    text = infer_bound(te.create_schedule(e.op)).explain(b_)
    assert "E reads B[0 : + 64]" in text and "loops fixed" not in text
    c = te.compute((8, 8), lambda i, j: b_[i * j], name="C")
    s = te.create_schedule(c.op)
    s[b_].compute_at(s[c], c.op.axis[0])
    text = infer_bound(s).explain(b_)
    assert "some of [0, C.i * 7]: at most 8 elements at a time, 57 in all" in text
    assert max(map(len, text.splitlines())) < 400


def test_explain_says_where_precision_was_given_up_and_what_to_do() -> None:
    a = te.placeholder((16,), name="A")
    b_ = te.compute((16,), lambda i: a[i] + 1, name="B")
    c = te.compute((4,), lambda i: b_[i] + b_[i + 12], name="C")
    s = te.create_schedule(c.op)
    text = infer_bound(s, domain="interval").explain(b_)
    assert "given up: the box around several needs" in text and "leave out domain=" in text
    assert "given up" not in infer_bound(s).explain(b_)
    m, width, part = te.var("m"), te.var("w"), te.var("p")
    a = te.placeholder((m, width), name="A")
    b_ = te.compute((m, width), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((m, width), lambda i, j: b_[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), part)
    s[b_].compute_at(s[c], outer)
    text = infer_bound(s).explain(b_)
    assert "is not affine" in text and "at=..." in text
    assert "given up" not in infer_bound(s, at={m: 6, width: 5, part: 4}).explain(b_)
    index = te.placeholder((4,), "int32", name="I")
    c = te.compute((4,), lambda i: b_[index[i], 0], name="C")
    assert "declare value_range= of I" in infer_bound(te.create_schedule(c.op)).explain(b_)


def test_where_no_guard_can_be_written_the_box_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise BudgetError("isl gave up after 1 operations")

    a = te.placeholder((20,), name="A")
    b_ = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((4,), lambda i: b_[i] + b_[i + 12], name="C")
    s = te.create_schedule(c.op)
    assert infer_bound(s).computed(b_).count() == 8
    monkeypatch.setattr("bound.infer.phases.pass_down.membership_guards", fails)
    b = infer_bound(s)
    assert b.computed(b_).count() == 16 and b.required(b_).count() == 8 and not b.computed(b_).is_exact
    assert "the guard could not be written, the box is computed" in b.explain(b_) and b.guard(b_) == ()
    check(b, exact=False)


def test_conditions_that_exclude_one_another_store_nothing() -> None:
    """Odd rows of a tensor of which only even rows are read."""
    a = te.placeholder((12,), name="A")
    b_ = te.compute((12,), lambda i: a[i] + 1, name="B")
    c = te.compute((10,), lambda i: tir.if_then_else((i % 2).eq(0), b_[i] + b_[i + 2], 0.0), name="C")
    d = te.compute((3,), lambda i: c[4 * i + 1], name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    s[b_].compute_at(s[d], d.op.axis[0])
    b = infer_bound(s)
    assert b.required(b_).is_empty and [str(r.extent) for r in b.allocated(b_)] == ["0"]
    check(b)


def test_tvms_name_for_it() -> None:
    c, _, s = two()
    b = te.schedule.InferBound(s)
    assert isinstance(b, BoundsMap) and b[c.op.axis[0]] == Range(0, 5)


def test_the_same_answer_twice_and_the_schedule_untouched() -> None:
    program = Program(3, also="caches")
    s = program.schedule
    before = [(st.name, list(map(str, st.leaf_iter_vars)), st.attach_type) for st in s.stages]
    first, second = infer_bound(s), infer_bound(s)
    for tensor in program.stages:
        if first.stage(tensor).attach_type.name != "INLINED_ALREADY":
            assert [r.extent for r in first.allocated(tensor)] == [r.extent for r in second.allocated(tensor)]
            assert first.required(tensor).count_total() == second.required(tensor).count_total()
            assert len(first.guard(tensor)) == len(second.guard(tensor))
    assert before == [(st.name, list(map(str, st.leaf_iter_vars)), st.attach_type) for st in s.stages]

"""Adversarial schedules: each one is run one iteration at a time, lowered, and compared with its regions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.schedule import Schedule
from intset import maximum, minimum
from lowering import lower
from tests.bound.oracle import check
from tests.lowering.lowered import check as check_lowered
from tests.lowering.lowered import check_run
from tests.sweeps import daily

Made = Schedule | tuple[Schedule, list[dict[str, int]]]  # with sizes at which it is run
SCHEDULES: dict[str, Callable[[], Made]] = {}


def schedule(make: Callable[[], Made]) -> Callable[[], Made]:
    SCHEDULES[make.__name__] = make
    return make


def given(*shape: Any, name: str = "A", **options: Any) -> Any:
    return te.placeholder(shape, name=name, **options)


def plus_one(a: Any, name: str) -> Any:
    return te.compute(a.shape, lambda *i: a(*i) + 1, name=name)


# -- attach chains ----------------------------------------------------------------------------------------------------


@schedule
def a_chain_of_four_each_inside_the_next() -> Schedule:
    x = given(18)
    made = []
    for k in range(4):
        n = 16 - 2 * k
        x = te.compute((n,), lambda i, x=x: x[i] + x[i + 2], name=f"T{k}")
        made.append(x)
    s = te.create_schedule(x.op)
    for a, b in reversed(list(pairwise(made))):
        outer, _ = s[b].split(s[b].leaf_iter_vars[-1], 3)
        s[a].compute_at(s[b], outer)
    return s


@schedule
def attached_at_the_inner_loop_of_a_loop_that_was_fused_from_splits() -> Schedule:
    b = plus_one(given(7, 5), "B")
    c = te.compute((6, 4), lambda i, j: b[i, j] + b[i + 1, j + 1], name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    io, ii = s[c].split(i, 4)
    jo, ji = s[c].split(j, 3)
    s[c].reorder(io, jo, ii, ji)
    fused = s[c].fuse(jo, ii)
    s[b].compute_at(s[c], s[c].split(fused, 3)[0])
    return s


@schedule
def attached_between_split_reordered_loops() -> Schedule:
    b = plus_one(given(24), "B")
    c = te.compute((20,), lambda i: b[i] + b[i + 4], name="C")
    s = te.create_schedule(c.op)
    o, i = s[c].split(c.op.axis[0], 6)
    io, ii = s[c].split(i, 4)
    s[c].reorder(ii, io, o)
    s[b].compute_at(s[c], io)
    return s


@schedule
def a_fused_reduction_and_its_producer() -> Schedule:
    b = plus_one(given(4, 6), "B")
    k, r = te.reduce_axis((0, 4), "k"), te.reduce_axis((1, 5), "r")
    c = te.compute((3,), lambda i: te.sum(b[k, r] * i, axis=[k, r]), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(k, r), 3)
    s[b].compute_at(s[c], outer)
    return s


@schedule
def a_producer_inside_a_reduction_inside_a_reduction() -> Schedule:
    b = plus_one(given(12), "B")
    k = te.reduce_axis((0, 4), "k")
    c = te.compute((8,), lambda i: te.sum(b[i + k], axis=k), name="C")
    r = te.reduce_axis((0, 3), "r")
    d = te.compute((4,), lambda i: te.sum(c[i + r], axis=r), name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], r)
    ko, _ = s[c].split(k, 3)
    s[b].compute_at(s[c], ko)
    return s


@schedule
def siblings_at_different_depths() -> Schedule:
    a = given(10, 10)
    b, c = plus_one(a, "B"), plus_one(a, "C")
    d = te.compute((8, 8), lambda i, j: b[i, j] + c[i + 2, 9 - j], name="D")
    s = te.create_schedule(d.op)
    xo, yo, xi, _ = s[d].tile(*d.op.axis, 3, 5)
    s[b].compute_at(s[d], yo)
    s[c].compute_at(s[d], xi)
    assert xo is not yo
    return s


@schedule
def read_by_one_stage_inside_and_one_at_the_place() -> Schedule:
    a = plus_one(given(30), "A1")
    b = te.compute((28,), lambda i: a[i] + a[i + 2], name="B")
    c = te.compute((26,), lambda i: b[i] + a[i + 3] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    o, i = s[c].split(c.op.axis[0], 5)
    s[a].compute_at(s[c], o)
    s[b].compute_at(s[c], i)
    return s


@schedule
def inlined_between_two_that_are_attached() -> Schedule:
    a = plus_one(given(33), "A1")
    b = te.compute((31,), lambda i: a[i] * a[i + 2], name="B")
    c = te.compute((16,), lambda i: b[2 * i] + b[30 - i], name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_inline()
    s[a].compute_at(s[c], o)
    return s


# -- rewrites ---------------------------------------------------------------------------------------------------------


@schedule
def partial_results_with_their_producer_attached() -> Schedule:
    b = plus_one(given(10, 14), "B")
    k = te.reduce_axis((0, 14), "k")
    c = te.compute((10,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    _, ki = s[c].split(k, 4)
    partial = s.rfactor(c, ki)
    s[partial].compute_at(s[c], s[c].op.axis[0])
    s[b].compute_at(s[partial], s[partial].op.axis[0])
    return s


@schedule
def a_copy_for_two_of_three_readers() -> Schedule:
    a = plus_one(given(20), "A1")
    b = te.compute((18,), lambda i: a[i] + a[i + 2], name="B")
    c = te.compute((18,), lambda i: a[i + 1] * 2, name="C")
    d = te.compute((18,), lambda i: a[17 - i] + b[i] + c[i], name="D")
    s = te.create_schedule(d.op)
    copy = s.cache_read(a, "local", [b, c])
    o, _ = s[d].split(d.op.axis[0], 4)
    for t in (b, c, copy):
        s[t].compute_at(s[d], o)
    return s


@schedule
def a_copy_of_both_outputs_in_turned_order() -> Schedule:
    a = given(6, 10)
    x, y = te.compute((6, 10), lambda i, j: (a[i, j] + 1, a[i, 9 - j] * 2), name="XY")
    c = te.compute((6, 5), lambda i, j: x[i, j] + y[5 - i, j + 5], name="C")
    s = te.create_schedule(c.op)
    jo, ji = s[x].split(x.op.axis[1], 4)
    s[x].reorder(jo, x.op.axis[0], ji)
    s.cache_write([x, y], "local")
    return s


@schedule
def a_copy_of_a_copy() -> Schedule:
    b = plus_one(given(16, 16), "B")
    c = te.compute((16, 16), lambda i, j: b[j, i] * 2, name="C")
    s = te.create_schedule(c.op)
    shared = s.cache_read(b, "shared", [c])
    local = s.cache_read(shared, "local", [c])
    xo, yo, xi, _ = s[c].tile(*c.op.axis, 5, 3)
    s[shared].compute_at(s[c], yo)
    s[local].compute_at(s[c], xi)
    assert xo is not yo
    return s


@schedule
def a_matrix_product_in_tiles_with_copies() -> Schedule:
    n = 12
    a, b = given(n, n), given(n, n, name="B")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    cc = s.cache_write(c, "local")
    aa, bb = s.cache_read(a, "shared", [cc]), s.cache_read(b, "shared", [cc])
    xo, yo, xi, yi = s[c].tile(*c.op.axis, 5, 4)
    s[cc].compute_at(s[c], yo)
    ko, ki = s[cc].split(s[cc].op.reduce_axis[0], 5)
    s[cc].reorder(ko, *s[cc].op.axis, ki)
    s[aa].compute_at(s[cc], ko)
    s[bb].compute_at(s[cc], s[cc].op.axis[0])
    s[c].vectorize(yi)
    assert xo is not xi
    return s


@schedule
def a_group_attached_as_one() -> Schedule:
    a = given(14)
    b = plus_one(a, "B")
    c = te.compute((12,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((6,), lambda i: c[2 * i] * 3, name="D")
    s = te.create_schedule(d.op)
    group = s.create_group(outputs=c, inputs=a)
    o, _ = s[d].split(d.op.axis[0], 4)
    group.compute_at(s[d], o)
    s[b].double_buffer()
    return s


# -- indices ----------------------------------------------------------------------------------------------------------


@schedule
def negative_strides_in_tiles() -> Schedule:
    b = plus_one(given(50), "B")
    c = te.compute((16,), lambda i: b[49 - 3 * i] + b[45 - 3 * i], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], 5)[0])
    return s


@schedule
def a_row_for_all_and_a_column_for_all() -> Schedule:
    a = given(9, 7)
    row = te.compute((7,), lambda j: a[0, j] + 1, name="row")
    column = te.compute((9,), lambda i: a[i, 0] + 1, name="column")
    c = te.compute((9, 7), lambda i, j: row[j] * column[i], name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    s[c].reorder(j, i)
    s[row].compute_at(s[c], j)
    s[column].compute_at(s[c], i)
    return s


@schedule
def an_index_of_quotient_and_remainder_of_one_fused_loop() -> Schedule:
    b = plus_one(given(8, 9), "B")
    c = te.compute((72,), lambda t: b[t // 9, t % 9] + b[7 - t // 9, 8 - t % 9], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], 7)[0])
    return s


@schedule
def a_rotation() -> Schedule:
    b = plus_one(given(12), "B")
    c = te.compute((12,), lambda i: b[(i * 5 + 3) % 12], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], 5)[0])
    return s


@schedule
def reflect_and_clamp_in_two_dimensions() -> Schedule:
    b = plus_one(given(8, 8), "B")

    def mirrored(x: Any) -> Any:
        return minimum(maximum(2 - x, x - 2), 16 - x)

    c = te.compute((12, 12), lambda i, j: b[mirrored(i), maximum(minimum(j - 2, 7), 0)], name="C")
    s = te.create_schedule(c.op)
    _, yo, _, _ = s[c].tile(*c.op.axis, 5, 5)
    s[b].compute_at(s[c], yo)
    return s


@schedule
def a_product_of_two_loops() -> Schedule:
    b = plus_one(given(40), "B")
    c = te.compute((6, 7), lambda i, j: b[i * j], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    return s


@schedule
def a_band_that_conditions_cut_out() -> Schedule:
    b = plus_one(given(11, 11), "B")
    near = te.compute(
        (11, 11), lambda i, j: tir.if_then_else(tir.all(i - j <= 1, j - i <= 2), b[i, j], 0.0), name="near"
    )
    s = te.create_schedule(near.op)
    s[b].compute_at(s[near], s[near].split(near.op.axis[0], 4)[0])
    return s


@schedule
def either_branch_reads_its_own_half() -> Schedule:
    b = plus_one(given(20), "B")
    c = te.compute((20,), lambda i: tir.Select(i % 2 < 1, b[i // 2], b[19 - i // 2]), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], 6)[0])
    return s


@schedule
def a_condition_of_the_reduction() -> Schedule:
    b = plus_one(given(9, 9), "B")
    k = te.reduce_axis((0, 9), "k")
    c = te.compute((9,), lambda i: te.max(b[i, k], axis=k, where=tir.all(k >= i, k < i + 3)), name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], 2)
    s[b].compute_at(s[c], o)
    return s


@schedule
def a_convolution_with_stride_padding_and_dilation() -> Schedule:
    a = given(9, 9)
    p = te.compute(
        (13, 13),
        lambda i, j: tir.if_then_else(tir.all(i >= 2, i < 11, j >= 2, j < 11), a[i - 2, j - 2], 0.0),
        name="P",
    )
    u, v = te.reduce_axis((0, 3), "u"), te.reduce_axis((0, 3), "v")
    c = te.compute((5, 5), lambda i, j: te.sum(p[2 * i + 2 * u, 2 * j + 2 * v], axis=[u, v]), name="C")
    s = te.create_schedule(c.op)
    _, yo, _, _ = s[c].tile(*c.op.axis, 2, 3)
    s[p].compute_at(s[c], yo)
    return s


# -- sizes ------------------------------------------------------------------------------------------------------------


@schedule
def an_axis_without_elements() -> Schedule:
    b = plus_one(given(0, 5), "B")
    c = te.compute((0, 5), lambda i, j: b[i, 4 - j], name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], o)
    return s


def _symbolic(tail: str, *sizes: int) -> Made:
    n = te.var("n")
    b = plus_one(given(n + 2), "B")
    c = te.compute((n,), lambda i: b[i] + b[i + 2], name="C")
    s = te.create_schedule(c.op)
    o, _ = s[c].split(c.op.axis[0], 5, tail=tail)
    s[b].compute_at(s[c], o)
    return s, [{"n": size} for size in sizes]


SCHEDULES["a_symbolic_stencil"] = lambda: _symbolic("guard", 0, 1, 4, 5, 12)
for _tail in ("shrink", "round_up", "shift_inwards"):
    SCHEDULES[f"a_symbolic_stencil_with_tail_{_tail}"] = lambda tail=_tail: _symbolic(tail, 13)


@schedule
def a_symbolic_matrix_read_by_its_own_width() -> Made:
    m, n = te.var("m"), te.var("n")
    b = plus_one(given(m * n), "B")
    c = te.compute((m, n), lambda i, j: b[i * n + (n - 1 - j)], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    return s, [{"m": 3, "n": 4}]


# -- threads and several outputs ----------------------------------------------------------------------------------


@schedule
def virtual_threads_over_shared_tiles() -> Schedule:
    b = plus_one(given(36), "B")
    c = te.compute((32,), lambda i: b[i] + b[i + 4], name="C")
    s = te.create_schedule(c.op)
    o, rest = s[c].split(c.op.axis[0], 16)
    v, t = s[c].split(rest, nparts=2)
    s[c].bind(o, te.thread_axis("blockIdx.x"))
    s[c].bind(v, te.thread_axis("vthread"))
    thread = te.thread_axis("threadIdx.x")
    s[c].bind(t, thread)
    s[b].set_scope("shared")
    s[b].compute_at(s[c], t)
    bo, _ = s[b].split(b.op.axis[0], nparts=8)
    s[b].bind(bo, thread)
    return s


@schedule
def shared_and_local_copies_under_two_thread_axes() -> Schedule:
    b = plus_one(given(8, 8), "B")
    c = te.compute((8, 8), lambda i, j: b[i, j] + b[j, i], name="C")
    s = te.create_schedule(c.op)
    shared = s.cache_read(b, "shared", [c])
    local = s.cache_read(shared, "local", [c])
    io, jo, ii, ji = s[c].tile(*c.op.axis, 4, 4)
    for axis, tag in ((io, "blockIdx.y"), (jo, "blockIdx.x"), (ii, "threadIdx.y"), (ji, "threadIdx.x")):
        s[c].bind(axis, te.thread_axis(tag))
    s[shared].compute_at(s[c], jo)
    s[local].compute_at(s[c], ji)
    s[b].compute_at(s[c], jo)
    return s


@schedule
def private_storage_filled_outside_of_the_loop_on_the_thread() -> Schedule:
    b = plus_one(given(12), "B")
    c = te.compute((12,), lambda i: b[11 - i], name="C")
    s = te.create_schedule(c.op)
    o, i = s[c].split(c.op.axis[0], 4)
    s[c].bind(o, te.thread_axis("blockIdx.x"))
    s[c].bind(i, te.thread_axis("threadIdx.x"))
    s[b].set_scope("local")
    s[b].compute_at(s[c], o)
    return s


@schedule
def shared_storage_inside_private_storage_whose_tile_depends_on_the_thread() -> Schedule:
    b = plus_one(given(16), "B")
    c = te.compute((14,), lambda i: b[i] + b[i + 2], name="C")
    d = te.compute((12,), lambda i: c[i] + c[minimum(i + 2, 11)], name="D")
    s = te.create_schedule(d.op)
    _, t = s[d].split(d.op.axis[0], 4)
    s[d].bind(t, te.thread_axis("threadIdx.x"))
    s[c].set_scope("local")
    s[c].compute_at(s[d], t)
    s[b].set_scope("shared")
    s[b].compute_at(s[c], c.op.axis[0])
    return s


@schedule
def three_outputs_of_which_two_read_the_third() -> Schedule:
    a = given(15)
    b = plus_one(a, "B")
    c = te.compute((10,), lambda i: b[i] + b[i + 5], name="C")
    d = te.compute((5,), lambda i: b[3 * i] + c[2 * i], name="D")
    s = te.create_schedule([b.op, c.op, d.op])
    o, _ = s[d].split(d.op.axis[0], 2)
    s[c].split(c.op.axis[0], 3)
    assert o is not None
    return s


@schedule
def an_output_attached_to_another() -> Schedule:
    b = plus_one(given(12), "B")
    c = te.compute((12,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule([b.op, c.op])
    s[b].compute_at(s[c], s[c].split(c.op.axis[0], 5)[0])
    return s


OF_MANY_FORMS = {
    "a_chain_of_four_each_inside_the_next",
    "attached_at_the_inner_loop_of_a_loop_that_was_fused_from_splits",
    "an_index_of_quotient_and_remainder_of_one_fused_loop",
    "shared_and_local_copies_under_two_thread_axes",
    "shared_storage_inside_private_storage_whose_tile_depends_on_the_thread",
}
"""Lowered at night alone: the choice takes longer than all the others together."""


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("all_ways", daily([False, True], 2))
def test_a_schedule(name: str, all_ways: bool) -> None:
    """Check default options and one other set of options per day; nightly, all of them."""
    made = SCHEDULES[name]()
    s, all_sizes = made if isinstance(made, tuple) else (made, [{}])
    b = infer_bound(s)
    f = lower(s) if all_ways or name not in OF_MANY_FORMS else None
    has_guess = "round_up" in name
    ways: list[dict[str, Any]] = [{"domain": "interval"}, {"domain": "stride"}, {"compute": "box"}]
    turn = list(SCHEDULES).index(name) % len(ways)
    for sizes in all_sizes:
        values = {v: sizes[v.name] for v in b._state.sizes.all}
        if values:
            check(b, values, exact=False)
            check(infer_bound(s, at=sizes), exact=not has_guess)
        else:
            check(b)
        for way in ways if all_ways else [ways[turn]]:
            check(infer_bound(s, at=sizes or None, **way), exact=False)
        if f is not None:
            check_run(f, s, sizes)


def test_a_reduction_over_nothing_needs_nothing_and_is_started_all_the_same() -> None:
    b = plus_one(given(5, 3), "B")
    k = te.reduce_axis((0, 0), "k")
    c = te.compute((5,), lambda i: te.sum(b[i, k], axis=k), name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    found = infer_bound(s)
    assert found.required(b).is_empty and found.required(b).count_total() == 0
    assert found.required(c).count() == 5
    check_lowered(s)

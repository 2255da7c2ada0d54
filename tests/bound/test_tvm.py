"""Scripts as TVM's documentation types them: `InferBound`, `ScheduleOps`, and names around them."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.infer import BoundsMap
from intset import InputError, Range, evaluate
from intset.expr.node import Expr
from tests.bound.oracle import check
from tests.lowering.lowered import check as check_lowered


def lines(stmt: Any) -> list[str]:
    return [line.strip() for line in str(stmt).splitlines()]


def two_stages(m: Any, n: Any) -> tuple[Any, Any, Any]:
    A: Any = te.placeholder((m, n), name="A")
    B: Any = te.compute((m, n), lambda i, j: A[i, j] + 1, name="B")
    C: Any = te.compute((m, n), lambda i, j: B[i, j] * 2, name="C")
    return B, C, te.create_schedule(C.op)


# -- the two calls ----------------------------------------------------------------------------------------------------


def test_normalize_infer_bound_schedule_ops() -> None:
    B, C, s = two_stages(20, 16)
    xo, xi = s[C].split(s[C].op.axis[0], factor=8)
    s[B].compute_at(s[C], xo)
    s = s.normalize()
    bounds: Any = te.schedule.InferBound(s)
    assert isinstance(bounds, BoundsMap)
    assert bounds[xo].extent.value == 3 and bounds[xi].extent.value == 8
    assert bounds[B.op.axis[1]].extent.value == 16
    loops = [iv for stage in s.stages if stage.op.input_tensors for iv in stage.leaf_iter_vars]
    assert len(loops) == 5 and all(isinstance(bounds[iv], Range) for iv in loops)
    assert lines(te.schedule.ScheduleOps(s, bounds)) == [
        "for i.outer in [0, 3):", "allocate B: float32[i.outer * 8 : + 8, 16]",
        "for i in [0, minimum(8, 20 - i.outer * 8)):", "for j in [0, 16):",
        "B[i + i.outer * 8, j] = A[i + i.outer * 8, j] + 1.0", "for i.inner in [0, 8):",
        "if i.outer * 8 + i.inner <= 19:", "for j in [0, 16):",
        "C[i.outer * 8 + i.inner, j] = B[i.outer * 8 + i.inner, j] * 2.0",
    ]  # fmt: skip
    check(bounds)


def test_both_calls_take_a_schedule_as_it_was_written() -> None:
    _, C, s = two_stages(te.var("m"), te.var("n"))
    s[C].tile(*C.op.axis, 8, 8)
    bounds: Any = te.schedule.InferBound(s)
    assert str(te.schedule.ScheduleOps(s, bounds)) == str(te.schedule.ScheduleOps(bounds.schedule, bounds))
    assert str(te.schedule.ScheduleOps(s, bounds, True)) == str(te.schedule.ScheduleOps(s, bounds))


def test_every_example_of_the_document_prints_its_nest() -> None:
    C: Any = te.compute((5, 16), lambda i, j: tir.const(5, "int32"), name="C")
    D: Any = te.compute((5, 16), lambda i, j: C[i, j] * 2, name="D")
    head = ["for i in [0, 5):", "for j in [0, 16):"]
    body = ["C[i, j] = 5", "D[i, j] = C[i, j] * 2"]
    nests: dict[Any, list[str]] = {
        None: ["allocate C: int32[5, 16]", *head, body[0], *head, body[1]],
        1: [*head, "allocate C: int32[i : + 1, j : + 1]", *("for i_1 in [0, 1):", "for j_1 in [0, 1):", *body)],
        0: [head[0], "allocate C: int32[i : + 1, 16]", *("for i_1 in [0, 1):", head[1], body[0], head[1], body[1])],
    }
    for axis, nest in nests.items():
        s = te.create_schedule(D.op)
        if axis is not None:
            s[C].compute_at(s[D], D.op.axis[axis])
        s = s.normalize()
        assert lines(te.schedule.ScheduleOps(s, te.schedule.InferBound(s))) == nest


def test_what_is_not_the_bounds_of_the_schedule_is_refused() -> None:
    _, _, s = two_stages(20, 16)
    bounds: Any = te.schedule.InferBound(s)
    ranges = dict(bounds.items())
    with pytest.raises(InputError, match=r"what InferBound gave for the schedule, not a dict: ranges alone"):
        te.schedule.ScheduleOps(s, ranges)
    with pytest.raises(InputError, match="takes a schedule, not 3"):
        te.schedule.ScheduleOps(3, bounds)
    with pytest.raises(InputError, match="found for another one"):
        te.schedule.ScheduleOps(two_stages(20, 16)[2], bounds)
    with pytest.raises(InputError, match="create_schedule"):
        te.schedule.InferBound(3)


# -- extents that TVM's users compare ---------------------------------------------------------------------------------


def test_sizes_that_divide_leave_no_rounding() -> None:
    m, n = te.var("m"), te.var("n")
    _, C, s = two_stages(8 * m, 32 * n)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 8, 32)
    bounds: Any = te.schedule.InferBound(s)
    assert bounds[xo].extent == m and bounds[yo].extent == n
    assert (bounds[xi].extent.value, bounds[yi].extent.value) == (8, 32)
    assert bounds.guard(C) == ()


def test_a_shared_tile_of_an_unknown_length_has_the_threads_of_its_consumer() -> None:
    m = te.var("m")
    A: Any = te.placeholder((m,), name="A")
    B: Any = te.compute((m,), lambda i: A[i] * 2, name="B")
    C: Any = te.compute((m,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    bx, tx = s[C].split(C.op.axis[0], factor=32)
    s[C].bind(bx, block)
    s[C].bind(tx, thread)
    s[B].set_scope("shared")
    s[B].compute_at(s[C], tx)
    _, inner = s[B].split(B.op.axis[0], nparts=1)
    s[B].bind(inner, thread)
    bounds: Any = te.schedule.InferBound(s.normalize())
    assert bounds[B.op.axis[0]].extent.value == 32 == bounds[inner].extent.value == bounds[thread].extent.value
    for size in (1, 31, 32, 50):
        check(infer_bound(s, at={m: size}))


def test_a_split_by_a_variable_of_a_fused_axis() -> None:
    """Products of sizes are not affine: the bounds are those of intervals, and exact once the sizes are numbers."""
    m, n, factor = te.var("m"), te.var("n"), te.var("f")
    B, C, s = two_stages(m, n)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor)
    s[B].compute_at(s[C], outer)
    bounds: Any = te.schedule.InferBound(s)
    first = bounds[B.op.axis[0]]
    choices: list[dict[Any, int]] = [{m: 3, n: 6, factor: 4}, {m: 5, n: 2, factor: 7}, {m: 4, n: 4, factor: 4}]
    for sizes in choices:
        assert isinstance(first.min, Expr) and evaluate(first.min, {**sizes, outer: 1}) == sizes[factor] // sizes[n]
        check(bounds, sizes, exact=False)
        check(infer_bound(s, at=sizes))


# -- reductions -------------------------------------------------------------------------------------------------------


def prefix_sums(n: int) -> tuple[Any, Any, Any]:
    """Row `i` sums the first `i + 1` elements."""
    A: Any = te.placeholder((n,), name="A")
    B: Any = te.compute((n,), lambda i: A[i] * 2, name="B")

    def row(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(B[k], axis=k)

    C: Any = te.compute((n,), row, name="C")
    return B, C, te.create_schedule(C.op)


def test_a_reduction_as_long_as_an_axis_says() -> None:
    B, C, s = prefix_sums(10)
    s[B].compute_at(s[C], C.op.axis[0])
    bounds = infer_bound(s)
    assert str(bounds[B.op.axis[0]].extent) == "i + 1" and bounds.required(B).count_total() == 55
    check(bounds)
    check_lowered(s)


@pytest.mark.parametrize("how", ["cache_write", "split", "rfactor", "reorder"])
def test_such_a_reduction_is_scheduled_like_any_other(how: str) -> None:
    _, C, s = prefix_sums(10)
    (k,) = C.op.reduce_axis
    if how == "cache_write":
        s.cache_write(C, "local")
    elif how == "reorder":
        s[C].reorder(k, C.op.axis[0])
    else:
        _, inner = s[C].split(k, 3)
        if how == "rfactor":
            s.rfactor(C, inner)
    check(infer_bound(s))
    check_lowered(s)


def test_a_reducer_that_refers_to_the_row() -> None:
    A: Any = te.placeholder((10,), name="A")

    def row(n: Any) -> Any:
        k = te.reduce_axis((0, 10), "k")
        start = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: (n * 3).astype(t), name="from_row")
        return start(A[k], axis=k)

    C: Any = te.compute((10,), row, name="C")
    for cached in (False, True):
        s = te.create_schedule(C.op)
        if cached:
            s.cache_write(C, "local")
        check_lowered(s)
    s = te.create_schedule(C.op)
    s.rfactor(C, s[C].split(C.op.reduce_axis[0], 5)[0])
    check_lowered(s)


# -- names ------------------------------------------------------------------------------------------------------------


def test_inlining_by_rule() -> None:
    n = te.var("n")
    A: Any = te.placeholder((n, n), name="A")
    b = te.placeholder((n,), name="b")
    same: Any = te.compute((n, n), lambda i, j: A(i, j) * 2, name="same")
    row = te.compute((n, n), lambda i, j: same(i, j) + b(j), name="row")
    turned = te.compute((n, n), lambda i, j: row(j, i), name="turned")
    k = te.reduce_axis((0, n), "k")
    total = te.compute((n,), lambda i: te.sum(turned(i, k), axis=k), name="total")
    last = te.compute((n,), lambda i: total(i) + 1, name="last")
    expected = {
        te.schedule.AutoInlineElemWise: ["same"],
        te.schedule.AutoInlineBroadcast: ["same", "row"],
        te.schedule.AutoInlineInjective: ["same", "row", "turned"],
    }
    for rule, names in expected.items():
        s = te.create_schedule(last.op)
        rule(s)
        assert [stage.name for stage in s.stages if stage.attach_type == 2] == names
        te.schedule.InferBound(s.normalize())


def test_kinds_of_loops_and_pragmas() -> None:
    _, C, s = two_stages(16, 16)
    xo, yo, xi, yi = s[C].tile(*C.op.axis, 4, 4)
    s[C].pragma(xi, "unroll")
    s[C].pragma(yi, "vectorize")
    s[C].pragma(xo, "auto_unroll_max_step", 10)
    attrs = s[C].iter_var_attrs
    assert attrs[xi].iter_type == te.schedule.IterVar.Unrolled and attrs[yi].iter_type == te.schedule.IterVar.Vectorized
    assert attrs[xo].pragma_keys == ("auto_unroll_max_step",) and attrs[xo].pragma_values == (10,)
    assert yo not in attrs


def test_parts_of_a_reduction() -> None:
    A: Any = te.placeholder((8, 8), name="A")
    k = te.reduce_axis((0, 8), "k")
    C: Any = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="C")
    assert C.op.body[0].axis == (k,)
    with pytest.raises(AttributeError, match="has no axis"):
        A[0, 0].axis  # noqa: B018
    with pytest.raises(AttributeError, match="no constant"):
        te.var("n").value  # noqa: B018


def test_the_cache_of_tiles() -> None:
    part = te.placeholder((4,), name="part")
    scaled = te.compute((4,), lambda j: part[j] * 2, name="scaled")
    twice = te.decl_tensor_intrin(scaled.op, lambda ins, outs: None, name="twice")
    A: Any = te.placeholder((6, 4), name="A")
    B: Any = te.compute((6, 4), lambda i, j: A[i, j] + 1, name="B")
    C: Any = te.compute((6, 4), lambda i: twice(B[i, 0:4]), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 3)
    cached = s.cache_write(C, "local")
    s[B].compute_at(s[cached], cached.op.axis[0])
    bounds = infer_bound(s)
    assert isinstance(cached.op, te.TensorComputeOp) and [int(e) for e in cached.shape] == [2, 3, 4]
    assert [int(r.extent) for r in bounds.allocated(B)] == [3, 4]
    check_lowered(s)
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], 4)
    with pytest.raises(te.ScheduleError, match="stage C: cache_write of tiles needs factors that divide, i has none"):
        s.cache_write(C, "local")


def test_a_schedule_can_be_pickled() -> None:
    B, C, s = prefix_sums(6)
    outer, _ = s[C].split(C.op.reduce_axis[0], 2)
    s[B].compute_at(s[C], outer)
    again = pickle.loads(pickle.dumps(s))
    bounds = infer_bound(again)
    stage = next(stage for stage in again.stages if stage.name == "B")
    assert bounds.required(stage.op.output(0)).count_total() == infer_bound(s).required(B).count_total()
    check(bounds)

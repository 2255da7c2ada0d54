"""Scripts as TVM's documentation types them: `InferBound`, `ScheduleOps`, and names around them."""

from typing import Any

import pytest

from bound import infer_bound, te
from bound.infer import BoundsMap
from intset import InputError, evaluate
from intset.expr.node import Expr
from tests.bound.oracle import check
from tests.lowering.lowered import check as check_lowered
from tests.strategies.written import Written

TWO_STAGES = """
    A = given(m, n)
    B[i:m, j:n] = A[i, j] + 1
    C[i:m, j:n] = B[i, j] * 2"""


def two_stages(m: Any = 20, n: Any = 16, calls: str = "") -> Written:
    return Written(f"{TWO_STAGES}\n{calls}", m=m, n=n)


# -- the two calls ----------------------------------------------------------------------------------------------------


def test_both_calls_take_a_schedule_as_it_was_written() -> None:
    s = two_stages(te.var("m"), te.var("n"), "C tile i j 8 8").s
    bounds: Any = te.schedule.InferBound(s)
    assert isinstance(bounds, BoundsMap)
    assert str(te.schedule.ScheduleOps(s, bounds)) == str(te.schedule.ScheduleOps(bounds.schedule, bounds))
    assert str(te.schedule.ScheduleOps(s, bounds, True)) == str(te.schedule.ScheduleOps(s, bounds))


DOCUMENT = """
    C[i:5, j:16] = tir.const(5, "int32")
    D[i:5, j:16] = C[i, j] * 2"""
HEAD, BODY = ("for i in [0, 5):", "for j in [0, 16):"), ("C[i, j] = 5", "D[i, j] = C[i, j] * 2")
NESTS = {  # of the examples of the document
    "": ["allocate C: int32[5, 16]", *HEAD, BODY[0], *HEAD, BODY[1]],
    "C compute_at D j": [
        *HEAD, "allocate C: int32[i : + 1, j : + 1]", "for i_1 in [0, 1):", "for j_1 in [0, 1):", *BODY
    ],
    "C compute_at D i": [
        HEAD[0], "allocate C: int32[i : + 1, 16]", "for i_1 in [0, 1):", HEAD[1], BODY[0], HEAD[1], BODY[1]
    ],
}  # fmt: skip


@pytest.mark.parametrize("calls", NESTS)
def test_every_example_of_the_document_prints_its_nest(calls: str) -> None:
    s = Written(f"{DOCUMENT}\n{calls}").s.normalize()
    stmt = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    assert [line.strip() for line in str(stmt).splitlines()] == NESTS[calls]


def test_what_is_not_the_bounds_of_the_schedule_is_refused() -> None:
    s = two_stages().s
    bounds: Any = te.schedule.InferBound(s)
    ranges = dict(bounds.items())
    with pytest.raises(InputError, match=r"what InferBound gave for the schedule, not a dict: ranges alone"):
        te.schedule.ScheduleOps(s, ranges)
    with pytest.raises(InputError, match="takes a schedule, not 3"):
        te.schedule.ScheduleOps(3, bounds)
    with pytest.raises(InputError, match="found for another one"):
        te.schedule.ScheduleOps(two_stages().s, bounds)
    with pytest.raises(InputError, match="create_schedule"):
        te.schedule.InferBound(3)


# -- extents that TVM's users compare ---------------------------------------------------------------------------------


def test_tiles_that_divide_leave_no_rounding_and_others_have_the_threads_of_their_consumer() -> None:
    m, n = te.var("m"), te.var("n")
    p = two_stages(8 * m, 32 * n, "C tile i j 8 32")
    bounds: Any = te.schedule.InferBound(p.s)
    xo, yo, xi, yi = (bounds[iv].extent for iv in p.s[p.C].leaf_iter_vars)
    assert (xo, yo) == (m, n) and (xi.value, yi.value) == (8, 32) and bounds.guard(p.C) == ()
    p = Written("""
        m = var(); A = given(m); B = pointwise(A); C = pointwise(B)
        C split i0 32; C bind i0.outer blockIdx.x; C bind i0.inner threadIdx.x; B set_scope shared
        B compute_at C i0.inner; B split i0 nparts=1; B bind i0.inner threadIdx.x""")
    bounds: Any = te.schedule.InferBound(p.s.normalize())
    loops = (p.B.op.axis[0], p.s[p.B].leaf_iter_vars[1], p.threads["threadIdx.x"])
    assert [bounds[iv].extent.value for iv in loops] == [32] * 3
    for size in (1, 31, 32, 50):
        check(infer_bound(p.s, at={p.m: size}))


def test_a_split_by_a_variable_of_a_fused_axis() -> None:
    """Products of sizes are not affine: the bounds are those of intervals, and exact once the sizes are numbers."""
    m, n, factor = te.var("m"), te.var("n"), te.var("f")
    p = two_stages(m, n, "C fuse i j")
    p.s[p.C].split(p.s[p.C].leaf_iter_vars[0], factor)
    p.then("B compute_at C i.j.fused.outer")
    bounds: Any = te.schedule.InferBound(p.s)
    first, outer = bounds[p.B.op.axis[0]], p.s[p.C].leaf_iter_vars[0]
    choices: list[dict[Any, int]] = [{m: 3, n: 6, factor: 4}, {m: 5, n: 2, factor: 7}, {m: 4, n: 4, factor: 4}]
    for sizes in choices:
        assert isinstance(first.min, Expr) and evaluate(first.min, {**sizes, outer: 1}) == sizes[factor] // sizes[n]
        check(bounds, sizes, exact=False)
        check(infer_bound(p.s, at=sizes))


# -- reductions -------------------------------------------------------------------------------------------------------


def row(B: Any) -> Any:
    """Sum the first `i + 1` elements."""

    def summed(i: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(B[k], axis=k)

    return summed


SCHEDULED = {
    "compute_at": "B compute_at C i",
    "cache_write": "s.cache_write(C, 'local')",
    "reorder": "C reorder k i",
    "split": "C split k 3",
    "rfactor": "C split k 3; s.rfactor(C, s[C].leaf_iter_vars[-1])",
}


@pytest.mark.parametrize("how", SCHEDULED)
def test_a_reduction_as_long_as_an_axis_says(how: str) -> None:
    text = "A = given(10); B = pointwise(A)\nC = te.compute((10,), row(B), name='C')"
    p = Written(f"{text}\n{SCHEDULED[how]}", row=row)
    bounds = infer_bound(p.s)
    if how == "compute_at":
        assert str(bounds[p.B.op.axis[0]].extent) == "i + 1" and bounds.required(p.B).count_total() == 55
    check(bounds)
    check_lowered(p.s)


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
    text = """
        n = var(); A = given(n, n); b = given(n); k = axis(0, n)
        same[i:n, j:n] = A[i, j] * 2
        row[i:n, j:n] = same[i, j] + b[j]
        turned[i:n, j:n] = row[j, i]
        total[i:n] = sum_(turned[i, k], axis=k)
        last[i:n] = total[i] + 1"""
    expected = {
        te.schedule.AutoInlineElemWise: ["same"],
        te.schedule.AutoInlineBroadcast: ["same", "row"],
        te.schedule.AutoInlineInjective: ["same", "row", "turned"],
    }
    for rule, names in expected.items():
        s = Written(text).s
        rule(s)
        assert [stage.name for stage in s.stages if stage.attach_type == 2] == names
        te.schedule.InferBound(s.normalize())


def test_attributes_have_the_names_of_tvm() -> None:
    p = two_stages(16, 16, "C tile i j 4 4; C pragma i.inner unroll; C pragma j.inner vectorize")
    xo, yo, xi, yi = p.s[p.C].leaf_iter_vars
    p.s[p.C].pragma(xo, "auto_unroll_max_step", 10)
    attrs = p.s[p.C].iter_var_attrs
    assert attrs[xi].iter_type == te.schedule.IterVar.Unrolled and attrs[yi].iter_type == te.schedule.IterVar.Vectorized
    assert attrs[xo].pragma_keys == ("auto_unroll_max_step",) and attrs[xo].pragma_values == (10,)
    assert yo not in attrs
    p = Written("A = given(8, 8); C = reduced(A)")
    assert p.C.op.body[0].axis == p.C.op.reduce_axis
    with pytest.raises(AttributeError, match="has no axis"):
        p.A[0, 0].axis  # noqa: B018
    with pytest.raises(AttributeError, match="no constant"):
        te.var("n").value  # noqa: B018


CACHED = """
    part = given(4); scaled = pointwise(part)
    twice = te.decl_tensor_intrin(scaled.op, lambda ins, outs: None, name="twice")
    A = given(6, 4); B = pointwise(A)
    C = te.compute((6, 4), lambda i: twice(B[i, 0:4]), name="C")
    schedule C"""


def test_the_cache_of_tiles() -> None:
    p = Written(f"{CACHED}\nC split i 3; D = s.cache_write(C, 'local')")
    p.s[p.B].compute_at(p.s[p.D], p.D.op.axis[0])
    assert isinstance(p.D.op, te.TensorComputeOp) and [int(e) for e in p.D.shape] == [2, 3, 4]
    assert [int(r.extent) for r in infer_bound(p.s).allocated(p.B)] == [3, 4]
    check_lowered(p.s)
    with pytest.raises(te.ScheduleError, match="stage C: cache_write of tiles needs factors that divide, i has none"):
        Written(f"{CACHED}\nC split i 4; s.cache_write(C, 'local')")

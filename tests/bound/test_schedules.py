"""Adversarial schedules and those of the corpus: built, run one iteration at a time, lowered, compared."""

from typing import Any

import numpy as np
import pytest

from bound import infer_bound
from bound.itervar import IterVar
from bound.schedule import AttachType, Fuse, Rebase, Split
from bound.schedule.attach import create_attach_path
from bound.tensor import ComputeOp
from lowering import lower
from tests.bound.corpus import CASES, axis_ids, recorded
from tests.bound.oracle import check
from tests.bound.reference import evaluate
from tests.lowering.lowered import check as check_lowered
from tests.lowering.lowered import check_run, inputs_of, random_array
from tests.strategies.schedules import state_of
from tests.strategies.written import Written
from tests.sweeps import daily

STENCIL = """
    n = var(); A = given(n + 2); B = pointwise(A)
    C[i:n] = B[i] + B[i + 2]
    C split i 5 tail={}; B compute_at C i.outer"""
SCHEDULES = {
    # -- attach chains
    "a_chain_of_four_each_inside_the_next": """
        A = given(18)
        T0[i:16] = A[i] + A[i + 2]; T1[i:14] = T0[i] + T0[i + 2]
        T2[i:12] = T1[i] + T1[i + 2]; T3[i:10] = T2[i] + T2[i + 2]
        T3 split i 3; T2 compute_at T3 i.outer; T2 split i 3; T1 compute_at T2 i.outer
        T1 split i 3; T0 compute_at T1 i.outer""",
    "attached_at_the_inner_loop_of_a_loop_that_was_fused_from_splits": """
        A = given(7, 5); B = pointwise(A)
        C[i:6, j:4] = B[i, j] + B[i + 1, j + 1]
        C split i 4; C split j 3; C reorder i.outer j.outer i.inner j.inner; C fuse j.outer i.inner
        C split j.outer.i.inner.fused 3; B compute_at C j.outer.i.inner.fused.outer""",
    # -- rewrites
    "partial_results_with_their_producer_attached": """
        A = given(10, 14); B = pointwise(A); k = axis(0, 14)
        C[i:10] = sum_(B[i, k], axis=k)
        C split k 4
        partial = s.rfactor(C, s[C].leaf_iter_vars[-1])
        partial compute_at C ax0; B compute_at partial k.inner""",
    "a_copy_for_two_of_three_readers": """
        A0 = given(20); A = pointwise(A0)
        B[i:18] = A[i] + A[i + 2]
        C[i:18] = A[i + 1] * 2
        D[i:18] = A[17 - i] + B[i] + C[i]
        copy = s.cache_read(A, "local", [B, C])
        D split i 4; B compute_at D i.outer; C compute_at D i.outer; copy compute_at D i.outer""",
    "a_copy_of_both_outputs_in_turned_order": """
        A = given(6, 10)
        XY[i:6, j:10] = (A[i, j] + 1, A[i, 9 - j] * 2)
        X, Y = XY
        C[i:6, j:5] = X[i, j] + Y[5 - i, j + 5]
        X split j 4; X reorder j.outer i j.inner
        s.cache_write([X, Y], "local")""",
    "a_copy_of_a_copy": """
        A = given(16, 16); B = pointwise(A)
        C[i:16, j:16] = B[j, i] * 2
        shared = s.cache_read(B, "shared", [C])
        local = s.cache_read(shared, "local", [C])
        C tile i j 5 3; shared compute_at C j.outer; local compute_at C i.inner""",
    "a_matrix_product_in_tiles_with_copies": """
        A = given(12, 12); B = given(12, 12); k = axis(0, 12)
        C[i:12, j:12] = sum_(A[i, k] * B[k, j], axis=k)
        CC = s.cache_write(C, "local")
        AA, BB = s.cache_read(A, "shared", [CC]), s.cache_read(B, "shared", [CC])
        C tile i j 5 4; CC compute_at C j.outer; CC split k 5; CC reorder k.outer i.c j.c k.inner
        AA compute_at CC k.outer; BB compute_at CC i.c; C vectorize j.inner""",
    "a_group_attached_as_one": """
        A = given(14); B = pointwise(A)
        C[i:12] = B[i] + B[i + 2]
        D[i:6] = C[2 * i] * 3
        group = s.create_group(outputs=C, inputs=A)
        D split i 4
        group.compute_at(s[D], s[D].leaf_iter_vars[0])
        B double_buffer""",
    # -- indices
    "an_index_of_quotient_and_remainder_of_one_fused_loop": """
        A = given(8, 9); B = pointwise(A)
        C[t:72] = B[t // 9, t % 9] + B[7 - t // 9, 8 - t % 9]
        C split t 7; B compute_at C t.outer""",
    "reflect_and_clamp_in_two_dimensions": """
        A = given(8, 8); B = pointwise(A)
        C[i:12, j:12] = B[minimum(maximum(2 - i, i - 2), 16 - i), maximum(minimum(j - 2, 7), 0)]
        C tile i j 5 5; B compute_at C j.outer""",
    "a_convolution_with_stride_padding_and_dilation": """
        A = given(9, 9); u = axis(0, 3); v = axis(0, 3)
        P[i:13, j:13] = where(tir.all(i >= 2, i < 11, j >= 2, j < 11), A[i - 2, j - 2], 0.0)
        C[i:5, j:5] = sum_(P[2 * i + 2 * u, 2 * j + 2 * v], axis=[u, v])
        C tile i j 2 3; P compute_at C j.outer""",
    # -- sizes
    "an_axis_without_elements": """
        A = given(0, 5); B = pointwise(A)
        C[i:0, j:5] = B[i, 4 - j]
        C split i 4; B compute_at C i.outer""",
    "a_symbolic_stencil": STENCIL.format("guard"),
    **{f"a_symbolic_stencil_with_tail_{t}": STENCIL.format(t) for t in ("shrink", "round_up", "shift_inwards")},
    "a_symbolic_matrix_read_by_its_own_width": """
        m = var(); n = var(); A = given(m * n); B = pointwise(A)
        C[i:m, j:n] = B[i * n + (n - 1 - j)]
        B compute_at C i""",
    # -- threads and several outputs
    "virtual_threads_over_shared_tiles": """
        A = given(36); B = pointwise(A)
        C[i:32] = B[i] + B[i + 4]
        C split i 16; C split i.inner nparts=2; C bind i.outer blockIdx.x; C bind i.inner.outer vthread
        C bind i.inner.inner threadIdx.x; B set_scope shared; B compute_at C i.inner.inner
        B split i0 nparts=8; B bind i0.outer threadIdx.x""",
    "shared_and_local_copies_under_two_thread_axes": """
        A = given(8, 8); B = pointwise(A)
        C[i:8, j:8] = B[i, j] + B[j, i]
        shared = s.cache_read(B, "shared", [C])
        local = s.cache_read(shared, "local", [C])
        C tile i j 4 4; C bind i.outer blockIdx.y; C bind j.outer blockIdx.x
        C bind i.inner threadIdx.y; C bind j.inner threadIdx.x
        shared compute_at C j.outer; local compute_at C j.inner; B compute_at C j.outer""",
    "private_storage_filled_outside_of_the_loop_on_the_thread": """
        A = given(12); B = pointwise(A)
        C[i:12] = B[11 - i]
        C split i 4; C bind i.outer blockIdx.x; C bind i.inner threadIdx.x
        B set_scope local; B compute_at C i.outer""",
    "shared_storage_inside_private_storage_whose_tile_depends_on_the_thread": """
        A = given(16); B = pointwise(A)
        C[i:14] = B[i] + B[i + 2]
        D[i:12] = C[i] + C[minimum(i + 2, 11)]
        D split i 4; D bind i.inner threadIdx.x; C set_scope local; C compute_at D i.inner
        B set_scope shared; B compute_at C i""",
}
SIZES: dict[str, list[dict[str, int]]] = {  # at which schedules are run, 13 where not said
    "a_symbolic_stencil": [{"n": size} for size in (0, 1, 4, 5, 12)],
    "a_symbolic_matrix_read_by_its_own_width": [{"m": 3, "n": 4}],
}
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
    """Check default options and one other set of options per day, and lower every second schedule; nightly, all."""
    s = Written(SCHEDULES[name]).s
    all_sizes = SIZES.get(name, [{"n": 13} if "symbolic" in name else {}])
    b = infer_bound(s)
    turn = list(SCHEDULES).index(name)
    f = lower(s) if all_ways or turn % 2 == 0 and name not in OF_MANY_FORMS else None
    has_guess = "round_up" in name
    ways: list[dict[str, Any]] = [{"domain": "interval"}, {"domain": "stride"}, {"compute": "box"}]
    for sizes in all_sizes:
        values = {v: sizes[v.name] for v in b._state.sizes.all}
        if values:
            check(b, values, exact=False)
            check(infer_bound(s, at=sizes), exact=not has_guess)
        else:
            check(b)
        for way in ways if all_ways else [ways[turn % len(ways)]]:
            check(infer_bound(s, at=sizes or None, **way), exact=False)
        if f is not None:
            check_run(f, s, sizes)


def test_a_reduction_over_nothing_needs_nothing_and_is_started_all_the_same() -> None:
    p = Written("""
        A = given(5, 3); B = pointwise(A); k = axis(0, 0)
        C[i:5] = sum_(B[i, k], axis=k)
        B compute_at C i""")
    found = infer_bound(p.s)
    assert found.required(p.B).is_empty and found.required(p.B).count_total() == 0
    assert found.required(p.C).count() == 5
    check_lowered(p.s)


ATTACH = {"root": AttachType.GROUP_ROOT, "scope": AttachType.SCOPE, "inlined_already": AttachType.INLINED_ALREADY}


def relation_row(relation: Any, ids: dict[IterVar, str]) -> dict[str, Any]:
    if isinstance(relation, Split):
        names = {key: ids[getattr(relation, key)] for key in ("parent", "outer", "inner")}
        given = {key: getattr(relation, key) for key in ("factor", "nparts")}
        return {"type": "split", **names, **{key: None if e is None else str(e) for key, e in given.items()}}
    if isinstance(relation, Fuse):
        return {"type": "fuse", **{key: ids[getattr(relation, key)] for key in ("outer", "inner", "fused")}}
    assert isinstance(relation, Rebase)
    return {"type": "rebase", "parent": ids[relation.parent], "rebased": ids[relation.rebased]}


def test_the_corpus_is_complete() -> None:
    assert len(CASES) == 109 and set(CASES) == set(recorded())


@pytest.mark.parametrize("name", [name for name in CASES if name != "reject_attach_to_nonconsumer"])
def test_stages_agree_with_the_recorded_ones(name: str) -> None:
    record = recorded()[name]
    written = CASES[name]["fn"]()
    before = state_of(written)
    schedule = written.normalize()
    assert state_of(written) == before  # building leaves the schedule as it was
    if record["status"] != "ok":
        return
    ids = axis_ids(schedule)
    paths = create_attach_path(schedule)
    assert [stage.name for stage in schedule.stages] == [row["name"] for row in record["stages"]]
    for stage, row in zip(schedule.stages, record["stages"], strict=True):
        assert type(stage.op).__name__ == row["op_type"]
        assert stage.attach_type is ATTACH[row["attach_type"]]
        assert stage.scope == row["scope"] and stage.is_output is row["is_output"]
        assert stage.double_buffered is row["double_buffer"]
        assert [tensor.op.name for tensor in stage.op.input_tensors] == row["inputs"]
        shape = [str(extent).replace(" ", "") for extent in stage.op.output(0).shape]
        assert shape == [text.strip("()").replace(" ", "") for text in row["shape"]]
        assert stage.op.num_outputs == row["num_outputs"]
        assert [ids[iv] for iv in stage.leaf_iter_vars] == [leaf["id"] for leaf in row["leaf_iter_vars"]]
        assert [ids[iv] for iv in stage.op.root_iter_vars] == [root["id"] for root in row["root_iter_vars"]]
        assert [relation_row(relation, ids) for relation in stage.relations] == row["relations"]
        threads = {ids[iv]: attr.bind_thread for iv, attr in stage.iter_var_attrs.items()}
        assert {iv: thread.thread_tag for iv, thread in threads.items() if thread is not None} == row["binds"]
        assert [ids[iv] for _, iv in paths[stage]] == row["attach_path"]
        if isinstance(stage.op, ComputeOp):
            assert [ids[iv] for iv in stage.op.reduce_axis] == row["reduce_axes"]
        if "attach_ivar" in row:
            assert stage.attach_stage is not None and stage.attach_ivar is not None
            assert (stage.attach_stage.name, ids[stage.attach_ivar]) == (row["attach_stage"], row["attach_ivar"])


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("reject_attach")])
def test_rewrites_of_the_corpus_keep_its_meaning(name: str) -> None:
    """Outputs stay equal under caching, rfactor and inlining."""
    case = CASES[name]
    schedule = case["fn"]()
    normal = schedule.normalize()
    inputs = {t: random_array(t, case["sub"]) for t in inputs_of(schedule)}
    functions = {"f": lambda source, target: np.copyto(target, source)}
    before = [stage.origin_op.output(0) for stage in schedule.stages if stage.is_output and stage.origin_op]
    after = [op.output(0) for op in normal.outputs]
    expected, actual = (evaluate(tensors, inputs, case["sub"], functions) for tensors in (before, after))
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)

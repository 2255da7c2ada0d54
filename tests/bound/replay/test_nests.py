"""Nests of shared loops, as they are printed, explained and refused."""

from __future__ import annotations

import pickle

import pytest

from bound import infer_bound, replay, te
from bound.errors import ScheduleError
from lowering import lower
from tests.bound.replay.programs import (
    broadcast,
    given,
    lowered,
    over,
    pointwise,
    positions,
    reduced,
    two_reductions,
)


def test_two_reductions_in_one_loop():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    assert lowered(s) == (
        "def T4(T0: float32[8, 9], T4: float32[8]):\n"
        "    for i0 in [0, 8):\n"
        "        allocate T2: float32[1] at [i0]\n"
        "        allocate T3: float32[1] at [i0]\n"
        "        T2[0] = -inf\n"
        "        T3[0] = inf\n"
        "        for r1 in [0, 9):\n"
        "            allocate T1: float32[1, 1] at [i0, r1]\n"
        "            T1[0, 0] = T0[i0, r1] + 1.0\n"
        "            T2[0] = max(T2[0], T1[0, 0])\n"
        "            T3[0] = min(T3[0], T1[0, 0])\n"
        "        T4[i0] = T2[0] + T3[0] + 1.0"
    )
    b = infer_bound(s)
    assert [b[iv].extent.data for iv in s[ts[0]].leaf_iter_vars] == [1, 1]
    assert len(b.required(ts[0]).params) == 2
    assert "T1, T2 and T3 share T3.r1" in b.explain(ts[0])


def test_the_clone_runs_in_its_loop_alone():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, repair="recompute")
    text = lowered(s)
    assert "T1.clone: float32[1, 1]" in text and "T1: float32[8, 9]" in text


def test_a_guard_around_all_stages_of_a_loop():
    n = te.var("n")
    t1 = pointwise("T1", te.placeholder((n, 9), name="T0"))
    t2, t3 = reduced("T2", t1, by=te.max), reduced("T3", t1, by=te.min)
    t4 = pointwise("T4", t2, t3)
    s = te.create_schedule(t4.op)
    s[t4].split(t4.op.axis[0], 4)
    replay.compute_at(s, t1, t4, 2)
    replay.inline_most(s)
    text = lowered(s, {"n": 8})
    assert text.count(" if ") == 1 and text.count("for ") == 3


def test_fused_and_split_loops_run_once():
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    s[t2].split(s[t2].fuse(*t2.op.axis), 5)
    replay.compute_at(s, t1, t2, 2)
    text = lowered(s)
    assert text.count("for ") == 2 and text.count(" if ") == 1
    b = infer_bound(s)
    assert int(b.required(t1).count_max()) == 1 and int(b.required(t1).count_total()) == 72
    assert b.required(t1) <= b.computed(t1)


def test_an_output_shares_loops():
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    s = te.create_schedule([t1.op, t2.op])
    s[t2].split(t2.op.axis[1], 4)
    replay.compute_at(s, t1, t2, 2)
    b = infer_bound(s)
    assert int(b.required(t1).count_max()) == 4 and int(b.required(t1).count_total()) == 72
    lowered(s)


def test_what_has_no_axis_for_a_loop_is_computed_anew():
    t1 = pointwise("T1", given(8))
    t2 = broadcast("T2", t1, 1)
    big = te.compute((8, 5), lambda i, j: i * 2 + j, name="B")
    t3 = over("T3", big, t2)
    s = te.create_schedule(t3.op)
    s[t2].reorder(*t2.op.axis[::-1])
    s[t3].reorder(*t3.op.axis[::-1])
    assert replay.compute_at(s, t1, t3, 2).position == 1
    text = lowered(s)
    assert text.count("for ") == 2 + ("allocate B" in text) * 2


def test_of_a_fused_broadcast_what_is_needed():
    """T2 has one element where T3 has five: the loop they share is longer than that of T2."""
    t1 = pointwise("T1", given(8))
    t2 = broadcast("T2", t1, 1)
    t3 = te.compute((8, 5), lambda i, j: t2[i, 0] + j, name="T3")
    s = te.create_schedule(t3.op)
    s[t3].split(s[t3].fuse(*t3.op.axis), 3)
    for pos in (1, 2):
        tried = s.copy()
        replay.compute_at(tried, t1, t3, pos, "best_effort")
        assert positions(tried, t2) == [pos]
        lowered(tried)
        b = infer_bound(tried)
        assert b.required(t2) <= b.computed(t2)


def softmax():
    t0 = given(8, 9)
    t1 = reduced("T1", t0, by=te.max)
    t3 = over("T3", t0, broadcast("T2", t1, 1))
    return over("T6", t3, broadcast("T5", reduced("T4", t3), 1))


def two_broadcasts():
    t1 = pointwise("T1", given(6))
    t2, t3 = broadcast("T2", t1, 0), broadcast("T3", t1, 1)
    return te.compute((6, 6), lambda i, j: t2[0, j] + t3[i, 0], name="T4")


def transposed():
    t1 = pointwise("T1", given(8, 9))
    t2 = te.compute((9, 8), lambda i, j: t1[j, i] * 2, name="T2")
    return pointwise("T3", t2)


@pytest.mark.parametrize("program", [softmax, two_broadcasts, transposed])
@pytest.mark.parametrize("how", [{}, {"compact": True}, {"nests": "split"}])
def test_everything_inlined_runs(program, how):
    s = te.create_schedule(program().op)
    replay.inline_most(s)
    lowered(s, **how)
    b = infer_bound(s)
    for stage in s.stages:
        t = stage.op.output(0)
        assert b.required(t) <= b.computed(t)


def test_a_stage_in_a_loop_longer_than_its_own():
    """T2 has no axis for what T4 fuses: it is computed anew there. Of a reduction nothing is added twice."""
    t0 = given(8, 9)
    t1 = pointwise("T1", t0)
    t2, r = pointwise("T2", t1), reduced("R", t1)
    t3 = broadcast("T3", t1, 1)
    t4 = te.compute((8, 5, 9), lambda i, j, k: t3[i, 0, k] + j, name="T4")
    s = te.create_schedule([t2.op, r.op, t4.op])
    fused = s[t4].fuse(*t4.op.axis[:2])
    s[t4].split(fused, 3)
    assert replay.compute_at(s, t1, t4, 2).position == 2
    assert positions(s, t1, t3) == [2, 2]
    text = lowered(s)
    assert text.count("fused.outer in") == text.count("fused.inner in") == 1
    b = infer_bound(s)
    for t in (t1, t2, r, t3, t4):
        assert b.required(t) <= b.computed(t)
        assert all(iv in b for iv in s[t].all_iter_vars)
    o = replay.compute_at(s, t1, t4, -1, "best_effort")
    assert o.position == 2 and "reduction" not in {reason.rule for reason in o.reasons}


def test_a_reduction_has_no_loop_of_others_inside():
    """S reduces over i in a loop of T4. The loop j, which S lacks, must not enclose the loop of S."""
    t1 = pointwise("T1", given(8, 9))
    total = reduced("S", t1, 0)
    t3 = broadcast("T3", t1, 1)
    t4 = te.compute((8, 5, 9), lambda i, j, k: t3[i, 0, k] + j, name="T4")
    s = te.create_schedule([total.op, t4.op])
    s[total].reorder(*reversed(s[total].leaf_iter_vars))
    o = replay.compute_at(s, t1, t4, 3, "best_effort")
    assert (o.position, [reason.rule for reason in o.reasons]) == (1, ["mismatch"])
    lowered(s)


def test_a_loop_of_one_element_that_was_split():
    """Two iterations of which a guard lets one run; they stand inside the loop that is shared."""
    t1 = broadcast("T1", given(9), 0)
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    s[t2].split(t2.op.axis[0], nparts=2)
    assert replay.compute_at(s, t1, t2, 3).position == 3
    lowered(s)


def test_a_reduction_is_not_parallel_through_another_stage():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    with pytest.raises(ScheduleError, match="cannot be parallelized"):
        s[ts[0]].parallel(ts[0].op.axis[1])
    s, ts = two_reductions()
    s[ts[0]].parallel(ts[0].op.axis[1])
    o = replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    assert o.position == 1 and "kind" in {reason.rule for reason in o.reasons}


def test_what_is_stored_in_every_iteration_is_in_no_parallel_loop():
    """T0 has no axis for i: where it is an output, iterations of i would store the same elements."""
    a = given(4, 5)
    t0 = te.compute((5,), lambda j: a[0, j] + 1, name="T0")
    t1 = te.compute((4, 5), lambda i, j: t0[j] * a[i, j], name="T1")
    t2 = pointwise("T2", t1)
    for is_output in (False, True):
        s = te.create_schedule([t0.op, t2.op] if is_output else [t2.op])
        s[t2].parallel(t2.op.axis[0])
        replay.compute_at(s, t1, t2, 2)
        o = replay.inline_at(s, t0, 1, "best_effort")
        assert (o.position, [reason.rule for reason in o.reasons]) == ((0, ["kind"]) if is_output else (1, []))
        lower(s)
        s = te.create_schedule([t0.op, t2.op] if is_output else [t2.op])
        replay.inline_most(s)
        assert positions(s, t0, t1) == [1, 2]
        for stage in (s[t1], s.copy()[t2]):
            if is_output:
                with pytest.raises(ScheduleError, match="T0 stores the same elements in several of its iterations"):
                    stage.parallel(stage.op.axis[0])
        if not is_output:
            s[t1].parallel(t1.op.axis[0])
        lower(s)
    t7 = te.compute((4, 5, 3), lambda i, j, k: t1[i, j] + k, name="T7")  # extends T2
    s = te.create_schedule([t2.op, t7.op])
    fused = s[t7].fuse(*t7.op.axis)
    s[t7].parallel(fused)
    replay.inline_most(s)
    lower(s)


def test_others_are_computed_in_a_shared_loop():
    x = pointwise("X", given(8, 9))
    t1 = pointwise("T1", x)
    t2, t3 = pointwise("T2", t1, x), pointwise("T3", t1, x)
    t4 = pointwise("T4", t2, t3)
    s = te.create_schedule(t4.op)
    replay.compute_at(s, t1, t4, 1)
    s[x].compute_at(s[t2], s[t2].leaf_iter_vars[0])
    text = lowered(s)
    assert "allocate X: float32[1, 9]" in text and text.count("for i0") == 1


def test_a_copy_stands_alone():
    s, ts = two_reductions()
    before = lowered(s)
    copied = s.copy()
    replay.compute_at(copied, ts[0], ts[1], -1, "best_effort")
    assert lowered(s) == before != lowered(copied)
    again = pickle.loads(pickle.dumps(copied))
    assert [stage.compute_at_position for stage in again.stages] == [
        stage.compute_at_position for stage in copied.stages
    ]


@pytest.mark.parametrize(("pos", "conditions"), [(1, 0), (2, 1)])
def test_guards_of_symbolic_sizes_in_shared_loops(pos, conditions):
    """Loops over a complete axis need no guard; only the end of the fused loop does."""
    n, m = te.var("n"), te.var("m")
    t1 = pointwise("T1", te.placeholder((n, m), name="T0"))
    t2 = pointwise("T2", t1)
    t3 = te.compute((m, n), lambda i, j: t2[j, i] + t1[j, i], name="T3")
    s = te.create_schedule(t3.op)
    s[t3].split(s[t3].fuse(*t3.op.axis), 8)
    assert replay.compute_at(s, t1, t3, pos).position == pos
    assert lowered(s, {"n": 8, "m": 9}).count(" if ") == conditions
    b = infer_bound(s)
    assert all(len(b.nest(t).guards) <= 2 for t in (t1, t2, t3))


def test_a_loop_of_one_reduction_is_no_loop_of_five():
    """Of T4[0, i] and T2[j, i], which read one tensor, only T2 has a loop over j."""
    one = broadcast("T1", given(6), 0)
    total = reduced("T4", pointwise("T3", one), 0, te.max)
    wide = te.compute((5, 6), lambda i, j: one[0, j] * 3 + i, name="T2")
    s = te.create_schedule([wide.op, total.op])
    s[total].reorder(*reversed(s[total].leaf_iter_vars))
    replay.inline_most(s)
    lowered(s)


def test_an_output_in_loops_longer_than_its_own():
    """An output recomputes only the element of the iteration, never the complete tensor."""
    t1 = pointwise("T1", given(4, 3))
    t2 = broadcast("T2", t1, 2)
    t3 = pointwise("T3", t2)
    t4 = te.compute((4, 3, 5), lambda i, j, k: t3[i, j, 0] + k, name="T4")
    s = te.create_schedule([t2.op, t3.op, t4.op])
    s[t4].fuse(*t4.op.axis[1:])
    replay.compute_at(s, t1, t4, 2, "best_effort")
    assert lowered(s).count("for ") <= 3 and positions(s, t2, t3) == [2, 2]


@pytest.mark.parametrize("program", ["split of 3 beside one of 15", "n", "one element, in whole tiles"])
def test_a_leaf_that_is_shared_with_a_reader_has_extent_1(program):
    """R and what it is read by run in the loop of a fused axis that R has a part of."""
    n = te.var("n") if program == "n" else 3
    t0 = te.placeholder((n,), name="T0", dtype="int32")
    r = pointwise("R", t0)
    one = te.compute((1, n), lambda i, j: r[j] - 1, name="B")
    many = te.compute((5, n), lambda i, j: one[0, j] * 3 + i, name="S")
    s = te.create_schedule(many.op)
    if program.startswith("one"):
        s[one].split(one.op.axis[0], 3, tail="round_up")
        s[many].split(many.op.axis[0], 3, tail="round_up")
        replay.inline_most(s)
    else:
        fused = s[many].fuse(*many.op.axis)
        s[many].split(fused, nparts=2)
        assert replay.compute_at(s, r, many, 1).position == 1
    b = infer_bound(s)
    for t in (r, one):
        assert all(str(b[iv].extent) == "1" for iv in s[t].leaf_iter_vars[: s[t].compute_at_position])
        assert b.required(t) <= b.computed(t)
    lowered(s, {"n": 3})


def test_an_output_of_a_reduction_over_nothing():
    """T1 is computed in the loop of T4 also where n is 0: it is what its sum starts from."""
    n = te.var("n")
    a = te.placeholder((3, n), name="A", dtype="int32")
    t1 = reduced("T1", a)
    t4 = te.compute((3,), lambda i: t1[i] * 2 + 5, name="T4")
    s = te.create_schedule([t1.op, t4.op])
    replay.compute_at(s, t1, t4, 1)
    assert infer_bound(s).nest(t1).guards == ()
    for size in (0, 2):
        lowered(s, {"n": size})


def test_a_quotient_of_a_fused_loop_is_not_guarded():
    """The loop over 5 rows of n says already that `f // n <= 4`."""
    n = te.var("n")
    t3 = pointwise("T3", te.placeholder((n,), name="A", dtype="int32"))
    one = te.compute((n, 1), lambda i, j: t3[i] - 1, name="B")
    many = te.compute((n, 5), lambda i, j: one[i, 0] * 3 + j, name="S")
    s = te.create_schedule(many.op)
    s[many].fuse(many.op.axis[1], many.op.axis[0])
    s[one].reorder(*reversed(one.op.axis))
    assert replay.compute_at(s, one, many, 1).position == 1
    b = infer_bound(s)
    assert b.nest(one).guards == b.nest(many).guards == ()


@pytest.mark.parametrize("how", [{"nparts": 2}, {"factor": 4}, {"nparts": 3}])
@pytest.mark.parametrize("place", [0, 1])
def test_a_loop_that_others_run_is_none_of_a_stage(how, place):
    """Five elements of T2 are needed in each iteration of the loop that T3 made of axes T2 has only one of."""
    t1 = pointwise("T1", given(5))
    t2 = broadcast("T2", t1, 0)
    t3 = te.compute((3, 5), lambda i, j: t2[0, j] * 2 + i, name="T3")
    s = te.create_schedule(t3.op)
    parts = s[t3].split(s[t3].fuse(*t3.op.axis), **how)
    s[t3].reorder(parts[place], parts[1 - place])
    replay.compute_at(s, t1, t3, 1)
    assert positions(s, t1, t2) == [1, 1]
    b = infer_bound(s)
    assert [str(b[s[t].leaf_iter_vars[0]].extent) for t in (t1, t2)] == ["1", "1"]
    assert lowered(s, nests="guard").count("for ") == 4


@pytest.mark.parametrize("tail", ["guard", "round_up", "shift_inwards"])
def test_one_element_in_tiles_inside_of_a_reduction(tail):
    """T1 reduces over the loop shared with T0; its own loops of extent 1 are nested inside."""
    t0 = pointwise("T0", given(8))
    r = te.reduce_axis((0, 8), "r")
    t1 = te.compute((1,), lambda i: te.sum(t0[r], axis=r), name="T1")
    s = te.create_schedule(t1.op)
    s[t1].split(t1.op.axis[0], 4, tail=tail)
    assert replay.inline_at(s, t0, 1).position == 1
    lowered(s)


def test_what_is_kept_at_one_place_is_read_there():
    """The place is not computed, however the guards of producer and reader are written."""
    n = te.var("n")
    t1 = pointwise("T1", te.placeholder((n,), name="T0"))
    t2 = pointwise("T2", t1)
    s = te.create_schedule([t1.op, t2.op])
    s[t2].split(t2.op.axis[0], nparts=3)
    t3 = s.cache_read(t1, "global", [t2])
    replay.inline_at(s, t3, -1, "best_effort")
    replay.compute_at(s, t1, t2, -1, "best_effort")
    assert "T1.global[0]" in lowered(s, {"n": 8})


def test_a_stage_in_a_loop_that_stands_in_others_for_the_sake_of_a_third():
    """T2 and T6 share the loop of T1. T2 nests it inside loops of T5, which T6 lacks."""
    t1 = pointwise("T1", given(6))
    t6 = pointwise("T6", t1)
    t2 = te.compute((3, 6), lambda i, j: t1[j] + i, name="T2")
    t3 = reduced("T3", t2)
    t5 = te.compute((3, 4), lambda i, j: t3[i] + j, name="T5")
    s = te.create_schedule([t6.op, t5.op])
    s[t5].reorder(*reversed(t5.op.axis))
    replay.inline_most(s)
    b = infer_bound(s)
    assert [len(b.attach_path(t)) for t in (t1, t2, t3)] == [3, 3, 2]
    lowered(s)

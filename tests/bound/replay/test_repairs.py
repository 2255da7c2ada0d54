"""Refusals as values: reasons, repairs, clones; copied and pickled."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from bound import replay, te
from lowering import lower, run
from tests.bound.reference import evaluate
from tests.bound.replay.programs import given, pointwise, positions, reduced, two_reductions


def refused(s, *args, call=replay.compute_at):
    with pytest.raises(replay.ReplayError) as info:
        call(s, *args)
    return info.value


@pytest.mark.parametrize("call", [replay.compute_at, replay.inline_at, replay.inline_all_at])
def test_a_refusal_survives_copying_and_pickling(call):
    s, ts = two_reductions()
    args = (ts[0], ts[1], -1) if call is replay.compute_at else (ts[1], 2)
    error = refused(s, *args, call=call)
    kinds = [repair.kind for repair in error.repairs]
    stored, loaded = pickle.loads(pickle.dumps((s, error)))
    for schedule, again in ((s, copy.copy(error)), copy.deepcopy((s, error)), (stored, loaded)):
        assert str(again) == str(error) and [repair.kind for repair in again.repairs] == kinds
        assert [str(reason) for reason in again.reasons] == [str(reason) for reason in error.reasons]
        for repair in again.repairs:
            tried = schedule.copy()
            repair.apply(tried)
            lower(tried)
    assert positions(s, *ts) == [0] * 4


def test_a_repair_is_done_to_the_schedule_itself():
    s, ts = two_reductions()
    repair = refused(s, ts[0], ts[1], -1).repairs[0]
    assert repr(repair) == "<Repair position: position 1 of T2>"
    assert repair.apply(s).position == 1 and positions(s, *ts) == [1, 1, 1, 0]


def test_clones_by_what_tensors_were_before():
    s, (t1, t2, *_) = two_reductions()
    s.cache_read(t1.op.input_tensors[0], "local", [t1])
    now = s.current(t1)
    assert now is not t1
    o = replay.compute_at(s, t1, t2, -1, repair="recompute")
    assert list(o.clones) == [t1, now] and o.clones[t1] is o.clones[now]
    assert positions(s, t1, o.clones[t1]) == [0, 2]


def test_what_is_cloned():
    """An output, what it reads, and what another reader needs; with loops; only the chain reads the clones."""
    a = given(8, 9)
    t1 = pointwise("T1", a)
    t2 = pointwise("T2", t1)
    t3 = reduced("T3", t2)
    t4 = pointwise("T4", t3)
    other = reduced("U", t2, by=te.max)
    s = te.create_schedule([t2.op, t4.op, other.op])
    s[t1].split(t1.op.axis[1], 4)
    o = replay.compute_at(s, t1, t3, 2, repair="recompute")
    assert list(o.clones) == [t1, t2] and o.position == 2
    assert positions(s, t1, t2, *o.clones.values()) == [0, 0, 2, 2]
    assert [iv.name for iv in s[t1].leaf_iter_vars] == ["i0", "i1.outer", "i1.inner"]
    assert s.current(t3).op.input_tensors == (o.clones[t2],) and s.current(other).op.input_tensors == (t2,)
    numbers = np.linspace(-3, 5, 72, dtype="float32").reshape(8, 9)
    arrays = {
        "T0": numbers,
        **{t.name: np.zeros(evaluate(t, {"T0": numbers}).shape, "float32") for t in (t2, t4, other)},
    }
    run(lower(s), arrays)
    for t in (t2, t4, other):
        np.testing.assert_allclose(arrays[t.name], evaluate(t, {"T0": numbers}), rtol=1e-5)


def test_cloned_twice():
    s, (t1, t2, t3, t4) = two_reductions()
    first = replay.compute_at(s, t1, t2, -1, repair="recompute")
    s.cache_read(s.current(t1), "local", [s.current(t3), s.current(t4)][:1])
    second = replay.compute_at(s, first.clones[t1], t2, -1)
    assert second.clones == {} and positions(s, first.clones[t1]) == [2]


def test_a_clone_breaks_no_earlier_call():
    """What a reader shares with the original it shares with the clone, so that no position falls."""
    s, (t1, t2, t3, t4) = two_reductions()
    replay.compute_at(s, t1, t2, 1)
    before = [s[t].max_producer_position for t in (t2, t3, t4)]
    clones = replay.compute_at(s, t1, t2, -1, repair="recompute").clones
    assert positions(s, t1, clones[t1], t2, t3) == [1, 2, 1, 1]
    assert [s[t].max_producer_position for t in (t2, t3, t4)] == [2, *before[1:]]
    s, (t1, t2, t3, t4) = two_reductions()
    replay.inline_at(s, t1, 1)
    o = replay.compute_at(s, t1, t4, 1, repair="recompute")
    assert not o.clones and positions(s, t1, t2, t3) == [1, 1, 1]  # accepted: nothing is cloned


def test_loops_that_are_shared_are_not_changed_by_cloning():
    """T3 runs with T2 in the loop of i0; a clone of T2 for it may not turn its loops round."""
    t2 = pointwise("T2", given(5, 4))
    t3, t5 = pointwise("T3", t2), pointwise("T5", t2)
    t6 = pointwise("T6", t3)
    s = te.create_schedule([t6.op, t5.op])
    s[t6].reorder(*reversed(t6.op.axis))
    replay.inline_at(s, t2, 1)
    error = refused(s, t2, t6, 2)
    assert [repair.kind for repair in error.repairs] == ["position", "mode"]
    with pytest.raises(replay.ReplayError, match="frozen"):
        replay.compute_at(s, t2, t6, 2, repair="recompute")


def test_nothing_to_recompute():
    t1 = pointwise("T1", given(8, 9))
    t2 = te.compute((8, 8), lambda i, j: t1[i, j] + t1[i, j + 1], name="T2")
    s = te.create_schedule(t2.op)
    with pytest.raises(replay.ReplayError, match="what works instead: position 1 of T2, mode 'best_effort'"):
        replay.compute_at(s, t1, t2, 2, repair="recompute")
    assert positions(s, t1, t2) == [0, 0]


def test_domains_are_values():
    s, ts = two_reductions()
    d = replay.domain(s, ts[1])
    assert d == replay.domain(s, ts[1]) and hash(d) == hash(replay.domain(s, ts[1]))
    assert not hasattr(d.kinds, "update") and d.kinds == {d.root[0]: "i", d.root[1]: "r"}
    with pytest.raises(AttributeError):
        d.loop = ()
    stored, again = pickle.loads(pickle.dumps((s, d)))
    assert str(again) == str(d) == "T2[i0:i, r1:r] of (i0, r1)" and again.op is stored.stages[2].op

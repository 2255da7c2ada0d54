"""Positions, loop counts and loop domains of small cases: a program and a few calls each."""

from __future__ import annotations

import pytest

from bound import replay, te
from bound.errors import ScheduleError
from tests.bound.replay.programs import (
    broadcast,
    depths,
    given,
    loops,
    lowered,
    numbers_of_loops,
    over,
    pointwise,
    positions,
    reduced,
    two_reductions,
)

WHOLE, ROWS = "[i0:i, i1:i] of (i0, i1)", "[i0:i] of (i0)"
SPLIT = "[i0.outer:i, i0.inner:i] of (i0); split(i0, factor=128)"
MODES = ("standard", "best_effort", "most_inlined")


def rules(outcome):
    return {reason.rule for reason in outcome.reasons}


@pytest.mark.parametrize("mode", MODES[1:])
def test_two_reductions_best(mode):
    s, ts = two_reductions()
    o = replay.compute_at(s, ts[0], ts[1], -1, mode)
    assert (positions(s, *ts), o.position, rules(o)) == ([2, 1, 1, 0], 2, {"reduction"})
    assert depths(s, *ts) == [0, 2, 2, 1]
    assert loops(s, *ts) == [WHOLE, *["[i0:i, r1:r] of (i0, r1)"] * 2, ROWS]
    lowered(s)


def test_two_reductions_standard():
    s, ts = two_reductions()
    assert replay.compute_at(s, ts[0], ts[1], 1).position == 1
    assert positions(s, *ts) == [1, 1, 1, 0]
    s, ts = two_reductions()
    with pytest.raises(replay.ReplayError) as info:
        replay.compute_at(s, ts[0], ts[1], -1)
    assert [repair.kind for repair in info.value.repairs] == ["position", "mode", "recompute"]
    first = info.value.reasons[0]
    assert (first.rule, first.tensor, first.asked, first.allowed) == ("reduction", ts[1], 2, 1)
    assert positions(s, *ts) == [0, 0, 0, 0]
    wanted = {"position": [1, 1, 1, 0], "mode": [2, 1, 1, 0], "recompute": [0, 0, 0, 0]}
    for repair in info.value.repairs:
        tried = s.copy()
        o = repair.apply(tried)
        assert positions(tried, *ts) == wanted[repair.kind]
        assert (repair.kind == "recompute") == bool(o.clones)
    o = replay.compute_at(s, ts[0], ts[1], -1, repair="recompute")
    assert list(o.clones) == [ts[0]] and positions(s, *ts, o.clones[ts[0]]) == [0, 0, 0, 0, 2]


@pytest.mark.parametrize(("mode", "own"), [("best_effort", 1), ("most_inlined", 2)])
def test_outer_reductions(mode, own):
    s, ts = two_reductions(outer=True)
    with pytest.raises(replay.ReplayError) as info:
        replay.compute_at(s, ts[0], ts[1], 1)
    assert [repair.kind for repair in info.value.repairs] == ["position", "mode", "reorder", "recompute"]
    replay.compute_at(s, ts[0], ts[1], 1, mode)
    assert positions(s, *ts) == [own, 0, 0, 0]
    assert loops(s, *ts) == [WHOLE, *["[r0:r, i0:i] of (i0, r0)"] * 2, ROWS]
    lowered(s)


def consumers(common, output=False):
    t0 = given(1000)
    t1 = pointwise("T1", t0)
    if common == 0:
        t2, t3 = pointwise("T2", t1), pointwise("T3", t1)
        return [t1, t2, t3], [t2, t3], t3
    if common == 1:
        t2, t3 = pointwise("T2", t1), pointwise("T3", t1)
        t4 = pointwise("T4", t2, t3)
        t5 = pointwise("T5", t4)
        ts = [t1, t2, t3, t4, t5]
        if output:
            ts.append(pointwise("T6", t1))
        return ts, ts[4:], t3
    a = te.placeholder((50, 20), name="T0")
    t1 = pointwise("T1", a)
    t2 = pointwise("T2", t1)
    t3, t4 = pointwise("T3", t2), pointwise("T4", t1)
    t5 = pointwise("T5", t3, t4)
    ts = [t1, t2, t3, t4, t5]
    if output:
        ts.append(pointwise("T6", t1))
    return ts, ts[4:], t3


def test_several_consumers():
    ts, outputs, at = consumers(0)
    s = te.create_schedule([t.op for t in outputs])
    s[at].split(s[at].op.axis[0], 128)
    replay.compute_at(s, ts[0], at, 1)
    assert (loops(s, *ts), positions(s, *ts), depths(s, *ts)) == ([SPLIT] * 3, [1, 0, 0], [0, 1, 1])
    lowered(s)


@pytest.mark.parametrize("output", [False, True])
def test_common_consumer_first(output):
    ts, outputs, at = consumers(1, output)
    s = te.create_schedule([t.op for t in outputs])
    s[at].split(s[at].op.axis[0], 128)
    replay.compute_at(s, ts[0], at, 1)
    assert positions(s, *ts) == ([1, 1, 1, 1, 0, 0] if output else [1, 1, 1, 0, 0])
    assert loops(s, *ts) == [SPLIT] * (6 if output else 4) + ["[i0:i] of (i0)"] * (not output)
    assert depths(s, *ts) == ([0, 1, 1, 1, 1, 1] if output else [0, 1, 1, 1, 0])
    lowered(s)


@pytest.mark.parametrize("output", [False, True])
def test_common_consumer_far(output):
    ts, outputs, at = consumers(2, output)
    s = te.create_schedule([t.op for t in outputs])
    fused = s[at].fuse(*s[at].op.axis)
    outer, _ = s[at].split(fused, 128)
    s[at].split(outer, 4)
    replay.compute_at(s, ts[0], at, 1)
    made = "[i0.i1.fused.outer.outer:i, i0.i1.fused.outer.inner:i, i0.i1.fused.inner:i] of (i0, i1); fuse(i0, i1); "
    made += "split(i0.i1.fused, factor=128); split(i0.i1.fused.outer, factor=4)"
    assert loops(s, *ts) == [made] * len(ts)
    lowered(s)
    assert positions(s, *ts) == [1, 1, 1, 1, 0] + [0] * output
    if output:
        assert depths(s, *ts[4:]) == [1, 1]


def test_a_placeholder_is_the_producer():
    t0 = given(64, 32)
    t1, t2 = pointwise("T1", t0), pointwise("T2", t0)
    t3 = pointwise("T3", t1, t2)
    t4, t5 = pointwise("T4", t3), pointwise("T5", t3)
    t6, t7 = pointwise("T6", t5, t4), pointwise("T7", t5)
    s = te.create_schedule([t6.op, t7.op])
    _outer, _ = s[t7].split(s[t7].fuse(*t7.op.axis), 128)
    o = replay.compute_at(s, t0, t7, 1)
    ts = (t1, t2, t3, t4, t5, t6, t7)
    assert o.position == 0
    assert (positions(s, *ts), depths(s, t6, t7)) == ([1, 1, 1, 1, 1, 0, 0], [1, 1])
    made = "[i0.i1.fused.outer:i, i0.i1.fused.inner:i] of (i0, i1); fuse(i0, i1); split(i0.i1.fused, factor=128)"
    assert loops(s, *ts, t0) == [made] * 7 + ["[T0.0:i, T0.1:i] of (T0.0, T0.1)"]
    lowered(s)


def transposed():
    t0 = given(2, 3, 4)
    t1 = pointwise("T1", t0)
    t2 = pointwise("T2", t1)
    t3 = te.compute((2, 4, 3), lambda i, j, k: t2[i, k, j] + 0, name="T3")
    t4 = pointwise("T4", t3)
    t5 = pointwise("T5", t4)
    return te.create_schedule(t5.op), (t5, t4, t3, t2, t1)


@pytest.mark.parametrize("most", [True, False])
def test_transposed(most):
    s, ts = transposed()
    if most:
        replay.inline_most(s)
    else:
        replay.inline_all_at(s, ts[0], -1, "best_effort")
    assert positions(s, *ts) == [3, 3, 3, 1, 3 if most else 1]
    each = "[i0:i, i1:i, i2:i] of (i0, i1, i2)"
    assert loops(s, *ts) == [each, each, "[i:i, j:i, k:i] of (i, j, k)", each, each]
    lowered(s)


def test_fused_in_a_chain():
    chain = [given(2, 3, 4)]
    for k in range(1, 6):
        chain.append(pointwise(f"T{k}", chain[-1]))
    ts = chain[:0:-1]
    s = te.create_schedule(ts[0].op)
    s[chain[3]].fuse(*chain[3].op.axis[1:])
    replay.inline_most(s)
    # T3 has two loops: the first is shared with T4 behind it, and with T2 before it
    assert positions(s, *ts) == [3, 3, 1, 1, 3]


def test_broadcast_fused_pairwise():
    t0 = given(2, 3, 4)
    t1 = pointwise("T1", t0)
    t2 = pointwise("T2", t1)
    t3 = broadcast("T3", t2, 1, 3, 5)
    t4 = pointwise("T4", t3)
    s = te.create_schedule(t4.op)
    for t in (t3, t4):
        i, b, j, c, k, d = t.op.axis
        for pair in ((i, b), (j, c), (k, d)):
            s[t].fuse(*pair)
    replay.inline_most(s)
    assert positions(s, t4, t3, t2, t1) == [3, 3, 3, 3]
    producer, reader = replay.domain(s, t2), replay.domain(s, t3)
    assert replay.matched_consumer_position(reader, producer, 3) == 3
    assert replay.matched_producer_position(producer, reader, 3) == 3


def test_persistent():
    t0, t1 = given(8), given(8, 9, name="T1")
    t2 = broadcast("T2", t0, 1)
    t3 = over("T3", t1, t2)
    t4 = pointwise("T4", t3)
    t5 = reduced("T5", t4)
    t6 = broadcast("T6", t5, 1)
    t7 = over("T7", t3, t6)
    s = te.create_schedule(t7.op)
    o = replay.compute_at(s, t3, t7, -1, "most_inlined")
    assert positions(s, t3) == [1]
    assert ("persistent", t3) in {(reason.rule, reason.tensor) for reason in o.reasons}


@pytest.mark.parametrize(("mode", "wanted"), [("best_effort", 1), ("standard", 2)])
def test_outputs_together_and_an_unrolled_loop(mode, wanted):
    t0 = given(8, 9)
    t1, t2, t3 = te.compute((8, 9), lambda i, j: (t0[i, j], t0[i, j] * 2, t0[i, j] * 3), name="T")
    t4, t5 = pointwise("T4", t1, t2), pointwise("T5", t3)
    s = te.create_schedule([t4.op, t5.op])
    s[t4].unroll(t4.op.axis[1])
    replay.inline_at(s, t2, 2, mode)
    assert positions(s, t1, t2, t3) == [wanted] * 3


def test_squeezed():
    t0 = given(1, 1000)
    t1 = pointwise("T1", t0)
    t2 = te.compute((1000,), lambda i: t1[0, i] + 0, name="T2")
    t3 = pointwise("T3", t2)
    s = te.create_schedule(t3.op)
    fused = s[t1].fuse(*t1.op.axis)
    s[t1].split(fused, 4)
    replay.propagate(s, t1)
    assert numbers_of_loops(s, t1, t2, t3) == [2, 2, 2]
    replay.inline_most(s)
    assert positions(s, t1, t2) == [2, 2]


def test_only_the_first_loops_are_carried():
    t0 = given(60)
    t1 = pointwise("T1", t0)
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    outer, inner = s[t2].split(t2.op.axis[0], 10)
    s[t2].split(outer, 3)
    s[t2].split(inner, 5)
    assert replay.propagate(s, t2, 2) == (t1,)
    made = "[i0.outer.outer:i, i0.outer.inner:i, i0.inner:i] of (i0); split(i0, factor=10); split(i0.outer, factor=3)"
    assert loops(s, t1) == [made]


def test_design_rules():
    t1 = pointwise("T1", given(4, 5, 6))
    t2 = reduced("T2", t1, 1)
    t3 = pointwise("T3", t2)
    s = te.create_schedule(t3.op)
    i, k = t2.op.axis
    s[t2].reorder(i, t2.op.reduce_axis[0], k)
    d1, d2, d3 = (replay.domain(s, t) for t in (t1, t2, t3))
    assert replay.matched_producer_position(d1, d2, 2) == 2
    assert replay.matched_consumer_position(d3, d2, 2) == 1
    tried = s.copy()
    replay.compute_at(tried, t1, t2, 2)
    assert positions(tried, t1, t2) == [2, 0]
    replay.inline_all_at(s, t2, 2, "best_effort")
    assert positions(s, t1, t2) == [2, 1]


@pytest.mark.parametrize(("pos", "wanted"), [(2, [1, 1]), (3, [2, 3])])
def test_design_rules_of_broadcast(pos, wanted):
    t1 = pointwise("T1", given(4, 6))
    t2 = broadcast("T2", t1, 1)
    t3 = over("T3", given(4, 5, 6, name="B"), t2)
    s = te.create_schedule(t3.op)
    d1, d2, d3 = (replay.domain(s, t) for t in (t1, t2, t3))
    assert replay.matched_producer_position(d2, d3, 2) == 2
    assert replay.matched_producer_position(d1, d2, 2) == 1
    assert replay.compute_at(s, t1, t3, pos).position == wanted[0]
    assert positions(s, t1, t2) == wanted


def test_two_broadcasts_of_one_tensor():
    t1 = pointwise("T1", given(6))
    t2, t3 = broadcast("T2", t1, 0), broadcast("T3", t1, 1)
    t4 = te.compute((6, 6), lambda i, j: t2[0, j] + t3[i, 0], name="T4")
    s = te.create_schedule(t4.op)
    reasons = replay.inline_most(s)
    assert positions(s, t1, t2, t3) == [0, 2, 1]
    assert [reason.rule for reason in reasons if reason.tensor is t1] == ["self_mapped"]


def test_softmax():
    t0 = given(8, 9)
    t1 = reduced("T1", t0, by=te.max)
    t2 = broadcast("T2", t1, 1)
    t3 = over("T3", t0, t2)
    t4 = reduced("T4", t3)
    t5 = broadcast("T5", t4, 1)
    t6 = over("T6", t3, t5)
    s = te.create_schedule(t6.op)
    replay.inline_most(s)
    assert positions(s, t1, t2, t3, t4, t5, t6) == [1, 1, 1, 1, 1, 2]


def test_chains():
    tv0 = te.placeholder((8,), name="TV0")
    tv2 = te.placeholder((8,), name="TV2")
    tv1 = pointwise("TV1", tv0)
    tv3 = pointwise("TV3", tv1, tv2)
    tv4 = pointwise("TV4", tv3, tv0)
    tv5 = pointwise("TV5", tv3, tv4)
    s = te.create_schedule(tv5.op)
    assert set(replay.dependency_chains(s, tv0, tv5)) == {
        (tv0, tv1, tv3, tv4, tv5),
        (tv0, tv1, tv3, tv5),
        (tv0, tv4, tv5),
    }
    assert set(replay.use_chains(s, tv3)) == {(tv3, tv4, tv5), (tv3, tv5)}
    assert replay.common_consumers(s, tv3) == (tv5,)
    assert replay.common_consumer(s, tv3, tv4) is tv5
    assert replay.producers(s, tv4) == (tv3, tv0) and replay.consumers(s, tv3) == (tv4, tv5)
    with pytest.raises(ScheduleError, match="TV1 does not depend on TV3"):
        replay.common_consumer(s, tv3, tv1)


def test_spanning_tree_order():
    t0 = given(4, 5)
    t1 = pointwise("T1", t0)
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    for _ in range(2):
        assert [(e.kind, e.source, e.target) for e in replay.spanning_tree(s, t1)] == [("C2P", t1, t0), ("P2C", t1, t2)]
        assert [repr(edge) for edge in replay.spanning_tree(s, t1)] == ["C2P T1->T0", "P2C T1->T2"]


def test_read_at_a_neighbour():
    t1 = pointwise("T1", given(8, 9))
    t2 = te.compute((8, 8), lambda i, j: t1[i, j] + t1[i, j + 1], name="T2")
    s = te.create_schedule(t2.op)
    with pytest.raises(replay.ReplayError) as info:
        replay.compute_at(s, t1, t2, 2)
    assert [(r.rule, r.axis.name, r.allowed) for r in info.value.reasons] == [("unmapped", "j", 1)]
    assert [repair.kind for repair in info.value.repairs] == ["position", "mode"]
    o = replay.compute_at(s.copy(), t1, t2, 2, "best_effort")
    assert (o.position, rules(o)) == (1, {"unmapped"})
    assert replay.compute_at(s, t1, t2, 1).position == 1


def test_loops_of_an_earlier_call_stay():
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    t3 = pointwise("T3", t2)
    s = te.create_schedule(t3.op)
    replay.compute_at(s, t1, t2, 1)
    s[t3].split(t3.op.axis[0], 2)
    before = replay.domain(s, t2)
    with pytest.raises(replay.ReplayError) as info:
        replay.compute_at(s, t1, t3, 1)
    assert "frozen" in {reason.rule for reason in info.value.reasons}
    assert {repair.kind for repair in info.value.repairs} >= {"position", "mode"}
    o = replay.compute_at(s, t1, t3, 1, "best_effort")
    assert (o.position, positions(s, t1, t2)) == (1, [1, 0])
    assert replay.domain(s, t2) == before


@pytest.mark.parametrize("call", [replay.inline_at, replay.inline_all_at])
def test_repairs_of_inlining(call):
    s, ts = two_reductions()
    with pytest.raises(replay.ReplayError) as info:
        call(s, ts[1], 2)
    assert [repair.kind for repair in info.value.repairs] == ["position", "mode"]
    for repair in info.value.repairs:
        tried = s.copy()
        repair.apply(tried)
        assert positions(tried, ts[1]) == [1]
    assert positions(s, *ts) == [0] * 4


def test_what_an_earlier_call_made_stays():
    t0, t2 = given(16), given(16, name="T2")
    t1, t3 = pointwise("T1", t0), pointwise("T3", t2)
    t4 = pointwise("T4", t1, t3)
    t5 = broadcast("T5", t1, 1)
    t6 = given(16, 6, name="T6")
    t7 = over("T7", t6, t5)
    s = te.create_schedule([t4.op, t7.op])
    outer, _ = s[t7].split(t7.op.axis[1], 2)
    fused, _ = s[t7].split(s[t7].fuse(t7.op.axis[0], outer), 4)
    s[t7].split(fused, 3)
    replay.compute_at(s, t1, t7, 2)
    before, was = replay.domain(s, t5), positions(s, t1, t5)
    assert was == [2, 2]
    replay.compute_at(s, t0, t4, -1)
    replay.compute_at(s, t2, t4, -1)
    assert replay.domain(s, t5) == before and all(map(int.__ge__, positions(s, t1, t5), was))
    lowered(s)


def test_inner_broadcast():
    t0, t1, t2 = given(3), given(3, 4, name="T1"), given(3, 4, 2, 5, name="T2")
    t3, t4 = broadcast("T3", t0, 1, 2, 3), broadcast("T4", t1, 2, 3)
    t5 = pointwise("T5", t2)
    t6, t7 = over("T6", t5, t3), over("T7", t5, t4)
    t8 = pointwise("T8", t4)
    t9 = pointwise("T9", t6, t7)
    t10 = over("T10", t9, t8)
    s = te.create_schedule(t10.op)
    for t in (t0, t1, t2):
        assert replay.compute_at(s, t, t10, -2).position == 0
    assert positions(s, t3, t4, t5) == [1, 2, 3]
    assert depths(s, t6, t7, t8) == [3, 3, 2]
    assert loops(s, t3, t10) == [
        "[i0:i, i1:b, i2:b, i3:b] of (i0, i1, i2, i3)",
        "[i0:i, i1:i, i2:i, i3:i] of (i0, i1, i2, i3)",
    ]
    lowered(s)


def test_a_broadcast_that_moved_inwards():
    t0, t1 = given(3, 6), given(3, 6, 5, name="T1")
    t2 = broadcast("T2", t0, 2)
    t3 = over("T3", t1, t2)
    s = te.create_schedule(t3.op)
    _, b, c = t3.op.axis
    _, inner = s[t3].split(b, 4)
    s[t3].reorder(c, inner)
    replay.compute_at(s, t0, t3, -2)
    replay.compute_at(s, t1, t3, -2)
    assert (positions(s, t2), depths(s, t3)) == ([2], [2])
    assert loops(s, t2) == ["[i0:i, i1.outer:i, i2:b, i1.inner:i] of (i0, i1, i2); split(i1, factor=4)"]
    lowered(s)


def test_two_broadcasts():
    t0, t1 = given(3, 6), given(3, 2, 6, 5, name="T1")
    t2 = broadcast("T2", t0, 2)
    t3 = broadcast("T3", t2, 1)
    t4 = over("T4", t1, t3)
    s = te.create_schedule(t4.op)
    replay.compute_at(s, t0, t4, -1)
    replay.compute_at(s, t1, t4, -1)
    assert (positions(s, t2, t3), depths(s, t3, t4)) == ([2, 3], [3, 3])
    assert loops(s, t2, t3) == ["[i0:i, i1:i, i2:b] of (i0, i1, i2)", "[i0:i, i1:b, i2:i, i3:b] of (i0, i1, i2, i3)"]
    lowered(s)


def test_from_four_axes_to_six():
    t0 = pointwise("T0", given(2, 3, 4, 5, name="A"))
    t1 = pointwise("T1", given(2, 3, 7, 4, 5, 6, name="B"))
    t2 = broadcast("T2", t0, 2, 5)
    t3 = over("T3", t1, t2)
    s = te.create_schedule(t3.op)
    i, j, k, m = t0.op.axis
    s[t0].fuse(k, m)
    s[t0].fuse(i, j)
    assert set(replay.propagate(s, t0)) == {t1, t2, t3}
    made = "of (i0, i1, i2, i3, i4, i5); fuse(i3, i4); fuse(i0, i1)"
    assert loops(s, t1, t2, t3) == [
        f"[i0.i1.fused:i, i3.i4.fused:i, i2:i, i5:i] {made}",
        f"[i0.i1.fused:i, i3.i4.fused:i, i2:b, i5:b] {made}",
        f"[i0.i1.fused:i, i3.i4.fused:i, i2:i, i5:i] {made}",
    ]
    lowered(s)


def test_what_matches_is_left():
    t0 = pointwise("T0", given(12, name="A"))
    t1 = broadcast("T1", t0, 0, 2)
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    s[t0].split(t0.op.axis[0], 2)
    s[t1].split(t1.op.axis[1], 2)
    s[t1].split(t1.op.axis[0], 4)
    before = replay.domain(s, t1)
    assert replay.propagate(s, t0) == (t2,)
    assert replay.domain(s, t1) == before
    kinds = replay.domain(s, t1).kinds
    assert [kinds[iv] for iv in s[t1].leaf_iter_vars] == ["b", "b", "i", "i", "b"]
    assert loops(s, t2) == [loops(s, t1)[0]]
    lowered(s)


def test_within():
    t0, t1 = pointwise("T0", given(60, name="A")), pointwise("T1", given(60, name="B"))
    t2 = pointwise("T2", t0, t1)
    s = te.create_schedule(t2.op)
    s[t2].split(t2.op.axis[0], 10)
    assert replay.propagate(s, t2, within=[t0]) == (t0,)
    assert loops(s, t0, t1) == ["[i0.outer:i, i0.inner:i] of (i0); split(i0, factor=10)", "[i0:i] of (i0)"]

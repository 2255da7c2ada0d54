"""Loop domains of small cases: the relations behind the loops of each tensor after the calls."""

from __future__ import annotations

import numpy as np
import pytest

from bound import replay, te
from bound.reference import evaluate
from lowering import lower, run
from tests.bound.replay.programs import broadcast, depths, given, over, pointwise, positions, reduced, two_reductions
from tests.bound.replay.test_cases import consumers, transposed


def loops(s, *tensors):
    """What `replay.domain` prints, without the name of the tensor."""
    return [str(replay.domain(s, t)).removeprefix(t.op.name) for t in tensors]


def runs(s, *outputs):
    """Lower, run and compare."""
    f = lower(s)
    sources = [p for p in f.params if not any(p.name == t.name for t in outputs)]
    rng = np.random.default_rng(1)
    arrays = {p.name: rng.integers(-3, 4, [int(e) for e in p.shape]).astype("float32") for p in sources}
    wanted = {t.name: evaluate(t, arrays) for t in outputs}
    found = {name: np.full_like(array, -99) for name, array in wanted.items()}
    run(f, {**arrays, **found})
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5)


WHOLE, ROWS = "[i0:i, i1:i] of (i0, i1)", "[i0:i] of (i0)"


def test_1_two_reductions():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    assert loops(s, *ts) == [WHOLE, *["[i0:i, r1:r] of (i0, r1)"] * 2, ROWS]
    runs(s, ts[3])


@pytest.mark.parametrize(("mode", "own"), [("best_effort", 1), ("most_inlined", 2)])
def test_2_outer_reductions(mode, own):
    s, ts = two_reductions(outer=True)
    replay.compute_at(s, ts[0], ts[1], 1, mode)
    assert positions(s, *ts) == [own, 0, 0, 0]
    assert loops(s, *ts) == [WHOLE, *["[r0:r, i0:i] of (i0, r0)"] * 2, ROWS]
    runs(s, ts[3])


SPLIT = "[i0.outer:i, i0.inner:i] of (i0); split(i0, factor=128)"


def test_3_several_consumers():
    ts, outputs, at = consumers(0)
    s = te.create_schedule([t.op for t in outputs])
    s[at].split(s[at].op.axis[0], 128)
    replay.compute_at(s, ts[0], at, 1)
    assert loops(s, *ts) == [SPLIT] * 3
    runs(s, *outputs)


@pytest.mark.parametrize("output", [False, True])
def test_4_and_7_common_consumer(output):
    ts, outputs, at = consumers(1, output)
    s = te.create_schedule([t.op for t in outputs])
    s[at].split(s[at].op.axis[0], 128)
    replay.compute_at(s, ts[0], at, 1)
    changed = [SPLIT] * (6 if output else 4)
    assert loops(s, *ts) == changed + ["[i0:i] of (i0)"] * (not output)
    assert depths(s, *ts) == ([0, 1, 1, 1, 1, 1] if output else [0, 1, 1, 1, 0])
    runs(s, *outputs)


@pytest.mark.parametrize("output", [False, True])
def test_5_and_6_common_consumer_far(output):
    ts, outputs, at = consumers(2, output)
    s = te.create_schedule([t.op for t in outputs])
    outer, _ = s[at].split(s[at].fuse(*s[at].op.axis), 128)
    s[at].split(outer, 4)
    replay.compute_at(s, ts[0], at, 1)
    made = "[i0.i1.fused.outer.outer:i, i0.i1.fused.outer.inner:i, i0.i1.fused.inner:i] of (i0, i1); fuse(i0, i1); "
    made += "split(i0.i1.fused, factor=128); split(i0.i1.fused.outer, factor=4)"
    assert loops(s, *ts) == [made] * len(ts)
    runs(s, *outputs)


def test_8_a_placeholder_is_the_producer():
    t0 = given(64, 32)
    t1, t2 = pointwise("T1", t0), pointwise("T2", t0)
    t3 = pointwise("T3", t1, t2)
    t4, t5 = pointwise("T4", t3), pointwise("T5", t3)
    t6, t7 = pointwise("T6", t5, t4), pointwise("T7", t5)
    s = te.create_schedule([t6.op, t7.op])
    s[t7].split(s[t7].fuse(*t7.op.axis), 128)
    replay.compute_at(s, t0, t7, 1)
    made = "[i0.i1.fused.outer:i, i0.i1.fused.inner:i] of (i0, i1); fuse(i0, i1); split(i0.i1.fused, factor=128)"
    assert loops(s, t1, t2, t3, t4, t5, t6, t7) == [made] * 7
    assert loops(s, t0) == ["[T0.0:i, T0.1:i] of (T0.0, T0.1)"]
    runs(s, t6, t7)


def test_9_what_an_earlier_call_made_stays():
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
    runs(s, t4, t7)


@pytest.mark.parametrize("most", [True, False])
def test_10_and_11_transposed(most):
    s, ts = transposed()
    if most:
        replay.inline_most(s)
    else:
        replay.inline_all_at(s, ts[0], -1, "best_effort")
    each = "[i0:i, i1:i, i2:i] of (i0, i1, i2)"
    assert loops(s, *ts) == [each, each, "[i:i, j:i, k:i] of (i, j, k)", each, each]
    runs(s, ts[0])


def test_14_inner_broadcast():
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
    runs(s, t10)


def test_15_a_broadcast_that_moved_inwards():
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
    runs(s, t3)


def test_16_two_broadcasts():
    t0, t1 = given(3, 6), given(3, 2, 6, 5, name="T1")
    t2 = broadcast("T2", t0, 2)
    t3 = broadcast("T3", t2, 1)
    t4 = over("T4", t1, t3)
    s = te.create_schedule(t4.op)
    replay.compute_at(s, t0, t4, -1)
    replay.compute_at(s, t1, t4, -1)
    assert (positions(s, t2, t3), depths(s, t3, t4)) == ([2, 3], [3, 3])
    assert loops(s, t2, t3) == ["[i0:i, i1:i, i2:b] of (i0, i1, i2)", "[i0:i, i1:b, i2:i, i3:b] of (i0, i1, i2, i3)"]
    runs(s, t4)


def test_20_only_the_first_loops():
    t1 = pointwise("T1", given(60))
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    outer, inner = s[t2].split(t2.op.axis[0], 10)
    s[t2].split(outer, 3)
    s[t2].split(inner, 5)
    assert replay.propagate(s, t2, 2) == (t1,)
    made = "[i0.outer.outer:i, i0.outer.inner:i, i0.inner:i] of (i0); split(i0, factor=10); split(i0.outer, factor=3)"
    assert loops(s, t1) == [made]


def test_21_from_four_axes_to_six():
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
    runs(s, t3)


def test_22_what_matches_is_left():
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
    runs(s, t2)


def test_23_within():
    t0, t1 = pointwise("T0", given(60, name="A")), pointwise("T1", given(60, name="B"))
    t2 = pointwise("T2", t0, t1)
    s = te.create_schedule(t2.op)
    s[t2].split(t2.op.axis[0], 10)
    assert replay.propagate(s, t2, within=[t0]) == (t0,)
    assert loops(s, t0, t1) == ["[i0.outer:i, i0.inner:i] of (i0); split(i0, factor=10)", "[i0:i] of (i0)"]


def test_24_the_order_of_the_spanning_tree():
    t0 = given(4, 5)
    t1 = reduced("T1", t0, 0)
    t2 = pointwise("T2", t1)
    s = te.create_schedule(t2.op)
    for _ in range(2):
        assert [repr(edge) for edge in replay.spanning_tree(s, t1)] == ["C2P T1->T0", "P2C T1->T2"]

"""Positions, loop counts and loop domains of small cases: a program, a few calls, and what they show."""

import pytest

from bound import replay
from bound.errors import ScheduleError
from tests.bound.replay.programs import check_shown, kinds, positions, refusal, two_reductions, written

TWO = """
    T0 = given(8, 9); T1 = pointwise(T0); T2 = reduced(T1, {0}, te.max); T3 = reduced(T1, {0}, te.min)
    T4 = pointwise(T2, T3)"""
OUTER = f"""{TWO.format(0)}
    T2 reorder r0 i0; T3 reorder r0 i0"""
ONE_COMMON = """
    T0 = given(1000); T1 = pointwise(T0); T2 = pointwise(T1); T3 = pointwise(T1)"""
TOGETHER = """
    T0 = given(8, 9)
    T[i:8, j:9] = (T0[i, j], T0[i, j] * 2, T0[i, j] * 3)
    T1, T2, T3 = T
    T4 = pointwise(T1, T2); T5 = pointwise(T3)
    T4 unroll i1"""
CHAINS = """
    TV0 = given(8); TV2 = given(8); TV1 = pointwise(TV0); TV3 = pointwise(TV1, TV2); TV4 = pointwise(TV3, TV0)
    TV5 = pointwise(TV3, TV4)"""

WHOLE, ROWS = "[i0:i, i1:i] of (i0, i1)", "[i0:i] of (i0)"
SPLIT = "[i0.outer:i, i0.inner:i] of (i0); split(i0, factor=128)"
SIX = "of (i0, i1, i2, i3, i4, i5); fuse(i3, i4); fuse(i0, i1)"

CASES = {
    **{
        f"two reductions, {mode}": (
            f"{TWO.format(1)}\no = compute_at(s, T1, T2, -1, '{mode}'); lowered(s)",
            {
                "positions T1 T2 T3 T4": [2, 1, 1, 0], "o.position": 2, "set(rules(o))": {"reduction"},
                "depths T1 T2 T3 T4": [0, 2, 2, 1],
                "loops T1 T2 T3 T4": [WHOLE, *["[i0:i, r1:r] of (i0, r1)"] * 2, ROWS],
            },
        )
        for mode in ("best_effort", "most_inlined")
    },
    **{
        f"outer reductions, {mode}": (
            f"{OUTER}\ne = refusal(s, T1, T2, 1); compute_at(s, T1, T2, 1, '{mode}'); lowered(s)",
            {
                "kinds(e)": ["position", "mode", "reorder", "recompute"], "positions T1 T2 T3 T4": [own, 0, 0, 0],
                "loops T1 T2 T3 T4": [WHOLE, *["[r0:r, i0:i] of (i0, r0)"] * 2, ROWS],
            },
        )
        for mode, own in (("best_effort", 1), ("most_inlined", 2))
    },
    "several consumers": (
        f"{ONE_COMMON}\nT3 split i0 128; compute_at(s, T1, T3, 1); lowered(s)",
        {"loops T1 T2 T3": [SPLIT] * 3, "positions T1 T2 T3": [1, 0, 0], "depths T1 T2 T3": [0, 1, 1]},
    ),
    "a broadcast, fused pairwise": (
        """
        T0 = given(2, 3, 4); T1 = pointwise(T0); T2 = pointwise(T1); T3 = broadcast(T2, 1, 3, 5); T4 = pointwise(T3)
        T3 fuse i0 i1; T3 fuse i2 i3; T3 fuse i4 i5; T4 fuse i0 i1; T4 fuse i2 i3; T4 fuse i4 i5
        inline_most(s); producer, reader = domain(s, T2), domain(s, T3)""",
        {
            "positions T4 T3 T2 T1": [3, 3, 3, 3],
            "matched_consumer_position(reader, producer, 3)": 3, "matched_producer_position(producer, reader, 3)": 3,
        },
    ),
    "persistent": (
        """
        T0 = given(8); T1 = given(8, 9); T2 = broadcast(T0, 1); T3 = over(T1, T2); T4 = pointwise(T3)
        T5 = reduced(T4); T6 = broadcast(T5, 1); T7 = over(T3, T6)
        o = compute_at(s, T3, T7, -1, "most_inlined")""",
        {"positions T3": [1], "('persistent', T3) in {(reason.rule, reason.tensor) for reason in o.reasons}": True},
    ),
    **{
        f"outputs together and an unrolled loop, {mode}": (
            f"{TOGETHER}; inline_at(s, T2, 2, '{mode}')", {"positions T1 T2 T3": [position] * 3}
        )
        for mode, position in (("best_effort", 1), ("standard", 2))
    },
    "rules of a reduction": (
        """
        T0 = given(4, 5, 6); T1 = pointwise(T0); T2 = reduced(T1, 1); T3 = pointwise(T2)
        T2 reorder i0 r1 i1
        d1, d2, d3 = domain(s, T1), domain(s, T2), domain(s, T3)
        tried = s.copy(); compute_at(tried, T1, T2, 2); inline_all_at(s, T2, 2, "best_effort")""",
        {
            "matched_producer_position(d1, d2, 2)": 2, "matched_consumer_position(d3, d2, 2)": 1,
            "[tried[t].compute_at_position for t in (T1, T2)]": [2, 0], "positions T1 T2": [2, 1],
        },
    ),
    "two broadcasts of one tensor": (
        """
        T0 = given(6); T1 = pointwise(T0); T2 = broadcast(T1, 0); T3 = broadcast(T1, 1)
        T4[i:6, j:6] = T2[0, j] + T3[i, 0]
        reasons = inline_most(s)""",
        {"positions T1 T2 T3": [0, 2, 1], "[r.rule for r in reasons if r.tensor is T1]": ["self_mapped"]},
    ),
    "read at a neighbour": (
        """
        T0 = given(8, 9); T1 = pointwise(T0)
        T2[i:8, j:8] = T1[i, j] + T1[i, j + 1]
        e = refusal(s, T1, T2, 2); o = compute_at(s.copy(), T1, T2, 2, "best_effort")""",
        {
            "[(r.rule, r.axis.name, r.allowed) for r in e.reasons]": [("unmapped", "j", 1)],
            "kinds(e)": ["position", "mode"], "(o.position, set(rules(o)))": (1, {"unmapped"}),
            "compute_at(s, T1, T2, 1).position": 1,
        },
    ),
    "loops of an earlier call stay": (
        """
        T0 = given(8, 9); T1 = pointwise(T0); T2 = pointwise(T1); T3 = pointwise(T2)
        compute_at(s, T1, T2, 1); T3 split i0 2; before = domain(s, T2)
        e = refusal(s, T1, T3, 1); o = compute_at(s, T1, T3, 1, "best_effort")""",
        {
            "'frozen' in rules(e)": True, "set(kinds(e)) >= {'position', 'mode'}": True, "o.position": 1,
            "positions T1 T2": [1, 0], "domain(s, T2) == before": True,
        },
    ),
    "from four axes to six": (
        """
        A = given(2, 3, 4, 5); B = given(2, 3, 7, 4, 5, 6); T0 = pointwise(A); T1 = pointwise(B)
        T2 = broadcast(T0, 2, 5); T3 = over(T1, T2)
        T0 fuse i2 i3; T0 fuse i0 i1; changed = propagate(s, T0); lowered(s)""",
        {
            "set(changed) == {T1, T2, T3}": True,
            "loops T1 T2 T3": [f"[i0.i1.fused:i, i3.i4.fused:i, i2:{k}, i5:{k}] {SIX}" for k in "ibi"],
        },
    ),
    "what matches is left": (
        """
        A = given(12); T0 = pointwise(A); T1 = broadcast(T0, 0, 2); T2 = pointwise(T1)
        T0 split i0 2; T1 split i1 2; T1 split i0 4; before = domain(s, T1); changed = propagate(s, T0)
        lowered(s); kinds = domain(s, T1).kinds; first, second = (str(domain(s, t))[2:] for t in (T1, T2))""",
        {
            "changed == (T2,)": True, "domain(s, T1) == before": True, "first == second": True,
            "[kinds[iv] for iv in s[T1].leaf_iter_vars]": ["b", "b", "i", "i", "b"],
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_case(name):
    text, expected = CASES[name]
    check_shown(written(text), expected)


def test_two_reductions_standard():
    s, ts = two_reductions()
    error = refusal(s, ts[0], ts[1], -1)
    assert kinds(error) == ["position", "mode", "recompute"]
    first = error.reasons[0]
    assert (first.rule, first.tensor, first.asked, first.allowed) == ("reduction", ts[1], 2, 1)
    assert positions(s, *ts) == [0, 0, 0, 0]
    wanted = {"position": [1, 1, 1, 0], "mode": [2, 1, 1, 0], "recompute": [0, 0, 0, 0]}
    for repair in error.repairs:
        tried = s.copy()
        o = repair.apply(tried)
        assert positions(tried, *ts) == wanted[repair.kind]
        assert (repair.kind == "recompute") == bool(o.clones)
    o = replay.compute_at(s, ts[0], ts[1], -1, repair="recompute")
    assert list(o.clones) == [ts[0]] and positions(s, *ts, o.clones[ts[0]]) == [0, 0, 0, 0, 2]


def test_chains():
    p = written(CHAINS)
    s, (tv0, tv1, tv3, tv4, tv5) = p.s, p("TV0 TV1 TV3 TV4 TV5")
    found = set(replay.dependency_chains(s, tv0, tv5))
    assert found == {(tv0, tv1, tv3, tv4, tv5), (tv0, tv1, tv3, tv5), (tv0, tv4, tv5)}
    assert set(replay.use_chains(s, tv3)) == {(tv3, tv4, tv5), (tv3, tv5)}
    assert replay.common_consumers(s, tv3) == (tv5,)
    assert replay.common_consumer(s, tv3, tv4) is tv5
    assert replay.producers(s, tv4) == (tv3, tv0) and replay.consumers(s, tv3) == (tv4, tv5)
    with pytest.raises(ScheduleError, match="TV1 does not depend on TV3"):
        replay.common_consumer(s, tv3, tv1)

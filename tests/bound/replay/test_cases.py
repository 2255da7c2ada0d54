"""Small cases: positions, loop counts, loop domains; nests as they are printed, explained, refused; sliding windows."""

import random
from typing import Any

import pytest

from bound import infer_bound, replay, te
from bound.errors import ScheduleError
from lowering import lower, to_c
from tests.bound.replay.programs import check_shown, lowered, positions, two_reductions, written
from tests.lowering.lowered import compile_c
from tests.strategies.written import Written
from tests.sweeps import daily


def shows_regions(s: Any, *tensors: Any) -> Any:
    """What is inferred; computed regions contain required ones."""
    b = infer_bound(s)
    assert all(b.required(t) <= b.computed(t) for t in tensors)
    return b


NAMES = {"inferred": shows_regions}
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
SOFTMAX = """
    T0 = given(8, 9); T1 = reduced(T0, by=te.max); T2 = broadcast(T1, 1); T3 = over(T0, T2); T4 = reduced(T3)
    T5 = broadcast(T4, 1); T6 = over(T3, T5)"""
TWO_BROADCASTS = """
    T0 = given(6); T1 = pointwise(T0); T2 = broadcast(T1, 0); T3 = broadcast(T1, 1)
    T4[i:6, j:6] = T2[0, j] + T3[i, 0]"""
TRANSPOSED = """
    T0 = given(8, 9); T1 = pointwise(T0)
    T2[i:9, j:8] = T1[j, i] * 2
    T3 = pointwise(T2)"""
WIDER = """
    T0 = given(8, 9); T1 = pointwise(T0)
    {}
    T3 = broadcast(T1, 1)
    T4[i:8, j:5, k:9] = T3[i, 0, k] + j"""

CASES = {
    # -- positions and domains
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
    # -- nests
    "a guard around all stages of a loop": (
        """
        n = var(); T0 = given(n, 9); T1 = pointwise(T0); T2 = reduced(T1, by=te.max); T3 = reduced(T1, by=te.min)
        T4 = pointwise(T2, T3)
        T4 split i0 4; compute_at(s, T1, T4, 2); inline_most(s); text = lowered(s, {"n": 8})""",
        {"text.count(' if '), text.count('for ')": (1, 3)},
    ),
    "fused and split loops run once": (
        """
        T0 = given(8, 9); T1 = pointwise(T0); T2 = pointwise(T1)
        T2 fuse i0 i1; T2 split i0.i1.fused 5; compute_at(s, T1, T2, 2); text = lowered(s); b = inferred(s, T1)""",
        {
            "text.count('for '), text.count(' if ')": (2, 1),
            "int(b.required(T1).count_max()), int(b.required(T1).count_total())": (1, 72),
        },
    ),
    **{
        f"everything inlined, {how}": (f"{text}\ninline_most(s); lowered(s, **{how})\ninferred(s, {named})", {})
        for text, named in ((SOFTMAX, "T0, T1, T2, T3, T4, T5, T6"), (TWO_BROADCASTS, "T0, T1, T2, T3, T4"),
                            (TRANSPOSED, "T0, T1, T2, T3"))
        for how in ({}, {"compact": True}, {"nests": "split"})
    },
    # T2 has no axis for what T4 fuses: it is computed anew there. Of a reduction nothing is added twice.
    "a stage in a loop longer than its own": (
        f"""{WIDER.format("T2 = pointwise(T1); R = reduced(T1)")}
        schedule T2 R T4
        T4 fuse i j; T4 split i.j.fused 3
        first = compute_at(s, T1, T4, 2).position; was = [s[t].compute_at_position for t in (T1, T3)]
        text = lowered(s); b = inferred(s, T1, T2, R, T3, T4)
        axes = [iv in b for t in (T1, T2, R, T3, T4) for iv in s[t].all_iter_vars]
        o = compute_at(s, T1, T4, -1, "best_effort")""",
        {
            "first, was, all(axes), o.position": (2, [2, 2], True, 2), "'reduction' in rules(o)": False,
            "text.count('fused.outer in'), text.count('fused.inner in')": (1, 1),
        },
    ),
    # R reduces over i in a loop of T4; the loop j, which R lacks, must not enclose the loop of R
    "a reduction has no loop of others inside": (
        f"""{WIDER.format("R = reduced(T1, 0)")}
        R reorder r0 i0; o = compute_at(s, T1, T4, 3, "best_effort"); lowered(s)""",
        {"o.position, rules(o)": (1, ["mismatch"])},
    ),
    **{
        f"guards of symbolic sizes, {pos}": (  # only the end of the fused loop needs one
            f"""
        n = var(); m = var(); T0 = given(n, m); T1 = pointwise(T0); T2 = pointwise(T1)
        T3[i:m, j:n] = T2[j, i] + T1[j, i]
        T3 fuse i j; T3 split i.j.fused 8; o = compute_at(s, T1, T3, {pos}); text = lowered(s, {{"n": 8, "m": 9}})
        b = inferred(s)""",
            {
                "o.position, text.count(' if ')": (pos, conditions),
                "all(len(b.nest(t).guards) <= 2 for t in (T1, T2, T3))": True,
            },
        )
        for pos, conditions in ((1, 0), (2, 1))
    },
    # T1 is computed in the loop of T4 also where n is 0: it is what its sum starts from
    "an output of a reduction over nothing": (
        """
        n = var(); A = given(3, n, dtype="int32"); T1 = reduced(A)
        T4[i:3] = T1[i] * 2 + 5
        schedule T1 T4
        compute_at(s, T1, T4, 1); b = inferred(s); lowered(s, {"n": 0}); lowered(s, {"n": 2})""",
        {"b.nest(T1).guards": ()},
    ),
    **{
        # five elements of T2 are needed in each iteration of the loop that T3 made of axes T2 has only one of
        f"a loop that others run is none of a stage, {how}, {order}": (
            f"""
        T0 = given(5); T1 = pointwise(T0); T2 = broadcast(T1, 0)
        T3[i:3, j:5] = T2[0, j] * 2 + i
        T3 fuse i j; T3 split i.j.fused {how}; T3 reorder {order}; compute_at(s, T1, T3, 1); b = inferred(s)
        text = lowered(s, nests="guard")""",
            {
                "positions T1 T2": [1, 1], "text.count('for ')": 4,
                "[str(b[s[t].leaf_iter_vars[0]].extent) for t in (T1, T2)]": ["1", "1"],
            },
        )
        for how in ("nparts=2", "factor=4", "nparts=3")
        for order in ("i.j.fused.outer i.j.fused.inner", "i.j.fused.inner i.j.fused.outer")
    },
    # the place is not computed, however the guards of producer and reader are written
    "what is kept at one place is read there": (
        """
        n = var(); T0 = given(n); T1 = pointwise(T0); T2 = pointwise(T1)
        schedule T1 T2
        T2 split i0 nparts=3
        T3 = s.cache_read(T1, "global", [T2])
        inline_at(s, T3, -1, "best_effort"); compute_at(s, T1, T2, -1, "best_effort")""",
        {"'T1.global[0]' in lowered(s, {'n': 8})": True},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_case(name):
    text, expected = CASES[name]
    check_shown(written(text, **NAMES), expected)


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


def test_two_reductions_in_one_loop():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    assert lowered(s).count("for ") == 2
    b = infer_bound(s)
    assert [b[iv].extent.data for iv in s[ts[0]].leaf_iter_vars] == [1, 1]
    assert len(b.required(ts[0]).params) == 2
    assert "T1, T2 and T3 share T3.r1" in b.explain(ts[0])


def test_a_place_that_only_an_allocation_depends_on_is_no_parameter():
    """M is allocated at [i, j], but its computation does not use i; C compilers warn of unused parameters."""
    p = written("""
        n = var(); A = given(n, 2, n); T = pointwise(A); M = reduced(T, 1, te.max); C = pointwise(M)
        U[i:n, q:2, j:n] = T[i, q, j] - C[i, j]""")
    replay.compute_at(p.s, p.T, p.U, 1)
    replay.inline_at(p.s, p.M, 2)
    compile_c(to_c(lower(p.s)))


def test_loops_over_which_something_is_kept_or_reduced_are_not_parallel() -> None:
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    with pytest.raises(ScheduleError, match="cannot be parallelized"):
        s[ts[0]].parallel(ts[0].op.axis[1])
    s, ts = two_reductions()
    s[ts[0]].parallel(ts[0].op.axis[1])
    o = replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    assert o.position == 1 and "kind" in {reason.rule for reason in o.reasons}
    p = kept(f"{SHARED}; B compute_at C y")
    with pytest.raises(ScheduleError, match=r"iterations of y of C compute, but .* a loop of several stages"):
        p.then("B store_root")
    assert p.s[p.B].store_type is None
    lowered(p.s)
    p = kept("B compute_at C x; B store_at C y")
    for call in ("C parallel x", "C vectorize x", "C bind x threadIdx.x"):
        with pytest.raises(ScheduleError, match="to keep what iterations of x of C compute"):
            p.then(call)
    with pytest.raises(replay.ReplayError, match="x"):
        replay.compute_at(p.s, p.C, p.D, 2)
    replay.compute_at(p.s, p.C, p.D, 1)
    lowered(p.s)


def test_what_is_stored_in_every_iteration_is_in_no_parallel_loop():
    """T0 has no axis for i: where it is an output, iterations of i would store the same elements."""
    t0, t1, t2 = written("""
        A = given(4, 5)
        T0[j:5] = A[0, j] + 1
        T1[i:4, j:5] = T0[j] * A[i, j]
        T2 = pointwise(T1)""")("T0 T1 T2")
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


SHARED = "compute_at(s, C, D, 1); compute_at(s, E, D, 1)"


def kept(calls: str = SHARED) -> Written:
    """Two stages that can share loops, E and C, and D which reads both; B is read by C through a window."""
    return written(f"""
        A = given(12, 14, dtype="int32"); B = pointwise(A)
        C[y:10, x:12] = B[y, x] + B[y, x + 1] + B[y + 2, x + 2]
        E[y:10, x:12] = A[y, x] - 1
        D[y:10, x:12] = C[y, x] + E[y, x]
        {calls}""")


def random_kept(seed: int, **how: Any) -> bool:
    """Random calls that place B and share loops; whether anything was kept. What is accepted is lowered and runs."""
    rng = random.Random(seed)
    s, B, C, D, E = kept("" if rng.random() < 0.5 else SHARED)("s B C D E")
    for _ in range(6):
        at = s[rng.choice((C, D, E))]
        loop = rng.choice(at.leaf_iter_vars)
        call = rng.choice(("compute_at", "store_at", "store_at", "share", "parallel", "unroll"))
        try:
            if call == "share":
                replay.compute_at(s, rng.choice((C, E)), D, rng.randint(1, 2), rng.choice(("standard", "best_effort")))
            elif call in ("parallel", "unroll"):
                getattr(at, call)(loop)
            elif call == "compute_at" or s[B].attach_ivar is not None:
                getattr(s[B], call)(at, loop)
        except ScheduleError:
            continue
    try:
        lowered(s, **how)
    except ScheduleError as error:  # a reader outside of the loop, or a storage elsewhere: a later call may mend that
        if "is outside that loop" not in str(error) and "is not around" not in str(error):
            raise AssertionError(f"the calls of seed {seed} were accepted") from error
        return False
    return s[B].store_type is not None


@pytest.mark.parametrize(
    ("seeds", "how", "least"),
    daily([(range(20), {"compute": "exact", "nests": "guard"}, 2), (range(100, 1500), {}, 100)], 2),
)
def test_random_places_that_are_accepted_are_lowered(seeds: range, how: dict[str, str], least: int) -> None:
    assert sum(random_kept(seed, **how) for seed in seeds) >= least

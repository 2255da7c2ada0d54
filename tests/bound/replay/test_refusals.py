"""Refusals of replay: bad input, reasons with repairs and clones; annotations of shared loops, allowed and refused."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, replay, te, tir
from bound.errors import InputError, ScheduleError
from bound.schedule import Schedule, Split
from bound.tensor import Tensor
from lowering import lower
from lowering.cli.inputs import ScriptSchedule
from lowering.cli.plot import picture_of
from tests.bound.reference import evaluate
from tests.bound.replay.programs import MODES, Dag, given, lowered, positions, refusal, two_reductions, written
from tests.strategies.schedules import state_of
from tests.sweeps import daily


def program():
    p = written("T0 = given(8, 9); T1 = pointwise(T0); T2 = pointwise(T1); R = reduced(T2); T4 = pointwise(R)")
    ts = p("T1 T2 R T4")
    replay.compute_at(p.s, ts[0], ts[2], 1)
    assert positions(p.s, *ts) == [1, 1, 0, 0]
    return p.s, ts


def intrinsic():
    a = te.placeholder((9,), name="a")
    c = te.compute((9,), lambda i: a[i] + 1, name="c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: tir.call_packed("f"))


THREAD = te.thread_axis("threadIdx.x")


def leaves(s, t):
    return s[t].leaf_iter_vars


def means_the_same(s: Schedule, *tensors: Tensor) -> None:
    """The nest computes the values of the operations, and rewriting kept these values."""
    given = {"T0": np.linspace(-3, 5, 72, dtype="float32").reshape(8, 9)}
    lowered(s)
    for t in tensors:
        np.testing.assert_allclose(evaluate(s.current(t), given), evaluate(t, given), rtol=1e-5)


def refused(s, error, text, call, *args):
    """The call is refused with this sentence, twice, and changes nothing; gives the sentence."""
    before = state_of(s)
    for _ in range(2):
        with pytest.raises(error) as info:
            call(*args)
        assert type(info.value) is error
        assert text in str(info.value) and "\n" not in str(info.value)
    assert state_of(s) == before
    return str(info.value)


REFUSED = {  # a call, and how its refusal begins; t is T1, T2, R and T4, of which the first three share i0
    "s[t[1]].split(leaves(s, t[1])[0], 2)": "T2: cannot split i0, which is",
    "s[t[0]].split(leaves(s, t[0])[0], nparts=2)": "T1: cannot split i0, which is",
    "s[t[1]].fuse(*leaves(s, t[1]))": "T2: cannot fuse i0, which is",
    "s[t[1]].fuse()": "T2: fuse of no axes would take away i0,",
    "s[t[2]].reorder(*reversed(leaves(s, t[2])))": "R: cannot reorder i0, which is",
    "s[t[1]].tile(*leaves(s, t[1]), 2, 2)": "T2: cannot tile i0, which is",
    "s[t[1]].vectorize(leaves(s, t[1])[0])": "T2: cannot vectorize i0, which is",
    "s[t[1]].pragma(leaves(s, t[1])[0], 'vectorize')": "T2: cannot vectorize i0, which is",
    "s[t[1]].compute_at(s[t[3]], t[3].op.axis[0])": "T2: compute_at would take away i0,",
    "s[t[1]].compute_root()": "T2: compute_root would take away i0,",
    "s[t[0]].compute_inline()": "T1: compute_inline would take away i0,",
    "s.cache_read(t[1], 'local', [t[2]])": "T2: cache_read would take away i0,",
    "s.cache_write(t[1], 'local')": "T2: cache_write would take away i0,",
    "s.rfactor(t[2], leaves(s, t[2])[-1])": "R: rfactor would take away i0,",
    "s[t[1]].tensorize(leaves(s, t[1])[0], intrinsic())": "T2: tensorize would take away i0,",
    "s[t[1]].tensorize(leaves(s, t[1])[1], intrinsic())": "T2: tensorize would take away i0,",
    "s.create_group(t[2], t[0])": "T2: create_group would take away i0,",
    "s.create_group(t[1], t[0], include_inputs=True)": "T1: create_group would take away i0,",
}


@pytest.mark.parametrize("call", REFUSED)
def test_what_would_take_a_shared_loop_is_refused(call):
    s, t = program()
    text = refused(s, ScheduleError, REFUSED[call], eval, call, {**globals(), "s": s, "t": t})
    assert text.startswith("stage ") and text.endswith("loop of other stages as well")


CONTRARY = {  # an annotation, a contradicting annotation, and the refusal
    ("bind(T1, x)", "bind(T2, y)"): ("T2", "bound to threadIdx.y", "T1, which is no such loop"),
    ("bind(T2, x)", "unroll(R)"): ("R", "unrolled", "T2, which cannot"),
    ("unroll(R)", "bind(T1, x)"): ("T1", "bound to threadIdx.x", "R, which is no such loop"),
    ("unroll(R)", "parallel(T2)"): ("T2", "parallelized", "R, which cannot"),
}


@pytest.mark.parametrize("calls", CONTRARY, ids=" ".join)
def test_contrary_annotations(calls):
    s, ts = program()

    def annotate(kind):
        return lambda stage, *thread: getattr(stage, kind)(stage.leaf_iter_vars[0], *thread)

    names = {kind: annotate(kind) for kind in ("bind", "unroll", "parallel")} | {t.name: s[t] for t in ts}
    names |= {"x": THREAD, "y": te.thread_axis("threadIdx.y")}
    eval(calls[0], names)
    stage, what, other = CONTRARY[calls]
    text = f"stage {stage}: i0 cannot be {what}, it is one loop with i0 of {other}"
    assert refused(s, ScheduleError, text, eval, calls[1], names) == text


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_annotation_holds_for_the_loop(at):
    for call, shown in (
        (lambda stage, iv: stage.bind(iv, THREAD), "i0 in [0, 8) on threadIdx.x"),
        (lambda stage, iv: stage.parallel(iv), "i0 in [0, 8) parallel"),
        (lambda stage, iv: stage.unroll(iv), "i0 in [0, 8) unroll"),
    ):
        s, ts = program()
        call(s[ts[at]], leaves(s, ts[at])[0])
        text = str(lower(s))
        assert text.count(shown) == 1, text


def test_explain_plots_and_refusals_name_the_stages():
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    b = infer_bound(s)
    shares = "T1, T2, T3 and T4 share T4.i0; T1, T2 and T3 share T3.r1"
    assert f"T1: computed inside T4.i0, T3.r1; {shares}" in b.explain(ts[0])
    assert "T2: computed inside T4.i0" in b.explain(ts[1])
    picture = picture_of(ScriptSchedule("x", s), {}, stage="T1")
    assert picture.instance == (("T4.i0", 0), ("T3.r1", 0))
    picture = picture_of(ScriptSchedule("x", s), {}, stage="T1", instance={"T3.r1": 4, "T4.i0": 3})
    assert dict(picture.instance) == {"T4.i0": 3, "T3.r1": 4}
    s, ts = two_reductions()
    with pytest.raises(replay.ReplayError, match=r"T2 can share 1 loop, not 2: .*; what works instead: position 1"):
        replay.inline_at(s, ts[1], 2)


def annotated(d: Dag, s: Schedule, times: int) -> int:
    """Annotate loops, mostly shared ones; whatever is accepted lowers and equals numpy."""
    rng, accepted = d.rng, 0
    for _ in range(times):
        stage = s[rng.choice([t for t in d.computed() if t in s])]
        leaves: list[Any] = stage.leaf_iter_vars
        if not leaves:
            continue
        shared = leaves[: stage.shared_loops]
        leaf = rng.choice(shared if shared and rng.random() < 0.7 else leaves)
        kind = rng.choice(("parallel", "parallel", "unroll", "bind"))
        thread = te.thread_axis(rng.choice(("blockIdx.x", "threadIdx.x", "vthread")))
        args = (leaf, thread) if kind == "bind" else (leaf,)
        before, copied = state_of(s), s.copy()
        refused = what_is_said(getattr(copied[stage.op], kind), *args)
        wrong = "" if refused else what_is_said(d.check, copied)
        assert state_of(s) == before and (not refused or stage.name in refused)
        assert not wrong or "which is not known to be the extent" in wrong or is_moved(s, wrong), wrong
        if not refused and not wrong:
            getattr(stage, kind)(*args)
            accepted += 1
    return accepted


def what_is_said(call: Callable[..., object], *args: Any) -> str:
    """The refusal of a call; empty where it is accepted."""
    try:
        call(*args)
    except ScheduleError as error:
        return str(error)
    return ""


def is_moved(s: Schedule, said: str) -> bool:
    """Whether some stage has tiles that are moved back and compute elements twice, of which a race is reported."""
    shifts = any(isinstance(r, Split) and r.tail == "shift_inwards" for stage in s.stages for r in stage.relations)
    return shifts and "run in parallel, but" in said


def tried(seed: int) -> tuple[int, int]:
    """A program annotated, called and annotated in turn; gives how much was accepted and how much is shared."""
    d = Dag.wide(seed) if seed % 3 == 0 else Dag(seed, 7, symbolic=seed % 4 == 0)
    s = d.schedule()
    d.transform(s, d.rng.randint(0, 5))
    accepted = annotated(d, s, 2) if seed % 2 else 0
    for _ in range(2):
        d.call(s)
        d.check(s.copy())
        accepted += annotated(d, s, 2)
    d.call(s)
    d.check(s)
    return accepted, sum(stage.compute_at_position for stage in s.stages)


@pytest.mark.parametrize(
    ("seeds", "some", "shared"),
    daily([(range(4), 5, 2), *((range(k, k + 500), 801, 201) for k in range(100, 1600, 500))], 9),
)
def test_loops_that_are_annotated(seeds, some, shared):
    found = [tried(seed) for seed in seeds]
    assert sum(accepted for accepted, _ in found) >= some and sum(loops > 0 for _, loops in found) >= shared


POSITIONS = {
    **dict.fromkeys(("3", "-4", "10**30"), "is outside -3..2: it has 2 loops"),
    **dict.fromkeys(("True", "1.0", "'1'", "None"), "a position is an integer, not"),
}
PLACED = (
    *("compute_at(s, t1, t2, {}, mode)", "inline_at(s, t2, {}, mode)", "inline_all_at(s, t2, {}, mode)"),
    *("propagate(s, t2, {})", "spanning_tree(s, t2, {})", "matched_producer_position(d1, d2, {})"),
    *("replay_producer_as_consumer(d1, d2, {})", "matched_consumer_position(d2, d1, {})"),
    "replay_consumer_as_producer(d2, d1, {})",
)
ASKED = ("domain", "spanning_tree", "use_chains", "producers", "consumers")
WRONG: list[tuple[str, type[Exception], str]] = [  # a call, tried in every mode, its error, and words of that
    *((call.format(pos), InputError, words) for call in PLACED for pos, words in POSITIONS.items()),
    ("compute_at(s, t1, t4, 5)", InputError, "position 5 of T4 is outside -2..1: it has 1 loop"),
    *(
        (call, ScheduleError, "other has no stage in this schedule")
        for call in ("compute_at(s, other, t2, 1, mode)", "compute_at(s, t1, other, 1, mode)",
                     *(f"{name}(s, other, 1, mode)" for name in ("inline_at", "inline_all_at")),
                     *(f"{name}(s, other)" for name in ASKED))
    ),
    *(
        (call.format(given), InputError, "a tensor is needed, not")
        for call in ("compute_at(s, {}, t2, 1, mode)", "inline_at(s, {}, 1, mode)")
        for given in ("t1.op", "'T1'", "None")
    ),
    *(
        (call.format(f"{first}, {second}"), ScheduleError, words)
        for call in ("compute_at(s, {}, 1, mode)", "common_consumer(s, {})")
        for first, second, words in (
            ("t1", "t1", "T1 is given as what it is read by, but it does not read itself"),
            ("t4", "t4", "T4 is given as what it is read by, but it does not read itself"),
            ("t2", "t1", "T1 does not depend on T2, not even through other tensors"),
            ("t2", "t3", "T3 does not depend on T2, not even through other tensors"),
            ("t4", "t1", "T1 does not depend on T4, not even through other tensors"),
        )
    ),
    *(
        (call.format(mode), InputError, "mode must be one of standard, best_")
        for call in ("compute_at(s, t1, t2, 1, {})", "inline_at(s, t1, 1, {})", "inline_all_at(s, t1, 1, {})")
        for mode in ("'all'", "''", "None", "1", "['standard']")
    ),
    *(
        (f"compute_at(s, t1, t2, 1, repair={given})", InputError, "repair must be None or 'recompute', not")
        for given in ("'clone'", "''", "True", "'position'")
    ),
    *((f"propagate(s, t2, 1, {within})", InputError, "") for within in ("t1", "1", "[t1.op]")),
    *((f"{name}(t1, t1)", InputError, "te.create_schedule") for name in ASKED),
    ("inline_most(t1)", InputError, "te.create_schedule"),
    ("matched_producer_position(t1, t2, 1)", InputError, "replay.domain"),
    ("matched_producer_position(d1, domain(s, t4), 1)", InputError, "T4 does not read T1"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), WRONG)
def test_a_wrong_call_is_told_in_a_sentence(call, error, words):
    s, ts = two_reductions()
    names = {**vars(replay), "s": s, "other": given(8, 9, name="other")}
    names |= {f"t{k}": t for k, t in enumerate(ts, 1)} | {f"d{k}": replay.domain(s, t) for k, t in enumerate(ts[:2], 1)}
    for mode in MODES if "mode" in call else MODES[:1]:
        refused(s, error, words, eval, call, {**names, "mode": mode})


PLAIN = "T2 = pointwise(T1)"
KINDS = {  # what T2 is, a call, and the refusal
    "inlined": (PLAIN, "T2 compute_inline", "T2: {} but it is inlined"),
    "placed": (PLAIN, "T2 compute_at T3 i0", "T2: {} but it is placed in a loop of T3 by compute_at"),
    "grouped": (PLAIN, "s.create_group(T2, T1)", "T2: {} but it belongs to a group"),
    "tensorized": (PLAIN, "s[T2].tensorize(T2.op.axis[1], intrinsic())", "T2: {} but it is tensorized"),
    "extern": (
        'T2 = te.extern((8, 9), [T1], lambda ins, outs: tir.call_packed("copy", ins[0], outs[0]), name="T2")', "",
        "T2: {} but it is extern",
    ),
    "scan": (
        """state = given(8, 9)
        init[_:1, i:9] = T1[0, i]
        up[t:8, i:9] = state[t - 1, i] + T1[t, i]
        T2 = te.scan(init, up, state, inputs=[T1], name="T2")""", "", "up: {} but it is a part of the scan T2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_that_cannot_be_moved(kind):
    definition, call, words = KINDS[kind]
    p = written(
        f"""
        T0 = given(8, 9); T1 = pointwise(T0)
        {definition}
        T3 = pointwise(T2); T4 = pointwise(T3)
        schedule T4
        {call}""",
        intrinsic=intrinsic,
    )
    s, t1, t2, t3, t4 = p("s T1 T2 T3 T4")
    its = words.split("but it ")[1].replace("a part of the scan T2", "a scan")
    words = words.format("compute_at of T1 at T3 would have to move it,")
    refused(s, ScheduleError, f"stage {words}", replay.compute_at, s, t1, t3, 1)
    for mode in MODES:
        text = f"stage T2: compute_at of T2 at T4 would have to move it, but it {its}"
        refused(s, ScheduleError, text, replay.compute_at, s, t2, t4, 1, mode)
        if kind != "extern":  # it has no loops
            refused(s, ScheduleError, f"would have to move it, but it {its}", replay.inline_at, s, t2, 1, mode)
    for mode in MODES[1:]:
        tried = s.copy()
        replay.compute_at(tried, t1, t4, 1, mode)
        assert positions(tried, t2) == [0]
    if kind == "inlined":
        for mode in MODES:
            text = "stage T2: compute_at of T1 at T2 needs its loops, but it is inlined"
            refused(s, ScheduleError, text, replay.compute_at, s, t1, t2, 1, mode)
    if kind not in ("extern", "scan"):  # through these no loop is the same
        changed = s.copy()
        changed[t4].split(t4.op.axis[0], 2)
        refused(changed, ScheduleError, "propagate would have to change its loops, but", replay.propagate, changed, t4)
    assert replay.compute_at(s, t3, t4, 1).position == 1
    replay.inline_most(s)
    assert positions(s, t2) == [0]


@pytest.mark.parametrize("call", [replay.compute_at, replay.inline_at, replay.inline_all_at])
def test_a_refusal_survives_copying_and_pickling(call):
    s, ts = two_reductions()
    args = (ts[0], ts[1], -1) if call is replay.compute_at else (ts[1], 2)
    error = refusal(s, *args, call=call)
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


def test_what_is_cloned_breaks_no_earlier_call():
    # An output, what it reads, and what another reader needs; with loops; only the chain reads the clones.
    p = written("""
        T0 = given(8, 9); T1 = pointwise(T0); T2 = pointwise(T1); T3 = reduced(T2); T4 = pointwise(T3)
        U = reduced(T2, by=te.max)
        schedule T2 T4 U
        T1 split i1 4""")
    s, (t1, t2, t3, other) = p.s, p("T1 T2 T3 U")
    o = replay.compute_at(s, t1, t3, 2, repair="recompute")
    assert list(o.clones) == [t1, t2] and o.position == 2
    assert positions(s, t1, t2, *o.clones.values()) == [0, 0, 2, 2]
    assert [iv.name for iv in s[t1].leaf_iter_vars] == ["i0", "i1.outer", "i1.inner"]
    assert s.current(t3).op.input_tensors == (o.clones[t2],) and s.current(other).op.input_tensors == (t2,)
    means_the_same(s, *p("T2 T4 U"))
    # What a reader shares with the original it shares with the clone, so that no position falls.
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


def test_domains_are_values():
    s, ts = two_reductions()
    d = replay.domain(s, ts[1])
    assert d == replay.domain(s, ts[1]) and hash(d) == hash(replay.domain(s, ts[1]))
    assert not hasattr(d.kinds, "update") and d.kinds == {d.root[0]: "i", d.root[1]: "r"}
    with pytest.raises(AttributeError):
        d.loop = ()
    stored, again = pickle.loads(pickle.dumps((s, d)))
    assert str(again) == str(d) == "T2[i0:i, r1:r] of (i0, r1)" and again.op is stored.stages[2].op

"""Annotations, names and kinds of shared loops: allowed and refused ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, replay, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule, Split
from lowering import lower, run
from lowering.cli.inputs import ScriptSchedule
from lowering.cli.plot import picture_of
from tests.bound.reference import evaluate
from tests.bound.replay.programs import given, pointwise, positions, reduced, two_reductions
from tests.bound.replay.random_dags import Dag
from tests.bound.replay.test_random import dump
from tests.sweeps import daily


def program():
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    total = reduced("R", t2)
    t4 = pointwise("T4", total)
    s = te.create_schedule(t4.op)
    replay.compute_at(s, t1, total, 1)
    assert positions(s, t1, t2, total, t4) == [1, 1, 0, 0]
    return s, (t1, t2, total, t4)


def intrinsic():
    a = te.placeholder((9,), name="a")
    c = te.compute((9,), lambda i: a[i] + 1, name="c")
    return te.decl_tensor_intrin(c.op, lambda ins, outs: tir.call_packed("f"))


THREAD = te.thread_axis("threadIdx.x")


def leaves(s, t):
    return s[t].leaf_iter_vars


REFUSED = {
    "split": (lambda s, t: s[t[1]].split(leaves(s, t[1])[0], 2), "T2: cannot split i0, which is"),
    "nparts": (lambda s, t: s[t[0]].split(leaves(s, t[0])[0], nparts=2), "T1: cannot split i0, which is"),
    "fuse": (lambda s, t: s[t[1]].fuse(*leaves(s, t[1])), "T2: cannot fuse i0, which is"),
    "fuse nothing": (lambda s, t: s[t[1]].fuse(), "T2: fuse of no axes would take away i0,"),
    "reorder": (lambda s, t: s[t[2]].reorder(*reversed(leaves(s, t[2]))), "R: cannot reorder i0, which is"),
    "tile": (lambda s, t: s[t[1]].tile(*leaves(s, t[1]), 2, 2), "T2: cannot tile i0, which is"),
    "vectorize": (lambda s, t: s[t[1]].vectorize(leaves(s, t[1])[0]), "T2: cannot vectorize i0, which is"),
    "pragma": (lambda s, t: s[t[1]].pragma(leaves(s, t[1])[0], "vectorize"), "T2: cannot vectorize i0, which is"),
    "compute_at": (lambda s, t: s[t[1]].compute_at(s[t[3]], t[3].op.axis[0]), "T2: compute_at would take away i0,"),
    "compute_root": (lambda s, t: s[t[1]].compute_root(), "T2: compute_root would take away i0,"),
    "compute_inline": (lambda s, t: s[t[0]].compute_inline(), "T1: compute_inline would take away i0,"),
    "cache_read": (lambda s, t: s.cache_read(t[1], "local", [t[2]]), "T2: cache_read would take away i0,"),
    "cache_write": (lambda s, t: s.cache_write(t[1], "local"), "T2: cache_write would take away i0,"),
    "rfactor": (lambda s, t: s.rfactor(t[2], leaves(s, t[2])[-1]), "R: rfactor would take away i0,"),
    "tensorize": (lambda s, t: s[t[1]].tensorize(leaves(s, t[1])[0], intrinsic()), "T2: tensorize would take away i0,"),
    "tensorize inside": (
        lambda s, t: s[t[1]].tensorize(leaves(s, t[1])[1], intrinsic()),
        "T2: tensorize would take away i0,",
    ),
    "create_group": (lambda s, t: s.create_group(t[2], t[0]), "T2: create_group would take away i0,"),
    "create_group with inputs": (
        lambda s, t: s.create_group(t[1], t[0], include_inputs=True),
        "T1: create_group would take away i0,",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_would_take_a_shared_loop_is_refused(case):
    s, ts = program()
    call, sentence = REFUSED[case]
    before = dump(s)
    for _ in range(2):
        with pytest.raises(ScheduleError) as info:
            call(s, ts)
        assert str(info.value).startswith(f"stage {sentence}") and str(info.value).endswith(
            "loop of other stages as well"
        )
    assert dump(s) == before


def test_what_is_left_to_a_stage():
    """Loops behind the shared ones, storage, copies of what is read; inlining by rule leaves shared loops alone."""
    s, (t1, t2, _, t4) = program()
    s[t2].split(leaves(s, t2)[1], 4)
    s[t1].reorder(*leaves(s, t1))
    s[t1].set_scope("local")
    s[t2].double_buffer()
    s.cache_read(t1.op.input_tensors[0], "local", [t1])
    te.schedule.AutoInlineInjective(s)
    assert positions(s, t1, t2) == [1, 1]
    numbers = np.arange(72, dtype="float32").reshape(8, 9)
    out = np.zeros(8, "float32")
    run(lower(s), {"T0": numbers, s.current(t4).name: out})
    np.testing.assert_allclose(out, evaluate(t4, {"T0": numbers}))


CONTRARY = {
    "another thread": (
        lambda s, t: s[t[0]].bind(leaves(s, t[0])[0], THREAD),
        lambda s, t: s[t[1]].bind(leaves(s, t[1])[0], te.thread_axis("threadIdx.y")),
        "T2: i0 cannot be bound to threadIdx.y, it is one loop with i0 of T1, which is no such loop",
    ),
    "unrolled, bound": (
        lambda s, t: s[t[1]].bind(leaves(s, t[1])[0], THREAD),
        lambda s, t: s[t[2]].unroll(leaves(s, t[2])[0]),
        "R: i0 cannot be unrolled, it is one loop with i0 of T2, which cannot",
    ),
    "bound, unrolled": (
        lambda s, t: s[t[2]].unroll(leaves(s, t[2])[0]),
        lambda s, t: s[t[0]].bind(leaves(s, t[0])[0], THREAD),
        "T1: i0 cannot be bound to threadIdx.x, it is one loop with i0 of R, which is no such loop",
    ),
    "parallel, unrolled": (
        lambda s, t: s[t[2]].unroll(leaves(s, t[2])[0]),
        lambda s, t: s[t[1]].parallel(leaves(s, t[1])[0]),
        "T2: i0 cannot be parallelized, it is one loop with i0 of R, which cannot",
    ),
}


@pytest.mark.parametrize("case", CONTRARY)
def test_contrary_annotations(case):
    s, ts = program()
    first, second, sentence = CONTRARY[case]
    first(s, ts)
    before = dump(s)
    with pytest.raises(ScheduleError) as info:
        second(s, ts)
    assert str(info.value) == f"stage {sentence}"
    assert dump(s) == before


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


def test_explain_and_plots_name_the_stages():
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
        before, copied = dump(s), s.copy()
        refused = what_is_said(getattr(copied[stage.op], kind), *args)
        wrong = "" if refused else what_is_said(d.check, copied)
        assert dump(s) == before and (not refused or stage.name in refused)
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

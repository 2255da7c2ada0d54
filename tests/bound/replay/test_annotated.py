"""Loops that are parallel, unrolled or bound, before and after they become loops of several stages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bound import te
from bound.errors import ScheduleError
from bound.schedule import Schedule, Split
from tests.bound.replay.random_dags import Dag
from tests.bound.replay.test_random import dump
from tests.sweeps import daily


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

"""Sliding windows beside shared loops: every name of a loop is the loop, and what a call accepts is lowered."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from bound import replay, te
from bound.errors import ScheduleError
from bound.schedule import Schedule
from lowering import lower, run
from tests.bound.replay.random_dags import Dag

INPUT = np.random.default_rng(1).integers(-4, 5, (12, 14)).astype("int32")


def chain() -> tuple[Any, ...]:
    """Two stages that can share loops, E and C, and D which reads both; B is read by C through a window."""
    A = te.placeholder((12, 14), name="A", dtype="int32")
    B = te.compute((12, 14), lambda y, x: A[y, x] * 2, name="B")
    C = te.compute((10, 12), lambda y, x: B[y, x] + B[y, x + 1] + B[y + 2, x + 2], name="C")
    E = te.compute((10, 12), lambda y, x: A[y, x] - 1, name="E")
    D = te.compute((10, 12), lambda y, x: C[y, x] + E[y, x], name="D")
    s = te.create_schedule(D.op)
    replay.compute_at(s, C, D, 1)
    replay.compute_at(s, E, D, 1)
    return s, B, C, D, E


def check(s: Schedule, **how: Any) -> str:
    f = lower(s, **how)
    doubled = INPUT * 2
    wanted = doubled[:10, :12] + doubled[:10, 1:13] + doubled[2:, 2:] + INPUT[:10, :12] - 1
    np.testing.assert_array_equal(run(f, {"A": INPUT})["D"], wanted, str(f))
    return str(f)


def test_every_owner_of_a_loop_names_it() -> None:
    texts = set()
    for k in (1, 2, 3):
        made = chain()
        s, B, C = made[:3]
        owner = s[made[k + 1]]
        s[B].compute_at(s[C], s[C].leaf_iter_vars[1])
        s[B].store_at(owner, owner.leaf_iter_vars[0])
        text = check(s)
        texts.add("".join(sorted(text)))  # a sum may list its terms in another order
        assert "        allocate B: int32[" in text and s[B].store_ivar is not None
    assert len(texts) == 1


def test_every_owner_of_a_loop_is_a_place_to_compute_at() -> None:
    texts = set()
    for k in (1, 2, 3):  # E does not read B, and its loop is the one of C
        made = chain()
        s, B = made[:2]
        owner = s[made[k + 1]]
        s[B].compute_at(owner, owner.leaf_iter_vars[0])
        texts.add("".join(sorted(check(s))))
    assert len(texts) == 1


def test_what_is_kept_over_a_shared_loop_is_refused_at_the_call() -> None:
    s, B, C = chain()[:3]
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    with pytest.raises(ScheduleError, match=r"iterations of y of C compute, but .* a loop of several stages"):
        s[B].store_root()
    assert s[B].store_type is None
    check(s)


def test_a_loop_over_which_something_is_kept_stays_as_it_is() -> None:
    _, B, C, D, _ = chain()
    fresh = te.create_schedule(D.op)
    y, x = fresh[C].leaf_iter_vars
    fresh[B].compute_at(fresh[C], x)
    fresh[B].store_at(fresh[C], y)
    for call in (fresh[C].parallel, fresh[C].vectorize):
        with pytest.raises(ScheduleError, match="to keep what iterations of x of C compute"):
            call(x)
    with pytest.raises(ScheduleError, match="to keep what iterations of x of C compute"):
        fresh[C].bind(x, te.thread_axis("threadIdx.x"))
    with pytest.raises(replay.ReplayError, match="x"):
        replay.compute_at(fresh, C, D, 2)
    replay.compute_at(fresh, C, D, 1)
    check(fresh)


def random_kept(seed: int, **how: Any) -> bool:
    """Random calls that place B and share loops; whether anything was kept. What is accepted is lowered and runs."""
    rng = random.Random(seed)
    s, B, C, D, E = chain()
    if rng.random() < 0.5:
        s = te.create_schedule(D.op)
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
        check(s, **how)
    except ScheduleError as error:  # a reader outside of the loop, or a storage elsewhere: a later call may mend that
        if "is outside that loop" not in str(error) and "is not around" not in str(error):
            raise AssertionError(f"the calls of seed {seed} were accepted") from error
        return False
    return s[B].store_type is not None


def test_random_places_that_are_accepted_are_lowered() -> None:
    assert sum(random_kept(seed, compute="exact", nests="guard") for seed in range(20)) >= 2


@pytest.mark.nightly
def test_more_random_places_that_are_accepted_are_lowered() -> None:
    assert sum(random_kept(seed) for seed in range(100, 1500)) >= 100


@pytest.mark.parametrize("first", [0, 20, 180, 240])
def test_a_position_counts_loops_that_are_there(first: int) -> None:
    unread = 0
    for seed in range(first, first + 20):
        d = Dag(seed, 5)
        s = d.schedule()
        for _ in range(6):
            if d.rng.random() < 0.5:
                d.transform(s, 2)
            else:
                d.call(s)
            for stage in s.stages:
                count = len(stage.leaf_iter_vars)
                assert stage.compute_at_position <= count and stage.max_producer_position <= count, (seed, stage)
                unread += stage.is_output and stage.compute_at_position > 0
    assert unread


def test_a_split_of_what_nobody_reads_lowers_its_position() -> None:
    A = te.placeholder((8, 9), name="A")
    T = te.compute((8, 9), lambda i, j: A[i, j] + 1, name="T")
    s = te.create_schedule(T.op)
    assert replay.inline_at(s, T, 2).position == 2
    i, j = s[T].leaf_iter_vars
    s[T].split(j, 4)
    assert s[T].compute_at_position == 1
    s[T].fuse(i, s[T].leaf_iter_vars[1])
    assert s[T].compute_at_position == 0
    assert len(s[T].leaf_iter_vars) == 2

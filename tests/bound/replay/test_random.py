"""Random programs, transforms and calls: what is accepted lowers and equals numpy, what is refused can be repaired."""

from __future__ import annotations

import pytest

from bound import infer_bound, replay
from tests.bound.replay.random_dags import Dag

HOW = ({}, {"nests": "split"}, {}, {"compact": True}, {"compute": "box"}, {"nests": "guard"})


def state(s):
    return [
        (tuple(stage.leaf_iter_vars), tuple(stage.relations), stage.compute_at_position, stage.max_producer_position)
        for stage in s.stages
    ]


def tried(seed, most):
    """One program with a few calls; gives how many loops are shared, and how many calls were refused."""
    d = Dag(seed, most, symbolic=seed % 3 == 0)
    s = d.schedule()
    d.transform(s, d.rng.randint(0, 5))
    refused = 0
    for _ in range(d.rng.randint(1, 3)):
        before = state(s), repr(s)
        o = d.call(s)
        if isinstance(o, replay.ReplayError):
            refused += 1
            assert (state(s), repr(s)) == before and o.reasons
            for repair in o.repairs:
                c = s.copy()
                repair.apply(c)
                d.check(c)
            assert (state(s), repr(s)) == before
        if d.rng.random() < 0.3:
            d.transform(s, 2)
    d.check(s, **HOW[seed % len(HOW)])
    if seed % 4 == 0:
        b = infer_bound(s)
        for t in d.computed():
            if t in s:
                assert b.required(t) <= b.computed(t), t
    return sum(stage.compute_at_position for stage in s.stages), refused


def all_of(seeds, most):
    found = [tried(seed, most) for seed in seeds]
    shared = sum(1 for loops, _ in found if loops)
    return shared / len(found), sum(refused for _, refused in found)


def test_programs():
    shared, refused = all_of(range(60), 4)
    assert shared > 0.5 and refused > 0


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(1000, 4000, 500))
def test_programs_nightly(start):
    shared, refused = all_of(range(start, start + 500), 12)
    assert shared > 0.5 and refused > 20


def loops_of(d, s):
    return [
        (t.name, [iv.name for iv in s[t].leaf_iter_vars], s[t].compute_at_position, s[t].max_producer_position)
        for t in d.computed()
        if t in s
    ]


def same_in_any_order(seeds):
    tried_orders = 0
    for seed in seeds:
        found = []
        for turned in (False, True):
            d = Dag(seed, 6)
            if turned:
                d.outputs = d.outputs[::-1]
            s = d.schedule()
            replay.inline_most(s)
            found.append(loops_of(d, s))
            tried_orders += len(d.outputs) > 1
        assert found[0] == found[1], seed
    return tried_orders


def test_the_order_of_outputs_changes_nothing():
    assert same_in_any_order(range(60)) > 20


@pytest.mark.nightly
def test_the_order_of_outputs_changes_nothing_nightly():
    assert same_in_any_order(range(60, 1500)) > 500

"""What one `compute_at` costs over many tensors: in a chain, and in a ladder of diamonds with 2^n chains."""

from __future__ import annotations

import gc
import sys
import time

import pytest

from bound import replay, te
from tests.bound.replay.programs import given, pointwise


def chain(n):
    ts = [pointwise("T0", given(64, 64, name="A"))]
    while len(ts) < n:
        ts.append(pointwise(f"T{len(ts)}", ts[-1]))
    return ts


def ladder(n):
    ts = [pointwise("T0", given(64, 64, name="A"))]
    while len(ts) < n:
        top, k = ts[-1], len(ts)
        left, right = pointwise(f"T{k}", top), pointwise(f"T{k + 1}", top)
        ts += [left, right, pointwise(f"T{k + 2}", left, right)]
    return ts


def scheduled(make, n):
    ts = make(n)
    s = te.create_schedule(ts[-1].op)
    s[ts[-1]].split(s[ts[-1]].fuse(*ts[-1].op.axis), 16)
    return s, ts


def calls(make, n):
    """How many functions one `compute_at` calls: the same number whatever else runs on the machine."""
    s, ts = scheduled(make, n)
    count = 0

    def seen(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(seen)
    try:
        o = replay.compute_at(s, ts[0], ts[-1], 2)
    finally:
        sys.setprofile(None)
        gc.enable()
    assert o.position == 2 and all(s[t].compute_at_position == 2 for t in ts[:-1])
    return count


def seconds(make, n):
    best = float("inf")
    for _ in range(5):
        s, ts = scheduled(make, n)
        gc.collect()
        start = time.process_time()
        replay.compute_at(s, ts[0], ts[-1], 2)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("make", [chain, ladder])
def test_calls_grow_linearly(make):
    assert calls(make, 90) <= 3 * 1.05 * calls(make, 30)


@pytest.mark.nightly
@pytest.mark.parametrize("make", [chain, ladder])
def test_time_grows_linearly(make):
    assert seconds(make, 500) <= 5 * 1.3 * seconds(make, 100)

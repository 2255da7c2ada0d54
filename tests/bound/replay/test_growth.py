"""What one `compute_at` costs over many tensors: in a chain, and in a ladder of diamonds with 2^n chains."""

from __future__ import annotations

import gc
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


def seconds(make, n):
    best = float("inf")
    for _ in range(2):
        ts = make(n)
        s = te.create_schedule(ts[-1].op)
        s[ts[-1]].split(s[ts[-1]].fuse(*ts[-1].op.axis), 16)
        gc.collect()
        start = time.process_time()
        o = replay.compute_at(s, ts[0], ts[-1], 2)
        best = min(best, time.process_time() - start)
        assert o.position == 2 and all(s[t].compute_at_position == 2 for t in ts[:-1])
    return best


@pytest.mark.parametrize("make", [chain, ladder])
def test_linear(make):
    assert seconds(make, 301) <= 3 * 1.5 * seconds(make, 100)  # 1.3 where nothing else runs: see below


@pytest.mark.nightly
@pytest.mark.parametrize("make", [chain, ladder])
def test_linear_nightly(make):
    assert seconds(make, 500) <= 5 * 1.3 * seconds(make, 100)

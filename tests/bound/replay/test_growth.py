"""What calls cost over many tensors: in a chain, in a ladder of diamonds with 2^n chains, in blocks that part loops."""

from __future__ import annotations

import gc
import sys
import time

import pytest

from bound import replay, te
from tests.bound.replay.programs import given, pointwise, reduced


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


def softmaxes(n):
    """Chain softmaxes: each stage reads its input and a reduction of its rows."""
    ts = [pointwise("T0", given(64, 64, name="A"))]
    while len(ts) < n:
        x, k = ts[-1], len(ts)
        most = reduced(f"T{k}", x, by=te.max)
        e = te.compute((64, 64), lambda i, j, x=x, m=most: x[i, j] - m[i], name=f"T{k + 1}")
        total = reduced(f"T{k + 2}", e)
        ts += [most, e, total, te.compute((64, 64), lambda i, j, e=e, t=total: e[i, j] * t[i], name=f"T{k + 3}")]
    return ts


def turned(n):
    """Chain stages that read their input directly and transposed, which prevents sharing of both loops."""
    ts = [pointwise("T0", given(64, 64, name="A"))]
    while len(ts) < n:
        a, k = pointwise(f"T{len(ts)}", ts[-1]), len(ts)
        b = pointwise(f"T{k + 1}", a)
        c = te.compute((64, 64), lambda i, j, b=b: b[j, i] + 1, name=f"T{k + 2}")
        ts += [a, b, c, te.compute((64, 64), lambda i, j, a=a, c=c: a[i, j] + c[i, j], name=f"T{k + 3}")]
    return ts


def windows(n):
    """Each has an extent that no other has."""
    ts = [pointwise("T0", given(64, n + 64, name="A"))]
    while len(ts) < n:
        t, width = ts[-1], n + 64 - len(ts)
        ts.append(te.compute((64, width), lambda i, j, t=t: t[i, j] + t[i, j + 1], name=f"T{len(ts)}"))
    return ts


def scheduled(make, n):
    ts = make(n)
    s = te.create_schedule(ts[-1].op)
    s[ts[-1]].split(s[ts[-1]].fuse(*ts[-1].op.axis), 16)
    return s, ts


def at_two(s, ts):
    o = replay.compute_at(s, ts[0], ts[-1], 2)
    assert o.position == 2 and all(s[t].compute_at_position == 2 for t in ts[:-1])


CALLS = {
    "compute_at": lambda s, ts: replay.compute_at(s, ts[0], ts[-1], -1, "best_effort"),
    "most_inlined": lambda s, ts: replay.compute_at(s, ts[0], ts[-1], -1, "most_inlined"),
    "inline_at": lambda s, ts: replay.inline_at(s, ts[0], -1, "best_effort"),
    "inline_all_at": lambda s, ts: replay.inline_all_at(s, ts[-1], -1, "best_effort"),
    "inline_most": lambda s, ts: replay.inline_most(s),
    "propagate": lambda s, ts: replay.propagate(s, ts[-1]),
    "spanning_tree": lambda s, ts: replay.spanning_tree(s, ts[-1]),
    "common_consumer": lambda s, ts: replay.common_consumer(s, ts[0], ts[-1]),
}


def calls(make, n, call=at_two):
    """How many functions a call calls: the same number whatever else runs on the machine."""
    if call is at_two:
        s, ts = scheduled(make, n)
    else:
        ts = make(n)
        s = te.create_schedule(ts[-1].op)
    count = 0

    def seen(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    gc.collect()
    gc.disable()
    sys.setprofile(seen)
    try:
        call(s, ts)
    finally:
        sys.setprofile(None)
        gc.enable()
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
    assert calls(make, 60) <= 3 * 1.05 * calls(make, 20)


@pytest.mark.parametrize("make", [softmaxes, turned, windows])
def test_calls_grow_linearly_where_loops_part(make):
    assert calls(make, 60, CALLS["inline_most"]) <= 3 * 1.15 * calls(make, 20, CALLS["inline_most"])


@pytest.mark.nightly
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("make", [chain, ladder, softmaxes, turned, windows])
def test_every_call_grows_linearly(make, name):
    assert calls(make, 500, CALLS[name]) <= 5 * 1.3 * calls(make, 100, CALLS[name])


@pytest.mark.nightly
@pytest.mark.parametrize("make", [chain, ladder])
def test_time_grows_linearly(make):
    assert seconds(make, 500) <= 5 * 1.3 * seconds(make, 100)

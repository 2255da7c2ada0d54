"""Store predicates on threads: what is stored for some thread is stored, and no thread becomes a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te
from bound.errors import ScheduleError
from lowering import lower, run
from tests.lowering.lowered import check, check_c


def staged(scope: str, outside: bool) -> tuple[Any, Any, Any, Any]:
    """A stage inside the threads of its consumer, or around them, that stores on one of the threads."""
    a = te.placeholder((6, 32), name="A")
    b = te.compute((6, 32), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((6, 32), lambda i, j: b[i, j] + 1.0, name="C")
    s = te.create_schedule(c.op)
    thread = te.thread_axis("threadIdx.x")
    s[c].bind(c.op.axis[0], te.thread_axis("blockIdx.x"))
    outer, inner = s[c].split(c.op.axis[1], 8)
    s[c].bind(inner, thread)
    s[b].compute_at(s[c], outer if outside else inner)
    s[b].set_scope(scope)
    return s, b, c, thread


@pytest.mark.parametrize("chosen", [0, 7])
@pytest.mark.parametrize(
    ("scope", "outside"), [("shared", False), ("global", False), ("local", True), ("shared", True)]
)
def test_one_of_the_threads_that_share_a_storage_stores(scope: str, outside: bool, chosen: int) -> None:
    s, b, _, thread = staged(scope, outside)
    s[b].set_store_predicate(thread.eq(chosen))
    f = check(s)
    assert not f.sizes
    check_c(f, s)


def test_a_thread_with_a_storage_of_its_own_stores_for_itself() -> None:
    s, b, _, thread = staged("local", False)
    s[b].set_store_predicate(thread >= 4)
    x = np.ones((6, 32), np.float32)
    stored = np.isfinite(run(lower(s), {"A": x}, checked=False)["C"])  # the other elements are read unwritten
    np.testing.assert_array_equal(stored, np.broadcast_to(np.arange(32) % 8 >= 4, (6, 32)))


def test_a_thread_that_is_written_anew_is_the_same_thread() -> None:
    s, b, _, _ = staged("shared", True)
    s[b].set_store_predicate(te.thread_axis((0, 8), "threadIdx.x").eq(3))
    assert not check(s).sizes


def test_a_predicate_that_holds_on_no_thread_stores_nothing() -> None:
    s, b, _, thread = staged("shared", True)
    s[b].set_store_predicate(thread.eq(8))
    assert np.isnan(run(lower(s), {"A": np.ones((6, 32), np.float32)}, checked=False)["C"]).all()


def test_a_predicate_on_an_axis_of_the_stage_is_on_what_it_stores() -> None:
    s, b, _, thread = staged("shared", True)
    s[b].set_store_predicate((b.op.axis[1] < 12) & (thread < 2))
    stored = np.isfinite(run(lower(s), {"A": np.ones((6, 32), np.float32)}, checked=False)["C"])
    np.testing.assert_array_equal(stored, np.broadcast_to(np.arange(32) < 12, (6, 32)))


def test_both_stages_of_a_reduction_over_threads_store_once() -> None:
    a = te.placeholder((6, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    c = te.compute((6,), lambda i: b[i] + 1.0, name="C")
    s = te.create_schedule(c.op)
    _, inner = s[b].split(k, 8)
    partial = s.rfactor(b, inner)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].set_store_predicate(thread.eq(0))
    s[c].set_store_predicate(thread.eq(0))
    f = check(s)
    assert not f.sizes
    check_c(f, s)


def test_a_reduction_starts_only_where_it_is_stored() -> None:
    a = te.placeholder((8, 3), name="A")
    k = te.reduce_axis((1, 3), "k")
    b = te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[b].set_store_predicate(b.op.axis[0] < 3)
    out = np.full(8, 5, np.float32)
    run(lower(s), {"A": np.ones((8, 3), np.float32), "B": out})
    np.testing.assert_array_equal(out, [2, 2, 2, 5, 5, 5, 5, 5])


def test_what_is_no_loop_is_refused() -> None:
    s, b, c, _ = staged("shared", True)
    s[b].set_store_predicate(te.reduce_axis((0, 4), "r") < 2)
    with pytest.raises(ScheduleError, match="stage B: its store predicate is on r, which is no loop around it"):
        lower(s)
    s[b].set_store_predicate(te.thread_axis("threadIdx.y").eq(0))
    with pytest.raises(ScheduleError, match=r"on threadIdx.y, on which no loop runs"):
        lower(s)
    assert c.ndim == 2

"""`Stage.transform_layout`, `rolling_buffer`, and outputs after rewrites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import te
from bound.errors import ScheduleError
from bound.schedule.rewrites import AXIS_SEPARATOR
from lowering import lower, run

Layout = Callable[..., Any]
LAYOUTS: list[tuple[tuple[int, ...], Layout, tuple[int, ...]]] = [
    ((12,), lambda i: [i // 4, i % 4], (3, 4)),
    ((14,), lambda i: [i // 4, i % 4], (4, 4)),
    ((3, 5), lambda i, j: [j, i], (5, 3)),
    ((3, 5), lambda i, j: [i * 5 + j], (15,)),
    ((3, 10), lambda *i, n: [*i, n // 4, AXIS_SEPARATOR, n % 4], (3, 3, 4)),
    ((24,), lambda i: [i // 4 // 3 % 2, i // 4 % 3, i % 4], (2, 3, 4)),
    ((5,), lambda i: [4 - i], (5,)),
    ((5,), lambda i: [i + 2], (7,)),
    ((6,), lambda i: [i * 2], (11,)),
]


def moved(x: Any, fn: Layout, shape: tuple[int, ...], fill: float) -> Any:
    """The array in another layout, element by element."""
    out = np.full(shape, fill, x.dtype)
    for place in np.ndindex(*x.shape):
        names = {"n": place[-1]} if fn.__code__.co_kwonlyargcount else {}
        new = fn(*(place[:-1] if names else place), **names)
        out[tuple(e for e in new if not isinstance(e, str))] = x[place]
    return out


@pytest.mark.parametrize("pad", [None, 7])
@pytest.mark.parametrize(("shape", "fn", "new"), LAYOUTS)
def test_every_tensor_in_another_layout(
    shape: tuple[int, ...], fn: Layout, new: tuple[int, ...], pad: int | None
) -> None:
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2 + 1, name="B")
    c = te.compute(shape, lambda *i: b(*i) + a(*i), name="C")
    s = te.create_schedule(c.op)
    for tensor in (a, b, c):
        axes = s[tensor].transform_layout(fn, pad)
        assert tuple(int(axis.dom.extent) for axis in axes if axis.dom is not None) == new  # type: ignore[arg-type]
    assert s[c].leaf_iter_vars == axes and c.op in s.outputs
    s[b].compute_at(s[c], axes[0])
    x = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    out = run(lower(s, [a, c]), {"A": moved(x, fn, new, 99)})["C"]
    np.testing.assert_array_equal(out, moved(x * 3 + 1, fn, new, pad or 0))


def test_a_reduction_with_caches_in_another_layout() -> None:
    a = te.placeholder((6, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j // 4, i, j % 4])
    s[b].transform_layout(lambda i: [i // 4, i % 4])
    s.cache_read(a, "local", [s[b].op])
    s.cache_write(s.current(b), "local")
    x = np.random.default_rng(0).random((6, 10)).astype("float32")
    packed = moved(x, lambda i, j: [j // 4, i, j % 4], (3, 6, 4), np.nan)
    out = run(lower(s, [a, b]), {"A": packed})["B"]
    np.testing.assert_allclose(out.reshape(-1), [*x.sum(axis=1), 0, 0], rtol=1e-6)


def test_a_layout_that_is_none_is_refused() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match="a place for every element"):
        s[b].transform_layout(lambda i: [i // 2])
    s[b].split(b.op.axis[0], 4)
    with pytest.raises(ScheduleError, match="precedes split"):
        s[b].transform_layout(lambda i: [i // 2, i % 2])
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((5,), lambda i: te.sum(a[k] * i, axis=k), name="C")
    with pytest.raises(ScheduleError, match="padding of a reduction"):
        te.create_schedule(c.op)[c].transform_layout(lambda i: [i // 2, i % 2], 3)


def test_a_rolling_buffer_keeps_earlier_rows() -> None:
    a = te.placeholder((18, 6), name="A")
    b = te.compute((18, 6), lambda y, x: a[y, x] * 2, name="B")
    c = te.compute((16, 6), lambda y, x: b[y, x] + b[y + 2, x], name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="follows compute_at"):
        s[b].rolling_buffer()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    x = np.arange(108, dtype="float32").reshape(18, 6)
    f = lower(s, [a, c])
    np.testing.assert_array_equal(run(f, {"A": x})["C"], 2 * x[:16] + 2 * x[2:])
    assert "allocate B: float32[4, 6]" in str(f) or "allocate B: float32[3, 6]" in str(f)
    assert s[c].num_child_stages == 0


def test_an_output_that_was_replaced_counts_as_an_output() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    s.cache_read(a, "local", [b])
    s.cache_write(c, "local")
    assert c.op in s.outputs and s[c].op in s.outputs and b.op not in s.outputs and len(s.outputs) == 1
    group = s.create_group(outputs=c, inputs=a)
    assert group.num_child_stages == 4  # with the stage that is inlined

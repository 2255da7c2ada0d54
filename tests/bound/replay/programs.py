"""Small programs for the tests of replay, and what their schedules show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bound import replay, te
from bound.schedule import Schedule
from bound.tensor import Tensor
from tests.lowering.lowered import check


def given(*shape, name="T0"):
    return te.placeholder(shape, name=name)


def pointwise(name, *read, shape=None):
    """A tensor of the shape of what it reads, element by element."""
    out = read[0].shape if shape is None else shape
    return te.compute(tuple(out), lambda *i: sum((t(*i) for t in read[1:]), read[0](*i)) + 1, name=name)


def reduced(name, read, axis=-1, by=te.sum):
    """A reduction over one axis."""
    k = axis % read.ndim
    r = te.reduce_axis((0, read.shape[k]), f"r{k}")
    shape = [e for d, e in enumerate(read.shape) if d != k]
    return te.compute(shape, lambda *i: by(read(*i[:k], r, *i[k:]), axis=r), name=name)


def broadcast(name, read, *places):
    """Add axes of extent 1 at these positions of the result."""
    shape = list(read.shape)
    for k in sorted(places):
        shape.insert(k, 1)
    return te.compute(shape, lambda *i: read(*(v for k, v in enumerate(i) if k not in places)) * 1, name=name)


def over(name, first, *others):
    """Element by element, with axes of one element of the others repeated."""

    def at(t, i):
        return t(
            *(
                0 if getattr(e, "data", None) == 1 and t.shape is not first.shape else v
                for v, e in zip(i, t.shape, strict=True)
            )
        )

    return te.compute(tuple(first.shape), lambda *i: sum((at(t, i) for t in others), first(*i)), name=name)


def positions(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].compute_at_position for t in tensors]


def depths(s: Schedule, *tensors: Tensor) -> list[int]:
    return [s[t].max_producer_position for t in tensors]


def numbers_of_loops(s: Schedule, *tensors: Tensor) -> list[int]:
    return [len(s[t].leaf_iter_vars) for t in tensors]


def loops(s: Schedule, *tensors: Tensor) -> list[str]:
    """What `replay.domain` prints, without the name of the tensor."""
    return [str(replay.domain(s, t)).removeprefix(t.op.name) for t in tensors]


def lowered(s: Schedule, sizes: Mapping[str, int] | None = None, **how: Any) -> str:
    """Lower a schedule, compare a run with the reference; gives the nest."""
    return str(check(s, sizes, **how))


def two_reductions(outer=False):
    """T1, read by two reductions, whose results one tensor reads."""
    t1 = pointwise("T1", given(8, 9))
    axis = 0 if outer else 1
    t2, t3 = reduced("T2", t1, axis, te.max), reduced("T3", t1, axis, te.min)
    t4 = pointwise("T4", t2, t3)
    s = te.create_schedule(t4.op)
    if outer:
        for t in (t2, t3):
            s[t].reorder(t.op.reduce_axis[0], t.op.axis[0])
    return s, (t1, t2, t3, t4)

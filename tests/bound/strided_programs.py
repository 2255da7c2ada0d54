"""Random programs whose stages read one another on lattices: strides, diagonals, skewed and shifted tiles."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

from bound import te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.node import Expr

Index = tuple[tuple[int, ...], int]  # coefficients of the axes, constant


def reading(
    shape: Any, reads: Callable[..., Any], source: Any = (40, 40), at: int | None = None
) -> tuple[Schedule, Tensor]:
    """`T` of shape `source` is read by `C`, inside a tile of `at` of its first axis."""
    A = te.placeholder(source, name="A")
    T = te.compute(source, lambda *i: A(*i) + 1.0, name="T")
    C = te.compute(shape, lambda *i: reads(T, *i), name="C")
    s = te.create_schedule(C.op)
    if at is not None:
        outer, _ = s[C].split(C.op.axis[0], at)
        s[T].compute_at(s[C], outer)
    return s, T


class Program:
    """A chain of stages, each reading the one before at a few affine points; made from the last to the first.

    Parameters
    ----------
    seed: chooses everything.
    symbolic: whether the extent of the first axis of the last stage is the variable `n`; `sizes` gives its value.
    """

    def __init__(self, seed: int, symbolic: bool = False) -> None:
        rng = self.rng = random.Random(seed)
        dims = rng.choice((1, 1, 2))
        extents: tuple[Any, ...] = tuple(rng.randint(1, 8) for _ in range(dims))
        self.sizes: dict[str, int] = {}
        numbers = extents
        if symbolic:
            n = te.var("n")
            self.sizes["n"] = extents[0]
            extents = (n, *extents[1:])
        plans = []
        shape, spans = extents, numbers
        for _ in range(rng.randint(1, 2 if symbolic else 3)):
            points = self._points(len(shape))
            plans.append((shape, spans, points))
            shape, spans = self._shape(shape, points), tuple(map(int, self._shape(spans, points)))
        tensor = te.placeholder(shape, name="A")
        self.tensors: list[Tensor] = [tensor]
        plans.append(
            (shape, spans, [tuple((tuple(int(j == k) for j in range(len(shape))), 0) for k in range(len(shape)))])
        )
        for k, (shape, spans, points) in enumerate(reversed(plans)):
            tensor = self._stage(f"T{k}", tensor, shape, spans, points)
            self.tensors.append(tensor)
        self.schedule: Schedule = te.create_schedule(tensor.op)
        for stage in reversed(self.tensors[1:]):
            self._schedule(stage)

    def __repr__(self) -> str:
        return "; ".join(f"{t.name}{list(t.shape)} = {t.op.body[0]!r}" for t in self.tensors[1:])

    # -- formulas -----------------------------------------------------------------------------------------------

    def _points(self, dims: int) -> list[tuple[Index, ...]]:
        """What is read: the same matrix at several shifts, now and then another matrix too."""
        rng = self.rng
        ndim = rng.choice((1, 1, 2)) if dims == 1 else rng.choice((1, 2, 2, 2))
        matrix = [tuple(rng.choice((0, 1, 1, 2, 3, -1, -2)) for _ in range(dims)) for _ in range(ndim)]
        found = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            if rng.random() < 0.15:
                matrix = [tuple(rng.choice((1, 2, -1)) for _ in range(dims)) for _ in range(ndim)]
            unit = rng.choice((1, 2, 2, 3))
            found.append(tuple((row, unit * rng.randint(0, 3)) for row in matrix))
        return found

    def _shape(self, extents: tuple[Any, ...], points: list[tuple[Index, ...]]) -> tuple[Any, ...]:
        """Extents that contain every point, moved to begin at 0."""
        sides = []
        for k in range(len(points[0])):
            lows, highs = zip(*(_span(p[k], extents) for p in points), strict=True)
            sides.append(_largest(highs) - _smallest(lows) + 1)
        return tuple(sides)

    def _stage(self, name: str, source: Tensor, shape: tuple[Any, ...], spans: Any, points: Any) -> Tensor:
        rng = self.rng
        starts = [_smallest([_span(p[k], shape)[0] for p in points]) for k in range(source.ndim)]
        reduces = rng.random() < 0.2
        repeat = te.reduce_axis((0, 2), "r") if reduces else None
        where = rng.random() < 0.25

        def formula(*axis: Any) -> Any:
            total: Any = 0.5
            for point in points:
                index = [_at(row, shift, axis) - start for (row, shift), start in zip(point, starts, strict=True)]
                total = total + source(*index)
            if repeat is not None:
                return te.sum(total * (repeat + 1), axis=repeat)
            if where:
                total = tir.if_then_else((axis[0] + axis[-1]) % 2 < 1, total, 1.0)
            return total

        made: Tensor = te.compute(shape, formula, name=name)
        return made

    # -- schedules ----------------------------------------------------------------------------------------------

    def _schedule(self, tensor: Tensor) -> None:
        rng, stage = self.rng, self.schedule[tensor]
        for _ in range(rng.randint(0, 2)):
            try:
                self._step(tensor, stage)
            except ScheduleError:
                continue
        if tensor is not self.tensors[-1] and rng.random() < 0.7:
            later = self.tensors[self.tensors.index(tensor) + 1]
            stage.compute_at(self.schedule[later], rng.choice(self.schedule[later].leaf_iter_vars))
            if rng.random() < 0.3:
                stage.set_scope(rng.choice(("local", "shared")))

    def _step(self, tensor: Tensor, stage: Any) -> None:
        rng, leaves = self.rng, list(stage.leaf_iter_vars)
        iv, what = rng.choice(leaves), rng.random()
        if what < 0.5:
            stage.split(iv, factor=rng.randint(1, 4), tail=rng.choice(("guard", "guard", "shrink")))
        elif what < 0.65:
            rng.shuffle(leaves)
            stage.reorder(*leaves)
        elif what < 0.75 and len(leaves) > 1 and leaves[0].is_reduce == leaves[1].is_reduce:
            stage.fuse(leaves[0], leaves[1])
        elif what < 0.85 and not iv.is_reduce:
            rng.choice((stage.unroll, stage.parallel, stage.vectorize))(iv)
        elif what < 0.9 and not iv.is_reduce and tensor is self.tensors[-1]:
            stage.bind(iv, te.thread_axis("threadIdx.x"))


def _span(index: Index, extents: tuple[Any, ...]) -> tuple[Any, Any]:
    low = high = index[1]
    for c, extent in zip(index[0], extents, strict=True):
        low, high = (low, high + (extent - 1) * c) if c > 0 else (low + (extent - 1) * c, high)
    return low, high


def _at(row: tuple[int, ...], shift: int, axis: tuple[Any, ...]) -> Any:
    return sum((x * c for x, c in zip(axis, row, strict=True) if c), shift)


def _smallest(ends: Any) -> Any:
    return reduce(te.min, ends) if any(isinstance(e, Expr) for e in ends) else min(ends)


def _largest(ends: Any) -> Any:
    return reduce(te.max, ends) if any(isinstance(e, Expr) for e in ends) else max(ends)

"""Random programs with random schedules, made from a seed: the same on every machine."""

from __future__ import annotations

import random
from typing import Any

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from intset.expr.node import Expr

TAILS = ("guard", "guard", "shrink", "shift_inwards")


class Program:
    """A few stages over one or two dimensions, each reading earlier ones inside their bounds.

    Parameters
    ----------
    seed: chooses everything.
    symbolic: whether the extents of the inputs are variables; `sizes` says what they are to be.
    """

    def __init__(self, seed: int, symbolic: bool = False) -> None:
        self.rng = random.Random(seed)
        self.bounds: Any = None
        self.sizes: dict[str, int] = {}
        self.symbolic = symbolic
        self.tensors: list[Any] = []
        self.extents: dict[Any, tuple[int, ...]] = {}
        for k in range(self.rng.randint(1, 2)):
            self.tensors.append(self._input(f"A{k}"))
        inputs = len(self.tensors)
        for k in range(self.rng.randint(1, 5)):
            self.tensors.append(self._stage(f"T{k}"))
        self.stages = self.tensors[inputs:]
        read = {t for stage in self.stages for t in stage.op.input_tensors}
        self.outputs = [t for t in self.stages if t not in read]
        self.schedule: Schedule = te.create_schedule([t.op for t in self.outputs])
        for tensor in reversed(self.stages):
            self._schedule(tensor)

    def __repr__(self) -> str:
        return "; ".join(f"{t.name}{list(t.shape)} = {t.op.body[0]!r}" for t in self.stages)

    # -- programs -----------------------------------------------------------------------------------------------

    def _input(self, name: str) -> Any:
        extents = tuple(self.rng.randint(2, 11) for _ in range(self.rng.randint(1, 2)))
        shape: tuple[Any, ...] = extents
        if self.symbolic:
            shape = tuple(te.var(f"{name}_n{k}") for k in range(len(extents)))
            self.sizes.update({v.name: e for v, e in zip(shape, extents, strict=True)})
        tensor = te.placeholder(shape, name=name)
        self.extents[tensor] = extents
        return tensor

    def _stage(self, name: str) -> Any:
        rng = self.rng
        ndim = rng.randint(1, 2)
        sources = [rng.choice(self.tensors[-3:]) for _ in range(rng.randint(1, 2))]
        if self.symbolic:  # the shape of the source keeps every access inside
            source = sources[0]
            shape, extents = source.shape, self.extents[source]
            sources = [t for t in sources if t.shape == shape]
        else:
            extents = tuple(rng.randint(1, 11) for _ in range(ndim))
            shape = extents
        is_reduction = rng.random() < 0.35
        k = te.reduce_axis((rng.randint(0, 1), rng.randint(2, 4)), "k") if is_reduction else None

        def formula(*axis: Any) -> Any:
            total: Any = None
            for tensor in sources:
                term = self._element(tensor, axis, extents, k)
                total = term if total is None else total + term * 2.0
            if k is not None:
                reducer = rng.choice((te.sum, te.max))
                where = (axis[0] + k) % 2 < 1 if rng.random() < 0.3 and reducer is te.sum else None
                return reducer(total, axis=k, where=where)
            if rng.random() < 0.3:
                total = tir.if_then_else(self._condition(axis, extents), total, 0.5)
            return total + 1.0

        tensor = te.compute(shape, formula, name=name)
        self.extents[tensor] = extents
        return tensor

    def _condition(self, axis: tuple[Any, ...], extents: tuple[int, ...]) -> Any:
        a = self.rng.choice(axis)
        options = [a % 2 < 1, a >= 1, a + axis[0] < self.rng.randint(1, 12), a.eq(self.rng.randint(0, max(extents)))]
        return self.rng.choice(options)

    def _element(self, tensor: Any, axis: tuple[Any, ...], extents: tuple[int, ...], k: Any) -> Any:
        if self.symbolic:
            return self._symbolic_element(tensor, axis, k)
        index = [self._index(tensor.shape[d].data, axis, extents, k) for d in range(tensor.ndim)]
        if self.rng.random() < 0.25:  # a padded access
            d = self.rng.randrange(len(index))
            moved = index[d] - 1
            inside = tir.all(moved >= 0, moved < tensor.shape[d])
            return tir.if_then_else(inside, tensor(*(moved if j == d else i for j, i in enumerate(index))), 0.0)
        return tensor(*index)

    def _symbolic_element(self, tensor: Any, axis: tuple[Any, ...], k: Any) -> Any:
        index: list[Any] = list(axis)
        d = self.rng.randrange(len(index))
        shift = k if k is not None else self.rng.randint(0, 2)
        moved = index[d] - shift
        if self.rng.random() < 0.6:
            return tensor(*index) if k is None else tensor(*index) * (k + 1)
        inside = moved >= 0
        return tir.if_then_else(inside, tensor(*(moved if j == d else i for j, i in enumerate(index))), 0.0)

    def _index(self, extent: int, axis: tuple[Any, ...], extents: tuple[int, ...], k: Any) -> Expr:
        rng = self.rng
        d = rng.randrange(len(axis))
        a, n = axis[d], extents[d]
        e: Any = rng.choice((a, a, a * 2, a // 2, n - 1 - a, a + rng.randint(0, 2), (a + 3) % 5))
        if len(axis) > 1 and rng.random() < 0.3:
            e = e + axis[1 - d]
        if k is not None and rng.random() < 0.8:
            e = e + k * rng.choice((1, 1, 2))
        if rng.random() < 0.5:
            return e % extent
        return te.max(te.min(e, extent - 1), 0)

    # -- schedules ----------------------------------------------------------------------------------------------

    def _schedule(self, tensor: Any) -> None:
        rng, s = self.rng, self.schedule
        stage = s[tensor]
        for _ in range(rng.randint(0, 3)):
            try:
                self._step(stage)
            except ScheduleError:
                continue
        if tensor in self.outputs:
            return
        choice = rng.random()
        consumers = [c for c in self.stages if tensor in c.op.input_tensors]
        try:
            if choice < 0.15 and not tensor.op.reduce_axis and not stage.relations:
                stage.compute_inline()
            elif choice < 0.75:
                consumer = s[rng.choice(consumers)]
                stage.compute_at(consumer, rng.choice(consumer.leaf_iter_vars))
            if rng.random() < 0.2:
                stage.set_scope(rng.choice(("local", "shared")))
        except ScheduleError:
            return

    def _step(self, stage: Any) -> None:
        rng = self.rng
        leaves = list(stage.leaf_iter_vars)
        what = rng.choice(("split", "split", "nparts", "fuse", "reorder", "kind", "thread"))
        iv = rng.choice(leaves)
        if what == "split":
            stage.split(iv, factor=rng.randint(1, 6), tail=rng.choice(TAILS))
        elif what == "nparts":
            stage.split(iv, nparts=rng.randint(1, 5), tail=rng.choice(TAILS))
        elif what == "fuse" and len(leaves) > 1:
            k = rng.randrange(len(leaves) - 1)
            stage.fuse(leaves[k], leaves[k + 1])
        elif what == "reorder":
            some = rng.sample(leaves, rng.randint(1, len(leaves)))
            stage.reorder(*some)
        elif what == "kind" and not iv.is_reduce:
            rng.choice((stage.unroll, stage.parallel, stage.vectorize))(iv)


def legal(seed: int, symbolic: bool = False) -> Program | None:
    """The program of a seed with its `bounds`, or `None` where its schedule is refused."""
    program = Program(seed, symbolic)
    try:
        program.bounds = infer_bound(program.schedule)
    except ScheduleError:
        return None
    return program

"""Random programs whose accesses leave their tensors now and then, and the oracle: the nest itself, run unchecked.

The nest is taken before any pass, in coordinates of the tensors, and every tensor is stored whole. `run` looks at every
access; so a program either runs through at given sizes and data, or makes an access that is outside its tensor.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np

from bound import te, tir
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.operation import PlaceholderOp
from bound.schedule import Schedule
from intset.expr.evaluate import evaluate
from intset.expr.range import Range
from lowering import AccessError, Function, run
from lowering.build.function import nest_of
from lowering.nest.ir import Allocate, Stmt
from lowering.nest.walk import Visit, children, drive, with_children

TAILS = ("guard", "guard", "shrink", "shift_inwards", "round_up")


class Program:
    """A chain of stages that read inputs, each other and an index tensor, at offsets that may be too large.

    Attributes
    ----------
    schedule: with splits, fusions, attached, inlined and cached stages.
    sizes: values to try for the variables, by name; one empty choice where there are none.
    """

    def __init__(self, seed: int, symbolic: bool, data: bool) -> None:
        self.rng = rng = random.Random(f"{seed} {symbolic} {data}")
        self.variables = [te.size_var("n"), te.size_var("m")] if symbolic else []
        self.with_data = data
        self.idx = te.placeholder((self._extent(),), name="idx", dtype="int32")
        self.inputs = [self._input(k) for k in range(2)]
        self.stages: list[Any] = []
        for k in range(rng.randint(1, 3)):
            self.stages.append(self._stage(f"T{k}"))
        read = {t for stage in self.stages for t in stage.op.input_tensors}
        self.outputs = [t for t in self.stages if t not in read]
        self.schedule: Schedule = te.create_schedule([t.op for t in self.outputs])
        for tensor in reversed(self.stages):
            try:
                self._schedule(tensor)
            except ScheduleError:
                continue
        choices = [(a, b) for a in (0, 1, 3, 4, 7) for b in (0, 2, 5)]
        picked = rng.sample(choices, 6) if symbolic else [()]
        self.sizes = [{v.name: k for v, k in zip(self.variables, choice, strict=True)} for choice in picked]

    def __repr__(self) -> str:
        return "; ".join(f"{t.name}{list(t.shape)} = {t.op.body[0]!r}" for t in self.stages)

    # -- tensors ------------------------------------------------------------------------------------------------

    def _extent(self) -> Any:
        rng = self.rng
        if self.variables and rng.random() < 0.7:
            var = rng.choice(self.variables)
            return rng.choice((var, var, var + rng.randint(1, 3)))
        return rng.randint(2, 8)

    def _input(self, k: int) -> Any:
        shape = tuple(self._extent() for _ in range(self.rng.randint(1, 2)))
        return te.placeholder(shape, name=f"A{k}")

    def _stage(self, name: str) -> Any:
        rng = self.rng
        shape = tuple(self._extent() for _ in range(rng.randint(1, 2)))
        sources = [rng.choice((self.inputs + self.stages)[-3:]) for _ in range(rng.randint(1, 2))]
        reduce = te.reduce_axis(self._domain(), "r") if rng.random() < 0.3 else None

        def formula(*axis: Any) -> Any:
            variables = [*axis, *([] if reduce is None else [reduce])]
            total: Any = None
            for tensor in sources:
                term = self._read(tensor, variables)
                total = term if total is None else total + term * 2.0
            if reduce is not None:
                where = (axis[0] + reduce) % 2 < 1 if rng.random() < 0.3 else None
                return te.sum(total, axis=reduce, where=where)
            return total

        return te.compute(shape, formula, name=name)

    def _domain(self) -> Any:
        low = self.rng.randint(0, 2)
        if self.variables and self.rng.random() < 0.4:
            return (low, self.rng.choice(self.variables))
        return (low, low + self.rng.randint(1, 3))

    def _read(self, tensor: Any, axis: list[Any]) -> Any:
        rng = self.rng
        index = [self._index(axis) for _ in range(tensor.ndim)]
        value = tensor(*index)
        what = rng.random()
        if what < 0.4:
            return value
        d = rng.randrange(len(index))
        if what < 0.65:  # a guard of this dimension, sometimes one off
            low, high = index[d] >= rng.choice((0, 0, -1)), index[d] < tensor.extents[d] + rng.choice((0, 0, 1))
            return tir.if_then_else(tir.all(low, high), value, 0.0)
        if what < 0.8:  # clamped
            clamped = te.max(te.min(index[d], tensor.extents[d] - 1), 0)
            return tensor(*(clamped if k == d else e for k, e in enumerate(index)))
        if what < 0.9 and self.with_data:
            return tir.if_then_else(self._datum(axis) > 0, value, 1.0)
        return tir.if_then_else(axis[0] % 2 < 1, value, value * 2.0) + 1.0

    def _index(self, axis: list[Any]) -> Any:
        rng = self.rng
        a = rng.choice(axis)
        if self.with_data and rng.random() < 0.3:
            a = self._datum(axis) + rng.choice((0, 0, a))
        e = rng.choice((a, a, a, a + rng.randint(-1, 2), a // 2, a * 2, (a + 3) % 5))
        if len(axis) > 1 and rng.random() < 0.3:
            e = e + rng.choice(axis)
        if self.variables and rng.random() < 0.15:
            e = rng.choice((self.variables[0] - 1 - a, e + self.variables[1] - 2))
        return e

    def _datum(self, axis: list[Any]) -> Any:
        return self.idx(self.rng.choice(axis) % 2)

    # -- schedules ----------------------------------------------------------------------------------------------

    def _schedule(self, tensor: Any) -> None:
        rng, s = self.rng, self.schedule
        for _ in range(rng.randint(0, 2)):
            stage = s[tensor]
            leaves = list(stage.leaf_iter_vars)
            iv = rng.choice(leaves)
            what = rng.choice(("split", "split", "nparts", "fuse", "reorder"))
            if what == "split":
                stage.split(iv, factor=rng.randint(2, 4), tail=rng.choice(TAILS))
            elif what == "nparts":
                stage.split(iv, nparts=rng.randint(2, 3), tail=rng.choice(TAILS))
            elif what == "fuse" and len(leaves) > 1:
                stage.fuse(leaves[0], leaves[1])
            else:
                stage.reorder(*rng.sample(leaves, len(leaves)))
        consumers = [c for c in self.stages if tensor in c.op.input_tensors]
        choice = rng.random()
        if not consumers:
            if choice < 0.2 and not s[tensor].relations:
                s.cache_write(tensor, "local")
        elif choice < 0.2 and not tensor.op.reduce_axis and not s[tensor].relations:
            s[tensor].compute_inline()
        elif choice < 0.3:
            s.cache_read(tensor, "shared", [consumers[0].op])
        elif choice < 0.75:
            consumer = s[rng.choice(consumers)]
            s[tensor].compute_at(consumer, rng.choice(list(consumer.leaf_iter_vars)))

    # -- running ------------------------------------------------------------------------------------------------

    def arrays(self, sizes: Mapping[str, int], seed: int) -> dict[str, Any]:
        """Inputs of the shapes that these sizes give; indices between -2 and 8."""
        rng = np.random.default_rng(seed)
        found = {}
        ops = (stage.op for stage in self.schedule.stages if isinstance(stage.op, PlaceholderOp))
        for tensor in (op.output(0) for op in ops):
            shape = [int(evaluate(e, {v: sizes[v.name] for v in e.free_vars()})) for e in tensor.extents]
            is_index = tensor.dtype == "int32"
            array = rng.integers(-2, 8, shape, endpoint=True) if is_index else rng.standard_normal(shape)
            found[tensor.name] = array.astype(tensor.dtype)
        return found


def stored_whole(program: Program, b: BoundsMap) -> Function:
    """Lower a program without checks, with all tensors stored completely."""
    f = nest_of(b, unsafe=True)

    def visit(stmt: Stmt) -> Visit[Stmt]:
        inner: list[Stmt] = []
        for child in children(stmt):
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        new = with_children(stmt, tuple(inner))
        return (
            Allocate(new.tensor, tuple(Range(0, e) for e in new.tensor.extents)) if isinstance(new, Allocate) else new
        )

    return f.with_body(drive(visit(f.body)))


def leaves_a_tensor(f: Function, arrays: Mapping[str, Any], sizes: Mapping[str, int]) -> bool:
    """Whether a nest makes an access outside a storage."""
    try:
        run(f, arrays, sizes)
    except AccessError:
        return True
    return False

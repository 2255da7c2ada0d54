"""Random programs and schedules for InferBound: small enough to be run one iteration at a time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

from bound import te, tir
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import const, maximum, minimum
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var

TAILS = ("guard", "guard", "guard", "shrink", "shift_inwards", "round_up")


class Program:
    """A random DAG of tensors.

    Attributes
    ----------
    tensors: in dataflow order, the first given.
    sizes: symbolic sizes with a few values to try.
    """

    def __init__(self, seed: int, stages: int = 4, symbolic: bool = False, threads: bool = False) -> None:
        self.rng = random.Random(seed)
        self.threads = threads
        self.sizes: dict[Var, tuple[int, ...]] = {}
        self.tensors: list[Tensor] = []
        rng = self.rng
        dims = rng.choice((1, 1, 2))
        if symbolic:
            n = te.var("n")
            self.sizes[n] = tuple(sorted(rng.sample(range(1, 14), 3)))
            self._symbolic(seed, n, dims, stages)
            return
        shape = tuple(rng.randint(6, 14) if dims == 1 else rng.randint(4, 9) for _ in range(dims))
        self.tensors.append(te.placeholder(shape, name="A"))
        for k in range(stages):
            self.tensors.append(self._stage(f"T{k}"))

    # -- tensors ------------------------------------------------------------------------------------------------

    def _stage(self, name: str) -> Tensor:
        rng = self.rng
        dims = rng.choice((1, 1, 2))
        shape = tuple(rng.randint(3, 12) if dims == 1 else rng.randint(2, 6) for _ in range(dims))
        sources = [self.tensors[-1]]
        if len(self.tensors) > 1 and rng.random() < 0.4:
            sources.append(rng.choice(self.tensors))
        reduce = te.reduce_axis((0, rng.randint(2, 4)), "r") if rng.random() < 0.25 else None

        def formula(*axis: Any) -> Any:
            variables = [*axis, *([] if reduce is None else [reduce])]
            total = self._read(sources[0], variables)
            for source in sources[1:] + [s for s in sources if rng.random() < 0.4]:
                total = total + self._read(source, variables) * 2.0
            if rng.random() < 0.3:
                total = self._choice(variables, total)
            return total if reduce is None else te.sum(total, axis=reduce)

        named: Callable[..., Any] = (lambda i: formula(i)) if dims == 1 else (lambda i, j: formula(i, j))
        return te.compute(shape, named, name=name)

    def _choice(self, variables: list[Any], value: Any) -> Any:
        rng = self.rng
        x, y = rng.choice(variables), rng.choice(variables)
        cond = rng.choice((x < rng.randint(1, 6), x + y >= rng.randint(1, 6), x <= y, (x % 2).eq(0), x >= y * 2 - 1))
        select = rng.choice((tir.Select, tir.if_then_else))
        return select(cond, value, tir.const(0.0, "float32"))

    def _read(self, source: Tensor, variables: list[Any]) -> Any:
        return source[tuple(self._index(int(e), variables) for e in source.shape)]

    def _index(self, extent: int, variables: list[Any]) -> Expr:
        """An index within `[0, extent)` for every value of the variables."""
        rng = self.rng
        x, y = rng.choice(variables), rng.choice(variables)
        e = rng.choice(
            (
                lambda: x, lambda: x, lambda: x + rng.randint(0, 3), lambda: x * 2 + rng.randint(0, 1),
                lambda: x + y, lambda: x - y, lambda: x // 2, lambda: x % 3, lambda: x * 3 + y, lambda: 5 - x,
                lambda: maximum(x - 2, 0), lambda: minimum(x, y), lambda: (x * 4 + y) // 3, lambda: (x + y) % 4,
                lambda: const(rng.randint(0, 2)), lambda: tir.truncdiv(x - 4, 2),
            )
        )()  # fmt: skip
        spans = [range(int(v.dom.extent)) for v in variables]
        values = [evaluate(e, dict(zip(variables, p, strict=True))) for p in itertools.product(*spans)]
        low, high = min(values), max(values)
        if high - low < extent:
            return (
                e + (rng.randint(0, extent - 1 - (high - low)) - low)
                if low < 0 or rng.random() < 0.5 or high >= extent
                else e
            )
        return rng.choice((lambda: (e - low) % extent, lambda: maximum(minimum(e, extent - 1), 0)))()

    def _symbolic(self, seed: int, n: Var, dims: int, stages: int) -> None:
        """A DAG of stencils, strides, reversals and selects with sizes in terms of `n`, no stage longer than before."""
        rng = self.rng
        pads = [rng.randint(0, 2) for _ in range(stages + 1)]
        total = sum(pads)
        self.tensors.append(te.placeholder((n + total,) + (5,) * (dims - 1), name="A"))
        for k in range(stages):
            total -= pads[k]
            sources = [self.tensors[-1]]
            if k and rng.random() < 0.4:
                sources.append(rng.choice(self.tensors))
            extent = n + total

            def formula(
                *axis: Any, sources: list[Tensor] = sources, pad: int = pads[k], extent: Expr = extent, kind: int = k
            ) -> Any:
                i, rest = axis[0], axis[1:]
                choice = random.Random(seed * 100 + kind)
                read: Any = None
                for source in sources:
                    places = [i, i + (pad if source is sources[0] else 0)]
                    if choice.random() < 0.2:
                        places.append(i // 2)
                    if choice.random() < 0.15:
                        places.append(extent - 1 - i)
                    for place in places:
                        term = source[(place, *rest)]
                        read = term if read is None else read + term
                kinds = (None, None, None, i >= 1, i < n - 1, (i % 2).eq(0))
                cond = choice.choice(kinds)
                return read if cond is None else tir.if_then_else(cond, read, 0.0)

            named: Any = (lambda i, f=formula: f(i)) if dims == 1 else (lambda i, j, f=formula: f(i, j))
            self.tensors.append(te.compute((extent,) + (5,) * (dims - 1), named, name=f"T{k}"))

    # -- schedules ----------------------------------------------------------------------------------------------

    def schedule(self, tails: bool = True) -> Schedule:
        rng = self.rng
        computed = self.tensors[1:]
        outputs = [computed[-1]]
        read = {t for s in computed for t in s.op.input_tensors}
        outputs += [t for t in computed[:-1] if t not in read]
        s = te.create_schedule([t.op for t in dict.fromkeys(outputs)])
        self._rewrite(s)
        for stage in reversed(list(s.stages)):
            if not stage.op.input_tensors:
                continue
            if stage.is_output:
                if self.threads and stage.op is s.outputs[0]:
                    self._on_threads(stage)
                else:
                    self._loops(stage, tails)
                continue
            choice = rng.random()
            if choice < 0.1 and stage.op.reduction is None:
                stage.compute_inline()
                continue
            if choice < 0.75:
                self._attach(s, stage)
            if self.threads and self._fetched_together(stage):
                continue
            self._loops(stage, tails)
        return s

    def _rewrite(self, s: Schedule) -> None:
        """Apply cache_read and cache_write at random."""
        rng = self.rng
        if rng.random() < 0.2:
            tensor = rng.choice(self.tensors[:-1])
            readers = [c for c in s.stages if tensor in c.op.input_tensors]
            if readers:
                chosen = rng.sample(readers, rng.randint(1, len(readers)))
                s.cache_read(tensor, rng.choice(("global", "local", "shared")), [c.op for c in chosen])
        if rng.random() < 0.15:
            stage = rng.choice([c for c in s.stages if c.op.input_tensors])
            if rng.random() < 0.5 and not stage.op.reduction:
                stage.split(stage.op.axis[0], factor=rng.randint(2, 4))
            s.cache_write(stage.op.output(0), rng.choice(("global", "local")))
        reductions = [c for c in s.stages if c.op.input_tensors and c.op.reduction is not None]
        if reductions and rng.random() < 0.3:
            stage = rng.choice(reductions)
            axis = stage.op.reduce_axis[0]
            chosen_axis = rng.choice((axis, *stage.split(axis, factor=2))) if rng.random() < 0.6 else axis
            if chosen_axis in stage.leaf_iter_vars:
                s.rfactor(stage.op.output(0), chosen_axis)

    def _on_threads(self, stage: Any) -> None:
        """Blocks of threads over the first axis of an output."""
        self.thread = te.thread_axis("threadIdx.x")
        self.count = self.rng.randint(2, 4)
        outer, inner = stage.split(stage.op.axis[0], factor=self.count)
        stage.bind(outer, te.thread_axis("blockIdx.x"))
        stage.bind(inner, self.thread)

    def _fetched_together(self, stage: Any) -> bool:
        """A storage scope, and sometimes the threads of the output to compute it together."""
        rng = self.rng
        stage.set_scope(rng.choice(("", "shared", "shared", "local", "warp", "global")))
        if rng.random() < 0.5 or stage.scope not in ("shared", "warp") or stage.attach_stage is None:
            return False
        fused = stage.fuse(*stage.op.axis) if rng.random() < 0.5 else stage.op.axis[0]
        by = rng.choice(("factor", "nparts"))
        outer, inner = stage.split(fused, **{by: self.count})
        stage.bind(inner if by == "factor" else outer, self.thread)
        return True

    def _attach(self, s: Schedule, producer: Any) -> None:
        """Somewhere around all consumers, most often in the only one."""
        rng = self.rng
        candidates = []
        for stage in s.stages:
            if not stage.op.input_tensors or stage.attach_type.name == "INLINE":
                continue
            candidates += [(stage, iv) for iv in stage.leaf_iter_vars]
        rng.shuffle(candidates)
        for stage, iv in candidates[:12]:
            if stage is producer or not s.is_consumer(stage, producer):
                continue
            producer.compute_at(stage, iv)
            try:
                s.normalize()
            except te.ScheduleError:
                producer.compute_root()
                continue
            return

    def _loops(self, stage: Any, tails: bool) -> None:
        rng = self.rng
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            leaves = stage.leaf_iter_vars
            data = [iv for iv in leaves if not iv.is_reduce]
            action = rng.random()
            if action < 0.6 and leaves:
                iv = rng.choice(leaves)
                tail = rng.choice(TAILS) if tails and not iv.is_reduce and not stage.op.reduction else "guard"
                if rng.random() < 0.75:
                    stage.split(iv, factor=rng.randint(2, 5), tail=tail)
                else:
                    stage.split(iv, nparts=rng.randint(2, 4), tail=tail)
            elif action < 0.8 and len(data) > 1:
                k = rng.randrange(len(leaves) - 1)
                if leaves[k].is_reduce == leaves[k + 1].is_reduce:
                    stage.fuse(leaves[k], leaves[k + 1])
            elif len(leaves) > 1:
                order = list(leaves)
                rng.shuffle(order)
                stage.reorder(*order)

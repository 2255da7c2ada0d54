"""What an operator is here, and the schedules of operators that compute each element from a few."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import lowering.tvm as tvm
from lowering.tvm import te

Tensors = Sequence[te.Tensor]
Scheduler = Callable[[Tensors], te.Schedule]


@dataclass(frozen=True)
class Operator:
    """An operator with its schedules.

    Attributes
    ----------
    compute: from inputs to the outputs.
    inputs: shape and type of each input, small; tests use these.
    large: the shapes for benchmarks.
    reference: the outputs by numpy.
    schedules: by "generic", "x86" and "cuda", from the outputs.
    below: for each integer input, the number that its elements stay below.
    """

    compute: Callable[..., Any]
    inputs: Sequence[tuple[tuple[int, ...], str]]
    large: Sequence[tuple[int, ...]]
    reference: Callable[..., Any]
    schedules: dict[str, Scheduler]
    below: int = 4

    def placeholders(self, is_large: bool = False) -> list[te.Tensor]:
        """New inputs."""
        shapes = self.large if is_large else [shape for shape, _ in self.inputs]
        types = [dtype for _, dtype in self.inputs]
        return [te.placeholder(s, dtype=d, name=f"in{k}") for k, (s, d) in enumerate(zip(shapes, types, strict=True))]

    def scheduled(self, schedule: str, is_large: bool = False) -> tuple[te.Schedule, list[te.Tensor]]:
        """A schedule, and the arguments of the function: inputs, then outputs."""
        ins = self.placeholders(is_large)
        outs = self.compute(*ins)
        outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
        with tvm.target.Target({"x86": "llvm -mcpu=skylake-avx512", "cuda": "cuda"}.get(schedule, "llvm")):
            return self.schedules[schedule](outs), [*ins, *outs]


def pad(data: te.Tensor, before: Sequence[int], after: Sequence[int], value: float = 0.0) -> te.Tensor:
    """The tensor with elements of a value around it."""
    shape = [n + low + high for n, low, high in zip(data.shape, before, after, strict=True)]

    def element(*i: Any) -> Any:
        around = [(k, n, low) for k, n, low, high in zip(i, data.shape, before, after, strict=True) if low or high]
        inside = tvm.tir.all(*(c for k, n, low in around for c in (k >= low, k < n + low)))
        place = [k - low for k, low in zip(i, before, strict=True)]
        return tvm.tir.if_then_else(inside, data(*place), tvm.tir.const(value, data.dtype))

    if not any((*before, *after)):
        return te.compute(data.shape, lambda *i: data(*i), name="pad", tag="injective")
    return te.compute(shape, element, name="pad", tag="injective")


def generic(outs: Tensors) -> te.Schedule:
    """Each stage by its own loops."""
    return te.create_schedule([t.op for t in outs])


def parallel_rows(s: te.Schedule, out: te.Tensor, width: int = 8) -> None:
    """Run the outer loops of a stage in parallel, and the innermost one by vectors."""
    *outer, last = s[out].op.axis
    _, lanes = s[out].split(last, factor=width)
    s[out].vectorize(lanes)
    if outer:
        s[out].parallel(s[out].fuse(*outer))


def thread_blocks(s: te.Schedule, out: te.Tensor, threads: int = 64) -> te.IterVar:
    """Bind all loops of a stage to blocks of threads; returns the loop of a thread."""
    block, thread = s[out].split(s[out].fuse(*s[out].op.axis), factor=threads)
    s[out].bind(block, te.thread_axis("blockIdx.x"))
    s[out].bind(thread, te.thread_axis("threadIdx.x"))
    return thread


def injective_x86(outs: Tensors) -> te.Schedule:
    """Inline what stands for one element each; rows in parallel, by vectors."""
    s = generic(outs)
    te.schedule.AutoInlineInjective(s)
    for out in outs:
        parallel_rows(s, out)
    return s


def injective_cuda(outs: Tensors) -> te.Schedule:
    """Inline what stands for one element each; a thread an element."""
    s = generic(outs)
    te.schedule.AutoInlineInjective(s)
    for out in outs:
        thread_blocks(s, out)
    return s


INJECTIVE: dict[str, Scheduler] = {"generic": generic, "x86": injective_x86, "cuda": injective_cuda}

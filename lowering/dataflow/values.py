"""The value that a read meets, over the variables of the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bound import dtypes
from bound.tir import build
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import loaded_tensor, nodes
from intset.budgets import VALUE_NODES
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import opaque_terms, postorder
from intset.regions.shape import Shape
from lowering.dataflow.points import Points
from lowering.dataflow.program import Program, Read, Write
from lowering.nest.tensors import limits_of_elements
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced

if TYPE_CHECKING:
    from lowering.dataflow.flow import Source

MAX_CHAIN = 8  # of reads whose values stand in one another


class Values:
    """The values of a program's writes.

    Parameters
    ----------
    sources: of a read.
    """

    def __init__(self, program: Program, points: Points, sources: Callable[[Read], Sequence[Source]]) -> None:
        self._program, self._points, self._sources = program, points, sources
        self._held: dict[Write, Operand | None] = {}
        self._depth = 0

    def at(self, write: Write, at: Sequence[Expr], read: Read, where: Shape) -> Operand | None:
        """The value of an instance of a write, as its element holds it; `None` where that is not said."""
        value = self._of(write)
        if value is None:
            return None
        return replaced(value, dict(zip(write.loop.vars, at, strict=True)))

    def _of(self, write: Write) -> Operand | None:
        """The value over the loops of the write."""
        if write not in self._held:
            self._held[write] = None  # of itself, for a value that is made of itself
            if self._depth < MAX_CHAIN:
                self._depth += 1
                try:
                    self._held[write] = self._found(write)
                finally:
                    self._depth -= 1
        return self._held[write]

    def _found(self, write: Write) -> Operand | None:
        value = write.value
        if value is None or has_undef(value):
            return None
        below = list(nodes(value))
        if len(below) > VALUE_NODES:
            return None
        scalars = set(self._program.f.scalars)
        if any(isinstance(n, Value) and n.op is ValueOp.PARAM and n not in scalars for n in below):
            return None
        known: dict[Operand, Operand] = {}
        for node in below:
            if loaded_tensor(node) is not None and not self._is_constant(node):
                held = self._read(write, node)
                if held is None:
                    return None
                known[node] = held
        value = replaced(value, known) if known else value
        terms: list[Operand] = postorder((value,))
        if any(term.op is ops.LOAD and loaded_tensor(term) is None for term in terms):
            return None
        return self._converted(value, write)

    def _is_constant(self, node: Operand) -> bool:
        """Whether the nest never writes the tensor of an element."""
        tensor = loaded_tensor(node)
        return tensor is not None and not any(
            storage.tensor is tensor and (writes or not storage.is_param)
            for storage, writes in self._program.writes.items()
        )

    def _read(self, write: Write, node: Operand) -> Operand | None:
        """The value of an element that the value of a write is made of, where it is one for all instances."""
        reads = [r for r in write.place.reads.values() if r.node is node]
        if not reads:
            return None
        found = self._sources(reads[0])
        values = {id(source.value): source.value for source in found}
        return next(iter(values.values())) if len(values) == 1 else None

    def _converted(self, value: Operand, write: Write) -> Operand | None:
        """The value as an element of the tensor holds it."""
        dtype = write.storage.tensor.dtype
        if write.kind == "assume":
            return value
        if isinstance(value, Expr):
            if dtypes.is_int(dtype):
                return value if self._fits(value, write, *dtypes.int_range(dtype)) else None
            if dtypes.is_float(dtype):
                exact = {"float16": 11, "float32": 24, "float64": 53}[dtype]
                return build.cast(dtype, value) if self._fits(value, write, -(1 << exact), 1 << exact) else None
            return None
        if isinstance(value, Cond):
            return value if dtype == "bool" else None
        if value.dtype != dtype:
            return None
        return value

    def _fits(self, value: Expr, write: Write, low: int, high: int) -> bool:
        ranges: dict[Var, Range | None] = {}
        for loop in reversed(list(write.loop.around())):
            if loop.limits is not None and not opaque_terms(*loop.limits):
                ranges[loop.vars[-1]] = Range(*loop.limits)
        ways = [way for way in write.ways if way.conditions]
        facts = [*write.place.way.conditions, *(ways[0].conditions if len(ways) == 1 == len(write.ways) else ())]
        if any(loaded_tensor(term) is None for term in opaque_terms(value)):
            return False
        ctx = self._program.f.ctx.extended(ranges=ranges, facts=[*facts, *limits_of_elements(value)])
        return bool(ctx.prove((value >= low) & (value <= high)))

"""Values of stored elements, expressed over the loops around the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bound import dtypes
from bound.tir import build
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.walk import loaded_tensor, nodes
from intset.budgets import VALUE_CHAIN, VALUE_NODES
from intset.expr import ops
from intset.expr.dag import opaque_terms, postorder
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from lowering.dataflow.program import Program, ReadAccess, WriteAccess
from lowering.nest.tensors import limits_of_elements
from lowering.nest.undef import has_undef
from lowering.nest.walk import replaced

if TYPE_CHECKING:
    from lowering.dataflow.flow import Source


class WrittenValues:
    """The values of the writes of a program.

    Guarantee: values include conversion to the tensor's type, and read only tensors without writes in the nest.

    Parameters
    ----------
    sources: the sources of a read.
    """

    def __init__(self, program: Program, sources: Callable[[ReadAccess], Sequence[Source]]) -> None:
        self._program, self._sources = program, sources
        self._values: dict[WriteAccess, Operand | None] = {}
        self._depth = 0

    def at(self, write: WriteAccess, instance: Sequence[Expr]) -> Operand | None:
        """The value of an instance of a write; `None` if unknown."""
        value = self._of(write)
        return None if value is None else replaced(value, dict(zip(write.loop.vars, instance, strict=True)))

    def _of(self, write: WriteAccess) -> Operand | None:
        """The value over the loops of the write."""
        if write not in self._values:
            self._values[write] = None  # the value of a recurrence is unknown
            if self._depth < VALUE_CHAIN:
                self._depth += 1
                try:
                    self._values[write] = self._computed(write)
                finally:
                    self._depth -= 1
        return self._values[write]

    def _computed(self, write: WriteAccess) -> Operand | None:
        value = write.value
        if value is None or has_undef(value):
            return None
        below = list(nodes(value))
        if len(below) > VALUE_NODES:
            return None
        scalars = set(self._program.f.scalars)
        if any(isinstance(n, Value) and n.op is ValueOp.PARAM and n not in scalars for n in below):
            return None
        contents: dict[Operand, Operand] = {}
        for node in below:
            if loaded_tensor(node) is not None and not self._is_constant(node):
                content = self._content(write, node)
                if content is None:
                    return None
                contents[node] = content
        value = replaced(value, contents) if contents else value
        terms: list[Operand] = postorder((value,))
        if any(term.op is ops.LOAD and loaded_tensor(term) is None for term in terms):
            return None
        return self._converted(value, write)

    def _is_constant(self, node: Operand) -> bool:
        """Whether the tensor of an element has no writes in the nest."""
        tensor = loaded_tensor(node)
        return tensor is not None and not any(
            storage.tensor is tensor and (writes or not storage.is_param)
            for storage, writes in self._program.writes.items()
        )

    def _content(self, write: WriteAccess, node: Operand) -> Operand | None:
        """Content of an element read by a written value; `None` if instances disagree."""
        read = next((read for read in write.site.reads.values() if read.node is node), None)
        if read is None:
            return None
        values = {id(source.value): source.value for source in self._sources(read)}
        return next(iter(values.values())) if len(values) == 1 else None

    def _converted(self, value: Operand, write: WriteAccess) -> Operand | None:
        """Convert a value to the type of the tensor; `None` if conversion may change it."""
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
        return value if value.dtype == dtype else None

    def _fits(self, value: Expr, write: WriteAccess, low: int, high: int) -> bool:
        """Whether an integer is between two numbers at every instance of a write."""
        if any(loaded_tensor(term) is None for term in opaque_terms(value)):
            return False
        ranges: dict[Var, Range | None] = {}
        for loop in reversed(list(write.loop.around())):
            if loop.limits is not None and not opaque_terms(*loop.limits):
                ranges[loop.vars[-1]] = Range(*loop.limits)
        only = write.guards[0].conditions if len(write.guards) == 1 else ()
        facts = [*write.site.guard.conditions, *only, *limits_of_elements(value)]
        ctx = self._program.f.ctx.extended(ranges=ranges, facts=facts)
        return bool(ctx.prove((value >= low) & (value <= high)))

"""The dataflow graph of operations: order, reachability, what lies between tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bound.operation import Operation
from bound.tensor import Tensor


def post_order(outputs: Iterable[Operation]) -> list[Operation]:
    """Every operation needed for `outputs`, producers before consumers, in the order in which inputs are read."""
    order: dict[Operation, None] = {}
    # Entries: an operation, and whether its inputs were put on the stack already.
    stack = [(op, False) for op in reversed(list(outputs))]
    while stack:
        op, ready = stack.pop()
        if op in order:
            continue
        if ready:
            order[op] = None
            continue
        stack.append((op, True))
        stack.extend((tensor.op, False) for tensor in reversed(op.input_tensors) if tensor.op not in order)
    return list(order)


class Reach:
    """Which operations depend on which: one bit mask an operation, made once in time linear in the graph."""

    def __init__(self, ordered: Sequence[Operation]) -> None:
        self._number = {op: k for k, op in enumerate(ordered)}
        self._mask = dict.fromkeys(ordered, 0)
        for op in reversed(ordered):
            below = self._mask[op] | 1 << self._number[op]
            for tensor in op.input_tensors:
                if tensor.op in self._mask:
                    self._mask[tensor.op] |= below

    def reaches(self, producer: Operation, consumer: Operation) -> bool:
        """Whether `consumer` reads `producer`, directly or through others."""
        return bool(self._mask[producer] >> self._number[consumer] & 1)


def between(outputs: Sequence[Tensor], inputs: Sequence[Tensor], include_inputs: bool) -> list[Operation]:
    """The operations on paths from `inputs` to `outputs`, producers first; those of `inputs` only on request."""
    start = set(inputs)
    inside: dict[Operation, bool] = {}
    for op in _until(outputs, start):
        uses = any(tensor in start or inside.get(tensor.op, False) for tensor in op.input_tensors)
        is_input = any(tensor in start for tensor in op.outputs)
        inside[op] = include_inputs if is_input else uses
    # The outputs themselves belong to the group even when they read none of the inputs.
    wanted = {tensor.op for tensor in outputs}
    return [op for op, inner in inside.items() if inner or op in wanted]


def _until(outputs: Sequence[Tensor], start: set[Tensor]) -> list[Operation]:
    """`post_order` that does not look behind the operations of `start`."""
    order: dict[Operation, None] = {}
    stack = [(tensor.op, False) for tensor in reversed(outputs)]
    while stack:
        op, ready = stack.pop()
        if op in order:
            continue
        if ready or any(tensor in start for tensor in op.outputs):
            order[op] = None
            continue
        stack.append((op, True))
        stack.extend((tensor.op, False) for tensor in reversed(op.input_tensors))
    return list(order)

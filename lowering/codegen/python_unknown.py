"""Operands in Python where a value may be made of an `undef()`: such a value is an `Unknown`, and decides nothing."""

from __future__ import annotations

from bound.tensor import Tensor
from bound.tir.value import Operand, ValueOp
from intset.expr import ops
from lowering.codegen.python_ops import PythonSyntax
from lowering.codegen.text import opened

_BOTH = (ops.AND, ValueOp.AND)
_EITHER = (ops.OR, ValueOp.OR)
_NOT = (ops.NOT, ValueOp.NOT)
_SELECT = (ops.SELECT, ValueOp.SELECT)


class UnknownSyntax(PythonSyntax):
    """`PythonSyntax` that keeps apart what is known and what is not."""

    def operation(self, node: Operand, args: list[str]) -> str:
        if node.op in _BOTH or node.op in _EITHER:
            return f"{'both' if node.op in _BOTH else 'either'}({opened(args[0])}, lambda: {args[1]})"
        if node.op in _NOT:
            return f"negated({opened(args[0])})"
        if node.op in _SELECT:
            return f"({args[1]} if {self.decided(args[0])} else {args[2]})"
        if node.op is ValueOp.CALL and node.data == "popcount":
            return f"popcount({super().operation(node, args).removesuffix('.bit_count()')})"
        return super().operation(node, args)

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        return super().branch(self.decided(cond), then, orelse)

    def negated(self, text: str) -> str:
        return f"negated({text})"

    def decided(self, cond: str) -> str:
        return f"decided({opened(cond)})"

    def place(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        return super().place(tensor, [i if i.isdigit() else f"known({opened(i)})" for i in indices])

    def element(self, tensor: Tensor, place: str) -> str:
        text = super().element(tensor, place)
        return f"keep({text}, {self.names.of(tensor, tensor.name)}_w[{place}])" if tensor in self.tracked else text

    def store(self, tensor: Tensor, place: str, value: str) -> list[str]:
        base = self.names.of(tensor, tensor.name)
        state = f"{base}_w" if tensor in self.tracked else "None"
        return [f"store({base}, {state}, {place}, {value})"]

"""Operands in Python: integers are Python's, floats are of double width and are rounded when they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.value import INFIX, Value, ValueOp
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import Node
from intset.expr.ops import Op
from lowering.codegen.names import Names
from lowering.codegen.text import opened
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import is_undef

_INFIX: Final[dict[Op, str]] = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.FLOORDIV: "//", ops.FLOORMOD: "%",
    ops.BITAND: "&", ops.BITOR: "|", ops.BITXOR: "^", ops.SHL: "<<", ops.SHR: ">>",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
    ops.AND: "and", ops.OR: "or",
}  # fmt: skip
_CALLS: Final[dict[Op, str]] = {
    ops.CEILDIV: "ceildiv", ops.TRUNCDIV: "truncdiv", ops.TRUNCMOD: "truncmod", ops.MIN: "min", ops.MAX: "max",
    ops.ABS: "abs",
}  # fmt: skip
_PREFIX: Final[dict[Op, str]] = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "not "}
_VALUE_INFIX: Final = {**{op: str(op) for op in INFIX}, **{op: str(op) for op in (
    ValueOp.LT, ValueOp.LE, ValueOp.GT, ValueOp.GE, ValueOp.EQ, ValueOp.NE, ValueOp.AND, ValueOp.OR)}}  # fmt: skip
_VALUE_CALLS: Final = {
    ValueOp.DIV: "divide", ValueOp.FLOORDIV: "float_floordiv", ValueOp.FLOORMOD: "float_floormod",
    ValueOp.TRUNCDIV: "float_truncdiv", ValueOp.TRUNCMOD: "fmod", ValueOp.MIN: "float_min", ValueOp.MAX: "float_max",
    ValueOp.ABS: "abs",
}  # fmt: skip


class PythonSyntax:
    """Python texts of operands.

    Parameters
    ----------
    names: of variables, parameters and tensors.
    checked: whether every access is checked.
    constant: gives the name under which the source finds an object.
    """

    def __init__(self, names: Names, checked: bool, constant: Callable[[Any], str]) -> None:
        self.names = names
        self.constant = constant
        self.checked = checked
        self.storage: dict[Tensor, tuple[str, ...]] = {}  # per dimension: where the storage of a tensor begins, or ""
        self.padding: dict[Tensor, str] = {}  # the function that tells whether an element may not be touched
        self.tracked: frozenset[Tensor] = frozenset()  # the tensors of which it is known which elements are written

    # -- the words of `Syntax` ----------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST or node.op is ops.BOOL:
            return str(node.data) if node.op is ops.BOOL or node.data >= 0 else f"({node.data})"
        if node.op is ValueOp.CONST:
            return _constant(node)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is ValueOp.PARAM:
            return self.names.of(node, node.data[0])
        return None

    def operation(self, node: Any, args: list[str]) -> str:
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self.load(tensor, args)
        if is_undef(node):
            return f"undef({(node.data.dtype if node.op is ops.LOAD else node.dtype)!r})"
        return self._value(node, args) if isinstance(node, Value) else self._integer(node, args)

    def bind(self, node: Any, text: str) -> tuple[str, list[str]]:
        name = self.names.fresh("t")
        return name, [f"{name} = {opened(text)}"]

    def declare(self, node: Any) -> tuple[str, list[str]]:
        return self.names.fresh("t"), []

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {opened(text)}"

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        lines = [f"if {opened(cond)}:", *(f"    {line}" for line in then)]
        return [*lines, "else:", *(f"    {line}" for line in orelse)] if orelse else lines

    def negated(self, text: str) -> str:
        return f"not {text}"

    # -- operations ---------------------------------------------------------------------------------------------

    def _integer(self, node: Node, args: list[str]) -> str:
        op = node.op
        if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(map(opened, args))})"
        if op is ops.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op is ops.CAST:
            return wrapped(args[0], *node.data)
        if op is ops.LOAD and isinstance(node.data, ShapeOf):
            return f"shapes[{self.constant(node.data.tensor)}][{args[0]}]"
        if op is ops.ASSERTING or (op is ops.LOAD and isinstance(node.data, IntFunction)):
            return args[0]
        if op is ops.LOAD:
            return f"opaque({node.data.name!r})"
        raise AssertionError(f"no Python for {op.name}")

    def _value(self, node: Value, args: list[str]) -> str:
        op = node.op
        if op in _VALUE_CALLS:
            return f"{_VALUE_CALLS[op]}({', '.join(map(opened, args))})"
        if op in _VALUE_INFIX:
            return f"({args[0]} {_VALUE_INFIX[op]} {args[1]})"
        if op is ValueOp.NEG:
            return f"(-{args[0]})"
        if op is ValueOp.NOT:
            return f"(not {args[0]})"
        if op is ValueOp.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op is ValueOp.CALL and node.data == "popcount":
            return f"({args[0]} & {(1 << dtypes.bits(node.dtype)) - 1}).bit_count()"
        if op is ValueOp.CALL:
            result = f"call_{node.data}({', '.join(map(opened, args))})"
            is_int = dtypes.is_int(node.dtype)
            return wrapped(result, dtypes.bits(node.dtype), dtypes.signed(node.dtype)) if is_int else result
        if op is ValueOp.CAST:
            return self._cast(node, args[0])
        raise AssertionError(f"no Python for {op}")

    def _cast(self, node: Value, arg: str) -> str:
        source: Any = node.args[0]
        if dtypes.is_int(node.dtype):
            return wrapped(f"whole({opened(arg)})", dtypes.bits(node.dtype), dtypes.signed(node.dtype))
        if isinstance(source, Value) and dtypes.is_float(source.dtype):
            is_narrowing = dtypes.bits(node.dtype) < dtypes.bits(source.dtype)
            return f"round_{node.dtype}({opened(arg)})" if is_narrowing else arg
        return f"float({opened(arg)})"

    # -- storage ------------------------------------------------------------------------------------------------

    def load(self, tensor: Tensor, indices: list[str]) -> str:
        """The element at the indices."""
        place, check, given = self.place(tensor, indices)
        base = self.names.of(tensor, tensor.name)
        if tensor in self.tracked:
            at = self.names.fresh("p")
            is_read = f"{base}_w[({at} := {place})]"
            held = self.element(tensor, at)
            if check and tensor in self.padding:
                held = f"({held} if {is_read} else unread({tensor.name!r}, {given}))"
                return f"({held} if {check} else outside({tensor.name!r}, 'read', {given}))"
            return f"({held} if {f'{check} and {is_read}' if check else is_read} else unread({tensor.name!r}, {given}))"
        if not check:
            return self.element(tensor, place)
        return f"({self.element(tensor, place)} if {check} else outside({tensor.name!r}, 'read', {given}))"

    def store(self, tensor: Tensor, place: str, value: str) -> list[str]:
        """The lines that put a value at a place. It is computed first: it may read what the store changes."""
        base = self.names.of(tensor, tensor.name)
        if tensor not in self.tracked:
            return [f"{base}[{place}] = {value}"]
        at = self.names.fresh("p")
        return [f"{at} = {place}", f"{base}[{at}] = {value}", f"{base}_w[{at}] = 1"]

    def decided(self, cond: str) -> str:
        """The text of a truth value that decides what is executed."""
        return cond

    def element(self, tensor: Tensor, place: str) -> str:
        """What the storage of a tensor holds at a place."""
        return f"{self.names.of(tensor, tensor.name)}[{place}]"

    def place(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        """The number of an element in its storage, the check that it is inside, and what a message needs."""
        base = self.names.of(tensor, tensor.name)
        starts = self.storage.get(tensor, ("",) * len(indices))
        relative = [f"({i} - {s})" if s else i for i, s in zip(indices, starts, strict=True)]
        checks: list[str] = []
        inside: list[str] = []
        for k, index in enumerate(relative):
            if self.checked and not index.isidentifier() and not index.isdigit():
                name = self.names.fresh("x")
                checks.append(f"0 <= ({name} := {opened(index)}) < {base}_n{k}")
                inside.append(name)
            else:
                if self.checked:
                    checks.append(f"0 <= {index} < {base}_n{k}")
                inside.append(index)
        terms = [f"{index} * {base}_s{k}" for k, index in enumerate(inside[:-1])] + inside[-1:]
        given = "".join(f"{index}, " for index in inside)
        extents = "".join(f"{base}_n{k}, " for k in range(len(inside)))
        origin = "".join(f"{start or 0}, " for start in starts)
        # every index gets its name, also behind one that is outside: the message names them all
        names_late = any(":=" in check for check in checks[1:])
        check = " & ".join(f"({check})" for check in checks) if names_late else " and ".join(checks)
        if self.checked and tensor in self.padding:
            absolute = (f"{i} + {s}" if s else i for i, s in zip(inside, starts, strict=True))
            check = f"{check} and not {self.padding[tensor]}({', '.join(absolute)})"
        return " + ".join(terms) or "0", check, f"({given}), ({extents}), ({origin})"


def wrapped(text: str, bits: int, signed: bool) -> str:
    """An integer as a register of `bits` bits holds it."""
    mask = (1 << bits) - 1
    if not signed:
        return f"({text} & {mask})"
    half = 1 << (bits - 1)
    return f"((({text} + {half}) & {mask}) - {half})"


def _constant(node: Value) -> str:
    value = node.data
    if isinstance(value, bool):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    return repr(value) if not str(value).startswith("-") else f"({value!r})"

"""Operands in Python, with the arithmetic of their machine types.

Guarantee: an operation gives what the C of the same nest gives. A float is a Python float that its type holds: each
result is rounded at once, which is the type's own result, since a double has more than twice the bits of a narrower
float. Integers are Python's; a result that depends on data and may leave 64 bits wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.calls import FLOAT_FUNCTIONS, FLOAT_PAIRS, PREDICATES, ROUNDINGS
from bound.tir.opaque import IntFunction
from bound.tir.value import INFIX, Value, ValueOp
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.node import Expr, Node
from intset.expr.ops import Op
from lowering.codegen.names import Names
from lowering.codegen.spans import WordSpans, is_plain_shift, is_unsigned
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
_SHIFTS: Final[dict[Op, str]] = {ops.SHL: "shl", ops.SHR: "shr"}
_PREFIX: Final[dict[Op, str]] = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "not "}
_VALUE_INFIX: Final = {**{op: str(op) for op in INFIX}, **{op: str(op) for op in (
    ValueOp.LT, ValueOp.LE, ValueOp.GT, ValueOp.GE, ValueOp.EQ, ValueOp.NE, ValueOp.AND, ValueOp.OR)}}  # fmt: skip
_VALUE_CALLS: Final = {
    ValueOp.DIV: "divide", ValueOp.TRUNCMOD: "fmod", ValueOp.MIN: "float_min", ValueOp.MAX: "float_max",
    ValueOp.ABS: "abs",
}  # fmt: skip
CALLS: Final = frozenset(
    (*FLOAT_FUNCTIONS, *FLOAT_PAIRS, *ROUNDINGS, *PREDICATES, "pow")
)  # what is no call of the host
_FLOORS: Final = {ValueOp.FLOORDIV: "float_floordiv", ValueOp.FLOORMOD: "float_floormod"}
# Of operations on floats those whose result the type of the operands may not hold.
_INEXACT: Final = (ValueOp.ADD, ValueOp.SUB, ValueOp.MUL, ValueOp.DIV)
# What an integer variable may be: no loop that is run goes further. Sums with data then need no wrapping.
_INDEX_BITS: Final = 48


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
        self.spans = WordSpans(_INDEX_BITS)
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
        if is_undef(node):
            return f"undef({(node.data.dtype if node.op is ops.LOAD else node.dtype)!r})"
        if isinstance(node, Value):
            return self.load(node.data, args) if node.op is ValueOp.LOAD else self._value(node, args)
        overflows = isinstance(node, Expr) and self.spans.enter(node)
        text = self._integer(node, args)
        return wrapped(text, 64, True) if overflows else text

    def bind(self, node: Any, text: str) -> tuple[str, list[str]]:
        name = self.names.fresh("t")
        return name, [f"{name} = {opened(text)}"]

    def declare(self, node: Any) -> tuple[str, list[str]]:
        if isinstance(node, Expr):
            self.spans.enter(node)
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
        tensor = loaded_tensor(node)
        if tensor is not None:
            element = self.load(tensor, args)
            return wrapped(element, 64, True) if tensor.dtype == "uint64" and tensor.value_range is None else element
        if op in _SHIFTS and not is_plain_shift(node, 32):
            return f"{_SHIFTS[op]}({', '.join(map(opened, args))})"
        if op in _INFIX:
            return f"({args[0]} {_INFIX[op]} {args[1]})"
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        if op in _CALLS:
            return f"{_CALLS[op]}({', '.join(map(opened, args))})"
        if op is ops.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op is ops.CAST:
            return _register(args[0], *node.data)
        if op is ops.LOAD and isinstance(node.data, ShapeOf):
            return f"shapes[{self.constant(node.data.tensor)}][{args[0]}]"
        if op is ops.ASSERTING or (op is ops.LOAD and isinstance(node.data, IntFunction)):
            return args[0]
        if op is ops.LOAD:
            return f"opaque({node.data.name!r})"
        raise AssertionError(f"no Python for {op.name}")

    def _value(self, node: Value, args: list[str]) -> str:
        op = node.op
        if op in _VALUE_CALLS or op in _VALUE_INFIX:
            given = ", ".join(map(opened, args))
            text = f"{_VALUE_CALLS[op]}({given})" if op in _VALUE_CALLS else f"({args[0]} {_VALUE_INFIX[op]} {args[1]})"
            return _rounded(text, node.dtype) if op in _INEXACT else text
        if op in _FLOORS:
            return f"{_FLOORS[op]}{_suffix(node.dtype)}({', '.join(map(opened, args))})"
        if op is ValueOp.TRUNCDIV:
            return f"truncated({_rounded(f'divide({opened(args[0])}, {opened(args[1])})', node.dtype)})"
        if op is ValueOp.NEG:
            return f"(-{args[0]})"
        if op is ValueOp.NOT:
            return f"(not {args[0]})"
        if op is ValueOp.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        if op is ValueOp.CALL and node.data == "popcount":
            return f"({args[0]} & {(1 << dtypes.bits(node.dtype)) - 1}).bit_count()"
        if op is ValueOp.CALL:
            return self._call(node, args)
        if op is ValueOp.CAST:
            return self._cast(node, args[0])
        raise AssertionError(f"no Python for {op}")

    def _call(self, node: Value, args: list[str]) -> str:
        dtype = node.dtype
        given = ", ".join(map(opened, args))
        if node.data in CALLS and (dtypes.is_float(dtype) or node.data in PREDICATES):
            return f"call_{node.data}{_suffix(dtype)}({given})"
        result = f"call_{node.data}({given})"  # of the host: any number
        if dtypes.is_int(dtype):
            return _register(f"int({result})", dtypes.bits(dtype), dtypes.signed(dtype))
        return f"bool({result})" if dtype == "bool" else _rounded(f"float({result})", dtype)

    def _cast(self, node: Value, arg: str) -> str:
        source: Any = node.args[0]
        if dtypes.is_int(node.dtype):
            return _register(f"whole({opened(arg)})", dtypes.bits(node.dtype), dtypes.signed(node.dtype))
        if isinstance(source, Value) and dtypes.is_float(source.dtype):
            is_narrowing = dtypes.bits(node.dtype) < dtypes.bits(source.dtype)
            return _rounded(arg, node.dtype) if is_narrowing else arg
        number = wrapped(arg, 64, False) if is_unsigned(source) else arg
        return f"to_{node.dtype}({opened(number)})"

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
        text = f"{self.names.of(tensor, tensor.name)}[{place}]"
        return f"float({text})" if tensor.dtype == "float16" else text  # it is a numpy array

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


def _register(text: str, bits: int, signed: bool) -> str:
    """An integer converted to a type: one of 64 bits is signed, whatever its type."""
    return wrapped(text, bits, signed or bits >= 64)


def _suffix(dtype: str) -> str:
    """What the name of a function on narrow floats ends in."""
    return f"_{dtype}" if dtype in ("float16", "float32") else ""


def _rounded(text: str, dtype: str) -> str:
    """A Python float as a float type holds it."""
    return text if dtype == "float64" else f"round_{dtype}({opened(text)})"


def stored_text(value: Any, text: str, dtype: str) -> str:
    """The text of a value that is stored to an element of a type; storing a float to an element rounds it, too."""
    prefix = f"round_{dtype}("
    is_twice = isinstance(value, Value) and value.op in _INEXACT and text.startswith(prefix) and dtype != "float16"
    return text.removeprefix(prefix).removesuffix(")") if is_twice else text


def _constant(node: Value) -> str:
    value = node.data
    if isinstance(value, bool):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    return repr(value) if not str(value).startswith("-") else f"({value!r})"

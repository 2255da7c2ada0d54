"""Operands in Python, with the arithmetic of their machine types.

Guarantee: results equal those of emitted C code. A float is a Python float of its type's values: each
result is rounded at once, which gives the type's own result, since a double has more than twice the bits of a narrower
float. Integers are Python's; a result that depends on data and may leave 64 bits wraps around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import dtype_of
from bound.tir.calls import FLOAT_FUNCTIONS, FLOAT_PAIRS, PREDICATES, ROUNDINGS
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.opaque import IntFunction
from bound.tir.value import CALL, CONVERT, DIV, NUMBER, PARAM, READ, Operand, Value
from bound.tir.walk import loaded_tensor
from intset.expr import ops, printer
from intset.expr.node import Expr, Node
from intset.expr.ops import Op
from lowering.codegen.emitter import Identifiers, indented, opened
from lowering.codegen.word_spans import WordSpans, is_plain_shift
from lowering.nest.ir import ShapeOf
from lowering.nest.undef import is_undef

_INFIX: Final[dict[Op, str]] = {
    **{op: symbol for op, (symbol, _) in printer.INFIX.items()}, ops.AND: "and", ops.OR: "or",
}  # fmt: skip
_PREFIX: Final = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "not "}
_CALLS: Final[dict[Op, str]] = {
    ops.CEILDIV: "ceildiv", ops.TRUNCDIV: "truncdiv", ops.TRUNCMOD: "truncmod", ops.MIN: "min", ops.MAX: "max",
    ops.ABS: "abs",
}  # fmt: skip
_FLOAT_CALLS: Final = {
    DIV: "divide", ops.TRUNCMOD: "fmod", ops.MIN: "float_min", ops.MAX: "float_max", ops.ABS: "abs"
}  # fmt: skip
_FAR_SHIFTS: Final = {ops.SHL: "shl", ops.SHR: "shr"}
_FLOORS: Final = {ops.FLOORDIV: "float_floordiv", ops.FLOORMOD: "float_floormod"}
_OWN_CALLS: Final = frozenset((*FLOAT_FUNCTIONS, *FLOAT_PAIRS, *ROUNDINGS, *PREDICATES, "pow"))  # others: the host
_INEXACT: Final = (ops.ADD, ops.SUB, ops.MUL, DIV)  # may leave the type of the operands
_INDEX_BITS: Final = 48  # of integer variables: no loop that is run goes further, so sums with data do not wrap


class PythonSyntax:
    """Python texts of operands.

    Parameters
    ----------
    names: identifiers of variables, parameters and tensors.
    checked: whether every access is checked.
    constant: registers a Python object and returns its identifier.

    Attributes
    ----------
    storage: for each tensor and dimension, the name of its first index; empty for 0.
    padding: the function that tells whether an element of a tensor is untouchable.
    tracked: tensors with a byte of state for each element.
    """

    def __init__(self, names: Identifiers, checked: bool, constant: Callable[[Any], str]) -> None:
        self.names, self.checked, self.constant = names, checked, constant
        self.spans = WordSpans(_INDEX_BITS)
        self.storage: dict[Tensor, tuple[str, ...]] = {}
        self.padding: dict[Tensor, str] = {}
        self.tracked: frozenset[Tensor] = frozenset()

    # -- the methods of `Syntax` --------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST or node.op is ops.BOOL:
            return str(node.data) if node.op is ops.BOOL or node.data >= 0 else f"({node.data})"
        if node.op is NUMBER:
            return _constant(node)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is PARAM:
            return self.names.of(node, node.data[0])
        return None

    def operation(self, node: Any, args: list[str]) -> str:
        if is_undef(node):
            return f"undef({(node.data.dtype if node.op is ops.LOAD else node.dtype)!r})"
        if isinstance(node, Value):
            return self._value(node, args)
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
        lines = [f"if {opened(cond)}:", *indented(then)]
        return [*lines, "else:", *indented(orelse)] if orelse else lines

    def negated(self, text: str) -> str:
        return f"not {text}"

    def decided(self, cond: str) -> str:
        """The text of a truth value that controls execution."""
        return cond

    # -- operations ---------------------------------------------------------------------------------------------

    def _common(self, node: Any, args: list[str]) -> str:
        """Operations that integers and values share."""
        op = node.op
        calls = _FLOAT_CALLS if isinstance(node, Value) else _CALLS
        if op in calls:
            return f"{calls[op]}({', '.join(map(opened, args))})"
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        if op is ops.SELECT:
            return f"({args[1]} if {args[0]} else {args[2]})"
        return f"({args[0]} {_INFIX[op]} {args[1]})"

    def _integer(self, node: Node, args: list[str]) -> str:
        op = node.op
        tensor = loaded_tensor(node)
        if tensor is not None:
            return self.load(tensor, args)
        if op in _FAR_SHIFTS and not is_plain_shift(node, 32):
            return f"{_FAR_SHIFTS[op]}({', '.join(map(opened, args))})"
        if op is ops.CAST:
            return wrapped(args[0], *node.data)
        if op is ops.LOAD and isinstance(node.data, ShapeOf):
            return f"shapes[{self.constant(node.data.tensor)}][{args[0]}]"
        if op is ops.ASSERTING or (op is ops.LOAD and isinstance(node.data, IntFunction)):
            return args[0]
        return f"opaque({node.data.name!r})" if op is ops.LOAD else self._common(node, args)

    def _value(self, node: Value, args: list[str]) -> str:
        op = node.op
        if op is READ:
            return self.load(node.data, args)
        if op in _FLOORS:
            return f"{_FLOORS[op]}{_suffix(node.dtype)}({', '.join(map(opened, args))})"
        if op is ops.TRUNCDIV:
            return f"truncated({_rounded(f'divide({opened(args[0])}, {opened(args[1])})', node.dtype)})"
        if op is CALL:
            return self._call(node, args)
        if op is CONVERT:
            return self._cast(node, args[0])
        text = self._common(node, args)
        return _rounded(text, node.dtype) if op in _INEXACT else text

    def _call(self, node: Value, args: list[str]) -> str:
        name, dtype = node.data, node.dtype
        if name == "popcount":
            return f"({args[0]} & {(1 << dtypes.bits(dtype)) - 1}).bit_count()"
        if name == "reinterpret":
            source = dtype_of(node.args[0])
            bits, signed = dtypes.bits(source), dtypes.signed(source)
            number = wrapped(args[0], bits, signed) if dtypes.is_int(source) else args[0]
            return f"reinterpret({opened(number)}, {source!r}, {dtype!r})"
        inner = ", ".join(map(opened, args))
        if name in TRAPPING:
            limit = dtypes.bits(dtype) if Trapping(name).op in _FAR_SHIFTS else dtypes.int_range(dtype)[0]
            return wrapped(f"checked_{name}({inner}, {limit})", dtypes.bits(dtype), dtypes.signed(dtype))
        if name in _OWN_CALLS and (dtypes.is_float(dtype) or name in PREDICATES):
            return f"call_{name}{'' if name in PREDICATES else _suffix(dtype)}({inner})"
        result = f"call_{name}({inner})"  # of the host: any number
        if dtypes.is_int(dtype):
            return wrapped(f"int({result})", dtypes.bits(dtype), dtypes.signed(dtype))
        return f"bool({result})" if dtype == "bool" else _rounded(f"float({result})", dtype)

    def _cast(self, node: Value, arg: str) -> str:
        source: Any = node.args[0]
        if dtypes.is_int(node.dtype):
            low, high = dtypes.int_range(node.dtype)
            return f"whole({opened(arg)}, {low}, {high})"
        if isinstance(source, Value) and dtypes.is_float(source.dtype):
            is_exact = node.dtype == "float64" or (node.dtype == "float32" and source.dtype in dtypes.NARROW)
            return arg if is_exact else _rounded(arg, node.dtype)
        return f"to_{node.dtype}({opened(arg)})"

    # -- storage ------------------------------------------------------------------------------------------------

    def base(self, tensor: Tensor) -> str:
        """The identifier of a tensor, with which the names of its extents, strides and states begin."""
        return self.names.of(tensor, tensor.name)

    def load(self, tensor: Tensor, indices: list[str]) -> str:
        """The element at the indices."""
        index, check, message = self.access(tensor, indices)
        if tensor not in self.tracked:
            element = self.element(tensor, index)
            return f"({element} if {check} else outside({tensor.name!r}, 'read', {message}))" if check else element
        at = self.names.fresh("p")
        is_written = f"{self.base(tensor)}_w[({at} := {index})]"
        element = self.element(tensor, at)
        if check and tensor in self.padding:
            element = f"({element} if {is_written} else unread({tensor.name!r}, {message}))"
            return f"({element} if {check} else outside({tensor.name!r}, 'read', {message}))"
        cond = f"{check} and {is_written}" if check else is_written
        return f"({element} if {cond} else unread({tensor.name!r}, {message}))"

    def store(self, tensor: Tensor, index: str, value: str) -> list[str]:
        """The lines that store a value; the value is computed first, since it may read what the store changes."""
        base = self.base(tensor)
        if tensor not in self.tracked:
            return [f"{base}[{index}] = {value}"]
        at = self.names.fresh("p")
        return [f"{at} = {index}", f"{base}[{at}] = {value}", f"{base}_w[{at}] = 1"]

    def element(self, tensor: Tensor, index: str) -> str:
        """The text of an element, by its flat index."""
        text = f"{self.base(tensor)}[{index}]"
        return f"float({text})" if tensor.dtype in dtypes.NARROW else text  # a numpy array, not a memory view

    def access(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        """The number of an element in its storage, the check of its indices, and the arguments of an error message."""
        base = self.base(tensor)
        starts = self.storage.get(tensor, ("",) * len(indices))
        checks: list[str] = []
        relative: list[str] = []
        for k, (absolute, start) in enumerate(zip(indices, starts, strict=True)):
            index = tested = f"({absolute} - {start})" if start else absolute
            if self.checked and not index.isidentifier() and not index.isdigit():
                name = self.names.fresh("x")
                index, tested = name, f"({name} := {opened(index)})"
            if self.checked:
                checks.append(f"0 <= {tested} < {base}_n{k}")
            relative.append(index)
        terms = [f"{index} * {base}_s{k}" for k, index in enumerate(relative[:-1])] + relative[-1:]
        numbers = "".join(f"{index}, " for index in relative)
        extents = "".join(f"{base}_n{k}, " for k in range(len(relative)))
        origin = "".join(f"{start or 0}, " for start in starts)
        # `&` evaluates every check, so the error message finds all indices assigned
        names_late = any(":=" in check for check in checks[1:])
        check = " & ".join(f"({check})" for check in checks) if names_late else " and ".join(checks)
        if self.checked and tensor in self.padding:
            point = (f"{i} + {s}" if s else i for i, s in zip(relative, starts, strict=True))
            check = f"{check} and not {self.padding[tensor]}({', '.join(point)})"
        return " + ".join(terms) or "0", check, f"({numbers}), ({extents}), ({origin})"


class UnknownSyntax(PythonSyntax):
    """`PythonSyntax` for nests with `undef()`: a value computed from one is an `Unknown`, which must not control
    execution."""

    def operation(self, node: Operand, args: list[str]) -> str:
        if node.op is ops.AND:
            return f"both({opened(args[0])}, lambda: {args[1]})"
        if node.op is ops.OR:
            return f"either({opened(args[0])}, lambda: {args[1]})"
        if node.op is ops.NOT:
            return f"negated({opened(args[0])})"
        if node.op is ops.SELECT:
            return f"({args[1]} if {self.decided(args[0])} else {args[2]})"
        if node.op is CALL and node.data == "popcount":
            return f"popcount({super().operation(node, args).removesuffix('.bit_count()')})"
        return super().operation(node, args)

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        return super().branch(self.decided(cond), then, orelse)

    def negated(self, text: str) -> str:
        return f"negated({text})"

    def decided(self, cond: str) -> str:
        return f"decided({opened(cond)})"

    def access(self, tensor: Tensor, indices: list[str]) -> tuple[str, str, str]:
        return super().access(tensor, [i if i.isdigit() else f"known({opened(i)})" for i in indices])

    def element(self, tensor: Tensor, index: str) -> str:
        text = super().element(tensor, index)
        return f"keep({text}, {self.base(tensor)}_w[{index}])" if tensor in self.tracked else text

    def store(self, tensor: Tensor, index: str, value: str) -> list[str]:
        base = self.base(tensor)
        states = f"{base}_w" if tensor in self.tracked else "None"
        return [f"store({base}, {states}, {index}, {value})"]


def wrapped(text: str, bits: int, signed: bool) -> str:
    """An integer modulo `2**bits`, as a machine of that width represents it."""
    mask = (1 << bits) - 1
    if not signed:
        return f"({text} & {mask})"
    half = 1 << (bits - 1)
    return f"((({text} + {half}) & {mask}) - {half})"


def _suffix(dtype: str) -> str:
    """The suffix of a function's name for narrow floats."""
    return "" if dtype == "float64" else f"_{dtype}"


def _rounded(text: str, dtype: str) -> str:
    """A Python float rounded to a float type."""
    return text if dtype == "float64" else f"round_{dtype}({opened(text)})"


def stored_text(value: Any, text: str, dtype: str) -> str:
    """The text of a value for a store to an element, which rounds floats itself."""
    prefix = f"round_{dtype}("
    is_twice = isinstance(value, Value) and value.op in _INEXACT and text.startswith(prefix) and dtype == "float32"
    return text.removeprefix(prefix).removesuffix(")") if is_twice else text


def _constant(node: Value) -> str:
    value = node.data
    if isinstance(value, bool):
        return str(value)
    if value != value or value in (float("inf"), float("-inf")):
        return f"float('{value}')"
    return repr(value) if not str(value).startswith("-") else f"({value!r})"

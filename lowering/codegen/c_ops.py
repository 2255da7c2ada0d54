"""Operands in C: indices at the width of the function, what depends on data in 64 bits, floats as they are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from bound import dtypes
from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.value import INFIX, Value, ValueOp
from bound.tir.walk import loaded_tensor
from intset.errors import InputError
from intset.expr import ops
from intset.expr.node import Cond, Expr
from intset.expr.ops import Op
from lowering.codegen.c_reserved import MACROS
from lowering.codegen.c_types import (
    LANGUAGE,
    PREDICATES,
    TYPES,
    c_type,
    float_constant,
    helper_text,
    integer_constant,
    library_function,
    suffix,
)
from lowering.codegen.names import Names
from lowering.codegen.spans import INT64, WordSpans, is_plain_shift, is_unsigned
from lowering.codegen.text import infix, opened
from lowering.nest.undef import is_undef

_INFIX: Final[dict[Op, str]] = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.TRUNCDIV: "/", ops.TRUNCMOD: "%",
    ops.BITAND: "&", ops.BITOR: "|", ops.BITXOR: "^", ops.SHR: ">>",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
    ops.AND: "&&", ops.OR: "||",
}  # fmt: skip
_PREFIX: Final[dict[Op, str]] = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "!"}
_HELPER: Final[dict[Op, str]] = {
    ops.MIN: "min", ops.MAX: "max", ops.ABS: "abs", ops.FLOORDIV: "floordiv", ops.FLOORMOD: "floormod",
    ops.CEILDIV: "ceildiv", ops.SHL: "shl",
}  # fmt: skip
_SHIFTS: Final[dict[Op, str]] = {ops.SHL: "shl", ops.SHR: "shr"}
_REFLEXIVE: Final = (ops.LE, ops.GE, ops.EQ)
_WRAPPED: Final[dict[Op, str]] = {ops.ADD: "add", ops.SUB: "sub", ops.MUL: "mul"}
_VALUE_INFIX: Final = {
    **{op: str(op) for op in INFIX},
    **{op: str(op) for op in (ValueOp.LT, ValueOp.LE, ValueOp.GT, ValueOp.GE, ValueOp.EQ, ValueOp.NE)},
    ValueOp.AND: "&&",
    ValueOp.OR: "||",
}
_WRAPPING: Final[dict[Op, str]] = {
    ops.ABS: "abs_wrap", ops.FLOORDIV: "floordiv_wrap", ops.CEILDIV: "ceildiv_wrap", ops.TRUNCDIV: "truncdiv_wrap",
    ops.FLOORMOD: "floormod_wrap", ops.TRUNCMOD: "truncmod_wrap",
}  # fmt: skip


class CSyntax:
    """C texts of operands whose elements are read by their number in storage.

    Parameters
    ----------
    names: of variables, parameters and tensors.
    bits: the width of indices.
    where: the name of the function, for messages.
    """

    def __init__(self, names: Names, bits: int, where: str) -> None:
        self.names = names
        self.bits = bits
        self.where = where
        self.helpers: dict[tuple[str, str], str] = {}
        self.externs: dict[str, str] = {}
        self.scalars: set[Tensor] = set()  # allocations of one element that are plain variables
        self.spans = WordSpans(bits)
        self.may_be_zero: Callable[[Expr], bool] = lambda _: False  # of divisors: whether that is to be noted
        self.undefined = ""  # the array of one element in which it is

    @property
    def index(self) -> str:
        return f"int{self.bits}_t"

    # -- the words of `Syntax` ----------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST:
            return integer_constant(node.data, 64 if abs(node.data) >= 1 << 31 else self.bits)
        if node.op is ops.BOOL or (node.op is ValueOp.CONST and node.dtype == "bool"):
            return "true" if node.data else "false"
        if node.op is ValueOp.CONST:
            c_type(node.dtype, f"a constant in {self.where}")
            return float_constant(node.data, node.dtype)
        if is_undef(node):
            return self._any_value(node)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is ValueOp.PARAM:
            return self.names.of(node, node.data[0])
        return None

    def element(self, tensor: Tensor, place: str) -> str:
        """The element at a place of the storage of a tensor."""
        name = self.names.of(tensor, tensor.name)
        return name if tensor in self.scalars else f"{name}[{opened(place)}]"

    def _any_value(self, node: Any) -> str:
        dtype = "int32" if node.op is ops.LOAD else node.dtype
        return "0" if dtypes.is_int(dtype) else "false" if dtype == "bool" else float_constant(0.0, dtype)

    def operation(self, node: Any, args: list[str]) -> str:
        if isinstance(node, Value):
            return self._value(node, args)
        if isinstance(node, Cond):
            return self._condition(node, args)
        return self._integer(node, args)

    def bind(self, node: Any, text: str) -> tuple[str, list[str]]:
        name = self.names.local("t")
        return name, [f"const {self.type_of(node)} {name} = {opened(text)};"]

    def declare(self, node: Any) -> tuple[str, list[str]]:
        if isinstance(node, Expr):
            self.spans.enter(node)
        name = self.names.local("t")
        return name, [f"{self.type_of(node)} {name};"]

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {opened(text)};"

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        lines = [f"if ({opened(cond)}) {{", *(f"    {line}" for line in then)]
        return [*lines, "} else {", *(f"    {line}" for line in orelse), "}"] if orelse else [*lines, "}"]

    def negated(self, text: str) -> str:
        return f"!{text}"

    # -- types --------------------------------------------------------------------------------------------------

    def type_of(self, node: Any) -> str:
        """The C type of an operand."""
        if isinstance(node, Cond):
            return "bool"
        if isinstance(node, Value):
            return "int64_t" if dtypes.is_int(node.dtype) else c_type(node.dtype, f"a value in {self.where}")
        return "int64_t" if self.spans.is_wide(node) else self.index

    # -- integers -----------------------------------------------------------------------------------------------

    def _condition(self, node: Cond, args: list[str]) -> str:
        if node.op is ops.NOT:
            return f"(!{args[0]})"
        if node.op in ops.COMPARISONS and args[0] == args[1]:  # of one thing with itself: compilers warn
            return "true" if node.op in _REFLEXIVE else "false"
        return infix(args[0], _INFIX[node.op], args[1])

    def _integer(self, node: Expr, args: list[str]) -> str:
        op = node.op
        overflows = self.spans.enter(node)
        if op is ops.LOAD:
            return self._element(node, args)
        if op is ops.ASSERTING:
            return args[0]
        if op is ops.CAST:
            bits, signed = node.data
            dtype = f"{'' if signed else 'u'}int{bits}"
            if dtype not in TYPES:
                raise InputError(f"{self.where} converts to {dtype}, which C99 does not have")
            return f"(int64_t)({TYPES[dtype]}){args[0]}"
        wide = self.spans.is_wide(node)
        if op in ops.DIVISIONS:
            args = [args[0], self._divisor(node.args[1], args[1], 64 if wide else self.bits)]
        if overflows and op in _WRAPPED:
            return self._call(_WRAPPED[op], "int64", args, f"{_WRAPPED[op]}_wrap")
        if overflows and op is ops.NEG:
            return self._call("sub", "int64", ["0", *args], "sub_wrap")
        if op in _WRAPPING and self._may_overflow(node):
            return self._call(_WRAPPING[op], "int64", args, _WRAPPING[op])
        if op is ops.SELECT:
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        width = 64 if wide else self.bits
        if op in _SHIFTS and not is_plain_shift(node, width):
            return self._call(f"{_SHIFTS[op]}_far", f"int{width}", args)
        if op in _HELPER:
            return self._call(_HELPER[op], f"int{width}", args)
        return infix(args[0], _INFIX[op], args[1])

    def _divisor(self, node: Expr, text: str, bits: int) -> str:
        """The text of a divisor; where it may be 0, such that the machine does not stop at it."""
        low, high = self.spans.of(node)
        if low > 0 or high < 0 or node.is_const or not self.may_be_zero(node):
            return text
        if not self.undefined:
            self.undefined = self.names.fresh("undefined")
        other = "1" if high > 0 else "-1"
        return self._call("nonzero", f"int{bits}", [text, other, self.undefined])

    def _may_overflow(self, node: Expr) -> bool:
        """Whether an operand may be the least number of 64 bits, and is negated or divided by -1."""
        spans = [self.spans.of(arg) for arg in node.args]
        return spans[0][0] <= INT64[0] and (len(spans) == 1 or spans[1][0] <= -1 <= spans[1][1])

    def _element(self, node: Expr, args: list[str]) -> str:
        tensor = loaded_tensor(node)
        if tensor is not None:
            return f"(int64_t){self.element(tensor, args[0])}"
        if isinstance(node.data, IntFunction):
            return args[0] if args[0].startswith("(int64_t)") else f"(int64_t){args[0]}"
        raise InputError(f"{self.where} depends on the opaque symbol {node.data.name}, which C does not know")

    # -- values -------------------------------------------------------------------------------------------------

    def _value(self, node: Value, args: list[str]) -> str:
        op, dtype = node.op, node.dtype
        if op is ValueOp.LOAD:
            return self.element(node.data, args[0])
        if op is ValueOp.CAST:
            target = c_type(dtype, f"a value in {self.where}")
            if not dtypes.is_int(dtype):
                return f"({target}){'(uint64_t)' if is_unsigned(node.args[0]) else ''}{args[0]}"
            if dtype == "uint64":
                return self._call("whole", getattr(node.args[0], "dtype", "float64"), args)
            return f"(int64_t){args[0]}" if dtypes.bits(dtype) == 64 else f"(int64_t)({target})(int64_t){args[0]}"
        if op is ValueOp.SELECT:
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if op is ValueOp.CALL:
            return self._function(node, args)
        if op is ValueOp.NEG or op is ValueOp.NOT:
            return f"({'-' if op is ValueOp.NEG else '!'}{args[0]})"
        if op is ValueOp.MIN or op is ValueOp.MAX:
            name = str(op)
            if node.args[1].op is ValueOp.CONST and node.args[1].data == node.args[1].data:  # one comparison keeps NaN
                name = "atmost" if op is ValueOp.MIN else "atleast"
                return self._call(name, dtype, args, f"{name}_{suffix(dtype)}")
            return self._call(f"f{name}", dtype, args, f"{name}_{suffix(dtype)}")
        if op is ValueOp.FLOORMOD:
            return self._call("fmodulo", dtype, args, f"modulo_{suffix(dtype)}")
        if op is ValueOp.FLOORDIV:
            return self._call("fquotient", dtype, args, f"quotient_{suffix(dtype)}")
        f = "f" if dtype == "float32" else ""
        if op is ValueOp.TRUNCDIV:
            return f"trunc{f}({args[0]} / {args[1]})"
        if op is ValueOp.TRUNCMOD:
            return f"fmod{f}({', '.join(map(opened, args))})"
        if op is ValueOp.ABS:
            return f"fabs{f}({opened(args[0])})"
        return infix(args[0], _VALUE_INFIX[op], args[1])

    def _function(self, node: Value, args: list[str]) -> str:
        name, dtype = node.data, node.dtype
        inner = ", ".join(map(opened, args))
        if name in PREDICATES:
            return f"({PREDICATES[name]}({inner}) != 0)"
        if name == "popcount":
            width = dtypes.bits(dtype)
            held = args if width >= 64 else [f"{args[0]} & {integer_constant((1 << width) - 1, 64)}"]
            return self._call("popcount", "int64", held, "popcount")
        if dtypes.is_float(dtype):
            c_type(dtype, f"{name} in {self.where}")
            f = "f" if dtype == "float32" else ""
            if name == "sigmoid":
                return self._call("sigmoid", dtype, args)
            if name == "rsqrt":
                return f"(1 / sqrt{f}({inner}))"
            if name == "exp10":
                return f"pow{f}(10, {inner})"
            if name == "ldexp":
                return f"({args[0]} * exp2{f}({opened(args[1])}))"
            library = library_function(name, dtype)
            if library is not None:
                return f"{library}({inner})"
        return self._extern(node, inner)

    def _extern(self, node: Value, inner: str) -> str:
        is_name = re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z_0-9]*", node.data) is not None
        if not is_name or node.data in (*LANGUAGE, *MACROS, "main"):
            raise InputError(f"{self.where} calls {node.data}, which is no name in C")
        types = ", ".join(self.type_of(arg) for arg in node.args) or "void"
        self.externs[node.data] = f"extern {self.type_of(node)} {node.data}({types});"
        is_narrow = dtypes.is_int(node.dtype) and dtypes.bits(node.dtype) < 64
        held = f"(int64_t)({c_type(node.dtype, f'a value in {self.where}')})" if is_narrow else ""
        return f"{held}{node.data}({inner})"

    def _call(self, helper: str, dtype: str, args: list[str], name: str | None = None) -> str:
        text = helper_text(helper, dtype)
        self.helpers[helper, dtype] = text
        return f"{name or f'{helper}_{suffix(dtype)}'}({', '.join(map(opened, args))})"

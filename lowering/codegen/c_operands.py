"""Operands in C.

Guarantee: an operation has the arithmetic of its machine type. Indices are computed at the width of the function,
integers that depend on data in 64 bits, floats in their own type.
"""

from __future__ import annotations

import re
from typing import Any, Final

import intset
from bound import dtypes
from bound.tensor import Tensor
from bound.tir.build import dtype_of
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.opaque import IntFunction
from bound.tir.value import CALL, CONVERT, DIV, INFIX, NUMBER, PARAM, READ, Value
from bound.tir.walk import loaded_tensor
from intset.config import Effort, tiers_within
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import opaque_terms
from intset.expr.node import Cond, Expr
from intset.expr.ops import Op
from lowering.codegen.c_words import (
    LANGUAGE,
    MACROS,
    PREDICATES,
    TYPES,
    c_type,
    float_constant,
    function_name,
    helper_text,
    integer_constant,
    library_function,
    reinterpret_text,
    whole_text,
)
from lowering.codegen.emitter import Identifiers, indented, infix, opened
from lowering.codegen.word_spans import INT64, WordSpans, is_plain_shift
from lowering.nest.scope import Scope
from lowering.nest.undef import is_undef

_INFIX: Final[dict[Op, str]] = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.TRUNCDIV: "/", ops.TRUNCMOD: "%",
    ops.BITAND: "&", ops.BITOR: "|", ops.BITXOR: "^", ops.SHR: ">>",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
    ops.AND: "&&", ops.OR: "||", DIV: "/",
}  # fmt: skip
_PREFIX: Final = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "!"}
_REFLEXIVE: Final = (ops.LE, ops.GE, ops.EQ)
_HELPERS: Final[dict[Op, str]] = {
    ops.MIN: "min", ops.MAX: "max", ops.ABS: "abs", ops.FLOORDIV: "floordiv", ops.FLOORMOD: "floormod",
    ops.CEILDIV: "ceildiv", ops.SHL: "shl",
}  # fmt: skip
_FLOAT_HELPERS: Final = {ops.MIN: "fmin", ops.MAX: "fmax", ops.FLOORDIV: "fquotient", ops.FLOORMOD: "fmodulo"}
_WIDE_HELPERS: Final = {ops.TRUNCDIV: "wide_truncdiv", ops.TRUNCMOD: "wide_truncmod"}
_UNSIGNED_CALLS: Final = {ops.MIN: "min", ops.MAX: "max", ops.CEILDIV: "uceildiv", ops.SHL: "shl"}
_UNSIGNED_INFIX: Final = {ops.FLOORDIV: "/", ops.FLOORMOD: "%"}
_OF_CONSTANT: Final = {ops.MIN: "atmost", ops.MAX: "atleast"}  # one comparison keeps NaN
_LIBRARY: Final = {ops.TRUNCMOD: "fmod", ops.ABS: "fabs"}
_FAR_SHIFTS: Final = {ops.SHL: "shl_far", ops.SHR: "shr_far"}
_WRAPPED: Final = {ops.ADD: "add", ops.SUB: "sub", ops.MUL: "mul"}  # where the result may leave 64 bits
_WRAPPED_LEAST: Final = {  # for operands that may equal INT64_MIN
    op: f"{op.name}_wrap" for op in (ops.ABS, *ops.DIVISIONS)
}


class CSyntax:
    """C texts of operands whose loads read elements by their number in storage.

    Attributes
    ----------
    names: identifiers of variables, parameters and tensors.
    bits: the width of indices.
    where: the name of the function, for messages.
    helpers, externs: definitions and declarations that the texts rely on.
    scalars: allocations of one element that are plain variables.
    scope: facts at the current statement.
    undefined: identifier of the flag set by divisions by 0; empty until the first unproved divisor.
    """

    def __init__(self, names: Identifiers, bits: int, where: str) -> None:
        self.names, self.bits, self.where = names, bits, where
        self.helpers: dict[tuple[str, str], str] = {}
        self.externs: dict[str, str] = {}
        self.scalars: set[Tensor] = set()
        self.spans = WordSpans(bits)
        self.scope: Scope | None = None
        self.undefined = ""

    @property
    def index(self) -> str:
        return f"int{self.bits}_t"

    # -- the methods of `Syntax` --------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST:
            return integer_constant(node.data, 64 if abs(node.data) >= 1 << 31 else self.bits)
        if node.op is ops.BOOL or (node.op is NUMBER and node.dtype == "bool"):
            return "true" if node.data else "false"
        if node.op is NUMBER:
            c_type(node.dtype, f"a constant in {self.where}")
            return float_constant(node.data, node.dtype)
        if is_undef(node):
            dtype = "int32" if node.op is ops.LOAD else node.dtype
            return "0" if dtypes.is_int(dtype) else "false" if dtype == "bool" else float_constant(0.0, dtype)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is PARAM:
            return self.names.of(node, node.data[0])
        return None

    def element(self, tensor: Tensor, index: str) -> str:
        """The text of an element, by its flat index."""
        name = self.names.of(tensor, tensor.name)
        return name if tensor in self.scalars else f"{name}[{opened(index)}]"

    def operation(self, node: Any, args: list[str]) -> str:
        special = self._value if isinstance(node, Value) else self._integer if isinstance(node, Expr) else _comparison
        is_comparison = isinstance(node, Cond) and node.op in ops.COMPARISONS
        if is_comparison and any(self.spans.word(arg) != "int64" for arg in node.args):
            word = self.spans.word_of_operands(node)
            if word == "int128":
                return f"({self._call('compare', word, args)} {_INFIX[node.op]} 0)"
            args = [self._as_word(arg, text, word) for arg, text in zip(node.args, args, strict=True)]
        text = special(node, args)
        if text is not None:
            return text
        if node.op is ops.SELECT:
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if node.op in _PREFIX:
            return f"({_PREFIX[node.op]}{args[0]})"
        return infix(args[0], _INFIX[node.op], args[1])

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
        lines = [f"if ({opened(cond)}) {{", *indented(then)]
        return [*lines, "} else {", *indented(orelse), "}"] if orelse else [*lines, "}"]

    def negated(self, text: str) -> str:
        return f"!{text}"

    # -- types --------------------------------------------------------------------------------------------------

    def type_of(self, node: Any) -> str:
        """The C type of an operand."""
        if isinstance(node, Cond):
            return "bool"
        if isinstance(node, Value):
            return (
                _word_type(node.dtype) if dtypes.is_int(node.dtype) else c_type(node.dtype, f"a value in {self.where}")
            )
        return f"{self.spans.word(node)}_t" if self.spans.is_wide(node) else self.index

    def _as_word(self, node: Any, text: str, word: str) -> str:
        """The text of an integer in a machine type."""
        if not isinstance(node, Expr) or (
            self.spans.word(node) == word and (word == "int64" or self.spans.is_wide(node))
        ):
            return text
        return f"({word}_t){text}"

    # -- integers -----------------------------------------------------------------------------------------------

    def _integer(self, node: Expr, args: list[str]) -> str | None:
        op = node.op
        overflows = self.spans.enter(node)
        if op is ops.LOAD:
            return self._loaded(node, args)
        if op is ops.ASSERTING:
            return args[0]
        if op is ops.CAST:
            dtype = dtypes.int_named(*node.data)
            if dtype not in TYPES:
                raise InputError(f"{self.where} converts to {dtype}, which C99 does not have")
            return f"({TYPES[dtype]}){args[0]}" if dtypes.bits(dtype) == 64 else f"(int64_t)({TYPES[dtype]}){args[0]}"
        if self.spans.is_wide(node):
            word = self.spans.word_of_operands(node)
            if word == "int128":
                if op in ops.DIVISIONS:
                    args[1] = self._divisor(node.args[1], args[1], word)
                return f"({self.spans.word(node)}_t){self._call(_WIDE_HELPERS.get(op) or _HELPERS[op], word, args)}"
            args[:] = [self._as_word(arg, text, word) for arg, text in zip(node.args, args, strict=True)]
            if word == "uint64":
                text = self._unsigned(node, args)
                return text if self.spans.word(node) == word else f"(int64_t){text}"
        width = 64 if self.spans.is_wide(node) else self.bits
        if op in ops.DIVISIONS:
            args[1] = self._divisor(node.args[1], args[1], f"int{width}")
        if op in _FAR_SHIFTS:
            args[1] = self._amount(node.args[1], args[1])
        if overflows and op in _WRAPPED:
            return self._call(_WRAPPED[op], "int64", args)
        if overflows and op is ops.NEG:
            return self._call("sub", "int64", ["0", *args])
        if op in _WRAPPED_LEAST and self._may_overflow(node):
            return self._call(_WRAPPED_LEAST[op], "int64", args)
        if op in _FAR_SHIFTS and not is_plain_shift(node, width):
            return self._call(_FAR_SHIFTS[op], f"int{width}", args)
        return self._call(_HELPERS[op], f"int{width}", args) if op in _HELPERS else None

    def _unsigned(self, node: Expr, args: list[str]) -> str:
        """An operation on unsigned words."""
        op = node.op
        if op in ops.DIVISIONS:
            args[1] = self._divisor(node.args[1], args[1], "uint64")
        if op is ops.SELECT:
            return f"({args[0]} ? {args[1]} : {args[2]})"
        if op is ops.ABS:
            return args[0]
        if op in _FAR_SHIFTS and not is_plain_shift(node, 64):
            return self._call(f"u{_FAR_SHIFTS[op]}", "uint64", [args[0], self._amount(node.args[1], args[1])])
        if op in _UNSIGNED_CALLS:
            return self._call(_UNSIGNED_CALLS[op], "uint64", args)
        if op in _PREFIX:
            return f"({_PREFIX[op]}{args[0]})"
        return infix(args[0], _UNSIGNED_INFIX.get(op) or _INFIX[op], args[1])

    def _amount(self, node: Expr, text: str) -> str:
        """The text of a shift amount, checked unless proved nonnegative."""
        return text if self.spans.of(node)[0] >= 0 else self._call("amount", "int64", [text, self.flag])

    @property
    def flag(self) -> str:
        """The identifier of the flag that operations without a value set."""
        if not self.undefined:
            self.undefined = self.names.fresh("undefined")
        return self.undefined

    def _divisor(self, node: Expr, text: str, word: str) -> str:
        """The text of a divisor, wrapped in a helper that replaces 0 and sets the flag unless 0 is ruled out."""
        low, high = self.spans.of(node)
        if low > 0 or high < 0 or node.is_const or self.scope is None or self._is_nonzero(node, self.scope):
            return text
        other = "1" if high > 0 else "-1"
        return self._call("nonzero", word, [text, other, self.flag])

    def _is_nonzero(self, divisor: Expr, scope: Scope) -> bool:
        with intset.using(tiers=tiers_within(Effort.FAST)):
            is_nonzero = bool(scope.ctx.prove(divisor.ne(0)))
        # a loop over `n*m` elements runs for `m != 0` alone; data has no such loop
        return is_nonzero or (not opaque_terms(divisor) and bool(scope.ctx.prove(divisor.ne(0))))

    def _may_overflow(self, node: Expr) -> bool:
        """Whether a node may negate the least number of 64 bits, or divide it by -1."""
        spans = [self.spans.of(arg) for arg in node.args]
        return spans[0][0] <= INT64[0] and (len(spans) == 1 or spans[1][0] <= -1 <= spans[1][1])

    def _loaded(self, node: Expr, args: list[str]) -> str:
        tensor = loaded_tensor(node)
        if tensor is not None:
            return f"({self.spans.word(node)}_t){self.element(tensor, args[0])}"
        if isinstance(node.data, IntFunction):
            word = f"({self.spans.word(node)}_t)"
            return args[0] if args[0].startswith(word) else f"{word}{args[0]}"
        raise InputError(f"{self.where} depends on the opaque symbol {node.data.name}, which C does not know")

    def stored(self, text: str, dtype: str) -> str:
        """The text of a narrow float as its bits in memory."""
        return self._call("store", dtype, [text])

    # -- values -------------------------------------------------------------------------------------------------

    def _value(self, node: Value, args: list[str]) -> str | None:
        op, dtype = node.op, node.dtype
        f = "" if dtype == "float64" else "f"
        if op is READ:
            element = self.element(node.data, args[0])
            return self._call("load", dtype, [element]) if dtype in dtypes.NARROW else element
        if op is CONVERT:
            target = c_type(dtype, f"a value in {self.where}")
            if dtype in dtypes.NARROW:
                return self._call("round", dtype, [self._unrounded(node.args[0], args[0])])
            if not dtypes.is_int(dtype):
                return f"({target}){args[0]}"
            definition = self.helpers["whole", dtype] = whole_text(dtype)
            return f"{function_name(definition)}({opened(args[0])}, {self.flag})"
        if op is CALL:
            return self._function(node, args)
        if op in _OF_CONSTANT and node.args[1].op is NUMBER and node.args[1].data == node.args[1].data:
            return self._call(_OF_CONSTANT[op], dtype, args)
        if op in _FLOAT_HELPERS:
            text = self._call(_FLOAT_HELPERS[op], dtype, args)
            return self._rounded(text, dtype) if op in (ops.FLOORDIV, ops.FLOORMOD) else text
        if op is ops.TRUNCDIV:
            return f"trunc{f}({self._rounded(f'{self._exact(args[0], dtype)} / {args[1]}', dtype)})"
        if op in INFIX and dtype in dtypes.NARROW:
            return self._rounded(infix(self._exact(args[0], dtype), _INFIX[op], args[1]), dtype)
        return f"{_LIBRARY[op]}{f}({', '.join(map(opened, args))})" if op in _LIBRARY else None

    @staticmethod
    def _exact(text: str, dtype: str) -> str:
        """An operand in a type in which an operation on narrow floats is rounded as if it had been exact."""
        return f"(double){text}" if dtype in dtypes.NARROW else text

    def _rounded(self, text: str, dtype: str) -> str:
        """A float rounded to its type."""
        return self._call("round", dtype, [text]) if dtype in dtypes.NARROW else text

    def _unrounded(self, node: Any, text: str) -> str:
        """The text of a number that is rounded to a narrow float type next."""
        if not isinstance(node, Expr):
            return text
        is_unsigned = self.spans.word(node) == "uint64"
        return self._call("uodd" if is_unsigned else "odd", "uint64" if is_unsigned else "int64", [text])

    def _function(self, node: Value, args: list[str]) -> str:
        name, dtype = node.data, node.dtype
        inner = ", ".join(map(opened, args))
        if name in PREDICATES:
            return f"({PREDICATES[name]}({inner}) != 0)"
        if name == "popcount":
            width = dtypes.bits(dtype)
            number = f"(int64_t){args[0]}"
            mask = f" & {integer_constant((1 << width) - 1, 64)}" if width < 64 else ""
            return self._call("popcount", "int64", [f"{number}{mask}"])
        if name == "reinterpret":
            definition = self.helpers["reinterpret", f"{dtype_of(node.args[0])} {dtype}"] = reinterpret_text(
                dtype_of(node.args[0]), dtype
            )
            return f"{function_name(definition)}({inner})"
        if name in TRAPPING:
            word = "uint64" if dtype == "uint64" else "int64"
            limit = dtypes.bits(dtype) if Trapping(name).op in _FAR_SHIFTS else dtypes.int_range(dtype)[0]
            args = [self._as_word(arg, text, word) for arg, text in zip(node.args, args, strict=True)]
            call = self._call(f"checked_{name}", word, [*args, integer_constant(limit, 64), self.flag])
            return f"({_word_type(dtype)})({c_type(dtype, name)}){call}"
        if dtypes.is_float(dtype):
            c_type(dtype, f"{name} in {self.where}")
            if dtype in dtypes.NARROW:
                return self._narrow_function(node, args)
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

    def _narrow_function(self, node: Value, args: list[str]) -> str:
        """A function of narrow floats: that of doubles, each step rounded."""
        name, dtype = node.data, node.dtype
        first = opened(args[0])
        if name == "sigmoid":
            grown = self._rounded(f"1 + (double){self._rounded(f'exp(-{args[0]})', dtype)}", dtype)
            return self._rounded(f"1 / (double){grown}", dtype)
        if name == "rsqrt":
            return self._rounded(f"1 / (double){self._rounded(f'sqrt({first})', dtype)}", dtype)
        if name == "exp10":
            return self._rounded(f"pow(10, {first})", dtype)
        if name == "ldexp":
            return self._rounded(f"(double){args[0]} * {self._rounded(f'exp2({opened(args[1])})', dtype)}", dtype)
        if name == "nextafter":
            for helper in ("load", "store"):
                self._call(helper, dtype, [])
            return self._call("next", dtype, args)
        library = library_function(name, "float64")
        if library is None:
            raise InputError(f"{self.where} calls {name} of {dtype}, which C does not have")
        return self._rounded(f"{library}({', '.join(map(opened, args))})", dtype)

    def _extern(self, node: Value, inner: str) -> str:
        is_name = re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z_0-9]*", node.data) is not None
        if not is_name or node.data in (*LANGUAGE, *MACROS, "main"):
            raise InputError(f"{self.where} calls {node.data}, which is no name in C")
        types = ", ".join(self.type_of(arg) for arg in node.args) or "void"
        self.externs[node.data] = f"extern {self.type_of(node)} {node.data}({types});"
        is_narrow = dtypes.is_int(node.dtype) and dtypes.bits(node.dtype) < 64
        cast = f"(int64_t)({c_type(node.dtype, f'a value in {self.where}')})" if is_narrow else ""
        return f"{cast}{node.data}({inner})"

    def _call(self, helper: str, dtype: str, args: list[str]) -> str:
        definition = self.helpers[helper, dtype] = helper_text(helper, dtype)
        return f"{function_name(definition)}({', '.join(map(opened, args))})"


def _word_type(dtype: str) -> str:
    """The C type of integers of a type, as values."""
    return "uint64_t" if dtype == "uint64" else "int64_t"


def _comparison(node: Cond, args: list[str]) -> str | None:
    """The truth of a comparison of equal texts, of which compilers warn."""
    return None if node.op not in ops.COMPARISONS or args[0] != args[1] else str(node.op in _REFLEXIVE).lower()

"""Operands in C, and the memory that they read: arena and pointers into it, elements by number, constant tables.

Guarantee: an operation has the arithmetic of its machine type. Indices are computed at the width of the function,
integers that depend on data in 64 bits, floats in their own type.

An element is read by its row-major number: `A[i // n][i % n]` with n columns is element i: quotient and remainder of
one division cancel. A tree of selections,

    select(r == 0 and c == 0, 1.0, select(r == 0 and c == 1, 0.0, ...))    becomes    table[r * 4 + c]

Schedules write constant matrices (Winograd transforms, filters, lookup tables) as such trees; a rolled loop would
compare for every element.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial, reduce
from itertools import product
from math import prod
from typing import Any, Final

import intset
from bound import dtypes
from bound.schedule import simple
from bound.tensor import Tensor, load
from bound.tir import walk
from bound.tir.build import dtype_of
from bound.tir.machine import TRAPPING, Trapping
from bound.tir.value import CALL, CONVERT, DIV, INFIX, NUMBER, PARAM, READ, IntFunction, Operand, Value
from bound.tir.value import make as make_value
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Range, Var, const, constant_value, dag, ops
from intset.expr.evaluate import evaluate, point_value
from intset.expr.node import make
from intset.facts import DERIVED, Fact
from lowering.allocation import ALIGNMENT, Arena, StoragePlan
from lowering.codegen import c_words, emitter
from lowering.nest import ir
from lowering.nest.printer import end_of
from lowering.nest.scope import Scope
from lowering.nest.walk import range_ends
from lowering.passes.values.index_width import Spans, offset

_INFIX: Final[dict[ops.Op, str]] = {
    ops.ADD: "+", ops.SUB: "-", ops.MUL: "*", ops.TRUNCDIV: "/", ops.TRUNCMOD: "%",
    ops.BITAND: "&", ops.BITOR: "|", ops.BITXOR: "^", ops.SHR: ">>",
    ops.LT: "<", ops.LE: "<=", ops.GT: ">", ops.GE: ">=", ops.EQ: "==", ops.NE: "!=",
    ops.AND: "&&", ops.OR: "||", DIV: "/",
}  # fmt: skip
_PREFIX: Final = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "!"}
_REFLEXIVE: Final = (ops.LE, ops.GE, ops.EQ)
_HELPERS: Final[dict[ops.Op, str]] = {
    ops.MIN: "min", ops.MAX: "max", ops.ABS: "abs", ops.FLOORDIV: "floordiv", ops.FLOORMOD: "floormod",
    ops.CEILDIV: "ceildiv", ops.SHL: "shl",
}  # fmt: skip
_FLOAT_HELPERS: Final = {ops.MIN: "fmin", ops.MAX: "fmax", ops.FLOORDIV: "fquotient", ops.FLOORMOD: "fmodulo"}
_WIDE_HELPERS: Final = {ops.TRUNCDIV: "wide_truncdiv", ops.TRUNCMOD: "wide_truncmod"}
_UNSIGNED_CALLS: Final = {ops.MIN: "min", ops.MAX: "max", ops.CEILDIV: "uceildiv", ops.SHL: "shl"}
_UNSIGNED_INFIX: Final = _INFIX | {ops.FLOORDIV: "/", ops.FLOORMOD: "%"}
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

    def __init__(self, names: emitter.Identifiers, bits: int, where: str) -> None:
        self.names, self.bits, self.where = names, bits, where
        self.helpers: dict[tuple[str, str], str] = {}
        self.externs: dict[str, str] = {}
        self.scalars: set[Tensor] = set()
        self.spans = emitter.WordSpans(bits)
        self.scope: Scope | None = None
        self.undefined = ""

    @property
    def index(self) -> str:
        return f"int{self.bits}_t"

    # -- the methods of `Syntax` --------------------------------------------------------------------------------

    def leaf(self, node: Any) -> str | None:
        if node.op is ops.CONST:
            return c_words.integer_constant(node.data, 64 if abs(node.data) >= 1 << 31 else self.bits)
        if node.op is ops.BOOL or (node.op is NUMBER and node.dtype == "bool"):
            return "true" if node.data else "false"
        if node.op is NUMBER:
            c_words.c_type(node.dtype, f"a constant in {self.where}")
            return c_words.float_constant(node.data, node.dtype)
        if ir.is_undef(node):
            dtype = "int32" if node.op is ops.LOAD else node.dtype
            return "0" if dtypes.is_int(dtype) else "false" if dtype == "bool" else c_words.float_constant(0.0, dtype)
        if node.op is ops.VAR:
            return self.names.of(node, node.name)
        if node.op is PARAM:
            return self.names.of(node, node.data[0])
        return None

    def element(self, tensor: Tensor, index: str) -> str:
        """The text of an element, by its flat index."""
        name = self.names.of(tensor, tensor.name)
        return name if tensor in self.scalars else f"{name}[{emitter.opened(index)}]"

    def operation(self, node: Any, args: list[str]) -> str:
        is_comparison = isinstance(node, Cond) and node.op in ops.COMPARISONS
        if is_comparison and any(self.spans.word(arg) != "int64" for arg in node.args):
            word = self.spans.word_of_operands(node)
            if word == "int128":
                return f"({self._call('compare', word, args)} {_INFIX[node.op]} 0)"
            args = [self._as_word(arg, text, word) for arg, text in zip(node.args, args, strict=True)]
        if is_comparison and args[0] == args[1]:  # compilers warn of it
            return str(node.op in _REFLEXIVE).lower()
        text = self._value(node, args) if isinstance(node, Value) else None
        text = self._integer(node, args) if isinstance(node, Expr) else text
        return _written(_INFIX, node.op, args) if text is None else text

    def bind(self, node: Any, text: str) -> tuple[str, list[str]]:
        name = self.names.local("t")
        return name, [f"const {self.type_of(node)} {name} = {emitter.opened(text)};"]

    def declare(self, node: Any) -> tuple[str, list[str]]:
        if isinstance(node, Expr):
            self.spans.enter(node)
        name = self.names.local("t")
        return name, [f"{self.type_of(node)} {name};"]

    def assign(self, name: str, text: str) -> str:
        return f"{name} = {emitter.opened(text)};"

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        lines = [f"if ({emitter.opened(cond)}) {{", *emitter.indented(then)]
        return [*lines, "} else {", *emitter.indented(orelse), "}"] if orelse else [*lines, "}"]

    def negated(self, text: str) -> str:
        return f"!{text}"

    # -- types --------------------------------------------------------------------------------------------------

    def type_of(self, node: Any) -> str:
        """The C type of an operand."""
        if isinstance(node, Cond):
            return "bool"
        if isinstance(node, Value):
            return (
                _word_type(node.dtype)
                if dtypes.is_int(node.dtype)
                else c_words.c_type(node.dtype, f"a value in {self.where}")
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
            if dtype not in c_words.TYPES:
                raise InputError(f"{self.where} converts to {dtype}, which C99 does not have")
            cast = f"({c_words.TYPES[dtype]}){args[0]}"
            return cast if dtypes.bits(dtype) == 64 else f"(int64_t){cast}"
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
        if op in _FAR_SHIFTS and not emitter.is_plain_shift(node, width):
            return self._call(_FAR_SHIFTS[op], f"int{width}", args)
        return self._call(_HELPERS[op], f"int{width}", args) if op in _HELPERS else None

    def _unsigned(self, node: Expr, args: list[str]) -> str:
        """An operation on unsigned words."""
        op = node.op
        if op in ops.DIVISIONS:
            args[1] = self._divisor(node.args[1], args[1], "uint64")
        if op is ops.ABS:
            return args[0]
        if op in _FAR_SHIFTS and not emitter.is_plain_shift(node, 64):
            return self._call(f"u{_FAR_SHIFTS[op]}", "uint64", [args[0], self._amount(node.args[1], args[1])])
        if op in _UNSIGNED_CALLS:
            return self._call(_UNSIGNED_CALLS[op], "uint64", args)
        return _written(_UNSIGNED_INFIX, op, args)

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
        # a loop over `n*m` elements runs for `m != 0` alone; data has no such loop
        with intset.using(tiers=tiers_within(Effort.FAST)) if dag.opaque_terms(divisor) else nullcontext():
            return bool(scope.ctx.prove(divisor.ne(0)))

    def _may_overflow(self, node: Expr) -> bool:
        """Whether a node may negate the least number of 64 bits, or divide it by -1."""
        spans = [self.spans.of(arg) for arg in node.args]
        return spans[0][0] <= emitter.INT64[0] and (len(spans) == 1 or spans[1][0] <= -1 <= spans[1][1])

    def _loaded(self, node: Expr, args: list[str]) -> str:
        tensor = walk.loaded_tensor(node)
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
            target = c_words.c_type(dtype, f"a value in {self.where}")
            if dtype in dtypes.NARROW:
                return self._call("round", dtype, [self._unrounded(node.args[0], args[0])])
            if not dtypes.is_int(dtype):
                return f"({target}){args[0]}"
            definition = self.helpers["whole", dtype] = c_words.whole_text(dtype)
            return f"{c_words.function_name(definition)}({emitter.opened(args[0])}, {self.flag})"
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
            return self._rounded(emitter.infix(self._exact(args[0], dtype), _INFIX[op], args[1]), dtype)
        return f"{_LIBRARY[op]}{f}({', '.join(map(emitter.opened, args))})" if op in _LIBRARY else None

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
        inner = ", ".join(map(emitter.opened, args))
        if name in c_words.PREDICATES:
            return f"({c_words.PREDICATES[name]}({inner}) != 0)"
        if name == "popcount":
            width = dtypes.bits(dtype)
            number = f"(int64_t){args[0]}"
            mask = f" & {c_words.integer_constant((1 << width) - 1, 64)}" if width < 64 else ""
            return self._call("popcount", "int64", [f"{number}{mask}"])
        if name == "reinterpret":
            source = dtype_of(node.args[0])
            definition = self.helpers["reinterpret", f"{source} {dtype}"] = c_words.reinterpret_text(source, dtype)
            return f"{c_words.function_name(definition)}({inner})"
        if name in TRAPPING:
            word = "uint64" if dtype == "uint64" else "int64"
            limit = dtypes.bits(dtype) if Trapping(name).op in _FAR_SHIFTS else dtypes.int_range(dtype)[0]
            args = [self._as_word(arg, text, word) for arg, text in zip(node.args, args, strict=True)]
            call = self._call(f"checked_{name}", word, [*args, c_words.integer_constant(limit, 64), self.flag])
            return f"({_word_type(dtype)})({c_words.c_type(dtype, name)}){call}"
        if dtypes.is_float(dtype):
            c_words.c_type(dtype, f"{name} in {self.where}")
            text = self._float_function(name, dtype, args)
            if text is not None:
                return text
        return self._extern(node, inner)

    def _float_function(self, name: str, dtype: str, args: list[str]) -> str | None:
        """A function of floats, of narrow ones that of doubles, with each step rounded; `None` for an extern one."""
        inner, f = ", ".join(map(emitter.opened, args)), "f" if dtype == "float32" else ""
        is_narrow = dtype in dtypes.NARROW

        def exact(text: str) -> str:
            return self._exact(self._rounded(text, dtype), dtype)

        if name == "sigmoid" and not is_narrow:
            return self._call("sigmoid", dtype, args)
        if name == "sigmoid":
            grown = exact(f"1 + {exact(f'exp(-{args[0]})')}")
            return self._rounded(f"1 / {grown}", dtype)
        if name == "rsqrt":
            return self._rounded(f"(1 / {exact(f'sqrt{f}({inner})')})", dtype)
        if name == "exp10":
            return self._rounded(f"pow{f}(10, {inner})", dtype)
        if name == "ldexp":
            power = self._rounded(f"exp2{f}({emitter.opened(args[1])})", dtype)
            return self._rounded(f"({self._exact(args[0], dtype)} * {power})", dtype)
        if name == "nextafter" and is_narrow:
            for helper in ("load", "store"):
                self._call(helper, dtype, [])
            return self._call("next", dtype, args)
        library = c_words.library_function(name, "float64" if is_narrow else dtype)
        if library is None and is_narrow:
            raise InputError(f"{self.where} calls {name} of {dtype}, which C does not have")
        return None if library is None else self._rounded(f"{library}({inner})", dtype)

    def _extern(self, node: Value, inner: str) -> str:
        is_name = re.fullmatch(r"(?!__)[A-Za-z_][A-Za-z_0-9]*", node.data) is not None
        if not is_name or node.data in (*c_words.LANGUAGE, *c_words.MACROS, "main"):
            raise InputError(f"{self.where} calls {node.data}, which is no name in C")
        types = ", ".join(self.type_of(arg) for arg in node.args) or "void"
        self.externs[node.data] = f"extern {self.type_of(node)} {node.data}({types});"
        is_narrow = dtypes.is_int(node.dtype) and dtypes.bits(node.dtype) < 64
        cast = f"(int64_t)({c_words.c_type(node.dtype, f'a value in {self.where}')})" if is_narrow else ""
        return f"{cast}{node.data}({inner})"

    def _call(self, helper: str, dtype: str, args: list[str]) -> str:
        definition = self.helpers[helper, dtype] = c_words.helper_text(helper, dtype)
        return f"{c_words.function_name(definition)}({', '.join(map(emitter.opened, args))})"


def _written(signs: Mapping[ops.Op, str], op: ops.Op, args: list[str]) -> str:
    """An operation that C has itself."""
    if op is ops.SELECT:
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if op in _PREFIX:
        return f"({_PREFIX[op]}{args[0]})"
    return emitter.infix(args[0], signs[op], args[1])


def _word_type(dtype: str) -> str:
    """The C type of integers of a type, as values."""
    return "uint64_t" if dtype == "uint64" else "int64_t"


MAX_NODES: Final = 100  # larger indices are not simplified
MAX_TRIED: Final = 16  # values of a variable at which a loop inside may be empty
MIN_SELECTS: Final = 4  # smaller trees do not pay for the memory of a table
MAX_ELEMENTS: Final = 4096  # of a table
_DIVIDING: Final = frozenset((*ops.DIVISIONS, ops.SHR, ops.BITAND))
_BY_BITS: Final = {ops.FLOORDIV: ops.SHR, ops.FLOORMOD: ops.BITAND}
_ROUNDED: Final = (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV)  # operations that C does not have


def flat_index(indices: Iterable[Expr], shape: Iterable[Expr], scope: Scope) -> Expr:
    """The number of an element in row-major storage.

    Guarantee: its steps are those of the row-major sum, which `narrow` examines, or need no wider type than these.

    Parameters
    ----------
    scope: what holds at the access.
    """
    index = offset(indices, shape)
    if not _DIVIDING.isdisjoint(dag.operations(index)) and dag.is_small(MAX_NODES, (index,)):
        return _without_rounding(_context(scope).simplify(index, bits=32), index)
    return index


def _context(scope: Scope) -> Context:
    """The context of a scope; loops between minima and maxima get constant ends, which cost less to reason about."""
    here, *steps = scope.around()
    if not any(map(_is_choice, [r for step in steps for r in step.ranges.values()])):
        return scope.ctx
    spans = Spans(here.ctx, 64)
    for step in steps:
        ranges, facts = dict(step.ranges), list(step.facts)
        for cond in [fact.condition for fact in step.facts if fact.condition.op is ops.EQ]:
            name, value = cond.args
            if isinstance(name, Var) and isinstance(value, Expr):  # a name in front of the loop
                spans = spans.inside(name, value, value)
        for var, r in step.ranges.items():
            if r is not None:
                low, extent = range_ends(r)
                facts += [Fact(cond, DERIVED) for cond in _nonempty(extent, spans)]
                spans = spans.inside(var, low, end_of(low, extent) - 1)
                if _is_choice(r) and (ends := spans.span(var)) is not None:
                    ranges[var] = Range(ends[0], ends[1] - ends[0] + 1)
        here = Scope(here, ranges, tuple(facts), scope.written)
    return here.ctx


def _is_choice(r: Range | None) -> bool:
    """Whether an end of a range is a minimum or maximum."""
    if r is None or r.ends is not None:
        return False
    return any(not _CHOICES.isdisjoint(dag.operations(end)) for end in range_ends(r))


def _nonempty(extent: Expr, spans: Spans) -> list[Cond]:
    """Constant ends for the only variable of an extent: outside of them the extent is 0."""
    free = extent.free_vars()
    ends = spans.span(free[0]) if len(free) == 1 else None
    if ends is None or ends[1] - ends[0] >= MAX_TRIED:
        return []
    var = free[0]
    reached = [k for k in range(ends[0], ends[1] + 1) if point_value(extent >= 1, {var: k}) is not False]
    return [var >= reached[0], var <= reached[-1]] if reached else []


_CHOICES: Final = frozenset((ops.MIN, ops.MAX))


def _without_rounding(e: Expr, plain: Expr) -> Expr:
    """`e` with shifts and masks for divisions by powers of two; `plain` if a rounding remains that it lacks."""
    new: dict[Node, Node] = {}
    for node in dag.postorder((e,)):
        if node.op in _BY_BITS and node.args[1].op is ops.CONST and (c := node.args[1].data) > 0 and c & (c - 1) == 0:
            number = c.bit_length() - 1 if node.op is ops.FLOORDIV else c - 1
            new[node] = make(_BY_BITS[node.op], (dag.rewrite(node.args[0], new), const(number)))
    lowered: Expr = dag.rewrite(e, new)
    own = {node.op for node in dag.postorder((plain,))}
    return plain if any(node.op in _ROUNDED and node.op not in own for node in dag.postorder((lowered,))) else lowered


def flattened(operand: Operand, shapes: Mapping[Tensor, tuple[Expr, ...]], scope: Scope) -> Operand:
    """An operand whose loads read elements by their number in storage.

    Raises
    ------
    InputError: a tensor has no storage at this point.
    """

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
        if tensor not in shapes:
            raise InputError(f"{tensor.name} is read where it has no storage")
        index = flat_index(indices, shapes[tensor], scope)
        if dtypes.is_int(tensor.dtype):
            element: Operand = make(ops.LOAD, (index,), tensor.element)
            return element
        return make_value(READ, (index,), tensor.dtype, tensor)

    return walk.rewritten(operand, {}, on_load)


@dataclass(frozen=True)
class ConstantTable:
    """A tree of selections as values over a box of loop variables, the last variable fastest."""

    variables: tuple[Var, ...]
    firsts: tuple[int, ...]
    extents: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str

    def element(self, table: Tensor) -> Value:
        """The load from `table` that replaces the tree."""
        indices = [simple.sub(v, low) for v, low in zip(self.variables, self.firsts, strict=True)]
        return load(table, (offset(indices, [const(n) for n in self.extents]),))


def constant_tables(operand: Operand, loops: Iterable[ir.For]) -> dict[Value, ConstantTable]:
    """The largest selections below an operand that are tables over variables of `loops`."""
    tables: dict[Value, ConstantTable] = {}
    if ops.SELECT not in walk.operations(operand):
        return tables
    inside: set[Any] = set()
    for node in reversed(list(walk.nodes(operand))):  # users before operands
        if node in inside or not isinstance(node, Value) or node.op is not ops.SELECT:
            continue
        tree = _select_tree(node)
        if tree is None:
            continue
        inside.update(tree)
        limits = {loop.var: loop.range.ends for loop in loops}
        table = _table(node, tree, {v: ends for v, ends in limits.items() if ends is not None})
        if table is not None:
            tables[node] = table
    return tables


def _select_tree(root: Value) -> dict[Any, Cond] | None:
    """Selections of a constant-leaf tree, mapped to their conditions; `None` for data-dependent conditions."""
    selects: dict[Any, Cond] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node in selects or node.op is NUMBER:
            continue
        if node.op is not ops.SELECT or not isinstance(node.args[0], Cond) or dag.opaque_terms(node.args[0]):
            return None
        selects[node] = node.args[0]
        stack += [node.args[2], node.args[1]]
    return selects


def _table(root: Value, tree: Mapping[Any, Cond], limits: Mapping[Var, tuple[int, int]]) -> ConstantTable | None:
    variables = tuple(dict.fromkeys(v for cond in tree.values() for v in cond.free_vars()))
    if len(tree) < MIN_SELECTS or any(v not in limits for v in variables):
        return None
    ranges = [range(limits[v][0], limits[v][1] + 1) for v in variables]
    if not 0 < prod(map(len, ranges)) <= MAX_ELEMENTS:
        return None
    values = []
    for point in product(*ranges):
        at = dict(zip(variables, point, strict=True))
        node: Any = root
        while node.op is ops.SELECT:
            try:
                holds = evaluate(node.args[0], at)
            except ArithmeticError:
                return None
            node = node.args[1] if holds else node.args[2]
        values.append(node.data)
    return ConstantTable(variables, tuple(r[0] for r in ranges), tuple(map(len, ranges)), tuple(values), root.dtype)


THREADS: Final = (
    "#ifdef _OPENMP",
    "#include <omp.h>",
    "#define INTSET_THREADS ((size_t)omp_get_max_threads())",
    "#define INTSET_THREAD ((size_t)omp_get_thread_num())",
    "#else",
    "#define INTSET_THREADS ((size_t)1)",
    "#define INTSET_THREAD ((size_t)0)",
    "#endif",
)


class CStorage:
    """The texts of one function's arena.

    Attributes
    ----------
    malloced: the name of the pointer to be freed; empty without an arena.
    """

    def __init__(self, plan: StoragePlan, syntax: CSyntax) -> None:
        self.plan, self.syntax = plan, syntax
        self.malloced = ""
        self._bases: dict[Arena, str] = {}
        self._slots: dict[Arena, list[str]] = {}
        self._strides: dict[ir.For, tuple[str, str]] = {}

    def head(self) -> list[str]:
        """The lines that allocate the arena; the part of each thread lies behind the common part."""
        if not self.plan.arena and not self.plan.private:
            return []
        names = self.syntax.names
        self.malloced = names.fresh("storage")
        first = self._call("aligned_start", self.malloced)
        lines, end = self._layout(self.plan.arena)
        if self.plan.private:
            start = end
            parts = []
            for loop, arena in self.plan.private.items():
                more, size = self._layout(arena)
                stride = names.fresh("stride")
                lines += [*more, f"const size_t {stride} = {self._call('after_size', size, '0')};"]
                self._strides[loop] = (stride, start)
                parts.append(self._call("times_size", stride, "INTSET_THREADS"))
            end, most = names.fresh("end"), reduce(partial(self._call, "larger_size"), parts)
            lines.append(f"const size_t {end} = {self._call('after_size', start, most)};")
        base = self._bases[self.plan.arena] = names.fresh("arena")
        return [
            *lines,
            f"char *const {self.malloced} = (char *)malloc({end} + {ALIGNMENT});",
            f"if ({self.malloced} == NULL) return -1;",
            f"char *const {base} = {first};",
        ]

    def thread_head(self, loop: ir.For) -> list[str]:
        """The declaration of a thread's arena base, placed at the start of a parallel region."""
        arena = self.plan.private.get(loop)
        if arena is None:
            return []
        stride, start = self._strides[loop]
        base = self._bases[arena] = self.syntax.names.fresh("own")
        return [f"char *const {base} = {self._bases[self.plan.arena]} + {start} + {stride} * INTSET_THREAD;"]

    def is_shared(self, stmt: ir.Allocate) -> bool:
        """Whether other allocations use the same bytes at other times."""
        arena = self._arena(stmt)
        return arena is not None and stmt in arena.shared

    def pointer(self, stmt: ir.Allocate, is_alone: bool = True) -> str | None:
        """Declare a pointer into an arena; `None` for stack and heap allocations.

        Parameters
        ----------
        is_alone: whether no other pointer in scope reaches these bytes.
        """
        address = self.address(stmt)
        if address is None:
            return None
        tensor: Tensor = stmt.tensor
        name = self.syntax.names.of(tensor, tensor.name)
        return (
            f"{c_words.storage_type(tensor.dtype, tensor.name)} *{'restrict ' if is_alone else ''}{name} = {address};"
        )

    def address(self, stmt: ir.Allocate) -> str | None:
        """The address of an allocation in an arena; `None` if it lies elsewhere."""
        arena = self._arena(stmt)
        if arena is None:
            return None
        offset = str(arena.offsets[stmt]) if stmt in arena.offsets else self._slots[arena][arena.slot_of[stmt]]
        base = self._bases[arena]
        ctype = c_words.storage_type(stmt.tensor.dtype, stmt.tensor.name)
        return f"({ctype} *){base if offset == '0' else f'({base} + {offset})'}"

    def _arena(self, stmt: ir.Allocate) -> Arena | None:
        return next((arena for arena in (self.plan.arena, *self.plan.private.values()) if stmt in arena), None)

    def _layout(self, arena: Arena) -> tuple[list[str], str]:
        """The lines that compute the offset of each slot, and the text of the arena's end."""
        lines: list[str] = []
        end = str(arena.fixed)
        self._slots[arena] = []
        for sizes in arena.slots:
            offset = self.syntax.names.fresh("at")
            lines.append(f"const size_t {offset} = {end};")
            self._slots[arena].append(offset)
            texts = []
            for size in sizes:
                before, extents = emitter.straight_line(self.syntax, size.extents)
                lines += before
                texts.append(self.size(str(size.width), size.extents, extents))
            end = self._call("after_size", offset, reduce(partial(self._call, "larger_size"), texts))
        return lines, end

    def size(self, width: str, extents: Iterable[Expr], texts: Iterable[str]) -> str:
        """The text of an array's size in bytes. `width`: bytes per element; `texts`: the extents in C."""
        for extent, text in zip(extents, texts, strict=True):
            if constant_value(extent) != 1:
                width = self._call("times_size", width, count(extent, text))
        return width

    def _call(self, helper: str, *args: str) -> str:
        self.syntax.helpers[helper, "size"] = c_words.SIZE_HELPERS[helper]
        return f"{helper}({', '.join(args)})"


def count(extent: Expr, text: str) -> str:
    """The number of elements along an axis, at least 0."""
    number = constant_value(extent)
    if number is not None:
        return str(max(0, number))
    return f"(size_t)({emitter.compared(text)} > 0 ? {emitter.compared(text)} : 0)"

"""tinygrad's index expressions, both ways, and bounds beside its `vmin` and `vmax`.

Terms of `weakint` and of signed types are mathematical integers: overflow of signed types is undefined in tinygrad's C,
and tinygrad's own bounds exclude overflow. Unsigned types wrap, and so does every cast. A quotient by 0 is undefined
here and equals 0 in tinygrad. `Invalid` has no value: `idx if valid else Invalid` asserts `valid`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias

from tinygrad.dtype import AddrSpace, DType, Invalid, dtypes
from tinygrad.uop.ops import Ops, ParamArg, UOp

from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, Node, Range, ShapeVar, Var, arguments, const, convert, ops, shown
from intset.expr.build import FALSE, Opaque, asserting, cast, maximum, truncdiv, truncmod
from intset.expr.node import truth
from intset.expr.ops import Op

UOpTerm: TypeAlias = "UOp"


def from_tinygrad(term: UOpTerm, variables: Mapping[UOpTerm, Node] | None = None) -> Expr | Cond:
    """An integer or boolean term of tinygrad as an expression or condition; `KernelTerms` converts many.

    Parameters
    ----------
    variables: variables or expressions for loops, special indices and variables of tinygrad; any other becomes a new
        variable, a size with tinygrad's bounds for a variable.

    Raises
    ------
    InputError: an operation on other types than integers and truth values, or a term that is no value.
    """
    converted = KernelTerms(variables)(arguments.of_kind(UOp, term, "what is converted", "a UOp"))
    assert isinstance(converted, (Expr, Cond))
    return converted


def to_tinygrad(
    node: Expr | Cond, variables: Mapping[Var, UOpTerm] | None = None, buffers: Mapping[Opaque, UOpTerm] | None = None
) -> UOpTerm:
    """An expression or condition as a term of tinygrad; the parameters and errors are those of `exporter`."""
    return exporter(variables, buffers)(
        arguments.of_kind(Node, node, "what is converted", "an expression or a condition")
    )


def bounds(term: UOpTerm, variables: Mapping[UOpTerm, Node] | None = None) -> tuple[int | Infinity, int | Infinity]:
    """The least and greatest value over all iterations and sizes: the counterparts of `vmin` and `vmax`.

    Those of a condition are truth values. Parameters and errors are those of `from_tinygrad`.

    >>> i = UOp.range(10, 0)
    >>> bounds(i * 4 - i * 3), (i * 4 - i * 3).vmin, (i * 4 - i * 3).vmax
    ((0, 9), -27, 36)
    """
    return KernelTerms(variables).bounds(term)


class KernelTerms(convert.Converter[Any, Node]):
    """The converter from tinygrad, for the terms of a kernel. It knows the ranges of its loops and special indices.

    An element of a buffer is an opaque term: the buffer's elements are those after the same stores, in one iteration of
    all loops around.

    Attributes
    ----------
    buffers: buffers (with the stores before) by their opaque symbols, for the way back.

    >>> kernel = KernelTerms()
    >>> i = UOp.range(4, 0)
    >>> kernel(i // 2 + 1), kernel.context().bounds(kernel(i // 2 + 1))
    (r0 // 2 + 1, (1, 2))
    """

    def __init__(self, variables: Mapping[UOpTerm, Node] | None = None) -> None:
        self.buffers: dict[Opaque, UOpTerm] = {}
        self._symbols: dict[UOpTerm, Opaque] = {}
        super().__init__(
            {**_FROM_TINYGRAD, Ops.INDEX: self._element},
            var=_variable,
            opaque=_refused,
            kind=convert.operation_of,
            operands=_operands,
            variables=variables,
        )

    def context(self, assume: tuple[Cond, ...] = ()) -> Context:
        """The context of all loops and special indices so far, with their ranges from 0."""
        return Context(self._ranges(), assume=assume)

    def bounds(self, term: UOpTerm) -> tuple[int | Infinity, int | Infinity]:
        """The least and the greatest value of a term, as `bounds`."""
        e = self(term)
        ctx = self.context()
        if isinstance(e, Cond):
            return bool(ctx.prove(e)), not ctx.prove(~e)
        assert isinstance(e, Expr)
        low, high = (end if isinstance(end, Infinity) else int(end) for end in ctx.bounds(e, over="sizes"))
        if term.dtype in dtypes.sints and low <= high:  # beyond its type a term has no value
            return max(low, int(term.dtype.min)), min(high, int(term.dtype.max))
        return low, high

    def _ranges(self) -> dict[Var, Range]:
        ranges: dict[Var, Range] = {}
        waiting = list(self.variables.items())
        for term, target in waiting:  # grows: an extent may have variables of its own
            if term.op in (Ops.RANGE, Ops.SPECIAL) and isinstance(target, Var):
                known = len(self.variables)
                ranges[target] = Range(0, convert.integer_of(self(term.src[0])))
                waiting.extend(list(self.variables.items())[known:])
        return ranges

    def _element(self, term: Any, *indices: Node) -> Node:
        """An element of a buffer."""
        buffer = term.src[0]
        if buffer not in self._symbols:
            low, high = _limits(term)
            name = f"{buffer.base.op.name.lower()}{getattr(buffer.base.arg, 'slot', '')}"
            symbol = Opaque(name, len(indices), low, high)
            self._symbols[buffer], self.buffers[symbol] = symbol, buffer
        element = self._symbols[buffer](*map(convert.integer_of, indices))
        return element.ne(0) if term.dtype == dtypes.bool else element


def exporter(
    variables: Mapping[Var, UOpTerm] | None = None, buffers: Mapping[Opaque, UOpTerm] | None = None
) -> convert.Converter[Node, UOpTerm]:
    """The converter to tinygrad; `sources` maps terms back to variables.

    Parameters
    ----------
    variables: terms for variables, such as the `sources` of `KernelTerms`; any other one becomes a variable of tinygrad
        with its declared bounds.
    buffers: buffers for opaque symbols, such as the `buffers` of `KernelTerms`.

    Raises
    ------
    InputError: an element of no buffer, or two variables of one name.
    """
    arrays = {} if buffers is None else buffers

    def element(e: Node, *indices: UOpTerm) -> UOpTerm:
        if not isinstance(e, Expr) or e.data not in arrays:
            raise InputError(f"no buffer is given for {shown(e)}")
        return arrays[e.data].index(*indices).load()

    return convert.Converter(
        {**_TO_TINYGRAD, ops.LOAD: element},
        var=_size,
        kind=convert.operation_of,
        operands=convert.arguments_of,
        variables=variables,
    )


def _operands(term: Any) -> Any:
    """The operands that are values; a loop's extent, a buffer and the stores ahead of a value are not expressions."""
    if term.op in (Ops.RANGE, Ops.SPECIAL, Ops.PARAM, Ops.BUFFER):
        return ()
    if term.op is Ops.INDEX:
        return term.src[1:]
    return term.src[:1] if term.op is Ops.AFTER else term.src


def _variable(term: Any) -> Var:
    """The variable of a loop, of a special index, or of a variable of tinygrad."""
    if term.dtype not in (dtypes.weakint, *dtypes.ints):
        raise InputError(f"a term of type {term.dtype} is no integer")
    if term.op is Ops.RANGE:
        return Var("r" + "_".join(str(part) for part in term.arg[:-1]))
    if term.op is Ops.SPECIAL:
        return Var(str(term.arg))
    if isinstance(term.arg, ParamArg) and term.arg.addrspace is AddrSpace.ALU:
        low, high = (int(end) for end in term.arg.vmin_vmax or (term.vmin, term.vmax))
        return ShapeVar(term.arg.name or f"p{term.arg.slot}", low, high, term.arg.multiple_of or 1)
    return _refused(term)


def _refused(term: Any, *operands: Node) -> NoReturn:
    raise InputError(f"tinygrad's {term.op.name} of type {term.dtype} has no counterpart")


def _limits(term: Any) -> tuple[int | None, int | None]:
    kind: DType = term.dtype
    if kind not in (dtypes.bool, *dtypes.ints):
        raise InputError(f"an element of type {kind} is no integer")
    return int(kind.min), int(kind.max)


def _register(kind: DType) -> tuple[int, bool]:
    return kind.bitsize, kind not in dtypes.uints


def _by_type(integers: Callable[..., Expr], truths: Callable[..., Cond] | None = None) -> Callable[..., Node]:
    """The row of an operation with a meaning for integers and perhaps one for truth values, by the type of the term."""

    def row(term: Any, *parts: Node) -> Node:
        if term.dtype == dtypes.bool and truths is not None:
            return truths(*map(convert.truth_of, parts))
        if term.dtype not in (dtypes.weakint, *dtypes.ints):
            return _refused(term)
        value = integers(*map(convert.integer_of, parts))
        # unsigned types wrap
        return cast(value, term.dtype.bitsize, signed=False) if term.dtype in dtypes.uints else value

    return row


def _comparison(integers: Callable[..., Cond], truths: Callable[..., Cond]) -> Callable[..., Cond]:
    def row(term: Any, a: Node, b: Node) -> Cond:
        if isinstance(a, Cond) and isinstance(b, Cond):
            return truths(a, b)
        return integers(convert.integer_of(a), convert.integer_of(b))

    return row


def _differ(a: Cond, b: Cond) -> Cond:
    if b.op is ops.BOOL:  # tinygrad's negation
        return ~a if b.data else a
    return (a & ~b) | (~a & b)


def _number(term: Any) -> Node:
    if term.val is Invalid:
        return _UNDEFINED
    if not isinstance(term.val, int):
        raise InputError(f"{shown(term.val)} is no integer")
    return truth(term.val) if isinstance(term.val, bool) else const(term.val)


def _chosen(term: Any, c: Node, a: Node, b: Node) -> Node:
    condition = convert.truth_of(c)
    if b is _UNDEFINED:
        return asserting(condition, convert.integer_of(a))
    if a is _UNDEFINED:
        return asserting(~condition, convert.integer_of(b))
    return convert.chosen(term, condition, a, b)


def _converted(term: Any, value: Node) -> Node:
    if term.arg == dtypes.bool:
        return convert.truth_of(value)
    source = term.src[0].dtype
    if term.arg not in (dtypes.weakint, *dtypes.ints):
        return _refused(term)
    if term.arg == dtypes.weakint or isinstance(value, Cond):
        return convert.integer_of(value)
    if term.src[0].op is Ops.CONST:
        number = term.src[0].val
        if number is Invalid or term.arg.min <= number <= term.arg.max:
            return convert.integer_of(value)
    bits, signed = _register(term.arg)
    if source in dtypes.ints:
        width, sign = _register(source)
        if (signed or not sign) and width + (signed and not sign) <= bits:
            return convert.integer_of(value)
    return cast(convert.integer_of(value), bits, signed)


_UNDEFINED: Final = asserting(FALSE, const(0))

_FROM_TINYGRAD: Final[dict[Any, Callable[..., Node]]] = {
    Ops.CONST: _number,
    Ops.ADD: _by_type(lambda a, b: a + b, lambda a, b: a | b),
    Ops.SUB: _by_type(lambda a, b: a - b),
    Ops.MUL: _by_type(lambda a, b: a * b, lambda a, b: a & b),
    Ops.MULACC: _by_type(lambda a, b, c: a * b + c, lambda a, b, c: a & b | c),
    Ops.NEG: _by_type(lambda a: -a),
    Ops.FLOORDIV: _by_type(lambda a, b: a // b),
    Ops.FLOORMOD: _by_type(lambda a, b: a % b),
    Ops.CDIV: _by_type(truncdiv),
    Ops.CMOD: _by_type(truncmod),
    Ops.MAX: _by_type(maximum, lambda a, b: a | b),
    Ops.AND: _by_type(lambda a, b: a & b, lambda a, b: a & b),
    Ops.OR: _by_type(lambda a, b: a | b, lambda a, b: a | b),
    Ops.XOR: _by_type(lambda a, b: a ^ b, _differ),
    Ops.SHL: _by_type(lambda a, b: a << b),
    Ops.SHR: _by_type(lambda a, b: a >> b),
    Ops.CMPLT: _comparison(lambda a, b: a < b, lambda a, b: ~a & b),
    Ops.CMPNE: _comparison(lambda a, b: a.ne(b), _differ),
    Ops.CMPEQ: _comparison(lambda a, b: a.eq(b), lambda a, b: ~_differ(a, b)),
    Ops.WHERE: _chosen,
    Ops.CAST: _converted,
    Ops.AFTER: lambda term, value: value,
    Ops.LOAD: lambda term, value, *gate: _chosen(term, gate[1], value, gate[0]) if len(gate) == 2 else value,
}


def _size(var: Any) -> Any:
    low, high, step = var.declared()
    kind = dtypes.weakint
    return UOp.variable(
        var.name, kind.min if low is None else low, kind.max if high is None else high, multiple_of=step
    )


_TO_TINYGRAD: Final[dict[Op, Callable[..., Any]]] = {
    ops.CONST: lambda e: UOp.const(e.value),
    ops.BOOL: lambda e: UOp.const(bool(e.data)),
    **convert.by_operators(*convert.RING, ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV, ops.BITAND, ops.BITOR, ops.BITXOR),
    **convert.by_operators(ops.LT, ops.LE, ops.GT, ops.GE, ops.NE),
    ops.TRUNCDIV: lambda e, a, b: a.alu(Ops.CDIV, b),
    ops.TRUNCMOD: lambda e, a, b: a.alu(Ops.CMOD, b),
    ops.MIN: lambda e, a, b: a.minimum(b),
    ops.MAX: lambda e, a, b: a.maximum(b),
    ops.ABS: lambda e, a: a.maximum(-a),
    ops.BITNOT: lambda e, a: a ^ -1,
    ops.SHL: lambda e, a, b: a << b,
    ops.SHR: lambda e, a, b: a >> b,
    ops.CAST: convert.wrapped,  # tinygrad's bounds of a cast assume that the value fits
    ops.SELECT: lambda e, c, a, b: c.where(a, b),
    ops.ASSERTING: lambda e, c, a: c.where(a, UOp.const(Invalid)),
    ops.EQ: lambda e, a, b: a.eq(b),
    ops.AND: lambda e, a, b: a & b,
    ops.OR: lambda e, a, b: a | b,
    ops.NOT: lambda e, a: a.logical_not(),
}


__all__ = ["KernelTerms", "bounds", "exporter", "from_tinygrad", "to_tinygrad"]

"""z3's integer terms, both ways.

z3's `div` and `mod` are Euclidean (the remainder is never negative) and total (a quotient by 0 is any value). Converted
terms are equal wherever the expression has a value.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, TypeAlias

import z3

from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Var, arguments, const, convert, ops, shown
from intset.expr.build import FALSE, TRUE, Opaque, logical_and, logical_or, select
from intset.expr.node import folded_chain
from intset.expr.ops import Op

Z3Expression: TypeAlias = "z3.ExprRef"


def to_z3(node: Node, variables: Mapping[Var, Z3Expression] | None = None) -> Z3Expression:
    """An expression or condition as a term of z3; `exporter` converts many and keeps their variables.

    Parameters
    ----------
    variables: terms for variables; any other variable becomes `z3.Int` of its name.

    Raises
    ------
    InputError: two variables or two opaque symbols of one name, a shift by an amount that is no number, or a bit
        operation.
    """
    return exporter(variables)(arguments.of_kind(Node, node, "what is converted", "an expression or a condition"))


def from_z3(term: Z3Expression, variables: Mapping[Z3Expression, Var] | None = None) -> Expr | Cond:
    """A term of z3 over integers and truth values as an expression or condition; `importer` converts many.

    Parameters
    ----------
    variables: variables for constants; any other integer constant becomes a `Var` of its name.

    Raises
    ------
    InputError: an operation that has no counterpart, such as a quantifier, an array or a real number.
    """
    converted = importer(variables)(arguments.of_kind(z3.ExprRef, term, "what is converted", "a term of z3"))
    assert isinstance(converted, (Expr, Cond))
    return converted


def exporter(variables: Mapping[Var, Z3Expression] | None = None) -> convert.Converter[Node, Z3Expression]:
    """The converter from expressions to z3; `sources` maps constants of z3 back to variables."""
    known = convert.known_pairs(variables, Node, z3.ExprRef, "a term of z3")
    functions: dict[tuple[str, int], Opaque] = {}
    for term in known.values():
        _check_integer(term)

    def element(e: Node, *indices: Any) -> Any:
        """An opaque term as an application of an uninterpreted function."""
        if not isinstance(e.data, Opaque):
            raise InputError(f"z3's integers have no {e.op.name!r}: {shown(e)}")
        convert.claim(functions, (e.data.name, e.data.rank), e.data, e.data.name)
        return z3.Function(e.data.name, *[z3.IntSort()] * (len(indices) + 1))(*indices)

    def leaf(e: Any) -> Any:
        return z3.Int(e.data.name if isinstance(e.data, Opaque) else e.name)

    return convert.Converter(
        _TO_Z3, var=leaf, opaque=element, kind=convert.operation_of, operands=convert.arguments_of, variables=known
    )


def importer(variables: Mapping[Z3Expression, Var] | None = None) -> convert.Converter[Z3Expression, Node]:
    """The converter from z3 to expressions; `sources` maps variables back to constants of z3."""
    return TermReader(convert.known_pairs(variables, z3.ExprRef, Node, "a term of z3"))


class TermReader(convert.Converter[Any, Node]):
    """The converter from z3, which reads terms by their addresses: z3's wrappers of terms cost ten times the reading.

    Invariant: every address belongs to a subterm of a root in `_roots`. These references keep it alive in z3.
    """

    def __init__(self, variables: Mapping[Z3Expression, Node]) -> None:
        self._roots: list[Any] = []
        self._context: Any = None  # z3's context of the terms
        self._kinds: dict[int, object] = {}  # of terms, by address
        self._operations: dict[int, object] = {}  # of declarations, by address
        self._symbols: dict[int, Opaque] = {}
        self._digits = ctypes.c_int64()
        table = {**_FROM_Z3, z3.Z3_OP_UNINTERPRETED: self._application, z3.Z3_NUMERAL_AST: self._number}
        super().__init__(table, opaque=self._refused, kind=self._kinds.__getitem__, identity=int, variables=variables)
        for term, target in variables.items():
            self._results[self._entered(term)] = target

    def __call__(self, root: Any) -> Node:
        """The converted term."""
        return super().__call__(self._entered(root))

    def _entered(self, root: Any) -> int:
        """The address of a term."""
        if self._context is None:
            self._context = root.ctx
            self._address, self._integers = _POINTER(root.ctx_ref().value), z3.IntSort(root.ctx).as_ast().value
            self._operands = self._reader()
        if root.ctx is not self._context:
            raise InputError(f"{shown(root)} is a term of another context of z3")
        self._roots.append(root)
        address: int = root.as_ast().value
        return address

    def _reader(self) -> Callable[[int], Sequence[int]]:
        """The function that reads the operands of a term; its kind is found with them."""
        kinds, operations, context = self._kinds, self._operations, self._address

        def parts(term: int) -> Sequence[int]:
            declaration = _declaration(context, term)
            if declaration is None:  # a bound variable or a quantifier
                kinds[term] = None
                return ()
            count = _count(context, term)
            if not count and _node_kind(context, term) == z3.Z3_NUMERAL_AST:
                kinds[term] = z3.Z3_NUMERAL_AST
                return ()
            kind = operations.get(declaration)
            if kind is None:
                kind = operations[declaration] = _kind(context, declaration)
            kinds[term] = kind
            if count == 2:
                return (_operand(context, term, 0), _operand(context, term, 1))
            return [_operand(context, term, k) for k in range(count)]

        return parts

    def _application(self, term: int, *indices: Node) -> Node:
        """A constant as a variable; an application of an uninterpreted function of integers as an opaque term."""
        found = self._wrapped(term)
        _check_integer(found, *indices)
        if not indices:
            known = self.variables.get(found)
            return self._pair(found, Var(found.decl().name())) if known is None else known
        function = _declaration(self._address, term)
        if function not in self._symbols:
            self._symbols[function] = Opaque(found.decl().name(), len(indices))
        return self._symbols[function](*[index for index in indices if isinstance(index, Expr)])

    def _number(self, term: int) -> Expr:
        if _sort(self._address, term) != self._integers:
            found = self._wrapped(term)
            raise InputError(f"{shown(found)} of sort {found.sort()} is no integer")
        if _small(self._address, term, self._digits):
            return const(self._digits.value)
        return const(int(z3.Z3_get_numeral_string(self._context.ref(), self._wrapped(term).as_ast())))

    def _refused(self, term: int, *operands: Node) -> Node:
        text = z3.Z3_ast_to_string(self._context.ref(), self._wrapped(term).as_ast())
        raise InputError(f"no conversion of z3's operation {text[:80]}")

    def _wrapped(self, term: int) -> Any:
        return z3.ExprRef(z3.Ast.from_buffer_copy(_POINTER(term)), self._context)


def _unchecked(function: Any, result: Any, *parameters: Any) -> Callable[..., Any]:
    """A function of z3's C interface without the second call for each, in which z3's package asks for errors.

    Addresses are integers. Precondition of a call: it cannot fail.
    """
    (wrapper,) = function.__defaults__
    return ctypes.PYFUNCTYPE(result, *parameters)(ctypes.cast(wrapper.f, _POINTER).value or 0)


_POINTER: Final = ctypes.c_void_p
_declaration: Final = _unchecked(z3.Z3_get_app_decl, _POINTER, _POINTER, _POINTER)
_kind: Final = _unchecked(z3.Z3_get_decl_kind, ctypes.c_uint, _POINTER, _POINTER)
_count: Final = _unchecked(z3.Z3_get_app_num_args, ctypes.c_uint, _POINTER, _POINTER)
_operand: Final = _unchecked(z3.Z3_get_app_arg, _POINTER, _POINTER, _POINTER, ctypes.c_uint)
_sort: Final = _unchecked(z3.Z3_get_sort, _POINTER, _POINTER, _POINTER)
_node_kind: Final = _unchecked(z3.Z3_get_ast_kind, ctypes.c_uint, _POINTER, _POINTER)
_small: Final = _unchecked(z3.Z3_get_numeral_int64, ctypes.c_bool, _POINTER, _POINTER, ctypes.POINTER(ctypes.c_int64))


def _floor_quotient(a: Any, b: Any) -> Any:
    value = b.as_long() if z3.is_int_value(b) else None
    if value is not None:
        return a / b if value > 0 else (-a) / z3.IntVal(-value)
    return z3.If(b > 0, a / b, (-a) / (-b))


def _truncated_quotient(a: Any, b: Any) -> Any:
    magnitude = _magnitude(a) / _magnitude(b)
    return z3.If((a >= 0) == (b > 0), magnitude, -magnitude)


def _magnitude(a: Any) -> Any:
    return z3.If(a >= 0, a, -a)


def _power_of_two(e: Expr, b: Expr) -> int:
    if not b.is_const or not 0 <= b.value < 4096:
        raise InputError(f"a shift by {shown(b)} has no counterpart in z3's integers: {shown(e)}")
    return 1 << b.value


_TO_Z3: Final[dict[Op, Callable[..., Any]]] = {
    ops.CONST: lambda e: z3.IntVal(e.value),
    ops.BOOL: lambda e: z3.BoolVal(e.data),
    **convert.by_operators(*convert.RING, *ops.COMPARISONS),
    ops.FLOORDIV: lambda e, a, b: _floor_quotient(a, b),
    ops.FLOORMOD: lambda e, a, b: a - b * _floor_quotient(a, b),
    ops.CEILDIV: lambda e, a, b: -_floor_quotient(-a, b),
    ops.TRUNCDIV: lambda e, a, b: _truncated_quotient(a, b),
    ops.TRUNCMOD: lambda e, a, b: a - b * _truncated_quotient(a, b),
    ops.MIN: lambda e, a, b: z3.If(a <= b, a, b),
    ops.MAX: lambda e, a, b: z3.If(a >= b, a, b),
    ops.ABS: lambda e, a: _magnitude(a),
    ops.SHL: lambda e, a, b: a * _power_of_two(e, e.args[1]),
    ops.SHR: lambda e, a, b: a / _power_of_two(e, e.args[1]),
    ops.BITNOT: lambda e, a: -a - 1,
    ops.CAST: convert.wrapped,
    ops.SELECT: lambda e, c, a, b: z3.If(c, a, b),
    ops.ASSERTING: lambda e, c, a: a,
    ops.AND: lambda e, a, b: z3.And(a, b),
    ops.OR: lambda e, a, b: z3.Or(a, b),
    ops.NOT: lambda e, a: z3.Not(a),
}


def _check_integer(term: Any, *indices: Node) -> None:
    if term.sort() != z3.IntSort(term.ctx) or any(not isinstance(index, Expr) for index in indices):
        raise InputError(f"{shown(term)} of sort {term.sort()} is no term over integers")


def _euclidean_quotient(term: Any, a: Expr, b: Expr) -> Expr:
    if b.is_const:
        return a // b if b.value > 0 else -(a // -b.value)
    return select(b > 0, a // b, -(a // -b))


def _euclidean_remainder(a: Expr, b: Expr) -> Expr:
    return a % (abs(b.value) if b.is_const else abs(b))


def _equal(term: Any, a: Node, b: Node) -> Cond:
    if isinstance(a, Expr) and isinstance(b, Expr):
        return a.eq(b)
    assert isinstance(a, Cond) and isinstance(b, Cond)
    return (a & b) | (~a & ~b)


def _folded(op: Op) -> Callable[..., Expr]:
    return lambda term, *parts: folded_chain(op, parts)


_FROM_Z3: Final[dict[Any, Callable[..., Node]]] = {
    z3.Z3_OP_TRUE: lambda term: TRUE,
    z3.Z3_OP_FALSE: lambda term: FALSE,
    z3.Z3_OP_ADD: _folded(ops.ADD),
    z3.Z3_OP_SUB: _folded(ops.SUB),
    z3.Z3_OP_MUL: _folded(ops.MUL),
    z3.Z3_OP_UMINUS: lambda term, a: -a,
    z3.Z3_OP_IDIV: _euclidean_quotient,
    z3.Z3_OP_MOD: lambda term, a, b: _euclidean_remainder(a, b),
    z3.Z3_OP_REM: lambda term, a, b: select(b > 0, _euclidean_remainder(a, b), -_euclidean_remainder(a, b)),
    z3.Z3_OP_POWER: lambda term, a, b: a**b,
    z3.Z3_OP_LE: lambda term, a, b: a <= b,
    z3.Z3_OP_LT: lambda term, a, b: a < b,
    z3.Z3_OP_GE: lambda term, a, b: a >= b,
    z3.Z3_OP_GT: lambda term, a, b: a > b,
    z3.Z3_OP_EQ: _equal,
    z3.Z3_OP_IFF: _equal,
    z3.Z3_OP_DISTINCT: lambda term, *parts: logical_and(*(~_equal(term, *pair) for pair in combinations(parts, 2))),
    z3.Z3_OP_XOR: lambda term, a, b: ~_equal(term, a, b),
    z3.Z3_OP_ITE: convert.chosen,
    z3.Z3_OP_AND: lambda term, *parts: logical_and(*parts),
    z3.Z3_OP_OR: lambda term, *parts: logical_or(*parts),
    z3.Z3_OP_NOT: lambda term, a: ~a,
    z3.Z3_OP_IMPLIES: lambda term, a, b: ~a | b,
}


__all__ = ["exporter", "from_z3", "importer", "to_z3"]

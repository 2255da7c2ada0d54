"""pymbolic's expressions, both ways; those of loopy's kernels are such expressions.

`//` and `%` are Python's there. Elements of arrays, `a[i, j]`, are opaque terms. `1 << e` where `e` is negative, and
any quotient by 0, have no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from operator import attrgetter
from typing import Any, Final, TypeAlias

import pymbolic.primitives as p

from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Var, arguments, const, convert, ops, shown
from intset.expr.build import Opaque, logical_and, logical_or, maximum, minimum
from intset.expr.node import compare, folded_chain, truth
from intset.expr.ops import Op

PymbolicExpression: TypeAlias = "p.ExpressionNode | int | bool"
ArrayOf: TypeAlias = Callable[[str, int], Opaque]


def from_pymbolic(term: PymbolicExpression, variables: Mapping[str, Node] | None = None) -> Expr | Cond:
    """An integer expression or a condition of pymbolic; the parameters and errors are those of `importer`.

    >>> from pymbolic import parse
    >>> from_pymbolic(parse("(4*i + j) // 8 if i < 3 else a[i] % 2"))
    select(i < 3, (4 * i + j) // 8, a[i] % 2)
    """
    converted = importer(variables)(term)
    assert isinstance(converted, (Expr, Cond))
    return converted


def to_pymbolic(node: Expr | Cond, names: Mapping[Var, str] | None = None) -> PymbolicExpression:
    """An expression or a condition in pymbolic; the parameters and errors are those of `exporter`."""
    return exporter(names)(arguments.of_kind(Node, node, "what is converted", "an expression or a condition"))


def importer(variables: Mapping[str, Node] | None = None, array: ArrayOf | None = None) -> convert.Converter[Any, Node]:
    """The converter from pymbolic; `sources` maps variables back.

    Parameters
    ----------
    variables: variables or expressions by name; any other name becomes a new variable.
    array: the symbol of an array's elements, of its name and number of indices, asked once an array; by default an
        `Opaque` of that name.

    Raises
    ------
    InputError: a true division, a number that is no integer, or a function other than `min`, `max` and `abs`.
    """
    known = convert.known_pairs(variables, str, Node, "a term of pymbolic")
    arrays: dict[tuple[str, int], Opaque] = {}

    def element(term: Any, *indices: Node) -> Expr:
        if not isinstance(term.aggregate, p.Variable):
            raise InputError(f"{shown(str(term))} is no element of a named array")
        key = term.aggregate.name, len(indices)
        if key not in arrays:
            arrays[key] = Opaque(*key) if array is None else array(*key)
        return arrays[key](*map(convert.integer_of, indices))

    def variable(term: Any) -> Node:
        return Var(term.name) if isinstance(term, p.Variable) else _refused(term)

    return convert.Converter(
        {**_FROM_PYMBOLIC, p.Subscript: element},
        var=variable,
        opaque=_refused,
        kind=_kind,
        operands=_operands,
        variables={p.Variable(name): target for name, target in known.items()},
    )


def exporter(names: Mapping[Var, str] | None = None) -> convert.Converter[Node, PymbolicExpression]:
    """The converter to pymbolic.

    Parameters
    ----------
    names: names of variables; any other one keeps its own. Opaque terms are elements of arrays of their name.

    Raises
    ------
    InputError: two variables or two opaque symbols of one name.
    """
    given = convert.known_pairs(names, Node, str, "a name")
    arrays: dict[tuple[str, int], Opaque] = {}

    def element(e: Node, *indices: Any) -> Any:
        """An opaque term as an element of an array."""
        assert isinstance(e.data, Opaque)
        convert.claim(arrays, (e.data.name, e.data.rank), e.data, e.data.name)
        return p.Subscript(p.Variable(e.data.name), indices if len(indices) > 1 else indices[0])

    owners: dict[str, Node] = {}
    for v, name in given.items():
        convert.claim(owners, name, v, name)
    return convert.Converter(
        _TO_PYMBOLIC,
        var=lambda leaf: p.Variable(leaf.data.name if isinstance(leaf.data, Opaque) else leaf.name),
        opaque=element,
        kind=convert.operation_of,
        operands=convert.arguments_of,
        variables={v: p.Variable(name) for v, name in given.items()},
    )


_children: Final[Callable[[Any], Sequence[Any]]] = attrgetter("children")
_operands: Final = convert.OperandsByClass(
    {
        **dict.fromkeys(
            (p.Sum, p.Product, p.Min, p.Max, p.BitwiseAnd, p.BitwiseOr, p.BitwiseXor, p.LogicalAnd, p.LogicalOr),
            _children,
        ),
        **dict.fromkeys((p.FloorDiv, p.Remainder, p.Quotient), attrgetter("numerator", "denominator")),
        **dict.fromkeys((p.LeftShift, p.RightShift), attrgetter("shiftee", "shift")),
        **dict.fromkeys((p.BitwiseNot, p.LogicalNot, p.CommonSubexpression), lambda term: (term.child,)),
        p.Power: attrgetter("base", "exponent"),
        p.Comparison: attrgetter("left", "right"),
        p.If: attrgetter("condition", "then", "else_"),
        p.Subscript: attrgetter("index_tuple"),
        p.Call: attrgetter("parameters"),
    }
)


def _kind(term: Any) -> type:
    """The class of a term; numbers of numpy are numbers too."""
    own = type(term)
    if own in _FROM_PYMBOLIC or isinstance(term, p.ExpressionNode):
        return own
    if own.__name__ in ("bool_", "bool"):
        return bool
    return int if isinstance(term, Integral) else own


def _refused(term: Any, *operands: Node) -> Node:
    try:
        text = shown(str(term))
    except NotImplementedError:  # a term that pymbolic does not print
        text = "a term"
    if isinstance(term, p.Quotient):
        raise InputError(f"{text} is a fraction: // is the integer quotient")
    raise InputError(f"no conversion of {text} of type {type(term).__name__}")


def _joined(op: Op, neutral: int | None = None) -> Callable[..., Node]:
    """The row of an n-ary operation, folded from the left; `neutral` is its value without operands."""

    def row(term: Any, *parts: Node) -> Node:
        if not parts:
            return _refused(term) if neutral is None else const(neutral)
        return folded_chain(op, [convert.integer_of(part) for part in parts])

    return row


def _of_integers(function: Callable[..., Node]) -> Callable[..., Node]:
    return lambda term, *parts: function(*map(convert.integer_of, parts))


def _of_truths(function: Callable[..., Cond]) -> Callable[..., Cond]:
    return lambda term, *parts: function(*map(convert.truth_of, parts))


_FUNCTIONS: Final[dict[str, Callable[..., Expr]]] = {"min": minimum, "max": maximum, "abs": abs}


def _called(term: Any, *parts: Node) -> Node:
    function = _FUNCTIONS.get(getattr(term.function, "name", ""))
    if function is None or (function is abs and len(parts) != 1):
        return _refused(term)
    return function(*map(convert.integer_of, parts))


_FROM_PYMBOLIC: Final[dict[Any, Callable[..., Node]]] = {
    bool: lambda term: truth(bool(term)),
    int: lambda term: const(int(term)),
    float: lambda term: const(arguments.as_int(term, "a number of pymbolic")),
    p.Sum: _joined(ops.ADD, 0),
    p.Product: _joined(ops.MUL, 1),
    p.Min: _joined(ops.MIN),
    p.Max: _joined(ops.MAX),
    p.FloorDiv: _of_integers(lambda a, b: a // b),
    p.Remainder: _of_integers(lambda a, b: a % b),
    p.Power: _of_integers(lambda a, b: a**b),
    p.LeftShift: _of_integers(lambda a, b: a << b),
    p.RightShift: _of_integers(lambda a, b: a >> b),
    p.BitwiseNot: _of_integers(lambda a: ~a),
    p.BitwiseAnd: _joined(ops.BITAND, -1),
    p.BitwiseOr: _joined(ops.BITOR, 0),
    p.BitwiseXor: _joined(ops.BITXOR, 0),
    p.Comparison: lambda term, a, b: compare(
        convert.SIGNS[term.operator], convert.integer_of(a), convert.integer_of(b)
    ),
    p.LogicalAnd: _of_truths(logical_and),
    p.LogicalOr: _of_truths(logical_or),
    p.LogicalNot: _of_truths(lambda a: ~a),
    p.If: convert.chosen,
    p.CommonSubexpression: lambda term, a: a,
    p.Call: _called,
}


def _comparison(sign: str) -> Callable[..., Any]:
    return lambda e, a, b: p.Comparison(a, sign, b)


def _truncated(a: Any, b: Any) -> Any:
    floor = p.FloorDiv(a, b)
    return p.If(p.Comparison(floor, "<", 0), -p.FloorDiv(-a, b), floor)


_TO_PYMBOLIC: Final[dict[Op, Callable[..., Any]]] = {
    ops.CONST: lambda e: e.value,
    ops.BOOL: lambda e: bool(e.data),
    **convert.by_operators(*convert.RING),
    ops.FLOORDIV: lambda e, a, b: p.FloorDiv(a, b),
    ops.FLOORMOD: lambda e, a, b: p.Remainder(a, b),
    ops.CEILDIV: lambda e, a, b: -p.FloorDiv(-a, b),
    ops.TRUNCDIV: lambda e, a, b: _truncated(a, b),
    ops.TRUNCMOD: lambda e, a, b: a - b * _truncated(a, b),
    ops.MIN: lambda e, a, b: p.Min((a, b)),
    ops.MAX: lambda e, a, b: p.Max((a, b)),
    ops.ABS: lambda e, a: p.Max((a, -a)),
    ops.BITAND: lambda e, a, b: p.BitwiseAnd((a, b)),
    ops.BITOR: lambda e, a, b: p.BitwiseOr((a, b)),
    ops.BITXOR: lambda e, a, b: p.BitwiseXor((a, b)),
    ops.BITNOT: lambda e, a: p.BitwiseNot(a),
    ops.SHL: lambda e, a, b: p.LeftShift(a, b),
    ops.SHR: lambda e, a, b: p.RightShift(a, b),
    ops.CAST: convert.wrapped,
    ops.SELECT: lambda e, c, a, b: p.If(c, a, b),
    ops.ASSERTING: lambda e, c, a: a,
    **{op: _comparison(sign) for sign, op in convert.SIGNS.items()},
    ops.AND: lambda e, a, b: p.LogicalAnd((a, b)),
    ops.OR: lambda e, a, b: p.LogicalOr((a, b)),
    ops.NOT: lambda e, a: p.LogicalNot(a),
}


__all__ = ["exporter", "from_pymbolic", "importer", "to_pymbolic"]

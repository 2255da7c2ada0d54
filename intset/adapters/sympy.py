"""sympy's integer expressions and conditions, both ways, and the questions that a shape environment asks.

The functions of PyTorch's symbolic shapes are converted by name, with their meaning there: `FloorDiv`, `CleanDiv`,
`CeilDiv`, `ModularIndexing`, `Mod`, `PythonMod`, `Where`, `Min`, `Max`, `PowByNatural`, `LShift`, `RShift`, `Identity`.
sympy simplifies while it builds, by rules for integer symbols: what comes back is equal, but may be written otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, Protocol, TypeAlias

import sympy

from intset.context import Context
from intset.domains.sets.base import Bounds
from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import as_int, listed, mapped
from intset.expr.build import (
    FALSE,
    TRUE,
    asserting,
    ceildiv,
    floordiv,
    floormod,
    logical_and,
    logical_or,
    maximum,
    minimum,
    select,
)
from intset.expr.convert import Converter
from intset.expr.node import Cond, Expr, Node, ShapeVar, Var, const
from intset.expr.ops import Op
from intset.expr.printer import shown
from intset.infinity import Infinity
from intset.prover.proof import Proof

Basic: TypeAlias = "sympy.Basic"
SympyFunctions: TypeAlias = "Mapping[str, Callable[..., Basic]]"


def from_sympy(term: Basic, variables: Mapping[Basic, Node] | None = None) -> Expr | Cond:
    """An integer expression or a condition of sympy.

    A symbol is taken for an integer, and for a size of at least 1 or 0 where sympy knows it positive or nonnegative.

    Parameters
    ----------
    variables: variables or expressions for symbols; any other symbol becomes a new variable of its name.

    Raises
    ------
    InputError: a function that is unknown, a fraction that is not rounded, or a symbol that is no integer.

    >>> k = sympy.Symbol("k", integer=True)
    >>> from_sympy(sympy.floor((k + 1) / 4))
    (k + 1) // 4
    """
    converted = importer(variables)(term)
    assert isinstance(converted, (Expr, Cond))
    return converted


def to_sympy(
    node: Expr | Cond, variables: Mapping[Var, Basic] | None = None, functions: SympyFunctions | None = None
) -> Basic:
    """An expression or a condition in sympy; the parameters are those of `exporter`."""
    return exporter(variables, functions)(node)


def importer(variables: Mapping[Basic, Node] | None = None) -> Converter[Basic, Node]:
    """The converter from sympy; `sources` maps variables back to symbols."""
    return Converter(
        _FROM_SYMPY, var=_variable, kind=_kind, operands=_operands, identity=lambda term: term, variables=variables
    )


def exporter(
    variables: Mapping[Var, Basic] | None = None, functions: SympyFunctions | None = None
) -> Converter[Node, Basic]:
    """The converter to sympy; `sources` maps symbols back to variables.

    Parameters
    ----------
    variables: symbols for variables; any other one becomes an integer symbol of its name and sign.
    functions: functions for "FloorDiv", "Mod" and "Where" in place of `floor`, `sympy.Mod` and `Piecewise`, such as
        PyTorch's classes of these names.
    """
    return Converter(_exported({} if functions is None else functions), var=_symbol, variables=variables)


class Environment:
    """Symbols with ranges and guards, and the questions of a compiler's shape environment, over sympy's terms.

    Guarantee: the answers are those of a `Context` with the same ranges and guards; "unknown" is `None`.

    Parameters
    ----------
    ranges: (least, greatest) value of each symbol, both included; `None` or sympy's infinities where unbounded.
    guards: conditions that hold.
    replacements: terms that stand for symbols; the range of such a symbol is a fact about its term.

    >>> s = sympy.Symbol("s", integer=True)
    >>> env = Environment({s: (2, 128)}, [sympy.Eq(sympy.Mod(s, 4), 0)])
    >>> env.guard_holds(s > 3), env.value_range(s * 2), env.simplify_index(sympy.Mod(s * 3, 4))
    (True, (8, 256), 0)
    """

    def __init__(
        self,
        ranges: Mapping[Basic, tuple[object, object]],
        guards: Iterable[Basic] = (),
        replacements: Mapping[Basic, Basic] | None = None,
    ) -> None:
        replaced = mapped({} if replacements is None else replacements, "replacements")
        sizes = {symbol: _ranged(symbol, ends) for symbol, ends in mapped(ranges, "ranges").items()}
        free = importer({symbol: size for symbol, size in sizes.items() if symbol not in replaced})
        terms = {symbol: free(_resolved(term, replaced)) for symbol, term in replaced.items()}
        self._convert = importer({**free.variables, **terms})
        facts = [self._condition(guard) for guard in listed(guards, "the guards")]
        for symbol, term in terms.items():
            if symbol in sizes and isinstance(term, Expr):
                low, high, _ = sizes[symbol].declared()
                facts += [term >= low] if low is not None else []
                facts += [term <= high] if high is not None else []
        self.context = Context({}, assume=facts)

    @classmethod
    def of(cls, shape_env: ShapeEnvLike) -> Environment:
        """The environment of a PyTorch `ShapeEnv`: its ranges, replacements, guards and divisibilities."""
        ranges = {symbol: (known.lower, known.upper) for symbol, known in shape_env.var_to_range.items()}
        divisible = [sympy.Eq(term, 0) for term in getattr(shape_env, "divisible", ())]
        return cls(ranges, [*divisible, *(guard.expr for guard in shape_env.guards)], shape_env.replacements)

    def _condition(self, term: Basic) -> Cond:
        converted = self._convert(term)
        if not isinstance(converted, Cond):
            raise InputError(f"a condition is expected, not {shown(term)}")
        return converted

    def _integer(self, term: Basic) -> Expr:
        converted = self._convert(sympy.sympify(term))
        if not isinstance(converted, Expr):
            raise InputError(f"an integer is expected, not {shown(term)}")
        return converted

    def _symbols(self) -> dict[Any, Basic]:
        """The symbols of all variables so far."""
        return {target: symbol for target, symbol in self._convert.sources.items() if isinstance(target, Var)}

    def prove(self, condition: Basic) -> Proof:
        """The proof or refutation of a condition."""
        return self.context.prove(self._condition(condition))

    def guard_holds(self, condition: Basic) -> bool | None:
        """True if the condition always holds, False if it never does, else `None`."""
        goal = self._condition(condition)
        if self.context.prove(goal):
            return True
        return False if self.context.prove(~goal) else None

    def value_range(self, term: Basic) -> tuple[Basic, Basic]:
        """The least and greatest value over all symbols, as sympy's numbers or infinities."""
        return _ends(self.context.bounds(self._integer(term), over="sizes"))

    def simplify_index(self, term: Basic, functions: SympyFunctions | None = None) -> Basic:
        """A term that is equal wherever `term` is defined, and never larger by this library's cost."""
        simple = self.context.simplify(self._integer(term))
        return exporter(self._symbols(), functions)(simple)

    def is_contiguous(self, sizes: Sequence[Basic], strides: Sequence[Basic]) -> bool | None:
        """Whether a tensor is contiguous in row-major order, as PyTorch defines it; `None` if that is not decided.

        Dimensions of extent 1 may have any stride, and so has every dimension of an empty tensor.
        """
        extents = [self._integer(size) for size in sizes]
        steps = [self._integer(stride) for stride in strides]
        if len(extents) != len(steps):
            raise InputError(f"{len(extents)} sizes have {len(extents)} strides, not {len(steps)}")
        expected: Expr = const(1)
        parts: list[Cond] = []
        for extent, step in zip(reversed(extents), reversed(steps), strict=True):
            parts.append(extent.eq(1) | step.eq(expected))
            expected = expected * maximum(extent, 1)
        goal = logical_or(logical_and(*parts), *(extent.eq(0) for extent in extents))
        return True if self.context.prove(goal) else False if self.context.prove(~goal) else None

    def __repr__(self) -> str:
        return f"<Environment of {len(self._convert.variables)} symbols and {len(self.context.facts)} facts>"


def _resolved(term: Any, replaced: Mapping[Any, Any]) -> Any:
    """A term without symbols that are replaced."""
    for _ in replaced:
        if not any(symbol in replaced for symbol in term.free_symbols):
            return term
        term = term.xreplace(dict(replaced))
    if any(symbol in replaced for symbol in term.free_symbols):
        raise InputError(f"the replacements go in a circle: {shown(term)}")
    return term


class ValueRangeLike(Protocol):
    """A range of PyTorch's shape environment."""

    @property
    def lower(self) -> object: ...
    @property
    def upper(self) -> object: ...


class GuardLike(Protocol):
    """A guard of PyTorch's shape environment."""

    @property
    def expr(self) -> Basic: ...


class ShapeEnvLike(Protocol):
    """The parts of PyTorch's `ShapeEnv` that `Environment.of` reads."""

    @property
    def var_to_range(self) -> Mapping[Any, ValueRangeLike]: ...
    @property
    def replacements(self) -> Mapping[Any, Any]: ...
    @property
    def guards(self) -> Sequence[GuardLike]: ...


def _ends(bounds: Bounds) -> tuple[Basic, Basic]:
    low, high = bounds
    return _end(low), _end(high)


def _end(end: Expr | Infinity) -> Basic:
    if isinstance(end, Infinity):
        return sympy.oo if end.sign > 0 else -sympy.oo
    return to_sympy(end)


def _ranged(symbol: Basic, ends: tuple[object, object]) -> Var:
    low, high = (_limit(end, f"the range of {symbol}") for end in ends)
    return ShapeVar(str(symbol), low, high)


_FAR: Final = 2**62  # PyTorch's stand-ins for infinity are near 2**63


def _limit(end: Any, what: str) -> int | None:
    if end is None or end in (sympy.oo, -sympy.oo) or not getattr(end, "is_finite", True) or abs(end) >= _FAR:
        return None
    return as_int(int(end) if getattr(end, "is_Integer", False) else end, what)


def _kind(term: Any) -> object:
    if term.is_Integer:
        return "Integer"
    return "Symbol" if term.is_Symbol else term.func.__name__


def _operands(term: Any) -> Sequence[Any]:
    """The operands of a term: numerator and denominator of `floor`, values and conditions of `Piecewise` in turn."""
    name = term.func.__name__
    if name in ("floor", "ceiling"):
        return tuple(sympy.fraction(sympy.together(term.args[0])))
    if name == "Piecewise":
        return tuple(part for pair in term.args for part in pair)
    if name == "Pow":
        return list(term.args[:1] if term.args[1].is_Integer else term.args)
    args: tuple[Any, ...] = term.args
    return args


def _variable(term: Any) -> Var:
    if not term.is_Symbol or term.is_integer is False or term.is_Boolean:
        raise InputError(f"{shown(term)} is neither an integer nor an integer symbol")
    if term.is_positive or term.is_nonnegative:
        return ShapeVar(term.name, 1 if term.is_positive else 0)
    return Var(term.name)


def _power(term: Any, base: Expr, *exponent: Expr) -> Expr:
    if exponent:
        if term.args[0] == 2:
            return const(1) << exponent[0]
        raise InputError(f"a power with the exponent {shown(term.args[1])} has no counterpart")
    if term.args[1] < 0:
        raise InputError(f"{shown(term)} is a fraction: write floor, FloorDiv or CleanDiv")
    return base ** int(term.args[1])


def _natural_power(term: Any, base: Expr, exponent: Expr) -> Expr:
    if exponent.is_const:
        return base**exponent.value
    if base.is_const and base.value == 2:
        return const(1) << exponent
    raise InputError(f"a power with the exponent {shown(exponent)} has no counterpart")


def _pieces(term: Any, *parts: Any) -> Expr:
    values, conditions = parts[::2], parts[1::2]
    value: Expr = values[-1]
    if conditions[-1] is not TRUE:
        value = asserting(logical_or(*conditions), value)
    for piece, condition in zip(reversed(values[:-1]), reversed(conditions[:-1]), strict=True):
        value = select(condition, piece, value)
    return value


def _equal(term: Any, a: Node, b: Node) -> Cond:
    if isinstance(a, Cond) and isinstance(b, Cond):
        return (a & b) | (~a & ~b)
    assert isinstance(a, Expr) and isinstance(b, Expr)
    return a.eq(b)


_FROM_SYMPY: Final[dict[str, Callable[..., Node]]] = {
    "Integer": lambda term: const(int(term)),
    "BooleanTrue": lambda term: TRUE,
    "BooleanFalse": lambda term: FALSE,
    "Add": lambda term, *parts: reduce(lambda a, b: a + b, parts),
    "Mul": lambda term, *parts: reduce(lambda a, b: a * b, parts),
    "Pow": _power,
    "PowByNatural": _natural_power,
    "floor": lambda term, a, b: floordiv(a, b),
    "ceiling": lambda term, a, b: ceildiv(a, b),
    "Mod": lambda term, a, b: floormod(a, b),
    "PythonMod": lambda term, a, b: floormod(a, b),
    "FloorDiv": lambda term, a, b: floordiv(a, b),
    "CleanDiv": lambda term, a, b: floordiv(a, b),
    "CeilDiv": lambda term, a, b: ceildiv(a, b),
    "ModularIndexing": lambda term, a, b, c: a // b % c,
    "Identity": lambda term, a: a,
    "LShift": lambda term, a, b: a << b,
    "RShift": lambda term, a, b: a >> b,
    "Min": lambda term, *parts: minimum(*parts),
    "Max": lambda term, *parts: maximum(*parts),
    "Abs": lambda term, a: abs(a),
    "sign": lambda term, a: select(a > 0, 1, select(a < 0, -1, 0)),
    "Where": lambda term, c, a, b: select(c, a, b),
    "ITE": lambda term, c, a, b: (c & a) | (~c & b),
    "Piecewise": _pieces,
    "StrictLessThan": lambda term, a, b: a < b,
    "LessThan": lambda term, a, b: a <= b,
    "StrictGreaterThan": lambda term, a, b: a > b,
    "GreaterThan": lambda term, a, b: a >= b,
    "Equality": _equal,
    "Unequality": lambda term, a, b: ~_equal(term, a, b) if isinstance(a, Cond) else a.ne(b),
    "And": lambda term, *parts: logical_and(*parts),
    "Or": lambda term, *parts: logical_or(*parts),
    "Not": lambda term, a: ~a,
    "Xor": lambda term, *parts: reduce(lambda a, b: ~_equal(term, a, b), parts),
    "Implies": lambda term, a, b: ~a | b,
}


def _symbol(var: Any) -> Basic:
    low, _, _ = var.declared()
    sign = {} if low is None or low < 0 else {"positive": True} if low > 0 else {"nonnegative": True}
    return sympy.Symbol(var.name, integer=True, **sign)


def _exported(functions: SympyFunctions) -> dict[Op, Callable[..., Basic]]:
    own: dict[str, Callable[..., Basic]] = {
        "FloorDiv": lambda a, b: sympy.floor(a / b),
        "Mod": sympy.Mod,
        "Where": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
    }
    quotient, remainder, choice = (functions.get(name, own[name]) for name in own)

    def truncated(a: Any, b: Any) -> Any:
        return sympy.sign(a) * sympy.sign(b) * sympy.floor(sympy.Abs(a) / sympy.Abs(b))

    return {
        ops.CONST: lambda e: sympy.Integer(e.value),
        ops.BOOL: lambda e: sympy.true if e.data else sympy.false,
        ops.ADD: lambda e, a, b: a + b,
        ops.SUB: lambda e, a, b: a - b,
        ops.MUL: lambda e, a, b: a * b,
        ops.NEG: lambda e, a: -a,
        ops.FLOORDIV: lambda e, a, b: quotient(a, b),
        ops.FLOORMOD: lambda e, a, b: remainder(a, b),
        ops.CEILDIV: lambda e, a, b: -quotient(-a, b) if "FloorDiv" in functions else sympy.ceiling(a / b),
        ops.TRUNCDIV: lambda e, a, b: truncated(a, b),
        ops.TRUNCMOD: lambda e, a, b: a - b * truncated(a, b),
        ops.MIN: lambda e, a, b: sympy.Min(a, b),
        ops.MAX: lambda e, a, b: sympy.Max(a, b),
        ops.ABS: lambda e, a: sympy.Abs(a),
        ops.SHL: lambda e, a, b: a * 2**b,
        ops.SHR: lambda e, a, b: quotient(a, 2**b),
        ops.SELECT: lambda e, c, a, b: choice(c, a, b),
        ops.ASSERTING: lambda e, c, a: a,
        ops.LT: lambda e, a, b: sympy.Lt(a, b),
        ops.LE: lambda e, a, b: sympy.Le(a, b),
        ops.GT: lambda e, a, b: sympy.Gt(a, b),
        ops.GE: lambda e, a, b: sympy.Ge(a, b),
        ops.EQ: lambda e, a, b: sympy.Eq(a, b),
        ops.NE: lambda e, a, b: sympy.Ne(a, b),
        ops.AND: lambda e, a, b: sympy.And(a, b),
        ops.OR: lambda e, a, b: sympy.Or(a, b),
        ops.NOT: lambda e, a: sympy.Not(a),
    }


__all__ = ["Environment", "exporter", "from_sympy", "importer", "to_sympy"]

"""sympy's integer expressions and conditions, both ways, and the questions that a shape environment asks.

The functions of PyTorch's symbolic shapes are converted by name, with their meaning there: `FloorDiv`, `CleanDiv`,
`CeilDiv`, `ModularIndexing`, `Mod`, `PythonMod`, `Where`, `Min`, `Max`, `PowByNatural`, `LShift`, `RShift`, `Identity`,
`TruncToInt` and the like of `IntTrueDiv`, taken for exact quotients. sympy simplifies while it builds, by rules for
integer symbols: what comes back is equal, but may be written otherwise.

A term that may not be a whole number is a `RationalTerm` until it is rounded, which gives one integer division.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partialmethod, reduce
from math import lcm
from operator import add, mul
from typing import Any, Final, NoReturn, TypeVar

import sympy

from intset.adapters.decisions import Decisions
from intset.adapters.torch import Basic, ShapeEnvLike, SympyFunctions, known_shapes, ranged_symbol
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, Node, ShapeVar, Var, arguments, as_expr, build, const, dag, ops, shown
from intset.expr.convert import RING, Converter, arguments_of, by_operators, known_pairs, operation_of
from intset.expr.node import compare
from intset.expr.ops import Op
from intset.expr.range import conditions_between
from intset.prover.proof import Proof
from intset.simplify.engine import cost

K = TypeVar("K", Expr, Cond)


class RationalTerm(dag.Guest):
    """A numerator over a positive number times expressions; only sums, products, comparisons and rounding take it."""

    __slots__ = ("divisors", "number", "numerator")

    def __init__(self, numerator: Expr, number: int, divisors: tuple[Expr, ...] = ()) -> None:
        self.numerator, self.number, self.divisors = numerator, number, divisors

    def __add__(self, other: Expr | RationalTerm) -> RationalTerm:
        return _added(self, other if isinstance(other, RationalTerm) else RationalTerm(other, 1))

    def __radd__(self, other: Expr) -> RationalTerm:
        return _added(RationalTerm(other, 1), self)

    def __mul__(self, other: Expr | RationalTerm) -> RationalTerm:
        b = other if isinstance(other, RationalTerm) else RationalTerm(other, 1)
        return RationalTerm(
            _product(self.numerator, b.numerator), self.number * b.number, (*self.divisors, *b.divisors)
        )

    def __rmul__(self, other: Expr) -> RationalTerm:
        return RationalTerm(other, 1) * self

    def divisor(self) -> Expr:
        """The divisor as an expression."""
        return reduce(_product, self.divisors, const(self.number))

    def __repr__(self) -> str:
        sides = (shown(self.numerator), shown(self.divisor()))
        return "/".join(side if side.isalnum() else f"({side})" for side in sides)

    def _refuse(self, *_: object) -> Any:
        no_integer(self)

    def compared(self, op: Op, other: Any) -> Cond:
        """A comparison, by multiplying both sides; divisors that are expressions may be negative."""
        b = other if isinstance(other, RationalTerm) else RationalTerm(as_expr(other), 1)
        for side in (self, b):
            if side.divisors:
                no_integer(side)
        return compare(op, _product(self.numerator, const(b.number)), _product(b.numerator, const(self.number)))

    __lt__, __le__ = partialmethod(compared, ops.LT), partialmethod(compared, ops.LE)
    __gt__, __ge__ = partialmethod(compared, ops.GT), partialmethod(compared, ops.GE)
    __and__ = __or__ = __xor__ = __lshift__ = __rshift__ = _refuse
    __rlshift__ = __rrshift__ = __pow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __abs__ = _refuse
    __rand__ = __ror__ = __rxor__ = __invert__ = _refuse


def no_integer(term: object) -> NoReturn:
    """Refuse a fraction."""
    raise InputError(f"{shown(term)} is a fraction: write floor, FloorDiv or CleanDiv")


def _product(a: Expr, b: Expr) -> Expr:
    one = const(1)
    return b if a is one else a if b is one else a * b


def _added(a: RationalTerm, b: RationalTerm) -> RationalTerm:
    """The sum over the least common divisor; expressions that divide both sides count once."""
    number, divisors = lcm(a.number, b.number), list(a.divisors)
    own = list(a.divisors)
    for divisor in b.divisors:
        if divisor in own:
            own.remove(divisor)
        else:
            divisors.append(divisor)
    sides = []
    for part in (a, b):
        missing = list(divisors)
        for divisor in part.divisors:
            missing.remove(divisor)
        sides.append(_product(part.numerator, reduce(_product, missing, const(number // part.number))))
    return RationalTerm(sides[0] + sides[1], number, tuple(divisors))


def true_quotient(a: Expr, b: Expr) -> RationalTerm:
    """The quotient that is not rounded yet."""
    if b.is_const and b.value:
        return RationalTerm(a if b.value > 0 else -a, abs(b.value))
    return RationalTerm(a, 1, (b,))


def rounded(function: Callable[[Expr, Expr], Expr]) -> Callable[..., Expr]:
    """The row of a function that rounds: an integer is itself."""

    def row(term: Any, a: Expr | RationalTerm) -> Expr:
        return function(a.numerator, a.divisor()) if isinstance(a, RationalTerm) else a

    return row


def from_sympy(term: Basic, variables: Mapping[Basic, Node] | None = None) -> Expr | Cond:
    """An integer expression or a condition of sympy.

    A symbol counts as an integer unless sympy refutes it. Its variable declares a known sign and evenness.

    Parameters
    ----------
    variables: variables or expressions for symbols; any other symbol becomes a new variable of its name.

    Raises
    ------
    InputError: an unknown function, a fraction without rounding, or a non-integer symbol.

    >>> k = sympy.Symbol("k", integer=True)
    >>> from_sympy(sympy.floor((k + 1) / 4))
    (1 + k) // 4
    """
    converted = importer(variables)(arguments.of_kind(sympy.Basic, term, "what is converted", "a term of sympy"))
    assert isinstance(converted, (Expr, Cond))
    return converted


def to_sympy(
    node: Expr | Cond, variables: Mapping[Var, Basic] | None = None, functions: SympyFunctions | None = None
) -> Basic:
    """An expression or a condition in sympy; the parameters are those of `exporter`."""
    return exporter(variables, functions)(
        arguments.of_kind(Node, node, "what is converted", "an expression or a condition")
    )


def importer(
    variables: Mapping[Basic, Node] | None = None, replacements: Mapping[Basic, Basic] | None = None
) -> Converter[Basic, Node]:
    """The converter from sympy; `sources` maps variables back to symbols.

    Parameters
    ----------
    replacements: terms that stand for symbols, wherever these occur; several symbols may have the same term.
    """
    resolved = _resolved(arguments.mapped({} if replacements is None else replacements, "replacements"))
    convert = SympyReader(
        _FROM_SYMPY,
        var=_variable,
        kind=type,
        operands=arguments_of,
        identity=(lambda term: id(resolved.get(term, term))) if resolved else id,
        variables=known_pairs(variables, sympy.Basic, Node, "a term of sympy"),
    )
    for term in resolved.values():
        convert(term)
    return convert


def exporter(
    variables: Mapping[Var, Basic] | None = None, functions: SympyFunctions | None = None
) -> Converter[Node, Basic]:
    """The converter to sympy; `sources` maps symbols back to variables.

    Parameters
    ----------
    variables: symbols for variables; any other one becomes an integer symbol of its name and sign.
    functions: functions for "FloorDiv", "CeilDiv", "Mod", "Where", "Min", "Max" and "PowByNatural" in place of sympy's
        `floor`, `ceiling`, `Mod`, `Piecewise`, `Min`, `Max` and `**`; PyTorch's are `torch.torch_names()`.
    """
    return Converter(
        _exported({} if functions is None else functions),
        var=_symbol,
        kind=operation_of,
        operands=arguments_of,
        variables=known_pairs(variables, Node, sympy.Basic, "a term of sympy"),
    )


def _symbolic_ends(symbol: Any, ends: Any) -> tuple[Any, list[Any]]:
    """The range without symbolic ends, and these ends as conditions."""
    if not isinstance(ends, Sequence) or len(ends) != 2:
        return ends, []
    low, high = (end if getattr(end, "free_symbols", ()) else None for end in ends)
    stated = [*([] if low is None else [low <= symbol]), *([] if high is None else [symbol <= high])]
    return (ends[0] if low is None else None, ends[1] if high is None else None), stated


class Environment:
    """Symbols with ranges and guards, and the questions of a compiler's shape environment, over sympy's terms.

    Guarantee: the answers match a `Context` with the same ranges and guards; "unknown" is `None`.

    Parameters
    ----------
    ranges: (least, greatest) value of each symbol, both included; `None` or sympy's infinities where unbounded. An end
        over other symbols, `(0, s - 1)`, is a guard.
    guards: conditions that hold.
    replacements: terms that stand for symbols; this symbol's range states a fact about the term.
    functions: the functions that answers are written with, as for `exporter`.
    infinity: what stands for an end that is unbounded.

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
        *,
        functions: SympyFunctions | None = None,
        infinity: Basic = sympy.oo,
    ) -> None:
        self.left_out: tuple[Basic, ...] = ()
        self._functions, self._infinity = functions, infinity
        sizes: dict[Basic, Var] = {}
        stated = [*arguments.listed(guards, "the guards")]
        for symbol, ends in arguments.mapped(ranges, "the ranges").items():
            numbers, over_symbols = _symbolic_ends(symbol, ends)
            sizes[symbol] = ranged_symbol(symbol, numbers)
            stated += over_symbols
        replaced = arguments.mapped({} if replacements is None else replacements, "replacements")
        free = {symbol: size for symbol, size in sizes.items() if symbol not in replaced}
        self._convert, self._replaced = importer(free, replaced), len(replaced)
        facts = [self._condition(guard) for guard in stated]
        for symbol in replaced:
            term = self._convert(symbol)
            if symbol in sizes and isinstance(term, Expr):
                low, high, _ = sizes[symbol].declared()
                facts += conditions_between(term, low, high)
        self.context = Context({}, assume=facts)
        self._decide = Decisions(self.context)
        self._quantified = Context(dict.fromkeys(self._symbols()), assume=facts)

    @classmethod
    def of(cls, shape_env: ShapeEnvLike) -> Environment:
        """The environment of a PyTorch `ShapeEnv`: its ranges, replacements, divisibilities, guards and assertions.

        Answers are written with PyTorch's functions and its `int_oo`. Guarantee: each fact is one of `shape_env`. Those
        without a counterpart, such as ranges and guards of floating point or of nested tensors, are in `left_out`; what
        `shape_env` learns later is not known here.
        """
        ranges, stated, replaced, hints, functions, infinity = known_shapes(shape_env)
        terms, _ = _convertible(replaced.values())
        guards, left_out = _convertible(stated)
        kept = {symbol: term for symbol, term in replaced.items() if term in terms}
        env = cls(ranges, guards, kept, functions=functions, infinity=infinity)
        env.left_out = left_out
        variables = env._convert.variables
        point: dict[Expr, int] = {
            v: hint for symbol, hint in hints.items() if isinstance(v := variables.get(symbol), Var)
        }
        env._decide = Decisions(env.context, point)
        return env

    def _condition(self, term: Basic | bool) -> Cond:
        return self._converted(Cond, term, "a condition")

    def _integer(self, term: Basic | int) -> Expr:
        return self._converted(Expr, term, "an integer")

    def _converted(self, kind: type[K], term: Basic | int, wanted: str) -> K:
        converted = self._convert(_sympified(term))
        if not isinstance(converted, kind):
            raise InputError(f"{wanted} is expected, not {shown(term)}")
        return converted

    def _symbols(self) -> dict[Any, Basic]:
        """The symbols of all variables so far."""
        return {target: symbol for target, symbol in self._convert.sources.items() if isinstance(target, Var)}

    def prove(self, condition: Basic | bool) -> Proof:
        """The proof or refutation of a condition."""
        return self.context.prove(self._condition(condition))

    def guard_holds(self, condition: Basic | bool) -> bool | None:
        """True if the condition always holds, False if it never does, else `None`."""
        return self._decide(self._condition(condition))

    def value_range(self, term: Basic | int) -> tuple[Basic, Basic]:
        """The least and greatest value over all symbols, as sympy's numbers or infinities."""
        bounds = self._quantified.bounds(self._integer(term), over="sizes")
        write = exporter(self._symbols(), self._functions)
        low, high = (self._infinity * end.sign if isinstance(end, Infinity) else write(end) for end in bounds)
        return low, high

    def simplify_index(self, term: Basic | int, functions: SympyFunctions | None = None) -> Basic:
        """A term that is equal wherever `term` is defined, and never larger by this library's cost."""
        simple = self.context.simplify(self._integer(term))
        solved = self.context.frame.solved
        if solved is not None and any(v in solved[1] for v in simple.free_vars()):
            other = self.context.simplify(simple.substitute(solved[1]))  # with sizes that guards equate with terms
            simple = other if cost(other) < cost(simple) else simple
        return exporter(self._symbols(), self._functions if functions is None else functions)(simple)

    def is_contiguous(self, sizes: Sequence[Basic | int], strides: Sequence[Basic | int]) -> bool | None:
        """Whether a tensor is contiguous in row-major order, as PyTorch defines it; `None` if that is not decided.

        Strides of extent-1 dimensions and of empty tensors are ignored.
        """
        extents = [self._integer(size) for size in arguments.listed(sizes, "the sizes")]
        steps = [self._integer(stride) for stride in arguments.listed(strides, "the strides")]
        if len(extents) != len(steps):
            raise InputError(f"{len(extents)} sizes have {len(extents)} strides, not {len(steps)}")
        expected: Expr = const(1)
        parts: list[Cond] = []
        for extent, step in zip(reversed(extents), reversed(steps), strict=True):
            parts.append(extent.eq(1) | step.eq(expected))
            expected = expected * build.maximum(extent, 1)
        goal = build.logical_or(build.logical_and(*parts), *(extent.eq(0) for extent in extents))
        return self._decide(goal)

    def __repr__(self) -> str:
        symbols = len(self._convert.variables) + self._replaced
        return f"<Environment of {symbols} symbols and {len(self.context.facts)} facts>"


def _sympified(term: object) -> Any:
    """A term of sympy, or that of a number or a truth value; never a text, which sympy would evaluate."""
    if isinstance(term, sympy.Basic):
        return term
    try:
        return sympy.sympify(term, strict=True)
    except sympy.SympifyError:
        raise arguments.refusal("what is asked", "a term of sympy", term) from None


def _convertible(terms: Iterable[Any]) -> tuple[list[Any], tuple[Any, ...]]:
    """Split terms into converted ones and terms without counterpart."""
    convert = importer()
    known: list[Any] = []
    others: list[Any] = []
    for term in terms:
        try:
            convert(term)
        except InputError:
            others.append(term)
        else:
            known.append(term)
    return known, tuple(others)


def _resolved(replaced: Mapping[Any, Any]) -> dict[Any, Any]:
    """The replacements with terms that mention no replaced symbol."""
    resolved = dict(replaced)
    for rounds in range(len(replaced) + 1):
        waiting = {symbol: term for symbol, term in resolved.items() if not term.free_symbols.isdisjoint(resolved)}
        if waiting and rounds == len(replaced):
            raise InputError(f"the replacements go in a circle: {shown(next(iter(waiting.values())))}")
        resolved |= {symbol: term.xreplace(resolved) for symbol, term in waiting.items()}
    return resolved


class SympyReader(Converter[Basic, Node]):
    """The converter from sympy; a fraction under a rounding function is a `RationalTerm` on the way."""

    def __call__(self, root: Basic) -> Node:
        """The converted term."""
        converted = super().__call__(root)
        return converted if isinstance(converted, Node) else no_integer(converted)


def _variable(term: Any) -> Var:
    if not term.is_Symbol or term.is_integer is False or term.is_Boolean:
        raise InputError(f"{shown(term)} is neither an integer nor an integer symbol")
    low = 1 if term.is_positive else 0 if term.is_nonnegative else None
    high = -1 if term.is_negative else 0 if term.is_nonpositive else None
    if low is None and high is None and not term.is_even:
        return Var(term.name)
    return ShapeVar(term.name, low, high, 2 if term.is_even else 1)


def _power(term: Any, base: Expr, exponent: Expr | RationalTerm) -> Expr | RationalTerm:
    if isinstance(exponent, RationalTerm) or not exponent.is_const:
        if isinstance(exponent, Expr) and term.args[0] == 2:
            return const(1) << exponent
        raise InputError(f"{shown(term)}: a power with the exponent {shown(term.args[1])} has no counterpart")
    if exponent.value < 0:
        return RationalTerm(const(1), 1, (base,) * -exponent.value)
    return base**exponent.value


def _pieces(term: Any, *pairs: tuple[Expr, Cond]) -> Expr:
    values, conditions = zip(*pairs, strict=True)
    value: Expr = values[-1]
    if conditions[-1] is not build.TRUE:
        value = build.asserting(build.logical_or(*conditions), value)
    for piece, condition in zip(reversed(values[:-1]), reversed(conditions[:-1]), strict=True):
        value = build.select(condition, piece, value)
    return value


def _equal(term: Any, a: Node | RationalTerm, b: Node | RationalTerm) -> Cond:
    if isinstance(a, Cond) and isinstance(b, Cond):
        return (a & b) | (~a & ~b)
    if isinstance(b, RationalTerm):
        a, b = b, a
    if isinstance(a, RationalTerm):
        return a.compared(ops.EQ, b)
    return as_expr(a).eq(as_expr(b))


def _to_even(a: Expr, b: Expr) -> Expr:
    """The quotient rounded to the nearest integer, halves to the even one."""
    near = (2 * a + b) // (2 * b)
    return near - build.select(((2 * a + b) % (2 * b)).eq(0), near % 2, 0)


# Some rows consume or return a `RationalTerm`; each piece of a `Piecewise` is a pair.
_FROM_SYMPY: Final[dict[str, Callable[..., Any]]] = {
    "Integer": lambda term: const(term.p),
    "Rational": lambda term: RationalTerm(const(term.p), term.q),
    "BooleanTrue": lambda term: build.TRUE,
    "BooleanFalse": lambda term: build.FALSE,
    "Add": lambda term, *parts: reduce(add, parts),
    "Mul": lambda term, *parts: reduce(mul, parts),
    **dict.fromkeys(("Pow", "PowByNatural"), _power),
    **dict.fromkeys(("IntTrueDiv", "FloatTrueDiv"), lambda term, a, b: true_quotient(a, b)),
    **dict.fromkeys(("floor", "FloorToInt"), rounded(build.floordiv)),
    **dict.fromkeys(("ceiling", "CeilToInt"), rounded(build.ceildiv)),
    "TruncToInt": rounded(build.truncdiv),
    "RoundToInt": rounded(_to_even),
    "Mod": lambda term, a, b: build.floormod(a, b),
    "PythonMod": lambda term, a, b: build.floormod(a, b),
    "FloorDiv": lambda term, a, b: build.floordiv(a, b),
    "CleanDiv": lambda term, a, b: build.floordiv(a, b),
    "CeilDiv": lambda term, a, b: build.ceildiv(a, b),
    "ModularIndexing": lambda term, a, b, c: a // b % c,
    "Identity": lambda term, a: a,
    "BitwiseFn_bitwise_and": lambda term, a, b: a & b,
    "BitwiseFn_bitwise_or": lambda term, a, b: a | b,
    "BitwiseFn_bitwise_xor": lambda term, a, b: a ^ b,
    "LShift": lambda term, a, b: a << b,
    "RShift": lambda term, a, b: a >> b,
    "Min": lambda term, *parts: build.minimum(*parts),
    "Max": lambda term, *parts: build.maximum(*parts),
    "Abs": lambda term, a: abs(a),
    "sign": lambda term, a: build.select(a > 0, 1, build.select(a < 0, -1, 0)),
    "Where": lambda term, c, a, b: build.select(c, a, b),
    "ITE": lambda term, c, a, b: (c & a) | (~c & b),
    "Piecewise": _pieces,
    "ExprCondPair": lambda term, value, condition: (value, condition),
    "StrictLessThan": lambda term, a, b: a < b,
    "LessThan": lambda term, a, b: a <= b,
    "StrictGreaterThan": lambda term, a, b: a > b,
    "GreaterThan": lambda term, a, b: a >= b,
    "Equality": _equal,
    "Unequality": lambda term, a, b: a.ne(b) if isinstance(a, Expr) and isinstance(b, Expr) else ~_equal(term, a, b),
    "And": lambda term, *parts: build.logical_and(*parts),
    "Or": lambda term, *parts: build.logical_or(*parts),
    "Not": lambda term, a: ~a,
    "Xor": lambda term, *parts: reduce(lambda a, b: ~_equal(term, a, b), parts),
    "Equivalent": lambda term, *parts: build.logical_or(build.logical_and(*parts), ~build.logical_or(*parts)),
    "Implies": lambda term, a, b: ~a | b,
}


def _symbol(var: Any) -> Basic:
    low, high, step = var.declared()
    known = {} if low is None or low < 0 else {"positive": True} if low > 0 else {"nonnegative": True}
    known |= {} if high is None or high > 0 else {"negative": True} if high < 0 else {"nonpositive": True}
    return sympy.Symbol(var.name, integer=True, **known, **({"even": True} if step % 2 == 0 else {}))


def _exported(functions: SympyFunctions) -> dict[Op, Callable[..., Basic]]:
    own: dict[str, Callable[..., Basic]] = {
        "FloorDiv": lambda a, b: sympy.floor(a / b),
        "CeilDiv": lambda a, b: sympy.ceiling(a / b),
        "Mod": sympy.Mod,
        "Where": lambda c, a, b: sympy.Piecewise((a, c), (b, True)),
        "Min": sympy.Min,
        "Max": sympy.Max,
        "PowByNatural": lambda a, b: a**b,
    }
    if "FloorDiv" in functions:
        own["CeilDiv"] = lambda a, b: -functions["FloorDiv"](-a, b)
    named = {**own, **functions}
    quotient = named["FloorDiv"]

    def truncated(a: Any, b: Any) -> Any:
        return sympy.sign(a) * sympy.sign(b) * sympy.floor(sympy.Abs(a) / sympy.Abs(b))

    return {
        ops.CONST: lambda e: sympy.Integer(e.value),
        ops.BOOL: lambda e: sympy.true if e.data else sympy.false,
        **by_operators(*RING),
        ops.FLOORDIV: lambda e, a, b: quotient(a, b),
        ops.FLOORMOD: lambda e, a, b: named["Mod"](a, b),
        ops.CEILDIV: lambda e, a, b: named["CeilDiv"](a, b),
        ops.TRUNCDIV: lambda e, a, b: truncated(a, b),
        ops.TRUNCMOD: lambda e, a, b: a - b * truncated(a, b),
        ops.MIN: lambda e, a, b: named["Min"](a, b),
        ops.MAX: lambda e, a, b: named["Max"](a, b),
        ops.ABS: lambda e, a: sympy.Abs(a),
        ops.SHL: lambda e, a, b: a * named["PowByNatural"](sympy.Integer(2), b),
        ops.SHR: lambda e, a, b: quotient(a, named["PowByNatural"](sympy.Integer(2), b)),
        ops.SELECT: lambda e, c, a, b: named["Where"](c, a, b),
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

"""JAX's symbolic dimensions and the constraints of their scope: both ways, decisions and bounds.

A dimension is an integer expression of variables that are at least 1, with `floordiv`, `mod`, `max` and `min`, whose
meaning is Python's. JAX compares dimensions while a program is traced, and raises where its bounds do not decide:
`SymbolicDimensions` answers the same comparisons by proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import repeat
from numbers import Integral
from operator import add, attrgetter, mul
from typing import Any, Final, Protocol, TypeAlias

import jax.export

from intset.adapters.decisions import Decisions
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Infinity, ShapeVar, Var, arguments, as_expr, const, convert, ops, shown
from intset.expr.build import maximum, minimum
from intset.expr.node import compare
from intset.expr.ops import Op
from intset.prover.proof import Proof


class SymbolicDimension(Protocol):
    """A symbolic dimension of JAX, an element of what `jax.export.symbolic_shape` returns."""

    @property
    def scope(self) -> jax.export.SymbolicScope: ...


Dimension: TypeAlias = "int | SymbolicDimension"


def from_jax(dimension: Dimension, variables: Mapping[str, Expr] | None = None) -> Expr:
    """A dimension as an expression.

    Parameters
    ----------
    variables: variables or expressions by name; any unknown name becomes a `ShapeVar` of at least 1.

    Raises
    ------
    InputError: not a dimension.

    >>> a, b = jax.export.symbolic_shape("a, b")
    >>> from_jax((a * 4 + b) // 2)
    (b + a * 4) // 2
    """
    return importer(variables)(dimension)


def to_jax(e: Expr, scope: jax.export.SymbolicScope | None = None) -> Dimension:
    """An expression as a dimension of a scope, by default a new one; `exporter` converts many for one scope.

    Guarantee: equal wherever the variables are at least 1 and satisfy the constraints of the scope.

    Raises
    ------
    InputError: an operation lacks a counterpart, or JAX rejects a name.
    """
    dimension: Dimension = exporter(scope)(as_expr(e, "the expression"))
    return dimension


def importer(variables: Mapping[str, Expr] | None = None) -> convert.Converter[Any, Expr]:
    """The converter from dimensions of one scope; parameters as for `from_jax`."""
    known = convert.known_pairs(variables, str, Expr, "an expression")
    scopes: list[object] = []

    def factor(term: Any, *operands: Expr) -> Expr:
        if term.var is None:
            return _OPERATIONS[term.operation](*operands)
        if term.var not in known:
            known[term.var] = ShapeVar(term.var, 1)
        return known[term.var]

    def total(term: Any, *parts: Expr) -> Expr:
        if scopes and scopes[0] is not term.scope:
            raise InputError(f"{shown(term)} is a dimension of another scope")
        scopes[:] = [term.scope]
        waiting = iter(parts)
        return reduce(add, [_term(weight, _factors(own), waiting) for own, weight in _terms(term)])

    table: dict[object, Callable[..., Expr]] = {
        "_DimExpr": total,
        "_DimFactor": factor,
        "int": lambda number: const(int(number)),
    }
    return convert.Converter(table, kind=_kind, operands=_operands)


# JAX shows the structure of dimensions and scopes in these attributes alone.
_terms: Final = attrgetter("_sorted_terms")
_factors: Final = attrgetter("_factors")
_constraints: Final = attrgetter("_explicit_constraints")


def _term(weight: int, factors: Sequence[tuple[object, int]], parts: Iterator[Expr]) -> Expr:
    """A number times powers of factors, which are converted to the next of `parts`."""
    if not factors:
        return const(weight)
    value = reduce(mul, [part for _, power in factors for part in repeat(next(parts), power)])
    return value if weight == 1 else value * weight


def _kind(term: Any) -> str:
    """The name of a class; numbers of numpy are numbers too."""
    own = type(term).__name__
    return "int" if own != "bool" and isinstance(term, Integral) else own


# The parts of JAX's polynomials: factors of all terms of a sum, operands of a factor.
_operands: Final = convert.OperandsByClass(
    {
        "_DimExpr": lambda total: [part for term, _ in _terms(total) for part, _ in _factors(term)],
        "_DimFactor": attrgetter("operands"),
    }
)


_OPERATIONS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "max": maximum,
    "min": minimum,
}


def exporter(scope: jax.export.SymbolicScope | None = None) -> convert.Converter[Any, Any]:
    """The converter to dimensions of `scope`, by default of a new one; a variable becomes the dimension of its name."""
    own = _scope(scope)
    names: dict[str, Var] = {}

    def named(v: Any) -> Any:
        convert.claim(names, v.name, v, v.name)
        try:
            (dimension,) = jax.export.symbolic_shape(v.name, scope=own)
        except ValueError:
            dimension = None
        if str(dimension) != v.name or not v.name.isidentifier():  # a term, such as "2*a"
            raise InputError(f"JAX takes no dimension named {shown(v.name)}")
        return dimension

    return convert.Converter({**_TO_JAX, ops.VAR: named}, kind=convert.operation_of, operands=convert.arguments_of)


def _scope(given: jax.export.SymbolicScope | None) -> jax.export.SymbolicScope:
    if given is None:
        return jax.export.SymbolicScope()
    return arguments.of_kind(jax.export.SymbolicScope, given, "the scope", "a SymbolicScope of JAX")


def _larger(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return max(a, b) if isinstance(b, int) else b.rmax(a)
    return a.max(b)


def _smaller(a: Any, b: Any) -> Any:
    if isinstance(a, int):
        return min(a, b) if isinstance(b, int) else b.rmin(a)
    return a.min(b)


_TO_JAX: Final[dict[Op, Callable[..., Any]]] = {
    ops.CONST: lambda e: e.value,
    **convert.by_operators(*convert.RING, ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV),
    ops.MIN: lambda e, a, b: _smaller(a, b),
    ops.MAX: lambda e, a, b: _larger(a, b),
    ops.ABS: lambda e, a: _larger(a, -a),
}


class SymbolicDimensions:
    """The dimensions of one scope: its constraints as facts, comparisons decided, bounds.

    Guarantee: the answers match a `Context` whose assumptions are these constraints, with variables of at least 1.

    Parameters
    ----------
    scope: the scope of the dimensions; without constraints by default.

    Attributes
    ----------
    context: the facts.

    >>> a, b = jax.export.symbolic_shape("a, b", constraints=["a >= 2 * b", "mod(a, 4) == 0"])
    >>> dimensions = SymbolicDimensions(a.scope)
    >>> dimensions.holds(b, ">=", b % 3), dimensions.holds(a, "<", b), dimensions.holds(a, "==", 8)
    (True, False, None)
    >>> dimensions.bounds(a - b), dimensions.simplify((a * b) // 4 * 4)
    ((2, inf), a*b)
    """

    def __init__(self, scope: jax.export.SymbolicScope | None = None) -> None:
        self.scope = _scope(scope)
        self._convert, self._write = importer(), exporter(self.scope)
        stated: Sequence[Any] = _constraints(self.scope)
        facts = [self.condition(part.e1, "==" if part.cmp.name == "EQ" else ">=", part.e2) for part in stated]
        self.context = Context({}, assume=facts)
        sizes = dict.fromkeys(v for fact in facts for v in fact.free_vars())
        self._quantified = Context(sizes, assume=facts)
        self._decide = Decisions(self.context)

    def expr(self, dimension: Dimension) -> Expr:
        """A dimension of this scope as an expression."""
        if self.scope is not getattr(dimension, "scope", self.scope):
            raise InputError(f"{shown(dimension)} is a dimension of another scope")
        return self._convert(dimension)

    def dimension(self, e: Expr) -> Dimension:
        """An expression over the variables of this scope as a dimension."""
        dimension: Dimension = self._write(as_expr(e, "the expression"))
        return dimension

    def condition(self, a: Dimension, sign: str, b: Dimension) -> Cond:
        """A comparison; `sign` is one of < <= > >= == !=."""
        if sign not in convert.SIGNS:
            raise InputError(f"the sign of a comparison is one of {' '.join(convert.SIGNS)}, not {shown(sign)}")
        return compare(convert.SIGNS[sign], self.expr(a), self.expr(b))

    def holds(self, a: Dimension, sign: str, b: Dimension) -> bool | None:
        """True if a comparison always holds, False if it never does, `None` if neither was proved.

        Unlike JAX's `==`, which is False for dimensions that it cannot prove equal.
        """
        return self._decide(self.condition(a, sign, b))

    def prove(self, a: Dimension, sign: str, b: Dimension) -> Proof:
        """The proof or refutation of a comparison."""
        return self.context.prove(self.condition(a, sign, b))

    def bounds(self, dimension: Dimension) -> tuple[float, float]:
        """The least and greatest value over all variables, as integers or infinities of floating point."""
        low, high = self._quantified.bounds(self.expr(dimension), over="sizes")
        return _end(low), _end(high)

    def simplify(self, dimension: Dimension) -> Dimension:
        """A dimension that is equal wherever the given one is defined, never larger by this library's cost."""
        return self.dimension(self.context.simplify(self.expr(dimension)))

    def __repr__(self) -> str:
        return f"<SymbolicDimensions under {len(self.context.facts)} constraints>"


def _end(end: Expr | Infinity) -> float:
    return float("inf") * end.sign if isinstance(end, Infinity) else end.value


__all__ = ["SymbolicDimensions", "exporter", "from_jax", "importer", "to_jax"]

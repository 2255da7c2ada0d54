"""Expressions and sets in the syntax of MLIR's affine dialect and of isl."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from intset.errors import InputError
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.convert import fold
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import Cond, Expr, Var
from intset.expr.ops import Op
from intset.expr.printer import Precedence, shown


class Fragment(NamedTuple):
    """A text with the precedence of its outermost operator."""

    text: str
    level: Precedence

    def within(self, level: Precedence) -> str:
        """The text as an operand of an operator of that precedence."""
        return self.text if self.level >= level else f"({self.text})"


Dialect: TypeAlias = "Mapping[Op, Callable[..., Fragment]]"


def written(root: Expr | Cond, dialect: Dialect, names: Mapping[Var, str]) -> str:
    """The text of an expression or condition.

    Raises
    ------
    InputError: an operation that the dialect lacks, or a variable without a name.
    """

    def variable(var: Var) -> Fragment:
        if var not in names:
            raise InputError(f"{var} is neither a dimension nor a parameter")
        return Fragment(names[var], Precedence.ATOM)

    return fold(root, {**dialect, ops.VAR: variable}).text


def mlir_space(
    roots: Sequence[Expr | Cond], dims: Sequence[Var], symbols: Sequence[Var] | None
) -> tuple[str, dict[Var, str]]:
    """The head `(d0, d1)[s0]` of a map or set, and the names of its variables."""
    others = [var for var in free_vars(*roots) if var not in dims] if symbols is None else list(symbols)
    names: dict[Var, str] = {var: f"d{k}" for k, var in enumerate(dims)}
    names.update((var, f"s{k}") for k, var in enumerate(others))
    brackets = f"[{', '.join(names[var] for var in others)}]" if others else ""
    return f"({', '.join(names[var] for var in dims)}){brackets}", names


def mlir_set(constraints: Sequence[Cond], dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """MLIR's integer set of the points at which all constraints hold."""
    parts = [part for cond in constraints for part in conjuncts(cond)]
    space, names = mlir_space(parts, dims, symbols)
    items = [written(part, MLIR, names) for part in parts if part.op is not ops.BOOL or not part.data]
    return f"affine_set<{space} : ({', '.join(items or ['0 == 0'])})>"


def isl_set(
    constraints: Sequence[Cond], dims: Sequence[Var], params: Sequence[Var], called: Mapping[Var, str] | None = None
) -> str:
    """isl's set of the points at which all constraints hold.

    Parameters
    ----------
    called: names of parameters; any other one has its variable's name, with `_` for characters that isl's names lack.

    Raises
    ------
    InputError: two parameters of one name, or an operation that isl lacks.
    """
    given = {} if called is None else called
    names = {var: f"d{k}" for k, var in enumerate(dims)}
    for param in params:
        name = given[param] if param in given else re.sub(r"\W|^(?=\d)", "_", param.name, flags=re.ASCII)
        if name in names.values():
            raise InputError(f"two variables would both be called {name!r}: state their names")
        names[param] = name
    body = written(logical_and(*constraints), ISL, names)
    return f"[{', '.join(names[p] for p in params)}] -> {{ [{', '.join(names[d] for d in dims)}] : {body} }}"


def set_text(constraints: Sequence[Cond], dims: Sequence[Var], params: Sequence[Var], language: str) -> str:
    """A set in a language: "isl", "mlir", or "python" for the condition alone."""
    if language == "isl":
        return isl_set(constraints, dims, params)
    if language == "mlir":
        return mlir_set(constraints, dims, params)
    if language != "python":
        raise InputError(f"a language of sets is isl, mlir or python, not {shown(language)}")
    return str(logical_and(*constraints))


def _infix(symbol: str, level: Precedence) -> Callable[..., Fragment]:
    right = Precedence(level + 1)
    return lambda e, a, b: Fragment(f"{a.within(level)} {symbol} {b.within(right)}", level)


def _compared_with_zero(symbol: str, swapped: bool = False, margin: str = "") -> Callable[..., Fragment]:
    def comparison(cond: Cond, a: Fragment, b: Fragment) -> Fragment:
        left, right = (b, a) if swapped else (a, b)
        difference = left.text if right.text == "0" else f"{left.text} - {right.within(Precedence.PRODUCT)}"
        return Fragment(f"{difference}{margin} {symbol} 0", Precedence.COMPARE)

    return comparison


def _constant(e: Expr) -> Fragment:
    return Fragment(str(e.value), Precedence.ATOM if e.value >= 0 else Precedence.UNARY)


def _refused(dialect: str) -> Callable[..., Fragment]:
    def refusal(node: Expr | Cond, *operands: Fragment) -> Fragment:
        raise InputError(f"{dialect} have no {node.op.name!r}: {shown(node)}")

    return refusal


_ARITHMETIC: Final[Dialect] = {
    ops.CONST: _constant,
    ops.ADD: _infix("+", Precedence.SUM),
    ops.SUB: _infix("-", Precedence.SUM),
    ops.MUL: _infix("*", Precedence.PRODUCT),
    ops.NEG: lambda e, a: Fragment(f"-{a.within(Precedence.ATOM)}", Precedence.UNARY),
}

MLIR: Final[Dialect] = {
    **dict.fromkeys(ops.OPS.values(), _refused("MLIR's affine expressions")),
    **_ARITHMETIC,
    ops.BOOL: lambda cond: Fragment("0 == 0" if cond.data else "1 == 0", Precedence.COMPARE),
    ops.FLOORDIV: _infix("floordiv", Precedence.PRODUCT),
    ops.CEILDIV: _infix("ceildiv", Precedence.PRODUCT),
    ops.FLOORMOD: _infix("mod", Precedence.PRODUCT),
    ops.GE: _compared_with_zero(">="),
    ops.GT: _compared_with_zero(">=", margin=" - 1"),
    ops.LE: _compared_with_zero(">=", swapped=True),
    ops.LT: _compared_with_zero(">=", swapped=True, margin=" - 1"),
    ops.EQ: _compared_with_zero("=="),
}


def _isl_quotient(rounding: str) -> Callable[..., Fragment]:
    def quotient(e: Expr, a: Fragment, b: Fragment) -> Fragment:
        divisor = e.args[1]
        if not divisor.is_const:
            raise InputError(f"isl divides by numbers alone: {shown(e)}")
        sign = "" if divisor.value > 0 else "-"
        return Fragment(f"{rounding}({sign}({a.text})/{abs(divisor.value)})", Precedence.ATOM)

    return quotient


def _isl_remainder(e: Expr, a: Fragment, b: Fragment) -> Fragment:
    quotient = _isl_quotient("floor")(e, a, b)
    if e.args[1].value > 0:
        return Fragment(f"(({a.text}) mod {e.args[1].value})", Precedence.ATOM)
    return Fragment(f"{a.within(Precedence.SUM)} + {-e.args[1].value} * {quotient.text}", Precedence.SUM)


def _isl_choice(e: Expr, c: Fragment, a: Fragment, b: Fragment) -> Fragment:
    return Fragment(f"(({c.text}) ? ({a.text}) : ({b.text}))", Precedence.ATOM)


ISL: Final[Dialect] = {
    **dict.fromkeys(ops.OPS.values(), _refused("isl's sets")),
    **_ARITHMETIC,
    ops.BOOL: lambda cond: Fragment("true" if cond.data else "false", Precedence.ATOM),
    ops.FLOORDIV: _isl_quotient("floor"),
    ops.CEILDIV: _isl_quotient("ceil"),
    ops.FLOORMOD: _isl_remainder,
    ops.MIN: lambda e, a, b: Fragment(f"min({a.text}, {b.text})", Precedence.ATOM),
    ops.MAX: lambda e, a, b: Fragment(f"max({a.text}, {b.text})", Precedence.ATOM),
    ops.ABS: lambda e, a: Fragment(f"max({a.text}, -({a.text}))", Precedence.ATOM),
    ops.SELECT: _isl_choice,
    ops.LT: _infix("<", Precedence.COMPARE),
    ops.LE: _infix("<=", Precedence.COMPARE),
    ops.GT: _infix(">", Precedence.COMPARE),
    ops.GE: _infix(">=", Precedence.COMPARE),
    ops.EQ: _infix("=", Precedence.COMPARE),
    ops.NE: _infix("!=", Precedence.COMPARE),
    ops.AND: _infix("and", Precedence.AND),
    ops.OR: _infix("or", Precedence.OR),
    ops.NOT: lambda cond, a: Fragment(f"not ({a.text})", Precedence.NOT),
}

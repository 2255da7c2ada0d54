"""MLIR's `affine_map` and `affine_set` as text, both ways, semi-affine expressions included.

Reference: the affine dialect of MLIR, section "Affine Expressions". Its `floordiv`, `ceildiv` and `mod` are undefined
where the divisor is not positive, and equal this library's elsewhere; by a negative number, `map_text` divides the
negated operands.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from intset.context import Context
from intset.domains.sets.region import Region
from intset.errors import InputError, ParseError
from intset.expr import Cond, Expr, IntLike, Var, arguments, as_expr, ops, shown
from intset.expr.build import ceildiv
from intset.expr.convert import mlir_expr, mlir_set, mlir_space
from intset.expr.node import divide
from intset.expr.parser import ExprParser, ParsedOperand, Pending, Token
from intset.expr.printer import Precedence


class AffineMap(NamedTuple):
    """An affine map: one expression over dimensions and symbols for each result. `str()` is its text."""

    dims: tuple[Var, ...]
    symbols: tuple[Var, ...]
    results: tuple[Expr, ...]

    def __str__(self) -> str:
        return map_text(self.results, self.dims, self.symbols)


class AffineSet(NamedTuple):
    """An integer set: the points over `dims` that satisfy all constraints. `str()` is its text."""

    dims: tuple[Var, ...]
    symbols: tuple[Var, ...]
    constraints: tuple[Cond, ...]

    def __str__(self) -> str:
        return set_text(self.constraints, self.dims, self.symbols)

    def region(self) -> Region:
        """The set as a region over the symbols."""
        return Context.from_constraints(self.dims, self.constraints).image(self.dims)


def affine_map(text: str, dims: Sequence[Var] | None = None, symbols: Sequence[Var] | None = None) -> AffineMap:
    """The affine map that a text denotes, such as `affine_map<(d0)[s0] -> (d0 floordiv 4, d0 mod 4 + s0)>`.

    Parameters
    ----------
    text: an optional `affine_map< >` after an optional `#name =` prefix.
    dims, symbols: variables for its identifiers, in order; new ones where left out.

    Raises
    ------
    ParseError: the text is no affine map; the message shows the place.

    >>> m = affine_map("(d0)[s0] -> (d0 floordiv 4, d0 mod 4 + s0)")
    >>> m.results
    (d0 // 4, d0 % 4 + s0)
    >>> print(m)
    affine_map<(d0)[s0] -> (d0 floordiv 4, d0 mod 4 + s0)>
    """
    return AffineMap(*_AffineText(text, "affine_map", "->").read(dims, symbols))


def affine_set(text: str, dims: Sequence[Var] | None = None, symbols: Sequence[Var] | None = None) -> AffineSet:
    """The integer set that a text denotes, such as `affine_set<(d0)[s0] : (d0 >= 0, s0 - d0 - 1 >= 0)>`.

    The parameters and errors are those of `affine_map`; every item of the list is a comparison.
    """
    dims_, symbols_, items = _AffineText(text, "affine_set", ":").read(dims, symbols)
    return AffineSet(dims_, symbols_, items)


def map_text(results: Sequence[IntLike], dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """The text of an affine map; dimensions and symbols are renamed to `d0`, `s0` and so on.

    Parameters
    ----------
    symbols: the symbols; by default every variable of the results that is no dimension, by first occurrence.

    Raises
    ------
    InputError: what MLIR's affine expressions lack: another operation, a product of dimensions, a divisor with
        dimensions, a number beyond 64 bits; or a variable missing from dimensions and symbols.
    """
    items = [as_expr(e, "a result") for e in arguments.listed(results, "the results", "a list of expressions")]
    space, names = mlir_space(items, dims, symbols)
    return f"affine_map<{space} -> ({', '.join(mlir_expr(e, names) for e in items)})>"


def set_text(constraints: Sequence[Cond] | Cond, dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """The text of an integer set, the conjunction of constraints; the rest as for `map_text`.

    MLIR's sets have no unions: a disjunction or `!=` is an InputError (`Region.pieces` partitions into conjunctions).
    """
    given = [constraints] if isinstance(constraints, Cond) else arguments.listed(constraints, "the constraints")
    return mlir_set([arguments.of_kind(Cond, cond, "a constraint", "a condition") for cond in given], dims, symbols)


_HEAD: Final = re.compile(r"\s*(?:[#!][\w.$-]+\s*=\s*)?(?:(affine_map|affine_set)\s*<)?\s*")
_NAMES: Final = re.compile(r"\(([^()]*)\)\s*(?:\[([^\[\]]*)\])?\s*(->|:)\s*")
_NAME: Final = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_COMMENT: Final = re.compile(r"//[^\n]*")
_TOKEN: Final = re.compile(
    rf"""\s*(?: (?P<number> 0x[0-9a-fA-F]+ | [0-9]+ ) | (?P<name> {_NAME.pattern} )
           | (?P<symbol> [<>=]= | [-+*(),] ) | (?P<foreign> \S ) | (?P<end> \Z ) )""",
    re.VERBOSE | re.ASCII,
)


class _AffineText:
    """The text of an affine map or set, taken apart: identifiers, and the list behind the arrow or colon."""

    def __init__(self, given: str, kind: str, arrow: str) -> None:
        arguments.of_kind(str, given, f"the text of an {kind}", "a text")
        text = _COMMENT.sub(lambda found: " " * len(found[0]), given)
        head = _HEAD.match(text)
        start = head.end() if head else 0
        names = _NAMES.match(text, start)
        if names is None or names[3] != arrow or (head is not None and head[1] not in (None, kind)):
            raise ParseError(f"{kind} reads (d0, d1)[s0] {arrow} (...), not {shown(given[:80])}", start)
        text = text.rstrip()
        if head is not None and head[1]:
            if not text.endswith(">"):
                raise ParseError(f"'{kind}<' is never closed", len(text))
            text = text[:-1].rstrip()
        if not (text.endswith(")") and text.startswith("(", names.end())):
            raise ParseError(f"a list in parentheses is expected behind {arrow}", names.end())
        self.kind, self.dims, self.symbols = kind, _names(names[1]), _names(names[2] or "")
        self.text, self.start = text, names.end()

    def read(self, dims: Sequence[Var] | None, symbols: Sequence[Var] | None) -> tuple[Any, Any, tuple[Any, ...]]:
        """Dimensions, symbols and items of the list."""
        both = _variables(self.dims, dims, "dimensions"), _variables(self.symbols, symbols, "symbols")
        env = dict(zip(self.dims + self.symbols, (*both[0], *both[1]), strict=True))
        if len(env) < len(self.dims) + len(self.symbols):
            raise ParseError(f"{self.kind} names an identifier twice", 0)
        items = AffineParser(self.text, env, self.start).run()
        wanted, what = (Expr, "an expression") if self.kind == "affine_map" else (Cond, "a comparison")
        for item in items:
            if not isinstance(item, wanted):
                raise ParseError(f"an item of {self.kind} is {what}, not {shown(item)}", self.start)
        return (*both, items)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    for name in names:
        if not _NAME.fullmatch(name):
            raise ParseError(f"{name!r} is no identifier", 0)
    return names


def _variables(names: Sequence[str], given: Sequence[Var] | None, what: str) -> tuple[Var, ...]:
    if given is None:
        return tuple(Var(name) for name in names)
    variables = arguments.listed(given, f"the {what}", "a list of variables")
    if len(variables) != len(names):
        raise InputError(f"the text has {len(names)} {what}, not {len(variables)}")
    return tuple(arguments.of_kind(Var, var, f"one of the {what}", "a Var") for var in variables)


_QUOTIENTS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "floordiv": lambda a, b: divide(ops.FLOORDIV, a, b),
    "ceildiv": ceildiv,
    "mod": lambda a, b: divide(ops.FLOORMOD, a, b),
}


class AffineParser(ExprParser):
    """A list of MLIR's affine expressions or comparisons; `run` gives a tuple.

    Identifiers such as `mod`, `list` and `and` are allowed.
    """

    refused: Mapping[str, str] = {}

    def __init__(self, text: str, names: dict[str, Any], start: int) -> None:
        super().__init__(text, names)
        found = _TOKEN.finditer(text, start)
        self.tokens = [Token(m.lastgroup or "", m[m.lastgroup or 0], m.start(m.lastgroup or 0)) for m in found]

    def is_function(self, name: str) -> bool:
        return name == "symbol"

    def call(self, subject: Token, args: list[ParsedOperand]) -> None:
        if subject.text == "(":
            self.push(tuple(arg.value for arg in args), subject.position)
        elif len(args) != 1:
            raise self.error(f"symbol marks one operand, not {len(args)}", subject.position)
        else:
            self.push(args[0].value, subject.position)

    def operand(self, token: Token) -> bool:
        if self.at == 1:  # the list itself
            self.at = 0
            return self.open(token, None)
        if token.text in self.names:
            return self.meant(token)
        if token.kind == "name" and not (self.is_function(token.text) and self.follows("(")):
            raise self.unknown("name", token.text, self.names, token.position)
        if token.text == "+":
            raise self.error("an operand is expected before '+'", token.position)
        return super().operand(token)

    def operator(self, token: Token) -> bool:
        if not self.pending:
            raise self.error(f"the list ends before {token.text!r}", token.position)
        if token.text not in _QUOTIENTS:
            if token.kind == "name":
                raise self.error(f"an operator is expected before {token.text!r}", token.position)
            return super().operator(token)
        self.reduce(Precedence.PRODUCT)
        self.pending.append(Pending(token.text, Precedence.PRODUCT, token.position))
        return True

    def binary(self, symbol: str, a: ParsedOperand, b: ParsedOperand, position: int) -> None:
        if symbol not in _QUOTIENTS:
            super().binary(symbol, a, b, position)
            return
        for operand in (a, b):
            self.want(Expr, operand, f"an operand of {symbol!r}")
        self.push(self.built(_QUOTIENTS[symbol], [a, b], position), a.position)


__all__ = ["AffineMap", "AffineSet", "affine_map", "affine_set", "map_text", "set_text"]

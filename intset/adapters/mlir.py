"""MLIR's `affine_map` and `affine_set` as text, both ways, semi-affine expressions included.

Reference: the affine dialect of MLIR, section "Affine Expressions". Its `floordiv`, `ceildiv` and `mod` are undefined
where the divisor is not positive, and equal this library's elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from intset.context import Context
from intset.domains.sets.region import Region
from intset.errors import InputError, ParseError
from intset.expr import ops
from intset.expr.arguments import of_kind
from intset.expr.build import ceildiv
from intset.expr.dialects import MLIR, mlir_set, mlir_space, written
from intset.expr.node import Cond, Expr, Var, divide
from intset.expr.parser import ExprParser, ParsedOperand, Pending, Token
from intset.expr.printer import Precedence, shown


class AffineMap(NamedTuple):
    """An affine map: one expression over dimensions and symbols for each result. `str()` is its text."""

    dims: tuple[Var, ...]
    symbols: tuple[Var, ...]
    results: tuple[Expr, ...]

    def __str__(self) -> str:
        return map_text(self.results, self.dims, self.symbols)


class AffineSet(NamedTuple):
    """An integer set: the points over `dims` at which all constraints hold. `str()` is its text."""

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
    text: with or without `affine_map< >`, and with or without `#name =` before it.
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


def map_text(results: Sequence[Expr], dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """The text of an affine map; dimensions and symbols are renamed to `d0`, `s0` and so on.

    Parameters
    ----------
    symbols: the symbols; by default every variable of the results that is no dimension, by first occurrence.

    Raises
    ------
    InputError: an operation that MLIR's affine expressions lack, or a variable that is neither dimension nor symbol.
    """
    space, names = mlir_space(results, dims, symbols)
    return f"affine_map<{space} -> ({', '.join(written(e, MLIR, names) for e in results)})>"


def set_text(constraints: Sequence[Cond] | Cond, dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """The text of an integer set, the conjunction of constraints; the rest as for `map_text`.

    MLIR's sets have no unions: a disjunction or `!=` is an InputError (`Region.pieces` partitions into conjunctions).
    """
    given = [constraints] if isinstance(constraints, Cond) else list(constraints)
    return mlir_set([of_kind(Cond, cond, "a constraint", "a condition") for cond in given], dims, symbols)


_HEAD: Final = re.compile(r"\s*(?:[#!][\w.$-]+\s*=\s*)?(?:(affine_map|affine_set)\s*<)?\s*")
_NAMES: Final = re.compile(r"\(([^()]*)\)\s*(?:\[([^\[\]]*)\])?\s*(->|:)\s*")
_NAME: Final = re.compile(r"[A-Za-z_$.][\w$.-]*")


class _AffineText:
    """The text of an affine map or set, taken apart: identifiers, and the list behind the arrow or colon."""

    def __init__(self, text: str, kind: str, arrow: str) -> None:
        of_kind(str, text, f"the text of an {kind}", "a text")
        head = _HEAD.match(text)
        start = head.end() if head else 0
        names = _NAMES.match(text, start)
        if names is None or names[3] != arrow or (head is not None and head[1] not in (None, kind)):
            raise ParseError(f"{kind} reads (d0, d1)[s0] {arrow} (...), not {shown(text[:80])}", start)
        body = text[names.end() :].rstrip()
        if head is not None and head[1]:
            if not body.endswith(">"):
                raise ParseError(f"'{kind}<' is never closed", len(text))
            body = body[:-1].rstrip()
        if not (body.startswith("(") and body.endswith(")")):
            raise ParseError(f"a list in parentheses is expected behind {arrow}", names.end())
        self.kind, self.dims, self.symbols = kind, _names(names[1]), _names(names[2] or "")
        self.body = body

    def read(self, dims: Sequence[Var] | None, symbols: Sequence[Var] | None) -> tuple[Any, Any, tuple[Any, ...]]:
        """Dimensions, symbols and items of the list."""
        both = _variables(self.dims, dims, "dimensions"), _variables(self.symbols, symbols, "symbols")
        env = dict(zip(self.dims + self.symbols, (*both[0], *both[1]), strict=True))
        if len(env) < len(self.dims) + len(self.symbols):
            raise ParseError(f"{self.kind} names an identifier twice", 0)
        inside = self.body[1:-1]
        items = AffineParser(f"list({inside})", env).run() if inside.strip() else ()
        wanted = Expr if self.kind == "affine_map" else Cond
        for item in items:
            if not isinstance(item, wanted):
                raise ParseError(f"an item of {self.kind} is {shown(item)}", 0)
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
    if len(given) != len(names):
        raise InputError(f"the text has {len(names)} {what}, not {len(given)}")
    return tuple(of_kind(Var, var, f"one of the {what}", "a Var") for var in given)


_QUOTIENTS: Final[dict[str, Callable[[Expr, Expr], Expr]]] = {
    "floordiv": lambda a, b: divide(ops.FLOORDIV, a, b),
    "ceildiv": ceildiv,
    "mod": lambda a, b: divide(ops.FLOORMOD, a, b),
}


class AffineParser(ExprParser):
    """MLIR's affine expressions: Python's syntax with `floordiv`, `ceildiv` and `mod` as operators."""

    def is_function(self, name: str) -> bool:
        return name in ("list", "symbol")

    def call(self, subject: Token, args: list[ParsedOperand]) -> None:
        if subject.text == "symbol":  # marks an operand as a symbol
            self.push(args[0].value, subject.position)
        else:
            self.push(tuple(arg.value for arg in args), subject.position)

    def operand(self, token: Token) -> bool:
        """Process a token in operand position, where an identifier may be any word: `mod mod 3`."""
        return self.meant(token) if token.text in self.names else super().operand(token)

    def operator(self, token: Token) -> bool:
        if token.text not in _QUOTIENTS:
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

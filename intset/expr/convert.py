"""Expressions in other forms: terms of another library, JSON, LaTeX, MLIR's affine dialect, isl's notation.

`fold` and `Converter` read a table with a row for each operation. Both visit each node of a DAG once, operands first,
without recursion over depth. A dialect is a table whose rows write texts.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, cast

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import a_function, a_name, listed, mapped, of_kind, one_of, refusal
from intset.expr.build import Opaque, logical_and, select
from intset.expr.dag import Interned, conjuncts, free_vars, postorder, symbols
from intset.expr.evaluate import as_width
from intset.expr.node import Cond, Expr, Node, ShapeVar, Var, const, divide, make, truth
from intset.expr.ops import Op
from intset.expr.printer import INFIX, Precedence, shown

LATEX_LENGTH: Final = 1_000  # characters of the operands of one operation; beyond: elided
LATEX_NAME: Final = 60  # characters of a name
LATEX_BITS: Final = 256  # bits of a constant with all its digits
Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
FORMAT: Final = "intset.expression"
VERSION: Final = 1

K = TypeVar("K")  # mappings are invariant in their keys
S = TypeVar("S")
S2 = TypeVar("S2")
T = TypeVar("T")


_MISSING: Final[Any] = object()


def fold(root: Node, table: Mapping[Op, Callable[..., T]]) -> T:
    """The value of `root` under a function for each operation, bottom-up; each shared node is visited once.

    Every operand is folded, also those of lazy operations.

    Parameters
    ----------
    root: an expression or a condition.
    table: for each operation that occurs, a function of the node and of its folded operands.

    Raises
    ------
    InputError: an operation has no row in the table.

    >>> from intset import Var, fold, ops
    >>> i = Var("i")
    >>> fold(i * 2 + i, {ops.VAR: lambda v: 1, ops.CONST: lambda c: 0, ops.MUL: lambda e, a, b: a + b + 1,
    ...                  ops.ADD: lambda e, a, b: a + b + 1})
    4
    """
    if not isinstance(root, Node):
        raise refusal("the root of fold", "an expression or a condition", root)
    rows = _table(table, "the table of fold")

    def without_row(node: Any, *operands: T) -> T:
        raise InputError(f"the table of fold has no row for {node.op.name!r}, the operation of {shown(node)}")

    convert: Converter[Any, T] = Converter(rows, opaque=without_row, kind=operation_of, operands=arguments_of)
    return convert(root)


def _table(table: Mapping[K, Callable[..., T]], what: str) -> Mapping[K, Callable[..., T]]:
    if not all(map(callable, mapped(table, what, "a mapping from kinds of terms to functions").values())):
        for kind, handler in table.items():
            a_function(handler, f"{what} for {shown(kind)}")
    return table


def known_pairs(given: Mapping[K, T] | None, source: type[object], target: type[object], foreign: str) -> dict[K, T]:
    """The `variables` given to a converter, each key and value of its class; none for `None`.

    Parameters
    ----------
    foreign: names an object of the other library in messages.
    """
    known = dict(mapped({} if given is None else given, "variables"))
    names: dict[type[object], str] = {Node: "an expression or a condition", str: "a name"}
    for key, value in known.items():
        of_kind(source, key, "a key of variables", names.get(source, foreign))
        of_kind(target, value, f"the value of variables for {shown(key)}", names.get(target, foreign))
    return known


def claim(owners: dict[K, S], key: K, owner: S, name: str) -> None:
    """Give a name to its first owner; the key is the name and what else tells owners apart.

    Raises
    ------
    InputError: another one has it.
    """
    known = owners.setdefault(key, owner)
    if known is not owner:
        raise InputError(f"{shown(known)} and {shown(owner)} would both become {shown(name)}")


operation_of: Final[Callable[[Any], Op]] = attrgetter("op")  # `kind` of a converter that takes expressions alone
arguments_of: Final[Callable[[Any], Sequence[Any]]] = attrgetter("args")  # its `operands`


def integer_of(node: Node) -> Expr:
    """The integer of an operand; a truth value is 0 or 1, as in Python and C."""
    if isinstance(node, Cond):
        return select(node, 1, 0)
    assert isinstance(node, Expr)
    return node


def truth_of(node: Node) -> Cond:
    """The truth value of an operand; an integer is true unless it is 0."""
    if isinstance(node, Cond):
        return node
    assert isinstance(node, Expr)
    return node.ne(0)


def kind_of(node: object) -> object:
    """The operation of an expression; the class of anything else."""
    return node.op if isinstance(node, Interned) else type(node)


def operands_of(node: Any) -> Sequence[Any]:
    """The `args` of a node; none where it has no such attribute."""
    args: Sequence[Any] = getattr(node, "args", ())
    return args


def _nearest(table: Mapping[Any, K], kind: object) -> K | None:
    """The row of a kind. A class is looked up by itself and its name, then its bases in method resolution order."""
    known = [own for base in kind.__mro__ for own in (base, base.__name__)] if isinstance(kind, type) else [kind]
    return next((table[own] for own in known if own in table), None)


class OperandsByClass(dict[type, Callable[[Any], Sequence[Any]]]):
    """The operands of terms by their classes: `operands` of a converter, from a function for each class or its name.

    Other classes have none.
    """

    def __init__(self, table: Mapping[Any, Callable[[Any], Sequence[Any]]]) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, kind: type) -> Callable[[Any], Sequence[Any]]:
        found = self[kind] = _nearest(self._table, kind) or (lambda term: ())
        return found

    def __call__(self, term: Any) -> Sequence[Any]:
        return self[type(term)](term)


class Converter(Generic[S, T]):
    """Converts terms of one library to terms of another by a table, and remembers what became of each variable.

    Either side may be this one: expressions to foreign terms, or foreign terms to expressions. A call converts a term
    with all its subterms; a cache by identity holds converted terms.

    Invariant: no two leaves have one target unless the caller said so in `variables`, so results convert back.

    Parameters
    ----------
    table: for each kind of term, a function of the term and its converted operands. A row for a class
        or class name covers subclasses; the nearest base has precedence.
    var: converts a leaf absent from the table; called once per leaf, and `variables` caches the target.
    opaque: converts any other term absent from the table, from the term and its converted operands. Without it such a
        term raises InputError.
    kind: the kind of a term: by default the operation of an expression, and the class of anything else.
    operands: the operands of a term, by default its `args`.
    identity: a key that is equal for occurrences of one term, by default that of the Python object; libraries that wrap
        their terms anew at each access have another one.
    variables: initial pairs of source and target, such as the `sources` of the converter for the other direction.
        Several may share a target, whose source is then the first.

    >>> from intset import Converter, Var, ops
    >>> i = Var("i")
    >>> text = Converter({ops.CONST: str, ops.ADD: lambda e, a, b: f"(+ {a} {b})"}, var=lambda v: v.name)
    >>> text(i + 1), text.sources
    ('(+ i 1)', {'i': i})
    """

    def __init__(
        self,
        table: Mapping[K, Callable[..., T]],
        var: Callable[[S], T] | None = None,
        opaque: Callable[..., T] | None = None,
        *,
        kind: Callable[[S], object] = kind_of,
        operands: Callable[[S], Sequence[S]] = operands_of,
        identity: Callable[[S], Hashable] = id,
        variables: Mapping[S2, T] | None = None,
    ) -> None:
        self._table: Mapping[Any, Callable[..., T]] = _table(table, "the table of Converter")
        self._rows: dict[object, Callable[..., T]] = {}  # of the kinds met so far
        self._var, self._opaque, self._kind, self._operands = var, opaque, kind, operands
        self._identity = identity
        self._results: dict[Hashable, T] = {}
        self._sources: list[S] = []  # the keys of results: kept, so that no identity is reused
        self.variables: dict[S, T] = {}
        self.sources: dict[T, S] = {}
        for source, target in mapped({} if variables is None else variables, "the variables of Converter").items():
            self._know(source, target)

    def __call__(self, root: S) -> T:
        """The converted term."""
        results, identity, operands_of = self._results, self._identity, self._operands
        known: Callable[..., Any] = results.get
        row_of, kind, keep, missing = self._rows.get, self._kind, self._sources.append, _MISSING
        key = identity(root)
        if key in results:
            return results[key]
        try:
            stack: list[tuple[S, Hashable, Iterator[S], list[T]]] = []
            term, waiting = root, iter(operands_of(root))
            converted: list[T] = []
            while True:
                for arg in waiting:
                    own = identity(arg)
                    target = known(own, missing)
                    if target is missing:
                        below = operands_of(arg)
                        if below:
                            stack.append((term, key, waiting, converted))
                            term, key, waiting, converted = arg, own, iter(below), []
                            break
                        row = row_of(kind(arg)) or self._row(kind(arg))
                        results[own] = target = row(arg)
                        keep(arg)
                    converted.append(target)
                else:
                    row = row_of(kind(term)) or self._row(kind(term))
                    results[key] = target = row(term, *converted)
                    keep(term)
                    if not stack:
                        answer: T = target
                        return answer
                    term, key, waiting, converted = stack.pop()
                    converted.append(target)
        except RecursionError:
            raise InputError("a term is nested too deeply for the other library, which recurses over depth") from None

    def _row(self, kind: object) -> Callable[..., T]:
        """Look up the row for the first term of a kind."""
        found = _nearest(self._table, kind)
        row = self._rows[kind] = self._without_row if found is None else found
        return row

    def _without_row(self, term: S, *operands: T) -> T:
        """Convert a term absent from the table."""
        if not operands and isinstance(term, Hashable):
            leaf: S = term
            if leaf in self.variables:
                return self.variables[leaf]
            if self._var is not None:
                return self._pair(leaf, self._var(leaf))
        if self._opaque is not None:
            return self._opaque(term, *operands)
        kind = f"operation {term.op.name!r}" if isinstance(term, Interned) else f"type {type(term).__name__}"
        raise InputError(f"no conversion of {shown(term)} of {kind}")

    def _know(self, source: Any, target: T) -> None:
        self.variables[source] = target
        self.sources.setdefault(target, source)
        if self._identity is id:  # else a leaf is looked up by equality, once
            self._results[id(source)] = target
            self._sources.append(source)

    def _pair(self, source: Any, target: T) -> T:
        known = self.sources.setdefault(target, source)
        if known is not source and known != source:
            raise InputError(f"{shown(known)} and {shown(source)} would both become {shown(target)}")
        self.variables[source] = target
        return target

    def __repr__(self) -> str:
        return f"<Converter of {len(self._table)} kinds, {len(self.variables)} variables known>"


# -- rows that the tables of several libraries share -------------------------------------------------------------------


SIGNS: Final = {INFIX[op][0]: op for op in ops.COMPARISONS}
RING: Final = (ops.ADD, ops.SUB, ops.MUL, ops.NEG)


def by_operators(*known: Op) -> dict[Op, Callable[..., Any]]:
    """Rows of operations that the terms of a library compute by Python's operators."""

    def row(meaning: Callable[..., Any]) -> Callable[..., Any]:
        return lambda e, *args: meaning(*args)

    return {op: row(op.meaning) for op in known if op.meaning is not None}


def wrapped(e: Expr, a: Any) -> Any:
    """A cast as arithmetic, for libraries without registers of any width."""
    bits, signed = e.data
    low = 1 << (bits - 1) if signed else 0
    return (a + low) % (1 << bits) - low


def chosen(term: Any, c: Node, a: Node, b: Node) -> Node:
    """`a` where `c` holds, else `b`: a condition of two conditions, an integer of all others."""
    condition = truth_of(c)
    if isinstance(a, Cond) and isinstance(b, Cond):
        return (condition & a) | (~condition & b)
    return select(condition, integer_of(a), integer_of(b))


# -- dialects: MLIR and isl --------------------------------------------------------------------------------------------


class Fragment(NamedTuple):
    """A text with the precedence of its outermost operator."""

    text: str
    level: Precedence

    def within(self, level: Precedence) -> str:
        """The text as an operand of an operator, in parentheses where the operator binds more tightly."""
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
    inner = tuple(of_kind(Var, var, "a dimension", "a variable") for var in listed(dims, "the dimensions"))
    given = [v for v in free_vars(*roots) if v not in inner] if symbols is None else listed(symbols, "the symbols")
    outer = tuple(of_kind(Var, var, "a symbol", "a variable") for var in given)
    names = dict(zip((*inner, *outer), _numbered("d", inner) + _numbered("s", outer), strict=True))
    if len(names) < len(inner) + len(outer):
        raise InputError("a variable is a dimension or symbol twice")
    brackets = f"[{', '.join(_numbered('s', outer))}]" if outer else ""
    return f"({', '.join(_numbered('d', inner))}){brackets}", names


def _numbered(letter: str, variables: Sequence[Var]) -> list[str]:
    return [f"{letter}{k}" for k in range(len(variables))]


def mlir_set(constraints: Sequence[Cond], dims: Sequence[Var], symbols: Sequence[Var] | None = None) -> str:
    """MLIR's integer set of the points at which all constraints hold."""
    parts = [part for cond in constraints for part in conjuncts(cond)]
    space, names = mlir_space(parts, dims, symbols)
    items = [mlir_expr(part, names) for part in parts if part.op is not ops.BOOL or not part.data]
    return f"affine_set<{space} : ({', '.join(items or ['0 == 0'])})>"


def mlir_expr(root: Expr | Cond, names: Mapping[Var, str]) -> str:
    """The text of an expression or comparison over dimensions `d0`, ... and symbols `s0`, ...

    Raises
    ------
    InputError: what MLIR's affine expressions lack.
    """
    text = written(root, MLIR, names)
    fold(root, {**_IS_SYMBOLIC, ops.VAR: lambda var: names[var].startswith("s")})
    return text


def _symbolic(e: Expr | Cond, *parts: bool) -> bool:
    return all(parts)


def _symbolic_number(e: Expr) -> bool:
    if abs(e.value) >= 1 << 63:
        raise InputError(f"MLIR's numbers have 64 bits: {shown(e)}")
    return True


def _symbolic_product(e: Expr, a: bool, b: bool) -> bool:
    if not a and not b:
        raise InputError(f"MLIR's affine expressions have no product of dimensions: {shown(e)}")
    return a and b


def _symbolic_quotient(e: Expr, a: bool, b: bool) -> bool:
    if not b:
        raise InputError(f"MLIR's affine expressions have no dimension in a divisor: {shown(e)}")
    return a


_IS_SYMBOLIC: Final[Mapping[Op, Callable[..., bool]]] = {
    **dict.fromkeys(ops.OPS.values(), _symbolic),
    ops.CONST: _symbolic_number,
    ops.MUL: _symbolic_product,
    **dict.fromkeys((ops.FLOORDIV, ops.CEILDIV, ops.FLOORMOD), _symbolic_quotient),
}


def isl_set(
    constraints: Sequence[Cond], dims: Sequence[Var], params: Sequence[Var], called: Mapping[Var, str] | None = None
) -> str:
    """isl's set of the points at which all constraints hold.

    Parameters
    ----------
    called: names of parameters; any other one has its variable's name, with `_` for characters that isl's names lack
        and behind isl's own words.

    Raises
    ------
    InputError: two parameters of one name, or an operation that isl lacks.
    """
    names = isl_names(params, called)
    taken = set(names.values())
    for k, dim in enumerate(dims):
        names[dim] = next(name for name in (f"d{'_' * n}{k}" for n in range(len(taken) + 1)) if name not in taken)
    body = written(logical_and(*constraints), ISL, names)
    return f"[{', '.join(names[p] for p in params)}] -> {{ [{', '.join(names[d] for d in dims)}] : {body} }}"


_ISL_WORDS: Final = frozenset(
    "exists and or implies not infty infinity nan min max rat true false ceild floord mod ceil floor".split()
)


def isl_names(params: Sequence[Var], called: Mapping[Var, str] | None = None) -> dict[Var, str]:
    """The names of parameters in isl's notation, as `isl_set` has them."""
    given = {} if called is None else mapped(called, "names", "a mapping from variables to names")
    names: dict[Var, str] = {}
    for param in params:
        name = a_name(given[param], f"the name of {param}") if param in given else _isl_name(param.name)
        if name in names.values():
            raise InputError(f"two variables would both be called {name!r}: state their names")
        names[param] = name
    return names


def _isl_name(name: str) -> str:
    plain = re.sub(r"\W|^(?=\d)", "_", name, flags=re.ASCII)
    return f"{plain}_" if plain.lower() in _ISL_WORDS else plain


def set_text(constraints: Sequence[Cond], dims: Sequence[Var], params: Sequence[Var], language: str) -> str:
    """A set in a language: "isl", "mlir", or "python" for the condition alone."""
    one_of(("isl", "mlir", "python"), language, "the language of a set")
    if language == "isl":
        return isl_set(constraints, dims, params)
    if language == "mlir":
        return mlir_set(constraints, dims, params)
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
    **{op: _infix(*INFIX[op]) for op in (ops.ADD, ops.SUB, ops.MUL)},
    ops.NEG: lambda e, a: Fragment(f"-{a.within(Precedence.ATOM)}", Precedence.UNARY),
}


def _mlir_quotient(symbol: str) -> Callable[..., Fragment]:
    plain = _infix(symbol, Precedence.PRODUCT)

    def quotient(e: Expr, a: Fragment, b: Fragment) -> Fragment:
        divisor = e.args[1]
        if not divisor.is_const or divisor.value > 0:
            return plain(e, a, b)
        negated = Fragment(f"-{a.within(Precedence.ATOM)}", Precedence.UNARY)
        found = plain(e, negated, Fragment(str(-divisor.value), Precedence.ATOM))
        return Fragment(f"-({found.text})", Precedence.UNARY) if symbol == "mod" else found

    return quotient


MLIR: Final[Dialect] = {
    **dict.fromkeys(ops.OPS.values(), _refused("MLIR's affine expressions")),
    **_ARITHMETIC,
    ops.BOOL: lambda cond: Fragment("0 == 0" if cond.data else "1 == 0", Precedence.COMPARE),
    ops.FLOORDIV: _mlir_quotient("floordiv"),
    ops.CEILDIV: _mlir_quotient("ceildiv"),
    ops.FLOORMOD: _mlir_quotient("mod"),
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
    **{op: _infix(*INFIX[op]) for op in ops.COMPARISONS},
    ops.EQ: _infix("=", Precedence.COMPARE),
    ops.AND: _infix("and", Precedence.AND),
    ops.OR: _infix("or", Precedence.OR),
    ops.NOT: lambda cond, a: Fragment(f"not ({a.text})", Precedence.NOT),
}


# -- LaTeX -------------------------------------------------------------------------------------------------------------

ELIDED: Final = r"\cdots"  # for operands beyond the length limit
_TEX_CHARACTERS: Final = str.maketrans(
    {
        **{c: f"\\{c}" for c in "_&%$#{}"},
        " ": r"\ ",
        "\\": r"\backslash ",
        "~": r"\sim ",
        "^": r"\uparrow ",
        "'": r"\prime ",
        '"': r"\prime\prime ",
    }
)
_NUMBERED: Final = re.compile(r"(.*[^\W\d_])([0-9]+)")


def latex(root: Expr | Cond) -> str:
    """The formula of an expression or condition, without dollar signs: `i.outer` is written as i with a subscript.

    Guarantee: as long as `LATEX_LENGTH` and a few letters; the longest operands are written as `ELIDED`.
    """
    return written(root, LATEX, {var: latex_name(var.name) for var in free_vars(root)})


def latex_name(name: str) -> str:
    """A name in LaTeX: what follows its first dot, or the digits at its end, is a subscript."""
    base, dot, rest = name.partition(".")
    if not (base and rest):
        base, dot, rest = name, "", ""
    if not dot and (numbered := _NUMBERED.fullmatch(base)):
        return f"{_tex_word(numbered[1])}_{{{_tex_cut(numbered[2])}}}"
    return f"{_tex_word(base)}_{{{_tex_word(rest)}}}" if rest else _tex_word(base)


def _tex_word(word: str) -> str:
    return word if len(word) == 1 and word.isascii() and word.isalpha() else rf"\mathrm{{{_tex_cut(word)}}}"


def _tex_cut(word: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in word[:LATEX_NAME]).translate(_TEX_CHARACTERS)
    return text if len(word) <= LATEX_NAME else rf"{text}\ldots "


def _in_latex(row: Callable[..., Fragment]) -> Callable[..., Fragment]:
    """The row of operands that are short enough together, the longest ones elided."""

    def shortened(node: Expr | Cond, *operands: Fragment) -> Fragment:
        if sum(len(operand.text) for operand in operands) > LATEX_LENGTH:
            kept = list(operands)
            while sum(len(operand.text) for operand in kept) > LATEX_LENGTH:
                kept[max(range(len(kept)), key=lambda k: len(kept[k].text))] = Fragment(ELIDED, Precedence.ATOM)
            operands = tuple(kept)
        return row(node, *operands)

    return shortened


def _tex_within(operand: Fragment, level: Precedence, is_first: bool = False) -> str:
    """An operand, in parentheses where precedence needs them, or where its sign would follow an operator."""
    if operand.level >= level and (is_first or not operand.text.startswith("-")):
        return operand.text
    return rf"\left({operand.text}\right)"


def _tex_infix(symbol: str, level: Precedence, operands: Precedence | None = None) -> Callable[..., Fragment]:
    left, right = (level, Precedence(level + 1)) if operands is None else (operands, operands)

    def infix(node: Expr | Cond, a: Fragment, b: Fragment) -> Fragment:
        return Fragment(f"{_tex_within(a, left, True)} {symbol} {_tex_within(b, right)}", level)

    return infix


def _tex_remainder(node: Expr, a: Fragment, b: Fragment) -> Fragment:
    text = rf"{_tex_within(a, Precedence.PRODUCT)} \;\mathrm{{mod}}\; {_tex_within(b, Precedence.ATOM)}"
    return Fragment(text, Precedence.SHIFT)  # in parentheses in a sum: readers do not agree on its precedence


def _tex_call(name: str) -> Callable[..., Fragment]:
    def call(node: Expr | Cond, *operands: Fragment) -> Fragment:
        return Fragment(rf"{name}\left({', '.join(operand.text for operand in operands)}\right)", Precedence.ATOM)

    return call


def _tex_quotient(left: str, right: str) -> Callable[..., Fragment]:
    return lambda e, a, b: Fragment(rf"\left{left} \dfrac{{{a.text}}}{{{b.text}}} \right{right}", Precedence.ATOM)


def _tex_constant(e: Expr) -> Fragment:
    if e.value.bit_length() > LATEX_BITS:
        return Fragment(rf"\mathrm{{{hex(e.value)[:20]}}}{ELIDED}", Precedence.UNARY)
    return Fragment(str(e.value), Precedence.ATOM if e.value >= 0 else Precedence.UNARY)


def _tex_choice(e: Expr, c: Fragment, a: Fragment, b: Fragment) -> Fragment:
    rows = rf"{a.text} & \text{{if }} {c.text} \\ {b.text} & \text{{otherwise}}"
    return Fragment(rf"\begin{{cases}}{rows}\end{{cases}}", Precedence.CHOICE)


def _tex_term(e: Expr, *indices: Fragment) -> Fragment:
    name = latex_name(e.data.name)
    text = rf"{name}\left[{', '.join(index.text for index in indices)}\right]" if indices else name
    return Fragment(text, Precedence.ATOM)


def _tex_assertion(e: Expr, claim: Fragment, value: Fragment) -> Fragment:
    return value if e.data == ops.SIZE else _tex_call(r"\operatorname{asserting}")(e, claim, value)


def _tex_cast(e: Expr, a: Fragment) -> Fragment:
    bits, signed = e.data
    return _tex_call(rf"\operatorname{{{'int' if signed else 'uint'}{bits}}}")(e, a)


def _tex_negated(e: Expr, a: Fragment) -> Fragment:
    return Fragment(f"-{_tex_within(a, Precedence.PRODUCT)}", Precedence.PRODUCT)


_LATEX_ROWS: Final[Dialect] = {
    ops.CONST: _tex_constant,
    ops.LOAD: _tex_term,
    ops.ADD: _tex_infix("+", Precedence.SUM),
    ops.SUB: _tex_infix("-", Precedence.SUM),
    ops.MUL: _tex_infix(r"\cdot", Precedence.PRODUCT),
    ops.NEG: _tex_negated,
    ops.FLOORDIV: _tex_quotient(r"\lfloor", r"\rfloor"),
    ops.CEILDIV: _tex_quotient(r"\lceil", r"\rceil"),
    ops.FLOORMOD: _tex_remainder,
    ops.TRUNCDIV: _tex_call(r"\operatorname{truncdiv}"),
    ops.TRUNCMOD: _tex_call(r"\operatorname{truncmod}"),
    ops.MIN: _tex_call(r"\min"),
    ops.MAX: _tex_call(r"\max"),
    ops.ABS: lambda e, a: Fragment(rf"\left|{a.text}\right|", Precedence.ATOM),
    ops.BITAND: _tex_infix(r"\;\mathrm{bitand}\;", Precedence.BITAND, Precedence.ATOM),
    ops.BITOR: _tex_infix(r"\;\mathrm{bitor}\;", Precedence.BITOR, Precedence.ATOM),
    ops.BITXOR: _tex_infix(r"\oplus", Precedence.BITXOR, Precedence.ATOM),
    ops.BITNOT: lambda e, a: Fragment(rf"\sim {_tex_within(a, Precedence.ATOM)}", Precedence.UNARY),
    ops.SHL: _tex_infix(r"\ll", Precedence.SHIFT, Precedence.ATOM),
    ops.SHR: _tex_infix(r"\gg", Precedence.SHIFT, Precedence.ATOM),
    ops.CAST: _tex_cast,
    ops.SELECT: _tex_choice,
    ops.ASSERTING: _tex_assertion,
    ops.BOOL: lambda cond: Fragment(rf"\mathrm{{{str(cond.data).lower()}}}", Precedence.ATOM),
    ops.LT: _tex_infix("<", Precedence.COMPARE),
    ops.LE: _tex_infix(r"\leq", Precedence.COMPARE),
    ops.GT: _tex_infix(">", Precedence.COMPARE),
    ops.GE: _tex_infix(r"\geq", Precedence.COMPARE),
    ops.EQ: _tex_infix("=", Precedence.COMPARE),
    ops.NE: _tex_infix(r"\neq", Precedence.COMPARE),
    ops.AND: _tex_infix(r"\wedge", Precedence.AND),
    ops.OR: _tex_infix(r"\vee", Precedence.OR),
    ops.NOT: lambda cond, a: Fragment(rf"\neg {_tex_within(a, Precedence.ATOM)}", Precedence.NOT),
}
LATEX: Final[Dialect] = {op: _in_latex(row) for op, row in _LATEX_ROWS.items()}


def to_json(*roots: Expr | Cond) -> dict[str, Json]:
    """Expressions and conditions as a table that `json.dumps` writes, shared nodes once.

    Variables and opaque symbols are numbered by first occurrence: equal structure gives equal text, in every process.

    >>> from intset import Var, to_json
    >>> to_json(Var("i") + 1)["nodes"]
    [{'op': 'var', 'variable': 0}, {'op': 'const', 'value': 1}, {'op': 'add', 'args': [0, 1]}]
    """
    for root in roots:
        if not isinstance(root, Node):
            raise refusal("an argument of to_json", "an expression or a condition", root)
    variables, opaques = free_vars(*roots), symbols(*roots)
    variable_number = {var: k for k, var in enumerate(variables)}
    symbol_number = {symbol: k for k, symbol in enumerate(opaques)}
    number: dict[Node, int] = {}
    nodes: list[Json] = []
    for node in postorder(roots):
        number[node] = len(nodes)
        row: dict[str, Json] = {"op": node.op.name}
        if node.op is ops.VAR and isinstance(node, Var):
            row["variable"] = variable_number[node]
        elif node.op in (ops.CONST, ops.BOOL):
            row["value"] = node.data
        elif node.op is ops.LOAD:
            row["symbol"] = symbol_number[node.data]
        elif node.op is ops.CAST:
            row["bits"], row["signed"] = node.data
        elif node.data is not None:
            row["data"] = node.data
        if node.args:
            row["args"] = [number[arg] for arg in node.args]
        nodes.append(row)
    return {
        "format": FORMAT,
        "version": VERSION,
        "variables": [{"name": var.name, **cast("dict[str, Json]", var.fields())} for var in variables],
        "symbols": [{"name": s.name, "rank": s.rank, "lower": s.lower, "upper": s.upper} for s in opaques],
        "nodes": nodes,
        "roots": [number[root] for root in roots],
    }


def from_json(
    table: Mapping[str, object], variables: Mapping[str, Var] | Sequence[Var] | None = None
) -> tuple[Expr | Cond, ...]:
    """The expressions and conditions that `to_json` wrote, one for each root.

    Parameters
    ----------
    table: what `json.loads` read.
    variables: variables for the names, as a mapping, or one for each row of "variables", as a sequence. A variable
        missing from the mapping is created.

    Raises
    ------
    InputError: the table is no such table; the message names the row.

    >>> from intset import Var, from_json, to_json
    >>> i = Var("i")
    >>> from_json(to_json(i + 1), [i])[0] is i + 1
    True
    """
    if not isinstance(table, Mapping) or table.get("format") != FORMAT:
        raise refusal("what from_json reads", f'a table with "format": "{FORMAT}"', table)
    if table.get("version") != VERSION:
        raise InputError(f"from_json reads version {VERSION}, not {shown(table.get('version'))}")
    known = _NodeTable(_variables(_rows(table, "variables"), variables), _symbols(_rows(table, "symbols")))
    for k, row in enumerate(_rows(table, "nodes")):
        known.read(k, row)
    roots = table.get("roots")
    return tuple(known.node(k, "a root") for k in (roots if isinstance(roots, list) else [roots]))


def _rows(table: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    rows = table.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise InputError(f'"{name}" must be a list of tables')
    return rows


def _variables(rows: list[Mapping[str, Any]], given: Mapping[str, Var] | Sequence[Var] | None) -> list[Var]:
    if given is not None and not isinstance(given, Mapping):
        given = listed(given, "the variables", "a mapping or a list of variables")
    if given is not None and not isinstance(given, Mapping) and len(given) != len(rows):
        raise InputError(f"{len(rows)} variables are needed, not {len(given)}")
    variables: list[Var] = []
    names = [row.get("name") for row in rows]
    for k, (row, name) in enumerate(zip(rows, names, strict=True)):
        if not isinstance(name, str):
            raise InputError(f"variable {k} has no name")
        if isinstance(given, Mapping) and name in given and names.count(name) > 1:
            raise InputError(f"{names.count(name)} variables have the name {name!r}: give the variables as a list")
        known = None if given is None else given.get(name) if isinstance(given, Mapping) else given[k]
        if known is None:
            fields = {field: row[field] for field in ("lower", "upper", "multiple_of") if field in row}
            known = ShapeVar(name, **fields) if fields else Var(name)
        elif not isinstance(known, Var):
            raise InputError(f"a variable for {name!r} must be a Var, not {shown(known)}")
        variables.append(known)
    return variables


def _symbols(rows: list[Mapping[str, Any]]) -> list[Opaque]:
    return [Opaque(row.get("name", ""), row.get("rank", 0), row.get("lower"), row.get("upper")) for row in rows]


class _NodeTable:
    """The nodes read so far; each row may use earlier rows alone."""

    def __init__(self, variables: list[Var], symbols: list[Opaque]) -> None:
        self.variables, self.symbols = variables, symbols
        self.nodes: list[Expr | Cond] = []

    def node(self, k: object, what: str) -> Expr | Cond:
        if type(k) is not int or not 0 <= k < len(self.nodes):
            raise InputError(f"{what} must be the number of an earlier node, not {shown(k)}")
        return self.nodes[k]

    def read(self, k: int, row: Mapping[str, Any]) -> None:
        """Append the node of row `k`."""
        name = row.get("op")
        op = ops.OPS.get(name) if isinstance(name, str) else None
        args, where = row.get("args", []), f"node {k}"
        if op is None:
            raise InputError(f"{where} has the unknown operation {shown(name)}")
        if not isinstance(args, list):
            raise InputError(f"the args of {where} must be a list")
        operands = tuple(self.node(arg, f"an operand of {where}") for arg in args)
        if op.operands is not None and [kind_letter(arg) for arg in operands] != list(op.operands):
            raise InputError(f"{where} is {op.name} and has other operands than {shown(op.operands)}")
        self.nodes.append(self._made(op, operands, row, where))

    def _made(self, op: ops.Op, operands: tuple[Any, ...], row: Mapping[str, Any], where: str) -> Expr | Cond:
        if op is ops.CONST:
            return const(row.get("value"))  # type: ignore[arg-type]  # checked there
        if op is ops.BOOL:
            return truth(_exact(row.get("value"), bool, where))
        if op is ops.VAR:
            return self.variables[_index(row.get("variable"), self.variables, where)]
        if op is ops.LOAD:
            return self.symbols[_index(row.get("symbol"), self.symbols, where)](*operands)
        if op in ops.DIVISIONS:
            return divide(op, *operands)
        data: tuple[int, bool] | str | None = None
        if op is ops.CAST:
            data = (as_width(row.get("bits"), f"bits of {where}"), _exact(row.get("signed"), bool, where))
        elif op is ops.ASSERTING and row.get("data") is not None:
            data = ops.SIZE
        made: Expr | Cond = make(op, operands, data)
        return made


def kind_letter(node: Expr | Cond) -> str:
    """The letter of a node's kind in `Op.operands`."""
    return "c" if isinstance(node, Cond) else "i"


def _exact(value: object, kind: type[bool], where: str) -> bool:
    if type(value) is not kind:
        raise InputError(f"the value of {where} must be true or false, not {shown(value)}")
    return value


def _index(value: object, rows: Sequence[object], where: str) -> int:
    if type(value) is not int or not 0 <= value < len(rows):
        raise InputError(f"{where} names no row: {shown(value)}")
    return value

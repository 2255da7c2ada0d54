"""Conversion between expressions and the terms of another library: `fold` and `Converter`.

Both visit each node of a DAG once, operands first, without recursion over depth.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import a_function, mapped, of_kind, refusal
from intset.expr.build import select
from intset.expr.dag import Interned
from intset.expr.node import Cond, Expr, Node
from intset.expr.ops import Op
from intset.expr.printer import INFIX, shown

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

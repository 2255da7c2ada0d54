"""`to_text`: an expression as Python text, which `parse` reads back to the same object; numbers and names as text.

Python refuses to convert integers of more than about 4,300 decimal digits; the functions here do not. Names other than
identifiers are quoted, so that no name reads as another token.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from intset.expr import ops
from intset.expr.ops import Op

if TYPE_CHECKING:
    from intset.expr.node import Node

SHOWN_NAME: Final = 120  # characters of a cell of a table
SHOWN_ROWS: Final = 40  # rows of a table


K = TypeVar("K")
_WIDE: Final = 2048  # bits; longer numbers are hexadecimal
_CHUNK: Final = 600  # decimal digits that Python converts under any configured limit


def number_text(value: int) -> str:
    """`value` as an integer literal of Python: decimal, or hexadecimal where it is long."""
    return str(value) if value.bit_length() < _WIDE else hex(value)


def number_of(text: str) -> int:
    """The integer of a decimal numeral with an optional minus sign.

    Raises
    ------
    ValueError: the text is no decimal numeral.
    """
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()):
        raise ValueError(f"no decimal integer: {text[:40]!r}")
    if len(digits) <= _CHUNK:
        return int(text)
    parts = [int(digits[max(end - _CHUNK, 0) : end]) for end in range(len(digits), 0, -_CHUNK)]  # the lowest first
    base = 10**_CHUNK
    while len(parts) > 1:  # join pairs: few large products
        parts += [0] * (len(parts) % 2)
        parts = [low + high * base for low, high in zip(parts[::2], parts[1::2], strict=True)]
        base *= base
    return -parts[0] if text.startswith("-") else parts[0]


def decimal(value: int) -> str:
    """`value` in decimal, of any length, for z3 and isl."""
    if value.bit_length() < _WIDE:
        return str(value)
    bases = [10**_CHUNK]
    while bases[-1] ** 2 <= abs(value):
        bases.append(bases[-1] ** 2)
    parts = [abs(value)]  # the highest first
    for base in reversed(bases):
        parts = [half for part in parts for half in divmod(part, base)]
    digits = "".join(f"{part:0{_CHUNK}d}" for part in parts).lstrip("0")
    return f"-{digits}" if value < 0 else digits


def short_number(value: int) -> str:
    """`value` in decimal; of a long one the first hexadecimal digits and the bit length."""
    return str(value) if value.bit_length() < _WIDE else f"{hex(value)[:20]}... of {value.bit_length()} bits"


def visible(text: str, keep: str = "") -> str:
    """`text` with unprintable characters, except those in `keep`, replaced by their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


class Point(dict[K, int]):
    """Values of variables and opaque terms: a `dict` whose `repr` has short numbers."""

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {short_number(value)}' for key, value in self.items())}}}"


def shown(value: object) -> str:
    """`repr` of a user's value for a message, in one line; safe for numbers of any length and failing `__repr__`."""
    if type(value) is int:
        return number_text(value)
    try:
        text = repr(value)
        return " ".join(text.split()) if "\n" in text else text
    except ValueError:
        return f"a {type(value).__name__} with a number of too many digits to show"
    except Exception:  # foreign __repr__ may fail
        return f"a {type(value).__name__} that cannot be shown"


class Notebook(Protocol):
    """The entries of notebooks."""

    html: Callable[[object], str]
    svg: Callable[[object], str | None]
    formula: Callable[[Any], str]


_notebooks: list[Callable[[], Any]] = []


def show_by(load: Callable[[], Any]) -> None:
    """Register what shows the classes of a package in notebooks.

    `load` imports and returns the module that registers them; it is called whenever a value is shown. The first one
    registered returns the module with the entries.
    """
    _notebooks.append(load)


def _notebook() -> Notebook:
    loaded: list[Notebook] = [load() for load in _notebooks]
    return loaded[0]


class Displayed:
    """Base of what a notebook shows as HTML; packages register its pictures and tables with `show_by`."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return _notebook().html(self)


class Drawn(Displayed):
    """Base of what a notebook shows as a picture too; `None` where there is none."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        return _notebook().svg(self)


class Typeset:
    """Base of what a notebook shows as a formula."""

    __slots__ = ()

    def _repr_latex_(self) -> str:
        return _notebook().formula(self)


_IDENTIFIER: Final = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
KEYWORDS: Final = frozenset(("and", "or", "not", "if", "else", "True", "False"))
_NUMBERS: Final = frozenset(("inf", "nan"))


def name_text(name: str) -> str:
    """A name as written in an expression; keywords, numbers and names other than identifiers are quoted.

    The quoted form is Python's literal in printable ASCII, which `parse` reads back as the name.
    """
    if _IDENTIFIER.fullmatch(name) and name not in KEYWORDS and name not in _NUMBERS:
        return name
    return ascii(name)


def name_of(quoted: str) -> str:
    """The name of a quoted text; `ValueError` for anything but a string literal."""
    try:
        name = ast.literal_eval(quoted)
    except (SyntaxError, MemoryError) as error:
        raise ValueError(str(error)) from None
    return str(name)


class Precedence(IntEnum):
    """Precedence levels of Python; larger binds tighter."""

    ANY = 0  # between brackets or commas, nothing needs parentheses
    BIND = 1
    CHOICE = 2
    OR = 3
    AND = 4
    NOT = 5
    COMPARE = 6
    BITOR = 7
    BITXOR = 8
    BITAND = 9
    SHIFT = 10
    SUM = 11
    PRODUCT = 12
    UNARY = 13
    ATOM = 14
    CLOSED = 15  # above every text: always in parentheses


INFIX: Final[dict[Op, tuple[str, Precedence]]] = {
    ops.ADD: ("+", Precedence.SUM),
    ops.SUB: ("-", Precedence.SUM),
    ops.MUL: ("*", Precedence.PRODUCT),
    ops.FLOORDIV: ("//", Precedence.PRODUCT),
    ops.FLOORMOD: ("%", Precedence.PRODUCT),
    ops.SHL: ("<<", Precedence.SHIFT),
    ops.SHR: (">>", Precedence.SHIFT),
    ops.BITAND: ("&", Precedence.BITAND),
    ops.BITXOR: ("^", Precedence.BITXOR),
    ops.BITOR: ("|", Precedence.BITOR),
    ops.LT: ("<", Precedence.COMPARE),
    ops.LE: ("<=", Precedence.COMPARE),
    ops.GT: (">", Precedence.COMPARE),
    ops.GE: (">=", Precedence.COMPARE),
    ops.EQ: ("==", Precedence.COMPARE),
    ops.NE: ("!=", Precedence.COMPARE),
    ops.AND: ("&", Precedence.BITAND),
    ops.OR: ("|", Precedence.BITOR),
}
PREFIX: Final[dict[Op, str]] = {ops.NEG: "-", ops.BITNOT: "~", ops.NOT: "~"}

# A part of a text: a string, or an argument node with the level below which it is parenthesized.
TextPiece: TypeAlias = "str | tuple[Any, int]"
Placed: TypeAlias = tuple[int, list[TextPiece]]

_SHORT_NAME: Final = re.compile(r"t[0-9]+")
_LONG: Final = 20_000  # characters of text from which on shared subexpressions get names


def to_text(node: Node, limit: int | None = None, names: Mapping[Any, str] | None = None) -> str:
    """`node` in Python's expression syntax.

    Guarantee: if its variables have distinct names, `parse` returns the same object. Names other than identifiers are
    quoted, Python's precedence decides about parentheses, and `-3` differs from `-(3)`, the negation of 3. A long text
    binds shared nodes at their first occurrence, as in `(t1 := i * j) + t1`, so its length is linear in distinct nodes.

    Parameters
    ----------
    limit: maximal number of characters; a longer text ends in `…` and binds no names. Time is bounded too: operands
        nested too deeply to show are written as `…`.
    names: labels to use instead of the variables' own names.
    """
    layout = layout_of if names is None else _renaming(names)
    return composed(node, layout) if limit is None else abbreviated(node, limit, layout)


def _renaming(names: Mapping[Any, str]) -> Callable[[Any], Placed]:
    """The layout with variables renamed by `names`."""

    def layout(node: Any) -> Placed:
        if node.op is ops.ASSERTING and node.data == ops.SIZE and node.args[1] in names:
            return Precedence.ATOM, [names[node.args[1]]]
        return (Precedence.ATOM, [names[node]]) if node in names else layout_of(node)

    return layout


def composed(root: Any, layout: Callable[[Any], Placed]) -> str:
    """The text of a node by `layout`; nodes that a layout omits are not visited."""
    layouts: dict[Any, Placed] = {}
    waiting: dict[Any, Placed] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        if node in layouts:
            stack.pop()
        elif node in waiting:
            layouts[node] = waiting.pop(stack.pop())
        else:
            waiting[node] = found = layout(node)
            stack += [piece[0] for piece in reversed(found[1]) if not isinstance(piece, str)]
    return "".join(_write(root, layouts.__getitem__, _shared(root, layouts), _names(layouts)))


def abbreviated(node: Any, limit: int, layout: Callable[[Any], Placed]) -> str:
    """The text of a node by `layout`, cut at `limit` characters; it binds no names."""
    texts: list[str] = []
    length = 0
    for text in _write(node, layout, (), iter(()), deepest=2 * limit):
        texts.append(text)
        length += len(text)
        if length > limit:
            return "".join(texts)[: max(limit - 1, 0)] + "…"
    return "".join(texts)


def _write(
    root: Any,
    layout: Callable[[Any], Placed],
    shared: Collection[Any],
    names: Iterator[str],
    deepest: int | None = None,
) -> Iterator[str]:
    """The text of `root` in pieces; operands beyond a stack of `deepest` pieces are elided."""
    bound: dict[Any, str] = {}
    stack: list[TextPiece] = [(root, Precedence.ANY)]
    while stack:
        piece = stack.pop()
        if isinstance(piece, str):
            yield piece
            continue
        node, needed = piece
        if node in bound:
            yield bound[node]
            continue
        if deepest is not None and len(stack) > deepest:
            yield "…"
            continue
        level, pieces = layout(node)
        if node in shared:
            bound[node] = next(names)
            yield f"({bound[node]} := "
            stack.append(")")
        elif level < needed:
            yield "("
            stack.append(")")
        stack.extend(reversed(pieces))


def _shared(root: Any, layouts: dict[Any, Placed]) -> Collection[Any]:
    """The nodes to bind to names: those with several uses in a long text, none in a short one."""
    length: dict[Any, int] = {}
    for node, (_, pieces) in layouts.items():
        total = sum(len(piece) if isinstance(piece, str) else length[piece[0]] for piece in pieces)
        length[node] = min(total, _LONG + 1)
    if length[root] <= _LONG:
        return ()
    uses: Counter[Any] = Counter((root,))
    shared: set[Any] = set()
    # users before operands
    for node in reversed(layouts):
        operands = [piece[0] for piece in layouts[node][1] if not isinstance(piece, str)]
        if uses[node]:
            uses.update(operands)
            if uses[node] > 1 and operands:
                shared.add(node)
    return shared


def _names(layouts: dict[Any, Placed]) -> Iterator[str]:
    texts = (piece for _, pieces in layouts.values() for piece in pieces if isinstance(piece, str))
    taken = {word for text in texts for word in _SHORT_NAME.findall(text)}
    return (name for name in (f"t{k}" for k in count(1)) if name not in taken)


def layout_of(node: Node) -> Placed:
    """The binding level of the text of a node, and its pieces."""
    op, args = node.op, node.args
    if op in INFIX:
        symbol, level = INFIX[op]
        # left-associative; operands of comparisons are never comparisons
        return level, [(args[0], level), f" {symbol} ", (args[1], level + 1)]
    if op in PREFIX:
        needed = Precedence.CLOSED if op is ops.NEG and args[0].op is ops.CONST else Precedence.UNARY
        return Precedence.UNARY, [PREFIX[op], (args[0], needed)]
    if op is ops.VAR:
        var: Any = node
        return Precedence.ATOM, [name_text(var.name)]
    if op is ops.CONST:
        return (Precedence.ATOM if node.data >= 0 else Precedence.UNARY), [number_text(node.data)]
    if op is ops.BOOL:
        return Precedence.ATOM, [str(node.data)]
    if op is ops.LOAD:
        return Precedence.ATOM, listed(f"{name_text(node.data.name)}[", args, "]") if args else [
            name_text(node.data.name)
        ]
    if op is ops.CAST:
        bits, signed = node.data
        return Precedence.ATOM, listed("cast(", args, f", {bits})" if signed else f", {bits}, False)")
    if node.op is ops.ASSERTING and node.data == ops.SIZE and args[1].op is ops.VAR:
        return Precedence.ATOM, [name_text(args[1].name)]
    if _is_nonneg(node):
        return Precedence.ATOM, listed("nonneg(", args[1:], ")")
    return Precedence.ATOM, listed(f"{op.name}(", args, ")")


def listed(start: str, args: tuple[Any, ...], end: str) -> list[TextPiece]:
    """The arguments between `start` and `end`, with commas."""
    pieces: list[TextPiece] = [start]
    for k, arg in enumerate(args):
        pieces += [", ", (arg, Precedence.ANY)] if k else [(arg, Precedence.ANY)]
    return [*pieces, end]


def _is_nonneg(node: Node) -> bool:
    if node.op is not ops.ASSERTING:
        return False
    claim, value = node.args
    return claim.op is ops.GE and claim.args[0] is value and claim.args[1].op is ops.CONST and claim.args[1].data == 0

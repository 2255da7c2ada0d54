"""What emitters share: text, operands as straight-line code, rules for statements, widths of machine words.

Machine arithmetic of a nest: an integer that depends on data is exact where 64 bits hold it, with or without a sign,
and wraps around to a signed number of 64 bits beyond. A store to an element, or a cast, keeps the low bits of its
type. Index arithmetic is mathematical. C and Python emitters share these bounds, so equal results wrap.

The text is that of any target language: identifiers, parentheses, comments, and one rule for each kind of statement,
applied by the driver. Straight-line code gives values used more than once a name and keeps lazy operands lazy: a
select, `&` or `|` whose lazy operand needs lines of its own becomes a branch. Time and text are linear in the number of
nodes, except that a node used in several branches, none of which always runs, is written once in each.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final, Generic, Protocol, TypeAlias

from bound import dtypes
from bound.tir.value import OF_LOW_BITS, WORDS, IntFunction, Operand, is_word
from bound.tir.walk import loaded_tensor, substitute
from intset.config import memoized
from intset.expr import Expr, Node, const, constant_value, dag, ops
from intset.linear.bounds import of_operation
from lowering.nest import driver, ir

Span = tuple[int, int]
INT64, UINT64 = WORDS


def is_within(span: Span, other: Span) -> bool:
    return other[0] <= span[0] and span[1] <= other[1]


class WordSpans:
    """Bounds of the integers of a nest; operands are entered before their operations.

    Invariant: a node that depends on data ("wide") has a span within `INT64` or within `UINT64` that contains its
    value; every other integer is an index of `bits` bits.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self._known: dict[Any, Span] = {}

    def is_wide(self, node: Any) -> bool:
        """Whether an integer depends on data."""
        return node in self._known

    def word(self, node: Any) -> str:
        """The machine type of an integer: `uint64` where `int64` may not hold it."""
        return "int64" if is_within(self.of(node), INT64) else "uint64"

    def of(self, node: Any) -> Span:
        """Bounds of an integer; by default those of its machine type."""
        if node.op is ops.CONST:
            return (node.data, node.data)
        return self._known.get(node, (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1))

    def word_of_operands(self, node: Node) -> str:
        """The machine type in which an operation computes; `int128` where a sign meets large numbers without one."""
        integers = [arg for arg in node.args if isinstance(arg, Expr)]
        if node.op in OF_LOW_BITS or node.op is ops.SHL:
            return self.word(node)
        spans = [self.of(arg) for arg in (integers[:1] if node.op is ops.SHR else integers)]
        whole = (min(low for low, _ in spans), max(high for _, high in spans))
        return "int64" if is_within(whole, INT64) else "uint64" if is_within(whole, UINT64) else "int128"

    def enter(self, node: Expr) -> bool:
        """Enter an integer; returns whether its exact value may leave 64 bits."""
        op = node.op
        if op is ops.LOAD:
            span = _loaded(node)
            if span is not None:
                self._known[node] = span
            return False
        if op is ops.CAST:
            self._known[node] = dtypes.int_range(dtypes.int_named(*node.data))
            return False
        if op is ops.ASSERTING:
            self.name(node, node.args[1])
            return False
        if self._known.keys().isdisjoint(node.args):
            return False
        operands = [arg for arg in node.args if isinstance(arg, Expr)]
        low, high = of_operation(op, *map(self.of, operands))
        if low is not None and high is not None and is_word((low, high)):
            self._known[node] = (low, high)
            return False
        self._known[node] = INT64
        return True

    def name(self, var: Any, value: Any) -> None:
        """Enter a name for an integer."""
        if self.is_wide(value):
            self._known[var] = self._known[value]


def is_plain_shift(node: Node, bits: int) -> bool:
    """Whether a shift amount is a constant within the width, as C requires."""
    places = constant_value(node.args[1])
    return places is not None and 0 <= places < bits


def _loaded(node: Expr) -> Span | None:
    """Bounds of an element, or of an integer function of data; `None` for loads of no data, such as extents."""
    tensor = loaded_tensor(node)
    if tensor is not None:
        return tensor.value_range or dtypes.int_range(tensor.dtype)
    if not isinstance(node.data, IntFunction):
        return None
    dtype = node.data.dtype
    is_exact = node.data.body.op is ops.SELECT and dtype != "uint64"  # it chooses among results beyond the type
    return INT64 if is_exact else dtypes.int_range(dtype)


_PREFIXES: Final = ("_", "INTSET_", "omp_")  # of the language, of our macros, of OpenMP
_LEVELS: Final = {  # operators whose precedence every reader of C knows; all others keep their parentheses
    "*": 4, "/": 4, "%": 4, "+": 3, "-": 3,
    "<": 2, "<=": 2, ">": 2, ">=": 2, "==": 2, "!=": 2,
    "&&": 1,
}  # fmt: skip
_CHAINS: Final = ("*", "+", "-", "&&")  # left-associative: need no parentheses as left operands of equal precedence
_PARENTHESES: Final = re.compile(r"[()]")
_ENCLOSED: Final = re.compile(r"[(\[][^()\[\]]*[)\]]")
_NO_WORD: Final = re.compile(r"\W", re.ASCII)
_NUMBER: Final = re.compile(r"_\d+$")
_NOT_IN_COMMENTS: Final = re.compile(r"[^ -\[\]-~]")  # everything but printable ASCII, and the backslash


class Identifiers:
    """Unique identifiers, one for each object.

    Invariant: no two objects in scope share an identifier, and none gets a reserved one.
    """

    def __init__(self, reserved: Collection[str] = (), taken: Iterable[str] = ()) -> None:
        self._reserved, self._taken = reserved, set(taken)
        self._of: dict[Any, str] = {}
        self._next: dict[str, int] = {}
        self._local: list[tuple[str, Any]] = []  # identifiers to be released at the end of a block

    def of(self, thing: Any, label: str) -> str:
        """The identifier of `thing`; the first call chooses it."""
        if thing not in self._of:
            self._of[thing] = self.fresh(label)
        return self._of[thing]

    def fresh(self, label: str) -> str:
        """An unused ASCII identifier derived from a label, without reserved prefixes."""
        stem = _NO_WORD.sub("_", label)
        if not stem or stem[0].isdigit() or stem.startswith(_PREFIXES):
            stem = f"v{stem}"
        name = stem
        while name in self._taken or name in self._reserved:
            self._next[stem] = self._next.get(stem, 0) + 1
            name = f"{stem}_{self._next[stem]}"
        self._taken.add(name)
        return name

    def local(self, label: str, thing: Any = None) -> str:
        """An identifier, of `thing` if given, up to the end of the innermost open block."""
        name = self.fresh(label)
        self._local.append((name, thing))
        if thing is not None:
            self._of[thing] = name
        return name

    def begin(self) -> int:
        """Open a block; returns the argument of `end`."""
        return len(self._local)

    def end(self, begun: int) -> None:
        """Close a block and release its identifiers."""
        for name, thing in self._local[begun:]:
            self._taken.discard(name)
            self._of.pop(thing, None)
            self._next.pop(_NUMBER.sub("", name), None)
        del self._local[begun:]


def indented(lines: Iterable[str]) -> list[str]:
    """The lines one level deeper."""
    return [f"    {line}" for line in lines]


def infix(left: str, op: str, right: str) -> str:
    """`left op right` in parentheses, with parentheses around an operand only if it needs them.

    Guarantee: operands are not regrouped: `(a + b) + c` becomes `a + b + c`, `a + (b + c)` stays. Comparisons of
    comparisons, and operands of `/` and `%` on the same level, keep their parentheses for the reader.
    """
    level = _LEVELS.get(op, 0)
    return f"({_operand(left, level, op in _CHAINS)} {op} {_operand(right, level, False)})"


def _operand(text: str, level: int, may_chain: bool) -> str:
    inner = opened(text)
    if not level or inner is text:
        return text
    operators = _outer_operators(inner)
    if not operators or operators[0] not in _LEVELS:
        return text
    own = _LEVELS[operators[0]]
    return inner if own > level or (own == level and may_chain and set(operators) <= set(_CHAINS)) else text


def _outer_operators(text: str) -> list[str]:
    """The words at operator positions outside of parentheses, the loosest first."""
    while (outer := _ENCLOSED.sub("", text)) != text:
        text = outer
    return sorted(text.split(" ")[1:-1:2], key=lambda word: _LEVELS.get(word, 0))


def opened(text: str) -> str:
    """Strip one pair of outer parentheses."""
    if not text.startswith("(") or not text.endswith(")"):
        return text
    depth = 0
    for match in _PARENTHESES.finditer(text, 0, len(text) - 1):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return text
    return text[1:-1]


def compared(text: str) -> str:
    """An operand of a comparison: parentheses stay around operators that bind no closer."""
    return text if any(char in "?&|^<>=!" for char in text) else opened(text)


def comment(*lines: str) -> str:
    """A comment of C with one line for each text.

    Guarantee: the comment ends at the end of its text, whatever the texts are. Line ends, backslashes (which would join
    lines) and all but printable ASCII are written as Python's escapes with `%` for the backslash; `*/`, `/*` and `??`,
    which begin delimiters and trigraphs, are separated by a blank.
    """
    plain = "\n   ".join(_NOT_IN_COMMENTS.sub(_escaped, line) for line in lines)
    separated = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", plain)
    return f"/* {separated} */"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"%x{code:02x}" if code < 0x100 else f"%u{code:04x}" if code < 0x10000 else f"%U{code:08x}"


MAX_DEPTH: Final = 12  # nested operations in one text; deeper operands get a name
_DEFERRING: Final = frozenset((*ops.LAZY, ops.ASSERTING, ops.LOAD))  # may leave operands out, or enter formulas


class Syntax(Protocol):
    """The operands and branches of a target language."""

    def leaf(self, node: Operand) -> str | None:
        """The text of a constant, a variable or a parameter; `None` for an operation. What has operands is one."""

    def operation(self, node: Operand, args: list[str]) -> str:
        """The text of an operation, parenthesised for use as any operand."""

    def bind(self, node: Operand, text: str) -> tuple[str, list[str]]:
        """A new name for a value, and the lines that define it."""

    def declare(self, node: Operand) -> tuple[str, list[str]]:
        """A new name that branches assign, and the lines that declare it."""

    def assign(self, name: str, text: str) -> str:
        """The line that assigns to a declared name."""

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        """The lines of an `if`; an empty `orelse` is left out."""

    def negated(self, text: str) -> str:
        """The negation of a truth value."""


def straight_line(syntax: Syntax, roots: Sequence[Operand]) -> tuple[list[str], list[str]]:
    """The lines that must run first, and the text of each operand.

    Guarantee: a lazy operand is evaluated only where the language of expressions evaluates it.
    """
    leaves = [None if root.args else syntax.leaf(root) for root in roots]
    plain = [leaf for leaf in leaves if leaf is not None]
    if len(plain) == len(leaves):
        return [], plain
    if all(_DEFERRING.isdisjoint(dag.operations(root)) for root in roots):
        return _plain_line(syntax, roots)
    code = _StraightLine(roots, syntax)
    return code.top.lines, [code.texts[root, code.top][0] for root in roots]


def _plain_line(syntax: Syntax, roots: Sequence[Operand]) -> tuple[list[str], list[str]]:
    """`straight_line` for operations that evaluate all of their operands."""
    order: dict[Any, None] = dict.fromkeys(chain.from_iterable([dag.postorder((root,)) for root in roots]))
    uses = Counter([*roots, *chain.from_iterable([node.args for node in order])])
    lines: list[str] = []
    texts: dict[Any, tuple[str, int]] = {}
    for node in order:
        leaf = None if node.args else syntax.leaf(node)
        args = [texts[arg] for arg in node.args]
        texts[node] = _operation(syntax, node, args, uses[node], lines) if leaf is None else (leaf, 0)
    return lines, [texts[root][0] for root in roots]


def _operation(
    syntax: Syntax, node: Operand, args: Sequence[tuple[str, int]], uses: int, lines: list[str]
) -> tuple[str, int]:
    """The text of an operation and its nesting depth.

    An operation used twice, or nested too deeply, gets a name, and its definition is appended to `lines`.
    """
    text, depth = syntax.operation(node, [text for text, _ in args]), 1 + max([d for _, d in args], default=0)
    if uses == 1 and depth < MAX_DEPTH:
        return text, depth
    name, definition = syntax.bind(node, text)
    lines += definition
    return name, 0


class _LineBlock:
    """Lines that run together: the statement itself, or one arm of a select, `&` or `|` inside another block.

    Attributes
    ----------
    parent, depth: the enclosing block; the number of enclosing blocks.
    owner, arm: the pair (lazy node, its block), and the operand's position.
    """

    __slots__ = ("arm", "depth", "lines", "owner", "parent")

    def __init__(self, parent: _LineBlock | None, owner: Any, arm: int) -> None:
        self.parent, self.owner, self.arm = parent, owner, arm
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.lines: list[str] = []

    def within(self, other: _LineBlock) -> bool:
        block: _LineBlock | None = self
        while block is not None and block.depth > other.depth:
            block = block.parent
        return block is other


class _StraightLine:
    """The code of one statement's operands.

    Attributes
    ----------
    order: the nodes, operands first.
    homes: the blocks that evaluate each node. `uses` counts its uses in each of them.
    texts: emitted text and nesting depth, keyed by node and block.
    """

    def __init__(self, roots: Sequence[Operand], syntax: Syntax) -> None:
        self.syntax = syntax
        self.top = _LineBlock(None, None, 0)
        self.order = dag.postorder_by(roots, self.children)
        self.homes: dict[Operand, list[_LineBlock]] = {}
        self.uses: dict[tuple[Operand, _LineBlock], int] = {}
        self.texts: dict[tuple[Operand, _LineBlock], tuple[str, int]] = {}
        self._assign_homes(roots)
        for node in self.order:
            for home in self.homes[node]:
                self.texts[node, home] = self._text(node, home)

    @memoized
    def children(self, node: Operand) -> tuple[Operand, ...]:
        """The operands that a node evaluates; the formula of an integer function of data, at its arguments."""
        if node.op is ops.LOAD and isinstance(node.data, IntFunction):
            return (substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))),)
        return node.args[1:] if node.op is ops.ASSERTING else node.args

    def _assign_homes(self, roots: Iterable[Operand]) -> None:
        """Choose the blocks that evaluate each node, users before operands."""
        users: dict[Operand, list[_LineBlock]] = {}
        for root in roots:
            users.setdefault(root, []).append(self.top)
        for node in reversed(self.order):
            blocks = users.pop(node)
            homes = _merged(blocks)
            self.homes[node] = homes
            for block in blocks:
                home = next(h for h in homes if block.within(h))
                self.uses[node, home] = self.uses.get((node, home), 0) + 1
            for home in homes:
                for child, arm in zip(self.children(node), self._arms(node, home), strict=True):
                    users.setdefault(child, []).append(arm)

    @memoized
    def _arms(self, node: Operand, home: _LineBlock) -> list[_LineBlock]:
        """The block of each child of a node: `home`, except for lazy operands."""
        number = len(self.children(node))
        if node.op not in ops.LAZY:
            return [home] * number
        return [home, *(_LineBlock(home, (node, home), k) for k in range(1, number))]

    def _text_in(self, node: Operand, block: _LineBlock) -> tuple[str, int]:
        home: _LineBlock | None = block
        while home is not None:
            if (node, home) in self.texts:
                return self.texts[node, home]
            home = home.parent
        raise AssertionError(f"{node!r} is used before its definition")

    def _text(self, node: Operand, home: _LineBlock) -> tuple[str, int]:
        leaf = self.syntax.leaf(node)
        if leaf is not None:
            return leaf, 0
        arms = self._arms(node, home)
        args = [self._text_in(child, arm) for child, arm in zip(self.children(node), arms, strict=True)]
        if any(arm.lines for arm in arms if arm is not home):
            return self._branch(node, home, [text for text, _ in args], arms), 0
        return _operation(self.syntax, node, args, self.uses[node, home], home.lines)

    def _branch(self, node: Operand, home: _LineBlock, texts: list[str], arms: list[_LineBlock]) -> str:
        name, lines = self.syntax.declare(node)
        home.lines += lines
        assign = self.syntax.assign
        if node.op is ops.SELECT:
            then, orelse = ([*arm.lines, assign(name, t)] for arm, t in zip(arms[1:], texts[1:], strict=True))
            home.lines += self.syntax.branch(texts[0], then, orelse)
            return name
        home.lines.append(assign(name, texts[0]))
        cond = name if node.op is ops.AND else self.syntax.negated(name)
        home.lines += self.syntax.branch(cond, [*arms[1].lines, assign(name, texts[1])], [])
        return name


def _merged(blocks: list[_LineBlock]) -> list[_LineBlock]:
    """The fewest blocks that run whenever one of `blocks` does, and only then."""
    current = dict.fromkeys(blocks)
    while len(current) > 1:
        outer = [b for b in current if not any(b is not other and b.within(other) for other in current)]
        merged: dict[_LineBlock, None] = {}
        arms: dict[Any, set[int]] = {}
        for block in outer:
            arms.setdefault(block.owner, set()).add(block.arm)
        for block in outer:
            is_select = block.owner is not None and block.owner[0].op is ops.SELECT
            both = is_select and len(arms[block.owner]) == 2
            merged[block.parent if both and block.parent is not None else block] = None
        if len(merged) == len(current):
            break
        current = merged
    return list(current)


Emission: TypeAlias = driver.Synthesis[driver.D, list[str]]
EmissionRules: TypeAlias = Mapping[type[ir.Stmt], driver.SynthesisRule[driver.D, list[str]]]


class Emitter(ABC, Generic[driver.D]):
    """The statements of a nest in a target language.

    Invariant: rules run in the order of the text; lines are relative to the block of their statement.
    """

    syntax: Syntax

    @property
    @abstractmethod
    def rules(self) -> EmissionRules[driver.D]:
        """The rule for each kind of statement."""

    def emitted(self, root: ir.Stmt, descent: driver.D) -> list[str]:
        """The lines of a nest."""
        return driver.synthesized(root, descent, self.rules)

    def operands(self, descent: driver.D, *operands: Operand) -> tuple[list[str], list[str]]:
        """The lines that operands need first, and their texts."""
        return straight_line(self.syntax, operands)

    def block(self, stmt: ir.Stmt, descent: driver.D) -> Emission[driver.D]:
        """The lines of a statement, which become a block of the target language."""
        return (yield stmt, descent)

    def branch(self, stmt: ir.If, descent: driver.D) -> Emission[driver.D]:
        before, (cond,) = self.operands(descent, stmt.cond)
        then = yield from self.block(stmt.then, descent.then(stmt))
        orelse = [] if stmt.orelse is None else (yield from self.block(stmt.orelse, descent.otherwise(stmt)))
        return [*before, *self.syntax.branch(cond, then, orelse)]


def as_stored(value: Operand, dtype: str) -> Operand:
    """The value as an element of the type represents it: a constant integer wraps; the machine wraps all others."""
    number = constant_value(value) if isinstance(value, Expr) else None
    if number is None or not dtypes.is_int(dtype):
        return value
    return const(ops.wrap(number, dtypes.bits(dtype), dtypes.signed(dtype)))

"""Straight-line code for operands: values used more than once get a name, lazy operands stay lazy.

A select, `&` or `|` whose lazy operand needs lines of its own becomes a branch. Time and text are linear in the number
of nodes, except that a node used in several branches, none of which always runs, is written once in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, ValueOp
from bound.tir.walk import substitute
from intset.expr import ops

MAX_DEPTH: Final = 12  # nested operations in one text; deeper operands get a name
_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)
_ANDS: Final = (ops.AND, ValueOp.AND)
_LAZY: Final = (*_SELECTS, *_ANDS, ops.OR, ValueOp.OR)


class Syntax(Protocol):
    """The operands and branches of a target language."""

    def leaf(self, node: Operand) -> str | None:
        """The text of a constant, a variable or a parameter; `None` of an operation."""

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
    leaves = [syntax.leaf(root) for root in roots]
    plain = [leaf for leaf in leaves if leaf is not None]
    if len(plain) == len(leaves):
        return [], plain
    code = _StraightLine(roots, syntax)
    return code.top.lines, [code.texts[root, code.top][0] for root in roots]


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
    order: the nodes, operands first; `children` are those that a node evaluates.
    homes: the blocks that evaluate each node. `uses` counts its uses in each of them.
    texts: emitted text and nesting depth, keyed by node and block.
    """

    def __init__(self, roots: Sequence[Operand], syntax: Syntax) -> None:
        self.syntax = syntax
        self.top = _LineBlock(None, None, 0)
        self.children: dict[Operand, tuple[Operand, ...]] = {}
        self.order = self._postorder(roots)
        self.homes: dict[Operand, list[_LineBlock]] = {}
        self.uses: dict[tuple[Operand, _LineBlock], int] = {}
        self.arms: dict[tuple[Operand, _LineBlock], list[_LineBlock]] = {}
        self.texts: dict[tuple[Operand, _LineBlock], tuple[str, int]] = {}
        self._assign_homes(roots)
        for node in self.order:
            for home in self.homes[node]:
                self.texts[node, home] = self._text(node, home)

    def _postorder(self, roots: Iterable[Operand]) -> list[Operand]:
        order: list[Operand] = []
        done: set[Operand] = set()
        stack = [(root, False) for root in reversed(list(roots))]
        while stack:
            node, ready = stack.pop()
            if node in done:
                continue
            if ready:
                done.add(node)
                order.append(node)
                continue
            self.children[node] = _evaluated(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(self.children[node]) if child not in done)
        return order

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
                for child, arm in zip(self.children[node], self._arms(node, home), strict=True):
                    users.setdefault(child, []).append(arm)

    def _arms(self, node: Operand, home: _LineBlock) -> list[_LineBlock]:
        """The block of each child of a node: `home`, except for lazy operands."""
        number = len(self.children[node])
        if node.op not in _LAZY:
            return [home] * number
        if (node, home) not in self.arms:
            self.arms[node, home] = [home, *(_LineBlock(home, (node, home), k) for k in range(1, number))]
        return self.arms[node, home]

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
        args = [self._text_in(child, arm) for child, arm in zip(self.children[node], arms, strict=True)]
        texts = [text for text, _ in args]
        if any(arm.lines for arm in arms if arm is not home):
            return self._branch(node, home, texts, arms), 0
        depth = 1 + max((d for _, d in args), default=0)
        text = self.syntax.operation(node, texts)
        if self.uses[node, home] == 1 and depth < MAX_DEPTH:
            return text, depth
        name, lines = self.syntax.bind(node, text)
        home.lines += lines
        return name, 0

    def _branch(self, node: Operand, home: _LineBlock, texts: list[str], arms: list[_LineBlock]) -> str:
        name, lines = self.syntax.declare(node)
        home.lines += lines
        assign = self.syntax.assign
        if node.op in _SELECTS:
            then, orelse = ([*arm.lines, assign(name, t)] for arm, t in zip(arms[1:], texts[1:], strict=True))
            home.lines += self.syntax.branch(texts[0], then, orelse)
            return name
        home.lines.append(assign(name, texts[0]))
        cond = name if node.op in _ANDS else self.syntax.negated(name)
        home.lines += self.syntax.branch(cond, [*arms[1].lines, assign(name, texts[1])], [])
        return name


def _evaluated(node: Operand) -> tuple[Operand, ...]:
    """The operands that a node evaluates; the formula of an integer function of data, at its arguments."""
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return (substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True))),)
    answer: tuple[Operand, ...] = node.args[1:] if node.op is ops.ASSERTING else node.args
    return answer


def _merged(blocks: list[_LineBlock]) -> list[_LineBlock]:
    """The fewest blocks that run whenever one of `blocks` does, and only then."""
    current = dict.fromkeys(blocks)
    while True:
        outer = [b for b in current if not any(b is not other and b.within(other) for other in current)]
        merged: dict[_LineBlock, None] = {}
        arms: dict[Any, set[int]] = {}
        for block in outer:
            arms.setdefault(block.owner, set()).add(block.arm)
        for block in outer:
            is_select = block.owner is not None and block.owner[0].op in _SELECTS
            both = is_select and len(arms[block.owner]) == 2
            merged[block.parent if both and block.parent is not None else block] = None
        if len(merged) == len(current):
            return list(merged)
        current = merged

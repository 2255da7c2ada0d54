"""Operands as straight-line code: what is used often gets a name, what is evaluated lazily stays lazy.

A select, `&` or `|` whose lazy part needs names of its own becomes a branch. Time and text are linear in the number of
nodes, except that a node used in branches of which none always runs is written once in each.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from bound.tir.opaque import IntFunction
from bound.tir.value import Operand, ValueOp
from bound.tir.walk import substitute
from intset.expr import ops

MAX_DEPTH: Final = 12  # operations inside one another in a text; deeper operands get a name
_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)
_ANDS: Final = (ops.AND, ValueOp.AND)
_ORS: Final = (ops.OR, ValueOp.OR)


class Syntax(Protocol):
    """What a language says."""

    def leaf(self, node: Operand) -> str | None:
        """The text of what costs nothing (a constant, a variable), or `None`."""

    def operation(self, node: Operand, args: list[str]) -> str:
        """The text of an operation that may stand inside any other; selects and `&`, `|` with both operands inline."""

    def bind(self, node: Operand, text: str) -> tuple[str, list[str]]:
        """A new name for a value, and the lines that give it."""

    def declare(self, node: Operand) -> tuple[str, list[str]]:
        """A new name that gets its value in a branch, and the lines that declare it."""

    def assign(self, name: str, text: str) -> str:
        """The line that gives a declared name its value."""

    def branch(self, cond: str, then: list[str], orelse: list[str]) -> list[str]:
        """The lines of a branch; an empty `orelse` is left out."""

    def negated(self, text: str) -> str:
        """The negation of a truth value."""


class _Block:
    """Lines that are run together: the statement itself, or one arm of a select, `&` or `|` in another block."""

    __slots__ = ("arm", "depth", "lines", "owner", "parent")

    def __init__(self, parent: _Block | None, owner: Any, arm: int) -> None:
        self.parent, self.owner, self.arm = parent, owner, arm
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.lines: list[str] = []

    def within(self, other: _Block) -> bool:
        block: _Block | None = self
        while block is not None and block.depth > other.depth:
            block = block.parent
        return block is other


def below(node: Operand) -> tuple[Operand, ...]:
    """What is evaluated for a node; integer functions of data are opened."""
    if node.op is ops.LOAD and isinstance(node.data, IntFunction):
        return (formula_of(node),)
    if node.op is ops.ASSERTING:
        return (node.args[1],)
    answer: tuple[Operand, ...] = node.args
    return answer


def formula_of(node: Operand) -> Operand:
    """The formula that an integer function of data stands for, at its arguments."""
    found: Operand = substitute(node.data.body, dict(zip(node.data.params, node.args, strict=True)))
    return found


def _is_lazy(node: Operand, k: int) -> bool:
    return k > 0 and node.op in (*_SELECTS, *_ANDS, *_ORS)


class Straight:
    """Turns operands into lines and texts. One object serves one statement."""

    def __init__(self, syntax: Syntax) -> None:
        self.syntax = syntax

    def emit(self, roots: Sequence[Operand]) -> tuple[list[str], list[str]]:
        """The lines that must run first, and the text of each root."""
        if not roots:
            return [], []
        leaves = [self.syntax.leaf(root) for root in roots]
        plain = [leaf for leaf in leaves if leaf is not None]
        if len(plain) == len(leaves):
            return [], plain
        plan = _Plan(roots, self.syntax)
        return plan.top.lines, [plan.texts[root, plan.top][0] for root in roots]


class _Plan:
    def __init__(self, roots: Sequence[Operand], syntax: Syntax) -> None:
        self.syntax = syntax
        self.top = _Block(None, None, 0)
        self.children: dict[Operand, tuple[Operand, ...]] = {}
        self.order = self._postorder(roots)
        self.homes: dict[Operand, list[_Block]] = {}
        self.uses: dict[tuple[Operand, _Block], int] = {}
        self.arms: dict[tuple[Operand, _Block, int], _Block] = {}
        self.texts: dict[tuple[Operand, _Block], tuple[str, int]] = {}
        self._place(roots)
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
            self.children[node] = below(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(self.children[node]) if child not in done)
        return order

    def _place(self, roots: Iterable[Operand]) -> None:
        """The blocks in which each node is evaluated, users before what they use."""
        wanted: dict[Operand, list[_Block]] = {}
        for root in roots:
            wanted.setdefault(root, []).append(self.top)
        for node in reversed(self.order):
            blocks = wanted.pop(node)
            homes = _merged(blocks)
            self.homes[node] = homes
            for block in blocks:
                home = next(h for h in homes if block.within(h))
                self.uses[node, home] = self.uses.get((node, home), 0) + 1
            for home in homes:
                for k, child in enumerate(self.children[node]):
                    place = self._arm(node, home, k) if _is_lazy(node, k) else home
                    wanted.setdefault(child, []).append(place)

    def _arm(self, node: Operand, home: _Block, k: int) -> _Block:
        key = (node, home, k)
        if key not in self.arms:
            self.arms[key] = _Block(home, (node, home), k)
        return self.arms[key]

    def _found(self, node: Operand, block: _Block) -> tuple[str, int]:
        home: _Block | None = block
        while home is not None:
            if (node, home) in self.texts:
                return self.texts[node, home]
            home = home.parent
        raise AssertionError(f"{node!r} is used before it is there")

    def _text(self, node: Operand, home: _Block) -> tuple[str, int]:
        leaf = self.syntax.leaf(node)
        if leaf is not None:
            return leaf, 0
        arms = [self._arm(node, home, k) if _is_lazy(node, k) else home for k in range(len(self.children[node]))]
        args = [self._found(child, arm) for child, arm in zip(self.children[node], arms, strict=True)]
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

    def _branch(self, node: Operand, home: _Block, texts: list[str], arms: list[_Block]) -> str:
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


def _merged(blocks: list[_Block]) -> list[_Block]:
    """The fewest blocks that run whenever one of `blocks` does, and only then."""
    found = dict.fromkeys(blocks)
    while True:
        kept = [b for b in found if not any(b is not other and b.within(other) for other in found)]
        merged: dict[_Block, None] = {}
        arms: dict[Any, set[int]] = {}
        for block in kept:
            arms.setdefault(block.owner, set()).add(block.arm)
        for block in kept:
            is_select = block.owner is not None and block.owner[0].op in _SELECTS
            both = is_select and len(arms[block.owner]) == 2
            merged[block.parent if both and block.parent is not None else block] = None
        if len(merged) == len(found):
            return list(merged)
        found = merged

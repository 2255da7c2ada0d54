"""`Context.assuming`: facts for the length of a block, and the scope that a question is asked in."""

from __future__ import annotations

from typing import Any, TypeVar

from intset.facts import Fact
from intset.frame import Frame
from intset.scopes import Block, entered_blocks

T = TypeVar("T")


class Assuming(Block[T]):
    """The facts of one `with ctx.assuming(...)` block.

    Parameters
    ----------
    given: the context that the block belongs to; `as` gives it.
    root: the scope of the context outside of all blocks. Contexts may share one: it does not identify a context.
    """

    entered = entered_blocks("intset_assuming")
    inherited = False

    def __init__(self, given: T, root: Frame, facts: tuple[Fact, ...]) -> None:
        self._given, self.root, self.facts = given, root, facts
        self._made: tuple[tuple[Fact, ...], Frame] | None = None

    def enter(self) -> T:
        self.frame((*within_blocks(self._given, self.root).facts, *self.facts))
        return self._given

    def frame(self, facts: tuple[Fact, ...]) -> Frame:
        """The scope while this is the innermost block and `facts` hold; kept until there are others."""
        made = self._made
        if made is None or made[0] != facts:
            made = self._made = (facts, self.root.stating(facts))
        return made[1]


def within_blocks(context: object, root: Frame) -> Frame:
    """The scope of a context inside the blocks of that context that this thread or task has entered.

    Parameters
    ----------
    root: the scope of the context outside of all blocks.
    """
    if not Assuming.entered.get():
        return root
    entered: tuple[Assuming[Any], ...] = Assuming.in_force()
    blocks = [block for block in entered if block._given is context]
    if not blocks:
        return root
    return blocks[-1].frame((*root.facts, *(fact for block in blocks for fact in block.facts)))

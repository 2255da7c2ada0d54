"""`Context.assuming`: facts for the length of a block, and the scope that a question is asked in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.facts import Fact
from intset.scopes import Block, entered_blocks

if TYPE_CHECKING:
    from intset.context import Context, Frame


class Assuming(Block["Context"]):
    """The facts of one `with ctx.assuming(...)` block."""

    entered = entered_blocks("intset_assuming")
    inherited = False

    def __init__(self, context: Context, facts: tuple[Fact, ...]) -> None:
        self.context, self.facts = context, facts
        self._made: tuple[tuple[Fact, ...], Frame] | None = None

    def enter(self) -> Context:
        self.frame((*frame_of(self.context).facts, *self.facts))
        return self.context

    def frame(self, facts: tuple[Fact, ...]) -> Frame:
        """The scope while this is the innermost block and `facts` hold; kept until there are others."""
        made = self._made
        if made is None or made[0] != facts:
            made = self._made = (facts, self.context._root.stating(facts))
        return made[1]


def frame_of(context: Context) -> Frame:
    """The scope of a context here: in this thread or task, inside the blocks it has entered. It never changes."""
    return context._frame


def within_blocks(context: Context) -> Frame:
    """The same, where some block has been entered."""
    blocks = [block for block in Assuming.in_force() if block.context is context]
    if not blocks:
        return context._root
    return blocks[-1].frame((*context._root.facts, *(fact for block in blocks for fact in block.facts)))

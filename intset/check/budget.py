"""`CheckBudget`: how much work one certificate may cause, whatever its kind, in steps of the checker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.length import MAX_BITS
from intset.expr.node import Node
from intset.expr.walk import postorder

STEPS: Final = 1_500_000  # operations on short integers, each about half a microsecond
STEPS_AN_ISL_OPERATION: Final = 3
Z3_UNITS_A_STEP: Final = 4
_WORD: Final = 64
_WORDS_A_STEP: Final = 64  # products of machine words that take as long as one step of an interpreter


class CheckBudget:
    """The steps that are left to check one certificate with all its parts.

    Guarantee: the count depends on the certificate alone, and work is counted before it is done.

    Attributes
    ----------
    left: the steps that may still be spent.
    is_spent: whether more was asked for, so that a rejection says nothing about the claim.
    """

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps
        self.is_spent = False

    def spend(self, steps: int) -> None:
        """Count work that is about to be done; `BudgetError` where too little is left for it."""
        self.left -= steps
        if self.left < 0:
            self.is_spent = True
            raise BudgetError(f"the certificate takes more than {STEPS} steps to check")

    def spend_nodes(self, *roots: Node) -> None:
        """Count a walk over every node below the roots."""
        for _ in postorder(roots):
            self.spend(1)

    def evaluation(self, root: Node, bits: Mapping[Any, int]) -> int:
        """The steps that one evaluation of `root` takes, given how many bits the leaves have.

        Products and quotients cost the product of the lengths of their operands. Both branches of a choice count.

        Raises
        ------
        BudgetError: a number of more than `MAX_BITS` bits may be met, or the walk itself is too long.
        """
        lengths: dict[Node, int] = {}
        total = 0
        for node in postorder((root,)):
            self.spend(1)
            below = [lengths[arg] for arg in node.args]
            found = _bits(node, below, bits)
            if found > MAX_BITS:
                self.spend(self.left + 1)
            words = [1 + length // _WORD for length in (*below, found)]
            is_product = len(below) == 2 and (node.op is ops.MUL or node.op in ops.DIVISIONS)
            total += 1 + (words[0] * words[1] if is_product else max(words)) // _WORDS_A_STEP
            lengths[node] = found
        return total


def _bits(node: Node, below: list[int], leaves: Mapping[Any, int]) -> int:
    """How many bits the value of a node may have; of a load the number that the point gives it."""
    if node.op is ops.CONST:
        return int(node.data.bit_length())
    if not below or node.op is ops.LOAD:
        return leaves.get(node, 1)
    if node.op is ops.MUL:
        return sum(below)
    if node.op is ops.SHL:
        return below[0] + (1 << min(below[1], MAX_BITS.bit_length()))
    if node.op is ops.CAST:
        return int(max(below[0], node.data[0])) + 1
    return 1 + max(below)

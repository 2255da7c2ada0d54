"""`CheckBudget`: the step limit of one certificate check, common to all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from intset.budgets import CHECK_STEPS, LONGEST_VALUE
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.dag import postorder
from intset.expr.node import Node

_WORD: Final = 64
_WORDS_A_STEP: Final = 64  # word products per interpreter step


class CheckBudget:
    """Remaining steps for one certificate with all its parts.

    Guarantee: the count is a function of the certificate, and work is charged in advance.

    Attributes
    ----------
    left: remaining steps.
    is_spent: whether the check ran out of steps; then a rejection is inconclusive.
    """

    def __init__(self, steps: int = CHECK_STEPS) -> None:
        self.left = steps
        self.is_spent = False

    def spend(self, steps: int) -> None:
        """Charge steps in advance; BudgetError if too few remain."""
        self.left -= steps
        if self.left < 0:
            self.is_spent = True
            raise BudgetError(f"the certificate takes more than {CHECK_STEPS} steps to check")

    def spend_nodes(self, *roots: Node) -> None:
        """Charge a walk over all nodes below the roots."""
        for _ in postorder(roots):
            self.spend(1)

    def evaluation(self, root: Node, bits: Mapping[Any, int]) -> int:
        """Steps of one evaluation of `root`, given bit lengths of the leaves.

        Products and quotients cost the product of their operands' lengths. Both branches of a choice count.

        Raises
        ------
        BudgetError: an intermediate value may exceed `LONGEST_VALUE` bits, or the walk is too long.
        """
        lengths: dict[Node, int] = {}
        total = 0
        for node in postorder((root,)):
            self.spend(1)
            below = [lengths[arg] for arg in node.args]
            found = _bits(node, below, bits)
            if found > LONGEST_VALUE:
                self.spend(self.left + 1)
            words = [1 + length // _WORD for length in (*below, found)]
            is_product = len(below) == 2 and (node.op is ops.MUL or node.op in ops.DIVISIONS)
            total += 1 + (words[0] * words[1] if is_product else max(words)) // _WORDS_A_STEP
            lengths[node] = found
        return total


def _bits(node: Node, below: list[int], leaves: Mapping[Any, int]) -> int:
    """An upper bound on the bit length of a node's value; loads take theirs from the point."""
    if node.op is ops.CONST:
        return int(node.data.bit_length())
    if not below or node.op is ops.LOAD:
        return leaves.get(node, 1)
    if node.op is ops.MUL:
        return sum(below)
    if node.op is ops.SHL:
        return below[0] + (1 << min(below[1], LONGEST_VALUE.bit_length()))
    if node.op is ops.CAST:
        return int(max(below[0], node.data[0])) + 1
    return 1 + max(below)

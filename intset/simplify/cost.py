"""What an expression costs: the sum, over its tree, of a weight of each operation; by it simplification picks.

Leaves (variables, constants, truth values) cost nothing. The tree is what is counted, not the graph: a shared part
counts as often as it is written. Counting is linear in the graph all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import mapped
from intset.expr.node import Cond, IntLike, Node, as_int
from intset.expr.ops import Op
from intset.expr.text import shown
from intset.expr.walk import postorder_until

LEAVES: Final = frozenset((ops.CONST, ops.VAR, ops.BOOL))
_DEARER: Final = {**dict.fromkeys(ops.DIVISIONS, 6), ops.SELECT: 3, ops.MIN: 2, ops.MAX: 2, ops.ABS: 2, ops.LOAD: 4}

COST: Final[Mapping[str, int]] = MappingProxyType(
    {name: _DEARER.get(op, 1) for name, op in ops.OPS.items() if op not in LEAVES}
)
"""The weight of each operation, by its name: divisions, selects and choices are dearer than the rest."""

Price: TypeAlias = "tuple[int, int]"  # (the sum of the weights, the number of operations)


def weights(given: Mapping[str, int] | None) -> Mapping[str, int]:
    """`COST` with the weights of `given` in place of its own.

    Raises
    ------
    InputError: a name that `COST` does not have, or a weight that is no integer of at least 1.
    """
    if given is None:
        return COST
    table = dict(COST)
    for name, value in mapped(given, "cost", "a mapping from names of operations to weights").items():
        if name not in COST:
            raise InputError(f"cost: there is no operation {shown(name)}; it is one of {', '.join(COST)}")
        weight = as_int(value, f"the weight of {name}")
        if weight < 1:
            raise InputError(f"the weight of {name} must be at least 1, not {weight}")
        table[name] = weight
    return table if given else COST


class Pricing:
    """Prices of expressions by one table; each node of a graph is counted once."""

    __slots__ = ("_prices", "_weights")

    def __init__(self, table: Mapping[str, int] = COST) -> None:
        self._weights: dict[Op, int] = {ops.OPS[name]: weight for name, weight in table.items()}
        self._prices: dict[Node, Price] = {}

    def price(self, root: Node) -> Price:
        """(cost, number of operations) of the tree of `root`."""
        prices = self._prices
        found = prices.get(root)
        if found is not None:
            return found
        for node in postorder_until(root, prices):
            if not node.args:
                prices[node] = (0, 0) if node.op in LEAVES else (self._weights[node.op], 1)
                continue
            cost, count = self._weights[node.op], 1
            for arg in node.args:
                below = prices[arg]
                cost += below[0]
                count += below[1]
            prices[node] = (cost, count)
        return prices[root]


def cost(e: IntLike | Cond, table: Mapping[str, int] | None = None) -> int:
    """What `e` costs: the sum over its tree of the weight of each operation, which is at least 1; leaves are free.

    Parameters
    ----------
    e: an expression or a condition.
    table: weights by the name of the operation, in place of those of `COST`.

    Raises
    ------
    InputError: `e` is neither, or the table names an operation that does not exist or a weight below 1.

    Example
    -------
    >>> x = Var("x")
    >>> cost(x // 8 + 1), cost(x // 8 + 1, {"floordiv": 1})
    (7, 2)
    """
    if not isinstance(e, Node):
        as_int(e, "the expression")
        return 0
    return Pricing(weights(table)).price(e)[0]

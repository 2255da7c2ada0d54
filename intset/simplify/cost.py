"""The cost tables of expressions, and the counters that add them up.

There are two tables, both indexed by operation, because they answer two questions:

`COST`          what a reader pays: a weight for each operation as written. Simplification extracts the cheapest form by
                it (Tate et al., *Equality saturation*, POPL 2009). Users may replace weights (`simplify(e, cost=...)`).
`MACHINE_COST`  what a general-purpose 32- or 64-bit processor pays, in units of one addition. Division lowering picks
                rules by it. The C compiler turns a division by a constant into a multiplication by a magic number, a
                shift and an addition (Granlund and Montgomery, PLDI 1994): hence 5, not 25. A remainder by a constant
                adds `a - q*b`.

Leaves (variables, constants, truth values) are free in both. `Pricing` and `cost` count the tree: a shared part counts
once per occurrence. `machine_cost` counts the graph: shared parts are computed once. All run in time linear in the
graph. `lowering/forms/model.py` counts the work of whole loop nests, in fitted kinds of work rather than operations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from intset.errors import InputError
from intset.expr import ops
from intset.expr.arguments import mapped
from intset.expr.dag import postorder_beside
from intset.expr.node import Cond, IntLike, Node, as_int, constant_value
from intset.expr.ops import Op
from intset.expr.printer import shown

LEAVES: Final = frozenset((ops.CONST, ops.VAR, ops.BOOL))
_WEIGHTS: Final = {**dict.fromkeys(ops.DIVISIONS, 6), ops.SELECT: 3, ops.MIN: 2, ops.MAX: 2, ops.ABS: 2, ops.LOAD: 4}

COST: Final[Mapping[str, int]] = MappingProxyType(
    {name: _WEIGHTS.get(op, 1) for name, op in ops.OPS.items() if op not in LEAVES}
)
"""The weight of each operation, by name: divisions, selects, minima and maxima weigh more than the rest."""

DIVISION: Final = 25  # by a variable: the processor's divide instruction
DIVISION_BY_CONSTANT: Final = 5
REMAINDER_BY_CONSTANT: Final = 9

MACHINE_COST: Final[Mapping[Op, int]] = MappingProxyType(
    {
        **dict.fromkeys(ops.OPS.values(), 1),
        **dict.fromkeys((*LEAVES, ops.CAST, ops.ASSERTING), 0),
        **dict.fromkeys((ops.SELECT, ops.MIN, ops.MAX, ops.ABS), 2),
        ops.MUL: 3,
        ops.LOAD: 4,
        **dict.fromkeys(ops.DIVISIONS, DIVISION),
    }
)
"""Additions per operation on a processor; `operation_cost` refines divisions by constants."""

ExprCost: TypeAlias = "tuple[int, int]"  # (sum of the weights, number of operations)


def weights(overrides: Mapping[str, int] | None) -> Mapping[str, int]:
    """`COST` updated with `overrides`, a mapping from operation names to weights.

    Raises
    ------
    InputError: an unknown operation name, or a weight other than a positive integer.
    """
    if overrides is None:
        return COST
    table = dict(COST)
    for name, value in mapped(overrides, "cost", "a mapping from names of operations to weights").items():
        if name not in COST:
            raise InputError(f"cost: there is no operation {shown(name)}; it is one of {', '.join(COST)}")
        weight = as_int(value, f"the weight of {name}")
        if weight < 1:
            raise InputError(f"the weight of {name} must be at least 1, not {weight}")
        table[name] = weight
    return table if overrides else COST


def _by_operation(table: Mapping[str, int]) -> dict[Op, int]:
    return {ops.OPS[name]: weight for name, weight in table.items()}


_BY_OPERATION: Final = _by_operation(COST)


class Pricing:
    """Tree costs of expressions by one weight table.

    Invariant: each distinct node is visited once in the lifetime of the object.
    """

    __slots__ = ("_costs", "_weights")

    def __init__(self, table: Mapping[str, int] = COST) -> None:
        self._weights = _BY_OPERATION if table is COST else _by_operation(table)
        self._costs: dict[Node, ExprCost] = {}

    def price(self, root: Node) -> ExprCost:
        """(sum of weights, number of operations) over the tree of `root`."""
        costs = self._costs
        known = costs.get(root)
        if known is not None:
            return known
        is_next = all(arg in costs for arg in root.args)
        for node in (root,) if is_next else postorder_beside(root, costs):
            if not node.args:
                costs[node] = (0, 0) if node.op in LEAVES else (self._weights[node.op], 1)
                continue
            total, count = self._weights[node.op], 1
            for arg in node.args:
                below = costs[arg]
                total += below[0]
                count += below[1]
            costs[node] = (total, count)
        return costs[root]


def cost(e: IntLike | Cond, table: Mapping[str, int] | None = None) -> int:
    """The sum of operation weights over the tree of `e`; leaves are free.

    Parameters
    ----------
    e: an expression or a condition.
    table: weights by operation name that override those of `COST`.

    Raises
    ------
    InputError: `e` is no expression or condition; the table names an unknown operation or has a weight below 1.

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


def operation_cost(node: Node) -> int:
    """The machine cost of the operation at the root of `node`, without its operands."""
    if node.op not in ops.DIVISIONS or constant_value(node.args[1]) is None:
        return MACHINE_COST.get(node.op, 1)
    return REMAINDER_BY_CONSTANT if node.op in (ops.FLOORMOD, ops.TRUNCMOD) else DIVISION_BY_CONSTANT


def machine_cost(root: Node, available: Collection[Node] = ()) -> int:
    """The machine cost of computing `root`, each distinct node once; nodes in `available` are computed already."""
    total, seen, stack = 0, set(available), [root]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            total += operation_cost(node)
            stack.extend(node.args)
    return total

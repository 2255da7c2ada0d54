"""Constant tables: a tree of selections between constants, over loop variables, as an array that is read.

    select(r == 0 and c == 0, 1.0, select(r == 0 and c == 1, 0.0, ...))    becomes    table[r * 4 + c]

as constant matrices of schedules are written (the transforms of a Winograd convolution, filters, lookup tables). In a
rolled loop every comparison of the tree would be made for every element.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Var
from intset.expr.walk import opaque_terms

FEWEST: Final = 4  # selections from which on a table is worth its memory
MOST: Final = 4096  # elements of a table

Spans = Mapping[Var, tuple[int, int]]  # first and last value of loop variables


@dataclass(frozen=True)
class Table:
    """Values for all points of a box of loop variables, the last one fastest."""

    variables: tuple[Var, ...]
    firsts: tuple[int, ...]
    extents: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str


def tables_below(operand: Operand, spans: Spans) -> dict[Value, Table]:
    """The largest selections below an operand that are tables over variables with known ends."""
    found: dict[Value, Table] = {}
    inside: set[Any] = set()
    for node in reversed(list(walk.nodes(operand))):  # users before what they use
        if node in inside or not isinstance(node, Value) or node.op is not ValueOp.SELECT:
            continue
        tree = _tree(node)
        if tree is None:
            continue
        inside.update(tree)
        table = _table(node, tree, spans)
        if table is not None:
            found[node] = table
    return found


def _tree(root: Value) -> dict[Any, Cond] | None:
    """The selections of a tree with their conditions, where leaves are constants and conditions read no data."""
    selects: dict[Any, Cond] = {}
    stack: list[Any] = [root]
    while stack:
        node = stack.pop()
        if node in selects or node.op is ValueOp.CONST:
            continue
        if node.op is not ValueOp.SELECT or not isinstance(node.args[0], Cond) or opaque_terms(node.args[0]):
            return None
        selects[node] = node.args[0]
        stack += [node.args[2], node.args[1]]
    return selects


def _table(root: Value, tree: Mapping[Any, Cond], spans: Spans) -> Table | None:
    variables = tuple(dict.fromkeys(v for cond in tree.values() for v in cond.free_vars()))
    if len(tree) < FEWEST or any(v not in spans for v in variables):
        return None
    ranges = [range(spans[v][0], spans[v][1] + 1) for v in variables]
    count = 1
    for r in ranges:
        count *= len(r)
    if not 0 < count <= MOST:
        return None
    values = []
    for point in product(*ranges):
        at = dict(zip(variables, point, strict=True))
        node: Any = root
        while node.op is ValueOp.SELECT:
            try:
                holds = evaluate(node.args[0], at)
            except ArithmeticError:
                return None
            node = node.args[1] if holds else node.args[2]
        values.append(node.data)
    return Table(variables, tuple(r[0] for r in ranges), tuple(map(len, ranges)), tuple(values), root.dtype)

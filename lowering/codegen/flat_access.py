"""Accesses by the number of the element in row-major storage; selections between constants as tables.

`A[i // n][i % n]` with n columns is element i: quotient and remainder of one division cancel. A tree of selections,

    select(r == 0 and c == 0, 1.0, select(r == 0 and c == 1, 0.0, ...))    becomes    table[r * 4 + c]

Schedules write constant matrices (Winograd transforms, filters, lookup tables) as such trees; a rolled loop would
compare for every element.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from bound import dtypes
from bound.schedule import simple
from bound.tensor import Tensor, load
from bound.tir import walk
from bound.tir.value import Operand, Value, ValueOp
from bound.tir.value import make as make_value
from intset.errors import InputError
from intset.expr import ops
from intset.expr.dag import is_small, opaque_terms, postorder, rewrite
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, Var, const, make
from lowering.nest.ir import For
from lowering.nest.scope import Scope
from lowering.passes.values.index_width import offset

MAX_NODES: Final = 100  # larger indices are not simplified
MIN_SELECTS: Final = 4  # smaller trees do not pay for the memory of a table
MAX_ELEMENTS: Final = 4096  # of a table
_DIVIDING: Final = frozenset((*ops.DIVISIONS, ops.SHR, ops.BITAND))
_BY_BITS: Final = {ops.FLOORDIV: ops.SHR, ops.FLOORMOD: ops.BITAND}
_ROUNDED: Final = (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV)  # operations that C does not have


def flat_index(indices: Iterable[Expr], shape: Iterable[Expr], scope: Scope) -> Expr:
    """The number of an element in row-major storage.

    Guarantee: its steps are those of the row-major sum, which `narrow` examines, or need no wider type than these.

    Parameters
    ----------
    scope: what holds at the access.
    """
    index = offset(indices, shape)
    if is_small(MAX_NODES, (index,)) and any(node.op in _DIVIDING for node in postorder((index,))):
        return _without_rounding(scope.ctx.simplify(index, bits=32), index)
    return index


def _without_rounding(e: Expr, plain: Expr) -> Expr:
    """`e` with shifts and masks for divisions by powers of two; `plain` if a rounding remains that it lacks."""
    new: dict[Node, Node] = {}
    for node in postorder((e,)):
        if node.op in _BY_BITS and node.args[1].op is ops.CONST and (c := node.args[1].data) > 0 and c & (c - 1) == 0:
            number = c.bit_length() - 1 if node.op is ops.FLOORDIV else c - 1
            new[node] = make(_BY_BITS[node.op], (rewrite(node.args[0], new), const(number)))
    lowered: Expr = rewrite(e, new)
    own = {node.op for node in postorder((plain,))}
    return plain if any(node.op in _ROUNDED and node.op not in own for node in postorder((lowered,))) else lowered


def flattened(operand: Operand, shapes: Mapping[Tensor, tuple[Expr, ...]], scope: Scope) -> Operand:
    """An operand whose loads read elements by their number in storage.

    Raises
    ------
    InputError: a tensor has no storage at this point.
    """

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand:
        if tensor not in shapes:
            raise InputError(f"{tensor.name} is read where it has no storage")
        index = flat_index(indices, shapes[tensor], scope)
        if dtypes.is_int(tensor.dtype):
            element: Operand = make(ops.LOAD, (index,), tensor.element)
            return element
        return make_value(ValueOp.LOAD, (index,), tensor.dtype, tensor)

    rewritten: Operand = walk.rewrite(operand, on_load=on_load)
    return rewritten


@dataclass(frozen=True)
class ConstantTable:
    """A tree of selections as values over a box of loop variables, the last variable fastest."""

    variables: tuple[Var, ...]
    firsts: tuple[int, ...]
    extents: tuple[int, ...]
    values: tuple[Any, ...]
    dtype: str

    def element(self, table: Tensor) -> Value:
        """The load from `table` that replaces the tree."""
        indices = [simple.sub(v, low) for v, low in zip(self.variables, self.firsts, strict=True)]
        return load(table, (offset(indices, [const(n) for n in self.extents]),))


def constant_tables(operand: Operand, loops: Iterable[For]) -> dict[Value, ConstantTable]:
    """The largest selections below an operand that are tables over variables of `loops`."""
    tables: dict[Value, ConstantTable] = {}
    inside: set[Any] = set()
    for node in reversed(list(walk.nodes(operand))):  # users before operands
        if node in inside or not isinstance(node, Value) or node.op is not ValueOp.SELECT:
            continue
        tree = _select_tree(node)
        if tree is None:
            continue
        inside.update(tree)
        limits = {loop.var: loop.range.ends for loop in loops}
        table = _table(node, tree, {v: ends for v, ends in limits.items() if ends is not None})
        if table is not None:
            tables[node] = table
    return tables


def _select_tree(root: Value) -> dict[Any, Cond] | None:
    """Selections of a constant-leaf tree, mapped to their conditions; `None` for data-dependent conditions."""
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


def _table(root: Value, tree: Mapping[Any, Cond], limits: Mapping[Var, tuple[int, int]]) -> ConstantTable | None:
    variables = tuple(dict.fromkeys(v for cond in tree.values() for v in cond.free_vars()))
    if len(tree) < MIN_SELECTS or any(v not in limits for v in variables):
        return None
    ranges = [range(limits[v][0], limits[v][1] + 1) for v in variables]
    if not 0 < prod(map(len, ranges)) <= MAX_ELEMENTS:
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
    return ConstantTable(variables, tuple(r[0] for r in ranges), tuple(map(len, ranges)), tuple(values), root.dtype)

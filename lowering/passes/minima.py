"""Names for long minima: where the storage of a tensor begins, computed once for each time it is allocated."""

from __future__ import annotations

from typing import Final

from bound.tir import walk
from intset.expr import ops
from intset.expr.node import Expr, Var
from intset.expr.walk import postorder
from lowering.nest.driver import Descent, rewritten
from lowering.nest.ir import Allocate, Function, Let, Seq, Stmt, seq
from lowering.nest.walk import range_ends, transform

MAX_NODES: Final = 9  # expressions of more nodes, and selects, get a name
_RING: Final = (ops.VAR, ops.CONST, ops.NEG, ops.ADD, ops.SUB, ops.MUL)


def name_minima(f: Function) -> Function:
    """The function with a `Let` for every long minimum of an allocation, above the sequence it stands in.

    Wherever the same expression is used behind it, the name stands for it: in the loops that fill the storage, in the
    indices that read it.
    """
    return f.with_body(rewritten(f.body, Descent(), leave={Seq: (_name_long_minima,)}))


def _name_long_minima(block: Stmt, _: Descent) -> Stmt:
    """A sequence with a name for each long minimum of its allocations; the names stand first."""
    assert isinstance(block, Seq)
    lets: list[Stmt] = []
    names: dict[Expr, Var] = {}
    for inner in block.stmts:
        if isinstance(inner, Allocate):
            for k, r in enumerate(inner.ranges):
                low = range_ends(r)[0]
                if low not in names and _is_long(low):
                    var = Var(f"{inner.tensor.name}.min{k}")
                    lets.append(Let(var, walk.rewrite(low, dict(names))))
                    names[low] = var
    return seq(*lets, transform(block, lambda e: walk.rewrite(e, dict(names)))) if names else block


def _is_long(e: Expr) -> bool:
    nodes = list(postorder((e,)))
    if all(node.op in _RING for node in nodes):
        return False  # a polynomial cancels against the indices, its name would not
    return len(nodes) > MAX_NODES or any(node.op is ops.SELECT for node in nodes)

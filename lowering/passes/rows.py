"""What a loop stores under a condition on the loops around it is decided once for the whole loop.

for x in [0, 16):                                        if y < 9:
    P[y, x] = select((y < 9) & (x < 9), A[y, x], 0)  ->      for x in [0, 16):
                                                                 P[y, x] = select(x < 9, A[y, x], 0)
                                                         else:
                                                             for x in [0, 16):
                                                                 P[y, x] = 0
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bound.tir import build, walk
from bound.tir.value import Operand, Value, ValueOp
from intset.expr import ops
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness
from intset.expr.node import Cond, Expr
from intset.expr.walk import conjuncts, opaque_terms
from lowering.nest.ir import For, Function, If, LoopKind, Stmt, Store
from lowering.nest.walk import rebuilt
from lowering.passes.unique import with_fresh_names

_TAKEN: Final = (LoopKind.SERIAL, LoopKind.VECTORIZED, LoopKind.UNROLLED)


def decide_rows(f: Function, is_all: bool = False) -> Function:
    """The function in which a loop that fills a row by one choice makes what is the same for the row before it.

    Taken are loops of one store of a choice whose other value is a number, so that little is written twice; with
    `is_all` those whose other value reads no more than one element, too.
    """
    return f.with_body(rebuilt(f.body, lambda stmt: _decided(stmt, is_all)))


def _decided(loop: Stmt, is_all: bool) -> Stmt:
    if not isinstance(loop, For):
        return loop
    store = loop.body
    if not isinstance(store, Store) or loop.kind not in _TAKEN or loop.carried:
        return loop
    value = store.value
    if value.op not in (ops.SELECT, ValueOp.SELECT):
        return loop
    cond, taken, other = value.args
    if not isinstance(cond, Cond) or not (_is_number(other) or (is_all and walk.loaded_tensor(other) is not None)):
        return loop
    is_same = {part: not any(v is loop.var for v in part.free_vars()) and _is_total(part) for part in conjuncts(cond)}
    same, rest = ([part for part, own in is_same.items() if own is way] for way in (True, False))
    if not same:
        return loop
    row = replace(loop, body=replace(store, value=_chosen(rest, taken, other)))
    return If(logical_and(*same), row, with_fresh_names(replace(loop, body=replace(store, value=other))))


def _chosen(parts: list[Cond], taken: Operand, other: Operand) -> Operand:
    if not parts:
        return taken
    cond = logical_and(*parts)
    if isinstance(taken, Expr) and isinstance(other, Expr):
        return select(cond, taken, other)
    return build.select(cond, taken, other)


def _is_number(e: Operand) -> bool:
    return e.op is ops.CONST or (isinstance(e, Value) and e.op is ValueOp.CONST)


def _is_total(cond: Cond) -> bool:
    """Whether a condition may be asked where the loop does not run."""
    return not opaque_terms(cond) and not definedness((cond,))

"""`remove_undef`: unknown values are not stored, or become 0."""

from __future__ import annotations

from dataclasses import replace

from bound import dtypes
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import Operand, Value, constant
from bound.tir.walk import loaded_tensor
from intset.expr import ops
from intset.expr.dag import reachable
from intset.expr.node import const, truth
from lowering.nest.driver import Cursor, StmtRules, cursors, rewritten, with_statements
from lowering.nest.ir import Assume, Evaluate, For, Function, If, Seq, Stmt, Store, checked_function
from lowering.nest.scope import proves
from lowering.nest.undef import has_undef, is_undef, undefs
from lowering.nest.walk import map_operands, operands, statements, tensors_read
from lowering.passes.report import Entry, PassReport
from lowering.passes.simplify import drop_idle_branch, drop_idle_loop
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.reaching_values import ReachingValues
from lowering.passes.values.integers import LAZY


def remove_undef(f: Function, report: list[Entry] | None = None) -> Function:
    """Remove `undef()` everywhere except in assumptions.

    A store of an unknown value is dropped. It stores 0 instead if a later read would otherwise meet an uninitialized
    element; an `undef()` that only some points select becomes 0, too.

    Guarantee: an unknown value becomes a known one, never the reverse; passes that use element contents lose nothing.

    Parameters
    ----------
    report: receives one `Entry` per store of an `undef()`.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_undef")
    checked = check_assumptions(f)
    if not any(has_undef(*operands(s)) for s in statements(f.body) if not isinstance(s, Assume)):
        return f
    decisions = PassReport(f)
    unknown = [at for at in cursors(f) if isinstance(at.stmt, Store) and always_undef(at.stmt.value)]
    read = _read_before_written(checked or ReachingValues(f), unknown) if unknown else set()
    gone = {at.path for at in unknown} - read
    for at in unknown:
        if at.path in gone:
            decisions.say(at.path, True, "a value that nobody knows is not stored")
        else:
            decisions.say(at.path, True, "0 is stored: what reads the element would meet one that holds nothing")

    def remove_store(stmt: Store, cursor: Cursor) -> Stmt:
        if cursor.path in gone:
            return Seq()
        return replace(stmt, value=zero(stmt.tensor.dtype)) if cursor.path in read else stmt

    def store_zeros(stmt: Stmt, cursor: Cursor) -> Stmt:
        if not has_undef(*operands(stmt)):
            return stmt
        decisions.say(cursor.path, True, "0 takes the place of an undef() that is not always what counts")
        return map_operands(stmt, _with_zeros)

    leave: StmtRules[Cursor] = {
        Stmt: (store_zeros,),
        Store: (remove_store, store_zeros),
        For: (drop_idle_loop, store_zeros),
        If: (drop_idle_branch, store_zeros),
        Assume: (),
    }
    body = rewritten(f.body, Cursor.root(f), leave=leave)
    decisions.give(report)
    return f.with_body(body)


def always_undef(value: Operand) -> bool:
    """Whether every evaluation of a value involves an `undef()`."""
    return any(
        is_undef(node) or (node.op is ops.SELECT and all(map(always_undef, node.args[1:])))
        for node in reachable([value], lambda node: () if node.op in LAZY else node.args)
    )


def zero(dtype: str) -> Operand:
    """The 0 of a type."""
    if dtypes.is_int(dtype):
        return const(0)
    return truth(False) if dtype == "bool" else constant(0.0, dtype)


def _with_zeros(operand: Operand) -> Operand:
    if not has_undef(operand):
        return operand
    new = {node: zero(node.dtype) if isinstance(node, Value) else const(0) for node in undefs(operand)}
    return walk.rewrite(operand, new)


def _read_before_written(reaching: ReachingValues, stores: list[Cursor]) -> set[tuple[int, ...]]:
    """The paths of stores whose removal would expose an uninitialized element to a read."""
    f = reaching.f
    removed = {at.path for at in stores}
    targets = {at.stmt.tensor for at in stores if isinstance(at.stmt, Store)}
    candidates: list[tuple[Cursor, Operand | Tensor, set[tuple[int, ...]]]] = []
    for at in cursors(f):
        if not targets & _read_by(at.stmt):
            continue
        for node, sources in reaching.sources(at).items():
            writers = {s.path for s in sources if s.path in removed}
            if any(s.kind == "unknown" and s.path is None for s in sources):
                tensor = node if isinstance(node, Tensor) else loaded_tensor(node)
                writers |= {w.path for w in stores if isinstance(w.stmt, Store) and w.stmt.tensor is tensor}
            if writers:
                candidates.append((at, node, writers))
    if not candidates:
        return set()
    # Reaching values without these stores; an assumption that reads nothing keeps the paths.
    bare = with_statements(f, dict.fromkeys((at.path for at in stores), Assume(truth(True), True)))
    without = ReachingValues(bare, reaching.account)
    positions = {at.path: at for at in cursors(bare)}
    needed: set[tuple[int, ...]] = set()
    for at, node, writers in candidates:
        for source in without.sources(positions[at.path]).get(node, ()):
            is_written = source.kind in ("store", "assume") and source.path is not None
            if not is_written and not proves(at.scope, ~source.where):
                needed |= writers
    return needed


def _read_by(stmt: Stmt) -> set[Tensor]:
    whole = stmt.reads if isinstance(stmt, Evaluate) else ()
    return {*whole, *tensors_read(*operands(stmt))}

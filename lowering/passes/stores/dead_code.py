"""Dead code elimination: dead storage and names (`drop_dead`), no-op stores (`remove_no_op`), empty loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import intset
from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, Value
from intset.budgets import NO_OP_ROUNDS
from intset.config import Effort, tiers_within
from intset.expr.node import Cond, Expr, truth
from lowering.dataflow import account_of
from lowering.nest.driver import Cursor, Descent, StmtRules, cursors, rewritten
from lowering.nest.ir import (
    Allocate,
    Assume,
    Carry,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Seq,
    Stmt,
    Store,
    checked_function,
    seq,
)
from lowering.nest.scope import Scope, proof_of, proves
from lowering.nest.undef import has_undef
from lowering.nest.walk import (
    calls,
    operands,
    range_ends,
    replaced,
    statements,
    tensors_read,
    touched,
    variables,
)
from lowering.passes.report import Entry, Report
from lowering.passes.simplify import drop_idle_branch, drop_idle_loop
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.reaching_values import ReachingValues, ValueCase, same


def drop_dead(f: Function) -> Function:
    """Drop tensors that no output depends on, with the computation of them, and unused names.

    A tensor that only its own elements read counts as dead.

    Guarantee: parameters end with the same elements, and host calls see the same arrays.
    """
    checked_function(f, "drop_dead")
    live = _live_tensors(f)
    while True:  # an unused name may use another
        used = {v for stmt in statements(f.body) if _is_live(stmt, live) for v in variables(*operands(stmt))}
        new = f.with_body(_without_dead(f.body, live, used))
        if _names(new) == _names(f):
            return new
        f = new


def _without_dead(root: Stmt, live: set[Tensor], used: set[Parameter]) -> Stmt:
    """Drop stores and storage of dead tensors, and unused names."""

    def drop_store(stmt: Stmt, _: Descent) -> Stmt:
        return stmt if _is_live(stmt, live) else Seq()

    def drop_name(stmt: Let, _: Descent) -> Stmt:
        return stmt if stmt.var in used else Seq()

    rules: StmtRules[Descent] = {
        Store: (drop_store,),
        Allocate: (drop_store,),
        Let: (drop_name,),
        For: (drop_idle_loop, _drop_unused_carries),
        If: (drop_idle_branch,),
    }
    return rewritten(root, Descent(), leave=rules)


def _drop_unused_carries(loop: For, _: Descent) -> For:
    """Drop the variables that a loop carries and nothing in it needs."""
    needed = _needed(loop, loop.body)
    return loop if len(needed) == len(loop.carried) else replace(loop, carried=needed)


def _names(f: Function) -> int:
    return sum(len(s.carried) if isinstance(s, For) else isinstance(s, Let) for s in statements(f.body))


def _is_live(stmt: Stmt, live: set[Tensor]) -> bool:
    return not isinstance(stmt, (Store, Allocate)) or stmt.tensor in live


def _live_tensors(f: Function) -> set[Tensor]:
    live = set(f.params)
    feeds: dict[Tensor, set[Tensor]] = {}
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate):
            live.update((*stmt.reads, *stmt.writes))
        read = tensors_read(*operands(stmt))
        if isinstance(stmt, Store):
            feeds.setdefault(stmt.tensor, set()).update(read)
        else:
            live.update(read)
    waiting = list(live)
    while waiting:
        new = feeds.get(waiting.pop(), set()) - live
        live |= new
        waiting += new
    return live


def _needed(loop: For, body: Stmt) -> tuple[Carry, ...]:
    """The loop-carried variables that the body needs, or that others of these need."""
    used = {v for stmt in statements(body) for v in variables(*operands(stmt))}
    waiting = [c for c in loop.carried if c.var in used]
    needed = set(waiting)
    while waiting:
        read = variables(waiting.pop().following)
        more = [c for c in loop.carried if c.var in read and c not in needed]
        needed.update(more)
        waiting += more
    return tuple(c for c in loop.carried if c in needed)


def without_unused(stmt: Stmt) -> Stmt:
    """A sequence without unused storage."""
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    if not any(isinstance(part, Allocate) for part in parts):
        return stmt
    used = set(touched(stmt)).union(*((*call.reads, *call.writes) for call in calls(stmt)))
    return seq(*(part for part in parts if not isinstance(part, Allocate) or part.tensor in used))


def remove_no_op(f: Function, report: list[Entry] | None = None) -> Function:
    """Remove statements without effect: dead and redundant stores, empty branches and loops, unused storage and names.

    Guarantee: parameters end with the same elements; no statement is added.

    Parameters
    ----------
    report: receives one `Entry` per store.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "remove_no_op")
    account = account_of(f)
    reaching = check_assumptions(f, account)
    report_of_stores = _StoreReport(f)
    for _ in range(NO_OP_ROUNDS):
        reaching = reaching or ReachingValues(f, account)
        gone = _dead_stores(reaching, report_of_stores) or _redundant_stores(reaching, report_of_stores)
        if not gone:
            break
        f, reaching = report_of_stores.without(f, gone), None
    else:
        report_of_stores.say(
            (), False, f"after {NO_OP_ROUNDS} rounds more may be left: the budget is spent", what="rounds"
        )
    report_of_stores.give(report)
    return _tidy(f)


class _StoreReport(Report):
    """A report on the stores of a nest that loses statements: paths are told as they were at first."""

    def __init__(self, f: Function) -> None:
        super().__init__(f)
        self._first = {cursor.path: cursor.path for cursor in cursors(f)}

    def store(self, cursor: Cursor, done: bool, reason: str, point: tuple[int, ...] | None = None) -> None:
        self.say(self._first.get(cursor.path, ()), done, reason, point)

    def without(self, f: Function, gone: set[tuple[int, ...]]) -> Function:
        """The function without the statements at some paths, and without loops and branches left empty."""
        first: dict[int, tuple[int, ...]] = {}

        def drop(stmt: Stmt, cursor: Cursor) -> Stmt:
            return Seq() if cursor.path in gone else stmt

        def note_path(stmt: Stmt, cursor: Cursor) -> Stmt:
            first[id(stmt)] = self._first.get(cursor.path, ())
            return stmt

        rules: StmtRules[Cursor] = {
            Stmt: (drop, note_path),
            For: (drop_idle_loop, note_path),
            If: (drop_idle_branch, note_path),
            Seq: (),
        }
        new = f.with_body(rewritten(f.body, Cursor.root(f), leave=rules))
        self._first = {cursor.path: first[id(cursor.stmt)] for cursor in cursors(new)}
        return new


def _dead_stores(reaching: ReachingValues, report: _StoreReport) -> set[tuple[int, ...]]:
    """The paths of stores whose every instance is dead, or redundant by the contents of its operands."""
    gone: set[tuple[int, ...]] = set()
    for cursor in cursors(reaching.f):
        if not isinstance(cursor.stmt, Store):
            continue
        dead = reaching.dead(cursor)
        unread = proof_of(cursor.scope, dead)
        if unread:
            report.store(cursor, True, "nobody reads its value")
            gone.add(cursor.path)
        elif reaching.changes_nothing(cursor, cursor.scope.where(~dead)):
            report.store(cursor, True, "the element holds that value already")
            gone.add(cursor.path)
        else:
            report.store(cursor, False, "its value is read, or kept at the end", cursor.point(unread))
    return gone


def _redundant_stores(reaching: ReachingValues, report: _StoreReport) -> set[tuple[int, ...]]:
    """The paths of stores that repeat the current contents of their element."""
    f = reaching.f
    writers = Counter(t for stmt in statements(f.body) for t in _written_or_assumed(stmt))
    gone: set[tuple[int, ...]] = set()
    for cursor in cursors(f):
        stmt = cursor.stmt
        if isinstance(stmt, Store) and writers[stmt.tensor] > 1 and _holds_already(stmt, cursor, reaching):
            report.store(cursor, True, "the element holds that value already")
            gone.add(cursor.path)
    return gone


def _written_or_assumed(stmt: Stmt) -> tuple[Tensor, ...]:
    """The arrays whose contents a statement determines."""
    if isinstance(stmt, Store):
        return (stmt.tensor,)
    return tensors_read(stmt.cond) if isinstance(stmt, Assume) else ()


def _holds_already(stmt: Store, cursor: Cursor, reaching: ReachingValues) -> bool:
    """Whether a store repeats the current contents of its element."""
    if has_undef(stmt.value):
        return False
    if any(not proves(cursor.scope, ~cond) for cond in reaching.unexplained(cursor)):
        return False
    cases: list[ValueCase] | None = None
    sources = reaching.before_store(cursor)
    for source in sources:
        here = cursor.scope.where(source.where)
        if proves(here, truth(False)):
            continue
        if source.value is None:
            return False
        value = source.value
        cases = list(reaching.cases(cursor, stmt.value)) if cases is None else cases
        if not all(_equal(case.values, case.where, stmt, value, here) for case in cases):
            return False
    return bool(sources)


def _equal(values: Mapping[Operand, Operand], where: Sequence[Cond], stmt: Store, held: Operand, scope: Scope) -> bool:
    here = scope.where(*where)
    value = replaced(stmt.value, values)
    if proves(here, truth(False)) or value is held:
        return True
    if isinstance(value, Expr) and isinstance(held, Expr):
        return proves(here, value.eq(held))
    return same(stmt, value, here) if isinstance(value, Value) else False


def _tidy(f: Function) -> Function:
    """Drop empty loops and branches, and storage and names that nothing uses, until nothing changes."""
    while True:
        used = set(touched(f.body)).union(*((*call.reads, *call.writes) for call in calls(f.body)))
        names = {v for stmt in statements(f.body) for v in variables(*operands(stmt))}
        new = f.with_body(_without_dead(f.body, used, names))
        if sum(1 for _ in statements(new.body)) == sum(1 for _ in statements(f.body)):
            return new
        f = new


def drop_empty(f: Function) -> Function:
    """Drop loops that are proved empty, and what was computed for them.

    Guarantee: the same stores in the same order. Each proof uses linear forms alone, because every loop asks for one.
    """

    def leave_out(loop: For, cursor: Cursor) -> Stmt:
        _, extent = range_ends(loop.range)
        return Seq() if cursor.scope.ctx.prove(extent <= 0) else loop

    with intset.using(tiers=tiers_within(Effort.LOOK_UP)):
        return drop_dead(f.with_body(rewritten(f.body, Cursor.root(f), leave={For: (leave_out,)})))

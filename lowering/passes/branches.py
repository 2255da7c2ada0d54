"""`simplify`: rules from ranges and conditions, and branches that the contents of elements decide, join or equate."""

from __future__ import annotations

from typing import Any, Final

from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.build import negation, together
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, ValueOp
from intset.expr import ops
from intset.expr.node import Cond
from lowering.nest.driver import Cursor, StmtRules, cursors, inside, rewritten
from lowering.nest.ir import For, Function, If, Seq, Stmt, Store, checked_function, is_empty, seq
from lowering.nest.scope import Scope, parts_of_condition, proves, written_in
from lowering.nest.walk import bound_in, free_variables, map_operands, operands, statements, tensors_read
from lowering.passes.report import Entry, Report
from lowering.passes.simplify import plain
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.reaching_values import ReachingValues

_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)


def simplify(f: Function, buffers: bool = True, report: list[Entry] | None = None) -> Function:
    """Simplify loops, branches and index expressions of a function.

    Loops of one iteration are inlined, decided conditions dropped, indices shortened. With `buffers` branches are also
    decided by what elements hold, branches with equal sides become one side, and adjacent branches on equivalent or
    opposite conditions are joined unless what they read changes between them.

    Guarantee: parameters end with the same elements; no statement runs that did not.

    Parameters
    ----------
    report: receives one `Entry` per branch, with `buffers` only.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "simplify")
    checked = check_assumptions(f)
    if not buffers:
        return plain(f)
    report_of_joins = Report(f)
    joined, lines = merge_branches(f, report_of_joins)
    report_of_decisions = Report(joined, lines)
    decided = decide_branches(joined, report_of_decisions, checked if joined is f else None)
    report_of_joins.give(report, report_of_decisions)
    return plain(decided)


# -- decided branches ----------------------------------------------------------------------------------------------


def decide_branches(f: Function, report: Report, reaching: ReachingValues | None = None) -> Function:
    """Drop the branches and choices that reaching values decide, and one of two equal branches.

    Parameters
    ----------
    reaching: the reaching values of `f`, if already computed.
    """
    rules = _BranchRules(reaching or ReachingValues(f), report)
    leave: StmtRules[Cursor] = {Stmt: (rules.without_choices,), If: (rules.apply_decision,), For: (), Seq: ()}
    return f.with_body(rewritten(f.body, Cursor.root(f), enter={If: (rules.decide,)}, leave=leave))


class _BranchRules:
    """The rules of `decide_branches`.

    `decide` runs before the statements inside are walked, so nothing is reported of dead branches; `apply_decision`
    runs afterwards, because the condition of a branch is a fact inside it.
    """

    def __init__(self, reaching: ReachingValues, report: Report) -> None:
        self.reaching, self.report = reaching, report
        self.undecided: dict[tuple[int, ...], list[Operand] | None] = {}  # `None`: the condition never holds

    def decide(self, stmt: If, cursor: Cursor) -> Stmt:
        """Empty a dead side of a branch."""
        parts: list[Operand] = []
        here = cursor
        for part in parts_of_condition(stmt.cond):
            holds = self.reaching.decides(here, part)
            if holds is False:
                self.undecided[cursor.path] = None
                self.report.say(cursor.path, True, "the condition never holds")
                return If(stmt.cond, Seq(), stmt.orelse)
            if holds is None:
                parts.append(part)
                here = here.moved(scope=here.scope.where(part))
        self.undecided[cursor.path] = parts
        return stmt if parts else If(stmt.cond, stmt.then)

    def apply_decision(self, stmt: If, cursor: Cursor) -> Stmt:
        """Replace a branch by its live side, or drop the decided parts of its condition."""
        parts = self.undecided[cursor.path]
        if parts is None:
            return Seq() if stmt.orelse is None else stmt.orelse
        if not parts:
            self.report.say(cursor.path, True, "the condition always holds")
            return stmt.then
        if stmt.orelse is not None and _are_equal(stmt.then, stmt.orelse):
            self.report.say(cursor.path, True, "both branches do the same")
            return stmt.then
        if len(parts) < len(parts_of_condition(stmt.cond)):
            self.report.say(cursor.path, True, "a part of the condition always holds")
            return If(together(*parts), stmt.then, stmt.orelse)
        self.report.say(cursor.path, False, *self.reaching.why_not_decided(cursor, parts[0]))
        return stmt

    def without_choices(self, stmt: Stmt, cursor: Cursor) -> Stmt:
        """Replace choices in the operands of a statement by the operand that is always chosen."""
        return map_operands(stmt, lambda operand: self._chosen(operand, cursor))

    def _chosen(self, operand: Operand, cursor: Cursor) -> Operand:
        new: dict[Operand, Operand] = {}
        for node in walk.nodes(operand):
            if node.op in _SELECTS:
                cond = node.args[0]
                holds = self.reaching.decides(cursor, cond)
                if holds is not None:
                    self.report.say(cursor.path, True, f"the choice by {cond!r} is always the same", what=repr(cond))
                    new[node] = walk.rewrite(node.args[1 if holds else 2], dict(new))
        return walk.rewrite(operand, new) if new else operand


def _are_equal(a: Stmt, b: Stmt) -> bool:
    """Whether two statements have the same text and the same free variables and tensors."""
    return str(a) == str(b) and _free(a) == _free(b)


def _free(root: Stmt) -> list[Any]:
    """The identities of the variables and tensors that a statement uses and does not bind."""
    own = bound_in(root)
    used: list[Parameter | Tensor] = list(free_variables(root))
    for stmt in statements(root):
        used += [t for t in tensors_read(*operands(stmt)) if t not in own]
        used += [stmt.tensor] if isinstance(stmt, Store) and stmt.tensor not in own else []
    return [id(thing) for thing in used]


# -- adjacent branches ---------------------------------------------------------------------------------------------


def merge_branches(f: Function, report: Report) -> tuple[Function, dict[tuple[int, ...], int]]:
    """Join adjacent branches whose conditions are equivalent or opposite.

    Returns
    -------
    The function, and for each path of it the line that the statement has in the text of `f`; the first of two lines
    where branches were joined.
    """
    origin: dict[int, tuple[int, ...]] = {}

    def note_origin(stmt: Stmt, cursor: Cursor) -> Stmt:
        origin[id(stmt)] = cursor.path
        return stmt

    def join(stmt: Seq, cursor: Cursor) -> Stmt:
        return _with_joined_branches(stmt, cursor, report, origin)

    leave: StmtRules[Cursor] = {Stmt: (note_origin,), Seq: (join, note_origin)}
    joined = f.with_body(rewritten(f.body, Cursor.root(f), leave=leave))
    if str(joined) == str(f):
        joined, origin = f, {id(cursor.stmt): cursor.path for cursor in cursors(f)}
    return joined, {cursor.path: report.line(origin[id(cursor.stmt)]) for cursor in cursors(joined)}


def _with_joined_branches(stmt: Seq, cursor: Cursor, report: Report, origin: dict[int, tuple[int, ...]]) -> Stmt:
    """Join each branch with its predecessor if their conditions allow it."""
    kept: list[tuple[Stmt, Cursor]] = []
    for part, here in inside(stmt, cursor):
        before, there = kept[-1] if kept else (None, here)
        if isinstance(before, If) and isinstance(part, If):
            joined, reason = _joined(before, part, there.scope)
            if reason:
                report.say(here.path, joined is not None, reason, what="sequence")
            if joined is not None:
                origin[id(joined)] = there.path
                kept[-1] = (joined, there)
                continue
        kept.append((part, here))
    return stmt if len(kept) == len(stmt.stmts) else seq(*(part for part, _ in kept))


def _joined(a: If, b: If, scope: Scope) -> tuple[If | None, str]:
    """Two adjacent branches as one, and a reason; an empty reason if the conditions are unrelated."""
    is_same = a.cond is b.cond or _equivalent(a.cond, b.cond, scope)
    if not is_same and not _opposite(a.cond, b.cond, scope):
        return None, ""
    changed = written_in(a)
    data = [t.name for t in tensors_read(b.cond) if t in changed]
    if data:
        return None, f"the condition is that of the branch before it, but {data[0]} may have changed"
    first, second = (b.then, b.orelse) if is_same else (b.orelse, b.then)
    then = seq(a.then, *([] if first is None else [first]))
    sides = [side for side in (a.orelse, second) if side is not None]
    orelse = seq(*sides) if sides else None
    relation = "is that" if is_same else "is the opposite of that"
    joined = If(a.cond, then, None if orelse is None or is_empty(orelse) else orelse)
    return joined, f"the condition {relation} of the branch before it"


def _equivalent(a: Operand, b: Operand, scope: Scope) -> bool:
    if not isinstance(a, Cond) or not isinstance(b, Cond):
        return False
    return proves(scope.where(a), b) and proves(scope.where(b), a)


def _opposite(a: Operand, b: Operand, scope: Scope) -> bool:
    if negation(a) is b or negation(b) is a:
        return True
    if not isinstance(a, Cond) or not isinstance(b, Cond):
        return False
    return proves(scope.where(a), ~b) and proves(scope.where(~a), b)

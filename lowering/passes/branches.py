"""Branches: those that what elements hold decides, those that are equal, and sequential ones that go together."""

from __future__ import annotations

from typing import Any, Final

from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.build import negation, together
from bound.tir.reduce import Parameter
from bound.tir.value import Operand, ValueOp
from intset.expr import ops
from intset.expr.node import Cond
from lowering.nest.ir import For, Function, If, Seq, Stmt, Store, checked_function, is_empty, seq
from lowering.nest.scope import Scope, written_in
from lowering.nest.walk import (
    Visit,
    drive,
    free_variables,
    map_operands,
    operands,
    statements,
    tensors_read,
    with_children,
)
from lowering.passes.places import Entry, Place, Report, bound_in, parts_of_condition, places, proves, root_of
from lowering.passes.simplify import plain
from lowering.passes.stores.assumptions import check_assumptions
from lowering.passes.stores.reaching_values import Known

_SELECTS: Final = (ops.SELECT, ValueOp.SELECT)


def settle_branches(f: Function, said: Report, known: Known | None = None) -> Function:
    """The function without the branches and choices that what is known decides, and with equal ones as one.

    Parameters
    ----------
    known: the dataflow of the function, where it is there.
    """
    return f.with_body(drive(_settle(root_of(f), known or Known(f), said)))


def _settle(place: Place, known: Known, said: Report) -> Visit[Stmt]:
    stmt = place.stmt
    if isinstance(stmt, If):
        settled: Stmt = yield _branch(stmt, place, known, said)
        return settled
    inner: list[Stmt] = []
    for child in place.inside():
        inner.append((yield _settle(child, known, said)))  # noqa: PERF401  # a comprehension cannot yield
    if isinstance(stmt, Seq):
        return seq(*inner)
    if isinstance(stmt, For):
        return with_children(stmt, tuple(inner))
    return map_operands(stmt, lambda operand: _without_choices(operand, place, known, said))


def _branch(stmt: If, place: Place, known: Known, said: Report) -> Visit[Stmt]:
    parts: list[Operand] = []
    answer: bool | None = True
    here = place
    for part in parts_of_condition(stmt.cond):
        found = known.decides(here, part)
        if found is False:
            answer = False
            break
        if found is None:
            parts.append(part)
            here = Place(here.stmt, here.path, here.scope.where(part), here.loops, here.guards)
    inside = list(place.inside())
    if answer is False:
        said.say(place.path, True, "the condition never holds")
        other: Stmt = (yield _settle(inside[1], known, said)) if len(inside) > 1 else Seq()
        return other
    then: Stmt = yield _settle(inside[0], known, said)
    if not parts:
        said.say(place.path, True, "the condition always holds")
        return then
    orelse = (yield _settle(inside[1], known, said)) if len(inside) > 1 else None
    if orelse is not None and _are_equal(then, orelse):
        said.say(place.path, True, "both branches do the same")
        return then
    if len(parts) < len(parts_of_condition(stmt.cond)):
        said.say(place.path, True, "a part of the condition always holds")
        return If(together(*parts), then, orelse)
    said.say(place.path, False, *known.why_not_decided(place, parts[0]))
    return If(stmt.cond, then, orelse)


def _are_equal(a: Stmt, b: Stmt) -> bool:
    """Whether two statements have the same text, about the same things."""
    return str(a) == str(b) and _free(a) == _free(b)


def _free(root: Stmt) -> list[Any]:
    """What a statement uses and does not make itself."""
    own = bound_in(root)
    used: list[Parameter | Tensor] = list(free_variables(root))
    for stmt in statements(root):
        used += [t for t in tensors_read(*operands(stmt)) if t not in own]
        used += [stmt.tensor] if isinstance(stmt, Store) and stmt.tensor not in own else []
    return [id(thing) for thing in used]


def _without_choices(operand: Operand, place: Place, known: Known, said: Report) -> Operand:
    new: dict[Operand, Operand] = {}
    for node in walk.nodes(operand):
        if node.op in _SELECTS:
            found = known.decides(place, node.args[0])
            if found is not None:
                said.say(
                    place.path, True, f"the choice by {node.args[0]!r} is always the same", what=repr(node.args[0])
                )
                new[node] = walk.rewrite(node.args[1 if found else 2], dict(new))
    return walk.rewrite(operand, new) if new else operand


# -- sequential branches ------------------------------------------------------------------------------------------


def merge_branches(f: Function, said: Report) -> tuple[Function, dict[tuple[int, ...], int]]:
    """The function in which branches that stand one after another on equivalent or opposite conditions are one.

    Beside it, of each of its statements, by path, the line in the text of `f`; of two branches that are one, the first.
    """
    origin: dict[int, tuple[int, ...]] = {}
    joined = f.with_body(drive(_join(root_of(f), said, origin)))
    if str(joined) == str(f):
        joined, origin = f, {id(place.stmt): place.path for place in places(f)}
    return joined, {place.path: said.line(origin[id(place.stmt)]) for place in places(joined)}


def _join(place: Place, said: Report, origin: dict[int, tuple[int, ...]]) -> Visit[Stmt]:
    """The statement, with branches joined; `origin` notes the path that it had."""
    made: Stmt = yield _joined_inside(place, said, origin)
    origin[id(made)] = place.path
    return made


def _joined_inside(place: Place, said: Report, origin: dict[int, tuple[int, ...]]) -> Visit[Stmt]:
    stmt = place.stmt
    inner: list[tuple[Stmt, Scope, tuple[int, ...]]] = []
    for child in place.inside():
        inner.append(((yield _join(child, said, origin)), child.scope, child.path))  # noqa: PERF401
    if not isinstance(stmt, Seq):
        return with_children(stmt, tuple(part for part, _, _ in inner)) if inner else stmt
    done: list[tuple[Stmt, Scope, tuple[int, ...]]] = []
    for part, scope, path in inner:
        before = done[-1] if done else None
        if before is not None and isinstance(before[0], If) and isinstance(part, If):
            joined, reason = _joined(before[0], part, before[1])
            if reason:
                said.say(path, joined is not None, reason, what="sequence")
            if joined is not None:
                origin[id(joined)] = before[2]
                done[-1] = (joined, before[1], before[2])
                continue
        done.append((part, scope, path))
    return seq(*(part for part, _, _ in done))


def _joined(a: If, b: If, scope: Scope) -> tuple[If | None, str]:
    """Two branches as one, or why not."""
    is_same = a.cond is b.cond or _equivalent(a.cond, b.cond, scope)
    if not is_same and not _opposite(a.cond, b.cond, scope):
        return None, ""
    changed = written_in(a)
    data = [t.name for t in tensors_read(b.cond) if t in changed]
    if data:
        return None, f"the condition is that of the branch before it, but {data[0]} may have changed"
    first, second = (b.then, b.orelse) if is_same else (b.orelse, b.then)
    then = seq(a.then, *([] if first is None else [first]))
    rest = [part for part in (a.orelse, second) if part is not None]
    orelse = seq(*rest) if rest else None
    what = "is that" if is_same else "is the opposite of that"
    made = If(a.cond, then, None if orelse is None or is_empty(orelse) else orelse)
    return made, f"the condition {what} of the branch before it"


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


def simplify(f: Function, buffers: bool = True, report: list[Entry] | None = None) -> Function:
    """The same function with fewer loops, branches and operations.

    Loops of one iteration, conditions that always or never hold, shorter indices; with `buffers`, also branches that
    are decided by what elements hold, branches of which both sides do the same, and branches one after another whose
    conditions are equivalent or opposite, unless what they read changes between them.

    Parameters
    ----------
    report: gets an `Entry` for each branch that is considered; with `buffers` only.

    Raises
    ------
    InputError: an assumption of the nest is proved false.
    """
    checked_function(f, "simplify")
    checked = check_assumptions(f)
    if not buffers:
        return plain(f)
    said = Report(f)
    joined, lines = merge_branches(f, said)
    settled = Report(joined, lines)
    f = settle_branches(joined, settled, checked if joined is f else None)
    said.give(report, settled)
    return plain(f)

"""Accesses outside their tensors: refused, asserted on sizes at the head of a nest, or checked before they are made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import intset
from bound.errors import ScheduleError
from bound.infer.answers.outside import ALWAYS, DATA, SIZES, Outside
from bound.infer.program.reads import Read, reached
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation
from bound.schedule.relations import Fuse, Rebase, Relation, Split
from bound.schedule.schedule import Schedule
from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, truth
from lowering.build.formulas import Formula
from lowering.errors import AccessError
from lowering.nest.ir import Assert, If, Stmt, Store, seq
from lowering.nest.walk import Visit, children, drive, operands, with_children

Checks = Mapping[Operation, Sequence[Outside]]


def refuse_outside(found: Iterable[Outside]) -> None:
    """Refuse accesses that are outside whenever they happen.

    Raises
    ------
    AccessError: it names the first, with a point at which it is outside.
    """
    always = [one for one in found if one.depends == ALWAYS]
    if always:
        more = f" (and {len(always) - 1} more)" if len(always) > 1 else ""
        raise AccessError(f"{always[0]}{more}: unsafe=True lowers it unchecked")


def size_asserts(found: Iterable[Outside], known: Context) -> list[Assert]:
    """The assertions on sizes without which an access is outside; none that others imply."""
    checks: dict[Cond, Assert] = {}
    for one in found:
        if one.depends == SIZES and one.requires is not None:
            message = f"{one.stage.name} reads {one.access} inside its extent {one.extent}"
            checks.setdefault(one.requires, Assert(one.requires, message))
    with intset.using(tiers=tiers_within(Effort.SETS)):
        for cond in list(checks):
            others = [other for other in checks if other is not cond]
            if others and known.extended(facts=others).prove(cond):
                del checks[cond]
    return list(checks.values())


def start_asserts(schedule: Schedule, known: Context) -> list[Assert]:
    """The assertions that reductions are not empty over which a loop runs together with data: where such a loop has no
    iteration, nothing starts the elements.

    Raises
    ------
    ScheduleError: such a reduction is always empty.
    """
    checks: dict[Cond, Assert] = {}
    for stage in schedule.stages:
        if not isinstance(stage.op, ComputeOp):
            continue
        for iv in _fused_with_data(stage.op, stage.relations):
            assert iv.dom is not None and isinstance(iv.dom.extent, Expr)
            runs = iv.dom.extent >= 1
            if any(isinstance(v, IterVar) for v in runs.free_vars()):
                continue
            with intset.using(tiers=tiers_within(Effort.SETS)):
                if known.prove(runs):
                    continue
                if known.prove(~runs):
                    raise ScheduleError(
                        f"stage {stage.name}: {iv.name} is empty, and a loop runs over it and over data: nothing "
                        f"would start {stage.name}"
                    )
            checks.setdefault(runs, Assert(runs, f"{iv.name} of {stage.name}, fused with data, is not empty"))
    return list(checks.values())


def _fused_with_data(op: ComputeOp, relations: Sequence[Relation]) -> Iterator[IterVar]:
    """The reduction axes of which some loop is made together with data axes."""
    # an axis of another stage, whose loop this one shares, is made from none of its own
    made = defaultdict(frozenset, {iv: frozenset((iv,)) for iv in (*op.axis, *op.reduce_axis)})
    data = frozenset(op.axis)
    for relation in relations:
        if isinstance(relation, Split):
            made[relation.outer] = made[relation.inner] = made[relation.parent]
        elif isinstance(relation, Rebase):
            made[relation.rebased] = made[relation.parent]
        elif isinstance(relation, Fuse):
            both = made[relation.fused] = made[relation.outer] | made[relation.inner]
            if both & data:
                yield from sorted(both - data, key=op.reduce_axis.index)


def data_checks(found: Iterable[Outside]) -> Checks:
    """The accesses that are checked before they are made, by the operation that makes them."""
    checks: dict[Operation, list[Outside]] = {}
    for one in found:
        if one.depends == DATA:
            checks.setdefault(one.stage.op, []).append(one)
    return checks


def checked(formula: Formula, op: Operation, checks: Checks) -> Formula:
    """The formula of an operation with what has to be checked before its statements."""
    if op not in checks:
        return formula
    init = None if formula.init is None else with_checks(formula.init, op, checks)
    return replace(formula, init=init, update=with_checks(formula.update, op, checks))


def with_checks(root: Stmt, op: Operation, checks: Checks, only: Collection[Tensor] = ()) -> Stmt:
    """The statements with an assertion before each that reads what `checks` names, where and when it reads it.

    Parameters
    ----------
    op: the operation whose formula the statements compute.
    only: where other stages are among the statements, the tensors whose stores are looked at.
    """
    wanted = checks.get(op, ())
    if not wanted:
        return root

    def visit(stmt: Stmt) -> Visit[Stmt]:
        inner: list[Stmt] = []
        for child in children(stmt):
            inner.append((yield visit(child)))  # noqa: PERF401  # a comprehension cannot yield
        new = with_children(stmt, tuple(inner))
        if only and not (isinstance(stmt, Store) and stmt.tensor in only):
            return new
        return seq(*_before(operands(stmt), wanted, isinstance(op, ComputeOp)), new)

    return drive(visit(root))


def _before(values: Sequence[Operand], wanted: Sequence[Outside], by_index: bool) -> list[Stmt]:
    """What is checked before the operands of a statement are evaluated: indices of indices first."""
    found: list[Stmt] = []
    for read in reached(values):
        named = [
            one
            for one in wanted
            if one.tensor is read.tensor and (not by_index or all(map(_is, one.index, read.index)))
        ]
        if named:
            check = Assert(_inside(read, named, by_index), _message(named[0]))
            found.append(check if read.when is truth(True) else If(read.when, check))
    return found


def _is(a: object, b: object) -> bool:
    return a is b


def _message(one: Outside) -> str:
    return f"{one.stage.name} reads {one.access} inside {one.tensor.name}"


def _inside(read: Read, named: Iterable[Outside], by_index: bool) -> Cond:
    """That the access is inside: in the ends that are open; of what the formula writes in another way, in all."""
    if by_index:
        return logical_and(*dict.fromkeys(end for one in named for end in one.open_ends))
    ends = zip(read.index, read.tensor.extents, strict=True)
    return logical_and(*(cond for e, extent in ends for cond in (e >= 0, e < extent)))

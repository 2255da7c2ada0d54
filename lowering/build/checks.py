"""Accesses outside their tensors: refused, asserted on sizes at the head of a nest, or checked before they are made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import intset
from bound.infer.accesses import TensorAccess, reached
from bound.infer.answers.outside import ALWAYS, DATA, SIZES, Outside
from bound.operation import ComputeOp, Operation
from bound.tensor import Tensor
from bound.tir.value import Operand
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr.build import logical_and
from intset.expr.node import Cond, truth
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
            if one.tensor is read.tensor and (not by_index or all(map(_is, one.index, read.indices)))
        ]
        if named:
            check = Assert(_inside(read, named, by_index), _message(named[0]))
            found.append(check if read.when is truth(True) else If(read.when, check))
    return found


def _is(a: object, b: object) -> bool:
    return a is b


def _message(one: Outside) -> str:
    return f"{one.stage.name} reads {one.access} inside {one.tensor.name}"


def _inside(read: TensorAccess, named: Iterable[Outside], by_index: bool) -> Cond:
    """That the access is inside: in the ends that are open; of what the formula writes in another way, in all."""
    if by_index:
        return logical_and(*dict.fromkeys(end for one in named for end in one.open_ends))
    ends = zip(read.indices, read.tensor.extents, strict=True)
    return logical_and(*(cond for e, extent in ends for cond in (e >= 0, e < extent)))

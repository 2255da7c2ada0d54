"""Accesses outside their tensors: refused, asserted on sizes at the head of a nest, or checked at run time."""

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
from intset.expr.node import Cond, Expr, Var, truth
from lowering.build.formulas import Formula
from lowering.errors import AccessError
from lowering.nest.driver import Descent, rewritten
from lowering.nest.ir import Assert, If, Stmt, Store, seq
from lowering.nest.walk import operands

Checks = Mapping[Operation, Sequence[Outside]]


def refuse_outside(found: Iterable[Outside]) -> None:
    """Refuse accesses that are outside at every execution.

    Raises
    ------
    AccessError: names the first such access, with a point at which it is outside.
    """
    always = [one for one in found if one.depends == ALWAYS]
    if always:
        more = f" (and {len(always) - 1} more)" if len(always) > 1 else ""
        raise AccessError(f"{always[0]}{more}: unsafe=True lowers it unchecked")


def size_asserts(found: Iterable[Outside], known: Context) -> list[Assert]:
    """Assertions on sizes that keep accesses inside; assertions implied by others are dropped."""
    checks: dict[Cond, Assert] = {}
    for one in found:
        if one.depends == SIZES and one.requires is not None:
            message = f"{one.stage.name} reads {one.access} inside its extent {one.extent}"
            checks.setdefault(one.requires, Assert(one.requires, message))
    with intset.using(tiers=tiers_within(Effort.DEFAULT)):
        for cond in list(checks):
            others = [other for other in checks if other is not cond]
            if others and known.extended(facts=others).prove(cond):
                del checks[cond]
    return list(checks.values())


def tile_asserts(tiles: Iterable[Expr], equations: Iterable[Cond]) -> list[Assert]:
    """Assertions about sizes of splits: that they are positive, unless declared so, and fit their thread axes."""
    checks = []
    for t in tiles:
        least = t.declared()[0] if isinstance(t, Var) else None
        if least is None or least < 1:
            checks.append(Assert(t >= 1, f"the size {t} of a split is at least 1"))
    checks += [Assert(cond, f"loops on one thread axis have equal extents: {cond}") for cond in equations]
    return checks


def data_checks(found: Iterable[Outside]) -> Checks:
    """Group data-dependent accesses, which need a check at run time, by operation."""
    checks: dict[Operation, list[Outside]] = {}
    for one in found:
        if one.depends == DATA:
            checks.setdefault(one.stage.op, []).append(one)
    return checks


def checked(formula: Formula, op: Operation, checks: Checks) -> Formula:
    """Insert the run-time checks of an operation into its formula."""
    if op not in checks:
        return formula
    init = None if formula.init is None else with_checks(formula.init, op, checks)
    return replace(formula, init=init, update=with_checks(formula.update, op, checks))


def with_checks(root: Stmt, op: Operation, checks: Checks, only: Collection[Tensor] = ()) -> Stmt:
    """Insert an assertion before each statement with a checked access, under the path condition of the access.

    Parameters
    ----------
    op: the operation whose formula the statements compute.
    only: restricts checks to stores of these tensors, for statements that include other stages.
    """
    wanted = checks.get(op, ())
    if not wanted:
        return root

    def insert_checks(stmt: Stmt, _: Descent) -> Stmt:
        if only and not (isinstance(stmt, Store) and stmt.tensor in only):
            return stmt
        before = _before(operands(stmt), wanted, isinstance(op, ComputeOp))
        return seq(*before, stmt) if before else stmt

    return rewritten(root, Descent(), leave={Stmt: (insert_checks,)})


def _before(values: Sequence[Operand], wanted: Sequence[Outside], by_index: bool) -> list[Stmt]:
    """Checks for the accesses of a statement's operands, in evaluation order: inner indices first."""
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
    """The condition that an access is inside: its unproved ends, or all ends if the formula was rewritten."""
    if by_index:
        return logical_and(*dict.fromkeys(end for one in named for end in one.open_ends))
    ends = zip(read.indices, read.tensor.extents, strict=True)
    return logical_and(*(cond for e, extent in ends for cond in (e >= 0, e < extent)))

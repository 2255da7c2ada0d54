"""Every element that an operation reads, with exactly when it does: the conditions on data are kept.

`accesses` asks which elements may be needed, so a condition that says nothing about integers is left out there. Who
asks whether an access ever happens cannot leave one out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from bound.infer.program.accesses import accesses, expanded_postorder
from bound.intrin import TensorComputeOp
from bound.operation import ComputeOp, ExternOp, Operation
from bound.tensor import Tensor
from bound.tir.build import all_of, any_of, negation, together
from bound.tir.reduce import initial
from bound.tir.value import Operand, Value
from bound.tir.walk import loaded_tensor
from intset.expr.node import Expr, Var, truth
from intset.expr.range import Range

# Beyond this many the ways to reach a node are written as one condition.
_MAX_WAYS: Final = 4

PathCondition = tuple[Any, ...]


@dataclass(frozen=True)
class ElementRead:
    """Elements of a tensor that are read.

    Attributes
    ----------
    tensor: what is read.
    index: one expression a dimension, in the root axes of the operation, in sizes, and in `extra`.
    when: the truth value under which it is read, `True` when always.
    extra: variables of the read itself with their ranges.
    at_start: whether it is read before the loops of the reduction (of the scan), even where these do not run.
    """

    tensor: Tensor
    index: tuple[Expr, ...]
    when: Any
    extra: tuple[tuple[Var, Range], ...] = ()
    at_start: bool = False


def reads(op: Operation, wanted: Iterable[Tensor]) -> tuple[ElementRead, ...]:
    """What `op` reads when it computes the outputs that are `wanted`, each read once."""
    if isinstance(op, ExternOp):
        return ()  # it is handed whole tensors
    if isinstance(op, ComputeOp):
        return _of_formula(op, frozenset(wanted))
    conditioned = (
        ElementRead(a.tensor, a.indices, together(*a.conditions), a.extra, bool(a.before)) for a in accesses(op)
    )
    return (*conditioned, *(_of_tile(op) if isinstance(op, TensorComputeOp) else ()))


def _of_formula(op: ComputeOp, wanted: frozenset[Tensor]) -> tuple[ElementRead, ...]:
    if op.reduction is None:
        return reached(body for body, t in zip(op.body, op.outputs, strict=True) if t in wanted)
    top = op.body[0]
    assert isinstance(top, Value)
    starts = reached(initial(top) or op.reduction.combiner.identity)
    return (*reached(op.body), *(ElementRead(r.tensor, r.index, r.when, (), True) for r in starts))


def _of_tile(op: TensorComputeOp) -> tuple[ElementRead, ...]:
    """What an intrinsic reads of its own formal tensors."""
    inner = op.call.intrin.op
    axes = tuple((iv, iv.dom) for iv in (*inner.axis, *inner.reduce_axis) if isinstance(iv.dom, Range))
    return tuple(ElementRead(r.tensor, r.index, r.when, axes) for r in _of_formula(inner, frozenset(inner.outputs)))


def reached(roots: Iterable[Operand]) -> tuple[ElementRead, ...]:
    """The elements read below `roots`; those that an index or a condition needs come before what needs them."""
    bodies = tuple(roots)
    order = expanded_postorder(bodies)
    ways: dict[Any, list[PathCondition]] = {root: [()] for root in bodies}
    for node, edges in reversed(order):
        here = ways[node]
        for child, cond, holds in edges:
            added = () if cond is None else (cond if holds else negation(cond),)
            there = ways.setdefault(child, [])
            for way in here:
                _add(there, (*way, *(part for part in added if part not in way)))
    found = [(node, loaded_tensor(node)) for node, _ in order]
    return tuple(ElementRead(tensor, node.args, _either(ways[node])) for node, tensor in found if tensor is not None)


def _add(ways: list[PathCondition], new: PathCondition) -> None:
    """Add a way to reach a node, leaving out those that a more general one covers."""
    if any(set(old) <= set(new) for old in ways):
        return
    ways[:] = [old for old in ways if not set(new) <= set(old)] + [new]
    if len(ways) > _MAX_WAYS:
        ways[:] = [(_either(ways),)]


def _either(ways: list[PathCondition]) -> Any:
    return truth(True) if () in ways else any_of(*(all_of(*way) for way in ways))

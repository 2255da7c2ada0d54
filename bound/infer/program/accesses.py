"""What an operation reads: index tuples over its root axes, with the conditions under which each is read.

Pure data, independent of any schedule and of any domain of sets. All conditions are in the integers the analysis sees;
a condition on floats says nothing and is left out, which can only make an access happen more often.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, Final, NamedTuple, TypeAlias

from bound.intrin import TensorComputeOp
from bound.operation import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp
from bound.tensor import Tensor
from bound.tir.opaque import IntFunction
from bound.tir.reduce import condition, initial, reduction_of
from bound.tir.value import Value, ValueOp
from bound.tir.walk import loaded_tensor, substitute
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import conjuncts, opaque_terms

Conditions: TypeAlias = "tuple[Cond, ...]"

# A node reached in more ways than this is reached under what the ways have in common.
_MAX_WAYS: Final = 6


@dataclass(frozen=True)
class TensorAccess:
    """One way of reading elements of a tensor: the set of `indices` where all `conditions` hold.

    Attributes
    ----------
    tensor: what is read.
    indices: one expression a dimension, in the root axes of the operation, in sizes, and in `extra`.
    conditions: when it is read; a conjunction, empty when always.
    extra: variables of the access itself with their ranges, where a whole region is read at once.
    before: axes of the operation before whose loops it is read, even where these do not run.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]
    conditions: Conditions = ()
    extra: tuple[tuple[Var, Range], ...] = ()
    before: tuple[Var, ...] = ()

    def inside(self) -> Conditions:
        """The conditions that a data-dependent index stays inside the tensor: other values do not occur."""
        ends: list[Cond] = []
        for index, extent in zip(self.indices, self.tensor.extents, strict=True):
            if opaque_terms(index):
                ends += (index >= 0, index < extent)
        return tuple(ends)


class OperandEdge(NamedTuple):
    """What is evaluated for a node: always, or where a truth value holds, or where it does not."""

    node: Any
    truth: Any = None
    holds: bool = True


@singledispatch
def accesses(op: Operation) -> tuple[TensorAccess, ...]:
    """Everything `op` reads; each way once, in the order of the formula."""
    raise TypeError(f"accesses of {op!r} are not known")


@accesses.register
def _placeholder(op: PlaceholderOp) -> tuple[TensorAccess, ...]:
    return ()


@accesses.register
def _compute(op: ComputeOp) -> tuple[TensorAccess, ...]:
    if op.reduction is None:
        return loads(op.body)
    top = op.body[0]
    assert isinstance(top, Value)
    starts = loads(initial(top) or op.reduction.combiner.identity)
    return tuple(dict.fromkeys((*loads(op.body), *(replace(start, before=op.reduce_axis) for start in starts))))


@accesses.register
def _extern(op: ExternOp) -> tuple[TensorAccess, ...]:
    return tuple(_whole(tensor) for tensor in op.input_tensors)


@accesses.register
def _tensor_compute(op: TensorComputeOp) -> tuple[TensorAccess, ...]:
    regions = [_region(tensor, region) for tensor, region in zip(op.call.tensors, op.call.regions, strict=True)]
    ends = [end for region in op.call.regions for r in region for end in (r.min, r.extent) if isinstance(end, Expr)]
    return tuple(dict.fromkeys((*loads((*ends, *op.call.scalars)), *regions)))


@accesses.register
def _scan(op: ScanOp) -> tuple[TensorAccess, ...]:
    """Row `t` of each update at step `t`, the rows of each initial state, both over the spatial axes."""
    read: list[TensorAccess] = []
    spatial = list(op.spatial_axis)
    for init, update in zip(op.init, op.update, strict=True):
        axes, spatial = tuple(spatial[: update.ndim - 1]), spatial[update.ndim - 1 :]
        row = Var("row")
        read.append(TensorAccess(init, (row, *axes), (), ((row, Range(0, init.extents[0])),), (op.scan_axis,)))
        read.append(TensorAccess(update, (op.scan_axis, *axes)))
    return tuple(read)


def _whole(tensor: Tensor) -> TensorAccess:
    return _region(tensor, tuple(Range(0, extent) for extent in tensor.extents))


def _region(tensor: Tensor, region: tuple[Range, ...]) -> TensorAccess:
    indices, extra = [], []
    for k, r in enumerate(region):
        assert isinstance(r.min, Expr)
        if isinstance(r.extent, Expr) and r.extent.is_const and r.extent.data == 1:
            indices.append(r.min)
            continue
        inner = Var(f"{tensor.name}.d{k}")
        is_zero = r.min.is_const and r.min.data == 0
        indices.append(inner if is_zero else r.min + inner)
        extra.append((inner, Range(0, r.extent)))
    return TensorAccess(tensor, tuple(indices), (), tuple(extra))


def loads(roots: Iterable[Any]) -> tuple[TensorAccess, ...]:
    """The elements read below `roots`, each under the conditions of the selections and reductions around it."""
    bodies = tuple(roots)
    order = expanded_postorder(bodies)
    ways: dict[Any, list[Conditions]] = {root: [()] for root in bodies}
    for node, edges in reversed(order):
        for child, truth, holds in edges:
            added = () if truth is None else implied(truth, holds)
            reached = ways.setdefault(child, [])
            for way in ways[node]:
                _add_way(reached, (*way, *(cond for cond in added if cond not in way)))
    found: dict[TensorAccess, None] = {}
    for node, _ in order:
        tensor = loaded_tensor(node)
        if tensor is not None:
            found.update((TensorAccess(tensor, node.args, way), None) for way in ways[node])
    return tuple(found)


def _add_way(ways: list[Conditions], new: Conditions) -> None:
    """Add a conjunction to a disjunction, leaving out what another way implies."""
    if any(set(old) <= set(new) for old in ways):
        return
    ways[:] = [old for old in ways if not set(new) <= set(old)] + [new]
    if len(ways) > _MAX_WAYS:
        common = [cond for cond in ways[0] if all(cond in way for way in ways[1:])]
        ways[:] = [tuple(common)]


def expanded_postorder(roots: tuple[Any, ...]) -> list[tuple[Any, list[OperandEdge]]]:
    """Every node with its edges, children first; integer functions of data are opened at their arguments."""
    order: list[tuple[Any, list[OperandEdge]]] = []
    done: set[Any] = set()
    stack: list[tuple[Any, list[OperandEdge] | None]] = [(root, None) for root in reversed(roots)]
    while stack:
        node, edges = stack.pop()
        if edges is not None:
            order.append((node, edges))
        elif node not in done:
            done.add(node)
            edges = list(_edges(node))
            stack.append((node, edges))
            stack.extend((edge.node, None) for edge in reversed(edges) if edge.node not in done)
    return order


def _edges(node: Any) -> Iterator[OperandEdge]:
    """What is evaluated for a node, each with what holds where that happens."""
    op, args = node.op, node.args
    if op is ops.SELECT or op is ValueOp.SELECT:
        yield OperandEdge(args[0])
        yield OperandEdge(args[1], args[0])
        yield OperandEdge(args[2], args[0], False)
    elif op in (ops.AND, ValueOp.AND, ops.OR, ValueOp.OR):
        yield OperandEdge(args[0])
        yield OperandEdge(args[1], args[0], op in (ops.AND, ValueOp.AND))
    elif op is ops.ASSERTING:
        yield OperandEdge(args[0])
        yield OperandEdge(args[1], args[0])
    elif op is ValueOp.REDUCE:
        arity, where = reduction_of(node).arity, condition(node)
        yield OperandEdge(where)
        for source in args[:arity]:
            yield OperandEdge(source, where)
        combiner = reduction_of(node).combiner  # what it starts from is read before the reduction, not here
        for result in () if combiner.is_closed else combiner.results:
            yield OperandEdge(result, where)
    else:
        for arg in args:
            yield OperandEdge(arg)
        if op is ops.LOAD and isinstance(node.data, IntFunction):
            yield OperandEdge(substitute(node.data.body, dict(zip(node.data.params, args, strict=True))))


def implied(truth: Any, holds: bool) -> Conditions:
    """The conditions on integers that follow when a truth value is true, or when it is false."""
    if isinstance(truth, Cond):
        if truth.op is ops.BOOL:
            return () if truth.data is holds else (truth,) if holds else (~truth,)
        if holds:
            return tuple(conjuncts(truth))
        if truth.op is ops.OR:
            return (*implied(truth.args[0], False), *implied(truth.args[1], False))
        return implied(truth.args[0], True) if truth.op is ops.NOT else (~truth,)
    assert isinstance(truth, Value)
    if truth.op is (ValueOp.AND if holds else ValueOp.OR):
        return (*implied(truth.args[0], holds), *implied(truth.args[1], holds))
    return implied(truth.args[0], not holds) if truth.op is ValueOp.NOT else ()

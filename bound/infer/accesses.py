"""What an operation reads: index tuples over its root axes, with the conditions under which each element is read.

`accesses` asks which elements *may* be needed: conditions are in the integers of the analysis, and a condition on data
is dropped, which only lets an access happen more often. `reads` keeps conditions on data:
it decides whether an access *ever happens*.

Invariant: pure data, independent of schedules and of domains of sets.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

from bound.schedule import AttachType, Schedule, Stage
from bound.tensor import ComputeOp, ExternOp, Operation, ScanOp, Tensor, TensorComputeOp, has_row
from bound.tir.build import all_of, any_of, negation, together
from bound.tir.reduce import condition, initial, reduction_of
from bound.tir.value import REDUCE, IntFunction, Operand, Truth, Value
from bound.tir.walk import loaded_tensor, substitute
from intset.expr import Cond, Expr, Range, Var, dag, ops
from intset.expr.node import truth

PathCondition: TypeAlias = "tuple[Any, ...]"  # a conjunction of truth values
ReadGraph: TypeAlias = "dict[Tensor, list[Stage]]"

_MAX_PATHS: Final = 6  # conjunctions of an access; beyond it, their common conditions
_MAX_READ_PATHS: Final = 4  # conjunctions of a read; beyond it, one disjunction


@dataclass(frozen=True)
class TensorAccess:
    """A read of a tensor: the elements at `indices` wherever all `conditions` hold.

    Attributes
    ----------
    tensor: the tensor read.
    indices: one expression a dimension, over root axes of the operation, sizes and `extra`.
    conditions: a conjunction, empty for an unconditional read; conditions on integers, in `reads` also on data.
    extra: variables of the access and their ranges, for a region read at once.
    before: axes whose loops do not surround the read, so the read happens even if they are empty: reduction axes or
        scan axes that start later, and the axes of a scan's other states.
    """

    tensor: Tensor
    indices: tuple[Expr, ...]
    conditions: PathCondition = ()
    extra: tuple[tuple[Var, Range], ...] = ()
    before: tuple[Var, ...] = ()

    @property
    def when(self) -> Truth:
        """The truth value under which the read happens."""
        return together(*self.conditions)

    def inside(self) -> tuple[Cond, ...]:
        """Bounds of the data-dependent indices. Other values do not occur: they would be errors."""
        ends: list[Cond] = []
        for index, extent in zip(self.indices, self.tensor.extents, strict=True):
            if dag.opaque_terms(index):
                ends += (index >= 0, index < extent)
        return tuple(ends)


class OperandEdge(NamedTuple):
    """An operand and its condition: `truth` is `holds`; `None` for an operand that is always evaluated."""

    node: Any
    truth: Any = None
    holds: bool = True


def accesses(op: Operation) -> tuple[TensorAccess, ...]:
    """The accesses of an operation without duplicates, in the order of its formula."""
    if isinstance(op, ComputeOp):
        return tuple(dict.fromkeys(_of_formula(op, op.outputs, loads)))
    if isinstance(op, ExternOp):
        return tuple(_region(t, tuple(Range(0, extent) for extent in t.extents)) for t in op.input_tensors)
    if isinstance(op, TensorComputeOp):
        regions = [_region(tensor, region) for tensor, region in zip(op.call.tensors, op.call.regions, strict=True)]
        ends = [end for region in op.call.regions for r in region for end in (r.min, r.extent) if isinstance(end, Expr)]
        return tuple(dict.fromkeys((*loads((*ends, *op.call.scalars)), *regions)))
    return _rows_of_scan(op) if isinstance(op, ScanOp) else ()


def _rows_of_scan(op: ScanOp) -> tuple[TensorAccess, ...]:
    """A scan reads row `t` of each update at step `t` and the rows of each initial state that it has.

    A state is read over its own spatial axes: loops of another state, possibly empty, do not run.
    """
    read: list[TensorAccess] = []
    for init, update, axes in zip(op.init, op.update, op.axes_of_states, strict=True):
        others = tuple(iv for iv in op.spatial_axis if iv not in axes)
        row = Var("row")
        extra = ((row, Range(0, init.extents[0])),)
        read.append(TensorAccess(init, (row, *axes), has_row(op, init, row), extra, (op.scan_axis, *others)))
        read.append(TensorAccess(update, (op.scan_axis, *axes), (), (), others))
    return tuple(read)


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
    """The elements read below `roots`, each under the integer conditions of selections and reductions around it."""
    reaching = path_conditions(tuple(roots), implied, _common, _MAX_PATHS)
    read = ((tensor, node.args, paths) for node, paths in reaching if (tensor := loaded_tensor(node)) is not None)
    return tuple(
        dict.fromkeys(TensorAccess(tensor, indices, path) for tensor, indices, paths in read for path in paths)
    )


def _common(paths: list[PathCondition]) -> PathCondition:
    """The conditions that all paths share: weaker than their disjunction."""
    return tuple(cond for cond in paths[0] if all(cond in path for path in paths[1:]))


_LAZY: Final = frozenset((*ops.LAZY, ops.ASSERTING, ops.LOAD, REDUCE))  # what `_edges` tells apart


def path_conditions(
    roots: tuple[Any, ...],
    conditions: Callable[[Any, bool], PathCondition],
    widen: Callable[[list[PathCondition]], PathCondition],
    most: int,
) -> list[tuple[Any, list[PathCondition]]]:
    """Every node below `roots`, operands first, with the disjunction of the paths that reach it.

    Parameters
    ----------
    conditions: the conjunction that follows where a truth value is true, or where it is false.
    widen: replaces more than `most` paths by one that covers them.
    """
    if all(_LAZY.isdisjoint(dag.operations(root)) for root in roots):
        return [(node, [()]) for node in dag.postorder(roots)]
    order = expanded_postorder(roots)
    paths: dict[Any, list[PathCondition]] = {root: [()] for root in roots}
    for node, edges in reversed(order):
        for child, truth_value, holds in edges:
            added = () if truth_value is None else conditions(truth_value, holds)
            reached = paths.setdefault(child, [])
            for path in paths[node]:
                _add_path(reached, (*path, *[cond for cond in added if cond not in path]) if added else path)
                if len(reached) > most:
                    reached[:] = [widen(reached)]
    return [(node, paths[node]) for node, _ in order]


def _add_path(paths: list[PathCondition], new: PathCondition) -> None:
    """Add a conjunction to a disjunction without redundant members."""
    if not any(set(old) <= set(new) for old in paths):
        paths[:] = [*(old for old in paths if not set(new) <= set(old)), new]


def expanded_postorder(roots: tuple[Any, ...]) -> list[tuple[Any, list[OperandEdge]]]:
    """Every node with its operands, operands first; bodies of integer functions are expanded at their arguments."""
    edges: dict[Any, list[OperandEdge]] = {}

    def below(node: Any) -> list[Any]:
        if node not in edges:
            edges[node] = _edges(node)
        return [edge.node for edge in edges[node]]

    return [(node, edges[node]) for node in dag.postorder_by(roots, below)]


def _edges(node: Any) -> list[OperandEdge]:
    """The operands of a node; selections, conjunctions and reductions evaluate theirs lazily."""
    op, args = node.op, node.args
    if op is ops.SELECT:
        return [OperandEdge(args[0]), OperandEdge(args[1], args[0]), OperandEdge(args[2], args[0], False)]
    if op in (ops.AND, ops.OR):
        return [OperandEdge(args[0]), OperandEdge(args[1], args[0], op is ops.AND)]
    if op is ops.ASSERTING:
        return [OperandEdge(args[0]), OperandEdge(args[1], args[0])]
    if op is REDUCE:
        arity, where = reduction_of(node).arity, condition(node)
        combiner = reduction_of(node).combiner  # its initial value is read before the reduction
        later = (*args[:arity], *(() if combiner.is_closed else combiner.results))
        return [OperandEdge(where), *[OperandEdge(source, where) for source in later]]
    edges = [OperandEdge(arg) for arg in args]
    if op is ops.LOAD and isinstance(node.data, IntFunction):
        edges.append(OperandEdge(substitute(node.data.body, dict(zip(node.data.params, args, strict=True)))))
    return edges


def implied(truth: Any, holds: bool) -> tuple[Cond, ...]:
    """The integer conditions that follow from a truth value (`holds`) or from its negation."""
    if isinstance(truth, Cond):
        if truth.op is ops.BOOL:
            return () if truth.data is holds else (truth,) if holds else (~truth,)
        if holds:
            return tuple(dag.conjuncts(truth))
        if truth.op is ops.OR:
            return (*implied(truth.args[0], False), *implied(truth.args[1], False))
        return implied(truth.args[0], True) if truth.op is ops.NOT else (~truth,)
    assert isinstance(truth, Value)
    if truth.op is (ops.AND if holds else ops.OR):
        return (*implied(truth.args[0], holds), *implied(truth.args[1], holds))
    return implied(truth.args[0], not holds) if truth.op is ops.NOT else ()


def reads(op: Operation, outputs: Iterable[Tensor]) -> tuple[TensorAccess, ...]:
    """The reads of an operation that computes the given `outputs`, with their exact conditions."""
    if isinstance(op, ExternOp):
        return ()  # its arguments are whole tensors
    if isinstance(op, ComputeOp):
        return _of_formula(op, outputs, reached)
    return (*accesses(op), *(_of_tile(op) if isinstance(op, TensorComputeOp) else ()))


def _of_formula(
    op: ComputeOp, outputs: Iterable[Tensor], below: Callable[[Iterable[Operand]], tuple[TensorAccess, ...]]
) -> tuple[TensorAccess, ...]:
    """The reads of a formula; of a reduction, those of its initial value precede all of its loops."""
    if op.reduction is None:
        return below(op.body[tensor.value_index] for tensor in op.outputs if tensor in outputs)
    top = op.body[0]
    assert isinstance(top, Value)
    starts = below(initial(top) or op.reduction.combiner.identity)
    return (*below(op.body), *(replace(start, before=op.reduce_axis) for start in starts))


def _of_tile(op: TensorComputeOp) -> tuple[TensorAccess, ...]:
    """Reads of the formal tensors of an intrinsic."""
    inner = op.call.intrin.op
    axes = tuple((iv, iv.dom) for iv in (*inner.axis, *inner.reduce_axis) if isinstance(iv.dom, Range))
    return tuple(replace(read, extra=axes, before=()) for read in _of_formula(inner, inner.outputs, reached))


def reached(roots: Iterable[Operand]) -> tuple[TensorAccess, ...]:
    """The elements read below `roots`; reads inside an index or a condition precede the reads that depend on them."""
    reaching = path_conditions(
        tuple(roots),
        lambda value, holds: (value if holds else negation(value),),
        lambda paths: (_either(paths),),
        _MAX_READ_PATHS,
    )
    return tuple(
        TensorAccess(tensor, node.args, () if () in paths else (_either(paths),))
        for node, paths in reaching
        if (tensor := loaded_tensor(node)) is not None
    )


def _either(paths: list[PathCondition]) -> Truth:
    return truth(True) if () in paths else any_of(*(all_of(*path) for path in paths))


# -- readers ------------------------------------------------------------------------------------------------------


def create_read_graph(schedule: Schedule) -> ReadGraph:
    """CreateReadGraph: the stages that read each tensor, in schedule order. Inlined stages read nothing."""
    graph: ReadGraph = {tensor: [] for stage in schedule.stages for tensor in stage.op.outputs}
    for stage in schedule.stages:
        if stage.attach_type is not AttachType.INLINED_ALREADY:
            for tensor in stage.op.input_tensors:
                graph.setdefault(tensor, []).append(stage)
    return graph

"""`TensorDomain`: the axes of one tensor, from its dimensions to its loops, as a value.

Which axis of a producer is which axis of its reader: read off the indices with which it is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Final

from bound.errors import InputError, ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp, extent_of
from bound.schedule import Fuse, Rebase, Relation, Schedule, Singleton, Split
from bound.schedule.relations import children, parents
from bound.tensor import Tensor
from intset.context import Context
from intset.expr.node import Expr
from intset.expr.text import shown
from intset.linear.canonical import Normalizer

ITERATION: Final = "i"
REDUCTION: Final = "r"
BROADCAST: Final = "b"


@dataclass(frozen=True)
class TensorDomain:
    """What a schedule made of the axes of an operation. All outputs of an operation share it.

    Attributes
    ----------
    op: the operation.
    root: its axes, those of the dimensions before those it reduces over.
    loop: the loops, from the outermost to the innermost. A placeholder has an axis a dimension and no real loop.
    relations: how loops were made from roots, in order.
    """

    op: Operation
    root: tuple[IterVar, ...]
    loop: tuple[IterVar, ...]
    relations: tuple[Relation, ...] = ()

    @cached_property
    def kinds(self) -> Mapping[IterVar, str]:
        """Of each axis whether it is one of iteration ("i"), of reduction ("r"), or broadcast ("b").

        Broadcast are data axes of constant extent 1, and what is split from such or fused of such alone. What is fused
        of a reduction and anything else is a reduction.
        """
        kinds = {iv: _root_kind(iv) for iv in self.root}
        for relation in self.relations:
            kind = fused_kind(kinds[iv] for iv in parents(relation))
            kinds.update(dict.fromkeys(children(relation), kind))
        return MappingProxyType(kinds)

    def __reduce__(self) -> tuple[type[TensorDomain], tuple[object, ...]]:
        """What is derived is not stored."""
        return TensorDomain, (self.op, self.root, self.loop, self.relations)

    @property
    def depth(self) -> int:
        """The number of loops."""
        return len(self.loop)

    def __str__(self) -> str:
        kinds = self.kinds
        loops = ", ".join(f"{iv.name}:{kinds[iv]}" for iv in self.loop)
        roots = ", ".join(iv.name for iv in self.root)
        made = "".join(f"; {_written(relation)}" for relation in self.relations)
        return f"{self.op.name}[{loops}] of ({roots}){made}"

    def __repr__(self) -> str:
        return f"<TensorDomain {self}>"


def _root_kind(iv: IterVar) -> str:
    if iv.is_reduce:
        return REDUCTION
    return BROADCAST if has_one(iv) else ITERATION


def has_one(iv: IterVar) -> bool:
    """Whether the domain of a root axis has one element."""
    extent = None if iv.dom is None else iv.dom.extent
    return isinstance(extent, Expr) and extent.is_const and bool(extent.data == 1)


def fused_kind(kinds: Iterable[str]) -> str:
    """The kind of an axis made from axes of these kinds; an axis made from none is broadcast."""
    found = set(kinds)
    if REDUCTION in found:
        return REDUCTION
    return ITERATION if ITERATION in found else BROADCAST


def _written(relation: Relation) -> str:
    if isinstance(relation, Split):
        size = f"factor={relation.factor}" if relation.nparts is None else f"nparts={relation.nparts}"
        tail = "" if relation.tail == "guard" else f", {relation.tail}"
        return f"split({relation.parent.name}, {size}{tail})"
    if isinstance(relation, Fuse):
        return f"fuse({relation.outer.name}, {relation.inner.name})"
    return f"from 0 {relation.parent.name}" if isinstance(relation, Rebase) else "fuse()"


def domain(schedule: Schedule, tensor: Tensor) -> TensorDomain:
    """The domain of a tensor as the schedule has it now.

    Raises
    ------
    InputError: `schedule` is no schedule, or `tensor` no tensor.
    ScheduleError: the schedule does not compute the tensor.
    """
    op = current(schedule, tensor).op
    if isinstance(op, PlaceholderOp):
        return TensorDomain(op, op.dims, op.dims)
    stage = schedule[op]
    return TensorDomain(op, op.root_iter_vars, tuple(stage.leaf_iter_vars), tuple(stage.relations))


def current(schedule: Schedule, tensor: Tensor) -> Tensor:
    """The tensor that stands for `tensor` now; a refusal in one sentence for anything else."""
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    if not isinstance(tensor, Tensor):
        raise InputError(f"a tensor is needed, not {shown(tensor)}")
    if tensor not in schedule:
        raise ScheduleError(f"{tensor.name} has no stage in this schedule: no output needs it")
    return schedule.current(tensor)


def position_of(given: object, depth: int, name: str) -> int:
    """`given` as a position among `depth` loops: from the end where it is negative (-1: behind all loops).

    Raises
    ------
    InputError: it is no integer, or outside -depth-1..depth.
    """
    if isinstance(given, bool) or not isinstance(given, int):
        raise InputError(f"a position is an integer, not {shown(given)}")
    if not -depth - 1 <= given <= depth:
        loops = "1 loop" if depth == 1 else f"{depth} loops"
        raise InputError(f"position {shown(given)} of {name} is outside {-depth - 1}..{depth}: it has {loops}")
    return given if given >= 0 else depth + 1 + given


def made_alone(relations: Sequence[Relation], axes: Iterable[IterVar]) -> set[IterVar]:
    """The axes and all that came from such alone; what is made from nothing counts as such."""
    found = set(axes)
    for relation in relations:
        if isinstance(relation, Singleton) or all(parent in found for parent in parents(relation)):
            found.update(children(relation))
    return found


FORMS: Final = Normalizer({})


@dataclass(frozen=True, eq=False)
class AxisMap:
    """The axes of a producer and of one of its readers that are the same axis.

    Attributes
    ----------
    to_reader: from axes of the producer to axes of the reader; one to one.
    added: broadcast axes of the reader that no axis of the producer is mapped to.
    squeezed: broadcast axes of the producer that are mapped to none.
    """

    to_reader: Mapping[IterVar, IterVar]
    added: frozenset[IterVar]
    squeezed: frozenset[IterVar]

    @property
    def to_producer(self) -> dict[IterVar, IterVar]:
        return {reader: producer for producer, reader in self.to_reader.items()}


def axis_map(producer: TensorDomain, reader: TensorDomain) -> AxisMap:
    """The map between the roots of two domains.

    An index that is an axis of the reader maps the producer's axis to it where the extents are proved equal. A constant
    0 on a broadcast axis stands for an axis of the reader that does not occur in the read: the k-th such for the k-th
    data axis that no index of that read uses, if these are equally many; else they are squeezed. Any other index maps
    nothing, nor does an axis on which several reads differ.
    """
    to_reader = _joint_map(producer.op, reader.op)
    used = set(to_reader.values())
    added = frozenset(iv for iv in reader.root if reader.kinds[iv] == BROADCAST and iv not in used)
    squeezed = frozenset(iv for iv in producer.root if producer.kinds[iv] == BROADCAST and iv not in to_reader)
    return AxisMap(to_reader, added, squeezed)


def _joint_map(producer: Operation, reader: Operation) -> dict[IterVar, IterVar]:
    """What all reads say alike; of two axes that are one axis of the reader, the first."""
    if not isinstance(reader, ComputeOp) or not isinstance(producer, (ComputeOp, PlaceholderOp)):
        return {}
    axes = producer.axis if isinstance(producer, ComputeOp) else producer.dims
    maps = [_one_read(axes, reader, indices) for indices in reads(producer, reader)]
    found: dict[IterVar, IterVar] = {}
    for iv in axes:
        targets = [m.get(iv) for m in maps]
        first = targets[0] if targets else None
        if first is not None and all(target is first for target in targets) and first not in found.values():
            found[iv] = first
    return found


def reads(producer: Operation, reader: ComputeOp) -> list[tuple[Expr, ...]]:
    """The indices with which an operation reads outputs of another."""
    return [indices for tensor in producer.outputs for indices in reader.reads.get(tensor, ())]


def _one_read(axes: tuple[IterVar, ...], reader: ComputeOp, indices: tuple[Expr, ...]) -> dict[IterVar, IterVar]:
    own = set(reader.root_iter_vars)
    found: dict[IterVar, IterVar] = {}
    zeros: list[IterVar] = []
    for iv, index in zip(axes, indices, strict=True):
        if isinstance(index, IterVar) and index in own:
            if starts_at_0(index) and same_extent(iv, index):
                found[iv] = index
        elif index.is_const and index.data == 0 and extent_of(iv).is_const and extent_of(iv).data == 1:
            zeros.append(iv)
    used = {v for index in indices for v in index.free_vars()}
    free = [iv for iv in reader.axis if iv not in used]
    if len(zeros) == len(free):
        found.update(zip(zeros, free, strict=True))
    return found


def starts_at_0(iv: IterVar) -> bool:
    """Whether the domain of an axis begins at 0."""
    low = None if iv.dom is None else iv.dom.min
    return isinstance(low, Expr) and low.is_const and low.data == 0


def same_extent(a: IterVar, b: IterVar) -> bool:
    """Whether the extents of two axes are proved to be equal, for all sizes."""
    return equal_sizes(extent_of(a), extent_of(b))


def equal_sizes(one: Expr, other: Expr) -> bool:
    """Whether two extents are proved to be equal."""
    if one is other or FORMS.form(one).same(FORMS.form(other)):
        return True
    if one.is_const and other.is_const:
        return False
    return bool(Context().prove(one.eq(other)))

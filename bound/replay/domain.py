"""`TensorDomain`, the loops of one tensor as a value, and `AxisMap`, the root axes that a producer shares with a
consumer.

A stage `T` over axes `(i, j)` with `i` split by 4 has

    root       (i, j)
    relations  split(i, factor=4)
    loop       (i.outer, i.inner, j)

Terms follow nvFuser: *root* axes are the dimensions and reduction axes of the operation, *loop* axes are what the
schedule made of them. The root map of a producer read as `T[i, 0]` by a consumer over `(i, k)` maps `i` to `i`, and the
broadcast axis to `k`.
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
from bound.schedule import IterVarRelation, Schedule, Singleton
from bound.tensor import Tensor
from intset.context import Context
from intset.expr.node import Expr
from intset.expr.printer import shown
from intset.linear.canonical import Normalizer

ITERATION: Final = "i"
REDUCTION: Final = "r"
BROADCAST: Final = "b"


@dataclass(frozen=True)
class TensorDomain:
    """Axes of an operation from root to loop. All outputs of an operation share one domain.

    Invariant: for operations made by `te.compute`, applying `relations` to `root` leaves exactly the axes in `loop`.

    Attributes
    ----------
    op: the operation.
    root: its axes, dimensions before reduction axes.
    loop: the loops, outermost first. A placeholder has one axis per dimension and no real loop.
    relations: splits, fusions and rebases, oldest first.
    """

    op: Operation
    root: tuple[IterVar, ...]
    loop: tuple[IterVar, ...]
    relations: tuple[IterVarRelation, ...] = ()

    @cached_property
    def kinds(self) -> Mapping[IterVar, str]:
        """Kind of each axis: iteration ("i"), reduction ("r") or broadcast ("b").

        A data axis of constant extent 1 is broadcast, and so are its parts and fusions of broadcast axes. A fusion with
        a reduction is a reduction.
        """
        kinds = {iv: _root_kind(iv) for iv in self.root}
        for relation in self.relations:
            kind = fused_kind(kinds[iv] for iv in relation.parents)
            kinds.update(dict.fromkeys(relation.children, kind))
        return MappingProxyType(kinds)

    def __reduce__(self) -> tuple[type[TensorDomain], tuple[object, ...]]:
        """Pickle without cached properties."""
        return TensorDomain, (self.op, self.root, self.loop, self.relations)

    @property
    def depth(self) -> int:
        """Number of loops."""
        return len(self.loop)

    def __str__(self) -> str:
        kinds = self.kinds
        loops = ", ".join(f"{iv.name}:{kinds[iv]}" for iv in self.loop)
        roots = ", ".join(iv.name for iv in self.root)
        relations = "".join(f"; {relation}" for relation in self.relations)
        return f"{self.op.name}[{loops}] of ({roots}){relations}"

    def __repr__(self) -> str:
        return f"<TensorDomain {self}>"


def _root_kind(iv: IterVar) -> str:
    if iv.is_reduce:
        return REDUCTION
    return BROADCAST if has_one(iv) else ITERATION


def has_one(iv: IterVar) -> bool:
    """Return whether the extent of a root axis is the constant 1."""
    extent = None if iv.dom is None else iv.dom.extent
    return isinstance(extent, Expr) and extent.is_const and bool(extent.data == 1)


def fused_kind(kinds: Iterable[str]) -> str:
    """Kind of an axis fused from axes of the given kinds; broadcast if there are none."""
    present = set(kinds)
    if REDUCTION in present:
        return REDUCTION
    return ITERATION if ITERATION in present else BROADCAST


def domain(schedule: Schedule, tensor: Tensor) -> TensorDomain:
    """Return the current domain of a tensor in a schedule.

    Raises
    ------
    InputError: not a schedule, or not a tensor.
    ScheduleError: the schedule does not compute the tensor.
    """
    op = current(schedule, tensor).op
    if isinstance(op, PlaceholderOp):
        return TensorDomain(op, op.dims, op.dims)
    stage = schedule[op]
    return TensorDomain(op, op.root_iter_vars, tuple(stage.leaf_iter_vars), tuple(stage.relations))


def current(schedule: Schedule, tensor: Tensor) -> Tensor:
    """Return the tensor that replaces `tensor` after rewrites of the schedule.

    Raises
    ------
    InputError: not a schedule, or not a tensor.
    ScheduleError: the schedule does not compute the tensor.
    """
    if not isinstance(schedule, Schedule):
        raise InputError(f"a schedule made by te.create_schedule is needed, not {shown(schedule)}")
    if not isinstance(tensor, Tensor):
        raise InputError(f"a tensor is needed, not {shown(tensor)}")
    if tensor not in schedule:
        raise ScheduleError(f"{tensor.name} has no stage in this schedule: no output needs it")
    return schedule.current(tensor)


def position_of(position: object, depth: int, name: str) -> int:
    """Normalize a position among `depth` loops; -1 means behind the last loop.

    Raises
    ------
    InputError: `position` is not an integer, or is outside -depth-1..depth.
    """
    if isinstance(position, bool) or not isinstance(position, int):
        raise InputError(f"a position is an integer, not {shown(position)}")
    if not -depth - 1 <= position <= depth:
        loops = "1 loop" if depth == 1 else f"{depth} loops"
        raise InputError(f"position {shown(position)} of {name} is outside {-depth - 1}..{depth}: it has {loops}")
    return position if position >= 0 else depth + 1 + position


def made_alone(relations: Sequence[IterVarRelation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes and everything derived from them alone, singletons included."""
    derived = set(axes)
    for relation in relations:
        if isinstance(relation, Singleton) or all(parent in derived for parent in relation.parents):
            derived.update(relation.children)
    return derived


FORMS: Final = Normalizer({})


@dataclass(frozen=True, eq=False)
class AxisMap:
    """Root axes that a producer and one of its consumers share.

    Attributes
    ----------
    to_reader: maps axes of the producer to axes of the consumer, one to one.
    added: broadcast axes of the consumer without a counterpart in the producer.
    squeezed: broadcast axes of the producer without a counterpart in the consumer.
    """

    to_reader: Mapping[IterVar, IterVar]
    added: frozenset[IterVar]
    squeezed: frozenset[IterVar]

    @property
    def to_producer(self) -> dict[IterVar, IterVar]:
        """The inverse of `to_reader`."""
        return {reader: producer for producer, reader in self.to_reader.items()}


def axis_map(producer: TensorDomain, reader: TensorDomain) -> AxisMap:
    """Map root axes of a producer to those of a consumer.

    An index that is an axis of the consumer maps the producer's axis to it if that axis starts at 0 and the extents are
    provably equal. Constant indices 0 on broadcast axes map, in order, to the data axes of the consumer that the read
    does not use, if there are equally many; otherwise they are squeezed. Other indices map nothing, and neither do axes
    on which two reads differ.
    """
    to_reader = _joint_map(producer.op, reader.op)
    used = set(to_reader.values())
    added = frozenset(iv for iv in reader.root if reader.kinds[iv] == BROADCAST and iv not in used)
    squeezed = frozenset(iv for iv in producer.root if producer.kinds[iv] == BROADCAST and iv not in to_reader)
    return AxisMap(to_reader, added, squeezed)


def _joint_map(producer: Operation, reader: Operation) -> dict[IterVar, IterVar]:
    """Intersect the maps of all reads; a consumer axis is mapped by the first producer axis only."""
    if not isinstance(reader, ComputeOp) or not isinstance(producer, (ComputeOp, PlaceholderOp)):
        return {}
    axes = producer.axis if isinstance(producer, ComputeOp) else producer.dims
    maps = [_one_read(axes, reader, indices) for indices in reads(producer, reader)]
    joint: dict[IterVar, IterVar] = {}
    for iv in axes:
        targets = [m.get(iv) for m in maps]
        first = targets[0] if targets else None
        if first is not None and all(target is first for target in targets) and first not in joint.values():
            joint[iv] = first
    return joint


def reads(producer: Operation, reader: ComputeOp) -> list[tuple[Expr, ...]]:
    """Return the index tuples with which a consumer reads any output of a producer."""
    return [indices for tensor in producer.outputs for indices in reader.reads.get(tensor, ())]


def _one_read(axes: tuple[IterVar, ...], reader: ComputeOp, indices: tuple[Expr, ...]) -> dict[IterVar, IterVar]:
    own = set(reader.root_iter_vars)
    mapping: dict[IterVar, IterVar] = {}
    zeros: list[IterVar] = []
    for iv, index in zip(axes, indices, strict=True):
        if isinstance(index, IterVar) and index in own:
            if starts_at_0(index) and same_extent(iv, index):
                mapping[iv] = index
        elif index.is_const and index.data == 0 and extent_of(iv).is_const and extent_of(iv).data == 1:
            zeros.append(iv)
    used = {v for index in indices for v in index.free_vars()}
    free = [iv for iv in reader.axis if iv not in used]
    if len(zeros) == len(free):
        mapping.update(zip(zeros, free, strict=True))
    return mapping


def starts_at_0(iv: IterVar) -> bool:
    """Return whether the range of an axis starts at 0."""
    low = None if iv.dom is None else iv.dom.min
    return isinstance(low, Expr) and low.is_const and low.data == 0


def same_extent(a: IterVar, b: IterVar) -> bool:
    """Return whether two axes provably have equal extents for all sizes."""
    return equal_sizes(extent_of(a), extent_of(b))


def equal_sizes(one: Expr, other: Expr) -> bool:
    """Return whether two extents are provably equal."""
    if one is other or FORMS.form(one).same(FORMS.form(other)):
        return True
    if one.is_const and other.is_const:
        return False
    return bool(Context().prove(one.eq(other)))

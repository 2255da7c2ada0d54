"""Which axis of a producer is which axis of its reader: read off the indices with which it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bound.itervar import IterVar
from bound.operation import ComputeOp, Operation, PlaceholderOp, extent_of
from bound.replay.domain import BROADCAST, TensorDomain
from intset.context import Context
from intset.expr.node import Expr
from intset.linear.canonical import Normalizer

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

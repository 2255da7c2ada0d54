"""Relations between the axes of a stage: the edges of the IterVar hyper-graph of TVM's InferBound document."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from bound.itervar import IterVar
from intset.expr.node import Expr


class Tail(StrEnum):
    """Treatment of the last tile if the factor of a split does not divide the extent.

    - `guard`: the last tile has full size; a condition skips iterations beyond the end.
    - `shrink`: the last tile is cut: its extent is `min(factor, extent - outer * factor)`.
    - `round_up`: the last tile has full size and is computed; the extent is rounded up to a multiple.
    - `shift_inwards`: the last tile starts earlier and ends at the end; some elements are computed twice.
    """

    GUARD = "guard"
    SHRINK = "shrink"
    ROUND_UP = "round_up"
    SHIFT_INWARDS = "shift_inwards"


@dataclass(frozen=True, eq=False)
class Split:
    """`parent = outer * factor + inner + min(parent)`. Invariant: exactly one of `factor` and `nparts` is `None`."""

    parent: IterVar
    outer: IterVar
    inner: IterVar
    factor: Expr | None
    nparts: Expr | None
    tail: Tail = Tail.GUARD


@dataclass(frozen=True, eq=False)
class Fuse:
    """`fused = (outer - min(outer)) * extent(inner) + (inner - min(inner))`."""

    outer: IterVar
    inner: IterVar
    fused: IterVar


@dataclass(frozen=True, eq=False)
class Rebase:
    """`parent = rebased + min(parent)`: a loop that starts at 0."""

    parent: IterVar
    rebased: IterVar


@dataclass(frozen=True, eq=False)
class Singleton:
    """An axis of extent 1 without parents, made by fusing no axes."""

    iter: IterVar


Relation: TypeAlias = Split | Fuse | Rebase | Singleton


def parents(relation: Relation) -> tuple[IterVar, ...]:
    """Return the axes that a relation consumes, towards the roots."""
    if isinstance(relation, Fuse):
        return (relation.outer, relation.inner)
    return () if isinstance(relation, Singleton) else (relation.parent,)


def children(relation: Relation) -> tuple[IterVar, ...]:
    """Return the axes that a relation creates, towards the leaves."""
    if isinstance(relation, Split):
        return (relation.outer, relation.inner)
    if isinstance(relation, Fuse):
        return (relation.fused,)
    return (relation.rebased,) if isinstance(relation, Rebase) else (relation.iter,)

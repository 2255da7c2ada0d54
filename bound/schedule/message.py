"""Message passing over the axes of a stage: ranges down from the roots, index expressions up from the leaves.

Pure functions on relations: they know nothing of where a stage is attached, and decide only what constants decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bound.itervar import IterVar
from bound.schedule import simple
from bound.schedule.relations import Fuse, Rebase, Relation, Singleton, Split, Tail, children, parents
from intset.expr.build import maximum
from intset.expr.node import Cond, Expr, as_expr
from intset.expr.range import Range

Ranges = Mapping[IterVar, Range]
_UNIT = Range(0, 1)


def extent(r: Range) -> Expr:
    """The extent of a range that is not a half line."""
    assert isinstance(r.extent, Expr)
    return r.extent


def low(r: Range) -> Expr:
    """The first element of a range that is not unbounded."""
    assert isinstance(r.min, Expr)
    return r.min


def pass_down_domain(
    relations: Sequence[Relation], roots: Ranges, fixed: Iterable[IterVar] = ()
) -> dict[IterVar, Range]:
    """PassDownDomain: the range of every axis from those of the roots; axes whose parents have none are left out.

    Parameters
    ----------
    relations: in the order in which they were made.
    roots: the ranges to start from.
    fixed: axes whose extent is what the schedule says even where the parent is smaller, because threads are counted
        by it. Elsewhere the inner loop of a split is never longer than its parent.
    """
    ranges = dict(roots)
    kept = with_ancestors(relations, fixed)
    for relation in relations:
        if isinstance(relation, Split):
            if relation.parent in ranges:
                outer, inner = _split_extents(relation, extent(ranges[relation.parent]), kept)
                ranges[relation.outer], ranges[relation.inner] = Range(0, outer), Range(0, inner)
        elif isinstance(relation, Fuse):
            if relation.outer in ranges and relation.inner in ranges:
                total = simple.mul(extent(ranges[relation.outer]), extent(ranges[relation.inner]))
                ranges[relation.fused] = Range(0, total)
        elif isinstance(relation, Rebase):
            if relation.parent in ranges:
                ranges[relation.rebased] = Range(0, extent(ranges[relation.parent]))
        else:
            ranges[relation.iter] = _UNIT
    return ranges


def _split_extents(split: Split, total: Expr, kept: set[IterVar]) -> tuple[Expr, Expr]:
    if split.factor is not None:
        inner = split.factor if split.inner in kept else _capped(split.factor, total)
        return simple.ceildiv(total, split.factor), inner
    assert split.nparts is not None
    outer = split.nparts if split.outer in kept else _capped(split.nparts, total)
    return outer, simple.ceildiv(total, split.nparts)


def _capped(size: Expr, total: Expr) -> Expr:
    """`min(size, total)` where constants decide it, but at least 1; else `size`."""
    limit, wanted = simple.number(total), simple.number(size)
    return size if limit is None or wanted is None or limit >= wanted else as_expr(max(limit, 1))


def with_ancestors(relations: Sequence[Relation], axes: Iterable[IterVar]) -> set[IterVar]:
    """The axes and all they were made from."""
    kept = set(axes)
    for relation in reversed(relations):
        if any(child in kept for child in children(relation)):
            kept.update(parents(relation))
    return kept


def pass_up_index(relations: Sequence[Relation], ranges: Ranges, leaves: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """PassUpIndex: the value of every axis in terms of the values of the leaves.

    Parameters
    ----------
    relations: in the order in which they were made.
    ranges: of every axis met, as `pass_down_domain` gives them.
    leaves: the values to start from; axes above leaves that have none are left out.
    """
    values = dict(leaves)
    for relation in reversed(relations):
        if isinstance(relation, Split):
            if relation.outer in values and relation.inner in values:
                values[relation.parent] = _split_value(relation, ranges, values)
        elif isinstance(relation, Fuse):
            if relation.fused in values:
                width = extent(ranges[relation.inner])
                fused = values[relation.fused]
                if simple.number(width) == 0:  # the loop never runs
                    outer = inner = as_expr(0)
                elif simple.number(extent(ranges[relation.outer])) == 1:
                    outer, inner = as_expr(0), fused
                else:
                    outer, inner = simple.floordiv(fused, width), simple.floormod(fused, width)
                values[relation.outer] = simple.add(outer, low(ranges[relation.outer]))
                values[relation.inner] = simple.add(inner, low(ranges[relation.inner]))
        elif isinstance(relation, Rebase) and relation.rebased in values:
            values[relation.parent] = simple.add(values[relation.rebased], low(ranges[relation.parent]))
    return values


def _split_value(split: Split, ranges: Ranges, values: Mapping[IterVar, Expr]) -> Expr:
    width, parent = extent(ranges[split.inner]), ranges[split.parent]
    start = simple.mul(values[split.outer], width)
    if split.tail is Tail.SHIFT_INWARDS and not _fills(split, ranges):
        last = simple.sub(extent(parent), width)
        known = simple.number(last)
        start = simple.minimum(start, maximum(last, 0) if known is None else max(known, 0))
    return simple.add(simple.add(start, values[split.inner]), low(parent))


def pass_down_index(
    relations: Sequence[Relation], ranges: Ranges, roots: Mapping[IterVar, Expr]
) -> dict[IterVar, Expr]:
    """PassDownIndex: the value of every axis in terms of the values of the roots, where it is determined by them."""
    values = dict(roots)
    for relation in relations:
        if isinstance(relation, Split):
            if relation.parent in values:
                width = extent(ranges[relation.inner])
                value = simple.sub(values[relation.parent], low(ranges[relation.parent]))
                values[relation.outer] = simple.floordiv(value, width)
                values[relation.inner] = simple.floormod(value, width)
        elif isinstance(relation, Fuse):
            if relation.outer in values and relation.inner in values:
                outer = simple.sub(values[relation.outer], low(ranges[relation.outer]))
                inner = simple.sub(values[relation.inner], low(ranges[relation.inner]))
                values[relation.fused] = simple.add(simple.mul(outer, extent(ranges[relation.inner])), inner)
        elif isinstance(relation, Rebase):
            if relation.parent in values:
                values[relation.rebased] = simple.sub(values[relation.parent], low(ranges[relation.parent]))
        elif isinstance(relation, Singleton):
            values[relation.iter] = as_expr(0)
    return values


def split_guards(relations: Sequence[Relation], ranges: Ranges, values: Mapping[IterVar, Expr]) -> list[Cond]:
    """The conditions under which an iteration of the leaves stands for one of the roots.

    One for each split whose loops run beyond the end of the parent, in the order of the relations. With `round_up`
    there is none: what is beyond the end is computed as well.
    """
    guards: dict[Cond, None] = {}
    for relation in relations:
        if isinstance(relation, Split) and relation.parent in values and overruns(relation, ranges):
            parent = ranges[relation.parent]
            guards[values[relation.parent] < simple.add(low(parent), extent(parent))] = None
    return list(guards)


def _fills(split: Split, ranges: Ranges) -> bool:
    """Whether the tiles of a split are known to end where its parent does."""
    total, outer, inner = (extent(ranges[iv]) for iv in (split.parent, split.outer, split.inner))
    covered = simple.number(simple.mul(outer, inner))
    if covered is not None and covered == simple.number(total):
        return True
    return split.factor is not None and inner is split.factor and simple.divides(split.factor, total)


def overruns(split: Split, ranges: Ranges) -> bool:
    """Whether the loops of a split may run beyond the end of its parent."""
    if split.tail is Tail.ROUND_UP:
        return False
    total, outer, inner = (extent(ranges[iv]) for iv in (split.parent, split.outer, split.inner))
    covered = simple.number(simple.mul(outer, inner))
    if split.tail is Tail.SHIFT_INWARDS:
        known = simple.number(total)
        width = simple.number(inner)
        return known is None or width is None or width > known or covered is None
    return not _fills(split, ranges)

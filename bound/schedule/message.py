"""Message passing over the axes of a stage: ranges from roots to leaves, index expressions from leaves to roots.

Example: for `split(i, factor=4)` with `i` in `[0, 10)`, `pass_down_domain` gives `i.outer` in `[0, 3)` and `i.inner` in
`[0, 4)`; `pass_up_index` gives `i = i.outer*4 + i.inner`; `split_guards` gives `i.outer*4 + i.inner < 10`.

The functions are pure, do not know attachments, and decide only conditions on constants. Names: TVM, *InferBound Pass*.
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
    """Return the extent of a range with an upper end."""
    assert isinstance(r.extent, Expr)
    return r.extent


def low(r: Range) -> Expr:
    """Return the minimum of a range with a lower end."""
    assert isinstance(r.min, Expr)
    return r.min


def pass_down_domain(
    relations: Sequence[Relation], roots: Ranges, fixed: Iterable[IterVar] = ()
) -> dict[IterVar, Range]:
    """PassDownDomain: derive ranges of axes from ranges of the roots.

    Axes whose parents have no range get none.

    Parameters
    ----------
    relations: oldest first.
    roots: the ranges to start from.
    fixed: axes that count threads; they keep the extent given in the schedule even if the parent is shorter. Other
        inner loops of a split are capped by the parent.
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
    """Return `min(size, total)`, at least 1, if both are constant; otherwise `size`."""
    limit, requested = simple.number(total), simple.number(size)
    return size if limit is None or requested is None or limit >= requested else as_expr(max(limit, 1))


def with_ancestors(relations: Sequence[Relation], axes: Iterable[IterVar]) -> set[IterVar]:
    """Return the axes and all axes from which they derive."""
    kept = set(axes)
    for relation in reversed(relations):
        if any(child in kept for child in children(relation)):
            kept.update(parents(relation))
    return kept


def pass_up_index(relations: Sequence[Relation], ranges: Ranges, leaves: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """PassUpIndex: express axes in terms of leaves.

    Parameters
    ----------
    relations: oldest first.
    ranges: of every axis, from `pass_down_domain`.
    leaves: the values to start from. Axes derived into other leaves get no value.
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
    """PassDownIndex: express axes in terms of roots, where roots determine them."""
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
    """Return the conditions that exclude iterations of the leaves beyond the end of a split axis.

    One per split whose loops overrun the parent, oldest first; none for `round_up`, which computes the overrun as well.
    """
    guards: dict[Cond, None] = {}
    for relation in relations:
        if isinstance(relation, Split) and relation.parent in values and overruns(relation, ranges):
            parent = ranges[relation.parent]
            guards[values[relation.parent] < simple.add(low(parent), extent(parent))] = None
    return list(guards)


def _fills(split: Split, ranges: Ranges) -> bool:
    """Return whether the tiles of a split provably end where its parent ends."""
    total, outer, inner = (extent(ranges[iv]) for iv in (split.parent, split.outer, split.inner))
    covered = simple.number(simple.mul(outer, inner))
    if covered is not None and covered == simple.number(total):
        return True
    return split.factor is not None and inner is split.factor and simple.divides(split.factor, total)


def overruns(split: Split, ranges: Ranges) -> bool:
    """Return whether the loops of a split may run beyond the end of its parent."""
    if split.tail is Tail.ROUND_UP:
        return False
    total, outer, inner = (extent(ranges[iv]) for iv in (split.parent, split.outer, split.inner))
    covered = simple.number(simple.mul(outer, inner))
    if split.tail is Tail.SHIFT_INWARDS:
        known = simple.number(total)
        width = simple.number(inner)
        return known is None or width is None or width > known or covered is None
    return not _fills(split, ranges)

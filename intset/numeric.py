"""What ranges say in numbers: the canonical forms under them, before any fact is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from intset.expr.node import Expr, PlainVar, Var
from intset.expr.range import Range
from intset.linear.bounds import EVERYTHING, Interval, meet
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.knowledge import Knowledge


def base_normalizer(ranges: Mapping[Var, Range]) -> Normalizer:
    numeric: dict[Var, Interval] = {}
    symbolic: dict[Var, Range] = {}
    empty = False
    for var, limits in ranges.items():
        ends = limits.ends
        if ends is None:
            symbolic[var] = limits
        else:
            low, high = numeric[var] = ends if type(var) is PlainVar else _within_declared(var, ends)
            empty |= low > high
    if not symbolic:
        return Normalizer(numeric, empty=empty)
    return _with_symbolic_ranges(numeric, symbolic, empty)


def _within_declared(var: Var, ends: tuple[int, int]) -> tuple[int, int]:
    low, high, _ = var.declared()
    return (ends[0] if low is None else max(low, ends[0]), ends[1] if high is None else min(high, ends[1]))


def _with_symbolic_ranges(numeric: dict[Var, Interval], symbolic: dict[Var, Range], empty: bool) -> Normalizer:
    """Numeric ends of symbolic ranges, outer variables first; the symbolic ends are kept beside them."""
    limits: dict[Expr, Any] = {}
    pending = dict(symbolic)
    while pending:
        normalizer = Normalizer(dict(numeric), Knowledge(limits=dict(limits)))
        ready = [v for v in pending if not any(w in pending for w in pending[v].free_vars())]
        for var in ready:
            span = pending.pop(var)
            first = normalizer.form(span.min) if isinstance(span.min, Expr) else None
            last = normalizer.form(span.max) if isinstance(span.max, Expr) else None
            low = None if first is None else normalizer.bounds(first)[0]
            high = None if last is None else normalizer.bounds(last)[1]
            declared = var.declared()
            low = declared[0] if low is None else low if declared[0] is None else max(low, declared[0])
            high = declared[1] if high is None else high if declared[1] is None else min(high, declared[1])
            numeric[var] = (low, high)
            limits[var] = (first, last)
            empty |= low is not None and high is not None and low > high
    sizes: dict[Expr, Interval] = {}
    for first, last in limits.values():
        if first is not None and last is not None:
            _learn_size(last.minus(first), numeric, sizes)
    return Normalizer(numeric, Knowledge(atoms=sizes, limits=limits), empty=empty)


def _learn_size(width: Linear, numeric: Mapping[Var, Interval], sizes: dict[Expr, Interval]) -> None:
    """At every point of the domain no range is empty, `width >= 0`; of `[0, n)` that says `n >= 1`."""
    if len(width.terms) != 1:
        return
    ((size, k),) = width.terms.items()
    if not isinstance(size, Var) or size in numeric:
        return
    own: Interval = (-(width.const // k), None) if k > 0 else (None, width.const // -k)
    sizes[size] = meet(meet(size.declared()[:2], sizes.get(size, EVERYTHING)), own)

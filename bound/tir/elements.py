"""Ranges of the elements that an integer formula computes, reductions included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bound import dtypes
from bound.itervar import IterVar
from bound.tir import build, walk
from bound.tir.opaque import Ends, IntFunction, range_of
from bound.tir.reduce import CommReducer, condition, initial, reduction_of, sources
from bound.tir.value import Operand, Value, ValueOp
from intset.expr import ops
from intset.expr.node import Expr, truth
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer


def computed_range(body: Operand, axis: Sequence[IterVar], dtype: str, is_finished: bool = True) -> Ends | None:
    """Return the smallest and the largest element that `body` computes over the ranges of `axis`; `None` if unknown.

    Guarantee: the range contains every stored element. If an element may overflow its type, the range is unknown.

    Parameters
    ----------
    body: the formula of an integer tensor of type `dtype`.
    is_finished: exclude initial values and partial results of a reduction, which elements hold while it runs.
    """
    ranges = {iv: _ends(iv) for iv in axis}
    if isinstance(body, Expr):
        ends = range_of(body, ranges)
    elif isinstance(body, Value) and body.op is ValueOp.REDUCE:
        ends = _reduced(body, ranges, is_finished)
    else:
        ends = None
    return ends if ends is not None and _holds(dtype, ends) else None


def _ends(iv: IterVar) -> Interval:
    """Return constant ends of an axis; (None, None) for a possibly empty or unbounded axis."""
    if iv.dom is None or not isinstance(iv.dom.min, Expr) or not isinstance(iv.dom.max, Expr):
        return (None, None)
    normalizer = Normalizer({})
    low, high = normalizer.bounds(normalizer.form(iv.dom.min))[0], normalizer.bounds(normalizer.form(iv.dom.max))[1]
    return (None, None) if low is not None and high is not None and low > high else (low, high)


def _holds(dtype: str, ends: Ends) -> bool:
    low, high = dtypes.int_range(dtype)
    return low <= ends[0] and ends[1] <= high


def _reduced(body: Value, ranges: dict[IterVar, Interval], is_finished: bool) -> Ends | None:
    """Return the range of a reduction over any subset of the elements, in any order.

    Partial results are inside as well; initial values are, unless `is_finished`.
    """
    combiner, index = reduction_of(body).combiner, reduction_of(body).index
    terms = [range_of(e, ranges) if isinstance(e, Expr) else None for e in sources(body)]
    starts = [range_of(e, ranges) if isinstance(e, Expr) else None for e in initial(body) or combiner.identity]
    term, start = terms[index], starts[index]
    if term is None or start is None:
        return None
    if _is_sum(combiner, index):
        count = _most(ranges[iv] for iv in reduction_of(body).axis)
        return None if count is None else (start[0] + count * min(term[0], 0), start[1] + count * max(term[1], 0))
    types = [build.dtype_of(e) for e in sources(body)]
    some = is_finished and condition(body) is truth(True) and all(_has_points(iv) for iv in reduction_of(body).axis)
    if some and all(_stays_inside(combiner, index, terms, first, types) for first in (terms, starts)):
        return term
    either = [_hull(a, b) for a, b in zip(terms, starts, strict=True)]
    return either[index] if _stays_inside(combiner, index, either, either, types) else None


def _has_points(iv: IterVar) -> bool:
    """Return whether an axis is nonempty for all sizes."""
    if iv.dom is None or not isinstance(iv.dom.extent, Expr):
        return False
    normalizer = Normalizer({})
    least = normalizer.bounds(normalizer.form(iv.dom.extent))[0]
    return least is not None and least > 0


def _hull(a: Ends | None, b: Ends | None) -> Ends | None:
    return None if a is None or b is None else (min(a[0], b[0]), max(a[1], b[1]))


def _is_sum(combiner: CommReducer, index: int) -> bool:
    result = combiner.results[index]
    return result.op is ops.ADD and set(result.args) == {combiner.lhs[index], combiner.rhs[index]}


def _most(spans: Iterable[Interval]) -> int | None:
    """Return the number of points of a box; `None` if unbounded."""
    total = 1
    for low, high in spans:
        if low is None or high is None:
            return None
        total *= high - low + 1
    return total


def _stays_inside(
    combiner: CommReducer, index: int, ends: Sequence[Ends | None], first: Sequence[Ends | None], types: Sequence[str]
) -> bool:
    """Return whether combining a value in `first` with one in `ends` yields a value in `ends`.

    Checks result `index` and, transitively, all results on which it depends.
    """
    number = {parameter: k for side in (combiner.lhs, combiner.rhs) for k, parameter in enumerate(side)}
    limits_of = [*zip(combiner.lhs, first, strict=True), *zip(combiner.rhs, ends, strict=True)]
    ranges = {parameter: limits for parameter, limits in limits_of if limits is not None}
    waiting, seen = [index], {index}
    while waiting:
        k = waiting.pop()
        limits = ends[k]
        if limits is None or not _holds(types[k], limits):
            return False
        for choice in _choices(combiner.results[k]):
            result = range_of(choice, ranges, number) if isinstance(choice, Expr) else None
            if result is None or result[0] < limits[0] or result[1] > limits[1]:
                return False
            new = {number[v] for v in walk.variables(choice) if v in number} - seen
            seen |= new
            waiting += new
    return True


def _choices(root: Operand) -> Iterator[Operand]:
    """Yield the alternatives of nested selections by data; any other operand is its own alternative."""
    waiting = [root]
    while waiting:
        e = waiting.pop()
        if e.op is ops.LOAD and isinstance(e.data, IntFunction) and e.data.body.op is ValueOp.SELECT:
            arguments = dict(zip(e.data.params, e.args, strict=True))
            waiting += [walk.substitute(choice, arguments) for choice in e.data.body.args[1:]]
        else:
            yield e

"""Arrays packed into the storage of a layout, and unpacked again, with numpy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bound.arrays import ArrayEvaluator
from intset.context import Context
from intset.expr import ops
from intset.expr.arguments import mapped
from intset.expr.dag import postorder, substitute
from intset.expr.evaluate import compiled, evaluate
from intset.expr.node import Expr, Var, as_expr, as_int
from intset.expr.printer import shown
from intset.expr.range import Range
from lowering.errors import LayoutError

if TYPE_CHECKING:
    import numpy as np

    from lowering.layout.index_map import IndexMap
    from lowering.layout.strided import Extent

_BITS = 63  # one bit less than numpy's registers, for the sum of two values


def packed(m: IndexMap, array: Any, fill: Any, sizes: Mapping[Var, int] | None) -> np.ndarray[Any, Any]:
    """Pack an array of the old shape; see `IndexMap.pack`."""
    import numpy as np

    old = np.asarray(array)
    m.check_injective()
    values = _size_values(old.shape, m.shape, sizes)
    new_shape, positions = _positions(m, old.shape, values)
    filled = np.asarray(fill)
    try:
        with np.errstate(all="ignore"):
            value = filled.astype(old.dtype)
    except (TypeError, ValueError, OverflowError):
        raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}") from None
    may_round = old.dtype.kind in "fc" and filled.dtype.kind in "iuf"
    if filled.shape or not (may_round or bool(value == filled)):
        raise LayoutError(f"{shown(fill)} is no value of the type {old.dtype}")
    new = np.full(new_shape, value, old.dtype)
    new[positions] = old
    return new


def unpacked(m: IndexMap, array: Any, sizes: Mapping[Var, int] | None) -> np.ndarray[Any, Any]:
    """Unpack an array of the new shape; see `IndexMap.unpack`."""
    import numpy as np

    new = np.asarray(array)
    values = _size_values(new.shape, m.new_shape, sizes)
    old_shape = tuple(max(0, _number(e, values)) for e in m.shape)
    new_shape, positions = _positions(m, old_shape, values)
    if new_shape != new.shape:
        raise LayoutError(f"the new shape of the map is {new_shape}, that of the array is {new.shape}")
    old: np.ndarray[Any, Any] = new[positions]
    return old


def _size_values(shape: Sequence[int], extents: Sequence[Extent], sizes: Mapping[Var, int] | None) -> dict[Var, int]:
    """The values of the sizes: the ones passed, and extents of the array that are a single size."""
    if len(shape) != len(extents):
        raise LayoutError(f"an array of {len(extents)} dimensions is expected, not of {len(shape)}")
    passed = {} if sizes is None else mapped(sizes, "sizes", "a mapping {size: integer}")
    values = {v: as_int(k, f"the size {shown(v)}") for v, k in passed.items()}
    for actual, extent in zip(shape, extents, strict=True):
        if isinstance(extent, Var) and extent not in values:
            values[extent] = int(actual)
    for k, (actual, extent) in enumerate(zip(shape, extents, strict=True)):
        if max(0, _number(extent, values)) != actual:
            raise LayoutError(f"extent {k} of the array is {actual}, not {extent}")
    return values


def _number(extent: Extent, values: Mapping[Var, int]) -> int:
    e = as_expr(extent)
    _check_known([v for v in e.free_vars() if v not in values])
    return int(evaluate(e, {v: values[v] for v in e.free_vars()}))


def _check_known(missing: Sequence[Var]) -> None:
    if missing:
        raise LayoutError(f"the size {missing[0]} does not follow from the shape of the array: pass it in sizes")


def _positions(
    m: IndexMap, shape: tuple[int, ...], values: Mapping[Var, int]
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The new shape, and for each new dimension an array of the old shape with the positions of the elements."""
    if not m.is_whole:
        raise LayoutError("a map that is not defined everywhere in its shape packs no arrays")
    new_shape = tuple(max(0, _number(e, values)) for e in m.new_shape)
    exprs = [substitute(e, dict(values)) for e in m.exprs]
    for e in exprs:
        _check_known([v for v in e.free_vars() if v not in m.variables])
    lows = [_number(as_expr(limits.min), values) for limits in m.ranges]
    return new_shape, tuple(on_grid(e, m.variables, shape) - low for e, low in zip(exprs, lows, strict=True))


def on_grid(e: Expr, variables: tuple[Var, ...], shape: tuple[int, ...]) -> Any:
    """The values of an expression at all points `0 <= v < extent`, as an array of `int64` of that shape.

    numpy evaluates all points at once if the expression is proved to fit and no point divides by 0; otherwise the
    points are evaluated one by one.
    """
    import numpy as np

    ranges: dict[Var, Range | None] = {v: Range(0, n) for v, n in zip(variables, shape, strict=True)}
    if not any(node.op is ops.LOAD for node in postorder((e,))) and Context(ranges).fits(e, _BITS):
        grid = dict(zip(variables, np.indices(shape, np.int64, sparse=True), strict=True))
        cells = ArrayEvaluator(grid, {}, {})(e)
        if cells.bad is None:
            return np.broadcast_to(cells.value, shape)
    function = compiled(e, variables)
    values = (function(*map(int, point)) for point in np.ndindex(*shape))
    return np.fromiter(values, np.int64, int(np.prod(shape))).reshape(shape)

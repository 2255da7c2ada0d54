"""`pad_options`: a function in other layouts, once for each promise about the padding that makes a difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bound import dtypes
from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.transform import transform_layout
from lowering.nest.ir import Allocate, Function, If
from lowering.nest.undef import has_undef, undef
from lowering.nest.walk import operands, statements
from lowering.padding.contract import contract
from lowering.passes.loops.interchange import sequential_buffer_access
from lowering.passes.stores.overcompute import remove_branching_through_overcompute
from lowering.passes.stores.undef_removal import remove_undef


def pad_options(f: Function, layouts: Mapping[str, IndexMap]) -> list[Function]:
    """A function with tensors in other layouts, in as many ways as paddings give: options for a call of a graph.

    The first leaves the padding alone and keeps every guard. Another may read and write any padding, and loses the
    guards for which that is enough. In others the padding of inputs is neutral (0, 1, the lowest or highest value, of
    one input or of all of them), where that makes one more guard unnecessary.

    Parameters
    ----------
    layouts: from names of tensors to their maps, as `transform_layout` takes them.

    Raises
    ------
    InputError: it is no function, there are no layouts, or one is of no tensor of the function.
    LayoutError: a layout does not fit, or has no inverse.

    Example
    -------
    >>> from lowering import IndexMap, contract, parse_nest
    >>> f = parse_nest('''
    ... def total(A: int32[14], B: int32[1]):
    ...     B[0] = 0
    ...     for i in [0, 14):
    ...         B[0] = B[0] + A[i]
    ... ''')
    >>> for option in pad_options(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (14,))}):
    ...     print(contract(option).needs["A"])
    NOTHING
    0
    """
    if not isinstance(f, Function):
        raise InputError(f"pad_options takes a Function, not {shown(f)}")
    if not isinstance(layouts, Mapping) or not layouts:
        raise InputError(f"layouts are a mapping from names of tensors to maps, not {shown(layouts)}")
    left = _shaped(f, layouts, dict.fromkeys(layouts))
    inputs = [t for t in f.inputs if t.name in layouts]
    free = _shaped(f, layouts, {name: undef(_dtype(f, name)) for name in layouts})
    found = [left]
    if _guards(free) < _guards(left) or contract(free).gives != contract(left).gives:
        found.append(free)
    if not _guards(free):
        return found
    done: set[int] = set()
    for some, kind in _neutral(inputs):
        if len(some) > 1 and kind in done:
            continue  # one of them is enough
        pads = {name: undef(_dtype(f, name)) for name in layouts} | {t.name: _value(t.dtype, kind) for t in some}
        one = _shaped(f, layouts, pads)
        if _guards(one) < _guards(free):
            found.append(one)
            done.add(kind)
    return found


def _shaped(f: Function, layouts: Mapping[str, IndexMap], pads: Mapping[str, Any]) -> Function:
    """The function in the layouts, its loops over the new axes, without the guards that the paddings make needless."""
    g = f
    for name, layout in layouts.items():
        g = transform_layout(g, name, layout, pads[name])
    outputs = [t.name for t in f.outputs]
    for name in sorted(layouts, key=lambda name: name not in outputs):
        try:
            g = sequential_buffer_access(g, name)
        except LayoutError:  # the order of what it computes matters, so it stays
            continue
    g = remove_branching_through_overcompute(g)
    if any(has_undef(*operands(stmt)) for stmt in statements(f.body)):
        return g
    return remove_undef(g)  # the stores that were permissions; what was computed there is known to be


def _dtype(f: Function, name: str) -> str:
    tensors = (*f.params, *(stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)))
    return next((t.dtype for t in tensors if t.name == name), dtypes.INDEX)


def _neutral(inputs: list[Tensor]) -> Iterator[tuple[list[Tensor], int]]:
    """Whose padding is to be neutral, and which kind of neutral: one input alone, then all of them."""
    for some in [[t] for t in inputs] + ([inputs] if len(inputs) > 1 else []):
        for kind in range(4):
            yield some, kind


def _value(dtype: str, kind: int) -> int | float | bool:
    number = (0, 1, dtypes.least(dtype), dtypes.greatest(dtype))[kind] if dtype != "bool" else kind % 2
    return bool(number) if dtype == "bool" else float(number) if dtypes.is_float(dtype) else number


def _guards(f: Function) -> int:
    return sum(isinstance(stmt, If) for stmt in statements(f.body))

"""`cache_read`, `cache_write`: copies of parameters in local tensors.

def f(A: int32[14], B: int32[14]):             def f(A: int32[14], B: int32[14]):
    for i in [0, 14):                              allocate AC: int32[14]
        B[i] = A[i] + 1                    ->      for a0 in [0, 14):
                                                       AC[a0] = A[a0]
                                                   for i in [0, 14):
                                                       B[i] = AC[i] + 1
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bound.tensor import Tensor, element
from bound.tir.walk import loaded_tensor
from intset.errors import BudgetError
from intset.expr.dag import substitute
from intset.expr.node import Cond, PlainVar, truth
from intset.expr.printer import shown
from intset.expr.range import Range
from lowering.dataflow import dataflow
from lowering.errors import LayoutError
from lowering.layout.relocation import (
    axes_of,
    inside_loops,
    leading_checks,
    loops_over,
    narrowed,
    relocatable,
    scope_of_storage,
    tensor_like,
    with_accesses,
)
from lowering.nest.driver import cursors
from lowering.nest.ir import Allocate, Function, If, Padding, Stmt, Store, flat, seq
from lowering.nest.names import IDENTIFIER
from lowering.nest.scope import proves
from lowering.nest.tensors import is_outside, tensors_of
from lowering.passes.stores.reaching_values import ReachingValues

_AXES = tuple(PlainVar(f"y{k}") for k in range(32))


def cache_read(f: Function, name: str, local: str | None = None) -> Function:
    """Copy an input into a local tensor at the start, and read the copy instead.

    `transform_layout` can then change the copy's layout alone: `transform_layout(cache_read(f, "A"), "AC", ...)`.

    Guarantee: the same outputs; the same interface.

    Parameters
    ----------
    name: a read-only parameter.
    local: the name of the copy. Default: the parameter's name with a `C`, numbered if that is in use.

    Raises
    ------
    LayoutError: an output, a local tensor, or a tensor that a host call accesses; `local` is in use.
    InputError: the name is unknown or ambiguous.

    Example
    -------
    >>> from lowering import parse_nest
    >>> f = parse_nest('''
    ... def f(A: int32[14], B: int32[14]):
    ...     for i in [0, 14):
    ...         B[i] = A[i] + 1
    ... ''')
    >>> print(cache_write(cache_read(f, "A"), "B"))
    def f(A: int32[14], B: int32[14]):
        allocate BC: int32[14]
        allocate AC: int32[14]
        for a0 in [0, 14):
            AC[a0] = A[a0]
        for i in [0, 14):
            BC[i] = AC[i] + 1
        for b0 in [0, 14):
            B[b0] = BC[b0]
    """
    outer = _parameter(f, name, "cache_read")
    if outer in f.outputs:
        raise LayoutError(f"{f.name} stores to {name}: cache_write makes a copy of what it stores")
    inner, allocation = _local_copy(f, outer, local)
    copy_in = _copy_nest(f, inner, outer, _is_touchable(f, outer))
    return _with_copy(f, outer, inner, [allocation, copy_in], [])


def cache_write(f: Function, name: str, local: str | None = None) -> Function:
    """Compute an output in a local tensor, and copy the stored elements to the output at the end.

    If the function reads the output's initial contents, all elements are copied in at the start and out at the end.

    Guarantee: the same outputs; the same interface.

    Parameters
    ----------
    name: an output parameter.
    local: the name of the copy. Default: the parameter's name with a `C`, numbered if that is in use.

    Raises
    ------
    LayoutError: the tensor is not stored to, or data decides which elements are; it is accessed by a host call, or is
        not a parameter; or `local` is in use.
    InputError: the name is unknown or ambiguous.
    """
    outer = _parameter(f, name, "cache_write")
    if outer not in f.outputs:
        raise LayoutError(f"{f.name} does not store to {name}: cache_read makes a copy of what it reads")
    inner, allocation = _local_copy(f, outer, local)
    before: list[Stmt] = [allocation]
    if _reads_initial_contents(f, outer):
        copied = _is_touchable(f, outer)
        before.append(_copy_nest(f, inner, outer, copied))
    else:
        copied = _is_stored(f, outer)
    return _with_copy(f, outer, inner, before, [_copy_nest(f, outer, inner, copied)])


def _parameter(f: Function, name: str, caller: str) -> Tensor:
    tensor = relocatable(f, name, caller)
    if tensor not in f.params:
        raise LayoutError(f"{name} is no parameter of {f.name}: its layout changes nothing outside")
    return tensor


def _local_copy(f: Function, outer: Tensor, local: Any) -> tuple[Tensor, Allocate]:
    """A local tensor like a parameter, and its allocation."""
    used = {t.name for t in tensors_of(f)} | {v.name for v in f.sizes} | {str(p.data[0]) for p in f.scalars}
    label = f"{outer.name}C" if local is None else local
    if not isinstance(label, str) or not IDENTIFIER.fullmatch(label):
        raise LayoutError(f"the name of the copy of {outer.name} in {f.name} must be a name, not {shown(local)}")
    if local is not None and label in used:
        raise LayoutError(f"the name {label} of the copy of {outer.name} is taken in {f.name}")
    stem, k = label, 0
    while label in used:
        k += 1
        label = f"{stem}_{k}"
    inner = tensor_like(outer, outer.extents, outer.value_range, label)
    padding = f.padding.get(outer)
    if padding is not None:
        new = tuple(PlainVar(v.name) for v in padding.indices)
        padding = Padding(new, padding.at(new))
    return inner, Allocate(inner, tuple(Range(0, e) for e in outer.extents), padding=padding)


def _with_copy(f: Function, outer: Tensor, inner: Tensor, before: list[Stmt], after: list[Stmt]) -> Function:
    """The function that accesses `inner` instead of `outer`, with statements before (behind its checks) and after."""
    k = leading_checks(flat(f.body))
    body = flat(with_accesses(f, outer, inner))
    g = f.with_body(seq(*flat(f.body)[:k], *before, *body[k:], *after))
    layout = f.layouts.get(outer.name)
    return g if layout is None else replace(g, layouts={**f.layouts, inner.name: layout})


def _is_touchable(f: Function, outer: Tensor) -> Cond:
    """The condition on `_AXES` that an element may be accessed."""
    return is_outside(f.padding.get(outer), _AXES[: outer.ndim])


def _copy_nest(f: Function, target: Tensor, source: Tensor, where: Cond) -> Stmt:
    """A nest that copies the elements for which a condition on `_AXES` holds."""
    outer = source if source in f.params else target
    axes = axes_of(outer)
    inside = inside_loops(axes, source.extents, scope_of_storage(f, outer))
    cond = narrowed(substitute(where, dict(zip(_AXES, axes, strict=False))), inside)
    body: Stmt = Store(target, axes, element(source, axes))
    return loops_over(axes, source.extents, body if cond is truth(True) else If(cond, body))


def _reads_initial_contents(f: Function, tensor: Tensor) -> bool:
    """Whether the function may read the tensor's initial contents."""
    values = ReachingValues(f)
    for cursor in cursors(f):
        for node, sources in values.sources(cursor).items():
            if isinstance(node, Tensor) or loaded_tensor(node) is not tensor:
                continue
            if any(s.kind in ("entry", "unknown") and not proves(cursor.scope, ~s.where) for s in sources):
                return True
    return False


def _is_stored(f: Function, tensor: Tensor) -> Cond:
    """The condition on `_AXES` that the function stores to an element."""
    _, written = dataflow(f).touched(tensor.name)
    if not written.is_exact:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} depends on data")
    try:
        return written.condition(_AXES[: tensor.ndim])
    except BudgetError as error:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} is not known: {error}") from error

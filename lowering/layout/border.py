"""`cache_read`, `cache_write`: a copy of a parameter at the border of a function.

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
from intset.expr.node import Cond, PlainVar, truth
from intset.expr.range import Range
from intset.expr.text import shown
from intset.expr.walk import substitute
from lowering.dataflow import dataflow
from lowering.errors import LayoutError
from lowering.layout.blocks import leading_checks, scope_of_storage
from lowering.layout.fill import axes_of, narrowed, over, within
from lowering.layout.moved import movable, tensor_like, with_accesses
from lowering.nest.driver import cursors
from lowering.nest.ir import Allocate, Function, If, Padding, Stmt, Store, flat, seq
from lowering.nest.names import IDENTIFIER
from lowering.nest.scope import proves
from lowering.nest.tensors import is_outside, tensors_of
from lowering.passes.stores.reaching_values import ReachingValues


def cache_read(f: Function, name: str, local: str | None = None) -> Function:
    """The function that first copies an input into a tensor of its own, and reads that.

    The layout of the copy may change without that of the parameter: `transform_layout(cache_read(f, "A"), "AC", ...)`.

    Parameters
    ----------
    name: of a parameter that the function does not store to.
    local: the name of the copy; by default that of the parameter with a `C`, and a number where that is taken.

    Raises
    ------
    LayoutError: the function stores to it, or a host call is made on it; it is no parameter; the name is taken.
    InputError: the function has no tensor of this name, or more than one.

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
    inner, allocation = _copy_of(f, outer, local)
    first, rest = _parts(f, outer, inner)
    touchable = _touchable(f, outer)
    load = _copy(f, inner, outer, touchable)
    return _with_layout(f.with_body(seq(*first, allocation, load, *rest)), outer, inner)


def cache_write(f: Function, name: str, local: str | None = None) -> Function:
    """The function that computes an output in a tensor of its own, and copies that in the end.

    Only what was stored is copied. Where the function reads what the output was given, that is copied first, and all
    of it in the end.

    Parameters
    ----------
    name: of a parameter that the function stores to.
    local: the name of the copy; by default that of the parameter with a `C`, and a number where that is taken.

    Raises
    ------
    LayoutError: the function does not store to it, or which elements depends on data; a host call is made on it; it is
        no parameter; the name is taken.
    InputError: the function has no tensor of this name, or more than one.
    """
    outer = _parameter(f, name, "cache_write")
    if outer not in f.outputs:
        raise LayoutError(f"{f.name} does not store to {name}: cache_read makes a copy of what it reads")
    inner, allocation = _copy_of(f, outer, local)
    first, rest = _parts(f, outer, inner)
    touchable = _touchable(f, outer)
    before: list[Stmt] = [allocation]
    stored = touchable
    if _reads_entry(f, outer):
        before.append(_copy(f, inner, outer, touchable))
    else:
        stored = _stored(f, outer)
    back = _copy(f, outer, inner, stored)
    return _with_layout(f.with_body(seq(*first, *before, *rest, back)), outer, inner)


def _parameter(f: Function, name: str, what: str) -> Tensor:
    tensor = movable(f, name, what)
    if tensor not in f.params:
        raise LayoutError(f"{name} is no parameter of {f.name}: its layout changes nothing outside")
    return tensor


def _copy_of(f: Function, outer: Tensor, local: Any) -> tuple[Tensor, Allocate]:
    """A local tensor like a parameter, and what allocates it."""
    taken = {t.name for t in tensors_of(f)} | {v.name for v in f.sizes} | {str(p.data[0]) for p in f.scalars}
    label = f"{outer.name}C" if local is None else local
    if not isinstance(label, str) or not IDENTIFIER.fullmatch(label):
        raise LayoutError(f"the name of the copy of {outer.name} in {f.name} must be a name, not {shown(local)}")
    if local is not None and label in taken:
        raise LayoutError(f"the name {label} of the copy of {outer.name} is taken in {f.name}")
    stem, k = label, 0
    while label in taken:
        k += 1
        label = f"{stem}_{k}"
    inner = tensor_like(outer, outer.extents, outer.value_range, label)
    padding = f.padding.get(outer)
    if padding is not None:
        new = tuple(PlainVar(v.name) for v in padding.indices)
        padding = Padding(new, padding.at(new))
    return inner, Allocate(inner, tuple(Range(0, e) for e in outer.extents), padding=padding)


def _parts(f: Function, outer: Tensor, inner: Tensor) -> tuple[list[Stmt], list[Stmt]]:
    """What the function checks and assumes first, and the rest, on the copy."""
    own = flat(f.body)
    k = leading_checks(own)
    return own[:k], flat(with_accesses(f, outer, inner))[k:]


def _touchable(f: Function, outer: Tensor) -> Cond:
    """That an element may be touched, on the axes."""
    return is_outside(f.padding.get(outer), _AXES[: outer.ndim])


_AXES = tuple(PlainVar(f"y{k}") for k in range(32))


def _copy(f: Function, target: Tensor, source: Tensor, where: Cond) -> Stmt:
    """A nest that copies the elements for which a condition on `_AXES` holds."""
    outer = source if source in f.params else target
    loops = axes_of(outer)
    here = within(loops, source.extents, scope_of_storage(f, outer))
    cond = narrowed(substitute(where, dict(zip(_AXES, loops, strict=False))), here)
    body: Stmt = Store(target, loops, element(source, loops))
    return over(loops, source.extents, body if cond is truth(True) else If(cond, body))


def _reads_entry(f: Function, tensor: Tensor) -> bool:
    """Whether the function may read what an output was given."""
    known = ReachingValues(f)
    for place in cursors(f):
        for node, sources in known.sources(place).items():
            if isinstance(node, Tensor) or loaded_tensor(node) is not tensor:
                continue
            if any(s.kind in ("entry", "unknown") and not proves(place.scope, ~s.where) for s in sources):
                return True
    return False


def _stored(f: Function, tensor: Tensor) -> Cond:
    """The elements that the function stores to, as a condition on `_AXES`."""
    _, written = dataflow(f).touched(tensor.name)
    if not written.is_exact:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} depends on data")
    try:
        return written.condition(_AXES[: tensor.ndim])
    except BudgetError as error:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} is not known: {error}") from error


def _with_layout(f: Function, outer: Tensor, inner: Tensor) -> Function:
    layout = f.layouts.get(outer.name)
    return f if layout is None else replace(f, layouts={**f.layouts, inner.name: layout})

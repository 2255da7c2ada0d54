"""`with_layouts`: the layouts of a function that was written in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from intset.context import Context
from intset.expr.node import Expr, Var, as_expr
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap
from lowering.nest.ir import Function
from lowering.nest.tensors import storage_of, tensor_named


def with_layouts(f: Function, layouts: Mapping[str, IndexMap]) -> Function:
    """The function, of which it is now known in which layouts its tensors are.

    Parameters
    ----------
    layouts: for names of parameters or local tensors, the map from the indices that the tensor logically has to those
        of its storage. Sizes in it are those of the function, by their names.

    Raises
    ------
    LayoutError: a map is none, is not proved injective, or does not fit the shape of its tensor.
    InputError: the function has no tensor of this name.

    Example
    -------
    >>> from lowering import IndexMap, parse_nest
    >>> f = parse_nest('''
    ... def f(A: int32[4, 4], B: int32[14]):
    ...     for i in [0, 14):
    ...         B[i] = A[i // 4, i % 4]
    ... ''')
    >>> g = with_layouts(f, {"A": IndexMap(lambda i: [i // 4, i % 4], (14,))})
    >>> bool(g.layouts["A"].padding(3, 2))
    True
    """
    if not isinstance(f, Function):
        raise LayoutError(f"with_layouts takes a Function, not {shown(f)}")
    if not isinstance(layouts, Mapping):
        raise LayoutError(f"with_layouts takes maps by the names of tensors, not {shown(layouts)}")
    found = {name: _checked(f, name, m) for name, m in layouts.items()}
    return replace(f, layouts={**f.layouts, **found})


def _checked(f: Function, name: str, m: Any) -> IndexMap:
    tensor = tensor_named(f, name)
    if not isinstance(m, IndexMap):
        raise LayoutError(f"the layout of {name} in {f.name} is an IndexMap, not {shown(m)}")
    found = in_sizes_of(f, m, f"the layout of {name}")
    check_injective(found, f"the layout of {name} in {f.name}")
    storage = [extent for _, extent in storage_of(f, tensor)]
    if len(storage) != len(found.ranges):
        raise LayoutError(f"{name} of {f.name} has {len(storage)} dimensions, its layout has {len(found.ranges)}")
    for k, (extent, new) in enumerate(zip(storage, found.new_shape, strict=True)):
        if not are_equal(f.ctx, extent, new):
            raise LayoutError(f"extent {k} of {name} in {f.name} is {extent}, that of its layout is {new}")
    return found


def in_sizes_of(f: Function, m: IndexMap, what: str) -> IndexMap:
    """A map in the sizes of a function, of which those with the same names are meant.

    Raises
    ------
    LayoutError: there is none of this name.
    """
    own = {v.name: v for v in f.sizes}
    known = {*f.sizes, *f.ctx.ranges}
    new: dict[Var, Expr] = {}
    for v in m.sizes:
        if v in known:
            continue
        if v.name not in own:
            raise LayoutError(f"{v.name} in {what} is no size of {f.name}: the sizes are {', '.join(own) or 'none'}")
        new[v] = own[v.name]
    return m.renamed(new, f.ctx) if new else m


def check_injective(m: IndexMap, what: str) -> None:
    """Refuse a layout in which two elements may lie at one place."""
    try:
        m.check_injective()
    except LayoutError as error:
        raise LayoutError(f"{what} cannot be used: {error}", error.points) from None


def are_equal(ctx: Context, a: Expr | int, b: Expr | int) -> bool:
    """Whether two extents are proved to be the same."""
    return bool(ctx.prove(as_expr(a).eq(b)))

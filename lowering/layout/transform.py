"""`transform_layout` moves a tensor to another layout; `with_layouts` declares the layouts of a function.

def f(A: int32[14], B: int32[14]):         def f(A: int32[4, 4], B: int32[14]):
    for i in [0, 14):                          for a0 in [0, 4):
        B[i] = A[i]                    ->          for a1 in [0, 4):
                                                       assume a0 * 4 + a1 < 14 or A[a0, a1] == 0
                                               for i in [0, 14):
                                                   B[i] = A[i // 4, i % 4]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import intset
from bound import dtypes
from bound.tensor import Tensor
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.errors import InputError
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.node import Cond, Expr, Var, as_expr, constant_value, truth
from intset.expr.printer import shown
from intset.expr.range import Range
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap, LayoutFunction
from lowering.layout.padding_value import Filling, Subject, check_reads, filling_of, map_indices
from lowering.layout.relocation import (
    Contents,
    assuming_nest,
    in_lifetime,
    index_variables,
    inside_loops,
    narrowed,
    relocatable,
    scope_of_storage,
    stores_to,
    storing_nest,
    tensor_like,
    with_accesses,
    with_assumption,
    with_parameter,
    with_requirements,
    without_shape_checks,
)
from lowering.nest.driver import Descent, cursors, rewritten
from lowering.nest.ir import Allocate, Function, Padding, Stmt, Store, flat
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import allocation_of, is_outside, padding_of, storage_of, tensor_named
from lowering.nest.walk import statements
from lowering.passes.simplify import shortened
from lowering.passes.stores.reaching_values import ReachingValues


def transform_layout(f: Function, name: str, map: IndexMap | LayoutFunction, pad_value: object = None) -> Function:
    """Move a tensor of a function to another layout.

    Guarantee: every access follows the map; loops stay as they are; padding of an earlier layout keeps its values.

    The storage begins at 0: a new index in [-3, 13) is stored at 3 more. `pad_value` and `element` take the map's own
    indices. `layouts` of the result maps the original indices to the present ones.

    After each nest that stores to the tensor, a nest over the new shape stores the value in the padding. The padding
    of an input is assumed at the start.

    Parameters
    ----------
    name: a parameter, or a tensor that the function allocates.
    map: a function from the indices to a list of new ones, or an `IndexMap` of the tensor's shape; injective.
    pad_value: the value of the padding.
        `None`: no access may touch the padding. The nest says so (`padding A[i, j] where ...`) and `run` enforces it.
        A number; or `undef()`: any value.
        A function of the new indices that returns a number, `undef()`, an expression of indices, sizes and elements of
        the tensor outside the padding (`element("A", (0, i))`), or `None`. With symbolic sizes, a value that depends on
        the position is a list of pairs, `[(j < 2, 0)]`; the first pair whose condition holds counts.

    Raises
    ------
    LayoutError: the map is not proved injective, or does not fit the shape; the padding would read padding, another
        tensor or unwritten elements; its value is not representable; a host call accesses the tensor.
    InputError: the name is unknown or ambiguous.

    Example
    -------
    >>> from lowering import parse_nest
    >>> f = parse_nest('''
    ... def f(A: int32[14], B: int32[14]):
    ...     for i in [0, 14):
    ...         B[i] = A[i] + 1
    ... ''')
    >>> g = transform_layout(f, "A", lambda i: [i // 4, i % 4], pad_value=0)
    >>> print(transform_layout(g, "B", lambda i: [i // 4, i % 4]))
    def f(A: int32[4, 4], B: int32[4, 4]):
        padding B[i, j] where i * 4 + j >= 14
        for a0 in [0, 4):
            for a1 in [0, 4):
                assume (a0 * 4 + a1 < 14) | (A[a0, a1] == 0)
        for i in [0, 14):
            B[i // 4, i % 4] = A[i // 4, i % 4] + 1
    """
    old = relocatable(f, name, "transform_layout")
    with intset.using(tiers=tiers_within(Effort.DEFAULT)):
        return _Transform(f, old, map, pad_value).result()


class _Transform:
    """One change of layout."""

    def __init__(self, f: Function, old: Tensor, map: Any, pad_value: Any) -> None:
        self.f, self.old = f, old
        self.allocation = allocation_of(f, old)
        self.scope = scope_of_storage(f, old)
        self.what = f"the layout of {old.name} in {f.name}"
        self.lows = [low for low, _ in storage_of(f, old)]
        self.map = self._checked_map(map)
        self.from_zero = self.map.from_zero()
        self.shape = tuple(as_expr(e) for e in self.from_zero.new_shape)
        sizes = {v.name: v for v in f.sizes}
        new = tensor_like(old, self.shape, None)
        self.subject = Subject(f"the padding of {old.name} in {f.name}", new, self.map, self._is_padding, sizes)
        self.ctx = self.scope.ctx.extended(facts=self.map.ctx.facts)  # the user's assumptions
        self.filling = filling_of(pad_value, self.subject, self.ctx)
        self.new = _with_value_range(new, old, self.filling)
        self.contents = Contents(self.new, self.shape, self.map, self._is_padding, self.filling)
        self.stored_fillings: list[Stmt] = []

    def _checked_map(self, map: Any) -> IndexMap:
        extents = [extent for _, extent in storage_of(self.f, self.old)]
        if isinstance(map, IndexMap):
            m = _in_sizes_of(self.f, map, self.what)
            if len(m.shape) != len(extents):
                raise LayoutError(f"{self.what} is for {len(extents)} indices, the map takes {len(m.shape)}")
            for k, (extent, own) in enumerate(zip(extents, m.shape, strict=True)):
                if not _are_equal(self.scope.ctx, extent, own):
                    raise LayoutError(f"{self.what} has extent {k}, {extent}, that of the map is {own}")
        else:
            try:
                m = IndexMap(map, tuple(extents), self.scope.ctx)
            except InputError as error:
                raise LayoutError(f"{self.what} cannot be used: {error}") from error
        if not m.is_whole:
            raise LayoutError(f"{self.what} cannot be a map that is not defined everywhere in its shape")
        _check_injective(m, self.what)
        return m

    # -- the padding --------------------------------------------------------------------------------------------

    def _is_padding(self, indices: Sequence[Expr]) -> Cond:
        return self.map.padding(*indices)

    def _untouchable(self) -> Padding | None:
        """Padding without a value, and elements that were untouchable in the old storage."""
        variables = index_variables(len(self.shape), self.scope)
        inside = inside_loops(variables, self.shape, self.scope)
        indices = map_indices(self.map, variables)
        padding = self.map.padding(*indices)
        disjuncts = [logical_and(padding, logical_not(self.filling.has_value(indices)))]
        before = padding_of(self.f, self.old)
        if before is not None:
            old = zip((as_expr(x) for x in self.map.inverse()(*indices)), self.lows, strict=True)
            old_indices = [x if constant_value(low) == 0 else x + low for x, low in old]
            disjuncts.append(logical_and(logical_not(padding), before.at(old_indices)))
        cond = narrowed(logical_or(*disjuncts), inside)
        return None if cond is truth(False) else Padding(variables, cond)

    # -- the function -------------------------------------------------------------------------------------------

    def result(self) -> Function:
        untouchable = self._untouchable()

        def is_element(indices: Sequence[Expr]) -> Cond:
            inside = logical_not(self.map.padding(*map_indices(self.map, indices)))
            return logical_and(inside, is_outside(untouchable, indices))

        check_reads(self.filling, self.subject, is_element, self.ctx)
        f = self.f.with_body(without_shape_checks(self.f.body, self.old))
        body = with_accesses(f, self.old, self.new, self._storage_indices)
        g = self._parameter(body, untouchable) if self.allocation is None else self._local(body, untouchable)
        g = with_requirements(g, self.old, self.new, self._storage_indices)
        earlier = self.f.layouts.get(self.old.name)
        composed = self.map if earlier is None else earlier.packed_by(self.map)
        g = replace(g, layouts={**self.f.layouts, self.old.name: composed})
        if self.filling.reads:
            _check_written(g, self.stored_fillings, self.subject.what)
        return g

    def _parameter(self, body: Stmt, untouchable: Padding | None) -> Function:
        if self.old in self.f.outputs:
            body = in_lifetime(body, None, self._with_fillings)
        else:
            body = with_assumption(body, assuming_nest(self.contents, self.scope))
        g = with_parameter(self.f, self.old, self.new, body)
        others = {t: padding for t, padding in g.padding.items() if t is not self.new}
        return replace(g, padding=others if untouchable is None else {**others, self.new: untouchable})

    def _local(self, body: Stmt, untouchable: Padding | None) -> Function:
        assert self.allocation is not None
        ranges = tuple(Range(0, extent) for extent in self.shape)
        new = replace(self.allocation, tensor=self.new, ranges=ranges, origin=None, steps=None, padding=untouchable)

        def swap(stmt: Allocate, _: Descent) -> Stmt:
            return new if stmt.tensor is self.old else stmt

        body = rewritten(body, Descent(), enter={Allocate: (swap,)})
        return self.f.with_body(in_lifetime(body, new, self._with_fillings))

    def _storage_indices(self, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        counted = [e - low if constant_value(low) != 0 else e for e, low in zip(indices, self.lows, strict=True)]
        return tuple(shortened(as_expr(e), scope) for e in self.from_zero(*counted))

    def _with_fillings(self, stmts: Sequence[Stmt]) -> list[Stmt]:
        """Insert a nest that fills the padding behind each statement that stores to the tensor."""
        filled: list[Stmt] = []
        for stmt in stmts:
            filled.append(stmt)
            if stores_to(stmt, self.new):
                nest = storing_nest(self.contents, self.scope)
                self.stored_fillings.append(nest)
                filled += flat(nest)
        return filled


def _with_value_range(new: Tensor, old: Tensor, filling: Filling) -> Tensor:
    """The new tensor with the old one's range of values, extended by a constant filling."""
    known = old.value_range or old.op.range_of(old.value_index)
    if known is None or not dtypes.is_int(old.dtype):
        return new
    low, high = known
    for _, value in filling.cases:
        constant = constant_value(value) if isinstance(value, Expr) else None
        if constant is None:
            return new
        low, high = min(low, constant), max(high, constant)
    return tensor_like(new, new.extents, (low, high))  # constants do not refer to the tensor that this replaces


def _check_written(g: Function, fillings: Sequence[Stmt], what: str) -> None:
    """Raise `LayoutError` if a padding's value may read an unwritten element."""
    own = {id(stmt) for nest in fillings for stmt in statements(nest) if isinstance(stmt, Store)}
    values = ReachingValues(g)
    for cursor in cursors(g):
        for node, sources in values.sources(cursor).items() if id(cursor.stmt) in own else ():
            for source in sources:
                is_written = source.kind in ("store", "assume") or (
                    source.kind == "unknown" and source.path is not None
                )
                if not is_written and not proves(cursor.scope, ~source.where):
                    raise LayoutError(f"{what} would read {shown(node)}, which may hold nothing yet")


# -- declared layouts ---------------------------------------------------------------------------------------------


def with_layouts(f: Function, layouts: Mapping[str, IndexMap]) -> Function:
    """Declare the layouts of tensors in a function that was written for them.

    Parameters
    ----------
    layouts: the map from a tensor's logical indices to its storage, by names of parameters or local tensors. Its sizes
        are matched with the function's by name.

    Raises
    ------
    LayoutError: a value is not an `IndexMap`, is not proved injective, or does not fit its tensor's shape.
    InputError: a name is unknown or ambiguous.

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
    return replace(f, layouts={**f.layouts, **{name: _declared(f, name, m) for name, m in layouts.items()}})


def _declared(f: Function, name: str, m: Any) -> IndexMap:
    tensor = tensor_named(f, name)
    if not isinstance(m, IndexMap):
        raise LayoutError(f"the layout of {name} in {f.name} is an IndexMap, not {shown(m)}")
    layout = _in_sizes_of(f, m, f"the layout of {name}")
    _check_injective(layout, f"the layout of {name} in {f.name}")
    storage = [extent for _, extent in storage_of(f, tensor)]
    if len(storage) != len(layout.ranges):
        raise LayoutError(f"{name} of {f.name} has {len(storage)} dimensions, its layout has {len(layout.ranges)}")
    for k, (extent, new) in enumerate(zip(storage, layout.new_shape, strict=True)):
        if not _are_equal(f.ctx, extent, new):
            raise LayoutError(f"extent {k} of {name} in {f.name} is {extent}, that of its layout is {new}")
    return layout


def _in_sizes_of(f: Function, m: IndexMap, what: str) -> IndexMap:
    """The map with each size replaced by the function's size of the same name; `LayoutError` if there is none."""
    own = {v.name: v for v in f.sizes}
    known = {*f.sizes, *f.ctx.ranges}
    new: dict[Var, Expr] = {}
    for v in m.sizes:
        if v not in known:
            if v.name not in own:
                raise LayoutError(
                    f"{v.name} in {what} is no size of {f.name}: the sizes are {', '.join(own) or 'none'}"
                )
            new[v] = own[v.name]
    return m.renamed(new, f.ctx) if new else m


def _check_injective(m: IndexMap, what: str) -> None:
    try:
        m.check_injective()
    except LayoutError as error:
        raise LayoutError(f"{what} cannot be used: {error}", error.points) from None


def _are_equal(ctx: Context, a: Expr | int, b: Expr | int) -> bool:
    return bool(ctx.prove(as_expr(a).eq(b)))

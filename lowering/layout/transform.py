"""`transform_layout`: a tensor of a function in another layout.

def f(A: int32[14], B: int32[14]):         def f(A: int32[4, 4], B: int32[14]):
    for i in [0, 14):                          for a0 in [0, 4):
        B[i] = A[i]                    ->          for a1 in [0, 4):
                                                       assume a0 * 4 + a1 < 14 or A[a0, a1] == 0
                                               for i in [0, 14):
                                                   B[i] = A[i // 4, i % 4]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import intset
from bound import dtypes
from bound.tensor import Tensor
from intset.config import Effort, tiers_within
from intset.errors import InputError
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.node import Cond, Expr, as_expr, constant_value, truth
from intset.expr.range import Range
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.layout.blocks import after_allocation, leading_checks, scope_of_storage
from lowering.layout.declare import are_equal, check_injective, in_sizes_of
from lowering.layout.fill import Held, assumed, index_variables, narrowed, stored, within
from lowering.layout.index_map import IndexMap
from lowering.layout.moved import (
    movable,
    stores_to,
    tensor_like,
    with_accesses,
    with_allocation,
    with_parameter,
    with_requirements,
    without_checks_of_shape,
)
from lowering.layout.padding_value import Filling, Subject, check_reads, filling_of, own_place
from lowering.nest.driver import cursors
from lowering.nest.ir import Function, Padding, Stmt, Store, flat, seq
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import allocation_of, is_outside, padding_of, storage_of
from lowering.nest.walk import statements
from lowering.passes.simplify import shortened
from lowering.passes.stores.reaching_values import ReachingValues


def transform_layout(f: Function, name: str, map: Any, pad_value: Any = None) -> Function:
    """The function in which a tensor has another layout; its loops stay as they are.

    Every access follows the map. The storage counts from 0: of a new index in [-3, 13), 3 is added; `pad_value` and
    `element` speak of the map's own indices. `layouts` tells the map from the first indices to the present ones.

    Parameters
    ----------
    name: of a parameter, or of a tensor that the function allocates.
    map: a function from the indices to a list of new ones, or an `IndexMap` of the shape; injective.
    pad_value: what the elements hold at which no old one arrives.
        `None`: nothing may touch them, which the nest says (`padding A[i, j] where ...`) and `run` enforces.
        A number; or `undef()`: any value.
        A function of the new indices: a number, `undef()`, an expression of indices, sizes and elements of the tensor
        that are no padding (`element("A", (0, i))`), or `None`. Where sizes are symbolic, what holds in places is a
        list of pairs: `[(j < 2, 0)]`, the first whose condition holds.

    After each nest that stores to the tensor comes one over the new shape that stores the value in the padding. Of an
    input, which nobody stores to, it is assumed at the start. What the padding of an earlier layout holds stays.

    Raises
    ------
    LayoutError: the map is not proved injective, or does not fit; the padding would read padding, another tensor or
        what is not yet written, or hold what its type does not; a host call is made on the tensor.
    InputError: the function has no tensor of this name, or more than one.

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
    old = movable(f, name, "transform_layout")
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return _Transform(f, old, map, pad_value).made()


class _Transform:
    def __init__(self, f: Function, old: Tensor, given: Any, pad_value: Any) -> None:
        self.f, self.old = f, old
        self.allocation = allocation_of(f, old)
        self.scope = scope_of_storage(f, old)
        self.what = f"the layout of {old.name} in {f.name}"
        self.lows = [low for low, _ in storage_of(f, old)]
        self.map = self._map(given)
        self.zero = self.map.from_zero()
        self.shape = tuple(as_expr(e) for e in self.zero.new_shape)
        sizes = {v.name: v for v in f.sizes}
        new = tensor_like(old, self.shape, None)
        self.subject = Subject(f"the padding of {old.name} in {f.name}", new, self.map, self._is_filled, sizes)
        self.ctx = self.scope.ctx.extended(facts=self.map.ctx.facts)  # on the word of whoever gave the map
        self.filling = filling_of(pad_value, self.subject, self.ctx)
        self.new = _with_values(new, old, self.filling)
        self.fills: list[Stmt] = []
        self.held = Held(self.new, self.shape, self.map, self._is_filled, self.filling)

    def _map(self, given: Any) -> IndexMap:
        extents = [extent for _, extent in storage_of(self.f, self.old)]
        if not isinstance(given, IndexMap):
            try:
                found = IndexMap(given, tuple(extents), self.scope.ctx)
            except InputError as error:
                raise LayoutError(f"{self.what} cannot be used: {error}") from error
        else:
            found = in_sizes_of(self.f, given, self.what)
            if len(found.shape) != len(extents):
                raise LayoutError(f"{self.what} is for {len(extents)} indices, the map takes {len(found.shape)}")
            for k, (extent, own) in enumerate(zip(extents, found.shape, strict=True)):
                if not are_equal(self.scope.ctx, extent, own):
                    raise LayoutError(f"{self.what} has extent {k}, {extent}, that of the map is {own}")
        if not found.is_whole:
            raise LayoutError(f"{self.what} cannot be a map that is not defined everywhere in its shape")
        check_injective(found, self.what)
        return found

    # -- the padding --------------------------------------------------------------------------------------------

    def _is_filled(self, place: Sequence[Expr]) -> Cond:
        """The padding that may be touched: new indices at which no old element arrives."""
        return self.map.padding(*place)

    def _untouched(self) -> Padding | None:
        """What of the new storage may not be touched: padding of which nothing is said, and what might not before."""
        indices = index_variables(len(self.shape), self.scope)
        here = within(indices, self.shape, self.scope)
        place = own_place(self.map, indices)
        padding = self.map.padding(*place)
        parts = [logical_and(padding, logical_not(self.filling.is_told(place)))]
        before = padding_of(self.f, self.old)
        if before is not None:
            old = self.map.inverse()(*place)
            pairs = zip(map(as_expr, old), self.lows, strict=True)
            arrived = [x if constant_value(low) == 0 else x + low for x, low in pairs]
            parts.append(logical_and(logical_not(padding), before.at(arrived)))
        cond = narrowed(logical_or(*parts), here)
        return None if cond is truth(False) else Padding(indices, cond)

    def _is_element(self, untouched: Padding | None) -> Callable[[Sequence[Expr]], Cond]:
        """On places of the new storage, that an old element arrives there, and may be touched."""

        def is_element(place: Sequence[Expr]) -> Cond:
            return logical_and(logical_not(self.map.padding(*own_place(self.map, place))), is_outside(untouched, place))

        return is_element

    # -- the function -------------------------------------------------------------------------------------------

    def made(self) -> Function:
        untouched = self._untouched()
        check_reads(self.filling, self.subject, self._is_element(untouched), self.ctx)
        f = self.f.with_body(without_checks_of_shape(self.f.body, self.old))
        body = with_accesses(f, self.old, self.new, self._place)
        if self.allocation is None:
            stmts = flat(body)
            if self.old in self.f.outputs:
                body = seq(*self._filled(stmts))
            else:
                k = leading_checks(stmts)
                body = seq(*stmts[:k], assumed(self.held, self.scope), *stmts[k:])
            g = with_parameter(self.f, self.old, self.new, body)
            others = {t: padding for t, padding in g.padding.items() if t is not self.new}
            g = replace(g, padding=others if untouched is None else {**others, self.new: untouched})
        else:
            ranges = tuple(Range(0, extent) for extent in self.shape)
            allocation = replace(
                self.allocation, tensor=self.new, ranges=ranges, origin=None, steps=None, padding=untouched
            )
            body = with_allocation(body, self.old, lambda stmt: allocation)
            g = self.f.with_body(after_allocation(body, allocation, self._filled))
        g = with_requirements(g, self.old, self.new, self._place)
        earlier = self.f.layouts.get(self.old.name)
        whole = self.map if earlier is None else earlier.packed_by(self.map)
        g = replace(g, layouts={**self.f.layouts, self.old.name: whole})
        if self.filling.reads:
            _check_written(g, self.fills, self.subject.what)
        return g

    def _place(self, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        counted = [e - low if constant_value(low) != 0 else e for e, low in zip(indices, self.lows, strict=True)]
        return tuple(shortened(as_expr(e), scope) for e in self.zero(*counted))

    def _filled(self, stmts: Sequence[Stmt]) -> list[Stmt]:
        """The statements, each that stores to the tensor followed by a nest that fills its padding."""
        found: list[Stmt] = []
        for stmt in stmts:
            found.append(stmt)
            if stores_to(stmt, self.new):
                nest = stored(self.held, self.scope)
                self.fills.append(nest)
                found += flat(nest)
        return found


def _with_values(new: Tensor, old: Tensor, filling: Filling) -> Tensor:
    """The tensor with what is known of its elements."""
    known = old.value_range or old.op.range_of(old.value_index)
    if known is None or not dtypes.is_int(old.dtype):
        return new
    low, high = known
    for _, value in filling.cases:
        held = constant_value(value) if isinstance(value, Expr) else None
        if held is None:
            return new
        low, high = min(low, held), max(high, held)
    return tensor_like(new, new.extents, (low, high))  # a filling of constants names no tensor


def _check_written(g: Function, fills: Sequence[Stmt], what: str) -> None:
    """Refuse a padding made of elements that hold nothing yet."""
    own = {id(stmt) for nest in fills for stmt in statements(nest) if isinstance(stmt, Store)}
    known = ReachingValues(g)
    for place in cursors(g):
        for node, sources in known.sources(place).items() if id(place.stmt) in own else ():
            for source in sources:
                is_held = source.kind in ("store", "assume") or (source.kind == "unknown" and source.line is not None)
                if not is_held and not proves(place.scope, ~source.where):
                    raise LayoutError(f"{what} would read {shown(node)}, which may hold nothing yet")

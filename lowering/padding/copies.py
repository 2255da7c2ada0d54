"""Copies between a parameter and local storage, by what they compute: the map, and what the padding then holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bound.tensor import Tensor, element
from bound.tir.reduce import Parameter
from bound.tir.value import Truth, parameter
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.context import Context
from intset.errors import BudgetError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.expr.range import Range
from intset.expr.walk import opaque_terms, substitute
from intset.itermap.itermap import iter_map
from lowering.dataflow import Dataflow, Source
from lowering.dataflow.accesses import reads_of
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.contents import axes_of, inside_loops, loops_over, narrowed
from lowering.layout.padding_value import map_indices, storage_indices
from lowering.nest.driver import Cursor, cursor_of, cursors
from lowering.nest.ir import Assume, Evaluate, Function, If, Let, Stmt, Store, seq
from lowering.nest.scope import Scope, proves
from lowering.nest.undef import has_undef
from lowering.nest.walk import operands, replaced, statements, tensors_read
from lowering.padding.states import PLACE, UNDEF, PadState, PadValue, folded
from lowering.passes.simplify import shortened
from lowering.passes.stores.reaching_values import ReachingValues
from lowering.passes.stores.undef_removal import always_undef


class Copy(NamedTuple):
    """A copy between a parameter and local storage, in whichever direction.

    Attributes
    ----------
    stmts: the numbers of the statements of the body that make it.
    outer, inner: the parameter, the local tensor.
    map: from the indices of the parameter to those of the local tensor.
    value: what a copy to the local tensor leaves in its padding; `None` where that is not written.
    """

    stmts: tuple[int, ...]
    outer: Tensor
    inner: Tensor
    map: IndexMap
    value: PadState | None


class _Unwritten:
    """Nothing is stored there."""


_UNWRITTEN = _Unwritten()


def uses(stmt: Stmt) -> tuple[set[Tensor], set[Tensor]]:
    """The tensors of which a statement reads, and stores to, elements; host calls do both."""
    read: set[Tensor] = set()
    stored: set[Tensor] = set()
    for inner in statements(stmt):
        read.update(tensors_read(*operands(inner)))
        if isinstance(inner, Store):
            stored.add(inner.tensor)
        elif isinstance(inner, Evaluate):
            read.update(inner.reads)
            stored.update(inner.writes)
    return read, stored


def is_plain(stmt: Stmt) -> bool:
    """Whether a statement does nothing but loop, test, name and store."""
    return not any(isinstance(inner, (Evaluate, Assume)) for inner in statements(stmt))


class Copies:
    """What statements of a function copy.

    Parameters
    ----------
    first: the checks that the function begins with.
    """

    def __init__(self, f: Function, first: Sequence[Stmt]) -> None:
        self.f, self.first = f, tuple(first)

    def pad(self, stmts: Sequence[Stmt], outer: Tensor, inner: Tensor) -> tuple[IndexMap, PadState | None] | None:
        """The map with which all of a parameter is copied to a local tensor, and what its padding holds; `None` where
        that is not what the statements do."""
        if outer in self.f.padding:
            return None
        for m in self._maps(stmts, outer, inner, is_pad=True):
            old = axes_of(outer)
            elements = self._probed(
                stmts, (outer, inner), old, outer, element(inner, storage_indices(m, [as_expr(e) for e in m(*old)]))
            )
            if not all(_is_element(held, outer, old, scope) for held, scope in elements):
                continue
            found = self._padding(stmts, outer, inner, m)
            if found is not None:
                return m, None if isinstance(found, _Unwritten) else found
        return None

    def crop(self, stmts: Sequence[Stmt], outer: Tensor, inner: Tensor) -> IndexMap | None:
        """The map with which all of a parameter is copied from a local tensor; `None` where that is not what the
        statements do."""
        if outer in self.f.padding:
            return None
        for m in self._maps(stmts, outer, inner, is_pad=False):
            old = axes_of(outer)
            place = storage_indices(m, [as_expr(e) for e in m(*old)])
            elements = self._probed(stmts, (inner, outer), old, outer, element(outer, old))
            if all(_is_element(held, inner, place, scope) for held, scope in elements):
                return m
        return None

    # -- maps ---------------------------------------------------------------------------------------------------

    def _maps(self, stmts: Sequence[Stmt], outer: Tensor, inner: Tensor, is_pad: bool) -> Iterator[IndexMap]:
        """Maps from the indices of the parameter to those of the local tensor that the statements may use."""
        known = self.f.layouts.get(inner.name)
        if known is not None and outer.name not in self.f.layouts:
            yield known
        storage = [Range(0, extent) for extent in inner.extents]
        g = self._alone(stmts, ())
        for place in cursors(g):
            stmt = place.stmt
            if not isinstance(stmt, Store):
                continue
            for node, tensor, _, ways in reads_of([stmt.value], lambda e: e):
                read = read_indices(node)
                pair = (read, stmt.indices) if is_pad else (stmt.indices, read)
                if tensor is not (outer if is_pad else inner) or any(opaque_terms(e) for side in pair for e in side):
                    continue
                for way in ways:
                    found = _turned(place, place.scope.where(*way.conditions), outer, *pair)
                    made = None if found is None else _onto(found, outer, storage, place.scope.ctx)
                    if made is not None and made.injective:
                        yield made

    # -- what is held -------------------------------------------------------------------------------------------

    def _alone(self, stmts: Sequence[Stmt], params: Sequence[Tensor]) -> Function:
        """The statements as a function."""
        used = dict.fromkeys((*params, *(t for stmt in (*self.first, *stmts) for side in uses(stmt) for t in side)))
        body = seq(*self.first, *stmts)
        stored = {t for stmt in stmts for t in uses(stmt)[1]}
        outputs = tuple(t for t in used if t in stored)
        return replace(self.f, params=tuple(used), outputs=outputs, body=body, padding={}, layouts={}, labels={})

    def _probed(
        self,
        stmts: Sequence[Stmt],
        params: Sequence[Tensor],
        axes: Sequence[Var],
        over_: Tensor,
        held: Any,
        cond: Truth | None = None,
    ) -> list[tuple[Any, Scope]]:
        """What an element holds behind the statements, in loops over a tensor: each value, and what is known there."""
        name: Parameter = Var("held") if isinstance(held, Expr) else parameter("held", held.dtype)
        probe = Let(name, held)
        body: Stmt = probe if cond is None else If(cond, probe)
        g = self._alone(stmts, params)
        g = g.with_body(seq(g.body, loops_over(axes, over_.extents, body)))
        known = ReachingValues(g)
        at = cursor_of(g, probe)
        found = []
        for source in known.sources(at).get(held, ()):
            there = at.scope.where(source.where)
            if not proves(there, truth(False)):
                found.append((_value(source, known.flow, loaded_tensor(held), there), there))
        return found

    def _padding(
        self, stmts: Sequence[Stmt], outer: Tensor, inner: Tensor, m: IndexMap
    ) -> PadState | _Unwritten | None:
        """What the padding holds; `None` where that is no one thing."""
        axes = axes_of(inner)
        ctx = Scope(None, {}, (), frozenset(), self.f.ctx)
        place = map_indices(m, axes)
        cond = narrowed(m.padding(*place), inside_loops(axes, inner.extents, ctx))
        if cond is truth(False):
            return _UNWRITTEN
        held = self._probed(stmts, (outer, inner), axes, inner, element(inner, axes), cond)
        states = [_state(value, axes, m, inner.dtype) for value, _ in held]
        if not states or any(state is None for state in states):
            return None
        if all(state is _UNWRITTEN for state in states):
            return _UNWRITTEN
        return states[0] if all(state == states[0] for state in states) else None


def _turned(place: Cursor, scope: Scope, outer: Tensor, xs: Sequence[Expr], ys: Sequence[Expr]) -> Any:
    """The function from indices of the parameter to those of the local tensor that loops go through."""
    loops = [loop.var for loop in place.loops]
    if not loops:
        return None
    found = iter_map(scope.ctx, loops, xs, [Range(0, extent) for extent in outer.extents])
    if not found.injective:
        return None
    try:
        back = found.inverse(found.places)
    except (UndecidedError, BudgetError):
        return None
    new = [substitute(y, back) for y in ys]

    def fn(*old: Expr) -> list[Expr]:
        values = dict(zip(found.places, old, strict=True))
        return [substitute(e, values) for e in new]

    return fn


def _onto(fn: Any, outer: Tensor, storage: Sequence[Range], ctx: Context) -> IndexMap | None:
    """The map into a storage, if it fits there."""
    try:
        return IndexMap(fn, outer.extents, ctx).onto(storage)
    except LayoutError:
        return None


def _value(source: Source, flow: Dataflow, tensor: Tensor | None, scope: Scope) -> Any:
    """What a source puts into its element; `None` where that is not known."""
    if source.kind in ("entry", "unwritten"):
        return _UNWRITTEN
    stored = flow.stored(source)
    if stored is None:
        return None
    value = source.value
    if value is None:
        if any(loaded_tensor(node) is tensor for node in nodes(stored)) or not has_undef(stored):
            return None
        value = stored
    return shortened(value, scope)


def _is_element(held: Any, tensor: Tensor, indices: Sequence[Expr], scope: Scope) -> bool:
    """Whether a value is this element."""
    if held is None or held is _UNWRITTEN:
        return False
    if loaded_tensor(held) is tensor:
        return proves(scope, logical_and(*(a.eq(b) for a, b in zip(held.args, indices, strict=True))))
    wanted = element(tensor, tuple(indices))
    return isinstance(held, Expr) and isinstance(wanted, Expr) and proves(scope, held.eq(wanted))


def _state(value: Any, axes: Sequence[Var], m: IndexMap, dtype: str) -> PadState | _Unwritten | None:
    """What is held in the padding, as a state; `None` where it is none."""
    if value is None or isinstance(value, _Unwritten):
        return value
    if always_undef(value):
        return UNDEF
    if has_undef(value) or any(loaded_tensor(node) is not None for node in nodes(value)):
        return None
    first = storage_indices(m, PLACE[: len(axes)])
    told = replaced(value, dict(zip(axes, first, strict=True)))
    found = folded(Context().simplify(told) if isinstance(told, (Expr, Cond)) else told, dtype)
    return found if isinstance(found, PadValue) else None

"""Recognize layout copies between parameters and local tensors by dataflow: index map and resulting padding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bound.tensor import Tensor, element
from bound.tir.value import Truth
from bound.tir.walk import loaded_tensor, nodes, read_indices
from intset.context import Context
from intset.errors import BudgetError, UndecidedError
from intset.expr.build import logical_and
from intset.expr.dag import opaque_terms, substitute
from intset.expr.node import Cond, Expr, Var, as_expr, truth
from intset.expr.range import Range
from intset.itermap.itermap import iter_map
from lowering.dataflow import Dataflow, Source
from lowering.dataflow.accesses import reads_of
from lowering.errors import LayoutError
from lowering.layout import IndexMap
from lowering.layout.padding_value import map_indices, storage_indices
from lowering.layout.relocation import axes_of, inside_loops, narrowed, probed
from lowering.nest.driver import Cursor, cursor_of, cursors
from lowering.nest.ir import Assume, Evaluate, Function, Stmt, Store, seq
from lowering.nest.scope import Scope, proves
from lowering.nest.undef import has_undef
from lowering.nest.walk import operands, replaced, statements, tensors_read
from lowering.padding.states import PLACE, UNDEF, PadState, PadValue, folded
from lowering.passes.simplify import shortened
from lowering.passes.stores.reaching_values import ReachingValues
from lowering.passes.stores.undef_removal import always_undef


class Copy(NamedTuple):
    """A pad or crop: a layout copy between a parameter and a local tensor.

    Attributes
    ----------
    stmts: indices of the copy's statements in the function body.
    outer, inner: the parameter, the local tensor.
    map: index map from parameter to local tensor.
    value: padding state left by a pad; `None` if the padding stays unwritten.
    """

    stmts: tuple[int, ...]
    outer: Tensor
    inner: Tensor
    map: IndexMap
    value: PadState | None


class _Unwritten:
    """The type of `_UNWRITTEN`, the marker for elements without a store."""


_UNWRITTEN = _Unwritten()


def uses(stmt: Stmt) -> tuple[set[Tensor], set[Tensor]]:
    """Collect the tensors read and the tensors stored by a statement, including host calls."""
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
    """Whether a statement contains no host call and no assumption."""
    return not any(isinstance(inner, (Evaluate, Assume)) for inner in statements(stmt))


class Copies:
    """Recognizes statements of a function as pads or crops.

    Guarantee: every logical element of a match is proved equal to its source.

    Parameters
    ----------
    first: leading checks of the function body, assumed to have passed.
    """

    def __init__(self, f: Function, first: Sequence[Stmt]) -> None:
        self.f, self.first = f, tuple(first)

    def pad(self, stmts: Sequence[Stmt], outer: Tensor, inner: Tensor) -> tuple[IndexMap, PadState | None] | None:
        """Match a copy of the whole parameter into a local tensor; returns its map and padding state, or `None` if the
        statements compute anything else."""
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
        """Match a copy of the whole parameter out of a local tensor; returns its map, or `None` if the statements
        compute anything else."""
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
        """Yield candidate maps: the declared layout, then inverses of load-store index pairs."""
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
                    found = _composed(place, place.scope.where(*way.conditions), outer, *pair)
                    made = None if found is None else _onto(found, outer, storage, place.scope.ctx)
                    if made is not None and made.injective:
                        yield made

    # -- what is held -------------------------------------------------------------------------------------------

    def _alone(self, stmts: Sequence[Stmt], params: Sequence[Tensor]) -> Function:
        """Wrap the leading checks and the statements in a function."""
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
        """Probe `held` after the statements, looping over the elements of `over_`; returns each reaching value with its
        scope."""
        g, probe = probed(self._alone(stmts, params), held, axes, over_.extents, cond)
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
        """The padding's single state after the statements; `None` if states differ or are unknown."""
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


def _composed(place: Cursor, scope: Scope, outer: Tensor, xs: Sequence[Expr], ys: Sequence[Expr]) -> Any:
    """Invert `xs`, the parameter's indices, over the loops and compose with `ys`, the local tensor's; `None` if not
    invertible."""
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
    """Build an index map into the given storage; `None` if it does not fit."""
    try:
        return IndexMap(fn, outer.extents, ctx).onto(storage)
    except LayoutError:
        return None


def _value(source: Source, flow: Dataflow, tensor: Tensor | None, scope: Scope) -> Any:
    """The value stored by a reaching definition; `None` if unknown."""
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
    """Whether a value provably equals `tensor[indices]`."""
    if held is None or held is _UNWRITTEN:
        return False
    if loaded_tensor(held) is tensor:
        return proves(scope, logical_and(*(a.eq(b) for a, b in zip(held.args, indices, strict=True))))
    wanted = element(tensor, tuple(indices))
    return isinstance(held, Expr) and isinstance(wanted, Expr) and proves(scope, held.eq(wanted))


def _state(value: Any, axes: Sequence[Var], m: IndexMap, dtype: str) -> PadState | _Unwritten | None:
    """Convert a padding value to a state; `None` if it depends on data or is partly undefined."""
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

"""`hoist_layouts` moves the layout copies at a function's border, recognized by dataflow, out of the function.

Dataflow tells the index map of such a copy and the padding that it leaves.

def f(A: int32[14], B: int32[14]):                A --pad (i // 4, i % 4), 0--> AC
    allocate AC: int32[4, 4]
    ...                                           def f(AC: int32[4, 4], BC: int32[4, 4]):
        AC[io, ii] = select(..., A[..], 0)   ->       for io in [0, 4):
    ...                                                   for ii in [0, 4):
        BC[io, ii] = AC[io, ii] + 1                           BC[io, ii] = AC[io, ii] + 1
    ...
        B[i] = BC[i // 4, i % 4]                  BC --crop (i // 4, i % 4), 1--> B
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bound.dtypes import Array, Numeric
from bound.tensor import Tensor, element
from bound.tir.value import Number, Truth
from bound.tir.walk import loaded_tensor, read_indices
from intset.context import Context
from intset.errors import BudgetError, InputError, IntSetError, UndecidedError
from intset.expr import Cond, Expr, Range, Var, as_expr, constant_value, dag, shown
from intset.expr.build import logical_and, logical_or
from intset.expr.node import truth
from intset.itermap.itermap import iter_map
from lowering.codegen.python_runtime import poison
from lowering.dataflow import Dataflow, Source, dataflow
from lowering.dataflow.program import reads_of
from lowering.errors import LayoutError
from lowering.interpreter import Scalar, bound_values, by_tensor, checked_array, run
from lowering.layout import IndexMap, transform
from lowering.layout.padding_value import Filling, map_indices, storage_indices
from lowering.nest import driver, ir
from lowering.nest.scope import Scope, proves, written_in
from lowering.nest.walk import read_by, replaced, statements, tensors_read
from lowering.padding.contract import contract
from lowering.padding.states import PLACE, UNDEF, UNTOUCHED, Grid, PadState, PadValue, State, folded
from lowering.passes.simplify import shortened
from lowering.passes.stores.dead_code import always_undef
from lowering.passes.stores.reaching_values import ReachingValues

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


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


def uses(stmt: ir.Stmt) -> tuple[set[Tensor], set[Tensor]]:
    """Collect the tensors read and the tensors stored by a statement, including host calls."""
    return {t for inner in statements(stmt) for t in read_by(inner)}, set(written_in(stmt))


def is_plain(stmt: ir.Stmt) -> bool:
    """Whether a statement contains no host call and no assumption."""
    return not any(isinstance(inner, (ir.Evaluate, ir.Assume)) for inner in statements(stmt))


def _composed(place: driver.Cursor, scope: Scope, outer: Tensor, xs: Sequence[Expr], ys: Sequence[Expr]) -> Any:
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
    new = [dag.substitute(y, back) for y in ys]

    def fn(*old: Expr) -> list[Expr]:
        values = dict(zip(found.places, old, strict=True))
        return [dag.substitute(e, values) for e in new]

    return fn


def _onto(fn: Any, outer: Tensor, storage: Sequence[Range], ctx: Context) -> IndexMap | None:
    """Build an index map into the given storage; `None` if it does not fit."""
    try:
        return IndexMap(fn, outer.extents, ctx).onto(storage)
    except LayoutError:
        return None


def _value(source: Source, flow: Dataflow, tensor: Tensor | None, scope: Scope) -> Any:
    """The value stored by a reaching definition; `UNTOUCHED` without a store, `None` if unknown."""
    if source.kind in ("entry", "unwritten"):
        return UNTOUCHED
    stored = flow.stored(source)
    if stored is None:
        return None
    value = source.value
    if value is None:
        if tensor in tensors_read(stored) or not ir.has_undef(stored):
            return None
        value = stored
    return shortened(value, scope)


def _is_element(held: Any, tensor: Tensor, indices: Sequence[Expr], scope: Scope) -> bool:
    """Whether a value provably equals `tensor[indices]`."""
    if held is None or held is UNTOUCHED:
        return False
    if loaded_tensor(held) is tensor:
        return proves(scope, logical_and(*(a.eq(b) for a, b in zip(held.args, indices, strict=True))))
    wanted = element(tensor, tuple(indices))
    return isinstance(held, Expr) and isinstance(wanted, Expr) and proves(scope, held.eq(wanted))


def _state(value: Any, axes: Sequence[Var], m: IndexMap, dtype: str) -> PadState | None:
    """Convert a padding value to a state; `None` if it depends on data or is partly undefined."""
    if value is None or isinstance(value, State):
        return value
    if always_undef(value):
        return UNDEF
    if ir.has_undef(value) or tensors_read(value):
        return None
    first = storage_indices(m, PLACE[: len(axes)])
    told = replaced(value, dict(zip(axes, first, strict=True)))
    found = folded(Context().simplify(told) if isinstance(told, (Expr, Cond)) else told, dtype)
    return found if isinstance(found, PadValue) else None


class Border(NamedTuple):
    """A pad or crop hoisted out of a function.

    Attributes
    ----------
    tensor: the name of the logical parameter.
    map: maps logical indices to packed indices.
    value: padding state: a pad writes it (`None`: writes nothing), a crop's input satisfies it.
    """

    tensor: str
    map: IndexMap
    value: PadState | None


@dataclass(frozen=True)
class Hoisted:
    """A function split into pads, a packed function and crops.

    Guarantee: `run` returns the results of the original function.

    Attributes
    ----------
    f: the original function.
    pads, crops: the hoisted copies, in parameter order.
    packed: the remaining function; formerly local tensors are its parameters.
    names: packed parameter names, pads first, then crops.
    """

    f: ir.Function
    pads: tuple[Border, ...]
    crops: tuple[Border, ...]
    packed: ir.Function
    names: tuple[str, ...] = field(repr=False)

    def run(
        self,
        arrays: Mapping[str, ArrayLike],
        sizes: Mapping[Scalar, Numeric] | None = None,
        functions: Mapping[str, Callable[..., object]] | None = None,
        undef: Callable[[str], Numeric] | None = None,
    ) -> dict[str, Array]:
        """Pad the inputs, run the packed function, crop the outputs in place.

        Raises
        ------
        The errors of `lowering.run`.
        """
        import numpy as np

        given = {t.name: array for t, array in by_tensor(self.f, arrays).items()}
        passed = {
            t: checked_array(t.name, t.dtype, given[t.name], t in self.f.outputs)
            for t in self.f.params
            if t.name in given
        }
        numbers, shapes = bound_values(self.f, passed, sizes)
        values: dict[Number, Any] = dict(zip((*self.f.sizes, *self.f.scalars), numbers, strict=True))
        at = {v: values[v] for v in self.f.sizes}
        inner = {t.name: given[t.name] for t in self.packed.params if t in self.f.params and t.name in given}
        for name, border in zip(self.names, self.pads, strict=False):
            tensor = next(t for t in self.packed.params if t.name == name)
            logical = np.asarray(given[border.tensor], tensor.dtype)
            grid = Grid(border.map.renamed(at, Context()))
            packed = grid.layout.pack(logical, poison(tensor.dtype))
            value = None if border.value is UNDEF and undef is None else border.value
            inner[name] = grid.filled(packed, value, tensor.dtype, undef)
        results = run(self.packed, inner, values, functions, undef=undef)
        crops = {border.tensor: name for name, border in zip(self.names[len(self.pads) :], self.crops, strict=True)}
        maps = {border.tensor: border.map for border in self.crops}
        found: dict[str, Any] = {}
        for tensor in self.f.outputs:
            if tensor.name not in crops:
                found[tensor.name] = results[tensor.name]
                continue
            target = given.get(tensor.name)
            if target is None:
                target = np.empty(shapes[tensor], tensor.dtype)
            target[...] = maps[tensor.name].unpack(results[crops[tensor.name]], at)
            found[tensor.name] = target
        for key, tensor in self.f.labels.items():
            if isinstance(key, str) and tensor in self.f.outputs:
                found[key] = found[tensor.name]
        return found


def hoist_layouts(f: ir.Function) -> Hoisted:
    """Split a function into pads, a packed function and crops.

    A pad copies all elements of one input into a local tensor, and may fill its padding, before other statements read
    the tensor. A crop copies a local tensor into an output after the last store to the tensor. Other copies stay.
    If results depend on a pad's padding value, the packed function assumes this value.

    Raises
    ------
    LayoutError: `f` is not a `Function`.

    Example
    -------
    >>> from lowering import cache_read, cache_write, parse_nest, transform_layout
    >>> f = parse_nest('''
    ... def f(A: int32[14], B: int32[14]):
    ...     for i in [0, 14):
    ...         B[i] = A[i] + 1
    ... ''')
    >>> g = cache_write(cache_read(f, "A"), "B")
    >>> for name in ("AC", "BC"):
    ...     g = transform_layout(g, name, lambda i: [i // 4, i % 4], pad_value=0)
    >>> h = hoist_layouts(g)
    >>> h.pads[0].value, h.crops[0].value
    (0, 0)
    >>> print(h.packed)
    def f(AC: int32[4, 4], BC: int32[4, 4]):
        for i in [0, 14):
            BC[i // 4, i % 4] = AC[i // 4, i % 4] + 1
        for bc0 in [0, 4):
            for bc1 in [0, 4):
                if bc0 * 4 + bc1 >= 14:
                    BC[bc0, bc1] = 0
    """
    if not isinstance(f, ir.Function):
        raise LayoutError(f"hoist_layouts takes a Function, not {shown(f)}")
    return _Hoist(f).made()


class _Hoist:
    """The pads and crops of a function, and the statements that remain.

    Guarantee: every logical element of a copy is proved equal to its source; the leading checks of the function have
    passed.
    """

    def __init__(self, f: ir.Function) -> None:
        self.f = f
        self.stmts = ir.flat(f.body)
        self.uses = [uses(stmt) for stmt in self.stmts]
        self.allocations = {s.tensor: k for k, s in enumerate(self.stmts) if isinstance(s, ir.Allocate)}
        self._first = self.stmts[: transform.leading_checks(self.stmts)]
        order = {t: k for k, t in enumerate(f.params)}
        self.pads = sorted(filter(None, map(self._pad, self.allocations)), key=lambda copy: order[copy.outer])
        self.crops = sorted(filter(None, map(self._crop, f.outputs)), key=lambda copy: order[copy.outer])

    # -- which copies -------------------------------------------------------------------------------------------

    def _storing(self, tensor: Tensor) -> tuple[int, ...]:
        return tuple(k for k, (_, stored) in enumerate(self.uses) if tensor in stored)

    def _copied(self, target: Tensor) -> tuple[tuple[int, ...], Tensor | None]:
        """The statements that store to a tensor, and the tensor that they copy from; `None` if they do more than copy.

        Both tensors have one type, and their storage starts at 0.
        """
        own = self._storing(target)
        read = {t for k in own for t in self.uses[k][0]} - {target}
        if len(read) != 1 or not all(self.uses[k][1] == {target} and is_plain(self.stmts[k]) for k in own):
            return own, None
        (source,) = read
        stored = [self.stmts[self.allocations[t]] for t in (source, target) if t in self.allocations]
        starts = [r.min for stmt in stored if isinstance(stmt, ir.Allocate) for r in stmt.ranges]
        is_plain_storage = all(isinstance(e, Expr) and constant_value(e) == 0 for e in starts)
        return own, source if source.dtype == target.dtype and is_plain_storage else None

    def _pad(self, inner: Tensor) -> Copy | None:
        own, outer = self._copied(inner)
        if outer is None or outer not in self.f.inputs:
            return None
        others = [k for k, (r, _) in enumerate(self.uses) if inner in r and k not in own]
        if min(others, default=max(own) + 1) < max(own):
            return None
        found = self._pad_of([self.stmts[k] for k in own], outer, inner)
        return None if found is None else Copy(own, outer, inner, *found)

    def _crop(self, outer: Tensor) -> Copy | None:
        own, inner = self._copied(outer)
        if inner is None or inner not in self.allocations or any(inner is copy.inner for copy in self.pads):
            return None
        if any(outer in r for r, _ in self.uses) or max(self._storing(inner), default=-1) > min(own):
            return None
        found = next(self._matching([self.stmts[k] for k in own], outer, inner, is_pad=False), None)
        return None if found is None else Copy(own, outer, inner, found, None)

    # -- what a copy does -----------------------------------------------------------------------------------------

    def _pad_of(
        self, stmts: Sequence[ir.Stmt], outer: Tensor, inner: Tensor
    ) -> tuple[IndexMap, PadState | None] | None:
        """Match a copy of the whole parameter into a local tensor; returns its map and padding state, or `None` if the
        statements compute anything else."""
        for m in self._matching(stmts, outer, inner, is_pad=True):
            found = self._padding(stmts, outer, inner, m)
            if found is not None:
                return m, None if found is UNTOUCHED else found
        return None

    def _matching(self, stmts: Sequence[ir.Stmt], outer: Tensor, inner: Tensor, is_pad: bool) -> Iterator[IndexMap]:
        """Yield the maps by which the statements copy each element of the parameter."""
        if outer in self.f.padding:
            return
        old = transform.axes_of(outer)
        for m in self._maps(stmts, outer, inner, is_pad):
            new = storage_indices(m, [as_expr(e) for e in m(*old)])
            source, target = (outer, inner) if is_pad else (inner, outer)
            read, written = (old, new) if is_pad else (new, old)
            elements = self._probed(stmts, (source, target), old, outer, element(target, written))
            if all(_is_element(held, source, read, scope) for held, scope in elements):
                yield m

    # -- maps ---------------------------------------------------------------------------------------------------

    def _maps(self, stmts: Sequence[ir.Stmt], outer: Tensor, inner: Tensor, is_pad: bool) -> Iterator[IndexMap]:
        """Yield candidate maps: the declared layout, then inverses of load-store index pairs."""
        known = self.f.layouts.get(inner.name)
        if known is not None and outer.name not in self.f.layouts:
            yield known
        storage = [Range(0, extent) for extent in inner.extents]
        g = self._alone(stmts, ())
        for place in driver.cursors(g):
            stmt = place.stmt
            if not isinstance(stmt, ir.Store):
                continue
            for node, tensor, _, ways in reads_of([stmt.value], lambda e: e):
                read = read_indices(node)
                pair = (read, stmt.indices) if is_pad else (stmt.indices, read)
                if tensor is not (outer if is_pad else inner) or any(
                    dag.opaque_terms(e) for side in pair for e in side
                ):
                    continue
                for way in ways:
                    found = _composed(place, place.scope.where(*way.conditions), outer, *pair)
                    made = None if found is None else _onto(found, outer, storage, place.scope.ctx)
                    if made is not None and made.injective:
                        yield made

    # -- what is held -------------------------------------------------------------------------------------------

    def _alone(self, stmts: Sequence[ir.Stmt], params: Sequence[Tensor]) -> ir.Function:
        """Wrap the leading checks and the statements in a function."""
        used = dict.fromkeys((*params, *(t for stmt in (*self._first, *stmts) for side in uses(stmt) for t in side)))
        body = ir.seq(*self._first, *stmts)
        stored = {t for stmt in stmts for t in uses(stmt)[1]}
        outputs = tuple(t for t in used if t in stored)
        return replace(self.f, params=tuple(used), outputs=outputs, body=body, padding={}, layouts={}, labels={})

    def _probed(
        self,
        stmts: Sequence[ir.Stmt],
        params: Sequence[Tensor],
        axes: Sequence[Var],
        over_: Tensor,
        held: Any,
        *conditions: Truth,
    ) -> list[tuple[Any, Scope]]:
        """Probe `held` after the statements, looping over the elements of `over_`; returns each reaching value with its
        scope."""
        g, probe = transform.probed(self._alone(stmts, params), held, axes, over_.extents, *conditions)
        known = ReachingValues(g)
        at = driver.cursor_of(g, probe)
        found = []
        for source in known.flow.by_element(at).get(held, ()):
            there = at.scope.where(source.where)
            if not proves(there, truth(False)):
                found.append((_value(source, known.flow, loaded_tensor(held), there), there))
        return found

    def _padding(self, stmts: Sequence[ir.Stmt], outer: Tensor, inner: Tensor, m: IndexMap) -> PadState | None:
        """The padding's single state after the statements; `None` if states differ or are unknown."""
        axes = transform.axes_of(inner)
        ctx = Scope(None, {}, (), frozenset, self.f.ctx)
        place = map_indices(m, axes)
        cond = transform.narrowed(m.padding(*place), transform.inside_loops(axes, inner.extents, ctx))
        if cond is truth(False):
            return UNTOUCHED
        held = self._probed(stmts, (outer, inner), axes, inner, element(inner, axes), cond)
        states = [_state(value, axes, m, inner.dtype) for value, _ in held]
        return states[0] if states and all(state == states[0] for state in states) else None

    # -- what is left -------------------------------------------------------------------------------------------

    def made(self) -> Hoisted:
        packed = self._packed()
        try:
            promised = contract(packed).promises({copy.inner.name: copy.value for copy in self.pads})
        except IntSetError:  # symbolic sizes, or a nest over the budget
            promised = {}
        pads = tuple(Border(copy.outer.name, copy.map, copy.value) for copy in self.pads)
        crops = tuple(Border(c.outer.name, c.map, promised.get(c.inner.name, UNTOUCHED)) for c in self.crops)
        names = tuple(copy.inner.name for copy in (*self.pads, *self.crops))
        return Hoisted(self.f, pads, crops, packed, names)

    def _packed(self) -> ir.Function:
        f = self.f
        both = [*self.pads, *self.crops]
        if not both:
            return f
        gone = {k for copy in both for k in (*copy.stmts, self.allocations[copy.inner])}
        kept = [stmt for k, stmt in enumerate(self.stmts) if k not in gone]
        params: dict[Tensor, None] = {}
        for t in f.params:
            params.update(dict.fromkeys([copy.inner for copy in both if copy.outer is t] or [t]))
        outputs = tuple(dict.fromkeys(t for t in params if t in f.outputs or any(t is c.inner for c in self.crops)))
        g = replace(
            f,
            params=tuple(params),
            outputs=outputs,
            body=ir.seq(*kept),
            labels={key: t for key, t in f.labels.items() if t in params},
            layouts=self._layouts(),
            padding={t: p for t, p in f.padding.items() if t in params},
        )
        for copy in self.pads:
            g = transform.with_requirements(g, copy.outer, copy.inner, _follow(copy))
            g = g.with_body(transform.with_accesses(g, copy.outer, copy.inner, _follow(copy)))
        padding = dict(g.padding)
        told = [(copy.inner, self._untouched(copy)) for copy in both]
        padding.update((t, untouched) for t, untouched in told if untouched is not None)
        g = replace(g, padding=padding)
        return _assuming(g, _needed(g, [copy for copy in self.pads if copy.value is not None]))

    def _layouts(self) -> dict[str, IndexMap]:
        gone = {copy.outer.name for copy in (*self.pads, *self.crops)}
        found = {name: m for name, m in self.f.layouts.items() if name not in gone}
        for copy in (*self.pads, *self.crops):
            first = self.f.layouts.get(copy.outer.name)
            found[copy.inner.name] = copy.map if first is None else first.packed_by(copy.map)
        return found

    def _untouched(self, copy: Copy) -> ir.Padding | None:
        """Compute the untouchable padding of a packed parameter: declared padding, plus padding no pad writes."""
        allocation = self.stmts[self.allocations[copy.inner]]
        assert isinstance(allocation, ir.Allocate)
        if copy not in self.pads or copy.value is not None:
            return allocation.padding
        outside = Scope(None, {}, (), frozenset, self.f.ctx)
        axes = transform.index_variables(copy.inner.ndim, outside)
        padding = copy.map.padding(*map_indices(copy.map, axes))
        if allocation.padding is not None:
            padding = logical_or(padding, allocation.padding.at(axes))
        cond = transform.narrowed(padding, transform.inside_loops(axes, copy.inner.extents, outside))
        return None if cond is truth(False) else ir.Padding(axes, cond)


def _follow(copy: Copy) -> Callable[[tuple[Expr, ...], Scope], tuple[Expr, ...]]:
    def place_of(indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        new = storage_indices(copy.map, tuple(map(as_expr, copy.map(*indices))))
        return tuple(shortened(e, scope) for e in new)

    return place_of


def _is_padding_read(g: ir.Function, copy: Copy) -> bool:
    """Test whether the function may read padding; unknown counts as yes."""
    try:
        read, _ = dataflow(g).touched(copy.inner.name)
        return not (read - copy.map.from_zero().image()).is_empty
    except (BudgetError, IntSetError):
        return True


def _needed(g: ir.Function, pads: Sequence[Copy]) -> list[Copy]:
    """Select the pads whose padding values affect results."""
    try:
        if not pads or _is_sound(g):
            return []
        needed = list(pads)
        for copy in pads:
            rest = [other for other in needed if other is not copy]
            if _is_sound(_assuming(g, rest)):
                needed = rest
        return needed
    except (BudgetError, InputError):  # symbolic sizes, or a nest over the budget
        return [copy for copy in pads if _is_padding_read(g, copy)]


def _is_sound(g: ir.Function) -> bool:
    """Test that results are independent of unconstrained padding.

    Raises
    ------
    InputError: the function has symbolic sizes.
    BudgetError: the nest exceeds the budget.
    """
    if g.sizes:
        raise InputError(f"{g.name} depends on the size {g.sizes[0].name}")
    try:
        contract(g)
    except LayoutError:
        return False
    return True


def _assuming(g: ir.Function, pads: Sequence[Copy]) -> ir.Function:
    """Insert assumptions of the pads' padding values at the function's start."""
    return g.with_body(transform.with_assumption(g.body, ir.seq(*(_assumed(g, copy) for copy in pads)))) if pads else g


def _assumed(g: ir.Function, copy: Copy) -> ir.Stmt:
    """Build a nest that assumes a pad's padding value."""
    places = PLACE[: copy.inner.ndim]
    value = copy.value.expr if isinstance(copy.value, PadValue) else ir.undef(copy.inner.dtype)
    filling = Filling(places, ((truth(True), value),))
    held = transform.Contents(copy.inner, copy.inner.extents, copy.map, lambda place: copy.map.padding(*place), filling)
    return transform.assuming_nest(held, transform.scope_of_storage(g, copy.inner))

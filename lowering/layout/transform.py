"""Layouts of the tensors of a function: `transform_layout`, `with_layouts`, `add_constraint`, caches.

Each relocates a tensor: all accesses move to another storage, and nests that store its contents, or assume them, are
added.

`transform_layout` moves a tensor to another layout; `with_layouts` declares the layouts of a function.

def f(A: int32[14], B: int32[14]):         def f(A: int32[4, 4], B: int32[14]):
    for i in [0, 14):                          for a0 in [0, 4):
        B[i] = A[i]                    ->          for a1 in [0, 4):
                                                       assume a0 * 4 + a1 < 14 or A[a0, a1] == 0
                                               for i in [0, 14):
                                                   B[i] = A[i // 4, i % 4]

`cache_read`, `cache_write`: copies of parameters in local tensors.

def f(A: int32[14], B: int32[14]):             def f(A: int32[14], B: int32[14]):
    for i in [0, 14):                              allocate AC: int32[14]
        B[i] = A[i] + 1                    ->      for a0 in [0, 14):
                                                       AC[a0] = A[a0]
                                                   for i in [0, 14):
                                                       B[i] = AC[i] + 1
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import intset
from bound import dtypes
from bound.tensor import PlaceholderOp, Tensor, element
from bound.tir import build, walk
from bound.tir.value import CALL, NUMBER, Operand, Truth, Value, make
from bound.tir.walk import loaded_tensor, nodes
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, Range, Var, as_expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, logical_not, logical_or
from intset.expr.node import PlainVar, truth
from lowering.dataflow import dataflow
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap, LayoutFunction, parameter_names
from lowering.layout.padding_value import Filling, Subject, check_reads, filling_of, in_own_sizes, map_indices
from lowering.nest import driver, ir
from lowering.nest import scope as scopes
from lowering.nest.names import IDENTIFIER, untaken
from lowering.nest.scope import Scope
from lowering.nest.walk import map_operands, operands, rebuilt, statements
from lowering.passes.simplify import mirrored, shortened
from lowering.passes.stores.reaching_values import ReachingValues


class Contents(NamedTuple):
    """The values of some elements of a tensor.

    Attributes
    ----------
    tensor: the tensor.
    shape: the extents of its storage, which begins at 0.
    map: the map to its indices, which may begin elsewhere.
    where: the condition that selects the elements, as a function of the map's new indices.
    filling: their values.
    """

    tensor: Tensor
    shape: tuple[Expr, ...]
    map: IndexMap
    where: Callable[[Sequence[Expr]], Cond]
    filling: Filling

    def cases(self, axes: Sequence[Var], inside: Scope) -> list[tuple[Cond, Operand]]:
        """Conditions on the axes, as short as `inside` allows, each with the value of the elements selected."""
        indices = map_indices(self.map, axes)
        where = self.where(indices)
        cases = [(narrowed(logical_and(where, cond), inside), value) for cond, value in self.filling.at(indices)]
        return [(cond, value) for cond, value in cases if cond is not truth(False)]


def storing_nest(contents: Contents, scope: Scope) -> ir.Stmt:
    """A nest over the whole storage that stores the contents; empty if no element is selected."""
    return _nest(contents, scope, lambda axes, cond, value, _: ir.guarded(ir.Store(contents.tensor, axes, value), cond))


def assuming_nest(contents: Contents, scope: Scope, proved: bool = False) -> ir.Stmt:
    """A nest over the whole storage that assumes the contents; empty if no element is selected."""

    def assume(axes: tuple[Var, ...], cond: Cond, value: Operand, inside: Scope) -> ir.Stmt:
        equal = equals(contents.tensor, axes, value)
        if cond is not truth(True):
            equal = build.logical(ops.OR, mirrored(inside.ctx.simplify(logical_not(cond))), equal)
        return ir.Assume(equal, proved)

    return _nest(contents, scope, assume)


def _nest(
    contents: Contents, scope: Scope, statement: Callable[[tuple[Var, ...], Cond, Operand, Scope], ir.Stmt]
) -> ir.Stmt:
    axes = axes_of(contents.tensor)
    inside = inside_loops(axes, contents.shape, scope)
    cases = contents.cases(axes, inside)
    body = [statement(axes, cond, shortened(value, inside.where(cond)), inside) for cond, value in cases]
    return loops_over(axes, contents.shape, ir.seq(*body)) if body else ir.Seq()


def equals(tensor: Tensor, indices: tuple[Expr, ...], value: Operand) -> Truth:
    """The condition that an element has a value; for NaN, `isnan`."""
    loaded: Operand = element(tensor, indices)
    if isinstance(value, Value) and value.op is NUMBER and value.data != value.data:
        return make(CALL, (loaded,), "bool", "isnan")
    if isinstance(loaded, Expr) and isinstance(value, Expr):
        return loaded.eq(value)
    return make(ops.EQ, (loaded, value), "bool")


def narrowed(cond: Cond, scope: Scope) -> Cond:
    """Simplify a condition and drop conjuncts proved in a scope."""
    simple = scope.ctx.simplify(cond)
    if scopes.proves(scope, logical_not(simple)):
        return truth(False)
    parts = [part for part in dag.conjuncts(simple) if not scopes.proves(scope, part)]
    return mirrored(logical_and(*parts))


# -- loops over a storage -----------------------------------------------------------------------------------------


def axes_of(tensor: Tensor) -> tuple[Var, ...]:
    """Loop variables for the axes of a tensor."""
    return tuple(Var(f"{tensor.name}{k}".lower()) for k in range(tensor.ndim))


def index_variables(dims: int, scope: Scope) -> tuple[Var, ...]:
    """Variables for the indices of a padding, with names that are unused in a scope."""
    taken = {v.name for v in (*scope.ctx.ranges, *(v for f in scope.ctx.facts for v in f.condition.free_vars()))}
    labels = [label for label in (*"ijklmnpq", *(f"i{k}" for k in range(dims + len(taken)))) if label not in taken]
    return tuple(PlainVar(label) for label in labels[:dims])


def inside_loops(axes: Sequence[Var], shape: Sequence[Expr], scope: Scope) -> Scope:
    """The scope inside loops over a storage."""
    for axis, extent in zip(axes, shape, strict=True):
        scope = scope.inside(ir.For(axis, Range(0, extent), ir.Seq()))
    return scope


def loops_over(axes: Sequence[Var], shape: Sequence[Expr], body: ir.Stmt) -> ir.Stmt:
    """Loops over a whole storage, in order."""
    for axis, extent in zip(reversed(axes), reversed(shape), strict=True):
        body = ir.For(axis, Range(0, extent), body)
    return body


IndicesOf = Callable[[scopes.Indices, Scope], scopes.Indices]


def probed(
    f: ir.Function, load: Operand, axes: Sequence[Var], extents: Sequence[Expr], *conditions: Truth
) -> tuple[ir.Function, ir.Let]:
    """Append a nest that only reads an element; its reaching definitions are the contents at the end of a function.

    Parameters
    ----------
    load: the read, over `axes`, which are loops from 0 to `extents`.
    conditions: restrict the values of the axes.
    """
    probe = ir.let("probe", load)
    return f.with_body(ir.seq(f.body, loops_over(axes, extents, ir.guarded(probe, *conditions)))), probe


def tensor_like(tensor: Tensor, shape: tuple[Expr, ...], values: tuple[int, int] | None, name: str = "") -> Tensor:
    """A placeholder with the type of a tensor, another shape and elements within `values`."""
    return PlaceholderOp(name or tensor.name, shape, tensor.dtype, values).outputs[0]


def relocatable(f: ir.Function, name: str, caller: str) -> Tensor:
    """The tensor of a name, if no host call accesses it: a host call fixes the layout of its arguments.

    Raises
    ------
    LayoutError: `f` is no `Function` (the message names `caller`); or a host call accesses the tensor.
    InputError: the name is unknown or ambiguous.
    """
    if not isinstance(f, ir.Function):
        raise LayoutError(f"{caller} takes a Function, not {shown(f)}")
    tensor = scopes.tensor_named(f, name)
    for stmt in statements(f.body):
        if isinstance(stmt, ir.Evaluate) and tensor in (*stmt.reads, *stmt.writes, *stmt.call.args):
            raise LayoutError(f"{stmt.call.name} is a host call on {tensor.name} of {f.name}, which stays as it is")
    return tensor


# -- positions ----------------------------------------------------------------------------------------------------


def scope_of_storage(f: ir.Function, tensor: Tensor) -> Scope:
    """The scope at the allocation of a local tensor; for a parameter, the scope behind the leading checks."""
    allocation = scopes.allocation_of(f, tensor)
    if allocation is not None:
        return driver.cursor_of(f, allocation).scope
    scope = driver.Cursor.root(f).scope
    stmts = ir.flat(f.body)
    for stmt in stmts[: leading_checks(stmts)]:
        scope = scope.after(stmt)
    return scope


def leading_checks(stmts: Sequence[ir.Stmt]) -> int:
    """The number of leading statements that only name values, assert or assume."""
    checks = (ir.Assert, ir.Assume, ir.For, ir.If, ir.Let, ir.Seq)

    def is_check(stmt: ir.Stmt) -> bool:
        return not isinstance(stmt, (ir.If, ir.Seq)) and all(isinstance(s, checks) for s in statements(stmt))

    return len(list(takewhile(is_check, stmts)))


def with_assumption(body: ir.Stmt, nest: ir.Stmt) -> ir.Stmt:
    """A body with a nest behind its leading checks."""
    stmts = ir.flat(body)
    k = leading_checks(stmts)
    return ir.seq(*stmts[:k], nest, *stmts[k:])


def in_lifetime(
    body: ir.Stmt, allocation: ir.Allocate | None, change: Callable[[Sequence[ir.Stmt]], Sequence[ir.Stmt]]
) -> ir.Stmt:
    """The body with `change` applied to the statements behind an allocation, to the end of its sequence.

    Parameters
    ----------
    allocation: `None` for a parameter, whose lifetime is the body.
    """
    if allocation is None:
        return ir.seq(*change(ir.flat(body)))

    def on_block(block: ir.Seq, _: driver.Descent) -> ir.Stmt:
        if allocation not in block.stmts:
            return block
        k = block.stmts.index(allocation) + 1
        return ir.seq(*block.stmts[:k], *change(block.stmts[k:]))

    return driver.rewritten(body, driver.Descent(), leave={ir.Seq: (on_block,)})


# -- accesses -----------------------------------------------------------------------------------------------------


def same_indices(indices: scopes.Indices, scope: Scope) -> scopes.Indices:
    """Identity, for storage of equal shape."""
    return indices


def with_accesses(f: ir.Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> ir.Stmt:
    """The body of a function with all accesses of `old` redirected to `new`.

    Parameters
    ----------
    indices_of: maps old indices to new ones, in the scope of the access.
    """

    def redirect(stmt: ir.Stmt, cursor: driver.Cursor) -> ir.Stmt:
        def move(tensor: Tensor, indices: scopes.Indices) -> tuple[Tensor, scopes.Indices] | None:
            return (new, indices_of(indices, cursor.scope)) if tensor is old else None

        if shape_terms(stmt, old):
            stmt = map_operands(stmt, lambda e: walk.rewrite(e, shape_terms(stmt, old)))
        return scopes.redirected(stmt, move) if any(a.tensor is old for a in scopes.element_accesses(stmt)) else stmt

    return driver.rewritten(f.body, driver.Cursor.root(f), enter={ir.Stmt: (redirect,)})


def with_requirements(f: ir.Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> ir.Function:
    """The function with all accesses of `old` in its requirements redirected to `new`."""

    def with_new(requirement: ir.Requirement) -> ir.Requirement:
        nest = with_accesses(f.with_body(requirement.nest), old, new, indices_of)
        return ir.Requirement(next(s.cond for s in statements(nest) if isinstance(s, ir.Assume)), nest)

    return replace(f, requires=tuple(map(with_new, f.requires)))


def shape_terms(stmt: ir.Stmt, tensor: Tensor) -> dict[Operand, Operand]:
    """The extents of a tensor, by the terms that read them from the shape of the bound array."""
    loads = (node for node in nodes(*operands(stmt)) if node.op is ops.LOAD and isinstance(node.data, ir.ShapeOf))
    return {node: tensor.extents[node.args[0].data] for node in loads if node.data.tensor is tensor}


def with_parameter(f: ir.Function, old: Tensor, new: Tensor, body: ir.Stmt) -> ir.Function:
    """The function with one parameter replaced, and another body."""

    def swapped(t: Tensor) -> Tensor:
        return new if t is old else t

    return replace(
        f,
        params=tuple(map(swapped, f.params)),
        outputs=tuple(map(swapped, f.outputs)),
        labels={key: swapped(t) for key, t in f.labels.items()},
        padding={swapped(t): padding for t, padding in f.padding.items()},
        body=body,
    )


def transform_layout(
    f: ir.Function, name: str, map: IndexMap | LayoutFunction, pad_value: object = None
) -> ir.Function:
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

    def __init__(self, f: ir.Function, old: Tensor, map: Any, pad_value: Any) -> None:
        self.f, self.old = f, old
        self.allocation = scopes.allocation_of(f, old)
        self.scope = scope_of_storage(f, old)
        self.what = f"the layout of {old.name} in {f.name}"
        self.lows = [low for low, _ in scopes.storage_of(f, old)]
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
        self.stored_fillings: list[ir.Stmt] = []

    def _checked_map(self, map: Any) -> IndexMap:
        extents = [extent for _, extent in scopes.storage_of(self.f, self.old)]
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

    def _untouchable(self) -> ir.Padding | None:
        """Padding without a value, and elements that were untouchable in the old storage."""
        variables = index_variables(len(self.shape), self.scope)
        inside = inside_loops(variables, self.shape, self.scope)
        indices = map_indices(self.map, variables)
        padding = self.map.padding(*indices)
        disjuncts = [logical_and(padding, logical_not(self.filling.has_value(indices)))]
        before = scopes.padding_of(self.f, self.old)
        if before is not None:
            old = zip((as_expr(x) for x in self.map.inverse()(*indices)), self.lows, strict=True)
            old_indices = [x if constant_value(low) == 0 else x + low for x, low in old]
            disjuncts.append(logical_and(logical_not(padding), before.at(old_indices)))
        cond = narrowed(logical_or(*disjuncts), inside)
        return None if cond is truth(False) else ir.Padding(variables, cond)

    # -- the function -------------------------------------------------------------------------------------------

    def result(self) -> ir.Function:
        untouchable = self._untouchable()

        def is_element(indices: Sequence[Expr]) -> Cond:
            inside = logical_not(self.map.padding(*map_indices(self.map, indices)))
            return logical_and(inside, scopes.is_outside(untouchable, indices))

        check_reads(self.filling, self.subject, is_element, self.ctx)

        def without_check(stmt: ir.Stmt) -> ir.Stmt:
            return ir.Seq() if isinstance(stmt, ir.Assert) and shape_terms(stmt, self.old) else stmt

        f = self.f.with_body(rebuilt(self.f.body, without_check))
        body = with_accesses(f, self.old, self.new, self._storage_indices)
        g = self._parameter(body, untouchable) if self.allocation is None else self._local(body, untouchable)
        g = with_requirements(g, self.old, self.new, self._storage_indices)
        earlier = self.f.layouts.get(self.old.name)
        composed = self.map if earlier is None else earlier.packed_by(self.map)
        g = replace(g, layouts={**self.f.layouts, self.old.name: composed})
        if self.filling.reads:
            _check_written(g, self.stored_fillings, self.subject.what)
        return g

    def _parameter(self, body: ir.Stmt, untouchable: ir.Padding | None) -> ir.Function:
        if self.old in self.f.outputs:
            body = in_lifetime(body, None, self._with_fillings)
        else:
            body = with_assumption(body, assuming_nest(self.contents, self.scope))
        g = with_parameter(self.f, self.old, self.new, body)
        others = {t: padding for t, padding in g.padding.items() if t is not self.new}
        return replace(g, padding=others if untouchable is None else {**others, self.new: untouchable})

    def _local(self, body: ir.Stmt, untouchable: ir.Padding | None) -> ir.Function:
        assert self.allocation is not None
        ranges = tuple(Range(0, extent) for extent in self.shape)
        new = replace(self.allocation, tensor=self.new, ranges=ranges, origin=None, steps=None, padding=untouchable)

        def swap(stmt: ir.Stmt) -> ir.Stmt:
            return new if isinstance(stmt, ir.Allocate) and stmt.tensor is self.old else stmt

        body = rebuilt(body, swap)
        return self.f.with_body(in_lifetime(body, new, self._with_fillings))

    def _storage_indices(self, indices: tuple[Expr, ...], scope: Scope) -> tuple[Expr, ...]:
        counted = [e - low if constant_value(low) != 0 else e for e, low in zip(indices, self.lows, strict=True)]
        return tuple(shortened(as_expr(e), scope) for e in self.from_zero(*counted))

    def _with_fillings(self, stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
        """Insert a nest that fills the padding behind each statement that stores to the tensor."""
        filled: list[ir.Stmt] = []
        for stmt in stmts:
            filled.append(stmt)
            if self.new in scopes.written_in(stmt):
                nest = storing_nest(self.contents, self.scope)
                self.stored_fillings.append(nest)
                filled += ir.flat(nest)
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


def _check_written(g: ir.Function, fillings: Sequence[ir.Stmt], what: str) -> None:
    """Raise `LayoutError` if a padding's value may read an unwritten element."""
    own = {id(stmt) for nest in fillings for stmt in statements(nest) if isinstance(stmt, ir.Store)}
    values = ReachingValues(g)
    for cursor in driver.cursors(g):
        for node, sources in values.flow.by_element(cursor).items() if id(cursor.stmt) in own else ():
            for source in sources:
                is_store = source.kind == "unknown" and source.path is not None
                is_written = is_store or source.kind in ("store", "assume")
                if not is_written and not scopes.proves(cursor.scope, ~source.where):
                    raise LayoutError(f"{what} would read {shown(node)}, which may hold nothing yet")


# -- declared layouts ---------------------------------------------------------------------------------------------


def with_layouts(f: ir.Function, layouts: Mapping[str, IndexMap]) -> ir.Function:
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
    if not isinstance(f, ir.Function):
        raise LayoutError(f"with_layouts takes a Function, not {shown(f)}")
    if not isinstance(layouts, Mapping):
        raise LayoutError(f"with_layouts takes maps by the names of tensors, not {shown(layouts)}")
    return replace(f, layouts={**f.layouts, **{name: _declared(f, name, m) for name, m in layouts.items()}})


def _declared(f: ir.Function, name: str, m: Any) -> IndexMap:
    tensor = scopes.tensor_named(f, name)
    if not isinstance(m, IndexMap):
        raise LayoutError(f"the layout of {name} in {f.name} is an IndexMap, not {shown(m)}")
    layout = _in_sizes_of(f, m, f"the layout of {name}")
    _check_injective(layout, f"the layout of {name} in {f.name}")
    storage = [extent for _, extent in scopes.storage_of(f, tensor)]
    if len(storage) != len(layout.ranges):
        raise LayoutError(f"{name} of {f.name} has {len(storage)} dimensions, its layout has {len(layout.ranges)}")
    for k, (extent, new) in enumerate(zip(storage, layout.new_shape, strict=True)):
        if not _are_equal(f.ctx, extent, new):
            raise LayoutError(f"extent {k} of {name} in {f.name} is {extent}, that of its layout is {new}")
    return layout


def _in_sizes_of(f: ir.Function, m: IndexMap, what: str) -> IndexMap:
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


def cache_read(f: ir.Function, name: str, local: str | None = None) -> ir.Function:
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
    copy_in = _copy_nest(f, inner, outer, partial(scopes.is_outside, f.padding.get(outer)))
    return _with_copy(f, outer, inner, [allocation, copy_in], [])


def cache_write(f: ir.Function, name: str, local: str | None = None) -> ir.Function:
    """Compute an output in a local tensor, and copy the stored elements to the output at the end.

    If the function reads the output's initial contents, all elements are copied in at the start and out at the end.

    Guarantee: the same outputs; the same interface.

    Parameters
    ----------
    name: an output parameter.
    local: the name of the copy. Default: the parameter's name with a `C`, numbered if that is in use.

    Raises
    ------
    LayoutError: the tensor is not stored to, or data decides which elements are; a host call accesses it, or it is not
        a parameter; or `local` is in use.
    InputError: the name is unknown or ambiguous.
    """
    outer = _parameter(f, name, "cache_write")
    if outer not in f.outputs:
        raise LayoutError(f"{f.name} does not store to {name}: cache_read makes a copy of what it reads")
    inner, allocation = _local_copy(f, outer, local)
    before: list[ir.Stmt] = [allocation]
    if _reads_initial_contents(f, outer):
        copied: Callable[[scopes.Indices], Cond] = partial(scopes.is_outside, f.padding.get(outer))
        before.append(_copy_nest(f, inner, outer, copied))
    else:
        copied = partial(_is_stored, f, outer)
    return _with_copy(f, outer, inner, before, [_copy_nest(f, outer, inner, copied)])


def _parameter(f: ir.Function, name: str, caller: str) -> Tensor:
    tensor = relocatable(f, name, caller)
    if tensor not in f.params:
        raise LayoutError(f"{name} is no parameter of {f.name}: its layout changes nothing outside")
    return tensor


def _local_copy(f: ir.Function, outer: Tensor, local: Any) -> tuple[Tensor, ir.Allocate]:
    """A local tensor like a parameter, and its allocation."""
    used = {t.name for t in scopes.tensors_of(f)} | {v.name for v in f.sizes} | {str(p.data[0]) for p in f.scalars}
    label = f"{outer.name}C" if local is None else local
    if not isinstance(label, str) or not IDENTIFIER.fullmatch(label):
        raise LayoutError(f"the name of the copy of {outer.name} in {f.name} must be a name, not {shown(local)}")
    if local is not None and label in used:
        raise LayoutError(f"the name {label} of the copy of {outer.name} is taken in {f.name}")
    inner = tensor_like(outer, outer.extents, outer.value_range, untaken(label, used))
    padding = f.padding.get(outer)
    if padding is not None:
        new = tuple(PlainVar(v.name) for v in padding.indices)
        padding = ir.Padding(new, padding.at(new))
    return inner, ir.Allocate(inner, tuple(Range(0, e) for e in outer.extents), padding=padding)


def _with_copy(
    f: ir.Function, outer: Tensor, inner: Tensor, before: list[ir.Stmt], after: list[ir.Stmt]
) -> ir.Function:
    """The function that accesses `inner` instead of `outer`, with statements before (behind its checks) and after."""
    k = leading_checks(ir.flat(f.body))
    body = ir.flat(with_accesses(f, outer, inner))
    g = f.with_body(ir.seq(*ir.flat(f.body)[:k], *before, *body[k:], *after))
    layout = f.layouts.get(outer.name)
    return g if layout is None else replace(g, layouts={**f.layouts, inner.name: layout})


def _copy_nest(f: ir.Function, target: Tensor, source: Tensor, where: Callable[[scopes.Indices], Cond]) -> ir.Stmt:
    """A nest that copies the elements for whose indices a condition holds."""
    outer = source if source in f.params else target
    axes = axes_of(outer)
    inside = inside_loops(axes, source.extents, scope_of_storage(f, outer))
    cond = narrowed(where(axes), inside)
    return loops_over(axes, source.extents, ir.guarded(ir.Store(target, axes, element(source, axes)), cond))


def _reads_initial_contents(f: ir.Function, tensor: Tensor) -> bool:
    """Whether the function may read the tensor's initial contents."""
    values = ReachingValues(f)
    for cursor in driver.cursors(f):
        for node, sources in values.flow.by_element(cursor).items():
            if isinstance(node, Tensor) or loaded_tensor(node) is not tensor:
                continue
            if any(s.kind in ("entry", "unknown") and not scopes.proves(cursor.scope, ~s.where) for s in sources):
                return True
    return False


def _is_stored(f: ir.Function, tensor: Tensor, indices: scopes.Indices) -> Cond:
    """The condition that the function stores to an element."""
    _, written = dataflow(f).touched(tensor.name)
    if not written.is_exact:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} depends on data")
    try:
        return written.condition(indices)
    except BudgetError as error:
        raise LayoutError(f"which elements of {tensor.name} are stored to in {f.name} is not known: {error}") from error


def add_constraint(f: ir.Function, name: str, where: Callable[..., object], value: object) -> ir.Function:
    """State the value of some elements of a tensor.

    For an input the nest assumes it at the start. For an output or local tensor it must follow from the stores; a
    proved assumption is placed behind the last nest that stores to the tensor.

    Parameters
    ----------
    name: a parameter, or a tensor that the function allocates.
    where: a function of the tensor's indices (the new indices of its layout) that returns the condition for an element
        to be meant.
    value: the value of the elements, as `pad_value` of `transform_layout`.

    Raises
    ------
    LayoutError: the value does not follow from the stores; an element is untouchable or outside the tensor; the
        condition or value is malformed; a host call accesses the tensor.
    InputError: the name is unknown or ambiguous.

    Example
    -------
    >>> from lowering import parse_nest
    >>> f = parse_nest('''
    ... def total(A: int32[4, 4], B: int32[1]):
    ...     B[0] = 0
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             if i * 4 + j < 14:
    ...                 B[0] = B[0] + A[i, j]
    ... ''')
    >>> print(add_constraint(f, "A", lambda i, j: i * 4 + j >= 14, 0))
    def total(A: int32[4, 4], B: int32[1]):
        for a0 in [0, 4):
            for a1 in [0, 4):
                assume (a0 * 4 + a1 < 14) | (A[a0, a1] == 0)
        B[0] = 0
        for i in [0, 4):
            for j in [0, 4):
                if i * 4 + j < 14:
                    B[0] = B[0] + A[i, j]
    """
    tensor = relocatable(f, name, "add_constraint")
    with intset.using(tiers=tiers_within(Effort.DEFAULT)):
        return _Constraint(f, tensor, where, value).result()


class _Constraint:
    """One constraint on a tensor of a function."""

    def __init__(self, f: ir.Function, tensor: Tensor, where: Callable[..., object], value: object) -> None:
        self.f, self.tensor = f, tensor
        self.scope = scope_of_storage(f, tensor)
        self.what = f"the constraint on {tensor.name} in {f.name}"
        storage = scopes.storage_of(f, tensor)
        for k, (low, _) in enumerate(storage):
            if constant_value(low) != 0:
                raise LayoutError(f"{self.what} is about storage whose index {k} begins at {low}: rebase it first")
        extents = tuple(extent for _, extent in storage)
        m = f.layouts.get(tensor.name) or IndexMap(lambda *indices: list(indices), extents, self.scope.ctx)
        sizes = {v.name: v for v in f.sizes}
        cond = _condition(where, m, sizes, self.what)
        subject = Subject(self.what, tensor, m, cond, sizes)
        filling = filling_of(value, subject, self.scope.ctx)
        if not filling.cases:
            raise LayoutError(f"{self.what} says nothing: its value is {shown(value)}")
        self.padding = scopes.padding_of(f, tensor)
        check_reads(filling, subject, lambda indices: scopes.is_outside(self.padding, indices), self.scope.ctx)
        self.contents = Contents(tensor, extents, m, cond, filling)
        self.axes = axes_of(tensor)
        self.inside = inside_loops(self.axes, extents, self.scope)
        self._check_touchable()

    def _check_touchable(self) -> None:
        """Raise `LayoutError` if a constrained element is untouchable, since the assumption would read it."""
        for cond, _ in self.contents.cases(self.axes, self.inside) if self.padding is not None else ():
            proof = scopes.proof_of(self.inside.where(cond), scopes.is_outside(self.padding, self.axes))
            if not proof:
                point = tuple((proof.counterexample or {}).get(axis, 0) for axis in self.axes)
                raise LayoutError(f"{self.what} is about {point}, which may not be touched", (point,))

    def result(self) -> ir.Function:
        if self.tensor in self.f.inputs:
            return self.f.with_body(with_assumption(self.f.body, assuming_nest(self.contents, self.scope)))
        self._check_follows()
        return self._behind_stores(assuming_nest(self.contents, self.scope, proved=True))

    def _behind_stores(self, nest: ir.Stmt) -> ir.Function:
        """The function with a nest behind the last statement that stores to the tensor."""

        def insert(stmts: Sequence[ir.Stmt]) -> list[ir.Stmt]:
            last = max((k for k, stmt in enumerate(stmts) if self.tensor in scopes.written_in(stmt)), default=-1)
            return [*stmts[: last + 1], nest, *stmts[last + 1 :]]

        return self.f.with_body(in_lifetime(self.f.body, scopes.allocation_of(self.f, self.tensor), insert))

    def _check_follows(self) -> None:
        """Raise `LayoutError` unless the stores imply the constraint, decided by a read behind the last store."""
        loaded = element(self.tensor, self.axes)
        for cond, value in self.contents.cases(self.axes, self.inside):
            probe = ir.let("held", loaded)
            g = self._behind_stores(loops_over(self.axes, self.contents.shape, ir.If(cond, probe)))
            cursor = driver.cursor_of(g, probe)
            for source in ReachingValues(g).flow.by_element(cursor).get(loaded, ()):
                reached = cursor.scope.where(source.where)
                is_empty = scopes.proof_of(reached, truth(False))
                if not is_empty and not _implies(source.kind, source.value, value, reached):
                    point = cursor.point(is_empty)
                    at = "" if point is None else f" at {point}"
                    raise LayoutError(
                        f"{self.what} does not follow: {shown(loaded)} is not known to be {shown(value)}{at}"
                    )


def _implies(kind: str, stored: Operand | None, value: Operand, scope: Scope) -> bool:
    """Whether a read from this source yields `value`. `undef()` stands for any written value."""
    if kind not in ("store", "assume"):
        return False
    if ir.has_undef(value) or stored is value:
        return True
    return isinstance(stored, Expr) and isinstance(value, Expr) and scopes.proves(scope, stored.eq(value))


def _condition(where: object, m: IndexMap, sizes: dict[str, Var], what: str) -> Callable[[Sequence[Expr]], Cond]:
    """The user's condition as a function of index expressions, in the sizes of the function."""
    if not callable(where):
        raise LayoutError(f"{what} is about the elements for which a function of indices holds, not {shown(where)}")
    axes = tuple(map(PlainVar, parameter_names(where, len(m.exprs), f"{what} has {{}} indices: its condition")))
    try:
        cond = where(*axes)
    except (InputError, TypeError, LookupError, ValueError, AttributeError, ArithmeticError) as error:
        raise LayoutError(f"{what} fails for symbolic indices: {error}") from error
    if isinstance(cond, bool):
        cond = truth(cond)
    if not isinstance(cond, Cond) or dag.opaque_terms(cond):
        raise LayoutError(f"{what} is about the elements for which a condition on indices holds, not {shown(cond)}")
    resolved = in_own_sizes(cond, axes, m, sizes, what)
    return lambda indices: dag.substitute(resolved, dict(zip(axes, map(as_expr, indices), strict=True)))

"""Relocation of a tensor: all accesses move to another storage; nests that store or assume its contents, and where they
stand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from bound.operation import PlaceholderOp
from bound.tensor import Tensor, element
from bound.tir import build, walk
from bound.tir.value import CALL, NUMBER, Operand, Truth, Value, make, parameter
from bound.tir.walk import nodes
from intset.expr import ops
from intset.expr.build import logical_and, logical_not
from intset.expr.dag import conjuncts
from intset.expr.node import Cond, Expr, PlainVar, Var, truth
from intset.expr.printer import shown
from intset.expr.range import Range
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap
from lowering.layout.padding_value import Filling, map_indices
from lowering.nest.driver import Cursor, Descent, cursor_of, rewritten
from lowering.nest.ir import (
    Allocate,
    Assert,
    Assume,
    Evaluate,
    For,
    Function,
    If,
    Let,
    Requirement,
    Seq,
    ShapeOf,
    Stmt,
    Store,
    flat,
    seq,
)
from lowering.nest.scope import Scope, proves
from lowering.nest.tensors import Indices, allocation_of, element_accesses, redirected, tensor_named
from lowering.nest.walk import map_operands, operands, statements
from lowering.passes.simplify import mirrored, shortened


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


def storing_nest(contents: Contents, scope: Scope) -> Stmt:
    """A nest over the whole storage that stores the contents; empty if no element is selected."""

    def store(axes: tuple[Var, ...], cond: Cond, value: Operand, inside: Scope) -> Stmt:
        stmt = Store(contents.tensor, axes, value)
        return stmt if cond is truth(True) else If(cond, stmt)

    return _nest(contents, scope, store)


def assuming_nest(contents: Contents, scope: Scope, proved: bool = False) -> Stmt:
    """A nest over the whole storage that assumes the contents; empty if no element is selected."""

    def assume(axes: tuple[Var, ...], cond: Cond, value: Operand, inside: Scope) -> Stmt:
        equal = equals(contents.tensor, axes, value)
        if cond is not truth(True):
            negation = inside.ctx.simplify(logical_not(cond))
            assert isinstance(negation, Cond)
            equal = build.logical(ops.OR, mirrored(negation), equal)
        return Assume(equal, proved)

    return _nest(contents, scope, assume)


def _nest(contents: Contents, scope: Scope, statement: Callable[[tuple[Var, ...], Cond, Operand, Scope], Stmt]) -> Stmt:
    axes = axes_of(contents.tensor)
    inside = inside_loops(axes, contents.shape, scope)
    cases = contents.cases(axes, inside)
    body = [statement(axes, cond, shortened(value, inside.where(cond)), inside) for cond, value in cases]
    return loops_over(axes, contents.shape, seq(*body)) if body else Seq()


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
    assert isinstance(simple, Cond)
    if proves(scope, logical_not(simple)):
        return truth(False)
    parts = [part for part in conjuncts(simple) if not proves(scope, part)]
    return mirrored(logical_and(*parts)) if parts else truth(True)


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
        scope = scope.inside(For(axis, Range(0, extent), Seq()))
    return scope


def loops_over(axes: Sequence[Var], shape: Sequence[Expr], body: Stmt) -> Stmt:
    """Loops over a whole storage, in order."""
    for axis, extent in zip(reversed(axes), reversed(shape), strict=True):
        body = For(axis, Range(0, extent), body)
    return body


IndicesOf = Callable[[Indices, Scope], Indices]


def probed(
    f: Function, load: Operand, axes: Sequence[Var], extents: Sequence[Expr], cond: Truth | None = None
) -> tuple[Function, Let]:
    """Append a nest that only reads an element; its reaching definitions are the contents at the end of a function.

    Parameters
    ----------
    load: the read, over `axes`, which are loops from 0 to `extents`.
    cond: restricts the values of the axes.
    """
    probe = Let(Var("probe") if isinstance(load, Expr) else parameter("probe", build.dtype_of(load)), load)
    body: Stmt = probe if cond is None else If(cond, probe)
    return f.with_body(seq(f.body, loops_over(axes, extents, body))), probe


def tensor_like(tensor: Tensor, shape: tuple[Expr, ...], values: tuple[int, int] | None, name: str = "") -> Tensor:
    """A placeholder with the type of a tensor, another shape and elements within `values`."""
    return PlaceholderOp(name or tensor.name, shape, tensor.dtype, values).outputs[0]


def relocatable(f: Function, name: str, caller: str) -> Tensor:
    """The tensor of a name, if no host call accesses it: a host call fixes the layout of its arguments.

    Raises
    ------
    LayoutError: `f` is no `Function` (the message names `caller`); or a host call accesses the tensor.
    InputError: the name is unknown or ambiguous.
    """
    if not isinstance(f, Function):
        raise LayoutError(f"{caller} takes a Function, not {shown(f)}")
    tensor = tensor_named(f, name)
    for stmt in statements(f.body):
        if isinstance(stmt, Evaluate) and tensor in (*stmt.reads, *stmt.writes, *stmt.call.args):
            raise LayoutError(f"{stmt.call.name} is a host call on {tensor.name} of {f.name}, which stays as it is")
    return tensor


# -- positions ----------------------------------------------------------------------------------------------------


def scope_of_storage(f: Function, tensor: Tensor) -> Scope:
    """The scope at the allocation of a local tensor; for a parameter, the scope behind the leading checks."""
    allocation = allocation_of(f, tensor)
    if allocation is not None:
        return cursor_of(f, allocation).scope
    scope = Cursor.root(f).scope
    stmts = flat(f.body)
    for stmt in stmts[: leading_checks(stmts)]:
        scope = scope.after(stmt)
    return scope


def leading_checks(stmts: Sequence[Stmt]) -> int:
    """The number of leading statements that only name values, assert or assume."""
    checks = (Assert, Assume, For, If, Let, Seq)
    k = 0
    while (
        k < len(stmts)
        and not isinstance(stmts[k], (If, Seq))
        and all(isinstance(s, checks) for s in statements(stmts[k]))
    ):
        k += 1
    return k


def with_assumption(body: Stmt, nest: Stmt) -> Stmt:
    """A body with a nest behind its leading checks."""
    stmts = flat(body)
    k = leading_checks(stmts)
    return seq(*stmts[:k], nest, *stmts[k:])


def in_lifetime(body: Stmt, allocation: Allocate | None, change: Callable[[Sequence[Stmt]], Sequence[Stmt]]) -> Stmt:
    """The body with `change` applied to the statements behind an allocation, to the end of its sequence.

    Parameters
    ----------
    allocation: `None` for a parameter, whose lifetime is the body.
    """
    if allocation is None:
        return seq(*change(flat(body)))

    def on_block(block: Seq, _: Descent) -> Stmt:
        if allocation not in block.stmts:
            return block
        k = block.stmts.index(allocation) + 1
        return seq(*block.stmts[:k], *change(block.stmts[k:]))

    return rewritten(body, Descent(), leave={Seq: (on_block,)})


def stores_to(root: Stmt, tensor: Tensor) -> bool:
    """Whether a statement inside stores to the tensor."""
    return any(isinstance(stmt, Store) and stmt.tensor is tensor for stmt in statements(root))


# -- accesses -----------------------------------------------------------------------------------------------------


def same_indices(indices: Indices, scope: Scope) -> Indices:
    """Identity, for storage of equal shape."""
    return indices


def with_accesses(f: Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> Stmt:
    """The body of a function with all accesses of `old` redirected to `new`.

    Parameters
    ----------
    indices_of: maps old indices to new ones, in the scope of the access.
    """

    def redirect(stmt: Stmt, cursor: Cursor) -> Stmt:
        def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
            return (new, indices_of(indices, cursor.scope)) if tensor is old else None

        if shape_terms(stmt, old):
            stmt = map_operands(stmt, lambda e: walk.rewrite(e, shape_terms(stmt, old)))
        return redirected(stmt, move) if any(a.tensor is old for a in element_accesses(stmt)) else stmt

    return rewritten(f.body, Cursor.root(f), enter={Stmt: (redirect,)})


def with_requirements(f: Function, old: Tensor, new: Tensor, indices_of: IndicesOf = same_indices) -> Function:
    """The function with all accesses of `old` in its requirements redirected to `new`."""

    def with_new(requirement: Requirement) -> Requirement:
        nest = with_accesses(f.with_body(requirement.nest), old, new, indices_of)
        return Requirement(next(s.cond for s in statements(nest) if isinstance(s, Assume)), nest)

    return replace(f, requires=tuple(map(with_new, f.requires)))


def shape_terms(stmt: Stmt, tensor: Tensor) -> dict[Operand, Operand]:
    """The extents of a tensor, by the terms that read them from the shape of the bound array."""
    loads = (node for node in nodes(*operands(stmt)) if node.op is ops.LOAD and isinstance(node.data, ShapeOf))
    return {node: tensor.extents[node.args[0].data] for node in loads if node.data.tensor is tensor}


def without_shape_checks(body: Stmt, tensor: Tensor) -> Stmt:
    """Remove assertions about the shape of a tensor's array."""

    def drop_check(stmt: Assert, _: Descent) -> Stmt:
        return Seq() if shape_terms(stmt, tensor) else stmt

    return rewritten(body, Descent(), enter={Assert: (drop_check,)})


def with_parameter(f: Function, old: Tensor, new: Tensor, body: Stmt) -> Function:
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

"""The contents of a tensor's elements as nests that store or assume them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bound.tensor import Tensor, element
from bound.tir import build
from bound.tir.value import Operand, Truth, Value, ValueOp, make
from intset.expr.build import logical_and, logical_not
from intset.expr.dag import conjuncts
from intset.expr.node import Cond, Expr, PlainVar, Var, truth
from intset.expr.range import Range
from lowering.layout.index_map import IndexMap
from lowering.layout.padding_value import Filling, map_indices
from lowering.nest.ir import Assume, For, If, Seq, Stmt, Store, seq
from lowering.nest.scope import Scope, proves
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
            equal = build.logical(ValueOp.OR, mirrored(negation), equal)
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
    if isinstance(value, Value) and value.op is ValueOp.CONST and value.data != value.data:
        return make(ValueOp.CALL, (loaded,), "bool", "isnan")
    if isinstance(loaded, Expr) and isinstance(value, Expr):
        return loaded.eq(value)
    return make(ValueOp.EQ, (loaded, value), "bool")


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

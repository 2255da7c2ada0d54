"""Nests about a padding: those that store in it what it holds, and those that assume that it does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bound.tensor import Tensor, element
from bound.tir import build
from bound.tir.value import Operand, Truth, Value, ValueOp, make
from intset.expr.build import logical_and, logical_not
from intset.expr.node import Cond, Expr, PlainVar, Var, truth
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from lowering.layout.index_map import IndexMap
from lowering.layout.padding_value import Filling, own_place
from lowering.nest.ir import Assume, For, If, Seq, Stmt, Store, seq
from lowering.nest.scope import Scope, proves
from lowering.passes.simplify import mirrored, shortened


class Held(NamedTuple):
    """What holds of some elements of a storage.

    Attributes
    ----------
    tensor: whose elements.
    shape: of its storage, which counts from 0.
    map: to its indices, which may begin elsewhere.
    where: on new indices of the map, which elements are meant.
    filling: what they hold.
    """

    tensor: Tensor
    shape: tuple[Expr, ...]
    map: IndexMap
    where: Callable[[Sequence[Expr]], Cond]
    filling: Filling


def axes_of(tensor: Tensor) -> tuple[Var, ...]:
    """Variables for loops over the axes of a tensor."""
    return tuple(Var(f"{tensor.name}{k}".lower()) for k in range(tensor.ndim))


def index_variables(dims: int, scope: Scope) -> tuple[Var, ...]:
    """Variables for the indices of a padding, named otherwise than those that are known in a scope."""
    taken = {v.name for v in (*scope.ctx.ranges, *(v for f in scope.ctx.facts for v in f.condition.free_vars()))}
    labels = [label for label in (*"ijklmnpq", *(f"i{k}" for k in range(dims + len(taken)))) if label not in taken]
    return tuple(PlainVar(label) for label in labels[:dims])


def stored(held: Held, scope: Scope) -> Stmt:
    """A nest over the whole storage that stores what is held; nothing where that is no element."""
    axes = axes_of(held.tensor)
    here = within(axes, held.shape, scope)
    stmts: list[Stmt] = []
    for cond, value in cases_of(held, axes, here):
        store = Store(held.tensor, axes, shortened(value, here.where(cond)))
        stmts.append(store if cond is truth(True) else If(cond, store))
    return over(axes, held.shape, seq(*stmts)) if stmts else Seq()


def assumed(held: Held, scope: Scope, proved: bool = False) -> Stmt:
    """A nest over the whole storage that assumes that it is held; nothing where that is no element."""
    axes = axes_of(held.tensor)
    here = within(axes, held.shape, scope)
    stmts: list[Stmt] = []
    for cond, value in cases_of(held, axes, here):
        equal = equals(held.tensor, axes, shortened(value, here.where(cond)))
        if cond is not truth(True):
            equal = build.logical(ValueOp.OR, opposite(cond, here), equal)
        stmts.append(Assume(equal, proved))
    return over(axes, held.shape, seq(*stmts)) if stmts else Seq()


def equals(tensor: Tensor, indices: tuple[Expr, ...], value: Operand) -> Truth:
    """That an element holds a value; one that is no number is told by `isnan`."""
    held: Operand = element(tensor, indices)
    if isinstance(value, Value) and value.op is ValueOp.CONST and value.data != value.data:
        return make(ValueOp.CALL, (held,), "bool", "isnan")
    if isinstance(held, Expr) and isinstance(value, Expr):
        return held.eq(value)
    return make(ValueOp.EQ, (held, value), "bool")


def cases_of(held: Held, axes: Sequence[Var], here: Scope) -> list[tuple[Cond, Operand]]:
    """Which elements hold what."""
    place = own_place(held.map, axes)
    where = held.where(place)
    found = []
    for cond, value in held.filling.at(place):
        short = narrowed(logical_and(where, cond), here)
        if short is not truth(False):
            found.append((short, value))
    return found


def narrowed(cond: Cond, scope: Scope) -> Cond:
    """A condition as it is best written at a place: without what is known there."""
    simple = scope.ctx.simplify(cond)
    assert isinstance(simple, Cond)
    if proves(scope, logical_not(simple)):
        return truth(False)
    parts = [part for part in conjuncts(simple) if not proves(scope, part)]
    return mirrored(logical_and(*parts)) if parts else truth(True)


def opposite(cond: Cond, scope: Scope) -> Cond:
    """The negation, as it is best written at a place."""
    found = scope.ctx.simplify(logical_not(cond))
    assert isinstance(found, Cond)
    return mirrored(found)


def within(axes: Sequence[Var], shape: Sequence[Expr], scope: Scope) -> Scope:
    """The scope inside of loops over a storage."""
    for axis, extent in zip(axes, shape, strict=True):
        scope = scope.inside(For(axis, Range(0, extent), Seq()))
    return scope


def over(axes: Sequence[Var], shape: Sequence[Expr], body: Stmt) -> Stmt:
    """Loops over a storage, whole and in order."""
    for axis, extent in zip(reversed(axes), reversed(shape), strict=True):
        body = For(axis, Range(0, extent), body)
    return body

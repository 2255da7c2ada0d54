"""`add_constraint`: assumptions about elements of a tensor, proved where the function stores them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import intset
from bound.tensor import Tensor, element
from bound.tir.value import Operand, parameter
from intset.config import Effort, tiers_within
from intset.errors import InputError
from intset.expr.dag import free_vars, opaque_terms, substitute
from intset.expr.node import Cond, Expr, PlainVar, Var, as_expr, constant_value, truth
from intset.expr.printer import shown
from lowering.errors import LayoutError
from lowering.layout.index_map import IndexMap, parameter_names
from lowering.layout.padding_value import Subject, check_reads, filling_of
from lowering.layout.transform import (
    Contents,
    assuming_nest,
    axes_of,
    in_lifetime,
    inside_loops,
    loops_over,
    relocatable,
    scope_of_storage,
    stores_to,
    with_assumption,
)
from lowering.nest.driver import cursor_of
from lowering.nest.ir import Function, If, Let, Stmt
from lowering.nest.scope import Scope, proof_of, proves
from lowering.nest.tensors import allocation_of, is_outside, padding_of, storage_of
from lowering.nest.undef import has_undef
from lowering.passes.stores.reaching_values import ReachingValues


def add_constraint(f: Function, name: str, where: Callable[..., object], value: object) -> Function:
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

    def __init__(self, f: Function, tensor: Tensor, where: Callable[..., object], value: object) -> None:
        self.f, self.tensor = f, tensor
        self.scope = scope_of_storage(f, tensor)
        self.what = f"the constraint on {tensor.name} in {f.name}"
        storage = storage_of(f, tensor)
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
        self.padding = padding_of(f, tensor)
        check_reads(filling, subject, lambda indices: is_outside(self.padding, indices), self.scope.ctx)
        self.contents = Contents(tensor, extents, m, cond, filling)
        self.axes = axes_of(tensor)
        self.inside = inside_loops(self.axes, extents, self.scope)
        self._check_touchable()

    def _check_touchable(self) -> None:
        """Raise `LayoutError` if a constrained element is untouchable, since the assumption would read it."""
        for cond, _ in self.contents.cases(self.axes, self.inside) if self.padding is not None else ():
            proof = proof_of(self.inside.where(cond), is_outside(self.padding, self.axes))
            if not proof:
                point = tuple((proof.counterexample or {}).get(axis, 0) for axis in self.axes)
                raise LayoutError(f"{self.what} is about {point}, which may not be touched", (point,))

    def result(self) -> Function:
        if self.tensor in self.f.inputs:
            return self.f.with_body(with_assumption(self.f.body, assuming_nest(self.contents, self.scope)))
        self._check_follows()
        return self._behind_stores(assuming_nest(self.contents, self.scope, proved=True))

    def _behind_stores(self, nest: Stmt) -> Function:
        """The function with a nest behind the last statement that stores to the tensor."""

        def insert(stmts: Sequence[Stmt]) -> list[Stmt]:
            last = max((k for k, stmt in enumerate(stmts) if stores_to(stmt, self.tensor)), default=-1)
            return [*stmts[: last + 1], nest, *stmts[last + 1 :]]

        return self.f.with_body(in_lifetime(self.f.body, allocation_of(self.f, self.tensor), insert))

    def _check_follows(self) -> None:
        """Raise `LayoutError` unless the stores imply the constraint, decided by a read behind the last store."""
        loaded = element(self.tensor, self.axes)
        for cond, value in self.contents.cases(self.axes, self.inside):
            name = Var("held") if isinstance(loaded, Expr) else parameter("held", self.tensor.dtype)
            probe = Let(name, loaded)
            g = self._behind_stores(loops_over(self.axes, self.contents.shape, If(cond, probe)))
            cursor = cursor_of(g, probe)
            for source in ReachingValues(g).sources(cursor).get(loaded, ()):
                reached = cursor.scope.where(source.where)
                is_empty = proof_of(reached, truth(False))
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
    if has_undef(value) or stored is value:
        return True
    return isinstance(stored, Expr) and isinstance(value, Expr) and proves(scope, stored.eq(value))


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
    if not isinstance(cond, Cond) or opaque_terms(cond):
        raise LayoutError(f"{what} is about the elements for which a condition on indices holds, not {shown(cond)}")
    known = {*axes, *sizes.values(), *m.ctx.ranges}
    unknown = [v for v in free_vars(cond) if v not in known]
    for v in unknown:
        if v.name not in sizes:
            raise LayoutError(f"{what} depends on {v.name}, which is neither one of its indices nor a size")
    resolved = substitute(cond, {v: sizes[v.name] for v in unknown})
    return lambda indices: substitute(resolved, dict(zip(axes, map(as_expr, indices), strict=True)))

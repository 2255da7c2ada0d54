"""`add_constraint`: what some elements of a tensor hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import intset
from bound.tensor import Tensor, element
from bound.tir.value import Operand, parameter
from intset.config import Effort, tiers_within
from intset.errors import InputError
from intset.expr.node import Cond, Expr, PlainVar, Var, as_expr, constant_value, truth
from intset.expr.text import shown
from intset.expr.walk import free_vars, opaque_terms, substitute
from lowering.errors import LayoutError
from lowering.layout.blocks import after_allocation, leading_checks, scope_of_storage
from lowering.layout.fill import Held, assumed, axes_of, cases_of, over, within
from lowering.layout.given import parameter_names
from lowering.layout.index_map import IndexMap
from lowering.layout.moved import movable, stores_to
from lowering.layout.padding_value import Subject, check_reads, filling_of
from lowering.nest.driver import Cursor, cursor_of
from lowering.nest.ir import Function, If, Let, Stmt, flat, seq
from lowering.nest.scope import Scope, proof_of, proves
from lowering.nest.tensors import allocation_of, is_outside, padding_of, storage_of
from lowering.nest.undef import has_undef
from lowering.passes.stores.reaching_values import ReachingValues


def add_constraint(f: Function, name: str, where: Callable[..., object], value: object) -> Function:
    """The function that says what elements of a tensor hold.

    Of an input it is assumed at the start. Of what the function stores to it has to follow: it is said behind the last
    nest that stores to the tensor, as proved.

    Parameters
    ----------
    name: of a parameter, or of a tensor that the function allocates.
    where: a function of the tensor's indices, those of its layout's map, that gives a condition: which elements.
    value: what they hold, as `pad_value` of `transform_layout` does.

    Raises
    ------
    LayoutError: it is not known to follow; the elements are some that may not be touched, or are no elements; the
        condition or the value is none; a host call is made on the tensor.
    InputError: the function has no tensor of this name, or more than one.

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
    tensor = movable(f, name, "add_constraint")
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return _Constraint(f, tensor, where, value).made()


class _Constraint:
    def __init__(self, f: Function, tensor: Tensor, where: Callable[..., object], value: object) -> None:
        self.f, self.tensor = f, tensor
        self.scope = scope_of_storage(f, tensor)
        self.what = f"the constraint on {tensor.name} in {f.name}"
        storage = storage_of(f, tensor)
        for k, (low, _) in enumerate(storage):
            if constant_value(low) != 0:
                raise LayoutError(f"{self.what} is about storage whose index {k} begins at {low}: rebase it first")
        extents = tuple(extent for _, extent in storage)
        self.map = f.layouts.get(tensor.name) or IndexMap(lambda *place: list(place), extents, self.scope.ctx)
        sizes = {v.name: v for v in f.sizes}
        self.cond = _condition(where, self.map, sizes, self.what)
        subject = Subject(self.what, tensor, self.map, self.cond, sizes)
        filling = filling_of(value, subject, self.scope.ctx)
        if not filling.cases:
            raise LayoutError(f"{self.what} says nothing: its value is {shown(value)}")
        padding = padding_of(f, tensor)
        check_reads(filling, subject, lambda place: is_outside(padding, place), self.scope.ctx)
        self.held = Held(tensor, extents, self.map, self.cond, filling)
        self._check_touchable()

    def _check_touchable(self) -> None:
        """Refuse to speak of elements that may not be touched: to look at one is to touch it."""
        padding = padding_of(self.f, self.tensor)
        if padding is None:
            return
        axes = axes_of(self.tensor)
        here = within(axes, self.held.shape, self.scope)
        for cond, _ in cases_of(self.held, axes, here):
            proof = proof_of(here.where(cond), is_outside(padding, axes))
            if not proof:
                point = tuple((proof.counterexample or {}).get(axis, 0) for axis in axes)
                raise LayoutError(f"{self.what} is about {point}, which may not be touched", (point,))

    def made(self) -> Function:
        f, tensor = self.f, self.tensor
        if tensor in f.inputs:
            stmts = flat(f.body)
            k = leading_checks(stmts)
            return f.with_body(seq(*stmts[:k], assumed(self.held, self.scope), *stmts[k:]))
        self._check_follows()
        return self._behind_stores(assumed(self.held, self.scope, proved=True))

    def _behind_stores(self, nest: Stmt) -> Function:
        """The function with a nest behind the last one that stores to the tensor."""

        def added(stmts: Sequence[Stmt]) -> list[Stmt]:
            last = max((k for k, stmt in enumerate(stmts) if stores_to(stmt, self.tensor)), default=-1)
            return [*stmts[: last + 1], nest, *stmts[last + 1 :]]

        allocation = allocation_of(self.f, self.tensor)
        if allocation is None:
            return self.f.with_body(seq(*added(flat(self.f.body))))
        return self.f.with_body(after_allocation(self.f.body, allocation, added))

    def _check_follows(self) -> None:
        """Refuse what does not follow from the stores."""
        axes = axes_of(self.tensor)
        here = within(axes, self.held.shape, self.scope)
        for cond, value in cases_of(self.held, axes, here):
            held = element(self.tensor, axes)
            name = Var("held") if isinstance(held, Expr) else parameter("held", self.tensor.dtype)
            probe = Let(name, held)
            g = self._behind_stores(over(axes, self.held.shape, If(cond, probe)))
            known = ReachingValues(g)
            at = cursor_of(g, probe)
            for source in known.sources(at).get(held, ()):
                there = at.scope.where(source.where)
                if proves(there, truth(False)):
                    continue
                if not _follows(source.kind, source.value, value, there):
                    raise LayoutError(
                        f"{self.what} does not follow: {shown(held)} is not known to be {shown(value)}{_at(at, there)}"
                    )


def _at(place: Cursor, there: Scope) -> str:
    point = place.point(proof_of(there, truth(False)))
    return "" if point is None else f" at {point}"


def _follows(kind: str, found: Operand | None, value: Operand, scope: Scope) -> bool:
    if has_undef(value):
        return kind in ("store", "assume")
    if found is None or kind not in ("store", "assume"):
        return False
    if found is value:
        return True
    return isinstance(found, Expr) and isinstance(value, Expr) and proves(scope, found.eq(value))


def _condition(where: object, m: IndexMap, sizes: dict[str, Var], what: str) -> Callable[[Sequence[Expr]], Cond]:
    """The condition that a user gives as a function of indices."""
    if not callable(where):
        raise LayoutError(f"{what} is about the elements for which a function of indices holds, not {shown(where)}")
    names = parameter_names(where, len(m.exprs), f"{what} has {{}} indices: its condition")
    axes = tuple(PlainVar(name) for name in names)
    try:
        cond = where(*axes)
    except (InputError, TypeError, LookupError, ValueError, AttributeError, ArithmeticError) as error:
        raise LayoutError(f"{what} is about elements that are not told by their indices: {error}") from error
    if isinstance(cond, bool):
        cond = truth(cond)
    if not isinstance(cond, Cond) or opaque_terms(cond):
        raise LayoutError(f"{what} is about the elements for which a condition on indices holds, not {shown(cond)}")
    known = {*axes, *sizes.values(), *m.ctx.ranges}
    new: dict[Var, Expr] = {}
    for v in free_vars(cond):
        if v not in known:
            if v.name not in sizes:
                raise LayoutError(f"{what} depends on {v.name}, which is neither one of its indices nor a size")
            new[v] = sizes[v.name]
    cond = substitute(cond, new)
    return lambda place: substitute(cond, dict(zip(axes, map(as_expr, place), strict=True)))

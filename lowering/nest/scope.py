"""Scopes: ranges and facts at a position of a nest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

import intset
from bound.tensor import Tensor
from bound.tir.build import truth_value
from bound.tir.value import Truth, ValueOp
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import chain, conjuncts, opaque_terms
from intset.facts import ASSERTED, ASSUMED, DERIVED, Fact
from intset.prover.proof import Proof
from lowering.nest.ir import Assert, Assume, Evaluate, For, Function, If, Let, Stmt, Store, tensor_of
from lowering.nest.undef import has_undef
from lowering.nest.walk import range_ends, statements

_PLACES: Final[ContextVar[dict[object, Context] | None]] = ContextVar("places", default=None)


@contextmanager
def shared_places() -> Iterator[None]:
    """Share contexts between equal scopes inside the block.

    The forms of a schedule differ in few places; elsewhere they ask equal questions, whose answers are then reused.
    """
    if _PLACES.get() is not None:
        yield
        return
    token = _PLACES.set({})
    try:
        yield
    finally:
        _PLACES.reset(token)


def _extended(ctx: Context, ranges: Mapping[Var, Range | None], facts: tuple[Fact, ...]) -> Context:
    places = _PLACES.get()
    if places is None:
        return ctx.extended(ranges=ranges, facts=facts)
    limits = tuple((var, None if r is None else (r.min, r.extent)) for var, r in ranges.items())
    key = (ctx.domain, ctx.frame.fingerprint, limits, tuple((fact.condition, fact.provenance) for fact in facts))
    found = places.get(key)
    if found is None:
        found = places[key] = ctx.extended(ranges=ranges, facts=facts)
    return found


class Scope:
    """The ranges of enclosing loops and the conditions that hold at a position. Immutable.

    Invariant: no condition reads a tensor that the function writes, because a later store could falsify it.
    """

    __slots__ = ("_ctx", "_facts", "_parent", "_ranges", "written")

    def __init__(
        self,
        parent: Scope | None,
        ranges: Mapping[Var, Range | None],
        facts: tuple[Fact, ...],
        written: frozenset[Tensor],
        ctx: Context | None = None,
    ) -> None:
        self._parent, self._ranges, self._facts, self.written, self._ctx = parent, ranges, facts, written, ctx

    @property
    def ctx(self) -> Context:
        """The context; made when it is first asked for."""
        if self._ctx is None:
            assert self._parent is not None
            ranges: dict[Var, Range | None] = dict(self._ranges)
            facts = self._facts
            above = self._parent
            while above._ctx is None and above._parent is not None:
                ranges = {**above._ranges, **ranges}
                facts = above._facts + facts
                above = above._parent
            assert above._ctx is not None
            self._ctx = _extended(above._ctx, ranges, facts) if ranges or facts else above._ctx
        return self._ctx

    def inside(self, loop: For) -> Scope:
        """The scope of the body of a loop.

        Ends of a loop are computed once, before its first iteration. Elements that they read may change in the body if
        the function writes them; then only the data-independent operands of such ends remain.
        """
        facts = tuple(Fact(c.fact, DERIVED) for c in loop.carried if c.fact is not None)
        if not self.may_change(loop.range.min, loop.range.extent):
            return Scope(self, {loop.var: loop.range}, facts, self.written)
        low, extent = range_ends(loop.range)
        kept = [loop.var >= part for part in chain(ops.MAX, low) if not self.may_change(part)]
        if not self.may_change(low):
            kept += [loop.var < low + part for part in chain(ops.MIN, extent) if not self.may_change(part)]
        return Scope(self, {loop.var: None}, (*facts, *(Fact(cond, DERIVED) for cond in kept)), self.written)

    def may_change(self, *parts: object) -> bool:
        """Whether expressions read elements that the function writes."""
        terms = opaque_terms(*(part for part in parts if isinstance(part, (Expr, Cond))))
        return any(tensor_of(term.data) in self.written for term in terms)

    def where(self, *conditions: object, provenance: str = DERIVED) -> Scope:
        """The scope in which conditions hold; what is no condition on integers says nothing."""
        facts = tuple(Fact(part, provenance) for cond in conditions for part in self._usable(cond))
        return Scope(self, {}, facts, self.written) if facts else self

    def always(self, *conditions: Cond) -> Scope:
        """The scope with conditions that hold whatever is stored."""
        return Scope(self, {}, tuple(Fact(cond, DERIVED) for cond in conditions), self.written) if conditions else self

    def during(self, *conditions: Cond) -> Scope:
        """The scope of one statement, with facts that later stores may falsify. Never use it for another one."""
        return Scope(self, {}, tuple(Fact(cond, ASSUMED) for cond in conditions), self.written) if conditions else self

    def after(self, stmt: Stmt) -> Scope:
        """The scope behind a statement of a sequence."""
        if isinstance(stmt, Assert):
            return self.where(stmt.cond, provenance=ASSERTED)
        if isinstance(stmt, Assume) and not has_undef(stmt.cond):
            return self.where(stmt.cond, provenance=ASSUMED)
        if isinstance(stmt, Let) and isinstance(stmt.var, Var) and isinstance(stmt.value, Expr):
            return self.where(stmt.var.eq(stmt.value))
        return self

    def then(self, stmt: If) -> Scope:
        return self.where(stmt.cond)

    def otherwise(self, stmt: If) -> Scope:
        return self.where(~stmt.cond) if isinstance(stmt.cond, Cond) else self

    def _usable(self, cond: object) -> Iterable[Cond]:
        if isinstance(cond, Cond):
            for part in conjuncts(cond):
                if not self.may_change(part):
                    yield part


def scope_of(f: Function) -> Scope:
    """The scope of the body of a function."""
    return Scope(None, {}, (), written_in(f.body), f.ctx)


def written_in(root: Stmt) -> frozenset[Tensor]:
    """The tensors of which an element may be written inside a statement."""
    stores = {stmt.tensor for stmt in statements(root) if isinstance(stmt, Store)}
    return frozenset(stores.union(*(stmt.writes for stmt in statements(root) if isinstance(stmt, Evaluate))))


def proof_of(scope: Scope, cond: Cond) -> Proof:
    with intset.using(tiers=tiers_within(Effort.SETS)):
        return scope.ctx.prove(cond)


def proves(scope: Scope, cond: object) -> bool:
    """Whether a condition is proved in a scope."""
    return isinstance(cond, Cond) and bool(proof_of(scope, cond))


def parts_of_condition(cond: Truth) -> list[Truth]:
    """The conjuncts of a condition, float comparisons included."""
    found: list[Truth] = []
    stack = [cond]
    while stack:
        node = stack.pop()
        if node.op is ValueOp.AND:
            stack += [truth_value(arg) for arg in (node.args[1], node.args[0])]
        elif isinstance(node, Cond):
            found += conjuncts(node)
        else:
            found.append(node)
    return found

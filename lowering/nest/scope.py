"""Scopes: ranges and facts at a position of a nest; the tensors in sight, and where their elements lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import intset
from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.value import Operand, Truth
from intset.config import CACHED_ANSWERS, Effort, tiers_within
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Node, Range, Var, arguments, const, dag, ops, shown
from intset.expr.build import logical_not
from intset.expr.node import truth
from intset.facts import ASSERTED, ASSUMED, DERIVED, Fact
from intset.prover.proof import Proof
from lowering.nest import ir
from lowering.nest.walk import children, elements_read, map_operands, operands, range_ends, statements, written_by

_EXTENSIONS: Final[WeakKeyDictionary[Context, dict[object, Context]]] = WeakKeyDictionary()
S = TypeVar("S", bound=ir.Stmt)
Indices: TypeAlias = "tuple[Expr, ...]"


class Written:
    """The tensors that a statement may write, found when they are first needed."""

    def __init__(self, root: ir.Stmt) -> None:
        self.root = root

    @cached_property
    def tensors(self) -> frozenset[Tensor]:
        return written_in(self.root)


class Scope:
    """The ranges of enclosing loops and the conditions that hold at a position. Immutable.

    The context of a scope extends that of the innermost loop around it, once for each set of conditions: passes over
    nests with the same root context share contexts, and the answers cached in them.

    Invariant: no condition reads a tensor that the function writes, because a later store could falsify it.

    Attributes
    ----------
    written: the tensors of which the function may write an element.
    ranges, facts: what the scope adds to the scope of the next loop around.
    """

    __slots__ = ("_ctx", "_extensions", "_loop", "facts", "ranges", "written")

    def __init__(
        self,
        outer: Scope | None,
        ranges: Mapping[Var, Range | None],
        facts: tuple[Fact, ...],
        written: Written,
        ctx: Context | None = None,
    ) -> None:
        self._ctx, self.written = ctx, written
        if outer is None:
            assert ctx is not None
            self._extensions = _EXTENSIONS.setdefault(ctx, {})
        else:
            self._extensions = outer._extensions
        is_loop = outer is None or bool(outer.ranges) or outer._loop is None
        self._loop: Scope | None = outer if is_loop or outer is None else outer._loop
        self.ranges: Mapping[Var, Range | None] = ranges
        self.facts: tuple[Fact, ...] = facts if is_loop or outer is None else outer.facts + facts

    @property
    def ctx(self) -> Context:
        """The context of this scope, extended from the nearest outer scope with a context, on first use."""
        if self._ctx is None:
            pending: list[Scope] = []  # innermost first
            outer: Scope | None = self
            while outer is not None and outer._ctx is None:
                pending += [outer] if outer.ranges or outer.facts else []
                outer = outer._loop
            assert outer is not None
            assert outer._ctx is not None
            ctx, is_root = outer._ctx, outer._loop is None
            while pending and (known := self._extensions.get(_key(ctx, is_root, pending[-1:]))) is not None:
                ctx, is_root = known, False
                pending.pop()._ctx = known
            self._ctx = self._extended(ctx, is_root, pending[::-1]) if pending else ctx
        return self._ctx

    def _extended(self, ctx: Context, is_root: bool, added: Sequence[Scope]) -> Context:
        """A context with the ranges and facts of scopes inside of it, outermost first."""
        key = _key(ctx, is_root, added)
        extended = self._extensions.get(key)
        if extended is None:
            if len(self._extensions) >= CACHED_ANSWERS:
                self._extensions.clear()
            ranges = {var: r for scope in added for var, r in scope.ranges.items()}
            facts = [fact for scope in added for fact in scope.facts]
            extended = self._extensions[key] = ctx.extended(ranges=ranges, facts=facts)
        return extended

    def inside(self, loop: ir.For) -> Scope:
        """The scope of the body of a loop.

        Ends of a loop are computed once, before its first iteration. Elements that they read may change in the body if
        the function writes them; then only the data-independent operands of such ends remain.
        """
        facts = tuple([Fact(c.fact, DERIVED) for c in loop.carried if c.fact is not None])
        if loop.range.ends is not None or not self.may_change(loop.range.min, loop.range.extent):
            return Scope(self, {loop.var: loop.range}, facts, self.written)
        low, extent = range_ends(loop.range)
        kept = [loop.var >= part for part in dag.chain(ops.MAX, low) if not self.may_change(part)]
        if not self.may_change(low):
            kept += [loop.var < low + part for part in dag.chain(ops.MIN, extent) if not self.may_change(part)]
        return Scope(self, {loop.var: None}, (*facts, *(Fact(cond, DERIVED) for cond in kept)), self.written)

    def may_change(self, *parts: object) -> bool:
        """Whether expressions read elements that the function writes."""
        terms = dag.opaque_terms(*[part for part in parts if isinstance(part, Node)])
        return any([ir.tensor_of(term.data) in self.written.tensors for term in terms])  # noqa: C419  # hot

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

    def after(self, stmt: ir.Stmt) -> Scope:
        """The scope behind a statement of a sequence."""
        if isinstance(stmt, ir.Assert):
            return self.where(stmt.cond, provenance=ASSERTED)
        if isinstance(stmt, ir.Assume) and not ir.has_undef(stmt.cond):
            return self.where(stmt.cond, provenance=ASSUMED)
        if isinstance(stmt, ir.Let) and isinstance(stmt.var, Var) and isinstance(stmt.value, Expr):
            return self.where(stmt.var.eq(stmt.value))
        return self

    def then(self, stmt: ir.If) -> Scope:
        return self.where(stmt.cond)

    def otherwise(self, stmt: ir.If) -> Scope:
        return self.where(~stmt.cond) if isinstance(stmt.cond, Cond) else self

    def around(self) -> list[Scope]:
        """The scope of the function, those of the loops around, and this scope. Each adds to the one before."""
        around: list[Scope] = [self]
        while (outer := around[-1]._loop) is not None:
            around.append(outer)
        return around[::-1]

    def _usable(self, cond: object) -> Iterable[Cond]:
        if isinstance(cond, Cond):
            for part in dag.conjuncts(cond):
                if not self.may_change(part):
                    yield part


def _key(ctx: Context, is_root: bool, added: Sequence[Scope]) -> object:
    """The key of a context extended by the ranges and facts of scopes."""
    ranges = {var: r for scope in added for var, r in scope.ranges.items()}
    limits = tuple((var, None if r is None else (r.min, r.extent)) for var, r in ranges.items())
    facts = tuple((fact.condition, fact.provenance) for scope in added for fact in scope.facts)
    return None if is_root else ctx, limits, facts  # a weak key must not be a value


def scope_of(f: ir.Function) -> Scope:
    """The scope of the body of a function."""
    return Scope(None, {}, (), Written(f.body), f.ctx)


def scope_behind_head(f: ir.Function) -> Scope:
    """The scope behind the leading assertions of a function."""
    scope = scope_of(f)
    for stmt in children(f.body) if isinstance(f.body, ir.Seq) else ():
        if not isinstance(stmt, (ir.Assert, ir.Let)):
            break
        scope = scope.after(stmt)
    return scope


def written_in(root: ir.Stmt) -> frozenset[Tensor]:
    """The tensors of which an element may be written inside a statement."""
    writing = [stmt for stmt in statements(root) if type(stmt) is ir.Store or type(stmt) is ir.Evaluate]
    return frozenset([tensor for stmt in writing for tensor in written_by(stmt)])


def proof_of(scope: Scope, cond: Cond, effort: Effort = Effort.DEFAULT) -> Proof:
    with intset.using(tiers=tiers_within(effort)):
        return scope.ctx.prove(cond)


def proves(scope: Scope, cond: object) -> bool:
    """Whether a condition is proved in a scope."""
    return isinstance(cond, Cond) and bool(proof_of(scope, cond))


def parts_of_condition(cond: Truth) -> list[Truth]:
    """The distinct conjuncts of a condition, float comparisons included."""
    return dag.chain(ops.AND, cond)


class ElementAccess(NamedTuple):
    """One load or store in the text of a statement."""

    tensor: Tensor
    indices: Indices
    is_store: bool


def element_accesses(stmt: ir.Stmt) -> Iterator[ElementAccess]:
    """The store and the loads of one statement, without nested ones; host calls are left out."""
    if isinstance(stmt, ir.Store):
        yield ElementAccess(stmt.tensor, stmt.indices, True)
    for node, tensor in elements_read(*operands(stmt)):
        yield ElementAccess(tensor, walk.read_indices(node), False)


def redirected(stmt: S, move: Callable[[Tensor, Indices], tuple[Tensor, Indices] | None]) -> S:
    """A statement with its own loads and its store moved to other elements.

    Parameters
    ----------
    move: maps a tensor and indices to the new ones; `None` keeps the access.
    """

    def on_load(tensor: Tensor, indices: Indices) -> Operand | None:
        target = move(tensor, indices)
        return None if target is None else element(*target)

    new = map_operands(stmt, lambda operand: walk.rewritten(operand, {}, on_load))
    if isinstance(new, ir.Store):
        target = move(new.tensor, new.indices)
        return new if target is None else ir.with_fields(new, tensor=target[0], indices=target[1])
    return new


def tensors_of(f: ir.Function) -> tuple[Tensor, ...]:
    """Parameters, then allocated tensors in text order."""
    made = (stmt.tensor for stmt in statements(f.body) if isinstance(stmt, ir.Allocate))
    return tuple(dict.fromkeys((*f.params, *made)))


def limits_of_elements(*values: Operand) -> list[Cond]:
    """The ranges of the types of loaded elements; those of 16 bits and fewer are known anyway."""
    found: list[Cond] = []
    for node, tensor in elements_read(*values):
        if isinstance(node, Expr) and dtypes.bits(tensor.dtype) > 16:
            low, high = dtypes.int_range(tensor.dtype)
            found += [node >= low, node <= high]
    return found


def tensor_named(f: ir.Function, name: str) -> Tensor:
    """The one tensor of this name.

    Raises
    ------
    InputError: the function has none, or more than one.
    """
    arguments.a_name(name, "the name of an array")
    every = tensors_of(f)
    found = [t for t in every if t.name == name]
    if len(found) != 1:
        known = ", ".join(dict.fromkeys(t.name for t in every)) or "none"
        raise InputError(f"{shown(name)} must be one array of {f.name}: the arrays are {known}")
    return found[0]


def allocation_of(f: ir.Function, tensor: Tensor) -> ir.Allocate | None:
    """What allocates a tensor; `None` of a parameter."""
    for stmt in statements(f.body):
        if isinstance(stmt, ir.Allocate) and stmt.tensor is tensor:
            return stmt
    return None


def storage_of(f: ir.Function, tensor: Tensor) -> list[tuple[Expr, Expr]]:
    """First index and extent of each dimension of a tensor's storage."""
    found = allocation_of(f, tensor)
    if found is None:
        return [(const(0), extent) for extent in tensor.extents]
    return [range_ends(r) for r in found.ranges]


def padding_of(f: ir.Function, tensor: Tensor) -> ir.Padding | None:
    """What of a tensor may not be touched; `None` where all of it may."""
    found = allocation_of(f, tensor)
    return f.padding.get(tensor) if found is None else found.padding


def is_outside(padding: ir.Padding | None, indices: Sequence[Expr]) -> Cond:
    """The condition that an element is touchable."""
    return truth(True) if padding is None else logical_not(padding.at(indices))


def in_storage(indices: Sequence[Expr], storage: Sequence[tuple[Expr, Expr]]) -> list[Cond]:
    """For each dimension, the condition that an index lies within its first index and extent."""
    return [(index >= low) & (index < low + extent) for index, (low, extent) in zip(indices, storage, strict=True)]

"""The width of index arithmetic: 32 bits if they provably suffice (`narrow`).

Intervals of all that a statement computes decide first. Where intervals do not suffice, `narrow` asks about each
expression under the conditions of its evaluation.

`sizes_that_fit` computes the run-time test of a function with a 32-bit version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeGuard

import intset
from bound.schedule import simple
from bound.tensor import Tensor
from bound.tir import walk
from bound.tir.value import READ, Operand, Value
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr import Cond, Expr, Node, Var, const, constant_value, dag, ops
from intset.expr.node import make
from intset.facts import ASSERTED, Fact
from intset.linear.bounds import EVERYTHING, Interval, meet, of_operation
from intset.prover.proof import Proof
from lowering.nest import driver, ir
from lowering.nest.printer import end_of
from lowering.nest.scope import scope_of
from lowering.nest.walk import operands, range_ends, statements, transform
from lowering.passes.definedness import parts_of

BITS: Final = 32  # of the narrow type
Shapes: TypeAlias = "Mapping[Tensor, tuple[Expr, ...]]"


@dataclass(frozen=True, eq=False)
class Width:
    """The answer of `narrow`.

    Attributes
    ----------
    bits: 32 or 64.
    forced_by: an expression that is not proved to fit 32 bits; `None` if all fit.
    proof: why it is not known to fit: refuted with values of the variables, or unknown.
    """

    bits: int
    forced_by: Expr | None = None
    proof: Proof | None = None

    def __str__(self) -> str:
        if self.forced_by is None:
            return "int32: every index expression fits"
        assert self.proof is not None
        if self.proof.counterexample:
            values = ", ".join(f"{getattr(v, 'name', v)} = {k}" for v, k in self.proof.counterexample.items())
            return f"int64: {self.forced_by} does not fit into 32 bits at {values}"
        return f"int64: {self.forced_by} is not proved to fit into 32 bits"

    __repr__ = __str__


def narrow(f: ir.Function) -> Width:
    """int32 where every index expression of the nest is proved to fit in all its steps, else int64.

    Index expressions are the ends of loops, the conditions, the indices, and the number of an element in its storage.
    Elements of tensors are computed in 64 bits whatever the answer, and so is everything that depends on one.
    """
    ir.checked_function(f, "narrow")
    scope = scope_of(f)
    spans, shapes = Spans(scope.ctx, BITS), {t: t.extents for t in f.params}
    root = _SpanCursor(scope).moved(spans=spans, data=_named_data(f.body), shapes=shapes)
    refused = (_refused(stmt, here) for stmt, here in driver.walked(f.body, root))
    return next(filter(None, refused), Width(32))


def _named_data(root: ir.Stmt) -> frozenset[Var]:
    """The names of what depends on data, and is computed in 64 bits."""
    named = (
        s for s in statements(root) if isinstance(s, ir.Let) and isinstance(s.value, Expr) and dag.opaque_terms(s.value)
    )
    return frozenset(s.var for s in named if isinstance(s.var, Var))


class _SpanCursor(driver.Cursor):
    """A position with what decides widths there.

    Attributes
    ----------
    spans: constant intervals of the variables in sight, without the conditions of branches.
    data: names of what depends on data, and is computed in 64 bits.
    shapes: the extents of each tensor in sight.
    """

    data: frozenset[Var]
    shapes: Shapes
    spans: Spans

    def after(self, old: ir.Stmt, new: ir.Stmt) -> _SpanCursor:
        if isinstance(old, ir.Allocate):
            extents = tuple(range_ends(r)[1] for r in old.ranges)
            return self.moved(shapes={**self.shapes, old.tensor: extents})
        here = super().after(old, new) if isinstance(old, (ir.Let, ir.Assert, ir.Assume)) else self
        if isinstance(old, ir.Let) and isinstance(old.value, Expr) and old.var not in self.data:
            assert isinstance(old.var, Var)
            return here.moved(spans=self.spans.inside(old.var, old.value, old.value))
        return here

    def inside(self, loop: ir.For) -> _SpanCursor:
        low, extent = range_ends(loop.range)
        spans = self.spans.inside(loop.var, low, end_of(low, extent) - 1)
        return self.moved(scope=self.scope.inside(loop), spans=spans)

    def between_iterations(self, loop: ir.For) -> _SpanCursor:
        """The end of an iteration, where a loop computes carried values; with a next iteration if required."""
        inside = self.scope.inside(loop)
        low, extent = range_ends(loop.range)
        scope = inside if all(c.after_last for c in loop.carried) else inside.where(loop.var + 1 < low + extent)
        return self.moved(scope=scope, spans=Spans(scope.ctx, BITS))

    def refused(self, e: Expr, conditions: tuple[Cond, ...]) -> Width | None:
        """Why an expression forces a wider type; `None` where it fits under the conditions."""
        if self.spans.fit(e):
            return None
        ctx = self.scope.where(*conditions).ctx
        if fits_by_intervals(ctx, e, BITS):
            return None
        with intset.using(tiers=tiers_within(Effort.DEFAULT)):
            proof = ctx.fits(e, BITS)
        return None if proof else Width(64, e, proof)


def _refused(stmt: ir.Stmt, here: _SpanCursor) -> Width | None:
    """Why an index expression that the statement computes forces a wider type; `None` if all fit."""
    if _fits_everywhere(stmt, here.spans, here.shapes):
        return None
    for e, conditions in _index_expressions(stmt, here.shapes):
        is_stored = e in here.data and isinstance(stmt, ir.Store)  # as it is
        refused = None if is_stored else here.refused(e, conditions)
        if refused is not None:
            return refused
    if isinstance(stmt, ir.For) and stmt.carried:
        last = here.between_iterations(stmt)
        return next(filter(None, (last.refused(carry.following, ()) for carry in stmt.carried)), None)
    return None


def _fits_everywhere(stmt: ir.Stmt, spans: Spans, shapes: Shapes) -> bool:
    """Whether intervals show that all integers of a statement fit, whatever the conditions of their evaluation are."""
    roots = operands(stmt)
    if (isinstance(stmt, ir.For) and stmt.carried) or not _WIDE.isdisjoint(walk.operations(*roots)):
        return False
    values = [root for root in roots if isinstance(root, Value)]
    read = [node for node in dag.postorder(values) if node.op is READ and node.data in shapes]
    numbers = [offset(walk.read_indices(node), shapes[node.data]) for node in read]
    return all(map(spans.fit, (*roots, *numbers, *_combined(stmt, shapes))))


def _combined(stmt: ir.Stmt, shapes: Shapes) -> list[Expr]:
    """What a statement computes from its operands: a number of an element, the end of a loop, a number of elements."""
    if isinstance(stmt, ir.Store):
        return [offset(stmt.indices, shapes[stmt.tensor])] if stmt.tensor in shapes else []
    if isinstance(stmt, ir.For):
        low, extent = range_ends(stmt.range)
        return [low + extent]
    return [product(range_ends(r)[1] for r in stmt.ranges)] if isinstance(stmt, ir.Allocate) else []


def _index_expressions(stmt: ir.Stmt, shapes: Shapes) -> list[tuple[Expr, tuple[Cond, ...]]]:
    """The expressions that a statement computes at index width, each with the conditions of its evaluation."""
    if isinstance(stmt, ir.Assume):  # nothing computes it
        return []
    if isinstance(stmt, ir.Allocate):
        stmt = ir.with_fields(stmt, padding=None)
    expressions: dict[tuple[Expr, tuple[Cond, ...]], None] = {}

    def add(e: Expr, conditions: tuple[Cond, ...]) -> None:
        for part in narrow_parts(e):
            expressions[part, conditions] = None

    firsts = [c.first for c in stmt.carried] if isinstance(stmt, ir.For) else []
    expressions.update(((first, ()), None) for first in firsts if dag.opaque_terms(first))
    for operand in (*range_ends(stmt.range), *firsts) if isinstance(stmt, ir.For) else operands(stmt):
        for part, conditions in parts_of(operand):
            for node in dag.postorder((part,)) if isinstance(part, Node) else (part,):
                tensor = walk.loaded_tensor(node)
                if tensor is not None and tensor in shapes:
                    add(offset(walk.read_indices(node), shapes[tensor]), conditions)
                for arg in node.args if isinstance(node, Cond) else ():
                    if isinstance(arg, Expr):
                        add(arg, conditions)
            if isinstance(part, Expr):
                add(part, conditions)
    for e in _combined(stmt, shapes):
        add(e, ())
    return list(expressions)


def narrow_parts(e: Expr) -> list[Expr]:
    """The largest parts of `e` that depend on no data: they are computed at the width of indices."""
    wide: set[Expr] = set() if _WIDE.isdisjoint(dag.operations(e)) else wide_nodes(e)
    if e not in wide:
        return [e]
    return [arg for node in wide for arg in node.args if isinstance(arg, Expr) and arg not in wide]


_WIDE: Final = frozenset((ops.LOAD, ops.CAST))


def wide_nodes(*roots: Expr) -> set[Expr]:
    """The integer nodes that depend on data; they are computed in 64 bits."""
    wide: set[Expr] = set()
    for node in dag.postorder(roots):
        if isinstance(node, Expr) and (node.op in _WIDE or any(arg in wide for arg in node.args)):
            wide.add(node)
    return wide


def offset(indices: Iterable[Expr], shape: Iterable[Expr]) -> Expr:
    """The number of an element in storage of this shape, by rows."""
    total: Expr | None = None
    for index, extent in zip(indices, shape, strict=True):
        total = index if total is None else simple.add(simple.mul(total, extent), index)
    return const(0) if total is None else total


def product(extents: Iterable[Expr]) -> Expr:
    """The extents multiplied."""
    total: Expr | None = None
    for extent in extents:
        total = extent if total is None else simple.mul(total, extent)
    return const(1) if total is None else total


# -- tests of sizes ----------------------------------------------------------------------------------------------------

SIZE: Final = 1 << 30  # the largest single size
ELEMENTS: Final = 1 << 30  # the most elements of one tensor; neighbours of the last one must fit, too
FACTORS: Final = 8  # the most symbolic extents of a tested tensor


def sizes_that_fit(f: ir.Function) -> tuple[Cond, ...]:
    """Conditions on the sizes of `f` that make every index expression fit 32 bits; empty if none are known.

    They bound each size, or the number of elements of each tensor of symbolic shape. All but very large sizes satisfy
    them.
    """
    integers = [e for stmt in statements(f.body) for e in operands(stmt) if isinstance(e, (Expr, Cond))]
    if not f.sizes or any(map(_is_wide_shift, dag.postorder(integers))):
        return ()
    for tests in _candidates(f):
        tested = ir.with_fields(f, ctx=f.ctx.extended(facts=tuple(Fact(test, ASSERTED) for test in tests)))
        if narrow(tested).bits == 32:
            return tests
    return ()


def _candidates(f: ir.Function) -> Iterator[tuple[Cond, ...]]:
    """Tests, the most generous first: of the elements of each tensor, then of each size alone, as large as the elements
    of a tensor with that many symbolic extents allow."""
    most = 1
    products: list[Cond] = []
    for extents in _shapes(f):
        factors = [e for e in extents if constant_value(e) != 1]
        if len(factors) > FACTORS or dag.opaque_terms(*factors):
            return
        total: Expr | None = None
        for factor in factors:  # test partial products first, so that no product overflows
            total = factor if total is None else simple.mul(total, factor)
            products.append(total <= ELEMENTS)
        most = max(most, sum(len(e.free_vars()) for e in factors))
    yield tuple(dict.fromkeys((*_limits(f, SIZE), *(test for test in products if test.free_vars()))))
    if most > 1:
        yield tuple(_limits(f, int(ELEMENTS ** (1 / most))))


def _limits(f: ir.Function, most: int) -> list[Cond]:
    counted = {e for t in f.params for e in t.extents}  # an extent is nonnegative
    return [limit for v in f.sizes for limit in (v <= most, v >= (0 if v in counted else -most))]


def _shapes(f: ir.Function) -> Iterator[tuple[Expr, ...]]:
    known = set(f.sizes)
    for tensor in f.params:
        if any(constant_value(e) is None for e in tensor.extents):
            yield tensor.extents
    for stmt in statements(f.body):
        if isinstance(stmt, ir.Allocate):
            extents = tuple(range_ends(r)[1] for r in stmt.ranges)
            if any(constant_value(e) is None for e in extents) and {v for e in extents for v in e.free_vars()} <= known:
                yield extents


def with_short_signs(f: ir.Function) -> ir.Function:
    """Replace `x >> 63` by `x >> 31`: for 32-bit values both give the sign."""
    return f.with_body(transform(f.body, _short_signs))


def _short_signs(operand: Operand) -> Operand:
    new: dict[Node | Value, Operand] = {}
    for node in walk.nodes(operand):
        if isinstance(node, Expr) and node.op is ops.SHR and constant_value(node.args[1]) == 63:
            new[node] = make(ops.SHR, (walk.rewrite(node.args[0], new), const(31)))
    return walk.rewrite(operand, new) if new else operand


def _is_wide_shift(node: Node) -> bool:
    """Whether a node shifts by what 32 bits cannot be shifted by."""
    amount = constant_value(node.args[1]) if node.op in (ops.SHL, ops.SHR) else 0
    return amount is None or amount >= 32


# -- intervals ---------------------------------------------------------------------------------------------------------

Span: TypeAlias = "tuple[int, int] | None"
MAX_STEPS: Final = 200  # larger expressions are not looked at
_REMAINDERS: Final = (ops.FLOORMOD, ops.TRUNCMOD)
_ASKED: Final = (ops.VAR, ops.LOAD, ops.CAST, *ops.DIVISIONS, ops.BITAND, ops.BITOR, ops.BITXOR, ops.BITNOT, ops.ABS)


def fits_by_intervals(ctx: Context, e: Expr, bits: int) -> bool:
    """Whether intervals show that every step of `e` is representable in `bits` signed bits and none traps."""
    return Spans(ctx, bits).fit(e)


class Spans:
    """Intervals of expressions as they are written, in a context and inside loops.

    The expression is not multiplied out, so every step has an interval, and `(i % n) * n` is bounded more sharply than
    as a linear form. `intset.linear.bounds` combines intervals; the context bounds variables, divisions and data.
    Loops contribute constant ends and no conditions: one context per position would be sharper, and slower.

    Guarantee: sound.
    """

    def __init__(self, ctx: Context, bits: int) -> None:
        self.ctx, self.bits = ctx, bits
        self._least, self._most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        self._loops: dict[Var, tuple[int, int]] = {}
        self._of: dict[Node, tuple[int, int]] = {}  # of expressions that fit; with each its operands

    def inside(self, var: Var, low: Expr, last: Expr) -> Spans:
        """The intervals inside a loop from `low` to `last`."""
        first, end = self.span(low), self.span(last)
        within = Spans(self.ctx, self.bits)
        within._loops = {v: ends for v, ends in self._loops.items() if v is not var}
        if first is not None and end is not None:
            within._loops[var] = (first[0], max(first[0], end[1]))
        if var not in self._of:  # then no known interval depends on it
            within._of = dict(self._of)
        return within

    def span(self, e: Expr) -> Span:
        """The interval of an expression that fits, else `None`."""
        return self._of[e] if self.fit(e) else None

    def fit(self, e: Operand) -> bool:
        """Whether intervals show that every integer below `e` is representable in `bits` signed bits and none traps."""
        below = () if e in self._of else dag.postorder_beside(e, self._of)
        return len(below) <= MAX_STEPS and all(self._fits(node) for node in below if isinstance(node, Expr))

    def _fits(self, node: Expr) -> bool:
        """Whether an operation fits whose operands do; its interval is kept."""
        spans = self._of
        span = self._loops.get(node) if isinstance(node, Var) else None
        if span is None:
            span = _span(self.ctx, node, [spans.get(arg) for arg in node.args])
        if not self._holds(span):
            return False
        if node.op in _REMAINDERS or node.op in (ops.SHL, ops.SHR):
            (least, _), (low, high) = (spans[arg] for arg in node.args)
            traps = least <= self._least and low <= -1 <= high  # MIN rem -1
            if traps if node.op in _REMAINDERS else not 0 <= low <= high < self.bits:
                return False
        spans[node] = span
        return True

    def _holds(self, span: Interval | None) -> TypeGuard[tuple[int, int]]:
        """Whether `bits` signed bits represent every number of an interval."""
        low, high = span or EVERYTHING
        return low is not None and high is not None and self._least <= low and high <= self._most


def _span(ctx: Context, node: Expr, args: list[Span]) -> Span:
    """Derive the interval of a node from its operands' intervals; some operations also ask the context."""
    value = constant_value(node)
    if value is not None:
        return (value, value)
    spans = [span or EVERYTHING for arg, span in zip(node.args, args, strict=True) if isinstance(arg, Expr)]
    low, high = of_operation(node.op, *spans)
    if node.op in _ASKED:
        known = ctx.frame.known
        low, high = meet((low, high), known.bounds(known.form(node)))
    return None if low is None or high is None else (low, high)

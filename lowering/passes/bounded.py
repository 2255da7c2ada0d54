"""Sizes for which 32 bits are enough, as a test that a function can make when it is called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from bound.schedule import simple
from bound.tir import walk
from bound.tir.value import Operand, Value
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var, const, constant_value, make
from intset.expr.walk import opaque_terms, postorder
from intset.facts import ASSERTED, Fact
from lowering.nest.ir import Allocate, Function
from lowering.nest.walk import operands, range_ends, statements, transform
from lowering.passes.narrow import narrow

SIZE: Final = 1 << 30  # the largest single size
ELEMENTS: Final = 1 << 30  # the most elements of one tensor, so that neighbours of the last one fit as well
FACTORS: Final = 8  # of the number of elements of a tensor that is tested


def sizes_that_fit(f: Function) -> tuple[Cond, ...]:
    """Conditions on the sizes of `f`, true of all but very large ones, under which every index expression fits into 32
    bits; none where no such conditions are known to be enough.

    They bound each size, or the number of elements of each tensor with a symbolic shape.
    """
    if not f.sizes or any(_is_wide_shift(node) for node in _nodes(f)):
        return ()
    for tests in _candidates(f):
        tested = replace(f, ctx=f.ctx.extended(facts=tuple(Fact(test, ASSERTED) for test in tests)))
        if narrow(tested).bits == 32:
            return tests
    return ()


def _candidates(f: Function) -> Iterator[tuple[Cond, ...]]:
    """Tests, the most generous first: of the elements of each tensor, then of each size alone, as large as the elements
    of a tensor with that many symbolic extents allow."""
    most = 1
    products: list[Cond] = []
    for extents in _shapes(f):
        factors = [e for e in extents if constant_value(e) != 1]
        if len(factors) > FACTORS or opaque_terms(*factors):
            return
        total: Expr | None = None
        for factor in factors:  # one after another, so that no product overflows before it is tested
            total = factor if total is None else simple.mul(total, factor)
            products.append(total <= ELEMENTS)
        most = max(most, sum(len(e.free_vars()) for e in factors))
    yield tuple(dict.fromkeys((*_limits(f, SIZE), *(test for test in products if test.free_vars()))))
    if most > 1:
        yield tuple(_limits(f, int(ELEMENTS ** (1 / most))))


def _limits(f: Function, most: int) -> list[Cond]:
    return [limit for v in f.sizes for limit in (v <= most, v >= (0 if _is_counted(f, v) else -most))]


def _is_counted(f: Function, size: Var) -> bool:
    """Whether a size is an extent of a parameter, hence at least 0."""
    return any(size is e for t in f.params for e in t.extents)


def _shapes(f: Function) -> Iterator[tuple[Expr, ...]]:
    known = set(f.sizes)
    for tensor in f.params:
        if any(constant_value(e) is None for e in tensor.extents):
            yield tensor.extents
    for stmt in statements(f.body):
        if isinstance(stmt, Allocate):
            extents = tuple(range_ends(r)[1] for r in stmt.ranges)
            if any(constant_value(e) is None for e in extents) and {v for e in extents for v in e.free_vars()} <= known:
                yield extents


def _nodes(f: Function) -> Iterator[object]:
    for stmt in statements(f.body):
        for operand in operands(stmt):
            if isinstance(operand, (Expr, Cond)):
                yield from postorder((operand,))


def with_short_signs(f: Function) -> Function:
    """The function with `x >> 31` for `x >> 63`: both are the sign of what fits into 32 bits."""
    return f.with_body(transform(f.body, _short_signs))


def _short_signs(operand: Operand) -> Operand:
    new: dict[Node | Value, Operand] = {}
    for node in walk.nodes(operand):
        if isinstance(node, Expr) and node.op is ops.SHR and constant_value(node.args[1]) == 63:
            new[node] = make(ops.SHR, (walk.rewrite(node.args[0], new), const(31)))
    return walk.rewrite(operand, new) if new else operand


def _is_wide_shift(node: object) -> bool:
    """Whether a node shifts by what 32 bits cannot be shifted by."""
    if not isinstance(node, Expr) or node.op not in (ops.SHL, ops.SHR):
        return False
    by = node.args[1]
    amount = constant_value(by) if isinstance(by, Expr) else None
    return amount is None or amount >= 32

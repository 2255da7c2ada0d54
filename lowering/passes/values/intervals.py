"""Intervals of index expressions as they are written: a cheap test whether every step fits a machine word.

It ignores correlations between operands, which suffices for most indices of bounded sizes. It is sharper than the
linear form where that multiplies out: `(i % n) * n` becomes `i * n - (i // n) * n * n`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from intset.context import Context
from intset.expr import ops
from intset.expr.node import Expr, Node, Var, constant_value
from intset.expr.walk import free_vars, postorder_until
from intset.names import CHEAPEST

Span: TypeAlias = "tuple[int, int] | None"
MAX_NODES: Final = 200
_ASKED: Final = (ops.VAR, ops.LOAD, ops.CAST, *ops.DIVISIONS, ops.BITAND, ops.BITOR, ops.BITXOR, ops.BITNOT, ops.ABS)
_REMAINDERS: Final = (ops.FLOORMOD, ops.TRUNCMOD)


def fits_by_intervals(ctx: Context, e: Expr, bits: int) -> bool:
    """Whether every step of `e` is seen to be representable in `bits` signed bits, and none to trap."""
    return Spans(ctx, bits).fit(e)


class Spans:
    """Intervals of expressions in a context and inside loops; common subexpressions are evaluated once.

    Loops contribute constant ends and no conditions. A context per position would be sharper, and slower.

    Guarantee: sound.
    """

    def __init__(self, ctx: Context, bits: int, loops: Mapping[Var, tuple[int, int]] | None = None) -> None:
        self.ctx, self.bits = ctx, bits
        self._loops = dict(loops or {})
        self._closed: Context | None = None  # every variable that matters has a range, so that bounds are numbers
        self._met: set[Var] = set()
        self._of: dict[Node, tuple[int, int]] = {}  # of what fits

    def inside(self, var: Var, low: Expr, last: Expr) -> Spans:
        """The same inside of a loop; both ends are values of it."""
        first, end = self.span(low), self.span(last)
        loops = {v: ends for v, ends in self._loops.items() if v is not var}
        if first is not None and end is not None:
            loops[var] = (first[0], max(first[0], end[1]))
        return Spans(self.ctx, self.bits, loops)

    def span(self, e: Expr) -> Span:
        """The interval of what fits."""
        return self._of[e] if self.fit(e) else None

    def fit(self, e: Expr) -> bool:
        """Whether every step of `e` is seen to be representable in these signed bits, and none to trap."""
        spans, bits = self._of, self.bits
        least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        closed = self._around(e)
        for count, node in enumerate(postorder_until(e, spans)):
            if count >= MAX_NODES:
                return False
            if not isinstance(node, Expr):
                continue
            span = self._loops.get(node) if isinstance(node, Var) else None
            if span is None:
                span = _span(closed, node, [spans.get(arg) for arg in node.args])
            if span is None or span[0] < least or span[1] > most:
                return False
            if node.op in _REMAINDERS and _may_trap(spans[node.args[0]], spans[node.args[1]], least):
                return False
            if node.op in (ops.SHL, ops.SHR) and not _is_amount(spans[node.args[1]], bits):
                return False
            spans[node] = span
        return True

    def _around(self, e: Expr) -> Context:
        """The context, with a range for each variable in `e` and in the facts."""
        if self._closed is None:
            self._met.update(free_vars(*(fact.condition for fact in self.ctx.facts)))
        elif self._met.issuperset(e.free_vars()):
            return self._closed
        self._met.update(e.free_vars())
        self._closed = _closed(self.ctx, [v for v in self._met if v not in self._loops])
        self._of.clear()
        return self._closed


def _may_trap(a: Span, b: Span, least: int) -> bool:
    return a is None or b is None or (a[0] <= least and b[0] <= -1 <= b[1])  # MIN rem -1


def _is_amount(span: Span, bits: int) -> bool:
    return span is not None and span[0] >= 0 and span[1] < bits


def _closed(ctx: Context, roots: Collection[Var]) -> Context:
    """The context, with a range for every variable reachable from `roots`."""
    waiting = list(roots)
    free: dict[Var, None] = {}
    seen = set(waiting)
    while waiting:
        var = waiting.pop()
        if var not in ctx.ranges:
            free[var] = None
            continue
        more = [v for v in free_vars(*_ends(ctx, var)) if v not in seen]
        seen.update(more)
        waiting += more
    return ctx.extended(ranges=dict.fromkeys(free)) if free else ctx


def _ends(ctx: Context, var: Var) -> list[Expr]:
    limits = ctx.ranges[var]
    return [end for end in (limits.min, limits.extent) if isinstance(end, Expr)]


def _span(ctx: Context, node: Expr, args: list[Span]) -> Span:
    value = constant_value(node)
    if value is not None:
        return (value, value)
    if node.op in _ASKED:
        ends = ctx.bounds(node, domain=CHEAPEST)
        low, high = (constant_value(end) if isinstance(end, Expr) else None for end in ends)
        limits = _of_division(node, args) if node.op in ops.DIVISIONS else _of_mask(node, args)
        if limits is not None:
            low = limits[0] if low is None else max(low, limits[0])
            high = limits[1] if high is None else min(high, limits[1])
        return None if low is None or high is None else (low, high)
    kept = [span for arg, span in zip(node.args, args, strict=True) if isinstance(arg, Expr)]
    if any(span is None for span in kept):
        return None
    return _combined(node, [span for span in kept if span is not None])


def _of_division(node: Expr, args: list[Span]) -> Span:
    """The magnitudes that a quotient and a remainder cannot exceed."""
    a, b = args
    if a is None or b is None:
        return None
    limit = max(map(abs, b)) - 1 if node.op in _REMAINDERS else max(map(abs, a))
    return (-limit, limit)


def _of_mask(node: Expr, args: list[Span]) -> Span:
    """A nonnegative mask bounds the result of a bitwise and."""
    masks = [span[1] for span in args if span is not None and span[0] >= 0]
    return (0, min(masks)) if node.op is ops.BITAND and masks else None


def _combined(node: Expr, args: list[tuple[int, int]]) -> Span:
    op = node.op
    if op is ops.NEG:
        return (-args[0][1], -args[0][0])
    if op is ops.ASSERTING:
        return args[0]
    if len(args) != 2:
        return None
    (a, b), (c, d) = args
    if op is ops.ADD:
        return (a + c, b + d)
    if op is ops.SUB:
        return (a - d, b - c)
    if op is ops.MUL:
        corners = (a * c, a * d, b * c, b * d)
        return (min(corners), max(corners))
    if op is ops.MIN:
        return (min(a, c), min(b, d))
    if op is ops.MAX:
        return (max(a, c), max(b, d))
    if op is ops.SELECT:
        return (min(a, c), max(b, d))
    if op is ops.SHR and 0 <= c == d:
        return (a >> c, b >> c)
    if op is ops.SHL and 0 <= c == d <= 64:
        return (a << c, b << c)
    return None

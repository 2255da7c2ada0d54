"""Does an expression fit a machine word, by the intervals of its operands: cheap, and blind to how they are related.

That is enough for most indices once sizes have an upper bound; and where the linear form would multiply out, as in
`(i % n) * n`, which is `i * n - (i // n) * n * n` there, the intervals of the parts as written say more.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from intset.context import Context
from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var, constant_value
from intset.expr.walk import free_vars, postorder
from intset.names import CHEAPEST

Span: TypeAlias = "tuple[int, int] | None"
MAX_NODES: Final = 200
_ASKED: Final = (ops.VAR, ops.LOAD, ops.CAST, *ops.DIVISIONS, ops.BITAND, ops.BITOR, ops.BITXOR, ops.BITNOT, ops.ABS)
_REMAINDERS: Final = (ops.FLOORMOD, ops.TRUNCMOD)


def fits_by_intervals(ctx: Context, e: Expr, bits: int) -> bool:
    """Whether every step of `e` is seen to be representable in `bits` signed bits, and none to trap."""
    nodes = list(postorder((e,)))
    if len(nodes) > MAX_NODES:
        return False
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    closed = _closed(ctx, nodes)
    spans: dict[Node, Span] = {}
    for node in nodes:
        if isinstance(node, Cond):
            continue
        assert isinstance(node, Expr)
        span = spans[node] = _span(closed, node, [spans.get(arg) for arg in node.args])
        if span is None or span[0] < least or span[1] > most:
            return False
        if node.op in _REMAINDERS and _may_trap(spans[node.args[0]], spans[node.args[1]], least):
            return False
        if node.op in (ops.SHL, ops.SHR) and not _is_amount(spans[node.args[1]], bits):
            return False
    return True


def _may_trap(a: Span, b: Span, least: int) -> bool:
    return a is None or b is None or (a[0] <= least and b[0] <= -1 <= b[1])  # MIN rem -1


def _is_amount(span: Span, bits: int) -> bool:
    return span is not None and span[0] >= 0 and span[1] < bits


def _closed(ctx: Context, nodes: list[Node]) -> Context:
    """The context in which every variable that matters has a range, so that bounds are numbers."""
    known = free_vars(*(fact.condition for fact in ctx.facts))
    waiting = [*(node for node in nodes if isinstance(node, Var)), *known]
    free: dict[Var, None] = {}
    seen = set(waiting)
    while waiting:
        var = waiting.pop()
        if var not in ctx.ranges:
            free[var] = None
            continue
        more = [v for v in free_vars(*(end for end in _ends(ctx, var))) if v not in seen]
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
        limits = _of_division(node, args) if node.op in ops.DIVISIONS else None
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

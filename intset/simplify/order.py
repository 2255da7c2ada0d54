"""What is known of the order of two expressions: lattice laws of min and max first, then the linear form.

min(a, b) <= c  where a <= c or b <= c          c <= max(a, b)  where c <= a or c <= b
max(a, b) <= c  where a <= c and b <= c         c <= min(a, b)  where c <= a and c <= b
a & b <= a      where a >= 0                    a <= a | b      where b >= 0
"""

from __future__ import annotations

from typing import Final

from intset.expr import ops
from intset.expr.node import Cond, Expr
from intset.linear.canonical import Normalizer

MAX_QUESTIONS: Final = 64  # comparisons of linear forms for one answer


class Order:
    """Decides conditions under what one normalizer knows; what is found is kept."""

    __slots__ = ("_found", "known")

    def __init__(self, known: Normalizer) -> None:
        self.known = known
        self._found: dict[tuple[Expr, Expr], bool] = {}

    def is_at_most(self, a: Expr, b: Expr) -> bool:
        """Whether `a <= b` is known to hold wherever both are defined."""
        if a is b:
            return True
        found = self._found.get((a, b))
        if found is None:
            found = self._found[a, b] = self._compared(a, b, [MAX_QUESTIONS], 6)
        return found

    def _compared(self, a: Expr, b: Expr, left: list[int], depth: int) -> bool:
        if a is b:
            return True
        if left[0] <= 0:
            return False
        left[0] -= 1
        if depth:
            if b.op is ops.MIN:
                return all(self._compared(a, arg, left, depth - 1) for arg in b.args)
            if a.op is ops.MAX:
                return all(self._compared(arg, b, left, depth - 1) for arg in a.args)
            if b.op is ops.MAX and any(self._compared(a, arg, left, depth - 1) for arg in b.args):
                return True
            if a.op is ops.MIN and any(self._compared(arg, b, left, depth - 1) for arg in a.args):
                return True
        known = self.known
        if a.op is ops.BITAND and any(arg is b and known.is_nonneg(known.form(b)) for arg in a.args):
            return True
        if b.op is ops.BITOR and _is_or_of(b, a, known):
            return True
        return known.is_nonneg(known.form(b).minus(known.form(a)))

    def decided(self, cond: Cond) -> bool | None:
        """Whether the condition always or never holds, as far as that is known."""
        canonical = self.known.cond(cond)
        if canonical.op is ops.BOOL:
            return bool(canonical.data)
        if cond.op in ops.COMPARISONS and any(arg.op in _ORDERED for arg in cond.args):
            return self._by_order(cond)
        return None

    def _by_order(self, cond: Cond) -> bool | None:
        a, b = cond.args
        if cond.op in (ops.GT, ops.GE):
            a, b = b, a
        if cond.op in (ops.LE, ops.GE) and self.is_at_most(a, b):
            return True
        if cond.op in (ops.LT, ops.GT) and self.is_at_most(b, a):
            return False
        return None

    def implies(self, p: Cond, q: Cond) -> bool:
        """Whether `p` is seen to imply `q`, both inequalities: its sides lie outside of those of `q`."""
        a, b = _as_less(p), _as_less(q)
        if a is None or b is None or (b[2] and not a[2]):
            return False
        return self.is_at_most(b[0], a[0]) and self.is_at_most(a[1], b[1])

    def holds(self, cond: Cond) -> bool:
        """Whether the condition is known to hold."""
        return self.decided(cond) is True


_ORDERED: Final = (ops.MIN, ops.MAX, ops.BITAND, ops.BITOR)


def _is_or_of(whole: Expr, part: Expr, known: Normalizer) -> bool:
    others = [whole.args[1 - k] for k, arg in enumerate(whole.args) if arg is part]
    return any(known.is_nonneg(known.form(other)) for other in others)


def _as_less(cond: Cond) -> tuple[Expr, Expr, bool] | None:
    """(a, b, whether strictly) for a condition that says a is less than b."""
    if cond.op is ops.LT or cond.op is ops.LE:
        return (cond.args[0], cond.args[1], cond.op is ops.LT)
    if cond.op is ops.GT or cond.op is ops.GE:
        return (cond.args[1], cond.args[0], cond.op is ops.GT)
    return None

"""Congruences with ends (`interval*modular`) and without (`modular`): two domains over the values of `strided`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from intset.arithmetic import strided
from intset.arithmetic.strided import Strided
from intset.domains.sets.base import End, IntSet, StrideSum, as_end, empty_set
from intset.domains.sets.bounds import check_countable
from intset.domains.sets.ends import numeric_ends
from intset.domains.value import ValueDomain
from intset.expr import ops
from intset.expr.build import logical_and
from intset.expr.node import Cond, IntLike, as_expr, const
from intset.expr.printer import number_text
from intset.infinity import POS_INF, Infinity


class StridedSet(IntSet):
    """The integers from `low` to `high` that are congruent to `r` modulo `m`; an end is `None` where there is none."""

    def __init__(self, value: strided.StridedInterval, by: str, **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.value = value

    def ends(self) -> tuple[End, End]:
        low, high = map(as_end, numeric_ends(*self.value[:2]))
        return low, high

    def _structure(self) -> StrideSum | None:
        low, high, m, _ = self.value
        if low is None or m == 0:
            return None if low is None else StrideSum(const(low), (), ())
        return StrideSum(const(low), (m,), (POS_INF if high is None else (high - low) // m + 1,))

    def _congruence(self) -> tuple[int, int]:
        return self.value[2:]

    def condition(self, e: IntLike) -> Cond:
        low, high, m, r = self.value
        x = as_expr(e)
        if m == 0:
            return x.eq(r)
        parts = [] if low is None else [x >= low]
        parts += [] if high is None else [x <= high]
        parts += [(x % m).eq(r)] if m > 1 else []
        return logical_and(*parts)

    def count(self) -> int | Infinity:
        check_countable(self)
        number = strided.count(self.value)
        return POS_INF if number is None else number

    def describe(self) -> str:
        low, high, m, r = self.value
        if m == 0:
            return f"{{{number_text(r)}}}"
        first = "NEG_INF" if low is None else number_text(low)
        interval = f"[{first}, {'POS_INF' if high is None else number_text(high)}]"
        residue = f"{number_text(m)}*Z + {number_text(r)}"
        return interval if m == 1 else residue if low is None and high is None else f"{interval} and {residue}"


class StridedDomain(ValueDomain[Strided]):
    """`interval*modular`: strided intervals, the reduced product of P. Granger, Static analysis of arithmetical
    congruences, 1989."""

    name: ClassVar[str] = "interval*modular"
    exact_on: ClassVar[str] = "one independent variable, scaled and shifted"
    transfer: Mapping[ops.Op, Callable[..., Strided]] = strided.TRANSFER

    def constant(self, x: int) -> Strided:
        return strided.const(x)

    def between(self, low: int | None, high: int | None) -> Strided:
        return strided.make(low, high)

    def congruent(self, m: int, r: int) -> Strided:
        return strided.make(None, None, m, r)

    def join(self, a: Strided, b: Strided) -> Strided:
        return strided.join(a, b)

    def meet(self, a: Strided, b: Strided) -> Strided:
        return strided.meet(a, b)

    def represent(self, value: Strided) -> IntSet:
        return empty_set(self.name) if value is None else StridedSet(value, self.name)


def on_congruences(transfer: Callable[..., Strided]) -> Callable[..., Strided]:
    """A transfer function that drops the ends of its result."""
    return lambda *operands: strided.without_ends(transfer(*operands))


TRANSFER: Final[Mapping[ops.Op, Callable[..., Strided]]] = {
    op: on_congruences(transfer) for op, transfer in strided.TRANSFER.items()
}


class ModularDomain(StridedDomain):
    """Congruences.

    Invariant: only single points have ends.
    """

    name: ClassVar[str] = "modular"
    exact_on: ClassVar[str] = "single points and residue classes"
    transfer: Mapping[ops.Op, Callable[..., Strided]] = TRANSFER

    def between(self, low: int | None, high: int | None) -> Strided:
        return strided.without_ends(strided.make(low, high))

    def join(self, a: Strided, b: Strided) -> Strided:
        return strided.without_ends(strided.join(a, b))

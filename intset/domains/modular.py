"""The `modular` domain: one congruence `m*Z + r`.

Its transfer functions are those of strided intervals, on operands with two open ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from intset.domains.arithmetic import congruence, strided, strided_bits
from intset.domains.sets.base import End, IntSet, as_end, empty_set
from intset.domains.sets.bounds import check_countable
from intset.domains.value import ValueDomain
from intset.expr import ops
from intset.expr.node import Cond, IntLike, as_expr, truth
from intset.expr.text import number_text
from intset.infinity import NEG_INF, POS_INF, Infinity


def open_ended(value: congruence.Congruence) -> strided.Strided:
    """Convert a congruence to a strided interval."""
    if value is None:
        return None
    m, r = value
    return (None, None, m, r) if m else strided.const(r)


def on_congruences(transfer: Callable[..., strided.Strided]) -> Callable[..., congruence.Congruence]:
    """Convert a transfer function of strided intervals to one of congruences."""

    def residue(*operands: congruence.Congruence) -> congruence.Congruence:
        result = transfer(*map(open_ended, operands))
        return None if result is None else result[2:]

    return residue


TRANSFER: Final[Mapping[ops.Op, Callable[..., congruence.Congruence]]] = {
    op: on_congruences(transfer) for op, transfer in strided_bits.TRANSFER.items()
}


class CongruenceSet(IntSet):
    """The integers x with `x % m == r` (every integer for m = 1, one for m = 0)."""

    def __init__(self, m: int, r: int, by: str = "modular", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.modulus, self.remainder = m, r

    def ends(self) -> tuple[End, End]:
        if self.modulus == 0:
            return as_end(self.remainder), as_end(self.remainder)
        return NEG_INF, POS_INF

    def condition(self, e: IntLike) -> Cond:
        if self.modulus == 0:
            return as_expr(e).eq(self.remainder)
        return truth(True) if self.modulus == 1 else (as_expr(e) % self.modulus).eq(self.remainder)

    def count(self) -> int | Infinity:
        check_countable(self)
        return 1 if self.modulus == 0 else POS_INF

    def describe(self) -> str:
        m, r = number_text(self.modulus), number_text(self.remainder)
        return f"{{{r}}}" if self.modulus == 0 else f"{m}*Z + {r}"


class ModularDomain(ValueDomain[congruence.Congruence]):
    """Congruences after P. Granger, Static analysis of arithmetical congruences (1989)."""

    name: ClassVar[str] = "modular"
    transfer: Mapping[ops.Op, Callable[..., congruence.Congruence]] = TRANSFER

    def constant(self, x: int) -> congruence.Congruence:
        return congruence.make(0, x)

    def between(self, low: int | None, high: int | None) -> congruence.Congruence:
        if low is not None and high is not None and low >= high:
            return congruence.make(0, low) if low == high else congruence.BOTTOM
        return congruence.TOP

    def congruent(self, m: int, r: int) -> congruence.Congruence:
        return congruence.make(m, r)

    def join(self, a: congruence.Congruence, b: congruence.Congruence) -> congruence.Congruence:
        return congruence.join(a, b)

    def meet(self, a: congruence.Congruence, b: congruence.Congruence) -> congruence.Congruence:
        return congruence.meet(a, b)

    def represent(self, value: congruence.Congruence) -> IntSet:
        return empty_set(self.name) if value is None else CongruenceSet(*value, by=self.name)

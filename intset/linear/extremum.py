"""The smaller or larger of two forms: one of them where the sign of the difference is known, else an atom, the same
whichever of them comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from intset.expr import ops
from intset.expr.node import make
from intset.linear.form import Linear, atom
from intset.linear.order import form_key

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer


def extremum(known: Normalizer, op: ops.Op, a: Linear, b: Linear) -> Linear:
    """The minimum or maximum of `a` and `b`, whatever they share outside of it."""
    sign = known.sign(b.minus(a) if op is ops.MIN else a.minus(b))
    if sign:
        return a if sign > 0 else b
    common, *parts = without_shared(a, b)
    first, second = sorted(parts, key=_without_constant)
    offset = first.const
    apart = tuple(known.atomized(part.shift(-offset)) for part in (first, second))
    return common.shift(offset).plus(atom(make(op, apart)))


def without_shared(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) with the terms that both forms share in s."""
    common = Linear(0, {t: k for t, k in a.terms.items() if b.terms.get(t) == k})
    return (common, a.minus(common), b.minus(common)) if common.terms else (common, a, b)


def _without_constant(form: Linear) -> tuple[object, ...]:
    """A key that orders forms that differ by more than a constant; a constant comes last."""
    return (form.is_const, form_key(form.shift(-form.const)))

"""The `stride` domain: multi-stride sets `{b + s1*[0, e1) + s2*[0, e2) + ...}`, exact on every affine image of a box.

An operation without a multi-stride result falls back to a strided interval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from intset.arithmetic import multistride
from intset.domains.certified.structure import steps_of
from intset.domains.modular import StridedDomain
from intset.domains.query import Query
from intset.domains.ranked import is_touched
from intset.domains.sets.base import End, IntSet, StrideSum
from intset.domains.sets.bounds import check_countable
from intset.errors import CountError
from intset.expr.build import logical_and, logical_or
from intset.expr.dag import substitute
from intset.expr.definedness import definedness, is_partial
from intset.expr.node import Cond, Expr, IntLike, Var, as_expr
from intset.expr.printer import number_text
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear

MEMBER_BRANCHES: Final = 512  # branches of the search for one member of a multi-stride set


class StrideSet(IntSet):
    """A multi-stride set of constants, shifted by an offset over parameters."""

    def __init__(self, offset: Linear, steps: multistride.MultiStride, by: str = "stride", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", True), flags.pop("is_exact", False), **flags)
        self.offset, self.steps = offset, steps

    def ends(self) -> tuple[End, End]:
        low, high = multistride.lowest(self.steps), multistride.highest(self.steps)
        assert low is not None and high is not None
        return self.offset.shift(low).expr(), self.offset.shift(high).expr()

    def _structure(self) -> StrideSum:
        base, terms = self.steps
        return StrideSum(self.offset.shift(base).expr(), tuple([s for s, _ in terms]), tuple([e for _, e in terms]))

    def substituted(self, values: Mapping[Var, Expr]) -> StrideSet:
        offset = Normalizer({}).form(substitute(self.offset.expr(), values))
        flags = {"is_tight": self.is_tight, "is_exact": self.is_exact, "notes": self.notes}
        return StrideSet(offset, self.steps, self.by, **flags)

    def condition(self, e: IntLike) -> Cond:
        """Divisions and remainders for nested strides; otherwise a disjunction over the multiples of large strides."""
        base, terms = self.steps
        first = self.offset.shift(base).expr()
        needs = definedness((first,)) if is_partial(first) else ()
        return logical_and(*needs, _member(as_expr(e) - first, sorted(terms, reverse=True)))

    def __contains__(self, value: object) -> bool:
        if not self.params and isinstance(value, int) and not isinstance(value, bool):
            found = multistride.contains(self.steps, value - self.offset.const)
            if found is not None:
                return found
        return super().__contains__(value)

    def count(self) -> int:
        check_countable(self)
        number = multistride.count(self.steps)
        if number is None:
            raise CountError(f"counting {self.describe()} is out of budget")
        return number

    def describe(self) -> str:
        base, terms = self.steps
        start = self.offset.shift(base)
        parts = [] if start.is_const and start.const == 0 and terms else [str(start.expr())]
        parts += [f"[0, {number_text(e)})" if s == 1 else f"{number_text(s)}*[0, {number_text(e)})" for s, e in terms]
        return "{" + " + ".join(parts) + "}"


def _member(x: Expr, terms: list[multistride.StrideTerm]) -> Cond:
    """The condition that `x` is a sum of multiples of the strides, largest stride first.

    If the sum of the smaller terms stays below a stride `s`, its multiple is `x // s`; else every multiple is tried.
    """
    pending: list[tuple[Expr, int, list[Cond]]] = [(x, 0, [])]
    done: list[Cond] = []
    while pending:
        rest, k, conds = pending.pop()
        if len(terms) - k <= 1:
            s, e = terms[k] if k < len(terms) else (1, 1)
            inside = [rest >= 0, rest <= s * (e - 1)] if e > 1 else [rest.eq(0)]
            done.append(logical_and(*conds, *inside, *([(rest % s).eq(0)] if s > 1 and e > 1 else [])))
            continue
        s, e = terms[k]
        if multistride.reach(terms[k + 1 :]) < s:
            pending.append((rest % s, k + 1, [*conds, rest >= 0, rest < s * e]))
        elif e * max(len(pending), 1) <= MEMBER_BRANCHES:
            pending.extend((rest - s * t, k + 1, conds) for t in range(e))
        else:
            raise CountError("membership of this multi-stride set is out of budget")
    return logical_or(*done)


class StrideDomain(StridedDomain):
    """Multi-stride sets, with strided intervals as the fallback.

    Guarantee: exact for independent variables under sums, scaling, and divisions with a multi-stride result.
    """

    name: ClassVar[str] = "stride"
    exact_on: ClassVar[str] = "affine images of boxes, as tiled loops have"

    def image(self, query: Query) -> IntSet:
        return structural_image(query) or super().image(query)


def structural_image(query: Query) -> StrideSet | None:
    """The exact image of a sum of multi-stride terms over disjoint independent variables; `None` for other forms."""
    known = query.known
    if query.is_empty:
        return None
    form = query.forms[0]
    if is_touched(query, form.terms):
        return None
    parts = steps_of(query, form)
    if parts is None and len(form.terms) > 1:
        regrouped = known.regroup(form)
        parts = None if regrouped is form else steps_of(query, regrouped)
    if parts is None:
        return None
    return StrideSet(*parts, by="stride", is_exact=True)

"""Domains of progressions: congruences with ends (`interval*modular`) and without (`modular`), multi-stride sets
(`stride`).

The first two compute with the values of `strided`. A multi-stride set `{b + s1*[0, e1) + s2*[0, e2) + ...}` is exact on
every affine image of a box; an operation without one falls back to a strided interval.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from intset.arithmetic import multistride, strided
from intset.arithmetic.strided import Strided
from intset.domains.attained import steps_of
from intset.domains.query import Query
from intset.domains.ranked import is_touched
from intset.domains.sets.base import End, IntSet, StrideSum, as_end, check_countable, empty_set
from intset.domains.sets.ends import numeric_ends
from intset.domains.value import ValueDomain
from intset.errors import CountError
from intset.expr import POS_INF, Cond, Expr, Infinity, IntLike, Var, as_expr, const, dag, ops
from intset.expr.build import logical_and, logical_or
from intset.expr.definedness import definedness, is_partial
from intset.expr.printer import number_text
from intset.linear.canonical import form_of
from intset.linear.form import Linear

MEMBER_BRANCHES: Final = 512  # branches of the search for one member of a multi-stride set


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


# -- multi-stride sets ------------------------------------------------------------------------------------------------


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
        offset = form_of(dag.substitute(self.offset.expr(), values))
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
    return StrideSet(*parts, is_exact=True)

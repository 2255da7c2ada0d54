"""Order decisions: whether the difference of two expressions is nonnegative everywhere.

The difference is a linear form. Its interval is tried first; then atoms are replaced by their bounds:

    min(a, b) + r >= 0     where a + r >= 0 and b + r >= 0           max(a, b) + r >= 0     where one of them is
    abs(a) + r >= 0        where a + r >= 0 or r - a >= 0            r - abs(a) >= 0        where both are
    r - (a & b) >= 0       where r - a >= 0, a >= 0                  (a | b) + r >= 0       where a + r >= 0, b >= 0
    c*(x//c) in [x - c + 1, x], c > 0                                       c*truncdiv(x, c) in [x - c + 1, x + c - 1]
    x//d in [0, x]         where x >= 0, d > 0
    f*r >= 0               where f >= 0 and r >= 0                    f + r >= 0            where r >= 0, a fact f >= 0

Most comparisons that simplification examines are undecided. Every consequence of the ranges, symbolic ends and facts
holds at a member of the scope, so a negative value there ends the search for `form >= 0` (`is_refuted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from intset.expr import ops
from intset.expr.node import Cond, Expr
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, constant, factors, monomial_of, take_out
from intset.linear.signs import is_refuted

ORDER_FORMS: Final = 32  # linear forms examined per comparison
ORDER_NESTING: Final = 6  # successive replacements of atoms
ORDER_FACTS: Final = 8  # facts taken from a form
ORDER_TERMS: Final = 8  # terms of a form whose atoms are replaced

BOUNDED: Final = frozenset(
    (ops.MIN, ops.MAX, ops.ABS, ops.BITAND, ops.BITOR, ops.SELECT, ops.FLOORDIV, ops.TRUNCDIV, ops.MUL)
)


class OrderDecider:
    """Decides order and conditions under the assumptions of one normalizer, and caches the decisions.

    Guarantee: sound; incomplete beyond `ORDER_FORMS` and `ORDER_NESTING`.
    """

    __slots__ = ("_found", "known")

    def __init__(self, known: Normalizer) -> None:
        self.known = known
        self._found: dict[tuple[Expr, Expr], bool] = {}

    def is_at_most(self, a: Expr, b: Expr) -> bool:
        """Whether `a <= b` is proved wherever both are defined."""
        if a is b:
            return True
        is_ordered = self._found.get((a, b))
        if is_ordered is None:
            is_ordered = self._found[a, b] = self.is_nonneg(self.known.form(b).minus(self.known.form(a)))
        return is_ordered

    def is_nonneg(self, form: Linear) -> bool:
        """Whether `form >= 0` is proved."""
        return self._is_nonneg(form, [ORDER_FORMS], ORDER_NESTING)

    def _is_nonneg(self, form: Linear, left: list[int], depth: int) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        known = self.known
        low, _ = known.bounds(form)
        if low is not None and low >= 0:
            return True
        if (known.members is not None or known.assumptions.limits) and is_refuted(known, form):
            return False
        if known.is_nonneg(form):
            return True
        if not depth or len(form.terms) > ORDER_TERMS or not self._may_be_bounded(form) or is_refuted(self.known, form):
            return False
        for t, k in form.terms.items():
            every = self._at_least_each(t, k)
            if every is not None:
                rest = _without(form, t)
                return all(self._is_nonneg(rest.plus(arm), left, depth - 1) for arm in every)
        for t, k in form.terms.items():
            rest = _without(form, t)
            if any(self._is_nonneg(rest.plus(arm), left, depth - 1) for arm in self._at_most_some(t, k)):
                return True
        if any(self._is_nonneg(coarse, left, depth - 1) for coarse in self._without_quotients(form)):
            return True
        if self._has_nonneg_factors(form, left, depth):
            return True
        return any(self._is_nonneg(rest, left, depth - 1) for rest in self._without_facts(form))

    def _may_be_bounded(self, form: Linear) -> bool:
        """Whether the form contains replaceable atoms or facts."""
        if any(t.op in BOUNDED for t in form.terms):
            return True
        return len(form.terms) > 2 and bool(self.known.assumptions.nonneg)

    def _without_facts(self, form: Linear) -> Iterator[Linear]:
        """The form minus a nonnegative fact, if no term is added; skipped for forms with quotients."""
        if any(t.op is ops.FLOORDIV or t.op is ops.TRUNCDIV for t in form.terms):
            return
        for fact in self.known.assumptions.nonneg[:ORDER_FACTS]:
            if any(fact.terms.get(t) == k for t, k in form.terms.items()):
                rest = form.minus(fact)
                if len(rest.terms) <= len(form.terms):
                    yield rest

    def _at_least_each(self, t: Expr, k: int) -> list[Linear] | None:
        """Forms whose minimum equals `k * t`."""
        form = self.known.form
        if t.op is (ops.MIN if k > 0 else ops.MAX):
            return [form(arg).scale(k) for arg in t.args]
        if t.op is ops.ABS and k < 0:
            return [form(t.args[0]).scale(k), form(t.args[0]).scale(-k)]
        if t.op is ops.SELECT:
            return [form(arg).scale(k) for arg in t.args[1:]]  # each arm over all points: sound, less precise
        return None

    def _at_most_some(self, t: Expr, k: int) -> Iterator[Linear]:
        """Lower bounds of `k * t`, as forms."""
        form = self.known.form
        if t.op is (ops.MAX if k > 0 else ops.MIN):
            yield from (form(arg).scale(k) for arg in t.args)
            if k % 2 == 0:
                yield form(t.args[0]).plus(form(t.args[1])).scale(k // 2)
        elif t.op is ops.ABS:
            yield form(t.args[0]).scale(k)
            yield form(t.args[0]).scale(-k)
        elif t.op is ops.FLOORDIV and t.args[1].op is not ops.CONST:
            if self.known.is_nonneg(form(t.args[0])) and self.known.is_positive(form(t.args[1])):
                yield form(t.args[0]).scale(k) if k < 0 else constant(0)
        elif t.op is ops.BITAND and k < 0 or t.op is ops.BITOR and k > 0:
            for arg, other in (t.args, t.args[::-1]):
                if self.known.is_nonneg(form(arg if k < 0 else other)):
                    yield form(arg).scale(k)

    def _without_quotients(self, form: Linear) -> Iterator[Linear]:
        """Forms whose nonnegativity implies that of `form`, with one quotient replaced by its bound."""
        for t, k in form.terms.items():
            if t.op is ops.MUL and (multiple := self._multiple(t)) is not None:
                dividend, divisor = multiple
                bound = dividend if k < 0 else dividend.minus(divisor).shift(1)
                yield _without(form, t).plus(bound, k)
            if t.op not in (ops.FLOORDIV, ops.TRUNCDIV) or t.args[1].op is not ops.CONST or t.args[1].data < 1:
                continue
            c = t.args[1].data
            inner, rest = self.known.form(t.args[0]), _without(form, t)
            above = 0 if t.op is ops.FLOORDIV or self.known.is_nonneg(inner) else c - 1
            bound = inner.shift(1 - c if k > 0 else above)  # lower bound of c*t for k > 0, else upper bound
            if k % c == 0:
                yield rest.plus(bound, k // c)
            else:  # c*form is a multiple of c: at least 0 where it is above -c
                yield rest.scale(c).plus(bound, k).shift(c - 1)

    def _multiple(self, t: Expr) -> tuple[Linear, Linear] | None:
        """(x, d) for a product `x // d * d` with d > 0, which lies in (x - d, x]."""
        for quotient, divisor in (t.args, t.args[::-1]):
            if quotient.op is ops.FLOORDIV and quotient.args[1] is divisor:
                d = self.known.form(divisor)
                return (self.known.form(quotient.args[0]), d) if self.known.is_positive(d) else None
        return None

    def _has_nonneg_factors(self, form: Linear, left: list[int], depth: int) -> bool:
        """Whether `form` factors into two factors of equal sign."""
        for factor, rest in self.factored(form):
            sign = self.known.sign(atom(factor))
            beside = rest.minus(atom(factor))
            if beside.is_const and abs(beside.const) <= 1:
                return True  # consecutive integers have no opposite signs
            if sign and self._is_nonneg(rest.scale(sign), left, depth - 1):
                return True
        return False

    def factored(self, form: Linear) -> Iterator[tuple[Expr, Linear]]:
        """(f, r) with `form = f * r` and nonconstant r, for each factor f common to all terms."""
        if form.const or all(t.op is not ops.MUL for t in form.terms):
            return
        shared = factors(next(iter(form.terms)))
        for t in form.terms:
            own = factors(t)
            shared = [f for f in shared if take_out(own, f)]
        for f in dict.fromkeys(shared):
            rest = _divided(form, f)
            if not rest.is_const:
                yield f, rest

    def decided(self, cond: Cond) -> bool | None:
        """Truth value of a tautology or contradiction; None if undecided."""
        canonical = self.known.cond(cond)
        if canonical.op is ops.BOOL:
            return bool(canonical.data)
        if canonical.op in ops.COMPARISONS:
            clause = self.known.compared.get(canonical)
            if clause is not None and (self._may_be_bounded(clause[1]) or self.known.tells_more(clause[1])):
                return self.judged(*clause)
        return None

    def judged(self, kind: ops.Op, form: Linear) -> bool | None:
        """`decided` for a clause `form >= 0`, `== 0` or `!= 0`."""
        if kind is ops.GE:
            if self.is_nonneg(form):
                return True
            return False if self.is_nonneg(form.scale(-1).shift(-1)) else None
        if self.is_nonneg(form.shift(-1)) or self.is_nonneg(form.scale(-1).shift(-1)):
            return kind is ops.NE
        return None

    def holds(self, cond: Cond) -> bool:
        """Whether the condition is proved."""
        return self.decided(cond) is True


def _without(form: Linear, t: Expr) -> Linear:
    return Linear(form.const, {other: k for other, k in form.terms.items() if other is not t})


def _divided(form: Linear, f: Expr) -> Linear:
    """`form / f`, for a factor `f` common to all terms."""
    total = constant(0)
    for t, k in form.terms.items():
        own = factors(t)
        take_out(own, f)
        total = total.plus(atom(monomial_of(own)) if own else constant(1), k)
    return total

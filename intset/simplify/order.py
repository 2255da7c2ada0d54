"""Order decisions: whether the difference of two expressions is nonnegative everywhere.

The difference is a linear form. Its interval is tried first; then atoms are replaced by their bounds:

    min(a, b) + r >= 0     where a + r >= 0 and b + r >= 0           max(a, b) + r >= 0     where one of them is
    abs(a) + r >= 0        where a + r >= 0 or r - a >= 0            r - abs(a) >= 0        where both are
    r - (a & b) >= 0       where r - a >= 0, a >= 0                  (a | b) + r >= 0       where a + r >= 0, b >= 0
    c*(x//c) in [x - c + 1, x], c > 0                                       c*truncdiv(x, c) in [x - c + 1, x + c - 1]
    x//d in [0, x]         where x >= 0, d > 0
    f*r >= 0               where f >= 0 and r >= 0                    f + r >= 0            where r >= 0, a fact f >= 0

Most comparisons that simplification examines are undecided. Every consequence of the ranges, symbolic ends and facts
holds at a sample point, so a negative value there ends the search for `form >= 0`. Points refute; they prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from intset.expr import ops
from intset.expr.dag import free_vars, postorder_until
from intset.expr.evaluate import applied
from intset.expr.node import Cond, Expr, Node, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, constant, factors, monomial_of, take_out

SAMPLE_POINTS: Final = 8  # points at which a candidate is evaluated before it is proved
SAMPLE_TRIES: Final = 16  # candidate points per context with facts
SAMPLED_NODES: Final = 200  # nodes of an evaluated atom
ORDER_FORMS: Final = 32  # linear forms examined per comparison
ORDER_NESTING: Final = 6  # successive replacements of atoms
ORDER_FACTS: Final = 8  # facts taken from a form
ORDER_TERMS: Final = 8  # terms of a form whose atoms are replaced

SPREAD: Final = (0, 1, 3, 17, 2, 60, 5, 1000)  # distances from the end of a half-open range

Values = tuple["int | bool | None", ...]  # one per point; None: undefined or unknown


class SamplePoints:
    """Values of linear forms at sample points of one normalizer.

    Invariant: every point satisfies all ranges and facts; each atom is evaluated once.
    """

    __slots__ = ("_count", "_given", "_known", "_values")

    def __init__(self, known: Normalizer) -> None:
        self._known = known
        self._values: dict[Node, Values] = {}
        self._given: list[dict[Expr, int]] | None = None
        assumptions = known.assumptions
        if known.empty:
            self._given = []
        elif assumptions.nonneg or assumptions.limits or any(e.op is not ops.VAR for e in assumptions.atoms):
            self._given = self._satisfying()
        self._count = SAMPLE_POINTS if self._given is None else len(self._given)

    def is_negative(self, form: Linear) -> bool:
        """Whether the form is negative at a sample point."""
        values = self._at(form)
        return values is not None and min(values, default=0) < 0

    def _at(self, form: Linear) -> list[int] | None:
        """Defined values of the form, over all sample points."""
        if not self._count:
            return None
        totals: list[int | None] = [form.const] * self._count
        for e, k in form.terms.items():
            values = self._values.get(e)
            if values is None:
                values = self._computed(e)
            totals = [None if t is None or v is None else t + k * v for t, v in zip(totals, values, strict=True)]
        return [t for t in totals if t is not None]

    # -- points ---------------------------------------------------------------------------------------------------

    def _satisfying(self) -> list[dict[Expr, int]]:
        """Points over the variables of facts and symbolic ends that satisfy both."""
        assumptions = self._known.assumptions
        speaking = [e for fact in assumptions.nonneg for e in fact.terms] + list(assumptions.atoms)
        for first, last in assumptions.limits.values():
            speaking += [e for end in (first, last) if end is not None for e in end.terms]
        variables = (
            (*dict.fromkeys((*free_vars(*speaking), *assumptions.limits)),) if speaking else (*assumptions.limits,)
        )
        points: list[dict[Expr, int]] = []
        for number in range(SAMPLE_TRIES):
            point: dict[Expr, int] = {}
            for var in variables:
                point[var] = self._chosen(var, number)
            self._fit(point, number)
            if self._satisfies(point):
                points.append(point)
                if len(points) == SAMPLE_POINTS:
                    break
        return points

    def _fit(self, point: dict[Expr, int], number: int) -> None:
        """Move variables with symbolic ends into their ranges."""
        for var, (first, last) in self._known.assumptions.limits.items():
            low = None if first is None else _value(first, point)
            high = None if last is None else _value(last, point)
            if low is not None and high is not None and high >= low:
                far = number and (high - low if number == 1 else (var.serial * 13 + number * 5) % (high - low + 1))
                point[var] = low + far
            elif low is not None and high is None:
                point[var] = low + SPREAD[number % SAMPLE_POINTS]
            elif high is not None and low is None:
                point[var] = high - SPREAD[number % SAMPLE_POINTS]

    def _satisfies(self, point: dict[Expr, int]) -> bool:
        known = self._known
        for var, value in point.items():
            low, high = known.atom_bounds(var)
            if low is not None and value < low or high is not None and value > high:
                return False
        for fact in known.assumptions.nonneg:
            value_there = _value(fact, point)
            if value_there is None or value_there < 0:
                return False
        for first, var_, last in ((first, var, last) for var, (first, last) in known.assumptions.limits.items()):
            low = None if first is None else _value(first, point)
            high = None if last is None else _value(last, point)
            if first is not None and (low is None or point[var_] < low):
                return False
            if last is not None and (high is None or point[var_] > high):
                return False
        for e, (least, most) in known.assumptions.atoms.items():
            atom_value = _value(Linear(0, {e: 1}), point)
            if atom_value is None or least is not None and atom_value < least or most is not None and atom_value > most:
                return False
        return True

    def _chosen(self, var: Var, number: int) -> int:
        low, high = self._known.atom_bounds(var)
        far = SPREAD[(number + var.serial) % SAMPLE_POINTS] if number > 1 else SPREAD[0]
        if low is not None and high is not None:
            if number < 2:
                return (low, high)[number]
            return low + (var.serial * 7919 + number * 104_729 + var.serial * number * 31) % (high - low + 1)
        if low is not None:
            return low + (far if number != 1 else SPREAD[-1])
        if high is not None:
            return high - far
        return far if (number + var.serial) % 2 else -far

    # -- values ---------------------------------------------------------------------------------------------------

    def _computed(self, root: Expr) -> Values:
        values = self._values
        nothing: Values = (None,) * self._count
        order = postorder_until(root, values)
        if len(order) > SAMPLED_NODES:
            values[root] = nothing
            return nothing
        for e in order:
            if e.op is ops.VAR:
                values[e] = self._of_variable(e)
            elif e.op is ops.CONST or e.op is ops.BOOL:
                values[e] = (e.data,) * self._count
            else:
                rows = zip(*[values[arg] for arg in e.args], strict=True) if e.args else [()] * self._count
                values[e] = tuple([applied(e, row) for row in rows])
        return values[root]

    def _of_variable(self, var: Any) -> Values:
        if self._given is None:
            return tuple([self._chosen(var, number) for number in range(self._count)])
        return tuple(
            [point[var] if var in point else self._chosen(var, number) for number, point in enumerate(self._given)]
        )


def _value(form: Linear, point: dict[Expr, int]) -> int | None:
    """The value of a form at one point; None for undefined values and missing variables."""
    total = form.const
    values: dict[Node, Any] = {var: value for var, value in point.items()}  # noqa: C416  # of a wider type
    for root, k in form.terms.items():
        for e in postorder_until(root, values):
            if e.op is ops.CONST or e.op is ops.BOOL:
                values[e] = e.data
            else:
                values[e] = applied(e, tuple([values[arg] for arg in e.args]))
        if values[root] is None:
            return None
        total += k * values[root]
    return total


BOUNDED: Final = frozenset(
    (ops.MIN, ops.MAX, ops.ABS, ops.BITAND, ops.BITOR, ops.SELECT, ops.FLOORDIV, ops.TRUNCDIV, ops.MUL)
)


class OrderDecider:
    """Decides order and conditions under the assumptions of one normalizer, and caches the decisions.

    Guarantee: sound; incomplete beyond `ORDER_FORMS` and `ORDER_NESTING`.
    """

    __slots__ = ("_found", "_samples", "known")

    def __init__(self, known: Normalizer) -> None:
        self.known = known
        self._samples: SamplePoints | None = None  # made when a search begins
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
        if self._samples is not None and self._samples.is_negative(form):
            return False
        if self.known.is_nonneg(form):
            return True
        if not depth or len(form.terms) > ORDER_TERMS or not self._may_be_bounded(form) or self._is_refuted(form):
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

    def _is_refuted(self, form: Linear) -> bool:
        """Whether a sample point makes the form negative."""
        if self._samples is None:
            self._samples = SamplePoints(self.known)
        return self._samples.is_negative(form)

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

"""Known multiples: `x = d*q + r` for terms whose remainder a fact or a declaration states.

Division by a divisor of `d` takes the exact share of such terms out of the dividend; a sum that contains `d*q` is
written with `x` again. So one pair of directions closes divisibility under sums, products, multiples and chains:

    k | s, k | t    :  (c*s - t) // k = c*(s // k) - t // k        and  (c*s - t) % k = 0
    8 | a           :  a // 4 = 2*(a // 8),  (a + 3) % 8 = 3,  a // 8 * 8 = a
    k | m, m | s    :  s // k = m//k * (s//m)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.arithmetic.strided import chinese
from intset.expr import Expr, Var, const, ops
from intset.expr.node import make
from intset.linear import form as forms
from intset.linear.form import ZERO, Key, Linear, add, atom, constant, factors, monomial_of, order_key, take_out

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

QUOTIENT_TERMS: Final = 24  # terms of an exact quotient
MULTIPLE_CHAIN: Final = 4  # links of a chain of divisibilities, `k | m`, `m | n`, ..., in one division
MULTIPLE_TERMS: Final = 8  # terms of an equation that may state a divisibility


class Multiple(NamedTuple):
    """The equation `term = divisor*quotient + rest`.

    Invariant: the equation holds, with an integer quotient, at every point of its scope.
    """

    term: Expr
    divisor: Linear
    quotient: Linear
    rest: Linear


class Multiples(NamedTuple):
    """The multiples that facts state: by their term, and additionally by their quotient for a floor quotient."""

    by_term: Mapping[Expr, tuple[Multiple, ...]]
    by_quotient: Mapping[Expr, Multiple]


def known_multiples(known: Normalizer, e: Expr, nesting: int = MULTIPLE_CHAIN) -> tuple[Multiple, ...]:
    """The multiples that facts state for an atom or monomial; else the common multiple of its declaration or cases."""
    multiples = known.assumptions.multiples
    stated = None if multiples is None else multiples.by_term.get(e)
    if stated is not None:
        return stated
    if isinstance(e, Var):
        step = 1 if e in known.ranges else e.declared()[2]
        return () if step == 1 else (_modulo(e, step, 0),)
    if e.op in OF_CASES and nesting:
        m, r = _step_of_cases(known, e, nesting - 1)
        return () if m < 2 else (_modulo(e, m, r),)
    return ()


OF_CASES = frozenset((ops.MIN, ops.MAX, ops.SELECT, ops.ABS))  # the operation returns one of its arguments' values


def _step_of_cases(known: Normalizer, e: Expr, nesting: int) -> tuple[int, int]:
    """(m, r) such that every value of either case is r modulo m."""
    cases = [known.form(arg) for arg in (e.args[1:] if e.op is ops.SELECT else e.args)]
    if e.op is ops.ABS:
        cases.append(cases[0].scale(-1))
    m, first = step_of_sum(known, cases[0], nesting)
    for form in cases[1:]:
        own, r = step_of_sum(known, form, nesting)
        m = gcd(m, own, r - first)
        if m == 1:
            return 1, 0
    return m, first % m if m else first


def _modulo(e: Expr, m: int, r: int) -> Multiple:
    """`e % m == r`, for 0 <= r < m."""
    return Multiple(e, constant(m), atom(make(ops.FLOORDIV, (e, const(m)))), constant(r))


def step_of(known: Normalizer, e: Expr, nesting: int = MULTIPLE_CHAIN) -> tuple[int, int]:
    """(m, r) such that every value of the atom or monomial is r modulo m; m = 1 where nothing is known."""
    for one in known_multiples(known, e, nesting):
        if one.divisor.is_const and one.rest.is_const:
            return one.divisor.const, one.rest.const
    if e.op is ops.MUL:
        m, r = 0, 1
        for f in factors(e):
            n, s = step_of(known, f, nesting)
            m, r = gcd(m * n, m * s, n * r), r * s
        return m, r % m if m else r
    return 1, 0


def step_of_sum(known: Normalizer, form: Linear, nesting: int = MULTIPLE_CHAIN) -> tuple[int, int]:
    """(m, r) such that every value of the form is r modulo m; m = 0 for a constant.

    Precondition, for speed alone: `known.may_know_multiples(form)`.
    """
    m, r = 0, form.const
    for e, k in form.terms.items():
        step, offset = step_of(known, e, nesting)
        m, r = gcd(m, k * step), r + k * offset
    return m, r % m if m else r


# -- division -----------------------------------------------------------------------------------------------------


def split_exactly(
    known: Normalizer, dividend: Linear, divisor: Linear, chain: int = MULTIPLE_CHAIN
) -> tuple[Linear, Linear] | None:
    """(q, r) with `dividend = divisor*q + r`, from terms that known multiples make divisible; `None` without any.

    Precondition, for speed alone: `known.may_know_multiples(dividend)`.
    """
    quotient, rest = ZERO, None
    for e, k in dividend.terms.items():
        share = _term_share(known, e, k, divisor, chain)
        if share is not None:
            quotient = quotient.plus(share[0])
            rest = (dividend if rest is None else rest).minus(Linear(0, {e: k})).plus(share[1])
    return None if rest is None else (quotient, rest)


def _term_share(known: Normalizer, e: Expr, k: int, divisor: Linear, chain: int) -> tuple[Linear, Linear] | None:
    """(q, r) with `k*e = divisor*q + r`."""
    for stated, beside in _parts(known, e, k):
        for one in stated:
            whole = beside.times(one.divisor)
            share = exact_quotient(whole, divisor)
            if share is None and chain and not divisor.is_const:
                parts = split_exactly(known, whole, divisor, chain - 1)
                share = None if parts is None or parts[1].terms or parts[1].const else parts[0]
            if share is not None:
                return share.times(one.quotient), beside.times(one.rest)
            if not divisor.is_const and (share := exact_quotient(whole.times(one.quotient), divisor)) is not None:
                return share, beside.times(one.rest)  # s // (s // 4) where 4 divides s
    return None


def _parts(known: Normalizer, e: Expr, k: int) -> Iterator[tuple[tuple[Multiple, ...], Linear]]:
    """(the multiples of a part, c) with `k*e = c*part`, for the monomial itself, each of its factors, and the products
    that facts speak of."""
    if stated := known_multiples(known, e):
        yield stated, constant(k)
    if e.op is ops.MUL:
        multiples = known.assumptions.multiples
        table: Iterable[Expr] = () if multiples is None else multiples.by_term
        products = [part for part in table if part.op is ops.MUL and part is not e]
        for part in (*dict.fromkeys(factors(e)), *products):
            if stated := known_multiples(known, part):
                others = factors(e)
                if all([take_out(others, one) for one in factors(part)]):  # noqa: C419  # every factor is taken out
                    yield stated, Linear(0, {monomial_of(others): k})


# -- polynomial division -----------------------------------------------------------------------------------------


def exact_quotient(dividend: Linear, divisor: Linear) -> Linear | None:
    """The polynomial q with `dividend = q*divisor`, by polynomial division in lexicographic order; `None` for an
    inexact division or a quotient of more than `QUOTIENT_TERMS` terms."""
    if divisor.is_const:
        exact = divisor.const and dividend.const % divisor.const == 0 and dividend.content() % divisor.const == 0
        return dividend.divided(divisor.const) if exact else None
    lead = min(divisor.terms, key=_lexicographic)
    own, scale = factors(lead), divisor.terms[lead]
    quotient = ZERO
    for _ in range(QUOTIENT_TERMS):
        if not dividend.terms:
            return None if dividend.const else quotient
        first = min(dividend.terms, key=_lexicographic)
        left = factors(first)
        if dividend.terms[first] % scale or not all(take_out(left, e) for e in own):
            return None
        k = dividend.terms[first] // scale
        part = Linear(0, {monomial_of(left): k}) if left else constant(k)
        quotient = quotient.plus(part)
        dividend = dividend.minus(part.times(divisor))
    return None


def _lexicographic(monomial: Expr) -> tuple[Key, ...]:
    """The key of a monomial in lexicographic order, where a word precedes its own prefixes."""
    return (*sorted(order_key(e) for e in factors(monomial)), _AFTER_ALL)


_AFTER_ALL = (1 << 200,)


# -- sums ---------------------------------------------------------------------------------------------------------


def folded(known: Normalizer, form: Linear) -> Linear:
    """`form` with each `c*d*q` written as `c*(x - r)`, for the known multiples `x = d*q + r`.

    Precondition, for speed alone: `known.may_know_multiples(form)`.
    """
    for _ in range(len(form.terms)):
        shorter = _folded_once(known, form)
        if shorter is None:
            break
        form = shorter
    return form


def _folded_once(known: Normalizer, form: Linear) -> Linear | None:
    for e, k in form.terms.items():
        if not forms.has_quotient(e):
            continue
        for part in factors(e):
            for one in _multiple_by_quotient(known, part) if part.op is ops.FLOORDIV else ():
                others = factors(e)
                take_out(others, part)
                beside = Linear(0, {monomial_of(others): k}) if others else constant(k)
                times = _times(beside, one.divisor)
                if times is None:
                    continue
                terms = dict(form.terms)
                add(terms, times.times(one.divisor).times(one.quotient).terms, -1)
                whole = times.times(atom(one.term).minus(one.rest))
                add(terms, whole.terms)
                if len(one.divisor.terms) < 2 or len(terms) < len(form.terms):
                    return Linear(form.const + whole.const, terms)
        if e.op is ops.MUL and (other := _with_last_quotient(known, e)) is not None:
            terms = dict(form.terms)
            del terms[e]
            add(terms, {other: 1}, k)
            return Linear(form.const, terms)
    return None


def _with_last_quotient(known: Normalizer, monomial: Expr) -> Expr | None:
    """`x // d * y` as `y // d * x` where d divides both and y comes after x, as in the quotient of the product."""
    parts = factors(monomial)
    for part in parts:
        for one in _multiple_by_quotient(known, part) if part.op is ops.FLOORDIV else ():
            for y in parts:
                if order_key(y) > order_key(one.term) and one.rest.same(ZERO):
                    for other in known_multiples(known, y):
                        if other.divisor.same(one.divisor) and other.rest.same(ZERO) and _is_floor(other.quotient):
                            left = [one.term, *other.quotient.terms, *parts]
                            take_out(left, part)
                            take_out(left, y)
                            return monomial_of(left)
    return None


def _multiple_by_quotient(known: Normalizer, quotient: Expr) -> tuple[Multiple, ...]:
    """The multiple with this quotient, at most one."""
    multiples = known.assumptions.multiples
    if multiples is not None and (stated := multiples.by_quotient.get(quotient)) is not None:
        return (stated,)
    e, c = quotient.args
    if c.op is not ops.CONST:
        return ()
    if isinstance(e, Var) and e not in known.ranges and e.declared()[2] == c.data > 1:
        return () if multiples is not None and e in multiples.by_term else (_modulo(e, c.data, 0),)
    if e.op in OF_CASES:
        return tuple([one for one in known_multiples(known, e) if one.divisor.is_const and one.divisor.const == c.data])
    return ()


def _times(form: Linear, divisor: Linear) -> Linear | None:
    """How often a term contains the divisor, or its first term; `None` for not once."""
    if divisor.is_const:
        if not form.terms:
            k = _truncated(form.const, divisor.const)
            return constant(k) if k else None
        ((e, k),) = form.terms.items()
        k = _truncated(k, divisor.const)
        return Linear(0, {e: k}) if k else None
    if len(divisor.terms) > 1 or divisor.const:
        lead = next(iter(divisor.terms))
        return exact_quotient(form, Linear(0, {lead: divisor.terms[lead]}))
    return exact_quotient(form, divisor)


def _truncated(a: int, b: int) -> int:
    """`a / b` for b > 0, rounded towards 0."""
    return a // b if a > 0 else -(-a // b)


# -- facts --------------------------------------------------------------------------------------------------------


class Learned(NamedTuple):
    """What equations state.

    Attributes
    ----------
    multiples: those of the scope and of the equations.
    absorbed: the equations `x % d == r` that the known multiple of x implies.
    is_consistent: whether no two multiples contradict each other.
    """

    multiples: Multiples
    absorbed: Sequence[Linear]
    is_consistent: bool


def learned(known: Normalizer, equations: Iterable[Linear]) -> Learned | None:
    """The multiples of a scope with those of further equations `form == 0`.

    `None` if the equations state no multiple that the scope does not have: else facts would be read again, and the
    conditions in them narrowed again, without an end.
    """
    consistent = True
    table: _Table | None = None
    stating: list[tuple[Linear, Multiple]] = []
    for form in equations:
        if len(form.terms) <= MULTIPLE_TERMS:
            for one in _of_equation(known, form):
                table = _Table(known) if table is None else table
                consistent &= table.note(one)
                stating.append((form, one))
    if table is None or consistent and not table.has_more:
        return None
    absorbed = [form for form, one in stating if one.rest.is_const and _is_floor(one.quotient) and table.is_only(one)]
    return Learned(Multiples(table.by_term, table.by_quotient), absorbed, consistent)


def _of_equation(known: Normalizer, form: Linear) -> Iterator[Multiple]:
    """The multiples that `form == 0` states: `y - d*(y // d) = r`, or a variable that is a constant times a sum."""
    for e, k in form.terms.items():
        for part in factors(e):
            if part.op is ops.FLOORDIV and (stated := _stated_remainder(known, form, part, 1 if k < 0 else -1)):
                yield stated
                return
    for e, k in form.terms.items():
        if e.op is ops.VAR and abs(k) == 1:
            rest = Linear(0, {t: -c * k for t, c in form.terms.items() if t is not e})
            g = rest.content()
            if g > 1:
                r = -form.const * k
                is_circular = any(_mentions(t, e) for t in rest.terms)
                yield _modulo(e, g, r % g) if is_circular else Multiple(e, constant(g), rest.divided(g), constant(r))
                return


def _stated_remainder(known: Normalizer, form: Linear, quotient: Expr, sign: int) -> Multiple | None:
    """The multiple stated by `sign*form = y - d*quotient - r`, with `quotient = y // d`, solved for a term of y."""
    y, d = (known.form(arg) for arg in quotient.args)
    r = y.minus(d.times(atom(quotient))).minus(form.scale(sign))
    if quotient in r.terms or any(quotient in factors_of for factors_of in map(factors, r.terms)):
        return None
    if len(y.terms) == 1 and d.is_const and r.is_const:
        ((e, k),) = y.terms.items()
        m, value = d.const, r.const - y.const  # k*e = value (mod m)
        g = gcd(k, m)
        if m < 1 or value % g:
            return None
        m //= g
        return _modulo(e, m, value // g * pow(k // g, -1, m) % m) if m > 1 else None
    for e, k in y.terms.items():
        if abs(k) == 1:
            others = Linear(y.const, {t: c for t, c in y.terms.items() if t is not e})
            rest = r.minus(others).scale(k)
            if not any(_mentions(t, e) for t in (*rest.terms, *d.terms, *others.terms)):
                return Multiple(e, d, atom(quotient).scale(k), rest)
    return None


def _mentions(e: Expr, part: Expr) -> bool:
    return e is part or any(v in e.free_vars() for v in part.free_vars())


class _Table:
    """The multiples of a scope, to which further ones are added; `has_more` says whether any were."""

    def __init__(self, known: Normalizer) -> None:
        self.known = known
        self.has_more = False
        stated = known.assumptions.multiples
        self.by_term = {} if stated is None else dict(stated.by_term)
        self.by_quotient = {} if stated is None else dict(stated.by_quotient)

    def is_only(self, one: Multiple) -> bool:
        have = self.by_term.get(one.term, ())
        return len(have) == 1 and have[0] is one

    def note(self, one: Multiple) -> bool:
        """Add a multiple; False if it contradicts another one.

        Numeric remainders of one term are combined into one, by the Chinese remainder theorem.
        """
        e = one.term
        if any(not other.rest.is_const for t in one.rest.terms for other in self.by_term.get(t, ())):
            return True  # kept out: two such equations could lead from one term to the other and back
        have = self.by_term.get(e) or known_multiples(self.known, e)
        if _is_floor(one.quotient) and one.divisor.is_const and one.rest.is_const:
            for other in have:
                if other.divisor.is_const and other.rest.is_const and _is_floor(other.quotient):
                    both = chinese(one.divisor.const, one.rest.const, other.divisor.const, other.rest.const)
                    if both is None:
                        return False
                    one = _modulo(e, *both)
                    if _is_same(one, other):
                        return True
                    have = tuple(m for m in have if m is not other)
                    self.by_quotient.pop(next(iter(other.quotient.terms)), None)
                    break
        if any(_is_same(one, other) for other in have):
            return True
        self.has_more = True
        self.by_term[e] = (one, *have)
        if _is_floor(one.quotient):
            self.by_quotient[next(iter(one.quotient.terms))] = one
        return True


def _is_same(one: Multiple, other: Multiple) -> bool:
    return one.term is other.term and all(a.same(b) for a, b in zip(one[1:], other[1:], strict=True))


def _is_floor(quotient: Linear) -> bool:
    """Whether the quotient is a floor quotient, which a sum may fold."""
    if quotient.const or len(quotient.terms) != 1:
        return False
    ((e, k),) = quotient.terms.items()
    return e.op is ops.FLOORDIV and k == 1

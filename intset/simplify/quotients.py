"""Quotients and remainders in sums.

x - x // y * y = x % y                   x - truncdiv(x, y) * y = truncmod(x, y)
x // y * y + x % y = x                   truncdiv(x, y) * y + truncmod(x, y) = x
x % 2 + (x + 1) % 2 = 1                 c - 1 - x % c = (-1 - x) % c
(x + y) // c - x // c = (x % c + y) // c
x // c + (x + 1) // c + ... + (x + c - 1) // c = x        x - x // 2 = (x + 1) // 2
x // c * k + k*m = (x + c*m) // c * k               m - x // c = (m*c + c - 1 - x) // c
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from intset.expr import ops
from intset.expr.node import Expr, make
from intset.simplify import sums
from intset.simplify.order import Order
from intset.simplify.sums import Sum

REMAINDER_OF: Final = {ops.FLOORDIV: ops.FLOORMOD, ops.TRUNCDIV: ops.TRUNCMOD}

Candidate = tuple[str, Expr]  # rule, expression


def candidates(total: Sum, order: Order) -> Iterator[Candidate]:
    """What a sum with quotients or remainders may be written as."""
    yield from _of_one_kind(total)
    if len(total.terms) > 1 and (floored := _floored(total, order)) != total:
        yield "quotients that round down", sums.write(floored)
        yield from _of_one_kind(floored)


def _of_one_kind(total: Sum) -> Iterator[Candidate]:
    yield from _remainders(total)
    yield from _into_quotients(total)
    if len(total.terms) > 1:
        yield from _parities(total)
        yield from _neighbours(total)
        yield from _all_residues(total)
        yield from _halves(total)


def _remainders(total: Sum) -> Iterator[Candidate]:
    """A dividend minus the divisor times its quotient; a quotient times its divisor plus the remainder."""
    for term, k in total.terms.items():
        for quotient, rest in _quotients(term):
            base, divisor = quotient.args
            c = divisor.data if divisor.op is ops.CONST else None
            scale, whole = (k, 1) if c is None else (k, c)
            if c is not None and (c == 0 or rest is not None):
                continue
            if c is None and rest is not divisor:
                continue
            read = sums.read(base)
            remainder = make(REMAINDER_OF[quotient.op], (base, divisor))
            if whole and scale % whole == 0:
                factor = scale // whole  # total = factor * (divisor * quotient) + others
                others = total.without(term)
                if remainder not in others.terms and base.op is remainder.op and _divides(divisor, base.args[1]):
                    remainder = make(base.op, (base.args[0], divisor))  # x % (c*d) % c is x % c
                have = others.terms.get(remainder, 0)
                if have and have * factor > 0:
                    after = others.plus(Sum(0, {remainder: 1}), -factor).plus(read, factor)
                    yield "quotient and remainder make the whole", sums.write(after)
                if _is_part(read, others, -factor):
                    after = others.plus(read, factor).plus(Sum(0, {remainder: 1}), -factor)
                    yield "remainder from its parts", sums.write(after)
        if term.op is ops.FLOORMOD and term.args[1].op is ops.CONST and total.const:
            base, divisor = term.args
            if divisor.data > 0 and total.const == k * (1 - divisor.data):
                below = Sum(-1, {}).plus(sums.read(base), -1)
                turned = make(ops.FLOORMOD, (sums.write(Sum(below.const % divisor.data, below.terms)), divisor))
                yield (
                    "complement of a remainder",
                    sums.write(Sum(0, total.without(term).terms).plus(Sum(0, {turned: -k}))),
                )


def _into_quotients(total: Sum) -> Iterator[Candidate]:
    """What stands beside a quotient by a constant within its dividend; one that is taken away as one that is added."""
    for term, k in total.terms.items():
        if term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST or term.args[1].data < 2:
            continue
        dividend, c = sums.read(term.args[0]), term.args[1].data
        rest = total.without(term)
        turned = k < 0 or bool(dividend.terms) and all(w < 0 for w in dividend.terms.values())
        for sign in (1, -1) if turned else (1,):  # -(x // c) = (c - 1 - x) // c
            own = dividend if sign > 0 else Sum(c - 1, {}).plus(dividend, -1)
            for part in _beside(rest, dividend, k):
                moved = part.divided(k * sign)
                if moved is None or sign > 0 and not (moved.terms or moved.const):
                    continue
                quotient = make(ops.FLOORDIV, (sums.write(own.plus(moved, c)), term.args[1]))
                after = rest.plus(part, -1).plus(Sum(0, {quotient: k * sign}))
                yield "addends into the quotient" if sign > 0 else "quotient turned", sums.write(after)


def _beside(rest: Sum, dividend: Sum, k: int) -> list[Sum]:
    """The parts of the rest that may go into a dividend: the terms that it has, the constant, both or nothing."""
    shared = Sum(0, {t: w for t, w in rest.terms.items() if t in dividend.terms and w % k == 0})
    parts = [Sum(0, {})]
    if shared.terms:
        parts.append(shared)
    if rest.const and rest.const % k == 0:
        parts += [Sum(rest.const, {}), *([Sum(rest.const, shared.terms)] if shared.terms else [])]
    return parts


def _floored(total: Sum, order: Order) -> Sum:
    """The sum with one kind of quotient, that rounds down: by constants, truncated ones of what is not negative."""
    new = Sum(total.const, {})
    for term, k in total.terms.items():
        written = term
        if term.op in _ROUNDED and term.args[1].op is ops.CONST and term.args[1].data > 0:
            dividend, divisor = term.args
            if term.op is ops.CEILDIV:
                written = make(ops.FLOORDIV, (sums.write(sums.read(dividend).plus(Sum(divisor.data - 1, {}))), divisor))
            elif order.known.is_nonneg(order.known.form(dividend)):
                written = make(_ROUNDED[term.op], term.args)
        new = new.plus(Sum(0, {written: k}))
    return new


_ROUNDED: Final = {ops.CEILDIV: ops.FLOORDIV, ops.TRUNCDIV: ops.FLOORDIV, ops.TRUNCMOD: ops.FLOORMOD}


def _quotients(term: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    if term.op in REMAINDER_OF:
        yield term, None
    elif term.op is ops.MUL:
        a, b = term.args
        if a.op in REMAINDER_OF:
            yield a, b
        if b.op in REMAINDER_OF:
            yield b, a


def _divides(divisor: Expr, other: Expr) -> bool:
    return divisor.op is ops.CONST and other.op is ops.CONST and other.data % divisor.data == 0


def _is_part(part: Sum, total: Sum, factor: int) -> bool:
    """Whether `factor * part` only takes away from the terms of `total`."""
    if not part.terms:
        return False
    for term, k in part.terms.items():
        have, take = total.terms.get(term, 0), factor * k
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True


def _parities(total: Sum) -> Iterator[Candidate]:
    """`x % 2 + (x + 1) % 2 = 1`, whatever the odd difference."""
    seen: list[tuple[Expr, int, Sum]] = []
    for term, k in total.terms.items():
        if term.op is not ops.FLOORMOD or term.args[1].op is not ops.CONST or term.args[1].data != 2:
            continue
        own = sums.read(term.args[0])
        for other, weight, base in seen:
            difference = own.plus(base, -1)
            if weight == k and difference.const % 2 and all(c % 2 == 0 for c in difference.terms.values()):
                after = total.without(term).without(other).plus(Sum(k, {}))
                yield "parities complete one another", sums.write(after)
        seen.append((term, k, own))


def _neighbours(total: Sum) -> Iterator[Candidate]:
    """The difference of two quotients by one constant: what their dividends differ by stands beside a remainder."""
    seen: list[tuple[Expr, int, Sum]] = []
    for term, k in total.terms.items():
        if term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST or term.args[1].data < 1:
            continue
        own = sums.read(term.args[0])
        for other, weight, base in seen:
            if other.args[1] is not term.args[1] or weight != -k:
                continue
            difference = own.plus(base, -1)
            if len(difference.terms) >= len(own.terms) + len(base.terms):
                continue
            rest = total.without(term).without(other)
            for start, sign in ((other, 1), (term, -1)):
                low = make(ops.FLOORMOD, start.args)
                dividend = sums.scaled(difference, sign).plus(Sum(0, {low: 1}))
                quotient = make(ops.FLOORDIV, (sums.write(dividend), term.args[1]))
                yield "neighbouring quotients", sums.write(rest.plus(Sum(0, {quotient: k * sign})))
        seen.append((term, k, own))


def _all_residues(total: Sum) -> Iterator[Candidate]:
    """Quotients by c of x plus every residue of c: together x (Hermite)."""
    groups: dict[tuple[int, Expr, Expr], dict[int, tuple[Expr, Sum]]] = {}
    for term, k in total.terms.items():
        if term.op is ops.FLOORDIV and term.args[1].op is ops.CONST and term.args[1].data > 1:
            dividend = sums.read(term.args[0])
            base = sums.write(Sum(0, dividend.terms))
            groups.setdefault((k, term.args[1], base), {})[dividend.const % term.args[1].data] = (term, dividend)
    for (k, divisor, base), found in groups.items():
        c = divisor.data
        if len(found) == c:
            after, whole = total, sums.read(base)
            for term, dividend in found.values():
                after = after.without(term).plus(Sum(dividend.const // c, {}), k)
            yield "quotients of all residues", sums.write(after.plus(whole, k))


def _halves(total: Sum) -> Iterator[Candidate]:
    """`x // 2 = x - (x + 1) // 2`, where that takes an x away."""
    for term, k in total.terms.items():
        if term.op is ops.FLOORDIV and term.args[1].op is ops.CONST and term.args[1].data == 2:
            dividend = sums.read(term.args[0])
            others = total.without(term)
            if _is_part(dividend, others, -k):
                more, odd = divmod(dividend.const + 1, 2)
                half = make(ops.FLOORDIV, (sums.write(Sum(odd, dividend.terms)), term.args[1]))
                yield "the other half", sums.write(others.plus(dividend, k).plus(Sum(more, {half: 1}), -k))

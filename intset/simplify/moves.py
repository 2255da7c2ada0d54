"""Sums: written anew with few operations, and candidates in which addends move into, or come out of, a choice.

min(x, y) + z = min(x + z, y + z)        z - min(x, y) = max(z - x, z - y)        and so for max
select(p, x, y) + z = select(p, x + z, y + z)
select(p, x, y) + select(p, z, w) = select(p, x + z, y + w)           and with ~p, z and w turned
min(x, y) + max(x, y) = x + y            max(x, y) - min(x, y) = abs(x - y)
x - x // y * y = x % y                   x - truncdiv(x, y) * y = truncmod(x, y)
x // y * y + x % y = x                   truncdiv(x, y) * y + truncmod(x, y) = x
x % 2 + (x + 1) % 2 = 1                 c - 1 - x % c = (-1 - x) % c
(x + k) // c - x // c = (x % c + k) // c
x // c * k + k*m = (x + c*m) // c * k
x // c + (x + 1) // c + ... + (x + c - 1) // c = x        x - x // 2 = (x + 1) // 2
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from intset.expr import ops
from intset.expr.node import Cond, Expr, make
from intset.simplify import sums
from intset.simplify.comparisons import MIRRORED
from intset.simplify.conditions import negated
from intset.simplify.lattice import OPPOSITE
from intset.simplify.sums import Sum

MAX_TERMS: Final = 16  # of a longer sum no candidate is tried
REMAINDER_OF: Final = {ops.FLOORDIV: ops.FLOORMOD, ops.TRUNCDIV: ops.TRUNCMOD}

Candidate = tuple[str, Expr]  # rule, expression


def written(node: Expr) -> Iterator[tuple[str, Expr]]:
    """The sum with equal terms together and common factors outside."""
    yield "terms collected", sums.write(sums.read(node))


def candidates(node: Expr) -> Iterator[Candidate]:
    """What else the sum may be written as; some of it is shorter only after its parts are simplified."""
    total = sums.read(node)
    if not 0 < len(total.terms) <= MAX_TERMS:
        return
    yield from _remainders(total)
    yield from _pairs(total)
    for term, k in total.terms.items():
        if (term.op is ops.MIN or term.op is ops.MAX) and k < 0:
            yield from _turned(total, term, k)
    if len(total.terms) == 1 and not total.const:
        return
    for term, k in total.terms.items():
        if term.op is ops.MIN or term.op is ops.MAX:
            yield from _into_bound(total, term, k)
        elif term.op is ops.SELECT:
            yield from _into_branches(total, term, k)


# -- remainders ---------------------------------------------------------------------------------------------------


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
                have = others.terms.get(remainder, 0)
                if have and have * factor > 0:
                    after = others.plus(Sum(0, {remainder: 1}), -factor).plus(read, factor)
                    yield "quotient and remainder make the whole", sums.write(after)
                if _is_part(read, others, -factor):
                    after = others.plus(read, factor).plus(Sum(0, {remainder: 1}), -factor)
                    yield "remainder from its parts", sums.write(after)
        if total.const and total.const % k == 0 and term.op is ops.FLOORDIV:
            base, divisor = term.args
            if divisor.op is ops.CONST and divisor.data:
                inside = sums.read(base).plus(Sum(divisor.data * (total.const // k), {}))
                moved = make(ops.FLOORDIV, (sums.write(inside), divisor))
                yield (
                    "constant into the quotient",
                    sums.write(Sum(0, total.without(term).terms).plus(Sum(0, {moved: k}))),
                )
        if term.op is ops.FLOORMOD and term.args[1].op is ops.CONST and total.const:
            base, divisor = term.args
            if divisor.data > 0 and total.const == k * (1 - divisor.data):
                below = Sum(-1, {}).plus(sums.read(base), -1)
                turned = make(ops.FLOORMOD, (sums.write(Sum(below.const % divisor.data, below.terms)), divisor))
                yield (
                    "complement of a remainder",
                    sums.write(Sum(0, total.without(term).terms).plus(Sum(0, {turned: -k}))),
                )
    if len(total.terms) > 1:
        yield from _parities(total)
        yield from _neighbours(total)
        yield from _all_residues(total)
        yield from _halves(total)


def _quotients(term: Expr) -> Iterator[tuple[Expr, Expr | None]]:
    if term.op in REMAINDER_OF:
        yield term, None
    elif term.op is ops.MUL:
        a, b = term.args
        if a.op in REMAINDER_OF:
            yield a, b
        if b.op in REMAINDER_OF:
            yield b, a


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
    """The difference of two quotients by one constant whose dividends differ by a constant."""
    seen: list[tuple[Expr, int, Sum]] = []
    for term, k in total.terms.items():
        if term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST or term.args[1].data < 1:
            continue
        own = sums.read(term.args[0])
        for other, weight, base in seen:
            if other.args[1] is not term.args[1] or weight != -k:
                continue
            difference = own.plus(base, -1)
            if difference.terms:
                continue
            rest = total.without(term).without(other)
            for start, step, sign in ((other, difference.const, k), (term, -difference.const, -k)):
                low = make(ops.FLOORMOD, start.args)
                quotient = make(ops.FLOORDIV, (sums.write(Sum(step, {low: 1})), term.args[1]))
                yield "neighbouring quotients", sums.write(rest.plus(Sum(0, {quotient: sign})))
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


# -- pairs of terms ------------------------------------------------------------------------------------------------


def _pairs(total: Sum) -> Iterator[Candidate]:
    terms = list(total.terms.items())
    for n, (a, k) in enumerate(terms):
        for b, m in terms[:n]:
            others = total.without(a).without(b)
            if a.op is ops.SELECT and b.op is ops.SELECT and (order := _like(a.args[0], b.args[0])):
                pairs = zip(a.args[1:], b.args[1:][::order], strict=True)
                arms = [sums.scaled(sums.read(y), m).plus(sums.read(x), k) for x, y in pairs]
                both = make(ops.SELECT, (a.args[0], *map(sums.write, arms)))
                yield "choices by one condition", sums.write(others.plus(Sum(0, {both: 1})))
            elif {a.op, b.op} == {ops.MIN, ops.MAX} and set(a.args) == set(b.args):
                x, y = (sums.read(arg) for arg in a.args)
                if k == m:
                    yield "min and max of the same", sums.write(others.plus(x, k).plus(y, k))
                elif k == -m:
                    size = make(ops.ABS, (sums.write(x.plus(y, -1)),))
                    after = others.plus(Sum(0, {size: k if a.op is ops.MAX else m}))
                    yield "difference of max and min", sums.write(after)


def _like(p: Cond, q: Cond) -> int:
    """1 where the conditions are the same, -1 where one is written as the other's negation, else 0."""
    if p is q:
        return 1
    other = negated(p)
    return -1 if q is other or other.op in MIRRORED and q is make(MIRRORED[other.op], other.args[::-1]) else 0


# -- addends into choices -------------------------------------------------------------------------------------------


def _into_bound(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    for part in _movable(rest, term.args, k):
        outside = rest.plus(part, -1)
        inner = part.divided(k)
        if inner is None:
            continue
        args = [sums.read(arg).plus(inner) for arg in term.args]
        made = make(term.op, tuple(map(sums.write, args)))
        yield f"addends into {term.op.name}", sums.write(outside.plus(Sum(0, {made: k})))
        if k < 0:
            turned = make(OPPOSITE[term.op], tuple(sums.write(sums.scaled(arg, -1)) for arg in args))
            yield f"addends into {term.op.name}", sums.write(outside.plus(Sum(0, {turned: -k})))


def _turned(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    """A bound that is taken away, with its operands negated: it pays where one of them is written with a minus."""
    args = [sums.scaled(sums.read(arg), -1) for arg in term.args]
    if any(c > 0 for arg in args for c in arg.terms.values()):
        turned = make(OPPOSITE[term.op], tuple(map(sums.write, args)))
        yield f"negated {term.op.name}", sums.write(total.without(term).plus(Sum(0, {turned: -k})))


def _into_branches(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    cond, yes, no = term.args
    for part in _movable(rest, (yes, no), k):
        arms = [sums.write(sums.scaled(sums.read(arm), k).plus(part)) for arm in (yes, no)]
        made = make(ops.SELECT, (cond, *arms))
        yield "addends into branches", sums.write(rest.plus(part, -1).plus(Sum(0, {made: 1})))


def _movable(rest: Sum, args: tuple[Expr, ...], k: int) -> list[Sum]:
    """The parts of the rest that meet their like inside: terms that an operand has, and the constant."""
    inside: set[Expr] = set()
    for arg in args:
        inside.update(_below(arg))
    own = {t: c for t, c in rest.terms.items() if t in inside}
    parts = [Sum(0, own)] if own else []
    if rest.const and (own or any(sums.read(arg).const for arg in args)):
        parts.append(Sum(rest.const, own))
        if own:
            parts.append(Sum(rest.const, {}))
    return [part for part in parts if part.divided(k) is not None]


def _below(e: Expr) -> set[Expr]:
    """The terms of an operand, and of the choices in it."""
    found: set[Expr] = set()
    stack: list[Expr] = [e]
    for _ in range(32):
        if not stack:
            break
        for term in sums.read(stack.pop()).terms:
            found.add(term)
            if term.op in (ops.MIN, ops.MAX, ops.SELECT):
                stack.extend(arg for arg in term.args if not arg.op.boolean)
    return found

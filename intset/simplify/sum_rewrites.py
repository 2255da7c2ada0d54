"""Rewrites of sums: addends moved into or out of choices; of quotients, remainders, masks and casts.

min(x, y) + z = min(x + z, y + z)        z - min(x, y) = max(z - x, z - y)        dually for max
select(p, x, y) + z = select(p, x + z, y + z)
select(p, x, y) + select(p, z, w) = select(p, x + z, y + w)           with ~p, z and w swapped
min(x, y) + max(x, y) = x + y            max(x, y) - min(x, y) = abs(x - y)
abs(x - y) = 2*max(x, y) - x - y = x + y - 2*min(x, y)

x - x // y * y = x % y                   x - truncdiv(x, y) * y = truncmod(x, y)
x // y * y + x % y = x                   truncdiv(x, y) * y + truncmod(x, y) = x
x % 2 + (x + 1) % 2 = 1                  c - 1 - x % c = (-1 - x) % c
(x + y) // c - x // c = (x % c + y) // c
x // c + (x + 1) // c + ... + (x + c - 1) // c = x        x - x // 2 = (x + 1) // 2
x // c * k + k*m = (x + c*m) // c * k    m - x // c = (m*c + c - 1 - x) // c

(x*z) // (y*z) = x // y             (x*z) % (y*z) = (x % y) * z          likewise for the other divisions
(g*x + k) // (g*d) = (x + k//g) // d, constants g, d > 0             (c*x + y) // c = x + y // c
(k*x + m*y + a) % c = (k'*x + m'*y + a') % c        where k - k', m - m', a - a' are multiples of c
min(x, y) // c = min(x // c, y // c), c > 0; likewise for max and truncdiv
(x*16 + y) & 15 = y & 15            the mask has no bit from bit 4 on
cast(cast(x, a), b) = cast(x, b)    where b <= a;  = cast(x, a) where type b contains type a

A sum is a factor like a variable; nothing is multiplied out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd, prod
from typing import Any, Final

from intset.expr import Cond, Expr, Node, const, dag, ops
from intset.expr.node import folded_chain, make
from intset.expr.ops import Op
from intset.linear.canonical import Normalizer
from intset.linear.form import REMAINDER_OF, Linear, add, is_sum
from intset.simplify import sums
from intset.simplify.choices import COMPARED_OPERANDS, OPPOSITE, OrderDecider
from intset.simplify.conditions import negated
from intset.simplify.irreducible import IntervalScope
from intset.simplify.rules import folded
from intset.simplify.sums import TermSum

_DIVIDED: Final = frozenset((*ops.DIVISIONS, ops.MUL))  # operations of terms that may be quotients or remainders
_CHOOSING: Final = frozenset((ops.MIN, ops.MAX, ops.ABS, ops.SELECT))
REWRITTEN_SUM: Final = 16  # terms of a sum with candidates

Candidate = tuple[str, Expr]  # rule, expression
_REMAINDERS = (ops.FLOORMOD, ops.TRUNCMOD)
_QUOTIENTS = (ops.FLOORDIV, ops.TRUNCDIV, ops.CEILDIV)
_BOUNDS = (ops.MIN, ops.MAX)


def sum_candidates(total: TermSum, order: OrderDecider) -> Iterator[Candidate]:
    """Rewrites of a sum; some pay off after their parts are simplified."""
    if not 0 < len(total.terms) <= REWRITTEN_SUM:
        return
    kinds = {term.op for term in total.terms}
    if not kinds.isdisjoint(_DIVIDED):
        yield from _quotient_candidates(total, order)
    if kinds.isdisjoint(_CHOOSING):
        return
    yield from _cancelled(total)
    yield from _sizes(total)
    yield from _pairs(total)
    for term, k in total.terms.items():
        if (term.op is ops.MIN or term.op is ops.MAX) and k < 0:
            yield from _opposite_addends(total, term, k)
    for term, k in total.terms.items():
        if term.op is ops.MIN or term.op is ops.MAX:
            yield from _into_bound(total, term, k)
            yield from _into_chain(total, term, k)
        elif term.op is ops.SELECT:
            yield from _into_branches(total, term, k)


# -- pairs of terms ------------------------------------------------------------------------------------------------


def _pairs(total: TermSum) -> Iterator[Candidate]:
    terms = list(total.terms.items())
    for n, (a, k) in enumerate(terms):
        for b, m in terms[:n]:
            if a.op not in _CHOOSING or b.op not in _CHOOSING:
                continue
            others = total.without(a).without(b)
            if a.op is ops.SELECT and b.op is ops.SELECT and (order := _like(a.args[0], b.args[0])):
                pairs = zip(a.args[1:], b.args[1:][::order], strict=True)
                arms = [sums.scaled(sums.read(y), m).plus(sums.read(x), k) for x, y in pairs]
                both = make(ops.SELECT, (a.args[0], *map(sums.write, arms)))
                yield "choices by one condition", sums.write(others.plus(TermSum(0, {both: 1})))
            elif {a.op, b.op} == {ops.MIN, ops.MAX} and set(a.args) == set(b.args):
                x, y = (sums.read(arg) for arg in a.args)
                if k == m:
                    yield "min and max of the same", sums.write(others.plus(x, k).plus(y, k))
                elif k == -m:
                    size = make(ops.ABS, (sums.write(x.plus(y, -1)),))
                    after = others.plus(TermSum(0, {size: k if a.op is ops.MAX else m}))
                    yield "difference of max and min", sums.write(after)


def _like(p: Cond, q: Cond) -> int:
    """1 for equal conditions, -1 for a condition and its negation, else 0."""
    if p is q:
        return 1
    other = negated(p)
    return -1 if q is other or other.op in ops.MIRRORED and q is make(ops.MIRRORED[other.op], other.args[::-1]) else 0


def _cancelled(total: TermSum) -> Iterator[Candidate]:
    """Cancel two min or max terms whose sum is a constant, for any order and grouping of operands."""
    seen: list[tuple[Expr, Op, _Operands]] = []
    for term, k in total.terms.items():
        if term.op not in OPPOSITE and term.op is not ops.ABS:
            continue
        op, operands = _as_bound(term, k)
        for other, its_op, its_operands in seen:
            if op is not its_op and (constant := _opposite(operands, its_operands)) is not None:
                after = total.without(term).without(other).plus(TermSum(constant, {}))
                yield "bounds of the same", sums.write(after)
        seen.append((term, op, operands))


def _sizes(total: TermSum) -> Iterator[Candidate]:
    """abs(x - y) with min(x, y) or max(x, y) beside it: it is 2*max(x, y) - x - y, and x + y - 2*min(x, y)."""
    for term, k in total.terms.items():
        if term.op is not ops.ABS:
            continue
        size = sums.read(term.args[0])
        if len(total.terms) > 1:
            high = TermSum(max(size.const, 0), {t: w for t, w in size.terms.items() if w > 0})
            low = high.plus(size, -1)
            for op, sign in ((ops.MAX, 1), (ops.MIN, -1)):
                bound_of_parts = make(op, (sums.write(high), sums.write(low)))
                after = total.without(term).plus(high, -k * sign).plus(low, -k * sign)
                yield "size as a bound", sums.write(after.plus(TermSum(0, {bound_of_parts: 2 * k * sign})))
        for bound, m in total.terms.items():
            if bound.op not in OPPOSITE:
                continue
            x, y = (sums.read(arg) for arg in bound.args)
            if x.plus(y, -1) not in (size, sums.scaled(size, -1)):
                continue
            rest, both = total.without(term).without(bound), x.plus(y)
            as_max, as_min = (make(op, bound.args) for op in (ops.MAX, ops.MIN))
            mine = m if bound.op is ops.MAX else -m
            other = 0 if bound.op is ops.MAX else m
            yield "size and bound", sums.write(rest.plus(both, other - k).plus(TermSum(0, {as_max: mine + 2 * k})))
            mine, other = (m, 0) if bound.op is ops.MIN else (-m, m)
            yield "size and bound", sums.write(rest.plus(both, other + k).plus(TermSum(0, {as_min: mine - 2 * k})))


_Operands = dict[frozenset[tuple[Expr, int]], int]  # the constant of each operand by its terms


def _as_bound(term: Expr, k: int) -> tuple[Op, _Operands]:
    """`k * term` as min or max of sums."""
    if term.op is ops.ABS:
        inner = sums.scaled(sums.read(term.args[0]), k)
        op, parts = (ops.MAX if k > 0 else ops.MIN), [inner, sums.scaled(inner, -1)]
    else:
        op = term.op if k > 0 else OPPOSITE[term.op]
        parts = [sums.scaled(sums.read(arg), k) for arg in dag.chain(term.op, term)]
    return op, {frozenset(part.terms.items()): part.const for part in parts}


def _opposite(a: _Operands, b: _Operands) -> int | None:
    """The constant d with min(a_i) + max(d - a_i) = d, if the operands pair up so."""
    constant = None
    for terms, c in a.items():
        other = b.get(frozenset((t, -k) for t, k in terms))
        if other is None or constant is not None and c + other != constant:
            return None
        constant = c + other
    return constant if len(a) == len(b) else None


# -- addends into choices -------------------------------------------------------------------------------------------


def _into_bound(total: TermSum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    for part in _movable(rest, term.args):
        outside = rest.plus(part, -1)
        inner = part.divided(k)
        if inner is None:
            continue
        args = [sums.read(arg).plus(inner) for arg in term.args]
        moved_in = make(term.op, tuple(map(sums.write, args)))
        yield f"addends into {term.op.name}", sums.write(outside.plus(TermSum(0, {moved_in: k})))
        if k < 0:
            opposite = make(OPPOSITE[term.op], tuple(sums.write(sums.scaled(arg, -1)) for arg in args))
            yield f"addends into {term.op.name}", sums.write(outside.plus(TermSum(0, {opposite: -k})))


def _into_chain(total: TermSum, term: Expr, k: int) -> Iterator[Candidate]:
    """`min(a + z, b, c) - z` as `min(a, min(b, c) - z)`: operands without the moved term stay together."""
    operands = dag.chain(term.op, term)
    if not 2 < len(operands) <= COMPARED_OPERANDS or abs(k) != 1:
        return
    rest = total.without(term)
    read = [sums.read(operand) for operand in operands]
    for t, c in rest.terms.items():
        meets = [n for n, one in enumerate(read) if one.terms.get(t, 0) == -c * k]
        if not meets or len(meets) == len(read):
            continue
        part = TermSum(0, {t: c * k})  # k is its own inverse
        others = sums.read(folded_chain(term.op, [one for n, one in enumerate(operands) if n not in meets]))
        inner = folded_chain(term.op, [sums.write(one.plus(part)) for one in (*(read[n] for n in meets), others)])
        yield f"addends into {term.op.name}", sums.write(rest.without(t).plus(TermSum(0, {inner: k})))


def _opposite_addends(total: TermSum, term: Expr, k: int) -> Iterator[Candidate]:
    """Turn a subtracted min or max into an added max or min of negated operands, if one has a minus sign."""
    args = [sums.scaled(sums.read(arg), -1) for arg in term.args]
    if any(c > 0 for arg in args for c in arg.terms.values()):
        opposite = make(OPPOSITE[term.op], tuple(map(sums.write, args)))
        yield f"negated {term.op.name}", sums.write(total.without(term).plus(TermSum(0, {opposite: -k})))


def _into_branches(total: TermSum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    cond, yes, no = term.args
    parts = _movable(rest, (yes, no))
    if k != 1 and yes.op is ops.CONST and no.op is ops.CONST:
        parts.append(TermSum(0, {}))
    for part in parts:
        arms = [sums.write(sums.scaled(sums.read(arm), k).plus(part)) for arm in (yes, no)]
        choice = make(ops.SELECT, (cond, *arms))
        yield "addends into branches", sums.write(rest.plus(part, -1).plus(TermSum(0, {choice: 1})))


def _movable(rest: TermSum, args: tuple[Expr, ...]) -> list[TermSum]:
    """Parts of the rest worth moving inside: terms that also occur in an operand, and the constant."""
    inside: set[Expr] = set()
    for arg in args:
        inside.update(_below(arg))
    own = {t: c for t, c in rest.terms.items() if t in inside}
    parts = [TermSum(0, own)] if own else []
    if rest.const and (own or any(sums.read(arg).const for arg in args)):
        parts.append(TermSum(rest.const, own))
        if own:
            parts.append(TermSum(rest.const, {}))
    return parts


def _below(e: Expr) -> set[Expr]:
    """Terms of an operand, including those inside its choices."""
    terms: set[Expr] = set()
    stack: list[Expr] = [e]
    for _ in range(32):
        if not stack:
            break
        for term in sums.read(stack.pop()).terms:
            terms.add(term)
            if term.op in (ops.MIN, ops.MAX, ops.SELECT):
                stack.extend(arg for arg in term.args if not arg.op.boolean)
    return terms


# -- quotients and remainders ------------------------------------------------------------------------------------------


def _quotient_candidates(total: TermSum, order: OrderDecider) -> Iterator[Candidate]:
    """Rewrites of a sum with quotients or remainders."""
    yield from _of_one_kind(total)
    if (
        len(total.terms) > 1
        and any(term.op in _ROUNDED for term in total.terms)
        and (floored := _floored(total, order)) != total
    ):
        yield "quotients that round down", sums.write(floored)
        yield from _of_one_kind(floored)


def _of_one_kind(total: TermSum) -> Iterator[Candidate]:
    yield from _remainders(total)
    yield from _into_quotients(total)
    if len(total.terms) > 1:
        yield from _parities(total)
        yield from _neighbours(total)
        yield from _all_residues(total)
        yield from _halves(total)


def _remainders(total: TermSum) -> Iterator[Candidate]:
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
                if c and remainder not in others.terms:
                    remainder = next(_congruent(read, remainder, others), remainder)
                have = others.terms.get(remainder, 0)
                if have and have * factor > 0:
                    after = others.plus(TermSum(0, {remainder: 1}), -factor).plus(read, factor)
                    yield "quotient and remainder make the whole", sums.write(after)
                if _is_part(read, others, -factor):
                    after = others.plus(read, factor).plus(TermSum(0, {remainder: 1}), -factor)
                    yield "remainder from its parts", sums.write(after)
        if term.op is ops.FLOORMOD and term.args[1].op is ops.CONST and total.const:
            base, divisor = term.args
            if divisor.data > 0 and total.const == k * (1 - divisor.data):
                below = TermSum(-1, {}).plus(sums.read(base), -1)
                opposite = make(ops.FLOORMOD, (sums.write(TermSum(below.const % divisor.data, below.terms)), divisor))
                yield (
                    "complement of a remainder",
                    sums.write(TermSum(0, total.without(term).terms).plus(TermSum(0, {opposite: -k}))),
                )


def _congruent(dividend: TermSum, remainder: Expr, others: TermSum) -> Iterator[Expr]:
    """Addends equal to a remainder of floor division by a constant: their dividends differ by a multiple of it."""
    divisor = remainder.args[1]
    for term in others.terms:
        if term.op is remainder.op is ops.FLOORMOD and term.args[1] is divisor:
            apart = sums.read(term.args[0]).plus(dividend, -1)
            if apart.divided(divisor.data) is not None:
                yield term


def _into_quotients(total: TermSum) -> Iterator[Candidate]:
    """Move addends into the dividend of a quotient by a constant; turn a subtracted quotient into an added one."""
    for term, k in total.terms.items():
        if term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST or term.args[1].data < 2:
            continue
        dividend, c = sums.read(term.args[0]), term.args[1].data
        rest = total.without(term)
        parts = _beside(rest, dividend, k)
        opposite = k < 0 or bool(dividend.terms) and max(dividend.terms.values()) < 0
        for sign in (1, -1) if opposite else (1,):  # -(x // c) = (c - 1 - x) // c
            own = dividend if sign > 0 else TermSum(c - 1, {}).plus(dividend, -1)
            for part in parts:
                moved = part.divided(k * sign) if sign < 0 or part.terms or part.const else None
                if moved is None:
                    continue
                quotient = make(ops.FLOORDIV, (sums.write(own.plus(moved, c)), term.args[1]))
                after = dict(rest.terms)
                add(after, part.terms, -1)
                add(after, {quotient: k * sign})
                rule = "addends into the quotient" if sign > 0 else "quotient negated"
                yield rule, sums.write(TermSum(rest.const - part.const, after))


_NOTHING: Final = TermSum(0, {})


def _beside(rest: TermSum, dividend: TermSum, k: int) -> list[TermSum]:
    """Parts of the rest to move into a dividend: shared terms, the constant, both or neither."""
    shared = TermSum(0, {t: w for t, w in rest.terms.items() if t in dividend.terms and w % k == 0})
    parts = [_NOTHING]
    if shared.terms:
        parts.append(shared)
    if rest.const and rest.const % k == 0:
        parts += [TermSum(rest.const, {}), *([TermSum(rest.const, shared.terms)] if shared.terms else [])]
    return parts


def _floored(total: TermSum, order: OrderDecider) -> TermSum:
    """The sum with ceiling quotients, and truncated quotients of nonnegative dividends, as floor quotients."""
    new = TermSum(total.const, {})
    for term, k in total.terms.items():
        written = term
        if term.op in _ROUNDED and term.args[1].op is ops.CONST and term.args[1].data > 0:
            dividend, divisor = term.args
            if term.op is ops.CEILDIV:
                written = make(
                    ops.FLOORDIV, (sums.write(sums.read(dividend).plus(TermSum(divisor.data - 1, {}))), divisor)
                )
            elif order.known.is_nonneg(order.known.form(dividend)):
                written = make(_ROUNDED[term.op], term.args)
        new = new.plus(TermSum(0, {written: k}))
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


def _is_part(part: TermSum, total: TermSum, factor: int) -> bool:
    """Whether `factor * part` only takes away from the terms of `total`."""
    if not part.terms:
        return False
    for term, k in part.terms.items():
        have, take = total.terms.get(term, 0), factor * k
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True


def _parities(total: TermSum) -> Iterator[Candidate]:
    """`x % 2 + (x + 1) % 2 = 1`, whatever the odd difference."""
    seen: list[tuple[Expr, int, TermSum]] = []
    for term, k in total.terms.items():
        if term.op is not ops.FLOORMOD or term.args[1].op is not ops.CONST or term.args[1].data != 2:
            continue
        own = sums.read(term.args[0])
        for other, weight, base in seen:
            difference = own.plus(base, -1)
            if weight == k and difference.const % 2 and all(c % 2 == 0 for c in difference.terms.values()):
                after = total.without(term).without(other).plus(TermSum(k, {}))
                yield "parities complete one another", sums.write(after)
        seen.append((term, k, own))


def _neighbours(total: TermSum) -> Iterator[Candidate]:
    """Difference of two quotients by one constant, as a quotient of a remainder plus the dividends' difference."""
    seen: list[tuple[Expr, int, TermSum]] = []
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
                dividend = sums.scaled(difference, sign).plus(TermSum(0, {low: 1}))
                quotient = make(ops.FLOORDIV, (sums.write(dividend), term.args[1]))
                yield "neighbouring quotients", sums.write(rest.plus(TermSum(0, {quotient: k * sign})))
        seen.append((term, k, own))


def _all_residues(total: TermSum) -> Iterator[Candidate]:
    """Quotients by c of x plus every residue of c: together x (Hermite)."""
    groups: dict[tuple[int, Expr, Expr], dict[int, tuple[Expr, TermSum]]] = {}
    for term, k in total.terms.items():
        if term.op is ops.FLOORDIV and term.args[1].op is ops.CONST and term.args[1].data > 1:
            dividend = sums.read(term.args[0])
            base = sums.write(TermSum(0, dividend.terms))
            groups.setdefault((k, term.args[1], base), {})[dividend.const % term.args[1].data] = (term, dividend)
    for (k, divisor, base), by_residue in groups.items():
        c = divisor.data
        if len(by_residue) == c:
            after, whole = total, sums.read(base)
            for term, dividend in by_residue.values():
                after = after.without(term).plus(TermSum(dividend.const // c, {}), k)
            yield "quotients of all residues", sums.write(after.plus(whole, k))


def _halves(total: TermSum) -> Iterator[Candidate]:
    """`x // 2 = x - (x + 1) // 2`, where that takes an x away."""
    for term, k in total.terms.items():
        if term.op is ops.FLOORDIV and term.args[1].op is ops.CONST and term.args[1].data == 2:
            dividend = sums.read(term.args[0])
            others = total.without(term)
            if _is_part(dividend, others, -k):
                more, odd = divmod(dividend.const + 1, 2)
                half = make(ops.FLOORDIV, (sums.write(TermSum(odd, dividend.terms)), term.args[1]))
                yield "the other half", sums.write(others.plus(dividend, k).plus(TermSum(more, {half: 1}), -k))


def division_candidates(node: Expr, known: Normalizer, for_machine: bool) -> Iterator[tuple[str, Expr]]:
    """Rewrites of a division: common factors cancelled, coefficients reduced.

    for_machine: keep a nonnegative dividend nonnegative, because unsigned division is a cheaper instruction.
    """
    a, b = node.args
    if a is b:
        return
    if node.op is ops.FLOORDIV and b.op is ops.CONST and b.data > 1 and a.op is not ops.VAR:
        yield from _coarser(a, b.data)
    if node.op is ops.FLOORMOD and b.op is ops.CONST and b.data > 1 and a.op is not ops.VAR:
        for rule, inner in _reduced_dividend(sums.read(a), b.data, (0,) if for_machine else (0, _nearest_to_0(b.data))):
            if not for_machine or known.is_nonneg(known.form(inner)) or not known.is_nonneg(known.form(a)):
                yield rule, folded(ops.FLOORMOD, (inner, b))
    if node.op in _QUOTIENTS and a.op in _BOUNDS and b.op is ops.CONST and b.data > 0:
        yield "quotient of a bound", make(a.op, tuple(make(node.op, (arg, b)) for arg in a.args))
    (ka, fa), (kb, fb) = _taken_apart(a), _taken_apart(b)
    if not kb or not ka:
        return
    shared: list[Expr] = []
    left = list(fa)
    rest: list[Expr] = []
    for factor in fb:
        position = next((k for k, f in enumerate(left) if f is factor), None)
        if position is None:
            rest.append(factor)
        else:
            shared.append(left.pop(position))
    g = gcd(ka, kb)
    if not shared and g == 1:
        return
    upper, lower = _product(ka // g, left), _product(kb // g, rest)
    if lower.op is ops.CONST and abs(lower.data) == 1:
        if node.op in _REMAINDERS:
            yield "multiple of the divisor", const(0)
        else:
            yield "divisor cancels", upper if lower.data == 1 else sums.write(sums.scaled(sums.read(upper), -1))
        return
    reduced = folded(node.op, (upper, lower))
    if reduced is None:
        return
    if node.op in _REMAINDERS:
        reduced = _times(reduced, g, shared)
    yield f"common factor, {node.op.name}", reduced


_OF_SUMS: Final = frozenset((ops.ADD, ops.SUB, ops.MUL, ops.NEG, ops.VAR, ops.CONST))


def plain_candidates(node: Expr, known: IntervalScope, is_whole: bool) -> Iterator[tuple[str, Any]]:
    """Rewrites of a sum of variables, or of its quotient or remainder by a constant, that need no linear form.

    A `None` among them: a candidate depends on points outside a box of some points.

    is_whole: whether nothing is written around the node, which might join a remainder of a sum.
    """
    of_sum, c = is_sum(node), 0
    if not of_sum and node.op in (ops.FLOORDIV, ops.FLOORMOD) and node.args[1].op is ops.CONST:
        c = node.args[1].data
    if not of_sum and (c < 2 or not is_sum(node.args[0])):
        return
    whole = node if of_sum else node.args[0]
    present = dag.operations(whole)
    if not present <= _OF_SUMS:
        if of_sum and ops.FLOORMOD in present and ops.FLOORDIV in present:
            yield from _opened(sums.read(node), known, is_whole)
        return
    total = sums.read(whole)
    if of_sum:
        yield "terms collected", sums.write(total)
    elif node.op is ops.FLOORMOD:
        for rule, inner in _reduced_dividend(total, c, (_nearest_to_0(c), 0)):
            yield rule, make(ops.FLOORMOD, (inner, node.args[1]))
    else:
        yield from _coarser(node.args[0], c)
        yield from _without_small_part(total, c, known)


def flat(node: Any) -> Node | None:
    """The node without a division within it, c, d > 1.

    (x//c + y) // d = (x + y*c) // (c*d)        x//c + y < n = x + y*c < n*c        (x + y*c) % (c*d) % c = x % c
    """
    op, right = node.op, node.args[1] if len(node.args) == 2 else node
    if right.op is not ops.CONST or op in ops.DIVISIONS and right.data < 2:
        return None
    if op is ops.FLOORMOD is node.args[0].op and _divides(right, node.args[0].args[1]):
        return _of_one_variable(sums.read(node.args[0].args[0]), right)
    offset = _OFFSETS.get(op)
    if offset is None or (multiplied := _multiplied(node.args[0])) is None:
        return None
    c, form = multiplied
    if op is ops.FLOORDIV:
        quotient: Node = make(op, (form.expr(), const(right.data * c)))
        return quotient
    limit = (right.data + offset) * c - offset
    inequality: Node = make(op, (sums.write(TermSum(0, dict(form.ordered()))), const(limit)))
    return inequality


_OFFSETS: Final = {ops.FLOORDIV: 0, ops.LT: 0, ops.GE: 0, ops.LE: 1, ops.GT: 1}  # of the threshold from the right side


def _of_one_variable(dividend: TermSum, divisor: Expr) -> Expr | None:
    """The remainder of one variable, if the divisor divides all other terms of the dividend."""
    c = divisor.data
    rest = [(e, k % c) for e, k in dividend.terms.items() if k % c]
    if len(rest) != 1 or dividend.const % c or rest[0][1] != 1 or rest[0][0].op is not ops.VAR:
        return None
    remainder: Expr = make(ops.FLOORMOD, (rest[0][0], divisor))
    return remainder


def _multiplied(e: Expr) -> tuple[int, Linear] | None:
    """(c, x + y*c) for a sum `x//c + y` of one quotient and variables, which are all added."""
    total = sums.read(e)
    quotients = [e for e in total.terms if e.op is not ops.VAR]
    if len(quotients) != 1 or total.terms[quotients[0]] != 1:
        return None
    (quotient,) = quotients
    if quotient.op is not ops.FLOORDIV or quotient.args[1].op is not ops.CONST or quotient.args[1].data < 2:
        return None
    c = quotient.args[1].data
    opened = sums.read(quotient.args[0]).plus(total.without(quotient), c)
    if opened.const or any(k < 0 or e.op is not ops.VAR for e, k in opened.terms.items()):
        return None
    return c, Linear(0, opened.terms)


def opened_remainders(total: TermSum, known: IntervalScope, is_whole: bool = False) -> TermSum | None:
    """The sum with `x % c` as `x - x // c * c` where it has that quotient; x is a variable, or in a whole their sum.

    Returns `None` where the quotient depends on points outside a box of some points.
    """
    opened = total
    has_quotient = any([term.op is ops.FLOORDIV for term in total.terms])  # noqa: C419  # hot
    for term, k in total.terms.items():
        if term.op is not ops.FLOORMOD or term.args[1].op is not ops.CONST or term.args[1].data < 2:
            continue
        x, c = term.args
        dividend, quotient = sums.read(x), make(ops.FLOORDIV, term.args)
        if x.op is not ops.VAR:
            if not is_whole:
                continue
            if dag.operations(x) <= _OF_SUMS:
                quotient = next((e for _, e in _without_small_part(dividend, c.data, known)), quotient)
            elif not has_quotient or (quotient := flat(quotient)) is None:
                continue
            if quotient is None:
                return None
        if quotient in opened.terms:
            terms = dict(opened.terms)
            del terms[term]
            add(terms, dividend.terms, k)
            add(terms, {quotient: -c.data}, k)
            opened = TermSum(opened.const + k * dividend.const, terms)
    return opened


def _opened(total: TermSum, known: IntervalScope, is_whole: bool) -> Iterator[Candidate]:
    """The sum without remainders beside their quotients."""
    opened = opened_remainders(total, known, is_whole)
    if opened is None or opened is total:
        return
    form = Linear(opened.const, opened.terms)  # its text is in canonical order
    are_positive = min(opened.terms.values(), default=1) > 0
    opened = TermSum(opened.const, form.as_written().terms) if are_positive else sums.read(form.expr())
    joins = is_whole and any([_joins(term, k, opened) for term, k in opened.terms.items()])  # noqa: C419  # hot
    if not joins:  # else it is not irreducible
        yield "linear form", sums.write(opened)
    if is_whole and len(moved := [*_into_quotients(opened)]) == 1:
        yield "linear form", moved[0][1]


def _joins(term: Expr, k: int, total: TermSum) -> bool:
    """Whether a term is `(a + b) // c` and other terms of the total combine with a or b."""
    if term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST:
        return False
    others = total.terms
    return any([t in others and others[t] % k == 0 for t in sums.read(term.args[0]).terms])  # noqa: C419  # hot


def _without_small_part(total: TermSum, c: int, known: IntervalScope) -> Iterator[tuple[str, Any]]:
    """`(g*h + s) // (g*d)` as `(h + q) // d`, where `s // g` is always q; `None` where it may be q."""
    for g in sorted({gcd(c, k) for k in total.terms.values()} - {1}, reverse=True):
        ends = _ends_of(total.const, {term: k for term, k in total.terms.items() if k % g}, known)
        if ends is not None and ends[0] // g == ends[1] // g:
            large = {term: k // g for term, k in total.terms.items() if k % g == 0}
            inner = sums.write(TermSum(ends[0] // g, large))
            if known.is_part:
                yield "part too small to matter", None
            yield "part too small to matter", inner if c == g else make(ops.FLOORDIV, (inner, const(c // g)))


def _ends_of(offset: int, terms: Mapping[Expr, int], known: IntervalScope) -> tuple[int, int] | None:
    """The ends of a sum of variables with finite ranges."""
    low = high = offset
    for term, k in terms.items():
        first, last = known.intervals.get(term, (None, None)) if term.op is ops.VAR else (None, None)
        if first is None or last is None:
            return None
        low, high = low + k * (first if k > 0 else last), high + k * (last if k > 0 else first)
    return low, high


def _nearest_to_0(c: int) -> int:
    return -((c - 1) // 2)


def _reduced_dividend(total: TermSum, c: int, starts: tuple[int, ...]) -> Iterator[tuple[str, Expr]]:
    """The dividend with coefficients reduced modulo `c` to the residues from each start on."""
    for least in starts:
        near = {t: (k - least) % c + least for t, k in total.terms.items()}
        inner = sums.of(total.const % c, {t: k for t, k in near.items() if k})
        if inner != total:
            yield "congruent dividend", sums.write(inner)


def _coarser(a: Expr, c: int) -> Iterator[tuple[str, Expr]]:
    """`(g*x + k) // (g*d)` as `(x + k//g) // d`; `(c*x + y) // c` as `x + y//c`."""
    total = sums.read(a)
    g = gcd(c, *total.terms.values())
    if g > 1 and total.terms:
        inner = sums.write(sums.of(total.const // g, {t: k // g for t, k in total.terms.items()}))
        yield "common factor of terms and divisor", inner if c == g else make(ops.FLOORDIV, (inner, const(c // g)))
    whole = {t: k // c for t, k in total.terms.items() if k % c == 0}
    if whole and len(whole) < len(total.terms):
        few = {t: k for t, k in total.terms.items() if k % c}
        g = gcd(c, *few.values())
        rest = sums.of(total.const // g, {t: k // g for t, k in few.items()})
        quotient = make(ops.FLOORDIV, (sums.write(rest), const(c // g)))
        yield "multiples of the divisor", sums.write(sums.of(0, whole).plus(sums.of(0, {quotient: 1})))


def _taken_apart(e: Expr) -> tuple[int, list[Expr]]:
    """(k, factors) with `e = k * product(factors)`, no factor a constant."""
    parts = sums.factors_of(e)
    scale = prod(f.data for f in parts if f.op is ops.CONST)
    return scale, [f for f in parts if f.op is not ops.CONST]


def _product(scale: int, factors: list[Expr]) -> Expr:
    if not factors or scale == 0:
        return const(scale)
    e = sums.multiplied(factors)
    return e if scale == 1 else make(ops.MUL, (e, const(scale)))


def _times(e: Expr, scale: int, factors: list[Expr]) -> Expr:
    result = e if not factors else make(ops.MUL, (e, sums.multiplied(factors)))
    return result if scale == 1 else make(ops.MUL, (result, const(scale)))


# -- masks and casts ---------------------------------------------------------------------------------------------------


def bit_candidates(node: Expr, known: Normalizer) -> Iterator[tuple[str, Any]]:
    """Rewrites of a mask or a cast."""
    if node.op is ops.CAST:
        yield from _cast(node, known)
    elif node.op is ops.BITAND:
        for part, mask in (node.args, node.args[::-1]):
            if mask.op is ops.CONST and mask.data >= 0:
                yield from _masked(part, mask)


def _cast(node: Expr, known: Normalizer) -> Iterator[tuple[str, Any]]:
    (inner,) = node.args
    low, high = known.bounds(known.form(inner))
    least, most = _range(node)
    if low is not None and high is not None and least <= low and high <= most:
        yield "cast of what fits", inner
    if inner.op is ops.CAST:
        inner_least, inner_most = _range(inner)
        if least <= inner_least and inner_most <= most:
            yield "cast of what fits", inner
        if node.data[0] <= inner.data[0]:
            yield "cast of a wider cast", make(ops.CAST, inner.args, node.data)


def _range(node: Expr) -> tuple[int, int]:
    """Least and greatest value of the target type of a cast."""
    bits, signed = node.data
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)


def _masked(part: Expr, mask: Expr) -> Iterator[tuple[str, Any]]:
    """Drop terms that are multiples of a power of two above the mask."""
    total, above = sums.read(part), 1 << mask.data.bit_length()
    inner = sums.of(total.const % above, {t: k for t, k in total.terms.items() if k % above})
    if inner != total:
        yield "above the mask", folded(ops.BITAND, (sums.write(inner), mask))

"""Sums: written anew with few operations, and candidates in which addends move into, or come out of, a choice.

min(x, y) + z = min(x + z, y + z)        z - min(x, y) = max(z - x, z - y)        and so for max
select(p, x, y) + z = select(p, x + z, y + z)
select(p, x, y) + select(p, z, w) = select(p, x + z, y + w)           and with ~p, z and w turned
min(x, y) + max(x, y) = x + y            max(x, y) - min(x, y) = abs(x - y)
abs(x - y) = 2*max(x, y) - x - y = x + y - 2*min(x, y)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from intset.expr import ops
from intset.expr.node import Cond, Expr, make
from intset.expr.ops import Op
from intset.expr.walk import chain
from intset.simplify import quotients, sums
from intset.simplify.comparisons import MIRRORED
from intset.simplify.conditions import negated
from intset.simplify.lattice import MAX_OPERANDS, OPPOSITE, folded_chain
from intset.simplify.order import Order
from intset.simplify.sums import Sum

MAX_TERMS: Final = 16  # of a longer sum no candidate is tried

Candidate = tuple[str, Expr]  # rule, expression


def written(node: Expr) -> Iterator[tuple[str, Expr]]:
    """The sum with equal terms together and common factors outside."""
    yield "terms collected", sums.write(sums.read(node))


def candidates(node: Expr, order: Order) -> Iterator[Candidate]:
    """What else the sum may be written as; some of it is shorter only after its parts are simplified."""
    total = sums.read(node)
    if not 0 < len(total.terms) <= MAX_TERMS:
        return
    yield from quotients.candidates(total, order)
    yield from _cancelled(total)
    yield from _sizes(total)
    yield from _pairs(total)
    for term, k in total.terms.items():
        if (term.op is ops.MIN or term.op is ops.MAX) and k < 0:
            yield from _turned(total, term, k)
    for term, k in total.terms.items():
        if term.op is ops.MIN or term.op is ops.MAX:
            yield from _into_bound(total, term, k)
            yield from _into_chain(total, term, k)
        elif term.op is ops.SELECT:
            yield from _into_branches(total, term, k)


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


def _cancelled(total: Sum) -> Iterator[Candidate]:
    """The sum without two bounds that differ by a constant: of operands in whatever order and grouping."""
    seen: list[tuple[Expr, Op, _Operands]] = []
    for term, k in total.terms.items():
        if term.op not in OPPOSITE and term.op is not ops.ABS:
            continue
        op, operands = _as_bound(term, k)
        for other, its_op, its_operands in seen:
            if op is not its_op and (constant := _opposite(operands, its_operands)) is not None:
                after = total.without(term).without(other).plus(Sum(constant, {}))
                yield "bounds of the same", sums.write(after)
        seen.append((term, op, operands))


def _sizes(total: Sum) -> Iterator[Candidate]:
    """abs(x - y) with min(x, y) or max(x, y) beside it: it is 2*max(x, y) - x - y, and x + y - 2*min(x, y)."""
    for term, k in total.terms.items():
        if term.op is not ops.ABS:
            continue
        size = sums.read(term.args[0])
        if len(total.terms) > 1:
            high = Sum(max(size.const, 0), {t: w for t, w in size.terms.items() if w > 0})
            low = high.plus(size, -1)
            for op, sign in ((ops.MAX, 1), (ops.MIN, -1)):
                made = make(op, (sums.write(high), sums.write(low)))
                after = total.without(term).plus(high, -k * sign).plus(low, -k * sign)
                yield "size as a bound", sums.write(after.plus(Sum(0, {made: 2 * k * sign})))
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
            yield "size and bound", sums.write(rest.plus(both, other - k).plus(Sum(0, {as_max: mine + 2 * k})))
            mine, other = (m, 0) if bound.op is ops.MIN else (-m, m)
            yield "size and bound", sums.write(rest.plus(both, other + k).plus(Sum(0, {as_min: mine - 2 * k})))


_Operands = dict[frozenset[tuple[Expr, int]], int]  # the constant of each operand by its terms


def _as_bound(term: Expr, k: int) -> tuple[Op, _Operands]:
    """`k * term` as min or max of sums."""
    if term.op is ops.ABS:
        inner = sums.scaled(sums.read(term.args[0]), k)
        op, parts = (ops.MAX if k > 0 else ops.MIN), [inner, sums.scaled(inner, -1)]
    else:
        op = term.op if k > 0 else OPPOSITE[term.op]
        parts = [sums.scaled(sums.read(arg), k) for arg in chain(term.op, term)]
    return op, {frozenset(part.terms.items()): part.const for part in parts}


def _opposite(a: _Operands, b: _Operands) -> int | None:
    """d where the operands of one bound are d minus those of the other: min(a_i) + max(d - a_i) = d."""
    found = None
    for terms, c in a.items():
        other = b.get(frozenset((t, -k) for t, k in terms))
        if other is None or found is not None and c + other != found:
            return None
        found = c + other
    return found if len(a) == len(b) else None


# -- addends into choices -------------------------------------------------------------------------------------------


def _into_bound(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    for part in _movable(rest, term.args):
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


def _into_chain(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    """`min(a + z, b, c) - z` as `min(a, min(b, c) - z)`: operands that have none of what is moved stay together."""
    operands = chain(term.op, term)
    if not 2 < len(operands) <= MAX_OPERANDS or abs(k) != 1:
        return
    rest = total.without(term)
    read = [sums.read(operand) for operand in operands]
    for t, c in rest.terms.items():
        meets = [n for n, one in enumerate(read) if one.terms.get(t, 0) == -c * k]
        if not meets or len(meets) == len(read):
            continue
        part = Sum(0, {t: c * k})  # k is its own inverse
        others = sums.read(folded_chain(term.op, [one for n, one in enumerate(operands) if n not in meets]))
        inner = folded_chain(term.op, [sums.write(one.plus(part)) for one in (*(read[n] for n in meets), others)])
        yield f"addends into {term.op.name}", sums.write(rest.without(t).plus(Sum(0, {inner: k})))


def _turned(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    """A bound that is taken away, with its operands negated: it pays where one of them is written with a minus."""
    args = [sums.scaled(sums.read(arg), -1) for arg in term.args]
    if any(c > 0 for arg in args for c in arg.terms.values()):
        turned = make(OPPOSITE[term.op], tuple(map(sums.write, args)))
        yield f"negated {term.op.name}", sums.write(total.without(term).plus(Sum(0, {turned: -k})))


def _into_branches(total: Sum, term: Expr, k: int) -> Iterator[Candidate]:
    rest = total.without(term)
    cond, yes, no = term.args
    parts = _movable(rest, (yes, no))
    if k != 1 and yes.op is ops.CONST and no.op is ops.CONST:
        parts.append(Sum(0, {}))
    for part in parts:
        arms = [sums.write(sums.scaled(sums.read(arm), k).plus(part)) for arm in (yes, no)]
        made = make(ops.SELECT, (cond, *arms))
        yield "addends into branches", sums.write(rest.plus(part, -1).plus(Sum(0, {made: 1})))


def _movable(rest: Sum, args: tuple[Expr, ...]) -> list[Sum]:
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
    return parts


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

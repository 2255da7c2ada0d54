"""Rewrites of choices: `select`, and chains of `min` and `max`.

select(p, x + z, y + z) = select(p, x, y) + z          select(p, k*x, k*y) = k * select(p, x, y)
select(x < y, a, b) = min(a, b)                        where a - b is a positive multiple of x - y
min(x, y) = x                                          where x <= y
min(x + z, y + z) = min(x, y) + z
min(k*x, k*y) = k * min(x, y)                          where k > 0;  = k * max(x, y) where k < 0
max(x, -x) = abs(x)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Final

from intset.budgets import COMPARED_OPERANDS
from intset.expr import ops
from intset.expr.dag import chain, free_vars, is_small, postorder, reachable, substitute
from intset.expr.node import Cond, Expr, Node, Var, make
from intset.expr.ops import Op
from intset.linear.canonical import Normalizer
from intset.simplify import sums
from intset.simplify.order import OrderDecider
from intset.simplify.pattern import folded

SIMPLIFIED_ARM: Final = 48  # nodes of a select whose arms are read under its condition, a quarter a level
COMPARED_ARMS: Final = 16  # nodes of arms that are compared under the condition


def readers(known: Normalizer, choice: Node) -> tuple[Normalizer, Normalizer]:
    """Normalizers for both arms of a select, each narrowed by the condition; large selects are not narrowed."""
    cond = choice.args[0]
    if not is_small(SIMPLIFIED_ARM >> (2 * known.depth), choice.args):
        return known, known
    return known.narrowed(cond), known.narrowed(~cond)


_PARTIAL = frozenset((*ops.DIVISIONS, ops.LOAD, ops.SHL, ops.SHR, ops.ASSERTING))
_LAZY = (ops.SELECT, ops.AND, ops.OR)  # evaluate the first operand always, the others by need


def is_total(*roots: Node) -> bool:
    """Whether the operations below the roots are defined everywhere."""
    return not any(node.op in _PARTIAL and not _by_constant(node) for node in postorder(roots))


def is_as_total(new: Node, old: Node) -> bool:
    """Whether `new` is defined wherever `old` is: `old` evaluates every partial operation of `new` unconditionally."""
    partial = [node for node in postorder((new,)) if node.op in _PARTIAL and not _by_constant(node)]
    if not partial:
        return True
    reached = reachable([old], lambda node: node.args[:1] if node.op in _LAZY else node.args)
    return all(node in reached for node in partial)


def _by_constant(node: Node) -> bool:
    return node.op in ops.DIVISIONS and node.args[1].op is ops.CONST and node.args[1].data != 0


def select_candidates(node: Expr) -> Iterator[tuple[str, Expr]]:
    """Move addends and factors common to both branches out of a select.

    Guarantee: no new partial evaluation, because both branches evaluate the common part.
    """
    cond, yes, no = node.args
    a, b = sums.read(yes), sums.read(no)
    shared = sums.common(a, b)
    if shared.terms or shared.const:
        rest = make(ops.SELECT, (cond, sums.write(a.plus(shared, -1)), sums.write(b.plus(shared, -1))))
        yield "common addends of branches", sums.write(sums.of(0, {rest: 1}).plus(shared))
    if cond.op in ORDERED and (bound := _bound(cond, a, b)) is not None:
        yield "bound spelled by a difference", make(bound, (yes, no))
    g = gcd(a.const, b.const, *a.terms.values(), *b.terms.values())
    negative = bool(a.terms or b.terms) and all(k < 0 for one in (a, b) for k in (*one.terms.values(), one.const) if k)
    for k in (-g,) if negative else (g,) if g > 1 else ():
        x, y = a.divided(k), b.divided(k)
        if x is not None and y is not None:
            rest = make(ops.SELECT, (cond, sums.write(x), sums.write(y)))
            yield "common factor of branches", sums.write(sums.of(0, {rest: k}))


def into_branches(node: Expr) -> Iterator[tuple[str, Expr]]:
    """Distribute an operation on a select and constants over the branches."""
    places = [k for k, arg in enumerate(node.args) if arg.op is ops.SELECT]
    if len(places) != 1 or any(arg.op is not ops.CONST for k, arg in enumerate(node.args) if k != places[0]):
        return
    (position,) = places
    choice = node.args[position]
    arms = [
        folded(node.op, tuple(arm if k == position else arg for k, arg in enumerate(node.args)), node.data)
        for arm in choice.args[1:]
    ]
    if None not in arms:
        yield f"{node.op.name} of branches", make(ops.SELECT, (choice.args[0], *arms))


def by_equation(node: Expr, known: Normalizer) -> Iterator[tuple[str, Expr]]:
    """`select(x == d, a, b)` as b where both arms agree at x = d; else with d for x in a. Dually for `x != d`."""
    cond = node.args[0]
    if cond.op is not ops.EQ and cond.op is not ops.NE:
        return
    at, off = node.args[1:] if cond.op is ops.EQ else node.args[:0:-1]
    for var, value in _solved(cond):
        if not is_small(SIMPLIFIED_ARM, (at, off, value)):
            continue
        there = substitute(at, {var: value})
        if is_total(off) and known.form(there).same(known.form(substitute(off, {var: value}))):
            yield "branches equal where the equation holds", off
        if there is not at:
            arms = (there, off) if cond.op is ops.EQ else (off, there)
            yield "value from the equation", make(ops.SELECT, (cond, *arms))


def as_bound(node: Expr, known: Normalizer) -> Iterator[tuple[str, Expr]]:
    """The select as min or max, where the condition orders its arms and the negation orders them in reverse."""
    cond, a, b = node.args
    if cond.op not in ORDERED or not is_total(a, b) or not is_small(COMPARED_ARMS, (a, b)):
        return
    yes, no = readers(known, node)
    for first, second, op in ((a, b, ops.MIN), (b, a, ops.MAX)):
        if _at_most(yes, first, second) and _at_most(no, second, first):
            yield "the condition decides which is taken", make(op, (a, b))


def _at_most(known: Normalizer, a: Expr, b: Expr) -> bool:
    return known.is_nonneg(known.form(b).minus(known.form(a)))


def _solved(equation: Cond) -> Iterator[tuple[Var, Expr]]:
    """(variable, value) for each variable with a unit coefficient in a linear equation."""
    total = sums.read(equation.args[0]).plus(sums.read(equation.args[1]), -1)
    for term, k in total.terms.items():
        if isinstance(term, Var) and abs(k) == 1:
            value = sums.scaled(total.without(term), -k)
            if all(term not in free_vars(t) for t in value.terms):
                yield term, sums.write(value)


ORDERED: Final = {ops.LT: 1, ops.LE: 1, ops.GT: -1, ops.GE: -1}  # the sign of (right - left) where it holds


def _bound(cond: Cond, a: sums.TermSum, b: sums.TermSum) -> ops.Op | None:
    """MIN or MAX where the condition compares the difference of the branches.

    With d < 0 for the condition and a - b = k*(d + s), both signs agree for any s from 0 to 1: d is an integer.
    """
    between = sums.read(cond.args[0]).plus(sums.read(cond.args[1]), -1)
    if ORDERED[cond.op] < 0:
        between = sums.scaled(between, -1)
    if cond.op in (ops.LE, ops.GE):
        between = between.plus(sums.of(-1, {}))
    taken = a.plus(b, -1)
    if not between.terms or between.terms.keys() != taken.terms.keys():
        return None
    term = next(iter(taken.terms))
    ratio, rest = divmod(taken.terms[term], between.terms[term])
    if rest or taken.terms != sums.scaled(between, ratio).terms:
        return None
    low, high = sorted((between.const * ratio, (between.const + 1) * ratio))
    if not low <= taken.const <= high:  # s need not be an integer
        return None
    return ops.MIN if ratio > 0 else ops.MAX


# -- min and max -------------------------------------------------------------------------------------------------------


OPPOSITE: Final = {ops.MIN: ops.MAX, ops.MAX: ops.MIN}


def folded_chain(op: Op, operands: list[Expr]) -> Expr:
    result = operands[0]
    for operand in operands[1:]:
        result = make(op, (result, operand))
    return result


def bound_candidates(node: Expr, order: OrderDecider) -> Iterator[tuple[str, Expr]]:
    """Rewrites of a min or max chain: dominated operands dropped, common addends and factors moved out."""
    op = node.op
    operands = chain(op, node)
    if len(operands) > COMPARED_OPERANDS:
        a, b = node.args
        if a is b:
            yield "equal operands", a
        return
    kept = _undominated(op, operands, order)
    if len(kept) < _leaves(op, node):
        yield f"order decides {op.name}", folded_chain(op, kept)
        return
    read = [sums.read(operand) for operand in kept]
    shared = read[0]
    for other in read[1:]:
        shared = sums.common(shared, other)
    if shared.const or shared.terms:
        rest = folded_chain(op, [sums.write(one.plus(shared, -1)) for one in read])
        yield f"common addends of {op.name}", sums.write(sums.of(0, {rest: 1}).plus(shared))
        return
    if len(kept) == 2 and (least := _least_common(*read)).terms:
        rest = folded_chain(op, [sums.write(one.plus(least, -1)) for one in read])
        yield f"common part of addends of {op.name}", sums.write(sums.of(0, {rest: 1}).plus(least))
    opened = _opened(op, read)
    if opened is not None and len(few := _undominated(op, opened, order)) < len(opened):
        yield f"order decides {op.name}", folded_chain(op, few)
    if len(kept) == 2 and read[0].plus(read[1]) == sums.of(0, {}):
        size = make(ops.ABS, (kept[0],))
        yield "a number and its negative", size if op is ops.MAX else make(ops.NEG, (size,))
    if len(kept) > 2:
        yield from _pairs_with_common_addends(op, kept, read)
    g = 0
    for one in read:
        g = gcd(g, one.const, *one.terms.values())
    if all(k < 0 for one in read for k in one.terms.values()):
        g = -g
    if g not in (0, 1):
        parts = [one.divided(g) for one in read]
        inner = [sums.write(part) for part in parts if part is not None]
        if len(inner) == len(parts):
            chained = folded_chain(op if g > 0 else OPPOSITE[op], inner)
            yield f"common factor of {op.name}", sums.write(sums.of(0, {chained: g}))


def _least_common(a: sums.TermSum, b: sums.TermSum) -> sums.TermSum:
    """Terms with the same sign in both sums, each with the smaller coefficient."""
    terms = {t: min(k, b.terms.get(t, 0), key=abs) for t, k in a.terms.items() if k * b.terms.get(t, 0) > 0}
    return sums.of(0, terms)


def _opened(op: Op, operands: list[sums.TermSum]) -> list[Expr] | None:
    """The operands with min(a, b)*k + r written as a*k + r and b*k + r; `None` where there is no such operand."""
    opened_operands: list[Expr] = []
    is_open = False
    for total in operands:
        inner = next((t for t, k in total.terms.items() if t.op is (op if k > 0 else OPPOSITE[op])), None)
        if inner is None:
            opened_operands.append(sums.write(total))
            continue
        is_open = True
        k, rest = total.terms[inner], total.without(inner)
        opened_operands += [sums.write(rest.plus(sums.read(arg), k)) for arg in chain(inner.op, inner)]
    return opened_operands if is_open and len(opened_operands) <= COMPARED_OPERANDS else None


def _leaves(op: Op, node: Expr) -> int:
    """Number of operands with repetitions, counted up to `COMPARED_OPERANDS + 1`."""
    count, stack = 0, [node]
    while stack and count <= COMPARED_OPERANDS:
        e = stack.pop()
        if e.op is op:
            stack.extend(e.args)
        else:
            count += 1
    return count


def _undominated(op: Op, operands: list[Expr], order: OrderDecider) -> list[Expr]:
    kept: list[Expr] = []
    for e in operands:
        if any(_dominates(op, other, e, order) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(op, e, other, order)]
        kept.append(e)
    return kept


def _dominates(op: Op, a: Expr, b: Expr, order: OrderDecider) -> bool:
    return order.is_at_most(a, b) if op is ops.MIN else order.is_at_most(b, a)


def _pairs_with_common_addends(op: Op, kept: list[Expr], read: list[sums.TermSum]) -> Iterator[tuple[str, Expr]]:
    for i in range(len(kept)):
        for j in range(i):
            shared = sums.common(read[i], read[j])
            if shared.terms:
                rest = folded_chain(op, [sums.write(read[k].plus(shared, -1)) for k in (j, i)])
                whole = sums.write(sums.of(0, {rest: 1}).plus(shared))
                others = [e for k, e in enumerate(kept) if k not in (i, j)]
                yield f"common addends of two of {op.name}", folded_chain(op, [whole, *others])

"""Chains of min, and of max: operands that another one makes superfluous, and what operands share.

min(x, y) = x                    where x <= y
min(x + z, y + z) = min(x, y) + z
min(k*x, k*y) = k * min(x, y)    where k > 0;  = k * max(x, y)  where k < 0
max(x, -x) = abs(x)
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Final

from intset.expr import ops
from intset.expr.node import Expr, make
from intset.expr.ops import Op
from intset.expr.walk import chain
from intset.simplify import sums
from intset.simplify.order import Order

MAX_OPERANDS: Final = 12  # of a longer chain only neighbours are compared
OPPOSITE: Final = {ops.MIN: ops.MAX, ops.MAX: ops.MIN}


def folded_chain(op: Op, operands: list[Expr]) -> Expr:
    result = operands[0]
    for operand in operands[1:]:
        result = make(op, (result, operand))
    return result


def candidates(node: Expr, order: Order) -> Iterator[tuple[str, Expr]]:
    """The chain with fewer operands, or with what all operands share outside of it."""
    op = node.op
    operands = chain(op, node)
    if len(operands) > MAX_OPERANDS:
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


def _least_common(a: sums.Sum, b: sums.Sum) -> sums.Sum:
    """Of each term that both sums add, or both take away, as much as both have."""
    terms = {t: min(k, b.terms.get(t, 0), key=abs) for t, k in a.terms.items() if k * b.terms.get(t, 0) > 0}
    return sums.of(0, terms)


def _opened(op: Op, operands: list[sums.Sum]) -> list[Expr] | None:
    """The operands with min(a, b)*k + r written as a*k + r and b*k + r; `None` where there is no such operand."""
    found: list[Expr] = []
    is_open = False
    for total in operands:
        inner = next((t for t, k in total.terms.items() if t.op is (op if k > 0 else OPPOSITE[op])), None)
        if inner is None:
            found.append(sums.write(total))
            continue
        is_open = True
        k, rest = total.terms[inner], total.without(inner)
        found += [sums.write(rest.plus(sums.read(arg), k)) for arg in chain(inner.op, inner)]
    return found if is_open and len(found) <= MAX_OPERANDS else None


def _leaves(op: Op, node: Expr) -> int:
    """How many operands are written, those that are met twice twice; counted up to one more than is looked at."""
    count, stack = 0, [node]
    while stack and count <= MAX_OPERANDS:
        e = stack.pop()
        if e.op is op:
            stack.extend(e.args)
        else:
            count += 1
    return count


def _undominated(op: Op, operands: list[Expr], order: Order) -> list[Expr]:
    kept: list[Expr] = []
    for e in operands:
        if any(_dominates(op, other, e, order) for other in kept):
            continue
        kept = [other for other in kept if not _dominates(op, e, other, order)]
        kept.append(e)
    return kept


def _dominates(op: Op, a: Expr, b: Expr, order: Order) -> bool:
    return order.is_at_most(a, b) if op is ops.MIN else order.is_at_most(b, a)


def _pairs_with_common_addends(op: Op, kept: list[Expr], read: list[sums.Sum]) -> Iterator[tuple[str, Expr]]:
    for i in range(len(kept)):
        for j in range(i):
            shared = sums.common(read[i], read[j])
            if shared.terms:
                rest = folded_chain(op, [sums.write(read[k].plus(shared, -1)) for k in (j, i)])
                whole = sums.write(sums.of(0, {rest: 1}).plus(shared))
                others = [e for k, e in enumerate(kept) if k not in (i, j)]
                yield f"common addends of two of {op.name}", folded_chain(op, [whole, *others])

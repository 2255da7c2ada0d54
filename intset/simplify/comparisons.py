"""Rewrites of comparisons: based on the difference of both sides, or on decided operands of a choice.

    x + z <= y + z             = x <= y
    k*x + s <= k*y + c         = x <= y + q     where (c - s) // k is always q
    x // c <= y                = x < (y + 1) * c, c > 0
    g*x + s == 0               = (x + q == 0) & (s == g*q)     where s is a multiple of g for that q alone
    min(x, y) < z              = x < z          where y >= z;  = (x < z) | (y < z) in general
    select(p, x, y) < z        = p & (x < z)    where y >= z, and so on

The direction of the comparison is kept; strictness changes only for a shorter text; constants stand on the right.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import TYPE_CHECKING, Final

from intset.expr import ops
from intset.expr.node import Cond, Expr, as_cond, const, make, truth
from intset.expr.ops import Op
from intset.linear.assumptions import Clause
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom
from intset.simplify import choices, sums
from intset.simplify.order import OrderDecider
from intset.simplify.pattern import folded
from intset.simplify.sums import TermSum

if TYPE_CHECKING:
    from intset.simplify.engine import Simplifier

MIRRORED: Final = {ops.LT: ops.GT, ops.LE: ops.GE, ops.GT: ops.LT, ops.GE: ops.LE, ops.EQ: ops.EQ, ops.NE: ops.NE}
_OTHER_STRICTNESS: Final = {ops.LT: ops.LE, ops.LE: ops.LT, ops.GT: ops.GE, ops.GE: ops.GT}
_STRICT: Final = (ops.LT, ops.GT)
_UPWARD: Final = (ops.GT, ops.GE)
NESTED_GROWTH: Final = {"difference of the sides": 3}  # of the cost, where the comparison is a candidate itself
Candidate = tuple[str, Cond]  # rule, condition


def clause_of(known: Normalizer, cond: Cond) -> Clause | None:
    """An undecided comparison as a clause: a kind (>=, ==, !=) and a form compared with 0."""
    if cond.op not in ops.COMPARISONS:
        return None
    clauses = known.clauses(cond)
    return clauses[0] if len(clauses) == 1 and isinstance(clauses[0], tuple) else None


def comparison_candidates(s: Simplifier, node: Cond, known: Normalizer) -> Iterator[Candidate]:
    """Rewrites of a comparison."""
    yield from _choices(s, node, known)
    clause = clause_of(known, node)
    if clause is None:
        return
    yield from _own_difference(s, node)
    yield from _congruence(node)
    kind, form = clause
    order = s.order(known)
    yield from _at_an_end(s, kind, form, order)
    for less in _without_factor(kind, form, order):
        yield "factor of one sign", stated(s, node.op, kind, sum_of_form(less), node)
    for one in _readings(known, form):
        difference = stated(s, node.op, kind, sum_of_form(one), node)
        if s.is_better(s.price(difference), s.price(node)) or not _reads_as(difference, node):
            yield "difference of the sides", difference
    if kind is not ops.GE:
        yield from _digits(s, known, kind, form, node)
    else:
        coarser = _without_small_part(known, form)
        if coarser is not None:
            yield "part too small to matter", stated(s, node.op, kind, sum_of_form(coarser), node)
        for multiplied in _without_quotient(known, form):
            for one in _readings(known, multiplied):
                yield "bound of a quotient", stated(s, node.op, kind, sum_of_form(one), node)


def _reads_as(a: Cond, b: Cond) -> bool:
    """Whether two comparisons differ in the order of addends alone."""
    return a.op is b.op and all(sums.read(x) == sums.read(y) for x, y in zip(a.args, b.args, strict=True))


def _readings(known: Normalizer, form: Linear) -> tuple[Linear, ...]:
    regrouped = known.regroup(form)
    return (form,) if regrouped is form else (form, regrouped)


def sum_of_form(form: Linear) -> TermSum:
    return TermSum(form.const, dict(form.ordered()))


def _own_difference(s: Simplifier, node: Cond) -> Iterator[Candidate]:
    """Both sides as written, without common terms."""
    a, b = (sums.read(arg) for arg in node.args)
    difference = a.plus(b, -1)
    if len(difference.terms) + bool(difference.const) >= len(a.terms) + len(b.terms) + bool(a.const) + bool(b.const):
        return
    op = node.op
    if op in (ops.EQ, ops.NE):
        yield "common terms of the sides", stated(s, op, op, difference, node)
        return
    form = difference if op in _UPWARD else sums.scaled(difference, -1)
    form = form.plus(TermSum(-1, {})) if op in _STRICT else form
    yield "common terms of the sides", stated(s, op, ops.GE, form, node)


def stated(s: Simplifier, op: Op, kind: Op, form: TermSum, like: Cond | None = None) -> Cond:
    """Write `form >= 0`, `== 0` or `!= 0` in the direction of `op`, in the strictness with the shorter text."""
    if kind is not ops.GE:
        chosen: Op = kind
        return _equation(chosen, form, like)
    if op not in _OTHER_STRICTNESS:
        op = ops.GE
    first = _inequality(op, form)
    other = _inequality(_OTHER_STRICTNESS[op], form)
    return other if s.price(other) < s.price(first) else first


def _parts(form: TermSum) -> tuple[dict[Expr, int], dict[Expr, int]]:
    return ({t: k for t, k in form.terms.items() if k > 0}, {t: -k for t, k in form.terms.items() if k < 0})


def _inequality(op: Op, form: TermSum) -> Cond:
    """`form >= 0` by `op`: P + d >= N with the positive terms P and the negative ones N."""
    high, low = _parts(form)
    d = form.const + 1 if op in _STRICT else form.const
    if not low:
        upper, lower = TermSum(0, high), TermSum(-d, {})
    elif not high or d > 0:
        upper, lower = TermSum(d, high), TermSum(0, low)
    else:
        upper, lower = TermSum(0, high), TermSum(-d, low)
    left, right = (upper, lower) if op in _UPWARD else (lower, upper)
    return _constant_right(op, left, right)


def _equation(op: Op, form: TermSum, like: Cond | None) -> Cond:
    high, low = _parts(form)
    d = form.const
    if not low:
        return _constant_right(op, TermSum(0, high), TermSum(-d, {}))
    if not high:
        return _constant_right(op, TermSum(0, low), TermSum(d, {}))
    left, right = (TermSum(d, high), TermSum(0, low)) if d > 0 else (TermSum(0, high), TermSum(-d, low))
    first = next(iter(sums.read(like.args[0]).terms), None) if like is not None else None
    if first is not None and first in low and first not in high:
        left, right = right, left
    return _constant_right(op, left, right)


def _constant_right(op: Op, left: TermSum, right: TermSum) -> Cond:
    if not left.terms and right.terms:
        left, right, op = right, left, MIRRORED[op]
    answer: Cond = make(op, (sums.write(left), sums.write(right)))
    return answer


# -- forms against 0 ----------------------------------------------------------------------------------------------


def _without_small_part(known: Normalizer, form: Linear) -> Linear | None:
    """`g*h + s >= 0` as `h + q >= 0`, where `s // g` is always q."""
    if len(form.terms) < 2:
        return None
    for g in sorted({abs(k) for k in form.terms.values() if abs(k) > 1}, reverse=True):
        fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
        if not fine.terms:
            continue
        low, high = known.bounds(fine)
        if low is not None and high is not None and low // g == high // g:
            return Linear(low // g, {t: k // g for t, k in form.terms.items() if k % g == 0})
    return None


def _digits(s: Simplifier, known: Normalizer, kind: Op, form: Linear, like: Cond) -> Iterator[Candidate]:
    """`g*h + s == 0` as `(h + q == 0) & (s == g*q)`, where s is a multiple of g for that q alone."""
    for g in sorted({abs(k) for k in form.terms.values() if abs(k) > 1}, reverse=True):
        fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
        if not 0 < len(fine.terms) < len(form.terms):
            continue
        low, high = known.bounds(fine)
        if low is None or high is None or -(-low // g) != high // g:
            continue
        q = high // g
        coarse = TermSum(q, {t: k // g for t, k in form.ordered() if k % g == 0})
        parts = (_equation(kind, coarse, like), _equation(kind, sum_of_form(fine.shift(-g * q)), like))
        yield "digit by digit", make(ops.AND if kind is ops.EQ else ops.OR, parts)


def _congruence(node: Cond) -> Iterator[Candidate]:
    """`(k*x + y + a) % c == b` with nothing added, and the first coefficient 1 where it has an inverse."""
    e, right = node.args
    if e.op is not ops.FLOORMOD or right.op is not ops.CONST or e.args[1].op is not ops.CONST:
        return
    c, r = e.args[1].data, right.data
    op = node.op
    if c == 2 and op in (ops.LT, ops.LE, ops.GT, ops.GE):  # one of two values
        low, high = (folded(op, (const(k), right)) for k in (0, 1))
        if low is high:
            return
        op, r = ops.EQ, 1 if high.data else 0
    if op not in (ops.EQ, ops.NE) or c < 2 or not 0 <= r < c:
        return
    total = sums.read(e.args[0])
    for unit in dict.fromkeys((1, *(k for k in total.terms.values() if gcd(k, c) == 1))):
        inverse = pow(unit, -1, c)
        terms = {t: _nearest(k * inverse, c) for t, k in total.terms.items()}
        remainder = make(ops.FLOORMOD, (sums.write(sums.of(0, {t: k for t, k in terms.items() if k})), e.args[1]))
        yield "congruence", make(op, (remainder, const((r - total.const) * inverse % c)))


def _nearest(k: int, c: int) -> int:
    """The residue of k modulo c nearest to 0."""
    rest = k % c
    return rest - c if 2 * rest > c else rest


def _at_an_end(s: Simplifier, kind: Op, form: Linear, order: OrderDecider) -> Iterator[Candidate]:
    """`form == 0` as `form <= 0` where form is nowhere below 0, and the other way round; `!=` and `>` likewise."""
    bounds: list[tuple[Op, Linear]] = []
    if kind is ops.GE:
        if order.is_nonneg(form.scale(-1)):
            bounds.append((ops.EQ, form))
        elif order.is_nonneg(form.shift(1)):
            bounds.append((ops.NE, form.shift(1)))
    elif order.is_nonneg(form):
        bounds.append((ops.GE, form.scale(-1) if kind is ops.EQ else form.shift(-1)))
    elif order.is_nonneg(form.scale(-1)):
        bounds.append((ops.GE, form if kind is ops.EQ else form.scale(-1).shift(-1)))
    for other, bound in bounds:
        for one in _readings(order.known, bound):
            yield "end of what it may be", stated(s, ops.LE if other is ops.GE else other, other, sum_of_form(one))


def _without_factor(kind: Op, form: Linear, order: OrderDecider) -> Iterator[Linear]:
    """The form against 0 without a factor that is nowhere 0, divided by its sign: f*r >= 1 where r >= 1, f > 0."""
    strict = 1 if kind is ops.GE and form.const == -1 else 0
    for factor, rest in order.factored(form.shift(strict)):
        if order.known.is_positive(atom(factor)):
            yield rest.shift(-strict)
        elif order.known.is_positive(atom(factor).scale(-1)):
            yield rest.scale(-1).shift(-strict)


def _without_quotient(known: Normalizer, form: Linear) -> Iterator[Linear]:
    """`x//c + r >= 0` as `x + c*r >= 0`; `r - x//c >= 0` as `c*r + c - 1 - x >= 0`; c > 0."""
    for term, k in form.terms.items():
        if abs(k) != 1 or term.op is not ops.FLOORDIV or term.args[1].op is not ops.CONST:
            continue
        c = term.args[1].data
        if c < 1:
            continue
        rest = Linear(form.const, {t: w for t, w in form.terms.items() if t is not term})
        inner = known.form(term.args[0])
        if k > 0:
            yield inner.plus(rest, c)
        else:
            yield rest.scale(c).shift(c - 1).minus(inner)


# -- choices --------------------------------------------------------------------------------------------------------


def _choices(s: Simplifier, node: Cond, known: Normalizer) -> Iterator[Candidate]:
    """Resolve a choice on one side of a comparison by the operands whose comparison is decided."""
    for side in (0, 1):
        choice, other = node.args[side], node.args[1 - side]
        if choice.op is ops.MIN or choice.op is ops.MAX:
            if node.op not in _OTHER_STRICTNESS:
                continue
            parts = [_with(node, side, arg, other) for arg in choice.args]
            order = s.order(known)
            for k in (0, 1):
                verdict = order.decided(parts[k])
                if verdict is None:
                    continue
                is_least = (node.op in _UPWARD) is (side == 1)  # the choice is on the smaller side
                either = (choice.op is ops.MIN) is is_least
                if verdict is not either:
                    yield f"bounded side of {choice.op.name}", parts[1 - k]
        elif choice.op is ops.SELECT:
            yield from _by_branches(s, node, side, choice, other, known)


def _with(node: Cond, side: int, arg: Expr, other: Expr) -> Cond:
    return as_cond(make(node.op, (arg, other) if side == 0 else (other, arg)))


def _by_branches(
    s: Simplifier, node: Cond, side: int, choice: Expr, other: Expr, known: Normalizer
) -> Iterator[Candidate]:
    """`select(p, x, y) < z`, where p decides `x < z` or the negation of p decides `y < z`."""
    p = choice.args[0]
    parts = [_with(node, side, arm, other) for arm in choice.args[1:]]
    yes, no = (
        s.order(reader).decided(part) for reader, part in zip(choices.readers(known, choice), parts, strict=True)
    )
    rule = "a branch decides"
    if yes is not None and yes is no:
        yield rule, truth(yes)
        return
    if yes is True:
        yield rule, p if no is False else make(ops.OR, (p, parts[1]))
    elif yes is False:
        yield rule, make(ops.NOT, (p,)) if no is True else make(ops.AND, (make(ops.NOT, (p,)), parts[1]))
    elif no is True:
        yield rule, make(ops.OR, (make(ops.NOT, (p,)), parts[0]))
    elif no is False:
        yield rule, make(ops.AND, (p, parts[0]))

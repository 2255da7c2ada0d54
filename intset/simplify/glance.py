"""What is seen at a glance to be as cheap as it gets: sums of few terms, their quotients and remainders by constants,
comparisons of these with constants, conjunctions and disjunctions of such comparisons, and the smaller or greater of a
sum of variables and a constant.

`settled(e, known)` guarantees: the answer, if there is one, is what the walk of `engine.py` makes of `e`: `e` itself, a
comparison, minimum or maximum with its constant on the right. Most index expressions are of this kind, and it costs
less than the linear form of one. `None` says nothing.

What follows from the expression alone, its *shape*, is read once and kept on the node; then a shape is held against the
ranges. Terms of a sum share no variable, so nothing cancels; the operations written are the fewest for these terms; and
no range is so small that a quotient, a remainder or a comparison becomes less than it is:

    (g*h + s) // c     is shorter where s // g is one number, g dividing c
    s % c              where s // c is one number
    g*h + s < c        where s // g is one number
    min(s, c)          where s is never above c, or never below
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any, Final, NamedTuple, TypeAlias

from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, make
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.simplify.conditions import joined
from intset.simplify.pattern import MIRRORED

MAX_TERMS: Final = 12  # of a sum, and parts of a junction
MAX_NESTING: Final = 6  # divisions within one another

_OTHER_WAY: Final = {**MIRRORED, ops.EQ: ops.EQ, ops.NE: ops.NE}
_UPPER: Final = (ops.LT, ops.LE)
_NEXT: Final = (ops.LE, ops.GT)  # comparisons with c that say of `>= c + 1` whether it holds


class _Product(NamedTuple):
    """A product of two variables: where nothing depends on its values."""

    factors: tuple[Expr, Expr]


class _Division(NamedTuple):
    """A dividend by a constant; `reduced` is the dividend without multiples of the divisor, `rests` what is left of it
    beside the multiples of each divisor of the constant."""

    is_remainder: bool
    divisor: int
    dividend: Sum
    reduced: Sum
    rests: Rests


Rests: TypeAlias = "tuple[tuple[int, tuple[Term, ...]], ...]"
Term: TypeAlias = "tuple[Expr | None, int, _Division | _Product | None]"  # a variable, or what is below another term


class Sum(NamedTuple):
    """`const + sum(k * term)`, written with as few operations as that takes."""

    const: int
    terms: tuple[Term, ...]
    variables: frozenset[Expr]
    is_plain: bool  # whether all terms are variables
    has_product: bool


class _Comparison(NamedTuple):
    """A sum against a constant."""

    op: ops.Op
    total: Sum
    right: int
    rests: Rests


class _Junction(NamedTuple):
    """A comparison, or several of which each says something of its own; `written` with constants on the right, where
    that is not as it stands."""

    written: Cond | None
    parts: tuple[_Comparison, ...]


class _Choice(NamedTuple):
    """A sum of variables or a constant, whichever is smaller (or greater); `written` with the constant on the right,
    where that is not as it stands."""

    written: Expr | None
    total: Sum
    right: int


Shape: TypeAlias = "Sum | _Junction | _Choice | None"


def settled(e: Node, known: Normalizer) -> Any:
    """What the walk makes of `e`, where that is seen at a glance; else `None`."""
    if known.empty:
        return None
    shape = _shape(e, MAX_NESTING)
    if type(shape) is Sum:
        return e if _ends(shape, known, True) is not None else None
    if type(shape) is _Junction:
        for part in shape.parts:
            if not _is_open(part, known):
                return None
        return e if shape.written is None else shape.written
    if type(shape) is _Choice and _is_undecided(shape, known):
        return e if shape.written is None else shape.written
    return None


# -- shapes --------------------------------------------------------------------------------------------------------

_TOO_DEEP: Final = object()


def _shape(e: Any, nesting: int) -> Any:
    """The shape of an expression, `None` for any other; not kept where it was not looked for far enough.

    What is kept on a node does not mention it, or it would live until a collection of cycles.
    """
    try:
        return e.glance
    except AttributeError:
        pass
    if e.op is ops.VAR:
        return Sum(0, ((e, 1, None),), frozenset((e,)), True, False)
    if not nesting:
        return _TOO_DEEP
    if e.op.boolean:
        found = _junction_of(e, nesting)
    else:
        found = _choice_of(e, nesting) if e.op is ops.MIN or e.op is ops.MAX else _sum_of(e, nesting)
    if found is not _TOO_DEEP:
        e.remember("glance", found)
    return found


def _part(e: Expr, nesting: int) -> Any:
    """The sum that an operand is; else `None`, or that it was not looked for far enough."""
    found = _shape(e, nesting)
    return None if type(found) is _Choice else found


def _sum_of(e: Expr, nesting: int) -> Any:
    const = 0
    terms: list[Term] = []
    variables: list[Expr] = []
    stack: list[tuple[Expr, int]] = [(e, 1)]
    while stack:
        node, k = stack.pop()
        op = node.op
        if op is ops.ADD or op is ops.SUB:
            a, b = node.args
            stack.append((b, k if op is ops.ADD else -k))
            stack.append((a, k))
            if len(stack) + len(terms) > MAX_TERMS:
                return None
            continue
        if op is ops.CONST:
            if const or not node.data:
                return None
            const = k * node.data
            continue
        if op is ops.MUL:
            a, b = node.args
            if a.op is ops.CONST:
                a, b = b, a
            if b.op is ops.CONST:
                if -1 <= b.data <= 1:
                    return None
                node, k, op = a, k * b.data, a.op
        if op is ops.VAR:
            variables.append(node)
            terms.append((node, k, None))
        elif op is ops.FLOORDIV or op is ops.FLOORMOD:
            division = _division_of(node, nesting)
            if type(division) is not _Division:
                return division
            if k < 0:
                return None
            variables += division.dividend.variables
            terms.append((None, k, division))
        elif op is ops.MUL and node.args[0].op is ops.VAR and node.args[1].op is ops.VAR:
            variables += node.args
            terms.append((None, k, _Product(node.args)))
        else:
            return None
    return _checked_sum(const, tuple(terms), variables)


def _checked_sum(const: int, terms: tuple[Term, ...], variables: list[Expr]) -> Sum | None:
    """The sum, where it is written with as few operations as its terms take."""
    starts, is_plain, has_product = const > 0, True, False
    sizes: set[int] = set()
    for _, k, inner in terms:
        if k > 0:
            starts = True
        if not -1 <= k <= 1:
            if abs(k) in sizes:
                return None
            sizes.add(abs(k))
        if inner is not None:
            is_plain = False
            if not isinstance(inner, _Division):
                has_product = True
            elif const and inner.dividend.const:
                return None
    own = frozenset(variables)
    if not starts or not terms or len(own) < len(variables):
        return None
    return Sum(const, terms, own, is_plain, has_product)


def _division_of(node: Expr, nesting: int) -> Any:
    a, b = node.args
    if b.op is not ops.CONST or b.data < 2:
        return None
    dividend = _part(a, nesting - 1)
    if type(dividend) is not Sum:
        return dividend
    c = b.data
    if dividend.has_product or gcd(c, *[k for _, k, _ in dividend.terms]) > 1:
        return None
    reduced = dividend
    if max(abs(k) for _, k, _ in dividend.terms) >= c:
        few = tuple([(e, k % c if k > 0 else -(-k % c), inner) for e, k, inner in dividend.terms if k % c])
        reduced = dividend._replace(terms=few)
    rests = _rests(reduced, {gcd(c, k) for _, k, _ in reduced.terms})
    if node.op is ops.FLOORMOD:
        return _Division(True, c, dividend, reduced, rests) if _is_reduced(dividend, c) else None
    if not -c < dividend.const < c or max(k for _, k, _ in dividend.terms) < 0:
        return None
    for _, k, inner in dividend.terms:
        if k % c == 0:
            return None
        if type(inner) is _Division and (gcd(c, k * inner.divisor) > 1 if inner.is_remainder else abs(k) == 1):
            return None
    return _Division(False, c, dividend, reduced, rests)


def _is_reduced(dividend: Sum, c: int) -> bool:
    """Whether no coefficient becomes shorter modulo c, nor like another one, and no remainder in it does nothing."""
    if not 0 <= dividend.const < c:
        return False
    sizes: set[int] = set()
    for _, k, inner in dividend.terms:
        rest = k % c
        size = min(rest, c - rest)
        if not rest or not -1 <= k <= 1 and (size == 1 or size in sizes):
            return False
        sizes.add(size)
        if type(inner) is _Division and inner.is_remainder and k * inner.divisor % c == 0:
            return False
    return True


def _rests(total: Sum, divisors: set[int]) -> Rests:
    """For each divisor that some terms are multiples of, the other terms."""
    found = {g for g in divisors if g > 1}
    if not found:
        return ()
    found |= {gcd(g, h) for g in found for h in found}
    return tuple(
        (g, tuple([term for term in total.terms if term[1] % g])) for g in sorted(found, reverse=True) if g > 1
    )


def _choice_of(e: Expr, nesting: int) -> Any:
    a, b = e.args
    is_turned = a.op is ops.CONST
    if is_turned:
        a, b = b, a
    if b.op is not ops.CONST or a.op is ops.CONST:
        return None
    total = _part(a, nesting)
    if type(total) is not Sum:
        return total
    if not total.is_plain or total.const == b.data:
        return None  # min(x + 3, 3) = min(x, 0) + 3
    return _Choice(make(e.op, (a, b)) if is_turned else None, total, b.data)


def _junction_of(e: Cond, nesting: int) -> Any:
    if e.op is not ops.AND and e.op is not ops.OR:
        found = _comparison_of(e, nesting)
        return _Junction(None if found[0] is e else found[0], (found[1],)) if type(found) is tuple else found
    written: list[Cond] = []
    parts: list[_Comparison] = []
    is_turned = False
    stack: list[Cond] = [e]
    while stack:
        node = stack.pop()
        if node.op is e.op:
            stack.extend((node.args[1], node.args[0]))
        else:
            found = _comparison_of(node, nesting)
            if type(found) is not tuple:
                return found
            is_turned = is_turned or found[0] is not node
            written.append(found[0])
            parts.append(found[1])
        if len(stack) + len(parts) > MAX_TERMS:
            return None
    for j, part in enumerate(parts):
        if not all(_stand_beside(e.op, part, written[j], parts[k], written[k]) for k in range(j)):
            return None
    return _Junction(joined(e.op, written) if is_turned else None, tuple(parts))


def _stand_beside(junction: ops.Op, a: _Comparison, p: Cond, b: _Comparison, q: Cond) -> bool:
    """Whether two parts say nothing of one another, and are not to be written as one."""
    if a.total.variables.isdisjoint(b.total.variables):
        return a.op is not b.op or a.op in (ops.EQ, ops.NE) or p.args[1] is not q.args[1]
    if p.args[0] is not q.args[0] or {a.op, b.op} & {ops.EQ, ops.NE}:
        return False
    if (a.op in _UPPER) is (b.op in _UPPER):
        return False
    upper, lower = (a, b) if a.op in _UPPER else (b, a)
    start, stop = _threshold(lower), _threshold(upper)
    return stop - start > 1 if junction is ops.AND else start - stop > 1


def _comparison_of(e: Cond, nesting: int) -> Any:
    """(as written, the comparison)"""
    op = e.op
    if op not in _OTHER_WAY:
        return None
    a, b = e.args
    if a.op is ops.CONST and b.op is not ops.CONST:
        a, b, op = b, a, _OTHER_WAY[op]
        e = make(op, (a, b))
    if b.op is not ops.CONST:
        return None
    total = _part(a, nesting)
    if type(total) is not Sum:
        return total
    coefficients = [k for _, k, _ in total.terms]
    if total.const or total.has_product or gcd(*coefficients) > 1:
        return None
    if abs(b.data) < 2 and min(coefficients) < 0:  # x - y < 0 is x < y, x - y < 1 is x <= y
        return None
    inner = total.terms[0][2]
    if len(coefficients) > 1:
        if op is ops.EQ or op is ops.NE:
            return None
    elif type(inner) is _Division and inner.is_remainder and not _is_congruence(inner.dividend):
        return None
    if op is ops.EQ or op is ops.NE:
        return e, _Comparison(op, total, b.data, ())
    for _, k, inner in total.terms:
        if type(inner) is _Division and (_has_quotient(inner.dividend) if inner.is_remainder else abs(k) == 1):
            return None
    return e, _Comparison(op, total, b.data, _rests(total, {abs(k) for k in coefficients}))


def _has_quotient(dividend: Sum) -> bool:
    return any(type(inner) is _Division and not inner.is_remainder for _, _, inner in dividend.terms)


def _is_congruence(dividend: Sum) -> bool:
    return not dividend.const and any(k == 1 for _, k, _ in dividend.terms)


def _threshold(part: _Comparison) -> int:
    """t for an inequality that holds for all sums from t on, or for all below t."""
    return part.right + 1 if part.op in _NEXT else part.right


# -- ranges --------------------------------------------------------------------------------------------------------


def _ends(total: Sum, known: Normalizer, is_root: bool = False) -> Interval | None:
    """Bounds of the sum; `None` where part of it may be less than it is."""
    low: int | None = total.const
    high: int | None = total.const
    table = known.intervals
    for e, k, inner in total.terms:
        if e is not None:
            found = table.get(e)
            if found is None:
                found = known.atom_bounds(e)
            first, last = found
            if first is not None and first == last:
                return None
        elif isinstance(inner, _Division):
            interval = _division_ends(inner, known, is_root and _stands_alone(inner, k, total))
            if interval is None:
                return None
            first, last = interval
        elif inner is not None:
            for factor in inner.factors:
                first, last = known.atom_bounds(factor)
                if first is not None and last is not None and last - first < 2:
                    return None
            first = last = None
        if k < 0:
            first, last = last, first
        low = None if low is None or first is None else low + k * first
        high = None if high is None or last is None else high + k * last
    return low, high


def _stands_alone(division: _Division, k: int, total: Sum) -> bool:
    """Whether no other term has a coefficient in common with the parts that a remainder may be taken apart into."""
    return all(abs(other) != abs(k) * g for g, _ in division.rests for _, other, _ in total.terms)


def _division_ends(division: _Division, known: Normalizer, is_root: bool) -> Interval | None:
    dividend, c = division.dividend, division.divisor
    ends = _ends_inside(dividend, known)
    if ends is None or _is_one_period(ends, c):
        return None
    low, high = ends
    if division.reduced is not dividend:
        ends = _ends_inside(division.reduced, known)
        if ends is None or _is_one_period(ends, c):
            return None
    alone = is_root and division.is_remainder  # (x*4 + y) % 8 as x%2*4 + y is of use within something only
    if not alone and not _all_matter(division.reduced, division.rests, known):
        return None
    if division.is_remainder:
        return 0, c - 1
    return None if low is None else low // c, None if high is None else high // c


def _ends_inside(total: Sum, known: Normalizer) -> Interval | None:
    """Bounds of a sum that something depends on."""
    ends = _ends(total, known)
    related = known.related
    if ends is not None and related and not related.isdisjoint(total.variables):
        return _under_facts(total.const, total.terms, known) if total.is_plain else None
    return ends


def _is_one_period(ends: Interval, c: int) -> bool:
    low, high = ends
    return low is not None and high is not None and low // c == high // c


def _under_facts(const: int, terms: Iterable[Term], known: Normalizer) -> Interval:
    return known.bounds(Linear(const, {e: k for e, k, _ in terms if e is not None}))


def _all_matter(total: Sum, rests: Rests, known: Normalizer) -> bool:
    """Whether what stands beside the multiples of each divisor reaches more than one multiple."""
    for g, terms in rests:
        ends = _ends_inside(total._replace(terms=terms), known)
        if ends is None or _is_one_period(ends, g):
            return False
    return True


def _is_undecided(choice: _Choice, known: Normalizer) -> bool:
    """Whether the sum may be below the constant, and above it."""
    total = choice.total
    ends = _ends(total, known)
    if ends is None or known.related and not known.related.isdisjoint(total.variables):
        return False
    if len(total.terms) > 1 and _has_limits(total, known):
        return False
    low, high = ends
    return (low is None or low < choice.right) and (high is None or high > choice.right)


def _has_limits(total: Sum, known: Normalizer) -> bool:
    """Whether the range of one of the variables depends on others, so that their ends are not met together."""
    limits = known.knowledge.limits
    return bool(limits) and not limits.keys().isdisjoint(total.variables)


def _is_open(part: _Comparison, known: Normalizer) -> bool:
    """Whether the comparison may hold or not, and all of it matters."""
    total = part.total
    ends = _ends(total, known)
    if ends is None or known.related and not known.related.isdisjoint(total.variables):
        return False
    if len(total.terms) > 1 and _has_limits(total, known):
        return False
    low, high = ends
    for _, _, inner in total.terms:
        if type(inner) is _Division and inner.is_remainder and not _is_wide(inner, known):
            return False
    if part.op is ops.EQ or part.op is ops.NE:
        if total.is_plain:
            return (low is None or low <= part.right) and (high is None or high >= part.right)
        # at an end it says what an inequality does
        return (low is None or low < part.right) and (high is None or high > part.right)
    least = _threshold(part)
    if low is not None and low >= least or high is not None and high < least:
        return False
    if len(total.terms) > 1 and (low is not None and low + 1 == least or high is not None and high == least):
        return False  # an end of a sum: all of its terms are at theirs
    # as a form that is at least 0: total - least, or least - 1 - total
    if part.op not in _UPPER:
        return _all_matter(total._replace(const=-least), part.rests, known)
    turned = tuple((g, tuple([(e, -k, inner) for e, k, inner in terms])) for g, terms in part.rests)
    return _all_matter(total._replace(const=least - 1), turned, known)


def _is_wide(remainder: _Division, known: Normalizer) -> bool:
    """Whether the dividend reaches two whole periods."""
    ends = _ends_inside(remainder.reduced, known)
    assert ends is not None  # it was found before
    low, high = ends
    return low is None or high is None or high - low >= 2 * remainder.divisor - 1

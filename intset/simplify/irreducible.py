"""Irreducible expressions, recognized without the simplifier: from their shape, read from syntax alone, and the ranges.

Shapes are sums of few terms, quotients and remainders of sums by constants, comparisons of sums with constants,
conjunctions and disjunctions of such comparisons, and min or max of a sum of variables and a constant. Shapes require
minimal operation counts. `shape_of` caches the shape on the node; None means any other
expression.

Guarantee of `settled(e, known)`: a result other than None equals the simplifier's result for `e`, namely `e` itself up
to moving a constant to the right-hand side and to a bound instead of two comparisons with one constant. Most index
expressions are irreducible, and recognizing them costs less than one linear form (a fifth of the simplifier's time on
them).

Criteria: terms of a sum share no variable, so nothing cancels; the sum is written with the fewest operations; ranges
are wide enough that no quotient, remainder or comparison shrinks:

    (g*h + s) // c     is shorter where s // g is one number, g dividing c
    s % (c*d) // c     is left alone where s // c is irreducible and s reaches two periods of c*d
    s % c              where s // c is one number
    g*h + s < c        where s // g is one number
    x*k + s % c < n    likewise, with s % c as the sum into which it splits: (y*4 + z) % 8 is y%2*4 + z for z in [0, 4)
    p & q              where p holds for all values of the variables of q, at some values of its others
    min(s, c)          where s is never above c, or never below

Wider intervals leave a sum irreducible. So a sum, or a comparison beside no fact, need not enter symbolic ranges and
facts: it is irreducible if it is over a box of some points that satisfy them (`part_of`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import gcd
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from intset import plain
from intset.arithmetic.strided import nearest
from intset.expr import Cond, Expr, Node, Range, Var, const, constant_value, ops
from intset.expr.node import PlainVar, ShapeVar, make
from intset.linear.assumptions import DIFFERENCES, NO_ASSUMPTIONS
from intset.linear.bounds import Interval
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, add, spine
from intset.linear.multiples import known_multiples
from intset.linear.signs import is_refuted
from intset.simplify.conditions import joined
from intset.simplify.rules import MIRRORED

SHAPE_TERMS: Final = 12  # terms of a sum, and parts of a junction, of which a shape is drawn
SHAPE_NESTING: Final = 6  # nested divisions of a shape

UPPER: Final = (ops.LT, ops.LE)
_KINDS: Final = {  # by division: (it gives the remainder, it rounds towards 0)
    ops.FLOORDIV: (False, False), ops.FLOORMOD: (True, False), ops.TRUNCDIV: (False, True), ops.TRUNCMOD: (True, True),
}  # fmt: skip
_BY_KIND: Final = {kind: op for op, kind in _KINDS.items()}
_NEXT: Final = (ops.LE, ops.GT)  # `x > c` is `x >= c + 1`, and `x <= c` its negation


class ProductShape(NamedTuple):
    """A product of two variables, in a context that does not depend on its interval."""

    factors: tuple[Expr, Expr]


class DivisionShape(NamedTuple):
    """A quotient or remainder by a constant.

    over, dividend: the dividend, and its shape.
    reduced: the dividend without multiples of the divisor.
    rests: for each common divisor of the constant and some coefficients, the remaining terms of the dividend.
    """

    is_remainder: bool
    is_truncated: bool
    divisor: int
    over: Expr
    dividend: SumShape
    reduced: SumShape
    rests: Rests

    def form(self, known: Normalizer) -> Linear:
        """The linear form of the quotient or remainder."""
        op = _BY_KIND[self.is_remainder, self.is_truncated]
        return known.form(make(op, (self.over, const(self.divisor))))


Rests: TypeAlias = "tuple[tuple[int, tuple[ShapeTerm, ...]], ...]"
# a variable, or what is below another term
ShapeTerm: TypeAlias = "tuple[Expr | None, int, DivisionShape | ProductShape | None]"


class SumShape(NamedTuple):
    """`const + sum(k * term)`, written with the fewest operations."""

    const: int
    terms: tuple[ShapeTerm, ...]
    variables: frozenset[Expr]
    is_plain: bool  # whether all terms are variables
    has_product: bool
    is_factored: bool = False  # whether some terms are written `(x + y)*k`
    is_shared: bool = False  # whether a quotient and its dividend have common variables in the sum

    def over(self, terms: tuple[ShapeTerm, ...]) -> SumShape:
        """The shape with other terms."""
        return SumShape(self.const, terms, *self[2:])


class ComparisonShape(NamedTuple):
    """A sum against a constant; of two sums, their difference against 0."""

    op: ops.Op
    total: SumShape
    right: int
    rests: Rests


class JunctionShape(NamedTuple):
    """A conjunction or disjunction of independent comparisons.

    written: the condition with constants on the right-hand sides, if it differs from the node.
    bounded: the condition with a min or max in place of two comparisons with one constant.
    sharing: the operation, if parts share variables.
    """

    written: Cond | None
    bounded: Cond | None
    parts: tuple[ComparisonShape, ...]
    sharing: ops.Op | None


class ChoiceShape(NamedTuple):
    """The min or max of a sum of variables and a constant.

    written: the choice with its constant operand moved right, if that changes the node.
    """

    written: Expr | None
    total: SumShape
    right: int


class IntervalBox:
    """What `settled` reads of a scope with nonempty numeric ranges and nothing else.

    Guarantee: the `Normalizer` of these ranges gives the same answers. A box keeps none.
    """

    __slots__ = ("intervals",)
    empty, is_box, is_part, assumptions = False, True, False, NO_ASSUMPTIONS
    related: frozenset[Any] = frozenset()

    def __init__(self, intervals: Mapping[Any, Interval]) -> None:
        self.intervals = intervals

    @property
    def ranges(self) -> Mapping[Any, Interval]:
        return self.intervals

    def atom_bounds(self, e: Any) -> Interval:
        return self.intervals.get(e) or e.declared()[:2]

    def bounds(self, form: Linear) -> Interval:
        raise AssertionError("no facts relate variables of a box")


class PartialBox(IntervalBox):
    """A box of some points of a scope.

    Attributes
    ----------
    related: the variables that facts of the scope relate.
    fixed: the variables to which a fact leaves one value in the box.
    """

    __slots__ = ("fixed", "related")
    is_part = True

    def __init__(self, intervals: Mapping[Any, Interval], related: frozenset[Any], fixed: frozenset[Any]) -> None:
        self.intervals, self.related, self.fixed = intervals, related, fixed


def part_of(ranges: Mapping[Var, Range], facts: Iterable[Cond] = ()) -> PartialBox | None:
    """A box of points that satisfy symbolic ranges and affine inequalities; `None` where none is found at once.

    Sizes are large in it, ranges have the elements that they have at all of these sizes, and each inequality cuts first
    the range that loses the smallest share, if possible to no less than two numbers.
    """
    inside: dict[Any, tuple[int, int]] = {}
    rows = plain.ValueRows()
    for var, span in ranges.items():
        found = span.ends or _inside(span, ranges, inside, rows)
        if found is None or found[0] > found[1] or isinstance(var, ShapeVar):
            return None
        inside[var] = found
    related: set[Expr] = set()
    fixed: set[Expr] = set()
    for fact in facts:
        var, number = fact.args if fact.op is ops.EQ else (None, None)
        if var in inside and constant_value(number) is not None and inside[var][0] <= number.data <= inside[var][1]:
            inside[var] = number.data, number.data
            continue
        low, terms = _inequality(fact)
        for e, k in terms.items():
            if e not in inside:
                if e in ranges or not _may_be_large(e):
                    return None
                inside[e] = _LARGE
            low += k * inside[e][k < 0]
        if low < 0:
            sizes = {e: inside[e][1] - inside[e][0] + 1 for e in terms}
            shares = {e: (e not in ranges, -(low // abs(k)) / sizes[e]) for e, k in terms.items()}
            order = sorted(shares, key=shares.__getitem__)
            for e, kept in [(e, kept) for kept in (1, 0) for e in order]:
                (first, last), k = inside[e], terms[e]
                cut = min(-(low // abs(k)), last - first - kept)
                if cut > 0:
                    inside[e] = (first + cut, last) if k > 0 else (first, last - cut)
                    low += abs(k) * cut
                    if not kept:
                        fixed.add(e)
                    if low >= 0:
                        break
            else:
                return None
        if len(terms) > 1:
            related.update(terms)
    return PartialBox(inside, frozenset(related), frozenset(fixed))


_LARGE: Final = 5040 << 12 | 1, 5040 << 13  # of a size: its first number leaves the remainder 1 by small divisors


def _may_be_large(size: Any) -> bool:
    """Whether an expression is a variable whose declared bounds contain `_LARGE`."""
    if size.op is not ops.VAR:
        return False
    low, high, step = size.declared()
    return high is None and step == 1 and (low is None or low <= _LARGE[0])


def _inside(
    span: Range, ranges: Mapping[Var, Range], sizes: dict[Any, tuple[int, int]], rows: plain.ValueRows
) -> tuple[int, int] | None:
    """The elements that a symbolic range has whatever the values of its sizes, large ones; `None` if none is found.

    sizes: gets them, as `rows` does.
    """
    first = constant_value(span.min) if isinstance(span.min, Expr) else None
    if first is None or not isinstance(span.extent, Expr):
        return None
    for size in span.free_vars():
        if size in ranges or not _may_be_large(size):
            return None
        if size not in rows:
            sizes[size], rows[size] = _LARGE, rows.variable(*_LARGE)
    width = plain.ends(span.extent, {}, 0, rows)
    return None if width is None else (first, first + width[0] - 1)


def _inequality(cond: Cond) -> tuple[int, dict[Expr, int]]:
    """Constant and terms of the form f of an inequality `f >= 0`; -1 without terms for any other condition."""
    kind, swapped, offset = DIFFERENCES.get(cond.op, (None, False, 0))
    if kind is not ops.GE:
        return -1, {}
    a, b = cond.args[::-1] if swapped else cond.args
    total, terms = spine(a)
    less, other = spine(b)
    terms = {e: k for e, k in terms.items() if k}  # x - x is 0
    add(terms, other, -1)
    return total - less + offset, terms


IntervalScope: TypeAlias = "Normalizer | IntervalBox"
_TOO_DEEP: Final = object()


def shape_of(e: Any, nesting: int = SHAPE_NESTING) -> Any:
    """The shape of an expression, or None; not cached if the nesting limit cut the search short.

    Invariant: a cached shape does not refer to its node, which would make a reference cycle.
    """
    try:
        return e.glance
    except AttributeError:
        pass
    if e.op is ops.VAR:
        return SumShape(0, ((e, 1, None),), frozenset((e,)), True, False)
    if not nesting:
        return _TOO_DEEP
    if e.op.boolean:
        shape = _junction_of(e, nesting)
    else:
        shape = _choice_of(e, nesting) if e.op is ops.MIN or e.op is ops.MAX else _sum_of(e, nesting)
    if shape is not _TOO_DEEP:
        e.remember("glance", shape)
    return shape


def _part(e: Expr, nesting: int) -> Any:
    """The sum shape of an operand; None for other shapes, `_TOO_DEEP` beyond the nesting limit."""
    shape = shape_of(e, nesting)
    is_whole = type(shape) is ChoiceShape or type(shape) is SumShape and (shape.is_factored or shape.is_shared)
    return None if is_whole else shape


def _sum_of(e: Expr, nesting: int) -> Any:
    const = 0
    terms: list[ShapeTerm] = []
    variables: list[Expr] = []
    factored: list[ShapeTerm] = []  # the terms of products `(x + y)*k`
    products = 0
    stack: list[tuple[Expr, int]] = [(e, 1)]
    while stack:
        node, k = stack.pop()
        op = node.op
        if op is ops.ADD or op is ops.SUB:
            a, b = node.args
            stack.append((b, k if op is ops.ADD else -k))
            stack.append((a, k))
            if len(stack) + len(terms) > SHAPE_TERMS:
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
        if (op is ops.ADD or op is ops.SUB) and _is_simple(within := _part(node, nesting)):
            products += 1
            variables += within.variables
            factored += [(v, k * own, inner) for v, own, inner in within.terms]
        elif op is ops.VAR:
            variables.append(node)
            terms.append((node, k, None))
        elif op in ops.DIVISIONS:
            division = _division_of(node, nesting)
            if type(division) is not DivisionShape:
                return division
            variables += division.dividend.variables
            terms.append((None, k, division))
        elif op is ops.MUL and node.args[0].op is ops.VAR and node.args[1].op is ops.VAR:
            variables += node.args
            terms.append((None, k, ProductShape(node.args)))
        else:
            return None
    if not factored:
        return _checked_sum(const, tuple(terms), variables)
    one_of_each = {abs(k): (v, k, inner) for v, k, inner in sorted(factored, key=itemgetter(1))}
    shape = _checked_sum(const, (*terms, *one_of_each.values()), variables)
    if shape is None or const or len(one_of_each) < products:
        return None
    return SumShape(
        0, (*terms, *factored), shape.variables, shape.is_plain, shape.has_product, True, is_shared=shape.is_shared
    )


def _is_simple(shape: Any) -> bool:
    """Whether a shape is a sum of variables and quotients without coefficients."""
    return (
        type(shape) is SumShape
        and not shape.const
        and all([-1 <= k <= 1 and (v is not None or _is_quotient(inner)) for v, k, inner in shape.terms])  # noqa: C419
    )


def _is_quotient(inner: DivisionShape | ProductShape | None) -> bool:
    return type(inner) is DivisionShape and not inner.is_remainder


def _checked_sum(const: int, terms: tuple[ShapeTerm, ...], variables: list[Expr]) -> SumShape | None:
    """The sum shape, if the sum is written with the fewest operations."""
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
            if not isinstance(inner, DivisionShape):
                has_product = True
            elif const and inner.dividend.const:
                return None
    own = frozenset(variables)
    is_shared = len(own) < len(variables)
    if not starts or not terms or is_shared and not _stand_beside_quotients(terms, len(variables) - len(own)):
        return None
    return SumShape(const, terms, own, is_plain, has_product, is_shared=is_shared)


def _stand_beside_quotients(terms: tuple[ShapeTerm, ...], repeated: int) -> bool:
    """Whether each repeated variable stands beside a quotient of it, and no term moves into or out of a quotient.

    x*b + x//c*k is (x*(1 + c*b/k))//c * k where k divides b, and x%c*b where k is -c*b. (x*(c + 1))//c is x//c + x.
    """
    addends = {e: k for e, k, _ in terms if e is not None}
    for _, k, inner in terms:
        if type(inner) is not DivisionShape or addends.keys().isdisjoint(inner.dividend.variables):
            continue
        c, below = inner.divisor, inner.dividend
        repeated -= len(addends.keys() & below.variables)
        if inner.is_remainder or inner.is_truncated or not below.is_plain:
            return False
        for v, own, _ in below.terms:
            b = 0 if v is None else addends.get(v, 0)
            is_part = k % c == 0 and b * own * k < 0 and abs(b) * c >= abs(own * k)
            if b and (b % k == 0 or abs(own) >= c or is_part):
                return False
    return not repeated


def _division_of(node: Expr, nesting: int) -> Any:
    a, b = node.args
    if b.op is not ops.CONST or b.data < 2 or node.op is ops.CEILDIV:
        return None
    is_remainder, is_truncated = _KINDS[node.op]
    dividend = _part(a, nesting - 1)
    if type(dividend) is not SumShape:
        return dividend
    c = b.data
    if a.op is ops.VAR:
        return DivisionShape(is_remainder, is_truncated, c, a, dividend, dividend, ())
    coefficients = [k for _, k, _ in dividend.terms]
    if dividend.has_product or gcd(c, *coefficients) > 1:
        return None
    if not dividend.is_plain:
        if any([is_digit(inner) for _, _, inner in dividend.terms]):  # noqa: C419  # hot
            return None
        if not is_remainder and (rests := _rests_of_digit(dividend, c)) is not None:
            return DivisionShape(False, is_truncated, c, a, dividend, dividend, rests)
    reduced = dividend
    if max(coefficients) >= c or min(coefficients) <= -c:
        few = tuple([(e, k % c if k > 0 else -(-k % c), inner) for e, k, inner in dividend.terms if k % c])
        reduced = dividend.over(few)
    rests = _rests(reduced, {gcd(c, k) for k in coefficients if k % c})
    if is_remainder:
        is_reduced = _is_reduced(dividend, c, is_truncated)
        return DivisionShape(True, is_truncated, c, a, dividend, reduced, rests) if is_reduced else None
    if not -c < dividend.const < c or max(coefficients) < 0:
        return None
    for _, k, inner in dividend.terms:
        if k % c == 0:
            return None
        if type(inner) is DivisionShape and (gcd(c, k * inner.divisor) > 1 if inner.is_remainder else abs(k) == 1):
            return None
    return DivisionShape(False, is_truncated, c, a, dividend, reduced, rests)


def _rests_of_digit(dividend: SumShape, c: int) -> Rests | None:
    """The rests of a sum `s` of variables by c for a dividend `s % (c*d)`.

    (x*c + y) % (c*d) // c is shorter as (x + y//c) % d.
    """
    _, k, inner = dividend.terms[0]
    if len(dividend.terms) > 1 or k != 1 or dividend.const or type(inner) is not DivisionShape:
        return None
    total = inner.dividend
    if not inner.is_remainder or inner.divisor % c or inner.divisor == c or total.const or not total.is_plain:
        return None
    near = [min(own % inner.divisor, -own % inner.divisor) for _, own, _ in total.terms]
    if any(own < 0 for _, own, _ in total.terms) or c in near:
        return None
    below = total._replace(terms=tuple([(e, own % c, None) for e, own, _ in total.terms]))
    return _rests(below, {c, *[gcd(c, own) for _, own, _ in below.terms]})


def is_digit(inner: DivisionShape | ProductShape | None) -> bool:
    """Whether a term is `s % (c*d) // c`."""
    if type(inner) is not DivisionShape or inner.is_remainder or len(inner.dividend.terms) > 1:
        return False
    below = inner.dividend.terms[0][2]
    return type(below) is DivisionShape and below.is_remainder and below.divisor % inner.divisor == 0


def _is_reduced(dividend: SumShape, c: int, is_truncated: bool) -> bool:
    """Whether no coefficient shrinks modulo c or equals another one there, and no inner remainder is redundant."""
    if not 0 <= dividend.const < c:
        return False
    sizes: set[int] = set()
    for _, k, inner in dividend.terms:
        rest = k % c
        size = min(rest, c - rest)
        if not rest or not -1 <= k <= 1 and (size == 1 or size in sizes):
            return False
        sizes.add(size)
        if type(inner) is DivisionShape and inner.is_remainder and k * inner.divisor % c == 0:
            return False
        if type(inner) is not DivisionShape:
            continue
        period, below = c * inner.divisor, [own for _, own, _ in inner.dividend.terms]
        near = [min(own % period, -own % period) for own in below]
        saves = len({*near}) < len(near) or any(k < 2 <= abs(own) for k, own in zip(near, below, strict=True))
        if (saves or not is_truncated) and any(abs(own) >= period for own in below):
            return False  # x*16 // 3 % 5 is x // 3 % 5
    return True


def _rests(total: SumShape, divisors: set[int]) -> Rests:
    """For each divisor shared by some coefficients, the remaining terms."""
    common = {g for g in divisors if g > 1}
    if not common:
        return ()
    common |= {gcd(g, h) for g in common for h in common}
    return tuple(
        (g, tuple([term for term in total.terms if term[1] % g])) for g in sorted(common, reverse=True) if g > 1
    )


def _choice_of(e: Expr, nesting: int) -> Any:
    a, b = e.args
    is_mirrored = a.op is ops.CONST
    if is_mirrored:
        a, b = b, a
    if b.op is not ops.CONST or a.op is ops.CONST:
        return None
    total = _part(a, nesting)
    if type(total) is not SumShape:
        return total
    if not total.is_plain or total.const == b.data:
        return None  # min(x + 3, 3) = min(x, 0) + 3
    return ChoiceShape(make(e.op, (a, b)) if is_mirrored else None, total, b.data)


def _junction_of(e: Cond, nesting: int) -> Any:
    op: ops.Op = e.op
    if op is not ops.AND and op is not ops.OR:
        op = ops.AND if e.args and _bound_in(ops.AND, e.op) is e.args[0].op else ops.OR
    written: list[Cond] = []
    parts: list[tuple[Cond, ComparisonShape]] = []
    stack: list[Cond] = [e]
    is_mirrored = False
    while stack:
        node = stack.pop()
        if node.op is op:
            stack.extend((node.args[1], node.args[0]))
            continue
        is_bound = node.op in MIRRORED and node.args[0].op is _bound_in(op, node.op)
        for one in [make(node.op, (arm, node.args[1])) for arm in node.args[0].args] if is_bound else (node,):
            part_shape = _comparison_of(one, nesting)
            if type(part_shape) is not tuple:
                return part_shape
            parts.append(part_shape)
        written.append(node if is_bound else part_shape[0])
        is_mirrored = is_mirrored or written[-1] is not node
        if len(stack) + len(parts) > SHAPE_TERMS:
            return None
    are_apart = all(_stand_beside(op, part, p, other, q) for j, (p, part) in enumerate(parts) for q, other in parts[:j])
    if not are_apart and any(part.op not in MIRRORED for _, part in parts):
        return None
    if (bounded := _bounded(op, written)) is None:
        return None
    is_shorter = len(bounded) < len(written)
    if not are_apart and (is_shorter or len(written) < len(parts)):
        return None
    return JunctionShape(
        joined(op, written) if is_mirrored else None,
        joined(op, bounded) if is_shorter else None,
        tuple([part for _, part in parts]),
        None if are_apart else op,
    )


def _bound_in(junction: ops.Op, op: ops.Op) -> ops.Op:
    """The bound by which two comparisons with one constant are one: x < c and y < c are max(x, y) < c."""
    return ops.MAX if (op in UPPER) is (junction is ops.AND) else ops.MIN


def _bounded(junction: ops.Op, parts: list[Cond]) -> list[Cond] | None:
    """The parts, two inequalities with one constant as one; None for three of them."""
    merged: dict[object, Cond] = {}
    seen: set[object] = set()
    for part in parts:
        key = part if part.op is ops.EQ or part.op is ops.NE else (part.op, part.args[1])
        first = merged.setdefault(key, part)
        if first is part:
            continue
        bound = _bound_in(junction, part.op)
        if key in seen or bound is first.args[0].op or bound is part.args[0].op:
            return None
        seen.add(key)
        either = [make(bound, pair) for pair in ((first.args[0], part.args[0]), (part.args[0], first.args[0]))]
        merged[key] = make(part.op, (min(either, key=str), part.args[1]))
    return list(merged.values())


def _stand_beside(junction: ops.Op, a: ComparisonShape, p: Cond, b: ComparisonShape, q: Cond) -> bool:
    """Whether two parts are independent, except that both may be bounded by one constant."""
    if a.total.variables.isdisjoint(b.total.variables):
        return True
    if p.args[0] is not q.args[0] or {a.op, b.op} & {ops.EQ, ops.NE}:
        return False
    if (a.op in UPPER) is (b.op in UPPER):
        return False
    upper, lower = (a, b) if a.op in UPPER else (b, a)
    start, stop = threshold(lower), threshold(upper)
    return stop - start > 1 if junction is ops.AND else start - stop > 1


def _comparison_of(e: Cond, nesting: int) -> Any:
    """(condition with the constant on the right, its shape)"""
    op = e.op
    if op not in ops.MIRRORED:
        return None
    a, b = e.args
    if a.op is ops.CONST and b.op is not ops.CONST:
        a, b, op = b, a, ops.MIRRORED[op]
        e = make(op, (a, b))
    total = _part(a, nesting)
    if type(total) is not SumShape:
        return total
    right = 0
    if b.op is ops.CONST:
        right = b.data
    else:  # x < y is x - y < 0
        other = _part(b, nesting)
        if type(other) is not SumShape:
            return other
        if other.const or min(k for shape in (total, other) for _, k, _ in shape.terms) < 0:
            return None
        terms = (*total.terms, *[(v, -k, inner) for v, k, inner in other.terms])
        total = _checked_sum(total.const, terms, [*total.variables, *other.variables])
        if total is None:
            return None
    coefficients = [k for _, k, _ in total.terms]
    if total.const or total.has_product or gcd(*coefficients) > 1:
        return None
    if b.op is ops.CONST and abs(right) < 2 and min(coefficients) < 0:  # x - y < 0 is x < y, x - y < 1 is x <= y
        return None
    inner = total.terms[0][2]
    if len(coefficients) > 1:
        if op is ops.EQ or op is ops.NE:
            return None
    elif type(inner) is DivisionShape and inner.is_remainder and not _is_congruence(inner.dividend):
        return None
    if op is ops.EQ or op is ops.NE:
        return e, ComparisonShape(op, total, right, ())
    for _, k, inner in total.terms:
        if type(inner) is DivisionShape and (_has_quotient(inner.dividend) if inner.is_remainder else abs(k) == 1):
            return None
    return e, ComparisonShape(op, total, right, _rests(total, {abs(k) for k in coefficients}))


def _has_quotient(dividend: SumShape) -> bool:
    return any(type(inner) is DivisionShape and not inner.is_remainder for _, _, inner in dividend.terms)


def _is_congruence(dividend: SumShape) -> bool:
    return not dividend.const and any(k == 1 for _, k, _ in dividend.terms)


def threshold(part: ComparisonShape) -> int:
    """The threshold t of an inequality, which is equivalent to sum >= t or sum < t."""
    return part.right + 1 if part.op in _NEXT else part.right


def settled(e: Node, known: IntervalScope, for_machine: bool = False) -> Any:
    """The simplifier's result for an irreducible `e`; None if `e` is not recognized as irreducible.

    for_machine: two comparisons with one constant stay two (`Rule.plain`).
    """
    if known.empty:
        return None
    shape = shape_of(e)
    if type(shape) is SumShape:
        return e if _ends(shape, known, 1) is not None else None
    if type(shape) is JunctionShape:
        for part in shape.parts:
            if not _is_open(part, known):
                return None
        if shape.sharing is not None and not all(
            _says_nothing(shape.sharing, [other for other in shape.parts if other is not part], part, known)
            for part in shape.parts
        ):
            return None
        if shape.bounded is not None and not for_machine:
            return shape.bounded
        return e if shape.written is None else shape.written
    if type(shape) is ChoiceShape and not known.is_part and _is_undecided(shape, known):
        return e if shape.written is None else shape.written
    return None


def _ends(total: SumShape, known: IntervalScope, around: int = 0) -> Interval | None:
    """Interval of the sum; None if some part is reducible.

    around: the constant by which the sum is divided, 1 if by none, negative if the remainder is asked for; 0 where a
        remainder in the sum may pay off in parts.
    """
    low: int | None = total.const
    high: int | None = total.const
    table = known.intervals
    for e, k, inner in total.terms:
        if e is not None:
            interval = table.get(e)
            if interval is None:
                interval = known.atom_bounds(e)
            first, last = interval
            if first is not None and first == last:
                return None
        elif isinstance(inner, DivisionShape):
            interval = _division_ends(inner, known, around != 0 and _stands_alone(inner, k, total, around))
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


def _stands_alone(division: DivisionShape, k: int, total: SumShape, around: int) -> bool:
    """Whether no part into which a remainder may split shares a coefficient with another term, or a factor with
    `around` (as in `_ends`)."""
    parts = [k * g for g, _ in division.rests]
    if around != 1:
        parts += [k * own for _, own, _ in division.dividend.terms]
        if any([abs(part) > 1 and (gcd(part, around) > 1 or _size(part, around) < 2) for part in parts]):  # noqa: C419
            return False
    others = {_size(other, around) for _, other, inner in total.terms if inner is not division}
    return all([_size(part, around) not in others for part in parts])  # noqa: C419  # hot


def _size(k: int, around: int) -> int:
    """The absolute value of a coefficient; under a remainder by `-around`, of the smallest congruent coefficient."""
    return abs(k) if around > 0 else min(k % -around, -k % -around)


def _division_ends(division: DivisionShape, known: IntervalScope, is_alone: bool) -> Interval | None:
    ends = _dividend_ends(division, known, is_alone)
    if ends is None or division.is_truncated and (known.is_part or ends[0] is None or ends[0] < 0):
        return None
    c = division.divisor
    if division.is_remainder:
        return 0, c - 1
    low, high = ends
    return None if low is None else low // c, None if high is None else high // c


def _dividend_ends(division: DivisionShape, known: IntervalScope, is_alone: bool) -> Interval | None:
    """Interval of the dividend; None if it or the division is reducible."""
    dividend, c, over = division.dividend, division.divisor, division.over
    if type(over) is PlainVar and over not in known.related:
        interval = known.atom_bounds(over)
        return None if _is_one_period(interval, c) else interval
    if any([type(v) is not PlainVar or v in known.related for v in dividend.variables]) and any(  # noqa: C419  # hot
        known_multiples(known, v)  # type: ignore[arg-type]  # a box is read as far as variables go
        for v in dividend.variables
    ):
        return None
    below: Any = dividend.terms[0][2] if is_digit(division) else None
    around = -c if division.is_remainder else c
    ends = _ends_inside(dividend, known, around) if below is None else _division_ends(below, known, False)
    if ends is None or _is_one_period(ends, c) or below is not None and not _is_wide(below, known):
        return None
    if division.reduced is not dividend:
        reduced = _ends_inside(division.reduced, known, around)
        if reduced is None or _is_one_period(reduced, c):
            return None
    is_alone = is_alone and division.is_remainder  # (x*4 + y) % 8 as x%2*4 + y is of use within something only
    parts, around = (division.reduced, around) if below is None else (below.dividend, -below.divisor)
    return ends if is_alone or _all_matter(parts, division.rests, known, around) else None


def _ends_inside(total: SumShape, known: IntervalScope, around: int = 0) -> Interval | None:
    """Interval of an operand; facts that relate its variables are taken into account."""
    ends = _ends(total, known, around)
    related = known.related
    if ends is None or not related or related.isdisjoint(total.variables):
        return ends
    if known.is_part:  # a remainder in the operand may have fewer values
        return None if any(type(inner) is DivisionShape and inner.is_remainder for _, _, inner in total.terms) else ends
    if len(total.terms) == 1 and total.terms[0][0] is not None:
        return ends  # of one variable: its range is narrowed by the facts
    return _under_facts(total.const, total.terms, known)


def _is_one_period(ends: Interval, c: int) -> bool:
    low, high = ends
    return low is not None and high is not None and low // c == high // c


def _under_facts(offset: int, terms: Iterable[ShapeTerm], known: Any) -> Interval:
    form, inner = Linear(offset, {e: k for e, k, _ in terms if e is not None}), [t for t in terms if t[0] is None]
    for _, k, division in inner:
        assert isinstance(division, DivisionShape)  # a dividend has no products
        form = form.plus(division.form(known), k)
    bounds: Interval = known.bounds(form)
    return bounds


def _all_matter(total: SumShape, rests: Rests, known: IntervalScope, around: int = 0) -> bool:
    """Whether, for each divisor, the remaining terms span more than one period."""
    for g, terms in rests:
        ends = _ends_inside(total.over(terms), known, around)
        if ends is None or _is_one_period(ends, g):
            return False
    return True


def _is_undecided(choice: ChoiceShape, known: IntervalScope) -> bool:
    """Whether the interval of the sum strictly contains the constant."""
    total = choice.total
    # both ends are attained where no fact and no symbolic range relates the variables
    ends = None if _is_sized(total, known) else _unrelated_ends(total, known)
    if ends is None:
        return False
    low, high = ends
    return (low is None or low < choice.right) and (high is None or high > choice.right)


def _unrelated_ends(total: SumShape, known: IntervalScope, around: int = 0) -> Interval | None:
    ends = _ends(total, known, around)
    return None if known.related and not known.related.isdisjoint(total.variables) else ends


def _is_sized(total: SumShape, known: IntervalScope) -> bool:
    """Whether a symbolic range relates the variables of a sum."""
    limits = known.assumptions.limits
    return len(total.terms) > 1 and bool(limits) and not limits.keys().isdisjoint(total.variables)


def _is_crossed(total: SumShape, least: int, known: IntervalScope) -> bool:
    """Whether two known points give a sum of variables values above `least` and below `least - 1`."""
    form = Linear(total.const - least, {e: k for e, k, _ in total.terms if e is not None})
    return isinstance(known, Normalizer) and is_refuted(known, form.scale(-1)) and is_refuted(known, form.shift(1))


def _is_open(part: ComparisonShape, known: IntervalScope) -> bool:
    """Whether a comparison is undecided and irreducible."""
    total = part.total
    is_division = len(total.terms) == 1 and total.terms[0][0] is None  # facts then bound its dividend
    is_equation = part.op is ops.EQ or part.op is ops.NE
    around = 0 if is_division or is_equation or any(_has_constant(inner) for _, _, inner in total.terms) else 1
    ends = _ends(total, known) if is_division else _unrelated_ends(total, known, around)
    if ends is None:
        return False
    low, high = ends
    for _, _, inner in total.terms:
        if type(inner) is DivisionShape and inner.is_remainder and not _is_wide(inner, known):
            return False
    if is_equation and any([not _is_wide(one, known) for one in _congruences(total)]):  # noqa: C419  # hot
        return False
    is_told = len(total.terms) == 1 and total.is_plain if is_equation else is_division or total.is_plain
    if known.is_part and not is_told:
        return False
    least = part.right if is_equation else threshold(part)
    if _is_sized(total, known) and (is_equation or not total.is_plain or not _is_crossed(total, least, known)):
        return False
    first = None if low is None else low if is_equation else low + 1  # the least threshold that is open
    if first is not None and least < first or high is not None and high < least:
        return False
    if first is not None and first == least or high is not None and high == least:  # at an end
        if is_equation and total.is_plain:
            return True
        if len(total.terms) > 1 and not _is_shortest_at_end(total):
            return False
        if type(inner) is DivisionShape and not (inner.is_remainder and _is_variable(inner)):
            return False  # a quotient becomes an inequality
    if is_equation:
        return True
    # the comparison as form >= 0 has the form total - least, or least - 1 - total
    rests = (*part.rests, *_split_rests(total)) if around else part.rests
    if part.op not in UPPER:
        return _all_matter(total._replace(const=-least), rests, known, around)
    mirrored = tuple((g, tuple([(e, -k, inner) for e, k, inner in terms])) for g, terms in rests)
    return _all_matter(total._replace(const=least - 1), mirrored, known, around)


def _is_shortest_at_end(total: SumShape) -> bool:
    """Whether an inequality is the shortest text of "the sum is at its end".

    It says of `x*k + s`, with `s` a sum of variables, the same as `(x == 0) & (s == 0)`.
    """
    units = [k for _, k, _ in total.terms if abs(k) == 1]
    products = len(total.terms) - len(units)
    return total.is_plain and (not products or products == 1 and len(set(units)) == 1)


def _says_nothing(junction: ops.Op, others: list[ComparisonShape], part: ComparisonShape, known: IntervalScope) -> bool:
    """Whether fixed ends of the variables that an inequality lacks make all others true; in a disjunction, false."""
    if known.is_part or known.related or known.assumptions is not NO_ASSUMPTIONS or not known.is_box:
        return False
    own, pinned = part.total.variables, dict[Expr, int]()
    for other in others:
        sign = 1 if (other.op in UPPER) is (junction is ops.AND) else -1  # of the sum that is to be small
        highest = sign * other.total.const
        for e, k, inner in other.total.terms:
            k *= sign
            if e is None:
                end = _division_ends(inner, known, True)[k > 0]  # type: ignore[index,arg-type]  # they were found before
            else:
                end = known.atom_bounds(e)[(k > 0) is (e in own)]
                if e not in own and pinned.setdefault(e, k) * k < 0:
                    return False
            if end is None:
                return False
            highest += k * end
        if highest >= threshold(other) if sign > 0 else -highest < threshold(other):
            return False
    return True


def _has_constant(inner: DivisionShape | ProductShape | None) -> bool:
    return type(inner) is DivisionShape and inner.is_remainder and inner.dividend.const != 0


def _split_rests(total: SumShape) -> Iterator[tuple[int, tuple[ShapeTerm, ...]]]:
    """The rests of a sum after one remainder is split: `(x*4 + y) % 8` is `x%2*4 + y` where y is in [0, 4)."""
    for _, k, inner in total.terms:
        if type(inner) is DivisionShape and inner.is_remainder:
            others = [term for term in total.terms if term[2] is not inner]
            for g, fine in inner.rests:
                split = total._replace(terms=(*others, *[(e, k * own, below) for e, own, below in fine]))
                rests = _rests(split, {abs(k * g), *[abs(own) for _, own, _ in split.terms]})
                yield from [rest for rest in rests if k * g % rest[0] == 0]


def _congruences(total: SumShape) -> Iterator[DivisionShape]:
    """The remainder of an equation by c, its dividend times the inverse of each coefficient that has one modulo c."""
    inner = total.terms[0][2]
    if type(inner) is DivisionShape and inner.is_remainder and inner.reduced.is_plain and len(inner.reduced.terms) > 1:
        c = inner.divisor
        for unit in {k for _, k, _ in inner.reduced.terms if abs(k) > 1 and gcd(k, c) == 1}:
            inverse = pow(unit, -1, c)
            terms = tuple([(e, nearest(k * inverse, c), None) for e, k, _ in inner.reduced.terms])
            yield inner._replace(reduced=inner.reduced._replace(terms=terms))


def _is_variable(division: DivisionShape) -> bool:
    """Whether a variable is divided."""
    ((_, k, inner), *others) = division.dividend.terms
    return not others and inner is None and k == 1


def _is_wide(remainder: Any, known: IntervalScope) -> bool:
    """Whether the dividend of a `DivisionShape` reaches two whole periods."""
    ends = _ends_inside(remainder.reduced, known, -remainder.divisor)
    assert ends is not None  # it was found before
    low, high = ends
    return low is None or high is None or high - low >= 2 * remainder.divisor - 1

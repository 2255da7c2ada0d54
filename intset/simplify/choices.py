"""Rewrites of choices, `select` and chains of `min` and `max`, by decisions of order between their operands.

select(p, x + z, y + z) = select(p, x, y) + z          select(p, k*x, k*y) = k * select(p, x, y)
select(x < y, a, b) = min(a, b)                        where a - b is a positive multiple of x - y
min(x, y) = x                                          where x <= y
min(x + z, y + z) = min(x, y) + z
min(k*x, k*y) = k * min(x, y)                          where k > 0;  = k * max(x, y) where k < 0
max(x, -x) = abs(x)

Decisions of order: the difference of two expressions is a linear form. Its interval is tried first; then atoms are
replaced by their bounds:

    min(a, b) + r >= 0     where a + r >= 0 and b + r >= 0           max(a, b) + r >= 0     where one of them is
    abs(a) + r >= 0        where a + r >= 0 or r - a >= 0            r - abs(a) >= 0        where both are
    r - (a & b) >= 0       where r - a >= 0, a >= 0                  (a | b) + r >= 0       where a + r >= 0, b >= 0
    c*(x//c) in [x - c + 1, x], c > 0                                       c*truncdiv(x, c) in [x - c + 1, x + c - 1]
    x//d in [0, x]         where x >= 0, d > 0
    f*r >= 0               where f >= 0 and r >= 0                    f + r >= 0            where r >= 0, a fact f >= 0

Most comparisons that simplification examines are undecided. Every consequence of the ranges, symbolic ends and facts
holds at a member of the scope, so a negative value there ends the search for `form >= 0` (`is_refuted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Final

from intset.expr import Cond, Expr, Node, Var, dag, ops
from intset.expr.node import folded_chain, make
from intset.expr.ops import Op
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, constant, factors, monomial_of, take_out
from intset.linear.signs import is_refuted
from intset.simplify import sums
from intset.simplify.rules import folded

COMPARED_OPERANDS: Final = 12  # operands of a chain that are compared pairwise; of a longer chain only neighbours are

ORDER_FORMS: Final = 32  # linear forms examined per comparison
ORDER_NESTING: Final = 6  # successive replacements of atoms
ORDER_FACTS: Final = 8  # facts taken from a form
ORDER_TERMS: Final = 8  # terms of a form whose atoms are replaced

BOUNDED: Final = frozenset(
    (ops.MIN, ops.MAX, ops.ABS, ops.BITAND, ops.BITOR, ops.SELECT, ops.FLOORDIV, ops.TRUNCDIV, ops.MUL)
)
SIMPLIFIED_ARM: Final = 48  # nodes of a select whose arms are read under its condition, a quarter a level
COMPARED_ARMS: Final = 16  # nodes of arms that are compared under the condition


class OrderDecider:
    """Decides order and conditions under the assumptions of one normalizer, and caches the decisions.

    Guarantee: sound; incomplete beyond `ORDER_FORMS`, `ORDER_NESTING` and the shared budget.

    Parameters
    ----------
    shared: the linear forms that several deciders may still examine, by default any number.
    """

    __slots__ = ("_found", "_shared", "known")

    def __init__(self, known: Normalizer, shared: list[int] | None = None) -> None:
        self.known = known
        self._shared = shared
        self._found: dict[tuple[Expr, Expr], bool] = {}

    def is_at_most(self, a: Expr, b: Expr) -> bool:
        """Whether `a <= b` is proved wherever both are defined."""
        if a is b:
            return True
        is_ordered = self._found.get((a, b))
        if is_ordered is None:
            is_ordered = self._found[a, b] = self.is_nonneg(self.known.form(b).minus(self.known.form(a)))
        return is_ordered

    def is_nonneg(self, form: Linear) -> bool:
        """Whether `form >= 0` is proved."""
        shared = self._shared
        if shared is None:
            return self._is_nonneg(form, [ORDER_FORMS], ORDER_NESTING)
        left = [most := min(ORDER_FORMS, shared[0])]
        holds = self._is_nonneg(form, left, ORDER_NESTING)
        shared[0] -= most - left[0]
        return holds

    def _is_nonneg(self, form: Linear, left: list[int], depth: int) -> bool:
        if left[0] <= 0:
            return False
        left[0] -= 1
        known = self.known
        if (known.members is not None or known.assumptions.limits) and is_refuted(known, form):
            return False
        low, _ = known.bounds(form)
        if low is not None and low >= 0:
            return True
        if known.is_nonneg(form):
            return True
        if not depth or len(form.terms) > ORDER_TERMS or not self._may_be_bounded(form) or is_refuted(self.known, form):
            return False
        for t, k in form.terms.items():
            every = self._at_least_each(t, k)
            if every is not None:
                rest = _without(form, t)
                return all(self._is_nonneg(rest.plus(arm), left, depth - 1) for arm in every)
        for t, k in form.terms.items():
            rest = _without(form, t)
            if any(self._is_nonneg(rest.plus(arm), left, depth - 1) for arm in self._at_most_some(t, k)):
                return True
        if any(self._is_nonneg(coarse, left, depth - 1) for coarse in self._without_quotients(form)):
            return True
        if self._has_nonneg_factors(form, left, depth):
            return True
        return any(self._is_nonneg(rest, left, depth - 1) for rest in self._without_facts(form))

    def _may_be_bounded(self, form: Linear) -> bool:
        """Whether the form contains replaceable atoms or facts."""
        if any(t.op in BOUNDED for t in form.terms):
            return True
        return len(form.terms) > 2 and bool(self.known.assumptions.nonneg)

    def _without_facts(self, form: Linear) -> Iterator[Linear]:
        """The form minus a nonnegative fact, if no term is added; skipped for forms with quotients."""
        if any(t.op is ops.FLOORDIV or t.op is ops.TRUNCDIV for t in form.terms):
            return
        for fact in self.known.assumptions.nonneg[:ORDER_FACTS]:
            if any(fact.terms.get(t) == k for t, k in form.terms.items()):
                rest = form.minus(fact)
                if len(rest.terms) <= len(form.terms):
                    yield rest

    def _at_least_each(self, t: Expr, k: int) -> list[Linear] | None:
        """Forms whose minimum equals `k * t`."""
        form = self.known.form
        if t.op is (ops.MIN if k > 0 else ops.MAX):
            return [form(arg).scale(k) for arg in t.args]
        if t.op is ops.ABS and k < 0:
            return [form(t.args[0]).scale(k), form(t.args[0]).scale(-k)]
        if t.op is ops.SELECT:
            return [form(arg).scale(k) for arg in t.args[1:]]  # each arm over all points: sound, less precise
        return None

    def _at_most_some(self, t: Expr, k: int) -> Iterator[Linear]:
        """Lower bounds of `k * t`, as forms."""
        form = self.known.form
        if t.op is (ops.MAX if k > 0 else ops.MIN):
            yield from (form(arg).scale(k) for arg in t.args)
            if k % 2 == 0:
                yield form(t.args[0]).plus(form(t.args[1])).scale(k // 2)
        elif t.op is ops.ABS:
            yield form(t.args[0]).scale(k)
            yield form(t.args[0]).scale(-k)
        elif t.op is ops.FLOORDIV and t.args[1].op is not ops.CONST:
            if self.known.is_nonneg(form(t.args[0])) and self.known.is_positive(form(t.args[1])):
                yield form(t.args[0]).scale(k) if k < 0 else constant(0)
        elif t.op is ops.BITAND and k < 0 or t.op is ops.BITOR and k > 0:
            for arg, other in (t.args, t.args[::-1]):
                if self.known.is_nonneg(form(arg if k < 0 else other)):
                    yield form(arg).scale(k)

    def _without_quotients(self, form: Linear) -> Iterator[Linear]:
        """Forms whose nonnegativity implies that of `form`, with one quotient replaced by its bound."""
        for t, k in form.terms.items():
            if t.op is ops.MUL and (multiple := self._multiple(t)) is not None:
                dividend, divisor = multiple
                bound = dividend if k < 0 else dividend.minus(divisor).shift(1)
                yield _without(form, t).plus(bound, k)
            if t.op not in (ops.FLOORDIV, ops.TRUNCDIV) or t.args[1].op is not ops.CONST or t.args[1].data < 1:
                continue
            c = t.args[1].data
            inner, rest = self.known.form(t.args[0]), _without(form, t)
            above = 0 if t.op is ops.FLOORDIV or self.known.is_nonneg(inner) else c - 1
            bound = inner.shift(1 - c if k > 0 else above)  # lower bound of c*t for k > 0, else upper bound
            if k % c == 0:
                yield rest.plus(bound, k // c)
            else:  # c*form is a multiple of c: at least 0 where it is above -c
                yield rest.scale(c).plus(bound, k).shift(c - 1)

    def _multiple(self, t: Expr) -> tuple[Linear, Linear] | None:
        """(x, d) for a product `x // d * d` with d > 0, which lies in (x - d, x]."""
        for quotient, divisor in (t.args, t.args[::-1]):
            if quotient.op is ops.FLOORDIV and quotient.args[1] is divisor:
                d = self.known.form(divisor)
                return (self.known.form(quotient.args[0]), d) if self.known.is_positive(d) else None
        return None

    def _has_nonneg_factors(self, form: Linear, left: list[int], depth: int) -> bool:
        """Whether `form` factors into two factors of equal sign."""
        for factor, rest in self.factored(form):
            sign = self.known.sign(atom(factor))
            beside = rest.minus(atom(factor))
            if beside.is_const and abs(beside.const) <= 1:
                return True  # consecutive integers have no opposite signs
            if sign and self._is_nonneg(rest.scale(sign), left, depth - 1):
                return True
        return False

    def factored(self, form: Linear) -> Iterator[tuple[Expr, Linear]]:
        """(f, r) with `form = f * r` and nonconstant r, for each factor f common to all terms."""
        if form.const or all(t.op is not ops.MUL for t in form.terms):
            return
        shared = factors(next(iter(form.terms)))
        for t in form.terms:
            own = factors(t)
            shared = [f for f in shared if take_out(own, f)]
        for f in dict.fromkeys(shared):
            rest = _divided(form, f)
            if not rest.is_const:
                yield f, rest

    def decided(self, cond: Cond) -> bool | None:
        """Truth value of a tautology or contradiction; None if undecided."""
        canonical = self.known.cond(cond)
        if canonical.op is ops.BOOL:
            return bool(canonical.data)
        if canonical.op in ops.COMPARISONS:
            clause = self.known.compared.get(canonical)
            if clause is not None and (self._may_be_bounded(clause[1]) or self.known.tells_more(clause[1])):
                return self.judged(*clause)
        return None

    def judged(self, kind: ops.Op, form: Linear) -> bool | None:
        """`decided` for a clause `form >= 0`, `== 0` or `!= 0`."""
        if kind is ops.GE:
            if self.is_nonneg(form):
                return True
            return False if self.is_nonneg(form.scale(-1).shift(-1)) else None
        if self.is_nonneg(form.shift(-1)) or self.is_nonneg(form.scale(-1).shift(-1)):
            return kind is ops.NE
        return None

    def holds(self, cond: Cond) -> bool:
        """Whether the condition is proved."""
        return self.decided(cond) is True


def _without(form: Linear, t: Expr) -> Linear:
    return Linear(form.const, {other: k for other, k in form.terms.items() if other is not t})


def _divided(form: Linear, f: Expr) -> Linear:
    """`form / f`, for a factor `f` common to all terms."""
    total = constant(0)
    for t, k in form.terms.items():
        own = factors(t)
        take_out(own, f)
        total = total.plus(atom(monomial_of(own)) if own else constant(1), k)
    return total


def readers(known: Normalizer, choice: Node) -> tuple[Normalizer, Normalizer]:
    """Normalizers for both arms of a select, each narrowed by the condition; large selects are not narrowed."""
    cond = choice.args[0]
    if not dag.is_small(SIMPLIFIED_ARM >> (2 * known.depth), choice.args):
        return known, known
    return known.narrowed(cond), known.narrowed(~cond)


_PARTIAL = frozenset((*ops.DIVISIONS, ops.LOAD, ops.SHL, ops.SHR, ops.ASSERTING))


def is_total(*roots: Node) -> bool:
    """Whether the operations below the roots are defined everywhere."""
    return not any(node.op in _PARTIAL and not _by_constant(node) for node in dag.postorder(roots))


def is_as_total(new: Node, old: Node) -> bool:
    """Whether `new` is defined wherever `old` is: `old` evaluates every partial operation of `new` unconditionally."""
    partial = [node for node in dag.postorder((new,)) if node.op in _PARTIAL and not _by_constant(node)]
    if not partial:
        return True
    reached = dag.reachable([old], lambda node: node.args[:1] if node.op in ops.LAZY else node.args)
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
        if not dag.is_small(SIMPLIFIED_ARM, (at, off, value)):
            continue
        there = dag.substitute(at, {var: value})
        if is_total(off) and known.form(there).same(known.form(dag.substitute(off, {var: value}))):
            yield "branches equal where the equation holds", off
        if there is not at:
            arms = (there, off) if cond.op is ops.EQ else (off, there)
            yield "value from the equation", make(ops.SELECT, (cond, *arms))


def as_bound(node: Expr, known: Normalizer) -> Iterator[tuple[str, Expr]]:
    """The select as min or max, where the condition orders its arms and the negation orders them in reverse."""
    cond, a, b = node.args
    if cond.op not in ORDERED or not is_total(a, b) or not dag.is_small(COMPARED_ARMS, (a, b)):
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
            if all(term not in dag.free_vars(t) for t in value.terms):
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


def bound_candidates(node: Expr, order: OrderDecider) -> Iterator[tuple[str, Expr]]:
    """Rewrites of a min or max chain: dominated operands dropped, common addends and factors moved out."""
    op = node.op
    operands = dag.chain(op, node)
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
        opened_operands += [sums.write(rest.plus(sums.read(arg), k)) for arg in dag.chain(inner.op, inner)]
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

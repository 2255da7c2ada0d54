"""Expressions to the linear form, under what is known of the variables' ranges.

All divisions become floor divisions, remainders become `x - c*(x // c)`, so `(x//5)*5 + x%5` cancels to `x` by itself;
`regroup` brings remainders back for bounds and for print. The identities of floor division that are used (c, d > 0):

    (c*q + r) // c            = q + r // c
    (g*r + k) // (g*c)        = (r + k//g) // c
    (x//c + y) // d           = (x + c*y) // (c*d)
    (g*h + s) // (g*c)        = h // c                      where 0 <= s < g
    x // c                    = k                           where k*c <= x < (k+1)*c
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd
from typing import Any, NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var, const, make, truth
from intset.expr.walk import is_small
from intset.linear import bounds as iv
from intset.linear import symbolic
from intset.linear.bounds import EVERYTHING, Interval
from intset.linear.form import ONE, ZERO, Linear, accumulate, atom, constant, factors, product

MAX_PRODUCT_TERMS = 24  # a product with more terms than this stays one atom
MAX_TREE_STEPS = 128
MAX_EXPANDED_TERMS = 16  # a longer sum is not written out twice, nor searched for remainders
MAX_MASK_RUNS = 4
MAX_REFINED_ARM = 48  # nodes of a select whose arms are read under its condition; a quarter for each level of nesting


Limits = Mapping[Expr, tuple[Linear | None, Linear | None]]  # variable -> (first, last), None where infinite


class Knowledge(NamedTuple):
    """What is known beyond numeric ranges: forms that are at least 0, intervals of atoms, symbolic ends of variables."""

    nonneg: tuple[Linear, ...] = ()
    atoms: Mapping[Expr, Interval] = {}
    limits: Limits = {}


NO_KNOWLEDGE = Knowledge()


class Normalizer:
    """Canonical forms and numeric bounds of expressions over variables with known numeric ranges.

    Guarantee: `form(e)` equals `e` wherever `e` is defined and every variable lies in its range; `bounds(f)` contains
    every such value of `f`; `truth(c)` is right wherever `c` is defined. Each node is visited once.
    """

    __slots__ = (
        "_atom_bounds",
        "_narrowed",
        "_without_facts",
        "compared",
        "conds",
        "depth",
        "empty",
        "forms",
        "has_parameters",
        "knowledge",
        "met_partial",
        "ranges",
    )

    def __init__(
        self, ranges: Mapping[Var, Interval], facts: Knowledge | None = None, depth: int = 0, empty: bool = False
    ) -> None:
        self.ranges = ranges
        self.knowledge = facts or NO_KNOWLEDGE
        self.depth = depth
        self.empty = empty
        self.has_parameters = bool(self.knowledge.limits)  # whether a variable was met that has no numeric range
        self.met_partial = False  # whether an operation that is not defined everywhere was met
        self.forms: dict[Node, Linear] = {}
        self.conds: dict[Node, Cond] = {}
        self.compared: dict[Cond, tuple[ops.Op, Linear]] = {}  # canonical comparison -> (GE or EQ or NE, form vs. 0)
        self._atom_bounds: dict[Expr, Interval] = {**ranges, **self.knowledge.atoms}
        self._without_facts: Normalizer | None = None
        self._narrowed: dict[Cond, Normalizer] = {}

    # -- entry points -------------------------------------------------------------------------------------------

    def form(self, root: Expr) -> Linear:
        """The linear form of `root`."""
        self._normalize(root)
        return self.forms[root]

    def cond(self, root: Cond) -> Cond:
        """The canonical condition: comparisons against 0 in linear form, negations pushed down, constants folded."""
        self._normalize(root)
        return self.conds[root]

    def is_nonneg(self, form: Linear) -> bool:
        """Whether `form` is known to be at least 0 everywhere."""
        low, high = self.bounds(form)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0 or len(form.terms) < 2 or not self.has_parameters:
            return False
        return symbolic.is_nonneg(self, form)

    def may_be_zero(self, form: Linear) -> bool:
        """Whether 0 is not known to be excluded."""
        low, high = self.bounds(form)
        return (low is None or low <= 0) and (high is None or high >= 0) and not self.is_positive(form)

    def is_positive(self, form: Linear) -> bool:
        """Whether `form` is known to be at least 1 everywhere."""
        return self.is_nonneg(form.shift(-1))

    def bounds(self, form: Linear) -> Interval:
        """A numeric interval that contains every value of `form`."""
        found = form.interval
        if found is not None and found[0] is self:
            return found[1]
        interval = self.sum_bounds(form)
        if len(form.terms) > 1:
            regrouped = self.regroup(form)
            if regrouped is not form:
                interval = iv.meet(interval, self.sum_bounds(regrouped))
        for fact in self.knowledge.nonneg:
            interval = iv.meet(interval, self._bounds_beside(form, fact))
        form.interval = (self, interval)
        return interval

    def _plain_bounds(self, form: Linear) -> Interval:
        """Bounds from ranges alone: what the use of a fact rests on, so that no fact is asked about itself."""
        plain = self._without_facts
        if plain is None:
            knowledge = self.knowledge._replace(nonneg=())
            plain = self._without_facts = Normalizer(self.ranges, knowledge, self.depth, self.empty)
        return plain.sum_bounds(form)

    def _bounds_beside(self, form: Linear, fact: Linear) -> Interval:
        """Bounds of `form` by adding or subtracting the multiple of `fact >= 0` that cancels a common term."""
        low = high = None
        get = form.terms.get
        tried: list[tuple[int, int]] = []
        for monomial, k in fact.terms.items():
            have = get(monomial)
            if have is None:
                continue
            g = gcd(have, k)
            times, weight = abs(k) // g, -have // g if k > 0 else have // g
            if (times, weight) in tried:
                continue
            tried.append((times, weight))
            first, last = self._plain_bounds(form.scale(times).plus(fact, weight))
            if weight > 0:  # times*form <= times*form + weight*fact
                if last is not None and (high is None or last // times < high):
                    high = last // times
            elif first is not None and (low is None or -(-first // times) > low):
                low = -(-first // times)
        return (low, high)

    # -- the walk -----------------------------------------------------------------------------------------------

    def _normalize(self, root: Node) -> None:
        forms, conds = self.forms, self.conds
        stack = [root]
        pending: dict[Node, tuple[int, dict[Node, int]]] = {}
        while stack:
            node = stack[-1]
            if node in forms or node in conds:
                stack.pop()
                continue
            op = node.op
            if op is ops.CONST:
                forms[node] = constant(node.data)
            elif _spine_children(node):
                spine = pending.get(node)
                if spine is None:
                    spine = pending[node] = self._sum(node) or self._spine(node)
                    waiting = [leaf for leaf in spine[1] if leaf.op is not ops.VAR and leaf not in forms]
                    if waiting:
                        stack.extend(waiting)
                        continue
                forms[node] = self._combine(*spine)
            elif op is ops.VAR or op is ops.BOOL:
                self._leaf(node)
            else:
                waiting = [arg for arg in self._needed(node) if arg not in forms and arg not in conds]
                if waiting:
                    stack.extend(waiting)
                    continue
                if op.boolean:
                    conds[node] = _COND_RULES[op](self, node)
                else:
                    form = forms[node] = _RULES[op](self, node)
                    for e in form.terms:  # from the leaves up, so that no bound is ever asked for through many levels
                        if e not in self._atom_bounds:
                            self.atom_bounds(e)
            stack.pop()

    def _needed(self, node: Node) -> tuple[Any, ...]:
        return node.args[:1] if node.op in (ops.SELECT, ops.ASSERTING) else node.args

    def _leaf(self, node: Any) -> None:
        if node.op is ops.BOOL:
            self.conds[node] = node
            return
        interval = self.ranges.get(node)
        if interval is None:
            self.has_parameters = True
        elif interval[0] is not None and interval[0] == interval[1]:
            self.forms[node] = constant(interval[0])
            return
        self.forms[node] = atom(node)

    def _sum(self, root: Node) -> tuple[int, dict[Node, int]] | None:
        """What `_spine` says, for a sum that is short when written out as a tree; `None` for others."""
        known = self.forms
        total = 0
        leaves: dict[Node, int] = {}
        stack: list[tuple[Node, int]] = [(root, 1)]
        for _ in range(MAX_TREE_STEPS):
            node, factor = stack.pop()
            op = node.op
            if op is ops.CONST:
                total += factor * node.data
            elif op is ops.VAR or (node in known and node is not root):
                leaves[node] = leaves.get(node, 0) + factor
            elif op is ops.ADD:
                stack.append((node.args[1], factor))
                stack.append((node.args[0], factor))
            else:
                children = _spine_children(node)
                if children:
                    stack.extend((child, factor * k) for child, k in reversed(children))
                else:
                    leaves[node] = leaves.get(node, 0) + factor
            if not stack:
                return total, leaves
        return None

    def _spine(self, root: Node) -> tuple[int, dict[Node, int]]:
        """`root` as constant + sum(coefficient * node) over the nodes where addition stops; shared nodes met once."""
        order: list[Node] = []
        seen: set[Node] = set()
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, left = stack.pop()
            if left:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            stack.append((node, True))
            if node is root or node not in self.forms:
                stack.extend((child, False) for child, _ in _spine_children(node))
        total = 0
        weight: dict[Node, int] = {root: 1}
        leaves: dict[Node, int] = {}
        for node in reversed(order):
            factor = weight[node]
            if node.op is ops.CONST:
                total += factor * node.data
                continue
            children = _spine_children(node) if node is root or node not in self.forms else ()
            if not children:
                leaves[node] = factor
            for child, coefficient in children:
                weight[child] = weight.get(child, 0) + factor * coefficient
        return total, leaves

    def _combine(self, total: int, leaves: dict[Node, int]) -> Linear:
        terms: dict[Any, int] = {}
        forms = self.forms
        for leaf, factor in leaves.items():
            if factor:
                form = forms.get(leaf)
                if form is None:
                    self._leaf(leaf)
                    form = forms[leaf]
                total += factor * form.const
                accumulate(terms, form, factor)
        return Linear(total, terms)

    def product(self, a: Linear, b: Linear) -> Linear:
        if len(a.terms) * len(b.terms) <= MAX_PRODUCT_TERMS:
            return a.times(b)
        return atom(product(self.atomized(a), self.atomized(b)))

    def atomized(self, form: Linear) -> Expr:
        """`form` as an expression whose form is remembered."""
        e = form.expr()
        self.forms.setdefault(e, form)
        return e

    def compare(self, kind: ops.Op, form: Linear) -> Cond:
        """The canonical condition `form >= 0`, `== 0` or `!= 0`, decided where the bounds decide it."""
        g = form.content()
        if kind is ops.GE:
            if g > 1:
                form = Linear(form.const // g, {t: k // g for t, k in form.terms.items()})
            low, high = self.bounds(form)
            if low is not None and low >= 0 or high is not None and high < 0:
                return truth(low is not None and low >= 0)
        else:
            low, high = self.bounds(form)
            misses = low is not None and low > 0 or high is not None and high < 0 or bool(form.const % g if g else 0)
            if misses or (low == 0 and high == 0):
                return truth(misses is (kind is ops.NE))
            if g > 1:
                form = form.divided(g)
            if form.ordered()[0][1] < 0:
                form = form.scale(-1)
        positive = Linear(max(form.const, 0), {t: k for t, k in form.terms.items() if k > 0})
        negative = Linear(max(-form.const, 0), {t: -k for t, k in form.terms.items() if k < 0})
        cond: Cond = make(kind, (positive.expr(), negative.expr()))
        self.compared[cond] = (kind, form)
        self.conds[cond] = cond
        return cond

    # -- divisions ----------------------------------------------------------------------------------------------

    def floordiv(self, dividend: Linear, divisor: Linear) -> Linear:
        if divisor.is_const:
            c = divisor.const
            if c == 0:
                self.met_partial = True
                return atom(make(ops.FLOORDIV, (self.atomized(dividend), const(0))))
            return self.floordiv_const(dividend, c) if c > 0 else self.floordiv_const(dividend.scale(-1), -c)
        self.met_partial |= self.may_be_zero(divisor)
        quotient, rest = _pull_out(dividend, divisor)
        if rest.is_const and rest.const == 0:
            return quotient
        positive = self.is_nonneg(divisor.shift(-1))
        if positive and self.is_nonneg(rest) and self.is_nonneg(divisor.minus(rest).shift(-1)):
            return quotient
        if positive and (inner := self._inner_division(rest)) is not None:
            return quotient.plus(self.floordiv(inner[0], self.product(inner[1], divisor)))
        return quotient.plus(atom(make(ops.FLOORDIV, (self.atomized(rest), self.atomized(divisor)))))

    def _inner_division(self, form: Linear) -> tuple[Linear, Linear] | None:
        """(x + d*y, d) when `form` is `x // d + y` with just one such x, and d is known to be positive."""
        found = [e for e, k in form.terms.items() if k == 1 and e.op is ops.FLOORDIV]
        if len(found) != 1:
            return None
        inner, divisor = self.form(found[0].args[0]), self.form(found[0].args[1])
        if not self.is_positive(divisor):
            return None
        return inner.plus(self.product(form.minus(atom(found[0])), divisor)), divisor

    def floordiv_const(self, form: Linear, c: int) -> Linear:
        """`form // c` for a constant c > 0."""
        if c == 1:
            return form
        if (single := self._one_period(form, c)) is not None:
            return constant(single)
        quotient: dict[Expr, int] = {}
        rest: dict[Expr, int] = {}
        for monomial, coefficient in form.terms.items():
            q = coefficient // c if coefficient > 0 else -(-coefficient // c)
            r = coefficient - q * c
            if q:
                quotient[monomial] = q
            if r:
                rest[monomial] = r
        offset, r0 = divmod(form.const, c)
        outer = Linear(offset, quotient)
        if not rest:
            return outer
        inner = Linear(r0, rest) if quotient or offset else form
        g = gcd(inner.content(), c)
        if g > 1:
            inner, c = inner.divided(g), c // g
            if c == 1:
                return outer.plus(inner)
        if inner is not form and (single := self._one_period(inner, c)) is not None:
            return outer.shift(single)
        if (nested := self._inner_division(inner)) is not None:
            return outer.plus(self.floordiv(nested[0], nested[1].scale(c)))
        if (coarse := self._drop_small_part(inner, c)) is not None:
            return outer.plus(coarse)
        division = atom(make(ops.FLOORDIV, (self.atomized(inner), const(c))))
        return outer.plus(division) if quotient or offset else division

    def _one_period(self, form: Linear, c: int) -> int | None:
        low, high = self.bounds(form)
        if low is None or high is None or low // c != high // c:
            return None
        return low // c

    def _drop_small_part(self, form: Linear, c: int) -> Linear | None:
        """`(g*h + s) // c` as `(h + k) // (c/g)`, when g divides c and s stays within one period of g."""
        for g in sorted({gcd(k, c) for k in form.terms.values()} - {1}, reverse=True):
            coarse = {t: k for t, k in form.terms.items() if k % g == 0}
            if len(coarse) == len(form.terms):
                continue
            fine = Linear(form.const, {t: k for t, k in form.terms.items() if k % g})
            step = self._one_period(fine, g)
            if step is not None:
                return self.floordiv_const(Linear(step, {t: k // g for t, k in coarse.items()}), c // g)
        return None

    def floormod(self, dividend: Linear, divisor: Linear) -> Linear:
        if len(dividend.terms) > MAX_EXPANDED_TERMS:
            return atom(make(ops.FLOORMOD, (self.atomized(dividend), self.atomized(divisor))))
        return dividend.minus(self.product(self.floordiv(dividend, divisor), divisor))

    def low_bits(self, form: Linear, bits: int) -> Linear:
        """`form % 2**bits`."""
        return form.minus(self.floordiv_const(form, 1 << bits).scale(1 << bits))

    def bit_and(self, a: Linear, b: Linear) -> Linear | None:
        """`a & b` where it is linear: a constant mask of few runs of ones, or operands without a common bit."""
        if a.is_const:
            a, b = b, a
        if b.is_const:
            if b.const < 0:  # a & m = a - (a & ~m)
                rest = self._masked(a, ~b.const)
                return None if rest is None else a.minus(rest)
            return self._masked(a, b.const)
        return ZERO if self._no_common_bit(a, b) or self._no_common_bit(b, a) else None

    def _masked(self, a: Linear, mask: int) -> Linear | None:
        total, low, runs = ZERO, 0, 0
        while mask >> low:
            low += ((mask >> low) & -(mask >> low)).bit_length() - 1
            ones = (mask >> low) ^ ((mask >> low) + 1)
            width = ones.bit_length() - 1
            total = total.plus(self.low_bits(self.floordiv_const(a, 1 << low), width), 1 << low)
            low, runs = low + width, runs + 1
            if runs > MAX_MASK_RUNS:
                return None
        return total

    def _no_common_bit(self, high: Linear, low: Linear) -> bool:
        step = gcd(high.content(), high.const)
        step &= -step
        first, last = self.bounds(low)
        return first is not None and last is not None and 0 <= first and last < step

    # -- bounds -------------------------------------------------------------------------------------------------

    def sum_bounds(self, form: Linear) -> Interval:
        """Bounds of the sum as it stands, term by term."""
        known = self._atom_bounds
        low: int | None = form.const
        high: int | None = form.const
        for monomial, coefficient in form.terms.items():
            interval = known.get(monomial)
            if interval is None:
                interval = known[monomial] = self._compute_atom_bounds(monomial)
            first, last = interval if coefficient > 0 else (interval[1], interval[0])
            low = None if low is None or first is None else low + coefficient * first
            high = None if high is None or last is None else high + coefficient * last
            if low is None and high is None:
                return EVERYTHING
        return (low, high)

    def atom_bounds(self, e: Expr) -> Interval:
        """A numeric interval that contains every value of an atom or monomial."""
        found = self._atom_bounds.get(e)
        if found is None:
            found = self._atom_bounds[e] = self._compute_atom_bounds(e)
        return found

    def _compute_atom_bounds(self, e: Any) -> Interval:
        op = e.op
        if op is ops.VAR:
            return self.ranges.get(e) or _declared(e)
        if op is ops.LOAD:
            return (e.data.lower, e.data.upper)
        if op is ops.MUL:
            return self._product_bounds(factors(e))
        if op is ops.CONST:
            return (e.data, e.data)
        if op is ops.SELECT:
            a, b = self.branches(e)
            if a[0].empty or b[0].empty:
                branch, arm = b if a[0].empty else a
                return branch.bounds(branch.form(arm))
            return iv.hull(a[0].bounds(a[0].form(e.args[1])), b[0].bounds(b[0].form(e.args[2])))
        if (op is ops.FLOORDIV or op is ops.FLOORMOD) and e.args[1].op is ops.CONST and e.args[1].data > 0:
            inner, c = self.form(e.args[0]), e.args[1].data
            low, high = self.bounds(inner)
            if op is ops.FLOORDIV:
                return (None if low is None else low // c, None if high is None else high // c)
            if low is not None and high is not None and low // c == high // c:
                return (low % c, high % c)
            g = gcd(inner.content(), c)  # the remainder is what it is modulo g
            return (inner.const % g, c - g + inner.const % g)
        rule = ATOM_BOUNDS.get(op)
        if rule is None:
            return EVERYTHING
        return rule(*(self.bounds(self.form(arg)) for arg in e.args))

    def _product_bounds(self, atoms: list[Expr]) -> Interval:
        result: Interval = (1, 1)
        while atoms:
            e = atoms.pop()
            interval = self.atom_bounds(e)
            if e in atoms:  # an even power is not negative
                atoms.remove(e)
                interval = iv.meet(iv.times(interval, interval), (0, None))
            result = iv.times(result, interval)
        return result

    # -- remainders ---------------------------------------------------------------------------------------------

    def regroup(self, form: Linear) -> Linear:
        """`form` with `r - c*(r // c)` written as the remainder it is, wherever that cancels something.

        The result holds `FLOORMOD` atoms, so it is for bounds and print, not for further arithmetic.
        """
        if not 1 < len(form.terms) <= 2 * MAX_EXPANDED_TERMS:
            return form
        found = form.regrouped
        if found is None or found[0] is not self:
            result = form
            for _ in range(8):
                step = next(self._remainder_steps(result), None)
                if step is None:
                    break
                result = step
            found = form.regrouped = (self, result)
        return found[1]

    def _remainder_steps(self, form: Linear) -> Iterator[Linear]:
        for monomial, k in form.terms.items():
            division = monomial if monomial.op is ops.FLOORDIV else None
            if division is None:
                if monomial.op is ops.MUL:
                    yield from self._symbolic_remainder(form, monomial, k)
                continue
            if division.args[1].op is not ops.CONST:
                continue
            c: int = division.args[1].data
            if c < 1:
                continue
            inner = self.form(division.args[0])
            for other, weight in form.terms.items():
                if other is monomial or weight * k > 0:
                    continue
                for modulus in {c, -k // weight}:
                    if modulus < 2 or c % modulus:
                        continue
                    base = inner if modulus == c else self.floordiv_const(inner, c // modulus)
                    own = base.terms.get(other)
                    if own is None or weight % own:
                        continue
                    factor = weight // own
                    if abs(k + modulus * factor) < abs(k) and _dominates(form, base, factor):
                        remainder = make(ops.FLOORMOD, (self.atomized(base), const(modulus)))
                        shorter = form.plus(base, -factor).plus(atom(monomial), modulus * factor)
                        yield shorter.plus(atom(remainder), factor)

    def _symbolic_remainder(self, form: Linear, monomial: Expr, k: int) -> Iterator[Linear]:
        for division in factors(monomial):
            if division.op is not ops.FLOORDIV or division.args[1].op is ops.CONST:
                continue
            base, divisor = self.form(division.args[0]), self.form(division.args[1])
            whole = self.product(divisor, atom(division))
            own = whole.terms.get(monomial)
            if own is None or k % own:
                continue
            factor = -k // own
            if base.terms and _dominates(form, base, factor):
                remainder = make(ops.FLOORMOD, (self.atomized(base), self.atomized(divisor)))
                yield form.plus(base, -factor).plus(whole, factor).plus(atom(remainder), factor)

    # -- branches -----------------------------------------------------------------------------------------------

    def branches(self, e: Expr) -> tuple[tuple[Normalizer, Expr], tuple[Normalizer, Expr]]:
        """The arms of a select, each with a normalizer whose ranges are narrowed by the condition.

        An arm that is large is read as it stands: in a tower of selects each level would be read again under every other.
        """
        cond, if_true, if_false = e.args
        limit = MAX_REFINED_ARM >> (2 * self.depth)
        if not is_small(limit, (cond, if_true, if_false)):
            return (self, if_true), (self, if_false)
        return (self.narrowed(cond), if_true), (self.narrowed(~cond), if_false)

    def narrowed(self, cond: Cond) -> Normalizer:
        """A normalizer for the points where `cond` holds as well."""
        found = self._narrowed.get(cond)
        if found is None:
            from intset.linear.refine import narrow

            found = self._narrowed[cond] = narrow(self, (cond,))
        return found


def _spine_children(node: Node) -> tuple[tuple[Node, int], ...]:
    op = node.op
    if op is ops.ADD:
        return ((node.args[0], 1), (node.args[1], 1))
    if op is ops.SUB:
        return ((node.args[0], 1), (node.args[1], -1))
    if op is ops.NEG:
        return ((node.args[0], -1),)
    if op is ops.MUL:
        a, b = node.args
        if b.op is ops.CONST:
            return ((a, b.data),)
        if a.op is ops.CONST:
            return ((b, a.data),)
    return ()


def _declared(e: Any) -> Interval:
    low, high, _ = e.declared()
    return (low, high)


def _dominates(form: Linear, part: Linear, factor: int) -> bool:
    """Whether `factor * part` only takes away from what is there: same signs, no larger coefficients."""
    get = form.terms.get
    for monomial, coefficient in part.terms.items():
        have, take = get(monomial, 0), factor * coefficient
        if have * take <= 0 or abs(have) < abs(take):
            return False
    return True


def _pull_out(dividend: Linear, divisor: Linear) -> tuple[Linear, Linear]:
    """(q, r) with `dividend = q*divisor + r`, q as large as the terms show; for symbolic divisors."""
    if divisor.const == 0 and len(divisor.terms) == 1:
        ((unit, scale),) = divisor.terms.items()
        quotient, rest = ZERO, Linear(dividend.const, {})
        wanted = factors(unit)
        for monomial, coefficient in dividend.terms.items():
            left = factors(monomial)
            try:
                for e in wanted:
                    left.remove(e)
            except ValueError:
                rest = rest.plus(atom(monomial), coefficient)
                continue
            q = coefficient // scale if coefficient * scale > 0 else -(-coefficient // scale)
            unit_left = constant(1)
            for e in left:
                unit_left = unit_left.times(atom(e))
            quotient = quotient.plus(unit_left, q)
            rest = rest.plus(atom(monomial), coefficient - q * scale)
        return quotient, Linear(rest.const, {t: k for t, k in rest.terms.items() if k})
    for monomial, coefficient in divisor.terms.items():
        have = dividend.terms.get(monomial, 0)
        if have and have % coefficient == 0:
            q = have // coefficient
            return constant(q), dividend.plus(divisor, -q)
        break
    return ZERO, dividend


# -- rules: one entry an operation ------------------------------------------------------------------------------


def _division(combine: Callable[[Normalizer, Linear, Linear], Linear]) -> Callable[[Normalizer, Node], Linear]:
    def rule(self: Normalizer, node: Node) -> Linear:
        return combine(self, self.forms[node.args[0]], self.forms[node.args[1]])

    return rule


def _ceildiv(self: Normalizer, a: Linear, b: Linear) -> Linear:
    return self.floordiv(a.scale(-1), b).scale(-1)  # ceil(a/b) = -floor(-a/b)


def _truncdiv(self: Normalizer, a: Linear, b: Linear) -> Linear:
    if b.is_const and b.const < 0:
        return _truncdiv(self, a, b.scale(-1)).scale(-1)
    self.met_partial |= self.may_be_zero(b)
    positive = self.is_nonneg(b)
    if positive and self.is_nonneg(a):
        return self.floordiv(a, b)
    if positive and self.is_nonneg(a.scale(-1)):
        return self.floordiv(a.scale(-1), b).scale(-1)
    if b.is_const and b.const and a.const % b.const == 0 and a.content() % b.const == 0:
        return a.divided(b.const)
    return atom(make(ops.TRUNCDIV, (self.atomized(a), self.atomized(b))))


def _truncmod(self: Normalizer, a: Linear, b: Linear) -> Linear:
    return a.minus(self.product(_truncdiv(self, a, b), b))


def _minmax(op: ops.Op) -> Callable[[Normalizer, Node], Linear]:
    sign = 1 if op is ops.MIN else -1

    def rule(self: Normalizer, node: Node) -> Linear:
        a, b = self.forms[node.args[0]], self.forms[node.args[1]]
        difference = a.minus(b).scale(sign)
        low, high = self.bounds(difference)
        if high is not None and high <= 0 or self.is_nonneg(difference.scale(-1)):
            return a
        if low is not None and low >= 0 or self.is_nonneg(difference):
            return b
        if a.same(b):
            return a
        common, a, b = _split_common(a, b)
        parts = sorted((a, b), key=lambda form: (form.is_const, _form_key(form)))
        return common.plus(atom(make(op, tuple(self.atomized(part) for part in parts))))

    return rule


def _form_key(form: Linear) -> tuple[Any, ...]:
    from intset.linear.order import order_key

    return (*order_key(form.expr()), form.const)


def _split_common(a: Linear, b: Linear) -> tuple[Linear, Linear, Linear]:
    """(s, a - s, b - s) with the terms that both forms share in s."""
    shared = {t: k for t, k in a.terms.items() if b.terms.get(t) == k}
    offset = a.const if a.const == b.const or (len(a.terms) > len(shared) and a.const) else 0
    common = Linear(offset, shared)
    return common, a.minus(common), b.minus(common)


def _abs(self: Normalizer, node: Node) -> Linear:
    a = self.forms[node.args[0]]
    if self.is_nonneg(a):
        return a
    if self.is_nonneg(a.scale(-1)):
        return a.scale(-1)
    first = a.ordered()[0][1]
    return atom(make(ops.ABS, (self.atomized(a if first > 0 else a.scale(-1)),)))


def _select(self: Normalizer, node: Node) -> Linear:
    condition = self.conds[node.args[0]]
    if condition.op is ops.BOOL:
        return self.form(node.args[1 if condition.data else 2])
    (yes, if_true), (no, if_false) = self.branches(node)  # type: ignore[arg-type]
    a, b = yes.form(if_true), no.form(if_false)
    self.met_partial |= yes.met_partial or no.met_partial
    if yes.empty or no.empty:
        return b if yes.empty else a
    if a.same(b):
        return a
    common, a, b = _split_common(a, b)
    return common.plus(atom(make(ops.SELECT, (condition, self.atomized(a), self.atomized(b)))))


def _mul(self: Normalizer, node: Node) -> Linear:
    return self.product(self.forms[node.args[0]], self.forms[node.args[1]])


def _asserting(self: Normalizer, node: Node) -> Linear:
    self.met_partial |= self.cond(node.args[0]).op is not ops.BOOL
    return self.form(node.args[1])


def _bitand(self: Normalizer, node: Node) -> Linear:
    return self.bit_and(self.forms[node.args[0]], self.forms[node.args[1]]) or _opaque_bits(self, node)


def _bitor(self: Normalizer, node: Node) -> Linear:
    a, b = self.forms[node.args[0]], self.forms[node.args[1]]
    common = self.bit_and(a, b)  # a | b = a + b - (a & b)
    return _opaque_bits(self, node) if common is None else a.plus(b).minus(common)


def _bitxor(self: Normalizer, node: Node) -> Linear:
    a, b = self.forms[node.args[0]], self.forms[node.args[1]]
    common = self.bit_and(a, b)  # a ^ b = a + b - 2*(a & b)
    return _opaque_bits(self, node) if common is None else a.plus(b).plus(common, -2)


def _opaque_bits(self: Normalizer, node: Node) -> Linear:
    parts = sorted((self.forms[arg] for arg in node.args), key=_form_key)
    return atom(make(node.op, tuple(self.atomized(part) for part in parts)))


def _shl(self: Normalizer, node: Node) -> Linear:
    a, b = (self.forms[arg] for arg in node.args)
    if b.is_const and 0 <= b.const <= 4096:
        return a.scale(1 << b.const)
    self.met_partial = True
    return atom(make(ops.SHL, (self.atomized(a), self.atomized(b))))


def _shr(self: Normalizer, node: Node) -> Linear:
    a, b = (self.forms[arg] for arg in node.args)
    if b.is_const and 0 <= b.const <= 4096:
        return self.floordiv_const(a, 1 << b.const)
    self.met_partial = True
    return atom(make(ops.SHR, (self.atomized(a), self.atomized(b))))


def _cast(self: Normalizer, node: Node) -> Linear:
    bits, signed = node.data
    a = self.forms[node.args[0]]
    offset = 1 << (bits - 1) if signed else 0
    return self.low_bits(a.shift(offset), bits).shift(-offset)  # wrap(a) = (a + h) mod 2^bits - h


def _load(self: Normalizer, node: Node) -> Linear:
    args = tuple(self.atomized(self.forms[arg]) for arg in node.args)
    symbol = node.data
    if symbol.lower is not None and symbol.lower == symbol.upper:
        return constant(symbol.lower)
    return atom(make(ops.LOAD, args, symbol))


_RULES: dict[ops.Op, Callable[[Normalizer, Node], Linear]] = {
    ops.LOAD: _load,
    ops.MUL: _mul,
    ops.FLOORDIV: _division(Normalizer.floordiv),
    ops.FLOORMOD: _division(Normalizer.floormod),
    ops.CEILDIV: _division(_ceildiv),
    ops.TRUNCDIV: _division(_truncdiv),
    ops.TRUNCMOD: _division(_truncmod),
    ops.MIN: _minmax(ops.MIN),
    ops.MAX: _minmax(ops.MAX),
    ops.ABS: _abs,
    ops.SELECT: _select,
    ops.ASSERTING: _asserting,
    ops.BITAND: _bitand,
    ops.BITOR: _bitor,
    ops.BITXOR: _bitxor,
    ops.BITNOT: lambda self, node: self.forms[node.args[0]].scale(-1).shift(-1),  # ~a = -a - 1
    ops.SHL: _shl,
    ops.SHR: _shr,
    ops.CAST: _cast,
}


# -- bounds of atoms ---------------------------------------------------------------------------------------------


def _abs_bounds(a: Interval) -> Interval:
    low, high = a
    if low is not None and low >= 0:
        return a
    if high is not None and high <= 0:
        return iv.scaled(a, -1)
    return (0, None if low is None or high is None else max(-low, high))


def _min_bounds(a: Interval, b: Interval) -> Interval:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    return (low, iv.meet((None, a[1]), (None, b[1]))[1])


def _max_bounds(a: Interval, b: Interval) -> Interval:
    return iv.scaled(_min_bounds(iv.scaled(a, -1), iv.scaled(b, -1)), -1)


def _truncdiv_bounds(a: Interval, b: Interval) -> Interval:
    low, high = iv.floordiv(a, b)
    negated = iv.scaled(iv.floordiv(iv.scaled(a, -1), b), -1)  # ceil(a/b)
    if a[0] is not None and a[0] >= 0 and b[0] is not None and b[0] > 0:
        return (low, high)
    return iv.hull((low, high), negated)


def _and_bounds(a: Interval, b: Interval) -> Interval:
    for x, y in ((a, b), (b, a)):
        if x[0] is not None and x[0] >= 0:
            high = x[1]
            if y[0] is not None and y[0] >= 0:
                high = iv.meet((None, high), (None, y[1]))[1]
            return (0, high)
    return (_bit_floor(a, b), None if a[1] is None or b[1] is None else max(a[1], b[1]))


def _or_bounds(a: Interval, b: Interval) -> Interval:
    low, high = _and_bounds(_inverted(a), _inverted(b))  # a | b = ~(~a & ~b)
    return iv.meet(_inverted((low, high)), _bit_range(a, b))


def _inverted(a: Interval) -> Interval:
    return (None if a[1] is None else ~a[1], None if a[0] is None else ~a[0])


def _bit_range(a: Interval, b: Interval) -> Interval:
    """The interval of the integers that need no more bits than those of `a` and `b`."""
    if None in a or None in b:
        nonneg = all(x[0] is not None and x[0] >= 0 for x in (a, b))
        return (0 if nonneg else None, None)
    bits = max(end.bit_length() if end >= 0 else (~end).bit_length() for end in (*a, *b))  # type: ignore[union-attr,operator]
    nonneg = a[0] >= 0 and b[0] >= 0  # type: ignore[operator]
    return (0 if nonneg else -(1 << bits), (1 << bits) - 1)


def _bit_floor(a: Interval, b: Interval) -> int | None:
    return _bit_range(a, b)[0] if None not in a and None not in b else None


def _shl_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return (0, None) if a[0] is not None and a[0] >= 0 else EVERYTHING
    return iv.times(a, (1 << max(low, 0), 1 << max(high, 0)))


def _shr_bounds(a: Interval, b: Interval) -> Interval:
    low, high = b
    if low is None or high is None or high > 4096:
        return iv.hull(a, (0, 0)) if a[1] is None or a[1] < 0 else iv.hull(a, (0, 0))
    return iv.floordiv(a, (1 << max(low, 0), 1 << max(high, 0)))


ATOM_BOUNDS: dict[ops.Op, Callable[..., Interval]] = {
    ops.FLOORDIV: iv.floordiv,
    ops.FLOORMOD: iv.floormod,
    ops.TRUNCDIV: _truncdiv_bounds,
    ops.MIN: _min_bounds,
    ops.MAX: _max_bounds,
    ops.ABS: _abs_bounds,
    ops.BITAND: _and_bounds,
    ops.BITOR: _or_bounds,
    ops.BITXOR: _bit_range,
    ops.SHL: _shl_bounds,
    ops.SHR: _shr_bounds,
}


# -- conditions --------------------------------------------------------------------------------------------------


def _comparison(kind: ops.Op, difference: Callable[[Linear, Linear], Linear]) -> Callable[[Normalizer, Node], Cond]:
    def rule(self: Normalizer, node: Node) -> Cond:
        return self.compare(kind, difference(self.forms[node.args[0]], self.forms[node.args[1]]))

    return rule


def _junction(op: ops.Op) -> Callable[[Normalizer, Node], Cond]:
    absorbing = op is ops.OR

    def rule(self: Normalizer, node: Node) -> Cond:
        a, b = (self.conds[arg] for arg in node.args)
        for x, y in ((a, b), (b, a)):
            if x.op is ops.BOOL:
                return x if x.data is absorbing else y
        return a if a is b else make(op, (a, b))

    return rule


def negated(self: Normalizer, cond: Cond) -> Cond:
    """The canonical negation of a canonical condition."""
    done: dict[Node, Cond] = {}
    for node in _junctions_below(cond):
        if node.op is ops.BOOL:
            done[node] = truth(not node.data)
        elif node.op is ops.AND or node.op is ops.OR:
            flipped = ops.OR if node.op is ops.AND else ops.AND
            done[node] = make(flipped, (done[node.args[0]], done[node.args[1]]))
        else:
            kind, form = self.compared[node]
            if kind is ops.GE:  # not (f >= 0)  is  -f - 1 >= 0
                done[node] = self.compare(ops.GE, form.scale(-1).shift(-1))
            else:
                done[node] = self.compare(ops.NE if kind is ops.EQ else ops.EQ, form)
    return done[cond]


def _junctions_below(root: Cond) -> Iterator[Any]:
    stack: list[tuple[Any, bool]] = [(root, False)]
    seen: set[Node] = set()
    while stack:
        node, left = stack.pop()
        if left:
            yield node
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            if node.op is ops.AND or node.op is ops.OR:
                stack.extend((arg, False) for arg in node.args)


_COND_RULES: dict[ops.Op, Callable[[Normalizer, Node], Cond]] = {
    ops.GE: _comparison(ops.GE, lambda a, b: a.minus(b)),
    ops.LE: _comparison(ops.GE, lambda a, b: b.minus(a)),
    ops.GT: _comparison(ops.GE, lambda a, b: a.minus(b).shift(-1)),
    ops.LT: _comparison(ops.GE, lambda a, b: b.minus(a).shift(-1)),
    ops.EQ: _comparison(ops.EQ, lambda a, b: a.minus(b)),
    ops.NE: _comparison(ops.NE, lambda a, b: a.minus(b)),
    ops.AND: _junction(ops.AND),
    ops.OR: _junction(ops.OR),
    ops.NOT: lambda self, node: negated(self, self.conds[node.args[0]]),
}

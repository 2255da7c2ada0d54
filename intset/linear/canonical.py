"""Expressions to the linear form, under what is known of the variables' ranges.

All divisions become floor divisions (`division.py`), remainders become `x - c*(x // c)` (`remainders.py`); `rules.py`
has one rule an operation, `conditions.py` the comparisons, `atoms.py` the bounds of what stays whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from types import MappingProxyType
from typing import Any, NamedTuple

from intset.expr import ops
from intset.expr.node import Cond, Expr, Node, Var
from intset.expr.walk import is_small
from intset.linear import atoms, conditions, remainders, symbolic
from intset.linear import bounds as iv
from intset.linear.bounds import Interval
from intset.linear.conditions import Clause
from intset.linear.form import Linear, accumulate, atom, constant, is_affine, product
from intset.linear.rules import RULES
from intset.linear.sums import Spine, is_sum, spine

MAX_PRODUCT_TERMS = 24  # a product with more terms than this stays one atom
MAX_REFINED_ARM = 48  # nodes of a select whose arms are read under its condition; a quarter for each level of nesting


Limits = Mapping[Expr, tuple[Linear | None, Linear | None]]  # variable -> (first, last), None where infinite
NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Knowledge(NamedTuple):
    """What is known beyond numeric ranges."""

    nonneg: tuple[Linear, ...] = ()  # forms that are at least 0
    atoms: Mapping[Expr, Interval] = NOTHING  # intervals of atoms
    limits: Limits = NOTHING  # symbolic ends of variables


NO_KNOWLEDGE = Knowledge()


class Normalizer:
    """Canonical forms and numeric bounds of expressions over variables with known numeric ranges.

    Guarantee: `form(e)` equals `e` wherever `e` is defined and every variable lies in its range; `bounds(f)` contains
    every such value of `f`; `cond(c)` is right wherever `c` is defined. Each node is visited once.
    """

    __slots__ = (
        "_atom_bounds",
        "_clauses",
        "_narrowed",
        "_without_facts",
        "compared",
        "conds",
        "consulting",
        "depth",
        "empty",
        "forms",
        "has_parameters",
        "is_box",
        "knowledge",
        "mark",
        "met_partial",
        "proofs_open",
        "ranges",
    )

    def __init__(
        self, ranges: Mapping[Var, Interval], facts: Knowledge = NO_KNOWLEDGE, depth: int = 0, empty: bool = False
    ) -> None:
        self.ranges = ranges
        self.knowledge = facts
        self.depth = depth
        self.empty = empty
        self.is_box = True  # whether the numeric ranges say all that the facts say
        self.has_parameters = bool(facts.limits)  # whether a variable was met that has no numeric range
        self.consulting = 0  # how many facts are being consulted inside one another
        self.met_partial = False  # whether an operation that is not defined everywhere was met
        self.proofs_open = 0  # signs that are being derived, one for the sake of another
        self.mark = object()  # stands for this normalizer in what forms remember: they must not keep it alive
        self.forms: dict[Node, Linear] = {}
        self.conds: dict[Node, Cond] = {}
        self.compared: dict[Cond, Clause] = {}  # what each canonical comparison says
        self._atom_bounds: dict[Any, Interval] = {**ranges, **facts.atoms}
        self._clauses: dict[Cond, tuple[Clause | Cond, ...]] = {}
        self._without_facts: Normalizer | None = None
        self._narrowed: dict[Cond, Normalizer] = {}

    # -- entry points -------------------------------------------------------------------------------------------

    def form(self, root: Expr) -> Linear:
        """The linear form of `root`."""
        found = self.forms.get(root)
        if found is None:
            self._normalize(root)
            found = self.forms[root]
        return found

    def cond(self, root: Cond) -> Cond:
        """The canonical condition: comparisons against 0 in linear form, negations pushed down, constants folded."""
        found = self.conds.get(root)
        if found is None:
            self._normalize(root)
            found = self.conds[root]
        return found

    def clauses(self, root: Cond) -> tuple[Clause | Cond, ...]:
        """The conjuncts of `root` that are not known to hold; see `conditions.clauses`."""
        found = self._clauses.get(root)
        if found is None:
            found = self._clauses[root] = conditions.clauses(self, root)
        return found

    def regroup(self, form: Linear) -> Linear:
        """`form` with `r - c*(r // c)` written as the remainder it is, wherever that cancels something.

        The result holds `FLOORMOD` atoms, so it is for bounds and print, not for further arithmetic.
        """
        if not 1 < len(form.terms) <= remainders.MAX_TERMS:
            return form
        found = form.regrouped
        if found is not None and found[0] is self.mark:
            return found[1] or form
        for e in form.terms:
            if e.op is ops.FLOORDIV or e.op is ops.MUL:
                result = remainders.regrouped(self, form)
                form.regrouped = (self.mark, None if result is form else result)
                return result
        return form

    def is_nonneg(self, form: Linear) -> bool:
        """Whether `form` is known to be at least 0 everywhere."""
        low, high = self.bounds(form)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0 or len(form.terms) < 2 or not self.has_parameters:
            return False
        return symbolic.is_nonneg(self, form)

    def is_positive(self, form: Linear) -> bool:
        """Whether `form` is known to be at least 1 everywhere."""
        return self.is_nonneg(form.shift(-1))

    def may_be_zero(self, form: Linear) -> bool:
        """Whether 0 is not known to be excluded."""
        low, high = self.bounds(form)
        return (low is None or low <= 0) and (high is None or high >= 0) and not self.is_positive(form)

    # -- bounds -------------------------------------------------------------------------------------------------

    def bounds(self, form: Linear) -> Interval:
        """A numeric interval that contains every value of `form`."""
        found = form.interval
        if found is not None and found[0] is self.mark:
            return found[1]
        interval = self.sum_bounds(form)
        if len(form.terms) > 1:
            regrouped = self.regroup(form)
            if regrouped is not form:
                interval = iv.meet(interval, self.sum_bounds(regrouped))
        for fact in self.knowledge.nonneg:
            interval = iv.meet(interval, self._bounds_beside(form, fact))
        form.interval = (self.mark, interval)
        return interval

    def sum_bounds(self, form: Linear) -> Interval:
        """Bounds of the sum as it stands, term by term."""
        known = self._atom_bounds
        low: int | None = form.const
        high: int | None = form.const
        for monomial, coefficient in form.terms.items():
            interval = known.get(monomial)
            if interval is None:
                interval = known[monomial] = atoms.atom_bounds(self, monomial)
            first, last = interval if coefficient > 0 else (interval[1], interval[0])
            low = None if low is None or first is None else low + coefficient * first
            high = None if high is None or last is None else high + coefficient * last
        return (low, high)

    def atom_bounds(self, e: Expr) -> Interval:
        """A numeric interval that contains every value of an atom or monomial."""
        found = self._atom_bounds.get(e)
        if found is None:
            found = self._atom_bounds[e] = atoms.atom_bounds(self, e)
        return found

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

    def _plain_bounds(self, form: Linear) -> Interval:
        """Bounds from ranges alone: what the use of a fact rests on, so that no fact is asked about itself."""
        if is_affine(form):
            return self.sum_bounds(form)  # facts do not touch the bounds of a variable beyond its range
        plain = self._without_facts
        if plain is None:
            knowledge = self.knowledge._replace(nonneg=())
            plain = self._without_facts = Normalizer(self.ranges, knowledge, self.depth, self.empty)
        return plain.sum_bounds(form)

    # -- the walk -----------------------------------------------------------------------------------------------

    def _normalize(self, root: Node) -> None:
        forms, conds = self.forms, self.conds
        stack = [root]
        pending: dict[Node, Spine] = {}
        while stack:
            node = stack[-1]
            if node in forms or node in conds:
                stack.pop()
                continue
            op = node.op
            if op is ops.CONST:
                forms[node] = constant(node.data)
            elif op is ops.VAR:
                forms[node] = self._variable(node)
            elif op is ops.BOOL:
                conds[node] = node  # type: ignore[assignment]
            elif is_sum(node):
                total = pending.get(node)
                if total is None:
                    total = pending[node] = spine(node, forms)
                    waiting = [leaf for leaf in total[1] if leaf.op is not ops.VAR and leaf not in forms]
                    if waiting:
                        stack.extend(waiting)
                        continue
                forms[node] = self._combine(*total)
            else:
                args = node.args[:1] if op is ops.SELECT or op is ops.ASSERTING else node.args
                waiting = [arg for arg in args if arg not in forms and arg not in conds]
                if waiting:
                    stack.extend(waiting)
                    continue
                if op.boolean:
                    conds[node] = conditions.RULES[op](self, node)
                else:
                    forms[node] = form = RULES[op](self, node)
                    for e in form.terms:  # from the leaves up, so that no bound is asked for through many levels
                        if e not in self._atom_bounds:
                            self.atom_bounds(e)
            stack.pop()

    def _variable(self, var: Any) -> Linear:
        interval = self.ranges.get(var)
        if interval is None:
            self.has_parameters = True
        elif interval[0] is not None and interval[0] == interval[1]:
            return constant(interval[0])
        return atom(var)

    def _combine(self, total: int, leaves: dict[Node, int]) -> Linear:
        terms: dict[Any, int] = {}
        forms, ranges = self.forms, self.ranges
        for leaf, factor in leaves.items():
            form = forms.get(leaf)
            if form is None:
                interval = ranges.get(leaf)  # type: ignore[call-overload]
                if interval is not None and interval[0] != interval[1] and leaf not in terms and factor:
                    terms[leaf] = factor  # most leaves: a variable with a range, met for the first time
                    continue
                form = forms[leaf] = self._variable(leaf)
            if factor:
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

    # -- branches -----------------------------------------------------------------------------------------------

    def branches(self, e: Expr) -> tuple[tuple[Normalizer, Expr], tuple[Normalizer, Expr]]:
        """The arms of a select, each with a normalizer whose ranges are narrowed by the condition.

        A large arm is read as it stands: in a tower of selects each level would be read again under every other.
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

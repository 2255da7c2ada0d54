"""`Normalizer`: the assumptions of one scope, and linear forms, bounds and signs of expressions under them.

All divisions become floor divisions and remainders become `x - c*(x // c)` (`division.py`). `assumptions.py` has the
comparisons, `bounds.py` the intervals of atoms, `symbolic.py` the symbolic bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any, Final

from intset.expr import Cond, Expr, Node, Var, dag, ops
from intset.expr.node import make, truth
from intset.linear import bounds as iv
from intset.linear import division, signs, symbolic
from intset.linear import form as forms
from intset.linear.assumptions import CONDITION_RULES, NO_ASSUMPTIONS, Assumptions, Clause, clauses, is_chain, narrow
from intset.linear.bounds import Interval
from intset.linear.division import EXPANDED_TERMS, NODE_RULES, RULES
from intset.linear.form import Linear, Spine, add, atom, constant, is_affine, is_sum, long_spine, product, short_spine
from intset.linear.multiples import OF_CASES, folded, step_of_sum
from intset.linear.signs import PRODUCT_DEGREE, FoundMembers

PRODUCT_TERMS: Final = 24  # terms of a product; with more it stays one atom
REWRITTEN_TERMS: Final = 128  # terms of a sum inside an atom; a longer one keeps its original text
REFINED_ARM: Final = 48  # nodes of a select whose arms are read under its condition; nested, a quarter


def _primitive(form: Linear) -> tuple[int, Linear]:
    """(k, form / k) for the greatest common divisor k of all coefficients."""
    k = gcd(form.const, form.content())
    return (k, form.divided(k)) if k > 1 else (1, form)


Arms = tuple[tuple["Normalizer", Expr], tuple["Normalizer", Expr]]  # arms of a select with their normalizers


class Normalizer:
    """The assumptions of one scope, and the linear forms, conditions, intervals and signs they imply.

    Parameters
    ----------
    ranges: numeric interval of each variable; variables without one have their declared bounds.
    facts: assumptions beyond numeric ranges.
    depth: how many conditions narrowed it; bounds the effort spent on nested selects.
    empty: whether no point satisfies the assumptions.

    Guarantee: at every point that satisfies the assumptions and at which `e` is defined, `form(e)` equals `e`,
    `bounds(form(e))` contains its value, and `cond(c)` equals a defined condition `c`. Each node is visited once.
    Invariant: the assumptions never change; all other slots are caches.
    """

    __slots__ = (
        "_clauses",
        "_facts_by_term",
        "_narrowed",
        "_readers",
        "_regrouped",
        "_related",
        "_without_facts",
        "assumptions",
        "compared",
        "conds",
        "depth",
        "empty",
        "forms",
        "intervals",
        "is_box",
        "is_settled",
        "lowest",
        "mark",
        "members",
        "ranges",
        "signs",
    )

    is_part = False  # it tells of all points of its scope

    def __init__(
        self, ranges: dict[Var, Interval], facts: Assumptions = NO_ASSUMPTIONS, depth: int = 0, empty: bool = False
    ) -> None:
        self.ranges = ranges
        self.assumptions = facts
        self.depth = depth
        self.empty = empty
        self.is_box = True  # whether the numeric ranges imply all facts
        self.is_settled = False  # whether no fact narrows the interval of a single term any more
        self.mark = object()  # identifies this normalizer in caches of forms, which must not keep it alive
        self.forms: dict[Node, Linear] = {}
        self.conds: dict[Node, Cond] = {}
        self.compared: dict[Cond, Clause] = {}  # the clause of each canonical comparison
        # of variables and atoms met so far
        self.intervals: dict[Any, Interval] = {**facts.atoms, **ranges} if facts.atoms else dict(ranges)
        self.signs: dict[tuple[int, frozenset[tuple[Expr, int]]], tuple[bool, int]] = {}  # cache of `signs.is_nonneg`
        self.lowest: dict[tuple[object, ...], tuple[bool, int, int]] = {}  # cache of `signs`: answer, monomials, rests
        self.members: FoundMembers | None = None  # points of the scope, filled when a sign first needs them
        self._clauses: dict[Cond, tuple[Clause | Cond, ...]] = {}
        self._without_facts: Normalizer | None = None
        self._facts_by_term: dict[Expr, list[Linear]] | None = None
        self._narrowed: dict[Cond, Normalizer] = {}
        self._related: frozenset[Var] | None = None
        self._regrouped: dict[tuple[int, frozenset[tuple[Expr, int]]], Linear | None] = {}
        self._readers: dict[Node, tuple[Normalizer | None, Normalizer | None]] = {}  # of select arms; None means self

    # -- entry points -------------------------------------------------------------------------------------------

    def form(self, root: Expr) -> Linear:
        """The linear form of `root`."""
        form = self.forms.get(root)
        if form is None:
            symbolic.asked_apart(self._walk, root)
            form = self.forms[root]
        return form

    def cond(self, root: Cond) -> Cond:
        """The canonical condition: comparisons against 0 in linear form, negations pushed down, constants folded."""
        cond = self.conds.get(root)
        if cond is None:
            symbolic.asked_apart(self._walk, root)
            cond = self.conds[root]
        return cond

    def clauses(self, root: Cond) -> tuple[Clause | Cond, ...]:
        """The undecided conjuncts of `root`; see `assumptions.clauses`."""
        parts = self._clauses.get(root)
        if parts is None:
            parts = self._clauses[root] = clauses(self, root)
        return parts

    def regroup(self, form: Linear) -> Linear:
        """`form` with every `r - c*(r // c)` whose terms it has written as `r % c`; `form` itself where there is none.

        The result has `FLOORMOD` (and `TRUNCMOD`) atoms: it is for bounds and print, not for further arithmetic.
        """
        if not (2 if not form.const else 1) <= len(form.terms) <= division.MAX_TERMS:  # one: `2 - b*(2 // b)`
            return form
        known = form.regrouped
        if known is not None and known[0] is self.mark:
            return known[1] or form
        result = form
        for e in form.terms:
            if e.op is ops.MUL and forms.has_quotient(e) or e.op in forms.REMAINDER_OF and len(form.terms) > 1:
                key = (form.const, frozenset(form.terms.items()))
                if key not in self._regrouped:  # equal forms come from many sums
                    result = symbolic.asked_apart(division.regrouped, self, form)
                    self._regrouped[key] = None if result is form else result
                result = self._regrouped[key] or form
                break
        form.regrouped = (self.mark, None if result is form else result)
        return result

    def is_nonneg(self, form: Linear) -> bool:
        """Prove `form >= 0`; False means unknown."""
        return self._is_at_least(form, 0)

    def is_positive(self, form: Linear) -> bool:
        """Prove `form >= 1`; False means unknown."""
        return self._is_at_least(form, 1)

    def _is_at_least(self, form: Linear, least: int) -> bool:
        # a member refutes for less than bounds cost
        has_members = self.members is not None or bool(self.assumptions.limits)
        is_new = has_members and form.interval is None and self.tells_more(form)
        if is_new and signs.is_refuted(self, form.shift(-least)):
            return False
        low, high = self.bounds(form)
        if low is not None and low >= least:
            return True
        if high is not None and high < least or not self.tells_more(form):
            return False
        return signs.is_nonneg(self, form.shift(-least))

    def tells_more(self, form: Linear) -> bool:
        """Whether the symbolic bound can improve on intervals: the sum has sizes or products."""
        facts = self.assumptions
        if len(form.terms) < 2 and not any(e.op is ops.MUL for e in form.terms):
            return False
        if facts.limits:
            return True
        if not facts.nonneg and is_affine(form):
            return False  # the variables are independent
        ranges = self.ranges
        for e in form.terms:
            if e.op is ops.MUL or e.op is ops.VAR and e not in ranges:
                return True
            if e.op is not ops.VAR and any(v not in ranges for v in e.free_vars()):
                return True
        return False

    def sign(self, form: Linear) -> int:
        """1 if `form >= 0` is proved, -1 if `form <= 0` is, else 0."""
        low, high = self.bounds(form)
        if low is not None and low >= 0:
            return 1
        if high is not None and high <= 0:
            return -1
        if not self.tells_more(form):
            return 0
        return 1 if signs.is_nonneg(self, form) else -1 if signs.is_nonneg(self, form.scale(-1)) else 0

    def may_be_zero(self, form: Linear) -> bool:
        """Whether `form` may take the value 0, as far as bounds and signs tell."""
        low, high = self.bounds(form)
        return (low is None or low <= 0) and (high is None or high >= 0) and not self.is_positive(form)

    def may_know_multiples(self, form: Linear) -> bool:
        """Whether facts may state a multiple of a term or its dividend: a quick test before `multiples.py` searches."""
        if self.assumptions.multiples:
            return True
        ranges = self.ranges
        for e in form.terms:
            while True:
                part = e.args[1] if e.op is ops.MUL else e
                if part.op is ops.FLOORDIV:
                    part = part.args[0]
                if part.op in OF_CASES or isinstance(part, Var) and part not in ranges and part.declared()[2] > 1:
                    return True
                if e.op is not ops.MUL:
                    break
                e = e.args[0]
        return False

    @property
    def related(self) -> frozenset[Var]:
        """The variables of facts that ranges and symbolic ends do not express."""
        related = self._related
        if related is None:
            atoms = [e for fact in self.assumptions.nonneg for e in fact.terms]
            atoms += [e for e in self.assumptions.atoms if e.op is not ops.VAR]
            related = self._related = frozenset(dag.free_vars(*atoms)) if atoms else frozenset()
        return related

    # -- bounds -------------------------------------------------------------------------------------------------

    def bounds(self, form: Linear, encloses: bool = True, enough: int | None = None) -> Interval:
        """A numeric interval that contains every value of `form`.

        Parameters
        ----------
        encloses: whether products of a divisor and its quotient are bounded by the dividend as well.
        enough: a lower end with which the caller is content: facts may say more.
        """
        cached = form.interval
        if cached is not None and cached[0] is self.mark:
            return cached[1]
        interval = self.sum_bounds(form)
        terms = form.terms
        if len(terms) > 1 or terms and form.const and next(iter(terms)).op is ops.MUL:
            regrouped = self.regroup(form)
            if interval[0] is None or interval[1] is None:
                regrouped = iv.scaled_by_sizes(self, regrouped)
            if regrouped is not form:
                interval = iv.meet(interval, self.sum_bounds(regrouped))
            if (interval[0] is None or interval[1] is None) and len(terms) <= EXPANDED_TERMS:
                interval = iv.meet(interval, signs.ends_of_products(self, regrouped))
        if enough is not None and interval[0] is not None and interval[0] >= enough:
            return interval
        alone, facts = interval, self.assumptions
        beside = facts.nonneg and (len(terms) > 1 or not self.is_settled)
        for fact in self._facts_beside(form) if beside else ():
            interval = iv.meet(interval, self._bounds_beside(form, fact))
        if facts.multiples is not None and interval != alone and form.terms:
            interval = iv.stepped(interval, *step_of_sum(self, form))
        for e in terms if encloses else ():
            if e.op is ops.MUL and forms.has_quotient(e):
                if (enclosing := iv.by_dividends(self, form)) is not None:
                    least, most = (self.bounds(part, False) for part in enclosing)
                    interval = iv.meet(interval, (least[0], most[1]))
                break
        form.interval = (self.mark, interval)
        return interval

    def sum_bounds(self, form: Linear) -> Interval:
        """Bounds of the sum, term by term."""
        known = self.intervals
        low: int | None = form.const
        high: int | None = form.const
        for monomial, coefficient in form.terms.items():
            interval = known.get(monomial)
            if interval is None:
                interval = known[monomial] = iv.atom_bounds(self, monomial)
            first, last = interval if coefficient > 0 else (interval[1], interval[0])
            low = None if low is None or first is None else low + coefficient * first
            high = None if high is None or last is None else high + coefficient * last
        return (low, high)

    def atom_bounds(self, e: Expr) -> Interval:
        """A numeric interval that contains every value of an atom or monomial."""
        interval = self.intervals.get(e)
        if interval is None:
            interval = self.intervals[e] = iv.atom_bounds(self, e)
        return interval

    def _facts_beside(self, form: Linear) -> Iterable[Linear]:
        """The `nonneg` facts that have a term of `form`."""
        index = self._facts_by_term
        if index is None:
            index = {}
            least = 2 if self.is_settled else 1  # terms of a fact that may tell more than intervals do
            for fact in self.assumptions.nonneg:
                if len(fact.terms) >= least:
                    for monomial in fact.terms:
                        index.setdefault(monomial, []).append(fact)
            self._facts_by_term = index
        found = [index[monomial] for monomial in form.terms if monomial in index]
        return found[0] if len(found) == 1 else {id(fact): fact for some in found for fact in some}.values()

    def _bounds_beside(self, form: Linear, fact: Linear) -> Interval:
        """Bounds of `form` plus or minus the multiple of `fact >= 0` that cancels a common term."""
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
        """Bounds without `nonneg` facts, so that the use of a fact never recurses into it."""
        if is_affine(form):
            return self.sum_bounds(form)  # bounds of a variable are its range, whatever the facts
        plain = self._without_facts
        if plain is None:
            assumptions = self.assumptions._replace(nonneg=())
            plain = self._without_facts = Normalizer(self.ranges, assumptions, self.depth, self.empty)
        return plain.sum_bounds(form)

    # -- the walk -----------------------------------------------------------------------------------------------

    def _walk(self, root: Node) -> None:
        forms, conds = self.forms, self.conds
        stack = [root]
        pending: dict[Node, Spine] = {}
        long: set[Node] = set()
        while stack:
            node = stack[-1]
            if node in forms or node in conds:
                stack.pop()
                continue
            op = node.op
            if op is ops.CONST:
                forms[node] = constant(node.data)
            elif op is ops.VAR:
                forms[node] = self.variable(node)
            elif op is ops.BOOL:
                conds[node] = truth(node.data)
            elif is_sum(node):
                total = pending.get(node)
                if total is None:
                    total = short_spine(node)
                    if total is None:
                        total = long_spine(node, forms)
                        long.add(node)
                    pending[node] = total
                    waiting: list[Node] = [leaf for leaf in total[1] if leaf.op is not ops.VAR and leaf not in forms]
                    if waiting:
                        stack.extend(waiting)
                        continue
                form = self._combine(*total)
                plain = is_affine(form)
                if not plain and self.may_know_multiples(form):
                    form = folded(self, form)
                    plain = is_affine(form)
                if node in long or not plain:
                    form = form.as_written()  # atoms in text order; long sums by their parts
                if len(form.terms) > REWRITTEN_TERMS:
                    form.source = node
                forms[node] = form  # assigned last: other threads may read it
            else:
                waiting = []
                for arg in node.args if op is not ops.SELECT else self._read_here(node):
                    if arg in forms or arg in conds:
                        continue
                    if arg.op is ops.VAR:
                        forms[arg] = self.variable(arg)
                    elif arg.op is ops.CONST:
                        forms[arg] = constant(arg.data)
                    else:
                        waiting.append(arg)
                if waiting:
                    stack.extend(waiting)
                    continue
                if op.boolean:
                    conds[node] = CONDITION_RULES[op](self, node)
                else:
                    if op in NODE_RULES:
                        form = NODE_RULES[op](self, node)
                    else:
                        form = RULES[op](self, *map(forms.__getitem__, node.args))
                    forms[node] = form = form.as_written()
                    for e in form.terms:  # bottom-up, so that bounds never recurse deeply
                        if e not in self.intervals and not iv.reads_variables(e):
                            self.atom_bounds(e)
            stack.pop()

    def _read_here(self, node: Any) -> Sequence[Node]:
        """The arguments of a select that this normalizer reads: first the condition, then arms it does not narrow."""
        cond = self.conds.get(node.args[0])
        if cond is None:
            answer: Sequence[Node] = node.args[:1]
            return answer
        if cond.op is ops.BOOL:
            return (node.args[1 if cond.data else 2],)
        return [arm for reader, arm in self.branches(node) if reader is self]

    def variable(self, var: Any) -> Linear:
        """The linear form of a variable."""
        interval = self.ranges.get(var) or self.assumptions.atoms.get(var)
        if interval is not None and interval[0] is not None and interval[0] == interval[1]:
            return constant(interval[0])
        return atom(var)

    def _combine(self, total: int, leaves: dict[Expr, int]) -> Linear:
        terms: dict[Expr, int] = {}
        forms, ranges = self.forms, self.ranges
        for leaf, factor in leaves.items():
            form = forms.get(leaf)
            if form is None:
                interval = ranges.get(leaf)  # type: ignore[call-overload]  # a leaf without a form is a variable
                if interval is not None and interval[0] != interval[1] and leaf not in terms and factor:
                    terms[leaf] = factor  # fast path: a first occurrence of a variable with a range
                    continue
                form = forms[leaf] = self.variable(leaf)
            if factor:
                total += factor * form.const
                add(terms, form.terms, factor)
        return Linear(total, terms)

    def product(self, a: Linear, b: Linear) -> Linear:
        if not a.terms or not b.terms:
            return a.times(b)
        if forms.degree(a, PRODUCT_DEGREE) + forms.degree(b, PRODUCT_DEGREE) > PRODUCT_DEGREE:
            return atom(
                make(ops.MUL, tuple(sorted((self.atomized(a), self.atomized(b)), key=lambda e: e.op is ops.MUL)))
            )
        if len(a.terms) * len(b.terms) <= PRODUCT_TERMS:
            return a.times(b)
        (k, a), (m, b) = _primitive(a), _primitive(b)  # (t*8) * t = 8 * (t*t)
        return Linear(0, {product(self.atomized(a), self.atomized(b)): k * m})

    def atomized(self, form: Linear) -> Expr:
        """`form` as an expression; its form is cached."""
        e = form.source
        if e is None:
            e = form.expr()
            if e not in self.forms:
                self.forms[e] = form.as_written()  # in text order, whoever reads it first
        return e

    # -- branches -----------------------------------------------------------------------------------------------

    def branches(self, e: Node) -> Arms:
        """The arms of a select, each with a normalizer narrowed by the condition.

        This normalizer itself reads large arms, because a tower of selects would otherwise be read again at each level,
        and constant arms guarded by a disjunction of undecided comparisons, which narrowing cannot empty.
        """
        cond, if_true, if_false = e.args
        readers = self._readers.get(e)
        if readers is None:
            readers = self._readers[e] = self._arm_readers(cond, if_true, if_false)
        return (readers[0] or self, if_true), (readers[1] or self, if_false)

    def _arm_readers(self, cond: Cond, if_true: Expr, if_false: Expr) -> tuple[Normalizer | None, Normalizer | None]:
        limit = REFINED_ARM >> (2 * self.depth)
        if not dag.is_small(limit, (cond, if_true, if_false)):
            return None, None
        yes = None if if_true.op is ops.CONST and is_chain(cond, ops.OR) else self.narrowed(cond)
        no = None if if_false.op is ops.CONST and is_chain(cond, ops.AND) else self.narrowed(~cond)
        return yes, no

    def remember_branches(self, e: Expr, yes: Normalizer, a: Linear, no: Normalizer, b: Linear) -> None:
        """Cache the forms `a` and `b` of the arms of `e` under their normalizers `yes` and `no`."""
        _, if_true, if_false = e.args
        self._readers[e] = (None if yes is self else yes, None if no is self else no)
        yes.forms.setdefault(if_true, a.as_written())
        no.forms.setdefault(if_false, b.as_written())

    def narrowed(self, cond: Cond) -> Normalizer:
        """The normalizer under the additional assumption `cond`, cached."""
        inside = self._narrowed.get(cond)
        if inside is None:
            inside = self._narrowed[cond] = narrow(self, (cond,))
        return inside


KEPT_FORMS: Final = 4096  # of expressions without assumptions
_unranged = [Normalizer({})]


def form_of(e: Expr) -> Linear:
    """The linear form of an expression without assumptions."""
    return unranged().form(e)


def cond_of(cond: Cond) -> Cond:
    """The canonical condition without assumptions."""
    return unranged().cond(cond)


def bounds_of(e: Expr) -> Interval:
    """Numeric bounds of an expression without assumptions."""
    return unranged().bounds(form_of(e))


def unranged() -> Normalizer:
    """The normalizer without assumptions: a new one after `KEPT_FORMS` forms, since programs come and go."""
    if len(_unranged[0].forms) > KEPT_FORMS:
        _unranged[0] = Normalizer({})
    return _unranged[0]

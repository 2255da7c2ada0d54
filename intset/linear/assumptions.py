"""Assumptions of a scope, and conditions in canonical form: comparisons of a linear form against 0.

A comparison has two representations. A `Clause` `(kind, form)` denotes `form >= 0`, `== 0` or `!= 0`; facts are
processed as clauses. The canonical condition is an expression with positive terms on the left and negative terms on the
right, built on demand.

The assumptions of a scope are numeric ranges of variables, kept by the `Normalizer` itself, and an `Assumptions` object
with everything else. `narrow` adds conditions to them: an affine one tightens the interval of every variable and
atom in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from intset.expr import Cond, Expr, Node, Var, dag, ops
from intset.expr.node import PlainVar, make, truth
from intset.linear import bounds as iv
from intset.linear.bounds import EVERYTHING, Interval
from intset.linear.form import Linear, add, atom, constant, is_affine, reads_positive
from intset.linear.multiples import Multiples, learned

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

TIGHTENING_ROUNDS: Final = 5  # rounds of tightening ranges by facts; the result of every round is sound
NESTED_CHOICES: Final = 64  # disjunctions inside of each other whose cases tighten ranges

Clause = tuple[ops.Op, Linear]  # (GE or EQ or NE, form against 0)


def clauses(known: Normalizer, cond: Cond) -> tuple[Clause | Cond, ...]:
    """The undecided conjuncts of `cond`: comparisons as clauses, others as canonical conditions.

    A condition proved true has no conjuncts left; a condition proved false has the conjunct `truth(False)`.
    """
    if cond.op in DIFFERENCES:
        verdict = _judged_comparison(known, cond)
        return () if verdict is True else (truth(False),) if verdict is False else (verdict,)
    parts = list(dag.conjuncts(known.cond(cond)))
    return tuple([known.compared.get(part, part) for part in parts if part.op is not ops.BOOL or not part.data])


def judged(known: Normalizer, kind: ops.Op, form: Linear) -> Clause | bool:
    """The clause `form >= 0`, `== 0` or `!= 0` in lowest terms, or its truth value."""
    if not form.terms:
        return form.const >= 0 if kind is ops.GE else (form.const == 0) is (kind is ops.EQ)
    g = form.content()
    if kind is ops.GE:
        form = form.divided(g) if g > 1 else form
        low, high = known.bounds(form, enough=0)
        if low is not None and low >= 0:
            return True
        return False if high is not None and high < 0 else (kind, form)
    low, high = known.bounds(form, enough=1)
    if low is not None and low > 0 or high is not None and high < 0 or (g and form.const % g):
        return kind is ops.NE
    if low == 0 and high == 0:
        return kind is ops.EQ
    if g > 1:
        form = form.divided(g)
    return (kind, form if form.ordered()[0][1] > 0 else form.scale(-1))


def compare(known: Normalizer, kind: ops.Op, form: Linear) -> Cond:
    """The canonical condition `form >= 0`, `== 0` or `!= 0`."""
    return _stated(known, judged(known, kind, form))


def _stated(known: Normalizer, verdict: Clause | bool) -> Cond:
    if isinstance(verdict, bool):
        return truth(verdict)
    kind, form = verdict
    positive = Linear(max(form.const, 0), {t: k for t, k in form.terms.items() if k > 0 or reads_positive(t, k)})
    negative = Linear(max(-form.const, 0), {t: -k for t, k in form.terms.items() if k < 0 and not reads_positive(t, k)})
    cond: Cond = make(kind, (positive.expr(), negative.expr()))
    known.compared[cond] = verdict
    known.conds[cond] = cond
    return cond


# -- rules: one for each operation ------------------------------------------------------------------------------

# a <op> b is `kind` of (b - a where swapped, else a - b) + offset against 0
DIFFERENCES: dict[ops.Op, tuple[ops.Op, bool, int]] = {
    ops.GE: (ops.GE, False, 0),
    ops.LE: (ops.GE, True, 0),
    ops.GT: (ops.GE, False, -1),
    ops.LT: (ops.GE, True, -1),
    ops.EQ: (ops.EQ, False, 0),
    ops.NE: (ops.NE, False, 0),
}


def is_chain(cond: Cond, junction: ops.Op) -> bool:
    """Whether `cond` consists of comparisons joined by `junction` alone."""
    return all(part.op in DIFFERENCES for part in dag.chain(junction, cond))


def _judged_comparison(known: Normalizer, node: Node) -> Clause | bool:
    kind, swapped, offset = DIFFERENCES[node.op]
    first, second = node.args
    a, b = known.form(first), constant(second.data) if second.op is ops.CONST else known.form(second)
    if swapped:
        a, b = b, a
    terms = a.terms
    if b.terms:
        terms = dict(terms)
        add(terms, b.terms, -1)
    return judged(known, kind, Linear(a.const - b.const + offset, terms))


def _comparison(known: Normalizer, node: Node) -> Cond:
    return _stated(known, _judged_comparison(known, node))


def _junction(known: Normalizer, node: Node) -> Cond:
    absorbing = node.op is ops.OR
    a, b = (known.conds[arg] for arg in node.args)
    for x, y in ((a, b), (b, a)):
        if x.op is ops.BOOL:
            return x if x.data is absorbing else y
    return a if a is b else make(node.op, (a, b))


def _negation(known: Normalizer, node: Node) -> Cond:
    """The canonical negation, pushed down to the comparisons."""
    root = known.conds[node.args[0]]
    done: dict[Cond, Cond] = {}
    for below in dag.postorder_by((root,), junction_args):
        if below.op is ops.BOOL:
            done[below] = truth(not below.data)
        elif below.op is ops.AND or below.op is ops.OR:
            flipped = ops.OR if below.op is ops.AND else ops.AND
            done[below] = make(flipped, (done[below.args[0]], done[below.args[1]]))
        else:
            kind, form = known.compared[below]
            if kind is ops.GE:  # not (f >= 0)  is  -f - 1 >= 0
                done[below] = compare(known, ops.GE, form.scale(-1).shift(-1))
            else:
                done[below] = compare(known, ops.NE if kind is ops.EQ else ops.EQ, form)
    return done[root]


def junction_args(cond: Cond) -> tuple[Any, ...]:
    """The conditions that a conjunction or disjunction joins; none for others."""
    return cond.args if cond.op is ops.AND or cond.op is ops.OR else ()


CONDITION_RULES: dict[ops.Op, Callable[[Normalizer, Node], Cond]] = {
    **dict.fromkeys(DIFFERENCES, _comparison),
    ops.AND: _junction,
    ops.OR: _junction,
    ops.NOT: _negation,
}


Limits = Mapping[Var, tuple[Linear | None, Linear | None]]  # (first, last), None where infinite
NOTHING: Mapping[Any, Any] = {}  # never changed; pickles, unlike a read-only proxy


class Assumptions(NamedTuple):
    """Assumptions beyond the numeric ranges of variables."""

    nonneg: tuple[Linear, ...] = ()  # forms that are at least 0
    atoms: Mapping[Expr, Interval] = NOTHING  # intervals of atoms
    limits: Limits = NOTHING  # symbolic ends of variables
    multiples: Multiples | None = None  # divisibilities that facts state


NO_ASSUMPTIONS = Assumptions()


def narrow(base: Normalizer, conditions: Iterable[Cond]) -> Normalizer:
    """A normalizer for the points of `base` that satisfy all `conditions`; `empty` is set if no point does."""
    base, parts, impossible = _learned_parts(base, conditions)
    clauses = [sharpened(base, *part) for part in parts if isinstance(part, tuple)]
    rest = [part for part in parts if isinstance(part, Cond)]
    choices = [part for part in rest if part.op is ops.OR]
    impossible = impossible or len(choices) < len(rest)  # the only other kind of conjunct is the constant False
    beyond = [(kind, form) for kind, form in clauses if kind is ops.NE or not _is_range(base, form)]
    nonneg = (*base.assumptions.nonneg, *_nonnegative_forms(base, beyond))
    ends = _TightenedEnds(base)
    impossible = impossible or ends.tighten_all(clauses, choices)
    assumed = base.assumptions._replace(nonneg=nonneg, atoms=ends.atoms)
    known = type(base)(ends.ranges, assumed, base.depth + 1, empty=impossible)
    known.is_box = base.is_box and not choices and not beyond
    known.is_settled = ends.are_settled and not any(_quotients_by_terms(form) for _, form in beyond)
    return known


def _learned_parts(base: Normalizer, conditions: Iterable[Cond]) -> tuple[Normalizer, list[Clause | Cond], bool]:
    """The clauses of the conditions, read under the divisibilities that their equations state.

    Returns
    -------
    `base` with these divisibilities, the clauses, and whether no point satisfies them.
    """
    read = [(condition, base.clauses(condition)) for condition in conditions]
    parts = [part for _, own in read for part in own]
    equations = [form for part in parts if isinstance(part, tuple) for kind, form in (part,) if kind is ops.EQ]
    more = learned(base, equations) if equations and not base.empty else None
    if more is None:
        return base, parts, base.empty
    base = _with_multiples(base, more.multiples)
    reread = [cond for cond, own in read if not all(_is_absorbed(part, more.absorbed) for part in own)]
    parts = [part for condition in reread for part in base.clauses(condition)]
    again = {part[1].key() for part in parts if isinstance(part, tuple)}
    parts += [(ops.EQ, form) for form in equations if form.key() not in again]  # what a multiple has absorbed
    return base, parts, not more.is_consistent


def _nonnegative_forms(base: Normalizer, clauses: Iterable[Clause]) -> Iterator[Linear]:
    """The forms that clauses state to be at least 0, and forms of dividends that follow."""
    for kind, form in clauses:
        if kind is ops.NE:
            continue
        facts = (form, form.scale(-1)) if kind is ops.EQ else (form,)
        yield from facts
        for e in _quotients_by_terms(form):
            for fact in facts:
                yield from _of_dividends(base, fact, e)


def _quotients_by_terms(form: Linear) -> list[Expr]:
    """The terms that are quotients by no number."""
    return [e for e in form.terms if e.op is ops.FLOORDIV and e.args[1].op is not ops.CONST]


def _of_dividends(base: Normalizer, fact: Linear, quotient: Expr) -> Iterator[Linear]:
    """What `fact >= 0` says of the dividend: `x // d >= r` is `x >= d * r` where d is positive."""
    k = fact.terms[quotient]
    dividend, divisor = (base.form(arg) for arg in quotient.args)
    if abs(k) == 1 and base.is_positive(divisor):
        rest = base.product(divisor, fact.plus(atom(quotient), -k))
        yield rest.plus(dividend) if k > 0 else rest.plus(divisor).minus(dividend).shift(-1)


def _is_absorbed(part: Clause | Cond, absorbed: Sequence[Linear]) -> bool:
    return isinstance(part, tuple) and any(part[1] is form for form in absorbed)


def _with_multiples(base: Normalizer, multiples: Multiples) -> Normalizer:
    """`base` with these divisibilities, under which its facts are read again."""
    assumptions = base.assumptions._replace(multiples=multiples)
    known = type(base)(base.ranges, assumptions, base.depth, base.empty)
    nonneg = [known.form(form.expr()) for form in assumptions.nonneg]
    nonneg = [form for form in nonneg if form.terms]
    known = type(base)(base.ranges, assumptions._replace(nonneg=tuple(nonneg)), base.depth, base.empty)
    known.is_box = base.is_box
    return known


def sharpened(base: Normalizer, kind: ops.Op, form: Linear) -> Clause:
    """The clause; `form != 0` becomes an inequality if 0 is an end of `form`: a nonzero remainder is positive."""
    if kind is ops.NE:
        low, high = base.bounds(form)
        if low == 0:
            return (ops.GE, form.shift(-1))
        if high == 0:
            return (ops.GE, form.scale(-1).shift(-1))
    return (kind, form)


def _is_range(base: Normalizer, form: Linear) -> bool:
    """Whether comparing `form` with 0 only narrows the numeric range of one variable."""
    if len(form.terms) != 1:
        return False
    (var,) = form.terms
    return type(var) is PlainVar and var in base.ranges and var not in base.assumptions.limits


def _with_rests(current: Normalizer, form: Linear) -> Iterator[tuple[Expr, int, Interval]]:
    """Each term of `form`, with bounds of the rest of the sum."""
    if len(form.terms) == 1:
        ((monomial, k),) = form.terms.items()
        yield monomial, k, (form.const, form.const)
        return
    low, high = current.sum_bounds(form)
    if low is None or high is None or current.assumptions.nonneg or current.regroup(form) is not form:
        for monomial, k in form.terms.items():
            others = Linear(form.const, {t: c for t, c in form.terms.items() if t is not monomial})
            yield monomial, k, current.bounds(others)
        return
    for monomial, k in form.terms.items():  # the bounds of a sum of finite terms are sums of bounds
        first, last = iv.scaled(current.atom_bounds(monomial), k)
        assert first is not None and last is not None
        yield monomial, k, (low - first, high - last)


class _TightenedEnds:
    """The numeric ends of variables and atoms of a scope, tightened by conditions.

    Attributes
    ----------
    current: the scope with the ends of the last round.
    changed: the variables below the ends that changed in this round.
    are_settled: whether the conditions are the only facts, and a further round would change no end.
    """

    are_settled = False

    def __init__(self, base: Normalizer) -> None:
        self.base = self.current = base
        self.ranges: dict[Var, Interval] = dict(base.ranges)
        self.atoms: dict[Expr, Interval] = dict(base.assumptions.atoms)
        self.changed: set[Var] = set()

    def tighten_all(self, clauses: Sequence[Clause], choices: Sequence[Cond]) -> bool:
        """Tighten by clauses and disjunctions; whether an interval became empty."""
        base = self.base
        visited = clauses
        for round_ in range(TIGHTENING_ROUNDS):
            for kind, form in visited:
                self._tighten(kind, form)
            if round_ == 0 and base.depth < 2:
                for choice in choices:
                    self._tighten_choice(choice)
            if not self.changed:
                self.are_settled = not base.assumptions.nonneg
                return False
            if _any_crossed(self.ranges) or _any_crossed(self.atoms):
                return True
            if len(clauses) == 1 and clauses[0][0] is ops.GE and not choices:
                return False  # a second round is a no-op: it moves each term away from the end it reads
            if round_ + 1 < TIGHTENING_ROUNDS:
                assumed = base.assumptions._replace(atoms=dict(self.atoms))
                self.current = type(base)(dict(self.ranges), assumed, base.depth + 1)
                if not base.assumptions.nonneg and not base.assumptions.limits:  # these may tie ends of any variables
                    visited = [part for part in clauses if self._is_affected(*part)]
                self.changed = set()
        return False

    def _is_affected(self, kind: ops.Op, form: Linear) -> bool:
        """Whether the clause reads an end that changed."""
        if len(form.terms) == 1 and is_affine(form) and kind is not ops.NE:
            return False  # it states ends by numbers
        return any(not self.changed.isdisjoint(e.free_vars()) for e in form.terms)

    def _table(self, e: Expr) -> dict[Any, Interval]:
        return self.ranges if e in self.ranges else self.atoms

    def _tighten(self, kind: ops.Op, form: Linear) -> None:
        if kind is ops.NE:
            self._tighten_unequal(form)
            return
        for monomial, k, (low, high) in _with_rests(self.current, form):
            interval: Interval = EVERYTHING
            if high is not None:  # k*t >= -others >= -high
                interval = (-(high // k), None) if k > 0 else (None, high // -k)
            if kind is ops.EQ and low is not None:  # k*t <= -low
                interval = iv.meet(interval, (None, -low // k) if k > 0 else (-(-low // -k), None))
            self._learn(monomial, interval)

    def _learn(self, e: Expr, interval: Interval) -> None:
        """Record that `e` lies in `interval`, and propagate to factors and dividends."""
        if interval == EVERYTHING:
            return
        before = self.current.atom_bounds(e)
        after = iv.meet(before, interval)
        if after == before:
            return
        self.changed.update(e.free_vars())
        table = self._table(e)
        table[e] = iv.meet(table.get(e, before), after)
        if table is self.ranges:
            return
        if e.op is ops.MUL:
            for t, q in (e.args, e.args[::-1]):
                self._learn(t, _factor_of(after, self.current.atom_bounds(q)))
        if e.op is ops.FLOORDIV and e.args[1].op is ops.CONST:
            c = e.args[1].data
            inner = self.current.form(e.args[0])
            if c > 0 and len(inner.terms) == 1:
                ((monomial, k),) = inner.terms.items()
                low = None if after[0] is None else after[0] * c - inner.const
                high = None if after[1] is None else after[1] * c + c - 1 - inner.const
                if k < 0:
                    low, high = (None if high is None else -high), (None if low is None else -low)
                k = abs(k)
                self._learn(monomial, (None if low is None else -(-low // k), None if high is None else high // k))

    def _tighten_unequal(self, form: Linear) -> None:
        if len(form.terms) != 1:
            return
        ((e, k),) = form.terms.items()
        if not isinstance(e, Var) or form.const % k:
            return
        hole = -form.const // k
        table = self._table(e)
        low, high = table.get(e, self.current.atom_bounds(e))
        if hole in (low, high):
            table[e] = (low + 1 if low == hole else low, high - 1 if high == hole else high)
            self.changed.add(e)

    def _tighten_choice(self, choice: Cond) -> None:
        """Tighten each variable to the hull of its ranges under both sides of a disjunction."""
        if _is_deep(choice):
            return
        base = self.base
        sides = [side for side in map(base.narrowed, dag.chain(ops.OR, choice)) if not side.empty]
        if not sides:
            table: dict[Any, Interval] = self.ranges or self.atoms
            first = next(iter(table), None)
            if first is not None:
                table[first] = (1, 0)
                self.changed.update(first.free_vars())
            return
        learned_of: dict[Expr, None] = {v: None for side in sides for v in side.ranges}
        learned_of |= {e: None for side in sides for e in side.assumptions.atoms if e.op is ops.VAR}
        for var in learned_of:
            merged = sides[0].atom_bounds(var)
            for side in sides[1:]:
                merged = iv.hull(merged, side.atom_bounds(var))
            after = iv.meet(base.atom_bounds(var), merged)
            if after != base.atom_bounds(var):
                table = self._table(var)
                table[var] = iv.meet(table.get(var, after), after)
                self.changed.update(var.free_vars())


def _any_crossed(intervals: Mapping[Any, Interval]) -> bool:
    return any([low is not None and high is not None and low > high for low, high in intervals.values()])  # noqa: C419


def _factor_of(whole: Interval, other: Interval) -> Interval:
    """The interval of t given `t * q` in `whole` and q >= 1 in `other`."""
    least, most = other
    if least is None or least < 1:
        return EVERYTHING
    low, high = whole
    # t*q <= high: t <= high // least for high >= 0, t <= high // most (at most -1) else; t*q >= low mirrored
    upper = None if high is None else high // least if high >= 0 else -1 if most is None else high // most
    lower = None if low is None else -(-low // least) if low <= 0 else 1 if most is None else -(-low // most)
    return (lower, upper)


def _is_deep(choice: Cond) -> bool:
    """Whether disjunctions inside of conjunctions nest beyond `NESTED_CHOICES`."""
    level: Iterable[Cond] = (choice,)
    for _ in range(NESTED_CHOICES):
        arms = [part for one in level for arm in dag.chain(ops.OR, one) for part in dag.conjuncts(arm)]
        level = dict.fromkeys(part for part in arms if part.op is ops.OR)
        if not level:
            return False
    return True

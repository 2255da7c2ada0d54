"""Value domains: an abstract value for each subterm, computed by a table of transfer functions over the canonical form.

A new domain of this kind is a value type and a table; `evaluate_form` does the walk. An operation that the table does
not know gets the value of the interval that is known of it, so the answer stays a sound superset.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, ClassVar, Generic, TypeVar

from intset.domains.arithmetic import congruence
from intset.domains.query import Query
from intset.domains.sets.base import Bounds, IntSet, empty_set
from intset.expr import ops
from intset.expr.node import Expr, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, factors

V = TypeVar("V")


class ValueDomain(Generic[V]):
    """A domain whose elements are abstract values.

    A subclass gives `name`, `transfer` and the methods below. Each must be sound: `transfer[op](a, b)` describes at
    least all `x op y` that are defined, for x described by a and y by b; `join` at least the union; `meet` at least the
    intersection. Divisions reach the table with any operands; `ADD` and `MUL` build sums and products.

    Worked example, parity alone:

    >>> class Parity(ValueDomain[frozenset]):
    ...     name = "parity"
    ...     def constant(self, x): return frozenset((x % 2,))
    ...     def between(self, low, high): return frozenset((low % 2,)) if low == high else frozenset((0, 1))
    ...     def join(self, a, b): return a | b
    ...     def meet(self, a, b): return a & b
    ...     transfer = {ops.ADD: lambda a, b: frozenset((x + y) % 2 for x in a for y in b),
    ...                 ops.MUL: lambda a, b: frozenset(x * y for x in a for y in b)}
    ...     def represent(self, value): return some_int_set(value)
    """

    name: ClassVar[str]
    transfer: Mapping[ops.Op, Callable[..., V]]

    @abstractmethod
    def constant(self, x: int) -> V:
        """The value of exactly x."""

    @abstractmethod
    def between(self, low: int | None, high: int | None) -> V:
        """A value that describes at least every integer from `low` to `high`; `None` is an open side."""

    def congruent(self, m: int, r: int) -> V:
        """A value that describes at least every x with x = r mod m."""
        return self.between(None, None)

    @abstractmethod
    def join(self, a: V, b: V) -> V: ...

    @abstractmethod
    def meet(self, a: V, b: V) -> V: ...

    @abstractmethod
    def represent(self, value: V) -> IntSet:
        """The set that the value describes, with `is_exact` and `is_tight` false unless they hold by themselves."""

    # -- the walk -----------------------------------------------------------------------------------------------

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        return self.represent(self.value(query))

    def bounds(self, query: Query) -> Bounds:
        answer = self.image(query)
        return Bounds(*answer.ends(), answer.is_tight, self.name, answer.notes)

    def value(self, query: Query) -> V:
        """The abstract value of the query's only expression."""
        return Evaluation(self, query.known, congruences(query)).form(query.forms[0])


class Evaluation(Generic[V]):
    """One walk: values of the atoms met, under one normalizer."""

    def __init__(self, domain: ValueDomain[V], known: Normalizer, residues: Mapping[Any, tuple[int, int]]) -> None:
        self.domain, self.known, self.residues = domain, known, residues
        self._atoms: dict[Expr, V] = {}

    def form(self, form: Linear) -> V:
        """The value of a linear form: the sum as it stands, met with the regrouped sum and the interval."""
        domain = self.domain
        result = domain.meet(self._sum(form), domain.between(*self.known.bounds(form)))
        if len(form.terms) > 1:
            regrouped = self.known.regroup(form)
            if regrouped is not form:
                result = domain.meet(result, self._sum(regrouped))
        residue = self.residues.get(Linear(0, form.terms).key()) if self.residues else None
        if residue is not None:
            shifted = domain.transfer[ops.ADD](domain.congruent(*residue), domain.constant(form.const))
            result = domain.meet(result, shifted)
        return result

    def _sum(self, form: Linear) -> V:
        domain = self.domain
        add, mul = domain.transfer[ops.ADD], domain.transfer[ops.MUL]
        total = domain.constant(form.const)
        for monomial, k in form.terms.items():
            value = self.atom(monomial)
            total = add(total, value if k == 1 else mul(value, domain.constant(k)))
        return total

    def atom(self, e: Any) -> V:
        """The value of one atom; what it is made of is computed first, from the leaves up."""
        if e not in self._atoms:
            stack = [e]
            while stack:
                waiting = [inner for inner in self._inner_atoms(stack[-1]) if inner not in self._atoms]
                if waiting:
                    stack.extend(waiting)
                else:
                    top = stack.pop()
                    if top not in self._atoms:
                        self._atoms[top] = self._atom(top)
        return self._atoms[e]

    def _inner_atoms(self, e: Any) -> list[Any]:
        if e.op is ops.MUL:
            return factors(e)
        if e.op is ops.SELECT or e.op is ops.LOAD:
            return []
        known = self.known
        forms = [known.form(arg) for arg in e.args]
        return [t for form in forms for part in (form, known.regroup(form)) for t in part.terms]

    def _atom(self, e: Any) -> V:
        domain, known = self.domain, self.known
        interval = domain.between(*known.atom_bounds(e))
        if e.op is ops.VAR:
            step = e.declared()[2]
            value = domain.meet(interval, domain.congruent(step, 0)) if step > 1 else interval
            residue = self.residues.get(Linear(0, {e: 1}).key()) if self.residues else None
            return value if residue is None else domain.meet(value, domain.congruent(*residue))
        if e.op is ops.LOAD or e.op is ops.CONST:
            return interval
        if e.op is ops.SELECT:
            arms = [self._arm(inner, arm) for inner, arm in known.branches(e) if not inner.empty]
            result = arms[0] if arms else interval
            for arm in arms[1:]:
                result = domain.join(result, arm)
            return domain.meet(result, interval)
        if e.op is ops.MUL:
            parts = [self.atom(part) for part in factors(e)]
            result = parts[0]
            for part in parts[1:]:
                result = domain.transfer[ops.MUL](result, part)
            return domain.meet(result, interval)
        transfer = domain.transfer.get(e.op)
        if transfer is None:
            return interval
        values = [self.form(known.form(arg)) for arg in e.args]
        return domain.meet(transfer(*values), interval)

    def _arm(self, inner: Normalizer, arm: Expr) -> V:
        form = inner.form(arm)
        if inner is self.known:  # a large arm is not looked into
            return self.domain.between(*inner.bounds(form))
        return Evaluation(self.domain, inner, self.residues).form(form)


def congruences(query: Query) -> dict[Any, tuple[int, int]]:
    """What the facts say modulo something: key of a form without constant -> (m, r), from `form % m == r`.

    All that is said of one form is met: r1 modulo 3, r2 modulo 5 and r3 modulo 7 is one congruence modulo 105.
    """
    found: dict[Any, tuple[int, int]] = {}

    def note(form: Linear, m: int, r: int) -> None:
        key = Linear(0, form.terms).key()
        value = congruence.make(m, r - form.const)
        both = congruence.meet(found[key], value) if key in found and value is not None else value
        if both is not None:  # facts that exclude one another are for others to report
            found[key] = both

    for fact in query.facts:
        canonical = query.base.cond(fact)
        entry = query.base.compared.get(canonical)
        if entry is None or entry[0] is not ops.EQ:
            continue
        _of_equation(note, entry[1])
        regrouped = query.base.regroup(entry[1])
        if len(regrouped.terms) != 1:
            continue
        ((e, k),) = regrouped.terms.items()
        if e.op is not ops.FLOORMOD or e.args[1].op is not ops.CONST or regrouped.const % k:
            continue
        m, r = e.args[1].data, -regrouped.const // k
        inner = query.base.form(e.args[0])
        if m > 0:
            note(inner, m, r)
    return found


def _of_equation(note: Callable[[Linear, int, int], None], form: Linear) -> None:
    """`v = g*(...) + r` is a congruence of the variable v modulo g, whatever is multiplied: a quotient among others."""
    for v, k in form.terms.items():
        if abs(k) != 1 or not isinstance(v, Var):
            continue
        g = gcd(*(c for e, c in form.terms.items() if e is not v))
        if g > 1:
            note(Linear(0, {v: 1}), g, -k * form.const % g)

"""Value domains: abstract interpretation of the canonical form by a table of transfer functions.

A new value domain is a value type and a table; `Evaluation` walks the form. An operation without a transfer function
gets the value of its interval, so the answer stays sound.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, ClassVar, Generic, TypeVar

from intset.arithmetic import strided
from intset.domains.query import Query
from intset.domains.sets.base import IntSet, empty_set
from intset.expr import Expr, Var, dag, ops
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear, atom, factors

V = TypeVar("V")


class ValueDomain(Generic[V]):
    """A domain whose elements are abstract values.

    A subclass defines `name`, `transfer` and the abstract methods. Each must be sound: `transfer[op](a, b)` contains
    all defined `x op y` with x in a and y in b, `join` contains the union, `meet` the intersection. Divisions get any
    operands; `ADD` and `MUL` are required.

    Worked example, parity alone:

    >>> class Parity(ValueDomain[frozenset]):
    ...     name = "parity"
    ...     def constant(self, x): return frozenset((x % 2,))
    ...     def between(self, low, high):
    ...         return frozenset((0, 1)) if low is None or low != high else frozenset((low % 2,))
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
        """A value that contains every integer from `low` to `high`; `None` is an open end."""

    def congruent(self, m: int, r: int) -> V:
        """A value that contains every x with x = r mod m."""
        return self.between(None, None)

    @abstractmethod
    def join(self, a: V, b: V) -> V: ...

    @abstractmethod
    def meet(self, a: V, b: V) -> V: ...

    @abstractmethod
    def represent(self, value: V) -> IntSet:
        """The set of a value. Claim `is_exact` or `is_tight` only if it holds for every expression."""

    # -- the walk -----------------------------------------------------------------------------------------------

    def image(self, query: Query) -> IntSet:
        if query.is_empty:
            return empty_set(self.name)
        return self.represent(self.value(query))

    def value(self, query: Query) -> V:
        """The abstract value of the query's only expression."""
        return Evaluation(self, query.known, congruences(query)).form(query.forms[0])


class Evaluation(Generic[V]):
    """One walk over a linear form under one normalizer; values of atoms are cached."""

    def __init__(self, domain: ValueDomain[V], known: Normalizer, residues: Mapping[Any, tuple[int, int]]) -> None:
        self.domain, self.known, self.residues = domain, known, residues
        self._atoms: dict[Expr, V] = {}

    def form(self, form: Linear) -> V:
        """The value of a linear form: the meet of the sum, the regrouped sum and the interval."""
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
        """The value of one atom, computed bottom-up without recursion."""
        if e not in self._atoms:
            for part in dag.postorder_by((e,), self._inner_atoms):
                if part not in self._atoms:
                    self._atoms[part] = self._atom(part)
        return self._atoms[e]

    def _inner_atoms(self, e: Any) -> list[Any]:
        if e.op is ops.MUL:
            return factors(e)
        if e.op is ops.SELECT or e.op is ops.LOAD or e in self._atoms:
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
        if inner is self.known:  # the normalizer skips a large arm
            return self.domain.between(*inner.bounds(form))
        return Evaluation(self.domain, inner, self.residues).form(form)


def congruences(query: Query) -> dict[Any, tuple[int, int]]:
    """Congruences from facts `form % m == r`: the key of the form without its constant -> (m, r).

    Congruences of one form are intersected: moduli 3, 5 and 7 give one congruence modulo 105.
    """
    residues: dict[Any, tuple[int, int]] = {}

    def note(form: Linear, m: int, r: int) -> None:
        key = Linear(0, form.terms).key()
        value = strided.make(None, None, m, r - form.const)
        if key in residues:
            value = strided.meet(strided.make(None, None, *residues[key]), value)
        if value is not None:  # contradictions are reported elsewhere
            residues[key] = value[2:]

    for fact in query.facts:
        canonical = query.base.cond(fact)
        entry = query.base.compared.get(canonical)
        if entry is None or entry[0] is not ops.EQ:
            continue
        for v, k in entry[1].terms.items():  # v = g*(...) + r
            g = gcd(*(c for e, c in entry[1].terms.items() if e is not v)) if abs(k) == 1 and isinstance(v, Var) else 1
            if g > 1:
                note(atom(v), g, -k * entry[1].const % g)
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
    return residues

"""Value domains: abstract interpretation of the canonical form by a table of transfer functions; progressions.

A new value domain is a value type and a table; `Evaluation` walks the form. An operation without a transfer function
gets the value of its interval, so the answer stays sound.

Domains of progressions: congruences with ends (`interval*modular`) and without (`modular`), multi-stride sets
(`stride`). The first two compute with the values of `strided`. A multi-stride set `{b + s1*[0, e1) + s2*[0, e2) + ...}`
is exact on every affine image of a box; an operation without one falls back to a strided interval.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, ClassVar, Final, Generic, TypeVar

from intset.arithmetic import multistride, strided
from intset.arithmetic.strided import Strided
from intset.domains.certified.attained import steps_of
from intset.domains.query import Query
from intset.domains.ranked import is_touched
from intset.domains.sets.base import Bounds, End, IntSet, StrideSum, as_end, empty_set
from intset.domains.sets.bounds import check_countable
from intset.domains.sets.ends import numeric_ends
from intset.errors import CountError
from intset.expr import Cond, Expr, IntLike, Var, as_expr, const, dag, ops
from intset.expr.build import logical_and, logical_or
from intset.expr.definedness import definedness, is_partial
from intset.expr.printer import number_text
from intset.infinity import POS_INF, Infinity
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

    def bounds(self, query: Query) -> Bounds:
        answer = self.image(query)
        return Bounds(*answer.ends(), answer.is_tight, self.name, answer.notes)

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


# -- progressions -----------------------------------------------------------------------------------------------------


MEMBER_BRANCHES: Final = 512  # branches of the search for one member of a multi-stride set


class StridedSet(IntSet):
    """The integers from `low` to `high` that are congruent to `r` modulo `m`; an end is `None` where there is none."""

    def __init__(self, value: strided.StridedInterval, by: str, **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", False), flags.pop("is_exact", False), **flags)
        self.value = value

    def ends(self) -> tuple[End, End]:
        low, high = map(as_end, numeric_ends(*self.value[:2]))
        return low, high

    def _structure(self) -> StrideSum | None:
        low, high, m, _ = self.value
        if low is None or m == 0:
            return None if low is None else StrideSum(const(low), (), ())
        return StrideSum(const(low), (m,), (POS_INF if high is None else (high - low) // m + 1,))

    def _congruence(self) -> tuple[int, int]:
        return self.value[2:]

    def condition(self, e: IntLike) -> Cond:
        low, high, m, r = self.value
        x = as_expr(e)
        if m == 0:
            return x.eq(r)
        parts = [] if low is None else [x >= low]
        parts += [] if high is None else [x <= high]
        parts += [(x % m).eq(r)] if m > 1 else []
        return logical_and(*parts)

    def count(self) -> int | Infinity:
        check_countable(self)
        number = strided.count(self.value)
        return POS_INF if number is None else number

    def describe(self) -> str:
        low, high, m, r = self.value
        if m == 0:
            return f"{{{number_text(r)}}}"
        first = "NEG_INF" if low is None else number_text(low)
        interval = f"[{first}, {'POS_INF' if high is None else number_text(high)}]"
        residue = f"{number_text(m)}*Z + {number_text(r)}"
        return interval if m == 1 else residue if low is None and high is None else f"{interval} and {residue}"


class StridedDomain(ValueDomain[Strided]):
    """`interval*modular`: strided intervals, the reduced product of P. Granger, Static analysis of arithmetical
    congruences, 1989."""

    name: ClassVar[str] = "interval*modular"
    exact_on: ClassVar[str] = "one independent variable, scaled and shifted"
    transfer: Mapping[ops.Op, Callable[..., Strided]] = strided.TRANSFER

    def constant(self, x: int) -> Strided:
        return strided.const(x)

    def between(self, low: int | None, high: int | None) -> Strided:
        return strided.make(low, high)

    def congruent(self, m: int, r: int) -> Strided:
        return strided.make(None, None, m, r)

    def join(self, a: Strided, b: Strided) -> Strided:
        return strided.join(a, b)

    def meet(self, a: Strided, b: Strided) -> Strided:
        return strided.meet(a, b)

    def represent(self, value: Strided) -> IntSet:
        return empty_set(self.name) if value is None else StridedSet(value, self.name)


def on_congruences(transfer: Callable[..., Strided]) -> Callable[..., Strided]:
    """A transfer function that drops the ends of its result."""
    return lambda *operands: strided.without_ends(transfer(*operands))


TRANSFER: Final[Mapping[ops.Op, Callable[..., Strided]]] = {
    op: on_congruences(transfer) for op, transfer in strided.TRANSFER.items()
}


class ModularDomain(StridedDomain):
    """Congruences.

    Invariant: only single points have ends.
    """

    name: ClassVar[str] = "modular"
    exact_on: ClassVar[str] = "single points and residue classes"
    transfer: Mapping[ops.Op, Callable[..., Strided]] = TRANSFER

    def between(self, low: int | None, high: int | None) -> Strided:
        return strided.without_ends(strided.make(low, high))

    def join(self, a: Strided, b: Strided) -> Strided:
        return strided.without_ends(strided.join(a, b))


# -- multi-stride sets ------------------------------------------------------------------------------------------------


class StrideSet(IntSet):
    """A multi-stride set of constants, shifted by an offset over parameters."""

    def __init__(self, offset: Linear, steps: multistride.MultiStride, by: str = "stride", **flags: Any) -> None:
        super().__init__(by, flags.pop("is_tight", True), flags.pop("is_exact", False), **flags)
        self.offset, self.steps = offset, steps

    def ends(self) -> tuple[End, End]:
        low, high = multistride.lowest(self.steps), multistride.highest(self.steps)
        assert low is not None and high is not None
        return self.offset.shift(low).expr(), self.offset.shift(high).expr()

    def _structure(self) -> StrideSum:
        base, terms = self.steps
        return StrideSum(self.offset.shift(base).expr(), tuple([s for s, _ in terms]), tuple([e for _, e in terms]))

    def substituted(self, values: Mapping[Var, Expr]) -> StrideSet:
        offset = Normalizer({}).form(dag.substitute(self.offset.expr(), values))
        flags = {"is_tight": self.is_tight, "is_exact": self.is_exact, "notes": self.notes}
        return StrideSet(offset, self.steps, self.by, **flags)

    def condition(self, e: IntLike) -> Cond:
        """Divisions and remainders for nested strides; otherwise a disjunction over the multiples of large strides."""
        base, terms = self.steps
        first = self.offset.shift(base).expr()
        needs = definedness((first,)) if is_partial(first) else ()
        return logical_and(*needs, _member(as_expr(e) - first, sorted(terms, reverse=True)))

    def __contains__(self, value: object) -> bool:
        if not self.params and isinstance(value, int) and not isinstance(value, bool):
            found = multistride.contains(self.steps, value - self.offset.const)
            if found is not None:
                return found
        return super().__contains__(value)

    def count(self) -> int:
        check_countable(self)
        number = multistride.count(self.steps)
        if number is None:
            raise CountError(f"counting {self.describe()} is out of budget")
        return number

    def describe(self) -> str:
        base, terms = self.steps
        start = self.offset.shift(base)
        parts = [] if start.is_const and start.const == 0 and terms else [str(start.expr())]
        parts += [f"[0, {number_text(e)})" if s == 1 else f"{number_text(s)}*[0, {number_text(e)})" for s, e in terms]
        return "{" + " + ".join(parts) + "}"


def _member(x: Expr, terms: list[multistride.StrideTerm]) -> Cond:
    """The condition that `x` is a sum of multiples of the strides, largest stride first.

    If the sum of the smaller terms stays below a stride `s`, its multiple is `x // s`; else every multiple is tried.
    """
    pending: list[tuple[Expr, int, list[Cond]]] = [(x, 0, [])]
    done: list[Cond] = []
    while pending:
        rest, k, conds = pending.pop()
        if len(terms) - k <= 1:
            s, e = terms[k] if k < len(terms) else (1, 1)
            inside = [rest >= 0, rest <= s * (e - 1)] if e > 1 else [rest.eq(0)]
            done.append(logical_and(*conds, *inside, *([(rest % s).eq(0)] if s > 1 and e > 1 else [])))
            continue
        s, e = terms[k]
        if multistride.reach(terms[k + 1 :]) < s:
            pending.append((rest % s, k + 1, [*conds, rest >= 0, rest < s * e]))
        elif e * max(len(pending), 1) <= MEMBER_BRANCHES:
            pending.extend((rest - s * t, k + 1, conds) for t in range(e))
        else:
            raise CountError("membership of this multi-stride set is out of budget")
    return logical_or(*done)


class StrideDomain(StridedDomain):
    """Multi-stride sets, with strided intervals as the fallback.

    Guarantee: exact for independent variables under sums, scaling, and divisions with a multi-stride result.
    """

    name: ClassVar[str] = "stride"
    exact_on: ClassVar[str] = "affine images of boxes, as tiled loops have"

    def image(self, query: Query) -> IntSet:
        return structural_image(query) or super().image(query)


def structural_image(query: Query) -> StrideSet | None:
    """The exact image of a sum of multi-stride terms over disjoint independent variables; `None` for other forms."""
    known = query.known
    if query.is_empty:
        return None
    form = query.forms[0]
    if is_touched(query, form.terms):
        return None
    parts = steps_of(query, form)
    if parts is None and len(form.terms) > 1:
        regrouped = known.regroup(form)
        parts = None if regrouped is form else steps_of(query, regrouped)
    if parts is None:
        return None
    return StrideSet(*parts, is_exact=True)

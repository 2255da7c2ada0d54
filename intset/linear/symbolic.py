"""The symbolic bound: the ends of a polynomial form over quantified variables, as forms over the parameters.

Variables are eliminated one by one, innermost first. The sign of a variable's coefficient selects the end of its range
that replaces it: with `i` in `[0, n)` and `j` in `[0, m)`, the maximum of `i*m + j` is `(n-1)*m + (m-1) = n*m - 1`,
because the coefficient `m` of `i` is nonnegative.

`highest` and `lowest` answer with an end, `is_nonneg` with a sign. Each may lead to further questions about signs and
ends, which share one budget of monomials, `VISITED_MONOMIALS`.

Also here: the sum and the maximum, over one variable, of the minimum of forms affine in it. Where two forms cross, a
quotient separates the iterations in which one is the smaller: with `t >= 1`, `t <= b - t*o` holds for `o <= (b - t) //
t`. Between these breakpoints the minimum is one affine form; its sum is an arithmetic series, and its maximum stands at
an end.

Example: the sum of `minimum(t, n - t*o)` over `o` in `[0, ceildiv(n, t))` is `n`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

from intset.expr import Expr, Var, const, dag, ops
from intset.expr.build import sum_of
from intset.expr.node import folded_chain, make
from intset.linear import form as forms
from intset.linear.division import extremum, floordiv
from intset.linear.form import ZERO, Linear, Monomial, Poly, atom, constant, linear_of, poly_of

if TYPE_CHECKING:
    from intset.linear.canonical import Normalizer

SIGN_SPLITS: Final = 3  # nested case splits on coefficients of unknown sign
ELIMINATION_STEPS: Final = 40  # variables replaced by an end of their range, one after another
SYMBOLIC_NESTING: Final = 6  # nesting beyond which atoms give their numeric ends
NESTED_BUDGETS: Final = 3  # nested calls of `asked_apart`
TRIED_RESTS: Final = 40  # sums of facts tried for one question, subquestions included


Relaxed = Callable[[Var], bool]
Place = Mapping[Expr, object]  # each variable: 1 at its last value, -1 at its first, else a unique object


class SymbolicEnd(NamedTuple):
    """One end of a form, and the place of the box that attains the end; `None` where either is unknown."""

    form: Linear | None
    place: Place | None

    @property
    def attained(self) -> bool:
        return self.place is not None


UNKNOWN = SymbolicEnd(None, None)
PolyEnd = tuple[Poly | None, Place | None]  # an end during elimination, and a point that attains it, if known
P = ParamSpec("P")
T = TypeVar("T")
GIVEN_UP: PolyEnd = (None, None)
ANYWHERE: Place = MappingProxyType({})


def _both(a: Place | None, b: Place | None) -> Place | None:
    """The place that is both places; `None` if they differ in a variable, or one is unknown."""
    if a is None or b is None:
        return None
    if not a or not b:
        return a or b
    return {**a, **b} if all([a[v] == b[v] for v in a.keys() & b.keys()]) else None  # noqa: C419  # hot


class _Spent(threading.local):
    """What the open question of this thread may still spend, and how deep its parts are nested."""

    left = 0  # monomials
    rests = 0  # sums of facts, for the outermost question and all that it leads to
    open = 0  # questions inside one another
    consulting = 0  # facts consulted inside one another
    proofs = 0  # signs derived for the sake of another sign
    own_budgets = 0  # calls of `asked_apart` inside one another


SPENT = _Spent()


class SpentSignError(Exception):
    """The outermost question about a sign has tried `TRIED_RESTS` sums of facts: it stays unanswered.

    It ends all questions inside, so that none of them caches an answer that depends on the budget left.
    """


def asked_apart(ask: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Ask a question inside an open one under a fresh budget, down to `NESTED_BUDGETS` levels.

    Guarantee: the answer is independent of the spending of open questions, so it may be cached. No interrupt leaves the
    budget changed: `try` follows without a call in between, where a block of `with` is entered by calls.
    """
    spent = SPENT
    if not spent.open:
        return ask(*args, **named)
    before = spent.left, spent.open, spent.consulting, spent.proofs
    if spent.own_budgets < NESTED_BUDGETS:
        spent.left = spent.open = spent.consulting = spent.proofs = 0
    spent.own_budgets += 1
    try:
        return ask(*args, **named)
    finally:
        spent.own_budgets -= 1
        spent.left, spent.open, spent.consulting, spent.proofs = before


def is_outermost() -> bool:
    """Whether no question is open: the next question is an outermost one."""
    return not SPENT.open and not SPENT.own_budgets


def try_rests(number: int) -> None:
    """Count sums of facts.

    Raises
    ------
    SpentSignError: beyond `TRIED_RESTS`.
    """
    SPENT.rests += number
    if SPENT.rests > TRIED_RESTS:
        raise SpentSignError


def obvious_sign(known: Normalizer, p: Poly) -> int:
    """The sign (1 or -1) that all terms share by the signs of coefficients and atoms; else 0."""
    positive = negative = False
    for k in p.values():
        if k > 0:
            positive = True
        else:
            negative = True
    if positive and negative:
        return 0
    bounds = known.atom_bounds
    for parts in p:
        for e in parts:
            low = bounds(e)[0]
            if low is None or low < 0:
                return 0
    return -1 if negative else 1


def lowest(known: Normalizer, form: Linear, relaxed: Relaxed) -> SymbolicEnd:
    """The minimum of `form` over the relaxed variables, as a form over the parameters; see `highest`."""
    end = highest(known, form.scale(-1), relaxed)
    return SymbolicEnd(None if end.form is None else _negated(known, end.form), end.place)


def _negated(known: Normalizer, form: Linear) -> Linear:
    """`-form`, in which `-max(a, b)` is written as `min(-a, -b)`."""
    total = form.scale(-1)
    for e, k in form.terms.items():
        if k > 0 and (e.op is ops.MAX or e.op is ops.MIN):
            a, b = (known.form(arg).scale(-1) for arg in e.args)
            other = extremum(known, ops.MIN if e.op is ops.MAX else ops.MAX, a, b)
            total = total.plus(atom(e), k).plus(other, k)
    return total


def highest(known: Normalizer, form: Linear, relaxed: Relaxed) -> SymbolicEnd:
    """The maximum of `form` over the relaxed variables, as a form over the parameters.

    Guarantee: no point of the box exceeds this end. `attained` is set when every variable takes its
    selected end independently of the others, so the point exists whenever the box is nonempty. Facts may still exclude
    that point; the caller checks them.
    """
    spent = SPENT
    outermost = is_outermost()
    if outermost:
        spent.rests = 0
    if not spent.open:
        spent.left = forms.VISITED_MONOMIALS
    spent.open += 1
    try:
        end, place = eliminated(known, poly_of(known.regroup(form)), relaxed, SIGN_SPLITS, 0)
    except SpentSignError:
        if not outermost:
            raise
        return UNKNOWN
    finally:
        spent.open -= 1
    return UNKNOWN if end is None else SymbolicEnd(linear_of(end), place)


def eliminated(known: Normalizer, p: Poly, relaxed: Relaxed, splits: int, depth: int) -> PolyEnd:
    """The maximum of `p` over the relaxed variables: atoms are replaced by their ends, then variables."""
    place: Place | None = ANYWHERE
    for _ in range(ELIMINATION_STEPS):
        SPENT.left -= 1 + len(p)
        if SPENT.left < 0:
            return GIVEN_UP
        atoms = forms.atoms_in(p)
        if any([e.op is not ops.VAR for e in atoms]):  # noqa: C419  # a generator is slower here
            if depth < SYMBOLIC_NESTING and (choice := _beside_its_terms(p, relaxed)) is not None:
                end, there = _over_arguments(known, p, choice, relaxed, splits, depth + 1)
                return end, _both(place, there)
            bound, there = _without_atoms(known, p, relaxed, depth)
            if bound is None:
                return GIVEN_UP
            p, place = bound, _both(place, there)
            atoms = forms.atoms_in(p)
        var = _innermost(known, atoms, relaxed)
        if var is None:
            return p, place
        without, there = _without_variable(known, p, var, relaxed, splits)
        if without is None:
            return GIVEN_UP
        p, place = without, _both(place, there)
    return GIVEN_UP


def _beside_its_terms(p: Poly, relaxed: Relaxed) -> Expr | None:
    """A minimum or maximum that shares a relaxed variable with another term: `minimum(t*o + t, n) - t*o`."""
    for parts in p:
        e = parts[0] if len(parts) == 1 else None
        if e is None or e.op is not ops.MIN and e.op is not ops.MAX:
            continue
        own = {v for v in e.free_vars() if relaxed(v)}
        if any(not own.isdisjoint(f.free_vars()) for others in p if others is not parts for f in others):
            return e
    return None


def _over_arguments(known: Normalizer, p: Poly, e: Expr, relaxed: Relaxed, splits: int, depth: int) -> PolyEnd:
    """The maximum of `k*min(a, b) + rest` by those of `k*a + rest` and `k*b + rest`, in which terms cancel."""
    k = p[(e,)]
    ends: list[PolyEnd] = []
    for arg in e.args:
        whole = {parts: c for parts, c in p.items() if parts != (e,)}
        forms.add(whole, poly_of(known.form(arg)), k)
        ends.append(eliminated(known, poly_of(known.regroup(linear_of(whole))), relaxed, splits, depth))
    if (e.op is ops.MAX) is (k > 0):
        return _larger(known, ends[0], ends[1])
    (a, at_a), (b, at_b) = ends
    if a is None or b is None:
        return b if a is None else a, None
    return poly_of(extremum(known, ops.MIN, linear_of(a), linear_of(b))), _both(at_a, at_b)


def _innermost(known: Normalizer, atoms: Iterable[Expr], relaxed: Relaxed) -> Var | None:
    """A relaxed variable of `atoms` whose value no range of another relaxed variable uses; sizes come last."""
    relaxed_vars: dict[Var, None] = {}
    for e in atoms:
        for v in e.free_vars():
            if relaxed(v):
                relaxed_vars[v] = None
    if len(relaxed_vars) > 1:
        limits = known.assumptions.limits
        outer = {v for var in relaxed_vars for end in limits.get(var, ()) if end is not None for v in _variables(end)}
        inner = [var for var in relaxed_vars if var not in outer]
        return next((var for var in inner if var in limits), inner[0] if inner else None)
    return next(iter(relaxed_vars), None)


def _variables(form: Linear) -> Iterator[Var]:
    for e in form.terms:
        yield from e.free_vars()


def ends_of(known: Normalizer, var: Expr) -> tuple[Linear | None, Linear | None]:
    """The symbolic ends of a variable, or its numeric ends."""
    first, last = known.assumptions.limits.get(var, (None, None)) if isinstance(var, Var) else (None, None)
    low, high = known.atom_bounds(var)
    if first is None and low is not None:
        first = constant(low)
    if last is None and high is not None:
        last = constant(high)
    return first, last


RangeEnds: TypeAlias = "tuple[Linear | None, Linear | None]"


def _without_variable(
    known: Normalizer, p: Poly, var: Var, relaxed: Relaxed, splits: int, within: RangeEnds | None = None
) -> PolyEnd:
    """The maximum over one variable: the end of its range by the sign of the slope, or the larger end.

    The slope of a polynomial of a higher degree is its forward difference; a convex slope of unknown sign attains the
    maximum at one of the two ends. Its sign must hold at every value between the ends, also where facts exclude it.
    """
    parts = forms.split(p, var)
    slope = parts[0] if parts is not None else _difference(p, var) if var in known.assumptions.limits else None
    if slope is None:
        return _without_powers(known, p, var)
    stated = ends_of(known, var)
    first, last = ends = within or (stated if parts is not None else _narrower(known, var, stated))
    alone = not (_is_relaxed(first, relaxed) or _is_relaxed(last, relaxed))
    sign = _sign(known, slope) if parts is not None else _sign_between(known, slope, var, relaxed, ends)
    end = last if sign > 0 else first if sign < 0 else None
    if end is not None:
        is_placed = alone and (end is stated[0] or end is stated[1])
        return _at(p, var, end, parts), {var: sign} if is_placed else None
    if parts is None and not _is_convex(known, slope, var, relaxed, ends):
        numeric = _without_powers(known, p, var)
        return numeric if numeric[0] is not None else _by_powers(known, p, var, relaxed, ends)
    if sign or splits <= 0 or first is None or last is None:
        return GIVEN_UP
    at_first, at_last = (_at(p, var, end, parts) for end in (first, last))
    tops: list[PolyEnd] = []
    for side, q in ((1, at_last), (-1, at_first)):
        most, place = eliminated(known, q, relaxed, splits - 1, 0)
        tops.append((most, _both(place, {var: side}) if alone and parts is not None else None))
    return _larger(known, tops[0], tops[1])


def _narrower(known: Normalizer, var: Var, ends: RangeEnds) -> RangeEnds:
    """The ends of a variable, or its numeric ends where these are proved to be tighter."""
    first, last = ends
    low, high = (None if end is None else constant(end) for end in known.atom_bounds(var))
    if low is not None and (first is None or _is_beyond(known, low.minus(first))):
        first = low
    if high is not None and (last is None or _is_beyond(known, last.minus(high))):
        last = high
    return first, last


def _is_beyond(known: Normalizer, gain: Linear) -> bool:
    return gain.const > 0 if not gain.terms else known.is_nonneg(gain)


def _sign_between(known: Normalizer, p: Poly, var: Var, relaxed: Relaxed, ends: RangeEnds) -> int:
    """The sign of `p` at every value of `var` between its ends: 1 for `p >= 0`, -1 for `p <= 0`, 0 if unknown."""
    if not any(var in parts for parts in p):
        return _sign(known, p)
    for sign in (1, -1):
        most, _ = _without_variable(known, forms.scaled(p, -sign), var, relaxed, 0, ends)
        if most is not None and (not most or _sign(known, most) < 0):
            return sign
    return 0


def _at(p: Poly, var: Var, value: Linear, parts: tuple[Poly, Poly] | None) -> Poly:
    """`p` with a value for a variable; `parts` is the split of a polynomial linear in it."""
    if parts is None:
        return forms.substituted(p, var, poly_of(value))
    total = dict(parts[1])
    forms.add_product(total, poly_of(value), parts[0])
    return total


def _by_powers(known: Normalizer, p: Poly, var: Var, relaxed: Relaxed, ends: RangeEnds) -> PolyEnd:
    """A bound of `p`: the sum of the maxima of its powers of `var`, each monotone between the ends."""
    first, last = ends
    total: Poly = {}
    for degree in {parts.count(var) for parts in p}:
        power = {parts: k for parts, k in p.items() if parts.count(var) == degree}
        sign = _sign_between(known, _difference(power, var) or {}, var, relaxed, ends) if degree else 1
        end = last if sign > 0 else first
        if not sign or degree and end is None:
            return GIVEN_UP
        forms.add(total, forms.substituted(power, var, poly_of(end)) if degree and end is not None else power)
    return total, None


def _is_convex(known: Normalizer, slope: Poly, var: Var, relaxed: Relaxed, ends: RangeEnds) -> bool:
    bend = _difference(slope, var)
    return bend is not None and _sign_between(known, bend, var, relaxed, ends) > 0


def _difference(p: Poly, var: Var) -> Poly | None:
    """The forward difference `p(var + 1) - p(var)`; `None` if `var` also stands inside another atom."""
    if any(e is not var and var in e.free_vars() for e in forms.atoms_in(p)):
        return None
    slope = forms.shifted(p, var, 1, 1)
    forms.add(slope, p, -1)
    return slope


def _without_powers(known: Normalizer, p: Poly, var: Var) -> PolyEnd:
    """The maximum of `p` over a variable whose powers have constant coefficients, between its numeric ends."""
    powers: list[int] = []
    rest: Poly = {}
    for parts, k in p.items():
        degree = parts.count(var)
        if not degree:
            rest[parts] = k
            continue
        if degree < len(parts):
            return GIVEN_UP
        powers += [0] * (degree + 1 - len(powers))
        powers[degree] = k
    if any(var in e.free_vars() for e in forms.atoms_in(rest)):
        return GIVEN_UP
    most = forms.highest_value(powers, *known.atom_bounds(var))
    if most is None:
        return GIVEN_UP
    forms.add(rest, poly_of(constant(most)))
    return rest, None if var in known.assumptions.limits else {var: object()}


def _sign(known: Normalizer, p: Poly) -> int:
    """1 if `p >= 0` is proved, -1 if `p <= 0` is, else 0."""
    return obvious_sign(known, p) or known.sign(linear_of(p))


def _larger(known: Normalizer, a: PolyEnd, b: PolyEnd) -> PolyEnd:
    """The maximum over both cases of a split."""
    if a[0] is None or b[0] is None:
        return GIVEN_UP
    p, q = linear_of(a[0]), linear_of(b[0])
    sign = known.sign(p.minus(q))
    if sign:
        return a if sign > 0 else b
    either: Place | None = None
    if a[1] is not None and b[1] is not None:
        either = {v: object() for v in (*a[1], *b[1])}  # which place it is depends on parameters
    return {(make(ops.MAX, (known.atomized(p), known.atomized(q))),): 1}, either


def _without_atoms(known: Normalizer, p: Poly, relaxed: Relaxed, depth: int) -> PolyEnd:
    """An upper bound of `p` whose atoms over relaxed variables are variables, and where it is attained."""
    composite = [parts for parts in p if _has_inner(parts, relaxed)]
    total = dict(p)
    place: Place | None = ANYWHERE
    for parts in composite:
        k = total.pop(parts, 0)
        if not k:  # the bound of another term cancelled it
            continue
        bound: PolyEnd = GIVEN_UP
        if len(parts) == 1 and depth < SYMBOLIC_NESTING:
            bound = _atom_end(known, parts[0], k > 0, relaxed, depth + 1)
        if bound[0] is None:
            number = known.atom_bounds(folded_chain(ops.MUL, parts))[k > 0]
            form = _by_divisor(known, parts, k > 0, number is None or _divisor_recurs(p, parts))
            if form is None and number is None:
                return GIVEN_UP
            bound = (poly_of(constant(number or 0) if form is None else form), None)
        assert bound[0] is not None
        forms.add(total, bound[0], k)
        place = _both(place, bound[1])
    return total, place


def _divisor_recurs(p: Poly, parts: Monomial) -> bool:
    """Whether a variable of the divisor of a quotient or remainder stands in another term."""
    if len(parts) > 1 or parts[0].op is not ops.FLOORMOD and parts[0].op is not ops.FLOORDIV:
        return False
    own = set(parts[0].args[-1].free_vars())
    return any(not own.isdisjoint(e.free_vars()) for others in p if others is not parts for e in others)


def _by_divisor(known: Normalizer, parts: Monomial, upper: bool, is_wanted: bool) -> Linear | None:
    """A bound of one quotient or remainder by a divisor d >= c >= 1 that is relaxed itself; `None` without one.

    A quotient by a constant has none.

    x % d  in [0, d - 1]
    x // d in [0, x // c]    x >= 0
    x // d in [x // c, -1]   x < 0
    """
    e = parts[0]
    if not is_wanted or len(parts) > 1 or e.op is not ops.FLOORMOD and e.op is not ops.FLOORDIV:
        return None
    x, divisor = (known.form(arg) for arg in e.args)
    least = known.bounds(divisor)[0]
    if least is None or least < 1:
        return None
    if e.op is ops.FLOORMOD:
        return divisor.shift(-1) if upper else ZERO
    is_low = known.is_nonneg(x)
    if not is_low and not known.is_nonneg(x.scale(-1).shift(-1)):
        return None
    if upper is not is_low:
        return ZERO if is_low else constant(-1)
    return None if divisor.is_const else floordiv(known, x, constant(least))


def _has_inner(parts: Monomial, relaxed: Relaxed) -> bool:
    """Whether a composite atom varies over the box: a load, or a term with relaxed variables."""
    for e in parts:
        if e.op is ops.VAR:
            continue
        if e.op is ops.LOAD or any(map(relaxed, e.free_vars())):
            return True
    return False


def _atom_end(known: Normalizer, e: Expr, upper: bool, relaxed: Relaxed, depth: int) -> PolyEnd:
    """The end of one atom; monotone operations map the ends of their arguments."""
    if e.op is ops.FLOORMOD:
        divisor = known.form(e.args[1])
        if divisor.is_const or not known.is_positive(divisor) or _is_relaxed(divisor, relaxed):
            return GIVEN_UP
        is_attained = covers(known, known.form(e.args[0]), divisor, relaxed)
        somewhere: Place = {v: object() for v in e.free_vars() if relaxed(v)}
        return poly_of(divisor.shift(-1) if upper else ZERO), somewhere if is_attained else None
    if e.op is ops.FLOORDIV:
        divisor = known.form(e.args[1])
        if not known.is_positive(divisor) or _is_relaxed(divisor, relaxed):
            return GIVEN_UP
        inner, place = _end(known, known.form(e.args[0]), upper, relaxed, depth)
        return GIVEN_UP if inner is None else (poly_of(floordiv(known, inner, divisor)), place)
    if e.op is ops.MIN or e.op is ops.MAX:
        a, at_a = _end(known, known.form(e.args[0]), upper, relaxed, depth)
        b, at_b = _end(known, known.form(e.args[1]), upper, relaxed, depth) if a is not None else (None, None)
        if a is None or b is None:
            return GIVEN_UP
        return poly_of(extremum(known, e.op, a, b)), _both(at_a, at_b)
    return GIVEN_UP


def _end(
    known: Normalizer, form: Linear, upper: bool, relaxed: Relaxed, depth: int
) -> tuple[Linear | None, Place | None]:
    p = poly_of(known.regroup(form))
    end, place = eliminated(known, p if upper else forms.scaled(p, -1), relaxed, SIGN_SPLITS, depth)
    return None if end is None else linear_of(end if upper else forms.scaled(end, -1)), place


def _is_relaxed(form: Linear | None, relaxed: Relaxed) -> bool:
    return form is not None and bool(form.terms) and any(map(relaxed, _variables(form)))


def covers(known: Normalizer, base: Linear, divisor: Linear, relaxed: Relaxed) -> bool:
    """Whether `base % divisor` takes every residue: a variable with coefficient 1, in no other term, that runs over a
    whole period."""
    for var in dag.free_vars(*base.terms):
        if relaxed(var) and base.terms.get(var) in (1, -1) and sum(var in e.free_vars() for e in base.terms) == 1:
            first, last = ends_of(known, var)
            if first is not None and last is not None and known.is_nonneg(last.minus(first).shift(1).minus(divisor)):
                return True
    return False


def coefficients_of(form: Linear, variables: Container[Var]) -> dict[Var, Linear] | None:
    """The coefficients of the variables in a form; `None` unless the form is linear in all of them together."""
    found: dict[Var, Linear] = {}
    for monomial, k in form.terms.items():
        own = [v for v in monomial.free_vars() if v in variables]
        if not own:
            continue
        parts = forms.factors(monomial)
        if not forms.take_out(parts, own[0]) or any(v in e.free_vars() for v in own for e in parts):
            return None
        others = atom(forms.monomial_of(parts)) if parts else constant(1)
        found[own[0]] = found.get(own[0], ZERO).plus(others, k)
    return found


class Run(NamedTuple):
    """Every integer from `least` to `least + reach`; a `reach` of `None` has no end."""

    least: Linear
    reach: Linear | None


def run_of(known: Normalizer, coefficients: Mapping[Var, Linear]) -> Run | None:
    """The values of a sum of multiples of independent variables as a run; `None` if some integers may be left out.

    A coefficient of at most the length of the run so far extends the run: `i*m + j` with `i` in `[0, n)` and `j` in
    `[0, m)` takes every value up to `n*m - 1`. Variables without end come last.
    """
    waiting = dict(sorted(coefficients.items(), key=lambda item: None in ends_of(known, item[0])))
    least = ZERO
    reach: Linear | None = ZERO
    while waiting:
        for v, k in waiting.items():
            sign = known.sign(k)
            if sign and (reach is None or known.is_nonneg(reach.shift(1).minus(k.scale(sign)))):
                del waiting[v]
                break
        else:
            return None
        first, last = ends_of(known, v)[::sign]
        if first is None:
            return None
        least = least.plus(known.product(k, first))
        reach = None if reach is None or last is None else reach.plus(known.product(k, last.minus(first)))
    return Run(least, reach)


BREAKPOINT_PIECES: Final = 8  # affine pieces of the minimum of several forms


class Affine(NamedTuple):
    """`slope*v + rest`, with the proved sign of the slope: 1 for `>= 0`, -1 for `<= 0`."""

    slope: Linear
    rest: Linear
    sign: int


class AffinePiece(NamedTuple):
    """The iterations `[start, end)`, `start <= end`, in which the minimum is `form`."""

    start: Linear
    end: Linear
    form: Affine


def minimum_pieces(
    known: Normalizer, forms: Sequence[Linear], var: Var, first: Linear, end: Linear
) -> list[AffinePiece] | None:
    """The pieces of `max(0, min(forms))` over `var` in `[first, end)`, zero pieces dropped.

    Guarantee: the pieces are disjoint and contain every iteration in which the minimum is positive. `None`: a form is
    not affine in the variable, a slope has no proved sign, or there are more than `BREAKPOINT_PIECES` pieces.
    """
    lines = [affine_in(known, form, var) for form in forms]
    if any(line is None for line in lines):
        return None
    end = extremum(known, ops.MAX, end, first)
    kept = [line for line in lines if line is not None]
    for line in kept:  # iterations in which no form is negative
        window = _window(known, line, first, end)
        if window is None:
            return None
        first, end = window
    pieces: list[AffinePiece] = []
    waiting = [(kept, first, end)]
    while waiting:
        lines_, start, stop = waiting.pop()
        if len(lines_) == 1:
            pieces.append(AffinePiece(start, stop, lines_[0]))
            if len(pieces) > BREAKPOINT_PIECES:
                return None
            continue
        a, b, rest = lines_[0], lines_[1], lines_[2:]
        apart = _apart(known, a, b)
        if apart is None:
            return None
        if apart.slope.is_const and not apart.slope.const:
            lower = a._replace(rest=extremum(known, ops.MIN, a.rest, b.rest))
            waiting.append(([lower, *rest], start, stop))
            continue
        if apart.sign < 0:
            a, b = b, a
            apart = Affine(apart.slope.scale(-1), apart.rest.scale(-1), 1)
        cut = _clamped(known, floordiv(known, apart.rest.scale(-1), apart.slope).shift(1), start, stop)
        waiting.append(([b, *rest], cut, stop))
        waiting.append(([a, *rest], start, cut))
    return [piece for piece in pieces if not piece.start.same(piece.end)]


def affine_in(known: Normalizer, form: Linear, var: Var) -> Affine | None:
    """A form as affine in a variable; `None` for other forms, or a slope of unknown sign."""
    parts = forms.split(poly_of(form), var)
    if parts is None:
        return None
    slope, rest = linear_of(parts[0]), linear_of(parts[1])
    if any(var in e.free_vars() for part in (slope, rest) for e in part.terms):
        return None
    sign = known.sign(slope)
    return Affine(slope, rest, sign) if sign else None


def _apart(known: Normalizer, a: Affine, b: Affine) -> Affine | None:
    """`a - b`; `None` if the sign of its slope is unproved, or the slope may vanish without being identically 0."""
    slope = a.slope.minus(b.slope)
    if slope.is_const and not slope.const:
        return Affine(ZERO, a.rest.minus(b.rest), 1)
    if known.is_positive(slope):
        return Affine(slope, a.rest.minus(b.rest), 1)
    return Affine(slope, a.rest.minus(b.rest), -1) if known.is_positive(slope.scale(-1)) else None


def _window(known: Normalizer, line: Affine, first: Linear, end: Linear) -> tuple[Linear, Linear] | None:
    """The iterations of `[first, end)` where a form is nonnegative."""
    at_last = value_at(known, line, end.shift(-1))
    worst = value_at(known, line, first) if line.sign > 0 else at_last
    if known.sign(worst) > 0:
        return first, end
    if not line.slope.terms and not line.slope.const:
        return None
    if not known.is_positive(line.slope.scale(line.sign)):
        return None
    if line.sign < 0:  # rest - s*v >= 0 for v <= rest // s
        stop = floordiv(known, line.rest, line.slope.scale(-1)).shift(1)
        return first, _clamped(known, stop, first, end)
    start = floordiv(known, line.rest.scale(-1).plus(line.slope).shift(-1), line.slope)  # ceildiv(-rest, slope)
    return _clamped(known, start, first, end), end


def _clamped(known: Normalizer, form: Linear, low: Linear, high: Linear) -> Linear:
    return extremum(known, ops.MAX, low, extremum(known, ops.MIN, form, high))


def value_at(known: Normalizer, line: Affine, v: Linear) -> Linear:
    """The value of a form at a value of its variable."""
    return known.product(line.slope, v).plus(line.rest)


def sum_of_pieces(known: Normalizer, pieces: Sequence[AffinePiece]) -> Expr:
    """The sum over all pieces: one piece for each: an arithmetic series, or a single value for at most one
    iteration."""
    terms = []
    for start, end, line in pieces:
        length = end.minus(start)
        number = length.expr()
        if known.is_nonneg(constant(1).minus(length)):
            terms.append(number * value_at(known, line, start).expr())
            continue
        term = number * line.rest.expr()
        if line.slope.terms or line.slope.const:
            indices = number * start.plus(end).shift(-1).expr() // 2  # start + ... + (end - 1)
            slope = line.slope.scale(line.sign).expr()
            term = term + slope * indices if line.sign > 0 else term - slope * indices
        terms.append(term)
    return sum_of(terms) if terms else const(0)


def greatest_of_pieces(pieces: Sequence[AffinePiece]) -> Iterator[tuple[Linear, Affine, Linear]]:
    """For each piece its length, its form, and the iteration in which the form is greatest."""
    for start, end, line in pieces:
        yield end.minus(start), line, start if line.sign < 0 else end.shift(-1)

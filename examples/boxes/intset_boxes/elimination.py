"""Elimination over the integers in Python alone: what a domain of regions without isl needs.

A *case* is a system of affine inequalities and congruences. A condition becomes cases for `filter` and `image` of a
shape: a disjunction, `!=`, a minimum or a select splits, and a quotient by a constant becomes a fresh variable with two
defining inequalities. A variable is eliminated as by Presburger and by Pugh's Omega test (1991), split into cases by
residues. Coefficients and moduli bound their number; more than `ELIMINATION_CASES` raise `BudgetError`.

Guarantee: a condition, and the projection of a case, equal the disjunction of the cases that they become.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import gcd, lcm, prod
from typing import TYPE_CHECKING, Final, NamedTuple

from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.build import logical_not
from intset.expr.dag import substitute
from intset.expr.node import Cond, Expr, Var
from intset.linear.canonical import Normalizer
from intset.linear.form import ZERO, Linear

if TYPE_CHECKING:
    from intset.regions.shape import Account

CONDITION_CASES: Final = 100  # cases of one condition


class AffineCase(NamedTuple):
    """The points with all `forms >= 0`, where `quotients` are existential variables of unique value."""

    forms: list[Linear]
    quotients: tuple[Var, ...]


def cases_of(condition: Cond, running: Collection[Var]) -> list[AffineCase]:
    """The cases of a condition; it holds exactly where one of them does.

    Quotients without variables of `running` stay terms of the forms; `definition` gives their inequalities.

    Raises
    ------
    BudgetError: the condition is not affine, or has too many cases.
    """
    cases: list[AffineCase] = []
    waiting: list[tuple[list[Cond], list[Linear], dict[Expr, Var]]] = [([condition], [], {})]
    while waiting:
        conds, forms, quotients = waiting.pop()
        if len(waiting) + len(cases) > CONDITION_CASES:
            raise BudgetError(f"a condition of more than {CONDITION_CASES} cases", "CONDITION_CASES")
        forms = [form for form in forms if form.terms or form.const < 0]
        if any(not form.terms for form in forms):
            continue
        if conds:
            waiting += [(conds[:-1] + more, [*forms, *new], quotients) for more, new in _split(conds[-1])]
            continue
        atom = next((e for form in forms for e in form.terms if not _is_plain(e, running)), None)
        if atom is None:
            cases.append(AffineCase(forms, tuple(quotients.values())))
        elif atom.op is ops.FLOORDIV:
            known = quotients.get(atom)  # already named: a nested quotient repeats
            q = Var("q") if known is None else known
            new = [form.minus(Linear(0, {atom: k, q: -k})) if (k := form.terms.get(atom)) else form for form in forms]
            new += definition(atom, q) if known is None else []
            waiting.append(([], new, {**quotients, atom: q}))
        else:
            for guard, value in _choices(atom):
                chosen = [Normalizer({}).form(substitute(form.expr(), {atom: value})) for form in forms]
                waiting.append(([guard], chosen, quotients))
    return cases


def definition(quotient: Expr, q: Expr) -> list[Linear]:
    """The forms that are all nonnegative exactly if `q` equals the quotient `e // c`."""
    dividend, divisor = quotient.args
    if not divisor.is_const or divisor.data <= 0:
        raise BudgetError(f"{quotient} is not affine")
    rest = Normalizer({}).form(dividend).plus(Linear(0, {q: divisor.data}), -1)
    return [rest, rest.scale(-1).shift(divisor.data - 1)]


def _is_plain(e: Expr, running: Collection[Var]) -> bool:
    if isinstance(e, Var):
        return True
    if e.op is not ops.FLOORDIV or not e.args[1].is_const or any(v in running for v in e.free_vars()):
        return False
    return all(_is_plain(t, running) for t in Normalizer({}).form(e.args[0]).terms)


def _split(cond: Cond) -> list[tuple[list[Cond], list[Linear]]]:
    """One step of a condition into cases, each of remaining conditions and nonnegative forms."""
    cases: list[tuple[list[Cond], list[Linear]]] = [([], [])]
    for part in Normalizer({}).clauses(cond):
        if isinstance(part, tuple):
            kind, form = part
            back = form.scale(-1)
            ways = [[form]] if kind is ops.GE else [[form, back]]
            if kind is ops.NE:
                ways = [[form.shift(-1)], [back.shift(-1)]]
            cases = [(conds, [*forms, *way]) for conds, forms in cases for way in ways]
        elif part.op is ops.OR:
            cases = [([*conds, arg], forms) for conds, forms in cases for arg in part.args]
        else:
            return []  # the constant False
    return cases


def _choices(atom: Expr) -> list[tuple[Cond, Expr]]:
    """The guarded values of a select, absolute value, minimum or maximum."""
    if atom.op is ops.SELECT:
        condition, yes, no = atom.args
        return [(condition, yes), (logical_not(condition), no)]
    if atom.op is ops.ABS:
        (e,) = atom.args
        return [(e >= 0, e), (e < 0, -e)]
    if atom.op is ops.MIN or atom.op is ops.MAX:
        a, b = atom.args
        first = a <= b if atom.op is ops.MIN else a >= b
        return [(first, a), (logical_not(first), b)]
    raise BudgetError(f"{atom} is not affine")


ELIMINATION_CASES: Final = 128  # cases of one elimination


class StepCounter:
    """A counter of steps with nested budgets; steps of an inner block count in all outer ones.

    Example
    -------
    >>> steps = StepCounter("lists")
    >>> with steps.budget(2):
    ...     steps.spend(2)
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._left: ContextVar[int | None] = ContextVar(name, default=None)

    @contextmanager
    def budget(self, operations: int, account: Account | None = None) -> Iterator[None]:
        """Limit the steps in the block, as `Shape.budget` documents; beyond them `spend` raises `BudgetError`."""
        outer = self._left.get()
        allowed = operations if account is None else account.allowed(operations)
        allowed = allowed if outer is None else min(allowed, outer)
        token = self._left.set(allowed)
        try:
            yield
        finally:
            spent = allowed - max(self._left.get() or 0, 0)
            self._left.reset(token)
            if outer is not None:
                self._left.set(outer - spent)
            elif account is not None:
                account.charge(spent)

    def spend(self, steps: int) -> None:
        """Count so many steps.

        Raises
        ------
        BudgetError: there are no more left.
        """
        left = self._left.get()
        if left is not None:
            self._left.set(left - steps)
            if left < steps:
                raise BudgetError(f"{self.name} gave up: more operations would be needed", "isl_operations")


Congruences = Iterable[tuple[int, Linear]]


class System(NamedTuple):
    """The points with every form of `least` nonnegative and every form of `steps` divisible by its modulus."""

    least: tuple[Linear, ...]
    steps: tuple[tuple[int, Linear], ...]

    def variables(self) -> dict[Expr, None]:
        return dict.fromkeys(v for form in (*self.least, *(f for _, f in self.steps)) for v in form.terms)

    def key(self) -> object:
        return frozenset(f.key() for f in self.least), frozenset((m, f.key()) for m, f in self.steps)


EVERYTHING = System((), ())
WORK = StepCounter("elimination")


def tidy(least: Iterable[Linear], steps: Congruences = ()) -> System | None:
    """A system in normal form; `None` if two of its conditions contradict each other."""
    kept: dict[object, Linear] = {}
    for form in least:
        if not form.terms:
            if form.const < 0:
                return None
            continue
        g = form.content()
        if g > 1:
            form = Linear(form.const // g, {t: c // g for t, c in form.terms.items()})
        other = kept.get(terms := frozenset(form.terms.items()))
        if other is None or form.const < other.const:
            kept[terms] = form
    for form in kept.values():
        other = kept.get(frozenset((t, -c) for t, c in form.terms.items()))
        if other is not None and form.const + other.const < 0:
            return None
    congruences: dict[object, tuple[int, Linear]] = {}
    for m, form in (_reduced(*step) for step in steps):
        if (
            m > 1
            and congruences.setdefault((m, frozenset(form.terms.items())), (m, form))[1].const != form.const
            or not m
        ):
            return None
    system = System(tuple(kept.values()), tuple(congruences.values()))
    WORK.spend(8 * (1 + len(system.least) + len(system.steps)))
    return system


def _reduced(m: int, form: Linear) -> tuple[int, Linear]:
    """The congruence `form = 0` modulo `m` in lowest terms; modulus 0 if it is unsatisfiable."""
    terms = {t: c % m for t, c in form.ordered() if c % m}
    g = gcd(m, *terms.values())
    if form.const % g:
        return 0, form
    m, const, terms = m // g, form.const // g, {t: c // g for t, c in terms.items()}
    lead = next(iter(terms.values()), 1)
    unit = pow(lead, -1, m) if m > 1 and gcd(lead, m) == 1 else 1
    return m, Linear(const * unit % m, {t: c * unit % m for t, c in terms.items()})


def also(system: System | None, least: Iterable[Linear] = (), steps: Congruences = ()) -> System | None:
    """A system with further conditions."""
    return None if system is None else tidy([*system.least, *least], [*system.steps, *steps])


def substituted(form: Linear, v: Expr, value: Linear, over: int = 1) -> Linear:
    """`over` times the form, with `value / over` substituted for `v`."""
    k = form.terms.get(v, 0)
    rest = Linear(form.const, {t: c for t, c in form.terms.items() if t is not v}) if k else form
    return rest.scale(over).plus(value, k) if k else rest.scale(over)


def replaced(system: System, v: Expr, value: Linear, over: int = 1) -> System | None:
    """The system with `value / over` substituted for `v`. Precondition: the quotient is an integer."""
    return tidy(
        [substituted(f, v, value, over) for f in system.least],
        [(m * over, substituted(f, v, value, over)) if v in f.terms else (m, f) for m, f in system.steps],
    )


def renamed(system: System, names: Mapping[Expr, Expr]) -> System:
    """The system with its variables renamed."""

    def form(f: Linear) -> Linear:
        new = Linear(f.const, {})
        for t, c in f.terms.items():
            new = new.plus(Linear(0, {names.get(t, t): c}))
        return new

    return System(tuple(map(form, system.least)), tuple((m, form(f)) for m, f in system.steps))


class VariableBounds(NamedTuple):
    """One variable of a system as `offset + stride*t`, and the system over `t`, which keeps the variable's name.

    Invariant: no congruence mentions `t`. `lows` and `highs` are pairs `(c, f)` with `c*t >= f` and `c*t <= f`; `rest`
    is the system without `t`.
    """

    offset: Linear
    stride: int
    lows: list[tuple[int, Linear]]
    highs: list[tuple[int, Linear]]
    rest: System


def lines(system: System, v: Expr) -> list[VariableBounds]:
    """The bounds of a variable, split by residues of the other variables."""
    bounds = []
    waiting = [(system, ZERO, 1)]
    while waiting:
        current, offset, stride = waiting.pop()
        step = next(((m, f) for m, f in current.steps if v in f.terms), None)
        if step is None:
            bounds.append(_line(current, v, offset, stride))
            continue
        m, form = step
        k = form.terms[v]
        g = gcd(k, m)
        rest = Linear(form.const, {t: c for t, c in form.terms.items() if t is not v})
        n, inverse = m // g, pow(k // g, -1, m // g) if m > g else 0
        others = [s for s in current.steps if s[1] is not form]
        # k*v + rest = 0 (mod m): with g = 1 it determines v modulo m, else for each residue of the rest
        if g == 1:
            cases: list[tuple[Linear, list[tuple[int, Linear]]]] = [(rest.scale(-inverse), [])]
        else:
            _check(n)
            cases = [(Linear(-inverse * j % n, {}), [(m, rest.shift(-g * j))]) for j in range(n)]
        for value, guard in cases:
            value = Linear(value.const, {t: (c % n) for t, c in value.terms.items() if c % n})
            system_ = tidy(current.least, [*others, *guard])
            inner = None if system_ is None else replaced(system_, v, value.plus(Linear(0, {v: 1}), n))
            if inner is not None:
                waiting.append((inner, offset.plus(value, stride), stride * n))
    return bounds


def _line(system: System, v: Expr, offset: Linear, stride: int) -> VariableBounds:
    lows, highs, rest = [], [], []
    for form in system.least:
        k = form.terms.get(v, 0)
        other = Linear(form.const, {t: c for t, c in form.terms.items() if t is not v}) if k else form
        if k > 0:
            lows.append((k, other.scale(-1)))
        elif k:
            highs.append((-k, other))
        else:
            rest.append(form)
    return VariableBounds(offset, stride, lows, highs, System(tuple(rest), system.steps))


def without(system: System, v: Expr) -> list[System]:
    """The projection of a system that eliminates `v`, as cases."""
    equal = _equation(system, v)
    if equal is not None:
        c, value = equal
        projected = also(replaced(system, v, value, c), (), [(c, value)])
        return [] if projected is None else [projected]
    return [s for line in lines(system, v) for s in shadows(line)]


def _equation(system: System, v: Expr) -> tuple[int, Linear] | None:
    """`(c, f)` with `c*v = f` if the system has such an equation, else `None`."""
    line = _line(system, v, ZERO, 1)
    highs = {(c, f.key()) for c, f in line.highs}
    return min((low for low in line.lows if (low[0], low[1].key()) in highs), key=lambda low: low[0], default=None)


def shadows(line: VariableBounds) -> Iterator[System]:
    """The cases in which an integer satisfies the bounds.

    Between `c*t >= f` and `d*t <= g` lies an integer if `c*g - d*f >= (c-1)*(d-1)` (Pugh's dark shadow); otherwise one
    bound is rounded to an integer, one case for each residue.
    """

    def is_open(low: tuple[int, Linear], high: tuple[int, Linear]) -> bool:
        (c, f), (d, g) = low, high
        gap = g.scale(c).minus(f.scale(d))
        return c > 1 and d > 1 and not (gap.is_const and gap.const >= (c - 1) * (d - 1))

    lows = [low for low in line.lows if any(is_open(low, high) for high in line.highs)]
    highs = [high for high in line.highs if any(is_open(low, high) for low in line.lows)]
    sides = [(1, lows), (-1, highs)]
    side, split = min(sides, key=lambda s: _number(s[1]))
    _check(_number(split))
    cases: list[tuple[dict[int, int], list[tuple[int, Linear]]]] = [({}, [])]
    for end in split:
        c, f = end
        cases = [({**moved, id(end): j}, [*steps, (c, f.shift(side * j))]) for moved, steps in cases for j in range(c)]
    for moved, steps in cases:
        gaps = []
        for low in line.lows:
            for high in line.highs:
                f = low[1].shift(moved.get(id(low), 0))
                g = high[1].shift(-moved.get(id(high), 0))
                gaps.append(g.scale(low[0]).minus(f.scale(high[0])))
        case = tidy([*line.rest.least, *gaps], [*line.rest.steps, *steps])
        if case is not None:
            yield case


def _number(ends: Iterable[tuple[int, Linear]]) -> int:
    return prod(c for c, _ in ends)


def _check(cases: int) -> None:
    if cases > ELIMINATION_CASES:
        raise BudgetError(f"elimination gave up: {cases} cases of residues", "ELIMINATION_CASES")


def is_feasible(system: System) -> bool:
    """Whether a system has an integer solution within the declared bounds of its variables."""
    start = also(system, *declared(system))
    waiting = [] if start is None else [start]
    while waiting:
        current = waiting.pop()
        variables = current.variables()
        if not variables:
            return True
        waiting += without(current, min(variables, key=lambda v: cost(current, v)))
    return False


def cost(system: System, v: Expr) -> tuple[int, int]:
    if _equation(system, v) is not None:
        return (0, 0)
    line = _line(system, v, ZERO, 1)
    modulus = lcm(1, *(m // gcd(m, f.terms[v]) for m, f in system.steps if v in f.terms))
    return min(_number(line.lows), _number(line.highs)) * modulus, len(line.lows) * len(line.highs)


def declared(system: System) -> tuple[list[Linear], list[tuple[int, Linear]]]:
    """Declared bounds of the variables of a system, and the definitions of its quotients."""
    least, steps, seen, waiting = [], [], set(), list(system.variables())
    while waiting:
        v = waiting.pop()
        if v in seen:
            continue
        seen.add(v)
        if not isinstance(v, Var):
            forms = definition(v, v)
            waiting += [t for form in forms for t in form.terms]
            least += forms
            continue
        low, high, step = v.declared()
        least += [Linear(-low, {v: 1})] if low is not None else []
        least += [Linear(high, {v: -1})] if high is not None else []
        steps.append((step, Linear(0, {v: 1})))
    return least, steps


def opened(system: System, out: Collection[Expr]) -> tuple[System, list[Var]]:
    """The system with fresh variables for the quotients over `out`, and these variables."""
    new: list[Var] = []
    while mentioning := [t for t in system.variables() if t.args and any(v in out for v in t.free_vars())]:
        new.append(Var("q"))
        system = renamed(system, {mentioning[0]: new[-1]})
        system = System((*system.least, *definition(mentioning[0], new[-1])), system.steps)
    return system, new


def holds(system: System, form: Linear) -> bool:
    """Whether a system implies that a form is nonnegative."""
    if any(f.terms == form.terms and f.const <= form.const for f in system.least):
        return True
    other = also(system, [form.scale(-1).shift(-1)])
    return other is None or not is_feasible(other)


def minus(a: System, b: System) -> list[System]:
    """The difference `a - b` as disjoint systems."""
    parts, kept = [], a
    for form in b.least:
        parts.append(also(kept, [form.scale(-1).shift(-1)]))
        kept = System((*kept.least, form), kept.steps)
    for m, form in b.steps:
        _check(m)
        parts += [also(kept, (), [(m, form.shift(-j))]) for j in range(1, m)]
        kept = System(kept.least, (*kept.steps, (m, form)))
    return [s for s in parts if s is not None and is_feasible(s)]

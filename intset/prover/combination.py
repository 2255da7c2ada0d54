"""The search for Farkas combinations. Untrusted: `intset.check` verifies every result.

Premises and products of up to three premises are the columns of a rational linear program. A solution is a vector of
nonnegative multipliers under which all monomials cancel and a negative constant remains (Farkas' lemma: Schrijver,
*Theory of Linear and Integer Programming*, section 7.3).

Infeasible systems are split into cases: by the condition of a `select`, by a common factor of the goal's terms (`m*t +
c` with `t >= 1` or not), by a fractional coordinate of the relaxation's solution (branch and bound: Land and Doig,
*Econometrica*, 1960).

The linear programs are solved by the simplex method in exact integers: phase one of the two-phase method (Dantzig 1951;
Schrijver, *Theory of Linear and Integer Programming*, chapter 11) over a sparse tableau. Every row is an equation; an
artificial variable starts as basic in each, and pivots drive their sum to 0. Rows are scaled to coprime integers, so
nothing is rounded. Entering and leaving variables follow Bland's rule (*New finite pivoting rules for the simplex
method*, 1977), so the method terminates; a `SearchBudget` in steps stops long runs.

Systems of Farkas combinations have about a dozen sparse columns: this answers them faster than a z3 context starts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import ceil, gcd, lcm
from operator import add as add_terms
from operator import mul
from typing import Any, Final, NamedTuple

from intset.check import evidence
from intset.check import evidence as names
from intset.check.certificate import Certificate
from intset.check.evidence import Premise
from intset.errors import BudgetError
from intset.expr import Cond, Expr, const, constant_value, dag, ops
from intset.expr.definedness import definedness
from intset.expr.range import declared_conditions, range_conditions
from intset.frame import Frame
from intset.linear.form import factors, order_key, take_out

Row = dict[int, int]  # what is multiplied with each weight; under RIGHT what it adds up to
RIGHT: Final = -1


def weights(
    rows: Iterable[Mapping[int, int]], free: Collection[int], effort: SearchBudget
) -> dict[int, Fraction] | None:
    """Solve the rows for weights that are nonnegative except for the `free` ones; None if the system is infeasible.

    rows: sparse equations {column: coefficient}, with the right-hand side under `RIGHT`. Absent weights are 0.
    effort: charged one step per tableau entry written; raises SearchSpentError.
    """
    return _Tableau(rows, effort).solved(free)


class _Tableau:
    """Tableau rows, one per basic variable.

    For the rows `{0: 1, 1: 2, RIGHT: 5}` and `{0: 1, 1: -1, RIGHT: 1}`, pivoting on column 0 in the second row gives

                 w0   w1 | RIGHT
        None      0    3 |   4       the artificial variable of row 0 is still basic
        w0        1   -1 |   1       w0 is basic: it occurs in this row only

    Invariant: a basic variable occurs in its own row only, with a positive coefficient, and right-hand sides stay
    nonnegative. `lacking`, the sum of the artificial rows, is the objective of phase one.
    """

    def __init__(self, rows: Iterable[Mapping[int, int]], effort: SearchBudget) -> None:
        self.rows: list[Row] = [dict(row) for row in rows]
        self.basic: list[int | None] = [None] * len(self.rows)  # None: the row's artificial variable
        self._effort = effort

    def solved(self, free: Collection[int]) -> dict[int, Fraction] | None:
        solved_for = self._eliminated(free)
        for number, row in enumerate(self.rows):
            if row.get(RIGHT, 0) < 0:
                self.rows[number] = {key: -k for key, k in row.items()}
        lacking: Row = {}
        for row in self.rows:
            for key, k in row.items():
                lacking[key] = lacking.get(key, 0) + k
        while lacking.get(RIGHT, 0) > 0:
            entering = min((key for key, k in lacking.items() if k > 0 and key != RIGHT), default=None)
            if entering is None:
                return None
            leaving = self._leaving(entering)
            self._pivot(leaving, entering)
            lacking = self._without(lacking, self.rows[leaving], entering)
            self.basic[leaving] = entering
        return self._values(solved_for)

    def _eliminated(self, free: Collection[int]) -> list[tuple[int, Row]]:
        """Eliminate free variables; returns (variable, defining row) pairs for back-substitution."""
        eliminated = []
        for column in free:
            having = (n for n, row in enumerate(self.rows) if column in row)
            number = min(having, key=lambda n: len(self.rows[n]), default=None)
            if number is not None:
                self._pivot(number, column)
                eliminated.append((column, self.rows.pop(number)))
                self.basic.pop()
        return eliminated

    def _leaving(self, entering: int) -> int:
        """The leaving row by the minimum ratio test; ties prefer artificial variables, then the smallest index
        (Bland's rule).
        """
        best, top, bottom, rank = -1, 0, 0, -2
        for number, row in enumerate(self.rows):
            k = row.get(entering, 0)
            if k > 0:
                right, owner = row.get(RIGHT, 0), self.basic[number]
                order = -1 if owner is None else owner
                side = right * bottom - top * k
                if best < 0 or side < 0 or side == 0 and order < rank:
                    best, top, bottom, rank = number, right, k, order
        return best

    def _pivot(self, number: int, column: int) -> None:
        """Eliminate a column from all rows except row `number`."""
        pivot = self.rows[number]
        if pivot[column] < 0:
            self.rows[number] = pivot = {key: -k for key, k in pivot.items()}
        for other, row in enumerate(self.rows):
            if other != number and column in row:
                self.rows[other] = self._without(row, pivot, column)

    def _without(self, row: Row, pivot: Row, column: int) -> Row:
        """The row minus a multiple of the pivot row that cancels `column`, scaled to coprime integers."""
        self._effort.charge(len(row) + len(pivot))
        common = gcd(row[column], pivot[column])
        times, factor = pivot[column] // common, row[column] // common
        new = dict(row) if times == 1 else {key: k * times for key, k in row.items()}
        for key, k in pivot.items():
            value = new.get(key, 0) - factor * k
            if value:
                new[key] = value
            else:
                new.pop(key, None)
        scale = gcd(*new.values())
        return new if scale <= 1 else {key: k // scale for key, k in new.items()}

    def _values(self, solved_for: list[tuple[int, Row]]) -> dict[int, Fraction]:
        values = {
            owner: Fraction(row.get(RIGHT, 0), row[owner])
            for owner, row in zip(self.basic, self.rows, strict=True)
            if owner is not None
        }
        for column, row in reversed(solved_for):
            rest = sum(
                (k * values.get(key, Fraction(0)) for key, k in row.items() if key not in (column, RIGHT)), Fraction(0)
            )
            values[column] = (row.get(RIGHT, 0) - rest) / row[column]
        return values


# -- budget ------------------------------------------------------------------------------------------------------------


class SearchSpentError(BudgetError):
    """A search ran out of steps."""


class SearchBudget:
    """The step budget of one certificate search; deterministic, about a microsecond per step.

    Example
    -------
    >>> effort = SearchBudget(10)
    >>> effort.charge(8)
    >>> effort.charge(8)
    Traceback (most recent call last):
    ...
    intset.prover.combination.SearchSpentError: the search was given up after 10 steps
    """

    __slots__ = ("left", "steps")

    def __init__(self, steps: int) -> None:
        self.steps = self.left = steps

    def charge(self, steps: int) -> None:
        """Charge steps before the work; raises SearchSpentError if fewer remain."""
        self.left -= steps
        if self.left < 0:
            raise SearchSpentError(f"the search was given up after {self.steps} steps")


PIVOT_STEPS: Final = 400_000  # steps of the pivots of one system
COMBINED_MONOMIALS: Final = 2_000  # monomials of all premises of one system
SYSTEM_BITS: Final = 1 << 13  # total length of all coefficients of a system
SMALL_SYSTEM_BITS: Final = 1 << 18  # the same for systems of few columns
COMBINED_NODES: Final = 400  # nodes of a goal for which premises are combined
ENTRY_STEPS: Final = 2  # steps charged per entry of a system
PRODUCT_STEPS: Final = 10  # steps charged per product of two premises, beside its entries
NODE_STEPS: Final = 100  # steps charged per node of the premises of one case
COMBINED_CASES: Final = 24  # cases of one goal
COMBINED_SPLITS: Final = 8  # nested splits of one goal

MAX_PREMISES = (48, 30, 16)  # premises used singly, in pairs, in triples
FEW = 8


_SIMPLIFIED = (ops.FLOORDIV, ops.TRUNCDIV, ops.MIN, ops.MAX, ops.ABS, ops.SELECT)


class Column(NamedTuple):
    premises: tuple[Premise, ...]
    poly: evidence.Poly
    is_zero: bool


def combinations(cert: Certificate, effort: SearchBudget) -> tuple[evidence.Combination, ...] | None:
    """One combination per failing case of the goal; None if the search fails for a case.

    Raises
    ------
    BudgetError: a product is too long; its subclass SearchSpentError: out of steps.
    """
    proved: list[evidence.Combination] = []
    for case, roots in evidence.ways_to_fail(cert):
        if case is None:
            return None
        if any(one.case == case for one in proved):
            continue
        one = refute(cert, case, roots, effort)
        if one is None:
            return None
        proved.append(one)
    return tuple(proved)


def refute(
    cert: Certificate, case: evidence.Literals, roots: Sequence[Cond], effort: SearchBudget
) -> evidence.Combination | None:
    """A combination that contradicts the conjunction of the comparisons in `case`; None if none is found."""
    plain = _premises(cert, case, roots)
    nodes = sum(1 for _ in dag.postorder([premise.cond for premise in plain]))
    if nodes > COMBINED_NODES:
        return None
    effort.charge(NODE_STEPS * nodes)
    divisors = []
    not_zero = evidence.nonzero(definedness(roots))
    for divisor in _divisors(plain, definedness(roots)):
        below = (divisor <= -1,)
        others = [p for p in plain if p.why != names.GOAL]
        terms = _terms(_with_meaning([*others, Premise(names.GOAL, below[0])], (), not_zero), effort)
        if terms is not None:
            divisors.append((divisor, evidence.Combination(below, terms)))
    positive = [divisor for divisor, _ in divisors]
    premises = [*plain, *(Premise(names.DIVISOR, divisor >= 1) for divisor in positive)]
    combination = CombinationSearch(cert, premises, positive, definedness(roots), effort).refute(case)
    return None if combination is None else combination._replace(divisors=_used(tuple(divisors), combination))


class CombinationSearch:
    """The search for a combination of one case, with splits; tries at most `COMBINED_CASES` cases."""

    def __init__(
        self,
        cert: Certificate,
        premises: list[Premise],
        positive: Sequence[Expr],
        needs: Sequence[Cond],
        effort: SearchBudget,
    ) -> None:
        self.premises, self.positive, self.needs, self.effort = premises, positive, needs, effort
        self.nonzero = evidence.nonzero(needs)
        self.known = Frame.of(dict(cert.ranges), cert.facts)
        self.left = COMBINED_CASES

    def refute(self, case: evidence.Literals, depth: int = 0) -> evidence.Combination | None:
        self.left -= 1
        if self.left < 0:
            return None
        more = [Premise(names.GOAL, cond) for cond in case]
        self.effort.charge(NODE_STEPS * len(self.premises))
        columns = _with_meaning(list(dict.fromkeys((*self.premises, *more))), self.positive, self.nonzero, case)
        terms = _terms(columns, self.effort, (1, 2, 3) if depth == 0 else (1, 2))
        if terms is not None:
            return evidence.Combination(case, terms)
        if depth >= COMBINED_SPLITS:
            return None
        for on in splits(columns, case, self.positive, self.nonzero, self.known, self.effort):
            ways = evidence.both_ways(on, self.needs)
            if ways is None or any(set(way) <= set(case) for way in ways):
                continue
            branches: list[evidence.Combination] = []
            for way in ways:
                branch = self.refute((*case, *way), depth + 1)
                if branch is None:
                    break
                branches.append(branch)
            else:
                return evidence.Combination(case, (), (), on, tuple(branches))
        return None


def splits(
    columns: list[Column],
    case: evidence.Literals,
    positive: Sequence[Expr],
    not_zero: Collection[Expr],
    known: Frame,
    effort: SearchBudget,
) -> Iterator[Cond]:
    """Candidate split conditions, most promising first."""
    below = dag.postorder([premise.cond for column in columns for premise in column.premises])
    equal: list[Expr] = []  # differences that the linear form finds to be 0
    for node in below:
        if isinstance(node, Expr) and node.op in _SIMPLIFIED:
            simple = known.canonical(node)
            if simple is node and known.solved is not None:
                solved, values = known.solved
                simple = solved.canonical(node.substitute(values))
            if simple is not node:
                yield from (product >= 0 for product in _chained_quotients(simple))
                equal.append(node - simple)
    for difference in equal:
        yield difference >= 1
        yield difference <= -1
    yield from dict.fromkeys(node.args[0] for node in below if node.op is ops.SELECT)
    yield from dict.fromkeys(node.args[0] >= 0 for node in below if node.op in (ops.TRUNCDIV, ops.TRUNCMOD))
    yield from dict.fromkeys(node.args[0] <= node.args[1] for node in below if node.op in (ops.MIN, ops.MAX))
    expander = evidence.Expander(not_zero)
    goals = [expander.sides(cond)[0] for cond in case]
    equations = [column.poly for column in columns if column.is_zero]
    for column in columns:
        for premise in column.premises:
            expander.sides(premise.cond)
    for goal in goals:
        factors = [atom for atom, node in expander.nodes.items() if any(node is d for d in positive)]
        common = _common_factor(_eliminated(goal, equations), factors)
        if common is not None:
            yield _expression(common[0], expander) >= common[1]
    fractional = _fractional(columns, effort)
    if fractional is not None:
        yield _expression({fractional[0]: 1}, expander) >= fractional[1]


def _chained_quotients(simple: Expr) -> Iterator[Expr]:
    """The quotients that are factors of one product, as in `t // k = m//k * (s//m) * (t//s)`, and products of
    quotients.

    It follows from `s = m*(s//m)` times `t//s`, and `m = k*(m//k)` times `s//m * (t//s)`.
    """
    products = [node for node in dag.postorder((simple,)) if isinstance(node, Expr) and node.op is ops.MUL]
    inner = {product.args[0] for product in products}
    for product in products:
        parts = factors(product)
        if product in inner or any(part.op is not ops.FLOORDIV for part in parts):
            continue
        yield from parts
        divisors = [part.args[1] for part in parts]
        last = next((part for part in parts if all(part.args[0] is not d for d in divisors)), None)
        whole: Expr | None = None
        while last is not None and len(parts) > 1:
            take_out(parts, last)
            whole = last if whole is None else whole * last
            if whole is not last:
                yield whole
            last = next((part for part in parts if part.args[0] is last.args[1]), None)


def _eliminated(goal: evidence.Poly, equations: Sequence[evidence.Poly]) -> evidence.Poly:
    """The goal with atoms substituted by equations that have a unit coefficient for them."""
    for poly in equations:
        unit = next((m for m, k in poly.items() if abs(k) == 1 and m in goal and len(m) == 1), None)
        if unit is not None:
            goal = evidence.add(goal, poly, -goal[unit] * poly[unit])
    return goal


def _common_factor(goal: evidence.Poly, positive: Collection[Any]) -> tuple[evidence.Poly, int] | None:
    """(t, least value of t) for a goal `factor * t + constant >= 0`, factor a constant and `positive` atoms, not 1."""
    terms = {monomial: k for monomial, k in goal.items() if monomial}
    if not terms:
        return None
    factor = gcd(*terms.values())
    powers = [dict(monomial) for monomial in terms]
    shared = {atom: min(p.get(atom, 0) for p in powers) for atom in powers[0] if atom in positive}
    shared = {atom: power for atom, power in shared.items() if power}
    if factor == 1 and not shared:
        return None
    quotient = evidence.divided(terms, factor, shared)
    least = 1 if shared else -(goal.get(evidence.UNIT, 0) // factor)
    return (quotient, least) if set(quotient) != {evidence.UNIT} else None


def _expression(poly: evidence.Poly, expander: evidence.Expander) -> Expr:
    """A polynomial over atoms as an expression."""
    parts: list[Expr] = []
    for monomial, k in poly.items():
        factors = _factors(monomial, expander.nodes)
        parts.append(reduce(mul, factors if k == 1 and factors else [const(k), *factors]))
    return reduce(add_terms, parts)


def _factors(monomial: Iterable[tuple[Any, int]], atoms: Mapping[Any, Expr]) -> list[Expr]:
    """Factors of a monomial, with powers built by repeated squaring."""
    factors: list[Expr] = []
    for atom, power in sorted(monomial, key=lambda one: order_key(atoms[one[0]])):
        whole, left = atoms[atom], power
        while left:
            if left % 2:
                factors.append(whole)
            left //= 2
            whole = whole * whole if left else whole
    return factors


def _fractional(columns: list[Column], effort: SearchBudget) -> tuple[Any, int] | None:
    """(atom, ceiling of its value) for a fractional atom in a solution of the relaxation; None if all are integral."""
    places = {m: number for number, m in enumerate(dict.fromkeys(m for column in columns for m in column.poly if m))}
    if len(places) > COMBINED_MONOMIALS or len(columns) > MAX_PREMISES[0] or _is_long(columns):
        return None
    rows: list[Row] = []
    for number, column in enumerate(columns, len(places)):
        above = {} if column.is_zero else {number: -1}  # slack variable
        rows.append(
            {**{places[m]: k for m, k in column.poly.items() if m}, **above, RIGHT: -column.poly.get(evidence.UNIT, 0)}
        )
    point = _weights(rows, range(len(places)), effort)
    if point is None:
        return None
    for monomial, number in places.items():
        value = point.get(number, Fraction(0))
        if value.denominator != 1 and sum(power for _, power in monomial) == 1:
            return monomial, ceil(value)
    return None


def _is_long(columns: Sequence[Column]) -> bool:
    """Whether the coefficients together have too many bits."""
    bits = sum(k.bit_length() for column in columns for k in column.poly.values())
    return bits > (SMALL_SYSTEM_BITS if len(columns) <= FEW else SYSTEM_BITS)


def _used(divisors: tuple[Any, ...], found: evidence.Combination) -> tuple[Any, ...]:
    """Divisors whose sign the terms use."""
    premises = [p for leaf in found.leaves() for term in leaf.terms for p in term.premises]
    below = set(dag.postorder([p.cond for p in premises if p.why in (names.MEANING, names.DIVISOR)]))
    return tuple(entry for entry in divisors if entry[0] in below)


def _premises(cert: Certificate, case: evidence.Literals, roots: Sequence[Cond]) -> list[Premise]:
    """All available comparisons over the relevant variables, with reasons."""
    premises = [Premise(names.GOAL, cond) for cond in case]
    premises += [Premise(names.FACT, part) for fact in cert.facts for part in evidence.literals(fact.condition)]
    premises += [Premise(names.DEFINED, part) for need in definedness(roots) for part in evidence.literals(need)]
    spoken, limits_of = dag.free_vars(*(p.cond for p in premises), *(roots if cert.vacuous else ())), dict(cert.ranges)
    touched = dag.reachable(spoken, lambda v: limits_of[v].free_vars() if v in limits_of else ())
    premises += [
        Premise(names.RANGE, cond)
        for var, limits in cert.ranges
        if var in touched or not case
        for cond in range_conditions(var, limits)
    ]
    conds = [premise.cond for premise in premises]
    for leaf in (*dag.free_vars(*conds), *dag.opaque_terms(*conds)):
        premises += [Premise(names.DECLARED, cond) for cond in declared_conditions(leaf)]
    return list(dict.fromkeys(premise for premise in premises if premise.cond.op is not ops.NE))


def _divisors(premises: Iterable[Premise], needs: Sequence[Cond]) -> list[Expr]:
    """Variable divisors."""
    below = dag.postorder([premise.cond for premise in premises])
    divisors = dict.fromkeys(e.args[1] for e in below if e.op in (ops.FLOORDIV, ops.FLOORMOD, ops.CEILDIV))
    return [d for d in divisors if constant_value(d) is None and d.ne(0) in needs]


def _with_meaning(
    premises: list[Premise], positive: Sequence[Expr], not_zero: Collection[Expr], case: evidence.Literals = ()
) -> list[Column]:
    """Columns of the premises, of the meanings of their operations, and of squares."""
    expander = evidence.Expander(not_zero)
    columns = [_column(expander, premise) for premise in premises]
    told: set[Any] = set()
    while True:
        new = [(key, e) for key, e in expander.nodes.items() if key not in told]
        if not new:
            break
        for key, e in new:
            told.add(key)
            columns += [_column(expander, Premise(names.MEANING, cond)) for cond in evidence.meaning(e, positive, case)]
    powers = {atom for column in columns for m in column.poly for atom, power in m if power > 1}
    pairs = {frozenset(a for a, _ in m) for column in columns for m in column.poly if len(m) == 2}
    atoms = expander.nodes
    even = dict.fromkeys(m for column in columns for m in column.poly if _is_square(m))
    squares = [reduce(mul, _factors([(atom, power // 2) for atom, power in m], atoms)) for m in even]
    squares += [atoms[key] for key in atoms if key in powers]
    for first, second in ((a, b) for a, b in itertools.combinations(atoms, 2) if frozenset((a, b)) in pairs):
        squares += [atoms[first] - atoms[second], atoms[first] + atoms[second]]
    columns += [_column(expander, Premise(names.SQUARE, e * e >= 0)) for e in squares[: 2 * MAX_PREMISES[2]]]
    return columns


def _is_square(monomial: evidence.Monomial) -> bool:
    """Whether the monomial is a square of degree 4 or higher."""
    return sum(power for _, power in monomial) > 2 and not any(power % 2 for _, power in monomial)


def _column(expander: evidence.Expander, premise: Premise) -> Column:
    return Column((premise,), *expander.sides(premise.cond))


def _terms(
    columns: list[Column], effort: SearchBudget, degrees: Sequence[int] = (1, 2, 3)
) -> tuple[evidence.WeightedProduct, ...] | None:
    """The terms of a combination, from products of the lowest sufficient degree."""
    columns = list({(frozenset(column.poly.items()), column.is_zero): column for column in reversed(columns)}.values())
    columns.reverse()  # of premises that say the same, the first
    multiplied = sum(column.premises[0].why != names.SQUARE for column in columns)
    for degree in degrees:
        if degree > 1 and multiplied > MAX_PREMISES[degree - 1]:
            return None
        if len(columns) <= MAX_PREMISES[0]:
            terms = _solve(_cancelling(list(_products(columns, degree, effort))), effort)
            if terms is not None:
                return terms
    return None


def _products(columns: Sequence[Column], degree: int, effort: SearchBudget) -> Iterator[Column]:
    effort.charge(ENTRY_STEPS * sum(len(column.poly) for column in columns))
    usable = [column for column in columns if column.premises[0].why != names.SQUARE]
    yield from columns
    for size in range(2, degree + 1):
        for chosen in itertools.combinations_with_replacement(usable, size):
            poly = chosen[0].poly
            for column in chosen[1:]:
                effort.charge(PRODUCT_STEPS + ENTRY_STEPS * len(poly) * len(column.poly))
                poly = evidence.multiply(poly, column.poly)
            premises = tuple(premise for column in chosen for premise in column.premises)
            yield Column(premises, poly, any(column.is_zero for column in chosen))


def _cancelling(columns: list[Column]) -> list[Column]:
    """Drop columns with uncancellable monomials, to a fixed point."""
    while True:
        signs: dict[Any, int] = {}
        for _, poly, is_zero in columns:
            for monomial, k in poly.items():
                signs[monomial] = signs.get(monomial, 0) | (3 if is_zero else 1 if k > 0 else 2)
        blocked = {
            monomial for monomial, sign in signs.items() if sign != 3 and monomial is not evidence.UNIT and monomial
        }
        kept = [column for column in columns if not any(monomial in blocked for monomial in column.poly)]
        if len(kept) == len(columns):
            return columns
        columns = kept


def _solve(columns: list[Column], effort: SearchBudget) -> tuple[evidence.WeightedProduct, ...] | None:
    rows: dict[Any, list[tuple[int, int]]] = {evidence.UNIT: []}
    for number, column in enumerate(columns):
        for monomial, k in column.poly.items():
            rows.setdefault(monomial, []).append((number, k))
    if not rows[evidence.UNIT] or len(rows) > COMBINED_MONOMIALS or _is_long(columns):
        return None
    free = [number for number, column in enumerate(columns) if column.is_zero]
    solution = _weights(
        [{**dict(row), **({} if monomial else {RIGHT: -1})} for monomial, row in rows.items()], free, effort
    )
    if solution is None:
        return None
    scale = lcm(*(weight.denominator for weight in solution.values()))
    return tuple(
        evidence.WeightedProduct(int(k * scale), columns[number].premises)
        for number, k in sorted(solution.items())
        if k
    )


def _weights(rows: list[Row], free: Collection[int], effort: SearchBudget) -> dict[int, Fraction] | None:
    """Solve one system by the simplex method, within `PIVOT_STEPS`; None if infeasible or out of steps."""
    part = SearchBudget(min(PIVOT_STEPS, effort.left))
    try:
        return weights(rows, free, part)
    except SearchSpentError:
        if part.steps < PIVOT_STEPS:
            raise
        return None
    finally:
        effort.left -= part.steps - part.left

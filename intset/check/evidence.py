"""Premises of certificates; the evidence of "linear" ones: products, Farkas combinations; the step limit of a check.

Premises are comparisons true by definition of ranges, declarations, operations and definedness. The kinds "points"
(exhaustive evaluation of a box) and "point" (evaluation of a counterexample) need nothing else.

Each premise of a combination is re-derived from facts, ranges, declarations or the meaning of an operation. The sum is
recomputed with integer polynomials over the expressions as written, and must be a negative constant.

The polynomials are the checker's own arithmetic, independent of the canonical form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from math import prod
from operator import and_
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import Cond, Expr, Node, Range, Var, constant_value, dag, ops
from intset.expr.definedness import definedness
from intset.expr.evaluate import LONGEST_VALUE, evaluate, most_bits
from intset.expr.node import make
from intset.expr.printer import number_text, to_text
from intset.expr.range import declared_conditions, range_conditions
from intset.facts import PROVENANCES, Fact

if TYPE_CHECKING:
    from intset.check.certificate import Certificate

CHECK_STEPS: Final = 1_500_000  # operations on short integers, each about half a microsecond, for one certificate
CHECK_BRANCH_NESTING: Final = 40  # branches within branches

CHECK_CASES: Final = 64  # cases of one premise
CHECK_POINTS: Final = 1_000_000  # points of a box

_WORD: Final = 64
_WORDS_A_STEP: Final = 64  # word products per interpreter step


class CheckBudget:
    """Remaining steps for one certificate with all its parts.

    Guarantee: the count is a function of the certificate, and work is charged in advance.

    Attributes
    ----------
    left: remaining steps.
    is_spent: whether the check ran out of steps; then a rejection is inconclusive.
    """

    def __init__(self, steps: int = CHECK_STEPS) -> None:
        self.left = steps
        self.is_spent = False

    def spend(self, steps: int) -> None:
        """Charge steps in advance; BudgetError if too few remain."""
        self.left -= steps
        if self.left < 0:
            self.is_spent = True
            raise BudgetError(f"the certificate takes more than {CHECK_STEPS} steps to check", "CHECK_STEPS")

    def spend_nodes(self, *roots: Node) -> None:
        """Charge a walk over all nodes below the roots."""
        for _ in dag.postorder(roots):
            self.spend(1)

    def evaluation(self, root: Node, bits: Mapping[Any, int]) -> int:
        """Steps of one evaluation of `root`, given bit lengths of the leaves.

        Products and quotients cost the product of their operands' lengths. Both branches of a choice count.

        Raises
        ------
        BudgetError: an intermediate value may exceed `LONGEST_VALUE` bits, or the walk is too long.
        """
        lengths: dict[Node, int] = {}
        total = 0
        for node in dag.postorder((root,)):
            self.spend(1)
            below = [lengths[arg] for arg in node.args]
            found = most_bits(node, below, bits)
            if found > LONGEST_VALUE:
                self.spend(self.left + 1)
            words = [1 + length // _WORD for length in (*below, found)]
            is_product = len(below) == 2 and (node.op is ops.MUL or node.op in ops.DIVISIONS)
            total += 1 + (words[0] * words[1] if is_product else max(words)) // _WORDS_A_STEP
            lengths[node] = found
        return total


Literals = tuple[Cond, ...]


def cases(cond: Cond, holds: bool) -> list[Literals] | None:
    """Disjunctive normal form of `cond` (or its negation) without `!=`; None beyond `CHECK_CASES` cases."""
    ways: dict[tuple[Cond, bool], list[Literals] | None] = {}
    for node in dag.postorder_by((cond,), lambda node: node.args if node.op in _CONNECTIVES else ()):
        for side in (True, False):
            ways[node, side] = _ways(node, side, ways)
    return ways[cond, holds]


_CONNECTIVES = (ops.NOT, ops.AND, ops.OR)


def _ways(cond: Cond, holds: bool, known: Mapping[tuple[Cond, bool], list[Literals] | None]) -> list[Literals] | None:
    if cond.op is ops.BOOL:
        return [()] if cond.data is holds else []
    if cond.op is ops.NOT:
        return known[cond.args[0], not holds]
    if cond.op in (ops.AND, ops.OR):
        first, second = (known[arg, holds] for arg in cond.args)
        if first is None or second is None:
            return None
        if (cond.op is ops.AND) is not holds:
            return first + second if len(first) + len(second) <= CHECK_CASES else None
        return [a + b for a in first for b in second] if len(first) * len(second) <= CHECK_CASES else None
    op = cond.op if holds else ops.NEGATED[cond.op]
    if op is ops.NE:
        return [(make(ops.LT, cond.args),), (make(ops.GT, cond.args),)]
    return [(make(op, cond.args),)]


def literals(cond: Cond) -> Literals:
    """The comparisons of a conjunction; empty for disjunctions."""
    ways = cases(cond, True)
    return ways[0] if ways is not None and len(ways) == 1 else ()


def meaning(node: Expr, positive: Iterable[Expr] = (), case: Literals = ()) -> Iterator[Cond]:
    """Comparisons implied by the meaning of an operation, wherever it is defined and `case` holds.

    positive: divisors proved positive.
    """
    if node.op is ops.FLOORDIV or node.op is ops.TRUNCDIV:
        a, b = node.args
        c = constant_value(b)
        is_floor = node.op is ops.FLOORDIV
        if (c is not None and c > 0) or any(b is d for d in positive):
            yield node * b <= (a if is_floor else a + b - 1)
            yield a <= node * b + b - 1
        elif c is not None and c < 0:
            yield node * b >= (a if is_floor else a + b + 1)
            yield a >= node * b + b + 1
        if not is_floor:  # the remainder has the sign of the dividend
            yield (a - node * b) * a >= 0
    elif node.op is ops.SELECT:
        for holds, arm in ((True, node.args[1]), (False, node.args[2])):
            if any(set(way) <= set(case) for way in cases(node.args[0], holds) or ()):
                yield node.eq(arm)
    elif node.op in (ops.MIN, ops.MAX):
        for arg in node.args:
            yield node <= arg if node.op is ops.MIN else node >= arg
        first, second = node.args if node.op is ops.MIN else reversed(node.args)
        for holds, arg in ((True, first), (False, second)):
            if any(set(way) <= set(case) for way in cases(node.args[0] <= node.args[1], holds) or ()):
                yield node.eq(arg)
    elif node.op is ops.ABS:
        yield node >= node.args[0]
        yield node >= -node.args[0]
    choices = _choices(node)
    if choices:
        yield ((node - choices[0]) * (node - choices[1])).eq(0)


def _choices(node: Expr) -> tuple[Expr, ...]:
    """The two possible values of a choice operation; empty for other operations."""
    if node.op in (ops.MIN, ops.MAX):
        return node.args
    if node.op is ops.SELECT:
        return node.args[1:]
    return (node.args[0], -node.args[0]) if node.op is ops.ABS else ()


def stated(cert: Certificate) -> tuple[Cond, ...]:
    """Goal (unless vacuous), facts and ranges of a certificate, as conditions."""
    facts = [fact.condition for fact in cert.facts]
    return (*([] if cert.vacuous else [cert.goal]), *facts, *_range_conditions(cert))


def premises_of(cert: Certificate) -> list[Cond]:
    """All premises at the certificate's points: declarations, ranges, definedness, facts."""
    roots = stated(cert)
    declared = [cond for e in (*dag.free_vars(*roots), *dag.opaque_terms(*roots)) for cond in declared_conditions(e)]
    return [*declared, *_range_conditions(cert), *definedness(roots), *(fact.condition for fact in cert.facts)]


def check_points(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the box of ranges and declarations has `count` points and none violates the claim.

    Very long intermediate values lead to rejection.
    """
    box = box_of(cert)
    if box is None or cert.count != prod(map(len, box.values())):
        return False
    conditions = [*premises_of(cert), *([] if cert.vacuous else [cert.goal])]
    bits = {var: max(abs(span.start), abs(span.stop)).bit_length() for var, span in box.items()}
    steps = sum(budget.evaluation(cond, bits) for cond in conditions)
    budget.spend(max(cert.count, 0) * (len(box) + steps))
    return not any(
        _violates(conditions, dict(zip(box, values, strict=True)), cert.vacuous)
        for values in itertools.product(*box.values())
    )


def box_of(cert: Certificate) -> dict[Expr, range] | None:
    """The box spanned by ranges and declarations; None for infinite boxes and beyond `CHECK_POINTS` points."""
    roots = stated(cert)
    if dag.opaque_terms(*roots):
        return None
    limits_of = dict(cert.ranges)
    box: dict[Expr, range] = {}
    for var in dag.free_vars(*roots):
        limits, (low, high, _) = limits_of.get(var), var.declared()
        if limits is not None and limits.ends is not None:
            low = limits.ends[0] if low is None else max(low, limits.ends[0])
            high = limits.ends[1] if high is None else min(high, limits.ends[1])
        if low is None or high is None:
            return None
        box[var] = range(low, max(low, high + 1))
    is_small = all(span.stop - span.start <= CHECK_POINTS for span in box.values())
    return box if is_small and prod(map(len, box.values())) <= CHECK_POINTS else None


def _range_conditions(cert: Certificate) -> Iterator[Cond]:
    for var, limits in cert.ranges:
        yield from range_conditions(var, limits)


def _violates(conditions: Sequence[Cond], point: Mapping[Expr, int], vacuous: bool) -> bool:
    """Whether the point satisfies all premises and violates the goal (the last condition unless vacuous)."""
    *premises, goal = [*conditions, make(ops.BOOL, (), False)] if vacuous else conditions
    try:
        return not evaluate(goal, point) and all(evaluate(cond, point) for cond in premises)
    except EvaluationError:
        return False


def check_point(cert: Certificate, budget: CheckBudget) -> bool:
    """Whether the point violates the goal and satisfies ranges, facts and declarations.

    Loads have independent values. Evaluated loads with equal indices must agree; loads skipped by lazy evaluation need
    no value.
    """
    bits = {e: value.bit_length() for e, value in cert.point.items()}
    loads = [e for e in cert.point if e.op is ops.LOAD]
    for cond in (cert.goal, *_range_conditions(cert), *(fact.condition for fact in cert.facts)):
        budget.spend(budget.evaluation(cond, bits))
    for index in (index for load in loads for index in load.args):
        budget.spend(budget.evaluation(index, bits))
    point = _PointWithReads(cert.point)
    try:
        if evaluate(cert.goal, point) is not False:
            return False
        if not all(evaluate(cond, point) for cond in _range_conditions(cert)):
            return False
        if not all(evaluate(fact.condition, point) for fact in cert.facts):
            return False
        leaves = [*(var for var in dag.free_vars(*stated(cert)) if var in point), *point.loads]
        return all(evaluate(cond, point) for e in leaves for cond in declared_conditions(e)) and _agrees(point)
    except (EvaluationError, InputError):
        return False


class _PointWithReads(dict[Any, int]):
    """A point that records which loads evaluation reads."""

    def __init__(self, point: Mapping[Expr, int]) -> None:
        super().__init__(point)
        self.loads: dict[Expr, None] = {}

    def __contains__(self, key: object) -> bool:
        is_present = super().__contains__(key)
        if is_present and isinstance(key, Expr) and key.op is ops.LOAD:
            self.loads[key] = None
        return is_present


def _agrees(point: _PointWithReads) -> bool:
    """Whether evaluated loads of one symbol with equal indices agree."""
    seen: dict[tuple[object, ...], int] = {}
    for load in tuple(point.loads):
        key = (load.data, *(evaluate(index, point) for index in load.args))
        if seen.setdefault(key, point[load]) != point[load]:
            return False
    return True


# -- combinations -----------------------------------------------------------------------------------------------------


CHECK_SHIFT: Final = 4_096  # bits of a shift that is multiplied out
CHECK_MONOMIALS: Final = 40_000  # monomials of one product before like terms combine
CHECK_CONJUNCTIONS: Final = 64  # conjunctions of one bitwise expression before like terms combine

Monomial = frozenset[tuple[Any, int]]  # atoms with their powers
Poly = dict[Monomial, int]
UNIT: Monomial = frozenset()

K = TypeVar("K")
Bits = dict[frozenset[Any], int]  # {conjunction of operands: coefficient}; the empty conjunction is -1 (all bits set)


class Expander:
    """Expands expressions into integer polynomials; nonpolynomial operations become atoms keyed by their operands.

    Quotients by constants or by `nonzero` expressions cancel common factors: `(x*h) // (x*d)` becomes `h // d`.

    Invariant: `nodes` maps every atom to an expression with its value.
    """

    def __init__(self, nonzero: Collection[Expr] = (), budget: CheckBudget | None = None) -> None:
        self._budget = budget
        self._keys: dict[Any, Any] = {}  # interned atoms, for comparison by identity
        self.nonzero = nonzero
        self._polys: dict[Node, Poly] = {}
        self._bits: dict[Node, Bits] = {}
        self._operands: dict[Any, Expr] = {}  # operand of a conjunction: an expression
        self.nodes: dict[Any, Expr] = {}

    def poly(self, root: Expr) -> Poly:
        for node in dag.postorder((root,)):
            if isinstance(node, Expr) and node not in self._polys:
                if self._budget is not None:
                    self._budget.spend(4 + 2 * sum(len(self._polys.get(arg, ())) for arg in node.args))
                self._polys[node] = self._expand(node, [self._polys.get(arg, {}) for arg in node.args])
        return self._polys[root]

    def _expand(self, node: Expr, args: list[Poly]) -> Poly:
        op = node.op
        if op is ops.CONST:
            return {UNIT: node.data} if node.data else {}
        if op in (ops.ADD, ops.SUB):
            return add(args[0], args[1], 1 if op is ops.ADD else -1)
        if op is ops.MUL:
            return multiply(args[0], args[1], self._budget)
        if op is ops.NEG:
            return add({}, args[0], -1)
        if op is ops.ASSERTING:
            return args[1]
        if op in BITWISE:
            bits = self._bitwise(node)
            if bits is not None:
                self._bits[node] = bits
        same = in_other_words(node)
        if same is not None:
            return self.poly(same)
        if op is ops.FLOORMOD:  # a % b = a - b * (a // b)
            quotient = self.poly(make(ops.FLOORDIV, node.args))
            return add(args[0], multiply(args[1], quotient, self._budget), -1)
        if op is ops.CEILDIV:  # ceil(a / b) = -floor(-a / b)
            return add({}, self.poly(make(ops.FLOORDIV, (-node.args[0], node.args[1]))), -1)
        if node in self._bits:
            return self._sum_of_conjunctions(self._bits[node])
        if op in (ops.FLOORDIV, ops.TRUNCDIV) and (constant_value(node.args[1]) or node.args[1] in self.nonzero):
            args = list(without_common_factors(*args))
            if args[1] == {UNIT: 1}:
                return args[0]
        return {frozenset({(self._atom(node, args), 1)}): 1}

    def _bitwise(self, node: Expr) -> Bits | None:
        """A bitwise operation as an integer combination of conjunctions; None beyond the limit."""
        forms = [self._bits_of(arg) for arg in node.args]
        if node.op is ops.BITNOT:
            return add({frozenset(): 1}, forms[0], -1)
        a, b = forms
        if len(a) * len(b) > CHECK_CONJUNCTIONS:
            return None
        both: Bits = {}
        for (s, k), (t, m) in itertools.product(a.items(), b.items()):
            both = add(both, {s | t: 1}, k * m)
        weight = BITWISE[node.op]
        return both if weight is None else add(add(a, b, 1), both, weight)

    def _bits_of(self, e: Expr) -> Bits:
        if e in self._bits:
            return self._bits[e]
        value = constant_value(e)
        if value == 0 or value == -1:
            return {frozenset(): 1} if value else {}
        key = frozenset(self._polys[e].items())
        self._operands.setdefault(key, e)
        return {frozenset({key}): 1}

    def _sum_of_conjunctions(self, bits: Bits) -> Poly:
        total: Poly = {}
        for operands, k in bits.items():
            if not operands:
                total = add(total, {UNIT: -1}, k)
            elif len(operands) == 1:
                total = add(total, dict(*operands), k)
            else:
                key = (ops.BITAND, operands)
                if key not in self.nodes:
                    self.nodes[key] = reduce(and_, (e for one, e in self._operands.items() if one in operands))
                total = add(total, {frozenset({(key, 1)}): 1}, k)
        return total

    def _atom(self, node: Expr, args: list[Poly]) -> Any:
        if node.op is ops.VAR:
            key: Any = node
        else:
            parts = zip(node.args, args, strict=True)
            key = (node.op, node.data, *(frozenset(p.items()) if isinstance(a, Expr) else a for a, p in parts))
        key = self._keys.setdefault(key, key)
        self.nodes.setdefault(key, node)
        return key

    def sides(self, cond: Cond) -> tuple[Poly, bool]:
        """(p, is_equation) with the comparison equivalent to `p == 0` or `p >= 0`, tightened."""
        a, b = (self.poly(arg) for arg in cond.args)
        if cond.op in (ops.LE, ops.LT):
            a, b = b, a
        difference = add(a, b, -1)
        if cond.op in (ops.LT, ops.GT):
            difference = add(difference, {UNIT: 1}, -1)
        return tightened(difference, cond.op is ops.EQ)


# a | b = a + b - (a & b), a ^ b = a + b - 2*(a & b): coefficient of the conjunction; None for other operations
BITWISE: dict[ops.Op, int | None] = {ops.BITAND: None, ops.BITOR: -1, ops.BITXOR: -2, ops.BITNOT: None}


def without_common_factors(a: Poly, b: Poly) -> tuple[Poly, Poly]:
    """`a` and `b` divided by their greatest common monomial."""
    terms = [dict(monomial) for monomial in (*a, *b)]
    if not b:
        return a, b
    shared = {atom: min(term.get(atom, 0) for term in terms) for atom in terms[0]}
    shared = {atom: power for atom, power in shared.items() if power}
    factor = math.gcd(*a.values(), *b.values())
    if factor == 1 and not shared:
        return a, b
    return divided(a, factor, shared), divided(b, factor, shared)


def divided(poly: Poly, factor: int, shared: Mapping[Any, int]) -> Poly:
    """The exact quotient of a polynomial by a number and a monomial."""
    quotient: Poly = {}
    for monomial, k in poly.items():
        left = ((atom, power - shared.get(atom, 0)) for atom, power in monomial)
        quotient[frozenset((atom, power) for atom, power in left if power)] = k // factor
    return quotient


def in_other_words(node: Expr) -> Expr | None:
    """An operation expressed by floor division and arithmetic; None without a total equivalent."""
    op, args = node.op, node.args
    if not args:
        return None
    first: Expr = args[0]
    k = constant_value(args[1]) if len(args) == 2 and isinstance(args[1], Expr) else None
    if op is ops.TRUNCMOD:
        divisor: Expr = args[1]
        quotient: Expr = make(ops.TRUNCDIV, args)
        return first - divisor * quotient
    if op is ops.BITNOT:
        return -first - 1
    if op in (ops.SHL, ops.SHR) and k is not None and 0 <= k <= CHECK_SHIFT:
        return first * (1 << k) if op is ops.SHL else first // (1 << k)
    if op is ops.BITAND and k is not None and k >= 0 and k & (k + 1) == 0:
        return first % (k + 1)
    if op is ops.CAST and node.data[0] <= CHECK_SHIFT:
        bits, signed = node.data
        half = 1 << (bits - 1) if signed else 0
        modulus: int = 1 << bits
        return first - (first + half) // modulus * modulus
    return None


def tightened(poly: Poly, is_zero: bool) -> tuple[Poly, bool]:
    """Tighten over the integers: divide by the gcd of the coefficients and round the constant down."""
    factor = math.gcd(*(k for monomial, k in poly.items() if monomial))
    if factor <= 1:
        return poly, is_zero
    constant = poly.get(UNIT, 0)
    if is_zero and constant % factor:
        return {UNIT: -1}, False  # no integer solution
    reduced = {monomial: k // factor for monomial, k in poly.items()}
    return {monomial: k for monomial, k in reduced.items() if k}, is_zero


def add(a: Mapping[K, int], b: Mapping[K, int], factor: int) -> dict[K, int]:
    """`a + factor * b`, of terms with their coefficients."""
    result = dict(a)
    for term, k in b.items():
        total = result.get(term, 0) + factor * k
        if total:
            result[term] = total
        else:
            result.pop(term, None)
    return result


def multiply(a: Poly, b: Poly, budget: CheckBudget | None = None) -> Poly:
    """The product; BudgetError beyond `CHECK_MONOMIALS` monomials or `LONGEST_VALUE` bits."""
    if len(a) * len(b) > CHECK_MONOMIALS:
        raise BudgetError(f"a product of {len(a) * len(b)} monomials", "CHECK_MONOMIALS")
    first, second = (max((k.bit_length() for k in poly.values()), default=0) for poly in (a, b))
    if first + second > LONGEST_VALUE:
        raise BudgetError(f"a product with coefficients of {first + second} bits", "LONGEST_VALUE")
    if budget is not None:
        budget.spend(len(a) * len(b) * (4 + first * second // (1 << 18)))
    result: Poly = {}
    for (m1, k1), (m2, k2) in itertools.product(a.items(), b.items()):
        powers = dict(m1)
        for atom, power in m2:
            powers[atom] = powers.get(atom, 0) + power
        monomial = frozenset(powers.items())
        total = result.get(monomial, 0) + k1 * k2
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


CHECK_BRANCHES: Final = 200  # branches of one combination
CHECK_FACTORS: Final = 4  # premises per product


REASONS = (
    "the goal negated",
    "a fact",
    "where it has a value",
    "a range",
    "declared",
    "the meaning of the operation",
    "a divisor is positive",
    "a square",
)
GOAL, FACT, DEFINED, RANGE, DECLARED, MEANING, DIVISOR, SQUARE = REASONS
_WHY = {MEANING: "by the meaning of the operation", SQUARE: "a square", DIVISOR: "a divisor that is not negative"}


class Premise(NamedTuple):
    """A true comparison with its reason, one of `REASONS`; the reason selects the check."""

    why: str
    cond: Cond


class WeightedProduct(NamedTuple):
    """`factor` times a product of premises, each read as `polynomial >= 0` or `== 0`.

    The factor is nonnegative unless a premise is an equation.
    """

    factor: int
    premises: tuple[Premise, ...]


class Combination(NamedTuple):
    """A Farkas combination: nonnegative terms with a negative constant sum contradict the comparisons in `case`.

    Monomials are integers, so comparisons are tightened: divided by the gcd of their coefficients, constants rounded.

    Attributes
    ----------
    case: comparisons that hold together if the goal fails.
    terms: the summands.
    divisors: (divisor, combination) pairs that prove divisors nonnegative, hence positive where the goal is defined.
    on: in place of terms, a condition that splits the case.
    branches: combinations for the cases extended by each way of `on` or its negation.
    """

    case: tuple[Cond, ...]
    terms: tuple[WeightedProduct, ...]
    divisors: tuple[tuple[Expr, Combination], ...] = ()
    on: Cond | None = None
    branches: tuple[Combination, ...] = ()

    def leaves(self) -> tuple[Combination, ...]:
        """Combinations with terms: itself, or the leaves of all branches."""
        if self.on is None:
            return (self,)
        return tuple(leaf for branch in self.branches for leaf in branch.leaves())


def combination_words(one: Combination) -> list[str]:
    lines = []
    for divisor, shown in one.divisors:
        lines.append(f"The divisor {clip(divisor)} is not negative:")
        lines += [f"  {line}" for line in combination_words(shown)]
    if one.case:
        lines.append(f"Suppose that {' and '.join(clip(cond) for cond in one.case)}.")
    if one.on is not None:
        lines.append(f"Either {clip(one.on)} or not.")
        return [*lines, *(f"  {line}" for branch in one.branches for line in combination_words(branch))]
    lines.append("Multiply and add, reading each comparison as a difference that is not negative:")
    for factor, premises in one.terms:
        product = " * ".join(f"[{clip(premise.cond)}]" for premise in premises)
        why = ", ".join(dict.fromkeys(_WHY.get(premise.why, premise.why) for premise in premises))
        lines.append(f"  {number_text(factor)} * {product}  ({why})")
    lines.append("The sum is a negative number: a contradiction.")
    return lines


def clip(node: Node | str) -> str:
    text = node if isinstance(node, str) else to_text(node, limit=300)
    return text if len(text) <= 600 else text[:600] + " ..."


# -- well-formedness ---------------------------------------------------------------------------------------------------


_EVIDENCE: Mapping[str, tuple[str, ...]] = {
    "linear": ("combinations",),
    "bits": ("text",),
    "isl": ("text",),
    "points": ("count",),
    "z3": ("text",),
    "point": ("point",),
}
_UNUSED: Mapping[str, Any] = {"combinations": (), "text": "", "count": 0, "point": {}}


def is_well_formed(cert: Certificate) -> bool:
    """Whether every field has its declared type and only fields of its kind are set."""
    if not isinstance(cert.kind, str) or cert.kind not in _EVIDENCE:
        return False
    if not isinstance(cert.goal, Cond) or not isinstance(cert.vacuous, bool) or (cert.vacuous and cert.kind == "point"):
        return False
    if not are_facts(cert.facts) or not are_ranges(cert.ranges):
        return False
    used = _EVIDENCE[cert.kind]
    if not all(type(getattr(cert, field)) is type(unused) for field, unused in _UNUSED.items()):
        return False
    if any(getattr(cert, field) != unused for field, unused in _UNUSED.items() if field not in used):
        return False
    is_leaf = all(isinstance(e, Expr) and e.op in (ops.VAR, ops.LOAD) for e in cert.point)
    are_numbers = all(type(value) is int for value in cert.point.values())
    return is_leaf and are_numbers and all(_is_combination(one, 0) for one in cert.combinations)


def are_facts(facts: object) -> bool:
    return isinstance(facts, tuple) and all(
        isinstance(fact, Fact) and isinstance(fact.condition, Cond) and fact.provenance in PROVENANCES for fact in facts
    )


def are_ranges(ranges: object) -> bool:
    if not isinstance(ranges, tuple) or not all(isinstance(one, tuple) and len(one) == 2 for one in ranges):
        return False
    if not all(isinstance(var, Var) and isinstance(limits, Range) for var, limits in ranges):
        return False
    return len({var for var, _ in ranges}) == len(ranges)


def _is_combination(one: object, depth: int) -> bool:
    if not isinstance(one, Combination) or depth > CHECK_BRANCH_NESTING:
        return False
    case, terms, divisors, on, branches = _untyped(one)
    if not _is_tuple_of(case, Cond) or not _is_tuple_of(terms, WeightedProduct) or not all(map(_is_term, terms)):
        return False
    if not _is_tuple_of(divisors, tuple) or not _is_tuple_of(branches, Combination):
        return False
    if not all(len(entry) == 2 and isinstance(entry[0], Expr) for entry in divisors):
        return False
    if (on is None and branches) or (on is not None and (terms or not isinstance(on, Cond))):
        return False
    return all(_is_combination(below, depth + 1) for below in (*branches, *(shown for _, shown in divisors)))


def _is_term(term: WeightedProduct) -> bool:
    factor, premises = _untyped(term)
    return (
        type(factor) is int
        and _is_tuple_of(premises, Premise)
        and all(premise.why in REASONS and isinstance(premise.cond, Cond) for premise in premises)
    )


def _untyped(fields: tuple[Any, ...]) -> tuple[Any, ...]:
    """The fields, typed as `Any` because certificates are untrusted."""
    return fields


def _is_tuple_of(values: object, kind: type) -> bool:
    return isinstance(values, tuple) and all(isinstance(value, kind) for value in values)


def ways_to_fail(cert: Certificate) -> Iterator[tuple[Literals | None, tuple[Cond, ...]]]:
    """Yield (case, roots): comparisons that hold together if the goal fails, and conditions defined there.

    Evaluation is lazy, so later conjuncts assume earlier ones. A case of None means too many cases.
    """
    before = (*(fact.condition for fact in cert.facts), *_range_conditions(cert))
    if cert.vacuous:
        yield (), before
        return
    for part in dag.conjuncts(cert.goal):
        before = (*before, part)
        ways = cases(part, False)
        for way in [None] if ways is None else ways:
            yield way, before


def check_linear(cert: Certificate, budget: CheckBudget | None = None) -> bool:
    """Whether every failing case of the goal has a valid combination."""
    budget = CheckBudget() if budget is None else budget
    nodes = sum(1 for _ in dag.postorder(stated(cert)))
    budget.spend(nodes + nodes * nodes // 200)  # cases of conjunctions, nested definedness conditions
    by_case = {one.case: one for one in cert.combinations}
    for case, roots in ways_to_fail(cert):
        if case is None or case not in by_case or not check_combination(cert, by_case[case], roots, budget):
            return False
    return True


def check_combination(cert: Certificate, one: Combination, roots: Sequence[Cond], budget: CheckBudget) -> bool:
    """Whether all premises are valid and every leaf sums to a negative constant.

    roots: conditions defined at the points in question; their divisors are nonzero.
    """
    budget.spend_nodes(*roots)
    needs = definedness(roots)
    positive = [
        d
        for d, shown in one.divisors
        if d.ne(0) in needs
        and shown.case == (d <= -1,)
        and not shown.divisors
        and check_combination(cert, shown, roots, budget)
    ]
    known = _StatedComparisons(cert, needs, budget)
    waiting, count = [one], 0
    while waiting:
        part = waiting.pop()
        count += 1
        if count > CHECK_BRANCHES or (part.divisors and part is not one):
            return False
        if part.on is None:
            if not _adds_up(known, part, positive):
                return False
            continue
        branches = {branch.case: branch for branch in part.branches}
        budget.spend_nodes(part.on)
        ways = both_ways(part.on, needs)
        if ways is None or any((*part.case, *way) not in branches for way in ways):
            return False
        waiting += [branches[(*part.case, *way)] for way in ways]
    return True


def nonzero(needs: Sequence[Cond]) -> set[Expr]:
    """Expressions required to be nonzero by definedness conditions."""
    return {need.args[0] for need in needs if need.op is ops.NE and constant_value(need.args[1]) == 0}


def both_ways(on: Cond, needs: Sequence[Cond]) -> list[Literals] | None:
    """Cases of a condition and of its negation; None if the condition may be undefined."""
    if any(need not in needs for need in definedness((on,))):
        return None
    yes, no = cases(on, True), cases(on, False)
    return None if yes is None or no is None else yes + no


class _StatedComparisons:
    """Comparisons stated by a certificate, indexed by reason."""

    def __init__(self, cert: Certificate, needs: Sequence[Cond], budget: CheckBudget) -> None:
        self.budget = budget
        self.nonzero = nonzero(needs)
        self.facts = {cond for fact in cert.facts for cond in literals(fact.condition)}
        self.needs = {cond for need in needs for cond in literals(need)}
        self.ranges = set(_range_conditions(cert))
        budget.spend(len(self.facts) + len(self.needs) + len(self.ranges))


def _adds_up(known: _StatedComparisons, one: Combination, positive: Sequence[Expr]) -> bool:
    expander = Expander(known.nonzero, known.budget)
    total: Poly = {}
    for factor, premises in one.terms:
        if len(premises) > CHECK_FACTORS:
            return False
        product: Poly = {UNIT: 1}
        is_zero = False
        for premise in premises:
            if not _holds(known, one, premise, positive):
                return False
            poly, equation = expander.sides(premise.cond)
            product = multiply(product, poly, known.budget)
            is_zero |= equation
        if not premises or (factor < 0 and not is_zero):
            return False
        known.budget.spend(len(total) + len(product) + factor.bit_length() // 64)
        total = add(total, product, factor)
    return set(total) == {UNIT} and total[UNIT] < 0


def _holds(known: _StatedComparisons, one: Combination, premise: Premise, positive: Sequence[Expr]) -> bool:
    known.budget.spend(1 + len(one.case) + len(positive))
    why, cond = premise
    if cond.op not in ops.COMPARISONS or cond.op is ops.NE:
        return False
    stated = {GOAL: one.case, FACT: known.facts, DEFINED: known.needs, RANGE: known.ranges}
    if why in stated:
        return cond in stated[why]
    if why == DIVISOR:
        return any(cond is (d >= 1) for d in positive)
    if why == SQUARE:
        e, zero = cond.args
        return cond.op is ops.GE and constant_value(zero) == 0 and e.op is ops.MUL and e.args[0] is e.args[1]
    below = [e for e in dag.postorder((cond,)) if isinstance(e, Expr)]
    known.budget.spend(len(below) * (8 + len(positive) + len(one.case)))
    if why == DECLARED:
        return any(cond in set(declared_conditions(e)) for e in below if e.op in (ops.VAR, ops.LOAD))
    return why == MEANING and any(cond in set(meaning(e, positive, one.case)) for e in below)

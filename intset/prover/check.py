"""The checker of certificates: integer polynomial arithmetic over expressions as they were written, and nothing else.

It shares no code with the canonicaliser, the domains or the search for combinations. Texts are given to a fresh isl or
z3 context. Points are tried by `evaluate`, the reference semantics.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.definedness import definedness
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Node, Var, constant_value, make
from intset.expr.range import Range
from intset.expr.walk import conjuncts, free_vars, opaque_terms, postorder
from intset.prover import certificate as names
from intset.prover.certificate import Certificate, Combination, Premise

if TYPE_CHECKING:
    from intset.context import Context

Monomial = frozenset[tuple[Any, int]]  # atoms with their powers
Poly = dict[Monomial, int]
Literals = tuple[Cond, ...]
UNIT: Monomial = frozenset()
MAX_CASES = 64
MAX_POINTS = 1_000_000
MAX_SHIFT = 4096
MAX_BRANCHES = 200
Z3_RLIMIT = 50_000_000
ISL_OPERATIONS = 20_000_000


def check_certificate(cert: Certificate, ctx: Context | None = None) -> bool:
    """Whether a certificate is right; with `ctx`, also whether its facts and ranges are those of the context."""
    if ctx is not None and not _belongs(cert, ctx):
        return False
    return _CHECKS[cert.kind](cert)


def _belongs(cert: Certificate, ctx: Context) -> bool:
    ranges, known = ctx.ranges, set(ctx.facts)
    needs = definedness((cert.goal, *(fact.condition for fact in ctx.facts)))
    claimed = {part for need in needs for part in conjuncts(need)}  # what the goal itself asserts
    return all(fact in known or fact.condition in claimed for fact in cert.facts) and all(
        ranges.get(var) == limits for var, limits in cert.ranges
    )


# -- polynomials --------------------------------------------------------------------------------------------------


class Expander:
    """Expressions as integer polynomials over atoms; an operation that is not polynomial is an atom of its arguments.

    `nodes` has, for every atom met, an expression that it stands for.
    """

    def __init__(self) -> None:
        self._polys: dict[Node, Poly] = {}
        self.nodes: dict[Any, Expr] = {}

    def poly(self, root: Expr) -> Poly:
        for node in postorder((root,)):
            if isinstance(node, Expr) and node not in self._polys:
                self._polys[node] = self._expand(node, [self._polys.get(arg, {}) for arg in node.args])
        return self._polys[root]

    def _expand(self, node: Expr, args: list[Poly]) -> Poly:
        op = node.op
        if op is ops.CONST:
            return {UNIT: node.data} if node.data else {}
        if op in (ops.ADD, ops.SUB):
            return add(args[0], args[1], 1 if op is ops.ADD else -1)
        if op is ops.MUL:
            return multiply(args[0], args[1])
        if op is ops.NEG:
            return add({}, args[0], -1)
        if op is ops.ASSERTING:
            return args[1]
        same = in_other_words(node)
        if same is not None:
            return self.poly(same)
        if op is ops.FLOORMOD:  # a % b = a - b * (a // b)
            quotient = self.poly(make(ops.FLOORDIV, node.args))
            return add(args[0], multiply(args[1], quotient), -1)
        if op is ops.CEILDIV:  # ceil(a / b) = -floor(-a / b)
            return add({}, self.poly(make(ops.FLOORDIV, (-node.args[0], node.args[1]))), -1)
        return {frozenset({(self._atom(node, args), 1)}): 1}

    def _atom(self, node: Expr, args: list[Poly]) -> Any:
        if node.op is ops.VAR:
            key: Any = node
        else:
            parts = zip(node.args, args, strict=True)
            key = (node.op, node.data, *(frozenset(p.items()) if isinstance(a, Expr) else a for a, p in parts))
        self.nodes.setdefault(key, node)
        return key

    def sides(self, cond: Cond) -> tuple[Poly, bool]:
        """(polynomial, whether it is 0 rather than at least 0) that a comparison says, divided by common factors."""
        a, b = (self.poly(arg) for arg in cond.args)
        if cond.op in (ops.LE, ops.LT):
            a, b = b, a
        difference = add(a, b, -1)
        if cond.op in (ops.LT, ops.GT):
            difference = add(difference, {UNIT: 1}, -1)
        return tightened(difference, cond.op is ops.EQ)


def in_other_words(node: Expr) -> Expr | None:
    """An operation by what it means in terms of floor division, where it means that everywhere."""
    op, args = node.op, node.args
    k = constant_value(args[1]) if len(args) == 2 and isinstance(args[1], Expr) else None
    if op is ops.TRUNCMOD:
        return args[0] - args[1] * make(ops.TRUNCDIV, args)  # type: ignore[no-any-return]
    if op is ops.BITNOT:
        return -args[0] - 1  # type: ignore[no-any-return]
    if op in (ops.SHL, ops.SHR) and k is not None and 0 <= k <= MAX_SHIFT:
        return args[0] * (1 << k) if op is ops.SHL else args[0] // (1 << k)  # type: ignore[no-any-return]
    if op is ops.BITAND and k is not None and k >= 0 and k & (k + 1) == 0:
        return args[0] % (k + 1)  # type: ignore[no-any-return]
    if op is ops.CAST:
        bits, signed = node.data
        half = 1 << (bits - 1) if signed else 0
        return args[0] - ((args[0] + half) // (1 << bits)) * (1 << bits)  # type: ignore[no-any-return]
    return None


def tightened(poly: Poly, is_zero: bool) -> tuple[Poly, bool]:
    """The same of integers: divided by the common factor of its coefficients, the constant rounded down."""
    factor = math.gcd(*(k for monomial, k in poly.items() if monomial))
    if factor <= 1:
        return poly, is_zero
    constant = poly.get(UNIT, 0)
    if is_zero and constant % factor:
        return {UNIT: -1}, False  # there is no such integer
    reduced = {monomial: k // factor for monomial, k in poly.items()}
    return {monomial: k for monomial, k in reduced.items() if k}, is_zero


def add(a: Poly, b: Poly, factor: int) -> Poly:
    """`a + factor * b`."""
    result = dict(a)
    for monomial, k in b.items():
        total = result.get(monomial, 0) + factor * k
        if total:
            result[monomial] = total
        else:
            result.pop(monomial, None)
    return result


def multiply(a: Poly, b: Poly) -> Poly:
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


# -- conditions ---------------------------------------------------------------------------------------------------


def cases(cond: Cond, holds: bool) -> list[Literals] | None:
    """The ways in which `cond` holds (or fails), each as comparisons other than `!=`; `None` for too many."""
    if cond.op is ops.BOOL:
        return [()] if cond.data is holds else []
    if cond.op is ops.NOT:
        return cases(cond.args[0], not holds)
    if cond.op in (ops.AND, ops.OR):
        first, second = (cases(arg, holds) for arg in cond.args)
        if first is None or second is None or len(first) * len(second) > MAX_CASES:
            return None
        if (cond.op is ops.AND) is holds:
            return [a + b for a in first for b in second]
        return first + second
    op = cond.op if holds else ops.NEGATED[cond.op]
    if op is ops.NE:
        return [(make(ops.LT, cond.args),), (make(ops.GT, cond.args),)]
    return [(make(op, cond.args),)]


def literals(cond: Cond) -> Literals:
    """The comparisons that `cond` amounts to; none when it is a disjunction."""
    found = cases(cond, True)
    return found[0] if found is not None and len(found) == 1 else ()


def range_conditions(var: Var, limits: Range) -> Iterator[Cond]:
    if isinstance(limits.min, Expr):
        yield var >= limits.min
    if isinstance(limits.max, Expr):
        yield var <= limits.max


def declared_conditions(e: Expr) -> Iterator[Cond]:
    """What a variable or an opaque term declares of itself."""
    low, high, step = e.declared() if isinstance(e, Var) else (e.data.lower, e.data.upper, 1)
    if low is not None:
        yield e >= low
    if high is not None:
        yield e <= high
    if step > 1:
        yield (e % step).eq(0)


def meaning(node: Expr, positive: Iterable[Expr] = (), case: Literals = ()) -> Iterator[Cond]:
    """Comparisons that hold of an operation wherever it has a value and the comparisons in `case` hold.

    `positive` are divisors known to be at least 1.
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
            if cases(node.args[0] <= node.args[1], holds)[0][0] in case:  # type: ignore[index]
                yield node.eq(arg)
    elif node.op is ops.ABS:
        yield node >= node.args[0]
        yield node >= -node.args[0]
    choices = _choices(node)
    if choices:
        yield ((node - choices[0]) * (node - choices[1])).eq(0)


def _choices(node: Expr) -> tuple[Expr, ...]:
    """The two expressions of which the operation always equals one."""
    if node.op in (ops.MIN, ops.MAX):
        return node.args
    if node.op is ops.SELECT:
        return node.args[1:]
    return (node.args[0], -node.args[0]) if node.op is ops.ABS else ()


# -- combinations -------------------------------------------------------------------------------------------------


def ways_to_fail(cert: Certificate) -> Iterator[tuple[Literals | None, tuple[Cond, ...]]]:
    """Each way in which the goal could fail, as comparisons that hold together, and what has a value there.

    A conjunct is evaluated where those before it hold. `None` in place of a way: there are too many.
    """
    facts = tuple(fact.condition for fact in cert.facts)
    if cert.vacuous:
        yield (), (cert.goal, *facts)
        return
    before: tuple[Cond, ...] = facts
    for part in conjuncts(cert.goal):
        before = (*before, part)
        ways = cases(part, False)
        for way in [None] if ways is None else ways:
            yield way, before


def _check_linear(cert: Certificate) -> bool:
    given = {one.case: one for one in cert.combinations}
    for case, roots in ways_to_fail(cert):
        if case is None or case not in given or not check_combination(cert, given[case], roots):
            return False
    return True


def check_combination(cert: Certificate, one: Combination, roots: Sequence[Cond]) -> bool:
    """Whether the terms add up to a negative constant, each premise being what it says it is.

    `roots` are conditions that have a value at the points in question: so what they divide by is not 0.
    """
    needs = definedness(roots)
    positive = [
        d
        for d, shown in one.divisors
        if d.ne(0) in needs and shown.case == (d <= -1,) and check_combination(cert, shown, roots)
    ]
    waiting, count = [one], 0
    while waiting:
        part = waiting.pop()
        count += 1
        if count > MAX_BRANCHES or (part.divisors and part is not one):
            return False
        if part.on is None:
            if not _adds_up(cert, part, positive, needs):
                return False
            continue
        branches = {branch.case: branch for branch in part.branches}
        ways = both_ways(part.on, needs)
        if ways is None or any((*part.case, *way) not in branches for way in ways):
            return False
        waiting += [branches[(*part.case, *way)] for way in ways]
    return True


def both_ways(on: Cond, needs: Sequence[Cond]) -> list[Literals] | None:
    """The ways in which a condition holds or does not; `None` where it may have no value."""
    if any(need not in needs for need in definedness((on,))):
        return None
    yes, no = cases(on, True), cases(on, False)
    return None if yes is None or no is None else yes + no


def _adds_up(cert: Certificate, one: Combination, positive: Sequence[Expr], needs: Sequence[Cond]) -> bool:
    expander = Expander()
    total: Poly = {}
    for factor, premises in one.terms:
        product: Poly = {UNIT: 1}
        is_zero = False
        for premise in premises:
            if not _holds(cert, one, premise, positive, needs):
                return False
            poly, equation = expander.sides(premise.cond)
            product = multiply(product, poly)
            is_zero |= equation
        if not premises or (factor < 0 and not is_zero):
            return False
        total = add(total, product, factor)
    return set(total) == {UNIT} and total[UNIT] < 0


def _holds(
    cert: Certificate, one: Combination, premise: Premise, positive: Sequence[Expr], needs: Sequence[Cond]
) -> bool:
    why, cond = premise
    if cond.op not in ops.COMPARISONS or cond.op is ops.NE:
        return False
    if why == names.GOAL:
        return cond in one.case
    if why == names.FACT:
        return any(cond in literals(fact.condition) for fact in cert.facts)
    if why == names.DEFINED:
        return any(cond in literals(need) for need in needs)
    if why == names.RANGE:
        return any(cond in set(range_conditions(var, limits)) for var, limits in cert.ranges)
    if why == names.DIVISOR:
        return any(cond is (d >= 1) for d in positive)
    if why == names.SQUARE:
        e, zero = cond.args
        return cond.op is ops.GE and constant_value(zero) == 0 and e.op is ops.MUL and e.args[0] is e.args[1]
    below = (e for e in postorder((cond,)) if isinstance(e, Expr))
    if why == names.DECLARED:
        return any(cond in set(declared_conditions(e)) for e in below if e.op in (ops.VAR, ops.LOAD))
    return why == names.MEANING and any(cond in set(meaning(e, positive, one.case)) for e in below)


# -- the other kinds ----------------------------------------------------------------------------------------------


def premises_of(cert: Certificate) -> list[Cond]:
    """Every condition that holds at the points that the certificate speaks of."""
    facts = [fact.condition for fact in cert.facts]
    ranges = [cond for var, limits in cert.ranges for cond in range_conditions(var, limits)]
    needs = list(definedness((cert.goal, *facts)))
    roots = (cert.goal, *facts, *ranges)
    leaves = [*free_vars(*roots), *opaque_terms(*roots)]
    return [*(cond for e in leaves for cond in declared_conditions(e)), *ranges, *needs, *facts]


def _check_isl(cert: Certificate) -> bool:
    from intset.domains.isl.text import emptiness_text, is_empty_text

    return cert.text == emptiness_text(premises_of(cert), None if cert.vacuous else cert.goal) and is_empty_text(
        cert.text, ISL_OPERATIONS
    )


def _check_z3(cert: Certificate) -> bool:
    from intset.prover.smt_encode import load_z3

    z3 = load_z3()
    solver = z3.SimpleSolver(ctx=z3.Context())
    solver.set(rlimit=Z3_RLIMIT)
    solver.from_string(cert.text)
    return bool(solver.check() == z3.unsat)


def _check_points(cert: Certificate) -> bool:
    box = box_of(cert)
    if box is None:
        return False
    count = 0
    conditions = [*premises_of(cert), *([] if cert.vacuous else [cert.goal])]
    for values in itertools.product(*box.values()):
        count += 1
        if _violates(conditions, dict(zip(box, values, strict=True)), cert.vacuous):
            return False
    return count == cert.count


def box_of(cert: Certificate) -> dict[Expr, range] | None:
    """The box that `ranges` and declarations span; `None` when it is not finite and small."""
    stated = (cert.goal, *(fact.condition for fact in cert.facts))
    roots = (*stated, *(cond for var, limits in cert.ranges for cond in range_conditions(var, limits)))
    if opaque_terms(*roots):
        return None
    limits_of = dict(cert.ranges)
    box: dict[Expr, range] = {}
    for var in free_vars(*roots):
        limits, (low, high, _) = limits_of.get(var), var.declared()
        if limits is not None and limits.ends is not None:
            low = limits.ends[0] if low is None else max(low, limits.ends[0])
            high = limits.ends[1] if high is None else min(high, limits.ends[1])
        if low is None or high is None:
            return None
        box[var] = range(low, high + 1)
    is_small = all(span.stop - span.start <= MAX_POINTS for span in box.values())
    return box if is_small and prod(map(len, box.values())) <= MAX_POINTS else None


def _violates(conditions: Sequence[Cond], point: Mapping[Expr, int], vacuous: bool) -> bool:
    """Whether the point satisfies every premise and not the goal, which stands last unless the claim is vacuous."""
    *premises, goal = [*conditions, make(ops.BOOL, (), False)] if vacuous else conditions
    try:
        return all(evaluate(cond, point) for cond in premises) and not evaluate(goal, point)
    except EvaluationError:
        return False


def _check_point(cert: Certificate) -> bool:
    try:
        return evaluate(cert.goal, cert.point) is False and all(evaluate(c, cert.point) for c in premises_of(cert))
    except (EvaluationError, InputError):
        return False


_CHECKS = {
    "linear": _check_linear,
    "isl": _check_isl,
    "points": _check_points,
    "z3": _check_z3,
    "point": _check_point,
}

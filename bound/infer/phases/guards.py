"""Guards of a nest that loops and other guards imply, and their removal.

Guarantee: the guards that remain are equivalent to the given ones wherever the loops around the body run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bound.infer import environment
from bound.schedule.simple import extent, low
from intset import config
from intset.context import Context
from intset.expr import Cond, Expr, Range, Var, as_expr, constant_value, dag, ops
from intset.expr.build import logical_not
from intset.expr.node import make, truth
from intset.linear.canonical import Normalizer, cond_of, form_of
from intset.linear.form import Linear, atom
from intset.linear.signs import RELAXED_DIVISORS, without_quotients

IMPLIED_GUARDS: Final = 60_000  # operations of the domain, for one implication
IMPLIED_NODES: Final = 40  # a longer guard is kept unasked where all guards together have twice as many
CONTRADICTED_GUARDS: Final = 10_000  # operations of the domain, for a contradiction with products as variables
MIXED_INSTANCES: Final = 192  # iterations tried in search of ones that violate each of the guards of a nest alone

_MAX_GUARDS: Final = 32  # more remain unchanged
_MAX_NODES: Final = 400  # longer guards remain unchanged
_MAX_CASES: Final = 16  # values of loops tried one by one
_SLOW: Final = (*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT)


def is_known(env: environment.LoopEnvironment, cond: Cond) -> bool:
    """Whether a condition is proved by the environment alone."""
    forms = env.forms_of(cond)
    return forms is not None and all(map(env.is_nonneg, forms))


def is_within_bounds(env: environment.LoopEnvironment, cond: Cond) -> bool:
    """Whether a condition is proved by numeric bounds."""
    forms = env.forms_of(cond)
    return forms is not None and all(_is_never_negative(env, form) for form in forms)


def without_implied(env: environment.LoopEnvironment, loops: Sequence[Var], guards: Sequence[Cond]) -> tuple[Cond, ...]:
    """The guards in their order, without those implied by loops and other guards; the cheapest of equal guards remains.

    Guarantee: an equivalent conjunction, with fewer guards or the given ones.

    Parameters
    ----------
    loops: all loops around the body.
    """
    if not guards:
        return ()
    parts = list(dict.fromkeys(part for guard in guards for part in dag.conjuncts(guard)))
    if len(parts) > _MAX_GUARDS or not dag.is_small(_MAX_NODES, parts):
        return tuple([guard for guard in guards if not is_known(env, guard)])
    same: dict[Cond, list[Cond]] = {}
    for part in parts:
        same.setdefault(cond_of(part), []).append(part)
    kept = [min(equal, key=_cost) for equal in same.values()]
    telling = [v for v in loops if v in env.ranges and not _runs(env.ranges[v])]
    removed = len(kept) < len(parts)
    violations = environment.Violations(env, _ranges_around(env, kept, telling), kept, MIXED_INSTANCES)
    for guard in sorted(kept, key=_cost, reverse=True):
        others = [other for other in kept if other is not guard]
        ranges = _ranges_around(env, (guard, *others), telling)
        if _has_witness(env, ranges, guard, others) or violations.has_alone(guard, others, environment.FEW):
            continue
        may_be_known = not violations.has_alone(guard, (), environment.FEW)  # it fails at none of these
        is_plain = follows_from_one(env, guard, others) or may_be_known and is_known(env, guard)
        if is_plain or not violations.has_alone(guard, others) and is_implied(env, ranges, guard, others):
            kept.remove(guard)
            removed = True
    for k, guard in enumerate(kept):
        others = [other for other in kept if other is not guard]
        case = next((one for one in _cases_of(guard) if _are_equal(env, telling, guard, one, others)), None)
        if case is not None:
            kept[k], removed = case, True
    return tuple(kept) if removed else tuple(guards)


def _cases_of(guard: Cond) -> Iterator[Cond]:
    """Yield the guards with one end of several cases, `x <= select(c, a, b)`, in a single case, the last one first."""
    if guard.op not in (ops.LE, ops.LT):
        return
    for at, side in enumerate(guard.args):
        if side.op is ops.SELECT:
            for case in side.args[:0:-1]:
                if case.op is not ops.SELECT:
                    yield make(guard.op, (*guard.args[:at], case, *guard.args[at + 1 :]))


def _are_equal(
    env: environment.LoopEnvironment, telling: Sequence[Var], a: Cond, b: Cond, others: Sequence[Cond]
) -> bool:
    """Whether two guards hold together wherever the loops run and all others hold; `False` if undecided."""
    ranges = _ranges_around(env, (a, b, *others), telling)
    pairs = ((a, [b, *others]), (b, [a, *others]))
    if any(_has_witness(env, ranges, goal, given) for goal, given in pairs):
        return False
    violations = environment.Violations(env, ranges, (a, b, *others), MIXED_INSTANCES)
    if any(violations.has_alone(goal, given) for goal, given in pairs):
        return False
    return all(is_implied(env, ranges, goal, given) for goal, given in pairs)


def _ranges_around(
    env: environment.LoopEnvironment, guards: Iterable[Cond], telling: Iterable[Var]
) -> dict[Var, Range]:
    """The ranges of loops in guards, and of loops whose nonempty range is a fact about their ends."""
    return environment.transitive_ranges(env, [*(v for cond in guards for v in cond.free_vars()), *telling])


def _runs(r: Range) -> bool:
    """Whether a loop has a positive constant extent, so that running implies nothing about its ends."""
    number = environment.constant_extent(r)
    return number is not None and number > 0


def _cost(guard: Cond) -> tuple[int, int]:
    """The number of slow operations in a guard, and of its nodes."""
    nodes = list(dag.postorder((guard,)))
    return sum(1 for node in nodes if node.op in _SLOW), len(nodes)


def follows_from_one(env: environment.LoopEnvironment, guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether a guard repeats an end of one of its loops, or follows from one other guard after a division.

    `x < ceildiv(n, t)` follows from `x * t + i < n` for `i >= 0`; nested quotients are taken apart one by one.
    """
    form = _nonnegative(env, guard)
    if form is None:
        return False
    if any(_is_never_negative(env, at_end) for at_end in _at_ends(env, form)):
        return True
    facts = [fact for other in others if (fact := _nonnegative(env, other)) is not None]
    for _ in range(RELAXED_DIVISORS if facts else 0):
        relaxed = without_quotients(env.normalizer, form)
        if relaxed is None:
            return False
        if any(_is_never_negative(env, relaxed.minus(fact)) for fact in facts):
            return True
        form = relaxed
    return False


def _at_ends(env: environment.LoopEnvironment, form: Linear) -> Iterator[Linear]:
    """Forms that a form is not below: one loop variable at its last value, or at an operand of the minimum in it."""
    for v, k in form.terms.items():
        if k < 0 and isinstance(v, Var) and v in env.ranges:
            for end in env.arms_of(env.form(as_expr(env.ranges[v].max)), ops.MIN):
                yield form.plus(atom(v), -k).plus(end, k)


def _is_never_negative(env: environment.LoopEnvironment, form: Linear) -> bool:
    least, _ = env.bounds(form)
    return least is not None and least >= 0


def _nonnegative(env: environment.LoopEnvironment, guard: Cond) -> Linear | None:
    """The form whose nonnegativity a guard says; `None` for other guards."""
    forms = env.forms_of(guard)
    return forms[0] if forms is not None and len(forms) == 1 else None


def _has_witness(
    env: environment.LoopEnvironment, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]
) -> bool:
    """Whether a corner violates this guard alone: last iterations of the guard's loops, first ones of all others."""
    violated = (logical_not(guard), *others)
    if environment.values_at_members(env, truth(True), violated, most=1):
        return True
    return any(True for _ in environment.sample_instances(env, ranges, violated, (guard,), guard.free_vars()))


def is_implied(
    env: environment.LoopEnvironment, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]
) -> bool:
    """Whether a guard holds wherever the loops run and all other guards hold; `False` if undecided.

    Method, in order: the prover; with products or quotients of sizes, also the prover after solving facts for sizes,
    for each value of short loops; then a contradiction between the negated guard and the rest, times sizes. A long
    guard among long guards counts as not implied.
    """
    if not dag.is_small(IMPLIED_NODES, (guard,)) and not dag.is_small(2 * IMPLIED_NODES, (guard, *others)):
        return False
    with config.using(
        tiers=config.tiers_within(config.Effort.DEFAULT), isl_operations=env.account.allowed(IMPLIED_GUARDS)
    ):
        implication = _Implication(env.context, ranges, guard, tuple(others))
        if implication.is_proved():
            return True
        terms: tuple[Expr | Cond, ...] = (guard, *others, *map(extent, ranges.values()))
        if not dag.is_nonlinear(terms):
            return False
        products = dag.free_vars(*(node for node in dag.nonlinear_nodes(terms) if node.op is ops.MUL))
        solved = implication.at(_solved(env.context, ranges, terms))
        cases = [solved.at(case) for case in _cases(ranges, products, terms)]
        if all(case is not implication and case.is_proved() for case in cases):
            return True
        return solved.is_proved_by_contradiction()


@dataclass(frozen=True)
class _Implication:
    """The implication of a guard by loop ranges and other guards.

    Attributes
    ----------
    context: sizes with their facts.
    """

    context: Context
    ranges: Mapping[Var, Range]
    guard: Cond
    others: tuple[Cond, ...]

    def at(self, instead: Mapping[Expr, Expr]) -> _Implication:
        """The implication after a substitution of variables by equal expressions."""
        if not instead:
            return self
        ranges = {v: _moved(r, instead) for v, r in self.ranges.items() if v not in instead}
        new = (u for e in instead.values() for u in e.free_vars() if u not in self.context.ranges and u not in ranges)
        limits = [cond for v, r in self.ranges.items() if v in instead for cond in _range_conditions(v, r)]
        told = [v.eq(e) for v, e in instead.items() if isinstance(v, Var) and v not in self.ranges]
        context = self.context.extended(dict.fromkeys(new), told)
        guard, *others = (cond_of(dag.substitute(cond, instead)) for cond in (self.guard, *limits, *self.others))
        return _Implication(context, ranges, guard, tuple(others))

    def is_proved(self) -> bool:
        """Whether the prover confirms the implication."""
        context = self.context.extended(dict(self.ranges), self.others)
        return context.frame.known.empty or bool(context.prove(self.guard))

    def is_proved_by_contradiction(self) -> bool:
        """Whether the negated guard contradicts the rest, each inequality also multiplied by the sizes in products.

        With products as variables the question is linear: `o >= 4` times `c >= 0`, with `4*c >= n`, contradicts
        `o*c <= n - 1`. Quotients by sizes are variables constrained by their remainders.
        """
        quotients = _QuotientVariables(self.context, self.ranges)
        limits = [cond for v, r in self.ranges.items() for cond in _range_conditions(v, r)]
        goal, *rest = (quotients.without(cond) for cond in (self.guard, *limits, *self.others))
        facts = [*rest, *quotients.facts]
        loops = [*self.ranges, *quotients.variables]
        factors = [e for e in _sizes_in_products((goal, *facts), loops) if self.context.prove(e >= 0)]
        differences = _differences((goal,))
        if len(differences) != 1 or not factors:
            return False
        below = -differences[0] - 1
        facts += [below >= 0, *(below * e >= 0 for e in factors)]
        more = [difference * e >= 0 for difference in _differences(facts) for e in factors]
        known = self.context.extended(dict.fromkeys(loops)).frame.known
        selected = (_without_unbounded_products(known, conditions) for conditions in (facts, [*facts, *more]))
        contexts = (self.context.extended(dict.fromkeys(loops), conditions) for conditions in selected)
        tiers = config.current().tiers
        if any(ops.SELECT in dag.operations(cond) for cond in (goal, *facts)):
            tiers = ("linear",)  # the cases of several ends multiply
        with config.using(tiers=tiers, isl_operations=min(config.current().isl_operations, CONTRADICTED_GUARDS)):
            return any(context.frame.known.empty or bool(context.prove(goal)) for context in contexts)


def _without_unbounded_products(known: Normalizer, facts: Iterable[Cond]) -> list[Cond]:
    """The facts without inequalities in products that the facts and `known` leave without a bound on one side.

    With products as variables, Fourier-Motzkin elimination of a variable without an upper (or a lower) bound drops
    every inequality it occurs in. Repeated until each product that remains has both bounds.

    Guarantee: with products as variables, the result is contradictory if the facts are.
    """
    remaining = [(fact, _product_bounds(known, fact)) for fact in dict.fromkeys(facts)]
    while True:
        bounds = set[tuple[Expr, int]]().union(*(own for _, own in remaining))
        for product in {product for product, _ in bounds}:
            least, most = known.atom_bounds(product)
            bounds |= {(product, 1)} if least is not None else set()
            bounds |= {(product, -1)} if most is not None else set()
        useful = [(fact, own) for fact, own in remaining if all((product, -side) in bounds for product, side in own)]
        if len(useful) == len(remaining):
            return [fact for fact, _ in useful]
        remaining = useful


def _product_bounds(known: Normalizer, cond: Cond) -> set[tuple[Expr, int]]:
    """The products of variables that an inequality bounds from below (1) or above (-1); both for other conditions."""
    differences = _differences((cond,))
    terms = differences or [arg for node in dag.postorder((cond,)) for arg in node.args if isinstance(arg, Expr)]
    signed = [(e, k) for term in terms for e, k in known.form(term).terms.items() if e.op is ops.MUL]
    return {(e, side) for e, k in signed for side in (1, -1) if not differences or side * k > 0}


def _moved(r: Range, instead: Mapping[Expr, Expr]) -> Range:
    start, length = (form_of(dag.substitute(end, instead)).expr() for end in (low(r), extent(r)))
    return Range(start, 0 if length.is_const and length.data < 0 else length)


def _range_conditions(v: Var, r: Range) -> tuple[Cond, Cond]:
    return v >= low(r), v < low(r) + extent(r)


def _differences(conditions: Iterable[Cond]) -> list[Expr]:
    """The nonnegative differences that inequalities state."""
    differences: list[Expr] = []
    for cond in conditions:
        if cond.op in (ops.GE, ops.LE, ops.GT, ops.LT):
            small, large = cond.args if cond.op in (ops.LE, ops.LT) else cond.args[::-1]
            differences.append(large - small if cond.op in (ops.LE, ops.GE) else large - small - 1)
    return differences


def _cases(
    ranges: Mapping[Var, Range], products: Collection[Var], terms: Iterable[Expr | Cond]
) -> list[dict[Expr, Expr]]:
    """Joint values of short loops in products, which make these products linear.

    A loop inside a remainder has one case for each remainder.
    """
    cases: list[dict[Expr, Expr]] = [{}]
    remainders = {node.args[0]: node.args[1] for node in dag.postorder(tuple(terms)) if node.op is ops.FLOORMOD}
    for v in ranges:
        start, length = constant_value(low(ranges[v])), environment.constant_extent(ranges[v])
        divisor = constant_value(remainders[v]) if v in remainders else None
        values: list[Expr] = []
        if start is not None and length is not None:
            values = [as_expr(value) for value in range(start, start + min(length, _MAX_CASES + 1))]
        elif divisor is not None and divisor > 0:
            quotient = Var(f"{v.name}.part")
            values = [quotient * divisor + k for k in range(min(divisor, _MAX_CASES + 1))]
        if v in products and values and len(cases) * len(values) <= _MAX_CASES:
            cases = [{**case, v: value} for case in cases for value in values]
    return cases


def _solved(context: Context, loops: Collection[Var], terms: Iterable[Expr | Cond]) -> dict[Expr, Expr]:
    """Sizes determined by equations among the facts: `n == e`, or `n % m == r` as `n == m*q + r`."""
    sizes = {v for term in terms for v in term.free_vars() if v not in loops}
    solutions: dict[Expr, Expr] = {}
    for fact in context.frame.conditions:
        if fact.op is not ops.EQ:
            continue
        left, right = fact.args
        if isinstance(left, Var) and left in sizes and left not in solutions and left not in right.free_vars():
            if not any(v in solutions for v in right.free_vars()):
                solutions[left] = right
        elif left.op is ops.FLOORMOD and right.is_const and left.args[1].is_const:
            v = left.args[0]
            if isinstance(v, Var) and v in sizes and v not in solutions:
                solutions[v] = Var(f"{v.name}.part") * left.args[1] + right
    return solutions


class _QuotientVariables:
    """Variables in place of quotients by symbolic sizes.

    Attributes
    ----------
    variables: one for each quotient.
    facts: `0 <= remainder < divisor` for each quotient. No loop runs at a divisor of 0.
    """

    def __init__(self, context: Context, loops: Collection[Var]) -> None:
        self.variables: list[Var] = []
        self.facts: list[Cond] = []
        self._context, self._loops = context, loops
        self._instead: dict[Expr, Expr] = {}
        self._of: dict[tuple[Expr, Expr], Var] = {}

    def without(self, cond: Cond) -> Cond:
        """The condition with variables in place of quotients."""
        for node in dag.postorder((cond,)):
            if not isinstance(node, Expr) or node.op not in environment.DIVISIONS or node in self._instead:
                continue
            divisor = node.args[1]
            if divisor.is_const or any(v in self._loops for v in divisor.free_vars()):
                continue
            if not self._context.prove(divisor >= 0):
                continue
            of = dag.substitute(node.args[0], self._instead)
            q = self._quotient(of, divisor)
            self._instead[node] = q if node.op is ops.FLOORDIV else of - divisor * q
        return dag.substitute(cond, self._instead)

    def _quotient(self, of: Expr, divisor: Expr) -> Var:
        variable = self._of.get((of, divisor))
        if variable is None:
            variable = self._of[of, divisor] = Var(f"q{len(self.variables)}")
            self.variables.append(variable)
            rest = of - divisor * variable
            self.facts += [divisor >= 1, rest >= 0, rest <= divisor - 1]
        return variable


def _sizes_in_products(conditions: Sequence[Cond], loops: Collection[Var]) -> list[Expr]:
    """The loop-free factors of products."""
    factors: dict[Expr, None] = {}
    for node in dag.postorder(tuple(conditions)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            factors.update((e, None) for e in node.args if not any(v in loops for v in e.free_vars()))
    return list(factors)

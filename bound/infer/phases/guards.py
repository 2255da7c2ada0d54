"""The guard of a nest whose region is no box: what membership says beyond the ranges of the loops.

Guards without those that others imply.

A guard that holds wherever the loops around the body run and the other guards let it is left out; so none of what is
left is implied by the rest. What starts a reduction stands in other loops and has guards of its own (`start`).


Whether a guard is implied by others: asked of the domain, also where sizes are multiplied with loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bound.infer.footprints.environment import LoopEnvironment
from bound.infer.footprints.footprint import end_forms
from bound.infer.footprints.instances import transitive_ranges
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.itervar import IterVar
from intset import config
from intset.context import Context
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import conjuncts, is_small, postorder, substitute
from intset.linear.canonical import Normalizer

_MEMBERSHIP_OPERATIONS: Final = 400_000  # of the domain, for the guard of one region


def membership_guards(
    env: LoopEnvironment, bounds: StageBounds, values: Sequence[Expr], overrun: Collection[IterVar]
) -> list[Cond]:
    """The conditions that the point `values`, which lies where loops and other guards keep it, is in the region.

    Beyond the end of the ranges of the roots `overrun` loops run on, kept from there by other guards.
    """
    footprint = bounds.region
    axes = data_axes(bounds.op)
    point = [Var(f"x{k}") for k in range(len(axes))]
    inside: list[Cond] = []
    for x, iv in zip(point, axes, strict=True):
        limits = bounds.ranges[iv]
        assert isinstance(limits.min, Expr)
        inside += [x >= low.expr() for low in end_forms(env, limits.min, ops.MAX)]
        # The ends of the box mean nothing where the region is empty, so each counts only where it is enforced.
        if iv not in overrun:
            inside += [x <= high.expr() for high in end_forms(env, limits.max, ops.MIN)]
        if iv in overrun or iv in bounds.widened:
            inside += [x <= high.expr() for high in bounds.sides[iv].highs]
        if iv in bounds.aligned:
            inside += [x >= low.expr() for low in bounds.sides[iv].lows]
    outer = transitive_ranges(env, (*footprint.unguarded.variables(), *_variables(inside)))
    ranges: dict[Var, Range | None] = {**dict.fromkeys(point), **outer}
    kept = [v for v in (*env.size_ranges, *ranges) if v not in point]
    try:
        with config.using(isl_operations=env.account.allowed(_MEMBERSHIP_OPERATIONS)):
            within = image_in_instances(env.context.extended(ranges, inside), point, kept, env.regions).shape
        with env.budget(_MEMBERSHIP_OPERATIONS):
            found: Cond | None = footprint.unguarded.simplified(within).condition(values)
    except BudgetError:
        found = None
    parts = footprint.conditions(values) if found is None else [*footprint.guard.conditions(()), *conjuncts(found)]
    return [part for part in parts if not is_known(env, part)]


def is_known(env: LoopEnvironment, cond: Cond) -> bool:
    """Whether a condition is known to hold."""
    forms = env.forms_of(cond)
    return forms is not None and all(
        env.is_nonneg(form) and (kind == "ge" or env.is_nonneg(form.scale(-1))) for kind, form in forms
    )


def _variables(conditions: Iterable[Cond]) -> list[Var]:
    return list(dict.fromkeys(v for cond in conditions for v in cond.free_vars()))


_MAX_GUARDS: Final = 32  # more are left as they are
_MAX_NODES: Final = 400  # longer guards are left as they are
_SLOW: Final = (*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT)
_FORMS: Final = Normalizer({})
_SIZES: Final = (7, 13, 101)  # values of open sizes at which a point is looked for where a guard is needed


def without_implied(env: LoopEnvironment, loops: Sequence[Var], guards: Sequence[Cond]) -> tuple[Cond, ...]:
    """The guards, in their order, without those that are implied; of equal ones the cheapest stays.

    Parameters
    ----------
    loops: all around the body.
    """
    parts = list(dict.fromkeys(part for guard in guards for part in conjuncts(guard)))
    if len(parts) > _MAX_GUARDS or not is_small(_MAX_NODES, parts):
        return tuple(guards)
    alike: dict[Cond, list[Cond]] = {}
    for part in parts:
        alike.setdefault(_FORMS.cond(part), []).append(part)
    kept = [min(same, key=_cost) for same in alike.values()]
    telling = [v for v in loops if v in env.ranges and not _runs(env.ranges[v])]
    removed = len(kept) < len(parts)
    for guard in sorted(kept, key=_cost, reverse=True):
        others = [other for other in kept if other is not guard]
        ranges = transitive_ranges(env, [*(v for cond in (guard, *others) for v in cond.free_vars()), *telling])
        if not _has_witness(env, ranges, guard, others) and is_implied(env, ranges, guard, others):
            kept.remove(guard)
            removed = True
    return tuple(kept) if removed else tuple(guards)


def _runs(r: Range) -> bool:
    """Whether a loop is seen to have iterations, so that it tells nothing of what its ends mention."""
    extent = constant_value(finite(r.extent))
    return extent is not None and extent > 0


def _cost(guard: Cond) -> tuple[int, int]:
    """The divisions in a guard, and its size."""
    nodes = list(postorder((guard,)))
    return sum(1 for node in nodes if node.op in _SLOW), len(nodes)


def _has_witness(env: LoopEnvironment, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether the guard is seen to keep an iteration from running that nothing else does.

    Looked at are a few points: the loops of the guard at their ends, all others at their beginnings.
    """
    own = set(guard.free_vars())
    sizes = [v for v in _mentioned((guard, *others), ranges) if v not in ranges]
    facts = env.context.frame.conditions
    place = {v: k for k, v in enumerate(env.ranges)}
    for value in _SIZES if sizes else _SIZES[:1]:
        point: dict[Expr, int] = {v: _declared_near(v, value) for v in sizes}
        try:
            for v in sorted(ranges, key=place.__getitem__):
                r = ranges[v]
                low = int(evaluate(finite(r.min), point))
                extent = int(evaluate(finite(r.extent), point))
                if extent < 1:
                    raise EvaluationError("a loop that does not run")
                point[v] = low + extent - 1 if v in own else low
            inside = all(_within(env.context.ranges.get(v), point, point[v]) for v in sizes)
            if inside and all(evaluate(cond, point) for cond in (*facts, *others)) and not evaluate(guard, point):
                return True
        except (EvaluationError, InputError):
            continue
    return False


def _declared_near(v: Var, value: int) -> int:
    """A value of a size near to `value` that the variable allows."""
    low, high, step = v.declared()
    value = value if low is None else max(value, low)
    value = value if high is None else min(value, high)
    return value - value % step


def _within(r: Range | None, point: Mapping[Expr, int], value: int) -> bool:
    if r is None:
        return True
    low = evaluate(r.min, point) if isinstance(r.min, Expr) else value
    high = evaluate(r.max, point) if isinstance(r.max, Expr) else value
    return bool(low <= value <= high)


def _mentioned(conditions: Iterable[Cond], ranges: Mapping[Var, Range]) -> list[Var]:
    found = [v for cond in conditions for v in cond.free_vars()]
    found += [v for r in ranges.values() for v in r.free_vars()]
    return list(dict.fromkeys(found))


_PROOF_OPERATIONS: Final = 60_000  # of the domain, for one guard
_MAX_CASES: Final = 16  # values of loops that are tried one by one
_DIVISIONS: Final = (ops.FLOORDIV, ops.FLOORMOD)


def is_implied(env: LoopEnvironment, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether a guard holds wherever the loops run and all others hold.

    The domain is asked. Where sizes are multiplied with loops, or divide them, it is asked again with what facts say of
    the sizes put in for these, and with few values of loops one by one; and whether that the guard fails contradicts
    the rest, also where all of it is multiplied by a size.
    """
    with config.using(
        tiers=config.tiers_within(config.Effort.SETS),
        isl_operations=env.account.allowed(_PROOF_OPERATIONS),
    ):
        asked = _Implication(env.context, ranges, guard, tuple(others))
        if asked.is_proved():
            return True
        terms: tuple[Expr | Cond, ...] = (guard, *others, *map(_extent, ranges.values()))
        products = _in_products(terms)
        if not products and not _in_divisors(terms):
            return False
        solved = asked.at(_solved(env.context, ranges, terms))
        cases = [solved.at(case) for case in _cases(ranges, products, terms)]
        return all(case.is_proved() for case in cases) or solved.is_refuted()


@dataclass(frozen=True)
class _Implication:
    """Whether a guard holds where the loops run and all others hold.

    Attributes
    ----------
    context: sizes, and what is known of them.
    """

    context: Context
    ranges: Mapping[Var, Range]
    guard: Cond
    others: tuple[Cond, ...]

    def at(self, instead: Mapping[Expr, Expr]) -> _Implication:
        """The same where variables have other values, each an expression that they are equal to."""
        if not instead:
            return self
        ranges = {v: _moved(r, instead) for v, r in self.ranges.items() if v not in instead}
        new = (u for e in instead.values() for u in e.free_vars() if u not in self.context.ranges and u not in ranges)
        limits = [cond for v, r in self.ranges.items() if v in instead for cond in _range_conditions(v, r)]
        told = [v.eq(e) for v, e in instead.items() if isinstance(v, Var) and v not in self.ranges]
        context = self.context.extended(dict.fromkeys(new), told)
        guard, *others = (_FORMS.cond(substitute(cond, instead)) for cond in (self.guard, *limits, *self.others))
        return _Implication(context, ranges, guard, tuple(others))

    def is_proved(self) -> bool:
        """Whether the domain says so."""
        context = self.context.extended(dict(self.ranges), self.others)
        return context.frame.known.empty or bool(context.prove(self.guard))

    def is_refuted(self) -> bool:
        """Whether it is a contradiction that the guard fails, also multiplied by each size that products hold.

        With products as variables that is linear: of `o >= 4`, `c >= 0` and `4*c >= n` the first times the second says
        what `o*c <= n - 1` denies. Quotients by sizes are variables, of which the remainders say where they are.
        """
        quotients = _QuotientVariables(self.context, self.ranges)
        limits = [cond for v, r in self.ranges.items() for cond in _range_conditions(v, r)]
        goal, *rest = (quotients.without(cond) for cond in (self.guard, *limits, *self.others))
        facts = [*rest, *quotients.facts]
        loops = [*self.ranges, *quotients.made]
        factors = [e for e in _sizes_in_products((goal, *facts), loops) if self.context.prove(e >= 0)]
        differences = _differences((goal,))
        if len(differences) != 1 or not factors:
            return False
        below = -differences[0] - 1
        facts += [below >= 0, *(below * e >= 0 for e in factors)]
        more = [difference * e >= 0 for difference in _differences(facts) for e in factors]
        contexts = (self.context.extended(dict.fromkeys(loops), told) for told in (facts, [*facts, *more]))
        return any(context.frame.known.empty or bool(context.prove(goal)) for context in contexts)


def _moved(r: Range, instead: Mapping[Expr, Expr]) -> Range:
    low, extent = (_FORMS.form(substitute(end, instead)).expr() for end in (finite(r.min), _extent(r)))
    return Range(low, 0 if extent.is_const and extent.data < 0 else extent)


def _range_conditions(v: Var, r: Range) -> tuple[Cond, Cond]:
    return v >= finite(r.min), v < finite(r.min) + _extent(r)


def _differences(conditions: Iterable[Cond]) -> list[Expr]:
    """For each comparison that says so, what is at least 0."""
    found: list[Expr] = []
    for cond in conditions:
        if cond.op in (ops.GE, ops.LE, ops.GT, ops.LT):
            small, large = cond.args if cond.op in (ops.LE, ops.LT) else cond.args[::-1]
            found.append(large - small if cond.op in (ops.LE, ops.GE) else large - small - 1)
    return found


def _in_products(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in products of two that are not constant."""
    found: dict[Var, None] = {}
    for node in postorder(tuple(terms)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update(dict.fromkeys(node.free_vars()))
    return list(found)


def _in_divisors(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in what something is divided by."""
    return [v for node in postorder(tuple(terms)) if node.op in _DIVISIONS for v in node.args[1].free_vars()]


def _cases(
    ranges: Mapping[Var, Range], products: Collection[Var], terms: Iterable[Expr | Cond]
) -> list[dict[Expr, Expr]]:
    """The values, together, of loops of few iterations that occur in products: with these the products are linear.

    A loop of which a remainder occurs has a case for each remainder.
    """
    cases: list[dict[Expr, Expr]] = [{}]
    remainders = {node.args[0]: node.args[1] for node in postorder(tuple(terms)) if node.op is ops.FLOORMOD}
    for v in ranges:
        low, extent = constant_value(finite(ranges[v].min)), constant_value(_extent(ranges[v]))
        divisor = constant_value(remainders[v]) if v in remainders else None
        values: list[Expr] = []
        if low is not None and extent is not None:
            values = [as_expr(value) for value in range(low, low + min(extent, _MAX_CASES + 1))]
        elif divisor is not None and divisor > 0:
            quotient = Var(f"{v.name}.part")
            values = [quotient * divisor + k for k in range(min(divisor, _MAX_CASES + 1))]
        if v in products and values and len(cases) * len(values) <= _MAX_CASES:
            cases = [{**case, v: value} for case in cases for value in values]
    return cases


def _solved(context: Context, loops: Collection[Var], terms: Iterable[Expr | Cond]) -> dict[Expr, Expr]:
    """Sizes that a fact says what they are: a remainder more than a multiple, or a form of other sizes."""
    sizes = {v for term in terms for v in term.free_vars() if v not in loops}
    found: dict[Expr, Expr] = {}
    for fact in context.frame.conditions:
        if fact.op is not ops.EQ:
            continue
        left, right = fact.args
        if isinstance(left, Var) and left in sizes and left not in found and left not in right.free_vars():
            if not any(v in found for v in right.free_vars()):
                found[left] = right
        elif left.op is ops.FLOORMOD and right.is_const and left.args[1].is_const:
            v = left.args[0]
            if isinstance(v, Var) and v in sizes and v not in found:
                found[v] = Var(f"{v.name}.part") * left.args[1] + right
    return found


def finite(end: object) -> Expr:
    """An end of a range.

    Raises
    ------
    InputError: it is open.
    """
    if not isinstance(end, Expr):
        raise InputError("an open end")
    return end


def _extent(r: Range) -> Expr:
    return finite(r.extent)


class _QuotientVariables:
    """Divisions by sizes that are not constant, with a variable for each quotient.

    Attributes
    ----------
    made: the variables.
    facts: that the remainders are what remainders are. A size that is 0 divides nothing: no loop runs there.
    """

    def __init__(self, context: Context, loops: Collection[Var]) -> None:
        self.made: list[Var] = []
        self.facts: list[Cond] = []
        self._context, self._loops = context, loops
        self._instead: dict[Expr, Expr] = {}
        self._of: dict[tuple[Expr, Expr], Var] = {}

    def without(self, cond: Cond) -> Cond:
        """The condition over the variables."""
        for node in postorder((cond,)):
            if not isinstance(node, Expr) or node.op not in _DIVISIONS or node in self._instead:
                continue
            divisor = node.args[1]
            if divisor.is_const or any(v in self._loops for v in divisor.free_vars()):
                continue
            if not self._context.prove(divisor >= 0):
                continue
            of = substitute(node.args[0], self._instead)
            q = self._quotient(of, divisor)
            self._instead[node] = q if node.op is ops.FLOORDIV else of - divisor * q
        return substitute(cond, self._instead)

    def _quotient(self, of: Expr, divisor: Expr) -> Var:
        found = self._of.get((of, divisor))
        if found is None:
            found = self._of[of, divisor] = Var(f"q{len(self.made)}")
            self.made.append(found)
            rest = of - divisor * found
            self.facts += [divisor >= 1, rest >= 0, rest <= divisor - 1]
        return found


def _sizes_in_products(conditions: Sequence[Cond], loops: Collection[Var]) -> list[Expr]:
    """The factors of products that no loop is in."""
    found: dict[Expr, None] = {}
    for node in postorder(tuple(conditions)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update((e, None) for e in node.args if not any(v in loops for v in e.free_vars()))
    return list(found)

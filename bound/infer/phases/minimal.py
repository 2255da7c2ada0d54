"""Guards without those that others imply.

A guard that holds wherever the loops and the other guards let the body run is left out; so none of what is left is
implied by the rest. What starts a reduction runs under the guards on data alone, so a guard is left out only for others
that know of no more reduction loops than it does itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from bound.infer.needs.instances import closed
from bound.infer.needs.known import Known
from bound.infer.phases.stage_bounds import StageBounds
from intset import config
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.evaluate import evaluate
from intset.expr.node import Cond, Expr, Var, as_expr, constant_value
from intset.expr.range import Range
from intset.expr.walk import conjuncts, is_small, postorder, substitute

_OPERATIONS: Final = 60_000  # of the domain, for one guard
_MAX_GUARDS: Final = 32  # more are left as they are
_MAX_NODES: Final = 400  # longer guards are left as they are
_MAX_CASES: Final = 16  # values of loops that are tried one by one
_SLOW: Final = (*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT)
_SIZES: Final = (7, 13, 101)  # values of open sizes at which a point is looked for where a guard is needed


def minimal(known: Known, bounds: StageBounds, guards: Sequence[Cond]) -> tuple[Cond, ...]:
    """The guards, in their order, without those that are implied; of equal ones the cheapest stays."""
    kept = list(dict.fromkeys(part for guard in guards for part in conjuncts(guard)))
    if len(kept) > _MAX_GUARDS or not is_small(_MAX_NODES, kept):
        return tuple(guards)
    removed = False
    for guard in sorted(kept, key=_cost, reverse=True):
        reduced = _reductions(bounds, guard)
        others = [other for other in kept if other is not guard and _reductions(bounds, other) <= reduced]
        ranges = closed(known, [v for cond in (guard, *others) for v in cond.free_vars()])
        if not _has_witness(known, ranges, guard, others) and _is_implied(known, ranges, guard, others):
            kept.remove(guard)
            removed = True
    return tuple(kept) if removed else tuple(guards)


def _cost(guard: Cond) -> tuple[int, int]:
    """The divisions in a guard, and its size."""
    nodes = list(postorder((guard,)))
    return sum(1 for node in nodes if node.op in _SLOW), len(nodes)


def _reductions(bounds: StageBounds, guard: Cond) -> set[Var]:
    used = set(guard.free_vars())
    return {iv for iv in bounds.stage.leaf_iter_vars if iv in used and iv.is_reduce}


def _is_implied(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    context = known.context.extended(dict(ranges), others)
    if context.frame.known.empty:
        return False  # the body never runs: some guard has to say so
    with config.using(tiers=config.tiers_within(config.Effort.SETS), isl_operations=known.account.allowed(_OPERATIONS)):
        if context.prove(guard):
            return True
        terms: tuple[Expr | Cond, ...] = (guard, *others, *map(_extent, ranges.values()))
        products = set(_in_products(terms))
        if not products:
            return False
        solved = _solved(known, products)
        cases = _cases(ranges, products, terms)
        if not solved and len(cases) == 1:
            return False
        return all(_is_proved(known, {**solved, **case}, ranges, guard, others) for case in cases)


def _is_proved(
    known: Known,
    instead: Mapping[Expr, Expr],
    ranges: Mapping[Var, Range],
    guard: Cond,
    others: Sequence[Cond],
) -> bool:
    """Whether a guard holds where variables have other values, each an expression that they are equal to."""
    inside: dict[Var, Range | None] = {
        v: Range(substitute(_expr(r.min), instead), substitute(_extent(r), instead))
        for v, r in ranges.items()
        if v not in instead
    }
    new = (u for e in instead.values() for u in e.free_vars() if u not in known.context.ranges and u not in inside)
    inside |= dict.fromkeys(new)
    limits = [
        cond for v, r in ranges.items() if v in instead for cond in (v >= _expr(r.min), v < _expr(r.min) + _extent(r))
    ]
    told = [v.eq(e) for v, e in instead.items() if v not in ranges]
    context = known.context.extended(inside, [*told, *(substitute(cond, instead) for cond in (*limits, *others))])
    return context.frame.known.empty or bool(context.prove(substitute(guard, instead)))


def _in_products(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in products of two that are not constant, and in divisors."""
    found: dict[Var, None] = {}
    for node in postorder(tuple(terms)):
        if node.op is ops.MUL and not any(arg.is_const for arg in node.args):
            found.update(dict.fromkeys(node.free_vars()))
    return list(found)


def _cases(
    ranges: Mapping[Var, Range], products: Collection[Var], terms: Iterable[Expr | Cond]
) -> list[dict[Expr, Expr]]:
    """The values, together, of loops of few iterations that occur in products: with these the products are linear.

    A loop of which a remainder occurs has a case for each remainder.
    """
    cases: list[dict[Expr, Expr]] = [{}]
    remainders = {node.args[0]: node.args[1] for node in postorder(tuple(terms)) if node.op is ops.FLOORMOD}
    for v in ranges:
        low, extent = constant_value(_expr(ranges[v].min)), constant_value(_extent(ranges[v]))
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


def _solved(known: Known, products: Collection[Var]) -> dict[Expr, Expr]:
    """Sizes in products that a fact says what they are: a remainder more than a multiple, or a form of other sizes."""
    found: dict[Expr, Expr] = {}
    for fact in known.context.frame.conditions:
        if fact.op is not ops.EQ:
            continue
        left, right = fact.args
        if isinstance(left, Var) and left in products and left not in found and left not in right.free_vars():
            if not any(v in found for v in right.free_vars()):
                found[left] = right
        elif left.op is ops.FLOORMOD and right.is_const and left.args[1].is_const:
            v = left.args[0]
            if isinstance(v, Var) and v in products and v not in found:
                found[v] = Var(f"{v.name}.part") * left.args[1] + right
    return found


def _extent(r: Range) -> Expr:
    return _expr(r.extent)


def _has_witness(known: Known, ranges: Mapping[Var, Range], guard: Cond, others: Sequence[Cond]) -> bool:
    """Whether the guard is seen to keep an iteration from running that nothing else does.

    Looked at are a few points: the loops of the guard at their ends, all others at their beginnings.
    """
    own = set(guard.free_vars())
    sizes = [v for v in _mentioned((guard, *others), ranges) if v not in ranges]
    facts = known.context.frame.conditions
    place = {v: k for k, v in enumerate(known.ranges)}
    for value in _SIZES if sizes else _SIZES[:1]:
        point: dict[Expr, int] = {v: _declared_near(v, value) for v in sizes}
        try:
            for v in sorted(ranges, key=place.__getitem__):
                r = ranges[v]
                low = int(evaluate(_expr(r.min), point))
                extent = int(evaluate(_expr(r.extent), point))
                if extent < 1:
                    raise EvaluationError("a loop that does not run")
                point[v] = low + extent - 1 if v in own else low
            inside = all(_within(known.context.ranges.get(v), point, point[v]) for v in sizes)
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


def _expr(end: object) -> Expr:
    if not isinstance(end, Expr):
        raise InputError("an open end")
    return end


def _mentioned(conditions: Iterable[Cond], ranges: Mapping[Var, Range]) -> list[Var]:
    found = [v for cond in conditions for v in cond.free_vars()]
    found += [v for r in ranges.values() for v in r.free_vars()]
    return list(dict.fromkeys(found))

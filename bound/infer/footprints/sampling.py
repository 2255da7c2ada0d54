"""Sampled instances: joint values of sizes and loops, evaluated as witnesses against claims about all instances.

A claim that fails is refuted by a sample in microseconds, by a prover in milliseconds. First come corners, all loops at
their first or last iteration at a few large sizes; then, where proofs are long, iterations drawn at small sizes.

Nothing depends on time or on earlier questions: the same question draws the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from bound.infer.footprints.environment import LoopEnvironment, Span, is_inside, within
from bound.schedule.simple import low
from intset.errors import EvaluationError, InputError
from intset.expr import ops
from intset.expr.dag import free_vars, is_nonlinear, nonlinear_nodes, opaque_terms, operations
from intset.expr.evaluate import compiled, evaluate, point_value
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range, range_conditions

_SIZES: Final = (1009, 7, 13, 101)  # distances of a sampled size from its lower end; not multiples of common tiles
_SPREADS: Final = (4, 12, 40)  # of mixed sizes above their lower ends, in turn
FEW: Final = 24  # mixed attempts where a claim costs little to prove
DIVISIONS: Final = (ops.FLOORDIV, ops.FLOORMOD)
_BRANCHING: Final = frozenset((*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT, ops.OR))  # more than linear arithmetic

Point = dict[Expr, int]


def takes_two_values(env: LoopEnvironment, e: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether two sampled instances give `e` different values."""
    if env.witnesses.give_two_values(e, conditions):
        return True
    seen: set[int] = set()
    for point in sample_instances(env, ranges, conditions, (e,), mixed=FEW):
        value = point_value(e, point)
        if value is not None:
            seen.add(value)
        if len(seen) > 1:
            return True
    return False


def has_instance(env: LoopEnvironment, ranges: Mapping[Var, Range], conditions: Sequence[Cond], mixed: int = 0) -> bool:
    """Whether some sampled instance satisfies the conditions."""
    return any(True for _ in sample_instances(env, ranges, conditions, mixed=mixed))


def sample_instances(
    env: LoopEnvironment,
    ranges: Mapping[Var, Range],
    conditions: Sequence[Cond],
    roots: Sequence[Expr | Cond] = (),
    last: Collection[Var] | None = None,
    mixed: int = 0,
) -> Iterator[Point]:
    """A few instances that satisfy `conditions` and the user's facts: values of all variables, sizes included.

    Guarantee: every point yielded is an instance. Finding none proves nothing.

    Parameters
    ----------
    ranges: the loops, closed under `transitive_ranges`.
    roots: further expressions whose variables get values.
    last: loops at their last iteration, all others at the first; by default, points with all loops first and all
        loops last.
    mixed: where proofs take more than linear arithmetic, the number of further attempts: at small sizes, with loops at
        drawn iterations.
    """
    drawing = _Drawing(env, ranges, conditions, roots)
    yield from drawing.corners(last)
    if mixed and _has_long_proofs((*roots, *conditions, *(as_expr(r.extent) for r in ranges.values()))):
        yield from drawing.mixed(mixed)


class Violations:
    """Drawn iterations at which guards fail, for all guards of one nest together.

    Parameters
    ----------
    ranges: the loops, closed under `transitive_ranges`.
    most: the number of attempts, for all guards together.
    """

    def __init__(self, env: LoopEnvironment, ranges: Mapping[Var, Range], guards: Sequence[Cond], most: int) -> None:
        self._guards = guards
        self._failing: list[frozenset[Cond]] = []
        self._points: Iterator[Point] = iter(())
        ends = (end for r in ranges.values() for end in (low(r), as_expr(r.extent)))
        if _has_long_proofs((*guards, *ends)) and not opaque_terms(*guards):
            drawing = _Drawing(env, ranges, (), guards)
            self._points = drawing.mixed(most)
            self._tests = [(guard, compiled(guard, drawing.order)) for guard in guards]

    def has_alone(self, guard: Cond, others: Collection[Cond]) -> bool:
        """Whether a drawn iteration violates `guard` and satisfies `others`."""
        return any(guard in failing and failing.isdisjoint(others) for failing in self._drawn())

    def _drawn(self) -> Iterator[frozenset[Cond]]:
        """The guards that fail at each drawn iteration, those of earlier calls first."""
        yield from self._failing
        for point in self._points:
            failing = _failing(self._tests, tuple(point.values()))
            if failing:
                self._failing.append(failing)
                yield failing


def _failing(tests: Sequence[tuple[Cond, Callable[..., Any]]], values: Sequence[int]) -> frozenset[Cond]:
    """The guards that fail at a point; none where one has no value."""
    try:
        return frozenset(guard for guard, test in tests if not test(*values))
    except (ArithmeticError, EvaluationError, InputError):
        return frozenset()


class _Drawing:
    """Values of sizes, then of loops in their order, as far as all ranges and conditions hold.

    Attributes
    ----------
    order: the sizes, then the loops: the order of the values of each point.
    """

    def __init__(
        self,
        env: LoopEnvironment,
        ranges: Mapping[Var, Range],
        conditions: Sequence[Cond],
        roots: Sequence[Expr | Cond],
    ) -> None:
        self.env, self.ranges = env, ranges
        self.facts = (*conditions, *env.context.frame.conditions)
        position = {v: k for k, v in enumerate(env.ranges)}
        self.loops = sorted(ranges, key=position.__getitem__)
        used = dict.fromkeys(v for root in (*roots, *self.facts, *ranges.values()) for v in root.free_vars())
        self.sizes = [v for v in used if v not in ranges]
        self.equal = _equated(self.sizes, self.env.context.frame.conditions)
        self.order = [*self.sizes, *self.loops]
        self.has_data = bool(opaque_terms(*self.facts))

    def corners(self, last: Collection[Var] | None) -> Iterator[Point]:
        """The loops of `last` at their last iteration, others at their first; by default all first, and all last."""
        if self.has_data:
            return
        for magnitude in _SIZES if self.sizes else _SIZES[:1]:
            for at_end in ((), self.loops) if last is None else (last,):
                point: Point = {v: within(_span(self.env, v), magnitude) for v in self.sizes}
                point.update({v: point[other] for v, other in self.equal.items()})
                if self._enter(point, [-1 if v in at_end else 0 for v in self.loops]):
                    yield point

    def _enter(self, point: Point, iterations: Sequence[int]) -> bool:
        """Extend values of sizes by those of loops, counted modulo their extents; whether that is an instance."""
        try:
            for v, iteration in zip(self.loops, iterations, strict=True):
                first, last = (int(evaluate(as_expr(end), point)) for end in (self.ranges[v].min, self.ranges[v].max))
                if first > last:
                    return False
                point[v] = first + iteration % (last - first + 1)
            inside = all(is_inside(self.env.context.ranges.get(v), point, point[v]) for v in self.sizes)
            return inside and all(evaluate(fact, point) for fact in self.facts)
        except (EvaluationError, InputError):
            return False

    def mixed(self, attempts: int) -> Iterator[Point]:
        """Instances at small sizes: in turn near the ends of the loops, and anywhere in them."""
        if self.has_data:
            return
        numbers = _noise()
        spans = [_span(self.env, v) for v in self.sizes]
        equal = [(self.sizes.index(v), self.sizes.index(other)) for v, other in self.equal.items()]
        ends = [self._ends_of(v) for v in self.loops]
        stated = self.env.context.ranges
        limits = [cond for v in self.sizes if v in stated for cond in range_conditions(v, stated[v])]
        facts = [compiled(fact, self.order) for fact in (*limits, *self.facts)]
        for k in range(attempts):
            spread = _SPREADS[k % len(_SPREADS)]
            values = [within(span, next(numbers) % spread) for span in spans]
            for v, other in equal:
                values[v] = values[other]
            steps = list(islice(numbers, len(self.loops)))
            iterations = [(0, -1, 1, step >> 2)[step & 3] for step in steps] if k % 2 else steps
            try:
                if _run(values, ends, iterations) and all(fact(*values) for fact in facts):
                    yield dict(zip(self.order, values, strict=True))
            except (ArithmeticError, EvaluationError, InputError):
                continue

    def _ends_of(self, v: Var) -> tuple[Callable[..., int], Callable[..., int]]:
        """The ends of a loop, compiled as functions of sizes and outer loops."""
        known = self.order[: self.order.index(v)]
        return compiled(low(self.ranges[v]), known), compiled(as_expr(self.ranges[v].max), known)


def _equated(sizes: Sequence[Var], facts: Iterable[Cond]) -> dict[Var, Var]:
    """Sizes that facts equate with another one, such as two extents of one thread axis, to the first of them."""
    first: dict[Var, Var] = {}
    for fact in facts:
        if fact.op is ops.EQ and all(arg.op is ops.VAR and arg in sizes for arg in fact.args):
            a, b = sorted((first.get(v, v) for v in fact.args), key=sizes.index)
            first = {v: a if other is b else other for v, other in first.items()}
            first.update({b: a} if a is not b else {})
    return first


def in_products(terms: Iterable[Expr | Cond]) -> list[Var]:
    """The variables in products of nonconstant factors."""
    return list(free_vars(*(node for node in nonlinear_nodes(terms) if node.op is ops.MUL)))


def _has_long_proofs(terms: Sequence[Expr | Cond]) -> bool:
    """Whether proofs about these terms need case splits or nonlinear arithmetic."""
    return any(not _BRANCHING.isdisjoint(operations(term)) for term in terms) or is_nonlinear(terms)


def _noise() -> Iterator[int]:
    """Pseudo-random numbers below 2**24 from Marsaglia's xorshift generator with a fixed seed."""
    state = 2463534242
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state >> 8


def _span(env: LoopEnvironment, v: Var) -> Span:
    return *env.bounds(env.form(v)), v.declared()[2]


def _run(
    values: list[int], ends: Sequence[tuple[Callable[..., int], Callable[..., int]]], iterations: Sequence[int]
) -> bool:
    """Extend values of sizes by those of loops, counted modulo their extents; whether every loop runs."""
    for (first, last), iteration in zip(ends, iterations, strict=True):
        start, end = first(*values), last(*values)
        if start > end:
            return False
        values.append(start + iteration % (end - start + 1))
    return True

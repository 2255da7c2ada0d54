"""Drawn instances: joint values of sizes and loops, evaluated as witnesses against claims about all instances.

A claim that fails is refuted by a sample in microseconds, by a prover in milliseconds. First come corners, all loops at
their first or last iteration at a few large sizes; then, where proofs are long, iterations drawn at small sizes.

Nothing depends on time or on earlier questions: the same question draws the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from bound.schedule.simple import low
from intset.context import Context
from intset.errors import EvaluationError, InputError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag, ops
from intset.expr.evaluate import compiled, evaluate, point_value
from intset.expr.range import range_conditions
from intset.linear.form import Linear

if TYPE_CHECKING:
    from bound.infer.footprints.environment import LoopEnvironment

_SIZES: Final = (1009, 7, 13, 101)  # distances of a sampled size from its lower end; not multiples of common tiles
_SPREADS: Final = (4, 12, 40)  # of mixed sizes above their lower ends, in turn
FEW: Final = 24  # mixed attempts where a claim costs little to prove
DIVISIONS: Final = (ops.FLOORDIV, ops.FLOORMOD)
_BRANCHING: Final = frozenset((*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT, ops.OR))  # more than linear arithmetic

Point = dict[Expr, int]
Span = tuple[int | None, int | None, int]  # low end, high end, step

# The distance of each size from its lower end; the iteration of each loop in turn, modulo its extent.
_DRAWN: Final = ((1009, (0,)), (7, (-1,)), (12, (0, -1, 1)), (2, (-1, 0)), (4, (1, -2, 3)))


def within(span: Span, magnitude: int) -> int:
    """A value `magnitude` above the lower end of a size, within its upper end and a multiple of its declared step."""
    least, most, step = span
    value = magnitude if least is None else least + magnitude
    value = value if most is None else min(value, most)
    value -= value % step
    return value if least is None or value >= least else value + step


class Witnesses:
    """A few instances, each with every loop running.

    Guarantee: a form that `refute` confirms is negative in an instance, so no proof of the contrary is lost.

    Parameters
    ----------
    ends: numeric ends of a size.
    loops: the ranges of the loops; it may grow.
    """

    def __init__(
        self, context: Context, ends: Callable[[Var], tuple[int | None, int | None]], loops: Mapping[Var, Range]
    ) -> None:
        self._context, self._ends, self._loops = context, ends, loops
        self._instances: list[_Instance] | None = None
        self._pending: list[Var] = []

    def enter(self, loop: Var) -> None:
        """Drop the instances in which a new loop does not run."""
        if not as_expr(self._loops[loop].extent).is_const:
            self._pending.append(loop)

    def refute(self, form: Linear) -> bool:
        """Whether a drawn instance makes the form negative."""
        return any(instance.makes_negative(form) for instance in self._running())

    def give_two_values(self, e: Expr, conditions: Sequence[Cond]) -> bool:
        """Whether two drawn instances that satisfy the conditions give `e` different values."""
        inside = (one.value(e, conditions) for one in self._running())
        return len({value for value in inside if value is not None}) > 1

    def _running(self) -> list[_Instance]:
        """The instances in which all loops entered so far run."""
        if self._instances is None:
            self._instances = self._drawn()
        if self._pending:
            self._instances = [one for one in self._instances if all(one.runs(v) for v in self._pending)]
            self._pending = []
        return self._instances

    def _drawn(self) -> list[_Instance]:
        facts, ranges = self._context.frame.conditions, self._context.ranges
        if dag.opaque_terms(*facts):
            return []
        instances = [_Instance(magnitude, steps, self._ends, self._loops) for magnitude, steps in _DRAWN]
        return [one for one in instances if one.satisfies(ranges, facts)]


class _Instance:
    """Values of sizes and loops, drawn on first use.

    Parameters
    ----------
    magnitude: the distance of each size from its lower end.
    steps: the iterations of the loops in turn, modulo their extents.
    ends: numeric ends of a size.
    last: loops at their last iteration, whatever `steps` says.
    equal: sizes that have the value of another one.
    """

    def __init__(
        self,
        magnitude: int,
        steps: Sequence[int],
        ends: Callable[[Var], tuple[int | None, int | None]],
        loops: Mapping[Var, Range],
        last: Collection[Var] = (),
        equal: Mapping[Var, Var] | None = None,
    ) -> None:
        self._magnitude, self._steps, self._ends, self._loops = magnitude, steps, ends, loops
        self._last, self._equal = last, equal or {}
        self.values: dict[Expr, int] = {}

    def satisfies(self, ranges: Mapping[Var, Range], facts: Iterable[Cond], also: Iterable[Var] = ()) -> bool:
        """Whether the sizes lie in their ranges and satisfy the facts, and the loops of `also` run."""
        try:
            for v in (*ranges, *also, *(v for fact in facts for v in fact.free_vars())):
                self._draw(v)
            inside = all(evaluate(cond, self.values) for v, r in ranges.items() for cond in range_conditions(v, r))
            return inside and all(evaluate(fact, self.values) for fact in facts)
        except (EvaluationError, InputError):
            return False

    def runs(self, v: Var) -> bool:
        """Whether a loop has an iteration."""
        try:
            self._draw(v)
        except (EvaluationError, InputError):
            return False
        return True

    def makes_negative(self, form: Linear) -> bool:
        """Whether the form is negative; `False` where it has no value."""
        try:
            return form.const + sum(k * self._value(e) for e, k in form.terms.items()) < 0
        except (EvaluationError, InputError):
            return False

    def value(self, e: Expr, conditions: Sequence[Cond]) -> int | None:
        """The value of an expression; `None` if it is undefined or a condition fails."""
        try:
            for v in (v for cond in conditions for v in cond.free_vars()):
                self._draw(v)
            return self._value(e) if all(evaluate(cond, self.values) for cond in conditions) else None
        except (EvaluationError, InputError):
            return None

    def _value(self, e: Expr) -> int:
        value = self.values.get(e)
        if value is None:
            for v in e.free_vars():
                self._draw(v)
            value = self.values[e] = int(evaluate(e, self.values))
        return value

    def _draw(self, v: Var) -> None:
        """Give a size or a loop its value.

        Raises
        ------
        EvaluationError: the loop does not run.
        """
        if v in self.values:
            return
        if v not in self._loops:
            same = self._equal.get(v)
            size = within((*self._ends(v), v.declared()[2]), self._magnitude) if same is None else self._value(same)
            self.values[v] = size
            return
        first, length = self._value(low(self._loops[v])), self._value(as_expr(self._loops[v].extent))
        if length < 1:
            raise EvaluationError(f"{v} has no iteration")
        step = -1 if v in self._last else self._steps[len(self.values) % len(self._steps)]
        self.values[v] = first + step % length


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
        self._failing: list[frozenset[Cond]] = []
        self._further = _failing_guards(env, ranges, tuple(guards), most)

    def has_alone(self, guard: Cond, others: Collection[Cond]) -> bool:
        """Whether a drawn iteration violates `guard` and satisfies `others`."""
        return any(guard in failing and failing.isdisjoint(others) for failing in self._drawn())

    def _drawn(self) -> Iterator[frozenset[Cond]]:
        """The guards that fail at each drawn iteration, those of earlier calls first."""
        yield from self._failing
        for failing in self._further:
            if failing:
                self._failing.append(failing)
                yield failing


def _failing_guards(
    env: LoopEnvironment, ranges: Mapping[Var, Range], guards: Sequence[Cond], most: int
) -> Iterator[frozenset[Cond]]:
    """The guards that fail at each drawn iteration; none are drawn for guards with short proofs or data."""
    ends = (end for r in ranges.values() for end in (low(r), as_expr(r.extent)))
    if not _has_long_proofs((*guards, *ends)) or dag.opaque_terms(*guards):
        return
    drawing = _Drawing(env, ranges, (), guards)
    tests = [(guard, compiled(guard, drawing.order)) for guard in guards]
    for point in drawing.mixed(most):
        yield _failing(tests, tuple(point.values()))


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
        self.has_data = bool(dag.opaque_terms(*self.facts))

    def corners(self, last: Collection[Var] | None) -> Iterator[Point]:
        """The loops of `last` at their last iteration, others at their first; by default all first, and all last."""
        if self.has_data:
            return
        ranges = {v: r for v, r in self.env.context.ranges.items() if v in self.sizes}
        for magnitude in _SIZES if self.sizes else _SIZES[:1]:
            for at_end in ((), self.loops) if last is None else (last,):
                one = _Instance(magnitude, (0,), self.env.ends_of, self.ranges, at_end, self.equal)
                if one.satisfies(ranges, self.facts, self.order):
                    yield {v: one.values[v] for v in self.order}

    def mixed(self, attempts: int) -> Iterator[Point]:
        """Instances at small sizes: in turn near the ends of the loops, and anywhere in them."""
        if self.has_data:
            return
        numbers = _noise()
        spans: list[Span] = [(*self.env.ends_of(v), v.declared()[2]) for v in self.sizes]
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
    return list(dag.free_vars(*(node for node in dag.nonlinear_nodes(terms) if node.op is ops.MUL)))


def _has_long_proofs(terms: Sequence[Expr | Cond]) -> bool:
    """Whether proofs about these terms need case splits or nonlinear arithmetic."""
    return any(not _BRANCHING.isdisjoint(dag.operations(term)) for term in terms) or dag.is_nonlinear(terms)


def _noise() -> Iterator[int]:
    """Pseudo-random numbers below 2**24 from Marsaglia's xorshift generator with a fixed seed."""
    state = 2463534242
    while True:
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        yield state >> 8


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

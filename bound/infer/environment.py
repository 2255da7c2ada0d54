"""`LoopEnvironment`, ranges of loops and sizes with cheap proofs of signs; instances, as sets, listed or drawn.

The environment is a `Normalizer` of `intset` whose table of ranges grows while the pass enters loops. A context would
canonicalise its facts again for every loop.

The instances of a stage are the joint values of the loop variables around it: a set, or enumerated. A loop
that other ranges depend on but that does not distinguish instances (a thread sharing storage) is projected out.

Drawn instances are witnesses against claims about all instances: a claim that fails is refuted by a sample in
microseconds, by a prover in milliseconds. First come corners, all loops at their first or last iteration at a few large
sizes; then, where proofs are long, iterations drawn at small sizes. Nothing depends on time or on earlier questions:
the same question draws the same points.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property
from itertools import islice, product, tee
from math import prod
from typing import TYPE_CHECKING, Any, Final

from bound.schedule import simple
from bound.schedule.simple import low
from intset.context import Context
from intset.domains.registry import domain_named, regions_of, strongest
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, EvaluationError, InputError
from intset.expr import Cond, Expr, IntLike, Node, Range, Var, arguments, as_expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness, is_partial
from intset.expr.evaluate import compiled, point_value, repeatable
from intset.expr.node import POS_INF, truth
from intset.expr.range import range_conditions
from intset.linear.canonical import Normalizer, form_of, unranged
from intset.linear.form import Linear, atom, is_affine
from intset.linear.signs import Member, is_met, taken_values
from intset.regions.shape import Account, Shape
from intset.spaces.space import Space

if TYPE_CHECKING:
    from intset.domains.query import Regions


SCHEDULE: Final = 1_000_000  # operations of the domain for all steps of InferBound together, in a short schedule
SCHEDULE_PER_STAGE: Final = 150_000  # operations more for each stage of a schedule
SCHEDULE_LEAST: Final = 10_000  # operations granted to every step, even when the account is spent

Ends = tuple[int | None, int | None]


def create_account(stages: int) -> Account:
    """The budget of the domain for a schedule of `stages` stages, in operations."""
    return Account(SCHEDULE + SCHEDULE_PER_STAGE * stages, SCHEDULE_LEAST)


class LoopEnvironment:
    """Ranges of loop variables and sizes, with the domain that answers about them and its budget.

    Invariant: a loop variable is entered once, before its first use, and its range never changes; so every answer,
    once true, stays true. Guarantee: bounds contain all values, and a sign is claimed only where it holds everywhere.

    Attributes
    ----------
    context: the user's facts and ranges; sizes without a range are at least 0.
    ranges: the range of every loop variable entered so far.
    domain: the name of the domain that answers.
    account: the remaining operations of the domain for this schedule.
    for_outlines: as many again, for boxes around footprints: exact sets may have spent the others.
    instances: memo of `instances`: by variables in any order, the order in which the domain was asked, and its answer.
    counts: memo of `count_of`, by what is counted.
    normalizer: forms with the ranges entered so far and the user's facts.
    """

    def __init__(self, context: Context, sizes: Iterable[Var], domain: str, account: Account) -> None:
        self.domain, self.account = domain, account
        self.for_outlines = Account(account.left, account.least)
        ranges = context.ranges
        unlimited = {var: Range(0, POS_INF) for var in sizes if var not in ranges}
        self.context = context.extended(unlimited) if unlimited else context
        frame = self.context.frame
        self.ranges: dict[Var, Range] = {}
        self._numeric: dict[Var, Ends] = dict(frame.known.ranges)
        self._limits = dict(frame.known.assumptions.limits)
        facts = frame.known.assumptions
        self.normalizer = Normalizer(self._numeric, facts._replace(limits=self._limits))
        self._is_plain = not facts.nonneg
        self.instances: dict[frozenset[Var], tuple[Sequence[Var], Shape | None]] = {}
        self.counts: dict[object, Expr] = {}

    @property
    def regions(self) -> Regions:
        """The domain of regions that are not boxes."""
        return regions_of(self.domain) or strongest()

    @property
    def has_regions(self) -> bool:
        """Whether the answering domain has regions."""
        return regions_of(self.domain) is not None

    @property
    def prefers_regions(self) -> bool:
        """Whether footprints bypass arithmetic on ends, because the user named a domain of regions."""
        domain: object = domain_named(self.domain)
        return regions_of(self.domain) is domain

    @cached_property
    def shapes(self) -> Shape:
        """The factory of shapes of that domain."""
        return self.regions.everything(0)

    def budget(self, operations: int) -> AbstractContextManager[None]:
        """A block that limits the domain to `operations`, and to the rest of the account."""
        return self.shapes.budget(operations, self.account)

    @contextmanager
    def outlining(self) -> Iterator[None]:
        """A block of boxes around footprints, with the account of all such blocks."""
        account, self.account = self.account, self.for_outlines
        try:
            yield
        finally:
            self.account = account

    def add(self, var: Var, limits: Range) -> None:
        """Enter a loop variable; later calls for the same variable have no effect."""
        if var in self.ranges:
            return
        self.ranges[var] = limits
        if limits.ends is not None:
            self._numeric[var] = self.normalizer.intervals[var] = limits.ends
            return
        first, last = self.form(low(limits)), self.form(as_expr(limits.max))
        self._numeric[var] = self.normalizer.intervals[var] = (self.bounds(first)[0], self.bounds(last)[1])
        if not (first.is_const and last.is_const):
            self._limits[var] = (first, last)

    def form(self, e: IntLike) -> Linear:
        """The canonical form of `e`, without assumptions."""
        return form_of(as_expr(e))

    def simplified(self, e: Expr) -> Expr:
        """The cheapest equal of `e` found within the ranges of its loops."""
        loops = transitive_ranges(self, e.free_vars())
        return (self.context.extended(loops) if loops else self.context).simplify(e)

    def forms_of(self, cond: Cond) -> list[Linear] | None:
        """The forms that are nonnegative together exactly where a conjunction of comparisons holds.

        `None` for disjunctions and disequalities.
        """
        forms: list[Linear] = []
        known = unranged()
        for part in dag.conjuncts(known.cond(cond)):
            if part.op is ops.BOOL:
                if part.data:
                    continue
                return [Linear(-1, {})]
            if part.op is ops.OR or part.op is ops.AND:
                return None
            kind, form = known.compared[part]
            if kind is ops.NE:
                return None
            forms += [form] if kind is ops.GE else [form, form.scale(-1)]
        return forms

    def arms_of(self, form: Linear, op: ops.Op) -> list[Linear]:
        """The form with each operand of a minimum (maximum, by `op`) in place of that term; else the form alone.

        The form is the minimum (maximum) of these.
        """
        of = next((e for e, times in form.terms.items() if times == 1 and e.op is op), None)
        if of is None:
            return [form]
        rest = form.plus(atom(of), -1)
        return [rest.plus(self.form(arm)) for arm in dag.chain(op, of)]

    def bounds(self, form: Linear) -> Ends:
        """Numeric bounds of `form` over all ranges; `None` for an open end."""
        return self.normalizer.sum_bounds(form)

    def is_nonneg(self, form: Linear, assumed: Iterable[Linear] = ()) -> bool:
        """Whether `form >= 0` is proved wherever all forms of `assumed` are nonnegative."""
        low, high = self.bounds(form)
        if low is not None and low >= 0:
            return True
        if high is not None and high < 0 and not assumed:
            return False
        for fact in assumed:
            low = self.bounds(form.minus(fact))[0]
            if low is not None and low >= 0:
                return True
        if self._is_plain and not any(e in self._limits or not isinstance(e, Var) for e in form.terms):
            return False
        return self.normalizer.is_nonneg(form)

    def number(self, e: IntLike) -> int | None:
        """The value of an expression with equal numeric bounds, else `None`."""
        value = simple.number(e)
        if value is not None:
            return value
        low, high = self.bounds(self.form(e))
        return low if low == high else None

    def unmet(self, *roots: Node) -> list[Cond]:
        """Unproved definedness conditions of the roots: divisors that may be 0."""
        partial = [e for e in roots if is_partial(e)]
        return [need for need in definedness(partial) if not is_met(self.normalizer, need)]

    def total(self, e: Expr) -> Expr:
        """`e`, and 0 where it has no value."""
        needs = self.unmet(e)
        return select(logical_and(*needs), e, 0) if needs else e

    def count_of(self, key: object, count: Callable[[], Expr]) -> Expr:
        """The term of a count, made once: equal counts are one expression."""
        term = self.counts.get(key)
        return self.counts.setdefault(key, count()) if term is None else term


def constant_extent(r: Range) -> int | None:
    """The extent of a range if it is constant, else `None`."""
    if r.ends is not None:
        return r.ends[1] - r.ends[0] + 1
    return constant_value(r.extent) if isinstance(r.extent, Expr) else None


MAX_INSTANCES: Final = 20_000  # enumerated one by one
MAX_LISTED: Final = 3_000  # points of an explicit set


def instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    """The joint values of loop variables, as a set without coordinates over these variables and sizes.

    Guarantee: a superset of the instances, exact unless the budget ends.
    """
    variables = [v for v in dict.fromkeys(variables) if v in env.ranges]
    ranges = transitive_ranges(env, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [env.form(v - as_expr(r.min)), env.form(as_expr(r.max) - v)]
    if all(map(is_affine, forms)):
        return env.shapes.box([], forms).without([v for v in ranges if v not in variables])
    key = frozenset(variables)
    if key not in env.instances:
        env.instances[key] = variables, _ask_domain(env, ranges, variables)
    order, points = env.instances[key]
    if points is None:
        return size_bounds(env, variables)
    return points.project([order.index(v) for v in variables]).dims_to_params(variables)


def size_bounds(env: LoopEnvironment, params: Sequence[Expr]) -> Shape:
    """The parameters within their numeric bounds, as a set without coordinates."""
    forms: list[Linear] = []
    for param in params:
        form = env.form(param)
        low, high = env.bounds(form)
        forms += [] if low is None else [form.shift(-low)]
        forms += [] if high is None else [form.scale(-1).shift(high)]
    return env.shapes.box([], forms)


def _ask_domain(env: LoopEnvironment, ranges: Mapping[Var, Range], variables: Sequence[Var]) -> Shape | None:
    """The joint values of loop variables as points; `None` beyond the budget."""
    inside = [cond for v, r in ranges.items() for cond in range_conditions(v, r)]
    # Conditions, not ranges: conditions are false where a range of at most one point is empty.
    context = env.context.extended(dict.fromkeys(ranges), inside)
    try:
        image = image_in_instances(context, list(variables), list(env.context.ranges), env.regions)
    except BudgetError:
        return None
    return None if image.notes else image.shape


def enumerate_instances(env: LoopEnvironment, variables: Sequence[Var]) -> Iterator[tuple[int, ...]] | None:
    """Enumerate the instances as tuples of values; `None` for symbolic sizes or too many instances."""
    ranges = transitive_ranges(env, variables)
    spans = []
    for v in ranges:
        low, high = env.bounds(env.form(v))
        if low is None or high is None:
            return None
        spans.append(range(low, high + 1))
    inside = [cond for v, r in ranges.items() for cond in range_conditions(v, r)]
    if prod(map(len, spans)) > MAX_INSTANCES or any(w not in ranges for cond in inside for w in cond.free_vars()):
        return None
    order = list(ranges)
    places = [order.index(v) for v in variables]
    points = _satisfying(compiled(logical_and(*inside), order), product(*spans))
    projected = (tuple(point[k] for k in places) for point in points)
    return projected if len(order) == len(variables) else iter(dict.fromkeys(projected))


def _satisfying(test: Any, points: Iterable[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    for point in points:
        try:
            if test(*point):
                yield point
        except ArithmeticError:  # division by 0: no instance
            continue


def transitive_ranges(env: LoopEnvironment, variables: Iterable[Expr]) -> dict[Var, Range]:
    """The ranges of loop variables and of all loops that those ranges mention, transitively."""
    ranges: dict[Var, Range] = {}
    waiting = list(variables)
    while waiting:
        v = waiting.pop()
        if isinstance(v, Var) and v not in ranges and v in env.ranges:
            ranges[v] = env.ranges[v]
            waiting.extend(env.ranges[v].free_vars())
    return ranges


def project_variables(shape: Shape, variables: Collection[Var]) -> Shape:
    """Project out variables: the union of a shape over their values.

    Raises
    ------
    BudgetError: a nonlinear term, opaque to the shape, mentions one of them.
    """
    left = shape.without(variables)
    term = next((e for e in left.atoms() if any(v in variables for v in e.free_vars())), None)
    if term is not None:
        raise BudgetError(f"{term} is not affine")
    return left


# -- values of sizes --------------------------------------------------------------------------------------------------


def space_of(
    env: LoopEnvironment,
    sizes: Sequence[Var],
    fixed: Mapping[Expr, int],
    values: Mapping[Any, Iterable[Any]],
    where: Cond | str | Iterable[Cond | str],
) -> Space:
    """The space of a schedule's sizes under the conditions `where` and the known facts on sizes.

    Parameters
    ----------
    sizes: the symbolic sizes of the schedule.
    fixed: values of its other sizes.
    values: values for each size, by variable or name.

    Raises
    ------
    InputError: a key is no symbolic size of the schedule; what `Space` refuses.
    """
    given = arguments.mapped(values, "the values of a space", "a mapping {size: values}")
    chosen = {_size_of(key, sizes): numbers for key, numbers in given.items()}
    if len(chosen) < len(given):
        raise InputError("a size has values twice, by its variable and by its name")
    return Space(chosen, where).restrict(_known(env, set(chosen), fixed))


def _size_of(key: Any, sizes: Sequence[Var]) -> Var:
    """The size that a variable or name denotes."""
    named = [size for size in sizes if size is key or (isinstance(key, str) and size.name == key)]
    if len(named) == 1:
        return named[0]
    name = key.name if isinstance(key, Var) else shown(key)
    if named:
        raise InputError(f"{len(named)} sizes of this schedule are named {name}: give the variables themselves")
    known = ", ".join(size.name for size in sizes) or "none"
    raise InputError(f"{name} is no symbolic size of this schedule; those are: {known}")


def _known(env: LoopEnvironment, chosen: set[Var], fixed: Mapping[Expr, int]) -> Iterator[Cond]:
    """The ranges and facts of the context about these sizes alone."""
    conditions = [fact.condition for fact in env.context.facts]
    for size, r in env.context.ranges.items():
        conditions += range_conditions(size, r)
    for condition in conditions:
        stated = dag.substitute(condition, dict(fixed))
        if stated.free_vars() and chosen.issuperset(stated.free_vars()) and not dag.opaque_terms(stated):
            yield stated


# -- drawn instances --------------------------------------------------------------------------------------------------

_SIZES: Final = (1009, 7, 13, 101)  # distances of a sampled size from its lower end; not multiples of common tiles
_SPREADS: Final = (4, 12, 40)  # of mixed sizes above their lower ends, in turn
FEW: Final = 24  # mixed attempts where a claim costs little to prove
DIVISIONS: Final = (ops.FLOORDIV, ops.FLOORMOD)
_BRANCHING: Final = frozenset((*ops.DIVISIONS, ops.MIN, ops.MAX, ops.SELECT, ops.OR))  # more than linear arithmetic

Point = dict[Expr, int]
Span = tuple[int | None, int | None, int]  # low end, high end, step


def within(span: Span, magnitude: int) -> int:
    """A value `magnitude` above the lower end of a size, within its upper end and a multiple of its declared step."""
    least, most, step = span
    value = magnitude if least is None else least + magnitude
    value = value if most is None else min(value, most)
    value -= value % step
    return value if least is None or value >= least else value + step


def values_at_members(env: LoopEnvironment, root: Node, conditions: Iterable[Cond], most: int = 2) -> frozenset[int]:
    """At most `most` values of `root` at the members of the scope. Looks for no member: before the first one, none.

    Members remember the values of terms, so they cost less than drawn points.
    """
    if env.normalizer.members is None:
        return frozenset()
    return taken_values(env.normalizer, root, (*conditions, *env.context.frame.conditions), most)


def takes_two_values(env: LoopEnvironment, e: Expr, ranges: Mapping[Var, Range], conditions: Sequence[Cond]) -> bool:
    """Whether two sampled instances give `e` different values."""
    if len(values_at_members(env, e, conditions)) > 1:
        return True
    values = (point_value(e, point) for point in sample_instances(env, ranges, conditions, (e,), mixed=FEW))
    known = (value for value in values if value is not None)
    first = next(known, None)
    return any(value != first for value in known)


def has_instance(env: LoopEnvironment, ranges: Mapping[Var, Range], conditions: Sequence[Cond], mixed: int = 0) -> bool:
    """Whether some sampled instance satisfies the conditions."""
    if values_at_members(env, truth(True), conditions, most=1):
        return True
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
        self._drawn: Iterator[frozenset[Cond]] = _failing_guards(env, ranges, tuple(guards), most)

    def has_alone(self, guard: Cond, others: Collection[Cond], most: int | None = None) -> bool:
        """Whether one of the first `most` drawn iterations, by default of all, violates `guard`, satisfies `others`."""
        drawn, self._drawn = tee(self._drawn)  # the next call begins with what this one draws
        return any(guard in failing and failing.isdisjoint(others) for failing in islice(drawn, most))


def _failing_guards(
    env: LoopEnvironment, ranges: Mapping[Var, Range], guards: Sequence[Cond], most: int
) -> Iterator[frozenset[Cond]]:
    """The guards that fail at each drawn iteration at which all have values.

    None are drawn for guards with short proofs or data.
    """
    ends = (end for r in ranges.values() for end in (low(r), as_expr(r.extent)))
    if not _has_long_proofs((*guards, *ends)) or dag.opaque_terms(*guards):
        return
    drawing = _Drawing(env, ranges, (), guards)
    tests = [(guard, compiled(guard, drawing.order)) for guard in guards]
    for point in drawing.mixed(most):
        with suppress(ArithmeticError, EvaluationError, InputError):
            yield frozenset([guard for guard, test in tests if not test(*point.values())])


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
        facts = (*conditions, *env.context.frame.conditions)
        position = {v: k for k, v in enumerate(env.ranges)}
        self.loops = sorted(ranges, key=position.__getitem__)
        used = dict.fromkeys(v for root in (*roots, *facts, *ranges.values()) for v in root.free_vars())
        self.sizes = [v for v in used if v not in ranges]
        self.order = [*self.sizes, *self.loops]
        self.has_data = bool(dag.opaque_terms(*facts))
        self._spans: list[Span] = [(*env.bounds(env.form(v)), v.declared()[2]) for v in self.sizes]
        equal = _equated(self.sizes, env.context.frame.conditions)
        self._equal = [(self.sizes.index(v), self.sizes.index(other)) for v, other in equal.items()]
        self._limits = [(low(ranges[v]), as_expr(ranges[v].max)) for v in self.loops]
        stated = env.context.ranges
        limits = [cond for v in self.sizes if v in stated for cond in range_conditions(v, stated[v])]
        self._facts = (*limits, *facts)

    def corners(self, last: Collection[Var] | None) -> Iterator[Point]:
        """The loops of `last` at their last iteration, others at their first; by default all first, and all last."""
        if self.has_data:
            return
        for magnitude in _SIZES if self.sizes else _SIZES[:1]:
            for at_end in ((), self.loops) if last is None else (last,):
                yield from self._corner(magnitude, at_end)

    def _corner(self, magnitude: int, at_end: Collection[Var]) -> Iterator[Point]:
        """The instance with all sizes at this distance from their lower ends; nothing as for `_point`."""
        corner = Member(dict(zip(self.sizes, self._numbers([magnitude] * len(self.sizes)), strict=True)), 0)
        for v, ends in zip(self.loops, self._limits, strict=True):
            start, end = map(corner.term, ends)
            if start is None or end is None or start > end:
                return
            corner.enter(v, end if v in at_end else start)
        if all(map(corner.term, self._facts)):
            yield corner.point

    def mixed(self, attempts: int) -> Iterator[Point]:
        """Instances at small sizes: in turn near the ends of the loops, and anywhere in them."""
        if self.has_data:
            return
        numbers = _noise()
        for k in range(attempts):
            spread = _SPREADS[k % len(_SPREADS)]
            magnitudes = [next(numbers) % spread for _ in self.sizes]
            steps = list(islice(numbers, len(self.loops)))
            yield from self._point(
                magnitudes, [(0, -1, 0, -1, 0, -1, 1, step >> 3)[step & 7] for step in steps] if k % 2 else steps
            )

    def _point(self, magnitudes: Sequence[int], iterations: Sequence[int]) -> Iterator[Point]:
        """The instance at these distances of sizes from their lower ends and these iterations modulo the extents.

        Nothing where a loop is empty, or a condition fails or is undefined.
        """
        values = self._numbers(magnitudes)
        with suppress(ArithmeticError, EvaluationError, InputError):
            for (first, last), iteration in zip(self._end_functions, iterations, strict=True):
                start, end = first(*values), last(*values)
                if start > end:
                    return
                values.append(start + iteration % (end - start + 1))
            if all(fact(*values) for fact in self._fact_functions):
                yield dict(zip(self.order, values, strict=True))

    def _numbers(self, magnitudes: Sequence[int]) -> list[int]:
        """The sizes at these distances from their lower ends, equated ones equal."""
        values = [within(span, magnitude) for span, magnitude in zip(self._spans, magnitudes, strict=True)]
        for v, other in self._equal:
            values[v] = values[other]
        return values

    @cached_property
    def _end_functions(self) -> list[tuple[Callable[..., int], Callable[..., int]]]:
        """The ends of each loop as functions of sizes and outer loops."""
        known = [self.order[: self.order.index(v)] for v in self.loops]
        return [(repeatable(a, outer), repeatable(b, outer)) for (a, b), outer in zip(self._limits, known, strict=True)]

    @cached_property
    def _fact_functions(self) -> list[Callable[..., bool]]:
        return [repeatable(fact, self.order) for fact in self._facts]


def _equated(sizes: Sequence[Var], facts: Iterable[Cond]) -> dict[Var, Var]:
    """Sizes that facts equate with another one, such as two extents of one thread axis, to the first of them."""
    first: dict[Var, Var] = {}
    for fact in facts:
        if fact.op is ops.EQ and all(arg.op is ops.VAR and arg in sizes for arg in fact.args):
            a, b = sorted((first.get(v, v) for v in fact.args), key=sizes.index)
            first = {v: a if other is b else other for v, other in first.items()}
            first.update({b: a} if a is not b else {})
    return first


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

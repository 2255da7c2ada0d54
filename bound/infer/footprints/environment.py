"""`LoopEnvironment`, ranges of loops and sizes with cheap proofs of signs.

The environment is a `Normalizer` of `intset` whose table of ranges grows while the pass enters loops. A context would
canonicalise its facts again for every loop.

The instances of a stage are the joint values of the loop variables around it: a set, or enumerated. A loop
that other ranges depend on but that does not distinguish instances (a thread sharing storage) is projected out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from bound.infer.footprints.sampling import Witnesses
from bound.schedule import simple
from bound.schedule.simple import low
from intset.context import Context
from intset.domains.registry import domain_named, regions_of, strongest
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError, InputError
from intset.expr import Cond, Expr, IntLike, Node, Range, Var, arguments, as_expr, constant_value, dag, ops, shown
from intset.expr.build import logical_and, select
from intset.expr.definedness import definedness, is_partial
from intset.expr.evaluate import compiled
from intset.expr.range import range_conditions
from intset.infinity import POS_INF
from intset.linear.canonical import Normalizer
from intset.linear.form import Linear
from intset.linear.signs import is_met
from intset.regions.shape import Account, Shape
from intset.spaces.space import Space

if TYPE_CHECKING:
    from intset.domains.protocols import Regions


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
    witnesses: drawn instances of the loops entered so far.
    instances: memo of `instances`, by the variables.
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
        self._plain = Normalizer({})
        self.normalizer = Normalizer(self._numeric, facts._replace(limits=self._limits))
        self._is_plain = not facts.nonneg
        # terms of a form -> (least constant proved to make it nonnegative, greatest constant that was not proved)
        self._thresholds: dict[frozenset[tuple[Expr, int]], tuple[int | None, int | None]] = {}
        self.witnesses = Witnesses(self.context, self.ends_of, self.ranges)
        self.instances: dict[tuple[Var, ...], Shape] = {}
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
        self.witnesses.enter(var)
        first, last = self.form(low(limits)), self.form(as_expr(limits.max))
        self._numeric[var] = self.normalizer.intervals[var] = (self.bounds(first)[0], self.bounds(last)[1])
        if not (first.is_const and last.is_const):
            self._limits[var] = (first, last)

    def form(self, e: IntLike) -> Linear:
        """The canonical form of `e`, without assumptions."""
        return self._plain.form(as_expr(e))

    def simplified(self, e: Expr) -> Expr:
        """The cheapest equal of `e` found within the ranges of its loops."""
        loops = transitive_ranges(self, e.free_vars())
        return (self.context.extended(loops) if loops else self.context).simplify(e)

    def forms_of(self, cond: Cond) -> list[tuple[str, Linear]] | None:
        """A conjunction of comparisons as pairs (kind, form): `form >= 0` for "ge", `form == 0` for "eq".

        `None` for disjunctions and disequalities.
        """
        forms = []
        for part in dag.conjuncts(self._plain.cond(cond)):
            if part.op is ops.BOOL:
                if part.data:
                    continue
                return [("ge", Linear(-1, {}))]
            if part.op is ops.OR or part.op is ops.AND:
                return None
            kind, form = self._plain.compared[part]
            if kind is ops.NE:
                return None
            forms.append(("ge" if kind is ops.GE else "eq", form))
        return forms

    def bounds(self, form: Linear) -> Ends:
        """Numeric bounds of `form` over all ranges; `None` for an open end."""
        return self.normalizer.sum_bounds(form)

    def ends_of(self, v: Var) -> Ends:
        """Numeric bounds of a variable."""
        return self.bounds(self.form(v))

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
        return self._follows(form)

    def _follows(self, form: Linear) -> bool:
        """Prove `form >= 0` from symbolic ends of loops; results are kept as thresholds of the constant."""
        terms = frozenset(form.terms.items())
        enough, too_little = self._thresholds.get(terms, (None, None))
        if enough is not None and form.const >= enough:
            return True
        if too_little is not None and form.const <= too_little:
            return False
        holds = not self.witnesses.refute(form) and self.normalizer.is_nonneg(form)
        if holds:
            self._thresholds[terms] = (form.const, too_little)
        elif all(v in self._numeric for e in form.terms for v in e.free_vars()):  # their ranges are final
            self._thresholds[terms] = (enough, form.const)
        return holds

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
    return constant_value(r.extent) if isinstance(r.extent, Expr) else None


MAX_INSTANCES: Final = 20_000  # enumerated one by one
MAX_LISTED: Final = 3_000  # points of an explicit set


def instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    """The joint values of loop variables, as a set without coordinates over these variables and sizes.

    Guarantee: a superset of the instances, exact unless the budget ends.
    """
    key = tuple(v for v in dict.fromkeys(variables) if v in env.ranges)
    shape = env.instances.get(key)
    if shape is None:
        shape = env.instances[key] = _instances(env, key)
    return shape


def _instances(env: LoopEnvironment, variables: Sequence[Var]) -> Shape:
    ranges = transitive_ranges(env, variables)
    forms: list[Linear] = []
    for v, r in ranges.items():
        forms += [env.form(v - as_expr(r.min)), env.form(as_expr(r.max) - v)]
    if all(isinstance(e, Var) for form in forms for e in form.terms):
        return _parameters(env, forms, [v for v in ranges if v not in variables])
    try:
        return _ask_domain(env, ranges, variables)
    except BudgetError:
        points = _listed(env, variables)
        if points is not None:
            return points
    forms = []  # fallback: numeric bounds of each loop
    for v in variables:
        low, high = env.bounds(env.form(v))
        forms += [] if low is None else [env.form(v - low)]
        forms += [] if high is None else [env.form(high - v)]
    return _parameters(env, forms)


def size_bounds(env: LoopEnvironment, params: Sequence[Expr]) -> Shape:
    """The parameters within their numeric bounds, as a set without coordinates."""
    forms: list[Linear] = []
    for param in params:
        form = env.form(param)
        low, high = env.bounds(form)
        forms += [] if low is None else [form.shift(-low)]
        forms += [] if high is None else [form.scale(-1).shift(high)]
    return _parameters(env, forms)


def _parameters(env: LoopEnvironment, forms: Sequence[Linear], running: Sequence[Var] = ()) -> Shape:
    """The parameters at which all forms are nonnegative for some values of `running`."""
    return env.shapes.box([], forms).without(running)


def _ask_domain(env: LoopEnvironment, ranges: Mapping[Var, Range], variables: Sequence[Var]) -> Shape:
    inside = [cond for v, r in ranges.items() for cond in range_conditions(v, r)]
    # Conditions, not ranges: emptiness of a range with at most one point would go unnoticed.
    context = env.context.extended(dict.fromkeys(ranges), inside)
    image = image_in_instances(context, list(variables), list(env.context.ranges), env.regions)
    if image.notes:
        raise BudgetError(image.notes[0])
    return image.shape.dims_to_params(variables)


def _listed(env: LoopEnvironment, variables: Sequence[Var]) -> Shape | None:
    """The instances as a set of points; `None` for symbolic sizes or too many instances."""
    visited = enumerate_instances(env, variables)
    points = None if visited is None else sorted(visited)
    if points is None or len(points) > MAX_LISTED:
        return None
    try:
        return env.shapes.listing(points, (), len(variables)).dims_to_params(variables)
    except BudgetError:
        return None


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

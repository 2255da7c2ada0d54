"""PassDownDomain: the bounds of a stage, `StageBounds`; ranges of all axes from root ranges, guards, and the nest.

Guarantee: loops and guards together run over the computed region; loops alone may run past it. `pass_down` leaves all
guards, which other stages may need; `finish_nest` drops the implied ones.

All loops bound to one thread axis have equal extents. A tile that a small tensor leaves incomplete keeps its number of
threads; threads past the end are idle. Later stages on the same threads may then be short of work as well.

A reduction is initialised by a nest over data axes alone, before the first reduction loop: the data loops inside that
loop stand in this nest, too. A loop fused from data and reduction axes is replaced there by the data axis, so the
initialisation is independent of the length of the reduction, even 0.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from bound.errors import ScheduleError
from bound.infer.environment import LoopEnvironment, constant_extent, instances, size_bounds, transitive_ranges
from bound.infer.footprint import Footprint, SymbolicInterval, end_forms, point_of
from bound.infer.phases.guards import is_within_bounds, without_implied
from bound.itervar import IterType, IterVar
from bound.schedule import Fuse, IterVarRelation, Rebase, Split, Stage, Tail, simple
from bound.schedule.attach import AttachPath
from bound.schedule.relations import pass_down_domain, pass_up_index, with_ancestors, with_descendants
from bound.schedule.simple import extent, low
from bound.tensor import ComputeOp, Operation, Tensor, TensorComputeOp
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Node, Range, Var, as_expr, dag, ops
from intset.expr.build import floordiv, logical_and, minimum, select, sum_of
from intset.expr.printer import Displayed
from intset.linear.form import Linear

GUARDS: Final = 400_000  # operations of the domain, for one membership guard


@dataclass(frozen=True)
class StageLoop:
    """A loop of a nest.

    Attributes
    ----------
    iv: the loop variable.
    range: its iterations, over sizes and variables of outer loops.
    thread: its thread axis, or `None`.
    kind: its type, annotations included.
    """

    iv: IterVar
    range: Range
    thread: IterVar | None
    kind: IterType


@dataclass(frozen=True)
class ReductionInit:
    """The nest that initialises a reduction before its first reduction loop (`finish_nest`).

    Attributes
    ----------
    place: the number of outer loops shared with the nest of the stage.
    loops: its own loops, over data axes alone.
    values: each data axis as an expression in these loops.
    guards: the conditions of the initialisation.
    """

    place: int
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]


@dataclass(frozen=True)
class StageNest(Displayed):
    """The loops, values and guards of a stage, as `bound.infer` describes them."""

    stage: Stage
    loops: tuple[StageLoop, ...]
    values: Mapping[IterVar, Expr]
    guards: tuple[Cond, ...]
    start: ReductionInit | None = None


@dataclass(frozen=True, eq=False)
class SlidingWindow:
    """A window that advances monotonically in one dimension.

    Attributes
    ----------
    new: the elements computed in an iteration.
    dim: the dimension of the advance.
    filled: the window in the first iteration, and in later ones. Elements before it are dead.
    """

    new: Footprint
    dim: int
    filled: tuple[SymbolicInterval, ...]


@dataclass(eq=False)
class StageBounds:
    """The bounds of one stage, filled phase by phase.

    Invariant: `required` is a subset of `computed`, and `guards` restrict `loops` to `computed`.

    Attributes
    ----------
    stage, op: the stage and its operation.
    threads: its leaves that run on threads, outermost first, each with its thread axis.
    path: its attach path, innermost loop first.
    relations: its relations at the fixed sizes.
    outer: shared loops in place of its own leading leaves.
    aligned: root axes with shared loops, which run over the whole axis.
    foreign: root axes whose leading loops are other stages' loops; they have one extent in all instances.
    slid: the loops between storage and stage, outermost first; elements of earlier iterations are kept.
    window: how the kept elements advance, if known.
    fixed: the loops of the path that distinguish instances.
    required: the union of the consumers' footprints, by output.
    computed: the elements that the loops compute, in the dimensions of the outputs.
    wholes: by output, for an operation that always computes whole tensors.
    sides: the interval of each root axis.
    ranges: the range of every axis, in which values are written.
    loops: the range of each leaf as a loop; shorter than in `ranges` in the last tile of a shrinking split.
    widened: the roots with a range longer than their interval in some instance.
    values: each root axis as an expression in loops.
    guards: the conditions of the body.
    start: the initialisation of its reduction.
    stays_inside: whether the loops, without guards of the region, are proved to compute nothing outside it.
    """

    stage: Stage
    op: Operation = field(init=False)
    threads: dict[IterVar, IterVar] = field(init=False)
    path: AttachPath
    relations: tuple[IterVarRelation, ...] = ()
    outer: tuple[IterVar, ...] = ()
    aligned: frozenset[IterVar] = frozenset()
    foreign: frozenset[IterVar] = frozenset()
    slid: tuple[IterVar, ...] = ()
    window: SlidingWindow | None = None
    fixed: tuple[Var, ...] = ()
    required: dict[Tensor, Footprint] = field(default_factory=dict)
    computed: Footprint | None = None
    wholes: dict[Tensor, Footprint] = field(default_factory=dict)
    sides: dict[IterVar, SymbolicInterval] = field(default_factory=dict)
    ranges: dict[IterVar, Range] = field(default_factory=dict)
    loops: dict[IterVar, Range] = field(default_factory=dict)
    widened: set[IterVar] = field(default_factory=set)
    values: dict[IterVar, Expr] = field(default_factory=dict)
    guards: tuple[Cond, ...] = ()
    start: ReductionInit | None = None
    stays_inside: bool = False

    def __post_init__(self) -> None:
        self.op = self.stage.op
        on = [(leaf, self.stage.thread_of(leaf)) for leaf in self.stage.leaf_iter_vars]
        self.threads = {leaf: thread for leaf, thread in on if thread is not None}

    @property
    def region(self) -> Footprint:
        """`computed`, after GatherBound."""
        assert self.computed is not None
        return self.computed

    def computed_of(self, tensor: Tensor) -> Footprint:
        """The computed elements of one output; the required ones of a placeholder."""
        if self.computed is None:
            return self.required[tensor]
        return self.wholes.get(tensor, self.computed)


def data_axes(op: Operation) -> tuple[IterVar, ...]:
    """The axes of the output dimensions; empty for operations that compute whole tensors."""
    return op.axis if isinstance(op, (ComputeOp, TensorComputeOp)) else ()


def idle_threads(bounds: StageBounds) -> dict[IterVar, int]:
    """Thread axes of a stage that overrun a root axis, with their numbers of threads."""
    idle: dict[IterVar, int] = {}
    for iv, thread in bounds.threads.items():
        number, above = constant_extent(bounds.loops[iv]), with_ancestors(bounds.relations, (iv,))
        splits = [r for r in bounds.relations if isinstance(r, Split) and r.parent in above]
        if number is not None and any(split.overruns(bounds.ranges) for split in splits):
            idle[thread] = number
    return idle


def started(bounds: StageBounds, root: IterVar, threads: Mapping[IterVar, int]) -> int | None:
    """The extent of a root axis that gives its thread loop one iteration a thread; `None` if the schedule fixes it."""
    axis, times = root, 1
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
        elif isinstance(relation, Split) and relation.parent is axis:
            size = relation.nparts if relation.factor is None else relation.factor
            number = simple.number(size) if size is not None else None
            if number is None:
                return None
            axis, times = (relation.inner if relation.factor is None else relation.outer), times * number
    thread = bounds.threads.get(axis)
    return None if thread is None or thread not in threads else threads[thread] * times


def pass_down(
    env: LoopEnvironment, bounds: StageBounds, region_of_loops: Callable[[], Footprint | None] = lambda: None
) -> None:
    """PassDownDomain for one stage: set ranges, loops, values and guards from the root ranges.

    Parameters
    ----------
    region_of_loops: a region that the current loops never leave, without guards of the computed region, if known.

    Raises
    ------
    ScheduleError: a thread axis has no extent.
    """
    stage = bounds.stage
    threads = [iv for iv in bounds.outer if stage.thread_of(iv) is not None]
    bounds.ranges = pass_down_domain(bounds.relations, bounds.ranges, (*threads, *bounds.threads))
    for iv in stage.leaf_iter_vars:
        if iv not in bounds.ranges:
            if iv.dom is None:
                raise ScheduleError(
                    f"stage {stage.name}: the thread axis {iv.name} of env_threads has no extent: declare it, "
                    f'as in thread_axis((0, 32), "{iv.thread_tag}")'
                )
            bounds.ranges[iv] = iv.dom
    for iv in stage.leaf_iter_vars:  # outer loops first: shrinking loops depend on them
        bounds.loops[iv] = loop_range(env, bounds, iv)
        env.add(iv, bounds.loops[iv])
    around = {iv: env.ranges[iv] for iv in bounds.outer}
    leaves = {iv: low(r) if constant_extent(r) == 1 else iv for iv, r in {**around, **bounds.loops}.items()}
    values = pass_up_index(bounds.relations, bounds.ranges, leaves)
    bounds.values = {iv: values[iv] for iv in stage.op.root_iter_vars if iv in values}
    inside = region_of_loops()
    if inside is not None:
        bounds.computed, bounds.stays_inside = inside, True
    try:
        bounds.guards = tuple(all_guards(env, bounds, values))
    except BudgetError as error:
        footprint = bounds.region
        note = f"{error}: the guard could not be written, the box is computed"
        bounds.computed = footprint.with_box(footprint.hull(env), note)
        bounds.guards = tuple(all_guards(env, bounds, values))


def finish_nest(env: LoopEnvironment, bounds: StageBounds) -> None:
    """Keep the guards that loops and other guards do not imply, and initialise the reduction."""
    around = [*(iv for _, iv in bounds.path), *bounds.stage.leaf_iter_vars]
    bounds.guards = without_implied(env, around, bounds.guards)
    bounds.start = _create_reduction_init(env, bounds)


def loop_range(env: LoopEnvironment, bounds: StageBounds, iv: IterVar) -> Range:
    """The range of a loop; the last tile of a shrinking split ends with its parent."""
    split = shrinking(bounds, iv)
    if split is None:
        return bounds.ranges[iv]
    total, width = extent(bounds.ranges[split.parent]), extent(bounds.ranges[iv])
    if not split.overruns(bounds.ranges):
        return bounds.ranges[iv]
    start = simple.mul(split.outer, width)
    ends = without_products(env, [end - start for end in dag.chain(ops.MIN, total)])
    return Range(0, minimum(width, *(env.form(end).expr() for end in ends)))


def shrinking(bounds: StageBounds, iv: IterVar) -> Split | None:
    """The split with the shrinking inner loop `iv`, if its outer loop is further out; else `None`."""
    position = {leaf: k for k, leaf in enumerate((*bounds.outer, *bounds.stage.leaf_iter_vars))}
    for relation in bounds.relations:
        if isinstance(relation, Split) and relation.inner is iv and relation.tail is Tail.SHRINK:
            is_thread = bounds.stage.thread_of(iv) is not None
            ordered = relation.outer in position and iv in position and position[relation.outer] < position[iv]
            return relation if ordered and not is_thread else None
    return None


# -- guards -----------------------------------------------------------------------------------------------------------


def all_guards(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Cond]:
    """All guards of the body, ordered by their innermost loop."""
    guards: dict[Cond, None] = dict.fromkeys(region_guards(env, bounds, values))
    by_region = bounds.region.box is None and not bounds.stays_inside
    guards.update(dict.fromkeys(split_guards(env, bounds, bounds.relations, values, by_region)))
    depth: dict[Var, int] = {leaf: k + 1 for k, leaf in enumerate(bounds.stage.leaf_iter_vars)}
    return sorted(guards, key=lambda cond: max((depth.get(v, 0) for v in cond.free_vars()), default=0))


def region_guards(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Cond]:
    """Guards that keep the loops inside the computed region."""
    if bounds.stays_inside:
        return []
    footprint = bounds.region
    guards: list[Cond] = []
    axes = data_axes(bounds.op)
    if axes and footprint.box is None:
        point = [values[iv] for iv in axes if iv in values]
        guards += membership_guards(env, bounds, point, overrun_roots(bounds))
    elif axes and footprint.box is not None:
        kept = _forms_of_ends(env, bounds, values) if footprint.box.where else []
        where = (form for form in footprint.box.where if not any(form.same(other) for other in kept))
        guards += [form.expr() >= 0 for form in where] + list(footprint.box.also)
    for iv in bounds.op.root_iter_vars:
        if iv in bounds.widened and iv in values:
            end = _unpassed_end(env, bounds, iv)
            guards += within_side(env, bounds, iv, values[iv], end, footprint.box is None)
    return guards


def membership_guards(
    env: LoopEnvironment, bounds: StageBounds, values: Sequence[Expr], overrun: Collection[IterVar]
) -> list[Cond]:
    """The membership conditions of the point `values`, simplified under the ranges of the loops and other guards.

    Parameters
    ----------
    overrun: the root axes whose loops run past the end of the range; other guards stop them.
    """
    footprint = bounds.region
    axes = data_axes(bounds.op)
    point = point_of(len(axes))
    inside: list[Cond] = []
    for x, iv in zip(point, axes, strict=True):
        limits = bounds.ranges[iv]
        inside += [x >= form.expr() for form in end_forms(env, low(limits), ops.MAX)]
        # Ends of the box are meaningless in an empty instance: only enforced ones are assumed.
        if iv not in overrun:
            highs = end_forms(env, as_expr(limits.max), ops.MIN)
            inside += [x <= arm.expr() for high in highs for arm in env.arms_of(high, ops.MIN)]
        if iv in overrun or iv in bounds.widened:
            inside += [x <= high.expr() for high in bounds.sides[iv].highs]
        if iv in bounds.aligned:
            inside += [x >= form.expr() for form in bounds.sides[iv].lows]
    inside = [cond for cond in inside if not has_cases_of_products(cond)]
    loops = transitive_ranges(env, dag.free_vars(*inside))
    inside += [fact for fact in env.context.frame.conditions if not dag.opaque_terms(fact)]
    try:
        with env.shapes.budget(env.account.allowed(GUARDS)):
            within = env.shapes.where(point, logical_and(*inside)).intersect_params(instances(env, [*loops]))
            if not all(isinstance(e, Var) for e in within.atoms()):
                within = within.intersect_params(size_bounds(env, within.atoms()))
        with env.budget(GUARDS):
            condition: Cond | None = footprint.unguarded.simplified(within).condition(values)
    except BudgetError:
        condition = None
    parts = footprint.conditions(values) if condition is None else dag.conjuncts(condition)
    guard = [] if condition is None else footprint.guard.conditions(())
    return [part for part in (*guard, *parts) if not is_within_bounds(env, part)]


def has_cases_of_products(e: Expr | Cond) -> bool:
    """Whether `e` has cases and products of variables, or quotients by them.

    Membership guards assume no end of this kind: a domain has many pieces for it, and cannot compare them. So they
    imply it where the region does.
    """
    return ops.SELECT in dag.operations(e) and dag.is_nonlinear((e,))


def _unpassed_end(env: LoopEnvironment, bounds: StageBounds, iv: IterVar) -> Linear | None:
    """The last element of an aligned root axis whose loops never pass it; `None` if a split may pass it."""
    rounds = any(isinstance(r, Split) and r.tail is Tail.ROUND_UP for r in bounds.relations)
    if rounds or iv not in bounds.aligned or iv in overrun_roots(bounds):
        return None
    return env.form(extent(bounds.ranges[iv])).shift(-1)


def _forms_of_ends(env: LoopEnvironment, bounds: StageBounds, values: Mapping[IterVar, Expr]) -> list[Linear]:
    """Forms that are nonnegative because loops never pass the ends of aligned roots."""
    forms: list[Linear] = []
    for iv in bounds.op.root_iter_vars:
        end = _unpassed_end(env, bounds, iv)
        if end is None or iv not in values:
            continue
        value = values[iv]
        forms.append(end.minus(env.form(value)))
        if value.op is ops.FLOORMOD:
            whole, divisor = value.args
            forms.append(end.minus(env.form(whole - divisor * floordiv(whole, divisor))))
    return forms


def within_side(
    env: LoopEnvironment,
    bounds: StageBounds,
    iv: IterVar,
    value: Expr,
    end: Linear | None = None,
    by_region: bool = False,
) -> list[Cond]:
    """The unproved conditions that a root axis of this value lies in its interval.

    A lower end needs a condition only for aligned axes: other loops start at it.

    Parameters
    ----------
    end: an upper end that loops never pass.
    by_region: whether guards of membership in the region imply the ends that they do not assume.
    """
    side = bounds.sides[iv]
    if by_region and iv in data_axes(bounds.op):
        lows, highs = ([f for f in forms if not has_cases_of_products(f.expr())] for forms in (side.lows, side.highs))
        side = SymbolicInterval(tuple(lows), tuple(highs))
    form = env.form(value)
    conditions: list[Cond] = []
    if iv in bounds.aligned:
        conditions += [value >= low.expr() for low in side.lows if not _is_at_most(env, low, form)]
    for high in side.highs:
        ends = [e for e in end_forms(env, high.expr(), ops.MIN) if end is None or not e.same(end)]
        if not all(_is_at_most(env, form, e) for e in ends):
            conditions.append(value <= high.expr())
    return conditions


def _is_at_most(env: LoopEnvironment, low: Linear, high: Linear) -> bool:
    """Whether `low <= high` is proved, directly or for dividends of quotients by one size."""
    if env.is_nonneg(high.minus(low)):
        return True
    one, other = _quotient(low), _quotient(high)
    if one is None or other is None or one[1] is not other[1]:
        return False
    return env.is_nonneg(env.form(one[1])) and env.is_nonneg(env.form(other[0] - one[0]))


def _quotient(form: Linear) -> tuple[Expr, Expr] | None:
    """Dividend and divisor of a form that is a single quotient, else `None`."""
    term = next(iter(form.terms), None)
    if term is None or len(form.terms) > 1 or form.terms[term] != 1 or form.const or term.op is not ops.FLOORDIV:
        return None
    return term.args[0], term.args[1]


def split_guards(
    env: LoopEnvironment,
    bounds: StageBounds,
    relations: Sequence[IterVarRelation],
    values: Mapping[IterVar, Expr],
    by_region: bool = False,
) -> list[Cond]:
    """Guards that keep the loops of splits inside their parents; `by_region` as for `within_side`."""
    guards: list[Cond] = []
    above = roots_above(bounds)
    for relation in relations:
        if not isinstance(relation, Split) or relation.parent not in values or shrinks(bounds, relation):
            continue
        root = above.get(relation.parent)
        if root is not None and (relation.overruns(bounds.ranges) or runs_over(bounds, relation)):
            guards += within_side(env, bounds, root, values[root], by_region=by_region)
        elif relation.overruns(bounds.ranges):
            end = extent(bounds.ranges[relation.parent]) - 1
            value = values[relation.parent]
            if not env.is_nonneg(env.form(end - value)):
                guards.append(value <= env.form(end).expr())
    return guards


def overrun_roots(bounds: StageBounds) -> set[IterVar]:
    """The roots whose loops run past the end of the range; a guard stops them."""
    above = roots_above(bounds)
    return {
        above[r.parent]
        for r in bounds.relations
        if isinstance(r, Split)
        and r.parent in above
        and not shrinks(bounds, r)
        and (r.overruns(bounds.ranges) or runs_over(bounds, r))
    }


def shrinks(bounds: StageBounds, split: Split) -> bool:
    """Whether the inner loop ends with its parent, which needs no guard."""
    return split.tail is Tail.SHRINK and shrinking(bounds, split.inner) is split


def roots_above(bounds: StageBounds) -> dict[IterVar, IterVar]:
    """Each root, and each rebased root, mapped to the root."""
    above = {iv: iv for iv in bounds.op.root_iter_vars}
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent in above:
            above[relation.rebased] = above[relation.parent]
    return above


def runs_over(bounds: StageBounds, split: Split) -> bool:
    """Whether a split further below overruns its parent without a guard."""
    below = with_descendants(bounds.relations, split.children)
    further = (r for r in bounds.relations if isinstance(r, Split) and r.parent in below)
    return any(overruns_unguarded(bounds, relation) for relation in further)


def overruns_unguarded(bounds: StageBounds, split: Split) -> bool:
    """Whether a split computes whole tiles past the end of its parent."""
    if split.tail is not Tail.ROUND_UP:
        return False
    covered = split.covered(bounds.ranges)
    return covered is None or covered != simple.number(extent(bounds.ranges[split.parent]))


# -- how ranges have to be --------------------------------------------------------------------------------------------


def uniform_roots(stage: Stage, relations: Sequence[IterVarRelation], with_nparts: bool = True) -> set[IterVar]:
    """The roots that need one extent for all instances.

    These are fused roots, roots split by `nparts` or with shifting tiles (their indices would not be affine), and roots
    with threaded, unrolled, vectorized or tensorized loops.
    """
    leaves = stage.leaf_iter_vars
    marked = {iv for iv in leaves if stage.thread_of(iv) is not None or stage.kind_of(iv) in _FIXED_KINDS}
    for relation in reversed(relations):
        if isinstance(relation, Fuse) or not marked.isdisjoint(relation.children):
            marked.update(relation.parents)
        elif isinstance(relation, Split) and (
            relation.tail in _FIXED_TAILS or (relation.factor is None and with_nparts)
        ):
            marked.add(relation.parent)
    return marked


_FIXED_KINDS = (IterType.UNROLLED, IterType.VECTORIZED, IterType.TENSORIZED)
_FIXED_TAILS = (Tail.SHIFT_INWARDS, Tail.ROUND_UP)


def rounded_up(relations: Sequence[IterVarRelation], root: IterVar, total: Expr) -> Expr:
    """The extent of a root axis, rounded up to whole tiles if its split rounds up."""
    split = rounding_split(relations, root)
    if split is None:
        return total
    size = split.nparts if split.factor is None else split.factor
    assert size is not None
    return simple.mul(simple.ceildiv(total, size), size)


def rounding_split(relations: Sequence[IterVarRelation], root: IterVar) -> Split | None:
    """The split of a root axis if it rounds up."""
    axis = root
    for relation in relations:
        if isinstance(relation, Rebase) and relation.parent is axis:
            axis = relation.rebased
        elif isinstance(relation, Split) and relation.parent is axis:
            return relation if relation.tail is Tail.ROUND_UP else None
    return None


def nest_of(bounds: StageBounds) -> StageNest:
    """The nest of a stage for a code generator."""
    loops = tuple(loop_of(bounds, iv) for iv in bounds.stage.leaf_iter_vars)
    return StageNest(bounds.stage, loops, bounds.values, bounds.guards, bounds.start)


def loop_of(bounds: StageBounds, iv: IterVar) -> StageLoop:
    """The loop of an axis with its thread and kind; a new one from 0 without one."""
    if iv not in bounds.loops:
        return StageLoop(iv.part(iv.name), Range(0, bounds.ranges[iv].extent), None, IterType.DATA_PAR)
    return StageLoop(iv, bounds.loops[iv], bounds.stage.thread_of(iv), bounds.stage.kind_of(iv))


_MAX_PARTS: Final = 8  # parts of varying length


def without_products(env: LoopEnvironment, exprs: Sequence[Expr]) -> list[Expr]:
    """Replace `part * length` for varying lengths by sums of `length` over the preceding parts.

    Sets of such sums are exact if all expressions are affine then; the given ones otherwise.
    """
    new: dict[Node, Any] = {}
    for node in dag.postorder(exprs):
        args = tuple(new[arg] for arg in node.args)
        if node.op is ops.MUL:
            for part, length in (args, args[::-1]):
                limits = env.ranges.get(part)
                parts = None if limits is None else constant_extent(limits)
                if parts is not None and parts <= _MAX_PARTS and not length.is_const:
                    new[node] = sum_of([select(part >= k, length, 0) for k in range(1, parts)])
                    break
            else:
                new[node] = node.with_args(args)
        else:
            new[node] = node.with_args(args)
    answer = [new[e] for e in exprs]
    return list(exprs) if dag.is_nonlinear(answer) else answer


def _create_reduction_init(env: LoopEnvironment, bounds: StageBounds) -> ReductionInit | None:
    """The initialisation for a stage with known loops; `None` without a reduction."""
    op, leaves = bounds.op, bounds.stage.leaf_iter_vars
    if not isinstance(op, (ComputeOp, TensorComputeOp)) or not op.reduce_axis:
        return None
    kinds = _constituents(bounds)
    reducing = {iv for iv, (reduces, _) in kinds.items() if reduces}
    running = (k for k, iv in enumerate(leaves) if iv in reducing and constant_extent(bounds.loops[iv]) != 1)
    position = next(running, len(leaves))
    relations = tuple(r for r in bounds.relations if not reducing.intersection(r.children))
    loops = {iv: loop_of(bounds, iv) for iv in _inside(bounds, kinds, position)}
    points: dict[IterVar, Expr] = {
        iv: low(env.ranges[iv]) if constant_extent(env.ranges[iv]) == 1 else iv
        for iv in (*bounds.outer, *leaves[:position])
        if iv not in reducing
    }
    for iv, loop in loops.items():
        env.add(loop.iv, loop.range)
        own = low(loop.range) if constant_extent(loop.range) == 1 else loop.iv
        points[iv] = own if loop.iv is iv else own + low(bounds.ranges[iv])
    spelled = pass_up_index(relations, bounds.ranges, points)
    values = {iv: spelled[iv] for iv in op.root_iter_vars if iv in spelled and iv not in reducing}
    is_mixed = any(kinds[r.children[0]] == (True, True) for r in bounds.relations)  # the data loops are new
    inside = bounds.stays_inside and not is_mixed
    apart = replace(bounds, relations=relations, values=values, stays_inside=inside)
    around = [*(iv for _, iv in bounds.path), *leaves[:position], *(loop.iv for loop in loops.values())]
    guards = without_implied(env, around, all_guards(env, apart, spelled))
    return ReductionInit(position, tuple(loops.values()), values, guards)


def _constituents(bounds: StageBounds) -> dict[IterVar, tuple[bool, bool]]:
    """For each axis, whether it contains reduction axes, and whether it contains data axes.

    Reduction axes of extent 1 do not count: no loop runs over them.
    """
    reduced = {iv for iv in bounds.op.root_iter_vars if iv.is_reduce and constant_extent(bounds.ranges[iv]) != 1}
    leaves = (*bounds.outer, *bounds.stage.leaf_iter_vars)
    kinds = {iv: (iv in reduced, iv not in reduced) for iv in (*leaves, *bounds.op.root_iter_vars)}
    for relation in bounds.relations:
        starts = [kinds.setdefault(iv, (False, True)) for iv in relation.parents]
        both = any(reduces for reduces, _ in starts), any(data for _, data in starts) or not starts
        kinds.update(dict.fromkeys(relation.children, both))
    return kinds


def _inside(bounds: StageBounds, kinds: Mapping[IterVar, tuple[bool, bool]], position: int) -> list[IterVar]:
    """The data axes with loops from `position` inwards, ordered by their first loops."""
    leaves = bounds.stage.leaf_iter_vars
    mixed = (relation for relation in bounds.relations if kinds[relation.children[0]][0])
    fused = [iv for relation in mixed for iv in relation.parents if not kinds[iv][0]]

    def first(iv: IterVar) -> int:
        below = with_descendants(bounds.relations, (iv,))
        return next(k for k, leaf in enumerate(leaves) if leaf in below)

    return sorted((*(iv for iv in leaves[position:] if not kinds[iv][0]), *fused), key=first)

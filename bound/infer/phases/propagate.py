"""Phases 1 to 3 of InferRootBound: InitialiseLeaves, PassUpDomain, PropBoundToInputs.

Phase 1 decides which loops around a read are fixed and which are relaxed. Phase 2, case 1 of the document: an axis with
relaxed loops only is one variable over its range, whatever splits and fuses are below. Case 2: axes between a fixed
loop and a root are expressions in loop variables.

Phase 3: if index and guards keep the intervals of the iterations independent, the image is a box and its ends are found
by arithmetic. Everything else is one question to the domain: the image of the whole index tuple under all guards.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from bound.infer import footprint as footprints
from bound.infer.accesses import TensorAccess
from bound.infer.environment import FEW, LoopEnvironment, constant_extent, has_instance, transitive_ranges
from bound.infer.extents import enumerate_image
from bound.infer.footprint import SymbolicInterval
from bound.infer.phases import pass_down
from bound.infer.phases.guards import follows_from_one
from bound.itervar import IterVar
from bound.schedule import Fuse, IterVarRelation, Rebase, Split, Stage, simple
from bound.schedule.attach import AttachPath, default_storage_rank, needs_relax, outside, storage_rank
from bound.schedule.relations import pass_up_index
from bound.schedule.simple import extent, low
from bound.tensor import PlaceholderOp
from bound.tir.walk import loaded_tensor
from intset.context import Context
from intset.domains.query import notes_of_bounds
from intset.domains.registry import CHEAPEST
from intset.domains.sets.answers import image_in_instances
from intset.domains.sets.region import Region
from intset.errors import BudgetError
from intset.expr import POS_INF, Cond, Expr, Node, Range, Var, as_expr, dag, ops
from intset.expr.build import logical_and, logical_not
from intset.linear.form import Linear, atom, constant, is_affine


@dataclass(frozen=True)
class LoopState:
    """A loop around a read, fixed or relaxed.

    Attributes
    ----------
    stage: the owner of the loop.
    iv: the loop variable.
    is_fixed: whether one instance of the producer serves a single iteration; else it serves the whole range.
    """

    stage: Stage
    iv: IterVar
    is_fixed: bool


def storage_rank_of(stage: Stage, path: AttachPath) -> int:
    """The storage rank of a stage: its scope's, by default that of surrounding threads."""
    if stage.scope:
        return storage_rank(stage.scope)
    return default_storage_rank(tuple([at.tag_of(iv) for at, iv in path]))


def initialise_leaves(
    producer: Stage,
    producer_path: AttachPath,
    consumer: Stage,
    consumer_path: AttachPath,
    shared: Container[IterVar] = (),
) -> tuple[LoopState, ...]:
    """The loops around the consumer's formula, innermost first, each fixed or relaxed for the producer.

    A loop is fixed if the producer is computed inside it, except a thread loop whose threads share the producer's
    storage. A thread loop outside the producer's attach path is relaxed even for private storage, unlike in TVM: each
    thread computes the union over all threads, because the producer cannot name its reader. In a loop that
    both stages share (`shared`) each thread serves itself.

    Raises
    ------
    ScheduleError: the consumer is outside the loop at which the producer is computed.
    """
    rank = storage_rank_of(producer, producer_path)
    around = {iv for _, iv in producer_path}
    own = tuple((consumer, iv) for iv in reversed(consumer.leaf_iter_vars))
    states = []
    is_inside = False
    for stage, iv in (*own, *consumer_path):
        is_inside = is_inside or iv in around
        is_fixed = is_inside and (iv in shared or not needs_relax(stage.tag_of(iv), rank))
        states.append(LoopState(stage, iv, is_fixed))
    if not is_inside and producer_path:
        raise outside(consumer, producer, producer_path)
    return tuple(states)


@dataclass
class Iterations:
    """The iteration domain of a consumer during one instance of a producer.

    Guarantee: contains every evaluation of the consumer's formula; exact without notes.

    Attributes
    ----------
    values: each root axis as an expression in relaxed and fixed variables.
    relaxed: the variables that run, each over an interval with ends in fixed and other relaxed variables.
    fixed: the parameters of the footprint, with their ranges.
    where: forms that are nonnegative throughout the domain.
    conditions: further conditions, not necessarily linear.
    notes: where precision was given up.
    """

    values: dict[IterVar, Expr]
    relaxed: dict[Var, SymbolicInterval]
    fixed: dict[Var, Range]
    where: list[Linear] = field(default_factory=list)
    conditions: list[Cond] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pass_up(env: LoopEnvironment, bounds: pass_down.StageBounds, states: Sequence[LoopState]) -> Iterations:
    """PassUpDomain: the iteration domain of one consumer.

    Parameters
    ----------
    bounds: the bounds of the consumer.
    states: the loops around its formula, from `initialise_leaves`.
    """
    own = {state.iv: state for state in states if state.stage is bounds.stage}
    points = {iv: low(r) for iv, r in bounds.loops.items() if constant_extent(r) == 1}
    above = pass_down.roots_above(bounds)
    whole = _wholly_relaxed(bounds, own, points, above)
    spelled = [r for r in bounds.relations if not all(parent in whole for parent in r.parents) or not r.parents]
    hidden = {child for r in bounds.relations if r not in spelled for child in r.children}
    fixed: dict[Var, Range] = {}
    start: dict[IterVar, Expr] = {}
    for iv, state in own.items():
        if iv in points:
            start[iv] = points[iv]
        elif state.is_fixed:
            fixed[iv], start[iv] = bounds.loops[iv], iv
    for iv in bounds.outer:  # shared loops in place of its own
        limits = env.ranges[iv]
        start[iv] = low(limits) if constant_extent(limits) == 1 else iv
    relaxed: dict[Var, SymbolicInterval] = {}
    for iv in whole:
        if iv in hidden or iv in points and iv not in bounds.op.root_iter_vars:
            continue
        side = None if bounds.stays_inside and iv in bounds.widened else bounds.sides.get(iv)
        _relax(iv, side or _interval(env, bounds.loops.get(iv, bounds.ranges[iv])), start, relaxed)
    values = pass_up_index(spelled, bounds.ranges, start)
    if any(isinstance(r, Split) and simple.number(extent(bounds.ranges[r.inner])) is None for r in spelled):
        values = dict(zip(values, pass_down.without_products(env, list(values.values())), strict=True))
    it = Iterations({iv: values[iv] for iv in bounds.op.root_iter_vars if iv in values}, relaxed, fixed)
    for iv in bounds.op.root_iter_vars:  # axes without loops, such as those of a tensorized tile
        if iv not in it.values and iv in bounds.sides:
            _relax(iv, bounds.sides[iv], it.values, relaxed)
    _outer_loops(env, bounds, states, it)
    _conditions(env, bounds, spelled, values, it)
    around = {state.iv: env.ranges[state.iv] for state in states if state.stage is not bounds.stage}
    only = {iv: low(limits) for iv, limits in around.items() if constant_extent(limits) == 1}
    if only:  # loops that `_outer_loops` leaves out: guards of the consumer get their values
        it.conditions[:] = [dag.substitute(cond, only) for cond in it.conditions]
        it.where[:] = [env.form(dag.substitute(form.expr(), only)) for form in it.where]
    return it


def _relax(
    iv: IterVar, side: SymbolicInterval, values: dict[IterVar, Expr], relaxed: dict[Var, SymbolicInterval]
) -> None:
    """Let an axis take the values of an interval, as a variable; an interval of one element is that element."""
    if len(side.lows) == len(side.highs) == 1 and side.lows[0].same(side.highs[0]):
        values[iv] = side.lows[0].expr()
    else:
        values[iv], relaxed[iv] = iv, side


def _wholly_relaxed(
    bounds: pass_down.StageBounds,
    own: Mapping[IterVar, LoopState],
    points: Mapping[IterVar, Expr],
    above: Mapping[IterVar, IterVar],
) -> dict[IterVar, None]:
    """The axes that run over their whole range while all fixed loops stay put."""
    whole = dict.fromkeys(iv for iv, state in own.items() if not state.is_fixed or iv in points)
    for relation in reversed(bounds.relations):
        if isinstance(relation, Split):
            inside = not pass_down.overruns_unguarded(bounds, relation) or relation.parent in above
            if inside and relation.outer in whole and relation.inner in whole:
                whole[relation.parent] = None
        elif isinstance(relation, Fuse):
            if relation.fused in whole:
                whole[relation.outer] = whole[relation.inner] = None
        elif isinstance(relation, Rebase) and relation.rebased in whole:
            whole[relation.parent] = None
    return whole


def _interval(env: LoopEnvironment, r: Range) -> SymbolicInterval:
    return SymbolicInterval(
        tuple(footprints.end_forms(env, low(r), ops.MAX)), tuple(footprints.end_forms(env, as_expr(r.max), ops.MIN))
    )


def _outer_loops(
    env: LoopEnvironment, bounds: pass_down.StageBounds, states: Sequence[LoopState], it: Iterations
) -> None:
    """Enter the loops around the consumer as fixed or relaxed variables."""
    for state in states:
        if state.stage is bounds.stage:
            continue
        limits = env.ranges[state.iv]
        if constant_extent(limits) == 1:
            continue
        if state.is_fixed:
            it.fixed[state.iv] = limits
        else:
            it.relaxed[state.iv] = _interval(env, limits)


def _conditions(
    env: LoopEnvironment,
    bounds: pass_down.StageBounds,
    spelled: Sequence[IterVarRelation],
    values: Mapping[IterVar, Expr],
    it: Iterations,
) -> None:
    """Enter the guards of case 2, and membership in the computed region."""
    guards = pass_down.split_guards(env, bounds, spelled, values)
    for guard in list(guards):
        others = [other for other in guards if other is not guard]
        if others and follows_from_one(env, guard, others):
            guards = others
    it.conditions += guards
    if bounds.stays_inside:
        return
    footprint = bounds.region
    for iv in bounds.op.root_iter_vars:
        if iv in bounds.widened and iv in values and iv not in it.relaxed:
            it.conditions += pass_down.within_side(env, bounds, iv, values[iv])
    if footprint.box is not None:
        it.where += footprint.box.where
        it.conditions += footprint.box.also
        return
    axes = pass_down.data_axes(bounds.op)
    if not axes:
        return
    try:
        it.conditions += footprint.conditions([it.values[iv] for iv in axes])
    except BudgetError as error:
        it.notes.append(f"the guard of {bounds.stage.name} was not used: {error}")


@dataclass(frozen=True)
class _Image:
    """The image of independent intervals.

    Attributes
    ----------
    hull: its bounding box in each instance, guarded by its nonemptiness.
    is_box: whether it is the whole box.
    running: otherwise, the intervals of the variables in the index.
    """

    hull: footprints.Box
    is_box: bool
    running: tuple[Range, ...] = ()


class Propagation:
    """Footprints of the accesses of one consumer, for one choice of fixed loops.

    Guarantee: a footprint contains every element that the access reaches, and is exact unless it says otherwise.
    """

    def __init__(self, env: LoopEnvironment, it: Iterations) -> None:
        self.env, self.it = env, it
        self._forms: dict[Expr, Linear] = {iv: env.form(value) for iv, value in it.values.items()}
        # The length of a fixed loop depends on a relaxed one (threads sharing storage): not a box.
        self._is_linked = any(v in it.relaxed for v in transitive_ranges(env, it.fixed))
        self._images: dict[object, tuple[list[Linear], footprints.Footprint]] = {}
        self._contexts: dict[tuple[Var, ...], Context] = {}

    def image(self, access: TensorAccess, shape: Sequence[Expr]) -> footprints.Footprint:
        """The footprint of `access` in a tensor with extents `shape`."""
        footprint = self._image(access, shape)
        sources = map(_source, dag.opaque_terms(*access.indices, *access.conditions))
        names = sorted({name for name in sources if name is not None})
        if not names:
            return footprint
        return footprint.with_notes(f"of {', '.join(names)} a range is known, not which values occur")

    def _image(self, access: TensorAccess, shape: Sequence[Expr]) -> footprints.Footprint:
        """The image; of indices that differ by numbers from those of an earlier access, its box moved by these."""
        rows = [self._in_variables(self.env.form(e)) for e in access.indices]
        key = (replace(access, indices=()), *[tuple(row.terms.items()) for row in rows])
        known, footprint = self._images.get(key, (rows, None))
        if footprint is None or footprint.box is None:
            _, footprint = self._images[key] = rows, self._image_of(access, rows, shape)
            return footprint
        return footprint.moved([row.const - like.const for row, like in zip(rows, known, strict=True)])

    def _image_of(self, access: TensorAccess, rows: Sequence[Linear], shape: Sequence[Expr]) -> footprints.Footprint:
        extra = {var: footprints.span(self.env, r) for var, r in access.extra}
        image = None
        if not (self.env.prefers_regions or (self._is_linked and self.env.has_regions)):
            image = self._box(access, rows, extra)
            if image is not None and image.is_box:
                return footprints.Footprint(len(shape), image.hull, None, not self.it.notes, self.it.notes)
        footprint = self._ask_domain(access, extra, shape, image is None or not self._has_gaps(image))
        if image is not None and footprint.exact:
            footprint.set_hull(image.hull, True)
        return footprint

    def leaves(self, box: footprints.Box, point: Sequence[Expr]) -> bool:
        """Whether the point of a sampled iteration is outside of a box over fixed variables."""
        values = self.it.values
        given = [
            *(form.expr() >= 0 for form in self.it.where),
            *(dag.substitute(c, values) for c in self.it.conditions),
        ]
        outside = logical_not(logical_and(*box.conditions([dag.substitute(e, values) for e in point])))
        ranges = transitive_ranges(self.env, [*self.it.relaxed, *self.it.fixed])
        return has_instance(self.env, ranges, [*given, outside], mixed=FEW)

    def _has_gaps(self, image: _Image) -> bool:
        """Whether a sampled instance has fewer iterations than its hull has points."""
        hull = [side.range() for side in image.hull.sides]
        points, iterations = ([as_expr(r.extent) for r in sides] for sides in (hull, image.running))
        fewer = prod(iterations, start=as_expr(1)) < prod(points, start=as_expr(1))
        conditions = [fewer, *image.hull.nonempty_conditions()]  # the first one fails most often
        ranges = transitive_ranges(self.env, [v for cond in conditions for v in cond.free_vars()])
        return has_instance(self.env, ranges, conditions, mixed=FEW)

    # -- arithmetic on ends -------------------------------------------------------------------------------------

    def _box(
        self, access: TensorAccess, rows: Sequence[Linear], extra: Mapping[Var, SymbolicInterval]
    ) -> _Image | None:
        """The image of independent intervals; `None` if they are related or its ends are unknown."""
        conditions = [*self.it.conditions, *access.conditions]
        relaxed = {**self._running(access.before), **extra}
        if not all(_is_affine_in(row, relaxed, has_quotients=True) for row in rows):
            return None
        ends: dict[Var, tuple[list[Linear], list[Linear]]] = {
            var: (list(side.lows), list(side.highs)) for var, side in relaxed.items()
        }
        where = list(self.it.where)
        also: dict[Cond, None] = {}
        for cond in conditions:
            forms = self.env.forms_of(cond)
            if forms is None:
                spelled = dag.substitute(cond, self.it.values)
                if dag.opaque_terms(spelled) or any(v in relaxed for v in spelled.free_vars()):
                    return None
                also[spelled] = None
                continue
            if not all(_enter(self._in_variables(form), ends, where) for form in forms):
                return None
        moved = _independent(self.env, ends, where)
        if moved is None:
            return None
        sides, shifts = moved
        moved_rows = [
            footprints.added(row, [(start, row.terms.get(v, 0)) for v, start in shifts.items()]) for row in rows
        ]
        if not all(_is_affine_in(row, relaxed, has_quotients=True) for row in moved_rows):
            return None
        image = self._product(moved_rows, sides, where)
        if image is None or not also:
            return image
        return replace(image, hull=footprints.Box(image.hull.sides, image.hull.where, tuple(also)))

    def _in_variables(self, form: Linear) -> Linear:
        """A form over root axes, rewritten over the variables of the iterations."""
        result = constant(form.const)
        for e, k in form.terms.items():
            value = self._forms.get(e)
            if value is None and not isinstance(e, Var) and any(v in self._forms for v in e.free_vars()):
                value = self.env.form(dag.substitute(e, self.it.values))
            result = result.plus(atom(e) if value is None else value, k)
        return result

    def _product(
        self, rows: Sequence[Linear], sides: Mapping[Var, SymbolicInterval], where: list[Linear]
    ) -> _Image | None:
        """The image of independent intervals; `None` if its ends are unknown.

        It is a box if dimensions share no variable and have no gaps.
        """
        env = self.env
        used: dict[Var, None] = {}
        result = []
        is_box = True
        for row in rows:
            terms = footprints.independent_terms(env, row, sides)
            if terms is None:
                return None
            rest, own = terms
            running = [v for term in own for v in term.variables]
            is_box = is_box and used.keys().isdisjoint(running) and all(term.is_contiguous for term in own)
            used.update(dict.fromkeys(running))
            own.sort(key=lambda term: abs(term.factor))
            if not footprints.is_contiguous(env, [(term.side, abs(term.factor)) for term in own]):
                is_box = False
            if len(running) > 1 or any(v not in row.terms for v in running):
                for v in running:
                    where += footprints.unproved_gaps(env, sides[v], where)
            image = footprints.sum_of_intervals(env, rest, [(term.side, term.factor) for term in own])
            if image is None:
                return None
            result.append(image)
        for var, side in sides.items():
            if var not in used or not is_box:
                where += footprints.unproved_gaps(env, side, where)
        if any(form.is_const and form.const < 0 for form in where):
            return _Image(footprints.empty_box(len(rows)), True)
        running_sides = () if is_box else tuple(sides[v].range() for v in used)
        return _Image(footprints.with_where(env, footprints.Box(tuple(result)), where), is_box, running_sides)

    # -- asking the domain --------------------------------------------------------------------------------------

    def _ask_domain(
        self, access: TensorAccess, extra: Mapping[Var, SymbolicInterval], shape: Sequence[Expr], may_be_box: bool
    ) -> footprints.Footprint:
        values = self.it.values
        exprs = [dag.substitute(e, values) for e in access.indices]
        guards = [dag.substitute(cond, values) for cond in access.conditions]
        ranges, facts = _ranged(self.env, extra)
        if not self.env.has_regions:
            data = {term: Var(f"data{k}") for k, term in enumerate(dag.opaque_terms(*exprs, *guards))}
            exprs, guards = [dag.substitute(e, data) for e in exprs], [dag.substitute(cond, data) for cond in guards]
            ranges |= {var: _data_range(term) for term, var in data.items()}
        context = self._context(access.before).extended(ranges, [*facts, *guards])
        kept = [*self.it.fixed, *(v for v in self.env.context.ranges if v not in self.it.relaxed)]
        dims = len(exprs)
        if context.frame.known.empty:
            return footprints.Footprint(dims, footprints.empty_box(dims), None, not self.it.notes, self.it.notes)
        if (simpler := context.coalesced(exprs, kept)) is not None:
            context, exprs = simpler[0], list(simpler[1])
        try:
            if (quotients := self._quotients_by_sizes(context, access, exprs, kept)) and self.env.has_regions:
                footprint = footprints.Footprint(
                    dims, footprints.whole_tensor(self.env, shape), None, False, notes_of_bounds(quotients)
                )
            else:
                footprint = self._answer(context, exprs, kept, shape, may_be_box)
        except BudgetError as error:
            answer = context.image(exprs, keep=kept, domain=CHEAPEST)
            footprint = footprints.footprint_of_region(self.env, answer, shape).with_notes(str(error))
        if self.it.notes:
            footprint = footprint.with_notes(*self.it.notes)
        if self.env.has_regions and (not footprint.exact or self._has_terms(footprint)):
            listed = enumerate_image(self.env, context, exprs, list(self.it.fixed))
            if listed is not None:
                return listed.with_notes(*self.it.notes) if self.it.notes else listed
        if not footprint.exact and self.env.domain != CHEAPEST:
            footprint = self._narrower(footprint, context.image(exprs, keep=kept, domain=CHEAPEST), shape)
        return footprint

    def _answer(
        self, context: Context, exprs: Sequence[Expr], kept: Sequence[Var], shape: Sequence[Expr], may_be_box: bool
    ) -> footprints.Footprint:
        env = self.env
        if not env.has_regions:
            return footprints.footprint_of_region(env, context.image(exprs, keep=kept, domain=env.domain), shape)
        image = image_in_instances(context, exprs, kept, env.regions)
        return footprints.footprint_of_shape(env, len(exprs), image.shape, not image.notes, image.notes, may_be_box)

    def _quotients_by_sizes(
        self, context: Context, access: TensorAccess, exprs: Sequence[Expr], kept: Sequence[Var]
    ) -> list[Node]:
        """The quotients of running variables by sizes in the indices, if all of these are axes or differ by numbers.

        A set cannot contain the values of such a quotient, only those between its ends. The guards of the axis are ends
        of the same form, so the box of the interval domain is as tight.
        """
        forms = [self.env.form(e) for e in access.indices]
        if any(list(form.terms.values()) != [1] or self.it.values.keys().isdisjoint(form.terms) for form in forms):
            return []
        running = {v for v in context.ranges if v not in kept}
        return [
            e
            for e in dag.nonlinear_nodes(exprs)
            if e.op in ops.DIVISIONS
            and not running.isdisjoint(e.args[0].free_vars())
            and any(v not in context.ranges for v in e.args[1].free_vars())
        ]

    def _has_terms(self, footprint: footprints.Footprint) -> bool:
        """Whether the footprint depends on a nonlinear term over loops."""
        if footprint.box is not None:
            return False
        terms = [e for e in footprint.shape(self.env).atoms() if not isinstance(e, Var)]
        return any(v in self.env.ranges for e in terms for v in e.free_vars())

    def _narrower(self, footprint: footprints.Footprint, answer: Region, shape: Sequence[Expr]) -> footprints.Footprint:
        """An inexact footprint, intersected with the box of the interval domain."""
        other = footprints.footprint_of_region(self.env, answer, shape).box
        footprint.outline = footprints.Outline(footprints.whole_tensor, self.env, shape)
        hull = footprint.hull(self.env)
        assert other is not None
        sides = [
            footprints.interval(self.env, (*a.lows, *b.lows), (*a.highs, *b.highs)) or a
            for a, b in zip(hull.sides, other.sides, strict=True)
        ]
        if all(a.same(b) for a, b in zip(sides, hull.sides, strict=True)):
            return footprint
        return footprints.Footprint(
            footprint.dims, footprints.Box(tuple(sides), hull.where, hull.also), None, False, footprint.notes
        )

    def _running(self, before: Collection[Var]) -> dict[Var, SymbolicInterval]:
        """The variables that run at an access before the loops of `before`."""
        return {v: side for v, side in self.it.relaxed.items() if v not in before}

    def _context(self, before: tuple[Var, ...]) -> Context:
        """The iterations of the consumer at an access before the loops of `before`, as a context."""
        known = self._contexts.get(before)
        if known is None:
            running = self._running(before)
            ranges, facts = _ranged(self.env, running)
            conditions = [*facts, *(form.expr() >= 0 for form in self.it.where), *self.it.conditions]
            # Stated apart from the ranges: a variable absent from the index may still have an empty range.
            gaps = [gap for side in running.values() for gap in footprints.unproved_gaps(self.env, side)]
            conditions += [gap.expr() >= 0 for gap in gaps if not _depends(gap, running)]
            around = {**transitive_ranges(self.env, self.it.fixed), **ranges}
            known = self._contexts[before] = self.env.context.extended(around, conditions)
        return known


def _ranged(
    env: LoopEnvironment, intervals: Mapping[Var, SymbolicInterval]
) -> tuple[dict[Var, Range | None], list[Cond]]:
    """Intervals as ranges, or as conditions if a range would lose several ends or emptiness."""
    ranges: dict[Var, Range | None] = {}
    facts: list[Cond] = []
    for var, side in intervals.items():
        if not env.has_regions:
            ranges[var] = side.range()
            continue
        if len(side.lows) == len(side.highs) == 1 and all(map(is_affine, side.ends)):
            limits = side.range()
            ends = env.bounds(side.lows[0])[0], env.bounds(side.highs[0])[1]
            if limits.constant() is None and ends[0] is not None and ends[0] == ends[1]:
                # At most one point: conditions distinguish an empty range.
                ranges[var] = Range(ends[0], 2)
                facts += [var >= limits.min, var <= limits.max]
            else:
                ranges[var] = limits
            continue
        lows, highs = [env.bounds(f)[0] for f in side.lows], [env.bounds(f)[1] for f in side.highs]
        low = max((n for n in lows if n is not None), default=None)
        high = min((n for n in highs if n is not None), default=None)
        ranges[var] = side.range() if low is None or high is None else Range(low, max(high - low + 1, 0))
        if low is None or high is None:
            continue
        facts += [var >= form.expr() for form in side.lows if not form.is_const]
        facts += [var <= form.expr() for form in side.highs if not form.is_const]
    return ranges, facts


def _source(term: Expr) -> str | None:
    """The source of a computed integer in an index; `None` for elements of a placeholder."""
    tensor = loaded_tensor(term)
    if tensor is None:
        return str(term.data.name)
    return None if isinstance(tensor.op, PlaceholderOp) else tensor.name


def _data_range(term: Expr) -> Range:
    low, high = term.data.lower, term.data.upper
    if low is None:
        return Range.everything()
    return Range(low, POS_INF if high is None else high - low + 1)


def _is_affine_in(row: Linear, relaxed: Mapping[Var, object], has_quotients: bool = False) -> bool:
    """Whether a form is free of data, and affine in relaxed variables, or in these and quotients by numbers."""

    def is_term(e: Expr) -> bool:
        if isinstance(e, Var):
            return True
        is_quotient = has_quotients and footprints.number_divisor(e) is not None
        return not dag.opaque_terms(e) and (is_quotient or not any(v in relaxed for v in e.free_vars()))

    return all(map(is_term, row.terms))


def _enter(form: Linear, ends: dict[Var, tuple[list[Linear], list[Linear]]], where: list[Linear]) -> bool:
    """Turn `form >= 0` into an end of its variable; `False` if it relates several variables."""
    own = [e for e in form.terms if isinstance(e, Var) and e in ends]
    if len(own) > 1 or not _is_affine_in(form, ends):
        return False
    if not own:
        where.append(form)
        return True
    var = own[0]
    k = form.terms[var]
    rest = Linear(form.const, {e: c for e, c in form.terms.items() if e is not var})
    if abs(k) == 1:
        end = rest.scale(-k)
    elif rest.is_const:
        end = constant(-(rest.const // k) if k > 0 else rest.const // -k)
    else:
        return False
    lows, highs = ends[var]
    (lows if k > 0 else highs).append(end)
    return True


def _independent(
    env: LoopEnvironment, ends: Mapping[Var, tuple[list[Linear], list[Linear]]], where: Sequence[Linear]
) -> tuple[dict[Var, SymbolicInterval], dict[Var, Linear]] | None:
    """Intervals with ends over fixed variables, after a shift of variables by their lower ends.

    Returns the intervals and the shifts; `None` if no shift makes the variables independent.
    """
    if any(_depends(form, ends) for form in where):
        return None
    sides: dict[Var, SymbolicInterval] = {}
    shifts: dict[Var, Linear] = {}
    for var, (lows, highs) in ends.items():
        if any(_depends(form, ends) for form in (*lows, *highs)):
            low = lows[0]
            if len(lows) > 1:
                return None
            highs = [high.minus(low) for high in highs]
            if any(_depends(high, ends) for high in highs):
                return None
            lows, shifts[var] = [constant(0)], low
        side = footprints.interval(env, lows, highs)
        if side is None:
            return None
        sides[var] = side
    if any(e in shifts for low in shifts.values() for e in low.terms):
        return None
    return sides, shifts


def _depends(form: Linear, ends: Mapping[Var, object]) -> bool:
    return any(e in ends if isinstance(e, Var) else any(v in ends for v in e.free_vars()) for e in form.terms)

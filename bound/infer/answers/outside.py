"""Accesses outside their tensors: which exist, for which sizes, and which run-time checks they need.

The iteration domain of an access is exact: loops of the stage and of its attach path, the guards of both, and the
conditions inside the formula. InferBound clips regions to tensors, so they do not show such errors of the program.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from bound.infer.accesses import TensorAccess, implied, reads
from bound.infer.environment import LoopEnvironment, size_bounds, transitive_ranges
from bound.infer.phases.infer_root_bound import InferenceState
from bound.infer.phases.pass_down import StageBounds
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.tensor import ScanOp, Tensor
from bound.tir import walk
from bound.tir.build import together
from intset.context import Context
from intset.domains.sets.answers import image_in_instances
from intset.errors import BudgetError
from intset.expr import Cond, Expr, Range, Var, as_cond, as_expr, const, dag, ops
from intset.expr.build import logical_and, logical_or
from intset.expr.definedness import definedness
from intset.expr.evaluate import point_value
from intset.linear.form import Linear
from intset.prover.proof import PROVED, REFUTED, Proof
from intset.regions.shape import Shape

OUTSIDE: Final = 200_000  # operations of the domain, for one condition


@dataclass(frozen=True)
class Outside:
    """An access that may leave its tensor along one dimension.

    Attributes
    ----------
    stage: the reading stage.
    tensor: the tensor read.
    index: the indices over axes of the stage's operation.
    dim: the dimension concerned.
    extent: the extent of the tensor there, at the fixed sizes.
    point: a counterexample: values of axes, sizes and elements read; `None` if unknown.
    depends: "always": outside for all sizes at which the access happens; "sizes": inside exactly where `requires`
        holds; "data": dependent on elements read, or undecided.
    requires: the weakest condition on sizes for the access to be inside; `None` unless `depends` is "sizes".
    open_ends: the conditions over axes without a proof.
    """

    stage: Stage
    tensor: Tensor
    index: tuple[Expr, ...]
    dim: int
    extent: Expr
    point: Mapping[Expr, int] | None
    depends: str
    requires: Cond | None
    open_ends: tuple[Cond, ...]

    @property
    def access(self) -> str:
        """The access as written in the formula."""
        return f"{self.tensor.name}[{', '.join(map(str, self.index))}]"

    def where(self) -> str:
        """The counterexample as text: index variables, sizes and elements read."""
        shown = {*dag.free_vars(*self.index), *dag.free_vars(self.extent)}
        values = [
            f"{e.name if isinstance(e, Var) else e} = {value}"
            for e, value in (self.point or {}).items()
            if not isinstance(e, IterVar) or e in shown
        ]
        return ", ".join(values)

    def __str__(self) -> str:
        if self.point is None:
            return f"{self.stage.name} reads {self.access}, which is not known to be inside its extent {self.extent}"
        at = self.where()
        return f"{self.stage.name} reads {self.access} outside its extent {self.extent}{' at ' + at if at else ''}"


def find_outside(state: InferenceState) -> Iterator[Outside]:
    """The accesses without a proof that they stay inside their tensors, producers first."""
    for stage in state.schedule.stages:
        bounds = state.bounds.get(stage)
        if bounds is None or bounds.computed is None:
            continue
        spaces: dict[tuple[Var, ...], _EvaluationPoints] = {}
        for read in dict.fromkeys(reads(bounds.op, _wanted(state, stage))):
            space = spaces.get(read.before)
            if space is None:
                space = spaces[read.before] = _EvaluationPoints(state, bounds, read.before)
            yield from space.outside(read)


def _wanted(state: InferenceState, stage: Stage) -> tuple[Tensor, ...]:
    """A stage's outputs with readers or for the caller; all outputs of an output stage."""
    if stage.is_output:
        return stage.op.outputs
    graph, outputs = state.graph, stage.op.outputs
    return tuple(t for t in outputs if t in state.whole or any(not reader.is_inlined for reader in graph.get(t, ())))


class _EvaluationPoints:
    """The iteration domain of a formula, or of its part before the loops of some axes."""

    def __init__(self, state: InferenceState, bounds: StageBounds, before: Collection[Var]) -> None:
        self.state, self.bounds, self.env = state, bounds, state.env
        self.values: dict[Any, Any] = {v: const(k) for v, k in state.sizes.fixed.items()}
        self.values |= _thread_loops(bounds)
        self.values |= bounds.values
        scan = bounds.op if isinstance(bounds.op, ScanOp) else None
        spatial = () if scan is None else scan.spatial_axis
        stepping = () if scan is None else dag.free_vars(bounds.values.get(scan.scan_axis, const(0)))
        at_start = any(iv in before for iv in bounds.op.root_iter_vars if iv not in spatial)
        self.own: list[Var] = [iv for iv in bounds.stage.leaf_iter_vars if not (at_start and iv in stepping)]
        start = bounds.start if at_start else None
        if start is not None:
            self.values |= start.values
            self.own = [*bounds.stage.leaf_iter_vars[: start.place], *(loop.iv for loop in start.loops)]
        self.rest: dict[Var, Range | None] = {
            iv: bounds.ranges[iv] for iv in bounds.op.root_iter_vars if iv not in bounds.values and iv not in before
        }
        own = () if scan is not None and at_start else bounds.guards if start is None else start.guards
        self.guards = tuple(dict.fromkeys((*self._outer_guards(), *own)))
        # a store predicate excludes further points
        self.is_exact = bounds.stage.store_predicate is None

    def _outer_guards(self) -> Iterable[Cond]:
        """The guards of outer stages at the loops around this one: each is tested as far out as its variables allow."""
        for outer, leaf in self.bounds.path:
            if isinstance(outer.op, ScanOp) or leaf in self.state.sharing.loops:
                continue  # stages of a shared loop have separate guards
            leaves = list(outer.leaf_iter_vars)
            later = set(leaves[leaves.index(leaf) + 1 :])
            for guard in self.state.bounds[outer].guards:
                yield from (part for part in dag.conjuncts(guard) if not later & set(part.free_vars()))

    @cached_property
    def context(self) -> Context:
        around = [leaf for _, leaf in self.bounds.path]
        ranges: dict[Var, Range | None] = {**transitive_ranges(self.env, (*around, *self.own)), **self.rest}
        return self.env.context.extended(ranges, self.guards)

    def _facts(self, form: Linear) -> Iterator[Linear]:
        """The ends of the loops with which a form falls, and the guards, as nonnegative forms."""
        yield from (end.scale(-form.terms[loop]) for loop, end in self._ends if form.terms.get(loop, 0) < 0)
        yield from self._guard_forms

    @cached_property
    def _guard_forms(self) -> list[Linear]:
        parts = (self.env.forms_of(guard) for guard in self.guards)
        return [form for part in parts for form in part or ()]

    @cached_property
    def _ends(self) -> list[tuple[Var, Linear]]:
        """How far loops of no constant extent are from their last iterations; a form for each operand of a minimum."""
        ends, form = list[tuple[Var, Linear]](), self.env.form
        for loop in (*(leaf for _, leaf in self.bounds.path), *self.own):
            r = self.env.ranges.get(loop)
            if r is None or not isinstance(r.extent, Expr) or r.extent.is_const or not isinstance(r.min, Expr):
                continue
            end, start = r.extent.args if r.extent.op is ops.SUB else (r.extent, const(0))
            rest = form(r.min).minus(form(start)).minus(form(loop)).shift(-1)
            ends += [(loop, form(part).plus(rest)) for part in dag.chain(ops.MIN, end)]
        return ends

    def outside(self, read: TensorAccess) -> Iterable[Outside]:
        """The dimensions in which a read has no proof of staying inside."""
        shape = self.state.sizes.shape(read.tensor)
        index = [as_expr(walk.substitute(e, self.values)) for e in read.indices]
        inside: Context | None = None
        for dim, (e, extent) in enumerate(zip(index, shape, strict=True)):
            if not read.extra and self._stays(e, extent):
                continue
            inside = self._inside(read) if inside is None else inside
            if inside.frame.known.empty:
                return
            goals = (e >= 0, e < extent)
            proofs = [inside.prove(goal) for goal in goals]
            if not all(proofs):
                yield self._found(read, dim, extent, inside, proofs)

    def _stays(self, e: Expr, extent: Expr) -> bool:
        """Whether loop ends and a single guard prove an index to be inside."""
        form, env = self.env.form(e), self.env
        room = env.form(extent).shift(-1).minus(form)
        return all(env.is_nonneg(end, self._facts(end)) for end in (form, room))

    def _inside(self, read: TensorAccess) -> Context:
        extra = {var: self.state.sizes.range(r) for var, r in read.extra}
        facts = implied(walk.substitute(read.when, self.values), True)
        return self.context.extended(dict(extra), facts) if extra or facts else self.context

    def _found(self, read: TensorAccess, dim: int, extent: Expr, inside: Context, proofs: Sequence[Proof]) -> Outside:
        failed = [proof for proof in proofs if proof.status != PROVED]
        refuted = [proof for proof in failed if proof.status == REFUTED]
        when = read.when
        on_data = not self.is_exact or not isinstance(when, Cond) or dag.opaque_terms(when, *inside.frame.conditions)
        goals = tuple(proof.goal for proof in failed)
        if not on_data and bool(dag.opaque_terms(*goals)):
            within = together(*goals)
            never = isinstance(within, Cond) and inside.prove(~within) and not inside.prove(within)
            needed = SizeRequirement(ALWAYS if never else DATA)
        elif on_data:
            needed = SizeRequirement(DATA)
        else:
            needed = requirement(self.env, inside, goals, bool(refuted))
        point = self._point(read, refuted[0], inside) if refuted else None
        index, stage = read.indices[dim], self.bounds.stage
        ends = zip((index >= 0, index < extent), proofs, strict=True)
        unproved = tuple(end for end, proof in ends if proof.status != PROVED)
        return Outside(stage, read.tensor, read.indices, dim, extent, point, needed.depends, needed.condition, unproved)

    def _point(self, read: TensorAccess, proof: Proof, inside: Context) -> dict[Expr, int]:
        """A counterexample over axes of the operation, followed by sizes and elements read."""
        values = proof.counterexample or {}
        point: dict[Expr, int] = {}
        for iv in self.bounds.op.root_iter_vars:
            value = point_value(self.values.get(iv, iv), values)
            if value is not None:
                point[iv] = value
        point |= {var: values[var] for var, _ in read.extra if var in values}
        point |= {v: k for v, k in self.state.sizes.fixed.items() if v in dag.free_vars(*read.indices)}
        shape = self.state.sizes.shape(read.tensor)
        sizes = {*mentioned(inside, (proof.goal,)), *dag.free_vars(*shape, *read.indices)}
        shown = {e: k for e, k in values.items() if e in sizes or not isinstance(e, Var)}
        return point | {e: k for e, k in shown.items() if not isinstance(e, IterVar)}


def _thread_loops(bounds: StageBounds) -> dict[Any, Any]:
    """The loop bound to each thread axis: of the stage itself, else the innermost one around it."""
    around = [(outer.thread_of(leaf), leaf) for outer, leaf in reversed(bounds.path)]
    own = [(bounds.stage.thread_of(leaf), leaf) for leaf in bounds.stage.leaf_iter_vars]
    return {thread: leaf for thread, leaf in (*around, *own) if thread is not None and thread is not leaf}


ALWAYS: Final = "always"
SIZES: Final = "sizes"
DATA: Final = "data"
_MAX_NODES: Final = 120  # longer conditions are not readable
_MAX_PARTS: Final = 4


class SizeRequirement(NamedTuple):
    """The weakest condition on sizes for some goals.

    Attributes
    ----------
    depends: "sizes": the goals hold exactly where `condition` does; "always": they fail in every nonempty nest;
        "data": undecided.
    condition: a condition on sizes; `None` unless `depends` is "sizes".
    """

    depends: str
    condition: Cond | None = None


def requirement(env: LoopEnvironment, inside: Context, goals: Sequence[Cond], is_refuted: bool) -> SizeRequirement:
    """The weakest condition on sizes under which all `goals` hold at every point of `inside`.

    Parameters
    ----------
    inside: the iteration domain: loops with ranges, guards as facts.
    is_refuted: whether a counterexample to some goal exists.
    """
    loops = set(inside.ranges) - set(env.context.ranges)
    if is_refuted and not any(v not in loops for v in mentioned(inside, goals)):
        return SizeRequirement(ALWAYS)  # the counterexample is independent of sizes
    try:
        condition = _by_projection(env, inside, goals, loops)
    except BudgetError:
        condition = None
    if condition is None:
        condition = _by_ends(env, inside, goals, loops)
    return SizeRequirement(DATA) if condition is None else condition


def mentioned(inside: Context, goals: Sequence[Cond]) -> tuple[Var, ...]:
    """All variables of an iteration domain and of goals."""
    ends = [end for r in inside.ranges.values() for end in (r.min, r.extent) if isinstance(end, Expr)]
    in_facts = [v for fact in inside.facts for v in fact.condition.free_vars()]
    return tuple(dict.fromkeys((*dag.free_vars(*ends, *goals), *in_facts)))


# -- affine conditions: the points where a goal fails, projected onto the sizes ----------------------------------------


def _by_projection(
    env: LoopEnvironment, inside: Context, goals: Sequence[Cond], loops: set[Var]
) -> SizeRequirement | None:
    bad = _sizes_of(env, inside.extended(facts=[~logical_and(*goals)]), loops)
    alive = _sizes_of(env, inside, loops)
    if bad is None or alive is None:
        return None
    with env.budget(OUTSIDE):
        if bad.includes(alive):
            return SizeRequirement(ALWAYS)
        condition = _outside_of(bad, size_bounds(env, bad.atoms()))
    if condition is None or not dag.is_small(_MAX_NODES, (condition,)):
        return None
    return SizeRequirement(SIZES, condition)


def _outside_of(bad: Shape, legal: Shape) -> Cond | None:
    """The condition that legal sizes are not bad, as a disjunction without overlaps."""
    parts = legal.subtract(bad).pieces(_MAX_PARTS)
    if parts is None:
        return None
    alternatives = []
    for k, part in enumerate(parts):
        around = legal
        for other in (*parts[:k], *parts[k + 1 :]):
            around = around.subtract(other)
        alternatives.append(part.simplified(around).condition(()))
    return logical_or(*sorted(alternatives, key=lambda cond: len(list(dag.conjuncts(cond)))))


def _sizes_of(env: LoopEnvironment, points: Context, loops: set[Var]) -> Shape | None:
    """The sizes with a nonempty iteration domain, as a set of parameters; `None` if inexact."""
    image = image_in_instances(points, tuple(loops), tuple(env.context.ranges), env.regions)
    return None if image.notes else image.shape.project(())


# -- products of sizes: the ends of an index as expressions of sizes ---------------------------------------------------


def _by_ends(env: LoopEnvironment, inside: Context, goals: Sequence[Cond], loops: set[Var]) -> SizeRequirement | None:
    """For products of sizes: goals at the ends of their left sides, if attained in every nonempty nest."""
    if any(set(fact.condition.free_vars()) & loops for fact in inside.facts):
        return None  # guards may empty the domain
    empty = [as_cond(inside.ranges[v].extent < 1) for v in loops]
    if any(set(cond.free_vars()) & loops for cond in empty):
        return None
    running = [~cond for cond in empty]
    ends = [_at_the_end(inside.extended(facts=running), goal, loops) for goal in goals]
    if any(end is None for end in ends):
        return None
    condition = logical_and(*(end for end in ends if end is not None))
    if definedness((condition,)):
        return None  # a check needs a value for all sizes
    sizes = env.context
    if sizes.extended(facts=running).prove(~condition):
        return SizeRequirement(ALWAYS)
    needed = [cond for cond in empty if not sizes.prove(~cond) and not sizes.extended(facts=[cond]).prove(condition)]
    whole = logical_or(*needed, sizes.simplify(condition))
    return SizeRequirement(SIZES, whole) if dag.is_small(_MAX_NODES, (whole,)) else None


def _at_the_end(inside: Context, goal: Cond, loops: set[Var]) -> Cond | None:
    """`left >= right` at the minimum of `left`, `left < right` at its maximum; `None` if not attained."""
    left, right = goal.args
    assert isinstance(left, Expr) and isinstance(right, Expr)
    ends = inside.bounds(left, keep=[v for v in inside.ranges if v not in loops])
    at = ends[0] if goal.op is ops.GE else ends[1]
    if not ends.is_tight or not isinstance(at, Expr) or set(dag.free_vars(at, right)) & loops:
        return None
    return at >= right if goal.op is ops.GE else at < right

"""Nests without membership guards: one nest for each piece of a nonconvex or skewed region.

The region is written in lattice coordinates (`answers.compact`), which turns strides and equations into steps of loops,
and split into disjoint convex pieces, one for each value of a bounding quotient or remainder, each in its own lattice
coordinates again. A piece becomes nested intervals with ends over outer loops. PassDownDomain then runs once a piece,
so splits, fuses and annotations are those of the stage.

Guarantee: the nests compute the elements of the guarded nest, each once. They exist only if

- no loop is threaded, tensorized, or has a tail with repeated or excess elements (`shift_inwards`, `round_up`);
- a stage with attached producers has one piece, one loop an axis, and unchanged loop order. The loops of the guarded
  nest are then expressions in those of the piece (`StagePiece.moved`), so bounds of attached stages stay valid;
- an axis with ends over another axis has all loops inside those of the other, none of fixed length (fused, vectorized,
  unrolled, split by `nparts`).

Reductions are initialised and updated within each piece; no piece reads the elements of another.

Source: Bastoul, Code generation in the polyhedral model is easier than you think, PACT 2004 (CLooG), for one statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from bound.infer import footprint as footprints
from bound.infer.answers.storage import LatticeRegion, Storage, improved, places_of
from bound.infer.environment import LoopEnvironment, instances, transitive_ranges
from bound.infer.phases import pass_down
from bound.itervar import IterVar
from bound.schedule import Rebase, Split, Tail
from bound.schedule.relations import with_descendants
from bound.schedule.simple import extent, low
from bound.tensor import ComputeOp
from intset.errors import BudgetError
from intset.expr import Expr, Range, Var, as_expr, dag, ops
from intset.expr.build import maximum

STAGE_PIECES: Final = 500_000  # operations of the domain, for one stage

_TAILS: Final = (Tail.GUARD, Tail.SHRINK)
_MAX_NODES: Final = 16  # of the start of a piece; beyond it, loops count from 0
_NestPart = TypeVar("_NestPart", pass_down.StageNest, pass_down.ReductionInit)


@dataclass(frozen=True)
class StagePiece:
    """One of the nests of a stage.

    Attributes
    ----------
    nest: its loops, values and guards.
    moved: the loop variables of the guarded nest as expressions in its loops, for attached stages.
    """

    nest: pass_down.StageNest
    moved: Mapping[Var, Expr]


def pieces_of(
    env: LoopEnvironment, bounds: pass_down.StageBounds, most: int, has_attached: bool = False
) -> tuple[StagePiece, ...] | None:
    """The stage as at most `most` nests over a partition of its region, without guards; `None` if there are none.

    Parameters
    ----------
    has_attached: whether stages are computed inside its loops.
    """
    footprint = bounds.region
    if footprint.box is not None or not footprint.dims or not _is_simple(bounds):
        return None
    if has_attached and any(_only_loop(bounds, iv) is None for iv in pass_down.data_axes(bounds.op)):
        return None
    assert isinstance(bounds.op, ComputeOp)
    leaves = _leaves(bounds)
    axes = bounds.op.axis
    order = sorted(range(len(axes)), key=lambda k: min(leaves[axes[k]], default=0))
    pieces: list[StagePiece] = []
    try:
        with env.budget(STAGE_PIECES):
            whole = _lattice_region(
                env,
                bounds,
                footprints.footprint_of_shape(env, footprint.dims, footprint.unguarded.project(order), True),
            )
            if whole is None:
                return None
            whole = whole if has_attached else _straight(whole)
            parts = whole.numbers.shape(env).pieces(1 if has_attached else most)
            if parts is None:
                return None
            around = Storage(whole.offset(), whole.steps(), ())
            for part in parts:
                numbers = footprints.footprint_of_shape(env, footprint.dims, part, True)
                if len(parts) == 1 and around.is_identity:  # use the ends of the storage
                    hull = footprint.hull(env)
                    sides = tuple(hull.sides[k] for k in order)
                    numbers.set_hull(footprints.Box(sides, hull.where, hull.also), footprint.has_ends)
                piece = _PieceBuilder(env, bounds, [axes[k] for k in order], leaves, around, numbers).build()
                if piece is None:
                    return None
                pieces.append(piece)
    except BudgetError:
        return None
    return tuple(pieces)


def _lattice_region(
    env: LoopEnvironment, bounds: pass_down.StageBounds, footprint: footprints.Footprint
) -> LatticeRegion | None:
    """A footprint in coordinates of its lattice; `None` if it is empty."""
    lattice = footprint.shape(env).lattice()
    return None if lattice is None else LatticeRegion(env, footprint, bounds.fixed, *lattice)


def _straight(region: LatticeRegion) -> LatticeRegion:
    """Shear the coordinates if that makes the region a box, as for a skewed tile."""
    joins = any(sum(1 for step in row if step) > 1 for row in region.steps())
    if not joins or region.numbers.box is not None:
        return region
    storage = region.storage()
    if storage is None or places_of(storage) is None:
        return region
    best = improved(region, storage)[1]
    return best if best.numbers.box is not None else region


def _is_simple(bounds: pass_down.StageBounds) -> bool:
    stage = bounds.stage
    if not isinstance(bounds.op, ComputeOp) or stage.store_predicate is not None or stage.is_tensorized:
        return False
    is_threaded = any(stage.thread_of(iv) is not None for iv in stage.leaf_iter_vars)
    return not is_threaded and all(r.tail in _TAILS for r in bounds.relations if isinstance(r, Split))


def _leaves(bounds: pass_down.StageBounds) -> dict[IterVar, set[int]]:
    """The positions of the loops of each root axis."""
    below = {iv: with_descendants(bounds.relations, (iv,)) for iv in bounds.op.root_iter_vars}
    leaves = bounds.stage.leaf_iter_vars
    return {iv: {k for k, leaf in enumerate(leaves) if leaf in axes} for iv, axes in below.items()}


def _only_loop(bounds: pass_down.StageBounds, iv: IterVar) -> IterVar | None:
    """The single loop of an unsplit and unfused root axis, else `None`."""
    for relation in bounds.relations:
        if isinstance(relation, Rebase) and relation.parent is iv:
            iv = relation.rebased
        elif iv in relation.parents:
            return None
    return iv if iv in bounds.stage.leaf_iter_vars else None


@dataclass(frozen=True)
class _PieceBuilder:
    """Builds the nest of one piece.

    Attributes
    ----------
    axes: the data axes, in the order of their outermost loops.
    leaves: the positions of the loops of each root axis.
    around: the map from points of `footprint` to elements, in the order of `axes`.
    footprint: the piece, in lattice coordinates of the whole region.
    """

    env: LoopEnvironment
    bounds: pass_down.StageBounds
    axes: Sequence[IterVar]
    leaves: Mapping[IterVar, set[int]]
    around: Storage
    footprint: footprints.Footprint

    def build(self) -> StagePiece | None:
        """The nest, or `None` if no loops run over exactly this piece."""
        numbers = [Var(f"t{k}") for k in range(len(self.axes))]
        region = _lattice_region(self.env, self.bounds, self.footprint)
        if region is None:
            return None
        lattice = Storage(region.offset(), region.steps(), ())
        inside = self.footprint if lattice.is_identity else region.numbers
        lines = inside.shape(self.env).loops(numbers)
        if lines is None:
            return None
        env = self._outside()
        hull = inside.hull(self.env)
        is_known = inside.has_ends and self._is_alive(inside)
        sides: list[footprints.SymbolicInterval] = []
        for number, line, around in zip(numbers, lines, hull.sides, strict=True):
            side = footprints.interval(env, *line.sides[0])
            if side is None:
                return None
            if is_known and not any(_depends(side, other) for other in numbers):
                side = footprints.SymbolicInterval(around.lows, side.highs)
            sides.append(side)
            env.add(number, side.range())
        if not self._may_run(env, numbers, sides):
            return None
        guard = footprints.with_conditions(
            env, footprints.with_where(env, footprints.NO_GUARD, lines[0].where), lines[0].also
        )
        guard = footprints.guarded(env, guard, self.bounds.region.guard)
        nest = self._nest(env, numbers, sides, _with_equations(guard), lattice, hull)
        return StagePiece(nest, self._moved(nest))

    def _is_alive(self, numbers: footprints.Footprint) -> bool:
        """Whether the piece is provably nonempty in every instance."""
        around = instances(self.env, [v for v in (*numbers.variables(), *self.bounds.fixed) if v in self.env.ranges])
        return numbers.shape(self.env).project(()).includes(around)

    def _outside(self) -> LoopEnvironment:
        """The environment without the loops of the stage."""
        kept = transitive_ranges(self.env, [*self.bounds.fixed, *(iv for _, iv in self.bounds.path)])
        env = LoopEnvironment(self.env.context, (), self.env.domain, self.env.account)
        for v, limits in self.env.ranges.items():
            if v in kept:
                env.add(v, limits)
        return env

    def _may_run(
        self, env: LoopEnvironment, numbers: Sequence[Var], sides: Sequence[footprints.SymbolicInterval]
    ) -> bool:
        """Whether loop order and fixed loop lengths of the schedule permit these ends."""
        uniform = pass_down.uniform_roots(self.bounds.stage, self.bounds.relations)
        for k, (iv, side) in enumerate(zip(self.axes, sides, strict=True)):
            if iv in uniform and any(v in env.ranges for v in extent(side.range()).free_vars()):
                return False
            for j in range(k):
                outside, inside = self.leaves[self.axes[j]], self.leaves[iv]
                if _depends(side, numbers[j]) and not max(outside, default=-1) < min(inside, default=len(self.leaves)):
                    return False
        return True

    def _nest(
        self,
        env: LoopEnvironment,
        numbers: Sequence[Var],
        sides: Sequence[footprints.SymbolicInterval],
        guard: footprints.Box,
        lattice: Storage,
        hull: footprints.Box,
    ) -> pass_down.StageNest:
        """The loops over lattice coordinates, and the elements as functions of them."""
        whole = self.bounds
        op = whole.op
        assert isinstance(op, ComputeOp)
        data = set(op.axis)
        by_axis = dict(zip(self.axes, sides, strict=True))
        box = footprints.Box(tuple(by_axis[iv] for iv in op.axis), guard.where, guard.also)
        piece = replace(
            whole,
            computed=footprints.Footprint(len(op.axis), box),
            sides={iv: by_axis.get(iv, side) for iv, side in whole.sides.items()},
            ranges={iv: whole.ranges[iv] for iv in op.root_iter_vars if iv not in data}
            | {iv: side.range() for iv, side in by_axis.items()},
            loops={},
            widened={iv for iv in whole.widened if iv not in data},
            values={},
            guards=(),
        )
        pass_down.pass_down(env, piece)
        pass_down.finish_nest(env, piece)
        nest = pass_down.nest_of(piece)
        straight: dict[IterVar, Expr] = {}
        uniform = pass_down.uniform_roots(whole.stage, whole.relations)
        ranges = {loop.iv: loop.range for loop in nest.loops}
        for iv, side, around in zip(self.axes, sides, hull.sides, strict=True):
            leaf, start = _only_loop(whole, iv), low(around.range())
            if leaf is not None and iv not in uniform and any(_depends(side, other) for other in numbers):
                # count from the start of the piece
                start = start if _is_short(start) else as_expr(0)
                straight[iv] = start + leaf
                lows = [env.form(form.expr() - start).expr() for form in side.lows]
                ranges[leaf] = Range(maximum(*lows), extent(side.range()))

        def moved(at: _NestPart) -> _NestPart:
            """The same loops with elements instead of lattice coordinates."""
            values: dict[Expr, Expr] = {}
            for number, iv in zip(numbers, self.axes, strict=True):
                values[number] = straight[iv] if iv in straight else dag.substitute(at.values[iv], values)
            elements = self.around.at_numbers(lattice.at_numbers([values[number] for number in numbers]))
            element_of = dict(zip(self.axes, elements, strict=True))
            return replace(
                at,
                loops=tuple(replace(loop, range=_at(ranges.get(loop.iv, loop.range), values)) for loop in at.loops),
                values={iv: element_of.get(iv, e) for iv, e in at.values.items()},
                guards=tuple(dag.substitute(g, values) for g in at.guards),
            )

        return replace(moved(nest), start=None if nest.start is None else moved(nest.start))

    def _moved(self, nest: pass_down.StageNest) -> dict[Var, Expr]:
        """The loops of the guarded nest as expressions in those of `nest`."""
        replacements: dict[Var, Expr] = {}
        for iv in self.axes:
            leaf = _only_loop(self.bounds, iv)
            if leaf is not None:
                start = low(self.bounds.ranges[iv])
                replacements[leaf] = nest.values[iv] if leaf is iv else self.env.form(nest.values[iv] - start).expr()
        return replacements


def _with_equations(guard: footprints.Box) -> footprints.Box:
    """The guard with equations instead of pairs of inequalities."""
    where, also, seen = [], list(guard.also), {form.key() for form in guard.where}
    for form in guard.where:
        negated = form.scale(-1)
        if negated.key() not in seen:
            where.append(form)
        elif (equation := form.expr().eq(0)) not in also and negated.expr().eq(0) not in also:
            also.append(equation)
    return footprints.Box((), tuple(where), tuple(also))


def _at(r: Range, values: Mapping[Expr, Expr]) -> Range:
    return Range(dag.substitute(as_expr(r.min), values), dag.substitute(as_expr(r.extent), values))


def _is_short(e: Expr) -> bool:
    return dag.is_small(_MAX_NODES, (e,)) and not any(node.op is ops.SELECT for node in dag.postorder((e,)))


def _depends(side: footprints.SymbolicInterval, number: Var) -> bool:
    return any(number in e.free_vars() for form in side.ends for e in form.terms)

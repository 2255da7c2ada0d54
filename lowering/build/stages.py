"""The loops of one stage, and the stores of its operation over its root axes.

Guards stand as far out as their variables allow. Attached stages stand at the start of a loop body, inside its guards,
so iterations without work compute nothing.

A reduction is initialised before its outermost reduction loop, by a nest over the inner data loops (`nest.start`):

    for i in [0, n):
        for j in [0, m):        # copies of the data loops inside the first reduction loop
            C[i, j] = 0.0
        for k in [0, l):
            for j in [0, m):
                C[i, j] = C[i, j] + ...
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageLoop, StageNest
from bound.itervar import IterType, IterVar
from bound.schedule import simple
from bound.schedule.stage import Stage
from bound.tensor import ComputeOp, ScanOp, Tensor, TensorComputeOp, element, has_row, unfinished
from bound.tir import walk
from bound.tir.reduce import Parameter, Reduction, condition, initial, sources
from bound.tir.value import REDUCE, Operand, Value, make
from intset.errors import InputError
from intset.expr import Cond, Expr, Range, Var, as_expr, dag
from lowering.nest import ir
from lowering.nest.walk import Old, Recursion, operands, replaced, statements, substitute, tensors_read

Attach: TypeAlias = "Callable[[IterVar, ir.Stmt], Recursion[ir.Stmt]]"
_KINDS = {
    IterType.PARALLELIZED: ir.LoopKind.PARALLEL,
    IterType.VECTORIZED: ir.LoopKind.VECTORIZED,
    IterType.UNROLLED: ir.LoopKind.UNROLLED,
}


@dataclass(frozen=True, eq=False)
class Formula:
    """Stores of one operation, at a point of its axes.

    Attributes
    ----------
    extra: axes inside a tensor intrinsic, which have no loop in the schedule, with their ranges.
    reduce_extra: the reduction axes among `extra`.
    init: initial stores of a reduction, else `None`.
    update: stores at every point.
    """

    extra: tuple[tuple[IterVar, Range], ...]
    reduce_extra: tuple[IterVar, ...]
    init: ir.Stmt | None
    update: ir.Stmt


def formula_of(op: ComputeOp | TensorComputeOp, kept: Container[Tensor]) -> Formula:
    """The formula of an operation, restricted to the outputs `kept` (see `stored_outputs`)."""
    if isinstance(op, ComputeOp):
        return _formula(op, op.body, kept)
    return _tile_formula(op, kept)


def _formula(
    op: ComputeOp | TensorComputeOp,
    body: tuple[Operand, ...],
    kept: Container[Tensor],
    extra: tuple[tuple[IterVar, Range], ...] = (),
    reduce_extra: tuple[IterVar, ...] = (),
) -> Formula:
    top, outputs, place = body[0], op.outputs, op.axis
    if not isinstance(top, Value) or top.op is not REDUCE:
        stores = [ir.Store(t, place, value) for t, value in zip(outputs, body, strict=True) if t in kept]
        return Formula(extra, reduce_extra, None, ir.seq(*stores))
    reduction: Reduction = top.data
    starts = initial(top) or reduction.combiner.identity
    init = [ir.Store(t, place, start) for t, start in zip(outputs, starts, strict=True) if t in kept]
    return Formula(extra, reduce_extra, ir.seq(*init), _update(top, outputs, kept, place))


def _update(top: Value, outputs: tuple[Tensor, ...], kept: Container[Tensor], place: tuple[Expr, ...]) -> ir.Stmt:
    """Combine one more element into the outputs."""
    combiner = top.data.combiner
    old = [unfinished(t, place) for t in outputs]
    mapping: dict[Parameter, Operand] = dict(zip((*combiner.lhs, *combiner.rhs), (*old, *sources(top)), strict=True))
    results = {t: result for t, result in zip(outputs, combiner.results, strict=True) if t in kept}
    values = {t: replaced(result, mapping) for t, result in results.items()}
    if len(values) == 1:
        update: ir.Stmt = ir.seq(*(ir.Store(t, place, value) for t, value in values.items()))
    else:  # every result is computed from the old values
        lets = {t: ir.let(f"{t.name.replace('.', '_')}_new", value) for t, value in values.items()}
        update = ir.seq(*lets.values(), *(ir.Store(t, place, let.var) for t, let in lets.items()))
    cond = condition(top)
    assert not isinstance(cond, Expr)
    return ir.guarded(update, cond)


# --- tensor intrinsics ----------------------------------------------------------------------------------------------


def _tile_formula(op: TensorComputeOp, kept: Container[Tensor]) -> Formula:
    """The formula of a tensor intrinsic: its operation, substituted at its regions."""
    call, inner = op.call, op.call.intrin.op
    tile_axes = op.axis[op.schedulable :]
    mapping: dict[Operand, Operand] = dict(zip(inner.axis, tile_axes, strict=True))
    mapping |= dict(zip(call.intrin.scalar_params, call.scalars, strict=True))
    regions = {
        formal: (tensor, region)
        for formal, tensor, region in zip(call.intrin.inputs, call.tensors, call.regions, strict=True)
    }

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        if tensor not in regions:
            return None
        actual, region = regions[tensor]
        return element(actual, _in_region(tensor, indices, actual, region))

    bodies = tuple(walk.rewrite(replaced(body, mapping), on_load=on_load) for body in inner.body)
    extra = tuple((iv, _domain(iv)) for iv in (*tile_axes, *inner.reduce_axis))
    if inner.reduction is None or not op.reduce_axis:
        return _formula(op, bodies, kept, extra, inner.reduce_axis)
    top = bodies[0]
    assert isinstance(top, Value)
    whole = Reduction(top.data.combiner, (*op.reduce_axis, *top.data.axis), 0)
    bodies = tuple(make(REDUCE, b.args, b.dtype, whole) for b in bodies if isinstance(b, Value))
    return _formula(op, bodies, kept, extra, inner.reduce_axis)


def _domain(iv: IterVar) -> Range:
    assert isinstance(iv.dom, Range)
    return iv.dom


def _in_region(
    formal: Tensor, indices: tuple[Expr, ...], actual: Tensor, region: tuple[Range, ...]
) -> tuple[Expr, ...]:
    """Convert indices in a tile to indices in its tensor; dimensions of extent 1 may be missing on either side."""
    if formal.ndim == len(region):
        steps: list[Expr | None] = list(indices)
    else:
        moving = iter(i for i, e in zip(indices, formal.extents, strict=True) if not _is_one(e))
        steps = [None if _is_one(r.extent) else next(moving, None) for r in region]
        if next(moving, None) is not None:
            raise InputError(f"the region of {actual.name} has another shape than {formal.name} of the intrinsic")
    starts = (as_expr(r.min) for r in region)
    return tuple(low if step is None else simple.add(low, step) for low, step in zip(starts, steps, strict=True))


def _is_one(e: object) -> bool:
    return isinstance(e, Expr) and e.is_const and e.data == 1


def substituted(formula: Formula, values: Mapping[Old, Operand], start: Mapping[Old, Operand]) -> Formula:
    """Replace axes in a formula by their values in loop variables.

    Parameters
    ----------
    values: for the update.
    start: for the initial stores.
    """
    init = None if formula.init is None else substitute(formula.init, dict(start))
    return replace(formula, init=init, update=substitute(formula.update, dict(values)))


@dataclass(frozen=True, eq=False)
class Level:
    """The head of a loop."""

    var: IterVar
    range: Range
    kind: ir.LoopKind
    thread: str

    def around(self, body: ir.Stmt) -> ir.For:
        return ir.For(self.var, self.range, body, self.kind, self.thread)


@dataclass(frozen=True, eq=False)
class Starting:
    """The initialisation of a reduction.

    Attributes
    ----------
    place: number of levels around it.
    levels: its own loops, inside of those.
    guards: conditions under which an element is initialised.
    init: the initial stores.
    """

    place: int
    levels: Sequence[Level]
    guards: Sequence[Cond]
    init: ir.Stmt


def levels_of(nest: StageNest, formula: Formula) -> list[Level]:
    """The loops of a stage, outermost first; loops of a tensor intrinsic are innermost."""
    levels = [level_of(loop) for loop in nest.loops]
    made = {level.var for level in levels}
    return levels + [Level(iv, r, ir.LoopKind.SERIAL, "") for iv, r in formula.extra if iv not in made]


def starting_of(nest: StageNest, formula: Formula, levels: Sequence[Level]) -> Starting | None:
    """The initialisation of a reduction stage, else `None`."""
    if formula.init is None:
        return None
    start, own = nest.start, len(nest.loops)
    tile = [k for k in range(own, len(levels)) if levels[k].var not in formula.reduce_extra]
    if start is not None and start.place < own:
        loops = [*map(level_of, start.loops), *(levels[k] for k in tile)]
        return Starting(start.place, loops, start.guards, formula.init)
    place = next((k for k in range(own, len(levels)) if k not in tile), len(levels))
    guards = nest.guards if start is None else start.guards
    return Starting(place, [levels[k] for k in tile if k > place], guards, formula.init)


def level_of(loop: StageLoop) -> Level:
    """The head of a loop."""
    tag = "" if loop.thread is None else loop.thread.thread_tag
    if tag:
        kind = ir.LoopKind.VTHREAD if tag in ("vthread", "cthread") else ir.LoopKind.THREAD
    else:
        kind = _KINDS.get(loop.kind, ir.LoopKind.SERIAL)
    return Level(loop.iv, loop.range, kind, tag)


def nest_around(
    levels: Sequence[Level], guards: Sequence[Cond], body: ir.Stmt, attach: Attach | None = None
) -> Recursion[ir.Stmt]:
    """The loops of a stage around a body, each part of the guards as far out as its variables allow."""
    placed: list[list[Cond]] = [[] for _ in range(len(levels) + 1)]
    for part in dict.fromkeys(_parts(guards)):
        placed[_depth(part, levels)].append(part)
    nest = body
    for k in range(len(levels) - 1, -1, -1):
        nest = nest if attach is None else (yield attach(levels[k].var, nest))
        nest = levels[k].around(ir.guarded(nest, *placed[k + 1]))
    return ir.guarded(nest, *placed[0])


def _depth(part: Cond, levels: Sequence[Level]) -> int:
    """The number of outer loops that bind the variables of a condition."""
    used = set(part.free_vars())
    return max((k + 1 for k, level in enumerate(levels) if level.var in used), default=0)


def _parts(guards: Sequence[Cond]) -> list[Cond]:
    return [part for guard in guards for part in dag.conjuncts(guard)]


def reduction_nest(
    levels: Sequence[Level], guards: Sequence[Cond], update: ir.Stmt, start: Starting, attach: Attach
) -> Recursion[ir.Stmt]:
    """The nest of a reduction, initialised before its outermost reduction loop."""
    parts = _parts(guards)
    around = [part for part in parts if _depth(part, levels) <= start.place]
    inner = [part for part in parts if part not in around]
    init = yield start_nest(start, around)
    made = yield nest_around(levels[start.place :], inner, update, attach)
    nest: ir.Stmt = yield nest_around(levels[: start.place], around, ir.seq(init, made), attach)
    return nest


def start_nest(start: Starting, known: Collection[Cond] = ()) -> Recursion[ir.Stmt]:
    """The initialisation of a reduction, inside the guards `known`."""
    return nest_around(start.levels, [part for part in _parts(start.guards) if part not in known], start.init)


def check_init(init: ir.Stmt, inside: Sequence[Level], attached: Callable[[IterVar], Sequence[Stage]]) -> None:
    """Refuse a reduction that starts from what is computed inside of its loops."""
    read = {t for stmt in statements(init) for t in tensors_read(*operands(stmt))}
    for level in inside:
        for stage in attached(level.var):
            late = next((t for t in stage.op.outputs if t in read), None)
            if late is not None:
                raise ScheduleError(
                    f"stage {stage.name}: it is computed at {level.var.name}, but a reduction starts from {late.name} "
                    "outside of that loop"
                )


def scan_nest(op: ScanOp, nest: StageNest, bounds: BoundsMap, attach: Attach) -> Recursion[ir.Stmt]:
    """The nest of a scan: first rows from `init`, as far as it has them, later ones from `update` at its step."""
    levels = levels_of(nest, Formula((), (), None, ir.Seq()))
    step = nest.values[op.scan_axis]
    first = next((k for k, level in enumerate(levels) if level.var in dag.free_vars(step)), len(levels))
    starts: list[ir.Stmt] = []
    rows: list[ir.Stmt] = []
    for output, init, update, axes in zip(op.outputs, op.init, op.update, op.axes_of_states, strict=True):
        row = Var("row")
        first_rows = ir.guarded(_copied(output, init, row, axes, bounds), *has_row(op, init, row))
        starts.append(ir.For(row, Range(0, init.extents[0]), first_rows))
        rows.append(_copied(output, update, step, axes, bounds))
    body = ir.seq(*rows)
    for guard in nest.guards:
        body = ir.If(guard, body)
    for k in range(len(levels) - 1, -1, -1):
        body = yield attach(levels[k].var, body)
        body = levels[k].around(body)
        if k == first:
            body = ir.seq(*starts, body)
    return body if first < len(levels) else ir.seq(*starts, body)


def _copied(target: Tensor, source: Tensor, row: Expr, axes: Sequence[IterVar], bounds: BoundsMap) -> ir.Stmt:
    loops = [(Var(f"i{k}"), bounds[iv]) for k, iv in enumerate(axes, 1)]
    place = (row, *(var for var, _ in loops))
    body: ir.Stmt = ir.Store(target, place, element(source, place))
    for var, r in reversed(loops):
        body = ir.For(var, r, body)
    return body

"""The loops of one stage.

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

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageLoop, StageNest
from bound.itervar import IterType, IterVar
from bound.operation import ScanOp, has_row
from bound.schedule.stage import Stage
from bound.tensor import Tensor, element
from bound.tir.build import all_of
from intset.expr.dag import conjuncts, free_vars
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from lowering.build.formulas import Formula
from lowering.nest.ir import For, If, LoopKind, Seq, Stmt, Store, seq
from lowering.nest.walk import Recursion, operands, statements, tensors_read

Attach: TypeAlias = "Callable[[IterVar, Stmt], Recursion[Stmt]]"
_KINDS = {
    IterType.PARALLELIZED: LoopKind.PARALLEL,
    IterType.VECTORIZED: LoopKind.VECTORIZED,
    IterType.UNROLLED: LoopKind.UNROLLED,
}


@dataclass(frozen=True, eq=False)
class Level:
    """The head of a loop."""

    var: IterVar
    range: Range
    kind: LoopKind
    thread: str

    def around(self, body: Stmt) -> For:
        return For(self.var, self.range, body, self.kind, self.thread)


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
    init: Stmt


def levels_of(nest: StageNest, formula: Formula) -> list[Level]:
    """The loops of a stage, outermost first; loops of a tensor intrinsic are innermost."""
    levels = [level_of(loop) for loop in nest.loops]
    made = {level.var for level in levels}
    return levels + [_inside_tile(iv, r) for iv, r in formula.extra if iv not in made]


def starting_of(nest: StageNest, formula: Formula, levels: Sequence[Level]) -> Starting | None:
    """The initialisation of a reduction stage, else `None`."""
    if formula.init is None:
        return None
    start, own = nest.start, len(nest.loops)
    tile = [k for k in range(own, len(levels)) if levels[k].var not in formula.reduce_extra]
    if start is not None and start.place < own:
        return Starting(
            start.place,
            [*map(level_of, start.loops), *(levels[k] for k in tile)],
            start.guards,
            formula.init,
        )
    place = next((k for k in range(own, len(levels)) if k not in tile), len(levels))
    guards = nest.guards if start is None else start.guards
    return Starting(place, [levels[k] for k in tile if k > place], guards, formula.init)


def level_of(loop: StageLoop) -> Level:
    """The head of a loop."""
    tag = "" if loop.thread is None else loop.thread.thread_tag
    if tag:
        kind = LoopKind.VTHREAD if tag in ("vthread", "cthread") else LoopKind.THREAD
    else:
        kind = _KINDS.get(loop.kind, LoopKind.SERIAL)
    return Level(loop.iv, loop.range, kind, tag)


def _inside_tile(iv: IterVar, r: Range) -> Level:
    return Level(iv, r, LoopKind.SERIAL, "")


def data_nest(levels: Sequence[Level], guards: Sequence[Cond], body: Stmt, attach: Attach) -> Recursion[Stmt]:
    """The nest of a stage without a reduction."""
    placed = _placed(levels, guards)
    nest = yield _wrap(levels, placed, body, attach)
    return _guarded(placed[0], nest)


def reduction_nest(
    levels: Sequence[Level],
    guards: Sequence[Cond],
    update: Stmt,
    start: Starting,
    attach: Attach,
    attached_inside: Callable[[IterVar], Sequence[Stage]],
) -> Recursion[Stmt]:
    """The nest of a reduction, initialised before its outermost reduction loop."""
    begin = start.place
    _check_init(start.init, levels[begin:], attached_inside)
    placed = _placed(levels, guards)
    around = [guard for k in range(begin + 1) for guard in placed[k]]
    init = yield start_nest(start, around)
    inner = _placed(levels[begin:], [part for part in _parts(guards) if part not in around])
    made = yield _wrap(levels[begin:], inner, update, attach)
    nest = yield _wrap(levels[:begin], placed, seq(init, _guarded(inner[0], made)), attach)
    return _guarded(placed[0], nest)


def start_nest(start: Starting, known: Collection[Cond] = ()) -> Recursion[Stmt]:
    """The initialisation of a reduction, inside the guards `known`."""
    placed = _placed(start.levels, [part for part in _parts(start.guards) if part not in known])
    init = yield _wrap(start.levels, placed, start.init, _nothing_attached)
    return _guarded(placed[0], init)


def _nothing_attached(var: IterVar, body: Stmt) -> Recursion[Stmt]:
    yield from ()
    return body


def _check_init(init: Stmt, inside: Sequence[Level], attached: Callable[[IterVar], Sequence[Stage]]) -> None:
    read = {t for stmt in statements(init) for t in tensors_read(*operands(stmt))}
    for level in inside:
        for stage in attached(level.var):
            late = next((t for t in stage.op.outputs if t in read), None)
            if late is not None:
                raise ScheduleError(
                    f"stage {stage.name}: it is computed at {level.var.name}, but a reduction starts from {late.name} "
                    "outside of that loop"
                )


def _place(levels: Sequence[Level], guard: Cond) -> int:
    """The number of outer loops that bind the variables of a guard."""
    used = set(guard.free_vars())
    return max((k + 1 for k, level in enumerate(levels) if level.var in used), default=0)


def _placed(levels: Sequence[Level], guards: Sequence[Cond]) -> Mapping[int, list[Cond]]:
    placed: dict[int, list[Cond]] = {k: [] for k in range(len(levels) + 1)}
    for part in dict.fromkeys(_parts(guards)):
        placed[_place(levels, part)].append(part)
    return placed


def _parts(guards: Sequence[Cond]) -> list[Cond]:
    return [part for guard in guards for part in conjuncts(guard)]


def _guarded(guards: Sequence[Cond], body: Stmt) -> Stmt:
    return If(all_of(*guards), body) if guards else body


def _wrap(levels: Sequence[Level], placed: Mapping[int, list[Cond]], body: Stmt, attach: Attach) -> Recursion[Stmt]:
    """Wrap loops and their guards around `body`; the caller adds the guards outside of all loops."""
    nest = body
    for k in range(len(levels) - 1, -1, -1):
        nest = yield attach(levels[k].var, nest)
        nest = levels[k].around(_guarded(placed[k + 1], nest))
    return nest


def values_in(nest: StageNest, threads: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """Values of the axes of an operation in loop variables; thread axes are their loops."""
    return {**threads, **nest.values}


def scan_nest(op: ScanOp, nest: StageNest, bounds: BoundsMap, attach: Attach) -> Recursion[Stmt]:
    """The nest of a scan: first rows from `init`, as far as it has them, later ones from `update` at its step."""
    nothing = Formula((), (), (), None, Seq())
    levels = levels_of(nest, nothing)
    step = nest.values[op.scan_axis]
    first = next((k for k, level in enumerate(levels) if level.var in free_vars(step)), len(levels))
    starts: list[Stmt] = []
    rows: list[Stmt] = []
    for output, init, update, axes in zip(op.outputs, op.init, op.update, op.axes_of_states, strict=True):
        row = Var("row")
        present = has_row(op, init, row)
        first_rows = _copied(output, init, row, axes, bounds)
        guarded = first_rows if present is None else If(present, first_rows)
        starts.append(For(row, Range(0, init.extents[0]), guarded))
        rows.append(_copied(output, update, step, axes, bounds))
    body = seq(*rows)
    for guard in nest.guards:
        body = If(guard, body)
    for k in range(len(levels) - 1, -1, -1):
        body = yield attach(levels[k].var, body)
        body = levels[k].around(body)
        if k == first:
            body = seq(*starts, body)
    return body if first < len(levels) else seq(*starts, body)


def _copied(target: Tensor, source: Tensor, row: Expr, axes: Sequence[IterVar], bounds: BoundsMap) -> Stmt:
    loops = [(Var(f"i{k}"), bounds[iv]) for k, iv in enumerate(axes, 1)]
    place = (row, *(var for var, _ in loops))
    body: Stmt = Store(target, place, element(source, place))
    for var, r in reversed(loops):
        body = For(var, r, body)
    return body

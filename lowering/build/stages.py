"""The loops of one stage.

Guards stand as far out as their variables allow. What is attached to a loop stands at the start of its body, inside the
guards that are decided there: nothing is computed for iterations that do nothing.

A reduction is initialised before its outermost reduction loop, by a nest over the data inside that one (`nest.start`):

    for i in [0, n):
        for j in [0, m):        # the data inside the first reduction loop, over again
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
from bound.infer import StageLoop, StageNest
from bound.itervar import IterType, IterVar
from bound.schedule.stage import Stage
from bound.tir.build import all_of
from intset.expr.node import Cond, Expr
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from lowering.build.formulas import Formula
from lowering.nest.ir import For, If, LoopKind, Stmt, seq
from lowering.nest.walk import Visit, operands, statements, tensors_read

Attach: TypeAlias = "Callable[[IterVar, Stmt], Visit[Stmt]]"
_KINDS = {
    IterType.PARALLELIZED: LoopKind.PARALLEL,
    IterType.VECTORIZED: LoopKind.VECTORIZED,
    IterType.UNROLLED: LoopKind.UNROLLED,
}


@dataclass(frozen=True, eq=False)
class Level:
    """One loop to be made: its head."""

    var: IterVar
    range: Range
    kind: LoopKind
    thread: str

    def around(self, body: Stmt) -> For:
        return For(self.var, self.range, body, self.kind, self.thread)


@dataclass(frozen=True, eq=False)
class Starting:
    """What starts a reduction.

    Attributes
    ----------
    place: the number of levels of the nest around it.
    levels: the loops inside of these.
    guards: the conditions under which an element is started.
    init: what is stored.
    """

    place: int
    levels: Sequence[Level]
    guards: Sequence[Cond]
    init: Stmt


def levels_of(nest: StageNest, formula: Formula) -> list[Level]:
    """The loops of a stage from the outside in; those of a tensor intrinsic follow those of the schedule."""
    levels = [level_of(loop) for loop in nest.loops]
    made = {level.var for level in levels}
    return levels + [_inside_tile(iv, r) for iv, r in formula.extra if iv not in made]


def starting_of(nest: StageNest, formula: Formula, levels: Sequence[Level]) -> Starting | None:
    """What starts the reduction of a stage; `None` where it is no reduction."""
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


def data_nest(levels: Sequence[Level], guards: Sequence[Cond], body: Stmt, attach: Attach) -> Visit[Stmt]:
    """All loops around the stores of a stage without a reduction."""
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
) -> Visit[Stmt]:
    """All loops of a reduction, with the nest that starts it before the first of its reduction loops."""
    begin = start.place
    _check_init(start.init, levels[begin:], attached_inside)
    placed = _placed(levels, guards)
    around = [guard for k in range(begin + 1) for guard in placed[k]]
    init = yield start_nest(start, around)
    inner = _placed(levels[begin:], [part for part in _parts(guards) if part not in around])
    made = yield _wrap(levels[begin:], inner, update, attach)
    nest = yield _wrap(levels[:begin], placed, seq(init, _guarded(inner[0], made)), attach)
    return _guarded(placed[0], nest)


def start_nest(start: Starting, known: Collection[Cond] = ()) -> Visit[Stmt]:
    """What starts a reduction, inside the guards `known`."""
    placed = _placed(start.levels, [part for part in _parts(start.guards) if part not in known])
    init = yield _wrap(start.levels, placed, start.init, _nothing_attached)
    return _guarded(placed[0], init)


def _nothing_attached(var: IterVar, body: Stmt) -> Visit[Stmt]:
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
    """How many of the loops must be open before a guard can be decided."""
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


def _wrap(levels: Sequence[Level], placed: Mapping[int, list[Cond]], body: Stmt, attach: Attach) -> Visit[Stmt]:
    """The loops around `body`; guards that need none of them are left to the caller."""
    nest = body
    for k in range(len(levels) - 1, -1, -1):
        nest = yield attach(levels[k].var, nest)
        nest = levels[k].around(_guarded(placed[k + 1], nest))
    return nest


def values_in(nest: StageNest, threads: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """What stands for the axes of an operation: index expressions in loop variables; thread axes are their loops."""
    return {**threads, **nest.values}

"""The loops of one stage.

Guards stand as far out as their variables allow. What is attached to a loop stands at the start of its body, inside the
guards that are decided there: nothing is computed for iterations that do nothing.

A reduction is initialised before its outermost reduction loop, by a nest over the data loops inside that one:

    for i in [0, n):
        for j in [0, m):        # data loops inside the first reduction loop, over again
            C[i, j] = 0.0
        for k in [0, l):
            for j in [0, m):
                C[i, j] = C[i, j] + ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bound.errors import ScheduleError
from bound.infer import Loop, Nest
from bound.itervar import IterType, IterVar
from bound.schedule.stage import Stage
from bound.tir.build import all_of
from intset.expr.node import Cond, Expr
from intset.expr.range import Range
from intset.expr.walk import conjuncts, free_vars
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
    """One loop to be made: its head, whether the reduction runs over it, and whether the data does not."""

    var: IterVar
    range: Range
    kind: LoopKind
    thread: str
    reduces: bool
    only_reduces: bool

    def around(self, body: Stmt) -> For:
        return For(self.var, self.range, body, self.kind, self.thread)


def levels_of(nest: Nest, formula: Formula, axis: Sequence[IterVar], reduce_axis: Sequence[IterVar]) -> list[Level]:
    """The loops of a stage from the outside in; those of a tensor intrinsic follow those of the schedule."""
    data = set(free_vars(*(nest.values[iv] for iv in axis if iv in nest.values), *nest.data_guards))
    reducing = set(free_vars(*(nest.values[iv] for iv in reduce_axis if iv in nest.values)))
    levels = [level_of(loop, loop.iv in reducing, loop.iv in data) for loop in nest.loops]
    made = {level.var for level in levels}
    for iv, r in formula.extra:
        if iv not in made:
            reduces = iv in formula.reduce_extra
            levels.append(Level(iv, r, LoopKind.SERIAL, "", reduces, reduces))
    return levels


def level_of(loop: Loop, reduces: bool, is_data: bool) -> Level:
    """The head of a loop."""
    tag = "" if loop.thread is None else loop.thread.thread_tag
    if tag:
        kind = LoopKind.VTHREAD if tag in ("vthread", "cthread") else LoopKind.THREAD
    else:
        kind = _KINDS.get(loop.kind, LoopKind.SERIAL)
    return Level(loop.iv, loop.range, kind, tag, reduces, reduces and not is_data)


def data_nest(levels: Sequence[Level], guards: Sequence[Cond], body: Stmt, attach: Attach) -> Visit[Stmt]:
    """All loops around the stores of a stage without a reduction."""
    placed = _placed(levels, guards)
    nest = yield _wrap(levels, placed, body, attach)
    return _guarded(placed[0], nest)


def reduction_nest(
    levels: Sequence[Level],
    data_guards: Sequence[Cond],
    reduce_guards: Sequence[Cond],
    formula: Formula,
    attach: Attach,
    attached_inside: Callable[[IterVar], Sequence[Stage]],
) -> Visit[Stmt]:
    """All loops of a reduction, with the nest that starts it before the first of its reduction loops."""
    assert formula.init is not None
    begin = next((k for k, level in enumerate(levels) if level.reduces), len(levels))
    _check_init(formula.init, levels[begin:], attached_inside)
    # a guard on a reduction that is decided before its loops (a fused loop whose reduction has one step) is one on data
    placed = _placed(levels, (*data_guards, *reduce_guards))
    starting = [level for level in levels[begin:] if not level.only_reduces]
    left_out = {level.var for level in levels[begin:] if level.only_reduces}
    inside = [part for part in _parts((*data_guards, *reduce_guards)) if _place(levels, part) > begin]
    # a loop over data and reduction together is part of both nests, and so are the guards on it
    started = _placed(starting, [guard for guard in inside if not left_out & set(guard.free_vars())])
    init = yield _wrap(starting, started, formula.init, _nothing_attached)

    inner = _placed(levels[begin:], inside)
    update = yield _wrap(levels[begin:], inner, formula.update, attach)
    both = seq(_guarded(started[0], init), _guarded(inner[0], update))
    common = {k: guards for k, guards in placed.items() if k <= begin}
    nest = yield _wrap(levels[:begin], common, both, attach)
    return _guarded(common[0], nest)


def begin_of(levels: Sequence[Level]) -> Level | None:
    """The outermost loop that a reduction runs over."""
    return next((level for level in levels if level.reduces), None)


def start_nest(levels: Sequence[Level], guards: Sequence[Cond], formula: Formula) -> Visit[Stmt]:
    """What starts a reduction, apart from the nest that goes on with it: the data loops from its first loop inwards."""
    assert formula.init is not None
    begin = next(k for k, level in enumerate(levels) if level.reduces)
    starting = [level for level in levels[begin:] if not level.only_reduces]
    left_out = {level.var for level in levels[begin:] if level.only_reduces}
    placed = _placed(starting, [part for part in _parts(guards) if not left_out & set(part.free_vars())])
    init = yield _wrap(starting, placed, formula.init, _nothing_attached)
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


def values_in(nest: Nest, threads: Mapping[IterVar, Expr]) -> dict[IterVar, Expr]:
    """What stands for the axes of an operation: index expressions in loop variables; thread axes are their loops."""
    return {**threads, **nest.values}

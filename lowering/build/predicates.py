"""Store predicates: under which condition a stage stores, where its threads run one after another.

A predicate may choose one of several threads that all hold the same result. Here each of them computes the whole result
for itself, or all of them one after another add to it: nothing is left to choose, and what is stored for some thread
is stored. Only a thread whose elements are its own is told from the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageNest
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.tir import build, walk
from bound.tir.value import Truth
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, constant_value, truth
from intset.expr.range import Range
from intset.expr.walk import conjuncts
from intset.linear.canonical import Normalizer

_MOST_THREADS: Final = 4096  # of one axis, over which a condition is spelled out
_FORMS: Final = Normalizer({})


def store_predicate(bounds: BoundsMap, stage: Stage, nest: StageNest, threads: Mapping[IterVar, Expr]) -> Truth | None:
    """The condition, over the loops in which a stage stores, under which it does; `None` where it always does.

    Parameters
    ----------
    threads: the loop that stands for each thread axis.

    Raises
    ------
    ScheduleError: the predicate is on an axis that is no loop here, or on too many threads.
    """
    if stage.store_predicate is None:
        return None
    placed = _in_loops(bounds, stage, nest, threads)
    shared = _shared(bounds, stage, nest)
    own = {loop.iv for loop in nest.loops} | {leaf for _, leaf in bounds.attach_path(stage)}
    for var in dict.fromkeys(walk.variables(placed)):
        if var in shared:
            placed = _for_some(stage, placed, var, shared[var])
        elif isinstance(var, IterVar) and var not in own:
            placed = _for_some(stage, placed, var, _started(bounds, stage, var))
    if isinstance(placed, Cond) and placed.op is ops.BOOL and placed.data:
        return None
    return placed


def _in_loops(bounds: BoundsMap, stage: Stage, nest: StageNest, threads: Mapping[IterVar, Expr]) -> Truth:
    """The predicate with axes replaced by their values in loops, and every thread axis by its loop."""
    values: dict[IterVar, Expr] = {}
    for outer, _ in reversed(bounds.attach_path(stage)):
        values |= bounds.nest(outer).values
    values |= nest.values
    by_tag = {thread.thread_tag: loop for thread, loop in threads.items()}
    predicate = truth(True) if stage.store_predicate is None else stage.store_predicate
    for var in walk.variables(predicate):
        if isinstance(var, IterVar) and var.thread_tag in by_tag:
            values[var] = by_tag[var.thread_tag]
    return walk.substitute(predicate, values)


def _shared(bounds: BoundsMap, stage: Stage, nest: StageNest) -> dict[Var, Range]:
    """The loops that store to the same elements, with their ranges: those it reduces over, and outer threads that it
    shares its storage with."""
    reduced = (nest.values[iv] for iv in getattr(stage.op, "reduce_axis", ()) if iv in nest.values)
    reducing = {v for value in reduced for v in value.free_vars()}
    fixed = bounds.required(stage.op.outputs[0]).fixed
    outer = [leaf for at, leaf in bounds.attach_path(stage) if at.thread_of(leaf) is not None and leaf not in fixed]
    found: dict[Var, Range] = {loop.iv: loop.range for loop in nest.loops if loop.iv in reducing}
    return found | {leaf: bounds[leaf] for leaf in outer}


def _started(bounds: BoundsMap, stage: Stage, thread: IterVar) -> Range:
    """The range of a thread axis that other stages run on, or that is declared."""
    if not thread.thread_tag:
        raise ScheduleError(f"stage {stage.name}: its store predicate is on {thread.name}, which is no loop around it")
    for other in bounds.schedule.stages:
        for leaf in other.leaf_iter_vars:
            on = other.thread_of(leaf)
            if on is not None and on.thread_tag == thread.thread_tag and leaf in bounds:
                return bounds[leaf]
    if thread.dom is None:
        raise ScheduleError(f"stage {stage.name}: its store predicate is on {thread.name}, on which no loop runs")
    return thread.dom


def _for_some(stage: Stage, predicate: Truth, var: Var, limits: Range) -> Truth:
    """The condition that the predicate holds for some value of `var`."""
    low, total = limits.min, limits.extent
    assert isinstance(low, Expr) and isinstance(total, Expr)
    inside = (var >= low, var < low + total)
    value = _only_value(predicate, var)
    if value is not None:
        return _folded(walk.substitute(build.together(predicate, *inside), {var: value}))
    number = constant_value(total)
    if number is None or number > _MOST_THREADS:
        raise ScheduleError(
            f"stage {stage.name}: its store predicate is on {var.name}, of which there are {total}, and any may store"
        )
    choices: dict[Truth, None] = {}
    for k in range(number):
        choice = _folded(walk.substitute(predicate, {var: low + k}))
        if isinstance(choice, Cond) and choice.op is ops.BOOL:
            if choice.data:
                return choice
            continue
        choices[choice] = None
    return build.any_of(*choices) if choices else truth(False)


def _only_value(predicate: Truth, var: Var) -> Expr | None:
    """The value that an equation among the conditions of a predicate gives to `var`."""
    for part in conjuncts(predicate) if isinstance(predicate, Cond) else ():
        if part.op is ops.EQ:
            form = _FORMS.form(part.args[0] - part.args[1])
            k = form.terms.get(var, 0)
            rest = form.expr() - k * var
            if abs(k) == 1 and var not in _FORMS.form(rest).expr().free_vars():
                return _FORMS.form(-k * rest).expr()
    return None


def _folded(cond: Truth) -> Truth:
    return _FORMS.cond(cond) if isinstance(cond, Cond) else cond

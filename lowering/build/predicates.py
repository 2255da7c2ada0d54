"""Store predicates of stages, for threads that run one after another.

A predicate often selects one of several threads that hold the same result. In a sequential nest such threads store the
same elements in turn, and the predicate is quantified existentially over them. Threads with distinct elements keep
their own condition.
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
from intset.expr.dag import conjuncts
from intset.expr.node import Cond, Expr, Var, constant_value, truth
from intset.expr.range import Range
from intset.linear.canonical import Normalizer

_MOST_THREADS: Final = 4096  # threads per axis that a predicate may be expanded for
_FORMS: Final = Normalizer({})


def store_predicate(bounds: BoundsMap, stage: Stage, nest: StageNest, threads: Mapping[IterVar, Expr]) -> Truth | None:
    """The store predicate of a stage over the loops around its stores; `None` if it always holds.

    Parameters
    ----------
    threads: maps thread axes to their loops.

    Raises
    ------
    ScheduleError: the predicate mentions an axis without a loop, or too many threads.
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
    """Replace axes in the predicate by their values in loop variables, and thread axes by their loops."""
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
    """Loops whose iterations store the same elements, with ranges: reduction loops, and threads that share storage."""
    reduced = (nest.values[iv] for iv in getattr(stage.op, "reduce_axis", ()) if iv in nest.values)
    reducing = {v for value in reduced for v in value.free_vars()}
    fixed = bounds.required(stage.op.outputs[0]).fixed
    outer = [leaf for at, leaf in bounds.attach_path(stage) if at.thread_of(leaf) is not None and leaf not in fixed]
    found: dict[Var, Range] = {loop.iv: loop.range for loop in nest.loops if loop.iv in reducing}
    return found | {leaf: bounds[leaf] for leaf in outer}


def _started(bounds: BoundsMap, stage: Stage, thread: IterVar) -> Range:
    """The range of a thread axis: of another stage's loop on it, else the declared one."""
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
    """Eliminate `var` existentially over its range."""
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
    """Solve the predicate's equations for `var`; `None` if none determines it."""
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

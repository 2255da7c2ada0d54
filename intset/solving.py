"""Solve a condition for one variable, and narrow it to the weakest sufficient condition on kept variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from intset.domains.base import IntSet
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.definedness import where_it_holds
from intset.expr.node import Cond, as_cond, truth
from intset.expr.walk import free_vars, opaque_terms
from intset.ranges import checked_var, listed_vars

if TYPE_CHECKING:
    from intset.context import Context


class Narrowed(NamedTuple):
    """The answer of `ctx.narrow`.

    Attributes
    ----------
    cond: over the kept variables alone; wherever it holds, the condition holds for all values of the others.
    is_exact: whether it is the weakest such condition.
    notes: what was given up, if it is not.
    """

    cond: Cond
    is_exact: bool
    notes: tuple[str, ...] = ()


def solutions(ctx: Context, cond: object, x: object) -> IntSet:
    """The values of `x` for which `cond` can hold; see `Context.solve`."""
    goal, var = as_cond(cond, "the condition to solve"), checked_var(x)
    frame = ctx.frame
    ranges = None if var in frame.ranges else {var: None}
    inside = ctx.extended(ranges=ranges, facts=[goal])
    mentioned = free_vars(goal, *(fact.condition for fact in frame.facts))
    kept = [v for v in dict.fromkeys((*frame.ranges, *mentioned)) if v is not var and v in inside.ranges]
    return inside.value_set(var, keep=kept)


def narrowed(ctx: Context, cond: object, keep: object) -> Narrowed:
    """The weakest condition over `keep` that implies `cond`; see `Context.narrow`."""
    goal = as_cond(cond, "the condition to narrow")
    kept = listed_vars(keep, "keep")
    if ctx.frame.known.empty:
        return Narrowed(truth(True), True)
    if opaque_terms(goal):
        return Narrowed(truth(False), False, ("the condition reads elements of which nothing is known",))
    sure = where_it_holds(goal)
    inside = ctx.extended(ranges={v: None for v in (*kept, *free_vars(goal)) if v not in ctx.ranges}, facts=[~sure])
    if not kept:
        fails = ctx.prove(sure)
        exact = fails.status != "unknown"
        return Narrowed(truth(bool(fails)), exact, () if exact else (fails.reason,))
    try:
        failing = inside.image(kept)
        if failing.params:
            return Narrowed(truth(False), False, (f"the answer depends on {failing.params[0]}, which is not kept",))
        bad = failing.condition(kept)
    except IntSetError as error:
        return Narrowed(truth(False), False, (str(error),))
    weakest = truth(not bad.data) if bad.op is ops.BOOL else ctx.simplify(~bad)
    return Narrowed(weakest, failing.is_exact, failing.notes)

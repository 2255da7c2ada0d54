"""The guard of a nest whose region is no box: what membership says beyond the ranges of the loops."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from bound.infer.needs.instances import closed
from bound.infer.needs.known import Known
from bound.infer.needs.need import end_forms
from bound.infer.phases.stage_bounds import StageBounds, data_axes
from bound.itervar import IterVar
from intset import config
from intset.domains.instanced import image_in_instances
from intset.errors import BudgetError
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var
from intset.expr.range import Range
from intset.expr.walk import conjuncts

_OPERATIONS = 400_000


def outside_of_box(
    known: Known, bounds: StageBounds, values: Sequence[Expr], overrun: Collection[IterVar]
) -> list[Cond]:
    """The conditions that the point `values`, which lies where loops and other guards keep it, is in the region.

    Beyond the end of the ranges of the roots `overrun` loops run on, kept from there by other guards.
    """
    need = bounds.region
    axes = data_axes(bounds.op)
    point = [Var(f"x{k}") for k in range(len(axes))]
    inside: list[Cond] = []
    for x, iv in zip(point, axes, strict=True):
        limits = bounds.ranges[iv]
        assert isinstance(limits.min, Expr)
        inside += [x >= low.expr() for low in end_forms(known, limits.min, ops.MAX)]
        # The ends of the box mean nothing where the region is empty, so each counts only where it is enforced.
        if iv not in overrun:
            inside += [x <= high.expr() for high in end_forms(known, limits.max, ops.MIN)]
        if iv in overrun or iv in bounds.widened:
            inside += [x <= high.expr() for high in bounds.sides[iv].highs]
        if iv in bounds.aligned:
            inside += [x >= low.expr() for low in bounds.sides[iv].lows]
    outer = closed(known, (*need.unguarded.variables(), *_variables(inside)))
    ranges: dict[Var, Range | None] = {**dict.fromkeys(point), **outer}
    kept = [v for v in (*known.size_ranges, *ranges) if v not in point]
    try:
        with config.using(isl_operations=known.account.allowed(_OPERATIONS)):
            within = image_in_instances(known.context.extended(ranges, inside), point, kept, known.regions).shape
        with known.budget(_OPERATIONS):
            found: Cond | None = need.unguarded.simplified(within).condition(values)
    except BudgetError:
        found = None
    parts = need.conditions(values) if found is None else [*need.guard.conditions(()), *conjuncts(found)]
    return [part for part in parts if not is_known(known, part)]


def is_known(known: Known, cond: Cond) -> bool:
    """Whether a condition is known to hold."""
    forms = known.forms_of(cond)
    return forms is not None and all(
        known.is_nonneg(form) and (kind == "ge" or known.is_nonneg(form.scale(-1))) for kind, form in forms
    )


def _variables(conditions: Iterable[Cond]) -> list[Var]:
    return list(dict.fromkeys(v for cond in conditions for v in cond.free_vars()))

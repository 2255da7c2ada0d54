"""A schedule and its bounds as a function: the nest with parameters, assertions, and what makes it short."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bound.infer import BoundsMap
from bound.schedule import Schedule, Stage
from bound.tensor import Tensor
from intset.context import Context
from intset.expr.node import Var, const
from lowering.build.arguments import parameters, shape_asserts, sizes_of
from lowering.build.checks import data_checks, refuse_outside, size_asserts
from lowering.build.pipeline import schedule_ops
from lowering.nest.ir import Function, seq
from lowering.nest.walk import substitute
from lowering.passes import drop_dead, follow_guards, name_minima, rebase
from lowering.passes.simplify import plain


@dataclass(frozen=True)
class Maker:
    """Makes functions of a schedule for bounds. The attributes are parameters of `lower`."""

    args: Sequence[Any] | None = None
    ctx: Context | None = None
    name: str | None = None
    unsafe: bool = False

    @cached_property
    def _known(self) -> Context:
        """The root context of all nests of this schedule, which share the answers of common scopes."""
        return Context() if self.ctx is None else self.ctx.extended()

    def guarded(self, b: BoundsMap, split: Collection[Stage] = ()) -> Function:
        """The function with guards, `split` stages in pieces; divisions are as they were written."""
        f = nest_of(b, self.args, self._known, self.name, split, self.unsafe)
        fixed = {var: b.sizes[var] for var in f.sizes if var in b.sizes}  # the nest is right for these values only
        asserted = shape_asserts(f, fixed, b.size_variables)
        body = seq(*asserted, substitute(f.body, {v: const(k) for v, k in fixed.items()}))
        return rebase(plain(name_minima(f.with_body(body))))


def with_ends(f: Function, kept: Collection[Var]) -> Function:
    """The function that was made with guards, these in the ends of all loops but those that are kept."""
    return drop_dead(follow_guards(f, kept))


def without_ends(f: Function) -> Function:
    """The function that was made with guards, with all of them."""
    return drop_dead(f)


def nest_of(
    b: BoundsMap,
    args: Sequence[Any] | None = None,
    ctx: Context | None = None,
    name: str | None = None,
    split: Collection[Stage] = (),
    unsafe: bool = False,
) -> Function:
    """The nest before any pass: ScheduleOps, in coordinates of the tensors, with divisions as they were written."""
    tensors, scalars = parameters(b.schedule, args)
    outputs = tuple(t for op in b.schedule.outputs for t in op.outputs)
    known = Context() if ctx is None else ctx
    outside = () if unsafe else b.outside
    refuse_outside(outside)
    asserted = size_asserts(outside, known)
    body = seq(*asserted, schedule_ops(b, frozenset(tensors), split, data_checks(outside)))
    sizes, params = sizes_of(tensors, body)
    sizes = tuple(dict.fromkeys((*(v for v in scalars if isinstance(v, Var)), *sizes)))
    params = tuple(dict.fromkeys((*(v for v in scalars if not isinstance(v, Var)), *params)))
    label = name or (outputs[0].name if outputs else "empty")
    return Function(label, tensors, outputs, sizes, params, body, known, _labels(b.schedule, tensors))


def _labels(schedule: Schedule, tensors: Sequence[Tensor]) -> dict[Any, Tensor]:
    """The tensors of the script, and their names, that rewrites of the schedule replaced by a parameter."""
    labels: dict[Any, Tensor] = {}
    for op, stage in schedule.stage_map.items():
        for old in (*op.outputs, *(stage.origin_op.outputs if stage.origin_op is not None else ())):
            new = stage.op.outputs[old.value_index] if old.value_index < stage.op.num_outputs else None
            if new in tensors and new is not None:
                labels[old] = new
                labels.setdefault(old.name, new)
    return labels

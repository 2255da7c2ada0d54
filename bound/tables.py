"""Tables of schedules and their bounds for notebooks; see `intset.notebook`."""

import itertools
from collections.abc import Sequence

from bound.infer import BoundsMap, StageNest, Storage
from bound.schedule import Schedule, Stage
from bound.tensor import Tensor
from intset.errors import IntSetError
from intset.expr import Range
from intset.expr.printer import SHOWN_ROWS
from intset.notebook import Cell, code, conditions, escaped, fragment, pre, table


def _sides(box: Sequence[Range]) -> Cell:
    return code(" x ".join(f"[{side.min}, {side.max}]" for side in box) or "()")


@fragment.register
def _(value: BoundsMap) -> Cell:
    outputs = [(stage, t) for stage in value.schedule.stages for t in stage.op.outputs]
    rows = (
        (code(t.name), *_regions(value, t), code(_loops(value, stage)))
        for stage, t in itertools.islice(outputs, SHOWN_ROWS)
    )
    about = f"by {value.domain}, compute {value.compute}"
    sizes = ", ".join(f"{v.name} = {n}" for v, n in value.sizes.items())
    head = ("tensor", "required", "computed", "allocated", "loops")
    return f"<div>{escaped(f'{about}; {sizes}' if sizes else about)}</div>" + table(head, rows, len(outputs))


def _regions(value: BoundsMap, tensor: Tensor) -> tuple[Cell, Cell, Cell]:
    try:
        required = value.required(tensor)
        same = "" if required.is_exact else " (a superset)"
        computed = value.computed(tensor)
        return _sides(required.box) + same, _sides(computed.box), _sides(value.allocated(tensor))
    except IntSetError as error:  # inlined, or beyond a budget
        return f"<em>{escaped(str(error))}</em>", "", ""


def _loops(value: BoundsMap, stage: Stage) -> str:
    if not value.is_computed(stage):
        return ""
    return ", ".join(f"{loop.iv.name}: {loop.range.extent}" for loop in value.nest(stage).loops)


@fragment.register
def _(value: StageNest) -> Cell:
    loops = ((code(loop.iv.name), code(loop.range.min), code(loop.range.extent)) for loop in value.loops)
    axes = ((code(iv.name), code(e)) for iv, e in value.values.items())
    guards = table((), [("where", conditions(value.guards) or "always")])
    heads = ("loop", "min", "extent"), ("axis", "value")
    return table(heads[0], loops, len(value.loops)) + table(heads[1], axes, len(value.values)) + guards


@fragment.register
def _(value: Storage) -> Cell:
    sides = ((f"{k}", code(side.min), code(side.extent)) for k, side in enumerate(value.allocated))
    return pre(repr(value)) + table(("axis", "min", "extent"), sides)


@fragment.register
def _(value: Schedule) -> Cell:
    rows = (
        (code(stage.name), code(", ".join(iv.name for iv in stage.leaf_iter_vars)), escaped(stage.attach_type.name))
        for stage in value.stages[:SHOWN_ROWS]
    )
    return table(("stage", "loops", "computed"), rows, len(value.stages))

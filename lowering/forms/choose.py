"""`compute="auto"`: the cheapest of the nests that a schedule may become.

A stage computes what is required of it exactly, or the box around that. The box may compute elements that nobody reads
and that its producers then compute for it; in exchange no guard and no uneven loop end stands in the way. Which is
cheaper is asked of the modelled nests (`lowering.forms.model`). The box is not considered where an element that nobody
reads could do harm: an integer divided by what is no constant, a call of the host, an access that leaves its tensor.

Asked first is the box, which is quick to infer. Where every region is a box there is nothing to choose; where the boxes
exceed the regions by little, even if the excess is passed on from stage to stage, the exact nests are not built at all.
A program that takes no time either way computes what is required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bound import infer_bound
from bound.infer import BoundsMap
from bound.operation import ComputeOp, PlaceholderOp
from bound.schedule import AttachType, Schedule
from bound.tir import walk
from bound.tir.value import Operand, ValueOp
from intset.context import Context
from intset.errors import IntSetError
from intset.expr import ops
from intset.expr.node import Expr, Var, constant_value
from lowering.forms.model import modelled, number, typical
from lowering.nest.ir import Function

COMPUTE: Final = ("auto", "exact", "box")
SMALL: Final = 50_000  # modelled cost of a program that takes no time: it computes what is required and nothing else
LITTLE: Final = 0.05  # of the elements of all boxes: an excess that is not worth a second inference
_TRAPPING: Final = (*ops.DIVISIONS, ValueOp.FLOORDIV, ValueOp.FLOORMOD, ValueOp.TRUNCDIV, ValueOp.TRUNCMOD)


@dataclass(frozen=True)
class Form:
    """One way to compute a stage.

    Attributes
    ----------
    compute: "exact" or "box".
    cost: what the model expects of it; `None` where it was not built, because it could not be worth it.
    """

    compute: str
    cost: float | None


Forms = Mapping[str, tuple[Form, ...]]


def chosen(
    s: Schedule,
    ctx: Context | None,
    at: Mapping[Any, int] | None,
    compact: bool,
    build: Callable[[BoundsMap], Function],
) -> tuple[BoundsMap, Function, Forms]:
    """The bounds and the nest of the cheapest way to compute a schedule, and the forms each stage was considered in.

    Parameters
    ----------
    build: makes the nest for bounds.
    """
    if not _is_harmless(s):
        exact = infer_bound(s, ctx=ctx, at=at, compact=compact)
        f = build(exact)
        return exact, f, _forms([("exact", f)])
    box = infer_bound(s, ctx=ctx, at=at, compact=compact, compute="box")
    excess = _excess(box)  # None: every region is a box
    g = None if box.outside else build(box)
    if g is not None and (excess is None or (excess <= LITTLE and _cost(g, box) > SMALL)):
        return box, g, _forms([("box", g)], also=() if excess is None else ("exact",))
    exact = infer_bound(s, ctx=ctx, at=at, compact=compact)
    f = build(exact)
    if g is None or _cost(g, box) <= SMALL:
        return exact, f, _forms([("exact", f)], also=() if g is None else ("box",))
    if _cost(g, box) < _cost(f, exact):
        return box, g, _forms([("box", g), ("exact", f)])
    return exact, f, _forms([("exact", f), ("box", g)])


def _cost(f: Function, bounds: BoundsMap) -> float:
    return sum(modelled(f, bounds.sizes).values())


def _forms(built: list[tuple[str, Function]], also: tuple[str, ...] = ()) -> Forms:
    costs = [(compute, modelled(f)) for compute, f in built]
    names = dict.fromkeys(name for _, cost in costs for name in cost)
    rest = tuple(Form(compute, None) for compute in also)
    return {name: (*(Form(compute, cost.get(name, 0.0)) for compute, cost in costs), *rest) for name in names}


def _is_harmless(s: Schedule) -> bool:
    """Whether an element may be computed that nobody reads."""
    for stage in s.stages:
        op = stage.op
        if stage.attach_type is AttachType.INLINED_ALREADY or isinstance(op, PlaceholderOp):
            continue
        if not isinstance(op, ComputeOp):
            return False
        for node in walk.nodes(*op.body):
            divisor = node.args[1] if node.op in _TRAPPING and not _is_float(node) else None
            if divisor is not None and not (isinstance(divisor, Expr) and constant_value(divisor)):
                return False
    return True


def _is_float(node: Operand) -> bool:
    return str(getattr(node, "dtype", "int")).startswith("float")


def _excess(box: BoundsMap) -> float | None:
    """By how much boxes exceed what is required, as a part of what is computed, in an instance in the middle;
    `None` where no box exceeds its region in any instance.

    An excess is passed on: the box of a stage reads more than its region does, and so on up the chain. With `n` stages
    the excess of each one counts up to `n` times in those it reads; that is charged for all of them.
    """
    values = _middle(box)
    spared, total, count = 0.0, 0, 0
    for stage in box.schedule.stages:
        if stage.attach_type is AttachType.INLINED_ALREADY or isinstance(stage.op, PlaceholderOp):
            continue
        count += 1
        for tensor in stage.op.outputs:
            required = box.required(tensor)
            if required.is_box:
                continue
            try:
                needed, made = (
                    r.at({v: values[v] for v in r.params}).shape.count() for r in (required, box.computed(tensor))
                )
            except (IntSetError, KeyError):
                return 1.0
            if not isinstance(made, int) or not isinstance(needed, int) or made <= 0:
                return 1.0
            spared += (made - needed) / made
            total += 1
    return spared / total * count * count if total else None


def _middle(box: BoundsMap) -> dict[Var, int]:
    """Typical sizes, and the middle of each loop at them."""
    values: dict[Var, int] = {v: box.sizes.get(v, typical(v)) for v in box.size_variables}
    for axis, r in box.items():
        low, extent = (number(e, values) for e in (r.min, r.extent))
        if low is not None and extent is not None:
            values[axis] = low + max(extent - 1, 0) // 2
    return values

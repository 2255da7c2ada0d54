"""Bounds of schedules as plain data, ready for a table or for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

from bound.infer import BoundsMap, infer_bound
from bound.itervar import IterVar
from bound.operation import PlaceholderOp
from bound.schedule import AttachType
from bound.schedule.stage import Stage
from bound.tensor import Tensor
from intset import Context, Expr, IntSetError, Range
from intset.domains.sets.region import Region
from lowering.cli.outside import outside_entries
from lowering.cli.script import Case

T = TypeVar("T")

_KINDS = {
    AttachType.GROUP_ROOT: "root",
    AttachType.INLINE: "inline",
    AttachType.INLINED_ALREADY: "inlined",
    AttachType.SCOPE: "attached",
    AttachType.SCAN_UPDATE: "scan update",
}


def bounds_of(case: Case, sizes: Mapping[str, int], domain: str | None, compact: bool = False) -> dict[str, object]:
    """Every stage of a schedule with its axes and, for each tensor it makes, what is required, computed, allocated.

    Raises
    ------
    IntSetError: the bounds of the schedule cannot be inferred.
    """
    bounds = inferred(case, sizes, domain, compact)
    return {
        "name": case.name,
        "at": dict(sizes),
        "stages": [_stage(bounds, stage) for stage in bounds.schedule.stages],
        "outside": outside_entries(bounds),
    }


def inferred(case: Case, sizes: Mapping[str, int], domain: str | None, compact: bool = False) -> Any:
    """The bounds of a schedule, with sizes fixed by name."""
    assert case.schedule is not None
    return infer_bound(case.schedule, at=dict(sizes) or None, domain=domain, compact=compact)


def _stage(bounds: BoundsMap, stage: Stage) -> dict[str, object]:
    op = stage.op
    kind = "placeholder" if isinstance(op, PlaceholderOp) else _KINDS[stage.attach_type]
    axes = []
    if not isinstance(op, PlaceholderOp):
        leaves = list(stage.leaf_iter_vars)  # outermost first
        others = [axis for axis in stage.all_iter_vars if axis not in leaves]
        for axis in (*leaves, *others):
            limits = _known(bounds, axis)
            if limits is not None:
                axes.append({"name": axis.name, "leaf": axis in leaves, **_range(limits)})
    return {
        "stage": stage.name,
        "kind": kind,
        "scope": stage.scope,
        "slid": [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)[: len(bounds.slid(stage))]],
        "attach": [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)],
        "axes": axes,
        "tensors": [_tensor(bounds, tensor) for tensor in op.outputs],
    }


def _known(bounds: BoundsMap, axis: IterVar) -> Range | None:
    try:
        return bounds[axis]
    except (KeyError, IntSetError):
        return None  # an axis of a stage that was inlined


def _tensor(bounds: BoundsMap, tensor: Tensor) -> dict[str, Any]:
    found: dict[str, Any] = {
        "tensor": tensor.name,
        "shape": [_value(extent) for extent in tensor.extents],
        "dtype": str(tensor.dtype),
    }
    for name, ask in (("required", bounds.required), ("computed", bounds.computed)):
        region = _attempt(partial(ask, tensor))
        found[name] = None if region is None else _region(region)
    allocated = _attempt(lambda: bounds.allocated(tensor))
    found["allocated"] = None if allocated is None else [_range(side) for side in allocated]
    found["allocated_elements"] = None if allocated is None else elements(allocated)
    return found


def _region(region: Region) -> dict[str, object]:
    return {
        "box": [_range(side) for side in region.box],
        "params": [param.name for param in region.params],
        "is_exact": region.is_exact,
        "notes": list(region.notes),
        "count": _attempt(lambda: _value(region.count())),
        "count_max": _attempt(lambda: _value(region.count_max())),
        "count_total": _attempt(lambda: _value(region.count_total())),
    }


def elements(sides: Sequence[Range]) -> int | str:
    """The number of elements of a box, an integer where the extents are constant, else a text."""
    extents = [_value(side.extent) for side in sides]
    if all(isinstance(extent, int) for extent in extents):
        return prod(extent for extent in extents if isinstance(extent, int))
    product: Any = 1
    for side in sides:
        product = side.extent * product
    return str(Context().simplify(product)) if isinstance(product, Expr) else str(product)


def _range(side: Range) -> dict[str, object]:
    return {"min": _value(side.min), "extent": _value(side.extent)}


def _value(value: object) -> int | str:
    if isinstance(value, Expr):
        return int(value) if value.is_const else str(value)
    return value if isinstance(value, int) else str(value)


def _attempt(ask: Callable[[], T]) -> T | None:
    """An answer, or `None` where the question has none (a tensor nobody reads, a count without closed form)."""
    try:
        return ask()
    except (IntSetError, KeyError):
        return None


def compare_domains(case: Case, sizes: Mapping[str, int], domains: Sequence[str]) -> dict[str, object]:
    """For each tensor that is computed into storage of its own: the sizes that each domain arrives at."""
    rows: dict[str, dict[str, Any]] = {}
    for domain in domains:
        bounds = inferred(case, sizes, domain)
        for stage in bounds.schedule.stages:
            if isinstance(stage.op, PlaceholderOp) or stage.attach_type is AttachType.INLINED_ALREADY:
                continue
            for tensor in stage.op.outputs:
                entry = _tensor(bounds, tensor)
                required = entry["required"] or {}
                row = rows.setdefault(tensor.name, {"stage": stage.name, "tensor": tensor.name, "domains": {}})
                row["domains"][domain] = {
                    "allocated": entry["allocated_elements"],
                    "required_max": required.get("count_max") or required.get("count"),
                    "required_total": required.get("count_total"),
                    "is_exact": required.get("is_exact"),
                }
    return {"name": case.name, "at": dict(sizes), "tensors": list(rows.values())}

"""Accesses outside their tensors as plain data, and as lines of text."""

from __future__ import annotations

from bound.infer import BoundsMap, Outside
from bound.infer.answers.outside import ALWAYS, SIZES
from intset.expr.node import Var
from lowering.cli import tables


def outside_entries(bounds: BoundsMap) -> list[dict[str, object]]:
    """Every access that is not known to stay inside its tensor."""
    return [_entry(one) for one in bounds.outside]


def _entry(one: Outside) -> dict[str, object]:
    point = None if one.point is None else {e.name if isinstance(e, Var) else str(e): k for e, k in one.point.items()}
    return {
        "stage": one.stage.name,
        "tensor": one.tensor.name,
        "index": [str(e) for e in one.index],
        "dim": one.dim,
        "extent": int(one.extent) if one.extent.is_const else str(one.extent),
        "point": point,
        "depends": one.depends,
        "requires": None if one.requires is None else str(one.requires),
        "text": f"{one}: {_consequence(one)}",
    }


def _consequence(one: Outside) -> str:
    if one.depends == ALWAYS:
        return "an error, lower refuses it"
    if one.depends == SIZES:
        return f"the function asserts {one.requires}"
    return "checked before it is read"


def show_outside(entries: list[dict[str, object]]) -> None:
    """A line for each."""
    if entries:
        tables.say("accesses outside their tensors")
        for entry in entries:
            tables.say(f"  {entry['text']}")
        tables.say("")

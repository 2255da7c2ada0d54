"""Lowered nests and explanations, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import intset
from bound import infer_bound
from bound.infer import BoundsMap
from bound.infer.answers.outside import ALWAYS
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Schedule
from bound.tensor import Tensor
from lowering.cli import tables
from lowering.cli.corpus import Problem, Row
from lowering.cli.outside import outside_entries
from lowering.cli.script import Case
from lowering.cli.stages import inferred
from lowering.codegen.c import program_text, to_c
from lowering.division import lower_division
from lowering.lower import before_divisions, lower
from lowering.passes import lowered_parts


def arguments_of(schedule: Schedule) -> list[Tensor]:
    """What a lowered function is called with: the placeholders, then the outputs."""
    placeholders = [t for stage in schedule.stages if isinstance(stage.op, PlaceholderOp) for t in stage.op.outputs]
    return [*placeholders, *(t for op in schedule.outputs for t in op.outputs)]


@dataclass(frozen=True)
class Lowering:
    """The options of `intset lower`: what to emit ("nest", "c", "main" for C with a program), and those of `lower`."""

    emit: str = "nest"
    compact: bool = False
    nests: str = "auto"
    strength: bool = False
    unsafe: bool = False
    compute: str | None = None
    reassociate: bool = False


def lowered_schedule(case: Case, sizes: Mapping[str, int], domain: str | None, options: Lowering) -> dict[str, object]:
    """The loop nest of a schedule, or its C, as text."""
    assert case.schedule is not None
    with intset.using(domain=domain) if domain else nullcontext():
        function = lower(
            case.schedule,
            arguments_of(case.schedule),
            at=dict(sizes) or None,
            compact=options.compact or None,
            nests=options.nests,
            strength=options.strength,
            unsafe=options.unsafe,
            compute=options.compute,
            reassociate=options.reassociate,
        )
    if options.emit == "main":
        text = program_text(function, sizes)
    else:
        text = to_c(function) if options.emit == "c" else str(function)
    return {"name": case.name, "at": dict(sizes), "emit": options.emit, "text": text}


def lowered_rows(rows: Sequence[Row], domain: str | None) -> list[dict[str, object]]:
    """Each index expression of a corpus with its divisions lowered, and the names of the rules used."""
    found = []
    for row in tables.track(rows, len(rows), "lowering"):
        if row.is_predicate:
            continue
        problem = Problem(row)
        ctx = problem.context(domain)
        for k, expr in enumerate(problem.exprs):
            result = lower_division(expr, ctx)
            rules = list(dict.fromkeys(str(step.rule) for step in result.steps))
            entry = {"row": row.number, "op": row.op, "expr": row.exprs[k], "lowered": str(result.expr), "rules": rules}
            found.append(entry | {"requires": [str(condition) for condition in result.requires]})
    return found


def explained_schedule(case: Case, sizes: Mapping[str, int], domain: str | None) -> dict[str, object]:
    """Why the region of each tensor is what it is, in which forms it may be computed, and what divisions become."""
    assert case.schedule is not None
    bounds = inferred(case, sizes, domain)
    bounds.forms = infer_bound(case.schedule, at=dict(sizes) or None, domain=domain, compute="auto").forms
    texts = [
        {"tensor": tensor.name, "text": str(bounds.explain(tensor))}
        for stage in bounds.schedule.stages
        if stage.attach_type is not AttachType.INLINED_ALREADY
        for tensor in stage.op.outputs
    ]
    divisions = _divisions(case, bounds)
    outside = outside_entries(bounds)
    return {"name": case.name, "at": dict(sizes), "tensors": texts, "divisions": divisions, "outside": outside}


def _divisions(case: Case, bounds: BoundsMap) -> list[dict[str, object]]:
    """The expressions of the loop nest that divide: what each becomes, why, and which facts would make it cheaper."""
    assert case.schedule is not None
    is_refused = any(one.depends == ALWAYS for one in bounds.outside)
    function, bits = before_divisions(case.schedule, arguments_of(case.schedule), bounds=bounds, unsafe=is_refused)
    return [
        {
            "expr": str(part.asked[0]),
            "lowered": str(part.expr),
            "missing": [str(missing.fact) for missing in part.missing],
            "text": part.explain(),
        }
        for part in lowered_parts(function, bits)
    ]


def explained_rows(rows: Sequence[Row], domain: str | None) -> list[dict[str, object]]:
    """Why the bounds of each index, or the verdict on each condition, are what they are."""
    found = []
    for row in tables.track(rows, len(rows), "explaining"):
        problem = Problem(row)
        ctx = problem.context(domain)
        for k, expr in enumerate(problem.exprs):
            text = str(ctx.explain(expr))
            found.append({"row": row.number, "op": row.op, "expr": row.exprs[k], "text": text})
    return found

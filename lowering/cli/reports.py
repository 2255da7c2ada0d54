"""Answers of the commands as plain data, ready for JSON or a table: reports on schedules and on rows of a corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from importlib.metadata import EntryPoint
from math import prod
from typing import Any, TypeAlias, TypeVar

from bound.infer import BoundsMap, Outside, infer_bound
from bound.infer.answers.outside import ALWAYS, SIZES
from bound.itervar import IterVar
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Schedule
from bound.schedule.stage import Stage
from bound.tensor import Tensor
from intset import Context, Expr, InputError, IntSetError, Range, domain_names, using
from intset.config import current
from intset.domains.registry import domain_named
from intset.domains.sets.region import Region
from intset.errors import DomainError
from intset.expr.node import Cond, Var
from intset.infinity import Infinity
from intset.names import BUILT_IN, announced, entry_points
from lowering.cli.inputs import CorpusRow, Problem, ScriptSchedule
from lowering.cli.tables import track
from lowering.codegen.c import program_text, to_c
from lowering.division import lower_division
from lowering.lower import arguments_of, before_divisions, lower
from lowering.nest.ir import Allocate, Assert, For, Function
from lowering.nest.walk import statements
from lowering.passes import lowered_parts, narrow

T = TypeVar("T")
JsonObject: TypeAlias = "dict[str, Any]"
SizeValues: TypeAlias = Mapping[str, int]

SCHEDULE_DOMAINS = ("interval", "isl", "auto")
SCORERS = "intset.scorers"  # the group of entry points that score domains on a corpus
_BY_NAME_ONLY = ("points",)  # enumeration is too slow for a default comparison
_KINDS = {
    AttachType.GROUP_ROOT: "root",
    AttachType.INLINE: "inline",
    AttachType.INLINED_ALREADY: "inlined",
    AttachType.SCOPE: "attached",
    AttachType.SCAN_UPDATE: "scan update",
}

# -- bounds of a schedule -----------------------------------------------------------------------------------------


def schedule_bounds(schedule: Schedule, sizes: SizeValues, domain: str | None, compact: bool) -> JsonObject:
    """The stages of a schedule with their axes, and the required, computed and allocated elements of each tensor."""
    bounds = _inferred(schedule, sizes, domain, compact)
    return {
        "stages": [_stage(bounds, stage) for stage in bounds.schedule.stages],
        "outside": [_outside(access) for access in bounds.outside],
    }


def _inferred(schedule: Schedule, sizes: SizeValues, domain: str | None, compact: bool = False) -> Any:
    return infer_bound(schedule, at=dict(sizes) or None, domain=domain, compact=compact)


def _stage(bounds: BoundsMap, stage: Stage) -> JsonObject:
    op = stage.op
    is_input = isinstance(op, PlaceholderOp)
    leaves = list(stage.leaf_iter_vars)  # outermost first
    axes = [] if is_input else [*leaves, *(axis for axis in stage.all_iter_vars if axis not in leaves)]
    ranges = [(axis, _axis_range(bounds, axis)) for axis in axes]
    attach_path = [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)]
    return {
        "stage": stage.name,
        "kind": "placeholder" if is_input else _KINDS[stage.attach_type],
        "scope": stage.scope,
        "slid": attach_path[: len(bounds.slid(stage))],
        "attach": attach_path,
        "axes": [{"name": a.name, "leaf": a in leaves, **_range(limits)} for a, limits in ranges if limits is not None],
        "tensors": [_tensor(bounds, tensor) for tensor in op.outputs],
    }


def _axis_range(bounds: BoundsMap, axis: IterVar) -> Range | None:
    try:
        return bounds[axis]
    except (KeyError, IntSetError):
        return None  # an axis of an inlined stage


def _tensor(bounds: BoundsMap, tensor: Tensor) -> JsonObject:
    required, computed = (_attempt(partial(ask, tensor)) for ask in (bounds.required, bounds.computed))
    storage = _attempt(partial(bounds.storage, tensor))
    allocated = None if storage is None else storage.allocated
    flat = None if storage is None else storage.flat
    return {
        "tensor": tensor.name,
        "shape": [_value(extent) for extent in tensor.extents],
        "dtype": str(tensor.dtype),
        "required": None if required is None else _region(required),
        "computed": None if computed is None else _region(computed),
        "allocated": None if allocated is None else [_range(side) for side in allocated],
        "flat_axes": [] if flat is None else list(flat.dims),
        "allocated_elements": None if allocated is None else _elements(allocated),
    }


def _region(region: Region) -> JsonObject:
    return {
        "box": [_range(side) for side in region.box],
        "params": [param.name for param in region.params],
        "is_exact": region.is_exact,
        "notes": list(region.notes),
        "count": _attempt(lambda: _value(region.count())),
        "count_max": _attempt(lambda: _value(region.count_max())),
        "count_total": _attempt(lambda: _value(region.count_total())),
    }


def _elements(sides: Sequence[Range]) -> int | str:
    """The number of elements of a box: an integer for constant extents, otherwise a formula."""
    extents = [_value(side.extent) for side in sides]
    if all(isinstance(extent, int) for extent in extents):
        return prod(extent for extent in extents if isinstance(extent, int))
    product: Any = 1
    for side in sides:
        product = side.extent * product
    return str(Context().simplify(product)) if isinstance(product, Expr) else str(product)


def _range(side: Range) -> JsonObject:
    return {"min": _value(side.min), "extent": _value(side.extent)}


def _value(value: object) -> int | str:
    if isinstance(value, Expr):
        return int(value) if value.is_const else str(value)
    return value if isinstance(value, int) else str(value)


def _attempt(ask: Callable[[], T]) -> T | None:
    """An answer; `None` for an unread tensor, or a count without closed form."""
    try:
        return ask()
    except (IntSetError, KeyError):
        return None


def _outside(access: Outside) -> JsonObject:
    """An access that may leave its tensor."""
    if access.depends == ALWAYS:
        consequence = "an error, lower refuses it"
    elif access.depends == SIZES:
        consequence = f"the function asserts {access.requires}"
    else:
        consequence = "checked before it is read"
    point = access.point
    return {
        "stage": access.stage.name,
        "tensor": access.tensor.name,
        "index": [str(e) for e in access.index],
        "dim": access.dim,
        "extent": _value(access.extent),
        "point": None if point is None else {e.name if isinstance(e, Var) else str(e): k for e, k in point.items()},
        "depends": access.depends,
        "requires": None if access.requires is None else str(access.requires),
        "text": f"{access}: {consequence}",
    }


# -- other reports on a schedule ----------------------------------------------------------------------------------


def schedule_comparison(schedule: Schedule, sizes: SizeValues, domains: Sequence[str]) -> JsonObject:
    """The elements that each domain requires and allocates, for every tensor with storage."""
    rows: dict[str, JsonObject] = {}
    for domain in domains or SCHEDULE_DOMAINS:
        bounds = _inferred(schedule, sizes, domain)
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
    return {"tensors": list(rows.values())}


@dataclass(frozen=True)
class LowerOptions:
    """The options of `intset lower`: `emit` ("nest", "c", "main" for C with a program), and keywords of `lower`."""

    emit: str
    compact: bool
    nests: str
    strength: bool
    unsafe: bool
    compute: str | None
    reassociate: bool


def schedule_nest(schedule: Schedule, sizes: SizeValues, domain: str | None, options: LowerOptions) -> JsonObject:
    """The loop nest of a schedule, or its C, as text."""
    with using(domain=domain) if domain else nullcontext():
        function = lower(
            schedule,
            arguments_of(schedule),
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
    return {"emit": options.emit, "text": text, **_function_fields(function)}


def _function_fields(f: Function) -> JsonObject:
    """What a function takes, gives, allocates and asserts."""
    allocated = [stmt.tensor for stmt in statements(f.body) if isinstance(stmt, Allocate)]
    return {
        "name": f.name,
        "parameters": [_storage(tensor) | {"output": tensor in f.outputs} for tensor in f.params],
        "sizes": [size.name for size in f.sizes],
        "allocated": [_storage(tensor) for tensor in allocated],
        "asserts": [str(stmt.cond) for stmt in statements(f.body) if isinstance(stmt, Assert)],
        "loops": [_loop(stmt) for stmt in statements(f.body) if isinstance(stmt, For)],
        "index_bits": narrow(f).bits,
    }


def _loop(loop: For) -> JsonObject:
    return {"variable": loop.var.name, **_range(loop.range), "kind": str(loop.kind), "thread": loop.thread}


def _storage(tensor: Tensor) -> JsonObject:
    return {"tensor": tensor.name, "dtype": tensor.dtype, "shape": [_value(extent) for extent in tensor.extents]}


def all_domains() -> JsonObject:
    """Every domain: its name, the package that it comes from, what it is exact on, and why it cannot be loaded."""
    found: list[JsonObject] = []
    for name in announced():
        origin = (
            "intset" if name in BUILT_IN else next((_origin(p) for p in entry_points() if p.name == name), "a call")
        )
        try:
            exact_on, failure = str(getattr(domain_named(name), "exact_on", "not stated")), ""
        except DomainError as error:
            exact_on, failure = "", str(error).splitlines()[0]
        found.append({"name": name, "origin": origin, "exact_on": exact_on, "failure": failure})
    return {"domains": found}


def _origin(point: EntryPoint) -> str:
    return point.value if point.dist is None else f"{point.dist.name} {point.dist.version}"


def schedule_explanation(schedule: Schedule, sizes: SizeValues, domain: str | None) -> JsonObject:
    """Explanations of each tensor's region and form, and of each lowered division."""
    bounds = _inferred(schedule, sizes, domain)
    bounds.forms = infer_bound(schedule, at=dict(sizes) or None, domain=domain, compute="auto").forms
    stages = [stage for stage in bounds.schedule.stages if stage.attach_type is not AttachType.INLINED_ALREADY]
    tensors = [tensor for stage in stages for tensor in stage.op.outputs]
    is_refused = any(access.depends == ALWAYS for access in bounds.outside)
    function, bits = before_divisions(schedule, arguments_of(schedule), bounds=bounds, unsafe=is_refused)
    return {
        "tensors": [
            {**_tensor(bounds, tensor), **_made(bounds, tensor), "text": str(bounds.explain(tensor))}
            for tensor in tensors
        ],
        "divisions": [
            {
                "expr": str(part.asked[0]),
                "lowered": str(part.expr),
                "missing": [str(missing.fact) for missing in part.missing],
                "rules": list(dict.fromkeys(str(step.rule) for step in part.steps)),
                "requires": [str(condition) for condition in part.requires],
                "bits": part.bits,
                "text": part.explain(),
            }
            for part in lowered_parts(function, bits)
        ],
        "outside": [_outside(access) for access in bounds.outside],
    }


def _made(bounds: BoundsMap, tensor: Tensor) -> JsonObject:
    """Where a tensor is computed, the loops around it, what its stage guards, and its forms that were considered."""
    stage = bounds.stage(tensor)
    return {
        "kind": "placeholder" if isinstance(stage.op, PlaceholderOp) else _KINDS[stage.attach_type],
        "attach": [bounds.loop_name(at, axis) for at, axis in bounds.attach_path(stage)],
        "forms": [str(form) for form in bounds.forms.get(tensor.name, ())],
    }


def schedule_reports(
    path: str, schedules: Sequence[ScriptSchedule], sizes: SizeValues, ask: Callable[[Schedule, SizeValues], JsonObject]
) -> JsonObject:
    """One report for each schedule of a script; a refused schedule reports the reason.

    Raises
    ------
    InputError: all schedules are refused.
    """
    reports: list[JsonObject] = []
    for entry in track(schedules, len(schedules), path.rpartition("/")[2]):
        refused = entry.refused
        if entry.schedule is not None:
            values = {**entry.sizes, **sizes}
            try:
                reports.append({"name": entry.name, "at": values, **ask(entry.schedule, values)})
                continue
            except IntSetError as error:
                refused = str(error).splitlines()[0]
        reports.append({"name": entry.name, "refused": refused})
    if all("refused" in report for report in reports):
        name, reason = reports[0]["name"], reports[0]["refused"]
        raise InputError(reason if reason.startswith(path) else f"{path}: {name}: {reason}")
    return {"schedules": reports}


# -- rows of a corpus ---------------------------------------------------------------------------------------------


def _problems(
    rows: Sequence[CorpusRow], domain: str | None, label: str
) -> Iterator[tuple[CorpusRow, Context, str, Any]]:
    """Each expression of each row, with its context and text."""
    for row in track(rows, len(rows), label):
        problem = Problem(row)
        ctx = problem.context(domain)
        yield from ((row, ctx, row.exprs[k], expr) for k, expr in enumerate(problem.exprs))


def row_bounds(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """The bounds of each index expression, and the verdict on each condition."""
    entries = [
        {"row": row.number, "op": row.op, "kind": row.kind, "expr": text}
        | (_verdict(ctx, expr) if row.is_predicate else _ends(ctx, expr))
        for row, ctx, text, expr in _problems(rows, domain, "bounds")
    ]
    return {"rows": entries, "domain": domain or current().domain}


def _ends(ctx: Context, expr: Expr) -> JsonObject:
    ends = ctx.bounds(expr)
    low, high = map(_end, ends)
    return {"min": low, "max": high, "tight": ends.is_tight, "by": ends.by, "notes": list(ends.notes)}


def _end(end: Expr | Infinity) -> int | str:
    return int(end) if getattr(end, "is_const", False) else str(end)


def _verdict(ctx: Context, condition: Cond) -> JsonObject:
    with using(domain=ctx.domain or current().domain):
        direct, opposite = ctx.prove(condition), ctx.prove(~condition)
    holds = {"proved": "true", "refuted": "both" if opposite.status == "refuted" else "unknown"}
    value = "false" if opposite.status == "proved" and not direct else holds.get(direct.status, "unknown")
    fails_at, holds_at = (
        None if proof.counterexample is None else {str(e): value for e, value in proof.counterexample.items()}
        for proof in (direct, opposite)
    )
    return {"holds": value, "by": direct.by, "fails_at": fails_at, "holds_at": holds_at}


def row_divisions(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """Each index expression with its divisions lowered, and the names of the rules used."""
    entries: list[JsonObject] = []
    for row, ctx, text, expr in _problems([row for row in rows if not row.is_predicate], domain, "lowering"):
        result = lower_division(expr, ctx)
        rules = list(dict.fromkeys(str(step.rule) for step in result.steps))
        entry = {"row": row.number, "op": row.op, "expr": text, "lowered": str(result.expr), "rules": rules}
        entries.append(entry | {"requires": [str(condition) for condition in result.requires]})
    return {"rows": entries}


def row_explanations(rows: Sequence[CorpusRow], domain: str | None) -> JsonObject:
    """An explanation of each bound and verdict."""
    return {
        "rows": [
            {"row": row.number, "op": row.op, "kind": row.kind, "expr": text, "text": str(ctx.explain(expr))}
            | (_verdict(ctx, expr) if isinstance(expr, Cond) else _ends(ctx, expr))
            for row, ctx, text, expr in _problems(rows, domain, "explaining")
        ]
    }


def default_domains() -> list[str]:
    """The domains of a comparison, plug-ins included."""
    return [name for name in domain_names() if name not in _BY_NAME_ONLY]


def row_comparison(rows: Sequence[CorpusRow], domains: Sequence[str], with_peers: bool = False) -> JsonObject:
    """The answers of several domains against the recorded truth, by the scorer that a checkout installs.

    `with_peers` asks the other installed analyzers, too.
    """
    return {"rows": len(rows), **_corpus_scorer()(rows, domains or default_domains(), track, with_peers)}


def _corpus_scorer() -> Callable[..., JsonObject]:
    for point in metadata.entry_points(group=SCORERS):
        try:
            scorer: Callable[..., JsonObject] = point.load()
        except ModuleNotFoundError as error:
            if error.name is None or not point.value.startswith(error.name):
                raise
        else:
            return scorer
    raise InputError(
        "compare holds a corpus against the truth by the benchmarks: install them, pip install -e . in a checkout"
    )

"""Build a function from a schedule and its bounds: parameters, sizes, assertions that bind shapes, and the nest."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.itervar import IterVar
from bound.schedule import Schedule, Stage
from bound.tensor import PlaceholderOp, ScanOp, Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Value
from intset.context import Context
from intset.errors import InputError
from intset.expr import Expr, ShapeVar, Var, arguments, const, dag, shown
from intset.expr.definedness import asserted_parts
from intset.trace import passed
from lowering.build.pipeline import data_checks, refuse_outside, schedule_ops, size_asserts, tile_asserts
from lowering.nest import ir
from lowering.nest.walk import free_variables, statements, substitute
from lowering.passes import drop_dead, follow_guards, name_minima
from lowering.passes.stores.placement import rebase_plain


def parameters(schedule: Schedule, args: Sequence[object] | None) -> tuple[tuple[Tensor, ...], tuple[Parameter, ...]]:
    """Parameters of the function, tensors and scalars, in the order of `args`; by default all inputs, then all outputs.

    An intermediate tensor among them is kept; an output that is missing is allocated inside.

    Raises
    ------
    InputError: an argument is neither tensor nor variable, or a tensor is given twice.
    ScheduleError: an input is missing, or an argument is no tensor of the schedule.
    """
    states = {t for stage in schedule.stages for t in getattr(stage.op, "state_placeholder", ())}
    given = [stage.op for stage in schedule.stages if isinstance(stage.op, PlaceholderOp)]
    read = [t for op in given for t in op.outputs if t not in states]
    computed = [t for op in schedule.outputs for t in op.outputs]
    if args is None:
        return tuple(dict.fromkeys((*read, *computed))), ()
    tensors: dict[Tensor, None] = {}
    scalars: list[Parameter] = []
    for k, arg in enumerate(arguments.listed(args, "the arguments of lower", "a list of tensors and variables")):
        if isinstance(arg, Tensor):
            current = schedule.current(arg) if arg in schedule else arg
            if current in tensors:
                raise InputError(f"argument {k} of lower is {arg.name}, which is among the arguments before it")
            tensors[current] = None
        elif isinstance(arg, (Var, Value)):
            scalars.append(arg)
        else:
            raise InputError(f"argument {k} of lower must be a tensor or a variable, not {shown(arg)}")
    missing = [t.name for t in read if t not in tensors]
    if missing:
        raise ScheduleError(f"{missing[0]} must be among the arguments: it is an input of the schedule")
    for tensor in tensors:
        stage = schedule.stage_map.get(tensor.op)
        if stage is None and not isinstance(tensor.op, PlaceholderOp):
            raise ScheduleError(f"{tensor.name} cannot be an argument: no output of the schedule needs it")
    return tuple(tensors), tuple(scalars)


def computed_among(schedule: Schedule, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The parameters that the function computes: outputs of the schedule first, then intermediates that are kept.

    A tensor that is inlined is not computed: nothing stores it.
    """
    kept = list(tensors)
    wanted = [t for op in schedule.outputs for t in op.outputs if t in kept]
    made = [t for t in kept if not isinstance(t.op, PlaceholderOp)]
    stored = [t for t in made if not schedule.stage_map[t.op].is_inlined]
    return tuple(dict.fromkeys((*wanted, *stored)))


def kept_among(schedule: Schedule, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The intermediate tensors among the parameters of a function, which it computes for its caller."""
    outputs = {t for op in schedule.outputs for t in op.outputs}
    return tuple(t for t in computed_among(schedule, tensors) if t not in outputs)


def _refuse_parts(b: BoundsMap, kept: Iterable[Tensor]) -> None:
    """Refuse an intermediate argument of which the nest computes a part: its caller reads all of it."""
    for tensor in kept:
        if b.computes_whole(tensor):
            continue
        path = b.attach_path(tensor.op)
        if path:
            at, loop = path[0]
            raise ScheduleError(
                f"{tensor.name} cannot be an argument: it is computed inside {loop.name} of {at.name}, as far as one "
                "iteration needs it, which is not proved to be all of it; compute it at the root (compute_root), or "
                "leave it out of the arguments"
            )
        raise ScheduleError(
            f"{tensor.name} cannot be an argument: the bounds were inferred for what its consumers read, which is not "
            f"proved to be all of it; infer them with whole=[{tensor.name}]"
        )


def _refuse_steps(schedule: Schedule) -> None:
    """Refuse an output that reads a state of a scan: each step would compute all of it, also from later rows."""
    scans = [stage.op for stage in schedule.stages if isinstance(stage.op, ScanOp)]
    inside = {state: scan for scan in scans for state in scan.state_placeholder}
    for stage in schedule.stages:
        scan = next((inside[t] for t in stage.op.input_tensors if t in inside), None)
        if scan is not None and stage.op is not scan:
            inside |= dict.fromkeys(stage.op.outputs, scan)
    for op in schedule.outputs:
        scan = inside.get(op.outputs[0])
        if scan is not None:
            raise ScheduleError(
                f"{op.name} cannot be an output: a step of the scan {scan.name} computes it, as far as that step needs "
                "it; make outputs of what reads the results of the scan"
            )


def shape_asserts(
    f: ir.Function, at: Mapping[Var, int], sizes: Iterable[Var] = (), shapes: dict[Tensor, ir.ShapeOf] | None = None
) -> list[ir.Assert]:
    """Assertions that bind array shapes: size declarations, and equations for all other extents.

    The first extent that is a plain size binds it. Sizes are at least 0; a `ShapeVar` and facts embedded in an extent
    add further assertions.

    Parameters
    ----------
    at: fixed sizes.
    sizes: variables that bounds inference assumed nonnegative because a shape mentions them. Variables with a range in
        the user's context are exempt.
    shapes: a cache of array extents, common to all nests of the schedule.
    """
    checks: list[ir.Assert] = []
    bound: set[Var] = set()
    shapes = {} if shapes is None else shapes
    for tensor in f.params:
        shape = shapes.setdefault(tensor, ir.ShapeOf(tensor))
        for k, extent in enumerate(tensor.extents):
            if isinstance(extent, Var) and extent not in bound:
                bound.add(extent)
                checks += _declared(extent)
            elif not extent.is_const:
                plain = dag.without_assertions(extent)
                what = f"extent {k} of {tensor.name} is {plain}"
                checks.append(ir.Assert(shape[k].eq(plain), what))
    counted = {var for var in sizes if var not in f.ctx.ranges}
    for size in f.sizes:
        if size not in bound:
            checks += _declared(size) if isinstance(size, ShapeVar) or size in counted else []
    claims = asserted_parts([extent for tensor in f.params for extent in tensor.extents])
    checks += [ir.Assert(claim, f"{claim}") for claim in claims if claim not in {c.cond for c in checks}]
    checks += [ir.Assert(var.eq(value), f"{var.name} is {shown(value)}") for var, value in at.items() if var in f.sizes]
    return checks


def _declared(var: Var) -> Iterator[ir.Assert]:
    low, high, step = var.declared()
    floor = 0 if low is None and not isinstance(var, ShapeVar) else low
    if floor is not None:
        yield ir.Assert(var >= floor, f"{var.name} is at least {floor}")
    if high is not None:
        yield ir.Assert(var <= high, f"{var.name} is at most {high}")
    if step != 1:
        yield ir.Assert((var % const(step)).eq(0), f"{var.name} is a multiple of {step}")


def sizes_of(tensors: Iterable[Tensor], body: ir.Stmt) -> tuple[tuple[Var, ...], tuple[Value, ...]]:
    """Free integer variables and scalar parameters of a function; those in shapes first, in order of occurrence."""
    in_shapes = dag.free_vars(*(extent for tensor in tensors for extent in tensor.extents))
    found = dict.fromkeys((*in_shapes, *free_variables(body)))
    return tuple(v for v in found if isinstance(v, Var)), tuple(v for v in found if isinstance(v, Value))


@dataclass(frozen=True)
class FunctionBuilder:
    """Builds functions of one schedule from its bounds. The attributes are parameters of `lower`."""

    args: Sequence[Any] | None = None
    ctx: Context | None = None
    name: str | None = None
    unsafe: bool = False
    _shapes: dict[Tensor, ir.ShapeOf] = field(default_factory=dict, init=False)  # common to all nests
    _minima: dict[tuple[str, Expr], Var] = field(default_factory=dict, init=False)  # as well

    @cached_property
    def _known(self) -> Context:
        """The root context, common to all nests of the schedule so that they share cached answers."""
        return Context() if self.ctx is None else self.ctx.extended()

    def guarded(self, b: BoundsMap, split: Collection[Stage] = ()) -> ir.Function:
        """The function with guards and unlowered divisions; stages of `split` have a nest per piece of their region."""
        f = passed(nest_of, b, self.args, self._known, self.name, split, self.unsafe)
        fixed = {var: b.sizes[var] for var in f.sizes if var in b.sizes}  # the nest is right for these values only
        asserted = shape_asserts(f, fixed, b.size_variables, self._shapes)
        body = ir.seq(*asserted, substitute(f.body, {v: const(k) for v, k in fixed.items()}))
        return passed(rebase_plain, passed(name_minima, f.with_body(body), self._minima))


def with_ends(f: ir.Function, kept: Collection[Var]) -> ir.Function:
    """Turn the guards of a function into loop ends, except for the loops `kept` that a number bounds."""
    counted = {v for v in kept if not (isinstance(v, IterVar) and v.ends_with_data)}
    return passed(drop_dead, passed(follow_guards, f, counted))


def without_ends(f: ir.Function) -> ir.Function:
    """Keep all guards of a function but those that end loops with data, and drop dead code."""
    loops = [stmt.var for stmt in statements(f.body) if isinstance(stmt, ir.For)]
    is_counted = not any(isinstance(v, IterVar) and v.ends_with_data for v in loops)
    return passed(drop_dead, f) if is_counted else with_ends(f, loops)


def nest_of(
    b: BoundsMap,
    args: Sequence[Any] | None = None,
    ctx: Context | None = None,
    name: str | None = None,
    split: Collection[Stage] = (),
    unsafe: bool = False,
) -> ir.Function:
    """The nest before any pass: ScheduleOps, in tensor coordinates, with unlowered divisions."""
    tensors, scalars = parameters(b.schedule, args)
    outputs = computed_among(b.schedule, tensors)
    _refuse_parts(b, kept_among(b.schedule, tensors))
    _refuse_steps(b.schedule)
    known = Context() if ctx is None else ctx
    outside = () if unsafe else b.outside
    refuse_outside(outside)
    asserted = [*tile_asserts(b.tiles, b.equations), *size_asserts(outside, known)]
    body = ir.seq(*asserted, schedule_ops(b, frozenset(tensors), split, data_checks(outside)))
    sizes, params = sizes_of(tensors, body)
    sizes = tuple(dict.fromkeys((*(v for v in scalars if isinstance(v, Var)), *sizes)))
    params = tuple(dict.fromkeys((*(v for v in scalars if not isinstance(v, Var)), *params)))
    label = name or (outputs[0].name if outputs else "empty")
    return ir.Function(label, tensors, outputs, sizes, params, body, known, _labels(b.schedule, tensors))


def _labels(schedule: Schedule, tensors: Sequence[Tensor]) -> dict[Any, Tensor]:
    """Map tensors of the script, and their names, to the parameters that replaced them in the rewritten schedule."""
    labels: dict[Any, Tensor] = {}
    for op, stage in schedule.stage_map.items():
        for old in (*op.outputs, *(stage.origin_op.outputs if stage.origin_op is not None else ())):
            new = stage.op.outputs[old.value_index] if old.value_index < stage.op.num_outputs else None
            if new in tensors and new is not None:
                labels[old] = new
                labels.setdefault(old.name, new)
    return labels

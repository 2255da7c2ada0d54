"""Parameters of a lowered function, its sizes, and the assertions that bind the shapes of its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from bound.errors import ScheduleError
from bound.operation import PlaceholderOp
from bound.schedule import Schedule
from bound.tensor import Tensor
from bound.tir.reduce import Parameter
from bound.tir.value import Value
from intset.errors import InputError
from intset.expr.arguments import listed
from intset.expr.definedness import asserted_parts
from intset.expr.node import Cond, ShapeVar, Var, const
from intset.expr.text import shown
from intset.expr.walk import without_assertions
from lowering.nest.ir import Assert, Function, ShapeOf, Stmt
from lowering.nest.walk import free_variables


def parameters(schedule: Schedule, args: Sequence[object] | None) -> tuple[tuple[Tensor, ...], tuple[Parameter, ...]]:
    """The tensors and scalars to pass, in the order of `args`; without `args`, what is read and then what is asked for.

    Raises
    ------
    InputError: an argument is no tensor and no variable.
    ScheduleError: a tensor is computed on the way, or one that is needed is not among the arguments.
    """
    states = {t for stage in schedule.stages for t in getattr(stage.op, "state_placeholder", ())}
    given = [stage.op for stage in schedule.stages if isinstance(stage.op, PlaceholderOp)]
    read = [t for op in given for t in op.outputs if t not in states]
    computed = [t for op in schedule.outputs for t in op.outputs]
    if args is None:
        return tuple(dict.fromkeys((*read, *computed))), ()
    tensors: dict[Tensor, None] = {}
    scalars: list[Parameter] = []
    for k, arg in enumerate(listed(args, "the arguments of lower", "a list of tensors and variables")):
        if isinstance(arg, Tensor):
            tensors[_current(schedule, arg)] = None
        elif isinstance(arg, (Var, Value)):
            scalars.append(arg)
        else:
            raise InputError(f"argument {k} of lower must be a tensor or a variable, not {shown(arg)}")
    missing = [t.name for t in (*read, *computed) if t not in tensors]
    if missing:
        role = _role(missing[0], read)
        raise ScheduleError(f"{missing[0]} must be among the arguments: it is {role} of the schedule")
    known = {*read, *computed}
    for tensor in tensors:
        if tensor not in known and not isinstance(tensor.op, PlaceholderOp):
            raise ScheduleError(f"{tensor.name} cannot be an argument: the schedule was not asked for it")
    return tuple(tensors), tuple(scalars)


def _role(name: str, read: Iterable[Tensor]) -> str:
    return "an input" if any(t.name == name for t in read) else "an output"


def _current(schedule: Schedule, tensor: Tensor) -> Tensor:
    return schedule.current(tensor) if tensor in schedule else tensor


def shape_asserts(f: Function, at: Mapping[Var, int], sizes: Iterable[Var] = ()) -> list[Assert]:
    """The assertions that bind the shapes of `f`'s arrays: for every size what it declares, for every other extent that
    the array has it.

    A size is bound by the first extent that it is. It is at least 0; a `ShapeVar` says more, and so does an extent
    with facts embedded in it.

    Parameters
    ----------
    at: the sizes that are fixed.
    sizes: what the analysis took to be at least 0 because it occurs in a shape, perhaps of a tensor that is no
        parameter, or in an extent such as `n * m + 1` only. Of a variable to which the user's context gives a range, it
        took that.
    """
    checks: list[Assert] = []
    bound: set[Var] = set()
    for tensor in f.params:
        shape = ShapeOf(tensor)
        for k, extent in enumerate(tensor.extents):
            if isinstance(extent, Var) and extent not in bound:
                bound.add(extent)
                checks += _declared(extent)
            elif not extent.is_const:
                plain = without_assertions(extent)
                what = f"extent {k} of {tensor.name} is {plain}"
                checks.append(Assert(shape[k].eq(plain), what))
    counted = {var for var in sizes if var not in f.ctx.ranges}
    for size in f.sizes:
        if size not in bound:
            checks += _declared(size) if isinstance(size, ShapeVar) or size in counted else []
    extents = [extent for tensor in f.params for extent in tensor.extents]
    claims = asserted_parts(extents)
    checks += [Assert(claim, f"{claim}") for claim in claims if claim not in {c.cond for c in checks}]
    checks += [Assert(var.eq(value), f"{var.name} is {shown(value)}") for var, value in at.items() if var in f.sizes]
    return checks


def _declared(var: Var) -> list[Assert]:
    low, high, step = var.declared()
    checks: list[tuple[Cond, str]] = []
    floor = 0 if low is None and not isinstance(var, ShapeVar) else low
    if floor is not None:
        checks.append((var >= floor, f"{var.name} is at least {floor}"))
    if high is not None:
        checks.append((var <= high, f"{var.name} is at most {high}"))
    if step != 1:
        checks.append(((var % const(step)).eq(0), f"{var.name} is a multiple of {step}"))
    return [Assert(cond, message) for cond, message in checks]


def sizes_of(tensors: Iterable[Tensor], body: Stmt) -> tuple[tuple[Var, ...], tuple[Value, ...]]:
    """Integer variables and scalar parameters that a function needs: those in shapes first, in their order."""
    found: dict[Parameter, None] = {}
    for tensor in tensors:
        for extent in tensor.extents:
            found.update(dict.fromkeys(extent.free_vars(), None))
    found.update(dict.fromkeys(free_variables(body)))
    return tuple(v for v in found if isinstance(v, Var)), tuple(v for v in found if isinstance(v, Value))

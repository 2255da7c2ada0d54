"""`lower`: a schedule as a loop nest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.context import Context
from intset.errors import InputError
from intset.expr.node import Var, const
from lowering.build import schedule_ops
from lowering.build.arguments import parameters, shape_asserts, sizes_of
from lowering.build.checks import data_checks, refuse_outside, size_asserts
from lowering.build.pieces import NESTS
from lowering.forms import COMPUTE, chosen
from lowering.nest.ir import Function, seq
from lowering.nest.walk import substitute
from lowering.passes import (
    decide_rows,
    drop_dead,
    follow_guards,
    lower_divisions,
    name_choices,
    name_minima,
    name_values,
    narrow,
    rebase,
    strength_reduce,
    unique_names,
)
from lowering.passes.races import races
from lowering.passes.simplify import plain


def lower(
    s: Schedule,
    args: Sequence[Any] | None = None,
    bounds: BoundsMap | None = None,
    ctx: Context | None = None,
    at: Mapping[Any, int] | None = None,
    name: str | None = None,
    strength: bool = False,
    compact: bool | None = None,
    nests: str = "auto",
    unsafe: bool = False,
    compute: str | None = None,
    reassociate: bool = False,
) -> Function:
    """The loop nest of a schedule.

    Parameters
    ----------
    s: the schedule.
    args: the parameters, tensors and variables, in the order of the result's; by default all inputs, then all outputs.
    bounds: what `infer_bound` gave for `s`; inferred when it is not given.
    ctx: what is known besides what the shapes declare; assumed, not checked.
    at: sizes that are fixed, by variable or name, as in `infer_bound`; with `bounds`, those it was found at. The
        function asserts them.
    name: the name of the function; by default that of the first output.
    strength: whether loops carry quotients and remainders instead of dividing.
    compact: whether strides are folded out of the allocations (`bound.infer.storage`); by default no, or with `bounds`
        as they were found.
    nests: what becomes of a stage whose region is no box: "guard", one nest with a guard; "split", a nest for each
        piece of the region, as far as there are such; "auto", the cheaper of both (`lowering.build.pieces`). Unless it
        is "guard", what a guard says of one loop is the end of that loop (`lowering.passes.follow`).
    unsafe: whether accesses that may be outside their tensors (`bounds.outside`) are left as they are, unchecked.
    compute: without `bounds`, what a stage computes: "exact" or "box", as in `infer_bound`; "auto", which is the
        default unless `nests` says more, what is cheaper by the model of `lowering.forms`. `f.forms` of the result says
        what was considered.
    reassociate: whether floats may be combined in another order than written, which rounds otherwise: in C, the
        innermost loops of reductions run on vectors. The interpreter keeps the order.

    The function begins with the assertions that bind the shapes of its arrays, and those on sizes without which an
    access would be outside its tensor; what they say is known below them. An access that data may take outside is
    checked before it is made. In the nest, indices of allocated tensors count from the start of their storage,
    divisions are machine operations.

    Raises
    ------
    InputError: an argument is no tensor or variable, or `at` names something that is no size, or both `at` and `bounds`
        are given, or `compact` contradicts `bounds`, or `nests` or `compute` is none of its words.
    ScheduleError: the schedule is not legal, or an argument is missing, or two iterations of a parallel loop touch one
        element and one of them stores it (`lowering.passes.races`; what data decides is the user's word).
    AccessError: an access is outside its tensor whenever it happens, whatever the sizes; not with `unsafe`.

    Example
    -------
    >>> from bound import te
    >>> A = te.placeholder((20,), name="A")
    >>> B = te.compute((20,), lambda i: A[i] + 1, name="B")
    >>> C = te.compute((18,), lambda i: B[i] + B[i + 2], name="C")
    >>> s = te.create_schedule(C.op)
    >>> xo, xi = s[C].split(C.op.axis[0], 6)
    >>> s[B].compute_at(s[C], xo)
    >>> print(lower(s, [A, C]))
    def C(A: float32[20], C: float32[18]):
        for i.outer in [0, 3):
            allocate B: float32[8] at [i.outer * 6]
            for i in [0, 8):
                B[i] = A[i.outer * 6 + i] + 1.0
            for i.inner in [0, 6):
                C[i.outer * 6 + i.inner] = B[i.inner] + B[i.inner + 2]
    """
    f, bits = before_divisions(s, args, bounds, ctx, at, name, compact, nests, unsafe, compute)
    if strength:
        f = drop_dead(strength_reduce(f, bits))
    f = unique_names(name_values(decide_rows(name_choices(lower_divisions(f, bits)))))
    return replace(f, reassociate=bool(reassociate))


def before_divisions(
    s: Schedule,
    args: Sequence[Any] | None = None,
    bounds: BoundsMap | None = None,
    ctx: Context | None = None,
    at: Mapping[Any, int] | None = None,
    name: str | None = None,
    compact: bool | None = None,
    nests: str = "auto",
    unsafe: bool = False,
    compute: str | None = None,
) -> tuple[Function, int]:
    """What `lower` makes of a schedule before it lowers divisions, and the width of its indices.

    Parameters and errors are those of `lower`.
    """
    if not isinstance(s, Schedule):
        raise InputError(f"lower needs a schedule, not {s!r}")
    if bounds is not None and at is not None:
        raise InputError("lower takes sizes by at= or bounds= that were found at them, not both")
    if nests not in NESTS:
        raise InputError(f"nests must be one of {', '.join(NESTS)}, not {nests!r}")
    if bounds is not None and compact is not None and compact != bounds.compact:
        raise InputError(f"lower takes compact={compact}, but the bounds were found with compact={bounds.compact}")
    if compute is not None and compute not in COMPUTE:
        raise InputError(f"compute must be one of {', '.join(COMPUTE)}, not {compute!r}")
    if bounds is not None and compute not in (None, bounds.compute):
        raise InputError(f"lower takes compute={compute!r}, but the bounds were found with compute={bounds.compute!r}")

    def build(b: BoundsMap) -> Function:
        return _built(b, s, args, ctx, name, nests, unsafe)

    if bounds is None and (compute == "auto" or (compute is None and nests == "auto")):
        _, f, forms = chosen(s, ctx, at, bool(compact), build)
        f = replace(f, forms=forms)
    else:
        f = build(
            infer_bound(s, ctx=ctx, at=at, compact=bool(compact), compute=compute or "exact")
            if bounds is None
            else bounds
        )
    _refuse_races(f, s)
    return f, narrow(f).bits


def _refuse_races(f: Function, s: Schedule) -> None:
    for race in races(f):
        owner = next((stage.name for stage in s.stages if race.loop.var in stage.leaf_iter_vars), race.tensor.name)
        where = race.tensor.name + ("" if race.element is None else f"[{', '.join(map(str, race.element))}]")
        which = "two" if race.iterations is None else f"{race.iterations[0]} and {race.iterations[1]}"
        raise ScheduleError(
            f"stage {owner}: iterations of {race.loop.var.name} run in parallel, but {which} of them touch "
            f"{'an element of ' if race.element is None else ''}{where}, and one stores it"
        )


def _built(
    b: BoundsMap,
    s: Schedule,
    args: Sequence[Any] | None,
    ctx: Context | None,
    name: str | None,
    nests: str,
    unsafe: bool,
) -> Function:
    """The nest for bounds, before divisions are lowered."""
    f = nest_of(b, s, args, ctx, name, nests, unsafe)
    fixed = _fixed(f, b)
    f = f.with_body(
        seq(*shape_asserts(f, fixed, b.size_variables), substitute(f.body, {v: const(k) for v, k in fixed.items()}))
    )
    f = plain(name_minima(f))
    return drop_dead(rebase(f if nests == "guard" else follow_guards(f)))


def nest_of(
    b: BoundsMap,
    s: Schedule,
    args: Sequence[Any] | None = None,
    ctx: Context | None = None,
    name: str | None = None,
    nests: str = "auto",
    unsafe: bool = False,
) -> Function:
    """The nest before any pass: ScheduleOps, in coordinates of the tensors, with divisions as they were written."""
    tensors, scalars = parameters(b.schedule, args)
    outputs = tuple(t for op in b.schedule.outputs for t in op.outputs)
    known = Context() if ctx is None else ctx
    outside = () if unsafe else b.outside
    refuse_outside(outside)
    asserted = size_asserts(outside, known)
    body = seq(*asserted, schedule_ops(b, frozenset(tensors), nests, data_checks(outside)))
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


def _fixed(f: Function, b: BoundsMap) -> dict[Var, int]:
    """The sizes for which the bounds were found: the nest is right for these values only."""
    return {var: b.sizes[var] for var in f.sizes if var in b.sizes}

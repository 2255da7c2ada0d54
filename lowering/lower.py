"""`lower`: a schedule as a loop nest; `annotate_shapes` for lowered functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex, overload

from bound import declare as below
from bound import infer_bound
from bound.declare import Annotated
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.infer.accesses import loads
from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.tensor import PlaceholderOp, Tensor
from bound.tir.value import Operand
from intset.config import current, pinned
from intset.context import Context
from intset.errors import InputError
from intset.expr import Cond, Expr, Var, arguments, as_expr, dag, shown
from intset.expr.definedness import size_claims
from intset.spaces.space import VarKey
from intset.trace import passed, traced
from lowering import passes
from lowering.build.function import FunctionBuilder, kept_among, parameters
from lowering.forms import COMPUTE, NESTS, chosen
from lowering.nest import ir
from lowering.nest.walk import statements
from lowering.passes.definedness import with_total_ends
from lowering.passes.loops.fusion import races
from lowering.passes.loops.tightening import decide_multiples
from lowering.passes.simplify import drop_single_iterations, fold_constants
from lowering.passes.stores.dead_code import drop_empty, drop_identities
from lowering.passes.values.cse import inline_values
from lowering.passes.values.divisions import may_divide


@traced("lower", lambda s, *_, **__: s)
def lower(
    s: Schedule,
    args: Sequence[Tensor | Operand] | None = None,
    bounds: BoundsMap | None = None,
    ctx: Context | None = None,
    at: Mapping[VarKey, SupportsIndex] | None = None,
    name: str | None = None,
    strength: bool = False,
    compact: bool | None = None,
    nests: str = "auto",
    unsafe: bool = False,
    compute: str | None = None,
    reassociate: bool = False,
) -> ir.Function:
    """The loop nest of a schedule.

    Parameters
    ----------
    s: the schedule.
    args: the parameters, tensors and variables, in the order of the result's; by default all inputs, then all outputs.
        An intermediate tensor among them is computed whole, whatever its consumers read, also where they are empty. A
        tensor computed inside a loop of its consumer is refused unless the consumer provably reads all of it. The array
        of an inlined tensor is left unchanged.
    bounds: what `infer_bound` gave for `s`; inferred when it is not given.
    ctx: what is known besides what the shapes declare; assumed, not checked.
    at: values of sizes, by variable or name, as in `infer_bound`; not together with `bounds`, which has its own. The
        function asserts them.
    name: the name of the function; by default that of the first output.
    strength: whether loops carry quotients and remainders instead of dividing.
    compact: whether allocations omit strides (`bound.infer.answers.storage`). By default `bounds.compact` if `bounds`
        is given; else the cheaper choice under compute="auto", and `False` otherwise.
    nests: the form of nests for ragged tiles and for regions other than boxes. "guard": one nest with guards. "ends":
        loop ends replace guards where possible. "split": one nest for each piece of the region; "ends" for a region
        without pieces. "partition": partitioned loops, whose interior needs no guard. "auto": the cheapest form for
        each stage by the model of `lowering.forms`.
    unsafe: whether accesses possibly outside their tensors (`bounds.outside`) stay unchecked.
    compute: the elements computed by a stage, without `bounds`: "exact" or "box", as in `infer_bound`, or "auto", the
        cheaper one by the same model. The default is "auto" if `nests` is "auto", else "exact". `f.forms` of the result
        lists the forms considered for each stage, with expected costs.
    reassociate: whether floats may be combined in another order than written, which rounds otherwise: in C, the
        innermost loops of reductions run on vectors. The interpreter keeps the order.

    The function begins with the assertions that bind the shapes of its arrays, and those on sizes without which an
    access would be outside its tensor; the body may rely on them. A check precedes every access whose data-dependent
    index may leave its tensor. In the nest, indices of allocated tensors count from the start of their storage,
    divisions are machine operations.

    Raises
    ------
    InputError: an argument is neither tensor nor variable; `at` names an unknown size; both `at` and `bounds` are
        given; `compact` or `compute` contradicts `bounds`; `nests` or `compute` is an unknown word.
    ScheduleError: the schedule is not legal, or an argument is missing, or only part of an argument would be computed
        (with `bounds`, infer them with `whole=`), or two iterations of a parallel loop touch one
        element and one of them stores it (`lowering.passes.loops.fusion`; what data decides is the user's word).
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
    if arguments.a_flag(strength, "strength"):
        f = passed(passes.drop_dead, passed(passes.strength_reduce, f, bits))
    f = passed(passes.lower_divisions, f, bits)
    for tidy in (passes.name_choices, passes.decide_rows, passes.name_values):
        f = passed(tidy, f)
    if any(isinstance(stmt, ir.Let) for stmt in statements(f.body)):
        f = passed(fold_constants, passed(inline_values, f, 1))  # what has a name needs no other; some are constants
        f = passed(passes.name_ends, f)
    f = passed(passes.unique_names, f)
    return replace(f, reassociate=arguments.a_flag(reassociate, "reassociate"))


def before_divisions(
    s: Schedule,
    args: Sequence[Tensor | Operand] | None = None,
    bounds: BoundsMap | None = None,
    ctx: Context | None = None,
    at: Mapping[VarKey, SupportsIndex] | None = None,
    name: str | None = None,
    compact: bool | None = None,
    nests: str = "auto",
    unsafe: bool = False,
    compute: str | None = None,
) -> tuple[ir.Function, int]:
    """The nest of a schedule before its divisions are lowered, and the width of indices there.

    A nest without divisions needs no width, and 64 is returned.

    Parameters and errors are those of `lower`.
    """
    if not isinstance(s, Schedule):
        raise InputError(f"lower needs a schedule, not {shown(s)}")
    if bounds is not None:
        arguments.of_kind(BoundsMap, bounds, "bounds", "what infer_bound gave")
    if name is not None:
        arguments.a_name(name, "the name of a function")
    if bounds is not None and at is not None:
        raise InputError("lower takes sizes by at= or bounds= that were found at them, not both")
    arguments.one_of(NESTS, nests, "nests")
    is_compact = compact is not None and arguments.a_flag(compact, "compact")
    if bounds is not None and compact is not None and is_compact != bounds.compact:
        raise InputError(f"lower takes compact={compact}, but the bounds were found with compact={bounds.compact}")
    if compute is not None:
        arguments.one_of(COMPUTE, compute, "compute")
    if bounds is not None and compute not in (None, bounds.compute):
        raise InputError(f"lower takes compute={compute!r}, but the bounds were found with compute={bounds.compute!r}")

    ctx = Context() if ctx is None else ctx  # one root for bounds and nests
    word = bounds.compute if bounds is not None else compute or ("auto" if nests == "auto" else "exact")
    kept = () if bounds is not None else kept_among(s, parameters(s, args)[0])

    def infer(form: str | Mapping[Any, str]) -> BoundsMap:
        if bounds is not None:
            return bounds
        return infer_bound(s, ctx=ctx, at=at, compact=is_compact, compute=form, whole=kept)

    with pinned(current()):  # hot: each question about bounds looks for the configuration
        made = passed(
            chosen,
            s,
            FunctionBuilder(args, ctx, name, arguments.a_flag(unsafe, "unsafe")),
            infer,
            "exact" if bounds is not None else word,
            nests,
            bounds is not None or compact is not None,
        )
    f = passed(drop_single_iterations, passed(with_total_ends, passed(decide_multiples, made.function)))
    passed(_refuse_races, f, s)
    passed(_refuse_endless, f, s)
    bits = passed(passes.narrow, f).bits if made.partitioned is not None or may_divide(f) else 64
    if made.partitioned is not None:
        partitioned = drop_identities(drop_empty(made.partitioned))
        partitioned = fold_constants(inline_values(partitioned, 1))  # some names are constants in a piece
        partitioned = with_total_ends(decide_multiples(partitioned))
        f = partitioned if passes.narrow(partitioned).bits == bits else f
    return f, bits


def arguments_of(schedule: Schedule) -> list[Tensor]:
    """The arguments of the lowered function: placeholders, then outputs."""
    placeholders = [t for stage in schedule.stages if isinstance(stage.op, PlaceholderOp) for t in stage.op.outputs]
    return [*placeholders, *(t for op in schedule.outputs for t in op.outputs)]


def _refuse_endless(f: ir.Function, s: Schedule) -> None:
    """Refuse a loop over an axis that data ends if the loop itself does not end with the data."""
    for loop in statements(f.body):
        if isinstance(loop, ir.For) and isinstance(loop.var, IterVar) and loop.var.ends_with_data:
            extent = as_expr(loop.range.extent)
            if not dag.opaque_terms(extent) and not (extent.is_const and extent.data <= 0):
                raise ScheduleError(_endless(loop, s))


def _endless(loop: ir.For, s: Schedule) -> str:
    """The message for a loop that does not end with the data: the cause, and a schedule that does."""
    name, inside = loop.var.name, list(statements(loop.body))
    stores = [stmt.tensor.name for stmt in inside if isinstance(stmt, ir.Store)]
    owners = [stage.name for stage in s.stages if loop.var in stage.leaf_iter_vars]
    stage = next((owner for owner in [*owners, *stores]), name)
    whole = f"stage {stage}: data decides the extent of {name}, and a loop over it must end with the data; "
    if loop.kind is not ir.LoopKind.SERIAL and loop.kind is not ir.LoopKind.PARALLEL:
        what = f"bound to {loop.thread}" if loop.thread else f"{loop.kind}"
        return f"{whole}{name} is {what}: split it by a factor and take the inner axis instead"
    guards = [i.cond for i in inside if isinstance(i, ir.If) and isinstance(i.cond, Cond) and dag.opaque_terms(i.cond)]
    reads = list(loads(guards))
    chosen = {v for read in reads for index in read.indices for v in index.free_vars()}
    inner = [stmt.var.name for stmt in inside if isinstance(stmt, ir.For) and stmt.var in chosen]
    if loop.var in chosen:
        return f"{whole}{name} was fused with a loop that chooses the data: leave the two apart"
    if inner:
        return f"{whole}{inner[0]} chooses the data inside of {name}: reorder {inner[0]} in front of {name}"
    written = sorted({read.tensor.name for read in reads} & set(stores))
    if written:
        return f"{whole}{written[0]} is computed inside of {name}: compute it at a loop around {name}"
    others = sorted({tensor for tensor in stores if tensor != stage})
    if others:
        return f"{whole}{others[0]} is computed at {name}: compute it at a loop around {name}"
    return f"{whole}no guard of {name} says so: leave its loop as it is, or lower with nests='auto'"


def _refuse_races(f: ir.Function, s: Schedule) -> None:
    for race in races(f):
        owner = next((stage.name for stage in s.stages if race.loop.var in stage.leaf_iter_vars), race.tensor.name)
        where = race.tensor.name + ("" if race.element is None else f"[{', '.join(map(str, race.element))}]")
        which = "two" if race.iterations is None else f"{race.iterations[0]} and {race.iterations[1]}"
        raise ScheduleError(
            f"stage {owner}: iterations of {race.loop.var.name} run in parallel, but {which} of them touch "
            f"{'an element of ' if race.element is None else ''}{where}, and one stores it"
        )


@overload
def annotate_shapes(x: ir.Function, shapes: object = None) -> ir.Function: ...
@overload
def annotate_shapes(x: Tensor, shapes: object) -> Operand: ...
@overload
def annotate_shapes(x: Annotated, shapes: object) -> Annotated: ...
@overload
def annotate_shapes(x: list[Operand | Tensor], shapes: object) -> list[Operand]: ...
@overload
def annotate_shapes(x: tuple[Operand | Tensor, ...], shapes: object) -> tuple[Operand, ...]: ...
def annotate_shapes(x: object, shapes: object = None) -> object:
    """Extend `bound.declare.annotate_shapes` to lowered functions.

    Each missing fact about a size becomes an assertion before the body of the function.

    Parameters
    ----------
    x: a `Function`, or any argument of `bound.declare.annotate_shapes`.
    shapes: the size variables, as in `intset.annotate_shapes`; default for functions: the variables of array shapes.
    """
    if not isinstance(x, ir.Function):
        other: Any = x
        return below.annotate_shapes(other, shapes)
    sizes = _declared(x) if shapes is None else {}
    claims = size_claims([tensor.shape for tensor in x.params] if shapes is None else shapes) | sizes
    known = {stmt.cond for stmt in statements(x.body) if isinstance(stmt, ir.Assert)}
    stated = [cond for form in claims.values() if form.args for cond in dag.conjuncts(form.args[0])]
    checks: list[ir.Stmt] = [ir.Assert(cond, f"{cond}") for cond in stated if cond not in known]
    return x.with_body(ir.seq(*checks, x.body)) if checks else x


def _declared(f: ir.Function) -> dict[Var, Expr]:
    sizes = [var for var in f.sizes if var.declared() != (None, None, 1)]
    return size_claims({var: var for var in sizes})

"""ScheduleOps: the stages of a schedule put together, each inside the loop it is attached to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from bound.errors import ScheduleError
from bound.infer import BoundsMap, Nest, Storage
from bound.infer.program.graph import thread_of
from bound.intrin import TensorComputeOp
from bound.itervar import IterVar
from bound.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp
from bound.schedule import AttachType, Stage
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.buffer import Buffer
from bound.tir.calls import ExternCall
from bound.tir.value import Operand
from intset.expr.node import Expr
from lowering.build import formulas, stages
from lowering.build.checks import Checks, checked, with_checks
from lowering.build.fold import fold
from lowering.build.pieces import choose
from lowering.build.predicates import store_predicate
from lowering.build.scans import scan_nest
from lowering.build.stages import Attach
from lowering.nest.ir import Allocate, Evaluate, If, Seq, Stmt, seq
from lowering.nest.walk import Visit, drive, substitute, transform

_NOTHING: Final[Mapping[Any, Expr]] = {}
_UNCHECKED: Final[Checks] = {}


def schedule_ops(bounds: BoundsMap, given: frozenset[Tensor], nests: str = "auto", checks: Checks = _UNCHECKED) -> Stmt:
    """The nest of a whole schedule, in coordinates of the tensors.

    Parameters
    ----------
    bounds: of the schedule.
    given: the tensors whose storage is passed in; all others are allocated.
    nests: one of `lowering.build.pieces.NESTS`.
    checks: the accesses that are checked before they are made.

    Raises
    ------
    ScheduleError: the schedule has no sequential meaning, or calls something that is no call.
    """
    body = drive(_Pipeline(bounds, given, nests, checks).stages(bounds.roots(), Seq()))
    states = {
        state: output
        for stage in bounds.schedule.stages
        if isinstance(stage.op, ScanOp)
        for state, output in zip(stage.op.state_placeholder, stage.op.outputs, strict=True)
    }
    if not states:
        return body

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        return element(states[tensor], indices) if tensor in states else None

    return transform(body, lambda e: walk.rewrite(e, on_load=on_load))


class _Pipeline:
    def __init__(self, bounds: BoundsMap, given: frozenset[Tensor], nests: str, checks: Checks) -> None:
        self.bounds = bounds
        self.given = given
        self.nests = nests
        self.checks = checks
        live = [s.op for s in bounds.schedule.stages if s.attach_type is not AttachType.INLINED_ALREADY]
        read = {t for op in live for t in op.input_tensors}
        self.wanted = frozenset(read | set(given))
        leaves = ((s, iv) for s in bounds.schedule.stages for iv in s.leaf_iter_vars)
        self.has_threads = any(thread_of(stage, iv) is not None for stage, iv in leaves)

    def stages(self, run: Sequence[Stage], body: Stmt, moved: Mapping[Any, Expr] = _NOTHING) -> Visit[Stmt]:
        """The stages `run` with their storage, then `body`.

        `moved`: what stands for loops around the stages that `body` does not count any more.
        """
        parts: list[Stmt] = []
        folded: dict[Tensor, Storage] = {}
        for stage in run:
            if isinstance(stage.op, PlaceholderOp):
                continue
            made = [t for t in formulas.stored(stage.op, self.wanted) if t not in self.given]
            storages = {t: self.bounds.storage(t) for t in made}
            folded |= {t: storage.at(moved) for t, storage in storages.items() if storage.is_compact}
            parts += [Allocate(t, storage.ranges, stage.scope) for t, storage in storages.items()]
            parts.append((yield self.produce(stage)))
        return fold(seq(*(substitute(part, dict(moved)) for part in parts), body), folded)

    def produce(self, stage: Stage) -> Visit[Stmt]:
        """The loops of one stage with everything attached to them."""
        op = stage.op
        if isinstance(op, ExternOp):
            return _calls(op)
        if isinstance(op, ScanOp):
            made: Stmt = yield scan_nest(op, self.bounds.nest(stage), self.bounds, self._attach(stage, {}))
            return with_checks(made, op, self.checks, op.outputs)
        if not isinstance(op, (ComputeOp, TensorComputeOp)):
            raise ScheduleError(f"stage {stage.name}: {op!r} cannot be lowered")
        chosen = choose(self.bounds, stage, self.nests)
        if chosen is None:
            made = yield self._nest(stage, op, self.bounds.nest(stage), self._attach(stage, {}))
            return made
        parts = []
        for piece in chosen:
            parts.append((yield self._nest(stage, op, piece.nest, self._attach(stage, piece.moved))))  # noqa: PERF401
        return seq(*parts)

    def _attach(self, stage: Stage, moved: Mapping[Any, Expr]) -> Attach:
        """Puts the stages that are attached to a loop in front of its body."""

        def attach(var: IterVar, body: Stmt) -> Visit[Stmt]:
            inside = self.bounds.attached(stage, var)
            made: Stmt = (yield self.stages(inside, body, moved)) if inside else body
            return made

        return attach

    def _nest(self, stage: Stage, op: ComputeOp | TensorComputeOp, nest: Nest, attach: Attach) -> Visit[Stmt]:
        plain = checked(formulas.formula_of(op, formulas.stored(op, self.wanted)), op, self.checks)
        threads = self._threads(stage, nest)
        formula = formulas.substituted(plain, stages.values_in(nest, threads))
        levels = stages.levels_of(nest, formula, op.axis, op.reduce_axis)
        predicate = store_predicate(self.bounds, stage, nest, threads)
        if formula.init is None:
            body = formula.update if predicate is None else If(predicate, formula.update)
            made: Stmt = yield stages.data_nest(levels, nest.guards, body, attach)
            return made
        if predicate is not None:
            formula = replace(formula, init=If(predicate, formula.init), update=If(predicate, formula.update))
        made = yield stages.reduction_nest(
            levels, nest.data_guards, nest.reduce_guards, formula, attach, lambda var: self.bounds.attached(stage, var)
        )
        return made

    def _threads(self, stage: Stage, nest: Nest) -> dict[Any, Expr]:
        """The loop that stands for each thread axis: of the stage itself, else the nearest around it."""
        if not self.has_threads:
            return {}
        around = [(thread_of(outer, leaf), leaf) for outer, leaf in reversed(self.bounds.attach_path(stage))]
        own = [(loop.thread, loop.iv) for loop in nest.loops]
        return {thread: leaf for thread, leaf in (*around, *own) if thread is not None}


def _calls(op: ExternOp) -> Stmt:
    ins, outs = op.buffers
    tensors: dict[Any, Tensor] = dict(zip((*ins, *outs), (*op.inputs, *op.outputs), strict=True))
    bodies = op.body if isinstance(op.body, (tuple, list)) else (op.body,)
    made: list[Stmt] = []
    for call in bodies:
        if not isinstance(call, ExternCall):
            raise ScheduleError(f"stage {op.name}: its body is no call such as tir.call_packed(...), but {call!r}")
        args = tuple(tensors[a] if isinstance(a, Buffer) else a for a in call.args)
        made.append(Evaluate(ExternCall(call.kind, call.name, args), op.inputs, op.outputs))
    return seq(*made)

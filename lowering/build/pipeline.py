"""ScheduleOps: the stages of a schedule put together, each inside the loop it is attached to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageNest, Storage
from bound.itervar import IterVar
from bound.operation import ComputeOp, ExternOp, PlaceholderOp, ScanOp, TensorComputeOp
from bound.schedule import AttachType, Stage
from bound.tensor import Tensor, element
from bound.tir import walk
from bound.tir.calls import Buffer, ExternCall
from bound.tir.value import Operand
from intset.expr.node import Expr, Var
from intset.expr.text import shown
from lowering.build import formulas, stages
from lowering.build.checks import Checks, checked, with_checks
from lowering.build.double import doubled
from lowering.build.fold import fold
from lowering.build.formulas import Formula
from lowering.build.pieces import pieces_of
from lowering.build.predicates import store_predicate
from lowering.build.scans import scan_nest
from lowering.build.shared import Item, around, merged, ordered
from lowering.build.stages import Attach, Level, Starting
from lowering.nest.ir import Allocate, Evaluate, If, Seq, Stmt, seq
from lowering.nest.walk import Visit, drive, substitute, transform
from lowering.passes.alpha_renaming import with_own_storage

_NOTHING: Final[Mapping[Var, Expr]] = {}
_UNCHECKED: Final[Checks] = {}


def schedule_ops(
    bounds: BoundsMap, given: frozenset[Tensor], split: Collection[Stage] = (), checks: Checks = _UNCHECKED
) -> Stmt:
    """The nest of a whole schedule, in coordinates of the tensors.

    Parameters
    ----------
    bounds: of the schedule.
    given: the tensors whose storage is passed in; all others are allocated.
    split: the stages that become a nest for each piece of their region, where there are such.
    checks: the accesses that are checked before they are made.

    Raises
    ------
    ScheduleError: the schedule has no sequential meaning, or calls something that is no call.
    """
    pipeline = _Pipeline(bounds, given, split, checks)
    body = pipeline.kept(None, drive(pipeline.stages(bounds.roots(), Seq())), _NOTHING)
    body = doubled(body, frozenset(t for s in bounds.schedule.stages if s.double_buffered for t in s.op.outputs))
    states = {
        state: output
        for stage in bounds.schedule.stages
        if isinstance(stage.op, ScanOp)
        for state, output in zip(stage.op.state_placeholder, stage.op.outputs, strict=True)
    }
    body = with_own_storage(body)  # pieces of a stage, and both halves of a double buffer, hold what is attached to it
    if not states:
        return body

    def on_load(tensor: Tensor, indices: tuple[Expr, ...]) -> Operand | None:
        return element(states[tensor], indices) if tensor in states else None

    return transform(body, lambda e: walk.rewrite(e, on_load=on_load))


class _Pipeline:
    def __init__(self, bounds: BoundsMap, given: frozenset[Tensor], split: Collection[Stage], checks: Checks) -> None:
        self.bounds = bounds
        self.given = given
        self.split = split
        self.checks = checks
        live = [s.op for s in bounds.schedule.stages if s.attach_type is not AttachType.INLINED_ALREADY]
        read = {t for op in live for t in op.input_tensors}
        self.wanted = frozenset(read | set(given))
        leaves = ((s, iv) for s in bounds.schedule.stages for iv in s.leaf_iter_vars)
        self.numbers = {stage: k for k, stage in enumerate(bounds.schedule.stages)}
        self.has_threads = any(stage.thread_of(iv) is not None for stage, iv in leaves)

    def stages(self, run: Sequence[Stage], body: Stmt, moved: Mapping[Var, Expr] = _NOTHING) -> Visit[Stmt]:
        """The stages `run` with their storage, then `body`.

        `moved`: what stands for loops around the stages that `body` does not count any more.
        """
        paths = {stage: self.bounds.shared_path(stage) for stage in run}
        if any(paths.values()):
            together, _ = yield self._together(paths, run, moved)
            return seq(together, body)
        parts: list[Stmt] = []
        folded: dict[Tensor, Storage] = {}
        for stage in run:
            if isinstance(stage.op, PlaceholderOp):
                continue
            parts += [] if self.bounds.slid(stage) else self._storage(stage, folded, moved)
            parts.append((yield self.produce(stage)))
        return fold(seq(*(substitute(part, dict(moved)) for part in parts), body), folded)

    def _together(
        self, run: Mapping[Stage, Sequence[IterVar]], placed: Sequence[Stage], moved: Mapping[Var, Expr] = _NOTHING
    ) -> Visit[tuple[Stmt, dict[Stage, int]]]:
        """What a place holds where loops are shared, with the stages that do something in it.

        Parameters
        ----------
        run: the stages there, each with the shared loops that are still to come around its formula.
        placed: those of them that have their storage there.
        """
        items: list[Item] = []
        groups: dict[IterVar | Stage, dict[Stage, Sequence[IterVar]]] = {}
        for stage, path in run.items():
            if not isinstance(stage.op, PlaceholderOp):
                groups.setdefault(path[0] if path else stage, {})[stage] = path[1:]
        for key, members in groups.items():
            if isinstance(key, Stage):
                items.append(Item({key: self.numbers[key]}, (yield self.produce(key))))
                continue
            for stage in members:
                start = yield self._start(stage, key)
                if start is not None:
                    items.append(Item({stage: self.numbers[stage]}, start, starts=True))
            inner = self.bounds.inside(key)
            paths = {stage: self.bounds.shared_path(stage) for stage in inner}
            body, inside = yield self._together({**members, **paths}, inner)
            loop = stages.level_of(self.bounds.shared_loop(key))
            items.append(Item(inside, around(loop.around(self.kept(key, body, moved)))))
        done = {stage: number for item in items for stage, number in item.stages.items()}
        return self._with_storage(ordered(items), placed, moved), done

    def _with_storage(self, items: Sequence[Item], placed: Sequence[Stage], moved: Mapping[Var, Expr]) -> Stmt:
        """The items, behind the storage of the stages that have theirs here."""
        folded: dict[Tensor, Storage] = {}
        waiting = dict.fromkeys(placed)
        storage: list[Stmt] = []
        for item in items:
            for stage in [stage for stage in item.stages if stage in waiting]:
                del waiting[stage]
                storage += [] if self.bounds.slid(stage) else self._storage(stage, folded, moved)
        parts = [*storage, *(item.stmt for item in items)]
        return fold(seq(*(substitute(part, dict(moved)) for part in merged(parts))), folded)

    def _storage(self, stage: Stage, folded: dict[Tensor, Storage], moved: Mapping[Var, Expr]) -> list[Stmt]:
        """The allocations of a stage; what is compact is entered in `folded`."""
        made = [t for t in formulas.stored(stage.op, self.wanted) if t not in self.given]
        storages = {t: self.bounds.storage(t) for t in made}
        folded |= {t: storage.at(moved) for t, storage in storages.items() if storage.is_compact or storage.is_circular}
        return [Allocate(t, storage.ranges, stage.scope) for t, storage in storages.items()]

    def kept(self, leaf: IterVar | None, body: Stmt, moved: Mapping[Var, Expr]) -> Stmt:
        """What a loop (`None`: the root) holds, behind the storage of stages further in that is there."""
        run = self.bounds.stored(leaf)
        if not run:
            return body
        folded: dict[Tensor, Storage] = {}
        storage = [part for stage in run for part in self._storage(stage, folded, moved)]
        return fold(seq(*(substitute(part, dict(moved)) for part in storage), body), folded)

    def _start(self, stage: Stage, loop: IterVar) -> Visit[Stmt | None]:
        """What starts the reduction of a stage, if a shared loop is the first that it runs over."""
        op = stage.op
        if not isinstance(op, (ComputeOp, TensorComputeOp)):
            return None
        _, levels, start = self._formula(stage, op, self.bounds.nest(stage))
        if start is None or start.place == len(levels) or levels[start.place].var is not loop:
            return None
        made: Stmt = yield stages.start_nest(start)
        return made

    def produce(self, stage: Stage) -> Visit[Stmt]:
        """The loops of one stage with everything attached to them."""
        op = stage.op
        if isinstance(op, ExternOp):
            return _calls(op)
        if isinstance(op, ScanOp):
            made: Stmt = yield scan_nest(op, self.bounds.nest(stage), self.bounds, self._attach(stage, {}))
            return with_checks(made, op, self.checks, op.outputs)
        if not isinstance(op, (ComputeOp, TensorComputeOp)):
            raise ScheduleError(f"stage {stage.name}: {shown(op)} cannot be lowered")
        chosen = pieces_of(self.bounds, stage) if stage in self.split else None
        if chosen is None:
            made = yield self._nest(stage, op, self.bounds.nest(stage), self._attach(stage, {}))
            return made
        parts = []
        for piece in chosen:
            parts.append((yield self._nest(stage, op, piece.nest, self._attach(stage, piece.moved))))  # noqa: PERF401
        return seq(*parts)

    def _attach(self, stage: Stage, moved: Mapping[Var, Expr]) -> Attach:
        """Puts the stages that are attached to a loop in front of its body."""

        def attach(var: IterVar, body: Stmt) -> Visit[Stmt]:
            inside = self.bounds.attached(stage, var)
            made: Stmt = (yield self.stages(inside, body, moved)) if inside else body
            return self.kept(var, made, moved)

        return attach

    def _formula(
        self, stage: Stage, op: ComputeOp | TensorComputeOp, nest: StageNest
    ) -> tuple[Formula, list[Level], Starting | None]:
        """What a stage stores over its loops, these, from the outside in, and what starts its reduction."""
        plain = checked(formulas.formula_of(op, formulas.stored(op, self.wanted)), op, self.checks)
        threads = self._threads(stage, nest)
        values = stages.values_in(nest, threads)
        first = values if nest.start is None else {**values, **nest.start.values}
        formula = formulas.substituted(plain, values, first)
        predicate = store_predicate(self.bounds, stage, nest, threads)
        if predicate is not None:
            init = None if formula.init is None else If(predicate, formula.init)
            formula = replace(formula, init=init, update=If(predicate, formula.update))
        levels = stages.levels_of(nest, formula)
        return formula, levels, stages.starting_of(nest, formula, levels)

    def _nest(self, stage: Stage, op: ComputeOp | TensorComputeOp, nest: StageNest, attach: Attach) -> Visit[Stmt]:
        """The loops of a stage that are its own."""
        formula, levels, start = self._formula(stage, op, nest)
        shared = set(self.bounds.shared_path(stage))
        own = [level for level in levels if level.var not in shared]
        outer = len(levels) - len(own)
        made: Stmt
        if start is None or start.place < outer:
            made = yield stages.data_nest(own, nest.guards, formula.update, attach)
            return made
        made = yield stages.reduction_nest(
            own,
            nest.guards,
            formula.update,
            replace(start, place=start.place - outer),
            attach,
            lambda var: self.bounds.attached(stage, var),
        )
        return made

    def _threads(self, stage: Stage, nest: StageNest) -> dict[IterVar, Expr]:
        """The loop that stands for each thread axis: of the stage itself, else the nearest around it."""
        if not self.has_threads:
            return {}
        around = [(outer.thread_of(leaf), leaf) for outer, leaf in reversed(self.bounds.attach_path(stage))]
        own = [(loop.thread, loop.iv) for loop in nest.loops]
        return {thread: leaf for thread, leaf in (*around, *own) if thread is not None}


def _calls(op: ExternOp) -> Stmt:
    ins, outs = op.buffers
    tensors: dict[Buffer, Tensor] = dict(zip((*ins, *outs), (*op.inputs, *op.outputs), strict=True))
    bodies = op.body if isinstance(op.body, (tuple, list)) else (op.body,)
    made: list[Stmt] = []
    for call in bodies:
        if not isinstance(call, ExternCall):
            raise ScheduleError(f"stage {op.name}: its body is no call such as tir.call_packed(...), but {shown(call)}")
        args = tuple(tensors[a] if isinstance(a, Buffer) else a for a in call.args)
        made.append(Evaluate(ExternCall(call.kind, call.name, args), op.inputs, op.outputs))
    return seq(*made)

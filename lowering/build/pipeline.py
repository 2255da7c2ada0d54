"""ScheduleOps: the nests of all stages, each inside the loop it is attached to, with checks of accesses.

Where stages share loops, the root or a loop body is a list of items: shared loops, nests of stages without further
shared loops, and the initial stores of reductions that run over a shared loop. Items are in topological order: each
follows the producers of its inputs; ties follow the schedule.

Nests are built by recursion over attached stages, in generators for `drive`; nothing here walks statements.

A store predicate often selects one of several threads that hold the same result. In a sequential nest such threads
store the same elements in turn, and the predicate is quantified existentially over them. Threads with distinct elements
keep their own condition.

Double buffers (`doubled`) overlap the fill of one half with reads of the other:

    for i in [0, n):                    allocate B twice
        allocate B                      if n > 0: fill half 0 for i = 0
        fill B for i            ->      for i in [0, n):
        use B                               if i + 1 < n: fill half (i + 1) % 2 for i + 1
                                            use half i % 2

The fill of the next half precedes the use of the current one, so both may overlap in time. Producers that serve the
buffer alone move with its fill. Only serial and unrolled loops have a next iteration: `double_buffer` is refused in
other loops and outside of loops.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final, NamedTuple

import intset
from bound.errors import ScheduleError
from bound.infer import BoundsMap, StageNest, StagePiece, Storage
from bound.infer.accesses import TensorAccess, reached
from bound.infer.answers.live_storage import ExecutedItem, by_shared_loop, filled_ahead, ordered, stored_outputs
from bound.infer.answers.outside import ALWAYS, DATA, SIZES, Outside
from bound.itervar import IterVar
from bound.schedule import Stage
from bound.tensor import ComputeOp, ExternOp, Operation, PlaceholderOp, ScanOp, Tensor, TensorComputeOp, buffer_tensor
from bound.tir import build, walk
from bound.tir.value import Operand, Truth
from intset.config import Effort, tiers_within
from intset.context import Context
from intset.expr import Cond, Expr, Range, Var, as_expr, const, constant_value, dag, ops, shown
from intset.expr.build import logical_and
from intset.expr.node import truth
from intset.linear.canonical import cond_of, form_of
from lowering.build import stages
from lowering.build.stages import Attach, Formula, Level, Starting, formula_of, scan_nest, substituted
from lowering.errors import AccessError
from lowering.nest import driver, ir
from lowering.nest.names import with_own_storage, with_tensors
from lowering.nest.scope import Indices, redirected
from lowering.nest.walk import (
    Recursion,
    drive,
    operands,
    range_ends,
    rebuilt,
    statements,
    substitute,
    tensors_read,
    written_by,
)

Checks = Mapping[Operation, Sequence[Outside]]
_MOST_THREADS: Final = 4096  # threads per axis that a predicate may be expanded for


def refuse_outside(found: Iterable[Outside]) -> None:
    """Refuse accesses that are outside at every execution.

    Raises
    ------
    AccessError: names the first such access, with a point at which it is outside.
    """
    always = [one for one in found if one.depends == ALWAYS]
    if always:
        more = f" (and {len(always) - 1} more)" if len(always) > 1 else ""
        raise AccessError(f"{always[0]}{more}: unsafe=True lowers it unchecked")


def size_asserts(found: Iterable[Outside], known: Context) -> list[ir.Assert]:
    """Assertions on sizes that keep accesses inside; assertions implied by others are dropped."""
    checks: dict[Cond, ir.Assert] = {}
    for one in found:
        if one.depends == SIZES and one.requires is not None:
            message = f"{one.stage.name} reads {one.access} inside its extent {one.extent}"
            checks.setdefault(one.requires, ir.Assert(one.requires, message))
    if len(checks) < 2:
        return list(checks.values())
    with intset.using(tiers=tiers_within(Effort.DEFAULT)):
        for cond in list(checks):
            others = [other for other in checks if other is not cond]
            if others and known.extended(facts=others).prove(cond):
                del checks[cond]
    return list(checks.values())


def tile_asserts(tiles: Iterable[Expr], equations: Iterable[Cond]) -> list[ir.Assert]:
    """Assertions about sizes of splits: that they are positive, unless declared so, and fit their thread axes."""
    checks = []
    for t in tiles:
        least = t.declared()[0] if isinstance(t, Var) else None
        if least is None or least < 1:
            checks.append(ir.Assert(t >= 1, f"the size {t} of a split is at least 1"))
    checks += [ir.Assert(cond, f"loops on one thread axis have equal extents: {cond}") for cond in equations]
    return checks


def data_checks(found: Iterable[Outside]) -> Checks:
    """Group data-dependent accesses, which need a check at run time, by operation."""
    checks: dict[Operation, list[Outside]] = {}
    for one in found:
        if one.depends == DATA:
            checks.setdefault(one.stage.op, []).append(one)
    return checks


def checked(formula: Formula, op: Operation, checks: Checks) -> Formula:
    """Insert the run-time checks of an operation into its formula."""
    if op not in checks:
        return formula
    init = None if formula.init is None else with_checks(formula.init, op, checks)
    return replace(formula, init=init, update=with_checks(formula.update, op, checks))


def with_checks(root: ir.Stmt, op: Operation, checks: Checks, only: Collection[Tensor] = ()) -> ir.Stmt:
    """Insert an assertion before each statement with a checked access, under the path condition of the access.

    Parameters
    ----------
    op: the operation whose formula the statements compute.
    only: restricts checks to stores of these tensors, for statements that include other stages.
    """
    wanted = checks.get(op, ())
    if not wanted:
        return root

    def insert_checks(stmt: ir.Stmt, _: driver.Descent) -> ir.Stmt:
        if only and not (isinstance(stmt, ir.Store) and stmt.tensor in only):
            return stmt
        before = _before(operands(stmt), wanted, isinstance(op, ComputeOp))
        return ir.seq(*before, stmt) if before else stmt

    return driver.rewritten(root, driver.Descent(), leave={ir.Stmt: (insert_checks,)})


def _before(values: Sequence[Operand], wanted: Sequence[Outside], by_index: bool) -> list[ir.Stmt]:
    """Checks for the accesses of a statement's operands, in evaluation order: inner indices first."""
    found: list[ir.Stmt] = []
    for read in reached(values):
        named = [
            one
            for one in wanted
            if one.tensor is read.tensor and (not by_index or all(map(operator.is_, one.index, read.indices)))
        ]
        if named:
            first = named[0]
            message = f"{first.stage.name} reads {first.access} inside {first.tensor.name}"
            found.append(ir.guarded(ir.Assert(_inside(read, named, by_index), message), read.when))
    return found


def _inside(read: TensorAccess, named: Iterable[Outside], by_index: bool) -> Cond:
    """The condition that an access is inside: its unproved ends, or all ends if the formula was rewritten."""
    if by_index:
        return logical_and(*dict.fromkeys(end for one in named for end in one.open_ends))
    ends = zip(read.indices, read.tensor.extents, strict=True)
    return logical_and(*(cond for e, extent in ends for cond in (e >= 0, e < extent)))


def store_predicate(bounds: BoundsMap, stage: Stage, nest: StageNest, threads: Mapping[IterVar, Expr]) -> Truth | None:
    """The store predicate of a stage over the loops around its stores; `None` if it always holds.

    Parameters
    ----------
    threads: maps thread axes to their loops.

    Raises
    ------
    ScheduleError: the predicate mentions an axis without a loop, or too many threads.
    """
    if stage.store_predicate is None:
        return None
    placed = _in_loops(bounds, stage, nest, threads)
    shared = _shared(bounds, stage, nest)
    own = {loop.iv for loop in nest.loops} | {leaf for _, leaf in bounds.attach_path(stage)}
    for var in dict.fromkeys(walk.variables(placed)):
        if var in shared:
            placed = _for_some(stage, placed, var, shared[var])
        elif isinstance(var, IterVar) and var not in own:
            placed = _for_some(stage, placed, var, _started(bounds, stage, var))
    if isinstance(placed, Cond) and placed.op is ops.BOOL and placed.data:
        return None
    return placed


def _in_loops(bounds: BoundsMap, stage: Stage, nest: StageNest, threads: Mapping[IterVar, Expr]) -> Truth:
    """Replace axes in the predicate by their values in loop variables, and thread axes by their loops."""
    values: dict[IterVar, Expr] = {}
    for outer, _ in reversed(bounds.attach_path(stage)):
        values |= bounds.nest(outer).values
    values |= nest.values
    by_tag = {thread.thread_tag: loop for thread, loop in threads.items()}
    predicate = truth(True) if stage.store_predicate is None else stage.store_predicate
    for var in walk.variables(predicate):
        if isinstance(var, IterVar) and var.thread_tag in by_tag:
            values[var] = by_tag[var.thread_tag]
    return walk.substitute(predicate, values)


def _shared(bounds: BoundsMap, stage: Stage, nest: StageNest) -> dict[Var, Range]:
    """Loops whose iterations store the same elements, with ranges: reduction loops, and threads that share storage."""
    reduced = (nest.values[iv] for iv in getattr(stage.op, "reduce_axis", ()) if iv in nest.values)
    reducing = {v for value in reduced for v in value.free_vars()}
    fixed = bounds.required(stage.op.outputs[0]).fixed
    outer = [leaf for at, leaf in bounds.attach_path(stage) if at.thread_of(leaf) is not None and leaf not in fixed]
    found: dict[Var, Range] = {loop.iv: loop.range for loop in nest.loops if loop.iv in reducing}
    return found | {leaf: bounds[leaf] for leaf in outer}


def _started(bounds: BoundsMap, stage: Stage, thread: IterVar) -> Range:
    """The range of a thread axis: of another stage's loop on it, else the declared one."""
    if not thread.thread_tag:
        raise ScheduleError(f"stage {stage.name}: its store predicate is on {thread.name}, which is no loop around it")
    for other in bounds.schedule.stages:
        for leaf in other.leaf_iter_vars:
            on = other.thread_of(leaf)
            if on is not None and on.thread_tag == thread.thread_tag and leaf in bounds:
                return bounds[leaf]
    if thread.dom is None:
        raise ScheduleError(f"stage {stage.name}: its store predicate is on {thread.name}, on which no loop runs")
    return thread.dom


def _for_some(stage: Stage, predicate: Truth, var: Var, limits: Range) -> Truth:
    """Eliminate `var` existentially over its range."""
    low, total = limits.min, limits.extent
    assert isinstance(low, Expr) and isinstance(total, Expr)
    inside = (var >= low, var < low + total)
    value = _only_value(predicate, var)
    if value is not None:
        return _folded(walk.substitute(build.together(predicate, *inside), {var: value}))
    number = constant_value(total)
    if number is None or number > _MOST_THREADS:
        raise ScheduleError(
            f"stage {stage.name}: its store predicate is on {var.name}, of which there are {total}, and any may store"
        )
    choices: dict[Truth, None] = {}
    for k in range(number):
        choice = _folded(walk.substitute(predicate, {var: low + k}))
        if isinstance(choice, Cond) and choice.op is ops.BOOL:
            if choice.data:
                return choice
            continue
        choices[choice] = None
    return build.any_of(*choices) if choices else truth(False)


def _only_value(predicate: Truth, var: Var) -> Expr | None:
    """Solve the predicate's equations for `var`; `None` if none determines it."""
    for part in dag.conjuncts(predicate) if isinstance(predicate, Cond) else ():
        if part.op is ops.EQ:
            value = form_of(part.args[0] - part.args[1]).solved_for(var)
            if value is not None:
                return value.expr()
    return None


def _folded(cond: Truth) -> Truth:
    return cond_of(cond) if isinstance(cond, Cond) else cond


@dataclass(eq=False)
class Item(ExecutedItem):
    """One statement of a loop body that stages share."""

    stmt: ir.Stmt = field(kw_only=True)


def item_of(stages: Mapping[Stage, int], stmt: ir.Stmt) -> Item:
    """The statement that computes some stages."""
    reads = {t for stage in stages for t in stage.op.input_tensors}
    return Item(reads, {t for stage in stages for t in stage.op.outputs}, stages, stmt=stmt)


def merged(stmts: Iterable[ir.Stmt]) -> list[ir.Stmt]:
    """Merge adjacent branches with equal conditions. Conditions on loops and sizes do not change in between."""
    found: list[ir.Stmt] = []
    for stmt in stmts:
        last = found[-1] if found else None
        if isinstance(last, ir.If) and isinstance(stmt, ir.If) and _is_same(last, stmt):
            found[-1] = ir.If(last.cond, ir.seq(last.then, stmt.then))
        else:
            found.append(stmt)
    return found


def _is_same(one: ir.If, other: ir.If) -> bool:
    if one.orelse is not None or other.orelse is not None:
        return False
    if not (isinstance(one.cond, Cond) and isinstance(other.cond, Cond)) or dag.opaque_terms(one.cond, other.cond):
        return False
    return one.cond is other.cond or cond_of(one.cond) is cond_of(other.cond)


def around(loop: ir.For) -> ir.Stmt:
    """Unswitch a loop whose whole body has one loop-invariant condition."""
    body = loop.body
    stmts = body.stmts if isinstance(body, ir.Seq) else (body,)
    storage = tuple(stmt for stmt in stmts if isinstance(stmt, ir.Allocate))
    rest = stmts[len(storage) :]
    if len(rest) != 1 or stmts[: len(storage)] != storage:
        return loop
    only = rest[0]
    if not isinstance(only, ir.If) or only.orelse is not None or not isinstance(only.cond, Cond):
        return loop
    if loop.var in only.cond.free_vars() or dag.opaque_terms(only.cond):
        return loop
    return ir.If(only.cond, replace(loop, body=ir.seq(*storage, only.then)))


MAX_PIECES: Final = 8  # maximal number of nests of a stage


def pieces_of(bounds: BoundsMap, stage: Stage) -> tuple[StagePiece, ...] | None:
    """The nests of a stage over the disjoint pieces of its region; `None` if it has no such pieces.

    Of a copy, pieces no fewer than the elements of the box around them test more often than its nest stores.
    """
    found = bounds.pieces(stage, MAX_PIECES)
    is_copy = isinstance(stage.op, ComputeOp) and all(walk.loaded_tensor(e) is not None for e in stage.op.body)
    if found is None or len(found) == 1 or not is_copy:
        return found
    extents = [constant_value(as_expr(r.extent)) for r in bounds.allocated(stage.op.outputs[0])]
    size = prod(e for e in extents if e is not None) if None not in extents else None
    return None if size is not None and size <= len(found) else found


_NOTHING: Final[Mapping[Var, Expr]] = {}
_UNCHECKED: Final[Checks] = {}


def schedule_ops(
    bounds: BoundsMap, given: frozenset[Tensor], split: Collection[Stage] = (), checks: Checks = _UNCHECKED
) -> ir.Stmt:
    """The nest of a whole schedule, in tensor coordinates.

    Parameters
    ----------
    given: tensors with storage from the caller; all others are allocated.
    split: stages that get a nest per piece of their region.
    checks: accesses with a run-time check.

    Raises
    ------
    ScheduleError: the schedule has no sequential meaning, or an extern body is no call.
    """
    pipeline = _Pipeline(bounds, given, split, checks)
    body = pipeline.kept(None, drive(pipeline.stages(bounds.roots(), ir.Seq())), _NOTHING)
    body = doubled(body, frozenset(t for s in bounds.schedule.stages if s.double_buffered for t in s.op.outputs))
    states = {
        state: output
        for stage in bounds.schedule.stages
        if isinstance(stage.op, ScanOp)
        for state, output in zip(stage.op.state_placeholder, stage.op.outputs, strict=True)
    }
    body = with_own_storage(body)  # pieces and double buffers copy attached stages
    return rebuilt(body, lambda stmt: with_tensors(stmt, states)) if states else body


class _Pipeline:
    def __init__(self, bounds: BoundsMap, given: frozenset[Tensor], split: Collection[Stage], checks: Checks) -> None:
        self.bounds = bounds
        self.given = given
        self.split = split
        self.checks = checks
        live = [s.op for s in bounds.schedule.stages if not s.is_inlined]
        read = {t for op in live for t in op.input_tensors}
        self.wanted = frozenset(read | set(given))
        leaves = ((s, iv) for s in bounds.schedule.stages for iv in s.leaf_iter_vars)
        self.numbers = {stage: k for k, stage in enumerate(bounds.schedule.stages)}
        self.has_threads = any(stage.thread_of(iv) is not None for stage, iv in leaves)

    def stages(self, run: Sequence[Stage], body: ir.Stmt, moved: Mapping[Var, Expr] = _NOTHING) -> Recursion[ir.Stmt]:
        """Allocate and compute the stages `run`, then run `body`.

        Parameters
        ----------
        moved: values of outer loop variables that `body` no longer has.
        """
        paths = {stage: self.bounds.shared_path(stage) for stage in run}
        if any(paths.values()):
            together, _ = yield self._together(paths, run, moved)
            return ir.seq(together, body)
        parts: list[ir.Stmt] = []
        folded: dict[Tensor, Storage] = {}
        for stage in run:
            if isinstance(stage.op, PlaceholderOp):
                continue
            parts += [] if self.bounds.slid(stage) else self._storage(stage, folded, moved)
            parts.append((yield self.produce(stage)))
        return fold(ir.seq(*(substitute(part, dict(moved)) for part in parts), body), folded)

    def _together(
        self, run: Mapping[Stage, Sequence[IterVar]], placed: Sequence[Stage], moved: Mapping[Var, Expr] = _NOTHING
    ) -> Recursion[tuple[ir.Stmt, dict[Stage, int]]]:
        """Build the root or a loop body whose stages share loops; returns the computed stages, too.

        Parameters
        ----------
        run: the stages, each with the remaining shared loops around its formula.
        placed: stages with storage here.
        """
        items: list[Item] = []
        for key, members in by_shared_loop(run).items():
            if isinstance(key, Stage):
                items.append(item_of({key: self.numbers[key]}, (yield self.produce(key))))
                continue
            for stage in members:
                start = yield self._start(stage, key)
                if start is not None:
                    read = {t for stmt in statements(start) for t in tensors_read(*operands(stmt))}
                    items.append(Item(read, (), {stage: self.numbers[stage]}, starts=True, stmt=start))
            inner = self.bounds.inside(key)
            paths = {stage: self.bounds.shared_path(stage) for stage in inner}
            body, inside = yield self._together({**members, **paths}, inner)
            loop = stages.level_of(self.bounds.shared_loop(key))
            items.append(item_of(inside, around(loop.around(self.kept(key, body, moved)))))
        done = {stage: number for item in items for stage, number in item.stages.items()}
        return self._with_storage(ordered(items), placed, moved), done

    def _with_storage(self, items: Sequence[Item], placed: Sequence[Stage], moved: Mapping[Var, Expr]) -> ir.Stmt:
        """Put the allocations of the stages `placed` in front of the items."""
        folded: dict[Tensor, Storage] = {}
        waiting = dict.fromkeys(placed)
        storage: list[ir.Stmt] = []
        for item in items:
            for stage in [stage for stage in item.stages if stage in waiting]:
                del waiting[stage]
                storage += [] if self.bounds.slid(stage) else self._storage(stage, folded, moved)
        parts = [*storage, *(item.stmt for item in items)]
        return fold(ir.seq(*(substitute(part, dict(moved)) for part in merged(parts))), folded)

    def _storage(self, stage: Stage, folded: dict[Tensor, Storage], moved: Mapping[Var, Expr]) -> list[ir.Stmt]:
        """The allocations of a stage; enters compact and circular storage in `folded`."""
        made = [t for t in stored_outputs(stage.op, self.wanted) if t not in self.given]
        storages = {t: self.bounds.storage(t) for t in made}
        folded |= {t: storage.at(moved) for t, storage in storages.items() if not storage.is_plain}
        return [ir.Allocate(t, storage.ranges, stage.scope) for t, storage in storages.items()]

    def kept(self, leaf: IterVar | None, body: ir.Stmt, moved: Mapping[Var, Expr]) -> ir.Stmt:
        """Put allocations that inner stages have at this loop (`None`: the root) in front of its body."""
        folded: dict[Tensor, Storage] = {}
        storage = [part for stage in self.bounds.stored(leaf) for part in self._storage(stage, folded, moved)]
        return fold(ir.seq(*(substitute(part, dict(moved)) for part in storage), body), folded)

    def _start(self, stage: Stage, loop: IterVar) -> Recursion[ir.Stmt | None]:
        """The initial stores of a reduction whose outermost reduction loop is this shared loop, else `None`."""
        op = stage.op
        if not isinstance(op, (ComputeOp, TensorComputeOp)):
            return None
        _, levels, start = self._formula(stage, op, self.bounds.nest(stage))
        if start is None or start.place == len(levels) or levels[start.place].var is not loop:
            return None
        made: ir.Stmt = yield stages.start_nest(start)
        return made

    def produce(self, stage: Stage) -> Recursion[ir.Stmt]:
        """The nest of one stage, attached stages included."""
        op = stage.op
        if isinstance(op, ExternOp):
            return _calls(op)
        if isinstance(op, ScanOp):
            made: ir.Stmt = yield scan_nest(op, self.bounds.nest(stage), self.bounds, self._attach(stage, {}))
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
        return ir.seq(*parts)

    def _attach(self, stage: Stage, moved: Mapping[Var, Expr]) -> Attach:
        """A callback that puts the stages attached to a loop in front of its body."""

        def attach(var: IterVar, body: ir.Stmt) -> Recursion[ir.Stmt]:
            inside = self.bounds.attached(stage, var)
            made: ir.Stmt = (yield self.stages(inside, body, moved)) if inside else body
            return self.kept(var, made, moved)

        return attach

    def _formula(
        self, stage: Stage, op: ComputeOp | TensorComputeOp, nest: StageNest
    ) -> tuple[Formula, list[Level], Starting | None]:
        """Compute the formula of a stage over its loops, the loops outermost first, and the start of its reduction."""
        plain = checked(formula_of(op, stored_outputs(op, self.wanted)), op, self.checks)
        threads = self._threads(stage, nest)
        values = {**threads, **nest.values}
        first = values if nest.start is None else {**values, **nest.start.values}
        formula = substituted(plain, values, first)
        predicate = store_predicate(self.bounds, stage, nest, threads)
        if predicate is not None:
            init = None if formula.init is None else ir.If(predicate, formula.init)
            formula = replace(formula, init=init, update=ir.If(predicate, formula.update))
        levels = stages.levels_of(nest, formula)
        return formula, levels, stages.starting_of(nest, formula, levels)

    def _nest(
        self, stage: Stage, op: ComputeOp | TensorComputeOp, nest: StageNest, attach: Attach
    ) -> Recursion[ir.Stmt]:
        """The nest of a stage, without shared loops."""
        formula, levels, start = self._formula(stage, op, nest)
        shared = set(self.bounds.shared_path(stage))
        own = [level for level in levels if level.var not in shared]
        outer = len(levels) - len(own)
        if start is None or start.place < outer:
            return stages.nest_around(own, nest.guards, formula.update, attach)
        start = replace(start, place=start.place - outer)
        stages.check_init(start.init, own[start.place :], lambda var: self.bounds.attached(stage, var))
        return stages.reduction_nest(own, nest.guards, formula.update, start, attach)

    def _threads(self, stage: Stage, nest: StageNest) -> dict[IterVar, Expr]:
        """Map thread axes to loops: the stage's own loop, else the nearest around it."""
        if not self.has_threads:
            return {}
        around = [(outer.thread_of(leaf), leaf) for outer, leaf in reversed(self.bounds.attach_path(stage))]
        own = [(loop.thread, loop.iv) for loop in nest.loops]
        return {thread: leaf for thread, leaf in (*around, *own) if thread is not None}


def _argument(name: str, tensors: Mapping[build.Buffer, Tensor], arg: object) -> object:
    """An argument of a call, with a tensor in the place of its buffer or of the address of its first element."""
    if not isinstance(arg, (build.Buffer, build.BufferPointer)):
        return arg
    buffer = arg if isinstance(arg, build.Buffer) else arg.buffer
    if buffer not in tensors:
        raise ScheduleError(f"stage {name}: {buffer.name} is no buffer of its inputs and outputs")
    if isinstance(arg, build.BufferPointer) and not (arg.offset.is_const and arg.offset.data == 0):
        raise ScheduleError(f"stage {name}: a call is given whole tensors, not {buffer.name} from element {arg.offset}")
    return tensors[buffer]


def _calls(op: ExternOp) -> ir.Stmt:
    ins, outs = op.buffers
    tensors: dict[build.Buffer, Tensor] = dict(zip((*ins, *outs), (*op.inputs, *op.outputs), strict=True))
    bodies = op.body if isinstance(op.body, (tuple, list)) else (op.body,)
    made: list[ir.Stmt] = []
    stand_ins = {buffer_tensor(buffer): tensor for buffer, tensor in tensors.items()}
    for call in bodies:
        if isinstance(call, ir.Stmt):
            made.append(rebuilt(call, lambda stmt: with_tensors(stmt, stand_ins)))
            continue
        if not isinstance(call, build.ExternCall):
            raise ScheduleError(f"stage {op.name}: its body is no call such as tir.call_packed(...), but {shown(call)}")
        args = tuple(_argument(op.name, tensors, a) for a in call.args)
        made.append(ir.Evaluate(build.ExternCall(call.kind, call.name, args), op.inputs, op.outputs))
    return ir.seq(*made)


# -- storage that differs from its tensor ------------------------------------------------------------------------------


def fold(root: ir.Stmt, storages: Mapping[Tensor, Storage]) -> ir.Stmt:
    """Redirect every access of these tensors to its storage index (`Storage.numbers`)."""
    if not storages:
        return root

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        return (tensor, storages[tensor].numbers(indices)) if tensor in storages else None

    def change(stmt: ir.Stmt) -> ir.Stmt:
        new = redirected(stmt, move)
        if not isinstance(new, ir.Allocate) or new.tensor not in storages:
            return new
        storage = storages[new.tensor]
        if storage.is_circular or storage.is_flat:  # indices are no steps through the tensor
            return replace(new, ranges=storage.ranges)
        return replace(new, ranges=storage.ranges, origin=storage.offset, steps=storage.steps)

    return rebuilt(root, change)


_IN_TURN: Final = (ir.LoopKind.SERIAL, ir.LoopKind.UNROLLED)


def doubled(root: ir.Stmt, tensors: frozenset[Tensor]) -> ir.Stmt:
    """Double the storage of these tensors in the loops that allocate them.

    Raises
    ------
    ScheduleError: an input of a double buffer has other readers in the same loop; or the loop is neither serial nor
        unrolled.
    """
    if not tensors:
        return root

    def double_in_loop(loop: ir.For, _: driver.Descent) -> ir.Stmt:
        if loop.kind not in _IN_TURN:
            _refuse(loop.body, tensors, f"those of {loop.var.name} do not run one after another")
            return loop
        return _in_loop(loop, tensors)

    _refuse(root, tensors, "compute_at places it in a loop")
    # on the way down: a loop inside the nest that fills a buffer is doubled in both of its copies
    return driver.rewritten(root, driver.Descent(), enter={ir.For: (double_in_loop,)})


def _refuse(place: ir.Stmt, tensors: frozenset[Tensor], reason: str) -> None:
    """Refuse double buffers that are allocated where no next iteration exists."""
    for stmt in _directly(place):
        if isinstance(stmt, ir.Allocate) and stmt.tensor in tensors:
            raise ScheduleError(f"stage {stmt.tensor.name}: double_buffer has no next iteration to fill: {reason}")


def _in_loop(loop: ir.For, tensors: frozenset[Tensor]) -> ir.Stmt:
    found = [stmt.tensor for stmt in _directly(loop.body) if isinstance(stmt, ir.Allocate)]
    wanted = frozenset(t for t in found if t.ndim and t in tensors)
    if not wanted:
        return loop
    parts = _divided(loop.body, wanted)
    fill, use = ir.seq(*parts.fill), ir.seq(*parts.use)
    _check(fill, use, wanted, loop)
    low, extent = range_ends(loop.range)
    halves = {stmt.tensor: stmt for stmt in parts.buffers}
    fill, use = (_in_halves(body, halves, loop.var) for body in (fill, use))
    following = ir.If(loop.var + 1 < low + extent, substitute(fill, {loop.var: loop.var + 1}))
    first = ir.If(extent > 0, substitute(fill, {loop.var: low}))
    storage = [replace(stmt, ranges=_twice(stmt), origin=None, steps=None) for stmt in parts.buffers]
    return ir.seq(*storage, first, replace(loop, body=ir.seq(following, use)))


def _directly(body: ir.Stmt) -> Iterable[ir.Stmt]:
    """Yield the statements of a body outside of inner loops and of branches with `else`."""
    if isinstance(body, ir.Seq):
        for stmt in body.stmts:
            yield from _directly(stmt)
    elif isinstance(body, ir.If) and body.orelse is None:
        yield from _directly(body.then)
    else:
        yield body


class _LoopBody(NamedTuple):
    """A loop body, divided into statements that fill buffers, statements that use them, and allocations."""

    fill: list[ir.Stmt]
    use: list[ir.Stmt]
    buffers: list[ir.Allocate]


def _divided(stmt: ir.Stmt, wanted: frozenset[Tensor]) -> _LoopBody:
    """Divide statements into those that fill buffers (`filled_ahead`) and those that use them."""
    if isinstance(stmt, ir.If) and isinstance(stmt.cond, Cond) and _allocates(stmt, wanted):
        inner = _divided(stmt.then, wanted)
        fill: list[ir.Stmt] = [ir.If(stmt.cond, ir.seq(*inner.fill))] if inner.fill else []
        use: list[ir.Stmt] = [ir.If(stmt.cond, ir.seq(*inner.use))] if inner.use else []
        return _LoopBody(fill, use, inner.buffers)
    parts = _LoopBody([], [], [])
    level = ir.flat(stmt)
    made = [{part.tensor} if isinstance(part, ir.Allocate) else _stored(part) for part in level]
    accesses = [(_read(part), [] if _allocates(part, wanted) else made[k]) for k, part in enumerate(level)]
    ahead = filled_ahead(accesses, wanted)
    for k, part in enumerate(level):
        if isinstance(part, ir.Allocate) and part.tensor in wanted:
            parts.buffers.append(part)
        elif _allocates(part, wanted):
            inner = _divided(part, wanted)
            parts.fill.extend(inner.fill)
            parts.use.extend(inner.use)
            parts.buffers.extend(inner.buffers)
        elif isinstance(part, ir.Let):
            parts.fill.append(part)
            parts.use.append(part)
        else:
            (parts.fill if k in ahead else parts.use).append(part)
    return parts


def _allocates(stmt: ir.Stmt, wanted: frozenset[Tensor]) -> bool:
    return any(isinstance(inner, ir.Allocate) and inner.tensor in wanted for inner in _directly(stmt))


def _stored(root: ir.Stmt) -> list[Tensor]:
    return [tensor for stmt in statements(root) for tensor in written_by(stmt)]


def _read(root: ir.Stmt) -> list[Tensor]:
    """The tensors that statements read, without those they update in place."""
    made = set(_stored(root))
    found: list[Tensor] = []
    for stmt in statements(root):
        found += stmt.reads if isinstance(stmt, ir.Evaluate) else ()
        found += [t for t in tensors_read(*operands(stmt)) if t not in made]
    return found


def _check(ahead: ir.Stmt, use: ir.Stmt, wanted: frozenset[Tensor], loop: ir.For) -> None:
    """Refuse to fill ahead if the fill depends on the current iteration."""
    late = [t for t in (*_read(ahead), *_stored(ahead)) if t in set(_stored(use))]
    early = [t for t in _stored(ahead) if t not in wanted and t in {*_read(use), *_stored(use)}]
    for t in (*late, *early):
        name = next(iter(sorted(b.name for b in wanted)))
        raise ScheduleError(
            f"stage {name}: double_buffer computes it an iteration of {loop.var.name} ahead, "
            f"but {t.name} is computed in the same loop, and for others as well"
        )


def _twice(stmt: ir.Allocate) -> tuple[Range, ...]:
    extents = [range_ends(r)[1] for r in stmt.ranges]
    return (Range(0, extents[0] * 2), *(Range(0, e) for e in extents[1:]))


def _in_halves(root: ir.Stmt, halves: dict[Tensor, ir.Allocate], var: Var) -> ir.Stmt:
    """Redirect accesses of buffers to the half of the current iteration, counted from 0."""

    def move(tensor: Tensor, indices: Indices) -> tuple[Tensor, Indices] | None:
        if tensor not in halves:
            return None
        ends = [range_ends(r) for r in halves[tensor].ranges]
        found = [form_of(i).minus(form_of(low)).expr() for i, (low, _) in zip(indices, ends, strict=True)]
        return tensor, (found[0] + var % const(2) * ends[0][1], *found[1:])

    return rebuilt(root, lambda stmt: redirected(stmt, move))

"""`Stage`: one operation of a schedule, its loops, and their annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bound.errors import InputError, ScheduleError
from bound.itervar import IterType, IterVar, whole_number
from bound.schedule.attach import AttachType, check_scope, check_thread_tag, is_inside, runs_at_once, slid_loops
from bound.schedule.relations import Fuse, IterVarRelation, Singleton, Split, Tail
from bound.tensor import ComputeOp, Operation, ScanOp, ScriptText, Tensor
from bound.tir.value import Truth
from intset.expr import Expr, IntLike, Range, Var, arguments, as_expr, shown
from intset.expr.node import as_int

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule


_LOOPS = (IterType.DATA_PAR, IterType.COMM_REDUCE, IterType.ORDERED)


@dataclass(frozen=True)
class IterVarAttr:
    """Annotations of an axis.

    Attributes
    ----------
    iter_type: the kind of loop, if changed (vectorized, unrolled, ...).
    bind_thread: the thread axis to which it is bound.
    tensor_intrin: the intrinsic that replaces the loop and its body.
    align: (factor, offset) of the storage of a dimension.
    prefetches: (tensor, offset) pairs.
    pragmas: (key, value) pairs.
    """

    iter_type: IterType | None = None
    bind_thread: IterVar | None = None
    tensor_intrin: object = None
    align: tuple[int, int] | None = None
    prefetches: tuple[tuple[Tensor, Expr], ...] = ()
    pragmas: tuple[tuple[str, object], ...] = ()

    @property
    def pragma_keys(self) -> tuple[ScriptText, ...]:
        return tuple(ScriptText(key) for key, _ in self.pragmas)

    @property
    def pragma_values(self) -> tuple[object, ...]:
        return tuple(value for _, value in self.pragmas)


_DONE = {"compute_at": "computed", "store_at": "stored"}
_NO_ATTR = IterVarAttr()


class Stage:
    """One operation of a schedule.

    Guarantee: a method that raises changes nothing.

    Attributes
    ----------
    op: the operation, after rewrites; origin_op: the one of `create_schedule`.
    all_iter_vars: root axes and all axes derived from them.
    leaf_iter_vars: the loops, outermost first.
    relations: splits, fusions and rebases, oldest first.
    iter_var_attrs: annotations of axes.
    attach_type, attach_stage, attach_ivar: the loop in which it is computed.
    store_type, store_stage, store_ivar: the loop that contains its storage (`SCOPE`), or outside of all loops
        (`GROUP_ROOT`); `None` stores it where it is computed.
    scope: its storage scope; empty: chosen from the threads around it.
    is_output: whether the schedule was created for it.
    group: the group stage to which it belongs, or `None`. A group is a stage without operation.
    compute_at_position: the number of leading loops shared with all consumers (`bound.replay`).
    max_producer_position: the number of leading loops shared with any producer.
    """

    def __init__(self, schedule: Schedule, op: Operation | None, is_output: bool = False) -> None:
        roots = op.root_iter_vars if op is not None else ()
        self.schedule = schedule
        self._op = op
        self.origin_op = op
        self.all_iter_vars: list[IterVar] = list(roots)
        self.leaf_iter_vars: list[IterVar] = [iv for iv in roots if iv.iter_type is not IterType.OPAQUE]
        self.relations: list[IterVarRelation] = []
        self.iter_var_attrs: dict[IterVar, IterVarAttr] = {}
        self.attach_type = AttachType.GROUP_ROOT
        self.attach_stage: Stage | None = None
        self.attach_ivar: IterVar | None = None
        self.store_type: AttachType | None = None
        self.store_stage: Stage | None = None
        self.store_ivar: IterVar | None = None
        self.scope = ""
        self.is_output = is_output
        self.double_buffered = False
        self.group: Stage | None = None
        self.env_thread_vars: tuple[IterVar, ...] = ()
        self.store_predicate: Truth | None = None
        self.compute_at_position = 0
        self.max_producer_position = 0

    @property
    def op(self) -> Operation:
        """The operation of the stage; a group has none."""
        if self._op is None:
            raise ScheduleError("a group of stages has no operation")
        return self._op

    @property
    def is_group(self) -> bool:
        return self._op is None

    @property
    def groups(self) -> tuple[Stage, ...]:
        """The groups around the stage, innermost first."""
        return () if self.group is None else (self.group, *self.group.groups)

    @property
    def num_child_stages(self) -> int:
        """The number of stages in a group; 0 for other stages."""
        return sum(stage.group is self for stage in (*self.schedule.stages, *self.schedule.groups))

    @property
    def name(self) -> str:
        return "group" if self._op is None else self._op.name

    def __repr__(self) -> str:
        return f"Stage({self.name})"

    @property
    def shared_loops(self) -> int:
        """The number of leading loops shared with other stages (`bound.replay`)."""
        own = self.compute_at_position
        if own and not any(t.op is self._op for stage in self.schedule.stages for t in stage.op.input_tensors):
            own = 0  # there is nobody to share them with
        return max(own, self.max_producer_position)

    # --- axes ---------------------------------------------------------------------------------------------------

    def split(
        self,
        parent: IterVar,
        factor: IntLike | None = None,
        nparts: IntLike | None = None,
        tail: str = Tail.GUARD,
        disable_predication: bool = False,
    ) -> tuple[IterVar, IterVar]:
        """Split an axis into `outer` and `inner`; `factor` is the extent of `inner`, or `nparts` that of `outer`.

        Parameters
        ----------
        tail: see `Tail`; applies if the size does not divide the extent.
        disable_predication: TVM's name for `tail="round_up"`.

        Raises
        ------
        ScheduleError: not a free loop of this stage, or not exactly one positive size.
        """
        if (factor is None) == (nparts is None):
            raise self._refusal(f"split of {_label(parent)} needs either factor or nparts")
        kind = self._tail(tail, parent)
        size = self._positive(nparts if factor is None else factor, "nparts" if factor is None else "factor", parent)
        position = self._loop_position(parent, "split")
        self._not_shared("split", position)
        outer, inner = parent.parts(factor)
        used_factor, used_nparts = (None, size) if factor is None else (size, None)
        used_tail = Tail.ROUND_UP if arguments.a_flag(disable_predication, "disable_predication") else kind
        self.relations.append(Split(parent, outer, inner, used_factor, used_nparts, used_tail))
        self.all_iter_vars += (outer, inner)
        self.leaf_iter_vars[position : position + 1] = [outer, inner]
        return outer, inner

    def fuse(self, *args: IterVar | Sequence[IterVar]) -> IterVar:
        """Fuse adjacent loops into one; without arguments, add a loop of extent 1.

        Raises
        ------
        ScheduleError: the loops are not adjacent and free.
        """
        axes = _listed(args)
        if not axes:
            self.whole_own("fuse of no axes")
            self.compute_at_position = 0
            single = IterVar(Range(0, 1), "singleton", IterType.DATA_PAR)
            self.relations.append(Singleton(single))
            self.all_iter_vars.append(single)
            self.leaf_iter_vars.insert(0, single)
            return single
        positions = [self._loop_position(axis, "fuse") for axis in axes]
        if len(axes) == 2 and positions[1] + 1 == positions[0]:  # TVM takes two neighbours in either order
            axes, positions = (axes[1], axes[0]), [positions[1], positions[0]]
        for k in range(1, len(axes)):
            if positions[k] != positions[k - 1] + 1:
                raise self._refusal(
                    f"cannot fuse {axes[k - 1].name} with {axes[k].name}, "
                    f"the second is not the next loop inside the first: the loops are {self._loops()}"
                )
        self._not_shared("fuse", *positions)
        fused: IterVar = axes[0]
        for inner in axes[1:]:
            outer, fused = fused, fused.fused(inner)
            self.relations.append(Fuse(outer, inner, fused))
            self.all_iter_vars.append(fused)
        self.leaf_iter_vars[positions[0] : positions[-1] + 1] = [fused]
        return fused

    def reorder(self, *args: IterVar | Sequence[IterVar]) -> None:
        """Permute loops. The positions of the given loops, taken together, stay the same."""
        axes = _listed(args)
        positions = [self.position_of(axis, "reorder") for axis in axes]
        if len(set(positions)) != len(positions):
            repeated = next(axis for k, axis in enumerate(axes) if positions.index(positions[k]) != k)
            raise self._refusal(f"reorder names the axis {repeated.name} twice")
        moved = zip(sorted(positions), axes, strict=True)
        self._not_shared(
            "reorder", *(position for position, axis in moved if self.leaf_iter_vars[position] is not axis)
        )
        for position, axis in zip(sorted(positions), axes, strict=True):
            self.leaf_iter_vars[position] = axis

    def tile(
        self, x_parent: IterVar, y_parent: IterVar, x_factor: IntLike, y_factor: IntLike
    ) -> tuple[IterVar, IterVar, IterVar, IterVar]:
        """Split two axes and order the loops as x outer, y outer, x inner, y inner."""
        if x_parent is y_parent:
            raise self._refusal(f"tile needs two axes, not {_label(x_parent)} twice")
        for parent, size, what in ((x_parent, x_factor, "x_factor"), (y_parent, y_factor, "y_factor")):
            self._not_shared("tile", self._loop_position(parent, "tile"))
            self._positive(size, what, parent)
        x_outer, x_inner = self.split(x_parent, factor=x_factor)
        y_outer, y_inner = self.split(y_parent, factor=y_factor)
        self.reorder(x_outer, y_outer, x_inner, y_inner)
        return x_outer, y_outer, x_inner, y_inner

    # --- attachment ---------------------------------------------------------------------------------------------

    def _refusal(self, why: str) -> ScheduleError:
        return ScheduleError(f"stage {self.name}: {why}")

    def compute_at(self, parent: Stage, scope: IterVar) -> None:
        """Compute the stage inside the loop `scope` of `parent`, as far as one iteration needs it.

        Raises
        ------
        ScheduleError: `scope` is not a loop of a consumer, or the stage may not move.
        """
        self._attachable("compute_at")
        at, loop = self._inside_of(parent, scope, "compute_at")
        with self._checked():
            self.attach_type = AttachType.SCOPE
            self.attach_stage, self.attach_ivar = at, loop

    def compute_root(self) -> None:
        """Compute the stage completely, before its consumers."""
        self._attachable("compute_root")
        self._detach(AttachType.GROUP_ROOT)

    def compute_inline(self) -> None:
        """Substitute the stage's formula into its consumers; nothing is stored.

        Raises
        ------
        ScheduleError: an output, or an operation not made by `te.compute`. A reduction is refused when the schedule is
            used: after `cache_write` the stage is a copy.
        """
        self._attachable("compute_inline")
        if not isinstance(self._op, ComputeOp):
            raise self._refusal("only an operation made by te.compute can be inlined")
        if self.is_output:
            raise self._refusal("an output of the schedule cannot be inlined")
        self._detach(AttachType.INLINE)

    def store_at(self, parent: Stage, scope: IterVar) -> None:
        """Store the stage for a whole iteration of the loop `scope` of `parent`, outside of the loop of `compute_at`.

        Loops in between reuse elements of earlier iterations and compute each element once (a sliding window). They
        must run sequentially.

        Example
        -------
        >>> from bound import te, infer_bound
        >>> A = te.placeholder((18, 16), name="A")
        >>> B = te.compute((18, 16), lambda y, x: A[y, x] * 2, name="B")
        >>> C = te.compute((16, 16), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
        >>> s = te.create_schedule(C.op)
        >>> yo, yi = s[C].split(C.op.axis[0], 8)
        >>> s[B].compute_at(s[C], yi)
        >>> s[B].store_at(s[C], yo)
        >>> b = infer_bound(s)
        >>> b.required(B).count_total(), b.computed(B).count_total()
        (768, 320)
        """
        self._storable("store_at")
        at, loop = self._inside_of(parent, scope, "store_at")
        with self._checked():
            self.store_type, self.store_stage, self.store_ivar = AttachType.SCOPE, at, loop

    def store_root(self) -> None:
        """Store the stage outside of all loops; otherwise like `store_at`."""
        self._storable("store_root")
        with self._checked():
            self.store_type, self.store_stage, self.store_ivar = AttachType.GROUP_ROOT, None, None

    def rolling_buffer(self) -> None:
        """Keep the elements of earlier iterations, across all serial loops around: `store_at` as far out as possible.

        Raises
        ------
        ScheduleError: the stage is not computed in a loop, or the innermost loop around it is not serial.
        """
        self._storable("rolling_buffer")
        target = self.attach_stage
        if self.attach_type is not AttachType.SCOPE or target is None:
            raise self._refusal("rolling_buffer follows compute_at")
        leaves = target.leaf_iter_vars
        around = leaves[: target.position_of(self.attach_ivar, "rolling_buffer") + 1]
        at_once = [k for k, leaf in enumerate(around) if runs_at_once(target, leaf) is not None]
        if at_once and at_once[-1] == len(around) - 1:
            raise self._refusal(f"rolling_buffer over {around[-1].name}, which is no serial loop")
        if at_once:
            self.store_at(target, around[at_once[-1]])
        else:
            self.store_root()

    def get_attach_spec(self) -> Stage:
        """Return the innermost attached one among the stage and its enclosing groups; the outermost one if none is
        attached.
        """
        spec = self
        while spec.attach_type is AttachType.GROUP_ROOT and spec.group is not None:
            spec = spec.group
        return spec

    def relocate(self, moved: Callable[[Stage, IterVar], tuple[Stage, IterVar]]) -> None:
        """Map the loops at which this stage is computed and stored."""
        if self.attach_stage is not None and self.attach_ivar is not None:
            self.attach_stage, self.attach_ivar = moved(self.attach_stage, self.attach_ivar)
        if self.store_stage is not None and self.store_ivar is not None:
            self.store_stage, self.store_ivar = moved(self.store_stage, self.store_ivar)

    # --- checks of attachments ---------------------------------------------------------------------------------

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Undo a change of attachment that prevents the storage from keeping elements."""
        before = dict(vars(self))
        yield
        try:
            self.kept_over()
        except ScheduleError:
            vars(self).update(before)
            raise

    def kept_over(self) -> tuple[IterVar, ...]:
        """Return the loops of the attach stage across which the storage keeps elements.

        Raises
        ------
        ScheduleError: a loop of the attach stage prevents that.
        """
        target = self.attach_stage
        if self.store_type is None or self.attach_type is not AttachType.SCOPE or target is None:
            return ()
        leaves = target.leaf_iter_vars
        position = next((k for k, leaf in enumerate(leaves) if leaf is self.attach_ivar), None)
        if position is None:  # of loops further out the schedule may still decide
            return ()
        around = tuple((target, leaf) for leaf in reversed(leaves[: position + 1]))
        return tuple(leaf for _, leaf in slid_loops(self, around, is_all=False))

    def _attachable(self, call: str) -> None:
        self.whole_own(call)
        if self.attach_type is AttachType.SCAN_UPDATE:
            raise self._refusal(f"{call} is not for the updates of a scan")

    def _storable(self, call: str) -> None:
        self.not_output(call)
        if not isinstance(self._op, ComputeOp):
            raise self._refusal(f"{call} is for operations made by te.compute")
        if self.is_inlined:
            raise self._refusal(f"{call} of a stage that is inlined, of which nothing is stored")
        if self.double_buffered:
            raise self._refusal(f"{call} of a stage with double_buffer, which is filled anew")

    def _detach(self, kind: AttachType) -> None:
        self.attach_type = kind
        self.attach_stage = self.attach_ivar = None
        self.store_type = self.store_stage = self.store_ivar = None

    def not_output(self, call: str) -> None:
        """Raise `ScheduleError` for an output of the schedule."""
        if self.is_output:
            raise self._refusal(f"{call} is not for an output of the schedule")

    def _inside_of(self, parent: object, scope: IterVar, call: str) -> tuple[Stage, IterVar]:
        """Return the loop as a leaf of a consumer of this stage.

        Raises
        ------
        ScheduleError: no stage that owns the loop (`Schedule.owners`) depends on this one.
        """
        if not isinstance(parent, Stage) or parent.schedule is not self.schedule:
            raise self._refusal(f"{call} needs a stage of the same schedule, not {shown(parent)}")
        parent.position_of(scope, f"{call} of {self.name}")
        if self.group is not None and not is_inside(parent, self.group):
            raise self._refusal(f"it cannot leave its group to be {_DONE[call]} at {parent.name}")
        for owner in self.schedule.owners(parent, scope):
            if self.schedule.is_consumer(owner[0], self):
                return owner
        raise ScheduleError(
            f"stage {self.name} cannot be {_DONE[call]} at {scope.name} of {parent.name}: "
            f"{parent.name} does not read {self.name}, not even through other stages"
        )

    # --- annotations --------------------------------------------------------------------------------------------

    def bind(self, ivar: IterVar, thread_ivar: IterVar) -> None:
        """Bind a loop to a thread axis."""
        if not isinstance(thread_ivar, IterVar) or thread_ivar.iter_type is not IterType.THREAD_INDEX:
            raise self._refusal(
                f"{_label(ivar)} can only be bound to an axis made by thread_axis, not to {_label(thread_ivar)}"
            )
        check_thread_tag(thread_ivar.thread_tag)
        self.position_of(ivar, "bind")
        if ivar.iter_type not in (IterType.DATA_PAR, IterType.COMM_REDUCE):
            raise self._refusal(f"the {ivar.iter_type.name} axis {ivar.name} cannot run on a thread")
        bound = self._attr(ivar).bind_thread
        if bound is not None and bound is not thread_ivar:
            raise self._refusal(f"{ivar.name} is already bound to {bound.name}")
        for other in self.leaf_iter_vars:
            if other is not ivar and self._attr(other).bind_thread is thread_ivar:
                raise self._refusal(f"{ivar.name} cannot be bound to {thread_ivar.name}, {other.name} already is")
        for stage, other in self._same_loop(ivar):
            attr = stage._attr(other)
            if attr.bind_thread not in (None, thread_ivar) or attr.iter_type is not None:
                raise self._refusal(
                    f"{ivar.name} cannot be bound to {thread_ivar.name}, "
                    f"it is one loop with {other.name} of {stage.name}, which is no such loop"
                )
        self._annotate(ivar, bind_thread=thread_ivar)

    def vectorize(self, var: IterVar) -> None:
        """Execute a loop as vector operations."""
        self._not_shared("vectorize", self.position_of(var, "vectorize"))
        self._set_kind(var, IterType.VECTORIZED)

    def unroll(self, var: IterVar) -> None:
        """Unroll a loop."""
        self._set_kind(var, IterType.UNROLLED)

    def parallel(self, var: IterVar) -> None:
        """Run the iterations of a loop in parallel."""
        self._set_kind(var, IterType.PARALLELIZED)

    def tensorize(self, var: IterVar, tensor_intrin: object) -> None:
        """Replace a loop and all inside it by an intrinsic."""
        self.position_of(var, "tensorize")
        self.whole_own("tensorize")
        self._annotate(var, iter_type=IterType.TENSORIZED, tensor_intrin=tensor_intrin)

    def pragma(self, var: IterVar, pragma_type: str, pragma_value: object = None) -> None:
        """Attach a pragma for code generation to a loop; "unroll" and "vectorize" call these methods."""
        if arguments.a_name(pragma_type, "the kind of a pragma") in ("unroll", "vectorize"):
            (self.unroll if pragma_type == "unroll" else self.vectorize)(var)
            return
        self.position_of(var, "pragma")
        self._annotate(var, pragmas=(*self._attr(var).pragmas, (pragma_type, pragma_value)))

    def prefetch(self, tensor: Tensor, var: IterVar, offset: IntLike) -> None:
        """Prefetch what a later iteration of a loop reads of a tensor."""
        self.position_of(var, "prefetch")
        distance = as_expr(offset, "offset of prefetch")
        self._annotate(var, prefetches=(*self._attr(var).prefetches, (tensor, distance)))

    def storage_align(self, axis: IterVar, factor: int, offset: int) -> None:
        """Align the storage: the stride of a dimension equals `offset` modulo `factor`."""
        if not any(iv is axis for iv in self.all_iter_vars):
            raise self._refusal(f"storage_align of {_label(axis)}, which is not one of its axes")
        pair = (as_int(factor, "factor of storage_align"), as_int(offset, "offset of storage_align"))
        if pair[0] < 1:
            raise self._refusal(f"the factor of storage_align of {axis.name} must be positive")
        self._annotate(axis, align=pair)

    def transform_layout(self, fn: Callable[..., object], pad_value: object = None) -> list[IterVar]:
        """Store the tensor's elements in another order: it is computed, passed and read at new indices.

        Parameters
        ----------
        fn: takes the indices and returns a list of new ones, among them `AXIS_SEPARATOR`; names after `*indices` are
            the last indices.
        pad_value: what places without an element hold, a number or a function of the new indices; by default 0, of a
            reduction its value for no elements.

        Returns
        -------
        The new axes; they are the loops.

        Raises
        ------
        ScheduleError: two elements have one place; the loops were split or fused; another operation than `te.compute`
            reads the tensor.

        Example
        -------
        >>> from bound import te
        >>> A = te.placeholder((64,), name="A")
        >>> B = te.compute((64,), lambda i: A[i] * 2, name="B")
        >>> s = te.create_schedule(B.op)
        >>> outer, inner = s[B].transform_layout(lambda i: [i // 4, i % 4])
        >>> s[B].op.output(0).shape, s[B].leaf_iter_vars == [outer, inner]
        ((16, 4), True)
        """
        return self.schedule.with_layout(self, fn, pad_value)

    def double_buffer(self) -> None:
        """Double the storage, so that a serial loop fills one copy while it reads the other."""
        self.not_output("double_buffer")
        if self.store_type is not None:
            raise self._refusal("double_buffer of a stage that keeps what it computed (store_at)")
        self.double_buffered = True

    def set_scope(self, scope: str) -> None:
        """Set the storage scope: `global`, `shared`, `warp`, `local`, ..."""
        check_scope(scope)
        self.scope = scope

    def set_store_predicate(self, predicate: Truth) -> None:
        """Store only elements for which the condition holds."""
        self.store_predicate = predicate

    def env_threads(self, threads: object) -> None:
        """Launch threads around a scan, outside of its loops."""
        axes = tuple(threads) if isinstance(threads, (list, tuple)) else (threads,)
        if not isinstance(self._op, ScanOp):
            raise self._refusal("env_threads is for scans only")
        if self.env_thread_vars:
            raise self._refusal("env_threads was called before")
        for axis in axes:
            if not isinstance(axis, IterVar) or axis.iter_type is not IterType.THREAD_INDEX:
                raise self._refusal(f"env_threads takes thread axes, not {_label(axis)}")
        self.env_thread_vars = axes
        self.leaf_iter_vars[:0] = axes
        self.all_iter_vars += axes

    # --- checks -------------------------------------------------------------------------------------------------

    def _not_shared(self, call: str, *places: int) -> None:
        shared = self.shared_loops
        first = min(places, default=max(shared, self.compute_at_position))
        if first < shared:
            axis = self.leaf_iter_vars[first].name
            raise self._refusal(f"cannot {call} {axis}, which is a loop of other stages as well")
        if call != "vectorize" and places:  # nobody reads the stage: the position counts loops that stay as they are
            self.compute_at_position = min(self.compute_at_position, first)

    def whole_own(self, call: str) -> None:
        """Raise `ScheduleError` if the stage shares loops with others."""
        if self.shared_loops:
            axis = self.leaf_iter_vars[0].name
            raise self._refusal(f"{call} would take away {axis}, a loop of other stages as well")

    def position_of(self, axis: object, call: str) -> int:
        """Return the position of `axis` among the loops.

        Raises
        ------
        ScheduleError: it is not a loop; names the relation that consumed it.
        """
        for k, leaf in enumerate(self.leaf_iter_vars):
            if leaf is axis:
                return k
        raise self._refusal(f"{call} of {_label(axis)}, {self._fate(axis)}")

    def _fate(self, axis: object) -> str:
        for relation in self.relations:
            if any(parent is axis for parent in relation.parents):
                names = " and ".join(iv.name for iv in relation.children)
                done = "fused into" if isinstance(relation, Fuse) else "replaced by"
                return f"which is no loop any more: it was {done} {names}"
        return f"which is not an axis of this stage: the loops are {self._loops()}"

    def _loops(self) -> str:
        return ", ".join(iv.name for iv in self.leaf_iter_vars) or "none"

    def _loop_position(self, axis: IterVar, call: str) -> int:
        position = self.position_of(axis, call)
        if axis.iter_type not in _LOOPS:
            raise self._refusal(f"cannot {call} the {axis.iter_type.name} axis {axis.name}")
        bound = self._attr(axis).bind_thread
        if bound is not None:
            raise self._refusal(f"cannot {call} {axis.name}, it is bound to {bound.name}")
        return position

    def _positive(self, size: object, what: str, axis: IterVar) -> Expr:
        try:
            e = as_expr(whole_number(size), what)
        except InputError:
            e = None
        upper = e.declared()[1] if isinstance(e, Var) else None
        if e is not None and upper is not None and upper < 1:
            raise self._refusal(f"{what} of {_label(axis)} must be positive, but {e} is declared to be at most {upper}")
        if e is None or (e.is_const and e.data < 1) or any(isinstance(v, IterVar) for v in e.free_vars()):
            raise self._refusal(f"{what} of {_label(axis)} must be a positive integer, not {shown(size)}")
        return e

    def _tail(self, tail: str, axis: IterVar) -> Tail:
        try:
            return Tail(tail)
        except ValueError:
            known = ", ".join(Tail)
            raise self._refusal(f"tail of {_label(axis)} is one of {known}, not {shown(tail)}") from None

    def _set_kind(self, axis: IterVar, kind: IterType) -> None:
        self.position_of(axis, kind.name.lower())
        if axis.is_reduce and kind in (IterType.VECTORIZED, IterType.PARALLELIZED):
            raise self._refusal(f"the reduction axis {axis.name} cannot be {kind.name.lower()}")
        if axis.iter_type is IterType.THREAD_INDEX:
            raise self._refusal(f"the thread axis {axis.name} cannot be {kind.name.lower()}")
        bound = self._attr(axis).bind_thread
        if bound is not None:
            raise self._refusal(f"{axis.name}, which is bound to {bound.name}, cannot be {kind.name.lower()}")
        anew = self.schedule.stored_anew.get(axis)
        if anew is not None and kind is IterType.PARALLELIZED:
            raise self._refusal(
                f"{axis.name} cannot be parallelized, {anew} stores the same elements in several of its iterations"
            )
        for stage, other in self._same_loop(axis):
            attr = stage._attr(other)
            runs_apart = other.is_reduce and kind is IterType.PARALLELIZED
            if attr.bind_thread is not None or (attr.iter_type or kind) is not kind or runs_apart:
                raise self._refusal(
                    f"{axis.name} cannot be {kind.name.lower()}, "
                    f"it is one loop with {other.name} of {stage.name}, which cannot"
                )
        self._annotate(axis, iter_type=kind)

    def _same_loop(self, axis: IterVar) -> list[tuple[Stage, IterVar]]:
        """List the leaves of other stages in the same shared loop."""
        return self.schedule.owners(self, axis)[1:]

    def _attr(self, axis: IterVar) -> IterVarAttr:
        return self.iter_var_attrs.get(axis, _NO_ATTR)

    def thread_of(self, axis: IterVar) -> IterVar | None:
        """Return the thread axis that a loop runs on; `None` for an ordinary loop."""
        return axis if axis.thread_tag else self.iter_var_attrs.get(axis, _NO_ATTR).bind_thread

    def tag_of(self, axis: IterVar) -> str:
        """Return the thread tag of a loop; empty for an ordinary loop."""
        thread = self.thread_of(axis)
        return "" if thread is None else thread.thread_tag

    def kind_of(self, axis: IterVar) -> IterType:
        """Return the kind of a loop, annotations included."""
        kind = self.iter_var_attrs.get(axis, _NO_ATTR).iter_type
        return axis.iter_type if kind is None else kind

    @property
    def is_inlined(self) -> bool:
        """Whether it is inlined into its consumers: it has no loops."""
        return self.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY)

    @property
    def is_tensorized(self) -> bool:
        """Whether an intrinsic replaces one of its loops."""
        return any(attr.iter_type is IterType.TENSORIZED for attr in self.iter_var_attrs.values())

    def _annotate(self, axis: IterVar, **parts: Any) -> None:
        """Annotate a loop, unless a stage could no longer keep its elements (`store_at`).

        Only loops of the attach stage are looked at; `lower` checks the outer ones.
        """
        before = self._attr(axis)
        self.iter_var_attrs[axis] = replace(before, **parts)
        try:
            for stage in self.schedule.stages:
                stage.kept_over()
        except ScheduleError:
            self.iter_var_attrs[axis] = before
            raise


def _listed(args: tuple[IterVar | Sequence[IterVar], ...]) -> tuple[IterVar, ...]:
    """Normalize `f(a, b)` and `f([a, b])` to a tuple."""
    axes: Any = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    return tuple(axes)


def _label(axis: object) -> str:
    return axis.name if isinstance(axis, Var) else shown(axis)

"""Where stages are computed and stored: attachment, the loops around each stage, storage and thread scopes.

Example: `s[B].compute_at(s[C], yi)` computes the part of `B` that one iteration of `yi` reads. `s[B].store_at(s[C],
yo)` allocates `B` once per iteration of `yo`, so elements computed by earlier iterations of `yi` are still there (a
sliding window).

Scopes say which threads share which memory. Block axes have rank 0, threads of a block rank 1. Global memory has rank
0, shared 1, warp 2, local 3. Threads share a storage if its rank is at most theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from bound.errors import ScheduleError
from bound.itervar import IterType, IterVar
from bound.operation import ComputeOp, Operation
from intset.expr.printer import shown

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule
    from bound.schedule.stage import IterVarAttr, Stage


LoopPath: TypeAlias = "Sequence[tuple[Stage, IterVar]]"
_DONE = {"compute_at": "computed", "store_at": "stored"}
_AT_ONCE = {
    IterType.PARALLELIZED: "runs in parallel",
    IterType.VECTORIZED: "is one vector operation",
    IterType.TENSORIZED: "is tensorized",
}


class AttachType(IntEnum):
    """How a stage is attached; the numbers are TVM's."""

    GROUP_ROOT = 1
    INLINE = 2
    INLINED_ALREADY = 3
    SCOPE = 4
    SCAN_UPDATE = 5


class Placing:
    """Base of `Stage`: where the stage is computed and stored.

    Invariant: a refused call leaves the attachment unchanged.

    Attributes
    ----------
    attach_type, attach_stage, attach_ivar: the loop in which it is computed.
    store_type, store_stage, store_ivar: the loop that contains its storage (`SCOPE`), or outside of all loops
        (`GROUP_ROOT`); `None` stores it where it is computed.
    """

    _op: Operation | None
    schedule: Schedule
    leaf_iter_vars: list[IterVar]
    iter_var_attrs: dict[IterVar, IterVarAttr]
    is_output: bool
    double_buffered: bool
    group: Stage | None
    attach_type: AttachType
    attach_stage: Stage | None
    attach_ivar: IterVar | None
    store_type: AttachType | None
    store_stage: Stage | None
    store_ivar: IterVar | None

    if TYPE_CHECKING:  # what `Stage` says of its loops

        @property
        def name(self) -> str: ...

        def position_of(self, axis: object, call: str) -> int: ...

        def whole_own(self, call: str) -> None: ...

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
        ScheduleError: a reduction, an output, or an operation not made by `te.compute`.
        """
        self._attachable("compute_inline")
        if not isinstance(self._op, ComputeOp):
            raise self._refusal("only an operation made by te.compute can be inlined")
        if self._op.reduction is not None:
            axis = self._op.reduce_axis[0].name
            raise self._refusal(f"a reduction cannot be inlined (it runs over {axis})")
        if self.is_output:
            raise self._refusal("an output of the schedule cannot be inlined")
        self._detach(AttachType.INLINE)

    def store_at(self, parent: Stage, scope: IterVar) -> None:
        """Store the stage for a whole iteration of the loop `scope` of `parent`, outside of the loop of `compute_at`.

        Loops in between reuse elements of earlier iterations and compute each element once (a sliding window). They
        must run
        sequentially.

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
        at_once = [k for k, leaf in enumerate(around) if _runs_at_once(target, leaf) is not None]
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
        spec: Any = self
        while spec.attach_type is AttachType.GROUP_ROOT and spec.group is not None:
            spec = spec.group
        attached: Stage = spec
        return attached

    def relocate(self, moved: Callable[[Stage, IterVar], tuple[Stage, IterVar]]) -> None:
        """Map the loops at which this stage is computed and stored."""
        if self.attach_stage is not None and self.attach_ivar is not None:
            self.attach_stage, self.attach_ivar = moved(self.attach_stage, self.attach_ivar)
        if self.store_stage is not None and self.store_ivar is not None:
            self.store_stage, self.store_ivar = moved(self.store_stage, self.store_ivar)

    # --- checks -------------------------------------------------------------------------------------------------

    @contextmanager
    def _checked(self) -> Iterator[None]:
        """Undo a change of attachment that prevents the storage from keeping elements."""
        computed = self.attach_type, self.attach_stage, self.attach_ivar
        stored = self.store_type, self.store_stage, self.store_ivar
        yield
        try:
            self.kept_over()
        except ScheduleError:
            self.attach_type, self.attach_stage, self.attach_ivar = computed
            self.store_type, self.store_stage, self.store_ivar = stored
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
        around = [(target, leaf) for leaf in reversed(leaves[: position + 1])]
        return tuple(leaf for _, leaf in slid_loops(self, around, is_all=False))

    def _attachable(self, call: str) -> None:
        self.whole_own(call)
        if self.attach_type is AttachType.SCAN_UPDATE:
            raise self._refusal(f"{call} is not for the updates of a scan")

    def _storable(self, call: str) -> None:
        self.not_output(call)
        if not isinstance(self._op, ComputeOp):
            raise self._refusal(f"{call} is for operations made by te.compute")
        if self.attach_type in (AttachType.INLINE, AttachType.INLINED_ALREADY):
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
        if not isinstance(parent, Placing) or parent.schedule is not self.schedule:
            raise self._refusal(f"{call} needs a stage of the same schedule, not {shown(parent)}")
        at, this = _stage(parent), _stage(self)
        at.position_of(scope, f"{call} of {self.name}")
        if self.group is not None and not is_inside(at, self.group):
            raise self._refusal(f"it cannot leave its group to be {_DONE[call]} at {at.name}")
        for owner in self.schedule.owners(at, scope):
            if self.schedule.is_consumer(owner[0], this):
                return owner
        raise ScheduleError(
            f"stage {self.name} cannot be {_DONE[call]} at {scope.name} of {at.name}: "
            f"{at.name} does not read {self.name}, not even through other stages"
        )


def _stage(placing: Placing) -> Stage:
    untyped: Any = placing
    stage: Stage = untyped
    return stage


def is_inside(stage: Stage | None, group: Stage) -> bool:
    """Return whether a stage belongs to a group, directly or through nested groups."""
    outer = stage
    while outer is not None and outer is not group:
        outer = outer.group
    return outer is group


def slid_loops(stage: Placing, around: LoopPath, is_all: bool = True) -> LoopPath:
    """Return the loops between the storage and the computation of a stage, innermost first.

    Parameters
    ----------
    around: the loops around the stage, innermost first.
    is_all: whether there are no others.

    Raises
    ------
    ScheduleError: the storage does not enclose the stage; a loop in between is parallel, shared or on threads.
    """
    if stage.store_type is None:
        return ()
    if not around:
        raise stage._refusal(f"it is stored {_place(stage)}, but computed at the root: compute_at places it in a loop")
    is_one = stage.schedule.is_one_loop
    position = next((k for k, (_, leaf) in enumerate(around) if is_one(leaf, stage.store_ivar)), None)
    if position is None and stage.store_type is AttachType.SCOPE:
        target, axis = around[0]
        owners = stage.schedule.owners(target, axis)
        further_in = [leaf for at, own in owners for leaf in at.leaf_iter_vars[at.position_of(own, "compute_at") + 1 :]]
        if any(is_one(leaf, stage.store_ivar) for leaf in further_in):
            raise stage._refusal(
                f"it is stored {_place(stage)}, which is inside {axis.name} of {target.name}, where it is computed"
            )
        if not is_all:
            return ()
        raise stage._refusal(
            f"it is stored {_place(stage)}, which is not around {axis.name} of {target.name}, where it is computed"
        )
    between = around[:position]
    for at, leaf in between:
        reason = _runs_at_once(at, leaf)
        if reason is not None:
            raise stage._refusal(
                f"it is stored {_place(stage)} to keep what iterations of "
                f"{leaf.name} of {at.name} compute, but that loop {reason}"
            )
    return between


def _place(stage: Placing) -> str:
    if stage.store_stage is None or stage.store_ivar is None:
        return "outside of all loops"
    return f"at {stage.store_ivar.name} of {stage.store_stage.name}"


def _runs_at_once(stage: Stage, leaf: IterVar) -> str | None:
    """Explain why a loop is not sequential; `None` if it is."""
    if len(stage.schedule.same_loop.get(leaf, ())) > 1:
        return "is a loop of several stages (bound.replay)"
    tag = stage.tag_of(leaf)
    return f"runs on {tag}" if tag else _AT_ONCE.get(stage.kind_of(leaf))


AttachPath: TypeAlias = "tuple[tuple[Stage, IterVar], ...]"


def create_attach_path(schedule: Schedule) -> dict[Stage, AttachPath]:
    """CreateAttachPath: list the loops around each stage, innermost first, each with the stage that owns it.

    A stage computed at the root has the empty path.

    Raises
    ------
    ScheduleError: an attach point is no loop any more, or a stage is computed inside itself.
    """
    paths: dict[Stage, AttachPath] = {}
    for stage in reversed(schedule.stages):  # consumers first: stages are attached to consumers
        _path(stage, paths)
    return paths


def _path(stage: Stage, paths: dict[Stage, AttachPath]) -> AttachPath:
    waiting = [stage]
    while waiting:
        top = waiting[-1]
        if top in paths:
            waiting.pop()
            continue
        target, axis = attachment(top)
        if target is None:
            paths[top] = ()
        elif target not in paths:
            if target in waiting:
                raise ScheduleError(f"stage {top.name}: it is computed inside itself")
            waiting.append(target)
        else:
            paths[top] = (*_loops_from(top, target, axis), *paths[target])
    return paths[stage]


def attachment(stage: Stage) -> tuple[Stage | None, IterVar | None]:
    """Return the stage and the loop in which `stage` is computed; (`None`, `None`) at the root."""
    spec = stage.get_attach_spec()
    if spec.attach_type is AttachType.SCOPE:
        return spec.attach_stage, spec.attach_ivar
    if spec.attach_type is AttachType.SCAN_UPDATE:
        scan = spec.attach_stage
        assert scan is not None
        return scan, scan_loop(scan)
    return None, None


def scan_loop(scan: Stage) -> IterVar:
    """Return the innermost loop of a scan, in which its updates are computed."""
    return scan.leaf_iter_vars[-1]


def _loops_from(stage: Stage, target: Stage, axis: IterVar | None) -> AttachPath:
    """List the loops of `target` from `axis` outwards."""
    leaves = target.leaf_iter_vars
    for k in range(len(leaves) - 1, -1, -1):
        if leaves[k] is axis:
            return tuple((target, leaf) for leaf in reversed(leaves[: k + 1]))
    name = "" if axis is None else axis.name
    if target.attach_type is AttachType.INLINED_ALREADY:
        raise stage._refusal(f"it is computed at {name} of {target.name}, which is inlined")
    raise stage._refusal(f"it is computed at {name} of {target.name}, which is no loop of {target.name} any more")


def check_attachments(schedule: Schedule) -> dict[Stage, AttachPath]:
    """Refuse a schedule in which a consumer is outside of the loop that computes its producer; returns the attach
    paths.

    Raises
    ------
    ScheduleError: names the producer, the loop and the consumer.
    """
    paths = create_attach_path(schedule)
    stage_of = {stage.op: stage for stage in schedule.stages}
    for consumer in schedule.stages:
        if consumer.attach_type is AttachType.INLINED_ALREADY:
            continue
        slid_loops(consumer, paths[consumer])
        for tensor in consumer.op.input_tensors:
            producer = stage_of.get(tensor.op)
            if producer is None or producer.attach_type is AttachType.INLINED_ALREADY or not paths[producer]:
                continue
            if not _encloses(paths[producer], consumer, paths[consumer]):
                target, axis = paths[producer][0]
                raise ScheduleError(
                    f"stage {producer.name}: it is computed at {axis.name} of {target.name}, "
                    f"but {consumer.name}, which reads it, is outside that loop"
                )
    return paths


def _encloses(path: AttachPath, consumer: Stage, consumer_path: AttachPath) -> bool:
    """Return whether `consumer` runs inside the innermost loop of `path`."""
    target, axis = path[0]
    own = consumer.leaf_iter_vars  # a loop that is shared is a leaf of several stages
    return target is consumer or any(loop is axis for loop in (*own, *(loop for _, loop in consumer_path)))


WARP: Final = 2
_STORAGE: Final = {"": 0, "global": 0, "shared": 1, "warp": WARP, "local": 3, "wmma": 3, "texture": 0}
_PIPELINE: Final = "pipeline"


def check_scope(scope: object) -> str:
    """Return `scope` if it names a storage scope; raise `ScheduleError` otherwise."""
    if not isinstance(scope, str) or scope.partition(".")[0] not in _STORAGE:
        raise ScheduleError(f"a storage scope is one of global, shared, warp, local, wmma.*, not {shown(scope)}")
    return scope


def check_thread_tag(tag: str) -> str:
    """Return `tag` if it names a thread axis; raise `ScheduleError` otherwise."""
    name, _, dim = tag.partition(".")
    if name in ("blockIdx", "threadIdx") and dim in ("x", "y", "z"):
        return tag
    if name in ("vthread", "cthread", _PIPELINE):
        return tag
    known = "blockIdx.x, threadIdx.x (or .y, .z), vthread, cthread, pipeline"
    raise ScheduleError(f"a thread tag is one of {known}, not {shown(tag)}")


def thread_rank(tag: str) -> int | None:
    """Return 0 for block axes, 1 for threads of a block, `None` for ordinary loops and pipelines."""
    if not tag or tag == _PIPELINE:
        return None
    return 0 if tag.startswith("blockIdx") else 1


def storage_rank(scope: str) -> int:
    """Return the rank of a storage scope; `wmma.accumulator` counts as `wmma`."""
    return _STORAGE[scope.partition(".")[0]]


def default_storage_rank(thread_tags: tuple[str, ...]) -> int:
    """Return the storage rank of a stage without scope inside loops with these thread tags."""
    ranks = [rank for tag in thread_tags if (rank := thread_rank(tag)) is not None]
    return {-1: 0, 0: 1, 1: 3}[max(ranks, default=-1)]


def needs_relax(tag: str, storage: int, is_inside: bool) -> bool:
    """NeedRelax: return whether a loop of the consumer must be relaxed for a producer with this storage rank.

    A loop is relaxed if one instance of the producer serves all of its iterations. Ordinary loops are relaxed if they
    are inside of the attach point; thread loops if the threads share the storage, even around the attach point.

    Parameters
    ----------
    tag: the thread tag of the loop or of the axis bound to it; empty for an ordinary loop.
    storage: the rank of the producer's storage.
    is_inside: whether the producer is computed inside the loop.
    """
    rank = thread_rank(tag)
    if rank is None:
        return not is_inside
    if storage == WARP and tag == "threadIdx.x":  # the lanes of a warp share it
        return True
    return storage <= rank

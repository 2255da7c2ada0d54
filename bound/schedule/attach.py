"""Where stages are computed and stored: attachment, the loops around each stage, storage and thread scopes.

Example: `s[B].compute_at(s[C], yi)` computes the part of `B` that one iteration of `yi` reads. `s[B].store_at(s[C],
yo)` allocates `B` once per iteration of `yo`, so elements computed by earlier iterations of `yi` are still there (a
sliding window).

Scopes say which threads share which memory. Block axes have rank 0, threads of a block rank 1. Global memory has rank
0, shared 1, warp 2, local 3. Threads share a storage if its rank is at most theirs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from bound.errors import ScheduleError
from bound.itervar import IterType, IterVar
from intset.expr import shown

if TYPE_CHECKING:
    from bound.schedule.schedule import Schedule
    from bound.schedule.stage import Stage


AttachPath: TypeAlias = "tuple[tuple[Stage, IterVar], ...]"
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


def is_inside(stage: Stage | None, group: Stage) -> bool:
    """Return whether a stage belongs to a group, directly or through nested groups."""
    return stage is not None and group in (stage, *stage.groups)


def slid_loops(stage: Stage, around: AttachPath, is_all: bool = True) -> AttachPath:
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
        raise ScheduleError(
            f"stage {stage.name}: it is stored {_place(stage)}, but computed at the root: compute_at places "
            f"it in a loop"
        )
    is_one = stage.schedule.is_one_loop
    position = next((k for k, (_, leaf) in enumerate(around) if is_one(leaf, stage.store_ivar)), None)
    if position is None and stage.store_type is AttachType.SCOPE:
        target, axis = around[0]
        owners = stage.schedule.owners(target, axis)
        further_in = [leaf for at, own in owners for leaf in at.leaf_iter_vars[at.position_of(own, "compute_at") + 1 :]]
        if any(is_one(leaf, stage.store_ivar) for leaf in further_in):
            raise ScheduleError(
                f"stage {stage.name}: it is stored {_place(stage)}, which is inside {axis.name} of "
                f"{target.name}, where it is computed"
            )
        if not is_all:
            return ()
        raise ScheduleError(
            f"stage {stage.name}: it is stored {_place(stage)}, which is not around {axis.name} of "
            f"{target.name}, where it is computed"
        )
    between = around[:position]
    for at, leaf in between:
        reason = runs_at_once(at, leaf)
        if reason is not None:
            raise ScheduleError(
                f"stage {stage.name}: it is stored {_place(stage)} to keep what iterations of "
                f"{leaf.name} of {at.name} compute, but that loop {reason}"
            )
    return between


def _place(stage: Stage) -> str:
    if stage.store_stage is None or stage.store_ivar is None:
        return "outside of all loops"
    return f"at {stage.store_ivar.name} of {stage.store_stage.name}"


def runs_at_once(stage: Stage, leaf: IterVar) -> str | None:
    """Explain why a loop is not sequential; `None` if it is."""
    if len(stage.schedule.same_loop.get(leaf, ())) > 1:
        return "is a loop of several stages (bound.replay)"
    tag = stage.tag_of(leaf)
    return f"runs on {tag}" if tag else _AT_ONCE.get(stage.kind_of(leaf))


def create_attach_path(schedule: Schedule) -> dict[Stage, AttachPath]:
    """CreateAttachPath: list the loops around each stage, innermost first, each with the stage that owns it.

    A stage computed at the root has the empty path.

    Raises
    ------
    ScheduleError: an attach point is no loop any more, or a stage is computed inside itself.
    """
    paths: dict[Stage, AttachPath] = {}
    for stage in reversed(schedule.stages):
        outwards: dict[Stage, tuple[Stage | None, IterVar | None]] = {}
        at: Stage | None = stage
        while at is not None and at not in paths:
            if at in outwards:
                raise ScheduleError(f"stage {list(outwards)[-1].name}: it is computed inside itself")
            outwards[at] = attachment(at)
            at = outwards[at][0]
        for inner, (target, axis) in reversed(outwards.items()):
            paths[inner] = () if target is None else (*_loops_from(inner, target, axis), *paths[target])
    return paths


def attachment(stage: Stage) -> tuple[Stage | None, IterVar | None]:
    """Return the stage and the loop in which `stage` is computed; (`None`, `None`) at the root."""
    spec = stage.get_attach_spec()
    if spec.attach_type is AttachType.SCOPE:
        return spec.attach_stage, spec.attach_ivar
    if spec.attach_type is AttachType.SCAN_UPDATE:
        scan = spec.attach_stage
        assert scan is not None
        return scan, scan.leaf_iter_vars[-1]  # the innermost loop, in which its updates are computed
    return None, None


def _loops_from(stage: Stage, target: Stage, axis: IterVar | None) -> AttachPath:
    """List the loops of `target` from `axis` outwards."""
    leaves = target.leaf_iter_vars
    for k in range(len(leaves) - 1, -1, -1):
        if leaves[k] is axis:
            return tuple((target, leaf) for leaf in reversed(leaves[: k + 1]))
    name = "" if axis is None else axis.name
    if target.attach_type is AttachType.INLINED_ALREADY:
        raise ScheduleError(f"stage {stage.name}: it is computed at {name} of {target.name}, which is inlined")
    raise ScheduleError(
        f"stage {stage.name}: it is computed at {name} of {target.name}, which is no loop of {target.name} any more"
    )


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
            target, axis = paths[producer][0]
            # a loop that is shared is a leaf of several stages
            around = (*consumer.leaf_iter_vars, *(loop for _, loop in paths[consumer]))
            if target is not consumer and not any(loop is axis for loop in around):
                raise outside(consumer, producer, paths[producer])
    return paths


def outside(consumer: Stage, producer: Stage, path: AttachPath) -> ScheduleError:
    """The refusal of a consumer that is outside of the innermost loop of its producer's path."""
    target, axis = path[0]
    return ScheduleError(
        f"stage {producer.name}: it is computed at {axis.name} of {target.name}, "
        f"but {consumer.name}, which reads it, is outside that loop"
    )


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


def needs_relax(tag: str, storage: int) -> bool:
    """NeedRelax: return whether a loop around the attach point of a producer with this storage rank must be relaxed.

    A loop is relaxed if one instance of the producer serves all of its iterations: around the attach point, a thread
    loop whose threads share the storage.

    Parameters
    ----------
    tag: the thread tag of the loop or of the axis bound to it; empty for an ordinary loop.
    storage: the rank of the producer's storage.
    """
    rank = thread_rank(tag)
    if rank is None:
        return False
    if storage == WARP and tag == "threadIdx.x":  # the lanes of a warp share it
        return True
    return storage <= rank

"""Ranks of thread axes and of storage: which memory is shared by which threads.

Block axes have rank 0, threads inside a block rank 1. Global memory has rank 0, shared 1, warp 2, local (and what is
private to a thread) 3. A stage stored at rank `r` is seen by all threads whose rank is at least `r`.
"""

from __future__ import annotations

from typing import Final

from bound.errors import ScheduleError
from intset.expr.text import shown

WARP: Final = 2
_STORAGE: Final = {"": 0, "global": 0, "shared": 1, "warp": WARP, "local": 3, "wmma": 3, "texture": 0}
_PIPELINE: Final = "pipeline"


def check_scope(scope: object) -> str:
    """`scope` when it names a storage scope, else a refusal."""
    if not isinstance(scope, str) or scope.partition(".")[0] not in _STORAGE:
        raise ScheduleError(f"a storage scope is one of global, shared, warp, local, wmma.*, not {shown(scope)}")
    return scope


def check_thread_tag(tag: str) -> str:
    """`tag` when it names a thread axis, else a refusal."""
    name, _, dim = tag.partition(".")
    if name in ("blockIdx", "threadIdx") and dim in ("x", "y", "z"):
        return tag
    if name in ("vthread", "cthread", _PIPELINE):
        return tag
    known = "blockIdx.x, threadIdx.x (or .y, .z), vthread, cthread, pipeline"
    raise ScheduleError(f"a thread tag is one of {known}, not {shown(tag)}")


def thread_rank(tag: str) -> int | None:
    """0 for block axes, 1 for threads of a block, `None` for what is no thread (an ordinary loop, a pipeline)."""
    if not tag or tag == _PIPELINE:
        return None
    return 0 if tag.startswith("blockIdx") else 1


def storage_rank(scope: str) -> int:
    """The rank of a storage scope; `wmma.accumulator` and the like count by their first part."""
    return _STORAGE[scope.partition(".")[0]]


def default_storage_rank(thread_tags: tuple[str, ...]) -> int:
    """The rank of the storage of a stage inside loops with these tags, when its scope is not set."""
    ranks = [rank for tag in thread_tags if (rank := thread_rank(tag)) is not None]
    return {-1: 0, 0: 1, 1: 3}[max(ranks, default=-1)]


def needs_relax(tag: str, storage: int, is_inside: bool) -> bool:
    """Whether a producer with storage of this rank must serve every iteration of a loop of the consumer at once.

    Parameters
    ----------
    tag: the thread tag of the loop or of the axis it is bound to; empty for an ordinary loop.
    storage: the rank of the producer's storage.
    is_inside: whether the producer is computed inside the loop.

    For an ordinary loop that is a matter of place alone. A loop on threads is relaxed, even around the producer, when
    the threads share the storage.
    """
    rank = thread_rank(tag)
    if rank is None:
        return not is_inside
    if storage == WARP and tag == "threadIdx.x":  # the lanes of a warp share it
        return True
    return storage <= rank

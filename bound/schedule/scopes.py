"""Storage and thread scopes: which threads share which memory.

Block axes have rank 0, threads of a block rank 1. Global memory has rank 0, shared 1, warp 2, local 3. Threads share a
storage if its rank is at most theirs.
"""

from __future__ import annotations

from typing import Final

from bound.errors import ScheduleError
from intset.expr.text import shown

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

"""Dynamic storage allocation: offsets of blocks with known sizes whose lifetimes are intervals.

Blocks that live at one time must not overlap in storage; the end of the last block is minimized. First fit, each block
at the lowest offset free during its lifetime, is optimal for some order of the blocks. Up to `EXHAUSTIVE` blocks all
orders are tried; beyond that a few usual orders (Gergov 1999 proves constant factors), and the best is improved by
exchanging pairs, within a budget. The maximum of bytes that live at one time is a lower bound; reaching it ends the
search.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final

EXHAUSTIVE: Final = 6
EXCHANGES: Final = 2_000
ALIGNMENT: Final = 64


@dataclass(frozen=True)
class StorageBlock:
    """`size` bytes with a lifetime from `first` to `last`, inclusive."""

    size: int
    first: int
    last: int

    def meets(self, other: StorageBlock) -> bool:
        """Whether the lifetimes intersect."""
        return self.first <= other.last and other.first <= self.last


def placed(blocks: Sequence[StorageBlock]) -> tuple[list[int], int]:
    """An offset for each block, a multiple of `ALIGNMENT`, and the end of the last block."""
    least = lower_bound(blocks)
    best: tuple[list[int], int] = ([], 0)
    for k, order in enumerate(_orders(blocks)):
        found = _first_fit(blocks, order)
        if k == 0 or found[1] < best[1]:
            best = found
            chosen = list(order)
        if best[1] <= least:
            return best
    if len(blocks) > EXHAUSTIVE:
        best = _improved(blocks, chosen, best, least)
    return best


def lower_bound(blocks: Sequence[StorageBlock]) -> int:
    """The maximum of bytes that live at one time."""
    return max((sum(b.size for b in blocks if b.first <= a.first <= b.last) for a in blocks), default=0)


def _orders(blocks: Sequence[StorageBlock]) -> Iterable[Sequence[int]]:
    numbers = range(len(blocks))
    if len(blocks) <= EXHAUSTIVE:
        return permutations(numbers)
    return [
        sorted(numbers, key=lambda k: (-blocks[k].size, blocks[k].first)),
        sorted(numbers, key=lambda k: (-blocks[k].size * (blocks[k].last - blocks[k].first + 1), blocks[k].first)),
        sorted(numbers, key=lambda k: (blocks[k].first, -blocks[k].size)),
        sorted(numbers, key=lambda k: (blocks[k].first - blocks[k].last, -blocks[k].size)),
    ]


def _first_fit(blocks: Sequence[StorageBlock], order: Sequence[int]) -> tuple[list[int], int]:
    offsets = [0] * len(blocks)
    done: list[int] = []
    end = 0
    for k in order:
        block = blocks[k]
        around = sorted((offsets[j], offsets[j] + blocks[j].size) for j in done if blocks[j].meets(block))
        place = 0
        for start, stop in around:
            if place + block.size <= start:
                break
            place = max(place, -(-stop // ALIGNMENT) * ALIGNMENT)
        offsets[k] = place
        end = max(end, place + block.size)
        done.append(k)
    return offsets, end


def _improved(
    blocks: Sequence[StorageBlock], order: list[int], best: tuple[list[int], int], least: int
) -> tuple[list[int], int]:
    """Improve a placement by exchanging pairs in the order; an exchange stays unless it raises the end."""
    state = 1
    for _ in range(EXCHANGES // max(1, len(blocks) // 16)):
        state = (state * 1_103_515_245 + 12_345) % (1 << 31)  # deterministic
        i, j = (state >> 8) % len(order), (state >> 19) % len(order)
        order[i], order[j] = order[j], order[i]
        found = _first_fit(blocks, order)
        if found[1] > best[1]:
            order[i], order[j] = order[j], order[i]
            continue
        best = found
        if best[1] <= least:
            break
    return best


@dataclass(frozen=True)
class Slots:
    """Blocks of unknown sizes in slots.

    Invariant: blocks of a slot have disjoint lifetimes; the slot is as large as the largest.
    """

    slot_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]


def slotted(lifetimes: Sequence[StorageBlock], sizes: Sequence[object]) -> Slots:
    """Assign blocks to a minimum of slots: greedily by start, which is optimal for intervals; equal sizes first.

    Parameters
    ----------
    lifetimes: blocks whose sizes are ignored.
    sizes: keys that are equal for blocks of equal size.
    """
    members: list[list[int]] = []
    slot_of = [0] * len(lifetimes)
    for k in sorted(range(len(lifetimes)), key=lambda k: (lifetimes[k].first, k)):
        free = [s for s, inside in enumerate(members) if not any(lifetimes[j].meets(lifetimes[k]) for j in inside)]
        same = [s for s in free if any(sizes[j] == sizes[k] for j in members[s])]
        if free:
            slot = (same or free)[0]
            members[slot].append(k)
        else:
            slot = len(members)
            members.append([k])
        slot_of[k] = slot
    return Slots(tuple(slot_of), tuple(map(tuple, members)))

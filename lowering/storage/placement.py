"""Dynamic storage allocation: offsets for blocks of known sizes whose lives are intervals.

Two blocks that live at one time must not overlap in storage; the end of the last block is to be as low as possible.
Placing the blocks one after another, each at the lowest offset that is free during its life, gives the optimum for some
order of the blocks. Up to `EXHAUSTIVE` blocks all orders are tried. Beyond that the usual orders are (Gergov 1999
proves a constant factor for some of them), and the best one is improved by exchanging two blocks, within a budget. The
most that lives at one time is a lower bound; reaching it ends every search.
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
class Block:
    """`size` bytes that live from position `first` to position `last`, both included."""

    size: int
    first: int
    last: int

    def meets(self, other: Block) -> bool:
        """Whether both live at one time."""
        return self.first <= other.last and other.first <= self.last


def placed(blocks: Sequence[Block]) -> tuple[list[int], int]:
    """An offset for each block, each a multiple of `ALIGNMENT`, and the end of the last one."""
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


def lower_bound(blocks: Sequence[Block]) -> int:
    """The most bytes that live at one time."""
    return max((sum(b.size for b in blocks if b.first <= a.first <= b.last) for a in blocks), default=0)


def _orders(blocks: Sequence[Block]) -> Iterable[Sequence[int]]:
    numbers = range(len(blocks))
    if len(blocks) <= EXHAUSTIVE:
        return permutations(numbers)
    return [
        sorted(numbers, key=lambda k: (-blocks[k].size, blocks[k].first)),
        sorted(numbers, key=lambda k: (-blocks[k].size * (blocks[k].last - blocks[k].first + 1), blocks[k].first)),
        sorted(numbers, key=lambda k: (blocks[k].first, -blocks[k].size)),
        sorted(numbers, key=lambda k: (blocks[k].first - blocks[k].last, -blocks[k].size)),
    ]


def _first_fit(blocks: Sequence[Block], order: Sequence[int]) -> tuple[list[int], int]:
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
    blocks: Sequence[Block], order: list[int], best: tuple[list[int], int], least: int
) -> tuple[list[int], int]:
    """The placement after exchanges of two blocks in the order, each kept unless it makes things worse."""
    state = 1
    for _ in range(EXCHANGES // max(1, len(blocks) // 16)):
        state = (state * 1_103_515_245 + 12_345) % (1 << 31)  # the same exchanges on every machine
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
    """Blocks of unknown sizes in slots: no two blocks of a slot live at one time, and it is as large as its largest."""

    slot_of: tuple[int, ...]
    members: tuple[tuple[int, ...], ...]


def slotted(lives: Sequence[Block], alike: Sequence[object]) -> Slots:
    """As few slots as possible (lives are intervals: in the order of their starts, greedily), of equal sizes if it can
    be chosen.

    Parameters
    ----------
    lives: when the blocks live; their sizes do not count.
    alike: what blocks of equal size have in common.
    """
    members: list[list[int]] = []
    slot_of = [0] * len(lives)
    for k in sorted(range(len(lives)), key=lambda k: (lives[k].first, k)):
        free = [s for s, inside in enumerate(members) if not any(lives[j].meets(lives[k]) for j in inside)]
        same = [s for s in free if any(alike[j] == alike[k] for j in members[s])]
        if free:
            slot = (same or free)[0]
            members[slot].append(k)
        else:
            slot = len(members)
            members.append([k])
        slot_of[k] = slot
    return Slots(tuple(slot_of), tuple(map(tuple, members)))

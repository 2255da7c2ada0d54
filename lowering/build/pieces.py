"""The words for what becomes of a stage whose region is no box.

guard       one nest over the box, its guards where they are decided
ends        the same, with what a guard says of one loop as the end of that loop (`lowering.passes.loops.tightening`)
split       a nest for each of the disjoint pieces of the region, as far as there are such, their loops with such ends
partition   one guarded nest, whose loops are taken apart into an interior without a guard and borders
            (`lowering.passes.loops.index_set_splitting`)
auto        the cheapest of these (`lowering.forms`)
"""

from __future__ import annotations

from typing import Final

from bound.infer import BoundsMap, StagePiece
from bound.schedule import Stage

NESTS: Final = ("auto", "guard", "ends", "split", "partition")
MAX_PIECES: Final = 8  # more are not looked for


def pieces_of(bounds: BoundsMap, stage: Stage) -> tuple[StagePiece, ...] | None:
    """The nests of a stage over the pieces of its region; `None` where there are none."""
    found = bounds.pieces(stage, MAX_PIECES)
    return None if found is None else found.pieces

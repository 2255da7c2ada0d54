"""One guarded nest or several nests without that guard: the cost model.

A stage whose region is no box is computed by a nest over the box with a guard, or by nests over disjoint pieces of the
region (`b.pieces`). Both run the body for the same elements, so the body is left out of the comparison. What
else a nest costs, with its loops over the data from the outside in, `n_k` iterations of the first `k` of them (`n_0` is
1) in the largest instance, `t_k` comparisons and divisions of the guards decided there, and `e_k` minima, maxima and
divisions in the ends of loop `k`:

    cost = NEST + sum(n_k * (ITERATION + TEST * t_k) for k >= 1) + TEST * t_0 + sum(n_(k-1) * END * e_k for k >= 1)

Counted are the loops of the axes before they are split or fused. Of the guarded nest, `n_k` counts the iterations of
the box, and inside the last of its guards those that pass it. Several nests cost the sum of theirs; they are chosen
where that is less. A single piece is the guarded nest with its guard in the ends of its loops.

Where iterations depend on sizes there is nothing to compare: several nests are chosen if they are one, or at most
`SYMBOLIC_PIECES` boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bound.infer import BoundsMap, Piece, Pieces, Work
from bound.schedule import Stage

NESTS: Final = ("auto", "guard", "split")
NEST: Final = 16  # to begin a nest and to leave it (the jump is predicted wrongly), and for the length of the code
ITERATION: Final = 1  # of a loop: count and compare
TEST: Final = 1  # one comparison or division of a guard
END: Final = 1  # a minimum, maximum or division in an end of a loop
MAX_PIECES: Final = 8  # more are not looked for
SYMBOLIC_PIECES: Final = 2


def choose(bounds: BoundsMap, stage: Stage, nests: str) -> tuple[Piece, ...] | None:
    """The nests for a stage, or `None` for the guarded one.

    Parameters
    ----------
    nests: "guard": never several; "split": several wherever there are; "auto": where they cost less.
    """
    found = None if nests == "guard" else bounds.pieces(stage, MAX_PIECES)
    if found is None or not (nests == "split" or _is_cheaper(found)):
        return None
    return found.pieces


def _is_cheaper(found: Pieces) -> bool:
    counts = [count for piece in found.pieces for count in piece.work.iterations]
    if None in counts or None in found.guarded.iterations:
        number = len(found.pieces)
        return number == 1 or (number <= SYMBOLIC_PIECES and all(piece.is_box for piece in found.pieces))
    split = sum(cost(piece.work, piece.work.iterations) for piece in found.pieces)
    return split < cost(found.guarded, _passing(found))


def _passing(found: Pieces) -> list[int | None]:
    """How often each loop of the guarded nest runs."""
    last = max((k for k, number in enumerate(found.guarded.tests) if number), default=0)
    through = [sum(counts) for counts in zip(*(_numbers(piece.work.iterations) for piece in found.pieces), strict=True)]
    return [
        count if k < last or count is None else min(count, through[k])
        for k, count in enumerate(found.guarded.iterations)
    ]


def _numbers(counts: Sequence[int | None]) -> list[int]:
    return [0 if n is None else n for n in counts]


def cost(work: Work, iterations: Sequence[int | None]) -> int:
    """The cost of a nest without its body, by the formula above."""
    counts = [1, *_numbers(iterations)]
    total = NEST + TEST * work.tests[0]
    for k, (tests, ends) in enumerate(zip(work.tests[1:], work.ends, strict=True), 1):
        total += counts[k] * (ITERATION + TEST * tests) + counts[k - 1] * END * ends
    return total

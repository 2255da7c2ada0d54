"""Facts that are ends of one variable each: read at once, as the general way reads them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from intset import Context, Range, Var, frame
from intset.frame import Frame

X, Y, Z = (Var(name) for name in "xyz")


def stated(seed: int) -> tuple[dict[Var, Range], list[Any]]:
    """Ranges of numbers, and comparisons of a variable with a number; rarely others."""
    r = random.Random(seed)
    ranges = {v: Range(r.randint(-3, 5), r.choice((1, 2, 5, 9))) for v in (X, Y, Z)[: r.randint(1, 3)]}
    facts = []
    for _ in range(r.randint(1, 4)):
        v, c = r.choice(list(ranges)), r.randint(-4, 14)
        facts.append(r.choice((v < c, v <= c, v > c, v >= c, v.eq(c), v.ne(c) if r.random() < 0.2 else v < c)))
    return ranges, facts


def read(ranges: dict[Var, Range], facts: list[Any]) -> tuple[object, ...]:
    scope: Frame = Context(ranges, assume=facts).frame
    known = scope.known
    intervals = None if known.empty else dict(known.ranges)
    return intervals, known.empty, known.depth, known.is_box, repr(known.assumptions), scope.conditions, scope.running


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
def test_as_the_general_way_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = [stated(seed) for seed in range(400)]
    at_once = [read(*one) for one in drawn]
    count = sum(frame._within_ends(Frame.of(r).base, f) is not None for r, f in drawn)
    assert count > 80
    monkeypatch.setattr(frame, "_within_ends", lambda base, facts: None)
    assert at_once == [read(*one) for one in drawn]

"""`Verdict`: whether a map has a property, and where it has not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from intset.expr.node import Var
from intset.prover.proof import PROVED, REFUTED, UNKNOWN

Point = tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """Proved, refuted or unknown. `bool(verdict)` is true only when proved.

    Attributes
    ----------
    status: "proved", for all sizes; "refuted", for `sizes`; "unknown".
    points: when refuted, two old points that arrive at one place, or the one place that no point arrives at.
    sizes: the values of the sizes for which that is so.
    reason: why it is unknown, in words.
    """

    status: str
    points: tuple[Point, ...] = ()
    sizes: Mapping[Var, int] = field(default_factory=dict)
    reason: str = ""

    def __bool__(self) -> bool:
        return self.status == PROVED

    def __repr__(self) -> str:
        at = ", ".join(f"{v} = {k}" for v, k in self.sizes.items())
        where = " and ".join(map(str, self.points)) + (f" for {at}" if at else "")
        return f"<{self.status}{': ' if where or self.reason else ''}{where or self.reason}>"


YES = Verdict(PROVED)


def no(points: tuple[Point, ...], sizes: Mapping[Var, int]) -> Verdict:
    return Verdict(REFUTED, points, dict(sizes))


def open_(reason: str) -> Verdict:
    return Verdict(UNKNOWN, reason=reason)


def both(first: Verdict, second: Verdict) -> Verdict:
    """Whether a map has two properties."""
    for status in (REFUTED, UNKNOWN):
        for verdict in (first, second):
            if verdict.status == status:
                return verdict
    return YES

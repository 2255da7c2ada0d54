"""Worlds that another one makes needless: it costs no more, and whatever its paddings are asked to hold it can do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from bound.tir.walk import nodes
from lowering.padding.states import PLACE, UNDEF, UNTOUCHED, State
from lowering.padding.unknowns import Unknowns
from lowering.padding.worlds import World

_PLACES = frozenset(PLACE)


def undominated(worlds: Sequence[World], unknowns: Unknowns) -> list[World]:
    """The worlds that no other one dominates, of those that come by their cost."""
    kept: list[World] = []
    by_frame: dict[Any, list[States]] = {}
    for world in worlds:
        states = States(world, unknowns)
        others = by_frame.setdefault(states.frame, [])
        if not any(other.cover(states) for other in others):
            others.append(states)
            kept.append(world)
    return kept


class States:
    """The states of all versions in a world.

    Attributes
    ----------
    frame: the versions without their states: only worlds with the same ones are compared.
    """

    def __init__(self, world: World, unknowns: Unknowns) -> None:
        live = sorted(world.live.items())
        self.frame = tuple(
            (t, held.logical is not None, held.made, tuple(v.grid.key for v in held.packed)) for t, held in live
        )
        self._states = [v.state for _, held in live for v in held.packed]
        self._unknowns = [() if isinstance(s, State) else tuple(unknowns.within(s)) for s in self._states]
        self._uses = Counter(u for some in self._unknowns for u in some)
        self._uniform = world.uniform

    def cover(self, other: States) -> bool:
        """Whether each version can be whatever the same one of the other world can be, independently."""
        return all(self._covers(k, other) for k in range(len(self._states)))

    def _covers(self, k: int, other: States) -> bool:
        mine, theirs = self._states[k], other._states[k]
        if theirs is UNTOUCHED or (theirs is UNDEF and mine is not UNTOUCHED):
            return True
        if isinstance(mine, State) or isinstance(theirs, State):
            return False
        if not self._unknowns[k]:
            return mine is theirs
        own = self._unknowns[k]
        if own != (mine,) or self._uses[own[0]] != 1:
            return False  # not free, or not independent of others
        if mine not in self._uniform:
            return True
        is_same = all(u in other._uniform for u in other._unknowns[k])
        return is_same and not any(node in _PLACES for node in nodes(theirs))

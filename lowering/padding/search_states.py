"""Search states of the planner: tensor versions, decisions and cost so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import nodes, rewrite
from lowering.padding.moves import Move
from lowering.padding.packed import Grid
from lowering.padding.states import PLACE, UNDEF, UNTOUCHED, Planned, State
from lowering.padding.unknowns import Unknowns


class Version(NamedTuple):
    """A tensor in one layout.

    Attributes
    ----------
    number: version number in the plan.
    grid: layout grid.
    state: padding state: a `State`, or an expression over unknowns.
    """

    number: int
    grid: Grid
    state: Planned


@dataclass(frozen=True)
class Held:
    """The available versions of a tensor.

    Attributes
    ----------
    logical: number of the logical version; `None` before it exists.
    made: true if a call or the caller produced the logical version.
    packed: packed versions; if `made` is false, the first is a call's result.
    """

    logical: int | None
    made: bool
    packed: tuple[Version, ...] = ()


class Trail(NamedTuple):
    """Linked list of moves; `also` holds an independent part's earlier moves."""

    before: Trail | None
    move: Move | None
    also: Trail | None = None


@dataclass(frozen=True, eq=False)
class SearchState:
    """One alternative of the search: decisions with their versions and cost.

    Attributes
    ----------
    cost: total cost of the moves.
    live: versions of tensors with remaining readers, by tensor number.
    uniform: unknowns constrained to one value over the whole padding.
    trail: past moves.
    bound: triangular substitution of solved unknowns, a linked list with the latest first. Each entry has a flag for
        pure renaming, which requires no value.
    results: version numbers of graph outputs, by tensor number.
    """

    cost: Any
    live: dict[int, Held]
    uniform: frozenset[Parameter] = frozenset()
    trail: Trail | None = None
    bound: tuple[Any, ...] | None = None
    results: dict[int, int] = field(default_factory=dict)

    def holding(self, tensor: int, held: Held) -> SearchState:
        return replace(self, live={**self.live, tensor: held})

    def moved(self, price: Any, move: Move) -> SearchState:
        return replace(self, cost=self.cost + price, trail=Trail(self.trail, move))

    def without(self, tensor: int) -> SearchState:
        return replace(self, live={t: held for t, held in self.live.items() if t != tensor})

    def where(
        self, values: dict[Parameter, Operand], uniform: frozenset[Parameter], renames: bool = False
    ) -> SearchState:
        """Substitute values for unknowns in every state."""
        if not values:
            return self if uniform == self.uniform else replace(self, uniform=uniform)
        live = {t: _bound(held, values) for t, held in self.live.items()}
        return replace(self, live=live, uniform=uniform, bound=(self.bound, values, renames))

    def beside(self, other: SearchState) -> SearchState:
        """Combine the search states of two independent parts."""
        bound = self.bound
        chain = other.bound
        parts = []
        while chain is not None:
            parts.append(chain[1:])
            chain = chain[0]
        for part in reversed(parts):
            bound = (bound, *part)
        trail = Trail(self.trail, None, other.trail)
        live, results = {**self.live, **other.live}, {**self.results, **other.results}
        return SearchState(self.cost + other.cost, live, self.uniform | other.uniform, trail, bound, results)

    def moves(self) -> list[Move]:
        """List all moves in execution order."""
        found: list[Move] = []
        waiting: list[Trail] = [] if self.trail is None else [self.trail]
        while waiting:
            trail = waiting.pop()
            if trail.move is not None:
                found.append(trail.move)
            # The traversal is reversed: earlier moves go deeper into the stack.
            waiting += [part for part in (trail.before, trail.also) if part is not None]
        return found[::-1]


def _bound(held: Held, values: dict[Parameter, Operand]) -> Held:
    packed = tuple(v if isinstance(v.state, State) else v._replace(state=rewrite(v.state, values)) for v in held.packed)
    return replace(held, packed=packed)


_PLACES = frozenset(PLACE)


def undominated(search_states: Sequence[SearchState], unknowns: Unknowns) -> list[SearchState]:
    """Drop search states that a cheaper search state dominates.

    Parameters
    ----------
    search_states: ordered by cost.
    """
    kept: list[SearchState] = []
    by_frame: dict[Any, list[States]] = {}
    for search_state in search_states:
        states = States(search_state, unknowns)
        others = by_frame.setdefault(states.frame, [])
        if not any(other.cover(states) for other in others):
            others.append(states)
            kept.append(search_state)
    return kept


class States:
    """Padding states of a search state's versions, comparable for dominance.

    Attributes
    ----------
    frame: versions without states; dominance requires equal frames.
    """

    def __init__(self, search_state: SearchState, unknowns: Unknowns) -> None:
        live = sorted(search_state.live.items())
        self.frame = tuple(
            (t, held.logical is not None, held.made, tuple(v.grid.key for v in held.packed)) for t, held in live
        )
        self._states = [v.state for _, held in live for v in held.packed]
        self._unknowns = [() if isinstance(s, State) else tuple(unknowns.within(s)) for s in self._states]
        self._uses = Counter(u for some in self._unknowns for u in some)
        self._uniform = search_state.uniform

    def cover(self, other: States) -> bool:
        """Test dominance: each version can independently take every state of its counterpart in `other`."""
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

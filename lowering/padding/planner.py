"""Cheapest plan by dynamic programming over independent parts of a graph.

A part is a set of tensors with jointly decided versions; its search states are alternative decisions. Calls run in
order: each call merges the parts of its inputs and extends every search state by every alternative. Of equivalent
states the cheapest is kept. On trees, each part is one tensor: textbook dynamic programming. Shared tensors enlarge
parts; branch and bound keeps the search exact, with a narrow beam search supplying the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from bound.tir.reduce import Parameter
from bound.tir.value import parameter
from bound.tir.walk import rewrite
from intset.budgets import SEARCH_STATES
from intset.expr.node import PlainVar
from lowering.padding.call_alternatives import CallAlternatives
from lowering.padding.moves import Step
from lowering.padding.packed import Grid
from lowering.padding.plan import Plan
from lowering.padding.resolve import resolved
from lowering.padding.search_states import Held, SearchState, Version, undominated
from lowering.padding.states import NOTHING, Planned, State

if TYPE_CHECKING:
    from lowering.padding.graph import Call, Graph, GraphTensor

NARROW: Final = 12  # beam width of the bounding search

Price = Callable[[Step], Any]


def planned(graph: Graph, price: Price) -> Plan:
    """Find a cheapest plan; over budget, return the beam search's plan with a note."""
    narrow = Search(graph, price, NARROW, None)
    best = narrow.best()
    if narrow.was_narrow:
        wide = Search(graph, price, None, best.cost)
        found = wide.best()
        if not wide.is_over:
            return resolved(graph, wide.alternatives, found, "")
        note = f"over the budget of {SEARCH_STATES} partial plans: cheaper plans may exist"
        return resolved(graph, narrow.alternatives, best, note)
    return resolved(graph, narrow.alternatives, best, "")


class Search:
    """One pass over the calls.

    Parameters
    ----------
    width: beam width, the number of search states kept per part; `None` keeps all search states within `bound`.
    bound: cost limit; `None` disables it.
    """

    def __init__(self, graph: Graph, price: Price, width: int | None, bound: Any) -> None:
        self.graph, self.width, self.bound = graph, width, bound
        self.calls = _needed(graph)
        last = {t.number: call for call in self.calls for t in call.inputs}
        self.alternatives = CallAlternatives(price, _wanted(self.calls), last, _layouts(self.calls))
        self.was_narrow = self.is_over = False
        self._looked = 0
        self._canonical: dict[str, list[Parameter]] = {}

    def best(self) -> SearchState:
        """Find the cheapest search state that computes all outputs."""
        left = _readers(self.calls)
        parts: dict[int, list[SearchState]] = {}
        where: dict[int, int] = {}
        for tensor in self.graph.inputs:
            number = self.alternatives.version(tensor, None, None)
            where[tensor.number] = tensor.number
            parts[tensor.number] = [SearchState(0, {tensor.number: Held(number, True)})]
        self._left_alone(parts, where, left, self.graph.inputs)
        for call in self.calls:
            names = list(dict.fromkeys(where[t.number] for t in call.inputs))
            search_states = self._joined([parts.pop(name) for name in names])
            own = call.output.number
            for t, name in where.items():
                if name in names:
                    where[t] = own
            where[own] = own
            found: dict[tuple[object, ...], SearchState] = {}
            for read in call.inputs:
                left[read.number] -= 1
            done = [t for t in dict.fromkeys((*call.inputs, call.output)) if left.get(t.number, 0) == 0]
            for search_state in search_states:
                for after in self.alternatives.after(search_state, call):
                    self._keep(found, self._closed(after, done))
                    self._looked += 1
                if self.width is None and self._looked > SEARCH_STATES:
                    self.is_over = True
                    return SearchState(0, {})
            parts[own] = self._kept(found)
        (search_state,) = self._joined([[min(search_states, key=_cost)] for search_states in parts.values()])
        return search_state

    def _left_alone(
        self,
        parts: dict[int, list[SearchState]],
        where: dict[int, int],
        left: dict[int, int],
        inputs: Iterable[GraphTensor],
    ) -> None:
        """Close unread inputs."""
        for tensor in inputs:
            if left.get(tensor.number, 0) == 0:
                parts[tensor.number] = [self._closed(w, [tensor]) for w in parts[tensor.number]]

    def _closed(self, search_state: SearchState, done: Iterable[GraphTensor]) -> SearchState:
        """Drop dead tensors from a search state, after cropping graph outputs to their logical version."""
        for tensor in done:
            if tensor in self.graph.outputs:
                search_state, number = self.alternatives.cropped(search_state, tensor)
                search_state = replace(search_state, results={**search_state.results, tensor.number: number})
            search_state = search_state.without(tensor.number)
        return search_state

    # -- search states -------------------------------------------------------------------------------------------------

    def _joined(self, parts: list[list[SearchState]]) -> list[SearchState]:
        search_states = parts[0] if parts else [SearchState(0, {})]
        for other in parts[1:]:
            search_states = [a.beside(b) for a in search_states for b in other]
            if self.bound is not None:
                search_states = [w for w in search_states if w.cost <= self.bound]
            if self.width is not None and len(search_states) > self.width:
                self.was_narrow = True
                search_states = sorted(search_states, key=_cost)[: self.width]
        return search_states

    def _keep(self, found: dict[tuple[object, ...], SearchState], search_state: SearchState) -> None:
        if self.bound is not None and search_state.cost > self.bound:
            return
        key = self._key(search_state)
        if key not in found or search_state.cost < found[key].cost:
            found[key] = search_state

    def _kept(self, found: dict[tuple[object, ...], SearchState]) -> list[SearchState]:
        search_states = undominated(sorted(found.values(), key=_cost), self.alternatives.unknowns)
        if self.width is not None and len(search_states) > self.width:
            self.was_narrow = True
            return search_states[: self.width]
        return search_states

    def _key(self, search_state: SearchState) -> tuple[object, ...]:
        """Canonical key of a search state, equal for equivalent ones; unknowns are renumbered by occurrence."""
        live = sorted(search_state.live.items())
        states = [v.state for _, held in live for v in held.packed if not isinstance(v.state, State)]
        free = list(dict.fromkeys(u for e in states for u in self.alternatives.unknowns.within(e)))
        names: dict[Parameter, Parameter] = {}
        taken: dict[str, int] = {}
        for u in free:
            dtype = self.alternatives.unknowns.known[u].dtype
            taken[dtype] = taken.get(dtype, 0) + 1
            names[u] = self._name(dtype, taken[dtype] - 1)
        held = tuple((t, h.logical is not None, h.made, tuple(_named(v, names) for v in h.packed)) for t, h in live)
        return held, tuple(u in search_state.uniform for u in free)

    def _name(self, dtype: str, k: int) -> Parameter:
        names = self._canonical.setdefault(dtype, [])
        while len(names) <= k:
            is_int = dtype.startswith(("int", "uint"))
            names.append(PlainVar(f"{dtype}.{len(names)}") if is_int else parameter(f"{dtype}.{len(names)}", dtype))
        return names[k]


def _named(version: Version, names: dict[Parameter, Parameter]) -> tuple[object, Planned]:
    """Return a version's layout key and its state with renamed unknowns."""
    state = version.state
    return version.grid.key, state if isinstance(state, State) else rewrite(state, names)


def _cost(search_state: SearchState) -> Any:
    return search_state.cost


def _needed(graph: Graph) -> list[Call]:
    """Select the calls that contribute to outputs, in order."""
    needed = set(graph.outputs)
    found: list[Call] = []
    for call in reversed(graph.calls):
        if call.output in needed:
            found.append(call)
            needed.update(call.inputs)
    return found[::-1]


def _readers(calls: Iterable[Call]) -> dict[int, int]:
    """Count the reads of each tensor."""
    left: dict[int, int] = {}
    for call in calls:
        for tensor in call.inputs:
            left[tensor.number] = left.get(tensor.number, 0) + 1
    return left


def _layouts(calls: Iterable[Call]) -> dict[int, dict[Any, Grid]]:
    """Collect the layouts that readers may request, by tensor number and grid key."""
    found: dict[int, dict[Any, Grid]] = {}
    for call in calls:
        for option in call.options:
            for tensor, port in zip(call.inputs, option.inputs, strict=True):
                if port.grid is not None:
                    found.setdefault(tensor.number, {}).setdefault(port.grid.key, port.grid)
    return found


def _wanted(calls: Iterable[Call]) -> dict[tuple[int, Any], bool]:
    """Mark each tensor and layout with a possible padding requirement."""
    found: dict[tuple[int, Any], bool] = {}
    for call in calls:
        for option in call.options:
            for tensor, port in zip(call.inputs, option.inputs, strict=True):
                if port.grid is not None and port.state is not NOTHING:
                    found[tensor.number, port.grid.key] = True
    return found

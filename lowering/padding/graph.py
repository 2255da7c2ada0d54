"""`Graph`: calls on logical tensors, each with alternative implementations, and its cheapest plan.

The plan is found by dynamic programming with dominance and branch and bound. A *search state* is a partial plan: its
cost, the versions of every tensor that is still read, and the values that it gave to metavariables. A *part* is a set
of tensors whose versions were decided together, with the search states left for it; initially every graph input forms
one part. Calls are visited in order. For each call:

1. The states of its inputs are joined into one state: every combination of their search states, costs added.
2. Every search state is extended by every alternative of the call. For each option, and each input in turn:

       reuse  a version in the port's layout whose padding has what the port requires, with metavariables
              bound where that makes it so
       pad    the logical version, or copy a packed version, whichever costs less
       crop   to the logical version, where the port is logical, or where a pad after it may cost less than a copy

   then the call itself, and a second time with a fill of its output's padding, where some reader constrains that.
3. A tensor without readers left leaves the search state; a result of the graph is cropped before.
4. Of search states that are equal up to the names of metavariables the cheapest stays, and dominated ones go.

The cheapest search state of the last parts, joined, is the plan. On trees every part is one tensor, which makes this
the textbook's dynamic programming; tensors with several readers make larger parts.

Why no plan costs less: versions are created just before their first reader; an earlier position costs the same. Steps
cost at least 0, and what a search state can still do depends on its versions and their padding alone, so a dropped one
is never part of a cheaper plan. The first search keeps the `NARROW` cheapest search states of a part. Where it dropped
others, its plan only bounds the cost of a second search, which keeps every search state up to this bound. If that
exceeds `SEARCH_STATES`, the plan of the first search is returned with a note.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final, NamedTuple

from bound import dtypes
from bound.tensor import Tensor, element
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import nodes, rewrite
from intset.config import Configured, all_as_configured
from intset.errors import InputError
from intset.expr import Expr, arguments, dag, shown
from lowering.errors import InterfaceError
from lowering.layout.transform import tensor_like
from lowering.nest import ir
from lowering.nest.names import untaken
from lowering.padding import states
from lowering.padding.contract import CallOption, Port, option_of
from lowering.padding.metavariables import Metavariables, Solution, Substitution, final_values, normalized, solutions
from lowering.padding.plan import Call, GraphTensor, Move, Plan, Step, Trail, Version, finished
from lowering.padding.states import NOTHING, PLACE, READABLE, UNDEF, UNTOUCHED, Grid, PadValue, Planned, State

SEARCH_STATES: Final = 60_000  # states that are looked at

NARROW: Final = 12  # search states of a part that the first search keeps

Price = Callable[[Step], Any]
Tensors = Sequence[GraphTensor]


def planned(calls: list[Call], inputs: Tensors, outputs: Tensors, price: Price) -> Plan:
    """Find a cheapest plan; over budget, return the first search's plan with a note."""
    narrow = Search(calls, inputs, outputs, price, NARROW)
    best = narrow.best()
    if not narrow.was_narrow:
        return narrow.plan(best, "")
    wide = Search(calls, inputs, outputs, price, None, best.cost)
    cheapest = wide.best()
    if not wide.is_over:
        return wide.plan(cheapest, "")
    return narrow.plan(best, f"over the budget of {SEARCH_STATES} partial plans: cheaper plans may exist")


# -- search states ----------------------------------------------------------------------------------------------------


class Versions(NamedTuple):
    """Versions of a tensor: the number of its logical version, or `None`, and its packed versions."""

    logical: int | None
    packed: tuple[Version, ...] = ()


@dataclass(frozen=True, eq=False)
class SearchState:
    """A partial plan.

    Attributes
    ----------
    cost: total cost of the moves.
    live: versions of tensors with remaining readers, by tensor number.
    uniform: metavariables constrained to one value over the whole padding.
    results: version numbers of graph outputs, by tensor number.
    """

    cost: Any
    live: dict[int, Versions]
    uniform: frozenset[Parameter] = frozenset()
    trail: Trail | None = None
    results: dict[int, int] = field(default_factory=dict)

    def moved(self, price: Any, move: Move, versions: Versions) -> SearchState:
        """The state after a move that leaves its tensor in `versions`."""
        live = {**self.live, move.step.tensor.number: versions}
        return replace(self, cost=self.cost + price, trail=Trail(self.trail, move), live=live)

    def without(self, tensor: int) -> SearchState:
        return replace(self, live={t: versions for t, versions in self.live.items() if t != tensor})

    def where(self, solution: Solution, is_renaming: bool = False) -> SearchState:
        """Substitute the values of a solution in every padding state."""
        values, uniform = solution
        if not values:
            return self if uniform == self.uniform else replace(self, uniform=uniform)

        def substituted(p: Version) -> Version:
            return p if isinstance(p.state, State) else p._replace(state=rewrite(p.state, values))

        live = {t: v._replace(packed=tuple(map(substituted, v.packed))) for t, v in self.live.items()}
        trail = Trail(self.trail, Substitution(values, is_renaming))
        return replace(self, live=live, uniform=uniform, trail=trail)

    def beside(self, other: SearchState) -> SearchState:
        """Combine the search states of two independent parts."""
        trail = Trail(self.trail, None, other.trail)
        live, results = {**self.live, **other.live}, {**self.results, **other.results}
        return SearchState(self.cost + other.cost, live, self.uniform | other.uniform, trail, results)


class PaddingStates:
    """Padding states of a search state's versions, comparable for equivalence and dominance.

    Attributes
    ----------
    frame: versions without their padding; equivalence and dominance require equal frames.
    """

    def __init__(self, search_state: SearchState, metavariables: Metavariables) -> None:
        live = sorted(search_state.live.items())
        self.frame = tuple((t, held.logical is not None, tuple(v.grid.key for v in held.packed)) for t, held in live)
        self._states = [v.state for _, held in live for v in held.packed]
        self._free = [() if isinstance(s, State) else tuple(metavariables.within(s)) for s in self._states]
        self._uses = Counter(v for some in self._free for v in some)
        self._uniform, self._metavariables = search_state.uniform, metavariables

    def key(self) -> tuple[object, ...]:
        """A key that is equal for padding that is equal up to the names of metavariables."""
        states, free = self._metavariables.canonical(self._states)
        return self.frame, states, tuple(v in self._uniform for v in free)

    def dominates(self, other: PaddingStates) -> bool:
        """Test that each version can independently take every state of its counterpart in `other`."""
        return self.frame == other.frame and all(self._covers(k, other) for k in range(len(self._states)))

    def _covers(self, k: int, other: PaddingStates) -> bool:
        mine, theirs = self._states[k], other._states[k]
        if theirs is UNTOUCHED or (theirs is UNDEF and mine is not UNTOUCHED):
            return True
        if isinstance(mine, State) or isinstance(theirs, State):
            return False
        own = self._free[k]
        if not own:
            return mine is theirs
        if own != (mine,) or self._uses[own[0]] != 1:
            return False  # not free, or not independent of others
        if mine not in self._uniform:
            return True
        is_same = all(v in other._uniform for v in other._free[k])
        return is_same and not any(node in states.PLACES for node in nodes(theirs))


# -- the search -------------------------------------------------------------------------------------------------------


class Search:
    """One pass over the calls.

    Parameters
    ----------
    width: number of search states kept per part; `None` keeps all within `bound`.
    bound: cost limit; `None` disables it.

    Attributes
    ----------
    was_narrow: search states were dropped because of `width`.
    is_over: the pass ended early, over the budget.
    """

    def __init__(
        self, calls: list[Call], inputs: Tensors, outputs: Tensors, price: Price, width: int | None, bound: Any = None
    ) -> None:
        self.calls, self.inputs, self.outputs = calls, inputs, outputs
        self.price, self.width, self.bound = price, width, bound
        self.was_narrow = self.is_over = False
        self.metavariables = Metavariables()
        self.versions: list[Version] = []
        self._looked = 0
        self._readers = Counter(t.number for call in self.calls for t in call.inputs)
        self._last = {t.number: call for call in self.calls for t in call.inputs}
        self._layouts: dict[int, dict[Any, Grid]] = {}  # requested layouts, by tensor and key
        self._constrained: set[tuple[int, Any]] = set()  # tensors with layouts whose padding a reader constrains
        for tensor, port in (pair for call in self.calls for option in call.options for pair in _ports(call, option)):
            if port.grid is not None:
                self._layouts.setdefault(tensor.number, {}).setdefault(port.grid.key, port.grid)
                if port.state is not NOTHING:
                    self._constrained.add((tensor.number, port.grid.key))
        self._loaded: dict[Any, Tensor] = {}

    def best(self) -> SearchState:
        """Find the cheapest search state that computes all outputs."""
        left = self._readers.copy()
        parts: dict[int, list[SearchState]] = {}
        part_of: dict[int, int] = {}
        for tensor in self.inputs:
            start = SearchState(0, {tensor.number: Versions(self._version(tensor).number)})
            parts[tensor.number] = [start if left[tensor.number] else self._closed(start, [tensor])]
            part_of[tensor.number] = tensor.number
        for call in self.calls:
            own = call.output.number
            names = list(dict.fromkeys(part_of[t.number] for t in call.inputs))
            joined = self._joined([parts.pop(name) for name in names])
            part_of.update({t: own for t, name in part_of.items() if name in names})
            part_of[own] = own
            left.subtract(t.number for t in call.inputs)
            done = [t for t in dict.fromkeys((*call.inputs, call.output)) if not left[t.number]]
            cheapest: dict[tuple[object, ...], tuple[SearchState, PaddingStates]] = {}
            for before in joined:
                for extended in self._after(before, call):
                    self._looked += 1
                    after = self._closed(extended, done)
                    if self.bound is not None and after.cost > self.bound:
                        continue
                    padding = PaddingStates(after, self.metavariables)
                    key = padding.key()
                    if key not in cheapest or after.cost < cheapest[key][0].cost:
                        cheapest[key] = after, padding
                if self.width is None and self._looked > SEARCH_STATES:
                    self.is_over = True
                    return SearchState(0, {})
            parts[own] = self._cut(_undominated(sorted(cheapest.values(), key=lambda pair: pair[0].cost)))
        (best,) = self._joined([[min(part, key=attrgetter("cost"))] for part in parts.values()])
        return best

    def _joined(self, parts: list[list[SearchState]]) -> list[SearchState]:
        joined = parts[0] if parts else [SearchState(0, {})]
        for other in parts[1:]:
            joined = [a.beside(b) for a in joined for b in other]
            if self.bound is not None:
                joined = [state for state in joined if state.cost <= self.bound]
            if self.width is not None and len(joined) > self.width:
                joined = self._cut(sorted(joined, key=attrgetter("cost")))
        return joined

    def _cut(self, ordered: list[SearchState]) -> list[SearchState]:
        """The cheapest search states, as many as the width allows."""
        if self.width is None or len(ordered) <= self.width:
            return ordered
        self.was_narrow = True
        return ordered[: self.width]

    def _closed(self, search_state: SearchState, done: Iterable[GraphTensor]) -> SearchState:
        """Drop tensors without readers left, after cropping graph outputs to their logical version."""
        for tensor in done:
            if tensor in self.outputs:
                search_state, number = self._cropped(search_state, tensor)
                search_state = replace(search_state, results={**search_state.results, tensor.number: number})
            search_state = search_state.without(tensor.number)
        return search_state

    # -- alternatives of one call ---------------------------------------------------------------------------------

    def _after(self, search_state: SearchState, call: Call) -> Iterator[SearchState]:
        """Yield one successor state per alternative of the call."""
        for option in call.options:
            alternatives: list[tuple[SearchState, tuple[int, ...]]] = [(search_state, ())]
            gives = option.output.state
            told = gives.inputs if isinstance(gives, PadValue) else ()
            for tensor, port in _ports(call, option):
                alternatives = [
                    (after, (*reads, number))
                    for before, reads in alternatives
                    for after, number in self._provided(before, tensor, port, port.tensor in told)
                ]
            for before, reads in alternatives:
                yield from self._called(before, call, option, reads)

    def _provided(
        self, search_state: SearchState, tensor: GraphTensor, port: Port, matters: bool
    ) -> Iterator[tuple[SearchState, int]]:
        """Yield successor states with a version that the port accepts, each with the version number.

        Parameters
        ----------
        matters: the output's padding depends on the padding of this input.
        """
        if port.grid is None:
            yield self._cropped(search_state, tensor)
            return
        for version in search_state.live[tensor.number].packed:
            if version.grid.key != port.grid.key:
                continue
            for after in self._reused(search_state, version, port):
                yield after, version.number
                if after is search_state and not (matters and port.state is READABLE):
                    return  # reuse is free and binds no metavariable
        yield from self._converted(search_state, tensor, port, port.grid)

    def _reused(self, search_state: SearchState, version: Version, port: Port) -> Iterator[SearchState]:
        """Yield successor states whose bindings make the version satisfy the port."""
        need, state = port.state, version.state
        if need is NOTHING or not version.grid.padding or (need is READABLE and state is not UNTOUCHED):
            yield search_state
        elif isinstance(need, PadValue) and not isinstance(state, State):
            wanted, uniform = self._required(version.grid, port, need), search_state.uniform
            for solution in solutions(self.metavariables, state, wanted, port.dtype, version.grid.padding, uniform):
                yield search_state.where(solution)

    def _converted(
        self, search_state: SearchState, tensor: GraphTensor, port: Port, grid: Grid
    ) -> Iterator[tuple[SearchState, int]]:
        """Yield successor states with a new version for the port: padded, copied, or padded after a crop."""
        need = port.state
        state = self._required(grid, port, need) if isinstance(need, PadValue) else self.metavariables.new(port.dtype)
        versions = search_state.live[tensor.number]
        pad, copy = (self.price(_conversion(kind, tensor, grid)) for kind in ("pad", "copy"))
        if versions.packed and (versions.logical is None or copy < pad):
            yield self._packed(search_state, tensor, grid, "copy", state)
        elif versions.logical is not None:
            yield self._packed(search_state, tensor, grid, "pad", state)
        if versions.logical is None and pad < copy:
            yield self._packed(self._cropped(search_state, tensor)[0], tensor, grid, "pad", state)
        if not versions.packed and copy < pad:  # via another requested layout, which other readers may share
            for key, other in self._layouts[tensor.number].items():
                if key != grid.key:
                    before, _ = self._packed(search_state, tensor, other, "pad", self.metavariables.new(tensor.dtype))
                    yield self._packed(before, tensor, grid, "copy", state)

    def _required(self, grid: Grid, port: Port, need: PadValue) -> Operand:
        """The required padding value, its loads renamed from the port's tensor to one tensor per layout and type."""
        if not need.inputs:
            return need.expr
        own = self._loaded.setdefault((grid.key, port.dtype), tensor_like(port.tensor, port.tensor.extents, None))
        return rewrite(need.expr, on_load=lambda t, at: element(own, at))

    def _packed(
        self, search_state: SearchState, tensor: GraphTensor, grid: Grid, kind: str, state: Operand
    ) -> tuple[SearchState, int]:
        """Pad or copy to a new version; returns the successor state and the version number."""
        versions = search_state.live[tensor.number]
        source = versions.logical if kind == "pad" else versions.packed[0].number
        assert source is not None
        made, step = self._version(tensor, grid, state), _conversion(kind, tensor, grid)
        versions = versions._replace(packed=(*versions.packed, made))
        return search_state.moved(self.price(step), Move(step, (source,), made.number), versions), made.number

    def _cropped(self, search_state: SearchState, tensor: GraphTensor) -> tuple[SearchState, int]:
        """Crop to the logical version unless it exists; returns the successor state and the version number."""
        versions = search_state.live[tensor.number]
        if versions.logical is not None:
            return search_state, versions.logical
        number = self._version(tensor).number
        step = Step("crop", tensor, versions.packed[0].grid.layout, elements=math.prod(tensor.shape))
        move = Move(step, (versions.packed[0].number,), number)
        return search_state.moved(self.price(step), move, versions._replace(logical=number)), number

    def _called(
        self, search_state: SearchState, call: Call, option: CallOption, reads: tuple[int, ...]
    ) -> Iterator[SearchState]:
        """Yield the successor state of the call itself, and the one that fills its output's padding."""
        tensor, grid = call.output, option.output.grid
        step = Step("call", tensor, None if grid is None else grid.layout, function=option.function)
        if grid is None:
            number = self._version(tensor).number
            yield search_state.moved(self.price(step), Move(step, reads, number, option), Versions(number))
            return
        state, solution = self._promised(search_state, call, option, reads)
        search_state = search_state.where(solution, is_renaming=True)
        made = self._version(tensor, grid, state)
        after = search_state.moved(self.price(step), Move(step, reads, made.number, option), Versions(None, (made,)))
        yield after
        if (tensor.number, grid.key) in self._constrained and grid.padding:
            value = self.metavariables.new(tensor.dtype)
            fill = Step("fill", tensor, grid.layout, elements=len(grid.padding))
            filled = self._version(tensor, grid, value)
            after = after.where(Solution({}, after.uniform | {value}))
            yield after.moved(self.price(fill), Move(fill, (made.number,), filled.number), Versions(None, (filled,)))

    def _promised(
        self, search_state: SearchState, call: Call, option: CallOption, reads: tuple[int, ...]
    ) -> tuple[Planned, Solution]:
        """The padding state of the output, and the bindings of metavariables that simplify it."""
        gives = option.output.state
        nothing = Solution({}, search_state.uniform)
        if not isinstance(gives, PadValue):
            return gives, nothing
        known: dict[Tensor, Operand] = {}
        for (tensor, port), number in zip(_ports(call, option), reads, strict=True):
            for version in search_state.live[tensor.number].packed:
                if version.number == number and not isinstance(version.state, State):
                    known[port.tensor] = version.state
        if any(t not in known for t in gives.inputs):
            return UNDEF, nothing
        uniform = set(search_state.uniform)

        def loaded(tensor: Tensor, at: tuple[Expr, ...]) -> Operand:
            state = known[tensor]
            if any(a is not p for a, p in zip(at, PLACE, strict=False)):
                uniform.update(self.metavariables.within(state))
            own = rewrite(state, dict(zip(PLACE, at, strict=False)))
            return states.of_type(own, tensor.dtype, self.metavariables.dtypes)

        value = states.folded(rewrite(gives.expr, on_load=loaded), option.output.dtype)
        if not isinstance(value, PadValue):
            return value, Solution({}, frozenset(uniform))
        still_read = [versions for t, versions in search_state.live.items() if self._last.get(t) is not call]
        values = [v.state for versions in still_read for v in versions.packed if not isinstance(v.state, State)]
        taken = set(self.metavariables.within(*values))
        return normalized(self.metavariables, value.expr, option.output.dtype, frozenset(uniform), taken)

    def plan(self, search_state: SearchState, note: str) -> Plan:
        """The plan of a search state, with the values of its metavariables."""
        entries = [] if search_state.trail is None else search_state.trail.entries()
        moves = [entry for entry in entries if isinstance(entry, Move)]
        values = final_values([entry for entry in entries if isinstance(entry, Substitution)], self.metavariables)
        done, versions = finished(moves, self.versions, values, self.metavariables, self.inputs)
        results = tuple(search_state.results[t.number] for t in self.outputs)
        inputs = {t: k for k, t in enumerate(self.inputs)}
        return Plan(inputs, done, results, versions, search_state.cost, note)

    def _version(self, tensor: GraphTensor, grid: Grid | None = None, state: Planned | None = None) -> Version:
        self.versions.append(Version(len(self.versions), tensor, grid, state))
        return self.versions[-1]


def _undominated(ordered: Sequence[tuple[SearchState, PaddingStates]]) -> list[SearchState]:
    """Drop search states that a cheaper one dominates; `ordered` by cost."""
    kept: list[SearchState] = []
    by_frame: dict[Any, list[PaddingStates]] = {}
    for search_state, padding in ordered:
        others = by_frame.setdefault(padding.frame, [])
        if not any(other.dominates(padding) for other in others):
            others.append(padding)
            kept.append(search_state)
    return kept


def _conversion(kind: str, tensor: GraphTensor, grid: Grid) -> Step:
    """A pad or copy into a layout."""
    return Step(kind, tensor, grid.layout, elements=grid.elements)


def _ports(call: Call, option: CallOption) -> Iterator[tuple[GraphTensor, Port]]:
    return zip(call.inputs, option.inputs, strict=True)


@all_as_configured
class Graph(Configured):
    """Dataflow graph of calls with alternative layouts, planned for minimal conversion cost.

    Graph inputs and outputs are logical tensors. Each call lists alternative functions, possibly in packed layouts;
    `plan` selects one per call and inserts pads, crops, copies and fills.

    Example
    -------
    >>> from lowering import Graph, IndexMap, parse_nest, with_layouts
    >>> m = IndexMap(lambda i: [i // 4, i % 4], (14,))
    >>> addone = with_layouts(parse_nest('''
    ... def addone(A: int32[4, 4], B: int32[4, 4]):
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             B[i, j] = A[i, j] + 1
    ... '''), {"A": m, "B": m})
    >>> total = with_layouts(parse_nest('''
    ... def total(A: int32[4, 4], B: int32[1]):
    ...     for i in [0, 4):
    ...         for j in [0, 4):
    ...             assume i * 4 + j < 14 or A[i, j] == 0
    ...     B[0] = 0
    ...     for k in [0, 4):
    ...         for l in [0, 4):
    ...             B[0] = B[0] + A[k, l]
    ... '''), {"A": m})
    >>> graph = Graph()
    >>> x = graph.input("x", (14,), "int32")
    >>> y = graph.call([addone], x)
    >>> z = graph.call([total], y)
    >>> graph.output(z)
    >>> plan = graph.plan()
    >>> plan.cost, [(step.kind, str(step.value)) for step in plan.steps if step.kind != "call"]
    (16, [('pad', '-1')])
    """

    def __init__(self) -> None:
        self.tensors: list[GraphTensor] = []
        self.calls: list[Call] = []
        self.inputs: list[GraphTensor] = []
        self.outputs: list[GraphTensor] = []
        self._known: dict[tuple[ir.Function, object], CallOption] = {}  # keyed by function and context fingerprint

    # -- building -----------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], dtype: str = dtypes.INDEX) -> GraphTensor:
        """Add an input tensor.

        Raises
        ------
        InputError: the name is empty, not a string, or already used; the shape is not a tuple of positive integers; the
            dtype is unknown.
        """
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of an input is a text, not {shown(name)}")
        if any(t.name == name for t in self.tensors):
            raise InputError(f"the graph has a tensor {name} already")
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or not shape:
            raise InputError(f"the shape of {name} must be a tuple of integers, not {shown(shape)}")
        for k, extent in enumerate(shape):
            if arguments.as_int(extent, f"extent {k} of {name}") < 1:
                raise InputError(f"extent {k} of {name} must be a positive integer, not {shown(extent)}")
        tensor = self._tensor(name, tuple(map(operator.index, shape)), dtypes.check(dtype, f"the type of {name}"))
        self.inputs.append(tensor)
        return tensor

    def call(self, options: Sequence[ir.Function] | ir.Function, *inputs: GraphTensor) -> GraphTensor:
        """Add a call with equivalent alternative functions; returns its output tensor.

        Parameters
        ----------
        options: single-output functions; packed parameters represent their logical tensors.
        inputs: tensors of this graph, by position.

        Raises
        ------
        InputError: no options; an option is not a single-output function of constant sizes; an input belongs to
            another graph; input count, shape or dtype mismatches a parameter.
        LayoutError: inferring an option's contract fails.
        """
        given: Any = [options] if isinstance(options, ir.Function) else options
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            raise InputError(f"the options of a call are a list of functions, not {shown(options)}")
        if not given:
            raise InputError("a call needs at least one function to choose from")
        found = [self._option(f) for f in given]
        for option in found:
            self._refuse_misfit(option, inputs)
        first = found[0]
        for option in found[1:]:
            if (option.output.shape, option.output.dtype) != (first.output.shape, first.output.dtype):
                raise InputError(
                    f"the options of a call must make the same tensor: {first.function.name} makes "
                    f"{_plain(first.output)}, {option.function.name} makes {_plain(option.output)}"
                )
        name = untaken(first.function.name, {t.name for t in self.tensors})
        output = self._tensor(name, first.output.shape, first.output.dtype)
        self.calls.append(Call(found, inputs, output))
        return output

    def output(self, tensor: GraphTensor) -> None:
        """Mark a tensor as a result, returned in logical layout.

        Raises
        ------
        InputError: not a tensor of this graph.
        """
        self._own(tensor, "an output")
        self.outputs.append(tensor)

    def replace(self, tensor: GraphTensor, f: ir.Function) -> None:
        """Replace an option of the tensor's producing call by a function with an identical interface.

        Raises
        ------
        InterfaceError: no option matches in shapes, dtypes, layouts and padding contract; the message lists affected
            neighbours.
        InputError: the tensor is a graph input, or `f` is no valid option.
        """
        self._own(tensor, "what is replaced")
        call = next((c for c in self.calls if c.output is tensor), None)
        if call is None:
            raise InputError(f"{tensor.name} is an input of the graph: no call makes it")
        new = self._option(f)
        same = [k for k, old in enumerate(call.options) if old.is_like(new)]
        if not same:
            raise InterfaceError(self._difference(call, new))
        call.options[same[0]] = new

    # -- asking -------------------------------------------------------------------------------------------------

    def plan(self, cost: Price | None = None) -> Plan:
        """Find a plan of minimal cost for all outputs.

        Parameters
        ----------
        cost: maps a step to a non-negative number; must ignore `Step.value`, unknown during planning. Defaults to
            `Step.elements`: the size of the padded, copied or cropped result, or of the filled padding; 0 for a call.

        Raises
        ------
        InputError: no outputs; a cost is negative or not a number.
        """
        if not self.outputs:
            raise InputError("the graph has no outputs: nothing is to be computed")
        if cost is not None and not callable(cost):
            raise InputError(f"cost must be a function of a step, not {shown(cost)}")
        makers = {call.output: call for call in self.calls}
        needed = dag.reachable(self.outputs, lambda t: makers[t].inputs if t in makers else ())
        return planned([c for c in self.calls if c.output in needed], self.inputs, self.outputs, _price(cost))

    # -- inside -------------------------------------------------------------------------------------------------

    def _tensor(self, name: str, shape: tuple[int, ...], dtype: str) -> GraphTensor:
        tensor = GraphTensor(self, len(self.tensors), name, shape, dtype)
        self.tensors.append(tensor)
        return tensor

    def _option(self, f: Any) -> CallOption:
        """Build the option of a function, cached because contract inference is expensive."""
        if not isinstance(f, ir.Function):
            return option_of(f)
        key = f, f.ctx.frame.fingerprint
        if key not in self._known:
            self._known[key] = option_of(f)
        return self._known[key]

    def _own(self, tensor: Any, what: str) -> None:
        if not isinstance(tensor, GraphTensor):
            raise InputError(f"{what} must be a tensor of the graph, not {shown(tensor)}")
        if tensor.graph is not self:
            raise InputError(f"{tensor.name} is a tensor of another graph")

    def _refuse_misfit(self, option: CallOption, inputs: Sequence[Any]) -> None:
        name = option.function.name
        if len(option.inputs) != len(inputs):
            raise InputError(f"{name} takes {len(option.inputs)} tensors, not {len(inputs)}")
        for k, (port, tensor) in enumerate(zip(option.inputs, inputs, strict=True)):
            self._own(tensor, f"input {k} of {name}")
            if (port.shape, port.dtype) != (tensor.shape, tensor.dtype):
                raise InputError(f"input {k} of {name} is {_plain(port)}, not {shown(tensor)}")

    def _difference(self, call: Call, new: CallOption) -> str:
        readers = [c for c in self.calls if call.output in c.inputs]
        neighbours = [t.name for t in dict.fromkeys(call.inputs)] + [c.output.name for c in readers]
        if call.output in self.outputs:
            neighbours.append("the results of the graph")
        old = " or ".join(_interface(o) for o in call.options)
        return (
            f"{new.function.name} has a different interface from the options of {call.output.name}: "
            f"{_interface(new)}, not {old}; its neighbours are {', '.join(neighbours)}"
        )

    def __repr__(self) -> str:
        lines = [f"{t.name} = input" for t in self.inputs] + [repr(c)[1:-1] for c in self.calls]
        return f"<Graph {'; '.join(lines)}; outputs {', '.join(t.name for t in self.outputs) or 'none'}>"


def _plain(port: Any) -> str:
    return f"{port.name}: {port.dtype}[{', '.join(map(str, port.shape))}]"


def _interface(option: CallOption) -> str:
    return f"({', '.join(map(str, option.inputs))}) -> {option.output}"


def _price(cost: Price | None) -> Callable[[Step], int | float]:
    if cost is None:
        return lambda step: step.elements

    def price(step: Step) -> int | float:
        found = cost(step)
        is_number = isinstance(found, numbers.Real) and not isinstance(found, bool)
        if not is_number or not 0 <= found < math.inf:
            raise InputError(
                f"the cost of a {step.kind} of {step.tensor} must be a number of at least 0, not {shown(found)}"
            )
        return operator.index(found) if isinstance(found, numbers.Integral) else float(found)

    return price

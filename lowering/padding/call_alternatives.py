"""Enumerate the alternatives of one call: its option, one version per input, an optional fill of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bound.tensor import Tensor, element
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import rewrite
from intset.expr.node import Expr
from lowering.layout.relocation import tensor_like
from lowering.padding.concrete import of_type
from lowering.padding.interface import Option, Port
from lowering.padding.moves import Move, Step
from lowering.padding.packed import Grid
from lowering.padding.search_states import Held, SearchState, Version
from lowering.padding.states import NOTHING, PLACE, READABLE, UNDEF, UNTOUCHED, PadValue, Planned, State, folded
from lowering.padding.unknowns import Bound, Unknowns, shortened, solutions

if TYPE_CHECKING:
    from lowering.padding.graph import Call, GraphTensor

Price = Callable[[Step], Any]


class Made(NamedTuple):
    """A candidate version of a tensor, with its state at creation, before unknowns were bound."""

    tensor: GraphTensor
    grid: Grid | None
    state: Planned | None


def _making(kind: str, tensor: GraphTensor, grid: Grid) -> Step:
    """Build a pad or copy step."""
    return Step(kind, tensor, grid.layout, elements=grid.elements)


class CallAlternatives:
    """Expands search states by one call.

    Parameters
    ----------
    price: cost function of steps.
    wanted: maps (tensor number, layout key) to whether some reader constrains the padding.
    last: maps tensor numbers to their last reading call.
    layouts: maps tensor numbers to the layouts requested by readers.

    Attributes
    ----------
    unknowns: every metavariable created so far.
    versions: every candidate version created so far, indexed by number.
    """

    def __init__(
        self,
        price: Price,
        wanted: dict[tuple[int, Any], bool],
        last: dict[int, Call],
        layouts: dict[int, dict[Any, Grid]],
    ) -> None:
        self.price, self._last, self._layouts = price, last, layouts
        self.unknowns = Unknowns()
        self.versions: list[Made] = []
        self._wanted = wanted
        self._own: dict[Any, Tensor] = {}

    def version(self, tensor: GraphTensor, grid: Grid | None, state: Any) -> int:
        self.versions.append(Made(tensor, grid, state))
        return len(self.versions) - 1

    def after(self, search_state: SearchState, call: Call) -> Iterator[SearchState]:
        """Yield one successor state per alternative of the call."""
        for option in call.options:
            places = range(len(option.inputs))
            partial: list[tuple[SearchState, tuple[int, ...]]] = [(search_state, ())]
            for k in places:
                tensor, port = call.inputs[k], option.inputs[k]
                partial = [
                    (after, (*reads, number))
                    for before, reads in partial
                    for after, number in self._served(before, tensor, port, self._matters(option, port))
                ]
            for before, reads in partial:
                yield from self._called(before, call, option, reads)

    # -- inputs -------------------------------------------------------------------------------------------------

    @staticmethod
    def _matters(option: Option, port: Port) -> bool:
        """Whether the output's padding value depends on this input's padding."""
        state = option.output.state
        return isinstance(state, PadValue) and port.tensor in state.inputs

    def _served(
        self, search_state: SearchState, tensor: GraphTensor, port: Port, matters: bool
    ) -> Iterator[tuple[SearchState, int]]:
        """Yield successor states holding a version acceptable to the port, each with the version number."""
        held = search_state.live[tensor.number]
        if port.grid is None:
            yield self.cropped(search_state, tensor)
            return
        for version in held.packed:
            if version.grid.key != port.grid.key:
                continue
            for after in self._fitting(search_state, version, port):
                yield after, version.number
                if after is search_state and not (matters and port.state is READABLE):
                    return  # reuse is free and binds no unknown
        yield from self._new(search_state, tensor, port)

    def _fitting(self, search_state: SearchState, version: Version, port: Port) -> Iterator[SearchState]:
        """Yield successor states whose bindings make the version satisfy the port."""
        need, state = port.state, version.state
        if need is NOTHING or not version.grid.padding or (need is READABLE and state is not UNTOUCHED):
            yield search_state
        elif isinstance(need, PadValue) and not isinstance(state, State):
            wanted = self._wanted_of(version.grid, port)
            for found in solutions(
                self.unknowns, state, wanted, port.dtype, version.grid.padding, search_state.uniform
            ):
                yield search_state.where(found.values, found.uniform)

    def _new(self, search_state: SearchState, tensor: GraphTensor, port: Port) -> Iterator[tuple[SearchState, int]]:
        """Yield successor states with a new version for the port, padded or copied."""
        assert port.grid is not None
        need = port.state
        is_value = isinstance(need, PadValue)
        state = self._wanted_of(port.grid, port) if is_value else self.unknowns.new(port.dtype)
        held = search_state.live[tensor.number]
        pad, copy = (self.price(_making(kind, tensor, port.grid)) for kind in ("pad", "copy"))
        if held.packed and (held.logical is None or copy < pad):
            yield self._made(search_state, tensor, port.grid, "copy", state)
        elif held.logical is not None:
            yield self._made(search_state, tensor, port.grid, "pad", state)
        if held.logical is None and pad < copy:
            yield self._made(self.cropped(search_state, tensor)[0], tensor, port.grid, "pad", state)
        if not held.packed and copy < pad:  # via another requested layout, which other readers may share
            for key, grid in self._layouts[tensor.number].items():
                if key != port.grid.key:
                    before, _ = self._made(search_state, tensor, grid, "pad", self.unknowns.new(tensor.dtype))
                    yield self._made(before, tensor, port.grid, "copy", state)

    def _wanted_of(self, grid: Grid, port: Port) -> Operand:
        """The required padding value, its loads renamed from the port's tensor to one tensor per layout and type."""
        assert isinstance(port.state, PadValue)
        if not port.state.inputs:
            return port.state.expr
        key = (grid.key, port.dtype)
        own = self._own.setdefault(key, tensor_like(port.tensor, port.tensor.extents, None))
        return rewrite(port.state.expr, on_load=lambda t, at: element(own, at))

    def _made(
        self, search_state: SearchState, tensor: GraphTensor, grid: Grid, kind: str, state: Operand
    ) -> tuple[SearchState, int]:
        """Add a padded or copied version; returns the successor state and the version number."""
        held = search_state.live[tensor.number]
        source = held.logical if kind == "pad" else held.packed[0].number
        assert source is not None
        number = self.version(tensor, grid, state)
        step = _making(kind, tensor, grid)
        after = search_state.holding(tensor.number, replace(held, packed=(*held.packed, Version(number, grid, state))))
        return after.moved(self.price(step), Move(step, (source,), number)), number

    def cropped(self, search_state: SearchState, tensor: GraphTensor) -> tuple[SearchState, int]:
        """Crop to the logical version unless it exists; returns the successor state and the version number."""
        held = search_state.live[tensor.number]
        if held.logical is not None:
            return search_state, held.logical
        number = self.version(tensor, None, None)
        elements = 1
        for extent in tensor.shape:
            elements *= extent
        step = Step("crop", tensor, held.packed[0].grid.layout, elements=elements)
        after = search_state.holding(tensor.number, replace(held, logical=number))
        return after.moved(self.price(step), Move(step, (held.packed[0].number,), number)), number

    # -- the output ---------------------------------------------------------------------------------------------

    def _called(
        self, search_state: SearchState, call: Call, option: Option, reads: tuple[int, ...]
    ) -> Iterator[SearchState]:
        tensor, grid = call.output, option.output.grid
        step = Step("call", tensor, None if grid is None else grid.layout, function=option.function)
        if grid is None:
            number = self.version(tensor, grid, None)
            after = search_state.moved(self.price(step), Move(step, reads, number, option))
            yield after.holding(tensor.number, Held(number, True))
            return
        state, found = self._given(search_state, call, option, reads)
        search_state = search_state.where(found.values, found.uniform, renames=True)
        number = self.version(tensor, grid, state)
        after = search_state.moved(self.price(step), Move(step, reads, number, option))
        yield after.holding(tensor.number, Held(None, False, (Version(number, grid, state),)))
        if self._wanted.get((tensor.number, grid.key)) and grid.padding:
            value = self.unknowns.new(tensor.dtype)
            fill = Step("fill", tensor, grid.layout, elements=len(grid.padding))
            filled = self.version(tensor, grid, value)
            search_state = after.where({}, after.uniform | {value})
            search_state = search_state.holding(tensor.number, Held(None, False, (Version(filled, grid, value),)))
            yield search_state.moved(self.price(fill), Move(fill, (number,), filled))

    def _given(
        self, search_state: SearchState, call: Call, option: Option, reads: tuple[int, ...]
    ) -> tuple[Planned, Bound]:
        """Compute the output's padding state and the bindings of unknowns it implies."""
        gives = option.output.state
        nothing = Bound({}, search_state.uniform)
        if not isinstance(gives, PadValue):
            return gives, nothing
        states: dict[Tensor, Planned] = {}
        for tensor, port, number in zip(call.inputs, option.inputs, reads, strict=True):
            found = [v for v in search_state.live[tensor.number].packed if v.number == number]
            states[port.tensor] = found[0].state if found else UNDEF
        known = {t: state for t, state in states.items() if not isinstance(state, State)}
        if any(t not in known for t in gives.inputs):
            return UNDEF, nothing
        uniform = set(search_state.uniform)

        def held(tensor: Tensor, at: tuple[Expr, ...]) -> Operand:
            state = known[tensor]
            if any(a is not p for a, p in zip(at, PLACE, strict=False)):
                uniform.update(self.unknowns.within(state))
            return of_type(rewrite(state, dict(zip(PLACE, at, strict=False))), tensor.dtype, self.unknowns.known)

        value = folded(rewrite(gives.expr, on_load=held), option.output.dtype)
        if not isinstance(value, PadValue):
            return value, Bound({}, frozenset(uniform))
        taken = self._still_read(search_state, call)
        return shortened(self.unknowns, value.expr, option.output.dtype, frozenset(uniform), taken)

    def _still_read(self, search_state: SearchState, call: Call) -> set[Parameter]:
        """Collect unknowns in paddings of tensors with readers after the call."""
        left = [held for t, held in search_state.live.items() if self._last.get(t) is not call]
        states = [v.state for held in left for v in held.packed if not isinstance(v.state, State)]
        return set(self.unknowns.within(*states))

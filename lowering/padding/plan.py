"""`Plan`: an executable sequence of steps for a graph, run on numpy arrays and explained in prose.

Every step makes a new *version* of a tensor: the tensor in one layout with one state of its padding. Versions have
numbers; a move is a step with numbered inputs and a numbered output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from bound.dtypes import Array, Numeric
from bound.tir.reduce import Parameter
from bound.tir.value import Operand
from bound.tir.walk import rewrite
from intset.config import Configured, all_as_configured
from intset.errors import InputError
from intset.expr import shown
from lowering.codegen.python_runtime import Functions, poison
from lowering.interpreter import checked_array, run
from lowering.layout import IndexMap
from lowering.nest import ir
from lowering.nest.printer import text
from lowering.nest.walk import statements, tensors_read
from lowering.padding import states as contents
from lowering.padding.contract import CallOption, Port
from lowering.padding.metavariables import Metavariables, Substitution
from lowering.passes.stores.reaching_values import with_checked_claims

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


class GraphTensor:
    """A logical tensor of a graph.

    Attributes
    ----------
    name: the input's name, or the first option's function name with a numeric suffix if taken.
    shape, dtype: logical shape and element type.
    number: index into `graph.tensors`.
    graph: the graph that the tensor belongs to.
    """

    __slots__ = ("dtype", "graph", "name", "number", "shape")

    def __init__(self, graph: object, number: int, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.graph, self.number, self.name, self.shape, self.dtype = graph, number, name, shape, dtype

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}: {self.dtype}[{', '.join(map(shown, self.shape))}]>"


class Call:
    """A call with alternative implementations.

    Attributes
    ----------
    options: alternative functions with their ports.
    inputs: positional arguments.
    output: the resulting tensor, common to all options.
    """

    __slots__ = ("inputs", "options", "output")

    def __init__(self, options: list[CallOption], inputs: tuple[GraphTensor, ...], output: GraphTensor) -> None:
        self.options, self.inputs, self.output = options, inputs, output

    def __repr__(self) -> str:
        names = " | ".join(o.function.name for o in self.options)
        return f"<{self.output.name} = ({names})({', '.join(t.name for t in self.inputs)})>"


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of a plan.

    Attributes
    ----------
    kind: "pad" (logical to packed), "copy" (packed to packed), "crop" (packed to logical), "fill" (overwrites the
        padding of a call's result) or "call".
    tensor: the produced or filled tensor.
    map: layout of the result; a crop's source layout; `None` for a call with a logical result.
    value: padding value that a pad, copy or fill writes (`UNDEF`: any value, `None`: no write); a crop's known source
        padding.
    function: the called function.
    elements: number of elements written; 0 for a call.
    """

    kind: str
    tensor: GraphTensor
    map: IndexMap | None = None
    value: contents.PadState | None = None
    function: ir.Function | None = None
    elements: int = 0

    def __str__(self) -> str:
        if self.kind == "call":
            return f"{self.tensor} = {self.function.name if self.function else ''}(...)"
        with_value = "" if self.value is None else f" with {self.value}"
        return f"{self.kind} {self.tensor}{with_value}, {self.elements} elements"

    def __repr__(self) -> str:
        return f"<{self}>"


@dataclass(frozen=True, eq=False)
class Move:
    """A step with the version numbers of its operands and result.

    Attributes
    ----------
    reads: source versions, in argument order.
    makes: result version.
    option: a call's selected option.
    """

    step: Step
    reads: tuple[int, ...]
    makes: int
    option: CallOption | None = None


class Trail(NamedTuple):
    """Linked list of moves and of substitutions between them; `also` holds an independent part's earlier entries."""

    before: Trail | None
    entry: Move | Substitution | None
    also: Trail | None = None

    def entries(self) -> list[Move | Substitution]:
        """List all moves, in execution order, and the substitutions between them."""
        backwards: list[Move | Substitution] = []
        waiting = [self]
        while waiting:
            trail = waiting.pop()
            if trail.entry is not None:
                backwards.append(trail.entry)
            # The traversal is reversed: earlier moves go deeper into the stack.
            waiting += [part for part in (trail.before, trail.also) if part is not None]
        return backwards[::-1]


@all_as_configured
class Plan(Configured):
    """A sequence of pads, copies, crops, fills and calls that computes a graph's outputs.

    Attributes
    ----------
    cost: sum of all step prices.
    steps: execution order.
    is_cheapest: true if the plan is proven cheapest; false if the search exceeded its budget, see `note`.
    note: explanation of an exceeded budget, else empty.
    """

    def __init__(
        self,
        inputs: Mapping[GraphTensor, int],
        moves: tuple[Move, ...],
        outputs: tuple[int, ...],
        versions: Mapping[int, tuple[contents.Grid | None, contents.PadState | None]],
        cost: int | float,
        note: str = "",
    ) -> None:
        self.moves, self.cost, self.note = moves, cost, note
        self._inputs, self._outputs, self._versions = dict(inputs), outputs, dict(versions)

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(move.step for move in self.moves)

    @property
    def is_cheapest(self) -> bool:
        return not self.note

    def run(
        self,
        arrays: Mapping[str, ArrayLike],
        undef: Callable[[str], Numeric] | None = None,
        functions: Functions | None = None,
    ) -> tuple[Array, ...]:
        """Execute the plan and return its outputs as logical numpy arrays, in declaration order.

        Parameters
        ----------
        arrays: input arrays by name.
        undef: callback choosing values of `UNDEF` elements, by type; default 0. Unwritten elements are poisoned.
        functions: host functions by name.

        Raises
        ------
        InputError: an array is missing, or has the wrong shape or type.
        The errors of `lowering.run`.
        """
        checked = checked_inputs(tuple(self._inputs), arrays)
        made = {number: checked[tensor] for tensor, number in self._inputs.items()}  # an array for each version
        for move in self.moves:
            step, option = move.step, move.option
            if option is not None:
                given = {port.tensor: made[n] for port, n in zip(option.inputs, move.reads, strict=True)}
                results = run(option.function, given, functions=functions, undef=undef)
                made[move.makes] = results[option.output.name]
                continue
            array = made[move.reads[0]]
            grid, target = (self._versions[number][0] for number in (move.reads[0], move.makes))
            if step.kind != "fill":
                logical = array if grid is None else grid.layout.unpack(array)
                array = logical if target is None else target.layout.pack(logical, poison(step.tensor.dtype))
            if target is not None:
                array = target.filled(array, step.value, step.tensor.dtype, undef)
            made[move.makes] = array
        return tuple(made[number] for number in self._outputs)

    def explain(self) -> str:
        """Explain each step by its readers, and each requirement and assumption by its justification."""
        states = {number: state for number, (_, state) in self._versions.items()}
        head = f"cost {self.cost}{f', {self.note}' if self.note else ', and no plan costs less'}"
        return "\n".join([head, *explained(self.moves, states, self._outputs)])

    def __repr__(self) -> str:
        steps = ", ".join(str(step) for step in self.steps)
        return f"<Plan of cost {self.cost}: {steps or 'nothing to do'}>"


class Version(NamedTuple):
    """A tensor in one layout; the logical version of a tensor has no grid and no state.

    Attributes
    ----------
    number: version number in the plan.
    state: padding state: a `State`, or an expression over metavariables.
    """

    number: int
    tensor: GraphTensor
    grid: Any = None
    state: Any = None


def finished(
    moves: Sequence[Move],
    versions: Sequence[Version],
    values: Mapping[Parameter, Operand],
    metavariables: Metavariables,
    inputs: Sequence[GraphTensor],
) -> tuple[tuple[Move, ...], dict[int, tuple[contents.Grid | None, contents.PadState | None]]]:
    """Insert the values of metavariables into moves; returns the moves, and the layout and padding of every version.

    A version with a free metavariable has padding `UNDEF`; padding that no call constrains is not written.

    Parameters
    ----------
    versions: by number, with their padding states before metavariables were bound.
    """
    read = {
        number
        for move in moves
        if move.option is not None
        for number, port in zip(move.reads, move.option.inputs, strict=True)
        if port.grid is not None and port.state is not contents.NOTHING
    }
    states: dict[int, contents.PadState | None] = dict.fromkeys(range(len(inputs)))
    done: list[Move] = []
    for move in moves:
        step, made = move.step, versions[move.makes]
        state: contents.PadState | None = None
        if isinstance(made.state, contents.State):
            state = made.state
        elif made.state is not None:
            expr = rewrite(made.state, values)
            state = contents.UNDEF if metavariables.within(expr) else contents.folded(expr, made.tensor.dtype)
        if step.kind in ("pad", "copy", "fill"):
            if isinstance(state, contents.State):
                state = contents.UNDEF if step.kind == "fill" or move.makes in read else contents.UNTOUCHED
            step = replace(step, value=None if state is contents.UNTOUCHED else state)
        elif step.kind == "crop":
            step = replace(step, value=states[move.reads[0]])
        states[move.makes] = state
        done.append(replace(move, step=step))
    return tuple(done), {number: (versions[number].grid, state) for number, state in states.items()}


def checked_inputs(inputs: Sequence[GraphTensor], arrays: Any) -> dict[GraphTensor, Any]:
    """Copies of the input arrays, validated.

    Raises
    ------
    InputError: an array is missing, has an unknown name, or mismatches its tensor's shape or dtype.
    """
    import numpy as np

    if not isinstance(arrays, Mapping):
        raise InputError(f"run takes arrays by the names of inputs, a mapping, not {shown(arrays)}")
    names: dict[Any, GraphTensor] = {**{t.name: t for t in inputs}, **{t: t for t in inputs}}
    checked: dict[GraphTensor, Any] = {}
    for key, given in arrays.items():
        if key not in names:
            label = key if isinstance(key, str) else shown(key)
            raise InputError(f"{label} is no input of the graph: the inputs are {', '.join(t.name for t in inputs)}")
        tensor = names[key]
        array = checked_array(tensor.name, tensor.dtype, given)
        if array.shape != tensor.shape:
            raise InputError(f"the array for {tensor.name} has the shape {array.shape}, not {tensor.shape}")
        checked[tensor] = np.array(array, tensor.dtype)
    for tensor in inputs:
        if tensor not in checked:
            raise InputError(f"the array for {tensor.name} is missing")
    return checked


States = Mapping[int, contents.PadState | None]


def explained(moves: Sequence[Move], states: States, results: Sequence[int]) -> Iterator[str]:
    """Yield one line per step, followed by indented requirements and assumptions."""
    readers: dict[int, list[str]] = {}
    for move in moves:
        for number in dict.fromkeys(move.reads):
            readers.setdefault(number, []).append(_name(move))
    for number in results:
        readers.setdefault(number, []).append("the results")
    makers = {move.makes: move for move in moves}
    for move in moves:
        whom = " and ".join(dict.fromkeys(readers.get(move.makes, ())))
        yield f"{_what(move, states)}{f', for {whom}' if whom else ''}"
        if move.option is not None:
            ports = {port.tensor: port for port in move.option.inputs if port.grid is not None}
            for port, number in zip(move.option.inputs, move.reads, strict=True):
                if port.grid is not None:
                    yield f"    {_need(port, number, makers, states)}"
            for cond in _assumptions(move.option.function):
                states_of = [(t, ports[t].state) for t in tensors_read(cond) if t in ports]
                is_permission = ir.has_undef(cond)
                of = [
                    t
                    for t, s in states_of
                    if isinstance(s, contents.PadValue) or (s is contents.READABLE and is_permission)
                ]
                why = f"of the padding of {of[0].name}, as is said above" if of else "on the word of the user"
                yield f"    keeps the assumption {text(cond)}, {why}"


def _name(move: Move) -> str:
    if move.option is not None:
        return move.option.function.name
    return f"the {move.step.kind} of {move.step.tensor}"


def _what(move: Move, states: States) -> str:
    step = move.step
    if move.option is not None:
        given = states.get(move.makes)
        tail = "" if given is None else f", whose padding is {_said(given)}"
        return f"call {move.option.function.name}, which makes {step.tensor}{tail}"
    if step.kind == "crop":
        return f"crop {step.tensor} ({step.elements} elements)"
    with_ = "leaving its padding unwritten" if step.value is None else f"with {_said(step.value)} in its padding"
    return f"{step.kind} {step.tensor} ({step.elements} elements) {with_}"


def _said(state: contents.PadState) -> str:
    if isinstance(state, contents.PadValue):
        return str(state)
    return "partly unwritten" if state is contents.UNTOUCHED else "arbitrary values"


def _need(port: Port, number: int, makers: Mapping[int, Move], states: States) -> str:
    if port.state is contents.NOTHING:
        return f"reads nothing of the padding of {port.name}"
    assert port.grid is not None
    if not port.grid.padding:
        return f"finds no padding in {port.name}"
    maker = makers.get(number)
    by = "" if maker is None else f" by {_name(maker)}"
    if port.state is contents.READABLE:
        return f"reads the padding of {port.name}, whatever it holds: it is written{by}"
    state = states.get(number)
    told = "" if state is None else f": it is {_said(state)}"
    return f"needs {port.state} in the padding of {port.name}{told}{by}"


def _assumptions(f: ir.Function) -> Iterator[Operand]:
    """Yield unproved assumptions of a function, deduplicated by text."""
    nests = [with_checked_claims(f).body, *(r.nest for r in f.requires)]
    found = [s.cond for nest in nests for s in statements(nest) if isinstance(s, ir.Assume) and not s.proved]
    yield from {text(cond): cond for cond in found}.values()

"""`Graph`: calls on logical tensors, each with alternative implementations."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any

from bound import dtypes
from intset.config import Configured, all_as_configured
from intset.errors import InputError
from intset.expr.printer import shown
from lowering.errors import InterfaceError
from lowering.nest.ir import Function
from lowering.padding.contract import CallOption, option_of
from lowering.padding.plan import Call, GraphTensor, Plan, Step
from lowering.padding.planner import planned

Price = Callable[[Step], Any]


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
        self._known: dict[tuple[Function, object], CallOption] = {}  # keyed by function and context fingerprint

    # -- building -----------------------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[int], dtype: str = dtypes.INDEX) -> GraphTensor:
        """Add an input tensor.

        Raises
        ------
        InputError: the name is empty, not a string or taken; the shape is not a tuple of positive integers; the dtype
            is unknown.
        """
        if not isinstance(name, str) or not name:
            raise InputError(f"the name of an input is a text, not {shown(name)}")
        if any(t.name == name for t in self.tensors):
            raise InputError(f"the graph has a tensor {name} already")
        if isinstance(shape, (str, bytes)) or not isinstance(shape, Sequence) or not shape:
            raise InputError(f"the shape of {name} must be a tuple of integers, not {shown(shape)}")
        for k, extent in enumerate(shape):
            if isinstance(extent, (bool, type)) or not hasattr(extent, "__index__") or operator.index(extent) < 1:
                raise InputError(f"extent {k} of {name} must be a positive integer, not {shown(extent)}")
        tensor = self._tensor(name, tuple(map(operator.index, shape)), dtypes.check(dtype, f"the type of {name}"))
        self.inputs.append(tensor)
        return tensor

    def call(self, options: Sequence[Function] | Function, *inputs: GraphTensor) -> GraphTensor:
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
        given: Any = [options] if isinstance(options, Function) else options
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
        output = self._tensor(self._fresh(first.function.name), first.output.shape, first.output.dtype)
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

    def replace(self, tensor: GraphTensor, f: Function) -> None:
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
        return planned(_needed(self.calls, self.outputs), self.inputs, self.outputs, _price(cost))

    # -- inside -------------------------------------------------------------------------------------------------

    def _tensor(self, name: str, shape: tuple[int, ...], dtype: str) -> GraphTensor:
        tensor = GraphTensor(self, len(self.tensors), name, shape, dtype)
        self.tensors.append(tensor)
        return tensor

    def _option(self, f: Any) -> CallOption:
        """Build the option of a function, cached because contract inference is expensive."""
        key = (f, f.ctx.frame.fingerprint) if isinstance(f, Function) else None
        found = None if key is None else self._known.get(key)
        if found is None:
            found = option_of(f)
            self._known[f, f.ctx.frame.fingerprint] = found
        return found

    def _fresh(self, name: str) -> str:
        taken = {t.name for t in self.tensors}
        found, k = name, 0
        while found in taken:
            k += 1
            found = f"{name}_{k}"
        return found

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


def _needed(calls: Sequence[Call], outputs: Sequence[GraphTensor]) -> list[Call]:
    """Select the calls that contribute to outputs, in order."""
    needed = set(outputs)
    backwards: list[Call] = []
    for call in reversed(calls):
        if call.output in needed:
            backwards.append(call)
            needed.update(call.inputs)
    return backwards[::-1]

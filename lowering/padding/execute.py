"""Execute plans on numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bound.reference import Functions
from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.text import shown
from lowering.codegen.python_runtime import poison
from lowering.interpreter import checked_array, run
from lowering.padding.moves import Move
from lowering.padding.packed import Grid
from lowering.padding.partial_evaluation import Content, PartialEvaluator, as_element, is_number
from lowering.padding.states import PLACE, UNDEF, PadValue

if TYPE_CHECKING:
    from lowering.padding.graph import Graph, GraphTensor

Draw = Callable[[str], Any]


def passed_arrays(graph: Graph, arrays: Any) -> dict[GraphTensor, Any]:
    """Validate and copy the input arrays.

    Raises
    ------
    InputError: an array is missing, has an unknown name, or mismatches its tensor's shape or dtype.
    """
    import numpy as np

    if not isinstance(arrays, Mapping):
        raise InputError(f"run takes arrays by the names of inputs, a mapping, not {shown(arrays)}")
    names: dict[Any, GraphTensor] = {**{t.name: t for t in graph.inputs}, **{t: t for t in graph.inputs}}
    checked: dict[GraphTensor, Any] = {}
    for key, given in arrays.items():
        if key not in names:
            label = key if isinstance(key, str) else shown(key)
            raise InputError(
                f"{label} is no input of the graph: the inputs are {', '.join(t.name for t in graph.inputs)}"
            )
        tensor = names[key]
        array = checked_array(tensor.name, tensor.dtype, given)
        if array.shape != tensor.shape:
            raise InputError(f"the array for {tensor.name} has the shape {array.shape}, not {tensor.shape}")
        checked[tensor] = np.array(array, tensor.dtype)
    for tensor in graph.inputs:
        if tensor not in checked:
            raise InputError(f"the array for {tensor.name} is missing")
    return checked


class Execution:
    """Holds one array per version while a plan runs.

    Parameters
    ----------
    arrays: maps version numbers to arrays; initially the inputs.
    grids: maps version numbers to packed layouts, `None` for logical versions.
    undef: draws undefined values by dtype; defaults to 0 in paddings.
    functions: host functions callable by name.
    """

    def __init__(
        self,
        arrays: dict[int, Any],
        grids: Mapping[int, Grid | None],
        undef: Draw | None,
        functions: Functions | None,
    ) -> None:
        self.arrays, self._grids = arrays, grids
        self._undef, self._functions = undef, functions

    def move(self, move: Move) -> None:
        """Execute one step."""
        kind = move.step.kind
        if kind == "call":
            self.arrays[move.makes] = self._call(move)
            return
        source = self.arrays[move.reads[0]]
        if kind == "fill":
            self.arrays[move.makes] = self._filled(source, move)
            return
        grid = self._grids[move.reads[0]]
        logical = source if grid is None else grid.layout.unpack(source)
        if kind == "crop":
            self.arrays[move.makes] = logical
            return
        target = self._grids[move.makes]
        assert target is not None
        packed = target.layout.pack(logical, poison(move.step.tensor.dtype))
        self.arrays[move.makes] = self._filled(packed, move)

    def _call(self, move: Move) -> Any:
        assert move.option is not None
        f = move.option.function
        ports = zip(move.option.inputs, move.reads, strict=True)
        given = {port.tensor: self.arrays[number] for port, number in ports}
        return run(f, given, functions=self._functions, undef=self._undef)[move.option.output.name]

    def _filled(self, array: Any, move: Move) -> Any:
        """Write the step's value into the array's padding, in place."""
        grid, value = self._grids[move.makes], move.step.value
        assert grid is not None
        if value is None or not grid.padding:
            return array
        dtype = move.step.tensor.dtype
        if value is UNDEF:
            drawn = self._undef or (lambda dtype: 0)
            for place in grid.padding:
                array[grid.storage(place)] = as_element(drawn(dtype), dtype)
            return array
        assert isinstance(value, PadValue)
        if value.number is not None:
            array[grid.mask] = value.number
            return array
        numbers = [_number(value, place, array, grid) for place in grid.padding]
        for place, number in zip(grid.padding, numbers, strict=True):
            array[grid.storage(place)] = as_element(number, dtype)
        return array


def _number(value: PadValue, place: Sequence[int], array: Any, grid: Grid) -> Any:
    """Evaluate a padding value at one element; loads read the array."""

    def load(tensor: Tensor, at: Sequence[Content]) -> Content:
        content: Content = array[grid.storage(tuple(at))].item()  # type: ignore[arg-type]  # integers
        return content

    number = PartialEvaluator(load)(value.expr, dict(zip(PLACE, place, strict=False)))
    assert is_number(number)
    return number

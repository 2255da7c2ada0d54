"""Interfaces of graph functions: shapes, types, layouts and padding contracts."""

from __future__ import annotations

from typing import Any, NamedTuple

from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.node import constant_value
from intset.expr.text import shown
from lowering.errors import LayoutError
from lowering.nest.ir import Function
from lowering.padding.contract import contract
from lowering.padding.packed import Grid
from lowering.padding.states import NOTHING, UNDEF, PadState


class Port(NamedTuple):
    """The interface of one parameter.

    Attributes
    ----------
    name: parameter name.
    shape, dtype: logical shape and element type.
    grid: packed layout; `None` for a logical parameter.
    state: padding state, required for inputs, promised for the output; meaningless without a layout.
    tensor: the parameter.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    grid: Grid | None
    state: PadState
    tensor: Tensor

    @property
    def meets(self) -> tuple[Any, ...]:
        """Key of shape, type and layout; interchangeable ports have equal keys."""
        return self.shape, self.dtype, None if self.grid is None else self.grid.key

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        packed = "" if self.grid is None else f" as {self.grid.layout!r}, padding {self.state}"
        return f"{self.name}: {self.dtype}[{shape}]{packed}"


class Option(NamedTuple):
    """A function with its ports."""

    function: Function
    inputs: tuple[Port, ...]
    output: Port

    def is_like(self, other: Option) -> bool:
        """Test that both options have equal ports, up to parameter names."""
        mine, theirs = (*self.inputs, self.output), (*other.inputs, other.output)
        return len(mine) == len(theirs) and all(
            a.meets == b.meets and _text(self, a) == _text(other, b) for a, b in zip(mine, theirs, strict=True)
        )


def _text(option: Option, port: Port) -> str:
    """Print a port's padding state, naming inputs by position."""
    state = port.state
    if not hasattr(state, "text"):
        return str(state)
    return state.text({p.tensor: f"#{k}" for k, p in enumerate(option.inputs)})


def option_of(f: Any) -> Option:
    """Derive the ports of a function from its contract.

    Raises
    ------
    InputError: `f` is not a function with one output and constant shapes, or reads its output first.
    LayoutError: `f` has no contract, or a layout is not injective.
    """
    if not isinstance(f, Function):
        raise InputError(f"an option of a call must be a function, not {shown(f)}")
    if len(f.outputs) != 1:
        outputs = ", ".join(t.name for t in f.outputs)
        raise InputError(f"an option must have one output, {f.name} has {len(f.outputs)}: {outputs or 'none'}")
    (output,) = f.outputs
    free = [v.name for v in f.sizes] + [str(v.data[0]) for v in f.scalars]
    if free:
        raise InputError(f"{f.name} depends on {free[0]}: functions in a graph take tensors of constant shapes alone")
    c = contract(f)
    if output.name in c.reads:
        raise InputError(f"{f.name} reads its output {output.name} before it writes it: a graph passes nothing in it")
    inputs = tuple(_port(f, t, c.layouts.get(t.name), c.needs.get(t.name, NOTHING)) for t in f.inputs)
    return Option(f, inputs, _port(f, output, c.layouts.get(output.name), c.gives.get(output.name, UNDEF)))


def _port(f: Function, tensor: Tensor, layout: Any, state: PadState) -> Port:
    grid = None if layout is None else Grid(layout)
    if grid is not None:
        if not grid.layout.injective:
            raise LayoutError(f"the layout of {tensor.name} in {f.name} is not one to one")
        return Port(tensor.name, tuple(int(e) for e in grid.layout.shape), tensor.dtype, grid, state, tensor)
    shape = tuple(constant_value(e) for e in tensor.extents)
    if None in shape:
        raise InputError(f"the shape of {tensor.name} in {f.name} is not constant")
    return Port(tensor.name, shape, tensor.dtype, None, state, tensor)  # type: ignore[arg-type]  # numbers

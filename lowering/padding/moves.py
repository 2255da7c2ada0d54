"""Steps of a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lowering.layout import IndexMap
from lowering.nest.ir import Function
from lowering.padding.interface import Option
from lowering.padding.states import PadState

if TYPE_CHECKING:
    from lowering.padding.graph import GraphTensor


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
    value: PadState | None = None
    function: Function | None = None
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
    option: Option | None = None

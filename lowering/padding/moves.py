"""The steps of a plan."""

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
    """One thing that a plan does.

    Attributes
    ----------
    kind: "pad", a packed version from the logical one; "copy", from a packed one; "crop", the logical version from a
        packed one; "fill", a value into the padding of the version that a call made; "call".
    tensor: what there is a version more of, or what is filled.
    map: of the layout of that version, of a crop of the one it starts from; `None` of a call that makes a logical one.
    value: what a pad, copy or fill puts into the padding, `UNDEF` for anything, `None` for nothing at all; what is
        known of the padding that a crop leaves out.
    function: that is called.
    elements: of the result of a pad or copy, of the logical tensor of a crop, of the padding of a fill; 0 of a call.
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
    """A step, and the versions it works on, by number.

    Attributes
    ----------
    reads: the versions a call reads, by position; the one that a pad, copy, crop or fill starts from.
    makes: the version that there is afterwards.
    option: of a call.
    """

    step: Step
    reads: tuple[int, ...]
    makes: int
    option: Option | None = None

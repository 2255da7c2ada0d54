"""Why a position is not possible, as data, and the refusal that carries it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.tensor import Tensor

REDUCTION: Final = "reduction"
MISMATCH: Final = "mismatch"
UNMAPPED: Final = "unmapped"
KIND: Final = "kind"
PERSISTENT: Final = "persistent"
FROZEN: Final = "frozen"
SELF_MAPPED: Final = "self_mapped"
ORDER: Final = "order"

_BECAUSE: Final = {
    REDUCTION: "{axis} is a reduction of {tensor}: a value is complete only behind that loop",
    MISMATCH: "the loops of {consumer} differ there",
    UNMAPPED: "no loop of {consumer} runs over the same axis as {axis}",
    KIND: "{axis} is vectorized, unrolled, or annotated otherwise than the loop it would be one with",
    PERSISTENT: "what {consumer} needs is complete only behind the reduction that would share {axis}",
    FROZEN: "other stages are computed in the loops of {tensor} already",
    SELF_MAPPED: "two loops of {consumer} would become one",
    ORDER: "a tensor would be read before it is complete",
}


@dataclass(frozen=True)
class Reason:
    """Why a tensor cannot share as many of its leading loops as was asked for.

    Attributes
    ----------
    rule: `reduction`: a loop reduces; `mismatch`: loops differ from those of a reader; `unmapped`: a reader has no such
        axis; `kind`: a loop is vectorized, unrolled, or annotated otherwise than the one it would be one loop with;
        `persistent`: a reader needs what a reduction over the same loop makes; `frozen`: loops that an earlier call
        shared, or in which other stages are computed, would have to change; `self_mapped`: two loops of one stage would
        become one; `order`: in any nest a tensor would be read before it is complete.
    tensor: whose loops they are.
    axis: the first loop that cannot be shared; `None` where no single one is at fault.
    consumer: the reader that is in the way, if one is.
    asked, allowed: positions of `tensor`.
    """

    rule: str
    tensor: Tensor
    axis: IterVar | None
    consumer: Tensor | None
    asked: int
    allowed: int

    def __str__(self) -> str:
        axis = "the loop" if self.axis is None else self.axis.name
        consumer = "a reader" if self.consumer is None else self.consumer.name
        because = _BECAUSE[self.rule].format(axis=axis, tensor=self.tensor.name, consumer=consumer)
        loops = "1 loop" if self.allowed == 1 else f"{self.allowed} loops"
        return f"{self.tensor.name} can share {loops}, not {self.asked}: {because} ({self.rule})"


@dataclass(frozen=True, eq=False)
class Repair:
    """A way to do what was refused, or nearly; it was tried on a copy of the schedule.

    Attributes
    ----------
    kind: `position`: fewer loops are shared; `mode`: each tensor shares what it can; `reorder`: the loops of the
        consumer in another order; `recompute`: what other readers need is computed apart.
    text: the same in words.
    call: what is called with the schedule; functions of modules with their arguments, so that it can be pickled.
    """

    kind: str
    text: str
    call: Callable[[Schedule], object]

    def apply(self, schedule: Schedule) -> object:
        """Do it to the schedule that was refused, or to a copy of it; gives what the call gives."""
        return self.call(schedule)

    def __repr__(self) -> str:
        return f"<Repair {self.kind}: {self.text}>"


class ReplayError(ScheduleError):
    """A position is not possible. Nothing was changed.

    Attributes
    ----------
    reasons: what is in the way, at least one.
    repairs: what can be done instead, at least one where loops were to be shared with `compute_at`.
    """

    def __init__(self, message: str, reasons: tuple[Reason, ...], repairs: tuple[Repair, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        self.repairs = repairs

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, tuple[Reason, ...], tuple[Repair, ...]]]:
        """A copy, or a pickle together with the schedule, keeps reasons and repairs."""
        return ReplayError, (str(self), self.reasons, self.repairs)

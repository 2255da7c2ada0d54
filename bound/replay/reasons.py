"""Reasons and repairs: why a compute-at position is impossible, as data, and the error that carries them."""

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
    """Why a tensor shares fewer leading loops than requested.

    Attributes
    ----------
    rule: see below.
    tensor: the tensor that shares fewer loops.
    axis: its first unshared loop; `None` if no single loop is at fault.
    consumer: the consumer in the way, if any.
    asked, allowed: positions of `tensor`.

    Rules:

    - `reduction`: the loop is a reduction of the tensor;
    - `mismatch`: the consumer has different loops there;
    - `unmapped`: the consumer has no such axis;
    - `kind`: the loop is vectorized or unrolled, or annotations of the two loops differ;
    - `persistent`: the consumer needs the result of a reduction over the same loop;
    - `frozen`: an earlier call shared the loops, or attached stages to them;
    - `self_mapped`: two loops of one stage would become one;
    - `order`: every nest reads a tensor before it is complete.
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
    """An alternative to the refused call. Guarantee: it succeeded on a copy of the schedule.

    Attributes
    ----------
    kind: `position`: fewer shared loops; `mode`: each tensor shares what it can; `reorder`: the consumer's loops in
        another order; `recompute`: clones for tensors with several consumers.
    text: description of the call.
    call: takes the schedule; a `functools.partial` of a module function, hence picklable.
    """

    kind: str
    text: str
    call: Callable[[Schedule], object]

    def apply(self, schedule: Schedule) -> object:
        """Apply the repair to the refused schedule, or to a copy of it; returns the result of the call."""
        return self.call(schedule)

    def __repr__(self) -> str:
        return f"<Repair {self.kind}: {self.text}>"


class ReplayError(ScheduleError):
    """The error for an impossible position. The schedule is unchanged.

    Attributes
    ----------
    reasons: obstacles, at least one.
    repairs: alternatives. `compute_at` finds at least one for positions above 0.
    """

    def __init__(self, message: str, reasons: tuple[Reason, ...], repairs: tuple[Repair, ...] = ()) -> None:
        super().__init__(message)
        self.reasons = reasons
        self.repairs = repairs

    def __reduce__(self) -> tuple[type[ReplayError], tuple[str, tuple[Reason, ...], tuple[Repair, ...]]]:
        """Pickle reasons and repairs with the message."""
        return ReplayError, (str(self), self.reasons, self.repairs)

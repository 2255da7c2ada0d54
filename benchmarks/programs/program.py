"""What a program of the benchmark is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.evaluate import evaluate


@dataclass(frozen=True)
class Built:
    """A schedule with the parameters of its function: inputs first, the output last."""

    schedule: Schedule
    args: tuple[Tensor, ...]


@dataclass(frozen=True)
class Program:
    """A schedule and its hand-written counterpart.

    Attributes
    ----------
    build: makes the schedule; told whether its outermost loops are to be parallel.
    source: the file of the counterpart, whose function `hand` takes the arrays and then `numbers`.
    macros: what the counterpart is built with, besides `PARALLEL`.
    sizes: of the symbolic sizes, by name.
    numbers: the integers that the counterpart is called with.
    scales: on two cores, it is expected to be faster than on one.
    """

    build: Callable[[bool], Built]
    source: str
    macros: tuple[str, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    numbers: tuple[int, ...] = ()
    scales: bool = False

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The extents of a parameter at the sizes."""
        return tuple(
            int(evaluate(e, {v: self.sizes[getattr(v, "name", "")] for v in e.free_vars()})) for e in tensor.extents
        )


def threaded(stage: Any, axis: Any, parallel: bool) -> None:
    """Make a loop parallel, if asked to."""
    if parallel:
        stage.parallel(axis)

"""Measures of a schedule, with or without its tensors, or of a nest; they add: `Footprints() + Timing()`.

A measure pickles and prints, so that it travels to workers and stands in the key of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from statistics import median, quantiles
from time import perf_counter
from typing import Any

from bound import dtypes, infer_bound
from bound.infer import BoundsMap
from bound.operation import PlaceholderOp
from bound.schedule import AttachType, Schedule
from bound.tensor import Tensor
from intset.errors import InputError
from intset.expr.dag import without_assertions
from intset.expr.evaluate import evaluate
from intset.expr.node import as_int
from intset.expr.printer import shown
from lowering.explore.identity import source_of
from lowering.forms.model import modelled
from lowering.interpreter import bound_values
from lowering.lower import arguments_of, lower
from lowering.native import native_call
from lowering.nest.ir import Function
from lowering.nest.walk import statements


class Prepared:
    """What is measured at one configuration: bounds and nest of a schedule, each made once for all measures.

    Parameters
    ----------
    made: a schedule, a pair of a schedule and its argument tensors, or a nest.
    sizes: values of symbolic sizes, by name.
    """

    def __init__(self, made: object, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self._nest = made if isinstance(made, Function) else None
        schedule, args = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        if self._nest is None and not isinstance(schedule, Schedule):
            raise InputError(f"make must give a schedule, (schedule, tensors) or a nest, not {shown(made)}")
        self._schedule: Any = schedule
        self._args: Sequence[Tensor] | None = args

    @property
    def schedule(self) -> Schedule:
        if self._nest is not None:
            raise InputError("the bounds of a nest are not known: make must give a schedule")
        schedule: Schedule = self._schedule
        return schedule

    @cached_property
    def bounds(self) -> BoundsMap:
        return infer_bound(self.schedule, at=self.sizes or None)

    @cached_property
    def nest(self) -> Function:
        if self._nest is not None:
            return self._nest
        args = arguments_of(self.schedule) if self._args is None else self._args
        return lower(self.schedule, args, at=self.sizes or None)


class Measure:
    """A function from what `make` gives to a dict of numbers.

    `a + b` measures both, with one bounds inference and one nest.
    """

    def numbers(self, subject: Prepared) -> dict[str, float]:
        raise NotImplementedError

    def fixed(self) -> Mapping[str, int]:
        """The sizes at which the measure asks."""
        return dict(getattr(self, "sizes", ()))

    def __call__(self, made: object) -> dict[str, float]:
        return self.numbers(Prepared(made, self.fixed()))

    def __add__(self, other: Measure) -> Measure:
        if not isinstance(other, Measure):
            return NotImplemented
        return Together((*_parts(self), *_parts(other)))


def _parts(measure: Measure) -> tuple[Measure, ...]:
    return measure.parts if isinstance(measure, Together) else (measure,)


@dataclass(frozen=True)
class Together(Measure):
    """Several measures of one subject; sizes that one part fixes are fixed for all."""

    parts: tuple[Measure, ...]

    def source_text(self) -> str:
        """The text of every part, for the key of results."""
        return "\n".join(map(source_of, self.parts))

    def fixed(self) -> Mapping[str, int]:
        return {name: value for part in self.parts for name, value in part.fixed().items()}

    def numbers(self, subject: Prepared) -> dict[str, float]:
        return {name: value for part in self.parts for name, value in part.numbers(subject).items()}


class _Sized(Measure):
    """A measure at given values of symbolic sizes."""

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        given = {} if sizes is None else sizes
        if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
            raise InputError(f"sizes must map names to integers, not {shown(sizes)}")
        self.sizes = {name: as_int(value, f"the size {name}") for name, value in given.items()}

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class Footprints(_Sized):
    """The storage that bounds inference allocates: `bytes`, what lives at once, `b.bytes()`; `bytes_T`, of each tensor
    `T` alone; and `elements_T`, the elements of `T` computed over all instances."""

    def numbers(self, subject: Prepared) -> dict[str, float]:
        bounds = subject.bounds
        schedule = bounds.schedule
        outputs = {tensor for op in schedule.outputs for tensor in op.outputs}
        found: dict[str, float] = {"bytes": 0}
        for stage in schedule.stages:
            if isinstance(stage.op, PlaceholderOp) or stage.attach_type is AttachType.INLINED_ALREADY:
                continue
            for tensor in stage.op.outputs:
                if tensor in outputs:
                    continue
                extents = [_constant(side.extent, tensor.name) for side in bounds.allocated(tensor)]
                found[f"bytes_{tensor.name}"] = prod(extents) * dtypes.storage_bytes(tensor.dtype)
                found[f"elements_{tensor.name}"] = _constant(bounds.computed(tensor).count_total(), tensor.name)
        found["bytes"] = _constant(bounds.bytes(), "the storage")
        return found


def _constant(value: Any, what: str) -> int:
    if isinstance(value, int) or getattr(value, "is_const", False):
        return int(value)
    raise InputError(f"{what} depends on sizes, {value}: give their values as sizes={{name: value}}")


class ModelledCost(_Sized):
    """The cost that `lower` compares nests by: `cost`, in operations weighed as `lowering.forms.model` says."""

    def numbers(self, subject: Prepared) -> dict[str, float]:
        sizes = {var: subject.sizes[var.name] for var in subject.nest.sizes if var.name in subject.sizes}
        return {"cost": sum(modelled(subject.nest, sizes).values())}


class Lowering(_Sized):
    """The nest: `lower_seconds`, bounds inference included unless another measure asked before, and `statements`."""

    def numbers(self, subject: Prepared) -> dict[str, float]:
        begin = perf_counter()
        nest = subject.nest
        return {"lower_seconds": perf_counter() - begin, "statements": sum(1 for _ in statements(nest.body))}


class Timing(_Sized):
    """Compiled C on this machine: `time`, the median seconds of a call, and `spread`, between its quartiles.

    Inputs are drawn from a fixed seed: floats of a standard normal distribution, integers of the declared range, else 0
    and 1. One call before the timed ones warms caches up.

    Parameters
    ----------
    repeats: timed calls, at least 2.
    """

    def __init__(self, repeats: int = 9, sizes: Mapping[str, int] | None = None) -> None:
        super().__init__(sizes)
        self.repeats = as_int(repeats, "repeats")
        if self.repeats < 2:
            raise InputError(f"repeats must be at least 2: {shown(repeats)}")

    def numbers(self, subject: Prepared) -> dict[str, float]:
        call = _bound_call(subject.nest, subject.sizes)
        call()
        seconds = []
        for _ in range(self.repeats):
            begin = perf_counter()
            call()
            seconds.append(perf_counter() - begin)
        low, _, high = quantiles(seconds, n=4, method="inclusive")
        return {"time": median(seconds), "spread": high - low}


def _bound_call(f: Function, sizes: Mapping[str, int]) -> Callable[[], None]:
    """A call of the compiled nest on drawn inputs."""
    import numpy as np

    rng = np.random.default_rng(0)
    by_var = {var: value for var in f.sizes if (value := sizes.get(var.name)) is not None}
    arrays = {}
    for tensor in f.params:
        extents = [without_assertions(e) for e in tensor.extents]
        if missing := [var.name for e in extents for var in e.free_vars() if var not in by_var]:
            raise InputError(f"the size {missing[0]} is not given: Timing(sizes={{{missing[0]!r}: value}})")
        shape = tuple(evaluate(e, by_var) for e in extents)
        arrays[tensor] = _drawn(rng, tensor, shape) if tensor not in f.outputs else np.zeros(shape, tensor.dtype)
    values, shapes = bound_values(f, arrays, dict(by_var))
    return native_call(f, arrays, values, shapes)


def _drawn(rng: Any, tensor: Tensor, shape: tuple[int, ...]) -> Any:
    if dtypes.is_float(tensor.dtype):
        return rng.standard_normal(shape).astype(tensor.dtype)
    low, high = tensor.value_range or (0, 1)
    return rng.integers(low, high, size=shape, endpoint=True).astype(tensor.dtype)

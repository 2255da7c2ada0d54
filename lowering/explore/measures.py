"""Measures of a schedule or a nest, and the key that identifies a folder's results.

Measures add: `Footprints() + Timing()`. A measure pickles and prints, so that it travels to workers and stands in the
key of its results.

The key consists of the source texts of `make`, `measure` and what they name, the configuration and the version. Two
runs with equal keys continue one another; results of another key are never mixed with theirs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cached_property
from math import prod
from statistics import median, quantiles
from time import perf_counter
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol, runtime_checkable

from bound import dtypes, infer_bound
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.config import current
from intset.errors import InputError
from intset.expr import dag, shown
from intset.expr.evaluate import evaluate
from intset.expr.node import as_int
from intset.installation import library_version
from lowering.forms.model import modelled
from lowering.interpreter import bound_values, native_call
from lowering.lower import arguments_of, lower
from lowering.nest import ir
from lowering.nest.walk import statements


class Prepared:
    """What is measured at one configuration: a schedule's bounds and nest, each computed once for all measures.

    Parameters
    ----------
    made: a schedule, a pair of a schedule and its argument tensors, or a nest.
    sizes: values of symbolic sizes, by name.
    """

    def __init__(self, made: object, sizes: Mapping[str, int]) -> None:
        self.sizes = dict(sizes)
        self._nest = made if isinstance(made, ir.Function) else None
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
    def nest(self) -> ir.Function:
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
    """Several measures of one subject; sizes that one part fixes are fixed for all.

    Raises
    ------
    InputError: two parts fix a size at different values.
    """

    parts: tuple[Measure, ...]

    def __post_init__(self) -> None:
        fixed: dict[str, int] = {}
        for part in self.parts:
            for name, value in part.fixed().items():
                if fixed.setdefault(name, value) != value:
                    raise InputError(f"measures of one subject differ in the size {name}: {fixed[name]} and {value}")

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
            if not bounds.is_computed(stage):
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


def _bound_call(f: ir.Function, sizes: Mapping[str, int]) -> Callable[[], None]:
    """A call of the compiled nest on drawn inputs."""
    import numpy as np

    rng = np.random.default_rng(0)
    by_var = {var: value for var in f.sizes if (value := sizes.get(var.name)) is not None}
    arrays = {}
    for tensor in f.params:
        extents = [dag.without_assertions(e) for e in tensor.extents]
        if missing := [var.name for e in extents for var in e.free_vars() if var not in by_var]:
            raise InputError(f"the size {missing[0]} is not given: Timing(sizes={{{missing[0]!r}: value}})")
        shape = tuple(evaluate(e, by_var) for e in extents)
        if tensor in f.outputs:
            drawn: Any = np.zeros(shape)
        elif dtypes.is_float(tensor.dtype):
            drawn = rng.standard_normal(shape)
        else:
            drawn = rng.integers(*(tensor.value_range or (0, 1)), size=shape, endpoint=True)
        arrays[tensor] = drawn.astype(tensor.dtype)
    values, shapes = bound_values(f, arrays, dict(by_var))
    return native_call(f, arrays, values, shapes)


MAX_KEY = 4000  # characters
_PLAIN = (int, float, str, bytes, bool, type(None))
_GENERATED = "<string>"  # the file of methods that dataclasses make
_LIBRARY = ("intset", "bound", "lowering")  # their version is in the key


@runtime_checkable
class HasSource(Protocol):
    """A callable that declares the inputs of its results."""

    def source_text(self) -> str: ...


def settings() -> dict[str, Any]:
    """The library's configuration in force, without the cache of answers, which changes none."""
    return {name: value for name, value in asdict(current()).items() if name not in ("cache", "stated")}


def key_of(make: Any, measure: Any) -> dict[str, str]:
    """The key, as texts by what they describe."""
    return {
        "make": _shortened(source_of(make)),
        "measure": "" if measure is None else _shortened(source_of(measure)),
        "configuration": ", ".join(f"{name}={value!r}" for name, value in settings().items()),
        "version": library_version(),
    }


def _shortened(text: str) -> str:
    """A text that every file can hold: the end of a long one is told by its digest."""
    if len(text) <= MAX_KEY:
        return text
    return f"{text[:MAX_KEY]}\n... {hashlib.blake2b(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def source_of(function: Any) -> str:
    """What a callable computes, as text: its source, and the sources and plain constants of what it names.

    Functions, classes and instances that are named by global, enclosing or default variables, or as attributes of
    modules, are followed, and so is what these name. Installed packages, the standard library, and what is looked up
    while the function runs (methods of an object that `make` is given) are not in the text.
    """
    return "\n".join(_Collector().texts(function))


class _Collector:
    """A walk over what a callable names, each thing once."""

    def __init__(self) -> None:
        self._seen: dict[int, object] = {}  # keeps the objects alive, so their identities stay unique

    def texts(self, thing: Any) -> Iterator[str]:
        if id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, HasSource) and not inspect.isclass(thing):
            yield thing.source_text()
        elif isinstance(thing, functools.partial):
            yield "partial"
            yield from self._of((thing.func, *thing.args, *thing.keywords.values()))
            yield ", ".join(thing.keywords)
        elif isinstance(thing, MethodType):
            yield _state(thing.__self__)
            yield from self.texts(thing.__func__)
        elif isinstance(thing, FunctionType):
            yield _source(thing)
            yield from self._outside(thing)
        elif inspect.isclass(thing):
            yield _source(thing)
            members = [getattr(member, "__func__", member) for _, member in sorted(vars(thing).items())]
            members += [member.fget for member in members if isinstance(member, property)]
            for member in members:
                yield from self._outside(_unwrapped(member))
            yield from self._of(base for base in thing.__bases__ if _is_own(base))
        elif (inner := _unwrapped(thing)) is not thing:  # such as a function with functools.cache
            yield from self.texts(inner)
        else:
            yield _state(thing)
            yield from self.texts(type(thing))

    def _outside(self, function: Any) -> Iterator[str]:
        if not isinstance(function, FunctionType) or function.__code__.co_filename == _GENERATED:
            return
        for name, value in sorted(_named(function).items()):
            if _is_plain(value):
                yield f"{name} = {value!r}"
            elif _is_own(value) and not isinstance(value, ModuleType):
                yield from self.texts(value)

    def _of(self, things: Iterable[Any]) -> Iterator[str]:
        for thing in things:
            if _is_plain(thing):
                yield repr(thing)
            else:
                yield from self.texts(thing)


def _named(function: FunctionType) -> dict[str, Any]:
    """What a function, and the functions inside it, take from outside, by name."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    found = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        with contextlib.suppress(ValueError):  # a variable without a value yet
            found[name] = cell.cell_contents
    for owner, module in list(found.items()):
        if isinstance(module, ModuleType) and _is_own(module):
            found |= {f"{owner}.{name}": vars(module)[name] for name in names if name in vars(module)}
    given = dict(enumerate(function.__defaults__ or ())) | (function.__kwdefaults__ or {})
    return found | {f"default {name}": value for name, value in given.items()}


def _unwrapped(thing: Any) -> Any:
    """What a decorator of the standard library wraps; a module or a class is itself."""
    return thing if inspect.isclass(thing) or not callable(thing) else inspect.unwrap(thing)


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


@functools.cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(f"{os.path.realpath(paths[name])}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def _is_own(thing: Any) -> bool:
    """Whether a function, a class, an instance or a module is of the user's files, not of a package with a version."""
    unwrapped = _unwrapped(thing)
    if isinstance(unwrapped, functools.partial):
        return True
    known = (FunctionType, MethodType, ModuleType)
    owner = unwrapped if isinstance(unwrapped, known) or inspect.isclass(unwrapped) else type(unwrapped)
    name = owner.__name__ if isinstance(owner, ModuleType) else owner.__module__
    if not isinstance(name, str) or name.partition(".")[0] in _LIBRARY:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return name == "__main__" or isinstance(owner, (FunctionType, MethodType))
    return not os.path.realpath(file).startswith(_installed())


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        code = getattr(thing, "__code__", None)
        return f"{thing.__module__}.{thing.__qualname__}" if code is None else "\n".join(_compiled(code))


def _compiled(code: CodeType) -> Iterator[str]:
    """A function without source text, such as one typed at a prompt."""
    for part in _codes(code):
        constants = [repr(constant) for constant in part.co_consts if not isinstance(constant, CodeType)]
        yield f"{part.co_name} {part.co_code.hex()} {part.co_names} {part.co_varnames} {', '.join(constants)}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    if isinstance(value, Mapping):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)


def _state(thing: Any) -> str:
    """An object by its type and plain attributes."""
    names = [field.name for field in fields(thing)] if is_dataclass(thing) else sorted(getattr(thing, "__dict__", {}))
    plain = ", ".join(f"{name}={value!r}" for name in names if _is_plain(value := getattr(thing, name)))
    return f"{type(thing).__module__}.{type(thing).__qualname__}({plain})"

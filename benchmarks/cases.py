"""Programs that are timed in several forms: the schedule corpus, scaled until a call takes time, and programs of the
same size that no weight is fitted to.
"""

import ctypes
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from time import process_time
from types import FrameType
from typing import Any, Final

import numpy as np

from benchmarks.programs import PROGRAMS
from benchmarks.programs.unfitted import UNFITTED
from benchmarks.scaled import LEAST, Scaled, names
from bound.schedule import Schedule
from intset.expr.evaluate import evaluate
from lowering import Function, lower
from lowering.codegen.c import CFile, c_file
from lowering.interpreter import FLAGS, compiled_library

MOST_BYTES: Final = 1 << 28  # of one array
MANY: Final = (1 << 16) + 1  # different elements of an array
MOST_FACTOR: Final = 1 << 22


@dataclass(frozen=True)
class Case:
    """A program at certain sizes.

    Attributes
    ----------
    make: the schedule, built anew, with the parameters of its function, and the values of its sizes by name.
    factor: by which it was scaled.
    """

    make: Callable[[], tuple[Schedule, Sequence[Any] | None, Mapping[str, int]]]
    factor: int = 1

    def lowered(self, **options: Any) -> tuple[Function, Mapping[str, int]]:
        """What `lower` makes of it, and the sizes."""
        schedule, args, sizes = self.make()
        return lower(schedule, args, **options), sizes


def corpus() -> Iterator[tuple[str, Callable[[float], Case]]]:
    """The cases of the schedule corpus with each way to scale them, made such that a call takes so many seconds."""
    for name, least in product(names(), LEAST):
        yield f"{name}@{least}", lambda seconds, name=name, least=least: enough(name, least, seconds)  # type: ignore[misc]


def fixed() -> Iterator[tuple[str, Callable[[float], Case]]]:
    """The programs with hand-written counterparts, and those that no weight is fitted to."""
    for name, program in PROGRAMS.items():

        def made(seconds: float, program: Any = program) -> Case:
            def make() -> tuple[Schedule, Sequence[Any], Mapping[str, int]]:
                built = program.build(False)
                return built.schedule, built.args, program.sizes

            return Case(make)

        yield name, made
    for name, build in UNFITTED.items():
        yield name, lambda seconds, build=build: Case(lambda: (build(), None, {}))  # type: ignore[misc]


def enough(name: str, least: int, seconds: float) -> Case:
    """A case of the corpus at a factor at which a call takes long enough, as far as its arrays allow that."""
    factor, most = 16, MOST_FACTOR
    while True:
        case = scaled(name, least, factor)
        f, sizes = case.lowered()
        try:
            call = called(f, c_file(f), arrays(f, sizes), sizes)
        except MemoryError:
            most = factor // 2
            if factor <= 16:
                raise
            factor //= 2
            continue
        call()
        taken = min(call() for _ in range(3))
        if taken >= seconds or factor >= most:
            return case
        factor = min(most, factor * (16 if taken < seconds / 200 else 4 if taken < seconds / 4 else 2))  # or its cube


def scaled(name: str, least: int, factor: int) -> Case:
    """A case of the corpus at a factor."""

    def make() -> tuple[Schedule, None, Mapping[str, int]]:
        schedule, sizes = Scaled(name, least, factor).schedule()
        return schedule, None, sizes

    return Case(make, factor)


def arrays(f: Function, sizes: Mapping[str, int]) -> list[Any]:
    """An array for each parameter of a function, with values that its type declares to be possible.

    Raises
    ------
    MemoryError: one of them is too large.
    """
    rng = np.random.default_rng(0)
    floats = rng.standard_normal(MANY, "float32")
    found = []
    for t in f.params:
        shape = tuple(int(evaluate(e, {v: sizes[getattr(v, "name", "")] for v in e.free_vars()})) for e in t.extents)
        if 4 * np.prod(shape, dtype=float) > MOST_BYTES:
            raise MemoryError
        low, high = t.value_range or (0, 7)
        some = floats if t.dtype.startswith("float") else rng.integers(int(low), int(high) + 1, MANY)
        found.append(np.resize(some.astype(t.dtype), shape))
    return found


def called(f: Function, file: CFile, given: Sequence[Any], sizes: Mapping[str, int]) -> Callable[[], float]:
    """A call of the compiled function, which answers the processor time that it took."""
    function = getattr(ctypes.CDLL(str(compiled_library(file.text, FLAGS))), file.entry)
    wide = ctypes.c_int32 if file.bits == 32 else ctypes.c_int64
    args = [a.ctypes.data_as(ctypes.c_void_p) for a in given] + [wide(sizes[v.name]) for v in f.sizes]

    def seconds() -> float:
        begin = process_time()
        if function(*args):
            raise RuntimeError(f"{f.name} failed")
        return process_time() - begin

    return seconds


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """A block that ends with `TimeoutError` if it takes longer."""

    def late(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

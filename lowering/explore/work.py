"""What a worker runs: `make` and `measure` at the configurations of one batch, each with its outcome.

A batch travels as a pickled `Task` and rows of values; outcomes travel back. Workers write no files.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Final

from intset.config import using
from intset.errors import InputError
from intset.expr.printer import shown
from lowering.errors import ExplorationError

Row = tuple[Any, ...]  # the values of one configuration, in the order of the names
Numbers = dict[str, Any]
MAX_TEXT: Final = 2000  # characters of an error


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one configuration gave: values, or the text of its error. `seconds` covers `make` and `measure`."""

    values: Numbers
    error: str | None
    seconds: float


@dataclass(frozen=True)
class Task:
    """What is done at each configuration; pickled once for all batches.

    Attributes
    ----------
    names: the names of the configurations' values.
    settings: the fields of the library's configuration in force at the driver.
    """

    make: Callable[[dict[str, Any]], Any]
    measure: Callable[[Any], Mapping[str, Any]] | None
    names: tuple[str, ...]
    settings: Mapping[str, Any]

    def outcomes(self, rows: Sequence[Row]) -> Iterator[Measurement]:
        """The outcome of each row, in order. What `make` or `measure` raises is an outcome; an interrupt is not."""
        with using(**self.settings) if self.settings else nullcontext():
            for row in rows:
                yield self.outcome(row)

    def outcome(self, row: Row) -> Measurement:
        begin = perf_counter()
        values: Numbers = {}
        error = None
        try:
            result: Any = self.make(dict(zip(self.names, row, strict=True)))
            values = _numbers(result if self.measure is None else self.measure(result), self.names)
        except KeyboardInterrupt:
            raise
        except BaseException as failure:  # some libraries' panics, and SystemExit, are no Exception
            values, error = {}, error_text(failure)
        return Measurement(values, error, perf_counter() - begin)

    def pickled(self) -> bytes:
        """The task as bytes, functions of a script or a session by value where cloudpickle is installed.

        Raises
        ------
        InputError: a part cannot be pickled.
        """
        try:
            from cloudpickle import dumps
        except ImportError:
            from pickle import dumps
        try:
            data: bytes = dumps(self)
        except Exception as error:
            raise InputError(f"make and measure cannot be sent to workers: {error_text(error)}") from error
        return data


def error_text(error: BaseException) -> str:
    """The type and the message of an error, at most `MAX_TEXT` characters, such as UTF-8 can hold."""
    try:
        message = str(error).strip()
    except Exception as failure:
        message = f"its message raised {type(failure).__name__}"
    text = (f"{type(error).__name__}: {message}" if message else type(error).__name__)[:MAX_TEXT]
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def is_text(value: object) -> bool:
    """Whether a value is a text that UTF-8 can hold."""
    if not isinstance(value, str):
        return False
    try:
        return value.isascii() or bool(value.encode())
    except UnicodeEncodeError:
        return False


def _numbers(result: object, names: tuple[str, ...]) -> Numbers:
    """The values of one measurement as Python numbers; `None` stands for a missing one."""
    if not isinstance(result, Mapping):
        raise InputError(f"measure must return a dict of numbers, not {shown(result)}")
    numbers: Numbers = {}
    for name, value in result.items():
        if not is_text(name) or not name or name in RESERVED or name in names:
            raise InputError(f"measure: {shown(name)} cannot name a value: it is taken, or no text")
        kind = type(value)
        if kind is float or kind is int or kind is bool or value is None:
            numbers[name] = value
        else:
            numbers[name] = _number(name, value)
    return numbers


def _number(name: str, value: Any) -> int | float | bool:
    """A number of another library, or a constant expression, as Python's."""
    if type(value).__module__ == "numpy" and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Integral) or getattr(value, "is_const", False):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise InputError(f"measure: the value {name} must be a number, not {shown(value)}")


RESERVED: Final = ("error", "seconds", "version")  # columns beside values


# -- in another process -----------------------------------------------------------------------------------------

_stop: Any = None  # an event of the driver's pool, set when no further configuration is to begin


def start_worker(stop: Any) -> None:
    """Prepare a process of a pool: interrupts belong to the driver, and the process ends when the driver does."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end with the driver", daemon=True).start()


def _end_with_parent() -> None:
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_batch(data: bytes, rows: Sequence[Row], seconds: float, serial: int) -> list[Measurement]:
    """The outcomes of the first rows: all of them, or as many as began within `seconds`, at least one.

    `serial` tells batches apart, so that no executor takes one for another with the same rows.

    Raises
    ------
    ExplorationError: this process cannot load the task.
    """
    try:
        task = _loaded(data)
    except Exception as error:
        raise ExplorationError(f"a worker cannot load make and measure: {error_text(error)}") from None
    outcomes = []
    end = perf_counter() + seconds
    for outcome in task.outcomes(rows):
        outcomes.append(outcome)
        if perf_counter() >= end or (_stop is not None and _stop.is_set()):
            break
    return outcomes


@lru_cache(maxsize=4)
def _loaded(data: bytes) -> Task:
    task: Task = pickle.loads(data)
    return task

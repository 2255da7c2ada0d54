"""What a worker runs, and where batches run: this process, a pool, or any `concurrent.futures.Executor`.

A worker runs `make` and `measure` at the configurations of one batch. A batch travels as a pickled `Task` and rows of
values; outcomes travel back. Workers write no files.

An engine is a generator of finished batches. Its consumer writes a batch to disk before requesting the next, and the
worker receives new work only after that: a worker holds at most one batch of unwritten results.

When a worker dies, the pool loses all its workers. Their batches then run again, one configuration
per process, so that only the configuration that kills its process fails. A cluster's engine runs the batch of a lost
worker again by its own rules; a configuration that the engine gives up on runs once more, alone.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from numbers import Integral, Real
from time import monotonic, perf_counter
from typing import Any, Final

from intset.config import using
from intset.errors import InputError
from intset.expr import shown
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
    """Whether a value is a string that UTF-8 can encode."""
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
        numbers[name] = None if value is None else _number(name, value)
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

_loaded: Final = lru_cache(maxsize=4)(pickle.loads)
_stop: Any = None  # an event of the driver's pool, set when no further configuration is to begin


def start_worker(stop: Any) -> None:
    """Prepare a process of a pool: interrupts belong to the driver, and the process ends when the driver does."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="end with the driver", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_batch(data: bytes, rows: Sequence[Row], seconds: float, serial: int) -> list[Measurement]:
    """The outcomes of the first rows: every row, or the rows started within `seconds`; never zero rows.

    `serial` tells batches apart, so that no executor takes one for another with the same rows.

    Raises
    ------
    ExplorationError: this process cannot load the task.
    """
    try:
        task: Task = _loaded(data)
    except Exception as error:
        raise ExplorationError(f"a worker cannot load make and measure: {error_text(error)}") from None
    outcomes = []
    end = perf_counter() + seconds
    for outcome in task.outcomes(rows):
        outcomes.append(outcome)
        if perf_counter() >= end or (_stop is not None and _stop.is_set()):
            break
    return outcomes


Finished = tuple[Sequence[Row], Sequence[Measurement]]

MAX_ROWS: Final = 1 << 14  # of one batch
SHORTEST: Final = 0.05  # seconds of a batch at the end, where work is shared out evenly
LONGEST: Final = 60.0  # seconds of a batch in a long exploration
SHARE: Final = 0.01  # of the elapsed time, the share per batch
FAILURES: Final = 8  # batches lost before the first result, after which the exploration stops
_WIDTH_SECONDS: Final = 5.0  # between two questions to a cluster for its number of workers


class Pace:
    """The size of the next batch: about a second of work, and a hundredth of the time elapsed in a long run.

    Parameters
    ----------
    total: configurations to measure.
    seconds: of work in a batch, if the caller chose.
    """

    def __init__(self, total: int, seconds: float | None = None) -> None:
        self.left = total
        self.width = 1
        self._chosen = seconds
        self._begin = monotonic()
        self._mean: float | None = None

    @property
    def seconds(self) -> float:
        if self._chosen is not None:
            return self._chosen
        return min(max(1.0, SHARE * (monotonic() - self._begin), SHARE * self.width), LONGEST)

    def rows(self) -> int:
        """Rows of the next batch: one until a configuration was timed, fewer at the end, where workers share."""
        if self._mean is None:
            return 1
        even = max(self.left / (2 * self.width), SHORTEST / self._mean)
        return max(1, min(int(self.seconds / self._mean), int(even), MAX_ROWS))

    def learn(self, outcomes: Sequence[Measurement]) -> None:
        if outcomes:
            mean = max(sum(outcome.seconds for outcome in outcomes) / len(outcomes), 1e-7)
            self._mean = mean if self._mean is None else (self._mean + mean) / 2
            self.left -= len(outcomes)


class Feed:
    """Rows that wait for a worker; rows that come back stand first in line."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self._back: deque[Row] = deque()

    def take(self, count: int) -> list[Row]:
        back = [self._back.popleft() for _ in range(min(count, len(self._back)))]
        return [*back, *islice(self._rows, count - len(back))]

    def put_back(self, rows: Sequence[Row]) -> None:
        self._back.extendleft(reversed(rows))


def in_this_process(task: Task, feed: Feed, pace: Pace) -> Iterator[Finished]:
    """Run the batches here. An interrupt yields the finished part and continues."""
    while rows := feed.take(pace.rows()):
        outcomes: list[Measurement] = []
        end = perf_counter() + pace.seconds
        try:
            for outcome in task.outcomes(rows):
                outcomes.append(outcome)
                if perf_counter() >= end:
                    break
        except KeyboardInterrupt:
            yield rows[: len(outcomes)], outcomes
            raise
        feed.put_back(rows[len(outcomes) :])
        pace.learn(outcomes)
        yield rows[: len(outcomes)], outcomes


def on_workers(
    task: Task, feed: Feed, pace: Pace, engine: futures.Executor | int, workers: int | None
) -> Iterator[Finished]:
    """Run the batches in `engine` processes, or on an executor of the caller, which stays open."""
    if isinstance(engine, int):
        with closing(OwnPool(engine)) as pool:
            yield from _Submitter(task, feed, pace, pool, lambda: engine).finished()
    else:
        width = _InFlight(engine) if workers is None else lambda: workers
        yield from _Submitter(task, feed, pace, engine, width).finished()


class OwnPool:
    """A process pool that is made anew when one of its processes died."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.stop = multiprocessing.Event()
        self._others = {child.pid for child in multiprocessing.active_children()}
        self._pool: futures.ProcessPoolExecutor | None = None

    def submit(self, function: Callable[..., Any], *args: Any) -> futures.Future[Any]:
        if self._pool is None:
            self._pool = self.fresh(self.workers)
        return self._pool.submit(function, *args)

    def fresh(self, workers: int) -> futures.ProcessPoolExecutor:
        return futures.ProcessPoolExecutor(workers, initializer=start_worker, initargs=(self.stop,))

    def drop(self) -> None:
        """Forget a broken pool."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def close(self) -> None:
        """End the processes; what they still compute is lost."""
        self.stop.set()
        if self._pool is not None:
            children = [child for child in multiprocessing.active_children() if child.pid not in self._others]
            settings = {"wait": True, "cancel_futures": True}
            ending = threading.Thread(target=self._pool.shutdown, kwargs=settings, name="end the pool", daemon=True)
            ending.start()
            ending.join(timeout=0.2 * len(children))
            for child in children:
                if child.is_alive():
                    child.kill()
            ending.join(timeout=10)  # the pool's own thread takes their exit codes
            self._pool = None


class _Submitter:
    """Hands batches to an executor, one for each worker at a time, and yields them as they finish."""

    def __init__(
        self, task: Task, feed: Feed, pace: Pace, executor: futures.Executor | OwnPool, width: Callable[[], int]
    ) -> None:
        self._data = task.pickled()
        self._feed, self._pace, self._submit, self._width = feed, pace, executor.submit, width
        self._own = executor if isinstance(executor, OwnPool) else None
        self._pending: dict[futures.Future[Any], list[Row]] = {}
        self._suspects: list[Row] = []  # rows of batches that were lost as a whole
        self._serial = 0
        self._lost = 0
        self._has_results = False

    def finished(self) -> Iterator[Finished]:
        try:
            while self._refill() or self._suspects:
                if not self._pending or (self._own is not None and self._suspects):
                    yield from self._alone()
                    continue
                for future in futures.wait(self._pending, return_when=futures.FIRST_COMPLETED).done:
                    if (batch := self._collect(future)) is not None:
                        yield batch
        except KeyboardInterrupt:
            yield from self._drained()
            raise
        except BaseException:
            self._cancel()
            raise

    def _refill(self) -> bool:
        """Submit batches until every worker has one; whether any is pending."""
        self._pace.width = width = self._width()
        while len(self._pending) < width and not (self._own is not None and self._suspects):
            rows = self._feed.take(self._pace.rows())
            if not rows:
                break
            try:
                self._pending[self._start(self._submit, rows)] = rows
            except futures.BrokenExecutor as error:
                self._lose(rows, error)
                break
        return bool(self._pending)

    def _start(self, submit: Callable[..., futures.Future[Any]], rows: list[Row]) -> futures.Future[Any]:
        self._serial += 1
        return submit(run_batch, self._data, rows, 2 * self._pace.seconds, self._serial)

    def _collect(self, future: futures.Future[Any]) -> Finished | None:
        """The finished part of a batch; the rest returns to the feed."""
        rows = self._pending.pop(future)
        try:
            outcomes: list[Measurement] = future.result()
        except ExplorationError:
            raise
        except (Exception, futures.CancelledError) as error:
            self._lose(rows, error)
            return None
        self._has_results = True
        self._feed.put_back(rows[len(outcomes) :])
        self._pace.learn(outcomes)
        return rows[: len(outcomes)], outcomes

    def _lose(self, rows: list[Row], error: BaseException) -> None:
        self._suspects += rows
        self._lost += 1
        foreign = self._own is None
        if foreign and not self._has_results and (self._lost >= FAILURES or isinstance(error, futures.BrokenExecutor)):
            raise ExplorationError(f"the executor runs no batch: {error_text(error)}") from error

    def _alone(self) -> Iterator[Finished]:
        """Run suspect rows one at a time; a row lost twice records the loss as its error."""
        if self._own is not None:
            for future in list(self._pending):  # a broken pool has failed all futures, or all finished
                if (batch := self._collect(future)) is not None:
                    yield batch
            self._own.drop()
        pool = None
        try:
            while self._suspects:
                rows = [self._suspects[0]]
                if self._own is not None and pool is None:
                    pool = self._own.fresh(1)
                begin = perf_counter()
                try:
                    outcomes = self._start(self._submit if pool is None else pool.submit, rows).result()
                    self._has_results = True
                except ExplorationError:
                    raise
                except (Exception, futures.CancelledError) as error:
                    self._lost += 1
                    if not self._has_results and self._lost >= 2 * FAILURES:
                        raise ExplorationError(f"no worker lives to return a result: {error_text(error)}") from error
                    text = error_text(error)
                    if isinstance(error, futures.BrokenExecutor):
                        text = "WorkerDied: the process that measured this configuration died"
                    outcomes = [Measurement({}, text, perf_counter() - begin)]
                    if pool is not None:
                        pool.shutdown(wait=True)
                        pool = None
                self._suspects.pop(0)
                self._pace.learn(outcomes)
                yield rows, outcomes
                if self._own is not None and self._own.stop.is_set():
                    break
        finally:
            if pool is not None:
                pool.shutdown(wait=True)

    def _drained(self) -> Iterator[Finished]:
        """The results that an interrupt leaves: workers of an own pool finish the configuration they are at."""
        waiting = set(self._pending)
        if self._own is not None:
            self._own.stop.set()
        else:
            self._cancel()
            waiting = {future for future in waiting if future.done() and not future.cancelled()}
        for future in futures.wait(waiting).done:
            rows = self._pending.pop(future)
            if future.exception() is None:
                outcomes = future.result()
                yield rows[: len(outcomes)], outcomes

    def _cancel(self) -> None:
        for future in self._pending:
            future.cancel()


class _InFlight:
    """The number of batches in flight on an executor of the caller: its number of workers, where the executor reports
    it."""

    def __init__(self, executor: Any) -> None:
        self._executor = executor
        self._asked = -_WIDTH_SECONDS
        self._last = 1

    def __call__(self) -> int:
        if monotonic() - self._asked >= _WIDTH_SECONDS:
            self._last, self._asked = max(1, self._found()), monotonic()
        return self._last

    def _found(self) -> int:
        client: Any = getattr(self._executor, "_client", None)  # Dask's: workers come and go
        if hasattr(client, "nthreads"):
            return sum(client.nthreads().values())
        for name in ("num_workers", "_max_workers"):  # of mpi4py, of the standard library
            if isinstance(number := getattr(self._executor, name, None), int):
                return number
        return os.cpu_count() or 1


def checked_executor(executor: Any) -> futures.Executor | int | None:
    """`None`, a number of processes, or an executor.

    Raises
    ------
    InputError: anything else.
    """
    if executor is None or isinstance(executor, futures.Executor):
        return executor
    if isinstance(executor, int) and not isinstance(executor, bool):
        if executor < 1:
            raise InputError(f"executor must be at least 1 process, not {shown(executor)}")
        return executor
    if callable(getattr(executor, "submit", None)) and callable(getattr(executor, "shutdown", None)):
        found: futures.Executor = executor
        return found
    raise InputError(
        f"executor must be None, a number of processes or a concurrent.futures.Executor, not {shown(executor)}"
    )

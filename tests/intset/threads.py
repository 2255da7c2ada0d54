"""Work in several threads at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_threads(work: Callable[[int], T], count: int) -> list[T]:
    """What `work(0)` to `work(count - 1)` return, each in a thread of its own, started together; their first error."""
    start = threading.Barrier(count)

    def run(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))

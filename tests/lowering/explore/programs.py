"""Explorations for tests: each measurement appends a line to a log, so repetitions can be counted."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

SPACE = [{"a": a, "b": b, "wide": b % 2 == 0} for a in range(30) for b in range(10)]


class Logged:
    """A measurement of a few milliseconds that appends its configuration and process to a file."""

    def __init__(self, log: str, seconds: float = 0.002) -> None:
        self.log, self.seconds = log, seconds

    def source_text(self) -> str:
        return "the same in every run"

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        line = f"{config['a']} {config['b']} {os.getpid()}\n".encode()
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)
        time.sleep(self.seconds)
        if config["a"] == 3:
            raise ValueError(f"no {config['b']}")
        return {"product": config["a"] * config["b"], "half": config["a"] / 2}


def same(config: dict[str, Any]) -> dict[str, Any]:
    return config


def deadly(config: dict[str, Any]) -> dict[str, Any]:
    """Ends its process at one configuration."""
    if config["a"] == 5 and config["b"] == 5:
        os._exit(1)
    return {"product": config["a"] * config["b"]}


def logged(log: Path) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b, _ in map(str.split, log.read_text().splitlines())]


def main() -> None:
    """`python -m tests.lowering.explore.programs OUT LOG WORKERS BATCH`: what a test kills.

    WORKERS is a number of processes, 0 for none, or the address of a Dask scheduler.
    """
    from lowering import explore

    out, log, workers, batch = sys.argv[1:]
    executor: Any = int(workers) or None if workers.isdigit() else dask_executor(workers)
    explore(same, SPACE, measure=Logged(log), executor=executor, out=out, batch=float(batch))


def dask_executor(address: str) -> Any:
    from distributed import Client

    return Client(address).get_executor()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit that it is ignored
    main()

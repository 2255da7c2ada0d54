"""What `explore` adds to the work: `python -m benchmarks.exploring [--pairs N] [--count N]`.

On one core beside a loop written by hand over tasks of 10 ms, in turns (target: at most 5 % more), and tasks of 1 ms on
two workers beside one (target: at most 60 % of its time). Tasks sleep: a busy machine then adds little to either side.
"""

import argparse
import time
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from lowering import explore

ADDED, SHARE = 0.05, 0.6  # targets


class Sleeping:
    """A task of a fixed time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        time.sleep(self.seconds)
        return {"value": config["k"] * 2}


def by_hand(task: Sleeping, count: int) -> float:
    """Seconds of the loop without `explore`."""
    begin = time.perf_counter()
    kept = [task({"k": k}) for k in range(count)]
    assert len(kept) == count
    return time.perf_counter() - begin


def explored(task: Sleeping, count: int, executor: int | None) -> float:
    """Seconds of `explore`, its files included."""
    space = [{"k": k} for k in range(count)]
    with TemporaryDirectory() as folder:
        begin = time.perf_counter()
        found = explore(task, space, executor=executor, out=folder, progress=False)
        seconds = time.perf_counter() - begin
        assert len(found) == count
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exploring", description="What explore adds.")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs on one core")
    parser.add_argument("--count", type=int, default=100_000, help="tasks of 1 ms")
    arguments = parser.parse_args()
    explored(Sleeping(0.0), 1, None)  # imports
    task = Sleeping(0.01)
    pairs = [(by_hand(task, 300), explored(task, 300, None)) for _ in range(arguments.pairs)]
    added = median(b / a for a, b in pairs) - 1
    print(f"300 tasks of 10 ms on one core: {added:+.1%} beside the loop by hand (target {ADDED:.0%})")
    one, two = (explored(Sleeping(0.001), arguments.count, workers) for workers in (1, 2))
    shown = f"one worker {one:.1f} s, two {two:.1f} s, {two / one:.0%} (target {SHARE:.0%})"
    print(f"{arguments.count:,} tasks of 1 ms: {shown}")
    return 0 if added <= ADDED and two <= SHARE * one else 1


if __name__ == "__main__":
    raise SystemExit(main())

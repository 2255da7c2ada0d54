"""What passes over nests cost: `python -m benchmarks.passes [--corpus]`.

By the number of statements: a nest repeats five nests of one statement, a fill, a guarded copy, a branch on what is
there, a sum, a recurrence. Printed are the milliseconds of processor time of each pass on 5, 10, 20 and 40 statements,
the best of three runs.

With `--corpus`: medians over the schedules of the corpus, in milliseconds of processor time, of `lower` and `to_c`
together and of each step without the steps inside of it; the best of three runs.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from statistics import median
from types import FunctionType
from typing import Any

import lowering
from benchmarks.data.schedules import CASES
from bound.errors import ScheduleError
from intset.errors import IntSetError
from lowering import Function, parse_nest

PASSES = (
    "simplify",
    "remove_no_op",
    "hoist_expression",
    "reduce_loop_extents",
    "merge_adjacent_loops",
    "remove_branching_through_overcompute",
    "remove_overcompute_through_branching",
    "remove_undef",
    "remove_assume",
)
SIZES = (5, 10, 20, 40)
KINDS = (
    "for i in [0, 16):\n    A[i] = i",
    "for i in [0, 16):\n    if i < 14:\n        B[i] = A[i]",
    "for i in [0, 16):\n    if A[i] == i:\n        C[i] = B[i] + 1",
    "for i in [0, 16):\n    D[0] = D[0] + C[i]",
    "for i in [0, 15):\n    B[i + 1] = B[i] + C[i]",
)


STEPS = (
    "infer_bound find_outside nest_of plain rebase name_minima follow_guards drop_dead partition_loops modelled races "
    "narrow lower_divisions name_choices decide_rows name_values inline_values unique_names lower to_c"
).split()  # of lowering a schedule


def nest(statements: int) -> Function:
    """A nest of so many stores, on arrays that change after every five."""
    lines = []
    for k in range(statements):
        group = k // len(KINDS)
        text = KINDS[k % len(KINDS)]
        for name in "ABC":
            text = text.replace(f"{name}[", f"{name}{group % 2}[")
        lines += [f"    {line}" for line in text.split("\n")]
    params = ", ".join(f"{name}{k}: int32[16]" for name in "ABC" for k in range(2))
    return parse_nest(f"def f({params}, D: int32[1]):\n" + "\n".join(lines))


def milliseconds(run: Callable[[Function], Any], f: Function, times: int) -> float:
    """The shortest of some runs; each on the function as it is read, so that nothing is remembered."""
    best = float("inf")
    for _ in range(times):
        fresh = parse_nest(str(f))
        start = time.process_time()
        run(fresh)
        best = min(best, time.process_time() - start)
    return best * 1000


def table(sizes: tuple[int, ...] = SIZES, times: int = 3) -> dict[str, list[float]]:
    """The milliseconds of each pass at each size."""
    nests = [nest(size) for size in sizes]
    passes = {name: getattr(lowering, name) for name in PASSES}
    passes["sequential_buffer_access"] = lambda f: lowering.sequential_buffer_access(f, "A0")
    return {name: [milliseconds(run, f, times) for f in nests] for name, run in passes.items()}


class Stopwatch:
    """Processor time of each step, without the steps that it calls."""

    def __init__(self) -> None:
        self.seconds = Counter[str]()
        self._running: list[str] = []
        self._since = 0.0

    def stop(self) -> None:
        """Charge the time since the last stop to the innermost running step."""
        now = time.process_time()
        if self._running:
            self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def around(self, step: FunctionType) -> Callable[..., Any]:
        """The function of a step, timed."""

        @wraps(step)
        def timed(*args: Any, **named: Any) -> Any:
            self.stop()
            self._running.append(step.__name__)
            try:
                return step(*args, **named)
            finally:
                self.stop()
                self._running.pop()

        return timed

    def install(self) -> None:
        """Time every step, in each module of the project that calls it."""
        modules = [m for name, m in sys.modules.items() if name.split(".")[0] in ("bound", "lowering")]
        steps = {f: self.around(f) for m in modules for f in vars(m).values() if _is_step(f)}
        for module in modules:
            for name, f in list(vars(module).items()):
                if _is_step(f):
                    setattr(module, name, steps[f])


def _is_step(f: object) -> bool:
    return isinstance(f, FunctionType) and f.__name__ in STEPS


def corpus_times(runs: int = 3) -> list[Counter[str]]:
    """For each schedule of the corpus that can be lowered, the seconds of each step."""
    watch = Stopwatch()
    watch.install()
    times: list[Counter[str]] = []
    for case in CASES:
        best: Counter[str] | None = None
        for _ in range(runs):
            watch.seconds = Counter()
            try:
                made = case["fn"]()
                lowering.to_c(lowering.lower(made[0] if isinstance(made, tuple) else made))
            except (IntSetError, ScheduleError):
                break
            best = watch.seconds if best is None else min(best, watch.seconds, key=Counter.total)
        times += [] if best is None else [best]
    return times


def print_corpus() -> None:
    times = corpus_times()
    print(f"{len(times)} schedules: {1000 * median(map(Counter.total, times)):.2f} ms")
    for step in STEPS:
        print(f"{step:20} {1000 * median(seconds[step] for seconds in times):8.2f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", action="store_true", help="lower the corpus of schedules")
    if parser.parse_args().corpus:
        print_corpus()
        return
    print(f"{'pass':40}" + "".join(f"{size:>10}" for size in SIZES) + f"{'40 to 10':>12}")
    for name, row in table().items():
        print(f"{name:40}" + "".join(f"{ms:10.1f}" for ms in row) + f"{row[-1] / row[1]:12.1f}")


if __name__ == "__main__":
    main()

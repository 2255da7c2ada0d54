"""What operators in TVM's style cost: `python -m benchmarks.operators [NAME ...] [--small] [--repeat N] [--json]`.

Times of `infer_bound`, `lower`, `to_c` and a run for each operator and schedule of `examples.operators`, at shapes of
networks or, with `--small`, at those of the tests. A run calls the compiled C; threads of a GPU are loops there. The
fastest repetition counts; a step that takes longer than `--limit` seconds is not repeated.
"""

import argparse
import json
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

import numpy as np

from bound import infer_bound
from examples.operators import OPERATORS
from lowering import lower, run, to_c
from lowering.errors import CompilerError
from lowering.interpreter import compiler_command

STEPS: Final = ("infer_bound", "lower", "to_c", "run")


def measured(name: str, schedule: str, is_large: bool, repeat: int, limit: float) -> dict[str, float]:
    """The seconds of each step; without a compiler, of all but the last."""
    operator = OPERATORS[name]
    s, args = operator.scheduled(schedule, is_large)
    bounds = _fastest(lambda: infer_bound(s), repeat, limit)
    lowered = _fastest(lambda: lower(s, args, name=name), repeat, limit)
    f = lowered[1]
    printed = _fastest(lambda: to_c(f), repeat, limit)
    seconds = dict(zip(STEPS, (bounds[0], lowered[0], printed[0]), strict=False))
    try:
        compiler_command()
    except CompilerError:
        return seconds
    generator = np.random.default_rng(0)
    shapes = operator.large if is_large else [shape for shape, _ in operator.inputs]
    arrays = {
        t.name: generator.random(shape).astype(dtype) * (1 if dtype.startswith("float") else operator.below)
        for t, shape, (_, dtype) in zip(args, shapes, operator.inputs, strict=False)
    }
    run(f, arrays, backend="c")  # compiles
    seconds["run"] = _fastest(lambda: run(f, arrays, backend="c"), repeat, limit)[0]
    return seconds


def _fastest(call: Callable[[], Any], repeat: int, limit: float) -> tuple[float, Any]:
    best, answer, spent = float("inf"), None, 0.0
    for _ in range(repeat):
        start = perf_counter()
        answer = call()
        took = perf_counter() - start
        best, spent = min(best, took), spent + took
        if spent > limit:
            break
    return best, answer


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operators", description="What operators in TVM's style cost."
    )
    parser.add_argument("names", nargs="*", help="operators; all by default")
    parser.add_argument("--schedule", choices=("generic", "x86", "cuda"), help="one schedule only")
    parser.add_argument("--small", action="store_true", help="the shapes of the tests")
    parser.add_argument("--repeat", type=int, default=3, help="repetitions; the fastest counts")
    parser.add_argument("--limit", type=float, default=2.0, help="seconds after which a step is not repeated")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in OPERATORS]
    if unknown:
        parser.error(f"no operator {', '.join(unknown)}: there are {', '.join(OPERATORS)}")
    found = []
    if not given.json:
        print(f"{'ms':36}" + "".join(f"{step:>14}" for step in STEPS))
    for name in given.names or OPERATORS:
        for schedule in OPERATORS[name].schedules if given.schedule is None else (given.schedule,):
            row = measured(name, schedule, not given.small, max(given.repeat, 1), given.limit)
            found.append({"operator": name, "schedule": schedule, **row})
            if not given.json:
                cells = "".join(f"{row[step] * 1e3:14.2f}" if step in row else f"{'-':>14}" for step in STEPS)
                print(f"{name + ' ' + schedule:36}" + cells, flush=True)
    if given.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()

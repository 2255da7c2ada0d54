"""What a pass over a nest costs, by the number of its statements: `python -m benchmarks.passes`.

A nest repeats five nests of one statement: a fill, a guarded copy, a branch on what is there, a sum, a recurrence.
Printed are the milliseconds of processor time of each pass on 5, 10, 20 and 40 statements, the best of three runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import lowering
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


def main() -> None:
    print(f"{'pass':40}" + "".join(f"{size:>10}" for size in SIZES) + f"{'40 to 10':>12}")
    for name, row in table().items():
        print(f"{name:40}" + "".join(f"{ms:10.1f}" for ms in row) + f"{row[-1] / row[1]:12.1f}")


if __name__ == "__main__":
    main()

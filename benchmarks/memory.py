"""What is kept of programs that were asked and dropped: `python -m benchmarks.memory [--programs N]`.

A program is a context over variables of its own, some questions to it, a proof by each tier now and then, and every
so often the bounds of a schedule. After each quarter of the programs, and after a garbage collection, the memory that
Python has allocated is read (`tracemalloc`), and the memory of the process. The ratio of the last reading to the first
is shown; the target is 1.05 for either.

After some 3,000 programs the caches are full, and neither grows any more. Where isl's C interface cannot be reached and
islpy answers instead, the process grows by some 4 kB a program: for each argument that isl takes over (of `union`,
`intersect`, `project_out` ...) islpy 2026.2 allocates a wrapper of 32 bytes and never frees it.
"""

import argparse
import gc
import sys
import tracemalloc
from pathlib import Path

import intset
from bound import infer_bound, te
from intset import Context, Range, ShapeVar, Var

TARGET = 1.05
PAGE = 4096
EVERY_SCHEDULE, EVERY_Z3 = 20, 50


def program(number: int) -> None:
    """Ask and drop."""
    i, j, x, n = Var("i"), Var("j"), Var("x"), ShapeVar("n", lower=1)
    height, width = number % 13 + 2, number % 7 + 1
    ctx = Context({i: Range(0, height), j: Range(0, width), x: Range(0, n)}, assume=[i * width + j < 50])
    e = i * width + j
    ctx.bounds(e)
    ctx.bounds(e // 3 % 4)
    ctx.value_set(e * 2)
    ctx.image((e, i)).count()
    ctx.bounds(x * 4 + i, keep=[x])
    ctx.simplify((e // 5) * 5 + e % 5)
    ctx.prove(e < 50)
    ctx.prove((i + 1) * (j + 1) <= height * width)
    with ctx.assuming(j < 1):
        ctx.prove(e <= i * width)
    with intset.using(domain="isl"):
        ctx.bounds((e + number % 5) // 2 % 3)
    if number % EVERY_Z3 == 0:
        ctx.prove(x * x < n * n)
    if number % EVERY_SCHEDULE == 0:
        dropped_schedule(number % 5 + 2)


def dropped_schedule(factor: int) -> None:
    source = te.placeholder((20,), name="A")
    middle = te.compute((20,), lambda v: source[v] + 1, name="B")
    last = te.compute((18,), lambda v: middle[v] + middle[v + 2], name="C")
    s = te.create_schedule(last.op)
    outer, _ = s[last].split(last.op.axis[0], factor)
    s[middle].compute_at(s[last], outer)
    infer_bound(s).allocated(middle)


def resident() -> int:
    """Bytes of the process, 0 where the system does not tell."""
    table = Path("/proc/self/statm")
    return int(table.read_text().split()[1]) * PAGE if table.exists() else 0


def measure(programs: int) -> list[tuple[int, int, int]]:
    """(programs so far, bytes allocated by Python, bytes of the process) after each quarter."""
    found = []
    tracemalloc.start()
    for number in range(programs):
        program(number)
        if (number + 1) % (programs // 4) == 0:
            gc.collect()
            found.append((number + 1, tracemalloc.get_traced_memory()[0], resident()))
    tracemalloc.stop()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    rows = measure(parser.parse_args().programs)
    for count, allocated, process in rows:
        print(f"{count:7d} programs  {allocated / 1e6:8.2f} MB allocated  {process / 1e6:8.1f} MB resident", flush=True)
    ratios = [rows[-1][part] / rows[0][part] if rows[0][part] else 1.0 for part in (1, 2)]
    print(f"ratio of last to first: {ratios[0]:.3f} allocated, {ratios[1]:.3f} resident; target {TARGET}")
    sys.exit(max(ratios) > TARGET)


if __name__ == "__main__":
    main()

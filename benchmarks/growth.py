"""How the cost of InferBound grows with the number of stages, beside the figures recorded for TVM 0.8.

    python -m benchmarks.growth            # 100 to 800 stages
    python -m benchmarks.growth --json

For each family: microseconds a stage from the script to bounds (building the tensors and the schedule, normalizing,
InferBound), at 100, 200, 400 and 800 stages, the growth of the total against linear (1.0 is linear), and the part of
InferBound in it. TVM's figures, for the same three steps, were recorded on another machine.
"""

import argparse
import gc
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bound import infer_bound, te
from bound.schedule import Schedule

SIZES = (100, 200, 400, 800)
TILE = 16


Formula = Callable[[te.Tensor], Callable[..., object]]


def elementwise(x: te.Tensor) -> Callable[..., object]:
    return (lambda i: x[i] + 1) if x.ndim == 1 else (lambda i, j: x[i, j] + 1)


def stencil(x: te.Tensor) -> Callable[..., object]:
    return lambda i: x[i] + x[i + 1] + x[i + 2]


def _chain(n: int, shape: tuple[Any, ...], formula: Formula = elementwise, tile: int = 0) -> Schedule:
    """A chain of n stages after an input; producers are computed at the root, or in a tile of the last stage.

    A stencil is two elements shorter than what it reads.
    """
    x, made = te.placeholder(shape, name="A"), []
    for k in range(n):
        if formula is stencil:
            shape = (x.shape[0] - 2,)  # a sum of numbers would be as long as the chain
        x = te.compute(shape, formula(x), name=f"T{k}")
        made.append(x)
    s = te.create_schedule(x.op)
    if tile:
        outer, _ = s[x].split(x.op.axis[0], tile)
        for stage in made[:-1]:
            s[stage].compute_at(s[x], outer)
    return s


def chain_ew(n: int) -> Schedule:
    """Elementwise, every stage at the root."""
    return _chain(n, (64,))


def chain_ew2d(n: int) -> Schedule:
    return _chain(n, (64, 64))


def chain_ew_at(n: int) -> Schedule:
    return _chain(n, (64,), tile=TILE)


def chain_ew_at_nondiv(n: int) -> Schedule:
    return _chain(n, (61,), tile=TILE)


def chain_ew2d_at(n: int) -> Schedule:
    return _chain(n, (64, 64), tile=TILE)


def chain_stencil(n: int) -> Schedule:
    return _chain(n, (64 + 2 * n,), stencil)


def chain_stencil_at(n: int) -> Schedule:
    return _chain(n, (64 + 2 * n,), stencil, TILE)


def chain_stencil_sym_at(n: int) -> Schedule:
    """The stencil chain in one tile, of symbolic length."""
    return _chain(n, (te.var("n") + 2 * n,), stencil, TILE)


def wide_fan_in(n: int) -> Schedule:
    a = te.placeholder((64,), name="A")
    made = [te.compute((64,), lambda i: a[i] + 1, name=f"T{k}") for k in range(n)]
    total = te.compute((64,), lambda i: sum((x[i] for x in made[1:]), made[0][i]), name="O")
    return te.create_schedule(total.op)


def wide_fan_in_at(n: int) -> Schedule:
    s = wide_fan_in(n)
    last = s.stages[-1]
    outer, _ = last.split(last.op.axis[0], TILE)
    for stage in s.stages[1:-1]:
        stage.compute_at(last, outer)
    return s


def wide_fan_out(n: int) -> Schedule:
    a = te.placeholder((64,), name="A")
    b = te.compute((64,), lambda i: a[i] + 1, name="B")
    made = [te.compute((64,), lambda i: b[i] * 2, name=f"T{k}") for k in range(n)]
    return te.create_schedule([x.op for x in made])


def ladder(n: int) -> Schedule:
    """Each stage reads the two before it."""
    x = te.placeholder((64,), name="A")
    y = te.compute((64,), lambda i: x[i] + 1, name="T0")
    for k in range(1, n):
        x, y = y, te.compute((64,), lambda i, x=x, y=y: x[i] + y[i], name=f"T{k}")
    return te.create_schedule(y.op)


FAMILIES: dict[str, Callable[[int], Schedule]] = {
    f.__name__: f
    for f in (
        chain_ew,
        chain_ew2d,
        chain_ew_at,
        chain_ew_at_nondiv,
        chain_ew2d_at,
        chain_stencil,
        chain_stencil_at,
        chain_stencil_sym_at,
        wide_fan_in,
        wide_fan_in_at,
        wide_fan_out,
        ladder,
    )
}


def recorded() -> dict[tuple[str, int], float]:
    """TVM's microseconds a stage, from script to bounds, by family and number of stages."""
    data = json.loads((Path(__file__).parent / "data" / "schedules.json").read_text())["timing"]
    steps = ("build_us", "normalize_us", "infer_us_median")
    return {(row["label"], row["n"]): sum(row[step] for step in steps) / row["num_stages"] for row in data}


def seconds(family: Callable[[int], Schedule], n: int, repeats: int = 3) -> tuple[float, float]:
    """The shortest time from script to bounds, and what `infer_bound` takes of it."""
    best, inferring = float("inf"), 0.0
    for _ in range(repeats):
        gc.collect()
        gc.disable()
        start = time.perf_counter()
        schedule = family(n)
        built = time.perf_counter()
        infer_bound(schedule)
        end = time.perf_counter()
        gc.enable()
        if end - start < best:
            best, inferring = end - start, end - built
    return best, inferring


def measure(names: list[str], sizes: tuple[int, ...] = SIZES, repeats: int = 3) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in names:
        seconds(FAMILIES[name], 10, 1)  # what is loaded once
        times = [seconds(FAMILIES[name], n, repeats) for n in sizes]
        scale = sizes[-1] / sizes[0]
        growth = times[-1][0] / times[0][0] / scale
        per_stage = {n: round(t / n * 1e6, 1) for n, (t, _) in zip(sizes, times, strict=True)}
        inferring = {n: round(t / n * 1e6, 1) for n, (_, t) in zip(sizes, times, strict=True)}
        tvm = {n: round(us, 1) for (label, n), us in recorded().items() if label == name}
        rows.append(
            {
                "family": name,
                "us_per_stage": per_stage,
                "growth": round(growth, 2),
                "infer_us_per_stage": inferring,
                "tvm_us_per_stage": tvm,
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help=f"of {', '.join(FAMILIES)}; all by default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rows = measure(args.families or list(FAMILIES), repeats=args.repeats)
    if args.json:
        print(json.dumps(rows, indent=1))
        return
    sizes = "".join(f"{n:>9}" for n in SIZES)
    print(f"{'microseconds a stage':22}{sizes}{'growth':>8}{'InferBound':>12}   TVM 0.8 (stages: us)")
    for row in rows:
        per, inferring, tvm = row["us_per_stage"], row["infer_us_per_stage"], row["tvm_us_per_stage"]
        assert isinstance(per, dict) and isinstance(inferring, dict) and isinstance(tvm, dict)
        beside = "  ".join(f"{n}: {us}" for n, us in tvm.items() if n >= SIZES[0])
        figures = "".join(f"{per[n]:>9}" for n in SIZES)
        print(f"{row['family']:22}{figures}{row['growth']:>8}{inferring[SIZES[-1]]:>12}   {beside or '-'}")


if __name__ == "__main__":
    main()

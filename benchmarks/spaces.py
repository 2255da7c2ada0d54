"""Spaces of configurations beside constraint solvers, in one run: `python -m benchmarks.spaces [--repeats N]`.

The spaces that tuning papers publish (F. Willemsen and others, Efficient construction of large search spaces for
auto-tuning, 2025; A. Rasch and others, Efficient auto-tuning of parallel programs with interdependent tuning
parameters, TACO 2021) are listed by `Space` and by python-constraint2, and the sets compared. The tiles of a matrix
product are listed by `Space` and by z3 with a clause that blocks each model found. Solvers that are not installed are
left out. The first table counts spaces without listing them, with the memory of the process so far; the others have
the least time of the repeats, and ratios.
"""

import argparse
import importlib
import math
import resource
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, Final

from intset import Space

Stated = tuple[dict[str, list[int]], list[str]]  # the values of each name, and conditions


def powers(first: int, last: int) -> list[int]:
    return [2**k for k in range(first, last + 1)]


def upto(last: int, first: int = 1) -> list[int]:
    return list(range(first, last + 1))


def dedispersion() -> Stated:
    """Filtering of radio signals: 11,130 of 22,272."""
    values = {
        "block_x": powers(0, 5), "block_y": [8 * k for k in upto(32, 4)], "block_z": [1],
        "tile_x": upto(4), "tile_y": upto(8), "stride_x": [0, 1], "stride_y": [0, 1], "unroll": [0],
    }  # fmt: skip
    return values, ["32 <= block_x * block_y <= 1024", "tile_x > 1 or stride_x == 0", "tile_y > 1 or stride_y == 0"]


def expdist() -> Stated:
    """Registration of particles in microscopy."""
    values = {
        "block_x": powers(5, 10), "block_y": powers(0, 5), "tile_x": upto(8), "tile_y": upto(8),
        "shared": [0, 1, 2], "unroll_x": upto(8), "unroll_y": upto(8), "column": [0, 1], "separate": [0],
        "blocks": powers(0, 10),
    }  # fmt: skip
    return values, [
        "column != 0 or blocks <= 1",
        "column != 0 or shared != 2",
        "unroll_x <= tile_x and tile_x % unroll_x == 0",
        "unroll_y <= tile_y and tile_y % unroll_y == 0",
    ]


def hotspot() -> Stated:
    """A stencil in space and time: 349,853 of 22,200,000."""
    values = {
        "block_x": [*powers(0, 4), *(32 * k for k in upto(32))], "block_y": powers(0, 5), "tile_x": upto(10),
        "tile_y": upto(10), "steps": upto(10), "most_steps": [10], "unroll": upto(10), "power": [0, 1],
        "per_sm": upto(4, 0),
    }  # fmt: skip
    kept = "(block_x * tile_x + steps * 2) * (block_y * tile_y + steps * 2) * (2 + power) * 4"
    return values, [
        "block_x * block_y >= 32",
        "steps % unroll == 0",
        "block_x * block_y <= 1024",
        f"{kept} <= 49152",
        f"per_sm == 0 or {kept} * per_sm <= 102400",
    ]


def microhh() -> Stated:
    """Advection in a model of the atmosphere: 138,600 of 1,166,400."""
    values = {"strides": [0], "strategy": [0], "rewrite": [0], "per_mp": upto(4, 0)}
    values |= {"block_x": [*powers(0, 5), *powers(7, 10)], "block_y": powers(0, 5), "block_z": powers(0, 2)}
    for name in ("tile", "unroll"):
        values |= {f"{name}_x": powers(0, 3), f"{name}_y": powers(0, 2), f"{name}_z": powers(0, 2)}
    conditions = ["block_x * block_y * block_z * per_mp <= 1024", "32 <= block_x * block_y * block_z <= 1536"]
    for axis in "xyz":
        conditions.append(f"unroll_{axis} == 0 or tile_{axis} % unroll_{axis} == 0")
        conditions.append(f"block_{axis} * tile_{axis} > 0")
    return values, conditions


def gemm() -> Stated:
    """CLBlast's matrix product: 116,928 of 663,552."""
    values: dict[str, list[int]] = {"gemmk": [0], "kwg": [16, 32], "kwi": [2], "kreg": [1]}
    values |= {f"{axis}wg": powers(4, 7) for axis in "mn"}
    values |= {name: [8, 16, 32] for name in ("mdimc", "ndimc", "mdima", "ndimb")}
    values |= {f"vw{axis}": powers(0, 3) for axis in "mn"}
    values |= {name: [0, 1] for name in ("strm", "strn", "sa", "sb")}
    return values, [
        "kwg % kwi == 0",
        "mwg % (mdimc * vwm) == 0",
        "nwg % (ndimc * vwn) == 0",
        "mwg % (mdima * vwm) == 0",
        "nwg % (ndimb * vwn) == 0",
        "kwg % ((mdimc * ndimc) // mdima) == 0",
        "kwg % ((mdimc * ndimc) // ndimb) == 0",
        "not (mwg == 128 and nwg == 128 and mdimc == 8 and ndimc == 8)",
    ]


def blocked(sizes: Mapping[str, int]) -> Stated:
    """ATF's blocks of caches, groups and items over the axes of a computation."""
    values: dict[str, list[int]] = {"cache_l": [0, 1], "cache_p": [0, 1], "level_l": [2, 1, 0], "level_p": [2, 1, 0]}
    conditions = ["2 >= level_l >= level_p"]
    first, *others = sizes
    for axis, size in sizes.items():
        values |= {f"{name}_{axis}": upto(size) for name in ("local", "private", "groups", "items")}
        values[f"dim_{axis}"] = upto(len(sizes) - 1, 0)
        conditions += [
            f"{size} % local_{axis} == 0",
            f"local_{axis} % private_{axis} == 0",
            f"({size} // local_{axis}) % groups_{axis} == 0",
            f"(local_{axis} // private_{axis}) % items_{axis} == 0",
            f"items_{axis} <= ({size} + groups_{axis} - 1) // groups_{axis}",
        ]
    conditions += [f"dim_{first} != dim_{other}" for other in others]
    return values, conditions


def record_linkage(size: int) -> Stated:
    """ATF's probabilistic record linkage, of which 8 x 8 has 2.4 * 10^9 candidates."""
    values, conditions = blocked({"l": size, "r": size})
    return values, [*conditions, "groups_r == 1 or groups_r % local_r == 0"]


def convolution(size: int) -> Stated:
    """ATF's Gaussian convolution."""
    return blocked({"y": size, "x": size})


def tiles() -> Stated:
    """Tiles of a matrix product of 3840^3 in half precision: blocks, warps, stages, bytes of shared memory."""
    values = {
        "block_m": [16 * k for k in upto(16)], "block_n": [16 * k for k in upto(16)], "block_k": [16, 32, 64, 128],
        "warps_m": powers(0, 3), "warps_n": powers(0, 3), "stages": upto(5),
    }  # fmt: skip
    return values, [
        "3840 % block_m == 0",
        "3840 % block_n == 0",
        "block_m % (warps_m * 16) == 0",
        "block_n % (warps_n * 16) == 0",
        "64 <= warps_m * warps_n * 32 <= 512",
        "(block_m + block_n) * block_k * stages * 2 <= 101376",
        "block_m * block_n <= warps_m * warps_n * 32 * 128",
        "block_m * block_n >= 4096",
    ]


# -- the solvers -----------------------------------------------------------------------------------------------------


def by_space(stated: Stated) -> dict[str, Any]:
    values, conditions = stated
    return Space(values, conditions).columns()


def by_constraint(stated: Stated) -> list[dict[str, int]]:
    """The members by python-constraint2, as its own benchmarks ask."""
    problem = importlib.import_module("constraint").Problem()
    values, conditions = stated
    for name, choices in values.items():
        problem.addVariable(name, choices)
    problem.addConstraint(conditions)
    with warnings.catch_warnings(action="ignore"):  # of the source text that it makes of conditions
        found: list[dict[str, int]] = problem.getSolutions()
    return found


def by_z3(stated: Stated) -> list[dict[str, int]]:
    """The members by z3, each blocked by a clause before the next is asked for."""
    z3: Any = importlib.import_module("z3")
    values, conditions = stated
    names = {name: z3.Int(name) for name in values}
    solver = z3.Solver()
    for name, choices in values.items():
        solver.add(z3.Or([names[name] == choice for choice in choices]))
    for text in conditions:
        parts = text.split(" <= ")
        chained = [f"{a} <= {b}" for a, b in pairwise(parts)] if len(parts) > 2 else [text]
        for part in chained:
            solver.add(eval(part.replace("//", "/"), {}, names))  # z3 divides integers by `/`
    found: list[dict[str, int]] = []
    while solver.check() == z3.sat:
        model = solver.model()
        point = {name: model.eval(var, model_completion=True).as_long() for name, var in names.items()}
        found.append(point)
        solver.add(z3.Or([var != point[name] for name, var in names.items()]))
    return found


def timed(ask: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """The least time in seconds, and the answer."""
    least, answer = math.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        answer = ask()
        least = min(least, time.perf_counter() - start)
    return least, answer


def rows(names: Iterable[str], columns: Mapping[str, Any]) -> set[tuple[int, ...]]:
    return set(zip(*(columns[name].tolist() for name in names), strict=True))


LISTED: Final[dict[str, Stated]] = {
    "dedispersion": dedispersion(),
    "microHH": microhh(),
    "hotspot": hotspot(),
    "expdist": expdist(),
    "GEMM": gemm(),
    "record linkage 8x8": record_linkage(8),
}
COUNTED: Final[dict[str, Stated]] = {
    "record linkage 8x8": record_linkage(8),
    "record linkage 1024x1024": record_linkage(1024),
    "convolution 4096x4096": convolution(4096),
}


def beside_constraint(repeats: int) -> float:
    """Print the table beside python-constraint2; the least ratio."""
    least = math.inf
    print(f"{'space':<26}{'candidates':>14}{'members':>10}{'Space ms':>10}{'constraint2 ms':>16}{'ratio':>8}")
    for name, stated in LISTED.items():
        own, columns = timed(lambda stated=stated: by_space(stated), repeats)
        other, solutions = timed(lambda stated=stated: by_constraint(stated), max(1, repeats // 3))
        names = list(stated[0])
        assert rows(names, columns) == {tuple(point[n] for n in names) for point in solutions}, name
        candidates = math.prod(map(len, stated[0].values()))
        least = min(least, other / own)
        print(
            f"{name:<26}{candidates:>14,}{len(solutions):>10,}{own * 1e3:>10.2f}{other * 1e3:>16.1f}{other / own:>8.1f}"
        )
    return least


def beside_z3(repeats: int) -> None:
    """Print the times beside z3, each member of which is blocked before the next is asked for."""
    stated = tiles()
    own, columns = timed(lambda: by_space(stated), repeats)
    other, models = timed(lambda: by_z3(stated), 1)
    members = rows(stated[0], columns)
    assert {tuple(point[name] for name in stated[0]) for point in models} == members
    print(f"\ntiles of a matrix product, {len(members):,} members: Space {own * 1e3:.2f} ms, z3 by blocking clauses")
    print(f"{other:.2f} s: {other / own:,.0f} times")


def counted() -> None:
    """Print the table of spaces that are counted without listing."""
    print(f"\n{'space':<26}{'candidates':>14}{'members':>16}{'s':>8}{'MB':>7}")
    for name, (values, conditions) in COUNTED.items():
        seconds, number = timed(lambda v=values, c=conditions: Space(v, c).count(), 1)
        candidates = math.prod(map(len, values.values()))
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"{name:<26}{float(candidates):>14.2g}{number:>16,}{seconds:>8.2f}{used:>7}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    counted()
    print()
    if find_spec("constraint"):
        print(f"least ratio {beside_constraint(repeats):.1f}")
    if find_spec("z3"):
        beside_z3(repeats)


if __name__ == "__main__":
    main()

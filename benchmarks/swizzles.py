"""What questions about swizzled tiles cost: `python -m benchmarks.swizzles [--repeat N] [--json]`.

A tile of 64 two-byte columns and 8 to 1,024 rows, or n of them, is stored under `a ^ ((a >> 3) & 112)`; another tile
maps `(y, x)` to `(y, x ^ (y % 8))`. Each question has new variables and a new context; the fastest repetition counts.
Targets: 10 ms each by the public interface; inverses of at most 300 characters.
"""

import argparse
import json
from collections.abc import Callable
from time import perf_counter

from intset import Context, Range, ShapeVar, Var
from intset.expr.node import Expr
from lowering import alignment, bank_conflicts, contiguity

ROWS = (8, 32, 64, 256, 1024, None)  # None: a size n
LIMIT = 0.010

Question = Callable[[], object]


def questions(rows: int | None) -> dict[str, Question]:
    """The questions about new tiles of so many rows."""
    i, j, x, y = (Var(name) for name in "ijxy")
    count = ShapeVar("n", lower=1) if rows is None else rows
    ctx = Context({i: Range.of_extent(0, count), j: Range(0, 64)})
    tile = Context({y: Range.of_extent(0, count), x: Range(0, 8)})
    a = i * 128 + j * 2
    e = a ^ ((a >> 3) & 112)
    lanes = Context({i: Range(0, 8), j: Range(0, 8)})

    def inverse() -> Expr:
        found = tile.as_iter_map([y, x ^ (y % 8)]).inverse((y, x))[x]
        assert len(str(found)) <= 300
        return found

    return {
        "injective": lambda: _sure(bool(ctx.as_iter_map([e]).injective)),
        "in bounds": lambda: _sure(bool(ctx.prove(e < count * 128))),
        "aligned": lambda: _sure(alignment(e, ctx).value == 2),
        "contiguous": lambda: _sure(contiguity(e, j, ctx, step=2).value == 8),
        "conflicts": lambda: _sure(bank_conflicts((i * 128 + j * 16) ^ ((i & 7) << 4), [i], lanes).value == 1),
        "inverse": inverse,
        "simplify": lambda: _sure(ctx.simplify(((i * 64 + j) ^ 5) - i * 64) is j ^ 5),
    }


def _sure(holds: bool) -> None:
    assert holds


def measured(repeat: int) -> dict[str, dict[str, float]]:
    """The seconds of each question by the number of rows."""
    found: dict[str, dict[str, float]] = {}
    for rows in ROWS:
        for _ in range(repeat):
            for name, ask in questions(rows).items():
                start = perf_counter()
                ask()
                spent = perf_counter() - start
                row = found.setdefault(name, {})
                row[str(rows or "n")] = min(spent, row.get(str(rows or "n"), spent))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.swizzles", description="What swizzled tiles cost.")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions; the fastest counts")
    parser.add_argument("--json", action="store_true", help="machine-readable output")
    given = parser.parse_args()
    found = measured(max(given.repeat, 1))
    if given.json:
        print(json.dumps(found))
        return
    heads = [str(rows or "n") for rows in ROWS]
    print(f"{'ms, by rows':12}" + "".join(f"{head:>8}" for head in heads))
    for name, row in found.items():
        late = " *" if max(row.values()) > LIMIT else ""
        print(f"{name:12}" + "".join(f"{row[head] * 1e3:8.2f}" for head in heads) + late)


if __name__ == "__main__":
    main()

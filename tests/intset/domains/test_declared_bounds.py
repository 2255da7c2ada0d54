"""Declared bounds of sizes never make an answer longer: drawn questions with and without them, and classes of ends."""

from __future__ import annotations

import random
from typing import Any

import pytest

from intset import Context, Expr, Range, ShapeVar, Var, ceildiv, maximum, minimum, truncmod
from intset.expr.dag import substitute
from intset.expr.evaluate import evaluate
from intset.expr.node import as_cond
from intset.simplify.engine import cost
from intset.testing.contexts import Setting, setting

i, j, k = Var("i"), Var("j"), Var("k")
LIMITS = [(0, 4096), (0, 7), (1, 64), (1, 4096), (1, 100), (2, 128)]


@pytest.mark.parametrize("limits", LIMITS)
def test_ends_by_cases_keep_their_minima(limits: tuple[int, int]) -> None:
    free, within = ShapeVar("n"), ShapeVar("n", lower=limits[0], upper=limits[1])

    def ends(n: Var) -> list[Any]:
        return [
            Context({k: Range(0, n), i: Range(-1, n), j: Range(0, n + 1)}).bounds(truncmod(k, 3)),
            Context({i: Range(1, n)}).bounds(abs(i + i + 3) % 3),
            Context({i: Range(0, n), j: Range(-i, i % 3)}).bounds(ceildiv(i, 2)),
            Context({i: Range(0, n)}).bounds(minimum(i, 5) - maximum(i - 7, 0)),
            Context({j: Range(abs(i) - 1, n - i), i: Range(0, n)}, assume=[(j % 3).eq(1)]).bounds((j + 3) % n * 2 * n),
        ]

    for plain, bounded in zip(ends(free), ends(within), strict=True):
        assert plain.is_tight <= bounded.is_tight
        for a, b in zip(plain, bounded, strict=True):
            assert cost(b) <= cost(a), (a, b)


def test_a_sum_starts_with_a_positive_term() -> None:
    """In whatever order its variables were made."""
    for late in (ShapeVar("n"), ShapeVar("n", upper=9)):
        (end, _) = Context({i: Range(2, 6)}).bounds(late - 1 - i, keep=(i,))
        assert str(end) == "n - i - 1"
        assert str(Context({i: Range(2, 6), j: Range(0, 3)}).bounds(minimum(i + 3, late), keep=(i,))[0]) in (
            "minimum(i + 3, n)",
            "minimum(n, i + 3)",
        )


def bounded(drawn: Setting, limits: tuple[int, int]) -> dict[Var, Var] | None:
    """The sizes of a setting with tighter declared bounds; `None` where a size has no such value."""
    table = {}
    for size in drawn.sizes:
        low, high, step = size.declared()
        first = limits[0] if low is None else max(low, limits[0])
        last = limits[1] if high is None else min(high, limits[1])
        if first > last:
            return None
        table[size] = ShapeVar(size.name, lower=first, upper=last, multiple_of=step)
    return table


@pytest.mark.filterwarnings("ignore::intset.ContradictionWarning")
def test_drawn_ends_are_not_longer_with_declared_bounds() -> None:
    asked, longer = 0, []
    for number in range(600):
        drawn = setting(number)
        limits = random.Random(number).choice(LIMITS)
        if drawn is None or not drawn.sizes or (table := bounded(drawn, limits)) is None:
            continue
        ranges = {v: Range(substitute(r.min, table), substitute(r.extent, table)) for v, r in drawn.ranges.items()}
        facts = [as_cond(substitute(fact, table)) for fact in drawn.facts]
        plain, within = Context(drawn.ranges, assume=drawn.facts), Context(ranges, assume=facts)
        for e in drawn.exprs:
            ends = plain.bounds(e, keep=drawn.keep)
            closer = within.bounds(substitute(e, table), keep=drawn.keep)
            pairs = [(a, b) for a, b in zip(ends, closer, strict=True) if isinstance(a, Expr) and isinstance(b, Expr)]
            asked += 1
            if sum(cost(b) for _, b in pairs) > sum(cost(a) for a, _ in pairs):
                longer.append((drawn.text(), ends, closer))
            if not (ends.is_tight and closer.is_tight):
                continue
            back = {new: old for old, new in table.items()}
            for params in drawn.values(e):
                env = drawn.env(params)
                inside = {new: env[old] for new, old in back.items()}
                if any(
                    not low <= env[size] <= high
                    for size, (low, high, _) in ((o, n.declared()) for o, n in table.items())
                ):
                    continue
                for a, b in pairs:
                    assert evaluate(a, env) == evaluate(b, env | inside), (drawn.text(), a, b)
    assert asked > 300
    assert len(longer) * 150 <= asked, longer


@pytest.mark.parametrize("d", [2, 3, 4, 8, 16])
def test_boxes_are_written_with_ceilings(d: int) -> None:
    """Also those that isl answers with: no `(n + 3) // 4 * 4 - 3` where `ceildiv(n, 4) * 4 - 3` is meant."""
    n = ShapeVar("n")
    tiles = Context({i: Range(0, ceildiv(n, d)), j: Range(0, d)})
    for region in (tiles.image((i * d + 1, i)), tiles.image((i * d + j, i, j)), tiles.image((i, i * d))):
        for side in region.box:
            assert f"(n + {d - 1}) //" not in str(side)
    for size in range(1, 40):
        for extent, value in zip(
            (side.extent for side in tiles.image((i * d + 1, i)).box),
            (-(-size // d) * d - d + 1, -(-size // d)),
            strict=True,
        ):
            assert evaluate(extent, {n: size}) == value

"""Near misses of rewrites: expressions just inside and just outside each side condition.

`simplify` must preserve their values at all points of a window that define them.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from intset import Context, Range, Var, cast, maximum, minimum, select, truncdiv, truncmod
from tests.intset.oracle import simplified

x, y, z, w = (Var(name) for name in "xyzw")
WINDOWS = {1: range(-13, 14), 2: range(-7, 8), 3: range(-3, 4), 4: (-2, 0, 1, 2)}

JUNCTIONS: list[Any] = [
    # dropped or reordered parts may guard the parts between
    (x < z) & (x < y) & (x // y > -9) & (y < z), (x < z) & (x // y > -9) & (x < y) & (y < z),
    (x < 3) & (x // y > -9) & (x < 2), (x >= 3) | (x // y > 9) | (x >= 2),
    ((x < y) | (x < z)) & (y > 0) & ((x < y) | (z // y > 2)), (x >= 0) & (x < 3) & (6 // x > 2),
    # digits
    (x // 4).eq(y) & (z < 2) & (x % 4).eq(w), (x // 3).eq(y) & (x % 3).eq(z), (x // 4).ne(y // 4) & ((x - y) % 4).ne(0),
    (x // 4).eq(y // 4) & ((x - y) % 4).eq(0), (x // 4).eq(y // 4) & ((x - y) % 4).eq(1),
    (x // 4).eq(y // 4) & ((x + y) % 4).eq(0), (x // 4).eq(y // 4) & ((x - y) % 3).eq(0),
    # remainders
    (x % 6).eq(1) | (x % 6).eq(2), (x % 6).eq(1) | (x % 6).eq(4), (x % 4).eq(1) & (x % 6).eq(2),
    (x % 4).eq(1) & (x % 6).eq(3), (x % 4).ne(1) | (x % 6).ne(5), ((x * 3 + 5) % 2) < 1, ((x * 3 + 4) % 2) < 1,
    ((x * 3 + y + 4) % 2) >= 1, *(((x + k) % 3).eq(r) for k in (1, 2) for r in (0, 2)), ((x * 2 + y + 1) % 5).ne(3),
    # choices that are compared
    *(
        cond
        for choice in (minimum(x, 3), maximum(x, 3), select(x < 0, 9, y), select(x < 0, y, 9), select(x < 0, -9, y))
        for k in (2, 5)
        for cond in (choice < k, choice >= k, k < choice, k >= choice)
    ),
]  # fmt: skip
CHOICES: list[Any] = [
    select(x.eq(0), 0, x * (y // z)), select((x * 2).eq(y), x * 3, z), select(x.eq(x // 2 + y), x, z),
    select(x.ne(y + 1), x * 2, y * 2),
    *(
        select(cond, x * k + d, y * k)
        for a in (0, 1)
        for cond in (x < y + a, x <= y + a, x > y + a, x >= y + a)
        for k in (1, -2)
        for d in (-1, 0, 1, 2)
    ),
]  # fmt: skip
INTEGERS: list[Any] = [
    # quotients and remainders
    x % 6 - x % 6 // 4 * 4, x % 6 - x % 6 // 3 * 3, x % -6 - x % -6 // 3 * 3, -4 - x % -3,
    *(k - x % 4 for k in (2, 3, 4)), *(x % 4 - k for k in (2, 3)), truncdiv(x, 3) - x // 3, x - truncdiv(x, 3) * 3,
    truncmod(x, 3) + x // 3 * 3, x % 2 + (x + 2) % 2, x % 2 + (x + y + 1) % 2, x % 2 + (x * 3 + 1) % 2,
    (x + 1) // 3 - x // 4, (x + 5) // 3 - x // 3, x // 3 + (x + 4) // 3 + (x + 2) // 3,
    x // 3 + (x + 3) // 3 + (x + 2) // 3, x - (x + 2) // 2, x - (x + 1) // 2, x // 3 * y + x % 3, 4 - (x + 1) // 3,
    # bounds
    minimum(x * -2, y * 2), minimum(x * -2, y * -2), maximum(x, 1 - x), minimum(x, -x), maximum(x - y, y - x),
    minimum(x * 2 + 1, y * 2), minimum(minimum(x + 1, z), y + 1), minimum(minimum(x, z) + 1, x),
    maximum(minimum(x, z) * -1, -x),
    # sums of choices
    minimum(x, y) * 2 + maximum(x, y), minimum(x, y) + maximum(x, z), maximum(x, y) - minimum(x, y),
    minimum(x, y) - maximum(x, y), minimum(x, y) + maximum(3 - x, 3 - y), minimum(x, y) + maximum(3 - x, 4 - y),
    minimum(x, y) + minimum(-x, -y), minimum(minimum(x, y), z) + maximum(-x, -y), abs(x - y) + minimum(x, z),
    abs(x - y) + minimum(x, y), abs(x - y) - maximum(x, y) * 2, minimum(minimum(x + z, y), 3) - z,
    minimum(minimum(x - z, y), 3) - z, z - minimum(x + z, y) * 2, select(x < y, z, 1) + select(x >= y, 2, z),
    select(x < y, z, 1) + select(x <= y, 2, z), select(x < 0, y + 1, z) * -2 + y * 2,
    # factors
    minimum(x, y) // -2, minimum(x, y) // 2, (x * 4 + 3) // 6, (x * 2 - 3) // 4, (x * 7 + y * 5 + 9) % 4,
    (x * z) // (y * z), (x * z) % (y * z), (x * 6) // -4, (x * 6) % -4, x * z // -z, x * z % z,
    # bits
    (x * 4 + y) & 3, (x * 4 + y) & 4, (x * 4 + y) & -2, (x * 4 + 6) & 2, cast(cast(x, 4), 3), cast(cast(x, 3), 4),
    cast(x, 3) + cast(x, 5),
]  # fmt: skip
IN_RANGES: list[tuple[Any, dict[Any, Range]]] = [
    ((x * y + x * z).eq(1), {x: Range(1, 4)}), (x * y + x * z > 0, {x: Range(1, 4)}),
    (x * y + x * z > 0, {x: Range(0, 4)}), (x * y + x * z >= 0, {x: Range(-4, 4)}), (x * 5 + y < z, {y: Range(0, 5)}),
    (x * 5 + y < 15, {y: Range(0, 6)}), ((x * 5 + y).eq(z * 5 + 3), {y: Range(0, 5)}),
    ((x * 5 + y).eq(z * 5 + 3), {y: Range(0, 9)}), (x + y > 0, {x: Range(-2, 3), y: Range(-1, 2)}),
    (x.ne(y), {x: Range(0, 4), y: Range(3, 4)}), (x - x // y * y, {y: Range(1, 5)}),
    (minimum(x // y * y, x), {y: Range(1, 5)}), (minimum(x // y * y, x), {y: Range(-5, 5)}),
    (maximum(x // y, 0), {x: Range(0, 9), y: Range(-3, 9)}),
]  # fmt: skip


def keeps_its_values(e: Any, ranges: dict[Any, Range]) -> None:
    names = e.free_vars()
    spans = [range(r.ends[0], r.ends[1] + 1) if (r := ranges.get(v)) else WINDOWS[len(names)] for v in names]
    simplified(e, Context(ranges), (dict(zip(names, row, strict=True)) for row in product(*spans)))


@pytest.mark.parametrize("cases", [JUNCTIONS, CHOICES, INTEGERS], ids=["junctions", "choices", "integers"])
def test_what_a_rule_almost_fits_keeps_its_values(cases: list[Any]) -> None:
    for e in cases:
        keeps_its_values(e, {})


def test_what_a_rule_almost_fits_in_ranges_keeps_its_values() -> None:
    for e, ranges in IN_RANGES:
        keeps_its_values(e, ranges)

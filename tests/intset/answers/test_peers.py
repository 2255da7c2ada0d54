"""A window that Halide read wrongly, and the questions of other analyzers' own tests."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bound import te
from intset import (
    NEG_INF,
    POS_INF,
    Cond,
    Context,
    Expr,
    Range,
    ShapeVar,
    Var,
    parse,
)
from intset.infinity import Infinity
from lowering import lower, run
from tests.bound.reference import evaluate as reference


def test_a_window_that_moves_down() -> None:
    """Halide's sliding window: is_monotonic((8x)/-4) was "increasing", and pixels were wrong."""
    a = te.placeholder((64,), "int32", name="A")
    shifted = te.compute((64,), lambda i: a[i] + 1, name="S")
    out = te.compute((12,), lambda i: shifted[(8 * i + 1) // -4 + 40] + shifted[(8 * i + 1) // -4 + 43], name="O")
    s = te.create_schedule(out.op)
    s[shifted].compute_at(s[out], out.op.axis[0])
    given = {"A": np.arange(64, dtype="int32") ** 2}
    (expected,) = reference([out], given)
    np.testing.assert_array_equal(run(lower(s), given)["O"], expected)


ROWS = [
    [field.strip() for field in line.split(";", 3)]
    for line in (Path(__file__).parent / "items_of_peers.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
NAMES: dict[str, Var] = {name: Var(name) for name in "x y z a b A B C i j k tx bx i0 i1 i2 i3 i4 i5 wid".split()}
NAMES |= {name: ShapeVar(name, 1) for name in ("c", "c0", "c1")}
# Right answers that are not as good as the peer's.
OPEN = {
    "maximum(4 * a + 2, 6 * b) * minimum(x * 2, y * 4)"  # proved, not simplified
}


def read(text: str) -> Expr:
    e: Expr = parse(text, NAMES)
    return e


def listed(text: str) -> list[Expr]:
    """The expressions of a list that commas at its top level separate."""
    depth, parts = 0, [""]
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [read(part) for part in parts]


def context(row: list[str], expressions: list[Expr]) -> Context:
    ranges: dict[Var, Range | None] = {}
    facts: list[Cond] = []
    for part in filter(None, row[3].split(";")):
        stated = re.findall(r"(\w+) in \[([^,]*), ([^\]]*)\]", part)
        for name, low, high in stated:
            least = NEG_INF if low == "-inf" else read(low)
            if high == "inf":
                ranges[NAMES[name]] = Range(least, POS_INF) if low != "-inf" else None
            else:
                ranges[NAMES[name]] = Range.up_to(read(high)) if low == "-inf" else Range(least, read(high) - least + 1)
        if not stated:
            facts.append(parse(part, NAMES))
    for e in expressions if "map" not in row[0] else ():
        ranges.update({v: None for v in e.free_vars() if type(v) is not ShapeVar and v not in ranges})
    return Context(ranges, assume=facts)


def is_within(found: Expr | Infinity, wanted: str, side: int) -> bool:
    """Whether an end reaches or undercuts the wanted end; `side`: 1 for the least value, -1 for the greatest."""
    if wanted in ("?", "inf", "-inf"):
        return True
    return isinstance(found, Expr) and bool((found - read(wanted)) * side >= 0)


def holds(row: list[str]) -> bool:
    """Whether the answer is not looser than the peer's."""
    kind, expressions = row[0], listed(row[1])
    ctx = context(row, expressions)
    if kind == "ends":
        low, high = ctx.bounds(expressions[0])
        first, last = row[2].split(", ")
        return is_within(low, first, 1) and is_within(high, last, -1)
    if kind == "remainder":
        modulus, remainder = map(int, row[2].split(", "))
        simple = ctx.simplify(expressions[0] % modulus)
        return simple.is_const and simple.value == remainder
    iter_map = ctx.as_iter_map(expressions)
    if kind.startswith("no map"):
        return (iter_map.surjective if kind.endswith("surjective") else iter_map.injective).status == "refuted"
    outputs = [[read(part) for part in output.split(" ")] for output in row[2].split(", ")]
    for e, (extent, base, scale) in zip(expressions, outputs, strict=True):
        bounds = ctx.bounds(e)
        low, high = bounds
        if isinstance(low, Infinity) or isinstance(high, Infinity) or not bounds.is_tight:
            return False
        if not ctx.prove(low.eq(base)) or not ctx.prove(high.eq(base + (extent - 1) * scale)):
            return False
    if any(scale.value != 1 for _, _, scale in outputs):
        return True
    shifted = ctx.as_iter_map([e - base for e, (_, base, _) in zip(expressions, outputs, strict=True)])
    return bool(shifted.surjective) and (kind == "map" or bool(shifted.injective))


def test_there_are_items_of_each_kind() -> None:
    kinds = [row[0].split(" ")[0] for row in ROWS]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"ends": 47, "remainder": 40, "map": 49, "no": 5}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_an_item(row: list[str]) -> None:
    assert holds(row) is (row[1] not in OPEN)

"""Known wrong answers of TVM's `arith` and Halide, and the questions of other analyzers' own tests."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import intset
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
    cast,
    evaluate,
    maximum,
    minimum,
    parse,
    truncmod,
)
from intset.expr.node import truth
from intset.infinity import Infinity
from lowering import lower, run
from tests.bound.reference import evaluate as reference
from tests.intset.oracle import Claims
from tests.strategies.contexts import world

x, y, u, v = (Var(name) for name in "xyuv")
n = ShapeVar("n")
WORD = 2**32

# name: (ranges, a false claim that was said to be proved, what is true instead)
CLAIMS: dict[str, tuple[dict[Var, Any], Any, Any]] = {
    "U1 truncmod of negatives": ({x: Range(-1, 2)}, truncmod(x, 2) >= 0, truncmod(x, 2) >= -1),
    "U4 a cast keeps no factor": ({x: Range(0, 101)}, (cast(x * 3, 8) % 3).eq(0), cast(x * 3, 8) <= 127),
    "U5 a cast wraps": ({x: Range(0, 200)}, cast(x, 8) >= 0, cast(x, 8) >= -128),
    "U6 a cast is not the identity": ({x: Range(0, 1000)}, cast(x, 8).eq(x), cast(cast(x, 8), 8).eq(cast(x, 8))),
    "U7 a range that was replaced": ({x: Range(0, 100)}, x * x <= 9, x * x <= 99 * 99),
    "U8 unsigned or": ({u: Range(0, WORD)}, cast(u | 2**31, 32, False) < 2**31, cast(u | 2**31, 32, False) >= 2**31),
    "U9 a name bound anew": ({y: Range(-9, 19)}, (y * 3).eq(y * 2), (y * 2 + y).eq(y * 3)),
    "U10 unsigned sums wrap": (
        {u: Range(0, WORD), v: Range(0, WORD)},
        cast(u + v, 32, False) >= u,
        cast(u + v, 32, False) <= WORD - 1,
    ),
    "U11 nested remainders": (
        {x: Range(0, 8)},
        (x // 6 * 5 + x % 6 % 5).ne(0) | (x % 6).eq(0),
        x // 6 * 5 + x % 6 % 5 <= 9,
    ),
    "T1 unsigned casts of negatives": ({x: Range(-1, 2)}, cast(truncmod(x, 3), 32, False) <= 2, truncmod(x, 3) <= 2),
    "solver #9105": ({x: Range(-50, 46)}, ((x - 2) + 2 * x) // 3 < -6, ((x - 2) + 2 * x) // 3 <= -6),
    "monotonicity": ({x: Range(0, 50)}, (x * 8) // -4 <= ((x + 1) * 8) // -4 - 1, (x * 8) // -4 >= ((x + 1) * 8) // -4),
    "overflow #3245": ({x: Range(0, 2**31)}, (cast((x + 7) * 5, 32)).eq(x * 5 + 35), ((x + 7) * 5).eq(x * 5 + 35)),
}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("tiers", ["linear,isl,points,z3", "linear", "isl", "points", "z3"])
def test_no_tier_proves_it(name: str, tiers: str) -> None:
    ranges, false, true = CLAIMS[name]
    with intset.using(tiers=tiers):
        ctx = Context(ranges)
        answer = ctx.prove(false)
        assert answer.status != "proved" and ctx.prove(true).status != "refuted"
        if answer.counterexample is not None:
            assert evaluate(false, answer.counterexample) is False
    if "," in tiers:
        assert answer.status == "refuted" and Context(ranges).prove(true)


@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "modular", "isl", "points"])
def test_no_domain_leaves_a_value_out(domain: str) -> None:
    cases = [
        ({x: range(-1, 1)}, truncmod(x, 2)),  # U1
        ({x: range(101)}, cast(x * 3, 8)),  # U4
        ({x: range(200)}, cast(x, 8)),  # U5
        ({x: range(8)}, x // 6 * 5 + x % 6 % 5),  # U11
        ({x: range(-1, 1)}, cast(truncmod(x, 3), 32, False)),  # T1
        ({x: range(-9, 9)}, (x * 8 + 1) // -4),
        ({x: range(9), y: range(1, 9)}, 100 // y + x),
    ]
    for spans, e in cases:
        Claims(world({var: Range(span.start, len(span)) for var, span in spans.items()})).about(e, domain)


def test_a_bijection_is_not_claimed_where_points_are_missed() -> None:
    tiles = Context({x: Range(0, 8)}).image((x // 6, x % 6 % 5))  # U11
    assert tiles.count() == 7 and tiles.is_exact


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


def test_the_other_unsound_answers_of_tvm():
    from bound import tir

    v, t = te.var("x"), te.placeholder((8,), "float32", name="t")
    through = tir.Cast("int32", tir.Cast("float32", v) / tir.const(0.5, "float32"))  # U2, U3: a float is no integer
    ctx = Context({v: Range(0, 101)})
    assert not ctx.prove(through < 1) and not ctx.prove((through % 4).eq(0))
    assert not Context().prove(tir.Cast("int32", t[v] * 2.0) >= 0)
    low, high = Context({n: Range(0, 101)}).bounds(100 // n)  # division by 0 is undefined
    assert (int(low), int(high)) == (1, 100)


def test_solver_answers_of_halide():
    assert Context({x: Range(-50, 45)}).prove(((x - 2) + 2 * x) // 3 < -6)  # up to -6: it was missed there
    assert Context({x: Range(-50, 46)}).prove(((x - 2) + 2 * x) // 3 < -6).status == "refuted"
    assert Context({x: Range(-5, 100)}).prove(((x - 2) + 2 * x) // 3 >= -6)
    assert Context({}, assume=[3 * x + 4 < 27]).prove(x <= 7)
    assert Context({x: None}, assume=[x <= 7]).prove(3 * x + 4 < 27)
    assert Context({}, assume=[x // 5 < 17]).prove(x <= 84) and not Context({}, assume=[x // 5 < 17]).prove(x <= 83)
    assert Context({x: Range(-99, 111)}).prove((x * 8 + 7 <= minimum((x + 1) * 8, 100)) | (x > 11))
    assert Context({x: Range(13, 99)}).prove(x * 8 >= minimum((x + 1) * 8, 100))
    assert Context({}, assume=[maximum(x, 1) * 2 <= x]).prove(truth(False)).vacuous
    for d in (-3, -2, -1, 1, 2, 3):
        for limit in range(5, 11):
            for goal in (x * d < limit, x // d < limit, x * d <= limit, (x // d).eq(limit)):
                holds = [v for v in range(-40, 41) if evaluate(goal, {x: v})]
                for v in (-33, -2, 0, 3, 29):
                    assert bool(Context({x: Range(v, 3)}).prove(goal)) is all(w in holds for w in range(v, v + 3))


def test_monotonicity_of_negative_divisors():
    ctx = Context({x: Range(-50, 101)})
    for numerator in (8, -8, 3):
        for divisor in (-4, 4, -3, 5):
            f, g = (x * numerator + 1) // divisor, ((x + 1) * numerator + 1) // divisor
            grows = all(((v + 1) * numerator + 1) // divisor >= (v * numerator + 1) // divisor for v in range(-50, 51))
            falls = all(((v + 1) * numerator + 1) // divisor <= (v * numerator + 1) // divisor for v in range(-50, 51))
            assert bool(ctx.prove(g >= f)) is grows and bool(ctx.prove(g <= f)) is falls


def test_overflow_is_asked_not_assumed():
    ctx = Context({x: Range(0, 2**31), y: Range(0, 2**31)})
    assert not ctx.fits((x + 7) * 5, bits=32) and not ctx.fits(x * 5 + 35, bits=32)
    assert Context({x: Range(0, POS_INF)}).fits(x, bits=32).status == "refuted"


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

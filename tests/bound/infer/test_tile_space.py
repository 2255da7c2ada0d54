"""The space of a schedule's tiles, and tables of its expressions, against inference with numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from benchmarks.tilings import CASES, Tiled, expressions, measure, product
from bound import infer_bound, te
from bound.infer import BoundsMap
from intset import Context, Range, ShapeVar, Var
from intset.errors import InputError


@pytest.mark.parametrize("made", CASES, ids=lambda case: case.__name__)
def test_tables_equal_inference_with_numbers(made: Callable[[], Tiled]) -> None:
    b, tiles, tensors = made()
    space = b.space({t: range(71) for t in tiles})
    assert space.count() == 70 ** len(tiles)  # no tile is 0
    table = space.table(expressions(b, tensors))
    assert all(column.dtype.kind == "i" for column in table.values())
    rng = random.Random(made.__name__)
    for row in rng.sample(range(space.count()), 6):
        values = {t: int(table[t.name][row]) for t in tiles}
        numeric = expressions(b.at(values), tensors)
        assert {name: int(table[name][row]) for name in numeric} == {name: int(e) for name, e in numeric.items()}


def test_the_benchmark_compares_what_it_tabulates() -> None:
    assert measure(product, 12, 3).startswith("product      1728 tilings in ")


def test_conditions_select_tiles() -> None:
    b, (tm, _, tk), _ = product()
    values = {tm: [8, 16, 32, 64], "tn": [8, 16, 32], tk: [4, 8]}
    space = b.space(values, where=[b.bytes("shared") <= 1024, "tm % 16 == 0 or tk == 4"])
    expected = [
        (m, n, k)
        for m in values[tm]
        for n in values["tn"]
        for k in values[tk]
        if 4 * k * (m + n) <= 1024 and (m % 16 == 0 or k == 4)
    ]
    assert sorted(tuple(row.values()) for row in space) == expected and len(expected) > 3
    assert (8, 8, 4) in space and (64, 32, 8) not in space


def stencil(ctx: Context | None, t: Var, n: Var) -> BoundsMap:
    a = te.placeholder((n + 2,), name="A")
    p = te.compute((n + 2,), lambda i: a[i] + 1.0, name="P")
    c = te.compute((n,), lambda i: p[i] + p[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=t)
    s[p].compute_at(s[c], outer)
    return infer_bound(s, ctx)


def test_what_is_known_of_sizes_holds_in_their_space() -> None:
    n, t = ShapeVar("n"), ShapeVar("t", upper=8, multiple_of=2)
    b = stencil(Context({n: Range(4, 60)}, assume=[(n % t).eq(0), n <= 40]), t, n)
    members = sorted(tuple(row.values()) for row in b.space({n: range(64), t: range(0, 9, 2)}))
    assert members == [(k, m) for k in range(64) for m in (2, 4, 6, 8) if 4 <= k <= 40 and k % m == 0]
    fixed = b.at({n: 24})
    assert [row["t"] for row in fixed.space({t: range(0, 9, 2)})] == [2, 4, 6, 8]
    with pytest.raises(InputError):
        b.space({t: [3]})  # it declares multiples of 2


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (lambda t, n: {"stages": [1, 2]}, "'stages' is no symbolic size of this schedule; those are: n, t"),
        (lambda t, n: {Var("t"): [1, 2]}, "t is no symbolic size of this schedule; those are: n, t"),
        (lambda t, n: {t: [1, 2], "t": [3]}, "a size has values twice, by its variable and by its name"),
        (lambda t, n: [t], "the values of a space must be a mapping {size: values}, not [t] of type list"),
    ],
)
def test_what_is_no_size_is_refused(keys: Callable[[Var, Var], Mapping[Any, Any]], message: str) -> None:
    n, t = ShapeVar("n"), ShapeVar("t")
    with pytest.raises(InputError) as refused:
        stencil(None, t, n).space(keys(t, n))
    assert str(refused.value) == message

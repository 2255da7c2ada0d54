"""The space of a schedule's tiles, and tables of its expressions, against inference with numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bound import infer_bound, te
from bound.infer import BoundsMap
from bound.tensor import Tensor
from intset import Context, Range, ShapeVar, Var
from intset.errors import InputError
from intset.expr.node import Expr, as_expr

Tiled = tuple[BoundsMap, list[Var], list[Tensor]]


def convolution() -> Tiled:
    """A 3x3 convolution whose padded input is computed in each tile."""
    a, w = te.placeholder((56, 56, 64), name="A"), te.placeholder((3, 3, 64, 64), name="W")
    p = te.compute(
        (58, 58, 64),
        lambda y, x, c: te.if_then_else(te.all(y >= 1, y < 57, x >= 1, x < 57), a[y - 1, x - 1, c], 0.0),
        name="P",
    )
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 64))
    c = te.compute(
        (56, 56, 64), lambda y, x, k: te.sum(p[y + ry, x + rx, rc] * w[ry, rx, rc, k], axis=[ry, rx, rc]), name="C"
    )
    s = te.create_schedule(c.op)
    tiles = [ShapeVar("ty"), ShapeVar("tx"), ShapeVar("tc")]
    y, x, k = c.op.axis
    (yo, yi), (xo, xi), (co, ci) = (s[c].split(axis, factor=t) for axis, t in zip((y, x, rc), tiles, strict=True))
    s[c].reorder(yo, xo, co, yi, xi, k, ry, rx, ci)
    s[p].compute_at(s[c], co)
    return infer_bound(s), [*tiles], [p, a]


def product() -> Tiled:
    """A matrix product with shared copies of its operands in each step of the reduction."""
    a, b = te.placeholder((256, 128), name="A"), te.placeholder((128, 192), name="B")
    r = te.reduce_axis((0, 128), "r")
    c = te.compute((256, 192), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")
    s = te.create_schedule(c.op)
    near = [s.cache_read(t, "shared", [c]) for t in (a, b)]
    tiles = [ShapeVar("tm"), ShapeVar("tn"), ShapeVar("tk")]
    (io, ii), (jo, ji), (ro, ri) = (s[c].split(axis, factor=t) for axis, t in zip((*c.op.axis, r), tiles, strict=True))
    s[c].reorder(io, jo, ro, ii, ji, ri)
    for t in near:
        s[t].compute_at(s[c], ro)
    return infer_bound(s), [*tiles], [*near, a, b]


def depthwise() -> Tiled:
    """A depthwise convolution computed in the tiles of the pointwise one that reads it."""
    a, w, v = te.placeholder((34, 34, 32)), te.placeholder((3, 3, 32)), te.placeholder((32, 48))
    ry, rx, rc = te.reduce_axis((0, 3)), te.reduce_axis((0, 3)), te.reduce_axis((0, 32))
    d = te.compute((32, 32, 32), lambda y, x, c: te.sum(a[y + ry, x + rx, c] * w[ry, rx, c], axis=[ry, rx]), name="D")
    p = te.compute((32, 32, 48), lambda y, x, k: te.sum(d[y, x, rc] * v[rc, k], axis=rc), name="P")
    s = te.create_schedule(p.op)
    tiles = [ShapeVar("ty"), ShapeVar("tx"), ShapeVar("tk")]
    split = [s[p].split(axis, factor=t) for axis, t in zip(p.op.axis, tiles, strict=True)]
    s[p].reorder(*(outer for outer, _ in split), *(inner for _, inner in split))
    s[d].compute_at(s[p], split[1][0])
    return infer_bound(s), [*tiles], [d, a, w]


def softmax() -> Tiled:
    """Rows are normalized a tile at a time: maximum, exponentials and sum of a tile are kept."""
    a = te.placeholder((96, 80), name="A")
    r, q = te.reduce_axis((0, 80), "r"), te.reduce_axis((0, 80), "q")
    m = te.compute((96,), lambda i: te.max(a[i, r], axis=r), name="M")
    e = te.compute((96, 80), lambda i, j: te.exp(a[i, j] - m[i]), name="E")
    total = te.compute((96,), lambda i: te.sum(e[i, q], axis=q), name="S")
    n = te.compute((96, 80), lambda i, j: e[i, j] / total[i], name="N")
    s = te.create_schedule(n.op)
    ti, tj, tq = ShapeVar("ti"), ShapeVar("tj"), ShapeVar("tq")
    outer, inner = s[n].split(n.op.axis[0], factor=ti)
    jo, ji = s[n].split(n.op.axis[1], factor=tj)
    s[n].reorder(outer, inner, jo, ji)
    s[total].split(q, factor=tq)
    for t in (m, e, total):
        s[t].compute_at(s[n], outer)
    return infer_bound(s), [ti, tj, tq], [m, e, total, a]


CASES: list[Callable[[], Tiled]] = [convolution, product, depthwise, softmax]


def expressions(b: BoundsMap, tensors: list[Tensor]) -> dict[str, Expr]:
    """Footprints, traffic and loops of a schedule, by name."""
    asked = {"bytes": b.bytes(), "shared": b.bytes("shared")}
    for k, t in enumerate(tensors):
        asked[f"loads{k}"], asked[f"moved{k}"] = b.traffic(t, "loads"), b.traffic(t)
        if b.attach_path(t):
            asked[f"most{k}"] = as_expr(b.required(t).count_max())
            asked[f"total{k}"] = as_expr(b.required(t).count_total())
    output = b.schedule[b.schedule.outputs[0]]
    asked["tiles"] = as_expr(b[output.leaf_iter_vars[0]].extent)
    return asked


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

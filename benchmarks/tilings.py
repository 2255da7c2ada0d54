"""Footprint and traffic of a million tilings beside one inference a tiling: `python -m benchmarks.tilings`.

Four schedules with tiles of unknown size: a 3x3 convolution, a matrix product with shared copies, a depthwise and a
pointwise convolution, a softmax. One inference with sizes and one table give the bytes, the traffic and the counts of
all tilings; at random members they are compared with the inference at numbers. Printed are seconds, and how much less
time a tiling takes.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from bound import infer_bound, te
from bound.infer import BoundsMap
from bound.tensor import Tensor
from intset import ShapeVar
from intset.expr.node import Expr, Var, as_expr

Tiled: TypeAlias = tuple[BoundsMap, list[Var], list[Tensor]]


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


CASES: Final[list[Callable[[], Tiled]]] = [convolution, product, depthwise, softmax]


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


def measure(case: Callable[[], Tiled], tiles: int, members: int) -> str:
    """Tabulate `tiles` cubed tilings of a case and compare random members; gives a line of the report.

    Raises
    ------
    AssertionError: a value differs from the inference with numbers.
    """
    start = time.perf_counter()
    b, sizes, tensors = case()
    table = b.space({t: range(1, tiles + 1) for t in sizes}).table(expressions(b, tensors))
    seconds = time.perf_counter() - start
    rng = random.Random(case.__name__)
    rows = rng.sample(range(tiles**3), members)
    inferring = 0.0
    for row in rows:
        values = {t: int(table[t.name][row]) for t in sizes}
        start = time.perf_counter()
        exact = expressions(infer_bound(b.written, at=values), tensors)
        inferring += time.perf_counter() - start
        assert {name: int(e) for name, e in exact.items()} == {name: int(table[name][row]) for name in exact}, values
    ratio = inferring / members / (seconds / tiles**3)
    return f"{case.__name__:12} {tiles**3} tilings in {seconds:.2f} s, {members} equal; {ratio:.0f} times as fast"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiles", type=int, default=100, help="values of each of the three sizes")
    parser.add_argument("--members", type=int, default=1000, help="tilings compared")
    options = parser.parse_args(arguments)
    for case in CASES:
        print(measure(case, options.tiles, options.members), flush=True)


if __name__ == "__main__":
    main()

"""Precision losses from InferBound issues of TVM and Halide, and the table of regions oversized by Halide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import maximum, minimum
from intset.expr.node import Expr
from tests.bound.oracle import check


def tensors(shape: tuple[Any, ...], out: tuple[Any, ...], read: Callable[..., Any]) -> tuple[Tensor, Tensor, Schedule]:
    """B = A + 1, and a reader C of another shape."""
    a = te.placeholder(shape, name="A")
    named: Any = (lambda i: a[i] + 1) if len(shape) == 1 else (lambda i, j: a[i, j] + 1)
    b = te.compute(shape, named, name="B")
    c = te.compute(out, lambda *axes: read(b, *axes), name="C")
    return b, c, te.create_schedule(c.op)


def extents(s: Schedule, tensor: Tensor, **options: Any) -> list[int]:
    b = infer_bound(s, **options)
    return [int(r.extent) for r in b.allocated(tensor)]


# -- reported to TVM --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "wanted"), [(12, [2, 6]), (9, [2, 6]), (3, [1, 3])])
def test_fuse_then_split(factor: int, wanted: list[int]) -> None:
    """apache/tvm 3072, 3073, 3679."""
    b, c, s = tensors((12, 6), (12, 6), lambda b, i, j: b[i, j])
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), factor)
    s[b].compute_at(s[c], outer)
    assert extents(s, b) == wanted
    found = infer_bound(s)
    assert found.required(b).count_max() == factor and found.required(b).count_total() == 72
    check(found)


def test_stacked_convolutions_keep_their_padded_buffers() -> None:
    """apache/tvm 3096: three 3x3 convolutions of 56x56 images, each padded to 58x58."""
    x = te.placeholder((56, 56), name="X")
    padded = []
    for k in range(3):
        p = te.compute(
            (58, 58),
            lambda i, j, x=x: tir.if_then_else(tir.all(i >= 1, i < 57, j >= 1, j < 57), x[i - 1, j - 1], 0.0),
            name=f"P{k}",
        )
        ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
        x = te.compute((56, 56), lambda i, j, p=p, ry=ry, rx=rx: te.sum(p[i + ry, j + rx], axis=[ry, rx]), name=f"O{k}")
        padded.append(p)
    b = infer_bound(te.create_schedule(x.op))
    for p in padded:
        assert [int(r.extent) for r in b.allocated(p)] == [58, 58]
        assert b.required(p).count() == 58 * 58 and b.guard(p) == ()


def test_terms_that_cancel() -> None:
    """apache/tvm 2104, 3526."""
    b, c, s = tensors((20,), (20,), lambda b, i: b[i + (0 - i)])
    s[b].compute_at(s[c], c.op.axis[0])
    assert extents(s, b) == [1] and infer_bound(s).required(b).count_max() == 1


def test_the_region_of_a_tensorized_consumer() -> None:
    """apache/tvm 2564: B[i:i+3, 0:20]."""
    a = te.placeholder((16, 20), name="A")
    b = te.compute((16, 20), lambda i, j: a[i, j] + 1, name="B")
    tile = te.placeholder((3, 20), name="tile")
    row = te.compute((20,), lambda j: tile[0, j] + tile[1, j] + tile[2, j], name="row")
    add3 = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="add3")
    c = te.compute((14, 20), lambda i: add3(b[i : i + 3, 0:20]), name="C")
    s = te.create_schedule(c.op)
    assert infer_bound(s).required(b).count() == 320
    s[b].compute_at(s[c], c.op.axis[0])
    found = infer_bound(s)
    assert [int(r.extent) for r in found.allocated(b)] == [3, 20]
    assert found.required(b).count_total() == 14 * 60
    # One column of a tile is needed: the tile is computed whole all the same.
    d = te.compute((14,), lambda i: c[i, 3], name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    found = infer_bound(s)
    assert found.required(c).count_max() == 1 and found.computed(c).count_max() == 20
    assert found.required(b).count() == 320


def test_a_factor_larger_than_the_extent() -> None:
    """apache/tvm 4885, 4931; and 5027: a loop bound to a thread keeps the extent that the schedule says."""
    b, c, s = tensors((5,), (5,), lambda b, i: b[i] * 2)
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[b].compute_at(s[c], outer)
    found = infer_bound(s)
    assert (int(found[outer].extent), int(found[inner].extent)) == (1, 5)
    assert found.guard(c) == () and extents(s, b) == [5]
    check(found)
    b, c, s = tensors((5,), (5,), lambda b, i: b[i] * 2)
    outer, inner = s[c].split(c.op.axis[0], 16)
    thread = te.thread_axis("threadIdx.x")
    s[c].bind(inner, thread)
    s[b].compute_at(s[c], outer)
    found = infer_bound(s)
    assert (int(found[inner].extent), int(found[thread].extent)) == (16, 16)
    assert [str(g) for g in found.guard(c)] == ["i0.inner <= 4"] and extents(s, b) == [5]
    check(found)


def test_the_second_of_two_outputs_alone() -> None:
    a = te.placeholder((16,), name="A")
    x, y = te.compute((16,), lambda i: (a[i] + 1, a[i] * 2), name="XY")
    c = te.compute((4,), lambda i: y[i * 3], name="C")
    s = te.create_schedule(c.op)
    found = infer_bound(s)
    assert found.required(x).is_empty and found.required(x).count() == 0
    assert found.required(y).count() == 4 and found.computed(x).count() == 4
    assert [int(r.extent) for r in found.allocated(x)] == [10]
    check(found)


def test_truncating_remainders_of_negative_indices() -> None:
    b, c, s = tensors((5,), (9,), lambda b, i: b[tir.truncmod(i - 4, 3) + 2])
    s[b].compute_at(s[c], c.op.axis[0])
    assert extents(s, b) == [1]
    s[b].compute_root()
    found = infer_bound(s)
    assert found.required(b).count() == 5 and extents(s, b) == [5]
    check(found)


# -- where Halide 21 needs more: research/halide.md, section 4a -------------------------------------------------------

X, XY = (32,), (16, 16)


def root(shape: Any, out: Any, read: Any) -> tuple[int, list[int]]:
    b, _, s = tensors(shape, out, read)
    found = infer_bound(s)
    check(found, regions=False)
    return found.required(b).count_max(), extents(s, b)


def tiled(shape: Any, out: Any, read: Any, factor: int, fuse: bool = False) -> tuple[int, list[int]]:
    b, c, s = tensors(shape, out, read)
    axis = s[c].fuse(*c.op.axis) if fuse else c.op.axis[0]
    outer, _ = s[c].split(axis, factor)
    s[b].compute_at(s[c], outer)
    found = infer_bound(s)
    check(found, regions=False)
    return found.required(b).count_max(), extents(s, b)


def even(b: Tensor, i: Expr) -> Any:
    return tir.Select((i % 2).eq(0), b[i], tir.const(0.0, "float32"))


ROWS: dict[str, tuple[Callable[[], tuple[int, list[int]]], int, list[int]]] = {
    "point downsample": (lambda: root((64, 64), (32, 32), lambda b, i, j: b[2 * i, 2 * j]), 1024, [63, 63]),
    "stride 4, tile 4": (lambda: tiled((128,), X, lambda b, i: b[4 * i], 4), 4, [13]),
    "dilated by 4, a point": (lambda: tiled((48,), X, lambda b, i: b[i] + b[i + 4] + b[i + 8], 1), 3, [9]),
    "interleave": (lambda: root(X, X, even), 16, [31]),
    "disjoint consumers": (lambda: root((1016,), (16,), lambda b, i: b[i] + b[i + 1000]), 32, [1016]),
    "slices": (lambda: root((16, 101), (16,), lambda b, i: b[i, 0] + b[i, 100]), 32, [16, 101]),
    "reshape in tiles of 4": (lambda: tiled(XY, (256,), lambda b, t: b[t // 16, t % 16], 4), 4, [1, 4]),
    "fuse and split by 4": (lambda: tiled(XY, XY, lambda b, i, j: b[i, j], 4, True), 4, [1, 4]),
    "x % 16": (lambda: tiled((16,), (64,), lambda b, x: b[x % 16], 4), 4, [4]),
    "4*x % 16": (lambda: root((16,), (4,), lambda b, x: b[(4 * x) % 16]), 4, [13]),
    "x+y, x-y": (lambda: root((31, 31), XY, lambda b, x, y: b[x + y, x - y + 15]), 256, [31, 31]),
    "main diagonal": (lambda: root((32, 32), X, lambda b, x: b[x, x]), 32, [32, 32]),
    "triangle": (
        lambda: root((32, 32), (32, 32), lambda b, x, y: tir.if_then_else(x <= y, b[x, y], 0.0)),
        528,
        [32, 32],
    ),
    "x - x//8*8": (lambda: root((64,), (64,), lambda b, x: b[x - (x // 8) * 8]), 8, [8]),
    "x+y - x//5*5": (lambda: root((64,), (60, 4), lambda b, x, y: b[(x + y) - (x // 5) * 5]), 8, [8]),
    "x * (10 - x)": (lambda: root((26,), (11,), lambda b, x: b[x * (10 - x)]), 6, [26]),
    "clamp": (lambda: tiled((32,), X, lambda b, x: b[maximum(minimum(x, 20), 8)], 4), 4, [4]),
    "reflect": (lambda: tiled((32,), (40,), lambda b, x: b[minimum(maximum(4 - x, x - 4), 66 - x)], 4), 4, [4]),
    "diagonal sliding": (
        lambda: root(
            (21, 21),
            (10, 10),
            lambda b, x, y: b[x + y + 2, x - y + 11] + b[x + y, x - y + 9] + b[x + y, x - y + 11],
        ),
        -1,
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_the_table(name: str) -> None:
    run, count, box = ROWS[name]
    found = run()
    assert (count < 0 or found == (count, box)) and found[0] > 0


def test_strided_convolution_with_a_gap() -> None:
    a = te.placeholder((96,), name="A")
    b = te.compute((96,), lambda i: a[i] + 1, name="B")
    r = te.reduce_axis((0, 2), "r")
    c = te.compute((32,), lambda x: te.sum(b[3 * x + r], axis=r), name="C")
    found = infer_bound(te.create_schedule(c.op))
    assert found.required(b).count() == 64 and int(found.allocated(b)[0].extent) == 95
    check(found)


def test_linearised_tiles() -> None:
    b, c, s = tensors((4096,), (64, 64), lambda b, y, x: b[y * 64 + x])
    _, xo, _, _ = s[c].tile(*c.op.axis, 8, 8)
    s[b].compute_at(s[c], xo)
    found = infer_bound(s)
    assert found.required(b).count_max() == 64 and extents(s, b) == [456]


def test_skew_and_unskew() -> None:
    a = te.placeholder((31,), name="A0")
    x = te.compute((31,), lambda i: a[i] + 1, name="A")
    b = te.compute((31, 16), lambda i, j: x[maximum(i - j, 0)], name="B")
    c = te.compute((16, 16), lambda i, j: b[i + j, j], name="C")
    found = infer_bound(te.create_schedule(c.op))
    assert found.required(b).count() == 256 and found.required(x).count() == 16
    check(found, regions=False)


def test_a_reduction_below_the_diagonal() -> None:
    a = te.placeholder((16, 16), name="A")
    b = te.compute((16, 16), lambda i, j: a[i, j] + 1, name="B")
    r = te.reduce_axis((0, 16), "r")
    c = te.compute((16,), lambda x: te.sum(b[maximum(x - r, 0), r], axis=r, where=r <= x), name="C")
    found = infer_bound(te.create_schedule(c.op))
    assert found.required(b).count() == 136
    check(found, regions=False)


def test_concatenation_allocates_a_tile_of_each() -> None:
    a = te.placeholder((32,), name="A")
    x = te.compute((32,), lambda i: a[i] + 1, name="X")
    y = te.compute((32,), lambda i: a[i] + 2, name="Y")
    c = te.compute((64,), lambda i: tir.if_then_else(i < 32, x[i], y[i - 32]), name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 8)
    for t in (x, y):
        s[t].compute_at(s[c], outer)
    found = infer_bound(s)
    for t in (x, y):
        assert [int(r.extent) for r in found.allocated(t)] == [8]
        assert found.required(t).count_total() == 32
    check(found)


def test_nested_tails() -> None:
    """halide 4808: 100 elements, split by 64 with a guard, then by 8 rounding up: 168 stored there."""
    b, c, s = tensors((128,), (100,), lambda b, i: b[i])
    _, inner = s[c].split(c.op.axis[0], 64)
    s[c].split(inner, 8, tail="round_up")
    assert root((128,), (100,), lambda b, i: b[i])[1] == [100] == extents(s, b)


def test_tiles_of_symbolic_length() -> None:
    n = te.var("n")
    b, c, s = tensors((n, 16), (n * 16,), lambda b, t: b[t // 16, t % 16])
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[b].compute_at(s[c], outer)
    found = infer_bound(s)
    assert extents(s, b) == [1, 4]
    assert found.required(b).at({n: 4, outer: 5}).count() == 4
    b, c, s = tensors((n, 16), (n, 16), lambda b, i, j: b[i, j])
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), 4)
    s[b].compute_at(s[c], outer)
    assert extents(s, b) == [1, 4]

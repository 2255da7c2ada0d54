"""Exact regions beside boxes: no answer of `compute="exact"` is larger than that of `compute="box"`."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

from hypothesis import strategies as st

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var, as_expr
from tests.sweeps import sampled

_SIZES = (1, 5, 40, 301)  # of symbolic extents and tiles


def _reads(rng: random.Random, kind: str, p: Tensor, dims: int) -> Callable[..., Any]:
    """A chain stage's formula over its predecessor."""
    taps = [[rng.randint(0, 2) for _ in range(dims)] for _ in range(rng.randint(2, 4))]
    if kind == "stride":
        return lambda *i: p(*(2 * x for x in i)) + p(*(2 * x + tap % 2 for x, tap in zip(i, taps[0], strict=True)))
    if kind == "reduce":
        along, r = rng.randrange(dims), te.reduce_axis((0, 3))
        return lambda *i: te.sum(p(*(x + r if k == along else x + 1 for k, x in enumerate(i))), axis=r)
    if kind == "diagonal" and dims > 1:
        return lambda *i: p(*i) + p(i[0] + 1, i[1] + 2, *i[2:]) + p(i[0] + 2, i[1] + 1, *i[2:])
    first = 1 if kind == "clamped" else 0

    def stencil(*i: Expr) -> Any:
        reads = [p(*(tir.max(x + t - first, 0) for x, t in zip(i, tap, strict=True))) for tap in taps]
        return sum(reads[1:], reads[0])

    return stencil


def _tiled(rng: random.Random, stages: list[Tensor]) -> Schedule:
    """A schedule of a chain: tiles of the last stage, constant or not, perhaps fused, with the others inside."""
    last = stages[-1]
    s = te.create_schedule(last.op)
    axes = list(last.op.axis)
    tiled = rng.sample(range(len(axes)), rng.randint(1, len(axes)))
    pairs = {k: s[last].split(axes[k], rng.choice((4, 5, 8, 16, te.size_var(f"t{k}")))) for k in tiled}
    outer = [pair[0] for pair in pairs.values()]
    s[last].reorder(*outer, *(pairs[k][1] if k in pairs else axis for k, axis in enumerate(axes)))
    loop = s[last].fuse(*outer[-2:]) if len(outer) > 1 and rng.random() < 0.3 else outer[-1]
    for stage in reversed(stages[:-1]):
        if rng.random() < 0.9:
            s[stage].compute_at(s[last], loop)
    return s


def _chain(rng: random.Random, most: int) -> tuple[Schedule, list[Tensor]]:
    dims, long = rng.choice((1, 2, 2, 3)), rng.randint(2, most)
    kinds = [rng.choice(("taps", "taps", "clamped", "stride", "reduce", "diagonal")) for _ in range(long)]
    shape = [
        rng.choice((20, 33, 64, te.size_var(f"n{k}"))) * 2 ** kinds.count("stride") + 8 * long for k in range(dims)
    ]
    current, stages = te.placeholder(shape, name="A"), []
    for number, kind in enumerate(kinds):
        shape = [tir.floordiv(e, 2) if kind == "stride" else e - 4 for e in shape]
        current = te.compute(shape, _reads(rng, kind, current, dims), name=f"S{number}")
        stages.append(current)
    return _tiled(rng, stages), stages


def check_within_boxes(s: Schedule, tensors: list[Tensor]) -> None:
    """Assert that extents and boxes of the exact answer are at most those of boxes, at several sizes."""
    exact, boxed = infer_bound(s), infer_bound(s, compute="box")
    for t in tensors:
        for mine, other in zip(exact.allocated(t), boxed.allocated(t), strict=True):
            extents = as_expr(mine.extent), as_expr(other.extent)
            sizes: dict[Var, None] = dict.fromkeys(v for e in extents for v in e.free_vars())
            for n in _SIZES:
                at = dict.fromkeys(sizes, n)
                assert evaluate(extents[0], at) <= max(evaluate(extents[1], at), 0), (t.name, extents, at)


@sampled(4, 1000, st.randoms(use_true_random=False))
def test_no_allocation_of_a_chain_exceeds_that_of_boxes(rng: random.Random) -> None:
    s, stages = _chain(rng, 7)
    try:
        infer_bound(s, compute="box")
    except ScheduleError:
        return
    check_within_boxes(s, stages[:-1])


def test_a_long_chain_of_stencils_keeps_tiles() -> None:
    current = te.placeholder((120, 320), name="A")
    stages = []
    for k in range(1, 7):

        def stencil(y: Expr, x: Expr, p: Tensor = current) -> Any:
            return p[y, x + 1] + p[y + 2, x + 1] + p[y + 1, x] + p[y + 1, x + 2]

        current = te.compute((120 - 2 * k, 320 - 2 * k), stencil, name=f"S{k}")
        stages.append(current)
    s = te.create_schedule(current.op)
    _, xo, _, _ = s[current].tile(current.op.axis[0], current.op.axis[1], 16, 32)
    for t in stages[:-1]:
        s[t].compute_at(s[current], xo)
    b = infer_bound(s)
    for further, t in enumerate(reversed(stages[:-1]), 1):
        assert [int(r.extent) for r in b.allocated(t)] == [16 + 2 * further, 32 + 2 * further]
        assert {v for r in b.required(t).box for v in as_expr(r.min).free_vars()} == set(s[current].leaf_iter_vars[:2])


_Taps = tuple[tuple[tuple[int, int], ...], ...]  # what each stage of a chain reads


def _resampled(taps: _Taps, shape: list[int], at: int, ratio: tuple[int, int], tile: tuple[int, int]) -> None:
    """Check a chain whose stage `at` reads at `ratio` of its indices, in tiles of the last stage."""
    current, stages = te.placeholder(shape, name="A"), []
    for k, reads in enumerate(taps):
        up, down = ratio if k == at else (1, 1)
        shape = [(e - 6) * down // up - 3 * (k == at) for e in shape]

        def stencil(y: Expr, x: Expr, p: Tensor = current, reads: Any = reads, up: int = up, down: int = down) -> Any:
            return reduce(add, (p[(y * up + a) // down, (x * up + b) // down] for a, b in reads))

        current = te.compute(shape, stencil, name=f"S{k}")
        stages.append(current)
    s = te.create_schedule(current.op)
    _, xo, _, _ = s[current].tile(current.op.axis[0], current.op.axis[1], *tile)
    for t in stages[:-1]:
        s[t].compute_at(s[current], xo)
    check_within_boxes(s, stages[:-1])


def test_extents_of_resampled_stencils_keep_the_correlation_of_both_ends() -> None:
    """Where the ends of a footprint are not written, the box around it is listed, not subtracted as intervals."""
    several: _Taps = (((4, 2), (4, 4), (1, 4), (4, 0)), ((3, 2), (0, 4)), ((4, 2),), ((4, 3), (3, 0), (3, 1)))
    _resampled((((2, 2),), ((2, 2),), ((4, 3),), *several), [106, 142], 3, (2, 1), (3, 32))
    wide: _Taps = (((0, 3),), ((3, 1), (4, 4)), ((0, 0), (2, 4), (2, 2), (0, 4)), ((3, 2), (2, 2), (1, 4)))
    _resampled((*wide, ((4, 2), (2, 4), (0, 0))), [94, 1110], 2, (1, 2), (5, 5))

"""Shared loops whose tiles do not fit: every kind of tail, by factor and by number of parts, several levels deep."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, replay, te, tir
from bound.tensor import Tensor
from lowering import lower, run
from tests.bound.reference import evaluate
from tests.bound.replay.random_dags import MODES
from tests.sweeps import daily

TAILS = ("guard", "shrink", "round_up", "shift_inwards")
KINDS = ("pointwise", "sum", "pair", "best")


def produced(kind: str, a: Tensor, shape: list[Any]) -> Tensor:
    """Make a tensor of this shape from `a`, which has one more leading axis."""
    r = te.reduce_axis((0, 3), "r")
    if kind == "sum":
        return te.compute(shape, lambda *i: te.sum(a(r, *i), axis=r), name="P")
    if kind == "pair":
        return te.compute(shape, lambda *i: (a(0, *i) + 1, a(1, *i) * 2), name="P")[1]
    if kind == "best":
        most = te.comm_reducer(
            lambda x, y: (tir.Select(x[0] >= y[0], x[0], y[0]), x[1] + y[1]),
            lambda p, q: (te.min_value(p), tir.const(0, q)),
            name="most",
        )
        return te.compute(shape, lambda *i: most((a(r, *i), a(r, *i) * 3), axis=r), name="P")[1]
    return te.compute(shape, lambda *i: a(1, *i) * 2 + 1, name="P")


def tried(seed: int, tails: tuple[str, ...] = TAILS) -> int:
    """A producer in the loops of one that was split and fused, which maybe reduces; gives how many loops are shared."""
    rng = random.Random(seed)
    numbers = [rng.randint(1, 7), rng.randint(1, 4)]
    shape: list[Any] = list(numbers)
    if seed % 3 == 0:
        shape[seed % 2] = te.var("n")
    a = te.placeholder([3, *shape], name="A", dtype="int32")
    kind, reduces = rng.choice(KINDS), rng.random() < 0.4
    p = produced(kind, a, shape)
    q = te.compute(shape, lambda *i: p(*i) * 2, name="Q") if rng.random() < 0.5 else p
    r = te.reduce_axis((0, shape[1]), "k")
    if reduces:
        t = te.compute(shape[:1], lambda i: te.sum(q[i, r], axis=r), name="T")
    else:
        t = te.compute(shape, lambda *i: q(*i) - 3, name="T")
    u = te.compute(shape, lambda *i: q(*i) + 5, name="U")
    s = te.create_schedule([t.op, u.op] if rng.random() < 0.5 else t.op)
    for _ in range(rng.randint(1, 4)):
        leaves = s[t].leaf_iter_vars
        if rng.random() < 0.25 and len(leaves) > 1:
            k = rng.randrange(len(leaves) - 1)
            s[t].fuse(*leaves[k : k + 2])
        else:
            tail = rng.choice(tails[:3] if reduces else tails)
            s[t].split(rng.choice(leaves), tail=tail, **{rng.choice(("factor", "nparts")): rng.randint(1, 6)})
    replay.compute_at(s, p, t, rng.randint(1, len(s[t].leaf_iter_vars)), rng.choice(MODES[1:]))
    array = np.random.default_rng(seed).integers(-9, 9, [3, *numbers]).astype("int32")
    f = lower(s, compute=rng.choice(("auto", "exact", "box")), nests="auto", compact=rng.random() < 0.3)
    wanted = {x.name: evaluate(x, {"A": array}) for x in (t, u) if x in s}
    found = {name: np.full(w.shape, 77, "int32") for name, w in wanted.items()}
    run(f, {"A": array, **found})
    for name, w in wanted.items():
        np.testing.assert_array_equal(found[name], w, f"{seed}\n{f}")
    b = infer_bound(s)
    assert all(b.required(x) <= b.computed(x) for x in (p, t)), seed
    return s[p].compute_at_position


@pytest.mark.parametrize(
    ("seeds", "least"), daily([(range(10), 11), *((range(k, k + 1000), 1001) for k in range(1000, 4000, 1000))], 9)
)
def test_loops_that_overshoot(seeds: range, least: int) -> None:
    assert sum(tried(seed) for seed in seeds) >= least


@pytest.mark.parametrize(("kind", "tail"), product(KINDS, ("guard", "round_up")))
def test_more_parts_than_elements(kind: str, tail: str):
    """Three parts of two elements: a loop of three iterations reads nothing beyond the second."""
    a = te.placeholder((3, 2, 4), name="A", dtype="int32")
    p = produced(kind, a, [2, 4])
    t = te.compute((2, 4), lambda i, j: p[i, j] * 2, name="T")
    s = te.create_schedule(t.op)
    s[t].split(t.op.axis[0], nparts=3, tail=tail)
    assert replay.compute_at(s, p, t, 2).position == 2
    assert infer_bound(s).outside == ()
    assert "for i0.outer in [0, 2)" in str(lower(s)) or "for i.outer in [0, 2)" in str(lower(s))

"""Nests of shared loops whose tiles do not fit: every tail, no guard that can be removed, and their C."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, replay, te, tir
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset.expr.evaluate import evaluate as evaluate_index
from lowering import lower, run, to_c
from lowering.forms import NESTS
from tests.bound.reference import evaluate
from tests.bound.replay.programs import given, two_reductions
from tests.bound.replay.random_dags import MODES, Dag
from tests.lowering.lowered import compile_c
from tests.strategies.written import broadcast, over, pointwise, reduced
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


SIZES = [(n, m) for n in (0, 1, 2, 3, 4, 5, 7) for m in (1, 2, 3, 6)]
MOST = 30_000  # iterations that are looked at


def iterations(loops: list[Any], point: dict[Any, int]) -> Iterator[dict[Any, int]]:
    """The values of loops, one inside another."""
    if not loops:
        yield point
        return
    iv, limits = loops[0]
    low = int(evaluate_index(limits.min, point))
    for value in range(low, low + int(evaluate_index(limits.extent, point))):
        point[iv] = value
        yield from iterations(loops[1:], point)
    point.pop(iv, None)


def guards_that_are_needed(seed: int, calls: int = 2) -> int:
    """Count guards; check that each of them alone excludes some iteration."""
    d = Dag(seed, 8, symbolic=seed % 3 == 0)
    s = d.schedule()
    d.transform(s, 5)
    for _ in range(calls):
        d.call(s)
    b = infer_bound(s)
    names = sorted({v for e in d.tensors[0].extents for v in e.free_vars()}, key=lambda v: v.name)
    sizes = [dict(zip(names, pair, strict=False)) for pair in SIZES] if names else [{}]
    seen = 0
    for stage in b.schedule.stages:
        guards = b.nest(stage).guards if b.is_computed(stage) else ()
        around = [(iv, b[iv]) for _, iv in reversed(b.attach_path(stage))]
        loops = around + [(loop.iv, loop.range) for loop in b.nest(stage).loops] if guards else []
        needed: set[int] = set()
        looked = 0
        for at in sizes:
            for point in iterations(loops, dict(at)) if len(needed) < len(guards) and looked < MOST else ():
                fails = [k for k, guard in enumerate(guards) if not evaluate_index(guard, point)]
                needed |= set(fails) if len(fails) == 1 else set()
                looked += 1
        assert len(needed) == len(guards) or looked >= MOST, (seed, stage, guards)
        seen += len(guards)
    return seen


@pytest.mark.parametrize(
    ("seeds", "least"),
    daily([((*range(8), 5298, 6186, 7074), 5), *((range(k, k + 500), 151) for k in range(5000, 8000, 500))], 9),
)
def test_no_guard_can_be_removed(seeds, least):
    assert sum(guards_that_are_needed(seed) for seed in seeds) >= least


WAYS = [
    {"compute": compute, "nests": nests, "compact": compact}
    for compute, nests, compact in product(("auto", "exact", "box"), NESTS, (False, True))
]
A = np.linspace(-3, 5, 72, dtype="float32").reshape(8, 9)


def two() -> tuple[Schedule, list[Tensor]]:
    s, ts = two_reductions()
    replay.compute_at(s, ts[0], ts[1], -1, "best_effort")
    return s, [ts[3]]


def softmax() -> tuple[Schedule, list[Tensor]]:
    t0 = given(8, 9)
    t3 = over("T3", t0, broadcast("T2", reduced("T1", t0, by=te.max), 1))
    t6 = over("T6", t3, broadcast("T5", reduced("T4", t3), 1))
    s = te.create_schedule(t6.op)
    s[t6].split(t6.op.axis[0], 3)
    replay.propagate(s, t6)
    replay.inline_most(s)
    return s, [t6]


def longer() -> tuple[Schedule, list[Tensor]]:
    """A stage in loops longer than its own, outputs that share loops, guards."""
    t1 = pointwise("T1", given(8, 9))
    t2 = pointwise("T2", t1)
    t3 = broadcast("T3", t1, 1)
    t4 = te.compute((8, 5, 9), lambda i, j, k: t3[i, 0, k] + j, name="T4")
    s = te.create_schedule([t2.op, t1.op, t4.op])
    s[t4].split(s[t4].fuse(*t4.op.axis[:2]), 3)
    replay.compute_at(s, t1, t4, 2)
    return s, [t1, t2, t4]


def tuples() -> tuple[Schedule, list[Tensor]]:
    """Two results of one operation, and of one reduction."""
    t0 = given(8, 9)
    a, b = te.compute((8, 9), lambda i, j: (t0[i, j] + 1, t0[i, j] * 2), name="P")
    most = te.comm_reducer(
        lambda x, y: (tir.Select(x[0] >= y[0], x[0], y[0]), x[1] + y[1]),
        lambda p, q: (te.min_value(p), tir.const(0, q)),
        name="most",
    )
    r = te.reduce_axis((0, 9), "r")
    m, t = te.compute((8,), lambda i: most((a[i, r], b[i, r]), axis=r), name="M")
    out = te.compute((8,), lambda i: m[i] + t[i], name="O")
    s = te.create_schedule([out.op, b.op])
    replay.compute_at(s, a, m, -1, "best_effort")
    replay.inline_most(s)
    return s, [out, b, a]


def drawn(step: int) -> list[tuple[Schedule, list[Tensor], dict[str, Any], dict[str, Any]]]:
    """Random programs, each in one way; with what is given and the sizes."""
    found = []
    for seed in range(0, 24, step):
        d = Dag.wide(seed) if seed % 4 else Dag(seed, 5, symbolic=seed % 3 == 0)
        s = d.schedule()
        d.transform(s, 3)
        replay.inline_most(s)
        numbers = dict(zip(d.tensors[0].extents, d.input.shape, strict=True))
        sizes = {v.name: n for v, n in numbers.items() if not v.is_const}
        found.append((s, list(d.wanted), {"A": d.input}, sizes))
    return found


def entered(functions: list[Any], *more: Any, s: Schedule, **how: Any) -> None:
    """One more function, if its body is new."""
    f = lower(s.copy(), name=f"f{len(functions)}", **how)
    text = to_c(f)
    body = text[text.index("\nint ") :].replace(f.name, "f")
    if all(body != other for _, other, *_ in functions):
        functions.append((f, body, text, *more))


@pytest.mark.parametrize("share", daily([2, 1], 2))
def test_c_of_shared_loops(share: int) -> None:
    functions: list[Any] = []
    for k, program in enumerate((two, softmax, longer, tuples)):
        s, outputs = program()
        for way in WAYS[k :: 4 * share]:
            entered(functions, outputs, {"T0": A}, {}, s, s=s, **way)
    for k, (s, outputs, arrays, sizes) in enumerate(drawn(1 + 2 * share)):
        entered(functions, outputs, arrays, sizes, s, s=s, **WAYS[k * 5 % len(WAYS)])
    library = ctypes.CDLL(str(compile_c("\n".join(text for _, _, text, *_ in functions))))
    for f, _, text, outputs, arrays, sizes, s in functions:
        wanted = {s.current(t).name: evaluate(t, arrays) for t in outputs}
        found = {t.name: np.full(wanted[t.name].shape, 77, t.dtype) for t in f.outputs}
        index = ctypes.c_int64 if "int64_t " in text.split("{")[0] else ctypes.c_int32
        args: list[Any] = [{**arrays, **found}[t.name].ctypes.data_as(ctypes.c_void_p) for t in f.params]
        assert getattr(library, f.name)(*args, *(index(sizes[v.name]) for v in f.sizes)) == 0
        for name, array in wanted.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, err_msg=text)
    assert len(functions) > 16 // share


@pytest.mark.parametrize("program", [longer, tuples])
def test_run_compiles_it(program):
    s, outputs = program()
    wanted = {t.name: evaluate(t, {"T0": A}) for t in outputs}
    found = {name: np.zeros_like(array) for name, array in wanted.items()}
    run(lower(s), {"T0": A, **found}, backend="c")
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5)


def test_a_place_that_only_an_allocation_depends_on_is_no_parameter():
    """M is allocated at [i, j], but its computation does not use i; C compilers warn of unused parameters."""
    n = te.var("n")
    a = te.placeholder((n, 2, n), name="A")
    t = te.compute((n, 2, n), lambda i, q, j: a[i, q, j] * 2, name="T")
    m = reduced("M", t, 1, by=te.max)
    c = pointwise("C", m)
    u = te.compute((n, 2, n), lambda i, q, j: t[i, q, j] - c[i, j], name="U")
    s = te.create_schedule(u.op)
    replay.compute_at(s, t, u, 1)
    replay.inline_at(s, m, 2)
    compile_c(to_c(lower(s)))

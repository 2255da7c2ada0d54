"""Flat storage: runs of flattened tensors, random schedules in the manner of nvFuser's flattened tiles."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import pytest

from bound import infer_bound, replay, te
from bound.errors import ScheduleError
from bound.infer import BoundsMap, Storage
from bound.infer.phases import infer_root_bound as phase
from bound.infer.phases.infer_root_bound import own_propagation
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import ShapeVar
from intset.expr.evaluate import evaluate
from intset.expr.node import Var, as_expr
from lowering import lower
from lowering.cli.inputs import ScriptSchedule
from lowering.cli.plot import picture_of
from lowering.cli.reports import schedule_bounds
from tests.bound.oracle import check_claims, check_places
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.written import Written
from tests.sweeps import daily, turned


def flattened(shape: tuple[Any, ...], *factors: int, pos: int = 1, **options: Any) -> tuple[Schedule, Tensor, Tensor]:
    """A pointwise chain whose loops are fused and split again, the producer at a position of the consumer's loops."""
    A = te.placeholder(shape, name="A", dtype="int32")
    P = te.compute(shape, lambda *i: A[i] * 3, name="P")
    C = te.compute(shape, lambda *i: P[i] + 1, name="C")
    s = te.create_schedule(C.op)
    outer = s[C].fuse(*s[C].leaf_iter_vars)
    for factor in factors:
        outer, _ = s[C].split(outer, factor, **options)
    replay.compute_at(s, P, C, pos)
    return s, P, C


def extents(storage: Storage) -> list[str]:
    return [str(r.extent) for r in storage.ranges]


# -- by name ----------------------------------------------------------------------------------------------------------

NAMED = {
    "nvFuser's tiles": ((129, 127, 63, 65), (128, 4), 1, ["512", "1", "1", "1"]),
    "their inner loop": ((129, 127, 63, 65), (128, 4), 2, ["128", "1", "1", "1"]),
    "small ones": ((12, 11, 10, 9), (8, 4), 1, ["32", "1", "1", "1"]),
    "tiny ones": ((3, 2, 5, 4), (3, 5), 1, ["15", "1", "1", "1"]),
    "whole rows": ((12, 8), (8,), 1, ["1", "8"]),
    "most of the rows it meets": ((40, 5), (64,), 1, ["64", "1"]),
    "all of it": ((4, 5), (20,), 1, ["4", "5"]),
    "one row": ((1, 20), (6,), 1, ["1", "6"]),
}


@pytest.mark.parametrize(("name", "compute"), turned(NAMED, ["exact", "box"], 2))
def test_an_iteration_keeps_its_run_of_the_tensor(name: str, compute: str) -> None:
    shape, factors, pos, expected = NAMED[name]
    s, P, _ = flattened(shape, *factors, pos=pos)
    b = infer_bound(s, compute=compute)
    assert extents(b.storage(P)) == expected
    assert not any("// " in str(g) or "%" in str(g) for g in b.guard(P))  # no guards of the region
    if prod(shape) < 1000:
        places_are_right(b)
        check(s, bounds=b)


RUNS = [
    ((129, 127, 63, 65), 1, lambda n: min(128 * n, 67_088_385)),
    ((129, 127, 63, 65), 2, lambda n: 128),
    ((12, 11, 10, 9), 3, lambda n: 1),
    ((12, 11, 10, 9), 1, lambda n: min(128 * n, 11_880)),
]


@pytest.mark.parametrize(("shape", "pos", "places"), daily(RUNS, 2))
def test_runs_of_unknown_length_have_leaf_extents(shape: Any, pos: int, places: Callable[[int], int]) -> None:
    """nvFuser's flattened tiles: the storage covers the leaves below the position, for symbolic sizes as for
    numbers."""
    t = ShapeVar("t", lower=1)
    s, P, _ = flattened(shape, 128, t, pos=pos)
    symbolic = [as_expr(r.extent) for r in infer_bound(s).storage(P).ranges]
    for n in (1, 4, 100):
        assert prod(evaluate(e, {t: n}) for e in symbolic) == places(n)
    schedule, tensor, _ = flattened(shape, 128, 4, pos=pos)
    assert prod(int(e) for e in extents(infer_bound(schedule).storage(tensor))) == places(4)


def test_the_places_of_a_run_are_its_loops() -> None:
    s, _, _ = flattened((12, 11, 10, 9), 8, 4)
    text = str(check(s)).replace("i0.i1.fused.i2.fused.i3.fused.", "")
    assert "allocate P: int32[32, 1, 1, 1] at [outer.outer * 32, 0, 0, 0]" in text
    assert "P[outer.inner * 8 + inner, 0, 0, 0] = A[" in text
    assert "= P[outer.inner * 8 + inner, 0, 0, 0] + 1" in text
    assert "if" not in text


FUSED = """
        A = given({}, {}, dtype="int32"); P = pointwise(A); C = pointwise(P)
        C fuse i0 i1"""


def test_boxes_without_shared_loops_ask_nothing_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(phase, "own_propagation", lambda *a: asked.append(a) or own_propagation(*a))
    s = Written(f"{FUSED.format(6, 4)}; C split i0.i1.fused 4; P compute_at C i0.i1.fused.outer; P fuse i0 i1").s
    infer_bound(s)
    assert not asked
    infer_bound(flattened((6, 4), 4)[0])
    assert asked


def test_a_box_that_shared_loops_compute_less_than_is_not_exact() -> None:
    p = Written(f"""{FUSED.format(5, 4)}; C split i0.i1.fused 6; C split i0.i1.fused.inner 2
        C reorder i0.i1.fused.outer i0.i1.fused.inner.inner i0.i1.fused.inner.outer""")
    s, P, C = p("s P C")
    replay.compute_at(s, P, C, 2)
    b = infer_bound(s, compute="box")
    assert not b.computed(P).is_exact and infer_bound(s).computed(P).is_exact
    places_are_right(b)
    check(s, bounds=b)
    s, P = Written("""
        A = given(13, 9, dtype="int32"); P = pointwise(A)
        C[i:12, j:9] = P[i, j] + P[i + 1, j]
        C fuse i j; C split i.j.fused 4; P compute_at C i.j.fused.outer""")("s P")
    b = infer_bound(s, compact=True)
    assert extents(b.storage(P)) == ["13", "1"]  # 4 elements, and 4 a row of 9 later
    places_are_right(b)
    check_c(check(s, bounds=b), s)
    assert extents(infer_bound(s).storage(P)) == ["3", "9"]


def test_answers_reports_and_pictures_tell_of_flat_storage() -> None:
    s, P, _ = flattened((7, 5), 4)
    b = infer_bound(s)
    storage = b.storage(P)
    assert storage.is_flat and not storage.is_plain and not storage.is_separable and not storage.is_identity
    assert storage.flat is not None and storage.flat.dims == (0, 1)
    assert [str(r.min) for r in b.allocated(P)] == ["i0.i1.fused.outer * 4", "0"]
    assert "stored in 4 from" in b.explain(P) and "axes 0 and 1 of the tensor as one" in b.explain(P)
    (loop,) = (iv for iv in storage.ranges[0].min.free_vars())
    moved = storage.at({loop: Var("other")})
    assert "other * 4" in repr(moved) and moved.flat == storage.flat
    again = pickle.loads(pickle.dumps(storage))
    assert repr(again) == repr(storage) and again.flat == storage.flat
    s, *_ = flattened((7, 5), 4)
    stages = {stage["stage"]: stage for stage in schedule_bounds(s, {}, None, False)["stages"]}
    (tensor,) = stages["P"]["tensors"]
    assert tensor["flat_axes"] == [0, 1] and tensor["allocated_elements"] == 4
    assert stages["C"]["tensors"][0]["flat_axes"] == []
    shown = picture_of(ScriptSchedule("s", s), {}, ("auto",), stage="P", instance={"C.i0.i1.fused.outer": 1})
    (panel,) = shown.panels
    assert shown.axes == ("i0", "i1") and panel.box == panel.required.box == ((0, 2), (0, 5))


# -- random schedules -------------------------------------------------------------------------------------------------


def places_are_right(b: BoundsMap, sizes: Mapping[Var, int] | None = None) -> set[str]:
    """Check places by a run, and that regions that claim to be exact are what happened; gives names of flat storage."""
    done = check_places(b, sizes)
    check_claims(b, sizes, done, counts=False)
    return {t.name for stage in done.nests for t in stage.op.outputs if b.storage(t).is_flat}


def drawn(seed: int) -> tuple[Schedule, dict[str, int]]:
    """A chain of stages, fused in some order and split, producers attached by replay or by hand; and its sizes."""
    rng = random.Random(seed)
    dims = rng.choice((2, 2, 3, 4))
    numbers = [rng.randint(1, 4) if dims == 4 else rng.randint(2, 7) for _ in range(dims)]
    shape: list[Any] = list(numbers)
    sizes = {}
    if rng.random() < 0.25:
        for k in rng.sample(range(dims), rng.randint(1, dims)):
            shape[k], sizes[f"n{k}"] = te.size_var(f"n{k}"), numbers[k]
    chain = [te.placeholder([e + 1 for e in shape], name="A", dtype="int32")]
    for name in rng.choice(("PC", "PC", "PQC")):
        kind = rng.choice(("point", "point", "below", "reversed", "sum", "both"))
        chain.append(te.compute(shape, _reads(rng, kind, chain, shape), name=name))
    s = te.create_schedule(chain[-1].op)
    _tile(rng, s, chain[-1])
    for t in chain[-2:0:-1]:
        try:
            if rng.random() < 0.65:
                replay.compute_at(s, t, chain[-1], rng.randint(0, len(s[chain[-1]].leaf_iter_vars)))
            else:
                if rng.random() < 0.3:
                    _tile(rng, s, t)
                reader = next(r for r in chain if t in r.op.input_tensors)
                s[t].compute_at(s[reader], rng.choice(s[reader].leaf_iter_vars))
        except ScheduleError:
            pass  # it stays at the root
    return s, sizes


def _reads(rng: random.Random, kind: str, chain: list[Tensor], shape: list[Any]) -> Callable[..., Any]:
    """The formula of the next stage of a chain."""
    t, first, r = chain[-1], chain[-2 if len(chain) > 2 else -1], te.reduce_axis((0, 2), "r")
    d = rng.randrange(len(shape)) if kind in ("below", "reversed", "sum") else 0

    def at(i: Any, e: Any) -> Any:
        return t(*i[:d], e, *i[d + 1 :])

    return {
        "point": lambda *i: t(*i) * 3,
        "below": lambda *i: t(*i) + te.if_then_else(i[d] + 1 < shape[d], at(i, i[d] + 1), 0),
        "reversed": lambda *i: at(i, shape[d] - 1 - i[d]),
        "sum": lambda *i: te.sum(at(i, (i[d] + r) % shape[d]), axis=r),
        "both": lambda *i: first(*i) + t(*i) * 2,
    }[kind]


def _tile(rng: random.Random, s: Schedule, t: Tensor) -> None:
    """Fuse some adjacent data axes of a stage, in any order, and split by one or two factors."""
    stage, data = s[t], list(t.op.axis)
    n = rng.randint(1, len(data)) if rng.random() < 0.15 else rng.randint(min(2, len(data)), len(data))
    first = rng.randint(0, len(data) - n)
    group = data[first : first + n]
    if rng.random() < 0.25:
        rng.shuffle(group)
        stage.reorder(*data[:first], *group, *data[first + n :], *t.op.reduce_axis)
    axis = stage.fuse(*group) if len(group) > 1 else group[0]
    options = rng.choice(({}, {}, {"tail": "shrink"}, {"tail": "round_up"}, {"tail": "shift_inwards"}))
    for _ in range(rng.choice((1, 2))):
        axis = rng.choice(stage.split(axis, rng.choice((2, 3, 4, 5, 8)), **options))


AT_NIGHT = [range(first, first + 20) for first in range(0, 2000, 20)]


@pytest.mark.parametrize("seeds", daily([range(14, 19), *AT_NIGHT], 200))
def test_random_tiles(seeds: range) -> None:
    flat = 0
    for seed in seeds:
        s, sizes = drawn(seed)
        rng = random.Random(-1 - seed)
        compute, compact = rng.choice(("exact", "exact", "box")), rng.random() < 0.5
        try:
            b = infer_bound(s, compute=compute, compact=compact)
        except ScheduleError:
            continue
        flat += bool(places_are_right(b, {v: sizes[v.name] for v in b.size_variables}))
        check(s, sizes, bounds=b)
        if seed == seeds[0]:
            check_c(check(s, sizes), s, sizes, sanitize=True)
    assert flat


@pytest.mark.parametrize(
    ("seeds", "in_c"),
    [
        *daily([(range(6, 9), 1), *((seeds, 1) for seeds in AT_NIGHT)], 200),
        # the C of the second one has constants beyond 64 bits where it is split by the signs of dividends
        pytest.param((10117, 20113), 2, marks=pytest.mark.nightly),
    ],
)
def test_random_tiles_of_empty_tensors(seeds: Sequence[int], in_c: int) -> None:
    """A nest divides by the sizes of fused axes, and one size may be 0: it runs, and does nothing."""
    ran = 0
    for seed in seeds:
        s, sizes = drawn(seed)
        if not sizes:
            continue
        try:
            f = lower(s)
        except ScheduleError:
            continue
        ran += 1
        for at in (sizes, *({**sizes, name: 0} for name in sizes), dict.fromkeys(sizes, 0)):
            check_run(f, s, at)
            if ran <= in_c:
                check_c(f, s, at, sanitize=True)
    assert ran >= in_c

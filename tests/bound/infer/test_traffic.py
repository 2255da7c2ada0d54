"""Traffic of tensors, against runs of the nests that record what each instance loads and stores."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest

from bound import infer_bound, te
from bound.infer import BoundsMap
from bound.schedule import Split, Stage
from bound.schedule.relations import Tail
from bound.tensor import Tensor
from intset import ShapeVar
from intset.errors import CountError, InputError, UndefinedError
from intset.expr.evaluate import evaluate
from lowering import lower
from tests.bound.oracle import Point, Run
from tests.lowering.build.test_sliding import stores
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, sampled


class TrafficRun(Run):
    """A run that records the elements that each instance of each consumer loads."""

    def __init__(self, b: BoundsMap, sizes: Any = None) -> None:
        self.loaded: dict[Tensor, set[tuple[Any, ...]]] = defaultdict(set)
        super().__init__(b, sizes)

    def body(self, stage: Stage, nest: Any) -> None:
        self.consumer = stage
        super().body(stage, nest)

    def read(self, tensor: Tensor, point: Point) -> None:
        super().read(tensor, point)
        stage, consumer = self.b.stage(tensor), self.consumer
        inner = stage if len(self.b.attach_path(stage)) > len(self.b.attach_path(consumer)) else consumer
        self.loaded[tensor].add((consumer, self.instance(inner), point))


def check(b: BoundsMap, sizes: Any = None) -> set[str]:
    """Compare the traffic of every tensor with a run; gives which claims were exact."""
    run, seen, is_exact = TrafficRun(b, sizes), set(), True
    for stage in run.fixed:  # inputs too
        is_exact = is_exact and not any(b.required(t).notes for t in stage.op.outputs)
    for stage in b.schedule.stages:
        if stage not in run.fixed:
            continue
        for tensor in stage.op.outputs:
            try:
                loads, stores = (int(evaluate(b.traffic(tensor, only), sizes or {})) for only in ("loads", "stores"))
                both = int(evaluate(b.traffic(tensor), sizes or {}))
            except CountError:
                continue
            assert both == loads + stores
            loaded, stored = len(run.loaded[tensor]), sum(map(len, run.seen[tensor].computed.values()))
            assert loads >= loaded and stores >= stored
            if is_exact:
                assert (loads, stores) == (loaded, stored), (tensor, loads, loaded, stores, stored)
                seen.add("exact")
    return seen


@sampled(25, 3000, programs(also="caches others"), shows={"exact"})
def test_loads_and_stores_of_drawn_schedules(program: Program) -> set[str]:
    b = program.inferred()
    return set() if b is None else check(b)


@sampled(6, 800, programs(also="caches threads stored"), shows={"exact"})
def test_blocks_of_threads_and_windows(program: Program) -> set[str]:
    b = program.inferred()
    return set() if b is None else check(b)


@sampled(4, 300, programs(symbolic=True, most=3), shows={"exact"})
def test_loads_and_stores_over_sizes(program: Program) -> set[str]:
    b = program.inferred()
    return set() if b is None else set().union(*(check(b, program.values(sizes)) for sizes in program.choices[:2]))


@sampled(3, 300, programs(also="tiles caches", most=2), shows={"exact", "nest"})
def test_traffic_of_symbolic_tiles_is_that_of_their_nest(program: Program) -> set[str]:
    b = program.inferred()
    if b is None:
        return set()
    f, shown = lower(program.schedule, bounds=b, nests="guard"), set()
    recomputed = {
        s for s in b.schedule.stages if any(isinstance(r, Split) and r.tail is Tail.SHIFT_INWARDS for r in s.relations)
    }
    for sizes in map(program.values, program.choices[:2]):
        shown |= check(b, sizes)
        stored = stores(f, sizes)
        for stage in b.schedule.stages:
            if stage in recomputed or not b.is_computed(stage) or stage.op.reduction is not None:
                continue
            with suppress(CountError):
                tensor = stage.op.outputs[0]
                assert evaluate(b.traffic(tensor, "stores"), sizes) >= stored[tensor.name], (tensor, sizes, f)
                shown.add("nest")
    return shown


@pytest.mark.parametrize("seed", daily([216, 226], 2))
def test_regions_that_are_affine_at_no_size_are_counted_point_by_point(seed: int) -> None:
    program = Program(seed, also="tiles caches", most=3)
    b = program.inferred()
    assert b is not None
    for sizes in program.choices[:2]:
        check(b, program.values(sizes))


@pytest.mark.parametrize("u", daily([3, ShapeVar("u")], 2), ids=str)
def test_traffic_counts_the_box_that_a_nest_over_symbolic_tiles_copies(u: int | ShapeVar) -> None:
    """Stores are those of the nest; loads of the source are counted by its box, at least as many."""
    source = te.placeholder((15,), name="I")
    mid = te.compute((13,), lambda a: source[a // 2] + source[a // 2 + 8], name="S1")
    out = te.compute((18,), lambda a: mid[a // 2 + 1] + mid[a // 2 + 4], name="S0")
    t = ShapeVar("t")
    s = te.create_schedule(out.op)
    copy = s.cache_read(source, "local", [mid])
    _, inner = s[out].split(s[out].op.axis[0], factor=t)
    at, _ = s[out].split(inner, nparts=u)
    s[mid].compute_at(s[out], at)
    s[copy].compute_at(s[out], at)
    b = infer_bound(s)
    f = lower(s, bounds=b, nests="guard")
    for tile, parts in ((2, 8), (5, 3), (18, 1)):
        sizes = {t: tile, u: parts} if isinstance(u, ShapeVar) else {t: tile}
        stored = stores(f, sizes)["I.local"]
        assert stored == evaluate(b.traffic(copy, "stores"), sizes) <= evaluate(b.traffic(source, "loads"), sizes)
    with pytest.raises(UndefinedError):
        evaluate(b.traffic(copy, "stores"), {**sizes, t: 0})


def stencil(t: Any) -> tuple[BoundsMap, list[Tensor]]:
    a = te.placeholder((58,), name="A")
    p = te.compute((58,), lambda i: a[i] + 1.0, name="P")
    c = te.compute((56,), lambda i: p[i] + p[i + 1] + p[i + 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], factor=t)
    s[p].compute_at(s[c], outer)
    return infer_bound(s), [a, p, c]


def test_tiles_load_their_borders_again() -> None:
    t = ShapeVar("t")
    b, (a, p, c) = stencil(t)
    for size in (1, 5, 14, 56, 90):
        expected = sum(min(size + 2, 58 - start) for start in range(0, 56, size))
        assert evaluate(b.traffic(p, "loads"), {t: size}) == expected
        assert evaluate(b.traffic(p, "stores"), {t: size}) == expected
        assert evaluate(b.traffic(a), {t: size}) == expected  # each tile of P loads its elements of A
        numeric, tensors = stencil(size)
        assert [int(numeric.traffic(x)) for x in tensors] == [expected, 2 * expected, 56]
    assert int(b.traffic(c, "loads")) == 0 and int(b.traffic(a, "stores")) == 0


def test_a_kind_of_traffic_that_is_none_is_refused() -> None:
    b, (a, _, _) = stencil(4)
    with pytest.raises(InputError, match=r"^traffic counts 'loads', 'stores' or, with None, both, not 'load'$"):
        b.traffic(a, "load")

"""Every schedule of the corpus with tiles of unknown size: one split at a time, then all together."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from benchmarks.tiles import Compared, compared, drawn, inferred, names, tiled, written
from bound import infer_bound
from bound.errors import ScheduleError
from bound.infer import BoundsMap
from bound.infer.accesses import accesses
from bound.operation import ComputeOp, PlaceholderOp
from bound.schedule import AttachType
from intset.errors import CountError
from intset.expr.dag import opaque_terms
from lowering import lower
from tests.bound.oracle import check
from tests.lowering.lowered import check_run
from tests.sweeps import daily


@pytest.mark.parametrize(("every", "seeds", "share"), daily([(17, 3, 0.9), (1, 16, 0.95)], 2))
def test_answers_are_those_at_numbers(every: int, seeds: int, share: float) -> None:
    """In most regions, counts and storage included; no region lacks elements or leaves the box of all tiles."""
    total = Compared()
    for name in names()[::every]:
        for case in tiled(name):
            total.add(compared(case, range(seeds)) or Compared())
    assert not total.unsound and not total.looser
    assert total.regions > 20 * seeds and total.equal >= share * total.regions


@pytest.mark.parametrize("name", daily(names(), 20))
def test_loops_compute_what_they_read(name: str) -> None:
    """The loops of symbolic tiles, run at sizes, beside the regions and the storage that were inferred."""
    for case in tiled(name):
        b, _ = inferred(case)
        if isinstance(b, BoundsMap) and is_executable(b):
            for seed in range(6):
                with suppress(ScheduleError):  # refused at these sizes
                    b.at(drawn(case, seed))
                    check(b, drawn(case, seed), exact=False)


def is_executable(b: BoundsMap) -> bool:
    """Whether the reference run knows all operations, and no index is read from a tensor."""
    ops = [stage.op for stage in b.schedule.stages]
    indices = [e for op in ops for access in accesses(op) for e in access.indices]
    return all(isinstance(op, (ComputeOp, PlaceholderOp)) for op in ops) and not opaque_terms(*indices)


def answers(b: BoundsMap) -> list[object]:
    """What an inference says of all tensors and nests, in comparable form."""
    said: list[object] = [str(b.outside)]
    for stage in b.schedule.stages:
        if stage.attach_type is AttachType.INLINED_ALREADY:
            continue
        for tensor in stage.op.outputs:
            for region in (b.required(tensor), b.computed(tensor)):
                said += [str(region), str(region.box), region.is_exact, region.is_tight, region.is_empty, region.notes]
                said += [count_of(region.count_max), count_of(region.count_total)]
            said += [tensor.name, str(b.allocated(tensor)), str(b.storage(tensor))]
        if not isinstance(stage.op, PlaceholderOp):
            nest = b.nest(stage)
            said += [(loop.iv.name, str(loop.range), loop.kind) for loop in nest.loops]
            said += [[str(guard) for guard in nest.guards], [str(e) for e in nest.values.values()]]
    return said


def count_of(count: Callable[[], object]) -> str:
    try:
        return str(count())
    except CountError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("name", daily(names(), 20))
def test_at_gives_the_inference_with_numbers(name: str) -> None:
    for case in tiled(name):
        b, _ = inferred(case)
        if not isinstance(b, BoundsMap):
            continue
        for seed in range(4):
            values = drawn(case, seed)
            try:
                numeric = infer_bound(written(case, values), at=case.sizes or None)
            except ScheduleError:
                with pytest.raises(ScheduleError):
                    b.at(values)
                continue
            assert answers(b.at(values)) == answers(numeric)
            assert answers(b.at({t.name: n for t, n in values.items()})) == answers(numeric)


@pytest.mark.parametrize("name", daily(names(), 20))
def test_nests_of_symbolic_tiles_run(name: str) -> None:
    for case in tiled(name):
        try:
            f = lower(case.schedule)
        except ScheduleError:
            continue
        for seed in range(5):
            values = drawn(case, seed)
            try:
                infer_bound(case.schedule, at={**case.sizes, **values})
            except ScheduleError:  # refused at these sizes
                continue
            check_run(f, case.schedule, {**case.sizes, **{t.name: n for t, n in values.items()}})

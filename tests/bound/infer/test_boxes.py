"""A second implementation of regions outside the package, unions of boxes, through InferBound.

Guarantee under test: sound everywhere, exact for unions of at most eight strided boxes an instance.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bound import infer_bound, te
from examples.boxes.intset_boxes import Boxes
from intset.domains.registry import domain_named, regions_of, register, strongest, unregister
from tests.bound.corpus import CASES, can_run
from tests.bound.infer.test_corpus import ANSWERED, bounds_of, check_figures, figures
from tests.bound.oracle import check
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, sampled

# The number of parts decides the length of a tile, so that another form of the same ends cuts into other instances.
OTHER_INSTANCES = {"crash_schedule_ops_handle"}
SLOW = {"flatten_split_nondiv5", "crash_schedule_ops_handle", "group_conv_f2", "pad_edge_clamp"}


@pytest.fixture(autouse=True)
def boxes() -> Iterator[None]:
    register(Boxes)
    yield
    unregister("boxes")


def cases() -> list[object]:
    quick = [name for name in ANSWERED if name not in SLOW]
    return [*daily(quick, 8), *(pytest.param(name, marks=pytest.mark.nightly) for name in sorted(SLOW))]


@pytest.mark.parametrize("name", cases())
def test_exactly_what_is_needed(name: str) -> None:
    b = bounds_of(name, domain="boxes")
    if name not in OTHER_INSTANCES:
        check_figures(name, b)
    for tensor, row in figures(name, b.schedule):
        assert b.required(tensor).is_exact, tensor.name
        assert b.required(tensor).count_total() == row["exact"]["count_total"] == b.computed(tensor).count_total()


@pytest.mark.parametrize("name", daily(sorted({*ANSWERED} - SLOW)[::2], 12))
def test_the_nests_do_what_is_said_of_them(name: str) -> None:
    if can_run(CASES[name]["fn"]()):
        check(bounds_of(name, domain="boxes"))


@sampled(5, 40, programs(most=3))
def test_random_programs(program: Program) -> None:
    register(Boxes)
    check(infer_bound(program.schedule, domain="boxes"), exact=False)


@pytest.mark.parametrize("domain", ["boxes", "boxes*modular", "interval*boxes"])
def test_corners_of_a_square_are_eight_elements(domain: str) -> None:
    """`T[0:2, 0:2]` and `T[2:4, 2:4]`, as in the InferBound document."""
    a = te.placeholder((4, 4), name="A")
    t = te.compute((4, 4), lambda i, j: a[i, j] + 1, name="T")
    c = te.compute((2, 2), lambda i, j: t[i, j] + t[i + 2, j + 2], name="C")
    b = infer_bound(te.create_schedule(c.op), domain=domain)
    required = b.required(t)
    assert [str(r.extent) for r in b.allocated(t)] == ["4", "4"]
    assert (required.count(), required.count_max(), required.count_total()) == (8, 8, 8)
    assert required.is_exact and not required.is_box and required.by == "boxes"


def test_auto_climbs_to_boxes_where_they_are_the_strongest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert strongest() is not domain_named("boxes") is regions_of("boxes*modular")
    monkeypatch.setattr(Boxes, "strength", 200)
    register(Boxes)
    assert strongest() is domain_named("boxes") is regions_of("auto")
    test_corners_of_a_square_are_eight_elements("auto")

"""InferBound with foreign domains: one with regions is as exact as the built-in domain.

A second implementation of regions outside the package, unions of boxes, is sound everywhere and exact for unions of at
most eight strided boxes an instance.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from bound import infer_bound
from examples.boxes.intset_boxes import Boxes
from intset import Context, Range, Var
from intset.domains.isl.presburger import IslShape
from intset.domains.points import PointSet
from intset.domains.query import Points, Query
from intset.domains.registry import IslDomain, domain_named, regions_of, register, strongest, unregister
from intset.domains.sets.answers import RankedDomain, RegionDomain
from intset.domains.sets.base import IntervalSet, IntSet
from intset.domains.sets.region import ShapeRegion
from intset.errors import CountError, DomainError
from tests.bound.corpus import CASES, can_run
from tests.bound.infer.test_corpus import ANSWERED, bounds_of, check_figures, figures
from tests.bound.oracle import check
from tests.intset.domains.outside import CoreShape
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, sampled

NAMES = [
    "doc_gather_disjoint", "doc_ex6_fuse_split4", "stencil2d_5pt_tile4x4", "strided_2i_2i1", "conv2d_s3_k2_gap",
    "triangular_prefix", "concat_two", "product_index", "sym_stencil_tile", "fft_butterfly_xor",
    "two_consumers_same_nest",
]  # fmt: skip


# The number of parts decides the length of a tile, so that another form of the same ends cuts into other instances.
OTHER_INSTANCES = {"crash_schedule_ops_handle"}
SLOW = {"flatten_split_nondiv5", "crash_schedule_ops_handle", "group_conv_f2", "pad_edge_clamp"}


class CoreDomain:
    """Shapes with the core operations only; single expressions are answered by isl."""

    name: ClassVar[str] = "core"
    strength: ClassVar[int] = 10

    def image(self, query: Query) -> IntSet:
        return IslDomain().image(query)

    def everything(self, dims: int) -> CoreShape:
        shape = IslDomain().everything(dims)
        assert isinstance(shape, IslShape)
        return CoreShape(shape)

    def points(self, query: Query) -> Points:
        shape, notes = IslDomain().points(query)
        assert isinstance(shape, IslShape)
        return Points(CoreShape(shape), notes)


FOREIGN: dict[str, Any] = {"core": CoreDomain, "boxes": Boxes}
CORNERS = "A = given(4, 4); T = pointwise(A)\nC[i:2, j:2] = T[i, j] + T[i + 2, j + 2]"  # in the InferBound document


@pytest.fixture(autouse=True)
def foreign() -> Iterator[None]:
    for domain in FOREIGN.values():
        register(domain)
    yield
    for name in FOREIGN:
        unregister(name)


@pytest.mark.parametrize("domain", ["core", "boxes", "boxes*modular", "interval*boxes"])
def test_corners_of_a_square_are_eight_elements(domain: str) -> None:
    p = Written(CORNERS)
    b = infer_bound(p.s, domain=domain)
    required = b.required(p.T)
    assert required.is_exact and not required.is_box and required.by in domain
    assert (required.count(), required.count_max(), required.count_total()) == (8, 8, 8)
    assert [str(r.extent) for r in b.allocated(p.T)] == ["4", "4"]
    whole = required.in_instances()
    assert isinstance(whole, ShapeRegion) and whole.is_exact and whole.is_tight
    assert [(x, y) for x in range(-1, 5) for y in range(-1, 5) if (x, y) in whole] == [
        (x, y) for x in range(4) for y in range(4) if (x < 2) == (y < 2)
    ]


def test_capabilities_are_types() -> None:
    assert isinstance(domain_named("core"), RegionDomain) and isinstance(domain_named("isl"), RegionDomain)
    assert isinstance(domain_named("auto"), RankedDomain) and not isinstance(domain_named("auto"), RegionDomain)
    for plain in ("interval", "stride", "modular", "interval*modular", "points"):
        assert regions_of(plain) is None
    assert regions_of("interval*isl") is domain_named("isl") and regions_of("core*modular") is domain_named("core")
    assert strongest() is regions_of("auto") and strongest().name == "isl" and regions_of("isl") is domain_named("isl")
    core = regions_of("core")
    assert core is not None and isinstance(core.everything(0), CoreShape)
    assert isinstance(strongest().everything(0), IslShape)


@pytest.mark.parametrize("name", FOREIGN)
def test_auto_climbs_to_the_strongest(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert strongest() is not domain_named(name) is regions_of(f"{name}*modular")
    monkeypatch.setattr(FOREIGN[name], "strength", 200)
    register(FOREIGN[name])
    assert strongest() is domain_named(name) is regions_of("auto")
    p = Written(CORNERS)
    required = infer_bound(p.s).required(p.T)
    assert required.by == name and required.count() == 8


@pytest.mark.parametrize("method", ["everything", "points"])
def test_what_is_no_shape_is_named(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CoreDomain, method, lambda self, asked: [asked])
    register(CoreDomain)
    with pytest.raises(DomainError, match=f"the domain 'core': {method} must return a Shape"):
        infer_bound(Written(CORNERS).s, domain="core")


CASES_OF_BOXES = [
    *daily([name for name in ANSWERED if name not in SLOW], 8),
    *(pytest.param(name, marks=pytest.mark.nightly) for name in sorted(SLOW)),
]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_what_is_needed(name: str) -> None:
    check_figures(name, bounds_of(name, domain="core"))


@pytest.mark.parametrize("name", CASES_OF_BOXES)
def test_unions_of_boxes_are_exactly_what_is_needed(name: str) -> None:
    b = bounds_of(name, domain="boxes")
    if name not in OTHER_INSTANCES:
        check_figures(name, b)
    for tensor, row in figures(name, b.schedule):
        assert b.required(tensor).is_exact, tensor.name
        assert b.required(tensor).count_total() == row["exact"]["count_total"] == b.computed(tensor).count_total()


@pytest.mark.parametrize("name", daily(sorted({*ANSWERED} - SLOW)[::2], 12))
def test_the_nests_do_what_boxes_say_of_them(name: str) -> None:
    if can_run(CASES[name]["fn"]()):
        check(bounds_of(name, domain="boxes"))


@sampled(5, 40, programs(most=3))
def test_random_programs_in_boxes(program: Program) -> None:
    check(infer_bound(program.schedule, domain="boxes"), exact=False)


class Sevenths:
    """A domain of multiples of 7 with a declared cost."""

    name: ClassVar[str] = "sevenths"
    cost: ClassVar[int] = 50
    asked = 0

    def image(self, query: Query) -> IntSet:
        Sevenths.asked += 1
        low, high = query.known.bounds(query.forms[0])
        is_all = query.forms[0].terms and all(k == 7 for k in query.forms[0].terms.values())
        assert low is not None and high is not None
        return (
            PointSet(range(low, high + 1, 7), self.name, is_exact=True) if is_all else IntervalSet(low, high, self.name)
        )


def test_auto_climbs_by_cost() -> None:
    """Cheaper domains answer first; only certified answers count."""
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 1000), j: Range(0, 1000)}, assume=[i - j < 2000])
    try:
        register(Sevenths)
        assert ctx.value_set(i * 7).by == "stride"  # the structure of one term is cheaper still
        asked = Context({i: Range(0, 50), j: Range(0, 50)}, assume=[i * 3 + j * 5 < 140])
        before = Sevenths.asked
        assert asked.value_set(i * 7 - j * 3).by == "isl" and Sevenths.asked == before + 1
        Sevenths.cost = 5_000
        register(Sevenths)
        assert asked.value_set(i * 7 - j * 2).by == "isl" and Sevenths.asked == before + 1
    finally:
        Sevenths.cost = 50
        unregister("sevenths")


def test_strides_without_gaps_are_exact_boxes() -> None:
    p = Written("A = given(40); T = pointwise(A)\nC[i:40] = T[i // 2]")
    required = infer_bound(p.s, domain="stride").required(p.T)
    assert required.is_exact and required.is_box and required.count_max() == 20


def test_a_count_out_of_budget_is_a_count_error() -> None:
    """Elements at nonlinear places are counted one by one, as far as the budget goes."""

    def required(n: int) -> Any:
        p = Written(f"""
            A = given({4 * n * n}); T = pointwise(A)
            C[i:{n}, j:{n}] = T[i * j] + T[i * i + j]
            T compute_at C i""")
        return infer_bound(p.s).required(p.T)

    assert required(40).count_max() == max(len({x for j in range(40) for x in (i * j, i * i + j)}) for i in range(40))
    with pytest.raises(CountError, match="out of budget"):
        required(2000).count_max()

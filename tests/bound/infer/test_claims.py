"""Claims of regions and of traffic: every domain, random programs and schedules, against runs of the nests; a domain
of unions of boxes, which is outside the package, is sound everywhere and exact for at most eight boxes an instance.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from bound import BoundsMap, infer_bound, te
from bound.itervar import IterVar
from bound.schedule import Split, Stage
from bound.schedule.relations import Tail, with_ancestors
from bound.tensor import Tensor
from examples.boxes.intset_boxes import Boxes
from intset import Context, Range, ShapeVar, Var, evaluate, maximum, minimum
from intset.domains.isl.presburger import IslShape
from intset.domains.points import PointSet
from intset.domains.query import Points, Query
from intset.domains.registry import IslDomain, domain_named, regions_of, register, strongest, unregister
from intset.domains.sets.answers import RankedDomain, RegionDomain
from intset.domains.sets.base import IntervalSet, IntSet
from intset.domains.sets.region import ShapeRegion
from intset.errors import CountError, DomainError, InputError
from lowering import lower
from tests.bound.corpus import CASES, can_run
from tests.bound.infer.test_corpus import ANSWERED, bounds_of, check_figures, figures
from tests.bound.oracle import Point, Run, check, check_claims
from tests.intset.domains.outside import CoreShape
from tests.lowering.build.test_corpus import Stores
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, sampled, swept

WHOLE = (Tail.SHIFT_INWARDS, Tail.ROUND_UP)
DOMAINS = ("auto", "isl", "interval", "stride", "modular", "points", "interval*modular", "stride*modular")


def gives_up(b: BoundsMap) -> bool:
    """Whether some tensor has a note about lost precision."""
    return any(b.required(t).notes for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)


@swept({
    "numbers": (8, 4000, programs(also="caches others"), {"exact"}),
    "blocks of threads": (4, 4000, programs(also="caches threads"), {"exact"}),
    "sizes": (3, 1000, programs(symbolic=True, most=4), {"exact"}),
})  # fmt: skip
def test_regions_are_what_nests_read_and_compute(program: Program) -> str | None:
    """Also where sizes are symbolic; exactly the same at numbers, without losses."""
    b = program.inferred()
    if b is None:
        return "refused"
    for sizes in program.choices[:3]:
        if sizes:
            check(b, program.values(sizes), exact=False)
        fixed = program.inferred(at=sizes) if sizes else b
        assert fixed is not None
        check(fixed, exact=not gives_up(fixed))
    return None if gives_up(fixed) else "exact"


@pytest.mark.parametrize("seeds", daily([range(9), *(range(k, k + 300) for k in range(100, 3100, 300))], 11))
def test_whole_tiles_have_one_length(seeds: range) -> None:
    """An axis under a split whose last tile is whole is as long in every instance of its stage."""
    attached = 0
    for seed in seeds:
        b = Program(seed, also="whole").inferred()
        for stage in filter(b.is_computed, b.schedule.stages) if b is not None else ():
            whole = [r.parent for r in stage.relations if isinstance(r, Split) and r.tail in WHOLE]
            for iv in with_ancestors(stage.relations, whole).intersection(stage.op.root_iter_vars):
                assert not any(isinstance(v, IterVar) for v in b[iv].extent.free_vars()), (seed, stage, iv, b[iv])
                attached += bool(b.attach_path(stage))
    assert attached >= len(seeds) // 10


@swept({
    "numbers": (6, 800, programs(also="caches others", most=4), DOMAINS),
    "sizes": (2, 400, programs(symbolic=True, most=3), ("auto", "isl")),
})  # fmt: skip
def test_claims_of_regions(program: Program) -> set[str | None]:
    """Check the claims of regions under every domain; gives the domains that claimed exact regions."""
    exact: set[str | None] = set()
    for options in (*({"domain": domain} for domain in DOMAINS), {"compute": "box"}):
        b = program.inferred(**options)
        for sizes in map(program.values, program.choices[:2]) if b is not None else ():
            check(b, sizes, exact=False, regions=False)
            if check_claims(b, sizes):
                exact.add(options.get("domain"))
    return exact


@pytest.mark.parametrize("start", daily(range(3), 3))
@pytest.mark.parametrize("domain", DOMAINS)
def test_of_the_corpus(domain: str, start: int) -> None:
    claimed = 0
    for name in ANSWERED[DOMAINS.index(domain) + 8 * start :: 24]:
        if can_run(CASES[name]["fn"]()):
            b = bounds_of(name, domain=domain)
            check(b, exact=False, regions=False)
            claimed += check_claims(b)
    assert claimed > 3


@pytest.mark.parametrize("extent", [3, 4, 7])
@pytest.mark.parametrize("step", [2, 3])
def test_what_depends_on_no_loop_does_not_after_an_operation(step: int, extent: int) -> None:
    program = Written(f"""
        A = given(40); p = pointwise(A)
        o[x:{extent}] = p[x * {step}]
        o split x 8; p compute_at o x.outer""")  # one iteration
    outer, inner = program.s[program.o].leaf_iter_vars
    region = infer_bound(program.s).required(program.p)
    every = [(x * step,) for x in range(extent)]
    made = (region.at({}), region | region, region & region, region.project([0]), region.at({outer: 0}))
    assert not region.params and region.count() == extent
    for one in (*made, region.at({"x.outer": 0}), region.at({inner: 9}), region.at({te.size_var("n"): 5})):
        assert not one.params and one.count() == extent == one.count_max() and one <= region <= one
        assert [point for point in itertools.product(range(-2, 24)) if point in one] == every
    assert region.at({outer: 1}).is_empty and not region.hull().params and not (region - region).params


# -- traffic ----------------------------------------------------------------------------------------------------------


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


def check_traffic(b: BoundsMap, sizes: Any = None) -> set[str]:
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


@swept({
    "numbers": (8, 3000, programs(also="caches others"), {"exact"}),
    "threads and windows": (4, 800, programs(also="caches threads stored"), {"exact"}),
    "sizes": (4, 300, programs(symbolic=True, most=3), {"exact"}),
})  # fmt: skip
def test_loads_and_stores_of_drawn_schedules(program: Program) -> set[str]:
    b = program.inferred()
    sizes = map(program.values, program.choices[:2])
    return set() if b is None else set().union(*(check_traffic(b, at) for at in sizes))


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
        shown |= check_traffic(b, sizes)
        stored = Stores(f, {v.name: n for v, n in sizes.items()}).counts
        for stage in b.schedule.stages:
            if stage in recomputed or not b.is_computed(stage) or stage.op.reduction is not None:
                continue
            with suppress(CountError):
                tensor = stage.op.outputs[0]
                assert evaluate(b.traffic(tensor, "stores"), sizes) >= stored[tensor.name], (tensor, sizes, f)
                shown.add("nest")
    return shown


def stencil(t: Any) -> tuple[BoundsMap, list[Tensor]]:
    p = Written("""
        A = given(58); P = pointwise(A)
        C[i:56] = P[i] + P[i + 1] + P[i + 2]
        C split i t; P compute_at C i.outer""", t=t)  # fmt: skip
    return infer_bound(p.s), p("A P C")


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

    with pytest.raises(InputError, match=r"^traffic counts 'loads', 'stores' or, with None, both, not 'load'$"):
        b.traffic(a, "load")


# -- domains ----------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("name", daily(NAMES, 3))
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


def test_auto_climbs_by_cost_and_capabilities_are_types() -> None:
    # Cheaper domains answer first; only certified answers count.
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
    assert isinstance(domain_named("core"), RegionDomain) and isinstance(domain_named("isl"), RegionDomain)
    assert isinstance(domain_named("auto"), RankedDomain) and not isinstance(domain_named("auto"), RegionDomain)
    for plain in ("interval", "stride", "modular", "interval*modular", "points"):
        assert regions_of(plain) is None
    assert regions_of("interval*isl") is domain_named("isl") and regions_of("core*modular") is domain_named("core")
    assert strongest() is regions_of("auto") and strongest().name == "isl" and regions_of("isl") is domain_named("isl")
    core = regions_of("core")
    assert core is not None and isinstance(core.everything(0), CoreShape)
    assert isinstance(strongest().everything(0), IslShape)


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

    assert required(15).count_max() == max(len({x for j in range(15) for x in (i * j, i * i + j)}) for i in range(15))
    with pytest.raises(CountError, match="out of budget"):
        required(2000).count_max()


def test_a_loop_of_one_iteration_around_a_consumer_is_no_size_of_a_region() -> None:
    n, t = te.size_var("n"), te.size_var("t")
    A = te.placeholder((4, 37), dtype="int32", name="A")
    first = te.compute((4, 37), lambda i, j: A[i % 3 + 1, j] + A[i % 3, j])
    second = te.compute((n + 2, 37), lambda i, j: first[i % 3 + 1, j] + first[i % 3, j])
    third = te.compute((n, 35), lambda i, j: second[i + 2, j + 1] + second[i, j + 2] + second[i, j])
    last = te.compute((n, 35), lambda i, j: third[minimum(i, n - 1), j] + third[maximum(i - 1, 0), j])
    s = te.create_schedule(last.op)
    s[third].compute_at(s[last], s[last].split(last.op.axis[1], 4)[0])
    outer, inner = s[third].split(third.op.axis[0], nparts=5)  # the inner loop has one iteration
    s[second].compute_at(s[third], inner)
    s[second].store_at(s[third], outer)
    tile, rest = s[second].split(second.op.axis[1], t)
    s[second].reorder(tile, *s[second].split(rest, 2))
    assert infer_bound(s).required(first).params == (n,)

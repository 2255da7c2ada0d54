"""Claims of regions and of traffic: every domain, random programs and schedules, against runs of the nests."""

import itertools
from collections import defaultdict
from contextlib import suppress
from typing import Any

import pytest

from bound import BoundsMap, infer_bound, te
from bound.itervar import IterVar
from bound.schedule import Split, Stage
from bound.schedule.relations import Tail, with_ancestors
from bound.tensor import Tensor
from intset import ShapeVar, evaluate
from intset.errors import CountError, InputError
from lowering import lower
from tests.bound.corpus import CASES, can_run
from tests.bound.infer.test_corpus import ANSWERED, bounds_of
from tests.bound.oracle import Point, Run, check, check_claims
from tests.lowering.build.test_sliding import Stores
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, sampled, swept

WHOLE = (Tail.SHIFT_INWARDS, Tail.ROUND_UP)
DOMAINS = ("auto", "isl", "interval", "stride", "modular", "points", "interval*modular", "stride*modular")


def gives_up(b: BoundsMap) -> bool:
    """Whether some tensor has a note about lost precision."""
    return any(b.required(t).notes for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)


@swept({
    "numbers": (30, 4000, programs(also="caches others"), {"exact"}),
    "blocks of threads": (6, 4000, programs(also="caches threads"), {"exact"}),
    "sizes": (5, 1000, programs(symbolic=True, most=4), {"exact"}),
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


@pytest.mark.parametrize("seeds", daily([range(16), *(range(k, k + 300) for k in range(100, 3100, 300))], 11))
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
    "numbers": (25, 3000, programs(also="caches others"), {"exact"}),
    "threads and windows": (6, 800, programs(also="caches threads stored"), {"exact"}),
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

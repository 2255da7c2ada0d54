"""Claims of regions: every domain, random programs and schedules, against runs of the nests one iteration at a time."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from math import prod
from typing import Any

import pytest

from bound import BoundsMap, infer_bound, te
from intset import evaluate
from intset.expr.node import as_expr
from tests.bound.claims import check_claims
from tests.bound.corpus import CASES
from tests.bound.infer.test_corpus import ANSWERED, bounds_of, can_run
from tests.bound.oracle import check
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, sampled

DOMAINS = ("auto", "isl", "interval", "stride", "modular", "points", "interval*modular", "stride*modular")


def gives_up(b: BoundsMap) -> bool:
    """Whether some tensor has a note about lost precision."""
    return any(b.required(t).notes for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs)


@sampled(30, 4000, programs(also="caches others"), shows={"exact"})
def test_constant_sizes(program: Program) -> str | None:
    b = program.inferred()
    if b is None:
        return "refused"
    check(b, exact=not gives_up(b))
    return None if gives_up(b) else "exact"


@sampled(6, 4000, programs(also="caches threads"), shows={True})
def test_blocks_of_threads(program: Program) -> bool:
    b = program.inferred()
    if b is not None:
        check(b, exact=not gives_up(b))
    return b is not None


@sampled(6, 1000, programs(also="caches"))
def test_boxes_and_other_domains(program: Program) -> None:
    for options in ({"compute": "box"}, {"domain": "interval"}, {"domain": "stride"}):
        b = program.inferred(**options)
        if b is not None:
            check(b, exact=False)


@sampled(5, 1000, programs(symbolic=True, most=4), shows={True})
def test_symbolic_sizes(program: Program) -> bool:
    b = program.inferred()
    if b is None:
        return False
    for sizes in program.choices[:3]:
        check(b, program.values(sizes), exact=False)
        fixed = program.inferred(at=sizes)
        assert fixed is not None
        check(fixed, exact=not gives_up(fixed))
    return True


def claims(program: Program) -> set[str]:
    """Check the claims of regions under every domain; gives the domains that claimed exact regions."""
    exact = set()
    for domain in DOMAINS:
        b = program.inferred(domain=domain)
        if b is not None and sum(check_claims(b, program.values(sizes)) for sizes in program.choices[:2]):
            exact.add(domain)
    return exact


@sampled(6, 800, programs(also="caches others", most=4), shows=DOMAINS)
def test_claims_of_regions(program: Program) -> set[str]:
    return claims(program)


@sampled(2, 400, programs(symbolic=True, most=3), shows=("auto", "isl"))
def test_claims_of_regions_with_symbolic_sizes(program: Program) -> set[str]:
    return claims(program)


n, m = te.size_var("n"), te.size_var("m")


@pytest.mark.parametrize("start", daily(range(3), 3))
@pytest.mark.parametrize("domain", DOMAINS)
def test_of_the_corpus(domain: str, start: int) -> None:
    claimed = 0
    for name in ANSWERED[DOMAINS.index(domain) + 8 * start :: 24]:
        if can_run(CASES[name]["fn"]()):
            claimed += check_claims(bounds_of(name, domain=domain))
    assert claimed > 3


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_box_of_a_region_is_not_the_region(domain: str) -> None:
    p0 = te.placeholder((80,), name="P0")
    p = te.compute((80,), lambda x: p0[x] + 1.0, name="P")
    c = te.compute((40,), lambda x: p[x * 2], name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[0], 4)
    s[p].compute_at(s[c], outer)
    region = infer_bound(s, domain=domain).required(p)
    counts = (region.count_max(), region.count_total())
    assert counts == (4, 40) if region.is_exact else counts >= (4, 40)
    assert region.is_exact is (domain in ("auto", "isl"))


# -- fused loops that are split ----------------------------------------------------------------------------------------

FUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], int]] = {
    # the access, the shapes of both tensors, and which dimension of the read one counts rows
    "as it is": (lambda y, x: (y, x), (n, m), (n, m), 0),
    "transposed": (lambda y, x: (x, y), (n, m), (m, n), 1),
    "square": (lambda y, x: (x, y), (n, n), (n, n), 1),
    "further on": (lambda y, x: (y + 3, x + 1), (n, m), (n + 3, m + 2), 0),
    "few rows": (lambda y, x: (x, y), (6, m), (m, 6), 1),
    "rows of four": (lambda y, x: (x, y), (n, m * 4), (m * 4, n), 1),
    "three loops": (lambda y, x, z: (y, x * 3 + z), (n, m, 3), (n, m * 3), 0),
    "reshaped": (lambda y, x: ((y * m + x) // n, (y * m + x) % n), (n, m), (m, n), 0),
}


@pytest.mark.parametrize("factor", [2, 4, 5])
@pytest.mark.parametrize("name", FUSED)
def test_a_tile_of_a_fused_loop_spans_few_rows(name: str, factor: int) -> None:
    access, shape, source, row = FUSED[name]
    before = te.placeholder(source, name="A")
    a = te.compute(source, lambda y, x: before[y, x] + 1.0, name="a")
    o = te.compute(shape, lambda *place: a[access(*place)], name="o")
    s = te.create_schedule(o.op)
    outer, _ = s[o].split(s[o].fuse(*o.op.axis), factor)
    s[a].compute_at(s[o], outer)
    allocated = infer_bound(s).allocated(a)
    for values in ({n: 1, m: 1}, {n: 3, m: 2}, {n: 5, m: 3}, {n: 4, m: 7}, {n: 9, m: 9}):
        extents = [evaluate(r.extent, values) for r in allocated]
        needed = spans(access, [evaluate(as_expr(e), values) for e in shape], values, factor)
        extents_now = [evaluate(as_expr(e), values) for e in shape]
        width = values[n] if name == "reshaped" else prod(extents_now[1:])
        assert all(e >= k for e, k in zip(extents, needed, strict=True))
        most = (factor - 2) // max(width, 1) + 2
        assert extents[row] <= max(most, needed[row]), (values, allocated)


def spans(access: Callable[..., Any], shape: list[int], values: Any, factor: int) -> list[int]:
    """Largest extents, over all tiles, of the outer box of a tile's reads."""
    points = [[evaluate(as_expr(e), values) for e in access(*place)] for place in itertools.product(*map(range, shape))]
    tiles = [points[k : k + factor] for k in range(0, len(points), factor)]
    return [max(max(axis) - min(axis) + 1 for axis in (list(zip(*t, strict=True))[d] for t in tiles)) for d in range(2)]


def test_fixed_sizes_give_two_rows() -> None:
    before = te.placeholder((n, n), name="A")
    a = te.compute((n, n), lambda y, x: before[y, x] + 1.0, name="a")
    o = te.compute((n, n), lambda y, x: a[x, y], name="o")
    s = te.create_schedule(o.op)
    outer, _ = s[o].split(s[o].fuse(*o.op.axis), 4)
    s[a].compute_at(s[o], outer)
    assert [r.extent.data for r in infer_bound(s, at={n: 998}).allocated(a)] == [998, 2]
    assert [evaluate(r.extent, {n: 998}) for r in infer_bound(s).allocated(a)] == [998, 2]


@pytest.mark.parametrize("extent", [3, 4, 7])
@pytest.mark.parametrize("step", [2, 3])
def test_what_depends_on_no_loop_does_not_after_an_operation(step: int, extent: int) -> None:
    before = te.placeholder((40,), name="A")
    p = te.compute((40,), lambda x: before[x] + 1.0, name="p")
    o = te.compute((extent,), lambda x: p[x * step], name="o")
    s = te.create_schedule(o.op)
    outer, inner = s[o].split(o.op.axis[0], 8)  # one iteration
    s[p].compute_at(s[o], outer)
    region = infer_bound(s).required(p)
    every = [(x * step,) for x in range(extent)]
    made = (region.at({}), region | region, region & region, region.project([0]), region.at({outer: 0}))
    assert not region.params and region.count() == extent
    for one in (*made, region.at({"x.outer": 0}), region.at({inner: 9}), region.at({n: 5})):
        assert not one.params and one.count() == extent == one.count_max() and one <= region <= one
        assert [point for point in itertools.product(range(-2, 24)) if point in one] == every
    assert region.at({outer: 1}).is_empty and not region.hull().params and not (region - region).params

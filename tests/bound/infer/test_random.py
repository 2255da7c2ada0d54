"""Random programs and schedules: `infer_bound` against runs of the nests, one iteration at a time."""

from __future__ import annotations

from bound import BoundsMap
from tests.bound.claims import check_claims
from tests.bound.oracle import check
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled

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

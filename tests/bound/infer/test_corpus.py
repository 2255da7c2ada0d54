"""InferBound on the corpus of schedules: recorded figures, and runs of the nests."""

from __future__ import annotations

from math import prod
from typing import Any

import pytest

from bound import infer_bound
from bound.infer import BoundsMap
from bound.infer.accesses import accesses
from bound.operation import ExternOp
from bound.schedule import Schedule
from bound.schedule.stage import ScheduleError
from bound.tensor import Tensor
from intset.expr.dag import opaque_terms
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr
from tests.bound.corpus import CASES, recorded
from tests.bound.oracle import check
from tests.sweeps import daily

ANSWERED = [name for name in CASES if not name.startswith("reject")]
BY_ISL = [(name, "isl") for name in ANSWERED]


def figures(name: str, schedule: Schedule) -> list[tuple[Tensor, dict[str, Any]]]:
    """Tensors with recorded figures; of several outputs, the one with readers."""
    found = []
    for stage in schedule.stages:
        row = recorded()[name].get("exact", {}).get(stage.name)
        if row is not None and "exact" in row:
            read = {t for other in schedule.stages for t in other.op.input_tensors}
            outputs = [t for t in stage.op.outputs if t in read] or list(stage.op.outputs)
            found.append((outputs[0], row))
    return found


def stored(b: BoundsMap, tensor: Tensor) -> int:
    return prod(int(r.extent) for r in b.allocated(tensor))


def bounds_of(name: str, **options: Any) -> BoundsMap:
    """A corpus schedule's bounds at its sizes."""
    return infer_bound(CASES[name]["fn"](), at=CASES[name]["sub"] or None, **options)


def check_figures(name: str, b: BoundsMap) -> None:
    """Counts and allocations are those recorded, by exact regions."""
    for tensor, row in figures(name, b.schedule):
        exact = row["exact"]
        required, computed = b.required(tensor), b.computed(tensor)
        counts = (required.count_max(), required.count_total(), stored(b, tensor), computed.count_total())
        assert counts == (exact["count_max"], exact["count_total"], exact["hull_alloc"], exact["count_total"])
        assert required.is_exact and not required.notes


def test_the_figures_are_there() -> None:
    assert sum(len(figures(name, CASES[name]["fn"]())) for name in ANSWERED) == 132


@pytest.mark.parametrize(("name", "domain"), [(name, "auto") for name in ANSWERED] + daily(BY_ISL, 4))
def test_exactly_what_is_needed(name: str, domain: str) -> None:
    check_figures(name, bounds_of(name, domain=domain))


@pytest.mark.parametrize("name", daily(ANSWERED, 2))
def test_without_guards_no_more_than_the_local_need(name: str) -> None:
    b = bounds_of(name, compute="box")
    for tensor, row in figures(name, b.schedule):
        assert stored(b, tensor) <= row["local"]["hull_alloc"]
        total = b.computed(tensor).count_total()
        assert isinstance(total, int) and total <= row["local"]["hull_total"]


@pytest.mark.parametrize("name", daily(ANSWERED[1:] + ANSWERED[:1], 2))
def test_intervals_store_no_more_than_tvm(name: str) -> None:
    b = bounds_of(name, domain="interval")
    for tensor, row in figures(name, b.schedule):
        size = stored(b, tensor)
        assert size >= row["exact"]["hull_alloc"]
        assert size <= row["tvm_alloc"] or row["tvm_alloc"] < row["exact"]["hull_alloc"]


def can_run(schedule: Schedule) -> bool:
    """Whether the oracle can run the nests: without externs and data-dependent indices."""
    ops = [stage.op for stage in schedule.stages]
    return not any(isinstance(op, ExternOp) or any(opaque_terms(*a.indices) for a in accesses(op)) for op in ops)


@pytest.mark.parametrize("start", daily(range(8), 8))
def test_the_nests_here_do_what_is_said_of_them(start: int) -> None:
    ran = 0
    for name in ANSWERED[start::8]:
        if can_run(CASES[name]["fn"]()):
            ran += 1
            check(bounds_of(name), regions=False)
            check(bounds_of(name, compute="box"), exact=False, regions=False)
    assert ran > 9


DOMAINS = ["auto", "interval", "stride", "isl", "modular", "interval*modular"]


@pytest.mark.parametrize("start", daily(range(4), 4))
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_is_sound(domain: str, start: int) -> None:
    for name in ANSWERED[5 * start + DOMAINS.index(domain) :: 20]:
        if can_run(CASES[name]["fn"]()):
            check(bounds_of(name, domain=domain), exact=False, regions=False)


@pytest.mark.parametrize("name", [name for name in ANSWERED if CASES[name]["sub"]])
def test_symbolic_answers_hold_at_given_sizes(name: str) -> None:
    case = CASES[name]
    schedule = case["fn"]()
    b = infer_bound(schedule)
    sizes = {v: case["sub"][v.name] for v in b._state.sizes.all}
    assert sizes
    check(b, sizes, exact=False)
    other = {v: max(n // 2, 1) for v, n in sizes.items()}
    check(b, other, exact=False)
    for tensor, row in figures(name, schedule):
        extents = [r.extent for r in b.allocated(tensor)]
        assert all(isinstance(e, Expr) and set(e.free_vars()) <= set(sizes) for e in extents)
        assert prod(evaluate(e, sizes) for e in extents) >= row["exact"]["hull_alloc"]


def test_what_breaks_a_rule_is_refused() -> None:
    with pytest.raises(ScheduleError, match=r"B cannot be computed at i of X: X does not read B"):
        CASES["reject_attach_to_nonconsumer"]["fn"]()
    with pytest.raises(ScheduleError, match=r"stage B: i.inner runs on threadIdx.x with extent 8, .* 16 .* stage C"):
        infer_bound(CASES["reject_thread_extent_mismatch"]["fn"]())

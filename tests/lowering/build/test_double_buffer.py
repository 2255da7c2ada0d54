"""`double_buffer`: two halves, of which the next is filled before this one is used; as the reference, also in C."""

from __future__ import annotations

from typing import Any

import pytest

from bound import te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from lowering import lower
from lowering.nest.ir import Allocate, LoopKind
from lowering.nest.walk import statements
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.schedules import Program, programs
from tests.sweeps import sampled


def tiles(n: Any = 20, tail: str = "guard", split: int = 6) -> tuple[Schedule, Any, Any, Any]:
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    xo, _ = s[C].split(C.op.axis[0], split, tail=tail)
    s[B].compute_at(s[C], xo)
    s[B].double_buffer()
    return s, B, C, xo


def test_the_next_half_is_filled_before_this_one_is_used() -> None:
    s, *_ = tiles(18)
    assert (
        str(lower(s))
        == """\
def C(A: float32[20], C: float32[18]):
    allocate B: float32[16]
    for i in [0, 8):
        B[i] = A[i] * 2.0
    for i.outer in [0, 3):
        if i.outer != 2:
            i.outer.base = (i.outer + 1 & 1) * 8
            for i in [0, 8):
                B[i.outer.base + i] = A[i.outer * 6 + i + 6] * 2.0
        i.outer.base = (i.outer & 1) * 8
        for i.inner in [0, 6):
            C[i.outer * 6 + i.inner] = B[i.outer.base + i.inner] + B[i.outer.base + i.inner + 2]"""
    )


@pytest.mark.parametrize("compute", ["exact", "box", None])
@pytest.mark.parametrize("tail", ["guard", "shrink", "shift_inwards"])
def test_tiles_of_all_kinds(compute: str | None, tail: str) -> None:
    for size in (6, 20):
        s, *_ = tiles(size, tail)
        f = check(s, compute=compute)
    check_c(f, s, sanitize=tail == "guard" and compute is None)


def test_symbolic_sizes() -> None:
    s, *_ = tiles(te.size_var("n"))
    f = lower(s)
    for n in (0, 1, 6, 13):
        check_run(f, s, {"n": n})
    for n in (0, 13):
        check_c(f, s, {"n": n})


def test_a_reduction_over_tiles_that_are_fetched_ahead() -> None:
    A, W = te.placeholder((12, 20), name="A"), te.placeholder((20, 8), name="W")
    k = te.reduce_axis((0, 20), "k")
    C = te.compute((12, 8), lambda y, x: te.sum(A[y, k] * W[k, x], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = C.op.axis
    AA, WW = s.cache_read(A, "local", [C]), s.cache_read(W, "local", [C])
    yo, yi = s[C].split(y, 5)
    ko, ki = s[C].split(s[C].op.reduce_axis[0], 8)
    s[C].reorder(yo, ko, ki, yi, x)
    for T in (AA, WW):
        s[T].compute_at(s[C], ko)
        s[T].double_buffer()
    f = check(s)
    assert sorted(stmt.ranges[0].extent.data for stmt in statements(f.body) if isinstance(stmt, Allocate)) == [10, 16]
    check_c(f, s, sanitize=True)


def three_stages(reads_both: bool) -> tuple[Any, Any]:
    """D reads C, or C and what C is made of; both are computed in each tile of D."""
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((22,), lambda i: B[i] + B[i + 2], name="C")
    D = te.compute((20,), lambda i: C[i] * (B if reads_both else C)[i + 2], name="D")
    s = te.create_schedule(D.op)
    xo, _ = s[D].split(D.op.axis[0], 6)
    for T in (B, C):
        s[T].compute_at(s[D], xo)
    s[C].double_buffer()
    return B, s


def test_what_is_computed_for_it_alone_goes_along() -> None:
    B, s = three_stages(False)
    check_c(check(s), s)
    s[B].double_buffer()
    check_c(check(s), s)


def test_what_others_need_in_this_iteration_is_not_computed_ahead() -> None:
    B, s = three_stages(True)
    with pytest.raises(ScheduleError, match=r"stage C: double_buffer .* an iteration of i.outer ahead, but B is"):
        lower(s)
    s[B].double_buffer()
    check(s)


@pytest.mark.parametrize("kind", [LoopKind.PARALLEL, LoopKind.VECTORIZED])
def test_a_loop_without_a_next_iteration_has_no_half_to_fill(kind: LoopKind) -> None:
    s, _, C, xo = tiles(18)
    (s[C].parallel if kind is LoopKind.PARALLEL else s[C].vectorize)(xo)
    with pytest.raises(ScheduleError, match=r"stage B: double_buffer has no next .* those of i.outer do not run"):
        lower(s)


def test_the_root_has_no_half_to_fill() -> None:
    for is_threaded in (False, True):
        s, B, C, xo = tiles(18)
        if is_threaded:
            s[C].bind(xo, te.thread_axis("blockIdx.x"))
        else:
            s[B].compute_root()
        with pytest.raises(ScheduleError, match=r"stage B: double_buffer has no next iteration to fill: "):
            lower(s)


def test_conditions_are_those_of_the_iteration_that_is_filled() -> None:
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((20,), lambda i: tir.if_then_else(i // 4 % 2 < 1, B[i] + B[i + 1], 0.0), name="C")
    s = te.create_schedule(C.op)
    xo, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], xo)
    s[B].double_buffer()
    for compact in (False, True):
        check_c(check(s, compact=compact), s, sanitize=True)


def filled_ahead(program: Program, c: bool = False) -> bool:
    """Check a program against the reference; gives whether some buffer is double and the schedule accepted."""
    try:
        f = check(program.schedule, program.sizes)
    except ScheduleError:
        return False
    if c:
        check_c(f, program.schedule, program.sizes)
    return any(stage.double_buffered for stage in program.schedule.stages)


@sampled(6, 1200, programs(also="doubled"), shows={True})
def test_random_schedules(program: Program) -> bool:
    return filled_ahead(program)


@sampled(2, 600, programs(also="doubled", symbolic=True, most=3))
def test_random_schedules_of_symbolic_sizes(program: Program) -> bool:
    return filled_ahead(program)


@pytest.mark.nightly
@sampled(1, 400, programs(also="doubled"))
def test_random_schedules_in_c(program: Program) -> bool:
    return filled_ahead(program, c=True)

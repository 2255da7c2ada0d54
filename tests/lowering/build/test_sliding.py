"""Sliding windows and double buffers, lowered: against the reference in every form, and in C."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from intset.expr.evaluate import evaluate
from lowering import Function, lower
from lowering.nest.ir import For, If, Let, LoopKind, Seq, Stmt, Store
from lowering.nest.walk import range_ends, statements
from tests.bound.infer.test_sliding import READERS, SUM3, program
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.schedules import Program, programs
from tests.sweeps import daily, swept

FORMS = [*product(("exact", "box"), ("guard", "split", "auto")), (None, "auto")]


def stores(f: Function, sizes: Mapping[Any, int] | None = None) -> Counter[str]:
    """How many elements each tensor is stored to when a nest without data in its conditions runs."""
    found: Counter[str] = Counter()

    def visit(stmt: Stmt, env: dict[Any, int]) -> None:
        if isinstance(stmt, Seq):
            for part in stmt.stmts:
                if isinstance(part, Let):
                    env = {**env, part.var: evaluate(part.value, env)}
                visit(part, env)
        elif isinstance(stmt, For):
            low, extent = (evaluate(e, env) for e in range_ends(stmt.range))
            for k in range(low, low + max(extent, 0)):
                visit(stmt.body, {**env, stmt.var: k})
        elif isinstance(stmt, If):
            branch = stmt.then if evaluate(stmt.cond, env) else stmt.orelse
            if branch is not None:
                visit(branch, env)
        elif isinstance(stmt, Store):
            found[stmt.tensor.name] += 1

    visit(f.body, dict(sizes or {}))
    return found


def slid(kind: str, tile: int | None) -> tuple[Schedule, Any]:
    s, _, B, C = program(kind)
    y, _ = C.op.axis
    if tile is None:
        s[B].compute_at(s[C], y)
        s[B].store_root()
    else:
        yo, yi = s[C].split(y, tile)
        s[B].compute_at(s[C], yi)
        s[B].store_at(s[C], yo)
    return s, B


@pytest.mark.parametrize(
    ("kind", "tile", "form", "compact"), daily(product(READERS, (None, 4), FORMS, (False, True)), 37)
)
def test_every_form_equals_the_reference_and_stores_once(
    kind: str, tile: int | None, form: tuple[str | None, str], compact: bool
) -> None:
    s, B = slid(kind, tile)
    f = check(s, compute=form[0], nests=form[1], compact=compact)
    if form[0] == "exact":
        assert stores(f)["B"] == infer_bound(s).computed(B).count_total()


@pytest.mark.parametrize(("kind", "tile"), [(SUM3, None), ("strided", 4), ("to and fro", None), ("skewed", 4)])
def test_c(kind: str, tile: int | None) -> None:
    s, _ = slid(kind, tile)
    check_c(lower(s, strength=tile is None), s, sanitize=kind == "skewed")


@swept({
    "numbers": (12, 2000, programs(also="stored"), {True}, False),
    "sizes": (3, 1000, programs(also="stored", symbolic=True, most=3), (), False),
    "in C": (0, 30, programs(also="stored"), (), True),
})  # fmt: skip
def test_random_programs(c: bool, program: Program) -> bool:
    """Programs equal the reference; gives whether some stage keeps elements between iterations."""
    b = program.inferred()
    stored = [stage for stage in program.schedule.stages if stage.store_type is not None]
    if b is None or not any(b.slid(stage) for stage in stored):
        return False
    f = check(program.schedule, program.sizes, bounds=b)
    if c:
        check_c(f, program.schedule, program.sizes)
    return True


def test_what_an_innermost_loop_chooses_alike_is_chosen_before_it() -> None:
    """One choice for all rows that a stencil reads: each is a constant from the first."""
    a = te.placeholder((12, 20), name="A")
    b = te.compute((10, 20), lambda y, x: a[y, x] + a[y + 1, x] + a[y + 2, x], name="B")
    c = te.compute((8, 20), lambda y, x: b[y, x] + b[y + 1, x] + b[y + 2, x], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].store_root()
    loops = [inner for inner in statements(lower(s, [a, c]).body) if isinstance(inner, For)]
    innermost = [loop for loop in loops if not any(isinstance(part, For) for part in statements(loop.body))]
    assert innermost and not any("select" in str(loop) for loop in innermost)
    lets = [inner for inner in statements(lower(s, [a, c]).body) if isinstance(inner, Let)]
    assert len([let for let in lets if "select" in str(let)]) == 1


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


def test_symbolic_sizes() -> None:
    s, *_ = tiles(te.size_var("n"))
    f = lower(s)
    for n in (0, 1, 6, 13):
        check_run(f, s, {"n": n})
    for n in (0, 13):
        check_c(f, s, {"n": n})


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


@swept({
    "numbers": (6, 1200, programs(also="doubled"), {True}, False),
    "sizes": (2, 600, programs(also="doubled", symbolic=True, most=3), (), False),
    "in C": (0, 400, programs(also="doubled"), (), True),
})  # fmt: skip
def test_random_double_buffers(c: bool, program: Program) -> bool:
    """Programs equal the reference; gives whether some buffer is double and the schedule accepted."""
    try:
        f = check(program.schedule, program.sizes)
    except ScheduleError:
        return False
    if c:
        check_c(f, program.schedule, program.sizes)
    return any(stage.double_buffered for stage in program.schedule.stages)

"""Sliding windows and double buffers, lowered: against the reference in every form, and in C."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from bound.tensor import Tensor
from lowering import Function, lower
from lowering.nest.ir import For, Let
from lowering.nest.walk import statements
from tests.bound.infer.test_sliding import READERS, SUM3, program
from tests.lowering.equivalence import Interpreter
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, swept

FORMS = [*product(("exact", "box"), ("guard", "split", "auto")), (None, "auto")]


class Stores(Interpreter):
    """A run that counts the stores to each tensor; no data decides what runs."""

    def __init__(self, f: Function, sizes: Mapping[str, int] | None = None) -> None:
        self.counts: Counter[str] = Counter()
        super().__init__(f, {t.name: {} for t in f.params}, sizes or {})
        self.run()

    def value(self, e: Any) -> Any:
        return 0 if isinstance(e, tir.Value) else super().value(e)

    def store(self, tensor: Tensor, place: tuple[int, ...], value: Any) -> None:
        self.counts[tensor.name] += 1


def slid(kind: str, tile: int | None) -> tuple[Schedule, Any]:
    in_tiles = f"C split y {tile}; B compute_at C y.inner; B store_at C y.outer"
    p = program(kind, in_tiles if tile else "B compute_at C y; B store_root")
    return p.s, p.B


@pytest.mark.parametrize(
    ("kind", "tile", "form", "compact"), daily(product(READERS, (None, 4), FORMS, (False, True)), 37)
)
def test_every_form_equals_the_reference_and_stores_once(
    kind: str, tile: int | None, form: tuple[str | None, str], compact: bool
) -> None:
    s, B = slid(kind, tile)
    f = check(s, compute=form[0], nests=form[1], compact=compact)
    if form[0] == "exact":
        assert Stores(f).counts["B"] == infer_bound(s).computed(B).count_total()


@pytest.mark.parametrize(("kind", "tile"), [(SUM3, None), ("strided", 4), ("to and fro", None), ("skewed", 4)])
def test_c(kind: str, tile: int | None) -> None:
    s, _ = slid(kind, tile)
    check_c(lower(s, strength=tile is None), s, sanitize=kind == "skewed")


@swept({
    "windows": (20, 2000, programs(also="stored"), {True}, "exact", False),
    "windows of sizes": (3, 1000, programs(also="stored", symbolic=True, most=3), (), "exact", False),
    "windows in C": (0, 30, programs(also="stored"), (), "exact", True),
    "double buffers": (6, 1200, programs(also="doubled"), {True}, "auto", False),
    "double buffers of sizes": (4, 600, programs(also="doubled", symbolic=True, most=3), (), "auto", False),
    "double buffers in C": (0, 400, programs(also="doubled"), (), "auto", True),
})  # fmt: skip
def test_random_programs(compute: str, c: bool, program: Program) -> bool:
    """Programs equal the reference; gives whether some stage keeps elements between iterations, or has two halves."""
    b = program.inferred()
    stages = program.schedule.stages
    if b is None or not any(s.double_buffered or (s.store_type is not None and b.slid(s)) for s in stages):
        return False
    try:
        f = check(program.schedule, program.sizes, compute=compute)
    except ScheduleError:
        return False
    if c:
        check_c(f, program.schedule, program.sizes)
    return True


def test_what_an_innermost_loop_chooses_alike_is_chosen_before_it() -> None:
    """One choice for all rows that a stencil reads: each is a constant from the first."""
    f = lower(
        Written("""
        A = given(12, 20)
        B[y:10, x:20] = A[y, x] + A[y + 1, x] + A[y + 2, x]
        C[y:8, x:20] = B[y, x] + B[y + 1, x] + B[y + 2, x]
        B compute_at C y; B store_root""").s
    )
    loops = [inner for inner in statements(f.body) if isinstance(inner, For)]
    innermost = [loop for loop in loops if not any(isinstance(part, For) for part in statements(loop.body))]
    assert innermost and not any("select" in str(loop) for loop in innermost)
    lets = [inner for inner in statements(f.body) if isinstance(inner, Let)]
    assert len([let for let in lets if "select" in str(let)]) == 1


def tiles(n: Any) -> Schedule:
    s: Schedule = Written(
        """
        A = given(n + 2); B = pointwise(A)
        C[i:n] = B[i] + B[i + 2]
        C split i 6; B compute_at C i.outer; B double_buffer""",
        n=n,
    ).s
    return s


def test_the_next_half_is_filled_before_this_one_is_used() -> None:
    assert (
        str(lower(tiles(18)))
        == """\
def C(A: float32[20], C: float32[18]):
    allocate B: float32[16]
    for i0 in [0, 8):
        B[i0] = A[i0] + 1.0
    for i.outer in [0, 3):
        if i.outer != 2:
            i.outer.base = (i.outer + 1 & 1) * 8
            for i0 in [0, 8):
                B[i.outer.base + i0] = A[i.outer * 6 + i0 + 6] + 1.0
        i.outer.base = (i.outer & 1) * 8
        for i.inner in [0, 6):
            C[i.outer * 6 + i.inner] = B[i.outer.base + i.inner] + B[i.outer.base + i.inner + 2]"""
    )


def test_symbolic_sizes() -> None:
    s = tiles(te.size_var("n"))
    f = lower(s)
    for n in (0, 1, 6, 13):
        check_run(f, s, {"n": n})
    for n in (0, 13):
        check_c(f, s, {"n": n})


TILES = """
    A = given(20); B = pointwise(A)
    C[i:18] = B[i] + B[i + 2]
    C split i 6; B compute_at C i.outer; B double_buffer"""
STAGES = """
    A = given(24); B = pointwise(A)
    C[i:22] = B[i] + B[i + 2]
    D[i:20] = C[i] * B[i + 2]
    D split i 6; B compute_at D i.outer; C compute_at D i.outer; C double_buffer"""
REFUSED = {
    STAGES: r"stage C: double_buffer .* an iteration of i.outer ahead, but B is",
    f"{TILES}; C parallel i.outer": r"stage B: double_buffer has no next .* those of i.outer do not run",
    f"{TILES}; C vectorize i.outer": r"stage B: double_buffer has no next .* those of i.outer do not run",
    f"{TILES}; C bind i.outer blockIdx.x": r"stage B: double_buffer has no next iteration to fill: ",
    f"{TILES}; B compute_root": r"stage B: double_buffer has no next iteration to fill: ",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_next_iteration_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match=REFUSED[text]):
        lower(Written(text).s)


def test_conditions_are_those_of_the_iteration_that_is_filled() -> None:
    check(Written(f"{STAGES}; B double_buffer").s)
    s = Written("""
        A = given(24); B = pointwise(A)
        C[i:20] = where(i // 4 % 2 < 1, B[i] + B[i + 1], 0.0)
        C split i 4; B compute_at C i.outer; B double_buffer""").s
    for compact in (False, True):
        check_c(check(s, compact=compact), s, sanitize=True)

"""InferBound on written programs: the corpus of schedules, issues of TVM and Halide, exact regions beside boxes."""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import Any

import pytest

from bound import infer_bound, te
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.schedule.stage import ScheduleError
from bound.tensor import Tensor
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var, as_expr
from tests.bound.corpus import CASES, can_run, recorded
from tests.bound.oracle import check
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, sampled

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


@pytest.mark.parametrize(("name", "domain"), [(name, "auto") for name in ANSWERED] + daily(BY_ISL, 8))
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


@pytest.mark.parametrize("start", daily(range(8), 8))
def test_the_nests_here_do_what_is_said_of_them(start: int) -> None:
    ran = 0
    for name in ANSWERED[start::8]:
        if can_run(CASES[name]["fn"]()):
            ran += 1
            check(bounds_of(name), regions=False)
            check(bounds_of(name, compute="box"), exact=False, regions=False)
    assert ran > 9


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


PAIR = """
    A = given({}); B = pointwise(A)
    C[{}] = {}"""
CONVOLUTION = """
    P{1}[i:58, j:58] = where(tir.all(i >= 1, i < 57, j >= 1, j < 57), {0}[i - 1, j - 1], 0.0)
    y{1} = axis(0, 3); x{1} = axis(0, 3)
    O{1}[i:56, j:56] = sum_(P{1}[i + y{1}, j + x{1}], axis=[y{1}, x{1}])"""
TENSORIZED = """
    A = given(16, 20); B = pointwise(A); tile = given(3, 20)
    row[j:20] = tile[0, j] + tile[1, j] + tile[2, j]
    add3 = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="add3")
    C = te.compute((14, 20), lambda i: add3(B[i : i + 3, 0:20]), name="C")"""

HALIDE = (  # where Halide 21 stores more: the shapes of B and C, what C reads, calls
    ("point downsample", "64, 64", "i:32, j:32", "B[2 * i, 2 * j]", "", 1024, [63, 63]),
    ("stride 4, tile 4", 128, "i:32", "B[4 * i]", "C split i 4; B compute_at C i.outer", 4, [13]),
    ("dilated by 4, a point", 48, "i:32", "B[i] + B[i + 4] + B[i + 8]", "B compute_at C i", 3, [9]),
    ("interleave", 32, "i:32", "tir.Select((i % 2).eq(0), B[i], tir.const(0.0, 'float32'))", "", 16, [31]),
    ("disjoint consumers", 1016, "i:16", "B[i] + B[i + 1000]", "", 32, [1016]),
    ("slices", "16, 101", "i:16", "B[i, 0] + B[i, 100]", "", 32, [16, 101]),
    ("reshape in tiles of 4", "16, 16", "t:256", "B[t // 16, t % 16]",
     "C split t 4; B compute_at C t.outer", 4, [1, 4]),
    ("fuse and split by 4", "16, 16", "i:16, j:16", "B[i, j]",
     "C fuse i j; C split i.j.fused 4; B compute_at C i.j.fused.outer", 4, [1, 4]),
    ("x % 16", 16, "x:64", "B[x % 16]", "C split x 4; B compute_at C x.outer", 4, [4]),
    ("4*x % 16", 16, "x:4", "B[(4 * x) % 16]", "", 4, [13]),
    ("x+y, x-y", "31, 31", "x:16, y:16", "B[x + y, x - y + 15]", "", 256, [31, 31]),
    ("main diagonal", "32, 32", "x:32", "B[x, x]", "", 32, [32, 32]),
    ("triangle", "32, 32", "x:32, y:32", "where(x <= y, B[x, y], 0.0)", "", 528, [32, 32]),
    ("x - x//8*8", 64, "x:64", "B[x - (x // 8) * 8]", "", 8, [8]),
    ("x+y - x//5*5", 64, "x:60, y:4", "B[(x + y) - (x // 5) * 5]", "", 8, [8]),
    ("x * (10 - x)", 26, "x:11", "B[x * (10 - x)]", "", 6, [26]),
    ("clamp", 32, "x:32", "B[maximum(minimum(x, 20), 8)]", "C split x 4; B compute_at C x.outer", 4, [4]),
    ("reflect", 32, "x:40", "B[minimum(maximum(4 - x, x - 4), 66 - x)]",
     "C split x 4; B compute_at C x.outer", 4, [4]),
    ("diagonal sliding", "21, 21", "x:10, y:10",
     "B[x + y + 2, x - y + 11] + B[x + y, x - y + 9] + B[x + y, x - y + 11]", "", None, None),
    ("linearised tiles", 4096, "y:64, x:64", "B[y * 64 + x]", "C tile y x 8 8; B compute_at C x.outer", 64,
     [456]),
    # halide 4808: 100 elements, split by 64 with a guard, then by 8 rounding up: 168 stored there
    ("nested tails, unchecked", 128, "i:100", "B[i]", "C split i 64; C split i.inner 8 tail=round_up", None,
     [100]),
)  # fmt: skip
# program; for each tensor: required elements (largest instance, total), storage extents
NAMED: dict[str, tuple[str, dict[str, tuple[int | None, int | None, list[int] | None]]]] = {
    # -- reported to TVM
    **{
        f"fuse then split by {factor} (apache/tvm 3072, 3073, 3679)": (
            PAIR.format("12, 6", "i:12, j:6", "B[i, j]")
            + f"\n    C fuse i j; C split i.j.fused {factor}; B compute_at C i.j.fused.outer",
            {"B": (factor, 72, extents)},
        )
        for factor, extents in ((12, [2, 6]), (9, [2, 6]), (3, [1, 3]))
    },
    # three 3x3 convolutions of 56x56 images, each padded to 58x58
    "stacked convolutions keep their padded buffers (apache/tvm 3096), unchecked": (
        "X = given(56, 56)" + "".join(CONVOLUTION.format(f"O{k - 1}" if k else "X", k) for k in range(3)),
        {f"P{k}": (None, 58 * 58, [58, 58]) for k in range(3)},
    ),
    "terms that cancel (apache/tvm 2104, 3526)": (
        PAIR.format(20, "i:20", "B[i + (0 - i)]") + "\n    B compute_at C i", {"B": (1, 20, [1])}
    ),
    "the region of a tensorized consumer (apache/tvm 2564), unchecked": (
        f"{TENSORIZED}\n    schedule C", {"B": (None, 320, None)}
    ),
    "a tensorized consumer around its producer, unchecked": (
        f"{TENSORIZED}\n    schedule C\n    B compute_at C i", {"B": (60, 14 * 60, [3, 20])}
    ),
    "a factor larger than the extent (apache/tvm 4885, 4931)": (
        PAIR.format(5, "i:5", "B[i] * 2") + "\n    C split i 16; B compute_at C i.outer", {"B": (5, 5, [5])}
    ),
    "a factor larger than the extent on a thread (apache/tvm 5027)": (
        PAIR.format(5, "i:5", "B[i] * 2") + "\n    C split i 16; C bind i.inner threadIdx.x; B compute_at C i.outer",
        {"B": (5, 5, [5])},
    ),
    "the second of two outputs alone": (
        "A = given(16)\nXY[i:16] = (A[i] + 1, A[i] * 2)\nX, Y = XY\nC[i:4] = Y[i * 3]",
        {"X": (0, 0, [10]), "Y": (4, 4, None)},
    ),
    "truncating remainders of negative indices": (
        PAIR.format(5, "i:9", "B[tir.truncmod(i - 4, 3) + 2]"), {"B": (5, 5, [5])}
    ),
    "truncating remainders, one by one": (
        PAIR.format(5, "i:9", "B[tir.truncmod(i - 4, 3) + 2]") + "\n    B compute_at C i", {"B": (1, 9, [1])}
    ),
    **{
        name: (PAIR.format(shape, out, read) + f"\n    {calls}", {"B": (count, None, extents)})
        for name, shape, out, read, calls, count, extents in HALIDE
    },
    "strided convolution with a gap": (
        "A = given(96); B = pointwise(A); r = axis(0, 2)\nC[x:32] = sum_(B[3 * x + r], axis=r)", {"B": (64, 64, [95])}
    ),
    "skew and unskew": (
        "A0 = given(31); A = pointwise(A0)\nB[i:31, j:16] = A[maximum(i - j, 0)]\nC[i:16, j:16] = B[i + j, j]",
        {"B": (256, 256, None), "A": (16, 16, None)},
    ),
    "a reduction below the diagonal": (
        """
        A = given(16, 16); B = pointwise(A); r = axis(0, 16)
        C[x:16] = sum_(B[maximum(x - r, 0), r], axis=r, where=r <= x)""",
        {"B": (136, 136, None)},
    ),
    "concatenation allocates a tile of each": (
        """
        A = given(32); X = pointwise(A)
        Y[i:32] = A[i] + 2
        C[i:64] = where(i < 32, X[i], Y[i - 32])
        C split i 8; X compute_at C i.outer; Y compute_at C i.outer""",
        {"X": (8, 32, [8]), "Y": (8, 32, [8])},
    ),
    **{
        f"tiles of symbolic length, {name}, unchecked": (
            f"n = var(); A = given(n, 16); B = pointwise(A)\n{program}", {"B": (None, None, [1, 4])}
        )
        for name, program in {
            "reshaped": "C[t:n * 16] = B[t // 16, t % 16]\nC split t 4; B compute_at C t.outer",
            "fused": "C[i:n, j:16] = B[i, j]\nC fuse i j; C split i.j.fused 4; B compute_at C i.j.fused.outer",
        }.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_case(name: str) -> None:
    text, expected = NAMED[name]
    p = Written(text)
    b = infer_bound(p.s)
    if "unchecked" not in name:
        check(b, regions=all(name != row[0] for row in HALIDE))
    for tensor, (most, total, extents) in expected.items():
        region = b.required(p.names[tensor])
        assert most is None or region.count_max() == most
        assert total is None or region.count_total() == total
        assert extents is None or [int(r.extent) for r in b.allocated(p.names[tensor])] == extents


def test_named_programs_compute_more_than_is_read_and_have_these_guards() -> None:
    p = Written(f"{TENSORIZED}\n    D[i:14] = C[i, 3]\n    schedule D\n    C compute_at D i")
    found = infer_bound(p.s)
    assert found.required(p.C).count_max() == 1 and found.computed(p.C).count_max() == 20
    assert found.required(p.B).count() == 320
    p = Written(NAMED["the second of two outputs alone"][0])
    found = infer_bound(p.s)
    assert found.required(p.X).is_empty and found.required(p.X).count() == 0 and found.computed(p.X).count() == 4
    p, q = (Written(NAMED[name][0]) for name in NAMED if name.startswith("a factor"))
    b = infer_bound(p.s)
    assert b.guard(p.C) == () and [int(b[iv].extent) for iv in p.s[p.C].leaf_iter_vars] == [1, 5]
    b = infer_bound(q.s)
    assert [str(g) for g in b.guard(q.C)] == ["i.inner <= 4"]
    assert [int(b[iv].extent) for iv in (q.s[q.C].leaf_iter_vars[1], q.threads["threadIdx.x"])] == [16, 16]
    stacked = Written(next(text for name, (text, _) in NAMED.items() if name.startswith("stacked")))
    assert [infer_bound(stacked.s).guard(t) for t in stacked("P0 P1 P2")] == [()] * 3


def test_stencils_in_chains_and_tiles_keep_their_extents() -> None:
    p = Written(NAMED["tiles of symbolic length, reshaped, unchecked"][0])
    outer = p.s[p.C].leaf_iter_vars[0]
    assert infer_bound(p.s).required(p.B).at({p.n: 4, outer: 5}).count() == 4
    s, stages = tiled([((0, 1), (2, 1), (1, 0), (1, 2))] * 6, [120, 320], (16, 32), -1, (1, 1))
    b = infer_bound(s)
    for further, t in enumerate(reversed(stages[:-1]), 1):
        assert [int(r.extent) for r in b.allocated(t)] == [16 + 2 * further, 32 + 2 * further]
        assert {v for r in b.required(t).box for v in as_expr(r.min).free_vars()} == {*s[stages[-1]].leaf_iter_vars[:2]}
    # Where the ends of a footprint are not written, the box around it is listed, not subtracted as intervals.
    several = (((4, 2), (4, 4), (1, 4), (4, 0)), ((3, 2), (0, 4)), ((4, 2),), ((4, 3), (3, 0), (3, 1)))
    wide = (((0, 3),), ((3, 1), (4, 4)), ((0, 0), (2, 4), (2, 2), (0, 4)), ((3, 2), (2, 2), (1, 4)))
    for chain in (
        tiled((((2, 2),), ((2, 2),), ((4, 3),), *several), [106, 142], (3, 32), 3, (2, 1)),
        tiled((*wide, ((4, 2), (2, 4), (0, 0))), [94, 1110], (5, 5), 2, (1, 2)),
    ):
        check_within_boxes(chain[0], chain[1][:-1])


_Taps = tuple[tuple[int, int], ...]  # where a stage reads the one before


def tiled(taps: Sequence[_Taps], shape: list[int], tile: tuple[int, int], at: int, ratio: tuple[int, int]) -> Any:
    """A chain of stencils in tiles of the last, and its stages; stage `at` reads at `ratio` of its indices."""
    current, stages = te.placeholder(shape, name="A"), []
    for k, reads in enumerate(taps):
        up, down = ratio if k == at else (1, 1)
        shape = [(e - 6) * down // up - 3 * (k == at) for e in shape]

        def stencil(y: Expr, x: Expr, p: Tensor = current, reads: Any = reads, up: int = up, down: int = down) -> Any:
            return reduce(add, (p[(y * up + a) // down, (x * up + b) // down] for a, b in reads))

        current = te.compute(shape, stencil, name=f"S{k}")
        stages.append(current)
    s = te.create_schedule(current.op)
    _, xo, _, _ = s[current].tile(*current.op.axis, *tile)
    for t in stages[:-1]:
        s[t].compute_at(s[current], xo)
    return s, stages


def check_within_boxes(s: Schedule, tensors: list[Tensor], choices: Sequence[Mapping[Var, int]] = ({},)) -> None:
    """Assert that extents of the exact answer are at most those of boxes, at several sizes."""
    exact, boxed = infer_bound(s), infer_bound(s, compute="box")
    for t, at in product(tensors, choices):
        for mine, other in zip(exact.allocated(t), boxed.allocated(t), strict=True):
            assert evaluate(mine.extent, at) <= max(evaluate(other.extent, at), 0), (t.name, mine, other, at)


@sampled(4, 1000, programs(reads="lattice", also="tiles", most=2), shows={True})
def test_no_allocation_exceeds_that_of_boxes(program: Program) -> bool:
    b = program.inferred(compute="box")
    if b is not None:
        stored = [t for t in program.stages if b.is_computed(b.stage(t))]
        check_within_boxes(program.schedule, stored, [*map(program.values, program.choices)])
    return b is not None

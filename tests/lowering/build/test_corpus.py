"""Lowered schedules of the corpus, of the InferBound document and random ones; questions that isl refuses."""

from collections import Counter
from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import Context, Range, ShapeVar, Var
from intset.domains.isl import bindings
from intset.domains.isl.presburger import IslShape
from intset.domains.isl.session import context, isl
from intset.errors import InputError
from intset.linear.lattice import lattice
from intset.prover.proof import PROOFS
from lowering import Function, lower, rebase, run, simplify, to_c
from lowering.build.function import nest_of
from lowering.nest.ir import For, Let
from lowering.nest.walk import statements
from tests.bound.corpus import CASES
from tests.bound.infer.test_sliding import READERS, SUM3, program
from tests.lowering.equivalence import Interpreter
from tests.lowering.lowered import check, check_c, check_run, close, of_corpus, problem
from tests.strategies.refusals import refused_by
from tests.strategies.schedules import Program, programs
from tests.strategies.written import Written
from tests.sweeps import daily, swept

REFUSED = tuple(name for name in CASES if name.startswith("reject_"))
RUN = tuple(name for name in CASES if name not in REFUSED)
FUNCTIONS = {"f": lambda given, result: result.__setitem__(Ellipsis, given * 2)}


def functions_of(name: str) -> Any:
    return FUNCTIONS if "extern" in CASES[name]["tags"] else None


@pytest.mark.parametrize("name", daily(RUN, 4))
def test_the_nest_equals_the_reference(name: str) -> None:
    s, f = of_corpus(name)
    check_run(f, s, CASES[name]["sub"], functions_of(name))


@pytest.mark.parametrize("name", daily(RUN, 12))
def test_the_c_code_equals_the_reference(name: str) -> None:
    s, f = of_corpus(name)
    if functions_of(name) is None:
        check_c(f, s, CASES[name]["sub"])
    else:
        with pytest.raises(InputError, match="a function of the host"):
            to_c(f)


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_the_rules_is_refused(name: str) -> None:
    with pytest.raises(ScheduleError):
        lower(CASES[name]["fn"]())


@pytest.mark.parametrize("name", daily(RUN[::2], 4))
def test_each_pass_keeps_the_meaning(name: str) -> None:
    case = CASES[name]
    s = case["fn"]()
    given, expected = problem(s, case["sub"], functions_of(name))
    f = nest_of(infer_bound(s))
    for step in (f, simplify(f), rebase(f), rebase(simplify(f))):
        close(run(step, given, case["sub"], functions_of(name)), expected)


@pytest.mark.parametrize("name", daily(RUN[1::2], 4))
def test_boxes_without_guards_equal_the_reference(name: str) -> None:
    case = CASES[name]
    s = case["fn"]()
    check(s, case["sub"], functions_of(name), bounds=infer_bound(s, compute="box"))


@pytest.mark.parametrize("name", daily([name for name in RUN if CASES[name]["sub"]], 2))
def test_sizes_can_be_fixed(name: str) -> None:
    case = CASES[name]
    s, with_sizes = of_corpus(name)
    sizes = {v.name: case["sub"][v.name] for v in with_sizes.sizes}
    f = check(s, case["sub"], at=sizes)
    assert str(f) == str(lower(s, bounds=infer_bound(s, at=sizes)))
    assert all(f"assert {n} == {value}" in str(f) for n, value in sizes.items())


def nest(f: Any) -> str:
    """Print the body of a function, one level of indentation less."""
    return "\n".join(line[4:] for line in str(f).splitlines()[1:])


EXAMPLES = {
    "doc_ex3_at_i": """\
for i in [0, 5):
    allocate C: int32[1, 16] at [i, 0]
    for j in [0, 16):
        C[0, j] = 5
    for j in [0, 16):
        D[i, j] = C[0, j] * 2""",
    "doc_ex6_fuse_split4": """\
for i.j.fused.outer in [0, 4):
    allocate B: float32[1, 4] at [i.j.fused.outer, 0]
    for j in [0, 4):
        B[0, j] = A[i.j.fused.outer, j] + 2.0
    for i.j.fused.inner in [0, 4):
        C[i.j.fused.outer, i.j.fused.inner] = B[0, i.j.fused.inner] * 3.0""",
    "doc_split_20_16": """\
for i.outer in [0, 2):
    allocate B: float32[16] at [i.outer * 16]
    for i in [0, minimum(20 - i.outer * 16, 16)):
        B[i] = A[i.outer * 16 + i] + 1.0
    for i.inner in [0, minimum(20 - i.outer * 16, 16)):
        C[i.outer * 16 + i.inner] = B[i.inner] * 2.0""",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_documents_nests(name: str) -> None:
    s, f = of_corpus(name)
    check_run(f, s)
    assert nest(f) == EXAMPLES[name]


@swept({
    "numbers": (10, 12_000, programs(also="others", most=3), {True}, False),
    "sizes": (3, 6000, programs(symbolic=True, most=3), {True}, False),
    "numbers in C": (2, 40, programs(most=3), {True}, True),
    "sizes in C": (1, 40, programs(symbolic=True, most=4), {True}, True),
})  # fmt: skip
def test_random_schedules(c: bool, program: Program) -> bool:
    """Programs equal the reference; gives whether the schedule is accepted."""
    b = program.inferred()
    if b is None:
        return False
    f = check(program.schedule, program.sizes, bounds=b)
    if c:
        check_c(f, program.schedule, program.sizes)
    return True


# Sets whose hulls have quantified variables that no division defines.
LOST = [(7, 7, 2, 5, 3, 5), (3, 7, 7, 4, 2, 2), (5, 5, 5, 3, 3, 3), (6, 7, 6, 5, 2, 2)]
METHODS = "Set.compute_divs Set.coalesce BasicSet.affine_hull Set.dim_max PwAff.coalesce".split()


@pytest.mark.parametrize(("a", "b", "c", "d", "e", "f"), daily(LOST, 2))
def test_the_lattice_of_a_hull_whose_quantified_variables_have_no_definition(
    a: int, b: int, c: int, d: int, e: int, f: int
) -> None:
    ends = f"0 <= x < {a} and 0 <= y < {b} and 0 <= q < {e}"
    text = f"{{ [i, j] : exists x, y, q : {ends} and i = {c}x + {d}q and j = ({e}x + {f}y) mod {a * b} }}"
    points = isl().Set.read_from_str(context(), text)
    with pytest.raises(isl().Error, match="unknown divs"):
        points.get_basic_sets()[0].affine_hull().get_constraints()
    own = [(c * x + d * q, (e * x + f * y) % (a * b)) for x in range(a) for y in range(b) for q in range(e)]
    found = IslShape(points, ()).lattice()
    assert found is not None and found[0] == lattice((0, 0), own)


@pytest.mark.parametrize("name", daily(METHODS, 2))
def test_a_question_is_answered_where_isl_refuses(
    name: str, monkeypatch: pytest.MonkeyPatch, refused: list[str]
) -> None:
    def refuse(*_: object) -> None:
        asked.append(name)
        raise bindings.Error("not today")

    asked: list[str] = []
    of, method = name.split(".")
    monkeypatch.setattr(getattr(isl(), of), method, refuse)
    PROOFS.clear()
    i, j = Var("i"), Var("j")
    ctx = Context({i: Range(0, 9), j: Range(0, 4)}, assume=[i * 4 + j < 14])
    every = {(x * 6 + y * 4) // 5 for x in range(9) for y in range(4) if x * 4 + y < 14}
    low, high = ctx.bounds((i * 6 + j * 4) // 5, domain="isl")
    assert int(low) <= min(every) and max(every) <= int(high)
    box = ctx.image(((i * 6 + j * 4) // 5, i - j), domain="isl").box
    assert set(every) <= set(range(int(box[0].min), int(box[0].min) + int(box[0].extent)))
    check(
        Written("""
        A = given(40, dtype="int32"); P = pointwise(A)
        C[x:12] = P[x * 3] + P[x * 3 // 2 * 2]
        C split x 4; P compute_at C x.outer""").s
    )
    assert asked
    refused.clear()


# -- sliding windows --------------------------------------------------------------------------------------------------


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
    "windows": (12, 2000, programs(also="stored"), {True}, "exact", False),
    "windows of sizes": (3, 1000, programs(also="stored", symbolic=True, most=3), (), "exact", False),
    "windows in C": (0, 30, programs(also="stored"), (), "exact", True),
    "double buffers": (3, 1200, programs(also="doubled"), {True}, "auto", False),
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


def test_the_next_half_is_filled_before_this_one_is_used_under_its_own_conditions() -> None:
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
    check(Written(f"{STAGES}; B double_buffer").s)
    s = Written("""
        A = given(24); B = pointwise(A)
        C[i:20] = where(i // 4 % 2 < 1, B[i] + B[i + 1], 0.0)
        C split i 4; B compute_at C i.outer; B double_buffer""").s
    for compact in (False, True):
        check_c(check(s, compact=compact), s, sanitize=True)


def test_symbolic_sizes_declared_bounds_and_divisors_are_asserted() -> None:
    s = tiles(te.size_var("n"))
    f = lower(s)
    for n in (0, 1, 6, 13):
        check_run(f, s, {"n": n})
    for n in (0, 13):
        check_c(f, s, {"n": n})
    n = ShapeVar("n", lower=1, upper=64, multiple_of=8)
    text = nest(check(Written("A = given(n); B = pointwise(A)\nB split i0 8", n=n).s, {"n": 24}))
    assert text.splitlines()[:3] == [
        'assert n >= 1, "n is at least 1"',
        'assert n <= 64, "n is at most 64"',
        'assert n & 7 == 0, "n is a multiple of 8"',
    ]
    assert "if" not in text


TILES = """
    A = given(20); B = pointwise(A)
    C[i:18] = B[i] + B[i + 2]
    C split i 6; B compute_at C i.outer; B double_buffer"""
STAGES = """
    A = given(24); B = pointwise(A)
    C[i:22] = B[i] + B[i + 2]
    D[i:20] = C[i] * B[i + 2]
    D split i 6; B compute_at D i.outer; C compute_at D i.outer; C double_buffer"""
NO_NEXT = {
    STAGES: r"stage C: double_buffer .* an iteration of i.outer ahead, but B is",
    f"{TILES}; C parallel i.outer": r"stage B: double_buffer has no next .* those of i.outer do not run",
    f"{TILES}; C vectorize i.outer": r"stage B: double_buffer has no next .* those of i.outer do not run",
    f"{TILES}; C bind i.outer blockIdx.x": r"stage B: double_buffer has no next iteration to fill: ",
    f"{TILES}; B compute_root": r"stage B: double_buffer has no next iteration to fill: ",
}
test_what_has_no_next_iteration_is_refused = refused_by(lambda text: lower(Written(text).s), NO_NEXT, ScheduleError)

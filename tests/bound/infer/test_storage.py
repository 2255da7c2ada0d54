"""Storage: injective places inside compact allocations, and bytes that live at once."""

import copy
import itertools
import pickle
import random
from collections.abc import Mapping
from math import prod
from typing import Any

import pytest

from bound import dtypes, infer_bound, te
from bound.errors import InputError, ScheduleError
from bound.infer import BoundsMap
from bound.schedule import Schedule
from bound.tensor import Tensor
from intset import ShapeVar, const
from intset.errors import IntSetError
from intset.expr.evaluate import evaluate
from intset.expr.node import Expr, Var, as_expr
from intset.linear.lattice import everything, inverse, lattice
from lowering import lower
from lowering.allocation import lifetimes_of
from lowering.build.function import nest_of
from lowering.nest.ir import For, Function
from lowering.nest.walk import statements
from tests.bound.corpus import CASES
from tests.bound.infer.test_tiles import answers
from tests.bound.oracle import check_places
from tests.lowering.lowered import check, check_c, check_run
from tests.strategies.schedules import Program, programs, reading
from tests.strategies.written import Written
from tests.sweeps import RANDOMS, daily, sampled, swept

# -- lattices ---------------------------------------------------------------------------------------------------------


@sampled(20, 600, RANDOMS)
def test_solutions_of_equations_are_a_lattice(rng: random.Random) -> None:
    dims = rng.randint(1, 3)
    equations = [([rng.randint(-3, 3) for _ in range(dims)], rng.randint(-4, 4)) for _ in range(rng.randint(0, 2))]
    found: Any = everything(dims)
    for row, constant in equations:
        found = found.filter(row, constant) if found is not None else None
    for point in itertools.product(range(-4, 5), repeat=dims):
        holds = all(sum(a * x for a, x in zip(row, point, strict=True)) + c == 0 for row, c in equations)
        assert holds == (found is not None and found.joined(lattice(point, [])) == found)


@sampled(20, 600, RANDOMS)
def test_the_normal_form_is_one_of_the_same_lattice(rng: random.Random) -> None:
    dims = rng.randint(1, 3)
    vectors = [tuple(rng.randint(-5, 5) for _ in range(dims)) for _ in range(rng.randint(0, 4))]
    origin = tuple(rng.randint(-5, 5) for _ in range(dims))
    found = lattice(origin, vectors)
    points = [origin, *(tuple(a + b for a, b in zip(origin, v, strict=True)) for v in vectors)]
    assert all(found.joined(lattice(point, [])) == found for point in points)
    back = lattice(origin, vectors[::-1])
    assert back == found
    assert all(lattice((0,) * dims, vectors) == lattice((0,) * dims, [*vectors, v]) for v in found.basis)
    assert found.joined(lattice(found.origin, [])) == found
    assert list(found.pivots) == sorted(set(found.pivots))


def test_the_inverse_of_a_basis() -> None:
    assert [[int(x) for x in row] for row in inverse(((1, 0), (0, 1)))] == [[1, 0], [0, 1]]
    skewed = inverse(((1, -1), (1, 1)))
    assert [sum(a * b for a, b in zip(row, (5, 9), strict=True)) for row in skewed] == [7, 2]
    assert [sum(a * b for a, b in zip(row, (6, 9), strict=True)) for row in inverse(((2, 0), (3, 0)))] == [3, 0]


# -- by name ----------------------------------------------------------------------------------------------------------


def extents(b: BoundsMap, tensor: Tensor) -> list[str]:
    return [str(r.extent) for r in b.allocated(tensor)]


NAMED = {
    "stride": ((10,), lambda T, i: T[2 * i], None, (40,), ["19"], ["10"]),
    "stride in tiles": ((10,), lambda T, i: T[3 * i + 1] + T[3 * i + 7], 4, (40,), ["16"], ["6"]),
    "two strides": ((6,), lambda T, i: T[4 * i] + T[6 * i + 2], None, (40,), ["33"], ["17"]),
    "even and odd": ((10,), lambda T, i: T[2 * i + 1] + T[2 * i], None, (40,), ["20"], ["20"]),
    "backwards": ((10,), lambda T, i: T[30 - 3 * i], None, (40,), ["28"], ["10"]),
    "diagonal": ((10,), lambda T, i: T[i, i], None, (40, 40), ["10", "10"], ["10", "1"]),
    "steep diagonal": ((10,), lambda T, i: T[3 * i, 2 * i + 1], 5, (40, 40), ["13", "9"], ["5", "1"]),
    "antidiagonal": ((10,), lambda T, i: T[i, 20 - i], None, (40, 40), ["10", "10"], ["10", "1"]),
    "skewed": ((10, 10), lambda T, i, j: T[i + j, i - j + 9], None, (40, 40), ["19", "19"], ["10", "10"]),
    "skewed tiles": ((10, 10), lambda T, i, j: T[i + j, i - j + 9], 4, (40, 40), ["13", "13"], ["4", "10"]),
    "band": ((20, 3), lambda T, i, j: T[i, i + j], None, (40, 40), ["20", "22"], ["20", "3"]),
    "column of rows": ((8, 8), lambda T, i, j: T[2 * i, j], None, (40, 40), ["15", "8"], ["8", "8"]),
    "too little saved": ((2, 2), lambda T, i, j: T[i, j] + T[i + 2, j + 2], None, (9, 9), ["4", "4"], ["4", "4"]),
}


@pytest.mark.parametrize("name", daily(NAMED, 3))
def test_named_patterns(name: str) -> None:
    shape, reads, at, source, boxed, folded = NAMED[name]
    s, T = reading(shape, reads, source, at)
    assert extents(infer_bound(s), T) == boxed
    b = infer_bound(s, compact=True)
    assert extents(b, T) == folded
    places_are_right(b)
    check_c(check(s, compact=True), s)


def test_symbolic_sizes() -> None:
    n = te.var("n")
    for (s, T), plain, folded, nests, sizes in (
        (reading((n,), lambda T, i: T[2 * i + 1] + T[2 * i + 3], (2 * n + 3,), 4),
         ["minimum(9, n * 2 + 1)"], ["minimum(5, n + 1)"], "auto", (0, 1, 2, 3, 4, 5, 11)),
        (reading((n,), lambda T, i: T[i, n - 1 - i], (n, n)), ["n", "n"], ["n", "1"], "auto", (0, 1, 7)),
        # a fold whose size is symbolic does not replace a constant box
        (reading((n,), lambda T, i: T[2 * i + 2, n + 1 - i] + T[2 * i, n + 5 - i], (2 * n + 1, n + 6), 2, "shrink"),
         ["5", "6"], ["5", "6"], "split", (0, 1, 4, 7)),
    ):  # fmt: skip
        b = infer_bound(s, compact=True)
        assert (extents(infer_bound(s), T), extents(b, T)) == (plain, folded)
        f = lower(s, bounds=b, nests=nests)
        for size in sizes:
            check_run(f, s, {"n": size})
        assert folded != ["n", "1"] or "holds element [y0, n - y0 - 1]" in repr(b.storage(T))


def test_compact_storage_is_asked_for_and_printed() -> None:
    s, T = reading((10,), lambda T, i: T[2 * i], (40,))
    plain, folded = infer_bound(s), infer_bound(s, compact=True)
    assert not plain.compact and not plain.storage(T).is_compact
    assert folded.storage(T).index([const(8)]) == (const(4),) and folded.storage(T).coordinates([4]) == (const(8),)
    assert str(lower(s)) == str(lower(s, bounds=plain)) == str(lower(s, compact=False))
    assert "float32[19]" in str(lower(s))
    with pytest.raises(InputError, match="compact=False"):
        lower(s, bounds=plain, compact=True)
    assert str(lower(s, bounds=folded)) == str(lower(s, bounds=folded, compact=True)) == str(lower(s, compact=True))
    s, T = reading((10,), lambda T, i: T[3 * i + 1] + T[3 * i + 7], (40,), 4)
    storage = infer_bound(s, compact=True).storage(T)
    assert repr(storage) == "<Storage 6: place [y0] holds element [i0.outer * 12 + y0 * 3 + 1]>"
    (axis,) = storage.axes
    assert (str(axis.base), axis.stride, str(axis.extent)) == ("i0.outer * 12 + 1", 3, "6")
    text = str(lower(s, compact=True))
    assert "allocate T: float32[6] holding T[i0.outer * 12 + 1 + y0 * 3]" in text
    assert "= T[i0.inner] + T[i0.inner + 2]" in text  # no division remains for elements on the lattice
    s, T = reading((8,), lambda T, i: T[i * (1 << 40)], (1 << 44,))
    b = infer_bound(s, compact=True)
    assert extents(b, T) == ["8"]
    assert str(b.storage(T).index([Var("x") * (1 << 40)])[0]) == "x"


EVEN = "A = given(40); T = pointwise(A)\nC[i:10] = T[2 * i]"
TENSORIZED = """
    A = given(40, 20); T = pointwise(A); tile = given(1, 20)
    row[j:20] = tile[0, j] * 2.0
    double = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="double")
    C = te.compute((14, 20), lambda i: double(T[2 * i : 2 * i + 1, 0:20]), name="C")
    schedule C"""
CALLED = """
    A = given(40); T = pointwise(A)
    E = te.extern((40,), [T], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")"""


@pytest.mark.parametrize(
    ("text", "compute", "expected"),
    [
        (f"{EVEN}\ns[T].storage_align(T.op.axis[0], 8, 0)", "exact", ["19"]),
        (f"{EVEN}\nT double_buffer; T set_scope shared", "exact", ["10"]),
        (CALLED, "exact", ["40"]),
        (EVEN, "box", ["19"]),
        (TENSORIZED, "exact", ["27", "20"]),
    ],
)
def test_what_others_lay_out_keeps_its_box(text: str, compute: str, expected: list[str]) -> None:
    p = Written(text)
    assert extents(infer_bound(p.s, compact=True, compute=compute), p.T) == expected
    if text is TENSORIZED:
        assert infer_bound(p.s, compact=True).computed(p.T).count() == 280
        check(p.s, compact=True)


@pytest.mark.parametrize(("scope", "expected"), [("shared", ["4", "4"]), ("local", ["1", "4"])])
def test_threads_share_compact_storage(scope: str, expected: list[str]) -> None:
    p = Written(f"""
        A = given(40, 40); T = pointwise(A)
        C[i:16, j:4] = T[2 * i, j * 3]
        C split i 4; C bind i.outer blockIdx.x; C bind i.inner threadIdx.x
        T compute_at C i.inner; T set_scope {scope}""")
    assert extents(infer_bound(p.s, compact=True), p.T) == expected
    check_c(check(p.s, compact=True), p.s)


# -- random programs --------------------------------------------------------------------------------------------------


def places_are_right(b: BoundsMap, sizes: dict[Var, int] | None = None) -> int:
    """Check places by a run; gives how many tensors are compact."""
    return sum(b.storage(t).is_compact for stage in check_places(b, sizes).nests for t in stage.op.outputs)


@swept({
    "strided": (4, 3000, programs(reads="lattice"), {True}),
    "strided, of symbolic sizes": (1, 1500, programs(reads="lattice", symbolic=True)),
    "of all kinds": (3, 3000, programs(also="caches others")),
})  # fmt: skip
def test_programs_in_compact_storage(program: Program) -> bool:
    """Storage by execution, and the nest against the reference; gives whether any storage is compact."""
    b = program.inferred(compact=True)
    if b is None:
        return False
    folded = places_are_right(b, program.values())
    if not program.variables:
        plain = infer_bound(program.schedule)
        for t in (t for t in program.stages if b.is_computed(b.stage(t))):
            small, large = (prod(int(str(r.extent)) for r in x.allocated(t)) for x in (b, plain))
            assert small <= large
    check(program.schedule, program.sizes, bounds=b)
    return folded > 0


NAMES = [name for name in CASES if not name.startswith("reject_")]


def allocated(f: Function, values: Mapping[Any, int], scope: str | None = None, inside: Var | None = None) -> int:
    """The largest sum of allocations of a nest that live at one time, by their first and last uses."""
    loops = [s.body for s in statements(f.body) if isinstance(s, For) and s.var is inside]
    most = 0
    for root in [f.body] if inside is None else loops:
        sized = []
        for life in lifetimes_of(root, frozenset()):
            number = dtypes.storage_bytes(life.allocate.tensor.dtype)
            for r in life.allocate.ranges:
                number *= max(0, at(as_expr(r.extent), values))
            if scope in (None, life.allocate.scope or "global"):
                sized.append((life, number))
        most = max(most, *(sum(n for b, n in sized if b.first <= a.first <= b.last) for a, _ in sized), 0)
    return most


def at(e: Expr, values: Mapping[Any, int]) -> int:
    return int(evaluate(e, {v: values[v] for v in e.free_vars()}))


def check_live(b: BoundsMap, f: Function, values: Mapping[Any, int], is_whole: bool = True) -> int:
    """Compare the bytes of each scope, and of one iteration of each loop; gives how many were not 0."""
    scopes = {None, *(stage.scope or "global" for stage in b.schedule.stages)}
    pairs = [(at(b.bytes(scope), values), allocated(f, values, scope)) for scope in scopes]
    if is_whole:
        loops = [iv for s in b.schedule.stages if b.is_computed(s) for iv in s.leaf_iter_vars]
        pairs += [(at(b.bytes(inside=iv), values), allocated(f, values, None, iv)) for iv in loops]
    assert [mine for mine, _ in pairs] == [its for _, its in pairs]
    return sum(1 for mine, _ in pairs if mine)


@pytest.mark.parametrize("name", daily(NAMES, 6))
def test_the_corpus_keeps_what_lowered_nests_allocate(name: str) -> None:
    case = CASES[name]
    for options in ({}, {"compute": "box", "compact": True}):
        s = case["fn"]()
        b = infer_bound(s, **options)
        values = {v: int(case["sub"].get(v.name, 7)) for v in b.size_variables}
        try:
            f = lower(s, bounds=b, nests="guard", unsafe=True)
        except (ScheduleError, IntSetError):
            continue
        check_live(b, f, {**dict.fromkeys(f.sizes, 7), **values}, is_whole=False)
        check_live(b, nest_of(b, unsafe=True), values)


@swept({
    "double buffers and windows": (3, 1500, programs(also="caches doubled stored copies"), {True}),
    "blocks of threads": (3, 800, programs(also="caches threads"), {True}),
    "sizes": (5, 800, programs(symbolic=True, also="stored doubled"), {True}),
})  # fmt: skip
def test_bytes_are_those_that_nests_allocate(program: Program) -> bool:
    b = program.inferred()
    if b is None:
        return False
    try:
        f = nest_of(b, unsafe=True)
    except ScheduleError:
        return False
    return sum(check_live(b, f, program.values(sizes)) for sizes in program.choices[:2]) > 0


PRODUCT = """
    A = given(256, 128); B = given(128, 192); r = axis(0, 128)
    C[i:256, j:192] = sum_(A[i, r] * B[r, j], axis=r)
    nearA, nearB = s.cache_read(A, "shared", [C]), s.cache_read(B, "shared", [C])
    C split i tm; C split j tn; C split r tk; C reorder i.outer j.outer r.outer i.inner j.inner r.inner
    nearA compute_at C r.outer; nearB compute_at C r.outer"""


def product(*tiles: Any) -> tuple[Schedule, Tensor, Any]:
    """A matrix product with shared copies of its operands in each step of the reduction."""
    p = Written(PRODUCT, **dict(zip(("tm", "tn", "tk"), tiles, strict=True)))
    return p.s, p.nearA, p.s[p.C].leaf_iter_vars[2]


def test_bytes_over_sizes_of_tiles_are_those_at_numbers_and_others_are_refused() -> None:
    tm, tn, tk = ShapeVar("tm"), ShapeVar("tn"), ShapeVar("tk")
    s, near_a, ro = product(tm, tn, tk)
    b = infer_bound(s)
    assert b.bytes("local").is_const and at(b.bytes("local"), {}) == 0
    for values in ({tm: 8, tn: 16, tk: 4}, {tm: 300, tn: 7, tk: 5}, {tm: 1, tn: 1, tk: 1}):
        expected = 4 * min(values[tk], 128) * (min(values[tm], 256) + min(values[tn], 192))
        assert at(b.bytes("shared"), values) == at(b.bytes(inside=ro), values) == at(b.bytes(), values) == expected
        assert at(b.at(values).bytes("shared"), {}) == expected
    s[near_a].double_buffer()
    b, values = infer_bound(s), {tm: 8, tn: 16, tk: 4}
    assert at(b.bytes("shared"), values) == 4 * 4 * (2 * 8 + 16)
    assert at(b.bytes(inside=ro), values) == 4 * 4 * 16  # its buffer lives outside of the loop
    b = infer_bound(product(8, 8, 8)[0])
    with pytest.raises(InputError, match=r"^a storage scope is one of .*, not 'smem'$"):
        b.bytes("smem")
    with pytest.raises(InputError, match=r"^r.outer is no loop of this schedule$"):
        b.bytes(inside=product(4, 4, 4)[2])


def test_a_call_uses_its_arguments_and_results() -> None:
    s = Written("""
        A = given(10); B = pointwise(A)
        E = te.extern((10,), [B], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
        D = pointwise(E)""").s
    before, after = lifetimes_of(lower(s).body, frozenset())
    assert before.last == after.first  # the call reads one and writes the other
    b = infer_bound(s)
    assert at(b.bytes(), {}) == at(b.bytes("global"), {}) == 80


def everything_said(b: BoundsMap) -> list[object]:
    told = [b.explain(t) for stage in b.schedule.stages if b.is_computed(stage) for t in stage.op.outputs]
    return [*answers(b), *told, str(b.items()), str(b.bytes())]


@pytest.mark.parametrize("name", daily(NAMES, 16))
def test_copies_answer_alike(name: str) -> None:
    b = infer_bound(CASES[name]["fn"]())
    unasked = pickle.dumps(b)
    expected = everything_said(b)
    for again in (pickle.loads(unasked), pickle.loads(pickle.dumps(b)), copy.deepcopy(b)):
        assert everything_said(again) == expected

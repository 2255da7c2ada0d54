"""What TVM schedules: functions scheduled before they are read, and functions scheduled after they came back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", exc_type=ImportError)

from tvm import te  # noqa: E402
from tvm.s_tir import Schedule  # noqa: E402

from lowering import parse_nest, run  # noqa: E402
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402
from tests.lowering.adapters.tvm_functions import floats  # noqa: E402


def product(*sizes: Any) -> Any:
    n, m, k = sizes or (12, 8, 16)
    A, B, r = te.placeholder((n, k), name="A"), te.placeholder((k, m), name="B"), te.reduce_axis((0, k), "k")
    return te.create_prim_func([A, B, te.compute((n, m), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")])


def twice(*sizes: Any) -> Any:
    n, m = sizes or (16, 12)
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] * 2.0, name="B")
    return te.create_prim_func([A, te.compute((n, m), lambda i, j: B[i, j] + 1.0, name="C")])


Script = Callable[[Any], object]


def split(sch: Any) -> None:
    i, j, k = sch.get_loops("C")
    sch.split(i, [None, 5])
    sch.split(j, [3, None])
    sch.split(k, [None, 5])


def tile(sch: Any) -> None:
    i, j, k = sch.get_loops("C")
    (i0, i1), (j0, j1), (k0, k1) = (sch.split(loop, [None, 4]) for loop in (i, j, k))
    sch.reorder(i0, j0, k0, i1, j1, k1)


def tile_of_threads(sch: Any) -> None:
    tile(sch)
    loops = sch.get_loops("C")
    sch.reorder(loops[5], loops[4])
    sch.vectorize(loops[4])
    sch.unroll(loops[3])
    sch.parallel(sch.fuse(*loops[:2]))


OF_PRODUCT: dict[str, Script] = {
    "split": split,
    "tile": tile,
    "tile of threads": tile_of_threads,
    "fuse": lambda sch: sch.split(sch.fuse(*sch.get_loops("C")[:2]), [None, 7]),
    "decompose": lambda sch: sch.decompose_reduction("C", sch.get_loops("C")[2]),
    "caches": lambda sch: (
        sch.compute_at(sch.cache_read("C", 0, "global"), sch.get_loops("C")[0]),
        sch.reverse_compute_at(sch.cache_write("C", 0, "local"), sch.get_loops("C")[1]),
    ),
    "rfactor": lambda sch: sch.rfactor(sch.split(sch.get_loops("C")[2], [4, None])[0], 0),
    "pad_einsum": lambda sch: sch.pad_einsum("C", [5, 5, 5]),
    "blocks of blocks": lambda sch: (tile(sch), sch.blockize(sch.get_loops("C")[3])),
    "layout of a block": lambda sch: sch.transform_block_layout("C", lambda i, j, k: [i * 8 + j, k]),
}
OF_TWICE: dict[str, Script] = {
    "compute_at": lambda sch: sch.compute_at("B", sch.split(sch.get_loops("C")[0], [None, 5])[0]),
    "reverse_compute_at": lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[1]),
    "inline": lambda sch: sch.compute_inline("B"),
    "reverse inline": lambda sch: sch.reverse_compute_inline("C"),
    "layout": lambda sch: sch.transform_layout("B", ("write", 0), lambda i, j: [i // 5, i % 5, j], pad_value=0.0),
    "storage": lambda sch: (sch.storage_align("B", 0, axis=0, factor=16, offset=1), sch.set_scope("B", 0, "shared")),
}
OF_SIZES = ("split", "tile", "caches", "compute_at", "inline", "layout")
NAMED = {**OF_PRODUCT, **OF_TWICE}


def called(func: Any, *arrays: Any) -> Any:
    """The last parameter after a call of TVM's code."""
    given = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(func, target="llvm")(*given)
    return given[-1].numpy()


def inputs(make: Any) -> tuple[list[Any], Any]:
    """Arrays of the sizes that `make` has by default, and the result."""
    rng = np.random.default_rng(5)
    if make is product:
        a, b = floats(rng, 12, 16), floats(rng, 16, 8)
        return [a, b], a @ b
    a = floats(rng, 16, 12)
    return [a], a * 2 + 1


def scheduled(func: Any, name: str) -> Any:
    sch = Schedule(func)
    NAMED[name](sch)
    return sch.mod["main"]


def equal(func: Any, make: Any) -> None:
    arrays, expected = inputs(make)
    np.testing.assert_allclose(called(func, *arrays, np.zeros_like(expected)), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", NAMED)
def test_scheduled_functions_there_and_back(name: str) -> None:
    make = product if name in OF_PRODUCT else twice
    func = scheduled(make(), name)
    f = from_tvm(func)
    arrays, expected = inputs(make)
    found = run(f, dict(zip(("A", "B"), arrays, strict=False)))["C"]
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    equal(to_tvm(f, like=func), make)
    equal(to_tvm(f, like=func, blocks=False), make)
    func = make()
    equal(scheduled(to_tvm(from_tvm(func), like=func), name), make)
    equal(scheduled(to_tvm(from_tvm(func)), name), make)


@pytest.mark.parametrize("name", OF_SIZES)
def test_functions_of_any_size_take_schedules_too(name: str) -> None:
    make = product if name in OF_PRODUCT else twice
    func = make(*map(te.var, "nmk" if make is product else "nm"))
    equal(scheduled(to_tvm(from_tvm(func), like=func), name), make)


@pytest.mark.parametrize("name", ["split", "tile", "compute_at"])
def test_iterations_of_split_loops_are_one_variable_again(name: str) -> None:
    """The way back finds the block that TVM has, so the same schedule applies once more."""
    func = scheduled((product if name in OF_PRODUCT else twice)(), name)
    again = to_tvm(from_tvm(func), like=func)
    found = []
    for sch in (Schedule(func), Schedule(again)):
        axes = sch.get(sch.get_sblock("C")).iter_vars
        found.append(([int(v.dom.extent) for v in axes if v.iter_type == 0], len(sch.get_loops("C"))))
    assert found[0] == found[1]


KINDS = {
    "B[i, j] = A[i, j]": "SS",
    "B[0, j] = B[0, j] + A[i, j]": "SR",  # indices first, then loops
    "B[0, j] = max(B[0, j], A[i, j])": "SR",
    "B[0, j] = B[0, j] * 0.5 + A[i, j]": "SO",  # its order matters
    "B[0, j] = A[i, j]": "SO",  # the last one stays
    "B[i, j] = B[i, maximum(j - 1, 0)] + A[i, j]": "SO",  # reads what another iteration stores
    "B[i // 2, j] = A[i, j]": "SO",
    "B[7 - i, j] = A[i, j]": "SS",
    "B[(i * 6 + j) // 6, (i * 6 + j) % 6] = A[i, j]": "SS",
}


@pytest.mark.parametrize("store", KINDS)
def test_blocks_claim_only_what_holds(store: str) -> None:
    """Spatial iterations are independent, reductions commute; enumerated: the loops in reverse compute the same."""
    text = "def f(A: float32[8, 6], B: float32[8, 6]):\n    for i in [0, 8):\n        for j in [0, 6):\n            "
    f = parse_nest(text + store + "\n")
    sch = Schedule(to_tvm(f))
    kinds = "".join({0: "S", 2: "R", 4: "O"}[v.iter_type] for v in sch.get(sch.get_sblock("B")).iter_vars)
    assert kinds == KINDS[store]
    a = floats(np.random.default_rng(1), 8, 6)
    expected = run(f, {"A": a, "B": np.ones_like(a)})["B"]
    np.testing.assert_allclose(called(sch.mod["main"], a, np.ones_like(a)), expected, rtol=1e-5)
    if "O" not in kinds:
        sch.reorder(*reversed(sch.get_loops("B")))
        np.testing.assert_allclose(called(sch.mod["main"], a, np.ones_like(a)), expected, rtol=1e-5)


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize(
    ("extent", "is_vector"), [("minimum(n - i * 8, 8)", True), ("n % 5", True), ("n - i * 8", False)]
)
def test_vectorized_loops_with_a_remainder_compile(extent: str, is_vector: bool, blocks: bool) -> None:
    """TVM takes vectors of constant length: what the extent leaves out is guarded, an unbounded loop is serial."""
    text = "def f(A: float32[n], B: float32[n], n):\n    for i in [0, (n + 7) // 8):\n        "
    f = parse_nest(text + f"for j in [0, {extent}) vectorized:\n            B[i * 8 + j] = A[i * 8 + j] + 1.0\n")
    func = to_tvm(f, blocks=blocks)
    assert ("T.vectorized" in str(func)) is is_vector
    for n in (3, 20):
        a = floats(np.random.default_rng(n), n)
        expected = run(f, {"A": a, "B": np.ones_like(a)})["B"]
        np.testing.assert_allclose(called(func, a, np.ones_like(a)), expected, rtol=1e-5)

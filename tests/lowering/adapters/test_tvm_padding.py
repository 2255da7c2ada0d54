"""Layouts, contracts and plans of functions read from TVM, compiled by TVM after they came back."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", exc_type=ImportError)

from tvm import te  # noqa: E402

from lowering import (  # noqa: E402
    UNTOUCHED,
    Graph,
    IndexMap,
    cache_read,
    contract,
    pad_options,
    remove_assume,
    remove_branching_through_overcompute,
    run,
    simplify,
    transform_layout,
)
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402
from tests.lowering.adapters.tvm_functions import floats  # noqa: E402


def read(*tensors: Any, name: str = "main") -> Any:
    return from_tvm(te.create_prim_func([*tensors]).with_attr("global_symbol", name))


def by_tvm(f: Any, *arrays: Any) -> Any:
    """The last parameter, computed by TVM from the others."""
    func = to_tvm(remove_assume(f))
    shape = [int(e) for e in func.params[-1].ty.shape]
    held = [tvm.runtime.tensor(a) for a in (*arrays, np.zeros(shape, f.params[-1].dtype))]
    tvm.compile(func, target="llvm")(*held)
    return held[-1].numpy()


def product() -> Any:
    A, B, k = te.placeholder((12, 10), name="A"), te.placeholder((10, 7), name="B"), te.reduce_axis((0, 10), "k")
    return read(A, B, te.compute((12, 7), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C"))


LAYOUTS: list[tuple[str, Callable[..., Any]]] = [
    ("A", lambda i, k: [k, i]),
    ("A", lambda i, k: [i // 4, k // 4, i % 4, k % 4]),
    ("B", lambda k, j: [j // 4, k, j % 4]),
    ("B", lambda k, j: [k * 7 + j]),
    ("C", lambda i, j: [i // 5, j, i % 5]),
]


@pytest.mark.parametrize("pad_value", [None, 0])
@pytest.mark.parametrize("k", range(len(LAYOUTS)))
def test_a_layout_of_each_tensor(k: int, pad_value: int | None) -> None:
    name, mapping = LAYOUTS[k]
    rng = np.random.default_rng(k)
    arrays = {"A": floats(rng, 12, 10), "B": floats(rng, 10, 7)}
    expected = arrays["A"] @ arrays["B"]
    f = transform_layout(product(), name, mapping, pad_value=pad_value)
    layout = f.layouts[name]
    given = [layout.pack(a, 0) if key == name else a for key, a in arrays.items()]
    for version in (f, simplify(f), remove_branching_through_overcompute(f)):
        found = by_tvm(version, *given)
        found = layout.unpack(found) if name == "C" else found
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_layout_behind_the_interface() -> None:
    f = transform_layout(cache_read(product(), "B"), "BC", lambda k, j: [j // 4, k, j % 4])
    rng = np.random.default_rng(1)
    a, b = floats(rng, 12, 10), floats(rng, 10, 7)
    np.testing.assert_allclose(by_tvm(f, a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_a_layout_of_any_size() -> None:
    n = te.var("n")
    A = te.placeholder((n, 6), name="A")
    func = te.create_prim_func([A, te.compute((n, 6), lambda i, j: A[i, j] * 2.0, name="B")])
    f = transform_layout(from_tvm(func), "A", lambda i, j: [i // 4, j, i % 4])
    back = tvm.compile(to_tvm(f), target="llvm")
    for size in (1, 4, 7):
        a = floats(np.random.default_rng(size), size, 6)
        packed = IndexMap(lambda i, j: [i // 4, j, i % 4], (size, 6)).pack(a, 0)
        result = tvm.runtime.tensor(np.zeros_like(a))
        back(tvm.runtime.tensor(packed), result)
        np.testing.assert_array_equal(result.numpy(), a * 2)


ROWS = IndexMap(lambda i: [i // 4, i % 4], (14,))


def addone() -> Any:
    A = te.placeholder((14,), "int32", name="A")
    return read(A, te.compute((14,), lambda i: A[i] + 1, name="B"), name="addone")


def total() -> Any:
    A, k = te.placeholder((14,), "int32", name="A"), te.reduce_axis((0, 14), "k")
    return read(A, te.compute((1,), lambda i: te.sum(A[k], axis=k), name="S"), name="total")


@pytest.mark.parametrize(("make", "maps"), [(addone, {"A": ROWS, "B": ROWS}), (total, {"A": ROWS})])
def test_each_padded_version_keeps_its_contract(make: Any, maps: Any) -> None:
    """With the padding that a version needs, TVM computes the same, and gives the padding that it promises."""
    x = np.random.default_rng(2).integers(-9, 9, 14).astype("int32")
    plain = run(make(), {"A": x})
    options = pad_options(make(), maps)
    assert len(options) == 2
    for option in options:
        promised = contract(option)
        value = getattr(promised.needs["A"], "number", 5)  # any where none is needed
        packed = ROWS.pack(x, value)
        found = by_tvm(option, packed)
        if "B" in maps:
            padding = 0 if promised.gives["B"] is UNTOUCHED else 6
            np.testing.assert_array_equal(found[3, 2:], [padding, padding])
        np.testing.assert_array_equal(ROWS.unpack(found) if "B" in maps else found, plain["B" if "B" in maps else "S"])


def test_a_plan_runs_by_tvm() -> None:
    graph = Graph()
    x = graph.input("x", (14,), "int32")
    y = graph.call(pad_options(addone(), {"A": ROWS, "B": ROWS}), x)
    graph.output(graph.call(pad_options(total(), {"A": ROWS}), y))
    plan = graph.plan()
    given = np.arange(14, dtype="int32")
    state: Any = given
    for step in plan.steps:
        if step.kind == "call":
            state = by_tvm(step.function, state)
        else:
            assert step.kind == "pad" and step.map is not None
            state = step.map.pack(state, getattr(step.value, "number", 0))
    np.testing.assert_array_equal(state, (given + 1).sum(keepdims=True))
    np.testing.assert_array_equal(plan.run({"x": given})[0], state)


def test_a_padded_convolution_in_another_layout() -> None:
    A, W = te.placeholder((14,), name="A"), te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), "r")
    zero = tvm.tirx.const(0.0, "float32")
    P = te.compute((16,), lambda i: te.if_then_else(te.all(i >= 1, i < 15), A[i - 1], zero), name="P")
    f = read(A, W, te.compute((14,), lambda i: te.sum(P[i + r] * W[r], axis=r), name="C"))
    packed = transform_layout(f, "A", lambda i: [i // 4, i % 4], pad_value=0)
    rng = np.random.default_rng(4)
    a, w = floats(rng, 14), floats(rng, 3)
    expected = np.convolve(a, w[::-1], "same")
    np.testing.assert_allclose(by_tvm(packed, ROWS.pack(a, 0), w), expected, rtol=1e-5, atol=1e-5)

"""TVM's functions as nests and back: equal to numpy in our interpreter, and compiled by TVM after the round trip."""

import doctest
import re
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", exc_type=ImportError)
pytest.importorskip("tvm_ffi")

import tvm_ffi  # noqa: E402

from bound import dtypes  # noqa: E402
from intset.errors import InputError  # noqa: E402
from lowering import dataflow, parse_nest, remove_assume, run, simplify, transform_layout  # noqa: E402
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.lowering.adapters.tvm_functions import CASES, Case  # noqa: E402


def compiled(func: Any, case: Case) -> dict[str, Any]:
    """What TVM's code for a function computes, called as the function of the case is."""
    library = tvm.compile(func, target="llvm")
    held = {**case.inputs, **{name: np.zeros_like(value) for name, value in case.outputs.items()}}
    arrays = {name: strided(func, name, value) for name, value in held.items()}
    library(*[arrays[p.name] if p.name in arrays else case.scalars[p.name] for p in func.params])
    return {name: arrays[name].numpy() for name in case.outputs}


def strided(func: Any, name: str, value: Any) -> Any:
    """An array with the strides that a function's parameter states."""
    ty = next(p.ty for p in func.params if p.name == name)
    if len(ty.strides) == 0:
        return tvm.runtime.tensor(np.ascontiguousarray(value))
    rows = np.zeros((len(value), int(ty.strides[0])), value.dtype)
    rows[:, : value.shape[1]] = value
    return tvm_ffi.from_dlpack(rows[:, : value.shape[1]])


def same(found: dict[str, Any], case: Case) -> None:
    for name, value in case.outputs.items():
        np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_functions_of_tvm_there_and_back(name: str) -> None:
    case = CASES[name](np.random.default_rng(len(name)))
    f = from_tvm(case.func)
    outputs = {key: np.zeros_like(value) for key, value in case.outputs.items()}
    same(run(f, {**case.inputs, **outputs}, sizes=case.scalars), case)
    back = to_tvm(f, like=case.func)
    assert [p.name for p in back.params] == [p.name for p in case.func.params]
    again = from_tvm(back)
    same(run(again, {**case.inputs, **outputs}, sizes=case.scalars), case)
    if case.compiled:
        same(compiled(back, case), case)
        same(compiled(to_tvm(f), case), case)


# the accesses that contents of tensors decide
DATA = {
    "gather": {"A[I[i], j]"},
    "lazy_conditions": {"A[minimum(I[i], 7)]"},
    "sparse_product": {"X[indptr[i] + k]", "V[cols[indptr[i] + k]]", "cols[indptr[i] + k]"},
}


@pytest.mark.parametrize("name", sorted(set(CASES) - {"triangular_loops"}))
def test_accesses_of_functions_of_tvm_are_proved_in_bounds(name: str) -> None:
    found = dataflow(from_tvm(CASES[name](np.random.default_rng(0)).func)).accesses()
    assert {access.access for access in found if access.status != "proved"} == DATA.get(name, set())
    assert len(found) > 1 and all(access.status != "refuted" for access in found)


def ran(f: Any, case: Case) -> None:
    outputs = {key: np.zeros_like(value) for key, value in case.outputs.items()}
    same(run(f, {**case.inputs, **outputs}, sizes=case.scalars), case)


def test_a_layout_of_a_function_of_tvm_is_compiled_by_tvm() -> None:
    case = CASES["matmul"](np.random.default_rng(3))
    f = transform_layout(from_tvm(case.func), "B", lambda k, j: [j // 4, k, j % 4])
    back = to_tvm(f, like=case.func)
    assert [tuple(map(int, p.ty.shape)) for p in back.params] == [(12, 16), (2, 16, 4), (12, 8)]
    packed = case.inputs["B"].reshape(16, 2, 4).transpose(1, 0, 2)
    same(compiled(back, case._replace(inputs={**case.inputs, "B": packed})), case)


@pytest.mark.parametrize("name", ["matmul", "matmul_split_with_predicate", "softmax", "scatter", "strided_buffer"])
def test_simplified_nests_of_tvm_are_compiled_by_tvm(name: str) -> None:
    case = CASES[name](np.random.default_rng(5))
    f = simplify(from_tvm(case.func))
    ran(f, case)
    same(compiled(to_tvm(f, like=case.func), case), case)


def test_assumptions_of_tvm_remove_branches() -> None:
    guarded = parse_nest(
        """
        def f(A: float32[16], B: float32[16]):
            for i in [0, 16):
                assume i < 14 or A[i] == 0.0
            for i in [0, 16):
                B[i] = A[i] * 2.0
            for i in [0, 16):
                if i >= 14:
                    B[i] = 0.0
        """
    )
    there = from_tvm(to_tvm(guarded))
    assert str(there) == str(guarded)
    found = remove_assume(there)
    assert len(found.requires) == 1 and "assume" not in str(found)
    a = np.random.default_rng(7).standard_normal(16).astype("float32")
    a[14:] = 0
    case = Case(None, {"A": a}, {"B": a * 2}, {})
    for f in (there, found):
        same(compiled(to_tvm(f), case), case)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_undef_goes_both_ways(dtype: str) -> None:
    f = parse_nest(f"def f(A: {dtype}[8]):\n    for i in [0, 8):\n        if i < 6:\n            A[i] = undef()\n")
    back = to_tvm(f)
    assert "T.undef()" in back.script() and str(from_tvm(back)) == str(f)
    module = tvm.s_tir.transform.RemoveStoreUndef()(tvm.IRModule({"f": back}))
    values = np.arange(8).astype(dtype)
    array = tvm.runtime.tensor(values)
    tvm.compile(module, target="llvm")["f"](array)
    np.testing.assert_array_equal(array.numpy(), values)


def test_threads_and_scopes_go_both_ways() -> None:
    f = from_tvm(CASES["matmul_on_threads"](np.random.default_rng(0)).func)
    text = str(f)
    for part in ("on blockIdx.x", "on threadIdx.y", "on threadIdx.x", "in shared", "in local"):
        assert part in text
    assert str(from_tvm(to_tvm(f))) == text


EXPRESSIONS = [
    "i // 3 - i % 5",
    "truncdiv(i - 7, 3) * 4 + truncmod(i - 7, 3)",
    "truncdiv(7 - i, -2) + (7 - i) // -2 + (7 - i) % -2",
    "minimum(i, 4) * maximum(i - 9, -2)",
    "abs(i - 8) + (i & 5) + (i | 3) - (i ^ 6)",
    "select(i < 5, i * 2, 100 // maximum(i - 6, 1))",
    "select((i > 3) & (X[i] > 0) | (X[15 - i] == 2), X[i], -X[i])",
    "ceildiv(i * 7 - 30, 4) + ceildiv(i, -3)",
    "X[X[i] % 16] + X[i] // 3",
]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_integer_operations_mean_the_same_in_tvm(text: str) -> None:
    f = parse_nest(f"def f(X: int32[16], Y: int64[16]):\n    for i in [0, 16):\n        Y[i] = {text}\n")
    x = np.random.default_rng(len(text)).integers(-20, 20, 16).astype("int32")
    expected = run(f, {"X": x})["Y"]
    case = Case(None, {"X": x}, {"Y": expected}, {})
    ran(from_tvm(to_tvm(f)), case)
    same(compiled(to_tvm(f), case), case)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "int32"])
def test_values_wrap_as_in_tvm(dtype: str) -> None:
    text = f"""
def f(X: {dtype}[32], Y: {dtype}[32], Z: {dtype}[32]):
    for i in [0, 32):
        Z[i] = (X[i] + Y[i]) // 3 + X[i] * Y[i]
"""
    low, high = (0, 100) if dtype == "int32" else dtypes.int_range(dtype)  # TVM's int32 must not overflow
    x, y = np.random.default_rng(1).integers(low, high, (2, 32)).astype(dtype)
    f = parse_nest(text)
    expected = run(f, {"X": x, "Y": y})["Z"]
    case = Case(None, {"X": x, "Y": y}, {"Z": expected}, {})
    back = to_tvm(f)
    ran(from_tvm(back), case)
    same(compiled(back, case), case)


def refused(func: Any) -> str:
    with pytest.raises(InputError) as caught:
        from_tvm(func)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_has_no_counterpart_is_named() -> None:
    x = tvm.tirx.Var("x", "int32")
    buffer = tvm.tirx.decl_buffer((8,), "float32", name="A")

    def stored(value: Any) -> Any:
        return tvm.tirx.PrimFunc([buffer], tvm.tirx.BufferStore(buffer, value, [0]))

    assert "While" in refused(tvm.tirx.PrimFunc([buffer], tvm.tirx.While(x < 3, tvm.tirx.Evaluate(0))))
    assert "x of TVM is bound neither" in refused(stored(tvm.tirx.Cast("float32", x)))
    with pytest.raises(InputError, match="takes a PrimFunc, an expression or a Range of TVM, not 3"):
        from_tvm(3)
    with pytest.raises(InputError, match="like must be a PrimFunc"):
        to_tvm(parse_nest("def f(A: int32[4]):\n    pass\n"), like=3)
    with pytest.raises(InputError, match="to_tvm takes a Function"):
        to_tvm(3)


def test_the_guide_runs() -> None:
    page = (ROOT / "docs" / "from-tvm.md").read_text(encoding="utf-8")
    code = "".join(re.findall(r"^```pycon\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL))
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(code, {}, "from-tvm", "docs/from-tvm.md", 0))
    assert runner.tries >= 40 and runner.failures == 0


def test_the_documented_example_runs() -> None:
    section = (
        (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8").partition("\n## tvm\n")[2].partition("\n## ")[0]
    )
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(section.replace("```", ""), {}, "tvm", "docs/adapters.md", 0))
    assert runner.tries >= 8 and runner.failures == 0

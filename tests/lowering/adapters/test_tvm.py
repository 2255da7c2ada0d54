"""TVM's functions, operators and schedules as nests and back: equal to numpy in our interpreter and compiled by TVM."""

import doctest
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", exc_type=ImportError)
pytest.importorskip("tvm_ffi")

import tvm_ffi  # noqa: E402
from tvm import te, topi  # noqa: E402
from tvm.s_tir import Schedule  # noqa: E402

from bound import dtypes  # noqa: E402
from intset.errors import InputError  # noqa: E402
from lowering import (  # noqa: E402
    UNTOUCHED,
    Graph,
    IndexMap,
    cache_read,
    contract,
    dataflow,
    pad_options,
    parse_nest,
    remove_assume,
    remove_branching_through_overcompute,
    run,
    simplify,
    transform_layout,
)
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402
from tests import ROOT  # noqa: E402
from tests.intset.adapters.documented import check_section  # noqa: E402
from tests.lowering.adapters.tvm_functions import CASES, Case, called, floats  # noqa: E402


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


def test_the_examples_of_the_documentation() -> None:
    check_section("tvm", least=8)


# -- operators of topi ------------------------------------------------------------------------------------------------


nn, image = topi.nn, topi.image
Shapes = tuple[tuple[Any, ...], ...]
FLAT: Shapes = ((4, 6),)
IMAGE: Shapes = ((1, 4, 8, 8),)
INDEX = (5, "int32")  # five indices into an axis of 4


def kernel(*shape: int) -> Shapes:
    return (*IMAGE, shape)


# an operator and the shapes of its inputs; the element type follows the shape
OPERATORS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    **{
        name: (getattr(topi, name), FLAT)
        for name in "exp erf tanh sigmoid sin cos atan floor ceil round trunc sign abs isnan isfinite fast_tanh".split()
    },
    **{
        name: (getattr(topi, name), ((4, 6), (1, 6)))
        for name in "add subtract multiply divide maximum minimum mod floor_divide less equal atan2".split()
    },
    **{f"{name}_int": (getattr(topi, name), ((4, 6, "int32"), (6, "int32"))) for name in ("bitwise_xor", "left_shift")},
    **{f"logical_{name}": (getattr(topi, f"logical_{name}"), ((6, "bool"), (6, "bool"))) for name in ("and", "xor")},
    **{name: (partial(getattr(topi, name), axis=1), FLAT) for name in "sum max prod argmax argmin cumsum".split()},
    "sum_all": (topi.sum, FLAT),
    "clip": (lambda a: topi.clip(a, -0.5, 0.5), FLAT),
    "cast": (lambda a: topi.cast(a, "int8"), FLAT),
    "transpose": (topi.transpose, FLAT),
    "reshape": (lambda a: topi.reshape(a, (3, 8)), FLAT),
    "flip": (lambda a: topi.flip(a, 1), FLAT),
    "strided_slice": (lambda a: topi.strided_slice(a, [3, 1], [0, 6], [-1, 2]), FLAT),
    "tile": (lambda a: topi.tile(a, (2, 3)), FLAT),
    "repeat": (lambda a: topi.repeat(a, 3, 1), FLAT),
    "split": (lambda a: topi.split(a, 3, 1), FLAT),
    "concatenate": (lambda a, b: topi.concatenate((a, b), 1), ((4, 6), (4, 3))),
    "take": (lambda a, i: topi.take(a, i, axis=0, mode="clip"), ((4, 6), INDEX)),
    "gather_nd": (topi.gather_nd, ((4, 6), (2, 3, "int32"))),
    "scatter_nd": (lambda a, i, u: topi.scatter_nd(a, i, u, "add"), ((4, 6), (2, 3, "int32"), (3,))),
    "where": (topi.where, ((4, 6, "bool"), (4, 6), (4, 6))),
    "one_hot": (lambda i: topi.one_hot(i, te.const(1.0), te.const(0.0), 5, -1, "float32"), (INDEX,)),
    "matmul": (topi.matmul, ((4, 6), (6, 5))),
    "batch_matmul": (nn.batch_matmul, ((2, 4, 6), (2, 5, 6))),
    "dense": (nn.dense, ((4, 6), (5, 6))),
    "einsum": (lambda a, b: topi.einsum("bij,bjk->bik", a, b), ((2, 4, 6), (2, 6, 5))),
    "dft": (lambda a, b: topi.dft(a, b, False), ((2, 8), (2, 8))),
    "relu": (nn.relu, FLAT),
    "softmax": (nn.softmax, FLAT),
    "log_softmax": (nn.log_softmax, FLAT),
    "layer_norm": (lambda a, g, b: nn.layer_norm(a, g, b, [1]), ((4, 6), (6,), (6,))),
    "rms_norm": (lambda a, g: nn.rms_norm(a, g, [1]), ((4, 6), (6,))),
    "group_norm": (lambda a, g, b: nn.group_norm(a, g, b, 2, 1, [2, 3]), (*IMAGE, (4,), (4,))),
    "pad": (lambda a: nn.pad(a, (0, 0, 1, 2)), IMAGE),
    "mirror_pad": (lambda a: nn.mirror_pad(a, (0, 0, 1, 2), (0, 0, 1, 2), "SYMMETRIC"), IMAGE),
    "space_to_depth": (lambda a: nn.space_to_depth(a, 2), IMAGE),
    "pool2d": (lambda a: nn.pool2d(a, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max"), IMAGE),
    "adaptive_pool": (lambda a: nn.adaptive_pool(a, (3, 3), "avg"), IMAGE),
    "resize_linear": (lambda a: image.resize2d(a, (0.0,) * 4, (13, 5), "NCHW", "linear", "half_pixel"), IMAGE),
    "conv1d": (lambda a, w: nn.conv1d_ncw(a, w, 1, 1, 1), ((1, 3, 10), (4, 3, 3))),
    "conv2d": (lambda a, w: nn.conv2d_nchw(a, w, 2, 2, 2), kernel(5, 4, 3, 3)),
    "conv2d_nhwc": (lambda a, w: nn.conv2d_nhwc(a, w, 1, 1, 1), ((1, 8, 8, 4), (3, 3, 4, 5))),
    "group_conv2d": (lambda a, w: nn.group_conv2d_nchw(a, w, 1, 1, 1, 2), kernel(6, 2, 3, 3)),
    "depthwise_conv2d": (lambda a, w: nn.depthwise_conv2d_nchw(a, w, 1, 1, 1), kernel(4, 2, 3, 3)),
    "conv2d_transpose": (
        lambda a, w: nn.conv2d_transpose_nchw(a, w, (2, 2), (1, 1), "float32", (0, 0)),
        ((1, 3, 5, 5), (3, 4, 3, 3)),
    ),
    "conv3d": (lambda a, w: nn.conv3d_ncdhw(a, w, 1, 1, 1, 1), ((1, 2, 4, 4, 4), (3, 2, 3, 3, 3))),
    "winograd": (lambda a, w: nn.conv2d_winograd_nhwc(a, w, 1, 1, 1, "float32"), ((1, 8, 8, 4), (3, 3, 4, 4))),
}
DAILY = ("cumsum", "argmax", "split", "logical_xor", "mod", "layer_norm", "conv2d_transpose", "gather_nd")
FOREIGN = {"sort": (topi.sort, "tvm_call_packed"), "fast_exp": (topi.fast_exp, "reinterpret")}  # what stays as it is


def operator(name: str) -> Any:
    make, shapes = OPERATORS[name]
    given = []
    for k, shape in enumerate(shapes):
        dtype = shape[-1] if isinstance(shape[-1], str) else "float32"
        given.append(te.placeholder(tuple(e for e in shape if not isinstance(e, str)), dtype, name=f"X{k}"))
    made = make(*given)
    return te.create_prim_func([*given, *([made] if isinstance(made, te.Tensor) else made)])


def drawn(func: Any, inputs: int, rng: Any) -> list[Any]:
    """Inputs of a function; indices are at most 3; results are 0."""
    held = []
    for k, p in enumerate(func.params):
        shape, dtype = [int(e) for e in p.ty.shape], str(p.ty.dtype)
        drawn_ = rng.uniform(0.2, 3, shape) if dtype.startswith("float") else rng.integers(0, 4, shape)
        held.append((drawn_ if k < inputs else np.zeros(shape)).astype(dtype))
    return held


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.nightly] * (n not in DAILY)) for n in OPERATORS])
def test_an_operator_there_and_back(name: str) -> None:
    func = operator(name)
    arrays = drawn(func, len(OPERATORS[name][1]), np.random.default_rng(len(name)))
    expected = called(func, *arrays)
    f = from_tvm(func)
    found = run(f, {t.name: a.copy() for t, a in zip(f.params, arrays, strict=True)})
    versions = [[found.get(t.name, a) for t, a in zip(f.params, arrays, strict=True)]]
    versions += [called(to_tvm(f, like=func, blocks=blocks), *arrays) for blocks in (True, False)]
    for version in versions:
        for got, want in zip(version, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
    sch = tvm.s_tir.Schedule(to_tvm(f, like=func))
    assert sch.get_child_blocks(sch.get_sblock("root"))


@pytest.mark.parametrize("name", FOREIGN)
def test_an_operator_without_counterpart_stays_as_it_is(name: str) -> None:
    make, construct = FOREIGN[name]
    A = te.placeholder((4, 6), name="A")
    func = te.create_prim_func([A, make(A)])
    f = from_tvm(func)
    assert [t.name for t in f.outputs] == [str(func.params[-1].name)] or name == "sort"
    for blocks in (True, False):
        assert construct.removeprefix("tvm_") in to_tvm(f, like=func, blocks=blocks).script()


# -- schedules of TVM, before a function is read and after it came back -----------------------------------------------


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
    np.testing.assert_allclose(called(func, *arrays, np.zeros_like(expected))[-1], expected, rtol=2e-5, atol=2e-5)


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
    np.testing.assert_allclose(called(sch.mod["main"], a, np.ones_like(a))[-1], expected, rtol=1e-5)
    if "O" not in kinds:
        sch.reorder(*reversed(sch.get_loops("B")))
        np.testing.assert_allclose(called(sch.mod["main"], a, np.ones_like(a))[-1], expected, rtol=1e-5)


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
        np.testing.assert_allclose(called(func, a, np.ones_like(a))[-1], expected, rtol=1e-5)


# -- layouts, contracts and plans -------------------------------------------------------------------------------------


def read(*tensors: Any, name: str = "main") -> Any:
    return from_tvm(te.create_prim_func([*tensors]).with_attr("global_symbol", name))


def by_tvm(f: Any, *arrays: Any) -> Any:
    """The last parameter, computed by TVM from the others."""
    func = to_tvm(remove_assume(f))
    return called(func, *arrays, np.zeros([int(e) for e in func.params[-1].ty.shape], f.params[-1].dtype))[-1]


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
    f = transform_layout(from_tvm(product(12, 7, 10)), name, mapping, pad_value=pad_value)
    layout = f.layouts[name]
    given = [layout.pack(a, 0) if key == name else a for key, a in arrays.items()]
    for version in (f, simplify(f), remove_branching_through_overcompute(f)):
        found = by_tvm(version, *given)
        found = layout.unpack(found) if name == "C" else found
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_layout_behind_the_interface() -> None:
    f = transform_layout(cache_read(from_tvm(product(12, 7, 10)), "B"), "BC", lambda k, j: [j // 4, k, j % 4])
    rng = np.random.default_rng(1)
    a, b = floats(rng, 12, 10), floats(rng, 10, 7)
    np.testing.assert_allclose(by_tvm(f, a, b), a @ b, rtol=1e-5, atol=1e-5)


def test_a_layout_of_any_size() -> None:
    n = te.var("n")
    A = te.placeholder((n, 6), name="A")
    func = te.create_prim_func([A, te.compute((n, 6), lambda i, j: A[i, j] * 2.0, name="B")])
    f = transform_layout(from_tvm(func), "A", lambda i, j: [i // 4, j, i % 4])
    for size in (1, 4, 7):
        a = floats(np.random.default_rng(size), size, 6)
        packed = IndexMap(lambda i, j: [i // 4, j, i % 4], (size, 6)).pack(a, 0)
        np.testing.assert_array_equal(called(to_tvm(f), packed, np.zeros_like(a))[-1], a * 2)


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

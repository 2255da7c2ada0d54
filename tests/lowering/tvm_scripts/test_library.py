"""What the operator library asks of `lowering.tvm`: its C++ half by name, configurations, targets, layouts."""

import subprocess
import sys
from itertools import pairwise
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from bound import infer_bound
from bound.errors import ScheduleError
from intset import InputError, Var
from lowering import lower, run
from lowering.tvm import autotvm, te, tir
from lowering.tvm.outside import install, native
from lowering.tvm.tir import bijective_layout, layout
from tests.lowering.tvm_scripts.calls import equal_built, equal_elements, equal_in_both
from tests.strategies.refusals import refused_by
from tests.strategies.written import Written
from tests.sweeps import turned

ROOT = Path(__file__).parents[3]
LIBRARY = {
    "__init__.py": "from tvm._ffi.libinfo import __version__\nTAG = 'elemwise'\nfrom . import cpp, utils, x86\n",
    "cpp/__init__.py": "import tvm._ffi\nfrom .impl import *\nfrom . import nn\nfrom . import utils\n",
    "cpp/impl.py": 'import tvm._ffi\ntvm._ffi._init_api("topi", "tvm.topi.cpp")\n',
    "cpp/nn.py": 'import tvm._ffi\ntvm._ffi._init_api("topi.nn", "tvm.topi.cpp.nn")\n',
    "cpp/utils.py": 'import tvm._ffi\ntvm._ffi._init_api("topi.utils", "tvm.topi.cpp.utils")\n',
    "utils.py": "from . import cpp\nfrom tvm.tir import bijective_layout, layout\nfrom tvm.tir.expr import Any\n",
    "x86.py": (
        "from tvm import relay, te, topi\nfrom tvm.contrib import mkl\nfrom tvm.arith.analyzer import Analyzer\n"
        "from tvm.contrib.pickle_memoize import memoize\nfrom tvm.autotvm.task.space import SplitEntity\n"
        "import tvm.target.codegen\nfrom tvm.target.x86 import get_simd_32bit_lanes\n"
        '@memoize("key", save_at_exit=False)\ndef twice(x):\n    return 2 * x\n'
        "def product():\n    return mkl.matmul()\n"
        "@te.tag_scope(tag=topi.TAG)\ndef exp(x):\n    return te.compute(x.shape, lambda *i: te.exp(x(*i)))\n"
    ),
}
SCRIPT = """
import lowering.tvm
lowering.tvm.install(topi=FOLDER)
import tvm
from tvm import te, topi
assert topi.x86.twice(3) == 6 and topi.__version__ == tvm.__version__
assert topi.cpp.utils.is_empty_shape((3, 0)) and not topi.cpp.utils.is_empty_shape((3,))
A = te.placeholder((4,), name="A")
assert topi.x86.exp(A).op.tag == topi.TAG
def refused(call, text):
    try:
        call()
    except tvm.TVMError as error:
        assert text in str(error), error
    else:
        raise AssertionError(text)
refused(lambda: topi.cpp.take(A, A), "topi.take is of TVM's C++ half")
refused(lambda: topi.cpp.nn.pool(A), "topi.nn.pool is of TVM's C++ half")
refused(topi.x86.product, "tvm.contrib.mkl.matmul is not here")
tvm.register_func("topi.take", lambda x, y: x + y)
assert topi.cpp.take(A, A).op.tag == topi.cpp.add(A, A).op.tag == "broadcast"
for name in ("contrib.mkl", "relay"):
    try:
        __import__(f"tvm.{name}")
    except ImportError as error:
        assert f"tvm.{name} is not here" in str(error)
    else:
        raise AssertionError(name)
"""


def test_the_operator_library_imports_what_is_not_here(tmp_path: Path) -> None:
    """Its modules import contrib and relay; a script that does so is told what serves instead."""
    for name, text in LIBRARY.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    script = SCRIPT.replace("FOLDER", repr(str(tmp_path)))
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)
    with pytest.raises(InputError, match="no folder of a Python package"):
        install(topi=tmp_path / "nowhere")


def test_schedules_and_sums_of_the_native_half() -> None:
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3, 4), lambda i, j: A[i, j] + 1, tag="elemwise", name="B")
    C = te.compute((3, 4), lambda i, j: B[i, j] * 2, tag="elemwise", name="C")
    s = native("topi.generic.schedule_injective")(None, [C])
    assert len(s[C].leaf_iter_vars) == 1
    assert str(tvm.lower(s, [A, C])).count("for ") == 1
    assert len(native("topi.generic.default_schedule")(None, [C])[C].leaf_iter_vars) == 2
    A, B = te.placeholder((2, 3), name="A"), te.placeholder((2, 3), name="B")
    C = native("topi.elemwise_sum")([A, B, native("topi.multiply")(A, B), native("topi.subtract")(A, 1.0)])
    a, b = (np.random.default_rng(k).random((2, 3)).astype("float32") for k in (1, 2))
    found = run(tvm.lower(te.create_schedule(C.op), [A, B, C]), {"A": a, "B": b})[C.name]
    np.testing.assert_allclose(found, a + b + a * b + a - 1, rtol=1e-5)


@pytest.mark.parametrize("axes", ["NCHW", "NHWC"])
def test_samples_between_pixels_are_0_around_the_image(axes: str) -> None:
    shape = {"N": 1, "C": 1, "H": 3, "W": 4}
    sample = native(f"topi.utils.bilinear_sample_{axes.lower()}")

    def element(i: te.IterVar, j: te.IterVar, image: Any) -> object:
        point = {"N": 0, "C": 0, "H": i * 0.5 - 1.0, "W": j * 0.5 - 1.0}
        return sample(image, [point[a] for a in axes], 2, 3)

    pixels = np.arange(12, dtype="float32").reshape(3, 4) + 1
    around = np.zeros((6, 7), "float32")
    around[1:4, 1:5] = pixels
    y, x = np.arange(9) / 2, np.arange(11) / 2
    rows = around[y.astype(int)] * (1 - y % 1)[:, None] + around[np.ceil(y).astype(int)] * (y % 1)[:, None]
    expected = rows[:, x.astype(int)] * (1 - x % 1) + rows[:, np.ceil(x).astype(int)] * (x % 1)
    equal_elements(element, [pixels.reshape([shape[a] for a in axes])], expected.astype("float32"))


def test_a_schedule_gets_the_configuration_of_its_computation() -> None:
    @autotvm.register_topi_compute("copy.test")
    def copy(cfg, x, width):  # type: ignore[no-untyped-def]
        cfg.define_split("tile", x.shape[0], num_outputs=2)
        cfg["tile"] = autotvm.SplitEntity([-1, width])
        return te.compute(x.shape, lambda i: x[i], name="copy")

    @autotvm.register_topi_schedule("copy.test")
    def schedule_copy(cfg, outs):  # type: ignore[no-untyped-def]
        s = te.create_schedule([t.op for t in outs])
        found = cfg["tile"].apply(s, outs[0], outs[0].op.axis[0])
        assert len(found) == 2
        return s

    A = te.placeholder((12,), name="A")
    B, C = copy(A, 3), copy(A, 4)
    after = te.compute((12,), lambda i: B[i] + 1.0, name="after")
    for out, extent in ((B, 3), (C, 4)):
        s = schedule_copy([out])
        assert int(infer_bound(s)[s[out].leaf_iter_vars[1]].extent) == extent
    with pytest.raises(InputError, match="has no option 'tile'"):
        schedule_copy([A])
    assert autotvm._config_of([after], "copy.test")["tile"].size == [-1, 3]


def test_options_of_configurations() -> None:
    cfg = autotvm.get_config()
    assert len(cfg.define_split("a", cfg.axis(12), num_outputs=3)) == 3
    assert cfg["a"].size == [-1, 1, 1]
    cfg.fallback_split("a", [-1, 8, 5])
    assert cfg["a"].size == [1, 3, 4]
    cfg.define_split("b", 12, num_outputs=2, policy="all", filter=lambda e: e.size[-1] >= 4)
    assert cfg["b"].size == [-1, 4]
    cfg.define_split("c", 12, num_outputs=2, policy="candidate", candidate=[[2, 6], [3, 4]])
    assert cfg["c"].size == [2, 6]
    cfg.define_split("d", 7, num_outputs=2, policy="power2", filter=lambda e: e.size[-1] > 1)
    assert cfg["d"].size == [-1, 2]
    x, y, z = cfg.axis(2), cfg.axis(3), cfg.axis(4)
    cfg.define_reorder("e", [x, y, z], "candidate", candidate=[[z, x, y]])
    assert cfg["e"].perm == [2, 0, 1]
    cfg.define_annotate("f", [x, y], "try_unroll")
    assert list(cfg["f"].anns) == ["none", "none"]
    cfg.define_knob("g", [1, 2])
    cfg["g"].val = 0
    assert cfg["g"].val == 0
    order = [x, y, z, cfg.axis(5), cfg.axis(6)]
    cfg.define_reorder("h", order, "interleave", spatial=[order[:2], order[2:4]], reduce=[order[4:]])
    assert cfg["h"].perm == [0, 2, 1, 3, 4]
    s, A = Written("A[i:24] = i")("s A")
    loops = autotvm.SplitEntity([-1, 2, 3]).apply(s, A, A.op.axis[0])
    assert list(s[A].leaf_iter_vars) == loops
    assert [int(infer_bound(s)[loop].extent) for loop in loops] == [4, 2, 3]


def test_layouts_by_letters() -> None:
    packed = layout("NCHW4c")
    assert (len(packed), packed[4], packed.factor_of("C")) == (5, "c", 4)
    assert (packed.index_of("H"), packed.index_of("K")) == (2, -1)
    there = bijective_layout("NCHW", packed)
    n, c, h, w = map(Var, "nchw")
    assert list(map(str, there.forward_index([n, c, h, w]))) == ["n", "c // 4", "h", "w", "c % 4"]
    assert [int(e) for e in there.forward_shape([1, 8, 5, 6])] == [1, 2, 5, 6, 4]
    assert [int(e) for e in there.backward_shape([1, 2, 5, 6, 4])] == [1, 8, 5, 6]
    shape = [2, 8, 3, 5]
    for place in np.ndindex(*shape):
        assert [int(e) for e in there.backward_index([int(e) for e in there.forward_index(place)])] == list(place)
    with pytest.raises(InputError, match="different axes"):
        bijective_layout("NCHW", "NCW")
    with pytest.raises(InputError, match="no inner part of 4"):
        there.forward_shape([1, 6, 5, 6])


NONE = ("", "NCHWc", "NCHW16", "NC4", "NCHC", "NCHW0c", "CHW4n", "16C", "N-C", None, 3)
test_a_layout_without_a_meaning_is_refused = refused_by(
    layout, dict.fromkeys(NONE, "a layout is a text such as NCHW16c")
)


def test_processors_of_targets_and_unions_of_types() -> None:
    lanes = {}
    for mcpu in ("", " -mcpu=core-avx2", " -mcpu=skylake-avx512", " -mcpu=alderlake", " -mcpu=cascadelake"):
        with tvm.target.Target("llvm" + mcpu):
            lanes[mcpu] = tvm.target.x86.get_simd_32bit_lanes(), tvm.target.x86.target_has_vnni()
    assert list(lanes.values()) == [(4, False), (8, False), (16, False), (8, True), (16, True)]
    assert tvm.target.Target("cuda -mattr=+dotprod").mattr == ["+dotprod"]
    assert (tvm.DataType("float32x4").bits, tvm.DataType("float32x4").lanes, tvm.DataType("bool").bits) == (32, 4, 1)
    either = tir.Var | int
    assert isinstance(3, either) and isinstance(Var("i"), either) and not isinstance(3.5, either)
    assert isinstance(3, int | tir.IntImm)


@pytest.mark.parametrize(("y", "shift"), [(1 << 30, 1), (1 << 30, 0), (1395864371, -3)])
def test_products_with_fixed_points(y: int, shift: int) -> None:
    numbers = np.array([-(2**30), -7, -6, -1, 0, 1, 6, 7, 2**30], "int32")
    right, left = 31 - min(shift, 0), max(shift, 0)
    expected = [((int(n) << left) * y + (1 << (right - 1))) >> right for n in numbers]
    factor = tir.const(y, "int32")
    equal_elements(lambda i, x: tir.q_multiply_shift(x[i], factor, 31, shift), [numbers], np.array(expected, "int32"))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), [1]])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_reductions_of_the_native_half_are_those_of_numpy(name: str, axis: Any, keepdims: bool) -> None:
    A = te.placeholder((2, 3, 4), name="A")
    B = native(f"topi.{name}")(A, axis, keepdims)
    a = np.random.default_rng(1).random((2, 3, 4)).astype("float32")
    along = tuple(axis) if isinstance(axis, list) else axis
    wanted = np.asarray(getattr(np, name)(a, axis=along, keepdims=keepdims))
    assert tuple(map(int, B.shape)) == wanted.shape and B.op.tag == "comm_reduce"
    found = run(tvm.lower(te.create_schedule(B.op), [A, B]), {"A": a})[B.name]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("schedule", ["plain", "split", "tiles of k", "unroll", "vectorize"])
def test_rows_whose_length_data_decides(schedule: str) -> None:
    numbers = np.random.default_rng(0)
    dense = np.where(numbers.random((6, 12)) < 0.4, numbers.standard_normal((6, 12)), 0).astype("float32")
    rows = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype("int32")
    columns = np.concatenate([np.nonzero(row)[0] for row in dense]).astype("int32")
    values, x = dense[dense != 0], numbers.standard_normal((4, 12)).astype("float32")
    X = te.placeholder((4, 12), name="X")
    V, K, P = (te.placeholder(a.shape, str(a.dtype), name=n) for n, a in (("V", values), ("K", columns), ("P", rows)))

    def product(i: Any, row: Any) -> Any:
        k = te.reduce_axis((0, P[row + 1] - P[row]), "k")
        return te.sum(V[P[row] + k] * X[i, K[P[row] + k]], axis=k)

    Y = te.compute((4, 6), product, name="Y")
    s = te.create_schedule(Y.op)
    i, row = s[Y].op.axis
    (k,) = s[Y].op.reduce_axis
    if schedule == "split":
        s[Y].split(row, 4)
    elif schedule == "tiles of k":
        s[Y].split(k, 4)
    elif schedule != "plain":
        s[Y].reorder(row, k, i)
        getattr(s[Y], schedule)(i)
    assert "2147483647" not in str(tvm.lower(s, [X, V, K, P, Y])).replace("+ 2147483648", "")
    equal_in_both(tvm.build(s, [X, V, K, P, Y]), [x, values, columns, rows], x @ dense.T)
    if schedule == "plain":
        s[Y].reorder(k, row)
        with pytest.raises(ScheduleError, match="row chooses the data inside of k: reorder row in front of k"):
            tvm.lower(s, [X, V, K, P, Y])
        return
    rows[3] += 1  # reads another element, and K or V may end before
    rows[-1] += 5
    with pytest.raises(tvm.TVMError, match="inside V"):
        tvm.build(s, [X, V, K, P, Y])(*map(tvm.nd.array, (x, values, columns, rows)), tvm.nd.empty((4, 6)))


def sums_of(starts: Any, data: Any, count: int) -> Any:
    """The sums of so many segments of `data` between `starts`."""

    def total(i: Any) -> Any:
        k = te.reduce_axis((0, starts[i + 1] - starts[i]), "k")
        return te.sum(data[starts[i] + k], axis=k)

    return te.compute((count,), total, "sums")


def _segments(dtype: str = "int32") -> tuple[list[Any], list[Any], Any]:
    """Four segments whose starts are of a type, with arrays and the expected sums."""
    starts, data = te.placeholder((5,), dtype, "starts"), te.placeholder((20,), "int32", "data")
    ends, numbers = np.array([0, 3, 3, 14, 20], dtype), np.arange(20, dtype="int32")
    expected = np.array([numbers[a:b].sum() for a, b in pairwise(ends)], "int32")
    return [starts, data, sums_of(starts, data, 4)], [ends, numbers], expected


@pytest.mark.parametrize("nests", ["guard", "ends", "split", "partition"])
def test_a_reduction_that_data_ends_in_every_form_of_nest(nests: str) -> None:
    args, arrays, expected = _segments()
    s = te.create_schedule(args[-1].op)
    s[args[-1]].split(args[-1].op.reduce_axis[0], 4)
    f = lower(s, args, nests=nests)
    found = run(f, dict(zip(("starts", "data"), arrays, strict=True)))["sums"]
    assert found.tolist() == expected.tolist()


def test_reductions_between_elements_beside_one_that_data_ends_and_without_rows() -> None:
    (starts, data, _), (ends, numbers), expected = _segments()

    def total(i: Any) -> Any:
        k = te.reduce_axis((starts[i], starts[i + 1]), "k")
        return te.sum(data[k] + k * 0, axis=k)

    sums = te.compute((4,), total, "sums")
    equal_in_both(tvm.build(te.create_schedule(sums.op), [starts, data, sums]), [ends, numbers], expected)
    many = 1 << 21
    a, starts = te.placeholder((many,), "int32", "a"), te.placeholder((3,), "int32", "starts")
    k = te.reduce_axis((0, many), "k")
    whole, sums = te.compute((1,), lambda i: te.sum(a[k], axis=k), "whole"), sums_of(starts, a, 2)
    f = tvm.lower(te.create_schedule([whole.op, sums.op]), [a, starts, whole, sums])
    found = run(f, {"a": np.ones(many, "int32"), "starts": np.array([0, 3, 5], "int32")}, backend="c")
    assert found["whole"].tolist() == [many] and found["sums"].tolist() == [3, 2]
    starts, data = te.placeholder((1,), "int32", "starts"), te.placeholder((0,), "float32", "data")
    sums = sums_of(starts, data, 0)
    f = tvm.lower(te.create_schedule(sums.op), [starts, data, sums])
    assert run(f, {"starts": np.zeros(1, "int32"), "data": np.zeros(0, "float32")})["sums"].shape == (0,)


OF_DATA: list[Any] = [
    lambda s, _, sums, k: s[sums].split(k, nparts=3),
    lambda s, starts, sums, k: s.cache_read(starts, "local", [sums]),
    lambda s, starts, sums, k: s[s.cache_read(starts, "local", [sums])].compute_at(s[sums], sums.op.axis[0]),
    lambda s, _, sums, k: s.cache_write(sums, "local"),
    lambda s, _, sums, k: s.rfactor(sums, s[sums].split(k, 4)[1]),
    lambda s, _, sums, k: s[sums].unroll(s[sums].split(k, 4)[1]),
]


@pytest.mark.parametrize(("schedule", "dtype"), turned(OF_DATA, ["int32", "int64"], 2))
def test_schedules_of_a_reduction_that_data_ends(schedule: Any, dtype: str) -> None:
    args, arrays, expected = _segments(dtype)
    starts, _, sums = args
    s = te.create_schedule(sums.op)
    schedule(s, starts, sums, sums.op.reduce_axis[0])
    equal_in_both(tvm.build(s, [*args[:-1], s.outputs[0].output(0)]), arrays, expected)


@pytest.mark.parametrize(
    ("schedule", "cause"),
    [
        (lambda s, sums, k: s[sums].bind(k, te.thread_axis("threadIdx.x")), "k is bound to threadIdx.x: split it by"),
        (lambda s, sums, k: s[sums].fuse(sums.op.axis[0], k), "i.k.fused was fused with a loop that chooses the data"),
        (lambda s, sums, k: s[sums].unroll(k), "k is unrolled: split it by a factor"),
        (lambda s, sums, k: s[sums].reorder(k, sums.op.axis[0]), "i chooses the data inside of k: reorder i in front"),
        (lambda s, sums, k: s.rfactor(sums, k), "partial results need a number of places: split"),
        (lambda s, sums, k: s.rfactor(sums, s[sums].split(k, 4)[0]), "split the reduction by a factor and take the in"),
    ],
)
def test_schedules_that_no_data_could_end_are_refused(schedule: Any, cause: str) -> None:
    args, _, _ = _segments()
    s = te.create_schedule(args[-1].op)
    with pytest.raises(ScheduleError, match=f"data decides the extent of .*{cause}"):  # noqa: PT012
        schedule(s, args[-1], args[-1].op.reduce_axis[0])
        tvm.lower(s, args)


@pytest.mark.parametrize("transa", [False, True])
@pytest.mark.parametrize("transb", [False, True])
def test_a_product_of_matrices_by_numpy(transa: bool, transb: bool) -> None:
    A = te.placeholder((4, 3) if transa else (3, 4), name="A")
    B = te.placeholder((5, 4) if transb else (4, 5), name="B")
    C = tvm.contrib.cblas.matmul(A, B, transa, transb)
    D = te.compute(C.shape, lambda i, j: C[i, j] + 1, name="D")
    a, b = (np.random.default_rng(k).random(tuple(map(int, T.shape))).astype("float32") for k, T in enumerate((A, B)))
    expected = (a.T if transa else a) @ (b.T if transb else b) + 1
    equal_in_both(tvm.build(te.create_schedule(D.op), [A, B, D]), [a, b], expected)


def test_operations_know_the_arguments_of_their_template() -> None:
    @autotvm.register_topi_compute("twice.here")
    def twice(cfg: Any, A: Any, times: int) -> Any:
        return te.compute(A.shape, lambda *i: A(*i) * times, name="B")

    A = te.placeholder((4, 5), name="A")
    workload = twice(A, 2).op.attrs["workload"]
    assert workload[0] == "twice.here" and int(workload[2]) == 2
    axes = twice(A, 3).op.axis
    assert add(axes[:-1], [axes[-1]]) == list(axes) and axes[1:] == (axes[1],)
    assert not tvm.target.x86.target_has_features("avx2")


def test_outputs_of_extern_have_the_types_of_their_buffers() -> None:
    A = te.placeholder((4,), name="A")
    buffers = [tir.decl_buffer((4,), "float32"), tir.decl_buffer((4,), "int32")]

    def places(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, kept, place = map(ib.buffer_ptr, (*ins, *outs))
        with ib.for_range(0, 4) as i:
            kept[i] = a[i]
            place[i] = i
        return ib.get()

    kept, place = te.extern([(4,), (4,)], [A], places, out_buffers=buffers)
    assert (kept.dtype, place.dtype) == ("float32", "int32")


def test_conditions_that_count_and_truth_values_of_python() -> None:
    def shifted(ib: Any, a: Any, out: Any) -> None:
        is_whole = ib.allocate("bool", (1,), name="is_whole")
        is_whole[0] = True
        with ib.for_range(0, 6) as i:
            with ib.if_scope(True):
                out[i] = a[i] + (a[i] < 0) * 6
            with ib.if_scope(is_whole[0] == 0):
                out[i] = 0

    a = np.array([-6, -1, 0, 3, 5, -2], "int32")
    equal_built(shifted, [a], np.where(a < 0, a + 6, a))


def test_a_variable_that_iterations_share_and_arguments_by_name() -> None:
    @te.hybrid.script
    def halves(a, one, is_kept):  # type: ignore[no-untyped-def]
        out = output_tensor((4,), "float32")  # type: ignore[name-defined] # noqa: F821
        w = 0.0
        for i in parallel(4):  # type: ignore[name-defined] # noqa: F821
            w = a[i] / 2.0 if is_kept[i] != 0 else one
            out[i] = w
        return out

    A, kept = te.placeholder((4,), name="A"), te.placeholder((4,), "bool", name="kept")
    out = halves(A, is_kept=kept, one=tir.const(1, "float32"))
    a, is_kept = np.arange(4, dtype="float32"), np.array([True, False, True, False])
    f = tvm.build(te.create_schedule(out.op), [A, kept, out])
    equal_in_both(f, [a, is_kept], np.where(is_kept, a / 2, 1).astype("float32"))
    with pytest.raises(InputError, match="halves: missing a required argument: 'is_kept'"):
        halves(A, 1)

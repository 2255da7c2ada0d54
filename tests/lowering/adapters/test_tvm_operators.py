"""Operators of `tvm.topi` there and back: as TVM compiles them, in our interpreter and compiled by TVM again."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

tvm = pytest.importorskip("tvm", exc_type=ImportError)

from tvm import te, topi  # noqa: E402

from lowering import run  # noqa: E402
from lowering.adapters.tvm import from_tvm, to_tvm  # noqa: E402

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


def compiled(func: Any, arrays: list[Any]) -> list[Any]:
    held = [tvm.runtime.tensor(array) for array in arrays]
    tvm.compile(func, target="llvm")(*held)
    return [array.numpy() for array in held]


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.nightly] * (n not in DAILY)) for n in OPERATORS])
def test_an_operator_there_and_back(name: str) -> None:
    func = operator(name)
    arrays = drawn(func, len(OPERATORS[name][1]), np.random.default_rng(len(name)))
    expected = compiled(func, arrays)
    f = from_tvm(func)
    found = run(f, {t.name: a.copy() for t, a in zip(f.params, arrays, strict=True)})
    versions = [[found.get(t.name, a) for t, a in zip(f.params, arrays, strict=True)]]
    versions += [compiled(to_tvm(f, like=func, blocks=blocks), arrays) for blocks in (True, False)]
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

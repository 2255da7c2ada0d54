"""Functions that `lowering.tvm` builds, called in each backend."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import lowering.tvm as tvm
from lowering.tvm import te, tir


def backends_of(f: Any) -> Iterator[str]:
    """The backends of a function, each in turn in force: that which it has, and the interpreter."""
    for backend in dict.fromkeys((f.backend, "python")):
        f.backend = backend
        yield backend


def called(f: Any, arrays: Sequence[Any], *outputs: Any) -> list[Any]:
    """The outputs of a call, arrays like `outputs`."""
    made = [tvm.nd.empty(out.shape, str(out.dtype)) for out in outputs]
    f(*map(tvm.nd.array, arrays), *made)
    return [out.numpy() for out in made]


def equal_in_both(f: Any, arrays: Sequence[Any], *expected: Any) -> None:
    """Compare the last arguments with what is expected, in C and in the interpreter."""
    for backend in backends_of(f):
        for found, wanted in zip(called(f, arrays, *expected), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, err_msg=backend)


def equal_elements(formula: Callable[..., Any], arrays: Sequence[Any], expected: Any) -> None:
    """Compare the values of a formula of indices and of a tensor an array, in C and in the interpreter."""
    given = [te.placeholder(array.shape, str(array.dtype), f"X{k}") for k, array in enumerate(arrays)]
    out = te.compute(expected.shape, lambda *i: formula(*i, *given), name="out")
    equal_in_both(tvm.build(te.create_schedule(out.op), [*given, out]), arrays, expected)


def equal_built(kernel: Callable[..., None], arrays: Sequence[Any], expected: Any) -> None:
    """Compare what a kernel stores, which is given a builder and a pointer an array, the last one of the result."""
    given = [te.placeholder(array.shape, str(array.dtype), f"X{k}") for k, array in enumerate(arrays)]

    def nest(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        kernel(ib, *map(ib.buffer_ptr, (*ins, *outs)))
        return ib.get()

    out = te.extern(expected.shape, given, nest, dtype=str(expected.dtype), name="out")
    equal_in_both(tvm.build(te.create_schedule(out.op), [*given, out]), arrays, expected)

"""Functions that `lowering.tvm` builds, called in each backend."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import lowering.tvm as tvm


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

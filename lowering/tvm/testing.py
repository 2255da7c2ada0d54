"""`tvm.testing`: comparison of arrays, and marks of tests."""

import unittest
from collections.abc import Callable
from typing import Any, TypeVar

from lowering.tvm import runtime
from lowering.tvm.arith import Analyzer
from lowering.tvm.ir import structural_equal
from lowering.tvm.target import Target

Test = TypeVar("Test", bound="Callable[..., Any]")
device_enabled = runtime.enabled


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise `AssertionError` unless shapes are equal and elements close."""
    import numpy as np

    left, right = np.asarray(actual), np.asarray(desired)
    np.testing.assert_equal(left.shape, right.shape)
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=True)


def assert_prim_expr_equal(lhs: Any, rhs: Any) -> None:
    """Raise `AssertionError` unless two expressions are the same, or proved equal."""
    if not structural_equal(lhs, rhs) and not Analyzer().can_prove_equal(lhs, rhs):
        raise AssertionError(f"not proved equal: {lhs} and {rhs}")


def enabled_targets() -> list[tuple[str, runtime.Device]]:
    """The targets available on this machine, each with its device."""
    return [("llvm", runtime.cpu())]


def install_request_hook(depth: int) -> None:
    """Do nothing: the scripts of a gallery download nothing here."""


def uses_gpu(*tests: Test) -> Any:
    """Mark a test; it stays as it is."""
    return tests[0] if tests else lambda test: test


requires_llvm = uses_gpu


def requires_gpu(*tests: Test) -> Any:
    """Skip a test: its device is not here."""
    skip = unittest.skip("the device is not here")
    return skip(tests[0]) if tests else skip


requires_cuda = requires_opencl = requires_vulkan = requires_metal = requires_rocm = requires_gpu
requires_cudagraph = requires_tensorcore = requires_nvptx = requires_hexagon = requires_gpu


def parametrize_targets(*targets: Any) -> Any:
    """Give a test `target` and `dev` of each target that runs here."""
    import pytest

    named = [t for t in targets if isinstance(t, (str, dict, Target))]
    here = [t for t in named or ["llvm"] if device_enabled(t)]
    mark = pytest.mark.parametrize(("target", "dev"), [(t, runtime.device(t)) for t in here])
    return mark(targets[0]) if targets and callable(targets[0]) else mark


def parameter(*values: Any, ids: Any = None) -> Any:
    """A fixture with several values."""
    import pytest

    return pytest.fixture(params=values, ids=ids)(lambda request: request.param)


def main() -> None:
    """Run the tests of the script that calls it."""
    import inspect
    import sys

    import pytest

    sys.exit(pytest.main([inspect.stack()[1].filename]))

"""`tvm.runtime`, `tvm.nd` and `tvm.testing`: devices, arrays on them, registered functions, conversion; tests."""

from __future__ import annotations

import inspect
import re
import sys
import unittest
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, Final, TypeVar

from bound import dtypes
from bound.tir.build import const as constant
from bound.tir.build import operand
from intset.errors import InputError
from intset.expr import Node, arguments, shown
from intset.expr.node import truth
from lowering.tvm.arith import Analyzer
from lowering.tvm.ir import structural_equal
from lowering.tvm.target import HOSTS, Target

PACKED: Final[dict[str, Callable[..., Any]]] = {}  # `tvm.register_func`


def register_func(name: Any, func: Callable[..., Any] | None = None, override: bool = False) -> Any:
    """Register a Python function under a name, for `tir.call_packed`; a decorator without `func`."""
    if callable(name) and hasattr(name, "__name__"):
        return register_func(name.__name__, name, override)
    arguments.a_name(name, "the name of a function")

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        if name in PACKED and not override:
            raise InputError(f"the function {name} is registered already: give override=True")
        PACKED[name] = function
        return function

    return add if func is None else add(func)


def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The registered function of a name.

    Raises
    ------
    InputError: no function has the name, and `allow_missing` is false.
    """
    found = PACKED.get(arguments.a_name(name, "the name of a function"))
    if found is None and not allow_missing:
        raise InputError(f"no function is registered as {shown(name)}: functions of TVM's C++ half are not here")
    return found


@dataclass(frozen=True)
class Device:
    """A device by kind and number. `exist` tells whether it is here: processors are."""

    kind: str
    index: int = 0
    compute_version: ClassVar[None] = None  # a device with a version is not here

    @property
    def exist(self) -> bool:
        return self.kind in HOSTS

    @property
    def device_type(self) -> int:
        return 1 if self.exist else 2

    device_id = property(lambda self: self.index)

    def sync(self, stream: object = None) -> None:
        """Do nothing: calls return when their work is done."""

    def __repr__(self) -> str:
        return f"{'cpu' if self.exist else self.kind}({self.index})"


def device(kind: object = "cpu", index: int = 0) -> Device:
    """The device of a target or a target's name."""
    return Device(Target(kind).kind.name, index)


def cpu(index: int = 0) -> Device:
    """A processor."""
    return Device("cpu", index)


def enabled(target: object) -> bool:
    """Whether `build` makes code for a target."""
    return Target(target).runs_here


device_enabled = enabled


class NDArray:
    """An array of a script: a numpy array with TVM's methods.

    Invariant: `data` is row-major and owned.
    """

    def __init__(self, data: Any, where: Device) -> None:
        self.data = data
        self.device = self.ctx = where

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def dtype(self) -> str:
        return str(self.data.dtype)

    def numpy(self) -> Any:
        """A copy as a numpy array."""
        return self.data.copy()

    asnumpy = numpy

    def copyfrom(self, source: Any) -> NDArray:
        """Overwrite the elements."""
        self.data[...] = source.data if isinstance(source, NDArray) else source
        return self

    def copyto(self, target: NDArray | Device) -> NDArray:
        """Write the elements to another array, or to a new one."""
        return NDArray(self.data.copy(), target) if isinstance(target, Device) else target.copyfrom(self)

    def asscalar(self) -> Any:
        return self.data.item()

    def __dlpack__(self, **more: Any) -> Any:
        return self.data.__dlpack__(**more)

    to_dlpack = __dlpack__

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.data if dtype is None else self.data.astype(dtype)

    def __getitem__(self, place: Any) -> Any:
        return self.data[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        self.data[place] = value.data if isinstance(value, NDArray) else value

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<NDArray shape={self.shape}, {self.device}>\n{self.data!r}"


def array(data: Any, device: Device | None = None, ctx: Device | None = None, **more: object) -> NDArray:
    """A copy of an array, on a device.

    Raises
    ------
    InputError: the device is not here.
    """
    import numpy as np

    return NDArray(np.array(data.data if isinstance(data, NDArray) else data, order="C"), _present(device or ctx))


def empty(
    shape: Any, dtype: str = "float32", device: Device | None = None, ctx: Device | None = None, **more: object
) -> NDArray:
    """A new array; its elements are 0."""
    import numpy as np

    extents = [arguments.as_count(n, "an extent") for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    held = "uint16" if dtypes.check(dtype) == "bfloat16" else dtypes.check(dtype)
    return NDArray(np.zeros(extents, held), _present(device or ctx))


def from_dlpack(external: Any) -> NDArray:
    """The memory of a foreign array or capsule.

    Raises
    ------
    InputError: it is not row-major.
    """
    import numpy as np

    is_capsule = not hasattr(external, "__dlpack__")
    given = SimpleNamespace(__dlpack__=lambda **_: external, __dlpack_device__=lambda: (1, 0))
    shared = np.from_dlpack(given if is_capsule else external)
    if not shared.flags.c_contiguous:
        raise InputError("from_dlpack takes row-major arrays")
    return NDArray(shared, cpu())


def _present(where: Device | None) -> Device:
    found = cpu() if where is None else where
    if not isinstance(found, Device) or not found.exist:
        raise InputError(f"the device {shown(found)} is not here: arrays live on tvm.cpu()")
    return found


cuda, opencl, vulkan, metal, rocm, vpi, ext_dev = (
    partial(Device, kind) for kind in ("cuda", "opencl", "vulkan", "metal", "rocm", "vpi", "ext_dev")
)
gpu = cuda


class DataType(str):
    """The name of an element type with its parts: `DataType("float32x4")` has 32 bits and 4 lanes."""

    __slots__ = ()

    @property
    def bits(self) -> int:
        digits = re.search(r"[a-z](\d+)", self)
        return int(digits[1]) if digits else 1

    @property
    def lanes(self) -> int:
        return int(self.partition("x")[2] or 1)


def convert(value: Any) -> Any:
    """Numbers as expressions, also in lists; other objects as they are."""
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    if isinstance(value, bool):
        return truth(value)
    if type(value).__module__ == "numpy" and not getattr(value, "shape", True):
        return constant(value.item(), str(value.dtype))
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return operand(value) if is_number and not isinstance(value, Node) else value


const = operand


def on_arrays() -> dict[str, Callable[..., Any]]:
    """The registered functions as `run` calls them: with arrays of the script in the place of numpy arrays."""
    import numpy as np

    def adapted(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: function(*(NDArray(a, cpu()) if isinstance(a, np.ndarray) else a for a in args))

    return {name: adapted(function) for name, function in PACKED.copy().items()}  # functions of loops may end meanwhile


# -- tvm.testing ----------------------------------------------------------------------------------------------------

Test = TypeVar("Test", bound="Callable[..., Any]")


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


def enabled_targets() -> list[tuple[str, Device]]:
    """The targets available on this machine, each with its device."""
    return [("llvm", cpu())]


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
    mark = pytest.mark.parametrize(("target", "dev"), [(t, device(t)) for t in here])
    return mark(targets[0]) if targets and callable(targets[0]) else mark


def parameter(*values: Any, ids: Any = None) -> Any:
    """A fixture with several values."""
    import pytest

    return pytest.fixture(params=values, ids=ids)(lambda request: request.param)


def main() -> None:
    """Run the tests of the script that calls it."""
    import pytest

    sys.exit(pytest.main([inspect.stack()[1].filename]))

"""`tvm._ffi`: registered functions, and the names that modules of the operator library get from TVM's C++ half.

A name `f` of `tvm.topi.cpp.nn` is the function registered as `topi.nn.f`: by `tvm.register_func`, or in `LIBRARY`
for what schedules call. A call of any other function is refused with its name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import util
from itertools import product
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from bound.schedule import Schedule, create_schedule
from bound.te_schedule import AutoInlineInjective
from bound.tensor import Tensor
from bound.tir import floor
from bound.tir.build import all_of, cast, const, select
from intset.errors import InputError
from intset.expr.node import as_expr
from lowering.tvm.runtime import PACKED, get_global_func, register_func

libinfo = SimpleNamespace(__version__="0.19.0")


def register_object(name: Any = None) -> Any:
    """Return a decorated class as it is."""
    return name if isinstance(name, type) else lambda cls: cls


def _is_empty_shape(shape: Sequence[Any]) -> bool:
    return any(as_expr(extent) is as_expr(0) for extent in shape)


def _schedule(outs: Tensor | Sequence[Tensor]) -> tuple[Schedule, list[Tensor]]:
    tensors = [outs] if isinstance(outs, Tensor) else list(outs)
    return create_schedule([t.op for t in tensors]), tensors


def _fused(s: Schedule, out: Tensor) -> Schedule:
    if out.op.axis:
        s[out].fuse(*out.op.axis)
    return s


def _schedule_injective(target: object, outs: Tensor | Sequence[Tensor]) -> Schedule:
    """Inline what stands for one element each, and fuse the loops of the rest."""
    s, tensors = _schedule(outs)
    AutoInlineInjective(s)
    for out in tensors:
        if hasattr(out.op, "axis") and not _is_empty_shape(out.shape):
            _fused(s, out)
    return s


def _default_schedule(target: object, outs: Tensor | Sequence[Tensor]) -> Schedule:
    return _schedule(outs)[0]


def _bilinear(layout: str) -> Callable[..., Any]:
    """The function that samples an image between its pixels, 0 around it, which the operators of regions call."""

    def sample(data: Tensor, indices: Sequence[Any], max_y: Any, max_x: Any) -> Any:
        point = dict(zip(layout, indices, strict=True))
        sides = []
        for axis in "HW":
            near: Any = cast("int32", floor(point[axis]))
            part = point[axis] - near
            sides.append(((near, 1.0 - part), (near + 1, part)))
        total: Any = const(0.0, data.dtype)
        for (y, weight_y), (x, weight_x) in product(*sides):
            pixel = data(*({**point, "H": y, "W": x}[axis] for axis in layout))
            inside = all_of(y >= 0, y <= max_y, x >= 0, x <= max_x)
            total = total + select(inside, weight_y * weight_x * pixel, const(0.0, data.dtype))
        return total

    return sample


LIBRARY: Final[dict[str, Callable[..., Any]]] = {
    "topi.utils.is_empty_shape": _is_empty_shape,
    "topi.utils.bilinear_sample_nchw": _bilinear("NCHW"),
    "topi.utils.bilinear_sample_nhwc": _bilinear("NHWC"),
    "topi.generic.default_schedule": _default_schedule,
    "topi.generic.default_schedule_auto_inline": _schedule_injective,
    "topi.generic.schedule_extern": _schedule_injective,
    "topi.generic.schedule_injective": _schedule_injective,
    "topi.generic.schedule_injective_from_existing": _fused,
}


def native(name: str) -> Callable[..., Any]:
    """The function registered under a name; without one, a function that refuses its call."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = PACKED.get(name, LIBRARY.get(name))
        return refuse() if found is None else found(*args, **kwargs)

    def refuse() -> NoReturn:
        raise InputError(
            f"{name} is of TVM's C++ half, which is not here: tvm.register_func({name!r}, f) gives it a Python function"
        )

    call.__name__ = call.__qualname__ = name.rpartition(".")[2]
    return call


def _init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Give a module the functions of a namespace."""
    module = sys.modules[target_module_name or namespace]
    is_package = hasattr(module, "__path__")

    def named(name: str) -> Any:
        if name.startswith("_") or (is_package and util.find_spec(f"{module.__name__}.{name}") is not None):
            raise AttributeError(name)  # the import system asks before it loads a module of that name
        return native(f"{namespace}.{name}")

    module.__dict__["__getattr__"] = named

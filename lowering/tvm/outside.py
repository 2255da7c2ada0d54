"""Modules of TVM that are not here.

A script that imports one is told in one line what serves instead. The operator library imports many and uses few:
it gets modules whose functions are refused by name when they are called.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NoReturn

from intset.errors import InputError

_HERE: Final = __name__.rpartition(".")[0]
NOT_HERE: Final = {
    name: f"tvm.{name} is not here: {instead}"
    for name, instead in {
        "relay": "lowering.Graph holds graphs of operators, te and lowering.lower single ones",
        "contrib": "tvm.register_func and tir.call_packed call libraries from Python",
        "auto_scheduler": "lowering.explore measures schedules of a space",
        "meta_schedule": "lowering.explore measures schedules of a space",
        "rpc": "nothing runs on another machine; lowering.explore takes any concurrent.futures.Executor",
        "micro": "lowering.to_c prints C99 for any device",
        "script": "lowering.parse_nest reads nests, lowering.adapters.tvm today's TensorIR",
        "relax": "lowering.Graph holds graphs of operators",
    }.items()
}


def _undecorated(*_: object, **__: object) -> Callable[[Any], Any]:
    return lambda function: function


def _no(*_: object, **__: object) -> bool:
    return False


ANSWERS: Final[dict[str, Callable[..., Any]]] = {  # what operators ask before they choose
    "tvm.contrib.pickle_memoize.memoize": _undecorated,
    "tvm.contrib.thrust.can_use_thrust": _no,
    "tvm.contrib.thrust.can_use_rocthrust": _no,
    "tvm.contrib.nvcc.have_int8": _no,
    "tvm.contrib.nvcc.have_fp16": _no,
    "tvm.contrib.nvcc.have_tensorcore": _no,
    "tvm.auto_scheduler.is_auto_scheduler_enabled": _no,
    "tvm.meta_schedule.is_meta_schedule_enabled": _no,
    "tvm.relay.ty.is_dynamic": _no,
}


class OutsideName:
    """A name of a missing module; calls are refused."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *_: object, **__: object) -> NoReturn:
        top = self.name.split(".")[1]
        raise InputError(f"{self.name} is not here: {NOT_HERE[top].partition(': ')[2]}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.name}.{name}"
        return ANSWERS[full] if full in ANSWERS else OutsideName(full)


class OutsideModule(ModuleType):
    """An absent module, as the operator library imports it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(OutsideName(self.__name__), name)


def asked_by_library() -> bool:
    """Whether the code that imports is the operator library."""
    frame = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("importlib", _HERE)):
            return name == "tvm.topi" or name.startswith("tvm.topi.")
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def forget_outside(package: ModuleType) -> None:
    """Remove what the library imported, so that scripts are told."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, OutsideModule):
            del sys.modules[name]
            package.__dict__.pop(name.rpartition(".")[2], None)

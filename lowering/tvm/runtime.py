"""`tvm.runtime`: arrays, built modules and conversion."""

from __future__ import annotations

import re
from typing import Any

from bound.tir.build import operand
from intset.expr.node import Node
from lowering.tvm.building import BuiltModule as Module
from lowering.tvm.nd import Device, NDArray, cpu, cuda, device, empty
from lowering.tvm.target import Target

ndarray = NDArray


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


def enabled(target: object) -> bool:
    """Whether `build` makes code for a target."""
    return Target(target).runs_here


def convert(value: Any) -> Any:
    """Numbers as expressions, also in lists; other objects as they are."""
    if isinstance(value, (list, tuple)):
        return [convert(v) for v in value]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return operand(value) if is_number and not isinstance(value, Node) else value


const = operand

__all__ = [
    "DataType",
    "Device",
    "Module",
    "NDArray",
    "const",
    "convert",
    "cpu",
    "cuda",
    "device",
    "empty",
    "enabled",
    "ndarray",
]

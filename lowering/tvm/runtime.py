"""`tvm.runtime`: arrays, built modules and conversion."""

from __future__ import annotations

from typing import Any

from bound.tir.build import operand
from intset.expr.node import Node
from lowering.tvm.building import BuiltModule as Module
from lowering.tvm.nd import Device, NDArray, cpu, cuda, device, empty
from lowering.tvm.target import Target

ndarray = NDArray


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

__all__ = ["Device", "Module", "NDArray", "const", "convert", "cpu", "cuda", "device", "empty", "enabled", "ndarray"]

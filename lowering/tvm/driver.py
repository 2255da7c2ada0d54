"""`tvm.driver`: the first step of `tvm.lower` under its own name."""

from __future__ import annotations

from types import SimpleNamespace

from lowering.tvm.building import build, lower

build_module = SimpleNamespace(build=build, lower=lower, schedule_to_module=lower)

__all__ = ["build", "build_module", "lower"]

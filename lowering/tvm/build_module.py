"""`tvm.driver.build_module`: the build steps under TVM's names."""

from __future__ import annotations

from lowering.tvm.building import build, lower

schedule_to_module = lower

__all__ = ["build", "lower", "schedule_to_module"]

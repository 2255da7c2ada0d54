"""The corpus of schedules: the scripts, and what TVM 0.8 recorded for them."""

import importlib.util
import json
from functools import cache
from typing import Any

from bound.infer.accesses import accesses
from bound.itervar import IterVar
from bound.schedule import Schedule
from bound.tensor import ComputeOp, PlaceholderOp
from intset.expr.dag import opaque_terms
from tests import ROOT

DATA = ROOT / "benchmarks" / "data"


def _cases() -> dict[str, Any]:
    spec = importlib.util.spec_from_file_location("corpus_schedules", DATA / "schedules.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {case["name"]: case for case in module.CASES}


CASES = _cases()


@cache
def recorded() -> dict[str, Any]:
    cases = json.loads((DATA / "schedules.json").read_text())["cases"]
    return {case["name"]: case for case in cases}


def axis_ids(schedule: Schedule) -> dict[IterVar, str]:
    """The names that the recording gives to axes: `stage.axis`, with `~k` for repeats."""
    ids = {}
    for stage in schedule.stages:
        count: dict[str, int] = {}
        for iv in stage.all_iter_vars:
            count[iv.name] = count.get(iv.name, 0) + 1
            ids[iv] = f"{stage.name}.{iv.name}" + (f"~{count[iv.name]}" if count[iv.name] > 1 else "")
    return ids


def can_run(schedule: Schedule) -> bool:
    """Whether the oracle can run the nests: the oracle knows all operations, and no index depends on data."""
    ops = [stage.op for stage in schedule.stages]
    return all(isinstance(op, (ComputeOp, PlaceholderOp)) for op in ops) and not opaque_terms(
        *(e for op in ops for access in accesses(op) for e in access.indices)
    )

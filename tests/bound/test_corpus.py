"""Every schedule of the corpus builds, and its stages agree with those that TVM 0.8 recorded."""

from __future__ import annotations

from typing import Any

import pytest

from bound.errors import ScheduleError
from bound.itervar import IterVar
from bound.operation import ComputeOp
from bound.schedule import AttachType, Fuse, Rebase, Split
from bound.schedule.attach import create_attach_path
from tests.bound.corpus import CASES, axis_ids, recorded

ATTACH = {"root": AttachType.GROUP_ROOT, "scope": AttachType.SCOPE, "inlined_already": AttachType.INLINED_ALREADY}


def relation_row(relation: Any, ids: dict[IterVar, str]) -> dict[str, Any]:
    if isinstance(relation, Split):
        names = {key: ids[getattr(relation, key)] for key in ("parent", "outer", "inner")}
        given = {key: getattr(relation, key) for key in ("factor", "nparts")}
        return {"type": "split", **names, **{key: None if e is None else str(e) for key, e in given.items()}}
    if isinstance(relation, Fuse):
        return {"type": "fuse", **{key: ids[getattr(relation, key)] for key in ("outer", "inner", "fused")}}
    assert isinstance(relation, Rebase)
    return {"type": "rebase", "parent": ids[relation.parent], "rebased": ids[relation.rebased]}


def test_the_corpus_is_complete() -> None:
    assert len(CASES) == 109 and set(CASES) == set(recorded())


@pytest.mark.parametrize("name", [name for name in CASES if name != "reject_attach_to_nonconsumer"])
def test_stages_agree_with_the_recorded_ones(name: str) -> None:
    record = recorded()[name]
    schedule = CASES[name]["fn"]().normalize()
    if record["status"] != "ok":
        return
    ids = axis_ids(schedule)
    paths = create_attach_path(schedule)
    assert [stage.name for stage in schedule.stages] == [row["name"] for row in record["stages"]]
    for stage, row in zip(schedule.stages, record["stages"], strict=True):
        assert type(stage.op).__name__ == row["op_type"]
        assert stage.attach_type is ATTACH[row["attach_type"]]
        assert stage.scope == row["scope"] and stage.is_output is row["is_output"]
        assert stage.double_buffered is row["double_buffer"]
        assert [tensor.op.name for tensor in stage.op.input_tensors] == row["inputs"]
        shape = [str(extent).replace(" ", "") for extent in stage.op.output(0).shape]
        assert shape == [text.strip("()").replace(" ", "") for text in row["shape"]]
        assert stage.op.num_outputs == row["num_outputs"]
        assert [ids[iv] for iv in stage.leaf_iter_vars] == [leaf["id"] for leaf in row["leaf_iter_vars"]]
        assert [ids[iv] for iv in stage.op.root_iter_vars] == [root["id"] for root in row["root_iter_vars"]]
        assert [relation_row(relation, ids) for relation in stage.relations] == row["relations"]
        threads = {ids[iv]: attr.bind_thread for iv, attr in stage.iter_var_attrs.items()}
        assert {iv: thread.thread_tag for iv, thread in threads.items() if thread is not None} == row["binds"]
        assert [ids[iv] for _, iv in paths[stage]] == row["attach_path"]
        if isinstance(stage.op, ComputeOp):
            assert [ids[iv] for iv in stage.op.reduce_axis] == row["reduce_axes"]
        if "attach_ivar" in row:
            assert stage.attach_stage is not None and stage.attach_ivar is not None
            assert (stage.attach_stage.name, ids[stage.attach_ivar]) == (row["attach_stage"], row["attach_ivar"])


def test_attaching_to_a_stage_that_does_not_read_is_refused_at_the_call() -> None:
    with pytest.raises(ScheduleError, match=r"stage B cannot be computed at i of X: X does not read B"):
        CASES["reject_attach_to_nonconsumer"]["fn"]()


def test_building_leaves_the_schedule_as_it_was_written() -> None:
    for name, case in CASES.items():
        if name == "reject_attach_to_nonconsumer":
            continue
        schedule = case["fn"]()
        before = [(list(s.leaf_iter_vars), list(s.relations), s.attach_type, s.attach_ivar) for s in schedule.stages]
        schedule.normalize()
        after = [(list(s.leaf_iter_vars), list(s.relations), s.attach_type, s.attach_ivar) for s in schedule.stages]
        assert all(a[1] == b[1] and a[2] is b[2] and a[3] is b[3] for a, b in zip(before, after, strict=True))
        assert all(x is y for a, b in zip(before, after, strict=True) for x, y in zip(a[0], b[0], strict=True))

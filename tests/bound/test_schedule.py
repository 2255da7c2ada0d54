"""The schedule language: effects of each call, layouts of stages; refused calls change nothing."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.itervar import IterType
from bound.schedule import AttachType, Fuse, Rebase, Schedule, ScheduleError, Singleton, Split, Stage
from bound.schedule.attach import create_attach_path, default_storage_rank, needs_relax, storage_rank
from bound.schedule.rewrites import AXIS_SEPARATOR
from bound.tensor import Tensor
from intset.errors import InputError
from lowering import lower, run


class Program:
    """A(12, 20) -> B -> C(reduces B over k) -> D, and X which reads A alone."""

    def __init__(self) -> None:
        self.a = te.placeholder((12, 20), name="A")
        self.b = te.compute((12, 20), lambda i, j: self.a[i, j] + 1, name="B")
        self.k = te.reduce_axis((0, 20), "k")
        self.c = te.compute((12,), lambda i: te.sum(self.b[i, self.k], axis=self.k), name="C")
        self.d = te.compute((12,), lambda i: self.c[i] * 2, name="D")
        self.x = te.compute((12, 20), lambda i, j: self.a[i, j] * 3, name="X")
        self.s = te.create_schedule([self.d.op, self.x.op])


def names(stage: Stage) -> list[str]:
    return [iv.name for iv in stage.leaf_iter_vars]


def snapshot(schedule: Schedule) -> list[Any]:
    return [
        (
            stage._op,
            tuple(map(id, stage.all_iter_vars)),
            tuple(map(id, stage.leaf_iter_vars)),
            tuple(map(id, stage.relations)),
            {id(iv): attr for iv, attr in stage.iter_var_attrs.items()},
            (stage.attach_type, stage.attach_stage, id(stage.attach_ivar), stage.scope, stage.double_buffered),
            (stage.group, stage.env_thread_vars),
        )
        for stage in (*schedule.stages, *schedule.groups)
    ]


def test_stages_come_in_dataflow_order() -> None:
    p = Program()
    assert [stage.name for stage in p.s.stages] == ["A", "B", "C", "D", "X"]
    assert [stage.is_output for stage in p.s.stages] == [False, False, False, True, True]
    assert p.s[p.c] is p.s[p.c.op] and p.s[p.c].op is p.c.op and p.c.op.output(0) is p.c
    assert p.c.op.axis[0].name == "i" and p.c.op.reduce_axis == (p.k,) and p.c.op.input_tensors == (p.b,)


def test_split_fuse_reorder_tile() -> None:
    p = Program()
    s = p.s[p.x]
    i, j = p.x.op.axis
    xo, yo, xi, yi = s.tile(i, j, 4, 8)
    assert names(s) == ["i.outer", "j.outer", "i.inner", "j.inner"]
    fused = s.fuse(xi, yi)
    assert names(s) == ["i.outer", "j.outer", "i.inner.j.inner.fused"]
    fo, fi = s.split(fused, nparts=2)
    s.reorder(fi, xo)
    assert s.leaf_iter_vars[0] is fi and s.leaf_iter_vars[-1] is xo
    assert s.leaf_iter_vars[1] is yo and s.leaf_iter_vars[2] is fo
    kinds = [type(relation) for relation in s.relations]
    assert kinds == [Split, Split, Fuse, Split]
    last = s.relations[-1]
    assert isinstance(last, Split) and last.factor is None and str(last.nparts) == "2" and last.tail == "guard"


def test_fuse_takes_any_number_of_axes() -> None:
    p = Program()
    single = p.s[p.x].fuse()
    assert names(p.s[p.x]) == ["singleton", "i", "j"] and isinstance(p.s[p.x].relations[0], Singleton)
    fused = p.s[p.x].fuse(single, *p.x.op.axis)
    assert fused.name == "singleton.i.fused.j.fused" and names(p.s[p.x]) == [fused.name]
    q = Program()
    i, j = q.x.op.axis
    assert q.s[q.x].fuse(j, i).name == "i.j.fused"
    r = Program()
    assert r.s[r.x].fuse(r.x.op.axis[0]) is r.x.op.axis[0] and not r.s[r.x].relations
    c = Program()
    assert c.s[c.c].fuse(c.c.op.axis[0], c.k).iter_type is IterType.COMM_REDUCE


def test_tails_of_a_split() -> None:
    p = Program()
    i, j = p.x.op.axis
    p.s[p.x].split(i, 5, tail="shrink")
    p.s[p.x].split(j, 3, disable_predication=True)
    first, second = p.s[p.x].relations
    assert isinstance(first, Split) and isinstance(second, Split)
    assert (first.tail, second.tail) == ("shrink", "round_up")


def test_annotations() -> None:
    p = Program()
    s = p.s[p.x]
    xo, yo, xi, yi = s.tile(*p.x.op.axis, 4, 4)
    s.parallel(xo)
    s.unroll(xi)
    s.vectorize(yi)
    s.pragma(yo, "auto_unroll", 8)
    s.prefetch(p.a, yo, 1)
    s.storage_align(p.x.op.axis[0], 8, 4)
    kinds = {iv.name: attr.iter_type for iv, attr in s.iter_var_attrs.items()}
    assert kinds["i.outer"] is IterType.PARALLELIZED and kinds["j.inner"] is IterType.VECTORIZED
    assert s.iter_var_attrs[yo].pragmas == (("auto_unroll", 8),)
    assert s.iter_var_attrs[p.x.op.axis[0]].align == (8, 4)
    p.s[p.b].double_buffer()
    p.s[p.b].set_scope("shared")
    assert p.s[p.b].double_buffered and p.s[p.b].scope == "shared"


def test_attachments() -> None:
    p = Program()
    p.s[p.c].compute_at(p.s[p.d], p.d.op.axis[0])
    p.s[p.b].compute_at(p.s[p.c], p.k)
    stage = p.s[p.b]
    assert (stage.attach_type, stage.attach_stage, stage.attach_ivar) == (AttachType.SCOPE, p.s[p.c], p.k)
    paths = create_attach_path(p.s)
    assert [(at.name, iv.name) for at, iv in paths[p.s[p.b]]] == [("C", "k"), ("C", "i"), ("D", "i")]
    p.s[p.b].compute_root()
    assert stage.attach_type is AttachType.GROUP_ROOT and stage.attach_stage is None
    p.s[p.b].compute_inline()
    n = p.s.normalize()
    assert n.stages[1].attach_type is AttachType.INLINED_ALREADY and stage.attach_type is AttachType.INLINE
    assert n[p.c].op.input_tensors == (p.a,)


def test_attachments_follow_axes_that_are_split_or_fused_later() -> None:
    p = Program()
    p.s[p.c].compute_at(p.s[p.d], p.d.op.axis[0])
    _, inner = p.s[p.d].split(p.d.op.axis[0], 4)
    assert p.s.normalize()[p.c].attach_ivar is inner
    q = Program()
    q.s[q.b].compute_at(q.s[q.c], q.k)
    fused = q.s[q.c].fuse(q.c.op.axis[0], q.k)
    assert q.s.normalize()[q.b].attach_ivar is fused
    q = Program()
    q.s[q.b].compute_at(q.s[q.c], q.c.op.axis[0])  # the outer one of two that are fused
    fused = q.s[q.c].fuse(q.c.op.axis[0], q.k)
    assert q.s.normalize()[q.b].attach_ivar is fused


def test_normalize_rebases_every_root_loop() -> None:
    p = Program()
    n = p.s.normalize()
    stage = n[p.c]
    assert [type(r) for r in stage.relations] == [Rebase, Rebase]
    assert names(stage) == ["i", "k"] and stage.leaf_iter_vars[1] is not p.k and stage.leaf_iter_vars[1].is_reduce
    assert p.s[p.c].leaf_iter_vars[1] is p.k


REFUSALS: dict[str, tuple[Callable[[Program], Any], str]] = {
    "split of a parent": (
        lambda p: [p.s[p.x].split(p.x.op.axis[0], 4), p.s[p.x].split(p.x.op.axis[0], 2)],
        r"stage X: split of i, which is no loop any more: it was replaced by i\.outer and i\.inner",
    ),
    "split of a foreign axis": (
        lambda p: p.s[p.x].split(p.d.op.axis[0], 4),
        "stage X: split of i, which is not an axis",
    ),
    "split by 0": (
        lambda p: p.s[p.x].split(p.x.op.axis[0], 0),
        "stage X: factor of i must be a positive integer, not 0",
    ),
    "split by a float": (lambda p: p.s[p.x].split(p.x.op.axis[0], 2.5), "factor of i must be a positive integer"),
    "split by a bool": (lambda p: p.s[p.x].split(p.x.op.axis[0], True), "factor of i must be a positive integer"),
    "split by an axis": (lambda p: p.s[p.x].split(p.x.op.axis[0], p.k), "factor of i must be a positive integer"),
    "split without size": (lambda p: p.s[p.x].split(p.x.op.axis[0]), "either factor or nparts"),
    "split with two sizes": (lambda p: p.s[p.x].split(p.x.op.axis[0], 2, 3), "either factor or nparts"),
    "split with nparts -1": (lambda p: p.s[p.x].split(p.x.op.axis[0], nparts=-1), "nparts of i must be a positive"),
    "unknown tail": (lambda p: p.s[p.x].split(p.x.op.axis[0], 5, tail="cut"), "tail of i is one of guard"),
    "fuse not adjacent": (
        lambda p: [p.s[p.x].tile(*p.x.op.axis, 4, 4), p.s[p.x].fuse(*[p.s[p.x].leaf_iter_vars[k] for k in (0, 2)])],
        r"stage X: cannot fuse i\.outer with i\.inner, the second is not the next loop",
    ),
    "fuse of a fused axis": (
        lambda p: [p.s[p.x].fuse(*p.x.op.axis), p.s[p.x].fuse(*p.x.op.axis)],
        r"stage X: fuse of i, which is no loop any more: it was fused into i\.j\.fused",
    ),
    "reorder of a foreign axis": (
        lambda p: p.s[p.x].reorder(p.x.op.axis[1], p.k),
        "stage X: reorder of k, which is not an axis of this stage: the loops are i, j",
    ),
    "reorder twice": (lambda p: p.s[p.x].reorder(*[p.x.op.axis[0]] * 2), "reorder names the axis i twice"),
    "tile with a bad second factor": (lambda p: p.s[p.x].tile(*p.x.op.axis, 4, 0), "y_factor of j must be a positive"),
    "bind to a loop": (
        lambda p: p.s[p.x].bind(p.x.op.axis[0], p.k),
        "stage X: i can only be bound to an axis made by thread_axis",
    ),
    "bind to an unknown tag": (
        lambda p: p.s[p.x].bind(p.x.op.axis[0], te.thread_axis("thread.q")),
        "a thread tag is one of",
    ),
    "bind twice": (
        lambda p: [p.s[p.x].bind(p.x.op.axis[0], te.thread_axis(t)) for t in ("threadIdx.x", "threadIdx.y")],
        "stage X: i is already bound to threadIdx.x",
    ),
    "attach to a non-consumer": (
        lambda p: p.s[p.b].compute_at(p.s[p.x], p.x.op.axis[0]),
        "stage B cannot be computed at i of X: X does not read B",
    ),
    "attach to itself": (lambda p: p.s[p.b].compute_at(p.s[p.b], p.b.op.axis[0]), "B does not read B"),
    "attach to a producer": (lambda p: p.s[p.c].compute_at(p.s[p.b], p.b.op.axis[0]), "B does not read C"),
    "attach to no loop": (
        lambda p: [p.s[p.d].split(p.d.op.axis[0], 4), p.s[p.c].compute_at(p.s[p.d], p.d.op.axis[0])],
        r"stage D: compute_at of C of i, which is no loop any more: it was replaced by i\.outer and i\.inner",
    ),
    "attach to another schedule": (
        lambda p: p.s[p.c].compute_at(Program().s.stages[3], p.d.op.axis[0]),
        "stage C: compute_at needs a stage of the same schedule",
    ),
    "inline an output": (lambda p: p.s[p.d].compute_inline(), "stage D: an output of the schedule cannot be inlined"),
    "inline a placeholder": (lambda p: p.s[p.a].compute_inline(), "stage A: only an operation made by te.compute"),
    "vectorize a reduction": (lambda p: p.s[p.c].vectorize(p.k), "the reduction axis k cannot be vectorized"),
    "unknown scope": (lambda p: p.s[p.b].set_scope("cloud"), "a storage scope is one of"),
    "double buffer an output": (lambda p: p.s[p.d].double_buffer(), "stage D: double_buffer is not for an output"),
    "env_threads": (lambda p: p.s[p.d].env_threads([te.thread_axis("threadIdx.x")]), "env_threads is for scans only"),
    "cache_read by a stranger": (lambda p: p.s.cache_read(p.b, "local", [p.x]), "X does not read it"),
    "cache_read without readers": (lambda p: p.s.cache_read(p.b, "local", []), "at least one reader"),
    "cache_write of a placeholder": (lambda p: p.s.cache_write(p.a, "local"), "stage A: cache_write is for operations"),
    "cache_write under an attachment": (
        lambda p: [p.s[p.b].compute_at(p.s[p.c], p.k), p.s.cache_write(p.c, "local")],
        "stage C: cache_write would remove k, at which B is computed",
    ),
    "rfactor of a data axis": (lambda p: p.s.rfactor(p.c, p.c.op.axis[0]), "rfactor needs a reduction axis, i is none"),
    "rfactor of no reduction": (lambda p: p.s.rfactor(p.d, p.d.op.axis[0]), "stage D: rfactor is for reductions"),
    "rfactor place": (lambda p: p.s.rfactor(p.c, p.k, 4), "factor_axis of k must be within"),
    "foreign tensor": (lambda p: p.s[Program().c], "C has no stage in this schedule"),
}


def test_a_reduction_is_inlined_once_cache_write_made_it_a_copy() -> None:
    p = Program()
    p.s[p.c].compute_inline()
    with pytest.raises(ScheduleError, match=r"stage C: a reduction cannot be inlined .*k"):
        p.s.normalize()
    cached = p.s.cache_write(p.c, "local")
    s = p.s.normalize()
    assert s[cached].op.reduce_axis and s[p.c].attach_type is AttachType.INLINED_ALREADY


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_call_names_stage_and_axis_and_changes_nothing(name: str) -> None:
    call, message = REFUSALS[name]
    p = Program()
    states: list[Any] = []
    for stage_method in ("split", "tile", "fuse", "bind", "compute_at"):
        _recording(p, stage_method, states)
    before = snapshot(p.s)
    with pytest.raises(ScheduleError, match=message):
        call(p)
    # The effects before the refused call remain; the refused call has none.
    assert snapshot(p.s) == (states[-1] if states else before)


def _recording(p: Program, method: str, states: list[Any]) -> None:
    """Remember the schedule after every call that succeeds."""
    for stage in p.s.stages:
        original = getattr(stage, method)

        def wrapped(*args: Any, _original: Any = original, **kwargs: Any) -> Any:
            result = _original(*args, **kwargs)
            states.append(snapshot(p.s))
            return result

        setattr(stage, method, wrapped)


def test_a_consumer_outside_the_loop_is_found_when_the_schedule_is_complete() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] + 1, name="C")
    d = te.compute((8,), lambda i: b[i] + c[i], name="D")
    s = te.create_schedule(d.op)
    s[b].compute_at(s[c], c.op.axis[0])
    message = "stage B: it is computed at i of C, but D, which reads it, is outside that loop"
    with pytest.raises(ScheduleError, match=message):
        s.normalize()
    s[b].compute_at(s[d], d.op.axis[0])
    with pytest.raises(ScheduleError, match="stage B: it is computed at i of D, but C, which reads it, is outside"):
        s.normalize()
    s[c].compute_at(s[d], d.op.axis[0])
    s.normalize()


def test_inlining_into_an_extern_is_refused() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    e = te.extern((8,), [b], lambda ins, outs: tir.call_packed("f", ins[0], outs[0]), name="E")
    s = te.create_schedule(e.op)
    s[b].compute_inline()
    with pytest.raises(ScheduleError, match="stage B: it cannot be inlined into E"):
        s.normalize()


def test_cache_read_gives_the_readers_a_copy() -> None:
    p = Program()
    cached = p.s.cache_read(p.a, "shared", [p.b])
    assert cached.name == "A.shared" and p.s[cached].scope == "shared"
    assert [stage.name for stage in p.s.stages] == ["A", "A.shared", "B", "C", "D", "X"]
    assert p.s[p.b].op.input_tensors == (cached,) and p.s[p.x].op.input_tensors == (p.a,)
    assert p.s[p.c].op.input_tensors == p.s[p.b].op.outputs, "later stages read the new B"
    assert p.s[p.d] in p.s.stages and p.s.outputs == (p.s[p.d].op, p.x.op)
    p.s[cached].compute_at(p.s[p.b], p.b.op.axis[0])
    p.s.normalize()


def test_cache_read_by_readers_that_read_one_another() -> None:
    """A consumer of a reader is replaced once, together with its inputs."""
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    d = te.compute((8,), lambda i: c[i] + a[i], name="D")
    e = te.compute((8,), lambda i: d[i] + a[7 - i], name="E")
    f = te.compute((8,), lambda i: e[i] * 3, name="F")
    s = te.create_schedule(f.op)
    s.cache_read(a, "local", [e, b, d])
    for before, after in itertools.pairwise(s.stages):
        assert s[after.op] is after and before in s.stages
    for stage in s.stages:
        for tensor in stage.op.input_tensors:
            assert s[tensor].op is tensor.op, f"{stage.name} reads what {tensor.name} was before"
    s[e].compute_inline()
    assert [t.name for t in s.normalize()[f].op.input_tensors] == ["D", "A.local"]


def test_cache_write_computes_in_another_scope_then_copies() -> None:
    p = Program()
    cached = p.s.cache_write(p.c, "local")
    assert [stage.name for stage in p.s.stages] == ["A", "B", "C.local", "C", "D", "X"]
    assert [iv.name for iv in p.s[cached].op.root_iter_vars] == ["i.c", "k"]
    assert p.s[p.c].op.axis[0] is p.c.op.axis[0] and p.s[p.c].op.reduce_axis == ()
    assert p.s[p.c].op.input_tensors == (cached,)


def test_cache_write_of_data_fused_with_a_reduction_is_refused() -> None:
    a = te.placeholder((4, 5), name="A")
    r = te.reduce_axis((0, 5), "r")
    t = te.compute((4,), lambda i: te.sum(a[i, r], axis=r), name="T")
    s = te.create_schedule(t.op)
    s[t].fuse(t.op.axis[0], r)
    with pytest.raises(ScheduleError, match="stage T: cache_write needs i in loops apart from the reduction"):
        s.cache_write(t, "local")


def test_cache_write_keeps_the_order_of_the_loops() -> None:
    p = Program()
    i, j = p.x.op.axis
    jo, ji = p.s[p.x].split(j, 8)
    p.s[p.x].reorder(jo, i, ji)
    cached = p.s.cache_write(p.x, "local")
    assert [iv.name for iv in cached.op.axis] == ["j.outer.c", "i.c", "j.inner.c"]
    assert [int(extent) for extent in cached.shape] == [3, 12, 8]
    assert names(p.s[p.x]) == ["i", "j"]


def test_rfactor_gives_partial_results() -> None:
    p = Program()
    ko, ki = p.s[p.c].split(p.k, 4)
    partial = p.s.rfactor(p.c, ki)
    assert partial.name == "C.rf" and [int(e) for e in partial.shape] == [4, 12]
    assert [iv.name for iv in partial.op.root_iter_vars] == ["k.inner", "i", "k.outer"]
    stage = p.s[p.c]
    assert stage.op.name == "C.repl" and [iv.name for iv in stage.op.root_iter_vars] == ["ax0", "k.inner.v"]
    assert p.s[p.d].op.input_tensors == stage.op.outputs
    assert isinstance(ko, te.IterVar)


def test_groups_attach_together() -> None:
    p = Program()
    group = p.s.create_group(outputs=p.c, inputs=p.a)
    assert p.s[p.b].group is group and p.s[p.c].group is group and p.s[p.a].group is None
    group.compute_at(p.s[p.d], p.d.op.axis[0])
    paths = create_attach_path(p.s)
    assert [iv.name for _, iv in paths[p.s[p.b]]] == ["i"] and paths[p.s[p.b]] == paths[p.s[p.c]]
    with pytest.raises(ScheduleError, match="stage B: it cannot leave its group to be computed at D"):
        p.s[p.b].compute_at(p.s[p.d], p.d.op.axis[0])
    p.s.normalize()
    with pytest.raises(ScheduleError, match="an earlier group also holds"):
        p.s.create_group(outputs=p.d, inputs=p.b)


def test_a_scan_computes_its_updates_in_its_own_loop() -> None:
    m, n = te.var("m"), te.var("n")
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="S")
    init = te.compute((1, n), lambda _, i: x[0, i], name="I")
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + x[t, i], name="U")
    res = te.scan(init, update, state, inputs=[x], name="R")
    s = te.create_schedule(res.op)
    assert [stage.name for stage in s.stages] == ["X", "I", "S", "U", "R"]
    assert names(s[res]) == ["R.idx"] and [iv.name for iv in res.op.spatial_axis] == ["R.out0.i1"]
    spec = s[update].get_attach_spec()
    assert spec.attach_type is AttachType.SCAN_UPDATE and spec.attach_stage is s[res]
    thread = te.thread_axis("threadIdx.x")
    s[res].env_threads([thread])
    assert names(s[res]) == ["threadIdx.x", "R.idx"]
    normal = s.normalize()
    assert [iv.name for _, iv in create_attach_path(normal)[normal[update]]] == ["R.idx", "threadIdx.x"]


def test_tensor_intrinsics_declare_their_regions() -> None:
    b = te.placeholder((16, 20), name="B")
    tile = te.placeholder((3, 20), name="tile")
    row = te.compute((20,), lambda j: tile[0, j] + tile[1, j] + tile[2, j], name="row")
    intrin = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="add3")
    c = te.compute((14, 20), lambda i: intrin(b[i : i + 3, 0:20]), name="C")
    assert isinstance(c.op, te.TensorComputeOp) and c.op.input_tensors == (b,)
    (region,) = c.op.call.regions
    i = c.op.axis[0]
    assert region[0].min is i and int(region[0].extent) == 3 and int(region[1].extent) == 20
    s = te.create_schedule(c.op)
    assert names(s[c]) == ["i"]
    s[c].tensorize(i, intrin)
    s.normalize()
    with pytest.raises(InputError, match="takes 1 tensors"):
        te.compute((14, 20), lambda i: intrin(b[i : i + 3, 0:20], b[0:3, 0:20]), name="C")


def test_storage_ranks() -> None:
    scopes = ("", "global", "shared", "warp", "local", "wmma.accumulator")
    assert [storage_rank(scope) for scope in scopes] == [0, 0, 1, 2, 3, 3]
    assert default_storage_rank(()) == 0
    assert default_storage_rank(("blockIdx.x", "")) == 1 and default_storage_rank(("threadIdx.y", "blockIdx.x")) == 3
    assert not needs_relax("", 0)
    assert needs_relax("threadIdx.x", storage_rank("shared"))
    assert not needs_relax("blockIdx.x", storage_rank("shared"))
    assert needs_relax("threadIdx.x", storage_rank("warp"))
    assert not needs_relax("threadIdx.y", storage_rank("warp"))
    assert not needs_relax("vthread", storage_rank("local"))


def test_a_tensor_of_a_tuple_finds_its_stage() -> None:
    a = te.placeholder((16,), name="A")
    x, y = te.compute((16,), lambda i: (a[i] + 1, a[i] * 2), name="XY")
    assert isinstance(x, Tensor) and (x.name, y.name) == ("XY.v0", "XY.v1") and x.op is y.op
    s = te.create_schedule(y.op)
    assert s[x] is s[y] and s.current(y) is y
    cached = s.cache_write([x, y], "local")
    assert [t.name for t in cached] == ["XY.local.v0", "XY.local.v1"] and s.current(y) is not y


Layout = Callable[..., Any]
LAYOUTS: list[tuple[tuple[int, ...], Layout, tuple[int, ...]]] = [
    ((12,), lambda i: [i // 4, i % 4], (3, 4)),
    ((14,), lambda i: [i // 4, i % 4], (4, 4)),
    ((3, 5), lambda i, j: [j, i], (5, 3)),
    ((3, 5), lambda i, j: [i * 5 + j], (15,)),
    ((3, 10), lambda *i, n: [*i, n // 4, AXIS_SEPARATOR, n % 4], (3, 3, 4)),
    ((24,), lambda i: [i // 4 // 3 % 2, i // 4 % 3, i % 4], (2, 3, 4)),
    ((5,), lambda i: [4 - i], (5,)),
    ((5,), lambda i: [i + 2], (7,)),
    ((6,), lambda i: [i * 2], (11,)),
]


def moved(x: Any, fn: Layout, shape: tuple[int, ...], fill: float) -> Any:
    """The array in another layout, element by element."""
    out = np.full(shape, fill, x.dtype)
    for place in np.ndindex(*x.shape):
        names = {"n": place[-1]} if fn.__code__.co_kwonlyargcount else {}
        new = fn(*(place[:-1] if names else place), **names)
        out[tuple(e for e in new if not isinstance(e, str))] = x[place]
    return out


@pytest.mark.parametrize("pad", [None, 7])
@pytest.mark.parametrize(("shape", "fn", "new"), LAYOUTS)
def test_every_tensor_in_another_layout(
    shape: tuple[int, ...], fn: Layout, new: tuple[int, ...], pad: int | None
) -> None:
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) * 2 + 1, name="B")
    c = te.compute(shape, lambda *i: b(*i) + a(*i), name="C")
    s = te.create_schedule(c.op)
    for tensor in (a, b, c):
        axes = s[tensor].transform_layout(fn, pad)
        assert tuple(int(axis.dom.extent) for axis in axes if axis.dom is not None) == new  # type: ignore[arg-type]
    assert s[c].leaf_iter_vars == axes and c.op in s.outputs
    s[b].compute_at(s[c], axes[0])
    x = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    out = run(lower(s, [a, c]), {"A": moved(x, fn, new, 99)})["C"]
    np.testing.assert_array_equal(out, moved(x * 3 + 1, fn, new, pad or 0))


def test_a_reduction_with_caches_in_another_layout() -> None:
    a = te.placeholder((6, 10), name="A")
    k = te.reduce_axis((0, 10), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    s[a].transform_layout(lambda i, j: [j // 4, i, j % 4])
    s[b].transform_layout(lambda i: [i // 4, i % 4])
    s.cache_read(a, "local", [s[b].op])
    s.cache_write(s.current(b), "local")
    x = np.random.default_rng(0).random((6, 10)).astype("float32")
    packed = moved(x, lambda i, j: [j // 4, i, j % 4], (3, 6, 4), np.nan)
    out = run(lower(s, [a, b]), {"A": packed})["B"]
    np.testing.assert_allclose(out.reshape(-1), [*x.sum(axis=1), 0, 0], rtol=1e-6)


def test_a_layout_that_is_none_is_refused() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    with pytest.raises(ScheduleError, match="a place for every element"):
        s[b].transform_layout(lambda i: [i // 2])
    s[b].split(b.op.axis[0], 4)
    with pytest.raises(ScheduleError, match="precedes split"):
        s[b].transform_layout(lambda i: [i // 2, i % 2])
    k = te.reduce_axis((0, 8), "k")
    c = te.compute((5,), lambda i: te.sum(a[k] * i, axis=k), name="C")
    with pytest.raises(ScheduleError, match="padding of a reduction"):
        te.create_schedule(c.op)[c].transform_layout(lambda i: [i // 2, i % 2], 3)


def test_a_rolling_buffer_keeps_earlier_rows() -> None:
    a = te.placeholder((18, 6), name="A")
    b = te.compute((18, 6), lambda y, x: a[y, x] * 2, name="B")
    c = te.compute((16, 6), lambda y, x: b[y, x] + b[y + 2, x], name="C")
    s = te.create_schedule(c.op)
    with pytest.raises(ScheduleError, match="follows compute_at"):
        s[b].rolling_buffer()
    s[b].compute_at(s[c], c.op.axis[0])
    s[b].rolling_buffer()
    x = np.arange(108, dtype="float32").reshape(18, 6)
    f = lower(s, [a, c])
    np.testing.assert_array_equal(run(f, {"A": x})["C"], 2 * x[:16] + 2 * x[2:])
    assert "allocate B: float32[4, 6]" in str(f) or "allocate B: float32[3, 6]" in str(f)
    assert s[c].num_child_stages == 0


def test_an_output_that_was_replaced_counts_as_an_output() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    c = te.compute((8,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].compute_inline()
    s.cache_read(a, "local", [b])
    s.cache_write(c, "local")
    assert c.op in s.outputs and s[c].op in s.outputs and b.op not in s.outputs and len(s.outputs) == 1
    group = s.create_group(outputs=c, inputs=a)
    assert group.num_child_stages == 4  # with the stage that is inlined


SCRIPT = """
import sys
from bound import infer_bound, te
from intset import InputError
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i], name="B")
s = te.create_schedule(B.op)
b = te.schedule.InferBound(s)
questions = (lambda: infer_bound(s, compute="auto"), lambda: te.schedule.ScheduleOps(s, b))
for ask in questions:
    try:
        ask()
    except InputError as error:
        print(error)
print("<table" in b._repr_html_(), "<table" in s._repr_html_(), {m for m in sys.modules if m.startswith("lowering")})
import lowering
print(sorted(questions[0]().forms))
print(questions[1]())
"""


def test_each_function_needs_its_layer() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        'compute="auto" is chosen by the cost model of loop nests: import lowering first',
        "ScheduleOps builds a loop nest: import lowering first",
        "True True set()",
        "['B']",
        "for i in [0, 8):",
        "    B[i] = A[i]",
    ], done.stderr

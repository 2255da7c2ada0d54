"""The schedule language: effects of each call, layouts of stages; refused calls change nothing."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bound import te
from bound.itervar import IterType
from bound.schedule import AttachType, ScheduleError, Singleton, Split, Stage
from bound.schedule.rewrites import AXIS_SEPARATOR
from bound.tensor import Tensor
from intset.errors import InputError
from lowering import lower, run
from tests.bound.infer.test_corpus import TENSORIZED
from tests.lowering.lowered import check
from tests.strategies.refusals import refused_by
from tests.strategies.schedules import state_of
from tests.strategies.written import Written

PROGRAM = """
    A = given(12, 20); k = axis(0, 20)
    B[i:12, j:20] = A[i, j] + 1
    C[i:12] = sum_(B[i, k], axis=k)
    D[i:12] = C[i] * 2
    X[i:12, j:20] = A[i, j] * 3
    s = te.create_schedule([D.op, X.op])"""


def names(stage: Stage) -> list[str]:
    return [iv.name for iv in stage.leaf_iter_vars]


def test_annotations_and_fusions_of_any_axes() -> None:
    p = Written(f"""{PROGRAM}
        X split i 4 tail=shrink; X parallel i.outer; X unroll i.inner; X vectorize j; X pragma i.outer auto_unroll 8
        B double_buffer; B set_scope shared""")
    s, (xo, xi, j) = p.s[p.X], p.s[p.X].leaf_iter_vars
    s.prefetch(p.A, xo, 1)
    s.storage_align(p.X.op.axis[0], 8, 4)
    s.split(xi, 3, disable_predication=True)
    attrs = s.iter_var_attrs
    assert attrs[xo].iter_type is IterType.PARALLELIZED and attrs[j].iter_type is IterType.VECTORIZED
    assert attrs[xo].pragmas == (("auto_unroll", 8),) and attrs[p.X.op.axis[0]].align == (8, 4)
    assert p.s[p.B].double_buffered and p.s[p.B].scope == "shared"
    assert [r.tail for r in s.relations if isinstance(r, Split)] == ["shrink", "round_up"]
    p = Written(f"{PROGRAM}\nX fuse; B fuse j i; C fuse i k; D fuse i")
    x, b, c, d = (p.s[t] for t in p("X B C D"))
    assert names(x) == ["singleton", "i", "j"] and isinstance(x.relations[0], Singleton)
    assert x.fuse(*x.leaf_iter_vars).name == "singleton.i.fused.j.fused" and len(x.leaf_iter_vars) == 1
    assert names(b) == ["i.j.fused"] and c.leaf_iter_vars[0].iter_type is IterType.COMM_REDUCE
    assert names(d) == ["i"] and not d.relations


REFUSALS = {  # calls, of which the last one is refused
    "x.split(i, 4); x.split(i, 2)": r"stage X: split of i, which is no loop any more: .* by i\.outer and i\.inner",
    "x.split(di, 4)": "stage X: split of i, which is not an axis",
    "x.split(i, 0)": "stage X: factor of i must be a positive integer, not 0",
    "x.split(i, 2.5)": "factor of i must be a positive integer",
    "x.split(i, True)": "factor of i must be a positive integer",
    "x.split(i, k)": "factor of i must be a positive integer",
    "x.split(i)": "either factor or nparts",
    "x.split(i, 2, 3)": "either factor or nparts",
    "x.split(i, nparts=-1)": "nparts of i must be a positive",
    "x.split(i, 5, tail='cut')": "tail of i is one of guard",
    "x.tile(i, j, 4, 4); x.fuse(*x.leaf_iter_vars[::2][:2])": r"stage X: cannot fuse i\.outer with i\.inner",
    "x.fuse(i, j); x.fuse(i, j)": r"stage X: fuse of i, which is no loop any more: it was fused into i\.j\.fused",
    "x.reorder(j, k)": "stage X: reorder of k, which is not an axis of this stage: the loops are i, j",
    "x.reorder(i, i)": "reorder names the axis i twice",
    "x.tile(i, j, 4, 0)": "y_factor of j must be a positive",
    "x.bind(i, k)": "stage X: i can only be bound to an axis made by thread_axis",
    "x.bind(i, te.thread_axis('thread.q'))": "a thread tag is one of",
    "x.bind(i, thread); x.bind(i, te.thread_axis('threadIdx.y'))": "stage X: i is already bound to threadIdx.x",
    "b.compute_at(x, i)": "stage B cannot be computed at i of X: X does not read B",
    "b.compute_at(b, B.op.axis[0])": "B does not read B",
    "c.compute_at(b, B.op.axis[0])": "B does not read C",
    "d.split(di, 4); c.compute_at(d, di)": r"stage D: compute_at of C of i, which .* replaced by i\.outer and i\.inner",
    "c.compute_at(other.s.stages[3], di)": "stage C: compute_at needs a stage of the same schedule",
    "d.compute_inline()": "stage D: an output of the schedule cannot be inlined",
    "s[A].compute_inline()": "stage A: only an operation made by te.compute",
    "c.vectorize(k)": "the reduction axis k cannot be vectorized",
    "b.set_scope('cloud')": "a storage scope is one of",
    "d.double_buffer()": "stage D: double_buffer is not for an output",
    "d.env_threads([thread])": "env_threads is for scans only",
    "s.cache_read(B, 'local', [X])": "X does not read it",
    "s.cache_read(B, 'local', [])": "at least one reader",
    "s.cache_write(A, 'local')": "stage A: cache_write is for operations",
    "b.compute_at(c, k); s.cache_write(C, 'local')": "stage C: cache_write would remove k, at which B is computed",
    "s.rfactor(C, C.op.axis[0])": "rfactor needs a reduction axis, i is none",
    "s.rfactor(D, di)": "stage D: rfactor is for reductions",
    "s.create_group(outputs=C, inputs=A); b.compute_at(d, di)": "B: it cannot leave its group to be computed at D",
    "s.create_group(outputs=C, inputs=A); s.create_group(outputs=D, inputs=B)": "an earlier group also holds",
    "c.fuse(C.op.axis[0], k); s.cache_write(C, 'local')": "cache_write needs i in loops apart from the reduction",
    "s.rfactor(C, k, 4)": "factor_axis of k must be within",
    "s[other.C]": "C has no stage in this schedule",
}


@pytest.mark.parametrize("calls", REFUSALS)
def test_a_refused_call_names_stage_and_axis_and_changes_nothing(calls: str) -> None:
    p = Written(PROGRAM)
    names = {**p.names, "other": Written(PROGRAM), "thread": te.thread_axis("threadIdx.x")}
    names |= {name.lower(): p.s[p.names[name]] for name in "BCDX"}
    names |= {"i": p.X.op.axis[0], "j": p.X.op.axis[1], "di": p.D.op.axis[0]}
    *accepted, refused = calls.split("; ")
    for call in accepted:
        eval(call, names)
    before = state_of(p.s)
    with pytest.raises(ScheduleError, match=REFUSALS[calls]):
        eval(refused, names)
    assert state_of(p.s) == before


CHAIN = "A = given(8)\nB[i:8] = A[i] + 1\nC[i:8] = B[i] + 1\nD[i:8] = B[i] + C[i]"
INCOMPLETE = {  # a program, and its errors when normalized
    f"{CHAIN}\nB compute_at C i": "stage B: it is computed at i of C, but D, which reads it, is outside that loop",
    f"{CHAIN}\nB compute_at D i": "stage B: it is computed at i of D, but C, which reads it, is outside",
    "A = given(8); B = pointwise(A)\nE = te.extern((8,), [B], lambda ins, outs: tir.call_packed('f', ins[0]), name='E')"
    "\nB compute_inline": "stage B: it cannot be inlined into E",
    f"{PROGRAM}\nC compute_inline": "stage C: a reduction cannot be inlined .*k",
}


test_what_is_found_when_the_schedule_is_complete = refused_by(
    lambda text: Written(text).s.normalize(), INCOMPLETE, ScheduleError
)


def test_what_completes_a_schedule_and_an_output_that_was_replaced() -> None:
    Written(f"{CHAIN}\nB compute_at D i; C compute_at D i").s.normalize()
    p = Written(f"{PROGRAM}\nC compute_inline; copy = s.cache_write(C, 'local')")  # C is a copy then, no reduction
    s = p.s.normalize()
    assert s[p.copy].op.reduce_axis and s[p.C].attach_type is AttachType.INLINED_ALREADY
    p = Written("A = given(8); B = pointwise(A); C = pointwise(B)\nB compute_inline")
    s, b, c = p("s B C")
    s.cache_read(p.A, "local", [b])
    s.cache_write(c, "local")
    for known in (s, s.copy()):
        assert c.op in known.outputs and known[c].op in known.outputs and b.op not in known.outputs
        assert len(known.outputs) == 1
    assert c.op in s.normalize().outputs and "C" not in s.outputs
    assert s.create_group(outputs=c, inputs=p.A).num_child_stages == 4  # with the stage that is inlined


def test_tensor_intrinsics_declare_their_regions() -> None:
    s, b, c, intrin = Written(f"{TENSORIZED}\nschedule C")("s B C add3")
    assert isinstance(c.op, te.TensorComputeOp) and c.op.input_tensors == (b,)
    (region,) = c.op.call.regions
    i = c.op.axis[0]
    assert region[0].min is i and int(region[0].extent) == 3 and int(region[1].extent) == 20
    assert names(s[c]) == ["i"]
    s[c].tensorize(i, intrin)
    s.normalize()
    with pytest.raises(InputError, match="takes 1 tensors"):
        te.compute((14, 20), lambda i: intrin(b[i : i + 3, 0:20], b[0:3, 0:20]), name="C")


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


def test_a_layout_that_is_none_is_refused_and_functions_need_their_layers() -> None:
    p = Written("A = given(8); B = pointwise(A); k = axis(0, 8)\nC[i:5] = sum_(A[k] * i, axis=k)\nschedule B C")
    halves = lambda i: [i // 2, i % 2]  # noqa: E731
    with pytest.raises(ScheduleError, match="a place for every element"):
        p.s[p.B].transform_layout(lambda i: [i // 2])
    with pytest.raises(ScheduleError, match="padding of a reduction"):
        p.s[p.C].transform_layout(halves, 3)
    p.then("B split i0 4")
    with pytest.raises(ScheduleError, match="precedes split"):
        p.s[p.B].transform_layout(halves)
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        'compute="auto" is chosen by the cost model of loop nests: import lowering first',
        "ScheduleOps builds a loop nest: import lowering first",
        "True True set()",
        "['B']",
        "for i in [0, 8):",
        "    B[i] = A[i]",
    ], done.stderr


def test_a_rolling_buffer_keeps_earlier_rows() -> None:
    p = Written("A = given(18, 6); B = pointwise(A)\nC[y:16, x:6] = B[y, x] + B[y + 2, x]")
    with pytest.raises(ScheduleError, match="follows compute_at"):
        p.then("B rolling_buffer")
    p.then("B compute_at C y; B rolling_buffer")
    text = str(check(p.s))
    assert "allocate B: float32[4, 6]" in text or "allocate B: float32[3, 6]" in text
    assert p.s[p.C].num_child_stages == 0


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

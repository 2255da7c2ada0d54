"""Lowering, feature by feature."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from bound import infer_bound, te, tir
from bound.errors import ScheduleError
from intset import Context, Var
from intset.errors import InputError
from lowering import lower, run, to_c
from tests.lowering.lowered import check, check_c, check_run, inputs_of, random_array
from tests.sweeps import daily


def chain(n: int = 20, m: int = 18) -> Any:
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    c = te.compute((m,), lambda i: b[i] + b[i + n - m], name="C")
    return a, b, c, te.create_schedule(c.op)


@pytest.mark.parametrize(
    ("level", "factor", "tail"), daily(product((0, 1), (25, 4, 3, 7), ("guard", "shrink", "shift_inwards")), 4)
)
def test_tails(tail: str, factor: int, level: int) -> None:
    _, b, c, s = chain()
    leaves = s[c].split(c.op.axis[0], factor, tail=tail)
    s[b].compute_at(s[c], leaves[level])
    s[b].split(b.op.axis[0], 4, tail=tail)
    f = check(s)
    check_c(f, s)
    if tail == "shrink" and factor == 4 and level == 0:
        assert "for i.inner in [0, minimum(" in str(f) and "if " not in str(f)


def test_a_tail_that_is_rounded_up_stays_inside_its_storage() -> None:
    a = te.placeholder((20,), name="A")
    b = te.compute((20,), lambda i: a[i] + 1, name="B")
    c = te.compute((18,), lambda i: b[i] * 2, name="C")
    s = te.create_schedule(c.op)
    s[b].split(b.op.axis[0], 4, tail="round_up")
    f = check(s)
    assert "allocate B: float32[20]" in str(f) and "if " not in str(f)
    for factor in (3, 7, 19):
        s = te.create_schedule(c.op)
        xo, _ = s[c].split(c.op.axis[0], factor)
        s[b].compute_at(s[c], xo)
        s[b].split(b.op.axis[0], 4, tail="round_up")
        check_c(check(s), s)


def test_several_outputs_and_tuple_reductions() -> None:
    a = te.placeholder((6, 9), name="A")
    k = te.reduce_axis((0, 9), "k")

    def better(x: Any, y: Any) -> Any:
        first = tir.any(x[1] > y[1], tir.all(x[1] == y[1], x[0] < y[0]))
        return tir.Select(first, x[0], y[0]), tir.Select(first, x[1], y[1])

    argmax = te.comm_reducer(better, lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)), name="argmax")
    idx, val = te.compute((6,), lambda i: argmax((k, a[i, k]), axis=k), name="M")
    s = te.create_schedule(idx.op)
    ko, _ = s[idx].split(k, 4)
    s[idx].reorder(ko, s[idx].op.axis[0])
    f = check(s)
    assert "M_v0_new = " in str(f) and val.name == "M.v1"
    check_c(f, s)
    given = {t.name: random_array(t, {}) for t in inputs_of(s)}
    np.testing.assert_array_equal(run(f, given)["M.v0"], given["A"].argmax(1))


def test_reductions_with_conditions_and_initial_values() -> None:
    a, b = te.placeholder((7, 7), name="A"), te.placeholder((7,), name="B")
    k = te.reduce_axis((1, 7), "k")
    c = te.compute((7,), lambda i: te.sum(a[i, k], axis=k, where=k <= i, init=2.0), name="C")
    d = te.compute((7,), lambda i: te.max(c[i] * b[k], axis=k, where=b[k] > 0), name="D")
    s = te.create_schedule(d.op)
    s[c].compute_at(s[d], d.op.axis[0])
    fused = s[c].fuse(c.op.axis[0], c.op.reduce_axis[0])
    s[c].split(fused, 4)
    check_c(check(s), s)


def test_scan() -> None:
    n, m = 9, 5
    x = te.placeholder((n, m), name="X")
    state = te.placeholder((n, m), name="S")
    init = te.compute((1, m), lambda _, i: x[0, i], name="INIT")
    upper = te.compute((n, m), lambda t, i: state[t - 1, i] * 0.5, name="U")
    update = te.compute((n, m), lambda t, i: upper[t, i] + x[t, i], name="V")
    scan = te.scan(init, update, state, inputs=[x], name="SCAN")
    out = te.compute((n, m), lambda t, i: scan[t, m - 1 - i] + 1, name="OUT")
    s = te.create_schedule(out.op)
    check_c(check(s), s)
    s[upper].compute_at(s[update], update.op.axis[1])
    s[update].split(update.op.axis[1], 2)
    check_c(check(s), s)


def test_extern_is_called_in_run_and_refused_in_c() -> None:
    a = te.placeholder((6,), name="A")
    b = te.compute((6,), lambda i: a[i] + 1, name="B")
    e = te.extern((6,), [b], lambda i, o: tir.call_packed("sort", i[0], o[0]), name="E", dtype="float32")
    c = te.compute((6,), lambda i: e[5 - i], name="C")
    s = te.create_schedule(c.op)
    f = check(s, functions={"sort": lambda x, y: y.__setitem__(Ellipsis, np.sort(x))})
    assert "sort(B, E)" in str(f)
    with pytest.raises(InputError, match=r"C calls sort, a function of the host"):
        to_c(f)
    with pytest.raises(InputError, match=r"the nest calls sort, which is not known"):
        run(f, {"A": np.zeros(6, np.float32)})


def test_caches_and_rfactor() -> None:
    a, b = te.placeholder((12, 10), name="A"), te.placeholder((10, 14), name="B")
    k = te.reduce_axis((0, 10), "k")
    c = te.compute((12, 14), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    local = s.cache_write(c, "local")
    _, yo, _, _ = s[c].tile(s[c].op.axis[0], s[c].op.axis[1], 5, 4)
    s[local].compute_at(s[c], yo)
    ko, _ = s[local].split(s[local].op.reduce_axis[0], 3)
    s[local].reorder(ko, *s[local].op.axis)
    copy = s.cache_read(b, "shared", [local])
    s[copy].compute_at(s[local], ko)
    f = check(s)
    check_c(f, s)
    assert "B.shared" in str(f) and "C.local" in str(f)

    s = te.create_schedule(c.op)
    _, ki = s[c].split(k, 4)
    partial = s.rfactor(c, ki)
    s[partial].compute_at(s[c], s[c].op.axis[0])
    f = lower(s, [a, b, c])
    x, y = (random_array(t, {}) for t in (a, b))
    z = np.zeros((12, 14), np.float32)
    run(f, {"A": x, "B": y, "C": z})
    np.testing.assert_allclose(z, x @ y, rtol=1e-4, atol=1e-4)
    run(f, {a: x, b: y, c: z})


def test_threads_run_one_after_another_and_each_computes_what_they_share() -> None:
    a = te.placeholder((60,), name="A")
    b = te.compute((60,), lambda i: a[i] + 1, name="B")
    c = te.compute((60,), lambda i: b[59 - i] * 2, name="C")
    s = te.create_schedule(c.op)
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    outer, inner = s[c].split(c.op.axis[0], 16)
    s[c].bind(outer, block)
    s[c].bind(inner, thread)
    s[b].set_scope("shared")
    s[b].compute_at(s[c], inner)
    bo, _ = s[b].split(b.op.axis[0], nparts=16)
    s[b].bind(bo, thread)
    f = check(s)
    assert "on threadIdx.x" in str(f) and "in shared" in str(f)
    check_c(f, s)


def test_a_reduction_over_threads_stores_once() -> None:
    a = te.placeholder((6, 32), name="A")
    k = te.reduce_axis((0, 32), "k")
    b = te.compute((6,), lambda i: te.sum(a[i, k], axis=k), name="B")
    s = te.create_schedule(b.op)
    _, ki = s[b].split(k, 8)
    partial = s.rfactor(b, ki)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(s[b].op.reduce_axis[0], thread)
    s[partial].compute_at(s[b], s[b].op.reduce_axis[0])
    s[b].set_store_predicate(thread.var.equal(0) if hasattr(thread.var, "equal") else thread.var.eq(0))
    check_c(check(s), s)


def test_a_store_predicate_on_data_is_kept() -> None:
    a = te.placeholder((8,), name="A")
    b = te.compute((8,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(b.op.axis[0], thread)
    s[b].set_store_predicate(thread < 4)
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(lower(s, [a, b]), {"A": x, "B": y})
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 0, 0, 0, 0])


def test_tensor_intrinsics_are_written_out() -> None:
    n, m, w = 8, 12, 4
    p, q = te.placeholder((w,), name="P"), te.placeholder((w,), name="Q")
    r = te.reduce_axis((0, w), "r")
    dot = te.compute((1,), lambda i: te.sum(p[r] * q[r], axis=r), name="dot")
    intrin = te.decl_tensor_intrin(dot.op, lambda ins, outs: None, name="dot")
    a, b = te.placeholder((n, m), name="A"), te.placeholder((m,), name="B")
    pre = te.compute((n, m), lambda i, j: a[i, j] + 1, name="PRE")
    k = te.reduce_axis((0, m // w), "k")
    c = te.compute((n, 1), lambda i: intrin(pre[i, k * w : k * w + w], b[k * w : k * w + w], reduce_axis=k), name="C")
    s = te.create_schedule(c.op)
    s[pre].compute_at(s[c], c.op.axis[0])
    check_c(check(s), s)


def test_integers_wrap_when_they_are_stored() -> None:
    a = te.placeholder((16,), "int8", name="A", value_range=(-128, 127))
    b = te.compute((16,), lambda i: (a[i] * 5).astype("int8"), name="B")
    c = te.compute((16,), lambda i: b[i].astype("int32") * 1000003 * b[i].astype("int32"), name="C")
    d = te.compute((16,), lambda i: tir.floordiv(c[i], 7) + tir.truncmod(c[i], -5), name="D")
    s = te.create_schedule([c.op, d.op])
    check_c(check(s), s, sanitize=True)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "int64", "float32", "float64", "bool"])
def test_every_type_of_elements(dtype: str) -> None:
    a = te.placeholder((5,), dtype, name="A")
    if dtype == "bool":
        b = te.compute((5,), lambda i: tir.all(a[i], i < 3), name="B")
    else:
        b = te.compute((5,), lambda i: (a[i] + 1).astype(dtype), name="B")
    c = te.compute((5,), lambda i: b[4 - i], name="C")
    s = te.create_schedule(c.op)
    s[b].compute_at(s[c], c.op.axis[0])
    check_c(check(s), s)


def test_float16_runs_in_both_backends() -> None:
    a = te.placeholder((5,), "float16", name="A")
    b = te.compute((5,), lambda i: a[i] * a[i], name="B")
    f = check(te.create_schedule(b.op))
    given = {"A": np.array([1.1, 300.0, -1e-4, 0.0, np.inf], "float16")}
    assert run(f, given)["B"].tobytes() == run(f, given, backend="c")["B"].tobytes()


def test_a_float_of_data_in_an_index() -> None:
    a, x = te.placeholder((9,), name="A"), te.placeholder((7,), name="X")
    b = te.compute((7,), lambda i: a[te.max(te.min(te.floor(x[i] * 2).astype("int32") + 4, 8), 0)], name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 3)
    check_c(check(s), s, sanitize=True)


def test_functions_of_floats() -> None:
    a = te.placeholder((40,), name="A")

    def formula(i: Any) -> Any:
        x = a[i]
        y = te.abs(x) + 0.5
        values = [te.exp(x), te.log(y), te.sqrt(y), te.rsqrt(y), te.tanh(x), te.sigmoid(x), te.sin(x), te.floor(x)]
        values += [te.ceil(x), te.trunc(x), te.round(x), te.power(y, 1.5), te.fmod(x, y), te.atan2(x, y), te.erf(x)]
        values += [te.floormod(x, y), te.floordiv(x, y), te.max(x, y), te.min(x, y), tir.exp10(x), tir.nearbyint(x)]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return tir.Select(te.isnan(x), 0.0, total)

    s = te.create_schedule(te.compute((40,), formula, name="B").op)
    check_c(check(s), s)


def test_facts_of_a_context_are_used_and_not_checked() -> None:
    n = te.var("n")
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1, name="B")
    s = te.create_schedule(b.op)
    s[b].split(b.op.axis[0], 4)
    assert "if" in str(lower(s, nests="guard")) and "minimum" in str(lower(s))
    q = Var("q")
    f = lower(s, ctx=Context(assume=[n.eq(q * 4)]))
    assert "if" not in str(f)


def test_loops_of_extent_one_vanish_and_kinds_are_kept() -> None:
    a = te.placeholder((1, 8, 6), name="A")
    b = te.compute((1, 8, 6), lambda n, i, j: a[n, i, j] + 1, name="B")
    s = te.create_schedule(b.op)
    _, i, j = b.op.axis
    s[b].parallel(i)
    jo, ji = s[b].split(j, 2)
    s[b].unroll(jo)
    s[b].vectorize(ji)
    f = check(s)
    assert "for n" not in str(f)
    assert "for i in [0, 8) parallel:" in str(f) and "unrolled:" in str(f) and "vectorized:" in str(f)
    check_c(f, s)


def test_nests_deeper_than_python_allows() -> None:
    shape = (2,) * 5 + (1, 2) * 3 + (1,) * 14 + (2, 2)
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda *i: a(*i) + 1, name="B")
    s = te.create_schedule(b.op)
    for axis in b.op.axis[:9]:
        s[b].split(axis, 2)
    check_c(check(s), s)
    deep = te.compute((2,) * 12, lambda *i: a(*(i[0],) * 2, *(0,) * len(shape[2:])) + i[11], name="D")
    s = te.create_schedule(deep.op)
    for axis in deep.op.axis:
        s[deep].split(axis, 1, tail="guard")
    check(s)
    wide = te.compute((2,) * 14, lambda *i: a(*(i[0],) * 2, *(0,) * len(shape[2:])) + i[13], name="W")
    check_c(check(te.create_schedule(wide.op)), te.create_schedule(wide.op))


def test_long_and_shared_formulas() -> None:
    a = te.placeholder((4,), name="A")

    def formula(i: Any) -> Any:
        x = a[i]
        for k in range(60):
            x = tir.Select(x > k, x * 0.5, x + x * 0.25)
        total = x
        for k in range(400):
            total = total + a[(i + k) % 4]
        return total

    s = te.create_schedule(te.compute((4,), formula, name="B").op)
    f = check(s)
    assert len(check_c(f, s)) < 100_000


def test_arguments_are_checked() -> None:
    a, b, c, s = chain()
    assert [t.name for t in lower(s, [c, a]).params] == ["C", "A"]
    assert [t.name for t in lower(s, [a]).params] == ["A"]  # the output is allocated inside, and dropped
    assert [t.name for t in lower(s, [a, b, c]).outputs] == ["C", "B"]
    with pytest.raises(ScheduleError, match="A must be among the arguments: it is an input of the schedule"):
        lower(s, [c])
    with pytest.raises(InputError, match="argument 1 of lower must be a tensor or a variable, not 3"):
        lower(s, [a, 3, c])
    with pytest.raises(InputError, match="at"):
        lower(s, at={"n": 3})
    with pytest.raises(InputError, match="not both"):
        lower(s, bounds=infer_bound(s), at={"n": 3})
    with pytest.raises(InputError, match="lower needs a schedule"):
        lower(c)


def test_a_loop_over_a_product_of_sizes_guards_no_size() -> None:
    """It runs where both are at least 1: no guard of a divisor, no minimum of a size and its multiple, no flag in C."""
    n, m = te.size_var("n"), te.size_var("m")
    a = te.placeholder((n, m), name="A")
    b = te.compute((n, m), lambda i, j: a[i, j] + 1, name="B")
    c = te.compute((n, m), lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(s[c].fuse(*c.op.axis), 4)
    s[b].compute_at(s[c], outer)
    f = lower(s)
    text = str(f)
    assert " if " not in text and "minimum(n * m, m)" not in text and "for j in [0, m):" in text
    for sizes in ({"n": 3, "m": 5}, {"n": 5, "m": 1}, {"n": 4, "m": 0}, {"n": 0, "m": 4}):
        check_run(f, s, sizes)
    assert "undefined" not in check_c(f, s, {"n": 3, "m": 5})

"""The reference evaluator against numpy, and rewrites of a schedule against the reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bound import te, tir
from bound.operation import PlaceholderOp
from bound.schedule import Schedule
from intset.errors import InputError, UndefinedError
from intset.expr.evaluate import evaluate as value_of
from tests.bound.corpus import CASES
from tests.bound.reference import evaluate

RNG = np.random.default_rng(7)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def close(actual: Any, expected: Any) -> None:
    np.testing.assert_allclose(actual, expected, rtol=2e-5, atol=2e-5)


def test_elementwise_and_promotion() -> None:
    a = te.placeholder((4, 5), name="A")
    x = floats(4, 5)
    rows, cols = np.arange(4)[:, None], np.arange(5)[None, :]
    c = te.compute((4, 5), lambda i, j: te.exp(a[i, j]) * i + tir.Select(i < j, a[i, j], -1.0), name="C")
    result = evaluate(c, {a: x})
    assert result.dtype == np.float32
    close(result, np.exp(x) * rows + np.where(rows < cols, x, -1))
    close(
        evaluate(te.compute((4, 5), lambda i, j: te.tanh(a[i, j]) / (1 + te.abs(a[i, j])), name="C"), {"A": x}),
        np.tanh(x) / (1 + np.abs(x)),
    )
    close(
        evaluate(te.compute((4,), lambda i: tir.if_then_else(a[i, 0] > 0, te.sqrt(a[i, 0]), 0.0), name="C"), {a: x}),
        np.where(x[:, 0] > 0, np.sqrt(np.abs(x[:, 0])), 0),
    )


def test_integer_formulas_have_c_and_python_divisions() -> None:
    n = 41
    pairs = {
        "floordiv": (tir.floordiv, lambda x: x // 5),
        "floormod": (tir.floormod, lambda x: x % 5),
        "truncdiv": (tir.truncdiv, lambda x: np.trunc(x / 5).astype(int)),
        "truncmod": (tir.truncmod, lambda x: np.fmod(x, 5)),
    }
    for make, expected in pairs.values():
        c = te.compute((n,), lambda i, make=make: make(i - 20, 5), name="C")
        assert c.dtype == "int32"
        np.testing.assert_array_equal(evaluate(c, {}), expected(np.arange(n) - 20))


def test_integers_wrap_where_they_are_stored() -> None:
    a = te.placeholder((4,), "int8", name="A")
    x = np.array([-128, -1, 100, 127], np.int8)
    c = te.compute((4,), lambda i: a[i] + tir.const(1, "int8"), name="C")
    d = te.compute((4,), lambda i: a[i].astype("int32") * a[i], name="D")
    assert (c.dtype, d.dtype) == ("int8", "int32")
    np.testing.assert_array_equal(evaluate(c, {a: x}), [-127, 0, 101, -128])
    np.testing.assert_array_equal(evaluate(d, {a: x}), x.astype(int) ** 2)
    u = te.compute((4,), lambda i: (a[i].astype("float32") * 1.9).astype("int32"), name="U")
    np.testing.assert_array_equal(evaluate(u, {a: x}), np.trunc(x * np.float32(1.9)).astype(int))


def test_convolution_with_padding() -> None:
    a, w = te.placeholder((2, 6, 6), name="I"), te.placeholder((3, 2, 3, 3), name="W")
    inside = lambda y, x: tir.all(y >= 1, y < 7, x >= 1, x < 7)  # noqa: E731
    pad = te.compute((2, 8, 8), lambda c, y, x: tir.if_then_else(inside(y, x), a[c, y - 1, x - 1], 0.0), name="PAD")
    rc, ry, rx = te.reduce_axis((0, 2), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    o = te.compute(
        (3, 6, 6), lambda f, y, x: te.sum(pad[rc, y + ry, x + rx] * w[f, rc, ry, rx], axis=[rc, ry, rx]), name="O"
    )
    x, k = floats(2, 6, 6), floats(3, 2, 3, 3)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    taps = [(dy, dx) for dy in range(3) for dx in range(3)]
    expected = sum(np.einsum("cyx,fc->fyx", padded[:, y : y + 6, x_ : x_ + 6], k[:, :, y, x_]) for y, x_ in taps)
    close(evaluate(o, {a: x, w: k}), expected)


def test_a_reduction_in_pieces_equals_one_in_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    a = te.placeholder((3, 37), name="A")
    k = te.reduce_axis((2, 35), "k")
    c = te.compute((3,), lambda i: te.max(a[i, k] * 2, axis=k, where=tir.floormod(k, 3) != 1), name="C")
    x = floats(3, 37)
    kept = [r for r in range(2, 35) if r % 3 != 1]
    expected = (x[:, kept] * 2).max(1)
    close(evaluate(c, {a: x}), expected)
    monkeypatch.setattr("tests.bound.reference._POINTS", 24)
    close(evaluate(c, {a: x}), expected)


def test_tuple_reduction() -> None:
    a = te.placeholder((5, 11), name="A")
    k = te.reduce_axis((0, 11), "k")
    argmax = te.comm_reducer(
        lambda p, q: (tir.Select(p[1] >= q[1], p[0], q[0]), tir.Select(p[1] >= q[1], p[1], q[1])),
        lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)),
        name="argmax",
    )
    place, best = te.compute((5,), lambda i: argmax((k, a[i, k]), axis=k), name="M")
    x = floats(5, 11)
    got_place, got_best = evaluate([place, best], {a: x})
    np.testing.assert_array_equal(got_place, x.argmax(1))
    close(got_best, x.max(1))


def test_symbolic_softmax_takes_sizes_from_the_arrays() -> None:
    n, m = te.size_var("n"), te.var("m")
    a = te.placeholder((n, m), name="A")
    k1, k2 = te.reduce_axis((0, m), "k1"), te.reduce_axis((0, m), "k2")
    top = te.compute((n,), lambda i: te.max(a[i, k1], axis=k1), name="MX")
    ex = te.compute((n, m), lambda i, j: te.exp(a[i, j] - top[i]), name="EX")
    total = te.compute((n,), lambda i: te.sum(ex[i, k2], axis=k2), name="SM")
    z = te.compute((n, m), lambda i, j: ex[i, j] / total[i], name="Z")
    x = floats(4, 9)
    e = np.exp(x - x.max(1, keepdims=True))
    close(evaluate(z, {a: x}), e / e.sum(1, keepdims=True))
    alpha = te.var("alpha", "float32")
    scaled = te.compute((n, m), lambda i, j: a[i, j] * alpha + n, name="S")
    close(evaluate(scaled, {a: x}, sizes={"alpha": 2.5}), x * 2.5 + 4)


def test_gather_and_what_is_undefined() -> None:
    a = te.placeholder((20,), name="A")
    idx = te.placeholder((8,), "int32", name="IDX", value_range=(-3, 24))
    safe = te.compute((8,), lambda i: a[te.max(te.min(idx[i], 7), 4)], name="C")
    x, at = floats(20), np.array([-3, 0, 4, 5, 7, 8, 24, 6], np.int32)
    close(evaluate(safe, {a: x, idx: at}), x[np.clip(at, 4, 7)])
    raw = te.compute((8,), lambda i: a[idx[i]], name="R")
    with pytest.raises(UndefinedError, match=r"R\[0\] is undefined"):
        evaluate(raw, {a: x, idx: at})
    guarded = te.compute((8,), lambda i: tir.if_then_else(tir.all(idx[i] >= 0, idx[i] < 20), raw[i], 0.0), name="G")
    close(evaluate(guarded, {a: x, idx: at}), np.where((at >= 0) & (at < 20), x[np.clip(at, 0, 19)], 0))
    with pytest.raises(InputError, match="the array for A has shape"):
        evaluate(safe, {a: x[:3], idx: at})
    with pytest.raises(InputError, match="the tensor IDX has no value"):
        evaluate(safe, {a: x})


def test_an_index_that_comes_from_floats() -> None:
    a, p = te.placeholder((10,), name="A"), te.placeholder((6,), name="P")
    c = te.compute((6,), lambda i: a[(p[i] * 2).astype("int32")], name="C")
    x, at = floats(10), np.array([0, 0.4, 1.2, 2.6, 3, 4.4], np.float32)
    close(evaluate(c, {a: x, p: at}), x[np.trunc(at * 2).astype(int)])


def test_scan_extern_and_tuples() -> None:
    m, n = 5, 3
    x = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n), name="S")
    init = te.compute((1, n), lambda _, i: x[0, i], name="I")
    moved = te.compute((m, n), lambda t, i: state[t - 1, i] * 2, name="M")
    update = te.compute((m, n), lambda t, i: moved[t, i] + x[t, i], name="U")
    res = te.scan(init, update, state, inputs=[x], name="R")
    data = floats(m, n)
    expected = data.copy()
    for t in range(1, m):
        expected[t] += 2 * expected[t - 1]
    close(evaluate(res, {x: data}), expected)

    e = te.extern((m, n), [res], lambda ins, outs: tir.call_packed("halve", ins[0], outs[0]), name="E")
    d = te.compute((n,), lambda i: e[0, i] + 1, name="D")

    def halve(source: Any, target: Any) -> None:
        target[...] = source / 2

    close(evaluate(d, {x: data}, functions={"halve": halve}), expected[0] / 2 + 1)
    with pytest.raises(InputError, match="E calls halve, which is not known"):
        evaluate(d, {x: data})


def test_tensorized_body() -> None:
    b = te.placeholder((16, 20), name="B")
    tile = te.placeholder((3, 20), name="tile")
    row = te.compute((20,), lambda j: tile[0, j] + tile[1, j] + tile[2, j], name="row")
    intrin = te.decl_tensor_intrin(row.op, lambda ins, outs: None, name="add3")
    c = te.compute((14, 20), lambda i: intrin(b[i : i + 3, 0:20]), name="C")
    x = floats(16, 20)
    close(evaluate(c, {b: x}), x[:14] + x[1:15] + x[2:16])

    p, q = te.placeholder((4,), name="p"), te.placeholder((4,), name="q")
    r = te.reduce_axis((0, 4), "r")
    dot = te.decl_tensor_intrin(
        te.compute((1,), lambda i: te.sum(p[r] * q[r], axis=r), name="dot").op, lambda ins, outs: None
    )
    k = te.reduce_axis((0, 5), "k")
    u, v = te.placeholder((6, 20), name="U"), te.placeholder((20,), name="V")
    mv = te.compute((6, 1), lambda i: dot(u[i, k * 4 : k * 4 + 4], v[k * 4 : k * 4 + 4], reduce_axis=k), name="MV")
    y, z = floats(6, 20), floats(20)
    close(evaluate(mv, {u: y, v: z})[:, 0], y @ z)


def inputs_of(schedule: Schedule, sizes: dict[str, int]) -> dict[Any, Any]:
    """Random contents of the placeholders; integers stay within their declared range."""
    inputs = {}
    for stage in schedule.stages:
        if isinstance(stage.op, PlaceholderOp):
            tensor = stage.op.output(0)
            shape = [value_of(e, {v: sizes[v.name] for v in e.free_vars()}) for e in tensor.shape]
            low, high = tensor.value_range or (0, 10)
            inputs[tensor] = floats(*shape) if tensor.dtype == "float32" else RNG.integers(low, high + 1, shape)
    return inputs


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith("reject_attach")])
def test_rewrites_of_the_corpus_keep_its_meaning(name: str) -> None:
    """Outputs stay equal under caching, rfactor and inlining."""
    case = CASES[name]
    schedule = case["fn"]()
    normal = schedule.normalize()
    inputs = inputs_of(schedule, case["sub"])
    functions = {"f": lambda source, target: np.copyto(target, source)}
    before = [stage.origin_op.output(0) for stage in schedule.stages if stage.is_output and stage.origin_op]
    after = [op.output(0) for op in normal.outputs]
    expected, actual = (evaluate(tensors, inputs, case["sub"], functions) for tensors in (before, after))
    for a, b in zip(actual, expected, strict=True):
        close(a, b)


def test_cache_write_and_rfactor_of_sizes_that_do_not_divide() -> None:
    for reorder in (False, True):
        a = te.placeholder((7, 13), name="A")
        k = te.reduce_axis((0, 13), "k")
        c = te.compute((7,), lambda i: te.sum(a[i, k], axis=k), name="C")  # noqa: B023
        d = te.compute((7, 13), lambda i, j: a[i, j] * c[i], name="D")  # noqa: B023
        s = te.create_schedule(d.op)
        ko, ki = s[c].split(k, 4)
        io, ii = s[d].split(d.op.axis[1], 5)
        s[d].reorder(io, d.op.axis[0], ii)
        partial = s.rfactor(c, ki if reorder else ko, factor_axis=-1 if reorder else 0)
        cached = s.cache_write(d, "local")
        s[partial].compute_root()
        x = floats(7, 13)
        now = s.normalize()
        assert cached.ndim == 3
        close(evaluate(now.outputs[0].output(0), {a: x}), x * x.sum(1, keepdims=True))
        _, joi = s[partial].split(s[partial].op.reduce_axis[0], 2)
        both = s.rfactor(partial, joi)
        assert both.ndim == 3
        close(evaluate(s.normalize().outputs[0].output(0), {a: x}), x * x.sum(1, keepdims=True))

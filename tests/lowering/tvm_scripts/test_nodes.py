"""Fields of nodes under TVM's names; nests of `ir_builder`: views, vectors, atomic additions, checks."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from intset import InputError
from lowering.errors import AccessError, CheckError, CompilerError
from lowering.tvm import te, tir
from tests.compilers import need_compiler
from tests.lowering.tvm_scripts.calls import backends_of, called, equal_built, equal_elements, equal_in_both
from tests.strategies.refusals import refused_with_words
from tests.strategies.written import Written

m, n = te.size_var("m"), te.size_var("n")
PLAIN = tir.decl_buffer((m, n), "float32", "plain")
WHOLE = tir.decl_buffer((m, n), "int32", "whole", strides=(n + 1, 1), elem_offset=100)
POINTER = tvm.ir.PointerType(tvm.ir.PrimType("float32"), "shared")
ADDRESS = te.var("address", POINTER)


def _sum() -> Any:
    A, k = te.placeholder((4,), name="A"), te.reduce_axis((0, 4), "k")
    return te.compute((1,), lambda i: te.sum(A[k], axis=k, init=1.0), name="S").op.body[0]


FIELDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "the buffer of an element": (lambda: PLAIN.vload([2, 3]).buffer, PLAIN),
    "the buffer of an integer": (lambda: WHOLE[2, 3].buffer, WHOLE),
    "indices": (lambda: tuple(map(int, WHOLE[2, 3].indices)), (2, 3)),
    "the number of an element": (lambda: tir.Load(PLAIN, (2, m)).index, 2 * n + m),
    "by strides and offset": (lambda: WHOLE[2, 3].index, 2 * (n + 1) + 103),
    "of a store": (lambda: tir.Store(WHOLE, 1, [2, 3]).index, 2 * (n + 1) + 103),
    "the buffer of a store": (lambda: tir.BufferStore(PLAIN, 1.0, [0, 0]).buffer, PLAIN),
    "an address": (lambda: tir.decl_buffer((m,), "float32", data=ADDRESS).data, ADDRESS),
    "its type": (lambda: ADDRESS.type_annotation.storage_scope, "shared"),
    "the parts of a reduction": (lambda: (_sum().value_index, len(_sum().source), len(_sum().init)), (0, 1, 1)),
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_field(name: str) -> None:
    field, expected = FIELDS[name]
    found = field()
    assert tvm.ir.structural_equal(found, expected) or tvm.arith.Analyzer().can_prove_equal(found, expected)


def test_fields_and_functions_that_are_not_there_are_named() -> None:
    for node, name in ((m + 1, "buffer"), (PLAIN[0, 0], "axis"), (tir.Evaluate(0), "extents"), (m, "producer")):
        with pytest.raises(AttributeError, match=name):
            getattr(node, name)
    assert pickle.loads(pickle.dumps(ADDRESS)).type_annotation == POINTER
    with pytest.raises(InputError, match="handle"):
        ADDRESS + 1
    for indices in ([], [0], [0, 0, 0]):
        with pytest.raises(InputError, match=f"plain has 2 dimensions, a store to it names {len(indices)} indices"):
            tir.BufferStore(PLAIN, 1.0, indices)

    def kernel(ib: Any, A: Any, P: Any, B: Any) -> None:
        ib.buffer_ptr(B)[0] = tir.call_pure_extern("float32", "fabsf", ib.buffer_ptr(A)[0])

    f = built(kernel)
    f.backend = "python"
    with pytest.raises(InputError, match="calls fabsf, which is not known"):
        called(f, [X, TURNED], X)
    need_compiler()
    s, *args = Written('A = given(4)\nB[i:4] = tir.call_pure_extern("float32", "no_such_function", A[i])')("s A B")
    f = tvm.build(s, args)
    with pytest.raises(CompilerError, match="no_such_function"):
        f(tvm.nd.empty((4,)), tvm.nd.empty((4,)))


def test_operations_that_change_nothing_and_equal_elements() -> None:
    for same in (m + 0, 0 + m, m - 0, m * 1, 1 * m, m // 1, tir.truncdiv(m, 1), (0 + m * 1) - 0):
        assert same.same_as(m) and m.same_as(same)
        assert not (same + 1).same_as(m) and not same.same_as(n) and not same.same_as(None)
    assert tir.truncmod(m, 1).value == (m % 1 + 0).value == (m * 0).value == 0
    for other in (0 - m, 1 // m, m % 2, m):
        assert not hasattr(other, "value")
    flat = tir.decl_buffer((m, n), "float32", strides=(n, 1))
    k = te.size_var("k")
    assert tvm.ir.structural_equal(flat.vload((k // n, k % n)), flat.vload((0, k)))
    assert not tvm.ir.structural_equal(flat.vload((k // n, k % n)), flat.vload((0, k + 1)))


def test_a_selection_of_truth_values_keeps_its_form() -> None:
    need_compiler()
    A = te.placeholder((8,), name="A")
    a, k = np.random.default_rng(1).standard_normal(8).astype("float32"), np.arange(8)
    for pick in (lambda x, k: (x > 0.0, k < 4, x < 1.0), lambda x, k: (k < 4, k < 2, k > 5)):
        chosen = tir.Select(*pick(A[m], m))
        assert isinstance(chosen, tir.Select) and chosen.dtype == "bool"
        wanted = np.where(np.where(*pick(a, k)), a, np.float32(-1))
        equal_elements(lambda i, X, pick=pick: tir.Select(tir.Select(*pick(X[i], i)), X[i], -1.0), [a], wanted)  # type: ignore[misc]


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorize", "thread"])
def test_a_histogram_by_atomic_additions(kind: str) -> None:
    need_compiler()
    A = te.placeholder((40,), "int32", "A")

    def counted(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        before = ib.allocate("int32", (1,), "before", "local")
        with ib.for_range(0, 8, "i") as i:
            b[i] = 0

        def count(i: Any) -> None:
            address = tir.call_intrin("handle", "tir.address_of", b[a[i] % 8])
            before[0] = tir.call_intrin("int32", "tir.atomic_add", address, 2)
            ib.emit(tir.call_intrin("int32", "tir.atomic_add", address, before[0] * 0 - 1))

        if kind == "thread":
            tx = te.thread_axis("threadIdx.x")
            ib.scope_attr(tx, "thread_extent", 40)
            count(tx)
        else:
            with ib.for_range(0, 40, "i", kind=kind) as i:
                count(i)
        return ib.get()

    B = te.extern((8,), [A], counted, dtype="int32", name="B")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    a = np.random.default_rng(0).integers(0, 8, 40).astype("int32")
    equal_in_both(f, [a], np.bincount(a, minlength=8).astype("int32"))


A = te.placeholder((4,), name="A")
VIEWS: dict[str, Callable[[], Any]] = {
    "a function": lambda: tir.Call("float32", "tir.exp", [A[0]]),
    "a function of C": lambda: tir.Call("float32", "tir.call_extern", ["expf", A[0]]),
    "let": lambda: tir.Let(tir.Var("v", "int32"), 1, tir.exp(A[0])),
}


def test_loops_keep_threads_and_annotations_and_scopes_are_texts() -> None:
    i, buffer = tir.Var("i", "int32"), tir.decl_buffer((8,), "float32", "A")
    body = tir.BufferStore(buffer, 1.0, [i])
    loop = tir.For(i, 0, 8, 4, body, te.thread_axis("threadIdx.x"), {"pragma_unroll": 1})
    assert str(loop).splitlines()[0] == "for i in [0, 8) on threadIdx.x:  # pragma_unroll = 1"
    assert "on vthread" in str(tir.For(i, 0, 8, tir.ForKind.THREAD_BINDING, body, te.thread_axis("vthread")))
    for kind, axis in ((4, None), (0, te.thread_axis("threadIdx.x"))):
        with pytest.raises(InputError, match="a loop on threads, and no other, has a"):
            tir.For(i, 0, 8, kind, body, axis)
    assert tir.decl_buffer((4,), scope="local").scope() == tir.decl_buffer((4,), scope="local").scope == "local"
    scopes: list[str] = []

    def called(ins: Any, outs: Any) -> Any:
        scopes.extend((ins[0].scope(), outs[0].scope()))
        return tir.call_packed("f", ins[0], outs[0])

    te.extern((4,), [A], called)
    assert scopes == ["global", "global"]


def test_calls_and_lets_have_their_parts() -> None:
    x = tir.Call("float32", "tir.call_extern", [tir.StringImm("xyz"), A[1]])
    assert isinstance(x, tir.Call) and isinstance(x, tir.PrimExpr) and x.dtype == "float32"
    assert x.op.same_as(tvm.ir.Op.get("tir.call_extern")) and x.op.name == str(x.op) == "tir.call_extern"
    assert [arg.value if isinstance(arg, str) else arg for arg in x.args] == ["xyz", A[1]]
    assert tir.Call("float32", "tir.exp", [A[1]]).args == (A[1],)
    assert not isinstance(A[1], tir.Call)
    with pytest.raises(AttributeError):
        _ = x.unknown
    v = te.var("v")
    let = tir.Let(v, 3, v * 2)
    assert let.var is v and let.value.value == 3 and let.body is v * 2 and isinstance(let, tir.Let)
    assert int(tvm.arith.Analyzer().simplify(let + 0)) == 6


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_is_the_value_in_every_operation(view: Callable[[], Any]) -> None:
    x = view()
    plain = x.node
    assert x == view() and hash(x) == hash(plain) and repr(x) == repr(plain)
    assert (x + 1).same_as(plain + 1) and (1 - x).same_as(1 - plain) and (A[2] * x).same_as(A[2] * plain)
    assert (x < A[2]).same_as(plain < A[2]) and (-x).same_as(-plain) and (x / x).same_as(plain / plain)
    assert tir.Select(A[2] > 0.0, x, 0.0).same_as(tir.Select(A[2] > 0.0, plain, 0.0))
    B = te.compute((4,), lambda i: view(), name="B")
    assert B.op.body[0].same_as(plain)


def test_visits_and_rewrites_of_calls() -> None:
    ib = tir.ir_builder.create()
    with ib.for_range(0, 10, name="j") as j:
        inner = tir.call_extern("int32", "first", j * 3)
        ib.emit(tir.call_extern("int32", "second", inner))
        ib.emit(tir.call_extern("int32", "third", inner))
    names: list[str] = []

    def visit(x: Any) -> None:
        if isinstance(x, tir.Call):
            names.append(x.args[0].value)

    tir.stmt_functor.post_order_visit(ib.get(), visit)
    assert names == ["first", "second", "first", "third"]

    def changed(x: Any) -> Any:
        called = x.args[0].value
        return {"first": lambda: x.args[1] + 1, "third": lambda: 0}.get(called, lambda: None)()

    body = tir.stmt_functor.ir_transform(ib.get(), None, changed, ["tir.Call"]).body
    second, third = tir.stmt_list(body)
    assert str(second.value.args[1]) == "j * 3 + 1" and third.value.value == 0


@pytest.mark.parametrize("shapes", [((3, 4), (3, 1)), ((1, 4), (3, 4)), ((1, 1), (3, 4)), ((3, 4), (3, 4))])
def test_buffers_that_broadcast(shapes: tuple[tuple[int, int], tuple[int, int]]) -> None:
    left, right = (te.placeholder((te.size_var(f"{c}0"), te.size_var(f"{c}1")), name=c) for c in "XY")
    out = te.compute((te.size_var("o0"), te.size_var("o1")), lambda i, j: left[i, j] + right[i, j], name="O")
    total = te.compute(out.shape, lambda i, j: out[i, j] * left[i, j], name="P")
    binds = {t: tir.decl_buffer(t.shape, t.dtype, buffer_type="auto_broadcast") for t in (left, right)}
    s = te.create_schedule(total.op)
    s[out].compute_at(s[total], total.op.axis[0])
    f = tvm.build(s, [left, right, total], binds=binds)
    a, b = (np.random.default_rng(k).random(shape).astype("float32") for k, shape in enumerate(shapes))
    equal_in_both(f, [a, b], (a + b) * a)
    with pytest.raises(tvm.TVMError, match="inside its extent"):
        f(tvm.nd.array(a), tvm.nd.array(np.zeros((2, 1), "float32")), tvm.nd.empty((3, 4)))


def test_the_meaning_of_an_intrinsic_may_name_a_loop() -> None:
    s, X, Y = Written("X = given(20); Y = pointwise(X)\nY split i0 16")("s X Y")
    outer, inner = s[Y].leaf_iter_vars
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: tir.Select(outer * 16 + i < 20, x[i] + 1.0, 0.0), name="y")
    s[Y].tensorize(inner, te.decl_tensor_intrin(y.op, lambda ins, outs: tir.call_packed("f", *ins, *outs)))
    a = np.arange(20, dtype="float32")
    equal_in_both(tvm.build(s, [X, Y]), [a], a + 1)
    with pytest.raises(InputError, match=r"uses i0\.outer, an axis of another operation"):
        te.create_schedule(y.op)


Kernel = Callable[[Any, Any, Any, Any], None]  # of the builder and three buffers: floats, integers, the output


def built(kernel: Kernel) -> Any:
    A, P = te.placeholder((6,), name="A"), te.placeholder((6,), "int32", "P")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        kernel(ib, *ins, outs[0])
        return ib.get()

    B = te.extern((6,), [A, P], body, dtype="float32", name="B")
    return tvm.build(te.create_schedule(B.op), [A, P, B])


def reshaped(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A, shape=(2, 3)), ib.buffer_ptr(B, shape=(3, 2))
    with ib.for_range(0, 2) as i, ib.for_range(0, 3.0) as j:
        b[j, i] = a[i, j]


def ramps(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 2) as i:
        b[tir.Ramp(i, 2, 3)] = a[tir.Ramp(i * 3, 1, 3)] * 1.0


def gathered(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, p, b = ib.buffer_ptr(A), ib.buffer_ptr(P), ib.buffer_ptr(B)
    with ib.for_range(0, 6) as i, ib.if_scope(a[i] >= 0.0):
        b[p[i]] = tir.if_then_else(a[i] < 9.0, a[p[p[i]]], 0.0)


def repeated(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, p, b = ib.buffer_ptr(A), ib.buffer_ptr(P), ib.buffer_ptr(B)
    k = ib.allocate("int32", (1,), "k")
    k[0] = 0
    with ib.while_loop(k[0] < 6):
        b[p[k[0]]] = a[p[p[k[0]]]]
        k[0] += 1


def nested(ib: Any, A: Any, P: Any, B: Any) -> None:
    a, b = ib.buffer_ptr(A), ib.buffer_ptr(B)
    with ib.for_range(0, 6) as i:
        half = ib.let("half", a[i] * 0.5)
        b[i] = 0.0
        k = ib.allocate("int32", (1,), "k")
        k[0] = 0
        with ib.while_loop(k[0] < 2), ib.new_scope():
            m = ib.allocate("int32", (1,), "m")
            m[0] = 0
            with ib.while_loop(m[0] < 3):
                b[i] += half
                m[0] += 1
            k[0] += 1


def _threads(ib: Any) -> Any:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 6)
    return tx


def own_elements(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx, shared = _threads(ib), ib.allocate("float32", (6,), "s", scope="shared")
    shared[tx] = ib.buffer_ptr(A)[tx]
    ib.buffer_ptr(B)[tx] = shared[tx]


X, TURNED = np.arange(6, dtype="float32"), np.array([3, 4, 5, 0, 1, 2], "int32")
MATRIX = X.reshape(2, 3)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (reshaped, MATRIX.T.ravel()),
        (ramps, MATRIX.T.ravel()),
        (gathered, X[TURNED]),
        (repeated, X[TURNED]),
        (nested, X * 3),
        (own_elements, X),
    ],
)
def test_a_kernel(kernel: Kernel, expected: Any) -> None:
    need_compiler()
    equal_in_both(built(kernel), [X, TURNED], expected)


def test_a_function_in_a_while_loop_is_given_arrays_of_the_script() -> None:
    seen = []

    @tvm.register_func("test.seen", override=True)
    def note(array: Any, round_: int) -> None:
        seen.append((round_, array.numpy().tolist()))

    def kernel(ib: Any, A: Any, P: Any, B: Any) -> None:
        k, b = ib.allocate("int32", (1,), "k"), ib.buffer_ptr(B)
        k[0] = 0
        with ib.for_range(0, 6) as i:
            b[i] = 1.0
        with ib.while_loop(k[0] < 2):
            ib.emit(tir.call_packed("test.seen", B, k[0]))
            k[0] += 1

    called(built(kernel), [X, TURNED], X)
    assert seen == [(0, [1.0] * 6), (1, [1.0] * 6)]


@pytest.mark.parametrize("kernel", [gathered, repeated])
@pytest.mark.parametrize("wrong", [6, -1])
def test_an_access_that_data_leads_outside_is_reported(kernel: Kernel, wrong: int) -> None:
    need_compiler()
    f, places = built(kernel), TURNED.copy()
    places[2] = wrong
    for _ in backends_of(f):
        with pytest.raises(CheckError, match="inside"):
            called(f, [X, places], X)


def outside(ib: Any, A: Any, P: Any, B: Any) -> None:
    with ib.for_range(0, 7) as i:
        ib.buffer_ptr(B)[i] = 0.0


def exchanged(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx, shared = _threads(ib), ib.allocate("float32", (6,), "s", scope="shared")
    shared[tx] = ib.buffer_ptr(A)[tx]
    ib.buffer_ptr(B)[tx] = shared[5 - tx]


def synchronized(ib: Any, A: Any, P: Any, B: Any) -> None:
    tx = _threads(ib)
    ib.buffer_ptr(B)[tx] = 0.0
    ib.emit(tir.Call(None, "tir.tvm_storage_sync", ["shared"]))


test_what_does_not_run = refused_with_words(
    [
        ("stores B[i] outside of its tensor at i = 6", lambda: built(outside)),
        ("threads exchange values in shared memory", lambda: built(exchanged)),
        ("threads exchange values in shared memory", lambda: built(synchronized)),
        ("buffer_ptr takes a buffer", lambda: built(lambda ib, A, P, B: ib.buffer_ptr(te.placeholder((6,))))),
    ],
    AccessError,
    CompilerError,
    InputError,
)


def test_saved_modules(tmp_path: Path) -> None:
    path = str(tmp_path / "saved.so")
    with pytest.raises(InputError, match="a nest with a while loop is not saved"):
        built(repeated).export_library(path)
    s, *args = Written("A = given(6); B = pointwise(A)")("s A B")
    nests = [tvm.lower(s, args, name=name) for name in ("first", "second")]
    tvm.build(nests, target="llvm").export_library(path)
    for name in ("first", "second"):
        (out,) = called(tvm.runtime.load_module(path)[name], [X], X)
        np.testing.assert_array_equal(out, X + 1)
    for other in (b"\x7fELF\x00\xff", b'{"pickle": ""}'):
        Path(path).write_bytes(other)
        with pytest.raises(InputError, match="not saved here"):
            tvm.runtime.load_module(path)


def test_values_of_a_nest_have_the_arithmetic_of_their_types() -> None:
    def kernel(ib: Any, a: Any, b: Any, c: Any) -> None:
        with ib.for_range(0, 4) as i:
            total = ib.let("total", a[i] + b[i])
            with ib.if_scope(a[i] + b[i] < 50):
                c[i] = total - 128
            with ib.else_scope():
                c[i] = ((a[i] + b[i]) >> tir.const(1, "uint8")) * 1000 + tir.max(a[i] + b[i], 200)

    x, y = np.array([1, 200, 255, 3], "uint8"), np.array([255, 100, 255, 4], "uint8")
    total = (x + y).astype("int32")
    equal_built(kernel, [x, y], np.where(total < 50, total - 128, (total >> 1) * 1000 + np.maximum(total, 200)))

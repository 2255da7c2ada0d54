"""Scripts as they are written for TVM 0.8 to 0.19: `import tvm`, a schedule, a build, a comparison with numpy."""

import numpy as np
import tvm
import tvm.testing
from tvm import te, tir


def vector_sum():
    n = te.var("n")
    A, B = te.placeholder((n,), name="A"), te.placeholder((n,), name="B")
    C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].parallel(outer)
    s[C].vectorize(inner)
    assert tuple(C.shape) == (n,)
    tvm.lower(s, [A, B, C], simple_mode=True)
    target = tvm.target.Target(target="llvm", host="llvm")
    fadd = tvm.build(s, [A, B, C], target, name="myadd")
    dev = tvm.device(target.kind.name, 0)
    a = tvm.nd.array(np.random.uniform(size=37).astype(A.dtype), dev)
    b = tvm.nd.array(np.random.uniform(size=37).astype(B.dtype), dev)
    c = tvm.nd.array(np.zeros(37, dtype=C.dtype), dev)
    fadd(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
    assert fadd.time_evaluator(fadd.entry_name, dev, number=2)(a, b, c).mean > 0


def intermediates_are_returned():
    m = 12
    A = te.placeholder((m,), name="A")
    B = te.compute((m,), lambda i: A[i] * 2.0, name="B")
    C = te.compute((m,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    f = tvm.build(s, [A, B, C])
    a, b, c = (tvm.nd.array(np.arange(m).astype("float32")), tvm.nd.empty((m,)), tvm.nd.empty((m,)))
    f(a, b, c)
    np.testing.assert_array_equal(b.numpy(), 2 * a.numpy())
    np.testing.assert_array_equal(c.numpy(), 2 * a.numpy() + 1)
    tvm.lower(te.create_schedule(C.op), [A])


def reduction_with_rfactor():
    A = te.placeholder((6, 28), name="A")
    k = te.reduce_axis((0, 28), "k")
    B = te.compute((6,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    ko, ki = s[B].split(B.op.reduce_axis[0], factor=32)
    BF = s.rfactor(B, ki)
    assert int(BF.shape[0]) == 32
    s[B].bind(s[B].op.axis[0], te.thread_axis("blockIdx.x"))
    tx = te.thread_axis((0, 32), "threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    f = tvm.build(s, [A, B], "llvm")
    a, b = tvm.nd.array(np.random.rand(6, 28).astype("float32")), tvm.nd.empty((6,))
    f(a, b)
    tvm.testing.assert_allclose(b.numpy(), a.numpy().sum(axis=1), rtol=1e-4)


def argmax_by_tuples():
    def combine(x, y):
        left = tir.Select(x[1] >= y[1], x[0], y[0])
        return left, tir.Select(x[1] >= y[1], x[1], y[1])

    def identity(t0, t1):
        return tvm.tir.const(-1, t0), te.min_value(t1)

    argmax = te.comm_reducer(combine, identity, name="argmax")
    m, n = te.var("m"), te.var("n")
    idx = te.placeholder((m, n), name="idx", dtype="int32")
    val = te.placeholder((m, n), name="val", dtype="float32")
    k = te.reduce_axis((0, n), "k")
    T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    f = tvm.build(s, [idx, val, T0, T1])
    v = np.random.rand(5, 9).astype("float32")
    where = tvm.nd.array(np.tile(np.arange(9, dtype="int32"), (5, 1)))
    t0, t1 = tvm.nd.empty((5,), "int32"), tvm.nd.empty((5,))
    f(where, tvm.nd.array(v), t0, t1)
    np.testing.assert_array_equal(t0.numpy(), v.argmax(axis=1))
    np.testing.assert_array_equal(t1.numpy(), v.max(axis=1))


def scan_of_rows():
    m, n = te.var("m"), te.var("n")
    X = te.placeholder((m, n), name="X")
    state = te.placeholder((m, n))
    init = te.compute((1, n), lambda _, i: X[0, i])
    update = te.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
    total = te.scan(init, update, state, inputs=[X])
    f = tvm.build(te.create_schedule(total.op), [X, total])
    x, y = tvm.nd.array(np.random.rand(7, 4).astype("float32")), tvm.nd.empty((7, 4))
    f(x, y)
    tvm.testing.assert_allclose(y.numpy(), x.numpy().cumsum(axis=0), rtol=1e-5)


def extern_by_python_function():
    @tvm.register_func("scripts.twice", override=True)
    def twice(x, y):
        tvm.nd.array(x.numpy() * 2).copyto(y)

    A = te.placeholder((16,), name="A")
    B = te.extern(A.shape, [A], lambda ins, outs: tir.call_packed("scripts.twice", ins[0], outs[0]), name="B")
    C = te.compute(A.shape, lambda i: B[i] + 1.0, name="C")
    f = tvm.build(te.create_schedule(C.op), [A, C])
    a, c = tvm.nd.array(np.random.rand(16).astype("float32")), tvm.nd.empty((16,))
    f(a, c)
    tvm.testing.assert_allclose(c.numpy(), 2 * a.numpy() + 1, rtol=1e-6)


def extern_by_builder():
    def gen(ins, outs):
        ib = tvm.tir.ir_builder.create()
        A, B = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 4, name="i") as i, ib.for_range(0, 6, name="j", kind="unroll") as j:
            with ib.if_scope(tir.all(i < 3, j > 1)):
                B[i * 6 + j] = A[i * 6 + j] * 2.0
            with ib.else_scope():
                B[i, j] = tir.const(0.5, "float32")
        return ib.get()

    A = te.placeholder((4, 6), name="A")
    B = te.extern((4, 6), [A], lambda ins, outs: gen(ins, outs), name="B", dtype="float32")
    f = tvm.build(te.create_schedule(B.op), [A, B])
    a, b = tvm.nd.array(np.random.rand(4, 6).astype("float32")), tvm.nd.empty((4, 6))
    f(a, b)
    i, j = np.indices((4, 6))
    tvm.testing.assert_allclose(b.numpy(), np.where((i < 3) & (j > 1), a.numpy() * 2, 0.5))


def hybrid_script():
    @te.hybrid.script
    def prefix(a, n):
        b = output_tensor((10,), "float32")  # noqa: F821
        for i in range(10):
            total = 0.0
            for j in range(i + 1):
                total += a[j] * n
            b[i] = total
        return b

    A = te.placeholder((10,), name="A")
    B = prefix(A, tvm.runtime.convert(3))
    f = tvm.build(te.create_schedule(B.op), [A, B])
    a, b = tvm.nd.array(np.random.rand(10).astype("float32")), tvm.nd.empty((10,))
    f(a, b)
    tvm.testing.assert_allclose(b.numpy(), 3 * a.numpy().cumsum(), rtol=1e-5)


def tensorized_product():
    N, M, L = 32, 64, 16
    A, B = te.placeholder((N, L), name="A"), te.placeholder((M, L), name="B")
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")

    def gemv(m, n):
        a, b = te.placeholder((n,), name="a"), te.placeholder((m, n), name="b")
        l = te.reduce_axis((0, n), name="l")
        c = te.compute((m,), lambda i: te.sum(a[l] * b[i, l], axis=l), name="c")
        Ab = tvm.tir.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
        Bb = tvm.tir.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[te.var("s1"), 1])
        Cb = tvm.tir.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

        def body(ins, outs):
            ib = tvm.tir.ir_builder.create()
            args = [ins[0].access_ptr("r"), ins[1].access_ptr("r"), outs[0].access_ptr("w"), m, n, Bb.strides[0]]
            ib.emit(tvm.tir.call_extern("int32", "gemv_update", *args))
            return ib.get()

        return te.decl_tensor_intrin(c.op, body, binds={a: Ab, b: Bb, c: Cb})

    intrin = gemv(16, L)
    assert [b.name for b in intrin.buffers] == ["A", "B", "C"]
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    yo, yi = s[C].split(y, factor=16)
    s[C].reorder(x, yo, yi, k)
    s[C].tensorize(yi, intrin)
    f = tvm.build(s, [A, B, C], target="llvm", name="gemv")
    a, b = (np.random.rand(*shape).astype("float32") for shape in ((N, L), (M, L)))
    c = tvm.nd.empty((N, M))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b.T, rtol=1e-3)


def blocked_product():
    M = K = N = 64
    bn = 32
    k = te.reduce_axis((0, K), "k")
    A, B = te.placeholder((M, K), name="A"), te.placeholder((K, N), name="B")
    packed = te.compute((N / bn, K, bn), lambda bigN, kk, littleN: B[kk, bigN * bn + littleN], name="packedB")
    C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * packed[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k), name="C")
    s = te.create_schedule(C.op)
    CC = s.cache_write(C, "global")
    mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
    s[CC].compute_at(s[C], no)
    mc, nc = s[CC].op.axis
    (kaxis,) = s[CC].op.reduce_axis
    ko, ki = s[CC].split(kaxis, factor=4)
    s[CC].reorder(ko, mc, ki, nc)
    s[CC].unroll(ki)
    s[CC].vectorize(nc)
    s[C].parallel(mo)
    bigN, _, littleN = s[packed].op.axis
    s[packed].vectorize(littleN)
    s[packed].parallel(bigN)
    f = tvm.build(s, [A, B, C], target="llvm", name="mmult")
    a, b = (np.random.rand(64, 64).astype("float32") for _ in range(2))
    c = tvm.nd.empty((M, N))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), a @ b, rtol=1e-4)


def convolution_for_a_gpu():
    batch, in_size, channels, kernel, pad = 1, 6, 4, 3, 1
    A = te.placeholder((in_size, in_size, channels, batch), name="A")
    W = te.placeholder((kernel, kernel, channels, 8), name="W")
    out = in_size - kernel + 2 * pad + 1
    Apad = te.compute(
        (in_size + 2 * pad, in_size + 2 * pad, channels, batch),
        lambda y, x, c, n: tvm.tir.if_then_else(
            tvm.tir.all(y >= pad, y - pad < in_size, x >= pad, x - pad < in_size),
            A[y - pad, x - pad, c, n],
            tvm.tir.const(0.0, "float32"),
        ),
        name="Apad",
    )
    rc, ry, rx = (te.reduce_axis((0, e), name=v) for e, v in ((channels, "rc"), (kernel, "ry"), (kernel, "rx")))
    B = te.compute(
        (out, out, 8, batch),
        lambda y, x, f, n: te.sum(Apad[y + ry, x + rx, rc, n] * W[ry, rx, rc, f], axis=[ry, rx, rc]),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    AA, BL = s.cache_read(Apad, "shared", [B]), s.cache_write(B, "local")
    y, x, f, n = s[B].op.axis
    fused = s[B].fuse(y, x)
    s[B].reorder(fused, f, n)
    s[B].bind(fused, te.thread_axis("blockIdx.x"))
    s[B].bind(f, te.thread_axis((0, 8), "threadIdx.x"))
    s[BL].compute_at(s[B], f)
    s[AA].compute_at(s[BL], s[BL].op.reduce_axis[0])
    nest = tvm.lower(s, [A, W, B])
    assert "threadIdx.x" in str(nest)
    assert not tvm.cuda(0).exist and not tvm.testing.device_enabled("cuda")
    try:
        tvm.build(s, [A, W, B], "cuda")
    except RuntimeError as error:
        assert "cuda" in str(error)
    else:
        raise AssertionError("cuda is not here")
    f = tvm.build(s, [A, W, B], "llvm")
    a, w = np.random.rand(6, 6, 4, 1).astype("float32"), np.random.rand(3, 3, 4, 8).astype("float32")
    b = tvm.nd.empty((out, out, 8, 1))
    f(tvm.nd.array(a), tvm.nd.array(w), b)
    wide = np.pad(a, ((1, 1), (1, 1), (0, 0), (0, 0)))
    expected = sum(
        np.einsum("yxcn,cf->yxfn", wide[i : i + out, j : j + out], w[i, j]) for i in range(3) for j in range(3)
    )
    tvm.testing.assert_allclose(b.numpy(), expected, rtol=1e-4)


def tags_and_softmax():
    @tvm.te.tag_scope(tag="elemwise")
    def exponent(x):
        return te.compute(x.shape, lambda *i: te.exp(x(*i)), name="exponent")

    X = te.placeholder((5, 7), name="X")
    k1, k2 = (te.reduce_axis((0, X.shape[1]), name=n) for n in ("k1", "k2"))
    top = te.compute((X.shape[0],), lambda i: te.max(X[i, k1], axis=k1), name="top")
    E = exponent(te.compute(X.shape, lambda i, j: X[i, j] - top[i], name="shifted"))
    assert E.op.tag == "elemwise" and isinstance(E.op, te.tensor.ComputeOp)
    with te.tag_scope(tag="softmax_output"):
        S = te.compute((X.shape[0],), lambda i: te.sum(E[i, k2], axis=k2), name="S")
        Y = te.compute(X.shape, lambda i, j: E[i, j] / S[i], name="Y")
    assert Y.op.tag == "softmax_output"
    s = te.create_schedule([Y.op])
    s[E.op.input_tensors[0]].compute_inline()
    f = tvm.build(s, [X, Y])
    x, y = np.random.rand(5, 7).astype("float32"), tvm.nd.empty((5, 7))
    f(tvm.nd.array(x), y)
    expected = np.exp(x - x.max(axis=1, keepdims=True))
    tvm.testing.assert_allclose(y.numpy(), expected / expected.sum(axis=1, keepdims=True), rtol=1e-5)


def classes_of_expressions():
    i, j = te.var("i"), te.var("j")
    e = i * 2 + j
    assert isinstance(e, tir.Add) and isinstance(e.a, tir.Mul) and isinstance(e.b, tir.Var) and e.b == j
    assert isinstance(tir.const(3, "int32"), tir.IntImm) and isinstance(tir.FloorDiv(i, 2), tir.FloorDiv)
    assert isinstance(tir.const(3.0, "float32"), tir.FloatImm) and tir.IntImm("int32", 4).value == 4
    chosen = tir.Select(i < j, i, j)
    assert chosen.condition.a == i and chosen.true_value == i and chosen.false_value == j
    assert isinstance(i + 0.5, tir.PrimExpr) and (i + 0.5).dtype == "float32"
    seen = []
    tir.stmt_functor.post_order_visit(e, lambda x: seen.append(x) if isinstance(x, tir.Var) else None)
    assert seen == [i, j]
    tvm.ir.assert_structural_equal(tir.stmt_functor.substitute(e, {j: i}), i * 2 + i)
    analyzer = tvm.arith.Analyzer()
    analyzer.bind(i, tvm.ir.Range(0, 8))
    assert analyzer.can_prove(i < 8) and analyzer.const_int_bound(i * 2 + 1).max_value == 15


def nests_of_tensors():
    A = te.placeholder((8, 8), name="A")
    B = te.compute((8, 8), lambda i, j: A[j, i] * 3.0, name="B")
    func = te.create_prim_func([A, B])
    assert isinstance(func, tir.PrimFunc)
    loops = []
    tir.stmt_functor.post_order_visit(func.body, lambda n: loops.append(n) if isinstance(n, tir.For) else None)
    assert [int(loop.extent) for loop in loops] == [8, 8]
    f = tvm.build(func)
    a, b = np.random.rand(8, 8).astype("float32"), tvm.nd.empty((8, 8))
    f(tvm.nd.array(a), b)
    tvm.testing.assert_allclose(b.numpy(), a.T * 3, rtol=1e-6)


def arithmetic_of_tensors():
    n = te.var("n")
    A, B = te.placeholder((n, 3), name="A"), te.placeholder((3,), name="B")
    C = (A + B) * 2.0 - A
    f = tvm.build(te.create_schedule(C.op), [A, B, C])
    a, b, c = np.random.rand(4, 3).astype("float32"), np.random.rand(3).astype("float32"), tvm.nd.empty((4, 3))
    f(tvm.nd.array(a), tvm.nd.array(b), c)
    tvm.testing.assert_allclose(c.numpy(), (a + b) * 2 - a, rtol=1e-5)


SCRIPTS = [value for value in list(globals().values()) if getattr(value, "__module__", "") == __name__]

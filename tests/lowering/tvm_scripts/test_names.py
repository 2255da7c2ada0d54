"""Names of scripts beside the operators: bits of numbers, intervals and solved conditions, passes."""

import functools
import pickle
from typing import Any

import numpy as np
import pytest

import lowering.tvm as tvm
from intset import InputError
from intset.errors import IntSetError
from lowering import run
from lowering.tvm import arith, te, tir, transform
from tests.lowering.lowered import in_both
from tests.lowering.tvm_scripts.calls import equal_elements, equal_in_both
from tests.strategies.refusals import refused_with_words
from tests.strategies.written import Written

WIDTHS = [
    *(("float32", other) for other in ("int32", "uint32")),
    *(("float64", other) for other in ("int64", "uint64")),
    ("int8", "uint8"),
    ("uint64", "int64"),
]
A, B, C = (tir.Var(name) for name in "abc")


@pytest.mark.parametrize(("source", "dtype"), [*WIDTHS, *(pair[::-1] for pair in WIDTHS)])
def test_bits_of_a_number_are_those_of_numpy(source: str, dtype: str) -> None:
    bits = np.random.default_rng(3).integers(0, 255, 64 * np.dtype(source).itemsize, dtype="uint8")
    if "float" in source or "float" in dtype:
        bits &= 0x3F  # no NaN
    given = bits.view(source)
    for (found,) in in_both(lambda i, X: tir.reinterpret(dtype, X[i]), X=given):
        np.testing.assert_array_equal(found, given.view(dtype))


def test_remainders_intervals_and_conditions_of_a_variable() -> None:
    analyzer = arith.Analyzer()
    assert analyzer.modular_set(A * 4 + 1) == arith.ModularSet(4, 1)
    assert analyzer.modular_set(7) == arith.ModularSet(0, 7)
    assert analyzer.modular_set(A // 2) == arith.ModularSet(1, 0)
    analyzer.update(A, arith.ModularSet(4, 1))
    assert analyzer.modular_set(A * 2 + 1) == arith.ModularSet(8, 3)
    analyzer = arith.Analyzer()
    found = analyzer.int_set(A + B * 2, {A: arith.IntervalSet(0, 10)})
    assert (found.min_value, found.max_value) == (B * 2, B * 2 + 10)
    found = analyzer.int_set(A * 2 + B, {A: arith.IntervalSet(0, arith.pos_inf())})
    assert found.min_value is B and found.max_value is arith.pos_inf()
    assert analyzer.int_set(A, {A: arith.IntervalSet(3, 2)}).is_nothing()
    assert arith.IntervalSet(arith.neg_inf(), arith.pos_inf()).is_everything()
    assert arith.IntSet.single_point(A) == arith.IntervalSet(A, A)
    relaxed = {C: arith.IntervalSet(0, 3)}
    found = arith.deduce_bound(A, A * 2 + C < 10, {}, relaxed)
    assert (found.min_value, int(found.max_value)) == (arith.neg_inf(), 3)
    assert arith.deduce_bound(A, (A % 2).eq(0), {}, {}).is_nothing()  # no interval
    assert arith.detect_linear_equation(A * 4 + B * 6 + 7, [A]) == [4, B * 6 + 7]
    assert arith.detect_linear_equation(A * B, [A]) == [B, 0]
    assert arith.detect_linear_equation(A * B, [A, B]) == []
    assert arith.detect_linear_equation(A // 2, [A]) == []
    assert arith.detect_clip_bound(tir.all(A < B * 6, A - 1 > 0), [A]) == [2, B * 6 - 1]
    assert arith.detect_clip_bound(tir.all(A < B * 6, A - 1 > 0), [A, B]) == []
    assert arith.detect_clip_bound(tir.all(A + C * 10 <= 20, B - 1 > 0), [A, B]) == [None, 20 - C * 10, 2, None]


ENDS: dict[str, tuple[Any, tuple[int, int]]] = {
    "a sum": (lambda x, y: x + y, (-5, 14)),
    "a product": (lambda x, y: x * y, (-90, 40)),
    "a quotient": (tir.truncdiv, (-2, 1)),
    "a remainder": (tir.floormod, (0, 9)),
    "a minimum": (tir.min, (-9, 4)),
    "a selection": (lambda x, y: tir.Select(x > 1, y, 0), (0, 10)),
}


@pytest.mark.parametrize("name", ENDS)
def test_constant_ends_of_variables_that_may_be_negative(name: str) -> None:
    x, y = te.var("x"), te.var("y")
    analyzer = arith.Analyzer()
    analyzer.update(x, arith.ConstIntBound(-9, 4))
    analyzer.update(y, arith.ConstIntBound(4, 10))
    formula, ends = ENDS[name]
    found = analyzer.const_int_bound(formula(x, y))
    assert (found.min_value, found.max_value) == ends


def test_a_question_does_not_take_a_variable_for_a_size() -> None:
    analyzer, x, n = arith.Analyzer(), te.var("x"), te.size_var("n")
    assert not analyzer.can_prove(x >= 0) and analyzer.can_prove(n >= 0)
    assert analyzer.simplify(tir.max(x, 0)) is tir.max(x, 0) and analyzer.simplify(x * 4 // 4) is x
    assert analyzer.const_int_bound(x).max_value == arith.ConstIntBound.POS_INF
    analyzer.update(x, arith.ConstIntBound(0, 4))
    with analyzer.constraint_scope(x > 2):
        assert analyzer.const_int_bound(x) == arith.ConstIntBound(3, 4)
    analyzer.update(x, arith.ConstIntBound(-3, 1), override=True)
    assert analyzer.const_int_bound(x) == arith.ConstIntBound(-3, 1)
    found = arith.deduce_bound(x, x * 2 >= -5, {}, {})
    assert int(found.min_value) == -2
    assert arith.detect_clip_bound(tir.all(x >= -4, x < n), [x]) == [-4, n - 1]


@pytest.mark.parametrize("again", [tvm.ir.Range(2, 7), 3, te.var("n")])
def test_an_analyzer_binds_a_variable_to_one_range_or_value(again: Any) -> None:
    analyzer, x = arith.Analyzer(), te.var("x")
    for _ in range(2):
        analyzer.bind(x, tvm.ir.Range(0, 4))
    with pytest.raises(InputError, match=r"x is bound to .*4.* already"):
        analyzer.bind(x, again)
    assert analyzer.can_prove(x < 4) and not analyzer.can_prove(x < 3)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_a_narrow_variable_has_its_type(dtype: str) -> None:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    X, v = te.placeholder((4,), dtype, "X"), tir.Var("v", dtype)
    assert v.dtype == te.var("w", dtype).dtype == dtype and not isinstance(v, tir.SizeVar)
    assert pickle.loads(pickle.dumps(v)).dtype == dtype
    assert arith.Analyzer().const_int_bound(te.var("w", dtype)) == arith.ConstIntBound(low, high)
    Y = te.compute((4,), lambda i: X[i] + v, name="Y")
    assert Y.dtype == dtype
    f, x, out = tvm.build(te.create_schedule(Y.op), [X, v, Y]), np.array([low, 0, 1, high], dtype), None
    for value in (low, 1, high):
        out = tvm.nd.empty((4,), dtype)
        f(tvm.nd.array(x), value, out)
        np.testing.assert_array_equal(out.numpy(), x + np.array(value, dtype))
    with pytest.raises(IntSetError):
        f(tvm.nd.array(x), high + 1, out)


def shifted() -> Any:
    s, *args = Written("X = given(10); Y = pointwise(X)\nY split i0 4")("s X Y")
    return tvm.lower(s, args)


@pytest.mark.parametrize("name", transform.CHANGES)
def test_a_pass_keeps_what_a_function_computes(name: str) -> None:
    f = shifted()
    changed = getattr(tir.transform, name)()(f)
    assert isinstance(changed, tvm.IRModule) and changed["main"] is changed
    given = np.arange(10, dtype="float32")
    np.testing.assert_array_equal(run(changed, {"X": given})["Y"], given + 1)


def test_passes_of_python_functions() -> None:
    f = shifted()

    @tir.transform.prim_func_pass(opt_level=0)
    def marked(func: Any, mod: Any, ctx: Any) -> Any:
        return func.with_attr("level", ctx.opt_level)

    with tvm.transform.PassContext(opt_level=3):
        mod = tvm.transform.Sequential([marked, tir.transform.Simplify()])(tvm.IRModule.from_expr(f))
    assert mod.attrs["level"] == 3 and marked.info.name == "marked"
    assert tvm.transform.module_pass(lambda mod, ctx: mod, opt_level=0)(f) is f

    @tvm.transform.module_pass(opt_level=0)
    class Marked:
        def __init__(self, level: int) -> None:
            self.level = level

        def transform_module(self, mod: Any, ctx: Any) -> Any:
            return mod.with_attr("level", self.level)

    assert Marked(5)(f).attrs == {"level": 5}
    with pytest.raises(AttributeError, match=r"tvm\.transform\.MakePackedAPI is not here: lowering\.passes"):
        tir.transform.MakePackedAPI()


def test_lower_applies_the_passes_of_a_script_and_records_primitives() -> None:
    X = te.placeholder((8, 8), name="X")
    Y = te.compute((8, 8), lambda i, j: X[i, j] * 2.0, name="Y")
    assert te.create_schedule(Y.op).schedule_record == []
    with tvm.transform.PassContext(config={"te.keep_schedule_record": True}):
        s = te.create_schedule(Y.op)
    cached = s.cache_write(Y, "local")
    i, j = s[Y].op.axis
    outer, *_ = s[Y].tile(i, j, 4, 4)
    s[cached].compute_at(s[Y], outer)
    assert s.primitive_record == ["vanilla", "cache_write", "split", "split", "reorder", "compute_at"]
    assert [len(record[Y].leaf_iter_vars) for record in s.schedule_record] == [2, 2, 3, 4, 4, 4]
    assert s.schedule_record[-1].cache_read(X, "local", [cached]) is not None and len(s.schedule_record) == 6
    assert tvm.lower(s, [X, Y]) is not None
    s, *args = Written("A = given(8)\nB[i:8] = A[i] * 2.0")("s A B")

    @tir.transform.prim_func_pass(opt_level=0)
    def halved(f: Any, mod: Any, ctx: Any) -> Any:
        def change(loop: Any) -> Any:
            outer, inner = te.var("outer"), te.var("inner")
            body = tir.stmt_functor.substitute(loop.body, {loop.loop_var: outer * 2 + inner})
            return tir.For(outer, 0, 4, tir.ForKind.SERIAL, tir.For(inner, 0, 2, tir.ForKind.VECTORIZED, body))

        return f.with_body(tir.stmt_functor.ir_transform(f.body, None, change, ["tir.For"]))

    with transform.PassContext(config={"tir.add_lower_pass": [(1, halved)]}):
        f = tvm.lower(s, args)
    assert [f.body.extent, f.body.body.extent] == [4, 2] and tvm.lower(s, args).body.extent == 8
    np.testing.assert_array_equal(run(f, {"A": np.arange(8, dtype="float32")})["B"], np.arange(8) * 2)


def test_truth_values_quotients_and_conversions_are_constructed_as_written() -> None:
    given = np.arange(4, dtype="float32")
    equal_elements(lambda i, X: tir.Select(True, te.if_then_else(False, 0.0, X[i]), 3.0), [given], given)
    assert tir.const(np.uint8(3)).dtype == "uint8" and tvm.runtime.convert(np.float16(1)).dtype == "float16"
    assert tvm.runtime.convert(True).dtype == tir.const(np.bool_(True)).dtype == "bool"
    s, *args = Written("""
        A = given(4, 3, dtype="bool"); either = reduced(A, by=te.max)
        both[i:4] = te.min(A[i, 0], A[i, 1])""")("s A either both")
    f = tvm.build(s, args)
    a = np.random.default_rng(0).integers(0, 2, (4, 3)).astype(bool)
    equal_in_both(f, [a], a.max(axis=1), a[:, :2].min(axis=1))
    n = te.var("n")
    quotient = tir.Div(tir.Let(n, -8, n + 1), 2)
    assert isinstance(quotient, tir.Div) and arith.Analyzer().simplify(quotient) == -3
    node = tir.Cast("float32", tir.IntImm("uint32", 1))
    assert isinstance(node, tir.Cast) and node.dtype == "float32" and node.value.value == 1


def test_a_typed_constant_keeps_its_type_and_is_a_number_in_shapes() -> None:
    one = tir.const(1, "int64")
    assert one.dtype == "int64" and isinstance(one, tir.IntImm) and one.value == 1
    for dtype in ("uint8", "int16", "int64", "float64"):
        number = np.dtype(dtype).type(1)
        assert tir.const(number).dtype == dtype and tvm.runtime.convert(number).dtype == dtype
    A = te.placeholder((tir.const(9, "int64"),), "int32", "A")
    B = te.compute(A.shape, lambda i: A[i - one + 1] + tir.IntImm("int64", 2**40), name="B")
    assert B.dtype == "int64" and tuple(A.shape) == (9,)
    s = te.create_schedule(B.op)
    s[B].split(B.op.axis[0], factor=tir.const(4, "int64"))
    f = tvm.lower(s, [A, B])
    assert "assert" not in str(f)
    np.testing.assert_array_equal(run(f, {"A": np.arange(9, dtype="int32")})["B"], np.arange(9) + 2**40)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_roundings_of_constants_are_those_of_numpy(dtype: str) -> None:
    away = {"round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)}
    for name in ("floor", "ceil", "trunc", "nearbyint", "round"):
        reference: Any = away.get(name) or getattr(np, {"nearbyint": "rint"}.get(name, name))
        for x in np.array([0.0, -0.0, 0.25, 0.5, -0.5, 1.5, -1.5, 2.5, -2.25, 7.75, 1000.0], dtype):
            found = getattr(tir, name)(tir.const(float(x), dtype))
            assert found.dtype == dtype and str(float(found.value)) == str(float(reference(x)))
    assert float(tir.round(tir.const(0.49999999999999994, "float64")).value) == 0.0
    assert (tir.const(4, "int32") + 5 + 0.5).value == 9.5 and not isinstance(A + 0.5, tir.FloatImm)
    assert tir.ceil((A * 0 + 1) / 2.0).dtype == "float32"


def test_statements_without_an_effect_keep_their_fields() -> None:
    buffer = tir.decl_buffer((10, 20), name="A")
    ib = tir.ir_builder.create()
    with ib.for_range(0, 8, "i") as i:
        ib.emit(tir.Prefetch(buffer, [tvm.ir.Range.from_min_extent(i + 1, 2), tvm.ir.Range.from_min_extent(0, 20)]))
    loop = ib.get()
    assert isinstance(loop.body, tir.Prefetch) and not isinstance(loop.body, tir.Evaluate)
    assert loop.body.bounds[0].extent.value == 2
    store = tir.BufferStore(buffer, 1.0, [0, 0])
    hint = tir.AttrStmt(A, "stride", 10, store)
    assert hint.node is A and hint.body is store and isinstance(hint, tir.AttrStmt) and str(hint) == str(store)
    assert tir.Evaluate(11).value.value == 11 and isinstance(tir.Evaluate(0), tir.Evaluate)
    realize = tir.BufferRealize(buffer, [tvm.ir.Range(0, 1), tvm.ir.Range(0, 20)], True, store)
    assert isinstance(realize, tir.BufferRealize) and isinstance(realize.body, tir.Store)


def test_the_body_of_a_hint_inside_a_loop_is_reached_and_runs() -> None:
    s, *args = Written("X = given(8, dtype='int32'); Y = pointwise(X)")("s X Y")
    f = tvm.lower(s, args)
    hint = functools.partial(tir.AttrStmt, None, "pragma_hint", 1)
    hinted = tir.stmt_functor.ir_transform(f.body, None, hint, ["tir.BufferStore"])
    assert isinstance(hinted.body, tir.AttrStmt) and hinted.body.attr_key == "pragma_hint"
    seven = tir.stmt_functor.ir_transform(
        hinted, None, lambda store: tir.BufferStore(store.buffer, tir.const(7, "int32"), store.indices), ["tir.Store"]
    )
    given = np.arange(8, dtype="int32")
    for body, wanted in ((hinted, given + 1), (seven, given * 0 + 7)):
        np.testing.assert_array_equal(run(f.with_body(body), {"X": given})["Y"], wanted)


def test_a_cut_tile_has_its_whole_extent() -> None:
    s, n, f, U, V = Written("""
        m = var(); n = var(); f = var(); T = given(m, n)
        U[i:m, j:n] = T[i, j]
        V[i:m, j:n] = U[i, j] + 3
        V fuse i j; V split i.j.fused f; U compute_at V i.j.fused.outer""")("s n f U V")
    outer = s[V].leaf_iter_vars[0]
    bounds = te.schedule.InferBound(s)
    assert bounds[U.op.axis[1]].extent == n
    assert tvm.arith.Analyzer().can_prove_equal(
        bounds[U.op.axis[0]].extent, ((outer + 1) * f - 1) // n - outer * f // n + 1
    )


def test_arrays_share_their_memory_and_bits_of_bfloat16_are_passed() -> None:
    pytest.importorskip("ml_dtypes")
    s, *args = Written("A = given(4, dtype='bfloat16')\nB[i:4] = A[i] + A[i]")("s A B")
    bits = (np.array([1.0, -2.5, 0.0, 100.0], "float32").view("uint32") >> 16).astype("uint16")
    a, b = tvm.nd.array(bits), tvm.nd.empty((4,), "uint16")
    tvm.build(s, args)(a, b)
    np.testing.assert_array_equal((b.numpy().astype("uint32") << 16).view("float32"), [2.0, -5.0, 0.0, 200.0])
    s, *args = Written("A = given(4); B = pointwise(A)")("s A B")
    f = tvm.build(s, args)
    source, target = np.arange(4, dtype="float32"), np.zeros(4, "float32")
    f(tvm.nd.from_dlpack(source), tvm.nd.from_dlpack(target))
    np.testing.assert_array_equal(target, source + 1)
    np.testing.assert_array_equal(tvm.nd.from_dlpack(source.__dlpack__()).numpy(), source)
    array = tvm.nd.array(source)
    np.testing.assert_array_equal(np.from_dlpack(array), source)
    np.testing.assert_array_equal(tvm.nd.from_dlpack(array.to_dlpack()).numpy(), source)
    with pytest.raises(InputError, match="row-major"):
        tvm.nd.from_dlpack(np.zeros((4, 4))[:, 1])
    with pytest.raises(ValueError, match="read-only"):
        f(array, tvm.nd.from_dlpack(target.__dlpack__()))


def test_errors_packed_calls_and_devices_by_name() -> None:
    with pytest.raises(RuntimeError):
        ~tir.const(1.5, "float32")
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), [A], lambda ins, outs: tir.call_packed("nothing", ins[0], outs[0]), name="B")
    assert "nothing" in tvm.build(te.create_schedule(B.op), [A, B]).get_source()
    assert tvm.target.Target("nvidia/geforce-rtx-3090").kind.name == "cuda"
    assert tvm.nd.empty((3,), "bfloat16").dtype == "uint16"  # as TVM holds its bits
    assert tir.reinterpret("float32", HELD) is HELD


def test_calls_are_made_in_the_order_of_arguments() -> None:
    text = "n = var(); bias = var('float32'); X = given(n)\nY[i:n] = X[i] + bias + n"
    s, *args = Written(text)("s bias X n Y")
    f = tvm.lower(s, args)
    y = tvm.nd.empty((3,))
    tvm.build(f)(0.5, tvm.nd.array(np.ones(3, "float32")), 3, y)
    np.testing.assert_array_equal(y.numpy(), [4.5] * 3)
    tvm.build(transform.Sequential([transform.Simplify()])(f))(1.5, tvm.nd.array(np.ones(3, "float32")), 3, y)
    np.testing.assert_array_equal(y.numpy(), [5.5] * 3)
    seen: list[Any] = []
    tvm.register_func("test_names.seen", lambda *args: seen.append(args), override=True)
    buffer = tir.decl_buffer((3,), name="A")
    for body in (
        tir.Evaluate(tir.call_packed("test_names.seen", buffer)),
        tir.Evaluate(tir.call_extern("int32", "test_names.seen", A * 0 + 5)),
        tir.Evaluate(tir.call_extern("float32", "test_names.seen", A * 0 + 6)),
    ):
        tvm.build(tir.PrimFunc([buffer, A], body))(tvm.nd.array(np.ones(3, "float32")), 0)
    assert len(seen) == 3 and seen[0][0].shape == (3,) and [args[0] for args in seen[1:]] == [5, 6]
    assert isinstance(tir.Evaluate(tir.exp(tir.const(1.0))), tir.Evaluate)
    assert str(tir.Evaluate(tir.exp(te.var("x", "float32")))) == "pass"


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32"])
def test_an_array_of_another_type_is_refused(dtype: str) -> None:
    s, *args = Written("x = given(4); y = pointwise(x)")("s x y")
    f = tvm.build(s, args)
    right, other = tvm.nd.empty((4,)), tvm.nd.empty((4,), dtype)
    for arrays, name in (((other, right), "x"), ((right, other), "y")):
        with pytest.raises(InputError, match=f"the array for {name} has the type {dtype}, not float32"):
            f(*arrays)


HELD = te.placeholder((4,), name="X")[0]
WHOLE, NO_THREAD = tir.decl_buffer((10, 20), name="A"), te.thread_axis("threadIdx.w")
test_what_tvm_refuses_is_refused_in_its_words = refused_with_words(
    [
        *(
            ("reinterpret takes numbers of one width", lambda dtype=dtype: tir.reinterpret(dtype, HELD))
            for dtype in ("int64", "float16", "bool")
        ),
        ("takes a function of tvm.lower, not 3", lambda: tir.transform.Simplify()(3)),
        ("a module has one function here, not 0", lambda: tvm.IRModule({})),
        ("under no condition", lambda: tir.BufferRealize(WHOLE, [], A > 0, tir.Evaluate(0))),
        ("threads are loops", lambda: tir.AttrStmt(te.thread_axis("threadIdx.x"), "thread_extent", 4, tir.Evaluate(0))),
        ("the kind of a target is one of llvm, ", lambda: tvm.target.Target("lllvm")),
        ("a thread tag is one of", lambda: tir.ir_builder.create().scope_attr(NO_THREAD, "thread_extent", 4)),
        ("dtype must be a type such as 'int32', 'float32' or 'bool', not 'foo'", lambda: tvm.nd.empty((3,), "foo")),
    ],
    tvm.TVMError,
)
NONSENSE = {
    "a constructor of other operands": lambda x: tir.Cast("float32"),
    "a node of no fields": lambda x: tir.AttrStmt(x),
    "a store to no buffer": lambda x: tir.BufferStore(x, 1, [0]),
    "a module of no function": lambda x: tvm.IRModule({"main": x}),
    "a module of no mapping": tvm.IRModule,
    "a function of no parameters": lambda x: tir.PrimFunc(x, tir.Evaluate(0)),
    "a function of no tensors": te.create_prim_func,
    "an operation of no function": lambda x: te.extern_primfunc([], x),
    "a visit by no function": lambda x: tir.stmt_functor.post_order_visit(tir.Evaluate(0), x),
    "a rewrite by no function": lambda x: tir.stmt_functor.ir_transform(tir.Evaluate(0), x, None),
    "a substitution of no mapping": lambda x: tir.stmt_functor.substitute(A, x),
    "a script of no function": te.hybrid.script,
    "an address of no element": lambda x: tir.call_intrin("handle", "address_of", x),
    "an option of no text": tvm.target.cuda,
    "a pass of no function": lambda x: transform.prim_func_pass(x, opt_level=0),
    "an array of no shape": tvm.nd.empty,
    "a function of no name": lambda x: tvm.get_global_func([x]),
    "ends of no condition": lambda x: arith.detect_clip_bound(x, [A]),
    "a library of no files": lambda x: tvm.contrib.cc.create_shared("out", x),
}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("x", [-3, object()], ids=["number", "object"])
def test_nonsense_is_refused_in_words(name: str, x: object) -> None:
    """A meaningless argument raises an error of the package, none from inside."""
    with pytest.raises(IntSetError):
        NONSENSE[name](x)

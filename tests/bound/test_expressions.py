"""Operands of tensor programs; regions of no plain formulas; ranges of elements; the reference against numpy."""

import itertools
import operator
import random
from typing import Any

import numpy as np
import pytest

from bound import dtypes, infer_bound, te, tir
from bound.infer import BoundsMap
from bound.itervar import IterType, IterVar
from bound.schedule import ScheduleError
from bound.schedule.relations import pass_down_domain, pass_down_index, pass_up_index
from bound.tir.value import CONVERT, NUMBER, READ, REDUCE, IntFunction, TensorElement, Value
from intset import InputError, UndefinedError
from intset import evaluate as evaluate_index
from intset.expr import ops
from intset.expr.node import Cond, Expr, Var, as_expr
from intset.expr.range import Range
from lowering import lower, run
from tests.bound.reference import evaluate
from tests.lowering.lowered import check, random_array
from tests.strategies.refusals import refused_with_words
from tests.strategies.schedules import random_step
from tests.strategies.written import Written
from tests.sweeps import RANDOMS, swept

A = te.placeholder((8, 9), name="A")
H = te.placeholder((8,), "float16", name="H")
IDX = te.placeholder((8,), "int32", name="IDX", value_range=(-3, 24))
I8 = te.placeholder((8,), "int8", name="I8")
i, j = te.var("i"), te.var("j")
K, (AXIS,) = te.reduce_axis((1, 5), "k"), te.compute((4,), lambda y: A[y, 0]).op.axis


def test_axes_are_integer_variables_named_like_parameters() -> None:
    k = te.reduce_axis((2, 9), "k")
    assert isinstance(k, Var) and k.iter_type is IterType.COMM_REDUCE and k.var is k
    assert k.dom == Range(2, 7)
    assert isinstance(k * 2 + 1, Expr) and (k * 2 + 1).free_vars() == (k,)
    t = te.thread_axis((0, 32), "threadIdx.x")
    assert (t.name, t.thread_tag, t.dom) == ("threadIdx.x", "threadIdx.x", Range(0, 32))
    assert te.thread_axis("vthread", name="vx").name == "vx"
    seen: list[IterVar] = []
    c = te.compute((4, 5), lambda row, col: seen.extend((row, col)) or A[row, col], name="C")
    assert [iv.name for iv in c.op.axis] == ["row", "col"] and tuple(seen) == c.op.axis
    d = te.compute((4, 5), lambda *i: A[i], name="D")
    assert [iv.name for iv in d.op.axis] == ["i0", "i1"]
    e = te.compute((4, 5), lambda y, *rest: A[(y, *rest)], name="E")
    assert [iv.name for iv in e.op.axis] == ["y", "i1"]
    scale = 3
    f = te.compute((4,), lambda y, k=scale: A[y, k], name="F")
    assert len(f.op.axis) == 1


def test_operands_are_expressions_conditions_or_values() -> None:
    assert isinstance(tir.indexdiv(i, 4) * 4 + tir.indexmod(i, 4), Expr)
    assert tir.floordiv(i, 4) is i // 4 and tir.indexmod(i, 4) is i % 4
    assert tir.truncmod(i, 4).op is ops.TRUNCMOD
    assert te.max(te.min(i, 7), 4).op is ops.MAX and tir.min(i, j, 3).op is ops.MIN
    cond = tir.all(i >= 1, i < 9, tir.any(j > 2, j < 0))
    assert isinstance(cond, Cond)
    assert tir.Select(cond, i, 0).op is ops.SELECT and tir.if_then_else(i < 3, i, j).op is ops.SELECT
    assert tir.const(5, "int32") is tir.const(5) and tir.const(5).data == 5
    assert tir.likely(cond) is cond and tir.abs(i).op is ops.ABS
    value = A[i, j] * 2
    assert isinstance(value, Value) and value.op is ops.MUL and value.dtype == "float32"
    assert value.args[1].op is NUMBER and value.args[1].data == 2.0
    for mixed in (A[i, j] + i, i + A[i, j], (i + 1) * A[i, j], i / A[i, j], i - A[i, j], 2 * A[i, j], i % A[i, j]):
        assert isinstance(mixed, Value) and mixed.dtype == "float32"
    assert (i + A[i, j]).args[0].op is CONVERT and (i + A[i, j]).args[0].args == (i,)
    assert (A[i, j] + H[i]).dtype == "float32" and (H[i] + 1.5).dtype == "float32"
    assert (H[i] + 1).dtype == (H[i] + tir.const(1.5, "float16")).dtype == "float16"
    assert isinstance(A[i, j] > i, Value) and isinstance(i < A[i, j], Value)
    assert (i < A[i, j]).dtype == "bool"
    assert tir.Cast("float32", i).op is CONVERT and i.astype("float32") is tir.Cast("float32", i)
    assert te.exp(A[i, j]).data == "exp" and te.exp(i).dtype == "float32"
    mixed = tir.all(i < 3, A[i, j] > 0)
    assert isinstance(mixed, Value) and mixed.dtype == "bool" and isinstance(mixed.args[0], Cond)
    assert ((i < 3) & (A[i, j] > 0)) is mixed and ((A[i, j] > 0) | (i < 3)).op is ops.OR
    assert (~(A[i, j] > 0)).op is ops.NOT
    chosen = tir.Select(mixed, A[i, j], 0.0)
    assert chosen.op is ops.SELECT and chosen.args[0] is mixed
    with pytest.raises(InputError, match="truth value"):
        bool(A[i, j] > 0)


def test_structure_is_identity_and_sums_of_many_terms_need_no_recursion() -> None:
    assert A[i, j] + 1 is A[i, j] + 1.0
    assert A[i, j] is not A[j, i] and bool(A[i, j] == A[i, j]) and not bool(A[i, j] == A[j, i])
    assert {A[i, j]: 1}[A[i, j]] == 1
    assert tir.const(0.0, "float32") is not tir.const(-0.0, "float32")
    assert tir.const(0.0, "float32") is not tir.const(0.0, "float64")
    assert tir.const(float("nan"), "float32") is tir.const(float("nan"), "float32")
    assert A[i][j] is A[i, j] and A(i, j) is A[i, j]
    region = A[i : i + 3, 0:9]
    assert isinstance(region, te.TensorSlice)
    scalar = te.placeholder((), name="S")
    assert scalar().op is READ and scalar[()] is scalar()
    whole = A.astype("int32")
    assert (whole.dtype, whole.op.tag, A.astype("float32")) == ("int32", "elemwise", A)
    total: Any = A[0, 0]
    for k in range(3000):
        total = total + A[i, k]
    assert len(tir.input_tensors((total,))) == 1
    assert tir.substitute(total, {i: j}).dtype == "float32"
    assert "…" in repr(total)


def test_elements_and_functions_of_data_are_opaque_terms() -> None:
    term = IDX[i + 1]
    assert isinstance(term, Expr) and term.op is ops.LOAD and isinstance(term.data, TensorElement)
    assert term.data.tensor is IDX and (term.data.lower, term.data.upper) == (-3, 24)
    assert IDX[i + 1] is term and IDX[i] is not term
    assert isinstance(i + tir.indexmod(IDX[i], 4), Expr)
    assert (I8[i].data.lower, I8[i].data.upper) == (-128, 127)
    assert I8[i].dtype == "int8" and I8[i].astype("int32").dtype == "int32"
    assert IDX[i].astype("int32") is IDX[i] and i.astype("int32") is i
    wide = i.astype("int64")
    assert wide.dtype == "int64" and (wide * IDX[i]).dtype == "int64" and IDX[wide + 1] is IDX[i + 1]
    term = (A[i, j] * 2.5).astype("int32")
    assert isinstance(term, Expr) and isinstance(term.data, IntFunction) and term.args == (i, j)
    moved = tir.substitute(A[term, 0], {i: i + 1})
    assert moved.args[0].args == (i + 1, j) and moved.args[0].data is term.data
    assert tir.input_tensors((IDX[term],)) == (A, IDX)
    picked = tir.Select(A[i, 0] > 0, i, j)
    assert isinstance(picked, Expr) and picked.free_vars() == (i, j)
    b = te.placeholder((8, 9), name="B")
    value = A[IDX[(A[i, j]).astype("int32")], 0] + A[i, j]
    from bound.tensor import redirected

    moved = redirected(value, {A: b})
    assert tir.input_tensors((value,)) == (A, IDX) and tir.input_tensors((moved,)) == (b, IDX)
    assert redirected(value, {}) is value


def test_reducers() -> None:
    k = te.reduce_axis((0, 4), "k")
    total = te.sum(A[i, k], axis=k, where=k <= i)
    assert total.op is REDUCE and total.data.axis == (k,) and total.args == (A[i, k], k <= i)
    assert total.data.combiner.name == "sum" and total.data.combiner.identity[0].data == 0.0
    assert te.max(A[i, k], axis=k).data.combiner.identity[0].data == float("-inf")
    assert te.max(I8[k], axis=k).data.combiner.identity[0] is tir.const(-128)
    assert te.max(A[i, 0], 0.0).op is ops.MAX and te.sum(i, j) is i + j

    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), tir.min_value(t1)),
        name="argmax",
    )
    first, second = te.compute((8,), lambda y: argmax((k, A[y, k]), axis=k), name="M")
    assert (first.dtype, second.dtype) == ("int32", "float32") and first.op.reduce_axis == (k,)


test_bad_operands_get_a_clear_refusal = refused_with_words(
    [
        ("index 0 of A must be an integer", lambda: A[1.5, j]),
        ("A has 2 dimensions, not 3", lambda: A[i, j, 0]),
        ("index 0 of A must be an integer expression", lambda: A[i < 3, j]),
        ("must be a truth value", lambda: tir.all(True, i < 3)),
        ("the condition of select must be a truth value", lambda: tir.Select(i, 1, 2)),
        ("must be a value of a tensor program", lambda: tir.Select(i < 3, "x", 2.0)),
        ("a truth value is not a number", lambda: (i < 3) + A[i, j]),
        ("must not be negative", lambda: te.placeholder((4, -1))),
        ("extent 1 of placeholder must be an integer", lambda: te.placeholder((4, 2.5))),
        ("must be a type", lambda: te.placeholder((4,), "float31")),
        ("value_range of P is for integers", lambda: te.placeholder((4,), name="P", value_range=(0, 3))),
        ("value_range of P has no value", lambda: te.placeholder((4,), "int32", name="P", value_range=(4, 3))),
        ("takes 1 indices, but its shape has 2", lambda: te.compute((4, 4), lambda y: A[y, 0], name="C")),
        ("takes 2 indices, but its shape has 1", lambda: te.compute((4,), lambda y, x: A[y, x], name="C")),
        ("must be a function of the indices", lambda: te.compute((4,), 5, name="C")),
        ("the formula of C must be a value", lambda: te.compute((4,), lambda y: None, name="C")),
        ("axis of a reduction must be made by reduce_axis", lambda: te.sum(A[i, j], axis=i)),
        ("needs a tag", lambda: te.thread_axis("")),
        ("must be a Range or a pair", lambda: te.reduce_axis((0, 1, 2))),
        ("must be a type", lambda: tir.Cast("floaty", i)),
        ("not an integer operation", lambda: i / 2),
        ("takes operations", lambda: te.create_schedule(5)),
        ("uses k without reducing over it", lambda: te.compute((4,), lambda y: A[y, K], name="C")),
        ("a reduction stands inside a larger", lambda: te.compute((4,), lambda y: te.sum(A[y, K], axis=K) / 4.0)),
        ("some outputs of C are red", lambda: te.compute((4,), lambda y: (te.sum(A[y, K], axis=K), A[y, 0]), name="C")),
        ("uses y, an axis of another operation", lambda: te.create_schedule(te.compute((4,), lambda x: A[x, AXIS]).op)),
        ("a reduction of a reduction", lambda: te.sum(te.sum(A[i, K], axis=K), axis=te.reduce_axis((0, 2)))),
    ],
    InputError,
    TypeError,
)


@pytest.mark.parametrize(
    ("dtype", "with_1", "with_2_to_31", "with_half"),
    [
        ("int8", "int32", "int64", "float32"),
        ("uint8", "int32", "int64", "float32"),
        ("int16", "int32", "int64", "float32"),
        ("int32", "int32", "int64", "float32"),
        ("uint32", "uint32", "int64", "float32"),
        ("int64", "int64", "int64", "float32"),
        ("uint64", "uint64", "uint64", "float32"),
        ("float16", "float16", "float16", "float32"),
        ("bfloat16", "bfloat16", "bfloat16", "float32"),
        ("float64", "float64", "float64", "float64"),
    ],
)
def test_a_python_number_has_the_type_it_has_in_tvm(dtype: str, with_1: str, with_2_to_31: str, with_half: str) -> None:
    """TVM gives the same types to these formulas."""
    x = te.placeholder((4,), dtype, name="X")[i]
    for make in (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, tir.max, tir.min):
        assert make(x, 1).dtype == make(1, x).dtype == with_1
        assert make(x, 2**31).dtype == make(2**31, x).dtype == with_2_to_31
        if make not in (operator.floordiv, operator.mod) or dtypes.is_float(dtype):
            assert make(x, 0.5).dtype == make(0.5, x).dtype == with_half
    assert tir.Select(x > 0, x, 0).dtype == tir.if_then_else(x > 0, 1, x).dtype == with_1
    if dtypes.is_int(dtype):  # in a bit operation, a number takes the type of the other operand if it fits
        for make in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
            assert make(x, 1).dtype == make(1, x).dtype == dtype
        assert (x & 300).dtype == ("int32" if dtype in ("int8", "uint8") else dtype)
    assert (-x).dtype == abs(x).dtype == (x + tir.const(1, dtype)).dtype == dtype


def stored(b: BoundsMap, tensor: Any) -> list[tuple[str, str]]:
    return [(str(r.min), str(r.extent)) for r in b.allocated(tensor)]


# -- scans, externs and tiles -----------------------------------------------------------------------------------------

# rows that add to the row before; `mid` is a part of the update
SCAN = """
    X = given({m}, {n}); S = given({m}, {n})
    Y[t:{m}, i:{n}] = X[t, i] * 2
    init[_:1, i:{n}] = Y[0, i]
    mid[t:{m}, i:{n}] = S[t - 1, i] + Y[t, i]
    update[t:{m}, i:{n}] = mid[t, i] + S[t - 1, {n} - 1 - i]
    scan = te.scan(init, update, S, inputs=[Y], name="scan")"""
TILE = """
    tile = given(3, 4); r = axis(0, 3)
    column[j:4] = sum_(tile[r, j], axis=r)
    sum3 = te.decl_tensor_intrin(column.op, lambda ins, outs: None, name="sum3")
    A = given(20, 16); B = pointwise(A)
    C = te.compute((9, 4, 4), lambda i, j: sum3(B[2 * i : 2 * i + 3, 4 * j : 4 * j + 4]), name="C")"""
INFERRED: dict[str, tuple[str, dict[str, object]]] = {
    "a body attached inside the update of a scan": (
        f"""{SCAN.format(m=6, n=10)}
        last[i:10] = scan[5, i]
        update split i 4; mid compute_at update i.outer; b = infer(s); check(s)""",
        {
            "stored(b, mid), stored(b, update)": (
                [("scan.idx + 1", "1"), ("i.outer * 4", "4")], [("scan.idx + 1", "1"), ("0", "10")]
            ),
            "[b.required(t).count_total() for t in (mid, update, init, Y)]": [50, 50, 10, 60],
            "b.required(scan).count(), b.computed(scan).count()": (10, 60),
            "int(b[scan.op.scan_axis].min), int(b[scan.op.scan_axis].extent)": (1, 5),
        },
    ),
    "a scan of symbolic size": (
        f"""m = var(); n = var()
        {SCAN.format(m="m", n="n")}
        last[i:n] = scan[m - 1, i]
        mid compute_at update t; b = infer(s); check(s, {{"m": 4, "n": 3}}); check(s, {{"m": 1, "n": 2}})""",
        {"stored(b, mid)": [("scan.idx + 1", "1"), ("0", "n")]},
    ),
    "a scan that starts from two rows and of which little is read": (
        """
        X = given(7, 5); S = given(7, 5)
        init[t:2, i:5] = X[t, i]
        update[t:7, i:5] = S[t - 1, i] + S[t - 2, i] * X[t, i]
        scan = te.scan(init, update, S, inputs=[X])
        picked[i:2] = scan[6, 2 * i]
        b = infer(s); check(s)""",
        {
            "b.required(scan).count(), b.computed(scan).count(), b.required(init).count()": (2, 35, 10),
            "b.required(update).count_total(), b.required(X).count()": (25, 35),
        },
    ),
    "an extern of two outputs inside a loop": (
        """
        A = given(10); B = pointwise(A)
        call = lambda ins, outs: tir.call_packed("f", ins[0], *outs)
        first, second = te.extern([(10,), (5,)], [B], call, name="E", dtype="float32")
        C[i:3] = second[i]
        second compute_at C i; B compute_at C i; b = infer(s)""",
        {
            "b.required(first).is_empty, b.required(second).count_total(), b.required(B).count_total()": (True, 3, 30),
            "stored(b, first), stored(b, second)": ([("0", "10")], [("0", "5")]),
        },
    ),
    "a tile reads the region that it declares": (
        f"{TILE}\nschedule C\nC split i 2; B compute_at C i.outer; b = infer(s)",
        {
            "stored(b, B)": [("i.outer * 4", "5"), ("0", "16")],
            "b.required(B).count_max(), b.required(B).count_total()": (80, (4 * 5 + 3) * 16),
        },
    ),
    "a loop that an intrinsic replaces runs whole tiles": (
        """
        part = given(4); twice = pointwise(part)
        intrin = te.decl_tensor_intrin(twice.op, lambda ins, outs: None, name="twice4")
        A = given(12, 8); B = pointwise(A)
        C[i:12, j:8] = B[i, j] + 1
        schedule C
        C split j 4; s[C].tensorize(s[C].leaf_iter_vars[-1], intrin); B compute_at C j.outer; b = infer(s)""",
        {"stored(b, B), b.guard(C)": ([("i", "1"), ("j.outer * 4", "4")], ())},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", INFERRED)
def test_a_case(name: str) -> None:
    text, expected = INFERRED[name]
    Written(text, infer=infer_bound, stored=stored, check=check).shows(expected)


def test_an_extern_outside_the_loop_of_its_producer_is_refused() -> None:
    p = Written(f"{INFERRED['an extern of two outputs inside a loop'][0]}; second compute_root", infer=infer_bound)
    with pytest.raises(ScheduleError, match="stage B: it is computed at i of C, but E, which reads it, is outside"):
        infer_bound(p.s)


def test_threads_around_a_scan_say_how_many_they_are() -> None:
    def program(block: Any, thread: Any) -> Any:
        p = Written(SCAN.format(m=6, n=8))
        p.s[p.scan].env_threads([block, thread])
        for stage in (p.s[p.init], p.s[p.update]):
            outer, inner = stage.split(stage.op.axis[1], 4)
            stage.bind(outer, block)
            stage.bind(inner, thread)
        return p.s

    threads = te.thread_axis((0, 2), "blockIdx.x"), te.thread_axis((0, 4), "threadIdx.x")
    infer_bound(program(*threads))
    with pytest.raises(ScheduleError, match=r"stage scan: the thread axis blockIdx.x of env_threads has no extent"):
        infer_bound(program(te.thread_axis("blockIdx.x"), threads[1]))
    with pytest.raises(ScheduleError, match=r"stage (update|scan): .* blockIdx.x .* extent"):
        infer_bound(program(te.thread_axis((0, 1), "blockIdx.x"), threads[1]))


# -- data in indices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value_range", "first", "number"),
    [(None, 0, 20), ((2, 9), 3, 8), ((-5, 100), 0, 20), ((3, 3), 4, 1), ((-9, 2), 0, 4)],
)
@pytest.mark.parametrize("domain", ["auto", "interval", "stride", "isl"])
def test_elements_chosen_by_elements(value_range: Any, first: int, number: int, domain: str) -> None:
    """Any value of the declared range may occur, as far as it keeps the access inside of the tensor."""
    p = Written("""
        I = given(6, dtype="int32", value_range=values); A = given(20); B = pointwise(A)
        C[i:6] = B[I[i] + 1]
        B compute_at C i""", values=value_range)  # fmt: skip
    b = infer_bound(p.s, domain=domain)
    assert stored(b, p.B) == [(str(first), str(number))] and b.required(p.B).count_max() == number
    assert b.required(p.I).count() == 6


def test_operations_on_float_constants_are_folded_in_their_type() -> None:
    third = tir.const(1.0, "float32") / 3.0
    assert third.value == np.float32(1) / np.float32(3)
    assert (tir.const(1e38, "float32") * 10.0).op.name == "mul"  # not finite
    assert (tir.const(1.0, "float32") / 0.0).op.name == "div"
    assert bool(tir.const(1.0, "float32") < 2.0) and not bool(tir.const(1.0, "float64") >= 2.0)
    values = [-2.5, -0.0, 0.1, 3.0, 65504.0]
    for dtype in ("float16", "float32", "float64"):
        kind = np.dtype(dtype).type
        for a, b in itertools.product(values, repeat=2):
            for name in ("add", "sub", "mul", "truediv"):
                function = getattr(operator, name)
                folded = function(tir.const(a, dtype), tir.const(b, dtype))
                with np.errstate(all="ignore"):
                    expected = function(kind(a), kind(b))
                assert not hasattr(folded, "value") or folded.value == expected
    A = te.placeholder((3,), name="A")
    with pytest.raises(AttributeError, match="no constant"):
        _ = (A[0] + 1.0).value


def test_shapes_add_to_lists_and_a_tensor_without_dimensions_is_its_element() -> None:
    shape = te.placeholder((3, 4, 5), name="A").shape
    assert shape == (3, 4, 5) and shape[:2] == (3, 4)
    one, longer = [1], (6,)
    before, after = shape[:1] + one, one + shape[2:]
    assert isinstance(before, list) and isinstance(after, list) and isinstance(shape + longer, tuple)
    assert [int(e) for e in before] == [3, 1] and [int(e) for e in after] == [1, 5]
    assert shape[0] % 3 == 0 and shape[1] % 3 != 0 and shape[0] * 2 == 6
    assert shape[0] // (shape[0] - 3) != 1  # the left side has no value
    x, kind, scale = te.placeholder((4,), "int32", "X"), te.placeholder((), "int32", "K"), te.placeholder((), name="S")
    y = te.compute((4,), lambda i: tir.if_then_else(kind.equal(1), tir.max(x[i], kind), 0), name="Y")
    z = te.compute((4,), lambda _: scale, name="Z")
    s = te.create_schedule([y.op, z.op])
    given = {"X": np.array([-3, 5, 0, 1], "int32"), "K": np.array(1, "int32"), "S": np.array(2.5, "float32")}
    found = run(lower(s, [x, kind, scale, y, z]), given)
    assert found["Y"].tolist() == [1, 5, 1, 1]
    assert found["Z"].tolist() == [2.5] * 4
    with pytest.raises(InputError, match="X has 1 dimensions: compare its elements"):
        x.equal(1)


INDEX = te.placeholder((40,), "int32", name="INDEX", value_range=(3, 9))
RAW = te.placeholder((40,), "int32", name="RAW")
SMALL = te.placeholder((40,), "int8", name="SMALL")
WIDE = te.placeholder((40,), "int64", name="WIDE")
REAL = te.placeholder((40,), name="REAL")
NONE = te.reduce_axis((2, 2), "none")
FORMULAS: dict[str, tuple[Any, tuple[int, int] | None]] = {
    "clamped": (lambda x: te.max(te.min(x, 20), 10), (10, 20)),
    "a given range": (lambda x: INDEX[x] * 2 - 1, (5, 17)),
    "clamped data": (lambda x: te.max(te.min(RAW[x] + 1, 20), 10), (10, 20)),
    "a remainder": (lambda x: RAW[x] % 5, (0, 4)),
    "a narrow type": (lambda x: SMALL[x].astype("int32") + 1, (-127, 128)),
    "a cast that wraps": (lambda x: INDEX[x].astype("int8") * 100, None),
    "a cast that holds": (lambda x: te.max(te.min(RAW[x], 9), 2).astype("uint8"), (2, 9)),
    "a sum of narrow ones": (lambda x: (SMALL[x] + SMALL[x]) // 2, None),
    "a float": (lambda x: REAL[x].astype("int8").astype("int32") + 200, (72, 327)),
    "a choice by a float": (lambda x: tir.Select(REAL[x] > 0.0, INDEX[x], 1), (1, 9)),
    "a choice of wide ones": (lambda x: tir.Select(REAL[x] > 0.0, SMALL[x] * 100, 1).astype("int32"), None),
    "too wide on the way": (lambda x: (WIDE[x] * 4 + 1) % 5, None),
    "of popcounts": (lambda x: tir.popcount(SMALL[x]) + 1, (1, 9)),
    "a largest": (lambda x: te.max(INDEX[x] * K, axis=K), (3, 36)),
    "a largest of some": (lambda x: te.max(INDEX[x] * K, axis=K, where=K > 2), (-(1 << 31), 36)),
    "a largest of nothing": (lambda x: te.max(INDEX[x] + NONE, axis=NONE), None),
    "a sum": (lambda x: te.sum(INDEX[x] - 4 + K - K, axis=K), (-4, 20)),
    "a sum that wraps": (lambda x: te.sum(INDEX[x].astype("int8") * 9 + (K - K), axis=K), None),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_elements_lie_in_the_range_of_their_formula(name: str) -> None:
    formula, expected = FORMULAS[name]
    tensor = te.compute((40,), formula, name="T")
    known = tensor.op.range_of(0)
    if expected is not None:
        assert known == expected
    low, high = tensor.element.lower, tensor.element.upper
    for seed in range(5):
        given = {t.name: random_array(t, {}, seed) for t in tensor.op.input_tensors}
        ends = {"int8": (-128, 127), "int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
        for t in tensor.op.input_tensors:
            if t.dtype in ends and t.value_range is None:
                given[t.name][:4] = [*ends[t.dtype], 0, -1]
            elif t.dtype == "float32":
                given[t.name][:4] = [100.5, -128.0, 127.0, 0.0]  # beyond int8 they have no value
        elements = evaluate(tensor, given)
        assert low is None or low <= elements.min()
        assert high is None or elements.max() <= high


def test_what_is_known_of_data_narrows_what_it_chooses() -> None:
    p = Written("""
        image = given(2000); before = pointwise(image)
        index[x:100] = te.max(te.min(x, 20), 10)
        out[x:100] = before[index[x]]""")
    b = infer_bound(p.s)
    assert stored(b, p.before) == [("10", "11")]
    assert not b.required(p.before).is_exact and "index" in b.required(p.before).notes[-1]
    check(p.s)
    for index, exact in (("index = given(8, dtype='int32', value_range=(0, 30))", True), ("index[x:8] = x * 2", False)):
        p = Written(f"{index}\nimage = given(40); before = pointwise(image)\nout[x:8] = before[index[x]]")
        assert infer_bound(p.s).required(p.before).is_exact is exact
    p = Written("""
        values = given(6, 9); table = given(50); before = pointwise(table); k = axis(2, 9)
        most = lambda x, y: (tir.Select(x[1] > y[1], x[0], y[0]), tir.Select(x[1] > y[1], x[1], y[1]))
        reducer = te.comm_reducer(most, lambda a, b: (tir.const(-1, a), te.min_value(b)))
        best[i:6] = reducer((k, values[i, k]), axis=k)
        place, value = best
        out[i:6] = before[te.max(place[i], 0)]""")
    assert p.place.op.range_of(0) == (-1, 8)
    assert [r.extent.data for r in infer_bound(p.s).allocated(p.before)] == [9]
    check(p.s)


TAILS = ("guard", "shrink", "shift_inwards", "round_up")


@swept({tail: (25, 400, RANDOMS, (), tail) for tail in TAILS})
def test_the_place_of_an_element_holds_that_element(tail: str, rng: random.Random) -> None:
    """Every point of the roots: its loop values lie in the ranges of the loops and lead back to it."""
    n = te.size_var("n")
    extents = [rng.choice([n, 0, 1, 2, 3, 5, 7]) for _ in range(rng.choice([1, 2]))]
    A = te.placeholder(extents, "int32", name="A")
    B = te.compute(extents, lambda *i: A(*i) + 1, name="B")
    stage = te.create_schedule(B.op)[B]
    for _ in range(rng.choice([1, 2, 3])):
        random_step(rng, stage, (tail,), most=4, annotate=False)
    roots, leaves = B.op.axis, stage.leaf_iter_vars
    ranges = pass_down_domain(stage.relations, {iv: iv.dom for iv in roots if iv.dom is not None})
    down = pass_down_index(stage.relations, ranges, {iv: iv for iv in roots})
    up = pass_up_index(stage.relations, ranges, {iv: iv for iv in leaves})
    points = 0
    for size in range(5):
        lengths = [size if e is n else e for e in extents]
        for point in itertools.product(*map(range, lengths)):
            at = {n: size, **dict(zip(roots, point, strict=True))}
            places = {iv: evaluate_index(down[iv], at) for iv in leaves}
            assert [evaluate_index(up[iv], {n: size, **places}) for iv in roots] == list(point)
            assert all(0 <= x < evaluate_index(as_expr(ranges[iv].extent), {n: size}) for iv, x in places.items())
            points += 1
    assert points or 0 in extents


# -- the reference evaluator -------------------------------------------------------------------------------------------


def test_the_reference_reduces_some_points_and_names_what_is_undefined() -> None:
    a = te.placeholder((3, 37), name="A")
    k = te.reduce_axis((2, 35), "k")
    c = te.compute((3,), lambda i: te.max(a[i, k] * 2, axis=k, where=tir.floormod(k, 3) != 1), name="C")
    x = random_array(a, {})
    kept = [r for r in range(2, 35) if r % 3 != 1]
    np.testing.assert_allclose(evaluate(c, {a: x}), (x[:, kept] * 2).max(1), rtol=2e-5)
    a = te.placeholder((20,), name="A")
    idx = te.placeholder((8,), "int32", name="IDX", value_range=(-3, 24))
    safe = te.compute((8,), lambda i: a[te.max(te.min(idx[i], 7), 4)], name="C")
    x, at = random_array(a, {}), np.array([-3, 0, 4, 5, 7, 8, 24, 6], np.int32)
    np.testing.assert_allclose(evaluate(safe, {a: x, idx: at}), x[np.clip(at, 4, 7)], rtol=2e-5)
    raw = te.compute((8,), lambda i: a[idx[i]], name="R")
    with pytest.raises(UndefinedError, match=r"R\[0\] is undefined"):
        evaluate(raw, {a: x, idx: at})
    guarded = te.compute((8,), lambda i: tir.if_then_else(tir.all(idx[i] >= 0, idx[i] < 20), raw[i], 0.0), name="G")
    wanted = np.where((at >= 0) & (at < 20), x[np.clip(at, 0, 19)], 0)
    np.testing.assert_allclose(evaluate(guarded, {a: x, idx: at}), wanted, rtol=2e-5)
    with pytest.raises(InputError, match="the array for A has shape"):
        evaluate(safe, {a: x[:3], idx: at})
    with pytest.raises(InputError, match="the tensor IDX has no value"):
        evaluate(safe, {a: x})
